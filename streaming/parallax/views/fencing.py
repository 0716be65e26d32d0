"""Fences on the tables in an object store: a job that has lost its storage can no longer commit to them.

A job that was frozen does not know for how long. When it goes on, another one may have taken its storage over
(`parallax.views.lease`). Looking at a clock or at the lease just before the commit is not safe enough. So the commit
itself carries the proof. Each lease has an *epoch*, a number that grows. A job that takes a storage over first commits
its epoch to every table, as the version of one ``txn`` action
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#transaction-identifiers). From then on each of its commits
carries that action. A commit is refused in two cases:

- By this module, if the table as it was read already holds a higher epoch.
- By the table's protocol, if such an action was committed after the table was read. Of two commits with an action of
  the same application, the second conflicts with the first. The put of its log entry is conditional.

So a commit of the old job fails, or it was made before the new job's epoch was, and then the new job has read it. On a
local disk no fence is needed: the process holds a lock, and a frozen process keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from parallax.errors import one_line
from parallax.stores import rust_path

EPOCH = "parallax-epoch"
"""The id of the ``txn`` action whose version in a table is the epoch of its writer."""

_TRIES = 20
_PAUSE_S = 0.05

_held: dict[str, int] = {}
_draw = Random()  # noqa: S311 - jitter


class FencedError(DeltaError):
    """Another job has taken the storage over, so this one must not commit any more."""


def hold(storage: str, epoch: int) -> None:
    """Let all later commits of this process to a storage's tables carry the epoch of its lease.

    Args:
        storage: ``storage.path``; only commits to tables below it carry the epoch.
        epoch: the epoch of the lease.
    """
    _held[_root(storage)] = epoch


def release(storage: str) -> None:
    """Undo `hold`: from now on, this process's commits to a storage's tables carry no epoch.

    Args:
        storage: ``storage.path``.
    """
    _held.pop(_root(storage), None)


def epoch_of(storage: str) -> int:
    """The epoch of the lease that this process holds on a storage; 0 if it holds none.

    Args:
        storage: ``storage.path``.
    """
    return _held.get(_root(storage), 0)


def raise_fence(uri: str, epoch: int) -> None:
    """Commit a lease's epoch to a table, which from then on refuses commits of jobs with a lower epoch.

    What such a job has committed before stays in the table.

    Args:
        uri: URI of the table.
        epoch: the epoch of this process's lease.

    Raises:
        FencedError: the table has a higher epoch already.
        deltalake.exceptions.DeltaError: the table cannot be read or written.
    """

    def write(table: DeltaTable, _: CommitProperties) -> None:
        properties = CommitProperties(app_transactions=[Transaction(EPOCH, epoch)])
        partitions: Any = table.metadata().partition_columns
        table.create_write_transaction([], "append", table.schema(), partitions, commit_properties=properties)

    def is_raised(table: DeltaTable) -> bool:
        return _check(table, epoch) == epoch

    _until_committed(lambda: DeltaTable(uri), write, is_raised, fenced=True)


def commit(
    newest: Callable[[], DeltaTable],
    write: Callable[[DeltaTable, CommitProperties], object],
    *,
    marks: Iterable[Transaction] = (),
    is_done: Callable[[DeltaTable], bool] = lambda _: False,
) -> DeltaTable:
    """Commit to a table; if the table is fenced, the commit carries the epoch that this process holds.

    Two commits of one job may meet, and the fence makes that a conflict. Then the commit is tried again on the newest
    state.

    Args:
        newest: returns the table as it is now.
        write: makes the commit: it gets the table and the properties that the commit has to have.
        marks: further ``txn`` actions of the commit.
        is_done: returns whether the table already holds the commit. It does if the store made the commit and its
            answer was lost.

    Returns:
        The table with the commit in it.

    Raises:
        FencedError: another job has taken the storage over; nothing was committed.
        deltalake.exceptions.DeltaError: the commit failed.
    """
    given = tuple(marks)
    return _until_committed(newest, write, is_done, lambda table: (*given, *epoch_marks(table)))


def epoch_marks(table: DeltaTable) -> list[Transaction]:
    """The ``txn`` actions that a commit to a table has to carry; empty if the table needs no fence.

    Args:
        table: the table as it was read.

    Raises:
        FencedError: another job has taken the storage over.
    """
    epoch = _epoch_for(table.table_uri)
    if epoch is None:
        return []
    _check(table, epoch)
    return [Transaction(EPOCH, epoch)]


def _until_committed(
    newest: Callable[[], DeltaTable],
    write: Callable[[DeltaTable, CommitProperties], object],
    is_done: Callable[[DeltaTable], bool],
    transactions: Callable[[DeltaTable], Sequence[Transaction]] = lambda _: (),
    *,
    fenced: bool = False,
) -> DeltaTable:
    failed = 0
    while True:
        table = newest()
        mine = transactions(table)
        if is_done(table):
            return table
        try:
            write(table, CommitProperties(app_transactions=list(mine)))
        except CommitFailedError:
            failed += 1
            if failed >= _TRIES or not (fenced or any(one.app_id == EPOCH for one in mine)):
                raise
            time.sleep(_draw.uniform(0, _PAUSE_S * failed))
        else:
            return table


def _check(table: DeltaTable, epoch: int) -> int:
    """The epoch that a table holds.

    Raises:
        FencedError: the table's epoch is higher than ``epoch``.
    """
    there = table.transaction_version(EPOCH) or 0
    if there > epoch:
        raise FencedError(
            one_line(f"{table.table_uri}: the storage was taken over by another job (epoch {there} after {epoch})")
        )
    return there


def _epoch_for(uri: str) -> int | None:
    """The epoch that this process holds for the storage of a table; None if it holds none."""
    path = rust_path(uri).rstrip("/")
    return next((epoch for root, epoch in _held.items() if path == root or path.startswith(f"{root}/")), None)


def _root(storage: str) -> str:
    return rust_path(storage).rstrip("/")


__all__ = ["EPOCH", "FencedError", "commit", "epoch_marks", "epoch_of", "hold", "raise_fence", "release"]
