"""A real Prometheus (Debian's package) that scrapes a job, as a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import yaml

from parallax.lab.ports import free_ports
from parallax.lab.waiting import until
from parallax.lab.watchdog import Watchdog

INSTALLED = shutil.which("prometheus") is not None
"""A machine with nothing but Python and a JDK has none; continuous integration installs it (.ci/run)."""

_STEP_S = 2


class Prometheus:
    """Scrapes every two seconds whatever ports it is told of; forgets everything in the end."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.log = folder / "prometheus.log"
        self._targets = folder / "targets.json"
        self._targets.write_text("[]")
        self.began = time.time()
        scrape = {
            "job_name": "parallax",
            "file_sd_configs": [{"files": [str(self._targets)], "refresh_interval": "1s"}],
        }
        document = {"global": {"scrape_interval": f"{_STEP_S}s"}, "scrape_configs": [scrape]}
        config = folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(document))
        self._command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        self._watchdog = Watchdog()

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = psutil.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        self._watchdog.guard([self._process.pid])
        until(self._is_ready, f"Prometheus to be ready ({self.log})", timeout=60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._watchdog.guard(())
        self._watchdog.close()

    def scrape(self, port: int) -> None:
        """Scrape a port of this machine from now on, and nothing else."""
        self._targets.write_text(json.dumps([{"targets": [f"127.0.0.1:{port}"]}]))

    def ever(self, query: str) -> list[dict[str, Any]]:
        """The series that a query has had since this Prometheus began, with their values.

        Raises:
            AssertionError: the query is wrong, in Prometheus' words.
        """
        now = time.time()
        step = max(_STEP_S, (now - self.began) / 10_000)
        asked = urllib.parse.urlencode({"query": query, "start": self.began, "end": now, "step": step})
        try:
            answer = self._get(f"/api/v1/query_range?{asked}")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        found: list[dict[str, Any]] = json.loads(answer)["data"]["result"]
        return found

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()[-2000:]
        try:
            return bool(self._get("/-/ready"))
        except OSError:
            return False

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return str(answer.read().decode())


def awaited(prometheus: Prometheus, query: str, which: Callable[[list[dict[str, Any]]], bool] = bool) -> None:
    """Wait until a query has had a series."""
    until(lambda: which(prometheus.ever(query)), f"{query} to have data")
