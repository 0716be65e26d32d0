"""What an audit of the tables can compare: how far every replica has been recorded, and what it told last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from parallax.audit.plan import READ_COMMITTED, READ_UNCOMMITTED, Look, PartitionPlan, Place, TopicTraits, plan
from parallax.config import Settings
from parallax.model import IsolationLevel, RowKind
from parallax.views.tables import PROGRESS, table_path


def recorded_plan(
    session: Any, settings: Settings, places: Sequence[Place], kinds: Mapping[str, TopicTraits]
) -> tuple[dict[Place, PartitionPlan], Look]:
    """Plans that end where every replica has been recorded, and the rows of progress of the last while.

    Args:
        session: a Spark session with Delta.
        settings: of the job that recorded.
        places: the partitions.
        kinds: by topic.
    """
    ticks = _last_ticks(session, settings, places)
    newest: dict[tuple[Place, int], Mapping[str, Any]] = {}
    for row in ticks:
        newest[(row["topic"], row["partition"]), row["broker"]] = row
    plans = plan(places, kinds, list(newest.values()), settings.topics.brokers)
    positions = _positions(session, settings.storage.path, places)
    return {place: _ended(one, positions) for place, one in plans.items()}, ticks


def _ended(one: PartitionPlan, positions: Mapping[tuple[Place, int], dict[int, int]]) -> PartitionPlan:
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


def _positions(session: Any, storage: str, places: Sequence[Place]) -> dict[tuple[Place, int], dict[int, int]]:
    """How far each replica has been recorded, by view."""
    from pyspark.sql import functions as sf

    wanted = _wanted(session, places)
    found: dict[tuple[Place, int], dict[int, int]] = {}
    for isolation in IsolationLevel:
        rows = session.read.format("delta").load(table_path(storage, isolation.option))
        rows = rows.where(sf.col("kind") == int(RowKind.POSITION)).join(sf.broadcast(wanted), ["topic", "partition"])
        for row in rows.groupBy("topic", "partition", "broker").agg(sf.max("offset").alias("position")).collect():
            reader = (row["topic"], row["partition"]), row["broker"]
            found.setdefault(reader, {})[int(isolation)] = row["position"]
    return found


def _last_ticks(session: Any, settings: Settings, places: Sequence[Place]) -> list[dict[str, Any]]:
    """The progress of the last while before the newest row: long enough to see a last stable offset stand still."""
    from pyspark.sql import functions as sf

    rows = session.read.format("delta").load(table_path(settings.storage.path, PROGRESS))
    rows = rows.join(sf.broadcast(_wanted(session, places)), ["topic", "partition"])
    newest = rows.agg(sf.max("observed_at")).first()[0]
    if newest is None:
        return []
    span_ms = 3 * (settings.compare.grace_ms + settings.read.progress_interval_ms)
    recent = rows.where(sf.col("observed_at") >= sf.lit(newest - timedelta(milliseconds=span_ms)))
    micros = sf.unix_micros("observed_at").alias("observed_at")
    columns = [micros if name == "observed_at" else sf.col(name) for name in recent.columns]
    found = [row.asDict(recursive=True) for row in recent.select(*columns).collect()]
    return sorted(found, key=lambda row: row["observed_at"])


def _wanted(session: Any, places: Sequence[Place]) -> Any:
    return session.createDataFrame(list(places), "topic string, partition int")


__all__ = ["recorded_plan"]
