"""The whole way through, as a user runs it: real brokers, the job as a process, findings in its table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.traffic import ProducerKind
from tests.e2e.job_process import JobProcess, await_compared, await_exactly

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
    await_compared(job, result.topics)
    assert [f for f in job.findings() if f.topic in result.topics] == []


def test_a_second_job_on_the_same_storage_is_refused_in_one_line(lab: Cluster, job: JobProcess) -> None:
    command = [sys.executable, "-m", "parallax.cli", "run", "-c", str(job.config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "in use by the job with pid" in ended.stderr
