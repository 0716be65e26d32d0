"""End markers in histories by chance: none loses a right outcome, or ends another transaction of its producer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from parallax.model import UNKNOWN
from parallax.repair.seen import Log, Look, Transaction
from parallax.replica.types import ProducerState
from tests.unit.repair.looks import HANGS
from tests.unit.repair.marker_histories import History

MANY = pytest.param(500_000, 60_000, marks=[pytest.mark.release, pytest.mark.timeout(1800)])


@pytest.mark.parametrize(("first", "count"), [(0, 1_000), MANY])
def test_no_marker_loses_an_outcome_or_ends_another_transaction_and_what_is_over_is_right(
    first: int, count: int
) -> None:
    ended, raced = Counter[str](), 0
    for seed in range(first, first + count):
        history = History(seed).play()
        assert history.cluster.errors == [], f"seed {seed}"
        assert history.is_raced <= history.says_so, f"seed {seed}: a marker came late, and nobody was told"
        wrote = any(one.is_ours for one in history.cluster.log)
        assert wrote or not history.says_so, f"seed {seed}: it wrote no marker, and says what that has ended"
        raced += history.is_raced
        ended[history.ended] += 1
    assert ended["over"] > count // 3, ended
    assert ended["no plan"] > count // 20, ended
    assert raced > count // 100, "a producer that begins just before the marker is among them"


def blind_to_newer(look: Look) -> Look:
    """What a repair would see if it asked for no other transaction of the producer, open or counted to the first."""
    starts = [s.current_transaction_start_offset for r in look.replicas.values() for s in r.producers]
    first = min((start for start in starts if start != UNKNOWN), default=UNKNOWN)

    def state(one: ProducerState) -> ProducerState:
        is_first = one.current_transaction_start_offset == first
        return one if is_first else replace(one, current_transaction_start_offset=UNKNOWN)

    def log(one: Transaction, broker: int) -> Log:
        whole = one.logs[broker]
        return replace(whole, rows=whole.rows[:1]) if look.replicas[broker].is_open_from(one.start_offset) else whole

    replicas = {b: replace(one, producers=tuple(map(state, one.producers))) for b, one in look.replicas.items()}
    transactions = (replace(one, logs={b: log(one, b) for b in one.logs}) for one in look.transactions)
    return replace(look, replicas=replicas, transactions=tuple(transactions))


def blind_to_coordinators(look: Look) -> Look:
    """What it would see if it took each open transaction for one that hangs."""
    return replace(look, transactions=tuple(replace(one, verdict=HANGS) for one in look.transactions))


@pytest.mark.parametrize("change", [blind_to_newer, blind_to_coordinators])
def test_a_precondition_that_is_left_out_is_noticed_by_these_histories(change: Callable[[Look], Look]) -> None:
    errors = [one for seed in range(1_000) for one in History(seed, change).play().cluster.errors]
    assert any("the marker ends transaction" in one for one in errors)
