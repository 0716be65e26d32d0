"""In which order the tests run, and which of them share a worker when there are several."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.testing
from hypothesis import HealthCheck, settings
from typer.main import get_command

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

# A machine that is busy with brokers says nothing about the code under test, and a run draws what the one before drew:
# whoever has changed nothing meets no new counterexample. `make test-all` searches for one.
settings.register_profile(
    "patient", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("searching", settings.get_profile("patient"), derandomize=False)
settings.load_profile("patient")

# Hundreds of tests give one command line to the same commands: these are made once, which takes some 50 ms.
typer.testing._get_command = functools.cache(get_command)  # type: ignore[attr-defined]

HERE = Path(__file__).parent
END_TO_END = HERE / "e2e"
_SLOW = "tests/e2e/"

PLAYED_ONCE = (
    "test_job",
    "test_findings",
    "test_lab_scenarios",
    "test_audit",
    "test_alert_chain",
    "test_repair_run",
    "test_direction",
)
"""Modules that look at what one play has left (fixture ``played``), on one worker. The job of the play comes first,
what repairs a divergence near the end, and what hurts the brokers for good last."""

ONE_SPARK = ("test_views", "test_source", "test_compare", "test_views_upkeep", "test_recording", "test_bytes")
"""Modules whose queries run in the tests' process (fixture ``spark``), on one worker, which starts one JVM."""

FAULTY = ("test_faults_brokers", "test_faults_storage")
"""Modules with one job whose brokers and whose disk are hurt (fixture ``faulty``), on one worker."""

HURT = ("test_cluster_events", "test_lab_admin")
"""Modules whose tests stop brokers and leave all of them running (fixture ``hurt``), on one worker."""

LEFT_IN_PEACE = (
    "test_replica",
    "test_lab",
    "test_guard",
    "test_repair",
    "test_repair_copy",
    "test_wheel",
    "test_hanging_transactions",
)
"""Modules with some quick tests on the brokers that all share (fixture ``kafka``), on one worker."""

COMPUTING = ("test_s3_server",)
"""Modules of ``e2e/`` that wait for neither brokers nor Spark, but for the processor: their server may have to be built
first, minutes of its time."""

TOGETHER = (PLAYED_ONCE, ONE_SPARK, FAULTY, HURT, LEFT_IN_PEACE)

LONGEST_FIRST = (
    "test_soak",
    *PLAYED_ONCE,
    *HURT,
    *ONE_SPARK,
    "test_faults_processes",
    *FAULTY,
    *LEFT_IN_PEACE,
    "test_cleaner_differential",
    "test_replica_security",
    *COMPUTING,
)
"""Modules of ``e2e/`` in the order in which workers take them; what is not named comes after these."""

ONE_BY_ONE = ("tests/simulation/test_simulation.py", "tests/simulation/test_spared.py")
"""Seconds of pure processor time each, and nothing shared: whichever worker is free takes the next."""

PLAYING = 2
"""So many workers take end-to-end tests, which wait for brokers and for Spark half of the time. Those beyond take the
others alone, and only the time that these leave."""


FIRST_PORT, LAST_PORT = 10_000, 31_999
"""Where clusters take their ports from; below the ephemeral range."""


def is_beyond(number: int, count: int) -> bool:
    """Whether a worker takes no end-to-end tests; one that replaces a crashed worker may take all."""
    return PLAYING <= number < count


def pytest_configure(config: pytest.Config) -> None:
    """Give each worker ports of its own for its clusters, also where one began again after a crash."""
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    count, number = worker["workercount"], int(worker["workerid"].removeprefix("gw"))
    if is_beyond(number, count):
        os.nice(5)
    if "PARALLAX_PORTS" in os.environ:
        return
    size = (LAST_PORT + 1 - FIRST_PORT) // count
    first = FIRST_PORT + number % count * size
    os.environ["PARALLAX_PORTS"] = f"{first}-{first + size - 1}"


_DEBIAN = {
    "promtool": "prometheus",
    "amtool": "prometheus-alertmanager",
    "openssl": "openssl",
    "chromium": "chromium",
    "systemd-analyze": "systemd",
}
"""Programs that tests start, and the packages that have them."""


def pytest_report_header() -> list[str]:
    """Name the packages of Debian that are missing: tests of them are left out, or fail."""
    missing = [package for program, package in _DEBIAN.items() if shutil.which(program) is None]
    if not missing:
        return []
    return [f"missing, and tests by them are left out or fail: apt-get install {' '.join(missing)}"]


def scope(nodeid: str) -> str:
    """Whatever has the same scope runs on the same worker, one after the other: fixtures of a module are made once."""
    file, _, _ = nodeid.partition("::")
    if file.startswith(_SLOW) and Path(file).stem in COMPUTING:
        return Path(file).stem
    for together in TOGETHER:
        if file.startswith(_SLOW) and Path(file).stem in together:
            return f"{_SLOW}{together[0]}"
    return nodeid if file in ONE_BY_ONE else file


def _rank(path: Path) -> tuple[int, str]:
    return LONGEST_FIRST.index(path.stem) if path.stem in LONGEST_FIRST else len(LONGEST_FIRST), str(path)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the end-to-end tests in the order in which they are written; the others are shuffled.

    Those of a module share brokers and often a job, which have a past; one that is the same in each run lets a failure
    be repeated. One worker runs them after all others, which fail sooner. Several begin with them, the longest first:
    they mostly wait, and the others fill the time that is left.
    """
    slow = [item for item in items if END_TO_END in item.path.parents]
    quick = [item for item in items if END_TO_END not in item.path.parents]
    slow.sort(key=lambda item: (_rank(item.path), item.location[1] or 0, item.name))
    items[:] = slow + quick if hasattr(config, "workerinput") else quick + slow


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Workers take whole scopes, in the order of the collection; those beyond ``PLAYING`` leave out what plays."""
    from xdist.scheduler import LoadScopeScheduling

    class Scopes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

        def _assign_work_unit(self, node: WorkerController) -> None:
            if is_beyond(int(node.gateway.id.removeprefix("gw")), self.numnodes):
                quick = next((name for name in self.workqueue if not name.startswith(_SLOW)), None)
                if quick is None:
                    node.shutdown()
                    return
                self.workqueue.move_to_end(quick, last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return Scopes(config, log)
