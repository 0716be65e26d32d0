"""A finding whose copies are to be explained."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from parallax.findings.finding import Finding
from parallax.model import FindingKind
from tests.builders.findings import evidence, finding


def explained(
    sides: dict[str, list[int]], leader: int = 1, replicas: tuple[int, ...] = (1, 2, 3), **fields: Any
) -> Finding:
    """A deleted record that is back on broker 2, as far as ``sides`` says no other."""
    told = {"summary": "It is back.", "evidence": evidence(sides, replicas, leader), "offset": 10, "key": b"k"}
    return finding("a", **(told | fields))


def assigned_as(one: Finding, replicas: list[int]) -> Finding:
    """The finding, with the order of the partition's assignment in its evidence."""
    return replace(one, evidence=json.dumps(json.loads(one.evidence) | {"assigned": replicas}))


PROVEN = {"no value": [1, 3], "value at offset 0": [2]}


def index_wrong(sides: dict[str, list[int]], behind: int, *, held: bool = True, **fields: Any) -> Finding:
    """Broker 2 showed a rolled-back record as committed; the ABORT lies ``behind`` it, and others show that."""
    one = explained(sides, kind=FindingKind.OUTCOME_CONTRADICTS_MARKER, **fields)
    one = replace(one, marker_offset=one.offset + behind)
    evidence = json.loads(one.evidence)
    marker = {"offset": one.marker_offset, "producer_id": one.producer_id, "type": "abort"}
    shown = {str(broker): {"markers": [marker] if broker != 2 or held else []} for broker in (1, 2, 3)}
    recorded = {"outcomes": {"2": "committed"}, "markers": {"2": "abort"}}
    return replace(one, evidence=json.dumps(evidence | {"replicas": shown, "recorded": recorded}))
