"""A rule that is broken on purpose is noticed: the simulator has teeth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parallax.compare.rules import latest, markers, outcome, progress
from parallax.compare.state import CANDIDATE
from parallax.findings import decide
from tests.simulation.history import generate, profile
from tests.simulation.world import World

MOST = 300
NO_CANDIDATES = np.zeros(0, CANDIDATE)

BROKEN: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "missed markers are overlooked": (markers, "find_missed", lambda intervals, *_: intervals),
    "unlike outcomes are overlooked": (outcome, "open_disputes", lambda pending: pending["flags"] < 0),
    "absent records are overlooked": (latest, "absences", lambda released, *_, **__: NO_CANDIDATES),
    "frozen replicas are overlooked": (progress, "observe", lambda *_: []),
    "a value that is newer elsewhere is ignored": (decide, "_accused_shows", lambda case, _: case.dismissed("")),
}


def noticed() -> int | None:
    for seed in range(MOST):
        p = profile(seed, healthy=False)
        try:
            World(p).run(generate(p))
        except Exception:  # noqa: BLE001 - any failure is a notice
            return seed
    return None


@pytest.mark.parametrize("name", BROKEN)
def test_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, broken = BROKEN[name]
    monkeypatch.setattr(module, function, broken)
    assert noticed() is not None
