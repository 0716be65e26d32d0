"""What the comparison reports: suspects for the probe to confirm, and the coverage."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from parallax.kinds import KEY_KINDS, TRANSACTION_KINDS
from parallax.model import UNKNOWN, FindingKind, Rule, TopicPartition, UnknownReason, hash_text, id_of


@dataclass(frozen=True, slots=True)
class Accusation:
    """A rule's claim that a replica is wrong, or that replicas differ, before it has a lasting id.

    Attributes:
        broker: the accused replica.
        offset: the record concerned; for a transaction, its first offset on the accused.
        observations: JSON-able; what each broker was recorded to show.
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
        """The cause, which identifies the divergence, so that it is the same tomorrow (docs/contribute/theory.md)."""
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
    """A difference that no rule explains; a row of the table ``suspects``.

    Attributes:
        accusation: what the rule found.
        positions: JSON-able; how far each broker had been read when the suspect was raised.
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
        """The accused replica."""
        return self.accusation.broker

    @property
    def cause(self) -> str:
        """The cause of the suspect, which identifies the divergence, so that it is the same tomorrow."""
        return self.accusation.cause

    @property
    def suspect_id(self) -> str:
        """The id of the suspect, 32 hexadecimal digits: see the function of this name."""
        return suspect_id(self.topic, self.partition, self.accusation)

    def as_row(self) -> dict[str, Any]:
        """The columns of the table ``suspects``, without ``batch_id``; ``raised_at`` in milliseconds."""
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
    """The id that the same accusation of the same replica gets in every run.

    A topic that was created again under the name gets other ids, if its topic id is known.
    """
    topic_id = accusation.observations.get("topic_id")
    more = () if topic_id is None else (topic_id,)
    return id_of(topic, partition, accusation.broker, accusation.cause, accusation.kind, *more)


@dataclass(frozen=True, slots=True)
class DeferredRange:
    """Offsets that were not compared because the unmatched state had reached its cap, or was lost by an error.

    Attributes:
        view: an `IsolationLevel`.
        start: first offset.
        end: one past the last; -1 while the slowest replica has not reached ``start`` yet.
    """

    view: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class UnreadRange:
    """Offsets that every replica was read past, but none in time: something may have been cleaned before.

    Attributes:
        view: an `IsolationLevel`.
        start: first offset.
        end: one past the last.
        reason: why, one of those that an audit of the partition settles.
        since: when the replicas were read past it, in milliseconds since 1970 UTC.
        unjudged: how many of its offsets still wait for a verdict of the stream, and count under that reason.
    """

    view: int
    start: int
    end: int
    reason: UnknownReason
    since: int
    unjudged: int = 0

    @property
    def count(self) -> int:
        """How many offsets of the range are unknown for its reason; those that are `unjudged` count elsewhere."""
        return self.end - self.start - self.unjudged


UnknownOffsets = Mapping[UnknownReason, tuple[int, int]]
"""How many offsets have no verdict, by reason and then by view (`IsolationLevel`). None counts twice in a view."""


@dataclass(frozen=True, slots=True)
class BrokerCoverage:
    """How far one replica has been read; -1 if unknown.

    Attributes:
        read_uncommitted: next offset to read in that view.
        read_committed: next offset to read in that view.
        frozen_for_s: for how many seconds its last stable offset has not moved, although the replica has replicated
            past where it should have. It is behind the others' then, or, if none is ahead, behind where one was before.
            0 if it is not frozen.
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
    """How far one topic partition has been compared, and what of it is unknown.

    Attributes:
        compared_up_to: by view (`IsolationLevel`), an offset below which every replica of the set has been read, and
            everything is judged except ``unknown``. -1 if the set is not known or one replica was never read.
        unknown: how many offsets below the furthest position have no verdict, and why.
        deferred: ranges left to a later comparison of the tables.
        candidates: absences that wait for an explanation; those below ``compared_up_to`` are counted in ``unknown``.
        state_bytes: size of the state when packed.
        unread: what an audit is needed for, in order; counted in ``unknown``.
        awaits_report: a verdict waits for the replicas' next report, even if it repeats the last one.
        waits_from: by view, the lowest offset that counts for one of `parallax.model.PASSING`. If it only has to be
            read, up to where all replicas have been read. -1 if nothing waits. It moves as long as the comparison gets
            on.
        error: why the partition could not be compared and has begun again, in one line; empty where it was compared.
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

    @property
    def place(self) -> TopicPartition:
        """The topic and partition that the coverage is of."""
        return TopicPartition(self.topic, self.partition)

    @property
    def begins_apart(self) -> bool:
        """Whether the logs begin at different offsets now; an empty log begins nowhere."""
        return len({b.log_start_offset for b in self.brokers if 0 <= b.log_start_offset < b.log_end_offset}) > 1

    def unknown_for(self, reason: UnknownReason) -> tuple[int, int]:
        """By view, how many offsets have no verdict for one reason."""
        return self.unknown.get(reason, (0, 0))

    def settled(self, ended: Callable[[UnreadRange], bool]) -> Coverage:
        """The coverage without the unread ranges that an audit has settled.

        Args:
            ended: whether an audit has settled a range.
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
