"""Findings made by hand about replicas that show a deleted value, where nobody has to find them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from parallax.findings.finding import Finding
from tests.builders.findings import evidence, finding


def accused(
    topic: str, broker: int, leader: int, assigned: Sequence[int], also: Collection[int] = (), offset: int = 0
) -> Finding:
    """A finding that a replica, and some more, show a deleted value; all others were read whole and show none."""
    wrong = {broker, *also}
    sides = {"no value": sorted(set(assigned) - wrong), f"value at offset {offset}": sorted(wrong)}
    return finding(
        "a" * 32,
        topic=topic,
        broker=broker,
        offset=offset,
        key_hash_hi=0,
        key_hash_lo=1,
        evidence=evidence(sides, sorted(assigned), leader, assigned=list(assigned)),
        exposed=leader == broker,
    )
