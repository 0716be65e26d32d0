"""Which partitions wait for an audit of their own inside the job, and when each is due."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from parallax.audit.ledger import has_verdict
from parallax.audit.result import AuditReport
from parallax.compare.suspect import Coverage
from parallax.model import UNKNOWN, TopicPartition

AGAIN_S = 3600.0
"""For how many seconds after a verdict a partition is not audited again, unless something happens in it."""

SOON_S = 300.0
"""How many seconds after an audit the partition may be audited again, if offsets have become unknown since.

That may happen again and again, as in a partition that cannot be compared. Then the time doubles with each audit, up to
`AGAIN_S`.
"""

_QUIET_S = 2 * AGAIN_S
"""A partition that had no audit for this many seconds begins with `SOON_S` again."""

MAX_TOGETHER = 32
"""How many partitions one audit of waiting partitions has at most; the others come with the next."""

_FIRST_PAUSE_S = 60.0


class CaughtUp:
    """Notices when a partition's deferred ranges can be audited: once all replicas have been read past them."""

    def __init__(self) -> None:
        self._deferring: set[TopicPartition] = set()

    def observe(self, coverages: Iterable[Coverage]) -> list[TopicPartition]:
        """Take in new coverages. Returns the partitions whose deferred ranges can be audited from now on."""
        due = []
        for coverage in coverages:
            place = coverage.place
            if coverage.deferred:
                self._deferring.add(place)
            elif place in self._deferring:
                self._deferring.remove(place)
                due.append(place)
        return due


@dataclass(slots=True)
class _Known:
    """What is known of a partition; times are seconds of the clock, events milliseconds since 1970 UTC.

    Attributes:
        due: when its audit may begin; None if it waits for none.
        pause_s: how long it was left alone after the last audit that had no verdict.
        not_before: until when it is left alone.
        audited_at: when its last audit ended.
        soon_s: how long after that an event has it audited again, at most.
        event: when its newest event was seen.
        begun: the same by when the audit began that is under way, or was last.
    """

    due: float | None = None
    pause_s: float = _FIRST_PAUSE_S / 2
    not_before: float = -math.inf
    audited_at: float | None = None
    soon_s: float = SOON_S
    event: int = UNKNOWN
    begun: int = UNKNOWN


class AuditQueue:
    """The partitions that wait for an audit for one reason, and when each audit is due.

    There is a subclass for each reason. An *event* is what makes an audit necessary, e.g. that a range was not read in
    time. It is no event of a table.

    Args:
        delay_s: how long an audit waits after its partition was noticed, in seconds; 0: it never is due.
        clock: returns monotonic seconds.
        rest_s: after an audit with a verdict, the partition is not audited again for this many seconds. A new event
            shortens that.
    """

    def __init__(self, delay_s: float, clock: Callable[[], float], rest_s: float = AGAIN_S) -> None:
        self._delay_s = delay_s
        self._clock = clock
        self._rest_s = rest_s
        self._known: dict[TopicPartition, _Known] = {}

    def _of(self, place: TopicPartition) -> _Known:
        return self._known.setdefault(place, _Known())

    def _wait(self, place: TopicPartition, newest: int) -> None:
        """A partition waits; an event that no audit has begun after has its audit soon, however lately there was one.

        Args:
            place: a partition.
            newest: when its newest event was, in milliseconds since 1970 UTC; -1: there is none.
        """
        one = self._of(place)
        if one.due is None:
            one.due = self._clock() + self._delay_s
        self._note_event(place, newest)

    def _wait_no_longer(self, place: TopicPartition) -> None:
        if place in self._known:
            self._known[place].due = None

    def _note_event(self, place: TopicPartition, newest: int) -> None:
        if newest <= UNKNOWN or newest <= self._of(place).event:
            return
        one = self._of(place)
        one.event = newest
        if one.audited_at is not None:
            one.not_before = min(one.not_before, one.audited_at + one.soon_s)

    def due(self) -> list[TopicPartition]:
        """The partitions whose audit is due, those that have waited longest first; at most `MAX_TOGETHER`."""
        now = self._clock()
        times = self.times()
        ripe = [(one.due, place) for place, one in self._known.items() if one.due is not None and times[place] <= now]
        return [place for _, place in sorted(ripe)[:MAX_TOGETHER]]

    def begin(self, places: Collection[TopicPartition]) -> list[TopicPartition]:
        """Note that an audit of some partitions begins now: it takes into account what has happened in them so far.

        Later events make another audit of a partition necessary.

        Args:
            places: the partitions of this audit. It may audit partitions that other queues ask for.

        Returns:
            The partitions of ``places`` that wait in this queue.
        """
        for place, one in self._known.items():
            one.begun = one.event if place in places else UNKNOWN
        return [place for place in places if place in self._known and self._known[place].due is not None]

    def next_at(self) -> float | None:
        """When the next audit is due, in monotonic seconds; None if none is."""
        return min(self.times().values(), default=None)

    def times(self) -> dict[TopicPartition, float]:
        """By partition that waits, when its audit is due, in monotonic seconds. That time may have passed."""
        return {place: max(one.due, one.not_before) for place, one in self._known.items() if one.due is not None}

    def audited(self, places: Iterable[TopicPartition], report: AuditReport | None) -> list[TopicPartition]:
        """Take in that partitions were audited, and set when each may be audited again.

        - A partition with a verdict rests for ``rest_s``.
        - One without a verdict is audited again after a pause, which doubles each time up to an hour (`AGAIN_S`).
        - A new event shortens either wait. The first such audit comes after five minutes (`SOON_S`); each further one
          in short order waits twice as long.
        - A partition that no broker holds any more is forgotten.

        Args:
            places: the partitions.
            report: the audit's report; None if the audit broke off.

        Returns:
            The partitions of ``places`` for which the report has no verdict: all of them if it is None. Those that no
            broker holds any more are left out.
        """
        settled = {p.place for p in report.partitions if has_verdict(p)} if report else set()
        gone = {p.place for p in report.partitions if not p.replicas} if report else set()
        left = [place for place in places if place not in gone]
        for place in gone:
            self._known.pop(place, None)
        now = self._clock()
        for place in left:
            one = self._of(place)
            due, one.due = one.due, None
            pause = self._rest_s if place in settled else min(AGAIN_S, 2 * one.pause_s)
            one.pause_s = _FIRST_PAUSE_S / 2 if place in settled else pause
            is_quiet = one.audited_at is None or now - one.audited_at >= _QUIET_S
            one.soon_s = SOON_S if is_quiet else min(self._rest_s, 2 * one.soon_s)
            if due is not None and one.event > one.begun:
                pause, one.due = min(pause, one.soon_s), due
            one.audited_at = now
            one.not_before = now + pause
        return [place for place in left if place not in settled]


class Unread(AuditQueue):
    """Queues audits of partitions in which some offsets were not read in time."""

    def observe(self, coverages: Iterable[Coverage]) -> None:
        """Take in new coverages, and queue the partitions in which offsets were not read in time.

        A partition does not wait while one of its replicas cannot be reached, because its audit could have no verdict.
        """
        if not self._delay_s:
            return
        for coverage in coverages:
            late = [span.since for span in coverage.unread if span.may_be_audited]
            newest = max(late, default=UNKNOWN)
            if late and all(broker.reachable for broker in coverage.brokers):
                self._wait(coverage.place, newest)
            else:
                self._wait_no_longer(coverage.place)
                self._note_event(coverage.place, newest)


class Copied(AuditQueue):
    """Queues audits of partitions in which some replica has copied something late.

    A late copy happens once and does not repeat itself. So the partition of each late copy is audited within five
    minutes (`SOON_S`), however many late copies it had before.

    Args:
        delay_s: how long an audit waits after its partition was noticed, in seconds; 0: it never is due.
        clock: returns monotonic seconds.
    """

    def __init__(self, delay_s: float, clock: Callable[[], float]) -> None:
        super().__init__(delay_s, clock, rest_s=SOON_S)
        self._copied: dict[TopicPartition, int] = {}

    def observe(self, copied: Mapping[TopicPartition, int]) -> None:
        """Set which partitions have late copies that can be audited now. Only these wait from now on.

        Args:
            copied: by partition, when its newest late copy was seen, in ms since 1970 UTC.
        """
        if not self._delay_s:
            return
        self._copied = dict(copied)
        for place in self._known.keys() - copied.keys():
            self._wait_no_longer(place)
        for place, at_ms in copied.items():
            self._wait(place, at_ms)

    def audited(self, places: Iterable[TopicPartition], report: AuditReport | None) -> list[TopicPartition]:
        """Take in that partitions were audited, and set when each may be audited again.

        A partition waits for another audit until `observe` leaves it out, because its late copies still count.

        Args:
            places: the partitions.
            report: the audit's report; None if the audit broke off.

        Returns:
            The partitions of ``places`` for which the report has no verdict: all of them if it is None. Those that no
            broker holds any more are left out.
        """
        undecided = super().audited(places, report)
        self._copied = {place: at_ms for place, at_ms in self._copied.items() if place in self._known}
        self.observe(self._copied)
        return undecided


class Doubted(AuditQueue):
    """Queues audits of partitions in which a spot check has found a fault.

    The fault is that a record which was aborted is committed now. After a verdict, a partition is not audited again for
    an hour (`AGAIN_S`). What is wrong stays wrong until somebody repairs it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(0.0, clock)

    def add(self, places: Iterable[TopicPartition]) -> None:
        """Queue partitions in which a spot check has found a fault. Their audits are due immediately."""
        for place in places:
            one = self._of(place)
            one.due = self._clock() if one.due is None else one.due

    def audited(self, places: Iterable[TopicPartition], report: AuditReport | None) -> list[TopicPartition]:
        """Take in that partitions were audited. Those without a verdict wait for another audit.

        Args:
            places: the partitions.
            report: the audit's report; None if the audit broke off.

        Returns:
            The partitions of ``places`` for which the report has no verdict: all of them if it is None. Those that no
            broker holds any more are left out.
        """
        undecided = super().audited(places, report)
        self.add(undecided)
        return undecided


__all__ = ["AGAIN_S", "MAX_TOGETHER", "SOON_S", "AuditQueue", "CaughtUp", "Copied", "Doubted", "Unread"]
