"""Makes the class-data archive of Spark's JVM by a short run of a job, so that later starts are quick.

A class-data archive holds loaded classes (JEP 350). A real job runs for some seconds, and its JVM writes the archive
when it ends. ``parallax fetch-jars`` does that once for each JDK and set of jars, in a process of its own, since a
Python process has only one JVM.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from parallax.config import Settings, SparkSettings, validate
from parallax.jars import Progress
from parallax.java import find_java
from parallax.views.archive import archive_file

_TOPIC = "rehearsal"
_DEADLINE_S = 600.0
_BATCHES = 3


def make_archive(progress: Progress) -> Path | None:
    """Make the class-data archive if it does not exist yet, which takes about half a minute.

    If it cannot be made, an empty file notes that, and Spark starts without an archive from then on.

    Args:
        progress: called with what is being done.

    Returns:
        Path of the archive; None if it cannot be made.

    Raises:
        SetupError: there is no JDK 17 or 21, or there are no jars.
    """
    file = archive_file(find_java())
    if not file.exists():
        _make(file, progress)
    return file if file.stat().st_size else None


def _make(file: Path, progress: Progress) -> None:
    progress("preparing Spark for quick starts, once (about a minute)")
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".rehearsal-", dir=file.parent) as work:
        made = Path(work) / "classes.jsa"
        command = [sys.executable, "-m", "parallax.rehearsal", str(made)]
        try:
            subprocess.run(command, check=True, timeout=_DEADLINE_S, capture_output=True)
        except subprocess.TimeoutExpired:
            progress(_without(f"it was not made within {_DEADLINE_S:.0f} s", file))
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or b"").decode(errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), str(error))
            progress(_without(last.strip()[:200], file))
        if not made.exists():
            made.touch()
        made.replace(file)


def _without(why: str, file: Path) -> str:
    return (
        f"each start of Spark takes some seconds more, without an archive of its classes ({why}); to have that tried "
        f"again, remove {file} and run parallax fetch-jars"
    )


def rehearse(made: Path) -> None:
    """Run a job on one real broker until each query has completed some micro-batches, then end the job's JVM.

    At its end the JVM writes an archive of the classes that it has loaded (class data sharing). Later jobs start faster
    with it.

    Args:
        made: the path of the archive.
    """
    from parallax.job import Job
    from parallax.lab.cluster import Cluster
    from parallax.lab.traffic import PlainProducer
    from parallax.lab.waiting import until

    with Cluster(brokers=1) as cluster, tempfile.TemporaryDirectory(prefix="parallax-rehearsal-") as storage:
        cluster.create_topic(_TOPIC, partitions=1, replicas=[1])
        producer = PlainProducer(cluster.bootstrap_servers)
        job = Job(_settings(cluster.bootstrap_servers, storage, made))
        job.start()
        try:
            from pyspark import SparkContext

            gateway = SparkContext._gateway  # noqa: SLF001 - the JVM must be waited for: it writes at its end

            def rehearsed() -> bool:
                producer.send(_TOPIC, "key", "value")
                seen = job.state.snapshot()
                return seen.heartbeat is not None and all(q.last_progress for q in seen.queries.values())

            until(rehearsed, "every query to make progress")
            for number in range(_BATCHES):
                offset = producer.send(_TOPIC, "key", str(number))
                until(lambda offset=offset: job.has_recorded(_TOPIC, 0, 1, offset), "the record")  # type: ignore[misc]
        finally:
            job.stop()
        _end_jvm(gateway)


def _end_jvm(gateway: object) -> None:
    gateway.shutdown()  # type: ignore[attr-defined]
    process: subprocess.Popen[bytes] = gateway.proc  # type: ignore[attr-defined]
    if process.stdin is not None:
        process.stdin.close()  # Spark's gateway server ends with its standard input
    process.wait(_DEADLINE_S)


def _settings(bootstrap_servers: str, storage: str, made: Path) -> Settings:
    return validate(
        {
            "kafka": {"bootstrap.servers": bootstrap_servers},
            "topics": {"include": [_TOPIC]},
            "storage": {"path": storage},
            "spark": {"driver_java_options": f"{SparkSettings().driver_java_options} -XX:ArchiveClassesAtExit={made}"},
            "alerting": {"metrics_host": "127.0.0.1", "metrics_port": 0},
        },
        where="rehearsal",
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    rehearse(Path(sys.argv[1]))
