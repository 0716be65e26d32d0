"""Offsets that no replica holds, where nothing is compacted, are unknown for good; elsewhere the cleaner was there."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest

from parallax.compare import holes
from parallax.compare.state import DEFERRED, NEVER, PartitionState
from parallax.model import ReadEvent, UnknownReason
from tests.builders.policies import never_compacted
from tests.unit.compare.agreeing import BothWays, log_of
from tests.unit.compare.history import BROKERS, RC, RU, Comparison, Row, both, commit, everywhere, filler, shown, tick

LOST = UnknownReason.LOST_UNREAD


def uncompacted() -> Comparison:
    """A comparison of replicas that are read up to offset 4, and that hold all of it."""
    made = Comparison(before=never_compacted())
    made.feed(tick(0, everywhere(4)), *(both(b, [filler(n) for n in range(4)], 4, 5) for b in BROKERS))
    return made


def lost(made: Comparison) -> list[tuple[int, int, int]]:
    """View, first and one past the last of the offsets that are said to be lost."""
    assert made.last is not None
    return [(s.view, s.start, s.end) for s in made.last.coverage.unread if s.reason is LOST]


def read(offsets: Iterable[int], end: int, brokers: Iterable[int] = BROKERS, at: int = 1_000) -> list[list[Row]]:
    rows = [filler(n) for n in offsets]
    return [both(broker, rows, end, at) for broker in brokers]


def test_what_no_replica_holds_is_unknown_at_both_levels_and_accuses_nobody() -> None:
    made = uncompacted()
    made.feed(*read((4, 7), 8))
    assert lost(made) == [(RU, 5, 7), (RC, 5, 7)]
    assert made.last is not None
    assert made.last.coverage.unknown[LOST] == (2, 2)
    made.feed(*read((8,), 9))
    assert lost(made) == [(RU, 5, 7), (RC, 5, 7)], "it stays so"
    assert made.suspects == []


def test_it_is_so_where_all_that_was_read_is_a_position() -> None:
    made = uncompacted()
    made.feed(*read((), 6))
    assert lost(made) == [(RU, 4, 6), (RC, 4, 6)]


def test_nothing_is_said_before_every_replica_has_been_read_so_far() -> None:
    made = uncompacted()
    made.feed(*read((5,), 6, (1, 3)))
    assert lost(made) == []
    made.feed(*read((4, 5), 6, (2,)))
    assert lost(made) == [], "one of them holds it"


def test_a_topic_that_was_compacted_has_gaps_that_say_nothing() -> None:
    made = Comparison()
    made.feed(tick(0, everywhere(4)), *(both(b, [filler(n) for n in range(4)], 4, 5) for b in BROKERS))
    made.feed(*read((5,), 6))
    assert lost(made) == []


def test_an_end_marker_fills_its_offset_whichever_reader_shows_it() -> None:
    made = uncompacted()
    made.feed(*(shown(RU, b, [filler(4), commit(5, 9)], 6, 1_000) for b in BROKERS))
    made.feed(*(shown(RC, b, [filler(4), commit(5, 9)], 6, 1_000) for b in BROKERS))
    assert lost(made) == []


def test_where_replicas_hold_unlike_records_nothing_is_lost_though_one_of_them_is_read_later() -> None:
    made = uncompacted()
    unlike = {**filler(4), "content_hash": 4711}
    away = tick(1_000, everywhere(5), down=(3,))
    assert made.feed(away, both(1, [filler(4)], 5, 1_000), both(2, [unlike], 5, 1_000))
    made.feed(both(3, [filler(4)], 5, 1_000))
    assert lost(made) == []


def test_a_lost_offset_is_known_no_more_once_a_log_was_truncated_below_it() -> None:
    made = uncompacted()
    made.feed(*read((4, 6), 7))
    assert lost(made) == [(RU, 5, 6), (RC, 5, 6)]
    made.feed(shown(RU, 1, [], 6, 2_000, event=ReadEvent.LOG_TRUNCATED))
    assert lost(made) == [(RU, 5, 6), (RC, 5, 6)], "what lies below the cut is as it was"
    made.feed(shown(RU, 2, [], 5, 2_000, event=ReadEvent.LOG_TRUNCATED))
    assert lost(made) == []


def test_it_ends_once_all_logs_begin_above() -> None:
    made = uncompacted()
    made.feed(*read((4, 6), 7))
    for broker in BROKERS:
        made.feed(shown(RU, broker, [], 7, 2_000, log_start_offset=6))
    assert lost(made) == []


@pytest.mark.parametrize(("end", "found"), [(NEVER, []), (6, [(7, 8)])])
def test_what_is_deferred_is_not_said_to_be_lost(end: int, found: list[tuple[int, int]]) -> None:
    state = PartitionState.from_bytes(uncompacted().state)
    state.deferred = np.array([(RU, 4, end)], DEFERRED)
    state.content = np.zeros(1, state.content.dtype)
    state.content["offset"] = 6
    holes.note(state, 8)
    made = [(int(one["start"]), int(one["end"])) for one in state.unread if one["view"] == RU]
    assert made == found


@pytest.mark.parametrize("seed", range(6))
def test_by_sums_the_same_is_lost_as_by_rows(seed: int) -> None:
    draw = random.Random(seed)
    gone = set(draw.sample(range(64), 2))
    whole = log_of(draw, 0.0)
    held = [row for row in whole if row["offset"] not in gone]
    logs = dict.fromkeys(BROKERS, held)
    ways = BothWays()
    ways.by_rows, ways.by_blocks = never_compacted(), never_compacted()
    ways.feed(logs, dict.fromkeys(ways.stood, 0), tick(500, everywhere(0)))
    for end in (16, 32, 48, 64):
        ways.at += 100
        ways.feed(logs, dict.fromkeys(ways.stood, end), tick(ways.at - 1, everywhere(end)))
    marked = [one for one in ways.by_rows.unread if one["view"] == RU]
    assert {offset for one in marked for offset in range(one["start"], one["end"])} == gone
    assert ways.counts["spared"] > 0, "ranges that are whole need no rows"
