"""A partition whose step fails now and then accuses nobody wrongly, and takes nothing for compared that was not."""

from __future__ import annotations

import random
from typing import Any
from zlib import crc32

import pytest

from parallax.compare.anew import begin_anew
from parallax.compare.observations import Observations
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.config import CompareSettings
from tests.simulation import kinds, monitor, properties
from tests.simulation.chunks import CHUNK, name
from tests.simulation.kinds import generate, profile
from tests.simulation.monitor import Monitor
from tests.simulation.readers import Row
from tests.simulation.together import taken_in
from tests.simulation.world import Violation, World

SHARE = 0.05
"""Of the steps that fail; every other one of a state that cannot even be read."""


class Failing:
    """Decides by what a step is given, so that it fails again where it is run again."""

    def __init__(self) -> None:
        self.failed = 0

    def fails(self, state: bytes, seen: Observations) -> random.Random | None:
        draw = random.Random(crc32(state + seen.rows.to_bytes() + seen.progress.to_bytes()))
        return draw if draw.random() < SHARE else None

    def step(
        self, state: PartitionState, seen: Observations, settings: CompareSettings, now_ms: int, **options: Any
    ) -> StepResult:
        draw = self.fails(state.to_bytes(), seen)
        if draw is None:
            return step(state, seen, settings, now_ms, **options)
        self.failed += 1
        known = None if draw.random() < 0.5 else state
        return begin_anew(known, seen, now_ms, settings.grace_ms, ValueError("a fault"))

    def taken_in(self, state: bytes, seen: Observations, *args: Any, **options: Any) -> Any:
        return None if self.fails(state, seen) else taken_in(state, seen, *args, **options)


def begins(seen: Monitor) -> bool:
    """Whether the partition has begun anew, and not every reader has been met again."""
    return min(seen.coverage.compared_up_to) < 0 and "blind_to" in seen.__dict__


def forgetful(take: Any) -> Any:
    """Promise nothing of what was read before the partition began anew and all of its readers were met again."""

    def taking(self: Monitor, rows: list[Row], crash: bool) -> None:
        take(self, rows, crash)
        # A reader that was taken back has been further.
        peak = max([self.__dict__.get("peak", 0), *self.positions.values()])
        self.__dict__["peak"] = peak = max([peak, *(row["offset"] for row in rows if "view" in row)])
        if self.coverage.error or any(span.end < 0 for span in self.coverage.deferred):
            floor = int(PartitionState.from_bytes(self.state).partition["floor"].max())
            self.__dict__["blind_to"] = max(peak, floor)
        blind_to = self.__dict__.get("blind_to", 0)
        self.shown.known_from = max(self.shown.known_from, blind_to)
        self.shown.taken = [t for t in self.shown.taken if t.read_to > blind_to]

    return taking


def lenient(check: Any) -> Any:
    """An audit ends what began anew, though a stream without faults would have needed none."""

    def checking(self: World) -> None:
        self.judge.broken = [broken for broken in self.judge.broken if broken.name != properties.NEEDLESS]
        check(self)

    return checking


def unless_it_begins(check: Any) -> Any:
    """A reader at rest is met again when it repeats where it is, which takes minutes."""
    return lambda self: None if begins(self.monitor) else check(self)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    made = Failing()
    monkeypatch.setattr(monitor, "step", made.step)
    monkeypatch.setattr(monitor, "taken_in", made.taken_in)
    monkeypatch.setattr(Monitor, "_step", forgetful(Monitor._step))
    monkeypatch.setattr(World, "_check_properties", lenient(World._check_properties))
    monkeypatch.setattr(World, "_check_coverage", unless_it_begins(World._check_coverage))
    return made


@pytest.mark.parametrize("first", [0, kinds.FIRST], ids=name)
@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "faulty"])
def test_the_properties_hold_where_steps_fail(first: int, healthy: bool, failing: Failing) -> None:
    went_on = 0
    for seed in range(first, first + CHUNK // 2):
        p = profile(seed, healthy)
        world = World(p)
        try:
            world.run(generate(p))
        except Violation as violation:
            pytest.fail(f"seed {seed}: {violation}", pytrace=False)
        went_on += not begins(world.monitor)
    assert failing.failed > CHUNK // 10
    assert went_on > CHUNK // 4
