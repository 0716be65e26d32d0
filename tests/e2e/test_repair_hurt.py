"""Copies that somebody or something gets in the way of, by version of Kafka: they stop, and go on once resumed.

A job has found that a replica lacks a record which its disk lost. In the end a consumer reads that record there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from parallax.cli import app
from parallax.demo_repair import consumed
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import FindingKind, TopicPartition
from parallax.replica.client import ReplicaClient
from tests.e2e.damaged import lose_record
from tests.e2e.job_process import JobProcess
from tests.e2e.killed import killed_after_each_event
from tests.versions import REPAIRED

pytestmark = pytest.mark.release

RECORDS, SIZE = 30, 100_000
WRITTEN = {f"k{number}": f"{number:03}" * (SIZE // 3) for number in range(RECORDS)}
SLOW = 100_000
"""Bytes a second that a copy gets while it is slowed down: it takes half a minute."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
WHOSE = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@dataclass(frozen=True)
class Watched:
    """Brokers, and a job that watches the topics of these tests."""

    lab: Cluster
    client: ReplicaClient
    job: JobProcess

    def accused(self, topic: str) -> list[int]:
        """The brokers that open findings about a topic accuse of a missing record."""
        found = (one for one in self.job.findings() if one.topic == topic and one.is_open)
        return sorted(one.broker for one in found if one.kind is FindingKind.RECORD_MISSING)

    def loses(self, topic: str, broker: int, offset: int) -> None:
        """Have the disk of a broker lose a record that a job has read."""
        self.lab.stop_broker(broker)
        self.lab.wait_isr(topic, {1, 2, 3} - {broker})
        lose_record(self.lab, broker, topic, offset)
        self.lab.start_broker(broker)
        self.lab.wait_isr(topic, {1, 2, 3})

    def until_accused(self, topic: str, *brokers: int) -> None:
        """Wait until open findings accuse these brokers, and no others."""
        until(lambda: self.accused(topic) == list(brokers), f"{brokers} to be accused")


@pytest.fixture(scope="module", params=REPAIRED)
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Three brokers of one version; each test leaves all of them running."""
    folder = tmp_path_factory.mktemp("hurt")
    with (
        Cluster(request.param) as lab,
        closing(ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=10_000)) as client,
        JobProcess(folder, lab.bootstrap_servers, "test-.*", audit={"interval_s": 10}) as job,
    ):
        job.start()
        yield Watched(lab, client, job)


@pytest.fixture
def lab(watched: Watched) -> Cluster:
    return watched.lab


@pytest.fixture
def client(watched: Watched) -> ReplicaClient:
    return watched.client


@pytest.fixture
def config(watched: Watched, topic: str, tmp_path: Path) -> Path:
    """Settings of somebody who may repair a topic of some megabytes: broker 1 leads it, and broker 3 lacks a record."""
    watched.lab.create_topic(topic, replicas=[1, 2, 3])
    watched.job.await_policies([topic])
    producer = PlainProducer(watched.lab.bootstrap_servers)
    last = [producer.send(topic, key, value) for key, value in WRITTEN.items()][-1]
    for broker in (1, 2, 3):
        watched.job.await_observed(topic, last, broker)
    watched.loses(topic, 3, 7)
    assert "k7" not in read_replica(watched.client, 3, topic).visible
    watched.until_accused(topic, 3)
    path = tmp_path / "repair.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(watched.job.config.read_text()), "repair": {"mode": "on"}}))
    return path


def repair(*words: object) -> Result:
    return CliRunner().invoke(app, ["repair", *map(str, words)])


def planned(config: Path, topic: str) -> Path:
    file = config.parent / "copy.plan"
    done = repair(
        "plan", "--topic", topic, "--partition", 0, "-c", config, "-o", file, "--right", 1, "--format", "json"
    )
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
    program = [sys.executable, "-m", "parallax.cli", "repair", "run", str(planned(config, topic)), "-c", str(config)]
    place = TopicPartition(topic, 0)
    with subprocess.Popen([*program, "--yes", "--format", "json"], stdout=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: client.reassignments().get(place) == (1, 2, 3), "the new copy to be made")
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    out, _ = process.communicate(timeout=180)
    return process.returncode, json.loads(out)


def state(client: ReplicaClient, topic: str) -> tuple[list[int], int, set[int]]:
    found = client.metadata([topic])[topic].partitions[0]
    return list(found.replicas), found.leader, set(found.isr)


def goes_on(watched: Watched, config: Path, topic: str, repair_id: str) -> None:
    """It is resumed, and comes to its end."""
    over = repair("resume", repair_id, "-c", config, "--format", "json")
    assert (over.exit_code, json.loads(over.stdout)["phase"]) == (0, "over"), over.output
    assert state(watched.client, topic) == ([1, 2, 3], 1, {1, 2, 3})
    consumers_get_all(watched, topic)


def consumers_get_all(watched: Watched, topic: str) -> None:
    """The job calls it over, and a plain consumer gets all of it of every replica as each leads in turn."""
    watched.until_accused(topic)
    for broker in (3, 1, 2):
        admin.elect_leaders(watched.lab, topic, broker=broker)
        got = consumed(watched.lab.bootstrap_servers, topic)
        assert got.keys() == WRITTEN.keys(), f"led by broker {broker}"
        assert got == WRITTEN


def test_a_copy_whose_leader_is_killed_stops_and_the_replica_is_right_once_it_is_given_up(
    watched: Watched, lab: Cluster, client: ReplicaClient, config: Path, topic: str
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
    # What it stops by depends on when it looked: while broker 2 led, or afterwards.
    assert any(why in json.loads(resumed.stdout)["reason"] for why in ("led meanwhile", "broker 2 leads")), said
    given_up = repair("undo", said["id"], "-c", config, "--format", "json")
    assert (given_up.exit_code, json.loads(given_up.stdout)["phase"]) == (0, "closed"), given_up.output
    assert state(client, topic) == ([1, 2, 3], 1, {1, 2, 3})
    consumers_get_all(watched, topic)


def test_a_copy_that_somebody_else_cancels_stops_and_is_made_once_it_is_resumed(
    watched: Watched, lab: Cluster, client: ReplicaClient, config: Path, topic: str
) -> None:
    with slowed(lab, topic), running(client, config, topic) as process:
        client.reassign(TopicPartition(topic, 0), None)
        code, said = ended(process)
        assert (code, said["phase"]) == (1, "stopped"), said
        assert state(client, topic) == ([1, 2], 1, {1, 2}), said
    goes_on(watched, config, topic, said["id"])


def test_a_copy_whose_process_is_killed_while_it_waits_goes_on_once_it_is_resumed(
    watched: Watched, lab: Cluster, client: ReplicaClient, config: Path, topic: str
) -> None:
    with slowed(lab, topic), running(client, config, topic) as process:
        process.kill()
        process.wait()
        known = json.loads(repair("status", "-c", config, "--format", "json").stdout)[-1]
        assert (known["topic"], known["phase"]) == (topic, "running"), known
    goes_on(watched, config, topic, known["id"])


@pytest.mark.timeout(900)
def test_a_copy_that_is_killed_after_each_event_that_it_records_comes_to_its_end(
    watched: Watched, client: ReplicaClient, config: Path, topic: str
) -> None:
    admin.elect_leaders(watched.lab, topic, broker=3)
    assert state(client, topic)[:2] == ([3, 1, 2], 3)
    file = config.parent / "copy.plan"
    made = repair("plan", "--topic", topic, "--partition", 0, "-c", config, "-o", file, "--format", "json")
    assert [step["move"]["purpose"] for step in json.loads(made.stdout)["steps"]] == ["lead", "drop", "copy", "order"]
    kinds = killed_after_each_event(file, config, Path(watched.job.storage))
    assert (kinds.count("intended"), kinds.count("proven")) == (4, 4), kinds
    assert state(client, topic) == ([3, 1, 2], 1, {1, 2, 3})
    consumers_get_all(watched, topic)


def test_a_plan_that_is_out_of_date_changes_nothing(
    watched: Watched, client: ReplicaClient, config: Path, topic: str
) -> None:
    file = planned(config, topic)
    admin.elect_leaders(watched.lab, topic, broker=2)
    late = repair("run", file, "-c", config, "--yes")
    assert (late.exit_code, "the plan is out of date" in late.stderr) == (2, True), late.output
    watched.loses(topic, 2, 11)
    watched.until_accused(topic, 2, 3)
    admin.elect_leaders(watched.lab, topic, broker=1)
    until(lambda: state(client, topic) == ([1, 2, 3], 1, {1, 2, 3}), "all to be as it was planned for")
    other = repair("run", file, "-c", config, "--yes")
    assert other.exit_code == 2, other.output
    assert "there is a finding that the plan does not know" in other.stderr
    assert state(client, topic) == ([1, 2, 3], 1, {1, 2, 3})
    assert all(one["topic"] != topic for one in json.loads(repair("status", "-c", config, "--format", "json").stdout))
