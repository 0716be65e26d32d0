"""Copies in histories by chance: no run of a plan deletes a right copy, what is over is right, what is undone is back.

And no broker is said to be safe to restart where one would lead that is wrong, and known to be.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from parallax.findings.leading import SAFE, May
from parallax.repair import decide, moving, rolling
from parallax.repair.record import EventKind
from tests.simulation.leads import RESTART
from tests.unit.repair import histories
from tests.unit.repair.histories import History

MANY = pytest.param(500_000, 60_000, marks=[pytest.mark.release, pytest.mark.timeout(1800)])


@pytest.mark.parametrize(("first", "count"), [(0, 400), MANY])
def test_no_history_loses_a_right_copy_and_each_that_is_over_is_right(first: int, count: int) -> None:
    ended, counts = Counter[str](), Counter[str]()
    for seed in range(first, first + count):
        history = History(seed).play()
        assert history.cluster.errors == [], f"seed {seed}"
        ended[history.ended] += 1
        counts += history.counts
    assert ended["over"] > count // 4, ended
    assert ended["closed"] > count // 8, ended
    assert counts["undone"] > count // 10, counts
    assert counts["cancelled too late"] >= count // 6_000, counts
    for may in May:
        assert counts[f"ran restarts that are called {may}"] > count // 4, counts


def test_a_cancellation_that_comes_too_late_deletes_no_right_copy() -> None:
    history = History(701_159).play()
    assert history.counts["cancelled too late"]
    assert history.cluster.errors == []


@pytest.mark.parametrize("seed", [661_822, 662_229])
def test_no_copy_is_deleted_that_alone_holds_what_the_leader_has_lost_since(seed: int) -> None:
    history = History(seed).play()
    assert history.cluster.has_forgotten
    assert history.cluster.errors == []


BROKEN: dict[str, tuple[Any, str, Any, str]] = {
    "what a finding says is forgotten": (histories, "may_lead", lambda some, _: dict.fromkeys(some, SAFE), RESTART),
    "who leads meanwhile is forgotten": (rolling, "_by_election", lambda *_: SAFE, RESTART),
    "the preferred leader is forgotten": (rolling, "_by_preference", lambda *_: SAFE, RESTART),
    "undo closes, and puts nothing back": (
        decide,
        "undone",
        lambda *given: given[-1].event(EventKind.CLOSED),
        "is undone",
    ),
    "what replicas show by now is not compared": (moving, "contradicted", lambda *_: "", "the right copy"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, broken, text = BROKEN[name]
    with monkeypatch.context() as patched:
        patched.setattr(module, function, broken)
        played = (History(seed).play().cluster.errors for seed in range(60))
        assert any(text in error for errors in played for error in errors)
