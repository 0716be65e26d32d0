"""The life of suspects and findings: probed, confirmed, checked again, resolved; all of it in the two tables.

One thread decides and writes; the probes run in a small pool, so that a broker that does not answer delays only the
claims about its partitions. Whatever is in memory can be rebuilt from the tables: a suspect that no event names is
pending, the last event of an id is what stands.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import structlog

from parallax.compare.suspect import KEY_KINDS, Suspect
from parallax.config import Settings
from parallax.findings.answers import Answers
from parallax.findings.claim import RULES, Claim, Recorded, claim_from_row, explains, refines
from parallax.findings.decide import Decision, Verdict, decide, named
from parallax.findings.history import RecordedHistory
from parallax.findings.probe import Prober
from parallax.findings.summary import resolved, summary
from parallax.findings.table import Finding, FindingsTable, FindingsTableError, from_milliseconds, read_suspects
from parallax.model import SEVERITY, FindingKind, FindingStatus
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError

log = structlog.get_logger(__name__)

_WORKERS = 4
_GROUP = 256
"""Claims of one replica of one partition that are probed together at most."""
_BACKOFF_MAX_MS = 60_000
_CALM_OPEN = 100
"""With more open findings than this the interval between looks at each grows in proportion."""
_LONE_PROBES = 4
"""How many probes a difference that hangs on a lone witness is given for a suspect about its outcome to turn up."""
_GONE_PROBES = 2
"""How many probes must say that a partition is gone: a broker that has just started may not know of it yet."""
_RESOLVED_FACTOR = 10
"""A resolved finding is looked at this many times more rarely than an open one."""
_RESOLVED_FOR = timedelta(hours=24)
"""For how long a resolved finding is looked at, in case that it comes back."""

Label = tuple[str, str, str, int, int]
"""Kind, severity, topic, partition, broker."""


class Asks(Protocol):
    """The part of `Prober` that the manager uses."""

    def probe(self, claims: Sequence[Claim]) -> list[Answers]:
        """Ask about claims that accuse one replica of one partition."""

    def close(self) -> None:
        """Give up what is being asked."""


class Store(Protocol):
    """The part of `FindingsTable` that the manager uses."""

    def load(self) -> list[Finding]:
        """All events, oldest first."""

    def append(self, events: Sequence[Finding]) -> list[Finding]:
        """Append events in one commit and return them numbered."""


@dataclass(frozen=True, slots=True)
class FindingsStatus:
    """What the manager has committed, for metrics.

    Attributes:
        open: findings that stand confirmed.
        confirmed_total: how often a finding was confirmed, by `Label`; counted over the whole table.
        pending: suspects that wait for a verdict, by (topic, partition).
        undecided: why each pending suspect is still pending, by its id; empty text before the first probe.
        last_probe_at: when a probe last came back, seconds since 1970 UTC; None before the first.
        error: why findings cannot be written or read at present; None where they can.
    """

    open: tuple[Finding, ...] = ()
    confirmed_total: Mapping[Label, int] = field(default_factory=dict)
    dismissed_total: int = 0
    resolved_total: int = 0
    pending: Mapping[tuple[str, int], int] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)
    probes_total: int = 0
    last_probe_at: float | None = None
    error: str | None = None


@dataclass(slots=True)
class _Task:
    """A claim to be probed: a suspect, or a finding (by its id) that is checked again."""

    claim: Claim
    due: float
    finding_id: str | None = None
    attempts: int = 0
    reason: str = ""
    in_flight: bool = False


class _Ledger:
    """What the events add up to; fed with every event in order."""

    def __init__(self) -> None:
        self.standing: dict[str, Finding] = {}
        self.handled: set[str] = set()
        self.open = 0
        self.confirmed: dict[Label, int] = {}
        self.dismissed = 0
        self.resolved = 0

    def add(self, event: Finding) -> None:
        self._count(event)
        self.handled.add(event.suspect_id)  # last: who sees it in here sees what stands as well

    def _count(self, event: Finding) -> None:
        if event.status is FindingStatus.DISMISSED:
            self.dismissed += 1
            return
        known = self.standing.get(event.finding_id)
        self.open += int(event.is_open) - int(known is not None and known.is_open)
        if event.status is FindingStatus.RESOLVED:
            self.resolved += 1
        elif known is None or not known.is_open or known.kind is not event.kind:
            label = (str(event.kind), str(event.severity), event.topic, event.partition, event.broker)
            self.confirmed[label] = self.confirmed.get(label, 0) + 1
        self.standing[event.finding_id] = event


class FindingsManager:
    """Turns suspects into findings, in threads of its own.

    Args:
        settings: the job's settings.
        client: pinned client; its cluster id is part of every finding's id.
        hasher: the views' hasher.
        on_change: called from the manager's thread after each commit and each round of probes; must not block.
        prober: what asks the replicas; by default one over ``client`` and the recorded history.
        table: where events go; by default the findings table below ``storage.path``, created when it is not there.
    """

    def __init__(
        self,
        settings: Settings,
        client: ReplicaClient,
        hasher: ContentHasher,
        *,
        on_change: Callable[[FindingsStatus], None] | None = None,
        prober: Asks | None = None,
        table: Store | None = None,
    ) -> None:
        self._settings = settings.findings
        self._storage = settings.storage.path
        self._client = client
        self._cluster_id: str | None = None
        self._prober = prober or Prober(
            client,
            hasher,
            settings.findings,
            payload=settings.read.payload,
            history=RecordedHistory(settings.storage.path),
        )
        self._table = table
        self._on_change = on_change or (lambda _: None)
        self._inbox: queue.SimpleQueue[Claim | tuple[list[_Task], list[Answers] | None]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._tasks: dict[str, _Task] = {}
        self._ledger = _Ledger()
        self._probes = 0
        self._last_probe_at: float | None = None
        self._error: str | None = None
        self._pool = ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="probe")
        self._thread = threading.Thread(target=self._run, name="findings", daemon=True)

    def start(self) -> None:
        """Load what is still to be done from the tables, and begin."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop; suspects that are still pending are so again at the next start."""
        self._stop.set()
        self._wake.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._prober.close()

    def offer(self, suspects: Iterable[Suspect | Mapping[str, Any]]) -> None:
        """Take suspects in, as the comparison raises them or as rows of their table; returns at once.

        Call it after they are committed to the suspects table: only that makes them outlive the process. One that is
        known already is left alone.
        """
        for suspect in suspects:
            row = suspect.as_row() if isinstance(suspect, Suspect) else suspect
            self._inbox.put(claim_from_row(row))
        self._wake.set()

    def undecided(self, suspect_ids: Iterable[str]) -> dict[str, str]:
        """Those of the suspects that have no verdict yet, each with the reason; from any thread."""
        found = {}
        for suspect_id in suspect_ids:
            if suspect_id not in self._ledger.handled:
                task = self._tasks.get(suspect_id)
                found[suspect_id] = (task.reason if task is not None else "") or "it has not been probed yet"
        return found

    def standing(self) -> list[Finding]:
        """The findings that stand confirmed; from any thread."""
        return [finding for finding in list(self._ledger.standing.values()) if finding.is_open]

    # The thread.

    def _run(self) -> None:
        while not self._stop.is_set() and not self._load():
            self._wait(self._settings.probe_retry_ms / 1000)
        while not self._stop.is_set():
            try:
                self._turn()
            except Exception as error:  # the watchman outlives whatever one round throws
                log.exception("a round of findings failed; it is tried again")
                self._trouble(f"{type(error).__name__}: {error}")
                self._wait(self._settings.probe_retry_ms / 1000)

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _load(self) -> bool:
        """Rebuild everything from the tables; False where they or the cluster's id cannot be had yet."""
        try:
            self._cluster_id = self._client.cluster_id
            self._table = self._table or FindingsTable(self._storage)
            for event in self._table.load():
                self._ledger.add(event)
            rows = read_suspects(self._storage, except_ids=self._ledger.handled)
        except (FindingsTableError, ReplicaError) as error:
            self._trouble(str(error))
            return False
        for row in rows:
            self._accept(claim_from_row(row))
        for finding in self._ledger.standing.values():
            self._check_again(finding)
        self._error = None
        self._tell()
        return True

    def _turn(self) -> None:
        """Take in what came, send what is due, sleep until there is more."""
        results = self._drain()
        if results:
            self._judge(results)
        self._send()
        self._wait(self._until_due())

    def _drain(self) -> list[tuple[_Task, Answers]]:
        results: list[tuple[_Task, Answers]] = []
        while True:
            try:
                item = self._inbox.get_nowait()
            except queue.Empty:
                return results
            if isinstance(item, Claim):
                self._accept(item)
                continue
            tasks, answers = item
            self._probes += 1
            self._last_probe_at = time.time()
            for task in tasks:
                task.in_flight = False
            if answers is None:
                for task in tasks:
                    self._put_off(task, "the probe failed; see the log")
            else:
                results += zip(tasks, answers, strict=True)

    def _accept(self, claim: Claim) -> None:
        if claim.suspect_id not in self._ledger.handled and claim.suspect_id not in self._tasks:
            self._tasks[claim.suspect_id] = _Task(claim, time.monotonic())

    def _check_again(self, finding: Finding) -> None:
        """Have a finding probed again after the interval; resolved ones more rarely, and not for ever."""
        name = f"finding:{finding.finding_id}"
        interval = self._settings.recheck_interval_s * max(1.0, self._ledger.open / _CALM_OPEN)
        if finding.status is FindingStatus.RESOLVED:
            interval *= _RESOLVED_FACTOR
            if datetime.now(UTC) - finding.decided_at > _RESOLVED_FOR:
                self._tasks.pop(name, None)
                return
        self._tasks[name] = _Task(_claim_of(finding), time.monotonic() + interval, finding.finding_id)

    def _until_due(self) -> float:
        waiting = [task.due for task in self._tasks.values() if not task.in_flight]
        return max(0.0, min(waiting, default=time.monotonic() + 60.0) - time.monotonic())

    def _send(self) -> None:
        """Hand everything that is due to the pool, together where it concerns one replica of one partition."""
        now = time.monotonic()
        groups: dict[tuple[str, int, int], list[_Task]] = {}
        for task in self._tasks.values():
            if task.due <= now and not task.in_flight:
                claim = task.claim
                groups.setdefault((claim.topic, claim.partition, claim.broker), []).append(task)
        for tasks in groups.values():
            for start in range(0, len(tasks), _GROUP):
                part = tasks[start : start + _GROUP]
                for task in part:
                    task.in_flight = True
                self._pool.submit(self._probe, part)

    def _probe(self, tasks: list[_Task]) -> None:
        """Runs in the pool; the answer goes back through the inbox."""
        answers: list[Answers] | None = None
        try:
            answers = self._prober.probe([task.claim for task in tasks])
        except Exception:
            log.exception("a probe failed", topic=tasks[0].claim.topic, partition=tasks[0].claim.partition)
        self._inbox.put((tasks, answers))
        self._wake.set()

    def _judge(self, results: Sequence[tuple[_Task, Answers]]) -> None:
        """Decide, append all events in one commit, and only then count them."""
        events: list[Finding] = []
        decided: list[_Task] = []
        for task, answers in results:
            event = self._event(task, answers, events)
            if event is None:
                continue
            events.append(event)
            decided.append(task)
        if events and not self._commit(events):
            for task in decided:
                self._put_off(task, "the findings table could not be written")
        self._tell()

    def _commit(self, events: Sequence[Finding]) -> bool:
        if self._table is None:
            return False
        try:
            numbered = self._table.append(events)
        except FindingsTableError as error:
            self._trouble(str(error))
            return False
        self._error = None
        for event in numbered:
            self._ledger.add(event)
            self._tasks.pop(event.suspect_id, None)
            standing = self._ledger.standing.get(event.finding_id)
            if standing is not None:
                self._check_again(standing)
            log.info(
                "finding",
                status=str(event.status),
                kind=str(event.kind),
                topic=event.topic,
                broker=event.broker,
                text=event.summary,
            )
        return True

    def _event(self, task: _Task, answers: Answers, before: Sequence[Finding]) -> Finding | None:
        """The event that a probe calls for; None where nothing is decided or nothing has changed."""
        claim = named(task.claim, answers)
        decision = decide(claim, answers, live_only=task.finding_id is not None)
        finding_id = task.finding_id or claim.finding_id(self._cluster_id or "")
        known = next((e for e in reversed(before) if e.finding_id == finding_id and e.status != "dismissed"), None)
        known = known or self._ledger.standing.get(finding_id)
        if answers.gone is not None and task.attempts + 1 < _GONE_PROBES:
            decision = Decision(Verdict.PENDING, claim.kind, f"{answers.gone}; asked once more")
        if claim.kind in KEY_KINDS and decision.verdict is not Verdict.DISMISSED and task.finding_id is None:
            decision = self._linked(claim, decision, before, task.attempts)
        if decision.verdict is Verdict.PENDING:
            self._put_off(task, decision.reason)
            return None
        if task.finding_id is not None:
            return self._recheck(claim, decision, answers, known)
        if decision.verdict is Verdict.DISMISSED:
            return _make(finding_id, FindingStatus.DISMISSED, claim, decision, answers, known)
        if known is not None and known.is_open and not refines(decision.kind, known.kind):
            told = replace(decision, reason=f"told already: finding {finding_id} ({known.kind})")
            return _make(finding_id, FindingStatus.DISMISSED, claim, told, answers, known)
        return _make(finding_id, FindingStatus.CONFIRMED, claim, decision, answers, known)

    def _recheck(self, claim: Claim, decision: Decision, answers: Answers, known: Finding | None) -> Finding | None:
        """What a finding that was checked again has become."""
        if known is None:
            return None
        self._check_again(known)
        if decision.verdict is Verdict.DISMISSED:
            if not known.is_open:
                return None
            return _make(known.finding_id, FindingStatus.RESOLVED, claim, decision, answers, known)
        exposed = answers.leader == claim.broker
        if known.is_open and not refines(decision.kind, known.kind) and exposed == known.exposed:
            return None
        if known.is_open and refines(known.kind, decision.kind):
            decision = replace(decision, kind=known.kind)
        return _make(known.finding_id, FindingStatus.CONFIRMED, claim, decision, answers, known)

    def _linked(self, claim: Claim, decision: Decision, before: Sequence[Finding], attempts: int) -> Decision:
        """A difference of value that a difference of outcome explains is that divergence, and no second finding."""
        for finding in [*before, *self._ledger.standing.values()]:
            if finding.is_open and explains(_claim_of(finding), claim):
                reason = f"the same cause as finding {finding.finding_id} ({finding.kind})"
                return replace(decision, verdict=Verdict.DISMISSED, reason=reason)
        for task in self._tasks.values():
            if task.finding_id is None and explains(task.claim, claim):
                reason = f"waits for the verdict on {task.claim.kind} at offset {task.claim.first_offset}"
                return replace(decision, verdict=Verdict.PENDING, reason=reason)
        if decision.lone_witness and attempts < _LONE_PROBES:
            return replace(decision, verdict=Verdict.PENDING, reason=f"{decision.reason}; asked once more")
        return decision

    def _put_off(self, task: _Task, reason: str) -> None:
        """Probe again later, after twice the time for each try; a finding after its interval."""
        task.reason = reason
        task.attempts += 1
        wait_ms = min(self._settings.probe_retry_ms * 2 ** min(task.attempts - 1, 16), _BACKOFF_MAX_MS)
        if task.finding_id is not None:
            wait_ms = int(self._settings.recheck_interval_s * 1000)
        task.due = time.monotonic() + wait_ms / 1000

    def _trouble(self, error: str) -> None:
        log.error("findings", error=error)
        self._error = error
        self._tell()

    def _tell(self) -> None:
        pending: dict[tuple[str, int], int] = {}
        undecided: dict[str, str] = {}
        for name, task in self._tasks.items():
            if task.finding_id is None:
                place = task.claim.topic, task.claim.partition
                pending[place] = pending.get(place, 0) + 1
                undecided[name] = task.reason
        self._on_change(
            FindingsStatus(
                open=tuple(f for f in self._ledger.standing.values() if f.is_open),
                confirmed_total=dict(self._ledger.confirmed),
                dismissed_total=self._ledger.dismissed,
                resolved_total=self._ledger.resolved,
                pending=pending,
                undecided=undecided,
                probes_total=self._probes,
                last_probe_at=self._last_probe_at,
                error=self._error,
            )
        )


def _make(
    finding_id: str,
    status: FindingStatus,
    claim: Claim,
    decision: Decision,
    answers: Answers,
    known: Finding | None,
) -> Finding:
    """Put an event together."""
    suspected = from_milliseconds(claim.raised_at_ms)
    evidence = answers.evidence() | {"reason": decision.reason, "recorded": claim.recorded.as_json()}
    if status is FindingStatus.CONFIRMED:
        text = summary(claim, decision.kind, answers)
    elif status is FindingStatus.RESOLVED:
        text = resolved(claim, decision)
        evidence["resolution"] = str(decision.resolution)
    else:
        text = f"{status.capitalize()}: {decision.reason}."
    return Finding(
        finding_id=finding_id,
        sequence=0,
        status=status,
        kind=decision.kind,
        rule=claim.rule if decision.kind is claim.kind else RULES[decision.kind],
        severity=SEVERITY[decision.kind],
        topic=claim.topic,
        partition=claim.partition,
        broker=claim.broker,
        offset=claim.offset,
        producer_id=claim.producer_id,
        transaction_start_offset=claim.transaction_start_offset,
        marker_offset=claim.marker_offset,
        key_hash_hi=claim.key_hash_hi,
        key_hash_lo=claim.key_hash_lo,
        key=answers.key if answers.key is not None or known is None else known.key,
        summary=text,
        evidence=json.dumps(evidence, separators=(",", ":")),
        suspect_id=claim.suspect_id,
        first_suspected_at=suspected if known is None else min(suspected, known.first_suspected_at),
        decided_at=datetime.now(UTC),
        exposed=answers.leader == claim.broker,
    )


def _claim_of(finding: Finding) -> Claim:
    """The claim that a finding makes, to be checked again."""
    recorded = json.loads(finding.evidence or "{}").get("recorded", {})
    return Claim(
        suspect_id=finding.suspect_id,
        rule=finding.rule,
        kind=FindingKind(finding.kind),
        topic=finding.topic,
        partition=finding.partition,
        broker=finding.broker,
        offset=finding.offset,
        producer_id=finding.producer_id,
        transaction_start_offset=finding.transaction_start_offset,
        marker_offset=finding.marker_offset,
        key_hash_hi=finding.key_hash_hi,
        key_hash_lo=finding.key_hash_lo,
        recorded=Recorded.parse(json.dumps(recorded)),
        raised_at_ms=int(finding.first_suspected_at.timestamp() * 1000),
    )
