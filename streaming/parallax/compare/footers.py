"""Finds which rows of the views' files a micro-batch need not read, because all replicas' sums of them are equal.

The sums are in the footers of the Parquet files (`parallax.views.blocks`). A file without sums is read as it is. So is
a part of a file that upkeep has joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyarrow import fs

from parallax.compare.blocks import Alike, Recorded, alike
from parallax.compare.observations import Array
from parallax.compare.sums import Reader
from parallax.model import IsolationLevel, TopicPartition
from parallax.replica.digests import KINDS
from parallax.views.blocks import Blocks, ByPlace, blocks_of
from parallax.views.commits import DataFile

WORTH = 2_000
"""From how many rows on a partition is compared by sums. A step without rows costs a millisecond too."""

WORTH_APART = 6_000
"""The same where readers begin apart. Rows up to the first cut need a step of their own."""

VIEW_OF = {isolation.option: int(isolation) for isolation in IsolationLevel}
"""By name of the view's table, the view's number."""

Span = tuple[int, int]
"""A first offset, and one behind the last."""

Wanted = Callable[[str, int], bool]
"""Takes a topic's name and a partition's number, and returns whether this Spark task compares that partition."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of one Parquet file, and the offsets in the file that need not be read.

    Attributes:
        metadata: the file's Parquet metadata.
        spans: by partition, the range of offsets of its rows in the file.
        spared: by partition, the offsets whose rows are read from no file of the micro-batch. Empty if this file's
            footer has no sums.
    """

    metadata: Any
    spans: Mapping[TopicPartition, Span]
    spared: Mapping[TopicPartition, Span]

    def is_spared(self, low: TopicPartition, high: TopicPartition, offsets: Span) -> bool:
        """Whether no row of a row group need be read, because the sums of all replicas are equal there.

        Rows that only report a reader's position (`ViewRows`) are in no sum. So the group may have such rows.

        Args:
            low: the lowest topic and the lowest partition number in the group.
            high: the highest topic and the highest partition number in the group.
            offsets: the lowest offset in the group, and one past the highest.
        """
        if not self.spared:
            return False
        if low == high:
            return low in self.spared and _holds(self.spared[low], offsets)
        return all(
            place in self.spared and _holds(self.spared[place], span)
            for place, span in self.spans.items()
            if low.topic <= place.topic <= high.topic and low.partition <= place.partition <= high.partition
        )


def _holds(span: Span, other: Span) -> bool:
    return span[0] <= other[0] and other[1] <= span[1]


@dataclass(frozen=True, slots=True)
class Sparing:
    """The rows that one micro-batch need not read, and the footers of the files that were looked at.

    Attributes:
        alike: by partition, the range of offsets in which all readers' sums are equal.
        footers: by name of the table and path, the footer of each file that was looked at.
        rows: how many rows of the files have to be read. Of a file without sums these are all of its rows. Where
            upkeep has taken rows out of a file (`parallax.views.unkept`), its sums still count them: then it is more.
    """

    alike: Mapping[TopicPartition, Alike]
    footers: Mapping[tuple[str, str], Footer]
    rows: int


Looked = dict[tuple[str, str], tuple[Any, Blocks]]
"""Metadata and sums of a Parquet file, by name of the table and path."""


def sparing(
    files: Iterable[tuple[str, DataFile]],
    opened: Mapping[str, fs.FileSystem],
    wanted: Wanted,
    looked: Looked,
) -> Sparing:
    """Read the footers of a micro-batch's files, and find the offsets in which all readers' sums are equal.

    Args:
        files: the files, each with the name of its table, in the order of their commits.
        opened: by name of the view, the file system of its files; files of other tables are ignored.
        wanted: says of a topic and partition number whether it is compared here.
        looked: the footers that were read before; new ones are added, so that no footer is read twice.

    Raises:
        OSError: a file cannot be read, or upkeep has removed it in the meantime.
        pyarrow.ArrowException: a file is no Parquet file.
    """
    views = [(name, file) for name, file in files if name in opened]
    mine = [(name, file) for name, file in views if file.first is None]
    if sum(file.rows for _, file in mine) < WORTH:
        return Sparing({}, {}, sum(file.rows for _, file in views))
    told: dict[Reader, list[Blocks]] = {}
    for name, file in mine:
        if (name, file.path) not in looked:
            with opened[name].open_input_file(file.path) as source:
                metadata = pq.read_metadata(source)
            looked[name, file.path] = metadata, blocks_of(metadata.metadata)
        if file.broker is not None and looked[name, file.path][1].places:
            told.setdefault((file.broker, VIEW_OF[name]), []).append(looked[name, file.path][1])
    read = {(name, file.path): looked[name, file.path] for name, file in mine}
    found = _alike({reader: Blocks.concat(several) for reader, several in told.items()}, wanted)
    spared = {place: (one.start, one.end) for place, one in found.items()}
    sums = {key: blocks for key, (_, blocks) in read.items()}
    asked = sum(_rows_asked(file, sums.get((name, file.path), Blocks.none()), wanted) for name, file in views)
    return Sparing(
        found,
        {
            key: Footer(metadata, _spans(blocks, wanted) if spared else {}, spared if blocks.places else {})
            for key, (metadata, blocks) in read.items()
        },
        asked - sum(one.rows for one in found.values()),
    )


def _rows_asked(file: DataFile, blocks: Blocks, wanted: Wanted) -> int:
    """How many rows a file has of the partitions that are compared here, by its sums, and of positions of all."""
    if not blocks.places:
        return file.rows
    rows, is_mine = _rows(blocks), np.array([wanted(*place) for place in blocks.places], np.bool_)
    return int(rows[is_mine].sum()) + max(0, file.rows - int(rows.sum()))


def _alike(readers: Mapping[Reader, Blocks], wanted: Wanted) -> dict[TopicPartition, Alike]:
    rows: dict[TopicPartition, int] = {}
    for blocks in readers.values():
        for place, count in zip(blocks.places, _rows(blocks).tolist(), strict=True):
            rows[place] = rows.get(place, 0) + count
    places = [place for place, count in rows.items() if count >= WORTH and wanted(*place)]
    if not places:
        return {}
    by_place = {reader: ByPlace(blocks) for reader, blocks in readers.items()}
    made = {}
    for place in places:
        recorded = {reader: Recorded(*its.of(place)) for reader, its in by_place.items()}
        recorded = {reader: one for reader, one in recorded.items() if len(one.ranges)}
        is_apart = len({int(one.ranges["start"][0]) for one in recorded.values()}) > 1
        least = WORTH_APART if is_apart else WORTH
        found = alike(recorded) if rows[place] >= least else None
        if found is not None and found.rows >= least:
            made[place] = found
    return made


def _rows(blocks: Blocks) -> Array:
    """How many rows each partition has, but for position rows."""
    parts = blocks.digests.parts
    counts = np.sum([parts[name] for name in KINDS], axis=0, dtype=np.int64)
    of = blocks.ranges["place"][parts["range"]]
    return np.bincount(of, counts, len(blocks.places)).astype(np.int64)


def _spans(blocks: Blocks, wanted: Wanted) -> dict[TopicPartition, Span]:
    spans: dict[TopicPartition, Span] = {}
    for place, start, end in zip(*(blocks.ranges[name].tolist() for name in ("place", "start", "end")), strict=True):
        one = blocks.places[place]
        if wanted(*one):
            first, last = spans.get(one, (start, end))
            spans[one] = min(first, start), max(last, end)
    return spans


__all__ = ["VIEW_OF", "Footer", "Looked", "Span", "Sparing", "Wanted", "sparing"]
