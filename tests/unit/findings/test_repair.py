"""What is printed is pasted: each text that is to be run goes through bash, and the tools see what was meant."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from parallax.cli import app
from parallax.findings.claim import RecordedByViews
from parallax.findings.decide import decide
from parallax.findings.explain import explain
from parallax.findings.finding import Finding, made
from parallax.findings.repair import delete_again, rebuild_index, show_record, show_seen
from parallax.findings.report import print_explanation, print_finding
from parallax.findings.table import FindingsTable
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.shell import ANYWHERE, Shell
from tests.builders.answers import PRODUCER, answers, record, shows
from tests.builders.claims import claim
from tests.builders.findings import AT, EVENT
from tests.unit.findings.explained import PROVEN, assigned_as, explained, index_wrong

SERVERS = "kafka-1.example.org:9092,kafka-2.example.org:9092"
CONFIG = "conf/night shift's.yaml"
SHELL = Shell.of({"bootstrap.servers": SERVERS}, CONFIG)
TOOLS = (
    "kafka-reassign-partitions.sh",
    "kafka-leader-election.sh",
    "kafka-topics.sh",
    "kafka-console-producer.sh",
    "parallax",
)
_STUB = """#!/bin/bash
{ printf '%s\\0' "${0##*/}" "$@"; printf '\\n'; } >> "$CALLS"
while [ $# -gt 0 ]; do
  [ "$1" = --reassignment-json-file ] && { tr -d '\\n' < "$2"; echo; } >> "$CALLS.json"
  shift
done
exit 0
"""


SEGMENTS = (0, 5, 11, 300)
"""First offsets of the segments of orders-0 on the broker's disk."""


class Pasted:
    """A folder whose tools write down how they are called.

    Attributes:
        calls: words of each call, in order.
        documents: what the files of assignments held, in order.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for tool in TOOLS:
            (folder / tool).write_text(_STUB)
            (folder / tool).chmod(0o755)

    def run(self, text: str) -> None:
        (self._folder / "orders-0").mkdir(exist_ok=True)
        for segment in SEGMENTS:
            for kind in ("index", "log", "txnindex"):
                (self._folder / "orders-0" / f"{segment:020}.{kind}").touch()
        known = {"PATH": f"{self._folder}:{os.environ['PATH']}", "CALLS": str(self._log), "LOG_DIR": str(self._folder)}
        environment = {**os.environ, **known}
        subprocess.run(["bash", "-euc", text], cwd=self._folder, env=environment, check=True, capture_output=True)

    @property
    def gone(self) -> set[str]:
        """The files of the partition that the last commands removed."""
        kept = {file.name for file in (self._folder / "orders-0").iterdir()}
        return {f"{at:020}.{kind}" for at in SEGMENTS for kind in ("index", "log", "txnindex")} - kept

    @property
    def _log(self) -> Path:
        return self._folder / "calls"

    @property
    def calls(self) -> list[list[str]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [line.rstrip("\0").split("\0") for line in lines]

    @property
    def documents(self) -> list[list[int]]:
        file = self._log.with_suffix(".json")
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line)["partitions"][0]["replicas"] for line in lines]


@pytest.fixture
def pasted(tmp_path: Path) -> Pasted:
    return Pasted(tmp_path)


ACCUSED_LEADS = assigned_as(explained(PROVEN, leader=2, exposed=True), [2, 3, 1])


def test_the_repair_moves_leadership_drops_the_copy_gives_a_new_one_and_puts_the_order_back(pasted: Pasted) -> None:
    for step in explain(replace(ACCUSED_LEADS, key=b"k"), shell=SHELL).steps:
        pasted.run(step.run)
    assert pasted.documents == [[3, 2, 1], [3, 1], [3, 1], [3, 2, 1], [3, 2, 1], [2, 3, 1]]
    verbs = [(call[0], *(word for word in call if word in ("--execute", "--verify"))) for call in pasted.calls]
    reassign = "kafka-reassign-partitions.sh"
    assert verbs == [
        (reassign, "--execute"),
        ("kafka-leader-election.sh",),
        ("kafka-topics.sh",),
        ("kafka-console-producer.sh",),
        *[("parallax",)] * 2,
        *[(reassign, "--execute"), (reassign, "--verify")] * 2,
        (reassign, "--execute"),
    ]
    for call in pasted.calls:
        if call[0] == "parallax":
            assert call[1] == "repair"
            assert call[call.index("-c") + 1] == CONFIG
        else:
            assert call[call.index("--bootstrap-server") + 1] == SERVERS


MANY = [
    ACCUSED_LEADS,
    explained(PROVEN),
    explained({"no value": [1], "value at offset 9": [3], "value at offset 0": [2]}),
    explained(PROVEN, broker=NOBODY, kind=FindingKind.VISIBILITY_MISMATCH),
    explained(PROVEN, status=FindingStatus.SPREAD),
    explained(PROVEN, status=FindingStatus.UNSETTLED),
    explained({}, kind=FindingKind.LOG_HEAD_MISSING, leader=2, exposed=True),
    explained({}, kind=FindingKind.READ_COMMITTED_FROZEN, status=FindingStatus.SPREAD),
    assigned_as(index_wrong({"aborted": [1, 3], "committed": [2]}, 1, leader=2, exposed=True), [2, 3, 1]),
]


@pytest.mark.parametrize("one", MANY, ids=lambda one: f"{one.kind}-{one.status}-{one.broker}")
def test_every_command_names_the_cluster_or_the_job_as_it_was_given(pasted: Pasted, one: Finding) -> None:
    explained = explain(one, shell=SHELL)
    for text in (explained.look, explained.seen, *(step.run for step in explained.steps)):
        pasted.run(text)
    assert pasted.calls
    for call in pasted.calls:
        option, value = ("-c", CONFIG) if call[0] == "parallax" else ("--bootstrap-server", SERVERS)
        assert call[call.index(option) + 1] == value


@pytest.mark.parametrize("one", MANY, ids=lambda one: f"{one.kind}-{one.status}-{one.broker}")
def test_no_command_stands_within_a_sentence(one: Finding) -> None:
    for step in explain(one, shell=SHELL).steps:
        assert "parallax findings" not in step.text
        assert "FILE" not in step.text


@pytest.mark.parametrize(("marker", "segments"), [(11, {11}), (10, {5}), (299, {11}), (300, {300}), (-1, {*SEGMENTS})])
def test_of_the_disk_only_the_offset_index_of_the_segment_with_the_marker_is_removed(
    pasted: Pasted, marker: int, segments: set[int]
) -> None:
    pasted.run(rebuild_index(EVENT.place, 2, marker))
    assert pasted.gone == {f"{at:020}.index" for at in segments}


def test_every_finding_names_the_command_that_shows_its_record(pasted: Pasted) -> None:
    pasted.run(show_record(EVENT, SHELL))
    ((program, command, *options),) = pasted.calls
    assert (program, command) == ("parallax", "show-record")
    place = ["--topic", EVENT.topic, "--partition", str(EVENT.partition), "--offset", str(EVENT.offset)]
    assert options == [*place, "-c", CONFIG]


def test_of_a_lost_tombstone_it_shows_the_value_that_is_there_and_not_where_nothing_is_left(pasted: Pasted) -> None:
    key = {"visible": {"offset": 0, "value_size": 4}}
    evidence = {"replicas": {"1": {"key": {"visible": None}}, "2": {"key": key}, "3": {"error": "away"}}}
    kind = FindingKind.DELETED_RECORD_RESURRECTED
    for broker in (2, NOBODY):
        pasted.run(show_record(replace(EVENT, kind=kind, broker=broker, evidence=json.dumps(evidence)), SHELL))
    assert [call[call.index("--offset") + 1] for call in pasted.calls] == ["0", "0"]


@pytest.mark.parametrize(("at", "held", "named"), [(4, (), 4), (4, (1,), 10), (40, (), 10), (None, (), 10)])
def test_of_a_record_that_no_replica_holds_it_shows_the_one_that_is_met_in_its_place(
    at: int | None, held: Collection[int], named: int
) -> None:
    claim_ = claim(
        FindingKind.COMMITTED_RECORD_ABORTED, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted"})
    )
    value = None if at is None else record(at, producer_id=-1)
    own = {broker: {10: record(10, value_size=-1)} if broker in held else {} for broker in (1, 2)}
    given = answers(
        shows(1, None, asked=frozenset({10}), committed=own[1]),
        shows(2, value, asked=frozenset({10}), aborted=((PRODUCER, 10),)),
    )
    one = made("f", FindingStatus.CONFIRMED, claim_, decide(claim_, given), given, None, AT)
    assert (one.broker, one.record_offset) == (2, 10)
    for command in (show_record(one, SHELL), show_seen(one, SHELL)):
        assert f"--offset {named} " in command


def test_what_was_seen_is_asked_for_the_moment_of_the_difference_and_not_of_its_end() -> None:
    hour = timedelta(hours=1)
    one = replace(EVENT, first_suspected_at=AT - hour, decided_at=AT + hour)
    over = replace(one, status=FindingStatus.RESOLVED)
    assert [re.findall("--at ([^ ]+)", show_seen(each, SHELL)) for each in (one, over)] == [
        [f"{AT + hour:%Y-%m-%dT%H:%M:%S}"],
        [f"{AT - hour + timedelta(seconds=1):%Y-%m-%dT%H:%M:%S}"],
    ]


def test_where_only_the_hash_of_a_key_is_known_it_is_shown_before_its_deletion_is_written(pasted: Pasted) -> None:
    pasted.run(delete_again(replace(EVENT, key=None), SHELL))
    assert pasted.calls[0][:2] == ["parallax", "show-record"]
    assert "${KEY:?" in delete_again(replace(EVENT, key=None), SHELL), "nothing is written without it"


@pytest.mark.parametrize("key", [b"\xff", b"a\tb", b"a\nb", b"\0", b"NULL"])
def test_a_key_that_the_console_producer_cannot_be_given_has_no_command_and_that_is_said(key: bytes) -> None:
    assert delete_again(replace(EVENT, key=key), SHELL) == ""
    (said,) = (s for s in explain(replace(ACCUSED_LEADS, key=key)).steps if "deletion written once more" in s.text)
    assert "cannot be given this key" in said.text
    assert not said.run


def test_of_a_transaction_it_shows_where_that_began(pasted: Pasted) -> None:
    pasted.run(show_record(replace(EVENT, offset=-1, transaction_start_offset=17, marker_offset=-1), SHELL))
    assert pasted.calls[0][pasted.calls[0].index("--offset") + 1] == "17"


def test_a_cluster_with_logins_is_reached_with_a_file_of_client_properties(pasted: Pasted) -> None:
    shell = Shell.of({"bootstrap.servers": SERVERS, "security.protocol": "SASL_SSL"}, CONFIG)
    for step in explain(replace(ACCUSED_LEADS, key=b"k"), shell=shell).steps:
        pasted.run(step.run)
    options = {"kafka-leader-election.sh": "--admin.config", "kafka-console-producer.sh": "--producer.config"}
    for call in (call for call in pasted.calls if call[0] != "parallax"):
        option = options.get(call[0], "--command-config")
        assert call[call.index(option) + 1] == "admin.properties"


@pytest.fixture
def storage(tmp_path: Path) -> str:
    FindingsTable(str(tmp_path / "data")).append([replace(ACCUSED_LEADS, finding_id="a" * 32)])
    return str(tmp_path / "data")


def test_the_lines_of_an_explanation_are_pasted_as_they_are_printed(pasted: Pasted, storage: str) -> None:
    to = io.StringIO()
    print_explanation(storage, "aaaaaaaa", to=to, shell=SHELL)
    blocks = to.getvalue().split("\n\n")
    text = "\n".join(block for block in blocks if block.startswith(("cat > ", *TOOLS)))
    pasted.run(text)
    assert pasted.documents == [[3, 2, 1], [3, 1], [3, 1], [3, 2, 1], [3, 2, 1], [2, 3, 1]]


def test_show_ends_with_the_command_for_the_record(pasted: Pasted, storage: str) -> None:
    to = io.StringIO()
    print_finding(storage, "aaaaaaaa", to=to, shell=SHELL)
    pasted.run(to.getvalue().splitlines()[-1])
    assert pasted.calls[0][:2] == ["parallax", "show-record"]


def test_where_placeholders_stand_in_commands_it_says_what_fills_them_in(storage: str) -> None:
    for shell, is_said in ((SHELL, False), (ANYWHERE, True)):
        to = io.StringIO()
        print_explanation(storage, "aaaaaaaa", to=to, shell=shell)
        assert ("-c CONFIG fills them in" in " ".join(to.getvalue().split())) is is_said


def test_every_finding_names_the_command_that_shows_what_consumers_had_seen(pasted: Pasted) -> None:
    pasted.run(explain(EVENT, shell=SHELL).seen)
    ((program, *words),) = pasted.calls
    command: Any = typer.main.get_command(app)
    given = command.commands["seen"].make_context("seen", words[1:]).params
    assert (program, words[0], given["topic"], given["offset"]) == ("parallax", "seen", EVENT.topic, EVENT.offset)
    assert given["at"] == EVENT.decided_at.replace(microsecond=0)
