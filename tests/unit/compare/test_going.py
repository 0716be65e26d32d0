"""Which transactions are open at the end of each block of withheld rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from parallax.compare import going, sums
from parallax.compare.observations import Observations
from parallax.compare.state import GOING, INTERVAL, NEVER, UNENDED
from parallax.compare.sums import Grain
from parallax.model import Outcome, RowKind
from parallax.replica.digests import Open
from tests.unit.compare import history
from tests.unit.compare.history import RC, Row, record, shown
from tests.unit.compare.states import state

GRAIN = Grain(stride=4, recent=2)
COMMITTED, ABORTED = int(Outcome.COMMITTED), int(Outcome.ABORTED)
NONE: Any = np.empty(0, GOING)


def open_at(offset: int, outcome: int = COMMITTED, key: tuple[int, int] = (5, 6)) -> Open:
    return Open(offset, outcome, *key)


def row(end: int, producer: int = -1, offset: int = 0, *, slot: int = 0, aborted: bool = False) -> Any:
    keys = (0, 0) if producer == -1 else (5, 6)
    return np.array([(slot, end, producer, offset, *keys, aborted)], GOING)


def followed(
    rows: Iterable[Row],
    reached: int,
    table: Any = NONE,
    before: dict[int, Open] | None = None,
    *,
    is_ahead: bool = False,
) -> Any:
    """Follow the reader of slot 1."""
    held = [one for one in shown(RC, 1, rows, reached) if one["kind"] != RowKind.POSITION]
    taken = Observations.of("t", 0, held).rows
    return going.followed(
        table, 1, before or {}, sums.digested(taken, GRAIN, bytes(16)), reached, GRAIN, is_ahead=is_ahead
    )


def begun(offset: int, pid: int = 7, outcome: int = COMMITTED) -> Row:
    return {**record(offset, "k", "V", pid=pid, outcome=outcome), "key_hash_hi": 5, "key_hash_lo": 6}


def commit(offset: int, pid: int) -> Row:
    return {**history.commit(offset, pid), "outcome": Outcome.COMMITTED}


def abort(offset: int, pid: int) -> Row:
    return {**history.abort(offset, pid), "outcome": Outcome.ABORTED}


def plain(*offsets: int) -> list[Row]:
    return [record(offset, "k", "V") for offset in offsets]


def told(table: Any, slot: int = 1) -> dict[int, dict[int, int]]:
    """By offset, the transactions that are open there and their first offsets."""
    mine = table[table["slot"] == slot]
    return {
        end: {
            int(one["producer_id"]): int(one["offset"]) for one in mine if one["end"] == end and one["producer_id"] >= 0
        }
        for end in mine["end"].tolist()
    }


def test_in_a_state_those_are_open_that_one_replica_has_shown_no_end_of() -> None:
    made = state(1, 2)
    made.unended = np.array([(0, 7, 20, 5, 6, False), (1, 8, 21, 5, 6, True), (1, 9, 22, 5, 6, False)], UNENDED)
    assert going.of_state(made, 0) == {7: open_at(20)}
    assert going.of_state(made, 1) == {8: open_at(21, ABORTED), 9: open_at(22)}


def test_in_read_uncommitted_those_are_open_that_have_no_end() -> None:
    made = state(1, 2)
    made.intervals = np.zeros(3, INTERVAL)
    made.intervals["slot"], made.intervals["producer_id"] = [0, 0, 1], [7, 8, 9]
    made.intervals["start"], made.intervals["end"] = [20, 21, 22], [NEVER, 30, NEVER]
    assert going.starts_of_state(made, 0) == {7: 20}
    assert going.starts_of_state(made, 1) == {9: 22}


def test_at_an_offset_they_are_known_of_any_reader_that_is_followed_there() -> None:
    table = np.concatenate([row(16), row(16, 7, 3), row(32), row(16, slot=1), row(16, 7, 3, slot=1)])
    assert going.at(table, 16) == {7: open_at(3)}
    assert going.at(table, 32) == {}
    assert going.at(table, 17) is None


def test_behind_the_last_rows_of_a_reader_those_of_its_last_offset_are_open() -> None:
    table = np.concatenate([row(16), row(16, 7, 3), row(20), row(20, 8, 17, aborted=True), row(24, slot=1)])
    assert going.last(table, 0) == {8: open_at(17, ABORTED)}
    assert going.last(table, 1) == {}
    assert going.last(table, 2) is None


def test_behind_a_cut_those_of_some_replicas_are_left() -> None:
    table = np.concatenate([row(16), row(32), row(16, slot=1), row(32, slot=1), row(48, slot=2)])
    left = going.behind(table, 32, {0, 2})
    assert left[["slot", "end"]].tolist() == [(0, 32), (2, 48)]


class TestFollowed:
    """The transactions of a reader over its new rows."""

    def test_are_kept_at_the_end_of_each_block_and_where_the_reader_is(self) -> None:
        made = followed([*plain(1), begun(3), *plain(17, 18), commit(33, 7), *plain(34)], 35)
        assert told(made) == {16: {7: 3}, 32: {7: 3}, 35: {}}
        assert going.at(made, 16) == {7: open_at(3)}

    def test_are_kept_once_where_the_reader_is_at_the_end_of_a_block(self) -> None:
        made = followed([*plain(1), begun(3), *plain(15)], 16)
        assert made[["slot", "end", "producer_id"]].tolist() == [(1, 16, -1), (1, 16, 7)]

    def test_are_kept_where_the_reader_is_within_a_block(self) -> None:
        assert told(followed([begun(3), *plain(6)], 9)) == {9: {7: 3}}

    def test_are_kept_where_the_reader_is_if_it_was_shown_no_row(self) -> None:
        assert told(followed([], 9, before={8: open_at(2)})) == {9: {8: 2}}

    def test_begin_with_those_that_were_open_before(self) -> None:
        made = followed([*plain(17), commit(20, 8), *plain(33)], 40, before={8: open_at(2), 9: open_at(3)})
        assert told(made) == {32: {9: 3}, 40: {9: 3}}

    def test_of_an_aborted_one_say_that_it_is(self) -> None:
        assert going.last(followed([begun(3, outcome=ABORTED)], 9), 1) == {7: open_at(3, ABORTED)}

    def test_replace_what_was_known_behind_the_last_block_and_nothing_of_others(self) -> None:
        within = [row(end, slot=1) for end in (1, 15, 17, 18, 20)]
        before = np.concatenate([row(16, slot=1), *within, row(20, 8, 17, slot=1), row(20), row(20, 9, 18)])
        made = followed([*plain(21)], 24, before, {8: open_at(17)})
        assert told(made) == {16: {}, 24: {8: 17}}
        assert told(made, 0) == {20: {9: 18}}

    @pytest.mark.parametrize("rows", [[begun(3), abort(17, 7)], [begun(3, outcome=ABORTED), commit(17, 7)]])
    def test_are_kept_no_more_once_one_is_shown_with_both_outcomes(self, rows: list[Row]) -> None:
        before = np.concatenate([row(0, slot=1), row(20)])
        assert told(followed(rows, 20, before)) == {}
        assert told(followed(rows, 20, before), 0) == {20: {}}

    @pytest.mark.parametrize(("blocks", "is_ahead", "kept"), [(64, True, 64), (65, True, 0), (65, False, 64)])
    def test_are_kept_at_64_offsets_at_most(self, blocks: int, is_ahead: bool, kept: int) -> None:
        rows = plain(*range(1, blocks * 16, 16))
        many = np.concatenate([row(20)] * 5)
        made = followed(rows, blocks * 16, many, {n: open_at(-5) for n in range(3)}, is_ahead=is_ahead)
        assert len(told(made)) == kept
        assert len(made[made["slot"] == 0]) == 5
