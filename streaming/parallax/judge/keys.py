"""The value of a key: which replicas show their consumers another one than every possible truth has."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import product
from math import prod

from parallax.evidence.atoms import End, Fact, Place
from parallax.evidence.room import Span
from parallax.judge.case import Case
from parallax.judge.transactions import Group
from parallax.judge.verdicts import NOBODY_ELSE, Proof, World
from parallax.model import IsolationLevel

MOST_WORLDS = 4096
"""A key with more choices is not judged: it stays unknown."""
UNSEEN = -2
"""The epoch of a deletion that nobody was shown."""


class _State(IntEnum):
    """What a consumer of one replica is, in one world."""

    RIGHT = 0
    WRONG = 1
    UNSAID = 2


@dataclass(frozen=True, slots=True)
class _Shown:
    """What one replica shows of the key at one isolation level: its records, newest first, below a bound."""

    broker: int
    bound: int
    records: tuple[Fact, ...]
    outcomes: tuple[End | None, ...]
    """As the replica shows each to read_committed consumers; None of one that is not transactional."""
    has_lost_its_head: bool
    log_start: int


@dataclass(frozen=True, slots=True)
class _Event:
    """A record that a world shows to consumers, or a deletion in it that nobody was shown."""

    place: Place
    value: Hashable
    is_committed: bool


@dataclass(frozen=True)
class Judged:
    """What all worlds of a key say at one isolation level.

    Attributes:
        proof: of who is wrong.
        explained: an outcome explains the difference. Without an unseen deletion, whoever is wrong in a world shows a
            record of the key otherwise than that world ends it.
        newest: the newest record of the key that stands, or perhaps does; -1: there is none.
    """

    proof: Proof
    explained: bool
    newest: int


def judge(
    case: Case, key: Hashable, facts: Sequence[Fact], doubted: Sequence[Fact], level: IsolationLevel
) -> Judged | None:
    """Hold what each replica shows of a key against all its worlds.

    A consumer that has read a replica to its end is to hold the value that the newest visible record below that end
    gives. A replica that is still behind is not wrong about a key that is written again further up: the cleaner of the
    log that it copies may have taken the record that it lacks.

    Args:
        case: the look.
        key: the key.
        facts: its records that stand, rising.
        doubted: those that perhaps do.
        level: of the consumers.

    Returns:
        None: there are too many worlds.
    """
    return _Key(case, key, facts, doubted, level).judged()


@dataclass
class _Key:
    case: Case
    key: Hashable
    facts: Sequence[Fact]
    doubted: Sequence[Fact]
    level: IsolationLevel
    shown: list[_Shown] = field(init=False)
    groups: list[Group] = field(init=False)
    choice_of: dict[int, int] = field(init=False)
    """By offset of a transactional record whose end is open, the number of its group's choice."""
    ends: dict[int, End] = field(init=False)
    """By offset of a record, how it ended where that is known; of a plain one, COMMIT."""

    def __post_init__(self) -> None:
        self.is_committed = self.level is IsolationLevel.READ_COMMITTED
        self.full = self.case.cleaned_to if self.is_committed else self.case.top
        self.groups, self.choice_of, self.ends = [], {}, {}
        numbers: dict[int, int] = {}
        for fact in self.facts:
            group = self.case.transactions.of.get(fact.offset) if fact.transactional else None
            if group is None or group.end is not None:
                self.ends[fact.offset] = End.COMMIT if group is None else group.end or End.OPEN
                continue
            if id(group) not in numbers:
                numbers[id(group)] = len(self.groups)
                self.groups.append(group)
            self.choice_of[fact.offset] = numbers[id(group)]
        self.shown = [self._shown(broker) for broker in sorted(self.case.looks)]

    def _shown(self, broker: int) -> _Shown:
        look = self.case.looks[broker]
        bound = look.last_stable if self.is_committed else look.high_watermark
        records = tuple(fact for fact in self.case.shown(broker).get(self.key, ()) if fact.offset < bound)
        head = self.case.ledger.head or 0
        return _Shown(
            broker,
            bound,
            records,
            tuple(look.outcomes.get(fact.place) if fact.transactional else None for fact in records),
            not self.case.partition.deletes and look.log_start > head,
            look.log_start,
        )

    def judged(self) -> Judged | None:
        gaps = self._gaps()
        choices: list[tuple[object, ...]] = [group.options for group in self.groups]
        choices += [
            (None, End.COMMIT, End.ABORT) if fact.transactional else (None, End.COMMIT) for fact in self.doubted
        ]
        choices += [(False, True)] * len(gaps)
        if prod(map(len, choices)) > MOST_WORLDS:
            return None
        worlds, explained = [], True
        for choice in product(*choices):
            one = self._world(choice, [start for start, _ in gaps])
            if one is not None:
                worlds.append(one[0])
                is_shown = not any(choice[len(choice) - len(gaps) :])
                explained = explained and (one[0].wrong <= one[1] or not is_shown)
        if not worlds:
            return None  # At every offset two logs perhaps stand.
        newest = max((fact.offset for fact in (*self.facts, *self.doubted)), default=-1)
        atoms = {fact.place for fact in (*self.facts, *self.doubted)}
        atoms |= {
            Place(g.end_marker, e) for g in self.groups if g.end_marker >= 0 for e in self.case.ledger.at[g.end_marker]
        }
        missing = [*gaps, *(span for group in self.groups for span in group.missing)]
        missing += [(fact.offset, fact.offset + 1) for fact in self.doubted]
        missing += [(one.bound, self.full) for one in self.shown if one.bound < self.full]
        missing += [(0, one.log_start) for one in self.shown if one.has_lost_its_head]
        missing += [(0, self.case.start)] if self.case.start else []
        return Judged(Proof.of(worlds, self.case.looks, atoms, missing), explained, newest)

    # -- where a deletion may be that nobody was shown -----------------------------------------------------------------

    def _gaps(self) -> list[Span]:
        """Where a deletion that nobody was shown would change who is wrong: its lowest offset, and where its room ends.

        Only the newest visible record below each replica's bound counts. So records and bounds cut the log into pieces,
        and within one it does not matter where the deletion is.
        """
        records = {fact.offset for fact in (*self.facts, *self.doubted)}
        bounds = {one.bound for one in self.shown}
        points = sorted({p for p in {*records, *(b - 1 for b in bounds), self.full - 1} if p >= 0})
        lowest = min((self._surely_shown(one) for one in self.shown), default=-1)
        surely_visible = [offset for offset, end in self.ends.items() if end is End.COMMIT]
        gaps, before = list[Span](), -1
        for point in points:
            end = point if point in records else point + 1  # A bound may itself be where something came and went.
            if point > lowest and self.case.room.between(before, end):
                first = before + 1
                if any(self._matters(first, bound, surely_visible) for bound in bounds):
                    gaps.append((first, end))
            before = point
        return gaps

    def _matters(self, offset: int, bound: int, surely_visible: Sequence[int]) -> bool:
        """Whether a deletion at an offset changes what a replica with such a bound is to show, or is judged by."""
        if offset < bound:
            return not any(offset < visible < bound for visible in surely_visible)
        return offset < self.full

    def _surely_shown(self, one: _Shown) -> int:
        """The newest record that a replica shows in every world; -1: none."""
        for fact, outcome in zip(one.records, one.outcomes, strict=True):
            if self.is_committed:
                if not fact.transactional or outcome is End.COMMIT:
                    return fact.offset
            elif not fact.transactional or self._never_aborted(fact):
                return fact.offset
        return -1

    def _never_aborted(self, fact: Fact) -> bool:
        group = self.case.transactions.of.get(fact.offset)
        return group is not None and End.ABORT not in group.options

    # -- one world -----------------------------------------------------------------------------------------------------

    def _world(self, choice: tuple[object, ...], gaps: Sequence[int]) -> tuple[World, frozenset[int]] | None:
        """One choice: who is wrong in it, and who of these by an outcome; None: it cannot be.

        An unseen deletion may as well have been a value that all have lost: of who shows nothing, and would be right by
        that deletion alone, the world does not say that it is.
        """
        ends = choice[: len(self.groups)]
        chosen = choice[len(self.groups) : len(choice) - len(gaps)]
        ghosts = [gap for gap, is_there in zip(gaps, choice[len(choice) - len(gaps) :], strict=True) if is_there]
        doubted = {fact.place: end for fact, end in zip(self.doubted, chosen, strict=True) if end is not None}
        if {place.offset for place in doubted} & {fact.offset for fact in self.facts}:
            return None
        if len({place.offset for place in doubted}) < len(doubted):
            return None
        end_of: dict[Place, object] = dict(doubted)
        for fact in self.facts:
            number = self.choice_of.get(fact.offset)
            end_of[fact.place] = self.ends[fact.offset] if number is None else ends[number]
        events = list(self._events(end_of, ghosts))
        offsets = [event.place.offset for event in events]
        wrong, by_outcome, unsaid = set(), set(), set()
        for one in self.shown:
            below = bisect_left(offsets, one.bound)
            best = events[below - 1] if below else None
            if self._shows_another_outcome(one, end_of):
                by_outcome.add(one.broker)
            state = self._state(one, best, end_of)
            is_later = any(event.is_committed and event.place.offset < self.full for event in events[below:])
            if state is _State.WRONG and not is_later:
                wrong.add(one.broker)
            elif state is not _State.RIGHT or one.bound < self.full:
                unsaid.add(one.broker)
        return World(frozenset(wrong), frozenset(unsaid)), frozenset(by_outcome)

    def _events(self, end_of: dict[Place, object], ghosts: Sequence[int]) -> Iterator[_Event]:
        """What consumers are shown in a world, in order."""
        found = [_Event(Place(ghost, UNSEEN), None, True) for ghost in ghosts]
        for fact in (*self.facts, *self.doubted):
            end = end_of.get(fact.place)
            if end is End.COMMIT or (end is End.OPEN and not self.is_committed):
                found.append(_Event(fact.place, fact.value, end is End.COMMIT))
        yield from sorted(found, key=lambda event: event.place)

    def _shows_another_outcome(self, one: _Shown, end_of: dict[Place, object]) -> bool:
        """Whether a replica shows one of its records otherwise than a world ends it."""
        if not self.is_committed:
            return False
        for fact, outcome in zip(one.records, one.outcomes, strict=True):
            if fact.transactional and outcome is not end_of.get(fact.place, outcome):
                return True
            if outcome is not End.ABORT:
                return False
        return False

    def _state(self, one: _Shown, best: _Event | None, end_of: dict[Place, object]) -> _State:
        """How a consumer of a replica stands to the newest visible record of a world."""
        if self.is_committed:
            got = next((f for f, end in zip(one.records, one.outcomes, strict=True) if end is not End.ABORT), None)
        else:
            got = next((f for f in one.records if end_of.get(f.place) is not End.ABORT), None)
        is_deleted = best is None or best.value is None
        if got is not None and got.offset < self.case.start:
            return _State.UNSAID  # It may be deleted with what lies below the furthest log start.
        if got is not None and got.place not in end_of:
            # It is not of the log that stands. That the key is gone, or was written again, may be true all the same.
            is_alike = best is not None and (got.offset, got.value) == (best.place.offset, best.value)
            return _State.UNSAID if is_alike or (got.value is None and is_deleted) else _State.WRONG
        if got is None and one.has_lost_its_head and (best is None or best.place.offset < one.log_start):
            return _State.UNSAID  # The head that it has lost is said of it, and no more.
        if not self.is_committed and self._may_be_given(one, best, end_of):
            return _State.UNSAID
        if got is None:
            # Nobody has to know what lay below a log start, and a deletion that was not shown may have been a value.
            unsure = self.case.start > 0 if best is None else best.place.epoch == UNSEEN
            return _State.UNSAID if unsure else _State.RIGHT if is_deleted else _State.WRONG
        is_same = best is not None and got.place == best.place
        return _State.RIGHT if is_same or (got.value is None and is_deleted) else _State.WRONG

    @staticmethod
    def _may_be_given(one: _Shown, best: _Event | None, end_of: dict[Place, object]) -> bool:
        """Whether read_uncommitted consumers of a replica end with a record that was aborted.

        They may be given that, or not, as the cleaner has come by: only what is wrong in both cases is wrong.
        """
        newest = one.records[0] if one.records else None
        if newest is None or end_of.get(newest.place) is not End.ABORT:
            return False
        is_above = newest.offset > (best.place.offset if best is not None else -1)
        return is_above or (newest.value is None and (best is None or best.value is None))


def both(committed: Judged | None, uncommitted: Judged | None) -> frozenset[int]:
    """The brokers that are right for consumers of both isolation levels."""
    if committed is None or uncommitted is None:
        return NOBODY_ELSE
    return committed.proof.right & uncommitted.proof.right
