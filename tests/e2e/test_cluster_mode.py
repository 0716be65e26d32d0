"""The job on Spark's own cluster: workers of another user and environment, killed half-way, and refused when unlike."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from parallax.config import SparkSettings
from parallax.findings.table import read_events
from parallax.jars import delta_classpath, s3_classpath
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.waiting import until
from parallax.stores import set_environment
from tests.archives import unpack
from tests.e2e.job_process import JobProcess, Stream, assert_nothing_differs_in_the_tables, await_exactly
from tests.e2e.spark_cluster import PYTHON, SparkCluster, packed_environment, spark_installation
from tests.s3_server import S3Server

pytestmark = [pytest.mark.release, pytest.mark.alone, pytest.mark.timeout(1500)]

KEY = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
SUBMIT = Path(__file__).parents[2] / "deploy" / "spark" / "submit.py"


@dataclass(frozen=True)
class Machines:
    """What the workers have, in a folder that everybody may read.

    Attributes:
        folder: of all of it.
        spark: SPARK_HOME.
        archive: an environment with Parallax, packed.
        installed: the same, unpacked, as an image holds it.
        cluster: that runs.
        store: what holds the storage; each of them has its credentials in its own environment.
    """

    folder: Path
    spark: Path
    archive: Path
    installed: Path
    cluster: SparkCluster
    store: S3Server

    def conf(self, python: Path | str | None = None) -> dict[str, str]:
        """Spark's options of a job."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.cluster.secret,
            "spark.executor.memory": "512m",
            "spark.pyspark.python": str(python or self.installed / "bin" / "python"),
        }

    def job(self, folder: Path, kafka: Cluster, pattern: str, conf: dict[str, str]) -> JobProcess:
        """A job on the cluster, whose own folder nobody else may look into."""
        folder.mkdir(mode=0o700)
        return JobProcess(
            folder,
            kafka.bootstrap_servers,
            pattern,
            storage={"path": self.store.uri(folder.parent.name)},
            read={"hash_key": KEY},
            spark={
                "master": self.cluster.url,
                "driver_java_options": SparkSettings().driver_java_options,
                "conf": conf,
            },
        )


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    folder = Path(tempfile.mkdtemp(prefix="parallax-cluster-"))  # pytest's own folders are closed to other users
    try:
        folder.chmod(0o755)
        archive, installed = packed_environment(folder), folder / "installed"
        unpack(archive, installed)
        with pytest.MonkeyPatch.context() as patch, S3Server(folder / "s3") as store:
            for name, value in store.environment.items():
                patch.setenv(name, value)
            for name in ("AWS_ALLOW_HTTP", "AWS_CONDITIONAL_PUT"):
                patch.setenv(name, "")
            set_environment("s3a://any", {}, os.environ)  # for what these tests themselves read
            mine = {name: store.environment[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
            with SparkCluster(folder / "cluster", spark_installation(folder), environment=mine) as cluster:
                yield Machines(folder, cluster.home, archive, installed, cluster, store)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_five_divergences_are_found_once_though_a_worker_and_the_driver_are_killed_half_way(
    kafka: Cluster, machines: Machines, tmp_path: Path, topic: str
) -> None:
    cluster = machines.cluster
    stream = Stream(kafka, f"cluster-{topic}")
    stream.write()
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(tmp_path), "spark.eventLog.compress": "false"}
    with machines.job(tmp_path / "job", kafka, "cluster-.*", machines.conf() | logged) as job:
        job.start()
        stream.await_recorded_once(job)

        def worker() -> None:
            cluster.kill_worker(1)
            stream.write()

        def driver() -> None:
            cluster.start_worker(1)
            job.kill()
            stream.write()
            job.start()

        left = {"broker 2 is out of the ISR": worker, "bringing broker 2 back": driver}

        def die(said: str) -> None:
            for moment in [moment for moment in left if moment in said]:
                left.pop(moment)()

        result = SCENARIOS["all"].run(
            kafka, topic_prefix=f"cluster-{topic}-", say=die, await_observed=job.await_observed
        )
        assert not left
        found = await_exactly(job, result)
        assert len({finding.finding_id for finding in found}) == len(found) == 5
        stream.write()
        stream.await_recorded_once(job)
        confirmed = Counter(e.finding_id for e in read_events(job.storage) if e.status == "confirmed")
        assert {confirmed[finding.finding_id] for finding in found} == {1}
        assert [finding for finding in job.findings() if finding.topic == stream.topic] == []
        assert_nothing_shown(
            machines, job, (KEY, cluster.secret, S3Server.SECRET_KEY), sorted(tmp_path.glob("eventlog*/events*"))
        )
        assert job.stop() == 0
        # delta-spark reads the tables in tasks: their classes have come to the workers.
        assert_nothing_differs_in_the_tables(job, "--topic", stream.topic)


def assert_nothing_shown(machines: Machines, job: JobProcess, secrets: tuple[str, ...], events: list[Path]) -> None:
    """No secret on a command line, in the job's log, in Spark's event log (which its pages show), or on the workers."""
    assert events
    processes = [job.process, *job.process.children(recursive=True), *machines.cluster.processes.values()]
    processes += list(machines.cluster.executors())
    shown = []
    for process in processes:
        with contextlib.suppress(psutil.Error):  # a Python worker may be ending
            shown.append(" ".join(process.cmdline()))
    assert shown
    shown += [path.read_text(errors="replace") for path in (job.log, *events)]
    shown += [machines.cluster.logs()]
    assert "spark.authenticate" in "".join(shown)
    assert [secret for secret in secrets if any(secret in text for text in shown)] == []


def test_spark_submit_ships_an_archive_and_ends_with_the_job_as_the_job_with_it(
    kafka: Cluster, machines: Machines, tmp_path: Path, topic: str
) -> None:
    stream = Stream(kafka, f"submit-{topic}")
    stream.write()
    with machines.job(tmp_path / "job", kafka, stream.topic, {}) as job:
        settings = yaml.safe_load(job.config.read_text())
        del settings["spark"]
        job.config.write_text(yaml.safe_dump(settings))
        (tmp_path / "environment").symlink_to(machines.installed)
        properties = tmp_path / "spark.properties"
        conf = machines.conf(PYTHON) | {"spark.driver.memory": "1g"}
        properties.write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
        properties.chmod(0o600)
        command = [str(machines.spark / "bin" / "spark-submit"), "--master", machines.cluster.url]
        command += ["--properties-file", str(properties), "--archives", f"{machines.archive}#environment"]
        command += ["--jars", f"{delta_classpath()}:{s3_classpath()}".replace(os.pathsep, ","), str(SUBMIT)]
        job.start_by(command, cwd=tmp_path)
        stream.await_recorded_once(job)
        assert machines.cluster.status()["activeapps"][0]["name"] == "parallax"
        driver = until(lambda: python_of(job.process), "the driver's Python")
        job.process.kill()
        until(lambda: not driver.is_running() or driver.status() == psutil.STATUS_ZOMBIE, "it to end")


def python_of(submit: psutil.Popen) -> psutil.Process | None:
    for child in submit.children():
        with contextlib.suppress(psutil.Error):  # it may be ending
            if str(SUBMIT) in child.cmdline():
                return child
    return None


def checked(machines: Machines, kafka: Cluster, folder: Path, conf: dict[str, str], **storage: str) -> tuple[str, str]:
    """What ``parallax check`` says of Spark: the result, and why."""
    job = machines.job(folder, kafka, ".*", conf)
    settings = yaml.safe_load(job.config.read_text())
    settings["storage"] |= storage
    job.config.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "parallax.cli", "check", "-c", str(job.config), "--format", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    ((result, text),) = [(e["result"], e["text"]) for e in json.loads(ended.stdout) if e["about"] == "spark"]
    assert "\n" not in text
    return result, text


def test_check_says_in_one_line_what_the_workers_can_do_or_lack(
    kafka: Cluster, machines: Machines, tmp_path: Path
) -> None:
    result, said = checked(machines, kafka, tmp_path / "fine", machines.conf())
    assert result == "ok", said
    assert "can do what is needed; 4 tasks run at a time" in said
    other = machines.folder / "other"
    shutil.copytree(machines.installed, other, copy_function=os.link, symlinks=True)
    module = next(other.glob("lib/python3*/site-packages/parallax/model.py"))
    text = module.read_text()
    module.unlink()
    module.write_text(f"{text}\n# another release\n")
    result, said = checked(machines, kafka, tmp_path / "unlike", machines.conf(other / "bin" / "python"))
    assert result == "wrong", said
    assert "this worker has Parallax" in said
    shutil.rmtree(module.parent)
    result, said = checked(machines, kafka, tmp_path / "lacking", machines.conf(other / "bin" / "python"))
    assert result == "wrong", said
    assert "the Python of a worker lacks parallax" in said
    result, said = checked(machines, kafka, tmp_path / "nowhere", machines.conf("/nowhere/python"))
    assert result == "wrong", said
    assert "there is no /nowhere/python" in said
    mine = str(tmp_path / "mine")
    result, said = checked(machines, kafka, tmp_path / "closed", machines.conf(), path=mine)
    assert result == "wrong", said
    assert f"storage.path: {mine}" in said
