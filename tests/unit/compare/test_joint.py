"""Partitions that are taken in together end in the state, and are told of, as if each had been stepped by itself."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from parallax.compare.gathered import Gathered
from parallax.compare.joint import Blobs, step_quiet
from parallax.compare.observations import Observations
from parallax.compare.results import from_columns, to_columns
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.suspect import Coverage
from parallax.config import CompareSettings
from parallax.model import ReadEvent, TopicPartition
from tests.unit.compare.history import (
    BROKERS,
    RC,
    RU,
    SETTINGS,
    Row,
    both,
    commit,
    everywhere,
    record,
    shown,
    tick,
)
import numpy as np


class Both:
    """Partitions that are fed to the step one by one, and together: what is quiet has to come out the same."""

    def __init__(self, settings: CompareSettings = SETTINGS, **options: bool) -> None:
        self.states: dict[str, bytes] = {}
        self.settings, self.options = settings, options
        self.quiet = self.stepped = 0

    def feed(self, batches: dict[str, Iterable[Row]]) -> dict[str, StepResult]:
        """One micro-batch: rows of each partition by its topic; returns what the step made of each."""
        seen = {topic: Observations.of(topic, 0, list(rows)) for topic, rows in batches.items()}
        places = [TopicPartition(topic, 0) for topic in seen]
        before = {topic: PartitionState.from_bytes(self.states.get(topic, b"")) for topic in seen}
        alone = {t: step(before[t], seen[t], self.settings, 9, **self.options) for t in seen}
        gathered = Gathered.concat([Gathered.one(o) for o in seen.values()], places).ordered()
        kept = [self.states.get(topic, b"") for topic in seen]
        cut = [len(before[t].head_bytes()) if state else 0 for t, state in zip(seen, kept, strict=True)]
        heads = Blobs.of([state[:at] for state, at in zip(kept, cut, strict=True)])
        unmatched = Blobs.of([state[at:] for state, at in zip(kept, cut, strict=True)])
        quiet = step_quiet(heads, unmatched, np.ones(len(seen), np.bool_), gathered, self.settings, **self.options)
        covered = from_columns(to_columns([places[n] for n in quiet.at], quiet, 9))
        for k, (n, coverage) in enumerate(zip(quiet.at, covered, strict=True)):
            one = alone[places[n].topic]
            assert same(quiet.heads.piece(k) + quiet.unmatched.piece(k), one.state), places[n]
            assert coverage == one.coverage
            assert one.suspects == []
        self.quiet += len(quiet.at)
        self.stepped += len(seen) - len(quiet.at)
        self.states |= {topic: result.state.to_bytes() for topic, result in alone.items()}
        return alone


def same(packed: bytes, state: PartitionState) -> bool:
    mine = PartitionState.from_bytes(packed)
    for name in PartitionState.__dataclass_fields__:
        if getattr(mine, name).tobytes() != getattr(state, name).tobytes():
            print(name, getattr(mine, name), getattr(state, name), sep="\n")
            return False
    return packed == state.to_bytes()


def test_a_partition_from_its_beginning_to_its_thousandth_record() -> None:
    both_ways = Both()
    for at in range(0, 50):
        rows = [record(n, f"K{n % 7}", "V") for n in range(20 * at, 20 * at + 20)]
        end = 20 * at + 20
        batch = [
            *tick(1000 * at, everywhere(end)),
            *(row for b in BROKERS for row in both(b, rows, end, 1000 * at + 5)),
        ]
        both_ways.feed({"t": batch, f"u{at % 5}": tick(1000 * at, everywhere(7))})
    assert both_ways.stepped == 0
