"""What a decision names as its proof: the record or end marker that binds all replicas, and who has shown it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.findings.claim import RecordedByViews
from parallax.findings.decide import ClaimState, decide
from parallax.findings.proving import Proving, ProvingRecord
from parallax.kinds import KINDS, Proves
from parallax.model import NOBODY, FindingKind
from tests.builders.answers import PRODUCER, answers, holding, marker, record, replica, shows, silent
from tests.builders.claims import claim, of_key

OLD, TOMBSTONE = record(30, producer_id=-1), record(50, producer_id=-1, value_size=-1, leader_epoch=4)
READ = RecordedByViews(record_shown_by=(1, 3), record_read_ms=1_767_355_385_000, leader_epoch=4)
DELETED = of_key(FindingKind.DELETED_RECORD_RESURRECTED, offset=50, recorded=READ)
BY_READING = "that brokers 1 and 3 had shown by 2026-01-02 12:03:05 UTC"


def test_a_deletion_is_proven_by_the_tombstone_that_was_read_and_not_by_who_shows_nothing() -> None:
    got = decide(DELETED, answers(shows(1, None), shows(2, OLD), shows(3, None)))
    assert got.proven_by == ProvingRecord(Proving.TOMBSTONE, 50, 4, read_on=(1, 3), read_ms=1_767_355_385_000)
    assert got.reason == (
        "broker 2 shows a live value at offset 30 and nothing newer for the key; deleted by the tombstone at offset "
        f"50, epoch 4, {BY_READING}"
    )


def test_its_witnesses_are_named_though_none_of_them_can_be_asked() -> None:
    got = decide(DELETED, answers(silent(1), shows(2, OLD), shows(3, OLD), leader=2))
    assert got.reason.endswith(f"deleted by the tombstone at offset 50, epoch 4, {BY_READING}")


def test_a_tombstone_in_a_transaction_is_named_with_its_commit() -> None:
    read = replace(READ, end_epoch=4)
    got = decide(
        replace(DELETED, producer_id=PRODUCER, marker_offset=51, recorded=read),
        answers(shows(1, None), shows(2, OLD), shows(3, None)),
    )
    assert got.reason.endswith(f"deleted by the tombstone at offset 50, epoch 4, committed at offset 51, {BY_READING}")


def test_a_difference_that_turns_out_a_deletion_is_proven_by_the_tombstone_that_is_shown() -> None:
    c = of_key(FindingKind.VISIBILITY_MISMATCH, offset=40)
    got = decide(c, answers(shows(1, TOMBSTONE), shows(2, OLD), shows(3, TOMBSTONE)))
    assert got.kind is FindingKind.DELETED_RECORD_RESURRECTED
    assert got.proven_by == ProvingRecord(Proving.TOMBSTONE, 50, 4, shown_on=(1, 3))
    assert got.reason.endswith("deleted by the tombstone at offset 50, epoch 4, that brokers 1 and 3 showed when asked")


def test_what_accuses_nobody_names_no_proof() -> None:
    unsure = replace(DELETED, producer_id=PRODUCER, marker_offset=-1)
    got = decide(unsure, answers(shows(1, None), shows(2, OLD), shows(3, None)))
    assert (got.verdict, got.accused, got.proven_by) == (ClaimState.CONFIRMED, NOBODY, None)
    assert got.reason.endswith("; broker 1 shows nothing")


def test_an_outcome_is_proven_by_the_end_marker_and_not_by_what_others_show_of_the_record() -> None:
    c = claim(FindingKind.ABORTED_RECORD_COMMITTED, recorded=RecordedByViews(markers={1: "abort"}, leader_epoch=2))
    got = decide(c, answers(holding(1, "aborted"), holding(2, "committed"), holding(3, "aborted")))
    assert got.proven_by == ProvingRecord(Proving.ABORT, 20, 2, read_on=(1,))
    assert got.reason.endswith("; ended by the ABORT at offset 20, epoch 2, that broker 1 had shown")


def test_an_end_marker_that_may_not_be_the_end_is_no_proof() -> None:
    read = RecordedByViews(markers={1: "abort"}, end_unproven=True)
    c = claim(FindingKind.ABORTED_RECORD_COMMITTED, recorded=read)
    got = decide(c, answers(holding(1, "aborted"), holding(2, "committed"), replica(3)))
    assert (got.accused, got.proven_by) == (NOBODY, None)


def test_a_wrong_index_is_proven_by_the_end_marker_in_its_own_log() -> None:
    c = claim(FindingKind.OUTCOME_CONTRADICTS_MARKER, recorded=RecordedByViews(markers={2: "abort"}))
    got = decide(c, answers(replica(1), holding(2, "committed", markers=(marker(),)), replica(3)))
    assert got.proven_by == ProvingRecord(Proving.ABORT, 20, read_on=(2,), shown_on=(2,))


@pytest.mark.parametrize(
    "made", [ProvingRecord(Proving.END, 7), ProvingRecord(Proving.TOMBSTONE, 7, 1, 8, (1,), 5, (3,))]
)
def test_a_proof_is_read_as_it_was_written(made: ProvingRecord) -> None:
    assert ProvingRecord.parse(made.as_json()) == made


def test_only_a_kind_without_proof_accuses_nobody() -> None:
    assert [kind for kind, row in KINDS.items() if row.proof is Proves.NOTHING] == [FindingKind.VISIBILITY_MISMATCH]
