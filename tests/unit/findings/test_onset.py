"""Since when a broker shows what a finding reports."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from parallax.findings.answers import Answers, ReplicaAnswer
from parallax.findings.decide import ClaimState, Decision
from parallax.findings.finding import evidence_of
from parallax.findings.onset import Onset, noted, onsets_in, showing_otherwise
from parallax.model import NOBODY
from parallax.sides import parsed
from tests.builders.answers import NOTHING, holding, newest, replica, silent
from tests.builders.claims import claim, of_key
from tests.unit.findings.lives import COMMITTED_WRONGLY, RESURRECTED, START, Life
from tests.unit.findings.replies import wrong


def test_the_last_look_otherwise_counts_until_the_first_look_at_which_a_broker_shows_it() -> None:
    found: dict[int, Onset] = {}
    for showing, otherwise, seconds in (({2}, {1, 3}, 0), ({2}, {1}, 30), ({1, 2}, {3}, 60), ({2}, {1, 3}, 90)):
        at = START + timedelta(seconds=seconds)
        found = onsets_in({"onsets": noted(found, showing, dict.fromkeys(otherwise, at), at)})
    at = [START + timedelta(seconds=seconds) for seconds in (0, 30, 60, 90)]
    assert found == {1: Onset(at[1], at[2]), 2: Onset(None, at[0]), 3: Onset(at[3], None)}


@pytest.mark.parametrize(
    ("kind", "sides", "answer", "is_so"),
    [
        (COMMITTED_WRONGLY, "aborted", holding(1, "aborted"), True),
        (COMMITTED_WRONGLY, "aborted", replica(1, aborted=((7, 10),)), True),
        (COMMITTED_WRONGLY, "aborted", replica(1), False),
        (COMMITTED_WRONGLY, "aborted", holding(1, "committed"), False),
        (COMMITTED_WRONGLY, "aborted", silent(1), False),
        (RESURRECTED, "no value", replica(1, key=NOTHING), True),
        (RESURRECTED, "no value", replica(1, key=newest(3)), False),
        (RESURRECTED, "value at offset 5", replica(1, key=newest(5)), True),
        (RESURRECTED, "value at offset 5", replica(1, key=NOTHING), False),
        (COMMITTED_WRONGLY, "not read", replica(1), False),
        (COMMITTED_WRONGLY, "ended", replica(1), True),
        (COMMITTED_WRONGLY, "ended, as it was read", replica(1), False),
    ],
)
def test_a_broker_shows_otherwise_by_what_it_answers_and_not_by_what_was_recorded(
    kind: Any, sides: str, answer: ReplicaAnswer, is_so: bool
) -> None:
    of = claim(kind) if kind is COMMITTED_WRONGLY else of_key(kind)
    decision = Decision(ClaimState.CONFIRMED, kind, "r", accused=2, sides=parsed({sides: (1,), "committed": (2,)}))
    said = Answers({1: answer, 2: holding(2, "committed")}, leader=1)
    assert showing_otherwise(of, decision, said) == (frozenset({1}) if is_so else frozenset())
    undirected = Decision(ClaimState.CONFIRMED, kind, "r", accused=NOBODY, sides=decision.sides)
    assert not showing_otherwise(of, undirected, said)


def test_a_job_that_starts_knows_the_looks_that_are_in_the_table() -> None:
    life = Life().confirmed(claim(COMMITTED_WRONGLY), answering=wrong)
    life.until_asked(wrong)
    after = life.restarted()
    after.until_asked(lambda _: Answers({b: holding(b, "committed") for b in (1, 2, 3)}, leader=2))
    assert onsets_in(evidence_of(after.last))[1].after == START
