"""Programs of Kafka's own Java clients as processes: their jars, and how one is started, stopped and killed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from parallax.jars import class_path, resolved
from parallax.java import KAFKA_NEEDS, find_java
from parallax.lab.watchdog import Watchdog

VERSION = "4.3.0"
"""Of Streams, Connect and MirrorMaker 2. It need not be the brokers' version (KIP-35)."""

_STOP_S = 60.0

_MODULE = f"""\
<ivy-module version="2.0">
  <info organisation="parallax" module="clients"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka-streams" rev="{VERSION}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="connect-runtime" rev="{VERSION}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="connect-file" rev="{VERSION}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="connect-mirror" rev="{VERSION}" conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default" transitive="false"/>
  </dependencies>
</ivy-module>
"""


def client_jars(progress: Callable[[str], None] | None = None) -> Path:
    """Give the folder of the jars of Streams, Connect and MirrorMaker 2, resolving them where the cache lacks them.

    Raises:
        SetupError: no JDK, or the jars could not be resolved.
    """
    return resolved(f"clients-{VERSION}", f"Kafka's clients {VERSION}", _MODULE, progress)


class Client:
    """One program, which may be started again after it was stopped or killed. It dies with this process."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        """Say what is to run.

        Args:
            name: what reports call it.
            command: what follows the class path on Java's command line.
            log: takes what it prints, of all its lives.
        """
        self.name = name
        self.log = log
        self._command = command
        self._process: psutil.Popen | None = None
        self._watchdog = Watchdog()

    def start(self) -> None:
        """Start it; returns at once."""
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
        flags.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        java = find_java(KAFKA_NEEDS).path
        with self.log.open("ab") as log:
            self._process = psutil.Popen(
                [java, *flags, "-cp", class_path(client_jars()), *self._command],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog.guard([self._process.pid])

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order (SIGTERM); kill it where it takes longer than a minute."""
        self._end(signal.SIGTERM)

    def _end(self, by: signal.Signals) -> None:
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(by)
        try:
            self._process.wait(_STOP_S)
        except psutil.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_S)

    def close(self) -> None:
        """Kill it for good."""
        self.kill()
        self._watchdog.close()

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-2000:] if self.log.exists() else ""
