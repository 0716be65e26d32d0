"""What each replica answered to a probe, as plain values; as JSON they are a finding's evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from parallax.evidence.atoms import Place
from parallax.evidence.log import Belongs, Log, Logs
from parallax.model import NOBODY, UNKNOWN
from parallax.sides import Shows, Side

_NOT_LISTED = "no coordinator lists the producer: its transactional id has expired, or DESCRIBE on it is not granted"
COMMITTED = "committed"
ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class RecordShown:
    """One record as one replica shows it.

    Attributes:
        outcome: ``none`` (not transactional), ``committed``, or ``aborted`` (hidden from a read_committed consumer).
        key_hash: 32 hexadecimal digits; empty where the key is null.
        content_hash: 16 hexadecimal digits over value and headers.
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
        """The record's offset with its leader epoch."""
        return Place(self.offset, self.leader_epoch)

    @property
    def is_plain(self) -> bool:
        """Whether the record belongs to no transaction, so that it was visible as soon as it was written."""
        return self.outcome not in (COMMITTED, ABORTED)

    @property
    def fingerprint(self) -> str:
        """Return the record's content as text: replicas that hold the same offset must hold equal texts (I1)."""
        fields = (self.producer_id, self.producer_epoch, self.key_hash, self.content_hash, self.timestamp)
        return ":".join(map(str, fields))


def value_shown(live: RecordShown | None) -> Side:
    """Return the side of a replica by the value of the key that it shows; None means none."""
    return Side(Shows.NO_VALUE) if live is None else Side(Shows.VALUE, live.offset)


@dataclass(frozen=True, slots=True)
class MarkerShown:
    """An end marker: ``type`` is ``commit`` or ``abort`` (the control record's key, KIP-98)."""

    offset: int
    producer_id: int
    type: str
    leader_epoch: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that DescribeProducers (KIP-664) of one replica lists as open."""

    producer_id: int
    start_offset: int
    producer_epoch: int = UNKNOWN
    last_timestamp: int = UNKNOWN
    coordinator_epoch: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class KeyShown:
    """The records of one key on one replica, as a read_committed consumer of it sees them.

    Attributes:
        visible: the newest record that is not aborted; None where none is shown.
        complete: whether nothing newer than ``visible`` was overlooked, and None means that there is none.
        newest_offset: of any record of the key, aborted ones too; -1 where there is none.
        complete_from: no record of the key at or above this offset was overlooked, even if the key is not complete.
    """

    visible: RecordShown | None
    complete: bool
    newest_offset: int = UNKNOWN
    complete_from: int = 0

    @property
    def live(self) -> RecordShown | None:
        """The visible record, unless it is a tombstone: to a consumer that is no value."""
        return self.visible if self.visible is not None and self.visible.value_size >= 0 else None


@dataclass(frozen=True, slots=True)
class ReplicaAnswer:
    """One replica's answers to one probe about one claim.

    Attributes:
        error: why it did not answer; the other fields then mean nothing.
        log_end_after: the log end offset, asked once more after the open transactions; -1 if not asked.
        stable_after: the last stable offset, asked once more after the keys; -1 if not asked.
        committed: records at the offsets asked for, by offset, as a read_committed consumer sees them.
        asked: the offsets for which ``committed`` was asked. The replica does not hold those that ``committed`` lacks.
        uncommitted: records at the offsets asked for, as a read_uncommitted consumer reads them.
        asked_uncommitted: the offsets for which ``uncommitted`` was asked.
        markers: end markers at the offsets asked for.
        aborted: (producer id, first offset) of the aborted transactions that Fetch lists from the offset asked for.
        open_transactions: None where it could not say (see ``open_error``).
        key: None where no key was asked for, or its newest record cannot be named.
        key_error: why the key is not there, or not complete; None where it is.
        epoch_ends: by leader epoch asked for: the offset up to which its log is of that epoch or an older one; None
            where it knows neither that epoch nor a newer one.
        epochs_known: the leader epochs asked for that its log knows itself, because it has held records of them.
        epochs_at: by offset asked for: the leader epoch of the first batch that its log still has there or above.
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
        """The replica's log as `parallax.evidence` takes it, from the replica's answers about leader epochs."""
        held = {Place(offset, epoch) for offset, epoch in self.epochs_at.items()}
        shown = None if self.key is None else self.key.visible
        return Log(
            self.log_end_offset, self.epoch_ends, self.epochs_known, held if shown is None else {*held, shown.place}
        )

    def at(self, offset: int) -> RecordShown | MarkerShown | None:
        """Return what the replica holds at an offset that it was asked for: record, end marker, or None."""
        marker = next((one for one in self.markers if one.offset == offset), None)
        return marker or self.uncommitted.get(offset)

    @property
    def is_empty(self) -> bool:
        """Whether the replica's log holds nothing. Its log start then says nothing of what it held."""
        return 0 <= self.log_end_offset <= self.log_start_offset

    @property
    def ended_below(self) -> int:
        """The offset below which every transaction that the replica does not list as open has its end marker."""
        return max(self.log_end_after, self.log_end_offset)

    @property
    def cleaned_below(self) -> int:
        """The offset below which everything lay that superseded or deleted what the replica's cleaner has removed."""
        return max(self.stable_after, self.last_stable_offset)

    @property
    def live(self) -> RecordShown | None:
        """The record with the key's value; None where the replica shows no value, or does not say."""
        return None if self.key is None else self.key.live

    def open_transaction(
        self, producer_id: int, start_offset: int, marker_offset: int = UNKNOWN
    ) -> OpenTransaction | None:
        """Return the transaction around ``start_offset``, if DescribeProducers lists it as open on this replica.

        Replicas may list different starts. Each lists the first batch that it got, and the first records may have been
        cleaned before. A listed transaction that starts lower and is still open covers ``start_offset``. One that
        starts higher is the same if it starts below the end marker.
        """
        for listed in self.open_transactions or ():
            same = listed.start_offset <= start_offset or listed.start_offset < marker_offset
            if listed.producer_id == producer_id and same:
                return listed
        return None

    def is_held_by(self, transaction: OpenTransaction) -> bool:
        """Whether an open transaction is what holds back the replica's last stable offset.

        The last stable offset is the first offset of the first open transaction. If the cleaner has removed that
        record, it is the next offset that is left (UnifiedLog.maybeConvertToOffsetMetadata, LogSegment.read).
        """
        if any(t.start_offset < transaction.start_offset for t in self.open_transactions or ()):
            return False
        return transaction.start_offset <= self.last_stable_offset < self.high_watermark

    def holds_open(self, producer_id: int, start_offset: int, marker_offset: int = UNKNOWN) -> bool:
        """Whether the replica lists a transaction as open; arguments as of `open_transaction`."""
        return self.open_transaction(producer_id, start_offset, marker_offset) is not None


@dataclass(frozen=True, slots=True)
class CoordinatorAnswer:
    """The transaction coordinator's answer about a producer id (ListTransactions, DescribeTransactions, KIP-664).

    Attributes:
        state: Kafka's name (``Ongoing``, ``PrepareCommit``, ``CompleteAbort`` ...); ``unknown`` where it lists none.
        elsewhere: the transaction has no part in this partition: it has no record there, or its end marker has been
            written there already.
    """

    producer_id: int
    transactional_id: str = ""
    state: str = "unknown"
    error: str | None = None
    elsewhere: bool = False

    @classmethod
    def not_listed(cls, producer_id: int) -> CoordinatorAnswer:
        """Return the answer for a producer that no coordinator lists, although all have answered.

        Kafka leaves out what the client may not describe, without an error (KafkaApis.handleListTransactionsRequest).
        """
        return cls(producer_id, error=_NOT_LISTED)

    @property
    def is_not_listed(self) -> bool:
        """Whether no coordinator lists the producer (`not_listed`)."""
        return self.error == _NOT_LISTED

    @property
    def is_ending(self) -> bool:
        """Whether the end markers are being written, so that a probe has to wait."""
        return self.state in {"PrepareCommit", "PrepareAbort"} and not self.elsewhere

    @property
    def is_ongoing(self) -> bool:
        """Whether the producer's last transaction is ongoing; those before it have ended."""
        return self.state == "Ongoing" and not self.elsewhere

    @property
    def has_ended(self) -> bool:
        """Whether the producer's last transaction here has ended on all its partitions, and so every earlier one.

        A coordinator ends a transaction before it begins the next one, or gives the producer a new epoch
        (``TransactionMetadata.prepareTransitionTo``).
        """
        return self.elsewhere or self.state in {"CompleteCommit", "CompleteAbort"}


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers to one probe about one claim.

    Attributes:
        replicas: by broker id: every replica of the partition, with its error where it did not answer.
        leader: node id; -1 where there is none.
        leader_epoch: the epoch in which it leads; -1 where it is not known.
        isr: the replicas in sync, by the cluster's metadata; empty where it is not known.
        assigned: the replicas in the order of their assignment, the preferred leader first; empty where nobody asked.
        gone: why the claim has lost its object (topic deleted, replica moved away); None where it still has one. Other
            replicas may have been asked all the same, since they may be wrong in the same way: see `pivot`.
        key: the key's bytes, where the payload setting lets them be read.
        rest: answers about the other records of the transaction, each with its claim (`parallax.findings.effect`).
        pivot: the replica that was asked last instead of the claim's pivot; `NOBODY` where the claim's own was. The
            claim's holds no replica any more. Or, if nobody is accused, it is behind another that shows the same. See
            `Claim.asked_last`.
        recreated: whether the accused's readers have noticed a new log since the finding was confirmed.
        cleanup_policy: the topic's ``cleanup.policy`` after the replicas had answered; None where nobody asked for it,
            or it is not known.
        rest_unknown: what is not known of the transaction's other records; None where all were asked about.
        rest_left_out: how many of them were not asked about, because they are too many for one probe.
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

    def logs(self, of: Iterable[ReplicaAnswer], *, is_whole: bool) -> Logs:
        """Return all replicas' logs by their leader epochs, to ask whether a place is of them."""
        return Logs({answer.broker: answer.log for answer in of}, self.leader, frozenset(self.isr), is_whole)

    def leader_lacks_it(self, truncated: int, epoch: int) -> bool:
        """Whether the leader, too, lacks the records of a leader epoch that a truncated log has lost.

        It lacks it if that epoch ends at the same offset or below in the leader's log. It lacks it too if the truncated
        log is in sync and of a newer epoch from there on, as the leader's then is. The leader itself may not know where
        that epoch began. Its log may be a copy in which the first records of the epoch had been cleaned.
        """
        answered = [answer for answer in self.replicas.values() if answer.error is None]
        logs = self.logs(answered, is_whole=len(answered) == len(self.replicas))
        own = logs.logs.get(truncated)
        end = None if own is None else own.ends.get(epoch)
        if own is None or end is None:
            return False
        place = Place(end, epoch)
        return logs.leader_lacks(place) or (truncated in logs.in_sync and own.of(place) is Belongs.NO)

    def leader_begins_as_late(self, as_broker: int) -> bool:
        """Whether the leader's log is empty, or begins where another replica's does or above."""
        leading, other = (self.replicas.get(b) for b in (self.leader, as_broker))
        if leading is None or other is None or leading.error is not None or other.error is not None:
            return False
        return leading.is_empty or leading.log_start_offset >= other.log_start_offset

    def leader_shows_value_of(self, broker: int) -> bool:
        """Whether the leader shows its consumers the same value of the key as another replica does."""
        leading, other = (self.replicas.get(b) for b in (self.leader, broker))
        if leading is None or other is None or leading.live is None or other.live is None:
            return False
        return leading.live.offset == other.live.offset

    def evidence(self) -> dict[str, Any]:
        """Return the answers in a JSON-able form for the ``evidence`` column, with nothing judged."""
        policy = {} if self.cleanup_policy is None else {"cleanup_policy": self.cleanup_policy}
        return policy | {
            "asked_at_ms": self.asked_at_ms,
            "leader": self.leader,
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
