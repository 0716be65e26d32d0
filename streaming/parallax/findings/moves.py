"""Plans the reassignments that replace wrong replicas of a partition by new copies of a right one. No IO.

A new copy is taken from the leader, so a right replica has to lead first. An election of the preferred leader makes the
first replica of the assignment the leader. So a right one must be first until no replica is wrong. *Example.* Brokers
2, 1 and 3 are assigned, and 2 is wrong: 1 is put first and elected, 2 is removed and added again, and last comes the
old order.
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
    """Why one step of the plan reassigns a partition."""

    LEAD = "lead"
    """A right replica comes first and is elected; nothing is copied."""
    DROP = "drop"
    """A broker with a wrong replica deletes it; if too few would be left, another broker copies first."""
    COPY = "copy"
    """The broker that deleted its replica before (`DROP`) gets the partition again, and copies it from the leader."""
    ORDER = "order"
    """The replicas get back their assigned order; nothing is copied."""


@dataclass(frozen=True, slots=True)
class Move:
    """One reassignment of a partition, with the election after it and the copies that it deletes and makes.

    Attributes:
        purpose: why the partition is reassigned.
        replicas: the brokers that hold the partition afterwards, the preferred leader first.
        is_new: whether ``replicas`` differs from the assignment before; if not, there is only an election.
        elects: whether the preferred leader is elected afterwards.
        gone: the brokers whose copy is deleted.
        copied: the brokers that copy the partition from the leader.
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
"""So many replicas must be left while one is copied again. If only one is left, a failing disk takes everything."""


def first_of(assigned: Sequence[int], leader: int, sources: Collection[int]) -> int:
    """Return the broker with a right replica that should lead while the wrong ones are copied again.

    The preferred leader is best, then the present leader, then the first in the assignment. So as little as possible
    changes.

    Args:
        assigned: the replicas as they are assigned, the preferred leader first.
        leader: the broker that leads now.
        sources: the brokers whose replicas are right; at least one is assigned.
    """
    return next(broker for broker in (assigned[0], leader, *assigned) if broker in sources)


def leading(assigned: Sequence[int], first: int, wrong: Collection[int]) -> Move:
    """Return the reassignment that makes a right replica the leader, and puts wrong replicas last.

    The controller elects the first replica of the assignment that is in sync. So a wrong one is elected only if no
    other is in sync.

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
    """Return the reassignments that replace wrong replicas by copies of a right one, one after the other.

    Args:
        assigned: the replicas as they are assigned, the preferred leader first.
        leader: the broker that leads now; -1 where that is not known.
        wrong: the replicas that are copied again.
        first: the broker with a right replica, which leads until all are right.
        spare: a broker without a replica, which holds one while a wrong one is away; None if enough are left without
            it.
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
