"""Disks that fill up or turn read-only, checkpoints that are lost or broken, ports that are taken."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from tests.e2e.disk import Disk
from tests.e2e.faulty import Faulty, assert_refused
from tests.e2e.job_process import JobProcess, Stream, await_exactly

pytestmark = pytest.mark.timeout(1500)

_GARBAGE = b"\x00garbage\xff" * 20
_RECORDING = ("read_uncommitted", "read_committed", "progress")
_QUERIES = (*_RECORDING, "compare")
OF_A_BUSY_MACHINE = {"this machine is too small for the job", "suspects wait for a verdict"}
"""What a job may log where nothing is wrong but that others use the processor."""


@pytest.fixture(scope="module")
def lab(faulty: Faulty) -> Cluster:
    return faulty.lab


@pytest.fixture(scope="module")
def disk(faulty: Faulty) -> Disk:
    return faulty.disk


@pytest.fixture(scope="module")
def job(faulty: Faulty) -> JobProcess:
    """One job whose tables and checkpoints are on that disk; each test leaves it running."""
    return faulty.job


def set_aside(job: JobProcess, query: str) -> float:
    return job.metric("parallax_query_checkpoints_set_aside_total", query=query) or 0.0


def another_digit(path: Path) -> None:
    """Change a file so that it can still be parsed, and Hadoop's checksum of it is another."""
    data = bytearray(path.read_bytes())
    data[max(at for at, byte in enumerate(data) if chr(byte).isdigit())] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "trouble",
    [pytest.param(Disk.full, id="full"), pytest.param(Disk.read_only, marks=pytest.mark.release, id="read-only")],
)
def test_a_disk_that_takes_nothing_more_is_reported_and_costs_no_row(
    lab: Cluster,
    disk: Disk,
    job: JobProcess,
    topic: str,
    trouble: Callable[[Disk], AbstractContextManager[None]],
) -> None:
    stream = Stream(lab, f"stored-{topic}")
    job.await_observed(stream.topic, stream.write(), 1)
    restarts = job.metric("parallax_query_restarts_total") or 0.0
    # Where no disk can be mounted, a limit on what may be written stands for both, and looks like neither.
    is_full = disk.mounted and trouble is Disk.full
    said = job.log.stat().st_size
    with trouble(disk):
        stream.write()
        what = f"queries to fail on a disk that is {trouble.__name__}"
        if is_full:
            until(lambda: all(job.metric("parallax_query_up", query=q) == 0.0 for q in _RECORDING), what)
            until(lambda: job.metric("parallax_storage_full") == 1.0, "the disk to be said to be full")
            assert job.metric("parallax_query_restarts_total") == restarts, "it waits for room, and does not try"
        else:
            until(lambda: (job.metric("parallax_query_restarts_total") or 0.0) >= restarts + 4, what)
    stream.write()
    stream.await_recorded_once(job)
    until(lambda: job.metric("parallax_query_up") == 4.0, "all queries to run again")
    assert {query: set_aside(job, query) for query in _QUERIES} == dict.fromkeys(_QUERIES, 0.0), "the disk was to blame"
    until(lambda: job.metric("parallax_storage_full") == 0.0, "the disk to be said to have room")
    if is_full:
        lines = [json.loads(line) for line in job.log.read_bytes()[said:].decode().splitlines() if line[:1] == "{"]
        alarms = [line["event"] for line in lines if line["level"] != "info"]
        assert [alarm for alarm in alarms if alarm not in OF_A_BUSY_MACHINE] == [
            "storage is full; recording has stopped",
            "storage has room again; recording goes on",
        ]
    assert [f for f in job.findings() if f.topic == stream.topic] == []


def test_lost_checkpoints_are_rebuilt_and_a_taken_metrics_port_is_reported_in_one_line(
    lab: Cluster, job: JobProcess, faulty: Faulty, topic: str
) -> None:
    stream = Stream(lab, f"stored-{topic}")
    stream.write()
    result = faulty.diverged()
    (finding,) = await_exactly(job, result)
    stream.await_recorded_once(job)
    data = Path(job.storage)
    checkpoints = data / "checkpoints"

    def newest(query: str, log: str) -> Path:
        return max((checkpoints / query / log).glob("[0-9]*"), key=lambda path: int(path.name))

    with socket.create_connection(("127.0.0.1", job.metrics_port)):  # a scrape under way keeps the address half open
        job.kill()
    another_digit(newest("read_uncommitted", "offsets"))
    newest("read_committed", "commits").write_bytes(_GARBAGE)
    (checkpoints / "progress" / "metadata").write_bytes(_GARBAGE)
    for path in (checkpoints / "compare" / "segments").glob("segment-*"):
        if path.is_file():
            path.write_bytes(_GARBAGE)
    (data / "feedback" / "read_uncommitted.json").write_bytes(_GARBAGE)
    (data / "feedback" / "read_committed.json").unlink()
    job.start()
    stream.write()
    until(lambda: {q: set_aside(job, q) for q in _QUERIES} == dict.fromkeys(_QUERIES, 1.0), "all set aside")
    stream.await_recorded_once(job)
    assert [f.finding_id for f in await_exactly(job, result)] == [finding.finding_id]
    assert sorted(path.name for path in checkpoints.glob("*.broken-*")) == sorted(f"{q}.broken-1" for q in _QUERIES)

    job.kill()
    with socket.create_server(("127.0.0.1", job.metrics_port)):
        assert_refused(job)
    shutil.rmtree(checkpoints)
    shutil.rmtree(data / "feedback")
    job.start()
    stream.write()
    stream.await_recorded_once(job)
    assert [f.finding_id for f in await_exactly(job, result)] == [finding.finding_id]


def test_a_feedback_file_that_is_garbled_while_the_job_runs_is_rewritten(
    lab: Cluster, job: JobProcess, topic: str
) -> None:
    stream = Stream(lab, f"stored-{topic}")
    job.await_observed(stream.topic, stream.write(), 1)
    restarts = job.metric("parallax_query_restarts_total", query="read_uncommitted") or 0.0
    file = Path(job.storage) / "feedback" / "read_uncommitted.json"

    def refused() -> bool:
        file.write_bytes(_GARBAGE)
        return (job.metric("parallax_query_restarts_total", query="read_uncommitted") or 0.0) > restarts

    until(refused, "the garbage to be met")
    stream.write()
    stream.await_recorded_once(job)
