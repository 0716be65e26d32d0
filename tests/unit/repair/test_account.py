"""What is said of repairs: only of the transaction that a finding is about, and proven only where it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from parallax.model import NOBODY, FindingKind
from parallax.repair.account import repaired_by, repairs_of
from parallax.repair.record import MAY_LACK, SLOW, UNWRITTEN, Event, EventKind
from parallax.repair.table import RepairTable
from tests.builders.findings import finding

STEP = {"number": 1, "producer_id": 7, "start_offset": 4, "end": "commit"}
HELD = replace(
    finding("aaaa", kind=FindingKind.READ_COMMITTED_FROZEN), producer_id=7, transaction_start_offset=4, marker_offset=9
)


def recorded(storage: Path, *kinds: EventKind, reason: str = "", **step: object) -> None:
    table = RepairTable(str(storage))
    for number, kind in enumerate(kinds):
        document = {"steps": [STEP | step]} if kind is EventKind.BEGUN else {}
        at_ms = 1_700_000_000_000 + 1000 * number
        table.append(Event(kind, "a" * 32, HELD.topic, HELD.partition, at_ms, "me", 1, document, reason))


def test_a_repair_that_every_replica_was_read_to_show_is_told_of_in_both_places(tmp_path: Path) -> None:
    recorded(tmp_path, EventKind.BEGUN, EventKind.PROVEN, EventKind.OVER)
    said = (
        "Repair aaaaaaaa wrote a COMMIT marker for the transaction of producer 7, and every replica was read to "
        "show it by 2023-11-14 22:13:21 UTC."
    )
    assert repairs_of(str(tmp_path))(HELD) == (said,)
    assert repaired_by(str(tmp_path))(HELD).mended == (said,)


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (EventKind.INTENDED, "is to write a COMMIT marker; that is not proven yet."),
        (EventKind.STOPPED, "stopped at 2023-11-14 22:13:21 UTC: why. It is not proven that it did."),
        (EventKind.CLOSED, "was given up at 2023-11-14 22:13:21 UTC: why. It is not proven"),
    ],
)
def test_what_no_replica_was_read_to_show_is_not_called_repaired(tmp_path: Path, last: EventKind, words: str) -> None:
    table = RepairTable(str(tmp_path))
    document = {"below": {}} if last is EventKind.INTENDED else {}
    table.append(Event(EventKind.BEGUN, "a" * 32, HELD.topic, 0, 1_700_000_000_000, "me", 0, {"steps": [STEP]}))
    table.append(Event(last, "a" * 32, HELD.topic, 0, 1_700_000_001_000, "me", 1, document, "why."))
    (said,) = repairs_of(str(tmp_path))(HELD)
    assert words.removesuffix(".") in said.replace(" for the transaction of producer 7", "")
    assert repaired_by(str(tmp_path))(HELD).mended == ()


def test_a_repair_that_found_its_transaction_ended_is_not_said_to_have_written_a_marker(tmp_path: Path) -> None:
    table = RepairTable(str(tmp_path))
    for kind, document in ((EventKind.BEGUN, {"steps": [STEP]}), (EventKind.PROVEN, {UNWRITTEN: True})):
        table.append(Event(kind, "a" * 32, HELD.topic, 0, 1_700_000_001_000, "me", 1, document))
    (said,) = repairs_of(str(tmp_path))(HELD)
    assert said.startswith(
        "Repair aaaaaaaa wrote no COMMIT marker for the transaction of producer 7, which had ended by then, and"
    )
    assert repaired_by(str(tmp_path))(HELD).mended == ()


@pytest.mark.parametrize("other", [{"producer_id": 8}, {"start_offset": 5}])
def test_a_repair_of_another_transaction_says_nothing(tmp_path: Path, other: dict[str, int]) -> None:
    recorded(tmp_path, EventKind.BEGUN, EventKind.PROVEN, EventKind.OVER, **other)
    assert repairs_of(str(tmp_path))(HELD) == ()
    assert repaired_by(str(tmp_path))(HELD).mended == ()


COPY = {
    "number": 1,
    "move": {"purpose": "copy", "replicas": [1, 2, 3], "copied": [2], "gone": []},
    "wrong": [2],
    "source": 1,
    "is_said": False,
    "mended": [HELD.finding_id],
}


def copied(storage: Path, *, is_said: bool = False, is_slow: bool = False) -> None:
    table, step = RepairTable(str(storage)), COPY | {"is_said": is_said}
    at_ms = int(HELD.first_suspected_at.timestamp() * 1000) + 60_000
    for kind in (EventKind.BEGUN, EventKind.PROVEN, EventKind.OVER):
        document = {EventKind.BEGUN: {"steps": [step]}, EventKind.PROVEN: {SLOW: is_slow}}.get(kind, {})
        table.append(Event(kind, "b" * 32, HELD.topic, HELD.partition, at_ms, "me", 1, document))


def test_a_copy_is_of_the_findings_about_its_replica_and_says_whose_word_it_rests_on(tmp_path: Path) -> None:
    copied(tmp_path, is_said=True)
    accused = replace(HELD, broker=2)
    (said,) = repaired_by(str(tmp_path))(accused).mended
    assert said.startswith("Repair bbbbbbbb copied broker 2 again from broker 1, which a person says is right, and ")
    assert repairs_of(str(tmp_path))(replace(HELD, broker=NOBODY)) == (said,)
    assert repairs_of(str(tmp_path))(replace(HELD, broker=3)) == ()
    later = accused.first_suspected_at + timedelta(hours=1)
    assert repairs_of(str(tmp_path))(replace(accused, first_suspected_at=later)) == ()


def test_what_a_copy_that_took_too_long_may_lack_is_said_of_the_end_that_it_brought(tmp_path: Path) -> None:
    copied(tmp_path / "slow", is_slow=True)
    copied(tmp_path / "quick")
    slow, quick = (repaired_by(str(tmp_path / which))(replace(HELD, broker=2)).mended[0] for which in ("slow", "quick"))
    assert slow == f"{quick} That copy took too long: it {MAY_LACK}."
    assert "`" not in slow, "it is a part of messages, which know commands with their options alone"


def test_a_finding_that_names_no_broker_is_repaired_only_by_a_word_newer_than_its_event(
    tmp_path: Path,
) -> None:
    nobody = replace(HELD, broker=NOBODY)
    copied(tmp_path / "proven")
    assert repaired_by(str(tmp_path / "proven"))(nobody).mended == ()
    copied(tmp_path / "said", is_said=True)
    assert "which a person says is right" in "".join(repaired_by(str(tmp_path / "said"))(nobody).mended)
    differs_again = replace(nobody, decided_at=nobody.decided_at + timedelta(hours=1))
    assert repaired_by(str(tmp_path / "said"))(differs_again).mended == ()


def test_a_copy_that_the_cluster_has_taken_is_named_and_not_said_to_have_mended(tmp_path: Path) -> None:
    table, accused = RepairTable(str(tmp_path)), replace(HELD, broker=2)
    at_ms, told = int(HELD.first_suspected_at.timestamp() * 1000) + 60_000, repaired_by(str(tmp_path))
    for kind, document, begun in (
        (EventKind.BEGUN, {"steps": [COPY]}, ""),
        (EventKind.INTENDED, {}, ""),
        (EventKind.ANSWERED, {}, "Repair bbbbbbbb had begun to copy broker 2 again from broker 1, at 2026"),
        (EventKind.STOPPED, {}, "Repair bbbbbbbb had begun to copy broker 2 again from broker 1, at 2026"),
        (EventKind.PROVEN, {}, ""),
    ):
        table.append(Event(kind, "b" * 32, HELD.topic, HELD.partition, at_ms, "me", 1, document))
        assert "".join(told(accused).begun)[: len(begun) or None] == begun, kind
        assert bool(told(accused).mended) is (kind is EventKind.PROVEN)


def test_a_copy_ends_no_finding_that_its_plan_was_not_made_to_end(tmp_path: Path) -> None:
    copied(tmp_path, is_said=True)
    for broker in (2, NOBODY):
        assert repaired_by(str(tmp_path))(replace(HELD, broker=broker)).mended != ()
        other = replace(HELD, broker=broker, finding_id="cccc")
        assert (repaired_by(str(tmp_path))(other).mended, repairs_of(str(tmp_path))(other)) == ((), ())


def test_a_copy_has_not_mended_what_was_reported_again_after_it_and_a_marker_mends_no_outcome(tmp_path: Path) -> None:
    copied(tmp_path / "copy")
    outcome = replace(HELD, broker=2, kind=FindingKind.ABORTED_RECORD_COMMITTED)
    assert repaired_by(str(tmp_path / "copy"))(outcome).mended[0].startswith("Repair bbbbbbbb copied broker 2 again")
    again = replace(outcome, decided_at=outcome.decided_at + timedelta(hours=1))
    assert repaired_by(str(tmp_path / "copy"))(again).mended == ()
    recorded(tmp_path / "marker", EventKind.BEGUN, EventKind.PROVEN, EventKind.OVER)
    assert "marker" in "".join(repaired_by(str(tmp_path / "marker"))(HELD).mended)
    assert repaired_by(str(tmp_path / "marker"))(replace(HELD, kind=FindingKind.ABORTED_RECORD_COMMITTED)).mended == ()


def test_a_storage_without_repairs_says_nothing(tmp_path: Path) -> None:
    assert repairs_of(str(tmp_path))(HELD) == ()
    assert list(tmp_path.iterdir()) == []
