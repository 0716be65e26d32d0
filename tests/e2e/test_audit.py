"""``parallax audit`` as a user runs it: real brokers, replicas that nobody watched while they came to differ."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from parallax.config import CompareSettings
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS, ScenarioResult
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import ReplicaView, read_replica
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from tests.e2e.job_process import JobProcess

pytestmark = pytest.mark.timeout(900)

Ended = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    """Brokers that the scenarios hurt; each test leaves all of them running."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def diverged(lab: Cluster) -> ScenarioResult:
    """Five topics whose replicas differ; whatever told why is gone."""
    return SCENARIOS["all"].run(lab, topic_prefix="gone-", hold_s=0.1)


@pytest.fixture(scope="module")
def healthy(lab: Cluster, diverged: ScenarioResult) -> ScenarioResult:
    """The same traffic and the same outage, and nothing is lost; compacted as far as it goes on each replica."""
    del diverged
    return SCENARIOS["healthy"].run(lab, topic_prefix="well-", hold_s=0.1)


@pytest.fixture(scope="module")
def audit(lab: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ended]:
    """Run the command with some flags."""
    return auditor(lab, tmp_path_factory.mktemp("audit"))


def auditor(lab: Cluster, folder: Path) -> Callable[..., Ended]:
    config = folder / "parallax.yaml"
    settings = {
        "kafka": {"bootstrap.servers": lab.bootstrap_servers},
        "topics": {"pattern": "(gone|well)-.*"},
        "storage": {"path": str(folder / "data")},
        "read": {"payload": "key"},
        "spark": {"master": "local[2]"},
    }
    config.write_text(yaml.safe_dump(settings))

    def run(*flags: str) -> Ended:
        command = [sys.executable, "-m", "parallax.cli", "audit", "-c", str(config), *flags]
        return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)

    return run


def results(ended: Ended) -> dict[str, Any]:
    assert ended.stdout.startswith("{"), ended.stderr
    return {one["topic"]: one for one in json.loads(ended.stdout)["partitions"]}


def kinds(one: dict[str, Any]) -> list[tuple[str, int]]:
    return [(finding["kind"], finding["broker"]) for finding in one["findings"]]


def topics(result: ScenarioResult) -> list[str]:
    return [flag for topic in result.topics for flag in ("--topic", topic)]


def test_without_history_it_proves_what_the_replicas_still_show(
    diverged: ScenarioResult, audit: Callable[..., Ended]
) -> None:
    ended = audit(*topics(diverged), "--format", "json")
    found = results(ended)
    assert ended.returncode == 1, ended.stderr
    for name in ("tombstone", "abort", "commit"):
        # Broker 2 shows a value that the others do not; what told which is right has been cleaned away.
        assert kinds(found[f"gone-{name}"]) == [("visibility_mismatch", 2)], found[f"gone-{name}"]
        assert found[f"gone-{name}"]["result"] == "diverged"
    assert kinds(found["gone-frozen"]) == [("read_committed_frozen", 2)], found["gone-frozen"]
    assert found["gone-frozen"]["result"] == "diverged"
    # The lost COMMIT left nothing behind that a replica could show: no audit can see it (docs/theory.md).
    assert found["gone-put"]["result"] == "consistent", found["gone-put"]
    assert all(f["evidence"]["replicas"] for one in found.values() for f in one["findings"])


def test_the_healthy_control_is_consistent_and_compared_to_its_end(
    lab: Cluster, healthy: ScenarioResult, audit: Callable[..., Ended]
) -> None:
    ended = audit(*topics(healthy), "--format", "json")
    found = results(ended)
    assert ended.returncode == 0, ended.stdout
    client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers})
    for topic in healthy.topics:
        high_watermark = view(client, 1, topic).high_watermark
        assert found[topic]["compared_up_to"] == {
            "read_uncommitted": high_watermark,
            "read_committed": high_watermark,
        }
        assert found[topic]["reasons"] == []
    client.close()


def test_a_broker_that_is_down_is_unknown_and_named(
    lab: Cluster, healthy: ScenarioResult, audit: Callable[..., Ended]
) -> None:
    topic = healthy.topics[0]
    lab.stop_broker(3)
    try:
        ended = audit("--topic", topic)
    finally:
        lab.start_broker(3)
        lab.wait_isr(healthy.topics, (1, 2, 3))
    assert ended.returncode == 3, ended.stderr
    assert f"{topic}-0: unknown: broker 3" in ended.stdout
    assert "0 consistent, 0 diverged, 1 unknown" in ended.stdout


def test_a_tombstone_that_is_left_on_one_replica_proves_which_is_wrong(
    make_cluster: Callable[[], Cluster], topic: str, tmp_path: Path
) -> None:
    name = topic[:40]
    lab = make_cluster()  # of its own: a throttled cleaner holds its broker up when its speed is changed again
    config = {"cleanup.policy": "compact", "segment.ms": "500", "delete.retention.ms": "1000"}
    lab.create_topic(name, replicas=[1, 2, 3], config=config | {"min.cleanable.dirty.ratio": "0.001"})
    client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers})
    producer = PlainProducer(lab.bootstrap_servers)
    cleans_nothing = {"log.cleaner.io.max.bytes.per.second": "1.0"}
    admin.set_broker_config(lab, cleans_nothing, brokers=[3])
    old = producer.send(name, "customer-7", "alive")
    until(lambda: all(view(client, b, name).high_watermark > old for b in (1, 2, 3)), "all to hold the value")
    lab.kill_broker(2)
    lab.wait_isr(name, (1, 3))
    gone = producer.send(name, "customer-7", None)

    def cleaned() -> bool:
        producer.fill([name], 20)
        return not any(view(client, 1, name).holds(offset) for offset in (old, gone))

    until(cleaned, "broker 1 to clean the tombstone away", timeout=90, interval=0.6)
    lab.start_broker(2)
    lab.wait_isr(name, (1, 2, 3))
    assert view(client, 3, name).holds(gone)
    ended = auditor(lab, tmp_path)("--topic", name, "--partition", "0", "--format", "json")
    client.close()
    lab.kill_broker(3)
    assert ended.returncode == 1, ended.stderr
    assert kinds(results(ended)[name]) == [("deleted_record_resurrected", 2)], ended.stdout


def test_the_bytes_read_from_a_broker_in_a_second_stay_below_the_limit(
    lab: Cluster, topic: str, audit: Callable[..., Ended]
) -> None:
    rate = 400_000
    lab.create_topic(topic, partitions=2, config={"cleanup.policy": "delete"})
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "compression.type": "none"})
    for i in range(2000):
        producer.produce(topic, key=str(i).encode(), value=bytes(1000), partition=i % 2)
    assert producer.flush(60) == 0
    dry = audit("--topic", topic, "--dry-run", "--max-bytes-per-second", str(rate), "--format", "json")
    assert dry.returncode == 0, dry.stderr
    shares = {share["broker"]: share for share in json.loads(dry.stdout)["brokers"]}
    assert [s["partitions"] for s in shares.values()] == [2, 2, 2], dry.stdout
    assert shares[1]["estimated_bytes"] == pytest.approx(2 * 2000 * 1000, rel=0.2)
    began = time.monotonic()
    ended = audit("--topic", topic, "--max-bytes-per-second", str(rate), "--format", "json")
    seconds = time.monotonic() - began
    assert ended.returncode == 0, ended.stdout + ended.stderr
    read = json.loads(ended.stdout)["read_bytes"]
    for broker, size in read.items():
        assert size > 3_500_000, broker
        assert size / rate <= seconds
        assert size / rate == pytest.approx(shares[int(broker)]["seconds"], rel=0.3)
    assert re.search(r"reading the replicas: \d of 12 logs", ended.stderr), ended.stderr


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--topic", "no-such-topic"), "--topic: topic 'no-such-topic' is not on the cluster"),
        (("--partition", "7"), "has no partition 7"),
        (("--from", "tables"), "no recorded tables there"),
        (("--max-bytes-per-second", "-1"), "--max-bytes-per-second"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    healthy: ScenarioResult, audit: Callable[..., Ended], flags: tuple[str, ...], told: str
) -> None:
    ended = audit("--topic", healthy.topics[0], *flags)
    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1
    assert told in ended.stderr


def test_the_job_audits_at_its_interval_and_what_it_recorded_can_be_audited(
    lab: Cluster, diverged: ScenarioResult, healthy: ScenarioResult, tmp_path: Path
) -> None:
    sections: dict[str, Any] = {"audit": {"interval_s": 2}, "read": {"payload": "key"}}
    names = "gone-frozen|gone-tombstone|well-.*"
    with JobProcess(tmp_path, lab.bootstrap_servers, names, **sections) as job:
        job.start()

        def audited() -> bool:
            wanted = {"gone-frozen": "diverged", "gone-tombstone": "diverged", "well-abort": "consistent"}
            return all(
                job.metric("parallax_audit_result", topic=topic, result=result) == 1.0
                for topic, result in wanted.items()
            )

        until(audited, "the job's audit", timeout=300, interval=1.0)
        assert (job.metric("parallax_audit_runs_total", result="success") or 0) >= 1
        assert (job.metric("parallax_audit_read_bytes_total", broker_id="2") or 0) > 0
        found = sorted((str(f.kind), f.topic) for f in job.findings())
        assert found == [("read_committed_frozen", "gone-frozen"), ("visibility_mismatch", "gone-tombstone")]
        frozen = {"topic": "gone-frozen", "broker_id": "2"}
        long_enough = 2 * CompareSettings().grace_ms / 1000
        until(
            lambda: (job.metric("parallax_replica_frozen_seconds", **frozen) or 0.0) > long_enough,
            "the job to record for how long the last stable offset stands still",
            timeout=120,
            interval=0.5,
        )
        assert job.stop() == 0
        command = [sys.executable, "-m", "parallax.cli", "audit", "-c", str(job.config), "--from", "tables"]
        ended = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, timeout=400, check=False)
    recorded = results(ended)
    assert ended.returncode == 1, ended.stderr
    assert kinds(recorded["gone-frozen"]) == [("read_committed_frozen", 2)], recorded["gone-frozen"]
    assert kinds(recorded["gone-tombstone"]) == [("visibility_mismatch", 2)]
    assert {recorded[topic]["result"] for topic in healthy.topics} == {"consistent"}, recorded
    standing = {f.finding_id for f in job.findings()}
    assert {f["finding_id"] for one in recorded.values() for f in one["findings"]} == standing


def view(client: ReplicaClient, broker: int, topic: str) -> ReplicaView:
    def read() -> ReplicaView | None:
        try:
            return read_replica(client, broker, topic)
        except ReplicaError:
            return None

    return until(read, f"broker {broker} to answer for {topic}", timeout=30)
