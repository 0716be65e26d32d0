"""Plans an audit of the tables: up to where each replica was recorded, and what it answered last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from parallax.audit.plan import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Look,
    PartitionPlan,
    PolicyHistory,
    TopicTraits,
    bounded,
    by_place,
    plan,
)
from parallax.config import Settings
from parallax.model import IsolationLevel, RowKind, TopicPartition
from parallax.source.repeats import LONGEST_US
from parallax.views.tables import PROGRESS, table_path

_EARLIER = timedelta(microseconds=2 * LONGEST_US)
"""Each replica that is asked has a row within this time, even if nothing has changed."""


def recorded_plan(
    session: Any,
    settings: Settings,
    places: Sequence[TopicPartition],
    kinds: Mapping[str, TopicTraits],
    histories: Mapping[tuple[TopicPartition, str], PolicyHistory],
) -> tuple[dict[TopicPartition, PartitionPlan], Look]:
    """Plan an audit of the tables. Each partition is compared up to where all its replicas have been recorded.

    Args:
        session: a Spark session with Delta.
        settings: settings of the job that recorded.
        places: the partitions.
        kinds: by topic, its traits.
        histories: by partition and topic id, what was recorded about the topic's cleanup policy.

    Returns:
        By partition, its plan.
        The rows of progress of the last minutes.
    """
    ticks = _last_ticks(session, settings, places)
    oldest: dict[tuple[TopicPartition, int], Mapping[str, Any]] = {}
    newest: dict[tuple[TopicPartition, int], Mapping[str, Any]] = {}
    for row in ticks:
        replica = TopicPartition(row["topic"], row["partition"]), row["broker"]
        newest[replica] = row
        oldest.setdefault(replica, row)
    # One row of a replica says nothing of how long anything has stood.
    earlier = [row for replica, row in oldest.items() if row is not newest[replica]]
    plans = plan(places, kinds, list(newest.values()), settings.topics.brokers, histories)
    positions = _positions(session, settings.storage.path, places)
    ended = {place: _ended(one, positions) for place, one in plans.items()}
    rows, ended = by_place(ticks), bounded(ended, list(newest.values()), earlier)
    return {p: _doubted(one, rows.get(p, ()), settings.compare.grace_ms) for p, one in ended.items()}, ticks


def _doubted(one: PartitionPlan, ticks: Look, grace_ms: int) -> PartitionPlan:
    return replace(one, reasons=(*one.reasons, *not_watched_long_enough(ticks, grace_ms)))


def not_watched_long_enough(ticks: Look, grace_ms: int) -> tuple[str, ...]:
    """Which replicas were watched too shortly to say whether they are frozen, as reasons for people. Pure.

    A replica is frozen if others' last stable offsets are higher and its own has not moved for the grace period. If it
    was watched for less than that and did not move, nobody knows whether it is frozen.

    Args:
        ticks: recorded rows of progress of one partition, in order of time; ``observed_at`` in microseconds.
        grace_ms: setting ``compare.grace_ms``.
    """
    reported: dict[int, list[Mapping[str, Any]]] = {}
    for row in ticks:
        if row["reachable"]:
            reported.setdefault(int(row["broker"]), []).append(row)
    foremost = max((rows[-1]["last_stable_offset"] for rows in reported.values()), default=0)
    reasons = []
    for broker, rows in sorted(reported.items()):
        at, high = rows[-1]["last_stable_offset"], rows[-1]["high_watermark"]
        watched_ms = (rows[-1]["observed_at"] - rows[0]["observed_at"]) // 1000
        moved = any(row["last_stable_offset"] != at for row in rows)
        if at < min(high, foremost) and watched_ms < grace_ms and not moved:
            reasons.append(
                f"the last stable offset of broker {broker} is {at}, another's {foremost}; it was watched for "
                f"{watched_ms / 1000:.1f} s, less than compare.grace_ms"
            )
    return tuple(reasons)


def _ended(one: PartitionPlan, positions: Mapping[tuple[TopicPartition, int], dict[int, int]]) -> PartitionPlan:
    """The plan with its ends set to what is recorded of the replica that was recorded least."""
    if not one.replicas:
        return replace(one, reasons=("nothing was recorded of it",), readable=False)
    read = {b: positions.get((one.place, b), {}) for b in one.replicas}
    lacking = [b for b, views in read.items() if len(views) < 2]
    if lacking:
        reasons = tuple(f"nothing was recorded of broker {b}" for b in lacking)
        return replace(one, reasons=(*one.reasons, *reasons), readable=False)
    ends = tuple(min(views[view] for views in read.values()) for view in (READ_UNCOMMITTED, READ_COMMITTED))
    return replace(one, ends=(ends[0], ends[1]), readable=one.traits.unknown is None)


def _positions(
    session: Any, storage: str, places: Sequence[TopicPartition]
) -> dict[tuple[TopicPartition, int], dict[int, int]]:
    """How far each replica has been recorded, by view."""
    from pyspark.sql import functions as sf

    wanted = _wanted(session, places)
    found: dict[tuple[TopicPartition, int], dict[int, int]] = {}
    for isolation in IsolationLevel:
        rows = session.read.format("delta").load(table_path(storage, isolation.option))
        rows = rows.where(sf.col("kind") == int(RowKind.POSITION)).join(sf.broadcast(wanted), ["topic", "partition"])
        for row in rows.groupBy("topic", "partition", "broker").agg(sf.max("offset").alias("position")).collect():
            reader = TopicPartition(row["topic"], row["partition"]), row["broker"]
            found.setdefault(reader, {})[int(isolation)] = row["position"]
    return found


def _last_ticks(session: Any, settings: Settings, places: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    """The progress of the last while before the newest row: long enough to see a last stable offset stand still.

    A job on a busy machine may have looked once in that time, or had nothing new to record: of each replica the first
    row of the last minutes is taken as well, and the last one.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    rows = session.read.format("delta").load(table_path(settings.storage.path, PROGRESS))
    rows = rows.join(sf.broadcast(_wanted(session, places)), ["topic", "partition"])
    newest = rows.agg(sf.max("observed_at")).first()[0]
    if newest is None:
        return []
    span = timedelta(milliseconds=3 * (settings.compare.grace_ms + settings.read.progress_interval_ms))
    in_turn = Window.partitionBy("topic", "partition", "broker").orderBy("observed_at")
    known = rows.where(sf.col("observed_at") >= sf.lit(newest - max(span, _EARLIER))).select(
        "*", sf.row_number().over(in_turn).alias("turn"), sf.lead("observed_at").over(in_turn).alias("next")
    )
    is_edge = (sf.col("turn") == 1) | sf.col("next").isNull()
    recent = known.where((sf.col("observed_at") >= sf.lit(newest - span)) | is_edge).drop("turn", "next")
    micros = sf.unix_micros("observed_at").alias("observed_at")
    columns = [micros if name == "observed_at" else sf.col(name) for name in recent.columns]
    found = [row.asDict(recursive=True) for row in recent.select(*columns).collect()]
    return sorted(found, key=lambda row: row["observed_at"])


def _wanted(session: Any, places: Sequence[TopicPartition]) -> Any:
    return session.createDataFrame(list(places), "topic string, partition int")


__all__ = ["not_watched_long_enough", "recorded_plan"]
