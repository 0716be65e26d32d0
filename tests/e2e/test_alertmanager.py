"""What a real Alertmanager makes of the alerts of the shipped rules: what it suppresses, groups, and sends to whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from parallax.alerting.listing import ALARMS
from parallax.lab.waiting import until
from tests.e2e.alerting import CRITICAL, LESS_GRAVE, ONE_OF_EACH, Labels, Sent, alert, of_finding
from tests.e2e.prometheus import INSTALLED, ROOT, Alertmanager
from tests.receiver import Message, Receiver

INHIBIT_RULES: list[Mapping[str, Any]] = yaml.safe_load((ROOT / "deploy/alertmanager/alertmanager.yaml").read_text())[
    "inhibit_rules"
]


def health(alertname: str, **target: str) -> Labels:
    """An alert about a job; about the query ``compare`` where it is about a query."""
    return alert(alertname, **target, **({"query": "compare"} if "Query" in alertname else {}))


OF_A_JOB = ("ParallaxStalled", "ParallaxQueryStalled", "ParallaxQueryRestarting", "ParallaxFindingsNotWritable")
"""What a job that is away cannot know about itself."""
OF_A_FINDING = [*(alarm.name for alarm in ALARMS.values()), "ParallaxFindingWorse", "ParallaxFindingLessGrave"]


def job(cluster: str, instance: str = "a", name: str = "parallax") -> dict[str, str]:
    """The labels of a target."""
    return {"job": name, "instance": instance} | ({"cluster": cluster} if cluster else {})


class Incident(NamedTuple):
    """What stands at once.

    Attributes:
        source: the alert that says it all.
        suppressed: what says no more than that.
        told: what says more, or is about something else.
    """

    source: Labels
    suppressed: list[Labels]
    told: list[Labels]


INCIDENTS = {
    "all jobs of a cluster are away": Incident(
        alert("ParallaxAbsent", cluster="away"),
        [health(name, **job("away", instance)) for name in OF_A_JOB for instance in "ab"],
        [
            *(health(name, **job("near-away")) for name in ("ParallaxQueryStalled", *OF_A_JOB[2:])),
            of_finding("away"),
            alert("ParallaxBrokerUnreachable", cluster="away", broker_id="2"),
            alert("ParallaxMessagesUndelivered", **job("away"), receiver="on-call"),
        ],
    ),
    "all jobs of a cluster without a name are away": Incident(
        alert("ParallaxAbsent"),
        [health(name, **job("")) for name in OF_A_JOB],
        [health("ParallaxFindingsNotWritable", **job("near-unnamed"))],
    ),
    "one of the jobs of a cluster is away": Incident(
        alert("ParallaxAbsent", **job("half")),
        [health(name, **job("half")) for name in OF_A_JOB],
        [
            *(health(name, **job("half", "b")) for name in ("ParallaxQueryStalled", *OF_A_JOB[2:])),
            *(health(name, **job("half", name="other")) for name in ("ParallaxQueryStalled", *OF_A_JOB[2:])),
            *(health(name, **job("near-half")) for name in ("ParallaxQueryStalled", *OF_A_JOB[2:])),
            of_finding("half"),
        ],
    ),
    "a job compares nothing": Incident(
        health("ParallaxStalled", **job("stalled")),
        [
            health("ParallaxQueryStalled", **job("stalled")),
            alert("ParallaxQueryStalled", **job("stalled"), query="progress"),
        ],
        [
            health("ParallaxQueryStalled", **job("stalled", "b")),
            health("ParallaxQueryStalled", **job("stalled", name="other")),
            health("ParallaxQueryStalled", **job("near-stalled")),
            health("ParallaxQueryRestarting", **job("stalled")),
            health("ParallaxFindingsNotWritable", **job("stalled")),
            of_finding("stalled"),
        ],
    ),
    "the storage of a job is full": Incident(
        alert("ParallaxStorageFull", **job("full")),
        [health(name, **job("full")) for name in OF_A_JOB],
        [
            *(health(name, **job("full", "b")) for name in ("ParallaxQueryStalled", *OF_A_JOB[2:])),
            *(health(name, **job("full", name="other")) for name in ("ParallaxQueryStalled", *OF_A_JOB[2:])),
            *(health(name, **job("near-full")) for name in ("ParallaxQueryStalled", *OF_A_JOB[2:])),
            of_finding("full"),
        ],
    ),
    "an outage has become worse": Incident(
        alert("ParallaxReplicaRemoval", cluster="outage", broker_id="2"),
        [alert("ParallaxReplicaOutage", cluster="outage", broker_id="2")],
        [
            alert("ParallaxReplicaOutage", cluster="outage", broker_id="3"),
            alert("ParallaxReplicaOutage", cluster="near-outage", broker_id="2"),
        ],
    ),
    "a finding is acknowledged": Incident(
        {**of_finding("known", alertname="ParallaxFindingAcknowledged"), "outgrown": "60"},
        [of_finding("known", alertname=name) for name in OF_A_FINDING],
        [
            *(of_finding("known", name=f"another, {name}", alertname=name) for name in OF_A_FINDING),
            *(of_finding(f"near-known, {name}", alertname=name) for name in OF_A_FINDING),
        ],
    ),
    "a finding is worse than was acknowledged": Incident(
        of_finding("worse", alertname="ParallaxFindingWorse"),
        [of_finding("worse", alertname=name) for name in CRITICAL],
        [
            *(of_finding("worse", name="another", alertname=name) for name in CRITICAL),
            *(of_finding("near-worse", alertname=name) for name in CRITICAL),
        ],
    ),
    **{
        f"a finding that has paged is less grave by now: {less}": Incident(
            of_finding("less", name=less, alertname=less),
            [of_finding("less", name=less, alertname=name) for name in (*CRITICAL, "ParallaxFindingWorse")],
            [
                *(of_finding("less", name=f"another, {name}, {less}", alertname=name) for name in OF_A_FINDING),
                *(of_finding(f"near-less, {name}", name=less, alertname=name) for name in OF_A_FINDING),
            ],
        )
        for less in LESS_GRAVE
    },
}
"""Whatever an inhibit rule says is equal has one that differs in that alone."""

PLACES = [
    of_finding("grouped", 0, "f1"),
    of_finding("grouped", 0, "f2"),
    of_finding("grouped", 0, "f6", "ParallaxDivergenceExposed"),
    of_finding("grouped", 0, "f3", "ParallaxMarkerMissing"),
    of_finding("grouped", 1, "f4"),
    of_finding("near-grouped", 0, "f5"),
]


OF_AN_END = [rule for rule in INHIBIT_RULES if rule["target_matchers"] == ["alertname = ParallaxFindingAcknowledged"]]
"""The rule that suppresses no alert that stands, but what is said again of its end."""


class Told(Sent):
    """What Alertmanager was told, and what it has sent since, once each group of what it was told had its turn."""

    def known(self, labels: Labels) -> dict[str, Any]:
        """What Alertmanager says of an alert."""
        (found,) = (one for one in self.alertmanager.alerts() if one["labels"] == labels)
        return found

    def by(self, labels: Labels) -> list[Labels]:
        """The alerts by which it suppresses one; it names the first that it finds."""
        names = self.known(labels)["status"]["inhibitedBy"]
        return [one["labels"] for one in self.alertmanager.alerts() if one["fingerprint"] in names]

    @property
    def messages(self) -> list[Message]:
        """What has come. Alertmanager sends again, byte for byte, what it had no answer to in time: that is one."""
        return list({(message.path, message.content): message for message in self.receiver.messages}.values())

    def sent(self, labels: Labels) -> list[str]:
        """The receivers that were sent an alert, each as often as it was."""
        return [
            message.path.removeprefix("/")
            for message in self.messages
            for one in message.body["alerts"]
            if one["labels"] == labels
        ]


if INSTALLED:
    # The times to wait are the shipped ones: all alerts come at once, so that they wait for them once.

    @pytest.fixture(scope="module")
    def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
        incidents = [one for case in INCIDENTS.values() for one in (case.source, *case.suppressed, *case.told)]
        alerts = [*incidents, *ONE_OF_EACH, *PLACES]
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path_factory.mktemp("alertmanager"), receiver.port) as alertmanager,
        ):
            alertmanager.post(*({"labels": labels} for labels in alerts))
            # It decides about an alert when the group's time has come, or when somebody asks about it: not before.
            until(lambda: alertmanager.decided() == len(alerts), "each group to have had its turn")
            active = [one for one in alertmanager.alerts() if one["status"]["state"] == "active"]
            told = Told(receiver, alertmanager)
            until(lambda: all(told.sent(one["labels"]) for one in active), "what is active to be sent")
            yield told

    @pytest.mark.parametrize("name", INCIDENTS)
    def test_what_says_no_more_than_another_alert_is_suppressed_by_it_and_sent_to_nobody(told: Told, name: str) -> None:
        incident = INCIDENTS[name]
        for labels in incident.suppressed:
            assert told.by(labels) == [incident.source], labels
            assert told.known(labels)["status"]["state"] == "suppressed"
            assert told.sent(labels) == [], labels
        assert told.sent(incident.source) == [receiver_of(incident.source)]

    @pytest.mark.parametrize("name", INCIDENTS)
    def test_what_is_about_something_else_is_sent(told: Told, name: str) -> None:
        for labels in INCIDENTS[name].told:
            assert told.by(labels) == [], labels
            assert told.sent(labels) == [receiver_of(labels)], labels

    @pytest.mark.parametrize("number", [number for number, rule in enumerate(INHIBIT_RULES) if rule not in OF_AN_END])
    def test_every_inhibit_rule_has_an_incident_with_all_that_it_suppresses(told: Told, number: int) -> None:
        rule = INHIBIT_RULES[number]
        sources = [one["labels"] for one in told.alertmanager.alerts(rule["source_matchers"])]
        targets = [one["labels"] for one in told.alertmanager.alerts(rule["target_matchers"])]
        cases = [case for case in INCIDENTS.values() if case.source in sources]
        suppressed = [labels for case in cases for labels in case.suppressed if labels in targets]
        assert {labels["alertname"] for labels in suppressed} == {labels["alertname"] for labels in targets}
        for label in rule["equal"]:
            assert any(
                differs_in(labels, silent) == {label}
                for case in cases
                for labels in case.told
                for silent in case.suppressed
            ), f"nothing is told that differs from what is suppressed in the label {label} alone"

    def test_an_alert_of_each_rule_is_sent_once_to_the_receiver_of_its_severity(told: Told) -> None:
        assert {labels["alertname"]: told.sent(labels) for labels in ONE_OF_EACH} == {
            labels["alertname"]: [receiver_of(labels)] for labels in ONE_OF_EACH
        }

    def test_findings_of_a_partition_with_the_same_alert_are_one_message(told: Told) -> None:
        sent = [
            (message.path, sorted(one["labels"]["finding_id"] for one in message.body["alerts"]))
            for message in told.messages
            if message.body["groupLabels"].get("cluster") in ("grouped", "near-grouped")
        ]
        pages = [("/page", ["f1", "f2"]), ("/page", ["f4"]), ("/page", ["f5"]), ("/page", ["f6"])]
        assert sorted(sent) == [*pages, ("/ticket", ["f3"])]

    def test_all_jobs_of_a_cluster_that_are_away_are_one_message(told: Told) -> None:
        of = {"alertname": "ParallaxAbsent", "cluster": "away"}
        (message,) = (m for m in told.messages if m.path == "/page" and m.body["groupLabels"] == of)
        assert [one["labels"] for one in message.body["alerts"]] == [INCIDENTS["all jobs of a cluster are away"].source]

    def test_a_source_that_is_over_suppresses_nothing(tmp_path: Path) -> None:
        with Receiver() as receiver, Alertmanager(tmp_path, receiver.port) as alertmanager:
            told = Told(receiver, alertmanager)
            for source, suppressed, _ in INCIDENTS.values():
                alertmanager.post(*({"labels": labels} for labels in (source, *suppressed)))
                until(lambda: all(told.by(one) == [source] for one in suppressed), f"{source} to suppress")  # noqa: B023
                alertmanager.post({"labels": source, "endsAt": datetime.now(UTC).isoformat()})
                until(lambda: all(source not in told.by(one) for one in suppressed), f"{source} to end")  # noqa: B023


def receiver_of(labels: Labels) -> str:
    return {"critical": "page", "warning": "ticket", "info": "note", "none": "dead-man"}[labels["severity"]]


def differs_in(one: Labels, other: Labels) -> set[str]:
    return {label for label in one.keys() | other.keys() if one.get(label) != other.get(label)}
