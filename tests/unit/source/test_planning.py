from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallax.model import IsolationLevel, ReadEvent
from parallax.source.feedback import Recorded
from parallax.source.offsets import Range, Reader
from parallax.source.planning import PIECE, LogState, admit, clip, known_epochs, next_range, settled, stopped, tasks

RU, RC = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
READER = Reader(int(RC), 2, "orders", 0)
LOG = LogState(high_watermark=100, last_stable_offset=80, log_start_offset=10, log_end_offset=105)


def planned(previous: Range | None = None, recorded: Recorded | None = None, log: LogState = LOG, **more: str) -> Range:
    span = next_range(READER, previous, recorded, log, more.pop("topic_id", "A"), **more)
    assert span is not None
    return span


def test_each_view_ends_at_its_own_offset_the_last_stable_one_or_the_high_watermark() -> None:
    assert LOG.bound(int(RC)) == 80
    assert LOG.bound(int(RU)) == 100


def test_a_reader_begins_at_the_log_start_and_says_so() -> None:
    span = planned()
    assert (span.start, span.end, span.state, span.fresh) == (10, 80, ReadEvent.PARTITION_ADDED, True)


def test_a_reader_that_starts_at_latest_has_nothing_to_read_yet() -> None:
    span = planned(starting="latest")
    assert (span.start, span.end) == (80, 80)
    assert not span.empty


def test_the_next_range_follows_the_previous_one() -> None:
    span = planned(Range(10, 60, "A"))
    assert (span.start, span.end, span.fresh) == (60, 80, False)


def test_what_is_recorded_goes_before_what_was_planned() -> None:
    span = planned(Range(10, 60, "A"), Recorded(42, "A", ReadEvent.UNREACHABLE))
    assert (span.start, span.end) == (42, 80)


def test_a_watermark_that_stepped_back_is_no_truncation() -> None:
    span = planned(Range(10, 103, "A"))
    assert (span.start, span.end, span.state) == (103, 103, ReadEvent.OK)
    assert span.empty


def test_a_log_that_ends_below_the_position_was_truncated() -> None:
    span = planned(Range(10, 200, "A"))
    assert (span.start, span.end, span.state, span.fresh) == (105, 105, ReadEvent.LOG_TRUNCATED, True)
    assert "200" in span.detail


def test_a_log_that_may_be_another_is_that_until_something_was_read_of_it() -> None:
    recorded = Recorded(70, "A", ReadEvent.LOG_TRUNCATED, epoch=3)
    span = planned(Range(10, 70, "A"), recorded)
    assert (span.start, span.end, span.fresh, span.may_be_another) == (70, 80, False, True)
    assert clip(READER, span, {READER: recorded._replace(position=75)}).start == 75
    assert known_epochs({READER: span}, {READER: recorded}) == {READER: 3}
    assert not planned(span, recorded._replace(event=ReadEvent.OK)).may_be_another


def test_a_log_start_above_the_position_tells_what_was_never_shown() -> None:
    span = planned(Range(0, 4, "A"))
    assert (span.start, span.end, span.state) == (10, 80, ReadEvent.LOG_START_ADVANCED)
    assert "4 to 9" in span.detail


def test_a_new_topic_id_begins_again() -> None:
    span = planned(Range(0, 70, "A"), topic_id="B")
    assert (span.start, span.end, span.state, span.topic_id) == (10, 80, ReadEvent.TOPIC_RECREATED, "B")


def test_brokers_without_topic_ids_never_look_recreated() -> None:
    assert planned(Range(0, 70, "A"), topic_id="").state is ReadEvent.OK
    assert planned(Range(0, 70, ""), topic_id="B").state is ReadEvent.OK


def test_an_error_is_reported_once_and_then_kept_in_silence() -> None:
    broken = LogState(error=ReadEvent.NOT_HOSTED, detail="gone")
    first = planned(Range(0, 70, "A"), log=broken)
    assert (first.start, first.end, first.state, first.fresh) == (70, 70, ReadEvent.NOT_HOSTED, True)
    again = planned(first, log=broken)
    assert again.empty
    assert again.state is ReadEvent.NOT_HOSTED


def test_an_error_that_is_over_is_reported_as_well() -> None:
    span = planned(Range(70, 70, "A", ReadEvent.NOT_HOSTED))
    assert (span.state, span.fresh) == (ReadEvent.OK, True)
    assert "not_hosted" in span.detail


def test_nothing_is_said_of_an_error_where_nothing_was_ever_read() -> None:
    assert next_range(READER, None, None, LogState(error=ReadEvent.NOT_HOSTED), "A") is None
    assert settled(None, None) is None


def test_stopped_is_fresh_only_when_the_state_changes() -> None:
    span = stopped(Range(7, 7, "A"), ReadEvent.TOPIC_DELETED, "no such topic")
    assert span.fresh
    assert not stopped(span.settled(), ReadEvent.TOPIC_DELETED, "no such topic").fresh


def test_a_replayed_range_leaves_out_what_another_query_has_recorded() -> None:
    recorded = {READER: Recorded(50, "A", ReadEvent.OK)}
    assert clip(READER, Range(20, 80, "A"), recorded) == Range(50, 80, "A")
    assert clip(READER, Range(20, 40, "A"), recorded).empty
    assert clip(READER, Range(60, 80, "A"), recorded) == Range(60, 80, "A")


def test_a_jump_back_that_is_not_recorded_yet_is_not_clipped() -> None:
    recorded = {READER: Recorded(50, "A", ReadEvent.OK)}
    again = Range(0, 30, "B", ReadEvent.TOPIC_RECREATED, fresh=True)
    cut = Range(30, 40, "A", ReadEvent.LOG_TRUNCATED, fresh=True)
    assert clip(READER, again, recorded) == again
    assert clip(READER, cut, recorded) == cut


def consumer(*sizes: int, broker: int = 1) -> dict[Reader, Range]:
    return {Reader(0, broker, "t", n): Range(0, size, "A") for n, size in enumerate(sizes)}


def test_without_a_limit_everything_is_admitted() -> None:
    ranges = consumer(5, 10**9)
    assert admit(ranges, {}, None) == ranges


def test_small_ranges_leave_their_share_to_the_large_one() -> None:
    ranges = consumer(10, 10_000)
    admitted = admit(ranges, dict.fromkeys(ranges, 1.0), 1000)
    assert [span.end for span in admitted.values()] == [10, 990]


def test_each_broker_and_level_has_a_limit_of_its_own() -> None:
    ranges = consumer(10_000) | consumer(10_000, broker=2)
    admitted = admit(ranges, dict.fromkeys(ranges, 10.0), 1000)
    assert [span.end for span in admitted.values()] == [100, 100]


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=30), st.floats(0.5, 5000), st.integers(1, 10**8))
def test_a_limit_is_kept_and_every_reader_goes_on(sizes: list[int], density: float, limit: int) -> None:
    ranges = consumer(*sizes)
    admitted = admit(ranges, dict.fromkeys(ranges, density), limit)
    spent = sum((span.end - span.start) * density for span in admitted.values())
    assert spent <= limit + len(sizes) * density
    assert all(span.end > span.start for reader, span in admitted.items() if ranges[reader].end > 0)


def test_small_ranges_of_one_broker_share_a_task() -> None:
    planned = tasks(consumer(10, 10, 10) | consumer(10, broker=2), parallelism=4, split=False)
    assert sorted(len(pieces) for pieces in planned) == [1, 3]


def test_empty_ranges_make_no_task() -> None:
    assert tasks({READER: Range(5, 5, "A")}, parallelism=4, split=True) == []


def test_a_large_range_is_cut_only_where_that_is_allowed() -> None:
    ranges = consumer(4 * PIECE)
    assert len(tasks(ranges, parallelism=4, split=True)) == 4
    assert len(tasks(ranges, parallelism=4, split=False)) == 1


@pytest.mark.parametrize("split", [True, False])
@given(sizes=st.lists(st.integers(0, 10 * PIECE), min_size=1, max_size=20), parallelism=st.integers(1, 8))
def test_tasks_cover_every_range_once_and_end_it_once(split: bool, sizes: list[int], parallelism: int) -> None:
    ranges = consumer(*sizes)
    planned = tasks(ranges, parallelism=parallelism, split=split)
    pieces = sorted((piece for task in planned for piece in task), key=lambda p: (p.reader, p.span.start))
    for reader, span in ranges.items():
        mine = [piece for piece in pieces if piece.reader == reader]
        assert sum(piece.span.end - piece.span.start for piece in mine) == span.end
        assert [piece.last for piece in mine] == [False] * (len(mine) - 1) + [True] * bool(mine)
        assert all(a.span.end == b.span.start for a, b in itertools.pairwise(mine))
    assert len(planned) <= max(1, parallelism)


def test_only_the_first_piece_of_a_cut_range_tells_its_event() -> None:
    span = replace(Range(0, 2 * PIECE, "A"), state=ReadEvent.PARTITION_ADDED, fresh=True, detail="begins")
    pieces = [piece for task in tasks({READER: span}, parallelism=2, split=True) for piece in task]
    assert sorted(piece.span.fresh for piece in pieces) == [False, True]


def test_an_epoch_is_known_only_of_what_lies_right_below_the_range() -> None:
    entry = Recorded(40, "A", ReadEvent.OK, epoch=3)
    cut = Range(20, 30, "A", ReadEvent.LOG_TRUNCATED, fresh=True)
    for span, known in ((Range(40, 80, "A"), {READER: 3}), (Range(50, 80, "A"), {}), (cut, {READER: 3})):
        assert known_epochs({READER: span}, {READER: entry}) == known
