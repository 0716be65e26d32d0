"""Decides when the always-on job runs audits and spot checks, and runs them.

- All partitions are audited at an interval.
- A single partition is audited if the stream deferred a range of it, if offsets were not read in time, or if a replica
  copied something late.
- A broker that is back is spot-checked. Partitions in which the spot check has found something are audited.

An audit shares the job's Spark session and takes one of its task slots. An audit that fails is counted and logged, and
the job goes on.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import SystemRandom
from typing import Any

import structlog

from parallax.audit.cluster import select
from parallax.audit.confirm import Confirm, Confirmed, confirm
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.audit.returned import Returned
from parallax.audit.run import Audit
from parallax.audit.spot import Checked, SpotChecks
from parallax.audit.waiting import MAX_TOGETHER, AuditQueue, CaughtUp, Copied, Doubted, Unread
from parallax.compare.suspect import Coverage, Suspect
from parallax.compare.tables import append_suspects, create_suspects
from parallax.config import Settings
from parallax.counts import counted, named
from parallax.errors import one_line
from parallax.findings.finding import Finding
from parallax.findings.manager import FindingsManager
from parallax.findings.report import short_id
from parallax.model import TopicPartition
from parallax.moments import now_ms
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.source.pace import Pace, TokenBucket

log = structlog.get_logger(__name__)

_NAMED = 20
"""How many partitions of an audit the log names one by one."""
_FINDINGS = 3
"""How many findings of a partition the log spells out."""
_WRITER = "audit"
"""The writer of the audits' suspects, in the log of their table. Other writers are the ids of queries."""

_HELD_S = 2.0
"""How many seconds pass between two looks whether audits may begin again."""

RunAudit = Callable[[str, Sequence[TopicPartition]], AuditReport]
"""Runs an audit and returns its report. It is given ``brokers`` or ``tables``, and the partitions.

Without partitions it audits all that the settings name.
"""

RunSpotChecks = Callable[[Mapping[int, Sequence[TopicPartition]], Callable[[], bool]], Checked]
"""Checks brokers that are back and returns what it found.

It is given the partitions to check, by broker, and a function that says whether to end early.
"""


class AuditSchedule:
    """Runs the job's audits and spot checks one after the other, in a thread, each when it is due.

    Args:
        interval_s: seconds from the end of one audit of all partitions to the beginning of the next; 0: none.
        run: runs an audit.
        on_report: called with each report.
        on_failure: called when an audit has failed.
        unread_delay_s: how long a partition's audit waits after the job notices that offsets were not read in time, or
            were copied late, in seconds; 0: no such audit.
        clock: returns monotonic seconds; a test gives its own.
        is_held: returns whether no audit may begin at present.
        spot_checks: checks brokers that are back; None: they are not checked.
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
        self._copied = Copied(unread_delay_s, clock)
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
        """Start the thread. The first audit of all partitions is due after one interval."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Begin no more audits, and wait up to ``timeout_s`` for a running one. After that it goes on in its thread."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def observe(self, coverages: Iterable[Coverage]) -> None:
        """Queue the audits and spot checks that new coverages of the comparison call for.

        - All replicas have been read past a deferred range: an audit of the tables follows.
        - Offsets were not read in time: an audit of the brokers follows.
        - A broker is back: spot checks follow.
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

    def observe_copies(self, copied: Mapping[TopicPartition, int]) -> None:
        """Set which partitions need an audit because a replica has copied something late.

        Args:
            copied: by partition with late copies that can be audited now, when the newest copy was seen, milliseconds
                since 1970 UTC. A partition that is not here no longer waits.
        """
        with self._lock:
            waited_for = self._next_at()
            self._copied.observe(copied)
            sooner = self._next_at() != waited_for
        if sooner:
            self._wake.set()

    def due_in(self) -> dict[TopicPartition, float]:
        """By partition that waits for an audit of its own, in how many seconds that audit is due.

        Only audits count that are due because something was not read in time, or was copied late.
        """
        found: dict[TopicPartition, float] = {}
        with self._lock:
            now = self._clock()
            for waiting in (self._unread, self._copied):
                for place, at in waiting.times().items():
                    found[place] = min(found.get(place, math.inf), max(0.0, at - now))
        return found

    def run_due(self) -> bool:
        """Run the audits and spot checks that are due now. Returns whether there were any."""
        if self._is_over():
            return False
        with self._lock:
            queued, self._queued = list(self._queued), {}
            back = self._returned.due()
        if queued:
            self._guarded("tables", queued)
        if back:
            self._check(back)
        audited = self._audit_due()
        if self._interval_s and self._clock() >= self._next and not self._is_over():
            self._guarded("brokers", ())
            self._next = self._clock() + self._interval_s
            return True
        return bool(queued or back or audited)

    def _is_over(self) -> bool:
        """Whether nothing is to begin any more, or not at present."""
        return self._stop.is_set() or self._is_held()

    def _audit_due(self) -> bool:
        """Audit the brokers for the partitions whose time has come; returns whether there were any.

        One audit is for all that a partition waits for.
        """
        if self._is_over():
            return False
        queues: tuple[AuditQueue, ...] = (self._doubted, self._unread, self._copied)
        with self._lock:
            places = list(dict.fromkeys(place for waiting in queues for place in waiting.due()))[:MAX_TOGETHER]
            begun = [(waiting, waiting.begin(places)) for waiting in queues]
        if places:
            report = self._guarded("brokers", places)
            with self._lock:
                for waiting, mine in begun:
                    if mine:
                        waiting.audited(mine, report)
        return bool(places)

    def _next_at(self) -> float | None:
        """When the next partition, or the next broker that is back, is due; with the lock held."""
        waiting = (self._unread, self._copied, self._doubted, self._returned)
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
                what = "whether records that were aborted are committed by now is asked again"
                log.warning("spot checks failed", brokers=sorted(back), error=one_line(error), what=what)
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
                what = "its partitions are audited again later; what they are unknown in stays so until then"
                log.warning("an audit failed", read_from=source, error=one_line(error), what=what)
                self._on_failure()
            return None
        known = len(_diverged(report)) - len(log_diverged(report))
        in_them = f"what findings had said before it was still true in {counted(known, 'partition')} when it asked"
        log.info(
            "an audit has ended",
            read_from=source,
            result=str(report.result),
            partitions=len(report.partitions),
            where=named(one.place.name for one in report.partitions),
            what=in_them if known else None,
        )
        log_unknown(report)
        return report


def _diverged(report: AuditReport) -> list[PartitionResult]:
    return [one for one in report.partitions if one.result is Result.DIVERGED]


def log_diverged(report: AuditReport) -> dict[TopicPartition, list[Finding]]:
    """Log the new findings of an audit: one line for each partition that has any, up to 20 partitions.

    A finding that was suspected before the audit began is not new; the log has it already.

    Returns:
        By partition that has any, its new findings.
    """
    found = {one.place: [f for f in one.findings if _is_new(f, report)] for one in _diverged(report)}
    news = {place: findings for place, findings in found.items() if findings}
    diverged = list(news.items())
    for place, findings in diverged[:_NAMED]:
        said = [f"{short_id(finding)}: {finding.summary}" for finding in findings[:_FINDINGS]]
        more = [f"and {counted(len(findings) - _FINDINGS, 'more finding')}"] if findings[_FINDINGS:] else []
        about = {"topic": place.topic, "partition": place.partition}
        log.warning("an audit found that replicas differ", **about, what="; ".join([*said, *more]))
    if others := diverged[_NAMED:]:
        what = "parallax findings list names what is open"
        log.warning("an audit found that replicas differ in more partitions", partitions=len(others), what=what)
    return news


def _is_new(finding: Finding, report: AuditReport) -> bool:
    return finding.first_suspected_at.timestamp() >= report.started_at


def log_unknown(report: AuditReport) -> None:
    """Log the partitions for which an audit could not decide whether their replicas agree, and why.

    At most 20 partitions are named; the others are counted.
    """
    unknown = [one for one in report.partitions if one.result is Result.UNKNOWN]
    for one in unknown[:_NAMED]:
        about = {"topic": one.topic, "partition": one.partition, "why": "; ".join(one.reasons)}
        what = "the job audits it again by itself where that may tell more"
        log.warning("an audit could not tell whether replicas agree", **about, what=what)
    if more := unknown[_NAMED:]:
        what = "parallax audit names each, and why"
        log.warning("an audit could not tell of more partitions", partitions=len(more), what=what)


def job_audits(
    settings: Settings, client: ReplicaClient, session: Callable[[], Any], manager: FindingsManager, key: str
) -> RunAudit:
    """Make the function by which the job runs an audit, with its own Spark session and findings manager.

    Args:
        settings: the job's settings.
        client: asks the brokers.
        session: returns the job's Spark session; it is called for each audit, since the job may have replaced it.
        manager: the job's findings manager.
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
    """Make the function by which the job runs spot checks; None if the settings turn them off.

    Args:
        settings: the job's settings.
        client: asks the brokers.
        key: the views' hash key, 32 hexadecimal digits.
        on_checked: called after each spot check. Its argument says, by result (`parallax.audit.spot.Spot`), how many
            records had that result.
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
            log.info(
                "a spot check has read aborted records again, on brokers that the job sees again or for the first time",
                brokers=sorted(back),
                what=f"{checked.in_words()}; that is done where a broker has not just answered before, as at the start "
                "of the job",
            )
        for place in checked.doubted:
            event = "a record that was aborted is committed now; the partition is audited"
            log.warning(event, topic=place.topic, partition=place.partition)
        return checked

    return run


def _confirming(settings: Settings, manager: FindingsManager) -> Confirm:
    """Suspects go the way of the stream's: into their table first, so that they outlive the process."""

    def confirmed(suspects: Sequence[Suspect]) -> Confirmed:
        fresh = manager.new(suspects)
        if fresh:
            create_suspects(settings.storage.path)
            append_suspects(settings.storage.path, fresh, _WRITER, now_ms())
        return confirm(manager, suspects, settings.audit.confirm_timeout_s)

    return confirmed


__all__ = ["AuditSchedule", "CaughtUp", "RunAudit", "RunSpotChecks", "Unread", "job_audits", "job_spot_checks"]
