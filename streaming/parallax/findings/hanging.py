"""Decides which open transactions hang: no transaction coordinator will ever end them.

Its input is what a partition's leader lists as open, and what the coordinators answered. It answers what
``kafka-transactions.sh find-hanging`` answers (KIP-664).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from parallax.model import TopicPartition
from parallax.moments import time_text
from parallax.replica.types import ProducerState, TransactionListing
from parallax.shell import Shell


class Standing(StrEnum):
    """Whether an open transaction will end, as far as the transaction coordinators' answers say."""

    GOES_ON = "goes on"
    """Its coordinator will end it."""
    HANGS = "hangs"
    """No coordinator will end it."""
    HIDDEN = "hidden"
    """No coordinator lists it. One may still know it, because Parallax may lack the permission DESCRIBE on
    transactional ids.
    """
    UNKNOWN = "unknown"
    """A coordinator or the leader did not answer, or who coordinates transactions is not known."""


@dataclass(frozen=True, slots=True)
class Open:
    """One transaction that the leader of a partition holds open, as DescribeProducers lists it."""

    place: TopicPartition
    leader: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: int

    @property
    def identity(self) -> tuple[TopicPartition, int, int]:
        """The transaction's partition, producer id and first offset.

        Two answers that are equal in these list the same transaction.
        """
        return self.place, self.producer_id, self.start_offset


@dataclass(frozen=True, slots=True)
class Prospect:
    """Whether one open transaction will end, and why.

    Attributes:
        standing: whether it will end.
        why: the reason, as a clause.
        started: when the transaction began according to its coordinator, seconds since 1970 UTC; None where no
            coordinator lists it for this partition.
    """

    standing: Standing
    why: str
    started: float | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorsSay:
    """What all transaction coordinators together answered about some producers.

    Attributes:
        transactions: the producers' transactions, as coordinators list them, those that are over first. One that is
            not comes a second time, with its partitions, if its coordinator has described it, behind all others.
        unanswered: by coordinator that did not answer, the reason. Under -1 it says why they are not known.
    """

    transactions: tuple[TransactionListing, ...] = ()
    unanswered: Mapping[int, str] = field(default_factory=dict)

    @property
    def silent(self) -> str:
        """The reasons why coordinators did not answer, in one text; empty only where all have answered."""
        return "; ".join(self.unanswered.values())


def opened(place: TopicPartition, leader: int, states: object) -> list[Open]:
    """Return the transactions that a leader lists as open for a partition.

    Args:
        place: the partition.
        leader: broker id of its leader.
        states: the answer of `ReplicaClient.describe_producers`; an error counts as no transaction.
    """
    found: Sequence[ProducerState] = states if isinstance(states, list) else ()
    return [
        Open(
            place,
            leader,
            one.producer_id,
            one.producer_epoch,
            one.current_transaction_start_offset,
            one.last_timestamp,
        )
        for one in found
        if one.current_transaction_start_offset >= 0
    ]


def judge(one: Open, told: CoordinatorsSay, *, may_describe: bool | None) -> Prospect:
    """Return whether an open transaction will end, from what the coordinators answered; pure.

    The parameter ``one`` is the transaction, as its leader lists it. ``told`` is what the coordinators answered after
    it was seen open. ``may_describe`` is whether Parallax has the permission DESCRIBE on all transactional ids; None
    where that is not known.
    """
    mine = [listing for listing in told.transactions if listing.producer_id == one.producer_id]
    if not mine:
        if told.silent:
            return Prospect(Standing.UNKNOWN, f"not every coordinator is known to have answered ({told.silent})")
        if may_describe:
            return Prospect(Standing.HANGS, "no coordinator knows its producer")
        problem = "no coordinator lists its producer: it hangs, or DESCRIBE on its transactional id is missing"
        return Prospect(Standing.HIDDEN, problem)
    listing = mine[-1]
    by = f"the coordinator (broker {listing.coordinator}) says {listing.state} of {listing.transactional_id!r}"
    if one.place in (listing.partitions or ()):
        return Prospect(Standing.GOES_ON, by, listing.started_ms / 1000 if listing.started_ms > 0 else None)
    if told.silent:
        return Prospect(Standing.UNKNOWN, f"{by}, and not every coordinator is known to have answered ({told.silent})")
    if listing.partitions is not None:
        return Prospect(Standing.HANGS, f"{by}, and this partition is not part of it")
    if listing.is_over:
        return Prospect(Standing.HANGS, f"{by}, and will write no end marker here")
    return Prospect(Standing.UNKNOWN, f"{by}, and not of which partitions")


def held_back(one: Open) -> str:
    """Return a sentence that says from which offset on consumers get nothing because of an open transaction."""
    return (
        f"read_committed consumers of {one.place.name} get nothing from offset "
        f"{one.start_offset} on, and compaction cannot pass it."
    )


def described(one: Open) -> str:
    """Return a clause about an open transaction: its producer, first offset, and last batch's timestamp."""
    at = (
        "" if one.last_timestamp_ms <= 0 else f", whose last batch has the timestamp {time_text(one.last_timestamp_ms)}"
    )
    return f"a transaction of producer {one.producer_id} is open from offset {one.start_offset} on{at}"


def abort_command(place: TopicPartition, start_offset: int, shell: Shell) -> str:
    """Return the command of Kafka's tools that aborts a transaction which the leader holds open.

    Running this command hides the transaction's records from read_committed consumers.

    Args:
        place: the partition.
        start_offset: the transaction's first offset.
        shell: the options with which the command names the cluster.
    """
    where = shlex.join(["--topic", place.topic, "--partition", str(place.partition)])
    return f"kafka-transactions.sh {shell.brokers()} abort {where} --start-offset {start_offset}"


def how_to_end(one: Open, shell: Shell) -> str:
    """Return sentences on how to end a hanging transaction, with the commands to commit it or to abort it.

    Args:
        one: the transaction.
        shell: how the commands name the cluster and the job.
    """
    said = "--outcome", "commit", "--offset", one.start_offset
    place = "--topic", one.place.topic, "--partition", one.place.partition
    commit = shell.parallax("repair", "plan", *place, *said)
    return (
        f"If its records were meant to be committed, plan that: {commit}. If none of them was, "
        f"end it: {abort_command(one.place, one.start_offset, shell)}"
    )


__all__ = [
    "CoordinatorsSay",
    "Open",
    "Prospect",
    "Standing",
    "abort_command",
    "described",
    "held_back",
    "how_to_end",
    "judge",
    "opened",
]
