"""Sentences about a partition's past absences and holds, for the explanation of a finding.

They prove nothing about who is right. An absence only explains how replicas may have come to differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from parallax.config import GuardSettings, ReadSettings
from parallax.guard.absences import Absence, Presence
from parallax.guard.clock import Clock
from parallax.guard.holds import Event, EventKind
from parallax.guard.late import load
from parallax.guard.looks import Look
from parallax.guard.pauses import Hold
from parallax.guard.pauses import on_record as holds_on_record
from parallax.guard.recall import OF_A_LOOK
from parallax.guard.table import GuardTable
from parallax.guard.words import NO_TIME, PRESENCE, UNCLEAR, late_in_short
from parallax.model import TopicPartition
from parallax.moments import milliseconds, time_text
from parallax.views.event_log import EventLogError
from parallax.views.looked import asker, within

_BEFORE = timedelta(days=1)
"""How long before its first suspicion absences can explain a finding."""
_AFTER = timedelta(minutes=1)
"""A difference may be suspected before the next look shows that a replica is back."""
_LEAD_MS = 900_000
"""How much of the time before an absence a clock needs. A partition at rest has a row every five minutes."""
_TICK_MS = 5_000
_MOST_EVENTS = 20


@dataclass(frozen=True, slots=True)
class Past:
    """One time span in which a replica was absent; times in milliseconds since 1970 UTC.

    Attributes:
        absence: the absence as the clock knew it last before the replica copied anything: all that it lacked, and the
            bound of that. What is left later is kept for longer, which says nothing of what it has copied.
        began_ms: when it began.
        ended_ms: the first look at which the replica was back; None if there is none.
        is_late: whether the replica copied something after its bound, or while no bound was known.
        seen: in which ways it was absent, in the order in which looks saw them.
    """

    absence: Absence
    began_ms: int
    ended_ms: int | None
    is_late: bool
    seen: tuple[Presence, ...]


def on_record(
    storage: str, place: TopicPartition, suspected_at: datetime, read: ReadSettings, guard: GuardSettings
) -> list[str]:
    """Return what is recorded about absences of a partition's replicas and about the guard's holds.

    Each element is a sentence for people: first the absences in the order in which they began, then late copies, then
    the newest events of the guard.

    Args:
        storage: ``storage.path``.
        place: the partition.
        suspected_at: when a finding about the partition was first suspected. What happened later is left out, because
            it cannot explain the finding.
        read: the job's settings for reading, which say how long a look may take.
        guard: the job's settings for the guard, which its clock needs.
    """
    now_ms = time.time() * 1000
    clock = Clock(guard.clock_skew_ms, read.request_timeout_ms, read.metadata_refresh_ms + 2 * read.request_timeout_ms)
    said: list[str] = []
    try:
        looks = _looks(storage, place, suspected_at + _AFTER)
    except (DeltaError, OSError, pa.ArrowException):
        said.append("The recorded progress cannot be read: who was absent before is not known.")
        looks = []
    try:
        events = GuardTable(storage, create=False).news()
    except EventLogError:
        events = []  # no guard ever held anything here
    holds = [hold for hold in holds_on_record(events) if hold.topic == place.topic]
    said += [_of_past(one, now_ms) for one in history(looks, clock, holds)]
    said += [
        f"Of the replica of broker {one.broker}, as seen at {time_text(one.at_ms)}: {late_in_short(one)}. `parallax "
        f"lead {place.topic}` says which audit ends that doubt."
        for one in load(storage) or ()
        if one.place == place
    ]
    since_ms = milliseconds(suspected_at - _BEFORE)
    return said + list(_of_guard([e for e in events if e.at_ms >= since_ms], place))[-_MOST_EVENTS:]


def history(looks: Sequence[Look], clock: Clock, holds: Sequence[Hold] = ()) -> list[Past]:
    """Return the absences of one partition's replicas, in the order in which they began.

    Args:
        looks: what brokers answered about the replicas, in the order of time.
        clock: a clock that has observed nothing yet; it works out the absences.
        holds: the guard's holds of the topic, as recorded.
    """
    first = next((look.at_ms for look in looks if set(look.isr) < set(look.replicas)), None)
    if first is None:
        return []
    began: dict[int, int] = {}
    whole: dict[int, Absence] = {}
    late: set[int] = set()
    seen: dict[int, dict[Presence, None]] = {}
    silent: dict[int, int] = {}
    past: list[Past] = []
    for tick in _ticks(look for look in looks if look.at_ms >= first - _LEAD_MS):
        at_ms = tick[-1].at_ms
        # The absences of the last tick count with the hold that began after it.
        latest = max((hold for hold in holds if hold.from_ms <= at_ms), key=lambda hold: hold.from_ms, default=None)
        clock.paused([latest.shown(at_ms)] if latest is not None else [])
        late |= {one.broker for one in clock.observe(tick)}
        clock.audited(tick[-1].place, at_ms + 1)  # so the next late one is reported as well
        for look in tick:
            if look.high_watermark is not None:
                silent.pop(look.broker, None)
            else:
                silent.setdefault(look.broker, look.at_ms)
        now = {one.broker: one for one in clock.absences()}
        for broker in whole.keys() - now.keys():
            past.append(Past(whole.pop(broker), began.pop(broker), at_ms, broker in late, tuple(seen.pop(broker))))
            late.discard(broker)
        # It counts as absent once the leader has taken it out of those in sync: it may have been silent before.
        began |= {broker: silent.get(broker, at_ms) for broker in now.keys() - whole.keys()}
        for broker, one in now.items():
            seen.setdefault(broker, {})[one.presence] = None
            if broker not in whole or not whole[broker].has_copied(one):
                whole[broker] = one
    past += [Past(one, began[broker], None, broker in late, tuple(seen[broker])) for broker, one in whole.items()]
    return sorted(past, key=lambda one: (one.began_ms, one.absence.broker))


def _ticks(looks: Iterable[Look]) -> Iterator[list[Look]]:
    """Looks that belong together: one at each replica, all within some seconds."""
    tick: list[Look] = []
    for look in looks:
        if tick and (look.at_ms - tick[0].at_ms > _TICK_MS or look.broker in {one.broker for one in tick}):
            yield tick
            tick = []
        tick.append(look)
    if tick:
        yield tick


def _looks(storage: str, place: TopicPartition, until: datetime) -> list[Look]:
    asked = asker(storage)
    if asked is None:
        return []
    lacking = "isr IS NOT NULL AND coalesce(array_length(isr), 0) < array_length(replicas)"
    begin = f"SELECT min(observed_at) AS at FROM progress WHERE {within(place, until - _BEFORE, until)} AND {lacking}"  # noqa: S608 - our own words
    (first,) = pa.table(asked.execute(begin))["at"].to_pylist()
    if first is None:
        return []
    columns, since = ", ".join(f'"{name}"' for name in OF_A_LOOK), first - timedelta(milliseconds=_LEAD_MS)
    query = f"SELECT {columns} FROM progress WHERE {within(place, since, until)} ORDER BY observed_at"  # noqa: S608 - our own words
    rows: list[dict[str, Any]] = pa.table(asked.execute(query)).to_pylist()
    not_after = milliseconds(until)
    return [Look.of_row(row, not_after) for row in rows]


def _of_past(past: Past, now_ms: float) -> str:
    """A time in which a replica was away; in the present only what holds still at a time, ms since 1970 UTC."""
    was = past.absence
    who = f"Broker {was.broker} was {', then '.join(PRESENCE[how] for how in past.seen)}"
    # It went away between two looks.
    before = f" at the latest (it lacked nothing at {time_text(was.since_ms)})" if was.since_ms < past.began_ms else ""
    until = "on" if past.ended_ms is None else f"to {time_text(past.ended_ms)}"
    when = f"from {time_text(past.began_ms)}{before} {until}"
    if was.bound_ms is None:
        kept = f"until when what it lacked was kept is not known ({UNCLEAR[was.unclear]})" if was.unclear else ""
    elif was.leaves_no_time or (was.bound_ms <= past.began_ms and not was.is_held):
        kept = f"what it lacked may have been cleaned from the first moment on ({NO_TIME})"
        kept += ", and it copied records" if past.is_late else ""
    elif past.ended_ms is None and was.bound_ms > now_ms:
        kept = f"what it lacks is kept until {time_text(was.bound_ms)} at least"
    else:
        kept = f"what it lacked was kept until {time_text(was.bound_ms)} at least"
        if past.ended_ms is not None:
            if past.is_late:
                kept += ", and it copied records after that"
            elif was.is_held:
                kept += ", and it was back while nothing was cleaned yet"
            elif past.ended_ms < was.bound_ms:
                kept += ", and it was back before"
            else:
                kept += ", and it copied nothing that may have been cleaned before"
    return f"{who} {when}: {kept}."


def _of_guard(events: Sequence[Event], place: TopicPartition) -> Iterator[str]:
    """The holds of a topic, from their intent to their end, and why there was none."""
    for event in (event for event in events if event.topic == place.topic):
        own = sorted({one.broker for one in event.absent if one.partition == place.partition})
        whom = f" for broker {', '.join(map(str, own))}" if own else ""
        at = time_text(event.at_ms)
        if event.kind is EventKind.HELD:
            what = "tombstones and end markers are kept for longer" if event.level == 1 else "nothing is cleaned"
            yield f"The guard held the topic from {at} on ({what})."
        elif event.kind is EventKind.INTENDED and own:
            yield f"The guard began at {at} to hold the topic{whom}."
        elif event.kind in _ENDS:
            yield f"{_ENDS[event.kind]} at {at}{f' ({event.reason})' if event.reason else ''}."
        elif event.kind in (EventKind.REFUSED, EventKind.ADVISED):
            reason = event.reason.splitlines()[0] if event.kind is EventKind.REFUSED else "guard.mode is advise"
            yield f"The guard did not hold the topic{whom} at {at}: {reason}."


_ENDS = {
    EventKind.RELEASING: "The guard began to put its settings back",
    EventKind.OVERRULED: "Somebody else changed settings that the guard held",
    EventKind.ABANDONED: "The guard released a topic of this name that was deleted",
}


__all__ = ["Past", "history", "on_record"]
