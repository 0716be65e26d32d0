"""What the lab does to a cluster as an operator, seen on the brokers themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parallax.cli import app
from parallax.findings.table import FindingsTable
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.traffic import PlainProducer
from parallax.lab.waiting import until
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient, Watermarks
from tests.e2e.accused import accused
from tests.e2e.job_process import patient


@pytest.fixture(scope="module")
def lab(hurt: Cluster) -> Cluster:
    return hurt


@pytest.fixture(scope="module")
def client(lab: Cluster) -> Iterator[ReplicaClient]:
    client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)
    yield client
    client.close()


def marks(client: ReplicaClient, broker: int, topic: str) -> tuple[int, int] | None:
    """Log start and log end."""
    found = client.watermarks(broker, [(topic, 0)])[topic, 0]
    return (found.log_start_offset, found.log_end_offset) if isinstance(found, Watermarks) else None


def test_leaders_move_to_the_broker_that_is_named(lab: Cluster, topic: str) -> None:
    lab.create_topic(topic, replicas=[1, 2, 3])
    for broker in (2, 3, 1) * 4:
        assert admin.elect_leaders(lab, topic, broker=broker) == broker
        for one in lab.brokers.values():
            with closing(ReplicaClient({"bootstrap.servers": one.address}, timeout_ms=30_000)) as client:
                assert client.metadata([topic])[topic].partitions[0].leader == broker, "each broker names it"
    with pytest.raises(LabError, match="broker 9 is no replica of it"):
        admin.elect_leaders(lab, topic, broker=9)


def test_an_unclean_election_gives_the_log_to_a_replica_that_lacks_its_end(
    lab: Cluster, client: ReplicaClient, topic: str
) -> None:
    lab.create_topic(topic, replicas=[1, 2])
    producer = PlainProducer(lab.bootstrap_servers)
    producer.send(topic, "k", "v")
    lab.stop_broker(2)
    lab.wait_isr(topic, {1})
    producer.send(topic, "k", "w")
    lab.stop_broker(1)
    lab.start_broker(2)
    lab.wait_ready()
    assert admin.elect_leaders(lab, topic, unclean=True) == 2
    lab.start_broker(1)
    lab.wait_isr(topic, {1, 2})
    assert marks(client, 1, topic) == marks(client, 2, topic) == (0, 1)


def test_who_is_eligible_to_lead_is_known_and_makes_no_restart_safe(
    lab: Cluster, client: ReplicaClient, topic: str, tmp_path: Path
) -> None:
    lab.create_topic(topic, replicas=[1, 2], config={"min.insync.replicas": "2", "cleanup.policy": "compact"})
    PlainProducer(lab.bootstrap_servers).send(topic, "k", "v")
    assert client.eligible_leaders([topic]) == {}
    lab.stop_broker(2)
    lab.wait_isr(topic, {1})
    until(lambda: client.eligible_leaders([topic]) == {TopicPartition(topic, 0): (2,)}, "broker 2 to be eligible")
    storage = {"path": str(tmp_path / "data")}
    FindingsTable(storage["path"]).append([accused(topic, 2, 1, [1, 2], offset=1)])
    config = tmp_path / "parallax.yaml"
    settings = {"kafka": {"bootstrap.servers": lab.bootstrap_servers}, "topics": {"include": [topic]}}
    config.write_text(json.dumps(patient(settings | {"storage": storage})))
    said = CliRunner().invoke(app, ["roll", "1", "-c", str(config)])
    assert said.exit_code == 1, said.output
    assert "no other replica is in sync: broker 2 would lead, which is eligible (ELR)" in said.stdout
    lab.start_broker(2)
    lab.wait_isr(topic, {1, 2})

    def notes() -> list[str]:
        refused = CliRunner().invoke(app, ["roll", "1", "-c", str(config), "--format", "json"])
        (one,) = json.loads(refused.stdout)["partitions"]
        return list(one["notes"])

    known = ["producers with acks=all would be refused: 1 replica would be in sync, min.insync.replicas is 2"]
    until(lambda: notes() == known, f"{known} to be all that there is to say")


def test_topics_change_while_they_are_used(lab: Cluster, client: ReplicaClient, topic: str) -> None:
    lab.create_topic(topic, replicas=[1, 2, 3])
    producer = PlainProducer(lab.bootstrap_servers)
    for i in range(4):
        producer.send(topic, "k", str(i))
    admin.set_topic_config(lab, topic, {"cleanup.policy": "compact,delete", "retention.ms": "3600000"})
    assert admin.topic_config(lab, topic)["cleanup.policy"] == "compact,delete"
    admin.set_topic_config(lab, topic, {"cleanup.policy": None})
    until(lambda: admin.topic_config(lab, topic)["cleanup.policy"] == "delete", "the default to be back")
    assert admin.delete_records(lab, topic, before=3) == 3
    until(lambda: all(marks(client, b, topic) == (3, 4) for b in (1, 2, 3)), "the log starts to advance")
    assert client.local_log_starts(2, [(topic, 0)]) == {(topic, 0): 3}, "without tiered storage it is the log start"
    assert client.topic_configs([topic], ["cleanup.policy"]) == {topic: {"cleanup.policy": "delete"}}
    admin.add_partitions(lab, topic, 2, replicas=[2, 3, 1])
    added = until(lambda: lab.partition(topic, 1), "every broker that is asked to know the new partition")
    assert added.leader == 2
    admin.recreate_topic(lab, topic)
    until(lambda: marks(client, 1, topic) == (0, 0), "the new topic's log")


def test_records_are_deleted_as_soon_as_a_leader_is_there(lab: Cluster, topic: str) -> None:
    lab.create_topic(topic, replicas=[2])
    producer = PlainProducer(lab.bootstrap_servers)
    for i in range(4):
        producer.send(topic, "k", str(i))
    lab.kill_broker(2)

    def led_by_none() -> bool:
        state = lab.partition(topic)
        return state is not None and state.leader == -1

    until(led_by_none, "the only replica to be seen away")
    lab.start_broker(2)
    assert admin.delete_records(lab, topic, before=3) == 3
    lab.wait_ready()


def test_a_refusal_is_reported_at_once(lab: Cluster, topic: str) -> None:
    lab.create_topic(topic, replicas=[1, 2, 3])
    with pytest.raises(LabError, match=r"deleting records below offset 9 failed \(Broker: Offset out of range"):
        admin.delete_records(lab, topic, before=9)
    with pytest.raises(LabError, match=r"settings .* failed"):
        admin.set_topic_config(lab, topic, {"cleanup.policy": "burn"})
    with pytest.raises(LabError, match=f"creating {topic} failed .*already exists"):
        lab.create_topic(topic)


def test_settings_of_the_brokers_change_while_they_run(lab: Cluster) -> None:
    admin.set_broker_config(lab, {"producer.id.expiration.ms": "7000"})
    assert {admin.broker_config(lab, b)["producer.id.expiration.ms"] for b in lab.brokers} == {"7000"}


def test_a_broker_joins_takes_a_replica_and_goes(lab: Cluster, client: ReplicaClient, topic: str) -> None:
    lab.create_topic(topic, replicas=[1, 2])
    PlainProducer(lab.bootstrap_servers).send(topic, "k", "v")
    fourth = lab.add_broker()
    admin.reassign(lab, topic, replicas=[1, fourth])
    assert marks(client, fourth, topic) == (0, 1)
    admin.reassign(lab, topic, replicas=[1, 2])
    lab.remove_broker(fourth)
    assert set(lab.brokers) == {1, 2, 3}
    with pytest.raises(LabError, match="broker 1 is a controller"):
        lab.remove_broker(1)


def test_a_wiped_replica_is_copied_again(lab: Cluster, client: ReplicaClient, topic: str) -> None:
    lab.create_topic(topic, replicas=[1, 2])
    PlainProducer(lab.bootstrap_servers).send(topic, "k", "v")
    with pytest.raises(LabError, match="broker 2 runs"):
        admin.wipe_replica(lab, 2, topic)
    lab.kill_broker(2)
    lab.wait_isr(topic, {1})  # or the ISR below is still the one from before
    admin.wipe_replica(lab, 2, topic)
    with pytest.raises(LabError, match="holds no"):
        admin.wipe_replica(lab, 2, topic)
    lab.start_broker(2)
    lab.wait_isr(topic, {1, 2})
    assert marks(client, 2, topic) == (0, 1)
