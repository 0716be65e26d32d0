"""The outages of brokers: from the first replica that is absent until all are back, and audited where they were late.

What is told of an outage is one story: that it began, that it became worse, and what came of it. This module says which
outages there are, and in which words; when that is worth a message, the alerts decide (`parallax.alerting.conditions`).

Pure: what the clock says and what audits came to in, outages and words out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from parallax.audit.result import Result
from parallax.counts import agreed, counted, named
from parallax.guard.clock import Absence, Late, Presence, Unclear
from parallax.model import TopicPartition
from parallax.moments import time_text

TOLD_MS = 180_000
"""For how long what came of an outage is told: Prometheus and its alerts have to see it before the alert ends."""

OVER = "Its replicas are back, and audited where they were late; what an audit finds has messages of its own."
"""What the end of an outage means where nobody knows more."""


@dataclass(frozen=True, slots=True)
class Outage:
    """One broker whose replicas are absent, or were.

    Attributes:
        since_ms: when the first of them was last known to lack nothing, milliseconds since 1970 UTC.
        away_ms: since when one of them does not answer; None where all do.
        absent: its replicas that were absent at some time of it.
        late: those that copied something too late.
        verdicts: what audits came to on the partitions of these.
        ended_ms: when all were back, and audited where they were late; None while it lasts.
    """

    broker: int
    since_ms: int
    away_ms: int | None = None
    absent: frozenset[TopicPartition] = frozenset()
    late: frozenset[TopicPartition] = frozenset()
    verdicts: Mapping[TopicPartition, Result] = field(default_factory=dict)
    ended_ms: int | None = None

    @property
    def topics(self) -> str:
        """The first few of its topics, and how many more there are."""
        return named(place.topic for place in self.absent | self.late)

    @property
    def outcome(self) -> str:
        """What came of it, in sentences; while it lasts, what its end will mean."""
        if self.ended_ms is None:
            return OVER
        if not self.late:
            return (
                "It was back in time: none of its replicas has copied anything that may have been cleaned before. "
                "Nothing is to be done."
            )
        differ = [place for place in self.late if self.verdicts.get(place) is Result.DIVERGED]
        agree = [place for place in self.late if self.verdicts.get(place) is Result.CONSISTENT]
        left = len(self.late) - len(differ) - len(agree)
        said = [f"It was back too late, and {counted(len(self.late), 'replica')} copied something late."]
        if differ:
            whose = named(f"{place.topic}-{place.partition}" for place in differ)
            said.append(
                f"An audit found that {counted(len(differ), 'partition')} {agreed(len(differ), 'differs', 'differ')} "
                f"({whose}); each finding has a message of its own."
            )
        if agree:
            said.append(
                f"An audit compared {counted(len(agree), 'partition')} since and found no difference: nothing was lost "
                "there that shows."
            )
        if left:
            said.append(
                f"{counted(left, 'replica')} {agreed(left, 'is', 'are')} not there any more: taken off the broker, or "
                f"{agreed(left, 'its topic was', 'their topics were')} deleted or re-created."
            )
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class Change:
    """What has changed of an outage.

    Attributes:
        was: before; None where it has just begun.
        now: as it is.
    """

    was: Outage | None
    now: Outage


class Outages:
    """Follows the outages of all brokers."""

    def __init__(self) -> None:
        self._known: dict[int, Outage] = {}

    def see(self, absent: Iterable[Absence], late: Iterable[Late], now_ms: int) -> list[Change]:
        """Take in who is absent, and who is late, at a moment (milliseconds since 1970 UTC).

        Returns:
            The outages that began or ended, or whose broker went away or answers again.
        """
        standing: dict[int, list[Absence]] = {}
        for one in absent:
            if one.presence is not Presence.COPYING and one.unclear is not Unclear.REASSIGNED:
                standing.setdefault(one.broker, []).append(one)
        copied: dict[int, list[Late]] = {}
        for copy in late:
            if copy.is_of_an_outage:
                copied.setdefault(copy.broker, []).append(copy)
        changes = []
        for broker in standing.keys() | copied.keys() | self._known.keys():
            was = self._known.get(broker)
            now = _next(broker, was, standing.get(broker, ()), copied.get(broker, ()), now_ms)
            if now is None:
                del self._known[broker]
                continue
            self._known[broker] = now
            if was is None or (was.ended_ms, was.away_ms) != (now.ended_ms, now.away_ms):
                changes.append(Change(was, now))
        return sorted(changes, key=lambda change: change.now.broker)

    def audited(self, verdicts: Mapping[TopicPartition, Result]) -> None:
        """Take in what an audit came to on partitions; comes before `see` is told who is late no longer."""
        for broker, one in self._known.items():
            mine = {place: result for place, result in verdicts.items() if place in one.late}
            if one.ended_ms is None and mine:
                self._known[broker] = replace(one, verdicts={**one.verdicts, **mine})

    @property
    def all(self) -> tuple[Outage, ...]:
        """Those that last, and those that ended a moment ago, the oldest first."""
        return tuple(sorted(self._known.values(), key=lambda one: (one.since_ms, one.broker)))


def _next(
    broker: int, was: Outage | None, absent: Collection[Absence], late: Collection[Late], now_ms: int
) -> Outage | None:
    if not absent and not late:
        if was is None or (was.ended_ms is not None and now_ms - was.ended_ms > TOLD_MS):
            return None
        return was if was.ended_ms is not None else replace(was, ended_ms=now_ms, away_ms=None)
    if was is None or was.ended_ms is not None:
        since = min([one.since_ms for one in absent] + [one.absence.since_ms for one in late])
        was = Outage(broker, since)
    is_away = any(one.presence is Presence.AWAY for one in absent)
    since_away = min((one.since_ms for one in absent if one.presence is Presence.AWAY), default=now_ms)
    places = frozenset(one.place for one in late)
    return replace(
        was,
        away_ms=(since_away if was.away_ms is None else was.away_ms) if is_away else None,
        absent=was.absent | {one.place for one in absent},
        late=was.late | places,
    )


def headline(outage: Outage, absent: Collection[Absence], late: Collection[Late], now: float) -> str:
    """How far an outage is, with the first topics: ``Broker 2 is away (orders, payments)``.

    Args:
        outage: that lasts, or has ended.
        absent: the replicas of all brokers that are absent.
        late: those that copied something too late.
        now: seconds since 1970 UTC.
    """
    return f"Broker {outage.broker} {_stage(outage, absent, late, now)} ({outage.topics})"


def _stage(outage: Outage, absent: Collection[Absence], late: Collection[Late], now: float) -> str:
    if copied := _late(outage, late):
        is_added = all(one.absence.presence is Presence.COPYING for one in copied)
        return "copied its log late" if is_added else "was back too late"
    if outage.ended_ms is not None:
        return "was back too late" if outage.late else "is back"
    if any(_has_passed(one, now) for one in _absent(outage, absent)):
        return "has been away for too long"
    return "is away" if outage.away_ms is not None else "is behind"


def outage_in_words(outage: Outage, absent: Collection[Absence], late: Collection[Late], now: float) -> str:
    """What an outage means at a moment, and what to do, in sentences; it stays the same as long as nothing happens.

    Args:
        outage: that lasts, or has ended.
        absent: the replicas of all brokers that are absent.
        late: those that copied something too late.
        now: seconds since 1970 UTC.
    """
    if outage.ended_ms is not None:
        return outage.outcome
    mine, copied = _absent(outage, absent), _late(outage, late)
    passed = [one for one in mine if _has_passed(one, now)]
    left = [one.bound_ms for one in mine if one.unclear is None and one.bound_ms is not None and one not in passed]
    said = []
    if copied:
        said.append(
            f"{_named(copied)} copied something late, and may have missed tombstones or end markers that were cleaned "
            "before. The job audits that by itself (audit.unread_delay_s); this ends with that audit."
        )
    if passed:
        said.append(
            f"What {_named(passed)} {agreed(len(passed), 'lacks', 'lack')} may be gone from the others since "
            f"{time_text(min(one.bound_ms or 0 for one in passed))}: its delete.retention.ms, less "
            "guard.clock_skew_ms, has passed. Have it copy those partitions anew before it leads, or wait for the "
            "audit that the job makes once it is back."
        )
    if left:
        # A replica that follows from afar has a bound that moves with each look.
        until = "" if outage.away_ms is None else f" until {time_text(min(left))}"
        said.append(
            f"What {_named([one for one in mine if one not in passed])} {agreed(len(left), 'lacks', 'lack')} is kept"
            f"{until} (delete.retention.ms, less guard.clock_skew_ms). After that, tombstones and end markers may be "
            "gone from the others. Bring it back before; where that will not do, raise delete.retention.ms and pause "
            "the cleaning of its topics."
        )
    return " ".join(said) or f"{counted(len(mine), 'replica')} of it {agreed(len(mine), 'lacks', 'lack')} something."


def _absent(outage: Outage, absent: Collection[Absence]) -> list[Absence]:
    return [one for one in absent if one.broker == outage.broker and one.place in outage.absent]


def _late(outage: Outage, late: Collection[Late]) -> list[Late]:
    return [one for one in late if one.broker == outage.broker and one.is_of_an_outage]


def _has_passed(one: Absence, now: float) -> bool:
    return one.unclear is None and not one.is_held and one.bound_ms is not None and one.bound_ms <= now * 1000


def _named(replicas: Collection[Absence] | Collection[Late]) -> str:
    """How many replicas, and of which topics."""
    topics = named(one.place.topic for one in replicas)
    return f"{counted(len(replicas), 'replica')} of it ({topics})"


__all__ = ["OVER", "TOLD_MS", "Change", "Outage", "Outages", "headline", "outage_in_words"]
