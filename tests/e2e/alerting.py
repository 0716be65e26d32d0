"""A real Alertmanager with the shipped configuration, alone or behind a Prometheus that scrapes a job's state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry, start_http_server

from parallax.alerting.collector import OfCluster, ParallaxCollector
from parallax.alerting.listing import ALARMS
from parallax.alerting.places import Places
from parallax.alerting.state import MonitorState
from parallax.findings.finding import Finding
from parallax.findings.happenings import FindingsStatus
from parallax.lab.ports import free_ports
from parallax.lab.waiting import until
from parallax.model import Severity
from tests.e2e.prometheus import ROOT, Alertmanager, Prometheus
from tests.receiver import Receiver

Labels = Mapping[str, str]

UNHEARD = re.compile(r"^\{\{ if eq \$value -1\.0 \}\}.*?\{\{ else \}\}(.*)\{\{ end \}\}$", re.DOTALL)
"""An annotation that says something else while the job says nothing; the group is what it says while it speaks."""
_ALL = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/prometheus/parallax-rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
RULES: Mapping[str, Mapping[str, Any]] = {
    rule["alert"]: rule | {"annotations": {k: UNHEARD.sub(r"\1", text) for k, text in rule["annotations"].items()}}
    for rule in _ALL
    if "alert" in rule
}
_RECORDED = {rule["record"]: rule["expr"] for rule in _ALL if "record" in rule}
CRITICAL, LESS_GRAVE = (
    [alarm.name for alarm in ALARMS.values() if (alarm.severity is Severity.CRITICAL) is wanted]
    for wanted in (True, False)
)


def label_sets(alert: str) -> list[frozenset[str]]:
    """The names of labels that a rule keeps from its series, in each way in which its expression aggregates.

    A recorded series that the rule takes as it is has the labels of its own expression.
    """
    expr = RULES[alert]["expr"]
    as_it_is = [_RECORDED[name] for name in re.findall(r"\((\w+:\w+:\w+) unless\b", expr)]
    found = [names for one in (expr, *as_it_is) for names in re.findall(r"\bby \(([^)]*)\)", one)]
    return [frozenset(re.split(r",\s*", names)) for names in found if names != "finding_id"] or [frozenset()]


def alert(name: str, **labels: str) -> Labels:
    """The labels that the shipped rule gives an alert; a cluster without a name has no label."""
    unnamed = {"cluster"} - labels.keys()
    assert any(labels.keys() | (unnamed & names) == names for names in label_sets(name)), (name, labels)
    return {"alertname": name} | RULES[name]["labels"] | labels


def of_finding(
    cluster: str, partition: int = 0, name: str = "f1", alertname: str = "ParallaxDivergenceConfirmed"
) -> Labels:
    """The labels of an alert about a finding."""
    return alert(alertname, cluster=cluster, topic="orders", partition=str(partition), finding_id=name)


ONE_OF_EACH = [
    alert(name, **dict.fromkeys(max(label_sets(name), key=sorted), f"only-{name}")) for name in sorted(RULES)
]
"""An alert of each rule, each of another cluster."""


@dataclass(frozen=True)
class Sent:
    """What Alertmanager has sent to the receivers of its configuration.

    Attributes:
        receiver: all of the receivers.
        alertmanager: runs with the shipped configuration.
    """

    receiver: Receiver
    alertmanager: Alertmanager

    def bodies(self, *paths: str) -> list[dict[str, Any]]:
        """The messages to some receivers, such as ``/page``, in the order in which they came."""
        return [message.body for message in self.receiver.messages if message.path in paths]

    def alerts(self, status: str, *paths: str) -> list[dict[str, Any]]:
        """The alerts of a status in the messages to some receivers."""
        return [one for body in self.bodies(*paths) for one in body["alerts"] if one["status"] == status]

    @property
    def chat(self) -> list[dict[str, Any]]:
        """The messages to Slack."""
        return [body["attachments"][0] for body in self.bodies("/slack")]

    @property
    def titles(self) -> list[str]:
        """Their titles."""
        return [one["title"] for one in self.chat]

    @property
    def ends(self) -> list[str]:
        """The titles of what Slack was told to be over.

        Alertmanager drops an end that it looks at before it knows that the source ended; Prometheus says each end again
        after a minute (`--rules.alert.resend-delay`).
        """
        return [title for title in self.titles if title.startswith("[RESOLVED]")]


@dataclass(frozen=True)
class Watched(Sent):
    """The same, where a Prometheus with the shipped rules tells Alertmanager of a state.

    Attributes:
        state: what Prometheus scrapes.
        prometheus: scrapes it each second.
    """

    state: MonitorState
    prometheus: Prometheus

    def stands(self, *findings: Finding) -> None:
        """These are the open findings, and nobody has acknowledged one."""
        self.state.update_findings(FindingsStatus(open=findings))

    def acknowledged(self, event: Finding) -> None:
        """The only open finding is acknowledged."""
        self.state.update_findings(FindingsStatus(acknowledged=(event,)))

    def is_over(self, *ended: Finding) -> None:
        """No finding is open; of those that have ended, these are known."""
        self.state.update_findings(FindingsStatus(ended=ended))

    def settled(self) -> None:
        """Wait until Prometheus has scraped, and then looked at its rules three times: what they send has been sent."""
        _until_another(self.prometheus.scraped, "the next scrape")
        for _ in range(3):
            _until_another(self.prometheus.looked, "the next look at the rules")


def _until_another(time_of: Callable[[], object], what: str) -> None:
    before = time_of()
    until(lambda: time_of() != before, what)


@contextmanager
def sending(folder: Path, *, group_by: str = "") -> Iterator[Sent]:
    """An Alertmanager that a test posts alerts to. It sends within seconds, to Slack and PagerDuty as well.

    Args:
        folder: for its files.
        group_by: a label by which a user groups instead; empty: the shipped ones.
    """
    with (
        Receiver() as receiver,
        Alertmanager(folder, receiver.port, is_quick=True, speaks=True, group_by=group_by) as alertmanager,
    ):
        yield Sent(receiver, alertmanager)


@contextmanager
def watching(
    folder: Path,
    state: MonitorState | None = None,
    places: Places | None = None,
    *,
    ends_all: bool = False,
    waits: bool = True,
) -> Iterator[Watched]:
    """A Prometheus that scrapes the state of a job of the cluster ``lab`` each second, and tells an Alertmanager.

    Args:
        folder: for the files of both.
        state: what is scraped; None: a state in which nothing has happened.
        places: the links in the texts of alerts; None: those of a job without settings.
        ends_all: the receiver of notes is told of their end as well.
        waits: an alert waits for as long as its rule says; if not, for a second.
    """
    state = state or MonitorState()
    registry = CollectorRegistry()
    registry.register(OfCluster(ParallaxCollector(state, places=places), "lab"))
    with (
        Receiver() as receiver,
        Alertmanager(
            folder / "alertmanager", receiver.port, is_quick=True, speaks=True, ends_all=ends_all
        ) as alertmanager,
        Prometheus(folder / "prometheus", alertmanager.port, every_s=1, waits=waits) as prometheus,
        _served(registry) as port,
    ):
        prometheus.scrape(port)
        yield Watched(receiver, alertmanager, state, prometheus)


@contextmanager
def _served(registry: CollectorRegistry) -> Iterator[int]:
    """The metrics of a registry, on a port."""
    (port,) = free_ports(1)
    server, thread = start_http_server(port, "127.0.0.1", registry)
    try:
        yield port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
