"""What a Fetch tells of transactions and the records do not: aborted ones that it lists, ends that were emptied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parallax.model import IsolationLevel, Outcome, RowKind
from parallax.replica.client import FetchedPartition
from parallax.replica.decode import Columns, ContentHasher, Payload, decode
from parallax.replica.listed import with_emptied, with_listed
from parallax.replica.outcomes import outcomes
from parallax.replica.reader import Chunk, read_range

from .batches import CONTROL, TRANSACTIONAL, Batch, Record, marker, transactional

HASHER = ContentHasher(bytes(16))
RECORD, ABORT, LISTED, EMPTIED = RowKind.RECORD, RowKind.ABORT, RowKind.LISTED, RowKind.EMPTIED


def rows(columns: Columns) -> list[tuple[int, int, int]]:
    return list(zip(columns.kind.tolist(), columns.offset.tolist(), columns.producer_id.tolist(), strict=True))


def listed(batches: list[Batch], aborted: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int, int]]:
    columns = decode(b"".join(b.encode() for b in batches), hasher=HASHER)
    found, outcome = with_listed(columns, outcomes(columns, aborted), aborted, start, end)
    assert len(outcome) == len(found)
    assert all(o == Outcome.ABORTED for o, k in zip(outcome.tolist(), found.kind.tolist(), strict=True) if k == LISTED)
    return rows(found)


def test_a_transaction_whose_records_are_cleaned_is_known_by_its_entry() -> None:
    left = [Batch(3, [Record(b"k", b"v")]), marker(6, 7, commit=False)]
    assert listed(left, [(7, 2)], 0, 7) == [(LISTED, 2, 7), (RECORD, 3, -1), (ABORT, 6, 7)]


def test_one_whose_first_record_is_held_is_known_by_that() -> None:
    held = [transactional(2, 7, 1), marker(6, 7, commit=False)]
    assert listed(held, [(7, 2)], 0, 7) == [(RECORD, 2, 7), (ABORT, 6, 7)]


@pytest.mark.parametrize(("start", "end"), [(3, 7), (0, 2)])
def test_one_that_begins_outside_the_range_is_reported_with_another(start: int, end: int) -> None:
    left = [marker(6, 7, commit=False)]
    assert listed(left, [(7, 2)], start, end) == [(ABORT, 6, 7)]


def test_several_come_in_the_order_of_their_offsets() -> None:
    left = [Batch(4, [Record(b"k", b"v")]), marker(8, 7, commit=False), marker(9, 5, commit=False)]
    found = listed(left, [(5, 6), (7, 2), (9, 6)], 0, 10)
    assert found == [(LISTED, 2, 7), (RECORD, 4, -1), (LISTED, 6, 5), (LISTED, 6, 9), (ABORT, 8, 7), (ABORT, 9, 5)]


def test_its_row_has_no_payload() -> None:
    data = Batch(3, [Record(b"k", b"v")]).encode()
    columns = decode(data, hasher=HASHER, payload=Payload.FULL)
    found, _ = with_listed(columns, outcomes(columns, []), np.array([(7, 2)]), 0, 4)
    assert found.keys is not None
    assert found.values is not None
    assert (found.keys.to_pylist(), found.values.to_pylist()) == ([None, b"k"], [None, b"v"])
    assert (found.key_size.tolist(), found.value_size.tolist()) == ([-1, 1], [-1, 1])


class Replica:
    """Stands in for the client: one log, and one list of aborted transactions, as of read_committed or not."""

    throttle_ms = 0

    def __init__(self, batches: list[Batch], aborted: list[tuple[int, int]], end: int) -> None:
        self._batches, self._listed, self._end = batches, aborted, end

    def begin_fetch(self, _broker: int, positions: list, *, isolation: IsolationLevel, **_: object) -> Replica:
        self._at, self._isolation = positions[0].offset, isolation
        return self

    def result(self, *_: object) -> list[FetchedPartition]:
        # One batch a time, as where they are large.
        data = b"".join(b.encode() for b in [b for b in self._batches if b.last >= self._at][:1])
        answer = FetchedPartition("t", 0, None, self._end, self._end, 0, records=memoryview(data))
        committed = self._isolation is IsolationLevel.READ_COMMITTED
        return [replace(answer, aborted=np.array(self._listed, np.int64)) if committed else answer]

    def cancel(self) -> None:
        """Nothing is under way."""


def read(replica: Replica, isolation: IsolationLevel) -> list[Chunk]:
    return list(read_range(replica, 2, "t", 0, 0, 9, isolation=isolation, hasher=HASHER))  # type: ignore[arg-type]


def test_a_reader_tells_each_once_though_every_answer_lists_it() -> None:
    left = [Batch(3, [Record(b"k", b"v")]), Batch(5, [Record(b"k", b"w")]), marker(8, 7, commit=False)]
    replica = Replica(left, [(7, 2), (7, 4)], 9)
    chunks = [rows(chunk.columns) for chunk in read(replica, IsolationLevel.READ_COMMITTED)]
    assert chunks == [[(LISTED, 2, 7), (RECORD, 3, -1)], [(LISTED, 4, 7), (RECORD, 5, -1)], [(ABORT, 8, 7)]]
    uncommitted = [row for chunk in read(replica, IsolationLevel.READ_UNCOMMITTED) for row in rows(chunk.columns)]
    assert LISTED not in {kind for kind, _, _ in uncommitted}


def cleaned(base: int, producer: int) -> Batch:
    """What the cleaner leaves of an end marker while it is the last batch of its producer."""
    return Batch(base, flags=TRANSACTIONAL | CONTROL, producer=producer)


def test_an_end_marker_that_was_emptied_is_reported_where_it_lay() -> None:
    left = [Batch(3, [Record(b"k", b"v")]), cleaned(5, 7), Batch(6, producer=8), marker(8, 7, commit=False)]
    columns = decode(b"".join(b.encode() for b in left), hasher=HASHER, payload=Payload.FULL)
    found, outcome = with_emptied(columns, outcomes(columns, []), 0, 9)
    assert rows(found) == [(RECORD, 3, -1), (EMPTIED, 5, 7), (ABORT, 8, 7)]
    assert outcome.tolist() == [Outcome.NONE, Outcome.UNDECIDED, Outcome.ABORTED]
    assert (found.key_size.tolist(), found.transactional.tolist()) == ([1, -1, -1], [False, True, True])
    for start, end in ((6, 9), (0, 5)):
        assert with_emptied(columns, outcomes(columns, []), start, end)[0] is columns


def test_a_reader_in_read_committed_tells_of_an_emptied_end_marker_once() -> None:
    replica = Replica([transactional(2, 7), cleaned(5, 7), marker(8, 7, commit=True)], [], 9)
    found = [row for chunk in read(replica, IsolationLevel.READ_COMMITTED) for row in rows(chunk.columns)]
    assert found == [(RECORD, 2, 7), (EMPTIED, 5, 7), (RowKind.COMMIT, 8, 7)]
    uncommitted = [row for chunk in read(replica, IsolationLevel.READ_UNCOMMITTED) for row in rows(chunk.columns)]
    assert uncommitted == [(RECORD, 2, 7), (RowKind.COMMIT, 8, 7)]
