"""Whether a broker may be restarted now: who would lead its partitions, and whether it is back in time. Pure.

A broker that stops gives up its leadership to the first replica of the assignment that is in sync. When it is back, an
election of preferred leaders gives it what it is preferred for. All who lead then have to be safe. What it lacks has to
be kept by the others for longer than the outage takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from parallax.findings.grounds import in_words
from parallax.findings.leading import SAFE, Fitness, May, unknown
from parallax.guard.absences import leaves_no_time
from parallax.moments import span_text
from parallax.repair.leading import Led


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage that is planned.

    Attributes:
        broker: which is to be restarted.
        takes_ms: how long it does not answer, or is behind, at most.
        skew_ms: how far clocks may be apart.
        look_ms: how long a look at a replica may take.
    """

    broker: int
    takes_ms: int
    skew_ms: int = 0
    look_ms: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """How long a topic keeps tombstones and end markers.

    Attributes:
        is_compacted: whether anything is cleaned by key; None where that is not known.
        retention_ms: ``delete.retention.ms``; None where it is not known.
    """

    is_compacted: bool | None = None
    retention_ms: int | None = None


def elected(led: Led, broker: int) -> int | None:
    """Return who leads a partition while a broker is away; None if nobody can."""
    if led.leader != broker and led.leader in led.isr:
        return led.leader
    return next((one for one in led.replicas if one != broker and one in led.isr), None)


def may_stop(led: Led, kept: Kept, outage: Outage) -> Fitness:
    """Say whether an outage of a broker is safe for one partition that it holds.

    Args:
        led: who leads the partition, and who may.
        kept: how long its topic keeps tombstones and end markers.
        outage: what is planned.
    """
    return _by_election(led, outage.broker).also(_by_return(led, outage.broker)).also(_by_clock(kept, outage))


def _by_election(led: Led, broker: int) -> Fitness:
    """Whether the broker that leads meanwhile may."""
    behind = set(led.replicas) - set(led.isr)
    if broker in behind:
        return Fitness(May.UNSAFE, (f"broker {broker} has not caught up since it was away last",))
    first = elected(led, broker)
    if first is None:
        return Fitness(May.UNSAFE, ("no other replica is in sync: nobody could lead",))
    found = led.fitness[first]
    verb = "leads on" if first == led.leader else "would lead"
    return replace(found, why=tuple(f"broker {first} {verb}: {why}" for why in found.why))


def _by_return(led: Led, broker: int) -> Fitness:
    """Whether it may lead again when it is back and preferred; what is only in doubt was in doubt before."""
    is_preferred = led.replicas[:1] == (broker,)
    if not is_preferred or led.leader == broker or led.fitness[broker].may is not May.UNSAFE:
        return SAFE
    why = "; ".join(led.fitness[broker].why)
    return Fitness(May.UNSAFE, (f"once it is back, an election makes broker {broker} the leader: {why}",))


def _by_clock(kept: Kept, outage: Outage) -> Fitness:
    """Whether it is back before anything that it lacks may be cleaned."""
    if kept.is_compacted is False:
        return SAFE
    if kept.is_compacted is None or kept.retention_ms is None:
        return unknown("how long the topic keeps tombstones and end markers is not known")
    left_ms = kept.retention_ms - outage.skew_ms
    if leaves_no_time(kept.retention_ms, outage.skew_ms, outage.look_ms) or outage.takes_ms >= left_ms:
        takes, keeps = span_text(outage.takes_ms / 1000), span_text(kept.retention_ms / 1000)
        why = f"an outage of {takes} is too long: tombstones and end markers are kept for {keeps} (delete.retention.ms)"
        return Fitness(May.UNSAFE, (f"{why}; hold the topic first (parallax guard hold)",))
    return SAFE


def alone(led: Led, broker: int) -> str:
    """A note on who must not lead, and may if the next leader fails too."""
    first = elected(led, broker)
    left = [one for one in led.isr if one not in (broker, first)]
    wrong = [one for one in left if led.fitness.get(one, SAFE).may is May.UNSAFE]
    return f"if broker {first} fails meanwhile, {in_words(wrong)} may lead, and must not" if wrong else ""


__all__ = ["Kept", "Outage", "alone", "elected", "may_stop"]
