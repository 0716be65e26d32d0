"""A timekeeper that is fed looks at a time, for the tests of outages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import structlog

from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.guard.absences import Absences
from parallax.guard.looks import Look
from parallax.guard.outages import headline
from parallax.guard.timekeeper import Timekeeper
from parallax.model import TopicPartition
from tests.unit.guard.looking import HOUR, PLACE, START, clock, tick
from tests.unit.guard.recording import ALL, REST, row

OTHER = TopicPartition("orders", 1)
MINUTE = 60_000


class Watching:
    """A timekeeper at the time of its looks, what it said last, and what the log told."""

    def __init__(self, storage: Path, at: int = 0) -> None:
        self.at = at
        self.said = Absences()
        self.logged: list[Any] = []
        self.differing: Collection[TopicPartition] = ()
        self.keeper = Timekeeper(
            str(storage),
            clock(),
            self._take,
            lambda: (START + self.at) / 1000,
            differing=lambda: self.differing,
        )
        self.keeper.start()

    def _take(self, said: Absences) -> None:
        self.said = said

    def see(self, at: int, *looks: list[Look]) -> None:
        """Take in looks at a time."""
        self.at = at
        with structlog.testing.capture_logs() as logged:
            self.keeper.take_in([row(look) for own in looks for look in own])
        self.logged += logged

    def both(self, at: int, ends: dict[int, int | None], isr: tuple[int, ...]) -> None:
        self.see(at, tick(at, ends, isr), tick(at, ends, isr, place=OTHER))

    def audit(self, at: int, of: Mapping[TopicPartition, Result] | None = None, **verdicts: Result) -> None:
        self.at = at
        places = {TopicPartition("orders", int(name[1:])): result for name, result in verdicts.items()} | dict(of or {})
        partitions = tuple(PartitionResult(*place, result) for place, result in places.items())
        with structlog.testing.capture_logs() as logged:
            self.keeper.audited(AuditReport("brokers", (START + at) / 1000, (START + at + 1) / 1000, partitions))
        self.logged += logged

    def away(self, place: TopicPartition = PLACE) -> None:
        """Broker 2 goes away, and is seen so for two minutes."""
        self.see(0, tick(0, {1: 10, 2: 10, 3: 10}, ALL, place=place))
        for at in range(2_000, 2 * MINUTE, 30_000):
            self.see(at, tick(at, {1: 12, 2: None, 3: 12}, REST, place=place))

    def late(self) -> None:
        """Broker 2 comes back too late with two partitions."""
        self.both(0, {1: 10, 2: 10, 3: 10}, ALL)
        self.both(2_000, {1: 12, 2: None, 3: 12}, REST)
        self.both(2 * HOUR, {1: 12, 2: 12, 3: 12}, ALL)

    @property
    def outcome(self) -> str:
        (outage,) = self.said.outages
        return outage.outcome

    @property
    def headline(self) -> str:
        (outage,) = self.said.outages
        return headline(outage, self.said.absent, self.said.late, (START + self.at) / 1000)

    @property
    def told(self) -> list[str]:
        steps = ("a broker is away", "a broker is back", "the outage of a broker is over")
        return [one["event"] for one in self.logged if one["event"] in steps]
