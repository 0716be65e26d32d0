"""The container image: built as deploy/image says, and run as a user that no file in it knows."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from tests.e2e.job_process import JobProcess, await_exactly

ROOT = Path(__file__).parents[2]
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
GRACE_S = 60
"""``terminationGracePeriodSeconds`` of the chart."""
SOMEBODY = 123_456

pytestmark = [pytest.mark.release, pytest.mark.alone, pytest.mark.timeout(3000)]


def ran(*command: str | Path) -> str:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    options = f"--isolation chroot -v {AUTHORITIES}:/run/ca.crt:ro --build-arg PIP_CERT=/run/ca.crt"
    subprocess.run(
        [ROOT / "deploy" / "image" / "build.sh", "parallax-tested"],
        env=os.environ | {"BUILDAH_OPTIONS": options},
        check=True,
    )
    made = ran("buildah", "from", "localhost/parallax-tested")
    yield made
    ran("buildah", "rm", made)


def test_the_image_finds_a_divergence_as_a_user_that_no_file_knows_and_stops_in_its_grace(
    container: str, make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = make_cluster()
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    with JobProcess(tmp_path / "job", cluster.bootstrap_servers, ".*frozen") as job:
        (tmp_path / "job").chmod(0o777)
        shared = f"{tmp_path}:{tmp_path}"
        run = ["buildah", "run", "--isolation", "chroot", "--user", f"{SOMEBODY}:0", "-v", shared, container, "--"]
        job.start_by([*run, "entrypoint"])
        scenario = SCENARIOS["frozen"].run(cluster, topic_prefix="image.", await_observed=job.await_observed)
        await_exactly(job, scenario)
        (inside,) = (one for one in psutil.process_iter(["uids", "cmdline"]) if is_the_job(one))
        asked = time.monotonic()
        inside.send_signal(signal.SIGTERM)
        inside.wait(GRACE_S)
        assert time.monotonic() - asked < GRACE_S
    log = job.log.read_text()
    assert "Traceback" not in log


def is_the_job(process: psutil.Process) -> bool:
    command = process.info["cmdline"] or []
    return process.info["uids"].real == SOMEBODY and "run" in command and any(c.endswith("/parallax") for c in command)
