"""Holds the members of one group, and chooses which of them the next probe asks about.

A group's members are suspects that wait for a verdict (`Waiting`), or members that were proven (`Proven`). They are
asked about in rounds, and a round goes page by page. Each round asks about each member once: a member's row has the
number of the last round that asked about it. Members that are added during a round are asked about in that round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

import numpy as np

from parallax.backoff import backoff
from parallax.counts import agreed
from parallax.findings.alike import beside
from parallax.findings.claim import Claim, explains
from parallax.findings.decide import Resolution, differed, differs_anew
from parallax.findings.effect import COVERED, COVERED_TOGETHER, remembered
from parallax.findings.finding import Finding, has_spread, is_unsettled, meeting_of
from parallax.findings.incident import PROOFS, MemberProof, Tally, counted, is_led, sampled, tally_of
from parallax.findings.members import (
    NO_COUNTS,
    OPEN,
    RESOLUTIONS,
    WAITING,
    Array,
    Counts,
    MemberGroup,
    MemberRow,
    Members,
    State,
    count,
)
from parallax.findings.summary import counted_in_words
from parallax.findings.who_led import NOT_KNOWN, WhoLed
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import NOBODY, hash_halves
from parallax.moments import milliseconds

PAGE = 4096
"""At most so many members are asked about by one probe."""
SAMPLE = 256
"""At most so many members of an incident are asked about again at each interval; members take turns."""
_DEAR_PAGE = 256
"""At most so many transactions are on one page, because the other records of each cost further requests."""
_WAIT_MAX_S = 60.0
_MANY = 255
"""A member's count of probes ends here."""
_NEVER = float("inf")

_LOOKED_AT = (*OPEN, State.OVER, State.IN_PART)
_NOT_SEEN = (State.SPREAD, State.UNSETTLED)
"""States in which the replicas agree, so that their answers no longer show what was proven."""
NOT_PROBED = "it has not been probed yet"


@dataclass(frozen=True, slots=True)
class Page:
    """Some members of one group, at most `PAGE`, that one probe asks about together.

    Attributes:
        number: the page's number, unique in this process.
        group: the group that the members belong to.
        is_proven: whether the members were proven earlier and are checked again; else they are suspects.
        claims: for each member the claim to ask about; for proven members, as `Proven.as_finding` makes it.
        originals: for each member the claim that its suspect made.
        counts: for each member, what its probes have counted so far.
        is_sample: whether the members are a sample of a proven group, and not part of a round.
    """

    number: int
    group: MemberGroup
    is_proven: bool
    claims: tuple[Claim, ...]
    originals: tuple[Claim, ...]
    counts: tuple[Counts, ...]
    is_sample: bool = False


@dataclass(frozen=True, slots=True)
class MemberOutcome:
    """What a probe has shown of one member of a page.

    Attributes:
        state: the member's new state. `State.EXPLAINED` means that a finding explains the member, which is asked about
            again when that finding ends.
        group: the group in which the member counts, if it is proven.
        proof: the answers that prove the member; None where it is not proven.
        led: who led when the replicas were asked.
        resolution: why the member is not wrong any more.
        reason: why the member is undecided.
        counts: what the member's probes have counted so far, this one included.
        left: if the member is over: suspects about other replicas that may be wrong in the same way.
        rest: how many other records of the member's transaction were asked about.
        left_out: how many other records of that transaction were not asked about.
    """

    state: State
    group: MemberGroup | None = None
    proof: MemberProof | None = None
    led: WhoLed = NOT_KNOWN
    resolution: str = ""
    reason: str = ""
    counts: Counts = NO_COUNTS
    left: tuple[Claim, ...] = ()
    rest: int = 0
    left_out: int = 0


class Left(NamedTuple):
    """What the caller has to do after a page of an incident's members was probed.

    Attributes:
        explained: members that a finding on a transaction explains; they become suspects that wait for its end.
        over: members that the incident no longer counts, each as a claim that `Proven.as_finding` makes.
        on_others: suspects about other replicas that may be wrong in the same way as members in ``over`` were.
    """

    explained: list[Claim]
    over: list[Claim]
    on_others: list[Claim]


@dataclass(slots=True)
class HeldMembers:
    """The members of one group, and how far the present round of probes has come.

    It is what `Waiting` and `Proven` have in common. A row is an index into ``members.rows``.

    Attributes:
        group: what all members have in common.
        members: the members, one row for each.
        round: number of the present round; each row has the number of the last round in which it was asked about.
        due: when the next round, or the next sample, may begin; seconds of the monotonic clock.
        busy: whether a probe is asking about a page of this group.
        most: how many transactions a page may hold: few enough for one probe to ask about all their records.
        gone: rows for the table ``members`` about members that are not here any more.
    """

    group: MemberGroup
    members: Members
    round: int = 1
    due: float = 0.0
    busy: bool = False
    most: int = _DEAR_PAGE
    gone: list[MemberRow] = field(default_factory=list)

    def restore(self, rows: Sequence[MemberRow]) -> None:
        """Take in rows of the table ``members``. All are in one state, for which they were asked about together."""
        state, asked_ms = rows[0].state, rows[0].asked_ms
        self.members.add([row.claim for row in rows], state, asked_ms=asked_ms, written=state + 1)

    def unwritten(self) -> list[MemberRow]:
        """Return the rows that the table ``members`` lacks, in their order. Each is returned once."""
        at, states = self.members.unwritten()
        found = [*self.gone, *map(self._row, at.tolist(), map(State, states.tolist()))]
        self.members.rows["written"][at] = states + 1
        self.gone = []
        return found

    def let_go(self, at: Array, state: State = State.LEFT) -> None:
        """Remove members, and keep rows about that for the table ``members``.

        Args:
            at: their rows.
            state: `State.LEFT`: something else has them. `State.ALONE`: each is to be probed by itself. `State.OVER`:
                suspects that are dismissed.
        """
        rows = self.members.rows
        is_noted = np.full(len(at), True) if state is State.OVER else rows["written"][at] > 0
        if state is State.ALONE:
            is_noted |= rows["freed"][at]
        self.gone += [self._row(i, state) for i in at[is_noted].tolist()]
        self.members.drop(at)

    def _row(self, at: int, state: State) -> MemberRow:
        row, is_open = self.members.rows[at], state in (*OPEN, State.NEW)
        resolution = "" if is_open else RESOLUTIONS[row["resolution"]]
        claim = self.members.claim(at)
        return MemberRow(self.group, isinstance(self, Proven), claim, state, int(row["asked_ms"]), resolution)

    def behind(self, states: Iterable[State]) -> Array:
        """Return the row numbers of members in the given states that this round has not asked about yet."""
        return np.flatnonzero(self.members.are(*states) & (self.members.rows["round"] < self.round))

    def located(self, page: Page) -> Array:
        """Return for each member of a page its row in ``members.rows``; -1 if the member was dropped since."""
        return self.members.locate(np.array([c.suspect_id for c in page.originals], "S32"))

    def alike(self, at: Array, most: int = PAGE) -> Array:
        """Return which of the given rows make the next page: the first one, and others that may join it in one probe.

        Those others are of the first one's class (`classes`).

        Args:
            at: the row numbers to choose from, in the order in which they are to be asked about.
            most: how many rows the page may have.

        Returns:
            Row numbers from ``at``, in the same order; empty if ``at`` is empty.
        """
        if not len(at):
            return at
        classes = self.classes(at)
        together = at[classes == classes[0]]
        return together[: min(most, self.most) if self.members.rows["producer_id"][at[0]] >= 0 else most]

    def classes(self, at: Array) -> Array:
        """Return for each row the number of its class; rows of one class can go into one probe.

        The rows of a class have the same pivot (`Members.pivots`). All of them are of transactions, or none is.

        Args:
            at: row numbers.

        Returns:
            Whole numbers, one for each item of ``at``.
        """
        classes: Array = self.members.pivots[at].astype(np.int64) * 2 + (self.members.rows["producer_id"][at] >= 0)
        return classes

    def may_explain(self, claim: Claim, *states: State) -> list[Claim]:
        """Return the members in the given states whose transaction, ended wrongly, explains a claim on a key's value.

        Only the claims are compared (`parallax.findings.claim.explains`); no replica is asked.
        """
        if self.group.kind not in TRANSACTION_KINDS or self.group.place != claim.place:
            return []
        rows = self.members.rows
        about = np.zeros(len(rows), np.bool_)
        if claim.producer_id >= 0:
            about |= (rows["producer_id"] == claim.producer_id) & (rows["transaction_start_offset"] <= claim.offset)
        if claim.key is not None:
            about |= _are_of_key(rows, claim.key)
            about[self.members.having_written(claim.key)] = True
        about &= (rows["marker_offset"] < 0) | (rows["marker_offset"] > claim.offset)
        made = (self.claim(at) for at in np.flatnonzero(about & self.members.are(*states)).tolist())
        return [one for one in made if explains(one, claim, by_value=True)]

    def _fit(self, page: Page, at: Sequence[int], outcomes: Sequence[MemberOutcome]) -> None:
        """Adjust the page size so that a probe asks about all records, and ask again about members that got less.

        Args:
            page: what was asked about.
            at: the rows of its members; -1 for one that is no longer here.
            outcomes: of each.
        """
        records = max((1 + outcome.rest + outcome.left_out for outcome in outcomes), default=1)
        self.most = min(_DEAR_PAGE, max(COVERED_TOGETHER // COVERED, COVERED_TOGETHER // records))
        if len(page.claims) > self.most:
            again = [row for row, outcome in zip(at, outcomes, strict=True) if row >= 0 and outcome.left_out]
            self.members.rows["round"][again] = self.round - 1

    def claim(self, at: int) -> Claim:
        """Return the claim of the member in row ``at``."""
        return self.members.claim(at)

    def _page(self, number: int, at: Array, claims: Sequence[Claim], originals: Sequence[Claim]) -> Page:
        self.busy = True
        rows = self.members.rows
        rows["round"][at] = self.round
        is_proven = isinstance(self, Proven)
        counts = tuple(Counts(*row) for row in rows[list(Counts._fields)][at].tolist())
        return Page(number, self.group, is_proven, tuple(claims), tuple(originals), counts)

    def _note_counts(self, at: Sequence[int], outcomes: Sequence[MemberOutcome]) -> None:
        """Remember what the probes of each member of a page have counted."""
        rows = self.members.rows
        for row, outcome in zip(at, outcomes, strict=True):
            if row >= 0:
                lone, gone, agreed, proven = outcome.counts
                rows["lone"][row], rows["gone"][row] = min(lone, _MANY), min(gone, _MANY)
                rows["agreed"][row], rows["proven"][row] = min(agreed, _MANY), proven


@dataclass(slots=True)
class Waiting(HeldMembers):
    """The suspects of one group that wait for a verdict (in `HeldMembers.members`), and why they still do.

    Attributes:
        attempts: how many rounds in a row, up to the last one, have left at least one suspect undecided.
        reason: why the last suspect that was left undecided could not be decided. It is `NOT_PROBED` before the first.
    """

    attempts: int = 0
    reason: str = NOT_PROBED

    def when(self, now: float) -> float:
        """Return when the next page is due, in seconds of the monotonic clock; infinite if no page will be.

        Args:
            now: seconds of the monotonic clock.
        """
        if len(self.behind(WAITING)):
            return now
        return self.due if self.members.are(State.UNDECIDED).any() else _NEVER

    def accusing(self, claim: Claim) -> list[Claim]:
        """Return the waiting suspects that accuse a replica about the key of a claim that accuses nobody.

        Empty if the claim accuses a replica, or if it has no key.
        """
        group = self.group
        accuses = group.broker != NOBODY and not group.is_of_transactions
        if not accuses or group.place != claim.place or claim.broker != NOBODY or claim.key is None:
            return []
        return [self.claim(at) for at in self.members.of_key(claim.key, *WAITING).tolist()]

    def next_page(self, number: int, now: float, _: Callable[[Finding], float]) -> Page | None:
        """Return the next page, or None if no page is due; begin a new round if it is time for it.

        Args:
            number: the number of the new page.
            now: seconds of the monotonic clock.
            _: not used; `Proven.next_page` uses it.
        """
        at = self.behind(WAITING)
        if not len(at) and now >= self.due and self.members.are(State.UNDECIDED).any():
            self.round += 1
            at = self.behind(WAITING)
        if not len(at):
            return None
        at, self.due = self.alike(at), now  # Behind those that have waited for longer.
        claims = self.members.claims(at)
        return self._page(number, at, claims, claims)

    def failed(self, page: Page, reason: str) -> None:
        """Mark the members of a page as undecided, because the page's probe failed.

        Args:
            page: the page.
            reason: why the probe failed.
        """
        at = self.located(page)
        self.members.rows["state"][at[at >= 0]] = State.UNDECIDED
        self.reason = reason

    def judged(self, page: Page, outcomes: Sequence[MemberOutcome], asked_ms: int) -> None:
        """Record what a probe has shown of a page's members.

        Members that are proven, dismissed, or to be probed by themselves are dropped, because they wait no longer.

        Args:
            page: the page that was asked about.
            outcomes: for each member of the page what the probe has shown.
            asked_ms: when the page was asked about, milliseconds since 1970 UTC.
        """
        rows, at = self.members.rows, self.located(page).tolist()
        self._note_counts(at, outcomes)
        for i, outcome in zip(at, outcomes, strict=True):
            if i >= 0:
                rows["state"][i], rows["asked_ms"][i] = outcome.state, asked_ms
                self.reason = outcome.reason or self.reason
        self._fit(page, at, outcomes)
        self.let_go(np.flatnonzero(self.members.are(*OPEN, State.SHOWN)))
        for state in (State.OVER, State.ALONE):
            self.let_go(np.flatnonzero(self.members.are(state)), state)

    def end_round(self, now: float, retry_s: float, draw: Random) -> None:
        """If the present round has asked about all suspects, set when the next round may begin.

        The wait grows with the number of rounds in a row that left suspects undecided.

        Args:
            now: seconds of the monotonic clock.
            retry_s: how long to wait after the first such round, in seconds.
            draw: source of the random part of the wait.
        """
        if not len(self.behind(WAITING)):
            self.attempts = self.attempts + 1 if self.members.are(State.UNDECIDED).any() else 0
            self.due = now + backoff(max(1, self.attempts), retry_s, _WAIT_MAX_S, draw)

    def free_others(self, causes: Sequence[Claim]) -> None:
        """Let the explained suspects of this group be probed again that none of the given claims explains."""
        rows = self.members.rows
        stays = np.logical_or.reduce([np.zeros(len(rows), np.bool_), *(_may_be_explained(rows, c) for c in causes)])
        self._free(self.members.are(State.EXPLAINED) & ~stays)

    def free(self, over: Sequence[Claim] | None = None) -> None:
        """Let the explained suspects of this group be probed again.

        A suspect is *explained* while a finding or another suspect is its cause. When that cause is over, the suspect
        may still be true by itself.

        Args:
            over: claims that are not true any more. Only suspects that one of these claims may have explained are
                probed again. None frees all explained suspects of the group.
        """
        rows, freed = self.members.rows, self.members.are(State.EXPLAINED)
        if over is not None:
            freed &= np.logical_or.reduce([_may_be_explained(rows, one) for one in over])
        self._free(freed)

    def _free(self, which: Array) -> None:
        rows, at = self.members.rows, np.flatnonzero(which)
        rows["state"][at], rows["round"][at], rows["freed"][at] = State.NEW, 0, True


@dataclass(slots=True)
class Proven(HeldMembers):
    """The proven members of one group, and what is known of the incident that counts them.

    There is an incident once the findings table has an event of it.

    Attributes:
        event: the incident's last event; None while the group is no incident.
        since_ms: when the event was decided by which the incident began, or began again; milliseconds since 1970 UTC.
        writing: whether an event of the incident is being written.
        retry_at: after a failed write, no event is made before this time; seconds of the monotonic clock.
        is_asked: whether a probe of members has come back since the last event was written.
        proofs: the proofs of a few members, kept as examples.
        led: who led at the newest look at members.
        ended: how many members are not wrong any more, by `Resolution`.
        sampled: by class of members (`classes`), how many of the class samples have asked about so far. A sample is a
            probe of some members of one class; the next sample asks about the next ones.
        ``beside``: the brokers, without the accused, that have shown the same as the accused for at least one member.
    """

    event: Finding | None = None
    since_ms: int = 0
    writing: bool = False
    retry_at: float = -_NEVER
    is_asked: bool = False
    proofs: list[MemberProof] = field(default_factory=list)
    led: WhoLed = NOT_KNOWN
    ended: Counter[str] = field(default_factory=Counter)
    sampled: Counter[int] = field(default_factory=Counter)
    beside: frozenset[int] = frozenset()
    _tally: Tally | None = None

    @property
    def tally(self) -> Tally:
        """How many members are proven and still wrong, at which offsets, and what came of the other members."""
        if self._tally is None:
            self._tally = counted(self.group, self.members)
        return self._tally

    @property
    def stands(self) -> bool:
        """Whether an incident counts the members, and that incident is not over."""
        return self.event is not None and self.event.stands

    @property
    def reported(self) -> int:
        """How many members the incident's last event counts as wrong; 0 without an event.

        If many more are proven by now, a new event is due.
        """
        return 0 if self.event is None else tally_of(self.event).count

    @property
    def leads(self) -> bool:
        """Whether the leader shows its consumers some member wrongly."""
        return is_led(self.tally, shows=self.shows())

    def shows(self, singles: Iterable[Finding] = ()) -> bool:
        """Whether the leader shows some member as the accused does, by the last look at each.

        Of members at which this process has not looked yet, the incident's last event says it.

        Args:
            singles: single findings that become part of the incident.
        """
        brokers, is_all = self.members.meeting(self.members.are(*OPEN))
        brokers = brokers.union(*map(meeting_of, singles))
        said = self.event is not None and self.event.stands and self.event.exposed
        return self.led.leader in brokers or (said and not is_all)

    def add(self, claims: Sequence[Claim], state: State, asked_ms: int = 0, *, again: bool = False) -> None:
        """Add proven members; a member that is known already is replaced.

        Args:
            claims: the claims of their suspects.
            state: the state of all of these members.
            asked_ms: when the replicas were asked for it, milliseconds since 1970 UTC.
            again: whether a probe of this process has proven them.
        """
        self.members.add(claims, state, self.round, again=again, asked_ms=asked_ms)
        self._tally = None

    def see(self, at: int, outcome: MemberOutcome) -> bool:
        """Note on which brokers consumers meet the member in row ``at``; return whether it is news (`Members.see`)."""
        proof = outcome.proof
        if proof is None:
            return False
        brokers = proof.meeting(self.group.broker) if outcome.state is State.WRONG else frozenset[int]()
        silent = {broker for broker, answer in proof.answers.replicas.items() if answer.error is not None}
        return self.members.see(at, brokers, frozenset(silent))

    def restore(self, rows: Sequence[MemberRow]) -> None:
        """Take in members as the table ``members`` has them; all are in one state, and are asked about again.

        Those that have left are removed, if an event had named them as members.
        """
        if rows[0].resolution and self.stands and rows[0].asked_ms >= self.since_ms:
            self.ended[rows[0].resolution] += len(rows)
        if rows[0].state in (State.ALONE, State.LEFT):
            at = self.members.locate(np.array([row.claim.suspect_id for row in rows], "S32"))
            self.members.drop(at[at >= 0])
        else:
            HeldMembers.restore(self, rows)
        self._tally = None

    def resume(self, *, is_known: bool) -> None:
        """Take from the incident's last event, at the start, what the table ``members`` does not say.

        Args:
            is_known: whether that table has rows of the group. If not, an earlier version has written the event: of its
                members only those that it names are known.
        """
        if (event := self.event) is None:
            return
        told = tally_of(event)
        self.beside = frozenset(told.beside)
        self.led = WhoLed.of(event) if event.stands else NOT_KNOWN
        if not is_known and event.stands:
            self.ended = Counter(told.ended)
        if not is_known and (event.stands or told.in_part):
            self.members.add(sampled(event), state_of(event) if event.stands else State.IN_PART)
            self._tally = None

    def not_seen_again(self, number: int) -> str | None:
        """Return a text that says how many members no probe has proven again since the job started.

        Example: ``3,990 of the 4,000 keys that it counts are wrong, 10 could not be decided``.

        Args:
            number: how many keys, records without a key, or transactions the incident counts.

        Returns:
            The text. It is empty as long as a round of probes is asking about the members. None if probes have proven
                all of them again.
        """
        if self.busy or self.is_unread():
            return ""
        rows, counts = self.members.rows, self.members.are(*OPEN)
        stand = count(self.group, rows[counts & rows["again"]])
        if stand >= number:
            return None
        wrong = (
            f"{stand:,} of the {counted_in_words(self.group, number)} that it counts {agreed(stand, 'is', 'are')} wrong"
        )
        return f"{wrong}, {number - stand:,} could not be decided"

    def end(self) -> None:
        """Mark all members as over, and drop what was kept for events, because the incident is over."""
        self.members.rows["state"][self.members.are(*OPEN)] = State.OVER
        self.ended.clear()
        self.proofs, self.led, self._tally, self.beside = [], NOT_KNOWN, None, frozenset()

    def forget(self) -> None:
        """Drop the members that are over, to free memory.

        Those that the incident counts, or may count again, are kept.
        """
        self.members.drop(np.flatnonzero(self.members.are(State.OVER, State.SHOWN)))
        self._tally = None
        if not self.members.are(*OPEN, State.IN_PART).any():
            self.event = None

    def is_unread(self) -> bool:
        """Whether the present round has not asked about every proven member yet.

        Then the next page is due now.
        """
        return bool(len(self.behind(_LOOKED_AT)))

    def when(self, now: float) -> float:
        """Return when the next page is due, in seconds of the monotonic clock; infinite if no page will be.

        Args:
            now: seconds of the monotonic clock.
        """
        if self.is_unread():
            return now
        return self.due if self.event is not None and self.members.are(*_LOOKED_AT).any() else _NEVER

    def next_page(self, number: int, now: float, interval: Callable[[Finding], float]) -> Page | None:
        """Return the next page, or None if no page is due.

        As long as the present round has members left to ask about, the page is made of these. After that, it is a
        sample: a few members of an incident that are checked again. A sample is due at ``due``.

        Args:
            number: the number of the new page.
            now: seconds of the monotonic clock.
            interval: returns how many seconds after a sample the next one follows, given the incident's last event.
        """
        at, is_sample = self.alike(self.behind(_LOOKED_AT)), False
        if not len(at) and self.event is not None and now >= self.due and self.members.are(*_LOOKED_AT).any():
            self.due, is_sample = now + interval(self.event), True
            at = self._sample(np.flatnonzero(self.members.are(*_LOOKED_AT)))
        if not len(at):
            return None
        originals = self.members.claims(at)
        claims = [self.claim(row) for row in at.tolist()]
        return replace(self._page(number, at, claims, originals), is_sample=is_sample)

    def _sample(self, at: Array) -> Array:
        """Return the rows whose turn it is: of those that can be asked about together, those asked least often.

        They take turns, so that none is passed over for good.
        """
        classes = self.classes(at)
        counts = Counter(classes.tolist())
        least = min((self.sampled[one] / counts[one] for one in counts if one in self.sampled), default=0.0)
        for one, number in counts.items():
            self.sampled.setdefault(one, int(least * number))
        chosen = min(sorted(counts), key=lambda one: self.sampled[one] / counts[one])
        mine = at[classes == chosen]
        taken = self.alike(np.roll(mine, -(self.sampled[chosen] % len(mine))), SAMPLE)
        self.sampled[chosen] += len(taken)
        return taken

    def claim(self, at: int) -> Claim:
        """Return the claim of the member in row ``at``, in the form that `as_finding` gives it."""
        return self.as_finding(self.members.claim(at), self.members.rows["state"][at])

    def as_finding(self, claim: Claim, state: int) -> Claim:
        """Return a member's claim as a finding about this member alone would make it.

        It has the incident's accused, kind and rule, and the time of the incident's last event. A probe checks it as it
        checks a finding again.

        Args:
            claim: the claim of the member's suspect.
            state: the member's state.
        """
        decided = 0 if self.event is None else milliseconds(self.event.decided_at)
        _, broker, kind, rule = self.group
        if broker == NOBODY != claim.broker:
            claim = replace(claim, recorded=replace(claim.recorded, pivot=claim.pivot))
        named = replace(claim, kind=kind, broker=broker, rule=rule, freed=False, ended=state not in OPEN)
        return replace(named, spread=state == State.SPREAD, confirmed_at_ms=decided)

    def leave(self, at: Array) -> None:
        """Drop the members in the rows ``at``, because another finding or incident reports them from now on."""
        left = at[np.isin(self.members.rows["state"][at], np.array(OPEN, np.uint8))]
        if len(left) and self.stands:
            self.ended[str(Resolution.EXPLAINED)] += len(left)
            self.members.rows["resolution"][left] = RESOLUTIONS.index(Resolution.EXPLAINED)
        self.let_go(at)
        self._tally = None

    def judged(self, page: Page, outcomes: Sequence[MemberOutcome], asked_ms: int, soon: float) -> Left:
        """Record what a probe has shown of a page's members.

        Args:
            page: the page that was asked about.
            outcomes: for each member of the page what the probe has shown.
            asked_ms: when the page was asked about, milliseconds since 1970 UTC.
            soon: when to ask about a sample again if one of its members needs a second probe in a row; seconds of the
                monotonic clock.

        Returns:
            What the caller has to do about members that the incident no longer counts.
        """
        rows, located = self.members.rows, self.located(page).tolist()
        left, anew = Left([], [], []), []
        changed = False
        self._fit(page, located, outcomes)
        self._note_counts(located, outcomes)
        if page.is_sample and any(_is_asked_once_more(outcome) for outcome in outcomes):
            asked = np.array([row for row in located if row >= 0][:1], np.int64)
            self.sampled.subtract(dict.fromkeys(self.classes(asked).tolist(), len(page.claims)))
            self.due = min(self.due, soon)
        for i, original, outcome in zip(located, page.originals, outcomes, strict=True):
            if i < 0 or not _says_something(rows["state"][i], outcome):
                continue
            was_counted, is_wrong = rows["state"][i] in OPEN, outcome.state in OPEN
            if was_counted and not is_wrong:
                left.over.append(self.claim(i))
                left.on_others.extend(outcome.left)
            changed |= was_counted != is_wrong
            self._tell(rows["state"][i], outcome)
            rows["state"][i], rows["asked_ms"][i] = outcome.state, asked_ms
            rows["resolution"][i] = RESOLUTIONS.index(outcome.resolution)
            rows["again"][i] |= is_wrong
            if outcome.state is State.EXPLAINED:
                left.explained.append(original)
            if outcome.proof is not None and is_wrong:
                changed |= self.see(i, outcome)
                anew += self._told_anew(i, original, outcome.proof, outcome.state)
        for claim, state in anew:
            self.members.add([claim], state, self.round, again=True, asked_ms=asked_ms)
        self.let_go(np.flatnonzero(self.members.are(State.EXPLAINED)))
        self._tally = None
        self.show([o.proof for o in outcomes if o.proof is not None], afresh=True)
        self.led = self.led.then(*(one.led for one in outcomes if one.state is not State.UNDECIDED))
        if changed and page.is_sample:
            self.round += 1  # What happened to some may have happened to all: ask about each.
        return left

    def _tell(self, before: int, outcome: MemberOutcome) -> None:
        """Count those that are not wrong any more, or wrong again."""
        was_wrong, is_wrong = before in OPEN, outcome.state in OPEN
        as_ended = str(Resolution.EXPLAINED if before == State.IN_PART else Resolution.HEALED)
        if was_wrong and not is_wrong:
            self.ended[outcome.resolution] += 1
        elif is_wrong and not was_wrong and self.ended[as_ended]:
            self.ended[as_ended] -= 1

    def _told_anew(self, at: int, original: Claim, proof: MemberProof, state: State) -> list[tuple[Claim, State]]:
        """Have a row say what a probe found: for a transaction, which record is wrong; all else as a new claim."""
        if self.group.is_of_transactions:
            self.members.tell(at, proof.claim)
        told = remembering(original, proof)
        is_other = told.recorded.lacks != original.recorded.lacks or _is_other(original, proof)
        return [(told, state)] if is_other else []

    def show(self, proofs: Sequence[MemberProof], *, afresh: bool = False) -> None:
        """Keep a few proofs as examples for the incident's events (``proofs``).

        It also notes who led (``led``), and which brokers show the same as the accused by any of the given proofs
        (``beside``).

        Args:
            proofs: the newest proofs; if empty, nothing changes.
            afresh: whether to drop the examples that were kept until now. If False, they come first.
        """
        if proofs:
            self.beside = self.beside.union(*(beside(p.claim, p.decision, p.answers) for p in proofs))
            self.proofs = [*([] if afresh else self.proofs), *proofs][:PROOFS]
            self.led = self.led.then(*(WhoLed.at(proof.answers) for proof in proofs))


def state_of(event: Finding) -> State:
    """Return the state of a member by an event that is not over: its own, or the incident's."""
    if has_spread(event):
        return State.SPREAD
    return State.UNSETTLED if is_unsettled(event) else State.WRONG


def _is_asked_once_more(outcome: MemberOutcome) -> bool:
    """Whether a probe has shown of a member what only a second probe in a row decides."""
    return outcome.state is State.UNDECIDED and (outcome.counts.gone > 0 or outcome.counts.agreed == 1)


def _says_something(state: int, outcome: MemberOutcome) -> bool:
    """Whether a look changes what is known of a row; one that is over is wrong again only where that is seen."""
    is_seen = outcome.state not in _NOT_SEEN
    return outcome.state is not State.UNDECIDED and (is_seen or state != State.OVER)


def _may_be_explained(rows: Array, one: Claim) -> Array:
    """Return a mask of the rows that a claim may explain: all that it does explain, and others."""
    if one.kind not in TRANSACTION_KINDS:
        return _are_of_key(rows, (one.key_hash_hi, one.key_hash_lo))
    about: Array = (rows["producer_id"] == one.producer_id) & (rows["offset"] >= one.transaction_start_offset)
    for key in (*([] if one.key is None else [one.key]), *map(hash_halves, one.recorded.keys)):
        about |= _are_of_key(rows, key)
    return about if one.marker_offset < 0 else about & (rows["offset"] < one.marker_offset)


def _are_of_key(rows: Array, key: tuple[int, int]) -> Array:
    mask: Array = (rows["key_hash_hi"] == key[0]) & (rows["key_hash_lo"] == key[1])
    return mask


def _is_other(claim: Claim, proof: MemberProof) -> bool:
    """Whether more must be remembered of a member than before; for one of an earlier version nothing was."""
    before = claim.recorded.differed
    return proof.decision.accused == NOBODY and (before is None or differs_anew(before, proof.answers))


def remembering(claim: Claim, proof: MemberProof) -> Claim:
    """Return a proven member's claim, completed by what later probes of the member need.

    For a transaction they need the end marker, which record is wrong, and which value the accused lacks for it. If
    nobody is accused, they need to know which replica shows what. A single finding keeps the same in its evidence.

    Args:
        claim: the claim of the member's suspect.
        proof: what a probe has proven.
    """
    if claim.kind in TRANSACTION_KINDS:
        shown = proof.claim
        high, low = shown.key_hash_hi, shown.key_hash_lo
        recorded = replace(claim.recorded, lacks=shown.recorded.lacks)
        claim = replace(claim, offset=shown.offset, key_hash_hi=high, key_hash_lo=low, recorded=recorded)
        claim = replace(claim, recorded=remembered(claim, proof.decision, proof.answers))
    if proof.decision.accused != NOBODY:
        return claim
    recorded = replace(claim.recorded, differed=differed(claim, proof.answers))
    if len(proof.decision.sides) > len(recorded.sides):
        recorded = replace(recorded, sides=dict(proof.decision.sides), pivot=claim.pivot)
    return replace(claim, recorded=recorded)
