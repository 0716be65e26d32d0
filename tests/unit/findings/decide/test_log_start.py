"""What a probe's answers prove of a log's beginning."""

from __future__ import annotations

from dataclasses import replace

from parallax.findings.answers import Answers
from parallax.findings.decide import Resolution, Verdict, decide
from parallax.model import FindingKind
from tests.unit.findings.decide.answered import claim, outcome_of, replica, silent

CLAIM = claim(FindingKind.LOG_HEAD_MISSING, offset=5)


def test_a_log_that_begins_above_another_has_lost_its_head() -> None:
    lost = replica(2, log_start_offset=5)
    assert outcome_of(CLAIM, replica(1), lost, replica(3)) is Verdict.CONFIRMED
    assert outcome_of(CLAIM, replica(1), lost, silent(3)) is Verdict.CONFIRMED
    assert outcome_of(CLAIM, replica(1), replica(2, log_start_offset=9), replica(3)) is Verdict.CONFIRMED


def test_one_that_was_copied_again_has_it_back() -> None:
    assert outcome_of(CLAIM, replica(1), replica(2), replica(3)) is Verdict.DISMISSED


def test_one_that_begins_lower_than_it_did_and_still_above_another_lacks_its_head_still() -> None:
    for starts in ((0, 4, 0), (3, 4, 0)):
        given = (replica(b, log_start_offset=start) for b, start in zip((1, 2, 3), starts, strict=True))
        assert outcome_of(CLAIM, *given, live_only=True) is Verdict.CONFIRMED


def test_what_no_log_holds_any_more_is_lost_on_all_and_not_healed() -> None:
    answers = Answers({b: replica(b, log_start_offset=5) for b in (1, 2, 3)})
    decision = decide(CLAIM, answers)
    assert (decision.verdict, decision.resolution) == (Verdict.DISMISSED, Resolution.SPREAD)


def test_a_replica_that_may_still_hold_it_is_waited_for() -> None:
    assert (
        outcome_of(CLAIM, replica(1, log_start_offset=5), replica(2, log_start_offset=5), silent(3)) is Verdict.PENDING
    )


def test_what_is_lost_on_all_stays_lost() -> None:
    answers = Answers({b: replica(b, log_start_offset=5) for b in (1, 2, 3)})
    decision = decide(replace(CLAIM, spread=True), answers, live_only=True)
    assert (decision.verdict, decision.resolution) == (Verdict.DISMISSED, Resolution.SPREAD)
