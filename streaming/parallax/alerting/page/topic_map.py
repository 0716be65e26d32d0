"""The page's table of topics by brokers: the state of each topic on each broker, the worst topic first.

Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from parallax.alerting.page.glance import CALM, ORDER, State, Verdicts
from parallax.model import UnknownReason


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table: all replicas of one topic on one broker.

    Attributes:
        states: how many replicas are in which state, the gravest first; never empty.
        unseen: why the job does not see these replicas. Only if their gravest state is unknown, and all unknown ones
            have the same reason; otherwise empty.
    """

    states: Mapping[State, int]
    unseen: str = ""

    @property
    def state(self) -> State:
        """The gravest state of the cell's replicas."""
        return next(iter(self.states))

    @property
    def is_calm(self) -> bool:
        """Whether nobody has to act on any of the cell's replicas."""
        return self.state in CALM

    @property
    def text(self) -> str:
        """The cell in words, as in ``1 of 3 diverged``.

        States after the gravest are added only if somebody has to act on them.
        """
        count = sum(self.states.values())
        if len(self.states) == 1:
            return self.state.text
        first, *others = [state for state in self.states if state not in CALM or state is self.state]
        said = [f"{self.states[first]:,} of {count:,} {first.text}"]
        return ", ".join([*said, *(f"{self.states[state]:,} of {count:,} {state.text}" for state in others)])


@dataclass(frozen=True, slots=True)
class Topic:
    """One row of the table: all partitions of one topic.

    Attributes:
        name: the topic's name.
        cells: by broker that has a replica of the topic, its cell.
        partitions: how many partitions the topic has.
        unknown: by reason, how many offsets have no verdict.
        is_compared: whether that is known of every partition.
    """

    name: str
    cells: Mapping[int, Cell]
    partitions: int
    unknown: Mapping[UnknownReason, int]
    is_compared: bool = True

    @property
    def state(self) -> State:
        """The gravest state of the topic's cells; unknown if it has none."""
        return min((cell.state for cell in self.cells.values()), key=ORDER.__getitem__, default=State.UNKNOWN)

    @property
    def is_calm(self) -> bool:
        """Whether nobody has to act on any of the topic's replicas."""
        return self.state in CALM

    @property
    def unseen(self) -> tuple[str, ...]:
        """Why the job does not see replicas of the topic: each reason once, in the order of ``cells``."""
        return tuple(dict.fromkeys(cell.unseen for cell in self.cells.values() if cell.unseen))

    @property
    def states(self) -> frozenset[State]:
        """All states that the topic's replicas are in."""
        return frozenset(state for cell in self.cells.values() for state in cell.states)


@dataclass(frozen=True, slots=True)
class TopicMap:
    """The whole table of topics by brokers, with its totals.

    Attributes:
        topics: the rows, the gravest state first, then by name.
        brokers: the columns: ids of the brokers that hold a replica of any topic.
        states: how many replicas of all topics are in which state, the gravest first.
        unknown: by reason, how many offsets of all topics have no verdict.
    """

    topics: tuple[Topic, ...]
    brokers: tuple[int, ...]
    states: Mapping[State, int]
    unknown: Mapping[UnknownReason, int]


def topic_map(verdicts: Iterable[Verdicts]) -> TopicMap:
    """The table of topics by brokers, from the states of all replicas.

    Args:
        verdicts: the states of each partition's replicas (`parallax.alerting.page.glance.verdicts`).
    """
    partitions: Counter[str] = Counter()
    unknown: dict[str, Counter[UnknownReason]] = {}
    counts: dict[str, dict[int, dict[State, int]]] = {}
    unseen: dict[tuple[str, int], set[str]] = {}
    not_compared: set[str] = set()
    for one in verdicts:
        name = one.place.topic
        if not one.is_compared:
            not_compared.add(name)
        partitions[name] += 1
        if one.unknown:
            unknown.setdefault(name, Counter()).update(one.unknown)
        of_topic = counts.setdefault(name, {})
        for broker, (state, _) in one.replicas.items():
            of_broker = of_topic.setdefault(broker, {})
            of_broker[state] = of_broker.get(state, 0) + 1
            if state is State.UNKNOWN:
                unseen.setdefault((name, broker), set()).add(one.unseen.get(broker, ""))
    topics = []
    for name, count in partitions.items():
        cells = {b: _cell(counts[name][b], unseen.get((name, b), set())) for b in sorted(counts[name])}
        topics.append(Topic(name, cells, count, unknown.get(name, {}), name not in not_compared))
    topics.sort(key=lambda topic: (ORDER[topic.state], topic.name))
    states: Counter[State] = Counter()
    for topic in topics:
        for cell in topic.cells.values():
            states.update(cell.states)
    every: Counter[UnknownReason] = Counter()
    for own in unknown.values():
        every.update(own)
    brokers = {broker for topic in topics for broker in topic.cells}
    return TopicMap(tuple(topics), tuple(sorted(brokers)), _in_order(states), every)


def _cell(states: Mapping[State, int], unseen: set[str]) -> Cell:
    made = Cell(_in_order(states))
    # Of the other states their words say it.
    return replace(made, unseen=next(iter(unseen))) if made.state is State.UNKNOWN and len(unseen) == 1 else made


def _in_order(states: Mapping[State, int]) -> Mapping[State, int]:
    return states if len(states) == 1 else {state: states[state] for state in sorted(states, key=ORDER.__getitem__)}
