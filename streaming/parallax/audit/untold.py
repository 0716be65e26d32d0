"""Why an audit of the tables cannot decide about a partition: offsets were read too late, or copied too late.

The tables hold what replicas showed when they were read. They lack what a cleaner had removed by then. So the tables
may show no difference though the replicas differ. An audit of the brokers compares what the replicas hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import structlog

from parallax.compare.suspect import UnreadRange
from parallax.counts import counted
from parallax.errors import one_line
from parallax.model import TopicPartition, UnknownReason
from parallax.views.tables import LATE_REPLICAS, rust_uri

log = structlog.get_logger(__name__)

_WHY = {
    UnknownReason.BEFORE_FIRST_READING: "lay there before the first reading",
    UnknownReason.RETENTION_GAP: "were read later than delete.retention.ms after they were written",
    UnknownReason.SKIPPED: "could not be read, or their rows are no longer kept (storage.record: blocks)",
}


def late_replicas(storage: str) -> dict[TopicPartition, list[int]] | None:
    """By partition, the brokers whose replicas have copied something too late, by the table ``late_replicas``.

    Empty if there is no such table; None if it cannot be read, which is logged. ``storage`` is ``storage.path``.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    uri = rust_uri(storage, LATE_REPLICAS)
    try:
        if not DeltaTable.is_deltatable(uri):
            return {}
        rows = DeltaTable(uri).to_pyarrow_table(columns=["topic", "partition", "broker"]).to_pylist()
    except (DeltaError, OSError, pa.ArrowException) as error:
        what = "which brokers were back too late is not known until the next try; the audit goes on without"
        log.warning("which replicas are late cannot be read", error=one_line(error), what=what)
        return None
    found: dict[TopicPartition, list[int]] = {}
    for row in rows:
        found.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row["broker"])
    return found


def reasons(unread: Iterable[UnreadRange], late: Iterable[int] | None) -> tuple[str, ...]:
    """Why the tables do not show whether a partition is consistent, as phrases for people. Pure.

    Args:
        unread: ranges of the partition that nobody read in time, and that no audit of the brokers has compared since.
        late: the brokers whose replica has copied something too late; None if the table of these cannot be read.
    """
    found = [
        f"broker {broker} was away for longer than what it lacked was kept: it may have missed tombstones or end "
        "markers; audit the brokers"
        for broker in sorted(late or ())
    ]
    if late is None:
        found.append("which replicas were away for too long cannot be read; see the log, audit the brokers")
    counts = Counter[UnknownReason]()
    first: dict[UnknownReason, UnreadRange] = {}
    by_view: Counter[tuple[UnknownReason, int]] = Counter()
    for span in unread:
        by_view[span.reason, span.view] += span.end - span.start
        counts[span.reason] = max(counts[span.reason], by_view[span.reason, span.view])
        first.setdefault(span.reason, span)
    found += [
        f"{counted(count, 'offset')}, from {first[reason].start} on, "
        f"{_WHY.get(reason, f'have no verdict ({reason})')}: what was cleaned by "
        "then is not in the tables; audit the brokers"
        for reason, count in counts.items()
    ]
    return tuple(found)


__all__ = ["LATE_REPLICAS", "late_replicas", "reasons"]
