"""What the comparison reports: suspects for the probe to confirm, and how far it has compared (coverage)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from parallax.kinds import KEY_KINDS, TRANSACTION_KINDS
from parallax.model import UNKNOWN, FindingKind, Rule, TopicPartition, UnknownReason, hash_text, id_of


@dataclass(frozen=True, slots=True)
class Accusation:
    """A rule's statement that a replica is wrong, or that replicas differ; `Suspect` adds topic, partition and time.

    Attributes:
        rule: the invariant that is broken.
        kind: what would be wrong, if a probe confirms it.
        broker: id of the broker with the accused replica; `NOBODY` if the rule accuses none.
        offset: the offset of the record; for a transaction, its first offset on the accused.
        producer_id: the id of the transaction's or the record's producer; -1 if there is none.
        transaction_start_offset: first offset of the transaction; -1 if the accusation is about none.
        marker_offset: offset of the transaction's end marker; -1 if it is not known.
        key_hash_hi: upper half of the key's hash; 0, like the lower half, if the accusation names no key.
        key_hash_lo: lower half of the key's hash.
        observations: evidence as JSON values: what each broker was recorded to show.
    """

    rule: Rule
    kind: FindingKind
    broker: int
    offset: int
    producer_id: int = UNKNOWN
    transaction_start_offset: int = UNKNOWN
    marker_offset: int = UNKNOWN
    key_hash_hi: int = 0
    key_hash_lo: int = 0
    observations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cause(self) -> str:
        """A text that identifies the divergence in every run.

        - ``txn:9:0``: the transaction of producer 9 that begins at offset 0.
        - ``key:HASH:7``: the record at offset 7 of the key with this hash.
        - ``cut:12:3:20``: a log truncated to offset 12, which had been shown in leader epoch 3 up to offset 20.
        - ``head:5``: a log that begins at offset 5.
        - ``offset:7``: anything else, by its offset.
        """
        if self.kind in TRANSACTION_KINDS:
            return f"txn:{self.producer_id}:{self.transaction_start_offset}"
        if self.kind in KEY_KINDS and (self.key_hash_hi or self.key_hash_lo):
            return f"key:{hash_text(self.key_hash_hi, self.key_hash_lo)}:{self.offset}"
        if self.kind is FindingKind.LOG_TRUNCATED:
            # A log may be truncated at one offset again, once it has grown: another epoch or more of it is lost then.
            epoch, shown_to = (
                self.observations.get(n, {}).get(str(self.broker), UNKNOWN) for n in ("epochs", "shown_to")
            )
            return f"cut:{self.offset}:{epoch}:{shown_to}"
        if self.kind is FindingKind.LOG_HEAD_MISSING:
            return f"head:{self.offset}"
        return f"offset:{self.offset}"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A suspect: a question to the brokers whether a replica is wrong, as a row of the table ``suspects``.

    It accuses a replica, or says that replicas differ without direction. It is no alarm: a probe has to confirm it.

    Attributes:
        accusation: what the rule says is wrong, and its evidence.
        positions: by broker id, how far the replica was read when the suspect was raised, as JSON values.
        raised_at: milliseconds since 1970 UTC.
    """

    topic: str
    partition: int
    accusation: Accusation
    positions: Mapping[str, Mapping[str, int]]
    raised_at: int

    @property
    def place(self) -> TopicPartition:
        """The topic and partition of the suspect."""
        return TopicPartition(self.topic, self.partition)

    @property
    def kind(self) -> FindingKind:
        """The kind of divergence, as in ``deleted_record_resurrected``."""
        return self.accusation.kind

    @property
    def broker(self) -> int:
        """The id of the broker with the accused replica; `NOBODY` if none is accused."""
        return self.accusation.broker

    @property
    def cause(self) -> str:
        """A text that identifies the divergence in every run (`Accusation.cause`)."""
        return self.accusation.cause

    @property
    def suspect_id(self) -> str:
        """The id of the suspect: 32 hexadecimal digits, a hash of what it is about.

        It is the same in every run.
        """
        return suspect_id(self.topic, self.partition, self.accusation)

    def as_row(self) -> dict[str, Any]:
        """The suspect as a row of the table ``suspects``: a dict from column name to value.

        ``batch_id`` is left out; ``raised_at`` is in milliseconds.
        """
        a = self.accusation
        return {
            "suspect_id": self.suspect_id,
            "rule": str(a.rule),
            "kind": str(a.kind),
            "topic": self.topic,
            "partition": self.partition,
            "broker": a.broker,
            "offset": a.offset,
            "producer_id": a.producer_id,
            "transaction_start_offset": a.transaction_start_offset,
            "marker_offset": a.marker_offset,
            "key_hash_hi": a.key_hash_hi,
            "key_hash_lo": a.key_hash_lo,
            "positions": json.dumps(self.positions, separators=(",", ":")),
            "observations": json.dumps(a.observations, separators=(",", ":")),
            "raised_at": self.raised_at,
        }


def suspect_id(topic: str, partition: int, accusation: Accusation) -> str:
    """The id of an accusation in partition ``partition`` of ``topic``: 32 hexadecimal digits.

    It is the same in every run. If a topic is created again under its name, and its topic id is known, its accusations
    get other ids.
    """
    topic_id = accusation.observations.get("topic_id")
    more = () if topic_id is None else (topic_id,)
    return id_of(topic, partition, accusation.broker, accusation.cause, accusation.kind, *more)


@dataclass(frozen=True, slots=True)
class DeferredRange:
    """A range of offsets that was not compared because the state had reached its cap, or was lost by an error.

    Attributes:
        view: an `IsolationLevel`.
        start: first offset.
        end: one past the last offset; -1 while the range still grows, because the slowest replica has not reached
            ``start``.
    """

    view: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class UnreadRange:
    """A range of offsets that is unknown until an audit compares it, or (`UnknownReason.LOST_UNREAD`) for good.

    For example, all replicas were read so late that a cleaner may have removed something there before.

    Attributes:
        view: an `IsolationLevel`.
        start: first offset.
        end: one past the last offset.
        reason: why there is no verdict.
        since: when the replicas were read past the range, in milliseconds since 1970 UTC.
        unjudged: how many of its offsets still wait for a verdict of the stream. They count under the reason
            `UnknownReason.UNJUDGED` instead.
    """

    view: int
    start: int
    end: int
    reason: UnknownReason
    since: int
    unjudged: int = 0

    @property
    def count(self) -> int:
        """How many offsets of the range count as unknown for its reason: all except the ``unjudged`` ones."""
        return self.end - self.start - self.unjudged

    @property
    def may_be_audited(self) -> bool:
        """Whether an audit that compares the range decides about it."""
        return self.reason is not UnknownReason.LOST_UNREAD


UnknownOffsets = Mapping[UnknownReason, tuple[int, int]]
"""How many offsets have no verdict, by reason and then by view (`IsolationLevel`). None counts twice in a view."""


@dataclass(frozen=True, slots=True)
class BrokerCoverage:
    """How far one replica has been read, and what it last reported of its log; -1 for a number that is unknown.

    Attributes:
        read_uncommitted: next offset to read at that isolation level.
        read_committed: next offset to read at that isolation level.
        frozen_for_s: for how many seconds it has been frozen; 0 if it is not. A replica is frozen while its last stable
            offset stays behind that of another replica, or behind one that some replica had before, although its high
            watermark has come far enough.
    """

    broker: int
    reachable: bool
    read_uncommitted: int
    read_committed: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    frozen_for_s: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far one topic partition has been compared, and how many of its offsets are unknown.

    Attributes:
        compared_up_to: by view (`IsolationLevel`), the offset up to which all is compared. Every replica of the replica
            set has been read below it, and all offsets there have a verdict except those in ``unknown``. -1 if the
            replica set is not known or one of its replicas was never read.
        unknown: by reason, and then by view: how many offsets have no verdict, of those below the furthest position of
            any replica.
        deferred: ranges that the stream does not compare, because the state is full or after an error.
        candidates: how many absences wait for an explanation. Each is a record that some replica has passed and not
            shown. Those below ``compared_up_to`` count in ``unknown``.
        state_bytes: size of the state when packed.
        brokers: one entry for each replica.
        compared_at: when the micro-batch was compared, milliseconds since 1970 UTC.
        unread: ranges that need an audit, in order; they count in ``unknown``.
        awaits_report: whether a verdict waits for the next row of progress (offsets and open transactions of the
            replicas). If so, the next rows are recorded even if they say the same as the last ones.
        waits_from: by view, the lowest offset that is unknown only until more has been read
            (`parallax.model.PASSING`); -1 if there is none. It shows whether the comparison makes progress: then it
            grows. While a replica is behind, it is not above the offset up to which all replicas were read.
        error: why the partition could not be compared and has begun again, in one line; empty if it was compared.
        withheld_from: the offset from which on rows may be read from the views again, because they are withheld
            (`parallax.compare.withheld`); -1 if none are. It says nothing of what is known, so it makes no difference.
    """

    topic: str
    partition: int
    compared_up_to: tuple[int, int]
    unknown: UnknownOffsets
    deferred: tuple[DeferredRange, ...]
    candidates: int
    state_bytes: int
    brokers: tuple[BrokerCoverage, ...]
    compared_at: int
    unread: tuple[UnreadRange, ...] = ()
    awaits_report: bool = False
    waits_from: tuple[int, int] = (UNKNOWN, UNKNOWN)
    error: str = ""
    withheld_from: int = field(default=UNKNOWN, compare=False)

    @property
    def place(self) -> TopicPartition:
        """The topic and partition that this coverage is about."""
        return TopicPartition(self.topic, self.partition)

    @property
    def begins_apart(self) -> bool:
        """Whether the replicas' logs begin at different offsets now, so that some offsets cannot be compared.

        Empty logs are ignored.
        """
        return len({b.log_start_offset for b in self.brokers if 0 <= b.log_start_offset < b.log_end_offset}) > 1

    def unknown_for(self, reason: UnknownReason) -> tuple[int, int]:
        """How many offsets are unknown for the given reason, in read_uncommitted and in read_committed."""
        return self.unknown.get(reason, (0, 0))

    def settled(self, ended: Callable[[UnreadRange], bool]) -> Coverage:
        """The coverage without those ranges of ``unread`` that an audit has compared since.

        Their offsets are no longer counted in ``unknown`` either.

        Args:
            ended: says of a range whether an audit has compared it.
        """
        left = tuple(span for span in self.unread if not ended(span))
        if len(left) == len(self.unread):
            return self
        unknown = dict(self.unknown)
        for span in self.unread:
            if span not in left:
                counts = list(unknown[span.reason])
                counts[span.view] -= span.count
                unknown[span.reason] = counts[0], counts[1]
        return replace(self, unread=left, unknown=unknown)
