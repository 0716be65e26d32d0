"""A job of this program goes on from what a released one left: its tables, findings and checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.waiting import until
from parallax.model import FindingStatus
from tests.archives import unpack
from tests.e2e.job_process import JobProcess, Stream, await_exactly, standing

ARCHIVES = sorted((Path(__file__).parents[1] / "stored").glob("*.tar.xz"))
QUERIES = ("read_committed", "read_uncommitted", "progress", "compare")

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]


def committed(storage: Path) -> dict[str, int]:
    """The last micro-batch that each query has committed at its newest checkpoint."""
    found = {}
    for query in QUERIES:
        folders = [file for file in (storage / "checkpoints" / query).rglob("commits/*") if file.name.isdigit()]
        found[query] = max(int(file.name) for file in folders)
    return found


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda file: file.name.removesuffix(".tar.xz"))
def test_a_job_goes_on_from_the_checkpoints_and_findings_of_a_release(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path)
    storage = tmp_path / "storage"
    before, known = committed(storage), {finding.finding_id for finding in standing(str(storage))}
    assert known, "the release left findings"
    lab = Cluster()
    lab.cluster_id = json.loads((tmp_path / "told.json").read_text())["cluster"]
    with lab, JobProcess(tmp_path / "job", lab.bootstrap_servers, ".*", storage={"path": str(storage)}) as job:
        job.start()
        stream = Stream(lab, "written-after-the-upgrade")
        stream.write()
        stream.await_recorded_once(job)
        result = SCENARIOS["frozen"].run(lab, topic_prefix="upgraded.", await_observed=job.await_observed)
        await_exactly(job, result)

        def are_over() -> bool:
            now = {one.finding_id: one.status for one in standing(job.storage)}
            return all(now.get(name) is FindingStatus.RESOLVED for name in known)

        until(are_over, "the findings on topics that are gone to be over")
        now = committed(storage)
        assert all(now[query] > before[query] for query in QUERIES), (before, now)
        assert "set aside" not in job.log.read_text()
        assert job.stop() == 0
