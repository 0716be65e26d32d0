"""Who may lead, by all that a job knows at one moment: findings, what was compared, the clock, and what is not seen."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parallax.alerting.leaders import Choice, may_lead, unsafe_elections
from parallax.alerting.state import MonitorState
from parallax.alerting.status import Watch
from parallax.findings.finding import evidence_of
from parallax.findings.happenings import FindingsStatus
from parallax.guard.absences import Absences
from parallax.model import FindingStatus, TopicPartition, UnknownReason
from parallax.repair.leading import ALONE
from parallax.views.pause import Pause
from tests.builders.absences import absence, late
from tests.builders.clock import Clock
from tests.builders.coverage import BROKERS, broker, progress
from tests.pages import shown_again
from tests.unit.alerting.monitored import Monitor
from tests.unit.alerting.reported import samples

PLACE = TopicPartition("orders", 0)


def words(monitor: Monitor) -> str:
    return " ".join(str(one.may) for _, one in sorted(may_lead(monitor.state.snapshot())[PLACE].items()))


def why(monitor: Monitor, broker: int) -> str:
    return may_lead(monitor.state.snapshot())[PLACE][broker].in_words


def led(monitor: Monitor, leader: int, *replicas: int, isr: tuple[int, ...] = BROKERS) -> None:
    rows = [progress(broker=b, leader=leader, isr=list(isr), replicas=list(replicas)) for b in BROKERS]
    monitor.state.update_progress(rows)


def found(monitor: Monitor) -> None:
    monitor.state.update_findings(FindingsStatus(open=(shown_again(),)))


def test_replicas_that_agree_may_lead_and_the_one_that_a_finding_proves_wrong_must_not(healthy: Monitor) -> None:
    assert words(healthy) == "safe safe safe"
    found(healthy)
    assert words(healthy) == "safe safe unsafe"
    assert samples(healthy.state)["replica_may_lead", ("orders", "0", "3", "unsafe")] == 1.0
    assert ("replica_may_lead", frozenset(("orders", "0", "3", "safe"))) not in samples(healthy.state)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (UnknownReason.RETENTION_GAP, "unknown unknown unknown"),
        (UnknownReason.SKIPPED, "unknown unknown unknown"),
        (UnknownReason.NOT_READ_YET, "safe safe safe"),
        (UnknownReason.DELETED_UNREAD, "safe safe safe"),
    ],
)
def test_what_lasts_without_verdict_leaves_it_open_and_what_passes_does_not(
    healthy: Monitor, reason: UnknownReason, expected: str
) -> None:
    healthy.compared(unknown={reason: (40, 7)})
    assert words(healthy) == expected


def test_nobody_can_tell_of_a_replica_that_is_absent_late_or_not_read(healthy: Monitor) -> None:
    away = absence(1)
    healthy.state.update_absences(Absences((away,), (late(replace(away, broker=2)),)))
    assert words(healthy) == "unknown unknown safe"
    assert "it copied its log late" in why(healthy, 2)
    healthy.state.update_absences(Absences())
    healthy.state.update_paused({3: Pause(healthy.clock.now, "ann", "disk")})
    assert words(healthy) == "safe safe unknown"
    healthy.state.update_paused({})
    healthy.state.update_findings(FindingsStatus(pending={PLACE: 2}))
    assert why(healthy, 1) == "unknown (2 suspects are being checked: ask again in a minute)"


def test_of_a_replica_that_alone_is_watched_nobody_can_tell_whether_it_may_lead() -> None:
    clock = Clock()
    monitor = Monitor(clock, MonitorState(clock, brokers=[1]), Watch())
    monitor.started()
    monitor.state.update_progress([progress(broker=1), progress("whole", broker=1, replicas=[1])])
    monitor.compared(topic="whole", brokers=[broker(1)])
    found = may_lead(monitor.state.snapshot())
    assert (str(found[PLACE][1].may), ALONE in found[PLACE][1].in_words) == ("unknown", True)
    assert str(found[TopicPartition("whole", 0)][1].may) == "safe", "there is no other"


def test_an_election_that_would_make_a_wrong_replica_the_leader_is_told_of(healthy: Monitor) -> None:
    found(healthy)
    for leader, replicas, isr, expected in (
        (1, (3, 1, 2), BROKERS, {("orders", 0, 3): Choice.WRONG}),
        (3, (3, 1, 2), BROKERS, {("orders", 0, 3): Choice.LEADS}),
        (1, (3, 1, 2), (1, 2), {}),  # it is not in sync
        (1, (1, 2, 3), BROKERS, {}),
        (2, (1, 2, 3), BROKERS, {}),
    ):
        led(healthy, leader, *replicas, isr=isr)
        assert unsafe_elections(healthy.state.snapshot()) == expected, (leader, replicas, isr)
    wrong = shown_again()
    alike = evidence_of(wrong) | {"sides": {"no value": [2], "value at offset 17": [1, 3]}}
    lacks = evidence_of(wrong) | {"leader": 1}
    for one, leader, expected in (
        (replace(wrong, evidence=json.dumps(alike)), 1, False),
        (replace(wrong, evidence=json.dumps(alike)), 2, True),
        (replace(wrong, evidence=json.dumps(lacks), exposed=True), 1, False),  # as of a truncated log
        (replace(wrong, evidence=json.dumps(lacks), exposed=True), 2, True),
        (replace(wrong, status=FindingStatus.SPREAD), 1, False),
    ):
        healthy.state.update_findings(FindingsStatus(open=(one,)))
        led(healthy, leader, 3, 1, 2)
        is_named = unsafe_elections(healthy.state.snapshot()).get(("orders", 0, 3)) is Choice.WRONG
        assert is_named is expected, "nothing is gained where the leader is wrong alike"
    found(healthy)
    led(healthy, 1, 3, 1, 2)
    assert samples(healthy.state)["preferred_leader_unsafe", ("orders", "0", "3")] == 1.0
    healthy.state.update_findings(FindingsStatus())
    assert unsafe_elections(healthy.state.snapshot()) == {}


def test_what_may_have_been_mended_since_its_last_look_is_called_neither_wrong_nor_safe(healthy: Monitor) -> None:
    wrong = shown_again()
    led(healthy, 1, 3, 1, 2)
    healthy.state.update_findings(
        FindingsStatus(open=(wrong,), unconfirmed={wrong.finding_id: frozenset({3}), "other": frozenset({1})})
    )
    assert unsafe_elections(healthy.state.snapshot()) == {("orders", 0, 3): Choice.UNCONFIRMED}
    assert samples(healthy.state)["preferred_leader_unsafe", ("orders", "0", "3")] == 2.0
    assert words(healthy) == "safe safe unknown"
    assert "may have been changed since: ask again in a minute" in why(healthy, 3)
    also = replace(shown_again("e1" * 16), offset=18)
    healthy.state.update_findings(FindingsStatus(open=(wrong, also), unconfirmed={wrong.finding_id: frozenset({3})}))
    assert unsafe_elections(healthy.state.snapshot()) == {("orders", 0, 3): Choice.WRONG}, "another one proves it wrong"
