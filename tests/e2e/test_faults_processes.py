"""The processes that make up the job, killed one by one: each row once, each finding once."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.waiting import until
from tests.e2e.job_process import JobProcess, Stream, await_exactly

pytestmark = pytest.mark.timeout(1500)

BETWEEN_THE_COMMITS = """
import contextlib, os, psutil, pyarrow.compute as pc
from parallax.views import sink
from parallax.views.positions import open_table

real = sink.append

def records(storage, name):
    return open_table(storage, name).to_pyarrow_dataset().count_rows(filter=pc.field("kind") == 0)

def append(rows, path, query, batch):
    storage, name = os.path.split(path)
    asked_for = os.path.join(storage, "kill-now")
    if name == "read_committed" and os.path.exists(asked_for):
        if records(storage, "read_uncommitted") > records(storage, "read_committed"):
            os.unlink(asked_for)
            for process in [*psutil.Process().children(recursive=True), psutil.Process()]:
                with contextlib.suppress(psutil.NoSuchProcess):  # a worker ends by itself when its JVM is gone
                    process.kill()
    real(rows, path, query, batch)

sink.append = append
"""
"""Kills the job once where the first table of a batch holds records that the second does not hold yet."""


HANGS_WHEN_TOLD = """
import os, threading
from parallax.views import sink

real = sink.append

def append(rows, path, query, batch):
    asked_for = os.path.join(os.path.dirname(path), "hang-now")
    if os.path.basename(path) == "replica_progress" and os.path.exists(asked_for):
        os.unlink(asked_for)
        threading.Event().wait()
    real(rows, path, query, batch)

sink.append = append
"""
"""Has one commit of progress never return, so that Spark cannot stop its query either."""


@pytest.fixture(scope="module")
def job(kafka: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobProcess]:
    """One job with both levels in one query, so that a batch is two commits; each test leaves it running."""
    folder = tmp_path_factory.mktemp("job")
    with JobProcess(folder, kafka.bootstrap_servers, "killed-.*", read={"grouping": "all"}) as process:
        yield process.start(BETWEEN_THE_COMMITS)


def jvm(job: JobProcess) -> list[psutil.Process]:
    return [child for child in job.process.children() if child.name() == "java"]


def python(job: JobProcess) -> list[psutil.Process]:
    """The Python processes that run tasks, forked by a daemon, and those that plan the micro-batches of the sources."""
    workers = [worker for daemon in _running(job, "parallax.source.daemon") for worker in daemon.children()]
    planners = _running(job, "pyspark.sql.streaming.python_streaming_source_runner")
    return workers + planners if workers and planners else []


def _running(job: JobProcess, module: str) -> list[psutil.Process]:
    found = []
    for child in jvm(job)[0].children():
        with contextlib.suppress(psutil.Error):  # it may be ending
            if module in child.cmdline():
                found.append(child)
    return found


def test_a_job_killed_between_the_two_commits_of_a_batch_records_each_row_once(
    kafka: Cluster, job: JobProcess, topic: str
) -> None:
    stream = Stream(kafka, f"killed-{topic}")
    stream.write()
    stream.await_recorded_once(job)
    (Path(job.storage) / "kill-now").touch()
    stream.write()
    assert job.process.wait(120) == -signal.SIGKILL
    uncommitted, committed = (sum(counts.values()) for counts in job.recorded(stream.topic).values())
    assert uncommitted > committed
    job.start(BETWEEN_THE_COMMITS)
    stream.write()
    stream.await_recorded_once(job)
    assert [f for f in job.findings() if f.topic == stream.topic] == []


@pytest.mark.parametrize("who", [python, jvm])
def test_the_job_goes_on_when_processes_of_it_are_killed(
    kafka: Cluster, job: JobProcess, topic: str, who: Callable[[JobProcess], list[psutil.Process]]
) -> None:
    stream = Stream(kafka, f"killed-{topic}")
    job.await_observed(stream.topic, stream.write(), 1)
    restarts = job.metric("parallax_query_restarts_total") or 0.0
    for victim in until(lambda: who(job), f"{who.__name__} to be there", timeout=120):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    until(lambda: (job.metric("parallax_query_restarts_total") or 0.0) > restarts, "a restart told", timeout=120)
    stream.write()
    stream.await_recorded_once(job)
    until(lambda: job.metric("parallax_query_up") == 3.0, "all three queries to run", timeout=120)
    assert job.process.poll() is None
    assert [f for f in job.findings() if f.topic == stream.topic] == []


def test_a_driver_killed_alone_takes_its_jvm_along_and_the_next_finds_a_divergence_once(
    kafka: Cluster, job: JobProcess, topic: str
) -> None:
    stream = Stream(kafka, f"killed-{topic}")
    job.await_observed(stream.topic, stream.write(), 1)
    (orphan,) = jvm(job)
    job.process.kill()
    job.process.wait(30)
    job.start(BETWEEN_THE_COMMITS)
    stream.write()
    until(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE, "its JVM to end", timeout=120)
    stream.await_recorded_once(job)
    result = SCENARIOS["frozen"].run(kafka, topic_prefix=f"killed-{topic}-", await_observed=job.await_observed)
    (finding,) = await_exactly(job, result)
    assert finding.broker == 2


@pytest.mark.release
def test_a_query_that_hangs_where_spark_cannot_stop_it_costs_a_jvm_and_no_row(
    kafka: Cluster, tmp_path: Path, topic: str
) -> None:
    stream = Stream(kafka, f"hangs-{topic}")
    supervisor = {"no_progress_deadline_s": 30}
    with JobProcess(tmp_path, kafka.bootstrap_servers, "hangs-.*", supervisor=supervisor) as job:
        job.start(HANGS_WHEN_TOLD)
        stream.write()
        stream.await_recorded_once(job)
        (before,) = jvm(job)
        (Path(job.storage) / "hang-now").touch()
        until(lambda: jvm(job) and before not in jvm(job), "another JVM", timeout=240)
        stream.write()
        stream.await_recorded_once(job)
        until(lambda: job.metric("parallax_query_up") == 4.0, "all four queries to run", timeout=120)
        assert "cannot be stopped" in job.log.read_text()
