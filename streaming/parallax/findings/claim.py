"""What a suspect or a finding says of a replica (`Claim`), for the probe that checks it.

A claim is made from a row of the ``suspects`` table. When a finding is checked again, it is made from the finding's
last event. It holds what the views have recorded of each replica (`Recorded`).
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
"""At most so many offsets behind a record are searched for another end marker before the known one."""


def is_direct_end(offset: int, marker: int) -> bool:
    """Whether an end marker lies directly behind a record, so that no other marker lay between."""
    return 0 <= offset == marker - 1


@dataclass(frozen=True, slots=True)
class Differed:
    """What was known when replicas last differed.

    It is kept because what is written later may show that all of them are right.

    Attributes:
        newest: the highest offset at which a replica held a record of the key; at least that of the claim's record.
        below: the highest last stable offset that a replica had. What lies there or above was written, or decided,
            after the difference.
        epoch: where replicas held unlike records at one offset: the leader epoch of the record that replaced the
            others; -1 where leader epochs do not show it.
        one_key: whether those unlike records all had one key.
    """

    newest: int
    below: int
    epoch: int = UNKNOWN
    one_key: bool = False

    @classmethod
    def parse(cls, part: Any) -> Differed | None:
        """Return the value that `Recorded.as_json` has written; None for anything else."""
        if not isinstance(part, dict):
            return None
        newest, below, epoch = (part.get(name) for name in ("newest", "below", "epoch"))
        if not (isinstance(newest, int) and isinstance(below, int) and isinstance(epoch, int)):
            return None
        return cls(newest, below, epoch, part.get("one_key") is True)


@dataclass(frozen=True, slots=True)
class HadEnded:
    """An observation: when a replica was read, all transactions below some offset of its log had ended.

    Attributes:
        start: where that log began.
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
        """Return the value that a suspect's ``observations`` or `Recorded.as_json` hold; None for anything else."""
        numbers = [part.get(f.name) for f in fields(cls)] if isinstance(part, dict) else [None]
        return cls(*numbers) if all(isinstance(n, int) for n in numbers) else None

    @property
    def last(self) -> int:
        """The offset at which to ask for the log's leader epoch.

        If that is not ``epoch`` any more, another log has replaced the one that was read.
        """
        return self.below - 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the views recorded about a claim; kept because the cleaner may remove the records afterwards.

    Attributes:
        outcomes: by broker, the outcome that it showed of the record at the claim's offset: ``committed`` or
            ``aborted``.
        markers: by broker, the type of the end marker that it showed for the transaction: ``commit`` or ``abort``.
        records: by broker, the content that it showed at the claim's offset (`RecordShown.fingerprint`).
        epochs: by broker, the leader epoch in which its log was last read before the log was truncated.
        topics: by broker, its ``topic_id``; only suspects of an earlier version have it.
        ends: by broker, the end marker that ended the transaction there, as ``offset:leader epoch``.
        shown_to: by broker, the offset up to which it was read before its log was truncated.
        sides: for a difference without direction: the brokers on each side.
        pivot: for a difference without direction: the broker that is asked last. That accuses it of nothing.
        topic_id: the code of the topic's id when it was read (`parallax.compare.observations.topic_id_code`); empty
            where it was not known.
        leader_epoch: leader epoch of what proves the claim: the end marker at the claim's ``marker_offset``, or the
            record at its ``offset``; -1 where it is not known.
        end_epoch: for a claim about a record that is proof only together with its end marker: leader epoch of that
            marker; else -1.
        compared_from: below this offset nothing was compared, because retention had deleted it on some replica; 0 where
            nothing had been deleted.
        uncompacted: whether no cleaner has compacted anything from the transaction's first record on. Then a replica
            that lacks one of its records has lost it, or never got it.
        end_unproven: whether a lower end marker may have been cleaned everywhere before any replica was read. The
            transaction then ended at the claim's marker or below, and the marker may be of a later transaction.
        differed: for a finding about a key or an offset: what was known when the replicas last differed.
        had_ended: for a transaction that every replica holds open: what was read of one of them when it had ended
            there; None if nothing was.
        keys: for a transaction: further keys that it has written, in the form of `Claim.key_text`; some of them if they
            are many.
        lacks: for a finding on an outcome: offset of the value that the accused was proven to lack because of it; -1 if
            none.
        ``beside``: for a finding: the other brokers that showed the same as the accused when they were last asked.
        was_accused: brokers that an earlier finding accused of the same, and that were not proven to have healed.
        shown_from: the earliest time at which a replica may have shown what was recorded, in milliseconds since 1970
            UTC. It is 1 for what was read from the tables, which may be of any time, and -1 if it is the time when the
            suspect was raised.
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
        """Return recorded evidence from JSON: a suspect's ``observations``, or ``recorded`` in a finding's evidence.

        Parts that cannot be read are left out, because they are no evidence.
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
        """Return the recorded evidence as JSON-able values; broker ids that are keys become text."""
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
        offset: of the record that the claim is about; -1 where the claim is about a transaction only.
        transaction_start_offset: first offset of the transaction on the accused; -1 where there is none.
        broker: the accused; `NOBODY` for a difference without direction.
        marker_offset: offset of the end marker that the accused lacks; -1 where unknown. For a transactional tombstone
            it is the COMMIT directly behind it: without that, the tombstone was not surely committed.
        key_hash_hi: high half of the key's hash; both halves are 0 where there is no key.
        raised_at_ms: when the comparison raised it, milliseconds since 1970 UTC.
        spread: whether the claim is of a finding that has spread, so that no right replica is left.
        all_compared: False for a finding that accuses a replica while nobody knew what another shows, or another was on
            a third side. Then nothing proves that the others are right.
        confirmed_at_ms: for a finding: when its last event was decided, milliseconds since 1970 UTC; 0 for a suspect.
        renamed: whether the claim was about another transaction at first. It is now about the one that keeps the
            accused's last stable offset from moving.
        deleted_at: the offset at which the key was deleted, if a finding about another replica has proven that; values
            below it prove nothing. -1 where there is no such finding.
        ended: whether the finding that makes this claim is resolved.
        freed: for a suspect: whether a finding that was its cause, or said the same, has ended. It is proven only by
            what the replicas show now.
        left: whether the suspect was made because a finding about another replica ended, and not by the comparison.
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
        """A text that identifies the divergence, such as its transaction, key or offset; the same in every run.

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
        """The earliest time at which a replica may have shown the claim's evidence, milliseconds since 1970 UTC."""
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
        """Whether the record at the claim's offset was committed, whatever end markers replicas have lost.

        It was if it belongs to no transaction, or if its COMMIT lies directly behind it.
        """
        return self.producer_id < 0 or is_direct_end(self.offset, self.marker_offset)

    @property
    def before_end(self) -> range | None:
        """The offsets between the claim's record and its end marker; None if unknown, or more than `MAX_BETWEEN`."""
        between = range(self.first_offset + 1, self.marker_offset)
        return between if self.first_offset < self.marker_offset and len(between) <= MAX_BETWEEN else None

    @property
    def key(self) -> tuple[int, int] | None:
        """The two halves of the key's hash; None where the record has no key."""
        return None if self.key_hash_hi == 0 == self.key_hash_lo else (self.key_hash_hi, self.key_hash_lo)

    @property
    def accused_key(self) -> tuple[int, int] | None:
        """The key whose value the claim says the accused shows wrongly; None for other claims."""
        return self.key if self.kind in KEY_KINDS and self.broker != NOBODY else None

    @property
    def key_text(self) -> str:
        """The key's hash as text, in the form of ``RecordShown.key_hash``; empty where the record has no key."""
        return "" if self.key is None else hash_text(*self.key)

    @property
    def lost_epoch(self) -> int:
        """The leader epoch in which the accused was last read before its log was truncated; -1 if unknown."""
        text = self.recorded.epochs.get(self.broker, "")
        return int(text) if self.kind is FindingKind.LOG_TRUNCATED and text.isdigit() else -1

    @property
    def lost_to(self) -> int:
        """The offset up to which the accused's log was read before the log was truncated.

        If nobody recorded it, it is one above the claim's offset, because the log was read at least that far.
        """
        text = self.recorded.shown_to.get(self.broker, "")
        return max(self.offset + 1, int(text) if text.isdigit() else 0)

    def is_of(self, topic_id: str) -> bool:
        """Whether the claim can be about the topic with this id.

        A topic that is created again under its name has another id.
        """
        read = self.recorded.topic_id or self.recorded.topics.get(self.broker, "0")
        now = topic_id_code(topic_id)
        return read == "0" or now == 0 or read == str(now)

    @property
    def is_about_all(self) -> bool:
        """Whether the claim is about all replicas together: it accuses nobody, or all replicas are wrong."""
        return self.broker == NOBODY or self.spread

    @property
    def may_be_of_others(self) -> bool:
        """Whether other replicas may be wrong in the same way, so that they are asked even if the accused is gone.

        They may for a claim about all replicas, and for a finding that is not over. There are two exceptions: findings
        about unlike records at one offset, and about a truncated log. There another replica's answer alone proves what
        is wrong with it.
        """
        is_finding = self.confirmed_at_ms > 0 and not self.ended
        return self.is_about_all or (is_finding and self.kind in _SPREADING)

    def asked_last(self, broker: int) -> Claim:
        """Return the same claim with another replica as its pivot: the one that a probe asks last.

        Only for a claim about all replicas (`is_about_all`), or one that may be of others (`may_be_of_others`).
        """
        if self.broker == NOBODY:
            return replace(self, recorded=replace(self.recorded, pivot=broker))
        return replace(self, broker=broker)

    def of_another(self, broker: int, at_ms: int, *, has_healed: bool) -> Claim:
        """Return a new suspect: it accuses another replica of what this claim accuses its replica of.

        A finding makes it when the finding is over for its own accused.

        Args:
            broker: the other replica.
            at_ms: when that replica was seen to show it, milliseconds since 1970 UTC.
            has_healed: whether the finding's own accused has been proven right.
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
        """Return the rule that is broken by a finding of the given kind that this claim has led to.

        It is this claim's rule if the kind is this claim's, else the kind's own rule. There is one exception: if
        outcomes of a transaction differ without direction, it is `Rule.OUTCOME`.
        """
        if kind is self.kind:
            return self.rule
        is_outcome = kind is FindingKind.VISIBILITY_MISMATCH and self.kind in TRANSACTION_KINDS
        return Rule.OUTCOME if is_outcome else KINDS[kind].rule

    @property
    def proofs(self) -> tuple[Place, ...]:
        """The places of everything that together proves the claim, as far as they are known.

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
        """Return the place of the end marker that ended the claim's transaction on a broker; None if unknown."""
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

    def finding_id(self, cluster_id: str) -> str:
        """Return the id of the claim's finding, 32 hexadecimal digits.

        One cause on one replica has one id, whatever the kind.
        """
        return id_of(cluster_id, self.topic, self.partition, self.broker, self.cause)


_SPREADING = TRANSACTION_KINDS | KEY_KINDS | {FindingKind.LOG_HEAD_MISSING}


def is_of_another_topic(one: Claim, other: Claim) -> bool:
    """Whether two claims about one partition are about different topics: the topic was created again under its name."""
    ids = one.recorded.topic_id, other.recorded.topic_id
    return all(ids) and ids[0] != ids[1]


def explains(transaction: Claim, claim: Claim, *, by_value: bool | None = None) -> bool:
    """Whether a wrongly ended transaction, which one claim is about, is the cause of what another claim says.

    It is the cause in two cases. The other claim is about a record of the same producer, on any replica: if one replica
    shows that record wrongly, it seems to be missing on the others. Or the other claim is about the value of a key that
    the transaction has written, on the same replica. If that claim accuses nobody, the transaction's replica must be on
    one of its sides.

    In both cases the record must lie before the missed end marker, because what was written later has another cause. If
    that marker is not known, the claims must be about the same replica: a later record may be of another transaction.

    Args:
        transaction: the claim on an outcome, or on a transaction that is open.
        claim: the other claim: on a key's value, or on an outcome without direction.
        by_value: whether the key's values were found to differ; None takes it from the claim's rule. Without such a
            difference, having written the same key explains nothing.
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
    """Return the claim that a suspect makes.

    Args:
        row: the values of a row of the table ``suspects`` (docs/reference/tables.md), each under its column's name;
            ``raised_at`` is a datetime with a zone, or milliseconds since 1970 UTC.

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
        recorded=Recorded.parse(row.get("observations") or ""),
        raised_at_ms=int(raised.timestamp() * 1000) if isinstance(raised, datetime) else int(raised or 0),
    )


def _number(row: Mapping[str, Any], name: str, default: int) -> int:
    value = row.get(name)
    return default if value is None else int(value)
