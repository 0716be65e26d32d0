"""The exposition: the names that dashboards and alerts rely on, and values from committed state."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from parallax.alerting.collector import OfCluster, ParallaxCollector
from parallax.alerting.listing import MOST, OVER_FOR_S, FindingState
from parallax.alerting.places import Places
from parallax.alerting.state import MonitorState
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.findings.acknowledge import acknowledged
from parallax.findings.explain import runbook_of
from parallax.findings.finding import Finding
from parallax.findings.hanging import Open
from parallax.findings.hanging_life import Hanging
from parallax.findings.hanging_watch import Standstill
from parallax.findings.happenings import FindingsStatus
from parallax.guard.absences import Absences, Presence, Unclear
from parallax.guard.endings import Outage
from parallax.guard.holds import Event, EventKind, Hold, Phase
from parallax.guard.outages import Outages
from parallax.guard.run import GuardStatus
from parallax.model import NOBODY, FindingKind, FindingStatus, IsolationLevel, Rule, Severity, TopicPartition
from parallax.shell import ANYWHERE, Shell
from parallax.source.feedback import ALL
from parallax.views.pause import Pause
from parallax.views.sharing import Saved
from parallax.views.tables import TableSize
from tests.builders.absences import absence, late
from tests.builders.clock import Clock
from tests.builders.coverage import progress
from tests.builders.findings import finding
from tests.scripts import script_of
from tests.unit.alerting.reported import Report, heard, in_part, samples

NAMES = {
    "audit_last_timestamp_seconds",
    "audit_read_bytes_total",
    "audit_result",
    "audit_result_timestamp_seconds",
    "audit_runs_total",
    "broker_reachable",
    "cluster_mismatch",
    "reading_paused_timestamp_seconds",
    "unauthorized_replicas",
    "build_info",
    "compared_timestamp_seconds",
    "compared_up_to_offset",
    "comparison_state_bytes",
    "deferred_offsets",
    "findings_confirmed_total",
    "findings_resolved_total",
    "findings_skipped_rows",
    "findings_writable",
    "heartbeat_timestamp_seconds",
    "job_info",
    "last_probe_timestamp_seconds",
    "maintenance_last_success_timestamp_seconds",
    "nothing_watched",
    "partitions_readable",
    "maintenance_runs_total",
    "table_files",
    "table_shared_rows_total",
    "finding_state",
    "finding_info",
    "findings_loaded",
    "findings_unlisted",
    "replica_absent_since_timestamp_seconds",
    "replica_late_timestamp_seconds",
    "replica_outage_end_timestamp_seconds",
    "replica_outage_info",
    "replica_removal_bound_timestamp_seconds",
    "replica_removal_bound_unknown",
    "guard_hold",
    "guard_hold_bytes",
    "guard_hold_start_timestamp_seconds",
    "guard_refused",
    "guard_events_total",
    "guard_works",
    "hanging_transaction_start_timestamp_seconds",
    "table_bytes",
    "partitions_detailed",
    "partitions_watched",
    "open_findings",
    "open_findings_exposed",
    "acknowledged_findings",
    "finding_acknowledged",
    "finding_acknowledgement_info",
    "incident_keys",
    "findings_judging_errors_total",
    "probes_total",
    "transactions_not_listed_total",
    "probe_bytes_total",
    "second_opinions_total",
    "query_batch_seconds",
    "query_last_progress_timestamp_seconds",
    "query_restarts_total",
    "query_checkpoints_set_aside_total",
    "query_rows_total",
    "query_up",
    "preferred_leader_unsafe",
    "replica_frozen_seconds",
    "replica_high_watermark",
    "replica_last_stable_offset",
    "replica_last_stable_offset_stalled_seconds",
    "replica_log_end_offset",
    "replica_log_start_offset",
    "replica_may_lead",
    "start_time_seconds",
    "replicas_offline",
    "storage_full",
    "storage_info",
    "suspects_dismissed_total",
    "suspects_pending",
    "unknown_offsets",
    "initial_reading_complete",
    "initial_readings_outstanding",
    "spot_checks_total",
    "view_lag_offsets",
    "verdict_waiting_seconds",
    "view_lag_seconds",
    "view_position",
}
LABELS = {
    "presence",
    "phase",
    "level",
    "status",
    "table",
    "storage_id",
    "finding_id",
    "state",
    "topic",
    "partition",
    "broker_id",
    "isolation_level",
    "kind",
    "severity",
    "query",
    "reason",
    "result",
}
LABELS_OF_WHAT_IS_OPEN = {
    "parallax_finding_info": LABELS
    | {"record_offset", "runbook", "turn", "headline", "summary", "command", "page_url"},
    "parallax_finding_acknowledgement_info": LABELS | {"by", "comment"},
    "parallax_hanging_transaction_start_timestamp_seconds": {"topic", "partition", "producer_id", "standing"},
    "parallax_replica_outage_info": {"broker_id", "headline", "now", "outcome"},
    "parallax_build_info": {"version", "pyspark", "delta"},
    "parallax_job_info": {"options", "page_url"},
}
"""The labels of metrics that have one series for each of the few things that are open, or one in all."""
HERE = "in tests/unit/alerting/test_collector.py"
ROOT = Path(__file__).parents[3]


FINDING = finding(
    "a",
    kind=FindingKind.READ_COMMITTED_FROZEN,
    rule=Rule.PROGRESS,
    offset=4711,
    producer_id=990011,
    transaction_start_offset=4711,
    marker_offset=4720,
    key=b"secret-key",
    summary="",
    evidence="",
    suspect_id="s",
    first_suspected_at=datetime.now(UTC),
    decided_at=datetime.now(UTC),
    exposed=True,
)
LABEL = ("read_committed_frozen", "critical", "orders", 0, 2)


AUDIT = AuditReport("brokers", 900.0, 950.0, (PartitionResult("orders", 0, Result.UNKNOWN),), {2: 4096})


def reported(**fields: Any) -> dict[str, Any]:
    return progress(**({"broker": 2, "log_end_offset": 101} | fields))


REFUSED: dict[str, Any] = {
    "reachable": False,
    "error": "broker 2, orders-1: not authorized",
    "problem": "unauthorized",
    "missing_right": "read",
    "high_watermark": None,
    "last_stable_offset": None,
    "log_start_offset": None,
    "log_end_offset": None,
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> MonitorState:
    return MonitorState(clock, shell=Shell.of({"bootstrap.servers": "a:9092"}, "/etc/my p.yaml"))


INCIDENT = replace(
    FINDING,
    finding_id="c",
    kind=FindingKind.DELETED_RECORD_RESURRECTED,
    suspect_id="",
    evidence='{"incident": {"count": 100000}}',
)


@pytest.fixture
def full(state: MonitorState) -> MonitorState:
    state.update_storage_id("0123456789abcdef")
    state.update_progress([reported(replicas=[2, 1, 3], leader=1, isr=[1, 2, 3]), reported(partition=1, **REFUSED)])
    state.update_positions(IsolationLevel.READ_COMMITTED, {("orders", 0, 2): 90})
    state.update_coverage([in_part()])
    state.update_query(Report())
    status = FindingsStatus(
        acknowledged=(replace(FINDING, finding_id="d", status=FindingStatus.ACKNOWLEDGED),),
        open=(FINDING, replace(FINDING, finding_id="b", exposed=False), INCIDENT),
        confirmed_total={LABEL: 3},
        pending={("orders", 0): 1},
        last_probe_at=995.0,
        unlisted_total={"orders": 2},
        probe_bytes={2: 4096},
        second_opinions={"same": 7},
    )
    state.update_findings(status)
    state.update_maintenance("progress", TableSize(3, 4096))
    state.update_shared("read_committed", Saved(1000, 24_000))
    state.update_shared("read_committed", Saved(20, 480))
    state.update_maintenance("read_committed", None)
    state.update_audit(AUDIT)
    state.spot_checked({"aborted": 1})
    away = absence(2)
    unclear = absence(3, bound_ms=None, unclear=Unclear.SETTINGS)
    ended = Outage(2, 5_000, ended_ms=9_000)
    state.update_absences(Absences((away, unclear), (late(away, broker=1),), (ended,)))
    hold = Hold("h", "orders", "a", 5_000, 5_000, Phase.HELD, 2, (), frozenset())
    refused = Event(EventKind.REFUSED, "", "orders", "a", 5_000)
    state.update_guard(GuardStatus((hold,), (refused,), frozenset(), {"held": 3}, {"orders": 4096}))
    one = Open(TopicPartition("orders", 0), 1, 7, 0, 5, 900_000)
    state.update_hanging([Hanging(one, 5, "no coordinator knows its producer", hangs=True, stands_since=900.0)])
    state.update_paused({2: Pause(900.0, "ann", "a full disk"), ALL: Pause(950.0, "ann", "all")})
    return state


def test_a_partition_that_could_not_be_compared_is_counted(state: MonitorState) -> None:
    for error in ("ValueError: 1", "", "ValueError: 2"):
        state.update_coverage([in_part(error=error), in_part(partition=1)])
    found = samples(state)
    assert found["comparison_partition_errors_total", ("orders", "0")] == 2
    assert ("comparison_partition_errors_total", frozenset(("orders", "1"))) not in found


def test_every_metric_is_there_under_its_name(full: MonitorState) -> None:
    found = {name for name, _ in samples(full)}
    assert found - NAMES == set(), f"new: write them into NAMES {HERE}, then run `make reference`"
    assert NAMES - found == set(), f"the collector does not yield them: take them out of NAMES {HERE}, or fill `full`"


def test_the_last_audit_of_a_partition_has_one_result(full: MonitorState) -> None:
    found = samples(full)
    assert found["audit_result", ("orders", "0", "unknown")] == 1.0
    assert found["audit_result", ("orders", "0", "consistent")] == 0.0
    full.update_audit(
        replace(AUDIT, partitions=(PartitionResult("orders", 0, Result.CONSISTENT),), ended_at=970.0, read_bytes={2: 4})
    )
    full.audit_failed()
    found = samples(full)
    assert found["audit_result", ("orders", "0", "unknown")] == 0.0
    assert found["audit_result", ("orders", "0", "consistent")] == 1.0
    assert found["audit_read_bytes_total", ("2",)] == 4100.0
    assert found["audit_runs_total", ("success",)] == 2.0
    assert found["audit_runs_total", ("failure",)] == 1.0
    assert found["audit_last_timestamp_seconds", ()] == 970.0


def test_an_audit_that_found_a_divergence_has_diverged_until_that_is_over(full: MonitorState) -> None:
    one = FINDING
    results = {"consistent": 0.0, "diverged": 0.0, "over": 0.0, "unknown": 0.0}

    def said(result: PartitionResult) -> dict[str, float]:
        full.update_audit(replace(AUDIT, partitions=(result,), ended_at=970.0))
        found = samples(full)
        assert found["audit_result_timestamp_seconds", ("orders", "0")] == 970.0
        return {name: found["audit_result", ("orders", "0", name)] for name in results}

    diverged = PartitionResult(*one.place, Result.DIVERGED, findings=(one,))
    full.update_findings(FindingsStatus(open=(one,)))
    assert said(diverged) == results | {"diverged": 1.0}
    full.update_findings(FindingsStatus(pending={one.place: 1}))
    assert said(diverged) == results | {"diverged": 1.0}
    full.update_findings(FindingsStatus())
    assert said(diverged) == results | {"over": 1.0}
    assert said(replace(diverged, reasons=("broker 2 did not answer",))) == results | {"unknown": 1.0}


def test_spot_checks_are_counted_by_what_they_found(full: MonitorState) -> None:
    full.spot_checked({"aborted": 30, "committed": 2})
    full.spot_checked({"aborted": 5})
    full.update_audit(AUDIT)
    found = samples(full)
    assert found["spot_checks_total", ("aborted",)] == 36.0
    assert found["spot_checks_total", ("committed",)] == 2.0


def test_what_probes_have_read_is_counted_by_broker(full: MonitorState) -> None:
    full.update_findings(FindingsStatus(probe_bytes={2: 4096, 3: 1}))
    found = samples(full)
    assert found["probe_bytes_total", ("2",)] == 4096.0
    assert found["probe_bytes_total", ("3",)] == 1.0


def test_upkeep_is_counted_by_how_it_ended_with_the_size_of_each_table(full: MonitorState) -> None:
    found = samples(full)
    assert found["table_shared_rows_total", ("read_committed",)] == 1020
    assert found["maintenance_runs_total", ("success",)] == found["maintenance_runs_total", ("failure",)] == 1
    assert found["table_files", ("progress",)] == 3
    assert found["table_bytes", ("progress",)] == 4096


def test_an_absent_replica_has_its_bound_or_the_reason_for_none(state: MonitorState) -> None:
    away = absence(2)
    added = absence(
        3, partition=1, presence=Presence.COPYING, lacks_from=0, since_ms=7_000, bound_ms=None, unclear=Unclear.COPYING
    )
    state.update_progress([reported(), reported(partition=1)])
    state.update_absences(Absences((away, added), (late(replace(away, broker=1)),)))
    found = samples(state)
    assert found["replica_absent_since_timestamp_seconds", ("orders", "0", "2", "away")] == 5
    assert found["replica_removal_bound_timestamp_seconds", ("orders", "0", "2")] == 65
    assert found["replica_removal_bound_unknown", ("orders", "1", "3", "copying")] == 1
    assert found["replica_late_timestamp_seconds", ("orders", "0", "1", "passed")] == 9
    assert ("replica_removal_bound_timestamp_seconds", frozenset(("orders", "1", "3"))) not in found
    assert ("replica_removal_bound_unknown", frozenset(("orders", "0", "2", "None"))) not in found
    short = replace(away, unclear=Unclear.NO_TIME)
    state.update_absences(Absences((short,), (late(replace(short, broker=1)),)))
    found = samples(state)
    assert ("replica_removal_bound_timestamp_seconds", ("orders", "0", "2")) not in found
    assert found["replica_removal_bound_unknown", ("orders", "0", "2", "no_time")] == 1
    assert found["replica_late_timestamp_seconds", ("orders", "0", "1", "no_time")] == 9
    state.update_absences(Absences((replace(away, is_held=True),)))
    assert samples(state)["replica_removal_bound_timestamp_seconds", ("orders", "0", "2")] == math.inf


def test_the_outage_of_a_broker_is_told_in_words_and_what_came_of_it(state: MonitorState) -> None:
    known, away = Outages(), absence(2)
    state.update_progress([reported()])
    known.see([away], [], 70_000)
    state.update_absences(Absences((away,), outages=known.all))
    (labels,) = outage_info(state)
    assert labels["headline"] == "Broker 2 has been away for too long (orders)"
    assert "What it lacks of orders-0 may be gone from the others since 1970-01-01 00:01:05 UTC" in labels["now"]
    back = late(away, 80_000)
    known.see([], [back], 80_000)
    state.update_absences(Absences(late=(back,), outages=known.all))
    (labels,) = outage_info(state)
    assert labels["headline"] == "Broker 2 was back too late (orders)"
    known.audited({away.place: Result.CONSISTENT})
    known.see([], [], 90_000)
    state.update_absences(Absences(outages=known.all))
    (labels,) = outage_info(state)
    assert labels["outcome"].endswith("found no difference: nothing was lost there that shows.")
    assert samples(state)["replica_outage_end_timestamp_seconds", ("2",)] == 90


def outage_info(state: MonitorState) -> list[Mapping[str, str]]:
    found = [one for one in ParallaxCollector(state).collect() if one.name == "parallax_replica_outage_info"]
    return [sample.labels for family in found for sample in family.samples]


def test_what_the_guard_holds_is_told_and_nothing_of_one_that_is_off(full: MonitorState) -> None:
    found = samples(full)
    assert found["guard_hold", ("orders", "held", "2")] == 1
    assert found["guard_hold_start_timestamp_seconds", ("orders",)] == 5
    assert found["guard_refused", ("orders", "refused")] == 1
    assert found["guard_events_total", ("held",)] == 3
    assert found["guard_hold_bytes", ("orders",)] == 4096
    assert found["guard_works", ()] == 1
    assert found["guard_events_total", ("overruled",)] == 0, "so that the first one is an increase"
    full.update_guard(GuardStatus(error="the table cannot be read"))
    assert "guard_events_total" not in {name for name, _ in samples(full)}, "a 0 here would be an increase afterwards"
    assert not [name for name, _ in samples(MonitorState()) if name.startswith("guard")]


def test_every_sample_names_the_cluster_where_it_has_a_name(full: MonitorState) -> None:
    families = list(OfCluster(ParallaxCollector(full), "orders-eu").collect())
    assert {sample.labels["cluster"] for family in families for sample in family.samples} == {"orders-eu"}


def test_metrics_used_by_the_alerts_exist() -> None:
    rules = (ROOT / "deploy/prometheus/parallax-rules.yaml").read_text()
    used = set(re.findall(r"(?<!:)\bparallax_(\w+)", rules))
    assert used <= NAMES | {"webhook_pending_seconds"}


_NOT_BASE = re.compile(
    r"_(?:ms|us|ns|millis|milliseconds|minutes|hours|days|kb|mb|gb|kib|mib|gib|kilobytes|megabytes|percent)(?:_|$)"
)
"""What names a unit that is no base unit of Prometheus: seconds, bytes, ratio."""


def badly_named(family: Metric) -> str:
    """What is wrong with a metric's name and help, by Prometheus' conventions; empty if nothing is."""
    name = family.name
    if not re.fullmatch(r"parallax(_[a-z0-9]+)+", name):
        return f"{name}: write it in snake_case, with parallax_ in front"
    if _NOT_BASE.search(name):
        return f"{name}: use a base unit (_seconds, _bytes, _ratio)"
    if not re.fullmatch(r"[A-Z0-9`].*\.", family.documentation, re.DOTALL):
        return f"{name}: its help is no sentence: {family.documentation!r}"
    return ""


def test_names_and_help_keep_the_conventions() -> None:
    families = script_of("reference").families()
    assert len(families) > 80
    assert [one for one in map(badly_named, families) if one] == [], "see alerting/collector.py"


@pytest.mark.parametrize(
    ("name", "said", "wrong"),
    [
        ("parallax_probe_ms", "Time.", "base unit"),
        ("parallax_probe_ms_total", "Time.", "base unit"),
        ("parallax_probeTime", "Time.", "snake_case"),
        ("parallax_probe_seconds", "the time of a probe", "no sentence"),
        ("parallax_forms", "Forms.", ""),
    ],
)
def test_a_name_or_a_help_against_the_conventions_is_found(name: str, said: str, wrong: str) -> None:
    found = badly_named(Metric(name, said, "gauge"))
    assert (wrong in found) if wrong else not found


def test_no_label_is_unbounded(full: MonitorState) -> None:
    registry = CollectorRegistry()
    registry.register(ParallaxCollector(full))
    text = generate_latest(registry).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            more = set(sample.labels) - LABELS_OF_WHAT_IS_OPEN.get(sample.name, LABELS)
            assert more == set(), f"{sample.name}: if few values are possible, write the label into LABELS {HERE}"
            assert not {"990011", "secret-key"} & set(sample.labels.values())
            is_open = sample.name in LABELS_OF_WHAT_IS_OPEN
            assert is_open or not {"4711", "4720"} & set(sample.labels.values()), "no offset is a label"


def test_what_an_operator_does_not_want_read_is_told_since_when(full: MonitorState) -> None:
    found = samples(full)
    assert found["reading_paused_timestamp_seconds", ("2",)] == 900
    assert found["reading_paused_timestamp_seconds", ("all",)] == 950


def test_a_transaction_that_hangs_is_told_since_when(full: MonitorState) -> None:
    labels = ("orders", "0", "7", "hangs: no coordinator will end it")
    assert samples(full)["hanging_transaction_start_timestamp_seconds", labels] == 900


class TestStandstills:
    """Where a transaction may hang: nothing of it is asked of a broker."""

    def test_an_offset_that_all_who_came_to_it_stand_at_stands_since_the_last_of_them_came(
        self, state: MonitorState, clock: Clock
    ) -> None:
        for broker, stable in ((1, 50), (2, 50), (3, 40)):
            state.update_progress([reported(broker=broker, last_stable_offset=stable)])
            clock.now += 10
        since = clock.now - 20
        assert state.standstills() == {TopicPartition("orders", 0): Standstill(50, since, since)}
        state.update_progress([reported(broker=1, last_stable_offset=60, high_watermark=60)])
        assert state.standstills() == {TopicPartition("orders", 0): Standstill(60, None, clock.now)}

    def test_nothing_stands_where_all_is_stable(self, state: MonitorState) -> None:
        state.update_progress([reported()])
        (stands,) = state.standstills().values()
        assert (stands.offset, stands.since) == (reported()["last_stable_offset"], None)

    def test_a_replica_that_does_not_answer_has_not_shown_it_again(self, state: MonitorState, clock: Clock) -> None:
        state.update_progress([reported(last_stable_offset=50, log_start_offset=7)])
        began = clock.now
        clock.now += 60
        state.update_progress([reported(reachable=False, last_stable_offset=None)])
        assert state.standstills() == {TopicPartition("orders", 0): Standstill(50, began, began, 7)}


def test_findings_are_counted_by_their_labels(full: MonitorState) -> None:
    labels = ("read_committed_frozen", "critical", "orders", "0", "2")
    found = samples(full)
    assert found["open_findings", (*labels, "confirmed")] == 2
    assert found["open_findings_exposed", (*labels, "confirmed")] == 1
    assert found["findings_confirmed_total", labels] == 3
    assert found["suspects_pending", ("orders", "0")] == 1


def explain(finding_id: str) -> str:
    return f"parallax findings explain {finding_id} -c CONFIG"


class TestEachFinding:
    """One by one, as the alerts know them."""

    def states(self, state: MonitorState, finding_id: str = "a") -> dict[str, float]:
        found = samples(state)
        keys = {name: ("finding_state", frozenset(("orders", "0", finding_id, name))) for name in FindingState}
        return {name: found[key] for name, key in keys.items() if key in found}

    @pytest.mark.parametrize(
        ("finding", "expected"),
        [
            (FINDING, FindingState.EXPOSED),
            (replace(FINDING, exposed=False), FindingState.CONFIRMED),
            (replace(FINDING, exposed=False, severity=Severity.WARNING), FindingState.WARNING),
            (replace(FINDING, severity=Severity.WARNING), FindingState.EXPOSED),
            (replace(FINDING, status=FindingStatus.SPREAD), FindingState.SPREAD),
            (replace(FINDING, status=FindingStatus.UNSETTLED, severity=Severity.WARNING), FindingState.UNSETTLED),
        ],
    )
    def test_it_has_one_state(self, state: MonitorState, finding: Finding, expected: FindingState) -> None:
        state.update_findings(FindingsStatus(open=(finding,)))
        assert self.states(state) == {name: float(name is expected) for name in FindingState}

    def test_it_ends_before_it_is_left_out(self, state: MonitorState, clock: Clock) -> None:
        state.update_findings(FindingsStatus(open=(FINDING,)))
        state.update_findings(FindingsStatus())
        assert set(self.states(state).values()) == {0.0}
        assert "finding_info" in {name for name, _ in samples(state)}
        clock.now += OVER_FOR_S
        state.update_findings(FindingsStatus())
        assert self.states(state) == {}
        assert "finding_info" not in {name for name, _ in samples(state)}

    def test_it_says_how_this_job_explains_it_and_where_its_page_is(self, state: MonitorState) -> None:
        state.update_findings(FindingsStatus(open=(FINDING,)))
        labels, _ = self.said(state)
        assert (labels["command"], labels["page_url"]) == ("parallax findings explain a -c CONFIG", "")
        places = Places(page="https://monitor.example/", shell=Shell(config="/etc/parallax/night shift.yaml"))
        labels, _ = self.said(state, places)
        assert labels["command"] == "parallax findings explain a -c '/etc/parallax/night shift.yaml'"
        assert labels["page_url"] == "https://monitor.example/findings/a"

    def said(self, state: MonitorState, places: Places | None = None) -> tuple[dict[str, str], float]:
        """What alerts say of the finding: the labels, and the value."""
        registry = CollectorRegistry()
        registry.register(ParallaxCollector(state, places=places))
        families = text_string_to_metric_families(generate_latest(registry).decode())
        (one,) = (s for family in families for s in family.samples if s.name == "parallax_finding_info")
        return one.labels, one.value

    def test_its_last_word_is_what_came_of_it_in_the_past(self, state: MonitorState) -> None:
        state.update_findings(FindingsStatus(open=(FINDING,)))
        end = replace(FINDING, status=FindingStatus.RESOLVED, sequence=9, summary="Broker 2 stood still. Healed.")
        state.update_findings(FindingsStatus(ended=(end,)))
        labels, value = self.said(state)
        assert labels["headline"] == "Broker 2 held an ended transaction of orders-0 open; that is over"
        assert (labels["summary"], labels["turn"], value) == ("Broker 2 stood still. Healed.", "", 9)

    def test_where_nobody_knows_how_it_ended_its_last_word_is_what_it_was(self, state: MonitorState) -> None:
        state.update_findings(FindingsStatus(open=(FINDING,)))
        _, value = self.said(state)
        state.update_findings(FindingsStatus())
        labels, newer = self.said(state)
        assert labels["summary"] == f"Over. It was: {FINDING.summary}"
        assert newer > value, "the rules take the larger value for the newer"

    @pytest.mark.parametrize(
        ("before", "now", "turn"),
        [
            (replace(FINDING, exposed=False, severity=Severity.WARNING), FINDING, "It has become worse: "),
            (FINDING, replace(FINDING, status=FindingStatus.SPREAD), "It has become worse: "),
            (FINDING, replace(FINDING, exposed=False), "Less grave now: "),
            (FINDING, replace(FINDING, summary="It is refined."), ""),
        ],
    )
    def test_a_change_of_its_state_is_said_before_its_headline(
        self, state: MonitorState, before: Finding, now: Finding, turn: str
    ) -> None:
        for one in (before, now, now):
            state.update_findings(FindingsStatus(open=(one,)))
        assert self.said(state)[0]["turn"] == turn

    def test_one_that_opens_again_is_open(self, state: MonitorState) -> None:
        for findings in ((FINDING,), (), (FINDING,)):
            state.update_findings(FindingsStatus(open=findings))
        assert self.states(state)[FindingState.EXPOSED] == 1

    def test_none_is_over_because_the_findings_are_not_read_yet(self, state: MonitorState) -> None:
        state.update_findings(FindingsStatus(error="the table cannot be read"))
        assert "findings_loaded" not in {name for name, _ in samples(state)}
        state.update_findings(FindingsStatus(open=(FINDING,)))
        state.update_findings(FindingsStatus(open=(FINDING,), error="the table cannot be written"))
        assert samples(state)["findings_loaded", ()] == 1
        assert self.states(state)[FindingState.EXPOSED] == 1

    def test_what_alerts_say_of_it_stands_in_one_place(self, state: MonitorState) -> None:
        state.update_findings(FindingsStatus(open=(replace(FINDING, sequence=7, summary="Broker 2 is frozen."),)))
        headline = (
            "Broker 2 holds an ended transaction of orders-0 open: read_committed stands still; the leader is wrong"
        )
        said = ("read_committed_frozen", "critical", "2", "4711", "a-missed-end-marker", "", headline)
        assert samples(state)["finding_info", ("orders", "0", "a", *said, "Broker 2 is frozen.", explain("a"))] == 7

    def test_an_incident_is_said_without_its_count_which_moves(self, state: MonitorState) -> None:
        state.update_findings(FindingsStatus(open=(replace(INCIDENT, summary="100000 in all"),)))
        summary = (
            "This holds for many keys; the command says how many. The leader shows that: consumers read what was "
            "deleted."
        )
        said = (str(INCIDENT.kind), "critical", "2", "", "a-missed-tombstone", summary)
        headline = "Broker 2 still shows a deleted record of orders-0; the leader is wrong"
        assert samples(state)["finding_info", ("orders", "0", "c", headline, *said, explain("c"))] == INCIDENT.sequence

    def test_of_very_many_the_gravest_are_listed_and_the_others_counted(self, state: MonitorState) -> None:
        many = [replace(FINDING, finding_id=f"f{i}", exposed=False) for i in range(MOST)]
        state.update_findings(FindingsStatus(open=(*many, FINDING)))
        assert samples(state)["findings_unlisted", ()] == 1
        assert self.states(state)[FindingState.EXPOSED] == 1


def test_a_loss_that_all_replicas_share_is_counted_under_its_status(state: MonitorState) -> None:
    unsettled = replace(FINDING, status=FindingStatus.UNSETTLED, severity=Severity.WARNING, exposed=False)
    state.update_findings(FindingsStatus(open=(replace(FINDING, status=FindingStatus.SPREAD), unsettled)))
    labels = ("read_committed_frozen", "warning", "orders", "0", "2", "unsettled")
    assert samples(state)["open_findings", frozenset(labels)] == 1
    assert samples(state)["open_findings_exposed", frozenset(labels)] == 0
    found = samples(state)
    labels = ("read_committed_frozen", "critical", "orders", "0", "2", "spread")
    assert found["open_findings", labels] == found["open_findings_exposed", labels] == 1


def test_an_incident_is_one_finding_and_says_how_many_keys_it_counts(state: MonitorState) -> None:
    state.update_findings(FindingsStatus(open=(INCIDENT, FINDING)))
    found = samples(state)
    labels = (str(INCIDENT.kind), "critical", "orders", "0", "2")
    assert found["open_findings", (*labels, "confirmed")] == 1
    assert found["incident_keys", labels] == 100_000


def test_an_acknowledged_finding_is_counted_apart_keeps_its_state_and_says_who_knows_of_it(state: MonitorState) -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    spread = replace(FINDING, status=FindingStatus.SPREAD, evidence='{"resolution": "spread"}')
    for found, its in ((FINDING, FindingState.EXPOSED), (spread, FindingState.SPREAD)):
        known = acknowledged(found, 'known "since" March', "ann", at)
        state.update_findings(FindingsStatus(acknowledged=(known,)))
        values = samples(state)
        assert not {name for name, _ in values} & {"open_findings", "open_findings_exposed"}
        place = ("orders", "0", found.finding_id)
        assert values["acknowledged_findings", (str(found.kind), "critical", "orders", "0", "2")] == 1
        assert {one: values["finding_state", (*place, one)] for one in FindingState} == {
            one: float(one is its) for one in FindingState
        }, "an alert about it is not over"
        assert values["finding_acknowledged", place] == at.timestamp()
        assert values["finding_acknowledgement_info", (*place, "ann", 'known "since" March')] == at.timestamp()
    state.update_findings(FindingsStatus(open=(FINDING,)))
    values = samples(state)
    assert values["finding_acknowledged", ("orders", "0", FINDING.finding_id)] == 0, "it has become worse"
    assert "finding_acknowledgement_info" not in {name for name, _ in values}


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_of_very_many_one_that_is_listed_is_over_for_nobody_while_it_stands(
    state: MonitorState, is_acknowledged: bool
) -> None:
    many = [replace(FINDING, finding_id=f"f{i:03}", exposed=False) for i in range(MOST + 1)]
    state.update_findings(FindingsStatus(open=tuple(many)))
    if is_acknowledged:
        known = replace(many.pop(0), status=FindingStatus.ACKNOWLEDGED)
        state.update_findings(FindingsStatus(open=tuple(many), acknowledged=(known,)))
    else:
        graver = [replace(FINDING, finding_id=f"g{i}") for i in range(2)]
        state.update_findings(FindingsStatus(open=(*many, *graver)))
    found = samples(state)
    listed = {f.finding_id for f in (*many, *((known,) if is_acknowledged else graver))}
    unlisted = {
        name for name in listed if ("finding_state", frozenset(("orders", "0", name, "confirmed"))) not in found
    }
    assert len(unlisted) == found["findings_unlisted", ()] == (0 if is_acknowledged else 1)
    state_of_first = {one: found["finding_state", frozenset(("orders", "0", "f000", one))] for one in FindingState}
    assert sum(state_of_first.values()) == 1, "its alert would end"


def test_of_very_many_those_that_somebody_knows_of_are_left_out_first(state: MonitorState) -> None:
    known = tuple(replace(FINDING, finding_id=f"k{i}", status=FindingStatus.ACKNOWLEDGED) for i in range(3))
    many = tuple(replace(FINDING, finding_id=f"f{i}", exposed=False) for i in range(MOST - 1))
    state.update_findings(FindingsStatus(open=many, acknowledged=known))
    found = samples(state)
    assert found["findings_unlisted", ()] == 2
    listed = set().union(*(labels for name, labels in found if name == "finding_info"))
    assert {one.finding_id for one in many} <= listed


def test_coverage_is_reported_by_isolation_level(full: MonitorState) -> None:
    found = samples(full)
    assert found["compared_up_to_offset", ("orders", "0", "read_uncommitted")] == 100
    assert found["unknown_offsets", ("orders", "0", "read_committed", "not_read_yet")] == 10
    assert found["unknown_offsets", ("orders", "0", "read_committed", "deferred")] == 0, (
        "a series that ends hides its zero"
    )
    assert found["deferred_offsets", ("orders", "0", "read_committed")] == 5
    assert found["replica_frozen_seconds", ("orders", "0", "2")] == 7.5
    assert found["heartbeat_timestamp_seconds", ()] == 999


def test_lag_is_measured_to_what_the_isolation_level_shows_and_is_never_negative(state: MonitorState) -> None:
    replica = ("orders", 0, 2)
    state.update_progress([reported(high_watermark=100, last_stable_offset=60)])
    state.update_positions(IsolationLevel.READ_UNCOMMITTED, {replica: 100})
    state.update_positions(IsolationLevel.READ_COMMITTED, {replica: 55})
    assert samples(state)["view_lag_offsets", ("orders", "0", "2", "read_uncommitted")] == 0
    assert samples(state)["view_lag_offsets", ("orders", "0", "2", "read_committed")] == 5
    state.update_positions(IsolationLevel.READ_COMMITTED, {replica: 61})
    assert samples(state)["view_lag_offsets", ("orders", "0", "2", "read_committed")] == 0


def test_a_stable_offset_stalls_while_it_stands_behind_the_high_watermark(state: MonitorState, clock: Clock) -> None:
    name = "replica_last_stable_offset_stalled_seconds", ("orders", "0", "2")

    def after(seconds: float, **fields: int) -> float:
        clock.now += seconds
        state.update_progress([reported(**fields)])
        return samples(state)[name]

    assert after(0, high_watermark=100, last_stable_offset=100) == 0
    assert after(5, high_watermark=110, last_stable_offset=100) == 0
    assert after(5, high_watermark=120, last_stable_offset=100) == 5
    clock.now += 1
    assert samples(state)[name] == 6
    assert after(1, high_watermark=120, last_stable_offset=110) == 0
    assert after(9, high_watermark=120, last_stable_offset=120) == 0


def test_a_broker_that_does_not_answer_keeps_its_last_offsets_and_is_unreachable(state: MonitorState) -> None:
    state.update_progress([reported()])
    gone = reported(reachable=False, high_watermark=None, last_stable_offset=None)
    state.update_progress([gone | {"log_start_offset": None, "log_end_offset": None}])
    found = samples(state)
    assert found["broker_reachable", ("2",)] == 0
    assert found["replica_high_watermark", ("orders", "0", "2")] == 100


def test_a_broker_that_no_partition_is_assigned_to_any_more_is_forgotten(state: MonitorState, clock: Clock) -> None:
    away = {**dict.fromkeys(REFUSED.keys() & reported().keys()), "reachable": False, "problem": "unreachable"}
    rows = [reported(replicas=[2, 4]), reported(broker=4, replicas=[2, 4]) | away]
    for _ in range(2):
        state.update_progress(rows)
        assert samples(state)["broker_reachable", ("4",)] == 0, "as long as it is assigned to"
        clock.now += 3600
    state.update_progress([reported(replicas=[2, 3]), reported(broker=3, replicas=[2, 3])])
    found = samples(state)
    assert ("broker_reachable", frozenset({"4"})) not in found
    assert (found["broker_reachable", ("2",)], found["broker_reachable", ("3",)]) == (1, 1)


def test_a_broker_whose_topics_are_all_gone_is_forgotten(state: MonitorState, clock: Clock) -> None:
    state.update_progress([reported(), reported(topic="old", broker=4)])
    heard(state, clock, 300)
    state.update_progress([reported()])
    heard(state, clock, 301)
    found = samples(state)
    assert ("broker_reachable", frozenset({"4"})) not in found
    assert found["broker_reachable", ("2",)] == 1


def test_another_cluster_is_shown_for_as_long_as_it_answers_at_an_address(state: MonitorState) -> None:
    assert samples(state)["cluster_mismatch", ()] == 0
    state.update_mismatches({"b:9092": "other"})
    assert samples(state)["cluster_mismatch", ()] == 1
    state.update_mismatches({})
    assert samples(state)["cluster_mismatch", ()] == 0


def test_a_replica_that_nobody_tells_of_any_more_is_forgotten(full: MonitorState, clock: Clock) -> None:
    heard(full, clock, 601)
    found = samples(full)
    assert not [name for name, labels in found if "orders" in labels and name.startswith(("replica", "view", "compar"))]


def test_nothing_is_forgotten_while_nobody_asks_the_brokers(state: MonitorState, clock: Clock) -> None:
    away = {**dict.fromkeys(REFUSED.keys() & reported().keys()), "reachable": False, "problem": "unreachable"}
    heard(state, clock, 60)
    state.update_progress([reported(broker=1), reported() | away, reported(topic="secret", broker=1) | REFUSED])
    state.update_positions(IsolationLevel.READ_COMMITTED, {("orders", 0, 2): 50})
    state.update_absences(Absences(absent=(absence(),)))
    state.update_coverage([in_part()])
    before = samples(state)
    clock.now += 7200  # As while the disk is full, or the query hangs.
    state.update_progress([reported(broker=1)])  # The first that is heard is not all.
    found = samples(state)
    assert found["broker_reachable", ("2",)] == 0
    assert found["unauthorized_replicas", ("secret", "read")] == 1
    assert found.keys() >= {key for key in before if key[0].startswith(("replica_", "view_", "compared_"))}


def test_that_no_topic_matches_does_not_end_because_a_query_stalls(state: MonitorState, clock: Clock) -> None:
    state.update_query(replace(Report(), last_progress=clock.now))
    heard(state, clock, 1)
    samples(state)
    heard(state, clock, 61)
    state.update_query(replace(Report(), last_progress=clock.now))
    assert samples(state)["nothing_watched", ()] == 1
    clock.now += 3600
    assert samples(state)["nothing_watched", ()] == 1
    state.update_progress([reported()])
    assert samples(state)["nothing_watched", ()] == 0


def test_before_anything_is_known_nothing_is_made_up(state: MonitorState) -> None:
    found = samples(state)
    assert ("heartbeat_timestamp_seconds", frozenset()) not in found
    assert found["findings_writable", ()] == 1


def test_the_comparison_alone_tells_of_the_replicas_where_progress_is_not_handed_in(state: MonitorState) -> None:
    state.update_coverage([in_part()])
    found = samples(state)
    assert found["replica_high_watermark", ("orders", "0", "2")] == 100
    assert found["view_position", ("orders", "0", "2", "read_committed")] == 90
    assert found["broker_reachable", ("2",)] == 1


class TestInitialReading:
    def row(self, broker: int, high: int = 10, stable: int = 8, **more: Any) -> dict[str, Any]:
        fields = {"broker": broker, "high_watermark": high, "last_stable_offset": stable, "replicas": [1, 2]}
        return reported(**fields | more)

    def read(self, state: MonitorState, broker: int, uncommitted: int, committed: int) -> None:
        replica = ("orders", 0, broker)
        state.update_positions(IsolationLevel.READ_UNCOMMITTED, {replica: uncommitted})
        state.update_positions(IsolationLevel.READ_COMMITTED, {replica: committed})

    def complete(self, state: MonitorState) -> tuple[float, float]:
        found = samples(state)
        return found["initial_reading_complete", ("orders", "0")], found["initial_readings_outstanding", ()]

    def test_it_is_complete_once_every_replica_is_read_up_to_where_it_was_at_the_start(
        self, state: MonitorState
    ) -> None:
        assert ("initial_readings_outstanding", ()) not in samples(state)
        state.update_progress([self.row(1), self.row(2)])
        self.read(state, 1, 10, 8)
        assert self.complete(state) == (0, 1)
        state.update_progress([self.row(1, 30, 30), self.row(2, 30, 30)])
        self.read(state, 2, 10, 7)
        assert self.complete(state) == (0, 1)
        self.read(state, 2, 10, 8)
        assert self.complete(state) == (1, 0)
        state.update_progress([self.row(1, 99, 99), self.row(2, 99, 99)])
        assert self.complete(state) == (1, 0), "what was once read stays so"

    def test_a_replica_that_has_never_answered_is_waited_for_until_it_leaves_the_set(self, state: MonitorState) -> None:
        away = {"reachable": False, "high_watermark": None, "last_stable_offset": None, "log_start_offset": None}
        state.update_progress([self.row(1), self.row(2, **away)])
        self.read(state, 1, 10, 8)
        assert self.complete(state) == (0, 1)
        state.update_progress([self.row(1, replicas=[1])])
        assert self.complete(state) == (1, 0)

    def test_a_topic_that_was_re_created_is_to_be_read_again(self, state: MonitorState) -> None:
        state.update_progress([self.row(1, topic_id="a"), self.row(2, topic_id="a")])
        self.read(state, 1, 10, 8)
        self.read(state, 2, 10, 8)
        assert self.complete(state) == (1, 0)
        state.update_progress([self.row(1, 5, 5, topic_id="b"), self.row(2, 5, 5, topic_id="b")])
        assert self.complete(state) == (0, 1), "the positions are of the log that is gone"
        self.read(state, 1, 5, 5)
        self.read(state, 2, 5, 5)
        assert self.complete(state) == (1, 0)

    def test_an_empty_log_has_nothing_to_be_read(self, state: MonitorState) -> None:
        state.update_progress([self.row(1, 5, 5, log_start_offset=5), self.row(2, 10, 0)])
        state.update_positions(IsolationLevel.READ_UNCOMMITTED, {("orders", 0, 2): 10})
        assert self.complete(state) == (1, 0)


def test_a_replica_that_may_not_be_read_is_unauthorized_and_its_broker_is_reachable(state: MonitorState) -> None:
    state.update_progress([reported(**REFUSED)])
    found = samples(state)
    assert found["unauthorized_replicas", ("orders", "read")] == 1
    assert found["broker_reachable", ("2",)] == 1


def test_what_may_not_be_read_is_unknown_up_to_the_end_of_the_log_and_at_least_one_offset(state: MonitorState) -> None:
    committed = IsolationLevel.READ_COMMITTED
    state.update_progress([reported()])
    state.update_coverage([in_part(unknown={})])
    state.update_positions(committed, {("orders", 0, 2): 90, ("orders", 0, 1): 100})
    state.update_progress([reported(**REFUSED)])
    unknown = "unknown_offsets", ("orders", "0", "read_committed", "unauthorized")
    assert samples(state)[unknown] == 1
    state.update_progress([reported(**{**REFUSED, "log_end_offset": 200})])
    assert samples(state)[unknown] == 100, "what lies beyond the furthest reader"


def test_where_a_right_is_granted_again_nothing_is_left_of_it_but_a_zero(state: MonitorState) -> None:
    state.update_progress([reported(**REFUSED)])
    state.update_progress([reported()])
    state.update_coverage([in_part(unknown={})])
    found = samples(state)
    assert found["unauthorized_replicas", ("orders", "read")] == 0
    assert found["unknown_offsets", ("orders", "0", "read_committed", "unauthorized")] == 0


def test_a_replica_that_may_not_be_read_has_no_lag_that_anybody_could_tell(state: MonitorState) -> None:
    state.update_progress([reported()])
    state.update_positions(IsolationLevel.READ_COMMITTED, {("orders", 0, 2): 100})
    state.update_progress([reported(**REFUSED)])
    assert not [name for name, _ in samples(state) if name in ("view_lag_offsets", "replica_high_watermark")]


def test_one_replica_without_an_answer_does_not_make_its_broker_unreachable(state: MonitorState) -> None:
    lost_disk = reported(partition=1, reachable=False, problem="not_hosted", missing_right=None)
    state.update_progress([reported(), lost_disk])
    assert samples(state)["broker_reachable", ("2",)] == 1


def test_a_replica_of_a_deleted_topic_is_unauthorized_no_longer(state: MonitorState, clock: Clock) -> None:
    state.update_progress([reported(**REFUSED)])
    clock.now += 599
    assert samples(state)["unauthorized_replicas", ("orders", "read")] == 1
    clock.now += 2
    assert ("unauthorized_replicas", ("orders", "read")) not in samples(state)


def looked(state: MonitorState, at: float) -> None:
    """All queries were seen to look for more."""
    for name in ("read_committed", "compare"):
        state.update_query(replace(Report(), name=name, last_progress=at))


def test_while_there_is_nothing_to_compare_looking_for_more_is_a_sign_of_life(
    state: MonitorState, clock: Clock
) -> None:
    state.update_coverage([in_part(compared_at=int(clock.now * 1000))])
    clock.now += 30
    looked(state, clock.now)
    assert state.snapshot().heartbeat == clock.now


def test_what_was_recorded_and_never_compared_is_no_sign_of_life(state: MonitorState, clock: Clock) -> None:
    state.update_coverage([in_part(compared_at=int(clock.now * 1000))])
    state.update_positions(IsolationLevel.READ_COMMITTED, {("orders", 0, 1): 7})
    looked(state, clock.now + 30)
    assert state.snapshot().heartbeat == clock.now


def test_a_query_that_does_not_look_is_no_sign_of_life(state: MonitorState, clock: Clock) -> None:
    state.update_coverage([in_part(compared_at=int(clock.now * 1000))])
    looked(state, clock.now + 30)
    state.update_query(replace(Report(), name="progress", last_progress=clock.now - 60))
    assert state.snapshot().heartbeat == clock.now


def test_that_nothing_comes_for_ever_is_no_sign_of_life(state: MonitorState, clock: Clock) -> None:
    began = clock.now
    state.update_coverage([in_part(compared_at=int(began * 1000))])
    clock.now += 500
    looked(state, clock.now)
    assert state.snapshot().heartbeat == began + 450


@pytest.mark.parametrize(
    ("more", "section"),
    [
        ({}, "a-missed-tombstone"),
        ({"broker": NOBODY, "kind": FindingKind.VISIBILITY_MISMATCH}, "without-direction"),
        ({"broker": NOBODY, "status": FindingStatus.UNSETTLED}, "parallaxdivergenceunsettled"),
        ({"status": FindingStatus.SPREAD}, "parallaxlosscomplete"),
    ],
)
def test_an_alert_leads_to_the_section_that_says_what_to_do_as_every_other_message_does(
    more: dict[str, Any], section: str
) -> None:
    one, state = finding("f1", **more), MonitorState()
    state.update_findings(FindingsStatus(open=(one,)))
    (said,) = (
        sample.labels
        for family in ParallaxCollector(state).of_the_job()
        for sample in family.samples
        if sample.name == "parallax_finding_info"
    )
    assert said["runbook"] == section
    assert runbook_of(one) == f"docs/runbook.md#{section}"


def test_a_job_that_knows_its_settings_says_how_commands_name_it_and_where_its_page_is() -> None:
    def said(shell: Shell, page: str) -> list[tuple[str, str]]:
        families = ParallaxCollector(MonitorState(shell=shell), places=Places(page=page)).collect()
        found = [one.labels for each in families for one in each.samples if one.name == "parallax_job_info"]
        return [(one["options"], one["page_url"]) for one in found]

    shell = Shell.of({"bootstrap.servers": "a:9092"}, "/etc/my p.yaml")
    assert said(shell, "") == [("-c '/etc/my p.yaml'", "")]
    assert said(shell, "https://monitor.example") == [("-c '/etc/my p.yaml'", "https://monitor.example/")]
    assert said(ANYWHERE, "") == []
