"""What an event says of a finding: whether consumers see it, and where a log was truncated."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from parallax.evidence.atoms import Place
from parallax.findings.alike import beside, is_exposed, meeting
from parallax.findings.answers import Answers, KeyShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, Decision, Resolution
from parallax.findings.finding import claim_of, made, showed_in
from parallax.findings.summary import summary
from parallax.model import NOBODY, UNKNOWN, FindingKind, FindingStatus
from parallax.sides import Shows, Side, parsed
from tests.builders.answers import record, shows, silent
from tests.builders.claims import of_key, of_offset

SIDES = parsed({"no value": [1], "value at offset 4": [2, 3]})


def claimed(decision: Decision) -> Claim:
    return of_key(decision.kind, offset=10)


@pytest.mark.parametrize(
    ("accused", "leader", "exposed"),
    [
        (2, 2, True),
        (2, 3, True),
        (2, 1, False),
        (2, 4, False),
        (2, UNKNOWN, False),
        (NOBODY, 1, True),
        (NOBODY, 3, True),
        (NOBODY, 4, False),
        (NOBODY, UNKNOWN, False),
    ],
)
def test_consumers_see_what_the_leader_shows_as_the_accused_does(accused: int, leader: int, exposed: bool) -> None:
    decision = Decision(ClaimState.CONFIRMED, FindingKind.RECORD_MISSING, "r", accused=accused, sides=SIDES)
    assert is_exposed(accused, claimed(decision), decision, Answers({}, leader=leader)) is exposed


@pytest.mark.parametrize(("stable", "alike"), [(100, {3}), (10, set())], ids=["past the record", "not yet"])
def test_who_shows_an_older_value_than_a_hidden_record_as_the_accused_does_shows_the_same(
    stable: int, alike: set[int]
) -> None:
    """Broker 3 is a copy of the accused from which the record is cleaned, so that it shows no outcome of it."""
    claim = replace(of_key(FindingKind.COMMITTED_RECORD_ABORTED, offset=10), recorded=RecordedByViews(beside=(4, 5)))
    sides = {Side(Shows.ABORTED): (2,), Side(Shows.COMMITTED): (1,)}
    decision = Decision(ClaimState.CONFIRMED, claim.kind, "r", accused=2, sides=sides)
    older, asked = record(4, producer_id=-1), {"asked": frozenset({10})}
    given = [shows(1, None, **asked), shows(2, older, **asked), silent(4)]
    given.append(shows(3, older, last_stable_offset=stable, **asked))
    assert beside(claim, decision, Answers({answer.broker: answer for answer in given})) == alike | {4}


def test_who_lacks_the_value_that_the_accused_lacks_shows_the_same_without_the_record() -> None:
    """The index of broker 2 was wrong, and its cleaner took the value; broker 1 is no better, and leads."""
    sides = {Side(Shows.SOME_VALUE): (3,), Side(Shows.NO_VALUE): (2,)}
    decision = Decision(ClaimState.CONFIRMED, FindingKind.OUTCOME_CONTRADICTS_MARKER, "r", accused=2, sides=sides)
    given = [shows(1, None), shows(2, None), shows(3, record(4, producer_id=-1))]
    answers = Answers({answer.broker: answer for answer in given}, leader=1)
    claim = claimed(decision)
    assert is_exposed(2, claim, decision, answers)
    assert not is_exposed(2, claim, decision, replace(answers, leader=3))
    assert meeting(2, claim, decision, answers) == {1, 2}
    assert "Broker 1 leads the partition and shows the same: consumers" in summary(claim, decision, answers)


def test_an_accused_that_leads_exposes_itself_though_no_side_is_known() -> None:
    decision = Decision(ClaimState.CONFIRMED, FindingKind.LOG_TRUNCATED, "r", accused=2)
    assert is_exposed(2, claimed(decision), decision, Answers({}, leader=2))


@pytest.mark.parametrize(
    ("own", "leading", "exposed"),
    [
        ({4: 20}, {4: 20}, True),
        ({4: 20}, {4: 10}, True),
        ({4: 20}, {4: None}, True),
        ({4: 20}, {4: 24}, True),
        ({4: 20}, {4: 30}, False),
        ({4: 20}, {}, False),
        ({}, {4: 20}, True),
        ({4: None}, {4: 20}, True),
        ({4: 20, 6: 40}, {4: 20, 6: 50}, True),
        ({4: 20, 6: None}, {4: 20, 6: 50}, True),
    ],
    ids=[
        "as far",
        "less far",
        "not at all",
        "further, and not as far as was shown",
        "further",
        "unknown",
        "not asked",
        "not known",
        "newer",
        "newer elsewhere",
    ],
)
def test_what_was_truncated_is_missed_on_a_leader_whose_log_ends_that_epoch_as_far(
    own: dict[int, int | None], leading: dict[int, int | None], exposed: bool
) -> None:
    decision = Decision(ClaimState.CONFIRMED, FindingKind.LOG_TRUNCATED, "r", accused=2, lost=Place(24, 4))
    replicas = {b: ReplicaAnswer(b, epoch_ends=e, log_end_offset=100) for b, e in ((1, leading), (2, own))}
    assert is_exposed(2, claimed(decision), decision, Answers(replicas, leader=1)) is exposed


@pytest.mark.parametrize(("isr", "log_end", "exposed"), [((1, 2), 40, True), ((1,), 40, False), ((1, 2), 20, False)])
def test_truncated_records_are_missed_on_the_leader_whose_newer_epoch_is_in_sync(
    isr: tuple[int, ...], log_end: int, exposed: bool
) -> None:
    decision = Decision(ClaimState.CONFIRMED, FindingKind.LOG_TRUNCATED, "r", accused=2, lost=Place(24, 4))
    own = ReplicaAnswer(2, epoch_ends={4: 20}, log_end_offset=log_end)
    replicas = {1: ReplicaAnswer(1, epoch_ends={4: 30}, log_end_offset=50), 2: own}
    assert is_exposed(2, claimed(decision), decision, Answers(replicas, leader=1, isr=isr)) is exposed


@pytest.mark.parametrize(("leading", "exposed"), [(5, True), (7, True), (4, False), (None, False)])
def test_a_lost_head_is_missed_on_a_leader_whose_log_begins_as_late(leading: int | None, exposed: bool) -> None:
    decision = Decision(ClaimState.CONFIRMED, FindingKind.LOG_HEAD_MISSING, "r", accused=2, lost_below=5)
    away = silent(1)
    leader = away if leading is None else ReplicaAnswer(1, log_start_offset=leading)
    replicas = {1: leader, 2: ReplicaAnswer(2, log_start_offset=5)}
    assert is_exposed(2, claimed(decision), decision, Answers(replicas, leader=1)) is exposed


@pytest.mark.parametrize(("shown", "exposed"), [(3, True), (4, False), (None, False)])
def test_consumers_of_a_frozen_leader_see_a_deleted_value_that_it_shows_as_well(
    shown: int | None, exposed: bool
) -> None:
    """It stands on no side, for it has not come to the tombstone."""

    def shows(broker: int, offset: int | None) -> ReplicaAnswer:
        value = None if offset is None else RecordShown(offset, "none", value_size=5)
        return ReplicaAnswer(broker, key=KeyShown(value, True))

    replicas = {1: shows(1, shown), 2: shows(2, 3), 3: shows(3, None)}
    sides = parsed({"no value": [3], "value at offset 3": [2]})
    decision = Decision(ClaimState.CONFIRMED, FindingKind.DELETED_RECORD_RESURRECTED, "", accused=2, sides=sides)
    assert is_exposed(2, claimed(decision), decision, Answers(replicas, leader=1)) is exposed


def test_a_leader_on_no_side_that_was_seen_to_show_it_is_remembered_until_it_is_over() -> None:
    claim = of_offset(FindingKind.LOG_TRUNCATED, offset=20, recorded=RecordedByViews(epochs={2: "4"}))
    decision = Decision(ClaimState.CONFIRMED, claim.kind, "r", accused=2, lost=Place(24, 4))
    replicas = {b: ReplicaAnswer(b, epoch_ends={4: 20}, log_end_offset=100) for b in (1, 2)}
    over = Decision(ClaimState.DISMISSED, claim.kind, "r", resolution=Resolution.HEALED)
    known, found = None, []
    for status, said, leader in (
        (FindingStatus.CONFIRMED, decision, 3),
        (FindingStatus.CONFIRMED, decision, 1),
        (FindingStatus.RESOLVED, over, 3),
    ):
        known = made("f", status, claim, said, Answers(replicas, leader=leader), known, datetime.now(UTC))
        found.append(sorted(showed_in(known)))
    assert found == [[2], [1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("ends", "named"), [({4: 20}, 20), ({4: 40}, 30), ({4: None}, 30), ({}, 30)], ids=["below", "above", "none", "not"]
)
def test_a_truncated_log_is_named_by_where_the_epoch_ends_that_it_was_read_in(
    ends: dict[int, int | None], named: int
) -> None:
    recorded = RecordedByViews(epochs={2: "4"}, shown_to={2: "50"})
    claim = of_offset(FindingKind.LOG_TRUNCATED, offset=30, recorded=recorded)
    decision = Decision(ClaimState.CONFIRMED, FindingKind.LOG_TRUNCATED, "r", accused=2, lost=Place(24, 4))
    answers = Answers({2: ReplicaAnswer(2, epoch_ends=ends)})
    event = made("f", FindingStatus.CONFIRMED, claim, decision, answers, None, datetime.now(UTC))
    assert (event.offset, claim_of(event).offset, claim_of(event).lost_to) == (named, named, 50)
    assert f"truncated to offset {named}:" in event.summary


def test_the_record_that_a_finding_is_about_stays_the_same_when_it_is_over() -> None:
    """A deletion at offset 1 was missed by broker 2, which shows the value at offset 0."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    c = of_key(FindingKind.DELETED_RECORD_RESURRECTED, offset=1)
    value = KeyShown(RecordShown(0, "committed", value_size=5), True, 0, 0)
    back = Answers({2: ReplicaAnswer(2, key=value), 1: ReplicaAnswer(1, key=KeyShown(None, True, 1, 0))}, leader=1)
    gone = Answers({b: ReplicaAnswer(b, key=KeyShown(None, True, 1, 0)) for b in (1, 2)}, leader=1)
    newer = Answers(
        {b: ReplicaAnswer(b, key=replace(value, visible=RecordShown(9, "committed", value_size=5))) for b in (1, 2)}
    )
    sure = Decision(ClaimState.CONFIRMED, c.kind, "r", accused=2, sides={Side(Shows.NO_VALUE): (1,)})
    over = Decision(ClaimState.DISMISSED, c.kind, "r")
    confirmed = made("f", FindingStatus.CONFIRMED, c, sure, back, None, at)
    assert confirmed.record_offset == 0
    for answers in (gone, newer):
        unsettled = made("f", FindingStatus.UNSETTLED, c, over, answers, confirmed, at)
        resolved = made("f", FindingStatus.RESOLVED, c, over, answers, unsettled, at)
        assert [unsettled.record_offset, resolved.record_offset] == [0, 0]
    again = made("f", FindingStatus.CONFIRMED, c, sure, replace(newer, leader=1), resolved, at)
    assert again.record_offset == 9
