"""The findings table: an append-only Delta log of events. The last event of each id is its state.

It is written and read with delta-rs, not with Spark. An append of a few rows takes milliseconds even while Spark is
busy, and the command line reads the table without starting a JVM. The protocol is Delta's own, so Spark reads it as
well.

Several processes may write: the job's findings manager, and the command line that acknowledges a finding. Each commit
carries the number of its last event as the version of one Delta transaction (SetTransaction in Delta's protocol). So an
append is a compare-and-swap: it succeeds only if the writer has seen all events of the table. Otherwise the writer gets
`AppendedMeanwhile`, reads the new events (`FindingsTable.news`), decides again and appends again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from parallax.columns import Column, Table
from parallax.compare.tables import ABOUT
from parallax.conversions import keep_pandas_out
from parallax.errors import one_line
from parallax.findings.evidence import check_form
from parallax.findings.finding import Finding, evidence_of
from parallax.findings.incident import check_evidence
from parallax.findings.member_rows import MEMBERS, as_rows, last_rows, member_of
from parallax.findings.member_rows import SCHEMA as MEMBER_SCHEMA
from parallax.findings.members import MemberRow
from parallax.moments import milliseconds
from parallax.views.fencing import FencedError, epoch_marks
from parallax.views.unused import remove_unused

log = structlog.get_logger(__name__)

FINDINGS = "findings"
SUSPECTS = "suspects"

_TIMESTAMP = pa.timestamp("us", tz="UTC")
TABLE = Table(
    FINDINGS,
    "One row for each event of a finding. The last event of an id is its present state. Append-only.",
    (
        Column("finding_id", pa.string(), "Id of the finding, for `parallax findings explain`."),
        Column("sequence", pa.int64(), "Number of the event, from 1."),
        Column("status", pa.string(), "confirmed, spread, unsettled, acknowledged, resolved or dismissed."),
        Column("kind", pa.string(), "Kind of the finding."),
        Column("rule", pa.string(), "Invariant that it breaks: I1 to I4."),
        Column("severity", pa.string(), "critical pages, warning does not."),
        Column("topic", pa.string(), "Topic."),
        Column("partition", pa.int32(), "Number of the partition."),
        Column("broker", pa.int32(), "Id of the accused broker. -1: a difference without direction."),
        *ABOUT,
        Column("key", pa.binary(), "The key, if read.payload allows it. Null otherwise."),
        Column("summary", pa.string(), "What happened, in words."),
        Column("evidence", pa.string(), "JSON: what each broker answered to the probe, and what was recorded before."),
        Column(
            "suspect_id",
            pa.string(),
            "Suspect that led to it. Empty: an incident, which is about many keys or transactions.",
        ),
        Column("first_suspected_at", _TIMESTAMP, "When the comparison first raised it."),
        Column("decided_at", _TIMESTAMP, "When this event was decided."),
        Column("exposed", pa.bool_(), "Whether consumers see it: the accused leads, or a leader shows the same."),
    ),
)
SCHEMA = TABLE.schema
"""Columns of the table, in order."""

_MAY_BE_EMPTY = frozenset({"key", "evidence"})
_OF_A_SUSPECT = ("suspect_id", "rule", "kind", "topic", "partition", "broker", "raised_at")
"""Columns without which a suspect is of no use."""
_BACKTRACE = re.compile(r"\n\s*0: .*\Z", re.DOTALL)
"""Ends an error of delta-rs where a debugging variable of Rust is set."""
_POSITIONS = "positions"
"""A column of the table `SUSPECTS` for people; claims do not use it."""
_TOGETHER = 4096
"""Rows of that table that are read at a time."""
_APP_ID = "parallax-findings"
_KEEP_UP_EVERY = 128
"""Appends, and files, after which the table's files are merged."""
_KEPT_HOURS = 7 * 24
"""How long merged files stay."""


_FAILURES = (DeltaError, OSError, pa.ArrowException)
"""Errors of reading and writing a table: a store that does not answer, a damaged log or file."""


class FindingsTableError(Exception):
    """The findings or suspects table cannot be read or written. The message is one line: where, and what to do."""


class NoFindingsTableError(FindingsTableError):
    """There is no findings table at a storage path: no job has written there yet."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"storage.path: {uri}: no findings table there; give the storage.path of a job that has run")


class AppendedMeanwhile(FindingsTableError):  # noqa: N818 - it says what happened; it is caught where it is expected
    """Nothing was written, because another process has appended events that this one has not read yet."""


def table_uri(storage: str, name: str) -> str:
    """Return the address of a table below ``storage.path`` as delta-rs needs it (``s3a://`` becomes ``s3://``).

    Args:
        storage: ``storage.path`` of the settings.
        name: the table's name, as in ``findings``.
    """
    uri = f"{storage.rstrip('/')}/{name}"
    uri = re.sub(r"^s3[an]://", "s3://", uri)
    if re.match(r"^[a-z][a-z0-9+.-]+://", uri):
        return uri
    return str(Path(uri.removeprefix("file:")).absolute())


class FindingsTable:
    """Reads and appends the events of the Delta table ``findings`` below ``storage.path``.

    Not thread-safe: one thread owns it.

    Args:
        storage: ``storage.path`` of the settings.
        create: whether to create the table if it does not exist.
        strict: whether to fail on an event that is damaged or of a newer version, instead of leaving it out.
        kept_hours: how long rows of members are kept that are over; at least as long as their suspects.

    Raises:
        FindingsTableError: the path cannot be read or written. Or there is no table, and ``create`` is false.
    """

    def __init__(
        self, storage: str, *, create: bool = True, strict: bool = False, kept_hours: float = float("inf")
    ) -> None:
        self._uri = table_uri(storage, FINDINGS)
        self._table: DeltaTable = self._guard(self._create if create else lambda: DeltaTable(self._uri))
        self._storage, self._rows, self._kept_hours = storage, 0, kept_hours
        self._members: DeltaTable | None = None
        self._sequence = self._appends = 0
        self._strict = strict
        self.skipped = 0
        """Events, and rows of members, that were left out, since they are damaged or a newer version wrote them."""
        keep_pandas_out()

    def _create(self) -> DeltaTable:
        return DeltaTable.create(self._uri, schema=SCHEMA, mode="ignore", configuration=_CONFIGURATION)

    def load(self) -> list[Finding]:
        """Return all events, oldest first.

        Raises:
            FindingsTableError: the table cannot be read. Or it is strict, and an event is damaged or of a newer
                version.
        """
        self._sequence = self.skipped = 0
        events = self.news()
        self._keep_up()
        return events

    def news(self) -> list[Finding]:
        """Return the events that were appended since this object last read or wrote, oldest first.

        If there are none, the call only looks for newer commits. That takes less than a millisecond on a local disk.

        Raises:
            FindingsTableError: the table cannot be read. Or it is strict, and an event is damaged or of a newer
                version.
        """
        self._guard(self._table.update_incremental)
        if self._last_appended() == self._sequence:
            return []
        rows = self._guard(lambda: _rows(self._table, pc.field("sequence") > self._sequence))
        events = []
        for row in rows:
            try:
                events.append(_event(self._uri, row))
            except FindingsTableError as error:
                if self._strict:
                    raise
                self.skipped += 1
                event = "an event of a finding is left out: it is damaged, or a newer version wrote it"
                log.error(event, error=one_line(error))
        self._sequence = max((row["sequence"] for row in rows), default=self._sequence)
        return sorted(events, key=lambda e: e.sequence)

    def _last_appended(self) -> int:
        """Number of the last event in the table, as far as this object knows it."""
        return self._guard(lambda: self._table.transaction_version(_APP_ID)) or 0

    def members(self) -> list[MemberRow]:
        """Return what the table ``members`` says of each member by its last row, the oldest first.

        Raises:
            FindingsTableError: the table cannot be read.
        """
        _, rows = self._open_members()
        found = _known(rows)
        self.skipped += len(rows) - len(found)
        return found

    def _open_members(self) -> tuple[DeltaTable, Any]:
        """Open the table ``members``, and return it with the last row of each member."""
        table: DeltaTable = self._guard(lambda: members_table(self._storage))
        rows = last_rows(self._guard(lambda: _whole(table, MEMBER_SCHEMA)))
        self._members, self._rows = table, pc.max(rows["sequence"]).as_py() or 0
        return table, rows

    def _append_members(self, members: Sequence[MemberRow]) -> None:
        table = self._open_members()[0] if self._members is None else self._members
        at_ms = int(time.time() * 1000)
        rows = as_rows(members, self._rows + 1, at_ms)
        marks = CommitProperties(app_transactions=self._guard(lambda: epoch_marks(table)))
        self._guard(lambda: write_deltalake(table, rows, mode="append", commit_properties=marks))
        self._rows += len(members)
        if len(self._guard(table.file_uris)) >= _KEEP_UP_EVERY:
            since_ms = max(0.0, at_ms - self._kept_hours * 3_600_000)
            self._tried(lambda: _shorten(table, int(since_ms), marks))

    def append(self, events: Sequence[Finding], members: Sequence[MemberRow] = ()) -> list[Finding]:
        """Append events in one commit, and return them with the numbers that they got.

        The commit is atomic: if the process dies, either all events are there or none. If none, the next process probes
        the claims again.

        Args:
            events: the events.
            members: rows of the table ``members``, which are written before the events that rest on them.

        Raises:
            AppendedMeanwhile: another process has appended since; read its events (`news`) and decide again.
            FindingsTableError: no event was written.
        """
        if events and self._last_appended() != self._sequence:
            raise AppendedMeanwhile(_one_line(self._uri, "another process has appended events meanwhile"))
        if members:
            self._append_members(members)
        if not events:
            return []
        numbered = [replace(event, sequence=self._sequence + 1 + i) for i, event in enumerate(events)]
        version = numbered[-1].sequence
        rows = _as_rows(numbered)
        marks = [Transaction(_APP_ID, version), *self._guard(lambda: epoch_marks(self._table))]
        commit = CommitProperties(app_transactions=marks)
        self._guard(lambda: write_deltalake(self._table, rows, mode="append", commit_properties=commit))
        self._sequence = version
        self._appends += 1
        if self._appends % _KEEP_UP_EVERY == 0:
            self._keep_up()
        return numbered

    def _keep_up(self) -> None:
        """Merge the many small files, and remove those that were merged a week ago.

        A failure does not affect what was appended before: it is logged, and tried again later.
        """
        if len(self._guard(self._table.file_uris)) >= _KEEP_UP_EVERY:
            marks = CommitProperties(app_transactions=self._guard(lambda: epoch_marks(self._table)))
            self._tried(lambda: self._compacted(marks))

    def _compacted(self, marks: CommitProperties) -> None:
        self._table.optimize.compact(commit_properties=marks)
        remove_unused(self._uri, _KEPT_HOURS)

    def _tried(self, step: Callable[[], None]) -> None:
        try:
            self._guard(step)
        except FindingsTableError as error:
            what = "they are put together after the next events; loading them takes longer until then"
            log.warning("the files of the findings table could not be put together", error=one_line(error), what=what)

    def _guard(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except FencedError as error:
            raise FindingsTableError(f"storage.path: {error}") from error
        except CommitFailedError as error:
            raise AppendedMeanwhile(_one_line(self._uri, error)) from error
        except TableNotFoundError as error:
            raise NoFindingsTableError(self._uri) from error
        except _FAILURES as error:
            raise FindingsTableError(_one_line(self._uri, error)) from error


_CONFIGURATION = {"delta.appendOnly": "true"}


def members_table(storage: str) -> DeltaTable:
    """Return the table ``members`` below ``storage.path``; it is created if it is not there.

    Args:
        storage: ``storage.path`` of the settings.
    """
    return DeltaTable.create(table_uri(storage, MEMBERS), schema=MEMBER_SCHEMA, mode="ignore")


def _shorten(table: DeltaTable, since_ms: int, marks: CommitProperties) -> None:
    """Replace the rows of the table ``members`` by those that a start needs."""
    rows = last_rows(_whole(table, MEMBER_SCHEMA), since_ms)
    write_deltalake(table, rows, mode="overwrite", commit_properties=marks)
    remove_unused(table.table_uri, _KEPT_HOURS)


def _whole(table: DeltaTable, schema: Any) -> Any:
    dataset = table.to_pyarrow_dataset()
    _check_columns(table.table_uri, dataset.schema.names, schema.names)
    return dataset.to_table(columns=schema.names).cast(schema)


def read_members(storage: str) -> list[MemberRow]:
    """Return what the table ``members`` says of each member by its last row; empty if there is no such table.

    Args:
        storage: ``storage.path`` of the settings.

    Raises:
        FindingsTableError: the table cannot be read.
    """
    uri = table_uri(storage, MEMBERS)
    try:
        return _known(last_rows(_whole(DeltaTable(uri), MEMBER_SCHEMA)))
    except TableNotFoundError:
        return []
    except _FAILURES as error:
        raise FindingsTableError(_one_line(uri, error)) from error


def _known(rows: Any) -> list[MemberRow]:
    """Return what rows of the table ``members`` say, without those that a newer version wrote."""
    found = []
    for row in rows.to_pylist():
        try:
            found.append(member_of(row))
        except (KeyError, ValueError) as error:
            log.error("a member of an incident is left out: a newer version wrote it", error=one_line(error))
    return found


def as_read(event: Finding) -> Finding:
    """Return an event in the form that readers of the table will get.

    Raises:
        FindingsTableError: readers could not read the event.
    """
    (row,) = _as_rows([event]).to_pylist()
    return _event(FINDINGS, row)


def _event(uri: str, row: Mapping[str, Any]) -> Finding:
    damage = _damage(row)
    if damage is not None:
        raise _damaged(uri, row, damage)
    try:
        event = Finding.from_row(row)
    except ValueError as error:
        raise FindingsTableError(
            f"storage.path: {uri}: event {row['sequence']} is of a newer version of Parallax ({error}); use that one"
        ) from error
    try:
        check_form(evidence_of(event))
        check_evidence(event)
    except ValueError as error:
        raise _damaged(uri, row, error) from error
    return event


def _damaged(uri: str, row: Mapping[str, Any], damage: object) -> FindingsTableError:
    return FindingsTableError(
        f"storage.path: {uri}: event {row['sequence']} is damaged ({damage}); restore an earlier version of it"
    )


def _damage(row: Mapping[str, Any]) -> str | None:
    """Return what no version of Parallax would write in a row; None where it is sound."""
    empty = [name for name in SCHEMA.names if row[name] is None and name not in _MAY_BE_EMPTY]
    if empty:
        return f"no {', '.join(empty)}"
    try:
        is_document = isinstance(json.loads(row["evidence"] or "{}"), dict)
    except (ValueError, RecursionError):
        is_document = False
    return None if is_document else "its evidence is no JSON document"


def _as_rows(events: Iterable[Finding]) -> pa.Table:
    return pa.Table.from_pylist([_row(event) for event in events], schema=SCHEMA)


def _row(event: Finding) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, str) else value for name, value in asdict(event).items()}


def _rows(table: DeltaTable, condition: pc.Expression | None = None) -> list[dict[str, Any]]:
    dataset = table.to_pyarrow_dataset()
    _check_columns(table.table_uri, dataset.schema.names, SCHEMA.names)
    rows: list[dict[str, Any]] = dataset.to_table(columns=SCHEMA.names, filter=condition).cast(SCHEMA).to_pylist()
    return rows


def _check_columns(uri: str, there: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in there]
    if missing:
        raise FindingsTableError(
            f"storage.path: {uri}: another table, without the columns {', '.join(missing)}; give the storage.path of a "
            "job, or move that table away"
        )


def _one_line(uri: str, error: Exception | str) -> str:
    said = one_line(_BACKTRACE.sub("", str(error)))
    if isinstance(error, pa.ArrowException):
        return f"storage.path: {uri}: a file of the table is damaged ({said}); restore it"
    return f"storage.path: {uri}: {said}; check the path and its permissions"


def read_events(storage: str) -> list[Finding]:
    """Return all events of the findings table, oldest first, without Spark.

    Args:
        storage: ``storage.path`` of the settings.

    Raises:
        FindingsTableError: there is no such table, it cannot be read, or it holds an event that is damaged or of a
            newer version.
    """
    uri = table_uri(storage, FINDINGS)
    try:
        rows = _rows(DeltaTable(uri))
    except TableNotFoundError as error:
        raise NoFindingsTableError(uri) from error
    except _FAILURES as error:
        raise FindingsTableError(_one_line(uri, error)) from error
    return sorted((_event(uri, r) for r in rows), key=lambda e: e.sequence)


def read_suspects(storage: str, *, decided: Mapping[str, int] | None = None) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of the suspects table that wait for a verdict, some thousand at a time.

    If there is no table, it yields nothing.

    Args:
        storage: ``storage.path`` of the settings.
        decided: by id of each suspect that has a verdict: when the replicas were asked for it, milliseconds since 1970
            UTC. The rows of such a suspect are left out unless it was raised again since then.

    Raises:
        FindingsTableError: the table is there and cannot be read.
    """
    uri = table_uri(storage, SUSPECTS)
    known = decided or {}
    try:
        dataset = DeltaTable(uri).to_pyarrow_dataset()
        _check_columns(uri, dataset.schema.names, _OF_A_SUSPECT)
        columns = [name for name in dataset.schema.names if name != _POSITIONS]
        for batch in dataset.to_batches(columns=columns, batch_size=_TOGETHER):
            ids: list[Any] = batch["suspect_id"].to_pylist()
            raised: list[Any] = batch["raised_at"].to_pylist()
            pairs = zip(ids, raised, strict=True)
            waits = [suspect_id not in known or _milliseconds(at) >= known[suspect_id] for suspect_id, at in pairs]
            if any(waits):
                yield batch.filter(pa.array(waits)).to_pylist()
    except TableNotFoundError:
        return
    except _FAILURES as error:
        raise FindingsTableError(_one_line(uri, error)) from error


def _milliseconds(at: datetime | None) -> int:
    return 0 if at is None else milliseconds(at)
