"""What ``parallax roll`` says: whether a broker may be restarted now. It changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from parallax.config import Settings
from parallax.counts import agreed, counted
from parallax.findings.leading import Fitness, May, worst
from parallax.model import TopicPartition
from parallax.repair.lead import EXIT_CODES, led
from parallax.repair.leading import Led
from parallax.repair.rolling import Kept, Outage, alone, elected, may_stop
from parallax.replica.client import ReplicaClient, TopicMetadata
from parallax.replica.errors import ReplicaError
from parallax.source.options import matches
from parallax.source.survey import check_brokers
from parallax.views.binding import with_cluster

_POLICY, _RETENTION = "cleanup.policy", "delete.retention.ms"
_MOST = 20
"""Partitions that are named one by one, for people."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A partition of the broker, and whether the outage is safe for it."""

    led: Led
    fitness: Fitness
    note: str


@dataclass(frozen=True, slots=True)
class Rolled:
    """Whether a broker may be restarted now.

    Attributes:
        broker: which.
        partitions: those of its partitions that the job watches.
        unwatched: how many others it holds.
    """

    broker: int
    partitions: tuple[Judged, ...]
    unwatched: int

    @property
    def may(self) -> May:
        """The gravest of all; unknown where nothing is watched."""
        return worst(one.fitness for one in self.partitions) if self.partitions else May.UNKNOWN

    @property
    def exit_code(self) -> int:
        """0 if it may be restarted, 1 if it must not, 3 if nobody can tell."""
        return EXIT_CODES[self.may]


def roll(settings: Settings, broker: int, outage_s: float) -> Rolled:
    """Say whether a broker may be restarted now. Changes nothing.

    Args:
        settings: of the job.
        broker: its id.
        outage_s: for how long it is away, or behind, at most.

    Raises:
        ConfigError: the settings name another cluster than that of the storage.
        ReplicaError: no broker answers, or the cluster has no such broker.
        FindingsTableError, PauseError: what is on record cannot be read.
    """
    settings = with_cluster(settings)
    with closing(ReplicaClient(settings.kafka, timeout_ms=settings.read.request_timeout_ms)) as client:
        known = client.metadata()
        if settings.topics.include:
            known |= client.metadata(settings.topics.include)
        check_brokers(client, known, [broker], "BROKER")
        held = [
            (TopicPartition(name, number), one)
            for name, topic in sorted(known.items())
            for number, one in topic.partitions.items()
            if broker in one.replicas
        ]
        watched = {place: one for place, one in held if _is_watched(known[place.topic], settings)}
        topics = sorted({place.topic for place in watched})
        configs = client.topic_configs(topics, [_POLICY, _RETENTION]) if topics else {}
    kept = {topic: _kept(configs.get(topic)) for topic in topics}
    outage = Outage(broker, int(outage_s * 1000), settings.guard.clock_skew_ms, settings.read.request_timeout_ms)
    partitions = [
        Judged(one, may_stop(one, kept[one.place.topic], outage), alone(one, broker)) for one in led(settings, watched)
    ]
    return Rolled(broker, tuple(partitions), len(held) - len(watched))


def _is_watched(topic: TopicMetadata, settings: Settings) -> bool:
    return topic.name in settings.topics.include or matches(settings.topics.pattern, topic.name)


def _kept(given: Mapping[str, str] | ReplicaError | None) -> Kept:
    if not isinstance(given, Mapping) or _POLICY not in given:
        return Kept()
    retention = given.get(_RETENTION)
    return Kept("compact" in given[_POLICY], None if retention is None else int(retention))


def document(found: Rolled) -> dict[str, Any]:
    """Whether a broker may be restarted, as a JSON-able document."""
    return {
        "broker": found.broker,
        "may_restart": str(found.may),
        "unwatched_partitions": found.unwatched,
        "partitions": [
            {
                "topic": one.led.place.topic,
                "partition": one.led.place.partition,
                "leader": one.led.leader,
                "would_lead": elected(one.led, found.broker),
                "may_restart": str(one.fitness.may),
                "why": list(one.fitness.why),
                "note": one.note,
            }
            for one in found.partitions
        ],
    }


_ANSWERS = {
    May.SAFE: "may be restarted now",
    May.UNSAFE: "must not be restarted now",
    May.UNKNOWN: "nobody can tell whether it may be restarted now",
}


def in_words(found: Rolled) -> str:
    """Whether a broker may be restarted, for people: the partitions that are against it, and notes on others."""
    count = len(found.partitions)
    lines = [f"broker {found.broker}: {_ANSWERS[found.may]} ({counted(count, 'partition')} watched)"]
    against = sorted(
        (one for one in found.partitions if one.fitness.may is not May.SAFE),
        key=lambda one: (one.fitness.may is not May.UNSAFE, one.led.place),
    )
    lines += _listed([f"{one.led.place.name}: {one.fitness.in_words}" for one in against])
    lines += _listed([f"{one.led.place.name}: {one.note}" for one in found.partitions if one.note])
    if found.unwatched:
        others = counted(found.unwatched, "other partition")
        lines.append(f"  {others} of it {agreed(found.unwatched, 'is', 'are')} not watched, and not judged")
    return "\n".join(lines)


def _listed(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - _MOST:,} more"] if len(lines) > _MOST else []
    return [*(f"  {line}" for line in lines[:_MOST]), *more]


__all__ = ["Judged", "Rolled", "document", "in_words", "roll"]
