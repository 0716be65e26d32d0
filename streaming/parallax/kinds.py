"""One table with all kinds of findings: what each is about, how grave it is, and its texts for people.

Add a kind here and in `parallax.model.FindingKind`. Alerts, metrics, page and messages take all that they need from
here. How a kind is raised, proven and ended is code of its own: docs/contribute/adding.md has the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from parallax import remedies
from parallax.model import NOBODY, FindingKind, Rule, Severity
from parallax.remedies import Case


class Family(StrEnum):
    """A group of kinds whose findings are about the same thing, such as a transaction or a key.

    The family decides which code judges the kind, and what a finding's cause is made of.
    """

    TRANSACTION = "transaction"
    """A transaction on one replica. The kinds share the cause ``txn:<producer id>:<start>``: one turns into another."""
    KEY = "key"
    """The latest value of a key (I3)."""
    CONTENT = "content"
    """The record at one offset (I1)."""
    TRUNCATION = "truncation"
    """The end of a log."""
    HEAD = "head"
    """The beginning of a log."""


class Proves(StrEnum):
    """What proves that the accused is wrong. It binds every replica."""

    NOTHING = "nothing"
    """Nothing does: a finding of the kind accuses nobody."""
    TOMBSTONE = "tombstone"
    """A surely committed tombstone at the finding's offset: the accused shows an older value of its key."""
    END_MARKER = "end_marker"
    """The end marker that ended the transaction: the accused has missed it, whatever marker it has instead."""
    OWN_END_MARKER = "own_end_marker"
    """The end marker in the accused's own log."""
    RECORD = "record"
    """A record at the finding's offset, or a newer value of its key: the accused shows neither."""
    NEWER_EPOCH = "newer_epoch"
    """A newer leader epoch, in which another log has replaced what was written before."""
    LOWER_START = "lower_start"
    """Another replica's log that begins lower. No policy deletes records."""


class Wrong(StrEnum):
    """What a wrong replica shows at the finding's offset. By it a loss is known to have spread."""

    SHOWN = "shown"
    """The record there, which no consumer should be shown."""
    LACKED = "lacked"
    """Neither the record there nor a newer one of its key."""
    OLDER = "older"
    """A value of the key that is older than the record there."""
    OPEN = "open"
    """The transaction from there on as open."""
    BEGUN_ABOVE = "begun_above"
    """A log that begins there or above, or is empty."""


class Clears(StrEnum):
    """Which of the other replicas the proof of a finding shows to be right (`parallax.findings.cleared`)."""

    NOBODY = "nobody"
    """The proof says that the accused is wrong, and nothing of the others."""
    NO_VALUE = "no_value"
    """A tombstone clears those that show no value, unless another shows a newer value than the accused's."""
    OTHER_OUTCOME = "other_outcome"
    """An end marker clears those that show the outcome that it gives, or are known to have it."""
    OWN_END = "own_end"
    """The accused's own end marker, directly behind the record, clears those that show the outcome that it gives.

    Nobody is cleared if the marker lies further up: it may be of a later transaction. Then replicas that agree with it
    may have missed the marker of the record's own transaction.
    """
    DIRECT_END = "direct_end"
    """An end marker directly behind the transaction's first record clears those that ended the transaction as it says.

    Nobody is cleared without it: that a transaction has ended does not say how. A marker further up may be of a later
    transaction.
    """
    NEWER_EPOCH = "newer_epoch"
    """A newer leader epoch clears those that hold what the leader's log holds."""
    HELD_RECORD = "held_record"
    """Where nothing is compacted, a record clears those that hold it.

    A newer value clears nobody: it may have been deleted, and a replica may since have been copied from one that has
    missed that.
    """


class Extent(StrEnum):
    """Which part of the accused's log is wrong: what its consumers meet, and how a leader shares it.

    A leader always shares what its own side shows (`parallax.findings.decide.case.Decision.is_shared_by_leader`).
    """

    RECORD = "record"
    """The finding's record."""
    VALUE = "value"
    """An old value of a key. A leader that shows the same value shares it, on whichever side it is."""
    BELOW = "below"
    """All below the finding's offset. A leader whose log begins as late shares it."""
    FROM = "from"
    """All from the finding's offset on. A leader that lacks the same records shares it."""
    STOPPED = "stopped"
    """All from the transaction's first record on: consumers in read_committed get nothing there."""


STOPS_AT = "the last stable offset there"
"""Where consumers of a frozen replica stop, in its words. A text that knows the offset has its number instead."""


@dataclass(frozen=True, slots=True)
class Kind:
    """All properties and texts of one kind of finding.

    Attributes:
        rule: the invariant that it breaks.
        family: what it is about.
        rank: of two kinds of one family, that with the higher rank says more of the same cause, and replaces the other.
        shows: the sentence on what the replicas show. Fields: broker, partition, offset, others, sides, marker,
            producer_id, start, lso, shown. ``others`` is the word "on" and the brokers that show something else than
            the accused, or were read to show it. ``sides`` says which brokers show what. ``marker`` is the offset of
            the end marker, ``start`` that of the transaction. ``lso`` is the accused's LSO, and ``shown`` is the offset
            of the value that the accused shows.
        was: the same sentence in the past tense, for a finding that is over. Fields: broker, partition, offset, shown.
            ``shown`` is the offset that the finding's texts and commands had named.
        headline: what the accused does wrong, in a few words, without the offset. Fields: broker, partition. It is
            about one record or transaction; that about many is one of `Variant.MANY`.
        led: what an alert adds to ``headline`` while the finding is exposed or spread, so that consumers of the leader
            meet what is wrong.
        not_led: what an alert adds to ``headline`` otherwise. Field: broker.
        consumers: what happens to consumers of the accused; it follows the word "consumers".
        case: what ends it: the repairs, and the section of the runbook about them.
        proof: what proves it, and so what lies at the finding's offset.
        wrong: what a replica shows there that is wrong in the same way.
        clears: which of the other replicas its proof shows to be right.
        extent: which part of the accused's log is wrong.
        outcome: the outcome that the accused wrongly shows, ``committed`` or ``aborted``; empty if it is about none, or
            about either.
        severity: whether it pages or opens a ticket.
        agreeing: how many probes in a row must prove it. It is more than one if the kind pages, and its proof rests on
            what a replica does not list at the moment, not on records and markers that it shows.
        many: the sentence on many keys or transactions together; empty if findings of the kind never come in numbers.
            Fields: broker, partition, count, counted (the number with its noun), lowest and highest (offsets).
    """

    rule: Rule
    family: Family
    rank: int
    shows: str
    was: str
    headline: str
    consumers: str
    case: Case
    proof: Proves
    wrong: Wrong
    clears: Clears
    extent: Extent = Extent.RECORD
    outcome: str = ""
    severity: Severity = Severity.CRITICAL
    agreeing: int = 1
    many: str = ""
    led: str = ""
    not_led: str = ""

    @property
    def runbook(self) -> str:
        """The anchor of the heading in docs/runbook.md that says what to do."""
        return self.case.anchor


KINDS: Mapping[FindingKind, Kind] = {
    FindingKind.MARKER_MISSING: Kind(
        rule=Rule.OUTCOME,
        family=Family.TRANSACTION,
        rank=0,
        shows="Broker {broker} lacks the end marker of the transaction of producer {producer_id} that starts at "
        "offset {start} of {partition}; it has ended {others}.",
        was="Broker {broker} lacked the end marker of a transaction of {partition} (offset {offset}).",
        headline="Broker {broker} lacks a transaction's end marker in {partition}",
        consumers="in read_committed may read that transaction though it was rolled back, miss it though it was "
        "committed, or get nothing beyond it",
        case=remedies.MISSED_MARKER,
        proof=Proves.END_MARKER,
        wrong=Wrong.OPEN,
        clears=Clears.DIRECT_END,
        severity=Severity.WARNING,
    ),
    FindingKind.READ_COMMITTED_FROZEN: Kind(
        rule=Rule.PROGRESS,
        family=Family.TRANSACTION,
        rank=1,
        shows="The last stable offset of {partition} on broker {broker} is stuck at {lso}, held by a transaction of "
        "producer {producer_id} that has ended {others}.",
        was="A transaction that had ended held back the last stable offset of {partition} on broker {broker}.",
        headline="Broker {broker} holds an ended transaction of {partition} open",
        led=": read_committed stands still",
        not_led=": keep it from leading, or read_committed stands still",
        consumers=f"in read_committed get nothing beyond {STOPS_AT}",
        case=remedies.MISSED_MARKER,
        proof=Proves.END_MARKER,
        wrong=Wrong.OPEN,
        clears=Clears.DIRECT_END,
        extent=Extent.STOPPED,
        agreeing=2,
    ),
    FindingKind.ABORTED_RECORD_COMMITTED: Kind(
        rule=Rule.OUTCOME,
        family=Family.TRANSACTION,
        rank=2,
        shows="Broker {broker} shows the rolled-back record at offset {offset} of {partition} as committed; it was "
        "aborted {others}.",
        was="Broker {broker} showed the rolled-back record at offset {offset} of {partition} as committed.",
        headline="Broker {broker} shows a rolled-back record of {partition} as committed",
        consumers="in read_committed read data that was rolled back",
        case=remedies.MISSED_MARKER,
        proof=Proves.END_MARKER,
        wrong=Wrong.SHOWN,
        clears=Clears.OTHER_OUTCOME,
        outcome="committed",
        many="Broker {broker} takes rolled-back transactions of {partition} for committed, {count} in all (records at "
        "offsets {lowest} to {highest}).",
    ),
    FindingKind.COMMITTED_RECORD_ABORTED: Kind(
        rule=Rule.OUTCOME,
        family=Family.TRANSACTION,
        rank=2,
        shows="Broker {broker} hides the committed record at offset {offset} of {partition} as aborted; it was "
        "committed {others}.",
        was="Broker {broker} hid the committed record at offset {offset} of {partition} as aborted.",
        headline="Broker {broker} hides a committed record of {partition} as aborted",
        consumers="in read_committed never see data that was committed",
        case=remedies.MISSED_MARKER,
        proof=Proves.END_MARKER,
        wrong=Wrong.LACKED,
        clears=Clears.OTHER_OUTCOME,
        outcome="aborted",
        many="Broker {broker} takes committed transactions of {partition} for aborted, {count} in all (records at "
        "offsets {lowest} to {highest}).",
    ),
    FindingKind.OUTCOME_CONTRADICTS_MARKER: Kind(
        rule=Rule.OUTCOME,
        family=Family.TRANSACTION,
        rank=1,
        shows="Broker {broker} shows the record at offset {offset} of {partition} otherwise than the end marker of its "
        "own log says (offset {marker}): its index of aborted transactions is wrong there.",
        was="Broker {broker} showed the record at offset {offset} of {partition} otherwise than its end marker says.",
        headline="Broker {broker} shows a record of {partition} otherwise than its own end marker says",
        consumers="in read_committed read data that was rolled back, or never see data that was committed",
        case=remedies.WRONG_INDEX,
        proof=Proves.OWN_END_MARKER,
        wrong=Wrong.LACKED,
        clears=Clears.OWN_END,
        many="Broker {broker} shows records of {partition} otherwise than the end markers of its own log say, of "
        "{counted} in all (records at offsets {lowest} to {highest}): its index of aborted transactions is "
        "wrong there.",
    ),
    FindingKind.DELETED_RECORD_RESURRECTED: Kind(
        rule=Rule.LATEST_VALUE,
        family=Family.KEY,
        rank=1,
        shows="Broker {broker} still shows a value of {partition} (offset {shown}) whose key was deleted at offset "
        "{offset}. Shown: {sides}.",
        was="Broker {broker} showed a value of {partition} whose key was deleted at offset {offset}.",
        headline="Broker {broker} still shows a deleted record of {partition}",
        consumers="read what was deleted",
        case=remedies.MISSED_TOMBSTONE,
        proof=Proves.TOMBSTONE,
        wrong=Wrong.OLDER,
        clears=Clears.NO_VALUE,
        extent=Extent.VALUE,
        many="Broker {broker} still shows values of {partition} whose keys were deleted, {count} in all (deleted at "
        "offsets {lowest} to {highest}).",
    ),
    FindingKind.RECORD_MISSING: Kind(
        rule=Rule.LATEST_VALUE,
        family=Family.KEY,
        rank=1,
        shows="Broker {broker} lacks the record at offset {offset} of {partition} or shows an older one. "
        "Shown: {sides}.",
        was="Broker {broker} lacked the record at offset {offset} of {partition} or showed an older one.",
        headline="Broker {broker} lacks a record of {partition}, or shows an older one",
        consumers="miss what was written",
        case=remedies.DIFFERENT_RECORDS,
        proof=Proves.RECORD,
        wrong=Wrong.LACKED,
        clears=Clears.HELD_RECORD,
        many="Broker {broker} lacks records of {partition} or shows older ones, {count} in all (offsets {lowest} to "
        "{highest}).",
    ),
    FindingKind.VISIBILITY_MISMATCH: Kind(
        rule=Rule.LATEST_VALUE,
        family=Family.KEY,
        rank=0,
        shows="The replicas of {partition} do not show the same latest value for the key of offset {offset}: {sides}.",
        was="The replicas of {partition} did not show the same for the record at offset {offset} or its key.",
        headline="Broker {broker} shows another latest value of {partition} than the others",
        consumers="may read a value that is wrong, or miss one",
        case=remedies.DIFFERENT_RECORDS,
        proof=Proves.NOTHING,
        wrong=Wrong.LACKED,
        clears=Clears.NOBODY,
        many="The replicas of {partition} do not show the same latest values for {counted} (offsets {lowest} to "
        "{highest}).",
    ),
    FindingKind.CONTENT_MISMATCH: Kind(
        rule=Rule.CONTENT,
        family=Family.CONTENT,
        rank=0,
        shows="The replicas of {partition} do not hold the same at offset {offset}: {sides}.",
        was="The replicas of {partition} did not hold the same at offset {offset}.",
        headline="Broker {broker} holds a wrong record of {partition}",
        consumers="may read a record that is wrong",
        case=remedies.DIFFERENT_RECORDS,
        proof=Proves.NEWER_EPOCH,
        wrong=Wrong.LACKED,
        clears=Clears.NEWER_EPOCH,
    ),
    FindingKind.LOG_TRUNCATED: Kind(
        rule=Rule.CONTENT,
        family=Family.TRUNCATION,
        rank=0,
        shows="The log of {partition} on broker {broker} was truncated to offset {offset}: what it had shown from "
        "there on is lost or replaced.",
        was="The log of {partition} on broker {broker} lacked what was truncated from offset {offset} on.",
        headline="The log of {partition} on broker {broker} was truncated",
        consumers="miss what was truncated",
        case=remedies.SHARED,
        proof=Proves.NEWER_EPOCH,
        wrong=Wrong.LACKED,
        clears=Clears.NOBODY,
        extent=Extent.FROM,
    ),
    FindingKind.LOG_HEAD_MISSING: Kind(
        rule=Rule.LATEST_VALUE,
        family=Family.HEAD,
        rank=0,
        shows="The log of {partition} on broker {broker} begins at offset {offset}, above that of another replica, "
        "although the topic's cleanup policy deletes no records.",
        was="The log of {partition} on broker {broker} began above that of another replica.",
        headline="The log of {partition} on broker {broker} lacks its beginning",
        consumers="miss what lies below",
        case=remedies.LOST_HEAD,
        proof=Proves.LOWER_START,
        wrong=Wrong.BEGUN_ABOVE,
        clears=Clears.NOBODY,
        extent=Extent.BELOW,
    ),
}

NO_DIRECTION = "Nothing proves which side is right: wipe no replica on this evidence."
"""The sentence that follows the text ``shows`` of a finding if nothing proves which side is right."""


class Variant(StrEnum):
    """What a finding of some kind is about, where that changes what consumers meet."""

    PLAIN = ""
    """What the kind says in general."""
    DELETION = "deletion"
    """The record is a tombstone."""
    UNDELETED = "undeleted"
    """The record is a tombstone, and the accused shows an older value of its key."""
    OLDER = "older"
    """No replica that answered holds the record. The accused shows an older value of its key."""
    DELETED = "deleted"
    """As `OLDER`, and the key was deleted. Another replica shows no value of it, and none shows a newer one."""
    GONE = "gone"
    """No replica that answered holds the record."""
    TAKEN = "taken"
    """The accused lacks a value that its cleaner has taken."""
    OUTCOMES = "outcomes"
    """Nobody is accused, and the replicas differ in the outcome of a record."""
    MANY = "many"
    """An incident about keys."""
    MANY_OUTCOMES = "many outcomes"
    """An incident about transactions."""


SHOWING_OLDER = frozenset({Variant.UNDELETED, Variant.OLDER, Variant.DELETED})
"""Of these the accused shows a value of the key that is older than the finding's record."""


class Effect(NamedTuple):
    """The words on what a finding means.

    Its title, its sentence and its explanation take them from here.

    Attributes:
        shows: as `Kind.shows`.
        headline: as `Kind.headline`.
        consumers: as `Kind.consumers`.
        was: as `Kind.was`.
        many: as `Kind.many`.
    """

    shows: str
    headline: str
    consumers: str
    was: str
    many: str = ""

    @property
    def could(self) -> str:
        """What consumers of the accused could see; it follows the word "consumers", as ``consumers`` does."""
        level = _LEVEL if self.consumers.startswith(_LEVEL) else ""
        what = self.consumers.removeprefix(level).removeprefix("may ")
        return f"{level}got {what.removeprefix('get ')}" if what.startswith("get ") else f"{level}could {what}"

    @property
    def on_all(self) -> Effect:
        """The words where every replica shows what the accused was found to show."""
        return self._replace(headline=_on_all(self.headline), was=_on_all(self.was))


def _on_all(text: str) -> str:
    alike = text.removesuffix(" than the others")
    return alike.replace("Broker {broker}", "Every replica").replace("broker {broker}", "every replica")


_LEVEL = "in read_committed "
"""What an effect begins with that consumers in read_uncommitted do not meet."""


def _plain(kind: FindingKind) -> Effect:
    row = KINDS[kind]
    return Effect(row.shows, row.headline, row.consumers, row.was, row.many)


def _taken(by: str) -> str:
    return (
        "Broker {broker} lacks a value of the key of offset {offset} of {partition} that another shows. Its cleaner "
        f"went by {by}. Shown: {{sides}}."
    )


_BY_OUTCOME = Effect(
    _taken("the wrong outcome that broker {broker} gave that record"),
    "Broker {broker} lacks a value of {partition} that its cleaner took by a wrong outcome",
    "miss a value that a cleaner took by mistake",
    "Broker {broker} lacked a value of the key of offset {offset} of {partition}, which its cleaner took by mistake.",
)
_NO_RECORD = (
    "Broker {broker} has aborted a committed transaction of {partition}; it was committed {others}. No replica that "
    "answered holds its record at offset {offset} any more."
)
_HID_DELETION = "Broker {broker} hid the committed deletion at offset {offset} of {partition} as aborted."
_HAD_ABORTED = "Broker {broker} had aborted a committed transaction of {partition}"
_EFFECTS: Mapping[tuple[FindingKind, str], Effect] = {
    (FindingKind.ABORTED_RECORD_COMMITTED, Variant.DELETION): Effect(
        "Broker {broker} shows the rolled-back deletion at offset {offset} of {partition} as committed; it was "
        "aborted {others}.",
        "Broker {broker} shows a rolled-back deletion of {partition} as committed",
        "in read_committed read a deletion that was rolled back",
        "Broker {broker} showed the rolled-back deletion at offset {offset} of {partition} as committed.",
    ),
    (FindingKind.COMMITTED_RECORD_ABORTED, Variant.DELETION): Effect(
        "Broker {broker} hides the committed deletion at offset {offset} of {partition} as aborted; it was "
        "committed {others}.",
        "Broker {broker} hides a committed deletion of {partition} as aborted",
        "in read_committed never see a deletion that was committed",
        _HID_DELETION,
    ),
    (FindingKind.COMMITTED_RECORD_ABORTED, Variant.UNDELETED): Effect(
        "Broker {broker} hides the committed deletion at offset {offset} of {partition} as aborted, and shows an older "
        "value of its key, at offset {shown}; it was committed {others}.",
        "Broker {broker} still shows a value of {partition} whose key a committed transaction deleted",
        "in read_committed go on seeing what was deleted",
        _HID_DELETION,
    ),
    (FindingKind.COMMITTED_RECORD_ABORTED, Variant.OLDER): Effect(
        f"{_NO_RECORD} Broker {{broker}} still shows an older value of its key, at offset {{shown}}.",
        "Broker {broker} shows a value of {partition} that a committed transaction overwrote",
        "in read_committed see a value that is out of date",
        f"{_HAD_ABORTED}, and showed an older value of its key, at offset {{shown}}.",
    ),
    (FindingKind.COMMITTED_RECORD_ABORTED, Variant.DELETED): Effect(
        f"{_NO_RECORD} The key was deleted, and broker {{broker}} still shows a value of it, at offset {{shown}}.",
        "Broker {broker} still shows a value of {partition} whose key was deleted",
        "in read_committed go on seeing what was deleted",
        f"{_HAD_ABORTED}, and showed a value of a deleted key, at offset {{shown}}.",
    ),
    (FindingKind.COMMITTED_RECORD_ABORTED, Variant.GONE): Effect(
        _NO_RECORD,
        "Broker {broker} has aborted a committed transaction of {partition}; its record is gone",
        "in read_committed may miss what a committed transaction wrote",
        f"{_HAD_ABORTED} with the record at offset {{offset}}.",
    ),
    (FindingKind.ABORTED_RECORD_COMMITTED, Variant.TAKEN): _BY_OUTCOME,
    (FindingKind.COMMITTED_RECORD_ABORTED, Variant.TAKEN): _BY_OUTCOME,
    (FindingKind.OUTCOME_CONTRADICTS_MARKER, Variant.TAKEN): _BY_OUTCOME._replace(
        shows=_taken("an index of aborted transactions that was wrong there"),
        headline="Broker {broker} lacks a value of {partition} that its cleaner took by a wrong index",
    ),
    (FindingKind.VISIBILITY_MISMATCH, Variant.OUTCOMES): _plain(FindingKind.VISIBILITY_MISMATCH)._replace(
        shows="The replicas of {partition} do not show the record at offset {offset} alike: {sides}.",
        consumers="in read_committed may read it though it was rolled back, or miss it though it was committed",
    ),
    (FindingKind.VISIBILITY_MISMATCH, Variant.MANY_OUTCOMES): _plain(FindingKind.VISIBILITY_MISMATCH)._replace(
        many="The replicas of {partition} do not show records of {counted} alike (offsets {lowest} to {highest}).",
        consumers="in read_committed may read them though they were rolled back, or miss them though they were "
        "committed",
    ),
    (FindingKind.DELETED_RECORD_RESURRECTED, Variant.MANY): _plain(FindingKind.DELETED_RECORD_RESURRECTED)._replace(
        headline="Broker {broker} still shows deleted records of {partition}",
    ),
    (FindingKind.RECORD_MISSING, Variant.MANY): _plain(FindingKind.RECORD_MISSING)._replace(
        headline="Broker {broker} lacks records of {partition}, or shows older ones",
    ),
    (FindingKind.VISIBILITY_MISMATCH, Variant.MANY): _plain(FindingKind.VISIBILITY_MISMATCH)._replace(
        headline="Broker {broker} shows other latest values of {partition} than the others",
    ),
    (FindingKind.OUTCOME_CONTRADICTS_MARKER, Variant.MANY_OUTCOMES): _plain(
        FindingKind.OUTCOME_CONTRADICTS_MARKER
    )._replace(
        headline="Broker {broker} shows records of {partition} otherwise than its own end markers say",
    ),
    (FindingKind.ABORTED_RECORD_COMMITTED, Variant.MANY_OUTCOMES): _plain(
        FindingKind.ABORTED_RECORD_COMMITTED
    )._replace(
        headline="Broker {broker} takes rolled-back transactions of {partition} for committed",
        consumers="in read_committed read records or deletions that were rolled back",
    ),
    (FindingKind.COMMITTED_RECORD_ABORTED, Variant.MANY_OUTCOMES): _plain(
        FindingKind.COMMITTED_RECORD_ABORTED
    )._replace(
        headline="Broker {broker} takes committed transactions of {partition} for aborted",
        consumers="in read_committed miss records or deletions that were committed",
    ),
}
"""What a finding means where its kind alone does not say it."""


def effect_of(kind: FindingKind, variant: Variant | str = Variant.PLAIN) -> Effect:
    """Return the words on what a finding means.

    Args:
        kind: the finding's kind.
        variant: what it is about. One that is not known for the kind is taken as `Variant.PLAIN`.
    """
    return _EFFECTS.get((kind, variant)) or _plain(kind)


def kinds_of(family: Family) -> frozenset[FindingKind]:
    """The kinds of findings that belong to a family."""
    return frozenset(kind for kind, row in KINDS.items() if row.family is family)


TRANSACTION_KINDS = kinds_of(Family.TRANSACTION)
KEY_KINDS = kinds_of(Family.KEY)
VALUE_KINDS = frozenset(kind for kind in KEY_KINDS if KINDS[kind].clears is not Clears.NOBODY)
"""Those that prove a replica's value of a key wrong."""
TOMBSTONE_KINDS = frozenset(kind for kind, row in KINDS.items() if row.proof is Proves.TOMBSTONE)
"""Those of a missed deletion. The finding's offset is the tombstone's, and its record is the older value."""
OPEN_KINDS = frozenset(kind for kind, row in KINDS.items() if row.wrong is Wrong.OPEN)
"""Those of a transaction that is still open on the accused."""
WRONG_OUTCOMES: Mapping[FindingKind, str] = {kind: row.outcome for kind, row in KINDS.items() if row.outcome}
"""By kind, the outcome that the accused wrongly shows."""
OUTCOME_KINDS = frozenset(WRONG_OUTCOMES)
"""Those that say how a replica ended a transaction wrongly."""


def refines(new: FindingKind, old: FindingKind) -> bool:
    """Whether one kind says more than another about the same cause, and so replaces it.

    E.g. ``aborted_record_committed`` replaces ``marker_missing``.

    Args:
        new: the kind that may say more.
        old: the kind that may be replaced; it is of the same family.
    """
    return KINDS[new].rank > KINDS[old].rank


def tells_more(new: FindingKind, accused: int, old: FindingKind, accused_before: int) -> bool:
    """Whether one verdict says more than another about the same cause: by its kind, or because it accuses a replica.

    Args:
        new: the kind of the verdict that may say more.
        accused: the broker that it accuses; `NOBODY` if none.
        old: the kind of the other verdict, of the same family.
        accused_before: the broker that the other one accuses; `NOBODY` if none.
    """
    return refines(new, old) or accused_before == NOBODY != accused
