"""Makes what Spark's tasks in an audit need to know of each partition, in addition to its rows.

That is what brokers answered about its replicas, and where its readers begin, packed for the comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parallax.audit.compare import PartitionInput
from parallax.audit.packing import pack
from parallax.audit.plan import READ_COMMITTED, READ_UNCOMMITTED, Look, PartitionPlan, by_place
from parallax.compare.blocks import Agreed
from parallax.compare.observations import Observations
from parallax.compare.state import NEVER
from parallax.model import UNKNOWN, RowKind, TopicPartition

_NUMBERS = ("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset", "leader")


def from_brokers(
    plans: Iterable[PartitionPlan], looks: Sequence[Look], read_at: int, *, begin: bool
) -> dict[TopicPartition, PartitionInput]:
    """For an audit of the brokers: by partition, what its comparison gets in addition to the rows.

    Args:
        plans: the plans of the partitions that are read.
        looks: the looks since the previous round, in order; they are taken in before the rows.
        read_at: when this round's rows count as read, ms since 1970 UTC. It lies between the looks before and after the
            reading.
        begin: whether this is the first round. Readers then begin at the log start, so nothing lies below.
    """
    rows = [by_place(look) for look in looks]
    made = {}
    for one in plans:
        opening = [ticks(one.place, look.get(one.place, [])) for look in rows]
        if begin:
            opening.insert(0, known_before(one, 0))
            starts = {b: ((one.starts or {})[b],) * 2 for b in one.marks or {}}
            opening.append(_positions(one.place, starts, read_at))
        made[one.place] = PartitionInput(tuple(opening), (), one.ends, one.doubted, one.left_out)
    return made


def from_tables(
    plans: Iterable[PartitionPlan], last_ticks: Look, read_at: int, agreed: Mapping[TopicPartition, Agreed]
) -> dict[TopicPartition, PartitionInput]:
    """For an audit of the tables: by partition, what its comparison gets in addition to the recorded rows.

    All replicas have been recorded up to the plans' ends, so every absence below them can be judged. The last rows of
    progress are taken in after the rows of the views, because they hold the last stable offsets.

    Args:
        plans: the plans of the partitions; their replicas have been recorded up to ``ends``.
        last_ticks: rows of progress of about the last minute, of any partition.
        read_at: the time at which all recorded rows count as read, ms since 1970 UTC.
        agreed: by partition, the offsets in which all replicas agreed by their sums (`parallax.compare.blocks`). Their
            rows are not read.
    """
    rows = by_place(last_ticks)
    made = {}
    for one in plans:
        ends = dict.fromkeys(one.replicas, one.ends)
        horizon = [
            {
                "broker": broker,
                "observed_at": read_at + 1,
                "reachable": True,
                "high_watermark": one.ends[READ_UNCOMMITTED],
                "last_stable_offset": one.ends[READ_COMMITTED],
                "log_start_offset": _start(one, broker),
                "replicas": one.replicas,
            }
            for broker in one.replicas
        ]
        closing = (
            _positions(one.place, ends, read_at),
            pack(Observations.of(*one.place, horizon)),
            ticks(one.place, rows.get(one.place, [])),
        )
        made[one.place] = PartitionInput(
            (known_before(one, read_at - 1),), closing, one.ends, one.doubted, one.left_out, agreed.get(one.place)
        )
    return made


def _start(one: PartitionPlan, broker: int) -> int:
    """Where the log of a replica begins; -1 of one that holds nothing: what was recorded of it is of another log."""
    start, end = (one.starts or {}).get(broker, 0), (one.marks or {}).get(broker, (NEVER, NEVER))[READ_UNCOMMITTED]
    return start if start < end else UNKNOWN


def known_before(one: PartitionPlan, at: int) -> bytes:
    """The first row that the comparison is given of a partition: a packed row of progress, made from the audit's plan.

    The row names the partition's replicas. If the log was never compacted from some offset on, the row also gives that
    offset. From there on the comparison judges every record, and not only the latest of its key. Otherwise it would
    first wait for a look at the topic's cleanup policy. It need not wait, because the audit asks for the policy again
    once it has read everything.

    Args:
        one: the partition's plan.
        at: ``observed_at`` of the row, in ms since 1970 UTC.
    """
    row: dict[str, Any] = {"observed_at": at, "broker": -1, "reachable": False, "replicas": one.replicas}
    if one.strict_from != NEVER:
        row |= {"log_end_offset": one.strict_from, "compacted": 0, "policy_at": NEVER}
    return pack(Observations.of(*one.place, [row]))


def ticks(place: TopicPartition, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows of progress of one partition, packed for Spark's tasks.

    Args:
        place: the partition.
        rows: its rows; ``observed_at`` in microseconds since 1970 UTC.
    """
    return pack(Observations.of(*place, [_tick(row) for row in rows]))


def _tick(row: Mapping[str, Any]) -> dict[str, Any]:
    opened = row.get("open_transactions")
    made = {
        "broker": row["broker"],
        "observed_at": int(row["observed_at"]) // 1000,
        "reachable": bool(row["reachable"]),
        "replicas": list(row["replicas"] or ()),
        "open_transactions": None
        if opened is None or not row["reachable"]
        else [(t["producer_id"], t["start_offset"]) for t in opened],
    }
    policy = row.get("cleanup_policy")
    if policy is not None:
        made["deletes"] = int("delete" in policy)
    return made | {name: int(row[name]) for name in _NUMBERS if row.get(name) is not None}


def _positions(place: TopicPartition, at: Mapping[int, tuple[int, int]], read_at: int) -> bytes:
    rows = [
        {"view": view, "broker": broker, "kind": int(RowKind.POSITION), "offset": offsets[view], "timestamp": read_at}
        for broker, offsets in at.items()
        for view in (READ_UNCOMMITTED, READ_COMMITTED)
    ]
    return pack(Observations.of(*place, rows))


__all__ = ["from_brokers", "from_tables", "known_before", "ticks"]
