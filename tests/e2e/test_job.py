"""The whole way through, as a user runs it: real brokers, the job as a process, findings in its table."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import closing, suppress
from functools import reduce
from pathlib import Path
from typing import Any

import psutil
import pytest

from dashboards.__main__ import ROOT
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.traffic import ProducerKind
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import Unauthorized
from tests.asking import ask
from tests.e2e import witness
from tests.e2e.job_process import await_compared, await_exactly
from tests.e2e.play import Played
from tests.e2e.prometheus import INSTALLED, awaited

pytestmark = pytest.mark.timeout(1500)

PRODUCERS: tuple[ProducerKind, ...] = ("legacy", "java")


@pytest.mark.parametrize("producer", PRODUCERS)
def test_five_divergences_in_one_outage_are_found_and_nothing_else(played: Played, producer: ProducerKind) -> None:
    assert len(await_exactly(played.job, played.gone[producer])) == 5


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("script", SCENARIOS["all"].scripts)
def test_each_divergence_is_found_with_its_evidence(played: Played, producer: ProducerKind, script: str) -> None:
    topic = f"gone-{producer}-{script}"
    (finding,) = [f for f in await_exactly(played.job, played.gone[producer]) if f.topic == topic]
    evidence = json.loads(finding.evidence)
    assert evidence, "a finding carries what the brokers answered"
    assert f"broker {finding.broker}" in finding.summary.lower()
    assert not finding.exposed, "broker 2 is still a follower"
    labels = {"topic": topic, "kind": str(finding.kind), "broker_id": "2"}
    # The metrics follow once the finding is in its table.
    until(lambda: played.job.metric("parallax_open_findings", **labels) == 1.0, f"{labels} to be counted")


@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_healthy_control_is_compared_to_its_end_and_yields_nothing(played: Played, producer: ProducerKind) -> None:
    topics = played.well[producer].topics
    await_compared(played.job, topics)
    assert [f for f in played.job.findings() if f.topic in topics] == []


def test_its_page_and_readyz_say_that_it_starts_and_then_what_it_has_found(played: Played) -> None:
    assert (played.at_first["condition"], played.at_first["status"]) == ("starting", "unhealthy")
    address = f"http://127.0.0.1:{played.job.port}"

    def has_found() -> Any:
        said = json.loads(ask(address, "/readyz").text)
        return said if (said["condition"], said["status"]) == ("findings", "ok") else None

    ready = until(has_found, "it to be ready, and to say what it has found")
    assert re.fullmatch(r"\d+ open findings", ready["text"])
    assert f"<title>{ready['text']} · Parallax · played</title>" in ask(address).text
    page = ask(address, f"/topics/{played.gone['legacy'].topics[0]}/0").text
    assert re.search(r"Consumers read broker [13], which leads it\. In sync: [123, ]+\.", page)


def queries_of(path: Path) -> list[str]:
    """The queries of a dashboard, with everything chosen."""
    page = json.loads(path.read_text())
    asked = [target["expr"] for panel in page["panels"] for target in panel.get("targets", ())]
    asked += [annotation["expr"] for annotation in page["annotations"]["list"]]
    chosen = {"$cluster": "played", "$topic": ".*", "$partition": ".*", "$__rate_interval": "30s"}
    return [reduce(lambda text, name: text.replace(name, chosen[name]), chosen, query) for query in asked]


if INSTALLED:

    @pytest.mark.parametrize("dashboard", sorted((ROOT / "dashboards").glob("*.json")), ids=lambda path: path.stem)
    def test_every_query_of_the_dashboards_has_data_in_a_real_prometheus(played: Played, dashboard: Path) -> None:
        assert played.alerting is not None
        for query in queries_of(dashboard):
            awaited(played.alerting.prometheus, query)


def test_nothing_of_it_listens_to_the_network(played: Played) -> None:
    listening = set()
    for process in [played.job.process, *played.job.process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # A worker of Spark that has ended meanwhile.
            listening |= {c.laddr for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    assert (("127.0.0.1", played.job.port)) in listening
    assert {address.ip for address in listening} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_a_second_job_on_the_same_storage_is_refused_in_one_line(played: Played) -> None:
    command = [sys.executable, "-m", "parallax.cli", "run", "-c", str(played.job.config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 1
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "in use by the job with pid" in ended.stderr


def test_it_stops_in_good_order_on_sigterm(played: Played) -> None:
    assert played.job.stop() == 0, "nothing that comes later needs it"


def test_no_broker_was_ever_asked_by_it_for_a_change(played: Played) -> None:
    asked = witness.kinds(played.lab)
    assert {"FETCH", "METADATA", "DESCRIBE_CONFIGS", "LIST_OFFSETS"} <= asked <= witness.READING
    assert witness.denied(played.lab) == [], "nor for anything else that docs/operate/security.md does not name"
    # Both witnesses notice a single request that would change something.
    topic = played.well["legacy"].topics[0]
    with closing(ReplicaClient(witness.options(played.lab), timeout_ms=30_000)) as client, pytest.raises(Unauthorized):
        client.alter_configs(topic, {"delete.retention.ms": "1"})
    until(lambda: witness.kinds(played.lab) - witness.READING == {"INCREMENTAL_ALTER_CONFIGS"}, "it to be on record")
    (refused,) = witness.denied(played.lab)
    assert re.search(rf"operation = ALTER_CONFIGS .* on resource = Topic:LITERAL:{topic}", refused)


def test_each_line_of_its_log_is_an_event(played: Played) -> None:
    others = [line for line in played.job.log.read_text().splitlines() if line != "=== start"]
    assert [line for line in others if not line.startswith("{")] == []
    assert {"event", "level", "timestamp"} <= set.intersection(*(set(json.loads(line)) for line in others))
    assert sum(json.loads(line)["event"] == "finding" for line in others) >= 10
