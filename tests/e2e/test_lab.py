"""The lab on real brokers: faults, versions, and labs that outlive the command that started them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from parallax.config import load
from parallax.lab import commands, state
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.traffic import transactional_producers
from parallax.lab.view import ReplicaView, read_replica
from parallax.lab.waiting import until
from parallax.model import Outcome, RowKind
from parallax.replica.client import ReplicaClient


def view_with(cluster: Cluster, broker: int, topic: str, last_stable_offset: int) -> ReplicaView:
    client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=30_000)
    try:
        return until(
            lambda: (view := read_replica(client, broker, topic)).last_stable_offset >= last_stable_offset and view,
            f"{topic} on broker {broker}",
        )
    finally:
        client.close()


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE  # an orphan that init has not collected yet
    except psutil.NoSuchProcess:
        return True


def test_a_broker_that_is_paused_leaves_the_isr_and_comes_back(kafka: Cluster, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.pause_broker(3)
    try:
        kafka.wait_isr(topic, {1, 2})
    finally:
        kafka.resume_broker(3)
    kafka.wait_isr(topic, {1, 2, 3})


def test_stopping_a_cluster_ends_its_processes_and_removes_its_folder() -> None:
    with Cluster(brokers=1) as cluster:
        process = cluster.brokers[1].process
        assert process is not None
        cluster.pause_broker(1)
    assert not process.is_running()
    assert not cluster.folder.exists()


def test_after_an_exception_the_logs_are_kept_and_the_exception_says_where() -> None:
    with pytest.raises(ZeroDivisionError) as caught, Cluster(brokers=1) as cluster:
        _ = 1 / 0
    assert caught.value.__notes__ == [f"the brokers' logs are kept in {cluster.folder}"]
    assert cluster.brokers[1].log.stat().st_size > 0
    assert not cluster.brokers[1].running
    cluster.keep_logs = False
    cluster.stop()


def test_a_broker_that_cannot_start_is_one_line_that_names_its_log() -> None:
    with socket.socket() as listener:
        cluster = Cluster(brokers=1)
        listener.bind(("127.0.0.1", cluster.brokers[1].port))
        listener.listen()
        with pytest.raises(LabError, match=r"broker 1 ended: .*broker\.log"), cluster:
            pass
    cluster.keep_logs = False
    cluster.stop()


def test_brokers_die_with_a_parent_that_is_killed() -> None:
    program = (
        "from parallax.lab.cluster import Cluster\n"
        "c = Cluster(brokers=1); c.start(); print(c.brokers[1].process.pid, c.folder, flush=True); input()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    broker = psutil.Process(int(pid))
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    until(lambda: has_ended(broker.pid), "the broker's end")
    subprocess.run(["rm", "-r", folder], check=True)


@pytest.mark.parametrize("kind", ["legacy", "java"])
def test_both_producers_write_commit_and_abort(kafka: Cluster, topic: str, kind: str) -> None:
    kafka.create_topic(topic)
    with transactional_producers(kafka, kind, [topic]) as producers:  # type: ignore[arg-type]
        producer = producers[topic]
        for value, end in (("kept", producer.commit), ("dropped", producer.abort)):
            producer.begin()
            producer.send(topic, "key", value)
            producer.send(topic, value, None)
            end()
    for broker in kafka.brokers:
        view = view_with(kafka, broker, topic, 6)
        assert view.markers == {2: RowKind.COMMIT, 5: RowKind.ABORT}
        assert {offset: r.outcome for offset, r in view.records.items()} == {
            0: Outcome.COMMITTED,
            1: Outcome.COMMITTED,
            3: Outcome.ABORTED,
            4: Outcome.ABORTED,
        }
        assert view.visible == {"key": "kept"}
        assert view.aborted_from == {3}


def test_a_refused_command_of_the_java_producer_is_one_line(kafka: Cluster, topic: str) -> None:
    with transactional_producers(kafka, "java", [topic]) as producers:
        with pytest.raises(LabError, match=f"Java producer: commit {topic} failed .*IllegalState") as caught:
            producers[topic].commit()
        assert "\n" not in str(caught.value)


def parallax(*words: str) -> str:
    """What a command prints to its standard output, run as a person runs it."""
    command = [str(Path(sys.executable).with_name("parallax")), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def lab() -> Iterator[str]:
    """The name of a lab, whose brokers are stopped if the test leaves some."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    yield name
    with contextlib.suppress(LabError):
        commands.down(name=name)


def test_a_lab_outlives_the_process_that_started_it_until_it_is_taken_down(lab: str, tmp_path: Path) -> None:
    def asked(command: str, *words: str) -> Any:
        return json.loads(parallax("lab", command, *words, "--name", lab, "--format", "json"))

    def conditions(*words: str) -> list[str]:
        return [broker["condition"] for broker in asked(*words)["brokers"]]

    asked("up")
    found = asked("status")
    assert [broker["condition"] for broker in found["brokers"]] == ["running"] * 3
    with pytest.raises(LabError, match="is up already"):
        commands.up(name=lab)
    assert conditions("stop", "2") == ["running", "down", "running"]
    again = asked("restart", "2")
    assert [broker["condition"] for broker in again["brokers"]] == ["running"] * 3
    assert [b["pid"] for b in again["brokers"] if b["id"] != 2] == [b["pid"] for b in found["brokers"] if b["id"] != 2]
    result = asked("scenario", "resurrected")
    assert [finding["topic"].rpartition("-")[2] for finding in result["expected"]] == ["tombstone"]
    after = asked("status")
    assert after["brokers"][1]["pid"] not in (None, found["brokers"][1]["pid"]), (
        "the broker that came back is on record"
    )

    found_on_path = os.environ | {"PATH": f"{os.environ['PATH']}:{commands.status(name=lab).tools}"}
    listing = ["kafka-topics.sh", "--bootstrap-server", after["bootstrap_servers"], "--list"]
    listed = subprocess.run(listing, env=found_on_path, capture_output=True, text=True, check=True)
    assert {finding["topic"] for finding in result["expected"]} <= set(listed.stdout.split())
    assert listed.stderr == ""

    config = tmp_path / "lab.yaml"
    config.write_text(parallax("lab", "config", "--name", lab))
    assert load(config).kafka["bootstrap.servers"] == found["bootstrap_servers"]

    stopped = asked("down")["stopped"]
    for broker in stopped:
        assert broker["pid"] is not None
        until(lambda pid=broker["pid"]: has_ended(pid), "the brokers' end")
    assert list(state.labs_folder().glob(f"{lab}*")) == []


def test_jars_that_are_there_are_named_and_hold_kafka_and_delta() -> None:
    fetched = json.loads(parallax("fetch-jars", "--format", "json"))
    assert list(Path(fetched["kafka"]).rglob("kafka-clients-*.jar"))
    assert list(Path(fetched["delta"]).rglob("delta-spark*.jar"))
    assert list(Path(fetched["s3"]).rglob("hadoop-aws-*.jar"))
