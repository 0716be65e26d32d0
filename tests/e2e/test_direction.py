"""Who is accused on real brokers where most replicas are wrong, or a replica contradicts its own log."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import LegacyTransactionalProducer, PlainProducer
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from tests.e2e.auditing import kinds, results, run_here, written
from tests.e2e.damaged import lose_index
from tests.e2e.job_process import SHORT_LIVED, patient
from tests.e2e.play import Played
from tests.e2e.viewing import view

REPLICAS = (1, 2, 3)


def audited(lab: Cluster, folder: Path, *topics: str) -> dict[str, Any]:
    """The audit's report by topic."""
    config = folder / "parallax.yaml"
    settings = {
        "kafka": {"bootstrap.servers": lab.bootstrap_servers},
        "topics": {"pattern": "|".join(topics)},
        "storage": {"path": str(folder / "data")},
        "spark": {"master": "local[2]", **SHORT_LIVED},
    }
    config.write_text(yaml.safe_dump(patient(settings)))
    command = [sys.executable, "-m", "parallax.cli", "audit", "-c", str(config), "--format", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.stdout.startswith("{"), ended.stderr
    return {one["topic"]: one for one in json.loads(ended.stdout)["partitions"]}


def test_a_tombstone_that_is_left_on_one_replica_proves_which_is_wrong(
    played: Played, topic: str, tmp_path: Path
) -> None:
    name, lab = topic[:40], played.lab
    if played.job.running:
        played.job.kill()  # nothing that comes later needs it, nor these brokers
    config = {"cleanup.policy": "compact", "segment.ms": "500", "delete.retention.ms": "1000"}
    lab.create_topic(name, replicas=[1, 2, 3], config=config | {"min.cleanable.dirty.ratio": "0.001"})
    client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)
    producer = PlainProducer(lab.bootstrap_servers)
    # For good: a throttled cleaner holds its broker up when its speed is changed again.
    cleans_nothing = {"log.cleaner.io.max.bytes.per.second": "1.0"}
    admin.set_broker_config(lab, cleans_nothing, brokers=[3])
    old = producer.send(name, "customer-7", "alive")
    until(lambda: all(view(client, b, name).high_watermark > old for b in REPLICAS), "all to hold the value")
    lab.kill_broker(2)
    lab.wait_isr(name, (1, 3))
    gone = producer.send(name, "customer-7", None)

    def cleaned() -> bool:
        producer.fill([name], 20)
        return not any(view(client, 1, name).holds(offset) for offset in (old, gone))

    until(cleaned, "broker 1 to clean the tombstone away", interval=0.6)
    lab.start_broker(2)
    lab.wait_isr(name, REPLICAS)
    assert view(client, 3, name).holds(gone)
    ended = run_here(written(lab, tmp_path), "--topic", name, "--partition", "0", "--format", "json")
    client.close()
    lab.kill_broker(3)
    assert ended.returncode == 1, ended.stderr
    assert kinds(results(ended)[name]) == [("deleted_record_resurrected", 2)], ended.stdout


@pytest.mark.release
def test_neither_a_majority_that_missed_a_tombstone_nor_a_lost_index_accuses_who_is_right(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    # Five brokers: the controllers' quorum outlives two victims.
    lab = make_cluster(brokers=5)
    compacted = {"cleanup.policy": "compact", "segment.ms": "500", "delete.retention.ms": "1000"}
    lab.create_topic("deleted", replicas=REPLICAS, config=compacted | {"min.cleanable.dirty.ratio": "0.001"})
    lab.create_topic("aborted", replicas=REPLICAS, config={"cleanup.policy": "delete"})
    client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)
    producer = PlainProducer(lab.bootstrap_servers)
    old = producer.send("deleted", "customer-7", "alive")
    transactions = LegacyTransactionalProducer(lab.bootstrap_servers, "poison")
    transactions.begin()
    poison = transactions.send("aborted", "customer-8", "rolled back")
    transactions.abort()
    producer.fill(["aborted"], 1)
    until(
        lambda: all(
            view(client, b, "deleted").high_watermark > old and view(client, b, "aborted").high_watermark > poison + 2
            for b in REPLICAS
        ),
        "all to hold what was written",
    )
    lab.stop_broker(2)
    lab.stop_broker(3)
    lab.wait_isr(("deleted", "aborted"), (1,))
    gone = producer.send("deleted", "customer-7", None)

    def cleaned() -> bool:
        producer.fill(["deleted"], 20)
        return not any(view(client, 1, "deleted").holds(offset) for offset in (old, gone))

    until(cleaned, "broker 1 to clean the tombstone away", interval=0.6)
    lose_index(lab, 2, "aborted")
    for broker in (2, 3):
        lab.start_broker(broker)
    lab.wait_isr(("deleted", "aborted"), REPLICAS)
    found = audited(lab, tmp_path, "deleted", "aborted")
    client.close()

    (difference,) = found["deleted"]["findings"]
    assert (difference["kind"], difference["broker"]) == ("visibility_mismatch", -1)
    assert difference["evidence"]["sides"] == {"no value": [1], f"value at offset {old}": [2, 3]}
    assert difference["exposed"]
    assert "wipe no replica on this evidence" in difference["summary"]

    (index,) = found["aborted"]["findings"]
    assert (index["kind"], index["broker"], index["offset"]) == ("outcome_contradicts_marker", 2, poison)
