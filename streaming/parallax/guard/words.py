"""Texts for people about absent and late replicas, and about topics that cannot be watched."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from parallax.counts import agreed, counted, named
from parallax.guard.absences import Absence, Absences, Late, Presence, Unclear
from parallax.guard.holds import EventKind
from parallax.model import TopicPartition
from parallax.moments import span_text, time_text
from parallax.shell import ANYWHERE, Shell

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
    EventKind.IN_SYNC: "nothing is to be held for a topic: its replicas are in sync again, or it is gone",
    EventKind.ASKED_HOLD: "somebody asks the guard to hold a topic",
    EventKind.ASKED_RELEASE: "somebody asks the guard to hold a topic no longer",
}
"""By kind of an event of the guard, what the log says of it."""
NO_TIME = "delete.retention.ms less guard.clock_skew_ms leaves no time"
"""Why a bound may be earlier than the time when a replica went away."""
UNCLEAR = {
    Unclear.BEFORE_WATCH: "what the others had when it was last seen is not recorded",
    Unclear.COPYING: "it copies what was written before it was watched",
    Unclear.SETTINGS: "the settings of the topic cannot be read",
    Unclear.NO_TIME: NO_TIME,
    Unclear.REASSIGNED: "it was taken off the broker and given back",
    Unclear.SLOW: "the copy by a repair took longer than half of delete.retention.ms",
}
_MISSED = "tombstones or end markers"
_TOPICS = 3
"""How many topics a printed command names at most."""
_UNTOLD = "nobody can tell whether in time"


def in_words(absence: Absence, now: float) -> str:
    """Return a phrase about an absent replica: how it is absent, and until when what it lacks is kept elsewhere.

    Args:
        absence: the replica's absence.
        now: seconds since 1970 UTC.
    """
    said = PRESENCE[absence.presence]
    if absence.unclear is Unclear.REASSIGNED:
        return f"copied again since {time_text(absence.since_ms)}: {UNCLEAR[Unclear.REASSIGNED]}"
    if absence.is_held:
        return f"{said}; nothing is cleaned, so what it lacks is kept until that ends"
    if absence.bound_ms is None:
        why = UNCLEAR[absence.unclear or Unclear.BEFORE_WATCH]
        return f"{said}; until when it misses nothing is unknown: {why}"
    if absence.leaves_no_time:
        return f"{said}; what it lacks may have been cleaned from the first moment on: {NO_TIME}"
    if absence.bound_ms <= now * 1000:
        return f"{said}; what it lacks was kept until {time_text(absence.bound_ms)}, and may be gone by now"
    return f"{said}; what it lacks is kept until {time_text(absence.bound_ms)} at least"


def summed(absences: Absences, now: float) -> str:
    """Return one sentence about all absent replicas together; empty if there are none.

    Args:
        absences: the absent replicas, as the clock knows them.
        now: seconds since 1970 UTC.
    """
    parts = []
    held = sum(one.is_held for one in absences.absent)
    known = [one for one in absences.absent if one.unclear is None and not one.is_held]
    bounds = [one.bound_ms for one in known if one.bound_ms is not None]
    passed = sum(bound <= now * 1000 for bound in bounds)
    if absences.absent:
        parts.append(f"{len(absences.absent):,} of broker {_brokers(absences)}")
    if len(bounds) > passed:
        first = min(bound for bound in bounds if bound > now * 1000)
        some = len(bounds) - passed
        whose = "they" if some == len(absences.absent) else f"{some:,} of them"
        parts.append(f"what {whose} lack is kept until {time_text(first)} at least")
    if passed:
        parts.append(f"what {passed:,} of them lack may be gone by now")
    if held:
        parts.append(f"nothing is cleaned of what {held:,} of them lack")
    if len(bounds) + held < len(absences.absent):
        parts.append(f"of {len(absences.absent) - len(bounds) - held:,} it is not known until when it is kept")
    return "; ".join(parts)


def late_in_words(
    late: Collection[Late], audits_at: Mapping[TopicPartition, float] | None, now: float, shell: Shell = ANYWHERE
) -> str:
    """Return a sentence that names the late replicas and says when the job audits them; empty if there are none.

    Args:
        late: the late replicas.
        audits_at: by partition that the job can audit, when it does, seconds since 1970 UTC; None if it audits no
            partition because of late replicas.
        now: seconds since 1970 UTC.
        shell: how commands name the job.
    """
    anew = [one for one in late if one.absence.unclear is Unclear.REASSIGNED]
    passed = [one for one in late if one.absence.unclear is None]
    slow = [one for one in late if one.absence.unclear is Unclear.SLOW]
    untold: dict[Unclear, list[Late]] = {}
    for one in late:
        if one.absence.unclear not in (None, Unclear.REASSIGNED, Unclear.SLOW):
            untold.setdefault(one.absence.unclear, []).append(one)
    parts = []
    if passed:
        copied = f"copied {agreed(len(passed), 'its log', 'their logs')} late"
        parts.append(f"{_replicas(passed)} {copied} and may have missed {_MISSED} that had been cleaned by then")
    if slow:
        parts.append(f"{_replicas(slow)} may have missed {_MISSED}: {UNCLEAR[Unclear.SLOW]}")
    for unclear, those in untold.items():
        parts.append(f"{_replicas(those)} came back, and {_UNTOLD}: {UNCLEAR[unclear]}")
    if anew:
        whose = named(_replica(one) for one in anew)
        since = time_text(min(one.absence.since_ms for one in anew))
        who = "its replica was" if len(anew) == 1 else "those replicas were"
        parts.append(f"{whose} copied again since {since}: {who} taken off the broker and given back")
    if not late:
        return ""
    return f"{'; '.join(parts)}; {audit_in_words({one.place for one in late}, audits_at, now, shell)}"


def late_in_short(late: Late) -> str:
    """Return a phrase about one late replica: that it copied late, or that nobody knows whether it did."""
    if late.absence.unclear is Unclear.REASSIGNED:
        return f"copied again since {time_text(late.absence.since_ms)}: {UNCLEAR[Unclear.REASSIGNED]}"
    if late.absence.unclear is Unclear.SLOW:
        return f"it may have missed {_MISSED}: {UNCLEAR[Unclear.SLOW]}"
    if late.absence.unclear is not None:
        return f"it came back, and {_UNTOLD}: {UNCLEAR[late.absence.unclear]}"
    return f"it copied its log late and may have missed {_MISSED}"


def _replica(late: Late) -> str:
    return f"{late.place.name} on broker {late.broker}"


def _replicas(late: Collection[Late]) -> str:
    whose = named(_replica(one) for one in late)
    return whose if len(late) == 1 else f"{counted(len(late), 'replica')} ({whose})"


def unwatched_in_words(topics: Mapping[str, int], *, is_audited: bool = True) -> str:
    """Return a sentence about topics that keep tombstones too short a time to be watched, and what to set.

    It is empty if there are none.

    Args:
        topics: by name of such a topic, its ``delete.retention.ms``.
        is_audited: whether the job audits what was copied late (``audit.unread_delay_s``).
    """
    if not topics:
        return ""
    kept = span_text(max(topics.values()) / 1000)
    audits = who_audits("what it copied", is_audited=is_audited)
    return (
        f"{named(topics)} {agreed(len(topics), 'keeps', 'keep')} deletions for {kept} at most (delete.retention.ms), "
        "no longer than clocks may be apart (guard.clock_skew_ms): nobody can tell whether a broker was back in time, "
        f"so no alert of its absence is raised, and {audits}; set delete.retention.ms to several minutes at least, or "
        "guard.clock_skew_ms to how far the brokers' clocks really are apart"
    )


def who_audits(them: str, *, is_audited: bool) -> str:
    """Return a clause that says whether the job audits what was read or copied too late.

    Args:
        them: what would be audited, e.g. ``the partitions``.
        is_audited: whether ``audit.unread_delay_s`` is not 0.
    """
    if is_audited:
        return f"the job audits {them} by itself"
    return f"the job does not audit {them} for that (audit.unread_delay_s is 0)"


def audit_in_words(
    places: Collection[TopicPartition],
    audits_at: Mapping[TopicPartition, float] | None,
    now: float,
    shell: Shell = ANYWHERE,
) -> str:
    """Return a clause that says which audit ends it that something of partitions was read or copied too late, and when.

    Args:
        places: the partitions.
        audits_at: by partition that the job can audit, when it does, seconds since 1970 UTC; None if it audits no
            partition for this reason.
        now: seconds since 1970 UTC.
        shell: how commands name the job.
    """
    them = "the partitions" if len(places) > 1 else "the partition"
    if audits_at is None:
        return (
            f"{who_audits(them, is_audited=False)}: until it does (set that, or audit.interval_s), this stays; "
            f"to compare {them} now, and only print what is found: {audit_command(places, shell)}"
        )
    audits = who_audits(them, is_audited=True)
    times = [audits_at[place] for place in places if place in audits_at]
    if not times:
        return f"{audits} once all replicas are back and have copied what they lack"
    first = min(times)
    if first <= now:
        return f"{audits} now"
    when = time_text(first * 1000)
    return f"{audits} {f'from {when} on' if len(places) > 1 else f'at {when}'}"


def audit_command(places: Collection[TopicPartition], shell: Shell) -> str:
    """The shell command that compares some partitions now. If they are many, it compares their topics, or all topics.

    Args:
        places: the partitions; not empty.
        shell: how the command names the job.
    """
    topics = sorted({place.topic for place in places})
    one = ("--partition", next(iter(places)).partition) if len(places) == 1 else ()
    wanted = [word for topic in topics for word in ("--topic", topic)] if len(topics) <= _TOPICS else []
    return shell.parallax("audit", *wanted, *one)


def _brokers(absences: Absences) -> str:
    return ", ".join(map(str, sorted({one.broker for one in absences.absent})))


__all__ = [
    "NO_TIME",
    "PRESENCE",
    "SAID",
    "UNCLEAR",
    "audit_command",
    "audit_in_words",
    "in_words",
    "late_in_short",
    "late_in_words",
    "summed",
    "unwatched_in_words",
    "who_audits",
]
