"""The printed repair, pasted into a shell with Kafka's own tools: what it makes of a partition's assignment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parallax.findings.explain import explain
from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.waiting import until
from parallax.model import TopicPartition
from parallax.replica.at_offset import at_offset
from parallax.replica.client import ReplicaClient
from parallax.shell import Shell
from tests.e2e.accused import accused
from tests.e2e.kafka_tools import run_as_written
from tests.versions import FOUND


def test_a_right_replica_leads_the_accused_is_copied_anew_and_the_order_is_restored(
    kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, replicas=[3, 1, 2])
    client = ReplicaClient({"bootstrap.servers": kafka.bootstrap_servers}, timeout_ms=10_000)
    shell = Shell.of({"bootstrap.servers": kafka.bootstrap_servers})

    def state() -> tuple[list[int], int]:
        found = client.metadata([topic])[topic].partitions[0]
        return list(found.replicas), found.leader

    def until_it_is(replicas: list[int], *leaders: int) -> None:
        until(lambda: state()[0] == replicas and state()[1] in leaders, f"{replicas} led by {leaders}")

    try:
        until_it_is([3, 1, 2], 3)
        lead, check, _, _, drop, copy, ended, order = explain(accused(topic, 3, 3, [3, 1, 2]), shell=shell).steps
        assert not ended.run
        assert "kafka-reassign-partitions.sh" in copy.run
        run_as_written(lead.run, tmp_path)
        until_it_is([1, 3, 2], 1)
        run_as_written(check.run, tmp_path)
        run_as_written(drop.run, tmp_path)
        until_it_is([1, 2], 1)
        run_as_written(copy.run, tmp_path)
        until_it_is([1, 3, 2], 1)
        run_as_written(order.run, tmp_path)
        until_it_is([3, 1, 2], 1, 3)
    finally:
        client.close()


@pytest.mark.parametrize(
    ("is_known", "tools"),
    [
        pytest.param(True, DEFAULT_KAFKA_VERSION, id="its key was read"),
        pytest.param(False, DEFAULT_KAFKA_VERSION, id="its hash alone is known"),
        *(pytest.param(True, version, id=version, marks=pytest.mark.release) for version in FOUND),
    ],
)
def test_the_deletion_that_is_printed_is_written_on_every_replica_without_a_warning(
    kafka: Cluster, topic: str, tmp_path: Path, tools: str, *, is_known: bool
) -> None:
    kafka.create_topic(topic, replicas=[1, 2, 3])
    key = "it's $HOME, à 5%"
    client = ReplicaClient({"bootstrap.servers": kafka.bootstrap_servers}, timeout_ms=10_000)
    try:
        written = PlainProducer(kafka.bootstrap_servers).send(topic, key, "v")
        wrong = replace(accused(topic, 2, 1, [1, 2, 3]), key=key.encode() if is_known else None)
        shell = Shell.of({"bootstrap.servers": kafka.bootstrap_servers})
        (step,) = (one for one in explain(wrong, shell=shell).steps if "deletion written once more" in one.text)
        given = {} if is_known else {"KEY": key}
        commands = "\n".join(line for line in step.run.splitlines() if not line.startswith("parallax "))
        said = run_as_written(commands, tmp_path, tools, **given)
        assert "deprecated" not in said.lower(), said
        for broker in (1, 2, 3):

            def deleted(broker: int = broker) -> bool:
                found = at_offset(client, broker, TopicPartition(topic, 0), written + 1).record
                return found is not None and (found.key, found.value) == (key.encode(), None)

            until(deleted, f"the deletion on broker {broker}")
    finally:
        client.close()
