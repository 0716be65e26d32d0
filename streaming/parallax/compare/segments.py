"""Files that keep the comparison's state between two micro-batches, next to the query's checkpoint.

A *segment* is a file with the states of the partitions that one Spark task has compared. Partitions are divided into
*buckets*, by a hash; a segment holds whole buckets. A large part of a state lies in a file of its own, which is written
again only when it has changed: while a replica is away, tens of megabytes may stay the same for days. A *manifest*
names all segments that make up the state at one of Spark's offsets.

No file is ever changed. A Spark task writes new segments. The driver writes the manifest of the micro-batch's end as
the very last thing. So a micro-batch that is run again begins with the manifest of its start, whatever died. Segments
are named by a hash of their content, which is checked when they are read. A manifest has a checksum.

Knows files, no Spark.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from parallax.compare.blobs import Blobs
from parallax.compare.observations import Array
from parallax.compare.state import PartitionState
from parallax.model import UNKNOWN, TopicPartition
from parallax.stores import is_remote, rust_path
from parallax.views.filesystem import filesystem

BUCKETS = 16
"""How many buckets a new checkpoint has; an existing one keeps its number."""

LARGE = 1 << 18
"""Unmatched tables of this many bytes or more get a file of their own."""

_KEPT = 4
"""How many manifests stay: Spark goes back by one micro-batch at most."""

_FIELDS: list[Any] = [
    pa.field("bucket", pa.int32()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("head", pa.binary()),
    pa.field("unmatched", pa.binary()),
    pa.field("file", pa.string()),
]
_SEGMENT = pa.schema(_FIELDS)


class StateGoneError(RuntimeError):
    """No state is stored for one of Spark's offsets.

    The comparison has to be rebuilt from the tables.
    """


class BrokenFileError(ValueError):
    """A file of the state does not hold what was written.

    The comparison has to be rebuilt from the tables.
    """


def bucket_of(topic: str, partition: int, buckets: int) -> int:
    """The number of the bucket to which a partition belongs; the states of a bucket are stored together.

    Every process and version computes the same number.

    Args:
        topic: the topic's name.
        partition: the partition's number.
        buckets: how many buckets there are.
    """
    return zlib.crc32(f"{topic}-{partition}".encode()) % buckets


def offset_mark(offset: Mapping[str, Any]) -> str:
    """A short name for one of Spark's offsets: a hash of it, as 32 hexadecimal digits.

    Under this name the comparison stores the *manifest*, the list of the files that hold its state at that offset.

    Args:
        offset: Spark's offset: by table name, `parallax.compare.following.Place.to_json`.
    """
    return hashlib.sha256(json.dumps(offset, sort_keys=True).encode()).hexdigest()[:32]


_CHECKSUM = "checksum"


def _compact(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _checksum(document: Mapping[str, Any]) -> str:
    """Of a manifest without its checksum."""
    return hashlib.sha256(_compact(document).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Segment:
    """The names of the files that hold the states of one bucket (share of the partitions).

    Attributes:
        name: the segment, a file with the states of this bucket and perhaps of others.
        files: the large parts of this bucket's states, each in a file of its own.
    """

    name: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The names of all files that hold the comparison's state at one of Spark's offsets.

    Attributes:
        buckets: how many buckets there are; a bucket is a share of the partitions, by a hash of topic and number.
        segments: by bucket, the segment with its states; a bucket that is left out holds no partition yet.
        number: how many micro-batches have led to it. Of two manifests, the one with the lower number is older.
    """

    buckets: int = BUCKETS
    segments: Mapping[int, Segment] = field(default_factory=dict)
    number: int = 0

    def with_segments(self, new: Mapping[int, Segment]) -> Manifest:
        """The manifest after one more micro-batch.

        Args:
            new: by bucket, the new segment with the states of the partitions that the micro-batch compared. A bucket
                that is left out keeps its segment.
        """
        return Manifest(self.buckets, {**self.segments, **new}, self.number + 1)

    def files(self) -> set[str]:
        """The names of all files that hold the state; no file that some manifest names may be removed."""
        return {name for segment in self.segments.values() for name in (segment.name, *segment.files)}

    def to_json(self) -> str:
        """The manifest as JSON text, with a checksum."""
        segments = {str(bucket): [segment.name, *segment.files] for bucket, segment in self.segments.items()}
        document = {"buckets": self.buckets, "segments": segments, "number": self.number}
        return _compact({**document, _CHECKSUM: _checksum(document)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The manifest from the text that `to_json` wrote; its checksum is checked.

        A text of an earlier version has no checksum.

        Raises:
            ValueError: the text is no manifest, or is damaged.
        """
        try:
            document = json.loads(text)
            if (told := document.pop(_CHECKSUM, None)) is not None and told != _checksum(document):
                raise BrokenFileError("a manifest is not what was written")
            found = {
                int(bucket): Segment(name, tuple(files)) for bucket, (name, *files) in document["segments"].items()
            }
            return cls(int(document["buckets"]), found, int(document.get("number", 0)))
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a manifest ({error!r})") from error


class States:
    """The states of all partitions of one bucket (share of the partitions), read from its segment.

    A state is unpacked when `get` asks for it. Unchanged states stay packed.

    Args:
        files: the file system in which large parts of states have files of their own.
        bucket: number of the bucket.
        packed: the bucket's rows of its segment; None if it has no segment yet.
    """

    def __init__(self, files: fs.FileSystem, bucket: int, packed: pa.Table | None = None) -> None:
        self.bucket = bucket
        self._files = files
        self._packed = _SEGMENT.empty_table() if packed is None else packed
        self._columns: dict[str, Any] = {n: self._packed[n].combine_chunks() for n in self._packed.schema.names}
        places = zip(*(self._columns[name].to_pylist() for name in ("topic", "partition")), strict=True)
        self._at = {TopicPartition(*place): n for n, place in enumerate(places)}
        self._changed: dict[TopicPartition, Mapping[str, Any]] = {}
        self._together: list[pa.Table] = []
        self._stays = np.ones(self._packed.num_rows, np.bool_)

    def get(self, place: TopicPartition) -> PartitionState:
        """The state of a partition; a new one if nothing was observed of the partition yet.

        Raises:
            OSError: the state's own file cannot be read.
            BrokenFileError: that file does not hold what was written.
            VersionError: the state was written by another version of Parallax.
            ValueError: the bytes are no state.
        """
        row = self._row(place)
        if row is None:
            return PartitionState()
        load: Callable[[], bytes] = lambda: row["unmatched"]  # noqa: E731
        if row["file"]:
            load = lambda: _checked(self._files, row["file"])  # noqa: E731
        return PartitionState.from_bytes(row["head"], load)

    def put(self, place: TopicPartition, before: PartitionState | None, after: PartitionState) -> None:
        """Replace a partition's state. Nothing is written before `rows` is called.

        Large unmatched tables (`parallax.compare.state.UNMATCHED`) are in a file of their own. If they have not
        changed, that file is kept; otherwise `rows` writes a new one.

        Args:
            place: the partition.
            before: the state that `get` gave, to see whether the unmatched tables have changed. None if that state is
                not known: then they count as changed.
            after: the new state.
        """
        row = self._row(place)
        head = after.head_bytes()
        if row is not None and row["file"] and before is not None and after.has_unmatched_of(before):
            self._changed[place] = {**row, "head": head}
            return
        self._changed[place] = {
            "bucket": self.bucket,
            "topic": place.topic,
            "partition": place.partition,
            "head": head,
            "unmatched": after.unmatched_bytes(),
            "file": "",
        }

    def packed(self, places: Sequence[TopicPartition]) -> tuple[Blobs, Blobs, Array]:
        """The packed states of many partitions, so that the quiet ones can be compared together.

        Args:
            places: the partitions.

        Returns:
            A tuple of three, each with one item for each of ``places``:

            - the packed head of its state; empty if it has no state;
            - its packed unmatched tables (`parallax.compare.state.UNMATCHED`); empty if it has no state, or if the
              tables are in a file of their own;
            - a boolean: false if the tables are in a file of their own.
        """
        at = np.array([self._at.get(place, UNKNOWN) for place in places], np.int64)
        known = at >= 0
        whole = np.ones(len(at), np.bool_)
        whole[known] = _sizes(self._columns["file"])[at[known]] == 0
        return _blobs(self._columns["head"], at), _blobs(self._columns["unmatched"], at), whole

    def put_packed(self, places: Sequence[TopicPartition], heads: Any, unmatched: Any) -> None:
        """Replace the states of many partitions by new states that are packed already, so that none is packed by `put`.

        Args:
            places: the partitions. Give each partition only once, here or to `put` (see `as_put`).
            heads: Arrow array of bytes: for each partition, its new state's `PartitionState.head_bytes`.
            unmatched: Arrow array of bytes: for each partition, its new state's `PartitionState.unmatched_bytes`.
        """
        self._stays[[self._at[place] for place in places if place in self._at]] = False
        n = len(places)
        columns = [
            pa.array(np.full(n, self.bucket, np.int32)),
            pa.array([place.topic for place in places], pa.string()),
            pa.array([place.partition for place in places], pa.int32()),
            heads,
            unmatched,
            pa.array([""] * n, pa.string()),
        ]
        self._together.append(pa.Table.from_arrays(columns, schema=_SEGMENT))

    def as_put(self) -> States:
        """The same states, as if just read from a segment. So each can be compared and replaced once more."""
        return States(self._files, self.bucket, self._all())

    def rows(self) -> pa.Table:
        """All states of the bucket as an Arrow table, to be written into a segment.

        There is one row for each partition. If the unmatched tables (`parallax.compare.state.UNMATCHED`) have `LARGE`
        bytes or more, they are written into a file of their own. The row then has that file's name in their place.

        Raises:
            OSError: such a file cannot be written.
        """
        table = self._all().combine_chunks()
        large = np.flatnonzero(np.array(pc.binary_length(table["unmatched"])) >= LARGE).tolist()
        if not large:
            return table
        columns = table.to_pydict()
        for n in large:
            columns["file"][n] = _kept(self._files, "unmatched", columns["unmatched"][n])
            columns["unmatched"][n] = b""
        return pa.Table.from_pydict(columns, _SEGMENT)

    def _all(self) -> pa.Table:
        stays = self._stays.copy()
        stays[[self._at[place] for place in self._changed if place in self._at]] = False
        changed = pa.Table.from_pylist([dict(row) for row in self._changed.values()], _SEGMENT)
        return pa.concat_tables([self._packed.filter(pa.array(stays)), *self._together, changed])

    def _row(self, place: TopicPartition) -> Mapping[str, Any] | None:
        if place in self._changed or place not in self._at:
            return self._changed.get(place)
        n = self._at[place]
        return {name: column[n].as_py() for name, column in self._columns.items()}


def _sizes(column: Any) -> Array:
    """How long each text or piece of bytes of an Arrow array is."""
    return np.diff(_offsets(column))


def _offsets(column: Any) -> Array:
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1].astype(
        np.int64
    )


def _blobs(column: Any, at: Array) -> Blobs:
    """Pieces of bytes of an Arrow array; an empty one for each -1."""
    if not len(column):
        return Blobs.of([b""] * len(at))
    offsets = _offsets(column)
    data = column.buffers()[2]
    size = np.where(at >= 0, np.diff(offsets)[at], 0)
    return Blobs(np.frombuffer(b"" if data is None else data, np.uint8), offsets[at], size)


class Store:
    """Reads and writes the files of the comparison's state, in the query's checkpoint.

    *Segments* hold the states of partitions. A *manifest* names all segments of the state at one of Spark's offsets.
    Several processes may use one store, but only one may write manifests.

    Args:
        checkpoint: folder or URI of the query's checkpoint.
    """

    def __init__(self, checkpoint: str) -> None:
        self._uri = rust_path(f"{checkpoint}/segments")
        self._files = filesystem(self._uri)
        self._order: list[str] = []

    def prepare(self) -> None:
        """Make the folder, and remove files that no manifest names. Call it only while no Spark task runs.

        Raises:
            OSError: the folder cannot be made, or a file cannot be removed.
        """
        if not is_remote(self._uri):
            fs.LocalFileSystem().create_dir(self._uri, recursive=True)
        found = self._files.get_file_info(fs.FileSelector("", allow_not_found=True))
        manifests = sorted((f for f in found if f.base_name.startswith("at-")), key=lambda f: (f.mtime_ns or 0, f.path))
        needed: set[str] = set()
        numbers: dict[str, int] = {}
        for mark in (f.base_name.removeprefix("at-") for f in manifests):
            numbers[mark] = -1
            try:
                manifest = self.manifest(mark)
            except (StateGoneError, ValueError):
                continue  # a broken one names nothing; its reader raises an error
            numbers[mark] = manifest.number
            needed |= manifest.files()
        # The times tell of those that an earlier version wrote; a copy has a time of its own.
        self._order = sorted(numbers, key=lambda mark: numbers[mark])
        for file in found:
            if not file.base_name.startswith("at-") and file.base_name not in needed:
                self._files.delete_file(file.base_name)

    def manifest(self, mark: str) -> Manifest:
        """Read the manifest of one of Spark's offsets.

        Args:
            mark: the offset's name (`offset_mark`).

        Raises:
            StateGoneError: there is no such manifest.
            ValueError: the file is no manifest.
        """
        try:
            return Manifest.from_json(_read(self._files, f"at-{mark}").decode())
        except FileNotFoundError as error:
            raise StateGoneError("the comparison's state is not there; it is rebuilt from the tables") from error

    def newest(self) -> tuple[Manifest, float] | None:
        """Read the newest manifest, and when it was written, even while a comparison runs.

        Returns:
            The manifest, and the time in seconds since 1970 UTC; None if there is no manifest.

        Raises:
            OSError: the folder or a file cannot be read.
            StateGoneError: the manifest was removed meanwhile; ask again.
            ValueError: a file is no manifest.
        """
        found = self._files.get_file_info(fs.FileSelector("", allow_not_found=True))
        written = [file for file in found if file.base_name.startswith("at-")]
        known = [(self.manifest(f.base_name.removeprefix("at-")), (f.mtime_ns or 0) / 1e9) for f in written]
        return max(known, key=lambda one: (one[0].number, one[1]), default=None)

    def commit(self, mark: str, manifest: Manifest) -> None:
        """Write the manifest of one of Spark's offsets, and remove old ones.

        The newest few manifests stay. Files that no manifest names any more are removed.

        Args:
            mark: the offset's name (`offset_mark`).
            manifest: the files that hold the state there.

        Raises:
            OSError: the manifest cannot be written.
        """
        name = f"at-{mark}"
        # A put is atomic, and nothing can be renamed there.
        scratch = name if is_remote(self._uri) else f".{mark}-{uuid4()}"
        with self._files.open_output_stream(scratch) as out:
            out.write(manifest.to_json().encode())
        if scratch != name:
            self._files.move(scratch, name)
        self._order = [*(m for m in self._order if m != mark), mark]
        old, self._order = self._order[:-_KEPT], self._order[-_KEPT:]
        if old:
            self._forget(old)

    def _forget(self, marks: Iterable[str]) -> None:
        needed = {name for mark in self._order for name in self.manifest(mark).files()}
        for mark in marks:
            try:
                gone = self.manifest(mark).files() - needed
            except (StateGoneError, ValueError):
                gone = set()
            for name in (*gone, f"at-{mark}"):
                if self._files.get_file_info(name).type is not fs.FileType.NotFound:
                    self._files.delete_file(name)

    def load(self, segments: Mapping[int, Segment | None]) -> dict[int, States]:
        """Read the states of some buckets (shares of the partitions), by bucket number.

        A segment that several buckets share is read once.

        Args:
            segments: by bucket number, its segment; None for a bucket without states.

        Raises:
            OSError: a segment cannot be read.
            BrokenFileError: a segment does not hold what was written.
        """
        read: dict[str, pa.Table] = {}
        found = {}
        for bucket, segment in segments.items():
            if segment is None:
                found[bucket] = States(self._files, bucket)
                continue
            if segment.name not in read:
                read[segment.name] = pa.ipc.open_stream(_checked(self._files, segment.name)).read_all()
            found[bucket] = States(self._files, bucket, read[segment.name].filter(pc.field("bucket") == bucket))
        return found

    def save(self, buckets: Sequence[States]) -> dict[int, Segment]:
        """Write the states of some buckets (shares of the partitions) into one new segment.

        Returns:
            By bucket number, the files with its states.

        Raises:
            OSError: the segment cannot be written.
        """
        tables = [states.rows() for states in buckets]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _SEGMENT) as writer:
            writer.write_table(pa.concat_tables(tables).combine_chunks())
        name = _kept(self._files, "segment", sink.getvalue())
        files = [sorted(name for name in table["file"].to_pylist() if name) for table in tables]
        return {states.bucket: Segment(name, tuple(mine)) for states, mine in zip(buckets, files, strict=True)}


def _kept(files: fs.FileSystem, kind: str, content: Any) -> str:
    """Write a file that is named by its content; returns the name."""
    name = f"{kind}-{_digest(content)}"
    with files.open_output_stream(name) as out:
        out.write(content)
    return name


def _checked(files: fs.FileSystem, name: str) -> bytes:
    """Read such a file; a state that is not what was written would make wrong verdicts."""
    content = _read(files, name)
    if _digest(content) != name.rpartition("-")[2]:
        raise BrokenFileError(f"comparison state: {name} is not what was written; it is rebuilt from the tables")
    return content


def _digest(content: Any) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _read(files: fs.FileSystem, name: str) -> bytes:
    with files.open_input_file(name) as source:
        return bytes(source.read())


__all__ = [
    "BUCKETS",
    "LARGE",
    "BrokenFileError",
    "Manifest",
    "Segment",
    "StateGoneError",
    "States",
    "Store",
    "bucket_of",
    "offset_mark",
]
