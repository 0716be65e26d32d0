"""Repairs on every version of Kafka that they are promised for: found by a job, planned, run, and read by consumers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from parallax.cli import app
from parallax.demo_repair import consumed
from parallax.findings.finding import Finding
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS, Scenario
from parallax.lab.scenarios.scripts import read_committed_frozen
from parallax.lab.scenarios.stage import Cleaning, Divergence, Outage, Return, Script, Stage
from parallax.lab.traffic import LegacyTransactionalProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import FindingKind, FindingStatus
from parallax.replica.client import ReplicaClient
from tests.e2e.job_process import JobProcess
from tests.e2e.play import Part, play
from tests.e2e.transactional import send_late, unverified_by
from tests.versions import REPAIRED

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

NOBODY = 424_242
"""A producer id that no coordinator has given out."""


def frozen_by_abort(stage: Stage) -> Script:
    """Broker 2 misses the last end marker of a producer, an ABORT; no other replica has its record any more."""
    stage.begin()
    first = stage.send("transfer-9", "rolled back")
    yield Outage()
    abort = stage.abort()
    stage.put("account-9", "120")
    yield Cleaning(superseded=[first], evidence=[abort])
    yield Return(
        wrong=lambda view: view.high_watermark > abort and view.last_stable_offset == first,
        right=lambda view: view.last_stable_offset == view.high_watermark and "transfer-9" not in view.visible,
    )
    return Divergence(FindingKind.READ_COMMITTED_FROZEN, first, "transfer-9")


def two_left_open(lab: Cluster) -> Callable[[Stage], Script]:
    """Broker 2 misses the last end markers of two producers. The first transaction holds the second one's effect back.

    Only the second one's marker is directly behind its first record, and so proves how it ended.
    """

    def script(stage: Stage) -> Script:
        other = LegacyTransactionalProducer(lab.bootstrap_servers, f"{stage.topic}-other")
        other.begin()
        held = stage._note(other.send(stage.topic, "transfer-9", "rolled back"))
        stage.begin()
        first = stage.send("account-9", "100")
        yield Outage()
        commit = stage.commit()
        other.abort()
        abort = stage._note(stage._next_marker())
        stage.put("account-9", "120")
        yield Cleaning(superseded=[held, first], evidence=[commit, abort])
        yield Return(
            wrong=lambda view: view.high_watermark > abort and view.last_stable_offset == held,
            right=lambda view: view.last_stable_offset == view.high_watermark and "transfer-9" not in view.visible,
        )
        return Divergence(FindingKind.READ_COMMITTED_FROZEN, held, "transfer-9")

    return script


FROZEN = Scenario("frozen both ways", {"commit": read_committed_frozen, "abort": frozen_by_abort})


@dataclass(frozen=True)
class Diverged:
    """Brokers of one version, the job that has found what differs on them, and settings of somebody who may repair."""

    lab: Cluster
    job: JobProcess
    client: ReplicaClient
    config: Path

    def reported(self, topic: str) -> Finding:
        """The open finding about a topic, once it is confirmed."""

        def found() -> Finding | None:
            return next((one for one in self.job.findings() if one.topic == topic and one.is_open), None)

        return until(found, f"{topic} to be confirmed", timeout=240)

    def repaired(self, *of: object) -> list[dict[str, Any]]:
        """Plan a repair and run it to its end; gives the steps of the plan."""
        file = self.config.with_suffix(".plan")
        planned = self._repair("plan", *of, "-o", file)
        over = self._repair("run", file, "--yes")
        assert over["phase"] == "over", over
        steps: list[dict[str, Any]] = planned["steps"]
        return steps

    def _repair(self, *words: object) -> Any:
        given = ["repair", *map(str, words), "-c", str(self.config), "--format", "json"]
        done = CliRunner().invoke(app, given)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def consumers_get(self, topic: str, right: dict[str, str]) -> None:
        """A plain consumer gets what is right of every replica, as each leads in turn."""
        for broker in (2, 1, 3):
            admin.elect_leaders(self.lab, topic, broker=broker)
            assert consumed(self.lab.bootstrap_servers, topic) == right, f"led by broker {broker}"


@pytest.fixture(scope="module", params=REPAIRED)
def diverged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Diverged]:
    folder = tmp_path_factory.mktemp("repaired")
    with Cluster(request.param) as lab, JobProcess(folder, lab.bootstrap_servers, "(legacy|java|copied|two)-.*") as job:
        job.start()
        frozen = [Part(FROZEN, f"{kind}-", kind, job.await_observed) for kind in ("legacy", "java")]
        two = Part(Scenario("two", {"open": two_left_open(lab)}), "two-", await_observed=job.await_observed)
        play(lab, [*frozen, two, Part(SCENARIOS["resurrected"], "copied-", await_observed=job.await_observed)])
        config = folder / "repair.yaml"
        config.write_text(yaml.safe_dump({**yaml.safe_load(job.config.read_text()), "repair": {"mode": "on"}}))
        with closing(ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=10_000)) as client:
            yield Diverged(lab, job, client, config)


@pytest.mark.parametrize("producer", ["legacy", "java"])
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_frozen_transaction_is_ended_in_place_as_it_was_elsewhere(
    diverged: Diverged, producer: str, end: str
) -> None:
    topic = f"{producer}-{end}"
    right = dict(read_replica(diverged.client, 1, topic).visible)
    (step,) = diverged.repaired(diverged.reported(topic).finding_id)
    assert (step["kind"], step["end"], step["holders"]) == ("end_marker", end, [2])
    assert ("transfer-9" in right, right["account-9"]) == (False, "120")
    diverged.consumers_get(topic, right)


def test_of_two_open_transactions_each_is_ended_as_its_proof_or_its_owner_says(diverged: Diverged) -> None:
    topic = "two-open"
    right = dict(read_replica(diverged.client, 1, topic).visible)

    def kinds() -> set[FindingKind]:
        return {one.kind for one in diverged.job.findings() if one.topic == topic and one.is_open}

    wanted = {FindingKind.READ_COMMITTED_FROZEN, FindingKind.MARKER_MISSING}
    until(lambda: kinds() == wanted, f"{topic} to be confirmed", timeout=240)
    said = ("--outcome", "abort", "--offset", 0)
    steps = diverged.repaired("--topic", topic, "--partition", 0, *said)
    assert [(one["start_offset"], one["end"], one["finding"] != "") for one in steps] == [
        (0, "abort", False),
        (1, "commit", True),
    ]
    diverged.consumers_get(topic, right)


def test_transactions_that_hang_everywhere_are_ended_as_their_owner_says(diverged: Diverged) -> None:
    topic = "hanging"
    diverged.lab.create_topic(topic, replicas=[1, 2, 3])
    with unverified_by(diverged.lab):
        for number, key in enumerate(("kept", "dropped")):
            send_late(diverged.lab, topic, NOBODY + number, key)
    said = ("--outcome", "commit", "--offset", 0, "--outcome", "abort", "--offset", 1)
    steps = diverged.repaired("--topic", topic, "--partition", 0, *said)
    assert [(step["end"], step["holders"]) for step in steps] == [("commit", [1, 2, 3]), ("abort", [1, 2, 3])]
    diverged.consumers_get(topic, {"kept": "late"})


def test_a_wrong_leader_gives_way_to_a_right_one_and_is_copied_from_it(diverged: Diverged) -> None:
    topic = "copied-tombstone"
    right = dict(read_replica(diverged.client, 1, topic).visible)
    finding = diverged.reported(topic)
    admin.set_topic_config(diverged.lab, topic, {"delete.retention.ms": "600000"})
    admin.elect_leaders(diverged.lab, topic, broker=2)

    def are_misled() -> bool:  # broker 1 may lead for some more milliseconds, in its own view
        return consumed(diverged.lab.bootstrap_servers, topic).get("customer-7") == "alive"

    until(are_misled, "consumers to be misled")
    steps = diverged.repaired(finding.finding_id)
    assert [step["move"]["purpose"] for step in steps] == ["lead", "drop", "copy", "order"]
    assert "customer-7" not in right
    diverged.consumers_get(topic, right)


def test_the_job_sees_that_every_finding_is_over(diverged: Diverged) -> None:
    wanted = {"legacy-commit", "legacy-abort", "java-commit", "java-abort", "two-open", "copied-tombstone"}

    def over() -> bool:
        found = diverged.job.findings()
        return {one.status for one in found} == {FindingStatus.RESOLVED} and {one.topic for one in found} == wanted

    until(over, "all findings to be resolved", timeout=240)
