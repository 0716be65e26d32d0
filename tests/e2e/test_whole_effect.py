"""A finding stands until its whole effect is over: every key of a transaction, and every replica that was copied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import pytest

from parallax.findings.finding import Finding
from parallax.findings.table import read_events
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import ExpectedFinding, scripts
from parallax.lab.scenarios.conductor import KEPT, Conductor
from parallax.lab.scenarios.stage import Cleaning, Divergence, Outage, Return, Script, Stage
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import FindingKind, FindingStatus
from parallax.replica.client import ReplicaClient
from tests.e2e.job_process import JobProcess, await_exactly

pytestmark = [pytest.mark.timeout(900), pytest.mark.release]

SEVERAL, COPIED, COMMIT, PUT = "whole-several", "whole-copied", "whole-commit", "whole-put"


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


def committed_put_aborted(stage: Stage) -> Script:
    """The victim misses the COMMIT of a value and takes the next ABORT for its end. All have a newer value."""
    stage.begin()
    first = stage.send("price-3", "10")
    yield Outage()
    commit = stage.commit()
    stage.put("price-3", "12")
    yield Cleaning(superseded=[first], evidence=[commit])
    stage.begin()
    stage.send("price-4", "rolled back")
    stage.abort()
    stage.keep()
    yield Return(
        wrong=lambda view: first in view.aborted_from and view.holds(first),
        right=lambda view: first not in view.aborted_from and view.visible.get("price-3") == "12",
    )
    return Divergence(FindingKind.COMMITTED_RECORD_ABORTED, first, "price-3")


@dataclass
class Whole:
    """Topics whose replicas differ, and a job that has found it."""

    lab: Cluster
    job: JobProcess
    client: ReplicaClient
    producer: PlainProducer
    expected: Mapping[str, ExpectedFinding]

    def standing(self, topic: str, broker: int = 2) -> Finding:
        (finding,) = [f for f in self.job.findings() if (f.topic, f.broker) == (topic, broker)]
        return finding

    def clean(self, topic: str, offset: int) -> None:
        """Let compaction take a record from broker 2."""

        def compacted() -> bool:
            self.producer.fill([topic], 20)
            return not read_replica(self.client, 2, topic).holds(offset)

        until(compacted, f"broker 2 to have cleaned offset {offset} of {topic}", interval=0.6)

    def await_end(self, topic: str) -> str:
        """Wait until the finding about broker 2 is over; returns its resolution."""
        until(lambda: not self.standing(topic).stands, f"the finding of {topic} to end")
        return str(json.loads(self.standing(topic).evidence)["resolution"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    findings = {"recheck_interval_s": 2, "probe_retry_ms": 500}
    with (
        Cluster() as lab,
        JobProcess(
            tmp_path_factory.mktemp("whole"),
            lab.bootstrap_servers,
            "whole-.*",
            findings=findings,
            read={"payload": "key"},
        ) as job,
        closing(ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)) as client,
    ):
        job.start()
        conductor = Conductor(
            "whole effect",
            {
                "several": rolled_back_together,
                "copied": scripts.deleted_record_resurrected,
                "commit": scripts.committed_record_aborted,
                "put": committed_put_aborted,
            },
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
        expected = {one.topic: one for one in result.expected}
        yield Whole(lab, job, client, PlainProducer(lab.bootstrap_servers), expected)


def test_a_finding_stands_until_no_key_of_its_transaction_is_wrong_any_more(whole: Whole) -> None:
    first = whole.expected[SEVERAL].offset
    assert first is not None
    whole.producer.send(SEVERAL, "transfer-1", "booked at last")
    whole.clean(SEVERAL, first)
    until(lambda: whole.standing(SEVERAL).offset == first + 1, "the finding to name the other key")
    assert whole.standing(SEVERAL).is_open
    whole.producer.send(SEVERAL, "transfer-2", "booked at last")
    whole.clean(SEVERAL, first + 1)
    assert whole.await_end(SEVERAL) == "evidence_compacted"


def test_a_hidden_record_that_no_consumer_can_notice_is_over_when_it_is_reported(
    whole: Whole,
) -> None:
    """Broker 2 still holds and hides it, and no consumer in read_committed can notice that."""
    hidden = whole.expected[PUT].offset
    assert read_replica(whole.client, 2, PUT).holds(hidden)
    assert whole.await_end(PUT) == "evidence_compacted"
    events = [event for event in read_events(whole.job.storage) if event.topic == PUT]
    assert not any(event.is_open for event in events)
    assert f"only broker 2 held offset {hidden} any more" in whole.standing(PUT).summary


def test_a_hidden_record_is_over_once_it_is_gone_and_all_show_the_same_newer_one(
    whole: Whole,
) -> None:
    topic = COMMIT
    hidden = whole.expected[topic].offset
    assert hidden is not None
    assert whole.standing(topic).is_open
    admin.set_topic_config(whole.lab, topic, {"delete.retention.ms": "3600000", **dict.fromkeys(KEPT)})
    newer = whole.producer.send(topic, whole.expected[topic].key, None)
    whole.clean(topic, hidden)
    assert whole.await_end(topic) == "evidence_compacted"
    over = whole.standing(topic).summary
    assert over.startswith(f"Broker 2 hid the committed record at offset {hidden} of {topic}-0 as aborted.")
    assert (
        f"no replica held offset {hidden} any more, and all showed the newer record of its key at offset {newer}"
        in over
    )


def test_a_finding_stands_until_no_replica_is_wrong_any_more(whole: Whole) -> None:
    """Broker 2 leads, and the others are copied from it, one after the other."""
    lab, client = whole.lab, whole.client
    admin.elect_leaders(lab, COPIED, broker=2)
    admin.reassign(lab, COPIED, replicas=[2, 1])
    admin.reassign(lab, COPIED, replicas=[2, 1, 3])
    until(lambda: whole.standing(COPIED).exposed, "the finding to say that broker 2 leads")
    assert whole.standing(COPIED).status is FindingStatus.CONFIRMED
    assert not [f for f in whole.job.findings() if f.topic == COPIED and f.broker == 1], "broker 1 is right"
    admin.reassign(lab, COPIED, replicas=[2, 3])
    admin.reassign(lab, COPIED, replicas=[2, 3, 1])
    assert all("customer-7" in read_replica(client, b, COPIED).visible for b in (1, 2, 3))
    until(lambda: whole.standing(COPIED).status is FindingStatus.SPREAD, "the loss to be reported as complete")
    assert whole.job.metric("parallax_open_findings", topic=COPIED, broker_id="2") == 1.0
    whole.producer.send(COPIED, "customer-7", "alive again")
    until(lambda: not [f for f in whole.job.findings() if f.topic == COPIED and f.stands], "all to end")
    assert json.loads(whole.standing(COPIED).evidence)["resolution"] == "superseded"
