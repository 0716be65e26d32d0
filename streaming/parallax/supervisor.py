"""Keeps streaming queries alive: it restarts a query that fails or makes no progress, with backoff.

It waits while an outage lasts, such as a full disk. It knows a query only by the few members of Spark's
``StreamingQuery`` that it uses, so it imports no Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Any, Protocol

import structlog

from parallax.backoff import backoff
from parallax.config import SupervisorSettings
from parallax.release import said_in

log = structlog.get_logger(__name__)


_LONGEST_DEADLINE = 8
"""A query's deadline grows to at most so many times the setting."""


_START_DEADLINES = 10
"""How many deadlines a query may take to start."""


class Query(Protocol):
    """The members of ``pyspark.sql.streaming.StreamingQuery`` that the supervisor uses."""

    @property
    def isActive(self) -> bool: ...  # noqa: N802, D102 - Spark's name

    @property
    def lastProgress(self) -> Any: ...  # noqa: N802, D102 - Spark's name

    def exception(self) -> Any: ...  # noqa: D102

    def stop(self) -> None: ...  # noqa: D102


class Outage(Protocol):
    """A reason why no query can run for a while, such as a full disk; the supervisor waits until it is over.

    The object that notices the outage also logs it.
    """

    def caused(self, error: str) -> bool:
        """Whether a query failed because of the outage.

        Args:
            error: the text of the query's error.
        """
        ...

    def lasts(self) -> bool:
        """Whether the outage (e.g. a full disk) is not over yet. While it lasts, the supervisor starts no query."""
        ...


@dataclass(frozen=True)
class Supervised:
    """A query that the supervisor keeps alive: how to start it, repair its checkpoint, and see whether it progresses.

    Attributes:
        name: name of the query.
        start: starts the query.
        mend: called before each start with how many starts in a row completed no micro-batch, and with the last error
            if the query has made no progress since. Returns in one line what it did to the query's checkpoint; None if
            nothing.
        activity: returns a value that changes as soon as the running micro-batch makes progress, such as the number of
            tasks that have ended; None if that cannot be known.
        rows: returns how many rows the query has taken in since it was made; None if Spark itself counts them.
        mark: returns a value that changes once a micro-batch has ended; None if that cannot be known. It costs less
            than the query's own report, which grows with the number of partitions.
    """

    name: str
    start: Callable[[], Query]
    mend: Callable[[int, str | None], str | None] = lambda *_: None
    activity: Callable[[Query], Any] = lambda _: None
    rows: Callable[[], int] | None = None
    mark: Callable[[Query], Any] = lambda _: None


@dataclass
class QueryReport:
    """The present state of one query, for metrics and the status page.

    Attributes:
        name: the query's name.
        up: whether it runs.
        restarts: how often it was restarted.
        last_progress: when it last made progress, in seconds since 1970 UTC; None before its first progress.
        batch_seconds: how long its last micro-batch took, once it was planned.
        rows: how many rows it has taken in.
        error: why it failed last; None once it has made progress again.
        checkpoints_set_aside: how many of its checkpoints were set aside because they could not be used.
    """

    name: str
    up: bool = False
    restarts: int = 0
    last_progress: float | None = None
    batch_seconds: float = 0.0
    rows: int = 0
    error: str | None = None
    checkpoints_set_aside: int = 0


@dataclass
class _Watch:
    spec: Supervised
    report: QueryReport
    query: Query | None = None
    batch_seen: Any = None
    marked: Any = None
    alive_since: float = 0.0
    activity: Any = None
    stalls: int = 0
    retry_at: float = 0.0
    failures: int = 0
    stopping: threading.Thread | None = field(default=None)
    stopping_since: float = 0.0


class Supervisor:
    """Starts queries, watches them from one thread, and restarts those that fail or make no progress.

    A query that makes no progress for ``no_progress_deadline_s`` is restarted, and begins its micro-batch again. Under
    overload a restart must not make things worse. So each Spark task of the running batch that ends counts as progress.
    And each restart without a completed batch doubles the query's deadline, to at most eight times the setting.

    Spark can stop a query only once its thread returns. If stopping takes as long as the deadline, the thread hangs.
    Then ``last_resort`` is called.

    If a query fails because of an outage, that counts neither for its backoff nor against its checkpoint. It is started
    again once the outage is over.

    Args:
        queries: the queries to run.
        settings: the backoff and the deadline.
        on_report: called with each query's report after every look at it; it must not raise.
        clock: returns monotonic seconds; tests give their own.
        draw: random numbers that spread the restarts; tests give their own.
        last_resort: ends the program that runs the queries (Spark's JVM). It is called if a query cannot be stopped, or
            if that program does not answer.
        outages: reasons that may keep every query from running.
    """

    def __init__(
        self,
        queries: Sequence[Supervised],
        settings: SupervisorSettings,
        on_report: Callable[[QueryReport], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Random | None = None,
        last_resort: Callable[[], None] = lambda: None,
        outages: Sequence[Outage] = (),
    ) -> None:
        self._last_resort = last_resort
        self._outages = tuple(outages)
        self._watches = [_Watch(spec, QueryReport(spec.name)) for spec in queries]
        self._settings = settings
        self._on_report = on_report or (lambda _: None)
        self._clock = clock
        self._draw = draw or SystemRandom()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._awaiting: tuple[float, float] | None = None
        """Since when an answer of Spark is awaited, and for how long it may be, in seconds; None if none is."""

    def start(self, interval_s: float = 0.2) -> None:
        """Start the queries, all at the same time, then look at them every ``interval_s`` seconds."""
        with ThreadPoolExecutor(max(1, len(self._watches)), "supervisor-start") as pool:
            list(pool.map(self._look_after, self._watches))
        self._awaiting = None  # each of the threads put back what it had found there
        self._thread = threading.Thread(target=self._run, args=(interval_s,), name="supervisor", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch_over, args=(interval_s,), name="supervisor-watch", daemon=True).start()

    def stop(self, timeout_s: float = 20.0) -> None:
        """Stop watching, then stop all queries at the same time, so that one that hangs delays no other.

        Args:
            timeout_s: how many seconds the watching thread, and then the queries, have to stop.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        stoppers = [threading.Thread(target=_stop_quietly, args=(w.query,), daemon=True) for w in self._watches]
        for thread in stoppers:
            thread.start()
        deadline = time.monotonic() + timeout_s
        for thread in stoppers:
            thread.join(max(0.0, deadline - time.monotonic()))

    def look(self) -> None:
        """Look once at every query: note its progress, and restart it if it stopped or makes none."""
        for watch in self._watches:
            self._look_after(watch)

    def _look_after(self, watch: _Watch) -> None:
        try:
            with self._answering(self._settings.no_progress_deadline_s):
                self._look_at(watch)
        except Exception as error:  # noqa: BLE001 - the watchman outlives whatever a query throws
            self._failed(watch, error)
        self._on_report(watch.report)

    def _run(self, interval_s: float) -> None:
        while not self._stop.wait(interval_s):
            self.look()

    def _watch_over(self, interval_s: float) -> None:
        """Call ``last_resort`` if Spark does not answer: a question to a JVM that is frozen would wait for ever."""
        while not self._stop.wait(interval_s):
            awaiting = self._awaiting
            if awaiting is not None and self._clock() - awaiting[0] > awaiting[1]:
                log.error("Spark does not answer; it is ended, and started again", took_s=round(awaiting[1]))
                self._awaiting = None
                self._last_resort()

    @contextmanager
    def _answering(self, within_s: float) -> Iterator[None]:
        before, self._awaiting = self._awaiting, (self._clock(), within_s)
        try:
            yield
        finally:
            self._awaiting = before and (self._clock(), before[1])

    def _look_at(self, watch: _Watch) -> None:
        now = self._clock()
        if watch.query is None:
            if now >= watch.retry_at and not any(outage.lasts() for outage in self._outages):
                self._start(watch, now)
            return
        if not watch.query.isActive:
            self._failed(watch, watch.query.exception() or "stopped without an error")
            return
        self._note_progress(watch, now)
        deadline_s = self._settings.no_progress_deadline_s * min(2**watch.stalls, _LONGEST_DEADLINE)
        silent_s = now - watch.alive_since
        if silent_s > deadline_s / 2 and watch.query is not None:
            self._note_activity(watch, watch.query, now)
            silent_s = now - watch.alive_since
        if silent_s > deadline_s:
            watch.stalls += 1
            watch.stopping = threading.Thread(target=_stop_quietly, args=(watch.query,), daemon=True)
            watch.stopping.start()
            watch.stopping_since = now
            self._failed(watch, f"no progress for {silent_s:.0f} s (supervisor.no_progress_deadline_s)")

    def _note_activity(self, watch: _Watch, query: Query, now: float) -> None:
        """Count the query as alive if its running micro-batch has made progress since the last look at it."""
        seen = watch.spec.activity(query)
        if seen is not None and watch.activity is not None and seen != watch.activity:
            watch.alive_since = now
        watch.activity = seen

    def _start(self, watch: _Watch, now: float) -> None:
        if watch.stopping is not None and watch.stopping.is_alive():
            # Spark refuses a second query on a checkpoint whose first has not ended.
            if now - watch.stopping_since > self._settings.no_progress_deadline_s:
                log.error("a query cannot be stopped; all are started again", query=watch.spec.name)
                watch.stopping_since = now
                self._last_resort()
            return
        watch.stopping = None
        mended = watch.spec.mend(watch.failures, watch.report.error)
        if mended is not None:
            watch.report.checkpoints_set_aside += 1
            log.error("checkpoint set aside", query=watch.spec.name, what=mended)
        # It reads the tables first, where there is much to be read.
        with self._answering(_START_DEADLINES * self._settings.no_progress_deadline_s):
            watch.query = watch.spec.start()
        watch.alive_since, watch.batch_seen, watch.activity, watch.marked = now, None, None, None
        watch.report.up = True

    def _note_progress(self, watch: _Watch, now: float) -> None:
        if watch.query is None:
            return
        marked = watch.spec.mark(watch.query)
        if marked is not None and marked == watch.marked:
            return
        progress, watch.marked = watch.query.lastProgress, marked
        if progress is None:
            return
        mark = (progress["batchId"], progress["timestamp"])
        if mark == watch.batch_seen:
            return
        report = watch.report
        if watch.batch_seen is None or mark[0] != watch.batch_seen[0]:
            counted = watch.spec.rows
            report.rows = report.rows + max(0, int(progress["numInputRows"] or 0)) if counted is None else counted()
            spent = progress["durationMs"] or {}
            # A source waits for what is new while it is asked for its latest offset (`parallax.source.due`).
            report.batch_seconds = (spent.get("triggerExecution", 0) - spent.get("latestOffset", 0)) / 1000
        watch.batch_seen, watch.alive_since = mark, now
        watch.failures = watch.stalls = 0
        report.last_progress, report.error = time.time(), None

    def _failed(self, watch: _Watch, error: Any) -> None:
        watch.query = None
        report = watch.report
        report.up, report.error = False, _one_line(error)
        if any(outage.caused(str(error)) for outage in self._outages):
            watch.retry_at = self._clock()
            return
        watch.failures += 1
        report.restarts += 1
        settings = self._settings
        wait_ms = backoff(watch.failures, settings.restart_backoff_ms, settings.restart_backoff_max_ms, self._draw)
        watch.retry_at = self._clock() + wait_ms / 1000
        what = "nothing is lost: it goes on where it was"
        about = {"query": watch.spec.name, "retry_after_s": round(wait_ms / 1000, 1)}
        log.warning("query restarts", **about, error=report.error, what=what)


def _one_line(error: Any) -> str:
    """The line of an error that says what it was: the first one, or a later one if the error came through Java."""
    if (unlike := said_in(str(error))) is not None:
        return unlike
    first, *more = str(error).strip().splitlines() or [repr(error)]
    if first.startswith("An error occurred while calling ") and more and more[0].startswith(": "):
        first = more[0].removeprefix(": ")
    if first.endswith("Traceback (most recent call last):"):
        first = next((line for line in more if line[:1].strip()), first)
    return first.strip()[:500]


def _stop_quietly(query: Query | None) -> None:
    if query is None:
        return
    try:
        query.stop()
    except Exception as error:  # noqa: BLE001 - a query that cannot be stopped must not stop the rest
        log.warning("a query did not stop cleanly; what it had not recorded is read again", error=_one_line(error))
