"""Tombstones are judged between those that go on being read, while a replica is away or frozen (I3)."""

from __future__ import annotations

from typing import Any

import pytest

from parallax.compare.early import follow_leader
from parallax.compare.rules.arrays import table
from parallax.compare.state import EARLY, PENDING, TOMBSTONE
from parallax.model import FindingKind, Outcome
from tests.unit.compare.states import left_behind, state

from .history import RC, Comparison, Row, both, commit, everywhere, filler, record, tick

OLD, DELETED = record(0, "k", "v"), record(1, "k", None)
END = 9
RESURRECTED = [(FindingKind.DELETED_RECORD_RESURRECTED, 2)]


@pytest.fixture
def comparison() -> Comparison:
    """All have shown the value, and 3 has gone away since."""
    made = Comparison()
    made.feed(tick(0, everywhere(1)), *(both(b, [OLD], 1) for b in (1, 2, 3)))
    return made


def progress(at: int, *, down: tuple[int, ...] = (3,), stable: int = END, leader: int = 1, **more: Any) -> list[Row]:
    rows = tick(at, {1: stable, 2: stable, 3: 1}, {1: stable, 2: stable, 3: stable}, down=down, **more)
    return [row | ({"leader": leader} if row["reachable"] else {}) for row in rows]


def looked(comparison: Comparison, shown: list[Row], lacking: list[Row], **more: Any) -> None:
    comparison.feed(progress(1_000, **more), both(1, shown, END, at=1_500), both(2, lacking, END, at=1_500))
    comparison.feed(progress(2_000, **more))
    comparison.feed(progress(3_000, **more))


def test_one_that_is_away_does_not_keep_the_others_from_being_compared(comparison: Comparison) -> None:
    looked(comparison, [DELETED, filler(5)], [filler(5)])
    assert comparison.kinds == RESURRECTED
    assert comparison.suspects[0].accusation.observations["record_shown_by"] == [1]


def test_nor_does_one_whose_last_stable_offset_stands_still(comparison: Comparison) -> None:
    looked(comparison, [DELETED, filler(5)], [filler(5)], down=())
    assert comparison.kinds == RESURRECTED


def test_what_was_judged_early_is_not_raised_again_as_the_other_returns(comparison: Comparison) -> None:
    looked(comparison, [DELETED, filler(5)], [filler(5)])
    comparison.feed(progress(4_000, down=()), both(3, [filler(5)], END, at=4_500))
    for at in (5_000, 6_000, 7_000):
        comparison.feed(tick(at, everywhere(END)))
    assert comparison.kinds == [*RESURRECTED, (FindingKind.DELETED_RECORD_RESURRECTED, 3)]


def test_a_tombstone_whose_commit_lies_directly_behind_it_is_judged_as_well(comparison: Comparison) -> None:
    deleted = record(1, "k", None, pid=7, outcome=Outcome.COMMITTED)
    looked(comparison, [deleted, commit(2, 7), filler(5)], [filler(5)])
    assert (FindingKind.DELETED_RECORD_RESURRECTED, 2) in comparison.kinds


@pytest.mark.parametrize(
    ("shown", "lacking", "more"),
    [
        pytest.param([record(1, "k", "w")], [], {}, id="a value, which 2 may have deleted"),
        pytest.param(
            [record(1, "k", None, pid=7, outcome=Outcome.COMMITTED), commit(3, 7)], [], {}, id="not surely committed"
        ),
        pytest.param([DELETED], [record(4, "k", "w")], {}, id="a newer value explains it"),
        pytest.param([DELETED], [DELETED], {}, id="none lacks it"),
        pytest.param([DELETED], [], {"stable": END + 1}, id="what superseded it may lie beyond"),
        pytest.param([DELETED], [], {"leader": 3}, id="the leader does not say how far it is"),
        pytest.param([DELETED], [], {"leader": -1}, id="nobody leads"),
    ],
)
def test_all_else_waits_for_every_replica(
    comparison: Comparison, shown: list[Row], lacking: list[Row], more: dict[str, Any]
) -> None:
    looked(comparison, [*shown, filler(5)], [*lacking, filler(5)], **more)
    assert comparison.suspects == []


def test_where_the_leader_goes_away_what_waits_is_judged_once_one_leads_that_tells(comparison: Comparison) -> None:
    comparison.feed(progress(1_000), both(1, [DELETED, filler(5)], END, at=1_500), both(2, [filler(5)], END, at=1_500))
    for at in (2_000, 3_000):
        comparison.feed(progress(at, leader=3))
    assert comparison.suspects == []
    for at in (4_000, 5_000, 6_000):
        comparison.feed(progress(at, leader=2))
    assert comparison.kinds == RESURRECTED


def test_one_that_joins_finds_what_was_to_be_judged_early_still_pending(comparison: Comparison) -> None:
    comparison.feed(progress(1_000), both(1, [DELETED, filler(5)], END, at=1_500), both(2, [filler(5)], END, at=1_500))
    comparison.feed(progress(1_600))
    joined = [row | {"replicas": (1, 2, 3, 4)} for row in progress(1_700)]
    comparison.feed(joined)
    assert comparison.last is not None
    state = comparison.last.state
    assert (len(state.candidates), left_behind(state)) == (0, [0, 0])
    assert 1 in state.pending["offset"].tolist()


@pytest.mark.parametrize(("shown", "read", "accused"), [([], 1, [2]), ([filler(5)], END, [2, 3])])
def test_one_that_answers_again_is_judged_once_it_was_read_past_the_tombstone(
    comparison: Comparison, shown: list[Row], read: int, accused: list[int]
) -> None:
    comparison.feed(progress(1_000), both(1, [DELETED, filler(5)], END, at=1_500), both(2, [filler(5)], END, at=1_500))
    comparison.feed(tick(2_000, everywhere(END)), both(3, shown, read, at=2_100))
    for at in (3_000, 4_000):
        comparison.feed(tick(at, everywhere(END)))
    assert sorted(broker for _, broker in comparison.kinds) == accused


def test_pending_differences_are_judged_early_only_if_one_replica_alone_is_behind() -> None:
    made = state(1, 2, 3, reachable=[True, True, False])
    made.brokers["position"][:, RC] = [9, 8, 4]
    # At 2 lies one whose outcome is in dispute; 1 alone has passed what lies at 8.
    made.pending = table(PENDING, 4, offset=[2, 4, 7, 8], producer_id=-1, visible=0b001, flags=TOMBSTONE)
    found = follow_leader(made, 1, 4)
    assert found["offset"].tolist() == [4, 7]
    assert (made.pending["flags"] & EARLY != 0).tolist() == [False, True, True, False]
    assert len(follow_leader(made, 1, 4)) == 0, "each once"
