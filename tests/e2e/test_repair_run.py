"""Repairs on real brokers: planned by the finding, killed between two steps, resumed, proven, and read by consumers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner, Result

from parallax.cli import app
from parallax.demo_repair import consumed
from parallax.findings.finding import Finding
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.traffic import PlainProducer, ProducerKind
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import FindingStatus
from parallax.replica.changes import MayRepair
from parallax.replica.client import ReplicaClient
from tests.e2e import witness
from tests.e2e.job_process import patient
from tests.e2e.play import Played

pytestmark = pytest.mark.timeout(900)

MARKER = "WRITE_TXN_MARKERS"


def frozen(played: Played, producer: ProducerKind) -> Finding:
    """The finding about the topic of one producer."""
    return reported(played, f"gone-{producer}-frozen")


def reported(played: Played, topic: str) -> Finding:
    """The open finding about a topic, once it is confirmed."""

    def found() -> Finding | None:
        return next((one for one in played.job.findings() if one.topic == topic and one.is_open), None)

    return until(found, f"{topic} to be confirmed")


def config(played: Played, folder: Path, mode: str, kafka: dict[str, str] | None = None) -> Path:
    """The job's settings, for repairs; by default those of somebody who may do everything."""
    document = yaml.safe_load(played.job.config.read_text())
    document["kafka"] = kafka or {"bootstrap.servers": played.lab.bootstrap_servers}
    document["repair"] = {"mode": mode}
    path = folder / "repair.yaml"
    path.write_text(yaml.safe_dump(patient(document)))
    return path


def repair(*words: object) -> Result:
    return CliRunner().invoke(app, ["repair", *map(str, words)])


def once_whole(*words: object) -> Result:
    """A plan as soon as nothing is missing: a job compares again what moves, and audits what it has not compared."""
    tried: list[Result] = []

    def is_whole() -> Result | None:
        tried.append(repair(*words))
        return tried[-1] if tried[-1].exit_code == 0 else None

    try:
        return until(is_whole, "a plan that lacks nothing", interval=2)
    except LabError as error:
        error.add_note(tried[-1].output)
        raise


def planned(played: Played, producer: ProducerKind, settings: Path) -> Path:
    """The plan for a finding, in a file."""
    file = settings.parent / f"{producer}.plan"
    finding_id = frozen(played, producer).finding_id[:8]
    done = once_whole("plan", finding_id, "-c", settings, "-o", file, "--format", "json")
    (step,) = json.loads(done.stdout)["steps"]
    assert (step["end"], step["holders"]) == ("commit", [2])
    return file


def who_may_lead(topic: str, settings: Path) -> tuple[str, list[list[str]]]:
    """A word for each replica of a topic by the id of its broker, and the reasons."""
    shown = CliRunner().invoke(app, ["lead", topic, "-c", str(settings), "--format", "json"])
    (one,) = json.loads(shown.stdout)
    replicas = sorted(one["replicas"], key=lambda replica: replica["broker"])
    return " ".join(replica["may_lead"] for replica in replicas), [replica["why"] for replica in replicas]


def test_while_repairs_are_off_a_plan_can_be_made_and_no_broker_is_asked_for_a_change(
    played: Played, tmp_path: Path
) -> None:
    settings = config(played, tmp_path, "off", witness.options(played.lab))
    before = witness.kinds(played.lab)
    file = planned(played, "legacy", settings)
    refused = repair("run", file, "-c", settings, "--yes")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "parallax: repair.mode: it is off, so nothing is changed on the cluster; set it to on to allow it\n",
    )
    for topic, expected in (("gone-legacy-tombstone", "safe unsafe safe"), ("well-legacy-tombstone", "safe safe safe")):
        with suppress(LabError):  # an audit may have to end first
            until(lambda: who_may_lead(topic, settings)[0] == expected, topic)  # noqa: B023
        words, reasons = who_may_lead(topic, settings)
        assert words == expected, (topic, reasons)
    assert who_may_lead("gone-legacy-frozen", settings)[0].split()[1] == "unsafe", "beyond it nothing is compared"
    finding = frozen(played, "legacy").finding_id[:8]
    asked = CliRunner().invoke(app, ["findings", "readers", finding, "-c", str(settings)])
    assert (asked.exit_code, "no replica led that was seen to show it" in asked.stdout) == (0, True), asked.output
    assert "DESCRIBE on consumer groups is not granted" in asked.stdout
    rolled = CliRunner().invoke(app, ["roll", "1", "-c", str(settings)])
    assert (rolled.exit_code, "must not be restarted now" in rolled.stdout) == (1, True), rolled.output
    asks = {"DESCRIBE_TRANSACTIONS", "DESCRIBE_TOPIC_PARTITIONS", "LIST_GROUPS", "OFFSET_FETCH"}
    assert witness.kinds(played.lab) - before <= witness.READING | asks


def seen(settings: Path, topic: str, *words: object) -> tuple[int, dict[int, dict[str, Any]]]:
    """What consumers of each replica had seen by now, by broker."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"
    asked = ["seen", "-c", settings, "--topic", topic, "--partition", 0, "--at", now, "--format", "json", *words]
    done = CliRunner().invoke(app, [str(word) for word in asked])
    return done.exit_code, {one["broker"]: one for one in json.loads(done.stdout)}


def test_what_consumers_of_each_replica_had_seen_is_on_record(played: Played, tmp_path: Path) -> None:
    settings, topic = config(played, tmp_path, "off"), "gone-legacy-tombstone"
    wrong, _ = reported(played, topic), frozen(played, "legacy")
    code, by_key = seen(settings, topic, "--key", "customer-7")
    assert (code, {broker: one["saw"] for broker, one in by_key.items()}) == (
        0,
        {1: "tombstone", 2: "record", 3: "tombstone"},
    )
    assert by_key[2]["record"]["offset"] == wrong.record_offset < by_key[1]["record"]["offset"]
    deleted = by_key[1]["record"]["offset"]
    code, at_it = seen(settings, topic, "--offset", deleted)
    assert (code, {broker: one["saw"] for broker, one in at_it.items()}) == (
        0,
        {1: "tombstone", 2: "nothing", 3: "tombstone"},
    )
    assert at_it[2]["why"] == "the replica held no record there when it was read"
    code, others = seen(settings, topic, "--key", "nobody", "--broker", 1)
    assert (code, others[1]["why"]) == (0, "no record of the key was shown")
    code, held = seen(settings, "gone-legacy-frozen", "--offset", 0)
    assert (code, held[2]["why"]) == (0, "it was held back at the last stable offset 0")
    assert held[1]["saw"] == held[3]["saw"] == "record"
    page = tmp_path / "report.html"
    made = CliRunner().invoke(app, ["report", wrong.finding_id, "-o", str(page), "-c", str(settings)])
    assert made.exit_code == 0, made.output
    assert f"of brokers 1 and 3 a tombstone at offset {deleted}" in page.read_text()


def test_without_its_right_a_repair_stops_names_it_and_keeps_others_out_until_it_is_given_up(
    played: Played, tmp_path: Path
) -> None:
    settings = config(played, tmp_path, "on", witness.options(played.lab))
    file = planned(played, "legacy", settings)
    stopped = repair("run", file, "-c", settings, "--yes", "--format", "json")
    assert stopped.exit_code == 1, stopped.output
    (known,) = json.loads(repair("status", "-c", settings, "--format", "json").stdout)
    assert (known["phase"], known["done"]) == ("stopped", [])
    assert "CLUSTER_ACTION on the cluster (or ALTER, from Kafka 3.8 on) is needed" in known["reason"]
    assert until(lambda: MARKER in witness.kinds(played.lab), "the request to be on record")
    second = repair("run", file, "-c", settings, "--yes")
    assert (second.exit_code, "resume or undo that one" in second.stderr) == (2, True), second.output
    closed = repair("undo", known["id"][:8], "-c", settings, "--format", "json")
    assert json.loads(closed.stdout)["phase"] == "closed"
    assert read_replica(played.client, 2, "gone-legacy-frozen").last_stable_offset == 0, "nothing was changed"


@contextmanager
def allowed(lab: Cluster, *operations: AclOperation) -> Iterator[None]:
    """Give the user who may only read some operations on the cluster, and take them away again."""
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    user = f"User:{witness.USER}"
    on_cluster = (ResourceType.BROKER, "kafka-cluster", literal, user, "*")  # librdkafka's name of the cluster
    for future in lab.admin.create_acls([AclBinding(*on_cluster, one, allow) for one in operations]).values():
        future.result(30)
    try:
        yield
    finally:
        filters = [AclBindingFilter(*on_cluster, one, allow) for one in operations]
        for gone in lab.admin.delete_acls(filters).values():
            gone.result(30)


@pytest.fixture(scope="module")
def granted(played: Played) -> Iterator[None]:
    """The right that a repair needs."""
    with allowed(played.lab, AclOperation.ALTER):
        yield


def test_its_right_is_asked_for_and_is_known_where_the_cluster_may_be_described(played: Played) -> None:
    with closing(ReplicaClient(witness.options(played.lab), timeout_ms=30_000)) as client:

        def until_it_is(may: MayRepair | None) -> None:
            until(lambda: client.may_repair() == may, f"the right to be {may}")

        nothing = MayRepair(mark=False, move=False, rates=True)
        until_it_is(None)
        with allowed(played.lab, AclOperation.DESCRIBE):
            until_it_is(nothing)
            for right in (AclOperation.ALTER, AclOperation.CLUSTER_ACTION):
                with allowed(played.lab, right):
                    until_it_is(nothing._replace(mark=True, move=right is AclOperation.ALTER))
                until_it_is(nothing)


def test_the_right_to_describe_groups_is_asked_for_without_a_group(played: Played) -> None:
    one = (ResourceType.GROUP, "*", ResourcePatternType.LITERAL, f"User:{witness.USER}", "*", AclOperation.DESCRIBE)
    with closing(ReplicaClient(witness.options(played.lab), timeout_ms=30_000)) as client:
        until(lambda: not client.may_describe_groups(), "the right to be missing")
        for future in played.lab.admin.create_acls([AclBinding(*one, AclPermissionType.ALLOW)]).values():
            future.result(30)
        try:
            until(client.may_describe_groups, "the right to be there")
        finally:
            for gone in played.lab.admin.delete_acls([AclBindingFilter(*one, AclPermissionType.ALLOW)]).values():
                gone.result(30)


@pytest.mark.parametrize(("producer", "when"), [("legacy", "before"), ("java", "after")])
def test_a_repair_that_is_killed_at_its_marker_is_resumed_and_every_replica_is_right(
    played: Played, granted: None, tmp_path: Path, producer: ProducerKind, when: str
) -> None:
    settings = config(played, tmp_path, "on", witness.options(played.lab))
    file, topic = planned(played, producer, settings), f"gone-{producer}-frozen"
    ended = subprocess.run(
        [sys.executable, "-c", dying(when), "repair", "run", str(file), "-c", str(settings), "--yes"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    (known,) = (
        one
        for one in json.loads(repair("status", "-c", settings, "--format", "json").stdout)
        if one["phase"] == "running"
    )
    assert (known["topic"], known["done"]) == (topic, [])

    def is_ended() -> bool:
        return read_replica(played.client, 2, topic).last_stable_offset > 0

    assert until(is_ended, "the marker to come to broker 2") if when == "after" else not is_ended()
    over = repair("resume", known["id"], "-c", settings, "--format", "json")
    assert (over.exit_code, json.loads(over.stdout)["phase"]) == (0, "over"), over.output
    assert len(read_replica(played.client, 2, topic).markers) <= 1, "it is written once, whenever the process died"
    for broker in (2, 1, 3):
        admin.elect_leaders(played.lab, topic, broker=broker)
        assert consumed(played.lab.bootstrap_servers, topic)["account-9"] == "120", f"led by broker {broker}"


def dying(when: str) -> str:
    """Python that runs the command line, and is killed before its end marker is sent, or before the answer counts."""
    sent = "real(self, *given)" if when == "after" else ""
    return f"""
import os, signal
from parallax.replica.changes import MayRepair
from parallax.replica.client import ReplicaClient
real = ReplicaClient.write_end_marker
def dies(self, *given):
    {sent or "pass"}
    os.kill(os.getpid(), signal.SIGKILL)
ReplicaClient.write_end_marker = dies
from parallax.cli import main
main()
"""


def test_a_group_that_reads_while_a_wrong_replica_leads_is_named(played: Played, tmp_path: Path) -> None:
    settings, topic, lab = config(played, tmp_path, "off"), "gone-legacy-tombstone", played.lab
    wrong = reported(played, topic)

    def readers() -> dict[str, Any]:
        asked = ["findings", "readers", wrong.finding_id, "-c", str(settings), "--format", "json"]
        done = CliRunner().invoke(app, asked)
        assert done.exit_code == 0, done.output
        return dict(json.loads(done.stdout))

    reader = Consumer(
        {
            "bootstrap.servers": lab.bootstrap_servers,
            "group.id": "while-it-led",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    got: dict[bytes, bytes | None] = {}

    def has_read_to_the_end() -> bool:
        message = reader.poll(1.0)
        if message is not None and message.error() is None:
            got[message.key() or b""] = message.value()
        return b"later" in got

    admin.elect_leaders(lab, topic, broker=2)
    try:
        until(lambda: [one["broker"] for one in readers()["led"]] == [2], "its reign to be on record")
        PlainProducer(lab.bootstrap_servers).send(topic, "later", "1")
        reader.subscribe([topic])
        until(has_read_to_the_end, "the group to read to the end", interval=0)
        reader.commit(asynchronous=False)
        found = {group["group"]: group["came"] for group in readers()["groups"]}
        assert (got[b"customer-7"], found["while-it-led"]) == (b"alive", "past_since"), found
        page = tmp_path / "report.html"
        made = CliRunner().invoke(app, ["report", wrong.finding_id, "-o", str(page), "-c", str(settings)])
        assert (made.exit_code, "Group while-it-led is past it, and has committed since" in page.read_text()) == (
            0,
            True,
        ), made.output
    finally:
        reader.close()
        admin.elect_leaders(lab, topic, broker=1)


@pytest.mark.parametrize(
    ("producer", "script", "said"),
    [("legacy", "tombstone", 1), ("legacy", "abort", 1), ("java", "commit", 3)],
    ids=["a deletion was missed", "an ABORT was missed", "a COMMIT was missed"],
)
def test_replicas_that_are_proven_wrong_are_copied_anew_and_show_consumers_what_is_right(
    played: Played, granted: None, tmp_path: Path, producer: ProducerKind, script: str, said: int
) -> None:
    settings, topic = config(played, tmp_path, "on", witness.options(played.lab)), f"gone-{producer}-{script}"
    admin.set_topic_config(played.lab, topic, {"delete.retention.ms": "600000"})
    right = read_replica(played.client, 1, topic).visible
    assert right == read_replica(played.client, 3, topic).visible
    one = reported(played, topic)
    file = tmp_path / "copy.plan"
    asked = ("plan", one.finding_id[:8], "-c", settings, "-o", file, "--format", "json")
    planned = once_whole(*asked, "--right", said)
    assert [step["move"]["purpose"] for step in json.loads(planned.stdout)["steps"]][-2:] == ["drop", "copy"]
    over = repair("run", file, "-c", settings, "--yes", "--format", "json")
    assert (over.exit_code, json.loads(over.stdout)["phase"]) == (0, "over"), over.output
    for broker in (2, 1, 3):
        admin.elect_leaders(played.lab, topic, broker=broker)
        assert consumed(played.lab.bootstrap_servers, topic) == right, f"led by broker {broker}"


def test_the_findings_are_over_by_themselves(played: Played) -> None:
    if not played.job.running:
        played.job.start()
    wanted = {"gone-legacy-frozen", "gone-java-frozen"}

    def over() -> bool:
        found = [one for one in played.job.findings() if one.topic in wanted]
        return {one.status for one in found} == {FindingStatus.RESOLVED} and {one.topic for one in found} == wanted

    until(over, "both findings to be resolved")
