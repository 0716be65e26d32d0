"""What a probe's answers prove of a log's beginning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.findings.answers import Answers, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide import ClaimState, Resolution, decide
from parallax.model import FindingKind
from tests.builders.answers import replica, silent
from tests.builders.claims import claim

CLAIM = claim(FindingKind.LOG_HEAD_MISSING, offset=5)
COMPACT, BOTH = "compact", "compact,delete"


def answered(*replicas: ReplicaAnswer, policy: str | None = COMPACT) -> Answers:
    return Answers({r.broker: r for r in replicas}, leader=1, cleanup_policy=policy)


def beginning(*starts: int, policy: str | None = COMPACT) -> Answers:
    given = (replica(broker, log_start_offset=start) for broker, start in zip((1, 2, 3), starts, strict=True))
    return answered(*given, policy=policy)


def outcome_of(known: Claim, *replicas: ReplicaAnswer, live_only: bool = False) -> ClaimState:
    return decide(known, answered(*replicas), live_only=live_only).verdict


def test_a_log_that_begins_above_another_has_lost_its_head() -> None:
    lost = replica(2, log_start_offset=5)
    assert outcome_of(CLAIM, replica(1), lost, replica(3)) is ClaimState.CONFIRMED
    assert outcome_of(CLAIM, replica(1), lost, silent(3)) is ClaimState.CONFIRMED
    assert outcome_of(CLAIM, replica(1), replica(2, log_start_offset=9), replica(3)) is ClaimState.CONFIRMED


def test_one_that_was_copied_again_has_it_back() -> None:
    assert outcome_of(CLAIM, replica(1), replica(2), replica(3)) is ClaimState.DISMISSED


def test_one_that_begins_lower_than_it_did_and_still_above_another_lacks_its_head_still() -> None:
    for starts in ((0, 4, 0), (3, 4, 0)):
        given = (replica(b, log_start_offset=start) for b, start in zip((1, 2, 3), starts, strict=True))
        assert outcome_of(CLAIM, *given, live_only=True) is ClaimState.CONFIRMED


def test_what_no_log_holds_any_more_is_lost_on_all_and_not_healed() -> None:
    answers = beginning(5, 5, 5)
    decision = decide(CLAIM, answers)
    assert (decision.verdict, decision.resolution) == (ClaimState.DISMISSED, Resolution.SPREAD)


def test_a_replica_that_may_still_hold_it_is_waited_for() -> None:
    assert (
        outcome_of(CLAIM, replica(1, log_start_offset=5), replica(2, log_start_offset=5), silent(3))
        is ClaimState.PENDING
    )


def test_what_is_lost_on_all_stays_lost() -> None:
    answers = beginning(5, 5, 5)
    decision = decide(replace(CLAIM, spread=True), answers, live_only=True)
    assert (decision.verdict, decision.resolution) == (ClaimState.DISMISSED, Resolution.SPREAD)


@pytest.mark.parametrize("policy", [BOTH, "delete", None])
@pytest.mark.parametrize("known", [CLAIM, replace(CLAIM, ended=True), replace(CLAIM, spread=True)])
def test_nothing_is_confirmed_where_a_policy_may_have_moved_a_log_start(known: Claim, policy: str | None) -> None:
    for starts in ((0, 6, 0), (0, 5, 0), (5, 5, 5)):
        for live_only in (False, True):
            decision = decide(known, beginning(*starts, policy=policy), live_only=live_only)
            assert decision.verdict is ClaimState.PENDING, starts


def test_a_finding_below_every_log_start_by_policy_is_over_neither_healed_nor_spread() -> None:
    for known in (CLAIM, replace(CLAIM, spread=True)):
        decision = decide(known, beginning(6, 6, 8, policy=BOTH), live_only=True)
        assert (decision.verdict, decision.resolution) == (ClaimState.DISMISSED, Resolution.DELETED)
        silence = answered(replica(1, log_start_offset=6), replica(2, log_start_offset=6), silent(3), policy=BOTH)
        assert decide(known, silence, live_only=True).verdict is ClaimState.PENDING


def test_a_head_that_was_put_right_is_not_missing_again_for_a_start_that_has_moved_since() -> None:
    ended = replace(CLAIM, ended=True)
    for starts in ((0, 6, 0), (6, 6, 6)):
        assert decide(ended, beginning(*starts), live_only=True).verdict is ClaimState.PENDING
    assert decide(ended, beginning(0, 5, 0), live_only=True).verdict is ClaimState.CONFIRMED
    assert decide(CLAIM, beginning(0, 6, 0), live_only=True).verdict is ClaimState.CONFIRMED


def test_an_empty_log_holds_no_head_wherever_it_begins() -> None:
    empty, late = replica(3, log_start_offset=0, log_end_offset=0), replica(1, log_start_offset=5)
    lost = replica(2, log_start_offset=5)
    decision = decide(CLAIM, answered(late, lost, empty))
    assert (decision.verdict, decision.resolution) == (ClaimState.DISMISSED, Resolution.SPREAD)
    assert outcome_of(CLAIM, replica(1), lost, empty) is ClaimState.CONFIRMED


@pytest.mark.parametrize("spread", [False, True])
def test_a_log_that_is_empty_has_not_got_its_head_back(spread: bool) -> None:
    empty = replica(2, log_start_offset=0, log_end_offset=0)
    others = (replica(1, log_start_offset=5), replica(3, log_start_offset=5)) if spread else (replica(1), replica(3))
    assert outcome_of(replace(CLAIM, spread=spread), others[0], empty, others[1], live_only=True) is ClaimState.PENDING
    assert outcome_of(CLAIM, replica(1), replica(2), replica(3), live_only=True) is ClaimState.DISMISSED


def test_a_leader_whose_log_is_empty_shows_no_head_either() -> None:
    leading = replica(1, log_start_offset=0, log_end_offset=0)
    told = answered(leading, replica(2, log_start_offset=5), replica(3))
    assert told.leader_begins_as_late(5)
    assert not answered(replica(1), replica(2, log_start_offset=5)).leader_begins_as_late(5)


def test_a_leader_shares_the_loss_though_the_accused_has_lost_more_since() -> None:
    leading, accused = replica(1, log_start_offset=5), replica(2, log_start_offset=9)
    told = answered(leading, accused, replica(3, log_start_offset=5))
    assert decide(CLAIM, told).is_shared_by_leader(2, told)
    lower = answered(replica(1, log_start_offset=4), accused, replica(3))
    assert not decide(CLAIM, lower).is_shared_by_leader(2, lower)
