"""What the job does when it, or a broker, is gone for a while: nothing is lost, and nothing is told twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.traffic import PlainProducer
from parallax.lab.waiting import until
from tests.e2e.job_process import JobProcess, await_compared, await_exactly, expected_places, places

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    """Brokers that the tests hurt; each leaves all of them running."""
    with Cluster() as cluster:
        yield cluster


MOMENTS = ("broker 2 is out of the ISR", "bringing broker 2 back", "shows")
"""What a scenario says when the job is killed."""


def test_a_job_killed_in_the_middle_loses_no_finding_and_doubles_none(lab: Cluster, tmp_path: Path, topic: str) -> None:
    prefix = f"killed-{topic}-"
    with JobProcess(tmp_path, lab.bootstrap_servers, f"{prefix}.*") as job:
        job.start()
        left, started = list(MOMENTS), time.time()

        def compares() -> bool:
            return (job.metric("parallax_heartbeat_timestamp_seconds") or 0.0) > started

        def kill_at(text: str) -> None:
            nonlocal started
            if left and left[0] in text:
                left.pop(0)
                until(compares, "the job to compare", timeout=300, interval=0.2)
                job.kill()
                started = time.time()
                job.start()

        result = SCENARIOS["all"].run(lab, topic_prefix=prefix, say=kill_at, await_observed=job.await_observed)
        assert left == []
        found = await_exactly(job, result)
        assert len({f.finding_id for f in found}) == len(found) == 5
        assert places([f for f in job.findings() if f.topic in result.topics]) == expected_places(result.expected)


def test_a_broker_that_is_down_from_the_start_holds_nothing_back_and_is_told(
    lab: Cluster, tmp_path: Path, topic: str
) -> None:
    name = f"down-{topic}"
    lab.create_topic(name, replicas=[1, 2, 3], config={"cleanup.policy": "compact"})
    lab.kill_broker(3)
    try:
        lab.wait_isr(name, {1, 2})
        producer = PlainProducer(lab.bootstrap_servers)
        offset = producer.send(name, "k", "v")
        with JobProcess(tmp_path, lab.bootstrap_servers, name) as job:
            job.start()
            for broker in (1, 2):
                job.await_observed(name, offset, broker)
            until(
                lambda: job.metric("parallax_broker_reachable", broker_id="3") == 0.0, "broker 3 told down", timeout=180
            )
            until(
                lambda: (job.metric("parallax_unknown_offsets", topic=name) or 0) > 0,
                "its offsets unknown",
                timeout=180,
            )
            lab.start_broker(3)
            job.await_observed(name, offset, 3)
            await_compared(job, (name,))
            assert job.findings() == []
            assert job.stop() == 0
    finally:
        if not lab.brokers[3].running:
            lab.start_broker(3)
        lab.wait_isr(name, {1, 2, 3})
