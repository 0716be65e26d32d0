"""What each replica answered to a probe: plain values, turned into JSON they are a finding's evidence."""

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
        outcome: ``none`` (not transactional), ``committed``, ``aborted`` (a read_committed consumer is denied it).
        key_hash: 32 hexadecimal digits; empty where the key is null.
        content_hash: 16 hexadecimal digits over value and headers.
        value_size: bytes; -1 is a tombstone.
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
        """Where it lies."""
        return Place(self.offset, self.leader_epoch)

    @property
    def is_plain(self) -> bool:
        """Whether it belongs to no transaction, so that nothing but being written made it visible."""
        return self.outcome not in (COMMITTED, ABORTED)

    @property
    def fingerprint(self) -> str:
        """Return what two replicas that hold one offset must agree on (I1)."""
        fields = (self.producer_id, self.producer_epoch, self.key_hash, self.content_hash, self.timestamp)
        return ":".join(map(str, fields))


def value_shown(live: RecordShown | None) -> Side:
    """The side of a replica by the live value that it shows of a key; None: it shows none."""
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
        complete: nothing newer than ``visible`` was overlooked, and None means none.
        newest_offset: of any record of the key, aborted ones too; -1 where none.
        complete_from: no record of the key at or above this offset was overlooked, even where it is not complete.
    """

    visible: RecordShown | None
    complete: bool
    newest_offset: int = UNKNOWN
    complete_from: int = 0

    @property
    def live(self) -> RecordShown | None:
        """The visible record, unless it is a tombstone: a tombstone and nothing at all are the same to a reader."""
        return self.visible if self.visible is not None and self.visible.value_size >= 0 else None


@dataclass(frozen=True, slots=True)
class ReplicaAnswer:
    """One replica's answer to one probe.

    Attributes:
        error: why it did not answer; the other fields then mean nothing.
        log_end_after: the log end offset, asked once more after the open transactions; -1 where it was not.
        stable_after: the last stable offset, asked once more after the keys; -1 where it was not.
        committed: records at the offsets asked for, as a read_committed consumer decides them, by offset.
        asked: the offsets of which ``committed`` was asked: one that is in here and not in there is not held.
        uncommitted: the same, as a read_uncommitted consumer reads them.
        asked_uncommitted: the offsets of which ``uncommitted`` was asked.
        markers: end markers at the offsets asked for.
        aborted: (producer id, first offset) of the aborted transactions that Fetch lists from the offset asked for.
        open_transactions: None where it could not say (see ``open_error``).
        key: None where no key was asked for, or its newest record cannot be named.
        key_error: why the key is not there, or not complete; None where it is.
        epoch_ends: by the leader epochs asked for: up to where its log is of that epoch or an older one; None where it
            knows neither that epoch nor a newer one.
        epochs_known: of the leader epochs asked for, those that its log knows itself: it has held records of them.
        epochs_at: by the offsets asked for, the leader epoch of the first batch that its log has left there or above.
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
        """What it says of its log's leader epochs."""
        held = {Place(offset, epoch) for offset, epoch in self.epochs_at.items()}
        shown = None if self.key is None else self.key.visible
        return Log(
            self.log_end_offset, self.epoch_ends, self.epochs_known, held if shown is None else {*held, shown.place}
        )

    def at(self, offset: int) -> RecordShown | MarkerShown | None:
        """What it holds at an offset that it was asked for: a record, or an end marker."""
        marker = next((one for one in self.markers if one.offset == offset), None)
        return marker or self.uncommitted.get(offset)

    @property
    def is_empty(self) -> bool:
        """Whether its log holds nothing: where that begins says nothing of what it held, or was to hold."""
        return 0 <= self.log_end_offset <= self.log_start_offset

    @property
    def ended_below(self) -> int:
        """The end markers of the transactions that are not listed as open lie below this offset."""
        return max(self.log_end_after, self.log_end_offset)

    @property
    def cleaned_below(self) -> int:
        """What its cleaner had taken when it was asked for its keys was superseded or deleted below this offset."""
        return max(self.stable_after, self.last_stable_offset)

    @property
    def live(self) -> RecordShown | None:
        """The key's value that it shows; None where it shows none, or does not say."""
        return None if self.key is None else self.key.live

    def open_transaction(
        self, producer_id: int, start_offset: int, marker_offset: int = UNKNOWN
    ) -> OpenTransaction | None:
        """The transaction around ``start_offset``, if DescribeProducers lists it as open on this replica.

        Replicas need not agree on where it starts: what is listed is the first batch that the replica got, and its
        first records may have been cleaned before. One that is listed from a lower offset on and is still open covers
        ``start_offset``; one from a higher offset is the same if it starts below the end marker.
        """
        for listed in self.open_transactions or ():
            same = listed.start_offset <= start_offset or listed.start_offset < marker_offset
            if listed.producer_id == producer_id and same:
                return listed
        return None

    def is_held_by(self, transaction: OpenTransaction) -> bool:
        """Whether it is this open transaction that the replica's last stable offset stands at.

        It stands at the first offset of the first open transaction; where the cleaner has taken that record, at the
        next that is left (UnifiedLog.maybeConvertToOffsetMetadata, LogSegment.read).
        """
        if any(t.start_offset < transaction.start_offset for t in self.open_transactions or ()):
            return False
        return transaction.start_offset <= self.last_stable_offset < self.high_watermark

    def holds_open(self, producer_id: int, start_offset: int, marker_offset: int = UNKNOWN) -> bool:
        """Whether `open_transaction` finds it."""
        return self.open_transaction(producer_id, start_offset, marker_offset) is not None


@dataclass(frozen=True, slots=True)
class CoordinatorAnswer:
    """The transaction coordinator's answer about a producer id (ListTransactions, DescribeTransactions, KIP-664).

    Attributes:
        state: Kafka's name (``Ongoing``, ``PrepareCommit``, ``CompleteAbort`` ...); ``unknown`` where it lists none.
        elsewhere: the transaction has no part in the partition in question: none of its records, or its end marker
            has been written there already.
    """

    producer_id: int
    transactional_id: str = ""
    state: str = "unknown"
    error: str | None = None
    elsewhere: bool = False

    @classmethod
    def not_listed(cls, producer_id: int) -> CoordinatorAnswer:
        """The answer where all coordinators answered and none lists the producer.

        Kafka leaves out what may not be described, without an error (KafkaApis.handleListTransactionsRequest).
        """
        return cls(producer_id, error=_NOT_LISTED)

    @property
    def is_not_listed(self) -> bool:
        """Whether it is `not_listed`."""
        return self.error == _NOT_LISTED

    @property
    def is_ending(self) -> bool:
        """The markers are being written: wait."""
        return self.state in {"PrepareCommit", "PrepareAbort"} and not self.elsewhere

    @property
    def is_ongoing(self) -> bool:
        """The producer's last transaction goes on; those before it have ended."""
        return self.state == "Ongoing" and not self.elsewhere

    @property
    def has_ended(self) -> bool:
        """The producer's last transaction here, and so every one before it, has been ended on all its partitions.

        A coordinator begins no transaction, and gives a producer no new epoch, before it has ended the one before
        (``TransactionMetadata.prepareTransitionTo``).
        """
        return self.elsewhere or self.state in {"CompleteCommit", "CompleteAbort"}


@dataclass(frozen=True, slots=True)
class Answers:
    """All that one probe of one claim learnt.

    Attributes:
        replicas: by broker id; every replica of the partition is in it, with its error where it did not answer.
        leader: node id; -1 where there is none.
        leader_epoch: that it leads in; -1 where it is not known.
        isr: the replicas in sync, by the cluster's metadata; empty where it is not known.
        assigned: the replicas in the order of their assignment, the preferred leader first; empty where nobody asked.
        gone: why the claim has lost its object (topic deleted, replica moved away); None where it stands. Where others
            were asked all the same, they may be wrong by now as it was: see `pivot`.
        key: the key's bytes, where the payload setting lets them be read.
        rest: the same about the other records of the transaction, each with its claim (`parallax.findings.effect`).
        pivot: the replica that was asked last in the place of the claim's, which holds no replica any more or, where
            nobody is accused, is behind another that shows the same; `NOBODY` where that one was.
            See `Claim.asked_last`.
        recreated: the accused's readers noticed since the finding was confirmed that its log is another one.
        cleanup_policy: the topic's setting ``cleanup.policy`` after the replicas had answered; None where nobody asked
            for it, or it is not known.
        rest_unknown: what is not known of the transaction's other records; None where all were asked about.
        rest_left_out: how many of them were not asked about, for they are too many for one probe.
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
        """The logs of some that answered; ``is_whole``: nobody is away."""
        return Logs({answer.broker: answer.log for answer in of}, self.leader, frozenset(self.isr), is_whole)

    def leader_lacks_it(self, truncated: int, epoch: int) -> bool:
        """Whether the leader lacks what a truncated log lost of a leader epoch: that ends there in its log, or below.

        Or the truncated log is in sync, and of a newer epoch from there on, as the leader's is then. The leader itself
        may not know where that began, if it copied a log whose first records of the epoch had been cleaned.
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
        """Whether the leader's log begins where another replica's does, or above; or holds nothing."""
        leading, other = (self.replicas.get(b) for b in (self.leader, as_broker))
        if leading is None or other is None or leading.error is not None or other.error is not None:
            return False
        return leading.is_empty or leading.log_start_offset >= other.log_start_offset

    def leader_shows_value_of(self, broker: int) -> bool:
        """Whether the leader shows the very value of the key that another replica shows; a frozen one may."""
        leading, other = (self.replicas.get(b) for b in (self.leader, broker))
        if leading is None or other is None or leading.live is None or other.live is None:
            return False
        return leading.live.offset == other.live.offset

    def evidence(self) -> dict[str, Any]:
        """JSON-able form, for the ``evidence`` column: the values as answered, nothing judged."""
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
