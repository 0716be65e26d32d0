from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.finding import Finding
from parallax.findings.leading import Fitness, May, may_lead, said
from parallax.model import NOBODY, FindingStatus
from parallax.shell import ANYWHERE
from tests.builders.findings import finding

BROKERS = (1, 2, 3)
SHOWN = {"no value": [1, 3], "value at offset 17": [2]}


def of(name: str = "f1", sides: dict[str, list[int]] | None = None, **fields: Any) -> Finding:
    evidence = {"leader": 1, "sides": sides or SHOWN, "replicas": {str(broker): {} for broker in BROKERS}}
    return finding(name, **({"evidence": json.dumps(evidence)} | fields))


def words(found: dict[int, Fitness]) -> dict[int, str]:
    return {broker: str(one.may) for broker, one in found.items()}


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ((), "safe safe safe"),
        ((of(),), "safe unsafe safe"),
        ((of(status=FindingStatus.ACKNOWLEDGED),), "safe unsafe safe"),
        ((of(status=FindingStatus.RESOLVED),), "safe safe safe"),
        ((of(sides={"no value": [1], "value at offset 17": [2, 3]}),), "safe unsafe unsafe"),
        ((of(sides={"value at offset 3": [1, 3], "value at offset 17": [2]}),), "unknown unsafe unknown"),
        ((of(broker=NOBODY),), "unknown unknown unknown"),
        ((of(status=FindingStatus.UNSETTLED),), "unknown unknown unknown"),
        ((of(status=FindingStatus.SPREAD),), "unsafe unsafe unsafe"),
        ((of(), of("f2", broker=NOBODY)), "unknown unsafe unknown"),
        ((of(), of("f2", broker=3, sides={"no value": [1, 2], "value at offset 17": [3]})), "safe unsafe unsafe"),
    ],
    ids=[
        "no finding",
        "one is proven wrong, the others right",
        "an acknowledged one stands",
        "one that is over does not",
        "another shows the same",
        "nobody is proven right",
        "no direction",
        "unsettled",
        "all share it",
        "another finding leaves it open",
        "each finding accuses its own",
    ],
)
def test_only_who_every_finding_proves_right_may_lead(findings: tuple[Finding, ...], expected: str) -> None:
    assert words(may_lead(BROKERS, findings)) == dict(zip(BROKERS, expected.split(), strict=True))


@pytest.mark.parametrize("resolution", ["spread", "agreed"])
def test_what_all_share_is_against_nobody_that_was_asked_once_it_is_acknowledged(resolution: str) -> None:
    evidence = {"sides": {"no value": [1, 2]}, "replicas": {"1": {}, "2": {}, "3": {"error": "away"}}}
    known = of(evidence=json.dumps(evidence | {"resolution": resolution}), status=FindingStatus.ACKNOWLEDGED)
    assert words(may_lead(BROKERS, [known])) == {1: "safe", 2: "safe", 3: "unknown"}
    proofs = [evidence | {"offset": offset} for offset in (3, 5)]
    many = replace(known, suspect_id="", evidence=json.dumps({"proofs": proofs, "resolution": resolution}))
    assert words(may_lead(BROKERS, [many])) == {1: "safe", 2: "safe", 3: "unknown"}


def test_what_all_share_is_one_reason_however_many_findings_it_is() -> None:
    spread = [replace(of(status=FindingStatus.SPREAD), finding_id=name * 32) for name in "ab"]
    found = may_lead((1, 2, 3), spread)
    why = "it shares findings aaaaaaaa, bbbbbbbb with the others, so no election helps"
    assert [one.why for one in found.values()] == [(why,)] * 3


def test_a_doubt_makes_it_unknown_and_never_hides_a_proof() -> None:
    found = may_lead(BROKERS, [of()], {2: ["it is away"], 3: ["it is away", "40 offsets without verdict"]})
    assert found[1] == Fitness()
    assert found[2].may is May.UNSAFE
    assert found[3] == Fitness(May.UNKNOWN, ("it is away", "40 offsets without verdict"))
    assert found[3].in_words == "unknown (it is away; 40 offsets without verdict)"


def test_one_that_has_been_proven_wrong_before_is_not_called_safe() -> None:
    evidence = {"sides": SHOWN, "replicas": {str(b): {} for b in BROKERS}, "recorded": {"was_accused": [3]}}
    found = may_lead(BROKERS, [of(evidence=json.dumps(evidence))])
    assert words(found) == {1: "safe", 2: "unsafe", 3: "unknown"}


def test_an_explanation_says_who_must_not_lead_and_asks_for_the_rest() -> None:
    text = said(of(), [], ANYWHERE)
    assert text == (
        "Broker 2 must not. No finding is against brokers 1 and 3. What else counts: "
        "parallax lead orders --partition 0 -c CONFIG"
    )
    assert said(of(status=FindingStatus.SPREAD), [], ANYWHERE) == ""
    assert "Of brokers 1 and 3 nobody can tell" in said(of(), [of("f2", broker=NOBODY)], ANYWHERE)
    assert said(of(), [of("f2", broker=NOBODY, partition=1)], ANYWHERE) == text
