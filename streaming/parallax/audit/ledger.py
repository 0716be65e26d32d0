"""The Delta table ``audits``: for each partition, the last audit by the job that had a verdict.

The job's comparison lists ranges of offsets as unknown, e.g. those that nobody read in time
(`parallax.compare.unread`). It knows of no audit, so it never removes a range. This module removes the ranges that an
audit has compared, before the coverage becomes metrics.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.columns import Column, Table
from parallax.compare.suspect import Coverage, UnreadRange
from parallax.errors import one_line
from parallax.model import TopicPartition
from parallax.moments import milliseconds
from parallax.views.tables import create_replaced, replace_rows, rust_uri, tidy

log = structlog.get_logger(__name__)

AUDITS = "audits"

SETTLED_BY = (
    "an audit that the job runs by itself (audit.unread_delay_s after it was noticed unless that is 0, or at "
    "audit.interval_s)"
)
"""Which audits make offsets known again that are unknown to the job, as text for people; other audits do not.

The runbook says the same.
"""

_TIME: Any = pa.timestamp("ms", tz="UTC")
TABLE = Table(
    AUDITS,
    "One row for each partition: the last audit of it by the job that had a verdict. Each commit replaces all rows.",
    (
        Column("topic", pa.string(), "Topic."),
        Column("partition", pa.int32(), "Number of the partition."),
        Column("started_at", _TIME, "Start of the audit."),
        Column("ended_at", _TIME, "End of the audit."),
        Column("result", pa.string(), "consistent or diverged."),
        Column("compared_from", pa.int64(), "Lowest offset that was compared."),
        Column("read_uncommitted", pa.int64(), "Offset below which the audit compared everything in read_uncommitted."),
        Column("read_committed", pa.int64(), "The same in read_committed."),
    ),
)
_SCHEMA = TABLE.schema


@dataclass(frozen=True, slots=True)
class Ended:
    """The last audit of one partition that had a verdict; times in ms since 1970 UTC.

    Attributes:
        started_at: when the audit began.
        ended_at: when it ended.
        result: ``consistent`` or ``diverged``.
        compared_from: the lowest offset that was compared.
        compared_up_to: by isolation level, the offset up to which the audit compared.
    """

    started_at: int
    ended_at: int
    result: str
    compared_from: int
    compared_up_to: tuple[int, int]

    def covers(self, span: UnreadRange) -> bool:
        """Whether this audit decides about a range of offsets that nobody had read in time.

        True if the audit has compared the whole range, and began after the range was noticed (`UnreadRange.since`).
        What no replica holds any more no audit decides about.
        """
        return (
            span.may_be_audited
            and self.started_at > span.since
            and self.compared_from <= span.start
            and span.end <= self.compared_up_to[span.view]
        )


def create_audits(storage: str) -> None:
    """Create the table ``audits`` below ``storage`` (``storage.path``) if it does not exist."""
    create_replaced(rust_uri(storage, AUDITS), _SCHEMA)


class Ledger:
    """Reads and writes the table ``audits``. Any thread may use it.

    An audit counts once it is in the table. If the process is killed before, the audit is run again. The table has one
    row for each partition, and one commit replaces all rows.

    Args:
        storage: ``storage.path``.
    """

    def __init__(self, storage: str) -> None:
        self._uri = rust_uri(storage, AUDITS)
        self._lock = threading.Lock()
        self._ended: dict[TopicPartition, Ended] = _load(self._uri)

    def take(self, report: AuditReport) -> None:
        """Record an audit, for the partitions on which it had a verdict. An audit of the tables is ignored.

        Raises:
            deltalake.exceptions.DeltaError: the table could not be written, so the audit does not count.
        """
        if report.source != "brokers":
            return
        started, ended = int(report.started_at * 1000), int(report.ended_at * 1000)
        fresh = {p.place: _ended(p, started, ended) for p in report.partitions if has_verdict(p)}
        if not fresh:
            return
        with self._lock:
            known = {**self._ended, **fresh}
            _write(self._uri, known)
            self._ended = known

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions that have an audit with a verdict on record, by topic and number."""
        with self._lock:
            return sorted(self._ended)

    def settled(self, coverage: Coverage) -> Coverage:
        """A partition's coverage without the unknown ranges that a later audit has compared."""
        with self._lock:
            ended = self._ended.get(coverage.place)
        return coverage if ended is None else coverage.settled(ended.covers)

    def has_begun(self, place: TopicPartition, since_ms: int) -> bool:
        """Whether an audit with a verdict began since a time.

        Args:
            place: the partition.
            since_ms: the time, milliseconds since 1970 UTC.
        """
        with self._lock:
            ended = self._ended.get(place)
        return ended is not None and ended.started_at > since_ms


def has_verdict(partition: PartitionResult) -> bool:
    """Whether an audit has decided everything of a partition that it compared.

    Only offsets that it left out from the start may be unknown (`PartitionResult.beyond`).
    """
    is_read = bool(partition.beyond) or partition.result is not Result.UNKNOWN
    return is_read and set(partition.reasons) <= set(partition.beyond)


def _ended(partition: PartitionResult, started: int, ended: int) -> Ended:
    return Ended(started, ended, str(partition.result), partition.compared_from, partition.compared_up_to)


def _write(uri: str, ended: dict[TopicPartition, Ended]) -> None:
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "started_at": datetime.fromtimestamp(one.started_at / 1000, UTC),
            "ended_at": datetime.fromtimestamp(one.ended_at / 1000, UTC),
            "result": one.result,
            "compared_from": one.compared_from,
            "read_uncommitted": one.compared_up_to[0],
            "read_committed": one.compared_up_to[1],
        }
        for (topic, partition), one in sorted(ended.items())
    ]
    replace_rows(uri, pa.Table.from_pylist(rows, schema=_SCHEMA))
    tidy(uri)


def _load(uri: str) -> dict[TopicPartition, Ended]:
    """Return what is on record; nothing if the table is not there, or cannot be read: audits are run again then."""
    try:
        if not DeltaTable.is_deltatable(uri):
            return {}
        rows = DeltaTable(uri).to_pyarrow_table().to_pylist()
    except (DeltaError, OSError) as error:
        log.warning("the table of audits cannot be read; they are run again", error=one_line(error))
        return {}
    return {
        TopicPartition(row["topic"], row["partition"]): Ended(
            milliseconds(row["started_at"]),
            milliseconds(row["ended_at"]),
            row["result"],
            row["compared_from"],
            (row["read_uncommitted"], row["read_committed"]),
        )
        for row in rows
    }


__all__ = ["AUDITS", "SETTLED_BY", "Ended", "Ledger", "create_audits", "has_verdict"]
