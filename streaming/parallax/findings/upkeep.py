"""Upkeep of the suspects table: drops suspects that had their verdict long ago, and merges small files.

A suspect without a verdict stays, however old it is: its row is the only record that it has to be probed. A suspect
that was raised again after the replicas were asked for its verdict stays too.

Only suspects that the job no longer asks about at a start are dropped (`parallax.findings.incident.decided`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from parallax.findings.incident import decided
from parallax.findings.table import FINDINGS, SUSPECTS, read_events, read_members, table_uri
from parallax.views import fencing
from parallax.views.unused import remove_unused

log = structlog.get_logger(__name__)

FILES = 128
"""From so many files on, the table's files are merged, even if no rows are dropped."""
_KEPT_HOURS = 2


def look_after_suspects(storage: str, oldest: date) -> int:
    """Delete rows of old suspects that have a verdict, and merge small files; returns how many rows were deleted.

    Args:
        storage: ``storage.path`` of the settings.
        oldest: the first date (UTC) whose suspects stay; suspects that were raised before it are old.

    Raises:
        deltalake.exceptions.DeltaError: a table cannot be read or written; nothing was deleted.
        FindingsTableError: an event cannot be read; nothing was deleted.
    """
    uri = table_uri(storage, SUSPECTS)
    try:
        table = DeltaTable(uri)
    except TableNotFoundError:
        return 0
    if not DeltaTable.is_deltatable(table_uri(storage, FINDINGS)):
        return 0
    before = datetime.combine(oldest, time(), UTC)
    condition = f"raised_at < '{before.isoformat()}'"
    old: Any = table.to_pyarrow_dataset().to_table(filter=pc.field("raised_at") < pa.scalar(before, _TIMESTAMP))
    known = decided(read_events(storage), read_members(storage)) if old.num_rows else {}
    waiting = old.filter(_waits(old, known))
    gone = old.num_rows - waiting.num_rows
    if gone:
        fencing.commit(lambda: table, lambda one, properties: _replace(one, waiting, condition, properties))
        log.info(
            "suspects that had their verdict were dropped (storage.retention_hours)",
            rows=gone,
            before=oldest.isoformat(),
        )
    if len(table.file_uris()) >= FILES:
        fencing.commit(lambda: DeltaTable(uri), lambda one, marks: one.optimize.compact(commit_properties=marks))
    remove_unused(uri, _KEPT_HOURS)
    return gone


_TIMESTAMP = pa.timestamp("us", tz="UTC")


def _waits(suspects: Any, decided_ms: Mapping[str, int]) -> Any:
    """Return a mask of the suspects that a start asks about: no verdict, or raised since the last was asked for."""
    at = pc.index_in(suspects["suspect_id"], pa.array(list(decided_ms), pa.string()))
    verdict: Any = pc.take(pa.array([ms * 1000 for ms in decided_ms.values()], _TIMESTAMP), at)
    return pc.fill_null(pc.greater_equal(suspects["raised_at"], verdict), True)


def _replace(table: DeltaTable, rows: Any, condition: str, properties: CommitProperties) -> None:
    write_deltalake(table, rows, mode="overwrite", predicate=condition, commit_properties=properties)
