"""The comparison without the rows on which replicas agree by their sums, beside the one by all rows, step by step.

What a reader reads comes whole here, with its position, as a file of the views has it. What its rows add up to is made
by the product's own kernel, with blocks that are short enough for these histories.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from parallax.compare.blocks import alike
from parallax.compare.observations import POSITION, Observations, ViewRows
from parallax.compare.spared import without_rows
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.withheld import Places, Views, compare
from parallax.compare.withholding import WithholdingLimits
from parallax.config import CompareSettings
from tests.simulation.blocks import Read, added_up
from tests.simulation.both import BothWays, Comparing, Differs
from tests.simulation.monitor import Monitor
from tests.simulation.readers import PARTITION, PROGRESS, TOPIC, Row

TOGETHER = 0.5
"""Share of the micro-batches that hold all that was read, of all replicas."""

NONE_WITHHELD = WithholdingLimits(worth=1 << 62)
ROOM = {"state_cap_bytes": 1 << 40}
"""More than a history can fill: a state that has room for little defers what need not be taken in at all."""


@dataclass
class Sparing(Comparing):
    """A monitor beside which every micro-batch is compared both ways."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reads: dict[tuple[int, int], deque[Read]] = {}
        self.under_way: dict[tuple[int, int], Read] = {}
        self.by_rows, self.by_sums = self.unread, self.unread
        self.drawing = random.Random(f"spared {self.seed}")

    def give(self, view: int, broker: int, rows: list[Row]) -> None:
        super().give(view, broker, rows)
        queue = self.reads.setdefault((view, broker), deque())
        if view == PROGRESS:
            queue += [Read(0, [row]) for row in rows]
        elif len(rows) == 1 and rows[0]["kind"] == POSITION:
            before = self.under_way.pop((view, broker), Read(rows[0]["offset"], []))
            queue.append(Read(before.start, [*before.rows, *rows]))
        else:
            self.under_way[view, broker] = Read(self.positions[view, broker], rows)

    def batch(self, take: float = 1.0, crash: bool = False, repeat: bool = False) -> None:
        super().batch(take, crash, repeat)
        names = list(self.reads)
        self.drawing.shuffle(names)
        taken: dict[tuple[int, int], list[Read]] = {}
        # Replicas of a healthy partition are read at nearly the same time; those that are not have little to agree on.
        everything = take >= 1.0 or self.drawing.random() < TOGETHER
        for name in names:
            queue = self.reads[name]
            count = len(queue) if everything else self.drawing.randint(0, len(queue))
            if count:
                taken[name] = [queue.popleft() for _ in range(count)]
        if taken:
            self.compare(taken)

    def compare(self, taken: dict[tuple[int, int], list[Read]]) -> None:
        """One micro-batch, both ways."""
        seen = Observations.of(TOPIC, PARTITION, [row for of in taken.values() for read in of for row in read.rows])
        options: dict[str, Any] = {"from_log_start": not self.late}
        settings = self.settings.model_copy(update=ROOM)
        whole = step(self.by_rows, seen, settings, self.cluster.now, **options)
        parts = self.without_rows(seen, taken, settings, options)
        if [s.as_row() for s in whole.suspects] != [s.as_row() for s in parts.suspects]:
            raise Differs(f"spared: other suspects: {parts.suspects}; by rows: {whole.suspects}")
        if replace(whole.coverage, state_bytes=0) != replace(parts.coverage, state_bytes=0):
            raise Differs(f"spared: other coverage: {parts.coverage}; by rows: {whole.coverage}")
        self.by_rows = PartitionState.from_bytes(whole.state.to_bytes())
        self.by_sums = PartitionState.from_bytes(parts.state.to_bytes())

    def without_rows(
        self,
        seen: Observations,
        taken: dict[tuple[int, int], list[Read]],
        settings: CompareSettings,
        options: dict[str, Any],
    ) -> StepResult:
        found = alike({(b, v): added_up(of) for (v, b), of in taken.items() if v != PROGRESS})
        self.judged["ran micro-batches: all"] += 1
        self.judged["ran rows: all"] += len(seen.rows)

        def never(places: Places, start: int, end: int) -> ViewRows:
            raise AssertionError("no rows are withheld")

        terms: Any = (settings, self.cluster.now, Views(0, never))
        if found is not None:
            offset = seen.rows.offset
            is_left = (seen.rows.kind == POSITION) | (offset < found.start) | (offset >= found.end)
            given = replace(seen, rows=seen.rows.take(is_left))
            self.judged["ran micro-batches: with offsets that are alike"] += 1
            made = without_rows(self.by_sums, given, found, *terms, limits=NONE_WITHHELD, **options)
            if made is not None:
                self.judged["ran micro-batches: without rows of these"] += 1
                self.judged["ran rows: that were spared"] += len(seen.rows) - len(given.rows)
                return made
        return compare(self.by_sums, seen, *terms, limits=NONE_WITHHELD, **options)


@dataclass
class Apart(BothWays):
    """A history whose every micro-batch is compared both ways."""

    watching: ClassVar[type[Monitor]] = Sparing
    option: ClassVar[str] = "spared"
