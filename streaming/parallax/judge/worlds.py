"""Lists the worlds of one key at one isolation level: every possible truth that the evidence leaves open.

A world is one choice of what the evidence leaves open, and says which replicas are wrong if it is true. A `Component`
contains only what this depends on. It replaces offsets, epochs and values by their ranks. So keys with a similar
history have the same component, and so has a key that is judged again. The worlds of each component are computed once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import lru_cache
from itertools import product
from math import prod
from operator import attrgetter
from typing import NamedTuple

from parallax.evidence.atoms import End, Place
from parallax.judge.verdicts import World
from parallax.model import UNKNOWN

MOST_WORLDS = 4096
"""A key with more choices is not judged: it stays unknown."""
REMEMBERED = 1 << 14
"""For how many components the worlds are kept in memory: for those that were used last."""


class _State(Enum):
    """How a consumer of one replica fares, in one world."""

    RIGHT = auto()
    WRONG = auto()
    UNSAID = auto()


class Record(NamedTuple):
    """A record of the judged key that is surely in the current log.

    Attributes:
        place: where it lies.
        value: its value, as a number; None for a tombstone.
        end: how its transaction ended; COMMIT for a record of no transaction. If the evidence leaves it open: an index
            into `Component.options`.
    """

    place: Place
    value: int | None
    end: End | int


class Doubted(NamedTuple):
    """A record of the judged key that may or may not be in the current log.

    Attributes:
        place: where it lies.
        value: its value, as a number; None for a tombstone.
        choices: the ways in which its transaction may have ended; None means that it is not in the current log.
    """

    place: Place
    value: int | None
    choices: tuple[End | None, ...]


class ShownRecord(NamedTuple):
    """A record of the judged key as one replica shows it.

    Attributes:
        place: where it lies.
        value: its value, as a number; None for a tombstone.
        transactional: whether it is part of a transaction.
        outcome: the outcome that the replica gives read_committed consumers; None: it gives none, or the record is of
            no transaction.
    """

    place: Place
    value: int | None
    transactional: bool
    outcome: End | None


class ShownRecords(NamedTuple):
    """All records of the judged key that one replica shows its consumers.

    Attributes:
        broker: the broker whose replica it is.
        bound: the offset up to which its consumers are shown records: its LSO, or its high watermark.
        records: the records of the key below ``bound``, newest first.
        lost_below: the offset below which the replica has lost the head of its log; `UNKNOWN` if it has lost nothing.
    """

    broker: int
    bound: int
    records: tuple[ShownRecord, ...]
    lost_below: int


class Component(NamedTuple):
    """All that the possible truths of one key at one isolation level depend on.

    Offsets and epochs are ranks: 0 for the lowest one, 1 for the next, and so on.

    Attributes:
        is_committed: whether the isolation level is read_committed.
        records: the key's records of the current log, by ascending offset.
        options: for each group of records whose end is open, how it may have ended.
        doubted: the key's records that perhaps are of the current log.
        gaps: the first offset of each range where an unseen deletion of the key would change who is wrong.
        shown: what each replica shows.
        full: the offset up to which cleaners may have come, at most.
        start: the offset below which records may have been deleted by retention or on request; 0: none may.
    """

    is_committed: bool
    records: tuple[Record, ...]
    options: tuple[tuple[End, ...], ...]
    doubted: tuple[Doubted, ...]
    gaps: tuple[int, ...]
    shown: tuple[ShownRecords, ...]
    full: int
    start: int


class Worlds(NamedTuple):
    """The worlds (possible truths) of one key at one isolation level.

    Attributes:
        distinct: the worlds without repetition; empty if every choice puts two records at one offset.
        choices: how many choices lead to a world.
        explained: whether wrong outcomes alone explain who is wrong. They do if, in each world without an unseen
            deletion, every wrong broker shows some record of the key with another outcome than the record has in that
            world.
    """

    distinct: tuple[World, ...]
    choices: int
    explained: bool


@lru_cache(maxsize=REMEMBERED)
def worlds_of(component: Component) -> Worlds | None:
    """List all worlds (possible truths) of the key in ``component``; None if they are more than `MOST_WORLDS`."""
    c = component
    doubted = [one.choices for one in c.doubted]
    choices: list[tuple[object, ...]] = [*c.options, *doubted, *([(False, True)] * len(c.gaps))]
    if prod(map(len, choices)) > MOST_WORLDS:
        return None
    worlds, count, explained = dict[World, None](), 0, True
    for choice in product(*choices):
        one = _world(c, choice)
        if one is not None:
            world, by_outcome = one
            worlds[world] = None
            count += 1
            is_shown = not any(choice[len(choice) - len(c.gaps) :])
            explained = explained and (world.wrong <= by_outcome or not is_shown)
    return Worlds(tuple(worlds), count, explained)


class _Event(NamedTuple):
    """A record that a world shows to consumers, or a deletion in it that nobody was shown (not ``is_seen``)."""

    place: Place
    value: int | None
    is_committed: bool
    is_seen: bool


def _world(c: Component, choice: Sequence[object]) -> tuple[World, frozenset[int]] | None:
    """Who is wrong in one choice, and who shows a record with another outcome; None: this choice is impossible.

    An unseen deletion may as well have been a value that all replicas have lost. So the world does not call a replica
    right that shows nothing and would be right by that deletion alone.
    """
    ends, chosen, is_there = choice[: len(c.options)], choice[len(c.options) :], choice[len(choice) - len(c.gaps) :]
    doubted = {one.place: end for one, end in zip(c.doubted, chosen, strict=False) if end is not None}
    offsets = {place.offset for place in doubted}
    if len(offsets) < len(doubted) or any(record.place.offset in offsets for record in c.records):
        return None
    end_of: dict[Place, object] = dict(doubted)
    for record in c.records:
        end_of[record.place] = record.end if isinstance(record.end, End) else ends[record.end]
    events = sorted(_events(c, end_of, is_there), key=attrgetter("place"))
    at = [event.place.offset for event in events]
    wrong, by_outcome, unsaid = set(), set(), set()
    for one in c.shown:
        below = bisect_left(at, one.bound)
        best = events[below - 1] if below else None
        if _shows_another_outcome(c, one, end_of):
            by_outcome.add(one.broker)
        state = _state(c, one, best, end_of)
        is_later = any(event.is_committed and event.place.offset < c.full for event in events[below:])
        if state is _State.WRONG and not is_later:
            wrong.add(one.broker)
        elif state is not _State.RIGHT or one.bound < c.full:
            unsaid.add(one.broker)
    return World(frozenset(wrong), frozenset(unsaid)), frozenset(by_outcome)


def _events(c: Component, end_of: dict[Place, object], is_there: Sequence[object]) -> Iterator[_Event]:
    """What consumers are shown in a world."""
    for gap, is_deleted in zip(c.gaps, is_there, strict=True):
        if is_deleted:
            yield _Event(Place(gap, UNKNOWN), None, is_committed=True, is_seen=False)
    for place, value, _ in (*c.records, *c.doubted):
        end = end_of.get(place)
        if end is End.COMMIT or (end is End.OPEN and not c.is_committed):
            yield _Event(place, value, end is End.COMMIT, is_seen=True)


def _shows_another_outcome(c: Component, one: ShownRecords, end_of: dict[Place, object]) -> bool:
    """Whether a replica shows one of its records otherwise than a world ends it."""
    if not c.is_committed:
        return False
    for record in one.records:
        if record.transactional and record.outcome is not end_of.get(record.place, record.outcome):
            return True
        if record.outcome is not End.ABORT:
            return False
    return False


def _state(c: Component, one: ShownRecords, best: _Event | None, end_of: dict[Place, object]) -> _State:
    """How what a consumer of a replica ends with compares to the newest visible record of a world."""
    if c.is_committed:
        got = next((record for record in one.records if record.outcome is not End.ABORT), None)
    else:
        got = next((record for record in one.records if end_of.get(record.place) is not End.ABORT), None)
    is_deleted = best is None or best.value is None
    if got is not None and got.place.offset < c.start:
        return _State.UNSAID  # It may be deleted with what lies below the furthest log start.
    if got is not None and got.place not in end_of:
        # It is not of the current log. That the key is gone, or was written again, may be true all the same.
        is_alike = best is not None and (got.place.offset, got.value) == (best.place.offset, best.value)
        return _State.UNSAID if is_alike or (got.value is None and is_deleted) else _State.WRONG
    if got is None and one.lost_below != UNKNOWN and (best is None or best.place.offset < one.lost_below):
        return _State.UNSAID  # The head that it has lost is said of it, and no more.
    if not c.is_committed and _may_be_given(one, best, end_of):
        return _State.UNSAID
    if got is None:
        # Nobody has to know what lay below a log start, and a deletion that was not shown may have been a value.
        unsure = c.start > 0 if best is None else not best.is_seen
        return _State.UNSAID if unsure else _State.RIGHT if is_deleted else _State.WRONG
    is_same = best is not None and got.place == best.place
    return _State.RIGHT if is_same or (got.value is None and is_deleted) else _State.WRONG


def _may_be_given(one: ShownRecords, best: _Event | None, end_of: dict[Place, object]) -> bool:
    """Whether read_uncommitted consumers of a replica end with a record that was aborted.

    They may be given that, or not, as the cleaner has come by: only what is wrong in both cases is wrong.
    """
    newest = one.records[0] if one.records else None
    if newest is None or end_of.get(newest.place) is not End.ABORT:
        return False
    if best is None or newest.place.offset > best.place.offset:
        return True
    return newest.value is None and best.value is None
