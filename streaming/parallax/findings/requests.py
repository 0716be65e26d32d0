"""The vocabulary of a probe: what can be asked of the cluster and of one replica, and the form of the answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from parallax.findings.answers import KeyShown, MarkerShown, RecordShown
from parallax.findings.claim import Claim
from parallax.findings.keys import Key
from parallax.model import IsolationLevel, TopicPartition


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """A partition by the cluster's metadata.

    Attributes:
        gone: why the partition does not exist; None where it does.
        error: why the cluster did not say; the other fields then mean nothing.
    """

    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    leader: int = -1
    topic_id: str = ""
    leader_epoch: int = -1
    gone: str | None = None
    error: str | None = None

    def gone_for(self, claim: Claim) -> str | None:
        """Why a claim has lost its object; None where it stands."""
        if self.gone is None and not claim.is_of(self.topic_id):
            return f"the topic {claim.topic} was deleted and re-created"
        if self.gone is None and claim.pivot not in self.replicas and not claim.is_about_all:
            return f"broker {claim.pivot} holds no replica of {claim.topic}-{claim.partition} any more"
        return self.gone

    def pivot_of(self, claim: Claim) -> int:
        """The replica that is asked last: the claim's own, as long as it is one, or no other can be wrong as well.

        What is about all replicas does not end with one of them. One that can be asked takes its place: one that stood
        beside it, or on another side, before one that came later.
        """
        own, sides = claim.pivot, claim.recorded.sides.values()
        is_standing = self.gone is None and claim.is_of(self.topic_id)
        if own in self.replicas or not (self.replicas and is_standing and claim.may_be_of_others):
            return own
        beside = {broker for side in sides if own in side for broker in side}
        stood = {broker for side in sides for broker in side}
        return min(self.replicas, key=lambda b: (b not in self.isr, b not in beside, b not in stood, b))


@dataclass(frozen=True, slots=True)
class Wants:
    """The questions to each replica of one partition.

    Attributes:
        offsets: where records are asked for, in both isolation levels.
        markers: where end markers are asked for.
        aborted_from: offsets to fetch from for the list of aborted transactions.
        producers: whether open transactions are asked for.
        keys: whose newest visible record is asked for.
        epochs: leader epochs whose end is asked for.
        replicas: all replicas of the partition, whose recorded history may be looked up for the keys.
    """

    topic: str
    partition: int
    offsets: frozenset[int] = frozenset()
    markers: frozenset[int] = frozenset()
    aborted_from: frozenset[int] = frozenset()
    producers: bool = False
    keys: frozenset[Key] = frozenset()
    epochs: frozenset[int] = frozenset()
    replicas: tuple[int, ...] = ()

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


# What is asked of the cluster.


@dataclass(frozen=True, slots=True)
class Where:
    """Where the partition is. Answered by `Whereabouts`."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Coordinators:
    """Ask the transaction coordinators about producer ids. Answered by a mapping of each to a `CoordinatorAnswer`.

    Attributes:
        place: the partition that their transactions are asked for.
    """

    producer_ids: tuple[int, ...]
    place: TopicPartition


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask replicas, side by side. Answered by a mapping of each broker to its `Reading`: see `reading`."""

    brokers: tuple[int, ...]
    wants: Wants


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction whose records are wanted.

    Attributes:
        start: its first offset.
        end: offset of its end marker.
        limit: how many records are wanted at most.
    """

    producer_id: int
    start: int
    end: int
    limit: int


@dataclass(frozen=True, slots=True)
class Transactions:
    """Which records of transactions the views recorded, of any replica. Answered by `TransactionRecords` of each.

    Of all that one probe is about at once: it costs a pass over what was recorded.
    """

    topic: str
    partition: int
    of: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class TransactionRecords:
    """Of one of the `Transactions`: the records with a key, of each key the last one.

    Attributes:
        records: offset and key of each, in the order of offsets.
        left_out: how many more there are.
        error: why the views did not say, or may know of others no more; None where they said.
    """

    records: tuple[tuple[int, Key], ...] = ()
    left_out: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Recreated:
    """Whether the views recorded, since a time, that a replica's log is another one. Answered by a bool.

    Attributes:
        since_ms: milliseconds since 1970 UTC.
    """

    topic: str
    partition: int
    broker: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Policy:
    """The setting ``cleanup.policy`` of a topic. Answered by its value; by None where the cluster does not say."""

    topic: str


Question = Where | Coordinators | Ask | Transactions | Recreated | Policy


# What is asked of one replica. Answering may raise; then the replica has not answered at all.


@dataclass(frozen=True, slots=True)
class Marks:
    """The answer to `Ends`: the offsets that ListOffsets gives for one replica."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the log begins and ends. Answered by `Marks`."""


@dataclass(frozen=True, slots=True)
class Producers:
    """The open transactions (DescribeProducers). Answered by a tuple of them, or by text: why it does not say."""


@dataclass(frozen=True, slots=True)
class Points:
    """The records and end markers at single offsets. Answered by `PointsShown`."""

    offsets: frozenset[int]
    isolation: IsolationLevel


@dataclass(frozen=True, slots=True)
class PointsShown:
    """The answer to `Points`; an offset that holds neither is in neither. ``key_bytes`` where the payload is read.

    Attributes:
        epochs: by the offsets asked for, the leader epoch of the first record or batch that is left there or above.
    """

    records: Mapping[int, RecordShown] = field(default_factory=dict)
    markers: tuple[MarkerShown, ...] = ()
    key_bytes: Mapping[Key, bytes] = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Aborted:
    """The aborted transactions that a read_committed Fetch from an offset lists: (producer id, first offset) each."""

    offset: int


@dataclass(frozen=True, slots=True)
class Keys:
    """The newest visible record of each of ``wants.keys`` in ``[start, end)``. Answered by `KeysShown`.

    Attributes:
        held: by a key's hash as text, offsets of records that the replica has just shown.
    """

    start: int
    end: int
    held: Mapping[str, Collection[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeysShown:
    """The answer to `Keys`; ``error`` says why a key is missing, or not complete."""

    keys: Mapping[Key, KeyShown] = field(default_factory=dict)
    key_bytes: Mapping[Key, bytes] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class EndOfEpoch:
    """Up to where the log is of a leader epoch or an older one (OffsetsForLeaderEpoch).

    Answered by the largest epoch up to that one that the log knows and where that ends; by None where the log knows
    neither that epoch nor a newer one; by text: why it does not say.
    """

    epoch: int


Request = Ends | Producers | Points | Aborted | Keys | EndOfEpoch
