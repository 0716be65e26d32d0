"""What explains a value: findings about transactions, for as long as they are looked at."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from parallax.findings import ledger as module
from parallax.findings.finding import Finding
from parallax.findings.ledger import FindingLedger
from parallax.model import NOBODY, FindingKind, FindingStatus
from tests.builders.claims import claim, unmarked
from tests.unit.findings.lives import COMMITTED_WRONGLY, Life, old_value, value
from tests.unit.findings.replies import agree, missing, wrong

OF_TRANSACTION = value(producer_id=7)


def confirmed() -> Finding:
    return Life().confirmed(claim(COMMITTED_WRONGLY), answering=wrong).last


def test_a_transaction_explains_a_value_until_it_is_looked_at_no_more() -> None:
    ledger, cause = FindingLedger(), confirmed()
    assert not ledger.has_cause_of(OF_TRANSACTION)
    ledger.add(cause)
    assert ledger.has_cause_of(OF_TRANSACTION)
    ledger.add(replace(cause, status=FindingStatus.RESOLVED))
    assert ledger.has_cause_of(OF_TRANSACTION), "it may come back"
    ledger.forget(cause.finding_id)
    assert not ledger.has_cause_of(OF_TRANSACTION)


def test_only_one_that_stands_is_a_cause_of_what_is_judged_now() -> None:
    ledger, cause = FindingLedger(), confirmed()
    ledger.add(cause)
    assert list(ledger.causes(cause.place)) == [cause.finding_id]
    ledger.add(replace(cause, status=FindingStatus.RESOLVED))
    assert ledger.causes(cause.place) == {}


def test_a_transaction_of_another_partition_explains_nothing() -> None:
    ledger = FindingLedger()
    ledger.add(confirmed())
    assert not ledger.has_cause_of(replace(OF_TRANSACTION, partition=1))


@pytest.mark.parametrize("names", [["one", "other"], "one"], ids=["both", "the one, as earlier versions wrote it"])
def test_a_dismissal_is_void_once_one_of_the_findings_that_it_leans_on_has_ended(names: list[str] | str) -> None:
    ledger, cause = FindingLedger(), confirmed()
    for name in ("one", "other"):
        ledger.add(replace(cause, finding_id=name, suspect_id=name))
    leaning = replace(
        cause,
        finding_id="s",
        suspect_id="s",
        status=FindingStatus.DISMISSED,
        evidence=json.dumps({"leans_on": names}),
    )
    assert ledger.add(leaning) == []
    other = ledger.add(replace(cause, finding_id="other", suspect_id="other", status=FindingStatus.RESOLVED))
    one = ledger.add(replace(cause, finding_id="one", suspect_id="one", status=FindingStatus.RESOLVED))
    assert [[c.suspect_id for c in freed] for freed in (other, one)] == ([["s"], []] if names != "one" else [[], ["s"]])
    assert all(c.freed for c in (*other, *one))
    assert [c.suspect_id for c in ledger.add(leaning)] == ["s"], "they have ended already"


def test_what_leans_on_an_incident_is_judged_again_once_that_has_ended() -> None:
    ledger, incident = FindingLedger(), replace(confirmed(), finding_id="many", suspect_id="")
    leaning = replace(
        confirmed(), finding_id="s", suspect_id="s", status=FindingStatus.DISMISSED, evidence='{"leans_on": "many"}'
    )
    assert ledger.add(incident) == ledger.add(leaning) == ledger.add(incident) == []
    assert [c.suspect_id for c in ledger.add(replace(incident, status=FindingStatus.RESOLVED))] == ["s"]


def evidence(**fields: Any) -> str:
    return json.dumps(fields)


FOUND = replace(confirmed(), suspect_id="first")
NOBODYS = replace(FOUND, broker=NOBODY, evidence=evidence(sides={"aborted": [1], "committed": [2, 3]}))
KEYS = (value(key_hash_lo=5).key_text, value(key_hash_lo=6).key_text)
OF_KEYS = replace(FOUND, key_hash_lo=5, evidence=evidence(recorded={"keys": [KEYS[1]]}))


@pytest.mark.parametrize(
    ("before", "after", "is_freed"),
    [
        (NOBODYS, FOUND, True),
        (FOUND, NOBODYS, True),
        (NOBODYS, replace(NOBODYS, evidence=evidence(sides={"aborted": [1, 3], "committed": [2]})), True),
        (NOBODYS, replace(NOBODYS, status=FindingStatus.UNSETTLED, evidence=evidence()), False),
        (replace(FOUND, marker_offset=-1), FOUND, True),
        (replace(FOUND, kind=FindingKind.READ_COMMITTED_FROZEN), FOUND, True),
        (FOUND, replace(FOUND, status=FindingStatus.ACKNOWLEDGED), False),
        (FOUND, replace(FOUND, exposed=True), False),
        (FOUND, replace(FOUND, offset=11), False),
        (OF_KEYS, replace(OF_KEYS, key_hash_lo=6, evidence=evidence(recorded={"keys": [KEYS[0]]})), False),
        (OF_KEYS, replace(OF_KEYS, key_hash_lo=6), True),
    ],
    ids=[
        "accuses one",
        "accuses nobody any more",
        "accuses nobody, and one has gone over to the other side",
        "accuses nobody, and the sides are not to be seen any more",
        "its end marker is known",
        "is of another kind",
        "is acknowledged",
        "is exposed",
        "names another record of its transaction",
        "names another key of its transaction first",
        "does not name a key of its transaction any more",
    ],
)
def test_what_leans_on_a_finding_is_judged_again_once_that_may_explain_it_no_more(
    before: Finding, after: Finding, is_freed: bool
) -> None:
    leaning = replace(
        FOUND,
        finding_id="s",
        suspect_id="s",
        status=FindingStatus.DISMISSED,
        evidence=evidence(leans_on=FOUND.finding_id),
    )
    ledger = FindingLedger()
    assert ledger.add(before) == ledger.add(leaning) == ledger.add(before) == []
    assert [c.suspect_id for c in ledger.add(after)] == ["s"] * is_freed


class TestTotals:
    def totals(self, *events: Finding) -> tuple[int, int, int, int]:
        ledger = FindingLedger()
        for event in events:
            ledger.add(event)
        return ledger.stand, sum(ledger.confirmed.values()), ledger.dismissed, ledger.resolved

    def test_a_finding_is_counted_each_time_that_it_opens(self) -> None:
        found = confirmed()
        resolved = replace(found, status=FindingStatus.RESOLVED)
        assert self.totals(found) == self.totals(found, found) == (1, 1, 0, 0)
        assert self.totals(found, resolved) == (0, 1, 0, 1)
        assert self.totals(found, resolved, found) == (1, 2, 0, 1)

    def test_an_open_one_is_counted_again_as_what_else_it_becomes(self) -> None:
        found = confirmed()
        nobodys = replace(found, broker=NOBODY)
        assert self.totals(found, replace(found, kind=unmarked().kind)) == (1, 2, 0, 0)
        assert self.totals(nobodys, found) == (1, 2, 0, 0)
        assert self.totals(found, nobodys) == self.totals(nobodys, nobodys) == (1, 1, 0, 0)

    def test_one_that_is_acknowledged_stands_and_has_not_opened_again(self) -> None:
        found = confirmed()
        known = replace(found, status=FindingStatus.ACKNOWLEDGED)
        assert self.totals(found, known) == self.totals(found, known, known) == (1, 1, 0, 0)
        assert self.totals(found, known, found) == (1, 2, 0, 0)

    def test_a_dismissal_is_no_finding(self) -> None:
        (dismissal,) = Life().confirmed(unmarked(), answering=agree).table
        assert self.totals(dismissal, dismissal) == (0, 0, 2, 0)


def test_a_verdict_is_remembered_with_its_time_and_how_often_it_was_a_dismissal() -> None:
    (dismissal,) = Life(now=100.25).confirmed(unmarked(), answering=agree).table
    ledger = FindingLedger()
    for times in (1, 2):
        ledger.add(dismissal)
        known = ledger.handled("s")
        assert known is not None
        assert (known.finding_id, known.dismissals) == (dismissal.finding_id, times)
        assert known.decided_ms == int(dismissal.decided_at.timestamp() * 1000) == 1767225700250
    ledger.add(replace(dismissal, status=FindingStatus.CONFIRMED))
    again = ledger.handled("s")
    assert again is not None
    assert again.dismissals == 2


def test_the_latest_verdicts_are_remembered_and_the_oldest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDLED", 2)
    ledger, event = FindingLedger(), confirmed()
    for name in ("first", "second", "first", "third"):
        ledger.add(replace(event, suspect_id=name))
    assert [name for name in ("first", "second", "third") if ledger.handled(name) is not None] == ["first", "third"]


def test_as_many_dismissals_as_are_kept_are_judged_again_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEANING", 2)
    life = Life().confirmed(
        claim(COMMITTED_WRONGLY, "t"), *(value(f"v{n}", key_hash_lo=n) for n in (1, 2)), answering=old_value
    )
    cause, *leaning = life.table
    ledger, ended = FindingLedger(), replace(cause, status=FindingStatus.RESOLVED)
    for event in (cause, *leaning):
        assert ledger.add(event) == []
    freed = ledger.add(ended)
    assert [(c.suspect_id, c.freed) for c in freed] == [("v1", True), ("v2", True)]
    assert ledger.add(ended) == []
    assert [c.suspect_id for c in ledger.add(leaning[0])] == ["v1"], "what it leans on has ended"


def test_a_suspect_that_has_another_verdict_by_then_leans_on_nothing() -> None:
    life = Life().confirmed(claim(COMMITTED_WRONGLY, "t"), value(), answering=old_value)
    cause, leaning = life.table
    ledger = FindingLedger()
    for event in (cause, leaning, replace(Life().confirmed(unmarked(), answering=missing).last, suspect_id="v")):
        ledger.add(event)
    assert ledger.add(replace(cause, status=FindingStatus.RESOLVED)) == []
