"""The step of many partitions at once, given one partition of a history beside others that look alike."""

from __future__ import annotations

import numpy as np

from parallax.compare.blobs import Blobs
from parallax.compare.gathered import Gathered
from parallax.compare.joint import step_quiet
from parallax.compare.observations import Observations
from parallax.compare.results import from_columns, to_columns
from parallax.compare.state import PartitionState
from parallax.compare.suspect import Coverage
from parallax.config import CompareSettings
from parallax.model import TopicPartition


def taken_in(state: bytes, seen: Observations, settings: CompareSettings, now_ms: int) -> tuple[bytes, Coverage] | None:
    """What becomes of a partition that is taken in together with others; None where it is not quiet.

    Its twin and one that is fresh are taken in by the same call, before it and behind it.
    """
    empty = Observations.of("between", 0, [])
    parts = [seen, empty, seen]
    places = [TopicPartition(name, n) for n, name in enumerate(("twin", "between", seen.topic))]
    gathered = Gathered.concat(
        [Gathered([place], Gathered.one(o).tables, Gathered.one(o).of) for place, o in zip(places, parts, strict=True)],
        places,
    )
    head = len(PartitionState.from_bytes(state).head_bytes())
    heads = Blobs.of([state[:head], b"", state[:head]])
    unmatched = Blobs.of([state[head:], b"", state[head:]])
    may = np.ones(len(parts), np.bool_)
    quiet = step_quiet(heads, unmatched, may, gathered.ordered(), settings)
    assert quiet.at.tolist() in ([], [0, 2]), "twins that are not both quiet"
    if not len(quiet.at):
        return None
    twin, mine = (quiet.heads.piece(n) + quiet.unmatched.piece(n) for n in range(2))
    assert twin == mine, "twins that are not alike afterwards"
    *_, coverage = from_columns(to_columns(places[::2], quiet, now_ms))
    return mine, Coverage(**{f: getattr(coverage, f) for f in Coverage.__slots__} | {"partition": seen.partition})
