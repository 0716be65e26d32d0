"""Decides for each record whether a read_committed consumer of one replica counts it as committed or aborted.

The rule is that of Kafka's own consumer (org.apache.kafka.clients.consumer.internals.CompletedFetch). A Fetch response
lists the aborted transactions that its range may hold, as (producer id, first offset). Take the batches in order. A
producer's records count as aborted from the first batch whose last offset is at or above a listed first offset, up to
that producer's next ABORT marker. Empty control batches decide nothing. Each response has a complete list for its
range, so each one is decided by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parallax.model import IsolationLevel, Outcome, RowKind
from parallax.replica import kernels
from parallax.replica.decode import Columns

Int8 = np.ndarray[Any, np.dtype[np.int8]]


def outcomes(columns: Columns, aborted: Any, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Int8:
    """The outcome (`parallax.model.Outcome`) that a consumer of the replica gives each row of a response.

    Args:
        columns: the decoded records of one response.
        aborted: that response's list, int64[m, 2] of (producer id, first offset).
        isolation: in read_uncommitted, transactional records are UNDECIDED.

    Returns:
        int8[n] of Outcome. A commit marker is COMMITTED, an abort marker ABORTED, in both isolation levels.
    """
    out = np.empty(len(columns), np.int8)
    table = columns.batches
    listed = np.asarray(aborted, np.int64).reshape(-1, 2)
    listed = listed[np.argsort(listed[:, 1], kind="stable")]
    producers, who = np.unique(listed[:, 0], return_inverse=True)
    index = _index(producers, table[:, kernels.PRODUCER])
    state = np.zeros(len(producers), np.bool_)
    first = np.ascontiguousarray(listed[:, 1])
    kernels.outcomes(table, index, first, who.astype(np.int64), state, out)
    if isolation is IsolationLevel.READ_UNCOMMITTED:
        out[columns.transactional & (columns.kind == 0)] = Outcome.UNDECIDED
    return out


def as_uncommitted(columns: Columns, outcome: Int8) -> Int8:
    """The outcomes that rows read in read_committed would have had if they had been read in read_uncommitted.

    Below the last stable offset, a broker sends both levels the same batches. Only the list of aborted transactions
    differs (``Partition.fetchRecords``). The caller must leave out the rows that were made from this list
    (`RowKind.LISTED`).

    Args:
        columns: rows of a read_committed reading.
        outcome: int8[n], the outcome of each row.

    Returns:
        int8[n] of Outcome.
    """
    told = outcome.copy()
    told[columns.transactional & (columns.kind == RowKind.RECORD)] = Outcome.UNDECIDED
    return told


def _index(producers: Any, of_batch: Any) -> Any:
    """The index of each batch's producer in ``producers`` (sorted); -1 where it is not among them."""
    if not len(producers):
        return np.full(len(of_batch), -1, np.int64)
    at = np.searchsorted(producers, of_batch).clip(max=len(producers) - 1)
    return np.where(producers[at] == of_batch, at, -1).astype(np.int64)
