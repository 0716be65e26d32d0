"""Sums of the fingerprints of a view's rows, one for each block of offsets, in the footer of each file.

`parallax.replica.digests` makes them. Where the sums of two replicas are equal, an audit need not read their rows. A
commit makes rows and sums visible together. So there are no sums of rows that were written twice, or by a Spark task
that failed. Compaction joins the sums as it joins the rows, and retention drops both. Compaction also joins those of
neighbouring blocks: only a live comparison needs them one by one. Sums in the format before can be used.
Of a file in any other format only the rows can. Several files have sums together only if each of them has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parallax.model import CONTENT_VERSION, UNKNOWN, IsolationLevel, ReadEvent, TopicPartition
from parallax.replica.digests import COLUMNS, MOVE, PART, Array, Digester, Digests
from parallax.source.planning import Piece
from parallax.views import order
from parallax.views.commits import TableLog
from parallax.views.packed import head_of, of_planes, packed, planes, tables_of
from parallax.views.parquet import BROKER
from parallax.views.positions import open_table

RANGE = np.dtype(
    [("place", "<i4"), ("start", "<i8"), ("end", "<i8"), ("epoch", "<i4"), ("topic_id", "<i4"), ("whole", "?")]
)
"""The offsets that one reader has read in one micro-batch, from ``start`` to below ``end``.

``place``, ``topic_id``: indexes of its partition and topic id; -1 for an unknown topic id. ``epoch``: leader epoch of
the last batch below the end, -1 where it is not known. ``whole``: the rows are all that the replica shows there, and no
event was reported.
"""

_QUIET = (ReadEvent.OK, ReadEvent.PARTITION_ADDED)
_KEY = "parallax.blocks"
_FORMAT = {"format": 2, "content": int(CONTENT_VERSION)}
_BY_NUMBER = 1
"""The format before. It has the number of a block in place of its end."""

_TABLES = (RANGE, PART, MOVE)
_AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class Blocks:
    """The sums of rows that readers of one broker and one isolation level have shown, e.g. of one file.

    Attributes:
        places: the partitions; ``place`` in ``ranges`` is an index into these.
        topic_ids: the topic ids; ``topic_id`` in ``ranges`` is an index into these.
        ranges: rows of `RANGE`, each for the offsets of one partition that one micro-batch has read. Those of one
            partition are in the order in which they were recorded.
        digests: sums of the rows; ``range`` in their ``parts`` is an index into ``ranges``.
    """

    places: tuple[TopicPartition, ...]
    topic_ids: tuple[str, ...]
    ranges: Array
    digests: Digests

    @classmethod
    def none(cls) -> Blocks:
        """Empty sums: those of no rows."""
        return cls((), (), np.empty(0, RANGE), Digests.none())

    @classmethod
    def of_positions(cls, places: Iterable[TopicPartition]) -> Blocks:
        """The sums of a file that has position rows alone, which are in no sum.

        Args:
            places: the partitions of these rows, at least one.
        """
        return cls(tuple(dict.fromkeys(places)), (), np.empty(0, RANGE), Digests.none())

    @classmethod
    def concat(cls, several: Sequence[Blocks]) -> Blocks:
        """The sums of several files together, all of one broker and one isolation level.

        They are empty if those of one file are: where rows of a file are in no sum, the others are not of all rows.

        Args:
            several: the sums of each file, in the order in which the files were recorded.
        """
        if not all(one.places for one in several):
            return cls.none()
        places = tuple(dict.fromkeys(place for one in several for place in one.places))
        ids = tuple(dict.fromkeys(topic_id for one in several for topic_id in one.topic_ids))
        number = {place: n for n, place in enumerate(places)}
        number_of_id = {topic_id: n for n, topic_id in enumerate(ids)}
        ranges, digests, begin = [np.empty(0, RANGE)], [], 0
        for one in several:
            place = np.array([number[known] for known in one.places], np.int32)
            topic_id = np.array([*(number_of_id[known] for known in one.topic_ids), UNKNOWN], np.int32)
            its, parts = one.ranges.copy(), one.digests.parts.copy()
            its["place"], its["topic_id"] = place[its["place"]], topic_id[its["topic_id"]]
            parts["range"] += begin
            begin += len(its)
            ranges.append(its)
            digests.append(Digests(parts, one.digests.moves))
        return cls(places, ids, np.concatenate(ranges), Digests.concat(digests))

    def joined(self) -> Blocks:
        """The same sums in less room: ranges that go on from each other as one, and few parts (`Digests.joined`).

        It is for rows in which no micro-batch ends any more: cuts are lost.
        """
        in_turn = np.argsort(self.ranges["place"], kind="stable")
        ranges = self.ranges[in_turn]
        goes_on = (ranges["start"][1:] == ranges["end"][:-1]) & ranges["whole"][1:] & ranges["whole"][:-1]
        for name in ("place", "topic_id"):
            goes_on &= ranges[name][1:] == ranges[name][:-1]
        number = np.cumsum(np.append(0, ~goes_on)[: len(ranges)])
        last = np.flatnonzero(np.append(~goes_on, [True])[: len(ranges)])
        made = ranges[last].copy()
        made["start"] = ranges["start"][np.append(0, last[:-1] + 1)[: len(last)]]
        of_range = np.empty(len(ranges), np.int32)
        of_range[in_turn] = number
        return Blocks(self.places, self.topic_ids, made, self.digests.joined(of_range))

    def told(self) -> dict[str, str]:
        """The sums as a key and its value for the footer of a file; empty if there are none.

        `blocks_of` reads them from the footer.
        """
        if not self.places:
            return {}
        tables = self.ranges, self.digests.parts, self.digests.moves
        head = {**_FORMAT, "places": self.places, "topic_ids": self.topic_ids, "rows": [len(one) for one in tables]}
        return {_KEY: packed(head, map(planes, tables))}


class ByPlace:
    """Finds the sums of one partition quickly, among those of one broker and isolation level.

    Args:
        blocks: the sums of all partitions; they are sorted once, by partition.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._ids = [*blocks.topic_ids, ""]
        self._numbers = {place: n for n, place in enumerate(blocks.places)}
        place = blocks.ranges["place"]
        of_part = place[blocks.digests.parts["range"]]
        of_move = of_part[blocks.digests.moves["part"]]
        self._ranges, self._range_at, of_range = self._sorted(blocks.ranges, place)
        self._parts, self._part_at, moved = self._sorted(blocks.digests.parts, of_part)
        self._moves, self._move_at, _ = self._sorted(blocks.digests.moves, of_move)
        self._parts["range"] = of_range[self._parts["range"]]
        self._moves["part"] = moved[self._moves["part"]]

    def _sorted(self, table: Array, place: Array) -> tuple[Array, Array, Array]:
        """A table sorted by partition, where the rows of each partition begin, and where each row is now."""
        order = np.argsort(place, kind="stable")
        to = np.empty(len(order), np.int64)
        to[order] = np.arange(len(order))
        return table[order], np.searchsorted(place[order], np.arange(len(self._numbers) + 1)), to

    def of(self, place: TopicPartition) -> tuple[Array, list[str], Digests]:
        """The sums of one partition; all three values are empty if there are none.

        Args:
            place: the partition.

        Returns:
            A tuple of three:

            - rows of `RANGE`: the offsets that each micro-batch has read;
            - the topic id of each of these rows; empty where it is not known;
            - the sums; ``range`` in their ``parts`` is an index into these rows.
        """
        n = self._numbers.get(place)
        if n is None:
            return self._ranges[:0], [], Digests(self._parts[:0], self._moves[:0])
        ranges, parts, moves = (
            table[at[n] : at[n + 1]].copy()
            for table, at in (
                (self._ranges, self._range_at),
                (self._parts, self._part_at),
                (self._moves, self._move_at),
            )
        )
        parts["range"] -= self._range_at[n]
        moves["part"] -= self._part_at[n]
        return ranges, [self._ids[one] for one in ranges["topic_id"].tolist()], Digests(parts, moves)


def blocks_of(footer: Mapping[bytes, bytes] | None) -> Blocks:
    """The sums of a file's rows, read from its footer.

    They are empty if the footer has none, if it is garbled, or if another version of Parallax has added them up
    differently. Then the rows are read instead.

    Args:
        footer: key-value metadata of the file; None for none.
    """
    text = (footer or {}).get(_KEY.encode())
    if text is None:
        return Blocks.none()
    try:
        head, raw = head_of(text)
        if head["content"] != _FORMAT["content"] or head["format"] not in (_BY_NUMBER, _FORMAT["format"]):
            return Blocks.none()
        tables = tables_of(raw, zip(_TABLES, head["rows"], strict=True))
        is_of_now = head["format"] == _FORMAT["format"]
        ranges, parts, moves = [of_planes(one) if is_of_now else one.copy() for one in tables]
        if not is_of_now:
            parts["block_end"] = (parts["block_end"] + 1) << head["block_bits"]
        places = tuple(TopicPartition(*place) for place in head["places"])
        return Blocks(places, tuple(head["topic_ids"]), ranges, Digests(parts, moves))
    except (KeyError, TypeError, ValueError):
        return Blocks.none()


def recorded(storage: str, isolation: IsolationLevel) -> dict[int, Blocks]:
    """The sums of all rows that a view holds now, by broker id. They are empty if a file of the broker has no sums.

    Args:
        storage: ``storage.path``.
        isolation: the isolation level of the view.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
        OSError: a file cannot be read, or upkeep has removed it in the meantime.
    """
    log = TableLog(storage, isolation.option)
    files = order.files_of(open_table(storage, isolation.option)).to_pylist()

    def read(row: Mapping[str, Any]) -> Blocks:
        with log.files.open_input_file(unquote(row[order.PATH])) as source:
            return blocks_of(pq.read_metadata(source).metadata)

    found: dict[int, list[Blocks]] = {}
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        for row, blocks in zip(files, pool.map(read, files), strict=True):
            found.setdefault(int(row[f"partition.{BROKER}"]), []).append(blocks)
    return {broker: Blocks.concat(several) for broker, several in found.items()}


class AddingUp:
    """Adds up the rows of one file while a Spark task writes it.

    Args:
        key: 16 secret bytes, those that key the hashes of records.
    """

    def __init__(self, key: bytes) -> None:
        self._digester = _digester(key)
        self._numbers: dict[TopicPartition, int] = {}
        self._made: list[Digests] = []
        self._positions: list[pa.RecordBatch] = []

    def take(self, batch: pa.RecordBatch) -> None:
        """Add rows to the sums, in the order of the file.

        Args:
            batch: at least one row, with the columns of a view; none is of kind POSITION.
        """
        begins, places = self._runs(batch)
        columns = {name: _numbers(batch.column(name)) for name in COLUMNS}
        self._made.append(self._digester.add_up(begins, places, columns))

    def take_positions(self, batch: pa.RecordBatch) -> None:
        """Take in rows of kind POSITION, which say how far each reader has read and what happened there.

        Args:
            batch: the rows, with the columns of a view.
        """
        self._positions.append(batch)

    def blocks(self, pieces: Sequence[Piece]) -> Blocks:
        """The sums of all rows of the file.

        Args:
            pieces: the offsets that the Spark task had to read, one entry for each partition, all of one isolation
                level.
        """
        told: dict[TopicPartition, list[Mapping[str, Any]]] = {}
        columns = ["topic", "partition", "offset", "leader_epoch", "position"]
        for batch in self._positions:
            for row in batch.select(columns).to_pylist():
                told.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
        ids: dict[str, int] = {}
        read = {piece.reader.place: piece for piece in pieces}
        for place in read:
            self._number(place)
        ranges = [
            (n, *self._range(read[place], told.get(place, []), ids))
            for n, place in enumerate(self._numbers)
            if place in read
        ]
        return Blocks(tuple(self._numbers), tuple(ids), np.array(ranges, RANGE), Digests.concat(self._made))

    def _range(self, piece: Piece, told: Sequence[Mapping[str, Any]], ids: dict[str, int]) -> tuple[Any, ...]:
        span = piece.span
        topic_id = ids.setdefault(span.topic_id, len(ids)) if span.topic_id else UNKNOWN
        if not piece.last or not told:
            return span.start, span.end, UNKNOWN, topic_id, False
        whole = all(ReadEvent(row["position"]["event"]) in _QUIET for row in told)
        last = told[-1]
        return span.start, last["offset"], last["leader_epoch"], topic_id, whole

    def _number(self, place: TopicPartition) -> int:
        return self._numbers.setdefault(place, len(self._numbers))

    def _runs(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """Where the rows of each partition begin in a batch, with the end of the last; and the partitions' numbers."""
        topics, partitions = batch.column("topic"), _numbers(batch.column("partition"))
        n = len(partitions)
        changes = partitions[1:] != partitions[:-1]
        # A log's rows lie together: where the last row is of the topic of the first, all of that partition are.
        if topics[0].as_py() != topics[n - 1].as_py() or changes.any():
            codes = _numbers(topics.dictionary_encode().indices)
            changes = changes | (codes[1:] != codes[:-1])
        begins = np.concatenate([[0], np.flatnonzero(changes) + 1])
        places = [TopicPartition(topics[at].as_py(), int(partitions[at])) for at in begins.tolist()]
        return np.append(begins, n), np.array([self._number(place) for place in places], np.int32)


def _numbers(column: Any) -> Array:
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    return np.asarray(column.to_numpy())


@lru_cache(maxsize=1)
def _digester(key: bytes) -> Digester:
    return Digester(key)


__all__ = ["RANGE", "AddingUp", "Blocks", "ByPlace", "blocks_of", "recorded"]
