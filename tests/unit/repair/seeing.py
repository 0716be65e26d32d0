"""What a repair by copies sees of the replicas."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from parallax.model import Outcome
from parallax.repair.atoms import NOTHING, About, Atom, record_text
from parallax.repair.claims import Claim
from parallax.repair.layout import Layout
from parallax.repair.seen import Look, Row
from tests.unit.repair.looks import look, record, replica

GIB = 1 << 30
LAYOUT = Layout(free={1: 9 * GIB, 2: 9 * GIB, 3: 9 * GIB, 4: 8 * GIB}, sizes=dict.fromkeys((1, 2, 3), GIB), min_isr=2)


def claim(name: str, wrong: Collection[int], sources: Collection[int] = (), at: int = 17, **more: Any) -> Claim:
    """A claim by what was shown at one offset: those that are wrong, or ``showing``, show a record there."""
    showing = more.pop("showing", wrong)
    shown = {broker: shows(at) if broker in showing else NOTHING for broker in (1, 2, 3, 4)}
    atoms = tuple(Atom(broker, About.SEEN, (at,), text) for broker, text in shown.items())
    return Claim(name, frozenset(wrong), frozenset(sources), **({"offsets": (at,), "shown": (atoms,)} | more))


def shows(at: int) -> str:
    """What an atom says of the record that wrong replicas show."""
    return record_text(record(at).fingerprint)


WRONG = claim("f1", {3}, {1, 2})


def seen(*some: Claim, layout: Layout | None = LAYOUT, **fields: Any) -> Look:
    """A partition of brokers 3, 1 and 2, led by 3, with no open transaction."""
    base = look({b: replica() for b in (1, 2, 3)}, leader=3, assigned=(3, 1, 2), findings=frozenset({"f1"}))
    made = replace(base, **({"transactions": (), "claims": some or (WRONG,), "layout": layout} | fields))
    return replace(made, shown=fields.get("shown") or shown(made))


def shown(look: Look) -> dict[int, dict[int, Row]]:
    """What the replicas of a look show if all of them show what they did when the findings were judged."""
    found: dict[int, dict[int, Row]] = {broker: {} for broker in look.assigned}
    for atom in (atom for one in look.claims for part in one.shown for atom in part):
        text, _, rest = atom.shows.partition(" [")
        if atom.broker in found and rest:
            at = int(text.split()[-1]) if atom.about is About.KEY else atom.offsets[0]
            found[atom.broker][at] = replace(record(at, Outcome.NONE), fingerprint=rest[:-1])
    return found
