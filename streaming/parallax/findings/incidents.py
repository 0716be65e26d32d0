"""Many suspects of one kind about one replica: held back as columns, asked about in pages, reported as one finding.

Up to a small number of suspects of a `Group` each is probed and becomes a finding by itself. With more, they are held
back here: a page of them is asked about in one probe, so that each is proven, or not, by the same questions and the
same decision as a single one, and what is proven is counted. Where that comes to more than the small number, the
group is one incident, and single findings of it become part of it; else they are handed back to be probed one by one.

Nothing of a member is written: what no event names is suspected again after a restart. Memory is bounded by the
columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import numpy as np

from parallax.findings.claim import Claim
from parallax.findings.finding import Finding, claim_of, evidence_of, has_spread, is_unsettled
from parallax.findings.held import NOT_PROBED, WAITING, Outcome, Page, Proven, Waiting, remembering
from parallax.findings.incident import (
    group_of,
    incident_event,
    incident_id,
    is_part_of_incident,
    part_of_incident,
    sampled,
    tally_of,
)
from parallax.findings.members import NO_KEY, OPEN, Group, Members, State
from parallax.kinds import KEY_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingStatus, Rule, TopicPartition

ALONE = 16
"""So many suspects, or findings, of a group are looked at one by one."""
PAGES = 4
"""Pages that are being asked about at a time, of all partitions; of those that accuse one broker there is one."""
_ABSORBED = 4096
"""Single findings that become part of an incident with one event of it at most."""
_FORGET_AFTER = timedelta(hours=24)
"""For how long the members of an incident that is over are looked at, in case that they are wrong again."""
_NEVER = float("inf")


_UNSETTLED = FindingStatus.UNSETTLED


def is_held(claim: Claim) -> bool:
    """Whether many claims of its kind are put together: those on the value of a key, or on a record that is missing."""
    return claim.kind in KEY_KINDS and claim.rule is Rule.LATEST_VALUE


def _state_of(event: Finding) -> State:
    """The state of what the event of an incident names."""
    if has_spread(event):
        return State.SPREAD
    return State.UNSETTLED if is_unsettled(event) else State.WRONG


def group_of_claim(claim: Claim) -> Group:
    """Return what a claim is put together with."""
    return Group(claim.place, claim.broker, claim.kind)


def _divergences(singles: Mapping[str, Finding]) -> set[tuple[tuple[int, int], int]]:
    """What single findings are about: a key, whatever the offset, or where there is none the record at an offset."""
    found = [((finding.key_hash_hi, finding.key_hash_lo), finding.offset) for finding in singles.values()]
    return {(key, UNKNOWN if key != NO_KEY else offset) for key, offset in found}


class Incidents:
    """Fed with suspects, verdicts on pages, and events; says which pages to ask about and what to report.

    Args:
        interval: how long to wait until a finding is looked at again, in seconds.
        retry_s: the first wait for those that nobody could decide.
        draw: where jitter comes from.
        alone: see `ALONE`.
    """

    def __init__(self, interval: Callable[[Finding], float], retry_s: float, draw: Random, alone: int = ALONE) -> None:
        self.cluster_id = ""
        self._interval, self._retry_s, self._draw, self._alone = interval, retry_s, draw, alone
        self._waiting: dict[Group, Waiting] = {}
        self._proven: dict[Group, Proven] = {}
        self._singles: dict[Group, dict[str, Finding]] = {}
        self._pages: dict[int, Page] = {}
        self._last_page = 0

    # What comes in.

    def hold(self, claims: Sequence[Claim], alone: Mapping[Group, int]) -> list[Claim]:
        """Hold claims back that are too many of their group; returns the others, to be probed one by one.

        Args:
            claims: new ones.
            alone: how many of each group are being probed one by one.
        """
        left = [claim for claim in claims if not is_held(claim)]
        groups: dict[Group, list[Claim]] = {}
        for claim in claims:
            if is_held(claim):
                groups.setdefault(group_of_claim(claim), []).append(claim)
        for group, part in groups.items():
            is_held_back = group in self._waiting or (group in self._proven and self._proven[group].stands)
            if is_held_back or alone.get(group, 0) + len(part) > self._alone:
                self._waiting_of(group).members.add(part)
            else:
                left += part
        return left

    def add(self, event: Finding, now: float) -> None:
        """Take in an event of the findings table: of an incident, of a part of it, or of a single finding."""
        group = group_of(event)
        if event.is_incident:
            self._add_incident(self._proven_of(group), event, now)
            return
        for singles in self._singles.values() if event.status is not FindingStatus.DISMISSED else ():
            singles.pop(event.finding_id, None)
        if is_part_of_incident(event):
            said = evidence_of(event)
            state = State.SPREAD if said.get("spread") else State.UNSETTLED if said.get("unsettled") else State.WRONG
            self._proven_of(group).add([claim_of(event)], state)
        elif event.is_open and is_held(claim_of(event)):
            self._singles.setdefault(group, {})[event.finding_id] = event

    def _add_incident(self, proven: Proven, event: Finding, now: float) -> None:
        if event.status is not FindingStatus.ACKNOWLEDGED:
            proven.writing = False
        if event.stands != proven.stands:
            proven.due = now + self._interval(event)
        proven.event, proven.reported_at = event, now
        if not event.stands:
            proven.end()

    def loaded(self) -> None:
        """All events are in: what the incidents name is asked about again, with what is suspected beside it."""
        for proven in self._proven.values():
            if proven.event is not None and proven.event.stands:
                state = _state_of(proven.event)
                proven.add([c for c in sampled(proven.event) if proven.members.find(c.suspect_id) < 0], state)
                proven.ended = Counter(tally_of(proven.event).ended)
                proven.round += 1

    def not_committed(self, now: float) -> None:
        """Nothing of what `reports` has made is in the table."""
        for proven in self._proven.values():
            if proven.writing:
                proven.writing, proven.retry_at = False, now + self._retry_s

    def free(self, place: TopicPartition) -> None:
        """Suspect again what a finding on a transaction of the partition explained."""
        for group, waiting in self._waiting.items():
            if group.place == place:
                waiting.free()

    # What is due.

    def due(self, now: float) -> Iterator[Page]:
        """The pages to ask about now."""
        held: list[Waiting | Proven] = [*self._waiting.values(), *self._proven.values()]
        for one in sorted(held, key=lambda h: h.due):
            if len(self._pages) >= PAGES:
                return
            if one.busy or any(page.group.broker == one.group.broker for page in self._pages.values()):
                continue
            number = self._last_page + 1
            page = one.next_page(number, now, self._interval)
            if page is not None:
                self._last_page = number
                self._pages[number] = page
                yield page

    def next_due(self, now: float) -> float | None:
        """When the next page or event is due; None where nothing waits but for pages that are being asked about."""
        times = [self._report_at(proven) for proven in self._proven.values()]
        if len(self._pages) < PAGES:
            asked = {page.group.broker for page in self._pages.values()}
            times += [waiting.when(now) for group, waiting in self._waiting.items() if group.broker not in asked]
            times += [proven.when(now) for group, proven in self._proven.items() if group.broker not in asked]
        return min((time for time in times if time != _NEVER), default=None)

    # What follows from answers.

    def failed(self, page: Page, reason: str, now: float) -> None:
        """The probe of a page failed: its suspects are undecided, what was proven stays so."""
        self._done(page)
        if not page.is_proven and (waiting := self._waiting.get(page.group)) is not None:
            waiting.failed(page, reason)
            waiting.end_round(now, self._retry_s, self._draw)

    def judged(self, page: Page, outcomes: Sequence[Outcome], now: float) -> None:
        """Take in what a probe has made of the members of a page, in their order."""
        self._done(page)
        if page.is_proven:
            explained = self._proven_of(page.group).judged(page, outcomes)
            for claim in explained:
                self._waiting_of(group_of_claim(claim)).members.add([claim], State.EXPLAINED)
        else:
            self._count(page, outcomes)
            waiting = self._waiting_of(page.group)
            waiting.judged(page, outcomes)
            waiting.end_round(now, self._retry_s, self._draw)
        self._tidy()

    def _done(self, page: Page) -> None:
        self._pages.pop(page.number, None)
        held = (self._proven if page.is_proven else self._waiting).get(page.group)
        if held is not None:
            held.busy = False

    def _count(self, page: Page, outcomes: Sequence[Outcome]) -> None:
        """Count what is proven where it belongs: as what it is, and of the replica that it accuses."""
        found: dict[tuple[Group, State], list[Claim]] = {}
        for claim, outcome in zip(page.originals, outcomes, strict=True):
            if outcome.group is not None and outcome.proof is not None:
                part = found.setdefault((outcome.group, outcome.state), [])
                part.append(remembering(claim, outcome.proof))
        for (group, state), claims in found.items():
            proven = self._proven_of(group)
            proven.add(claims, state)
            proven.show([o.proof for o in outcomes if o.group == group and o.proof is not None])

    def _tidy(self) -> None:
        self._waiting = {g: w for g, w in self._waiting.items() if len(w.members) or w.busy}
        self._proven = {
            g: p for g, p in self._proven.items() if len(p.members) or p.busy or p.writing or p.event is not None
        }
        self._singles = {g: singles for g, singles in self._singles.items() if singles}

    def few(self, alone: Mapping[Group, int]) -> list[Claim]:
        """Hand those back that have turned out to be few, to be probed one by one.

        Args:
            alone: how many of each group are being probed one by one.
        """
        back: list[Claim] = []
        for group, waiting in list(self._waiting.items()):
            proven = self._proven.get(group)
            is_incident = proven is not None and (proven.stands or proven.writing)
            is_few = len(waiting.members) + alone.get(group, 0) <= self._alone
            if is_few and not is_incident and not waiting.busy and not len(waiting.behind(WAITING)):
                back += waiting.members.claims(np.arange(len(waiting.members)))
                del self._waiting[group]
        for group, proven in list(self._proven.items()):
            if proven.event is not None or proven.writing or self._number(proven) > self._alone:
                continue
            if self._is_settled(group.place):
                back += proven.members.claims(np.arange(len(proven.members)))
                del self._proven[group]
        return back

    # What is reported.

    def reports(self, now: float, at: datetime) -> list[Finding]:
        """The events that are called for; to be committed, or not, before any other is asked for."""
        events: list[Finding] = []
        for group, singles in self._singles.items():
            if len(_divergences(singles)) > self._alone:
                self._proven_of(group)
        for group, proven in self._proven.items():
            event = proven.event
            if event is not None and not event.stands and at - event.decided_at > _FORGET_AFTER:
                proven.forget()
            if self._report_at(proven) > now:
                continue
            event = self._event(proven, at)
            proven.writing = True
            events.append(event)
            if event.stands:
                part = list(self._singles.get(group, {}).values())[:_ABSORBED]
                events += [part_of_incident(single, event.finding_id, at) for single in part]
        return events

    def _event(self, proven: Proven, at: datetime) -> Finding:
        group, members = proven.group, proven.members
        singles = list(self._singles.get(group, {}).values())
        offsets = [single.offset for single in singles]
        if proven.tally.count:
            offsets += [proven.tally.lowest, proven.tally.highest]
        tally = replace(
            proven.tally,
            count=self._number(proven),
            waiting=self._undecided(group),
            ended={name: number for name, number in proven.ended.items() if number},
            lowest=min(offsets, default=-1),
            highest=max(offsets, default=-1),
            status=FindingStatus.CONFIRMED if singles else proven.tally.status,
        )
        if not len(members) and singles:
            members = Members(group.place)
            members.add([claim_of(single) for single in singles[:_ABSORBED]], State.WRONG)
        finding_id = incident_id(self.cluster_id, group)
        return incident_event(finding_id, group, tally, members, proven.proofs, proven.event, at, singles)

    def _report_at(self, proven: Proven) -> float:
        """When an event of a group is due; infinite where there is none to report.

        At once where it begins, ends, or has come to count twice as many; else not before the interval has passed.
        """
        number, event = self._number(proven), proven.event
        if proven.writing:
            return _NEVER
        if event is None or not event.stands:
            begins = number > self._alone or (event is not None and number > 0)
            return proven.retry_at if begins else _NEVER
        if number == 0:
            is_over = self._is_at_rest(proven) and not self._may_have_counted(proven)
            return proven.retry_at if is_over else _NEVER
        if number >= 2 * max(1, proven.reported) or self._singles.get(proven.group):
            return proven.retry_at
        if self._has_news(proven, event):
            return max(proven.retry_at, proven.reported_at + self._interval(event))
        return _NEVER

    def _has_news(self, proven: Proven, event: Finding) -> bool:
        """Whether what stands is other than the last event says, and that is not about to change again."""
        if not self._is_at_rest(proven):
            return False
        number, before = self._number(proven), proven.reported
        if not event.is_open:
            # An acknowledgement holds until it becomes worse.
            is_worse = proven.leads and not event.exposed
            return number > before or is_worse or (is_unsettled(event) and proven.tally.status is not _UNSETTLED)
        if number < before <= number + self._may_have_counted(proven):
            return False  # After a restart: the last event counted what is not proven again yet.
        return number != before or proven.leads != event.exposed or proven.tally.status is not event.status

    def _is_at_rest(self, proven: Proven) -> bool:
        return not proven.busy and not proven.is_unread() and self._is_settled(proven.group.place)

    def _is_settled(self, place: TopicPartition) -> bool:
        """Whether every suspect of the partition has been asked about."""
        return not any(w.busy or len(w.behind(WAITING)) for g, w in self._waiting.items() if g.place == place)

    def _may_have_counted(self, proven: Proven) -> int:
        """Suspects without a verdict that were raised before the last event was decided."""
        waiting = self._waiting.get(proven.group)
        if waiting is None or proven.event is None:
            return 0
        decided = int(proven.event.decided_at.timestamp() * 1000)
        return int((waiting.members.are(*WAITING) & (waiting.members.rows["raised_at_ms"] <= decided)).sum())

    def _number(self, proven: Proven) -> int:
        """How many keys, or records without one, are wrong: each counts once, however often it was reported."""
        singles = _divergences(self._singles.get(proven.group, {}))
        return proven.tally.count + sum(not proven.members.counts(key, offset) for key, offset in singles)

    def _undecided(self, group: Group) -> int:
        waiting = self._waiting.get(group)
        return 0 if waiting is None else int(waiting.members.are(*WAITING).sum())

    def _waiting_of(self, group: Group) -> Waiting:
        return self._waiting.setdefault(group, Waiting(group, Members(group.place)))

    def _proven_of(self, group: Group) -> Proven:
        return self._proven.setdefault(group, Proven(group, Members(group.place)))

    # What can be asked of it.

    def waits(self, suspect_id: str) -> str | None:
        """Why a suspect that is held back has no verdict yet; None where it is not held back, or has one."""
        for waiting in self._waiting.values():
            if (at := waiting.members.find(suspect_id)) >= 0:
                state = waiting.members.rows["state"][at]
                if state == State.EXPLAINED:
                    return None
                return NOT_PROBED if state == State.NEW else waiting.reason
        for proven in self._proven.values():
            if not proven.stands and (at := proven.members.find(suspect_id)) >= 0:
                return "it is proven and not reported yet" if proven.members.rows["state"][at] in OPEN else None
        return None

    def holds(self, suspect_id: str) -> bool:
        """Whether a suspect is held back, or counted as wrong."""
        if any(waiting.members.find(suspect_id) >= 0 for waiting in self._waiting.values()):
            return True
        found = ((proven, proven.members.find(suspect_id)) for proven in self._proven.values())
        return any(at >= 0 and proven.members.rows["state"][at] in OPEN for proven, at in found)

    def wrong_about(self, place: TopicPartition, key: tuple[int, int]) -> list[Finding]:
        """The incidents that stand and accuse a replica about a key."""
        return [
            proven.event
            for group, proven in self._proven.items()
            if group.place == place and group.broker != NOBODY and proven.event is not None and proven.stands
            if proven.members.is_wrong(key)
        ]

    def members(self, finding_id: str) -> list[Claim]:
        """Return what an incident counts, as findings would claim it; an object for each."""
        for proven in self._proven.values():
            if proven.event is not None and proven.event.finding_id == finding_id:
                at = np.flatnonzero(proven.members.are(*OPEN)).tolist()
                return [proven.as_finding(proven.members.claim(i), proven.members.rows["state"][i]) for i in at]
        return []

    def pending(self) -> dict[TopicPartition, int]:
        """How many suspects are held back without a verdict, by partition."""
        found: dict[TopicPartition, int] = {}
        for group in self._waiting:
            if number := self._undecided(group):
                found[group.place] = found.get(group.place, 0) + number
        return found
