"""Finds the records of many transactions in the rows of the views, in one pass over these rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parallax.findings.requests import Transaction, TransactionRecords

COLUMNS = ("broker", "producer_id", "offset", "key_hash_hi", "key_hash_lo")
"""The columns of the views that are read."""

Array = npt.NDArray[np.int64]


class RecordedRows(NamedTuple):
    """Records of transactions as the views recorded them, as columns: element ``i`` of each array is of one record.

    They are sorted by producer and offset. A record that several replicas have shown is there several times, once for
    each of them.

    Attributes:
        producer_id: int64[n], the producer of the record's transaction.
        offset: int64[n], the record's offset.
        key_hash_hi: int64[n], the upper 64 bits of the key's hash.
        key_hash_lo: int64[n], the lower 64 bits of the key's hash.
        first_on: which brokers have shown the first record of a transaction: their ids, by (producer id, offset) of
            that record. A record that no broker has shown is left out.
    """

    producer_id: Array
    offset: Array
    key_hash_hi: Array
    key_hash_lo: Array
    first_on: Mapping[tuple[int, int], set[int]]


def rows_within(batches: Iterable[pa.RecordBatch], of: Sequence[Transaction]) -> RecordedRows:
    """Return those rows of the views that are records of some transactions.

    Args:
        batches: rows of the views: `COLUMNS`, without nulls, in any order.
        of: the transactions, at least one.
    """
    spans = _spans(of)
    starts = np.unique(np.array([one.start for one in of], np.int64))
    first_on: dict[tuple[int, int], set[int]] = {}
    kept: list[list[Array]] = [[np.zeros(0, np.int64) for _ in COLUMNS[1:]]]
    for batch in batches:
        broker, *columns = (batch[name].to_numpy(zero_copy_only=False) for name in COLUMNS)
        within = _within(columns[0], columns[1], spans)
        kept.append([column[within].astype(np.int64) for column in columns])
        at_start = within & np.isin(columns[1], starts)
        for b, producer_id, offset in zip(broker[at_start], columns[0][at_start], columns[1][at_start], strict=True):
            first_on.setdefault((int(producer_id), int(offset)), set()).add(int(b))
    whole = [np.concatenate(parts) for parts in zip(*kept, strict=True)]
    order = np.lexsort((whole[1], whole[0]))
    producer_id, offset, high, low = (column[order] for column in whole)
    return RecordedRows(producer_id, offset, high, low, first_on)


def records_of(
    one: Transaction,
    rows: RecordedRows,
    read: Mapping[int, tuple[int, int]],
    missing: Mapping[int, Sequence[tuple[int, int]]] = MappingProxyType({}),
) -> TransactionRecords:
    """Return the last record of each key that a transaction has written, according to the views.

    Args:
        one: the transaction.
        rows: records of this transaction and others, from `rows_within`.
        read: by broker, the lowest and the highest position of its reader that the views still hold. Some broker must
            have shown the transaction's first record, and its reader must have read from there to the end marker. If no
            broker has, records may be missing, and the result has an ``error``.
        missing: by broker, the ranges of offsets of which the views lack rows (`parallax.views.positions.gaps`). A
            broker with such a range in the transaction does not count.
    """
    low, high = np.searchsorted(rows.producer_id, [one.producer_id, one.producer_id + 1])
    low, high = low + np.searchsorted(rows.offset[low:high], [one.start, one.end])
    keys = np.stack([rows.key_hash_hi[low:high], rows.key_hash_lo[low:high]], axis=1)
    # The last record of each key is the first from the end.
    _, from_end = np.unique(keys[::-1], axis=0, return_index=True)
    last = np.sort(high - 1 - from_end)
    found = zip(*(column[last[: one.limit]].tolist() for column in rows[1:4]), strict=True)
    # Retention drops whole dates: if a reader's position is left, so is all that it has read from there on. A reader
    # that began later may have read only what the cleaner had left, so it must have read the first record.
    brokers = rows.first_on.get((one.producer_id, one.start), ())
    is_read = any(
        b in read
        and read[b][0] <= one.start
        and one.end <= read[b][1]
        and not any(start < one.end and one.start < end for start, end in missing.get(b, ()))
        for b in brokers
    )
    unread = None if is_read else f"the views no longer hold a whole reading from offset {one.start} on"
    records = tuple((offset, (hi, lo)) for offset, hi, lo in found)
    return TransactionRecords(records, max(0, len(last) - one.limit), unread)


def _spans(of: Sequence[Transaction]) -> dict[int, tuple[Array, Array]]:
    """Return by producer id where its transactions begin and end; those that overlap are one."""
    found: dict[int, list[list[int]]] = {}
    for producer_id, start, end in sorted({(one.producer_id, one.start, one.end) for one in of}):
        spans = found.setdefault(producer_id, [])
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(end, spans[-1][1])
        else:
            spans.append([start, end])
    as_arrays = {producer_id: np.array(spans, np.int64) for producer_id, spans in found.items()}
    return {producer_id: (spans[:, 0], spans[:, 1]) for producer_id, spans in as_arrays.items()}


def _within(producer_id: Array, offset: Array, spans: Mapping[int, tuple[Array, Array]]) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows within the spans of their producers."""
    found = np.zeros(len(offset), np.bool_)
    for one in np.unique(producer_id).tolist():
        starts, ends = spans.get(one, (np.zeros(0, np.int64),) * 2)
        if len(starts):
            at = np.flatnonzero(producer_id == one)
            span = np.searchsorted(starts, offset[at], "right") - 1
            found[at] = (span >= 0) & (offset[at] < ends[span])
    return found


__all__ = ["COLUMNS", "RecordedRows", "records_of", "rows_within"]
