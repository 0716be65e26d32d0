"""What a probe can ask of the cluster and of one replica, and the form of the answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from parallax.findings.answers import KeyShown, MarkerShown, RecordShown
from parallax.findings.claim import Claim
from parallax.findings.keys import Key
from parallax.model import IsolationLevel, TopicPartition


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What the cluster's metadata says of a partition's replicas and leader.

    Attributes:
        replicas: the brokers that hold it, in the order of assignment.
        isr: those of them that are in sync.
        leader: node id; -1 where there is none.
        topic_id: of its topic; empty where it is not known.
        leader_epoch: the epoch in which it leads; -1 where it is not known.
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
        """Return why what a claim is about no longer exists; None where it does."""
        if self.gone is None and not claim.is_of(self.topic_id):
            return f"the topic {claim.topic} was deleted and re-created"
        if self.gone is None and claim.pivot not in self.replicas and not claim.is_about_all:
            return f"broker {claim.pivot} holds no replica of {claim.topic}-{claim.partition} any more"
        return self.gone

    def pivot_of(self, claim: Claim) -> int:
        """Return the replica that a probe of a claim asks last.

        It is the claim's own pivot, as long as that is a replica, or if no other can be wrong as well. A claim about
        all replicas does not end with one of them: another takes its place. A replica in sync comes first. Then comes
        one that was on its side, then one that was on another side, then the rest.
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
    """What a probe wants to know of each replica of one partition.

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
        """The partition that the questions are about."""
        return TopicPartition(self.topic, self.partition)


# Questions to the cluster.


@dataclass(frozen=True, slots=True)
class Where:
    """Ask for the partition's replicas and leader. Answered by `Whereabouts`."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Coordinators:
    """Ask the transaction coordinators about producer ids. Answered by a mapping of each to a `CoordinatorAnswer`.

    Attributes:
        producer_ids: the producers.
        place: the partition for which their transactions are asked about.
    """

    producer_ids: tuple[int, ...]
    place: TopicPartition


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask several replicas at the same time. Answered by a mapping of each broker to its `Reading`."""

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
    """Ask which records of transactions the views recorded, of any replica. Answered by `TransactionRecords` of each.

    One question covers all transactions of a probe, because it costs a pass over what was recorded.
    """

    topic: str
    partition: int
    of: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class TransactionRecords:
    """The records with a key of one of the `Transactions`, of each key the last one.

    Attributes:
        records: offset and key of each, in the order of offsets.
        left_out: how many more there are.
        error: why the views did not say, or may no longer know all; None where they said.
    """

    records: tuple[tuple[int, Key], ...] = ()
    left_out: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Recreated:
    """Ask whether the views recorded, since a time, that a replica's log is another one. Answered by a bool.

    Attributes:
        since_ms: milliseconds since 1970 UTC.
    """

    topic: str
    partition: int
    broker: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Policy:
    """Ask for the ``cleanup.policy`` of a topic. Answered by its value; by None where the cluster does not say."""

    topic: str


Question = Where | Coordinators | Ask | Transactions | Recreated | Policy


# Questions to one replica. Answering may raise; then the replica has not answered at all.


@dataclass(frozen=True, slots=True)
class Marks:
    """The answer to `Ends`: the offsets that ListOffsets gives for one replica."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Ends:
    """Ask where the log begins and ends. Answered by `Marks`."""


@dataclass(frozen=True, slots=True)
class Producers:
    """Ask for the open transactions (DescribeProducers). Answered by a tuple of them, or by text: why not."""


@dataclass(frozen=True, slots=True)
class Points:
    """Ask for the records and end markers at single offsets. Answered by `PointsShown`."""

    offsets: frozenset[int]
    isolation: IsolationLevel


@dataclass(frozen=True, slots=True)
class PointsShown:
    """The answer to `Points`: by offset, a record or an end marker; an offset with neither is missing.

    ``key_bytes`` is filled where the payload is read.

    Attributes:
        epochs: by offset asked for: the leader epoch of the first record or batch that is left there or above.
    """

    records: Mapping[int, RecordShown] = field(default_factory=dict)
    markers: tuple[MarkerShown, ...] = ()
    key_bytes: Mapping[Key, bytes] = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Aborted:
    """Ask for the aborted transactions that a read_committed Fetch from an offset lists.

    Answered by (producer id, first offset) of each.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Keys:
    """Ask for the newest visible record of each key of ``wants`` in ``[start, end)``. Answered by `KeysShown`.

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
    """Ask up to which offset the log is of a leader epoch or an older one (OffsetsForLeaderEpoch).

    The answer is the largest epoch that the log knows, up to the one asked for, and where it ends. It is None where the
    log knows neither that epoch nor a newer one. It is text if the replica does not say, and why.
    """

    epoch: int


Request = Ends | Producers | Points | Aborted | Keys | EndOfEpoch
