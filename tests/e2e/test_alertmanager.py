"""What a real Alertmanager makes of the alerts of the shipped rules: what it suppresses, groups, and sends to whom."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server

from parallax.alerting.collector import OfCluster, ParallaxCollector
from parallax.alerting.listing import ALARMS, FindingState, Turn, over_in_words, state_of
from parallax.alerting.places import Places
from parallax.alerting.state import MonitorState
from parallax.audit.result import Result
from parallax.findings.acknowledge import acknowledged
from parallax.findings.finding import Finding
from parallax.findings.happenings import FindingsStatus
from parallax.findings.in_brief import was_in_words
from parallax.guard.absences import Absence, Absences, Late
from parallax.guard.outages import Outages
from parallax.lab.ports import free_ports
from parallax.lab.waiting import until
from parallax.model import FindingKind, FindingStatus, Severity, TopicPartition
from parallax.shell import Shell
from tests.builders.absences import absence
from tests.builders.coverage import coverage, progress
from tests.builders.findings import finding
from tests.e2e.prometheus import INSTALLED, ROOT, Alertmanager, Prometheus
from tests.receiver import Message, Receiver

Labels = Mapping[str, str]

UNHEARD = re.compile(r"^\{\{ if eq \$value -1\.0 \}\}.*?\{\{ else \}\}(.*)\{\{ end \}\}$", re.DOTALL)
"""An annotation that says something else while the job says nothing; the group is what it says while it speaks."""
RULES: Mapping[str, Mapping[str, Any]] = {
    rule["alert"]: rule | {"annotations": {k: UNHEARD.sub(r"\1", text) for k, text in rule["annotations"].items()}}
    for group in yaml.safe_load((ROOT / "deploy/prometheus/parallax-rules.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
INHIBIT_RULES: list[Mapping[str, Any]] = yaml.safe_load((ROOT / "deploy/alertmanager/alertmanager.yaml").read_text())[
    "inhibit_rules"
]


def label_sets(alert: str) -> list[frozenset[str]]:
    """The names of labels that a rule keeps from its series, in each way in which its expression aggregates."""
    found = re.findall(r"\bby \(([^)]*)\)", RULES[alert]["expr"])
    return [frozenset(re.split(r",\s*", names)) for names in found if names != "finding_id"] or [frozenset()]


def alert(name: str, **labels: str) -> Labels:
    """The labels that the shipped rule gives an alert; a cluster without a name has no label."""
    unnamed = {"cluster"} - labels.keys()
    assert any(labels.keys() | (unnamed & names) == names for names in label_sets(name)), (name, labels)
    return {"alertname": name} | RULES[name]["labels"] | labels


def health(alertname: str, **target: str) -> Labels:
    """An alert about a job; about the query ``compare`` where it is about a query."""
    return alert(alertname, **target, **({"query": "compare"} if "Query" in alertname else {}))


END_S = 150
"""Seconds to wait for an end. Alertmanager drops one that it looks at before it knows that the source ended; Prometheus
says each end again after a minute (`--rules.alert.resend-delay`)."""
OF_A_JOB = ("ParallaxStalled", "ParallaxQueryStalled", "ParallaxQueryRestarting", "ParallaxFindingsNotWritable")
"""What a job that is away cannot know about itself."""


OF_A_STATE = [alarm.name for alarm in ALARMS.values()]
CRITICAL, LESS_GRAVE = (
    [alarm.name for alarm in ALARMS.values() if (alarm.severity is Severity.CRITICAL) is wanted]
    for wanted in (True, False)
)
OF_A_FINDING = [*OF_A_STATE, "ParallaxFindingWorse", "ParallaxFindingLessGrave"]


def job(cluster: str, instance: str = "a", name: str = "parallax") -> dict[str, str]:
    """The labels of a target."""
    return {"job": name, "instance": instance} | ({"cluster": cluster} if cluster else {})


def of_finding(
    cluster: str, partition: int = 0, name: str = "f1", alertname: str = "ParallaxDivergenceConfirmed"
) -> Labels:
    return alert(alertname, cluster=cluster, topic="orders", partition=str(partition), finding_id=name)


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
    **{
        f"a broker does not answer, and {name} says so": Incident(
            alert(name, cluster=f"silent {name}", broker_id="2"),
            [alert("ParallaxBrokerUnreachable", cluster=f"silent {name}", broker_id="2")],
            [
                alert("ParallaxBrokerUnreachable", cluster=f"silent {name}", broker_id="3"),
                alert("ParallaxBrokerUnreachable", cluster=f"near-silent {name}", broker_id="2"),
            ],
        )
        for name in ("ParallaxReplicaOutage", "ParallaxReplicaRemoval")
    },
    "a finding is acknowledged": Incident(
        of_finding("known", alertname="ParallaxFindingAcknowledged"),
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

ONE_OF_EACH = [
    alert(name, **dict.fromkeys(max(label_sets(name), key=sorted), f"only-{name}")) for name in sorted(RULES)
]
"""An alert of each rule, each of another cluster."""

PLACES = [
    of_finding("grouped", 0, "f1"),
    of_finding("grouped", 0, "f2"),
    of_finding("grouped", 0, "f6", "ParallaxDivergenceExposed"),
    of_finding("grouped", 0, "f3", "ParallaxMarkerMissing"),
    of_finding("grouped", 1, "f4"),
    of_finding("near-grouped", 0, "f5"),
]


@dataclass
class Told:
    """What Alertmanager was told, and what it has sent since.

    Attributes:
        alertmanager: runs with the shipped configuration.
        messages: what the receivers were sent, once each group of what it was told had its turn.
    """

    alertmanager: Alertmanager
    messages: list[Message]

    def known(self, labels: Labels) -> dict[str, Any]:
        """What Alertmanager says of an alert."""
        (found,) = (one for one in self.alertmanager.alerts() if one["labels"] == labels)
        return found

    def by(self, labels: Labels) -> list[Labels]:
        """The alerts by which it suppresses one; it names the first that it finds."""
        names = self.known(labels)["status"]["inhibitedBy"]
        return [one["labels"] for one in self.alertmanager.alerts() if one["fingerprint"] in names]

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
            until(lambda: alertmanager.decided() == len(alerts), "each group to have had its turn", timeout=60)
            active = [one for one in alertmanager.alerts() if one["status"]["state"] == "active"]
            told = Told(alertmanager, receiver.messages)
            until(lambda: all(told.sent(one["labels"]) for one in active), "what is active to be sent", timeout=60)
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

    @pytest.mark.parametrize("number", range(len(INHIBIT_RULES)))
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
            told = Told(alertmanager, receiver.messages)
            for source, suppressed, _ in INCIDENTS.values():
                alertmanager.post(*({"labels": labels} for labels in (source, *suppressed)))
                until(lambda: all(told.by(one) == [source] for one in suppressed), f"{source} to suppress")  # noqa: B023
                alertmanager.post({"labels": source, "endsAt": datetime.now(UTC).isoformat()})
                until(lambda: all(source not in told.by(one) for one in suppressed), f"{source} to end")  # noqa: B023

    def test_an_acknowledged_finding_is_not_over_and_asks_again_when_it_is_worse(
        tmp_path: Path,
    ) -> None:
        state, wrong = MonitorState(), finding("f1")
        registry = CollectorRegistry()
        registry.register(OfCluster(ParallaxCollector(state), "lab"))
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path / "alertmanager", receiver.port, is_quick=True, speaks=True) as alertmanager,
            Prometheus(tmp_path / "prometheus", alertmanager.port, every_s=1) as prometheus,
            served(registry) as port,
        ):

            def sent(path: str, name: str, status: str = "firing") -> list[Message]:
                return [
                    message
                    for message in receiver.messages
                    if message.path == path
                    and any((a["labels"]["alertname"], a["status"]) == (name, status) for a in message.body["alerts"])
                ]

            def known(finding: Finding) -> None:
                """Somebody acknowledges it: nothing is over."""
                event = acknowledged(finding, "known since March", "ann", datetime.now(UTC))
                state.update_findings(FindingsStatus(acknowledged=(event,)))
                name = ALARMS[state_of(event)].name

                def states() -> list[str]:
                    return [alert["status"]["state"] for alert in alertmanager.alerts([f"alertname = {name}"])]

                by = ["alertname = ParallaxFindingAcknowledged"]
                until(lambda: bool(alertmanager.alerts(by)), "the acknowledgement to be known", timeout=60)
                until(lambda: states() == ["suppressed"], "it to be suppressed", timeout=60)

            def outgrown() -> set[str]:
                """The acknowledgements of which somebody was told that it is worse than they knew."""
                alerts = [one for message in sent("/page", "ParallaxFindingWorse") for one in message.body["alerts"]]
                return {one["labels"]["outgrown"] for one in alerts if "outgrown" in one["labels"]}

            prometheus.scrape(port)
            state.update_findings(FindingsStatus(open=(wrong,)))
            until(lambda: sent("/page", "ParallaxDivergenceConfirmed"), "the page", timeout=60)
            known(wrong)
            until(lambda: sent("/note", "ParallaxFindingAcknowledged"), "the note", timeout=60)
            (note,) = sent("/note", "ParallaxFindingAcknowledged")
            assert "ann" in json.dumps(note.body["alerts"][0]["annotations"])
            assert "known since March" in json.dumps(note.body["alerts"][0]["annotations"])
            exposed = replace(wrong, exposed=True)
            state.update_findings(FindingsStatus(open=(exposed,)))
            until(lambda: len(outgrown()) == 1, "it to page again, and say that it is worse", timeout=60)
            known(exposed)
            state.update_findings(FindingsStatus(open=(exposed,)))
            until(lambda: len(outgrown()) == 2, "it to page once more, though its state is the same", timeout=60)
            pages = [m.body for m in receiver.messages if m.path == "/page"]
            assert {page["status"] for page in pages} == {"firing"}
            firing = [[one for one in page["alerts"] if one["status"] == "firing"] for page in pages]
            names = [[one["labels"]["alertname"] for one in alerts] for alerts in firing]
            assert names == [["ParallaxDivergenceConfirmed"], *[["ParallaxFindingWorse"]] * 2], "one message of each"
            said = firing[1][0]["annotations"]["summary"]
            assert said.startswith(Turn.WORSE)
            assert "; the leader is wrong" in said, "of the new state"
            state.update_findings(FindingsStatus())

            def ended() -> list[dict[str, Any]]:
                pages = [m.body for m in receiver.messages if m.path == "/page" and m.body["status"] == "resolved"]
                return [one for page in pages for one in page["alerts"]]

            until(lambda: len(ended()) == 3, "each page to be resolved", timeout=END_S)
            until(lambda: ends(receiver), "people to be told of the end", timeout=60)
            settled(prometheus)
            assert len(ends(receiver)) == 1, "one finding has one end"
            assert {one["annotations"]["resolved_summary"] for one in ended()} == {
                f"{over_in_words(was_in_words(wrong))} (cluster lab)"
            }

    def test_a_finding_that_is_less_grave_ends_no_page_and_pages_again_when_it_is_worse(tmp_path: Path) -> None:
        state, exposed = MonitorState(), finding("f1", exposed=True)
        agreed = {"evidence": '{"resolution": "agreed"}', "exposed": False}
        unsettled = replace(exposed, status=FindingStatus.UNSETTLED, **agreed)
        registry = CollectorRegistry()
        registry.register(OfCluster(ParallaxCollector(state), "lab"))
        with (
            Receiver() as receiver,
            Alertmanager(
                tmp_path / "alertmanager", receiver.port, is_quick=True, speaks=True, ends_all=True
            ) as alertmanager,
            Prometheus(tmp_path / "prometheus", alertmanager.port, every_s=1) as prometheus,
            served(registry) as port,
        ):

            def told(path: str) -> list[tuple[str, str]]:
                """Each message of a receiver: how it stands, and what its first alert says."""
                bodies = [m.body for m in receiver.messages if m.path == path]
                return [(body["status"], body["alerts"][0]["annotations"]["summary"]) for body in bodies]

            def is_suppressed(name: str) -> bool:
                known = alertmanager.alerts([f"alertname = {name}"])
                return bool(known) and all(one["status"]["state"] == "suppressed" for one in known)

            def is_less_grave(times: int) -> None:
                """The finding is less grave, for so long that an end would have been sent."""
                state.update_findings(FindingsStatus(open=(unsettled,)))
                until(lambda: len(told("/ticket")) == times, "the ticket", timeout=60)
                until(lambda: is_suppressed("ParallaxDivergenceExposed"), "the page to go on, suppressed", timeout=60)
                settled(prometheus)

            prometheus.scrape(port)
            state.update_findings(FindingsStatus(open=(exposed,)))
            until(lambda: told("/page"), "the page", timeout=60)
            is_less_grave(1)
            assert len(told("/page")) == 1, told("/page")
            state.update_findings(FindingsStatus(open=(exposed,)))
            until(lambda: len(told("/page")) == 2, "it to page once more", timeout=60)
            assert told("/page")[1][0] == "firing"
            assert told("/page")[1][1].startswith(f"{Turn.WORSE}Broker 2 still shows")
            until(lambda: len(told("/ticket")) == 2, "the ticket to say so", timeout=60)
            assert told("/ticket")[1][1].startswith(
                "When ParallaxDivergenceUnsettled ended, the finding had not. It has"
            )
            is_less_grave(3)
            event = acknowledged(unsettled, "known since March", "ann", datetime.now(UTC))
            state.update_findings(FindingsStatus(acknowledged=(event,)))
            until(lambda: told("/note"), "the note", timeout=60)
            assert len(told("/page")) == 2
            state.update_findings(FindingsStatus(ended=(replace(unsettled, status=FindingStatus.RESOLVED),)))
            for path, count in (("/page", 4), ("/ticket", 4), ("/note", 2)):
                until(lambda: len(told(path)) >= count, f"the end at {path}", timeout=END_S)  # noqa: B023
                assert len(told(path)) == count
                status, said = told(path)[-1]
                assert status == "resolved"
                over = f"{over_in_words(was_in_words(exposed))} (cluster lab)"
                assert said == over, path
            until(lambda: ends(receiver), "people to be told of the end", timeout=60)
            assert ends(receiver) == [f"[RESOLVED] {over}"], "one finding has one end"
            stages = [one["title"].split()[0] for one in chat(receiver)]
            assert [stage for stage, _ in groupby(stages)] == ["[FIRING]", "[ACKNOWLEDGED]", "[RESOLVED]"]
            # An end and a begin of one moment may come to a group as two: one message more, of a group's turn between.
            assert len(stages) in (6, 7), stages

    def test_an_outage_is_one_story_from_its_begin_to_what_came_of_it(tmp_path: Path) -> None:
        state, place = MonitorState(), TopicPartition("orders", 0)
        registry = CollectorRegistry()
        registry.register(OfCluster(ParallaxCollector(state), "lab"))
        known = Outages()
        # A job that has just been started, or has compared nothing yet, says nothing: its last word would count.
        state._started_at -= 600
        state.update_coverage([replace(coverage(), compared_at=int(time.time() * 1000))])
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path / "alertmanager", receiver.port, is_quick=True) as alertmanager,
            Prometheus(tmp_path / "prometheus", alertmanager.port, every_s=1) as prometheus,
            served(registry) as port,
        ):

            def told() -> list[tuple[str, str]]:
                """Which alert each message is about, and how it stands."""
                return [
                    (one["labels"]["alertname"], one["status"])
                    for message in receiver.messages
                    for one in message.body["alerts"]
                    if one["labels"]["alertname"].startswith("ParallaxReplica")
                ]

            def stands(since_s: float, until_s: float, *late: Late) -> Absence:
                """The replica has been away for so long, and has so long."""
                now = time.time()
                since, bound = int((now - since_s) * 1000), int((now + until_s) * 1000)
                one = absence(2, *place, since_ms=since, retention_ms=86_400_000, bound_ms=bound)
                said(() if late else (one,), late)
                return one

            def said(absent: tuple[Absence, ...], late: tuple[Late, ...]) -> None:
                state.update_progress([progress(broker=2)])
                known.see(absent, late, int(time.time() * 1000))
                state.update_absences(Absences(absent, late, known.all))

            prometheus.scrape(port)
            stands(43_200, 36_000)
            begun, worse = ("ParallaxReplicaOutage", "firing"), ("ParallaxReplicaRemoval", "firing")
            until(lambda: told() == [begun], "it to be told that it begins", timeout=60)
            stands(86_400, 3_000)
            until(lambda: told() == [begun, worse], "it to be told that it is worse", timeout=60)
            away = stands(86_400, -60)
            headline = 'parallax_replica_outage_info{headline=~".*too late.*"}'
            late = Late(place, 2, int(time.time() * 1000), away)
            stands(86_400, -60, late)
            until(lambda: prometheus.now(headline), "it to be back too late", timeout=60)
            known.audited({place: Result.CONSISTENT})
            said((), ())
            ended = 'parallax_replica_outage_info{outcome=~"Broker 2 was back too late.*"}'
            until(lambda: prometheus.now(ended), "what came of it to be known", timeout=60)
            time_of_rules = prometheus.now(ended)
            until(lambda: prometheus.now(ended) != time_of_rules, "the rules to have been looked at", timeout=60)
            assert told() == [begun, worse], "nothing is told of what lies between"
            state.update_absences(Absences())
            resolved = {("ParallaxReplicaOutage", "resolved"), ("ParallaxReplicaRemoval", "resolved")}
            until(lambda: resolved <= set(told()), "the end to be told", timeout=90)
            assert len(told()) == 4, "each receiver was told of two things"
            ends = [a for m in receiver.messages for a in m.body["alerts"] if a["status"] == "resolved"]
            for one in ends:
                assert one["annotations"]["resolved_summary"] == "The outage of broker 2 is over (cluster lab)"
                assert "found no difference" in one["annotations"]["resolved_description"]

    def test_what_is_resolved_says_in_the_past_what_it_was(tmp_path: Path) -> None:
        rules = {name: rule for name, rule in RULES.items() if rule["labels"]["severity"] in ("critical", "warning")}
        alerts = [
            {"labels": one, "annotations": {**rules[one["alertname"]]["annotations"], "resolved_turn": ""}}
            for one in ONE_OF_EACH
            if one["alertname"] in rules
        ]
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path, receiver.port, is_quick=True, speaks=True) as alertmanager,
        ):

            def sent() -> tuple[list[str], list[str]]:
                """The text of each message, at Slack and at PagerDuty."""
                slack = [m.body["attachments"][0] for m in receiver.messages if m.path == "/slack"]
                pagerduty = [m.body["payload"] for m in receiver.messages if m.path == "/pagerduty"]
                return (
                    [f"{one['title']}\n{one['text']}" for one in slack],
                    [f"{one['summary']}\n{one['custom_details']['text']}" for one in pagerduty],
                )

            def all_sent() -> bool:
                return all(len(texts) == len(alerts) for texts in sent())

            alertmanager.post(*alerts)
            until(all_sent, "each alert to be sent", timeout=60)
            for texts in sent():
                for rule in rules.values():
                    assert any(saying(rule, "") in text for text in texts), rule["alert"]
            receiver.messages.clear()
            alertmanager.post(*({**one, "endsAt": datetime.now(UTC).isoformat()} for one in alerts))
            until(all_sent, "each end to be sent", timeout=60)
            for texts in sent():
                assert all(text.startswith("[RESOLVED] ") for text in texts)
                for rule in rules.values():
                    assert any(saying(rule, "resolved_") in text for text in texts), rule["alert"]
                    assert not any(rule["annotations"]["summary"] in text for text in texts), rule["alert"]

    def test_a_finding_that_becomes_worse_pages_once_more_and_its_end_resolves_both_pages(tmp_path: Path) -> None:
        state, confirmed = MonitorState(), finding("f1")
        exposed = replace(confirmed, exposed=True, summary="Broker 2 shows it, and leads.")
        over = replace(exposed, status=FindingStatus.RESOLVED, summary="Broker 2 showed it. Healed.")
        registry = CollectorRegistry()
        registry.register(OfCluster(ParallaxCollector(state), "lab"))
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path / "alertmanager", receiver.port, is_quick=True, speaks=True) as alertmanager,
            Prometheus(tmp_path / "prometheus", alertmanager.port, every_s=1) as prometheus,
            served(registry) as port,
        ):

            def bodies(path: str) -> list[dict[str, Any]]:
                return [m.body for m in receiver.messages if m.path == path]

            def events() -> list[tuple[str, str]]:
                """What PagerDuty was sent, each as what it does and to which incident."""
                return [(one["event_action"], one["dedup_key"]) for one in bodies("/pagerduty")]

            prometheus.scrape(port)
            state.update_findings(FindingsStatus(open=(confirmed,)))
            until(lambda: len(events()) == 1, "the page", timeout=60)
            state.update_findings(FindingsStatus(open=(exposed,)))
            until(lambda: len(events()) == 2, "the next page", timeout=60)
            settled(prometheus)
            (first, second) = events()
            assert (first[0], second[0]) == ("trigger", "trigger")
            assert first[1] != second[1], "somebody may have taken on the first incident: only another one calls again"
            (now,) = bodies("/page")[1]["alerts"]
            assert now["annotations"]["summary"].startswith(f"{Turn.WORSE}Broker 2 still shows")
            assert now["annotations"]["description"] == exposed.summary
            state.update_findings(FindingsStatus(ended=(over,)))
            until(lambda: len(events()) == 4, "both to be resolved", timeout=60)
            assert sorted(events()[2:]) == sorted(("resolve", key) for _, key in (first, second))
            was = f"{over_in_words(was_in_words(confirmed))} (cluster lab)"
            until(lambda: ends(receiver), "people to be told of the end", timeout=60)
            for body in bodies("/page")[2:]:
                (one,) = body["alerts"]
                said = one["annotations"]
                assert (said["summary"], said["description"]) == (was, over.summary), "what is known by then"
            settled(prometheus)
            assert ends(receiver) == [f"[RESOLVED] {was}"], "one finding has one end"
            first, worse, last = chat(receiver)
            assert worse["title"].startswith(f"[FIRING] {Turn.WORSE}")
            for one in (first, worse):
                assert one["text"].count("Runbook: ") == 1, "the finding is told once, whatever alerts it has"
            assert f"docs/runbook.md#{ALARMS[FindingState.CONFIRMED].name.lower()}\n" in first["text"]
            assert f"docs/runbook.md#{ALARMS[FindingState.EXPOSED].name.lower()}\n" in worse["text"]
            assert last["text"].count(over.summary) == 1

    def test_people_hear_that_a_finding_which_still_pages_is_less_grave_and_nobody_is_paged_again(
        tmp_path: Path,
    ) -> None:
        state, confirmed = MonitorState(), finding("f1", summary="Broker 2 shows it.")
        exposed = replace(confirmed, exposed=True, summary="Broker 2 shows it, and leads.")
        over = replace(confirmed, status=FindingStatus.RESOLVED, summary="Broker 2 showed it. Healed.")
        registry = CollectorRegistry()
        registry.register(OfCluster(ParallaxCollector(state), "lab"))
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path / "alertmanager", receiver.port, is_quick=True, speaks=True) as alertmanager,
            Prometheus(tmp_path / "prometheus", alertmanager.port, every_s=1) as prometheus,
            served(registry) as port,
        ):
            prometheus.scrape(port)
            state.update_findings(FindingsStatus(open=(exposed,)))
            until(lambda: chat(receiver), "people to be told", timeout=60)
            state.update_findings(FindingsStatus(open=(confirmed,)))
            until(lambda: len(chat(receiver)) == 2, "people to be told that it is less grave", timeout=60)
            settled(prometheus)
            less = chat(receiver)[1]
            assert less["title"].startswith(f"[FIRING] {Turn.LESS}Broker 2 still shows a deleted record of orders-0")
            assert less["text"].count(confirmed.summary) == 1
            assert len([m for m in receiver.messages if m.path == "/page"]) == 1
            state.update_findings(FindingsStatus(ended=(over,)))
            until(lambda: ends(receiver), "people to be told of the end", timeout=END_S)
            settled(prometheus)
            assert ends(receiver) == [f"[RESOLVED] {over_in_words(was_in_words(confirmed))} (cluster lab)"]
            stages = [one["title"].split()[0] for one in chat(receiver)]
            assert [stage for stage, _ in groupby(stages)] == ["[FIRING]", "[RESOLVED]"]
            assert len(stages) in (3, 4), "the alerts of a finding end one after the other"

    def test_that_a_finding_is_less_grave_has_people_told_no_second_time_what_ended_before(tmp_path: Path) -> None:
        def alerts(name: str, **times: str) -> dict[str, Any]:
            said = {"summary": name, "description": name, "resolved_summary": "", "resolved_turn": ""}
            return {"labels": of_finding("lab", alertname=name), "annotations": said} | times

        began = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path, receiver.port, is_quick=True, speaks=True) as alertmanager,
        ):
            page, known = alerts("ParallaxDivergenceExposed"), alerts("ParallaxFindingAcknowledged", startsAt=began)
            alertmanager.post(known)
            until(lambda: len(chat(receiver)) == 1, "people to hear that it is known", timeout=60)
            over = known | {"endsAt": datetime.now(UTC).isoformat()}
            alertmanager.post(page, over)
            until(lambda: len(chat(receiver)) == 2, "people to hear that it is worse", timeout=60)
            alertmanager.post(alerts("ParallaxFindingLessGrave"))
            until(lambda: len(chat(receiver)) == 3, "people to hear that it is less grave", timeout=60)
            # As Prometheus does each minute; what comes later is seen first where it is sent at all.
            alertmanager.post(over)
            alertmanager.post({"labels": of_finding("lab", partition=1), "annotations": page["annotations"]})
            until(lambda: len(chat(receiver)) > 3, "people to hear of another partition", timeout=60)
            assert [one["text"].split()[0] for one in chat(receiver)] == [
                "ParallaxFindingAcknowledged",
                "ParallaxDivergenceExposed",
                "ParallaxFindingLessGrave",
                "ParallaxDivergenceExposed",
            ]

    def test_the_title_counts_findings_and_not_their_alerts(tmp_path: Path) -> None:
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path, receiver.port, is_quick=True, speaks=True, group_by="cluster") as alertmanager,
        ):

            def titles() -> list[str]:
                return [m.body["attachments"][0]["title"] for m in receiver.messages if m.path == "/slack"]

            def alerts(cluster: str, *ids: str) -> list[dict[str, Any]]:
                said = {"summary": "Broker 2 lacks it", "resolved_summary": "Replicas differed", "resolved_turn": ""}
                return [
                    {"labels": of_finding(cluster, name=name, alertname=alarm), "annotations": said}
                    for name in ids
                    for alarm in CRITICAL
                ]

            def ended(of: list[dict[str, Any]]) -> list[dict[str, Any]]:
                return [{**one, "endsAt": datetime.now(UTC).isoformat()} for one in of]

            one, three = alerts("one", "f1"), alerts("three", "f1", "f2", "f3")
            alertmanager.post(*one, *three)
            until(lambda: len(titles()) == 2, "both groups", timeout=60)
            assert sorted(titles()) == [
                "[FIRING] Broker 2 lacks it",
                "[FIRING] Broker 2 lacks it (and 2 more findings)",
            ]
            alertmanager.post(*ended(one), *ended(three))
            until(lambda: len(titles()) == 4, "their ends", timeout=60)
            over = "[RESOLVED] Replicas differed"
            assert sorted(titles()[2:]) == [over, f"{over} (and 2 more findings)"]
            absent = [alert("ParallaxBrokerUnreachable", cluster="c", broker_id=name) for name in "12"]
            alertmanager.post(*({"labels": labels, "annotations": {"summary": "It is away"}} for labels in absent))
            until(lambda: len(titles()) == 5, "what is about no finding", timeout=60)
            assert titles()[4] == "[FIRING] It is away (and 1 more alert)"

    def test_the_end_of_an_outage_is_one_message_to_chat_which_says_it_once(tmp_path: Path) -> None:
        with Receiver() as receiver, Alertmanager(tmp_path, receiver.port, is_quick=True, speaks=True) as alertmanager:

            def told() -> list[dict[str, Any]]:
                """Each message to Slack."""
                return [m.body["attachments"][0] for m in receiver.messages if m.path == "/slack"]

            def of(name: str, broker: str = "2") -> dict[str, Any]:
                end = {"resolved_summary": f"The outage of broker {broker} is over (cluster c)", "resolved_turn": ""}
                end |= {"resolved_description": "Broker 2 was back in time."}
                return {"labels": alert(name, cluster="c", broker_id=broker), "annotations": {"summary": "Away", **end}}

            begun, worse = of("ParallaxReplicaOutage"), of("ParallaxReplicaRemoval")
            alertmanager.post(begun)
            until(lambda: len(told()) == 1, "its begin", timeout=60)
            alertmanager.post(begun, worse)
            until(lambda: len(told()) == 2, "that it is worse", timeout=60)
            assert [one["title"] for one in told()] == ["[FIRING] Away"] * 2
            ends = {"endsAt": datetime.now(UTC).isoformat()}
            alertmanager.post(begun | ends, worse | ends)
            until(lambda: len(told()) == 3, "its end", timeout=60)
            assert told()[2]["title"] == "[RESOLVED] The outage of broker 2 is over (cluster c)"
            assert told()[2]["text"].count("The outage of broker 2 is over") == 1
            assert told()[2]["text"].count("was back in time") == 1
            other = of("ParallaxReplicaOutage", "3")
            alertmanager.post(other)
            until(lambda: told()[-1]["title"].startswith("[FIRING]"), "another outage to be told by itself", timeout=60)
            time.sleep(5)  # longer than any group waits here
            assert [one["title"].split()[0] for one in told()[2:]] == ["[RESOLVED]", "[FIRING]"], "one end"

    def test_of_a_finding_whose_alerts_are_grouped_otherwise_its_end_is_told_once(tmp_path: Path) -> None:
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path, receiver.port, is_quick=True, speaks=True, group_by="cluster") as alertmanager,
        ):

            def told() -> list[dict[str, Any]]:
                """Each message to Slack."""
                return [m.body["attachments"][0] for m in receiver.messages if m.path == "/slack"]

            def of(name: str, ends: str, turn: str) -> dict[str, Any]:
                said = {**RULES[name]["annotations"], "summary": "Broker 2 lacks it", "resolved_summary": ends}
                return {"labels": of_finding("lab", alertname=name), "annotations": said | {"resolved_turn": turn}}

            began = {"startsAt": (datetime.now(UTC) - timedelta(minutes=5)).isoformat()}
            worse = of("ParallaxDivergenceConfirmed", "It has not ended: consumers see it now", Turn.WORSE)
            over = of("ParallaxDivergenceExposed", "Replicas differed, and that is over", "")
            alertmanager.post(worse | began, over | began)
            until(lambda: len(told()) == 1, "both", timeout=60)
            now = datetime.now(UTC)
            before = {"endsAt": (now - timedelta(minutes=1)).isoformat()}
            alertmanager.post(worse | began | before, over | began | {"endsAt": now.isoformat()})
            until(lambda: len(told()) == 2, "their end", timeout=60)
            assert told()[1]["title"] == "[RESOLVED] Replicas differed, and that is over"
            assert told()[1]["color"] == "good"
            assert told()[1]["text"].count("Over: Replicas differed, and that is over") == 1
            assert "consumers see it now" not in told()[1]["text"]
            del over["annotations"]["resolved_summary"]
            alertmanager.post(over)
            until(lambda: len(told()) == 3, "it to be back", timeout=60)
            alertmanager.post({**over, "endsAt": datetime.now(UTC).isoformat()})
            until(lambda: len(told()) == 4, "its end, of which nothing was said", timeout=60)
            assert told()[3]["title"] == "[CHANGED] Nobody knows whether this is over: Broker 2 lacks it"
            assert "Over" not in told()[3]["text"]

    def test_a_resolved_alert_says_in_each_annotation_that_it_is_worse_or_what_healed_it(
        tmp_path: Path,
    ) -> None:
        state = MonitorState()
        registry = CollectorRegistry()
        places = Places("lab", page="https://monitor.example", shell=Shell(config="/etc/parallax.yaml"))
        registry.register(OfCluster(ParallaxCollector(state, places=places), "lab"))
        warning = finding("f1", severity=Severity.WARNING, kind=FindingKind.MARKER_MISSING)
        exposed = finding("f1", sequence=2, kind=FindingKind.ABORTED_RECORD_COMMITTED, exposed=True)
        healed = replace(
            exposed, sequence=3, status=FindingStatus.RESOLVED, summary="Broker 2 showed a record. Healed: it does not."
        )
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path / "alertmanager", receiver.port, is_quick=True) as alertmanager,
            Prometheus(tmp_path / "prometheus", alertmanager.port, every_s=1) as prometheus,
            served(registry) as port,
        ):

            def of(path: str, status: str) -> list[dict[str, Any]]:
                """The alerts of messages that have a status: of each its annotations."""
                messages = [m for m in receiver.messages if m.path == path]
                return [a["annotations"] for m in messages for a in m.body["alerts"] if a["status"] == status]

            prometheus.scrape(port)
            state.update_findings(FindingsStatus(open=(warning,)))
            until(lambda: of("/ticket", "firing"), "the ticket", timeout=60)
            state.update_findings(FindingsStatus(open=(exposed,)))
            until(lambda: of("/page", "firing"), "the page", timeout=60)
            (said,) = until(lambda: of("/ticket", "resolved"), "the end of the ticket", timeout=60)
            worse = "It has become worse: Broker 2 shows a rolled-back record of orders-0 as committed"
            for annotation in ("summary", "resolved_summary"):
                assert said[annotation].startswith(f"When ParallaxMarkerMissing ended, the finding had not. {worse}")
            (now,) = of("/page", "firing")[-1:]
            assert now["summary"].startswith(worse), "no two alerts have one summary"
            for one in (*of("/ticket", "firing")[:1], now):
                assert {text for name, text in one.items() if name.startswith("resolved_")} <= {""}
                assert "over" not in json.dumps({name: text for name, text in one.items() if "runbook" not in name})
                assert one["command"] == "parallax findings explain f1 -c /etc/parallax.yaml"
                assert one["page_url"] == "https://monitor.example/findings/f1"
            state.update_findings(FindingsStatus(ended=(healed,)))
            (said,) = until(lambda: of("/page", "resolved"), "the end of the page", timeout=60)
            for before in ("", "resolved_"):
                assert "showed a rolled-back record of orders-0 as committed; that is over" in said[f"{before}summary"]
                assert said[f"{before}description"] == healed.summary
            assert "is over" not in json.dumps(of("/ticket", "resolved"))

    def test_a_note_of_an_acknowledgement_has_a_title_and_a_colour_of_its_own_and_one_link(
        tmp_path: Path,
    ) -> None:
        name, page = "ParallaxFindingAcknowledged", "https://monitor.example/findings/f1"
        said = {"summary": "Acknowledged, still open: Broker 2 lacks it", "description": "By ann: known."}
        links = {"page_url": page, "command": "parallax findings explain f1", "runbook_url": "https://docs.example/"}
        ended = {"resolved_turn": "", "resolved_summary": "Replicas differed", "resolved_description": "It healed."}
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path, receiver.port, is_quick=True, speaks=True) as alertmanager,
        ):

            def told() -> list[dict[str, Any]]:
                """Each message to Slack."""
                return [m.body["attachments"][0] for m in receiver.messages if m.path == "/slack"]

            labels = {**of_finding("lab", alertname=name), "severity": "critical"}
            note: dict[str, Any] = {"labels": labels, "annotations": {**said, **links}}
            alertmanager.post(note)
            until(lambda: len(told()) == 1, "the note", timeout=60)
            (one,) = told()
            assert (one["title"], one["color"]) == ("[ACKNOWLEDGED] Still open: Broker 2 lacks it", "warning")
            assert one["text"].strip() == f"{said['summary']}\nBy ann: known.\nPage: {page}"
            note["annotations"] |= ended
            alertmanager.post({**note, "endsAt": datetime.now(UTC).isoformat()})
            until(lambda: len(told()) == 2, "its end", timeout=60)
            over = told()[1]
            assert (over["title"], over["color"]) == ("[RESOLVED] Replicas differed", "good")
            assert over["text"].strip() == f"Over: Replicas differed\nIt healed.\nWhat it was: {page}"

    def test_an_alert_of_another_system_has_no_empty_lines_for_what_it_does_not_say(tmp_path: Path) -> None:
        with (
            Receiver() as receiver,
            Alertmanager(tmp_path, receiver.port, is_quick=True, speaks=True) as alertmanager,
        ):
            alertmanager.post({"labels": {"alertname": "DiskFull", "severity": "critical"}})
            until(lambda: any(m.path == "/slack" for m in receiver.messages), "the page", timeout=60)
            (one,) = (m.body["attachments"][0] for m in receiver.messages if m.path == "/slack")
            assert (one["title"], one["text"].strip()) == ("[FIRING] DiskFull", "DiskFull")


def chat(receiver: Receiver) -> list[dict[str, Any]]:
    """Each message to Slack."""
    return [m.body["attachments"][0] for m in receiver.messages if m.path == "/slack"]


def ends(receiver: Receiver) -> list[str]:
    """The titles of what Slack was told to be over."""
    return [one["title"] for one in chat(receiver) if one["title"].startswith("[RESOLVED]")]


def settled(prometheus: Prometheus) -> None:
    """Wait until Prometheus has scraped and looked at its rules four times, so that what they send has been sent."""
    for _ in range(4):
        seen = prometheus.now("timestamp(up)")
        until(lambda: prometheus.now("timestamp(up)") != seen, "the next scrape", timeout=60)  # noqa: B023


def saying(rule: Mapping[str, Any], state: str) -> str:
    """What a message says of an alert of a rule in a state."""
    return f"{rule['annotations'][f'{state}summary']}\n{rule['annotations'][f'{state}description']}"


@contextmanager
def served(registry: CollectorRegistry) -> Iterator[int]:
    """The metrics of a registry, on a port."""
    (port,) = free_ports(1)
    server, thread = start_http_server(port, "127.0.0.1", registry)
    try:
        yield port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def receiver_of(labels: Labels) -> str:
    return {"critical": "page", "warning": "ticket", "info": "note", "none": "dead-man"}[labels["severity"]]


def differs_in(one: Labels, other: Labels) -> set[str]:
    return {label for label in one.keys() | other.keys() if one.get(label) != other.get(label)}
