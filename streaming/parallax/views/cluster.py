"""Settings and checks for a job whose Spark tasks run on a cluster: what executors get, and what workers must have.

A Spark task of the job reads a broker and writes to the storage. So a worker needs Parallax itself, of the same release
as the driver. It needs the storage, and the files that the connection to Kafka names. It needs none of the driver's
folders.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from parallax.config import Settings, SparkSettings
from parallax.errors import PassingError, SetupError, one_line
from parallax.release import VARIABLE, release, said_in
from parallax.replica.options import files_of
from parallax.stores import is_remote, rust_path
from parallax.views.filesystem import filesystem

PYTHON = "spark.pyspark.python"
"""Spark's option for the Python of the workers."""

_DEADLINE_S = 300.0
"""How long executors may take until their first task has run; they may have an environment to unpack."""

_CONNECT_S = 5.0

_GROUP = "parallax-workers"


def is_cluster(master: str) -> bool:
    """Whether Spark tasks run in other processes than the driver.

    Args:
        master: the setting ``spark.master``.
    """
    return not master.startswith("local") or master.startswith("local-cluster")


class MasterAwayError(SetupError, PassingError):
    """No Spark master answers at the address that ``spark.master`` gives."""


def check_master(master: str) -> None:
    """Check that the master of the Spark cluster can be reached; only for ``spark://`` addresses.

    Without this check, Spark would try for a minute, and then report another error.

    Args:
        master: the setting ``spark.master``; it may name several masters.

    Raises:
        SetupError: none of the named masters can be reached.
    """
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), _CONNECT_S):
                return
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or one_line(error)
    raise MasterAwayError(f"spark.master: {master} cannot be connected to ({reason}); start it, or correct its address")


def cluster_conf(settings: SparkSettings) -> dict[str, str]:
    """The Spark options that a job on a cluster needs in addition to those of a local job, value by name.

    The setting ``spark.conf`` takes precedence over them.

    Args:
        settings: the settings ``spark``.
    """
    conf = {"spark.executorEnv." + VARIABLE: release()}
    if settings.master.startswith(("yarn", "k8s")):
        conf["spark.authenticate"] = "true"  # these hand the secret out by themselves
    if settings.conf.get("spark.authenticate") == "true" or "spark.authenticate" in conf:
        # Kafka's password and the key of all hashes are in the tasks.
        conf["spark.network.crypto.enabled"] = "true"
    return conf


@lru_cache(maxsize=1)
def home_of_planners(python: str) -> str | None:
    """Make a folder for the JVM to start in, so that a relative path of Python works on the driver too.

    Spark starts the processes that plan a source on the driver, by the same path as Python on the workers. A relative
    path is in an archive that is unpacked on the workers only. So the folder has a script at this path, which runs the
    driver's Python.

    Args:
        python: ``spark.pyspark.python``, the path of the workers' Python.

    Returns:
        The folder; None if the path is absolute, or is only a name that is looked up.
    """
    if "/" not in python or python.startswith("/"):
        return None
    folder = Path(tempfile.mkdtemp(prefix="parallax-driver-"))
    script = folder / python
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return str(folder)


def check_workers(spark: Any, settings: Settings, deadline_s: float = _DEADLINE_S) -> str:
    """Run a Spark task on each worker of the cluster that tries what the job will need there.

    Args:
        spark: a Spark session on the cluster.
        settings: the job's settings.
        deadline_s: how many seconds the check may take.

    Returns:
        One sentence that names the workers that have answered.

    Raises:
        SetupError: no worker answers, or one lacks something. The text is one line that says what to do.
    """
    storage = settings.storage.path
    files = filesystem(rust_path(storage))
    mark = f"workers-{uuid.uuid4().hex}"
    if not is_remote(storage):
        Path(storage).mkdir(parents=True, exist_ok=True)
    with files.open_output_stream(mark) as out:
        out.write(release().encode())
    try:
        answers = _asked(spark, storage, mark, files_of(settings.kafka), deadline_s)
    finally:
        for name in (mark, f"{mark}-back"):
            with suppress(OSError):
                files.delete_file(name)
    lacking = [answer for answer in answers if isinstance(answer, str)]
    if lacking:
        raise SetupError(lacking[0])
    hosts = sorted({answer[0] for answer in answers})
    return f"{', '.join(hosts)} can do what is needed; {spark.sparkContext.defaultParallelism} tasks run at a time"


def _asked(spark: Any, storage: str, mark: str, names: Mapping[str, str], deadline_s: float) -> Sequence[Any]:
    """The answers of tasks on the workers: ``(host,)``, or one line that says what the worker lacks."""
    context = spark.sparkContext
    found: list[Any] = []

    def ask() -> None:
        context.setJobGroup(_GROUP, "what the workers can do", interruptOnCancel=True)
        try:
            tasks = max(2, context.defaultParallelism)
            found.extend(context.parallelize(range(tasks), tasks).mapPartitions(_task(storage, mark, names)).collect())
        except Exception as error:  # noqa: BLE001 - it is said, whatever it is
            found.append(why(error))

    thread = threading.Thread(target=ask, name="workers", daemon=True)
    thread.start()
    thread.join(deadline_s)
    if thread.is_alive():
        context.cancelJobGroup(_GROUP)
        raise SetupError(
            f"spark.master: no worker of {context.master} has run a task within {deadline_s:.0f} s; start workers, or "
            "ask for less (spark.executor.memory, spark.executor.cores under spark.conf)"
        )
    return found


def _task(storage: str, mark: str, names: Mapping[str, str]) -> Any:
    # A function within a function travels by value: where there is no Parallax it can say so.
    def run(_: Any) -> Any:
        from parallax.views.cluster import what_is_wrong_here

        yield what_is_wrong_here(storage, mark, names)

    return run


def what_is_wrong_here(storage: str, mark: str, names: Mapping[str, str]) -> Any:
    """What the worker that this runs on lacks for the job.

    Args:
        storage: ``storage.path``.
        mark: path of a file that the driver has written into the storage.
        names: the path of each file that Kafka's options name, by option.

    Returns:
        One line that says what is lacking. If nothing is, a tuple with the worker's host name.
    """
    host = socket.gethostname()
    for option, path in names.items():
        if not os.access(path, os.R_OK):
            return f"{option}: {path} cannot be read on the worker {host}; put it there, readable by its user"
    files = filesystem(rust_path(storage))
    try:
        with files.open_input_file(mark) as source:
            source.read()
    except OSError as error:
        problem = "give a URI, or a folder that all workers share" if not is_remote(storage) else one_line(error)
        return f"storage.path: {storage} of the driver is not there on the worker {host}; {problem}"
    try:
        with files.open_output_stream(f"{mark}-back") as out:
            out.write(mark.encode())
    except OSError as error:
        return f"storage.path: {storage} cannot be written on the worker {host} ({one_line(error)})"
    return (host,)


_LACKS = re.compile(r"No module named '?([\w.]+)")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')


def why(error: Exception | str) -> str:
    """Why a Spark task failed on a worker, as one line that names the option to correct.

    Args:
        error: the failure of the Spark task.
    """
    text = str(error)
    if (said := said_in(text)) is not None:
        return f"{PYTHON}: {said}"
    if (program := _NO_PYTHON.search(text)) is not None:
        return f"{PYTHON}: there is no {program[1]} on a worker; name its Python there, under spark.conf"
    if (lacks := _LACKS.search(text)) is not None:
        return f"{PYTHON}: the Python of a worker lacks {lacks[1]}; install Parallax there, or ship it (spark.archives)"
    if "PYTHON_VERSION_MISMATCH" in text:
        return f"{PYTHON}: {one_line(text.split('PYTHON_VERSION_MISMATCH')[1])[:200]}"
    return f"spark.master: a task of the workers failed ({one_line(text)[:300]})"


__all__ = [
    "PYTHON",
    "check_master",
    "check_workers",
    "cluster_conf",
    "home_of_planners",
    "is_cluster",
    "what_is_wrong_here",
    "why",
]
