"""What a suspect or finding says of a replica, in the form for probe and decision.

A `Claim` and what the views recorded about it.

A claim is made from a row of the ``suspects`` table, or from a finding's last event when it is checked again.
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
from parallax.kinds import KEY_KINDS, KINDS, TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule, TopicPartition, hash_text, id_of
from parallax.sides import Side, as_document, parsed

MAX_BETWEEN = 64
"""How many offsets between a record and its end marker are looked at, to see whether another marker has room there."""


def is_direct_end(offset: int, marker: int) -> bool:
    """Whether an end marker lies directly behind a record, without room for a lower one in between."""
    return 0 <= offset == marker - 1


@dataclass(frozen=True, slots=True)
class Differed:
    """How replicas differed, kept to say whether all are right once the difference is gone.

    Attributes:
        newest: no replica that was asked had a record of the key above this offset.
        below: no consumer had been shown anything at or above this offset: it was written, or decided, later.
        epoch: for unlike records at one offset: leader epoch of the one that had replaced all others; -1 where epochs
            do not show it.
        one_key: whether the unlike records were all of one key.
    """

    newest: int
    below: int
    epoch: int = UNKNOWN
    one_key: bool = False

    @classmethod
    def parse(cls, part: Any) -> Differed | None:
        """Read what `Recorded.as_json` has written; None for anything else."""
        if not isinstance(part, dict):
            return None
        newest, below, epoch = (part.get(name) for name in ("newest", "below", "epoch"))
        if not (isinstance(newest, int) and isinstance(below, int) and isinstance(epoch, int)):
            return None
        return cls(newest, below, epoch, part.get("one_key") is True)


@dataclass(frozen=True, slots=True)
class HadEnded:
    """Up to which offset a replica was read to hold the end of every transaction.

    Attributes:
        start: where its log began.
        to: every transaction that begins below this offset had ended.
        below: the end markers of all those transactions lie below this offset.
        epoch: leader epoch of the last batch that it held there.
        broker: whose log it was.
    """

    start: int
    to: int
    below: int
    epoch: int
    broker: int

    @classmethod
    def parse(cls, part: Any) -> HadEnded | None:
        """Read what an observation, or `Recorded.as_json`, says; None for anything else."""
        numbers = [part.get(f.name) for f in fields(cls)] if isinstance(part, dict) else [None]
        return cls(*numbers) if all(isinstance(n, int) for n in numbers) else None

    @property
    def last(self) -> int:
        """The offset at which ``epoch`` says whether the replica's log is still the one that was read."""
        return self.below - 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the views recorded about a claim, by broker; kept because the records may have been cleaned since.

    Attributes:
        outcomes: ``committed`` or ``aborted``, as that broker decided the record at the claim's offset.
        markers: ``commit`` or ``abort``, the end marker that the broker showed for the transaction.
        records: the content fingerprint that the broker showed at the claim's offset.
        epochs: the leader epoch in which the broker was read up to where its log was truncated.
        topics: for a suspect of an earlier version: `topic_id` by broker.
        ends: the end marker by which the broker ended the transaction, as ``offset:leader epoch``.
        shown_to: the offset up to which the broker was read before its log was truncated.
        sides: for a difference without direction: the brokers by what they show.
        pivot: for a difference without direction: the broker that is asked last, which accuses nobody.
        topic_id: the code of the topic's id when it was read (`parallax.compare.observations.topic_id_code`); empty
            where it was not known.
        leader_epoch: leader epoch of what proves the claim: the end marker at its marker offset, or the record at its
            offset; -1 where it is not known.
        end_epoch: for a claim about a record whose end marker is part of the proof: leader epoch of that marker; else
            -1.
        compared_from: nothing was compared below, because retention had deleted up to there on some replica; 0 where
            nothing had been deleted.
        uncompacted: whether nothing was ever compacted from the transaction's first record on.
        end_unproven: a lower end marker may have been cleaned everywhere before anybody was read. The transaction ended
            at the claim's marker or below, and the marker may be of a later transaction.
        differed: for a finding about a key or an offset: what was known when the replicas last differed.
        had_ended: for a transaction that every replica holds open: what one of them had been read to hold before.
        keys: for a transaction: further keys that it has written, in the form of `Claim.key_text`; only some of many.
        lacks: for a finding on an outcome: offset of the value that its replica was proven to lack by it; -1 if none.
        ``beside``: for a finding: the other brokers that showed the same as its own when they were last asked.
        was_accused: brokers that were accused of the same before, and were not proven to have healed.
        shown_from: the earliest time at which a replica may have shown what was recorded, in milliseconds since 1970
            UTC. It is 1 for what was read from the tables, which may be of any time. It is -1 for the time of raising.
    """

    outcomes: Mapping[int, str] = field(default_factory=dict)
    markers: Mapping[int, str] = field(default_factory=dict)
    records: Mapping[int, str] = field(default_factory=dict)
    epochs: Mapping[int, str] = field(default_factory=dict)
    topics: Mapping[int, str] = field(default_factory=dict)
    shown_to: Mapping[int, str] = field(default_factory=dict)
    ends: Mapping[int, str] = field(default_factory=dict)
    sides: Mapping[Side, tuple[int, ...]] = field(default_factory=dict)
    pivot: int = NOBODY
    topic_id: str = ""
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
    shown_from: int = UNKNOWN

    @classmethod
    def parse(cls, text: str) -> Recorded:
        """Read recorded evidence: a suspect's ``observations``, or the ``recorded`` part of a finding's evidence.

        It leaves out what it does not understand: an observation that cannot be read is no evidence.
        """
        try:
            document = json.loads(text) if text else {}
        except ValueError:
            document = {}
        if not isinstance(document, dict):
            document = {}
        by_broker = {name: _by_broker(document.get(name)) for name in _BY_BROKER}
        sides, pivot = _sides(document.get("sides")), document.get("pivot")
        asked_last = pivot if isinstance(pivot, int) else min((b for s in sides.values() for b in s), default=NOBODY)
        epoch, start = document.get("leader_epoch"), document.get("compared_from")
        topic_id, keys, lacks = (document.get(name) for name in ("topic_id", "keys", "lacks"))
        end_epoch = document.get("end_epoch")
        shown_from = document.get("shown_from")
        return cls(
            **by_broker,
            sides=sides,
            pivot=asked_last,
            topic_id=topic_id if isinstance(topic_id, str) else "",
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
            shown_from=shown_from if isinstance(shown_from, int) else UNKNOWN,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the recorded evidence in a JSON-able form; broker ids that are names of fields become text."""
        found: dict[str, Any] = {name: {str(b): v for b, v in getattr(self, name).items()} for name in _BY_BROKER}
        if self.sides:
            found |= {"sides": as_document(self.sides), "pivot": self.pivot}
        if self.topic_id:
            found["topic_id"] = self.topic_id
        found |= {name: epoch for name in ("leader_epoch", "end_epoch") if (epoch := getattr(self, name)) >= 0}
        if self.compared_from > 0:
            found["compared_from"] = self.compared_from
        found |= {name: True for name in ("uncompacted", "end_unproven") if getattr(self, name)}
        if self.differed is not None:
            found["differed"] = asdict(self.differed)
        if self.had_ended is not None:
            found["had_ended"] = asdict(self.had_ended)
        if self.keys:
            found["keys"] = list(self.keys)
        found |= {name: at for name in ("lacks", "shown_from") if (at := getattr(self, name)) >= 0}
        found |= {name: list(said) for name in ("beside", "was_accused") if (said := getattr(self, name))}
        return found


_OF_ALL = (
    "sides",
    "pivot",
    "topic_id",
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
    "shown_from",
)
_BY_BROKER = tuple(part.name for part in fields(Recorded) if part.name not in _OF_ALL)


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
        offset: the record concerned; -1 where the claim is about a transaction only.
        transaction_start_offset: first offset of the transaction on the accused; -1 where there is none.
        broker: the accused; `NOBODY` for a difference without direction.
        marker_offset: the end marker that the accused lacks; -1 where unknown. For a transactional tombstone it is the
            COMMIT directly behind it: only such a tombstone was surely committed.
        key_hash_hi: high half of the key's hash; both halves are 0 where there is no key.
        raised_at_ms: when the comparison raised it, milliseconds since 1970 UTC.
        spread: whether it is of a finding that has spread: no other side is left.
        all_compared: False for a finding that accuses a replica while another's side was unknown, or was a third one.
            Then nothing proves that the others are right.
        confirmed_at_ms: for a finding: when its last event was decided, milliseconds since 1970 UTC; 0 for a suspect.
        renamed: it was about another transaction, and is now about the one that holds the accused back.
        deleted_at: another replica shows a value of the key that was deleted at this offset or above, so values below
            it prove nothing; -1 where no replica does.
        ended: whether it is of a finding that is resolved.
        freed: for a suspect: a finding had explained it, or was the same, and has ended. Only what is shown now proves
            it.
        left: for a suspect: a finding that is over has left it, and no reader has raised it.
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
    recorded: Recorded = field(default_factory=Recorded)
    raised_at_ms: int = 0
    spread: bool = False
    renamed: bool = False
    freed: bool = False
    left: bool = False
    deleted_at: int = UNKNOWN
    all_compared: bool = True
    confirmed_at_ms: int = 0
    ended: bool = False

    @property
    def cause(self) -> str:
        """What makes the claim the same divergence tomorrow, without its kind (docs/contribute/theory.md)."""
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
        """The earliest time at which the claim's evidence may have been shown, in the unit of `raised_at_ms`."""
        return self.raised_at_ms if self.recorded.shown_from == UNKNOWN else self.recorded.shown_from

    @property
    def place(self) -> TopicPartition:
        """The partition that the claim is about."""
        return TopicPartition(self.topic, self.partition)

    @property
    def pivot(self) -> int:
        """The replica that a probe asks last: the accused, where there is one."""
        return self.broker if self.broker != NOBODY else self.recorded.pivot

    @property
    def is_surely_committed(self) -> bool:
        """Whether the record at the claim's offset was committed, whatever end markers any replica has lost."""
        return self.producer_id < 0 or is_direct_end(self.offset, self.marker_offset)

    @property
    def before_end(self) -> range | None:
        """The offsets between the claim's record and its end marker; None if unknown or too many."""
        between = range(self.first_offset + 1, self.marker_offset)
        return between if self.first_offset < self.marker_offset and len(between) <= MAX_BETWEEN else None

    @property
    def key(self) -> tuple[int, int] | None:
        """The two halves of the key's hash; None where the record has no key."""
        return None if self.key_hash_hi == 0 == self.key_hash_lo else (self.key_hash_hi, self.key_hash_lo)

    @property
    def accused_key(self) -> tuple[int, int] | None:
        """The key whose value the claim calls wrong on a replica; None where it accuses nobody of that."""
        return self.key if self.kind in KEY_KINDS and self.broker != NOBODY else None

    @property
    def key_text(self) -> str:
        """The key's hash as text, in the form of ``RecordShown.key_hash``; empty where the record has no key."""
        return "" if self.key is None else hash_text(*self.key)

    @property
    def lost_epoch(self) -> int:
        """The leader epoch in which the accused was read before its log was truncated; -1 if unknown."""
        text = self.recorded.epochs.get(self.broker, "")
        return int(text) if self.kind is FindingKind.LOG_TRUNCATED and text.isdigit() else -1

    @property
    def lost_to(self) -> int:
        """The offset up to which the accused was read, in epoch `lost_epoch`, before its log was truncated.

        If unknown, it is one above the claim's offset: so far it was read at least.
        """
        text = self.recorded.shown_to.get(self.broker, "")
        return max(self.offset + 1, int(text) if text.isdigit() else 0)

    def is_of(self, topic_id: str) -> bool:
        """Whether the claim can be about the topic of this id. A topic that was re-created has another."""
        read = self.recorded.topic_id or self.recorded.topics.get(self.broker, "0")
        now = topic_id_code(topic_id)
        return read == "0" or now == 0 or read == str(now)

    @property
    def is_about_all(self) -> bool:
        """Whether the claim is about all replicas together: it accuses nobody, or all replicas are wrong."""
        return self.broker == NOBODY or self.spread

    @property
    def may_be_of_others(self) -> bool:
        """Whether all replicas may be wrong in the same way, so that the others are asked when the accused is gone.

        It is False for unlike records and for a truncated log. There another replica's answer alone says what is wrong.
        """
        is_finding = self.confirmed_at_ms > 0 and not self.ended
        return self.is_about_all or (is_finding and self.kind in _SPREADING)

    def asked_last(self, broker: int) -> Claim:
        """Return the claim with another replica as its pivot, which is asked last.

        The claim must be, or may be, about all replicas.
        """
        if self.broker == NOBODY:
            return replace(self, recorded=replace(self.recorded, pivot=broker))
        return replace(self, broker=broker)

    def of_another(self, broker: int, at_ms: int, *, has_healed: bool) -> Claim:
        """Return a suspect that accuses another replica of what a finding, which is over, said of its accused.

        Args:
            broker: the other replica.
            at_ms: when it was seen, milliseconds since 1970 UTC.
            has_healed: whether its own replica has been proven right.
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
            left=True,
            all_compared=True,
            confirmed_at_ms=0,
            ended=False,
        )

    def rule_of(self, kind: FindingKind) -> Rule:
        """Return the rule that a finding of this kind breaks.

        A transaction without direction breaks the rule of outcomes.
        """
        if kind is self.kind:
            return self.rule
        is_outcome = kind is FindingKind.VISIBILITY_MISMATCH and self.kind in TRANSACTION_KINDS
        return Rule.OUTCOME if is_outcome else KINDS[kind].rule

    @property
    def proofs(self) -> tuple[Place, ...]:
        """The places of all recorded evidence that together proves the claim, as far as known.

        That is the end marker that the accused lacks, or the record that it lacks or has superseded. If an end marker
        is what makes a deletion sure, it is part of the proof.
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
        """Return the place of the end marker by which a broker showed the claim's outcome, if known."""
        offset, _, epoch = self.recorded.ends.get(broker, "").partition(":")
        return Place(int(offset), int(epoch)) if offset.isdigit() and epoch.isdigit() else None

    @property
    def first_offset(self) -> int:
        """The offset of the record to look at: the claim's own, else the first of its transaction."""
        return self.offset if self.offset >= 0 else self.transaction_start_offset

    @property
    def begins_at(self) -> int:
        """The offset at which the claim's transaction begins; without a transaction, ``first_offset``."""
        return self.first_offset if self.transaction_start_offset == UNKNOWN else self.transaction_start_offset

    def finding_id(self, cluster_id: str) -> str:
        """Return the finding's id, 32 hexadecimal digits: the same for one cause on one replica, whatever the kind."""
        return id_of(cluster_id, self.topic, self.partition, self.broker, self.cause)


_SPREADING = TRANSACTION_KINDS | KEY_KINDS | {FindingKind.LOG_HEAD_MISSING}


def is_of_another_topic(one: Claim, other: Claim) -> bool:
    """Whether two claims on partitions of the same name are about topics with different ids."""
    ids = one.recorded.topic_id, other.recorded.topic_id
    return all(ids) and ids[0] != ids[1]


def explains(transaction: Claim, claim: Claim, *, by_value: bool | None = None) -> bool:
    """Whether a wrongly ended transaction, as one claim says, is the cause of another claim on a key's value.

    It explains a record of its producer on any replica of the partition. If one replica wrongly shows a record, the
    record seems to be missing on the others. It also explains a key that the transaction has written, on the same
    replica, or on one that the claim names without accusing it. A key explains no unlike outcome: that is a matter of
    its own transaction.

    The record must lie before the missed end marker, since what was written later has a cause of its own. If that
    marker is not known, a later record may be of another transaction of the producer. Then it must be on the same
    replica.

    Args:
        transaction: the claim on an outcome, or on a transaction that is open.
        claim: on a key's value, or on an outcome without direction.
        by_value: whether values of the key were found to differ; by the claim's rule if not given.
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
    """Make a claim from a suspect: a row of the table ``suspects``, or its fields by name.

    Args:
        row: columns as docs/reference/tables.md has them; ``raised_at`` a datetime with a zone, or milliseconds.

    Raises:
        ValueError: this version does not know its ``kind`` or ``rule``.
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
        recorded=Recorded.parse(row.get("observations") or ""),
        raised_at_ms=int(raised.timestamp() * 1000) if isinstance(raised, datetime) else int(raised or 0),
    )


def _number(row: Mapping[str, Any], name: str, default: int) -> int:
    value = row.get(name)
    return default if value is None else int(value)
