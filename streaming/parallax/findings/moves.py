"""The reassignments, in order, by which wrong replicas are replaced by new copies of a right one. No IO.

A new copy is taken from the leader, so a right replica has to lead first. An election of the preferred leader makes the
first replica of the assignment the leader. So a right one must be first until the others are right. Otherwise the
replicas keep their assigned order.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from parallax.model import TopicPartition
from parallax.shell import Shell, file_from


class Purpose(StrEnum):
    """Why a partition is reassigned."""

    LEAD = "lead"
    """A right replica comes first and is elected; nothing is copied."""
    DROP = "drop"
    """A wrong replica gives up its copy; if too few would be left, another broker copies first."""
    COPY = "copy"
    """It gets the partition again, and copies all of it from the leader."""
    ORDER = "order"
    """The replicas get back their assigned order; nothing is copied."""


@dataclass(frozen=True, slots=True)
class Move:
    """One reassignment of a partition, with who leads after it and which copies are deleted or made.

    Attributes:
        purpose: why the partition is reassigned.
        replicas: the brokers that hold the partition afterwards, the preferred leader first.
        is_new: whether ``replicas`` differs from the assignment before.
        elects: whether the preferred leader is elected afterwards.
        gone: the brokers whose copy is deleted.
        copied: the brokers that copy the partition.
    """

    purpose: Purpose
    replicas: tuple[int, ...]
    is_new: bool = True
    elects: bool = False
    gone: tuple[int, ...] = ()
    copied: tuple[int, ...] = ()

    def as_json(self, place: TopicPartition) -> str:
        """Return the reassignment in the JSON form that kafka-reassign-partitions.sh reads."""
        partition = {"topic": place.topic, "partition": place.partition, "replicas": list(self.replicas)}
        return json.dumps({"version": 1, "partitions": [partition]})

    def command(self, place: TopicPartition, shell: Shell) -> str:
        """Return the shell lines that carry out this reassignment with Kafka's own tools."""
        lines = self._assign(place, shell) if self.is_new else []
        if self.elects:
            election = f"--election-type preferred --topic {shlex.quote(place.topic)} --partition {place.partition}"
            lines.append(f"kafka-leader-election.sh {shell.brokers('--admin.config')} {election}")
        return "\n".join(lines)

    def _assign(self, place: TopicPartition, shell: Shell) -> list[str]:
        file = f"parallax-{place.topic}-{place.partition}-{self._name}.json"
        tool = f"kafka-reassign-partitions.sh {shell.brokers()} --reassignment-json-file {file}"
        lines = [file_from(file, self.as_json(place)), f"{tool} --execute"]
        is_awaited = self.gone or self.copied
        return [*lines, f"{tool} --verify"] if is_awaited else lines

    @property
    def _name(self) -> str:
        if self.purpose is Purpose.DROP:
            return f"without-{self.gone[0]}"
        return "as-before" if self.purpose is Purpose.ORDER else "all"


FEWEST = 2
"""So many replicas must be left while one has no copy: with only one, a failing disk takes everything."""


def first_of(assigned: Sequence[int], leader: int, sources: Collection[int]) -> int:
    """Return the right replica that should lead while the others copy it, so that as little as possible changes.

    The preferred leader comes first, then the present leader, then the order of assignment.

    Args:
        assigned: the replicas as they are assigned, the preferred leader first.
        leader: the broker that leads now.
        sources: the brokers whose replicas are right; at least one is assigned.
    """
    return next(broker for broker in (assigned[0], leader, *assigned) if broker in sources)


def leading(assigned: Sequence[int], first: int, wrong: Collection[int]) -> Move:
    """Return the reassignment by which a right replica leads, and wrong ones are elected only if no other is in sync.

    The controller elects the first replica of the assignment that is in sync, and an election of preferred leaders only
    the very first. So the wrong ones come last.

    Args:
        assigned: the replicas as they are assigned, the preferred leader first.
        first: the broker that is to lead, which is right.
        wrong: the replicas that are to be kept from leading.
    """
    order = tuple(sorted(assigned, key=lambda broker: (broker in wrong, broker != first)))
    return Move(Purpose.LEAD, order, is_new=order != tuple(assigned), elects=True)


def copying(
    assigned: Sequence[int], leader: int, wrong: Sequence[int], first: int, spare: int | None = None
) -> tuple[Move, ...]:
    """Return the reassignments by which wrong replicas are copied from a right one, one after the other.

    Args:
        assigned: the replicas as they are assigned, the preferred leader first.
        leader: the broker that leads now; -1 where that is not known.
        wrong: the replicas that are copied again.
        first: the broker with a right replica, which leads until all are right.
        spare: a broker that holds no replica, and replaces each wrong one for a while; None where the others are
            enough.
    """
    back = (first, *(broker for broker in assigned if broker != first))
    made = []
    if leader != first:
        made.append(Move(Purpose.LEAD, back, is_new=back != tuple(assigned), elects=True))
    for broker in (one for one in back if one in wrong):
        instead = () if spare is None else (spare,)
        away = tuple(other for one in back for other in (instead if one == broker else (one,)))
        made.append(Move(Purpose.DROP, away, gone=(broker,), copied=instead))
        made.append(Move(Purpose.COPY, back, gone=instead, copied=(broker,)))
    if assigned[0] in wrong:  # once it is right, and not before, it may be the preferred leader again
        made.append(Move(Purpose.ORDER, tuple(assigned)))
    return tuple(made)


__all__ = ["FEWEST", "Move", "Purpose", "copying", "first_of", "leading"]
