"""What an event says of a finding: whether consumers see it."""

from __future__ import annotations

import pytest

from parallax.findings.answers import Answers
from parallax.findings.decide import Decision, Verdict
from parallax.findings.finding import is_exposed
from parallax.model import NOBODY, UNKNOWN, FindingKind

SIDES = {"no value": (1,), "value at offset 4": (2, 3)}


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
    decision = Decision(Verdict.CONFIRMED, FindingKind.RECORD_MISSING, "r", accused=accused, sides=SIDES)
    assert is_exposed(accused, decision, Answers({}, leader=leader)) is exposed


def test_an_accused_that_leads_exposes_itself_though_no_side_is_known() -> None:
    decision = Decision(Verdict.CONFIRMED, FindingKind.LOG_TRUNCATED, "r", accused=2)
    assert is_exposed(2, decision, Answers({}, leader=2))
