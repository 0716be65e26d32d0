"""Each kind of finding is found by a job, planned, repaired and over, on each version for which that is promised.

In the end every replica leads in turn, and a plain consumer reads what is right of each.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from parallax.cli import app
from parallax.demo_repair import consumed
from parallax.kinds import KINDS
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import FindingStatus
from parallax.replica.client import ReplicaClient
from tests.e2e.damaged import RIGHT
from tests.e2e.diverging import BY_HAND, NOT_HAD, WAYS, WRITTEN_AGAIN, Way, cut, lose, miss
from tests.e2e.job_process import JobProcess
from tests.e2e.transactional import send_late, unverified_by
from tests.versions import REPAIRED

pytestmark = pytest.mark.timeout(900)

UNKNOWN_PRODUCER = 424_242
"""A producer id that no coordinator has given out."""
TOPICS = {way.topic for way in (*WAYS, BY_HAND, WRITTEN_AGAIN)}


@dataclass(frozen=True)
class Diverged:
    """Brokers of one version, the job that has found what differs on them, and settings of somebody who may repair."""

    lab: Cluster
    job: JobProcess
    client: ReplicaClient
    config: Path

    def reported(self, way: Way) -> set[str]:
        """The ids of the findings about a topic, once they are confirmed."""

        def found() -> set[str] | None:
            own = [one for one in self.job.findings() if one.topic == way.topic and one.is_open]
            ids = {one.finding_id for one in own}
            return ids if {(one.kind, one.broker) for one in own} == way.findings else None

        return until(found, f"{way.findings} of {way.topic} to be confirmed")

    def planned(self, *of: object) -> dict[str, Any]:
        """A plan; if it has steps, it is also written to `plan`."""
        return dict(self._repair("plan", *of, "-o", self.plan))

    @property
    def plan(self) -> Path:
        """The file of the last plan."""
        return self.config.with_suffix(".plan")

    def repaired(self, *of: object) -> list[dict[str, Any]]:
        """Plan a repair as soon as nothing is missing, and run it to its end; gives the steps of the plan."""
        planned: dict[str, Any] = {}

        def is_whole() -> bool:  # what was not compared while a broker was away is compared by the job's next audit
            planned.update(self.planned(*of))
            return not planned["missing"]

        until(is_whole, "a plan that lacks nothing", interval=2)
        over = self._repair("run", self.plan, "--yes")
        assert over["phase"] == "over", over
        return list(planned["steps"])

    def _repair(self, *words: object) -> Any:
        given = ["repair", *map(str, words), "-c", str(self.config), "--format", "json"]
        done = CliRunner().invoke(app, given)
        assert done.stdout.startswith("{"), done.output
        return json.loads(done.stdout)

    def visible(self, topic: str, broker: int) -> dict[str, str]:
        """The latest values that a replica shows."""
        return read_replica(self.client, broker, topic).visible

    def consumers_get(self, topic: str, right: dict[str, str]) -> None:
        """A plain consumer gets what is right of every replica, as each leads in turn."""
        for broker in sorted(self.client.metadata([topic])[topic].partitions[0].replicas, key=lambda one: one != 2):
            admin.elect_leaders(self.lab, topic, broker=broker)
            assert consumed(self.lab.bootstrap_servers, topic) == right, f"led by broker {broker}"


@pytest.fixture(scope="module", params=[pytest.param(one, marks=pytest.mark.release) for one in REPAIRED])
def diverged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Diverged]:
    folder = tmp_path_factory.mktemp("repaired")
    with (
        Cluster(request.param) as lab,
        JobProcess(folder, lab.bootstrap_servers, "|".join(sorted(TOPICS)), audit={"interval_s": 30}) as job,
    ):
        job.start()
        cut(lab, job.await_observed)
        miss(lab, job)
        lose(lab, job)
        config = folder / "repair.yaml"
        config.write_text(yaml.safe_dump({**yaml.safe_load(job.config.read_text()), "repair": {"mode": "on"}}))
        with closing(ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=10_000)) as client:
            yield Diverged(lab, job, client, config)


def test_every_kind_has_a_way_to_be_had_or_a_reason_why_it_has_none() -> None:
    had = {way.kind for way in (*WAYS, BY_HAND, WRITTEN_AGAIN)}
    assert had | NOT_HAD.keys() == KINDS.keys()
    assert not had & NOT_HAD.keys()


def words(steps: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(step["end"] if step["kind"] == "end_marker" else step["move"]["purpose"] for step in steps)


@pytest.mark.parametrize("way", WAYS, ids=[way.topic for way in WAYS])
def test_a_replica_that_is_wrong_is_found_repaired_and_shows_consumers_what_is_right(
    diverged: Diverged, way: Way
) -> None:
    topic = way.topic
    findings = diverged.reported(way)
    right = diverged.visible(topic, 1)
    wrong = diverged.visible(topic, 2)
    assert wrong != right, "what consumers get must depend on the repair"
    admin.set_topic_config(diverged.lab, topic, {"delete.retention.ms": "600000"})
    admin.elect_leaders(diverged.lab, topic, broker=2 if way.leads else 1)
    if way.leads:
        servers = diverged.lab.bootstrap_servers  # broker 1 may lead for some more milliseconds, in its own view
        until(lambda: consumed(servers, topic) == wrong, "consumers to be misled")
    steps = diverged.repaired("--topic", topic, "--partition", 0, *way.said)
    assert words(steps) == way.steps
    assert set(json.loads(diverged.plan.read_text())["findings"]) == findings
    diverged.consumers_get(topic, right)


def test_an_index_that_a_disk_lost_is_rebuilt_by_the_printed_steps(diverged: Diverged) -> None:
    topic, lab = BY_HAND.topic, diverged.lab
    (finding,) = diverged.reported(BY_HAND)
    right = diverged.visible(topic, 1)
    assert diverged.visible(topic, 2) == right | {"abort": "written"}
    plan = diverged.planned(finding)
    assert words(plan["steps"]) == ("drop", "copy"), "a copy is what a run makes"
    (step,) = plan["instead"]
    shown = CliRunner().invoke(app, ["repair", "plan", finding, "-c", str(diverged.config)])
    assert step["by_hand"] in shown.stdout
    config = str(diverged.config)
    check = [config if word == "CONFIG" else word for word in step["check"].splitlines()[0].split()[1:]]
    assert outcomes(check) == {1: "aborted", 2: "committed", 3: "aborted"}
    (folder,) = lab.brokers[2].folder.glob(f"**/{topic}-0")
    lab.stop_broker(2)
    environment = {**os.environ, "LOG_DIR": str(folder.parent)}
    subprocess.run(["bash", "-euc", step["by_hand"]], env=environment, check=True)
    lab.start_broker(2)
    lab.wait_isr(topic, {1, 2, 3})
    assert outcomes(check) == dict.fromkeys((1, 2, 3), "aborted")
    assert [file for file in folder.glob("*.txnindex") if file.stat().st_size], "the index is on the disk again"
    diverged.consumers_get(topic, right)


def outcomes(check: list[str]) -> dict[int, str]:
    """What the printed check shows of the record on each broker."""
    shown = CliRunner().invoke(app, [*check, "--format", "json"])
    assert shown.exit_code == 0, shown.output
    return {int(broker): one["read_committed"] for broker, one in json.loads(shown.stdout)["brokers"].items()}


def test_what_an_unclean_election_cut_off_is_written_again_and_no_copy_is_planned(diverged: Diverged) -> None:
    topic = WRITTEN_AGAIN.topic
    (finding,) = diverged.reported(WRITTEN_AGAIN)
    left = diverged.visible(topic, 2)
    assert ("k1" in left, diverged.visible(topic, 1)) == (False, left), "no replica has it any more"
    plan = diverged.planned(finding)
    assert (plan["steps"], "written once more" in " ".join(plan["missing"])) == ([], True), plan
    plain = PlainProducer(diverged.lab.bootstrap_servers)
    again = [plain.send(topic, key, value) for key, value in (left | {"k1": RIGHT}).items()]
    admin.delete_records(diverged.lab, topic, before=min(again))
    diverged.consumers_get(topic, left | {"k1": RIGHT})


def test_transactions_that_hang_everywhere_are_ended_as_their_owner_says(diverged: Diverged) -> None:
    topic = "hanging"
    diverged.lab.create_topic(topic, replicas=[1, 2, 3])
    with unverified_by(diverged.lab):
        for number, key in enumerate(("kept", "dropped")):
            send_late(diverged.lab, topic, UNKNOWN_PRODUCER + number, key)
    said = ("--outcome", "commit", "--offset", 0, "--outcome", "abort", "--offset", 1)
    steps = diverged.repaired("--topic", topic, "--partition", 0, *said)
    assert [(step["end"], step["holders"]) for step in steps] == [("commit", [1, 2, 3]), ("abort", [1, 2, 3])]
    diverged.consumers_get(topic, {"kept": "late"})


def test_the_job_sees_that_every_finding_is_over(diverged: Diverged) -> None:
    def over() -> bool:
        found = diverged.job.findings()
        return {one.status for one in found} == {FindingStatus.RESOLVED} and {one.topic for one in found} == TOPICS

    until(over, "all findings to be resolved")
