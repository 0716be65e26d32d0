"""Several logs by one Fetch at a time: each shows what it shows when it is read alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.model import IsolationLevel
from parallax.replica import reader
from parallax.replica.decode import ContentHasher, Payload
from parallax.replica.errors import ReplicaError
from parallax.replica.parts import DTYPES
from parallax.replica.reader import Failed, Span, read_range, read_ranges
from tests.chunks import read_all
from tests.unit.replica.brokers import Broker, Held, helds

from .batches import Batch, Record, marker, transactional

HASHER = ContentHasher(bytes(16))
END = 1 << 40

LEVELS = pytest.mark.parametrize("isolation", list(IsolationLevel))


Read = tuple[list[tuple[Any, ...]], int, str]


def alone(log: Held, start: int, end: int, isolation: IsolationLevel, size: int, payload: Payload) -> Read:
    broker: Any = Broker({0: log})
    chunks, reached, failure = read_all(
        read_range(broker, 1, "t", 0, start, end, isolation=isolation, hasher=HASHER, payload=payload, max_bytes=size)
    )
    rows = [row for chunk in chunks for row in _rows(chunk.columns, chunk.outcome)]
    return rows, start if reached is None else reached, _kind(failure)


def together(
    held: dict[int, Held],
    spans: Sequence[Span],
    isolation: IsolationLevel,
    size: int,
    payload: Payload = Payload.HASH,
    **broker: Any,
) -> tuple[list[Read], Broker]:
    asked: Any = Broker(held, **broker)
    rows: list[list[Any]] = [[] for _ in spans]
    reached, failed = [span.start for span in spans], ["" for _ in spans]
    events = read_ranges(asked, 1, spans, isolation=isolation, hasher=HASHER, payload=payload, max_bytes=size)
    for event in events:
        if isinstance(event, Failed):
            assert not failed[event.index]
            failed[event.index] = _kind(event.error)
            continue
        made = _rows(event.columns, event.outcome)
        of = [event.marks[0][0]] * len(made) if event.of is None else event.of.tolist()
        for index, row in zip(of, made, strict=True):
            rows[index].append(row)
        for index, mark in event.marks:
            assert mark.position >= reached[index]
            reached[index] = mark.position
    return list(zip(rows, reached, failed, strict=True)), asked


def _rows(columns: Any, outcome: Any) -> list[tuple[Any, ...]]:
    arrays = [getattr(columns, name).tolist() for name in DTYPES]
    payload = [
        [None] * len(columns) if part is None else part.to_pylist()
        for part in (columns.keys, columns.values, columns.headers)
    ]
    return list(zip(*arrays, outcome.tolist(), *payload, strict=True))


def _kind(error: ReplicaError | None) -> str:
    return "" if error is None else type(error).__name__


@LEVELS
@settings(deadline=None, max_examples=60)
@given(st.data())
def test_each_log_shows_what_it_shows_alone(isolation: IsolationLevel, data: st.DataObject) -> None:
    held = dict(enumerate(data.draw(st.lists(helds(), min_size=1, max_size=6))))
    size = data.draw(st.sampled_from([100, 400, 2000, 1 << 20]))
    payload = data.draw(st.sampled_from(list(Payload)))
    spans = []
    for number, log in held.items():
        start = data.draw(st.integers(0, log.end))
        spans.append(Span("t", number, start, data.draw(st.integers(start, log.end + 2))))
    read, _ = together(held, spans, isolation, size, payload)
    for span, found in zip(spans, read, strict=True):
        assert found == alone(held[span.partition], span.start, span.end, isolation, 1 << 20, payload)


@LEVELS
@settings(deadline=None, max_examples=60)
@given(st.data())
def test_what_comes_beyond_an_end_that_is_not_sharp_is_taken_and_asked_for_no_more(
    isolation: IsolationLevel, data: st.DataObject
) -> None:
    held = dict(enumerate(data.draw(st.lists(helds(), min_size=1, max_size=6))))
    size = data.draw(st.sampled_from([100, 400, 2000, 1 << 20]))
    sharp = []
    for number, log in held.items():
        start = data.draw(st.integers(0, log.end))
        sharp.append(Span("t", number, start, data.draw(st.integers(start, log.end + 2))))
    spans = [replace(span, most=span.end + data.draw(st.integers(0, 20))) for span in sharp]
    read, broker = together(held, spans, isolation, size)
    before, asked_before = together(held, sharp, isolation, size)
    assert len(broker.asked) <= len(asked_before.asked)
    for span, found, stopped in zip(spans, read, before, strict=True):
        rows, reached, failure = found
        assert stopped[1] <= reached <= max(span.most, span.start)
        assert rows == alone(held[span.partition], span.start, reached, isolation, 1 << 20, Payload.HASH)[0]
        assert failure or not stopped[2]


def plain(base: int, records: int = 3) -> Batch:
    return Batch(base, [Record(b"k%d" % i, b"v", delta=i) for i in range(records)])


def test_an_answer_is_taken_whole_where_the_end_is_not_sharp() -> None:
    for most, reached in ((-1, 2), (4, 4), (100, 6)):
        read, broker = together({0: Held([plain(0), plain(3)])}, [Span("t", 0, 0, 2, most=most)], *PLAINLY)
        assert [(len(rows), position) for rows, position, _ in read] == [(reached, reached)]
        assert len(broker.asked) == 1


PLAINLY = IsolationLevel.READ_UNCOMMITTED, 1 << 20


def whole(held: dict[int, Held]) -> list[Span]:
    return [Span("t", number, 0, log.end) for number, log in held.items()]


def test_many_small_logs_take_one_fetch() -> None:
    held = {number: Held([plain(0), plain(3)]) for number in range(200)}
    read, broker = together(held, whole(held), IsolationLevel.READ_UNCOMMITTED, 1 << 20)
    assert [(len(rows), reached) for rows, reached, _ in read] == [(6, 6)] * 200
    assert len(broker.asked) == 1


def test_no_more_logs_are_asked_for_at_a_time_than_a_broker_is_used_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MOST", 30)
    held = {number: Held([plain(0)]) for number in range(100)}
    read, broker = together(held, whole(held), IsolationLevel.READ_UNCOMMITTED, 1 << 20)
    assert {reached for _, reached, _ in read} == {3}
    assert [len(asked) for asked in broker.asked] == [30, 30, 30, 10]


def test_that_no_room_was_left_for_a_log_is_not_taken_for_its_end() -> None:
    held = {number: Held([plain(3 * n) for n in range(4)]) for number in range(5)}
    read, broker = together(held, whole(held), IsolationLevel.READ_UNCOMMITTED, 300)
    assert [(len(rows), reached) for rows, reached, _ in read] == [(12, 12)] * 5
    assert len(broker.asked) > 5


def test_a_compacted_tail_beside_others_is_passed() -> None:
    held = {0: Held([plain(0)]), 1: Held([plain(0)]), 2: Held([Batch(0, (), last_delta=9)])}
    spans = [Span("t", 0, 0, 3), Span("t", 1, 3, 3), Span("t", 2, 10, 10)]
    assert [reached for _, reached, _ in together(held, spans, IsolationLevel.READ_COMMITTED, 300)[0]] == [3, 3, 10]


def test_transactions_of_one_log_end_none_of_another() -> None:
    open_one, ended = [transactional(0, 7)], [transactional(0, 7), marker(1, 7, commit=False)]
    held = {0: Held(open_one), 1: Held(ended, [(7, 0)]), 2: Held(open_one)}
    read, _ = together(held, whole(held), IsolationLevel.READ_COMMITTED, 1 << 20)
    for number, found in enumerate(read):
        end = held[number].end
        assert found == alone(held[number], 0, end, IsolationLevel.READ_COMMITTED, 1 << 20, Payload.HASH)


def test_a_broker_that_fails_has_failed_at_all_that_are_not_at_their_end() -> None:
    held = {0: Held([plain(0)]), 1: Held([plain(3 * n) for n in range(9)]), 2: Held([plain(3 * n) for n in range(9)])}
    read, _ = together(held, whole(held), IsolationLevel.READ_UNCOMMITTED, 300, fails_after=2)
    assert [failed for _, _, failed in read] == ["", "Unreachable", "Unreachable"]
    assert read[0][1] == 3


def test_a_log_that_is_broken_ends_and_the_next_answer_of_it_is_passed_over() -> None:
    broken = Held([plain(3 * n) for n in range(9)], garbled=2)
    held = {0: broken, 1: Held([plain(3 * n) for n in range(9)])}
    read, _ = together(held, whole(held), IsolationLevel.READ_UNCOMMITTED, 200)
    assert (read[0][1], read[0][2]) == (6, "CorruptBatch")
    assert (len(read[1][0]), read[1][1:]) == (27, (27, ""))
