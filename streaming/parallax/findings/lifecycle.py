"""Decides when suspects and findings are probed and what the answers mean. No IO: events go in, actions come out.

A suspect is probed until it is proven or dismissed. A finding is probed again until it is over, and for a while after
it was resolved. The tables ``suspects``, ``findings`` and ``members`` are enough to rebuild what is in memory. A
suspect that the other two do not name waits for its verdict. The last event of a finding is its state, and so is the
last row of an incident's member. Memory is bounded by what is open and by what `parallax.findings.ledger` keeps.

The caller carries the actions out. It sends the questions of a `Probe`, and hands in `Answered`. It appends the events
of an `Append`, and hands in `Committed` or `NotCommitted` before anything else. At `Lifecycle.next_due` it hands in a
`Tick`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random

from parallax.backoff import backoff
from parallax.config import FindingSettings
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, explains
from parallax.findings.finding import Finding, Repaired, claim_of, never_repaired, was_explained, was_only_shown
from parallax.findings.groups import Groups
from parallax.findings.happenings import (
    Action,
    Answered,
    Append,
    AskedAgain,
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
)
from parallax.findings.held import NOT_PROBED, MemberOutcome, Page
from parallax.findings.incident import decided, incident_id, is_part_of_incident
from parallax.findings.incidents import ALONE, Incidents
from parallax.findings.judging import Judging, Later, Unchanged
from parallax.findings.ledger import RESOLVED_FOR, FindingLedger, explains_less
from parallax.findings.members import OPEN, State
from parallax.findings.renewed import Renewed, Unconfirmed
from parallax.findings.tasks import Task, Tasks
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, FindingStatus, TopicPartition
from parallax.moments import from_milliseconds, milliseconds

_GROUP = 256
"""At most so many claims of one replica of one partition are probed together."""
_BACKOFF_MAX_S = 60.0
_CALM_STANDING = 100
"""With more findings than this the interval between looks at each grows in proportion."""
_RESOLVED_FACTOR = 10
"""A resolved finding is looked at this many times more rarely than one that is not over."""
_EXPLAINED_FOR = timedelta(days=30)
"""How long an explained finding is looked at when the job starts, however long the job was down."""
_FAILED = "the probe failed; see the log"
_RAISED_MEANWHILE = "it was raised again while it was being probed"
_RAISED_AGAIN_S = 5.0
_RAISED_AGAIN_MAX_S = 300.0
"""The longest wait before a dismissed suspect that is raised again is probed. The wait doubles with each dismissal."""


class Lifecycle:
    """Decides when each claim is probed, and which events of the findings table follow from the answers.

    Args:
        settings: the intervals between probes.
        draw: random numbers that spread probes over time.
        alone: up to so many claims of one kind about one replica are probed one by one; more are an incident.
        repaired: returns what is on record of a finding's repairs.
    """

    def __init__(
        self, settings: FindingSettings, draw: Random, alone: int = ALONE, repaired: Repaired = never_repaired
    ) -> None:
        self.cluster_id = ""
        """Part of every finding's id; to be set before the first event."""
        self._settings = settings
        self._retry_s = settings.probe_retry_ms / 1000
        self._draw = draw
        self._tasks = Tasks()
        self._ledger = FindingLedger()
        self._groups = Groups()
        self._incidents = Incidents(self._groups, self._interval, self._retry_s, draw, alone, repaired)
        self._judging = Judging(self._tasks, self._ledger, self._groups, repaired)
        self._again: dict[str, Claim] = {}
        """Suspects that were raised while a probe about them was under way, until that has come to a verdict."""
        self._unseen: dict[str, str] = {}
        """By id, the findings without a verdict since `look_again`, with the reason of the last probe."""
        self._looks_again = False
        self._asked_pages: dict[int, tuple[TopicPartition, int]] = {}
        """By number: of which partition the pages are that are being asked about, and since when."""
        self._writing: list[Task] = []
        self._appending = False
        self._probes = 0
        self._unlisted: Counter[str] = Counter()
        self._judging_errors = 0
        self._last_probe_at: float | None = None
        self._asked_again: dict[str, AskedAgain] = {}
        self._unconfirmed = Unconfirmed()
        self._error: str | None = None

    def handle(self, event: Event, now: Moment) -> list[Action]:
        """Take in one event, and return the actions to carry out, in their order.

        The classes of events and actions are in `parallax.findings.happenings`.
        """
        actions: list[Action] = []
        events: list[Finding] = []
        self._groups.cluster_id = self.cluster_id
        match event:
            case Loaded():
                self._load(event, now)
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
                self._incidents.committed()
                self._enter(event.events, now)
            case NotCommitted():
                self._not_committed(event.error, now)
            case News():
                self._enter(event.events, now)
            case Changed():
                self._renew(event.replicas, now)
        self._accept_again(now)
        self._put(self._incidents.few(self._tasks.alone), now)
        if not self._appending:
            events += self._incidents.reports(now.monotonic, now.at)
        members = self._incidents.unwritten()
        if events or (members and self._incidents.may_write(now.monotonic)):
            self._appending = True
            actions.append(Append(tuple(events), members))
        return actions + self._due(now)

    def next_due(self, now: float) -> float | None:
        """Return when the next probe or report is due, in seconds of the monotonic clock.

        None if none is planned.

        Args:
            now: the present time by that clock.
        """
        times = [task.due for task in self._tasks.idle()]
        if (due := self._incidents.next_due(now)) is not None:
            times.append(due)
        return min(times, default=None)

    def waits(self, suspect_id: str) -> str | None:
        """Return why the suspect ``suspect_id`` waits for a verdict, e.g. "it has not been probed yet".

        None if it does not wait.
        """
        task = self._tasks.named(suspect_id)
        if task is None:
            again = _RAISED_MEANWHILE if suspect_id in self._again else None
            return self._groups.waits(suspect_id) or again
        return task.reason or NOT_PROBED

    def is_new(self, claim: Claim) -> bool:
        """Whether a suspect still has to be handed in, because no probe or verdict takes care of it.

        A verdict no longer counts if the suspect was raised again after the replicas were asked.
        """
        return self._is_raised_meanwhile(claim) or self._is_unknown(claim)

    def _is_raised_meanwhile(self, claim: Claim) -> bool:
        """Whether a running probe was sent before a suspect was raised, and asks about it, or about its finding.

        The answer is no if the suspect, or a later one of the same id, waits for that probe already.
        """
        known = self._again.get(claim.suspect_id)
        if known is not None and known.raised_at_ms >= claim.raised_at_ms:
            return False
        task, handled = self._tasks.named(claim.suspect_id), self._ledger.handled(claim.suspect_id)
        finding = None if handled is None else self._ledger.standing(handled.finding_id)
        if finding is not None and finding.stands:
            task = self._tasks.named(f"finding:{finding.finding_id}")
        if task is not None and task.busy and task.asked_ms <= claim.raised_at_ms:
            return True
        asked = (at for place, at in self._asked_pages.values() if place == claim.place)
        return any(at <= claim.raised_at_ms for at in asked) and self._groups.holds(claim)

    def _is_unknown(self, claim: Claim) -> bool:
        if claim.suspect_id in self._again or self._tasks.named(claim.suspect_id) is not None:
            return False
        if self._groups.holds(claim):
            return False
        if (handled := self._ledger.handled(claim.suspect_id)) is None:
            return True
        finding = self._ledger.standing(handled.finding_id)
        return claim.raised_at_ms >= handled.asked_ms and not (finding is not None and finding.stands)

    def look_again(self, now: Moment) -> None:
        """Let every open finding be probed immediately. Incidents are left out.

        The job asks about the members of incidents at each start anyway.
        """
        self._looks_again = True
        for finding in self.standing():
            if not finding.is_incident:
                self._tasks.put(claim_of(finding), now.monotonic, finding.finding_id)
                self._unseen[finding.finding_id] = ""

    def not_seen_again(self) -> dict[str, str]:
        """Return the open findings that probes have not fully checked since `look_again`, by id with the reason.

        Returns:
            By finding id: why the last probe did not decide whether the finding is still true, or how much of an
            incident is not checked yet. The text is empty before the replicas have answered.
        """
        if not self._looks_again:
            return {}
        single = {name: why for name, why in self._unseen.items() if self._tasks.named(f"finding:{name}") is not None}
        return single | self._groups.not_seen_again()

    def standing(self) -> list[Finding]:
        """Return the findings that are not over, acknowledged or not."""
        return [finding for finding in self._ledger if finding.stands]

    def status(self) -> FindingsStatus:
        """Return numbers and lists of suspects and findings for metrics. Only what is in the tables counts."""
        pending, waits = self._groups.pending(), self._groups.reasons()
        for task in self._tasks.suspects():
            place = task.claim.place
            pending[place] = pending.get(place, 0) + 1
            if task.reason:
                waits[place] = task.reason
        waits = dict.fromkeys(pending, NOT_PROBED) | waits
        standing = self.standing()
        names = {finding.finding_id for finding in standing}
        self._asked_again = {name: one for name, one in self._asked_again.items() if name in names}
        self._unconfirmed.keep(names)
        return FindingsStatus(
            open=tuple(f for f in standing if f.is_open),
            acknowledged=tuple(f for f in standing if not f.is_open),
            ended=tuple(self._ledger.ended.values()),
            confirmed_total=dict(self._ledger.confirmed),
            dismissed_total=self._ledger.dismissed,
            resolved_total=self._ledger.resolved,
            pending=pending,
            waits=waits,
            probes_total=self._probes,
            unlisted_total=dict(self._unlisted),
            judging_errors_total=self._judging_errors,
            last_probe_at=self._last_probe_at,
            asked_again=dict(self._asked_again),
            unconfirmed=self._unconfirmed.brokers,
            error=self._error,
        )

    # What comes in.

    def _load(self, loaded: Loaded, now: Moment) -> None:
        freed: dict[str, tuple[Claim, int]] = {}
        for event in loaded.events:
            freed.pop(event.suspect_id, None)
            at_ms = milliseconds(event.decided_at)
            freed |= {claim.suspect_id: (claim, at_ms) for claim in self._ledger.add(event, now.at)}
            self._incidents.add(event, now.monotonic, at_start=True)
        alone = self._incidents.load(loaded.members, self.standing())
        for finding in self._ledger:
            self._check_again(finding, now, since_start=True)
        asked = decided((), loaded.members)
        again = [claim for name, (claim, at_ms) in freed.items() if asked.get(name, UNKNOWN) < at_ms]
        again += [claim for claim in alone if self.is_new(claim)]
        self._put(self._incidents.hold([c for c in again if not self._groups.holds(c)], self._tasks.alone), now)
        for finding in self.standing():
            if finding.is_incident:
                self._free(finding.finding_id, lambda claim: not self._groups.explains(claim), now)
        self._error = None

    def _accept(self, claims: Iterable[Claim], now: Moment) -> None:
        """Take in suspects; one that has had its verdict is probed again if it was raised since it was asked about."""
        for claim in self._incidents.hold(self._new(claims), self._tasks.alone):
            due = now.monotonic
            if (handled := self._ledger.handled(claim.suspect_id)) is not None and handled.dismissals:
                due += backoff(handled.dismissals, _RAISED_AGAIN_S, _RAISED_AGAIN_MAX_S, self._draw)
                due -= now.at.timestamp() - handled.decided_ms / 1000
            self._tasks.put(claim, due)

    def _new(self, claims: Iterable[Claim]) -> list[Claim]:
        """Return the suspects to be probed; those that a running probe asks about may be new once that is back."""
        claims = list(claims)
        self._again |= {claim.suspect_id: claim for claim in claims if self._is_raised_meanwhile(claim)}
        return list({claim.suspect_id: claim for claim in claims if self._is_unknown(claim)}.values())

    def _accept_again(self, now: Moment) -> None:
        """Take in those that were raised while a probe was running that is back now; others wait on."""
        again, self._again = self._again, {}
        if again:
            self._accept(again.values(), now)

    def _put(self, claims: Iterable[Claim], now: Moment) -> None:
        for claim in claims:
            self._tasks.put(claim, now.monotonic)

    def _back_of_pages(self, answered: Answered, now: Moment) -> list[tuple[Page, Sequence[Answers], int]]:
        """Return the answers about pages of many, each with when the probe was sent, in milliseconds since 1970 UTC."""
        pages = []
        for probe, answers in answered.results:
            if probe.page is None:
                continue
            _, asked_ms = self._asked_pages.pop(probe.page.number)
            if answers is None:
                self._incidents.failed(probe.page, _FAILED, now.monotonic)
            else:
                pages.append((probe.page, answers, asked_ms))
        return pages

    def _back(self, answered: Answered, now: Moment) -> list[tuple[Task, Answers]]:
        """Return the answers with their tasks; those that may explain others come first."""
        results: list[tuple[Task, Answers]] = []
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
                    results.append((task, _dated(answers[i], task)))
        return sorted(results, key=lambda result: _rank(result[0].claim))

    def _note_unlisted(self, claim: Claim, answers: Answers) -> None:
        """Count what the coordinators may have left out because Parallax may not describe it."""
        if answers.coordinator is not None and answers.coordinator.is_not_listed:
            self._unlisted[claim.topic] += 1

    def _enter(self, events: Iterable[Finding], now: Moment) -> None:
        """Take in events that are in the table."""
        for event in events:
            self._tasks.drop(event.suspect_id)
            known = self._ledger.standing(event.finding_id)
            freed = self._ledger.add(event)
            self._incidents.add(event, now.monotonic)
            self._free_held(known, event)
            standing = self._ledger.standing(event.finding_id)
            if standing is not None:
                self._check_again(standing, now)
            self._put(self._incidents.hold(freed, self._tasks.alone), now)
        self._free_of_members(now)

    def _free_held(self, known: Finding | None, event: Finding) -> None:
        """Judge held-back suspects again where a finding may not explain them any more."""
        said = [event] if known is None else [known, event]
        if event.stands:
            if known is not None and not event.is_incident and explains_less(known, event):
                # What a frozen replica shows does not change, even where another producer has written.
                is_frozen = known.kind is FindingKind.READ_COMMITTED_FROZEN
                self._groups.free(event.place, None if is_frozen else [claim_of(known)])
        elif event.is_incident or any(one.kind in TRANSACTION_KINDS for one in said):
            self._groups.free(event.place)
        elif over := [claim_of(one) for one in said if one.accused_key is not None]:
            self._groups.free(event.place, over)

    def _not_committed(self, error: str | None, now: Moment) -> None:
        self._error = error
        self._appending = False
        self._incidents.not_committed(now.monotonic)
        for task in self._writing:
            task.busy = False
            self._put_off(task, "the findings table could not be written" if error else "asked once more", now)
        self._writing = []

    def _renew(self, replicas: Renewed, now: Moment) -> None:
        """Look at the open findings of partitions whose replicas may have been changed since their last look."""
        by_place: dict[TopicPartition, dict[int, int]] = {}
        for (place, broker), at_ms in replicas.items():
            by_place.setdefault(place, {})[broker] = min(at_ms, milliseconds(now.at))
        for finding in self.standing():
            brokers = by_place.get(finding.place, {})
            if not self._unconfirmed.renewed(finding, brokers):
                continue
            if finding.is_incident:
                self._incidents.look_again(finding, now.monotonic)
            else:
                self._tasks.put(claim_of(finding), now.monotonic, finding.finding_id)

    # What is due.

    def _due(self, now: Moment) -> list[Probe]:
        """Return everything that is due, together where it concerns one replica of one partition."""
        asked_ms = milliseconds(now.at)
        groups: dict[tuple[TopicPartition, int], list[Task]] = {}
        for task in self._tasks.idle():
            if task.due <= now.monotonic:
                claim = task.claim
                groups.setdefault((claim.place, claim.pivot), []).append(task)
        probes = []
        for tasks in groups.values():
            for start in range(0, len(tasks), _GROUP):
                part = tasks[start : start + _GROUP]
                for task in part:
                    task.busy, task.asked_ms = True, asked_ms
                probes.append(Probe(tuple(t.claim for t in part), tuple(t.number for t in part)))
        pages = list(self._incidents.due(now.monotonic))
        self._asked_pages |= {page.number: (page.group.place, asked_ms) for page in pages}
        return probes + [Probe(page.claims, (), page) for page in pages]

    def _check_again(self, finding: Finding, now: Moment, *, since_start: bool = False) -> None:
        """Probe a finding again after its interval; a resolved one not for ever.

        An explained finding is probed once after the start: what explained it may have ended before that, unseen.
        """
        is_due = since_start and now.at - finding.decided_at <= _EXPLAINED_FOR and was_explained(finding)
        if not is_due and self._is_over(finding, now):
            self._ledger.forget(finding.finding_id)
            self._tasks.drop(f"finding:{finding.finding_id}")
            return
        if finding.is_incident:
            return
        self._tasks.put(claim_of(finding), now.monotonic + self._interval(finding), finding.finding_id)

    def _is_over(self, finding: Finding, now: Moment) -> bool:
        """Whether a resolved finding need not be looked at any more.

        A finding that another explains waits for that one's end, and as long again: it may be true without it.
        """
        if is_part_of_incident(finding) or was_only_shown(finding):
            return True
        if finding.status is not FindingStatus.RESOLVED or now.at - finding.decided_at <= RESOLVED_FOR:
            return False
        claim = claim_of(finding)
        has_cause = self._ledger.has_cause_of(claim) or self._groups.has_cause_of(claim)
        return not (was_explained(finding) and has_cause)

    def _interval(self, finding: Finding | None) -> float:
        seconds = self._settings.recheck_interval_s * max(1.0, self._ledger.stand / _CALM_STANDING)
        return seconds * (_RESOLVED_FACTOR if finding is not None and not finding.stands else 1)

    def _put_off(self, task: Task, reason: str, now: Moment, *, soon: bool = False) -> None:
        """Probe again later: a suspect after a wait that doubles with each try, a finding after its interval.

        With ``soon`` a finding waits no longer than a suspect.
        """
        task.reason = reason
        task.attempts += 1
        if task.finding_id in self._unseen and not soon:
            self._unseen[task.finding_id] = reason
        wait = backoff(1 if soon else task.attempts, self._retry_s, _BACKOFF_MAX_S, self._draw)
        if task.finding_id is not None and not soon:
            wait = self._interval(self._ledger.standing(task.finding_id))
        task.due = now.monotonic + wait

    # What follows from answers.

    def _judge(self, results: Sequence[tuple[Task, Answers]], events: list[Finding], now: Moment) -> list[Action]:
        """Return the actions for answers to single claims; ``events`` gets the events that they call for."""
        broken: list[Action] = []
        for task, answers in results:
            try:
                said = self._judging.event(task, answers, events, now.at)
            except Exception as error:  # noqa: BLE001 - one claim that cannot be judged holds up no other
                self._put_off(task, self._unjudged(error), now)
                broken.append(Broken(task.claim, error))
                continue
            if task.finding_id is not None:
                self._note_look(task.finding_id, said, answers.asked_at_ms or task.asked_ms)
            match said:
                case Later():
                    self._put_off(task, said.reason, now, soon=said.soon)
                case Unchanged(None):
                    self._tasks.drop(task.name)
                case Unchanged(Finding() as finding):
                    self._check_again(finding, now)
                case Finding() if self._ledger.is_repeated(said):
                    self._ledger.add(said)  # Each audit raises a suspect again: the table and the log say it once.
                    self._tasks.drop(task.name)
                case Finding():
                    task.busy = True
                    self._writing.append(task)
                    events.append(said)
        return broken

    def _note_look(self, finding_id: str, said: Later | Unchanged | Finding, asked_ms: int) -> None:
        """Take in that a finding was looked at: what came of it, and that it is known how its replicas are now."""
        if not isinstance(said, Later):
            self._unseen.pop(finding_id, None)
            self._unconfirmed.confirmed(finding_id, asked_ms)
        if isinstance(said, Later | Unchanged):
            unknown = said.reason if isinstance(said, Later) else ""
            self._asked_again[finding_id] = AskedAgain(from_milliseconds(asked_ms), unknown)

    def _judge_pages(
        self, pages: Iterable[tuple[Page, Sequence[Answers], int]], before: Sequence[Finding], now: Moment
    ) -> list[Action]:
        """Judge the members of pages, each as a single one would be; of each page one error is reported."""
        broken: list[Action] = []
        for page, all_answers, asked_ms in pages:
            outcomes = []
            failed: Broken | None = None
            for i, answers in enumerate(all_answers):
                try:
                    outcomes.append(self._judging.member(page, i, answers, before, now.at))
                except Exception as error:  # noqa: BLE001 - as of a single one
                    outcomes.append(MemberOutcome(State.UNDECIDED, reason=self._unjudged(error)))
                    failed = failed or Broken(page.claims[i], error)
            broken += [failed] if failed is not None else []
            if page.is_proven and any(one.state in OPEN for one in outcomes):
                self._unconfirmed.confirmed(incident_id(self.cluster_id, page.group), asked_ms)
            self._incidents.judged(page, outcomes, asked_ms, now.monotonic)
        self._free_of_members(now)
        on_others = self._incidents.hold(self._new(self._incidents.on_others()), self._tasks.alone)
        self._incidents.note_alone(on_others)
        self._put(on_others, now)
        return broken

    def _free_of_members(self, now: Moment) -> None:
        """Judge suspects again that were explained by members which incidents no longer count."""
        for name, over in self._incidents.over().items():
            self._free(name, partial(_is_explained, over), now)

    def _free(self, finding_id: str, which: Callable[[Claim], bool], now: Moment) -> None:
        """Judge suspects again that were dismissed because of what an incident no longer counts."""
        self._put(self._incidents.hold(self._ledger.free(finding_id, which), self._tasks.alone), now)

    def _unjudged(self, error: Exception) -> str:
        """Count a claim whose judging raised an error; returns the reason why it waits."""
        self._judging_errors += 1
        return f"it could not be judged: {type(error).__name__}: {error}"


def _dated(answers: Answers, task: Task) -> Answers:
    """Return answers with a time: where they do not say when they were asked for, when the probe was sent."""
    return answers if answers.asked_at_ms else replace(answers, asked_at_ms=task.asked_ms)


def _is_explained(over: Sequence[Claim], claim: Claim) -> bool:
    """Whether one of some claims explains another: on its transaction, or by accusing a replica about its key."""
    is_about_key = claim.key is not None and any(one.accused_key == claim.key for one in over)
    return is_about_key or any(explains(one, claim, by_value=True) for one in over)


def _rank(claim: Claim) -> int:
    """Return a claim's place in the order of judging: transactions, then accusations about keys, then the rest."""
    if claim.kind in TRANSACTION_KINDS:
        return 0
    return 1 if claim.broker != NOBODY else 2
