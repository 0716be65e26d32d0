"""What works on which version of Kafka: the table of docs/operate/install.md, row by row, on real brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from tests.make import make
from tests.versions import FOUND, READ, REPAIRED

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]


@pytest.mark.parametrize("version", FOUND)
def test_the_demo_finds_all_five_and_nothing_else(version: str, tmp_path: Path) -> None:
    done = make("demo", f"KAFKA_VERSION={version}", f"ARGS=--data {tmp_path / 'data'}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 found: exactly the expected divergences" in done.stdout


@pytest.mark.parametrize("version", REPAIRED)
def test_the_demo_repairs_all_five_within_four_minutes(version: str, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("parallax")
    data = ["--data", str(tmp_path / "data"), "--format", "json"]
    command = [program, "demo", "--repair", "--kafka-version", version, *data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["seconds"] <= 240, "as the demo itself counts them"


@pytest.mark.parametrize("version", READ)
def test_every_replica_is_read(make_cluster: Callable[..., Cluster], version: str, topic: str) -> None:
    cluster = make_cluster(version)
    cluster.create_topic(topic)
    assert PlainProducer(cluster.bootstrap_servers).send(topic, "key", "value") == 0
    client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers})
    try:
        for broker in cluster.brokers:
            shown = until(lambda broker=broker: read_replica(client, broker, topic).visible, f"broker {broker}")  # type: ignore[misc]
            assert shown == {"key": "value"}
    finally:
        client.close()
