"""Audits inside the always-on job: at an interval, and of what the stream had to leave out.

An audit shares the job's Spark session and takes one of its task slots; an audit that fails is counted and logged, and
the job goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import structlog

from parallax.audit.cluster import select
from parallax.audit.confirm import Confirm, Confirmed, confirm
from parallax.audit.plan import Place
from parallax.audit.result import AuditReport
from parallax.audit.run import Audit
from parallax.compare.suspect import Coverage, Suspect
from parallax.compare.tables import append_suspects, create_suspects
from parallax.config import Settings
from parallax.findings.manager import FindingsManager
from parallax.replica.client import ReplicaClient

log = structlog.get_logger(__name__)

_WRITER = "audit"
"""Who the suspects of audits are from, beside the ids of queries, in the log of their table."""

RunAudit = Callable[[str, Sequence[Place]], AuditReport]
"""(``brokers`` or ``tables``, partitions; none are all that the settings name) -> what it came to."""


class CaughtUp:
    """Notices when a range that the stream left out can be compared: all replicas have been read past it."""

    def __init__(self) -> None:
        self._deferring: set[Place] = set()

    def observe(self, coverages: Iterable[Coverage]) -> list[Place]:
        """Take in coverages; returns the partitions whose deferred ranges have just been passed by every replica."""
        due = []
        for coverage in coverages:
            place = coverage.topic, coverage.partition
            if coverage.deferred:
                self._deferring.add(place)
            elif place in self._deferring:
                self._deferring.remove(place)
                due.append(place)
        return due


class AuditSchedule:
    """Runs audits one after the other in a thread of its own.

    Args:
        interval_s: between the ends of one audit of the brokers and the beginning of the next; 0: none.
        run: runs an audit.
        on_report: is told what each came to.
        on_failure: is told when one has failed.
        clock: monotonic seconds, for tests.
    """

    def __init__(
        self,
        interval_s: float,
        run: RunAudit,
        on_report: Callable[[AuditReport], None],
        on_failure: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval_s = interval_s
        self._run_audit = run
        self._on_report = on_report
        self._on_failure = on_failure
        self._clock = clock
        self._caught_up = CaughtUp()
        self._queued: dict[Place, None] = {}
        self._next = clock() + interval_s
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Begin; the first audit of the brokers is one interval away."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Begin no more audits; one that is under way may go on in its thread for longer."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def observe(self, coverages: Iterable[Coverage]) -> None:
        """Take in what the comparison covers; queues an audit of the tables where a deferred range was passed."""
        due = self._caught_up.observe(coverages)
        if due:
            with self._lock:
                self._queued.update(dict.fromkeys(due))
            self._wake.set()

    def run_due(self) -> bool:
        """Run what is due now; returns whether there was anything."""
        with self._lock:
            queued, self._queued = list(self._queued), {}
        if queued:
            self._guarded("tables", queued)
        if self._interval_s and self._clock() >= self._next and not self._stop.is_set():
            self._guarded("brokers", ())
            self._next = self._clock() + self._interval_s
            return True
        return bool(queued)

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self.run_due():
                left = self._next - self._clock() if self._interval_s else 3600.0
                self._wake.wait(max(0.0, left))
                self._wake.clear()

    def _guarded(self, source: str, places: Sequence[Place]) -> None:
        try:
            report = self._run_audit(source, places)
            self._on_report(report)
        except Exception as error:  # noqa: BLE001 - the job goes on, whatever becomes of an audit
            if not self._stop.is_set():
                log.warning("an audit failed", source=source, error=str(error).strip().split("\n", 1)[0])
                self._on_failure()
            return
        log.info("audit", source=source, result=str(report.result), partitions=len(report.partitions))


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

    def run(source: str, places: Sequence[Place]) -> AuditReport:
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


def _confirming(settings: Settings, manager: FindingsManager) -> Confirm:
    """Suspects go the way of the stream's: into their table first, so that they outlive the process."""

    def told(suspects: Sequence[Suspect]) -> Confirmed:
        new = manager.undecided(suspect.suspect_id for suspect in suspects)
        fresh = [suspect for suspect in suspects if suspect.suspect_id in new]
        if fresh:
            create_suspects(settings.storage.path)
            append_suspects(settings.storage.path, fresh, _WRITER, time.time_ns() // 1_000_000)
        return confirm(manager, suspects, settings.audit.confirm_timeout_s)

    return told


__all__ = ["AuditSchedule", "CaughtUp", "RunAudit", "job_audits"]
