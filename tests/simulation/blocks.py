"""The comparison by blocks against the one by rows: the same micro-batches, judged both ways, step by step.

What a reader reads comes whole here, with its position, as a file of the views has it. What its rows add up to is made
by the product's own kernel, with blocks that are short enough for these histories.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from parallax.compare.agreed import fits, without_rows
from parallax.compare.blocks import Sums
from parallax.compare.observations import POSITION, VIEWS, Observations
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.findings.incidents import ALONE
from parallax.model import ReadEvent
from parallax.replica.digests import COLUMNS, Digester
from parallax.views.blocks import RANGE
from tests.simulation.both import held
from tests.simulation.monitor import Monitor
from tests.simulation.readers import PARTITION, PROGRESS, TOPIC, Row
from tests.simulation.world import Violation, World

KEY = bytes(16)
BLOCK_BITS = 3
WHOLE = (ReadEvent.OK, ReadEvent.PARTITION_ADDED)
TOGETHER = 0.5
"""Share of the micro-batches that hold all that was read, of all replicas."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one micro-batch read of a replica: from where on, the rows, and the position row last."""

    start: int
    rows: list[Row]

    @property
    def span(self) -> Any:
        """As the footer of the file tells it."""
        last = self.rows[-1]
        return np.array([(0, self.start, last["offset"], -1, 0, last["event"] in WHOLE)], RANGE)


@dataclass
class Blockwise(Monitor):
    """A monitor beside which everything is compared by blocks as well."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reads: dict[tuple[int, int], deque[Read]] = {}
        self.under_way: dict[tuple[int, int], Read] = {}
        self.by_rows, self.by_blocks = PartitionState(), PartitionState()
        self.sums = Sums(fresh=True, block_bits=BLOCK_BITS)
        self.digester = Digester(KEY, block_bits=BLOCK_BITS)
        self.drawing = random.Random(f"blocks {self.seed}")
        self.judged: Counter[str] = Counter()

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
        taken: list[tuple[tuple[int, int], Read]] = []
        # Replicas of a healthy partition are read at nearly the same time; those that are not have little to agree on.
        everything = take >= 1.0 or self.drawing.random() < TOGETHER
        for name in names:
            queue = self.reads[name]
            count = len(queue) if everything else self.drawing.randint(0, len(queue))
            taken += [(name, queue.popleft()) for _ in range(count)]
        if taken:
            self.compare(taken)

    def compare(self, taken: list[tuple[tuple[int, int], Read]]) -> None:
        """One micro-batch, both ways."""
        seen = Observations.of(TOPIC, PARTITION, [row for _, read in taken for row in read.rows])
        whole = self.rows_of(self.by_rows, seen)
        parts = self.step_by_blocks(seen, taken)
        if [s.as_row() for s in whole.suspects] != [s.as_row() for s in parts.suspects]:
            raise Violation(f"blocks: other suspects: {parts.suspects}; by rows: {whole.suspects}")
        if replace(whole.coverage, state_bytes=0) != replace(parts.coverage, state_bytes=0):
            raise Violation(f"blocks: other coverage: {parts.coverage}; by rows: {whole.coverage}")
        self.by_rows, self.by_blocks = whole.state, parts.state
        self.begin()

    def step_by_blocks(self, seen: Observations, taken: list[tuple[tuple[int, int], Read]]) -> StepResult:
        for (view, broker), read in taken:
            if view != PROGRESS:
                self.sums.take((view, broker), read.span, ["t"], self.digested(read.rows))
        brokers = self.by_blocks.brokers
        stood = {(view, int(b["broker"])): int(b["shown"][view]) for b in brokers for view in VIEWS}
        agreed = self.sums.agreed(brokers["broker"][brokers["member"]].tolist(), stood)
        self.judged["ran rows by blocks: all"] += len(seen.rows)
        self.judged["ran micro-batches by blocks: all"] += 1
        if agreed is None or not fits(self.by_blocks, agreed, seen):
            self.judged["ran micro-batches by blocks: of ranges that agreed and did not fit"] += agreed is not None
            return self.rows_of(self.by_blocks, seen)
        left = replace(seen, rows=without_rows(seen.rows, agreed))
        self.judged["ran rows by blocks: that nobody looked at"] += len(seen.rows) - len(left.rows)
        self.judged["ran micro-batches by blocks: with a range that agreed"] += 1
        return self.rows_of(self.by_blocks, left, agreed=agreed)

    def rows_of(self, state: PartitionState, seen: Observations, **more: Any) -> StepResult:
        options: Any = {"from_log_start": not self.late, "compacted": self.compacted, **more}
        return step(state, seen, self.settings, self.cluster.now, **options)

    def digested(self, rows: list[Row]) -> Any:
        """What the rows of a reading add up to."""
        shown = [row for row in rows if row["kind"] != POSITION]
        columns = {name: np.array([row[name] for row in shown], dtype) for name, dtype in COLUMNS.items()}
        return self.digester.add_up(np.array([0, len(shown)]), np.zeros(1, np.int32), columns)

    def begin(self) -> None:
        """Where nothing is left to judge, and all readers stand at one offset, sums begin there."""
        state, brokers = self.by_blocks, self.by_blocks.brokers
        members = brokers[brokers["member"]]
        places = set(members["position"].ravel().tolist())
        if state.is_settled and not len(state.unended) and len(places) == 1:
            self.sums.begin_at(places.pop(), members["broker"].tolist())


@dataclass
class Blocks(World):
    """A history whose every micro-batch is compared both ways."""

    watching: ClassVar[type[Monitor]] = Blockwise

    def tally(self) -> Counter[str]:
        """What was counted of the history, and of what blocks spared."""
        assert isinstance(self.monitor, Blockwise)
        return super().tally() + self.monitor.judged


def both_ways(seed: int, healthy: bool, alone: int = ALONE, kills: int = 0) -> Blocks:
    """Run the history of a seed, and judge it by blocks as well as by rows.

    Args:
        seed: of the history.
        healthy: nothing befalls it that makes replicas diverge.
        alone: see `Profile.alone`.
        kills: see `Profile.kills`.

    Raises:
        Violation: the two have said something else of a micro-batch, or a property does not hold.
    """
    return held(Blocks, "--blocks", seed, healthy, alone, kills)
