"""An audit of what was recorded, by blocks and by rows: every now and then in a history, of all that was read so far.

What a reader reads comes whole here, with its position, as a file of the views has it. What its rows add up to is made
by the product's own kernel, with blocks that are short enough for these histories.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from parallax.audit.compare import STATE, Comparer, parse
from parallax.audit.inputs import from_tables
from parallax.audit.packing import pack
from parallax.audit.plan import PartitionPlan, TopicTraits
from parallax.compare.blocks import Agreed, Recorded, agreed
from parallax.compare.observations import POSITION, VIEWS, Observations
from parallax.compare.state import NEVER
from parallax.model import ReadEvent, TopicPartition, UnknownReason
from parallax.replica.digests import COLUMNS, Digester, Digests
from parallax.views.blocks import RANGE
from tests.simulation.both import BothWays, Comparing, Differs
from tests.simulation.monitor import Monitor
from tests.simulation.readers import PARTITION, PROGRESS, RC, RU, TOPIC, TOPIC_ID, Row

DIGESTER = Digester(bytes(16), block_bits=2, joined_bits=3)
PLACE = TopicPartition(TOPIC, PARTITION)
WHOLE = (ReadEvent.OK, ReadEvent.PARTITION_ADDED)
AUDITED = 0.25
"""Share of the micro-batches after which an audit is made."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one micro-batch read of a replica: from where on, the rows, and the position row last."""

    start: int
    rows: list[Row]

    @property
    def end(self) -> int:
        return int(self.rows[-1]["offset"])

    @property
    def digests(self) -> Digests:
        shown = [row for row in self.rows if row["kind"] != POSITION]
        columns = {name: np.array([row[name] for row in shown], dtype) for name, dtype in COLUMNS.items()}
        return DIGESTER.add_up(np.array([0, len(shown)]), np.zeros(1, np.int32), columns)


def added_up(reads: list[Read]) -> Recorded:
    """As the footers of the files tell it."""
    spans = [(0, read.start, read.end, -1, 0, read.rows[-1]["event"] in WHOLE) for read in reads]
    parts = [read.digests for read in reads]
    for n, part in enumerate(parts):
        part.parts["range"] = n
    return Recorded(np.array(spans, RANGE), [TOPIC_ID] * len(spans), Digests.concat(parts))


@dataclass
class Audited(Comparing):
    """A monitor whose recorded rows are audited both ways."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reads: dict[tuple[int, int], list[Read]] = {}
        self.under_way: dict[tuple[int, int], Read] = {}
        self.drawing = random.Random(f"blocks {self.seed}")

    def give(self, view: int, broker: int, rows: list[Row]) -> None:
        super().give(view, broker, rows)
        if view == PROGRESS:
            return
        if len(rows) == 1 and rows[0]["kind"] == POSITION:
            before = self.under_way.pop((view, broker), Read(rows[0]["offset"], []))
            self.reads.setdefault((broker, view), []).append(Read(before.start, [*before.rows, *rows]))
        else:
            self.under_way[view, broker] = Read(self.positions[view, broker], rows)

    def batch(self, take: float = 1.0, crash: bool = False, repeat: bool = False) -> None:
        super().batch(take, crash, repeat)
        if self.drawing.random() < AUDITED:
            self.audit()

    def audit(self) -> None:
        """Compare all that was recorded, both ways."""
        readers = [(broker, view) for broker in self.cluster.replicas for view in VIEWS]
        if not all(reader in self.reads for reader in readers):
            return
        self.judged["ran audits: all"] += 1
        found = agreed({reader: added_up(self.reads[reader]) for reader in readers})
        if found is None:
            return
        rows, blocks = self.verdicts(None), self.verdicts(found)
        if rows != blocks:
            raise Differs(f"blocks: other {found}: {blocks}; by rows: {rows}")
        total = sum(len(read.rows) for reader in readers for read in self.reads[reader])
        self.judged["ran audits: with a range that agreed"] += 1
        self.judged["ran rows by blocks: all"] += total
        self.judged["ran rows by blocks: that nobody looked at"] += found.rows

    def verdicts(self, found: Agreed | None) -> Any:
        brokers = tuple(self.cluster.replicas)
        ends = tuple(min(self.reads[broker, view][-1].end for broker in brokers) for view in (RU, RC))
        strict = NEVER if self.compacted else 0
        plan = PartitionPlan(*PLACE, TOPIC_ID, TopicTraits(self.compacted), brokers, ends, strict_from=strict)  # type: ignore[arg-type]
        plan = replace(plan, starts=dict.fromkeys(brokers, 0), marks=dict.fromkeys(brokers, ends))
        inputs = from_tables([plan], [], 2, {} if found is None else {PLACE: found})
        comparer = Comparer(inputs, self.settings, 2, last=True, from_log_start=False)
        rows = [{"topic": TOPIC, "partition": PARTITION, "at": at, "packed": b} for at, b in self.packed(ends, found)]
        (made,) = [row for one in comparer.compare([pa.RecordBatch.from_pylist(rows)]) for row in one.to_pylist()]
        compared, suspects, coverage = parse(made["result"])
        # By rows an audit begins at the first one that is left, by blocks where the first range begins. What was not
        # read in time an audit of the tables knows by the positions (`Compared.unread`).
        unknown = {**coverage.unknown, UnknownReason.BEFORE_FIRST_READING: (0, 0)}
        told = replace(coverage, state_bytes=0, unread=(), unknown=unknown)
        said = {**asdict(compared), "rows": 0, "compared_from": 0, "unread": ()}
        return said, sorted(one.suspect_id for one in suspects), told

    def packed(self, ends: tuple[int, ...], found: Agreed | None) -> Iterator[tuple[int, bytes]]:
        """The rows as an audit reads them: of each reader those in a stretch of offsets, in their order."""
        yield STATE, b""
        first = -1 if found is None else found.end
        chunks: list[tuple[int, int, list[Row]]] = []
        for (broker, view), reads in self.reads.items():
            if broker not in self.cluster.replicas:
                continue
            kept = [row for read in reads for row in read.rows if row["kind"] == POSITION or row["offset"] >= first]
            kept = sorted((r for r in kept if r["offset"] <= ends[view]), key=lambda r: (r["offset"], -r["kind"]))
            chunks += [(kept[n]["offset"], n, kept[n : n + 20]) for n in range(0, len(kept), 20)]
        for at, _, rows in sorted(chunks, key=lambda chunk: chunk[:2]):
            yield at, pack(Observations.of(TOPIC, PARTITION, rows))


@dataclass
class Blocks(BothWays):
    """A history in which what was recorded is audited both ways."""

    watching: ClassVar[type[Monitor]] = Audited
    option: ClassVar[str] = "blocks"
