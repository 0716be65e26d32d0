"""Runs a history in which something is compared in two ways that must say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from parallax.findings.incidents import ALONE
from tests.simulation import kinds
from tests.simulation.history import with_kills
from tests.simulation.monitor import Monitor
from tests.simulation.world import Violation, World


class Differs(Violation):
    """The two ways have not said the same."""


@dataclass
class Comparing(Monitor):
    """A monitor that compares in two ways, and counts what became of that."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.judged: Counter[str] = Counter()


@dataclass
class BothWays(World):
    """A history that is compared in two ways; ``watching`` is a `Comparing`.

    Attributes:
        option: by which ``python -m tests.simulation`` runs it, without the dashes.
    """

    option: ClassVar[str]

    def tally(self) -> Counter[str]:
        """What was counted of the history, and of the comparison in two ways."""
        assert isinstance(self.monitor, Comparing)
        return super().tally() + self.monitor.judged


Kind = TypeVar("Kind", bound=BothWays)


def both_ways(
    kind: type[Kind], seed: int, healthy: bool, alone: int = ALONE, kills: int = 0, properties: bool = True
) -> Kind:
    """Run the history of a seed in a world that compares in two ways.

    Args:
        kind: of the world.
        seed: of the history.
        healthy: nothing befalls it that makes replicas diverge.
        alone: see `Profile.alone`.
        kills: see `Profile.kills`.
        properties: every property has to hold; else a history ends where one does not, as far as which it is compared.

    Raises:
        Differs: the two have not said the same.
        Violation: a property does not hold.
    """
    p = replace(kinds.profile(seed, healthy), alone=alone, kills=kills)
    world = kind(p)
    try:
        world.run(with_kills(p, kinds.generate(p)))
    except Exception as error:
        if not properties and isinstance(error, Violation) and not isinstance(error, Differs):
            assert isinstance(world.monitor, Comparing)
            world.monitor.judged["histories: in which a property did not hold"] += 1
            return world
        mode = "healthy" if healthy else "faulty"
        command = f"python -m tests.simulation --{kind.option} --mode {mode} --seed {seed} --count 1 --alone {alone}"
        kind_of = Differs if isinstance(error, Differs) else Violation
        raise kind_of(f"{error}\nreproduce: {command} --kills {kills}") from error
    return world


def judged(kind: type[BothWays], seeds: Iterable[int], *, properties: bool = True) -> Counter[str]:
    """What was counted of the healthy and the faulty history of each seed; arguments and errors as of `both_ways`."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        for healthy in (True, False):
            counts += both_ways(kind, seed, healthy, properties=properties).tally()
    return counts
