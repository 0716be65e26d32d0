"""Plans what an audit reads, from what the brokers answered before. Pure.

A *look* is what every replica said about its log at one moment, as rows of progress. An audit compares a partition up
to the highest high watermark, and the highest last stable offset, that the first look shows. It waits for replicas that
do not reach these ends yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parallax.compare.state import NEVER
from parallax.model import IsolationLevel, TopicPartition
from parallax.moments import time_text
from parallax.source.offsets import Range, Reader

Look = Sequence[Mapping[str, Any]]
"""Rows of progress, one for each replica; ``observed_at`` in microseconds."""

READ_UNCOMMITTED = int(IsolationLevel.READ_UNCOMMITTED)
READ_COMMITTED = int(IsolationLevel.READ_COMMITTED)


@dataclass(frozen=True, slots=True)
class TopicTraits:
    """What the settings of one topic mean for an audit of it.

    Attributes:
        compacted: whether its cleanup policy contains ``compact``.
        unknown: why reading its replicas cannot show whether they differ; None if it can.
    """

    compacted: bool = True
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyHistory:
    """What the job has recorded about the cleanup policy of a partition's topic.

    Attributes:
        uncompacted_from: where the leader's log ended when the policy was first seen not to compact. What lies from
            this offset on was never compacted. None if that is not on record, or if the policy was seen to compact
            since.
        was_compacted: whether the policy was seen to compact at some time before it was seen not to. Then records below
            ``uncompacted_from`` may have been compacted.
    """

    uncompacted_from: int | None = None
    was_compacted: bool = False


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What an audit compares of one partition, and what it already knows that it cannot compare.

    Attributes:
        topic: the topic's name.
        partition: number of the partition.
        topic_id: the topic's id; empty if no broker gave it.
        traits: what the topic's settings mean for the audit.
        replicas: ids of the brokers that host the partition, without those that ``topics.brokers`` leaves out.
        ends: by isolation level, the offset up to which the partition is compared; -1 if no replica said how far its
            log goes.
        starts: by broker that answered, its log start offset.
        marks: by broker that answered, up to which offset it could be read at each isolation level when it was last
            asked.
        reasons: why something of the partition will stay unknown, as far as that is known before anything is read.
        readable: whether its records are read; otherwise the partition is unknown as a whole.
        beyond: what the audit leaves out from the start, and why. It does not make the verdict on the rest unknown.
            These are offsets behind a transaction that is open for too long (`held_for_too_long`), and replicas that
            ``topics.brokers`` leaves out.
        left_out: ids of the brokers that host the partition and that ``topics.brokers`` leaves out.
        strict_from: nothing was ever compacted from this offset on, so each record must be on all replicas. Below it
            another policy may have been in force, and replicas compact at different times.
        doubted: whether nothing on record says that the log below ``strict_from`` was ever compacted. A record that one
            replica lacks there was compacted or lost, and nobody knows which.
    """

    topic: str
    partition: int
    topic_id: str
    traits: TopicTraits
    replicas: tuple[int, ...]
    ends: tuple[int, int] = (-1, -1)
    starts: Mapping[int, int] | None = None
    marks: Mapping[int, tuple[int, int]] | None = None
    reasons: tuple[str, ...] = ()
    readable: bool = True
    beyond: tuple[str, ...] = ()
    left_out: tuple[int, ...] = ()
    strict_from: int = NEVER
    doubted: bool = False

    @property
    def place(self) -> TopicPartition:
        """The partition's topic and number."""
        return TopicPartition(self.topic, self.partition)


def traits(configs: Mapping[str, str] | Exception) -> TopicTraits:
    """What a topic's settings mean for an audit of it.

    Args:
        configs: the topic's settings by name, as Kafka gives them, or the error that kept them from being read.
    """
    if isinstance(configs, Exception):
        return TopicTraits(unknown=f"the topic's settings cannot be read (DESCRIBE_CONFIGS is needed): {configs}")
    compacted = "compact" in configs.get("cleanup.policy", "delete")
    if configs.get("remote.storage.enable", "false") == "true":
        return TopicTraits(
            compacted, "tiered storage (remote.storage.enable): replicas share the remote part of the log"
        )
    return TopicTraits(compacted)


def plan(
    places: Collection[TopicPartition],
    topic_traits: Mapping[str, TopicTraits],
    look: Look,
    chosen: Collection[int] | None = None,
    histories: Mapping[tuple[TopicPartition, str], PolicyHistory] | None = None,
) -> dict[TopicPartition, PartitionPlan]:
    """Make the plan of each partition, by partition. The first look fixes the offsets up to which it is compared.

    Args:
        places: the partitions.
        topic_traits: by topic, what its settings mean for the audit.
        look: the first look.
        chosen: setting ``topics.brokers``; None for all.
        histories: by partition and topic id, what was recorded about the topic's cleanup policy.
    """
    rows, known = by_place(look), histories or {}
    made = {}
    for place in sorted(places):
        mine = rows.get(place, [])
        made[place] = _with_policy(_plan_one(place, topic_traits[place[0]], mine, chosen), known, mine)
    return made


def _with_policy(
    one: PartitionPlan,
    histories: Mapping[tuple[TopicPartition, str], PolicyHistory],
    rows: Sequence[Mapping[str, Any]],
) -> PartitionPlan:
    """The plan with what is known never to have been compacted: what will be written, if nothing was recorded."""
    if one.traits.compacted:
        return one
    history = histories.get((one.place, one.topic_id), PolicyHistory())
    ends = [int(row["log_end_offset"]) for row in rows if row["reachable"]]
    strict_from = max(ends, default=NEVER) if history.uncompacted_from is None else history.uncompacted_from
    return replace(one, strict_from=strict_from, doubted=not history.was_compacted)


def by_place(look: Look) -> dict[TopicPartition, list[Mapping[str, Any]]]:
    """The rows of a look, grouped by partition."""
    found: dict[TopicPartition, list[Mapping[str, Any]]] = {}
    for row in look:
        found.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
    return found


def _plan_one(
    place: TopicPartition, kind: TopicTraits, rows: Sequence[Mapping[str, Any]], chosen: Collection[int] | None
) -> PartitionPlan:
    hosting = sorted({broker for row in rows for broker in row["replicas"]})
    left_out = () if chosen is None else tuple(broker for broker in hosting if broker not in chosen)
    replicas = tuple(broker for broker in hosting if broker not in left_out)
    bare = PartitionPlan(*place, rows[0]["topic_id"] or "" if rows else "", kind, replicas)
    if not rows:
        return replace(bare, reasons=("no broker names its replicas",), readable=False)
    answered = [row for row in rows if row["reachable"]]
    reasons = [str(row["error"]) for row in rows if not row["reachable"]]
    if kind.unknown is not None:
        reasons.append(kind.unknown)
    marks = {int(row["broker"]): _marks(row) for row in answered}
    ends = tuple(max((m[view] for m in marks.values()), default=-1) for view in (READ_UNCOMMITTED, READ_COMMITTED))
    return replace(
        bare,
        ends=(ends[0], ends[1]),
        starts={int(row["broker"]): int(row["log_start_offset"]) for row in answered},
        marks=marks,
        reasons=tuple(dict.fromkeys(reasons)),
        readable=bool(answered) and kind.unknown is None,
        beyond=tuple(f"broker {b} is left out by topics.brokers" for b in left_out),
        left_out=left_out,
    )


def _marks(row: Mapping[str, Any]) -> tuple[int, int]:
    high_watermark, stable = int(row["high_watermark"]), int(row["last_stable_offset"])
    return high_watermark, min(high_watermark, stable)


def held_for_too_long(rows: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Why nothing behind an old open transaction is compared in read_committed, as reasons for people.

    Empty if no transaction has been open for unusually long.

    A replica gives read_committed consumers nothing from its last stable offset on. So an open transaction keeps an
    audit from comparing the offsets behind it. Usually that ends by itself: a coordinator aborts a transaction that is
    open for longer than its timeout, which ``transaction.max.timeout.ms`` bounds.

    Kafka calls a transaction late whose last write is older than that timeout plus five minutes
    (``ProducerStateManager.hasLateTransaction``). Such a transaction may hang on all replicas. But producers may set
    timestamps themselves: those of Kafka Streams are the times of events, so all its transactions look late. So a late
    transaction is named only if it was open on all replicas at an earlier look too, and has written nothing since.

    Args:
        rows: rows of progress of one partition at one moment.
        before: rows of progress of the same partition at an earlier moment.
    """
    answered = [row for row in rows if row["reachable"]]
    stable = max((_marks(row)[READ_COMMITTED] for row in answered), default=-1)
    if not answered or stable >= max((_marks(row)[READ_UNCOMMITTED] for row in answered), default=-1):
        return ()
    foremost = [row for row in answered if _marks(row)[READ_COMMITTED] == stable]
    held = {row["broker"]: _identity(_holding(row, _marks(row)[READ_COMMITTED])) for row in before if row["reachable"]}
    late = [
        one
        for row in foremost
        if (one := _holding(row, stable)) is not None
        and _is_late(one, row)
        and held.get(row["broker"]) == _identity(one)
    ]
    if len(late) < len(foremost):
        return ()
    first = late[0]
    at = time_text(first["last_timestamp"])
    text = (
        f"nothing is compared in read_committed from offset {stable} on: a transaction of producer "
        f"{first['producer_id']} holds the last stable offset there, and wrote last at {at}, longer "
        "ago than Kafka's default of transaction.max.timeout.ms allows; parallax check says whether it hangs, and what "
        "ends it"
    )
    return (text,)


def bounded(
    plans: Mapping[TopicPartition, PartitionPlan], look: Look, before: Look
) -> dict[TopicPartition, PartitionPlan]:
    """The plans, with each transaction that is open for too long added to `PartitionPlan.beyond`.

    `held_for_too_long` decides which these are: nothing behind them is compared in read_committed.

    Args:
        plans: the plans by partition.
        look: the newest look.
        before: an earlier look.
    """
    now, then = by_place(look), by_place(before)
    return {
        p: replace(one, beyond=(*one.beyond, *held_for_too_long(now.get(p, ()), then.get(p, ()))))
        for p, one in plans.items()
    }


_LATE_MS = (15 + 5) * 60_000
"""Kafka's default of ``transaction.max.timeout.ms`` plus ``ProducerStateManager.LATE_TRANSACTION_BUFFER_MS``."""


def _holding(row: Mapping[str, Any], stable: int) -> Mapping[str, Any] | None:
    """The transaction that holds a replica's last stable offset; None if the replica does not say."""
    opened = [one for one in row.get("open_transactions") or () if one["start_offset"] <= stable]
    return min(opened, key=lambda one: one["start_offset"], default=None)


def _identity(transaction: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    if transaction is None:
        return None
    return transaction["producer_id"], transaction["start_offset"], transaction["last_timestamp"]


def _is_late(transaction: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    last = transaction["last_timestamp"] or 0
    return 0 < last < int(row["observed_at"]) // 1000 - _LATE_MS


def updated(plans: Mapping[TopicPartition, PartitionPlan], look: Look) -> dict[TopicPartition, PartitionPlan]:
    """The plans, with how far each replica reaches by a newer look (`PartitionPlan.marks`).

    The offsets up to which partitions are compared stay the same.
    """
    rows = by_place(look)
    made = {}
    for place, one in plans.items():
        marks = dict(one.marks or {})
        for row in rows.get(place, ()):
            if row["reachable"] and int(row["broker"]) in marks:
                marks[int(row["broker"])] = _marks(row)
        made[place] = replace(one, marks=marks)
    return made


def behind(plans: Iterable[PartitionPlan]) -> list[tuple[TopicPartition, int]]:
    """The replicas that do not reach the end up to which their partition is compared.

    Each is a partition and the id of a broker.
    """
    return [
        (one.place, broker)
        for one in plans
        if one.readable
        for broker, mark in (one.marks or {}).items()
        if any(mark[view] < one.ends[view] for view in (READ_UNCOMMITTED, READ_COMMITTED))
    ]


def ranges(
    plans: Iterable[PartitionPlan], positions: Mapping[tuple[TopicPartition, int], tuple[int, int]] | None = None
) -> dict[Reader, Range]:
    """By reader, the range of offsets that it has to read. Readers with nothing to read are left out.

    Args:
        plans: one plan for each partition.
        positions: by partition and broker, the offset at each isolation level from which to read; the log start by
            default.
    """
    found: dict[Reader, Range] = {}
    for one in plans:
        if not one.readable:
            continue
        for broker, mark in (one.marks or {}).items():
            start = (one.starts or {}).get(broker, 0)
            at = (positions or {}).get((one.place, broker), (start, start))
            for view in (READ_UNCOMMITTED, READ_COMMITTED):
                span = Range(max(start, at[view]), min(one.ends[view], mark[view]), one.topic_id)
                if span.start < span.end:
                    found[Reader(view, broker, *one.place)] = span
    return found


__all__ = [
    "Look",
    "PartitionPlan",
    "PolicyHistory",
    "TopicTraits",
    "behind",
    "bounded",
    "by_place",
    "held_for_too_long",
    "plan",
    "ranges",
    "traits",
    "updated",
]
