"""Reads from other replicas the offsets that an absent replica lacks, to learn when tombstones there may be removed.

These *pointed reads* are made only if a bound is near, and a little at a time. One Fetch asks a broker for all
partitions that are to be read, and goes on where the last one stopped. Probes come first. Offsets are read again only
if a tombstone or end marker there had no horizon yet. Without such reads, a bound follows from ``delete.retention.ms``
alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import structlog

from parallax.config import FindingSettings, Settings
from parallax.errors import one_line
from parallax.findings.pace import Counted, Paces
from parallax.guard.absences import Absence, Presence
from parallax.guard.horizons import STAMPED_SINCE, Lap, Part, Reading
from parallax.model import IsolationLevel, RowKind, TopicPartition
from parallax.replica import kernels
from parallax.replica.client import FetchedPartition, FetchPosition, ReplicaClient, TopicMetadata
from parallax.replica.decode import Columns, ContentHasher, decode
from parallax.replica.errors import ReplicaError
from parallax.rounds import Rounds

log = structlog.get_logger(__name__)

ROUND_S = 1.0
SHARE = 4
"""Pointed reads take at most one part in this many of what probes may read of a broker."""
_AT_ONCE = 200
"""How many partitions one Fetch asks for at most."""
_PART_BYTES = 1 << 20
_FETCH_BYTES = 4 << 20
_LEAST_LAP_MS = 1_000
_FAILED_MS = 60_000
"""How long a replica that could not be read is not asked again; milliseconds."""
_VERSION_S = 60.0
_HAS_HORIZON = 0x40
"""Bit 6 of a batch's attributes (KIP-534); its base timestamp is the horizon then."""

Replica = tuple[TopicPartition, int]


def part_of(columns: Columns, position: int) -> Part:
    """Return the tombstones, end markers and horizons that one Fetch has shown, summed up.

    Args:
        columns: the rows that the Fetch returned.
        position: the offset from which the Fetch read; rows below it are ignored.
    """
    is_lasting = ((columns.kind == RowKind.RECORD) & (columns.value_size < 0)) | np.isin(
        columns.kind, (RowKind.COMMIT, RowKind.ABORT)
    )
    offsets = columns.offset[is_lasting & (columns.offset >= position)]
    rows = columns.batches[np.searchsorted(columns.batches[:, kernels.LAST], offsets)]
    stamped = (rows[:, kernels.ATTRIBUTES] & _HAS_HORIZON) != 0
    return Part(
        columns.next_offset, _least(offsets), _least(offsets[~stamped]), _least(rows[stamped, kernels.BASE_TIME])
    )


def _least(values: Any) -> int | None:
    return int(values.min()) if len(values) else None


def span_ms(absence: Absence, lead_ms: int) -> int:
    """Return for how many milliseconds before the bound of an absence the guard may act.

    It is ``lead_ms``, or ``delete.retention.ms`` where that is known and shorter.

    Args:
        absence: the absence.
        lead_ms: how near a bound must be for the guard to act, in milliseconds.
    """
    return lead_ms if absence.retention_ms is None else min(lead_ms, absence.retention_ms)


class PointedReads:
    """Finds out from when on an absent replica may miss a tombstone or end marker, because others may have removed it.

    For that it reads, from the logs of the other replicas, the offsets that the absent replica lacks: a *pointed read*.
    Each round reads some of them.

    Args:
        client: asks the brokers.
        lead_ms: a partition is read only if a bound of it (until when nothing is removed) is at most this many
            milliseconds ahead.
        settings: how many bytes a second are read of a broker, and how many of one replica before a pause.
        sleep: waits some seconds; may raise, which ends the round.
        now: returns the time in seconds since 1970 UTC; a test gives its own.
    """

    def __init__(
        self,
        client: ReplicaClient,
        lead_ms: int,
        settings: FindingSettings,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._lead_ms = lead_ms
        self._budget = settings.max_scan_bytes
        self._paces = Paces(settings.max_bytes_per_second / SHARE, time.monotonic, sleep)
        self._now = now
        self._laps: dict[Replica, Lap] = {}
        self._hasher = ContentHasher.random()
        self._versions: dict[int, tuple[float, bool]] = {}
        self._turn = 0

    @property
    def read_bytes(self) -> int:
        """How many bytes have been read so far, of all brokers."""
        return sum(self._paces.read_bytes().values())

    def round(self, absences: Sequence[Absence]) -> list[Reading]:
        """Read some of the offsets that absent replicas lack, from the logs of the other replicas.

        Args:
            absences: the absences of all replicas. Only partitions with a near bound are read.

        Returns:
            For each replica that was read in this round, all that was read of its log up to now, summed up.

        Raises:
            ReplicaError: no broker answers.
        """
        now_ms = self._now_ms()
        by_place: dict[TopicPartition, list[Absence]] = {}
        for one in absences:
            if one.lacks_from is not None:
                by_place.setdefault(one.place, []).append(one)
        self._laps = {replica: lap for replica, lap in self._laps.items() if replica[0] in by_place}
        near = {place: some for place, some in by_place.items() if any(self._is_near(one, now_ms) for one in some)}
        found: dict[Replica, Reading] = {}
        deadline = time.monotonic() + ROUND_S
        for broker, due in self._due(near, now_ms).items():
            laps, stamps = due, self._stamps(broker)
            while laps and stamps is not None and time.monotonic() < deadline:
                found |= self._read(broker, laps, near, stamps=stamps)
                laps = {place: lap for place, lap in laps.items() if lap.due_ms <= now_ms}
        return list(found.values())

    def _is_near(self, one: Absence, now_ms: int) -> bool:
        return one.bound_ms is not None and now_ms < one.bound_ms <= now_ms + self._lead_ms

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    def _due(
        self, near: Mapping[TopicPartition, Sequence[Absence]], now_ms: int
    ) -> dict[int, dict[TopicPartition, Lap]]:
        """By broker, the laps that go on or begin now."""
        known: dict[TopicPartition, list[Lap]] = {}
        for (place, _), lap in self._laps.items():
            known.setdefault(place, []).append(lap)
        places = [p for p in near if p not in known or any(lap.due_ms <= now_ms for lap in known[p])]
        if not places:
            return {}
        topics = self._client.metadata(sorted({place.topic for place in places}))
        due: dict[int, dict[TopicPartition, Lap]] = {}
        for place in places:
            for broker, lap in self._of(place, near[place], topics.get(place.topic)):
                if lap.due_ms <= now_ms:
                    due.setdefault(broker, {})[place] = lap
        return due

    def _of(
        self, place: TopicPartition, absent: Sequence[Absence], topic: TopicMetadata | None
    ) -> Iterator[tuple[int, Lap]]:
        """The laps over the replicas of a partition that an absent one may copy; new ones where the log is another."""
        partition = None if topic is None or topic.error is not None else topic.partitions.get(place.partition)
        if topic is None or partition is None:
            return
        start = min(one.lacks_from for one in absent if one.lacks_from is not None)
        skipped = {one.broker for one in absent if one.presence is Presence.AWAY or len(absent) == 1}
        for broker in partition.replicas:
            if broker in skipped:
                continue
            lap = self._laps.get((place, broker))
            is_known = lap is not None and (lap.topic_id, lap.leader_epoch) == (topic.topic_id, partition.leader_epoch)
            if lap is None or not is_known or lap.started > start:
                lap = self._laps[place, broker] = Lap(topic.topic_id, partition.leader_epoch, start, start, start)
            yield broker, lap

    # --- one broker -------------------------------------------------------------------------------------------------

    def _read(
        self,
        broker: int,
        laps: Mapping[TopicPartition, Lap],
        near: Mapping[TopicPartition, Sequence[Absence]],
        *,
        stamps: bool,
    ) -> dict[Replica, Reading]:
        now_ms = self._now_ms()
        asked = self._in_turn(list(laps.items()))
        for _, lap in asked:
            lap.go_on(now_ms, self._budget)
        try:
            answers = self._fetch(broker, asked)
        except ReplicaError as error:
            log.debug("what is stamped was not read", broker=broker, error=one_line(error))
            for place, lap in asked:
                lap.rest(now_ms + max(_FAILED_MS, self._interval_ms(near[place])))
            return {}
        found = {}
        for at, ((place, lap), answer) in enumerate(zip(asked, answers, strict=True)):
            try:
                self._took(lap, answer, is_first=at == 0, interval_ms=self._interval_ms(near[place]))
            except ReplicaError as error:
                log.debug("what is stamped was not read", broker=broker, error=one_line(error))
                del self._laps[place, broker]
                anew = Lap(lap.topic_id, lap.leader_epoch, lap.started, lap.started, lap.started)
                anew.rest(now_ms + _FAILED_MS)
                lap.rest(now_ms + _FAILED_MS)
                self._laps[place, broker] = anew
                continue
            found[place, broker] = lap.reading(place, broker, self._now_ms(), stamps=stamps)
        return found

    def _in_turn(self, laps: list[tuple[TopicPartition, Lap]]) -> list[tuple[TopicPartition, Lap]]:
        """Those that are asked for now; another one is the first each time, since an answer may hold that one alone."""
        self._turn += 1
        at = self._turn % len(laps)
        return [*laps[at:], *laps[:at]][:_AT_ONCE]

    def _fetch(self, broker: int, asked: Sequence[tuple[TopicPartition, Lap]]) -> list[FetchedPartition]:
        pace = Counted(self._paces.of(broker), behind=True)
        pace.wait()
        positions = [FetchPosition(*place, lap.position, _PART_BYTES) for place, lap in asked]
        answers = self._client.fetch(
            broker, positions, isolation=IsolationLevel.READ_UNCOMMITTED, max_bytes=_FETCH_BYTES
        )
        pace.received(sum(len(answer.records) for answer in answers))
        return answers

    def _took(self, lap: Lap, answer: FetchedPartition, *, is_first: bool, interval_ms: int) -> None:
        """Take in the answer for one replica.

        Raises:
            ReplicaError: it cannot be read.
        """
        if answer.error is not None:
            raise answer.error
        before = lap.position
        if len(answer.records):
            lap.took(part_of(decode(answer.records, hasher=self._hasher, start=lap.position), lap.position))
            lap.left -= len(answer.records)
        elif is_first:
            lap.took(Part(answer.high_watermark))  # nothing is left there
        now_ms = self._now_ms()
        if lap.position >= answer.high_watermark:
            lap.end(now_ms + interval_ms)
        elif lap.left <= 0 or (is_first and lap.position == before):
            lap.rest(now_ms + interval_ms)

    def _interval_ms(self, absences: Collection[Absence]) -> int:
        return max(_LEAST_LAP_MS, min(span_ms(one, self._lead_ms) for one in absences) // 24)

    def _stamps(self, broker: int) -> bool | None:
        """Whether a broker goes by horizons; None if it does not answer."""
        at, known = self._versions.get(broker, (0.0, False))
        if at and time.monotonic() - at < _VERSION_S:
            return known
        try:
            known = self._client.greeting(broker).version >= STAMPED_SINCE
        except ReplicaError:
            return None
        self._versions[broker] = (time.monotonic(), known)
        return known


class PointedThread(Rounds):
    """Makes pointed reads in a thread of its own; after a failure it tries again.

    A *pointed read* is of offsets that an absent replica lacks, from another replica's log.

    Args:
        settings: the job's settings.
        client: asks the brokers.
        absences: returns the absences of all replicas, as the clock knows them now.
        on_read: called with the readings of each round.
    """

    def __init__(
        self,
        settings: Settings,
        client: ReplicaClient,
        absences: Callable[[], Sequence[Absence]],
        on_read: Callable[[Sequence[Reading]], None],
    ) -> None:
        super().__init__("pointed reads", ROUND_S)
        lead_ms = int(settings.guard.lead_s * 1000)
        self._reads = PointedReads(client, lead_ms, settings.findings, self._wait)
        self._absences = absences
        self._on_read = on_read

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise ReplicaError("the job ends")

    def look(self) -> None:
        """Make the reads of one round. What could not be read is logged, unless the job ends."""
        try:
            readings = self._reads.round(self._absences())
            if readings:
                self._on_read(readings)
        except ReplicaError as error:
            if not self._stop.is_set():
                log.warning("what absent replicas lack was not read; it is tried again", error=one_line(error))

    def failed(self, error: Exception) -> None:
        """Log a fault of Parallax.

        Args:
            error: what the round has raised.
        """
        log.error("what absent replicas lack was not read, by a fault of Parallax; it is tried again", exc_info=error)


__all__ = ["PointedReads", "PointedThread", "part_of", "span_ms"]
