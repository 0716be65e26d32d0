"""Audits inside the always-on job: at an interval, of what the stream had to leave out, and of what was read too late.

A broker that is back is checked in spots first; an audit follows of the partitions in which that has found something.

An audit shares the job's Spark session and takes one of its task slots; an audit that fails is counted and logged, and
the job goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import SystemRandom
from typing import Any

import structlog

from parallax.audit.cluster import select
from parallax.audit.confirm import Confirm, Confirmed, confirm
from parallax.audit.ledger import has_verdict
from parallax.audit.result import AuditReport, Result
from parallax.audit.returned import Returned
from parallax.audit.run import Audit
from parallax.audit.spot import Checked, SpotChecks
from parallax.compare.suspect import Coverage, Suspect
from parallax.compare.tables import append_suspects, create_suspects
from parallax.config import Settings
from parallax.findings.manager import FindingsManager
from parallax.model import UNKNOWN, TopicPartition, UnknownReason
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.source.pace import Pace, TokenBucket

log = structlog.get_logger(__name__)

_NAMED = 20
"""Partitions of an audit that are named one by one in the log."""
_WRITER = "audit"
"""The writer of the suspects of audits, beside the ids of queries, in the log of their table."""

AGAIN_S = 3600.0
"""A partition that was audited since it was not read in time is left alone for so long, rates or not."""

SOON_S = 300.0
"""So long after an audit at most, an event that has made offsets of a partition unknown has it audited again."""

EVENTS = frozenset({UnknownReason.BEFORE_FIRST_READING, UnknownReason.SKIPPED})
"""Reasons that an event gives: a log was truncated (as by an unclean election) or replaced, a replica was added, the
comparison began anew. The others come again by themselves, as where a retention is shorter than a reading takes."""

MAX_TOGETHER = 32
"""Partitions of one such audit: the next ones have their turn after it."""

_FIRST_PAUSE_S = 60.0

_HELD_S = 2.0
"""How often is looked whether audits may begin again."""

RunAudit = Callable[[str, Sequence[TopicPartition]], AuditReport]
"""(``brokers`` or ``tables``, partitions; none are all that the settings name) -> what it came to."""

RunSpotChecks = Callable[[Mapping[int, Sequence[TopicPartition]], Callable[[], bool]], Checked]
"""(partitions by the broker that is back with them, whether to end early) -> what was found."""


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


class Unread:
    """Which partitions wait for an audit, since nobody read some of their offsets in time, and when each is due.

    Args:
        delay_s: how long after it was noticed; 0: never.
        clock: monotonic seconds.
    """

    def __init__(self, delay_s: float, clock: Callable[[], float]) -> None:
        self._delay_s = delay_s
        self._clock = clock
        self._due: dict[TopicPartition, float] = {}
        self._pause: dict[TopicPartition, float] = {}
        self._not_before: dict[TopicPartition, float] = {}
        self._audited_at: dict[TopicPartition, float] = {}
        self._events: dict[TopicPartition, int] = {}
        """When the newest event of each partition was read, in milliseconds since 1970 UTC."""
        self._begun: dict[TopicPartition, int] = {}
        """The same by when the audit began that is under way."""

    def observe(self, coverages: Iterable[Coverage]) -> None:
        """Take in coverages; a partition waits as long as a replica of it cannot be reached."""
        if not self._delay_s:
            return
        for coverage in coverages:
            place = coverage.place
            if coverage.unread and all(broker.reachable for broker in coverage.brokers):
                self._due.setdefault(place, self._clock() + self._delay_s)
            else:
                self._due.pop(place, None)
            self._note_event(coverage)

    def _note_event(self, coverage: Coverage) -> None:
        """An event that no audit has begun after has its audit soon, however lately there was one."""
        place = coverage.place
        newest = max((span.since for span in coverage.unread if span.reason in EVENTS), default=UNKNOWN)
        if newest <= self._events.get(place, UNKNOWN):
            return
        self._events[place] = newest
        if place in self._audited_at:
            soon = self._audited_at[place] + SOON_S
            self._not_before[place] = min(self._not_before.get(place, soon), soon)

    def due(self) -> list[TopicPartition]:
        """Return those whose time has come, the longest waiting first; at most `MAX_TOGETHER`. Their audit begins."""
        now = self._clock()
        ripe = [(at, p) for p, at in self._due.items() if max(at, self._not_before.get(p, 0.0)) <= now]
        places = [place for _, place in sorted(ripe)[:MAX_TOGETHER]]
        self._begun = {place: self._events.get(place, UNKNOWN) for place in places}
        return places

    def next_at(self) -> float | None:
        """When the next one is due."""
        return min((max(at, self._not_before.get(p, 0.0)) for p, at in self._due.items()), default=None)

    def audited(self, places: Iterable[TopicPartition], report: AuditReport | None) -> None:
        """Take in that partitions were audited; None where the audit broke off.

        A partition that had a verdict is not audited again within `AGAIN_S`, whatever is read too late by then; one
        that had none is audited again after a pause that doubles up to that. An event makes either `SOON_S` at most,
        one that was read while the audit ran as well.
        """
        settled = {p.place for p in report.partitions if has_verdict(p)} if report else set()
        for place in places:
            due = self._due.pop(place, None)
            before = self._pause.get(place, _FIRST_PAUSE_S / 2)
            pause = AGAIN_S if place in settled else min(AGAIN_S, 2 * before)
            self._pause[place] = _FIRST_PAUSE_S / 2 if place in settled else pause
            if due is not None and self._events.get(place, UNKNOWN) > self._begun.get(place, UNKNOWN):
                pause, self._due[place] = min(pause, SOON_S), due
            self._audited_at[place] = self._clock()
            self._not_before[place] = self._clock() + pause


class Doubted(Unread):
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

    def audited(self, places: Iterable[TopicPartition], report: AuditReport | None) -> None:
        """Take in that partitions were audited; those that had no verdict wait for the next audit."""
        places = list(places)
        super().audited(places, report)
        settled = {p.place for p in report.partitions if has_verdict(p)} if report else set()
        self.add(place for place in places if place not in settled)


class AuditSchedule:
    """Runs audits one after the other in a thread of its own.

    Args:
        interval_s: between the ends of one audit of the brokers and the beginning of the next; 0: none.
        run: runs an audit.
        on_report: called with what each came to.
        on_failure: called when one has failed.
        unread_delay_s: how long after it was noticed a partition is audited that was not read in time; 0: never.
        clock: monotonic seconds, for tests.
        is_held: whether none is to begin at present.
        spot_checks: checks brokers that are back; None: they are not.
    """

    def __init__(
        self,
        interval_s: float,
        run: RunAudit,
        on_report: Callable[[AuditReport], None],
        on_failure: Callable[[], None],
        unread_delay_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        is_held: Callable[[], bool] = lambda: False,
        spot_checks: RunSpotChecks | None = None,
    ) -> None:
        self._interval_s = interval_s
        self._run_audit = run
        self._on_report = on_report
        self._on_failure = on_failure
        self._clock = clock
        self._is_held = is_held
        self._caught_up = CaughtUp()
        self._unread = Unread(unread_delay_s, clock)
        self._spot_checks = spot_checks
        self._returned = Returned(clock)
        self._doubted = Doubted(clock)
        self._queued: dict[TopicPartition, None] = {}
        self._next = clock() + interval_s
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Begin; the first audit of all that the brokers show is one interval away."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Begin no more audits; one that is under way may go on in its thread for longer."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def observe(self, coverages: Iterable[Coverage]) -> None:
        """Take in what the comparison covers.

        Queues an audit of the tables where a deferred range was passed, one of the brokers where offsets were not read
        in time, and spot checks of a broker that is back.
        """
        coverages = list(coverages)
        due = self._caught_up.observe(coverages)
        with self._lock:
            waited_for = self._next_at()
            self._unread.observe(coverages)
            if self._spot_checks is not None:
                self._returned.observe(coverages)
            self._queued.update(dict.fromkeys(due))
            sooner = self._next_at() != waited_for
        if due or sooner:
            self._wake.set()

    def run_due(self) -> bool:
        """Run what is due now; returns whether there was anything."""
        if self._is_over():
            return False
        with self._lock:
            queued, self._queued = list(self._queued), {}
            back = self._returned.due()
        if queued:
            self._guarded("tables", queued)
        if back:
            self._check(back)
        audited = [self._audit_due(waiting) for waiting in (self._doubted, self._unread)]
        if self._interval_s and self._clock() >= self._next and not self._is_over():
            self._guarded("brokers", ())
            self._next = self._clock() + self._interval_s
            return True
        return bool(queued or back or any(audited))

    def _is_over(self) -> bool:
        """Whether nothing is to begin any more, or not at present."""
        return self._stop.is_set() or self._is_held()

    def _audit_due(self, waiting: Unread) -> bool:
        """Audit the brokers for the partitions whose time has come; returns whether there were any."""
        if self._is_over():
            return False
        with self._lock:
            places = waiting.due()
        if places:
            report = self._guarded("brokers", places)
            with self._lock:
                waiting.audited(places, report)
        return bool(places)

    def _next_at(self) -> float | None:
        """When the next partition, or the next broker that is back, is due; with the lock held."""
        waiting = (self._unread, self._doubted, self._returned)
        times = [at for at in (one.next_at() for one in waiting) if at is not None]
        return min([*times, *([self._clock()] if self._queued else [])], default=None)

    def _check(self, back: Mapping[int, Sequence[TopicPartition]]) -> None:
        """Spot checks; those that fail, and what was not answered, are run again."""
        if self._spot_checks is None:
            return
        checked = Checked(unanswered={broker: list(places) for broker, places in back.items()})
        try:
            checked = self._spot_checks(back, self._is_over)
        except Exception as error:  # noqa: BLE001 - as for audits
            if not self._stop.is_set():
                log.warning("spot checks failed", brokers=sorted(back), error=str(error).strip().split("\n", 1)[0])
                self._on_failure()
        with self._lock:
            self._doubted.add(checked.doubted)
            self._returned.asked(back, checked.unanswered)

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self.run_due():
                with self._lock:
                    next_at = self._next_at()
                times = [self._next] if self._interval_s else []
                times += [next_at] if next_at is not None else []
                due_in = max(0.0, min(times, default=self._clock() + 3600.0) - self._clock())
                self._wake.wait(max(due_in, _HELD_S) if self._is_held() else due_in)
                self._wake.clear()

    def _guarded(self, source: str, places: Sequence[TopicPartition]) -> AuditReport | None:
        try:
            report = self._run_audit(source, places)
            self._on_report(report)
        except Exception as error:  # noqa: BLE001 - the job goes on, whatever becomes of an audit
            if not self._stop.is_set():
                log.warning("an audit failed", source=source, error=str(error).strip().split("\n", 1)[0])
                self._on_failure()
            return None
        log.info("audit", source=source, result=str(report.result), partitions=len(report.partitions))
        log_unknown(report)
        return report


def log_unknown(report: AuditReport) -> None:
    """Log each partition of which an audit could not tell whether its replicas agree, and why; the first `_NAMED`."""
    unknown = [one for one in report.partitions if one.result is Result.UNKNOWN]
    for one in unknown[:_NAMED]:
        why = "; ".join(one.reasons)
        log.warning("an audit could not tell whether replicas agree", topic=one.topic, partition=one.partition, why=why)
    if more := unknown[_NAMED:]:
        log.warning("an audit could not tell of more partitions", partitions=len(more))


def job_audits(
    settings: Settings, client: ReplicaClient, session: Callable[[], Any], manager: FindingsManager, key: str
) -> RunAudit:
    """How the job runs an audit: in its session, and with its findings manager.

    Args:
        settings: of the job.
        client: pinned client.
        session: gives the job's session, which may be another one by then.
        manager: the job's.
        key: the views' hash key, 32 hexadecimal digits.
    """

    def run(source: str, places: Sequence[TopicPartition]) -> AuditReport:
        chosen = list(places) or select(client, settings, settings.audit.topics)
        audit = Audit(
            settings,
            client,
            session(),
            chosen,
            hash_key=key,
            confirm=_confirming(settings, manager),
            max_bytes_per_second=settings.audit.max_bytes_per_second or None,
            slots=1,
        )
        return audit.of_tables() if source == "tables" else audit.of_brokers()

    return run


def job_spot_checks(
    settings: Settings, client: ReplicaClient, key: str, on_checked: Callable[[Mapping[str, int]], None]
) -> RunSpotChecks | None:
    """How the job checks a broker that is back; None where the settings have it off.

    Args:
        settings: of the job.
        client: pinned client.
        key: the views' hash key, 32 hexadecimal digits.
        on_checked: called with how many records were found how (`parallax.audit.spot.Spot`).
    """
    if not settings.audit.spot_checks:
        return None
    rate = settings.audit.max_bytes_per_second
    checks = SpotChecks(
        settings.storage.path,
        client,
        ContentHasher(bytes.fromhex(key)),
        settings.audit.spot_checks,
        lambda: Pace(TokenBucket(rate), None) if rate else None,
        settings.read.request_timeout_ms,
        SystemRandom().getrandbits(63),
    )

    def run(back: Mapping[int, Sequence[TopicPartition]], is_over: Callable[[], bool]) -> Checked:
        checked = checks.check(back, is_over)
        found = {str(spot): count for spot, count in checked.counts.items()}
        on_checked(found)
        if found:
            log.info("spot checks", brokers=sorted(back), **found)
        for place in checked.doubted:
            why = "a record that was aborted is committed now; the partition is audited"
            log.warning(why, topic=place.topic, partition=place.partition)
        return checked

    return run


def _confirming(settings: Settings, manager: FindingsManager) -> Confirm:
    """Suspects go the way of the stream's: into their table first, so that they outlive the process."""

    def confirmed(suspects: Sequence[Suspect]) -> Confirmed:
        fresh = manager.new(suspects)
        if fresh:
            create_suspects(settings.storage.path)
            append_suspects(settings.storage.path, fresh, _WRITER, time.time_ns() // 1_000_000)
        return confirm(manager, suspects, settings.audit.confirm_timeout_s)

    return confirmed


__all__ = ["AuditSchedule", "CaughtUp", "RunAudit", "RunSpotChecks", "Unread", "job_audits", "job_spot_checks"]
