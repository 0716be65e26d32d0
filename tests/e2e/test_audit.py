"""``parallax audit`` as a user runs it: real brokers, replicas that nobody watched while they came to differ."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from parallax.audit.agreeing import agreeing, recorded_blocks
from parallax.audit.ledger import Ledger
from parallax.audit.plan import PartitionPlan, TopicTraits
from parallax.config import CompareSettings, StorageSettings
from parallax.findings.seen import seen
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import ScenarioResult
from parallax.lab.waiting import until
from parallax.model import IsolationLevel, RowKind
from parallax.replica.client import ReplicaClient
from parallax.views.maintenance import Maintenance
from parallax.views.sharing import Saved
from parallax.views.shown import Asked
from parallax.views.tables import VIEWS, TableSize, rust_uri
from tests.e2e.auditing import Ended, kinds, results, run_here, written
from tests.e2e.job_process import JobProcess
from tests.e2e.play import Played
from tests.e2e.transactional import HELD_OPEN
from tests.e2e.viewing import view

pytestmark = pytest.mark.timeout(1500)

Audit = Callable[..., Ended]


@pytest.fixture(scope="module")
def lab(played: Played) -> Cluster:
    """Brokers that the tests hurt; each leaves all of them running."""
    return played.lab


@pytest.fixture(scope="module")
def diverged(played: Played) -> ScenarioResult:
    """Five topics whose replicas differ; whatever showed why is gone."""
    return played.gone["legacy"]


@pytest.fixture(scope="module")
def healthy(played: Played) -> ScenarioResult:
    """The same traffic and the same outage, and nothing is lost; compacted as far as it goes on each replica."""
    return played.well["legacy"]


@pytest.fixture(scope="module")
def config(lab: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(lab, tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def audit(config: Path) -> Audit:
    """Run the command with some flags."""
    return functools.partial(run_here, config)


def run_alone(config: Path, *flags: str) -> Ended:
    """Run the command in a process of its own, as a user does."""
    command = [sys.executable, "-m", "parallax.cli", "audit", "-c", str(config), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


def topics(result: ScenarioResult) -> list[str]:
    return [flag for topic in result.topics for flag in ("--topic", topic)]


@pytest.mark.parametrize("run", [run_here, pytest.param(run_alone, marks=pytest.mark.release)])
def test_without_history_it_proves_what_the_replicas_still_show(
    diverged: ScenarioResult, config: Path, run: Callable[..., Ended]
) -> None:
    ended = run(config, *topics(diverged), "--format", "json")
    found = results(ended)
    assert ended.returncode == 1, ended.stderr
    for name in ("tombstone", "abort", "commit", "deletion"):
        # Broker 2 shows a value that the others do not; what showed which is right has been cleaned away.
        assert kinds(found[f"gone-legacy-{name}"]) == [("visibility_mismatch", -1)], found[f"gone-legacy-{name}"]
        assert found[f"gone-legacy-{name}"]["result"] == "diverged"
    assert kinds(found["gone-legacy-frozen"]) == [("read_committed_frozen", 2)], found["gone-legacy-frozen"]
    assert found["gone-legacy-frozen"]["result"] == "diverged"
    assert all(f["evidence"]["replicas"] for one in found.values() for f in one["findings"])


def test_the_healthy_control_is_consistent_and_compared_to_its_end(
    lab: Cluster, healthy: ScenarioResult, audit: Audit
) -> None:
    ended = audit(*topics(healthy), "--format", "json")
    found = results(ended)
    assert ended.returncode == 0, ended.stdout
    client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)
    for topic in healthy.topics:
        high_watermark = view(client, 1, topic).high_watermark
        assert found[topic]["compared_up_to"] == {
            "read_uncommitted": high_watermark,
            "read_committed": high_watermark,
        }
        assert found[topic]["reasons"] == []
    client.close()


def test_a_transaction_that_holds_all_replicas_is_unknown_where_none_may_be_open_for_so_long(
    lab: Cluster, topic: str, audit: Audit
) -> None:
    begun = {
        f"{topic}-{age}": time.time_ns() // 1_000_000 - minutes * 60_000 for age, minutes in (("new", 0), ("old", 25))
    }
    producers = []
    for name, at_ms in begun.items():
        lab.create_topic(name, config={"cleanup.policy": "compact"})
        plain = Producer({"bootstrap.servers": lab.bootstrap_servers})
        plain.produce(name, key=b"a", value=b"1")
        assert plain.flush(60) == 0
        producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "transactional.id": name, **HELD_OPEN})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(name, key=b"b", value=b"2", timestamp=at_ms)
        assert producer.flush(60) == 0
        producers.append(producer)
    try:
        ended = audit(*[flag for name in begun for flag in ("--topic", name)], "--format", "json")
    finally:
        for producer in producers:
            producer.abort_transaction(60)
    found = results(ended)
    assert ended.returncode == 3, ended.stdout
    assert (found[f"{topic}-new"]["result"], found[f"{topic}-new"]["reasons"]) == ("consistent", [])
    assert found[f"{topic}-old"]["result"] == "unknown"
    (reason,) = found[f"{topic}-old"]["reasons"]
    assert "nothing is compared in read_committed from offset 1 on: a transaction of producer" in reason


def test_a_broker_that_is_down_is_unknown_and_named(lab: Cluster, healthy: ScenarioResult, audit: Audit) -> None:
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


def test_the_bytes_read_from_a_broker_in_a_second_stay_below_the_limit(lab: Cluster, topic: str, audit: Audit) -> None:
    rate = 400_000
    lab.create_topic(topic, partitions=2, config={"cleanup.policy": "delete"})
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "compression.type": "none"})
    for i in range(2000):
        producer.produce(topic, key=str(i).encode(), value=bytes(1000), partition=i % 2)
    assert producer.flush(60) == 0

    whole = pytest.approx([2 * 2000 * 1000] * 3, rel=0.2)

    def planned() -> dict[int, dict[str, Any]] | None:
        dry = audit("--topic", topic, "--dry-run", "--max-bytes-per-second", str(rate), "--format", "json")
        assert dry.returncode == 0, dry.stderr
        shares = {share["broker"]: share for share in json.loads(dry.stdout)["brokers"]}
        # A follower that fell out of the ISR has less for a while.
        return shares if [share["estimated_bytes"] for share in shares.values()] == whole else None

    shares = until(planned, "the followers to have copied it")
    assert [s["partitions"] for s in shares.values()] == [2, 2, 2], shares
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
    ("flags", "message"),
    [
        (("--topic", "no-such-topic"), "--topic: topic 'no-such-topic' is not on the cluster"),
        (("--partition", "7"), "has no partition 7"),
        (("--from", "tables"), "no job has ever used this storage"),
        (("--max-bytes-per-second", "-1"), "--max-bytes-per-second"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    healthy: ScenarioResult, audit: Audit, flags: tuple[str, ...], message: str
) -> None:
    ended = audit("--topic", healthy.topics[0], *flags)
    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1
    assert message in ended.stderr


def test_the_job_audits_at_its_interval_and_what_it_recorded_can_be_audited(
    lab: Cluster, diverged: ScenarioResult, healthy: ScenarioResult, tmp_path: Path
) -> None:
    sections: dict[str, Any] = {"audit": {"interval_s": 10}, "read": {"payload": "key"}}
    names = "gone-legacy-frozen|gone-legacy-tombstone|well-legacy-.*"
    with JobProcess(tmp_path, lab.bootstrap_servers, names, **sections) as job:
        job.start()

        def audited() -> bool:
            wanted = {
                "gone-legacy-frozen": "diverged",
                "gone-legacy-tombstone": "diverged",
                "well-legacy-abort": "consistent",
            }
            return all(
                job.metric("parallax_audit_result", topic=topic, result=result) == 1.0
                for topic, result in wanted.items()
            )

        until(audited, "the job's audit", interval=1.0)
        assert (job.metric("parallax_audit_runs_total", result="success") or 0) >= 1
        assert (job.metric("parallax_audit_read_bytes_total", broker_id="2") or 0) > 0
        found = sorted((str(f.kind), f.topic) for f in job.findings())
        assert found == [
            ("read_committed_frozen", "gone-legacy-frozen"),
            ("visibility_mismatch", "gone-legacy-tombstone"),
        ]
        first = {"topic": "well-legacy-abort", "reason": "before_first_reading"}
        until(
            lambda: job.metric("parallax_unknown_offsets", **first) == 0.0,
            "the audit to end what the replicas held before they were first read",
            interval=0.5,
        )
        assert ("well-legacy-abort", 0) in Ledger(job.storage).places
        until(
            lambda: job.metric("parallax_initial_readings_outstanding") == 0.0,
            "every replica to have been read up to where it was",
            interval=0.5,
        )
        frozen = {"topic": "gone-legacy-frozen", "broker_id": "2"}
        long_enough = 2 * CompareSettings().grace_ms / 1000
        until(
            lambda: (job.metric("parallax_replica_frozen_seconds", **frozen) or 0.0) > long_enough,
            "the job to record for how long the last stable offset stands still",
            interval=0.5,
        )
        assert job.stop() == 0
        found_by_job = job.findings()
        ended = run_here(job.config, "--from", "tables", "--format", "json")
    recorded = results(ended)
    assert ended.returncode == 1, ended.stderr
    assert kinds(recorded["gone-legacy-frozen"]) == [("read_committed_frozen", 2)], recorded["gone-legacy-frozen"]
    assert kinds(recorded["gone-legacy-tombstone"]) == [("visibility_mismatch", -1)]
    for topic in healthy.topics:  # What an audit that began too early has not settled is not in the tables.
        assert recorded[topic]["findings"] == []
        assert recorded[topic]["result"] in {"consistent", "unknown"}
        assert all("is not in the tables; audit the brokers" in reason for reason in recorded[topic]["reasons"])
    standing = {f.finding_id for f in job.findings()}
    shown = [f for one in recorded.values() for f in one["findings"]]
    assert {f["finding_id"] for f in shown} == standing
    assert all(f["on_record"] for f in shown), "the audit goes on from what the job has on record"
    assert job.findings() == found_by_job, "and writes nothing there"
    share_what_replicas_show_alike(job, recorded)
    blocks = recorded_blocks(str(job.storage))
    plans = [PartitionPlan(topic, 0, "", TopicTraits(), (1, 2, 3), ends=(1 << 62, 1 << 62)) for topic in recorded]
    agreed = {place.topic for place in agreeing(blocks, plans)}
    assert agreed & set(healthy.topics), "what replicas showed alike is known without a row"
    assert "gone-legacy-tombstone" not in agreed, "and so is what they did not"


def share_what_replicas_show_alike(job: JobProcess, recorded: Mapping[str, Any]) -> None:
    """Store rows once that replicas show alike: an audit of the tables, and who asks what was seen, notice nothing."""
    storage, now = str(job.storage), datetime.now(UTC)
    views = {name: rust_uri(storage, name) for name in VIEWS}

    def rows() -> dict[str, int]:
        return {name: DeltaTable(uri).to_pyarrow_dataset().count_rows() for name, uri in views.items()}

    def seen_of_each() -> list[Any]:
        return [
            seen(storage, Asked(topic, 0, None, offset, isolation, now))
            for (topic, offset), isolation in zip(product(recorded, (0, 12, 27)), cycle(IsolationLevel), strict=False)
        ]

    before, were_seen = rows(), seen_of_each()
    sizes: dict[str, TableSize | None] = {}
    saved: dict[str, Saved] = {}
    settings = StorageSettings(path=storage, retention_hours=1e5, record="differing", settled_hours=1)
    upkeep = Maintenance(settings, sizes.__setitem__, on_shared=saved.__setitem__)
    upkeep.run_once(now.date() + timedelta(days=2))
    assert all(sizes.values()), "no upkeep has failed"
    after = rows()
    assert {name: before[name] - after[name] for name in VIEWS} == {name: saved[name].rows for name in VIEWS}
    records: dict[str, Any] = {}
    for name, uri in views.items():
        kept = DeltaTable(uri).to_pyarrow_dataset().to_table(["topic", "broker", "kind"])
        records[name] = kept.filter(pc.field("kind") != int(RowKind.POSITION))
        assert saved[name].rows > len(records[name]), "two of three rows go"
    # What both views have is in read_uncommitted.
    is_differing = (pc.field("topic") == "gone-legacy-tombstone") & (pc.field("broker") == 2)
    assert len(records[IsolationLevel.READ_UNCOMMITTED.option].filter(is_differing)), "what one shows stays its own"
    assert len(records[IsolationLevel.READ_COMMITTED.option]) < len(records[IsolationLevel.READ_UNCOMMITTED.option]) / 2
    assert seen_of_each() == were_seen
    again = results(run_here(job.config, "--from", "tables", "--format", "json"))
    same = ("result", "compared_up_to", "reasons", "unknown_offsets")
    for topic, one in recorded.items():
        assert {name: again[topic].get(name) for name in same} == {name: one.get(name) for name in same}
        assert [f["finding_id"] for f in again[topic]["findings"]] == [f["finding_id"] for f in one["findings"]]
