"""When the readers of a deleted topic are forgotten, so that topics with a short life leave nothing behind.

The brokers are asked about a reader by its topic's name as long as it is known (`parallax.source.survey`). Their answer
says that a topic is gone; brokers that do not answer, or refuse, say nothing. A broker's metadata may still be old. So
readers are kept for some hours; a topic that is back by then goes on where it was. A later topic of that name is read
from its beginning, as any new one.

Pure: takes what is recorded, and when; says which topics to forget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from parallax.model import ReadEvent
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader

KEPT_S = 6 * 3600.0
"""How long the readers of a deleted topic are known; a start begins it again."""


class Deleted:
    """The topics that brokers reported as deleted to some reader, and since when.

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
        """The readers to forget now: every reader of their topic has long been answered that the topic is deleted.

        A reader with another answer keeps its topic: it may be back, and others' brokers may be away. The last readers
        stay, for a job that knows none takes itself for new (``read.starting_offsets``).

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
