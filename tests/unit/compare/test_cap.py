"""The cap on the state: what is left out is a range that is counted, closed and never judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare import cap
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, Array
from parallax.compare.rules.arrays import table
from parallax.compare.state import (
    CANDIDATE,
    CONTENT,
    DEFERRED,
    EARLY,
    INTERVAL,
    MARKER,
    NEVER,
    NULL_KEY,
    PENDING,
    TOMBSTONE,
    PartitionState,
    new_broker,
)
from parallax.model import UnknownReason
from tests.unit.compare.states import left_behind


def state(*positions: int, **tables: Array) -> PartitionState:
    """A state of as many member replicas as positions are given, each read so far in both views."""
    made = PartitionState(**tables)
    made.partition["members_known"] = True
    made.brokers = np.concatenate([new_broker(i + 1) for i in range(len(positions))])
    made.brokers["member"] = True
    made.brokers["position"] = np.array(positions)[:, None]
    return made


def deferred(*rows: tuple[int, int, int]) -> Array:
    return np.array(list(rows), DEFERRED)


def ranges(made: PartitionState) -> list[tuple[int, int, int]]:
    return [(int(d["view"]), int(d["start"]), -1 if d["end"] == NEVER else int(d["end"])) for d in made.deferred]


def pending(offsets: list[int], keys: list[int], **fields: Any) -> Array:
    row = {"producer_id": -1, "visible": 1}
    return table(PENDING, len(offsets), offset=offsets, key_hash_hi=keys, **(row | fields))


class TestStored:
    def test_not_below_the_floor_of_its_view_nor_in_a_deferred_range(self) -> None:
        made = state(0, deferred=deferred((READ_COMMITTED, 10, 20), (READ_COMMITTED, 30, NEVER)))
        made.partition["floor"][0] = (3, 5)
        offsets = np.array([2, 3, 4, 5, 9, 10, 19, 20, 29, 30, 99])
        wanted = [False, False, False, True, True, False, False, True, True, False, False]
        assert cap.stored(made, READ_COMMITTED, offsets).tolist() == wanted
        assert cap.stored(made, READ_UNCOMMITTED, offsets).tolist() == [False] + [True] * 10
        assert cap.is_deferring(made, READ_COMMITTED)
        assert not cap.is_deferring(made, READ_UNCOMMITTED)


class TestCloseRanges:
    def test_a_growing_range_ends_at_the_furthest_position_once_the_slowest_has_come_to_its_start(self) -> None:
        made = state(9, 40, deferred=deferred((READ_COMMITTED, 10, NEVER)))
        cap.close_ranges(made)
        assert ranges(made) == [(READ_COMMITTED, 10, -1)]
        made.brokers["position"][0] = 10
        cap.close_ranges(made)
        assert ranges(made) == [(READ_COMMITTED, 10, 40)]
        assert left_behind(made, UnknownReason.DEFERRED) == [0, 0]

    def test_a_range_that_all_have_passed_is_counted_once_and_gone(self) -> None:
        made = state(40, 41, deferred=deferred((READ_UNCOMMITTED, 10, 40), (READ_COMMITTED, 12, 41)))
        cap.close_ranges(made)
        assert ranges(made) == [(READ_COMMITTED, 12, 41)]
        assert left_behind(made, UnknownReason.DEFERRED) == [30, 0]
        made.brokers["position"][0] = 41
        cap.close_ranges(made)
        assert ranges(made) == []
        assert left_behind(made, UnknownReason.DEFERRED) == [30, 29]

    def test_a_range_that_nobody_is_beyond_is_empty(self) -> None:
        made = state(10, 10, deferred=deferred((READ_COMMITTED, 10, NEVER)))
        cap.close_ranges(made)
        assert ranges(made) == []
        assert left_behind(made, UnknownReason.DEFERRED) == [0, 0]

    def test_the_views_are_distinguished(self) -> None:
        made = state(9, 40, deferred=deferred((READ_COMMITTED, 5, NEVER), (READ_UNCOMMITTED, 50, NEVER)))
        cap.close_ranges(made)
        assert ranges(made) == [(READ_COMMITTED, 5, 40), (READ_UNCOMMITTED, 50, -1)]


class TestEnforce:
    def test_within_the_cap_nothing_changes(self) -> None:
        content = table(CONTENT, 5, offset=np.arange(5))
        made = state(0, content=content)
        cap.enforce(made, 4 * 5 * CONTENT.itemsize)
        assert len(made.content) == 5
        assert ranges(made) == []

    def test_content_beyond_a_quarter_is_deferred_from_its_lowest_offset_on(self) -> None:
        content = table(CONTENT, 6, offset=[0, 1, 2, 5, 5, 7])
        made = state(0, content=content)
        cap.enforce(made, 4 * 4 * CONTENT.itemsize)
        assert made.content["offset"].tolist() == [0, 1, 2]
        assert ranges(made) == [(READ_UNCOMMITTED, 5, -1)]

    def test_pending_rows_that_a_later_one_of_their_key_makes_irrelevant_go_first(self) -> None:
        made = state(0, pending=pending([0, 1, 2, 3], [7, 7, 8, 7]))
        cap.enforce(made, 2 * 2 * CANDIDATE.itemsize)
        assert made.pending["offset"].tolist() == [2, 3]
        assert ranges(made) == []

    def test_then_the_newest_are_deferred(self) -> None:
        made = state(0, pending=pending([0, 1, 2, 3], [6, 7, 8, 9]))
        cap.enforce(made, 2 * 3 * CANDIDATE.itemsize)
        assert made.pending["offset"].tolist() == [0, 1, 2]
        assert ranges(made) == [(READ_COMMITTED, 3, -1)]

    def test_candidates_beyond_half_are_deferred_and_counted_the_newest_first(self) -> None:
        candidates = table(CANDIDATE, 4, offset=[8, 2, 9, 4], key_hash_hi=[1, 2, 3, 4])
        made = state(0, candidates=candidates, pending=pending([20], [9]))
        cap.enforce(made, 2 * 3 * CANDIDATE.itemsize)
        assert made.candidates["offset"].tolist() == [2, 4, 8]
        assert left_behind(made, UnknownReason.DEFERRED) == [0, 1]
        assert made.pending["offset"].tolist() == []
        assert ranges(made) == [(READ_COMMITTED, 20, -1)]

    def test_what_is_judged_early_goes_first_and_is_not_counted_for_it_is_pending_as_well(self) -> None:
        candidates = table(CANDIDATE, 4, offset=[2, 4, 8, 9], key_hash_hi=[1, 2, 3, 4], flags=[0, EARLY, 0, EARLY])
        made = state(0, candidates=candidates)
        cap.enforce(made, 2 * 3 * CANDIDATE.itemsize)
        assert made.candidates["offset"].tolist() == [2, 8]
        assert left_behind(made, UnknownReason.DEFERRED) == [0, 0]

    def test_markers_beyond_a_quarter_are_deferred_with_the_content_after_them(self) -> None:
        markers = table(MARKER, 4, offset=[1, 3, 5, 7])
        made = state(0, markers=markers, content=table(CONTENT, 3, offset=[2, 5, 6]))
        cap.enforce(made, 4 * 2 * (MARKER.itemsize + 2 * INTERVAL.itemsize))
        assert made.markers["offset"].tolist() == [1, 3]
        assert made.partition["unmarked"][0].tolist() == [5, 8]
        assert made.content["offset"].tolist() == [2]
        assert ranges(made) == [(READ_UNCOMMITTED, 5, -1)]

    def test_markers_that_all_have_been_read_past_go_first(self) -> None:
        made = state(0, markers=table(MARKER, 4, offset=[1, 3, 5, 7]))
        made.partition["floor"][0, READ_UNCOMMITTED] = 5
        cap.enforce(made, 4 * 2 * (MARKER.itemsize + 2 * INTERVAL.itemsize))
        assert made.markers["offset"].tolist() == [5, 7]
        assert made.partition["unmarked"][0].tolist() == [1, 4]
        assert ranges(made) == []

    def test_but_for_those_directly_behind_a_deletion_that_waits_up_to_half_of_the_room(self) -> None:
        markers = table(MARKER, 6, offset=[1, 3, 5, 7, 9, 11])
        waiting = table(CANDIDATE, 2, offset=[0, 6], flags=[0, TOMBSTONE])
        made = state(0, markers=markers, candidates=waiting, pending=pending([2, 4], [1, 2], flags=TOMBSTONE))
        made.partition["floor"][0, READ_UNCOMMITTED] = 9
        cap.enforce(made, 10**6)
        cap._cap_transactions(made, 5)
        assert made.markers["offset"].tolist() == [3, 5, 9, 11]
        assert made.partition["unmarked"][0].tolist() == [1, 8]
        assert cap.may_lack_marker(made, np.array([0, 1, 3, 6, 7, 8])).tolist() == [
            False,
            True,
            False,
            True,
            True,
            False,
        ]

    def test_the_range_in_which_markers_were_left_out_only_grows(self) -> None:
        made = state(0)
        cap.lose_markers(made, np.array([5, 9]))
        cap.lose_markers(made, np.array([], np.int64))
        assert made.partition["unmarked"][0].tolist() == [5, 10]
        cap.lose_markers(made, np.array([7]))
        assert made.partition["unmarked"][0].tolist() == [5, 10]
        cap.lose_markers(made, np.array([3, 12]))
        assert made.partition["unmarked"][0].tolist() == [3, 13]

    def test_settled_intervals_go_the_newest_first_and_the_others_stay(self) -> None:
        intervals = table(
            INTERVAL,
            6,
            start=[0, 2, 4, 6, 8, 10],
            end=[1, 3, 5, NEVER, 9, 11],
            missed=[NEVER, NEVER, NEVER, NEVER, 8, NEVER],
        )
        made = state(0, intervals=intervals)
        cap.enforce(made, 4 * 2 * (MARKER.itemsize + 2 * INTERVAL.itemsize))
        assert made.intervals["start"].tolist() == [0, 2, 6, 8]
        cap.enforce(made, 4 * 2 * (MARKER.itemsize + 2 * INTERVAL.itemsize))
        assert made.intervals["start"].tolist() == [0, 2, 6, 8], "as many as fit"
        assert [(row["start"], row["end"]) for row in made.unread] == [(4, 12)], "no marker is missed in these any more"
        cap.enforce(made, 0)
        assert made.intervals["start"].tolist() == [6, 8]

    def test_a_range_that_starts_lower_swallows_those_above(self) -> None:
        made = state(0, content=table(CONTENT, 3, offset=[4, 5, 6]))
        made.deferred = deferred(
            (READ_UNCOMMITTED, 1, 3),
            (READ_UNCOMMITTED, 5, 6),
            (READ_UNCOMMITTED, 8, 9),
            (READ_UNCOMMITTED, 7, NEVER),
            (READ_COMMITTED, 9, 11),
        )
        cap.enforce(made, 4 * CONTENT.itemsize)
        assert ranges(made) == [(READ_UNCOMMITTED, 1, 3), (READ_COMMITTED, 9, 11), (READ_UNCOMMITTED, 5, -1)]

    def test_a_range_that_grows_keeps_its_lowest_start(self) -> None:
        made = state(0, content=table(CONTENT, 3, offset=[4, 5, 6]), deferred=deferred((READ_UNCOMMITTED, 2, NEVER)))
        cap.enforce(made, 4 * CONTENT.itemsize)
        assert ranges(made) == [(READ_UNCOMMITTED, 2, -1)]


class TestWithoutSuperseded:
    def kept(self, strict_from: int = NEVER, **fields: Any) -> list[int]:
        rows = pending([0, 5], [7, 7])
        for name, (first, second) in fields.items():
            rows[name] = [first, second]
        return cap.without_superseded(rows, strict_from)["offset"].tolist()

    def test_only_the_latest_of_a_key_stays(self) -> None:
        assert self.kept() == [5]
        assert self.kept(key_hash_hi=(7, 8)) == [0, 5]
        assert self.kept(key_hash_lo=(7, 8)) == [0, 5]

    @pytest.mark.parametrize("producer", [0, 9])
    def test_transactional_rows_stay(self, producer: int) -> None:
        assert self.kept(producer_id=(producer, -1)) == [0, 5]

    def test_what_is_not_shown_committed_supersedes_nothing(self) -> None:
        assert self.kept(visible=(1, 0)) == [0, 5]
        assert self.kept(aborted=(0, 1)) == [0, 5]
        assert self.kept(flags=(0, NULL_KEY)) == [0, 5]
        assert self.kept(aborted=(1, 0)) == [0, 5]

    def test_where_every_record_is_compared_all_stay(self) -> None:
        assert self.kept(strict_from=0) == [0, 5]
        assert self.kept(strict_from=1) == [5]
