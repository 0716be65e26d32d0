"""Decides when to forget the readers of a deleted topic, so that topics with a short life leave nothing behind.

As long as a reader is known, brokers are asked about its topic by name (`parallax.source.survey`). An answer may say
that the topic is gone. A broker that does not answer, or refuses, says nothing, and an answer may be old.

So readers are kept for some hours. If the topic is back by then, they go on at their positions. A topic that gets the
name later is read from its beginning, as any new one.

Pure: it gets the recorded states of readers and the time, and returns the readers to forget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from parallax.model import ReadEvent
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader

KEPT_S = 6 * 3600.0
"""For how many seconds the readers of a deleted topic are kept. A restart of the job begins the time again."""


class Deleted:
    """The topics that brokers reported as deleted, each with the time of the first report.

    Args:
        recorded: the recorded state of all readers.
        now_s: the present moment by the monotonic clock, in seconds.
    """

    def __init__(self, recorded: Mapping[Reader, Recorded], now_s: float) -> None:
        self._since: dict[str, float] = {}
        self.note(recorded, now_s)

    def note(self, moved: Mapping[Reader, Recorded], now_s: float) -> None:
        """Take in what a micro-batch has recorded: which topics are reported as deleted, and which exist again.

        Args:
            moved: the states that the micro-batch has recorded, by reader.
            now_s: the present moment by the monotonic clock, in seconds.
        """
        for reader, entry in moved.items():
            if entry.event is ReadEvent.TOPIC_DELETED:
                self._since.setdefault(reader.topic, now_s)
        for reader, entry in moved.items():
            if entry.event is not ReadEvent.TOPIC_DELETED:
                self._since.pop(reader.topic, None)

    def over(self, recorded: Mapping[Reader, Recorded], now_s: float) -> set[Reader]:
        """The readers to forget now: all readers of each topic that was reported as deleted more than `KEPT_S` ago.

        If one reader of a topic has another state, all are kept: the topic may be back, and other brokers may be away.
        If the query would have no reader left, none is forgotten. Otherwise it would take itself for a new query, and
        begin at ``read.starting_offsets``.

        Args:
            recorded: the recorded state of all readers.
            now_s: the present moment by the monotonic clock, in seconds.
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
