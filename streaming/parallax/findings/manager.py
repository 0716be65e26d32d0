"""Runs the probes that `parallax.findings.lifecycle` decides on, and appends its events to the findings table.

One thread decides and writes. Probes run in other threads, a few for each broker that claims are about. So a probe that
hangs delays no claim about another broker.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, Protocol

import structlog

from parallax.compare.suspect import Suspect
from parallax.config import Settings
from parallax.errors import one_line
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, claim_from_row
from parallax.findings.finding import Finding, Repaired, never_repaired
from parallax.findings.happenings import (
    Action,
    Answered,
    Append,
    Broken,
    Changed,
    Committed,
    Event,
    FindingsStatus,
    Loaded,
    Moment,
    News,
    NotCommitted,
    Probe,
    Suspected,
    Tick,
)
from parallax.findings.history import RecordedHistory
from parallax.findings.incident import decided, is_part_of_incident
from parallax.findings.lanes import Lanes
from parallax.findings.lifecycle import Lifecycle
from parallax.findings.members import MemberRow
from parallax.findings.probe import Prober
from parallax.findings.renewed import Renewed
from parallax.findings.scan import folder_of
from parallax.findings.second_opinion import SecondOpinions
from parallax.findings.table import AppendedMeanwhile, FindingsTable, FindingsTableError, read_suspects
from parallax.findings.waits import Waits
from parallax.model import FindingStatus, Severity, TopicPartition, broker_label
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError

log = structlog.get_logger(__name__)

_UNREPORTED = "suspects are kept, and no new finding is reported until it succeeds"

_LONGER_HOURS = 7 * 24.0
"""How much longer than ``storage.retention_hours`` rows of members are kept: upkeep drops their suspects before."""
_PROBES = 4
"""How many probes of claims about one broker run at the same time."""
_NEWS_EVERY_S = 5.0
"""How often the table is read for events of other processes. An acknowledgement may take so long to count."""


class Asks(Protocol):
    """Asks brokers about claims for the manager; in production it is a `Prober`, and tests use another class."""

    @property
    def read_bytes(self) -> Mapping[int, int]:
        """Bytes of records that were read so far, by broker."""

    def probe(self, claims: Sequence[Claim]) -> list[Answers]:
        """Ask the brokers about claims on one partition that all have the same pivot, the replica that is asked last.

        Returns:
            The answers about each claim, in the order of the claims.
        """

    def close(self) -> None:
        """Give up all probes that are running."""


class EventStore(Protocol):
    """Keeps events of findings for the manager: in production `FindingsTable`, in an audit another class."""

    @property
    def skipped(self) -> int:
        """The number of events that were not read because a newer version of Parallax wrote them."""

    def load(self) -> list[Finding]:
        """Return all events of the table, oldest first."""

    def news(self) -> list[Finding]:
        """Return the events of other processes that this store has not returned yet, oldest first."""

    def members(self) -> list[MemberRow]:
        """Return what is known of each member of an incident, oldest first."""

    def append(self, events: Sequence[Finding], members: Sequence[MemberRow] = ()) -> list[Finding]:
        """Append rows of members, then events in one commit; return the events with the numbers that they got.

        Raises:
            AppendedMeanwhile: another process has appended events that ``news`` has not returned yet.
        """


_Result = tuple[Probe, list[Answers] | None]


class FindingsManager:
    """Takes suspects in, probes them, and records what becomes of them as findings; all in threads of its own.

    Args:
        settings: the job's settings.
        client: asks the broker that it is given; its cluster id is part of every finding's id.
        hasher: hashes keys and contents as the views do.
        on_change: called from the manager's thread after each commit and each round of probes; must not block.
        prober: asks the replicas; by default a `Prober` that uses ``client`` and what the views recorded.
        table: where events go; by default the findings table below ``storage.path``, created when it is not there.
        ``told``: called from the manager's thread with events once they are in the table, also with those of other
            processes; by default they are logged.
        repaired: returns what is on record of a finding's repairs.
        completed: returns events as they are to be appended: with what other tables say of each that has ended.
        renewed: returns the replicas that repairs have changed since it was last called; called every few seconds.
    """

    def __init__(
        self,
        settings: Settings,
        client: ReplicaClient,
        hasher: ContentHasher,
        *,
        on_change: Callable[[FindingsStatus], None] | None = None,
        prober: Asks | None = None,
        table: EventStore | None = None,
        told: Callable[[Sequence[Finding]], None] | None = None,
        repaired: Repaired = never_repaired,
        completed: Callable[[Sequence[Finding]], Sequence[Finding]] = lambda events: events,
        renewed: Callable[[], Renewed] = dict,
    ) -> None:
        self._storage = settings.storage.path
        self._kept_hours = settings.storage.retention_hours + _LONGER_HOURS
        self._settings = settings.findings
        self._retry_s = settings.findings.probe_retry_ms / 1000
        self._client = client
        history = RecordedHistory(settings.storage.path)
        self._prober = prober or Prober(
            client,
            hasher,
            settings.findings,
            payload=settings.read.payload,
            history=history,
            recorded=history,
            scans=folder_of(settings.storage.path),
        )
        self._table = table
        self._on_change = on_change or (lambda _: None)
        self._told = told or _log_events
        self._inbox: queue.SimpleQueue[list[Claim] | Changed | _Result] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        """Over the lifecycle and what was offered to it: other threads look in."""
        self._repaired, self._completed, self._renewed = repaired, completed, renewed
        self._lifecycle = self._begun()
        self._offered: dict[str, TopicPartition] = {}
        self._is_loaded = False
        self._unread: str | None = None
        self._skipped_suspects = 0
        self._todo: list[Action] = []
        """What loading, or a round that failed, has called for."""
        self._results: list[_Result] = []
        """Probes that came back and were not handed in yet."""
        self._news_due = 0.0
        self._read_bytes: dict[int, int] = {}
        """As it was reported last."""
        self._lanes = Lanes(_PROBES, "probe")
        self._second_opinions = SecondOpinions()
        self._waits = Waits()
        self._thread = threading.Thread(target=self._run, name="findings", daemon=True)

    def start(self) -> None:
        """Start the manager's thread. It loads suspects and findings from the tables, and then begins to probe."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop probing. Suspects without a verdict are not lost: they are probed after the next start.

        Args:
            timeout_s: how long to wait for the manager's thread to end, in seconds.
        """
        self._stop.set()
        self._wake.set()
        self._lanes.close()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._prober.close()

    def offer(self, suspects: Iterable[Suspect | Mapping[str, Any]]) -> None:
        """Hand over suspects to be probed, as the comparison raises them or as rows of their table.

        It returns immediately. Call it after they are committed to the suspects table: only that lets them survive the
        process. The manager ignores a suspect that it knows already, unless it was raised again after the replicas were
        asked for its verdict.
        """
        claims = [claim_from_row(s.as_row() if isinstance(s, Suspect) else s) for s in suspects]
        with self._lock:
            self._offered |= {claim.suspect_id: claim.place for claim in claims}
        self._inbox.put(claims)  # All together: only the others show that one is part of many.
        self._wake.set()

    def changed(self, replicas: Renewed) -> None:
        """Have the open findings of replicas that may have been changed looked at immediately.

        It returns immediately, and may be called from any thread.
        """
        if replicas:
            self._inbox.put(Changed(replicas))
            self._wake.set()

    def new(self, suspects: Iterable[Suspect]) -> list[Suspect]:
        """Return those of some suspects that still have to be offered. It may be called from any thread.

        A suspect also counts as new if it was raised again after the replicas were asked for its last verdict.
        """
        with self._lock:
            return [
                suspect
                for suspect in suspects
                if suspect.suspect_id not in self._offered and self._lifecycle.is_new(claim_from_row(suspect.as_row()))
            ]

    def undecided(self, suspect_ids: Iterable[str]) -> dict[str, str]:
        """Return by suspect id why the suspect has no verdict yet; suspects that wait for no verdict are left out.

        It may be called from any thread.
        """
        found = {}
        with self._lock:
            for suspect_id in suspect_ids:
                reason = "it has not been probed yet" if suspect_id in self._offered else None
                reason = reason or self._lifecycle.waits(suspect_id)
                if reason is not None:
                    found[suspect_id] = reason
        return found

    def standing(self) -> list[Finding]:
        """Return the findings that are not over, acknowledged or not. It may be called from any thread."""
        with self._lock:
            return self._lifecycle.standing()

    def places(self) -> set[TopicPartition] | None:
        """Return the partitions with findings that are not over, or with suspects that have no verdict.

        None if nothing has been loaded yet. It may be called from any thread.
        """
        with self._lock:
            if not self._is_loaded:
                return None
            status = self._lifecycle.status()
            return {*self._offered.values(), *status.pending, *(finding.place for finding in status.standing)}

    def look_again(self) -> None:
        """Let every open finding be probed immediately. Incidents are left out. It may be called from any thread.

        The job asks about the members of incidents at each start anyway.
        """
        with self._lock:
            self._lifecycle.look_again(_now())
        self._wake.set()

    def not_seen_again(self) -> dict[str, str]:
        """Return the open findings that probes have not fully checked since `look_again`, by id with the reason.

        It may be called from any thread.

        Returns:
            By finding id: why the last probe did not decide whether the finding is still true, or how much of an
            incident is not checked yet. The text is empty before the replicas have answered.
        """
        with self._lock:
            return self._lifecycle.not_seen_again()

    # The thread.

    def _run(self) -> None:
        while not self._stop.is_set() and not self._loaded():
            self._wait(self._retry_s)
        while not self._stop.is_set():
            try:
                self._turn()
            except Exception as error:  # the manager survives any error of one round
                log.exception("a round of findings failed; it is tried again")
                self._todo += self._handle(NotCommitted(f"{type(error).__name__}: {error}"))
                self._report()
                self._wait(self._retry_s)

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _loaded(self) -> bool:
        """Rebuild everything from the tables; False where that has failed, and must be tried again."""
        try:
            self._todo = self._load()
        except (FindingsTableError, ReplicaError) as error:
            log.error("the findings could not be loaded; it is tried again", error=one_line(error), what=_UNREPORTED)
            self._not_loaded(str(error))
            return False
        except Exception as error:  # as in a round: a dead manager would look like an idle one
            log.exception("the findings could not be loaded; it is tried again", what=_UNREPORTED)
            self._not_loaded(f"{type(error).__name__}: {error}")
            return False
        self._is_loaded = True
        self._report()
        return True

    def _not_loaded(self, reason: str) -> None:
        with self._lock:  # otherwise what was taken in so far would count twice
            self._lifecycle = self._begun()
        self._handle(NotCommitted(reason))
        self._report()

    def _begun(self) -> Lifecycle:
        return Lifecycle(self._settings, Random(), repaired=self._repaired)  # noqa: S311 - jitter

    def _load(self) -> list[Action]:
        cluster_id = self._client.cluster_id
        self._table = self._table or FindingsTable(self._storage, kept_hours=self._kept_hours)
        events, members = self._table.load(), self._table.members()
        self._lifecycle.cluster_id = cluster_id
        # Events first: they say what became of suspects.
        actions = self._handle(Loaded(events, members))
        self._skipped_suspects = 0
        for rows in read_suspects(self._storage, decided=decided(events, members)):
            actions += self._handle(Suspected(self._claims(rows)))
        return actions

    def _claims(self, rows: Iterable[Mapping[str, Any]]) -> list[Claim]:
        """Return the claims of rows; a row that is damaged, or has a kind or rule of a newer version, is counted."""
        claims = []
        for row in rows:
            try:
                claims.append(claim_from_row(row))
            except (TypeError, ValueError) as error:
                self._skipped_suspects += 1
                reason = "a suspect is left out: it is damaged, or a newer version wrote it"
                log.error(reason, error=str(error), suspect=row["suspect_id"])
        return claims

    def _turn(self) -> None:
        """Take in what came, send what is due, sleep until there is more.

        What an event calls for is carried out before the next event is handed in. Otherwise a decision could be written
        behind an acknowledgement that it did not know, and a failed commit could not be matched with its events.
        """
        todo, self._todo = self._todo, []
        self._carry_out(todo)
        if time.monotonic() >= self._news_due:
            self._read_news()
            self.changed(self._renewed())
        claims = self._drain()
        with self._lock:
            for claim in claims:
                self._offered.pop(claim.suspect_id, None)
            actions = self._lifecycle.handle(Suspected(claims), _now())
        self._carry_out(actions)
        results, self._results = self._results, []
        self._carry_out(self._handle(Answered(results) if results else Tick()))
        if results:
            self._report()
        due = self._lifecycle.next_due(time.monotonic())
        until = self._news_due if due is None else min(due, self._news_due)
        self._wait(max(0.0, until - time.monotonic()))

    def _drain(self) -> list[Claim]:
        """Return the claims that were offered; probes that came back are kept until they are handed in."""
        claims: list[Claim] = []
        while True:
            try:
                item = self._inbox.get_nowait()
            except queue.Empty:
                return claims
            if isinstance(item, list):
                claims += item
            elif isinstance(item, Changed):
                self._todo += self._handle(item)
                self._report()
            else:
                self._results.append(item)

    def _handle(self, event: Event) -> list[Action]:
        with self._lock:
            return self._lifecycle.handle(event, _now())

    def _carry_out(self, actions: Sequence[Action]) -> None:
        """Do what the lifecycle asks for: probes first, so that none is forgotten where an append fails."""
        for action in actions:
            if isinstance(action, Probe):
                self._lanes.submit(action.claims[0].pivot, partial(self._probe, action))
            elif isinstance(action, Broken):
                _log_broken(action)
        for action in actions:
            if isinstance(action, Append):
                self._carry_out(self._handle(self._appended(action)))

    def _appended(self, append: Append) -> Event:
        if self._table is None:
            return NotCommitted("the findings table is not open")
        try:
            numbered = self._table.append(self._completed(append.events), append.members)
        except AppendedMeanwhile:
            self._read_news()  # the decision may not hold any more: probe and decide again
            return NotCommitted(None)
        except FindingsTableError as error:
            log.error("findings could not be written; it is tried again", error=one_line(error), what=_UNREPORTED)
            return NotCommitted(str(error))
        self._told(numbered)
        return Committed(numbered)

    def _read_news(self) -> None:
        """Take in the events that other processes have appended: acknowledgements.

        An append of this process that seemed to fail, and did not, comes back here as well.
        """
        self._news_due = time.monotonic() + _NEWS_EVERY_S
        if self._table is None:
            return
        had_trouble = self._unread is not None
        news: list[Finding] = []
        try:
            news = self._table.news()
            self._unread = None
        except FindingsTableError as error:
            self._unread = str(error)
            what = "acknowledgements by the command line are not seen meanwhile"
            log.error("the findings table could not be read; it is tried again", error=self._unread, what=what)
        if news:
            self._told(news)
            self._carry_out(self._handle(News(news)))
        if news or had_trouble or self._unread is not None or dict(self._prober.read_bytes) != self._read_bytes:
            self._report()

    def _probe(self, probe: Probe) -> None:
        """Run a probe in the pool; the answers go back through the inbox."""
        answers: list[Answers] | None = None
        try:
            answers = self._prober.probe(probe.claims)
            self._second_opinions.hear(probe.claims, answers)
        except Exception:
            if not self._stop.is_set():  # else the prober is closed; the next start probes the suspect
                log.exception(
                    "brokers could not be asked about a suspect; it is tried again",
                    topic=probe.claims[0].topic,
                    partition=probe.claims[0].partition,
                )
        self._inbox.put((probe, answers))
        self._wake.set()

    def _report(self) -> None:
        with self._lock:
            status = self._lifecycle.status()
        self._read_bytes = dict(self._prober.read_bytes)
        self._waits.observe(status.waits)
        skipped = self._skipped_suspects + (self._table.skipped if self._table is not None else 0)
        self._on_change(
            replace(
                status,
                error=status.error or self._unread,
                skipped=skipped,
                probe_bytes=self._read_bytes,
                second_opinions=self._second_opinions.counts,
            )
        )


def _now() -> Moment:
    return Moment(time.monotonic(), datetime.now(UTC))


def _level(event: Finding) -> str:
    """Return the log level of an event; a dismissed suspect interests nobody who did not hear of it."""
    if event.is_open:
        return "error" if event.severity is Severity.CRITICAL else "warning"
    return "debug" if event.status is FindingStatus.DISMISSED else "info"


def _log_events(events: Sequence[Finding]) -> None:
    parts = sum(map(is_part_of_incident, events))
    if parts:
        log.info("findings are part of an incident now, which is reported in their place", findings=parts)
    for event in events:
        if is_part_of_incident(event):
            continue
        getattr(log, _level(event))(
            "finding",
            id=event.finding_id,
            status=str(event.status),
            kind=str(event.kind),
            topic=event.topic,
            partition=event.partition,
            broker=broker_label(event.broker),
            text=event.summary,
        )


def _log_broken(broken: Broken) -> None:
    claim = broken.claim
    log.error(
        "a suspect could not be judged, by a fault of Parallax; it is tried again",
        suspect=claim.suspect_id,
        kind=str(claim.kind),
        topic=claim.topic,
        partition=claim.partition,
        broker=claim.broker,
        exc_info=broken.error,
    )
