"""Asks every replica of a partition again about the claims made of one of them.

Pure orchestration over `parallax.replica`: what is asked of whom, in which order, within which bounds. The order is
part of the proof (see `parallax.findings.decide`): the coordinator and the others first, the accused after them; where
the claim is about a key's value, the accused once before them as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from parallax.compare.suspect import KEY_KINDS, TRANSACTION_KINDS
from parallax.config import FindingSettings
from parallax.findings.answers import (
    Answers,
    CoordinatorAnswer,
    KeyShown,
    MarkerShown,
    OpenTransaction,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.claim import Claim
from parallax.findings.keys import HistoryLookup, Key, KeyHistory, KeyScan, ScanTooLong, markers_at, records_at
from parallax.model import IsolationLevel
from parallax.replica.client import FetchPosition, ReplicaClient
from parallax.replica.decode import ContentHasher, Payload
from parallax.replica.errors import ReplicaError, UnknownTopic
from parallax.replica.reader import read_range

_POINT_BYTES = 1 << 20
"""Fetch size for reading single offsets: a batch is served whole even where it is larger."""
_SCAN_BYTES = 4 << 20
_GAP = 256
"""Offsets asked for that lie no farther apart than this are read in one range."""
_CANDIDATES = 8
"""How many recorded offsets of one key are asked for again, newest first."""


class _LazyHistory:
    """What was recorded of the keys, looked up at most once, and only when a log is too long to be read whole."""

    def __init__(self, look_up: Callable[[], KeyHistory]) -> None:
        self._look_up = look_up
        self._lock = threading.Lock()
        self._found: KeyHistory | None = None

    def offsets(self, broker: int, key: Key) -> Sequence[int]:
        """Recorded offsets of a key on one replica, newest first."""
        with self._lock:
            if self._found is None:
                self._found = self._look_up()
            return self._found.offsets.get((broker, key), ())


@dataclass(frozen=True, slots=True)
class _Place:
    """A partition by the cluster's metadata, or why there is none."""

    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    leader: int = -1
    topic_id: str = ""
    gone: str | None = None

    def gone_for(self, claim: Claim) -> str | None:
        """Why a claim has lost its object; None where it stands."""
        if self.gone is None and not claim.is_of(self.topic_id):
            return f"the topic {claim.topic} was deleted and made anew"
        if self.gone is None and claim.broker not in self.replicas:
            return f"broker {claim.broker} holds no replica of {claim.topic}-{claim.partition} any more"
        return self.gone


@dataclass(frozen=True, slots=True)
class _Wants:
    """What to ask each replica of one partition."""

    topic: str
    partition: int
    offsets: frozenset[int]
    markers: frozenset[int]
    aborted_from: frozenset[int]
    producers: bool
    keys: frozenset[Key]
    scan_from: int
    epochs: frozenset[int] = frozenset()
    history: _LazyHistory | None = None

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one replica answered to all claims together; each claim gets its part of it."""

    answer: ReplicaAnswer
    aborted: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    keys: Mapping[Key, KeyShown] = field(default_factory=dict)
    key_bytes: Mapping[Key, bytes] = field(default_factory=dict)
    key_error: str | None = None

    def for_claim(self, claim: Claim) -> ReplicaAnswer:
        """The part that concerns one claim."""
        if self.answer.error is not None:
            return self.answer
        key = None if claim.key is None else self.keys.get(claim.key)
        offsets = {claim.offset, claim.transaction_start_offset}
        if key is not None and key.visible is not None:
            offsets.add(key.visible.offset)
        answer = self.answer
        # A marker where the claim has a record tells that the log was replaced by another one.
        places = {claim.offset, claim.transaction_start_offset, claim.marker_offset}
        listed = self.aborted.get(_aborted_from(claim), ())
        return replace(
            answer,
            committed={o: r for o, r in answer.committed.items() if o in offsets or _is_of(r, claim)},
            uncommitted={o: r for o, r in answer.uncommitted.items() if o in offsets or _is_of(r, claim)},
            markers=tuple(m for m in answer.markers if m.offset in places),
            aborted=tuple(a for a in listed if a[0] == claim.producer_id),
            key=key,
            key_error=self.key_error,
        )


def _is_of(record: RecordShown, claim: Claim) -> bool:
    """Whether a record is of the claim's key: read beside the offsets asked for, and evidence as well."""
    return claim.key is not None and record.key_hash == claim.key_text


def _aborted_from(claim: Claim) -> int:
    """Where to fetch from so that the aborted list holds the claim's transaction."""
    return claim.transaction_start_offset if claim.transaction_start_offset >= 0 else claim.offset


class Prober:
    """Asks the replicas about claims.

    Args:
        client: thread-safe client, pinned to brokers by id.
        hasher: the same as the views' (keys are looked for by their hash).
        settings: deadlines and bounds.
        payload: ``read.payload``; the key's bytes are read only where it is not ``hash``.
        history: looks recorded offsets of a key up, for logs too long to be read as a whole; None does without.
        full_scan_offsets: a log with no more offsets than this is read as a whole to find a key.
    """

    def __init__(
        self,
        client: ReplicaClient,
        hasher: ContentHasher,
        settings: FindingSettings,
        *,
        payload: str = "hash",
        history: HistoryLookup | None = None,
        full_scan_offsets: int = 1 << 20,
    ) -> None:
        self._client = client
        self._hasher = hasher
        self._settings = settings
        self._payload = Payload.HASH if payload == "hash" else Payload.KEY
        self._history = history
        self.full_scan_offsets = full_scan_offsets
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="probe-replica")

    def close(self) -> None:
        """Give up what is still being asked."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def probe(self, claims: Sequence[Claim]) -> list[Answers]:
        """Ask about claims that accuse the same replica of the same partition; the answers come in their order.

        Never raises for what a broker does or fails to do: an answer then carries the error.
        """
        asked_at = int(time.time() * 1000)
        first = claims[0]
        try:
            place = self._where(first.topic, first.partition)
        except ReplicaError as error:
            silent = {first.broker: ReplicaAnswer(first.broker, error=str(error))}
            return [Answers(silent, asked_at_ms=asked_at) for _ in claims]
        gone = {claim.suspect_id: place.gone_for(claim) for claim in claims}
        asked = [claim for claim in claims if gone[claim.suspect_id] is None]
        coordinators = self._coordinators(asked)
        found = dict(zip((c.suspect_id for c in asked), self._rounds(asked, place.replicas), strict=True))
        return [
            Answers({}, leader=place.leader, gone=gone[claim.suspect_id], asked_at_ms=asked_at)
            if claim.suspect_id not in found
            else Answers(
                {b: reading.for_claim(claim) for b, reading in found[claim.suspect_id].items()},
                leader=place.leader,
                isr=place.isr,
                coordinator=coordinators.get(claim.producer_id),
                asked_at_ms=asked_at,
                key=_key_bytes(found[claim.suspect_id].values(), claim),
            )
            for claim in claims
        ]

    def _where(self, topic: str, partition: int) -> _Place:
        """Where a partition is."""
        found = self._client.metadata([topic], timeout_ms=self.timeout_ms).get(topic)
        if found is None or isinstance(found.error, UnknownTopic):
            return _Place(gone=f"the topic {topic} does not exist any more")
        if found.error is not None:
            raise found.error
        where = found.partitions.get(partition)
        if where is None:
            return _Place(gone=f"{topic}-{partition} does not exist any more")
        return _Place(tuple(where.replicas), tuple(where.isr), where.leader, found.topic_id)

    def _rounds(self, claims: Sequence[Claim], replicas: Sequence[int]) -> list[Mapping[int, _Reading]]:
        """Ask in the order that the proofs need; a second time with keys where a record is no longer held."""
        about_keys = [c for c in claims if c.kind in KEY_KINDS and c.key is not None]
        rest = [c for c in claims if c not in about_keys]
        readings: dict[str, Mapping[int, _Reading]] = {}
        if rest:
            wants = _wants(rest)
            answers = self._ask_all(wants, [b for b in replicas if b != rest[0].broker])
            answers[rest[0].broker] = self._ask(wants, rest[0].broker)
            readings |= {c.suspect_id: answers for c in rest}
            about_keys += [c for c in rest if _has_lost_its_record(c, answers[c.broker].answer)]
        if about_keys:
            readings |= self._ask_about_keys(about_keys, replicas)
        return [readings[c.suspect_id] for c in claims]

    def _ask_about_keys(self, claims: Sequence[Claim], replicas: Sequence[int]) -> dict[str, Mapping[int, _Reading]]:
        """The accused, the others, and the accused again where it shows a value.

        A value that the others show and the accused, asked before them, does not, has not been deleted in between;
        a value that the accused shows, asked after them, had been deleted before.
        """
        accused = claims[0].broker
        wants = self._with_history(_wants(claims, keys=True), replicas)
        before = self._ask(wants, accused)
        shown = [known.live for known in before.keys.values()]
        wants = replace(wants, offsets=wants.offsets | {r.offset for r in shown if r is not None})
        others = self._ask_all(wants, [b for b in replicas if b != accused])
        after = self._ask(wants, accused) if any(shown) else before
        found: dict[str, Mapping[int, _Reading]] = {}
        for claim in claims:
            key = before.keys.get(claim.key) if claim.key is not None else None
            own = after if key is not None and key.live is not None else before
            found[claim.suspect_id] = others | {accused: own}
        return found

    def _with_history(self, wants: _Wants, replicas: Sequence[int]) -> _Wants:
        history, keys = self._history, sorted(wants.keys)
        if history is None:
            return wants
        return replace(wants, history=_LazyHistory(lambda: history(wants.topic, wants.partition, replicas, keys)))

    def _ask_all(self, wants: _Wants, brokers: Sequence[int]) -> dict[int, _Reading]:
        """Ask several replicas side by side."""
        return dict(zip(brokers, self._pool.map(lambda broker: self._ask(wants, broker), brokers), strict=True))

    def _ask(self, wants: _Wants, broker: int) -> _Reading:
        """Ask one replica; a failure of any part makes the whole answer an error, so that no half of it is judged."""
        try:
            return _Question(self, wants, broker).reading()
        except ReplicaError as error:
            return _Reading(ReplicaAnswer(broker, error=str(error)))

    def _coordinators(self, claims: Sequence[Claim]) -> dict[int, CoordinatorAnswer]:
        """What the transaction coordinators say of the producers; what they do not say is told, not guessed."""
        wanted = sorted({c.producer_id for c in claims if c.kind in TRANSACTION_KINDS and c.producer_id >= 0})
        if not wanted:
            return {}
        try:
            listed = self._client.list_transactions(wanted, timeout_ms=self.timeout_ms)
        except ReplicaError as error:
            return {pid: CoordinatorAnswer(pid, error=str(error)) for pid in wanted}
        silent = "; ".join(str(e) for e in listed.unanswered.values()) or None
        found = {pid: CoordinatorAnswer(pid, error=silent) for pid in wanted}
        for t in listed.transactions:
            if t.producer_id in found:
                found[t.producer_id] = CoordinatorAnswer(t.producer_id, t.transactional_id, t.state)
        return found

    def read(
        self, broker: int, wants: _Wants, start: int, end: int, isolation: IsolationLevel, *, scan: bool = False
    ) -> Iterator[Any]:
        """Chunks of one replica's log; a scan reads in large steps and has ten times the deadline."""
        timeout = self.timeout_ms
        return read_range(
            self._client,
            broker,
            wants.topic,
            wants.partition,
            start,
            end,
            isolation=isolation,
            hasher=self._hasher,
            payload=self._payload,
            max_bytes=_SCAN_BYTES if scan else _POINT_BYTES,
            deadline_ms=timeout * 10 if scan else timeout,
        )

    def fetch_aborted(self, broker: int, wants: _Wants, offset: int) -> tuple[tuple[int, int], ...]:
        """The aborted transactions that a read_committed Fetch from the offset lists."""
        position = FetchPosition(wants.topic, wants.partition, offset, _POINT_BYTES)
        (answer,) = self._client.fetch(
            broker,
            [position],
            isolation=IsolationLevel.READ_COMMITTED,
            max_bytes=_POINT_BYTES,
            timeout_ms=self.timeout_ms,
        )
        if answer.error is not None:
            raise answer.error
        return tuple((int(pid), int(first)) for pid, first in np.asarray(answer.aborted).reshape(-1, 2))

    @property
    def client(self) -> ReplicaClient:
        """The client that the questions go through."""
        return self._client

    @property
    def timeout_ms(self) -> int:
        """Deadline of each request."""
        return self._settings.probe_timeout_ms

    @property
    def max_scan_bytes(self) -> int:
        """How many bytes one probe may read from a replica."""
        return self._settings.max_scan_bytes


class _Question:
    """One replica being asked: watermarks first, then everything that is judged against them."""

    def __init__(self, prober: Prober, wants: _Wants, broker: int) -> None:
        self._prober = prober
        self._wants = wants
        self._broker = broker
        self._key_bytes: dict[Key, bytes] = {}

    def reading(self) -> _Reading:
        """Ask.

        Raises:
            ReplicaError: the replica did not answer.
        """
        wants = self._wants
        client, timeout = self._prober.client, self._prober.timeout_ms
        marks = client.watermarks(self._broker, [wants.place], timeout_ms=timeout)[wants.place]
        if isinstance(marks, ReplicaError):
            raise marks
        self._marks = marks
        open_transactions, open_error = self._open_transactions()
        committed, _ = self._points(wants.offsets, IsolationLevel.READ_COMMITTED, marks.last_stable_offset)
        both = wants.offsets | wants.markers
        uncommitted, markers = self._points(both, IsolationLevel.READ_UNCOMMITTED, marks.high_watermark)
        aborted = {
            o: self._prober.fetch_aborted(self._broker, wants, o)
            for o in sorted(wants.aborted_from)
            if marks.log_start_offset <= o <= marks.log_end_offset
        }
        keys, key_error = self._keys() if wants.keys else ({}, None)
        answer = ReplicaAnswer(
            broker=self._broker,
            high_watermark=marks.high_watermark,
            last_stable_offset=marks.last_stable_offset,
            log_start_offset=marks.log_start_offset,
            log_end_offset=marks.log_end_offset,
            committed=committed,
            asked=frozenset(o for o in wants.offsets if marks.log_start_offset <= o < marks.last_stable_offset),
            uncommitted=uncommitted,
            markers=markers,
            open_transactions=open_transactions,
            open_error=open_error,
            epoch_ends={epoch: self._epoch_end(epoch) for epoch in sorted(wants.epochs)},
        )
        return _Reading(answer, aborted, keys, self._key_bytes, key_error)

    def _epoch_end(self, epoch: int) -> int | None:
        """Up to where the log is of a leader epoch or an older one."""
        wants, prober = self._wants, self._prober
        found = prober.client.end_offset_for_epoch(self._broker, *wants.place, epoch, timeout_ms=prober.timeout_ms)
        return None if found is None else found[1]

    def _open_transactions(self) -> tuple[tuple[OpenTransaction, ...] | None, str | None]:
        """Asked after the watermarks: what is open now and was not closed by then is past its marker."""
        wants = self._wants
        if not wants.producers:
            return None, "not asked"
        client, timeout = self._prober.client, self._prober.timeout_ms
        states = client.describe_producers(self._broker, [wants.place], timeout_ms=timeout)[wants.place]
        if isinstance(states, ReplicaError):
            return None, str(states)
        return tuple(
            OpenTransaction(
                producer_id=s.producer_id,
                start_offset=s.current_transaction_start_offset,
                producer_epoch=s.producer_epoch,
                last_timestamp=s.last_timestamp,
                coordinator_epoch=s.coordinator_epoch,
            )
            for s in states
            if s.current_transaction_start_offset >= 0
        ), None

    def _points(
        self, offsets: Iterable[int], isolation: IsolationLevel, bound: int
    ) -> tuple[dict[int, RecordShown], tuple[MarkerShown, ...]]:
        """The records and markers at single offsets that this isolation level can show."""
        wanted = {o for o in offsets if self._marks.log_start_offset <= o < bound}
        shown: dict[int, RecordShown] = {}
        markers: list[MarkerShown] = []
        for start, end in _ranges(wanted):
            for chunk in self._prober.read(self._broker, self._wants, start, end, isolation):
                for record, key, key_bytes in records_at(chunk, wanted):
                    shown[record.offset] = record
                    if key_bytes is not None:
                        self._key_bytes[key] = key_bytes
                markers += markers_at(chunk, wanted)
        return shown, tuple(markers)

    def _keys(self) -> tuple[dict[Key, KeyShown], str | None]:
        """The newest visible record of each key: by the whole log, or by what was recorded and the end of the log."""
        wants, marks = self._wants, self._marks
        scan = KeyScan(wants.keys, self._prober.max_scan_bytes)
        end = marks.last_stable_offset
        recorded = self._recorded() if end - marks.log_start_offset > self._prober.full_scan_offsets else None
        start = marks.log_start_offset
        if recorded:
            start = max(start, min(wants.scan_from, end))
        try:
            self._scan(scan, start, end)
            for first, last in _ranges(recorded or ()):
                self._scan(scan, first, last)
        except ScanTooLong:
            return {}, f"offsets {start} to {end} hold more than findings.max_scan_bytes; raise it"
        self._key_bytes |= scan.key_bytes
        return scan.result(complete=not recorded, complete_from=start), None

    def _scan(self, scan: KeyScan, start: int, end: int) -> None:
        if start < end:
            for chunk in self._prober.read(
                self._broker, self._wants, start, end, IsolationLevel.READ_COMMITTED, scan=True
            ):
                scan.add(chunk)

    def _recorded(self) -> set[int]:
        """Offsets at which the views recorded one of the keys on this replica, as far as they are still in its log."""
        history = self._wants.history
        if history is None:
            return set()
        wanted: set[int] = set()
        for key in self._wants.keys:
            wanted.update(history.offsets(self._broker, key)[:_CANDIDATES])
        return {o for o in wanted if self._marks.log_start_offset <= o < self._marks.last_stable_offset}


def _wants(claims: Sequence[Claim], *, keys: bool = False) -> _Wants:
    offsets = {o for c in claims for o in (c.offset, c.transaction_start_offset) if o >= 0}
    with_producer = [c for c in claims if c.producer_id >= 0]
    return _Wants(
        topic=claims[0].topic,
        partition=claims[0].partition,
        offsets=frozenset(offsets),
        markers=frozenset(c.marker_offset for c in claims if c.marker_offset >= 0),
        aborted_from=frozenset(o for c in with_producer if (o := _aborted_from(c)) >= 0),
        producers=any(c.kind in TRANSACTION_KINDS for c in claims),
        keys=frozenset(c.key for c in claims if c.key is not None) if keys else frozenset(),
        scan_from=min((c.first_offset for c in claims), default=0),
        epochs=frozenset(c.lost_epoch for c in claims if c.lost_epoch >= 0),
    )


def _has_lost_its_record(claim: Claim, accused: ReplicaAnswer) -> bool:
    """Whether only the key's value can still tell what became of the transaction."""
    return (
        claim.kind in TRANSACTION_KINDS
        and claim.key is not None
        and accused.error is None
        and accused.open_transactions is not None
        and not accused.holds_open(claim.producer_id, claim.transaction_start_offset, claim.marker_offset)
        and claim.first_offset not in accused.committed
    )


def _ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Half-open ranges that cover the offsets, those near to each other in one."""
    ranges: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if ranges and offset - ranges[-1][1] <= _GAP:
            ranges[-1] = ranges[-1][0], offset + 1
        else:
            ranges.append((offset, offset + 1))
    return ranges


def _key_bytes(readings: Iterable[_Reading], claim: Claim) -> bytes | None:
    for reading in readings:
        if claim.key is not None and (found := reading.key_bytes.get(claim.key)) is not None:
            return found
    return None
