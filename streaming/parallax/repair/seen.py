"""Plain values for a look at a partition: what brokers and findings say that a repair decides by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parallax.findings.hanging import Standing, Verdict
from parallax.model import UNKNOWN, Outcome, RowKind, TopicPartition
from parallax.repair.claims import Claim
from parallax.repair.layout import Layout
from parallax.repair.leading import Doubts
from parallax.replica.types import ProducerState, Watermarks

END_MARKERS = {RowKind.COMMIT: "commit", RowKind.ABORT: "abort"}
OUTCOMES = {"commit": Outcome.COMMITTED, "abort": Outcome.ABORTED}
"""By the type of an end marker, what it makes of the records of its transaction."""


@dataclass(frozen=True, slots=True)
class Row:
    """A record, or an end marker, as one replica shows it.

    Attributes:
        key: the keyed hash of the record's key, 32 hexadecimal digits; empty for an end marker.
        content: the keyed hash of the record's content, 16 hexadecimal digits; empty for an end marker.
        outcome: whether a read_committed consumer of the replica counts the record as committed or aborted; UNDECIDED
            above the last stable offset.
    """

    offset: int
    kind: RowKind
    key: str
    content: str
    outcome: Outcome

    @property
    def kept(self) -> list[Any]:
        """The row for an event of the repair: a list of its offset, kind, key, content and outcome."""
        kind = END_MARKERS.get(self.kind, self.kind.name.lower())
        return [self.offset, kind, self.key, self.content, self.outcome.name]


@dataclass(frozen=True, slots=True)
class Log:
    """The records and end markers of one producer on one replica, from a transaction's first offset on, as far as read.

    Attributes:
        rows: the producer's records and end markers, by rising offset.
        error: why the log could not be read to its end; empty if it was.
    """

    rows: tuple[Row, ...] = ()
    error: str = ""

    @property
    def records(self) -> list[Row]:
        """The producer's records, without end markers, by rising offset."""
        return [row for row in self.rows if row.kind is RowKind.RECORD]

    @property
    def ends(self) -> list[tuple[int, str]]:
        """The producer's end markers by rising offset, each as offset and type (``commit`` or ``abort``)."""
        return [(row.offset, END_MARKERS[row.kind]) for row in self.rows if row.kind in END_MARKERS]


@dataclass(frozen=True, slots=True)
class Replica:
    """What one replica reports of its log and its producers.

    Attributes:
        marks: its log start, LSO, high watermark and log end; None if it did not answer.
        producers: the producers that it remembers, with their open transactions.
        error: why ``marks`` or ``producers`` could not be asked; empty if both could.
    """

    marks: Watermarks | None = None
    producers: tuple[ProducerState, ...] = ()
    error: str = ""

    def remembered(self, producer_id: int) -> ProducerState | None:
        """The state of the producer ``producer_id``, as this replica remembers it; None if it does not."""
        return next((one for one in self.producers if one.producer_id == producer_id), None)

    def is_open_from(self, start_offset: int) -> bool:
        """Whether the replica holds open a transaction, of any producer, that begins at ``start_offset``."""
        return any(state.current_transaction_start_offset == start_offset for state in self.producers)

    def holds(self, producer_id: int, start_offset: int) -> bool:
        """Whether the replica holds open the transaction that ``producer_id`` began at ``start_offset``."""
        state = self.remembered(producer_id)
        return state is not None and state.current_transaction_start_offset == start_offset


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that at least one replica holds open, or that the caller asked about.

    Attributes:
        verdict: whether its coordinator will still end it, or why that is unknown.
        logs: by broker, what its replica holds of the producer from the transaction's first offset on.
    """

    producer_id: int
    start_offset: int
    verdict: Verdict
    logs: Mapping[int, Log] = field(default_factory=dict)

    @property
    def goes_on(self) -> bool:
        """Whether the transaction's coordinator will still end it; if so, a repair must not."""
        return self.verdict.standing is Standing.GOES_ON


@dataclass(frozen=True, slots=True)
class End:
    """How a transaction ended, commit or abort, and what proves it.

    Attributes:
        type: ``commit`` or ``abort``.
        proof: what proves it, a phrase.
        marker_offset: the offset at which its end marker was read; -1 if none was.
        finding: the id of the finding that proves it; empty if only a person says so.
    """

    type: str
    proof: str
    marker_offset: int = UNKNOWN
    finding: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """A look at a partition: what brokers and tables said at one moment, on which a repair bases its decisions.

    Attributes:
        at_ms: when the look began, milliseconds since 1970 UTC.
        cluster_id: id of the cluster that answered.
        topic_id: Kafka's id of the topic.
        leader: id of the broker that leads; -1 if none does.
        leader_epoch: the epoch in which it leads.
        assigned: ids of the brokers that hold the partition, the preferred leader first.
        isr: ids of the brokers whose replicas are in sync.
        replicas: by broker, what its replica reports.
        transactions: all transactions that some replica holds open, and those that the look was asked for.
        findings: the ids of the partition's findings that are not over.
        proven: by producer id and first offset of a transaction, how it ended by the findings' proofs; several ends if
            these contradict each other.
        claims: what the findings say of the replicas.
        layout: what is needed to reassign the partition; None if that was not asked for.
        shown: by broker and offset, what its replica shows at the offsets that findings are about; offsets that were
            cleaned are left out.
        doubts: what the job's tables say against the replicas besides findings; None if they were not read.
    """

    at_ms: int
    cluster_id: str
    place: TopicPartition
    topic_id: str
    leader: int
    leader_epoch: int
    assigned: tuple[int, ...]
    isr: frozenset[int]
    replicas: Mapping[int, Replica]
    transactions: tuple[Transaction, ...] = ()
    findings: frozenset[str] = frozenset()
    proven: Mapping[tuple[int, int], Collection[End]] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    layout: Layout | None = None
    shown: Mapping[int, Mapping[int, Row]] = field(default_factory=dict)
    doubts: Doubts | None = None

    def holders(self, producer_id: int, start_offset: int) -> list[int]:
        """Sorted ids of the brokers that hold open the transaction that ``producer_id`` began at ``start_offset``."""
        return [b for b, replica in sorted(self.replicas.items()) if replica.holds(producer_id, start_offset)]

    def open_of(self, producer_id: int) -> set[int]:
        """The first offsets of the open transactions of the producer ``producer_id``, on all replicas together."""
        states = (replica.remembered(producer_id) for replica in self.replicas.values())
        return {state.current_transaction_start_offset for state in states if state} - {UNKNOWN}

    def log_of(self, broker: int, producer_id: int, start_offset: int) -> Log:
        """The records and end markers of ``producer_id`` on the replica of ``broker``, from ``start_offset`` on.

        ``start_offset`` is the first offset of a transaction. If the look does not cover that transaction or replica,
        `Log.error` says so.
        """
        wanted = (producer_id, start_offset)
        found = (one.logs.get(broker) for one in self.transactions if (one.producer_id, one.start_offset) == wanted)
        return next((log for log in found if log is not None), Log(error="it was not looked at"))


def disturbed(look: Look) -> str:
    """Why a repair may not change a partition now: no leader, or a replica away, behind or being copied. Else empty."""
    if look.leader < 0:
        return f"{look.place.name} has no leader"
    out = set(look.assigned) - look.isr
    if out:
        return f"{brokers(out)} not in sync in {look.place.name}: away, behind, or being copied"
    silent = {broker: one.error for broker, one in sorted(look.replicas.items()) if one.error}
    return "; ".join(f"broker {broker} does not say what it holds ({error})" for broker, error in silent.items())


def shows_the_same(look: Look, source: int, wrong: Iterable[int], right: int | None = None) -> str:
    """A phrase if the right replica now shows the same as a wrong one at a finding's offsets; empty if it does not.

    It also says so if one of them could not be read there. If they show the same, one of them was copied since the
    finding, so the finding no longer says which replica is right. A wrong replica that shows nothing there is not
    compared, since a cleaner may have removed the record.

    Args:
        look: a look at the partition, with what replicas show at the findings' offsets.
        source: the broker whose replica counts as right.
        wrong: the brokers whose replicas count as wrong.
        right: the broker whose replica a person calls right; None if nobody does.
    """
    for broker in sorted(wrong):
        for claim in look.claims:
            if broker not in claim.wrong_if(right):
                continue
            unread = [one for one in (source, broker) if one not in look.shown]
            if unread and claim.offsets:
                return f"what broker {unread[0]} shows where finding {claim.finding} says so could not be read"
            theirs, ours = (_kept(look.shown.get(one, {}), claim.offsets) for one in (broker, source))
            if theirs and theirs == ours:
                return f"broker {source} shows the same as broker {broker} by now (finding {claim.finding})"
    return ""


def _kept(shown: Mapping[int, Row], offsets: Iterable[int]) -> list[list[Any]]:
    return [shown[offset].kept for offset in offsets if offset in shown]


def brokers(some: Collection[int]) -> str:
    """Some brokers as the subject of a sentence, with the verb: ``broker 1 is``, ``brokers 1 and 2 are``."""
    ids = sorted(some)
    if len(ids) == 1:
        return f"broker {ids[0]} is"
    return f"brokers {', '.join(map(str, ids[:-1]))} and {ids[-1]} are"


__all__ = [
    "END_MARKERS",
    "OUTCOMES",
    "End",
    "Log",
    "Look",
    "Replica",
    "Row",
    "Transaction",
    "brokers",
    "disturbed",
    "shows_the_same",
]
