"""Decides whether a broker may be restarted: who would lead its partitions, and whether it is back in time. Pure.

Who leads during the restart is decided by Kafka's controller (``PartitionChangeBuilder.electLeader``):

1. the present leader, while it is in sync;
2. else the first replica of the assignment that is in sync;
3. else the first that is eligible (ELR, KIP-966);
4. else, if elections may be unclean, the first that is up.

If that one fails as well, the next one leads. Later an election of preferred leaders makes the first replica of the
assignment lead, once it is in sync. A restart is safe only if each broker that could lead may lead, and answers. And
the other brokers must keep the tombstones and end markers that the broker misses for longer than the outage takes.

That producers are refused meanwhile (``min.insync.replicas``) is another fact, which harms no replica. If all replicas
are in sync, no wait would change it, and the restart is safe: with two replicas and ``min.insync.replicas=2`` no broker
could ever be restarted otherwise. If another replica is behind, a wait changes it, and the answer is no until then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from parallax.counts import brokers_text, counted
from parallax.findings.leading import SAFE, Fitness, May, unknown
from parallax.guard.absences import leaves_no_time
from parallax.moments import span_text
from parallax.repair.leading import Led


@dataclass(frozen=True, slots=True)
class Outage:
    """A planned restart of one broker, with its times in milliseconds.

    Attributes:
        broker: the id of the broker that is to be restarted.
        takes_ms: how long at most the broker does not answer, or is behind the leaders.
        skew_ms: how far the brokers' clocks may be apart.
        look_ms: how long asking a replica for its offsets may take.
    """

    broker: int
    takes_ms: int
    skew_ms: int = 0
    look_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic that decide whether an outage is safe. A setting that is not known is None.

    Attributes:
        is_compacted: whether ``cleanup.policy`` contains ``compact``.
        retention_ms: ``delete.retention.ms``: for how long tombstones and end markers are kept.
        min_isr: ``min.insync.replicas``: with fewer replicas in sync, producers with ``acks=all`` are refused.
        is_unclean: ``unclean.leader.election.enable``: whether a replica that is not in sync may lead.
    """

    is_compacted: bool | None = None
    retention_ms: int | None = None
    min_isr: int | None = None
    is_unclean: bool | None = None


def heard(led: Led, silent: Mapping[int, str]) -> Led:
    """Return what is known of a partition once its replicas were asked: nobody can tell of one that does not answer.

    A broker that has just died is in sync by the metadata until its session ends.

    Args:
        led: who leads the partition, and which replicas may.
        silent: by broker whose replica does not answer, why; other brokers are missing.
    """
    dumb = {broker: unknown(f"it does not answer now ({why})") for broker, why in silent.items()}
    return replace(led, fitness={broker: one.also(dumb.get(broker, SAFE)) for broker, one in led.fitness.items()})


def elected(led: Led, broker: int) -> int | None:
    """Return the broker that leads a partition while another is away; None if no other is in sync or eligible (ELR).

    Args:
        led: who leads the partition now, with its replicas.
        broker: the broker that is away.
    """
    if led.leader != broker and led.leader in led.isr:
        return led.leader
    others = [one for one in led.replicas if one != broker]
    return next((one for among in (led.isr, led.elr) for one in others if one in among), None)


def may_stop(led: Led, topic: TopicSettings, outage: Outage) -> Fitness:
    """Return whether a planned outage of a broker is safe for one partition that it holds, and why not.

    If no other broker holds the partition, the outage is safe: no other replica can lead or differ, now or later.

    Args:
        led: who leads the partition, and which replicas may.
        topic: the settings of the partition's topic.
        outage: the planned outage.
    """
    if _is_alone(led, outage.broker):
        return SAFE
    found = _by_election(led, topic, outage.broker).also(_by_preference(led, outage.broker))
    return found.also(_by_producers(led, topic, outage.broker)).also(_by_clock(topic, outage))


def _is_alone(led: Led, broker: int) -> bool:
    return {*led.replicas} == {broker}


def _because(found: Fitness, text: str) -> Fitness:
    """The same judgement on a replica; its reasons follow the text that says when the replica leads."""
    return replace(found, why=(f"{text}: {' and '.join(found.why)}",)) if found.why else found


def _by_election(led: Led, topic: TopicSettings, broker: int) -> Fitness:
    """Whether the broker that leads meanwhile may, and each that leads if it fails as well."""
    if broker not in led.isr:
        return Fitness(May.UNSAFE, (f"broker {broker} has not caught up since it was away last",))
    first = elected(led, broker)
    if first in led.isr:
        verb = "leads on" if first == led.leader else "would lead"
        found = _because(led.fitness[first], f"broker {first} {verb}")
        for one in _next(led, {broker, first, led.replicas[0]}):
            found = found.also(_because(led.fitness[one], f"if broker {first} fails meanwhile, broker {one} may lead"))
        return found
    if first is not None:
        then = f"broker {first} would lead, which is eligible (ELR)"
    elif topic.is_unclean:
        then = "one would lead that lacks records (unclean.leader.election.enable)"
    else:
        then = "nobody could lead"
    return Fitness(May.UNSAFE, (f"no other replica is in sync: {then}",))


def _by_preference(led: Led, broker: int) -> Fitness:
    """Whether the preferred leader may lead: the next election of preferred leaders makes it one."""
    preferred = led.replicas[0]
    if preferred == elected(led, broker):
        return SAFE
    found = led.fitness[preferred]
    since = "once it is back" if preferred == broker else "once it is in sync" if preferred not in led.isr else ""
    text = f"{since}, an election makes" if since else "an election makes"
    return _because(found, f"{text} broker {preferred} the leader")


def _left(led: Led, broker: int) -> int:
    return len({*led.isr} - {broker})


def refuses(led: Led, topic: TopicSettings, broker: int) -> bool:
    """Return whether producers with ``acks=all`` are refused while a broker is away, and are not now.

    Args:
        led: who leads the partition now, with its replicas.
        topic: the settings of the partition's topic.
        broker: the broker that is away.
    """
    return topic.min_isr is not None and _left(led, broker) < topic.min_isr <= len(led.isr)


def _by_producers(led: Led, topic: TopicSettings, broker: int) -> Fitness:
    """Whether producers are refused that would not be if the restart waited for a replica that is behind."""
    if not refuses(led, topic, broker) or len(led.isr) >= len(led.replicas):
        return SAFE
    return Fitness(May.UNSAFE, (_refused(led, topic, broker),))


def _refused(led: Led, topic: TopicSettings, broker: int) -> str:
    left = counted(_left(led, broker), "replica")
    return f"producers with acks=all would be refused: {left} would be in sync, min.insync.replicas is {topic.min_isr}"


def _by_clock(topic: TopicSettings, outage: Outage) -> Fitness:
    """Whether it is back before anything that it lacks may be cleaned."""
    if topic.is_compacted is False:
        return SAFE
    if topic.is_compacted is None or topic.retention_ms is None:
        return unknown("how long the topic keeps tombstones and end markers is not known")
    left_ms = topic.retention_ms - outage.skew_ms
    if leaves_no_time(topic.retention_ms, outage.skew_ms, outage.look_ms) or outage.takes_ms >= left_ms:
        takes, keeps = span_text(outage.takes_ms / 1000), span_text(topic.retention_ms / 1000)
        why = f"an outage of {takes} is too long: tombstones and end markers are kept for {keeps} (delete.retention.ms)"
        return Fitness(May.UNSAFE, (f"{why}; hold the topic first (parallax guard hold)",))
    return SAFE


def notes(led: Led, topic: TopicSettings, broker: int) -> list[str]:
    """What `may_stop` does not say of a restart, as phrases; empty if it leaves nothing out.

    There is a phrase for each of these that is true, in this order:

    - Nobody leads during the restart.
    - Producers with ``acks=all`` are refused meanwhile, and `may_stop` does not say so.
    - If the broker that leads meanwhile fails as well, a replica may lead that lacks records.

    Args:
        led: who leads the partition, and which replicas may.
        topic: the settings of the partition's topic.
        broker: the id of the broker that is to be restarted.
    """
    if _is_alone(led, broker):
        return [f"nobody leads it meanwhile: no other broker holds it than broker {broker}"]
    is_said = _by_producers(led, topic, broker).may is not May.SAFE
    found = [_refused(led, topic, broker)] if refuses(led, topic, broker) and not is_said else []
    first = elected(led, broker)
    lacking = [one for one in led.replicas if one not in (broker, first)]
    if topic.is_unclean and first is not None and lacking and not _next(led, {broker, first}):
        found.append(f"if broker {first} fails meanwhile, {brokers_text(lacking)} may lead, and lacks records")
    return found


def _next(led: Led, away: Collection[int | None]) -> list[int]:
    """Who may be elected if these are away, without loss of what was acknowledged, in the order of the assignment."""
    left = [one for one in led.replicas if one not in away]
    return [one for one in left if one in led.isr] or [one for one in left if one in led.elr]


__all__ = ["Outage", "TopicSettings", "elected", "heard", "may_stop", "notes", "refuses"]
