"""What is posted, as Alertmanager, Slack and PagerDuty document it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from parallax.alerting.conditions import CONDITIONS, Suffered
from parallax.alerting.listing import FindingState, Turn, headline, what_came_of_it
from parallax.alerting.places import Places
from parallax.alerting.webhook.alerts import of_condition
from parallax.alerting.webhook.bodies import MOST_ALERTS, bodies
from parallax.alerting.webhook.outbox import Message, Outbox, Pace
from parallax.config import WebhookSettings
from parallax.findings.acknowledge import acknowledged
from parallax.findings.ended import READ_THERE
from parallax.findings.finding import Finding
from parallax.kinds import Variant, effect_of
from parallax.model import FindingKind, FindingStatus
from parallax.shell import Shell
from tests.builders.findings import finding
from tests.unit.alerting.webhook.messages import LAB, message

ALERTMANAGER = WebhookSettings.model_validate({"name": "hook", "url": "http://127.0.0.1/"})
SLACK = WebhookSettings.model_validate({"name": "chat", "format": "slack", "url": "http://127.0.0.1/"})
PAGERDUTY = WebhookSettings.model_validate({"name": "pager", "format": "pagerduty", "routing_key": "secret-key"})


LINKED = Places("lab", "https://docs.example/runbook.md", "https://monitor.example/parallax")


def known(of: Finding) -> Finding:
    return acknowledged(of, "known & wanted", "ann", of.decided_at)


def as_posted(told: Message, settings: WebhookSettings, places: Places = LAB) -> dict[str, Any]:
    (posted,) = bodies(told, settings, places)
    return dict(posted)


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
        "summary": "Broker 2 still shows a deleted record of orders-0 (cluster lab)",
        "description": "Broker 2 shows a <deleted> record & more.",
        "kind": "deleted_record_resurrected",
        "broker_id": "2",
        "record_offset": "17",
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
    ended = second["annotations"]
    assert (ended["resolved_summary"], ended["resolved_description"]) == (ended["summary"], ended["description"])
    assert len(first["fingerprint"]) == 16
    assert first["fingerprint"] != second["fingerprint"]


def test_a_cluster_without_a_name_is_no_label() -> None:
    posted = as_posted(message(finding("a")), ALERTMANAGER, Places())
    assert "cluster" not in posted["alerts"][0]["labels"]
    assert posted["groupLabels"] == {"topic": "orders", "partition": "0"}


def test_of_very_many_findings_a_message_names_some_and_counts_the_others() -> None:
    told = message(*(finding(f"f{n:04}") for n in range(MOST_ALERTS + 7)))
    posted = as_posted(told, ALERTMANAGER)
    assert (len(posted["alerts"]), posted["truncatedAlerts"]) == (MOST_ALERTS, 7)
    assert "and 97 more findings: " in as_posted(told, SLACK)["text"]
    details = as_posted(told, PAGERDUTY)["payload"]["custom_details"]
    assert len([name for name in details if not name.endswith(" command")]) == 10


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
    assert (
        firing.splitlines()[0]
        == "*FIRING* Broker 2 still shows a deleted record of orders-0; the leader is wrong (cluster lab)"
        " (and 1 more finding)"
    )
    assert "Broker 2 shows a &lt;deleted&gt; record &amp; more." in firing
    assert "`parallax findings explain a -c CONFIG`" in firing
    over = as_posted(message(over=(finding("a"),)), SLACK)["text"]
    assert over.splitlines() == [
        "*RESOLVED* Broker 2 still showed a deleted record of orders-0; that is over (cluster lab)",
        "• Broker 2 showed it. Healed: gone.",
        "   What it was: `parallax findings explain a -c CONFIG`",
    ]


def test_commands_for_slack_can_be_pasted_whatever_the_path_of_the_settings_holds() -> None:
    def text(config: str) -> str:
        places = Places(shell=Shell(config=config))
        told = message(*(finding(f"f{number}") for number in range(12)), places=places)
        return str(as_posted(told, SLACK, places)["text"])

    assert text("/etc/a b.yaml").splitlines()[-1] == "and 2 more findings: `parallax findings list -c '/etc/a b.yaml'`"
    assert "`parallax findings explain f0 -c '/etc/&lt;a&gt;.yaml'`" in text("/etc/<a>.yaml")
    with_backtick = text("/etc/a`b.yaml")
    assert "```parallax findings explain f0 -c '/etc/a`b.yaml'```" in with_backtick
    assert "`" not in re.sub("```.*?```", "", with_backtick)
    assert "`" not in text("/etc/a```b.yaml")


def test_no_text_of_parallax_itself_has_a_character_that_slack_would_have_to_lose() -> None:
    conditions = [text for one in CONDITIONS.values() for text in (one.headline, one.was, one.description, one.left)]
    effects = [text for kind in FindingKind for variant in Variant for text in effect_of(kind, str(variant))]
    over = replace(finding("a"), summary=f"Over. {READ_THERE} could read it.")
    ends = [what_came_of_it(over, Shell()), *(headline(state, over) for state in FindingState)]
    assert not [text for text in (*conditions, *effects, *ends) if set(text) & set("`*")]


def test_what_people_write_formats_nothing_in_slack() -> None:
    known = acknowledged(finding("a"), "*see* `/etc` & <b>", "ann", finding("a").decided_at)
    said = as_posted(message(known), SLACK)["text"]
    assert "\u2217see\u2217 \u02cb/etc\u02cb &amp; &lt;b&gt;" in said


def test_pagerduty_opens_one_incident_and_resolves_the_same() -> None:
    opened = as_posted(message(finding("a"), replace(finding("b"), exposed=True)), PAGERDUTY)
    closed = as_posted(message(over=(finding("a"),)), PAGERDUTY)
    assert (opened["event_action"], closed["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == closed["dedup_key"]
    assert len(opened["dedup_key"]) <= 255
    assert opened["routing_key"] == "secret-key"
    payload = opened["payload"]
    assert (payload["severity"], payload["source"], payload["component"]) == ("critical", "lab", "orders-0")
    assert (
        payload["summary"]
        == "Broker 2 still shows a deleted record of orders-0; the leader is wrong (cluster lab) (and 1 more finding)"
    )
    details = payload["custom_details"]
    assert set(details) == {"a", "a command", "b", "b command"}
    assert details["a command"] == "parallax findings explain a -c CONFIG"
    assert "explain" not in details["a"], "a command has a field of its own, to be copied"
    other = as_posted(message(finding("a", topic="payments")), PAGERDUTY)
    assert other["dedup_key"] != opened["dedup_key"]


def test_a_summary_is_no_longer_than_pagerduty_takes() -> None:
    places = Places(cluster="c" * 2000)
    posted = as_posted(message(finding("a", topic="t" * 249), places=places), PAGERDUTY, places)
    assert len(posted["payload"]["summary"]) == 1024


def test_an_acknowledged_finding_is_over_for_no_receiver_and_each_says_by_whom_and_why() -> None:
    told = message(known(finding("a")))
    for_alertmanager = as_posted(told, ALERTMANAGER)
    (alert,) = for_alertmanager["alerts"]
    assert (for_alertmanager["status"], alert["status"], alert["endsAt"]) == (
        "firing",
        "firing",
        "0001-01-01T00:00:00Z",
    )
    assert alert["labels"] == as_posted(message(finding("a")), ALERTMANAGER)["alerts"][0]["labels"], "it is the same"
    said = alert["annotations"]
    assert (said["acknowledged_by"], said["acknowledged_comment"]) == ("ann", "known & wanted")
    assert (
        said["summary"]
        == "Acknowledged by ann, still open: Broker 2 still shows a deleted record of orders-0 (cluster lab)"
    )
    text = as_posted(told, SLACK)["text"]
    assert text == (
        "*ACKNOWLEDGED* by ann: known &amp; wanted. Still open: Broker 2 still shows a deleted record of orders-0 "
        "(cluster lab) · `parallax findings explain a -c CONFIG`"
    )
    event = as_posted(told, PAGERDUTY)
    assert event["event_action"] == "acknowledge"
    assert event["dedup_key"] == as_posted(message(finding("a")), PAGERDUTY)["dedup_key"]
    assert event["payload"]["custom_details"]["a"].startswith(
        "Acknowledged by ann: known & wanted. Still open: Broker 2"
    )


def test_beside_one_that_asks_for_somebody_an_acknowledged_finding_is_named_as_that() -> None:
    told = message(known(replace(finding("a"), exposed=True)), finding("b"))
    assert as_posted(told, PAGERDUTY)["event_action"] == "trigger"
    text = as_posted(told, SLACK)["text"]
    assert text.startswith(
        "*FIRING* Broker 2 still shows a deleted record of orders-0 (cluster lab) (1 finding acknowledged)"
    )
    assert "• Acknowledged by ann: known &amp; wanted. Still open: Broker 2" in text


def test_an_acknowledgement_of_some_findings_says_which_and_is_no_event_for_pagerduty() -> None:
    outbox = Outbox(Pace(repeat_s=3600), Random(1), LAB)
    many = [finding(name) for name in "abcde"]

    def told(at: float, *standing: Finding) -> Message:
        outbox.observe(standing, at)
        message = outbox.due(at + 10)
        assert message is not None
        outbox.delivered(message, at + 10)
        return message

    told(1000.0, *many)
    in_part = told(1100.0, known(replace(many[0], broker=3)), *many[1:])
    text = as_posted(in_part, SLACK)["text"]
    assert text.startswith(
        "*ACKNOWLEDGED* by ann: known &amp; wanted. Still open: Broker 3 still shows a deleted record of orders-0 "
        "(cluster lab) (4 findings not acknowledged) · `parallax findings explain a -c CONFIG`\n• (not acknowledged) "
    )
    assert text.count("• (not acknowledged) ") == 4
    assert bodies(in_part, PAGERDUTY, LAB) == (), "somebody is called for the others already"
    assert as_posted(in_part, ALERTMANAGER)["status"] == "firing"
    left = told(1200.0, known(replace(many[0], broker=3)))
    assert as_posted(left, PAGERDUTY)["event_action"] == "acknowledge"
    title, *lines = as_posted(left, SLACK)["text"].split("\n•")
    assert "Broker 3 still shows a deleted record of orders-0 (cluster lab) (4 findings over) · " in title
    assert [line.strip().startswith("(over) ") for line in lines] == [True, True, True, True]


def test_an_outage_that_became_worse_is_named_as_the_alert_that_it_is_by_now() -> None:
    begun, about = datetime(2026, 1, 1, tzinfo=UTC), {"headline": "Broker 2 is away", "now": "Bring it back."}
    first = of_condition(Suffered("ParallaxReplicaOutage", {"broker_id": "2"}, begun, about), None, LAB)
    worse = of_condition(Suffered("ParallaxReplicaRemoval", {"broker_id": "2"}, begun, about), first, LAB)
    details = as_posted(Message(worse.group, (worse,), "k"), PAGERDUTY)["payload"]["custom_details"]
    assert details == {'ParallaxReplicaRemoval{broker_id="2"}': "Bring it back."}


def test_what_becomes_worse_is_another_incident_at_pagerduty_and_all_end_together() -> None:
    outbox = Outbox(Pace(repeat_s=3600), Random(1), LAB)

    def events(*standing: Finding) -> list[tuple[str, str]]:
        outbox.observe(standing, now.pop(0))
        told = outbox.due(now[0])
        assert told is not None
        outbox.delivered(told, now[0])
        return [(event["event_action"], event["dedup_key"]) for event in bodies(told, PAGERDUTY, LAB)]

    now = [1000.0 * n for n in range(1, 9)]
    ((opened, first),) = events(finding("a"))
    assert opened == "trigger"
    assert events(known(finding("a"))) == [("acknowledge", first)]
    ((again, second),) = events(replace(finding("a"), exposed=True))
    assert again == "trigger"
    assert second != first, "while an incident is acknowledged PagerDuty notifies nobody of it"
    ((worse, third),) = events(replace(finding("a"), status=FindingStatus.SPREAD))
    assert (worse, third not in (first, second)) == ("trigger", True), "who took it on there is asked again"
    assert events(known(finding("a"))) == [("acknowledge", key) for key in (first, second, third)]
    assert events() == [("resolve", key) for key in (first, second, third)]
    assert events(finding("b")) == [("trigger", first)], "that one is over: it is a new one there as well"


def test_what_has_become_worse_than_was_told_says_so_until_that_is_told() -> None:
    outbox = Outbox(Pace(repeat_s=3600), Random(1), LAB)

    def text(now: float, *standing: Finding) -> str:
        outbox.observe(standing, now)
        told = outbox.due(now + 3600)
        assert told is not None
        outbox.delivered(told, now + 3600)
        (body,) = bodies(told, SLACK, LAB)
        return str(body["text"])

    held = finding("a", kind=FindingKind.READ_COMMITTED_FROZEN)
    seen = replace(held, kind=FindingKind.ABORTED_RECORD_COMMITTED, exposed=True)
    assert "worse" not in text(0, held)
    assert text(10_000, seen).startswith("*FIRING* It has become worse: Broker 2 shows a rolled-back record of")
    assert "worse" not in text(20_000, seen), "that is known by now"
    assert text(30_000, held).startswith("*FIRING* Less grave now: ")
    of_two = text(40_000, finding("b", partition=0, status=FindingStatus.SPREAD), seen)
    assert "• It has become worse: Broker 2" in of_two, "the title is about the other one"
    assert "worse" not in text(50_000)


@pytest.mark.parametrize("worse", [{}, {"exposed": True}, {"status": FindingStatus.UNSETTLED}])
def test_what_is_worse_than_was_acknowledged_has_one_text_whatever_its_state(worse: Mapping[str, Any]) -> None:
    outbox = Outbox(Pace(repeat_s=3600), Random(0), LAB)

    def summary(now: float, one: Finding) -> str:
        outbox.observe([one], now)
        message = outbox.due(now + 3600)
        assert message is not None
        outbox.delivered(message, now + 3600)
        return message.alerts[0].annotations["summary"]

    wrong = finding("a")
    summary(0, known(wrong))
    assert summary(10_000, replace(wrong, **worse)).startswith(Turn.WORSE)


def test_messages_link_to_the_page_and_to_the_runbook() -> None:
    told = message(finding("a/b"), places=LINKED)
    page = "https://monitor.example/parallax/findings/a%2Fb"
    runbook = "https://docs.example/runbook.md#parallaxdivergenceconfirmed"
    posted = as_posted(told, ALERTMANAGER, LINKED)
    assert posted["externalURL"] == "https://monitor.example/parallax/"
    assert posted["alerts"][0]["generatorURL"] == posted["alerts"][0]["annotations"]["page_url"] == page
    text = as_posted(told, SLACK, LINKED)["text"]
    assert f"<{page}|Page> · <{runbook}|Runbook>" in text
    event = as_posted(told, PAGERDUTY, LINKED)
    assert event["links"][:2] == [{"href": page, "text": "Page"}, {"href": runbook, "text": "Runbook"}]
    assert event["client_url"] == "https://monitor.example/parallax/"


def test_what_is_acknowledged_or_over_leads_only_to_what_says_what_it_is_or_was() -> None:
    page = "https://monitor.example/parallax/findings/a"
    known_one, over = message(known(finding("a")), places=LINKED), message(over=(finding("a"),), places=LINKED)
    for told, before in ((known_one, ""), (over, "What it was: ")):
        text = as_posted(told, SLACK, LINKED)["text"]
        assert text.endswith(f"{before}<{page}|Page>")
        assert (text.count("http"), text.count("`")) == (1, 0)
        event = as_posted(told, PAGERDUTY, LINKED)
        assert event["links"] == [{"href": page, "text": "Page"}]
        assert "show-record" not in str(event)
    (alert,) = as_posted(over, ALERTMANAGER, LINKED)["alerts"]
    assert alert["generatorURL"] == alert["annotations"]["page_url"] == page
    assert not {"record_command", "runbook_url", "kind_runbook_url"} & alert["annotations"].keys()


def test_what_is_no_address_is_no_link() -> None:
    assert as_posted(message(finding("a")), PAGERDUTY)["links"] == []
    assert "<docs" not in as_posted(message(finding("a")), SLACK)["text"]
