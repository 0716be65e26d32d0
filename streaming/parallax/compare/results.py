"""How a Spark task passes the suspects and the coverage of its partitions to the driver.

They are JSON text, or columns for the many partitions in which nothing needed a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from parallax.compare.joint import Quiet
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, VIEWS, Array
from parallax.compare.quiet import COVERED, REASONS
from parallax.compare.state import BROKER, UNREAD, UNREAD_REASONS
from parallax.compare.suspect import BrokerCoverage, Coverage, Suspect, UnknownOffsets, UnreadRange
from parallax.model import PASSING, UNKNOWN, TopicPartition, UnknownReason


@dataclass(frozen=True, slots=True)
class _Result:
    suspects: list[Suspect]
    coverage: Coverage


_RESULT = TypeAdapter(_Result)

_FIELDS: list[Any] = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("covered", pa.binary()),
    pa.field("brokers", pa.binary()),
    pa.field("spans", pa.binary()),
]
_QUIET = pa.schema(_FIELDS)
_NOW = b"now_ms"


def to_json(suspects: list[Suspect], coverage: Coverage) -> str:
    """The suspects and the coverage of one partition as JSON text."""
    return _RESULT.dump_json(_Result(suspects, coverage)).decode()


def from_json(text: str) -> tuple[list[Suspect], Coverage]:
    """The suspects and the coverage of one partition from ``text``, which `to_json` wrote."""
    result = _RESULT.validate_json(text)
    return result.suspects, result.coverage


def told_by(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Suspect], list[Coverage]]:
    """Collect the suspects and the coverages from the rows that Spark tasks return, in their order.

    Args:
        rows: mappings with two columns, each of which may be None. ``results`` is a list of texts that `to_json` wrote.
            ``quiet`` is what `to_columns` wrote.
    """
    suspects: list[Suspect] = []
    coverages: list[Coverage] = []
    for row in rows:
        for text in row["results"] or ():
            raised, coverage = from_json(text)
            suspects += raised
            coverages.append(coverage)
        if row["quiet"]:
            coverages += from_columns(row["quiet"])
    return suspects, coverages


def to_columns(places: Sequence[TopicPartition], quiet: Quiet, now_ms: int) -> bytes:
    """Pack the coverage of the quiet partitions into bytes, for `from_columns`.

    Args:
        places: the quiet partitions, in the order of ``quiet``.
        quiet: the result of `parallax.compare.joint.step_quiet`.
        now_ms: when the micro-batch was planned, milliseconds since 1970 UTC.
    """
    sizes = np.arange(len(places) + 1) * COVERED.itemsize
    columns = [
        pa.array([place.topic for place in places], pa.string()),
        pa.array([place.partition for place in places], pa.int32()),
        pieces(quiet.covered, sizes),
        pieces(quiet.brokers, quiet.broker_at * BROKER.itemsize),
        pieces(quiet.spans, quiet.span_at * UNREAD.itemsize),
    ]
    sink = pa.BufferOutputStream()
    schema = _QUIET.with_metadata({_NOW: str(now_ms)})
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return sink.getvalue().to_pybytes()


def pieces(table: Array, bounds: Array) -> Any:
    """An Arrow array with one byte string for each partition, cut from the bytes of a table.

    Args:
        table: the rows of all partitions, one after another.
        bounds: for each partition, the index of its first byte in the table, and as last entry the number of bytes.
    """
    data = np.ascontiguousarray(table).view(np.uint8)
    buffers: list[Any] = [None, *map(pa.py_buffer, (bounds.astype(np.int32), data))]  # type: ignore[arg-type]
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)


def from_columns(packed: bytes) -> Iterator[Coverage]:
    """Yield the coverage of each partition from ``packed``, the bytes that `to_columns` wrote."""
    table: Any = pa.ipc.open_stream(packed).read_all()
    now_ms = int((table.schema.metadata or {})[_NOW])
    told: list[list[Any]] = [column.to_pylist() for column in table.columns]
    topics, partitions, *tables = told
    covered, brokers, spans = (
        np.frombuffer(b"".join(table), dtype) for table, dtype in zip(tables, (COVERED, BROKER, UNREAD), strict=True)
    )
    replicas, ranges = _replicas(brokers), _ranges(spans)
    is_member = brokers["member"].tolist()
    names = COVERED.names or ()
    broker = span = 0
    for n, row in enumerate(zip(*(covered[name].tolist() for name in names), strict=True)):
        one = dict(zip(names, row, strict=True))
        ends = broker + len(tables[1][n]) // BROKER.itemsize, span + len(tables[2][n]) // UNREAD.itemsize
        mine = range(broker, ends[0])
        unread = tuple(ranges[span : ends[1]])
        yield Coverage(
            topic=topics[n],
            partition=partitions[n],
            compared_up_to=tuple(one["compared_up_to"]),
            unknown=_unknown(one, unread),
            deferred=(),
            candidates=0,
            state_bytes=one["state_bytes"],
            brokers=tuple(replicas[i] for i in mine if is_member[i]),
            compared_at=now_ms,
            unread=unread,
            awaits_report=bool(one["awaits_report"]),
            waits_from=(_waits_from(one, READ_UNCOMMITTED), _waits_from(one, READ_COMMITTED)),
        )
        broker, span = ends


def _replicas(brokers: Array) -> list[BrokerCoverage]:
    position = brokers["position"]
    since = brokers["stalled_since"]
    frozen = np.where(since != UNKNOWN, (brokers["observed_at"] - since) / 1000.0, 0.0)
    columns = (
        brokers["broker"],
        brokers["reachable"],
        position[:, READ_UNCOMMITTED],
        position[:, READ_COMMITTED],
        *(brokers[name] for name in ("high_watermark", "stable_told", "log_start_offset", "log_end_offset")),
        frozen,
    )
    return [BrokerCoverage(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _ranges(spans: Array) -> list[UnreadRange]:
    columns = (spans[name].tolist() for name in ("view", "start", "end", "reason", "since"))
    return [
        UnreadRange(view, start, end, UNREAD_REASONS[reason], since)
        for view, start, end, reason, since in zip(*columns, strict=True)
    ]


def _why_open(covered: dict[str, Any], view: int) -> UnknownReason:
    return REASONS[covered["why_open" if view == READ_UNCOMMITTED else "why_open_committed"]]


def _waits_from(covered: dict[str, Any], view: int) -> int:
    waits = covered["open"][view] and _why_open(covered, view) in PASSING
    return max(0, covered["compared_up_to"][view]) if waits else UNKNOWN


def _unknown(covered: dict[str, Any], unread: Sequence[UnreadRange]) -> UnknownOffsets:
    """How many offsets have no verdict, as `parallax.compare.coverage` counts them."""
    counts = {reason: [0, 0] for reason in UnknownReason}
    for view in VIEWS:
        counts[_why_open(covered, view)][view] += covered["open"][view]
        counts[REASONS[covered["why_gone"]]][view] += covered["gone"][view]
        counts[UnknownReason.LOG_START_DIFFERS][view] = covered["log_start_differs"]
        counts[UnknownReason.RETENTION_DIFFERS][view] = covered["retention_differs"]
    for span in unread:
        counts[span.reason][span.view] += span.count
    return {reason: (uncommitted, committed) for reason, (uncommitted, committed) in counts.items()}


__all__ = ["from_columns", "from_json", "pieces", "to_columns", "to_json", "told_by"]
