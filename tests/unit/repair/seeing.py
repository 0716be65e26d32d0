"""What a repair by copies sees of the replicas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parallax.repair.claims import Claim
from parallax.repair.layout import Layout
from parallax.repair.seen import Look
from tests.unit.repair.looks import look, replica

GIB = 1 << 30
LAYOUT = Layout(free={1: 9 * GIB, 2: 9 * GIB, 3: 9 * GIB, 4: 8 * GIB}, sizes=dict.fromkeys((1, 2, 3), GIB), min_isr=2)
WRONG = Claim("f1", frozenset({3}), frozenset({1, 2}), (17,))


def seen(*some: Claim, layout: Layout | None = LAYOUT, **fields: Any) -> Look:
    """A partition of brokers 3, 1 and 2, led by 3, with no open transaction."""
    base = look({b: replica() for b in (1, 2, 3)}, leader=3, assigned=(3, 1, 2), findings=frozenset({"f1"}))
    made = replace(base, **({"transactions": (), "claims": some or (WRONG,), "layout": layout} | fields))
    return made if made.shown else replace(made, shown={broker: {} for broker in made.assigned})
