"""What a real Alertmanager writes to people and services by the shipped templates of texts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from parallax.alerting.listing import Turn
from parallax.lab.waiting import until
from tests.e2e.alerting import CRITICAL, ONE_OF_EACH, RULES, alert, of_finding, sending
from tests.e2e.prometheus import INSTALLED


def ended(one: Mapping[str, Any], at: datetime | None = None) -> dict[str, Any]:
    """An alert that has ended: now, or at some time."""
    return {**one, "endsAt": (at or datetime.now(UTC)).isoformat()}


def saying(rule: Mapping[str, Any], state: str) -> str:
    """What a message says of an alert of a rule in a state."""
    return f"{rule['annotations'][f'{state}summary']}\n{rule['annotations'][f'{state}description']}"


if INSTALLED:

    def test_what_is_resolved_says_in_the_past_what_it_was(tmp_path: Path) -> None:
        rules = {name: rule for name, rule in RULES.items() if rule["labels"]["severity"] in ("critical", "warning")}
        alerts = [
            {"labels": one, "annotations": {**rules[one["alertname"]]["annotations"], "resolved_turn": ""}}
            for one in ONE_OF_EACH
            if one["alertname"] in rules
        ]
        with sending(tmp_path) as sent:

            def texts_sent() -> tuple[list[str], list[str]]:
                """The text of each message, at Slack and at PagerDuty."""
                pagerduty = [body["payload"] for body in sent.bodies("/pagerduty")]
                return (
                    [f"{one['title']}\n{one['text']}" for one in sent.chat],
                    [f"{one['summary']}\n{one['custom_details']['text']}" for one in pagerduty],
                )

            def all_sent() -> bool:
                return all(len(texts) == len(alerts) for texts in texts_sent())

            sent.alertmanager.post(*alerts)
            until(all_sent, "each alert to be sent")
            for texts in texts_sent():
                for rule in rules.values():
                    assert any(saying(rule, "") in text for text in texts), rule["alert"]
            sent.receiver.messages.clear()
            sent.alertmanager.post(*map(ended, alerts))
            until(all_sent, "each end to be sent")
            for texts in texts_sent():
                assert all(text.startswith("[RESOLVED] ") for text in texts)
                for rule in rules.values():
                    assert any(saying(rule, "resolved_") in text for text in texts), rule["alert"]
                    assert not any(rule["annotations"]["summary"] in text for text in texts), rule["alert"]

    def test_that_a_finding_is_less_grave_has_people_told_no_second_time_what_ended_before(tmp_path: Path) -> None:
        def alerts(name: str, **times: str) -> dict[str, Any]:
            said = {"summary": name, "description": name, "resolved_summary": "", "resolved_turn": ""}
            return {"labels": of_finding("lab", alertname=name), "annotations": said} | times

        began = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
        with sending(tmp_path) as sent:
            page, known = alerts("ParallaxDivergenceExposed"), alerts("ParallaxFindingAcknowledged", startsAt=began)
            sent.alertmanager.post(known)
            until(lambda: len(sent.chat) == 1, "people to hear that it is known")
            over = ended(known)
            sent.alertmanager.post(page, over)
            until(lambda: len(sent.chat) == 2, "people to hear that it is worse")
            sent.alertmanager.post(alerts("ParallaxFindingLessGrave"))
            until(lambda: len(sent.chat) == 3, "people to hear that it is less grave")
            # As Prometheus does each minute; what comes later is seen first where it is sent at all.
            sent.alertmanager.post(over)
            sent.alertmanager.post({"labels": of_finding("lab", partition=1), "annotations": page["annotations"]})
            until(lambda: len(sent.chat) > 3, "people to hear of another partition")
            assert [one["text"].split()[0] for one in sent.chat] == [
                "ParallaxFindingAcknowledged",
                "ParallaxDivergenceExposed",
                "ParallaxFindingLessGrave",
                "ParallaxDivergenceExposed",
            ]

    def test_the_title_counts_findings_and_not_their_alerts(tmp_path: Path) -> None:
        with sending(tmp_path, group_by="cluster") as sent:

            def alerts(cluster: str, *ids: str) -> list[dict[str, Any]]:
                said = {"summary": "Broker 2 lacks it", "resolved_summary": "Replicas differed", "resolved_turn": ""}
                return [
                    {"labels": of_finding(cluster, name=name, alertname=alarm), "annotations": said}
                    for name in ids
                    for alarm in CRITICAL
                ]

            one, three = alerts("one", "f1"), alerts("three", "f1", "f2", "f3")
            sent.alertmanager.post(*one, *three)
            until(lambda: len(sent.titles) == 2, "both groups")
            assert sorted(sent.titles) == [
                "[FIRING] Broker 2 lacks it",
                "[FIRING] Broker 2 lacks it (and 2 more findings)",
            ]
            sent.alertmanager.post(*map(ended, [*one, *three]))
            until(lambda: len(sent.titles) == 4, "their ends")
            over = "[RESOLVED] Replicas differed"
            assert sorted(sent.titles[2:]) == [over, f"{over} (and 2 more findings)"]
            absent = [alert("ParallaxBrokerUnreachable", cluster="c", broker_id=name) for name in "12"]
            sent.alertmanager.post(*({"labels": labels, "annotations": {"summary": "It is away"}} for labels in absent))
            until(lambda: len(sent.titles) == 5, "what is about no finding")
            assert sent.titles[4] == "[FIRING] It is away (and 1 more alert)"

    def test_the_end_of_an_outage_is_one_message_to_chat_which_says_it_once(tmp_path: Path) -> None:
        with sending(tmp_path) as sent:

            def of(name: str, broker: str = "2") -> dict[str, Any]:
                end = {"resolved_summary": f"The outage of broker {broker} is over (cluster c)", "resolved_turn": ""}
                end |= {"resolved_description": "Broker 2 was back in time."}
                return {"labels": alert(name, cluster="c", broker_id=broker), "annotations": {"summary": "Away", **end}}

            begun, worse = of("ParallaxReplicaOutage"), of("ParallaxReplicaRemoval")
            sent.alertmanager.post(begun)
            until(lambda: len(sent.titles) == 1, "its begin")
            sent.alertmanager.post(begun, worse)
            until(lambda: len(sent.titles) == 2, "that it is worse")
            assert sent.titles == ["[FIRING] Away"] * 2
            sent.alertmanager.post(ended(begun), ended(worse))
            until(lambda: len(sent.titles) == 3, "its end")
            assert sent.titles[2] == "[RESOLVED] The outage of broker 2 is over (cluster c)"
            text = sent.chat[2]["text"]
            assert text.count("The outage of broker 2 is over") == 1
            assert text.count("was back in time") == 1
            for broker in "34":
                # A second end would come with the next turn of the group, before what another broker begins.
                sent.alertmanager.post(of("ParallaxReplicaOutage", broker))
                until(lambda: len(sent.titles) == int(broker) + 1, "another outage, by itself")  # noqa: B023
            assert [one.split()[0] for one in sent.titles[2:]] == ["[RESOLVED]", "[FIRING]", "[FIRING]"], "one end"

    def test_of_a_finding_whose_alerts_are_grouped_otherwise_its_end_is_told_once(tmp_path: Path) -> None:
        with sending(tmp_path, group_by="cluster") as sent:

            def of(name: str, ends: str, turn: str) -> dict[str, Any]:
                said = {**RULES[name]["annotations"], "summary": "Broker 2 lacks it", "resolved_summary": ends}
                return {"labels": of_finding("lab", alertname=name), "annotations": said | {"resolved_turn": turn}}

            began = {"startsAt": (datetime.now(UTC) - timedelta(minutes=5)).isoformat()}
            worse = of("ParallaxDivergenceConfirmed", "It has not ended: consumers see it now", Turn.WORSE)
            over = of("ParallaxDivergenceExposed", "Replicas differed, and that is over", "")
            sent.alertmanager.post(worse | began, over | began)
            until(lambda: len(sent.chat) == 1, "both")
            before = datetime.now(UTC) - timedelta(minutes=1)
            sent.alertmanager.post(ended(worse | began, before), ended(over | began))
            until(lambda: len(sent.chat) == 2, "their end")
            assert sent.chat[1]["title"] == "[RESOLVED] Replicas differed, and that is over"
            assert sent.chat[1]["color"] == "good"
            assert sent.chat[1]["text"].count("Over: Replicas differed, and that is over") == 1
            assert "consumers see it now" not in sent.chat[1]["text"]
            del over["annotations"]["resolved_summary"]
            sent.alertmanager.post(over)
            until(lambda: len(sent.chat) == 3, "it to be back")
            sent.alertmanager.post(ended(over))
            until(lambda: len(sent.chat) == 4, "its end, of which nothing was said")
            assert sent.chat[3]["title"] == "[CHANGED] Nobody knows whether this is over: Broker 2 lacks it"
            assert "Over" not in sent.chat[3]["text"]

    def test_a_note_of_an_acknowledgement_has_a_title_and_a_colour_of_its_own_and_one_link(tmp_path: Path) -> None:
        name, page = "ParallaxFindingAcknowledged", "https://monitor.example/findings/f1"
        said = {"summary": "Acknowledged, still open: Broker 2 lacks it", "description": "By ann: known."}
        links = {"page_url": page, "command": "parallax findings explain f1", "runbook_url": "https://docs.example/"}
        ends = {"resolved_turn": "", "resolved_summary": "Replicas differed", "resolved_description": "It healed."}
        with sending(tmp_path) as sent:
            labels = {**of_finding("lab", alertname=name), "severity": "critical"}
            note: dict[str, Any] = {"labels": labels, "annotations": {**said, **links}}
            sent.alertmanager.post(note)
            until(lambda: len(sent.chat) == 1, "the note")
            (one,) = sent.chat
            assert (one["title"], one["color"]) == ("[ACKNOWLEDGED] Still open: Broker 2 lacks it", "warning")
            assert one["text"].strip() == f"{said['summary']}\nBy ann: known.\nPage: {page}"
            note["annotations"] |= ends
            sent.alertmanager.post(ended(note))
            until(lambda: len(sent.chat) == 2, "its end")
            over = sent.chat[1]
            assert (over["title"], over["color"]) == ("[RESOLVED] Replicas differed", "good")
            assert over["text"].strip() == f"Over: Replicas differed\nIt healed.\nWhat it was: {page}"

    def test_an_alert_of_another_system_has_no_empty_lines_for_what_it_does_not_say(tmp_path: Path) -> None:
        with sending(tmp_path) as sent:
            sent.alertmanager.post({"labels": {"alertname": "DiskFull", "severity": "critical"}})
            until(lambda: sent.chat, "the page")
            (one,) = sent.chat
            assert (one["title"], one["text"].strip()) == ("[FIRING] DiskFull", "DiskFull")
