"""Which partitions wait for an audit inside the job, why, and when each is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from parallax.audit.ledger import has_verdict
from parallax.audit.result import AuditReport
from parallax.compare.suspect import Coverage
from parallax.model import UNKNOWN, TopicPartition, UnknownReason

AGAIN_S = 3600.0
"""A partition that was audited since it was not read in time is left alone for so long, rates or not."""

SOON_S = 300.0
"""So long after an audit at most, an event that has made offsets of a partition unknown has it audited again. Where
events come again and again, as where a partition cannot be compared, it doubles with each audit, up to `AGAIN_S`."""

_QUIET_S = 2 * AGAIN_S
"""A partition that had no audit for so long begins with `SOON_S` anew."""

EVENTS = frozenset({UnknownReason.BEFORE_FIRST_READING, UnknownReason.SKIPPED})
"""Reasons that an event gives: a log was truncated (as by an unclean election) or replaced, a replica was added, the
comparison began anew. The others come again by themselves, as where a retention is shorter than a reading takes."""

MAX_TOGETHER = 32
"""Partitions of one such audit: the next ones have their turn after it."""

_FIRST_PAUSE_S = 60.0


class CaughtUp:
    """Notices when a range that the stream left out can be compared: all replicas have been read past it."""

    def __init__(self) -> None:
        self._deferring: set[TopicPartition] = set()

    def observe(self, coverages: Iterable[Coverage]) -> list[TopicPartition]:
        """Take in coverages; returns the partitions whose deferred ranges have just been passed by every replica."""
        due = []
        for coverage in coverages:
            place = coverage.place
            if coverage.deferred:
                self._deferring.add(place)
            elif place in self._deferring:
                self._deferring.remove(place)
                due.append(place)
        return due


class Waiting:
    """Which partitions wait for an audit for one reason, and when each is due.

    Args:
        delay_s: how long after it was noticed; 0: never.
        clock: monotonic seconds.
        rest_s: for how long one that had a verdict is left alone, and at most after an event, seconds.
    """

    def __init__(self, delay_s: float, clock: Callable[[], float], rest_s: float = AGAIN_S) -> None:
        self._delay_s = delay_s
        self._clock = clock
        self._rest_s = rest_s
        self._due: dict[TopicPartition, float] = {}
        self._pause: dict[TopicPartition, float] = {}
        self._not_before: dict[TopicPartition, float] = {}
        self._audited_at: dict[TopicPartition, float] = {}
        self._soon: dict[TopicPartition, float] = {}
        self._events: dict[TopicPartition, int] = {}
        """When the newest event of each partition was seen, in milliseconds since 1970 UTC."""
        self._begun: dict[TopicPartition, int] = {}
        """The same by when the audit began that is under way."""

    def _wait(self, place: TopicPartition, newest: int) -> None:
        """A partition waits; an event that no audit has begun after has its audit soon, however lately there was one.

        Args:
            place: a partition.
            newest: when its newest event was, in milliseconds since 1970 UTC; -1: there is none.
        """
        self._due.setdefault(place, self._clock() + self._delay_s)
        self._note_event(place, newest)

    def _note_event(self, place: TopicPartition, newest: int) -> None:
        if newest <= self._events.get(place, UNKNOWN):
            return
        self._events[place] = newest
        if place in self._audited_at:
            soon = self._audited_at[place] + self._soon[place]
            self._not_before[place] = min(self._not_before.get(place, soon), soon)

    def due(self) -> list[TopicPartition]:
        """Return those whose time has come, the longest waiting first; at most `MAX_TOGETHER`. Their audit begins."""
        now = self._clock()
        times = self.times()
        ripe = [(at, place) for place, at in self._due.items() if times[place] <= now]
        places = [place for _, place in sorted(ripe)[:MAX_TOGETHER]]
        self._begun = {place: self._events.get(place, UNKNOWN) for place in places}
        return places

    def next_at(self) -> float | None:
        """When the next one is due."""
        return min(self.times().values(), default=None)

    def times(self) -> dict[TopicPartition, float]:
        """When each that waits is due."""
        return {place: max(at, self._not_before.get(place, 0.0)) for place, at in self._due.items()}

    def audited(self, places: Iterable[TopicPartition], report: AuditReport | None) -> list[TopicPartition]:
        """Take in that partitions were audited; None where the audit broke off.

        A partition that had a verdict is left alone for `rest_s`, whatever is read too late by then; one that had none
        is audited again after a pause that doubles up to `AGAIN_S`. An event makes either `SOON_S` at most, one that
        was seen while the audit ran as well. One of which no broker names a replica any more is forgotten.

        Returns:
            The partitions that are still there and had no verdict.
        """
        settled = {p.place for p in report.partitions if has_verdict(p)} if report else set()
        gone = {p.place for p in report.partitions if not p.replicas} if report else set()
        left = [place for place in places if place not in gone]
        for place in gone:
            self._forget(place)
        for place in left:
            due = self._due.pop(place, None)
            before = self._pause.get(place, _FIRST_PAUSE_S / 2)
            pause = self._rest_s if place in settled else min(AGAIN_S, 2 * before)
            self._pause[place] = _FIRST_PAUSE_S / 2 if place in settled else pause
            now = self._clock()
            is_quiet = now - self._audited_at.get(place, -_QUIET_S) >= _QUIET_S
            self._soon[place] = SOON_S if is_quiet else min(self._rest_s, 2 * self._soon[place])
            if due is not None and self._events.get(place, UNKNOWN) > self._begun.get(place, UNKNOWN):
                pause, self._due[place] = min(pause, self._soon[place]), due
            self._audited_at[place] = now
            self._not_before[place] = now + pause
        return [place for place in left if place not in settled]

    def _forget(self, place: TopicPartition) -> None:
        for known in (self._due, self._pause, self._not_before, self._audited_at, self._soon, self._events):
            known.pop(place, None)


class Unread(Waiting):
    """Which partitions wait for an audit, since nobody read some of their offsets in time."""

    def observe(self, coverages: Iterable[Coverage]) -> None:
        """Take in coverages; a partition waits as long as a replica of it cannot be reached."""
        if not self._delay_s:
            return
        for coverage in coverages:
            newest = max((span.since for span in coverage.unread if span.reason in EVENTS), default=UNKNOWN)
            if coverage.unread and all(broker.reachable for broker in coverage.brokers):
                self._wait(coverage.place, newest)
            else:
                self._due.pop(coverage.place, None)
                self._note_event(coverage.place, newest)


class Copied(Waiting):
    """Which partitions wait for an audit, since a replica of theirs has copied something late.

    Each copy is an event, and none is made again by itself: it has its audit within `SOON_S`, however many there were.

    Args:
        delay_s: as of `Waiting`.
        clock: as of `Waiting`.
    """

    def __init__(self, delay_s: float, clock: Callable[[], float]) -> None:
        super().__init__(delay_s, clock, rest_s=SOON_S)
        self._copied: dict[TopicPartition, int] = {}

    def observe(self, copied: Mapping[TopicPartition, int]) -> None:
        """Take in all that can be audited now, each with when its newest late copy was, milliseconds since 1970 UTC."""
        if not self._delay_s:
            return
        self._copied = dict(copied)
        for place in self._due.keys() - copied.keys():
            del self._due[place]
        for place, at_ms in copied.items():
            self._wait(place, at_ms)

    def audited(self, places: Iterable[TopicPartition], report: AuditReport | None) -> list[TopicPartition]:
        """Take in that partitions were audited; those with copies that are still late wait for the next audit."""
        undecided = super().audited(places, report)
        self.observe(self._copied)
        return undecided

    def _forget(self, place: TopicPartition) -> None:
        super()._forget(place)
        self._copied.pop(place, None)


class Doubted(Waiting):
    """Which partitions wait for an audit, since a spot check has found something there.

    A partition that has had a verdict is not audited again within `AGAIN_S`, for what is wrong stays so until somebody
    repairs it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(0.0, clock)

    def add(self, places: Iterable[TopicPartition]) -> None:
        """Take in what is in doubt."""
        for place in places:
            self._due.setdefault(place, self._clock())

    def audited(self, places: Iterable[TopicPartition], report: AuditReport | None) -> list[TopicPartition]:
        """Take in that partitions were audited; those that had no verdict wait for the next audit."""
        undecided = super().audited(places, report)
        self.add(undecided)
        return undecided


__all__ = ["AGAIN_S", "EVENTS", "MAX_TOGETHER", "SOON_S", "CaughtUp", "Copied", "Doubted", "Unread", "Waiting"]
