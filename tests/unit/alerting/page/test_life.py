"""The time line of a finding."""

from __future__ import annotations

import json
from datetime import timedelta

from parallax.alerting.page.life import moments, phases
from parallax.findings.finding import Finding
from parallax.model import NOBODY, FindingStatus
from tests.builders.findings import AT, finding

BEGAN = AT


def event(seconds: int, status: FindingStatus = FindingStatus.CONFIRMED, **more: object) -> Finding:
    evidence = {"asked_at_ms": int(BEGAN.timestamp() * 1000) + seconds * 1000 - 1000} | dict(more.pop("evidence", {}))  # type: ignore[call-overload]
    at = BEGAN + timedelta(seconds=seconds)
    return finding(status=status, decided_at=at, evidence=json.dumps(evidence), **more)


ANSWERED = {
    "replicas": {
        "1": {"asked": [17], "key": {"visible": None, "complete": True}},
        "2": {"asked": [17, 19], "open_transactions": []},
        "3": {"error": "refused"},
    },
    "coordinator": {"state": "CompleteCommit"},
}


def test_each_thing_that_happened_has_its_time_and_how_long_it_took() -> None:
    life = moments([event(9), event(60, exposed=True), event(7200, FindingStatus.ACKNOWLEDGED, exposed=True)])
    assert [(one.what, one.later) for one in life] == [
        ("suspected", ""),
        ("confirmed", "9 s later"),
        ("confirmed", "60 s later"),
        ("seen by consumers", "60 s later"),
        ("acknowledged", "2 h later"),
    ]
    assert life[0].at == BEGAN


def test_it_says_when_consumers_see_it_no_more() -> None:
    life = moments([event(9, exposed=True), event(60)])
    assert [one.what for one in life][-1] == "no longer seen by consumers"
    ended = moments([event(9, exposed=True), event(60, FindingStatus.RESOLVED)])
    assert [one.what for one in ended] == ["suspected", "confirmed", "seen by consumers", "resolved"]


def test_without_direction_consumers_may_see_it_and_once_a_broker_is_accused_they_do() -> None:
    one, other = event(9, exposed=True, broker=NOBODY), event(60, exposed=True)
    assert [(m.what, m.text) for m in moments([one, other]) if "seen" in m.what] == [
        (
            "perhaps seen by consumers",
            "From this probe on it is known that one of the sides leads; whether it is wrong is not known.",
        ),
        ("seen by consumers", "From this probe on it is known that consumers can see it."),
    ]
    assert phases([one])[2].what == "perhaps seen by consumers"
    assert (phases([one, other])[2].what, phases([one, other])[2].at) == ("seen by consumers", other.decided_at)


def test_a_repair_is_told_from_other_ends() -> None:
    for resolution, what in (("healed", "repaired"), ("evidence_deleted", "resolved"), ("object_gone", "gone")):
        resolved = event(60, FindingStatus.RESOLVED, evidence={"resolution": resolution})
        assert moments([event(9), resolved])[-1].what == what
        assert phases([event(9), resolved])[-1].what == what


def test_it_says_who_was_asked_for_what() -> None:
    said = moments([event(9, evidence=ANSWERED)])[-1].asked
    assert said.startswith("Asked 2026-01-02 03:04:13Z: brokers 1 and 2 answered; broker 3 did not; ")
    assert "asked for offsets 17, 19, the newest record of the key, open transactions, the ends of the log" in said
    assert said.endswith("the transaction coordinator said CompleteCommit.")


def test_nobody_was_asked_for_an_acknowledgement() -> None:
    assert moments([event(9, FindingStatus.ACKNOWLEDGED, evidence=ANSWERED)])[-1].asked == ""


def test_what_has_not_happened_is_said_to_be_so() -> None:
    at = BEGAN + timedelta(seconds=9)
    assert [(one.what, one.at, one.otherwise) for one in phases([event(9)])] == [
        ("suspected", BEGAN, "not yet"),
        ("confirmed", at, "no"),
        ("led by a wrong replica", None, "no"),
        ("acknowledged", None, "not yet"),
        ("resolved", None, "not yet"),
    ]
