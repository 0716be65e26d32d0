"""The files by which a job's driver reports to its sources.

A replica cannot be read twice with the same outcome, so what counts is what the tables hold, not what was planned. The
sink writes each reader's recorded position after its commit; the planning process reads the file before each plan.
Each line of the file is a JSON array of what one micro-batch has recorded; the first is what was recorded before. So
a micro-batch costs what it moved, on either side. Beside the readers a line holds how far of each view that goes,
``[isolation level, place in the order of its commits]``: a start reads of the tables what lies behind. The comparison
says of which partitions it awaits a report, and the job which brokers are not to be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from parallax.model import ReadEvent, TopicPartition
from parallax.source.offsets import Reader

Content = TypeVar("Content")

ALL = -1
"""Stands for all brokers where reading is paused."""

_LONGEST, _TIMES = 10_000, 4
"""The file is begun anew when it holds so many entries more, and this many times as many, as there are readers."""

_PLACE = 2
"""So many values has a row of `Reached`."""


class Recorded(NamedTuple):
    """The recorded position of one reader.

    Attributes:
        position: next offset to read.
        topic_id: id of the topic whose offset that is; empty where it is not known.
        event: what its last position row said.
        batch: id of the batch that recorded it; -1 for what was there when the query started.
        epoch: leader epoch of the last batch below the position; -1 where it is not known.
    """

    position: int
    topic_id: str
    event: ReadEvent
    batch: int = -1
    epoch: int = -1


Reached = Mapping[int, int]
"""How far what is recorded is known: by isolation level, the place of a commit (`parallax.views.order`)."""


def write(path: str | Path, recorded: Mapping[Reader, Recorded], reached: Reached | None = None) -> None:
    """Replace the file at once; a reader sees the old or the new one, never half of it."""
    _replace(path, _rows(recorded, reached or {}))


class Journal:
    """Writes the file of one sink.

    Args:
        path: of the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._appended = 0

    def write(self, recorded: Mapping[Reader, Recorded], reached: Reached) -> None:
        """Begin it anew with all that is recorded."""
        write(self._path, recorded, reached)
        self._appended = 0

    def append(self, moved: Mapping[Reader, Recorded], recorded: Mapping[Reader, Recorded], reached: Reached) -> None:
        """Add what a micro-batch has recorded; a reader sees all of it or nothing.

        Args:
            moved: what it has recorded.
            recorded: all that is recorded by now, for a file that has become long.
            reached: how far that is.
        """
        self._appended += len(moved)
        if self._appended > _LONGEST + _TIMES * len(recorded) or not self._path.exists():
            self.write(recorded, reached)
        elif moved:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(_line(_rows(moved, reached)))


def write_awaited(path: str | Path, places: Iterable[TopicPartition]) -> None:
    """Replace the file of the partitions that a report is awaited of."""
    _replace(path, sorted(places))


def _replace(path: str | Path, rows: Sequence[Any]) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    scratch.write_text(_line(rows), encoding="utf-8")
    scratch.replace(target)


def _rows(recorded: Mapping[Reader, Recorded], reached: Reached) -> list[Any]:
    return [*reached.items(), *([*reader, *entry] for reader, entry in recorded.items())]


def _line(rows: Sequence[Any]) -> str:
    return json.dumps(rows, separators=(",", ":")) + "\n"


def load(path: str | Path) -> tuple[dict[Reader, Recorded], dict[int, int]]:
    """Read a file that an earlier run may have left.

    Returns:
        What it holds, and how far that is (`Reached`), which an earlier version did not say; nothing where there is no
        sound file.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read()
            # A last line that is not whole is of a micro-batch whose commit is younger than the file.
            return _parse(str(path), data.rpartition(b"\n")[0] or data)
    except (OSError, ValueError):
        return {}, {}


class _Watched(Generic[Content]):
    """Reads a file, again only when it has been replaced; one that is not there says nothing."""

    def __init__(self, path: str | None, parse: Callable[[str], Content], nothing: Content) -> None:
        self._path, self._parse, self._nothing = path, parse, nothing
        self._seen: tuple[int, int] | None = None
        self._content = nothing

    def read(self) -> Content:
        if self._path is None:
            return self._nothing
        try:
            facts = Path(self._path).stat()
        except FileNotFoundError:
            return self._nothing
        # Each write makes a new file, so the inode and the time together identify it.
        seen = (facts.st_ino, facts.st_mtime_ns)
        if seen != self._seen:
            self._content, self._seen = self._parse(self._path), seen
        return self._content


class FeedbackFile:
    """Reads what has been recorded.

    Args:
        path: of the file; None where the source is used alone.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._seen: int | None = None
        self._at = 0
        self.recorded: dict[Reader, Recorded] = {}
        """The recorded position of each reader by the last call of `news`; one mapping until the file is begun anew."""

    def news(self) -> tuple[dict[Reader, Recorded], bool]:
        """What was recorded since the last call, and whether it is all there is: the file was begun anew.

        Raises:
            ValueError: the file is not there, or not what the sink writes.
        """
        if self._path is None:
            return {}, False
        try:
            with Path(self._path).open("rb") as file:
                return self._read_on(file)
        except FileNotFoundError as error:
            problem = f"option feedback.path: {self._path} is gone; start the query again, its sink writes another one"
            raise ValueError(problem) from error

    def _read_on(self, file: Any) -> tuple[dict[Reader, Recorded], bool]:
        """Take in the lines that are new; all of them where the file is another one."""
        facts = os.fstat(file.fileno())
        is_another = self._seen is None or facts.st_ino != self._seen or facts.st_size < self._at
        if is_another:
            self._seen, self._at, self.recorded = facts.st_ino, 0, {}
        file.seek(self._at)
        data = file.read()
        lines, end, _ = data.rpartition(b"\n")
        if not self._at and not end:
            raise ValueError(f"option feedback.path: {self._path} is not a feedback file; delete it")
        if not end:
            return {}, is_another
        new, _ = _parse(str(self._path), lines)
        self.recorded |= new
        self._at += len(lines) + 1
        return new, is_another


class AwaitedFile:
    """Reads of which partitions a report is awaited; of none where nothing sound says so.

    Args:
        path: of the file; None where there is none.
    """

    def __init__(self, path: str | None) -> None:
        self._file: _Watched[frozenset[TopicPartition]] = _Watched(path, _parse_awaited, frozenset())

    def read(self) -> frozenset[TopicPartition]:
        """Return the partitions."""
        return self._file.read()


class PausedFile:
    """Reads which brokers no records are to be read of; none where nothing sound says so.

    Args:
        path: of the file; None where there is none.
    """

    def __init__(self, path: str | None) -> None:
        self._file: _Watched[frozenset[int]] = _Watched(path, _parse_paused, frozenset())

    def on(self, broker: int) -> bool:
        """Whether the reading of a broker is paused."""
        return bool(self._file.read() & {broker, ALL})


def write_paused(path: str | Path, brokers: Iterable[int]) -> None:
    """Replace the file of the brokers that no records are to be read of."""
    _replace(path, sorted(brokers))


def _parse_paused(path: str) -> frozenset[int]:
    try:
        return frozenset(int(broker) for broker in json.loads(Path(path).read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        return frozenset()  # a file that another version left; the job writes it anew at its start


def _parse_awaited(path: str) -> frozenset[TopicPartition]:
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        return frozenset(TopicPartition(str(topic), int(partition)) for topic, partition in rows)
    except (ValueError, TypeError):
        return frozenset()  # a file that another version left; the comparison writes it anew


def _parse(path: str, lines: bytes) -> tuple[dict[Reader, Recorded], dict[int, int]]:
    try:
        rows = [row for line in lines.splitlines() for row in json.loads(line)]
        recorded = {
            Reader(isolation, broker, topic, partition): Recorded(position, topic_id, ReadEvent(event), *rest)
            for isolation, broker, topic, partition, position, topic_id, event, *rest in (
                row for row in rows if len(row) != _PLACE
            )
        }
        return recorded, {int(isolation): int(place) for isolation, place in (r for r in rows if len(r) == _PLACE)}
    except (ValueError, TypeError) as error:
        raise ValueError(f"option feedback.path: {path} is not a feedback file ({error}); delete it") from error
