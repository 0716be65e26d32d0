"""Partitions that are taken in together end in the state, and are told of, as if each had been stepped by itself."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from parallax.compare.blobs import Blobs
from parallax.compare.gathered import Gathered
from parallax.compare.joint import MANY_ROWS, MANY_WAITING, Quiet, step_quiet
from parallax.compare.observations import Observations
from parallax.compare.results import from_columns, to_columns
from parallax.compare.state import FOLLOWED, PartitionState
from parallax.compare.step import StepResult, step
from parallax.config import CompareSettings
from parallax.model import ReadEvent, TopicPartition, UnknownReason
from tests.unit.compare.history import BROKERS, RC, RU, SETTINGS, Row, both, commit, everywhere, record, shown, tick

NOW = 9


class BothWays:
    """Partitions whose micro-batches go through the step one by one, and through the joint one as far as they can."""

    def __init__(self, settings: CompareSettings = SETTINGS, **options: Any) -> None:
        self.states: dict[str, PartitionState] = {}
        self.settings, self.options = settings, options
        self.quiet: list[str] = []
        """Names of those that were taken in together, in order."""
        self.last: dict[str, StepResult] = {}

    def feed(self, batches: dict[str, Iterable[Row]]) -> set[str]:
        """One micro-batch: rows of each partition by its topic; returns which of them were quiet."""
        seen = {topic: Observations.of(topic, 0, list(rows)) for topic, rows in batches.items()}
        before = {topic: self.states.get(topic) or PartitionState() for topic in seen}
        self.last = {t: step(before[t], seen[t], self.settings, NOW, **self.options) for t in seen}
        quiet = self.together(seen)
        places = [TopicPartition(list(seen)[n], 0) for n in quiet.at]
        for k, coverage in enumerate(from_columns(to_columns(places, quiet, NOW))):
            alone = self.last[places[k].topic]
            packed = quiet.heads.piece(k) + quiet.unmatched.piece(k)
            assert unlike(PartitionState.from_bytes(packed), alone.state) == [], places[k]
            assert packed == alone.state.to_bytes()
            assert coverage == alone.coverage
            assert alone.suspects == []
        self.states |= {topic: result.state for topic, result in self.last.items()}
        names = [place.topic for place in places]
        self.quiet += names
        return set(names)

    def together(self, seen: dict[str, Observations]) -> Quiet:
        """The joint step alone."""
        places = [TopicPartition(topic, 0) for topic in seen]
        gathered = Gathered.concat([Gathered.one(o) for o in seen.values()], places).ordered()
        kept = [self.states.get(topic) for topic in seen]
        heads = Blobs.of([b"" if state is None else state.head_bytes() for state in kept])
        unmatched = Blobs.of([b"" if state is None else state.unmatched_bytes() for state in kept])
        may = np.ones(len(seen), np.bool_)
        return step_quiet(heads, unmatched, may, gathered, self.settings)


def unlike(one: PartitionState, other: PartitionState) -> list[tuple[str, Any, Any]]:
    """The tables in which two states differ."""
    names = PartitionState.__dataclass_fields__
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in names)
    return [(name, left, right) for name, left, right in pairs if left.tobytes() != right.tobytes()]


class Partition:
    """A log of plain records on three replicas, read by both levels at their own pace; little is wrong with it."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.now = 1_000_000
        self.end = draw.choice((0, 0, 5))
        self.records: dict[int, Row] = {}
        self._write(self.end, 0)
        self.read = {(view, broker): 0 for view in (RU, RC) for broker in BROKERS}
        self.begun: set[tuple[Any, int]] = set()
        self.start = 0
        self.policy = draw.choice(({}, {"compacted": 1, "deletes": 0}, {"compacted": 0, "deletes": 1}))
        self.policy |= draw.choice(({}, {"retention_ms": draw.choice((2_000, 600_000))}))
        self.topic_id = draw.choice((0, 77))
        self.trouble = draw.random() < 0.6
        self.lossy = draw.choice((0.0, 0.0, 0.05))
        self.holes = random.Random(f"holes {seed}")
        self.gone: set[int] = set()
        """Offsets that no replica holds."""
        self.gone: set[int] = set()
        """Offsets that no replica holds."""

    def batch(self) -> Iterator[Row]:
        """What the next micro-batch shows of it."""
        draw = self.draw
        self.now += draw.choice((500, 1_000, 5_000))
        before = self.end
        self._write(self.end + draw.choice((0, 0, 1, 3, 9)), before)
        self.gone |= {n for n in range(before, self.end) if self.holes.random() < self.lossy}
        if self.trouble and draw.random() < 0.1:
            self.start = min(self.end, self.start + draw.randrange(4))
        if draw.random() < 0.7:
            yield from self._tick()
        for reader in self.read:
            if draw.random() < 0.7:
                yield from self._reading(*reader)

    def _write(self, end: int, start: int) -> None:
        for n in range(start, end):
            key, value = self.draw.choice(("a", "b", "c", None)), self.draw.choice(("x", "y", None))
            self.records[n] = record(n, key, value, timestamp=self.now)
        self.end = end

    def _tick(self) -> Iterator[Row]:
        draw = self.draw
        down = [draw.choice(BROKERS)] if self.trouble and draw.random() < 0.2 else []
        stable = {b: max(0, self.end - draw.choice((0, 0, 0, 2))) for b in BROKERS}
        for row in tick(self.now, stable, everywhere(self.end), down=down):
            if row["reachable"]:
                row |= {"policy_at": self.now // 4_000 * 4_000, "log_start_offset": self.start, **self.policy}
            yield row
        if self.trouble and draw.random() < 0.03:
            yield {
                "broker": 1,
                "observed_at": self.now + 1,
                "reachable": True,
                "replicas": draw.choice(((1, 2), BROKERS)),
            }

    def _reading(self, view: Any, broker: int) -> Iterator[Row]:
        draw, since = self.draw, self.read[view, broker]
        to = draw.choice((self.end, self.end, draw.randint(since, self.end)))
        rows = [self.records[n] for n in range(since, to) if draw.random() >= self.lossy and n not in self.gone]
        if self.trouble and rows and draw.random() < 0.03:
            rows = [*rows[:-1], {**rows[-1], "content_hash": 1}]
        if self.trouble and rows and draw.random() < 0.03:
            rows = [*rows[:-1], rows[-1] | {"producer_id": 5, "producer_epoch": 0, "outcome": 1}]
        at = self.now + draw.randrange(400)
        stable = draw.choice((self.end, self.end, max(0, self.end - 2)))
        more: dict[str, Any] = {"high_watermark": self.end, "last_stable_offset": stable}
        more |= {"log_start_offset": self.start, "topic_id": self.topic_id, "leader_epoch": draw.choice((-1, 4, 4, 5))}
        if (view, broker) not in self.begun:
            self.begun.add((view, broker))
            yield from shown(view, broker, [], since, at, event=ReadEvent.PARTITION_ADDED, **more)
        elif self.trouble and draw.random() < 0.02:
            more["event"] = ReadEvent.UNREACHABLE
        if since < self.start and draw.random() < 0.5:
            more["event"] = ReadEvent.LOG_START_ADVANCED
        self.read[view, broker] = to
        yield from shown(view, broker, rows, to, at, **more)


OPTIONS: tuple[dict[str, Any], ...] = ({}, {}, {}, {"from_log_start": False})


@pytest.mark.parametrize("seed", range(24))
def test_what_is_taken_in_together_is_what_a_step_makes_of_it(seed: int) -> None:
    """Partitions with little trouble, in unlike readings, beside each other: states, suspects and coverage."""
    draw = random.Random(seed)
    settings = CompareSettings(grace_ms=3_000, state_cap_bytes=draw.choice((1 << 16, 64 << 20)))
    ways = BothWays(settings, **draw.choice(OPTIONS))
    partitions = {f"t{n}": Partition(10 * seed + n) for n in range(4)}
    for _ in range(12):
        ways.feed({name: one.batch() for name, one in partitions.items() if draw.random() < 0.9})
    assert ways.quiet


def agreeing(start: int, end: int, at: int) -> list[Row]:
    rows = [record(n, f"K{n % 7}", "V") for n in range(start, end)]
    return [*tick(at, everywhere(end)), *(row for b in BROKERS for row in both(b, rows, end, at + 5))]


def test_replicas_that_agree_are_quiet_once_they_have_begun() -> None:
    ways = BothWays()
    assert ways.feed({"t": agreeing(0, 5, 0), "u": tick(0, everywhere(7))}) == set()
    for n in range(1, 20):
        assert ways.feed({"t": agreeing(5 * n, 5 * n + 5, 1000 * n), "u": tick(1000 * n, everywhere(7))}) == {"t", "u"}
    assert ways.last["t"].coverage.compared_up_to == (100, 100)


def test_a_first_reading_is_stepped_by_itself_and_what_follows_is_quiet() -> None:
    ways = BothWays()

    def piece(start: int, end: int, kept: range, at: int) -> list[Row]:
        rows = [record(n, f"K{n}", "V") for n in kept]
        more = {"high_watermark": 9, "last_stable_offset": 9}
        return [r for b in BROKERS for v in (RU, RC) for r in shown(v, b, rows, end, at, **more)]

    first = [*tick(0, everywhere(9)), *piece(0, 4, range(4), 5)]
    assert ways.feed({"whole": first, "cleaned": first}) == set()
    assert ways.feed({"whole": piece(4, 9, range(4, 9), 9), "cleaned": piece(4, 9, range(5, 9), 9)}) == set()
    assert ways.feed({"whole": piece(9, 9, range(0), 12), "cleaned": piece(9, 9, range(0), 12)}) == {"whole", "cleaned"}
    assert ways.last["whole"].coverage.unread == ()
    assert [(s.start, s.end) for s in ways.last["cleaned"].coverage.unread] == [(0, 9), (0, 9)]


def test_records_wait_together_for_the_replica_that_is_read_later() -> None:
    ways = BothWays()
    ways.feed({"t": agreeing(0, 5, 10)})
    rows = [record(n, f"K{n}", "V") for n in range(5, 8)]
    first = [*tick(1_000, everywhere(8)), *both(1, rows, 8, 1_005), *both(3, rows, 8, 1_005)]
    assert ways.feed({"t": first}) == {"t"}
    assert [len(ways.states["t"].content), len(ways.states["t"].pending)] == [3, 3]
    assert ways.feed({"t": both(2, rows, 8, 1_007)}) == {"t"}
    assert [len(ways.states["t"].content), len(ways.states["t"].pending)] == [0, 0]


def test_whatever_may_need_a_verdict_is_stepped_by_itself_and_its_neighbours_are_not() -> None:
    cases: dict[str, list[Row]] = {
        "absent": [*both(1, [record(5, "K", "V")], 6), *both(2, [], 6), *both(3, [record(5, "K", "V")], 6)],
        "unlike": [row for b in BROKERS for row in both(b, [record(5, "K", f"V{b == 2}", content_hash=b)], 6)],
        "undecided": [
            row
            for b in BROKERS
            for row in shown(RU, b, [record(5, "K", "V")] if b != 2 else [], 6, last_stable_offset=5)
        ],
        "transaction": shown(RU, 1, [record(5, "K", "V", pid=4, outcome=1), commit(6, 4)], 7),
        "truncated": shown(RU, 1, [], 2, event=ReadEvent.LOG_TRUNCATED),
        "moved": shown(RU, 1, [], 9, event=ReadEvent.LOG_START_ADVANCED),
        "topic": shown(RU, 1, [], 9, topic_id=5),
        "member": [{"broker": 1, "observed_at": 99, "reachable": True, "replicas": (1, 2)}],
        "stranger": shown(RU, 8, [], 9),
        "many": both(1, [record(n, "K", "V") for n in range(5, 5 + MANY_ROWS)], 5 + MANY_ROWS),
    }
    ways = BothWays()
    names = [*cases, "neighbour"]
    for name in names:
        ways.feed({name: [row | {"topic_id": 9} if "event" in row else row for row in agreeing(0, 5, 10)]})
    cases["neighbour"] = agreeing(5, 6, 20)
    assert ways.feed(dict(cases)) == {"neighbour"}


def test_an_offset_that_no_replica_holds_is_stepped_by_itself_where_nothing_is_compacted() -> None:
    ways = BothWays()
    for name, compacted in (("kept", 0), ("cleaned", 1)):
        policy = {"compacted": compacted, "deletes": 1, "policy_at": 1}
        ways.feed({name: [row | policy if "leader" in row else row for row in agreeing(0, 5, 10)]})
    rows = [record(n, f"K{n}", "V") for n in (5, 7)]
    seen = [row for b in BROKERS for row in both(b, rows, 8, 20)]
    assert ways.feed({"kept": seen, "cleaned": seen}) == {"cleaned"}
    (first, second) = ways.last["kept"].coverage.unread
    assert {first.reason, second.reason} == {UnknownReason.LOST_UNREAD}
    assert (first.start, first.end) == (second.start, second.end) == (6, 7)
    more = [r for b in BROKERS for r in both(b, [record(8, "K", "V")], 9, 30)]
    assert ways.feed({"kept": more}) == {"kept"}


def test_a_replica_with_a_still_last_stable_offset_is_stepped_by_itself_after_the_grace() -> None:
    ways = BothWays()
    ways.feed({"t": agreeing(0, 5, 10)})
    for at in (1_000, 2_000, 3_000):
        assert ways.feed({"t": tick(at, {1: 9, 2: 5, 3: 9}, everywhere(9))}) == {"t"}
    assert ways.feed({"t": tick(4_000, {1: 9, 2: 5, 3: 9}, everywhere(9))}) == set()


def test_replicas_that_have_come_no_further_are_stepped_by_themselves_after_the_grace() -> None:
    ways = BothWays()
    ways.feed({"t": [row | {"leader_epoch": 4} if "event" in row else row for row in agreeing(0, 5, 10)]})
    for at in (1_000, 2_000, 3_000):
        assert ways.feed({"t": tick(at, everywhere(3), everywhere(9))}) == {"t"}
    assert [b.frozen_for_s for b in ways.last["t"].coverage.brokers] == [2.0, 2.0, 2.0]
    assert ways.feed({"t": tick(4_000, everywhere(3), everywhere(9))}) == set()


def test_more_than_the_cap_lets_in_or_than_is_worth_it_is_stepped_by_itself() -> None:
    for settings, most in ((CompareSettings(state_cap_bytes=1 << 16), 400), (SETTINGS, MANY_WAITING)):
        ways, n = BothWays(settings), 5
        ways.feed({"t": agreeing(0, 5, 10)})
        while ways.feed({"t": both(1, [record(i, "K", "V") for i in range(n, n + 100)], n + 100)}):
            n += 100
        assert most <= n <= most + 400


def test_a_state_of_another_version_or_of_none_is_left_to_whoever_says_so() -> None:
    ways = BothWays()
    ways.feed({"t": agreeing(0, 5, 10), "u": agreeing(0, 5, 10)})
    good = ways.states["t"].head_bytes()
    seen = {name: Observations.of(name, 0, agreeing(5, 6, 20)) for name in "abcd"}
    gathered = Gathered.concat([Gathered.one(o) for o in seen.values()], [TopicPartition(n, 0) for n in seen]).ordered()
    heads = Blobs.of([good[:3] + b"\x01" + good[4:], b"PXQ" + good[3:], good[:-1], good])
    unmatched = Blobs.of([b""] * 4)
    quiet = step_quiet(heads, unmatched, np.ones(4, np.bool_), gathered, SETTINGS)
    assert quiet.at.tolist() == [3]
    assert step_quiet(heads, unmatched, np.zeros(4, np.bool_), gathered, SETTINGS).at.tolist() == []


COMPACTS = {"compacted": 1, "deletes": 0, "policy_at": 1}


def told(at: int, end: int, more: dict[int, dict[str, int]] | None = None, **policy: int) -> list[Row]:
    """A tick of all replicas with the cleanup policy, and what some of them say beside it."""
    return [row | policy | (more or {}).get(row["broker"], {}) for row in tick(at, everywhere(end))]


def test_a_policy_that_ceases_to_delete_is_stepped_by_itself() -> None:
    ways = BothWays()
    for at, quiet in ((10, set()), (20, {"t"})):
        assert ways.feed({"t": told(at, 5, **(COMPACTS | {"deletes": 1}))}) == quiet
    assert ways.feed({"t": told(1_000, 5, **COMPACTS)}) == set()
    assert ways.feed({"t": told(2_000, 5, **COMPACTS)}) == {"t"}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("ahead", [0, 5, 20, 50])
def test_a_clock_that_was_ahead_is_seen_through_both_ways(ahead: int, asked: bool) -> None:
    hour, ways = 3_600_000, BothWays()

    def of(at: int, end: int) -> list[Row]:
        policy = {**COMPACTS, "policy_at": at * hour + 1} if asked else {}
        ticks = [{**row, "retention_ms": 24 * hour} for row in told((at + ahead) * hour, end, **policy)]
        return [*ticks, *(row for b in BROKERS for row in both(b, [], end, at * hour + 5))]

    spans: Any = ()
    for at, end in ((0, 0), (12, 5), (24, 9), (76, 20), (77, 21)):
        is_quiet = ways.feed({"t": of(at, end)}) == {"t"}
        before, spans = spans, ways.last["t"].coverage.unread
        assert is_quiet == (before == spans and at > 0), "what leaves something unread is stepped by itself"
    gaps = [span for span in ways.last["t"].coverage.unread if span.reason is UnknownReason.RETENTION_GAP]
    assert gaps or not asked, "else nobody knows how far it was ahead"


def test_a_topic_that_is_read_before_its_first_progress_is_quiet_once_that_dates_it() -> None:
    ways = BothWays()

    def read(at: int, start: int, end: int, brokers: tuple[int, ...] = BROKERS) -> list[Row]:
        rows = [record(n, f"k{n}", "v") for n in range(start, end)]
        return [row for b in brokers for row in both(b, rows, end, at)]

    assert ways.feed({"t": read(100, 0, 5, (1,))}) == set()
    assert ways.feed({"t": [*read(200, 5, 9, (1,)), *read(200, 0, 9, (2,))]}) == set()
    assert ways.feed({"t": [*read(300, 0, 9, (3,)), *told(300, 9, **COMPACTS)]}) == set()
    for n in range(9, 30, 3):
        assert ways.feed({"t": [*told(100 * n, n, **COMPACTS), *read(100 * n + 9, n, n + 3)]}) == {"t"}
    assert ways.last["t"].coverage.unread == ()


@pytest.mark.parametrize("leader", [-1, 9])
def test_a_topic_whose_first_bound_comes_without_a_reading_is_taken_in_as_by_itself(leader: int) -> None:
    ways = BothWays()
    rows = [record(n, f"k{n}", "v") for n in range(9)]
    ways.feed({"t": [row for b in BROKERS for row in both(b, rows, 9, 100)]})
    for at in (300, 400):
        ways.feed({"t": [row | {"leader": leader} for row in told(at, 9, **COMPACTS)]})
    for at in (500, 600):
        ways.feed({"t": told(at, 9, **COMPACTS)})
    assert ways.quiet[-1:] == ["t"]
    assert (ways.states["t"].brokers["begun"] == FOLLOWED).all()


def test_a_log_that_begins_above_the_others_is_stepped_by_itself_once_the_grace_has_passed() -> None:
    ways = BothWays()
    lost = {2: {"log_start_offset": 3}}
    ways.feed({"t": told(10, 5, **COMPACTS)})
    for at in (1_000, 3_999):
        assert ways.feed({"t": told(at, 5, lost, **COMPACTS)}) == {"t"}
    assert ways.last["t"].coverage.awaits_report
    assert ways.feed({"t": told(4_000, 5, lost, **COMPACTS)}) == set()


@pytest.mark.parametrize("asked", [True, False])
def test_an_empty_log_that_begins_below_the_others_is_no_head_both_ways(asked: bool) -> None:
    ways, policy = BothWays(), COMPACTS if asked else {}
    begun = {broker: {"log_start_offset": 3} for broker in BROKERS}
    nothing = dict.fromkeys(("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset"), 0)
    for at in (10, 1_000, 9_000):
        is_quiet = ways.feed({"t": told(at, 5, begun | {3: nothing}, **policy)}) == {"t"}
        assert is_quiet == (at > 10)
    if not asked:
        ways.feed({"t": told(10_000, 5, begun | {3: nothing}, **COMPACTS)})
    for at in (11_000, 12_000, 20_000):
        assert ways.feed({"t": told(at, 5, begun, **COMPACTS)}) == {"t"}
    coverage = ways.last["t"].coverage
    assert (coverage.unknown_for(UnknownReason.LOG_START_DIFFERS), coverage.awaits_report) == ((0, 0), False)


def test_logs_that_are_all_empty_begin_where_they_do_both_ways() -> None:
    ways = BothWays()
    begun = {broker: {"log_start_offset": 5} for broker in BROKERS}
    ways.feed({"t": told(10, 5, **COMPACTS)})
    assert ways.feed({"t": told(1_000, 5, begun, **COMPACTS)}) == {"t"}
    assert ways.feed({"t": told(4_000, 5, begun, **COMPACTS)}) == set()


def test_a_tombstone_that_waits_for_a_replica_which_is_away_is_stepped_by_itself() -> None:
    ways = BothWays()
    for name, value, quiet in (("value", "V", True), ("tombstone", None, False)):
        ways.feed({name: agreeing(0, 5, 10)})
        shown_by = [row for broker in (1, 3) for row in both(broker, [record(5, "K", value)], 6, 1_005)]
        batch = [*tick(1_000, everywhere(6), down=[2]), *shown_by]
        assert (ways.feed({name: batch}) == {name}) is quiet


def test_what_may_be_said_of_the_topic_before_is_stepped_by_itself() -> None:
    ways, old, new = BothWays(), {"topic_id": 5}, {"topic_id": 6}
    ways.feed({"t": [row | old if "event" in row else row for row in agreeing(0, 5, 10)]})
    again = [row for b in (1, 3) for view in (RU, RC) for row in shown(view, b, [], 0, 1_000, **new)]
    assert ways.feed({"t": again}) == set()
    assert ways.feed({"t": tick(1_000, everywhere(5))[:1]}) == set(), "of before"
    assert ways.feed({"t": tick(1_001, everywhere(0))[:1]}) == {"t"}
    assert ways.feed({"t": tick(1_001, everywhere(5))[1:2]}) == set(), "its readers have not come to the new one"


@pytest.mark.parametrize("earliest", [False, True])
def test_a_replica_that_comes_back_is_read_on_both_ways(*, earliest: bool) -> None:
    ways = BothWays(from_log_start=earliest)
    ways.feed({"t": agreeing(100, 105, 10)})
    ways.feed({"t": [row | {"replicas": (1, 2)} for row in tick(1_000, everywhere(105))]})
    ways.feed({"t": tick(2_000, everywhere(105))})
    came = ways.feed({"t": [row for b in BROKERS for row in both(b, [], 109, 2_500)]})
    assert came == set(), "it is read for the first time"
    assert ways.feed({"t": [row for b in BROKERS for row in both(b, [], 110, 3_500)]}) == {"t"}
    told = [(span.start, span.end) for span in ways.last["t"].coverage.unread if span.view == RU]
    assert (min(told)[0], max(end for _, end in told)) == (0 if earliest else 100, 105)


def test_a_replica_that_was_gone_and_is_back_within_a_batch_is_stepped_by_itself() -> None:
    ways = BothWays()
    ways.feed({"t": agreeing(0, 5, 10)})
    gone = [row | {"replicas": (1, 2)} for row in tick(1_000, everywhere(5))]
    assert ways.feed({"t": [*gone, *tick(2_000, everywhere(5))]}) == set()
    assert ways.feed({"u": [*gone, *tick(2_000, everywhere(5))]}) == set(), "nor where none was known before"
    assert ways.feed({"t": [*tick(3_000, everywhere(5)), *tick(4_000, everywhere(5))]}) == {"t"}
