"""A part of ``parallax check``: open transactions that hang, or may hang."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from parallax.check_line import Line, Result
from parallax.config import Settings
from parallax.counts import agreed, counted
from parallax.findings.coordinators import STATES, coordinators, verdicts
from parallax.findings.hanging import Open, Standing, described, held_back, how_to_end, opened
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient, TopicMetadata
from parallax.replica.errors import ReplicaError, Unauthorized
from parallax.shell import Shell

_NAMED = 5
"""How many hanging transactions of a topic are named one by one."""
_SAMPLED = 20
"""How many partitions of a topic are asked for their producers."""


def coordinators_hidden(client: ReplicaClient, settings: Settings) -> Iterator[Line]:
    """Yield a line if Parallax has no permission to see which brokers coordinate transactions.

    Args:
        client: asks the brokers.
        settings: the job's settings.
    """
    known = coordinators(client, settings.read.request_timeout_ms)
    if isinstance(known, Unauthorized):
        problem = "without it nobody knows which brokers coordinate transactions, so whether one hangs is unknown"
        yield Line("transactions", Result.WRONG, f"DESCRIBE on {STATES} is missing: {problem}; grant it.")


def lost_transactions(
    client: ReplicaClient, settings: Settings, found: Mapping[str, Sequence[Open]], shell: Shell
) -> dict[str, list[Line]]:
    """By topic, the lines about its open transactions that hang, or may hang.

    Up to five that hang have a line each. Further ones, and those that may hang, are counted.

    Args:
        client: asks the transaction coordinators.
        settings: the job's settings.
        found: by topic, its open transactions (`open_transactions`).
        shell: how commands name the cluster and the job.
    """
    opened_now = [one for mine in found.values() for one in mine]
    becomes = verdicts(client, opened_now, settings.read.request_timeout_ms)
    said: dict[str, list[Line]] = {}
    for topic, mine in found.items():
        by_standing: dict[Standing, list[Open]] = {}
        for one in mine:
            if one in becomes:
                by_standing.setdefault(becomes[one].standing, []).append(one)
        lines = said.setdefault(topic, [])
        for one in by_standing.get(Standing.HANGS, [])[:_NAMED]:
            text = f"a transaction hangs: {described(one)}, and {becomes[one].why}. {held_back(one)}"
            lines.append(Line(f"topic {topic}", Result.WRONG, f"{text} {how_to_end(one, shell)}"))
        if more := by_standing.get(Standing.HANGS, [])[_NAMED:]:
            lines.append(
                Line(
                    f"topic {topic}",
                    Result.WRONG,
                    f"{counted(len(more), 'more transaction')} {agreed(len(more), 'hangs', 'hang')} in it.",
                )
            )
        if hidden := by_standing.get(Standing.HIDDEN):
            listed = agreed(len(hidden), "is", "are")
            problem = f"{listed} listed by no coordinator: hanging, or DESCRIBE on a transactional id is missing"
            count = counted(len(hidden), "open transaction")
            text = f"{count} {problem}; grant it on all transactional ids, and check again."
            lines.append(Line(f"topic {topic}", Result.WRONG, text))
        if unsure := by_standing.get(Standing.UNKNOWN):
            why = becomes[unsure[0]].why
            count = counted(len(unsure), "open transaction")
            text = f"whether {count} {agreed(len(unsure), 'hangs', 'hang')} is not known: {why}."
            lines.append(Line(f"topic {topic}", Result.UNKNOWN, text))
    return said


def open_transactions(
    client: ReplicaClient, topics: Sequence[TopicMetadata], silent: set[int]
) -> dict[str, list[Open]]:
    """By topic, the transactions that are open in its first 20 partitions, as their leaders say.

    Args:
        client: asks the brokers.
        topics: the topics.
        silent: ids of brokers that do not answer, and so are not asked.
    """
    asked: dict[int, list[TopicPartition]] = {}
    for topic in topics:
        for number, partition in list(topic.partitions.items())[:_SAMPLED]:
            if partition.leader >= 0 and partition.leader not in silent:
                asked.setdefault(partition.leader, []).append(TopicPartition(topic.name, number))
    found: dict[str, list[Open]] = {}
    for broker, places in asked.items():
        try:
            answers = client.describe_producers(broker, places)
        except ReplicaError:
            continue  # said of the broker
        for place, states in answers.items():
            if mine := opened(place, broker, states):
                found.setdefault(place.topic, []).extend(mine)
    return found


__all__ = ["coordinators_hidden", "lost_transactions", "open_transactions"]
