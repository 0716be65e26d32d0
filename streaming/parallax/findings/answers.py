"""What brokers answered to a probe, as plain values without IO.

Written as JSON, they are a finding's evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from parallax.evidence.atoms import Place
from parallax.evidence.log import Belongs, Log, Logs
from parallax.model import NOBODY, UNKNOWN
from parallax.sides import Shows, Side

_NOT_LISTED = "no coordinator lists the producer: its transactional id has expired, or DESCRIBE on it is not granted"
NOT_ASKED = "not asked"
"""Instead of an error, where a replica was not asked for its open transactions."""
COMMITTED = "committed"
ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class RecordShown:
    """One record as one replica shows it.

    Attributes:
        outcome: ``none`` (the record is not transactional), ``committed``, or ``aborted`` (hidden from a read_committed
            consumer).
        key_hash: 32 hexadecimal digits; empty where the key is null.
        content_hash: 16 hexadecimal digits over value and headers.
        key_size: bytes; -1 where the key is null.
        value_size: bytes; -1 for a tombstone.
        timestamp: milliseconds since 1970 UTC.
    """

    offset: int
    outcome: str
    timestamp: int = UNKNOWN
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    key_hash: str = ""
    content_hash: str = ""
    key_size: int = UNKNOWN
    value_size: int = UNKNOWN

    @property
    def place(self) -> Place:
        """The record's place: its offset with its leader epoch."""
        return Place(self.offset, self.leader_epoch)

    @property
    def is_plain(self) -> bool:
        """Whether the record belongs to no transaction, so that no end marker decides about it."""
        return self.outcome not in (COMMITTED, ABORTED)

    @property
    def fingerprint(self) -> str:
        """What two replicas must show alike of one record, as text.

        Unequal texts at one offset are a divergence.
        """
        fields = (self.producer_id, self.producer_epoch, self.key_hash, self.content_hash, self.timestamp)
        return ":".join(map(str, fields))


def producer_epoch_in(fingerprint: str) -> int:
    """Return the producer epoch in a record's fingerprint (`RecordShown.fingerprint`); -1 in a text that is none."""
    fields = fingerprint.split(":")
    return int(fields[1]) if len(fields) > 1 else UNKNOWN


def value_shown(live: RecordShown | None) -> Side:
    """Return a replica's side in a difference about a key: its value's offset, or "no value".

    Args:
        live: the record whose value the replica shows for the key; None if it shows no value.
    """
    return Side(Shows.NO_VALUE) if live is None else Side(Shows.VALUE, live.offset)


@dataclass(frozen=True, slots=True)
class MarkerShown:
    """One end marker as one replica shows it; ``type`` is ``commit`` or ``abort``."""

    offset: int
    producer_id: int
    type: str
    leader_epoch: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One transaction that one replica lists as open in its answer to DescribeProducers (KIP-664).

    The fields are those of Kafka's answer. ``last_timestamp`` is that of the producer's last batch, in milliseconds
    since 1970 UTC.
    """

    producer_id: int
    start_offset: int
    producer_epoch: int = UNKNOWN
    last_timestamp: int = UNKNOWN
    coordinator_epoch: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class KeyShown:
    """The records of one key on one replica, as a read_committed consumer of that replica sees them.

    Attributes:
        visible: the newest record of the key that the replica does not show as aborted; None where there is none.
        complete: whether ``visible`` is certain. If it is False, the replica may hold a newer record of the key, or any
            at all where ``visible`` is None.
        newest_offset: offset of the newest record of the key, aborted ones included; -1 where there is none.
        complete_from: all records of the key at or above this offset are known, even where ``complete`` is False.
    """

    visible: RecordShown | None
    complete: bool
    newest_offset: int = UNKNOWN
    complete_from: int = 0

    @property
    def live(self) -> RecordShown | None:
        """The visible record if it has a value; None for a tombstone, which shows consumers no value."""
        return self.visible if self.visible is not None and self.visible.value_size >= 0 else None


@dataclass(frozen=True, slots=True)
class ReplicaAnswer:
    """One replica's answers to one probe about one claim.

    Attributes:
        error: why the replica did not answer; None where it did. With an error the other fields mean nothing.
        log_end_after: the log end offset, asked a second time, after the open transactions; -1 if not asked.
        stable_after: the last stable offset, asked a second time, after the keys; -1 if not asked.
        committed: by offset, the records at the offsets asked for, as a read_committed consumer sees them.
        asked: the offsets for which ``committed`` was asked. Where ``committed`` has no record, the replica holds none.
        uncommitted: by offset, the records at the offsets asked for, as a read_uncommitted consumer sees them.
        asked_uncommitted: the offsets for which ``uncommitted`` was asked.
        markers: end markers at the offsets asked for.
        aborted: (producer id, first offset) of the aborted transactions that Fetch lists from the offset asked for.
        open_transactions: the transactions that the replica lists as open; None where it could not say (see
            ``open_error``).
        key: what the replica holds of the claim's key; None where no key was asked for, or its newest record cannot be
            named.
        key_error: why ``key`` is None or not complete; None where it is complete, or no key was asked for.
        epoch_ends: by leader epoch asked for, the offset where that epoch ends in the replica's log: batches below it
            are of that epoch or an older one; None where the log knows neither that epoch nor a newer one.
        epochs_known: the leader epochs, among those asked for, in which the replica's log has held records.
        epochs_at: by offset asked for, the leader epoch of the first batch that the replica's log holds at or above it.
    """

    broker: int
    error: str | None = None
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    log_end_offset: int = UNKNOWN
    log_end_after: int = UNKNOWN
    stable_after: int = UNKNOWN
    committed: Mapping[int, RecordShown] = field(default_factory=dict)
    asked: frozenset[int] = frozenset()
    uncommitted: Mapping[int, RecordShown] = field(default_factory=dict)
    asked_uncommitted: frozenset[int] = frozenset()
    markers: tuple[MarkerShown, ...] = ()
    aborted: tuple[tuple[int, int], ...] = ()
    open_transactions: tuple[OpenTransaction, ...] | None = None
    open_error: str | None = None
    key: KeyShown | None = None
    key_error: str | None = None
    epoch_ends: Mapping[int, int | None] = field(default_factory=dict)
    epochs_known: frozenset[int] = frozenset()
    epochs_at: Mapping[int, int] = field(default_factory=dict)

    @property
    def log(self) -> Log:
        """The replica's log as a `Log`, made from its answers about leader epochs.

        A `Log` says whether a record or end marker is part of it.
        """
        held = {Place(offset, epoch) for offset, epoch in self.epochs_at.items()}
        shown = None if self.key is None else self.key.visible
        return Log(
            self.log_end_offset, self.epoch_ends, self.epochs_known, held if shown is None else {*held, shown.place}
        )

    def at(self, offset: int) -> RecordShown | MarkerShown | None:
        """Return the record or end marker that the replica holds at an offset asked for.

        None if it holds none there, or was not asked for the offset.
        """
        marker = next((one for one in self.markers if one.offset == offset), None)
        return marker or self.uncommitted.get(offset)

    @property
    def is_empty(self) -> bool:
        """Whether the replica's log holds no record and no end marker.

        The start of an empty log says nothing about what the log held before.
        """
        return 0 <= self.log_end_offset <= self.log_start_offset

    @property
    def ended_below(self) -> int:
        """The replica's log end offset, by its latest answer in this probe.

        A transaction that the replica does not list as open has ended below this offset.
        """
        return max(self.log_end_after, self.log_end_offset)

    @property
    def cleaned_below(self) -> int:
        """The replica's last stable offset, by its latest answer in this probe.

        If its cleaner has removed a record, a newer record below this offset has superseded it.
        """
        return max(self.stable_after, self.last_stable_offset)

    @property
    def live(self) -> RecordShown | None:
        """The record whose value the replica shows for the claim's key.

        None if the replica shows no value, or was not asked for a key.
        """
        return None if self.key is None else self.key.live

    @property
    def side(self) -> Side | None:
        """The replica's side in a difference about the claim's key: its value's offset, or "no value".

        None if the replica was not asked for a key. None as well if the records that were read show no value, and they
        were not all read.
        """
        if self.key is None or not (self.key.complete or self.key.live):
            return None
        return value_shown(self.key.live)

    def open_transaction(
        self, producer_id: int, start_offset: int, marker_offset: int = UNKNOWN
    ) -> OpenTransaction | None:
        """Return a transaction as the replica lists it, if the replica lists it as open; else None.

        Replicas may list different starts of one transaction. Each lists the first batch that it copied, and the first
        records may have been cleaned before. So an open transaction of the producer is the one asked about if it starts
        at ``start_offset`` or below, or below ``marker_offset``.

        Args:
            producer_id: the transaction's producer.
            start_offset: the first offset of the transaction on some replica.
            marker_offset: the offset of its end marker; -1 where unknown.
        """
        for listed in self.open_transactions or ():
            same = listed.start_offset <= start_offset or listed.start_offset < marker_offset
            if listed.producer_id == producer_id and same:
                return listed
        return None

    def is_held_by(self, transaction: OpenTransaction) -> bool:
        """Whether this open transaction is the one that keeps the replica's last stable offset from moving.

        The last stable offset is the first offset of the first open transaction. If the cleaner has removed the record
        there, the last stable offset is that of the next record that is left (UnifiedLog.maybeConvertToOffsetMetadata,
        LogSegment.read).
        """
        if any(t.start_offset < transaction.start_offset for t in self.open_transactions or ()):
            return False
        return transaction.start_offset <= self.last_stable_offset < self.high_watermark

    def lacks(self, offset: int) -> bool:
        """Whether the replica was asked for the record at an offset, in read_uncommitted, and shows none."""
        return offset in self.asked_uncommitted and offset not in self.uncommitted

    def holds_open(self, producer_id: int, start_offset: int, marker_offset: int = UNKNOWN) -> bool:
        """Whether the replica lists a transaction as open (`open_transaction` returns it).

        Args:
            producer_id: the transaction's producer.
            start_offset: the first offset of the transaction on some replica.
            marker_offset: the offset of its end marker; -1 where unknown.
        """
        return self.open_transaction(producer_id, start_offset, marker_offset) is not None


def holds_tombstone(offset: int, answers: Iterable[ReplicaAnswer]) -> bool:
    """Whether a replica that was asked holds a tombstone at an offset."""
    held = (answer.uncommitted.get(offset) or answer.committed.get(offset) for answer in answers)
    return any(record is not None and record.value_size < 0 for record in held)


@dataclass(frozen=True, slots=True)
class CoordinatorAnswer:
    """What the transaction coordinators answered about one producer.

    The requests are ListTransactions and DescribeTransactions (KIP-664).

    Attributes:
        transactional_id: that of the producer; empty where no coordinator lists the producer.
        error: why some coordinator did not answer; None where the answer is complete.
        state: Kafka's name for the state of the producer's last transaction (``Ongoing``, ``PrepareCommit``,
            ``CompleteAbort`` ...); ``unknown`` where no coordinator lists a transaction of the producer.
        elsewhere: whether that transaction is of no concern to this partition: it has no record there, or its end
            marker has been written there already.
    """

    producer_id: int
    transactional_id: str = ""
    state: str = "unknown"
    error: str | None = None
    elsewhere: bool = False

    @classmethod
    def not_listed(cls, producer_id: int) -> CoordinatorAnswer:
        """Make the answer about the producer ``producer_id``, of which all coordinators said that they do not list it.

        Kafka leaves out, without an error, transactions that the client may not describe
        (KafkaApis.handleListTransactionsRequest).
        """
        return cls(producer_id, error=_NOT_LISTED)

    @property
    def is_not_listed(self) -> bool:
        """Whether all coordinators answered, and none lists a transaction of the producer."""
        return self.error == _NOT_LISTED

    @property
    def is_ending(self) -> bool:
        """Whether the coordinator is writing end markers of the producer's transaction; a probe asks again later."""
        return self.state in {"PrepareCommit", "PrepareAbort"} and not self.elsewhere

    @property
    def is_ongoing(self) -> bool:
        """Whether the producer's last transaction is still open in this partition. All earlier ones have ended."""
        return self.state == "Ongoing" and not self.elsewhere

    @property
    def has_ended(self) -> bool:
        """Whether all transactions of the producer have ended in this partition, the last one included.

        A coordinator ends a transaction before it begins the next one. It also ends it before it gives the producer a
        new epoch (``TransactionMetadata.prepareTransitionTo``).
        """
        return self.elsewhere or self.state in {"CompleteCommit", "CompleteAbort"}


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers to one probe about one claim.

    Attributes:
        replicas: by broker id, the answer of every replica of the partition. If a replica did not answer, its ``error``
            says why.
        leader: broker id of the partition's leader; -1 where there is none.
        leader_epoch: the leader's epoch; -1 where it is not known.
        isr: the brokers whose replicas are in sync according to the cluster's metadata; empty where that is not known.
        assigned: the replicas in the order of their assignment, the preferred leader first; empty where nobody asked.
        coordinator: what transaction coordinators answered about the claim's producer; None where nobody asked them.
        asked_at_ms: when the probe began, milliseconds since 1970 UTC.
        gone: why the claim's replica does not exist any more (topic deleted, replica moved away); None where it exists.
            Other replicas may have been asked even so, because they may be wrong in the same way (see ``pivot``).
        key: the key's bytes, where the payload setting lets them be read.
        rest: answers about the transaction's records other than the claim's own, each with a claim of its own
            (`parallax.findings.effect`).
        pivot: the broker that was asked last in place of the claim's pivot; `NOBODY` if it was the claim's own pivot.
            The claim's pivot is replaced in two cases. Its broker no longer holds a replica of the partition. Or the
            claim accuses nobody, and another replica that shows the same as the pivot has come further.
        recreated: whether readers of the accused have noticed, since the finding was confirmed, that another log has
            replaced its log.
        cleanup_policy: the topic's ``cleanup.policy``, asked for after the replicas had answered; None where nobody
            asked for it, or it is not known.
        rest_unknown: what is not known of the transaction's other records; None where all were asked about.
        rest_left_out: how many of the transaction's other records were not asked about, because they are too many for
            one probe.
    """

    replicas: Mapping[int, ReplicaAnswer]
    leader: int = UNKNOWN
    coordinator: CoordinatorAnswer | None = None
    gone: str | None = None
    asked_at_ms: int = 0
    key: bytes | None = None
    isr: tuple[int, ...] = ()
    rest: tuple[tuple[Any, Answers], ...] = ()
    rest_unknown: str | None = None
    rest_left_out: int = 0
    recreated: bool = False
    cleanup_policy: str | None = None
    pivot: int = NOBODY
    assigned: tuple[int, ...] = ()
    leader_epoch: int = UNKNOWN

    @property
    def are_whole(self) -> bool:
        """Whether all replicas are in sync and have answered all that they were asked."""
        errors = {error for a in self.replicas.values() for error in (a.error, a.open_error, a.key_error)}
        return set(self.isr) >= self.replicas.keys() and errors <= {None, NOT_ASKED}

    def logs(self, of: Iterable[ReplicaAnswer], *, is_whole: bool) -> Logs:
        """Return one `Logs` of some replicas, which says whether a record is of the current log.

        Args:
            of: the answers of these replicas.
            is_whole: whether these are all replicas of the partition.
        """
        return Logs({answer.broker: answer.log for answer in of}, self.leader, frozenset(self.isr), is_whole)

    def leader_lacks_it(self, truncated: int, last: Place) -> bool:
        """Whether the leader, too, lacks records that another replica lost when its log was truncated.

        It does if it lacks the last of them. That is so in two cases. The leader's own log ends below, or continues
        there with a newer epoch. Or the truncated log is in sync and does so: then the leader's log does the same. The
        leader itself may not know where that newer epoch began, because its log may be a copy from which the first
        records of the epoch had been cleaned.

        Args:
            truncated: the broker whose log was truncated.
            last: the place of the last record that it lost.
        """
        answered = [answer for answer in self.replicas.values() if answer.error is None]
        logs = self.logs(answered, is_whole=len(answered) == len(self.replicas))
        own = logs.logs.get(truncated)
        if own is None:
            return False
        return logs.leader_lacks(last) or (truncated in logs.in_sync and own.of(last) is Belongs.NO)

    def leader_begins_as_late(self, offset: int) -> bool:
        """Whether the leader's log is empty, or begins at an offset or above.

        False where the leader did not answer.
        """
        leading = self.replicas.get(self.leader)
        if leading is None or leading.error is not None:
            return False
        return leading.is_empty or leading.log_start_offset >= offset

    def leader_shows_value_of(self, broker: int) -> bool:
        """Whether the leader shows its consumers the same value of the claim's key as the replica on another broker.

        False where one of the two shows no value, or did not answer.
        """
        leading, other = (self.replicas.get(b) for b in (self.leader, broker))
        if leading is None or other is None or leading.live is None or other.live is None:
            return False
        return leading.live.offset == other.live.offset

    def evidence(self) -> dict[str, Any]:
        """Return the answers as values for JSON, unchanged; they become the ``evidence`` of the finding's event."""
        policy = {} if self.cleanup_policy is None else {"cleanup_policy": self.cleanup_policy}
        return policy | {
            "asked_at_ms": self.asked_at_ms,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.isr),
            "assigned": list(self.assigned),
            "replicas": {str(b): _replica_json(a) for b, a in sorted(self.replicas.items())},
            "coordinator": None if self.coordinator is None else asdict(self.coordinator),
        }


def _replica_json(answer: ReplicaAnswer) -> dict[str, Any]:
    if answer.error is not None:
        return {"error": answer.error}
    document = asdict(answer)
    for name in ("committed", "uncommitted"):
        document[name] = list(document[name].values())
    for name in ("asked", "asked_uncommitted", "epochs_known"):
        document[name] = sorted(document[name])
    document["aborted"] = [{"producer_id": p, "first_offset": o} for p, o in answer.aborted]
    return {k: v for k, v in document.items() if v is not None and k != "broker"}
