"""Chunks of a view, as the audit reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parallax.audit.packing import pack
from parallax.compare.observations import Observations
from tests.unit.compare.history import (
    Row,
)

Reading = list[Row]
"""Rows of one reader, in offset order; a position row ends them."""


def packed(rows: Sequence[Row]) -> bytes:
    return pack(Observations.of("t", 0, rows))


def chunks(readings: Iterable[Reading], size: int) -> list[tuple[int, bytes]]:
    """Blobs of each reader, sorted as Spark sorts them."""
    made = []
    for reading in readings:
        for view, broker in dict.fromkeys((int(r["view"]), r["broker"]) for r in reading):
            mine = [r for r in reading if (int(r["view"]), r["broker"]) == (view, broker)]
            made += [(mine[i]["offset"], packed(mine[i : i + size])) for i in range(0, len(mine), size)]
    return sorted(made, key=lambda chunk: chunk[0])
