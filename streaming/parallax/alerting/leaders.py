"""Which replicas may become leader, by everything that the job knows at one moment. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum

from parallax.alerting.blind import Cause, alone, hiding
from parallax.alerting.snapshot import Replica, Snapshot
from parallax.findings import leading
from parallax.findings.finding import Finding, has_spread
from parallax.findings.leading import Fitness, May
from parallax.findings.shown import Shown
from parallax.guard.absences import Absence, Absences, Late
from parallax.model import TopicPartition
from parallax.repair.leading import ALONE, Doubts, by_clock

_OF_DOUBTS = (Cause.HANGING, Cause.FROZEN)
"""The causes that `Doubts` knows by itself."""


def may_lead(snapshot: Snapshot) -> Mapping[TopicPartition, Mapping[int, Fitness]]:
    """By partition and broker, whether that replica may lead, and if not, why (`parallax.findings.leading`).

    It has the partitions whose replicas are known.
    """
    return snapshot.once(_may_lead)


def _may_lead(snapshot: Snapshot) -> Mapping[TopicPartition, Mapping[int, Fitness]]:
    findings, clock = _standing(snapshot), _by_place(snapshot.absences)
    return {place: _of(snapshot, place, findings.get(place, ()), clock.get(place)) for place in snapshot.assigned}


def _standing(snapshot: Snapshot) -> dict[TopicPartition, list[Finding]]:
    """By partition that has any, the findings that are not over."""
    found: dict[TopicPartition, list[Finding]] = {}
    for finding in snapshot.findings.standing:
        found.setdefault(finding.place, []).append(finding)
    return found


def _of(
    snapshot: Snapshot, place: TopicPartition, findings: Collection[Finding], absences: Absences | None
) -> dict[int, Fitness]:
    single = {} if absences is None else by_clock(place, absences, snapshot.taken_at)
    brokers = snapshot.assigned[place]
    for broker in brokers:
        if (hidden := hiding(snapshot, (*place, broker), _OF_DOUBTS)) is not None:
            single.setdefault(broker, []).append(hidden.here)
    more = [ALONE] if place in alone(snapshot) else []
    pending = snapshot.findings.pending.get(place, 0)
    hanging = [one for one in snapshot.hanging if one.one.place == place]
    coverage = snapshot.coverage.get(place)
    made = Doubts.made(coverage, pending, single, more, findings, hanging, snapshot.findings.unconfirmed)
    return made.fitness(brokers, findings)


def _by_place(absences: Absences) -> dict[TopicPartition, Absences]:
    """The absent and late replicas of each partition that has any."""
    absent: dict[TopicPartition, list[Absence]] = {}
    late: dict[TopicPartition, list[Late]] = {}
    for one in absences.absent:
        absent.setdefault(one.place, []).append(one)
    for other in absences.late:
        late.setdefault(other.place, []).append(other)
    return {
        place: Absences(tuple(absent.get(place, ())), tuple(late.get(place, ())))
        for place in absent.keys() | late.keys()
    }


class Choice(IntEnum):
    """What is known of a replica that a finding has proven wrong. It leads, or an election would choose it."""

    LEADS = 0
    """It leads now."""
    WRONG = 1
    """It is proven wrong, and the next election of preferred leaders makes it the leader."""
    UNCONFIRMED = 2
    """That election makes it the leader. It may have been changed since it was proven wrong, e.g. by a repair."""


def unsafe_elections(snapshot: Snapshot) -> Mapping[Replica, Choice]:
    """The replicas that must not lead, and that lead or are chosen by the next election of preferred leaders.

    One that is chosen comes first in its partition's assignment, is in sync, and does not lead now. A finding has
    proven it wrong. The present leader does not show the same. If it does, as after an unclean election, no election
    changes what consumers get. Then only the finding is worth an alert.
    """
    return snapshot.once(_unsafe_elections)


def _unsafe_elections(snapshot: Snapshot) -> Mapping[Replica, Choice]:
    found: dict[Replica, Choice] = {}
    for place, findings in sorted(_standing(snapshot).items()):
        leader, isr = snapshot.leadership.get(place, (None, None))
        if leader is not None and leading.worst(_said(snapshot, findings, leader)) is May.UNSAFE:
            found[*place, leader] = Choice.LEADS
        first = snapshot.preferred.get(place)
        if first is None or first == leader or first not in (isr or ()) or first not in snapshot.assigned[place]:
            continue
        worse = [finding for finding in findings if _makes_worse(finding, first, leader)]
        if worse:
            is_wrong = leading.worst(_said(snapshot, worse, first)) is May.UNSAFE
            found[*place, first] = Choice.WRONG if is_wrong else Choice.UNCONFIRMED
    return found


def _said(snapshot: Snapshot, findings: Collection[Finding], broker: int) -> Iterable[Fitness]:
    """What some findings say of one replica."""
    return leading.may_lead([broker], findings, unconfirmed=snapshot.findings.unconfirmed).values()


def _makes_worse(finding: Finding, first: int, leader: int | None) -> bool:
    """Whether a finding has proven a replica wrong, and the present leader does not show the same."""
    if leading.may_lead([first], [finding])[first].may is not May.UNSAFE or has_spread(finding):
        return False
    shown = Shown.of(finding)
    return leader not in shown.showing_now and not (finding.exposed and leader == shown.leader)


__all__ = ["Choice", "may_lead", "unsafe_elections"]
