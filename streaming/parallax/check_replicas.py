"""A part of ``parallax check``: replicas that do not answer, are out of sync, or whose disk is offline."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from parallax.check_line import Line, Result, some
from parallax.counts import counted
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient, TopicMetadata
from parallax.replica.errors import ReplicaError, Unauthorized


def silent_replicas(broker: int, answers: Mapping[TopicPartition, object]) -> Iterator[Line]:
    """Yield a line for each reason why replicas of a broker cannot be read although the broker answers.

    A missing permission is left out, since the line about its topic says it.

    Args:
        broker: the broker's id.
        answers: by partition, what its replica answered, or the error.
    """
    by_reason: dict[str, list[str]] = {}
    for place, answer in answers.items():
        if isinstance(answer, ReplicaError) and not isinstance(answer, Unauthorized):
            by_reason.setdefault(answer.problem, []).append(place.name)
    for problem, names in by_reason.items():
        count = f"{len(names):,} of its {counted(len(answers), 'replica')} cannot be read"
        yield Line(f"broker {broker}", Result.WRONG, f"{count} ({some(sorted(names))}): {problem}.")


def log_directories(
    client: ReplicaClient, hosted: Mapping[int, Sequence[TopicPartition]], silent: Collection[int]
) -> Iterator[Line]:
    """Yield a line for each broker with an offline log directory.

    If no log directory is offline, one line says so. If brokers did not say, a last line names one of them and counts
    the others.

    Args:
        client: asks the brokers.
        hosted: by broker, the watched partitions of which it has a replica.
        silent: ids of brokers that do not answer, and so are not asked.
    """
    unknown: dict[int, ReplicaError] = {}
    count = 0
    found: dict[int, list[str]] = {}
    for broker in sorted(hosted.keys() - set(silent)):
        try:
            states = client.log_dir_states(broker)
        except ReplicaError as error:
            unknown[broker] = error
            continue
        count += len(states)
        if offline := sorted(path for path, is_online in states.items() if not is_online):
            found[broker] = offline
    for broker, paths in found.items():
        what = "its replicas there are lost to readers, and what they lack meanwhile may be gone for good"
        text = f"offline log directories: {some(paths)}; {what}. Look at the broker's log and disk."
        yield Line(f"broker {broker}", Result.WRONG, text)
    if count and not found:
        away = f"; {some([f'broker {broker}' for broker in sorted(silent)])} cannot be asked" if silent else ""
        yield Line("log directories", Result.FINE, f"all {count} on the brokers that answer are online{away}.")
    if unknown:
        (broker, why), *more = unknown.items()
        others = f", and {counted(len(more), 'more broker')}" if more else ""
        text = f"whether one is offline is not known of broker {broker}{others} ({why.problem})."
        yield Line("log directories", Result.NOTE, text)


def out_of_sync(topics: Sequence[TopicMetadata]) -> Iterator[Line]:
    """Yield lines about topics whose replicas are out of sync, or whose partitions have no leader."""
    for topic in sorted(topics, key=lambda one: one.name):
        behind: dict[int, list[str]] = {}
        leaderless = []
        for number, partition in topic.partitions.items():
            for broker in sorted(set(partition.replicas) - set(partition.isr)):
                behind.setdefault(broker, []).append(TopicPartition(topic.name, number).name)
            if partition.leader < 0:
                leaderless.append(TopicPartition(topic.name, number).name)
        for broker, names in sorted(behind.items()):
            text = f"broker {broker} is out of the ISR of {some(names)}."
            yield Line(f"topic {topic.name}", Result.NOTE, text)
        if leaderless:
            text = f"{some(leaderless)} has no leader: nobody can write to it or consume it."
            yield Line(f"topic {topic.name}", Result.NOTE, text)


__all__ = ["log_directories", "out_of_sync", "silent_replicas"]
