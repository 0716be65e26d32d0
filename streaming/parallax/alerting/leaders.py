"""Which replicas may lead, by all that the job knows at one moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from parallax.alerting.blind import hiding
from parallax.alerting.snapshot import Replica, Snapshot
from parallax.counts import counted
from parallax.findings.finding import Finding
from parallax.findings.leading import Fitness, May
from parallax.guard.absences import Absences
from parallax.guard.clock import Absence, Late
from parallax.model import TopicPartition
from parallax.repair.leading import by_clock, fitness, uncompared


def may_lead(snapshot: Snapshot) -> Mapping[TopicPartition, Mapping[int, Fitness]]:
    """Say of each replica of each partition that is watched whether it may lead (`parallax.findings.leading`)."""
    return snapshot.once(_may_lead)


def _may_lead(snapshot: Snapshot) -> Mapping[TopicPartition, Mapping[int, Fitness]]:
    findings: dict[TopicPartition, list[Finding]] = {}
    for finding in snapshot.findings.standing:
        findings.setdefault(finding.place, []).append(finding)
    clock = _by_place(snapshot.absences)
    found = {}
    for place, brokers in snapshot.assigned.items():
        whole = uncompared(snapshot.coverage.get(place))
        if waiting := snapshot.findings.pending.get(place, 0):
            whole.append(f"{counted(waiting, 'suspect')} without verdict")
        single = by_clock(place, clock[place], snapshot.taken_at) if place in clock else {}
        for broker in brokers:
            if (hidden := hiding(snapshot, (*place, broker))) is not None:
                single.setdefault(broker, []).append(hidden.here)
        found[place] = fitness(brokers, findings.get(place, ()), whole, single)
    return found


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


def unsafe_elections(snapshot: Snapshot) -> list[Replica]:
    """The replicas that must not lead, and that the next election of preferred leaders makes leaders."""
    return snapshot.once(_unsafe_elections)


def _unsafe_elections(snapshot: Snapshot) -> list[Replica]:
    places = {finding.place for finding in snapshot.findings.standing}
    told = may_lead(snapshot)
    found = []
    for place in sorted(places & told.keys() & snapshot.preferred.keys() & snapshot.leadership.keys()):
        first, (leader, isr) = snapshot.preferred[place], snapshot.leadership[place]
        fitness = told[place].get(first)
        if first != leader and first in (isr or ()) and fitness is not None and fitness.may is May.UNSAFE:
            found.append((*place, first))
    return found


__all__ = ["may_lead", "unsafe_elections"]
