"""A job whose tables, checkpoints and lease lie on a real S3 server: killed, taken over, frozen, and fenced."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.waiting import until
from parallax.model import IsolationLevel
from parallax.stores import set_environment
from parallax.views.fencing import EPOCH
from parallax.views.objects import Objects
from parallax.views.tables import PROGRESS, create_tables, rust_uri
from tests.e2e.job_process import SHORT_LIVED, JobProcess, Stream, assert_nothing_differs_in_the_tables, await_exactly
from tests.s3_server import S3Server

pytestmark = [pytest.mark.release, pytest.mark.timeout(1500)]

HASH_KEY = "0123456789abcdef0123456789abcdef"

TAKEN_OVER_WITHIN_S = 60
"""From the start of the next job to its metrics, Python's own start included; docs/contribute/design.md states it."""

TABLES = (*(level.option for level in IsolationLevel), "replica_progress", "suspects", "findings")

FREEZES_BEFORE_A_COMMIT = """
import os, signal
from deltalake import DeltaTable

real = DeltaTable.create_write_transaction

def commit(self, *arguments, **more):
    if os.path.exists(os.environ["FREEZE"]):
        os.unlink(os.environ["FREEZE"])
        os.kill(os.getpid(), signal.SIGSTOP)
    return real(self, *arguments, **more)

DeltaTable.create_write_transaction = commit
"""
"""Stops the driver where a commit has looked at everything and is about to be written."""


READ_BY_SPARK = """
import json, sys
from parallax.config import SparkSettings
from parallax.views.session import build_session
from parallax.views.tables import PROGRESS, table_path

storage, more = sys.argv[1:]
spark = build_session(SparkSettings(**json.loads(more)), storage=storage)
found = spark.read.format("delta").load(table_path(storage, PROGRESS)).collect()
print(json.dumps(sorted(row["partition"] for row in found)))
spark.stop()
"""
"""Prints the partitions in the table of progress."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch, S3Server(tmp_path_factory.mktemp("s3")) as server:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        for name in ("AWS_ALLOW_HTTP", "AWS_CONDITIONAL_PUT"):
            patch.setenv(name, "")
        set_environment("s3a://any", {}, os.environ)
        yield server


def job_on(server: S3Server, folder: Path, kafka: Cluster, prefix: str) -> JobProcess:
    return JobProcess(
        folder,
        kafka.bootstrap_servers,
        f"{prefix}-.*",
        storage={"path": server.uri(prefix)},
        read={"hash_key": HASH_KEY, "metadata_refresh_ms": 1000, "progress_interval_ms": 5000},
        spark={"master": "local[2]", **SHORT_LIVED},
    )


def epochs(server: S3Server, prefix: str, table: str) -> list[int]:
    """The epochs that the commits of a table carry, in order."""
    entries = sorted((server.objects / prefix / table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for entry in entries for line in entry.read_text().splitlines()]
    return [a["txn"]["version"] for a in actions if a.get("txn", {}).get("appId") == EPOCH]


def command_lines(job: JobProcess) -> str:
    """What everybody on the machine can read of the job's processes."""
    lines = []
    for process in [job.process, *job.process.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # it may be ending
            lines += process.cmdline()
    return " ".join(lines)


def ended(job: JobProcess, within_s: float) -> tuple[int, str]:
    """How a job ends by itself: its exit code, and the last line that it says."""
    code = job.process.wait(within_s)
    return int(code), job.log.read_text().strip().splitlines()[-1]


def test_rows_are_recorded_once_across_kills_and_a_second_job_is_refused(
    kafka: Cluster, server: S3Server, tmp_path: Path
) -> None:
    with job_on(server, tmp_path / "first", kafka, "kills") as job:
        job.start()
        stream = Stream(kafka, "kills-topic")
        stream.write()
        stream.await_recorded_once(job)
        command = [sys.executable, "-m", "parallax.cli", "run", "-c", str(job.config)]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert refused.returncode == 1
        *_, line = refused.stderr.strip().splitlines()
        assert "is in use by the job on" in line
        assert server.SECRET_KEY not in job.log.read_text() + command_lines(job)
        for _ in range(2):
            stream.write()
            job.kill()
            began = time.monotonic()
            job.start()
            assert time.monotonic() - began < TAKEN_OVER_WITHIN_S
            stream.write()
            stream.await_recorded_once(job)
        assert job.metric("parallax_storage_lease_epoch") == 3.0
        assert job.metric("parallax_query_checkpoints_set_aside_total") == 0.0
        assert job.findings() == []
        assert job.stop() == 0
        job.start()
        assert "has not let go" not in job.log.read_text().rsplit("=== start", 1)[1], (
            "a released lease is taken at once"
        )
        stream.write()
        stream.await_recorded_once(job)
        assert job.stop() == 0
    assert_nothing_differs_in_the_tables(job)
    for table in TABLES:
        told = epochs(server, "kills", table)
        assert told == sorted(told)
        assert told[-1] == 4


def test_a_job_that_was_frozen_before_a_commit_and_taken_over_commits_nothing_any_more(
    kafka: Cluster, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze = tmp_path / "freeze"
    monkeypatch.setenv("FREEZE", str(freeze))
    with (
        job_on(server, tmp_path / "old", kafka, "frozen") as old,
        job_on(server, tmp_path / "new", kafka, "frozen") as new,
    ):
        old.start(FREEZES_BEFORE_A_COMMIT)
        stream = Stream(kafka, "frozen-topic")
        stream.write()
        stream.await_recorded_once(old)
        freeze.touch()
        stream.write()
        until(lambda: old.process.status() == psutil.STATUS_STOPPED, "the old job to be frozen")
        began = time.monotonic()
        new.start()
        assert time.monotonic() - began < TAKEN_OVER_WITHIN_S
        stream.await_recorded_once(new)
        before = {table: len(epochs(server, "frozen", table)) for table in TABLES}
        old.process.send_signal(signal.SIGCONT)
        code, line = ended(old, 90)
        assert code == 1
        assert "was taken over by the job on" in line
        stream.write()
        stream.await_recorded_once(new)
        for table in TABLES:
            told = epochs(server, "frozen", table)
            assert told == sorted(told), f"{table}: the old job has committed behind the fence"
            assert len(told) >= before[table]
        assert new.findings() == []
        assert new.metric("parallax_query_checkpoints_set_aside_total") == 0.0
        assert new.stop() == 0


def test_broken_checkpoints_are_set_aside_and_rebuilt_from_the_tables(
    kafka: Cluster, server: S3Server, tmp_path: Path
) -> None:
    with job_on(server, tmp_path / "job", kafka, "broken") as job:
        job.start()
        stream = Stream(kafka, "broken-topic")
        stream.write()
        stream.await_recorded_once(job)
        assert job.stop() == 0
        checkpoints = Objects(server.uri("broken"))
        for query in ("read_committed", "compare"):
            found = [one.name for one in checkpoints.below(f"checkpoints/{query}") if "/offsets/" in one.name]
            assert found
            for name in found:
                checkpoints.put(name, b"v1\n{")
        stream.write()
        job.start()
        stream.await_recorded_once(job)
        assert job.metric("parallax_query_checkpoints_set_aside_total") == 2.0
        assert job.findings() == []
        assert job.stop() == 0
        _, names = checkpoints.children("checkpoints/compare")
        assert [name for name in names if name.endswith(".broken")] == ["0000000002-0001.broken"]


def test_the_five_divergences_are_found(kafka: Cluster, server: S3Server, tmp_path: Path) -> None:
    with job_on(server, tmp_path / "job", kafka, "five") as job:
        job.start()
        result = SCENARIOS["all"].run(kafka, topic_prefix="five-", await_observed=job.await_observed)
        found = await_exactly(job, result)
        assert len({finding.finding_id for finding in found}) == 5
        assert job.stop() == 0


def test_delta_spark_reads_there_what_delta_rs_has_committed(server: S3Server) -> None:
    storage = server.uri("read")
    create_tables(storage)
    rows = [{"topic": "t", "partition": n, "broker": 1, "recorded_on": date(2026, 1, 1)} for n in range(3)]
    columns = DeltaTable(rust_uri(storage, PROGRESS)).to_pyarrow_table().schema
    write_deltalake(rust_uri(storage, PROGRESS), pa.Table.from_pylist(rows, schema=columns), mode="append")
    # In a process of its own: a JVM that runs already has been started without the jars of an object store.
    more = json.dumps({"master": "local[2]", **SHORT_LIVED})
    command = [sys.executable, "-c", READ_BY_SPARK, storage, more]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == [0, 1, 2]
