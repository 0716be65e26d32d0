"""The processes of the job, killed one by one; brokers that are down, or not read: each row once, each finding once."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow.compute as pc
import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.traffic import PlainProducer
from parallax.lab.waiting import until
from parallax.model import IsolationLevel, RowKind
from parallax.views.pause import pause, resume
from parallax.views.positions import open_table
from tests.e2e.job_process import JobProcess, Stream, await_compared, await_exactly, expected_places, places

pytestmark = pytest.mark.timeout(1500)

BETWEEN_THE_COMMITS = """
import contextlib, os, psutil, pyarrow.compute as pc
from parallax.views import sink
from parallax.views.positions import open_table

real = sink.commit

def records(storage, name):
    return open_table(storage, name).to_pyarrow_dataset().count_rows(filter=pc.field("kind") == 0)

def commit(table, files, query, batch):
    storage, name = os.path.split(table.uri)
    asked_for = os.path.join(storage, "kill-now")
    if name == "read_committed" and os.path.exists(asked_for):
        if records(storage, "read_uncommitted") > records(storage, "read_committed"):
            os.unlink(asked_for)
            for process in [*psutil.Process().children(recursive=True), psutil.Process()]:
                with contextlib.suppress(psutil.NoSuchProcess):  # a worker ends by itself when its JVM is gone
                    process.kill()
    real(table, files, query, batch)

sink.commit = commit
"""
"""Kills the job once where the first table of a batch holds records that the second does not hold yet."""


HANGS_WHEN_ASKED = """
import os, threading
from parallax.views import sink

real = sink.append

def append(table, rows, query, batch):
    asked_for = os.path.join(os.path.dirname(table.uri), "hang-now")
    if os.path.exists(asked_for):
        os.unlink(asked_for)
        threading.Event().wait()
    real(table, rows, query, batch)

sink.append = append
"""
"""Has one commit of progress never return, so that Spark cannot stop its query either."""


@pytest.fixture(scope="module")
def unstarted(kafka: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobProcess]:
    """One job with both levels in one query, so that a batch is two commits; whoever comes first starts it.

    Its Fetches serve both levels, so what is found of the scenario here is found that way too.
    """
    read = {"grouping": "all", "fetch": "shared"}
    folder = tmp_path_factory.mktemp("job")
    with JobProcess(folder, kafka.bootstrap_servers, "killed-.*", read=read) as process:
        yield process


@pytest.fixture
def job(unstarted: JobProcess) -> JobProcess:
    """That job; each test leaves it running."""
    return unstarted if unstarted.running else unstarted.start(BETWEEN_THE_COMMITS)


def jvm(job: JobProcess) -> list[psutil.Process]:
    return [child for child in job.process.children() if child.name() == "java"]


def python(job: JobProcess) -> list[psutil.Process]:
    """The Python processes that run tasks, forked by a daemon, and those that plan the micro-batches of the sources."""
    workers = [worker for daemon in _running(job, "parallax.daemon") for worker in daemon.children()]
    planners = _running(job, "pyspark.sql.streaming.python_streaming_source_runner")
    return workers + planners if workers and planners else []


def _running(job: JobProcess, module: str) -> list[psutil.Process]:
    found = []
    for child in jvm(job)[0].children():
        with contextlib.suppress(psutil.Error):  # it may be ending
            if module in child.cmdline():
                found.append(child)
    return found


def recorded(job: JobProcess) -> list[int]:
    """How many records each view holds, of whatever topic."""
    tables = (open_table(job.storage, isolation.option) for isolation in IsolationLevel)
    return [table.to_pyarrow_dataset().count_rows(filter=pc.field("kind") == int(RowKind.RECORD)) for table in tables]


def between_two_commits(job: JobProcess, stream: Stream) -> None:
    """Have the job kill itself when one table holds what the other does not, and start it again."""
    (Path(job.storage) / "kill-now").touch()
    stream.write()
    assert job.process.wait(300) == -signal.SIGKILL
    uncommitted, committed = recorded(job)
    assert uncommitted > committed
    job.start(BETWEEN_THE_COMMITS)


def driver_alone(job: JobProcess, _: Stream) -> None:
    """Kill the driver and start another job; the JVM that is left must end by itself."""
    (orphan,) = jvm(job)
    job.process.kill()
    job.process.wait(120)
    job.start(BETWEEN_THE_COMMITS)
    until(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE, "its JVM to end")


def jvm_alone(job: JobProcess, _: Stream) -> None:
    """Kill Spark's JVM under the driver, which must start another."""
    driver = job.process.pid
    kill_and_await_restart(job, jvm)
    assert job.process.pid == driver
    assert job.process.poll() is None


def kill_and_await_restart(job: JobProcess, who: Callable[[JobProcess], list[psutil.Process]]) -> None:
    """Kill processes of the job; its queries must be restarted."""
    restarts = job.metric("parallax_query_restarts_total") or 0.0
    for victim in until(lambda: who(job), f"{who.__name__} to be there"):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    until(lambda: (job.metric("parallax_query_restarts_total") or 0.0) > restarts, "a restart to be counted")


DEATHS: dict[str, Callable[[JobProcess, Stream], None]] = {
    "broker 2 is out of the ISR": between_two_commits,
    "bringing broker 2 back": driver_alone,
    "shows": jvm_alone,
}
"""What dies, by what the scenario says at that moment."""


def test_a_broker_that_is_down_from_the_start_holds_nothing_back_and_is_reported(
    kafka: Cluster, unstarted: JobProcess, topic: str
) -> None:
    name, job = f"killed-{topic}", unstarted
    kafka.create_topic(name, replicas=[1, 2, 3], config={"cleanup.policy": "compact"})
    kafka.kill_broker(3)
    try:
        kafka.wait_isr(name, {1, 2})
        offset = PlainProducer(kafka.bootstrap_servers).send(name, "k", "v")
        job.start(BETWEEN_THE_COMMITS)
        for broker in (1, 2):
            job.await_observed(name, offset, broker)
        until(lambda: job.metric("parallax_broker_reachable", broker_id="3") == 0.0, "broker 3 to be reported as down")
        until(lambda: (job.metric("parallax_unknown_offsets", topic=name) or 0) > 0, "its offsets unknown")
        kafka.start_broker(3)
        job.await_observed(name, offset, 3)
        await_compared(job, (name,))
        assert job.findings() == []
    finally:
        if not kafka.brokers[3].running:
            kafka.start_broker(3)
        kafka.wait_isr(name, {1, 2, 3})


def test_a_job_that_dies_three_times_in_an_outage_records_and_finds_everything_once(
    kafka: Cluster, job: JobProcess, topic: str
) -> None:
    stream = Stream(kafka, f"killed-{topic}")
    stream.write()
    left, started = dict(DEATHS), time.time()

    def compares() -> bool:
        return (job.metric("parallax_heartbeat_timestamp_seconds") or 0.0) > started

    def die(said: str) -> None:
        nonlocal started
        moment = next(iter(left), None)
        if moment is not None and moment in said:
            until(compares, "the job to compare", interval=0.2)
            left.pop(moment)(job, stream)
            started = time.time()

    prefix = f"killed-{topic}-"
    result = SCENARIOS["all"].run(kafka, topic_prefix=prefix, say=die, await_observed=job.await_observed)
    assert not left
    found = await_exactly(job, result)
    assert len({f.finding_id for f in found}) == len(found) == 5
    stream.write()
    stream.await_recorded_once(job)
    until(lambda: job.metric("parallax_query_up") == 3.0, "all three queries to run")
    assert [f for f in job.findings() if f.topic == stream.topic] == []
    assert places([f for f in job.findings() if f.topic in result.topics]) == expected_places(result.expected)


def test_the_job_goes_on_when_its_python_processes_are_killed(kafka: Cluster, job: JobProcess, topic: str) -> None:
    stream = Stream(kafka, f"killed-{topic}")
    job.await_observed(stream.topic, stream.write(), 1)
    kill_and_await_restart(job, python)
    stream.write()
    stream.await_recorded_once(job)
    until(lambda: job.metric("parallax_query_up") == 3.0, "all three queries to run")
    assert job.process.poll() is None
    assert [f for f in job.findings() if f.topic == stream.topic] == []


def test_a_paused_broker_is_not_read_until_it_is_resumed_even_by_a_job_that_was_killed(
    kafka: Cluster, job: JobProcess, topic: str
) -> None:
    stream = Stream(kafka, f"killed-{topic}")
    first = stream.write()
    stream.await_recorded_once(job)
    pause(job.storage, [2], "a test", "tests")
    until(lambda: job.metric("parallax_reading_paused_timestamp_seconds", broker_id="2") is not None, "the pause")
    stood = positions(job, stream.topic, 2)
    second = stream.write()
    for broker in (1, 3):
        job.await_observed(stream.topic, second, broker)
    job.kill()
    job.start(BETWEEN_THE_COMMITS)
    third = stream.write()
    for broker in (1, 3):
        job.await_observed(stream.topic, third, broker)
    until(lambda: (job.unknown(stream.topic) or 0) > 0, "what is not read to be unknown")
    assert positions(job, stream.topic, 2) == stood
    assert min(stood) > first
    of_it = {"topic": stream.topic, "broker_id": "2"}
    lag = {"isolation_level": "read_committed", **of_it}
    until(lambda: job.metric("parallax_view_lag_seconds", **lag) == 0, "what is not to be read to be late by nothing")
    until(lambda: job.metric("parallax_view_lag_offsets", **of_it), "what is not read to be counted")
    assert job.metric("parallax_reading_paused_timestamp_seconds", broker_id="2") is not None
    reachable = "parallax_broker_reachable"
    until(lambda: job.metric(reachable, broker_id="2") == 1, "broker 2 to be reported as reachable")
    resume(job.storage, [2])
    stream.await_recorded_once(job)
    until(lambda: job.metric("parallax_reading_paused_timestamp_seconds") is None, "the end of the pause")
    assert [f for f in job.findings() if f.topic == stream.topic] == []


def positions(job: JobProcess, topic: str, broker: int) -> list[int]:
    """Where both views of a replica stand."""
    rows = [job.last_position(level, topic, broker) for level in IsolationLevel]
    return [row["offset"] for row in rows if row is not None]


@pytest.mark.release
def test_a_query_that_hangs_where_spark_cannot_stop_it_costs_a_jvm_and_no_row(
    kafka: Cluster, tmp_path: Path, topic: str
) -> None:
    stream = Stream(kafka, f"hangs-{topic}")
    supervisor = {"no_progress_deadline_s": 30}
    with JobProcess(tmp_path, kafka.bootstrap_servers, "hangs-.*", supervisor=supervisor) as job:
        job.start(HANGS_WHEN_ASKED)
        stream.write()
        stream.await_recorded_once(job)
        (before,) = jvm(job)
        (Path(job.storage) / "hang-now").touch()
        stream.write()  # or there would be no progress to commit for minutes
        until(lambda: jvm(job) and before not in jvm(job), "another JVM")
        stream.await_recorded_once(job)
        until(lambda: job.metric("parallax_query_up") == 4.0, "all four queries to run")
        assert "cannot be stopped" in job.log.read_text()


@pytest.mark.release
def test_a_jvm_that_is_frozen_is_ended_and_costs_no_row(kafka: Cluster, tmp_path: Path, topic: str) -> None:
    stream = Stream(kafka, f"frozen-{topic}")
    supervisor = {"no_progress_deadline_s": 20}
    with JobProcess(tmp_path, kafka.bootstrap_servers, "frozen-.*", supervisor=supervisor) as job:
        job.start()
        stream.write()
        stream.await_recorded_once(job)
        (before,) = jvm(job)
        before.suspend()
        until(lambda: jvm(job) and before not in jvm(job), "another JVM")
        stream.write()
        stream.await_recorded_once(job)
        assert "does not answer; it is ended" in job.log.read_text()
