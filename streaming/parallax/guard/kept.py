"""For which absent replicas the others came to clean nothing before anything that these lack was gone. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from parallax.guard.absences import Absence
from parallax.guard.known import Partition, Retentions
from parallax.guard.pauses import GAP_MS, Paused, Pauses, Span
from parallax.model import TopicPartition


class _Kept(NamedTuple):
    """That nothing which a replica lacks was gone when others came to clean nothing.

    Attributes:
        retention_ms: by the largest of which that was judged.
        since: by broker, since when it cleans nothing, and the look by which that was seen to be early enough.
    """

    topic_id: str
    lacks_from: int
    retention_ms: int
    since: dict[int, tuple[int, int]]


class Kept:
    """Knows which replicas clean nothing, and what that is worth to those that are absent.

    Args:
        metadata_ms: how old the metadata of a look may be.
    """

    def __init__(self, metadata_ms: int) -> None:
        self._metadata_ms = metadata_ms
        self._pauses: dict[str, Pauses] = {}
        self._kept: dict[tuple[TopicPartition, int], _Kept] = {}

    def see(self, look: Paused) -> None:
        """Learn from a look whether a broker cleans a topic."""
        self._pauses.setdefault(look.topic, Pauses()).see(look)

    def knows(self, topic: str) -> bool:
        """Whether any look has reported pauses in the cleaning of a topic."""
        return topic in self._pauses

    def keep(self, known: Partition, absence: Absence, in_force: Retentions) -> None:
        """Put down that nothing which a replica lacks was gone yet when the others came to clean nothing.

        The bound may turn earlier afterwards, where what was read does not count any more; that stays so.

        Args:
            known: the partition.
            absence: of one of its replicas.
            in_force: retentions of its topic.
        """
        key = absence.place, absence.broker
        kept = self._kept.get(key)
        lacks_from = absence.lacks_from
        if kept is not None and (lacks_from is None or lacks_from < kept.lacks_from or kept.topic_id != known.topic_id):
            del self._kept[key]  # it lost what it had
        pauses = self._pauses.get(absence.place.topic)
        if lacks_from is None or absence.bound_ms is None or pauses is None or pauses.topic_id != known.topic_id:
            return
        retention = absence.retention_ms or 0
        smallest = in_force.smallest_since(absence.since_ms, known.seen_at_ms)
        if smallest is None or smallest < retention:
            return  # its bound is judged by what was in force before
        before = self._kept[key].since if key in self._kept else {}
        retention = max(retention, self._kept[key].retention_ms if before else 0)
        since = {b: (span.from_ms, known.seen_at_ms) for b, span in pauses.spans.items()}
        since = {b: one for b, one in since.items() if one[0] < absence.bound_ms}
        since |= {b: one for b, one in before.items() if b not in since or since[b][0] == one[0]}
        self._kept[key] = _Kept(known.topic_id, lacks_from, retention, since)

    def doubt(self, place: TopicPartition, seen_ms: int) -> None:
        """Another broker leads: what was put down shortly before may rest on what a deposed one said.

        Args:
            place: the partition.
            seen_ms: the last look at it before, milliseconds since 1970 UTC.
        """
        sure_ms = seen_ms - self._metadata_ms
        for key, kept in self._kept.items():
            if key[0] == place:
                sure = {b: one for b, one in kept.since.items() if one[1] <= sure_ms}
                self._kept[key] = kept._replace(since=sure)

    def doubt_since(self, topic: str, lowered_ms: int, retention_ms: int) -> None:
        """A lower retention may have been in force since a time: what began later may be judged by too late a bound.

        Not where that was judged by one as low: a hold that ends, and holds of two jobs, lower it from far above.

        Args:
            topic: the topic.
            lowered_ms: the time, milliseconds since 1970 UTC.
            retention_ms: the lower ``delete.retention.ms``.
        """
        for key, kept in self._kept.items():
            if key[0].topic == topic and retention_ms < kept.retention_ms:
                sure = {b: one for b, one in kept.since.items() if one[0] <= lowered_ms}
                self._kept[key] = kept._replace(since=sure)

    def reach(self, absence: Absence, replicas: Iterable[int]) -> Span | None:
        """The time for which none of the others began a pass, if nothing was gone when it began; None: no such time.

        Args:
            absence: of one replica.
            replicas: brokers that host its partition.
        """
        kept, pauses = self._kept.get((absence.place, absence.broker)), self._pauses.get(absence.place.topic)
        if kept is None or pauses is None or pauses.topic_id != kept.topic_id:
            return None
        spans = [(b, pauses.spans.get(b)) for b in replicas if b != absence.broker]
        own = [span for b, span in spans if span is not None and kept.since.get(b, (None,))[0] == span.from_ms]
        if not own or len(own) < len(spans):
            return None
        return Span(
            max(span.from_ms for span in own),
            min(span.until_ms for span in own),
            is_open=all(span.is_open for span in own),
        )

    def applied(self, absence: Absence, replicas: Iterable[int], now_ms: int) -> Absence:
        """An absence with the bound that it has because the others clean nothing; unchanged if that says nothing more.

        Args:
            absence: by the looks at its partition alone.
            replicas: brokers that host its partition.
            now_ms: the last look at anything, milliseconds since 1970 UTC.
        """
        if absence.bound_ms is None:
            return absence
        reach = self.reach(absence, replicas)
        if reach is None:
            return absence
        return replace(absence, bound_ms=max(absence.bound_ms, reach.until_ms), is_held=goes_on(reach, now_ms))

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forget everything but what concerns some partitions."""
        topics = {place.topic for place in places}
        self._kept = {key: one for key, one in self._kept.items() if key[0] in places}
        self._pauses = {topic: one for topic, one in self._pauses.items() if topic in topics}


def goes_on(span: Span, now_ms: int) -> bool:
    """Whether a pause still lasted at the last look at anything, a time in milliseconds since 1970 UTC."""
    return span.is_open and now_ms - span.until_ms <= GAP_MS


__all__ = ["Kept", "goes_on"]
