"""The whole way through, as a user runs it: real brokers, the job as a process, findings in its table."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from parallax.findings.table import Finding
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS, ExpectedFinding, ScenarioResult
from parallax.lab.traffic import PlainProducer, ProducerKind
from parallax.lab.waiting import until
from tests.e2e.job_process import JobProcess

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    """Brokers that the scenarios hurt; each scenario leaves all of them running."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def job(lab: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobProcess]:
    """One always-on job that watches whatever topics the tests make."""
    with JobProcess(tmp_path_factory.mktemp("job"), lab.bootstrap_servers, r"watched-.*") as process:
        yield process.start()


def places(found: list[Finding]) -> list[tuple[str, str, int, int]]:
    return sorted((str(f.kind), f.topic, f.partition, f.broker) for f in found)


def expected_places(expected: tuple[ExpectedFinding, ...]) -> list[tuple[str, str, int, int]]:
    return sorted((str(e.kind), e.topic, e.partition, e.broker) for e in expected)


def await_exactly(job: JobProcess, result: ScenarioResult) -> list[Finding]:
    """Wait for the scenario's findings; fail if its topics ever show another one that stays."""

    def of_this_scenario() -> list[Finding]:
        return [f for f in job.findings() if f.topic in result.topics]

    wanted = expected_places(result.expected)
    until(
        lambda: places(of_this_scenario()) == wanted, f"exactly {wanted}, not {places(of_this_scenario())}", timeout=60
    )
    return of_this_scenario()


def await_compared(job: JobProcess, topics: tuple[str, ...], lab: Cluster) -> None:
    """Wait until every offset of the topics has a verdict in both views."""

    def settled() -> bool:
        return all(
            job.metric("parallax_unknown_offsets", topic=topic) == 0.0
            and (job.metric("parallax_compared_up_to_offset", topic=topic, isolation_level="read_uncommitted") or 0) > 0
            for topic in topics
        )

    until(settled, f"{topics} to be compared to their end", timeout=90)


@pytest.mark.parametrize("name", ["resurrected", "aborted-committed", "committed-aborted", "put-aborted", "frozen"])
def test_each_divergence_alone_is_found_with_its_evidence(lab: Cluster, job: JobProcess, topic: str, name: str) -> None:
    result = SCENARIOS[name].run(lab, topic_prefix=f"watched-{topic}-", await_observed=job.await_observed)
    (finding,) = await_exactly(job, result)
    evidence = json.loads(finding.evidence)
    assert evidence, "a finding carries what the brokers answered"
    assert f"broker {finding.broker}" in finding.summary.lower()
    assert not finding.exposed, "broker 2 is still a follower"
    value = job.metric("parallax_open_findings", topic=finding.topic, kind=str(finding.kind), broker_id="2")
    assert value == 1.0


def test_five_divergences_in_one_outage_are_found_with_the_java_producer(
    lab: Cluster, job: JobProcess, topic: str
) -> None:
    result = SCENARIOS["all"].run(
        lab, producer="java", topic_prefix=f"watched-{topic}-", await_observed=job.await_observed
    )
    assert len(await_exactly(job, result)) == 5


@pytest.mark.parametrize("producer", ["legacy", "java"])
def test_the_healthy_control_is_compared_to_its_end_and_yields_nothing(
    lab: Cluster, job: JobProcess, topic: str, producer: ProducerKind
) -> None:
    result = SCENARIOS["healthy"].run(
        lab, producer=producer, topic_prefix=f"watched-{topic}-", await_observed=job.await_observed
    )
    await_compared(job, result.topics, lab)
    assert [f for f in job.findings() if f.topic in result.topics] == []


@pytest.mark.parametrize("moment", ["broker 2 is out of the ISR", "bringing broker 2 back", "shows"])
def test_a_job_killed_in_the_middle_loses_no_finding_and_doubles_none(
    lab: Cluster, tmp_path: Path, topic: str, moment: str
) -> None:
    prefix = f"killed-{topic}-"
    with JobProcess(tmp_path, lab.bootstrap_servers, f"{prefix}.*") as job:
        job.start()
        killed = threading.Event()

        def kill_at(text: str) -> None:
            if moment in text and not killed.is_set():
                killed.set()
                job.kill()
                job.start()

        result = SCENARIOS["all"].run(lab, topic_prefix=prefix, say=kill_at, await_observed=job.await_observed)
        assert killed.is_set()
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
                lambda: job.metric("parallax_broker_reachable", broker_id="3") == 0.0, "broker 3 told down", timeout=60
            )
            until(
                lambda: (job.metric("parallax_unknown_offsets", topic=name) or 0) > 0, "its offsets unknown", timeout=60
            )
            lab.start_broker(3)
            job.await_observed(name, offset, 3)
            await_compared(job, (name,), lab)
            assert job.findings() == []
            assert job.stop() == 0
    finally:
        if not lab.brokers[3].running:
            lab.start_broker(3)
        lab.wait_isr(name, {1, 2, 3})


def test_a_second_job_on_the_same_storage_is_refused_in_one_line(lab: Cluster, job: JobProcess) -> None:
    command = [sys.executable, "-m", "parallax.cli", "run", "-c", str(job.config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "in use by the job with pid" in ended.stderr
