"""Suspects of one group that wait for a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from parallax.backoff import backoff
from parallax.findings.claim import Claim
from parallax.findings.finding import Finding
from parallax.findings.held import NEVER, NOT_PROBED, HeldMembers, MemberOutcome, Page, may_be_explained
from parallax.findings.members import (
    OPEN,
    WAITING,
    Array,
    State,
)
from parallax.model import NOBODY

_WAIT_MAX_S = 60.0
"""After at most so long, undecided suspects are asked about again."""


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
        return self.due if self.members.are(State.UNDECIDED).any() else NEVER

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
        stays = np.logical_or.reduce([np.zeros(len(rows), np.bool_), *(may_be_explained(rows, c) for c in causes)])
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
            freed &= np.logical_or.reduce([may_be_explained(rows, one) for one in over])
        self._free(freed)

    def _free(self, which: Array) -> None:
        rows, at = self.members.rows, np.flatnonzero(which)
        rows["state"][at], rows["round"][at], rows["freed"][at] = State.NEW, 0, True


__all__ = ["Waiting"]
