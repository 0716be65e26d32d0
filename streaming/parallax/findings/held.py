"""Holds the members of one group, and chooses which of them the next probe asks about.

A group's members are suspects that wait for a verdict (`Waiting`), or members that were proven (`Proven`). They are
asked about in rounds, and a round goes page by page. Each round asks about each member once: a member's row has the
number of the last round that asked about it. Members that are added during a round are asked about in that round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from parallax.findings.claim import Claim, explains
from parallax.findings.effect import COVERED, COVERED_TOGETHER
from parallax.findings.incident import MemberProof
from parallax.findings.members import (
    NO_COUNTS,
    OPEN,
    RESOLUTIONS,
    Array,
    Counts,
    MemberGroup,
    MemberRow,
    Members,
    State,
)
from parallax.findings.who_led import NOT_KNOWN, WhoLed
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import hash_halves

PAGE = 4096
"""At most so many members are asked about by one probe."""
SAMPLE = 256
"""At most so many members of an incident are asked about again at each interval; members take turns."""
_DEAR_PAGE = 256
"""At most so many transactions are on one page, because the other records of each cost further requests."""
_MANY = 255
"""A member's count of probes ends here."""
NEVER = float("inf")
"""When nothing is due, in seconds of the monotonic clock."""
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

    is_proven: ClassVar[bool] = False
    """Whether the members are proven."""

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
        return MemberRow(self.group, self.is_proven, claim, state, int(row["asked_ms"]), resolution)

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
        counts = tuple(Counts(*row) for row in rows[list(Counts._fields)][at].tolist())
        return Page(number, self.group, self.is_proven, tuple(claims), tuple(originals), counts)

    def _note_counts(self, at: Sequence[int], outcomes: Sequence[MemberOutcome]) -> None:
        """Remember what the probes of each member of a page have counted."""
        rows = self.members.rows
        for row, outcome in zip(at, outcomes, strict=True):
            if row >= 0:
                for name, count in outcome.counts._asdict().items():
                    rows[name][row] = count if name == "proven" else min(count, _MANY)


def may_be_explained(rows: Array, one: Claim) -> Array:
    """Return a mask of the rows that a claim may explain: all that it does explain, and others.

    Args:
        rows: rows of members.
        one: the claim.
    """
    if one.kind not in TRANSACTION_KINDS:
        return _are_of_key(rows, (one.key_hash_hi, one.key_hash_lo))
    about: Array = (rows["producer_id"] == one.producer_id) & (rows["offset"] >= one.transaction_start_offset)
    for key in (*([] if one.key is None else [one.key]), *map(hash_halves, one.recorded.keys)):
        about |= _are_of_key(rows, key)
    return about if one.marker_offset < 0 else about & (rows["offset"] < one.marker_offset)


def _are_of_key(rows: Array, key: tuple[int, int]) -> Array:
    mask: Array = (rows["key_hash_hi"] == key[0]) & (rows["key_hash_lo"] == key[1])
    return mask


__all__ = ["NEVER", "NOT_PROBED", "PAGE", "SAMPLE", "HeldMembers", "Left", "MemberOutcome", "Page", "may_be_explained"]
