"""A pause of the reading: what is paused is not read, the rest is, and the switch outlives the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from parallax.model import IsolationLevel
from parallax.views.pause import pause, resume
from tests.e2e.job_process import JobProcess, Stream


@pytest.mark.timeout(900)
def test_a_paused_broker_is_not_read_until_it_is_resumed_even_by_a_job_that_was_killed(
    kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    how = {"grouping": "all", "fetch": "shared"}
    stream = Stream(kafka, topic)
    with JobProcess(tmp_path, kafka.bootstrap_servers, topic, read=how) as job:
        job.start()
        first = stream.write()
        stream.await_recorded_once(job)
        pause(job.storage, [2], "a test", "tests")
        until(lambda: job.metric("parallax_reading_paused_timestamp_seconds", broker_id="2") is not None, "the pause")
        stood = positions(job, topic, 2)
        second = stream.write()
        for broker in (1, 3):
            job.await_observed(topic, second, broker)
        job.kill()
        job.start()
        third = stream.write()
        for broker in (1, 3):
            job.await_observed(topic, third, broker)
        until(lambda: (job.unknown(topic) or 0) > 0, "what is not read to be unknown", timeout=120)
        assert positions(job, topic, 2) == stood
        assert min(stood) > first
        assert job.metric("parallax_reading_paused_timestamp_seconds", broker_id="2") is not None
        assert job.metric("parallax_broker_reachable", broker_id="2") == 1
        resume(job.storage, [2])
        stream.await_recorded_once(job)
        until(lambda: job.metric("parallax_reading_paused_timestamp_seconds") is None, "the end of the pause")
        assert not job.findings()


def positions(job: JobProcess, topic: str, broker: int) -> list[int]:
    """Where both views of a replica stand."""
    rows = [job.last_position(level, topic, broker) for level in IsolationLevel]
    return [row["offset"] for row in rows if row is not None]
