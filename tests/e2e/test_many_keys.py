"""A replica that lost the tombstones of thousands of keys in one outage: one finding, with the right count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from parallax.findings.finding import Finding
from parallax.findings.incident import tally_of
from parallax.findings.table import read_events
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import ReplicaView, read_replica
from parallax.lab.waiting import until
from parallax.model import FindingKind, FindingStatus
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from tests.e2e.job_process import JobProcess

pytestmark = [pytest.mark.timeout(1200), pytest.mark.release]

KEYS = 3_000
TOPIC = "flood"


def write(lab: Cluster, keys: Iterable[int], value: bytes | None) -> int:
    """Write a record of each key; gives the last offset."""
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "acks": "all", "linger.ms": 50})
    offsets: list[int] = []
    for key in keys:
        producer.produce(
            TOPIC,
            value,
            f"key-{key}".encode(),
            partition=0,
            on_delivery=lambda error, message: offsets.append(-1 if error else message.offset()),
        )
    assert producer.flush(60) == 0
    assert min(offsets) >= 0
    return max(offsets)


def view(client: ReplicaClient, broker: int) -> ReplicaView | None:
    try:
        return read_replica(client, broker, TOPIC)
    except ReplicaError:
        return None


def open_findings(job: JobProcess) -> list[Finding]:
    return [finding for finding in job.findings() if finding.is_open]


def await_count(job: JobProcess, count: int) -> Finding:
    """Wait until there is one open finding, with a count."""

    def counted() -> list[Finding]:
        found = open_findings(job)
        return found if len(found) == 1 and found[0].is_incident and tally_of(found[0]).count == count else []

    (finding,) = until(counted, f"one finding that counts {count} keys", timeout=400, interval=0.5)
    return finding


def test_thousands_of_lost_tombstones_are_one_incident_with_the_right_count(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    lab = make_cluster()
    config = {"cleanup.policy": "compact", "segment.ms": "3000", "delete.retention.ms": "5000"}
    lab.create_topic(TOPIC, replicas=[1, 2, 3], config=config | {"min.cleanable.dirty.ratio": "0.001"})
    client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)
    findings = {"recheck_interval_s": 5, "probe_retry_ms": 500}
    with JobProcess(tmp_path, lab.bootstrap_servers, TOPIC, findings=findings, read={"payload": "key"}) as job:
        job.start()
        last = write(lab, range(KEYS), b"alive")
        for broker in (1, 2, 3):
            job.await_observed(TOPIC, last, broker)
        lab.stop_broker(2)
        lab.wait_isr(TOPIC, (1, 3))
        gone = write(lab, range(KEYS), None)
        for broker in (1, 3):
            job.await_observed(TOPIC, gone, broker)
        filler = PlainProducer(lab.bootstrap_servers)

        def cleaned() -> bool:
            filler.fill([TOPIC], 20)
            views = [view(client, broker) for broker in (1, 3)]
            return all(v is not None and not any(v.holds(o) for o in range(gone + 1)) for v in views)

        until(cleaned, "the tombstones to be cleaned away", interval=1.0)
        lab.start_broker(2)
        lab.wait_isr(TOPIC, (1, 2, 3))

        incident = await_count(job, KEYS)
        assert (incident.kind, incident.broker) == (FindingKind.DELETED_RECORD_RESURRECTED, 2)
        assert incident.status is FindingStatus.CONFIRMED
        assert f"{KEYS:,} in all" in incident.summary
        events = read_events(job.storage)
        assert all(event.is_incident for event in events), "no key is a finding of its own"
        assert len(events) < 30
        until(lambda: job.metric("parallax_incident_keys", topic=TOPIC) == KEYS, "the metric to tell")
        assert job.metric("parallax_open_findings", topic=TOPIC) == 1
        until(lambda: not job.metric("parallax_suspects_pending", topic=TOPIC), "no suspect to wait")

        write(lab, range(0, KEYS, 2), b"written again")
        await_count(job, KEYS // 2)

        job.kill()
        job.start()
        until(lambda: job.metric("parallax_incident_keys", topic=TOPIC) == KEYS // 2, "it to stand")
        write(lab, range(1, KEYS, 4), b"written again")
        await_count(job, KEYS // 4)
        write(lab, range(3, KEYS, 4), b"written again")
        until(lambda: not open_findings(job), "the incident to end", timeout=400, interval=0.5)
        (ended,) = job.findings()
        assert "none of the keys of flood-0 was shown wrongly any more" in ended.summary
    client.close()
