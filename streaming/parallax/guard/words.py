"""What the clock says, in words for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from parallax.counts import counted
from parallax.guard.absences import Absences
from parallax.guard.clock import Absence, Late, Presence, Unclear
from parallax.guard.holds import EventKind
from parallax.model import TopicPartition
from parallax.moments import time_text

PRESENCE = {
    Presence.AWAY: "away",
    Presence.BEHIND: "behind",
    Presence.COPYING: "copying its log",
}
SAID = {
    EventKind.INTENDED: "the guard begins to hold settings of a topic while a replica is away",
    EventKind.SET: "the cluster has taken the settings that the guard holds",
    EventKind.HELD: "the guard holds a topic: every broker shows the settings",
    EventKind.RELEASING: "the guard puts settings of a topic back",
    EventKind.RELEASED: "the guard holds a topic no longer: its settings are as they were, or somebody else's",
    EventKind.OVERRULED: "somebody has changed a setting that the guard held; it is left so, and not held again",
    EventKind.ABANDONED: "the guard holds a topic no longer: it is gone, or was re-created",
    EventKind.REFUSED: "the guard does not hold a topic; parallax guard status says what to run",
    EventKind.ADVISED: "a topic should be held while a replica is away; parallax guard status says what to run",
    EventKind.IN_SYNC: "the replicas that a topic was held for are in sync again",
    EventKind.ASKED_HOLD: "somebody asks the guard to hold a topic",
    EventKind.ASKED_RELEASE: "somebody asks the guard to hold a topic no longer",
}
"""What the log says of an event of the guard."""
UNCLEAR = {
    Unclear.BEFORE_WATCH: "what the others had when it was last seen is not recorded",
    Unclear.COPYING: "it copies what was written before it was watched",
    Unclear.SETTINGS: "the settings of the topic cannot be read",
}


NO_TIME = "delete.retention.ms less guard.clock_skew_ms leaves no time"
"""Why a bound may lie before the time when a replica went away."""


def in_words(absence: Absence, now: float) -> str:
    """One phrase: how it is absent, and from when on what it lacks may be gone.

    Args:
        absence: of a replica.
        now: seconds since 1970 UTC.
    """
    said = PRESENCE[absence.presence]
    if absence.is_held:
        return f"{said}; nothing is cleaned, so what it lacks is kept until that ends"
    if absence.bound_ms is None:
        why = UNCLEAR[absence.unclear or Unclear.BEFORE_WATCH]
        return f"{said}; until when it misses nothing is unknown: {why}"
    if absence.bound_ms <= absence.since_ms:
        return f"{said}; what it lacks may have been gone from the beginning on: {NO_TIME}"
    if absence.bound_ms <= now * 1000:
        return f"{said}; what it lacks was kept until {time_text(absence.bound_ms)}, and may be gone by now"
    return f"{said}; what it lacks is kept until {time_text(absence.bound_ms)}"


def summed(absences: Absences, now: float) -> str:
    """One sentence on all that are absent, or nothing where nobody is; of late copies `late_in_words` tells.

    Args:
        absences: what the clock says.
        now: seconds since 1970 UTC.
    """
    parts = []
    held = sum(one.is_held for one in absences.absent)
    bounds = [one.bound_ms for one in absences.absent if one.bound_ms is not None and not one.is_held]
    passed = sum(bound <= now * 1000 for bound in bounds)
    if absences.absent:
        parts.append(f"{len(absences.absent):,} of broker {_brokers(absences)}")
    if len(bounds) > passed:
        first = min(bound for bound in bounds if bound > now * 1000)
        parts.append(f"what they lack is kept until {time_text(first)} at least")
    if passed:
        parts.append(f"what {passed:,} of them lack may be gone by now")
    if held:
        parts.append(f"nothing is cleaned of what {held:,} of them lack")
    if len(bounds) + held < len(absences.absent):
        parts.append(f"of {len(absences.absent) - len(bounds) - held:,} it is not known until when it is kept")
    return "; ".join(parts)


def late_in_words(late: Collection[Late], audits_at: Mapping[TopicPartition, float], now: float) -> str:
    """Which replicas have copied something too late, and when the job audits them; nothing where there is none.

    Args:
        late: those to tell of.
        audits_at: when the job audits each partition that it can audit, seconds since 1970 UTC.
        now: seconds since 1970 UTC.
    """
    if not late:
        return ""
    names = sorted(f"{one.place.topic}-{one.place.partition} on broker {one.broker}" for one in late)
    named = " and ".join([", ".join(names[:_NAMED]), *([f"{len(names) - _NAMED:,} more"] if names[_NAMED:] else [])])
    copied = (
        f"{named} copied its log" if len(late) == 1 else f"{counted(len(late), 'replica')} ({named}) copied their logs"
    )
    what = f"{copied} late and may have missed tombstones or end markers that had been cleaned by then"
    return f"{what}; {audit_in_words({one.place for one in late}, audits_at, now)}"


def audit_in_words(places: Collection[TopicPartition], audits_at: Mapping[TopicPartition, float], now: float) -> str:
    """When the job audits partitions with late copies, by itself; arguments as of `late_in_words`."""
    them = "the partitions" if len(places) > 1 else "the partition"
    times = [audits_at[place] for place in places if place in audits_at]
    if not times:
        return (
            f"the job audits {them} by itself once all replicas are back and have copied what they lack "
            "(with audit.unread_delay_s 0 only at audit.interval_s)"
        )
    first = min(times)
    when = "now" if first <= now else f"{'from' if len(places) > 1 else 'at'} {time_text(first * 1000)}"
    return f"the job audits {them} by itself {when}{' on' if len(places) > 1 else ''}"


_NAMED = 3
"""Late replicas that are named; of more, the others are counted."""


def _brokers(absences: Absences) -> str:
    return ", ".join(map(str, sorted({one.broker for one in absences.absent})))


__all__ = ["NO_TIME", "PRESENCE", "SAID", "UNCLEAR", "audit_in_words", "in_words", "late_in_words", "summed"]
