"""Replicas that are copied anew on real brokers: leadership first, away and back, killed at each change, undone.

Who is wrong is said by findings made by hand: what is moved, and when, does not depend on how they were found.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import KafkaAdminClient
from typer.testing import CliRunner, Result

from parallax.cli import app
from parallax.demo_repair import consumed
from parallax.findings.finding import Finding
from parallax.findings.table import FindingsTable
from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from tests.e2e.accused import accused, as_shown
from tests.e2e.damaged import RIGHT, WRONG, change_record
from tests.e2e.job_process import patient
from tests.versions import REPAIRED

DIFFERS = 7
"""The offset at which wrong replicas show another record."""


OTHERS = [version for version in REPAIRED if version != DEFAULT_KAFKA_VERSION]


@pytest.fixture(scope="module", params=["", *(pytest.param(one, marks=pytest.mark.release) for one in OTHERS)])
def kafka(kafka: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The shared brokers; before a release also three of each other version on which repairs are tried."""
    if not request.param:
        yield kafka
        return
    with Cluster(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def client(kafka: Cluster) -> Iterator[ReplicaClient]:
    with closing(ReplicaClient({"bootstrap.servers": kafka.bootstrap_servers}, timeout_ms=10_000)) as made:
        yield made


def settings(kafka: Cluster, folder: Path, *findings: Finding) -> Path:
    """Settings of a job that has reported findings."""
    (folder / "data").mkdir()
    path = folder / "repair.yaml"
    document = {
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
        "topics": {"include": [findings[0].topic]},
        "storage": {"path": str(folder / "data")},
        "repair": {"mode": "on"},
    }
    path.write_text(yaml.safe_dump(patient(document)))
    FindingsTable(str(folder / "data")).append([as_shown(path, finding) for finding in findings])
    return path


def repair(*words: object) -> Result:
    return CliRunner().invoke(app, ["repair", *map(str, words)])


def planned(config: Path, *more: object) -> tuple[Path, list[dict[str, Any]]]:
    """A plan; where no other option is given, a person says that broker 1 is right, since no job watches."""
    file = config.parent / "copy.plan"
    more = more or ("--right", 1)
    done = repair("plan", "aaaa", "-c", config, "-o", file, "--format", "json", *more)
    assert done.exit_code == 0, done.output
    return file, json.loads(done.stdout)["steps"]


def moves(steps: list[dict[str, Any]]) -> list[tuple[str, list[int]]]:
    return [(step["move"]["purpose"], step["move"]["replicas"]) for step in steps]


def ends(done: Result) -> str:
    return str(json.loads(done.stdout)["phase"])


def state(address: str, topic: str) -> tuple[list[int], int]:
    """Who holds a topic, the preferred leader first, and who leads it, as one broker has it."""
    with closing(ReplicaClient({"bootstrap.servers": address}, timeout_ms=10_000)) as client:
        found = client.metadata([topic])[topic].partitions[0]
    return list(found.replicas), found.leader


def until_it_is(kafka: Cluster, topic: str, replicas: list[int], leader: int | None = None) -> None:
    """Wait for an assignment, and maybe a leader: each broker learns of them a moment after the controller."""

    def is_so() -> bool:
        said = [state(broker.address, topic) for broker in kafka.brokers.values()]
        return all(held == replicas and leader in (None, leads) for held, leads in said)

    until(is_so, f"{topic} to be on brokers {replicas}, led by {leader or 'whichever'}")


def filled(kafka: Cluster, topic: str, replicas: list[int], *wrong: int, **config: str) -> None:
    """Fill a topic; the disks of some brokers change one record of it. The first replica leads."""
    kafka.create_topic(topic, replicas=replicas, config=config)
    producer = PlainProducer(kafka.bootstrap_servers)
    for number in range(20):
        producer.send(topic, f"k{number}", RIGHT)
    for broker in wrong:
        kafka.stop_broker(broker)
        kafka.wait_isr(topic, {*replicas} - {broker})
        change_record(kafka, broker, topic, DIFFERS)
        kafka.start_broker(broker)
        kafka.wait_isr(topic, {*replicas})
    if replicas[0] in wrong:
        admin.elect_leaders(kafka, topic, broker=replicas[0])


def until_all_show_the_same(client: ReplicaClient, topic: str) -> None:
    def alike() -> bool:
        shown = [read_replica(client, broker, topic) for broker in (1, 2, 3)]
        return len({str(one.records) for one in shown}) == 1 and len(shown[0].records) == 20

    until(alike, f"all replicas of {topic} to show the same")


def test_one_that_is_killed_at_each_change_is_resumed_and_the_order_comes_back(
    kafka: Cluster, client: ReplicaClient, topic: str, tmp_path: Path
) -> None:
    filled(kafka, topic, [3, 1, 2], 3)
    until(lambda: consumed(kafka.bootstrap_servers, topic)["k7"] == WRONG, "consumers to be misled")
    config = settings(kafka, tmp_path, accused(topic, 3, 3, [3, 1, 2], offset=DIFFERS))
    unwatched = repair("plan", "aaaa", "-c", config)
    assert "nobody knows whether broker 1 is right" in " ".join(unwatched.stdout.split()), unwatched.output
    assert "no job watches: start it" in " ".join(unwatched.stdout.split())
    file, steps = planned(config)
    assert moves(steps) == [("lead", [1, 3, 2]), ("drop", [1, 2]), ("copy", [1, 3, 2]), ("order", [3, 1, 2])]
    words = ["repair", "run", str(file), "-c", str(config), "--yes"]
    for when in ("before reassign", "after elect", "before reassign", "after reassign", "after reassign"):
        ended = subprocess.run(
            [sys.executable, "-c", dying(*when.split()), *words],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr
        (known,) = json.loads(repair("status", "-c", config, "--format", "json").stdout)
        words = ["repair", "resume", known["id"], "-c", str(config)]
    over = repair("resume", known["id"], "-c", config, "--format", "json")
    assert (over.exit_code, ends(over)) == (0, "over"), over.output
    until_it_is(kafka, topic, [3, 1, 2], 1)
    until_all_show_the_same(client, topic)
    for broker in (3, 1, 2):
        admin.elect_leaders(kafka, topic, broker=broker)
        got = consumed(kafka.bootstrap_servers, topic)
        assert got == {f"k{number}": RIGHT for number in range(20)}, f"led by broker {broker}"


def dying(when: str, name: str) -> str:
    """Python that runs the command line, and is killed beside its first request for a change of a kind."""
    sent = "real(self, *given)" if when == "after" else ""
    return f"""
import os, signal
from parallax.replica.client import ReplicaClient
real = ReplicaClient.{name}
def dies(self, *given):
    {sent or "pass"}
    os.kill(os.getpid(), signal.SIGKILL)
ReplicaClient.{name} = dies
from parallax.cli import main
main()
"""


def test_of_two_that_are_wrong_one_is_copied_at_a_time(
    kafka: Cluster, client: ReplicaClient, topic: str, tmp_path: Path
) -> None:
    filled(kafka, topic, [1, 2, 3], 2, 3)
    config = settings(kafka, tmp_path, accused(topic, 2, 1, [1, 2, 3], also=[3], offset=DIFFERS))
    file, steps = planned(config)
    assert moves(steps) == [("drop", [1, 3]), ("copy", [1, 2, 3]), ("drop", [1, 2]), ("copy", [1, 2, 3])]
    assert "broker 3 may lead, and is wrong" in steps[0]["warning"]
    done = repair("run", file, "-c", config, "--yes", "--format", "json")
    assert (done.exit_code, ends(done)) == (0, "over"), done.output
    until_it_is(kafka, topic, [1, 2, 3], 1)
    until_all_show_the_same(client, topic)


def test_of_two_replicas_a_third_broker_stands_in_and_undo_puts_the_assignment_back(
    kafka: Cluster, client: ReplicaClient, topic: str, tmp_path: Path
) -> None:
    filled(kafka, topic, [2, 1], 2, **{"min.insync.replicas": "2"})
    config = settings(kafka, tmp_path, accused(topic, 2, 2, [2, 1], offset=DIFFERS))
    file, steps = planned(config)
    assert moves(steps) == [("lead", [1, 2]), ("drop", [1, 3]), ("copy", [1, 2]), ("order", [2, 1])]
    one = repair("run", file, "-c", config, "--yes", "--step", 1, "--format", "json")
    assert (one.exit_code, ends(one)) == (0, "over"), one.output
    late = repair("run", file, "-c", config, "--yes", "--step", 3)
    assert (late.exit_code, "its replicas are [1, 2], and the step begins with [1, 3]" in late.stderr) == (2, True)
    file, steps = planned(config)
    assert moves(steps) == [("drop", [1, 3]), ("copy", [1, 2])]
    words = [sys.executable, "-c", dying("after", "reassign"), "repair", "run", str(file), "-c", str(config), "--yes"]
    assert subprocess.run(words, capture_output=True, timeout=300, check=False).returncode == -signal.SIGKILL
    known = json.loads(repair("status", "-c", config, "--format", "json").stdout)[-1]
    back = repair("undo", known["id"], "-c", config, "--format", "json")
    assert (back.exit_code, ends(back)) == (0, "closed"), back.output
    client.reassign(TopicPartition(topic, 0), None)  # it comes too late
    until_it_is(kafka, topic, [1, 2], 1)


def test_what_a_step_that_was_run_alone_took_away_is_given_back_by_undo_killed_or_not(
    kafka: Cluster, client: ReplicaClient, topic: str, tmp_path: Path
) -> None:
    filled(kafka, topic, [3, 1, 2], 3)
    config = settings(kafka, tmp_path, accused(topic, 3, 3, [3, 1, 2], offset=DIFFERS))
    file, steps = planned(config)
    assert moves(steps)[:2] == [("lead", [1, 3, 2]), ("drop", [1, 2])]
    early = repair("run", file, "-c", config, "--yes", "--step", 2)
    assert (early.exit_code, "the step begins with [1, 3, 2]" in early.stderr) == (2, True), early.output
    ids = []
    for number in (1, 2):
        done = repair("run", file, "-c", config, "--yes", "--step", number, "--format", "json")
        assert (done.exit_code, ends(done)) == (0, "over"), done.output
        ids.append(json.loads(done.stdout)["id"])
    until_it_is(kafka, topic, [1, 2], 1)
    told = json.loads(repair("status", "-c", config, "--format", "json").stdout)
    assert [one["left_assigned"] for one in told] == [[1, 3, 2], [1, 2]]
    first, second = ids
    refused = repair("undo", first, "-c", config)
    assert (refused.exit_code, f"repair {second[:8]} of {topic}-0 came later" in refused.stderr) == (2, True)
    for when in ("before", "after"):
        words = [sys.executable, "-c", dying(when, "reassign"), "repair", "undo", second, "-c", str(config)]
        assert subprocess.run(words, capture_output=True, timeout=300, check=False).returncode == -signal.SIGKILL
        assert repair("resume", second, "-c", config).exit_code == 2, "it is being undone"
    back = repair("undo", second, "-c", config, "--format", "json")
    assert (back.exit_code, ends(back)) == (0, "closed"), back.output
    until_it_is(kafka, topic, [3, 1, 2])
    until_all_show_the_same(client, topic)
    assert repair("undo", second, "-c", config).exit_code == 2, "nothing is left"
    last = repair("undo", first, "-c", config, "--format", "json")
    assert (last.exit_code, ends(last)) == (0, "closed"), last.output
    until_it_is(kafka, topic, [3, 1, 2])


def test_a_reassignment_that_somebody_else_asks_for_stops_it(kafka: Cluster, topic: str, tmp_path: Path) -> None:
    filled(kafka, topic, [1, 2], 2)
    config = settings(kafka, tmp_path, accused(topic, 2, 1, [1, 2], offset=DIFFERS))
    file, _ = planned(config)
    words = [sys.executable, "-c", dying("after", "reassign"), "repair", "run", str(file), "-c", str(config), "--yes"]
    assert subprocess.run(words, capture_output=True, timeout=300, check=False).returncode == -signal.SIGKILL
    until_it_is(kafka, topic, [1, 3])
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as other:
        other.alter_partition_reassignments({KafkaPythonPartition(topic, 0): [1]})
    until_it_is(kafka, topic, [1])
    (known,) = json.loads(repair("status", "-c", config, "--format", "json").stdout)
    stopped = repair("resume", known["id"], "-c", config, "--format", "json")
    assert (stopped.exit_code, ends(stopped)) == (1, "stopped"), stopped.output
    assert "reassigned by somebody else: its replicas are [1]" in json.loads(stopped.stdout)["reason"]
    left = repair("undo", known["id"], "-c", config, "--format", "json")
    assert (left.exit_code, ends(left)) == (1, "stopped"), "what somebody else has asked for stays"
    until_it_is(kafka, topic, [1], 1)


def lead(*words: object) -> Result:
    return CliRunner().invoke(app, ["lead", *map(str, words)])


def test_leadership_is_moved_from_a_wrong_replica_and_no_election_brings_it_back(
    kafka: Cluster, client: ReplicaClient, topic: str, tmp_path: Path
) -> None:
    filled(kafka, topic, [3, 1, 2], 3)
    until_it_is(kafka, topic, [3, 1, 2], 3)
    config = settings(kafka, tmp_path, accused(topic, 3, 3, [3, 1, 2], offset=DIFFERS))
    before = lead(topic, "-c", config)
    assert (before.exit_code, "Broker 3 leads, and must not." in before.stdout) == (1, True), before.output
    file, steps = planned(config, "--lead")
    assert moves(steps) == [("lead", [1, 2, 3])]
    done = repair("run", file, "-c", config, "--yes", "--format", "json")
    assert (done.exit_code, ends(done)) == (0, "over"), done.output
    until_it_is(kafka, topic, [1, 2, 3], 1)
    assert client.elect(TopicPartition(topic, 0)), "what a controller does by itself every five minutes"
    until_it_is(kafka, topic, [1, 2, 3], 1)
    (shown,) = json.loads(lead(topic, "-c", config, "--format", "json").stdout)
    assert (shown["leader"], shown["warnings"]) == (1, [])
    assert [one["may_lead"] for one in shown["replicas"]] == ["unknown", "unknown", "unsafe"], "nobody watches"
    again = repair("plan", "aaaa", "-c", config, "--lead")
    assert (again.exit_code, "Broker 3 comes last already." in again.stdout) == (0, True), again.output


def test_an_election_that_would_bring_a_wrong_replica_back_is_foreseen(
    kafka: Cluster, client: ReplicaClient, topic: str, tmp_path: Path
) -> None:
    filled(kafka, topic, [1, 3, 2], 3)
    client.reassign(TopicPartition(topic, 0), [3, 1, 2])
    until_it_is(kafka, topic, [3, 1, 2])
    config = settings(kafka, tmp_path, accused(topic, 3, 1, [3, 1, 2], offset=DIFFERS))
    (shown,) = json.loads(lead(topic, "-c", config, "--format", "json").stdout)
    assert (shown["leader"], shown["preferred_election_moves_to"]) == (1, 3)
    file, steps = planned(config, "--lead")
    assert moves(steps) == [("lead", [1, 2, 3])]
    done = repair("run", file, "-c", config, "--yes", "--format", "json")
    assert done.exit_code == 0, done.output
    until_it_is(kafka, topic, [1, 2, 3], 1)


def test_which_groups_are_past_what_is_wrong_is_asked_of_their_coordinators(
    kafka: Cluster, client: ReplicaClient, topic: str, tmp_path: Path
) -> None:
    filled(kafka, topic, [3, 1, 2])
    config = settings(kafka, tmp_path, accused(topic, 3, 3, [3, 1, 2], offset=10))
    for group, at in (("behind", 4), ("past", 18)):
        options = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"{topic}-{group}"}
        with closing(Consumer(options)) as consumer:
            consumer.commit(offsets=[ConfluentPartition(topic, 0, at)], asynchronous=False)
    assert client.may_describe_groups(), "no authorizer asks for it"
    asked = CliRunner().invoke(app, ["findings", "readers", "aaaa", "-c", str(config), "--format", "json"])
    assert asked.exit_code == 0, asked.output
    found = json.loads(asked.stdout)
    assert [(one["group"], one["committed_offset"], one["came"]) for one in found["groups"]] == [
        (f"{topic}-behind", 4, "not_yet"),
        (f"{topic}-past", 18, "past"),
    ]
    assert found["unknown"] == []
    page = tmp_path / "report.html"
    made = CliRunner().invoke(app, ["report", "aaaa", "-o", str(page), "-c", str(config)])
    assert (made.exit_code, f"Group {topic}-past is past it" in page.read_text()) == (0, True), made.output


def test_a_broker_whose_restart_would_make_a_wrong_replica_the_leader_is_not_to_be_restarted(
    kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    filled(kafka, topic, [1, 3, 2], 3)
    until_it_is(kafka, topic, [1, 3, 2], 1)
    config = settings(kafka, tmp_path, accused(topic, 3, 1, [1, 3, 2], offset=DIFFERS))

    def roll(broker: int) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["roll", str(broker), "-c", str(config), "--format", "json"])
        (one,) = json.loads(done.stdout)["partitions"]
        return done.exit_code, one["may_restart"]

    assert roll(1) == (1, "unsafe"), "broker 3 would lead"
    assert roll(2) == (1, "unsafe"), "broker 3 would lead if broker 1 failed meanwhile"
    file, steps = planned(config, "--lead")
    assert moves(steps) == [("lead", [1, 2, 3])]
    assert repair("run", file, "-c", config, "--yes").exit_code == 0
    assert roll(1) == (1, "unsafe"), "broker 2 would lead, and broker 3 if that failed"
    assert roll(3) == (3, "unknown"), "brokers 1 and 2 could lead, and no job watches"
