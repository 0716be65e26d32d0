"""Ranges that agree by their sums: a step that is given these says what a step that is given their rows says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.compare import agreed as taking_in
from parallax.compare.agreed import fits, goes_on, is_new, take_in
from parallax.compare.blocks import Agreed
from parallax.compare.state import (
    CANDIDATE,
    CONTENT,
    DEFERRED,
    DISPUTE,
    DISPUTED,
    EARLY,
    FOLLOWED,
    FOR_OUTCOME,
    INTERVAL,
    MARKER,
    NAMELESS,
    NEVER,
    NOT_BEGUN,
    NULL_KEY,
    PENDING,
    REPORTED,
    TOMBSTONE,
    UNENDED,
    UNLIKE,
    WHOLE_SO_FAR,
    PartitionState,
)
from parallax.model import Outcome
from parallax.replica.digests import Open
from tests.unit.compare.agreeing import followed
from tests.unit.compare.history import RC, RU
from tests.unit.compare.states import state


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), faults=st.integers(0, 2), odd=st.sampled_from((0.0, 0.0, 0.3)))
def test_what_has_agreed_stands_for_its_rows(seed: int, faults: int, odd: float) -> None:
    followed(seed, faults, odd)


def test_rows_of_replicas_that_agree_are_not_looked_at() -> None:
    counts: Counter[str] = Counter()
    for seed in range(8):
        counts += followed(seed, 0, 0.0).counts
    assert counts["spared"] > counts["rows"] / 10, counts


def test_a_transaction_that_goes_on_over_a_cut_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end marker behind the cut contradicts what all have shown of it before the cut."""
    found = [followed(seed, 0, 0.5) for seed in range(12)]
    assert any(str(s.kind) == "outcome_contradicts_marker" for one in found for s in one.suspects)
    assert sum(one.counts["spared"] for one in found) > 0
    monkeypatch.setattr(taking_in, "_unended", lambda *_: np.empty(0, UNENDED))
    with pytest.raises(AssertionError):
        many(range(200))


def many(seeds: range) -> None:
    for seed in seeds:
        followed(seed, 0, 0.5)


AGREED = Agreed(10, 20, frozenset({1, 2}), {RU: {}, RC: {}})


def at_ten(**fields: Any) -> PartitionState:
    """Two replicas that have been followed up to offset 10, with nothing that waits."""
    made = state(1, 2, begun=FOLLOWED, shown=10, position=10, topic_id=1, mismatch_last=-1)
    made.partition["topic_id"] = 1
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def rows_at(table: np.dtype[Any], *offsets: int, **columns: Any) -> Any:
    made = np.zeros(len(offsets), table)
    made["start" if table == INTERVAL else "offset"] = offsets
    if table == INTERVAL:
        made["end"] = made["missed"] = made["over_by"] = made["next_start"] = NEVER
    for name, value in columns.items():
        made[name] = value
    return made


class TestFits:
    """When a state may be brought past offsets whose rows are not read."""

    def test_it_may_if_all_was_shown_up_to_there_and_nothing_waits(self) -> None:
        assert fits(at_ten(), AGREED)
        assert fits(at_ten(intervals=rows_at(INTERVAL, 5, 6)), AGREED), "open transactions go on"

    def test_it_may_only_for_the_whole_replica_set(self) -> None:
        assert not fits(at_ten(), replace(AGREED, brokers=frozenset({1, 2, 3})))
        assert not fits(at_ten(), replace(AGREED, brokers=frozenset({1})))
        for name, value in (("members_known", False), ("topic_id", 2)):
            made = at_ten()
            made.partition[name] = value
            assert not fits(made, AGREED), name
        made = at_ten()
        made.brokers["member"][1] = False
        assert not fits(made, AGREED)

    def test_it_may_if_a_reader_has_not_named_its_topic_yet(self) -> None:
        made = at_ten()
        made.brokers["topic_id"][1, RC] = 0
        assert fits(made, AGREED)

    @pytest.mark.parametrize(("table", "dtype"), [("content", CONTENT), ("pending", PENDING), ("markers", MARKER)])
    def test_it_may_not_if_rows_below_wait_for_another_replica(self, table: str, dtype: np.dtype[Any]) -> None:
        assert fits(at_ten(**{table: rows_at(dtype, 10, 15)}), AGREED)
        assert not fits(at_ten(**{table: rows_at(dtype, 9, 15)}), AGREED)

    @pytest.mark.parametrize(
        ("table", "dtype"), [("candidates", CANDIDATE), ("disputes", DISPUTE), ("deferred", DEFERRED)]
    )
    def test_it_may_not_while_anything_is_to_be_judged(self, table: str, dtype: np.dtype[Any]) -> None:
        assert not fits(at_ten(**{table: np.zeros(1, dtype)}), AGREED)

    @pytest.mark.parametrize("view", [RU, RC])
    def test_it_may_not_if_a_reader_has_not_shown_all_up_to_there(self, view: int) -> None:
        made = at_ten()
        made.brokers["shown"][1] = [10, 10]
        made.brokers["shown"][1, view] = 9
        assert not fits(made, AGREED)
        made.brokers["shown"] = -1
        assert fits(made, AGREED), "before the first rows of a partition"

    def test_it_may_not_if_read_committed_has_shown_more_than_read_uncommitted(self) -> None:
        made = at_ten()
        made.brokers["shown"][1] = [12, 11]
        assert fits(made, AGREED)
        made.brokers["shown"][1] = [11, 12]
        assert not fits(made, AGREED)

    @pytest.mark.parametrize("begun", [NOT_BEGUN, WHOLE_SO_FAR])
    def test_it_may_not_while_what_was_held_at_the_beginning_is_not_followed_unless_all_is_shown(
        self, begun: int
    ) -> None:
        made = at_ten()
        made.brokers["begun"][1, RC] = begun
        assert not fits(made, AGREED)
        assert fits(made, replace(AGREED, is_full=True))
        made.brokers["shown"][1, RC] = 9
        assert not fits(made, replace(AGREED, is_full=True))

    def test_it_may_not_while_records_differ(self) -> None:
        made = at_ten()
        made.brokers["mismatch_last"][1] = 5
        assert not fits(made, AGREED)

    @pytest.mark.parametrize("flag", [TOMBSTONE, NULL_KEY, NAMELESS, DISPUTED, REPORTED, EARLY, UNLIKE, FOR_OUTCOME])
    def test_it_may_not_if_something_was_found_out_about_a_record_in_it(self, flag: int) -> None:
        made = at_ten(pending=rows_at(PENDING, 15, 16, flags=[0, flag]))
        assert fits(made, AGREED) is (flag in (TOMBSTONE, NULL_KEY))

    @pytest.mark.parametrize(
        ("columns", "may"),
        [
            ({"told": 1}, False),
            ({"missed": 8}, False),
            ({"over_by": 9}, True),
            ({"next_start": 9}, True),
            ({"over_by": 9, "end": 9}, False),
            ({"next_start": 9, "end": 8}, False),
            ({"end": 9}, True),
        ],
        ids=["suspected", "missed", "over", "next", "over and ended", "next and ended", "ended"],
    )
    def test_it_may_not_if_something_was_found_out_about_a_transaction(self, columns: Any, may: bool) -> None:
        other, one = rows_at(INTERVAL, 3), rows_at(INTERVAL, 5, **columns)
        assert fits(at_ten(intervals=np.concatenate([other, one])), AGREED) is may

    @pytest.mark.parametrize(("floor", "may"), [(20, True), (21, False)])
    def test_it_may_not_end_below_where_logs_begin(self, floor: int, may: bool) -> None:
        made = at_ten()
        made.partition["floor"] = floor
        assert fits(made, AGREED) is may

    @pytest.mark.parametrize(("offset", "may"), [(11, True), (12, False), (30, False)])
    def test_it_may_not_if_not_all_have_shown_the_end_of_a_transaction_that_goes_on(
        self, offset: int, may: bool
    ) -> None:
        made = at_ten(markers=rows_at(MARKER, offset, producer_id=7))
        made.brokers["position"] = [[40, 20], [12, 10]]
        goes_on = replace(AGREED, opens={RU: {}, RC: {7: Open(15, int(Outcome.COMMITTED), 5, 6)}})
        assert fits(made, goes_on) is may
        assert fits(made, AGREED)


class TestGoesOn:
    """The transactions that are open behind the last rows of a state."""

    def made(self, starts: tuple[int, int] = (5, 5), firsts: tuple[int, int] = (5, 5)) -> PartitionState:
        intervals = rows_at(INTERVAL, *starts, producer_id=7, slot=[0, 1])
        unended = rows_at(UNENDED, *firsts, producer_id=7, slot=[0, 1], key_hash_hi=5, key_hash_lo=6)
        return at_ten(intervals=intervals, unended=unended)

    def test_are_known_if_all_replicas_show_the_same_at_both_levels(self) -> None:
        assert goes_on(self.made()) == {7: Open(5, int(Outcome.COMMITTED), 5, 6)}
        assert goes_on(at_ten()) == {}

    def test_are_unknown_if_replicas_or_levels_differ(self) -> None:
        for made in (self.made((5, 6)), self.made(firsts=(5, 6)), self.made((6, 6)), self.made(firsts=(6, 6))):
            assert goes_on(made) is None

    def test_are_unknown_without_a_replica_set(self) -> None:
        assert goes_on(PartitionState()) is None

    def test_are_those_of_the_replica_set(self) -> None:
        made = self.made((6, 5), (6, 5))
        made.brokers["member"][0] = False
        assert goes_on(made) == {7: Open(5, int(Outcome.COMMITTED), 5, 6)}


def test_a_partition_is_new_until_any_reader_was_shown_something() -> None:
    made = state(1, 2)
    assert is_new(made)
    assert is_new(PartitionState())
    made.brokers["shown"][1, RC] = 0
    assert not is_new(made)


class TestTakeIn:
    """What a state is behind offsets whose rows were not read."""

    def taken(self, made: PartitionState, start: int = 5, outcome: Outcome = Outcome.COMMITTED) -> PartitionState:
        opens = {view: {7: Open(start, int(out), 5, 6)} for view, out in ((RU, Outcome.UNDECIDED), (RC, outcome))}
        take_in(made, replace(AGREED, opens=opens))
        return made

    @pytest.mark.parametrize(("table", "dtype"), [("content", CONTENT), ("pending", PENDING), ("markers", MARKER)])
    def test_holds_only_rows_behind_them(self, table: str, dtype: np.dtype[Any]) -> None:
        made = self.taken(at_ten(**{table: rows_at(dtype, 15, 19, 20, 21)}))
        assert getattr(made, table)["offset"].tolist() == [20, 21]

    def test_has_the_transactions_that_go_on_of_every_replica(self) -> None:
        made = self.taken(at_ten(), outcome=Outcome.ABORTED)
        columns = ["slot", "producer_id", "start", "end"]
        assert made.intervals[columns].tolist() == [(0, 7, 5, NEVER), (1, 7, 5, NEVER)]
        assert made.unended.tolist() == [(0, 7, 5, 5, 6, True), (1, 7, 5, 5, 6, True)]
        assert self.taken(at_ten()).unended["aborted"].tolist() == [False, False]

    def test_has_no_other_transactions_of_these_replicas(self) -> None:
        before = at_ten(
            intervals=rows_at(INTERVAL, 2, 3, producer_id=8, slot=[0, 1]),
            unended=rows_at(UNENDED, 2, 3, producer_id=8, slot=[0, 1]),
        )
        made = self.taken(before)
        assert (made.intervals["producer_id"].tolist(), made.unended["producer_id"].tolist()) == ([7, 7], [7, 7])

    def test_leaves_what_a_replica_that_is_further_on_has_shown(self) -> None:
        before = at_ten(
            intervals=rows_at(INTERVAL, 22, 3, producer_id=8, slot=[0, 1]),
            unended=rows_at(UNENDED, 22, 3, producer_id=8, slot=[0, 1]),
        )
        before.brokers["shown"][0] = 20
        made = self.taken(before)
        for table in (made.intervals, made.unended):
            assert sorted(table[["slot", "producer_id"]].tolist()) == [(0, 8), (1, 7)]
        assert made.brokers["shown"].tolist() == [[20, 20], [20, 20]]
        before.brokers["shown"][0] = 21
        assert self.taken(before).brokers["shown"].tolist() == [[21, 21], [20, 20]]

    def test_keeps_what_a_replica_has_said_of_a_transaction_that_goes_on(self) -> None:
        told = rows_at(INTERVAL, 5, 5, 4, producer_id=[7, 7, 8], slot=[0, 1, 1], over_by=[9, NEVER, 9])
        told["next_start"][1] = 8
        made = self.taken(at_ten(intervals=told))
        assert made.intervals[["slot", "over_by", "next_start"]].tolist() == [(0, 9, NEVER), (1, NEVER, 8)]
        made = self.taken(at_ten(intervals=told), start=6)
        assert made.intervals[["slot", "over_by", "next_start"]].tolist() == [(0, NEVER, NEVER), (1, NEVER, NEVER)]
