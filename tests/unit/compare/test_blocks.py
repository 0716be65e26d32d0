"""From the sums that were recorded of each reader: up to which offset all have shown the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from parallax.compare.blocks import Agreed, Alike, Recorded, agreed, alike
from parallax.compare.sums import Reader
from parallax.model import Outcome, RowKind
from parallax.replica.digests import COLUMNS, Digester, Digests, Open
from parallax.views.blocks import RANGE
from tests.unit.compare import history
from tests.unit.compare.history import RC, RU, Row, record

DIGESTER = Digester(bytes(16), block_bits=2, joined_bits=2)
READERS: list[Reader] = [(broker, view) for broker in (1, 2) for view in (int(RU), int(RC))]


def ranges(*ends: int, start: int = 0, whole: bool = True) -> Any:
    starts = [start, *ends[:-1]]
    return np.array([(0, begin, end, 0, 0, whole) for begin, end in zip(starts, ends, strict=True)], RANGE)


def recorded(
    rows: Iterable[Row], *ends: int, start: int = 0, topic: str = "id", digester: Digester = DIGESTER
) -> Recorded:
    """What was recorded of a reader that has read on to some ends."""
    spans, digests = ranges(*ends, start=start), []
    held = list(rows)
    for n, (_, begin, end, *_) in enumerate(spans.tolist()):
        its = [{**dict.fromkeys(COLUMNS, 0), **row} for row in held if begin <= row["offset"] < end]
        columns = {name: np.array([row[name] for row in its], dtype) for name, dtype in COLUMNS.items()}
        digests.append(digester.add_up(np.array([0, len(its)]), np.array([n], np.int32), columns))
    return Recorded(spans, [topic] * len(spans), Digests.concat(digests))


def commit(offset: int, pid: int) -> Row:
    return {**history.commit(offset, pid), "outcome": Outcome.COMMITTED}


def abort(offset: int, pid: int) -> Row:
    return {**history.abort(offset, pid), "outcome": Outcome.ABORTED}


def plain(end: int, start: int = 0) -> list[Row]:
    return [record(offset, f"K{offset}", "V") for offset in range(start, end)]


def of_all(rows: Iterable[Row], *ends: int, start: int = 0) -> dict[Reader, Recorded]:
    held = list(rows)
    return {reader: recorded(held, *ends, start=start) for reader in READERS}


def found(readers: dict[Reader, Recorded]) -> tuple[int, int, int] | None:
    one = alike(readers)
    return one and (one.start, one.end, one.rows)


def opened(start: int, outcome: Outcome = Outcome.COMMITTED) -> Open:
    return Open(start, int(outcome), 0, 0)


class TestRecorded:
    """What the footers of files say of one reader."""

    def test_is_whole_if_the_ranges_follow_one_another_and_all_rows_are_known(self) -> None:
        assert recorded(plain(6), 3, 6).is_whole
        assert Recorded(ranges(3), ["id"], Digests.none()).is_whole

    @pytest.mark.parametrize("gap", [-1, 1])
    def test_is_not_whole_if_ranges_overlap_or_leave_a_gap(self, gap: int) -> None:
        spans = ranges(3, 6, 9)
        spans["start"][1] += gap
        assert not Recorded(spans, ["id"] * 3, Digests.none()).is_whole

    def test_is_not_whole_if_it_is_of_two_topics(self) -> None:
        assert not Recorded(ranges(3, 6), ["id", "other"], Digests.none()).is_whole

    def test_is_not_whole_if_one_range_is_not(self) -> None:
        spans = ranges(3, 6)
        spans["whole"][1] = False
        assert not Recorded(spans, ["id", "id"], Digests.none()).is_whole

    def test_counts_all_rows_below_the_end_of_a_block_or_of_a_range(self) -> None:
        assert recorded(plain(9), 3, 9).ends.tolist() == [3, 4, 8, 9]

    def test_leaves_a_transaction_open_until_its_end_marker(self) -> None:
        rows = [record(5, "a", "V", pid=7, outcome=Outcome.COMMITTED), *plain(12, 6), commit(12, 7)]
        one = recorded(rows, 7, 16)
        assert one.opens({}, 0, 4) == {}
        for end in (7, 8, 12):
            assert {p: o.start for p, o in (one.opens({}, 0, end) or {}).items()} == {7: 5}
        assert one.opens({}, 0, 16) == {}

    def test_carries_the_transactions_that_are_open_where_it_begins(self) -> None:
        one = recorded([*plain(5), commit(5, 7), *plain(8, 6)], 8)
        before = {7: opened(-5), 8: opened(-4)}
        assert one.opens(before, 0, 4) == before
        assert one.opens(before, 0, 8) == {8: opened(-4)}

    def test_takes_up_no_transaction_from_before_the_start_a_second_time(self) -> None:
        rows = [record(2, "a", "V", pid=7, outcome=Outcome.COMMITTED), commit(5, 7), *plain(8, 6)]
        one = recorded(rows, 8)
        assert one.opens({}, 4, 8) == {}

    def test_knows_of_no_transactions_behind_one_that_is_shown_with_both_outcomes(self) -> None:
        one = recorded([record(2, "a", "V", pid=7, outcome=Outcome.COMMITTED), abort(5, 7)], 8)
        assert one.opens({}, 0, 4) is not None
        assert one.opens({}, 0, 8) is None


class TestAlike:
    """The offsets in which the sums of all readers are equal."""

    def test_are_all_where_all_have_shown_the_same(self) -> None:
        assert found(of_all(plain(6), 6)) == (0, 6, 24)
        assert found(
            {reader: recorded(plain(6), *ends) for reader, ends in zip(READERS, [(6,), (2, 6)] * 2, strict=True)}
        ) == (
            *(0, 6),
            24,
        )

    def test_end_at_the_last_block_below_what_one_shows_otherwise(self) -> None:
        readers = of_all(plain(12), 12)
        readers[2, RC] = recorded([*plain(9), *plain(12, 10)], 12)
        assert found(readers) == (0, 8, 32)
        readers[2, RC] = recorded(plain(12, 1), 12)
        assert found(readers) is None

    def test_end_at_the_last_block_that_all_have_passed(self) -> None:
        readers = of_all(plain(12), 12)
        readers[1, RU] = recorded(plain(11), 11)
        assert found(readers) == (0, 8, 32)

    def test_end_and_begin_where_a_block_ends_of_the_reader_with_the_largest(self) -> None:
        readers = of_all(plain(30), 30)
        readers[2, RC] = recorded(plain(30), 30, digester=Digester(bytes(16), block_bits=3, joined_bits=3))
        readers[1, RU] = recorded(plain(29), 29)
        assert found(readers) == (0, 24, 96)
        readers[1, RU] = recorded(plain(29, 4), 29, start=4)
        assert found(readers) == (8, 24, 64)

    def test_begin_where_all_readers_begin(self) -> None:
        assert found(of_all(plain(9, 3), 9, start=3)) == (3, 9, 24)

    def test_begin_at_the_end_of_a_block_if_readers_begin_apart(self) -> None:
        readers = of_all(plain(16), 16)
        readers[1, RU] = recorded(plain(16, 5), 16, start=5)
        assert found(readers) == (8, 16, 32)
        readers[1, RU] = recorded(plain(16, 4), 16, start=4)
        assert found(readers) == (4, 16, 48)

    def test_are_none_if_a_reader_has_not_come_to_where_another_begins(self) -> None:
        readers = of_all(plain(16), 16)
        readers[1, RU] = recorded(plain(4), 4)
        readers[2, RU] = recorded(plain(16, 8), 16, start=8)
        assert found(readers) is None

    def test_are_none_if_a_reader_is_not_whole(self) -> None:
        readers = of_all(plain(6), 6)
        readers[2, RC].ranges["whole"] = False
        assert found(readers) is None

    def test_are_none_without_readers(self) -> None:
        assert alike({}) is None

    @pytest.mark.parametrize("kind", [RowKind.LISTED, RowKind.EMPTIED])
    def test_end_before_what_is_judged_by_itself(self, kind: RowKind) -> None:
        rows = [*plain(5), {**abort(5, 7), "kind": kind}, *plain(12, 6)]
        assert found(of_all(rows, 12)) == (0, 4, 16)

    @pytest.mark.parametrize(("rows", "is_full"), [(plain(6), True), (plain(5), False)])
    def test_are_full_if_every_reader_has_shown_each_offset(self, rows: list[Row], is_full: bool) -> None:
        one = alike(of_all(rows, 6))
        assert one is not None
        assert one.is_full is is_full

    def test_are_of_the_brokers_of_all_readers(self) -> None:
        assert Alike(0, 6, 24, of_all(plain(6), 6)).brokers == {1, 2}

    def test_are_known_with_the_transactions_that_are_open_behind_them_in_each_view(self) -> None:
        rows = {
            view: [record(n, "a", "V", pid=7, outcome=outcome) for n in range(4)]
            for view, outcome in ((RU, Outcome.UNDECIDED), (RC, Outcome.COMMITTED))
        }
        readers = {(broker, view): recorded(rows[RU if view == RU else RC], 4) for broker, view in READERS}
        one = Alike(0, 4, 16, readers)
        made = one.agreed({view: {8: opened(-1)} for view in (RU, RC)})
        assert made is not None
        assert (made.start, made.end, made.rows, made.brokers, made.is_full) == (0, 4, 16, {1, 2}, True)
        assert {view: sorted(opens) for view, opens in made.opens.items()} == {RU: [7, 8], RC: [7, 8]}

    @pytest.mark.parametrize("before", [{RC: {8: opened(-1)}}, {RU: {8: opened(-1)}, RC: {8: opened(-2)}}])
    def test_are_unknown_if_the_two_levels_leave_other_transactions_open(self, before: dict[int, Any]) -> None:
        assert Alike(0, 6, 24, of_all(plain(6), 6)).agreed(before) is None

    def test_are_unknown_if_a_transaction_goes_on_with_the_other_outcome(self) -> None:
        rows = [record(n, "a", "V", pid=7, outcome=Outcome.COMMITTED) for n in range(4)]
        one = Alike(0, 4, 16, of_all(rows, 4))
        assert one.agreed({view: {7: opened(-1)} for view in (RU, RC)}) is not None
        assert one.agreed({view: {7: opened(-1, Outcome.ABORTED)} for view in (RU, RC)}) is None


class TestAgreed:
    """The same in one call, for readers that begin at one offset."""

    def test_is_the_range_that_is_alike(self) -> None:
        made = agreed(of_all(plain(6), 6))
        assert made is not None
        assert (made.start, made.end, made.rows, made.opens) == (0, 6, 24, {RU: {}, RC: {}})

    def test_has_no_rows_that_need_not_be_read_unless_they_are_counted(self) -> None:
        made = Agreed(0, 6, frozenset({1}), {})
        assert (made.rows, made.is_full) == (0, False)

    def test_is_none_where_nothing_is_alike(self) -> None:
        assert agreed({}) is None

    def test_is_none_if_a_reader_begins_elsewhere(self) -> None:
        readers = of_all(plain(16), 16)
        readers[1, RU] = recorded(plain(16, 4), 16, start=4)
        assert alike(readers) is not None
        assert agreed(readers) is None

    def test_begins_with_the_transactions_that_it_is_given(self) -> None:
        made = agreed(of_all(plain(6), 6), {view: {8: opened(-1)} for view in (RU, RC)})
        assert made is not None
        assert made.opens == {view: {8: opened(-1)} for view in (RU, RC)}
