"""Adds rows for transactions that a replica shows only by a list entry, or by an end marker that was emptied.

The answer to a Fetch lists the aborted transactions in its range as (producer id, first offset), from that replica's
own index. The cleaner removes an aborted transaction's records before its entry in the index, and before its end
marker. So for a while only the entry shows that the transaction was aborted. Most entries add nothing to what the
records show.

If an end marker is the last batch of its producer, the cleaner leaves an empty control batch in its place. That batch
only says that a transaction of the producer ended there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from parallax.model import Outcome, RowKind
from parallax.replica import kernels
from parallax.replica.decode import Columns
from parallax.replica.parts import DTYPES

_BLANK = {"transactional": True, "leader_epoch": -1, "producer_epoch": -1, "key_size": -1, "value_size": -1}


def with_listed(columns: Columns, outcome: Any, aborted: Any, start: int, end: int) -> tuple[Columns, Any]:
    """Add a row (`RowKind.LISTED`) for each aborted transaction that begins in [start, end) without a record there.

    A response lists each aborted transaction that has an offset in the response's range. So several responses may list
    a transaction. Only the one whose range holds the transaction's first offset adds the row.

    Args:
        columns: the rows of the range, in offset order.
        outcome: int8[n], the `Outcome` of each row.
        aborted: the response's list, int64[m, 2] of (producer id, first offset).
        start: the first offset of the range.
        end: the offset after the range.

    Returns:
        A tuple: the columns with the new rows, in offset order, and the outcome of each row (ABORTED for a new one).
        Both are unchanged if there is nothing to add.
    """
    listed = np.asarray(aborted, np.int64).reshape(-1, 2)
    listed = listed[(listed[:, 1] >= start) & (listed[:, 1] < end)]
    listed = listed[~np.isin(listed[:, 1], columns.offset)]
    if not len(listed):
        return columns, outcome
    listed = listed[np.argsort(listed[:, 1], kind="stable")]
    new = {"kind": RowKind.LISTED, "offset": listed[:, 1], "producer_id": listed[:, 0]}
    return _with_rows(columns, outcome, new, Outcome.ABORTED)


def with_emptied(columns: Columns, outcome: Any, start: int, end: int) -> tuple[Columns, Any]:
    """Add a row (`RowKind.EMPTIED`) for each end marker of [start, end) that the cleaner has emptied.

    Args:
        columns: the rows of the range, in offset order, with the batches of the response.
        outcome: int8[n], the `Outcome` of each row.
        start: the first offset of the range.
        end: the offset after the range.

    Returns:
        A tuple: the columns with the new rows, in offset order, and the outcome of each row (UNDECIDED for a new one).
        Both are unchanged if there is nothing to add.
    """
    table = columns.batches
    emptied = table[(table[:, kernels.ATTRIBUTES] & kernels.IS_CONTROL != 0) & (table[:, kernels.COUNT] == 0)]
    emptied = emptied[(emptied[:, kernels.LAST] >= start) & (emptied[:, kernels.LAST] < end)]
    if not len(emptied):
        return columns, outcome
    new = {"kind": RowKind.EMPTIED, "offset": emptied[:, kernels.LAST], "producer_id": emptied[:, kernels.PRODUCER]}
    return _with_rows(columns, outcome, new, Outcome.UNDECIDED)


def _with_rows(columns: Columns, outcome: Any, new: dict[str, Any], its_outcome: Outcome) -> tuple[Columns, Any]:
    """Insert rows in the order of their offsets."""
    at = np.searchsorted(columns.offset, new["offset"])
    new = _BLANK | new
    added: dict[str, Any] = {name: np.insert(getattr(columns, name), at, new.get(name, 0)) for name in DTYPES}
    for name in ("keys", "values", "headers"):
        added[name] = _with_nulls(getattr(columns, name), at)
    return replace(columns, **added), np.insert(outcome, at, its_outcome)


def _with_nulls(payload: Any, at: Any) -> Any:
    if payload is None:
        return None
    index = np.insert(np.arange(len(payload)), at, -1)
    return payload.take(pa.array(index, mask=index < 0))
