"""Records with their end markers, and what the judge says of how replicas ended them."""

from __future__ import annotations

from parallax.evidence.atoms import End
from parallax.judge.verdicts import About
from tests.unit.evidence.scene import Scene, commit, written

HELD = [written(4), commit(5)]
"""A record and its COMMIT, without room between."""
ROOMY = [written(4), commit(7)]
"""With room between: nobody read 5 and 6."""
MISSED = [written(4), commit(6)]
"""A COMMIT that a replica may have missed."""
AS_ABORTED = {"outcomes": {4: End.ABORT}}
"""Of a look: it shows the record as aborted."""


def said(scene: Scene) -> set[tuple[int | None, frozenset[int], bool]]:
    return {(v.accused, v.sides, v.past) for v in scene.judged.verdicts if v.about is About.OUTCOME}


def accused(broker: int, *, past: bool = False) -> tuple[int, frozenset[int], bool]:
    return broker, frozenset(), past
