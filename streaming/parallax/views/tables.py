"""The Delta tables of the views: where they are and how they are made."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from parallax.config import ConfigError
from parallax.model import IsolationLevel
from parallax.source import schema
from parallax.source.schema import VIEW

PROGRESS = "replica_progress"
VIEWS = tuple(isolation.option for isolation in IsolationLevel)

RECORDED_ON = "recorded_on"
"""Partition column that the sink adds: the UTC date of the recording. Retention drops whole dates, so that it rewrites
no file and conflicts with no append."""

_PROPERTIES: dict[str, str | None] = {
    # Statistics let readers skip files; of 26 leaf columns these are the ones that anybody filters by.
    "delta.dataSkippingStatsColumns": "topic,partition,kind,offset,timestamp",
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
    # The job cleans the log itself (parallax.views.maintenance).
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 2 hours",
    "delta.deletedFileRetentionDuration": "interval 2 hours",
}


class TableSize(NamedTuple):
    """The files that a table consists of."""

    files: int
    size: int
    """Bytes."""


def table_path(storage: str, name: str) -> str:
    """Where a table is: ``<storage.path>/<name>``."""
    return f"{storage.rstrip('/')}/{name}"


def checkpoint_path(storage: str, query: str) -> str:
    """Where a query keeps its Spark checkpoint: ``<storage.path>/checkpoints/<query>``."""
    return f"{storage.rstrip('/')}/checkpoints/{query}"


def create_tables(storage: str) -> None:
    """Create the tables of both views and of progress where they are not there yet.

    Tables of an earlier version get the columns that they lack; their rows hold null there.

    By delta-rs, in milliseconds; the same by Spark would cost a fresh job seconds before its first batch.

    Args:
        storage: ``storage.path``.

    Raises:
        deltalake.exceptions.DeltaError: the path cannot be written.
    """
    for name in VIEWS:
        _create(storage, name, VIEW, ["broker", RECORDED_ON], _PROPERTIES)
    progress = _PROPERTIES | {"delta.dataSkippingStatsColumns": "topic,partition,observed_at"}
    _create(storage, PROGRESS, schema.PROGRESS, [RECORDED_ON], progress)


def _create(storage: str, name: str, columns: Any, partition_by: list[str], properties: dict[str, str | None]) -> None:
    from deltalake import DeltaTable, Schema

    with_date = columns.append(pa.field(RECORDED_ON, pa.date32()))
    table = DeltaTable.create(
        rust_uri(storage, name), with_date, mode="ignore", partition_by=partition_by, configuration=properties
    )
    known = {field.name for field in table.schema().fields}
    lacking = [field for field in Schema.from_arrow(with_date).fields if field.name not in known]
    if lacking:
        table.alter.add_columns(lacking)


def rust_uri(storage: str, name: str) -> str:
    """Where a table is, in delta-rs's spelling: ``s3://`` where Hadoop says ``s3a://``, a plain path for ``file:``."""
    return re.sub(r"^s3[an]://", "s3://", table_path(storage, name)).removeprefix("file:")


REPLACED: dict[str, str | None] = {"delta.logRetentionDuration": "interval 2 hours"}
"""Properties of a small table that is replaced as a whole with each commit."""
_KEPT_HOURS = 2


def tidy(uri: str) -> None:
    """Remove what such a table held, and the log of it, but for the last hours: somebody may be reading it.

    Raises:
        deltalake.exceptions.DeltaError: it cannot be read or written.
    """
    from deltalake import DeltaTable

    table = DeltaTable(uri)
    table.vacuum(_KEPT_HOURS, dry_run=False, enforce_retention_duration=False)
    table.create_checkpoint()
    table.cleanup_metadata()


def hash_key(storage: str, given: str | None) -> str:
    """The key of all hashes: as set, or made once and kept beside the tables.

    Args:
        storage: ``storage.path``; the key is in the file ``hash_key`` there.
        given: setting ``read.hash_key``.

    Returns:
        32 hexadecimal digits.

    Raises:
        ConfigError: the file does not hold a key, or cannot be read.
    """
    if given is not None:
        return given
    path = Path(storage) / "hash_key"
    try:
        return _checked(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="ascii") as file:
            path.chmod(0o600)
            file.write(secrets.token_hex(16))
    except FileExistsError:
        pass  # another process was first
    return _checked(path)


def _checked(path: Path) -> str:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except PermissionError as error:
        raise ConfigError(
            f"storage.path: {path} cannot be read ({error.strerror}); it holds the key of all hashes"
        ) from error
    if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
        problem = f"{path} must hold 32 hexadecimal digits, the key of all hashes"
        raise ConfigError(f"storage.path: {problem}; restore it, or delete it with all tables")
    return text
