"""A partition of three replicas, played by hand: what they show, and what was read of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from parallax.evidence.atoms import End, EpochEnd, Fact, Look, Place, Reading
from parallax.evidence.ledger import Ledger
from parallax.evidence.lineage import Lineage
from parallax.evidence.room import Room
from parallax.judge.case import Case, Partition
from parallax.judge.judging import Judgement, judge
from parallax.model import UNKNOWN

RETENTION = 1_000
LATE = 100_000
"""A time at which every tombstone and end marker may be cleaned."""
PRODUCER = 7


def record(offset: int, value: str | None = "v", *, key: str = "K", epoch: int = 0, producer: int = -1) -> Fact:
    """A record; of a transaction where it has a producer, a tombstone without a value."""
    content = None if value is None else f"{value} of {offset}"
    return Fact(Place(offset, epoch), producer, producer >= 0, None, key, content)


def written(offset: int, value: str | None = "v", *, key: str = "K", epoch: int = 0, of: int = UNKNOWN) -> Fact:
    """A record of a transaction, in an epoch of its producer."""
    return replace(record(offset, value, key=key, epoch=epoch, producer=PRODUCER), producer_epoch=of)


def commit(offset: int, *, epoch: int = 0, of: int = UNKNOWN) -> Fact:
    """An end marker of the producer, in an epoch of it."""
    return Fact(Place(offset, epoch), PRODUCER, end=End.COMMIT, producer_epoch=of)


def abort(offset: int, *, epoch: int = 0, of: int = UNKNOWN) -> Fact:
    """An end marker of the producer, in an epoch of it."""
    return Fact(Place(offset, epoch), PRODUCER, end=End.ABORT, producer_epoch=of)


@dataclass
class Scene:
    """What is known of the partition. Offsets count from 0, the leader is 1, all are in sync."""

    top: int
    """The high watermark of all that is looked at, where nothing else is said."""
    ledger: Ledger = field(default_factory=lambda: Ledger(RETENTION))
    looks: dict[int, Look] = field(default_factory=dict)
    leader: int = 1
    in_sync: frozenset[int] = frozenset({1, 2, 3})
    replicas: frozenset[int] = frozenset({1, 2, 3})
    compacted: bool = True
    deletes: bool = False
    unclean: bool = False
    differed: Mapping[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ledger.led(0, 0)

    def read(
        self, broker: int, *facts: Fact, start: int = 0, end: int | None = None, at: int = 0, epoch: int = 0
    ) -> Scene:
        """A replica was read; at 0, when nothing had been written before, it was read in time."""
        for fact in facts:
            self.ledger.fact(fact, broker, at)
        self.ledger.read(broker, Reading(start, self.top if end is None else end, at, epoch))
        return self

    def shows(self, broker: int, *facts: Fact, epochs: tuple[tuple[int, int], ...] = ((0, 0),), **more: Any) -> Scene:
        """A look at a replica; ``epochs`` are where its log's leader epochs begin, each with a batch."""
        top = more.pop("high_watermark", self.top)
        log_end = more.pop("log_end", top)
        held = sorted(facts, key=lambda fact: fact.offset)
        tops = sorted({fact.place for fact in held} | {Place(start, epoch) for epoch, start in epochs if start < top})
        last = max((epoch for epoch, start in epochs if start < top), default=-1)
        if top and (not tops or tops[-1].offset < top - 1):
            tops.append(Place(top - 1, last))  # A batch that is empty, or of another key.
        open_now = more.get("open") or {}
        stable = more.pop("last_stable", min([top, *open_now.values()]))
        stated = more.pop("outcomes", {})
        outcomes = {f.place: stated.get(f.offset, End.COMMIT) for f in held if f.transactional and f.offset < stable}
        look = Look(
            broker=broker,
            at=more.pop("at", LATE),
            log_start=more.pop("log_start", 0),
            high_watermark=top,
            last_stable=stable,
            log_end=log_end,
            facts={fact.place: fact for fact in held},
            outcomes=outcomes,
            tops=tuple(tops),
            ends=_ends(epochs, log_end),
            latest_epoch=epochs[-1][0] if epochs else -1,
            **more,
        )
        self.looks[broker] = look
        self.ledger.look(look, leads=broker == self.leader)
        return self

    @property
    def lineage(self) -> Lineage:
        """Which places stand."""
        return Lineage(self.ledger, self.looks, self.leader, self.in_sync, self.replicas)

    @property
    def room(self) -> Room:
        """Where something may have been unseen."""
        return Room(self.ledger, self.lineage, self.top, compacted=self.compacted)

    @property
    def case(self) -> Case:
        """All of it, for the judge."""
        partition = Partition(
            leader=self.leader,
            in_sync=self.in_sync,
            replicas=self.replicas,
            compacted=self.compacted,
            deletes=self.deletes,
            unclean=self.unclean,
        )
        return Case(self.ledger, partition, self.looks)

    @property
    def judged(self) -> Judgement:
        """What the judge says."""
        return judge(self.case, self.differed)

    @property
    def said(self) -> set[tuple[str, int | None, frozenset[int]]]:
        """Of each verdict: about what, who is accused, and who differs."""
        return {(str(v.about), v.accused, v.sides) for v in self.judged.verdicts}


def _ends(epochs: tuple[tuple[int, int], ...], log_end: int) -> dict[int, EpochEnd | None]:
    """What a log answers to where epochs 0 to 9 end."""
    found: dict[int, EpochEnd | None] = {}
    for asked in range(10):
        known = [epoch for epoch, _ in epochs if epoch <= asked]
        newer = [start for epoch, start in epochs if epoch > asked]
        if not epochs or epochs[-1][0] < asked:
            found[asked] = None
        else:
            found[asked] = EpochEnd(known[-1] if known else asked, min(newer, default=log_end))
    return found
