"""The product with rows withheld, and beside it a comparison that is given all at once, of the same micro-batches.

Rows are withheld as soon as anything waits for a replica that stands still, in blocks that are short enough for these
histories. Once none are withheld both have raised the same. Where rows are taken up in pieces they are judged piece by
piece, so that one may be suspected that a whole micro-batch clears at once, as if it had been read in two.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any, ClassVar

from parallax.compare.observations import POSITION, Observations, ViewRows
from parallax.compare.rules.content import contradictions
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.sums import Grain
from parallax.compare.suspect import Accusation
from parallax.compare.withheld import Places, Views, WithholdingLimits, compare, is_withholding
from parallax.model import FindingKind
from tests.simulation.both import BothWays, Comparing, Differs
from tests.simulation.monitor import Monitor
from tests.simulation.readers import PARTITION, TOPIC, Row

GRAIN = Grain(stride=3, recent=1)
WHOLE = WithholdingLimits(worth=0, few=0, at_a_time=10**6, grain=GRAIN)
IN_PIECES = WithholdingLimits(worth=0, few=6, at_a_time=12, grain=GRAIN)
FEW_MARKS = replace(IN_PIECES, marks=16)


OF_CUTS = {"unknown", "unread", "candidates", "waits_from", "awaits_report"}
"""What depends on where micro-batches are cut, and on what somebody showed who has left the replica set."""


def about(one: Accusation) -> tuple[int, ...]:
    """Which record, transaction or replica is suspected; of what kind a loss is may show later."""
    transaction = one.producer_id, max(one.transaction_start_offset, -1)
    return (*transaction, one.key_hash_hi, one.key_hash_lo, one.offset if transaction == (-1, -1) else -1)


def pairs(one: Accusation) -> set[frozenset[int]]:
    """Each two brokers that show unlike records."""
    sides = one.observations["sides"].values()
    return {frozenset((a, b)) for mine, others in combinations(sides, 2) for a in mine for b in others}


@dataclass
class Withholding(Comparing):
    """A monitor whose comparison withholds rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limits = (WHOLE, IN_PIECES, WHOLE, FEW_MARKS)[self.seed % 4]
        self.rows_at: list[tuple[int, Row]] = []
        self.known: set[int] = set()
        self.at_once = self.unread
        self.said: dict[str, set[tuple[int, ...]]] = {"at once": set(), "later": set()}
        self.unlike: dict[str, dict[int, set[frozenset[int]]]] = {"at once": {}, "later": {}}
        self.batches = self.compared = 0

    def _step(self, rows: list[Row], crash: bool) -> None:
        self.batches += 1
        fresh = [row for row in rows if id(row) not in self.known]
        self.known |= {id(row) for row in fresh}
        self.rows_at += [(self.batches, row) for row in fresh]
        super()._step(rows, crash)

    def step_of(self, state: PartitionState, seen: Observations, **options: Any) -> StepResult:
        views = Views(self.batches, self.again)
        made = compare(state, seen, self.settings, self.cluster.now, views, limits=self.limits, **options)
        if self.compared == self.batches:
            return made  # run again
        self.compared = self.batches
        self.judged["ran micro-batches: that began to withhold"] += is_withholding(made.state) > is_withholding(state)
        self.judged["ran micro-batches: with rows withheld"] += is_withholding(made.state)
        whole = step(self.at_once, seen, self.settings, self.cluster.now, **options)
        self.at_once = whole.state
        for name, result in (("at once", whole), ("later", made)):
            self.said[name] |= {about(suspect.accusation) for suspect in result.suspects}
            unlike = (s.accusation for s in result.suspects if s.accusation.kind is FindingKind.CONTENT_MISMATCH)
            self.unlike[name] |= {one.offset: pairs(one) for one in unlike}
        if not is_withholding(made.state):
            self.hold(whole, made)
        return made

    def again(self, places: Places, start: int, end: int) -> ViewRows:
        since, until = places
        found = [
            row
            for at, row in self.rows_at
            if since < at <= until and row.get("kind", POSITION) != POSITION and start <= row["offset"] < end
        ]
        self.judged["ran rows: read once more"] += len(found)
        return Observations.of(TOPIC, PARTITION, found).rows

    def goes_on(self, offset: int) -> bool:
        """Whether records that differ there are of the run before, of which not all replicas had been read at first."""
        before = max((other for other in self.unlike["at once"] if other < offset), default=-1)
        return self.unlike["at once"][offset] <= self.unlike["later"].get(before, set())

    def hold(self, whole: StepResult, made: StepResult) -> None:
        """Both have said the same."""
        if self.settings.state_cap_bytes < 1 << 16:
            return
        # Sums are compared nearly as far as both were read: records that differ behind that wait for who is away.
        waits = made.state.content[contradictions(made.state.content)]["offset"].tolist()
        runs = [offset for offset in self.unlike["at once"] if self.goes_on(offset)]
        missed = self.said["at once"] - self.said["later"] - {(-1, -1, 0, 0, offset) for offset in (*waits, *runs)}
        more = self.said["later"] - self.said["at once"]
        if missed:
            raise Differs(f"withheld: missed {missed}, more {more}: {whole.suspects}, {made.suspects}")
        self.judged["ran micro-batches: after which no rows are withheld"] += 1
        self.judged["ran suspects: of what was taken up in pieces alone"] += len(more)
        self.said["at once"] |= more
        mine, its = (replace(one.coverage, state_bytes=0) for one in (whole, made))
        compared = [one.name for one in fields(mine) if one.compare]
        unlike = {name for name in compared if getattr(mine, name) != getattr(its, name)}
        self.judged["ran micro-batches: after which what is unknown is told otherwise"] += bool(unlike & OF_CUTS)
        if unlike - OF_CUTS:
            told = [f"{name} {getattr(its, name)}, at once {getattr(mine, name)}" for name in unlike - OF_CUTS]
            raise Differs(f"withheld: other coverage: {'; '.join(told)}")


@dataclass
class Withheld(BothWays):
    """A history whose every micro-batch is compared both ways."""

    watching: ClassVar[type[Monitor]] = Withholding
    option: ClassVar[str] = "withheld"
