"""How a finding is named in one line."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from parallax.alerting.listing import FindingState, headline, over_in_words, what_came_of_it
from parallax.findings.decide import Resolution
from parallax.findings.decide.case import UNSETTLED
from parallax.findings.in_brief import Seen, seen, was_in_words
from parallax.kinds import Variant
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.shell import Shell
from tests.builders.findings import evidence, finding

STATUS = {FindingState.SPREAD: FindingStatus.SPREAD, FindingState.UNSETTLED: FindingStatus.UNSETTLED}


@pytest.mark.parametrize("kind", FindingKind)
@pytest.mark.parametrize("state", FindingState)
def test_the_headline_names_broker_and_partition(kind: FindingKind, state: FindingState) -> None:
    said = headline(state, finding(kind=kind, status=STATUS.get(state, FindingStatus.CONFIRMED)))
    assert ("every replica" if state is FindingState.SPREAD else "broker 2") in said.lower()
    assert "orders-0" in said


def test_of_what_every_replica_shows_the_titles_accuse_no_single_one() -> None:
    deletion = evidence({}, variant=str(Variant.DELETION))
    one = finding(kind=FindingKind.ABORTED_RECORD_COMMITTED, status=FindingStatus.SPREAD, evidence=deletion)
    shown = "Every replica {} a rolled-back deletion of orders-0 as committed"
    assert headline(FindingState.SPREAD, one) == shown.format("shows")
    over = evidence({}, variant=str(Variant.DELETION), had_spread=True, resolution=str(Resolution.SUPERSEDED))
    one = replace(one, status=FindingStatus.RESOLVED, evidence=over)
    assert over_in_words(was_in_words(one), one) == f"{shown.format('showed')}; it was overwritten"


def test_a_freeze_holds_back_consumers_where_they_meet_it_and_else_says_how_it_stays_so() -> None:
    said = {state: headline(state, finding(kind=FindingKind.READ_COMMITTED_FROZEN)) for state in FindingState}
    for state in (FindingState.EXPOSED, FindingState.SPREAD):
        assert "read_committed stands still" in said[state]
        assert "keep it" not in said[state]
    assert said[FindingState.CONFIRMED].endswith(": keep it from leading, or read_committed stands still")


@pytest.mark.parametrize("state", FindingState)
def test_where_nobody_is_accused_it_names_the_kind_and_no_broker(state: FindingState) -> None:
    said = headline(state, finding(kind=FindingKind.VISIBILITY_MISMATCH, broker=NOBODY))
    assert said.startswith("Replicas of orders-0 ")
    assert "(visibility_mismatch" in said
    assert "nothing proves" in said or "no replica is known to be right" in said
    assert "roker" not in said


def test_of_replicas_that_agree_by_now_nothing_is_said_to_stand() -> None:
    said = headline(FindingState.UNSETTLED, finding())
    assert said == (
        "Replicas of orders-0 differed; nothing proves one wrong or right now (deleted_record_resurrected, broker 2)"
    )


@pytest.mark.parametrize(
    ("kind", "broker", "leader", "leads"),
    [
        (FindingKind.DELETED_RECORD_RESURRECTED, 2, 1, "the leader is wrong"),
        (FindingKind.VISIBILITY_MISMATCH, NOBODY, 2, "the leader may be wrong"),
        (FindingKind.OUTCOME_CONTRADICTS_MARKER, 2, 1, "the leader may be wrong"),
        (FindingKind.OUTCOME_CONTRADICTS_MARKER, 2, 2, "the leader is wrong"),
    ],
)
def test_that_the_leader_is_wrong_is_said_only_where_it_is_known(
    kind: FindingKind, broker: int, leader: int, leads: str
) -> None:
    one = finding(kind=kind, broker=broker, exposed=True, evidence=evidence({}, leader=leader))
    assert seen(one) is (Seen.YES if leads == "the leader is wrong" else Seen.PERHAPS)
    assert f"; {leads}" in headline(FindingState.EXPOSED, one)
    assert "leader" not in headline(FindingState.CONFIRMED, one)


@pytest.mark.parametrize("kind", FindingKind)
@pytest.mark.parametrize("state", FindingState)
@pytest.mark.parametrize("broker", [2, NOBODY])
def test_a_first_line_is_short_enough_for_a_pager(kind: FindingKind, state: FindingState, broker: int) -> None:
    for variant in Variant:
        status = STATUS.get(state, FindingStatus.CONFIRMED)
        one = finding(kind=kind, broker=broker, status=status, evidence=evidence({}, variant=str(variant)))
        assert len(headline(state, one)) <= 115


def test_that_replicas_differ_is_in_the_past_once_none_is_known_to_differ() -> None:
    said = headline(FindingState.SPREAD, finding(kind=FindingKind.CONTENT_MISMATCH, broker=NOBODY))
    assert said == "Replicas of orders-0 differed; no replica is known to be right (content_mismatch)"


@pytest.mark.parametrize("how", [how for how in Resolution if how not in (Resolution.SPREAD, *UNSETTLED)])
def test_what_is_resolved_says_in_its_first_line_how_it_ended(how: Resolution) -> None:
    of_it = evidence({}, resolution=str(how), reason="broker 2 holds no replica of orders-0 any more")
    ended = finding(status=FindingStatus.RESOLVED, evidence=of_it)
    said = over_in_words(was_in_words(ended), ended)
    assert said.endswith("; broker 2 holds no replica of orders-0 any more") == (how is Resolution.GONE)
    assert said.startswith("Broker 2 still showed a deleted record of orders-0; ")
    assert ("agree again" in said) == (how is Resolution.HEALED)
    assert "that is over" not in said


@pytest.mark.parametrize("kind", FindingKind)
@pytest.mark.parametrize("variant", Variant)
def test_what_is_over_has_the_words_of_its_headline_in_the_past(kind: FindingKind, variant: Variant) -> None:
    one = finding(kind=kind, evidence=evidence({}, variant=str(variant)))
    was = was_in_words(one)
    assert "roker 2" in was
    first = headline(FindingState.CONFIRMED, one)
    assert kind is FindingKind.LOG_TRUNCATED or not first.startswith(was)
    assert not re.search(r"\b(shows?|lacks?|hides?|holds?|takes?|says?|is|has)\b", was), was
    nobody = was_in_words(replace(one, broker=NOBODY))
    assert nobody == f"Replicas of orders-0 differed ({kind})"


def test_the_end_of_what_may_have_been_read_names_the_command_that_shows_by_whom() -> None:
    read = finding("f0f0f0f0f0", summary="Over.", evidence='{"was_readable": true}')
    shell = Shell(config="/etc/p.yaml")
    command = "parallax findings readers f0f0f0f0 -c /etc/p.yaml"
    assert what_came_of_it(read, shell) == f"Over. Which groups may have read it: {command}"
    for unknown in ("{}", '{"was_readable": null}'):
        said = what_came_of_it(replace(read, evidence=unknown), shell)
        assert said == f"Over. Whether consumers could read it is not known; which groups may have: {command}"
    nobody = replace(read, evidence='{"was_readable": false}')
    frozen = replace(read, kind=FindingKind.READ_COMMITTED_FROZEN)
    ends = [
        f'{{"was_readable": true, "resolution": "{how}"}}' for how in ("object_gone", "explained", "part_of_incident")
    ]
    over = [replace(read, status=FindingStatus.RESOLVED, evidence=end) for end in ends]
    for one in (nobody, frozen, *over):
        assert what_came_of_it(one, shell) == one.summary


def test_no_word_of_a_text_says_whether_what_is_over_may_have_been_read() -> None:
    text = "Consumers that read it there could read it. No replica led that was seen to show it."
    for known, ends in ((True, "Which groups"), (False, "to show it.")):
        one = finding(summary=text, evidence=f'{{"was_readable": {str(known).lower()}}}')
        assert ends in what_came_of_it(one, Shell())


@pytest.mark.parametrize("how", [Resolution.PART, Resolution.EXPLAINED])
def test_what_another_finding_reports_is_not_said_to_be_over(how: Resolution) -> None:
    ended = finding(status=FindingStatus.RESOLVED, evidence=evidence({}, resolution=str(how)))
    said = over_in_words(was_in_words(ended), ended)
    assert said.endswith("reports it now")
    assert "over" not in said
