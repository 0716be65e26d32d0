"""Decides when a broker that answers again after it was away is spot-checked (`parallax.audit.spot`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from parallax.compare.suspect import Coverage
from parallax.model import TopicPartition

SETTLE_S = 10.0
"""How many seconds a broker must be back before it is asked: it has to catch up first."""

PAUSE_S = 60.0
"""At least so many seconds pass between two spot checks of a broker, because a broker may come and go.

What it did not answer is asked for again. The first time is after this pause, and the pauses double.
"""

TRIES = 6
"""How often a broker is asked again for what it did not answer. It may never reach an offset that it lost."""


class Returned:
    """Notices brokers whose replicas answer again, and says when the spot check of each is due.

    After the job's start every broker that answers counts as back, because nobody knows which were away before.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._answering: dict[TopicPartition, tuple[int, ...]] = {}
        self._due: dict[int, tuple[float, dict[TopicPartition, None]]] = {}
        self._asked: dict[int, float] = {}
        self._tries: Counter[int] = Counter()

    def observe(self, coverages: Iterable[Coverage]) -> None:
        """Take in which replicas answer now. Those that did not answer at the last call become due for a spot check.

        Args:
            coverages: one for each partition that was compared; it says which replicas could be reached.
        """
        for coverage in coverages:
            answering = tuple(broker.broker for broker in coverage.brokers if broker.reachable)
            before = self._answering.get(coverage.place, ())
            if answering == before:
                continue
            self._answering[coverage.place] = answering
            for broker in {*answering} - {*before}:
                self._tries.pop(broker, None)
                self._wait(broker, [coverage.place], SETTLE_S)
            for broker in {*before} - {*answering}:
                _, waiting = self._due.get(broker, (0.0, {}))
                waiting.pop(coverage.place, None)
                if not waiting:
                    self._due.pop(broker, None)

    def asked(self, brokers: Iterable[int], unanswered: Mapping[int, Sequence[TopicPartition]]) -> None:
        """Take in that brokers were spot-checked just now.

        Partitions with unread records become due again after pauses that double, `TRIES` times at most.

        Args:
            brokers: ids of the brokers that were checked.
            unanswered: by broker, its partitions with records that could not be read.
        """
        for broker in brokers:
            self._asked[broker] = self._clock()
            if places := unanswered.get(broker):
                self._tries[broker] += 1
                if self._tries[broker] <= TRIES:
                    self._wait(broker, places, PAUSE_S * 2 ** (self._tries[broker] - 1))

    def next_at(self) -> float | None:
        """When the next spot check of a broker is due, in monotonic seconds; None if none is."""
        return min((at for at, _ in self._due.values()), default=None)

    def due(self) -> dict[int, list[TopicPartition]]:
        """By broker whose spot check is due, its partitions to check. The next call does not return them again."""
        now = self._clock()
        ripe = {broker: list(places) for broker, (at, places) in self._due.items() if at <= now}
        for broker in ripe:
            del self._due[broker]
        return ripe

    def _wait(self, broker: int, places: Sequence[TopicPartition], seconds: float) -> None:
        """A broker waits for the last of its partitions to settle."""
        soonest = self._asked.get(broker, -PAUSE_S) + PAUSE_S
        at, waiting = self._due.get(broker, (soonest, {}))
        waiting.update(dict.fromkeys(places))
        self._due[broker] = max(at, self._clock() + seconds), waiting


__all__ = ["PAUSE_S", "SETTLE_S", "TRIES", "Returned"]
