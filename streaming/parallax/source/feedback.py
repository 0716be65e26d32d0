"""The files that the driver writes for the sources: recorded positions, awaited partitions, and paused brokers.

A replica cannot be read twice with the same outcome. So the next read begins where the tables end, and not where the
last plan ended. The sink writes each reader's recorded position to the *feedback file* after its commit. Spark's
planning process reads the file before each plan.

Each line of the feedback file is a JSON array of what one micro-batch has recorded; the first line holds everything
recorded before. So for writer and reader, a micro-batch costs only as much as it has moved. Each line begins with a
checksum of itself and of the lines above, so that a garbled or missing line is noticed.

A line also has ``[isolation level, time]`` for each view: the time of the last commit to the view's table whose
positions the file includes. When a job starts, it reads later commits from the tables. The first line begins with
``[generation]``, a random word. It shows that the file was replaced, even if the new file has the inode of the old one.

A second file names the *awaited* partitions: the comparison waits for a report of their replicas, so their progress is
recorded at each tick. A third names the *paused* brokers, which are not to be read for now.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import structlog

from parallax.errors import one_line
from parallax.model import ReadEvent, TopicPartition
from parallax.source.offsets import Reader

log = structlog.get_logger(__name__)

Content = TypeVar("Content")

ALL = -1
"""Among the ids of paused brokers, this one means all brokers."""

_LONGEST, _TIMES = 10_000, 4
"""The file is replaced once it has got more entries than 10,000 and four for each reader."""

_GENERATION, _PLACE = 1, 2
"""How many values a row has that holds the generation, and one that holds an entry of `Reached`."""

_HEAD = len('12345678 [["0123456789abcdef"')
"""How many bytes at the beginning of a file show whether it is the same file."""

_FIRST = 0
"""The checksum before the first line."""


class Recorded(NamedTuple):
    """The position that the tables hold of one reader, and the event recorded there.

    Attributes:
        position: next offset to read.
        topic_id: id of the topic that the position belongs to; empty where it is not known.
        event: the event that was recorded last of the reader.
        batch: id of the micro-batch that recorded the position; -1 if it was recorded before the query started.
        epoch: leader epoch of the last batch below the position; -1 where it is not known.
    """

    position: int
    topic_id: str
    event: ReadEvent
    batch: int = -1
    epoch: int = -1


Reached = Mapping[int, int]
"""By isolation level, the time of the last commit to its view whose positions are included (`parallax.views.order`)."""


def write(path: str | Path, recorded: Mapping[Reader, Recorded], reached: Reached | None = None) -> None:
    """Replace the feedback file in one step: a process that reads it sees the old or the new file, never half of one.

    Args:
        path: path of the file.
        recorded: the recorded position of each reader.
        reached: by isolation level, the time of the last commit to the view's table whose positions are in
            ``recorded``; None if that is not known.
    """
    _begin(path, recorded, reached or {})


class Journal:
    """Writes the feedback file of one query: the query's sink adds a line to it after each micro-batch.

    Args:
        path: path of the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._appended = 0
        self._checksum: int | None = None

    def write(self, recorded: Mapping[Reader, Recorded], reached: Reached) -> None:
        """Replace the feedback file by one with a single line that holds all recorded positions.

        Args:
            recorded: the recorded position of each reader.
            reached: by isolation level, the time of the last commit to the view's table whose positions are in
                ``recorded``.
        """
        self._checksum = _begin(self._path, recorded, reached)
        self._appended = 0

    def append(self, moved: Mapping[Reader, Recorded], recorded: Mapping[Reader, Recorded], reached: Reached) -> None:
        """Add a line with the positions that one micro-batch has recorded.

        A process that reads the file takes in the whole line or nothing of it. If the file has become long, it is
        replaced by one with a single line.

        Args:
            moved: the positions that this micro-batch has recorded, by reader.
            recorded: the recorded positions of all readers, in case that the file is replaced.
            reached: by isolation level, the time of the last commit to the view's table whose positions are in
                ``recorded``.
        """
        self._appended += len(moved)
        is_long = self._appended > _LONGEST + _TIMES * len(recorded)
        if self._checksum is None or is_long or not self._path.exists():
            self.write(recorded, reached)
        elif moved:
            line, checksum = _line(_rows(moved, reached), self._checksum)
            self._checksum = None  # A line that is written in part is followed by none.
            with self._path.open("ab") as file:
                file.write(line)
            self._checksum = checksum


def write_awaited(path: str | Path, places: Iterable[TopicPartition]) -> None:
    """Replace the file that names the awaited partitions (`AwaitedFile` reads it).

    Args:
        path: path of the file.
        places: the partitions of which the comparison waits for a report.
    """
    _replace(path, json.dumps(sorted(places)).encode())


def _begin(path: str | Path, recorded: Mapping[Reader, Recorded], reached: Reached) -> int:
    """Replace the file; returns the checksum of its line."""
    line, checksum = _line([[secrets.token_hex(8)], *_rows(recorded, reached)], _FIRST)
    _replace(path, line)
    return checksum


def _replace(path: str | Path, data: bytes) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    scratch.write_bytes(data)
    scratch.replace(target)


def _rows(recorded: Mapping[Reader, Recorded], reached: Reached) -> list[Any]:
    return [*reached.items(), *([*reader, *entry] for reader, entry in recorded.items())]


def _line(rows: Sequence[Any], before: int) -> tuple[bytes, int]:
    """A line of the file, behind a line whose checksum is ``before``; returns it with its own checksum."""
    text = json.dumps(rows, separators=(",", ":")).encode()
    checksum = zlib.crc32(text, before)
    return b"%08x %s\n" % (checksum, text), checksum


def load(path: str | Path) -> tuple[dict[Reader, Recorded], dict[int, int]]:
    """Read the positions from the feedback file that an earlier run of the job has left.

    A damaged file is renamed to ``<name>.broken``.

    Args:
        path: path of the file.

    Returns:
        A tuple of two:

        - the recorded position of each reader; empty if there is no sound file;
        - by isolation level, the time of the last commit to the view's table that these positions include; empty if
          the file does not say.
    """
    try:
        data = Path(path).read_bytes()
        # A last line that is not whole is of a micro-batch whose commit is younger than the file.
        rows, _ = _unpack(str(path), data.rpartition(b"\n")[0] or data, _FIRST)
        return _parse(str(path), rows)
    except OSError:
        return {}, {}
    except ValueError as error:
        _set_aside(Path(path), error)
        return {}, {}


def _set_aside(path: Path, error: ValueError) -> None:
    broken = path.with_name(f"{path.name}.broken")
    try:
        path.replace(broken)
    except OSError as failure:
        error = ValueError(f"{error}; {one_line(failure)}")
    log.warning(
        "a damaged feedback file is set aside; positions are taken from the tables",
        set_aside_as=str(broken),
        error=one_line(error),
    )


class _Watched(Generic[Content]):
    """Reads a file, again only when it has been replaced; one that is not there says nothing."""

    def __init__(self, path: str | None, parse: Callable[[str], Content], nothing: Content) -> None:
        self._path, self._parse, self._nothing = path, parse, nothing
        self._seen: tuple[int, int, int] | None = None
        self._content = nothing

    def read(self) -> Content:
        if self._path is None:
            return self._nothing
        try:
            facts = Path(self._path).stat()
        except FileNotFoundError:
            return self._nothing
        # Each write makes a new file; an inode may be used again, at another time.
        seen = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if seen != self._seen:
            self._content, self._seen = self._parse(self._path), seen
        return self._content


class FeedbackFile:
    """Reads the feedback file: recorded positions, for the process that plans the source.

    Args:
        path: path of the file; None where the source is used without a sink, so that nothing is ever recorded.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._seen: tuple[int, bytes] | None = None
        self._at = 0
        self._checksum: int | None = _FIRST
        self.recorded: dict[Reader, Recorded] = {}
        """The recorded position of each reader by the last `news`; the same mapping until the file is replaced."""

    def news(self) -> tuple[dict[Reader, Recorded], bool]:
        """Read what was recorded since the last call of this method.

        Returns:
            A tuple: the new positions by reader, and whether the file was replaced since the last call. If it was, the
            positions are those of all readers, and the caller must forget all that it had before.

        Raises:
            ValueError: the file does not exist, or the sink did not write it.
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
        seen = facts.st_ino, file.read(_HEAD)
        is_another = seen != self._seen or facts.st_size < self._at
        if is_another:
            self._seen, self._at, self._checksum, self.recorded = seen, 0, _FIRST, {}
        file.seek(self._at)
        data = file.read()
        lines, end, _ = data.rpartition(b"\n")
        if not self._at and not end:
            raise ValueError(f"option feedback.path: {self._path} is not a feedback file; delete it")
        if not end:
            return {}, is_another
        rows, self._checksum = _unpack(str(self._path), lines, self._checksum)
        new, _ = _parse(str(self._path), rows)
        self.recorded |= new
        self._at += len(lines) + 1
        return new, is_another


class AwaitedFile:
    """Reads the file that names the *awaited* partitions: the comparison waits for a report of their replicas.

    As long as a partition is in the file, the progress of its replicas is recorded at each tick, even if nothing has
    changed.

    Args:
        path: path of the file; None without one, and then no partition is awaited.
    """

    def __init__(self, path: str | None) -> None:
        self._file: _Watched[frozenset[TopicPartition]] = _Watched(path, _parse_awaited, frozenset())

    def read(self) -> frozenset[TopicPartition]:
        """The partitions whose progress the comparison waits for; empty if the file is missing or damaged."""
        return self._file.read()


class PausedFile:
    """Reads the file in which the job names the brokers whose reading it has paused.

    Args:
        path: path of the file; None without one, and then no broker is paused.
    """

    def __init__(self, path: str | None) -> None:
        self._file: _Watched[frozenset[int]] = _Watched(path, _parse_paused, frozenset())

    def on(self, broker: int) -> bool:
        """Whether the file says not to read this broker for now; False if it is missing or damaged."""
        return bool(self._file.read() & {broker, ALL})


def write_paused(path: str | Path, brokers: Iterable[int]) -> None:
    """Replace the file that names the brokers that are not to be read for now (`PausedFile` reads it).

    Args:
        path: path of the file.
        brokers: their ids; `ALL` among them means all brokers.
    """
    _replace(path, json.dumps(sorted(brokers)).encode())


def _parse_paused(path: str) -> frozenset[int]:
    try:
        return frozenset(int(broker) for broker in json.loads(Path(path).read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError):
        return frozenset()  # a file that another version left; the job writes a new one at its start


def _parse_awaited(path: str) -> frozenset[TopicPartition]:
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        return frozenset(TopicPartition(str(topic), int(partition)) for topic, partition in rows)
    except (ValueError, TypeError, RecursionError):
        return frozenset()  # a file that another version left; the comparison writes a new one


def _unpack(path: str, lines: bytes, before: int | None) -> tuple[list[Any], int | None]:
    """The rows of some lines, and the checksum of the last line.

    Args:
        path: path of the file.
        lines: whole lines.
        before: the checksum of the line before them; `_FIRST` if there is none, None in a file of an earlier version.

    Raises:
        ValueError: a line is garbled, or one before it is missing.
    """
    rows: list[Any] = []
    for number, line in enumerate(lines.splitlines()):
        if before == _FIRST and not number and line.startswith(b"["):
            before = None
        said, text = (b"", line) if before is None else line.split(b" ", 1) if b" " in line else (line, b"")
        if before is not None:
            before = zlib.crc32(text, before)
            if said != b"%08x" % before:
                raise ValueError(f"option feedback.path: {path} is damaged: a line is garbled or missing; delete it")
        try:
            rows += json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise _no_feedback(path, error) from error
    return rows, before


def _parse(path: str, rows: Iterable[Any]) -> tuple[dict[Reader, Recorded], dict[int, int]]:
    recorded: dict[Reader, Recorded] = {}
    reached: dict[int, int] = {}
    try:
        for row in rows:
            if len(row) == _PLACE:
                reached[int(row[0])] = int(row[1])
            elif len(row) != _GENERATION:
                isolation, broker, topic, partition, position, topic_id, event, *rest = row
                entry = Recorded(position, topic_id, ReadEvent(event), *rest)
                reader = Reader(isolation, broker, topic, partition)
                _check_types(reader, entry)
                recorded[reader] = entry
    except (ValueError, TypeError, LookupError) as error:
        raise _no_feedback(path, error) from error
    return recorded, reached


def _check_types(reader: Reader, entry: Recorded) -> None:
    """Refuse an entry that no sink writes, because a file of an earlier version has no checksum."""
    numbers = reader.isolation, reader.broker, reader.partition, entry.position, entry.batch, entry.epoch
    if any(type(number) is not int for number in numbers) or entry.position < 0:
        raise ValueError("a number is none")
    if not isinstance(reader.topic, str) or not isinstance(entry.topic_id, str):
        raise TypeError("a text is none")


def _no_feedback(path: str, error: Exception) -> ValueError:
    return ValueError(f"option feedback.path: {path} is not a feedback file ({error}); delete it")
