"""What an alert says of itself once it is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.conditions import CONDITIONS, OUTAGE, Suffered
from parallax.alerting.places import Places
from parallax.alerting.state import MonitorState
from parallax.alerting.webhook.alerts import of_condition, of_finding, over
from parallax.findings.happenings import FindingsStatus
from parallax.findings.repair import show_seen
from parallax.kinds import Variant
from parallax.model import FindingKind, Severity, TopicPartition
from parallax.shell import ANYWHERE, Shell
from tests.builders.findings import evidence, finding

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LABELS = {
    "broker_id": "2",
    "topic": "orders",
    "partition": "0",
    "query": "compare",
    "isolation_level": "read_committed",
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_what_a_job_suffered_says_in_words_that_it_is_over_and_what_that_leaves_open(name: str) -> None:
    places = Places(shell=Shell(config="/etc/my parallax.yaml"))
    stands = of_condition(Suffered(name, LABELS, NOW), None, places)
    ended = over(stands, NOW, places)
    for alert in (stands, ended):
        assert alert.annotations["summary"]
        assert not {"{", "}"} & set(alert.annotations["summary"] + alert.annotations["description"])
    assert len(ended.annotations["description"].split()) > 5, "that it is over alone says nothing"


def test_an_outage_is_one_alert_that_becomes_worse_and_ends_with_what_came_of_it() -> None:
    about = {"headline": "Broker 2 is away (orders)", "now": "What it lacks is kept until noon."}
    first = of_condition(Suffered(OUTAGE, {"broker_id": "2"}, NOW, about), None, Places(cluster="lab"))
    assert first.annotations["summary"] == "Broker 2 is away (orders) (cluster lab)"
    assert first.annotations["description"] == about["now"]
    told = replace(first, told=first.said)
    worse = of_condition(Suffered("ParallaxReplicaRemoval", {"broker_id": "2"}, NOW, about), told, Places())
    assert (worse.name, worse.is_news, worse.severity) == (first.name, True, Severity.CRITICAL)
    told = replace(worse, told=worse.said)
    late = about | {"headline": "Broker 2 was back too late (orders)", "outcome": "Nothing was lost."}
    back = of_condition(Suffered(OUTAGE, {"broker_id": "2"}, NOW, late), told, Places())
    assert not back.is_news, "it is not told that it is better before it is over"
    assert back.annotations["summary"].startswith("Broker 2 was back too late (orders)")
    ended = over(back, NOW, Places())
    assert ended.annotations["summary"] == "The outage of broker 2 is over"
    assert ended.annotations["description"] == "Nothing was lost."
    again = of_condition(Suffered(OUTAGE, {"broker_id": "2"}, NOW, about), ended, Places())
    assert again.severity is Severity.WARNING, "the next outage begins with its own"


def test_an_alert_that_fires_says_nothing_of_its_end_but_what_is_known_of_it() -> None:
    about = {"headline": "Broker 2 is away (orders)", "now": "Bring it back.", "outcome": ""}
    stands = of_condition(Suffered(OUTAGE, {"broker_id": "2"}, NOW, about), None, Places())
    assert stands.annotations.keys() == {"summary", "description", "runbook_url"}
    known = of_condition(Suffered(OUTAGE, {"broker_id": "2"}, NOW, about | {"outcome": "It is."}), None, Places())
    assert known.annotations.keys() == {"summary", "description", "runbook_url", "resolved_description"}


def test_how_it_ended_that_a_broker_did_not_answer_is_the_last_word() -> None:
    one = Suffered("ParallaxBrokerUnreachable", {"broker_id": "2"}, NOW, {"outcome": "It holds nothing any more."})
    ended = over(of_condition(one, None, Places()), NOW, Places())
    assert ended.annotations["description"] == "It holds nothing any more."


def test_of_an_outage_that_nobody_says_more_of_any_more_it_is_said_what_its_end_means() -> None:
    stands = of_condition(Suffered(OUTAGE, {"broker_id": "2"}, NOW), None, Places())
    assert over(stands, NOW, Places()).annotations["description"] == CONDITIONS[OUTAGE].left


@pytest.mark.parametrize("kind", FindingKind)
@pytest.mark.parametrize("variant", Variant)
def test_an_alert_its_metric_and_its_commands_name_one_offset(kind: FindingKind, variant: Variant) -> None:
    replicas = {2: {"key": {"visible": {"offset": 9, "value_size": 5}}, "committed": []}}
    wrong = finding("f1", kind=kind, offset=17, evidence=evidence({}, variant=str(variant), replicas=replicas))
    said = of_finding(wrong, None, TopicPartition("orders", 0), Places()).annotations
    state = MonitorState()
    state.update_findings(FindingsStatus(open=(wrong,)))
    labels = [
        sample.labels
        for metric in ParallaxCollector(state).collect()
        for sample in metric.samples
        if sample.name == "parallax_finding_info"
    ]
    offset = said["record_offset"]
    assert {one["record_offset"] for one in labels} == {offset}
    assert f"--offset {offset} " in said["record_command"]
    assert f"--offset {offset} " in show_seen(wrong, ANYWHERE)


def test_the_offset_of_a_finding_is_the_one_of_the_record_that_its_text_and_its_command_name() -> None:
    visible = {"offset": 9, "value_size": 5}
    wrong = finding("f1", offset=17, evidence=evidence({}, {2: {"key": {"visible": visible}}}))
    said = of_finding(wrong, None, TopicPartition("orders", 0), Places()).annotations
    assert said["record_offset"] == "9"
    assert "--offset 9 " in said["record_command"]
    assert "offset" not in said, "of what would nobody know"
