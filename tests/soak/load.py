"""What works on the cluster of a soak: writers of this program's own, or real clients. Either is a ``Load``."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from tests.soak.plan import Plan, Topic


class Tally:
    """Counts of many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        with self._lock:
            self._counts[name] += count

    def read(self) -> dict[str, int]:
        with self._lock:
            return dict(sorted(self._counts.items()))


class Load(Protocol):
    """What works on the cluster from ``start`` to ``stop``."""

    tally: Tally

    @property
    def watched(self) -> Mapping[str, Any]:
        """What the job is to watch, the topics of the injected faults included: its section ``topics``."""

    @property
    def work(self) -> Mapping[str, tuple[str, ...]]:
        """Topics each of which must hold records in the end, by what they show to have worked."""

    def create(self) -> None:
        """Create the topics that must be there before anything starts."""

    def topics(self) -> tuple[Topic, ...]:
        """The topics that are worked on by now.

        Raises:
            KafkaException: they must be asked for, and no broker answers.
        """

    def start(self) -> None:
        """Begin."""

    def check(self) -> None:
        """Raise what has ended a part of it.

        Raises:
            LabError: a part has failed.
        """

    def stop(self) -> dict[str, bool]:
        """End in good order; gives what had to hold of the work, and whether it did.

        Raises:
            LabError: a part did not end.
        """

    def close(self) -> None:
        """End what still runs, however the run ended."""


class Worker(threading.Thread):
    """A thread that works until ``stopping`` is set."""

    def __init__(self, name: str, plan: Plan, tally: Tally) -> None:
        super().__init__(name=name, daemon=True)
        self.random = plan.random(name)
        self.tally = tally
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits for the workers
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError
