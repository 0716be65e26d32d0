"""Spark's own cluster on this machine: a master and workers as processes of another user, of another environment.

What the workers have is what a machine of their own would have: Spark, a JDK, a user, a home. They have no checkout and
no virtual environment; Python comes to them as an archive, and the folders of the driver are closed to them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Self

import psutil
from packaging.requirements import Requirement

from parallax.jars import pyspark_jars
from parallax.java import find_java
from parallax.lab.ports import free_ports
from parallax.lab.waiting import until
from parallax.lab.watchdog import Watchdog

PYTHON = "./environment/bin/python"
"""Where the workers' Python is once `packed_environment` is shipped as ``archive#environment``."""

_LAUNCHER = """\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/../lib" exec "$here/python{version}" "$@"
"""
"""The interpreter may be built to look for its library where it was installed, which the workers cannot read."""


def packed_environment(folder: Path) -> Path:
    """An archive with this Python, Parallax and what it needs, but Spark's jars; what conda-pack would make.

    Args:
        folder: to make it in.

    Returns:
        A ``.tar.gz``, to be unpacked anywhere.
    """
    root, version = folder / "environment", sysconfig.get_python_version()
    library = root / "lib" / f"python{version}"
    packages = library / "site-packages"
    (root / "bin").mkdir(parents=True)
    interpreter = Path(sys.executable).resolve()
    shutil.copy2(interpreter, root / "bin" / f"python{version}")
    launcher = root / "bin" / "python"
    launcher.write_text(_LAUNCHER.format(version=version), encoding="ascii")
    launcher.chmod(0o755)
    unwanted = shutil.ignore_patterns("site-packages", "test", "idlelib", "ensurepip", "config-*")
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=unwanted, copy_function=_linked, symlinks=True)
    for shared in Path(sysconfig.get_config_var("LIBDIR")).glob("libpython3*.so.*"):
        shutil.copy2(shared, root / "lib" / shared.name)
    packages.mkdir()
    for name in sorted(_needed("kafka-parallax")):
        found = distribution(name)
        for file in found.files or ():
            if file.parts[:2] != ("pyspark", "jars") and not {"..", "tests"} & set(file.parts):
                _copy(Path(str(found.locate_file(file))), packages / file)
    import parallax

    shutil.copytree(Path(parallax.__file__).parent, packages / "parallax")
    archive = folder / "environment.tar.gz"  # Spark takes the x bits from the files of a plain .tar, or of a .zip
    with tarfile.open(archive, "w:gz", compresslevel=0) as tar:
        for entry in sorted(root.iterdir()):  # Spark refuses an entry "./"
            tar.add(entry, entry.name)
    shutil.rmtree(root)
    return archive


def _needed(name: str) -> set[str]:
    """A distribution's requirements, and theirs; without itself."""
    needed, left = set[str](), [name]
    while left:
        for text in distribution(left.pop()).requires or ():
            requirement = Requirement(text)
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if wanted and requirement.name not in needed:
                needed.add(requirement.name)
                left.append(requirement.name)
    return needed


def _linked(source: str, target: str) -> None:
    _copy(Path(source), Path(target))


def _copy(source: Path, target: Path) -> None:
    if source.is_file() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.hardlink_to(source)
        except OSError:  # on another file system
            shutil.copy2(source, target)


def spark_installation(folder: Path) -> Path:
    """A SPARK_HOME of the workers' own: what they have installed of Spark, readable by everybody."""
    package, home = pyspark_jars().parent, folder / "spark"
    for part in ("jars", "bin", "python"):
        shutil.copytree(package / part, home / part, copy_function=_linked)
    return home


def another_user() -> tuple[str, list[str]]:
    """Another user's name, and the command that starts a program as that user; this one's where only root may do so."""
    if os.geteuid():
        return pwd.getpwuid(os.geteuid()).pw_name, []
    nobody = pwd.getpwnam("nobody")
    return "nobody", ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]


@dataclass
class SparkCluster:
    """A master and its workers; stop them by leaving the block.

    Attributes:
        folder: for all that they write; must be reachable by `another_user`.
        home: their SPARK_HOME.
        workers: how many.
        cores: of each worker.
        memory_mb: of each worker.
        environment: variables that the workers have beside the few of a machine.
        same_user: run them as the user of this process.
    """

    folder: Path
    home: Path
    workers: int = 2
    cores: int = 2
    memory_mb: int = 1024
    environment: Mapping[str, str] = field(default_factory=dict)
    same_user: bool = False

    def __post_init__(self) -> None:
        self.secret = secrets.token_hex(16)
        self.user, self._as_user = ("", []) if self.same_user else another_user()
        self.port, self._page = free_ports(2)
        self.processes: dict[str, psutil.Popen] = {}
        self._watchdog = Watchdog()

    @property
    def url(self) -> str:
        """For ``spark.master``."""
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        for name in ("conf", "home", "work"):
            (self.folder / name).mkdir(parents=True)
        defaults = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.network.crypto.enabled": "true",
            "spark.worker.cleanup.enabled": "false",
        }
        conf = self.folder / "conf" / "spark-defaults.conf"
        conf.write_text("".join(f"{name} {value}\n" for name, value in defaults.items()), encoding="ascii")
        conf.chmod(0o600)
        if self._as_user:
            for path in (self.folder, *self.folder.rglob("*")):
                shutil.chown(path, self.user)
        try:
            self._start(
                "master",
                "org.apache.spark.deploy.master.Master",
                "--port",
                str(self.port),
                "--webui-port",
                str(self._page),
            )
            for number in range(1, self.workers + 1):
                self.start_worker(number)
            until(lambda: self.alive() == self.workers, "the workers to be registered")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_worker(self, number: int) -> None:
        """Start a worker, again where it was killed."""
        limits = ["--cores", str(self.cores), "--memory", f"{self.memory_mb}m"]
        folder = ["--work-dir", str(self.folder / "work" / f"worker-{number}"), "--webui-port", "0"]
        self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *limits, *folder, self.url)

    def _start(self, name: str, main: str, *arguments: str) -> None:
        java = find_java().path
        environment = {
            "PATH": f"{java.parent}:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "JAVA_HOME": str(java.resolve().parent.parent),
            "SPARK_HOME": str(self.home),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "LANG": "C.UTF-8",
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            **self.environment,
        }
        command = [str(self.home / "bin" / "spark-class"), main, "--host", "127.0.0.1", *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = psutil.Popen(
                [*self._as_user, *command],
                env=environment,
                cwd=self.folder / "work",
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog.guard([process.pid for process in self.processes.values()])

    def status(self) -> dict[str, Any]:
        """What the master tells of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as answer:
            document: dict[str, Any] = json.load(answer)
        return document

    def alive(self) -> int:
        """How many workers the master has."""
        with contextlib.suppress(OSError, ValueError):
            return sum(worker["state"] == "ALIVE" for worker in self.status()["workers"])
        return 0

    def kill_worker(self, number: int) -> None:
        """Kill a worker and all that runs on it, as a power cut would (SIGKILL)."""
        worker = self.processes[f"worker-{number}"]
        for victim in [worker, *worker.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        worker.wait(30)

    def stop(self) -> None:
        """End everything."""
        for process in reversed(self.processes.values()):
            with contextlib.suppress(psutil.NoSuchProcess):
                for victim in [*process.children(recursive=True), process]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        victim.kill()
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(30)

    def executors(self) -> Iterator[psutil.Process]:
        """The executors' JVMs."""
        for name, process in self.processes.items():
            if name != "master":
                with contextlib.suppress(psutil.NoSuchProcess):
                    yield from (child for child in process.children() if "CoarseGrained" in " ".join(child.cmdline()))

    def logs(self) -> str:
        """What executors have printed."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("work/*/*/*/std*")))
