"""Asks the cluster, for the guard, about topics: their settings as each broker shows them, and free space."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from parallax.errors import one_line
from parallax.guard.holds import SETTINGS, Absentee
from parallax.guard.seen import Shown, TopicSeen
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient, TopicMetadata
from parallax.replica.errors import ReplicaError, Unauthorized, UnknownTopic

_GONE_S = 60.0
"""A topic is gone if no broker has known it for this long. One that has just started may not know it yet."""
_SPACE_S = 10.0
_AT_ONCE = 8


class Lookout:
    """Asks brokers about topics for the guard, in several threads.

    It remembers how much space there was at the last look, and since when a topic has been missing.

    Args:
        client: asks the cluster.
        needs_space: whether to ask for the space on log directories as well.
    """

    def __init__(self, client: ReplicaClient, *, needs_space: bool = True) -> None:
        self._client = client
        self._needs_space = needs_space
        self._gone_since: dict[str, float] = {}
        self._space: dict[int, tuple[float, Mapping[TopicPartition, float]]] = {}
        self._spaceless: dict[int, str] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE, "guard")
        self._sizes: dict[int, Mapping[TopicPartition, int]] = {}

    @property
    def sizes(self) -> dict[TopicPartition, int]:
        """For each partition that was looked at, the size of its largest replica in bytes."""
        found: dict[TopicPartition, int] = {}
        for place, size in (item for one in self._sizes.values() for item in one.items()):
            found[place] = max(size, found.get(place, 0))
        return found

    def close(self) -> None:
        """End the threads that ask the brokers."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def look(self, topics: Collection[str], absent: Collection[str]) -> dict[str, TopicSeen]:
        """Return by topic what its brokers show now.

        A topic is left out if its metadata cannot be had, or if it has been missing for less than a minute. One that
        has been missing for longer is returned with an empty `TopicSeen.topic_id`.

        Args:
            topics: the names of the topics.
            absent: the names of those topics that have an absent replica; they never count as in sync.

        Raises:
            ReplicaError: no broker answers.
        """
        metadata = self._client.metadata(sorted(topics))
        found = {name: metadata.get(name) for name in topics}
        there = {name: one for name, one in found.items() if one is not None and one.error is None}
        must = {name: _must_show(one) for name, one in there.items()}
        shown = self._settings(must)
        free = self._free(there, must)
        seen = {}
        for name, one in there.items():
            self._gone_since.pop(name, None)
            told = {b: shown[b][name] for b in must[name] if name in shown.get(b, {})}
            settings = {b: one for b, one in told.items() if isinstance(one, dict)}
            refused = next((one_line(one.problem) for one in told.values() if isinstance(one, Unauthorized)), "")
            in_sync = all(set(p.isr) == set(p.replicas) for p in one.partitions.values()) and name not in absent
            share, why = free.get(name, (None, ""))
            there_now = frozenset(Absentee(number, b) for number, p in one.partitions.items() for b in p.isr)
            seen[name] = TopicSeen(one.topic_id, settings, must[name], in_sync, share, refused, why, there_now)
        for name, gone in found.items():
            if gone is None or isinstance(gone.error, UnknownTopic):
                since = self._gone_since.setdefault(name, time.monotonic())
                if time.monotonic() - since > _GONE_S:
                    seen[name] = TopicSeen("", {}, frozenset(), is_in_sync=True)
        return seen

    def _settings(self, must: Mapping[str, frozenset[int]]) -> dict[int, dict[str, dict[str, Shown] | ReplicaError]]:
        """By broker that answers and by topic: what it shows, or why it does not."""
        by_broker: dict[int, list[str]] = {}
        for name, brokers in must.items():
            for broker in brokers:
                by_broker.setdefault(broker, []).append(name)
        asked = {b: self._pool.submit(self._client.own_configs, b, names, SETTINGS) for b, names in by_broker.items()}
        found: dict[int, dict[str, dict[str, Shown] | ReplicaError]] = {}
        for broker, answer in asked.items():
            try:
                configs = answer.result()
            except ReplicaError:
                continue
            found[broker] = {
                topic: {name: Shown(one.value, one.is_own) for name, one in given.items()}
                if isinstance(given, dict)
                else given
                for topic, given in configs.items()
            }
        return found

    def _free(
        self, there: Mapping[str, TopicMetadata], must: Mapping[str, frozenset[int]]
    ) -> dict[str, tuple[float | None, str]]:
        """By topic, the share of the fullest log directory that is free, in percent; or None, and why not."""
        if not self._needs_space:
            return {}
        by_broker: dict[int, set[TopicPartition]] = {}
        for name, one in there.items():
            for number, partition in one.partitions.items():
                for broker in set(partition.replicas) & must[name]:
                    by_broker.setdefault(broker, set()).add(TopicPartition(name, number))
        known = {broker: self._of_broker(broker, places) for broker, places in by_broker.items()}
        found: dict[str, tuple[float | None, str]] = {}
        for name, one in there.items():
            places = {(b, TopicPartition(name, n)) for n, p in one.partitions.items() for b in p.replicas}
            shares = [known[b].get(place) for b, place in places if b in must[name]]
            told = [share for share in shares if share is not None]
            if told and len(told) == len(shares):
                found[name] = min(told), ""
            else:
                found[name] = None, next((self._spaceless[b] for b in must[name] if b in self._spaceless), "")
        return found

    def _of_broker(self, broker: int, places: Collection[TopicPartition]) -> Mapping[TopicPartition, float]:
        at, known = self._space.get(broker, (0.0, {}))
        if time.monotonic() - at < _SPACE_S and all(place in known for place in places):
            return known
        try:
            dirs = self._client.log_dirs(broker, places)
        except ReplicaError as error:
            self._spaceless[broker] = one_line(error.problem)
            return {}
        self._spaceless.pop(broker, None)
        known = {place: 100.0 * d.usable / d.total for d in dirs if d.total > 0 for place in d.sizes}
        self._sizes[broker] = {place: size for d in dirs for place, size in d.sizes.items()}
        self._space[broker] = (time.monotonic(), known)
        return known


def _must_show(topic: TopicMetadata) -> frozenset[int]:
    """Those that clean for others: leaders, and who is in sync."""
    return frozenset(b for p in topic.partitions.values() for b in (*p.isr, p.leader) if b >= 0)


__all__ = ["Lookout"]
