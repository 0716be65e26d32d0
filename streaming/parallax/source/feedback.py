"""The file by which the sink reports to the source what has been recorded.

A replica cannot be read twice with the same outcome, so what counts is what the tables hold, not what was planned. The
sink writes each reader's recorded position after its commit; the planning process reads the file before each plan.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from parallax.model import ReadEvent
from parallax.source.offsets import Reader


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


def write(path: str | Path, recorded: Mapping[Reader, Recorded]) -> None:
    """Replace the file at once; a reader sees the old or the new one, never half of it."""
    rows = [[*reader, *entry] for reader, entry in recorded.items()]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    scratch.write_text(json.dumps(rows, separators=(",", ":")), encoding="utf-8")
    scratch.replace(target)


def load(path: str | Path) -> tuple[dict[Reader, Recorded], int]:
    """Read a file that an earlier run may have left.

    Returns:
        What it holds, and when it was written (milliseconds since the epoch); nothing and 0 if there is no sound file.
    """
    try:
        return _parse(str(path)), Path(path).stat().st_mtime_ns // 1_000_000
    except (OSError, ValueError):
        return {}, 0


@dataclass
class FeedbackFile:
    """Reads the file, again only when it has been replaced.

    A file that is not there says nothing: positions are then those of the checkpoint.
    """

    path: str | None
    _seen: tuple[int, int] = (0, 0)
    _recorded: Mapping[Reader, Recorded] | None = None

    def read(self) -> Mapping[Reader, Recorded]:
        """Return the recorded position of each reader.

        Raises:
            ValueError: the file is not what the sink writes.
        """
        if self.path is None:
            return {}
        try:
            facts = Path(self.path).stat()
        except FileNotFoundError:
            return {}
        # Each write makes a new file, so the inode and the time together identify it.
        seen = (facts.st_ino, facts.st_mtime_ns)
        if self._recorded is None or seen != self._seen:
            self._recorded = _parse(self.path)
            self._seen = seen
        return self._recorded


def _parse(path: str) -> dict[Reader, Recorded]:
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        return {
            Reader(isolation, broker, topic, partition): Recorded(position, topic_id, ReadEvent(event), *rest)
            for isolation, broker, topic, partition, position, topic_id, event, *rest in rows
        }
    except (ValueError, TypeError) as error:
        raise ValueError(f"option feedback.path: {path} is not a feedback file ({error}); delete it") from error
