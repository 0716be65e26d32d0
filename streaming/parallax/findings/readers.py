"""Finds out which consumer groups may have read the offsets that a finding is about.

It asks the brokers for the groups' committed offsets. Only a command that a person runs does so; the job never does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from parallax.counts import counted, named
from parallax.errors import one_line
from parallax.findings.exposure import (
    Came,
    Reign,
    Span,
    WrongLeader,
    affected,
    came,
    committed_since,
    led_in_words,
    wrong_leaders,
)
from parallax.findings.finding import Finding
from parallax.findings.led import FAILURES, led_around
from parallax.model import TopicPartition
from parallax.replica.errors import ReplicaError
from parallax.replica.groups import GROUP_RIGHT

_TOGETHER = 200
"""How many groups one request asks a coordinator about."""


class GroupCoordinators(Protocol):
    """The requests about consumer groups that this module sends to brokers; `ReplicaClient` implements them."""

    def brokers(self) -> Mapping[int, object]:
        """The brokers of the cluster by id (`ReplicaClient.brokers`)."""
        ...

    def groups(self, broker: int) -> list[str]:
        """The ids of the consumer groups that a broker coordinates (`ReplicaClient.groups`)."""
        ...

    def committed(self, broker: int, ids: Sequence[str], place: TopicPartition) -> Mapping[str, int | ReplicaError]:
        """By group id, the offset that a consumer group has committed of a partition (`ReplicaClient.committed`).

        A group that has committed none is left out. If a group cannot be asked about, its value is the error.

        Args:
            broker: the coordinator of the groups.
            ids: the groups' ids.
            place: the partition.
        """
        ...

    def may_describe_groups(self) -> bool:
        """Whether this process may describe consumer groups (`ReplicaClient.may_describe_groups`)."""
        ...


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group that has committed an offset of the finding's partition.

    Attributes:
        name: the group's id.
        committed: the offset that it has committed: that of the record that it reads next.
        came: whether ``committed`` is before, among or past the offsets that the finding is about.
        since: for a group that is past these offsets: the periods in which a wrong replica led, and which had begun
            when the group committed.
    """

    name: str
    committed: int
    came: Came
    since: tuple[Reign, ...] = ()

    @property
    def in_words(self) -> str:
        """How far the group has read, compared with the offsets that the finding is about, as a sentence."""
        began = " and ".join(f"broker {one.broker} began to lead ({one.epochs_in_words})" for one in self.since)
        return f"Group {self.name} {_WORDS[self.came].format(began=began)} (committed offset {self.committed})."


@dataclass(frozen=True, slots=True)
class Readers:
    """Which consumers may have read what a finding calls wrong.

    Attributes:
        led: when a wrong replica led, and what consumers could read there, in sentences.
        leaders: each period in which a wrong replica led, with what is known of that replica then.
        groups: the consumer groups that have committed offsets of the partition, by name.
        unknown: why there may be more groups, in sentences.
    """

    led: tuple[str, ...]
    leaders: tuple[WrongLeader, ...]
    groups: tuple[ConsumerGroup, ...]
    unknown: tuple[str, ...] = ()


def readers(client: GroupCoordinators, storage: str, finding: Finding) -> Readers:
    """Find out from all brokers how far consumer groups have read a finding's partition. Changes nothing.

    Args:
        client: asks the cluster.
        storage: ``storage.path``.
        finding: the last event of the finding.

    Raises:
        Unreachable: no broker answers.
    """
    unknown: list[str] = []
    try:
        found = led_around(storage, finding)
    except FAILURES as error:
        found = []
        unknown.append(f"The recorded progress cannot be read ({one_line(error)}): who led when is not known.")
    leaders = tuple(wrong_leaders(finding, found))
    reigns = tuple(one.reign for one in leaders)
    span = affected(finding)
    offsets = _committed(client, finding.place, unknown)
    groups = tuple(_group(name, at, span, reigns) for name, at in sorted(offsets.items()))
    return Readers(led_in_words(finding, found).sentences, leaders, groups, tuple(unknown))


def _group(name: str, committed: int, span: Span, wrong: tuple[Reign, ...]) -> ConsumerGroup:
    how_far = came(committed, span, wrong)
    return ConsumerGroup(
        name, committed, how_far, committed_since(committed, wrong) if how_far is Came.PAST_SINCE else ()
    )


def _committed(client: GroupCoordinators, place: TopicPartition, unknown: list[str]) -> dict[str, int]:
    """By group, its committed offset; what could not be asked is said in ``unknown``."""
    found: dict[str, int] = {}
    failed: dict[str, str] = {}
    if not client.may_describe_groups():
        unknown.append(f"{GROUP_RIGHT} is not granted: brokers list only groups that it is granted on.")
    for broker in sorted(client.brokers()):
        try:
            ids = client.groups(broker)
            for start in range(0, len(ids), _TOGETHER):
                for group, at in client.committed(broker, ids[start : start + _TOGETHER], place).items():
                    if isinstance(at, int):
                        found[group] = at
                    else:
                        failed[group] = one_line(at.problem)
        except ReplicaError as error:
            unknown.append(f"Groups of which broker {broker} is the coordinator are not known ({one_line(error)}).")
    if left := sorted(failed.keys() - found.keys()):
        unknown.append(f"Of {counted(len(left), 'group')} it is not known ({named(left)}: {failed[left[0]]}).")
    return found


_WORDS = {
    Came.PAST_SINCE: "is past it, and has committed since {began}: it may have read it there",
    Came.WITHIN: "is among these offsets",
    Came.PAST: "is past it: when it read it, and from which replica, is not known",
    Came.NOT_YET: "has not come to it",
}
"""What is said of a group, the gravest first."""


def in_words(found: Readers) -> str:
    """Return a text for people: which consumers may have read what a finding calls wrong."""
    order = list(_WORDS)
    lines = [*found.led]
    lines += [one.in_words for one in sorted(found.groups, key=lambda one: (order.index(one.came), one.name))]
    if not found.groups:
        lines.append("No consumer group is known to have committed an offset of the partition.")
    return "\n".join([*lines, *found.unknown, _NOT_KNOWN])


_NOT_KNOWN = "Consumers that commit no offsets to Kafka are not known here."


def _between(after: datetime | None, by: datetime | None) -> dict[str, str | None]:
    return {name: None if at is None else at.isoformat() for name, at in (("after", after), ("by", by))}


def document(found: Readers) -> dict[str, Any]:
    """Return a JSON-able dict: which consumers may have read what a finding calls wrong."""
    return {
        "led": [
            {
                "broker": one.reign.broker,
                "showed_it": str(one.showed),
                "leader_epochs": list(one.reign.epochs),
                "began": _between(*one.reign.began),
                "ended": _between(*one.reign.ended),
            }
            for one in found.leaders
        ],
        "groups": [
            {
                "group": group.name,
                "committed_offset": group.committed,
                "came": str(group.came),
                "committed_since_leader_epochs": [list(reign.epochs) for reign in group.since],
            }
            for group in found.groups
        ],
        "unknown": list(found.unknown),
    }


__all__ = ["ConsumerGroup", "GroupCoordinators", "Readers", "document", "in_words", "readers"]
