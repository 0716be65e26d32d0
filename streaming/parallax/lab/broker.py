"""One Kafka broker as a process: start, stop, kill, pause, resume."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from parallax.jars import class_path
from parallax.lab.errors import LabError
from parallax.lab.waiting import until

_JVM = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)

_STOPS_S = 120.0

_STARTED: list[psutil.Popen] = []
"""Every process that was started here.

A broker may outlive its ``Broker``, as in the lab of the command line. A Popen that is collected while its process runs
warns of a leak.
"""


@dataclass(frozen=True)
class ProxiedListener:
    """A second listener of a broker, which clients reach through a proxy.

    Attributes:
        port: the port on which the broker listens.
        advertised_port: the port that clients of this listener get from metadata; the proxy must listen there.
    """

    port: int
    advertised_port: int


@dataclass
class Broker:
    """One broker of the lab, whether its process runs or not.

    Attributes:
        id: the broker's id.
        port: the port for clients.
        controller_port: the port for other controllers.
        folder: holds its ``server.properties``, ``data`` and ``broker.log``.
        proxied: a second listener for clients; None without one.
        process: the process that was started last; None if none was.
    """

    id: int
    port: int
    controller_port: int
    folder: Path
    proxied: ProxiedListener | None = None
    process: psutil.Process | None = field(default=None, compare=False)
    controller: bool = True
    """Whether it votes in the controllers' quorum; a broker that joined a running cluster does not."""

    @property
    def address(self) -> str:
        """Where clients reach this broker, as ``host:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The file with what the broker writes to its standard output and error, over all its starts."""
        return self.folder / "broker.log"

    @property
    def running(self) -> bool:
        """Whether the broker's process exists, paused or not."""
        if self.process is None:
            return False
        try:
            return self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    @property
    def paused(self) -> bool:
        """Whether the broker's process is frozen (SIGSTOP)."""
        return self.process is not None and self.running and self.process.status() == psutil.STATUS_STOPPED

    def start(self, java: Path, jars: Path, options: Sequence[str] = ()) -> None:
        """Start the broker's process; returns before the broker answers.

        Args:
            java: path of the ``java`` program.
            jars: the folder of Kafka's jars.
            options: more options of the JVM.

        Raises:
            LabError: the broker runs already.
        """
        if self.running:
            raise LabError(f"broker {self.id} runs already; stop it before starting it")
        command: list[str | Path] = [java, *_JVM, *options, "-cp", class_path(jars), "kafka.Kafka", "server.properties"]
        with self.log.open("ab") as log:
            process = psutil.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is not for the brokers
                env={
                    name: value for name, value in os.environ.items() if name not in ("KAFKA_OPTS", "JDK_JAVA_OPTIONS")
                },
            )
        _STARTED.append(process)
        self.process = process

    def stop(self) -> None:
        """Send SIGTERM to the broker and wait; after two minutes, kill it.

        On SIGTERM, Kafka first gives up its leaderships. It then writes what proves that its logs are whole.
        """
        if not self.running or self.process is None:
            return
        self.process.terminate()
        try:
            until(lambda: not self.running, f"broker {self.id} to stop", timeout=_STOPS_S)
        except LabError:
            self.process.kill()
        self._reap()

    def kill(self) -> None:
        """Send SIGKILL to the broker and wait until its process has ended."""
        if self.running and self.process is not None:
            self.process.kill()
        self._reap()

    def _reap(self) -> None:
        """Wait for the end, and collect the exit status where the process is a child of this one."""
        until(lambda: not self.running, f"broker {self.id} to end")
        if isinstance(self.process, psutil.Popen):
            self.process.wait(10)

    def pause(self) -> None:
        """Freeze the broker's process (SIGSTOP); returns once every thread has stopped.

        Its connections stay open, and it answers nothing.
        """
        process = self._living()
        process.suspend()
        threads = Path(f"/proc/{process.pid}/task")
        if threads.is_dir():
            until(lambda: all(_is_stopped(thread) for thread in threads.iterdir()), f"broker {self.id} to stop")

    def resume(self) -> None:
        """Let the broker's frozen process go on (SIGCONT)."""
        self._living().resume()

    def _living(self) -> psutil.Process:
        if not self.running or self.process is None:
            raise LabError(f"broker {self.id} does not run; start it first")
        return self.process

    def last_words(self, lines: int = 3) -> str:
        """The last lines of the broker's log, joined into one line for an error text.

        Args:
            lines: how many lines.
        """
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "no log"
        return " | ".join(line.strip() for line in text.splitlines()[-lines:]) or "nothing in its log"


def _is_stopped(thread: Path) -> bool:
    """Whether a thread runs nothing: proc(5), the third field of its ``stat``, behind the name in brackets."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "TtZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
