"""Who is said to be safe to lead, and which broker may be restarted, held against the oracle.

`Controller` elects as KRaft's does (``PartitionChangeBuilder.electLeader``, ``maybePopulateTargetElr``), for one
partition: the leader while it is in sync, else the first of the assignment that is, else the first that is eligible,
else, where unclean elections are on, the first that is there.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from parallax.compare.suspect import Coverage
from parallax.findings.finding import Finding
from parallax.findings.leading import Fitness, May
from parallax.model import TopicPartition
from parallax.repair.leading import Doubts, Led
from parallax.repair.rolling import Outage, TopicSettings, may_stop
from tests.simulation.properties import Broken, Place

SAFE = "safe to lead"
RESTART = "may be restarted"
NOBODY = -1
UNKNOWN_RANGE = "an unknown range"
KNOWABLE = frozenset({"a finding", "a finding on the key", UNKNOWN_RANGE, "an audit that has not ended"})
"""Of what is wrong, what an operator is told of: by a finding, or as what has no verdict (`Judge._hold`)."""

PLACE = TopicPartition("simulated", 0)
RETENTION_MS = 86_400_000
SHORT_MS = 60_000


@dataclass
class Controller:
    """A partition as the controller has it.

    Attributes:
        replicas: as assigned, the preferred one first.
        leader: -1 while there is none.
        elr: the eligible leader replicas (KIP-966); None where the cluster has no such feature.
        away: brokers that are fenced or are shutting down.
        led: who has led since it was made.
        unclean: how many elections were unclean.
    """

    replicas: tuple[int, ...]
    leader: int
    isr: set[int]
    elr: set[int] | None
    min_isr: int
    may_be_unclean: bool
    away: set[int] = field(default_factory=set)
    led: list[int] = field(default_factory=list)
    unclean: int = 0

    def stop(self, broker: int) -> None:
        """The broker shuts down in an orderly way, and is away."""
        self.away.add(broker)
        remaining = self.isr - {broker}
        if self.elr is not None:
            self.elr = (self.elr | self.isr) - remaining if len(remaining) < self.min_isr else set()
            self.isr = remaining
        elif remaining:
            self.isr = remaining
        self._elect(self.leader)

    def start(self, broker: int) -> None:
        """The broker is back, and catches up."""
        self.away.discard(broker)
        if self.leader == NOBODY:
            self._elect(self.leader)
        if self.leader != NOBODY:
            self.isr.add(broker)
            if self.elr is not None:
                self.elr = self.elr - self.isr if len(self.isr) < self.min_isr else set()

    def rebalance(self) -> None:
        """An election of preferred leaders."""
        self._elect(self.replicas[0])

    def _elect(self, wished: int) -> None:
        first = (wished, self.leader, *self.replicas)
        clean = [one for one in first if self._is_valid(one)]
        there = [one for one in self.replicas if one not in self.away]
        if clean:
            self.leader = clean[0]
        elif self.may_be_unclean and there:
            self.leader = there[0]
            self.unclean += 1
        else:
            self.leader = NOBODY
        if self.leader != NOBODY and self.leader not in self.isr:
            self.isr = {self.leader}
        self.led.append(self.leader)

    def _is_valid(self, broker: int) -> bool:
        among = self.isr if self.isr - self.away or self.elr is None else self.elr
        return broker in among and broker not in self.away


def judged(
    brokers: Iterable[int], findings: Collection[Finding], coverage: Coverage | None, pending: int
) -> dict[int, Fitness]:
    """Say who may lead by the product's own words, as a command or the page would.

    Args:
        brokers: which hold the partition.
        findings: the last events of those about it.
        coverage: without what audits have settled.
        pending: suspects without verdict.
    """
    return Doubts.made(coverage, pending, {}).fitness(brokers, findings)


def lies(
    found: Mapping[int, Fitness], wrong: Mapping[int, Sequence[Place]], draw: random.Random, counts: dict[str, int]
) -> Iterator[Broken]:
    """What of who may lead, and of who may be restarted, does not hold.

    Args:
        found: by replica, whether it is said that it may lead.
        wrong: by replica, in what it is wrong and an operator is told of it.
        draw: draws partitions with these replicas in which brokers are restarted.
        counts: where it is counted how often something was said.
    """
    for broker, one in found.items():
        counts[f"ran replicas that are called {one.may} to lead"] += 1
        if one.may is May.SAFE and wrong.get(broker):
            yield Broken(SAFE, wrong[broker][0].what, f"broker {broker} is called safe to lead: {wrong[broker][0]}")
    for _ in range(2 * len(found)):
        yield from restarted(found, wrong, _drawn(tuple(found), draw), counts)


def _drawn(brokers: tuple[int, ...], draw: random.Random) -> Controller:
    """A partition that these brokers hold, as a controller may have it."""
    replicas = tuple(draw.sample(brokers, len(brokers)))
    behind = draw.choice([0, 0, 1, len(replicas) - 1])
    isr = set(draw.sample(replicas, max(1, len(replicas) - behind)))
    min_isr = draw.randint(1, len(replicas))
    elr = None
    if draw.random() < 0.5:
        rest = sorted(set(replicas) - isr)
        elr = set(draw.sample(rest, draw.randint(0, len(rest)))) if len(isr) < min_isr else set()
    leader = draw.choice(sorted(isr))
    return Controller(replicas, leader, isr, elr, min_isr, draw.random() < 0.3)


def restarted(
    found: Mapping[int, Fitness], wrong: Mapping[int, Sequence[Place]], before: Controller, counts: dict[str, int]
) -> Iterator[Broken]:
    """What does not hold if one broker is restarted of which it is said that it may be.

    Args:
        found: by replica, whether it is said that it may lead.
        wrong: by replica, in what it is wrong and an operator is told of it.
        before: the partition before the restart.
        counts: where it is counted how often something was said.
    """
    settings = TopicSettings(
        is_compacted=True,
        retention_ms=RETENTION_MS,
        min_isr=before.min_isr,
        is_unclean=before.may_be_unclean,
    )
    led = Led(PLACE, before.leader, before.replicas, tuple(sorted(before.isr)), found, tuple(before.elr or ()))
    for broker in before.replicas:
        may = may_stop(led, settings, Outage(broker, SHORT_MS)).may
        counts[f"ran restarts that are called {may}"] += 1
        if may is not May.SAFE:
            continue
        after = deepcopy(before)
        took_writes = len(after.isr) >= after.min_isr
        after.stop(broker)
        twice = deepcopy(after)
        twice.stop(twice.leader)
        refused = took_writes and len(after.isr - after.away) < after.min_isr
        after.rebalance()
        after.start(broker)
        after.rebalance()
        text = f"broker {broker} is said to be safe to restart, and {before} became {after}"
        others = len(before.replicas) > 1  # A lone replica leads after the restart as it did before.
        for leader in sorted({one for one in after.led if others and wrong.get(one)}):
            yield Broken(RESTART, wrong[leader][0].what, f"{text}: broker {leader} led: {wrong[leader][0]}")
        if others and not twice.unclean and (second := wrong.get(twice.leader)):
            yield Broken(RESTART, second[0].what, f"{text}; and after another failure broker {twice.leader} led")
        if others and (NOBODY in after.led or after.unclean):
            yield Broken(RESTART, "nobody led" if NOBODY in after.led else "led uncleanly", text)
        if refused and len(before.isr) < len(before.replicas):
            yield Broken(RESTART, "writes refused", text)
