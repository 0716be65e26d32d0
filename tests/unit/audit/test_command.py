"""The command's flags, its report, and its one line where it cannot run."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from parallax.audit.command import Flags, run_audit
from parallax.audit.confirm import MemoryStore, confirm
from parallax.audit.progress import Shown
from parallax.audit.report import document, size_text, write
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.cli import app
from parallax.config import ConfigError, Settings
from parallax.errors import SetupError
from parallax.output import FileKind, output
from parallax.replica.client import PartitionMetadata, TopicMetadata
from parallax.replica.errors import NotHosted, ReplicaError
from parallax.source.pace import Metered
from tests.builders.settings import settings_of
from tests.unit.audit.results import SUSPECT, found

REPORT = AuditReport(
    "brokers",
    1_700_000_000.0,
    1_700_000_009.0,
    (
        PartitionResult("orders", 0, Result.DIVERGED, (), (found(),), (1, 2, 3), 0, (10, 10)),
        PartitionResult("orders", 1, Result.UNKNOWN, ("broker 2: refused",), (), (1, 2, 3), -1, (-1, -1)),
    ),
    {1: 2048},
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_of(tmp_path / "data", read={"request_timeout_ms": 300})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (Flags(source="tables"), "no recorded tables there"),
        (Flags(source="tables", dry_run=True), "leave out --from tables"),
        (Flags(file=Path("/nowhere/at/all")), "--output: /nowhere/at/all"),
        (Flags(file=Path("/")), "--output: /: Is a directory"),
    ],
)
def test_a_flag_that_cannot_be_used_is_one_line_that_names_it(settings: Settings, flags: Flags, message: str) -> None:
    with pytest.raises((ConfigError, SetupError)) as caught:
        run_audit(settings, flags)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


class _Cluster:
    """Of two brokers and one topic."""

    cluster_id = "cluster"

    def __init__(self, *_: Any, **__: Any) -> None:
        self.close = lambda: None

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {1: ("one", 9092), 2: ("two", 9092)}

    def metadata(self) -> dict[str, TopicMetadata]:
        return {"orders": TopicMetadata("orders", "A", {0: PartitionMetadata(1, 0, (1, 2), (1, 2))})}


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_broker_that_is_not_there_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    monkeypatch.setattr("parallax.audit.command.ReplicaClient", _Cluster)
    wrong = settings.model_copy(update={"topics": settings.topics.model_copy(update={"brokers": [77]})})
    with pytest.raises(NotHosted, match=r"topics\.brokers: the cluster has no broker 77; it has these: 1, 2"):
        run_audit(wrong, Flags(dry_run=dry_run))


def test_brokers_that_do_not_answer_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        json.dumps(
            {
                "kafka": {"bootstrap.servers": "127.0.0.1:1"},
                "topics": {"include": ["orders"]},
                "storage": {"path": str(tmp_path / "data")},
                "read": {"request_timeout_ms": 300},
            }
        )
    )
    ended = CliRunner().invoke(app, ["audit", "-c", str(config)])
    assert ended.exit_code == 2
    assert len(ended.stderr.strip().splitlines()) == 1


def test_a_failed_audit_leaves_the_last_report_and_nothing_beside_it(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("partition  result")
    with pytest.raises(ReplicaError):
        run_audit(settings, Flags(file=file))
    assert file.read_text() == "partition  result"
    assert list(tmp_path.iterdir()) == [file]


TEXT = FileKind("a report", "the ")


def test_a_report_replaces_the_last_one_as_a_whole_and_keeps_its_rights(tmp_path: Path) -> None:
    file, link = tmp_path / "report.json", tmp_path / "link"
    file.write_text("the last report")
    file.chmod(0o640)
    link.symlink_to(file)
    with output(link, TEXT) as to:
        to.write("the new ")
        assert file.read_text() == "the last report"
        to.write("report")
    assert file.read_text() == "the new report"
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [link, file]
    with pytest.raises(OSError, match="of the audit"), output(link, TEXT) as to:
        raise OSError(to.write("half of a "), "of the audit")
    assert file.read_text() == "the new report"


def test_a_report_may_go_to_a_device() -> None:
    with output(Path("/dev/null"), TEXT) as to:
        to.write("report")
    assert Path("/dev/null").is_char_device()


def test_the_table_says_what_was_compared_and_why_the_rest_is_unknown() -> None:
    out = io.StringIO()
    write(REPORT, "text", out)
    text = out.getvalue()
    assert "orders-0: finding f (new: not on record): Broker 2 lacks it." in text
    assert "orders-1: unknown: broker 2: refused" in text
    assert "2 partitions: 0 consistent, 1 diverged, 1 unknown; 2.0 KiB read from the brokers in 9 s." in text


def test_what_is_unknown_of_a_partition_that_has_diverged_is_counted_beside_it() -> None:
    out = io.StringIO()
    both = replace(REPORT.partitions[0], reasons=("unproven suspect: record_missing",))
    write(replace(REPORT, partitions=(both, REPORT.partitions[1])), "text", out)
    text = out.getvalue()
    assert "orders-0: unknown as well: unproven suspect: record_missing" in text
    assert "0 consistent, 1 diverged (something is unknown of 1 of them), 1 unknown; " in text


def test_the_document_is_for_programs() -> None:
    out = io.StringIO()
    write(REPORT, "json", out)
    found = json.loads(out.getvalue())
    assert found == document(REPORT)
    first, second = found["partitions"]
    assert found["result"] == first["result"] == "diverged"
    assert first["compared_up_to"] == {"read_uncommitted": 10, "read_committed": 10}
    assert first["findings"][0]["kind"] == "record_missing"
    assert second["compared_from"] is None


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 40, "3.0 TiB")])
def test_bytes_are_written_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


def test_on_a_terminal_it_is_a_bar() -> None:
    out = io.StringIO()
    with Shown(Console(file=out, force_terminal=True, width=120)) as shown:
        shown.stage("reading the replicas")
        shown.reading(Metered(1024, 5, 2), Metered(offsets=9, ranges=6))
    assert "2 of 6 logs, 1.0 KiB" in out.getvalue()


class Manager:
    """Decides after some looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.offered: list[Any] = []

    def offer(self, suspects: Any) -> None:
        self.offered += suspects

    def undecided(self, ids: Any) -> dict[str, str]:
        self.looks -= 1
        return dict.fromkeys(ids, "asked once more") if self.looks >= 0 else {}

    def standing(self) -> list[Any]:
        return [found()]


@pytest.mark.parametrize(("looks", "undecided"), [(3, {}), (10**9, {SUSPECT.suspect_id: "asked once more"})])
def test_verdicts_are_waited_for_until_the_time_is_up(looks: int, undecided: dict[str, str]) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    manager: Any = Manager(looks)
    found = confirm(manager, [SUSPECT], 30, clock=lambda: now[0], sleep=sleep)
    assert found.undecided == undecided
    assert len(found.findings) == 1
    assert manager.offered == [SUSPECT]


def test_events_are_numbered_and_kept_in_memory() -> None:
    store = MemoryStore()
    assert [e.sequence for e in store.append([found(), found()])] == [1, 2]
    assert [e.sequence for e in store.append([found()])] == [3]
    assert len(store.load()) == 3
