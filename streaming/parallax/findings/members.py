"""Holds the members of a group, up to hundreds of thousands of claims, as rows of an array.

The members of a group are claims of one kind about one replica. They differ in little but key, transaction and offset,
so rows take far less memory than Python objects. When a page of members is to be probed, its rows are made into claims.
These claims are dropped once their answers have been judged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import Resolution
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule, TopicPartition, hash_halves

Array = np.ndarray[Any, Any]


class MemberGroup(NamedTuple):
    """What all members of a group have in common: partition, accused replica, and what is wrong there.

    Attributes:
        place: the partition.
        broker: the accused; `parallax.model.NOBODY` for differences without direction.
        kind: what is wrong.
        rule: the rule that is broken. For a difference without direction it says what the members are about: keys
            (`Rule.LATEST_VALUE`) or transactions (`Rule.OUTCOME`).
    """

    place: TopicPartition
    broker: int
    kind: FindingKind
    rule: Rule

    @property
    def is_of_transactions(self) -> bool:
        """Whether the members are about transactions; else each is about a record or its key."""
        return self.rule is Rule.OUTCOME

    def accuses_as(self, other: MemberGroup) -> bool:
        """Whether two groups accuse the same replica, or one of them accuses nobody."""
        return self.broker == other.broker or NOBODY in (self.broker, other.broker)


class State(IntEnum):
    """What probes have found about one member of a group, e.g. that it is undecided, proven or over."""

    NEW = 0
    """No probe has asked about it yet."""
    UNDECIDED = 1
    """The last probe that asked about it could not decide it."""
    EXPLAINED = 2
    """A finding on a transaction is its cause, and reports it."""
    WRONG = 3
    """It is proven."""
    SPREAD = 4
    """It is proven, and all replicas are wrong in the same way."""
    OVER = 5
    """It was proven, and is not wrong any more."""
    UNSETTLED = 6
    """It was proven. The replicas agree now, and nothing proves that they agree on what is right."""
    SHOWN = 7
    """It was over when it was found: recorded answers prove it, and no replica shows it any more."""
    ALONE = 8
    """It leaves the group, to be probed by itself."""
    IN_PART = 9
    """It was proven, and findings explain a part of it. The other part may still be wrong once they have ended."""
    LEFT = 10
    """It left the group, because something else has it: another group, or a finding of its own."""
    DOUBTFUL = 11
    """It was proven before an election. Since then all replicas show too little to say whether it is still true."""


OPEN = (State.WRONG, State.SPREAD, State.UNSETTLED, State.DOUBTFUL)
"""The states of the members that an incident counts."""
WAITING = (State.NEW, State.UNDECIDED)
"""The states of suspects that no probe has decided."""

_KINDS, _RULES = list(FindingKind), list(Rule)

MEMBER = np.dtype(
    [
        ("suspect", "S32"),
        ("kind", "u1"),
        ("rule", "u1"),
        ("broker", "i4"),
        ("pivot", "i4"),
        ("offset", "i8"),
        ("producer_id", "i8"),
        ("transaction_start_offset", "i8"),
        ("marker_offset", "i8"),
        ("key_hash_hi", "i8"),
        ("key_hash_lo", "i8"),
        ("raised_at_ms", "i8"),
        ("state", "u1"),
        ("round", "u4"),
        ("lone", "u1"),
        ("gone", "u1"),
        ("agreed", "u1"),
        ("proven", "u4"),
        ("doubtful", "u1"),
        ("freed", "?"),
        ("again", "?"),
        ("asked_ms", "i8"),
        ("resolution", "u1"),
        ("written", "u1"),
        ("meets", "u2"),
    ]
)
"""The columns of a member: its claim, and what probes have shown of it.

``round`` is the number of the round that last asked about it. ``lone``, ``gone``, ``agreed``, ``proven`` and
``doubtful`` are its `Counts`. ``again`` says whether a probe of this process has proven it. ``asked_ms`` is when the
replicas were asked for its state, milliseconds since 1970 UTC. ``resolution`` says why it is not wrong any more, as an
index into `RESOLUTIONS`. ``written`` is its state in the table ``members``, plus 1; 0 if it is not there. ``meets``
says on which brokers consumers meet it, as noted by `Members.see`; 0 where no probe of this process has shown it.
"""
RESOLUTIONS = ("", *map(str, Resolution))


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One row of the table ``members``: what is known of one claim of a group. The last row of a `key` counts.

    The table has what neither the table ``suspects`` nor an event of ``findings`` says: the verdict on each member, and
    claims that the comparison did not raise.

    Attributes:
        group: the group.
        is_proven: whether it is a proven member of the group; else it waits there for a verdict, or did.
        claim: the claim of its suspect, with what later probes need.
        state: what is known of it. A suspect in `State.OVER` was dismissed.
        asked_ms: when the replicas were asked for that, milliseconds since 1970 UTC.
        resolution: why it is not wrong any more, a `Resolution`; empty if it is, or never was.
    """

    group: MemberGroup
    is_proven: bool
    claim: Claim
    state: State
    asked_ms: int
    resolution: str = ""

    @property
    def key(self) -> tuple[MemberGroup, bool, str]:
        """What identifies the member: its group, whether it is proven there, and its suspect id."""
        return self.group, self.is_proven, self.claim.suspect_id

    @property
    def is_decided(self) -> bool:
        """Whether its suspect has a verdict by this row. Then a start does not ask about the suspect."""
        return self.state not in (State.NEW, State.ALONE, State.LEFT)


class Counts(NamedTuple):
    """What the probes of one claim have counted, where one probe alone does not decide.

    Attributes:
        lone: how many probes found that the proof rests on a single witness (`Decision.lone_witness`).
        gone: how many probes in a row found that the claim's topic, partition or replica no longer exists.
        agreed: how many probes in a row have confirmed what ``proven`` says.
        proven: a checksum of what the last probe confirmed; 0 if it confirmed nothing.
        doubtful: how many probes in a row have decided nothing of a finding since an election, by all replicas.
    """

    lone: int = 0
    gone: int = 0
    agreed: int = 0
    proven: int = 0
    doubtful: int = 0


NO_COUNTS = Counts()
"""The counts of a claim that was not probed yet."""
_OTHERWISE = 255
"""``written`` of a member of which the table ``members`` says something else by now."""
_FRESH = 4096
"""At most so many claims are kept as objects until rows are made of them."""
_NUMBERS = (
    "broker",
    "offset",
    "producer_id",
    "transaction_start_offset",
    "marker_offset",
    "key_hash_hi",
    "key_hash_lo",
    "raised_at_ms",
    "freed",
)


class Members:
    """The members of one group as rows: each is a claim about the partition, with a suspect id of its own.

    Args:
        place: the partition.
    """

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self._rows: Array = np.empty(0, MEMBER)
        self._recorded: Any = pa.array([], pa.string())
        self._further: Any = _further_of([])
        self._by_further: tuple[Array, Array] | None = None
        self._order: Array | None = None
        self._by_key: Array | None = None
        self._keys: tuple[Array, Array] = self._rows["key_hash_hi"], self._rows["key_hash_lo"]
        self._sorted: Array = self._rows["suspect"]
        self._fresh: dict[str, tuple[Claim, State, int, bool, int, int]] = {}
        self._meeting: dict[frozenset[int], int] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self,
        claims: Sequence[Claim],
        state: State = State.NEW,
        round_: int = 0,
        *,
        again: bool = False,
        asked_ms: int = 0,
        written: int = 0,
    ) -> None:
        """Add claims as members. A claim replaces the member with the same suspect id, if there is one.

        Args:
            claims: the claims.
            state: the state of all of them.
            round_: number of the round that last asked about them; 0: none did.
            again: whether a probe of this process has proven them.
            asked_ms: when the replicas were asked for their state, milliseconds since 1970 UTC.
            written: their state in the table ``members``, plus 1; 0 if they are not there.
        """
        self._fresh |= {claim.suspect_id: (claim, state, round_, again, asked_ms, written) for claim in claims}
        if len(self._fresh) >= _FRESH:
            self._take_in()

    def see(self, at: int, brokers: frozenset[int], silent: frozenset[int] = frozenset()) -> bool:
        """Note on which brokers consumers meet a member, by a look at its replicas.

        Args:
            at: the member's row.
            brokers: on these, if they lead.
            silent: those that did not answer. They show what they showed before.

        Returns:
            Whether an earlier look of this process had shown otherwise.
        """
        known = self.rows["meets"][at]
        if silent:
            brokers |= silent & self._sets[known]
        now = self._meeting.setdefault(brokers, len(self._meeting) + 1)
        self.rows["meets"][at] = now
        return bool(known not in (0, now))

    @property
    def _sets(self) -> list[frozenset[int]]:
        return [frozenset(), *self._meeting]

    def meeting(self, which: Array) -> tuple[frozenset[int], bool]:
        """Return on which brokers consumers meet some member, and whether this process has looked at all of them.

        Args:
            which: the members, a mask over all rows.
        """
        found, sets = np.unique(self.rows["meets"][which]).tolist(), self._sets
        return frozenset().union(*(sets[one] for one in found)), 0 not in found

    def unwritten(self) -> tuple[Array, Array]:
        """Return the rows of which the table ``members`` says something else, or nothing; and the state that it lacks.

        That is `State.NEW` for every suspect that waits. Such a suspect is left out if the comparison raised it as it
        is. Then the table ``suspects`` has it.
        """
        rows, waits = self.rows, self.are(*WAITING)
        states = np.where(waits, State.NEW, rows["state"])
        is_raised = waits & (rows["written"] == 0) & ~rows["freed"]
        at = np.flatnonzero((rows["written"] != states + 1) & ~is_raised)
        return at, states[at]

    @property
    def rows(self) -> Array:
        """The members as a structured array (`MEMBER`), one row each; ``suspect`` must not be changed."""
        if self._fresh:
            self._take_in()
        return self._rows

    def _take_in(self) -> None:
        """Make rows of what was added, many at a time, because each time copies all."""
        added, self._fresh = list(self._fresh.values()), {}
        claims = [claim for claim, *_ in added]
        rows = np.zeros(len(claims), MEMBER)
        rows["suspect"] = [claim.suspect_id for claim in claims]
        rows["kind"] = [_KINDS.index(claim.kind) for claim in claims]
        rows["rule"] = [_RULES.index(claim.rule) for claim in claims]
        for name in _NUMBERS:
            rows[name] = [getattr(claim, name) for claim in claims]
        rows["pivot"] = [claim.recorded.pivot for claim in claims]
        for at, name in enumerate(("state", "round", "again", "asked_ms", "written"), start=1):
            rows[name] = [one[at] for one in added]
        known = self.locate(rows["suspect"])
        if (is_known := known >= 0).any():
            rows["meets"][is_known] = self._rows["meets"][known[is_known]]
            was_written = self._rows["written"][known[is_known]] > 0
            rows["written"][is_known] = np.where(was_written, _OTHERWISE, rows["written"][is_known])
            self.drop(known[is_known])
        recorded = pa.array(map(_text, claims), pa.string())
        further = [self._further, _further_of(claims)]
        self._put(np.concatenate([self._rows, rows]), [self._recorded, recorded], further)

    def drop(self, at: Array) -> None:
        """Remove the members in the rows ``at``."""
        if len(at):
            stays = np.ones(len(self.rows), np.bool_)
            stays[at] = False
            mask = pa.array(stays)
            self._put(self.rows[stays], [self._recorded.filter(mask)], [self._further.filter(mask)])

    def _put(self, rows: Array, recorded: Sequence[Any], further: Sequence[Any]) -> None:
        self._rows, self._recorded, self._further = rows, pa.concat_arrays(recorded), pa.concat_arrays(further)
        self._order = self._by_key = self._by_further = None

    def locate(self, suspects: Array) -> Array:
        """Return, for an array of suspect ids (``S32``), the row of each; -1 for an unknown one."""
        if not len(self.rows):
            return np.full(len(suspects), -1)
        if self._order is None:
            self._order = np.argsort(self.rows["suspect"], kind="stable")
            self._sorted = self.rows["suspect"][self._order]
        after = np.minimum(np.searchsorted(self._sorted, suspects), len(self.rows) - 1)
        found: Array = np.where(self._sorted[after] == suspects, self._order[after], -1)
        return found

    def find(self, suspect_id: str) -> int:
        """Return the row of one suspect id; -1 for an unknown one."""
        return int(self.locate(np.array([suspect_id], "S32"))[0])

    @property
    def pivots(self) -> Array:
        """For each row, the broker that a probe asks last: the accused, or without one the claim's pivot."""
        return np.where(self.rows["broker"] == NOBODY, self.rows["pivot"], self.rows["broker"])

    def are(self, *states: State) -> Array:
        """Return a mask over all rows: True where the member is in one of the given states."""
        return np.isin(self.rows["state"], np.array(states, np.uint8))

    def offsets_of(self, key: tuple[int, int], state: State) -> list[int]:
        """Return the offsets of the members that are about one key and in one state.

        Args:
            key: the two halves of the key's hash.
            state: the state.
        """
        offsets: list[int] = self.rows["offset"][self.of_key(key, state)].tolist()
        return offsets

    def of_key(self, key: tuple[int, int], *states: State) -> Array:
        """Return the rows of members in the given states that are about one key.

        Args:
            key: the two halves of the key's hash.
            states: the states.
        """
        at = self._about(key)
        return at[np.isin(self.rows["state"][at], np.array(states, np.uint8))]

    def _about(self, key: tuple[int, int]) -> Array:
        """The rows about a key."""
        rows = self.rows
        if self._by_key is None:
            self._by_key = np.lexsort((rows["key_hash_lo"], rows["key_hash_hi"]))
            self._keys = rows["key_hash_hi"][self._by_key], rows["key_hash_lo"][self._by_key]
        at = slice(0, len(rows))
        for half, column in zip(key, self._keys, strict=True):
            first, end = (int(np.searchsorted(column[at], half, side)) for side in ("left", "right"))
            at = slice(at.start + first, at.start + end)
        return self._by_key[at]

    def having_written(self, key: tuple[int, int]) -> Array:
        """Return the rows of transactions that may have written a key, although their rows name another one.

        Only the high half of the key's hash is compared. So some of them may not have written the key.

        Args:
            key: the two halves of the key's hash.
        """
        if self._fresh:
            self._take_in()
        if self._by_further is None:
            high = self._further.flatten().to_numpy()
            order = np.argsort(high, kind="stable")
            self._by_further = high[order], pc.list_parent_indices(self._further).to_numpy()[order]
        high, at = self._by_further
        first, end = np.searchsorted(high, key[0]), np.searchsorted(high, key[0], side="right")
        found: Array = at[first:end]
        return found

    def counts(self, group: MemberGroup, one: AboutFields) -> bool:
        """Whether an incident counts a member about the same key or transaction as a given claim or finding.

        Args:
            group: the group of these members.
            one: the claim or finding.
        """
        rows = self.rows
        if not group.is_of_transactions:
            rows = rows[self._about((one.key_hash_hi, one.key_hash_lo))]
        rows = rows[np.isin(rows["state"], np.array(OPEN, np.uint8))]
        wanted = divergence(group, one)
        same = [column == value for column, value in zip(_divergences(group, rows), wanted, strict=True)]
        return bool(np.logical_and.reduce(same).any())

    def of_transaction(self, producer_id: int, start: int, *states: State) -> Array:
        """Return the rows of members in the given states that are about one transaction.

        Args:
            producer_id: the transaction's producer.
            start: its first offset.
            states: the states.
        """
        rows = self.rows
        at: Array = np.flatnonzero(rows["transaction_start_offset"] == start)
        if not len(at):
            return at
        is_so = np.isin(rows["state"][at], np.array(states, np.uint8))
        return at[is_so & (rows["producer_id"][at] == producer_id)]

    def tell(self, at: int, claim: Claim) -> None:
        """Change which record a member about a transaction names, by offset and key.

        A probe has proven that another record of the transaction is shown wrongly.

        Args:
            at: the member's row.
            claim: the claim about that other record.
        """
        for name in ("offset", "key_hash_hi", "key_hash_lo"):
            if self.rows[name][at] != getattr(claim, name):
                self.rows[name][at] = getattr(claim, name)
                self.rows["written"][at], self._by_key = _OTHERWISE, None

    def claim(self, at: int) -> Claim:
        """Return the claim of the member in row ``at``."""
        row = self.rows[at]
        return Claim(
            suspect_id=row["suspect"].decode(),
            rule=_RULES[row["rule"]],
            kind=_KINDS[row["kind"]],
            topic=self.place.topic,
            partition=self.place.partition,
            broker=int(row["broker"]),
            offset=int(row["offset"]),
            producer_id=int(row["producer_id"]),
            transaction_start_offset=int(row["transaction_start_offset"]),
            marker_offset=int(row["marker_offset"]),
            key_hash_hi=int(row["key_hash_hi"]),
            key_hash_lo=int(row["key_hash_lo"]),
            recorded=_recorded_of(self._recorded[at].as_py(), int(row["pivot"])),
            raised_at_ms=int(row["raised_at_ms"]),
            freed=bool(row["freed"]),
        )

    def claims(self, at: Array) -> list[Claim]:
        """Return the claims of the members in the rows ``at``, in that order."""
        return [self.claim(int(row)) for row in at]


def _further_of(claims: Sequence[Claim]) -> Any:
    """Return the high halves of the further keys of each claim."""
    keys = ([hash_halves(key)[0] for key in claim.recorded.keys] for claim in claims)
    return pa.array(keys, pa.list_(pa.int64()))


def _text(claim: Claim) -> str:
    """Return what was recorded of the replicas, as JSON; empty where nothing was, as of most."""
    if claim.recorded == RecordedByViews(pivot=claim.recorded.pivot):
        return ""
    return json.dumps(claim.recorded.in_brief(), separators=(",", ":"))


def _recorded_of(text: str, pivot: int) -> RecordedByViews:
    return replace(RecordedByViews.parse(text), pivot=pivot) if text else RecordedByViews(pivot=pivot)


class AboutFields(Protocol):
    """The fields by which claims and findings say which record, key or transaction they are about."""

    @property
    def offset(self) -> int:
        """The offset of the record that the claim or finding is about."""

    @property
    def producer_id(self) -> int:
        """The producer of the transaction; -1 if there is none."""

    @property
    def transaction_start_offset(self) -> int:
        """The offset at which the transaction begins."""

    @property
    def marker_offset(self) -> int:
        """The offset of the transaction's end marker, if that is known."""

    @property
    def key_hash_hi(self) -> int:
        """High half of the key's hash."""

    @property
    def key_hash_lo(self) -> int:
        """Low half of the key's hash."""


def _divergences(group: MemberGroup, rows: Array | Mapping[str, Array]) -> list[Array]:
    """Return columns that distinguish what is counted: keys, else records without one; or transactions.

    A transaction is identified by its end marker, because there are several claims on it if its records were not known
    to belong together. Without a marker, or if it is not proven to have ended this one, it is identified by its start.
    """
    if not group.is_of_transactions:
        high, low = rows["key_hash_hi"], rows["key_hash_lo"]
        return [high, low, np.where((high != 0) | (low != 0), UNKNOWN, rows["offset"])]
    by_end = (rows["marker_offset"] >= 0) & (group.kind in TRANSACTION_KINDS)
    end, start = rows["marker_offset"], rows["transaction_start_offset"]
    return [rows["producer_id"], np.where(by_end, end, UNKNOWN), np.where(by_end, UNKNOWN, start)]


_TELLING = ("offset", "producer_id", "transaction_start_offset", "marker_offset", "key_hash_hi", "key_hash_lo")


def divergence(group: MemberGroup, one: AboutFields) -> tuple[int, ...]:
    """Return numbers that identify the key or transaction that a claim or finding is about.

    In one group, equal numbers mean the same key or transaction.

    Args:
        group: the group of the claim or finding; it need not be a member.
        one: the claim or finding.
    """
    row = {name: np.array([getattr(one, name)]) for name in _TELLING}
    return tuple(int(column[0]) for column in _divergences(group, row))


def count(group: MemberGroup, rows: Array) -> int:
    """Return how many different keys, records without a key, or transactions the given rows are about."""
    if not len(rows):
        return 0
    columns = _divergences(group, rows)
    order = np.lexsort(columns)
    new = np.zeros(len(rows) - 1, np.bool_)
    for column in columns:
        new |= np.diff(column[order]) != 0
    return 1 + int(new.sum())
