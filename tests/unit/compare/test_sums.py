"""Marks: what a reader's rows below an offset add up to, and where readers can be compared by them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from parallax.compare import sums
from parallax.compare.observations import Observations, ViewRows
from parallax.compare.state import SUM, PartitionState
from parallax.compare.sums import Grain
from parallax.model import Outcome, RowKind
from parallax.replica.digests import Digester
from tests.unit.compare.history import RC, RU, Row, abort, commit, record, shown
from tests.unit.compare.states import state

GRAIN = Grain(stride=4, recent=2)
KEY = bytes(range(16))
COUNTS = ("rows", "transactional", "odd", "low", "high", "shape")


def mark(end: int, of: int | None = None, *, slot: int = 0, view: int = RU, **other: int) -> Any:
    """A mark of as many rows as there are offsets below ``of``, whose other sums are told apart from each other."""
    rows = end if of is None else of
    made = np.zeros(1, SUM)
    told = {"rows": rows, "low": 10 * rows, "high": 100 * rows, "shape": 1000 * rows} | other
    for name, value in (told | {"slot": slot, "view": view, "end": end}).items():
        made[name] = value
    return made


def marks(*ends: int, slot: int = 0, view: int = RU) -> Any:
    return np.concatenate([np.empty(0, SUM), *(mark(end, slot=slot, view=view) for end in ends)])


def rows_of(rows: Iterable[Row], view: int = RU) -> ViewRows:
    return Observations.of("t", 0, [row for row in shown(view, 1, rows, 99) if row["kind"] != RowKind.POSITION]).rows


def plain(offsets: Iterable[int]) -> list[Row]:
    return [record(offset, f"K{offset}", "V") for offset in offsets]


def added(known: Any, rows: list[Row], reached: int, view: int = RU) -> Any:
    taken = rows_of(rows, view)
    return sums.added(known, (2, view), taken, sums.digested(taken, GRAIN, KEY), reached)


@pytest.mark.parametrize(("offset", "end"), [(0, 0), (1, 16), (15, 16), (16, 16), (17, 32)])
def test_the_next_end_of_a_stride_is_at_or_above_an_offset(offset: int, end: int) -> None:
    assert GRAIN.up(offset) == end
    assert GRAIN.down(offset) == (end if offset == end else end - 16)


def test_a_stride_has_4096_offsets_and_marks_are_64_apart_near_the_readers() -> None:
    assert (1 << Grain().stride, 1 << Grain().recent) == (4096, 64)


class TestTables:
    """Marks in a state: those at the end of a stride apart from the others."""

    def test_keep_the_marks_of_each_reader_in_offset_order(self) -> None:
        made = state(1, 2)
        given = {
            (0, int(RU)): marks(16, 20, 32),
            (0, int(RC)): marks(16, 32, 33, view=RC),
            (1, int(RC)): marks(3, slot=1, view=RC),
        }
        sums.store(made, given, GRAIN)
        assert made.sums["end"].tolist() == [16, 32, 16, 32]
        assert made.recent_sums["end"].tolist() == [20, 33, 3]
        found = sums.marks_of(made)
        assert {reader: its.tolist() for reader, its in found.items()} == {r: i.tolist() for r, i in given.items()}

    def test_are_empty_without_marks(self) -> None:
        assert sums.marks_of(PartitionState()) == {}

    def test_keep_the_table_of_strides_as_it_is_while_none_is_added_or_changed(self) -> None:
        made = state(1)
        sums.store(made, {(0, RU): marks(16, 20)}, GRAIN)
        before = made.sums
        sums.store(made, {(0, RU): marks(16, 24)}, GRAIN)
        assert made.sums is before
        sums.store(made, {(0, RU): mark(16, of=3)}, GRAIN)
        assert made.sums["rows"].tolist() == [3]
        sums.store(made, {(0, RU): marks(16, 32)}, GRAIN)
        assert made.sums["end"].tolist() == [16, 32]


class TestAdded:
    """The marks of a reader after it has shown more rows."""

    def test_are_at_the_ends_of_small_blocks_and_where_the_reader_is(self) -> None:
        made = added(marks(), plain((0, 1, 5, 6)), 7)
        assert made[["slot", "view", "end", "rows"]].tolist() == [(2, RU, 4, 2), (2, RU, 7, 4)]

    def test_go_on_from_the_last_one(self) -> None:
        whole = added(marks(), plain(range(10)), 10)
        parts = added(added(marks(), plain(range(4)), 4), plain(range(4, 10)), 10)
        assert parts.tolist() == whole.tolist()

    @pytest.mark.parametrize("known", [0, 4])
    def test_have_one_where_the_reader_is_if_it_was_shown_no_row(self, known: int) -> None:
        before = added(marks(), plain(range(known)), known) if known else marks()
        made = added(before, [], 9)
        assert made["end"].tolist() == [*before["end"], 9]
        assert made["rows"].tolist() == [*before["rows"], known]
        assert (before["end"] <= 4).all(), "what was given is not changed"

    def test_have_no_second_one_where_the_reader_is(self) -> None:
        assert added(marks(), plain(range(4)), 4)["end"].tolist() == [4]

    def test_count_what_is_transactional_and_what_is_judged_by_itself(self) -> None:
        rows = [
            record(0, "a", "V"),
            record(1, "b", "V", pid=9, outcome=Outcome.COMMITTED),
            commit(2, 9),
            record(4, "c", "V", pid=9, outcome=Outcome.COMMITTED),
            {**abort(5, 9), "outcome": Outcome.ABORTED},
            {**abort(6, 9), "kind": RowKind.LISTED},
            {**abort(7, 9), "kind": RowKind.EMPTIED},
        ]
        made = added(marks(), rows, 8, RC)
        assert made[["end", "rows", "transactional", "odd"]].tolist() == [(4, 3, 2, 0), (8, 7, 6, 3)]

    def test_have_the_shape_of_transactions_alike_in_both_views_and_none_of_plain_records(self) -> None:
        inside = [record(n, "a", "V", pid=9, outcome=Outcome.COMMITTED) for n in range(3)]
        of_view = [added(marks(), [*plain([0]), *inside[1:], commit(3, 9)], 4, view)["shape"][-1] for view in (RU, RC)]
        assert of_view[0] == of_view[1] != 0
        assert added(marks(), plain(range(4)), 4)["shape"].tolist() == [0]

    @pytest.mark.parametrize("other", [{"offset": 2}, {"producer_id": 8}, {"kind": RowKind.ABORT}])
    def test_have_another_shape_for_another_offset_producer_or_kind(self, other: Row) -> None:
        one, two = (added(marks(), [row], 4, RC)["shape"][-1] for row in (commit(1, 9), {**commit(1, 9), **other}))
        assert one != two

    def test_have_a_shape_in_which_what_differs_in_two_rows_does_not_cancel(self) -> None:
        swapped = [[commit(1, 9), commit(2, 8)], [commit(1, 8), commit(2, 9)], [commit(0, 9), commit(3, 8)]]
        assert len({int(added(marks(), rows, 4, RC)["shape"][-1]) for rows in swapped}) == len(swapped)

    def test_add_up_as_the_sums_of_all_rows_do(self) -> None:
        rows = [*plain(range(3)), commit(3, 9), commit(9, 8)]
        made, total = added(marks(), rows, 16)[-1], sums.totals(rows_of(rows), KEY)
        assert [made[name] for name in COUNTS] == [total[name][0] for name in COUNTS]
        assert total["rows"].tolist() == [5]

    def test_of_no_rows_are_zero(self) -> None:
        assert [sums.totals(rows_of([]), KEY)[name].tolist() for name in COUNTS] == [[0]] * len(COUNTS)


class TestThinned:
    """One mark a stride is left, but for the strides in which a reader is."""

    def test_is_the_last_of_each_stride_at_its_end(self) -> None:
        passed, other = marks(4, 8, 14, 20, 32, 36, 40), marks(49)
        found = sums.thinned({(0, RU): passed, (1, RU): other}, GRAIN, 99)
        assert found[0, RU][["end", "rows"]].tolist() == [(16, 14), (32, 32), (36, 36), (40, 40)]
        assert found[1, RU]["end"].tolist() == [49]
        assert passed["end"].tolist() == [4, 8, 14, 20, 32, 36, 40], "what was given is not changed"

    @pytest.mark.parametrize("far_behind", [{}, {(2, RU): marks(3, slot=2)}], ids=["two", "a third one far behind"])
    def test_is_each_of_a_stride_in_which_another_reader_is(self, far_behind: dict[sums.Reader, Any]) -> None:
        ahead = marks(20, 24, 36, 40, 52, 56, 68)
        found = sums.thinned({(0, RU): ahead, (1, RU): marks(37, slot=1), **far_behind}, GRAIN, 99)
        assert found[0, RU]["end"].tolist() == [32, 36, 40, 64, 68]
        assert found[0, RU]["rows"].tolist() == [24, 36, 40, 56, 68]

    def test_is_each_of_a_stride_that_a_reader_begins_next(self) -> None:
        found = sums.thinned({(0, RU): marks(20, 24, 36, 52), (1, RU): marks(16, slot=1)}, GRAIN, 99)
        assert found[0, RU]["end"].tolist() == [20, 24, 48, 52]

    def test_is_at_the_end_of_a_stride_that_all_have_just_passed(self) -> None:
        assert sums.thinned({(0, RU): marks(4, 16)}, GRAIN, 99)[0, RU]["end"].tolist() == [16]
        assert sums.thinned({(0, RU): marks(4, 15)}, GRAIN, 99)[0, RU]["end"].tolist() == [4, 15]

    @pytest.mark.parametrize(
        ("most", "ends"),
        [
            (6, [16, 32, 48, 64, 68]),
            (5, [32, 64, 68]),
            (4, [32, 64, 68]),
            (3, [64, 68]),
            (2, [68]),
            (0, [68]),
        ],
    )
    def test_is_one_of_each_second_stride_or_fourth_where_they_are_many(self, most: int, ends: list[int]) -> None:
        found = sums.thinned({(0, RU): marks(16, 32, 48, 64, 68), (1, RU): marks(66, slot=1)}, GRAIN, most)
        assert (found[0, RU]["end"].tolist(), found[1, RU]["end"].tolist()) == (ends, [66])
        assert found[0, RU]["rows"].tolist() == ends

    def test_is_there_where_a_reader_is_however_many_they_are(self) -> None:
        found = sums.thinned({(0, RU): marks(16, 32, 48, 64, 80), (1, RU): marks(16, 48, slot=1)}, GRAIN, 0)
        assert (found[0, RU]["end"].tolist(), found[1, RU]["end"].tolist()) == ([48, 64, 80], [48])

    def test_is_nothing_of_no_readers(self) -> None:
        assert sums.thinned({}, GRAIN, 99) == {}


def test_the_sums_below_an_offset_are_those_of_the_last_mark_at_or_below_it() -> None:
    found = sums.at(marks(4, 8), np.array([0, 3, 4, 7, 8, 99]))
    assert found["rows"].tolist() == [0, 0, 4, 4, 8, 8]
    assert [found[name].tolist() for name in COUNTS] == [
        *([0, 0, 4, 4, 8, 8], [0] * 6, [0] * 6),
        *([0, 0, 40, 40, 80, 80], [0, 0, 400, 400, 800, 800], [0, 0, 4000, 4000, 8000, 8000]),
    ]


@pytest.mark.parametrize(
    ("one", "other", "start", "cuts"),
    [
        ((4, 8, 12), (4, 12), 0, [4, 12]),
        ((4, 8, 12), (4, 12), 4, [12]),
        ((4, 32, 40), (32, 33), 0, [32]),
        ((4, 48), (16, 48), 0, [48]),
        ((15,), (14,), 0, []),
    ],
    ids=["marks of both", "above the start", "the last that both have passed", "not where one has none", "none"],
)
def test_readers_are_compared_at_marks_of_all(
    one: tuple[int, ...], other: tuple[int, ...], start: int, cuts: list[int]
) -> None:
    assert sums.common_cuts([marks(*one), marks(*other)], start).tolist() == cuts


def test_and_between_two_marks_that_have_no_row_between_them() -> None:
    one = np.concatenate([mark(4, of=0), mark(8, of=3), mark(20, of=3), mark(24, of=9)])
    cuts = np.array([1, 4, 5, 8, 9, 19, 20, 21, 24, 99])
    assert cuts[sums.known([one], cuts)].tolist() == [1, 4, 8, 9, 19, 20, 24, 99]
    assert sums.common_cuts([one, marks(2, 6, 10, 30)], 0).tolist() == [2, 10]
    assert sums.known([], cuts).all()


def test_rows_are_cut_at_ends_of_strides_at_which_all_sums_are_known() -> None:
    given = {(0, RU): marks(4, 16, 20, 32, 64), (1, RU): marks(16, 48, 64, slot=1)}
    assert sums.stride_ends(given, GRAIN).tolist() == [16, 64]
    given[1, RU]["rows"][0] = 48
    assert sums.stride_ends(given, GRAIN).tolist() == [16, 32, 64]
    assert sums.stride_ends(given, GRAIN, 48, 80, 81).tolist() == [16, 32, 64, 80]
    assert sums.stride_ends({}, GRAIN, 48).tolist() == [48]


CUTS = np.array([4, 8])


@pytest.mark.parametrize("name", ["rows", "low", "high"])
@pytest.mark.parametrize("view", [RU, RC])
def test_readers_of_a_view_have_shown_the_same_below_an_offset_if_all_sums_are_equal(name: str, view: int) -> None:
    given = {(slot, of): marks(4, 8, slot=slot, view=of) for slot in range(3) for of in (RU, RC)}
    assert sums.same(given, CUTS).tolist() == [True, True]
    given[2, view][name][1] += 1
    assert sums.same(given, CUTS).tolist() == [True, False]
    assert sums.agreeing(given, 0).tolist() == [4]


def test_readers_of_different_views_need_not_have_shown_the_same() -> None:
    given = {(0, int(RU)): marks(4, 8), (0, int(RC)): mark(8, of=3, view=RC)}
    assert sums.same(given, CUTS).tolist() == [True, True]


@pytest.mark.parametrize("far_behind", [{}, {(2, RU): marks(4, slot=2)}], ids=["two", "a third one far behind"])
def test_readers_differ_if_any_two_of_a_view_do_as_far_as_both_have_come(far_behind: dict[sums.Reader, Any]) -> None:
    given = {(0, int(RU)): marks(4, 20, 36), (1, int(RU)): marks(4, 20, 36, slot=1), **far_behind}
    assert not sums.differ(given, 0)
    assert not sums.differ({**given, (1, int(RC)): mark(36, of=3, slot=1, view=RC)}, 0)
    given[1, RU]["low"] = [40, 200, 1]
    assert sums.differ(given, 0)
    given[1, RU]["end"][2] = 40
    assert not sums.differ(given, 0), "only one has come so far"


def test_nothing_agrees_above_a_row_that_is_judged_by_itself() -> None:
    given = {(slot, RU): np.concatenate([mark(4), mark(8, odd=1), mark(12, odd=1)]) for slot in range(2)}
    assert sums.agreeing(given, 0).tolist() == [4]
    assert sums.agreeing(given, 4).tolist() == []


def test_rows_of_all_readers_are_counted_together() -> None:
    given = {(slot, RU): marks(4, 8 + slot) for slot in range(2)}
    assert sums.counted(given, "rows", np.array([3, 4, 8, 9])).tolist() == [0, 8, 12, 17]


@pytest.mark.parametrize(
    ("other", "is_one"),
    [({}, [True, True]), ({"shape": 1}, [True, False]), (None, [False, False])],
    ids=["alike", "other transactions", "one view"],
)
def test_the_views_of_a_replica_have_one_shape_if_they_show_the_same_transactions(
    other: dict[str, int] | None, is_one: list[bool]
) -> None:
    given = {(slot, view): marks(4, 8, slot=slot, view=view) for slot in range(2) for view in (RU, RC)}
    if other is None:
        del given[1, RC]
    else:
        given[1, RC] = np.concatenate([mark(4, slot=1, view=RC), mark(8, slot=1, view=RC, **other)])
    assert sums.is_one_shape(given, CUTS).tolist() == is_one


class TestAgreedTo:
    """How far the withheld rows of all replicas are known to be equal."""

    def made(self, *readers: tuple[int, int], ends: tuple[int, ...] = (64, 4096, 4100)) -> PartitionState:
        found = state(1, 2)
        sums.store(found, {(s, v): marks(*ends, slot=s, view=v) for s, v in readers}, Grain())
        return found

    def test_is_the_highest_offset_with_equal_sums_in_one_view(self) -> None:
        made = self.made((0, RU), (1, RU), (0, RC), (1, RC))
        assert sums.agreed_to(made, RU) == sums.agreed_to(made, RC) == 4100
        made.recent_sums["low"][made.recent_sums["view"] == RU] += np.array([0, 0, 0, 1], np.uint64)
        assert (sums.agreed_to(made, RU), sums.agreed_to(made, RC)) == (4096, 4100)

    def test_is_unknown_if_nothing_is_withheld_of_a_replica_of_the_set(self) -> None:
        assert sums.agreed_to(self.made((0, RU), (1, RC)), RU) == -1
        assert sums.agreed_to(state(1, 2), RU) == -1
        assert sums.agreed_to(PartitionState(), RU) == -1

    def test_needs_no_replica_that_is_not_of_the_set(self) -> None:
        made = self.made((0, RU))
        made.brokers["member"][1] = False
        assert sums.agreed_to(made, RU) == 4100

    def test_is_unknown_if_no_sums_are_equal(self) -> None:
        made = self.made((0, RU), (1, RU), ends=(100,))
        made.recent_sums["high"][0] += np.uint64(1)
        assert sums.agreed_to(made, RU) == -1


def test_behind_a_cut_only_the_rows_from_there_on_are_added_up() -> None:
    given = {(0, int(RU)): marks(4, 8, 12), (1, int(RU)): marks(4, 8), (2, int(RU)): marks(12)}
    found = sums.behind(given, 8)
    assert {reader: its[["end", "rows", "low", "shape"]].tolist() for reader, its in found.items()} == {
        (0, RU): [(12, 4, 40, 4000)],
        (2, RU): [(12, 12, 120, 12000)],
    }
    assert given[0, RU]["rows"].tolist() == [4, 8, 12], "what was given is not changed"


def test_sums_are_made_as_those_that_states_hold_already() -> None:
    """A state of an earlier release has sums of rows that are added to, and compared with others, by this one."""
    rows = [record(7, "a", "V", pid=9, outcome=Outcome.COMMITTED), commit(8, 9), record(9, "b", None)]
    found = sums.totals(rows_of(rows, RC), sums.KEY_BEFORE)
    assert [int(found[name][0]) for name in COUNTS] == [
        *(3, 2, 0),
        12671350539909618600,
        865814693208785773,
        11820241329161347498,
    ]


def test_who_knows_the_key_can_let_a_content_count_for_nothing() -> None:
    """By a timestamp that cancels a word that is derived from the key. So it is the secret key of the hashes."""
    word = -int(Digester(sums.KEY_BEFORE)._keys[3]) % 2**64
    rows = [record(0, "K", "V", timestamp=word - (word >> 63 << 64))]
    other = [{**rows[0], "content_hash": 4711}]

    def low(of: list[Row], key: bytes) -> int:
        return int(sums.totals(rows_of(of), key)["low"][0])

    assert low(rows, sums.KEY_BEFORE) == low(other, sums.KEY_BEFORE)
    assert low(rows, KEY) != low(other, KEY)
