"""When the readers of a deleted topic are forgotten, so that topics which live shortly leave nothing behind.

A reader is asked for by its topic's name as long as it is known (`parallax.source.survey`). What says that a topic is
gone is the answer to that: brokers that do not answer, or refuse, say nothing. A broker may be behind with its metadata
all the same, so that readers are kept for some hours; one that is back by then goes on where it was. A topic of that
name that comes later is read from its beginning, as any other that is new.

Pure: told what is recorded, and when; says which topics to forget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from parallax.model import ReadEvent
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader

KEPT_S = 6 * 3600.0
"""How long the readers of a deleted topic are known; a start begins it again."""


class Deleted:
    """The topics of which some reader was told that they are deleted, since when.

    Args:
        recorded: what is recorded of all readers.
        now_s: by the monotonic clock, in seconds.
    """

    def __init__(self, recorded: Mapping[Reader, Recorded], now_s: float) -> None:
        self._since: dict[str, float] = {}
        self.note(recorded, now_s)

    def note(self, moved: Mapping[Reader, Recorded], now_s: float) -> None:
        """Take in what a micro-batch has recorded."""
        for reader, entry in moved.items():
            if entry.event is ReadEvent.TOPIC_DELETED:
                self._since.setdefault(reader.topic, now_s)
        for reader, entry in moved.items():
            if entry.event is not ReadEvent.TOPIC_DELETED:
                self._since.pop(reader.topic, None)

    def over(self, recorded: Mapping[Reader, Recorded], now_s: float) -> set[Reader]:
        """The readers to forget now: of topics that all who read them have been told are deleted, for long enough.

        One reader that was told something else keeps its topic: that may be back, and others' brokers may be away. The
        last readers stay, for a job that knows none takes itself for new (``read.starting_offsets``).

        Args:
            recorded: what is recorded of all readers.
            now_s: as `note` takes it.
        """
        due = {topic for topic, since in self._since.items() if now_s - since >= KEPT_S}
        if not due:
            return set()
        for topic in due:
            del self._since[topic]
        gone = due - set(_alive(recorded))
        found = {reader for reader in recorded if reader.topic in gone}
        return found if len(found) < len(recorded) else set()


def _alive(recorded: Mapping[Reader, Recorded]) -> Iterable[str]:
    return (reader.topic for reader, entry in recorded.items() if entry.event is not ReadEvent.TOPIC_DELETED)


__all__ = ["KEPT_S", "Deleted"]
