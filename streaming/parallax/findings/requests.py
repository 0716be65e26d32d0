"""The questions that a probe can ask the cluster or one replica, and the form of the answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from parallax.findings.answers import KeyShown, MarkerShown, RecordShown
from parallax.findings.claim import Claim
from parallax.findings.keys import Key
from parallax.model import IsolationLevel, TopicPartition
from parallax.sides import standing


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Which brokers hold a partition and which one leads, as the cluster's metadata says; the answer to `Where`.

    Attributes:
        replicas: the brokers that hold the partition, in the order of assignment.
        isr: the brokers of ``replicas`` that are in sync.
        leader: the broker that leads; -1 where there is none.
        topic_id: id of the topic; empty where it is not known.
        leader_epoch: the epoch in which ``leader`` leads; -1 where it is not known.
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
        """Return why a claim's topic, partition or replica no longer exists; None where all three do."""
        if self.gone is None and not claim.is_of(self.topic_id):
            return f"the topic {claim.topic} was deleted and re-created"
        if self.gone is None and claim.pivot not in self.replicas and not claim.is_about_all:
            return f"broker {claim.pivot} holds no replica of {claim.topic}-{claim.partition} any more"
        return self.gone

    def pivot_of(self, claim: Claim) -> int:
        """Return the broker whose replica a probe asks last for a claim.

        It is the claim's own `Claim.pivot`, as long as that broker holds a replica. If it holds none, and the claim may
        be true of others (`Claim.may_be_of_others`), it is one of the brokers that do. If the claim cannot be true of
        others, or the partition is gone, it is the claim's own pivot all the same.

        Among the others, a broker in sync is preferred, then one that showed the same as the pivot. After them comes
        one whose answer the claim has recorded. If several are equal in all this, it is the one with the lowest id.

        Args:
            claim: the claim.
        """
        own = claim.pivot
        is_standing = self.gone is None and claim.is_of(self.topic_id)
        if own in self.replicas or not (self.replicas and is_standing and claim.may_be_of_others):
            return own
        beside, stood = claim.beside, standing(claim.recorded.sides)
        return min(self.replicas, key=lambda b: (b not in self.isr, b not in beside, b not in stood, b))


@dataclass(frozen=True, slots=True)
class Wants:
    """Everything that a probe asks each replica of one partition.

    Attributes:
        offsets: offsets where records are asked for, in both isolation levels.
        markers: offsets where end markers are asked for.
        aborted_from: offsets to fetch from for the list of aborted transactions.
        producers: whether open transactions are asked for.
        keys: keys whose newest visible record is asked for.
        epochs: leader epochs whose end is asked for.
        replicas: all replicas of the partition.
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
    """A question to the cluster: which brokers hold a partition, and which one leads? The answer is a `Whereabouts`."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Coordinators:
    """A question to the transaction coordinators: what are some producers doing in a partition?

    The answer is a dict from producer id to `CoordinatorAnswer`.

    Attributes:
        producer_ids: the ids of the producers.
        place: the partition; the answer says of each producer's transaction whether it includes this partition.
    """

    producer_ids: tuple[int, ...]
    place: TopicPartition


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to several replicas at the same time. The answer is a dict from broker to `Reading`."""

    brokers: tuple[int, ...]
    wants: Wants


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction that the question `RecordedTransactions` asks about.

    Attributes:
        producer_id: the producer of the transaction.
        start: the transaction's first offset.
        end: offset of the transaction's end marker.
        limit: how many records are wanted at most.
    """

    producer_id: int
    start: int
    end: int
    limit: int


@dataclass(frozen=True, slots=True)
class RecordedTransactions:
    """A question to the views: which records have they recorded of some transactions, from any replica?

    The answer is a list with a `TransactionRecords` for each transaction. One question covers all transactions of a
    probe, because each question costs a pass over the rows of the views.
    """

    topic: str
    partition: int
    of: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class TransactionRecords:
    """The last record of each key that one transaction wrote, as the views recorded it.

    It is one element of the answer to `RecordedTransactions`.

    Attributes:
        records: (offset, key) of each such record, in the order of offsets.
        left_out: how many such records are not in ``records``, because `Transaction.limit` bounds how many are wanted.
        error: why the records are not known, or perhaps not all of them; None where all are.
    """

    records: tuple[tuple[int, Key], ...] = ()
    left_out: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Recreated:
    """A question to the views: have they recorded that another log replaced a replica's log? The answer is a bool.

    Attributes:
        since_ms: only what was recorded since this time counts, milliseconds since 1970 UTC.
    """

    topic: str
    partition: int
    broker: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Policy:
    """A question to the cluster: what is the ``cleanup.policy`` of a topic?

    The answer is its value; None where the cluster does not say.
    """

    topic: str


Question = Where | Coordinators | Ask | RecordedTransactions | Recreated | Policy


# Questions to one replica. Answering may raise; then the replica has not answered at all.


@dataclass(frozen=True, slots=True)
class Marks:
    """The answer to `Ends`: where one replica's log begins and ends, as ListOffsets says."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Ends:
    """A question to a replica: where does its log begin and end?

    The answer is a `Marks`: its start, end, high watermark and LSO.
    """


@dataclass(frozen=True, slots=True)
class Producers:
    """A question to a replica: which transactions does it hold open (DescribeProducers)?

    The answer is a tuple of them, or a text that says why there is no answer.
    """


@dataclass(frozen=True, slots=True)
class Points:
    """A question to a replica: which records and end markers does it hold at single offsets?

    The answer is a `PointsShown`.
    """

    offsets: frozenset[int]
    isolation: IsolationLevel


@dataclass(frozen=True, slots=True)
class PointsShown:
    """The answer to `Points`: the records and end markers that a replica holds at the given offsets.

    Attributes:
        records: by offset, the record there; an offset without a record has no entry.
        markers: the end markers at these offsets.
        key_bytes: by hash of the key, the key of a record as bytes, where keys are read at all.
        epochs: by offset asked for, the leader epoch of the first batch that the log still has there or above.
    """

    records: Mapping[int, RecordShown] = field(default_factory=dict)
    markers: tuple[MarkerShown, ...] = ()
    key_bytes: Mapping[Key, bytes] = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Aborted:
    """A question to a replica: which aborted transactions does a read_committed Fetch from an offset list?

    The answer is (producer id, first offset) of each.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Keys:
    """A question to a replica: what is the newest visible record of each key of `Wants`, in ``[start, end)``?

    The answer is a `KeysShown`.

    Attributes:
        held: by a key's hash as text, offsets of records of the key that the replica has just shown.
    """

    start: int
    end: int
    held: Mapping[str, Collection[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeysShown:
    """The answer to `Keys`: the newest visible record of each key on one replica.

    Attributes:
        keys: by key, its newest visible record. A key is left out as long as its newest record is not known. An entry
            is not complete if the log below its ``complete_from`` was not read. Another record of the key may lie
            there.
        key_bytes: by hash of the key, the key itself, where keys are read at all.
        error: why a key is missing or not complete; None where all are complete.
    """

    keys: Mapping[Key, KeyShown] = field(default_factory=dict)
    key_bytes: Mapping[Key, bytes] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class EndOfEpoch:
    """A question to a replica: where does a leader epoch end in its log (OffsetsForLeaderEpoch)?

    The answer is the largest epoch of the log that is not newer than the one asked for, and the offset where it ends.
    It is None if the log knows neither that epoch nor a newer one. It is a text if the replica does not say, with the
    reason.
    """

    epoch: int


Request = Ends | Producers | Points | Aborted | Keys | EndOfEpoch
