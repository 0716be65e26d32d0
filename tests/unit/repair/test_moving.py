"""A copy, step by step, by looks made by hand: what is done next, what proves it, and what stops it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.model import Outcome
from parallax.repair.actions import TAKES_MS, Asked, Assign, Cancel, Elect, Put, Wait
from parallax.repair.command import document
from parallax.repair.copies import Said
from parallax.repair.decide import asks_tables, following, outdated
from parallax.repair.leading import Doubts
from parallax.repair.moving import TELL_MS, UNSURE_MS
from parallax.repair.plan import Plan, make
from parallax.repair.record import MAY_LACK, SLOW, Event, EventKind, Phase, Record, Repair
from parallax.repair.seen import Look, Row
from parallax.repair.steps import MoveStep
from tests.unit.repair.looks import NOW, PLACE, end, record, replica
from tests.unit.repair.moves import KNOWN, OTHER, PLAN, at, still
from tests.unit.repair.seeing import LAYOUT, WRONG, claim, seen

ME, ID = "me@here:1:1", "a" * 32
LEAD, DROP, COPY, ORDER = (step for step in PLAN.steps if isinstance(step, MoveStep))


def event(kind: EventKind, step: int = 0, **fields: Any) -> Event:
    return Event(kind, ID, *PLACE, fields.pop("at_ms", NOW), ME, step, **fields)


BEGUN, KEPT = event(EventKind.BEGUN, document=document(PLAN)), event(EventKind.KEPT)


def how(leader: int = 1, epoch: int = 10, **shown: Any) -> dict[str, Any]:
    known = {"at_ms": NOW, "leader": leader, "leader_epoch": epoch, "high_watermark": 20, "last_stable_offset": 20}
    return known | {"shown": shown}


def up_to(step: MoveStep, *more: Event, plan: Plan = PLAN) -> Repair:
    """A repair whose steps before one are proven."""
    record_ = Record()
    begun = event(EventKind.BEGUN, document=document(plan))
    done = [event(EventKind.PROVEN, number) for number in range(1, step.number)]
    record_.take_in([begun, KEPT, *done, *more])
    return record_.repairs[ID]


def intended(step: MoveStep, **fields: Any) -> Event:
    return event(EventKind.INTENDED, step.number, document=how(**fields))


def next_of(repair: Repair, look: Look, asked: Asked | None = None, plan: Plan = PLAN) -> Any:
    return following(repair, plan, look, ME, asked)


def put(action: object) -> tuple[EventKind, str]:
    assert isinstance(action, Put), action
    return action.event.kind, action.event.reason


def of_two() -> tuple[Look, Plan]:
    """Broker 2 of two is wrong, and a third one stands in: a look, and the plan made of it."""
    two = replace(LAYOUT, sizes={1: 1, 2: 1})
    holding = {"assigned": (1, 2), "isr": frozenset({1, 2}), "leader": 1, "replicas": {1: replica(), 2: replica()}}
    start = seen(claim("f1", {2}, {1}), layout=two, **holding)
    return start, make(start, {})


def test_what_is_going_to_be_deleted_is_kept_first() -> None:
    record_ = Record()
    record_.take_in([BEGUN])
    action = next_of(record_.repairs[ID], KNOWN)
    held = {(one["step"], one["broker"]): one["rows"] for one in action.event.document["held"]}
    assert held[2, 3] == [[17, "record", f"{17:032x}", f"{17:016x}", "NONE"]]
    assert held[2, 1] == []


def test_it_is_on_record_before_it_is_asked_for_then_assigned_then_elected_then_proven() -> None:
    assert put(next_of(up_to(LEAD), KNOWN))[0] is EventKind.INTENDED
    mine = intended(LEAD, leader=3, epoch=9)
    assert next_of(up_to(LEAD, mine), KNOWN) == Assign(1, (1, 3, 2))
    answered = event(EventKind.ANSWERED, 1)
    assert next_of(up_to(LEAD, mine, answered), KNOWN) == Wait("no broker shows it yet")
    ordered = still((1, 3, 2), leader=3, epoch=9)
    assert next_of(up_to(LEAD, mine, answered), ordered) == Elect(1)
    just = Asked(Elect(1), NOW)
    assert next_of(up_to(LEAD, mine, answered), ordered, just) == Wait("the election changes nothing yet")
    later = replace(ordered, at_ms=NOW + 3_000)
    assert next_of(up_to(LEAD, mine, answered), later, just) == Elect(1), "until the preferred leader is able to"
    too_late = replace(ordered, at_ms=NOW + TAKES_MS + 1)
    assert put(next_of(up_to(LEAD, mine, answered), too_late)) == (
        EventKind.STOPPED,
        "broker 3 leads still, and not broker 1",
    )
    assert put(next_of(up_to(LEAD, mine, answered), at((1, 3, 2))))[0] is EventKind.PROVEN


def test_a_copy_is_gone_only_when_its_broker_says_so() -> None:
    mine = up_to(DROP, intended(DROP), event(EventKind.ANSWERED, 2))
    assert next_of(mine, at((1, 2), 1, 2, 3, epoch=11)) == Wait("broker 3 has not deleted its copy yet")
    silent = at((1, 2), epoch=11)
    assert silent.layout is not None
    silent = replace(silent, layout=replace(silent.layout, free={1: 1, 2: 1}))
    assert next_of(mine, silent) == Wait("broker 3 does not say what it holds")
    assert put(next_of(mine, at((1, 2), epoch=11))) == (
        EventKind.PROVEN,
        "broker 3 holds nothing of it any more",
    )


def copying(**fields: Any) -> Look:
    return at((1, 3, 2), layout={"moving": {PLACE: (1, 3, 2)}}, isr=frozenset({1, 2}), **fields)


def test_a_copy_is_waited_for_however_long_it_takes_and_its_process_says_that_it_is_at_work() -> None:
    mine = up_to(COPY, intended(COPY), event(EventKind.ANSWERED, 3))
    assert next_of(mine, copying()) == Wait("it is being copied")
    for hours in (1, 30):
        action = next_of(mine, copying(at_ms=NOW + hours * 3_600_000))
        assert put(action) == (EventKind.WORKING, "broker 3 has 1,073,741,824 of 1,073,741,824 bytes")
    record_ = Record()
    record_.take_in([BEGUN, event(EventKind.WORKING, 3)])
    assert record_.repairs[ID].phase is Phase.RUNNING


def test_a_new_copy_is_proven_by_what_it_shows_itself() -> None:
    mine = up_to(COPY, intended(COPY), event(EventKind.ANSWERED, 3))
    done = at((1, 3, 2))
    assert put(next_of(mine, done)) == (
        EventKind.PROVEN,
        "broker 3 is in sync, and shows what broker 1 shows at offset 17",
    )
    day = replace(done, at_ms=NOW + 13 * 3_600_000)
    said = put(next_of(mine, day))[1]
    assert said.endswith(f", more than half of delete.retention.ms, so the copy {MAY_LACK}")


SAME = [17, "record", f"{17:032x}", f"{17:016x}", "NONE"]


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (at((1, 3, 2), isr=frozenset({1, 2})), "broker 3 is not in sync yet"),
        (at((1, 3, 2), shown={3: OTHER}), "broker 3 shows another record at offset 17 than broker 1"),
        (at((1, 3, 2), shown={1: OTHER}), "broker 3 lacks the record at offset 17 that broker 1 shows"),
        (
            at((1, 3, 2), replicas={1: replica(), 2: replica(), 3: replica(log_end=7, stable=7)}),
            "broker 3 shows offsets up to 7 only",
        ),
        (
            at((1, 3, 2), replicas={1: replica(), 2: replica(), 3: replica(stable=4)}),
            "the last stable offset of broker 3 is 4",
        ),
        (
            at((1, 3, 2), replicas={1: replica(), 2: replica(), 3: replace(replica(), error="away")}),
            "broker 3 does not say what it holds (away)",
        ),
    ],
    ids=["not in sync", "shows it still", "lacks it", "too short", "held back", "silent"],
)
def test_a_new_copy_that_does_not_show_it_is_waited_for_and_then_stops_it(look: Look, why: str) -> None:
    mine = up_to(COPY, intended(COPY), event(EventKind.ANSWERED, 3))
    assert next_of(mine, look) == Wait(why)
    assert put(next_of(mine, replace(look, at_ms=NOW + TAKES_MS + 1))) == (EventKind.STOPPED, why)


def test_a_record_that_its_source_has_cleaned_since_is_no_difference() -> None:
    mine = up_to(COPY, intended(COPY, **{"17": SAME}), event(EventKind.ANSWERED, 3))
    assert put(next_of(mine, at((1, 3, 2), shown={3: OTHER})))[0] is EventKind.PROVEN


@pytest.mark.parametrize(
    "row", [replace(OTHER[17], has_value=False), replace(OTHER[17], outcome=Outcome.ABORTED), end(17)]
)
def test_a_new_copy_may_lack_what_a_cleaner_takes_from_it_without_a_loss(row: Row) -> None:
    mine = up_to(COPY, intended(COPY), event(EventKind.ANSWERED, 3))
    look = at((1, 3, 2), claims=(), shown={1: {17: row}})
    assert put(next_of(mine, look))[0] is EventKind.PROVEN


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (copying(leader=2), "broker 2 leads, and broker 1 has to while anything is copied"),
        (copying(epoch=12), "the leader's epoch went from 10 to 12: another broker may have led meanwhile"),
        (replace(copying(), isr=frozenset({1})), "broker 2 fell out of sync"),
        (at((1, 3, 2), layout={"moving": {PLACE: (1, 4)}}), "somebody else has it reassigned, to brokers [1, 4]"),
        (at((1, 4)), "the partition was reassigned by somebody else: its replicas are [1, 4]"),
    ],
    ids=["another leader", "another leader meanwhile", "the ISR shrinks", "moved elsewhere", "was moved elsewhere"],
)
def test_a_copy_that_may_be_of_another_replica_stops_it(look: Look, why: str) -> None:
    assert put(next_of(up_to(COPY, intended(COPY)), look)) == (EventKind.STOPPED, why)


def test_what_brokers_show_while_they_do_not_know_yet_that_it_is_over_is_nobody_elses() -> None:
    _, plan = of_two()
    drop = plan.steps[0]
    assert isinstance(drop, MoveStep)
    assert (drop.before, drop.move.replicas) == ((1, 2), (1, 3))
    mine = up_to(drop, intended(drop), event(EventKind.ANSWERED, 1), plan=plan)
    between = at((1, 3, 2))
    assert next_of(mine, between, plan=plan) == Wait("its replicas are [1, 3, 2] still")
    late = replace(between, at_ms=NOW + TAKES_MS + 1)
    assert put(next_of(mine, late, plan=plan)) == (EventKind.STOPPED, "its replicas are [1, 3, 2] still")
    back = up_to(drop, intended(drop), event(EventKind.UNDOING), plan=plan)
    assert next_of(back, between, plan=plan) == Wait("no broker shows it yet")
    assert put(next_of(back, late, plan=plan))[0] is EventKind.STOPPED


def test_a_clock_that_is_behind_makes_no_wait_endless_and_no_copy_quick() -> None:
    day = 86_400_000
    ahead = event(EventKind.ANSWERED, 3, at_ms=NOW + day)
    known = up_to(COPY, intended(COPY), ahead, event(EventKind.STOPPED, 3, at_ms=NOW + day))
    later = Record({ID: known})
    later.take_in([event(EventKind.RESUMED, at_ms=NOW)])
    resumed = later.repairs[ID]
    assert (resumed.at_ms, resumed.resumed_ms, resumed.is_timed) == (NOW + day, NOW + day, False)
    assert next_of(resumed, at((1, 2), at_ms=NOW + day)) == Assign(3, (1, 3, 2)), "it was asked for before"
    kind, reason = put(next_of(resumed, at((1, 3, 2), at_ms=NOW + day)))
    assert (kind, "how long that took is not known" in reason) == (EventKind.PROVEN, True)
    later.take_in([event(EventKind.PROVEN, 3, document={SLOW: True})])
    (copied,) = later.slow().items()
    assert (copied[0], copied[1][1]) == ((PLACE, 3), NOW + day)


def test_a_repair_that_is_over_says_again_what_its_copy_may_lack_where_that_took_too_long() -> None:
    slow = event(EventKind.PROVEN, COPY.number, document={SLOW: True})
    others = [event(EventKind.PROVEN, number) for number in range(1, 5) if number != COPY.number]
    assert put(next_of(up_to(LEAD, *others, slow), at((3, 1, 2)))) == (
        EventKind.OVER,
        f"every step is done and proven; the copy on broker 3 took too long, so it {MAY_LACK}",
    )


def test_a_reassignment_that_somebody_cancels_stops_it_and_is_asked_for_again_by_resume() -> None:
    answered = event(EventKind.ANSWERED, 3)
    mine = up_to(COPY, intended(COPY), answered)
    cancelled = at((1, 2))
    assert next_of(mine, cancelled) == Wait("no broker shows it yet")
    late = replace(cancelled, at_ms=NOW + TAKES_MS + 1)
    assert put(next_of(mine, late)) == (EventKind.STOPPED, "the reassignment was cancelled by somebody else")
    killed = up_to(COPY, intended(COPY), answered, event(EventKind.RESUMED, 0))
    assert put(next_of(killed, late))[0] is EventKind.STOPPED, "nobody has been told of it"
    resumed = up_to(COPY, intended(COPY), answered, event(EventKind.STOPPED, 3), event(EventKind.RESUMED, 0))
    assert next_of(resumed, late) == Assign(COPY.number, COPY.move.replicas)


def test_nothing_is_deleted_that_no_finding_proves_wrong_any_more() -> None:
    for claims, why in (
        ((), "no finding proves any more that broker 3 is wrong"),
        ((claim("f1", {2}, {1}),), "no finding proves any more that broker 3 is wrong"),
        ((claim("f1", {3}, {2}),), "no finding proves any more that broker 1 is right"),
    ):
        for events in ((), (intended(DROP),)):
            kind, reason = put(next_of(up_to(DROP, *events), at((1, 3, 2), claims=claims)))
            assert (kind, why in reason) == (EventKind.STOPPED, True), reason


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ({1: OTHER, 3: OTHER}, "broker 1 shows a record at offset 17, and showed no record when"),
        ({1: OTHER, 3: {}}, "broker 1 shows a record at offset 17, and showed no record when the finding was judged"),
        ({3: {}}, "broker 3 shows what broker 1 shows by now: it may be mended already (finding f1)"),
        ({3: {17: record(17, Outcome.ABORTED)}}, "broker 3 shows what broker 1 shows by now"),
        ({3: {17: replace(record(17), fingerprint="-")}}, "broker 3 shows a record of an open transaction"),
        ({3: {17: replace(record(17, Outcome.NONE), fingerprint="-")}}, "broker 3 shows another record at offset 17"),
    ],
    ids=["both wrong", "roles swapped", "mended", "hidden", "undecided", "another one"],
)
def test_nothing_is_deleted_once_either_side_shows_something_else(shown: dict[int, dict[int, Row]], why: str) -> None:
    other = at((1, 3, 2), shown=shown)
    for step, look in ((DROP, other), (LEAD, replace(other, assigned=(3, 1, 2), leader=3))):
        for events in ((), (intended(step, leader=look.leader),)):
            kind, reason = put(next_of(up_to(step, *events), look))
            assert (kind, why in reason) == (EventKind.STOPPED, True), reason
            assert reason.endswith("Plan again once the job has asked the replicas again")
    assert why in outdated(PLAN, replace(other, assigned=(3, 1, 2), leader=3))
    for step, assigned in ((COPY, (1, 2)), (ORDER, (1, 3, 2))):
        look = at(assigned, shown={**shown, 3: {}})
        is_right = not shown.get(1)
        action = next_of(up_to(step, intended(step)), look)
        assert (action == Assign(step.number, step.move.replicas)) is is_right, "only the source counts by then"


def test_a_plan_is_made_with_a_source_that_still_shows_what_made_it_right() -> None:
    everywhere = replace(KNOWN, shown=dict.fromkeys((1, 2, 3), OTHER))
    (missing,) = make(everywhere, {}).missing
    assert "broker 1 shows a record at offset 17, and showed no record when the finding was judged" in missing
    one = make(replace(KNOWN, shown={1: OTHER, 2: {}, 3: OTHER}), {})
    assert [step.source for step in one.steps if isinstance(step, MoveStep)] == [2] * 4, "another one is copied"
    (missing,) = make(replace(KNOWN, claims=(replace(WRONG, shown=()),)), {}).missing
    assert "nothing on record says by what broker 3 and broker 1 differed" in missing


def test_no_stand_in_is_given_up_once_what_was_copied_is_not_right_any_more() -> None:
    start, plan = of_two()
    copy = plan.steps[1]
    mine = up_to(copy, intended(copy), plan=plan)
    assert next_of(mine, at((1, 3), claims=start.claims), plan=plan) == Assign(2, (1, 2))
    kind, reason = put(next_of(mine, at((1, 3), claims=start.claims, shown={1: OTHER}), plan=plan))
    assert (kind, "broker 1 shows a record at offset 17" in reason) == (EventKind.STOPPED, True)
    undone = up_to(copy, intended(copy), event(EventKind.UNDOING), plan=plan)
    kind, reason = put(next_of(undone, at((1, 3), claims=start.claims, shown={1: OTHER}), plan=plan))
    assert (kind, "broker 1 shows a record at offset 17" in reason) == (EventKind.STOPPED, True)


def test_a_plan_is_out_of_date_once_its_finding_goes_by_other_offsets() -> None:
    assert outdated(PLAN, KNOWN) == ""
    moved = seen(claim("f1", {3}, {1, 2}, 18), leader_epoch=9)
    both = {3: {17: record(17, Outcome.NONE), 18: record(18, Outcome.NONE)}, 1: {}, 2: {}}
    why = "finding f1 goes by something else than when the plan was made"
    assert outdated(PLAN, replace(moved, shown=both)) == why


def test_what_a_person_says_is_right_counts_as_long_as_nothing_proves_otherwise() -> None:
    plan = make(
        replace(KNOWN, claims=(claim("f1", {3}, by_word={1: frozenset({3})}, missing="-"),)),
        {},
        more=Said(right=1),
    )
    assert [step.is_said for step in plan.steps if isinstance(step, MoveStep)] == [True] * 4
    unproven = claim("f1", {3}, by_word={1: frozenset({3})}, missing="nothing proves it")
    assert next_of(up_to(DROP, intended(DROP)), still((1, 3, 2), claims=(unproven,)), plan=plan) == Assign(2, (1, 2))
    proven = claim("f1", {1}, {2, 3})
    kind, reason = put(next_of(up_to(DROP, intended(DROP)), at((1, 3, 2), claims=(proven,)), plan=plan))
    assert (kind, "no finding proves any more that broker 3 is wrong" in reason) == (EventKind.STOPPED, True)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"layout": {"min_isr": 3}}, "2 replicas would be left, and 3 have to be (min.insync.replicas is 3)"),
        ({"layout": {"automation": "there is the topic x"}}, "Cruise Control runs here"),
        ({"layout": {"moving": {PLACE._replace(partition=7): (1, 2)}}}, "1 other partition is being reassigned"),
        ({"replicas": {1: replica(start=10), 2: replica(start=10), 3: replica()}}, "broker 1 begins at offset 10"),
    ],
    ids=["min.insync.replicas", "Cruise Control", "others are moved", "a log start"],
)
def test_nothing_is_deleted_once_the_plan_would_not_be_made_any_more(changed: dict[str, Any], why: str) -> None:
    kind, reason = put(next_of(up_to(DROP), still((1, 3, 2), **changed)))
    assert (kind, why in reason) == (EventKind.STOPPED, True), reason
    assert why in outdated(PLAN, still((3, 1, 2), leader=3, epoch=9, **changed)), "it does not even begin"
    assert next_of(up_to(COPY, intended(COPY)), at((1, 2), **changed)) == Assign(3, (1, 3, 2)), "it is given back"


def test_a_copy_that_would_take_too_long_by_a_new_setting_is_not_begun() -> None:
    slow = still((3, 1, 2), leader=3, epoch=9, layout={"throttle": 1_000_000, "retention_ms": 60_000})
    assert "a throttle holds copies back" in outdated(PLAN, slow)


def test_what_the_job_does_not_know_yet_is_waited_for_and_then_stops_it() -> None:
    pending = still((1, 3, 2), doubts=Doubts(("1 suspect is being checked",)))
    assert asks_tables(up_to(DROP), PLAN)
    assert not asks_tables(up_to(COPY), PLAN), "what gives back is not asked"
    assert next_of(up_to(DROP), pending) == Wait("1 suspect is being checked")
    assert "1 suspect is being checked" in outdated(PLAN, replace(KNOWN, doubts=pending.doubts))
    told = put(next_of(up_to(DROP), replace(pending, at_ms=NOW + TELL_MS + 1)))
    assert told == (EventKind.WORKING, "waiting for the job: 1 suspect is being checked")
    at_work = event(EventKind.WORKING, 2, at_ms=NOW + UNSURE_MS)
    late = replace(pending, at_ms=NOW + UNSURE_MS + 1)
    assert put(next_of(up_to(DROP, at_work), late))[0] is EventKind.STOPPED
    said = make(replace(KNOWN, doubts=pending.doubts), {}, more=Said(right=1))
    assert next_of(up_to(DROP, intended(DROP)), pending, plan=said) == Assign(2, (1, 2)), "a person has said so"


def test_what_a_person_gives_up_is_no_more_than_was_shown() -> None:
    later = {1: replica(start=10), 2: replica(start=10), 3: replica()}
    plan = make(replace(KNOWN, replicas=later), {}, more=Said(right=1))
    mine = up_to(DROP, intended(DROP))
    assert next_of(mine, still((1, 3, 2), replicas=later), plan=plan) == Assign(2, (1, 2))
    more = later | {1: replica(start=11)}
    kind, reason = put(next_of(mine, still((1, 3, 2), replicas=more), plan=plan))
    assert (kind, "begins at offset 11" in reason) == (EventKind.STOPPED, True)


def test_what_was_taken_away_is_given_back_whatever_stands_by_then() -> None:
    assert put(next_of(up_to(COPY), at((1, 2), claims=())))[0] is EventKind.INTENDED
    assert next_of(up_to(COPY, intended(COPY)), at((1, 2), claims=())) == Assign(3, (1, 3, 2))


def test_a_new_finding_stops_it() -> None:
    new = still((1, 3, 2), findings=frozenset({"f1", "f9"}))
    assert put(next_of(up_to(DROP), new)) == (EventKind.STOPPED, "there is a finding that the plan does not know: f9")


def test_a_refusal_stops_it_and_silence_is_waited_for() -> None:
    mine, look = up_to(DROP, intended(DROP)), still((1, 3, 2))
    change = Assign(2, (1, 2))
    assert next_of(mine, look) == change
    assert next_of(mine, look, Asked(change, NOW)) == Wait("no broker answered; it may still come")
    refused = Asked(change, NOW, "ALTER on the cluster is needed")
    assert put(next_of(mine, look, refused)) == (
        EventKind.STOPPED,
        "the cluster refused it: ALTER on the cluster is needed",
    )


def test_a_plan_is_out_of_date_where_its_first_assignment_begins_otherwise() -> None:
    assert outdated(PLAN, KNOWN) == ""
    assert "its replicas are [1, 2], and the step begins with [3, 1, 2]" in outdated(PLAN, at((1, 2)))
    assert outdated(PLAN.only(3), at((1, 2))) == "", "a step may be run by itself"
    assert "broker 2 leads, and broker 1 has to" in outdated(PLAN.only(3), at((1, 2), leader=2))
    moving = at((3, 1, 2), layout={"moving": {PLACE: (1, 2)}})
    assert "is being reassigned already" in outdated(PLAN, moving)


def undoing(*more: Event) -> Repair:
    return up_to(COPY, intended(COPY), event(EventKind.UNDOING), *more)


def test_undo_assigns_the_partition_as_it_was_whichever_step_was_the_last() -> None:
    goal = Assign(0, (3, 1, 2))
    for assigned in ((1, 3, 2), (1, 2)):
        assert next_of(undoing(), at(assigned)) == goal
    assert next_of(undoing(), copying()) == goal, "also while a copy is under way"
    assert next_of(undoing(), at((1, 2)), Asked(goal, NOW)) == Wait("no broker shows it yet")
    back = at((3, 1, 2))
    assert next_of(undoing(), replace(back, isr=frozenset({1, 2}))) == Wait("broker 3 is not in sync yet")
    done = "the replicas are assigned as they were: [3, 1, 2]"
    warned = f"{done}; broker 3 is preferred again, and a finding still calls it wrong: see `parallax lead`"
    assert next_of(undoing(), back) == Wait("no broker has answered a request of the repair; it may still come")
    back = replace(back, at_ms=NOW + TAKES_MS)
    assert put(next_of(undoing(), back)) == (EventKind.CLOSED, warned)
    assert put(next_of(undoing(), replace(back, claims=()))) == (EventKind.CLOSED, done)


def test_undo_gives_no_stand_in_up_while_one_leads_that_may_be_wrong() -> None:
    _, plan = of_two()
    copy = plan.steps[1]
    assert isinstance(copy, MoveStep)
    mine = up_to(copy, intended(copy), event(EventKind.UNDOING), plan=plan)
    assert next_of(mine, at((1, 3)), plan=plan) == Assign(0, (1, 2))
    kind, reason = put(next_of(mine, at((1, 3), leader=3), plan=plan))
    assert (kind, "broker 3 would delete its copy, and may be right: broker 1, which is" in reason) == (
        EventKind.STOPPED,
        True,
    )


def test_a_deletion_that_waits_for_a_copy_is_called_off_where_its_proof_is_gone() -> None:
    start, plan = of_two()
    drop = plan.steps[0]
    assert isinstance(drop, MoveStep)
    mine = up_to(drop, intended(drop), event(EventKind.ANSWERED, drop.number), plan=plan)
    known: dict[str, Any] = {"claims": start.claims, "shown": {2: OTHER}}
    under_way = at((1, 3, 2), layout={"moving": {PLACE: (1, 3)}}, isr=frozenset({1, 2}), **known)
    assert isinstance(next_of(mine, under_way, plan=plan), Wait)
    new = replace(under_way, findings=frozenset({"f1", "f9"}))
    back = Cancel(drop.number)
    assert next_of(mine, new, plan=plan) == back
    assert next_of(mine, replace(under_way, leader=2), plan=plan) == back, "what is copied may be wrong"
    assert next_of(mine, replace(under_way, isr=frozenset({2})), plan=plan) == back, "nobody looks once it has stopped"
    assert isinstance(next_of(mine, new, Asked(back, NOW), plan=plan), Wait)
    off = at((1, 2), findings=frozenset({"f1", "f9"}), **known)
    assert put(next_of(mine, off, Asked(back, NOW), plan=plan)) == (
        EventKind.STOPPED,
        "there is a finding that the plan does not know: f9",
    )
    assert next_of(mine, off, plan=plan) == Wait("no broker shows it yet"), "it may be under way, or complete"
    much_later = replace(off, at_ms=NOW + TAKES_MS + 1)
    assert put(next_of(mine, much_later, plan=plan))[0] is EventKind.STOPPED
    refused = Asked(back, NOW, "the leader would be unclean")
    kind, reason = put(next_of(mine, new, refused, plan=plan))
    assert (kind, "refused to cancel the reassignment: the leader would be unclean" in reason) == (
        EventKind.STOPPED,
        True,
    )
    undone = up_to(drop, intended(drop), event(EventKind.UNDOING), plan=plan)
    assert next_of(undone, new, plan=plan) == Cancel(0), "a copy that is not whole is given up"


def test_what_deletes_is_cancelled_and_never_assigned_back_since_it_may_be_complete_by_then() -> None:
    start, plan = of_two()
    known: dict[str, Any] = {"claims": start.claims, "findings": frozenset({"f1", "f9"})}
    for step in (one for one in plan.steps if isinstance(one, MoveStep) and one.move.gone):
        both = tuple(dict.fromkeys((*step.move.replicas, *step.before)))
        under_way = at(both, layout={"moving": {PLACE: step.move.replicas}}, isr=frozenset(step.before), **known)
        mine = up_to(step, intended(step), event(EventKind.ANSWERED, step.number), plan=plan)
        otherwise = replace(under_way, leader=step.move.gone[0])
        assert next_of(mine, otherwise, plan=plan) == Cancel(step.number)
        complete = at(step.move.replicas, **known)
        assert isinstance(next_of(mine, complete, Asked(Cancel(step.number), NOW), plan=plan), Put | Wait)


def test_no_stand_in_is_deleted_once_something_new_is_found_of_what_it_is_replaced_by() -> None:
    start, plan = of_two()
    copy = plan.steps[1]
    assert isinstance(copy, MoveStep)
    new: dict[str, Any] = {"claims": (*start.claims, claim("f2", {1}, {3})), "findings": frozenset({"f1", "f2"})}
    moving: dict[str, Any] = {"layout": {"moving": {PLACE: (1, 2)}}, "isr": frozenset({1, 3})}
    mine = up_to(copy, intended(copy), event(EventKind.ANSWERED, copy.number), plan=plan)
    assert isinstance(next_of(mine, at((1, 2, 3), **moving), plan=plan), Wait)
    assert next_of(mine, at((1, 2, 3), **moving, **new), plan=plan) == Cancel(copy.number)
    off = Asked(Cancel(copy.number), NOW)
    kind, reason = put(next_of(mine, at((1, 3), **new), off, plan=plan))
    assert (kind, reason) == (EventKind.STOPPED, "a finding proves that broker 1 is wrong")
    undone = up_to(copy, intended(copy), event(EventKind.UNDOING), plan=plan)
    assert isinstance(next_of(undone, at((1, 2, 3), **moving), plan=plan), Wait)
    assert next_of(undone, at((1, 2, 3), **moving, **new), plan=plan) == Cancel(0)
    kind, reason = put(next_of(undone, at((1, 3), **new), plan=plan))
    assert (kind, "may be right: there is a finding that the plan does not know: f2. It stays" in reason) == (
        EventKind.CLOSED,
        True,
    )


def test_one_that_is_over_names_what_was_found_meanwhile() -> None:
    start, plan = of_two()
    copy = plan.steps[1]
    assert isinstance(copy, MoveStep)
    mine = up_to(copy, event(EventKind.PROVEN, copy.number), plan=plan)
    new = at((1, 2), claims=start.claims, findings=frozenset({"f1", "f2"}))
    over = "every step is done and proven; there is a finding that the plan does not know: f2"
    assert put(next_of(mine, new, plan=plan)) == (EventKind.OVER, over)


def test_no_stand_in_is_deleted_while_the_job_does_not_know_what_it_is_replaced_by() -> None:
    _, plan = of_two()
    copy = plan.steps[1]
    assert isinstance(copy, MoveStep)
    mine = up_to(copy, intended(copy), plan=plan)
    assert asks_tables(mine, plan)
    doubts = Doubts(("1 suspect is being checked",))
    assert next_of(mine, at((1, 3), doubts=doubts), plan=plan) == Wait("1 suspect is being checked")
    assert next_of(mine, at((1, 3)), plan=plan) == Assign(copy.number, (1, 2))


def test_undo_leaves_alone_what_somebody_else_has_assigned() -> None:
    kind, reason = put(next_of(undoing(), at((1, 4))))
    assert (kind, "nothing is put back" in reason) == (EventKind.STOPPED, True)


def test_a_repair_that_was_reassigned_after_its_last_step_is_not_over() -> None:
    done = [event(EventKind.PROVEN, number) for number in range(1, 5)]
    known = up_to(LEAD, *done)
    assert put(next_of(known, at((3, 1, 2)))) == (EventKind.OVER, "every step is done and proven")
    other = at((1, 2))
    why = "the partition was reassigned since: its replicas are [1, 2]"
    assert next_of(known, other) == Wait(why), "a broker may be late to know"
    kind, reason = put(next_of(known, replace(other, at_ms=NOW + TAKES_MS + 1)))
    assert (kind, reason) == (EventKind.STOPPED, f"every step is done and proven, and {why}")
    back = at((3, 1, 2), layout={"moving": {PLACE: (1, 2)}})
    assert next_of(known, back) == Wait(why)
