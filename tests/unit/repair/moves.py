"""What a repair sees while it moves replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parallax.model import Outcome
from parallax.repair.plan import make
from parallax.repair.seen import Look, Row
from tests.unit.repair.looks import record, replica
from tests.unit.repair.seeing import LAYOUT, seen

SHOWN: Mapping[int, Mapping[int, Row]] = {1: {}, 2: {}, 3: {17: record(17, Outcome.NONE)}}
KNOWN = replace(seen(shown=SHOWN), leader_epoch=9)
PLAN = make(KNOWN, {})


def at(assigned: tuple[int, ...], *holding: int, leader: int = 1, epoch: int = 10, **fields: Any) -> Look:
    """A look while broker 1 leads, and some brokers hold the partition."""
    sizes = dict.fromkeys(holding or assigned, 1 << 30)
    shown = {broker: dict[int, Row]() for broker in assigned} | fields.pop("shown", {})
    layout = replace(LAYOUT, sizes=sizes, **fields.pop("layout", {}))
    base = replace(
        KNOWN,
        assigned=assigned,
        isr=frozenset(assigned),
        leader=leader,
        leader_epoch=epoch,
        replicas={broker: replica() for broker in assigned},
        shown=shown,
        layout=layout,
    )
    return replace(base, **fields)


def still(assigned: tuple[int, ...], *holding: int, **fields: Any) -> Look:
    """The same while broker 3 still shows what is wrong."""
    return at(assigned, *holding, shown={3: OTHER}, **fields)


OTHER = {17: record(17, Outcome.NONE)}
