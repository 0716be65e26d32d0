"""What a probe's answers prove of a log's end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.evidence.atoms import Place
from parallax.findings.answers import (
    Answers,
)
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, decide
from parallax.model import FindingKind
from tests.builders.answers import replica, silent
from tests.builders.claims import claim
from tests.unit.findings.decide.answered import outcome_of


def test_a_truncated_log_is_confirmed_until_it_reaches_the_offset_again() -> None:
    c = claim(FindingKind.LOG_TRUNCATED, offset=50)
    cut = replica(2, log_end_offset=40, high_watermark=40)
    assert outcome_of(c, replica(1), cut) is ClaimState.CONFIRMED
    assert outcome_of(c, replica(1), replica(2)) is ClaimState.DISMISSED
    assert outcome_of(c, silent(1), cut) is ClaimState.PENDING


def test_what_all_have_lost_is_waited_for_until_something_is_written_in_its_place() -> None:
    short = {"log_end_offset": 40, "high_watermark": 40}
    assert outcome_of(truncated(), replica(1, **short), replica(2, **short)) is ClaimState.PENDING
    grown = {"log_end_offset": 41, "high_watermark": 41, "epoch_ends": {3: 40}}
    assert outcome_of(truncated(), replica(1, **grown), replica(2, **grown)) is ClaimState.CONFIRMED


def truncated(epoch: int = 3) -> Claim:
    recorded = RecordedByViews(epochs={2: str(epoch)})
    return replace(claim(FindingKind.LOG_TRUNCATED, offset=50), recorded=recorded)


def test_a_log_that_has_grown_again_is_judged_by_its_own_leader_epochs() -> None:
    assert outcome_of(truncated(), replica(1), replica(2, epoch_ends={3: 50})) is ClaimState.CONFIRMED
    assert outcome_of(truncated(), replica(1), replica(2, epoch_ends={3: 70})) is ClaimState.DISMISSED
    assert outcome_of(truncated(), replica(1), replica(2, epoch_ends={3: None})) is ClaimState.DISMISSED
    assert outcome_of(truncated(), replica(1), replica(2)) is ClaimState.DISMISSED


class TestALogThatIsCutOffWhileItIsCopied:
    """The claim names the offset that the copy had reached; offsets below 60 had been shown."""

    claim = replace(
        claim(FindingKind.LOG_TRUNCATED, offset=50), recorded=RecordedByViews(epochs={2: "3"}, shown_to={2: "60"})
    )

    @pytest.mark.parametrize(("end", "verdict"), [(59, ClaimState.CONFIRMED), (60, ClaimState.DISMISSED)])
    def test_a_newer_epoch_below_where_it_was_read_to_is_a_loss(self, end: int, verdict: ClaimState) -> None:
        assert outcome_of(self.claim, replica(1), replica(2, epoch_ends={3: end})) is verdict

    @pytest.mark.parametrize(("log_end", "verdict"), [(59, ClaimState.PENDING), (60, ClaimState.DISMISSED)])
    def test_an_epoch_that_ends_with_the_log_may_still_grow(self, log_end: int, verdict: ClaimState) -> None:
        marks = {"log_end_offset": log_end, "high_watermark": log_end, "epoch_ends": {3: log_end}}
        behind = {"log_end_offset": 59, "high_watermark": 59}
        assert outcome_of(self.claim, replica(1, **behind), replica(2, **marks)) is verdict

    @pytest.mark.parametrize(("mark", "verdict"), [(59, ClaimState.PENDING), (60, ClaimState.CONFIRMED)])
    def test_one_in_sync_that_ends_below_what_another_shows_is_a_loss(self, mark: int, verdict: ClaimState) -> None:
        cut = replica(2, log_end_offset=55, high_watermark=55)
        assert outcome_of(self.claim, replica(1, high_watermark=mark), cut) is verdict

    @pytest.mark.parametrize(("start", "verdict"), [(59, ClaimState.CONFIRMED), (60, ClaimState.DISMISSED)])
    def test_what_is_left_above_the_log_start_proves_it(self, start: int, verdict: ClaimState) -> None:
        trimmed = replica(2, log_start_offset=start, epoch_ends={3: start})
        assert outcome_of(self.claim, replica(1), trimmed) is verdict

    def test_a_place_that_was_shown_up_to_is_never_below_the_claim(self) -> None:
        wrong = replace(self.claim, recorded=RecordedByViews(epochs={2: "3"}, shown_to={2: "7"}))
        assert outcome_of(wrong, replica(1), replica(2, epoch_ends={3: 50})) is ClaimState.CONFIRMED
        assert outcome_of(wrong, replica(1), replica(2, epoch_ends={3: 51})) is ClaimState.DISMISSED


def test_committed_records_lost_on_every_replica_are_reported_although_the_replicas_agree() -> None:
    cut = {"log_end_offset": 50, "high_watermark": 50, "epoch_ends": {3: 50}}
    assert outcome_of(truncated(), replica(1, **cut), replica(2, **cut)) is ClaimState.CONFIRMED


def test_a_replica_that_copies_its_log_again_is_waited_for() -> None:
    cut = replica(2, log_end_offset=40, high_watermark=40)
    answers = Answers({1: replica(1), 2: cut}, leader=1, isr=(1, 3))
    assert decide(truncated(), answers).verdict is ClaimState.PENDING
    assert decide(truncated(), replace(answers, isr=(1, 2, 3))).verdict is ClaimState.CONFIRMED


def test_what_retention_has_deleted_is_no_longer_reported_as_truncated() -> None:
    gone = replica(2, log_start_offset=60, epoch_ends={3: 50})
    decision = decide(truncated(), Answers({1: replica(1), 2: gone}))
    assert decision.verdict is ClaimState.DISMISSED
    assert decision.reason == "offset 50 is below the log start of broker 2", "the last that was lost"


def test_a_log_that_begins_where_it_had_been_read_to_has_nothing_left_to_prove_it() -> None:
    for start, found in ((51, ClaimState.DISMISSED), (50, ClaimState.CONFIRMED)):
        gone = replica(2, log_start_offset=start, epoch_ends={3: 50})
        assert outcome_of(truncated(), replica(1), gone) is found


def test_a_verdict_says_which_record_was_lost_last() -> None:
    assert decide(truncated(), Answers({1: replica(1), 2: replica(2, epoch_ends={3: 50})})).lost == Place(50, 3)
