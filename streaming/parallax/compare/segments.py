"""The comparison's state between two micro-batches: immutable files beside its checkpoint, whose names are the state.

A *segment* holds the states of the partitions that a task has compared, by their bucket. What of one is large lies in a
file of its own, which is written again only when it has changed: while a replica is away it may be tens of megabytes,
and the same for days. A *manifest* names the segments as they stand at one offset of the source. A task writes new
segments and touches no old one; the driver writes the manifest of the micro-batch's end when all else of it is done. So
a micro-batch that is run again, whatever died, begins with the manifest of its start. Files are named by their content,
which is checked when they are read.

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

from parallax.compare.state import PartitionState
from parallax.model import TopicPartition
from parallax.views.commits import filesystem
from parallax.views.tables import checkpoint_path, rust_path

BUCKETS = 16
"""Buckets of a new checkpoint; one that exists keeps its own number."""

LARGE = 1 << 18
"""Bytes of unmatched state that are worth a file of their own."""

_KEPT = 4
"""Manifests that stay: Spark goes back by one micro-batch at most."""

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
    """There is no state for where the source stands; the comparison has to be rebuilt from the tables."""


def bucket_of(topic: str, partition: int, buckets: int) -> int:
    """The bucket of a partition; the same in every process and version."""
    return zlib.crc32(f"{topic}-{partition}".encode()) % buckets


def offset_mark(offset: Mapping[str, Any]) -> str:
    """Names an offset of the source."""
    return hashlib.sha256(json.dumps(offset, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Segment:
    """A bucket's segment by its name, which may be that of others, and the files that it names of this bucket."""

    name: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state at one offset.

    Attributes:
        buckets: how many there are.
        segments: by bucket; one that has none holds no partition yet.
    """

    buckets: int = BUCKETS
    segments: Mapping[int, Segment] = field(default_factory=dict)

    def with_segments(self, new: Mapping[int, Segment]) -> Manifest:
        """The same with some buckets' segments replaced."""
        return Manifest(self.buckets, {**self.segments, **new})

    def files(self) -> set[str]:
        """The names of all files that it needs."""
        return {name for segment in self.segments.values() for name in (segment.name, *segment.files)}

    def to_json(self) -> str:
        """Write it."""
        segments = {str(bucket): [segment.name, *segment.files] for bucket, segment in self.segments.items()}
        return json.dumps({"buckets": self.buckets, "segments": segments}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Raises:
            ValueError: it is not that.
        """
        try:
            document = json.loads(text)
            found = {
                int(bucket): Segment(name, tuple(files)) for bucket, (name, *files) in document["segments"].items()
            }
            return cls(int(document["buckets"]), found)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a manifest ({error!r})") from error


class States:
    """The states of a bucket's partitions; each is unpacked when it is asked for, what has not changed stays packed.

    Args:
        files: where large ones have files of their own.
        bucket: its number.
        packed: its rows of a segment; None where it has none yet.
    """

    def __init__(self, files: fs.FileSystem, bucket: int, packed: pa.Table | None = None) -> None:
        self.bucket = bucket
        self._files = files
        self._packed = _SEGMENT.empty_table() if packed is None else packed
        places = zip(*(self._packed[name].to_pylist() for name in ("topic", "partition")), strict=True)
        self._at = {TopicPartition(*place): n for n, place in enumerate(places)}
        self._changed: dict[TopicPartition, Mapping[str, Any]] = {}

    def get(self, place: TopicPartition) -> PartitionState:
        """The state of a partition; a fresh one where nothing was observed of it yet.

        Raises:
            OSError: its file cannot be read.
            ValueError: it is none that this version reads.
        """
        row = self._row(place)
        if row is None:
            return PartitionState()
        load: Callable[[], bytes] = lambda: row["unmatched"]  # noqa: E731
        if row["file"]:
            load = lambda: _checked(self._files, row["file"])  # noqa: E731
        return PartitionState.from_bytes(row["head"], load)

    def put(self, place: TopicPartition, before: PartitionState, after: PartitionState) -> None:
        """Replace a partition's state; a file of its own is written only where it is large and has changed."""
        row = self._row(place)
        head = after.head_bytes()
        if row is not None and row["file"] and after.has_unmatched_of(before):
            self._changed[place] = {**row, "head": head}
            return
        unmatched, name = after.unmatched_bytes(), ""
        if len(unmatched) >= LARGE:
            name = _kept(self._files, "unmatched", unmatched)
            unmatched = b""
        self._changed[place] = {
            "bucket": self.bucket,
            "topic": place.topic,
            "partition": place.partition,
            "head": head,
            "unmatched": unmatched,
            "file": name,
        }

    def rows(self) -> pa.Table:
        """All of them, as a segment has them."""
        stays = np.ones(self._packed.num_rows, np.bool_)
        stays[[self._at[place] for place in self._changed if place in self._at]] = False
        changed = pa.Table.from_pylist([dict(row) for row in self._changed.values()], _SEGMENT)
        return pa.concat_tables([self._packed.filter(pa.array(stays)), changed])

    def _row(self, place: TopicPartition) -> Mapping[str, Any] | None:
        if place in self._changed or place not in self._at:
            return self._changed.get(place)
        row: Mapping[str, Any] = self._packed.slice(self._at[place], 1).to_pylist()[0]
        return row


class Store:
    """The segments and manifests of one comparison; may be used by several processes, of which one writes manifests.

    Args:
        storage: ``storage.path``.
        query: whose checkpoint they lie beside.
    """

    def __init__(self, storage: str, query: str) -> None:
        self._uri = rust_path(f"{checkpoint_path(storage, query)}/segments")
        self._files = filesystem(self._uri)
        self._order: list[str] = []

    def prepare(self) -> None:
        """Make the folder, and remove what no manifest names; to be called while no task runs.

        Raises:
            OSError: it cannot be.
        """
        if "://" not in self._uri:
            fs.LocalFileSystem().create_dir(self._uri, recursive=True)
        found = self._files.get_file_info(fs.FileSelector("", allow_not_found=True))
        manifests = sorted((f for f in found if f.base_name.startswith("at-")), key=lambda f: (f.mtime_ns or 0, f.path))
        self._order = [f.base_name.removeprefix("at-") for f in manifests]
        needed: set[str] = set()
        for mark in list(self._order):
            try:
                needed |= self.manifest(mark).files()
            except (StateGoneError, ValueError):
                continue  # a broken one names nothing; whoever needs it says so
        for file in found:
            if not file.base_name.startswith("at-") and file.base_name not in needed:
                self._files.delete_file(file.base_name)

    def manifest(self, mark: str) -> Manifest:
        """Read the manifest of an offset.

        Raises:
            StateGoneError: there is none.
            ValueError: it is not one.
        """
        try:
            return Manifest.from_json(_read(self._files, f"at-{mark}").decode())
        except FileNotFoundError as error:
            raise StateGoneError("the comparison's state is not there; it is rebuilt from the tables") from error

    def commit(self, mark: str, manifest: Manifest) -> None:
        """Write the manifest of an offset, and remove what only manifests further back name.

        Raises:
            OSError: it cannot be written.
        """
        scratch = f".{mark}-{uuid4()}"
        with self._files.open_output_stream(scratch) as out:
            out.write(manifest.to_json().encode())
        self._files.move(scratch, f"at-{mark}")
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
        """Read the states of some buckets; a segment that several share is read once.

        Raises:
            OSError: a segment cannot be read.
            ValueError: it is not what was written.
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
        """Write the states of some buckets as one new segment; returns it for each.

        Raises:
            OSError: it cannot be written.
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
        raise ValueError(f"comparison state: {name} is not what was written; it is rebuilt from the tables")
    return content


def _digest(content: Any) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _read(files: fs.FileSystem, name: str) -> bytes:
    with files.open_input_file(name) as source:
        return bytes(source.read())


__all__ = ["BUCKETS", "LARGE", "Manifest", "Segment", "StateGoneError", "States", "Store", "bucket_of", "offset_mark"]
