"""A transaction that hangs on real brokers: found, said, and over after the command that is printed for it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from parallax.cli import app
from parallax.demo_repair import consumed
from parallax.findings.hanging_life import words
from parallax.findings.hanging_watch import HangingWatch, Standstill
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import LegacyTransactionalProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.shell import Shell
from tests.e2e.job_process import patient
from tests.e2e.kafka_tools import run_as_written
from tests.e2e.killed import killed_after_each_event
from tests.e2e.transactional import send_late, unverified_by

NOBODY = 424_242
"""A producer id that no coordinator has given out."""


@pytest.fixture
def unverified(kafka: Cluster) -> Iterator[Cluster]:
    """Brokers that take a transaction without asking its coordinator, as those before Kafka 3.6 do."""
    with unverified_by(kafka):
        yield kafka


def test_a_hanging_transaction_is_told_from_one_that_goes_on_and_ends_by_the_printed_command(
    unverified: Cluster, topic: str, tmp_path: Path
) -> None:
    going_on = f"{topic}-on"
    unverified.create_topics([topic, going_on])
    send_late(unverified, topic, NOBODY)
    producer = LegacyTransactionalProducer(unverified.bootstrap_servers, going_on)
    producer.begin()
    producer.send(going_on, "key", "value")
    kafka = {"bootstrap.servers": unverified.bootstrap_servers}
    config = tmp_path / "parallax.yaml"
    document: dict[str, Any] = {
        "kafka": kafka,
        "topics": {"include": [topic, going_on]},
        "storage": {"path": str(tmp_path / "data")},
        "alerting": {"metrics_port": 0},
    }
    config.write_text(json.dumps(patient(document)))

    def wrong() -> list[str]:
        done = CliRunner().invoke(app, ["check", "-c", str(config), "--format", "json"])
        return [line["text"] for line in json.loads(done.stdout) if line["result"] == "wrong"]

    stands = {TopicPartition(name, 0): Standstill(0, time.time() - 5) for name in (topic, going_on)}
    with closing(ReplicaClient(kafka)) as client:
        watch = HangingWatch(client, 1.0, 3000)
        assert watch.round(stands) == ()
        (found,) = until(lambda: watch.round(stands), "the transaction to be reported")
        assert (found.one.place.topic, found.one.producer_id, found.hangs) == (topic, NOBODY, True)
        (text,) = wrong()
        assert f"a transaction of producer {NOBODY} is open from offset 0 on" in text
        assert "no coordinator knows its producer" in text
        command = words(found, Shell.of(kafka, config)).rpartition("end it: ")[2]
        assert text.endswith(command)
        assert command.startswith("kafka-transactions.sh ")
        run_as_written(command, tmp_path)
        until(lambda: not wrong(), "nothing to hang")
    producer.commit()


def test_hanging_transactions_are_ended_by_a_plan_that_their_owner_answers_for(
    unverified: Cluster, topic: str, tmp_path: Path
) -> None:
    unverified.create_topics([topic])
    for number, key in enumerate(("lost", "kept", "dropped"), start=1):
        send_late(unverified, topic, NOBODY + number, key)
    config = tmp_path / "parallax.yaml"
    document: dict[str, Any] = {
        "kafka": {"bootstrap.servers": unverified.bootstrap_servers},
        "topics": {"include": [topic]},
        "storage": {"path": str(tmp_path / "data")},
        "repair": {"mode": "on"},
    }
    config.write_text(json.dumps(patient(document)))
    file = tmp_path / "plan"

    def planned(*answers: str) -> tuple[int, Any]:
        place = ("--topic", topic, "--partition", "0", "-c", str(config), "-o", str(file), "--format", "json")
        done = CliRunner().invoke(app, ["repair", "plan", *place, *answers])
        assert done.stdout, done.output
        return done.exit_code, json.loads(done.stdout)

    def run() -> Result:
        return CliRunner().invoke(app, ["repair", "run", str(file), "-c", str(config), "--yes", "--format", "json"])

    def shown() -> list[tuple[dict[str, str], int]]:
        with closing(ReplicaClient(document["kafka"], timeout_ms=10_000)) as client:
            views = [read_replica(client, broker, topic) for broker in (1, 2, 3)]
        return [(view.visible, view.last_stable_offset) for view in views]

    code, plan = planned()
    assert (code, plan["steps"], len(plan["missing"])) == (3, [], 3)
    assert "--outcome commit (or abort) --offset 0" in plan["missing"][0]
    code, plan = planned("--outcome", "commit", "--offset", "1", "--outcome", "abort", "--offset", "2")
    assert (code, plan["steps"]) == (3, []), "the first one would hide what they bring about"
    assert "End that one first, or in the same plan" in plan["missing"][1]
    assert planned("--outcome", "abort", "--offset", "0")[0] == 3, "the others are still open"
    ends = ("abort", "commit", "abort")
    code, plan = planned(*(word for at, end in enumerate(ends) for word in ("--outcome", end, "--offset", str(at))))
    told = [(step["start_offset"], step["end"], step["holders"]) for step in plan["steps"]]
    assert (code, told) == (0, [(at, end, [1, 2, 3]) for at, end in enumerate(ends)])
    done = run()
    assert (done.exit_code, json.loads(done.stdout)["phase"]) == (0, "over"), done.output
    again = run()
    assert (again.exit_code, "the plan is out of date" in again.stderr) == (2, True), again.output
    assert shown() == [({"kept": "late"}, 6)] * 3
    for broker in (2, 1, 3):
        admin.elect_leaders(unverified, topic, broker=broker)
        assert consumed(unverified.bootstrap_servers, topic) == {"kept": "late"}, f"led by broker {broker}"


@pytest.mark.release
@pytest.mark.timeout(900)
def test_end_markers_whose_repair_is_killed_after_each_event_are_written_once_each(
    unverified: Cluster, topic: str, tmp_path: Path
) -> None:
    unverified.create_topics([topic])
    for number, key in enumerate(("kept", "dropped"), start=4):
        send_late(unverified, topic, NOBODY + number, key)
    config, file = tmp_path / "parallax.yaml", tmp_path / "plan"
    document: dict[str, Any] = {
        "kafka": {"bootstrap.servers": unverified.bootstrap_servers},
        "topics": {"include": [topic]},
        "storage": {"path": str(tmp_path / "data")},
        "repair": {"mode": "on"},
    }
    config.write_text(json.dumps(patient(document)))
    said = ("--outcome", "commit", "--offset", "0", "--outcome", "abort", "--offset", "1")
    place = ("--topic", topic, "--partition", "0", "-c", str(config), "-o", str(file))
    planned = CliRunner().invoke(app, ["repair", "plan", *place, *said])
    assert planned.exit_code == 0, planned.output
    kinds = killed_after_each_event(file, config, tmp_path / "data")
    assert kinds.count("proven") == 2, kinds
    with closing(ReplicaClient(document["kafka"], timeout_ms=10_000)) as client:
        for broker in (1, 2, 3):
            shown = read_replica(client, broker, topic)
            assert (shown.visible, sorted(shown.markers)) == ({"kept": "late"}, [2, 3])
