"""Decides which incident counts a proven member: the group of its kind and accused, and each transaction once.

A transaction that several groups may count counts where most is said about it. It does not count where it is a finding
by itself. A member that is counted elsewhere, or no more, frees the suspects that it had explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parallax.findings.claim import Claim
from parallax.findings.groups import Groups
from parallax.findings.held import MemberOutcome, Page
from parallax.findings.members import OPEN, Array, MemberGroup, State
from parallax.findings.proven import Proven, remembering
from parallax.kinds import tells_more
from parallax.model import NOBODY


class Counting:
    """Counts proven members in their groups.

    Args:
        groups: the groups.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._over: dict[str, list[Claim]] = {}

    def leave(self, claim: Claim, finding_id: str) -> None:
        """Stop counting a transaction that has a finding of its own. That says more about it.

        Args:
            claim: on the transaction.
            finding_id: the finding's id.
        """
        for proven, at in self._groups.counted(claim, finding_id, *OPEN, State.OVER):
            self._let_go(proven, at)

    def count(self, page: Page, outcomes: Sequence[MemberOutcome], asked_ms: int) -> None:
        """Count each proven member in its group, which follows from its kind and the replica that it accuses.

        Args:
            page: the members that were asked about.
            outcomes: for each of them what the probe has shown.
            asked_ms: when the probe was sent, milliseconds since 1970 UTC.
        """
        found: dict[tuple[MemberGroup, State], list[tuple[Claim, MemberOutcome]]] = {}
        for claim, outcome in zip(page.originals, outcomes, strict=True):
            is_known = outcome.state is not State.UNDECIDED
            if is_known and outcome.group is not None and outcome.proof is not None:
                told = replace(remembering(claim, outcome.proof), freed=claim.freed or page.is_proven)
                found.setdefault((outcome.group, outcome.state), []).append((told, outcome))
        for (group, state), part in found.items():
            proven = self._groups.proven_of(group)
            here = [(claim, one) for claim, one in part if self._is_counted_here(claim, group, state)]
            proven.add([claim for claim, _ in here], state, asked_ms, again=True)
            for claim, one in here if state in OPEN else ():
                proven.see(proven.members.find(claim.suspect_id), one)
            if state in OPEN:
                proven.show([o.proof for o in outcomes if o.group == group and o.proof is not None])

    def moved(
        self, proven: Proven, page: Page, outcomes: Sequence[MemberOutcome], asked_ms: int
    ) -> list[MemberOutcome]:
        """Count members of a page in the group that they are of by now. Of these, the returned outcomes are undecided.

        Args:
            proven: the group that has counted them so far.
            page: the members that were asked about.
            outcomes: for each of them what the probe has shown.
            asked_ms: when the probe was sent, milliseconds since 1970 UTC.
        """
        nothing = MemberOutcome(State.UNDECIDED)
        moves = [one.state in OPEN and one.group != page.group for one in outcomes]
        if any(moves):
            at = proven.located(page)[moves]
            self._let_go(proven, at[at >= 0])
            there = [one if is_other else nothing for one, is_other in zip(outcomes, moves, strict=True)]
            self.count(page, there, asked_ms)
            proven.round += page.is_sample  # What happened to some may have happened to all.
        return [nothing if is_other else one for one, is_other in zip(outcomes, moves, strict=True)]

    def counted_once(self, proven: Proven, page: Page, outcomes: Sequence[MemberOutcome]) -> list[MemberOutcome]:
        """Return the outcomes of a page. A member that another incident counts by now is over in this one.

        Args:
            proven: the group that counts the page's members.
            page: the members that were asked about.
            outcomes: for each of them what the probe has shown.
        """
        found = list(outcomes)
        for i, (at, claim) in enumerate(zip(proven.located(page).tolist(), page.originals, strict=True)):
            is_new = at >= 0 and proven.members.rows["state"][at] not in OPEN and found[i].state in OPEN
            if is_new and not self._is_counted_here(claim, page.group, found[i].state):
                found[i] = MemberOutcome(State.OVER)
        return found

    def _is_counted_here(self, claim: Claim, group: MemberGroup, state: State) -> bool:
        """Whether a proven transaction counts in a group: it counts once, where most is said about it."""
        if not group.is_of_transactions:
            return True
        states = (*OPEN, State.SHOWN) if state is State.SHOWN else OPEN
        others = [
            one
            for one in self._groups.counted(claim, claim.finding_id(self._groups.cluster_id), *states)
            if one[0].group != group
        ]
        if state is State.SHOWN:
            return not others
        there = [proven.group for proven, _ in others]
        if not all(tells_more(group.kind, group.broker, one.kind, one.broker) for one in there):
            return False
        for proven, at in others:
            self._let_go(proven, at)
        return True

    def _let_go(self, proven: Proven, at: Array) -> None:
        """Drop rows from what counted them, and suspect again what they explained."""
        left = [proven.claim(row) for row in at.tolist()]
        proven.leave(at)
        self.end(proven.group, left)

    def end(self, group: MemberGroup, over: Sequence[Claim]) -> None:
        """Suspect again what some members had explained that are not wrong any more, or are counted elsewhere.

        Args:
            group: the group that counted them.
            over: their claims.
        """
        event = self._groups.proven_of(group).event
        if not over or group.broker == NOBODY or event is None:
            return
        self._groups.free(group.place, over)
        self._over.setdefault(event.finding_id, []).extend(over)

    def over(self) -> dict[str, list[Claim]]:
        """Return by incident id the members that the incident has stopped counting since the last call, as claims.

        Suspects that such a member explained have to be judged again.
        """
        over, self._over = self._over, {}
        return over


__all__ = ["Counting"]
