"""What one micro-batch showed of one topic partition, as columns: rows of the views, and rows of progress.

The columns are those of docs/reference/tables.md that the rules need.
"""

# ruff: noqa: RUF009 - the calls make dataclass fields
from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from parallax.model import UNKNOWN, IsolationLevel, Outcome, ReadEvent, RowKind

Array = NDArray[Any]

READ_UNCOMMITTED = int(IsolationLevel.READ_UNCOMMITTED)
READ_COMMITTED = int(IsolationLevel.READ_COMMITTED)
VIEWS = (READ_UNCOMMITTED, READ_COMMITTED)

EVENTS: tuple[ReadEvent, ...] = tuple(ReadEvent)
"""The events of position rows; the column ``event`` holds an index into these."""

EVENT_CODE: dict[str, int] = {str(event): code for code, event in enumerate(EVENTS)}
"""The index of each event in `EVENTS`."""


def topic_id_code(topic_id: str | None) -> int:
    """A topic id as a number: a signed 64-bit hash of its text.

    It is 0 if the id is not known.
    """
    if not topic_id:
        return 0
    digest = hashlib.blake2b(topic_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


def _column(dtype: str, default: int = 0) -> Any:
    return field(default_factory=lambda: np.empty(0, dtype), metadata={"dtype": np.dtype(dtype), "default": default})


@dataclass(frozen=True, slots=True)
class Columns:
    """A table as one numpy array per column, all of the same length.

    It is the base class of the tables in this module.
    """

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.dtypes()))))

    @classmethod
    @cache
    def dtypes(cls) -> Mapping[str, np.dtype[Any]]:
        """The type of each column, in order."""
        return MappingProxyType({f.name: f.metadata["dtype"] for f in fields(cls)})

    @classmethod
    @cache
    def none(cls) -> Self:
        """A table without rows."""
        return cls()

    @classmethod
    def of(cls, columns: Mapping[str, Any], length: int | None = None) -> Self:
        """Make a table from arrays by column name; a column that is not given is filled with its default.

        Args:
            columns: the arrays, all of the same length.
            length: the number of rows; None for that of the first array.
        """
        if length is None:
            length = len(next(iter(columns.values()))) if columns else 0
        made = {}
        for f in fields(cls):
            value = columns.get(f.name)
            dtype = f.metadata["dtype"]
            made[f.name] = np.full(length, f.metadata["default"], dtype) if value is None else np.asarray(value, dtype)
        return cls(**made)

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """Make a table from one mapping per row, column name to value; for tests and small inputs."""
        if not rows:
            return cls.none()
        defaults = {f.name: f.metadata["default"] for f in fields(cls)}
        return cls.of({name: [row.get(name, default) for row in rows] for name, default in defaults.items()}, len(rows))

    @classmethod
    def concat(cls, parts: Iterable[Self]) -> Self:
        """Join several tables of one type, one after another."""
        kept = [part for part in parts if len(part)]
        if not kept:
            return cls.none()
        if len(kept) == 1:
            return kept[0]
        return cls(**{name: np.concatenate([getattr(part, name) for part in kept]) for name in cls.dtypes()})

    def take(self, index: Array | slice) -> Self:
        """The table with only the rows that a mask, an index array or a slice selects."""
        return type(self)(**{name: getattr(self, name)[index] for name in self.dtypes()})

    def to_bytes(self) -> bytes:
        """The columns as bytes, one after another, without a header; `from_bytes` needs the number of rows as well."""
        return b"".join(getattr(self, name).tobytes() for name in self.dtypes())

    @classmethod
    def from_bytes(cls, data: bytes, length: int) -> Self:
        """The table of ``length`` rows from ``data``, the bytes that `to_bytes` wrote.

        Raises:
            ValueError: the bytes do not hold ``length`` rows.
        """
        made, start = {}, 0
        for name, dtype in cls.dtypes().items():
            made[name] = np.frombuffer(data, dtype, length, start)
            start += dtype.itemsize * length
        if start != len(data):
            raise ValueError(f"{cls.__name__}: {len(data)} bytes do not hold {length} rows of {start} bytes in all")
        return cls(**made)


@dataclass(frozen=True, slots=True)
class ViewRows(Columns):
    """Rows of the two views, as columns.

    Rows of one view and broker are in the order in which they were recorded. ``view`` is an `IsolationLevel`, ``kind``
    a `RowKind`, ``outcome`` an `Outcome`, ``event`` an index into `EVENTS`. Times are in milliseconds.

    A row of kind `POSITION` (a *position row*) is no record: it says that the reader was shown everything below
    ``offset``. Its ``timestamp`` is when the reader read, and its ``leader_epoch`` is that of the last batch below
    ``offset``. The columns from ``high_watermark`` to ``topic_id`` are filled in such rows only.
    """

    view: Array = _column("i1")
    broker: Array = _column("i4", UNKNOWN)
    kind: Array = _column("i1")
    offset: Array = _column("i8", UNKNOWN)
    timestamp: Array = _column("i8")
    producer_id: Array = _column("i8", UNKNOWN)
    producer_epoch: Array = _column("i4", UNKNOWN)
    outcome: Array = _column("i1")
    key_hash_hi: Array = _column("i8")
    key_hash_lo: Array = _column("i8")
    content_hash: Array = _column("i8")
    content_version: Array = _column("i1", 1)
    key_size: Array = _column("i4", UNKNOWN)
    value_size: Array = _column("i4", UNKNOWN)
    high_watermark: Array = _column("i8", UNKNOWN)
    last_stable_offset: Array = _column("i8", UNKNOWN)
    log_start_offset: Array = _column("i8", UNKNOWN)
    event: Array = _column("i1")
    topic_id: Array = _column("i8")
    leader_epoch: Array = _column("i4", UNKNOWN)


@dataclass(frozen=True, slots=True)
class ProgressRows(Columns):
    """Rows of the table ``replica_progress``, as columns: what each replica reported of its log at one tick.

    ``observed_at`` is in milliseconds. Numbers are `UNKNOWN` where ``reachable`` is false. ``described``: the replica
    listed its open transactions (the list may be empty). ``compacted``: whether the topic's cleanup policy contained
    ``compact`` at ``policy_at`` (milliseconds); `UNKNOWN` if no broker said. ``deletes``: whether the policy contained
    ``delete``. ``retention_ms``: the topic's ``delete.retention.ms``.
    """

    broker: Array = _column("i4", UNKNOWN)
    observed_at: Array = _column("i8")
    reachable: Array = _column("?")
    high_watermark: Array = _column("i8", UNKNOWN)
    last_stable_offset: Array = _column("i8", UNKNOWN)
    log_start_offset: Array = _column("i8", UNKNOWN)
    log_end_offset: Array = _column("i8", UNKNOWN)
    leader: Array = _column("i4", UNKNOWN)
    described: Array = _column("?")
    compacted: Array = _column("i1", UNKNOWN)
    policy_at: Array = _column("i8", UNKNOWN)
    deletes: Array = _column("i1", UNKNOWN)
    retention_ms: Array = _column("i8", UNKNOWN)


@dataclass(frozen=True, slots=True)
class OpenTransactions(Columns):
    """The open transactions that replicas listed, one row for each.

    ``broker`` and ``observed_at`` say which progress row a list is from.
    """

    broker: Array = _column("i4", UNKNOWN)
    observed_at: Array = _column("i8")
    producer_id: Array = _column("i8", UNKNOWN)
    start_offset: Array = _column("i8", UNKNOWN)


@dataclass(frozen=True, slots=True)
class ReplicaSets(Columns):
    """Which brokers had a replica of the partition, one row for each time of observation and broker."""

    observed_at: Array = _column("i8")
    broker: Array = _column("i4", UNKNOWN)


@dataclass(frozen=True, slots=True)
class Observations:
    """One topic partition's rows of one micro-batch.

    Attributes:
        rows: what readers showed, of the views ``read_uncommitted`` and ``read_committed``.
        progress: rows of the table ``replica_progress``.
        open_transactions: the transactions listed in the progress rows, one row for each.
        replica_sets: the assigned replicas named in the progress rows, one row for each.
    """

    topic: str
    partition: int
    rows: ViewRows = field(default_factory=ViewRows)
    progress: ProgressRows = field(default_factory=ProgressRows)
    open_transactions: OpenTransactions = field(default_factory=OpenTransactions)
    replica_sets: ReplicaSets = field(default_factory=ReplicaSets)

    @classmethod
    def of(cls, topic: str, partition: int, rows: Iterable[Mapping[str, Any]]) -> Observations:
        """Make observations from mappings, one for each row, for tests and simulations.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            rows: a mapping with ``observed_at`` is a row of progress. It may have the lists ``replicas``, of broker
                ids, and ``open_transactions``, of (producer id, start offset). Any other mapping is a row of a view,
                with the columns of `ViewRows`. Its ``event`` may be a `ReadEvent`.
        """
        views: list[dict[str, Any]] = []
        progress: list[Mapping[str, Any]] = []
        for row in rows:
            if "observed_at" in row:
                progress.append(row)
            else:
                event = row.get("event", 0)
                views.append({**row, "event": EVENT_CODE[event] if isinstance(event, str) else event})
        listed = [
            {"broker": p["broker"], "observed_at": p["observed_at"], "producer_id": producer, "start_offset": start}
            for p in progress
            for producer, start in p.get("open_transactions") or ()
        ]
        replicas = [
            {"observed_at": p["observed_at"], "broker": broker} for p in progress for broker in p.get("replicas") or ()
        ]
        return cls(
            topic,
            partition,
            ViewRows.from_rows(views),
            ProgressRows.from_rows([{**p, "described": p.get("open_transactions") is not None} for p in progress]),
            OpenTransactions.from_rows(listed),
            ReplicaSets.from_rows(replicas),
        )

    @classmethod
    def concat(cls, parts: Sequence[Observations]) -> Observations:
        """Join observations of the same topic partition; rows keep the order of ``parts``.

        Raises:
            ValueError: ``parts`` is empty, or they are of different partitions.
        """
        if not parts or any((p.topic, p.partition) != (parts[0].topic, parts[0].partition) for p in parts):
            raise ValueError("Observations.concat: give at least one, all of the same topic partition")
        return cls(
            parts[0].topic,
            parts[0].partition,
            ViewRows.concat(p.rows for p in parts),
            ProgressRows.concat(p.progress for p in parts),
            OpenTransactions.concat(p.open_transactions for p in parts),
            ReplicaSets.concat(p.replica_sets for p in parts),
        )

    def cut(self, moments: Sequence[int], read_at: Array) -> Iterator[Observations]:
        """Divide the observations at some points in time, and yield the parts in the order of time.

        The first part holds what was observed before the first moment, the second what was observed from then until the
        second moment, and so on.

        Args:
            moments: milliseconds since 1970 UTC, ascending.
            read_at: for each of ``rows``, when it was read, milliseconds since 1970 UTC.
        """

        def between(times: Array, begin: int, end: int) -> Array:
            return np.flatnonzero((times >= begin) & (times < end))

        ends = np.iinfo(np.int64)
        for begin, end in pairwise((ends.min, *moments, ends.max)):
            yield replace(
                self,
                rows=self.rows.take(between(read_at, begin, end)),
                progress=self.progress.take(between(self.progress.observed_at, begin, end)),
                open_transactions=self.open_transactions.take(between(self.open_transactions.observed_at, begin, end)),
                replica_sets=self.replica_sets.take(between(self.replica_sets.observed_at, begin, end)),
            )


RECORD = int(RowKind.RECORD)
COMMIT = int(RowKind.COMMIT)
ABORT = int(RowKind.ABORT)
POSITION = int(RowKind.POSITION)
LISTED = int(RowKind.LISTED)
EMPTIED = int(RowKind.EMPTIED)
ABORTED = int(Outcome.ABORTED)
COMMITTED = int(Outcome.COMMITTED)
NOT_TRANSACTIONAL = int(Outcome.NONE)
