"""Groups many suspects of one kind about one replica: probes them in pages, and reports them as one incident.

Suspects of one kind about one replica form a `MemberGroup`. While a group has few suspects, each is probed and becomes
a finding by itself. If it has more than `ALONE`, they are held here as columns, and one probe asks about a page of
them. Each is proven by the same questions and the same decision as a single one. If more than `ALONE` are proven, the
group becomes one incident, and single findings of the group become part of it. Otherwise its suspects are handed back
to be probed one by one. A proven member moves to another group if a later probe accuses another replica, or nobody.

Members get no events of their own. What is known of each is a row of the table ``members``, which is written with the
events. A start reads the rows, so that an incident counts what it counted before.

Transactions are grouped only once they have ended. Each transaction is counted by one incident, or is a finding by
itself, whichever says most about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import numpy as np

from parallax.findings.acknowledgement import Gravity, is_by_a_person, status_of, still_acknowledged, worsened
from parallax.findings.claim import Claim
from parallax.findings.ended import NO_REPAIR
from parallax.findings.finding import (
    Finding,
    Repaired,
    asked_ms,
    claim_of,
    evidence_of,
    has_spread,
    meeting_of,
    never_repaired,
)
from parallax.findings.held import NOT_PROBED, HeldMembers, MemberOutcome, Page, Proven, Waiting, remembering, state_of
from parallax.findings.incident import (
    group_of,
    incident_event,
    incident_id,
    is_part_of_incident,
    part_of_incident,
    tally_of,
)
from parallax.findings.members import OPEN, WAITING, Array, MemberGroup, MemberRow, Members, State, divergence
from parallax.findings.who_led import NOT_KNOWN, WhoLed
from parallax.kinds import KINDS, TOMBSTONE_KINDS, TRANSACTION_KINDS, refines
from parallax.model import NOBODY, UNKNOWN, FindingStatus, Rule, TopicPartition
from parallax.moments import milliseconds

ALONE = 16
"""Up to so many suspects, or findings, of a group are probed and reported one by one."""
PAGES = 4
"""How many pages are asked about at the same time, over all partitions. Each accused broker has one at most."""
_ABSORBED = 4096
"""At most so many single findings become part of an incident with one event of it."""
_FORGET_AFTER = timedelta(hours=24)
"""For how long the members of an incident that is over are asked about again. They may become wrong again."""
_NEVER = float("inf")


def is_held(claim: Claim) -> bool:
    """Whether a claim is probed together with others of its group, if many of them are raised.

    It is if its kind is one that incidents count. A claim on an outcome must also name its transaction, by producer id
    and first offset.
    """
    is_named = min(claim.producer_id, claim.transaction_start_offset) >= 0
    return bool(KINDS[claim.kind].many) and (is_named or claim.rule is not Rule.OUTCOME)


def group_of_claim(claim: Claim) -> MemberGroup:
    """Return the group of a claim, made of its partition, accused, kind and rule."""
    return MemberGroup(claim.place, claim.broker, claim.kind, claim.rule)


def _divergences(group: MemberGroup, singles: Mapping[str, Finding]) -> dict[tuple[int, ...], Finding]:
    """Return what single findings of a group are about, each with one of them."""
    return {divergence(group, finding): finding for finding in singles.values()}


def _tells_of_more(proven: Proven) -> bool:
    """Whether more members were over when they were found than the last event reports."""
    return proven.tally.shown > (0 if proven.event is None else tally_of(proven.event).shown)


def _ended(proven: Proven) -> dict[str, int]:
    """Return how many members are not wrong any more, by how they ended."""
    return {name: number for name, number in proven.ended.items() if number}


def _says_more(one: MemberGroup, other: MemberGroup) -> bool:
    """Whether one group says more about a transaction than the other."""
    return refines(one.kind, other.kind) or (other.broker == NOBODY and one.broker != NOBODY)


def _are_of_one(one: MemberGroup, other: MemberGroup) -> bool:
    return one.is_of_transactions and other.is_of_transactions


class Incidents:
    """Keeps all groups of suspects and of proven members, for `parallax.findings.lifecycle`.

    It says which pages to probe next, and which events of incidents to write.

    Args:
        interval: returns after how many seconds a finding that is not over is asked about again.
        retry_s: after how many seconds undecided suspects are first asked about again; later the wait grows.
        draw: source of the random part of waits.
        alone: up to how many suspects of a group are probed one by one (see `ALONE`).
        repaired: returns what is on record of an incident's repairs.
    """

    def __init__(
        self,
        interval: Callable[[Finding], float],
        retry_s: float,
        draw: Random,
        alone: int = ALONE,
        repaired: Repaired = never_repaired,
    ) -> None:
        self._repaired = repaired
        self.cluster_id = ""
        self._interval, self._retry_s, self._draw, self._alone = interval, retry_s, draw, alone
        self._waiting: dict[MemberGroup, Waiting] = {}
        self._proven: dict[MemberGroup, Proven] = {}
        self._singles: dict[MemberGroup, dict[str, Finding]] = {}
        self._pages: dict[int, Page] = {}
        self._last_page = 0
        self._alone_again: list[Claim] = []
        self._over: dict[str, list[Claim]] = {}
        self._on_others: list[Claim] = []
        self._unwritten: list[MemberRow] = []
        self._becoming_part: list[MemberRow] = []
        self._retry_at = -_NEVER

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
            is_held_back = group in self._waiting or (group in self._proven and self._proven[group].stands)
            if is_held_back or alone.get(group, 0) + len(part) > self._alone:
                self._waiting_of(group).members.add(part)
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
            proven = self._proven_of(group)
            self._add_incident(proven, event, now)
            return
        for singles in self._singles.values() if event.status is not FindingStatus.DISMISSED else ():
            singles.pop(event.finding_id, None)
        if is_part_of_incident(event):
            said = evidence_of(event)
            state = State.SPREAD if said.get("spread") else State.UNSETTLED if said.get("unsettled") else State.WRONG
            # By now it may be over: an event of an earlier version says what it was when it became part.
            proven = self._proven_of(group)
            proven.add([claim_of(event)], State.OVER if at_start else state, asked_ms(event))
            if not at_start and state is State.WRONG:
                proven.members.see(proven.members.find(event.suspect_id), meeting_of(event))
        elif event.is_open and is_held(claim_of(event)):
            self._singles.setdefault(group, {})[event.finding_id] = event
        if event.stands and event.kind in TRANSACTION_KINDS:
            self._leave(claim_of(event), event.finding_id)

    def _leave(self, claim: Claim, finding_id: str) -> None:
        """Stop counting a transaction that has a finding of its own which says more about it."""
        for proven, at in self._counted(claim, finding_id, *OPEN, State.OVER):
            self._let_go(proven, at)

    def _let_go(self, proven: Proven, at: Array) -> None:
        """Drop rows from what counted them, and suspect again what they explained."""
        left = [proven.claim(row) for row in at.tolist()]
        proven.leave(at)
        self._end(proven.group, left)

    def _counted(self, claim: Claim, finding_id: str, *states: State) -> list[tuple[Proven, Array]]:
        """Return where the transaction of a claim is among the proven ones in some states.

        Args:
            claim: on the transaction.
            finding_id: the id that a finding about it has, or would have.
            states: those that count.
        """
        found = []
        for group, proven in self._proven.items():
            if group.place != claim.place or not group.is_of_transactions:
                continue
            at = proven.members.of_transaction(claim.producer_id, claim.transaction_start_offset, *states)
            at = at[[proven.members.claim(row).finding_id(self.cluster_id) == finding_id for row in at.tolist()]]
            if len(at):
                found.append((proven, at))
        return found

    def _is_counted_here(self, claim: Claim, group: MemberGroup, state: State) -> bool:
        """Whether a proven transaction counts in a group: it counts once, where most is said about it."""
        if not group.is_of_transactions:
            return True
        states = (*OPEN, State.SHOWN) if state is State.SHOWN else OPEN
        others = [
            one for one in self._counted(claim, claim.finding_id(self.cluster_id), *states) if one[0].group != group
        ]
        if state is State.SHOWN:
            return not others
        if not all(_says_more(group, proven.group) for proven, _ in others):
            return False
        for proven, at in others:
            self._let_go(proven, at)
        return True

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
                self._proven_of(group).restore(part)
            elif state in (State.NEW, State.EXPLAINED):
                self._waiting_of(group).restore(part)
        known = {group for group, is_proven, *_ in parts if is_proven}
        for group, proven in self._proven.items():
            proven.resume(is_known=group in known)
        for finding in standing:
            if finding.kind in TRANSACTION_KINDS and not finding.is_incident:
                self._leave(claim_of(finding), finding.finding_id)
        for group, waiting in self._waiting.items():
            there = [finding for finding in standing if finding.place == group.place]
            if not any(finding.is_incident for finding in there):
                waiting.free_others([claim_of(finding) for finding in there])
        return [row.claim for (_, _, state, *_), part in parts.items() if state is State.ALONE for row in part]

    def unwritten(self) -> tuple[MemberRow, ...]:
        """Return the rows that the table ``members`` lacks, in their order; until `committed` is called, all again."""
        for held in (*self._waiting.values(), *self._proven.values()):
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
        for proven in self._proven.values():
            if proven.writing:
                proven.writing, proven.retry_at = False, now + self._retry_s

    def free(self, place: TopicPartition, over: Sequence[Claim] | None = None) -> None:
        """Let a partition's explained suspects be probed again.

        A suspect is *explained* while a finding or another suspect is its cause. When that cause is over, the suspect
        may still be true by itself.

        Args:
            place: the partition.
            over: claims that are not true any more. Only suspects that one of these claims may have explained are
                probed again. None frees all explained suspects of the partition.
        """
        for group, waiting in self._waiting.items():
            if group.place == place:
                waiting.free(over)

    # What is due.

    def due(self, now: float) -> Iterator[Page]:
        """Yield the pages to probe now, in the order in which they became due.

        At most `PAGES` pages are probed at the same time, and only one of each accused broker. A yielded page counts as
        being probed until `judged` or `failed` is called with it.

        Args:
            now: seconds of the monotonic clock.
        """
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
        """Return when the next page or event is due, in seconds of the monotonic clock; None if nothing waits.

        Pages that are being probed do not count.

        Args:
            now: seconds of the monotonic clock.
        """
        times = [self._report_at(proven) for proven in self._proven.values()]
        times += [self._retry_at] if self._unwritten else []
        if len(self._pages) < PAGES:
            asked = {page.group.broker for page in self._pages.values()}
            times += [waiting.when(now) for group, waiting in self._waiting.items() if group.broker not in asked]
            times += [proven.when(now) for group, proven in self._proven.items() if group.broker not in asked]
        return min((time for time in times if time != _NEVER), default=None)

    def look_again(self, finding: Finding, now: float) -> None:
        """Let members of an open incident be asked about at ``now``, seconds of the monotonic clock."""
        for proven in self._proven.values():
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
        if not page.is_proven and (waiting := self._waiting.get(page.group)) is not None:
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
            proven = self._proven_of(page.group)
            here = self._moved(proven, page, outcomes, asked_ms)
            counted, soon = self._counted_once(proven, page, here), now + self._retry_s
            left = proven.judged(page, counted, asked_ms, soon)
            for claim in left.explained:
                self._waiting_of(group_of_claim(claim)).members.add([claim], State.EXPLAINED)
            self._end(page.group, left.over)
            self._on_others += left.on_others
        else:
            self._count(page, outcomes, asked_ms)
            waiting = self._waiting_of(page.group)
            judged = zip(waiting.located(page).tolist(), page.originals, outcomes, strict=True)
            self._alone_again += [claim for at, claim, one in judged if at >= 0 and one.state is State.ALONE]
            waiting.judged(page, outcomes, asked_ms)
            self._on_others += [claim for outcome in outcomes for claim in outcome.left]
            waiting.end_round(now, self._retry_s, self._draw)
        self._tidy()

    def _moved(
        self, proven: Proven, page: Page, outcomes: Sequence[MemberOutcome], asked_ms: int
    ) -> list[MemberOutcome]:
        """Count members of a page in the group that they are of by now; returns the outcomes of those that stay."""
        nothing = MemberOutcome(State.UNDECIDED)
        moves = [one.state in OPEN and one.group != page.group for one in outcomes]
        if any(moves):
            at = proven.located(page)[moves]
            self._let_go(proven, at[at >= 0])
            there = [one if is_other else nothing for one, is_other in zip(outcomes, moves, strict=True)]
            self._count(page, there, asked_ms)
            proven.round += page.is_sample  # What happened to some may have happened to all.
        return [nothing if is_other else one for one, is_other in zip(outcomes, moves, strict=True)]

    def _counted_once(self, proven: Proven, page: Page, outcomes: Sequence[MemberOutcome]) -> list[MemberOutcome]:
        """Return the outcomes of a page of proven ones; one that another incident counts now is over in this one."""
        found = list(outcomes)
        for i, (at, claim) in enumerate(zip(proven.located(page).tolist(), page.originals, strict=True)):
            is_new = at >= 0 and proven.members.rows["state"][at] not in OPEN and found[i].state in OPEN
            if is_new and not self._is_counted_here(claim, page.group, found[i].state):
                found[i] = MemberOutcome(State.OVER)
        return found

    def _end(self, group: MemberGroup, over: Sequence[Claim]) -> None:
        """Suspect again what was explained by members that are not wrong any more, or are counted elsewhere."""
        event = self._proven_of(group).event
        if not over or group.broker == NOBODY or event is None:
            return
        self.free(group.place, over)
        self._over.setdefault(event.finding_id, []).extend(over)

    def over(self) -> dict[str, list[Claim]]:
        """Return by incident id the members that the incident has stopped counting since the last call, as claims.

        Suspects that such a member explained have to be judged again.
        """
        over, self._over = self._over, {}
        return over

    def on_others(self) -> list[Claim]:
        """Return the suspects about other replicas that came up since the last call.

        These replicas may be wrong in the same way as members that are over now.
        """
        left, self._on_others = self._on_others, []
        return left

    def _alike(self, group: MemberGroup) -> list[MemberGroup]:
        """Return the groups that may count a group's suspects: a transaction may be found to be of another kind."""
        alike = [one for one in self._proven if one.place == group.place and _are_of_one(one, group)]
        return [group, *(one for one in alike if one.accuses_as(group))]

    def beside(self, group: MemberGroup) -> frozenset[int]:
        """Return the brokers that showed the same as the accused for some member of a group.

        The accused itself is left out.
        """
        known = (self._proven[one] for one in self._alike(group) if one in self._proven)
        return frozenset[int]().union(*(proven.beside for proven in known)) - {group.broker}

    def _done(self, page: Page) -> None:
        self._pages.pop(page.number, None)
        held = (self._proven if page.is_proven else self._waiting).get(page.group)
        if held is not None:
            held.busy = False
        if isinstance(held, Proven):
            held.is_asked = True

    def _count(self, page: Page, outcomes: Sequence[MemberOutcome], asked_ms: int) -> None:
        """Count what is proven in its group: by the kind that it is, and the replica that it accuses."""
        found: dict[tuple[MemberGroup, State], list[tuple[Claim, MemberOutcome]]] = {}
        for claim, outcome in zip(page.originals, outcomes, strict=True):
            is_known = outcome.state is not State.UNDECIDED
            if is_known and outcome.group is not None and outcome.proof is not None:
                told = replace(remembering(claim, outcome.proof), freed=claim.freed or page.is_proven)
                found.setdefault((outcome.group, outcome.state), []).append((told, outcome))
        for (group, state), part in found.items():
            proven = self._proven_of(group)
            here = [(claim, one) for claim, one in part if self._is_counted_here(claim, group, state)]
            proven.add([claim for claim, _ in here], state, asked_ms, again=True)
            for claim, one in here if state in OPEN else ():
                proven.see(proven.members.find(claim.suspect_id), one)
            if state in OPEN:
                proven.show([o.proof for o in outcomes if o.group == group and o.proof is not None])

    def _tidy(self) -> None:
        self._waiting = {g: w for g, w in self._waiting.items() if len(w.members) or w.busy or w.gone}
        self._proven = {
            g: p
            for g, p in self._proven.items()
            if len(p.members) or p.busy or p.writing or p.event is not None or p.gone
        }
        self._singles = {g: singles for g, singles in self._singles.items() if singles}

    def few(self, alone: Mapping[MemberGroup, int]) -> list[Claim]:
        """Return the claims that leave their groups now, to be probed one by one.

        Their groups have turned out to be small, or a probe has shown that each needs a probe of its own.

        Args:
            alone: by group, how many of its suspects are being probed one by one.
        """
        back, self._alone_again = self._alone_again, []
        for group, waiting in list(self._waiting.items()):
            proven = self._proven.get(group)
            is_incident = proven is not None and (proven.stands or proven.writing)
            is_few = len(waiting.members) + alone.get(group, 0) <= self._alone
            if is_few and not is_incident and not waiting.busy and not len(waiting.behind(WAITING)):
                back += self._to_be_alone(waiting)
                del self._waiting[group]
        for group, proven in list(self._proven.items()):
            is_many = self._number(proven) + proven.tally.shown > self._alone
            if proven.event is not None or proven.writing or is_many or proven.tally.of_others:
                continue
            if self._is_settled(group.place):
                back += self._to_be_alone(proven)
                del self._proven[group]
        return back

    def _to_be_alone(self, held: HeldMembers) -> list[Claim]:
        """Return the claims of a group's members, each of which is probed by itself from now on."""
        at = np.arange(len(held.members))
        claims = held.members.claims(at)
        held.let_go(at, State.ALONE)
        self._unwritten += held.unwritten()
        return claims

    # What is reported.

    def reports(self, now: float, at: datetime) -> list[Finding]:
        """Return the events of incidents that are due now; the caller writes them to the findings table.

        Before the next call, the caller reports with `add` that they were written, or with `not_committed` that they
        were not.

        Args:
            now: seconds of the monotonic clock.
            at: the time of day, for the events.
        """
        events: list[Finding] = []
        for group, singles in self._singles.items():
            if len(_divergences(group, singles)) > self._alone:
                self._proven_of(group)
        self._tell_who_leads()
        for group, proven in self._proven.items():
            event = proven.event
            if event is not None and not event.stands and at - event.decided_at > _FORGET_AFTER:
                proven.forget()
            if self._report_at(proven) > now:
                continue
            event = self._event(proven, at)
            known = proven.event
            if event.stands and known is not None and known.status is FindingStatus.ACKNOWLEDGED:
                # Single findings that it counts still become part of it, where a person knows all that it says.
                is_other = Gravity.of(event) != Gravity.of(known)
                news = worsened(event, known) or (still_acknowledged(event, known) if is_other else None)
                events += [news] if news is not None else []
                proven.writing, proven.retry_at = news is not None, now + self._retry_s
            else:
                events.append(event)
                proven.writing = True
            if event.stands:
                part = list(self._singles.get(group, {}).values())[:_ABSORBED]
                events += [part_of_incident(single, event.finding_id, at) for single in part]
                rows = [MemberRow(group, True, claim_of(one), state_of(one), asked_ms(one)) for one in part]
                self._becoming_part += rows
                self._unwritten += rows
        return events

    def _tell_who_leads(self) -> None:
        """Tell each group who leads its partition: the newest look at anything of that partition says it."""
        newest: dict[TopicPartition, WhoLed] = {}
        for group, proven in self._proven.items():
            known = newest.get(group.place, NOT_KNOWN)
            newest[group.place] = known.then(proven.led, *map(WhoLed.of, self._singles.get(group, {}).values()))
        for group, proven in self._proven.items():
            proven.led = newest[group.place]

    def _event(self, proven: Proven, at: datetime) -> Finding:
        group, members = proven.group, proven.members
        singles = list(self._singles.get(group, {}).values())
        offsets = [single.offset for single in singles]
        if proven.tally.count or proven.tally.shown:
            offsets += [proven.tally.lowest, proven.tally.highest]
        tally = replace(
            proven.tally,
            count=self._number(proven),
            waiting=self._undecided(group),
            ended=_ended(proven),
            lowest=min(offsets, default=-1),
            highest=max(offsets, default=-1),
            status=FindingStatus.CONFIRMED if singles else proven.tally.status,
            on_all=proven.tally.on_all or any(map(has_spread, singles)),
            beside=tuple(sorted(proven.beside)),
        )
        if not len(members) and singles:
            members = Members(group.place)
            members.add([claim_of(single) for single in singles[:_ABSORBED]], State.WRONG)
        finding_id = incident_id(self.cluster_id, group)
        known = proven.event
        repaired = NO_REPAIR if tally.count or known is None else self._repaired(known)
        proofs, led, shows = proven.proofs, proven.led, proven.shows(singles)
        return incident_event(finding_id, group, tally, members, proofs, led, known, at, singles, repaired, shows=shows)

    def _report_at(self, proven: Proven) -> float:
        """Return when an event of a group is due; infinite where there is none to report.

        It is due immediately where it begins, ends, or has come to count twice as many. Other news waits until members
        have been asked about again, since the partition may have another leader by then.
        """
        number, event = self._number(proven), proven.event
        if proven.writing:
            return _NEVER
        if event is None or not event.stands:
            return proven.retry_at if self._begins(proven, number) else _NEVER
        if number == 0:
            return proven.retry_at if self._is_at_rest(proven) else _NEVER
        if number >= 2 * max(1, proven.reported) or self._singles.get(proven.group):
            return proven.retry_at
        return proven.retry_at if proven.is_asked and self._has_news(proven, event) else _NEVER

    def _begins(self, proven: Proven, number: int) -> bool:
        """Whether to report a group that is no incident, or was one: as a new incident, or as over."""
        if number > self._alone or proven.tally.of_others or (proven.event is not None and number > 0):
            # Of members that a process has proven and not reported, nobody knows yet whether the leader shows them.
            return bool(proven.proofs or not len(proven.members)) or self._is_at_rest(proven)
        is_many = proven.event is not None or number + proven.tally.shown > self._alone
        return is_many and _tells_of_more(proven) and self._is_at_rest(proven)

    def _has_news(self, proven: Proven, event: Finding) -> bool:
        """Whether the state differs from the last event, and is not about to change again."""
        if not self._is_at_rest(proven):
            return False
        number, before = self._number(proven), proven.reported
        if not event.is_open and self._extent(proven).worse_than(Gravity.acknowledged(event)):
            return True
        if not event.is_open:
            was = (event.exposed, status_of(event), before)
            return (proven.leads, proven.tally.status, number) != was
        is_other = proven.leads != event.exposed or proven.tally.status is not event.status
        # As many may have come as have ended: then it counts others, and as many.
        is_other |= _ended(proven) != tally_of(event).ended
        return number != before or is_other or _tells_of_more(proven)

    def _extent(self, proven: Proven) -> Gravity:
        group = proven.group
        return Gravity(group.kind, proven.tally.status, group.broker, proven.leads, count=self._number(proven))

    def _is_at_rest(self, proven: Proven) -> bool:
        return not proven.busy and not proven.is_unread() and self._is_settled(proven.group.place)

    def _is_settled(self, place: TopicPartition) -> bool:
        """Whether every suspect of the partition has been asked about."""
        return not any(w.busy or len(w.behind(WAITING)) for g, w in self._waiting.items() if g.place == place)

    def _number(self, proven: Proven) -> int:
        """Return how many keys, records without a key, or transactions are wrong, each counted once."""
        singles = _divergences(proven.group, self._singles.get(proven.group, {})).values()
        return proven.tally.count + sum(not proven.members.counts(proven.group, one) for one in singles)

    def _undecided(self, group: MemberGroup) -> int:
        waiting = self._waiting.get(group)
        return 0 if waiting is None else int(waiting.members.are(*WAITING).sum())

    def _waiting_of(self, group: MemberGroup) -> Waiting:
        return self._waiting.setdefault(group, Waiting(group, Members(group.place)))

    def _proven_of(self, group: MemberGroup) -> Proven:
        return self._proven.setdefault(group, Proven(group, Members(group.place)))

    # What can be asked of it.

    def waits(self, suspect_id: str) -> str | None:
        """Return why the suspect with the id ``suspect_id`` has no verdict yet, or is proven and not reported.

        None if it is neither, or is in no group.
        """
        for waiting in self._waiting.values():
            if (at := waiting.members.find(suspect_id)) >= 0:
                state = waiting.members.rows["state"][at]
                if state == State.EXPLAINED:
                    return None
                return NOT_PROBED if state == State.NEW else waiting.reason
        for proven in self._proven.values():
            if (at := proven.members.find(suspect_id)) < 0:
                continue
            state = proven.members.rows["state"][at]
            if not proven.stands:
                is_told = state not in OPEN and (state != State.SHOWN or not _tells_of_more(proven))
                return None if is_told else "it is proven and not reported yet"
        return None

    def holds(self, claim: Claim) -> bool:
        """Whether a group takes care of a suspect, so that the suspect needs no probe of its own.

        True while the suspect waits for a page, or is proven and wrong. True as well if it was explained, or was over
        when it was found, unless it was raised again since.
        """
        for waiting in self._waiting.values():
            if (at := waiting.members.find(claim.suspect_id)) >= 0:
                row = waiting.members.rows[at]
                return bool(row["state"] != State.EXPLAINED or claim.raised_at_ms <= row["raised_at_ms"])
        for proven in self._proven.values():
            if (at := proven.members.find(claim.suspect_id)) >= 0:
                state, raised = proven.members.rows["state"][at], proven.members.rows["raised_at_ms"][at]
                if state in OPEN or (state == State.SHOWN and claim.raised_at_ms <= raised):
                    return True
        return False

    def counting(self, claim: Claim) -> Finding | None:
        """Return the last event of the incident that counts a claim's transaction; None without one.

        An incident that is over counts nothing.
        """
        if claim.kind not in TRANSACTION_KINDS:
            return None
        found = self._counted(claim, claim.finding_id(self.cluster_id), *OPEN)
        return next((proven.event for proven, _ in found if proven.stands), None)

    def not_seen_again(self) -> dict[str, str]:
        """Return which incidents have members that this process has not proven again: by incident id, a text.

        The text says how many members are proven again and what came of the others, e.g. "5 of the 20 keys that it
        counts are wrong, 3 could not be decided". It is empty as long as a round of probes is asking about the members.
        An incident is left out if all its members are proven again, or if it is over.
        """
        standing = [(one.event, one) for one in self._proven.values() if one.event is not None and one.event.stands]
        found = {event.finding_id: proven.not_seen_again(self._number(proven)) for event, proven in standing}
        return {name: why for name, why in found.items() if why is not None}

    def explains(self, claim: Claim) -> bool:
        """Whether a member of an open incident is the cause of a claim.

        It is a wrongly ended transaction, or it accuses a replica about the same key. Then the claim is no divergence
        by itself.
        """
        is_about_key = claim.key is not None and bool(self.wrong_about(claim.place, claim.key))
        return is_about_key or bool(self.causes_of(claim)) or self.counting(claim) is not None

    def causes_of(self, claim: Claim) -> list[tuple[Finding, Claim]]:
        """Return the transactions that may explain a claim on a key's value and are members of open incidents.

        Each is a pair: the last event of the incident, and the member's claim on the transaction.
        """
        return [
            (proven.event, one)
            for proven in self._proven.values()
            if proven.event is not None and proven.stands
            for one in proven.may_explain(claim, *OPEN)
        ]

    def awaited_by(self, claim: Claim) -> list[Claim]:
        """Return the members that may explain a claim on a key's value, and that have no verdict or no report yet.

        The claim has to wait for them. They are wrongly ended transactions. If the claim accuses nobody, suspects that
        accuse a replica about the claim's key are included.
        """
        found = [one for waiting in self._waiting.values() for one in waiting.accusing(claim)]
        found += [one for waiting in self._waiting.values() for one in waiting.may_explain(claim, *WAITING)]
        unsaid = (proven for proven in self._proven.values() if not proven.stands)
        return found + [one for proven in unsaid for one in proven.may_explain(claim, *OPEN)]

    def has_cause_of(self, claim: Claim) -> bool:
        """Whether some member of an incident is, or was, the cause of a claim on a key's value.

        It is a wrongly ended transaction, even if it is not wrong any more. An open incident that accuses a replica
        about the same key counts as well.
        """
        states = (*OPEN, State.OVER)
        is_explained = any(proven.may_explain(claim, *states) for proven in self._proven.values())
        return is_explained or (claim.key is not None and bool(self.wrong_about(claim.place, claim.key)))

    def wrong_about(self, place: TopicPartition, key: tuple[int, int]) -> list[tuple[Finding, int]]:
        """Return the open incidents that accuse a replica of showing a key wrongly: (last event, offset) for each.

        The offset is -1 if one replica is accused. If every replica shows a deleted value of the key, it is the offset
        of the deletion.

        Args:
            place: the partition.
            key: the two halves of the key's hash.
        """
        found = []
        for group, proven in self._proven.items():
            is_about_keys = group.broker != NOBODY and not group.is_of_transactions
            if group.place != place or not is_about_keys or proven.event is None or not proven.stands:
                continue
            on_all = proven.members.offsets_of(key, State.SPREAD) if group.kind in TOMBSTONE_KINDS else []
            if proven.members.offsets_of(key, State.WRONG):
                found.append((proven.event, UNKNOWN))
            elif on_all:
                found.append((proven.event, max(on_all)))
        return found

    def deleted_at(self, place: TopicPartition, key: tuple[int, int]) -> list[int]:
        """Return the offsets of a key's tombstones that some replica has missed, according to open incidents.

        Args:
            place: the partition.
            key: the two halves of the key's hash.
        """
        there = (proven for group, proven in self._proven.items() if group.place == place and proven.stands)
        return [
            offset
            for proven in there
            if proven.group.kind in TOMBSTONE_KINDS
            for offset in proven.members.offsets_of(key, State.WRONG)
        ]

    def pending(self) -> dict[TopicPartition, int]:
        """Return by partition how many suspects in groups have no verdict yet."""
        found: dict[TopicPartition, int] = {}
        for group in self._waiting:
            if number := self._undecided(group):
                found[group.place] = found.get(group.place, 0) + number
        return found

    def reasons(self) -> dict[TopicPartition, str]:
        """Return by partition why a probe has left suspects in groups without a verdict (one reason)."""
        waiting = ((group, one.reason) for group, one in self._waiting.items() if one.reason != NOT_PROBED)
        return {group.place: reason for group, reason in waiting if self._undecided(group)}
