"""What is posted, as Alertmanager, Slack and PagerDuty document it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from parallax.alerting.webhook.bodies import MOST_ALERTS, body
from parallax.alerting.webhook.outbox import Message, Outbox, Pace
from parallax.config import WebhookSettings
from parallax.findings.finding import Finding
from tests.samples import finding

ALERTMANAGER = WebhookSettings.model_validate({"name": "hook", "url": "http://127.0.0.1/"})
SLACK = WebhookSettings.model_validate({"name": "chat", "format": "slack", "url": "http://127.0.0.1/"})
PAGERDUTY = WebhookSettings.model_validate({"name": "pager", "format": "pagerduty", "routing_key": "secret-key"})


def message(*findings: Finding, over: tuple[Finding, ...] = ()) -> Message:
    outbox = Outbox(Pace(repeat_s=3600), Random(1))
    outbox.observe([*findings, *over], 1000.0)
    outbox.observe(findings, 1001.0)
    found = outbox.due(2000.0)
    assert found is not None
    return found


def as_posted(told: Message, settings: WebhookSettings, cluster: str = "lab") -> dict[str, Any]:
    return dict(body(told, settings, cluster))


def test_alertmanagers_payload_names_the_incident_and_each_finding() -> None:
    posted = as_posted(message(finding("a"), over=(replace(finding("b"), exposed=True),)), ALERTMANAGER)
    assert posted["version"] == "4"
    assert (posted["status"], posted["receiver"], posted["truncatedAlerts"]) == ("firing", "hook", 0)
    assert posted["groupLabels"] == {"cluster": "lab", "topic": "orders", "partition": "0"}
    assert posted["groupKey"] == 'parallax/hook:{cluster="lab", partition="0", topic="orders"}'
    assert posted["commonLabels"] == {**posted["groupLabels"], "severity": "critical"}
    first, second = posted["alerts"]
    assert first["labels"] == {
        "alertname": "ParallaxDivergenceConfirmed",
        "severity": "critical",
        "cluster": "lab",
        "topic": "orders",
        "partition": "0",
        "finding_id": "a",
    }
    assert first["annotations"] == {
        "summary": "The replicas of orders-0 of cluster lab differ",
        "description": "Broker 2 shows a <deleted> record & more.",
        "kind": "deleted_record_resurrected",
        "broker_id": "2",
        "offset": "17",
        "command": "parallax findings explain a -c CONFIG",
        "record_command": "parallax show-record --topic orders --partition 0 --offset 17 -c CONFIG",
        "runbook_url": "docs/runbook.md#parallaxdivergenceconfirmed",
        "kind_runbook_url": "docs/runbook.md#a-missed-tombstone",
    }
    assert (first["status"], first["startsAt"], first["endsAt"]) == (
        "firing",
        "2026-01-02T03:04:05+00:00",
        "0001-01-01T00:00:00Z",
    )
    assert (second["status"], second["labels"]["alertname"]) == ("resolved", "ParallaxDivergenceExposed")
    assert second["endsAt"] == "1970-01-01T00:16:41+00:00"
    assert len(first["fingerprint"]) == 16
    assert first["fingerprint"] != second["fingerprint"]


def test_a_cluster_without_a_name_is_no_label() -> None:
    posted = as_posted(message(finding("a")), ALERTMANAGER, cluster="")
    assert "cluster" not in posted["alerts"][0]["labels"]
    assert posted["groupLabels"] == {"topic": "orders", "partition": "0"}


def test_of_very_many_findings_a_message_names_some_and_counts_the_others() -> None:
    told = message(*(finding(f"f{n:04}") for n in range(MOST_ALERTS + 7)))
    posted = as_posted(told, ALERTMANAGER)
    assert (len(posted["alerts"]), posted["truncatedAlerts"]) == (MOST_ALERTS, 7)
    assert "and 97 more" in as_posted(told, SLACK)["text"]
    assert len(as_posted(told, PAGERDUTY)["payload"]["custom_details"]) == 10


def test_all_partitions_beyond_the_bound_are_one_incident_of_the_cluster() -> None:
    outbox = Outbox(Pace(repeat_s=3600), Random(1))
    outbox.observe([finding(f"f{n}", partition=n) for n in range(60)], 1000.0)
    labels = []
    while (told := outbox.due(2000.0)) is not None:
        labels.append(as_posted(told, ALERTMANAGER)["groupLabels"])
        outbox.delivered(told, 2000.0)
    assert labels.count({"cluster": "lab"}) == 1
    assert len(labels) == 51


def test_slack_is_told_in_text_that_it_cannot_misread() -> None:
    firing = as_posted(message(finding("a"), replace(finding("b"), exposed=True)), SLACK)["text"]
    assert firing.splitlines()[0] == "*FIRING* Consumers of orders-0 of cluster lab read diverged data (1 more finding)"
    assert "Broker 2 shows a &lt;deleted&gt; record &amp; more." in firing
    assert "`parallax findings explain a -c CONFIG`" in firing
    over = as_posted(message(over=(finding("a"),)), SLACK)["text"]
    assert over.startswith("*RESOLVED* The replicas of orders-0 of cluster lab differ\n• (over) ")


def test_pagerduty_opens_one_incident_and_resolves_the_same() -> None:
    opened = as_posted(message(finding("a"), replace(finding("b"), exposed=True)), PAGERDUTY)
    closed = as_posted(message(over=(finding("a"),)), PAGERDUTY)
    assert (opened["event_action"], closed["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == closed["dedup_key"]
    assert len(opened["dedup_key"]) <= 255
    assert opened["routing_key"] == "secret-key"
    payload = opened["payload"]
    assert (payload["severity"], payload["source"], payload["component"]) == ("critical", "lab", "orders-0")
    assert payload["summary"] == "Consumers of orders-0 of cluster lab read diverged data (1 more finding)"
    assert set(payload["custom_details"]) == {"a", "b"}
    other = as_posted(message(finding("a", topic="payments")), PAGERDUTY)
    assert other["dedup_key"] != opened["dedup_key"]


def test_a_summary_is_no_longer_than_pagerduty_takes() -> None:
    posted = as_posted(message(finding("a", topic="t" * 249)), PAGERDUTY, cluster="c" * 2000)
    assert len(posted["payload"]["summary"]) == 1024
