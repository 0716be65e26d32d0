"""Asks the cluster what a probe has to know: the IO of `parallax.findings.questions`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from parallax.config import FindingSettings
from parallax.findings.answers import (
    Answers,
    CoordinatorAnswer,
    MarkerShown,
    OpenTransaction,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.claim import Claim
from parallax.findings.keys import HistoryLookup, Key, KeyHistory, KeyScan, ScanTooLong, markers_at, records_at
from parallax.findings.lanes import Lanes, Silence
from parallax.findings.pace import Counted, Paces
from parallax.findings.questions import Reading, driven, questions, reading
from parallax.findings.requests import (
    Aborted,
    Coordinators,
    Ends,
    EpochEnd,
    Keys,
    KeysShown,
    Marks,
    Points,
    PointsShown,
    Producers,
    Question,
    Recreated,
    Request,
    Transaction,
    TransactionRecords,
    Wants,
    Where,
    Whereabouts,
)
from parallax.model import IsolationLevel
from parallax.replica.client import FetchPosition, ReplicaClient
from parallax.replica.decode import ContentHasher, Payload
from parallax.replica.errors import BrokerTooOld, DeadlineExceeded, ReplicaError, UnknownTopic, Unreachable
from parallax.replica.reader import read_range

_ASKS = 4
"""How many probes ask one broker at once."""
_POINT_BYTES = 1 << 16
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


class LooksUp(Protocol):
    """The part of `parallax.findings.history.RecordedHistory` that tells of transactions and of logs."""

    def transaction(self, question: Transaction) -> TransactionRecords:
        """The records of a transaction."""

    def was_recreated(self, question: Recreated) -> bool:
        """Whether a replica's log is another one since a time."""


class Prober:
    """Asks the replicas about claims.

    Args:
        client: thread-safe client, pinned to brokers by id.
        hasher: the same as the views' (keys are looked for by their hash).
        settings: deadlines and bounds.
        payload: ``read.payload``; the key's bytes are read only where it is not ``hash``.
        history: looks recorded offsets of a key up, for logs too long to be read as a whole; None does without.
        recorded: looks up what else the views recorded; None does without.
        full_scan_offsets: a log with no more offsets than this is read as a whole to find a key.
        clock: monotonic seconds, for tests.
    """

    def __init__(
        self,
        client: ReplicaClient,
        hasher: ContentHasher,
        settings: FindingSettings,
        *,
        payload: str = "hash",
        history: HistoryLookup | None = None,
        recorded: LooksUp | None = None,
        full_scan_offsets: int = 1 << 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._hasher = hasher
        self._settings = settings
        self._payload = Payload.HASH if payload == "hash" else Payload.KEY
        self._history = history
        self._recorded = recorded
        self.full_scan_offsets = full_scan_offsets
        self._closed = threading.Event()
        self.paces = Paces(settings.max_bytes_per_second, clock, self._pause)
        """What holds back all that is read, by broker."""
        self._silence = Silence(settings.probe_timeout_ms / 1000, clock)
        self._lanes = Lanes(_ASKS, "probe-replica")

    def close(self) -> None:
        """Give up what is still being asked."""
        self._closed.set()
        self._lanes.close()

    def _pause(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise Unreachable("the probe was given up: the program ends")

    @property
    def read_bytes(self) -> Mapping[int, int]:
        """Bytes of records that were read so far, by broker."""
        return self.paces.read_bytes()

    def probe(self, claims: Sequence[Claim]) -> list[Answers]:
        """Ask about claims that accuse the same replica of the same partition; the answers come in their order.

        Never raises for what a broker does or fails to do: an answer then carries the error.
        """
        history: dict[frozenset[Key], _LazyHistory] = {}
        return driven(questions(claims, int(time.time() * 1000)), lambda question: self._answer(question, history))

    def _answer(self, question: Question, history: dict[frozenset[Key], _LazyHistory]) -> Any:
        if isinstance(question, Where):
            return self._where(question)
        if isinstance(question, Coordinators):
            return self._coordinators(question)
        if isinstance(question, Transaction):
            return TransactionRecords() if self._recorded is None else self._recorded.transaction(question)
        if isinstance(question, Recreated):
            return self._recorded is not None and self._recorded.was_recreated(question)
        wants = question.wants
        look_up = history.setdefault(wants.keys, _LazyHistory(lambda: self._look_up(wants)))
        asked = {b: self._lanes.submit(b, partial(self._ask, wants, b, look_up)) for b in question.brokers}
        return {broker: answer.result() for broker, answer in asked.items()}

    def _look_up(self, wants: Wants) -> KeyHistory:
        if self._history is None:
            return KeyHistory()
        return self._history(wants.topic, wants.partition, wants.replicas, sorted(wants.keys))

    def _where(self, where: Where) -> Whereabouts:
        """Where a partition is."""
        topic, partition = where.topic, where.partition
        try:
            found = self._client.metadata([topic], timeout_ms=self.timeout_ms).get(topic)
        except ReplicaError as error:
            return Whereabouts(error=str(error))
        if found is None or isinstance(found.error, UnknownTopic):
            return Whereabouts(gone=f"the topic {topic} does not exist any more")
        if found.error is not None:
            return Whereabouts(error=str(found.error))
        place = found.partitions.get(partition)
        if place is None:
            return Whereabouts(gone=f"{topic}-{partition} does not exist any more")
        return Whereabouts(tuple(place.replicas), tuple(place.isr), place.leader, found.topic_id)

    def _coordinators(self, question: Coordinators) -> dict[int, CoordinatorAnswer]:
        """What the transaction coordinators say of the producers; what they do not say is reported, not guessed."""
        wanted = question.producer_ids
        try:
            listed = self._client.list_transactions(wanted, timeout_ms=self.timeout_ms)
        except ReplicaError as error:
            return {pid: CoordinatorAnswer(pid, error=str(error)) for pid in wanted}
        silent = "; ".join(str(e) for e in listed.unanswered.values())
        found = {
            pid: CoordinatorAnswer(pid, error=silent) if silent else CoordinatorAnswer.not_listed(pid) for pid in wanted
        }
        for t in listed.transactions:
            if t.producer_id in found:
                found[t.producer_id] = CoordinatorAnswer(t.producer_id, t.transactional_id, t.state)
        return found

    def _ask(self, wants: Wants, broker: int, history: _LazyHistory) -> Reading:
        """Ask one replica; a failure of any part makes the whole answer an error, so that no half of it is judged.

        A broker that did not answer a moment ago is not waited for by every probe that asks it.
        """
        silent = self._silence.of(broker)
        if silent is not None:
            return Reading(ReplicaAnswer(broker, error=f"broker {broker} has not answered for {silent:.0f} s"))
        try:
            found = driven(reading(broker, wants), _Replica(self, wants, broker, history).answer)
        except ReplicaError as error:
            if isinstance(error, DeadlineExceeded):
                self._silence.timed_out(broker)
            return Reading(ReplicaAnswer(broker, error=str(error)))
        self._silence.heard(broker)
        return found

    def read(
        self, broker: int, wants: Wants, start: int, end: int, isolation: IsolationLevel, *, scan: bool = False
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
            pace=Counted(self.paces.of(broker)),
        )

    def fetch_aborted(self, broker: int, wants: Wants, offset: int) -> tuple[tuple[int, int], ...]:
        """The aborted transactions that a read_committed Fetch from the offset lists."""
        pace = self.paces.of(broker)
        pace.wait()
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
        pace.received(len(answer.records))
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


class _Replica:
    """One replica of one partition, answering requests. Each may raise a `ReplicaError`."""

    def __init__(self, prober: Prober, wants: Wants, broker: int, history: _LazyHistory) -> None:
        self._prober = prober
        self._wants = wants
        self._broker = broker
        self._history = history
        self._answers: dict[type, Callable[[Any], Any]] = {
            Ends: self._ends,
            Producers: self._producers,
            Points: self._points,
            Aborted: self._aborted,
            Keys: self._keys,
            EpochEnd: self._epoch_end,
        }

    def answer(self, request: Request) -> Any:
        """Answer one request, in the form that the request's docstring says."""
        return self._answers[type(request)](request)

    def _ends(self, _: Ends) -> Marks:
        place, prober = self._wants.place, self._prober
        marks = prober.client.watermarks(self._broker, [place], timeout_ms=prober.timeout_ms)[place]
        if isinstance(marks, ReplicaError):
            raise marks
        return Marks(marks.high_watermark, marks.last_stable_offset, marks.log_start_offset, marks.log_end_offset)

    def _producers(self, _: Producers) -> tuple[OpenTransaction, ...] | str:
        place, prober = self._wants.place, self._prober
        states = prober.client.describe_producers(self._broker, [place], timeout_ms=prober.timeout_ms)[place]
        if isinstance(states, ReplicaError):
            return str(states)
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
        )

    def _points(self, points: Points) -> PointsShown:
        shown: dict[int, RecordShown] = {}
        markers: list[MarkerShown] = []
        found: dict[Key, bytes] = {}
        for start, end in _ranges(points.offsets):
            for chunk in self._prober.read(self._broker, self._wants, start, end, points.isolation):
                for record, key, key_bytes in records_at(chunk, points.offsets):
                    shown[record.offset] = record
                    if key_bytes is not None:
                        found[key] = key_bytes
                markers += markers_at(chunk, points.offsets)
        return PointsShown(shown, tuple(markers), found)

    def _aborted(self, request: Aborted) -> tuple[tuple[int, int], ...]:
        return self._prober.fetch_aborted(self._broker, self._wants, request.offset)

    def _epoch_end(self, request: EpochEnd) -> int | str | None:
        prober = self._prober
        try:
            found = prober.client.end_offset_for_epoch(
                self._broker, *self._wants.place, request.epoch, timeout_ms=prober.timeout_ms
            )
        except BrokerTooOld as error:
            return str(error)
        return None if found is None else found[1]

    def _keys(self, request: Keys) -> KeysShown:
        """The newest visible record of each key: by the whole log, or by what was recorded and the end of the log."""
        wants, start, end = self._wants, request.start, request.end
        scan = KeyScan(wants.keys, self._prober.max_scan_bytes)
        recorded = self._recorded(start, end) if end - start > self._prober.full_scan_offsets else None
        if recorded:
            start = max(start, min(wants.scan_from, end))
        try:
            self._scan(scan, start, end)
            for first, last in _ranges(recorded or ()):
                self._scan(scan, first, last)
        except ScanTooLong:
            return KeysShown(error=f"offsets {start} to {end} hold more than findings.max_scan_bytes; raise it")
        return KeysShown(scan.result(complete=not recorded, complete_from=start), scan.key_bytes)

    def _scan(self, scan: KeyScan, start: int, end: int) -> None:
        if start < end:
            for chunk in self._prober.read(
                self._broker, self._wants, start, end, IsolationLevel.READ_COMMITTED, scan=True
            ):
                scan.add(chunk)

    def _recorded(self, start: int, end: int) -> set[int]:
        """Offsets at which the views recorded one of the keys on this replica, as far as they are still in its log."""
        wanted: set[int] = set()
        for key in self._wants.keys:
            wanted.update(self._history.offsets(self._broker, key)[:_CANDIDATES])
        return {o for o in wanted if start <= o < end}


def _ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Half-open ranges that cover the offsets, those near to each other in one."""
    ranges: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if ranges and offset - ranges[-1][1] <= _GAP:
            ranges[-1] = ranges[-1][0], offset + 1
        else:
            ranges.append((offset, offset + 1))
    return ranges
