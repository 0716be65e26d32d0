"""A finding stands until its whole effect is over: every key of a transaction, and every replica that was copied."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from parallax.findings.finding import Finding
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import scripts
from parallax.lab.scenarios.conductor import Conductor
from parallax.lab.scenarios.stage import Cleaning, Divergence, Outage, Return, Script, Stage
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import FindingKind, FindingStatus
from parallax.replica.client import ReplicaClient
from tests.e2e.job_process import JobProcess, await_exactly

pytestmark = [pytest.mark.timeout(900), pytest.mark.release]

SEVERAL, COPIED = "whole-several", "whole-copied"


def rolled_back_together(stage: Stage) -> Script:
    """The victim misses the ABORT of a transaction that wrote two keys, and takes the next COMMIT for its end."""
    stage.begin()
    offsets = [stage.send(key, "rolled back") for key in ("transfer-1", "transfer-2")]
    yield Outage()
    abort = stage.abort()
    yield Cleaning(superseded=offsets, evidence=[abort])
    stage.begin()
    stage.send("transfer-3", "booked")
    stage.commit()
    yield Return(
        wrong=lambda view: all(view.visible.get(key) == "rolled back" for key in ("transfer-1", "transfer-2")),
        right=lambda view: not view.visible.keys() & {"transfer-1", "transfer-2"} and "transfer-3" in view.visible,
    )
    return Divergence(FindingKind.ABORTED_RECORD_COMMITTED, offsets[0], "transfer-1")


def test_a_finding_stands_until_no_key_and_no_replica_is_wrong_any_more(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    lab = make_cluster()
    client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)
    producer = PlainProducer(lab.bootstrap_servers)
    findings = {"recheck_interval_s": 2, "probe_retry_ms": 500}
    read = {"payload": "key"}
    with JobProcess(tmp_path, lab.bootstrap_servers, "whole-.*", findings=findings, read=read) as job:
        job.start()
        conductor = Conductor(
            "whole effect",
            {"several": rolled_back_together, "copied": scripts.deleted_record_resurrected},
            lab,
            diverges=True,
            producer="legacy",
            topic_prefix="whole-",
            say=lambda _: None,
            await_observed=job.await_observed,
            hold_s=0.0,
            outage="kill",
        )
        result = conductor.play()
        await_exactly(job, result)
        first = next(e.offset for e in result.expected if e.topic == SEVERAL)
        assert first is not None

        def standing(topic: str, broker: int = 2) -> Finding:
            (finding,) = [f for f in job.findings() if (f.topic, f.broker) == (topic, broker)]
            return finding

        def written_again(key: str, offset: int) -> None:
            """Give a key a new value, and let compaction take what broker 2 shows of it."""
            producer.send(SEVERAL, key, "booked at last")

            def compacted() -> bool:
                producer.fill([SEVERAL], 20)
                return not read_replica(client, 2, SEVERAL).holds(offset)

            until(compacted, f"broker 2 to have cleaned {key}", timeout=90, interval=0.6)

        written_again("transfer-1", first)
        until(lambda: standing(SEVERAL).offset == first + 1, "the finding to name the other key", timeout=120)
        assert standing(SEVERAL).is_open
        written_again("transfer-2", first + 1)
        until(lambda: not standing(SEVERAL).stands, "the finding to end", timeout=120)
        assert json.loads(standing(SEVERAL).evidence)["resolution"] == "evidence_compacted"

        # Broker 2 leads, and the others are copied from it, one after the other.
        admin.elect_leaders(lab, COPIED, broker=2)
        admin.reassign(lab, COPIED, replicas=[2, 1])
        admin.reassign(lab, COPIED, replicas=[2, 1, 3])
        until(lambda: standing(COPIED).exposed, "the finding to say that broker 2 leads", timeout=120)
        assert standing(COPIED).status is FindingStatus.CONFIRMED
        assert not [f for f in job.findings() if f.topic == COPIED and f.broker == 1], "broker 1 is right"
        admin.reassign(lab, COPIED, replicas=[2, 3])
        admin.reassign(lab, COPIED, replicas=[2, 3, 1])
        assert all("customer-7" in read_replica(client, b, COPIED).visible for b in (1, 2, 3))
        until(
            lambda: standing(COPIED).status is FindingStatus.SPREAD, "the loss to be reported as complete", timeout=120
        )
        assert job.metric("parallax_open_findings", topic=COPIED, broker_id="2") == 1.0
        producer.send(COPIED, "customer-7", "alive again")
        until(lambda: not [f for f in job.findings() if f.topic == COPIED and f.stands], "all to end", timeout=120)
        assert json.loads(standing(COPIED).evidence)["resolution"] == "superseded"
    client.close()
