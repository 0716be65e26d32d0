"""A finding of which the replicas, all in sync, show too little to say whether it is still true: it is unsettled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from parallax.findings.answers import Answers, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.finding import are_alike, is_shared, is_unsettled
from parallax.findings.leading import May, may_lead
from parallax.model import FindingKind, FindingStatus, Severity
from tests.builders.answers import NOTHING, replica, silent
from tests.builders.claims import claim, unmarked
from tests.unit.findings.floods import END, flood, resurrected
from tests.unit.findings.lives import RECHECK_S, Life
from tests.unit.findings.replies import wrong

IN_SYNC = (1, 2, 3)


def cut(*, away: ReplicaAnswer | None = None, isr: tuple[int, ...] = IN_SYNC, epoch: int = 1) -> Answers:
    """All hold the record open, as after an election that has cut the end marker: nobody shows an outcome of it."""
    shown = {broker: replica(broker, last_stable_offset=5) for broker in IN_SYNC}
    if away is not None:
        shown[away.broker] = away
    return Answers(shown, leader=1, isr=isr, leader_epoch=epoch)


def shown_wrongly(c: Claim, epoch: int = 0) -> Answers:
    return replace(wrong(c), leader_epoch=epoch)


def proven() -> Life:
    """A finding that was proven, and proven again when it was looked at, before an election."""
    life = Life().confirmed(claim(FindingKind.ABORTED_RECORD_COMMITTED), answering=shown_wrongly)
    life.until_asked(shown_wrongly)
    return life


def asked(life: Life, said: Answers, times: int) -> list[str]:
    for _ in range(times):
        life.until_asked(lambda _: said)
    return life.statuses


def test_a_finding_is_unsettled_once_two_probes_in_a_row_have_decided_nothing() -> None:
    life = proven()
    assert asked(life, cut(), 1) == ["confirmed"]
    assert asked(life, cut(), 1) == ["confirmed", "unsettled"]
    assert (life.last.severity, life.last.broker, life.last.exposed) == (Severity.WARNING, 2, False)
    assert "was proven wrong before" in life.last.summary
    assert asked(life, cut(), 4) == ["confirmed", "unsettled"], "it is reported once"


def test_it_accuses_again_once_a_probe_proves_it_again() -> None:
    life = proven()
    asked(life, cut(), 2)
    life.until_asked(partial(shown_wrongly, epoch=1))
    assert life.statuses == ["confirmed", "unsettled", "confirmed"]
    assert asked(life, cut(), 4) == ["confirmed", "unsettled", "confirmed"], "nobody else was elected since"


def test_what_was_proven_once_in_an_epoch_is_not_doubted_in_it() -> None:
    once = partial(shown_wrongly, epoch=1)
    life = Life().confirmed(claim(FindingKind.ABORTED_RECORD_COMMITTED), answering=once)
    assert asked(life, cut(), 4) == ["confirmed"]
    assert asked(life, cut(epoch=2), 2) == ["confirmed", "unsettled"]


def test_it_accuses_again_once_another_suspect_of_the_same_is_proven() -> None:
    life = proven()
    asked(life, cut(), 2)
    life.suspect(unmarked("again"))
    life.answer(partial(shown_wrongly, epoch=1))
    assert life.statuses == ["confirmed", "unsettled", "confirmed"]
    assert (life.last.suspect_id, life.last.broker) == ("again", 2)


def test_a_restart_takes_it_up_as_unsettled() -> None:
    life = proven()
    asked(life, cut(), 2)
    later = life.restarted(1)
    (stands,) = later.machine.standing()
    assert is_unsettled(stands)
    assert asked(later, cut(), 3) == ["confirmed", "unsettled"]


def test_one_that_is_acknowledged_calls_no_replica_safe_to_lead() -> None:
    life = proven()
    asked(life, cut(), 2)
    known = replace(life.last, status=FindingStatus.ACKNOWLEDGED)
    assert is_unsettled(known)
    assert not is_shared(known)
    assert {fitness.may for fitness in may_lead(IN_SYNC, [known]).values()} == {May.UNKNOWN}


@pytest.mark.parametrize(
    "said",
    [
        cut(away=silent(3)),
        cut(isr=(1, 2)),
        cut(away=replica(3, last_stable_offset=5, open_error="not authorized")),
        cut(epoch=0),
        cut(epoch=-1),
    ],
    ids=[
        "a replica is away",
        "one is not in sync",
        "one does not say what it holds open",
        "nobody was elected",
        "whether somebody was elected is not known",
    ],
)
def test_what_may_still_be_answered_and_what_nobody_cut_takes_nothing_back(said: Answers) -> None:
    assert asked(proven(), said, 5) == ["confirmed"]


def test_probes_that_decide_nothing_must_come_in_a_row() -> None:
    life = proven()
    for said in (cut(), cut(isr=(1, 2)), cut(), cut(isr=(1, 2))):
        asked(life, said, 1)
    assert life.statuses == ["confirmed"]


def test_a_suspect_that_nothing_is_told_of_waits() -> None:
    life = Life()
    life.suspect(claim(FindingKind.ABORTED_RECORD_COMMITTED))
    life.answer(lambda _: cut())
    assert asked(life, cut(), 4) == []


def held_back(_: Claim) -> Answers:
    """Every replica shows the key up to an offset below each tombstone, and no value of it there."""
    shown = {b: replica(b, END, last_stable_offset=500, stable_after=500, key=NOTHING) for b in IN_SYNC}
    return Answers(shown, leader=1, isr=IN_SYNC, leader_epoch=1)


def test_an_incident_is_unsettled_once_all_of_its_members_are() -> None:
    life = flood(range(20))
    (stands,) = life.open
    assert (stands.status, life.counts) == (FindingStatus.CONFIRMED, [20])
    for _ in range(40):
        life.after(RECHECK_S, held_back)
    (stands,) = life.open
    assert (stands.status, stands.severity, life.counts) == (FindingStatus.UNSETTLED, Severity.WARNING, [20])
    (again,) = life.restarted(1).open
    assert not are_alike(again)
    for _ in range(40):
        life.after(RECHECK_S, resurrected)
    (stands,) = life.open
    assert (stands.status, life.counts) == (FindingStatus.CONFIRMED, [20])
