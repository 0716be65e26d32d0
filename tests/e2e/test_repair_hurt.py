"""Copies that somebody or something gets in the way of, by version of Kafka: they stop, and go on once resumed.

Who is wrong is said by findings made by hand: what is moved, and when, does not depend on how they were found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import KafkaAdminClient
from typer.testing import CliRunner, Result

from parallax.cli import app
from parallax.findings.table import FindingsTable
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from tests.e2e.accused import accused
from tests.versions import REPAIRED

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]

NOT_REACHED = 10_000
"""Where the findings say that the replicas differ: all of them show the same below."""
RECORDS, SIZE = 30, 100_000
SLOW = 100_000
"""Bytes a second that a copy gets while it is slowed down: it takes half a minute."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
WHOSE = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@pytest.fixture(scope="module", params=REPAIRED)
def lab(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers of one version; each test leaves all of them running."""
    with Cluster(request.param) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(lab: Cluster) -> Iterator[ReplicaClient]:
    with closing(ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=10_000)) as made:
        yield made


@pytest.fixture
def config(lab: Cluster, topic: str, tmp_path: Path) -> Path:
    """Settings of a job by which broker 3 is wrong, and broker 1 leads a topic of some megabytes."""
    lab.create_topic(topic, replicas=[1, 2, 3])
    producer = PlainProducer(lab.bootstrap_servers)
    for number in range(RECORDS):
        producer.send(topic, f"k{number}", str(number) * SIZE)
    (tmp_path / "data").mkdir()
    FindingsTable(str(tmp_path / "data")).append([accused(topic, 3, 1, [1, 2, 3], offset=NOT_REACHED)])
    document = {
        "kafka": {"bootstrap.servers": lab.bootstrap_servers},
        "topics": {"include": [topic]},
        "storage": {"path": str(tmp_path / "data")},
        "repair": {"mode": "on"},
    }
    path = tmp_path / "repair.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def repair(*words: object) -> Result:
    return CliRunner().invoke(app, ["repair", *map(str, words)])


def planned(config: Path) -> Path:
    file = config.parent / "copy.plan"
    done = repair("plan", "aaaa", "-c", config, "-o", file, "--format", "json", "--right", 1)
    assert done.exit_code == 0, done.output
    steps = json.loads(done.stdout)["steps"]
    assert [(step["move"]["purpose"], step["move"]["replicas"]) for step in steps] == [
        ("drop", [1, 2]),
        ("copy", [1, 2, 3]),
    ]
    return file


@contextmanager
def slowed(lab: Cluster, topic: str) -> Iterator[None]:
    """New copies of a topic are slow meanwhile."""
    admin.set_broker_config(lab, dict.fromkeys(RATES, str(SLOW)))
    admin.set_topic_config(lab, topic, dict.fromkeys(WHOSE, "*"))
    try:
        yield
    finally:
        admin.set_topic_config(lab, topic, dict.fromkeys(WHOSE))
        admin.set_broker_config(lab, dict.fromkeys(RATES, str(1 << 40)))


@contextmanager
def running(client: ReplicaClient, config: Path, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A repair in a process of its own, which waits for the new copy."""
    program = [sys.executable, "-m", "parallax.cli", "repair", "run", str(planned(config)), "-c", str(config)]
    place = TopicPartition(topic, 0)
    with subprocess.Popen([*program, "--yes", "--format", "json"], stdout=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: client.reassignments().get(place) == (1, 2, 3), "the new copy to be made", timeout=120)
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    out, _ = process.communicate(timeout=180)
    return process.returncode, json.loads(out)


def state(client: ReplicaClient, topic: str) -> tuple[list[int], int, set[int]]:
    found = client.metadata([topic])[topic].partitions[0]
    return list(found.replicas), found.leader, set(found.isr)


def goes_on(client: ReplicaClient, config: Path, topic: str, repair_id: str) -> None:
    """It is resumed, comes to its end, and every replica shows all of it."""
    over = repair("resume", repair_id, "-c", config, "--format", "json")
    assert (over.exit_code, json.loads(over.stdout)["phase"]) == (0, "over"), over.output
    all_show_all(client, topic)


def all_show_all(client: ReplicaClient, topic: str) -> None:
    assert state(client, topic) == ([1, 2, 3], 1, {1, 2, 3})
    shown = [read_replica(client, broker, topic).records for broker in (1, 2, 3)]
    assert shown[0] == shown[1] == shown[2]
    assert len(shown[0]) == RECORDS


def test_a_copy_whose_leader_is_killed_stops_is_given_up_and_planned_anew(
    lab: Cluster, client: ReplicaClient, config: Path, topic: str
) -> None:
    with slowed(lab, topic), running(client, config, topic) as process:
        lab.kill_broker(1)
        code, said = ended(process)
        assert (code, said["phase"]) == (1, "stopped"), said
        assert state(client, topic)[1] == 2, said
        lab.start_broker(1)
        lab.wait_ready()
    lab.wait_isr(topic, {1, 2, 3})
    assert client.elect(TopicPartition(topic, 0))
    until(lambda: state(client, topic)[1] == 1, "broker 1 to lead again")
    resumed = repair("resume", said["id"], "-c", config, "--format", "json")
    assert (resumed.exit_code, json.loads(resumed.stdout)["phase"]) == (1, "stopped"), resumed.output
    assert "another broker may have led meanwhile" in json.loads(resumed.stdout)["reason"]
    given_up = repair("undo", said["id"], "-c", config, "--format", "json")
    assert (given_up.exit_code, json.loads(given_up.stdout)["phase"]) == (0, "closed"), given_up.output
    again = repair("run", planned(config), "-c", config, "--yes", "--format", "json")
    assert (again.exit_code, json.loads(again.stdout)["phase"]) == (0, "over"), again.output
    all_show_all(client, topic)


def test_a_copy_that_somebody_else_cancels_stops_and_is_made_once_it_is_resumed(
    lab: Cluster, client: ReplicaClient, config: Path, topic: str
) -> None:
    with slowed(lab, topic), running(client, config, topic) as process:
        with closing(KafkaAdminClient(bootstrap_servers=lab.bootstrap_servers)) as cancelling:
            cancelling.alter_partition_reassignments({KafkaPythonPartition(topic, 0): None})
        code, said = ended(process)
        assert (code, said["phase"]) == (1, "stopped"), said
        assert state(client, topic) == ([1, 2], 1, {1, 2}), said
    goes_on(client, config, topic, said["id"])


def test_a_plan_that_is_out_of_date_changes_nothing(
    lab: Cluster, client: ReplicaClient, config: Path, topic: str
) -> None:
    file = planned(config)
    client.reassign(TopicPartition(topic, 0), [2, 1, 3])
    assert client.elect(TopicPartition(topic, 0))
    until(lambda: state(client, topic)[:2] == ([2, 1, 3], 2), "broker 2 to lead")
    late = repair("run", file, "-c", config, "--yes")
    assert (late.exit_code, "the plan is out of date" in late.stderr) == (2, True), late.output
    another = replace(accused(topic, 2, 1, [1, 2, 3], offset=NOT_REACHED + 1), finding_id="b" * 32, suspect_id="b" * 32)
    table = FindingsTable(str(config.parent / "data"))
    table.news()
    table.append([another])
    client.reassign(TopicPartition(topic, 0), [1, 2, 3])
    assert client.elect(TopicPartition(topic, 0))
    until(lambda: state(client, topic)[:2] == ([1, 2, 3], 1), "broker 1 to lead")
    other = repair("run", file, "-c", config, "--yes")
    assert other.exit_code == 2, other.output
    assert "there is a finding that the plan does not know" in other.stderr
    assert state(client, topic) == ([1, 2, 3], 1, {1, 2, 3})
    assert json.loads(repair("status", "-c", config, "--format", "json").stdout) == []
