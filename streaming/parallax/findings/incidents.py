"""Groups many suspects of one kind about one replica: probes them in pages, and reports them as one incident.

Suspects of one kind about one replica form a `MemberGroup`. While a group has few suspects, each is probed and becomes
a finding by itself. If it has more than `ALONE`, they are held here as columns, and one probe asks about a page of
them. Each is proven by the same questions and the same decision as a single one. If more than `ALONE` are proven, the
group becomes one incident, and single findings of the group become part of it. Otherwise its suspects are handed back
to be probed one by one. A proven member moves to another group if a later probe accuses another replica, or nobody.

Members get no events of their own. What is known of each is a row of the table ``members``, which is written with the
events. A start reads the rows, so that an incident counts what it counted before.

Transactions are grouped only once they have ended. Which incident counts a member: `parallax.findings.counting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from random import Random

import numpy as np

from parallax.findings.acknowledgement import is_by_a_person
from parallax.findings.claim import Claim
from parallax.findings.counting import Counting
from parallax.findings.finding import (
    Finding,
    Repaired,
    asked_ms,
    claim_of,
    evidence_of,
    meeting_of,
    never_repaired,
)
from parallax.findings.groups import Groups, group_of_claim, is_held
from parallax.findings.held import NEVER, HeldMembers, MemberOutcome, Page
from parallax.findings.incident import (
    group_of,
    is_part_of_incident,
)
from parallax.findings.members import WAITING, MemberGroup, MemberRow, State
from parallax.findings.proven import Proven
from parallax.findings.reports import Reports
from parallax.findings.waiting import Waiting
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import FindingStatus
from parallax.moments import milliseconds

ALONE = 16
"""Up to so many suspects, or findings, of a group are probed and reported one by one."""
PAGES = 4
"""How many pages are asked about at the same time, over all partitions. Each accused broker has one at most."""


class Incidents:
    """Fills and empties the groups of suspects and of proven members, for `parallax.findings.lifecycle`.

    It says which pages to probe next, and which events of incidents to write.

    Args:
        groups: the groups, empty.
        interval: returns after how many seconds a finding that is not over is asked about again.
        retry_s: after how many seconds undecided suspects are first asked about again; later the wait grows.
        draw: source of the random part of waits.
        alone: up to how many suspects of a group are probed one by one (see `ALONE`).
        repaired: returns what is on record of an incident's repairs.
    """

    def __init__(
        self,
        groups: Groups,
        interval: Callable[[Finding], float],
        retry_s: float,
        draw: Random,
        alone: int = ALONE,
        repaired: Repaired = never_repaired,
    ) -> None:
        self._groups = groups
        self._counting = Counting(groups)
        self._reports = Reports(groups, retry_s, alone, repaired)
        self._interval, self._retry_s, self._draw, self._alone = interval, retry_s, draw, alone
        self._pages: dict[int, Page] = {}
        self._last_page = 0
        self._alone_again: list[Claim] = []
        self._on_others: list[Claim] = []
        self._unwritten: list[MemberRow] = []
        self._becoming_part: list[MemberRow] = []
        self._retry_at = -NEVER

    # What comes in.

    def hold(self, claims: Sequence[Claim], alone: Mapping[MemberGroup, int]) -> list[Claim]:
        """Take in the claims of large groups, and return the other claims, which are probed one by one.

        Args:
            claims: claims of new suspects.
            alone: by group, how many of its suspects are being probed one by one.
        """
        left = [claim for claim in claims if not is_held(claim)]
        groups: dict[MemberGroup, list[Claim]] = {}
        for claim in claims:
            if is_held(claim):
                groups.setdefault(group_of_claim(claim), []).append(claim)
        for group, part in groups.items():
            proven = self._groups.proven.get(group)
            is_held_back = group in self._groups.waiting or (proven is not None and proven.stands)
            if is_held_back or alone.get(group, 0) + len(part) > self._alone:
                self._groups.waiting_of(group).members.add(part)
            else:
                left += part
        return left

    def add(self, event: Finding, now: float, *, at_start: bool = False) -> None:
        """Take in an event of the findings table, of an incident or of a single finding.

        Args:
            event: the event.
            now: seconds of the monotonic clock.
            at_start: whether the event was read at the start, when the rows of members are not read yet.
        """
        group = group_of(event)
        if event.is_incident:
            proven = self._groups.proven_of(group)
            self._add_incident(proven, event, now)
            return
        for singles in self._groups.singles.values() if event.status is not FindingStatus.DISMISSED else ():
            singles.pop(event.finding_id, None)
        if is_part_of_incident(event):
            said = evidence_of(event)
            state = State.SPREAD if said.get("spread") else State.UNSETTLED if said.get("unsettled") else State.WRONG
            # By now it may be over: an event of an earlier version says what it was when it became part.
            proven = self._groups.proven_of(group)
            proven.add([claim_of(event)], State.OVER if at_start else state, asked_ms(event))
            if not at_start and state is State.WRONG:
                proven.members.see(proven.members.find(event.suspect_id), meeting_of(event))
        elif event.is_open and is_held(claim_of(event)):
            self._groups.singles.setdefault(group, {})[event.finding_id] = event
        if event.stands and event.kind in TRANSACTION_KINDS:
            self._counting.leave(claim_of(event), event.finding_id)

    def _add_incident(self, proven: Proven, event: Finding, now: float) -> None:
        if not is_by_a_person(event):
            proven.writing = False
        if event.stands != proven.stands:
            proven.due, proven.since_ms = now + self._interval(event), milliseconds(event.decided_at)
        proven.event, proven.is_asked = event, False
        if not event.stands:
            proven.end()

    def load(self, rows: Iterable[MemberRow], standing: Sequence[Finding]) -> list[Claim]:
        """Take in the rows of the table ``members``, after the events; returns claims that are to be probed alone.

        Of an incident that an earlier version has written there are no rows. Of its members those that its event names
        are known, and the others become known as their suspects are probed.

        Args:
            rows: the rows, the oldest first.
            standing: the findings that are not over.
        """
        parts: dict[tuple[MemberGroup, bool, State, str, int], list[MemberRow]] = {}
        for row in {row.key: row for row in rows}.values():
            parts.setdefault((row.group, row.is_proven, row.state, row.resolution, row.asked_ms), []).append(row)
        for (group, is_proven, state, *_), part in parts.items():
            if is_proven:
                self._groups.proven_of(group).restore(part)
            elif state in (State.NEW, State.EXPLAINED):
                self._groups.waiting_of(group).restore(part)
        known = {group for group, is_proven, *_ in parts if is_proven}
        for group, proven in self._groups.proven.items():
            proven.resume(is_known=group in known)
        for finding in standing:
            if finding.kind in TRANSACTION_KINDS and not finding.is_incident:
                self._counting.leave(claim_of(finding), finding.finding_id)
        for group, waiting in self._groups.waiting.items():
            there = [finding for finding in standing if finding.place == group.place]
            if not any(finding.is_incident for finding in there):
                waiting.free_others([claim_of(finding) for finding in there])
        return [row.claim for (_, _, state, *_), part in parts.items() if state is State.ALONE for row in part]

    def unwritten(self) -> tuple[MemberRow, ...]:
        """Return the rows that the table ``members`` lacks, in their order; until `committed` is called, all again."""
        for held in (*self._groups.waiting.values(), *self._groups.proven.values()):
            self._unwritten += held.unwritten()
        return tuple(self._unwritten)

    def may_write(self, now: float) -> bool:
        """Whether rows may be written without an event; not soon after that has failed.

        Args:
            now: seconds of the monotonic clock.
        """
        return now >= self._retry_at

    def committed(self) -> None:
        """Note that the rows that `unwritten` returned last are in the table."""
        self._unwritten, self._becoming_part = [], []

    def note_alone(self, claims: Iterable[Claim]) -> None:
        """Keep rows for the table ``members`` about claims that are probed one by one. No other table has them."""
        self._unwritten += [MemberRow(group_of_claim(one), False, one, State.ALONE, 0) for one in claims]

    def not_committed(self, now: float) -> None:
        """Note that the last events and rows could not be written. They are written later.

        Args:
            now: seconds of the monotonic clock.
        """
        self._retry_at = now + self._retry_s
        # The rows may be written. Without their events they are findings of their own.
        self._unwritten += [replace(row, state=State.LEFT) for row in self._becoming_part]
        self._becoming_part = []
        for proven in self._groups.proven.values():
            if proven.writing:
                proven.writing, proven.retry_at = False, now + self._retry_s

    # What is due.

    def due(self, now: float) -> Iterator[Page]:
        """Yield the pages to probe now, in the order in which they became due.

        At most `PAGES` pages are probed at the same time, and only one of each accused broker. A yielded page counts as
        being probed until `judged` or `failed` is called with it.

        Args:
            now: seconds of the monotonic clock.
        """
        held: list[Waiting | Proven] = [*self._groups.waiting.values(), *self._groups.proven.values()]
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
        """Return when the next page or event is due, in seconds of the monotonic clock; None if nothing waits.

        Pages that are being probed do not count.

        Args:
            now: seconds of the monotonic clock.
        """
        times = [self._reports.report_at(proven) for proven in self._groups.proven.values()]
        times += [self._retry_at] if self._unwritten else []
        if len(self._pages) < PAGES:
            asked = {page.group.broker for page in self._pages.values()}
            times += [waiting.when(now) for group, waiting in self._groups.waiting.items() if group.broker not in asked]
            times += [proven.when(now) for group, proven in self._groups.proven.items() if group.broker not in asked]
        return min((time for time in times if time != NEVER), default=None)

    def look_again(self, finding: Finding, now: float) -> None:
        """Let members of an open incident be asked about at ``now``, seconds of the monotonic clock."""
        for proven in self._groups.proven.values():
            if proven.event is not None and proven.event.finding_id == finding.finding_id:
                proven.due = min(proven.due, now)

    # What follows from answers.

    def failed(self, page: Page, reason: str, now: float) -> None:
        """Record that a page's probe failed.

        Its suspects stay without a verdict, and its proven members stay proven.

        Args:
            page: the page.
            reason: why the probe failed.
            now: seconds of the monotonic clock.
        """
        self._done(page)
        if not page.is_proven and (waiting := self._groups.waiting.get(page.group)) is not None:
            waiting.failed(page, reason)
            waiting.end_round(now, self._retry_s, self._draw)

    def judged(self, page: Page, outcomes: Sequence[MemberOutcome], asked_ms: int, now: float) -> None:
        """Record what a probe has shown of a page's members.

        Args:
            page: the page that was asked about.
            outcomes: for each member of the page what the probe has shown.
            asked_ms: when the probe was sent, milliseconds since 1970 UTC.
            now: seconds of the monotonic clock.
        """
        self._done(page)
        if page.is_proven:
            proven = self._groups.proven_of(page.group)
            here = self._counting.moved(proven, page, outcomes, asked_ms)
            counted, soon = self._counting.counted_once(proven, page, here), now + self._retry_s
            left = proven.judged(page, counted, asked_ms, soon)
            for claim in left.explained:
                self._groups.waiting_of(group_of_claim(claim)).members.add([claim], State.EXPLAINED)
            self._counting.end(page.group, left.over)
            self._on_others += left.on_others
        else:
            self._counting.count(page, outcomes, asked_ms)
            waiting = self._groups.waiting_of(page.group)
            judged = zip(waiting.located(page).tolist(), page.originals, outcomes, strict=True)
            self._alone_again += [claim for at, claim, one in judged if at >= 0 and one.state is State.ALONE]
            waiting.judged(page, outcomes, asked_ms)
            self._on_others += [claim for outcome in outcomes for claim in outcome.left]
            waiting.end_round(now, self._retry_s, self._draw)
        self._groups.tidy()

    def over(self) -> dict[str, list[Claim]]:
        """Return by incident id the members that the incident has stopped counting since the last call, as claims.

        Suspects that such a member explained have to be judged again.
        """
        return self._counting.over()

    def on_others(self) -> list[Claim]:
        """Return the suspects about other replicas that came up since the last call.

        These replicas may be wrong in the same way as members that are over now.
        """
        left, self._on_others = self._on_others, []
        return left

    def _done(self, page: Page) -> None:
        self._pages.pop(page.number, None)
        held = (self._groups.proven if page.is_proven else self._groups.waiting).get(page.group)
        if held is not None:
            held.busy = False
        if isinstance(held, Proven):
            held.is_asked = True

    def few(self, alone: Mapping[MemberGroup, int]) -> list[Claim]:
        """Return the claims that leave their groups now, to be probed one by one.

        Their groups have turned out to be small, or a probe has shown that each needs a probe of its own.

        Args:
            alone: by group, how many of its suspects are being probed one by one.
        """
        back, self._alone_again = self._alone_again, []
        for group, waiting in list(self._groups.waiting.items()):
            proven = self._groups.proven.get(group)
            is_incident = proven is not None and (proven.stands or proven.writing)
            is_few = len(waiting.members) + alone.get(group, 0) <= self._alone
            if is_few and not is_incident and not waiting.busy and not len(waiting.behind(WAITING)):
                back += self._to_be_alone(waiting)
                del self._groups.waiting[group]
        for group, proven in list(self._groups.proven.items()):
            is_many = self._groups.number(proven) + proven.tally.shown > self._alone
            if proven.event is not None or proven.writing or is_many or proven.tally.of_others:
                continue
            if self._groups.is_settled(group.place):
                back += self._to_be_alone(proven)
                del self._groups.proven[group]
        return back

    def _to_be_alone(self, held: HeldMembers) -> list[Claim]:
        """Return the claims of a group's members, each of which is probed by itself from now on."""
        at = np.arange(len(held.members))
        claims = held.members.claims(at)
        held.let_go(at, State.ALONE)
        self._unwritten += held.unwritten()
        return claims

    def reports(self, now: float, at: datetime) -> list[Finding]:
        """Return the events of incidents that are due now; the caller writes them to the findings table.

        Before the next call, the caller reports with `add` that they were written, or with `not_committed` that they
        were not.

        Args:
            now: seconds of the monotonic clock.
            at: the time of day, for the events.
        """
        events, rows = self._reports.due(now, at)
        self._becoming_part += rows
        self._unwritten += rows
        return events


__all__ = ["ALONE", "PAGES", "Incidents"]
