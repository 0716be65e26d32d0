"""What the demo says at its end, to people and to programs; its brokers and its job are told of, not started."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import structlog
from click.testing import Result
from typer.testing import CliRunner

from parallax import demo
from parallax.cli import app
from parallax.config import Settings
from parallax.demo_repair import Mended
from parallax.findings.finding import Finding
from parallax.guard.holds import EventKind
from parallax.guard.words import SAID
from parallax.lab.scenarios import SCENARIOS, ExpectedFinding
from parallax.model import FindingKind
from parallax.views.binding import bind
from tests.builders.findings import EVENT

FOUND = replace(EVENT, finding_id="a" * 32)
OTHER = replace(EVENT, finding_id="b" * 32, topic="control.other")
EXPECTED = ExpectedFinding(FOUND.kind, FOUND.topic, FOUND.partition, FOUND.broker, 1, "key", 0.0)
MISSED = replace(EXPECTED, topic="demo.missed")


class Job:
    """Logs as the real one does, and has found what it was told."""

    def __init__(self, found: list[Finding]) -> None:
        self._found = found

    def start(self) -> None:
        structlog.get_logger().info("started")

    def stop(self) -> None:
        pass

    def findings(self) -> list[Finding]:
        return self._found


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Run the demo as a command, where these are expected and those are found."""

    def played(expected: list[ExpectedFinding], found: list[Finding], *words: str) -> Result:
        monkeypatch.setattr(demo, "Cluster", lambda *_, **__: nullcontext(SimpleNamespace(bootstrap_servers="h:1")))
        monkeypatch.setattr(demo, "Job", lambda *_: Job(found))
        monkeypatch.setattr(demo, "_play", lambda *_: expected)
        monkeypatch.setattr(demo, "_await_findings", lambda *_: None)
        monkeypatch.setattr(demo, "standing", lambda _: found)
        return CliRunner().invoke(app, ["demo", "--data", str(tmp_path), *words])

    return played


def test_what_the_demo_found_is_one_document_and_all_else_is_on_standard_error(
    play: Callable[..., Result], tmp_path: Path
) -> None:
    ended = play([EXPECTED], [FOUND], "--format", "json")
    assert ended.exit_code == 0, ended.output
    document = json.loads(ended.stdout)
    assert document["as_expected"] is True
    (one,) = document["found"]
    assert (one["finding_id"], one["kind"], one["topic"]) == (FOUND.finding_id, FOUND.kind, FOUND.topic)
    assert one["found_in_s"] > 0
    assert (document["missing"], document["unexpected"], document["data"]) == ([], [], str(tmp_path))
    assert "started" in ended.stderr
    assert "stopped" in ended.stderr


def test_the_document_names_what_was_missed_and_what_should_not_be(play: Callable[..., Result]) -> None:
    ended = play([EXPECTED, MISSED], [FOUND, OTHER], "--format", "json")
    assert ended.exit_code == 1
    document = json.loads(ended.stdout)
    assert document["as_expected"] is False
    assert [one["topic"] for one in document["missing"]] == ["demo.missed"]
    assert [one["finding_id"] for one in document["unexpected"]] == [OTHER.finding_id]


def test_people_read_it_on_standard_output(play: Callable[..., Result]) -> None:
    ended = play([EXPECTED, MISSED], [FOUND])
    assert ended.exit_code == 1
    assert "MISSED: " in ended.stdout
    assert "1 found: NOT as expected." in ended.stdout
    assert ended.stderr == ""


def test_at_80_columns_kinds_partitions_and_keys_are_whole(
    play: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    longest = FindingKind.DELETED_RECORD_RESURRECTED
    found = replace(FOUND, topic="demo.tombstone", kind=longest, key=b"customer-7")
    readable_at = found.decided_at.timestamp() - 12
    expected = replace(EXPECTED, topic="demo.tombstone", kind=longest, readable_at=readable_at)
    ended = play([expected], [found])
    (row,) = [line for line in ended.stdout.splitlines() if line.strip().startswith(str(longest))]
    assert row.split()[:4] == [str(longest), "demo.tombstone-0", str(found.broker), "customer-7"]


class Watch:
    """Says of the guard what it was told."""

    held: ClassVar = [f"guard.held.{suffix}" for suffix in SCENARIOS["all"].scripts]
    wrong: ClassVar[list[str]] = []
    expected: ClassVar[list[ExpectedFinding]] = []

    def __init__(self, *_: object) -> None:
        pass

    def play(self, *_: object) -> list[ExpectedFinding]:
        return self.expected

    def await_release(self) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.mark.parametrize("wrong", [[], ["SETTINGS NOT AS THEY WERE: guard.held.tombstone"]], ids=["done", "not done"])
def test_with_a_guard_both_halves_are_shown_side_by_side_and_settings_count(
    play: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, wrong: list[str]
) -> None:
    found = replace(FOUND, topic="guard.open.tombstone")
    told = {"expected": [replace(EXPECTED, topic="guard.open.tombstone")], "wrong": wrong}
    monkeypatch.setattr(demo, "_GuardWatch", type("Told", (Watch,), told))
    ended = play([], [found], "--guard")
    assert ended.exit_code == len(wrong), ended.output
    (row,) = [line for line in ended.stdout.splitlines() if line.startswith(" tombstone")]
    assert re.split("  +", row.strip()) == [
        "tombstone",
        f"broker {FOUND.broker}: {FOUND.kind}",
        "alike on all brokers",
    ]
    assert all(line in ended.stdout for line in wrong)
    document = json.loads(play([], [found], "--guard", "--format", "json").stdout)
    assert (document["not_as_it_should_be"], document["held"]) == (wrong, Watch.held)


@pytest.mark.parametrize("wrong", [[], ["READ WRONGLY: demo.abort"]], ids=["repaired", "not repaired"])
def test_what_was_repaired_is_listed_and_counts(
    play: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, wrong: list[str]
) -> None:
    def mend(_: object, settings: Settings, found: list[Finding], mended: Mended, __: object) -> None:
        assert settings.repair.mode == "on"
        mended.repaired[found[0].topic] = ["Have broker 2 copy it."]
        mended.wrong += wrong

    monkeypatch.setattr(demo, "mend", mend)
    ended = play([EXPECTED], [FOUND], "--repair")
    assert ended.exit_code == len(wrong), ended.output
    assert "Have broker 2 copy it." in ended.stdout
    assert all(line in ended.stdout for line in wrong)
    document = json.loads(play([EXPECTED], [FOUND], "--repair", "--format", "json").stdout)
    assert (list(document["repaired"]), document["not_repaired"]) == ([FOUND.topic], wrong)


def test_what_a_guard_holds_is_not_repaired_as_well(play: Callable[..., Result]) -> None:
    ended = play([], [], "--guard", "--repair")
    assert (ended.exit_code, "give one of --guard and --repair" in ended.stderr) == (2, True)


def test_the_folder_of_an_earlier_demo_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    bind(str(tmp_path), "earlier")
    ended = CliRunner().invoke(app, ["demo", "--data", str(tmp_path)])
    assert ended.exit_code == 2
    assert ended.output == f"parallax: --data: {tmp_path} is the storage of another job; give a new folder\n"


def test_what_the_board_says_in_its_own_words_is_not_logged_as_well() -> None:
    for event in ({"event": "finding"}, {"event": SAID[EventKind.HELD], "about": "guard"}):
        with pytest.raises(structlog.DropEvent):
            demo._not_told(None, "info", event)
    other = {"event": "upkeep failed; it is tried again"}
    assert demo._not_told(None, "info", other) == other
