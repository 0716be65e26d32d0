"""What explains a value: findings about transactions, for as long as they are looked at."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parallax.findings.finding import Finding
from parallax.findings.ledger import Ledger
from parallax.model import FindingStatus
from tests.unit.findings.test_lifecycle import COMMITTED_WRONGLY, Life, claim, value, wrong

OF_TRANSACTION = value(producer_id=7)


def confirmed() -> Finding:
    return Life().confirmed(claim(kind=COMMITTED_WRONGLY), answering=wrong).last


def test_a_transaction_explains_a_value_until_it_is_looked_at_no_more() -> None:
    ledger, cause = Ledger(), confirmed()
    assert not ledger.has_cause_of(OF_TRANSACTION)
    ledger.add(cause)
    assert ledger.has_cause_of(OF_TRANSACTION)
    ledger.add(replace(cause, status=FindingStatus.RESOLVED))
    assert ledger.has_cause_of(OF_TRANSACTION), "it may come back"
    ledger.forget(cause.finding_id)
    assert not ledger.has_cause_of(OF_TRANSACTION)


def test_only_one_that_stands_is_a_cause_of_what_is_judged_now() -> None:
    ledger, cause = Ledger(), confirmed()
    ledger.add(cause)
    assert list(ledger.causes(cause.place)) == [cause.finding_id]
    ledger.add(replace(cause, status=FindingStatus.RESOLVED))
    assert ledger.causes(cause.place) == {}


def test_a_transaction_of_another_partition_explains_nothing() -> None:
    ledger = Ledger()
    ledger.add(confirmed())
    assert not ledger.has_cause_of(replace(OF_TRANSACTION, partition=1))


@pytest.mark.parametrize("names", [["one", "other"], "one"], ids=["both", "the one, as earlier versions wrote it"])
def test_a_dismissal_is_void_once_one_of_the_findings_that_it_leans_on_has_ended(names: list[str] | str) -> None:
    ledger, cause = Ledger(), confirmed()
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
