"""Spot checks of a broker that is back: does it still keep from read_committed consumers what it had aborted?

A reader reads each offset once. A `.txnindex` that is lost while its broker is down changes what consumers of that
replica get from then on, and Kafka loads the segment without complaint. So some of the aborted records that the table
``read_committed`` holds of the replica are read once more. One that it shows as committed now is a suspect like the
stream's: the probe asks for the record and for the end marker behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from parallax.compare.suspect import Accusation, Suspect
from parallax.model import FindingKind, IsolationLevel, Outcome, RowKind, Rule, TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.reader import Failed, Pacing, Span, read_ranges
from parallax.views.tables import rust_uri

_FETCH_BYTES = 1 << 14
"""Asked for of each log: a batch that is larger is asked for again."""

_MANY = 1 << 20
"""Rows of the table that are gathered before they are thinned out."""

_MOST_SUSPECTS = 1000
"""Raised by one check at most: the audit that follows tells the rest."""


class Spot(StrEnum):
    """What became of one record that was asked for again."""

    ABORTED = "aborted"
    """It is shown as aborted still."""
    COMMITTED = "committed"
    """A read_committed consumer gets it now."""
    GONE = "gone"
    """Its replica holds no such record any more: it was cleaned, deleted or truncated."""
    UNKNOWN = "unknown"
    """Its replica did not answer, or not up to there."""


class Aborted(NamedTuple):
    """A record that a replica was read to have aborted; its time in milliseconds since 1970 UTC.

    By time and leader epoch it is told from another one that lies at its offset by now.
    """

    place: TopicPartition
    offset: int
    producer_id: int
    leader_epoch: int
    timestamp: int


@dataclass
class Checked:
    """What a check has found.

    Attributes:
        counts: how many records were found how.
        suspects: transactions of which a record is shown as committed.
    """

    counts: Counter[Spot] = field(default_factory=Counter)
    suspects: list[Suspect] = field(default_factory=list)


def thinned(rows: pa.Table, most: int, salt: int) -> pa.Table:
    """Return at most so many rows of each partition: those whose offsets hash lowest; a pure function.

    Args:
        rows: with ``topic``, ``partition`` and ``offset``.
        most: rows of each partition.
        salt: another one, another choice; the same rows again and the same salt, the same choice.
    """
    offsets = rows["offset"].to_numpy().astype(np.uint64)
    mixed = (offsets ^ np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = rows.append_column("hash", pa.array(mixed ^ (mixed >> np.uint64(32))))
    ordered = hashed.sort_by([("topic", "ascending"), ("partition", "ascending"), ("hash", "ascending")])
    topics = ordered["topic"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    partitions = ordered["partition"].to_numpy()
    begins = np.ones(len(ordered), bool)
    begins[1:] = (topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1])
    at = np.arange(len(ordered))
    rank = at - np.maximum.accumulate(np.where(begins, at, 0))
    return ordered.filter(pa.array(rank < most)).drop_columns("hash")


def transaction_of(aborted: Aborted, broker: int, rows: Iterable[tuple[int, int, int, int]]) -> Accusation | None:
    """The accusation of a replica that shows a record as committed behind which it showed an ABORT; a pure function.

    Args:
        aborted: the record.
        broker: whose replica.
        rows: (offset, kind, high, low half of the key's hash) of the producer's records and end markers that the
            replica was recorded to show, in offset order.

    Returns:
        None where no ABORT is on record behind it.
    """
    first: tuple[int, int, int] | None = None
    for offset, kind, high, low in rows:
        if kind == RowKind.RECORD:
            first = first or (offset, high, low)
        elif offset < aborted.offset:
            first = None
        elif kind == RowKind.ABORT and first is not None:
            start, *key = first
            return Accusation(
                Rule.OUTCOME,
                FindingKind.OUTCOME_CONTRADICTS_MARKER,
                broker,
                offset=start,
                producer_id=aborted.producer_id,
                transaction_start_offset=start,
                marker_offset=offset,
                key_hash_hi=key[0],
                key_hash_lo=key[1],
                observations={"outcomes": {str(broker): "committed"}, "markers": {str(broker): "abort"}},
            )
        else:
            return None
    return None


class SpotChecks:
    """Reads aborted records once more.

    Args:
        storage: ``storage.path``.
        client: pinned client.
        hasher: the views' hasher.
        most: records of each partition.
        pace: gives what holds the Fetches of one check back; None for as fast as it goes.
        timeout_ms: of one Fetch.
        random: which records are chosen.
        now_ms: milliseconds since 1970 UTC.
    """

    def __init__(
        self,
        storage: str,
        client: ReplicaClient,
        hasher: ContentHasher,
        most: int,
        pace: Callable[[], Pacing | None],
        timeout_ms: float,
        random: Random,
        now_ms: Callable[[], int],
    ) -> None:
        self._uri = rust_uri(storage, IsolationLevel.READ_COMMITTED.option)
        self._client = client
        self._hasher = hasher
        self._most = most
        self._pace = pace
        self._timeout_ms = timeout_ms
        self._random = random
        self._now_ms = now_ms

    def check(self, replicas: Mapping[int, Sequence[TopicPartition]]) -> Checked:
        """Check the replicas of some brokers.

        Raises:
            DeltaError: the table cannot be read; so for the errors of Arrow and of the operating system.
        """
        found = Checked()
        if not DeltaTable.is_deltatable(self._uri):
            return found
        dataset = DeltaTable(self._uri).to_pyarrow_dataset()
        for broker, places in replicas.items():
            chosen = self._chosen(dataset, broker, places)
            pace = self._pace()
            for wave in zip_longest(*chosen.values()):
                self._look(dataset, broker, [one for one in wave if one is not None], pace, found)
        return found

    def _chosen(
        self, dataset: Any, broker: int, places: Sequence[TopicPartition]
    ) -> dict[TopicPartition, list[Aborted]]:
        """Some aborted records of each partition, as they were recorded of one broker."""
        wanted = (pc.field("broker") == broker) & (pc.field("kind") == int(RowKind.RECORD))
        wanted &= (pc.field("outcome") == int(Outcome.ABORTED)) & pc.field("topic").isin(sorted({t for t, _ in places}))
        columns = ["topic", "partition", "offset", "producer_id", "leader_epoch", "timestamp"]
        salt = self._random.getrandbits(63)
        kept, more = None, []
        for batch in dataset.scanner(columns=columns, filter=wanted).to_batches():
            more.append(pa.Table.from_batches([batch]))
            if sum(map(len, more)) >= _MANY:
                kept, more = thinned(pa.concat_tables([*([kept] if kept else []), *more]), self._most, salt), []
        rows = pa.concat_tables([*([kept] if kept else []), *more]) if kept or more else None
        chosen: dict[TopicPartition, list[Aborted]] = {place: [] for place in places}
        if rows is not None and len(rows):
            few = thinned(rows, self._most, salt)
            *others, times = (few[name] for name in columns)
            milliseconds = [-1 if us is None else us // 1000 for us in times.cast(pa.int64()).to_pylist()]
            values = (*(column.to_pylist() for column in others), milliseconds)
            for topic, partition, *aborted in zip(*values, strict=True):
                if (place := TopicPartition(topic, partition)) in chosen:
                    chosen[place].append(Aborted(place, *aborted))
        return chosen

    def _look(self, dataset: Any, broker: int, wave: Sequence[Aborted], pace: Pacing | None, found: Checked) -> None:
        """Look at one record of each partition."""
        for one, spot in zip(wave, self._shown(broker, wave, pace), strict=True):
            found.counts[spot] += 1
            if spot is not Spot.COMMITTED or len(found.suspects) >= _MOST_SUSPECTS:
                continue
            accusation = transaction_of(one, broker, self._rows(dataset, broker, one))
            if accusation is not None:
                suspect = Suspect(*one.place, accusation, {}, self._now_ms())
                if all(suspect.suspect_id != other.suspect_id for other in found.suspects):
                    found.suspects.append(suspect)

    def _shown(self, broker: int, wave: Sequence[Aborted], pace: Pacing | None) -> list[Spot]:
        spots = [Spot.UNKNOWN] * len(wave)
        events = read_ranges(
            self._client,
            broker,
            [Span(*one.place, one.offset, one.offset + 1) for one in wave],
            isolation=IsolationLevel.READ_COMMITTED,
            hasher=self._hasher,
            max_bytes=_FETCH_BYTES,
            deadline_ms=self._timeout_ms,
            pace=pace,
        )
        for event in events:
            if isinstance(event, Failed):
                continue
            for index, mark in event.marks:
                if mark.position > wave[index].offset and spots[index] is Spot.UNKNOWN:
                    spots[index] = Spot.GONE
            columns = event.columns
            of = np.full(len(columns.offset), event.marks[0][0]) if event.of is None else event.of
            for row in np.flatnonzero(columns.kind == RowKind.RECORD).tolist():
                one, outcome = wave[of[row]], event.outcome[row]
                held = (
                    columns.offset[row],
                    columns.producer_id[row],
                    columns.leader_epoch[row],
                    columns.timestamp[row],
                )
                if held == one[1:]:
                    spots[of[row]] = Spot.COMMITTED if outcome == Outcome.COMMITTED else Spot.ABORTED
        return spots

    def _rows(self, dataset: Any, broker: int, one: Aborted) -> Iterator[tuple[int, int, int, int]]:
        """What the replica was recorded to show of a producer, in offset order."""
        wanted = (pc.field("topic") == one.place.topic) & (pc.field("partition") == one.place.partition)
        wanted &= (pc.field("broker") == broker) & (pc.field("producer_id") == one.producer_id)
        wanted &= pc.field("kind").isin([int(kind) for kind in (RowKind.RECORD, RowKind.COMMIT, RowKind.ABORT)])
        columns = ["offset", "kind", "key_hash_hi", "key_hash_lo"]
        rows = dataset.to_table(columns=columns, filter=wanted).sort_by("offset")
        return zip(*(rows[name].to_pylist() for name in columns), strict=True)


__all__ = ["Aborted", "Checked", "Spot", "SpotChecks", "thinned", "transaction_of"]
