"""Keeps the guard's clock in the job: feeds it looks and audits, and restores it after a restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import structlog
from deltalake.exceptions import DeltaError

from parallax.audit.ledger import has_verdict
from parallax.audit.result import AuditReport, Result
from parallax.config import Settings
from parallax.counts import named
from parallax.errors import one_line
from parallax.guard import late as record
from parallax.guard.absences import Absence, Absences, Late, Presence, Unclear
from parallax.guard.clock import Clock
from parallax.guard.horizons import Reading
from parallax.guard.looks import Look
from parallax.guard.outages import Change, Outages, Step
from parallax.guard.pauses import Paused, on_record
from parallax.guard.recall import recall
from parallax.guard.table import GuardTable
from parallax.guard.words import UNCLEAR, audit_command, audit_in_words, unwatched_in_words
from parallax.model import TopicPartition
from parallax.moments import time_text
from parallax.shell import ANYWHERE, Shell
from parallax.views.event_log import EventLogError

log = structlog.get_logger(__name__)

_UNTOLD = "replicas are back, and nobody can tell whether in time"
_TRY_AGAIN_S = 60.0
"""How long after it could not be read the record of late replicas is read again."""
_SLOW_S = 60.0
"""How often it is asked which copies took too long."""
_NONE: Mapping[TopicPartition, Result] = {}


def clock_of(settings: Settings) -> Clock:
    """Return a new clock with the tolerances that follow from a job's settings."""
    read = settings.read
    # They are asked for so often, an answer may take so long, and a broker may hear of a new leader so late.
    metadata_ms = read.metadata_refresh_ms + 2 * read.request_timeout_ms
    return Clock(settings.guard.clock_skew_ms, read.request_timeout_ms, metadata_ms)


class Timekeeper:
    """Owns the job's clock (`parallax.guard.clock.Clock`), records late replicas, and reports changes. Thread-safe.

    Args:
        storage: ``storage.path``.
        clock: a clock that has observed nothing yet.
        on_change: called, each time the clock has taken something in, with the replicas that are absent or late.
        now: returns the time in seconds since 1970 UTC; a test gives its own.
        shell: how commands in the log name the job.
        differing: returns the partitions with findings that are not over.
        slow: returns the replicas that were copied too slowly, as the record of repairs has it, until an audit of the
            job has compared them.
        is_audited: whether the job audits what was copied late (``audit.unread_delay_s``).
    """

    def __init__(
        self,
        storage: str,
        clock: Clock,
        on_change: Callable[[Absences], None] = lambda _: None,
        now: Callable[[], float] = time.time,
        shell: Shell = ANYWHERE,
        differing: Callable[[], Collection[TopicPartition]] = tuple,
        slow: Callable[[], Collection[Late]] = tuple,
        *,
        is_audited: bool = True,
    ) -> None:
        self._is_audited = is_audited
        self._storage = storage
        self._clock = clock
        self._on_change = on_change
        self._now = now
        self._lock = threading.Lock()
        self._on_record: frozenset[tuple[str, int, int]] = frozenset()
        self._is_remembered = False
        self._try_at = 0.0
        self._said = Absences()
        self._gone: Mapping[TopicPartition, str] = {}
        self._outages = Outages(clock.answers, differing)
        self._shell = shell
        self._slow = slow
        self._slow_known: set[Late] = set()
        self._slow_at = 0.0
        self.recalled: frozenset[TopicPartition] = frozenset()
        """The partitions that an earlier process recorded until it stopped."""

    def start(self) -> None:
        """Restore the clock from what an earlier process recorded, so that it knows since when replicas are absent.

        If that cannot be read, the bounds of absent replicas are unknown.
        """
        with self._lock:
            try:
                self.recalled = recall(self._storage, self._clock, int(self._now() * 1000))
            except (DeltaError, OSError, pa.ArrowException) as error:
                what = "until when what they lack is kept is unknown until they have been in sync again"
                log.warning("since when replicas have been away is not known", error=one_line(error), what=what)
            self._tell(is_recalled=True)

    @property
    def absent(self) -> tuple[Absence, ...]:
        """The replicas that were absent when the clock last took something in."""
        return self._said.absent

    def take_in(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Update the clock by rows of the table ``replica_progress``; call it after they are committed.

        The rows may show that replicas are away, back or late. Then `absent` changes, and ``on_change`` is called.
        """
        now_ms = int(self._now() * 1000)
        with self._lock:
            self._warn(self._clock.observe([Look.of_row(row, now_ms) for row in rows]))
            self._take_in_slow(now_ms)
            self._tell()

    def read(self, readings: Iterable[Reading]) -> None:
        """Have the clock take in what was read of logs (`parallax.guard.pointed`), which may make a bound later.

        They say where tombstones and end markers lie that an absent replica lacks, and when these may be removed.
        """
        with self._lock:
            self._clock.read(readings)

    def repaired(self) -> None:
        """Have it asked at the next rows which copies took too long, since a repair has gone on."""
        self._slow_at = 0.0

    def in_question(self) -> Mapping[TopicPartition, str]:
        """Return the partitions with absent or late replicas, each with its topic's id. An unknown id is empty."""
        with self._lock:
            return self._clock.in_question()

    def are_gone(self, gone: Mapping[TopicPartition, str]) -> None:
        """Have the clock say nothing of partitions that no longer exist. An outage may end by that.

        Args:
            gone: the partitions of `in_question` that no longer exist, each with the id of the topic that is gone.
        """
        with self._lock:
            if gone != self._gone:
                self._gone = gone
                self._clock.are_gone(gone)
                self._tell()

    def paused(self, looks: Collection[Paused]) -> None:
        """Have the clock take in looks that say which brokers' cleaners are paused for which topics.

        Nothing is removed there meanwhile, so bounds may be later.
        """
        with self._lock:
            self._warn(self._clock.paused(looks))
            self._tell()

    def audited(self, report: AuditReport) -> None:
        """Take in the report of an audit: replicas of partitions that have a verdict in it are no longer late.

        Only an audit of brokers counts, not one of the tables. A replica that copied something late after the audit
        began stays late.
        """
        if report.source != "brokers":
            return
        with self._lock:
            verdicts = {one.place: one.result for one in report.partitions if has_verdict(one)}
            for place in verdicts:
                self._clock.audited(place, int(report.started_at * 1000))
            self._outages.audited(verdicts)
            self._tell(verdicts)

    def _take_in_slow(self, now_ms: int) -> None:
        if self._now() < self._slow_at:
            return
        self._slow_at = self._now() + _SLOW_S
        new = [one for one in self._slow() if one not in self._slow_known]
        found = self._clock.copied(new, now_ms)
        replicas = {one.replica for one in found}
        self._slow_known |= {one for one in new if one.replica in replicas}
        self._warn(found)

    def _remember(self) -> bool:
        """Take in who was late before, once; whether that has been done. What cannot be read is not written over."""
        if not self._is_remembered and self._now() >= self._try_at:
            self._try_at = self._now() + _TRY_AGAIN_S
            if (late := record.load(self._storage)) is not None:
                self._clock.remember(late)
                self._on_record = frozenset(one.replica for one in late)
                self._is_remembered = True
        return self._is_remembered

    def _tell(self, verdicts: Mapping[TopicPartition, Result] = _NONE, *, is_recalled: bool = False) -> None:
        was_remembered = self._is_remembered
        is_remembered = self._remember()
        is_recalled = is_recalled or is_remembered is not was_remembered
        late = tuple(self._clock.late())
        # Should the job be killed before the next look at what is held, nobody will know whether that still was.
        open_ones = (*late, *self._clock.unsettled())
        replicas = frozenset(one.replica for one in open_ones)
        if replicas != self._on_record and is_remembered:
            record.save(self._storage, open_ones)
            self._on_record = replicas
        absent = tuple(self._clock.absences())
        changes = self._outages.see(absent, late, int(self._now() * 1000), is_recalled=is_recalled)
        unwatched = self._clock.unwatched()
        for change in changes:
            _tell_of(change, absent)
        if new := {topic: kept for topic, kept in unwatched.items() if topic not in self._said.unwatched}:
            log.warning(
                "of some topics nobody can tell whether a broker is back in time",
                what=unwatched_in_words(new, is_audited=self._is_audited),
            )
        still = {one.replica for one in late}
        _tell_of_settled([one for one in self._said.late if one.replica not in still], verdicts)
        self._said = Absences(absent, late, self._outages.all, unwatched)
        self._on_change(self._said)

    def _warn(self, late: Iterable[Late]) -> None:
        """One line for each broker, and each reason: many partitions are late together."""
        groups: dict[tuple[int, Unclear | None], list[Late]] = {}
        for one in late:
            groups.setdefault((one.broker, one.absence.unclear), []).append(one)
        for (_, unclear), those in groups.items():
            if unclear is Unclear.REASSIGNED:
                log.info("replicas are copied again", **_words(those, self._shell, is_audited=self._is_audited))
            elif unclear is Unclear.NO_TIME:
                log.info(_UNTOLD, **_words(those, self._shell, is_audited=self._is_audited))
            elif unclear is Unclear.SLOW:
                log.warning(
                    "a repair copied replicas too slowly", **_words(those, self._shell, is_audited=self._is_audited)
                )
            elif unclear is not None:
                log.warning(_UNTOLD, **_words(those, self._shell, is_audited=self._is_audited))
            else:
                log.warning("replicas were back too late", **_words(those, self._shell, is_audited=self._is_audited))


def _words(late: Sequence[Late], shell: Shell, *, is_audited: bool = True) -> dict[str, Any]:
    """What the log says of late replicas of one broker, of one reason."""
    first = late[0].absence
    bounds = [one.absence.bound_ms for one in late if one.absence.bound_ms is not None]
    places = sorted({one.place for one in late})
    means = "they may have missed tombstones or end markers that were cleaned meanwhile"
    if first.unclear is Unclear.REASSIGNED:
        means = "that is no fault: each copy is compared as a new replica is"
    audits = audit_in_words(places, {} if is_audited else None, 0.0, shell)
    command = f"; to compare them now: {audit_command(places, shell)}" if is_audited else ""
    return {
        "broker": late[0].broker,
        "topics": named(place.topic for place in places),
        "replicas": len(late),
        "kept_until": time_text(min(bounds)) if bounds and first.unclear is None else None,
        "complete_until": time_text(min(one.absence.since_ms for one in late)),
        "why": None if first.unclear is None else UNCLEAR[first.unclear],
        "what": f"{means}; {audits}{command}",
    }


def _tell_of(change: Change, absent: Collection[Absence]) -> None:
    """A line when a broker goes away, when it answers again, and when all that it has copied is settled."""
    outage, since = change.outage, time_text(change.since_ms)
    if change.step is Step.AWAY:
        away = [one for one in absent if one.broker == outage.broker and one.presence is Presence.AWAY]
        bounds = {one.place: one.bound_ms for one in away if one.unclear is None and one.bound_ms is not None}
        log.warning(
            "a broker is away",
            broker=outage.broker,
            complete_until=since,
            replicas=len(away),
            topics=named(one.place.topic for one in away),
            kept_until=time_text(min(bounds.values())) if bounds else None,
            not_known_of=named(one.place.topic for one in away if one.place not in bounds) or None,
            what="its replicas are not compared meanwhile; unless it is back by now, bring it back before the others "
            "clean what they lack",
        )
    elif change.step is Step.BACK:
        log.info(
            "a broker is back",
            broker=outage.broker,
            complete_until=since,
            replicas=len(outage.absent - outage.gone),
            what="its replicas are compared again" if outage.ended_ms is not None else "its replicas catch up",
        )
    else:
        log.info("the outage of a broker is over", broker=outage.broker, complete_until=since, what=outage.outcome)


_SETTLED = {
    Result.CONSISTENT: "an audit has compared them and found no difference",
    Result.DIVERGED: "an audit has compared them; findings report what differs",
    Result.UNKNOWN: "an audit has compared what can be read of them and found no difference",
}
_GONE = "they are gone, or are not watched any more"


def _tell_of_settled(late: Iterable[Late], verdicts: Mapping[TopicPartition, Result]) -> None:
    """A line for each broker when what a repair copied too slowly is no longer in doubt, and why.

    The end of an outage says this of replicas that were back too late.

    Args:
        late: the replicas that are no longer late.
        verdicts: by partition, the verdict of the audit that has just ended.
    """
    groups: dict[tuple[int, str], list[Late]] = {}
    for one in late:
        if one.absence.unclear is Unclear.SLOW:
            how = _SETTLED[verdicts[one.place]] if one.place in verdicts else _GONE
            groups.setdefault((one.broker, how), []).append(one)
    for (broker, how), those in groups.items():
        log.info(
            "replicas that a repair copied too slowly are settled",
            broker=broker,
            topics=named(one.place.topic for one in those),
            replicas=len(those),
            why=UNCLEAR[Unclear.SLOW],
            what=f"that they may have missed tombstones or end markers is over: {how}",
        )


def recorded(storage: str, clock: Clock, now_ms: int) -> list[Absence]:
    """Return the replicas that are absent by the recorded progress, in no order, for commands outside the job.

    Args:
        storage: ``storage.path``.
        clock: a clock that has observed nothing yet.
        now_ms: the present, milliseconds since 1970 UTC.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the tables cannot be read.
    """
    recall(storage, clock, now_ms)
    try:
        events = GuardTable(storage, create=False).news()
    except EventLogError:
        events = []  # no guard ever held anything here
    clock.paused([hold.shown(now_ms) for hold in on_record(events) if hold.until_ms is None])
    return clock.absences()


__all__ = ["Absences", "Timekeeper", "clock_of", "recorded"]
