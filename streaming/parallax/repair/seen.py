"""Plain values for a look at a partition: what brokers and findings say that a repair decides by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parallax.findings.answers import producer_epoch_in
from parallax.findings.hanging import Prospect, Standing
from parallax.model import UNKNOWN, Outcome, RowKind, TopicPartition
from parallax.repair.atoms import (
    BEGINS_ABOVE,
    BEGINS_BELOW,
    ENDED,
    MARKERS,
    NO_VALUE,
    NOTHING,
    OPEN,
    UNDECIDED,
    About,
    Atom,
    Proof,
    record_text,
    value_text,
)
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
        fingerprint: all that replicas must show alike of a record (`RecordShown.fingerprint`); empty for an end marker.
        has_value: whether the record has a value; False for a tombstone.
    """

    offset: int
    kind: RowKind
    key: str
    content: str
    outcome: Outcome
    fingerprint: str = ""
    has_value: bool = True

    @property
    def producer_epoch(self) -> int:
        """The epoch of the producer that wrote the record; -1 for an end marker."""
        return producer_epoch_in(self.fingerprint)

    @property
    def is_visible(self) -> bool:
        """Whether it is a record that read_committed consumers read."""
        return self.kind is RowKind.RECORD and self.outcome not in (Outcome.ABORTED, Outcome.UNDECIDED)

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
    verdict: Prospect
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
        known_to: where the log ended when a plan was begun: a copy waits until every replica was read up to there; -1
            where nothing is planned.
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
    known_to: int = UNKNOWN

    def holders(self, producer_id: int, start_offset: int) -> list[int]:
        """Sorted ids of the brokers that hold open the transaction that ``producer_id`` began at ``start_offset``."""
        return [b for b, replica in sorted(self.replicas.items()) if replica.holds(producer_id, start_offset)]

    def open_of(self, producer_id: int) -> set[int]:
        """The first offsets of the open transactions of the producer ``producer_id``, on all replicas together."""
        states = (replica.remembered(producer_id) for replica in self.replicas.values())
        return {state.current_transaction_start_offset for state in states if state} - {UNKNOWN}

    def transaction(self, producer_id: int, start_offset: int) -> Transaction | None:
        """The transaction that ``producer_id`` began at ``start_offset``; None if the look does not cover it."""
        wanted = (producer_id, start_offset)
        return next((one for one in self.transactions if (one.producer_id, one.start_offset) == wanted), None)

    def has_ended(self, producer_id: int, start_offset: int) -> bool:
        """Whether no coordinator has a transaction of the producer under way here; False if that is not known.

        Args:
            producer_id: the producer.
            start_offset: the first offset of one of its transactions, which the look covers.
        """
        mine = self.transaction(producer_id, start_offset)
        return mine is not None and mine.verdict.standing is Standing.HANGS

    def log_of(self, broker: int, producer_id: int, start_offset: int) -> Log:
        """The records and end markers of ``producer_id`` on the replica of ``broker``, from ``start_offset`` on.

        ``start_offset`` is the first offset of a transaction. If the look does not cover that transaction or replica,
        `Log.error` says so.
        """
        mine = self.transaction(producer_id, start_offset)
        log = None if mine is None else mine.logs.get(broker)
        return Log(error="it was not looked at") if log is None else log


def disturbed(look: Look) -> str:
    """Why a repair may not change a partition now: no leader, or a replica away, behind or being copied. Else empty."""
    if look.leader < 0:
        return f"{look.place.name} has no leader"
    out = set(look.assigned) - look.isr
    if out:
        return f"{brokers(out)} not in sync in {look.place.name}: away, behind, or being copied"
    silent = {broker: one.error for broker, one in sorted(look.replicas.items()) if one.error}
    return "; ".join(f"broker {broker} does not say what it holds ({error})" for broker, error in silent.items())


def contradicted(look: Look, proof: Iterable[Proof], source: int, wrong: Collection[int]) -> str:
    """What replicas show otherwise now than when findings were judged, a phrase; empty if they show the same.

    A wrong replica must still show what made it wrong, and the source what made it right. If they do not, one of them
    was copied since, or a cleaner has removed what proves it. Findings that are over do not count. Of an incident it is
    enough if one member is shown as it was, since a newer value may end another one at any time.

    Args:
        look: a look at the partition, with what replicas show at the findings' offsets.
        proof: what they showed when the findings were judged.
        source: the broker whose replica counts as right.
        wrong: the brokers whose replicas must still be wrong. Of others it does not matter: they may be mended already.
    """
    open_still = {claim.finding for claim in look.claims}
    parts: dict[tuple[str, int], list[Proof]] = {}
    for one in proof:
        for broker in one.wrong if one.finding in open_still else ():
            parts.setdefault((one.finding, broker), []).append(one)
    for (finding, broker), some in parts.items():
        whys = [_contradicted(look, one, source, broker, is_checked=broker in wrong) for one in some]
        if all(whys):
            return f"{whys[0]} (finding {finding})"
    return ""


def _contradicted(look: Look, proof: Proof, source: int, broker: int, *, is_checked: bool) -> str:
    apart = proof.apart(source, broker)
    if not apart:
        return f"nothing on record says by what broker {broker} and broker {source} differed"
    shown = {atom: now(look, atom) for pair in apart for atom in pair}
    if is_checked and all(shown[ours] == shown[theirs] == ours.shows for ours, theirs in apart):
        return f"broker {broker} shows what broker {source} shows by now: it may be mended already"
    pairs = [pair if is_checked else pair[:1] for pair in apart]
    for atom in (atom for pair in pairs for atom in pair):
        text = shown[atom]
        if not text:
            return f"what broker {atom.broker} shows {_where(atom)} could not be read"
        if text != atom.shows and not (atom.may_go and text == NOTHING):
            shows, showed = (_in_words(one) for one in (text, atom.shows))
            other = "another record" if shows == showed else shows
            return f"broker {atom.broker} shows {other} {_where(atom)}, and showed {showed} when the finding was judged"
    if not any(all(shown[atom] == atom.shows for atom in pair) for pair in pairs):
        return f"nothing is left by which broker {broker} and broker {source} differed"
    return ""


def now(look: Look, atom: Atom) -> str:
    """What a replica shows now of what an atom is about, in the words of `Atom.shows`; empty if that is not known.

    Args:
        look: a look at the partition, with what replicas show at the atom's offsets.
        atom: what the replica showed before.
    """
    replica = look.replicas.get(atom.broker, Replica())
    if replica.marks is None or replica.error:
        return ""
    first = atom.offsets[0]
    match atom.about:
        case About.TRANSACTION:
            known = replica.remembered(atom.producer_id)
            start = UNKNOWN if known is None else known.current_transaction_start_offset
            return OPEN if UNKNOWN < start < atom.offsets[1] else ENDED
        case About.LOG_START:
            return BEGINS_ABOVE if replica.marks.log_start_offset > first else BEGINS_BELOW
    if atom.broker not in look.shown or atom.offsets[-1] >= replica.marks.high_watermark:
        return ""
    rows = [row for offset in atom.offsets if (row := look.shown[atom.broker].get(offset)) is not None]
    match atom.about:
        case About.KEY:
            visible = [row for row in rows if row.is_visible]
            is_value = visible and visible[-1].has_value
            return value_text(visible[-1].offset, visible[-1].fingerprint) if is_value else NO_VALUE
        case About.HELD:
            return _held(rows[0]) if rows else NOTHING
        case _:
            return _met(rows[0]) if rows else NOTHING


def _held(row: Row) -> str:
    return record_text(row.fingerprint) if row.kind is RowKind.RECORD else MARKERS[END_MARKERS[row.kind]]


def _met(row: Row) -> str:
    """What a read_committed consumer meets."""
    if row.kind is RowKind.RECORD and not row.is_visible:
        return UNDECIDED if row.outcome is Outcome.UNDECIDED else NOTHING
    return _held(row)


def _in_words(text: str) -> str:
    return text.partition(" [")[0]


def _where(atom: Atom) -> str:
    first = atom.offsets[0]
    match atom.about:
        case About.TRANSACTION:
            return f"from offset {first} on"
        case About.KEY:
            named = " and ".join(map(str, atom.offsets))
            return f"for the key of {'offset' if len(atom.offsets) == 1 else 'offsets'} {named}"
        case _:
            return f"at offset {first}"


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
    "contradicted",
    "disturbed",
    "now",
]
