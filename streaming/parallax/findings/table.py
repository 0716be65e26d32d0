"""The findings table: an append-only Delta log of events, of which the last of each id is what stands.

Written and read with delta-rs, not with Spark: an append of a few rows takes milliseconds beside a busy Spark, and
the command line reads the table without starting a JVM. The protocol is Delta's own, so Spark reads it as well.
Only the job's findings manager writes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from parallax.model import FindingKind, FindingStatus, Rule, Severity

FINDINGS = "findings"
SUSPECTS = "suspects"
CURRENT_FINDINGS = "current_findings"

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_FIELDS: list[Any] = [
    pa.field("finding_id", pa.string()),
    pa.field("sequence", pa.int64()),
    pa.field("status", pa.string()),
    pa.field("kind", pa.string()),
    pa.field("rule", pa.string()),
    pa.field("severity", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("broker", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("producer_id", pa.int64()),
    pa.field("transaction_start_offset", pa.int64()),
    pa.field("marker_offset", pa.int64()),
    pa.field("key_hash_hi", pa.int64()),
    pa.field("key_hash_lo", pa.int64()),
    pa.field("key", pa.binary()),
    pa.field("summary", pa.string()),
    pa.field("evidence", pa.string()),
    pa.field("suspect_id", pa.string()),
    pa.field("first_suspected_at", _TIMESTAMP),
    pa.field("decided_at", _TIMESTAMP),
    pa.field("exposed", pa.bool_()),
]
SCHEMA = pa.schema(_FIELDS)
"""Columns of the table, in order (docs/design.md, Findings)."""

_APP_ID = "parallax-findings"
_KEEP_UP_EVERY = 128
"""Appends, and files, after which the table's files are put together."""


class FindingsTableError(Exception):
    """The findings or suspects table could not be read or written; one line with the place and what to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One event of the findings table; field by field a row of `SCHEMA`.

    Attributes:
        sequence: position in the log of events, from 1; set when the event is appended.
        evidence: JSON: what each broker answered to the probe, and what had been recorded of it.
        exposed: the accused is the leader, so that consumers see what it shows.
    """

    finding_id: str
    sequence: int
    status: FindingStatus
    kind: FindingKind
    rule: Rule
    severity: Severity
    topic: str
    partition: int
    broker: int
    offset: int
    producer_id: int
    transaction_start_offset: int
    marker_offset: int
    key_hash_hi: int
    key_hash_lo: int
    key: bytes | None
    summary: str
    evidence: str
    suspect_id: str
    first_suspected_at: datetime
    decided_at: datetime
    exposed: bool

    @property
    def is_open(self) -> bool:
        """The divergence was confirmed and has not been seen to be gone."""
        return self.status is FindingStatus.CONFIRMED

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Finding:
        """Make an event of a row as pyarrow gives it.

        Raises:
            ValueError: a word in it is none that this version knows.
        """
        values = {f.name: row[f.name] for f in fields(cls)}
        values["status"] = FindingStatus(row["status"])
        values["kind"] = FindingKind(row["kind"])
        values["rule"] = Rule(row["rule"])
        values["severity"] = Severity(row["severity"])
        return cls(**values)


def table_uri(storage: str, name: str) -> str:
    """Where a table of that name lives below ``storage.path``, in delta-rs's spelling of URIs (s3a is s3)."""
    uri = f"{storage.rstrip('/')}/{name}"
    uri = re.sub(r"^s3[an]://", "s3://", uri)
    if re.match(r"^[a-z][a-z0-9+.-]+://", uri):
        return uri
    return str(Path(uri.removeprefix("file:")).absolute())


class FindingsTable:
    """The Delta table ``findings`` below ``storage.path``; created when it is not there.

    Not thread-safe: the findings manager's thread owns it.

    Args:
        storage: ``storage.path`` of the settings.

    Raises:
        FindingsTableError: the path cannot be read or written.
    """

    def __init__(self, storage: str) -> None:
        self._uri = table_uri(storage, FINDINGS)
        self._table = self._guard(
            lambda: DeltaTable.create(self._uri, schema=SCHEMA, mode="ignore", configuration=_CONFIGURATION)
        )
        self._sequence = self._appends = 0
        # pyarrow imports pandas at the first conversion, which takes seconds: now, not at the first finding.
        pa.Table.from_pylist([{}], schema=SCHEMA)

    def load(self) -> list[Finding]:
        """All events, oldest first."""
        self._guard(self._table.update_incremental)
        self._keep_up()
        events = sorted((Finding.from_row(r) for r in _rows(self._table)), key=lambda e: e.sequence)
        self._sequence = events[-1].sequence if events else 0
        return events

    def append(self, events: Sequence[Finding]) -> list[Finding]:
        """Append events in one commit, numbered on from the last; returns them with their numbers.

        The commit is atomic: after a kill the events are either all there or not at all, and what is not there is
        probed again. The transaction version (the last number) makes a second writer fail rather than interleave.

        Raises:
            FindingsTableError: nothing was written.
        """
        numbered = [replace(event, sequence=self._sequence + 1 + i) for i, event in enumerate(events)]
        version = numbered[-1].sequence
        rows = pa.Table.from_pylist([_row(event) for event in numbered], schema=SCHEMA)
        commit = CommitProperties(app_transactions=[Transaction(_APP_ID, version)])
        self._guard(lambda: write_deltalake(self._table, rows, mode="append", commit_properties=commit))
        self._sequence = version
        self._appends += 1
        if self._appends % _KEEP_UP_EVERY == 0:
            self._keep_up()
        return numbered

    def _keep_up(self) -> None:
        """Put the many small files together, and remove those that were put together a week ago."""
        if len(self._guard(self._table.file_uris)) >= _KEEP_UP_EVERY:
            self._guard(self._table.optimize.compact)
            self._guard(lambda: self._table.vacuum(dry_run=False))

    def _guard(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except (DeltaError, OSError) as error:
            raise FindingsTableError(_one_line(self._uri, error)) from error


_CONFIGURATION = {"delta.appendOnly": "true"}


def _row(event: Finding) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, str) else value for name, value in asdict(event).items()}


def _rows(table: DeltaTable, condition: pc.Expression | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pyarrow_dataset().to_table(filter=condition).to_pylist()
    return rows


def _one_line(uri: str, error: Exception) -> str:
    return f"storage.path: {uri}: {' '.join(str(error).split())}; check the path and its permissions"


def read_events(storage: str) -> list[Finding]:
    """All events of the findings table, oldest first, without Spark.

    Raises:
        FindingsTableError: there is no such table, or it cannot be read.
    """
    uri = table_uri(storage, FINDINGS)
    try:
        rows = _rows(DeltaTable(uri))
    except TableNotFoundError as error:
        raise FindingsTableError(
            f"storage.path: {uri}: no findings table there; give the storage.path of a job that has run"
        ) from error
    except (DeltaError, OSError) as error:
        raise FindingsTableError(_one_line(uri, error)) from error
    return sorted((Finding.from_row(r) for r in rows), key=lambda e: e.sequence)


def read_suspects(storage: str, *, except_ids: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Rows of the suspects table whose id is not among the given ones; none where there is no such table yet.

    Raises:
        FindingsTableError: the table is there and cannot be read.
    """
    uri = table_uri(storage, SUSPECTS)
    try:
        table = DeltaTable(uri)
    except TableNotFoundError:
        return []
    except (DeltaError, OSError) as error:
        raise FindingsTableError(_one_line(uri, error)) from error
    handled = pa.array(sorted(except_ids), pa.string())
    return _rows(table, ~pc.field("suspect_id").isin(handled))


def current(events: Iterable[Finding]) -> dict[str, Finding]:
    """What stands: the last event of each id, in order of appearance.

    A dismissed suspect counts only where nothing was ever confirmed under its id: a second suspect of a cause that is
    already a finding is dismissed as told, and that takes nothing back.
    """
    standing: dict[str, Finding] = {}
    for event in events:
        known = standing.get(event.finding_id)
        if event.status is not FindingStatus.DISMISSED or known is None or known.status is FindingStatus.DISMISSED:
            standing[event.finding_id] = event
    return standing


def current_findings_sql(storage: str) -> str:
    """The SELECT of the view ``current_findings`` for Spark: the same as `current`."""
    uri = f"{storage.rstrip('/')}/{FINDINGS}"
    ranked = "row_number() OVER (PARTITION BY finding_id ORDER BY status = 'dismissed', sequence DESC)"
    return f"SELECT * EXCEPT (_rank) FROM (SELECT *, {ranked} AS _rank FROM delta.`{uri}`) WHERE _rank = 1"  # noqa: S608


def create_view(spark: Any, storage: str) -> None:
    """Define the temporary view ``current_findings`` in a Spark session."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {CURRENT_FINDINGS} AS {current_findings_sql(storage)}")


def from_milliseconds(value: int) -> datetime:
    """A point in time of milliseconds since 1970 UTC."""
    return datetime.fromtimestamp(value / 1000, UTC)
