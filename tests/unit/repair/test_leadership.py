from __future__ import annotations

from dataclasses import replace

from parallax.repair.copies import Said
from parallax.repair.decide import outdated
from parallax.repair.plan import Plan, make
from parallax.repair.seen import Look
from parallax.repair.steps import MoveStep
from tests.unit.repair.looks import PLACE
from tests.unit.repair.seeing import LAYOUT, WRONG, claim, seen


def planned(look: Look, more: Said | None = None) -> Plan:
    return make(look, {}, more=more or Said(), is_to_lead=True)


def step_of(made: Plan) -> MoveStep:
    assert made.missing == ()
    (step,) = made.steps
    assert isinstance(step, MoveStep)
    return step


def test_a_right_replica_leads_and_the_wrong_one_comes_last() -> None:
    step = step_of(planned(seen()))
    assert (step.move.replicas, step.move.elects, step.move.gone, step.move.copied) == ((1, 2, 3), True, (), ())
    assert step.title == "Let broker 1 lead orders-0, and put broker 3 last."
    assert "Clients go over from broker 3 to broker 1." in step.changes
    assert "broker 3 may still lead if no other replica is in sync" in step.warning
    assert step.undo == "Once broker 3 is right again: `parallax repair undo` assigns it as it was, [3, 1, 2]."
    assert "kafka-leader-election.sh" in step.by_hand


def test_who_leads_rightly_goes_on_and_only_the_order_changes() -> None:
    step = step_of(planned(seen(leader=2)))
    assert step.move.replicas == (2, 1, 3)
    assert "Clients go over" not in step.changes


def test_nothing_has_to_be_done_where_a_right_one_leads_and_the_wrong_comes_last() -> None:
    made = planned(seen(assigned=(1, 2, 3), leader=1))
    assert (made.steps, made.missing) == ((), ())
    assert made.note == "Broker 1 leads, and is right. Broker 3 comes last already."
    none = planned(seen(claims=(), findings=frozenset())).note
    assert none.startswith("No finding is open here that says who must not lead."), none
    assert "lead orders --partition 0" in none, "the command that knows what is against a replica besides findings"


def test_of_two_that_are_wrong_both_come_last() -> None:
    other = claim("f2", {2}, {1}, 18)
    step = step_of(planned(seen(WRONG, other)))
    assert step.move.replicas == (1, 3, 2)
    assert step.offsets == (17, 18)


def test_where_nothing_proves_who_is_right_a_person_has_to_say_so() -> None:
    text = "nothing proves which replica is right. Compare"
    open_ = claim("f1", (), showing={2}, missing=text, by_word={2: frozenset({3, 1})})
    assert planned(seen(open_)).missing == ("Finding f1: nothing proves which replica is right. Compare.",)
    step = step_of(planned(seen(open_), Said(right=2)))
    assert step.move.replicas == (2, 3, 1)
    assert "No evidence proves it" in step.needs[0]


def test_what_moves_partitions_has_to_be_paused_and_no_room_is_needed() -> None:
    moving = replace(LAYOUT, automation="there is the topic x")
    assert "Cruise Control runs here" in planned(seen(layout=moving)).missing[0]
    assert planned(seen(layout=replace(LAYOUT, free={1: 0, 2: 0, 3: 0}))).missing == ()
    assert "is being reassigned" in planned(seen(layout=replace(LAYOUT, moving={PLACE: (1, 2)}))).missing[0]


def test_a_plan_is_out_of_date_once_its_finding_is_over() -> None:
    made = planned(seen())
    assert outdated(made, seen(leader=3)) == ""
    assert "no finding proves any more" in outdated(made, seen(claims=(), findings=frozenset()))
