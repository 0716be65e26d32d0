"""Runs a history whose every micro-batch is compared in two ways."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tests.simulation import kinds
from tests.simulation.history import with_kills
from tests.simulation.world import Violation, World

Kind = TypeVar("Kind", bound=World)


def held(kind: type[Kind], option: str, seed: int, healthy: bool, alone: int, kills: int) -> Kind:
    """Run the history of a seed in a world that compares in two ways.

    Args:
        kind: of the world.
        option: by which ``python -m tests.simulation`` runs it again.
        seed: of the history.
        healthy: nothing befalls it that makes replicas diverge.
        alone: see `Profile.alone`.
        kills: see `Profile.kills`.

    Raises:
        Violation: the two have said something else, or a property does not hold.
    """
    p = replace(kinds.profile(seed, healthy), alone=alone, kills=kills)
    world = kind(p)
    try:
        world.run(with_kills(p, kinds.generate(p)))
    except Exception as error:
        mode = "healthy" if healthy else "faulty"
        command = f"python -m tests.simulation {option} --mode {mode} --seed {seed} --count 1 --alone {alone}"
        raise Violation(f"{error}\nreproduce: {command} --kills {kills}") from error
    return world
