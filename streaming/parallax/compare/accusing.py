"""What accusations have in common: brokers and outcomes by name, the sides of a difference, and how far was judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parallax.compare.observations import ABORT, COMMIT
from parallax.compare.rules.arrays import slots_of
from parallax.compare.state import PartitionState

RAISED_MISSING, RAISED_TURNED, SHOWN_WRONG = 1, 2, 4
"""Bits of an interval's ``told``: what was raised of it; its replica was read to show a wrong outcome."""
OUTCOME_NAME = {COMMIT: "committed", ABORT: "aborted"}
MARKER_NAME = {COMMIT: "commit", ABORT: "abort"}


def broker_of(state: PartitionState, slot: int) -> int:
    """The id of the broker in a slot."""
    return int(state.brokers["broker"][slot])


def named(state: PartitionState, mask: int, value: str) -> dict[str, str]:
    """A value for each broker of a mask, by the id of the broker as text."""
    return {str(broker_of(state, slot)): value for slot in slots_of(mask)}


def without_direction(sides: Mapping[str, list[int]], pivot: str | None = None) -> dict[str, Any]:
    """The evidence of a difference that accuses nobody: who shows what, and who is to be asked last.

    Args:
        sides: by what they show, the ids of the brokers; one without brokers is left out.
        pivot: the side of which one is asked last; the first one if not given.
    """
    shown = {text: sorted(brokers) for text, brokers in sorted(sides.items()) if brokers}
    return {"sides": shown, "pivot": min(shown[pivot] if pivot in shown else next(iter(shown.values())))}


def brokers_of(state: PartitionState, mask: int) -> list[int]:
    """The ids of the brokers of a mask, in order."""
    return sorted(broker_of(state, slot) for slot in slots_of(mask))


def floor_of(state: PartitionState, view: int) -> int:
    """The offset of a view below which rows are judged already or cannot be."""
    return int(state.partition["floor"][0, view])
