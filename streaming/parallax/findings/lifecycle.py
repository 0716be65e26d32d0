"""The life of suspects and findings, free of IO: what happened goes in, what is to be done comes out.

A suspect is probed until it is proven or cleared. A finding is probed again for as long as it stands, and for a while
after it was resolved. What is in memory can be rebuilt from the two tables: a suspect that no event names is pending,
the last event of an id is what stands. Memory is bounded by what is open and by what `parallax.findings.ledger` keeps.

Whoever drives it carries the actions out: asks what a `Probe` names and hands in `Answered`; appends what an `Append`
holds, and hands in `Committed` or `NotCommitted` before anything else; hands in a `Tick` at `Lifecycle.next_due`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

from parallax.backoff import backoff
from parallax.config import FindingSettings
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, explains
from parallax.findings.decide import Decision, Resolution, Verdict, named
from parallax.findings.effect import whole
from parallax.findings.finding import (
    Finding,
    claim_of,
    has_proven_direction,
    has_spread,
    is_exposed,
    made,
    was_explained,
)
from parallax.findings.held import Outcome, Page
from parallax.findings.incident import Proof, is_part_of_incident
from parallax.findings.incidents import ALONE, Incidents, group_of_claim, is_held
from parallax.findings.ledger import Label, Ledger
from parallax.findings.members import Group, State
from parallax.kinds import KEY_KINDS, KINDS, TRANSACTION_KINDS, refines
from parallax.model import NOBODY, FindingKind, FindingStatus, TopicPartition

_GROUP = 256
"""Claims of one replica of one partition that are probed together at most."""
_BACKOFF_MAX_S = 60.0
_CALM_OPEN = 100
"""With more open findings than this the interval between looks at each grows in proportion."""
_LONE_PROBES = 4
"""How many probes a difference that hangs on a lone witness is given for a suspect about its outcome to turn up."""
_GONE_PROBES = 2
"""How many probes must say that a partition is gone: a broker that has just started may not know of it yet."""
_RESOLVED_FACTOR = 10
"""A resolved or acknowledged finding is looked at this many times more rarely than an open one."""
_RESOLVED_FOR = timedelta(hours=24)
"""For how long a resolved finding is looked at, in case that it comes back."""
_FAILED = "the probe failed; see the log"
_RAISED_AGAIN_S = 5.0
_RAISED_AGAIN_MAX_S = 300.0
"""A suspect that was dismissed and is raised again is probed again, after twice the time for each dismissal."""


class Moment(NamedTuple):
    """Now, by two clocks: seconds that only ever grow, for waiting; UTC, for what is written."""

    monotonic: float
    at: datetime


# What happened.


@dataclass(frozen=True, slots=True)
class Loaded:
    """All events of the findings table, oldest first; handed in once, before anything else."""

    events: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Suspected:
    """Suspects that are in their table. One that is known already is left alone."""

    claims: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class Answered:
    """Probes that came back: the answers in the order of the probe's claims, or None where the probe itself failed."""

    results: Sequence[tuple[Probe, Sequence[Answers] | None]]


@dataclass(frozen=True, slots=True)
class Committed:
    """The last `Append` is in the table: its events, numbered."""

    events: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """Nothing of the last `Append` is in the table, or the table cannot be read.

    Attributes:
        error: one line for people; None where another process was faster, which is no fault.
    """

    error: str | None


@dataclass(frozen=True, slots=True)
class News:
    """Events that others have appended to the table: acknowledgements, and what seemed not to have been written."""

    events: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Loaded | Suspected | Answered | Committed | NotCommitted | News | Tick


# What is to be done.


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask about claims that accuse one replica of one partition.

    Attributes:
        tasks: by what the answers find their claims again; none where the claims are a page of many.
        page: what they are a page of.
    """

    claims: tuple[Claim, ...]
    tasks: tuple[int, ...]
    page: Page | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Append events to the findings table, in one commit."""

    events: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """The judging of a claim raised: say so. The claim is put off; no other is held up by it."""

    claim: Claim
    error: Exception


Action = Probe | Append | Broken


@dataclass(frozen=True, slots=True)
class FindingsStatus:
    """What has been committed, for metrics.

    Attributes:
        open: findings that stand confirmed and that nobody has acknowledged.
        acknowledged: findings that stand and are acknowledged.
        confirmed_total: how often a finding was confirmed, by `Label`; counted over the whole table.
        pending: suspects that wait for a verdict, by partition.
        undecided: why each suspect that is probed by itself is still pending, by its id; empty text before the first
            probe.
        judging_errors_total: how often the judging of a claim raised.
        unlisted_total: by topic, for how many claims a probe found that no coordinator lists the producer.
        probe_bytes: bytes of records that probes have read, by broker id, since the process started.
        last_probe_at: when a probe last came back, seconds since 1970 UTC; None before the first.
        error: why findings cannot be written or read at present; None where they can.
        skipped: rows of both tables that are left out, since a newer version wrote them.
    """

    open: tuple[Finding, ...] = ()
    acknowledged: tuple[Finding, ...] = ()
    confirmed_total: Mapping[Label, int] = field(default_factory=dict)
    dismissed_total: int = 0
    resolved_total: int = 0
    pending: Mapping[TopicPartition, int] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)
    probes_total: int = 0
    judging_errors_total: int = 0
    unlisted_total: Mapping[str, int] = field(default_factory=dict)
    probe_bytes: Mapping[int, int] = field(default_factory=dict)
    last_probe_at: float | None = None
    error: str | None = None
    skipped: int = 0


@dataclass(slots=True)
class _Task:
    """A claim to be probed: a suspect, or a finding (by its id) that is checked again.

    Attributes:
        number: no other task of the process has it.
        due: when to probe, by the monotonic clock.
        attempts: probes that decided nothing.
        gone: probes in a row that found the object gone.
        lone: probes that found the difference to hang on a lone witness.
        agreed: probes in a row that confirmed the same thing, `proven`.
        busy: a probe is under way, or its event is being written.
    """

    number: int
    claim: Claim
    due: float
    finding_id: str | None = None
    attempts: int = 0
    gone: int = 0
    lone: int = 0
    agreed: int = 0
    proven: tuple[FindingKind, int, int] | None = None
    reason: str = ""
    busy: bool = False

    @property
    def name(self) -> str:
        """There is one task of each name."""
        return self.claim.suspect_id if self.finding_id is None else f"finding:{self.finding_id}"


class _Tasks:
    """The tasks by number, by name and, those of suspects, by partition."""

    def __init__(self) -> None:
        self._by_number: dict[int, _Task] = {}
        self._by_name: dict[str, int] = {}
        self._suspects: dict[TopicPartition, dict[int, _Task]] = {}
        self.alone: Counter[Group] = Counter()
        """How many suspects of each group there are, of those that may be put together."""
        self._last = 0

    def put(self, claim: Claim, due: float, finding_id: str | None = None) -> None:
        """A new task, in the place of the one of the same name."""
        self._last += 1
        task = _Task(self._last, claim, due, finding_id)
        self.drop(task.name)
        self._by_number[task.number] = task
        self._by_name[task.name] = task.number
        if finding_id is None:
            self._suspects.setdefault(claim.place, {})[task.number] = task
            if is_held(claim):
                self.alone[group_of_claim(claim)] += 1

    def drop(self, name: str) -> None:
        """Away with the task of that name, if there is one."""
        number = self._by_name.pop(name, None)
        if number is None:
            return
        claim = self._by_number.pop(number).claim
        place = claim.place
        suspects = self._suspects.get(place, {})
        if suspects.pop(number, None) is not None and is_held(claim):
            group = group_of_claim(claim)
            self.alone[group] -= 1
            if not self.alone[group]:
                del self.alone[group]
        if not suspects:
            self._suspects.pop(place, None)

    def numbered(self, number: int) -> _Task | None:
        """The task of a number; None where another has taken its place."""
        return self._by_number.get(number)

    def named(self, name: str) -> _Task | None:
        """The task of a name."""
        number = self._by_name.get(name)
        return None if number is None else self._by_number[number]

    def suspects_of(self, place: TopicPartition) -> Iterable[_Task]:
        """The suspects of a partition."""
        return self._suspects.get(place, {}).values()

    def suspects(self) -> Iterator[_Task]:
        """All suspects."""
        for tasks in self._suspects.values():
            yield from tasks.values()

    def idle(self) -> Iterator[_Task]:
        """All that is neither being probed nor being written."""
        return (task for task in self._by_number.values() if not task.busy)


class Lifecycle:
    """Decides what is probed when, and what events follow from the answers.

    Args:
        settings: intervals.
        draw: where jitter comes from.
        alone: of one kind about one replica, so many are looked at one by one; more are an incident.
    """

    def __init__(self, settings: FindingSettings, draw: Random, alone: int = ALONE) -> None:
        self.cluster_id = ""
        """Part of every finding's id; to be set before the first event."""
        self._settings = settings
        self._draw = draw
        self._tasks = _Tasks()
        self._ledger = Ledger()
        self._incidents = Incidents(self._interval, settings.probe_retry_ms / 1000, draw, alone)
        self._writing: list[_Task] = []
        self._appending = False
        self._probes = 0
        self._unlisted: Counter[str] = Counter()
        self._judging_errors = 0
        self._last_probe_at: float | None = None
        self._error: str | None = None

    def handle(self, event: Event, now: Moment) -> list[Action]:
        """Take an event in; returns what is to be done, in this order."""
        actions: list[Action] = []
        events: list[Finding] = []
        match event:
            case Loaded():
                self._load(event.events, now)
            case Suspected():
                self._accept(event.claims, now)
            case Answered():
                pages = self._back_of_pages(event, now)
                results = self._back(event, now)
                actions += self._judge(results, events, now)
                actions += self._judge_pages(pages, events, now)
            case Committed():
                self._writing, self._appending = [], False
                self._error = None
                self._enter(event.events, now)
            case NotCommitted():
                self._not_committed(event.error, now)
            case News():
                self._enter(event.events, now)
            case Tick():
                pass
        self._put(self._incidents.few(self._tasks.alone), now)
        if not self._appending:
            self._incidents.cluster_id = self.cluster_id
            events += self._incidents.reports(now.monotonic, now.at)
        if events:
            self._appending = True
            actions.append(Append(tuple(events)))
        return actions + self._due(now)

    def next_due(self, now: float) -> float | None:
        """When the next probe or event is due, by the monotonic clock; None where nothing waits."""
        times = [task.due for task in self._tasks.idle()]
        if (due := self._incidents.next_due(now)) is not None:
            times.append(due)
        return min(times, default=None)

    def waits(self, suspect_id: str) -> str | None:
        """Why a suspect has no verdict yet; None where it does not wait for one."""
        task = self._tasks.named(suspect_id)
        if task is None:
            return self._incidents.waits(suspect_id)
        return task.reason or "it has not been probed yet"

    def is_new(self, claim: Claim) -> bool:
        """Whether a suspect neither waits for a verdict nor has had one that still holds."""
        if self._tasks.named(claim.suspect_id) is not None or self._incidents.holds(claim.suspect_id):
            return False
        if (handled := self._ledger.handled(claim.suspect_id)) is None:
            return True
        finding = self._ledger.standing(handled.finding_id)
        return claim.raised_at_ms >= handled.decided_ms and not (finding is not None and finding.stands)

    def standing(self) -> list[Finding]:
        """The findings that stand, acknowledged or not."""
        return [finding for finding in self._ledger if finding.stands]

    def members(self, finding_id: str) -> list[Claim]:
        """What an incident counts, as single findings would claim it; an object for each."""
        return self._incidents.members(finding_id)

    def status(self) -> FindingsStatus:
        """What has been committed."""
        pending = self._incidents.pending()
        undecided: dict[str, str] = {}
        for task in self._tasks.suspects():
            place = task.claim.place
            pending[place] = pending.get(place, 0) + 1
            undecided[task.name] = task.reason
        standing = self.standing()
        return FindingsStatus(
            open=tuple(f for f in standing if f.is_open),
            acknowledged=tuple(f for f in standing if not f.is_open),
            confirmed_total=dict(self._ledger.confirmed),
            dismissed_total=self._ledger.dismissed,
            resolved_total=self._ledger.resolved,
            pending=pending,
            undecided=undecided,
            probes_total=self._probes,
            unlisted_total=dict(self._unlisted),
            judging_errors_total=self._judging_errors,
            last_probe_at=self._last_probe_at,
            error=self._error,
        )

    # What comes in.

    def _load(self, events: Iterable[Finding], now: Moment) -> None:
        freed: dict[str, Claim] = {}
        for event in events:
            freed.pop(event.suspect_id, None)
            freed |= {claim.suspect_id: claim for claim in self._ledger.add(event)}
            self._incidents.add(event, now.monotonic)
        self._incidents.loaded()
        for finding in self._ledger:
            self._check_again(finding, now)
        self._put(self._incidents.hold(list(freed.values()), self._tasks.alone), now)
        self._error = None

    def _accept(self, claims: Iterable[Claim], now: Moment) -> None:
        """Suspects; one that has had its verdict is probed again if it was raised again since then."""
        new = {claim.suspect_id: claim for claim in claims if self.is_new(claim)}
        for claim in self._incidents.hold(list(new.values()), self._tasks.alone):
            wait = 0.0
            if (handled := self._ledger.handled(claim.suspect_id)) is not None and handled.dismissals:
                wait = backoff(handled.dismissals, _RAISED_AGAIN_S, _RAISED_AGAIN_MAX_S, self._draw)
                wait -= now.at.timestamp() - handled.decided_ms / 1000
            self._tasks.put(claim, now.monotonic + max(0.0, wait))

    def _put(self, claims: Iterable[Claim], now: Moment) -> None:
        for claim in claims:
            self._tasks.put(claim, now.monotonic)

    def _back_of_pages(self, answered: Answered, now: Moment) -> list[tuple[Page, Sequence[Answers]]]:
        """The answers about pages of many."""
        pages = []
        for probe, answers in answered.results:
            if probe.page is not None and answers is None:
                self._incidents.failed(probe.page, _FAILED, now.monotonic)
            elif probe.page is not None and answers is not None:
                pages.append((probe.page, answers))
        return pages

    def _back(self, answered: Answered, now: Moment) -> list[tuple[_Task, Answers]]:
        """The answers with their tasks, those on transactions first: they may explain others."""
        results: list[tuple[_Task, Answers]] = []
        for probe, answers in answered.results:
            self._probes += 1
            self._last_probe_at = now.at.timestamp()
            for i, number in enumerate(probe.tasks):
                task = self._tasks.numbered(number)
                if task is None:
                    continue
                task.busy = False
                if answers is None:
                    self._put_off(task, _FAILED, now)
                else:
                    self._note_unlisted(task.claim, answers[i])
                    results.append((task, answers[i]))
        return sorted(results, key=lambda result: result[0].claim.kind not in TRANSACTION_KINDS)

    def _note_unlisted(self, claim: Claim, answers: Answers) -> None:
        """Count what the coordinators may have left out because Parallax may not describe it."""
        if answers.coordinator is not None and answers.coordinator.is_not_listed:
            self._unlisted[claim.topic] += 1

    def _enter(self, events: Iterable[Finding], now: Moment) -> None:
        """Take in events that are in the table."""
        for event in events:
            self._tasks.drop(event.suspect_id)
            freed = self._ledger.add(event)
            self._incidents.add(event, now.monotonic)
            if event.kind in TRANSACTION_KINDS and not event.stands:
                self._incidents.free(event.place)
            standing = self._ledger.standing(event.finding_id)
            if standing is not None:
                self._check_again(standing, now)
            self._put(self._incidents.hold(freed, self._tasks.alone), now)

    def _not_committed(self, error: str | None, now: Moment) -> None:
        self._error = error
        self._appending = False
        self._incidents.not_committed(now.monotonic)
        for task in self._writing:
            task.busy = False
            self._put_off(task, "the findings table could not be written" if error else "asked once more", now)
        self._writing = []

    # What is due.

    def _due(self, now: Moment) -> list[Probe]:
        """Everything that is due, together where it concerns one replica of one partition."""
        groups: dict[tuple[TopicPartition, int], list[_Task]] = {}
        for task in self._tasks.idle():
            if task.due <= now.monotonic:
                claim = task.claim
                groups.setdefault((claim.place, claim.pivot), []).append(task)
        probes = []
        for tasks in groups.values():
            for start in range(0, len(tasks), _GROUP):
                part = tasks[start : start + _GROUP]
                for task in part:
                    task.busy = True
                probes.append(Probe(tuple(t.claim for t in part), tuple(t.number for t in part)))
        return probes + [Probe(page.claims, (), page) for page in self._incidents.due(now.monotonic)]

    def _check_again(self, finding: Finding, now: Moment) -> None:
        """Have a finding probed again after its interval; a resolved one not for ever."""
        if self._is_over(finding, now):
            self._ledger.forget(finding.finding_id)
            self._tasks.drop(f"finding:{finding.finding_id}")
            return
        if finding.is_incident:
            return
        self._tasks.put(claim_of(finding), now.monotonic + self._interval(finding), finding.finding_id)

    def _is_over(self, finding: Finding, now: Moment) -> bool:
        """Whether a resolved finding need not be looked at any more.

        One that another explains waits for that one's end, and as long again: it may stand without it.
        """
        if is_part_of_incident(finding):
            return True
        if finding.status is not FindingStatus.RESOLVED or now.at - finding.decided_at <= _RESOLVED_FOR:
            return False
        return not (was_explained(finding) and self._ledger.has_cause_of(claim_of(finding)))

    def _interval(self, finding: Finding | None) -> float:
        seconds = self._settings.recheck_interval_s * max(1.0, self._ledger.open / _CALM_OPEN)
        return seconds * (_RESOLVED_FACTOR if finding is not None and not finding.is_open else 1)

    def _put_off(self, task: _Task, reason: str, now: Moment, *, soon: bool = False) -> None:
        """Probe again later, after twice the time for each try; a finding after its interval, unless it is soon."""
        task.reason = reason
        task.attempts += 1
        first = self._settings.probe_retry_ms / 1000
        wait = backoff(1 if soon else task.attempts, first, _BACKOFF_MAX_S, self._draw)
        if task.finding_id is not None and not soon:
            wait = self._interval(self._ledger.standing(task.finding_id))
        task.due = now.monotonic + wait

    # What follows from answers.

    def _judge(self, results: Sequence[tuple[_Task, Answers]], events: list[Finding], now: Moment) -> list[Action]:
        """What is to be said of answers to single claims; ``events`` takes up the events that they call for."""
        broken: list[Action] = []
        for task, answers in results:
            try:
                event = self._event(task, answers, events, now)
            except Exception as error:  # noqa: BLE001 - one claim that cannot be judged holds up no other
                self._judging_errors += 1
                self._put_off(task, f"it could not be judged: {type(error).__name__}: {error}", now)
                broken.append(Broken(task.claim, error))
                continue
            if event is not None:
                task.busy = True
                self._writing.append(task)
                events.append(event)
        return broken

    def _judge_pages(
        self, pages: Iterable[tuple[Page, Sequence[Answers]]], before: Sequence[Finding], now: Moment
    ) -> list[Action]:
        """Judge the members of pages, each by itself and as a single one would be."""
        broken: list[Action] = []
        for page, all_answers in pages:
            outcomes = []
            for i, answers in enumerate(all_answers):
                try:
                    outcomes.append(self._outcome(page, i, answers, before))
                except Exception as error:  # noqa: BLE001 - as of a single one
                    self._judging_errors += 1
                    reason = f"it could not be judged: {type(error).__name__}: {error}"
                    outcomes.append(Outcome(State.UNDECIDED, reason=reason))
                    broken = [Broken(page.claims[i], error)]
            self._incidents.judged(page, outcomes, now.monotonic)
        return broken

    def _outcome(self, page: Page, at: int, answers: Answers, before: Sequence[Finding]) -> Outcome:
        """What a probe makes of one member of a page."""
        task = _Task(0, page.claims[at], 0.0, "" if page.is_proven else None, gone=page.gone, lone=page.lone[at])
        outcome = self._outcome_of(task, page, page.originals[at], answers, before)
        return replace(outcome, gone=task.gone, lone=task.lone)

    def _outcome_of(
        self, task: _Task, page: Page, original: Claim, answers: Answers, before: Sequence[Finding]
    ) -> Outcome:
        judged = whole(named(task.claim, answers), answers, live_only=page.is_proven)
        claim, decision, answers = judged.claim, judged.decision, judged.answers
        decision = self._twice(task, claim, decision, answers)
        leans_on: str | None = None
        if not page.is_proven:
            decision, leans_on = self._linked(task, claim, decision, before)
        elif decision.verdict is not Verdict.PENDING:
            decision = self._explained(claim, decision, before)
        if decision.verdict is Verdict.PENDING:
            return Outcome(State.UNDECIDED, reason=decision.reason)
        if leans_on is not None or decision.resolution is Resolution.EXPLAINED:
            return Outcome(State.EXPLAINED, resolution=str(Resolution.EXPLAINED))
        if decision.verdict is Verdict.DISMISSED and not decision.has_spread:
            return Outcome(State.OVER, resolution=str(decision.resolution))
        known = None if page.is_proven else self._ledger.standing(original.finding_id(self.cluster_id))
        if known is not None and known.stands:
            return Outcome(State.OVER)  # It is reported already.
        accused = claim.broker if decision.has_spread else decision.accused
        group = page.group if page.is_proven else Group(claim.place, accused, decision.kind)
        state = State.SPREAD if decision.has_spread else State.WRONG
        return Outcome(state, group, Proof(claim, decision, answers))

    def _event(self, task: _Task, answers: Answers, before: Sequence[Finding], now: Moment) -> Finding | None:
        """The event that a probe calls for; None where nothing is decided or nothing has changed."""
        judged = whole(named(task.claim, answers), answers, live_only=task.finding_id is not None)
        claim, decision, answers = judged.claim, judged.decision, judged.answers
        decision = self._twice(task, claim, decision, answers)
        leans_on: str | None = None
        if claim.kind in KEY_KINDS and task.finding_id is None:
            decision, leans_on = self._linked(task, claim, decision, before)
        if decision.verdict is Verdict.PENDING:
            self._put_off(task, decision.reason, now, soon=0 < task.agreed < KINDS[decision.kind].agreeing)
            return None
        finding_id = task.finding_id or claim.finding_id(self.cluster_id)
        known = next((e for e in reversed(before) if e.finding_id == finding_id and e.status != "dismissed"), None)
        known = known or self._ledger.standing(finding_id)
        if task.finding_id is not None:
            decision = self._explained(claim, decision, before)
            return self._rechecked(task, claim, decision, answers, known, now)
        is_proven = decision.verdict is Verdict.CONFIRMED or decision.has_spread
        status = FindingStatus.SPREAD if decision.has_spread else FindingStatus.CONFIRMED
        if is_proven and known is not None and known.stands:
            if _says_more(decision, known):
                return made(finding_id, status, claim, decision, answers, known, now.at)
            leans_on = finding_id
            decision = replace(
                decision, verdict=Verdict.DISMISSED, reason=f"reported already: finding {finding_id} ({known.kind})"
            )
            is_proven = False
        if not is_proven:
            # Under an id of its own where the finding's has a meaning already: a dismissal takes nothing back.
            finding_id = finding_id if known is None else claim.suspect_id
            status = FindingStatus.DISMISSED
        return made(finding_id, status, claim, decision, answers, known, now.at, leans_on=leans_on)

    def _rechecked(
        self, task: _Task, claim: Claim, decision: Decision, answers: Answers, known: Finding | None, now: Moment
    ) -> Finding | None:
        """What a finding that was checked again has become; None where that is what it was."""
        if known is None:
            self._tasks.drop(task.name)
            return None
        status = FindingStatus.CONFIRMED
        if decision.has_spread:
            status = FindingStatus.SPREAD
            changed = known.stands and not (has_spread(known) and not refines(decision.kind, known.kind))
        elif decision.verdict is Verdict.DISMISSED:
            status = FindingStatus.RESOLVED
            changed = known.stands
        elif has_spread(known):
            changed = True
        else:
            if _takes_back(decision, known) and has_proven_direction(known):
                # What had proven the direction is gone; that it was proven has not changed.
                decision = replace(decision, kind=known.kind, accused=known.broker)
            changed = not known.stands or _has_changed(claim, decision, answers, known)
        if not changed:
            self._check_again(known, now)
            return None
        if status is FindingStatus.CONFIRMED and known.stands and not _takes_back(decision, known):
            decision = replace(decision, kind=known.kind if refines(known.kind, decision.kind) else decision.kind)
        return made(known.finding_id, status, claim, decision, answers, known, now.at)

    def _explained(self, claim: Claim, decision: Decision, before: Sequence[Finding]) -> Decision:
        """A finding on a value ends when one on an outcome, confirmed since, explains it: it is that divergence."""
        cause = self._cause(claim, before) if claim.kind in KEY_KINDS else None
        if cause is None or decision.verdict is Verdict.DISMISSED:
            return decision
        reason = f"the same cause as finding {cause[0]} ({cause[1].kind})"
        return replace(decision, verdict=Verdict.DISMISSED, reason=reason, resolution=Resolution.EXPLAINED)

    def _cause(self, claim: Claim, before: Sequence[Finding]) -> tuple[str, Claim] | None:
        """The finding on a transaction that explains a difference of value, by its id; None where none does."""
        causes = {e.finding_id: claim_of(e) for e in before if e.stands} | dict(self._ledger.causes(claim.place))
        return next(((name, cause) for name, cause in causes.items() if explains(cause, claim)), None)

    def _twice(self, task: _Task, claim: Claim, decision: Decision, answers: Answers) -> Decision:
        """Have a verdict wait that one probe alone is not trusted with."""
        task.gone = task.gone + 1 if answers.gone is not None else 0
        if 0 < task.gone < _GONE_PROBES:
            return replace(decision, verdict=Verdict.PENDING, reason=f"{answers.gone}; asked once more")
        if decision.verdict is not Verdict.CONFIRMED and not decision.has_spread:
            task.agreed = 0
            return decision
        proven = decision.kind, claim.producer_id, claim.transaction_start_offset
        task.agreed = task.agreed + 1 if proven == task.proven else 1
        task.proven = proven
        if task.agreed < KINDS[decision.kind].agreeing:
            return replace(decision, verdict=Verdict.PENDING, reason=f"{decision.reason}; asked once more")
        return decision

    def _linked(
        self, task: _Task, claim: Claim, decision: Decision, before: Sequence[Finding]
    ) -> tuple[Decision, str | None]:
        """A difference of value that a difference of outcome explains is that divergence, and no second finding."""
        if decision.verdict is Verdict.DISMISSED:
            return decision, None
        place = claim.place
        if (cause := self._cause(claim, before)) is not None:
            reason = f"the same cause as finding {cause[0]} ({cause[1].kind})"
            return replace(decision, verdict=Verdict.DISMISSED, reason=reason), cause[0]
        for other in self._tasks.suspects_of(place):
            if explains(other.claim, claim):
                reason = f"waits for the verdict on {other.claim.kind} at offset {other.claim.first_offset}"
                return replace(decision, verdict=Verdict.PENDING, reason=reason), None
        if decision.verdict is Verdict.CONFIRMED and decision.lone_witness and task.lone < _LONE_PROBES:
            task.lone += 1
            return replace(decision, verdict=Verdict.PENDING, reason=f"{decision.reason}; asked once more"), None
        return decision, None


def _has_changed(claim: Claim, decision: Decision, answers: Answers, known: Finding) -> bool:
    """Whether a finding that stands has to be reported again, with what it says now."""
    exposed = is_exposed(decision.accused, decision, answers)
    if _says_more(decision, known) or _takes_back(decision, known) or (exposed and not known.exposed):
        return True
    # An acknowledgement holds until the finding becomes worse. Of a transaction, another record may be wrong still.
    moved = not claim.renamed and claim.first_offset != claim_of(known).first_offset
    return known.is_open and (moved or exposed != known.exposed)


def _takes_back(decision: Decision, known: Finding) -> bool:
    """Whether a finding that stands accuses somebody, and a verdict nobody."""
    return known.stands and known.broker != NOBODY and decision.accused == NOBODY


def _says_more(decision: Decision, known: Finding) -> bool:
    """Whether a verdict refines a finding: by its kind, or by accusing where nobody was accused."""
    return refines(decision.kind, known.kind) or (known.broker == NOBODY and decision.accused != NOBODY)
