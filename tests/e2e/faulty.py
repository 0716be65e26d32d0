"""One job whose brokers are reached through proxies and whose tables are on a disk of its own, to hurt either."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from parallax.lab.cluster import Cluster
from parallax.lab.ports import free_ports
from parallax.lab.scenarios import SCENARIOS, ScenarioResult
from tests.e2e.disk import Disk
from tests.e2e.job_process import JobProcess
from tests.e2e.proxy import Proxies


@dataclass(frozen=True)
class Faulty:
    """What can be hurt; topics ``hurt-*`` and ``stored-*`` are watched.

    Attributes:
        lab: the brokers, all up.
        proxies: by which alone the job reaches them.
        disk: which alone the job writes to.
        job: runs, and has a metrics port that stays the same.
    """

    lab: Cluster
    proxies: Proxies
    disk: Disk
    job: JobProcess
    _played: list[ScenarioResult] = field(default_factory=list)

    def diverged(self) -> ScenarioResult:
        """A topic that diverges for good, under the eyes of the job; it is played for whoever asks first."""
        if not self._played:
            scenario, seen = SCENARIOS["aborted-committed"], self.job.await_observed
            self._played.append(scenario.run(self.lab, topic_prefix="hurt-for-good-", await_observed=seen))
        return self._played[0]


@contextmanager
def faulty_job(folder: Path) -> Iterator[Faulty]:
    """Start all of it; before, the job is refused once, as its port is taken."""
    writers: list[JobProcess] = []
    disk = Disk(lambda: [p for job in writers for p in (job.process, *job.process.children(recursive=True))])
    with closing(disk), Cluster(proxied=True) as lab, Proxies(lab) as proxies:
        # The job comes back to its port: one that nobody else may be given meanwhile.
        with socket.create_server(("127.0.0.1", *free_ports(1))) as squatter:
            job = JobProcess(
                folder,
                proxies.bootstrap_servers,
                "(hurt|stored)-.*",
                read={"request_timeout_ms": 1500},
                storage={"path": str(disk.folder / "data")},
                supervisor={"restart_backoff_max_ms": 5000},
                findings={"recheck_interval_s": 5},
                alerting={"metrics_port": squatter.getsockname()[1]},
            )
            assert_refused(job)
        writers.append(job)
        with job:
            yield Faulty(lab, proxies, disk, job.start())


def assert_refused(job: JobProcess) -> None:
    """A start ends in one line: somebody listens on its port."""
    command = [sys.executable, "-m", "parallax.cli", "run", "-c", str(job.config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2
    (line,) = [line for line in ended.stderr.strip().splitlines() if not line.startswith("{")]
    assert line
    assert f"alerting.metrics_port: cannot listen on 127.0.0.1:{job.metrics_port}" in ended.stderr
