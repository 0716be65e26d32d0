"""I4 on arrays: whose last stable offset has stood still for too long, and which transaction holds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare.observations import COMMIT, Array, OpenTransactions, ProgressRows
from parallax.compare.rules import progress
from parallax.compare.rules.arrays import table
from parallax.compare.state import INTERVAL, NEVER, new_broker
from parallax.model import UNKNOWN

GRACE = 300


def brokers(count: int = 3) -> Array:
    made = np.concatenate([new_broker(i + 1) for i in range(count)])
    made["member"] = True
    return made


class Ticks:
    """Replicas that are watched, tick by tick."""

    def __init__(self, count: int = 3) -> None:
        self.brokers = brokers(count)

    ended = progress.NOTHING_ENDED

    def tick(
        self, at: int, stable: dict[int, int], high: dict[int, int] | None = None, opened: tuple = (), **more: Any
    ) -> list[progress.Frozen]:
        rows = [
            {
                "broker": broker,
                "observed_at": at,
                "reachable": lso is not None,
                "last_stable_offset": lso if lso is not None else UNKNOWN,
                "high_watermark": (high or {}).get(broker, 100),
                "log_start_offset": 0,
                "log_end_offset": 100,
                **more,
            }
            for broker, lso in stable.items()
        ]
        listed = OpenTransactions.from_rows(
            [{"broker": b, "observed_at": at, "producer_id": p, "start_offset": s} for b, p, s in opened]
        )
        slots = np.array([broker - 1 for broker in stable])
        return progress.observe(self.brokers, ProgressRows.from_rows(rows), listed, slots, GRACE, self.ended)

    def stand(self, *at: int, **more: Any) -> list[progress.Frozen]:
        found: list[progress.Frozen] = []
        for time in at:
            found = self.tick(time, {1: 50, 2: 10, 3: 50}, **more)
        return found


class TestTheClock:
    def test_it_runs_from_the_first_tick_that_shows_it_behind_and_strikes_at_the_grace_period(self) -> None:
        ticks = Ticks()
        assert ticks.stand(1000, 1299) == []
        (frozen,) = ticks.stand(1300)
        assert (frozen.slot, frozen.last_stable_offset, frozen.ahead, frozen.seconds) == (1, 10, 50, 0.3)

    def test_it_does_not_start_before_the_high_watermark_reaches_the_reference(self) -> None:
        ticks = Ticks()
        assert ticks.stand(1000, 2000, 3000, high={2: 49}) == []
        assert ticks.stand(4000, high={2: 50}) == []
        assert ticks.stand(4299, high={2: 50}) == []
        assert len(ticks.stand(4300, high={2: 50})) == 1

    def test_the_reference_is_the_first_that_was_seen_ahead(self) -> None:
        ticks = Ticks()
        ticks.tick(1000, {1: 50, 2: 10, 3: 50}, {2: 40})
        ticks.tick(1100, {1: 90, 2: 10, 3: 90}, {2: 50})
        assert len(ticks.tick(1400, {1: 99, 2: 10, 3: 99}, {2: 60})) == 1

    def test_the_reference_falls_with_the_logs_of_the_others(self) -> None:
        ticks = Ticks()
        ticks.tick(1000, {1: 50, 2: 10, 3: 50}, {2: 40})
        ticks.tick(1100, {1: 30, 2: 10, 3: 30}, {2: 29})
        assert ticks.tick(1500, {1: 30, 2: 10, 3: 30}, {2: 29}) == []
        assert ticks.tick(1600, {1: 30, 2: 10, 3: 30}, {2: 30}) == []
        assert len(ticks.tick(1900, {1: 30, 2: 10, 3: 30}, {2: 30})) == 1

    def test_it_does_not_run_where_a_replica_does_not_tell_its_stable_offset(self) -> None:
        ticks = Ticks()
        ticks.tick(1000, {1: 50, 3: 50})
        for at in (1000, 1300, 1600):
            assert ticks.tick(at, {2: 10}, last_stable_offset=UNKNOWN) == []

    def test_any_movement_of_the_stable_offset_stops_it(self) -> None:
        ticks = Ticks()
        ticks.stand(1000, 1200)
        assert ticks.tick(1290, {2: 11}) == []
        assert ticks.tick(1500, {2: 11}) == []
        assert len(ticks.tick(1590, {2: 11})) == 1
        assert ticks.tick(1600, {2: 9}) == []

    def test_it_stops_when_nobody_is_ahead_any_more(self) -> None:
        ticks = Ticks()
        ticks.stand(1000, 1200)
        ticks.tick(1250, {1: 10, 3: 10})
        assert ticks.tick(1300, {2: 10}) == []
        ticks.tick(1350, {1: 50, 3: 50})
        assert ticks.tick(1400, {2: 10}) == []
        assert len(ticks.tick(1700, {2: 10})) == 1

    def test_one_that_is_level_with_the_others_never_stands(self) -> None:
        ticks = Ticks()
        assert [ticks.tick(at, {1: 50, 2: 50, 3: 50}) for at in (1000, 2000)] == [[], []]

    def test_an_unreachable_replica_has_no_clock_and_is_no_reference(self) -> None:
        ticks = Ticks()
        ticks.stand(1000, 1200)
        assert ticks.tick(1290, {2: None}) == []
        assert ticks.stand(1300, 1500) == []
        assert len(ticks.stand(1600)) == 1
        others_away = Ticks()
        assert [others_away.tick(at, {1: None, 2: 10, 3: None}) for at in (1000, 2000)] == [[], []]

    def test_one_outside_the_replica_set_is_no_reference(self) -> None:
        ticks = Ticks()
        ticks.brokers["member"] = [False, True, False]
        assert ticks.stand(1000, 2000) == []

    def test_ticks_that_come_again_or_late_change_nothing(self) -> None:
        ticks = Ticks()
        ticks.stand(1000, 1200)
        before = ticks.brokers.copy()
        assert ticks.tick(1200, {2: 12}) == []
        assert ticks.tick(900, {2: 12}) == []
        assert (ticks.brokers == before).all()

    def test_rows_are_taken_in_the_order_of_their_time(self) -> None:
        one, other = Ticks(), Ticks()
        rows = [
            {
                "broker": b,
                "observed_at": at,
                "reachable": True,
                "last_stable_offset": lso,
                "high_watermark": 100,
                "log_start_offset": 0,
                "log_end_offset": 100,
            }
            for at in (1000, 1300)
            for b, lso in ((1, 50), (2, 10), (3, 50))
        ]
        found = []
        for ticks, order in ((one, rows), (other, rows[::-1])):
            slots = np.array([r["broker"] - 1 for r in order])
            found.append(
                progress.observe(ticks.brokers, ProgressRows.from_rows(order), OpenTransactions(), slots, GRACE)
            )
        assert [len(f) for f in found] == [1, 1]
        assert (one.brokers == other.brokers).all()

    def test_what_was_reported_last_is_the_latest_word_on_the_stable_offset(self) -> None:
        ticks = Ticks()
        ticks.brokers["reported_at"] = [1000, 1001, UNKNOWN]
        ticks.brokers["stable_told"] = 7
        ticks.stand(1000)
        assert ticks.brokers["stable_told"].tolist() == [50, 7, 50]
        assert ticks.brokers["reported_at"].tolist() == [1000, 1001, 1000]

    def test_a_stable_offset_of_0_is_one(self) -> None:
        ticks = Ticks()
        for at in (1000, 1300):
            found = ticks.tick(at, {1: 50, 2: 0, 3: 50})
        assert [f.last_stable_offset for f in found] == [0]


class TestAllThatStandWhereOneHadComeBy:
    ENDED = progress.EndedTo(to=40, below=60, start=0, epoch=4, broker=1)

    def ticks(self, ended: progress.EndedTo = ENDED) -> Ticks:
        made = Ticks()
        made.ended = ended
        return made

    def stand(self, ticks: Ticks, high: int = 100, lso: int = 10) -> list[progress.Frozen]:
        for at in (1000, 1299):
            assert ticks.tick(at, dict.fromkeys((1, 2, 3), lso), dict.fromkeys((1, 2, 3), high)) == []
        return ticks.tick(1300, dict.fromkeys((1, 2, 3), lso), dict.fromkeys((1, 2, 3), high))

    def test_they_are_frozen_after_the_grace_period(self) -> None:
        found = self.stand(self.ticks())
        assert [(f.slot, f.last_stable_offset, f.ahead) for f in found] == [(0, 10, 40), (1, 10, 40), (2, 10, 40)]

    def test_they_are_not_before_they_have_replicated_past_the_end_markers_that_were_there(self) -> None:
        assert self.stand(self.ticks(), high=59) == []
        assert len(self.stand(self.ticks(), high=60)) == 3

    def test_they_are_not_where_they_have_come_as_far(self) -> None:
        assert self.stand(self.ticks(), lso=40) == []
        assert len(self.stand(self.ticks(), lso=39)) == 3

    def test_one_that_is_ahead_is_the_reference_again(self) -> None:
        ticks = self.ticks()
        for at in (1000, 1300):
            found = ticks.tick(at, {1: 20, 2: 10, 3: 10}, {1: 100, 2: 20, 3: 19})
        assert [(f.slot, f.ahead) for f in found] == [(0, 40), (1, 20)]

    def accuse(
        self,
        slot: int = 0,
        *,
        start: int = 10,
        ended: progress.EndedTo = ENDED,
        missed: int = NEVER,
        missed_by: int = 0,
        producer_id: int = 9,
        **columns: Any,
    ) -> Any:
        frozen = progress.Frozen(slot, 10, 40, 1.0, 9, start)
        asked = brokers()
        asked["high_watermark"], asked["last_stable_offset"] = 100, 10
        for name, values in columns.items():
            asked[name] = values
        row = {"slot": missed_by, "producer_id": producer_id, "start": start, "end": NEVER, "over_by": NEVER}
        known = table(INTERVAL, 1, **row, missed=missed, missed_type=COMMIT)
        return progress.accuse(frozen, asked, known, GRACE, ended)

    def test_one_of_them_is_suspected_with_what_had_ended(self) -> None:
        made = self.accuse()
        assert (made.broker, made.producer_id, made.transaction_start_offset, made.marker_offset) == (1, 9, 10, -1)
        assert made.observations["had_ended"] == {"to": 40, "below": 60, "start": 0, "epoch": 4, "broker": 1}
        assert self.accuse(1) is None
        assert self.accuse(1, member=[False, True, True]).broker == 2

    def test_where_one_was_read_to_have_missed_the_end_marker_that_is_a_suspect_already(self) -> None:
        assert self.accuse(missed=12) is None
        assert self.accuse(missed=12, missed_by=2) is None
        assert self.accuse(missed=12, missed_by=2, producer_id=8) is not None

    @pytest.mark.parametrize(
        "columns",
        [
            {"reachable": [True, True, False]},
            {"last_stable_offset": [10, 10, 9]},
            {"high_watermark": [100, 100, 59]},
            {"start": 40},
            {"start": -1},
            {"ended": ENDED._replace(start=11)},
            {"ended": progress.NOTHING_ENDED},
        ],
        ids=str,
    )
    def test_nobody_is_while_one_may_be_right_or_where_nobody_has_seen_it_end(self, columns: dict[str, Any]) -> None:
        assert self.accuse(**columns) is None


class TestTheHolder:
    def held(self, *opened: tuple[int, int, int]) -> tuple[int, int]:
        ticks = Ticks()
        ticks.stand(1000)
        (frozen,) = ticks.stand(1300, opened=opened)
        return frozen.producer_id, frozen.start

    def test_it_is_the_first_of_those_that_the_replica_lists_at_or_below_where_it_stands(self) -> None:
        assert self.held((2, 9, 10)) == (9, 10)
        assert self.held((2, 8, 9), (2, 7, 3), (2, 9, 10)) == (7, 3)
        assert self.held((2, 9, 0)) == (9, 0)

    def test_none_where_the_replica_lists_none_there(self) -> None:
        assert self.held() == (-1, -1)
        assert self.held((2, 9, 11)) == (-1, -1)
        assert self.held((1, 9, 10)) == (-1, -1)
        assert self.held((2, 9, -1)) == (-1, -1)


class TestAccusation:
    def interval(self, **fields: Any) -> Array:
        row = {"slot": 1, "producer_id": 9, "start": 8, "end": NEVER, "missed": NEVER, "over_by": NEVER}
        return table(INTERVAL, 1, **(row | fields))

    def accuse(self, *intervals: Array, seconds: float = 1.0, log_start: int | list[int] = 0, **fields: Any) -> Any:
        frozen = progress.Frozen(1, 10, 50, seconds, **({"producer_id": 9, "start": 10} | fields))
        asked = brokers()
        asked["log_start_offset"] = log_start
        asked["last_stable_offset"] = [50, 10, 50]
        known = np.concatenate([np.zeros(0, INTERVAL), *intervals])
        return progress.accuse(frozen, asked, known, GRACE)

    def test_it_names_the_transaction_as_the_rows_show_it(self) -> None:
        made = self.accuse(self.interval())
        assert (made.broker, made.producer_id, made.transaction_start_offset, made.offset) == (2, 9, 8, 8)
        assert made.marker_offset == -1
        assert made.observations["last_stable_offsets"] == {"1": 50, "2": 10, "3": 50}
        assert (made.observations["stands_at"], made.observations["others_at"]) == (10, 50)
        assert made.observations["seconds"] == 1.0
        assert made.observations["markers"] == {}

    def test_a_producer_that_the_replica_names_need_not_be_waited_for(self) -> None:
        assert self.accuse(seconds=0.3, producer_id=0).producer_id == 0

    def test_the_seconds_are_reported_to_the_millisecond(self) -> None:
        assert self.accuse(seconds=1.2344).observations["seconds"] == 1.234

    def test_it_tells_the_marker_that_was_missed_and_who_showed_it(self) -> None:
        made = self.accuse(self.interval(missed=12, missed_type=COMMIT, missed_shown=0b101))
        assert (made.marker_offset, made.observations["markers"]) == (12, {"1": "commit", "3": "commit"})

    def test_of_several_the_first_is_meant(self) -> None:
        made = self.accuse(self.interval(start=9), self.interval(start=7), self.interval(producer_id=8, start=1))
        assert made.transaction_start_offset == 7

    def test_what_is_over_ended_or_elsewhere_is_not_meant(self) -> None:
        for other in (self.interval(end=9), self.interval(over_by=30), self.interval(slot=0)):
            assert self.accuse(other).transaction_start_offset == 10

    def test_without_a_producer_the_rows_tell_after_three_times_the_grace_period(self) -> None:
        unnamed = {"producer_id": -1, "start": -1}
        assert self.accuse(self.interval(producer_id=0), **unnamed).producer_id == 0
        assert self.accuse(seconds=0.899, **unnamed) is None
        made = self.accuse(seconds=0.9, **unnamed)
        assert (made.producer_id, made.offset, made.transaction_start_offset) == (-1, 10, 10)

    def test_one_that_starts_at_offset_0_is_named(self) -> None:
        made = self.accuse(producer_id=0, start=0)
        assert (made.producer_id, made.offset, made.transaction_start_offset) == (0, 0, 0)

    def test_below_a_log_start_only_a_missed_marker_is_proof(self) -> None:
        assert self.accuse(self.interval(), log_start=9) is None
        assert self.accuse(self.interval(), log_start=8) is not None
        assert self.accuse(self.interval(start=0), log_start=1) is None
        assert self.accuse(self.interval(missed=12, missed_type=COMMIT), log_start=9) is not None

    def test_one_that_is_ahead_and_whose_log_reaches_down_to_the_transaction_has_seen_it_end(self) -> None:
        assert self.accuse(self.interval(), log_start=[9, 0, 8]) is not None, (
            "broker 3 knows, though 1 has lost its head"
        )
        assert self.accuse(self.interval(), log_start=[9, 0, 9]) is None, "broker 2 itself does not count"
