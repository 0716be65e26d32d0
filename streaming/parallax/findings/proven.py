"""Proven members of one group, which an incident counts or comes to count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from parallax.counts import agreed
from parallax.findings.alike import beside
from parallax.findings.claim import Claim
from parallax.findings.decide import Resolution, differed, differs_anew
from parallax.findings.effect import remembered
from parallax.findings.finding import Finding, are_alike, has_spread, is_unsettled, meeting_of
from parallax.findings.held import NEVER, SAMPLE, HeldMembers, Left, MemberOutcome, Page
from parallax.findings.incident import PROOFS, MemberProof, Tally, counted, is_led, sampled, tally_of
from parallax.findings.members import (
    OPEN,
    RESOLUTIONS,
    Array,
    MemberRow,
    State,
    count,
)
from parallax.findings.summary import counted_in_words
from parallax.findings.who_led import NOT_KNOWN, WhoLed
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import NOBODY
from parallax.moments import milliseconds

_LOOKED_AT = (*OPEN, State.OVER, State.IN_PART)
_NOT_SEEN = (State.SPREAD, State.UNSETTLED, State.DOUBTFUL)
"""States in which the replicas' answers no longer show what was proven."""


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

    is_proven: ClassVar[bool] = True

    event: Finding | None = None
    since_ms: int = 0
    writing: bool = False
    retry_at: float = -NEVER
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
        return self.due if self.event is not None and self.members.are(*_LOOKED_AT).any() else NEVER

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
    if is_unsettled(event):
        return State.UNSETTLED if are_alike(event) else State.DOUBTFUL
    return State.WRONG


def _is_asked_once_more(outcome: MemberOutcome) -> bool:
    """Whether a probe has shown of a member what only a second probe in a row decides."""
    return outcome.state is State.UNDECIDED and (outcome.counts.gone > 0 or outcome.counts.agreed == 1)


def _says_something(state: int, outcome: MemberOutcome) -> bool:
    """Whether a look changes what is known of a row; one that is over is wrong again only where that is seen."""
    is_seen = outcome.state not in _NOT_SEEN
    return outcome.state is not State.UNDECIDED and (is_seen or state != State.OVER)


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


__all__ = ["Proven", "remembering", "state_of"]
