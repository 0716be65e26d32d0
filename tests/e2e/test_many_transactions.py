"""A replica that lost its index of a thousand aborted transactions: one finding, with the right count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parallax.findings.finding import Finding, evidence_of
from parallax.findings.incident import tally_of
from parallax.findings.table import read_events
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import LegacyTransactionalProducer, PlainProducer
from parallax.lab.waiting import until
from parallax.model import FindingKind, FindingStatus
from tests.e2e.job_process import JobProcess

pytestmark = [pytest.mark.timeout(1200), pytest.mark.release]

TRANSACTIONS = 1_000
TOPIC = "rolled-back"


def roll_back(lab: Cluster, transactions: int) -> list[int]:
    """Abort transactions of one record each, or of a dozen, all with keys of their own; gives their first offsets."""
    producer, offsets = LegacyTransactionalProducer(lab.bootstrap_servers, TOPIC), []
    for number in range(transactions):
        producer.begin()
        offsets.append(producer.send(TOPIC, f"key-{number}", "rolled back"))
        for more in range(11 if number % 10 == 0 else 0):
            producer.send(TOPIC, f"key-{number}-{more}", "rolled back")
        producer.abort()
    return offsets


def take_index(lab: Cluster, broker: int) -> dict[Path, bytes]:
    """Remove the index of aborted transactions from the disk of a broker that is down; gives what it held."""
    lost = {file: file.read_bytes() for file in lab.brokers[broker].folder.glob(f"**/{TOPIC}-0/*.txnindex")}
    assert any(lost.values()), "the index was on the disk"
    for file in lost:
        file.unlink()
    return lost


def await_count(job: JobProcess, count: int) -> Finding:
    """Wait until there is one open finding, with a count."""

    def counted() -> list[Finding]:
        found = [finding for finding in job.findings() if finding.is_open]
        return found if len(found) == 1 and found[0].is_incident and tally_of(found[0]).count == count else []

    (finding,) = until(counted, f"one finding that counts {count} transactions", timeout=400, interval=0.5)
    return finding


def test_a_thousand_transactions_of_a_lost_index_are_one_incident_with_the_right_count(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    lab = make_cluster()
    # No cleaner comes: what the index lists is there, and whoever reads broker 2 is given all of it.
    config = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}
    lab.create_topic(TOPIC, replicas=[1, 2, 3], config=config)
    findings = {"recheck_interval_s": 5, "probe_retry_ms": 500}
    with JobProcess(tmp_path, lab.bootstrap_servers, TOPIC, findings=findings, read={"payload": "key"}) as job:
        job.start()
        offsets = roll_back(lab, TRANSACTIONS)
        last = PlainProducer(lab.bootstrap_servers).send(TOPIC, "the-last", "committed")
        for broker in (1, 2, 3):
            job.await_observed(TOPIC, last, broker)
        lab.stop_broker(2)
        lab.wait_isr(TOPIC, (1, 3))
        until(lambda: job.metric("parallax_broker_reachable", broker_id="2") == 0, "broker 2 to be missed")
        index = take_index(lab, 2)
        lab.start_broker(2)
        lab.wait_isr(TOPIC, (1, 2, 3))

        incident = await_count(job, TRANSACTIONS)
        assert (incident.kind, incident.broker) == (FindingKind.OUTCOME_CONTRADICTS_MARKER, 2)
        assert incident.status is FindingStatus.CONFIRMED
        assert f"{TRANSACTIONS:,} transactions in all" in incident.summary
        assert (tally_of(incident).lowest, tally_of(incident).highest) == (offsets[0], offsets[-1])
        until(lambda: not job.metric("parallax_suspects_pending", topic=TOPIC), "no suspect to wait")
        assert job.metric("parallax_incident_keys", topic=TOPIC) == TRANSACTIONS
        assert job.metric("parallax_open_findings", topic=TOPIC) == 1, "what they explain is no finding beside them"
        told = read_events(job.storage)
        assert [e for e in told if e.is_open and not e.is_incident] == [], "no transaction is a finding of its own"
        assert len(told) < 60

        job.kill()
        job.start()
        until(lambda: job.metric("parallax_incident_keys", topic=TOPIC) == TRANSACTIONS, "it to stand")
        until(lambda: not job.metric("parallax_suspects_pending", topic=TOPIC), "all to be proven again")
        await_count(job, TRANSACTIONS)

        lab.stop_broker(2)
        for file, held in index.items():
            file.write_bytes(held)
        lab.start_broker(2)
        lab.wait_isr(TOPIC, (1, 2, 3))
        until(lambda: not [f for f in job.findings() if f.is_open], "the incident to end", timeout=400, interval=0.5)
        (ended,) = [f for f in job.findings() if f.is_incident]
        assert evidence_of(ended)["resolution"] == "healed"
        assert f"healed {TRANSACTIONS:,}" in ended.summary
