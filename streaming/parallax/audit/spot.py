"""Spot checks of a broker that is back: does it still keep aborted records from read_committed consumers?

A reader reads each offset only once. If a broker's `.txnindex` (its index of aborted transactions) is lost while it is
down, its consumers get aborted records from then on, and Kafka loads the segment without complaint. So Parallax takes
some records that the replica has shown as aborted, by the table ``read_committed``, and reads them again.

If one of them is committed now, its partition is audited. The spot check alone proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from parallax.model import IsolationLevel, Outcome, RowKind, TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import OffsetOutOfRange, ReplicaError
from parallax.replica.reader import Failed, Pacing, Span, read_ranges
from parallax.replica.types import Watermarks
from parallax.source.schema import VIEW
from parallax.views.parquet import BROKER
from parallax.views.shared import rows_of
from parallax.views.tables import rust_uri

_LOG_BYTES = 1 << 14
"""How many bytes of each log a Fetch asks for; a larger batch is asked for again."""

_TOGETHER = 128
"""How many logs one Fetch asks for at most."""

_MANY = 1 << 20
"""How many rows of the table are gathered before they are thinned out."""

_SPARE = 4
"""How many times more records are drawn than are to be read: the cleaner may have taken most."""

_ROWS = pa.schema(
    [VIEW.field(name) for name in ("topic", "partition", "offset", "producer_id", "leader_epoch", "timestamp")]
)
"""The columns of the table that are read."""


class Spot(StrEnum):
    """What became of an aborted record that a spot check has read again, e.g. it is still aborted."""

    ABORTED = "aborted"
    """It is still shown as aborted."""
    COMMITTED = "committed"
    """A read_committed consumer gets it now."""
    GONE = "gone"
    """Its replica holds no such record any more: it was cleaned, deleted or truncated."""
    UNKNOWN = "unknown"
    """Its replica did not answer, or did not answer up to its offset."""


_WORDS: Mapping[Spot, str] = {
    Spot.ABORTED: "are aborted still, as they should be",
    Spot.COMMITTED: "are committed now: their partitions are audited",
    Spot.GONE: "are no longer in the log (cleaned, deleted or truncated), which is no fault",
    Spot.UNKNOWN: "could not be read",
}
"""What the log says of the records with each result, the plainest first."""


class Aborted(NamedTuple):
    """A record that a replica has shown as aborted, by the table ``read_committed``.

    Another record may be at its offset by now. Timestamp (ms since 1970 UTC), producer and leader epoch show whether it
    is the same.
    """

    place: TopicPartition
    offset: int
    producer_id: int
    leader_epoch: int
    timestamp: int


@dataclass
class Checked:
    """The result of a spot check of some brokers.

    Attributes:
        counts: by what became of them, how many records were read again.
        doubted: the partitions in which one of the records is committed now; the values are None.
        unanswered: by broker, the partitions in which some records could not be read again.
    """

    counts: Counter[Spot] = field(default_factory=Counter)
    doubted: dict[TopicPartition, None] = field(default_factory=dict)
    unanswered: dict[int, list[TopicPartition]] = field(default_factory=dict)

    def in_words(self) -> str:
        """What became of the records, as one sentence for people."""
        found = [f"{self.counts[spot]:,} {text}" for spot, text in _WORDS.items() if self.counts[spot]]
        again = "; those are asked for again" if self.counts[Spot.UNKNOWN] else ""
        return f"of the records that were read as aborted, {', '.join(found)}{again}"


def thinned(rows: pa.Table, most: int, salt: int) -> pa.Table:
    """Choose the aborted records that a spot check reads again, in the order in which to read them. Pure.

    Half of the chosen records are the newest, because the cleaner has not reached those yet. The other half are chosen
    by a hash of their offsets, from the whole log.

    Args:
        rows: the records to choose from, with ``topic``, ``partition`` and ``offset``.
        most: how many records of each partition either half may have.
        salt: goes into the hash. The same rows and salt make the same choice; another salt makes another.
    """
    offsets = rows["offset"].to_numpy().astype(np.uint64)
    mixed = (offsets ^ np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    drawn = rows.append_column("hash", pa.array(mixed ^ (mixed >> np.uint64(32))))
    drawn = drawn.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "descending")])
    drawn = drawn.append_column("by_offset", pa.array(_ranks(drawn)))
    drawn = drawn.sort_by([("topic", "ascending"), ("partition", "ascending"), ("hash", "ascending")])
    drawn = drawn.append_column("by_hash", pa.array(_ranks(drawn)))
    first = np.minimum(drawn["by_offset"].to_numpy(), drawn["by_hash"].to_numpy())
    kept = drawn.append_column("first", pa.array(first)).filter(pa.array(first < most))
    kept = kept.sort_by([("topic", "ascending"), ("partition", "ascending"), ("first", "ascending")])
    return kept.select(rows.column_names)


def _ranks(ordered: pa.Table) -> Any:
    """How many rows of its partition come before each."""
    topics = ordered["topic"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    partitions = ordered["partition"].to_numpy()
    begins = np.ones(len(ordered), bool)
    begins[1:] = (topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1])
    at = np.arange(len(ordered))
    return at - np.maximum.accumulate(np.where(begins, at, 0))


class SpotChecks:
    """Makes spot checks: reads aborted records again on brokers that are back.

    Args:
        storage: ``storage.path``.
        client: asks the brokers.
        hasher: hashes keys and values as in the views.
        most: how many records of each partition are read again; records that the replica no longer has do not count.
        pace: makes, for each check, the object that limits bytes per second; it returns None for no limit.
        timeout_ms: timeout of one Fetch.
        salt: any number; it decides which records are chosen.
    """

    def __init__(
        self,
        storage: str,
        client: ReplicaClient,
        hasher: ContentHasher,
        most: int,
        pace: Callable[[], Pacing | None],
        timeout_ms: float,
        salt: int,
    ) -> None:
        self._uri = rust_uri(storage, IsolationLevel.READ_COMMITTED.option)
        self._client = client
        self._hasher = hasher
        self._most = most
        self._pace = pace
        self._timeout_ms = timeout_ms
        self._salt = salt

    def check(self, replicas: Mapping[int, Sequence[TopicPartition]], is_over: Callable[[], bool]) -> Checked:
        """Read again some of the records that brokers' replicas have shown as aborted, and say what became of them.

        The table ``read_committed`` says which records these are.

        Args:
            replicas: by broker, the partitions to check.
            is_over: called again and again; once it returns true, the check ends early. The partitions of the records
                that were not read by then count as unanswered.

        Returns:
            How many records are aborted as before, committed now, gone or not read, and in which partitions some are
            committed or not read. It counts nothing if the table does not exist.

        Raises:
            DeltaError: the table ``read_committed`` cannot be read. Errors of Arrow and of the operating system are
                raised as they are.
        """
        found = Checked()
        if DeltaTable.is_deltatable(self._uri):
            table = DeltaTable(self._uri)
            for broker, places in replicas.items():
                self._check(table, broker, places, found, is_over)
        return found

    def _check(
        self,
        table: Any,
        broker: int,
        places: Sequence[TopicPartition],
        found: Checked,
        is_over: Callable[[], bool],
    ) -> None:
        held, unknown = self._held(broker, places)
        pace, asked = self._pace(), Counter[TopicPartition]()
        for wave in zip_longest(*self._chosen(table, broker, held).values()):
            wanted = [one for one in wave if one is not None and asked[one.place] < self._most]
            wanted = [one for one in wanted if one.place not in unknown and one.place not in found.doubted]
            if is_over():
                unknown |= {one.place for one in wanted}
                break
            for some in (wanted[at : at + _TOGETHER] for at in range(0, len(wanted), _TOGETHER)):
                for one, spot in zip(some, self._shown(broker, some, pace), strict=True):
                    found.counts[spot] += 1
                    asked[one.place] += spot is not Spot.GONE
                    if spot is Spot.COMMITTED:
                        found.doubted[one.place] = None
                    if spot is Spot.UNKNOWN:  # Asked again later: one that hangs costs a timeout each time.
                        unknown.add(one.place)
        if unknown:
            found.unanswered[broker] = [place for place in places if place in unknown]

    def _held(
        self, broker: int, places: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, tuple[int, int]], set[TopicPartition]]:
        """The log start offset and the last stable offset of each replica, and those that are not known."""
        try:
            marks: Mapping[TopicPartition, Watermarks | ReplicaError] = self._client.watermarks(
                broker, places, timeout_ms=self._timeout_ms
            )
        except ReplicaError:
            return {}, set(places)
        held = {
            place: (found.log_start_offset, found.last_stable_offset)
            for place, found in marks.items()
            if not isinstance(found, ReplicaError)
        }
        return held, {place for place in places if place not in held}

    def _chosen(
        self, table: Any, broker: int, held: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, list[Aborted]]:
        """Some aborted records of each partition, as they were recorded of one broker, that its log may hold still."""
        chosen: dict[TopicPartition, list[Aborted]] = {place: [] for place in held}
        if not held:
            return chosen
        wanted = (pc.field("broker") == broker) & (pc.field("kind") == int(RowKind.RECORD))
        wanted &= (pc.field("outcome") == int(Outcome.ABORTED)) & pc.field("topic").isin(sorted({t for t, _ in held}))
        spans = pa.table(
            {
                "topic": pa.array([place.topic for place in held], pa.string()),
                "partition": pa.array([place.partition for place in held], pa.int32()),
                "low": pa.array([low for low, _ in held.values()], pa.int64()),
                "high": pa.array([high for _, high in held.values()], pa.int64()),
            }
        )
        kept, most = _ROWS.empty_table(), _SPARE * self._most
        more: list[Any] = []

        def thin() -> pa.Table:
            rows = pa.concat_tables(more).cast(_ROWS).join(spans, ["topic", "partition"], join_type="inner")
            rows = rows.filter((pc.field("offset") >= pc.field("low")) & (pc.field("offset") < pc.field("high")))
            return thinned(pa.concat_tables([kept, rows.select(_ROWS.names)]), most, self._salt)

        # By one thread: the micro-batches need the cores.
        reads = (BROKER, "kind", "outcome")
        its = f"{BROKER} = {broker}"
        for batch in rows_of(self._uri, table, _ROWS.names, wanted, reads, files=its, threads=False):
            more.append(pa.Table.from_batches([batch]))
            if sum(map(len, more)) >= _MANY:
                kept, more = thin(), []
        if more:
            kept = thin()
        if len(kept):
            for one in _aborted(kept):
                chosen[one.place].append(one)
        return chosen

    def _shown(self, broker: int, some: Sequence[Aborted], pace: Pacing | None) -> list[Spot]:
        """What became of records, one of a partition."""
        spots = [Spot.UNKNOWN] * len(some)
        events = read_ranges(
            self._client,
            broker,
            [Span(*one.place, one.offset, one.offset + 1) for one in some],
            isolation=IsolationLevel.READ_COMMITTED,
            hasher=self._hasher,
            max_bytes=len(some) * _LOG_BYTES,
            log_bytes=_LOG_BYTES,
            deadline_ms=self._timeout_ms,
            pace=pace,
        )
        for event in events:
            if isinstance(event, Failed):
                is_gone = isinstance(event.error, OffsetOutOfRange)
                spots[event.index] = Spot.GONE if is_gone else Spot.UNKNOWN
                continue
            for index, mark in event.marks:
                if mark.position > some[index].offset and spots[index] is Spot.UNKNOWN:
                    spots[index] = Spot.GONE
            columns = event.columns
            of = np.full(len(columns.offset), event.marks[0][0]) if event.of is None else event.of
            for row in np.flatnonzero(columns.kind == RowKind.RECORD).tolist():
                one, outcome = some[of[row]], event.outcome[row]
                held = (
                    columns.offset[row],
                    columns.producer_id[row],
                    columns.leader_epoch[row],
                    columns.timestamp[row],
                )
                if held == one[1:]:
                    spots[of[row]] = Spot.COMMITTED if outcome == Outcome.COMMITTED else Spot.ABORTED
        return spots


def _aborted(rows: pa.Table) -> Iterator[Aborted]:
    *others, times = (rows[name] for name in _ROWS.names)
    milliseconds = [-1 if us is None else us // 1000 for us in times.cast(pa.int64()).to_pylist()]
    values = (*(column.to_pylist() for column in others), milliseconds)
    for topic, partition, *aborted in zip(*values, strict=True):
        yield Aborted(TopicPartition(topic, partition), *aborted)


__all__ = ["Aborted", "Checked", "Spot", "SpotChecks", "thinned"]
