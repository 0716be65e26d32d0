"""An index of aborted transactions that a disk lost, on a real broker: the printed steps of its plan mend it."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from parallax.cli import app
from parallax.findings.finding import Finding
from parallax.findings.table import FindingsTable
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import LegacyTransactionalProducer, PlainProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import FindingKind
from parallax.replica.client import ReplicaClient
from tests.builders.findings import evidence, finding

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]


def index_lost(topic: str, first: int) -> Finding:
    """The finding that broker 2 shows the transaction at an offset as committed, and its own ABORT is behind it."""
    marker = {"offset": first + 1, "producer_id": 0, "type": "abort"}
    return finding(
        "a" * 32,
        topic=topic,
        broker=2,
        offset=first,
        kind=FindingKind.OUTCOME_CONTRADICTS_MARKER,
        producer_id=0,
        transaction_start_offset=first,
        marker_offset=first + 1,
        evidence=evidence(
            {"aborted": [1, 3], "committed": [2]},
            {broker: {"markers": [marker]} for broker in (1, 2, 3)},
            assigned=[1, 2, 3],
            recorded={"outcomes": {"2": "committed"}, "markers": {"2": "abort"}},
        ),
    )


def outcomes(check: list[str]) -> dict[int, str]:
    """What the printed check shows of the record on each broker."""
    shown = CliRunner().invoke(app, [*check, "--format", "json"])
    assert shown.exit_code == 0, shown.output
    return {int(broker): one["read_committed"] for broker, one in json.loads(shown.stdout)["brokers"].items()}


def test_the_printed_steps_make_a_broker_rebuild_the_index_that_its_disk_lost(
    hurt: Cluster, topic: str, tmp_path: Path
) -> None:
    lab, kafka = hurt, {"bootstrap.servers": hurt.bootstrap_servers}
    lab.create_topic(topic, replicas=[1, 2, 3])
    producer = LegacyTransactionalProducer(lab.bootstrap_servers, topic)
    for end in (producer.commit, producer.abort):
        producer.begin()
        first = producer.send(topic, f"{end.__name__}", "written")
        end()
    PlainProducer(lab.bootstrap_servers).send(topic, "last", "written")
    right = {"commit": "written", "last": "written"}

    def visible(broker: int) -> dict[str, str]:
        with closing(ReplicaClient(kafka, timeout_ms=10_000)) as client:
            return read_replica(client, broker, topic).visible

    until(lambda: all(visible(broker) == right for broker in (1, 2, 3)), "all to show the transactions rightly")
    lab.stop_broker(2)
    (folder,) = lab.brokers[2].folder.glob(f"**/{topic}-0")
    lost = [file for file in folder.glob("*.txnindex") if file.stat().st_size]
    assert lost
    for file in lost:
        file.unlink()
    lab.start_broker(2)
    lab.wait_isr(topic, {1, 2, 3})
    wrong = right | {"abort": "written"}
    until(lambda: visible(2) == wrong, "broker 2 to show the rolled-back record as committed")

    config = tmp_path / "repair.yaml"
    FindingsTable(str(tmp_path / "data")).append([index_lost(topic, first)])
    document = {"kafka": kafka, "topics": {"include": [topic]}, "storage": {"path": str(tmp_path / "data")}}
    config.write_text(yaml.safe_dump(document))
    planned = CliRunner().invoke(app, ["repair", "plan", "aaaa", "-c", str(config), "--format", "json"])
    assert planned.exit_code == 0, planned.output
    plan = json.loads(planned.stdout)
    assert [step["move"]["purpose"] for step in plan["steps"]] == ["drop", "copy"], "a copy is what a run makes"
    (step,) = plan["instead"]
    shown = CliRunner().invoke(app, ["repair", "plan", "aaaa", "-c", str(config)])
    assert step["by_hand"] in shown.stdout
    check = [str(config) if word == "CONFIG" else word for word in step["check"].splitlines()[0].split()[1:]]
    assert outcomes(check) == {1: "aborted", 2: "committed", 3: "aborted"}

    lab.stop_broker(2)
    environment = {**os.environ, "LOG_DIR": str(folder.parent)}
    subprocess.run(["bash", "-euc", step["by_hand"]], env=environment, check=True)
    lab.start_broker(2)
    lab.wait_isr(topic, {1, 2, 3})
    assert outcomes(check) == {1: "aborted", 2: "aborted", 3: "aborted"}
    assert [file for file in folder.glob("*.txnindex") if file.stat().st_size], "the index is on the disk again"
    for broker in (2, 1, 3):
        admin.elect_leaders(lab, topic, broker=broker)
        until(lambda: visible(broker) == right, f"what broker {broker} shows as the leader")  # noqa: B023
