from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.ended import Repairs
from parallax.findings.exposure import (
    Came,
    Led,
    Reign,
    Span,
    affected,
    came,
    led_in_words,
    reigns,
    wrong_brokers,
    wrong_reigns,
)
from parallax.findings.finding import Finding
from parallax.findings.in_brief import ended_in_words
from parallax.findings.leading import may_lead
from parallax.findings.onset import SINCE_EPOCH, since_epoch
from parallax.findings.repair import show_record, show_seen
from parallax.kinds import Variant
from parallax.model import NOBODY, UNKNOWN, FindingKind, FindingStatus
from parallax.shell import ANYWHERE
from parallax.sides import parsed
from tests.builders.answers import NOTHING, answers, holding, newest, replica
from tests.builders.claims import claim
from tests.builders.findings import finding
from tests.unit.findings.floods import DIFFERS, END, Flood, flood, healthy, lost, resurrected, values
from tests.unit.findings.lives import COMMITTED_WRONGLY, RECHECK_S, START, Life, deleted, value
from tests.unit.findings.replies import wrong

AT = datetime(2026, 1, 2, tzinfo=UTC)
SHOWN = {"no value": [1, 3], "value at offset 17": [2]}


def evidence(**more: Any) -> str:
    return json.dumps({"sides": SHOWN, "replicas": {str(b): {} for b in (1, 2, 3)}} | more)


def row(leader: int, epoch: int, minute: int, until: int, began_at: int | None = None) -> dict[str, Any]:
    times = {"since": AT + timedelta(minutes=minute), "until": AT + timedelta(minutes=until)}
    return {"leader": leader, "leader_epoch": epoch, "began_at": began_at, **times}


def test_epochs_of_one_leader_are_one_time_and_a_time_without_leader_is_none() -> None:
    rows = [row(1, 4, 0, 5, 90), row(1, 5, 6, 8, 95), row(-1, 6, 9, 9), row(2, 7, 10, 20, 100), row(1, 8, 21, 30, None)]
    found = reigns(rows)
    assert [(one.broker, one.epochs, one.began_at) for one in found] == [
        (1, (4, 5), 90),
        (2, (7, 7), 100),
        (1, (8, 8), -1),
    ]
    assert (found[0].since, found[0].until) == (AT, AT + timedelta(minutes=8))


def test_a_reign_lies_between_the_looks_around_it_and_those_before_and_after() -> None:
    found = reigns([row(1, 4, 0, 5), row(-1, 5, 6, 9), row(2, 6, 10, 20), row(1, 7, 21, 30)])
    minutes = [
        tuple(at and (at - AT).total_seconds() / 60 for at in (one.after, one.since, one.until, one.ended_by))
        for one in found
    ]
    assert minutes == [(None, 0, 5, 6), (9, 10, 20, 21), (20, 21, 30, None)]
    assert found[0].in_words() == (
        "led already at the first look on record, 2026-01-02 00:00:00Z, "
        "and stopped between 2026-01-02 00:04:50Z and 2026-01-02 00:06:00Z (leader epoch 4)"
    )
    assert found[2].in_words().endswith("led still at 2026-01-02 00:30:00Z (leader epoch 7)")
    assert (
        found[2]
        .in_words(AT + timedelta(minutes=29))
        .endswith("led still when it was over, 2026-01-02 00:29:00Z (leader epoch 7)")
    )


@pytest.mark.parametrize(
    ("fields", "brokers"),
    [
        ({}, {2}),
        ({"evidence": evidence(sides={"no value": [1], "value at offset 17": [2, 3]})}, {2, 3}),
        ({"broker": NOBODY}, {1, 2, 3}),
        ({"status": FindingStatus.SPREAD}, {1, 2, 3}),
        ({"status": FindingStatus.UNSETTLED}, {1, 2, 3}),
    ],
    ids=["the accused", "who shows the same", "no direction", "all share it", "unsettled"],
)
def test_consumers_may_have_read_wrongly_from_each_that_shows_it(fields: dict[str, Any], brokers: set[int]) -> None:
    assert wrong_brokers(finding("f1", **({"evidence": evidence()} | fields))) == brokers


def many(kind: FindingKind, **counted: Any) -> dict[str, Any]:
    return {"suspect_id": "", "kind": kind, "evidence": json.dumps({"incident": counted})}


@pytest.mark.parametrize(
    ("fields", "span"),
    [
        ({}, Span(17, 17)),
        ({"kind": FindingKind.LOG_TRUNCATED, "offset": 40}, Span(40, None)),
        ({"kind": FindingKind.LOG_HEAD_MISSING, "offset": 40}, Span(0, 39)),
        ({"kind": FindingKind.READ_COMMITTED_FROZEN, "transaction_start_offset": 12}, Span(12, None)),
        ({"evidence": '{"blocked_at": 9}'}, Span(9, None)),
        (many(FindingKind.RECORD_MISSING, count=5, lowest_offset=3, highest_offset=90), Span(3, 90)),
        (many(FindingKind.DELETED_RECORD_RESURRECTED, count=5, lowest_offset=3, highest_offset=90), Span(0, 89)),
        (many(FindingKind.RECORD_MISSING, lowest_offset=-1, highest_offset=-1, offsets_ever=[3, 90]), Span(3, 90)),
        (many(FindingKind.RECORD_MISSING, lowest_offset=-1, highest_offset=-1), Span(0, None)),
    ],
    ids=[
        *("one record", "a truncated log", "a lost beginning", "frozen", "an outcome that holds back"),
        *("an incident", "deletions that were missed", "an incident that is over", "of a version that forgot them"),
    ],
)
def test_the_offsets_that_are_wrong_are_those_of_the_finding(fields: dict[str, Any], span: Span) -> None:
    assert affected(finding("f1", **fields)) == span


def test_how_far_a_group_has_come_says_whether_it_can_have_read_what_is_wrong() -> None:
    wrong = [Reign(2, AT, AT, (7, 7), began_at=100)]
    spans = {17: Came.NOT_YET, 18: Came.PAST, 100: Came.PAST, 101: Came.PAST_SINCE}
    assert {at: came(at, Span(17, 17), wrong) for at in spans} == spans
    assert came(101, Span(17, 17), []) is Came.PAST, "no wrong replica led"
    assert came(101, Span(17, 17), [Reign(2, AT, AT, (7, 7))]) is Came.PAST, "where its log ended is not known"
    assert came(50, Span(17, 90), wrong) is Came.WITHIN
    assert [came(at, Span(17, None), wrong) for at in (17, 30, 130)] == [Came.NOT_YET, Came.PAST, Came.PAST_SINCE]


def test_when_a_wrong_replica_led_is_said_with_what_consumers_read_there() -> None:
    found = reigns([row(1, 4, 0, 9), row(2, 5, 10, 20), row(1, 6, 21, 30)])
    one = finding("f1", evidence=evidence())
    assert led_in_words(one, found).sentences[0] == (
        "Broker 2, which shows it, began to lead between 2026-01-02 00:08:50Z and 2026-01-02 00:10:00Z, "
        "and stopped between 2026-01-02 00:19:50Z and 2026-01-02 00:21:00Z (leader epoch 5)."
    )
    assert led_in_words(one, found).sentences[1].endswith("at offset 17.")
    assert led_in_words(one, found[:1]) == (
        ("By what is on record since 2026-01-02 00:00:00Z, no replica led that was seen to show it.",),
        "",
        False,
    )
    assert led_in_words(one, []) == Led()
    assert (
        "Broker 1, which may be wrong, led"
        in led_in_words(finding("f1", broker=NOBODY, evidence=evidence()), found).sentences[0]
    )


def test_what_is_over_is_in_the_past_where_nobody_was_proven_wrong_too() -> None:
    found = reigns([row(1, 4, 0, 9)])
    over = finding("f1", broker=NOBODY, status=FindingStatus.RESOLVED, evidence=evidence())
    assert led_in_words(over, found).sentences[0].startswith("Broker 1, which may have been wrong, led already")
    assert "could read" in led_in_words(over, found).sentences[-1]


def both_show(*_: Any) -> Answers:
    return answers(*(replica(b, END, key=newest(3) if b > 1 else NOTHING) for b in (1, 2, 3)), leader=3)


def reign_of(broker: int) -> list[Reign]:
    return [Reign(broker, START, START + timedelta(seconds=10), (4, 4))]


def test_a_leader_that_shared_what_was_wrong_is_named_while_it_is_and_once_it_is_over() -> None:
    life = Life().confirmed(value(), answering=both_show)
    found = life.last
    assert (found.broker, wrong_brokers(found)) == (2, {2, 3})
    assert led_in_words(found, reign_of(3)).sentences[0].startswith("Broker 3, which shows it, led")
    for _ in range(3):
        life.until_asked(deleted)
    over = next(one for one in reversed(life.table) if one.finding_id == found.finding_id)
    assert (over.stands, wrong_brokers(over)) == (False, {2, 3})
    assert led_in_words(over, reign_of(3)).sentences[0].startswith("Broker 3, which showed it, led")
    assert "no replica led" in led_in_words(over, reign_of(1)).sentences[0]


def all_show(c: Claim) -> Answers:
    return answers(*(holding(b, "committed") for b in (1, 2, 3)), leader=2)


def shown_by_all_at(seconds: float) -> Finding:
    """A finding whose replicas were last seen to differ 30 s before a time, and all to show it at that time."""
    life = Life().confirmed(claim(COMMITTED_WRONGLY), answering=wrong)
    while life.now < seconds - RECHECK_S:
        life.until_asked(wrong)
    life.until_asked(all_show)
    assert (life.last.status, life.now) == (FindingStatus.SPREAD, seconds)
    return life.last


def reign(broker: int, since: float, until: float, ended_by: float | None) -> Reign:
    end = None if ended_by is None else START + timedelta(seconds=ended_by)
    times = START + timedelta(seconds=since), START + timedelta(seconds=until)
    return Reign(broker, *times, (broker, broker), ended_by=end)


def test_a_leader_that_was_last_seen_to_show_otherwise_after_it_led_exposed_nobody() -> None:
    spread, led = shown_by_all_at(120), [reign(1, -60, 70, 85), reign(2, 85, 200, None)]
    for status in (FindingStatus.SPREAD, FindingStatus.RESOLVED):
        found = replace(spread, status=status)
        assert [one.broker for one in wrong_reigns(found, led)] == [2]
        said = led_in_words(found, led)
        assert (said.is_wrong, "Broker 1" in " ".join(said.sentences)) == (True, False)
        assert led_in_words(found, led[:1]) == (
            ("By what is on record since 2025-12-31 23:59:00Z, no replica led after it had begun to show it.",),
            "",
            False,
        )


def test_a_leader_that_may_have_come_to_show_it_is_named_with_when_it_last_did_not() -> None:
    spread, led = shown_by_all_at(120), [reign(1, -60, 95, 100)]
    said = led_in_words(spread, led)
    assert said.is_wrong is None
    assert said.sentences[0].startswith(
        "Broker 1, which showed otherwise at 2026-01-01 00:01:30Z and may have shown it after that, led already"
    )
    led = [reign(1, -60, 140, 150)]
    assert (
        led_in_words(spread, led)
        .sentences[0]
        .startswith(
            "Broker 1, which has shown it since a time between 2026-01-01 00:01:30Z and 2026-01-01 00:02:00Z, led"
        )
    )
    led = [reign(1, 125, 140, 150)]
    assert led_in_words(spread, led).sentences[0].startswith("Broker 1, which shows it, led")


def test_of_old_events_it_is_not_known_since_when_others_than_the_accused_showed_it() -> None:
    old = finding("f1", status=FindingStatus.RESOLVED, evidence=evidence(showed=[1, 2, 3]))
    led = [reign(1, -60, 95, 100), reign(2, 100, 200, None)]
    assert [one.partition(", led")[0] for one in led_in_words(old, led).reigns] == [
        "Broker 1, which may have shown it (it is not known since when it did)",
        "Broker 2, which showed it",
    ]
    assert led_in_words(old, led[:1]).is_wrong is None


def test_a_leader_that_shares_what_an_incident_reports_is_named_and_must_not_lead() -> None:
    (incident,) = (one for one in flood(range(40), both_show).open if one.is_incident)
    assert (incident.broker, incident.exposed, wrong_brokers(incident)) == (2, True, {2, 3})
    assert led_in_words(incident, reign_of(3)).sentences[0].startswith("Broker 3, which shows it, led")
    over = replace(incident, status=FindingStatus.RESOLVED)
    assert (
        led_in_words(over, reign_of(3))
        .sentences[-1]
        .startswith("Consumers that read it there could read what was deleted")
    )
    assert {broker: str(one.may) for broker, one in may_lead((1, 2, 3), [incident]).items()} == {
        1: "unknown",
        2: "unsafe",
        3: "unsafe",
    }


@pytest.mark.parametrize("count", [1, 40], ids=["a finding", "an incident"])
def test_a_leader_before_what_was_missed_was_written_is_not_said_to_have_shown_it(count: int) -> None:
    def missed(key: int, epoch: int) -> Claim:
        return lost(key, recorded=RecordedByViews(leader_epoch=epoch))

    life = Flood()
    life.suspect(*(missed(key, 6 if key else 5) for key in range(count)))
    life.settle(resurrected)
    life.after(RECHECK_S, healthy)
    end = next(one for one in reversed(life.table) if one.is_incident is (count > 1))
    assert end.status is FindingStatus.RESOLVED
    led = [replace(one, epochs=(epoch, epoch)) for epoch in (4, 5, 7) for one in reign_of(2)]
    assert [one.epochs[0] for one in wrong_reigns(end, led)] == [5, 7]


@pytest.mark.parametrize(("end_unproven", "since"), [(False, 6), (True, UNKNOWN)])
def test_an_end_marker_that_may_not_be_the_first_says_nothing_of_leaders_before_it(
    end_unproven: bool, since: int
) -> None:
    one = claim(COMMITTED_WRONGLY, recorded=RecordedByViews(leader_epoch=6, end_unproven=end_unproven))
    assert since_epoch(one.kind, [one], None) == since
    assert since_epoch(one.kind, [one], {SINCE_EPOCH: 4}) == min(since, 4)


def test_where_it_is_not_known_in_which_epoch_what_was_missed_was_written_each_leader_counts() -> None:
    life = Flood()
    life.suspect(*(lost(key, recorded=RecordedByViews(leader_epoch=6 if key else UNKNOWN)) for key in range(40)))
    (incident,) = (one for one in life.settle(resurrected).open if one.is_incident)
    assert wrong_reigns(incident, reign_of(2)) == reign_of(2)


def test_the_end_of_an_incident_says_where_its_members_were_wrong() -> None:
    life = flood(range(40), both_show)
    life.after(RECHECK_S, lambda claim: healthy(claim) if claim.key_hash_lo >= 20 else both_show(claim))
    life.after(RECHECK_S, healthy)
    end = next(one for one in reversed(life.table) if one.is_incident)
    assert end.status is FindingStatus.RESOLVED
    assert affected(end) == Span(0, 1_038), "the deletions lie at offsets 1000 to 1039"
    assert "what was deleted, below offset 1039" in led_in_words(end, reign_of(3)).sentences[-1]


def test_the_end_of_an_incident_names_the_repair_that_mended_it() -> None:
    life = Flood(repaired=lambda known: Repairs(mended=(f"Repair of {known.finding_id}.",)))
    life.suspect(*(lost(key) for key in range(40)))
    life.settle(resurrected)
    life.after(RECHECK_S, healthy)
    end = next(one for one in reversed(life.table) if one.is_incident)
    assert end.summary.endswith(f"Repair of {end.finding_id}.")
    assert ended_in_words(end) == "it was repaired"


def test_an_incident_is_shown_where_a_member_has_its_value() -> None:
    (incident,) = (one for one in flood(range(40)).open if one.is_incident)
    accused = incident.evidence
    shown = json.loads(accused)["proofs"][0]["replicas"]["2"]["key"]["visible"]["offset"]
    assert shown < affected(incident).last
    assert f"--offset {shown} " in f"{show_record(incident, ANYWHERE)} "


def test_of_an_incident_without_direction_each_replica_that_was_asked_may_be_wrong() -> None:
    life = Flood()
    sides = parsed({"value": (1, 3), "none": (2,)})
    life.suspect(*(lost(k, DIFFERS, broker=NOBODY, recorded=RecordedByViews(sides=sides, pivot=2)) for k in range(40)))
    (incident,) = (one for one in life.settle(one_lacks).open if one.is_incident)
    assert (incident.broker, wrong_brokers(incident)) == (NOBODY, {1, 2, 3})


def one_lacks(claim: Claim) -> Answers:
    return values(NOTHING, newest(claim.offset))


@pytest.mark.parametrize("variant", [Variant.OLDER, Variant.DELETED, Variant.UNDELETED])
def test_what_is_shown_elsewhere_is_not_said_to_be_read_at_the_findings_offset(variant: Variant) -> None:
    found = reigns([row(1, 4, 0, 9), row(2, 5, 10, 20)])
    replicas = {"1": {}, "2": {"key": {"visible": {"offset": 4, "value_size": 1}}}}
    said = evidence(variant=str(variant), replicas=replicas)
    one = finding("f1", kind=FindingKind.COMMITTED_RECORD_ABORTED, evidence=said)
    assert "offset" not in led_in_words(one, found).sentences[1]
    assert "--offset 4 " in show_seen(one, ANYWHERE), "where it is read"
    plain = replace(one, evidence=evidence(replicas=replicas))
    assert f"--offset {one.record_offset} " in show_seen(plain, ANYWHERE)
