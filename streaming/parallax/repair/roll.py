"""What ``parallax roll`` says: whether a broker may be restarted now, partition by partition. It changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from parallax.config import Settings
from parallax.counts import agreed, counted
from parallax.errors import one_line
from parallax.findings.leading import Fitness, May, unknown, worst
from parallax.model import TopicPartition
from parallax.repair.lead import EXIT_CODES, led
from parallax.repair.leading import Led
from parallax.repair.rolling import Outage, TopicSettings, elected, heard, may_stop, notes, refuses
from parallax.replica.client import ReplicaClient, TopicMetadata
from parallax.replica.errors import ReplicaError, UnknownTopic
from parallax.source.options import matches
from parallax.source.survey import check_brokers
from parallax.views.binding import with_cluster

_POLICY, _RETENTION = "cleanup.policy", "delete.retention.ms"
_MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
_MOST, _FEW = 20, 5
"""Partitions that are named one by one, for people: judged ones, and others."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One partition that a broker holds, and whether a restart of the broker is safe for it.

    Attributes:
        led: who leads the partition, and which replicas may.
        fitness: whether the restart is safe for the partition, with the reasons.
        notes: phrases that say what a safe restart still costs, e.g. refused producers (`rolling.notes`).
        is_refusing: whether producers with ``acks=all`` are refused meanwhile, and are not now.
    """

    led: Led
    fitness: Fitness
    notes: tuple[str, ...] = ()
    is_refusing: bool = False


@dataclass(frozen=True, slots=True)
class Rolled:
    """The answer of ``parallax roll``: whether a broker may be restarted now, with the reasons by partition.

    Attributes:
        broker: the id of the broker.
        partitions: the partitions on it that the job watches.
        unwatched: the partitions on it that the job does not watch.
        unread: what nobody can tell of, each with the reason: watched topics whose partitions the brokers do not
            report, or that the job watches nothing at all.
    """

    broker: int
    partitions: tuple[Judged, ...]
    unwatched: tuple[TopicPartition, ...]
    unread: tuple[str, ...] = ()

    @property
    def may(self) -> May:
        """Whether the broker may be restarted: the worst answer for any of its partitions.

        It is unknown at best if some topic could not be read, or if the job watches no partition of any broker.
        """
        return worst([*(one.fitness for one in self.partitions), unknown(*self.unread)])

    @property
    def exit_code(self) -> int:
        """The exit code of ``parallax roll``.

        It is 0 if the broker may be restarted, 1 if it must not, and 3 if that is unknown.
        """
        return EXIT_CODES[self.may]

    @property
    def refusing(self) -> int:
        """In how many partitions producers with ``acks=all`` are refused during the restart, and are not now."""
        return sum(one.is_refusing for one in self.partitions)


def roll(settings: Settings, broker: int, outage_s: float) -> Rolled:
    """Ask brokers and tables whether a broker may be restarted now. Changes nothing.

    Args:
        settings: the job's settings.
        broker: the id of the broker.
        outage_s: for how many seconds at most the broker will be away or behind.

    Raises:
        ConfigError: the settings name another cluster than that of the storage.
        ReplicaError: no broker answers, or the cluster has no such broker.
        FindingsTableError, PauseError: a table of the job cannot be read.
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
        asked = [_POLICY, _RETENTION, _MIN_ISR, _UNCLEAN]
        configs = client.topic_configs(topics, asked) if topics else {}
        eligible = client.eligible_leaders(topics)
        electable = {place: {*one.isr, *eligible.get(place, ())} - {broker} for place, one in watched.items()}
        silent = _silent(client, electable)
    of = {topic: _settings(configs.get(topic)) for topic in topics}
    outage = Outage(broker, int(outage_s * 1000), settings.guard.clock_skew_ms, settings.read.request_timeout_ms)
    partitions = []
    for known_one in led(settings, watched):
        place = known_one.place
        one, topic = heard(replace(known_one, elr=eligible.get(place, ())), silent.get(place, {})), of[place.topic]
        told = tuple(notes(one, topic, broker))
        partitions.append(Judged(one, may_stop(one, topic, outage), told, refuses(one, topic, broker)))
    unread = [
        f"{name}: {one_line(topic.error)}"
        for name, topic in sorted(known.items())
        if topic.error is not None and not isinstance(topic.error, UnknownTopic) and _is_watched(topic, settings)
    ]
    if not unread and not any(topic.partitions and _is_watched(topic, settings) for topic in known.values()):
        unread.append("any partition: the job watches none (topics.include, topics.pattern)")
    unwatched = tuple(place for place, _ in held if place not in watched)
    return Rolled(broker, tuple(partitions), unwatched, tuple(unread))


def _silent(
    client: ReplicaClient, asked: Mapping[TopicPartition, Collection[int]]
) -> dict[TopicPartition, dict[int, str]]:
    """By partition, why some of the brokers that are asked about it do not answer."""
    places: dict[int, list[TopicPartition]] = {}
    for place, brokers in asked.items():
        for broker in brokers:
            places.setdefault(broker, []).append(place)
    found: dict[TopicPartition, dict[int, str]] = {}
    for broker, some in sorted(places.items()):
        answers: Mapping[TopicPartition, int | ReplicaError]
        try:
            answers = client.log_end_offsets(broker, some)
        except ReplicaError as error:
            answers = dict.fromkeys(some, error)
        for place, answer in answers.items():
            if isinstance(answer, ReplicaError):
                found.setdefault(place, {})[broker] = one_line(answer.problem)
    return found


def _is_watched(topic: TopicMetadata, settings: Settings) -> bool:
    return topic.name in settings.topics.include or matches(settings.topics.pattern, topic.name)


def _settings(given: Mapping[str, str] | ReplicaError | None) -> TopicSettings:
    if not isinstance(given, Mapping) or _POLICY not in given:
        return TopicSettings()
    retention, least, unclean = given.get(_RETENTION), given.get(_MIN_ISR), given.get(_UNCLEAN)
    return TopicSettings(
        is_compacted="compact" in given[_POLICY],
        retention_ms=None if retention is None else int(retention),
        min_isr=None if least is None else int(least),
        is_unclean=None if unclean is None else unclean == "true",
    )


def document(found: Rolled) -> dict[str, Any]:
    """Whether a broker may be restarted, as values that JSON can hold."""
    return {
        "broker": found.broker,
        "may_restart": str(found.may),
        "partitions_refusing_producers": found.refusing,
        "unwatched_partitions": len(found.unwatched),
        "unread_topics": list(found.unread),
        "partitions": [
            {
                "topic": one.led.place.topic,
                "partition": one.led.place.partition,
                "leader": one.led.leader,
                "would_lead": elected(one.led, found.broker),
                "may_restart": str(one.fitness.may),
                "why": list(one.fitness.why),
                "refuses_producers": one.is_refusing,
                "notes": list(one.notes),
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
    """Whether a broker may be restarted, as lines of text for people.

    The text names each partition for which a restart is not safe, and the notes on all partitions.
    """
    count = len(found.partitions)
    refusing = f", {found.refusing} would refuse producers with acks=all" if found.refusing else ""
    lines = [f"broker {found.broker}: {_ANSWERS[found.may]} ({counted(count, 'partition')} watched{refusing})"]
    against = sorted(
        (one for one in found.partitions if one.fitness.may is not May.SAFE),
        key=lambda one: (one.fitness.may is not May.UNSAFE, one.led.place),
    )
    lines += _listed([f"{one.led.place.name}: {one.fitness.in_words}" for one in against])
    lines += _listed([f"nobody can tell of {one}" for one in found.unread])
    lines += _listed([f"{one.led.place.name}: warning: {note}" for one in found.partitions for note in one.notes])
    if count := len(found.unwatched):
        named = ", ".join(place.name for place in found.unwatched[:_FEW])
        more = f", and {count - _FEW:,} more" if count > _FEW else ""
        others = f"{counted(count, 'other partition')} of it {agreed(count, 'is', 'are')}"
        why = f"topics.include and topics.pattern leave {agreed(count, 'it', 'them')} out"
        lines.append(f"  {others} not watched, and not judged ({why}): {named}{more}")
    return "\n".join(lines)


def _listed(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - _MOST:,} more"] if len(lines) > _MOST else []
    return [*(f"  {line}" for line in lines[:_MOST]), *more]


__all__ = ["Judged", "Rolled", "document", "in_words", "roll"]
