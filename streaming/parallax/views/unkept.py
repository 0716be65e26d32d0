"""Takes rows out of a view in which all replicas agree. It is part of the upkeep, with ``storage.record: blocks``.

`parallax.views.settled` says which rows may go. What stays of them are their sums, in the footers, and all position
rows. A position row with the event ``not_kept`` says that rows are missing from the reader's last position up to this
one. So each reader of the view learns that no row there means that nobody knows any more, not that there was none.

Where rows stay next to rows that go, a position row is added between them. It is a copy of the one that ends the range.
Records that replicas showed as aborted stay in read_committed: `parallax.audit.spot` reads some of them again.

One commit changes all files of a date in one view. That is possible until `parallax.views.sharing` changes the date:
then its files borrow rows of each other. While something is open in a partition, upkeep looks at a date again, and does
not share it, but for `WAITS` at most. What is open longer than that keeps the partition's rows of the date.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow import fs

from parallax.model import UNKNOWN, Outcome, ReadEvent, RowKind, TopicPartition
from parallax.replica.digests import Array
from parallax.views import order
from parallax.views.blocks import Blocks, blocks_of
from parallax.views.compaction import File, by_date, replace, shaped
from parallax.views.filesystem import filesystem
from parallax.views.parquet import BROKER, FILE_SCHEMA, OF_VIEWS, TableFile
from parallax.views.settled import Reader, Settled, agreed_spans, unsettled
from parallax.views.shared import borrowed_on, row_bounds
from parallax.views.sharing import IsChosen, Saved, due_of
from parallax.views.tables import VIEWS, rust_uri

WAITS = timedelta(days=3)
"""For how many days upkeep looks at a date again because something is open. What is open may last over a weekend."""

Looked = dict[date, frozenset[TopicPartition]]
"""The partitions for which each date waits that was looked at: in each something is open. None where it is done."""

_WORTH = 10
"""A file is written again if at least one of so many of its rows goes."""

_BATCH = 1 << 16
_READ = ["topic", "partition", "kind", "offset", "outcome", "position.event"]

_Spans = Mapping[TopicPartition, Array]


def drop_agreed(
    storage: str,
    name: str,
    is_chosen: IsChosen,
    settled: Callable[[], Mapping[TopicPartition, Settled] | None],
    before: date,
    looked: Looked,
) -> Saved | None:
    """Take out of a view the rows that no longer need to be kept, of all dates before one.

    Args:
        storage: ``storage.path``.
        name: name of the view.
        is_chosen: says of a topic whether its rows may be taken out.
        settled: returns the partitions in which nothing is open, or None as long as that is not known; it is called if
            there is a date to look at.
        before: that date; rows that were recorded on it or later stay.
        looked: the dates of this view that were looked at; it is brought up to date. A date that waits is looked at
            again.

    Returns:
        What was taken out, of all dates; None if it is not known what may be, so that the dates have to wait.

    Raises:
        deltalake.exceptions.DeltaError: a commit failed; earlier dates are done.
        OSError: a file cannot be read or written.
    """
    saved = Saved()
    dates = by_date(storage, name)
    for on in [on for on in looked if on.isoformat() not in dates]:
        del looked[on]
    due = due_of(dates, before, [on for on, waits in looked.items() if not waits])
    if not due:
        return saved
    if (found := settled()) is None:
        return None
    known = {place: one for place, one in found.items() if is_chosen(place.topic)}
    others = {view: dates if view == name else by_date(storage, view) for view in VIEWS}
    borrowed = borrowed_on(storage, name)
    for told in due:
        on, waits = date.fromisoformat(told), frozenset[TopicPartition]()
        if told not in borrowed and not any(order.is_shared(file.path) for file in dates[told]):
            waits = looked.get(on, waits)
            # Of the others all that may go has gone.
            mine = known if on not in looked else {place: known[place] for place in waits & known.keys()}
            if mine or on not in looked:
                sums = _sums(storage, {view: of.get(told, ()) for view, of in others.items()})
                rows, size = _drop(storage, name, dates[told], agreed_spans(sums, mine))
                saved = Saved(saved.rows + rows, saved.size + size)
                left = frozenset(place for place in unsettled(sums, mine) if is_chosen(place.topic))
                waits = left if on not in looked else waits & left
        looked[on] = waits if before - on <= WAITS else frozenset()
    return saved


def _sums(storage: str, files: Mapping[str, Iterable[File]]) -> dict[Reader, Blocks]:
    """By view and broker, the sums of the rows in some files; those of a broker are empty if a file of it has none."""
    found: dict[Reader, list[Blocks]] = {
        (view, broker): [] for view, of in files.items() for broker in map(_broker, of)
    }
    for view, of in files.items():
        folder = filesystem(rust_uri(storage, view))
        for file in of:
            with folder.open_input_file(unquote(file.path)) as source:
                # Joined, a part takes 126 bytes meanwhile: 16 GB for a day of a million records a second.
                found[view, _broker(file)].append(blocks_of(pq.read_metadata(source).metadata).joined())
    return {reader: Blocks.concat(several) for reader, several in found.items()}


def _broker(file: File) -> int:
    return int(dict(file.values)[BROKER])


class _Made(NamedTuple):
    """A file that was written, and the one that it takes the place of."""

    old: File
    action: AddAction
    rows: int


def _drop(storage: str, name: str, files: Sequence[File], spans: _Spans) -> Saved:
    folder = filesystem(rust_uri(storage, name))
    made = [one for file in files if spans and (one := _without(folder, file, spans)) is not None]
    if not made:
        return Saved()
    replace(storage, name, [one.old for one in made], [one.action for one in made])
    return Saved(sum(one.rows for one in made), sum(one.old.size - one.action.size for one in made))


def _without(files: fs.FileSystem, file: File, spans: _Spans) -> _Made | None:
    """A file without rows that need not be kept; None if they are few."""
    path = unquote(file.path)
    with files.open_input_file(path) as source:
        parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        footer, total = parquet.metadata.metadata, parquet.metadata.num_rows
        blocks = blocks_of(footer)
        if not any(place in spans for place in blocks.places):
            return None
        change = _Change(parquet.read(_READ, use_threads=False), spans)
        if change.gone * _WORTH < total:
            return None
        made = TableFile(files, f"{path.rpartition('/')[0]}/{order.JOINED}{uuid.uuid4()}.parquet", OF_VIEWS)
        for batch in change.written(parquet):
            made.take(batch)
    times = order.parts_of(footer, file.at_ms, total)
    counts = np.bincount(np.searchsorted(np.cumsum(times[:, 1]), change.of_row, "right"), minlength=len(times))
    left = np.stack([times[:, 0], counts], axis=1)[counts > 0]
    size = made.close({**order.told(left.tolist()), **blocks.joined().told()})
    action = AddAction(made.path, size, dict(file.values), file.at_ms, data_change=False, stats=made.statistics)
    return _Made(file, action, total - made.rows)


class _Change:
    """Which rows of a file go, and which position rows come.

    Args:
        rows: the columns `_READ` of all rows of the file.
        spans: by partition, the ranges of offsets whose rows need not be kept.

    Attributes:
        gone: by how many rows the file becomes smaller.
        of_row: int64[n], for each row of the new file the number of the old file's row that it is, or comes before.
    """

    def __init__(self, rows: pa.Table, spans: _Spans) -> None:
        kinds, offsets = rows["kind"].to_numpy(), rows["offset"].to_numpy()
        place, is_within = _placed(rows, offsets, spans)
        is_position = kinds == int(RowKind.POSITION)
        in_turn = np.argsort(place, kind="stable")
        # From here on the rows of each partition lie together, in the order of the file.
        place, offset, is_position = place[in_turn], offsets[in_turn], is_position[in_turn]
        stands = np.append(np.flatnonzero(is_position), len(place) - 1)
        ends = stands[np.searchsorted(stands[:-1], np.arange(len(place)))]
        # What no position follows in the file stays: no row could say that it is missing.
        gap = is_within[in_turn] & ~is_position & is_position[ends] & (place[ends] == place)
        follows = np.append(False, place[1:] == place[:-1])
        after_gap = follows & np.append(False, gap[:-1])
        after_kept = follows & np.append(False, ~(gap | is_position)[:-1])
        event = _events(rows)[in_turn]
        is_ok, is_told = event == str(ReadEvent.OK), event == str(ReadEvent.NOT_KEPT)
        turned = is_position & after_gap & is_ok
        added = (after_gap & ~gap & ~turned & ~is_told) | (gap & after_kept)
        at = np.flatnonzero(turned | added)
        self._made_at, self._made_of = in_turn[at], in_turn[ends[at]]
        self._offsets = np.where(turned, offset, np.append(0, offset[:-1] + 1))[at]
        self._events = np.where(gap, str(ReadEvent.OK), str(ReadEvent.NOT_KEPT))[at]
        self._is_added = added[at]
        aborted = (kinds[in_turn] == int(RowKind.RECORD)) & (
            rows["outcome"].to_numpy()[in_turn] == int(Outcome.ABORTED)
        )
        self._stays = np.ones(len(place), np.bool_)
        self._stays[in_turn[(gap & ~aborted) | turned]] = False
        self.gone = int(len(place) - np.count_nonzero(self._stays) - len(at))
        by_row = np.argsort(self._made_at, kind="stable")
        self._made_at, self._made_of = self._made_at[by_row], self._made_of[by_row]
        self._offsets, self._events, self._is_added = (
            self._offsets[by_row],
            self._events[by_row],
            self._is_added[by_row],
        )
        self.of_row = np.sort(np.concatenate([np.flatnonzero(self._stays), self._made_at]))

    def written(self, parquet: pq.ParquetFile) -> Iterable[pa.RecordBatch]:
        """Yield the rows of the new file."""
        bounds = row_bounds(parquet.metadata)
        made = self._positions(parquet, bounds)
        for number in range(parquet.num_row_groups):
            begin, end = bounds[number : number + 2]
            stays = np.flatnonzero(self._stays[begin:end])
            first, last = np.searchsorted(self._made_at, [begin, end])
            if not len(stays) and first == last:
                continue
            rows = _group(parquet, number).take(_indices(stays)) if len(stays) else FILE_SCHEMA.empty_table()
            # An added row comes before the row at its place.
            places = np.concatenate([2 * stays + 1, 2 * (self._made_at[first:last] - begin)])
            table = pa.concat_tables([rows, made.slice(first, last - first)])
            yield from table.take(_indices(np.argsort(places, kind="stable"))).to_batches(_BATCH)

    def _positions(self, parquet: pq.ParquetFile, bounds: Array) -> pa.Table:
        """The position rows that come, in the order of the file."""
        group_of = np.searchsorted(bounds, self._made_of, "right") - 1
        found, rank = [FILE_SCHEMA.empty_table()], np.argsort(group_of, kind="stable")
        for number in np.unique(group_of).tolist():
            mine = self._made_of[rank][group_of[rank] == number] - bounds[number]
            found.append(_group(parquet, number).take(_indices(mine)))
        back = np.empty(len(rank), np.int64)
        back[rank] = np.arange(len(rank))
        rows = pa.concat_tables(found).take(_indices(back)).combine_chunks()
        position: Any = rows["position"].combine_chunks()
        names = [field.name for field in position.type]
        values = [position.field(name) for name in names]
        values[names.index("event")] = pa.array(self._events.tolist(), position.type.field("event").type)
        told = pa.StructArray.from_arrays(values, fields=list(position.type))
        epochs = np.where(self._is_added, UNKNOWN, rows["leader_epoch"].to_numpy())
        changed = {"position": told, "offset": pa.array(self._offsets), "leader_epoch": pa.array(epochs, pa.int32())}
        columns = [changed.get(name, rows[name]) for name in FILE_SCHEMA.names]
        return pa.table(columns, schema=FILE_SCHEMA)


def _indices(numbers: Array) -> Any:
    return pa.array(numbers, pa.int64())


def _events(rows: pa.Table) -> Array:
    """The event of each position row; empty text for other rows."""
    position: Any = rows["position"].combine_chunks()
    return np.asarray(position.field("event").fill_null("").to_numpy(zero_copy_only=False))


def _placed(rows: pa.Table, offsets: Array, spans: _Spans) -> tuple[Array, Array]:
    """For each row a number of its partition, and whether it lies in one of the ranges."""
    topics: Any = pa.concat_arrays(rows["topic"].chunks).dictionary_encode()
    names, partitions = topics.dictionary.to_pylist(), rows["partition"].to_numpy()
    pairs = topics.indices.to_numpy().astype(np.int64) << 32 | partitions
    found, place = np.unique(pairs, return_inverse=True)
    is_within = np.zeros(len(place), np.bool_)
    in_turn = np.argsort(place, kind="stable")
    begins = np.searchsorted(place[in_turn], np.arange(len(found) + 1))
    for number, pair in enumerate(found.tolist()):
        its = spans.get(TopicPartition(names[pair >> 32], pair & 0xFFFFFFFF))
        if its is not None:
            mine = in_turn[begins[number] : begins[number + 1]]
            at = np.searchsorted(its[:, 0], offsets[mine], "right") - 1
            is_within[mine] = (at >= 0) & (offsets[mine] < its[at, 1])
    return place, is_within


def _group(parquet: pq.ParquetFile, number: int) -> pa.Table:
    table = parquet.read_row_group(number, use_threads=False)
    return pa.Table.from_batches([shaped(one, OF_VIEWS) for one in table.to_batches()], FILE_SCHEMA)


__all__ = ["WAITS", "Looked", "drop_agreed"]
