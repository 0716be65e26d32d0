"""Which topics were deleted, as far as the brokers' last answers say so. Pure, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from parallax.alerting.refusals import Replica
from parallax.model import ReadEvent

_DENIED = frozenset({ReadEvent.TOPIC_DELETED, ReadEvent.NOT_HOSTED})
_SILENT_S = 30.0
"""How many seconds it may take until a repeated denial of the brokers arrives here.

A denial that lasts is recorded again after half the time that it has lasted (`parallax.source.repeats`).
"""


class Deleted:
    """Remembers the topics whose brokers answered that the topic was deleted, or that they do not hold its replica.

    Times are seconds on any running clock.
    """

    def __init__(self) -> None:
        self._denied: dict[str, dict[Replica, str]] = {}
        self._since: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def take_in(self, rows: Iterable[Mapping[str, Any]], now: float) -> None:
        """Take in the rows of progress of one tick.

        A replica that answers shows that its topic exists: earlier answers that it was deleted are forgotten.

        Args:
            rows: the rows.
            now: the present, in seconds.
        """
        denied: dict[str, dict[Replica, str]] = {}
        answered = set()
        for row in rows:
            topic, problem = str(row["topic"]), row.get("problem")
            if not row["reachable"] and problem in _DENIED:
                denied.setdefault(topic, {})[topic, int(row["partition"]), int(row["broker"])] = problem
            elif row["reachable"]:
                answered.add(topic)
        for topic, said in denied.items():
            self._denied.setdefault(topic, {}).update(said)
            self._since.setdefault(topic, now)
            self._told[topic] = now
        # If one broker holds nothing of it any more and another does, its replica was taken off.
        for topic in answered & self._denied.keys():
            del self._denied[topic]
        if len(self._since) > len(self._denied):
            self._since = {topic: at for topic, at in self._since.items() if topic in self._denied}

    def topics(self, answering: Iterable[Replica], looked_at: float | None) -> frozenset[str]:
        """The topics that were deleted.

        A topic counts as deleted in two cases:

        - A broker answered that the topic was deleted, and none of the topic's replicas answers.
        - A broker answered that it does not hold a replica of the topic, and since then nobody reported on the topic
          for 30 s or more.

        Args:
            answering: the replicas that answered when they were asked last.
            looked_at: when the brokers were asked last, in seconds; None if that is not known.
        """
        if not self._denied:
            return frozenset()
        held = {topic for topic, *_ in answering if topic in self._denied}
        return frozenset(
            topic
            for topic, said in self._denied.items()
            if (topic not in held and ReadEvent.TOPIC_DELETED in said.values()) or self._is_silent(topic, looked_at)
        )

    def _is_silent(self, topic: str, looked_at: float | None) -> bool:
        told = self._told[topic]
        return looked_at is not None and looked_at - told > _SILENT_S + told - self._since[topic]


__all__ = ["Deleted"]
