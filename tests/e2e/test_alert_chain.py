"""From a divergence on real brokers to the person on call: job, Prometheus, Alertmanager, receiver; and back."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from parallax.findings.finding import Finding, shown_offset
from parallax.lab.traffic import PlainProducer
from parallax.lab.waiting import until
from tests.e2e.play import Alerting, Played
from tests.e2e.prometheus import INSTALLED, awaited
from tests.receiver import Message

pytestmark = pytest.mark.timeout(900)


def chain_of(played: Played) -> Alerting:
    assert played.alerting is not None
    return played.alerting


def standing(played: Played) -> list[Finding]:
    return [finding for finding in played.job.findings() if finding.is_open and finding.topic.startswith("gone-")]


def about(message: Message, finding_id: str) -> list[dict[str, Any]]:
    return [alert for alert in message.body["alerts"] if alert["labels"].get("finding_id") == finding_id]


def sent(played: Played, path: str, finding_id: str, status: str) -> list[Message]:
    """The messages in which an alert about a finding has a status."""
    return [
        message
        for message in played.receiver.messages
        if message.path == path and any(alert["status"] == status for alert in about(message, finding_id))
    ]


def of_partitions(played: Played, path: str) -> list[Message]:
    """All messages but those about the job itself, which is away for minutes on a machine that runs other things."""
    return [m for m in played.receiver.messages if m.path == path and "topic" in m.body["groupLabels"]]


def resolved(played: Played, path: str) -> list[str]:
    return [m.body["groupKey"] for m in of_partitions(played, path) if m.body["status"] == "resolved"]


def groups(played: Played, path: str) -> Counter[str]:
    """How many messages there were about each topic."""
    return Counter(m.body["groupLabels"]["topic"] for m in of_partitions(played, path))


if INSTALLED:

    def test_each_finding_pages_once_and_the_page_says_what_was_found(played: Played) -> None:
        until(lambda: len(standing(played)) == 10, "all that diverges to be confirmed")
        findings = standing(played)
        for finding in findings:
            until(lambda f=finding: sent(played, "/page", f.finding_id, "firing"), f"{finding.topic} to page")
        assert groups(played, "/page") == dict.fromkeys([finding.topic for finding in findings], 1)
        for finding in findings:
            (message,) = sent(played, "/page", finding.finding_id, "firing")
            (alert,) = about(message, finding.finding_id)
            assert alert["labels"] == {
                "alertname": "ParallaxDivergenceConfirmed",
                "severity": "critical",
                "cluster": "played",
                "topic": finding.topic,
                "partition": str(finding.partition),
                "finding_id": finding.finding_id,
            }
            said = alert["annotations"]
            assert said["description"] == finding.summary
            assert (said["kind"], said["broker_id"]) == (finding.kind, "2")
            assert said["record_offset"] == str(shown_offset(finding))
            fired = datetime.fromisoformat(alert["startsAt"]).timestamp()
            confirmed = finding.decided_at.timestamp()
            hops = (
                f"{finding.kind}: confirmed to firing {fired - confirmed:.1f} s, to page {message.at - confirmed:.1f} s"
            )
            print(hops)
            assert message.at - confirmed < 120, hops

    def test_a_receiver_that_the_job_tells_itself_is_told_the_same(played: Played) -> None:
        findings = standing(played)
        until(
            lambda: len(groups(played, "/direct")) == len({finding.topic for finding in findings}),
            "every partition to be told",
        )
        assert groups(played, "/direct") == groups(played, "/page")
        for finding in findings:
            (paged,) = sent(played, "/page", finding.finding_id, "firing")
            (told,) = sent(played, "/direct", finding.finding_id, "firing")
            (theirs,), (ours,) = about(paged, finding.finding_id), about(told, finding.finding_id)
            assert ours["labels"] == theirs["labels"]
            said = {name: text for name, text in theirs["annotations"].items() if name in ours["annotations"]}
            assert f"-c {played.job.config}" in said["command"]
            assert {**ours["annotations"], **said} == ours["annotations"]
            assert {"summary", "description", "kind", "broker_id", "record_offset", "command"} <= said.keys()
            print(f"{finding.kind}: confirmed to message {told.at - finding.decided_at.timestamp():.1f} s")

    def test_a_job_that_is_stopped_killed_and_started_again_resolves_nothing(played: Played) -> None:
        chain = chain_of(played)
        ids = {finding.finding_id for finding in standing(played)}
        if played.job.process.poll() is None:
            played.job.stop()
        stands_alone(chain, ids)
        start(played)
        assert active(chain) == ids
        played.job.kill()
        stands_alone(chain, ids)
        start(played)
        assert active(chain) == ids
        assert resolved(played, "/page") == []
        assert resolved(played, "/direct") == []
        assert set(groups(played, "/direct").values()) == {1}, "a job that starts tells nobody again"

    def test_a_repair_is_reported_within_a_minute(played: Played) -> None:
        chain = chain_of(played)
        (wrong,) = [f for f in played.gone["java"].expected if f.kind == "deleted_record_resurrected"]
        (finding,) = [f for f in standing(played) if f.topic == wrong.topic]
        PlainProducer(played.lab.bootstrap_servers).send(wrong.topic, wrong.key, "written again")
        state = f'max(parallax_finding_state{{finding_id="{finding.finding_id}"}})'
        (first,) = awaited(chain.prometheus, f"{state} == 0")
        over = float(first["values"][0][0])
        until(lambda: sent(played, "/page", finding.finding_id, "resolved"), "the resolved message")
        took = sent(played, "/page", finding.finding_id, "resolved")[0].at - over
        print(f"from the metric to the resolved message: {took:.1f} s")
        assert took < 60
        assert len(resolved(played, "/page")) == 1
        (direct,) = until(lambda: sent(played, "/direct", finding.finding_id, "resolved"), "the job's own message")
        print(f"from the metric to the job's own message: {direct.at - over:.1f} s")
        assert len(resolved(played, "/direct")) == 1


def start(played: Played) -> None:
    """Start the job, and wait until the rules have looked at what it has loaded."""
    chain = chain_of(played)
    played.job.start()
    chain.prometheus.scrape(played.job.port)
    loaded = f'parallax_findings_loaded{{instance="127.0.0.1:{played.job.port}"}}'
    until(
        lambda: chain.prometheus.now(f"count_over_time({loaded}[1m]) > 2"),
        "findings to be loaded, and the rules to have looked at them",
    )


def stands_alone(chain: Alerting, ids: set[str]) -> None:
    """The alerts stand while the job is away."""
    until(lambda: not chain.prometheus.now("up == 1"), "the job to be away")
    assert not chain.prometheus.now("parallax_finding_state")
    until(lambda: ids == active(chain), "the alerts to stand while the job is away")


def active(chain: Alerting) -> set[str]:
    """The findings that Alertmanager knows alerts about."""
    return {name for alert in chain.alertmanager.alerts() if (name := alert["labels"].get("finding_id"))}
