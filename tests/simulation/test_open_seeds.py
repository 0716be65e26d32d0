"""The list of histories that break a property is true: a line whose history holds is to be deleted."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parallax.findings.incidents import ALONE
from tests.simulation.history import with_kills
from tests.simulation.kinds import generate, profile
from tests.simulation.world import Violation, World

OPEN = tomllib.loads(Path(__file__).with_name("open_seeds.toml").read_text())["open"]


def test_an_open_seed_breaks_the_property_that_its_line_names() -> None:
    for line in OPEN:
        with pytest.raises(Violation, match=line["breaks"]):
            play(line)


def test_a_line_whose_history_holds_is_noticed() -> None:
    with pytest.raises(pytest.fail.Exception), pytest.raises(Violation):
        play({"seed": 3290007616, "alone": 0, "kills": 8})


def play(line: dict[str, Any]) -> None:
    p = replace(profile(line["seed"], healthy=False), alone=line.get("alone", ALONE), kills=line.get("kills", 0))
    World(p).run(with_kills(p, generate(p)))
