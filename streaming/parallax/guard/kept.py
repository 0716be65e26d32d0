"""Makes the bound of an absent replica later while the other replicas' cleaners are paused. Pure.

A *paused* cleaner begins no pass over the topic, so it removes nothing. If a cleaner paused before the bound, it had
not yet removed anything that the absent replica lacks. So the bound moves on as long as the cleaners of all other
replicas are paused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from parallax.guard.absences import Absence
from parallax.guard.known import Partition, Retentions
from parallax.guard.pauses import GAP_MS, Paused, Pauses, Span
from parallax.model import TopicPartition


class _Kept(NamedTuple):
    """The pauses that began before the bound of one absent replica, when nothing that it lacks was gone.

    Attributes:
        lacks_from: the offset below which the absent replica has everything.
        retention_ms: the largest ``delete.retention.ms`` by which a bound was judged here.
        since: by broker that began its pause in time: when the pause began, and the look that showed it to be in time.
    """

    topic_id: str
    lacks_from: int
    retention_ms: int
    since: dict[int, tuple[int, int]]


class Kept:
    """Remembers which brokers' cleaners are paused, and computes how that moves the bounds of absent replicas.

    Args:
        metadata_ms: how old the metadata of a look may be.
    """

    def __init__(self, metadata_ms: int) -> None:
        self._metadata_ms = metadata_ms
        self._pauses: dict[str, Pauses] = {}
        self._kept: dict[tuple[TopicPartition, int], _Kept] = {}

    def see(self, look: Paused) -> None:
        """Update the known pauses by a look, which says on which brokers one topic's cleaner is paused."""
        self._pauses.setdefault(look.topic, Pauses()).see(look)

    def knows(self, topic: str) -> bool:
        """Whether any look has said which brokers' cleaners are paused for a topic."""
        return topic in self._pauses

    def keep(self, known: Partition, absence: Absence, in_force: Retentions) -> None:
        """Remember, for an absent replica, the cleaners' pauses that began before the replica's bound.

        When they began, nothing that the replica lacks was gone. They stay remembered if the bound becomes earlier
        because a reading of a log no longer counts. They are forgotten if the replica lacks more than before, or if
        another topic has taken the name.

        Args:
            known: what is known of the partition.
            absence: the absence of one of its replicas.
            in_force: the values of ``delete.retention.ms`` that its topic had.
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
        """Forget recently seen pauses of a partition, because its leader or leader epoch has changed.

        Looks shortly before such a change may show answers of a broker that no longer led. So they do not prove that a
        pause began before the bound.

        Args:
            place: the partition.
            seen_ms: when the last look under the old leader was, milliseconds since 1970 UTC.
        """
        sure_ms = seen_ms - self._metadata_ms
        for key, kept in self._kept.items():
            if key[0] == place:
                sure = {b: one for b, one in kept.since.items() if one[1] <= sure_ms}
                self._kept[key] = kept._replace(since=sure)

    def doubt_since(self, topic: str, lowered_ms: int, retention_ms: int) -> None:
        """Forget pauses that began after ``delete.retention.ms`` was lowered: the true bound may be earlier.

        Pauses stay for an absence whose bound was computed from the new retention, or from a lower one. So the end of a
        hold, which lowers the retention from a high value to the old one, changes nothing.

        Args:
            topic: the topic.
            lowered_ms: since when the lower value may be in force, milliseconds since 1970 UTC.
            retention_ms: the lower ``delete.retention.ms``.
        """
        for key, kept in self._kept.items():
            if key[0].topic == topic and retention_ms < kept.retention_ms:
                sure = {b: one for b, one in kept.since.items() if one[0] <= lowered_ms}
                self._kept[key] = kept._replace(since=sure)

    def reach(self, absence: Absence, replicas: Iterable[int]) -> Span | None:
        """Return the time span in which the cleaners of all other replicas are paused, by the remembered pauses.

        It begins when the last of these cleaners had paused, and ends when the first was last seen paused. None if the
        cleaner of some other replica is not paused, or paused only after the absent replica's bound.

        Args:
            absence: the absence of one replica.
            replicas: the brokers that hold its partition.
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
        """Return an absence with the later bound that follows from paused cleaners; unchanged if they do not move it.

        Args:
            absence: the absence, with the bound that it has without pauses.
            replicas: the brokers that hold its partition.
            now_ms: when the last look at any topic or replica was, milliseconds since 1970 UTC.
        """
        if absence.bound_ms is None:
            return absence
        reach = self.reach(absence, replicas)
        if reach is None:
            return absence
        return replace(absence, bound_ms=max(absence.bound_ms, reach.until_ms), is_held=goes_on(reach, now_ms))

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forget everything about partitions that are not among the given ones."""
        topics = {place.topic for place in places}
        self._kept = {key: one for key, one in self._kept.items() if key[0] in places}
        self._pauses = {topic: one for topic, one in self._pauses.items() if topic in topics}


def goes_on(span: Span, now_ms: int) -> bool:
    """Whether a pause of cleaners still lasts, so far as looks show.

    Args:
        span: the pause.
        now_ms: when the last look at any topic or replica was, milliseconds since 1970 UTC.
    """
    return span.is_open and now_ms - span.until_ms <= GAP_MS


__all__ = ["Kept", "goes_on"]
