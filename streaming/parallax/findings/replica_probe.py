"""Sends the questions of a probe to one replica: it does the IO for `parallax.findings.questions.reading`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from parallax.config import FindingSettings
from parallax.evidence.atoms import EpochEnd
from parallax.findings.answers import MarkerShown, OpenTransaction, RecordShown
from parallax.findings.history import KeyHistory
from parallax.findings.index import Indexes, learnt
from parallax.findings.keys import Key, KeyScan, markers_at, records_at
from parallax.findings.pace import Counted, Paces
from parallax.findings.pointing import Known, KnownPlaces, RecordsOfKeys, Replaced, StretchShown, newest_of_keys
from parallax.findings.questions import driven
from parallax.findings.requests import (
    Aborted,
    EndOfEpoch,
    Ends,
    Keys,
    KeysShown,
    Marks,
    Points,
    PointsShown,
    Producers,
    Request,
    Wants,
)
from parallax.findings.scan import LogScans
from parallax.model import IsolationLevel, TopicPartition
from parallax.replica.client import FetchPosition, ReplicaClient, watermarks_of
from parallax.replica.decode import ContentHasher, Payload
from parallax.replica.errors import BrokerTooOld, ReplicaError
from parallax.replica.reader import Pacing, read_range

POINT_BYTES = 1 << 14
"""Fetch size for reading single offsets: a batch is served whole even where it is larger."""
STRETCH_BYTES = 1 << 20
_NEAR_BYTES = 4 << 20
"""If no more bytes than this are left to the end of a log, they are read. Otherwise the views are asked."""
_GAP = 256
"""Wanted offsets this near to each other are read in one range, if little is in between."""


class Around(Protocol):
    """Everything that the probes of all replicas share: client, limits, and where keys were found."""

    client: ReplicaClient
    settings: FindingSettings
    hasher: ContentHasher
    payload: Payload
    paces: Paces
    indexes: Indexes
    scans: LogScans

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic as the last metadata had it; empty if it is not known."""

    def was_replaced(self, broker: int, place: TopicPartition, since_ms: int) -> bool:
        """Whether the views' readers have noticed that another log replaced a replica's log.

        Args:
            broker: the replica's broker.
            place: the partition.
            since_ms: only what was noticed since this time counts, milliseconds since 1970 UTC.
        """


def chunks(
    around: Around,
    broker: int,
    place: TopicPartition,
    start: int,
    end: int,
    pace: Pacing,
    *,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    max_bytes: int = STRETCH_BYTES,
    after_epoch: int = -1,
) -> Iterator[Any]:
    """Read a part of one replica's log, no faster than a limit, and yield it as chunks.

    Args:
        around: what the probes of all replicas share.
        broker: the broker of the replica.
        place: the partition.
        start: the first offset to read.
        end: the offset to read up to.
        pace: the limit on the speed of reading.
        isolation: the isolation level to read at.
        max_bytes: size of one Fetch.
        after_epoch: leader epoch of the last batch that was read before ``start``; -1: unknown.
    """
    return read_range(
        around.client,
        broker,
        *place,
        start,
        end,
        isolation=isolation,
        hasher=around.hasher,
        payload=around.payload,
        max_bytes=max_bytes,
        deadline_ms=around.settings.probe_timeout_ms,
        after_epoch=after_epoch,
        pace=pace,
    )


def holds(around: Around, broker: int, place: TopicPartition, read_to: int, epoch: int) -> bool:
    """Whether a replica's log is still the one that was read earlier.

    The log's own leader epochs decide. A log that no longer knows the epoch counts as another one. If the broker is too
    old to say, the result is True: only the views' readers can then notice a new log.

    Args:
        around: what the probes of all replicas share.
        broker: the broker of the replica.
        place: the partition.
        read_to: the offset up to which the log was read.
        epoch: leader epoch of the last batch below ``read_to``; -1 if it is not known, which gives False.
    """
    if epoch < 0:
        return False
    try:
        found = around.client.end_offset_for_epoch(broker, *place, epoch, timeout_ms=around.settings.probe_timeout_ms)
    except BrokerTooOld:
        return True
    return found is not None and EpochEnd(*found).reaches(read_to, epoch)


class ReplicaProbe:
    """Asks one broker the questions of a probe about its replica. Any of its methods may raise a `ReplicaError`.

    Args:
        around: what the probes of all replicas share.
        wants: everything that the probe asks each replica.
        broker: the broker of the replica.
        history: returns where the views recorded the keys; it looks that up at most once for all replicas.
    """

    def __init__(self, around: Around, wants: Wants, broker: int, history: Callable[[], KeyHistory]) -> None:
        self._around = around
        self._wants = wants
        self._broker = broker
        self._history = history
        self._pace = Counted(around.paces.of(broker))
        self._index = around.indexes.of(broker, wants.place)
        self._answers: dict[type, Callable[[Any], Any]] = {
            Ends: self._ends,
            Producers: self._producers,
            Points: self._points,
            Aborted: self._aborted,
            Keys: self._keys,
            EndOfEpoch: self._epoch_end,
            KnownPlaces: self._held,
            RecordsOfKeys: self._stretch,
            Replaced: self._replaced,
        }

    def answer(self, request: Request | KnownPlaces | RecordsOfKeys | Replaced) -> Any:
        """Return the answer to one question, in the form that the docstring of the question's class says."""
        return self._answers[type(request)](request)

    @property
    def _timeout_ms(self) -> int:
        return self._around.settings.probe_timeout_ms

    def _ends(self, _: Ends) -> Marks:
        marks = watermarks_of(self._around.client, self._broker, self._wants.place, timeout_ms=self._timeout_ms)
        return Marks(marks.high_watermark, marks.last_stable_offset, marks.log_start_offset, marks.log_end_offset)

    def _producers(self, _: Producers) -> tuple[OpenTransaction, ...] | str:
        place = self._wants.place
        states = self._around.client.describe_producers(self._broker, [place], timeout_ms=self._timeout_ms)[place]
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
        epochs: dict[int, int] = {}
        for start, end in ranges(points.offsets, self._gap):
            for chunk in self._read(start, end, points.isolation, POINT_BYTES):
                epochs |= chunk.columns.epochs_at(sorted(points.offsets - epochs.keys()))
                for record, key, key_bytes in records_at(chunk, points.offsets):
                    shown[record.offset] = record
                    if key_bytes is not None:
                        found[key] = key_bytes
                markers += markers_at(chunk, points.offsets)
        return PointsShown(shown, tuple(markers), found, epochs)

    @property
    def _gap(self) -> int:
        return min(_GAP, int(POINT_BYTES / self._index.density)) if self._index.density > 0 else _GAP

    def _read(self, start: int, end: int, isolation: IsolationLevel, max_bytes: int) -> Iterator[Any]:
        place = self._wants.place
        return chunks(
            self._around, self._broker, place, start, end, self._pace, isolation=isolation, max_bytes=max_bytes
        )

    def _aborted(self, request: Aborted) -> tuple[tuple[int, int], ...]:
        self._pace.wait()
        (answer,) = self._around.client.fetch(
            self._broker,
            [FetchPosition(*self._wants.place, request.offset, POINT_BYTES)],
            isolation=IsolationLevel.READ_COMMITTED,
            max_bytes=POINT_BYTES,
            timeout_ms=self._timeout_ms,
        )
        if answer.error is not None:
            raise answer.error
        self._pace.received(len(answer.records))
        return tuple((int(pid), int(first)) for pid, first in np.asarray(answer.aborted).reshape(-1, 2))

    def _epoch_end(self, request: EndOfEpoch) -> tuple[int, int] | str | None:
        try:
            return self._around.client.end_offset_for_epoch(
                self._broker, *self._wants.place, request.epoch, timeout_ms=self._timeout_ms
            )
        except BrokerTooOld as error:
            return str(error)

    # Keys.

    def _keys(self, request: Keys) -> KeysShown:
        def answer(asked: Any) -> Any:
            if isinstance(asked, Points) and self._is_too_long(0):
                return f"what one probe may read of broker {self._broker} (findings.max_scan_bytes) is spent"
            return self.answer(asked)

        return driven(newest_of_keys(self._wants.keys, request), answer)

    def _held(self, request: KnownPlaces) -> dict[Key, Known]:
        """Return what the views recorded and what probes and scans have read, of the replica's current log.

        The views are asked only if what was read before does not come near the end of the log: their tables are large.
        """
        replica = self._broker, self._wants.place
        index, scans, topic_id = self._index, self._around.scans, self._around.topic_id(self._wants.topic)
        if index.topic_id and index.topic_id != topic_id:
            self._forget()
        index.topic_id = topic_id
        scans.recall(replica, topic_id)
        began = [ms for ms in (None if index.is_empty else index.since_ms, scans.began_ms(replica)) if ms is not None]
        if began and not self._still_holds(min(began)):
            self._forget()
        known = index.known(request.keys)
        if index.views_void or (len(known) == len(request.keys) and self._is_near(known.values(), request.end)):
            return known
        history = self._history().of_current_log(self._broker, self._holds)
        if (log := history.logs.get(self._broker)) is None:
            return known
        found = {key: known.get(key, Known()).joined(history.of(self._broker, key)) for key in request.keys}
        index.learn({key: one for key, one in found.items() if one.end > one.start}, log.end, log.epoch)
        return found

    def _still_holds(self, since_ms: int) -> bool:
        """Whether the replica's log is still the one that was read, and the views' readers have noticed no other."""
        place, index = self._wants.place, self._index
        if self._around.was_replaced(self._broker, place, since_ms):
            return False
        return index.is_empty or self._holds(index.read_to, index.epoch)

    def _holds(self, read_to: int, epoch: int) -> bool:
        return holds(self._around, self._broker, self._wants.place, read_to, epoch)

    def _is_near(self, known: Collection[Known], end: int) -> bool:
        """Whether little lies between what is known of keys and the end of the log."""
        low = min((one.end for one in known), default=end)
        return low > 0 and (end - low) * max(self._index.density, 1.0) <= _NEAR_BYTES

    def _replaced(self, _: Replaced) -> None:
        """Take in that the log was replaced, and no reader of the views has noticed."""
        self._forget()
        self._index.views_void = True

    def _forget(self) -> None:
        self._around.scans.start_again((self._broker, self._wants.place))

    def _stretch(self, request: RecordsOfKeys) -> StretchShown:
        """Read a stretch, as far as one probe may."""
        scan, reached, epoch = KeyScan(request.keys), request.start, -1
        before = self._pace.read_bytes
        too_long = self._is_too_long(request.end - request.start)
        if not (request.head and too_long):
            for chunk in self._read(request.start, request.end, IsolationLevel.READ_COMMITTED, STRETCH_BYTES):
                scan.add(chunk)
                reached, epoch = chunk.position, max(epoch, chunk.epoch)
                self._index.weigh(self._pace.read_bytes - before, reached - request.start)
                if reached < request.end and self._is_too_long(request.end - reached if request.head else 0):
                    break
        if not request.head or reached >= request.end:
            self._index.learn(learnt(scan, request.keys, request.start, reached), reached, epoch)
        if reached >= request.end:
            return StretchShown(reached, scan.visible, scan.newest, scan.key_bytes)
        return StretchShown(reached, why=self._left_to_read(request, reached))

    def _is_too_long(self, offsets: int) -> bool:
        """Whether a probe may not read so many offsets more."""
        left = self._around.settings.max_scan_bytes - self._pace.read_bytes
        return left <= 0 or offsets * self._index.density > left

    def _left_to_read(self, request: RecordsOfKeys, reached: int) -> str:
        if request.scan:
            topic_id = self._around.topic_id(self._wants.topic)
            replica = self._broker, self._wants.place
            return self._around.scans.want(replica, request.keys, request.start, request.end, topic_id)
        return f"offsets {reached} to {request.end} of the log of broker {self._broker} are still to be read"


def ranges(offsets: Iterable[int], gap: int = _GAP) -> list[tuple[int, int]]:
    """Return ranges to read that cover some offsets: (first offset, offset behind the last) of each.

    Args:
        offsets: the offsets.
        gap: offsets that are no farther apart share a range.
    """
    found: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if found and offset - found[-1][1] <= gap:
            found[-1] = found[-1][0], offset + 1
        else:
            found.append((offset, offset + 1))
    return found
