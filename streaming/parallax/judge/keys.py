"""Judges the value of a key: which replicas show a value that is wrong in every possible truth."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from parallax.evidence.atoms import End, Fact, Place
from parallax.evidence.room import Span
from parallax.judge.case import Case
from parallax.judge.transactions import Group
from parallax.judge.verdicts import NOBODY_ELSE, Proof, World
from parallax.judge.worlds import Component, Doubted, Record, ShownRecord, ShownRecords, worlds_of
from parallax.model import UNKNOWN, IsolationLevel

_IF_IT_STANDS = {False: (None, End.COMMIT), True: (None, End.COMMIT, End.ABORT)}
"""By whether a record is transactional: how it may have ended, if it is perhaps of the current log.

None: it is not of that log.
"""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What one replica shows of the key at one isolation level: its records below a bound, newest first.

    The list ends with the newest record that the replica shows in every world: consumers get nothing older.
    """

    broker: int
    bound: int
    records: tuple[Fact, ...]
    outcomes: tuple[End | None, ...]
    """As the replica shows each to read_committed consumers; None of one that is not transactional."""
    surely: int
    """Offset of the newest record that it shows in every world; `UNKNOWN`: none."""
    lost_below: int
    """It has lost its head below this offset; `UNKNOWN`: it has not."""


@dataclass(frozen=True)
class Judged:
    """The result of judging one key at one isolation level.

    Attributes:
        proof: all worlds (possible truths) of the key, and who is wrong in them.
        explained: whether replicas differ only because one of them shows a wrong outcome of a transaction
            (`parallax.judge.worlds.Worlds`).
        newest: offset of the key's newest record that is, or perhaps is, of the current log; `UNKNOWN`: there is none.
    """

    proof: Proof
    explained: bool
    newest: int


def judge(
    case: Case, key: Hashable, facts: Sequence[Fact], doubted: Sequence[Fact], level: IsolationLevel
) -> Judged | None:
    """Judge what each replica shows of one key, by all worlds (possible truths) of that key.

    A consumer that has read a replica to its end should hold the value of the newest visible record below that end.

    A replica that is still behind is not wrong if the key is written again above its end. The cleaner of the replica
    that it copies may have removed the older record in favor of the newer one.

    Args:
        case: the partition to judge.
        key: the key.
        facts: the key's records of the current log, by ascending offset.
        doubted: the key's records that perhaps are of the current log.
        level: isolation level of the consumers.

    Returns:
        The result; None if there are more worlds than `MOST_WORLDS`, or none is possible.
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
    end_or_choice: dict[int, End | int] = field(init=False)
    """By offset of a record, how it ended, COMMIT of a plain one; where that is open, the number of its choice."""
    visible: list[int] = field(init=False)
    """Offsets of the records that are visible to all consumers in every world, rising."""

    def __post_init__(self) -> None:
        self.is_committed = self.level is IsolationLevel.READ_COMMITTED
        self.full = self.case.cleaned_to if self.is_committed else self.case.top
        self.groups, self.end_or_choice = [], {}
        numbers: dict[int, int] = {}
        for fact in self.facts:
            group = self.case.transactions.of.get(fact.offset) if fact.transactional else None
            if group is None or group.end is not None:
                self.end_or_choice[fact.offset] = End.COMMIT if group is None else group.end or End.OPEN
                continue
            if id(group) not in numbers:
                numbers[id(group)] = len(self.groups)
                self.groups.append(group)
            self.end_or_choice[fact.offset] = numbers[id(group)]
        self.visible = [offset for offset, end in self.end_or_choice.items() if end is End.COMMIT]
        telling = (broker for broker, look in self.case.looks.items() if look.tells_of(self.key))
        self.shown = [self._shown(broker) for broker in sorted(telling)]

    def _shown(self, broker: int) -> _Shown:
        look = self.case.looks[broker]
        bound = look.last_stable if self.is_committed else look.high_watermark
        every = (fact for fact in self.case.shown(broker).get(self.key, ()) if fact.offset < bound)
        records, outcomes, surely = list[Fact](), list[End | None](), UNKNOWN
        for fact in every:
            outcome = look.outcomes.get(fact.place) if fact.transactional else None
            records.append(fact)
            outcomes.append(outcome)
            if self._is_surely_shown(fact, outcome):
                surely = fact.offset
                break
        head = self.case.ledger.head
        has_lost_its_head = not self.case.partition.deletes and head is not None and look.log_start > head
        return _Shown(
            broker,
            bound,
            tuple(records),
            tuple(outcomes),
            surely,
            look.log_start if has_lost_its_head else UNKNOWN,
        )

    def judged(self) -> Judged | None:
        gaps = self._gaps()
        facts = self._that_matter()
        numbers = {end for fact in facts if not isinstance(end := self.end_or_choice[fact.offset], End)}
        worlds = worlds_of(self._component(facts, sorted(numbers), gaps))
        if worlds is None or not worlds.distinct:
            return None
        same = prod(len(group.options) for number, group in enumerate(self.groups) if number not in numbers)
        newest = max((fact.offset for fact in (*self.facts, *self.doubted)), default=UNKNOWN)
        atoms = {fact.place for fact in (*self.facts, *self.doubted)}
        atoms |= {
            Place(g.end_marker, e)
            for g in self.groups
            if g.end_marker != UNKNOWN
            for e in self.case.ledger.at[g.end_marker]
        }
        missing = [*gaps, *(span for group in self.groups for span in group.missing)]
        missing += [(fact.offset, fact.offset + 1) for fact in self.doubted]
        missing += [(one.bound, self.full) for one in self.shown if one.bound < self.full]
        missing += [(0, one.lost_below) for one in self.shown if one.lost_below != UNKNOWN]
        missing += [(0, self.case.start)] if self.case.start else []
        judged = [one.broker for one in self.shown]
        misled = frozenset(one.broker for one in self.shown if self._may_have_taken_a_value(one))
        distinct = [World(one.wrong, one.unsaid | (misled - one.wrong)) for one in worlds.distinct]
        proof = Proof.of(distinct, judged, atoms, missing, count=worlds.choices * same)
        return Judged(proof, worlds.explained, newest)

    def _may_have_taken_a_value(self, one: _Shown) -> bool:
        """Whether a replica's cleaner may have taken a true value that nobody was shown.

        It may have where the replica shows a record as committed that was, or may have been, rolled back: a cleaner
        goes by what its replica shows. No atom shows a value that the other replicas have lost as well, by copying
        from this one.
        """
        return self.is_committed and any(
            outcome is End.COMMIT and self._may_be_aborted(fact) and self.case.room.between(UNKNOWN, fact.offset)
            for fact, outcome in zip(one.records, one.outcomes, strict=True)
        )

    def _may_be_aborted(self, fact: Fact) -> bool:
        end = self.end_or_choice.get(fact.offset, End.COMMIT)
        return end is End.ABORT if isinstance(end, End) else End.ABORT in self.groups[end].options

    # -- where a deletion may be that nobody was shown -----------------------------------------------------------------

    def _gaps(self) -> list[Span]:
        """Where a deletion that nobody was shown would change who is wrong: its lowest offset, and where its room ends.

        Only the newest visible record below each replica's bound counts. So records and bounds cut the log into pieces,
        and within one it does not matter where the deletion is.
        """
        records = {fact.offset for fact in (*self.facts, *self.doubted)}
        bounds = {one.bound for one in self.shown}
        lowest = min(one.surely for one in self.shown)
        return [
            (first, end)
            for first, end in pairwise(sorted({0, *records, *(offset + 1 for offset in records), *bounds, self.full}))
            if first not in records and end > lowest and self.case.room.between(first - 1, end) and self._matters(first)
        ]

    def _matters(self, offset: int) -> bool:
        """Whether what lies at an offset changes what a replica is to show, or whether it is judged by that."""
        return any(
            one.bound <= offset < self.full
            or bisect_right(self.visible, offset) == bisect_left(self.visible, one.bound)
            for one in self.shown
        )

    def _is_surely_shown(self, fact: Fact, outcome: End | None) -> bool:
        """Whether a record that a replica holds is shown by it in every world."""
        if not fact.transactional:
            return True
        return outcome is End.COMMIT if self.is_committed else self._never_aborted(fact)

    def _never_aborted(self, fact: Fact) -> bool:
        group = self.case.transactions.of.get(fact.offset)
        return group is not None and End.ABORT not in group.options

    # -- the component -------------------------------------------------------------------------------------------------

    def _that_matter(self) -> list[Fact]:
        """The key's records of the current log that can matter to a consumer.

        Left out is what nobody shows and what is superseded in every world, or aborted.
        """
        shown = {fact.place for one in self.shown for fact in one.records}
        doubted = {fact.offset for fact in self.doubted}
        hidden = (End.ABORT, End.OPEN) if self.is_committed else (End.ABORT,)
        return [
            fact
            for fact in self.facts
            if fact.place in shown
            or fact.offset in doubted
            or (self.end_or_choice[fact.offset] not in hidden and self._matters(fact.offset))
        ]

    def _component(self, facts: Sequence[Fact], numbers: Sequence[int], gaps: Sequence[Span]) -> Component:
        """The key with its offsets, epochs and values by their ranks.

        Args:
            facts: the records that matter.
            numbers: of their choices, rising.
            gaps: where a deletion may be.
        """
        ends_of = {number: rank for rank, number in enumerate(numbers)}
        every = [*facts, *self.doubted, *(fact for one in self.shown for fact in one.records)]
        ends = [at for one in self.shown for at in (one.bound, one.lost_below)]
        start = self.case.start
        at = _ranks([UNKNOWN, 0, self.full, start, *ends, *(gap for gap, _ in gaps), *(fact.offset for fact in every)])
        epoch = _ranks([UNKNOWN, *(fact.place.epoch for fact in every)])
        values: dict[Hashable, int | None] = {None: None}
        for fact in every:
            values.setdefault(fact.value, len(values))

        def moved(fact: Fact) -> tuple[Place, int | None]:
            return Place(at[fact.offset], epoch[fact.place.epoch]), values[fact.value]

        return Component(
            self.is_committed,
            tuple(Record(*moved(fact), self._end(fact, ends_of)) for fact in facts),
            tuple(self.groups[number].options for number in numbers),
            tuple(Doubted(*moved(fact), _IF_IT_STANDS[fact.transactional]) for fact in self.doubted),
            tuple(at[gap] for gap, _ in gaps),
            tuple(
                ShownRecords(
                    one.broker,
                    at[one.bound],
                    tuple(
                        ShownRecord(*moved(fact), fact.transactional, outcome)
                        for fact, outcome in zip(one.records, one.outcomes, strict=True)
                    ),
                    at[one.lost_below],
                )
                for one in self.shown
            ),
            at[self.full],
            at[start],
        )

    def _end(self, fact: Fact, numbers: Mapping[int, int]) -> End | int:
        end = self.end_or_choice[fact.offset]
        return end if isinstance(end, End) else numbers[end]


def _ranks(numbers: Iterable[int]) -> dict[int, int]:
    """The ranks of numbers none of which is below `UNKNOWN`, which keeps its own."""
    return {number: rank for rank, number in enumerate(sorted(set(numbers)), UNKNOWN)}


def right_at(every: Iterable[Judged]) -> frozenset[int]:
    """The brokers that are right about a key at each of some isolation levels; empty if there is no level.

    Args:
        every: the results for the key, one for each level.
    """
    rights = [judged.proof.right for judged in every]
    return frozenset.intersection(*rights) if rights else NOBODY_ELSE
