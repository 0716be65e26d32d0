"""Who is said to be safe to lead, and who may be restarted, is held against the oracle: the property has teeth."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from parallax.findings import leading
from parallax.findings.leading import SAFE, Fitness, May
from parallax.repair import leading as doubts
from parallax.repair import rolling
from tests.simulation import kinds, leads
from tests.simulation.history import Op, Profile
from tests.simulation.leads import NOBODY, Controller
from tests.simulation.teeth import histories
from tests.simulation.world import Violation, World, run


def whoever_is_not_accused(_: str, shown: Any, __: Any, broker: int) -> Fitness:
    return SAFE if broker != shown.finding.broker else Fitness(May.UNSAFE, ("it is accused",))


BROKEN: dict[str, tuple[Any, str, Callable[..., Any], str, int]] = {
    "who is not accused is taken for right": (leading, "_by_accusing", whoever_is_not_accused, "advice", 0),
    "what all share is forgotten": (leading, "_shared", lambda *_: {}, leads.SAFE, 59),
    "a difference without direction is forgotten": (leading, "unknown", lambda *_: SAFE, "advice", 0),
    "what was not compared is forgotten": (doubts, "uncompared", lambda _: [], leads.SAFE, 30),
    "the preferred leader is forgotten": (rolling, "_by_preference", lambda *_: SAFE, leads.RESTART, 25),
    "a second failure is forgotten": (rolling, "_next", lambda *_: [], leads.RESTART, 0),
    "who leads meanwhile is forgotten": (rolling, "_by_election", lambda *_: SAFE, leads.RESTART, 0),
    "producers that are refused are forgotten": (rolling, "_by_producers", lambda *_: SAFE, leads.RESTART, 16),
}
"""What is broken, and how; which property notices it first, and by which history at the latest, of those in order."""


@pytest.mark.parametrize("name", BROKEN)
def test_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, broken, what, first = BROKEN[name]
    ran: list[tuple[Profile, list[Op]]] = []
    with monkeypatch.context() as patched:
        patched.setattr(module, function, broken)
        with pytest.raises(Violation, match=f"^{what} "):
            run_from(first, ran)
    p, ops = ran[-1]
    World(p).run(ops)  # It holds where nothing is broken.


def run_from(first: int, ran: list[tuple[Profile, list[Op]]]) -> None:
    for one in itertools.islice(histories(), first, None):
        ran.append(one)
        World(one[0]).run(one[1])


def test_all_of_it_is_said() -> None:
    counts = Counter[str]()
    for seed in (*range(6), *range(kinds.FIRST, kinds.FIRST + 6)):
        counts += run(seed, healthy=False).judge.said_to_lead
    for may in May:
        assert counts[f"ran replicas that are called {may} to lead"] > 3
        assert counts[f"ran restarts that are called {may}"] > 30


def controller(leader: int = 1, *isr: int, **other: Any) -> Controller:
    return Controller((1, 2, 3), leader, set(isr), **{"elr": None, "min_isr": 1, "may_be_unclean": False, **other})


@pytest.mark.parametrize(
    ("partition", "led"),
    [
        (controller(1, 1, 2, 3), [2, 2, 2, 1]),
        (controller(1, 1, 3), [3, 3, 3, 1]),
        (controller(3, 1, 2, 3), [3, 3, 3, 1]),
        (controller(1, 1), [NOBODY, NOBODY, 1, 1]),
        (controller(1, 1, may_be_unclean=True), [2, 2, 2, 1]),
        (controller(1, 1, elr={3}, min_isr=2), [3, 3, 3, 1]),
        (controller(1, 1, elr=set()), [NOBODY, NOBODY, 1, 1]),
    ],
    ids=[
        "the next in sync",
        "the next is not in sync",
        "another leads on, until it is back",
        "it alone is in sync",
        "it alone, and elections may be unclean",
        "another is eligible",
        "nobody is eligible",
    ],
)
def test_the_model_of_the_controller_elects_as_kraft_does(partition: Controller, led: list[int]) -> None:
    found = []
    for step in (lambda: partition.stop(1), partition.rebalance, lambda: partition.start(1), partition.rebalance):
        step()
        found.append(partition.leader)
    assert found == led
