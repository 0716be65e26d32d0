"""What ``parallax lead`` shows: who leads a topic's partitions, who would be elected, and which replicas may lead.

It reads the tables of the job, and asks the brokers for metadata. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any

from parallax.config import Settings
from parallax.findings.finding import Finding
from parallax.findings.leading import May, worst
from parallax.model import TopicPartition
from parallax.repair.claims import claims
from parallax.repair.copies import NOTHING_SAID, begins_apart, sides_by_findings, without
from parallax.repair.fit import begins_late
from parallax.repair.known import known
from parallax.repair.leading import Led
from parallax.replica.client import PartitionMetadata, ReplicaClient
from parallax.replica.errors import UnknownTopic
from parallax.shell import ANYWHERE, Shell
from parallax.views.binding import with_cluster

EXIT_CODES = {May.SAFE: 0, May.UNSAFE: 1, May.UNKNOWN: 3}


def look(settings: Settings, topic: str, partitions: Sequence[int] = (), shell: Shell = ANYWHERE) -> list[Led]:
    """Ask brokers and tables who leads each partition of a topic, and which replicas may. Changes nothing.

    Args:
        settings: the job's settings.
        topic: the topic's name.
        partitions: the numbers of the wanted partitions; all if it is empty.
        shell: how commands in reasons name the job.

    Returns:
        One `Led` for each wanted partition, in the order of their numbers.

    Raises:
        ConfigError: the settings name another cluster than that of the storage.
        ReplicaError: no broker answers, or there is no such topic or partition.
        FindingsTableError, PauseError: what is on record cannot be read.
    """
    settings = with_cluster(settings)
    with closing(ReplicaClient(settings.kafka, timeout_ms=settings.read.request_timeout_ms)) as client:
        found = client.metadata([topic])[topic]
    if found.error is not None:
        raise found.error
    for number in partitions:
        if number not in found.partitions:
            raise UnknownTopic(f"it has no partition {number}; check its number", topic=topic)
    wanted = {
        TopicPartition(topic, number): one
        for number, one in found.partitions.items()
        if not partitions or number in partitions
    }
    return led(settings, wanted, shell)


def led(settings: Settings, wanted: Mapping[TopicPartition, PartitionMetadata], shell: Shell = ANYWHERE) -> list[Led]:
    """Return a `Led` for each of some partitions, in their order. Reads the job's tables and asks no broker.

    Args:
        settings: the job's settings, with the id of its cluster.
        wanted: the partitions, each with its metadata.
        shell: how commands in reasons name the job.

    Raises:
        FindingsTableError, PauseError: what is on record cannot be read.
    """
    told = known(settings, wanted.keys(), shell)
    findings: dict[TopicPartition, list[Finding]] = {}
    for finding in told.findings:
        findings.setdefault(finding.place, []).append(finding)
    return [
        Led(
            place,
            one.leader,
            one.replicas,
            one.isr,
            told.fitness(place, one.replicas),
            no_other=_no_other(one.replicas, findings[place], told.starts(place)) if place in findings else (),
        )
        for place, one in wanted.items()
    ]


def _no_other(replicas: Sequence[int], findings: Collection[Finding], starts: Mapping[int, int]) -> tuple[str, ...]:
    """What a plan that only changes who leads would lack (`parallax.repair.leadership`), by what is on record."""
    found, missing = sides_by_findings(replicas, claims(findings), NOTHING_SAID)
    if found is not None and starts:
        late = {one: begins_apart(one, why) for one in found.sources if (why := begins_late(starts, one))}
        found, missing = without(found, late, missing)
    return () if found is not None else tuple(missing)


def exit_code(found: Sequence[Led]) -> int:
    """The exit code of ``parallax lead``.

    It is 1 if some replica must not lead. Else it is 3 if some replica is unknown, and 0 if all may lead.
    """
    return EXIT_CODES[worst(fitness for one in found for fitness in one.fitness.values())]


def document(one: Led) -> dict[str, Any]:
    """Who leads a partition, and which replicas may, as values that JSON can hold."""
    return {
        "topic": one.place.topic,
        "partition": one.place.partition,
        "leader": one.leader,
        "preferred_election_moves_to": one.preferred,
        "replicas": [
            {
                "broker": broker,
                "in_sync": broker in one.isr,
                "may_lead": str(one.fitness[broker].may),
                "why": list(one.fitness[broker].why),
            }
            for broker in one.replicas
        ],
        "warnings": one.warnings,
    }


def in_words(one: Led, shell: Shell) -> str:
    """Who leads a partition, and which replicas may, as lines of text for people.

    If a replica must not lead, the text has the command that keeps it from leading, or says why there is none.
    """
    lines = [f"{one.place.name}: {_leader(one)}"]
    for broker in one.replicas:
        sync = "" if broker in one.isr else ", not in sync"
        lines.append(f"  broker {broker}{sync}: {one.fitness[broker].in_words}")
    lines += [f"  {warning}" for warning in one.warnings]
    if any(fitness.may is May.UNSAFE for fitness in one.fitness.values()):
        where = ("--topic", one.place.topic, "--partition", one.place.partition)
        command = shell.parallax("repair", "plan", *where, "--lead", "-o", "lead.plan")
        once = "" if set(one.replicas) <= set(one.isr) else ", once every replica is in sync"
        lines += [f"  {text}" for text in one.no_other] or [f"  To keep it from leading{once}: {command}"]
    return "\n".join(lines)


def _leader(one: Led) -> str:
    if one.leader < 0:
        return "no broker leads it"
    is_first = one.replicas[:1] == (one.leader,)
    return (
        f"broker {one.leader} leads{', and is preferred' if is_first else f', broker {one.replicas[0]} is preferred'}"
    )


__all__ = ["EXIT_CODES", "document", "exit_code", "in_words", "led", "look"]
