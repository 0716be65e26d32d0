"""Observations, packed for the shuffle and unpacked again."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from parallax.audit.packing import PACKED_AT, pack, pack_progress, pack_readers, unpack
from parallax.compare.batches import VIEW_COLUMNS
from parallax.compare.observations import Observations
from tests.unit.compare.arrow import as_views, progress_batch, progress_row
from tests.unit.compare.history import both, everywhere, record, tick


def same(left: Observations, right: Observations) -> bool:
    return all(
        np.array_equal(getattr(getattr(left, part), f.name), getattr(getattr(right, part), f.name))
        for part in ("rows", "progress", "open_transactions", "replica_sets")
        for f in fields(getattr(left, part))
    )


def test_observations_survive_packing() -> None:
    rows = [*both(1, [record(0, "K", "V"), record(1, None, None)], 2), *tick(5, everywhere(2), open={1: [(9, 0)]})]
    observed = Observations.of("t", 3, rows)
    assert same(unpack("t", 3, pack(observed)), observed)


def test_bytes_that_were_not_packed_are_refused() -> None:
    with pytest.raises(ValueError, match="packed observations"):
        unpack("t", 0, pack(Observations("t", 0)) + b"x")


def test_rows_of_partition_and_reader_are_packed_together_with_the_offset_that_they_begin_at() -> None:
    readers = (("a", 0, 1, 0), ("a", 1, 1, 0), ("a", 0, 0, 1), ("a", 0, 1, 1), ("a", 0, 0, 1), ("b", 0, 1, 0))
    rows = [
        dict.fromkeys(VIEW_COLUMNS, 0)
        | {"topic": topic, "partition": partition, "view": view, "broker": broker, "offset": 10 * n + at}
        | {"event": None, "topic_id": None}
        for n in (1, 2)
        for at, (topic, partition, view, broker) in enumerate(readers)
    ]
    (batch,) = pack_readers([as_views(rows[:0]), as_views(rows)])
    assert batch.schema == PACKED_AT
    made = {}
    for r in batch.to_pylist():
        mine = unpack(r["topic"], r["partition"], r["packed"]).rows
        (view,), (broker,) = set(mine.view.tolist()), set(mine.broker.tolist())
        made[r["topic"], r["partition"], view, broker] = (r["at"], mine.offset.tolist())
    assert len(made) == batch.num_rows == 5
    assert made == {
        ("a", 0, 1, 0): (10, [10, 20]),
        ("a", 1, 1, 0): (11, [11, 21]),
        ("a", 0, 0, 1): (12, [12, 14, 22, 24]),
        ("a", 0, 1, 1): (13, [13, 23]),
        ("b", 0, 1, 0): (15, [15, 25]),
    }


def test_progress_is_packed_by_partition() -> None:
    rows = [progress_row("t", 0, 1), progress_row("t", 1, 1), progress_row("t", 0, 2)]
    batches = list(pack_progress([progress_batch(rows), progress_batch([])]))
    packed = {(r["topic"], r["partition"]): (r["at"], r["packed"]) for b in batches for r in b.to_pylist()}
    assert {place: at for place, (at, _) in packed.items()} == {("t", 0): 0, ("t", 1): 0}
    assert unpack("t", 0, packed["t", 0][1]).progress.broker.tolist() == [1, 2]
