"""A claim: what a suspect or a finding says of a replica, in the form in which a probe checks it.

Example: "broker 2 shows an old value of key K at offset 4; a tombstone at offset 7 deleted it". A claim is made from a
row of the ``suspects`` table. When a finding is checked again, it is made from the finding's last event. It holds what
the views have recorded of each replica (`RecordedByViews`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from parallax.compare.observations import topic_id_code
from parallax.compare.suspect import Accusation
from parallax.evidence.atoms import Place
from parallax.kinds import KEY_KINDS, KINDS, TOMBSTONE_KINDS, TRANSACTION_KINDS, Family
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule, TopicPartition, hash_halves, hash_text, id_of
from parallax.moments import milliseconds
from parallax.sides import Side, as_document, parsed

MAX_BETWEEN = 64
"""At most so many offsets behind a record are searched for another end marker before the known one."""


def is_direct_end(offset: int, marker: int) -> bool:
    """Whether an end marker lies at the next offset after a record, e.g. at 8 after 7.

    Then no other end marker can have lain between the two.
    """
    return 0 <= offset == marker - 1


@dataclass(frozen=True, slots=True)
class Differed:
    """What was known about a key or an offset when the replicas last differed there.

    A finding keeps it after the replicas agree again. If all of them later show something newer, the difference is
    superseded, and the finding is over.

    Attributes:
        newest: the highest offset at which a replica held a record of the key; at least that of the claim's record.
        below: the highest last stable offset of any replica. Records at or above it were written, or decided, after the
            difference.
        epoch: where replicas held unlike records at one offset: the leader epoch of the record that replaced the
            others; -1 where leader epochs do not show it.
        one_key: whether those unlike records all had one key.
        oldest: the lowest offset of a value that a replica showed of the key; -1 where none showed one.
    """

    newest: int
    below: int
    epoch: int = UNKNOWN
    one_key: bool = False
    oldest: int = UNKNOWN

    @classmethod
    def parse(cls, part: Any) -> Differed | None:
        """Make a `Differed` from ``part``, a value of the JSON that `RecordedByViews.as_json` returns.

        None if ``part`` is anything else.
        """
        if not isinstance(part, dict):
            return None
        # An earlier version did not say what the oldest value was: any may have been.
        numbers = [part.get("newest"), part.get("below"), part.get("epoch"), part.get("oldest", 0)]
        newest, below, epoch, oldest = (number if isinstance(number, int) else None for number in numbers)
        if newest is None or below is None or epoch is None or oldest is None:
            return None
        return cls(newest, below, epoch, part.get("one_key") is True, oldest)


@dataclass(frozen=True, slots=True)
class HadEnded:
    """One observation of one replica: all transactions that begin below some offset of its log had ended.

    If every replica holds such a transaction open later, the observation proves that all of them are wrong. Example:
    when broker 3 was read to 40, every transaction that begins below 25 had ended.

    Attributes:
        start: the log start offset of that log.
        to: every transaction that begins below this offset had ended.
        below: the end markers of all those transactions lie below this offset.
        epoch: leader epoch of the last batch below ``below``, as that log held it.
        broker: the broker whose log it was.
    """

    start: int
    to: int
    below: int
    epoch: int
    broker: int

    @classmethod
    def parse(cls, part: Any) -> HadEnded | None:
        """Make a `HadEnded` from ``part``, a value of JSON; None if ``part`` is anything else.

        `RecordedByViews.as_json` and a suspect's ``observations`` have such a value.
        """
        numbers = [part.get(f.name) for f in fields(cls)] if isinstance(part, dict) else [None]
        return cls(*numbers) if all(isinstance(n, int) for n in numbers) else None

    @property
    def last(self) -> int:
        """The last offset below ``below``. A probe asks for the leader epoch there.

        If that epoch is no longer ``epoch``, another log has replaced the one that was read.
        """
        return self.below - 1


@dataclass(frozen=True, slots=True)
class RecordedByViews:
    """What the views recorded about one claim.

    It is kept because a cleaner may remove the records before a probe asks.

    Attributes:
        outcomes: by broker, the outcome that its replica showed at the claim's offset: ``committed`` or ``aborted``.
        markers: by broker, the type of the transaction's end marker on its replica: ``commit`` or ``abort``.
        records: by broker, the content that its replica showed at the claim's offset (`RecordShown.fingerprint`).
        epochs: by broker, the leader epoch in which its log was last read before that log was truncated.
        ends: by broker, the place of the end marker that ended the transaction there, as text ``offset:leader epoch``.
        shown_to: by broker, the offset up to which its log was read before that log was truncated.
        sides: for a difference without direction: the brokers on each side.
        pivot: for a difference without direction: the broker that is asked last. That accuses it of nothing.
        topic_id: the code of the topic's id when it was read (`parallax.compare.observations.topic_id_code`); empty
            where it was not known.
        record_shown_by: for a claim about a value: the brokers whose replicas were read to show the record at the
            claim's ``offset``; empty where not known. A missed deletion's record is the tombstone.
        record_read_ms: when all of them had shown it, milliseconds since 1970 UTC; -1 where it is not known.
        leader_epoch: leader epoch of the record or marker that proves the claim: the end marker at the claim's
            ``marker_offset``, or the record at its ``offset``; -1 where it is not known.
        end_epoch: for a claim about a record that is proof only together with its end marker: leader epoch of that
            marker; else -1.
        compared_from: below this offset nothing was compared, because retention had deleted it on some replica; 0 where
            nothing had been deleted.
        uncompacted: whether no cleaner has compacted anything from the transaction's first record on. Then a replica
            that lacks one of its records has lost it, or never got it.
        end_unproven: whether a lower end marker may have been cleaned everywhere before any replica was read. The
            transaction then ended at the claim's marker or below, and the marker may be of a later transaction.
        differed: for a finding about a key or an offset: what was known when the replicas last differed.
        had_ended: for a transaction that every replica holds open: an observation that it had ended on one of them;
            None if there is none.
        keys: for a transaction: further keys that the transaction has written, in the form of `Claim.key_text`; only
            some if they are many.
        lacks: for a finding on an outcome: offset of the value that the accused lacks because of the wrong outcome, as
            was proven; -1 if none.
        ``beside``: for a finding: the other brokers that showed the same as the accused when they were last asked.
        was_accused: brokers that an earlier finding accused of the same, and whose replicas were not proven to have
            healed.
        was_deletion: for a transaction: whether a replica was seen to hold a tombstone at the claim's offset.
        shown_from: the earliest time at which a replica may have shown what was recorded, in milliseconds since 1970
            UTC. It is 1 for what was read from the tables, which may be of any time, and -1 if it is the time when the
            suspect was raised.
    """

    outcomes: Mapping[int, str] = field(default_factory=dict)
    markers: Mapping[int, str] = field(default_factory=dict)
    records: Mapping[int, str] = field(default_factory=dict)
    epochs: Mapping[int, str] = field(default_factory=dict)
    shown_to: Mapping[int, str] = field(default_factory=dict)
    ends: Mapping[int, str] = field(default_factory=dict)
    sides: Mapping[Side, tuple[int, ...]] = field(default_factory=dict)
    pivot: int = NOBODY
    topic_id: str = ""
    record_shown_by: tuple[int, ...] = ()
    record_read_ms: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    end_epoch: int = UNKNOWN
    compared_from: int = 0
    uncompacted: bool = False
    end_unproven: bool = False
    differed: Differed | None = None
    had_ended: HadEnded | None = None
    keys: tuple[str, ...] = ()
    lacks: int = UNKNOWN
    beside: tuple[int, ...] = ()
    was_accused: tuple[int, ...] = ()
    was_deletion: bool = False
    shown_from: int = UNKNOWN

    def of_another(self) -> RecordedByViews:
        """What of this holds for another record of the claim's transaction, too.

        A transaction has one outcome. But where a lower end marker may have been there, the other record may be of
        another transaction of the producer, and nobody has seen what its outcome was.
        """
        outcomes = {} if self.end_unproven else self.outcomes
        return replace(self, lacks=UNKNOWN, outcomes=outcomes, record_shown_by=(), record_read_ms=UNKNOWN)

    @classmethod
    def parse(cls, text: str) -> RecordedByViews:
        """Return recorded evidence from JSON text.

        The text is a suspect's ``observations``, or ``recorded`` in a finding's evidence. Parts that cannot be read are
        left out, because they are no evidence.
        """
        try:
            document = json.loads(text) if text else {}
        except ValueError:
            document = {}
        return cls.of(document)

    @classmethod
    def of(cls, document: Any) -> RecordedByViews:
        """Return recorded evidence from a JSON ``document``, as `as_json` makes it; what cannot be read is left out."""
        if not isinstance(document, dict):
            document = {}
        by_broker = {name: _by_broker(document.get(name)) for name in _BY_BROKER}
        sides, pivot = _sides(document.get("sides")), document.get("pivot")
        asked_last = pivot if isinstance(pivot, int) else min((b for s in sides.values() for b in s), default=NOBODY)
        epoch, start = document.get("leader_epoch"), document.get("compared_from")
        topic_id, keys, lacks = (document.get(name) for name in ("topic_id", "keys", "lacks"))
        end_epoch = document.get("end_epoch")
        shown_from = document.get("shown_from")
        # Suspects of an earlier version have these under other names.
        shown_by = document.get("record_shown_by", document.get("shown_by"))
        read_ms = document.get("record_read_ms", document.get("passed_at"))
        return cls(
            **by_broker,
            sides=sides,
            pivot=asked_last,
            topic_id=topic_id if isinstance(topic_id, str) else "",
            record_shown_by=_brokers(shown_by),
            record_read_ms=read_ms if isinstance(read_ms, int) else UNKNOWN,
            leader_epoch=epoch if isinstance(epoch, int) else -1,
            end_epoch=end_epoch if isinstance(end_epoch, int) else UNKNOWN,
            compared_from=start if isinstance(start, int) else 0,
            uncompacted=document.get("uncompacted") is True,
            end_unproven=document.get("end_unproven") is True,
            differed=Differed.parse(document.get("differed")),
            had_ended=HadEnded.parse(document.get("had_ended")),
            keys=tuple(key for key in keys if _is_hash(key)) if isinstance(keys, list) else (),
            lacks=lacks if isinstance(lacks, int) else UNKNOWN,
            beside=_brokers(document.get("beside")),
            was_accused=_brokers(document.get("was_accused")),
            was_deletion=document.get("was_deletion") is True,
            shown_from=shown_from if isinstance(shown_from, int) else UNKNOWN,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the recorded evidence as values for JSON, which `parse` reads; broker ids that are keys are text."""
        found: dict[str, Any] = {name: {str(b): v for b, v in getattr(self, name).items()} for name in _BY_BROKER}
        if self.sides:
            found |= {"sides": as_document(self.sides), "pivot": self.pivot}
        if self.topic_id:
            found["topic_id"] = self.topic_id
        numbers = ("leader_epoch", "end_epoch", "lacks", "shown_from", "record_read_ms")
        found |= {name: number for name in numbers if (number := getattr(self, name)) >= 0}
        if self.compared_from > 0:
            found["compared_from"] = self.compared_from
        found |= {name: True for name in ("uncompacted", "end_unproven", "was_deletion") if getattr(self, name)}
        if self.differed is not None:
            found["differed"] = asdict(self.differed)
        if self.had_ended is not None:
            found["had_ended"] = asdict(self.had_ended)
        if self.keys:
            found["keys"] = list(self.keys)
        brokers = ("beside", "was_accused", "record_shown_by")
        found |= {name: list(said) for name in brokers if (said := getattr(self, name))}
        return found

    def in_brief(self) -> dict[str, Any]:
        """Return the same as `as_json`, without what is empty."""
        return {name: value for name, value in self.as_json().items() if value != {}}


_OF_ALL = (
    "sides",
    "pivot",
    "topic_id",
    "record_shown_by",
    "record_read_ms",
    "leader_epoch",
    "end_epoch",
    "compared_from",
    "uncompacted",
    "end_unproven",
    "differed",
    "had_ended",
    "keys",
    "lacks",
    "beside",
    "was_accused",
    "was_deletion",
    "shown_from",
)
_BY_BROKER = tuple(part.name for part in fields(RecordedByViews) if part.name not in _OF_ALL)


def _sides(part: Any) -> dict[Side, tuple[int, ...]]:
    try:
        return parsed(part)
    except (AttributeError, TypeError, ValueError):
        return {}


def _is_hash(part: Any) -> bool:
    return isinstance(part, str) and re.fullmatch("[0-9a-f]{32}", part) is not None


def _brokers(part: Any) -> tuple[int, ...]:
    return tuple(b for b in part if isinstance(b, int)) if isinstance(part, list) else ()


def _by_broker(part: Any) -> dict[int, str]:
    if not isinstance(part, dict):
        return {}
    return {int(b): str(v) for b, v in part.items() if str(b).lstrip("-").isdigit() and v is not None}


@dataclass(frozen=True, slots=True)
class Claim:
    """What one suspect, or one finding that is checked again, says of a replica.

    Attributes:
        offset: offset of the record that the claim is about; -1 where the claim is about a transaction only.
        transaction_start_offset: first offset of the transaction on the accused; -1 where there is none.
        broker: the accused; `NOBODY` for a difference without direction.
        marker_offset: offset of the end marker that the accused lacks; -1 where unknown. For a transactional tombstone
            it is the COMMIT directly behind it: without that, the tombstone was not surely committed.
        key_hash_hi: high half of the key's hash; both halves are 0 where there is no key.
        raised_at_ms: when the comparison raised the suspect, milliseconds since 1970 UTC.
        spread: whether the claim is made by a finding that has spread, so that no right replica is left.
        all_compared: False for a finding that accused a replica while another replica's answer was not known, or was on
            a third side. Then nothing proves that the other replicas are right.
        confirmed_at_ms: for a finding: when its last event was decided, milliseconds since 1970 UTC; 0 for a suspect.
        renamed: whether the suspect named another transaction of the accused. The claim is now about the one that keeps
            the accused's last stable offset from moving.
        deleted_at: the offset at which the key was deleted, if a finding about another replica has proven that; values
            below it prove nothing. -1 where there is no such finding.
        is_cut: whether an earlier probe has seen that a proof of the claim (`proofs`) is not part of the current log.
        ended: whether the finding that makes this claim is resolved.
        freed: for a suspect: whether another finding had explained it, had said the same, or has left it, and has
            ended. Then only what the replicas show now proves the suspect.
    """

    suspect_id: str
    rule: Rule
    kind: FindingKind
    topic: str
    partition: int
    broker: int
    offset: int = UNKNOWN
    producer_id: int = UNKNOWN
    transaction_start_offset: int = UNKNOWN
    marker_offset: int = UNKNOWN
    key_hash_hi: int = 0
    key_hash_lo: int = 0
    recorded: RecordedByViews = field(default_factory=RecordedByViews)
    raised_at_ms: int = 0
    spread: bool = False
    renamed: bool = False
    freed: bool = False
    deleted_at: int = UNKNOWN
    is_cut: bool = False
    all_compared: bool = True
    confirmed_at_ms: int = 0
    ended: bool = False

    @property
    def cause(self) -> str:
        """A text that names the divergence by its transaction, key or offset, e.g. ``txn:9:120``; equal in every run.

        A divergence that is seen again has the same cause, and so the same finding, whatever its kind.
        """
        return Accusation(
            rule=self.rule,
            kind=self.kind,
            broker=self.broker,
            offset=self.offset,
            producer_id=self.producer_id,
            transaction_start_offset=self.transaction_start_offset,
            key_hash_hi=self.key_hash_hi,
            key_hash_lo=self.key_hash_lo,
            observations=self.recorded.as_json(),
        ).cause

    @property
    def shown_at_ms(self) -> int:
        """The earliest time at which a replica may have shown the claim's evidence, milliseconds since 1970 UTC.

        A suspect whose evidence is older than the last verdict on it may be about what was judged already.
        """
        return self.raised_at_ms if self.recorded.shown_from == UNKNOWN else self.recorded.shown_from

    @property
    def place(self) -> TopicPartition:
        """The partition that the claim is about."""
        return TopicPartition(self.topic, self.partition)

    @property
    def pivot(self) -> int:
        """The broker that a probe asks last: the accused, or without one the recorded ``pivot``."""
        return self.broker if self.broker != NOBODY else self.recorded.pivot

    @property
    def beside(self) -> frozenset[int]:
        """The other brokers whose replicas showed the same as the pivot's, when last asked."""
        sides = self.recorded.sides.values()
        on_its_side = frozenset(broker for side in sides if self.pivot in side for broker in side)
        return on_its_side.union(self.recorded.beside) - {self.pivot}

    @property
    def is_surely_committed(self) -> bool:
        """Whether the record at the claim's offset is proven to be committed, even if replicas have lost end markers.

        It is if it belongs to no transaction, or if its COMMIT lies directly behind it.
        """
        return self.producer_id < 0 or is_direct_end(self.offset, self.marker_offset)

    @property
    def proves_deletion(self) -> bool:
        """Whether the claim is about a tombstone that proves each older value of its key wrong.

        It proves that of the log in which it was read. Whether that is the current log,
        `parallax.findings.decide.lineage.rests_on` says.
        """
        return self.kind in TOMBSTONE_KINDS and self.is_surely_committed

    @property
    def before_end(self) -> range | None:
        """The offsets behind the claim's record at which its transaction may have ended unread.

        They lie below its end marker. If that is unknown, they lie below the offset where the transaction had ended
        (`RecordedByViews.had_ended`). None if neither is known, or if there are more than `MAX_BETWEEN` offsets.
        """
        before = self.recorded.had_ended
        end = before.below if before is not None and self.marker_offset == UNKNOWN else self.marker_offset
        between = range(self.first_offset + 1, end)
        return between if self.first_offset < end and len(between) <= MAX_BETWEEN else None

    @property
    def key(self) -> tuple[int, int] | None:
        """The two halves of the hash of the claim's key; None where the claim's record has no key."""
        return None if self.key_hash_hi == 0 == self.key_hash_lo else (self.key_hash_hi, self.key_hash_lo)

    @property
    def accused_key(self) -> tuple[int, int] | None:
        """The hash of the key whose value the accused shows wrongly, as the claim says.

        It has the form of `key`. None for any other claim.
        """
        return self.key if self.kind in KEY_KINDS and self.broker != NOBODY else None

    @property
    def key_text(self) -> str:
        """The hash of the claim's key as text, like ``RecordShown.key_hash``; empty without a key."""
        return "" if self.key is None else hash_text(*self.key)

    @property
    def lost_epoch(self) -> int:
        """The leader epoch in which the accused's log was last read before it was truncated; -1 if unknown.

        A probe asks whether the other logs still hold that epoch, and up to which offset.
        """
        text = self.recorded.epochs.get(self.broker, "")
        return int(text) if self.kind is FindingKind.LOG_TRUNCATED and text.isdigit() else -1

    @property
    def lost_to(self) -> int:
        """The offset up to which the accused's log was read before that log was truncated.

        If nobody recorded it, it is one above the claim's offset, because the log was read at least that far.
        """
        text = self.recorded.shown_to.get(self.broker, "")
        return max(self.offset + 1, int(text) if text.isdigit() else 0)

    def is_of(self, topic_id: str) -> bool:
        """Whether the claim can be about the topic with the id ``topic_id``.

        It can if the claim's topic has that id, or if one of the two ids is unknown.
        A topic that is deleted and created again under its name has another id.
        """
        read, now = self.recorded.topic_id or "0", topic_id_code(topic_id)
        return read == "0" or now == 0 or read == str(now)

    @property
    def is_about_all(self) -> bool:
        """Whether the claim is about all replicas together: it accuses nobody, or all replicas are wrong."""
        return self.broker == NOBODY or self.spread

    @property
    def may_be_of_others(self) -> bool:
        """Whether replicas other than the accused may be wrong in the same way.

        Then a probe asks them even if the accused is gone. True for a claim about all replicas, and for most findings
        that are not over. False for findings about unlike records at one offset, or about a truncated log: there a
        replica is proven wrong only by its own answers.
        """
        is_finding = self.confirmed_at_ms > 0 and not self.ended
        return self.is_about_all or (is_finding and KINDS[self.kind].family not in (Family.CONTENT, Family.TRUNCATION))

    def asked_last(self, broker: int) -> Claim:
        """Return the same claim with the replica on another broker as its pivot: the one that a probe asks last.

        Call it only for a claim for which `is_about_all` or `may_be_of_others` is True.
        """
        if self.broker == NOBODY:
            return replace(self, recorded=replace(self.recorded, pivot=broker))
        return replace(self, broker=broker)

    def of_another(self, broker: int, at_ms: int, *, has_healed: bool) -> Claim:
        """Return a new suspect: the accusation of this claim, made against another replica.

        A finding leaves such suspects when it ends, e.g. because its accused has healed while a copy is still wrong.

        Args:
            broker: the other replica's broker.
            at_ms: when that replica was seen to show the same, milliseconds since 1970 UTC.
            has_healed: whether the accused of this claim has been proven right.
        """
        accused = {*self.recorded.was_accused, *(() if has_healed else (self.broker,))} - {broker}
        outcomes, markers, ends = (
            {b: said for b, said in part.items() if b != self.broker}
            for part in (self.recorded.outcomes, self.recorded.markers, self.recorded.ends)
        )
        outcomes.pop(broker, None)  # What it shows now counts.
        return replace(
            self,
            suspect_id=id_of(self.suspect_id, broker),
            broker=broker,
            recorded=replace(
                self.recorded,
                outcomes=outcomes,
                markers=markers,
                ends=ends,
                lacks=UNKNOWN,
                beside=(),
                was_accused=tuple(sorted(accused)),
            ),
            raised_at_ms=at_ms,
            spread=False,
            freed=True,
            all_compared=True,
            confirmed_at_ms=0,
            ended=False,
        )

    def rule_of(self, kind: FindingKind) -> Rule:
        """Return the rule that is broken if a probe of this claim proves a divergence of some kind.

        It is the claim's own rule if the kind is the claim's, else the kind's rule. There is one exception: if outcomes
        of a transaction differ without direction, it is `Rule.OUTCOME`.
        """
        if kind is self.kind:
            return self.rule
        is_outcome = kind is FindingKind.VISIBILITY_MISMATCH and self.kind in TRANSACTION_KINDS
        return Rule.OUTCOME if is_outcome else KINDS[kind].rule

    @property
    def proofs(self) -> tuple[Place, ...]:
        """The places (offset, leader epoch) of the records and markers that together prove the claim, as far as known.

        The claim is proven only if all of them are part of the current log. A claim about a transaction is proven by
        the end marker that the accused lacks. A claim about a key is proven by the claim's record. If that is a
        transactional tombstone, the COMMIT behind it is part of the proof. Other claims have no such places.
        """
        known = self.recorded
        if self.kind in TRANSACTION_KINDS:
            places = [Place(self.marker_offset, known.leader_epoch)]
        elif self.kind in KEY_KINDS:
            places = [Place(self.offset, known.leader_epoch), Place(self.marker_offset, known.end_epoch)]
        else:
            places = []
        return tuple(place for place in places if min(place) >= 0)

    def end_on(self, broker: int) -> Place | None:
        """Return the place of the end marker that ended the claim's transaction on a broker; None if unknown.

        A probe finds out whether that marker is still part of the log.
        """
        offset, _, epoch = self.recorded.ends.get(broker, "").partition(":")
        return Place(int(offset), int(epoch)) if offset.isdigit() and epoch.isdigit() else None

    @property
    def first_offset(self) -> int:
        """The offset of the claim's record; where the claim has none, the first offset of its transaction."""
        return self.offset if self.offset >= 0 else self.transaction_start_offset

    @property
    def begins_at(self) -> int:
        """The first offset of the claim's transaction; where it has none, the offset of its record."""
        return self.first_offset if self.transaction_start_offset == UNKNOWN else self.transaction_start_offset

    @property
    def surely_begins_at(self) -> int:
        """The lowest offset that is surely of the transaction that the claim's record is of.

        It is the first offset of the claim's transaction, or its record, where what lies between may be of others.
        """
        return self.first_offset if self.recorded.end_unproven else self.begins_at

    def finding_id(self, cluster_id: str) -> str:
        """Return the id of the finding that the claim makes if it is confirmed, 32 hexadecimal digits.

        The id is made from ``cluster_id`` (Kafka's id of the cluster), the partition, the accused and the cause. So it
        stays the same if the kind changes.
        """
        return id_of(cluster_id, self.topic, self.partition, self.broker, self.cause)


def is_of_another_topic(one: Claim, other: Claim) -> bool:
    """Whether two claims are about different topics of one name.

    The topic was deleted and created again in between.
    """
    ids = one.recorded.topic_id, other.recorded.topic_id
    return all(ids) and ids[0] != ids[1]


def explains(transaction: Claim, claim: Claim, *, by_value: bool | None = None) -> bool:
    """Whether a wrongly ended transaction, which the first claim is about, is the cause of what the second claim says.

    It is the cause in two cases:

    - The second claim is about a record of the same producer, on any replica. If one replica shows that record wrongly,
      it seems to be missing on the others.
    - The second claim is about the value of a key that the transaction has written, on the same replica. If that claim
      accuses nobody, the transaction's replica must be on one of its sides.

    In both cases the record must lie before the missed end marker, because what was written later has another cause. If
    that marker is not known, the claims must be about the same replica: a later record may be of another transaction.

    Args:
        transaction: the first claim: on an outcome, or on a transaction that is open.
        claim: the second claim: on a key's value, or on an outcome without direction.
        by_value: whether the key's values were found to differ; None takes it from the second claim's rule. Where they
            do not differ, the second case does not apply.
    """
    if transaction.place != claim.place or transaction.kind not in TRANSACTION_KINDS:
        return False
    start, end = transaction.transaction_start_offset, transaction.marker_offset
    on_a_side = any(transaction.broker in brokers for brokers in claim.recorded.sides.values())
    same_replica = on_a_side if claim.broker == NOBODY else transaction.broker == claim.broker
    same_producer = claim.producer_id >= 0 and claim.producer_id == transaction.producer_id
    of_producer = same_producer and start <= claim.offset and (end >= 0 or same_replica)
    by_value = claim.rule is not Rule.OUTCOME if by_value is None else by_value
    is_of_key = transaction.key == claim.key or claim.key_text in transaction.recorded.keys
    same_key = claim.key is not None and is_of_key
    return (of_producer or (by_value and same_replica and same_key)) and (end < 0 or claim.offset < end)


def claim_from_row(row: Mapping[str, Any]) -> Claim:
    """Return the claim of one row of the table ``suspects``.

    Args:
        row: the row's values, each under its column's name (docs/reference/tables.md); ``raised_at`` is a datetime with
            a zone, or milliseconds since 1970 UTC.

    Raises:
        ValueError: this version does not know the row's ``kind`` or ``rule``.
    """
    raised = row.get("raised_at")
    return Claim(
        suspect_id=str(row["suspect_id"]),
        rule=Rule(row["rule"]),
        kind=FindingKind(row["kind"]),
        topic=str(row["topic"]),
        partition=int(row["partition"]),
        broker=int(row["broker"]),
        offset=_number(row, "offset", -1),
        producer_id=_number(row, "producer_id", -1),
        transaction_start_offset=_number(row, "transaction_start_offset", -1),
        marker_offset=_number(row, "marker_offset", -1),
        key_hash_hi=_number(row, "key_hash_hi", 0),
        key_hash_lo=_number(row, "key_hash_lo", 0),
        recorded=RecordedByViews.parse(row.get("observations") or ""),
        raised_at_ms=milliseconds(raised) if isinstance(raised, datetime) else int(raised or 0),
    )


def as_json(claim: Claim) -> dict[str, Any]:
    """Return a suspect's claim as values for JSON, which `claim_from_json` reads; the partition is left out."""
    numbers = ("broker", "offset", "producer_id", "transaction_start_offset", "marker_offset", "raised_at_ms")
    return {name: getattr(claim, name) for name in numbers} | {
        "suspect_id": claim.suspect_id,
        "kind": str(claim.kind),
        "rule": str(claim.rule),
        "key_hash": claim.key_text,
        "recorded": claim.recorded.in_brief(),
        "pivot": claim.recorded.pivot,
        "freed": claim.freed,
    }


def claim_from_json(place: TopicPartition, said: Mapping[str, Any]) -> Claim:
    """Return the claim of which `as_json` made values for JSON.

    Args:
        place: the partition that the claim is about.
        said: these values.

    Raises:
        KeyError, ValueError: it has another form, or a kind or rule that this version does not know.
    """
    high, low = hash_halves(said["key_hash"])
    recorded = RecordedByViews.of(said["recorded"])
    return Claim(
        suspect_id=said["suspect_id"],
        rule=Rule(said["rule"]),
        kind=FindingKind(said["kind"]),
        topic=place.topic,
        partition=place.partition,
        broker=int(said["broker"]),
        offset=int(said["offset"]),
        producer_id=int(said["producer_id"]),
        transaction_start_offset=int(said.get("transaction_start_offset", UNKNOWN)),
        marker_offset=int(said["marker_offset"]),
        key_hash_hi=high,
        key_hash_lo=low,
        recorded=replace(recorded, pivot=said.get("pivot", recorded.pivot)),
        raised_at_ms=int(said["raised_at_ms"]),
        freed=said.get("freed", False),
    )


def _number(row: Mapping[str, Any], name: str, default: int) -> int:
    value = row.get(name)
    return default if value is None else int(value)
