"""Asks the cluster what an audit must know before it reads: partitions, topics' settings, and ends of logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from parallax.audit.plan import Look, PartitionPlan, TopicTraits, behind, traits, updated
from parallax.config import Settings
from parallax.model import TopicPartition
from parallax.moments import now_ms
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError, UnknownTopic
from parallax.source.options import matches, progress_options
from parallax.source.progress_source import ProgressWatch
from parallax.views.queries import source_options

_TRAITS = ("cleanup.policy", "remote.storage.enable")
_CATCH_UP_S = 6.0
"""How many seconds a replica that is behind the others is waited for. A follower trails by a fetch of half a second."""
_LOOK_AGAIN_S = 0.3


def select(
    client: ReplicaClient, settings: Settings, topics: Sequence[str] = (), partitions: Sequence[int] = ()
) -> list[TopicPartition]:
    """The partitions to audit, sorted: those that the settings watch, or those of named topics.

    Args:
        client: asks the cluster.
        settings: the job's settings.
        topics: names of topics; empty: the watched topics.
        partitions: partition numbers, in each of the topics; empty: all.

    Raises:
        ReplicaError: no broker answers, a topic does not exist, or a topic has no partition of that number.
    """
    known = client.metadata()
    option = "--topic" if topics else "topics.include"
    wanted = settings.topics
    names = list(topics) or [*wanted.include, *(name for name in known if matches(wanted.pattern, name))]
    places: list[TopicPartition] = []
    for name in names:
        topic = known.get(name)
        if topic is None:
            problem = f"{option}: topic {name!r} is not on the cluster, or DESCRIBE on it is missing; correct its name"
            raise UnknownTopic(problem)
        if topic.error is not None:
            raise topic.error
        for number in partitions:
            if number not in topic.partitions:
                raise UnknownTopic(
                    f"--partition: topic {name!r} has no partition {number}; it has {len(topic.partitions)}"
                )
        places += [
            TopicPartition(name, number) for number in topic.partitions if not partitions or number in partitions
        ]
    if not places:
        raise UnknownTopic("topics.pattern: no topic on the cluster matches; correct it, or name topics with --topic")
    return sorted(set(places))


def topic_traits(client: ReplicaClient, topics: Sequence[str]) -> dict[str, TopicTraits]:
    """By topic, what its settings mean for an audit, e.g. whether its logs are compacted.

    If a topic's settings cannot be read, its traits say why; its partitions are then unknown.

    Args:
        client: asks the cluster.
        topics: the topics' names.
    """
    try:
        found: Mapping[str, Any] = client.topic_configs(sorted(set(topics)), _TRAITS)
    except ReplicaError as error:
        found = dict.fromkeys(topics, error)
    return {t: traits(found.get(t, ReplicaError("the broker's answer leaves it out", topic=t))) for t in topics}


class Looker:
    """Asks all brokers for the offsets of some partitions' replicas, as often as an audit needs; a context manager.

    Args:
        settings: the job's settings.
        places: the partitions.
        sleep: waits some seconds; a test gives its own.
    """

    def __init__(
        self, settings: Settings, places: Sequence[TopicPartition], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        options = source_options(settings)
        options.pop("topics.pattern", None)
        options["topics"] = ",".join(sorted({topic for topic, _ in places}))
        # A look waits for every broker: nobody reads records meanwhile.
        options["planning.patience.ms"] = str(settings.read.request_timeout_ms + 500)
        self._places = frozenset(places)
        self._watch = ProgressWatch(replace(progress_options(options), metadata_refresh_ms=1), describe_every_s=0.0)
        self._sleep = sleep
        self._last_at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.close()

    def look(self) -> Look:
        """Ask every broker once; returns one row of progress for each replica.

        Raises:
            ReplicaError: no broker has answered yet.
        """
        while True:
            rows = [r for r in self._watch.tick().rows() if (r["topic"], r["partition"]) in self._places]
            latest = max((r["observed_at"] for r in rows), default=0)
            # For a broker that was asked too soon after it failed, what was known is returned; times must grow all the
            # same.
            if latest // 1000 > self._last_at // 1000 or not rows:
                self._last_at = latest
                return rows
            self._sleep(0.002)

    def catch_up(
        self, plans: Mapping[TopicPartition, PartitionPlan], patience_s: float = _CATCH_UP_S
    ) -> tuple[dict[TopicPartition, PartitionPlan], Look | None]:
        """Wait until each replica reaches the end up to which its partition is to be compared.

        It gives up after ``patience_s`` seconds.

        Args:
            plans: by partition, its plan, which names that end.
            patience_s: how long to wait at most, in seconds.

        Returns:
            The plans, with how far each replica reached at the last look (`PartitionPlan.marks`).
            The last look; None if no replica had to be waited for.
        """
        deadline = time.monotonic() + patience_s
        made, last = dict(plans), None
        while behind(made.values()) and time.monotonic() < deadline:
            self._sleep(_LOOK_AGAIN_S)
            last = self.look()
            made = updated(made, last)
        return made, last


def at_ms(look: Look) -> int:
    """The time of a look: when its last replica answered, milliseconds since 1970 UTC."""
    return max((int(row["observed_at"]) // 1000 for row in look), default=now_ms())


__all__ = ["Looker", "at_ms", "select", "topic_traits"]
