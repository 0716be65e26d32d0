"""When each broker's cleaner was paused for a topic, as looks at the topic's settings show. Pure.

A *paused* cleaner begins no pass over the topic. It is paused by two settings: a dirty ratio of 1, which no log
exceeds, and the largest ``max.compaction.lag.ms``, which no lag reaches. While all cleaners are paused, nothing is
removed, so bounds of absent replicas move (docs/contribute/theory.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from parallax.guard.holds import LAG, RATIO, Event, EventKind
from parallax.guard.seen import TopicSeen

GAP_MS = 30_000
"""A pause counts as interrupted between two looks that are further apart than this; milliseconds."""


class Paused(NamedTuple):
    """What one look at a topic's settings says: which brokers' cleaners are paused for it.

    Times are in milliseconds since 1970 UTC.

    Attributes:
        topic_id: Kafka's id of the topic that was looked at.
        brokers: ids of the brokers whose settings show that their cleaner begins no pass.
        began_ms: when the look began.
        ended_ms: when the last answer had come.
        since: by broker, since when its cleaner has been paused, by the table ``guard_events``. A broker without an
            entry counts as paused since this look.
    """

    topic: str
    topic_id: str
    brokers: frozenset[int]
    began_ms: int
    ended_ms: int
    since: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Span:
    """One pause: a time span in which a broker's cleaner began no pass over a topic.

    Attributes:
        from_ms: a time at which the pause had begun already.
        until_ms: when the last look began that showed the pause.
        is_open: whether the newest look showed the pause.
    """

    from_ms: int
    until_ms: int
    is_open: bool = True


class Pauses:
    """The last pause of each broker's cleaner for one topic, as looks showed them."""

    def __init__(self) -> None:
        self.topic_id = ""
        self.spans: dict[int, Span] = {}

    def see(self, look: Paused) -> None:
        """Update the pauses by a look at the topic's settings.

        If another topic has taken the name, the earlier pauses are forgotten.
        """
        if look.topic_id != self.topic_id:
            self.topic_id, self.spans = look.topic_id, {}
        for broker, span in self.spans.items():
            if broker not in look.brokers:
                self.spans[broker] = Span(span.from_ms, span.until_ms, is_open=False)
        for broker in look.brokers:
            known = self.spans.get(broker)
            if known is not None and known.is_open and look.began_ms - known.until_ms <= GAP_MS:
                self.spans[broker] = Span(known.from_ms, max(known.until_ms, look.began_ms))
            else:
                self.spans[broker] = Span(look.since.get(broker, look.ended_ms), look.began_ms)


class Hold(NamedTuple):
    """A recorded time span in which the guard held a topic so that nothing was cleaned (level 2).

    Attributes:
        brokers: the brokers that showed the hold's settings when it began.
        lag: the guard's own value of ``max.compaction.lag.ms``.
        from_ms: when every broker showed the settings, milliseconds since 1970 UTC.
        until_ms: when the guard began to put the settings back, milliseconds since 1970 UTC; None while the topic is
            held.
    """

    topic: str
    topic_id: str
    brokers: tuple[int, ...]
    lag: str
    from_ms: int
    until_ms: int | None

    def shown(self, at_ms: int) -> Paused:
        """Return what a look at the topic would have shown at a given time.

        While the topic is held, the hold's brokers are paused; at other times no broker is.

        Args:
            at_ms: the time, milliseconds since 1970 UTC.
        """
        is_held = self.from_ms <= at_ms and (self.until_ms is None or at_ms < self.until_ms)
        brokers = frozenset(self.brokers) if is_held else frozenset()
        return Paused(self.topic, self.topic_id, brokers, at_ms, at_ms, dict.fromkeys(self.brokers, self.from_ms))


def on_record(events: Iterable[Event]) -> list[Hold]:
    """Return the time spans of holds at level 2 (nothing is cleaned) from recorded events.

    A hold that somebody overruled is left out.

    Args:
        events: all events of the table ``guard_events``, in order.
    """
    found: dict[str, Hold] = {}
    for event in events:
        known = found.get(event.hold_id)
        if event.kind is EventKind.HELD and event.level == 2 and event.shown and known is None:
            lag = next((change.ours for change in event.changes if change.name == LAG), "")
            found[event.hold_id] = Hold(event.topic, event.topic_id, event.shown, lag, event.at_ms, None)
        elif known is not None and event.kind is EventKind.RELEASING and known.until_ms is None:
            found[event.hold_id] = known._replace(until_ms=event.at_ms)
        elif known is not None and event.kind in (EventKind.OVERRULED, EventKind.ABANDONED) and known.until_ms is None:
            del found[event.hold_id]
    return list(found.values())


class PauseWatch:
    """Finds out from looks at a topic which brokers' cleaners are paused, and since when.

    If brokers still show the settings of a hold from before this process, their pause began with that hold.

    Args:
        events: all events of the table ``guard_events``.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._before = {hold.topic: hold for hold in on_record(events) if hold.until_ms is None}

    def of(self, topic: str, seen: TopicSeen, began_ms: int, ended_ms: int) -> Paused:
        """Return which brokers' cleaners are paused for a topic, by one look at it.

        Args:
            topic: the topic's name.
            seen: what its brokers showed.
            began_ms: when the look began, milliseconds since 1970 UTC.
            ended_ms: when the last answer had come, milliseconds since 1970 UTC.
        """
        paused = frozenset(b for b in seen.settings if is_paused(seen, b))
        before = self._before.pop(topic, None)
        since: dict[int, int] = {}
        if before is not None and before.topic_id == seen.topic_id:
            # Only the guard writes this value, and it has not written another one since, by its record.
            still = [b for b in paused & set(before.brokers) if seen.settings[b][LAG].own == before.lag]
            since = dict.fromkeys(still, before.from_ms)
        return Paused(topic, seen.topic_id, paused, began_ms, ended_ms, since)


def is_paused(seen: TopicSeen, broker: int) -> bool:
    """Whether the settings that ``broker`` shows for a topic pause its cleaner: it begins no pass over the topic.

    False if the broker does not show them.
    """
    shown = seen.settings.get(broker, {})
    if RATIO not in shown or LAG not in shown:
        return False
    return float(shown[RATIO].value) >= 1 and int(shown[LAG].value) >= 2**62


__all__ = ["GAP_MS", "Hold", "PauseWatch", "Paused", "Pauses", "Span", "is_paused", "on_record"]
