"""What is left to be judged of many that are over, in one run and after a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parallax.findings.answers import Answers, KeyShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.explain import explain
from parallax.findings.incident import tally_of
from parallax.model import NOBODY, Rule
from tests.builders.answers import NOTHING, answers, newest, replica, silent
from tests.unit.findings.floods import ALONE, END, Flood, lost
from tests.unit.findings.lives import RECHECK_S, Answering
from tests.unit.findings.transactions import COMMITTED_WRONGLY, missed, shows, start_of, turned

MANY = [lost(key) for key in range(100)]


def showing(*wrong: int, away: tuple[int, ...] = ()) -> Answering:
    """Some of three replicas show the value that was deleted, the others none."""

    def answer(claim: Claim) -> Answers:
        del claim
        made = {b: replica(b, END, key=newest(3) if b in wrong else NOTHING) for b in (1, 2, 3)}
        made |= {b: silent(b) for b in away}
        return Answers(made, leader=1)

    return answer


def differing(claim: Claim) -> Answers:
    """None shows what was deleted; 1 shows a newer record, which the others lack."""
    del claim
    return answers(replica(1, END, key=newest(2_000_000)), replica(2, END, key=NOTHING), replica(3, END, key=NOTHING))


def counting(life: Flood) -> list[tuple[int, int]]:
    return [(f.broker, tally_of(f).count) for f in life.open]


class TestManyThatAreRightAgainOnOneReplicaAndNotOnAnother:
    """2 has lost the tombstones of a hundred keys, 3 was copied from it, and 2 is put right."""

    def left_on_3(self) -> Flood:
        life = Flood()
        life.suspect(*MANY)
        life.settle(showing(2))
        life.after(RECHECK_S, showing(2, 3))
        for _ in range(3):
            life.after(RECHECK_S, showing(3))
        assert counting(life) == [(3, 100)]
        return life

    def test_are_counted_of_the_other_after_a_restart_as_well(self) -> None:
        before = self.left_on_3()
        life = before.restarted()
        life.suspected_before(*MANY)  # As they are in their table: of those on 3 nothing was written.
        for _ in range(4):
            life.settle(showing(3))
            life.after(RECHECK_S, showing(3))
            assert counting(life) == [(3, 100)]
        assert life.table == before.table
        for _ in range(3):
            life.after(RECHECK_S, showing())
        assert counting(life) == []
        assert "(100 healed)" in life.last.summary

    def test_keep_their_count_while_the_one_that_is_right_is_away_after_a_restart(self) -> None:
        before = self.left_on_3()
        life = before.restarted()
        life.suspected_before(*MANY)
        for _ in range(4):
            life.settle(showing(3, away=(2,)))
            life.after(RECHECK_S, showing(3, away=(2,)))
        assert counting(life) == [(3, 100)]
        assert life.table == before.table

    def test_are_found_though_the_job_ended_before_the_end_was_reported(self) -> None:
        before = Flood()
        before.suspect(*MANY)
        before.settle(showing(2))
        before.after(RECHECK_S, showing(2, 3))
        life = before.restarted()
        life.suspected_before(*MANY)
        for _ in range(4):
            life.settle(showing(3))
            life.after(RECHECK_S, showing(3))
        assert counting(life) == [(3, 100)]

    @pytest.mark.parametrize("restarted", [False, True])
    def test_are_found_though_the_other_is_away_when_they_end(self, restarted: bool) -> None:
        life = Flood()
        life.suspect(*MANY)
        life.settle(showing(2, 3))
        if restarted:
            life = life.restarted()
            life.suspected_before(*MANY)
            life.settle(showing(2, 3))
        for _ in range(3):
            life.after(RECHECK_S, showing(away=(3,)))
        assert [f.broker for f in life.open] == []
        assert sum(life.machine.status().pending.values()) == 100
        for _ in range(3):
            life.after(RECHECK_S, showing(3))
        assert counting(life) == [(3, 100)]

    @pytest.mark.parametrize("restarted", [False, True])
    def test_are_found_though_they_were_findings_by_themselves_before(self, restarted: bool) -> None:
        life = Flood()
        for ten in range(0, 40, 10):
            life.suspect(*MANY[ten : ten + 10])
            life.settle(showing(2, 3))
        life.after(RECHECK_S, showing(2, 3))
        assert counting(life) == [(2, 40)]
        for _ in range(4):
            life.after(RECHECK_S, showing(away=(3,)))
        if restarted:
            life = life.restarted()
            life.suspected_before(*MANY[:40])
            life.settle(showing(away=(3,)))
        assert sum(life.machine.status().pending.values()) == 40
        for _ in range(4):
            life.after(RECHECK_S, showing(3))
        assert counting(life) == [(3, 40)]

    def test_are_found_though_what_single_findings_left_had_become_one_that_is_over_too(self) -> None:
        """2 is put right, then 3, which showed the same and was 16 findings, then many; 1 shows it by then."""
        before = Flood()
        before.suspect(*MANY[:ALONE])
        before.settle(showing(2, 3))
        for _ in range(3):
            before.after(RECHECK_S, showing(3))
        before.suspect(replace(lost(ALONE), broker=3))
        before.settle(showing(3))
        before.after(RECHECK_S, showing(3))
        assert counting(before) == [(3, ALONE + 1)]
        before.after(RECHECK_S, showing(1, 3))
        for _ in range(3):
            before.after(RECHECK_S, showing(away=(1,)))
        assert counting(before) == []
        life = before.restarted()
        life.suspected_before(*MANY[:ALONE], replace(lost(ALONE), broker=3))
        for said in [showing(away=(1,))] * 2 + [showing(1)] * 4:
            life.settle(said)
            life.after(RECHECK_S, said)
        assert {(f.broker, tally_of(f).count if f.is_incident else 1) for f in life.open} == {(1, ALONE + 1)}

    def test_leave_nothing_where_no_other_shows_the_same(self) -> None:
        life = Flood()
        life.suspect(*MANY)
        life.settle(showing(2))
        for _ in range(3):
            life.after(RECHECK_S, showing(away=(3,)))
        assert sum(life.machine.status().pending.values()) == 0
        asked = life.asked
        for _ in range(3):
            life.after(RECHECK_S, showing())
        assert life.asked - asked <= 3 * len(MANY), "those that were counted are looked at again, and no others"


def test_keys_whose_values_differ_once_many_are_over_are_differences_without_direction() -> None:
    life = Flood()
    life.suspect(*MANY)
    life.settle(showing(2))
    for _ in range(8):
        life.after(RECHECK_S, differing)
    assert counting(life) == [(NOBODY, 100)]
    for _ in range(8):
        life.after(RECHECK_S, differing)
    assert counting(life) == [(NOBODY, 100)]


@pytest.mark.parametrize("count", [16, 17, 100])
def test_suspects_on_a_replica_that_is_away_wait_for_it_after_a_restart_as_well(count: int) -> None:
    before = Flood()
    before.suspect(*MANY[:count])
    before.settle(showing(2, 3))
    for _ in range(3):
        before.after(RECHECK_S, showing(away=(3,)))
    assert before.open == []
    life = before.restarted()
    life.suspected_before(*MANY[:count])
    for _ in range(2):
        life.settle(showing(away=(3,)))
        life.after(RECHECK_S, showing(away=(3,)))
    for _ in range(4):
        life.after(RECHECK_S, showing(3))
    assert {f.broker for f in life.open} == {3}
    assert len(life.open) == count if count <= ALONE else counting(life) == [(3, count)]


def test_differences_that_an_incident_left_are_all_counted_after_a_restart() -> None:
    before = Flood()
    before.suspect(*MANY)
    before.settle(showing(2))
    for _ in range(8):
        before.after(RECHECK_S, differing)
    life = before.restarted()
    life.suspected_before(*MANY)
    for _ in range(6):
        life.settle(differing)
        life.after(RECHECK_S, differing)
    assert counting(life) == [(NOBODY, 100)]
    assert life.table == before.table


@pytest.mark.parametrize("restarted", [False, True])
def test_suspects_about_another_replica_that_cannot_be_decided_hold_up_no_end(restarted: bool) -> None:
    others = [lost(1_000 + key, name=f"three-{key}", broker=3) for key in range(40)]
    life = Flood()
    life.suspect(*MANY, *others)
    life.settle(showing(2, away=(3,)))
    if restarted:
        life = life.restarted()
        life.suspected_before(*MANY, *others)
        life.settle(showing(2, away=(3,)))
    for _ in range(4):
        life.after(RECHECK_S, showing(away=(3,)))
    assert life.open == []
    assert sum(life.machine.status().pending.values()) == 40


class TestTransactionsThatAnIncidentCountedBeforeARestart:
    """2 shows as committed what was rolled back, 3 comes to show the same, and 2 is put right while 3 is away."""

    @staticmethod
    def said(two: str, three: str) -> Answering:
        def key(claim: Claim, how: str) -> KeyShown:
            offset = start_of(claim.key_hash_lo)
            record = RecordShown(offset, "committed", producer_id=claim.producer_id, value_size=5)
            return KeyShown(record, True, offset) if how == "wrong" else NOTHING

        def of(claim: Claim, broker: int, how: str) -> ReplicaAnswer:
            if how == "away":
                return silent(broker)
            if claim.rule is Rule.LATEST_VALUE:
                return replica(broker, END, key=key(claim, how))
            outcome, marker = ("committed", None) if how == "wrong" else ("aborted", "abort")
            shown = shows(broker, claim, outcome, None if how == "unproven" else marker)
            values = {offset: replace(record, value_size=5) for offset, record in shown.committed.items()}
            return replace(shown, committed=values, uncommitted=values, key=key(claim, how))

        def answer(claim: Claim) -> Answers:
            return Answers({1: of(claim, 1, "right"), 2: of(claim, 2, two), 3: of(claim, 3, three)}, leader=1)

        return answer

    @staticmethod
    def contradicting(number: int) -> Claim:
        return turned(number, marker_offset=start_of(number) + 1)

    @staticmethod
    def missing(number: int) -> Claim:
        outcomes = {1: "aborted", 2: "committed", 3: "committed"}
        return missed(
            number, marker_offset=start_of(number) + 1, recorded=RecordedByViews(outcomes, markers={1: "abort"})
        )

    def left(self, make: Callable[[int], Claim], two: str) -> Flood:
        """They are over on 2, with 3 away, and the job was started anew."""
        before = Flood()
        before.suspect(*map(make, range(40)))
        before.settle(self.said("wrong", "right"))
        for said in [self.said("wrong", "wrong")] * 2 + [self.said(two, "away")] * 4:
            before.after(RECHECK_S, said)
        assert before.open == []
        life = before.restarted()
        life.suspected_before(*map(make, range(40)))
        for _ in range(3):
            life.after(RECHECK_S, self.said(two, "away"))
        return life

    def test_are_found_on_another_though_they_were_suspected_to_be_of_another_kind(self) -> None:
        life = self.left(self.contradicting, "right")
        for _ in range(6):
            life.after(RECHECK_S, self.said("right", "wrong"))
        assert [(f.kind, f.broker, tally_of(f).count) for f in life.open] == [(COMMITTED_WRONGLY, 3, 40)]

    def test_call_nobody_right_who_was_accused_and_not_proven_to_have_healed(self) -> None:
        life = self.left(self.missing, "unproven")

        def few(claim: Claim) -> Answers:
            return self.said("unproven", "wrong" if claim.key_hash_lo < 5 else "right")(claim)

        for _ in range(6):
            life.after(RECHECK_S, few)
        assert {(f.kind, f.broker) for f in life.open} == {(COMMITTED_WRONGLY, 3)}
        assert "broker 1 is right in this. Nothing is proven of broker 2" in explain(life.open[0], life.open).right


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("three", ["right", "wrong", "away"])
def test_a_value_that_a_fourth_lacks_is_left_whatever_becomes_of_another_that_shows_the_same(
    count: int, three: str
) -> None:
    """3 shows what 2 did when that is put right; 4, a copy that was cleaned, lacks the value that was there before."""
    older = newest(3)

    def of(claim: Claim, broker: int, how: str) -> ReplicaAnswer:
        start = start_of(claim.key_hash_lo)
        there = replace(claim, transaction_start_offset=start, marker_offset=start + 1, producer_id=7)
        wrong = newest(start, "committed", producer_id=7)
        made = {
            "away": silent(broker),
            "lacks": replace(shows(broker, there, None, None), key=NOTHING),
            "wrong": replace(shows(broker, there, "committed", None), key=wrong),
            "right": replace(shows(broker, there, "aborted", "abort"), key=older),
        }
        return made[how]

    def said(two: str, three: str, then: str = "") -> Answering:
        def answer(claim: Claim) -> Answers:
            of_three = three if claim.broker == 2 else then or three
            each = {1: "right", 2: two, 3: of_three, 4: "lacks"}
            return Answers({broker: of(claim, broker, how) for broker, how in each.items()}, leader=1)

        return answer

    life = Flood()
    life.suspect(*(missed(number, marker_offset=start_of(number) + 1) for number in range(count)))
    life.settle(said("wrong", "right"))
    life.after(RECHECK_S, said("wrong", "wrong"))
    for _ in range(5):
        life.after(RECHECK_S, said("right", "wrong", three))
    for _ in range(8):
        life.after(RECHECK_S, said("right", "right"))
    numbers = {(f.broker, tally_of(f).count if f.is_incident else 1) for f in life.open}
    assert numbers == {(NOBODY, count)}
