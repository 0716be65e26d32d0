"""Histories that are looked at between their steps: see the ``[[play]]`` in the files of ``histories/``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parallax.findings.finding import Finding, sides_of
from parallax.model import FindingStatus
from parallax.sides import as_document
from tests.simulation.history import Profile
from tests.simulation.monitor import RECHECK_S
from tests.simulation.ops import ROUND, STANDARD, looked_at_again, parse
from tests.simulation.world import World

FOLDER = Path(__file__).with_name("histories")


@dataclass(frozen=True)
class Step:
    """Operations, then looks at what stands, then what must be true.

    Findings are said as ``KIND BROKER``, with the status where it is not ``confirmed``; the broker is -1 where nobody
    is accused.

    Attributes:
        rechecks: how often all is asked about again, at one time of the cluster.
        looks: how often after that, each time a little later.
        stands: the findings that stand; None where that is not looked at.
        shows: who shows what, by the one that stands.
        last: the last event of each finding, with its status.
    """

    ops: str = ""
    rechecks: int = 0
    looks: int = 0
    stands: list[str] | None = None
    shows: Mapping[str, list[int]] | None = None
    last: list[str] | None = None

    def play(self, world: World) -> None:
        for op in parse(self.ops) if self.ops else ():
            world.apply(op)
        for _ in range(self.rechecks):
            world.monitor.clock += RECHECK_S
            world.apply(ROUND)
        looked_at_again(world, self.looks)
        if self.stands is not None:
            assert standing(world, self.stands) == self.stands
        if self.shows is not None:
            (one,) = world.monitor.lifecycle.standing()
            assert as_document(sides_of(one)) == self.shows
        if self.last is not None:
            assert last(world) == self.last


@dataclass(frozen=True)
class Play:
    """What must hold, and the steps in which it is looked at.

    Attributes:
        about: what happens in it.
        profile: in which it is not the standard one.
        rests: whether the cluster comes to rest at the end, so that all that is wrong must have been found.
        settled: the findings that stand then.
        confirmed: each finding that was confirmed, with its offset.
    """

    holds: str
    step: list[Step]
    about: str = ""
    profile: Mapping[str, Any] = field(default_factory=dict)
    rests: bool = True
    settled: list[str] | None = None
    confirmed: list[str] | None = None

    def play(self) -> None:
        world = World(_profile(self.profile))
        for step in self.step:
            step.play(world)
        if self.rests:
            world.settle()
        if self.settled is not None:
            assert standing(world, self.settled) == self.settled
        if self.confirmed is not None:
            assert [f"{f.kind} {f.broker} at {f.offset}" for f in world.monitor.confirmed] == self.confirmed


def _profile(changed: Mapping[str, Any]) -> Profile:
    return replace(STANDARD, **{name: tuple(v) if isinstance(v, list) else v for name, v in changed.items()})


def standing(world: World, wanted: Iterable[str]) -> list[str]:
    """The findings that stand, with their offsets where one is wanted."""
    with_offsets = any(" at " in one for one in wanted)
    return [_said(event, with_offset=with_offsets) for event in world.monitor.lifecycle.standing()]


def _said(event: Finding, *, with_offset: bool) -> str:
    at = f" at {event.offset}" if with_offset else ""
    status = "" if event.status is FindingStatus.CONFIRMED else f" {event.status}"
    return f"{event.kind} {event.broker}{at}{status}"


def last(world: World) -> list[str]:
    """Status, kind and broker of the last event of each finding."""
    events = {e.finding_id: e for e in world.monitor.events if e.status is not FindingStatus.DISMISSED}
    return sorted({f"{e.status} {e.kind} {e.broker}" for e in events.values()})


def _of(path: Path) -> Iterator[Play]:
    for one in tomllib.loads(path.read_text()).get("play", []):
        yield Play(**{**one, "step": [Step(**step) for step in one["step"]]})


ALL = {play.holds: play for path in sorted(FOLDER.glob("*.toml")) for play in _of(path)}
