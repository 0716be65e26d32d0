"""What an acknowledgement says, and what is worse than what was acknowledged."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from parallax.findings.acknowledge import acknowledged
from parallax.findings.acknowledgement import (
    Acknowledgement,
    Gravity,
    acknowledgement_of,
    is_by_a_person,
    status_of,
    still_acknowledged,
    worsened,
)
from parallax.findings.finding import Finding
from parallax.model import NOBODY, FindingKind, FindingStatus, Severity
from tests.builders.findings import finding

AT = datetime(2026, 1, 2, 4, tzinfo=UTC)
WRONG = FindingKind.ABORTED_RECORD_COMMITTED


def sides(**shown: list[int]) -> str:
    return json.dumps({"sides": shown})


SPREAD = replace(finding("a"), status=FindingStatus.SPREAD, exposed=True, evidence='{"resolution": "spread"}')
UNSETTLED = replace(finding("a"), status=FindingStatus.UNSETTLED, evidence='{"resolution": "agreed"}')
OUTCOME = replace(finding("a"), kind=WRONG, evidence=sides(committed=[2], aborted=[1, 3]))


@pytest.mark.parametrize(
    ("reason", "said"), [("INC-42", "INC-42."), ("We know.", "We know."), ("why?", "why?"), ("bis März…", "bis März…")]
)
def test_what_a_person_gave_as_the_reason_is_a_sentence_of_its_own(reason: str, said: str) -> None:
    known = acknowledged(finding("a"), reason, "ann", AT)
    assert known.summary == f"{finding('a').summary} Acknowledged by ann: {said}"
    assert acknowledgement_of(known) == Acknowledgement("ann", reason, AT), "its words are kept"


def test_an_acknowledgement_says_who_why_and_when() -> None:
    said = acknowledgement_of(acknowledged(finding("a"), "known since March", "ann", AT))
    assert said == Acknowledgement("ann", "known since March", AT)
    assert acknowledgement_of(finding("a")) is None
    bare = acknowledgement_of(replace(finding("a"), status=FindingStatus.ACKNOWLEDGED))
    assert bare == Acknowledgement("somebody", "no reason given", finding("a").decided_at)


@pytest.mark.parametrize("known", [finding("a"), SPREAD, UNSETTLED])
def test_an_acknowledged_finding_keeps_the_status_that_it_had(known: Finding) -> None:
    assert status_of(acknowledged(known, "known", "ann", AT)) is known.status


@pytest.mark.parametrize(
    ("known", "now", "words"),
    [
        (finding("a"), replace(finding("a"), exposed=True), "the leader shows it"),
        (finding("a"), SPREAD, "every replica that answered shares it, the leader shows it"),
        (SPREAD, finding("a"), "the replicas differ again"),
        (UNSETTLED, finding("a"), "the replicas differ again"),
        (
            replace(finding("a"), kind=FindingKind.MARKER_MISSING, severity=Severity.WARNING),
            OUTCOME,
            "it is aborted_record_committed, not marker_missing",
        ),
        (replace(finding("a"), broker=NOBODY), finding("a"), "broker 2 is proven to be wrong"),
        (finding("a"), replace(finding("a"), broker=NOBODY), "nothing proves any more who is wrong"),
        (OUTCOME, replace(OUTCOME, evidence=sides(committed=[2, 3], aborted=[1])), "broker 3 shows the same"),
        (
            OUTCOME,
            replace(OUTCOME, evidence=json.dumps({**json.loads(OUTCOME.evidence), "blocked_at": 7})),
            "it holds back consumers in read_committed",
        ),
    ],
)
def test_a_finding_that_is_worse_than_what_was_acknowledged_asks_again_and_says_in_what(
    known: Finding, now: Finding, words: str
) -> None:
    was = acknowledged(known, "known", "ann", AT)
    event = worsened(now, was)
    assert event is not None
    assert event.is_open
    assert event.summary.endswith(f" Worse than when ann acknowledged it: {words}.")


@pytest.mark.parametrize(
    ("known", "now"),
    [
        (finding("a"), finding("a")),
        (replace(finding("a"), exposed=True), finding("a")),
        (finding("a"), UNSETTLED),
        (SPREAD, SPREAD),
        (OUTCOME, replace(OUTCOME, evidence=sides(committed=[2], aborted=[1]))),
        (OUTCOME, replace(OUTCOME, kind=FindingKind.MARKER_MISSING)),
    ],
)
def test_an_acknowledgement_holds_while_the_finding_is_no_worse(known: Finding, now: Finding) -> None:
    assert worsened(now, acknowledged(known, "known", "ann", AT)) is None


def test_what_is_less_grave_for_a_time_is_still_measured_by_what_was_acknowledged() -> None:
    shown = replace(OUTCOME, exposed=True, evidence=sides(committed=[2, 3], aborted=[1]))
    known = acknowledged(shown, "known", "ann", AT)
    assert is_by_a_person(known)
    since = still_acknowledged(OUTCOME, known)
    assert not is_by_a_person(since)
    assert acknowledgement_of(since) == acknowledgement_of(known)
    assert Gravity.of(since) == Gravity.of(OUTCOME)
    assert worsened(shown, since) is None
    assert worsened(replace(shown, broker=NOBODY), since) is not None
    again = still_acknowledged(shown, since)
    assert again.summary == known.summary


def test_an_incident_is_worse_when_it_counts_more_though_the_replicas_agree() -> None:
    known = Gravity(FindingKind.RECORD_MISSING, FindingStatus.UNSETTLED, 2, is_exposed=False, count=40)
    assert replace(known, count=41).worse_than(known) == ["it counts 41, not 40"]
    assert replace(known, count=39).worse_than(known) == []
