from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.finding import Finding
from parallax.model import NOBODY, FindingKind, FindingStatus, Outcome
from parallax.repair.atoms import ENDED, OPEN, About, Atom
from parallax.repair.claims import Claim, claims
from parallax.repair.copies import Said
from parallax.repair.layout import Layout
from parallax.repair.leading import Doubts
from parallax.repair.plan import Plan, make
from parallax.repair.seen import Replica
from tests.builders.findings import finding
from tests.unit.findings.floods import flood
from tests.unit.repair.looks import PLACE, START, look, record, replica
from tests.unit.repair.seeing import GIB, LAYOUT, WRONG, claim, seen, shown


def moved(made: Plan) -> list[tuple[str, list[int]]]:
    return [(step.move.purpose.value, list(step.move.replicas)) for step in made.steps if step.kind == "assignment"]


def missing(made: Plan) -> str:
    assert made.steps == ()
    (text,) = made.missing
    return text


def test_leadership_first_then_away_and_back_and_the_order_again() -> None:
    made = make(seen(), {})
    assert moved(made) == [("lead", [1, 3, 2]), ("drop", [1, 2]), ("copy", [1, 3, 2]), ("order", [3, 1, 2])]
    assert (
        "Its copy has been compared with that of broker 1 by then. So this step does not wait" in made.steps[-1].changes
    )
    assert made.missing == ()
    befores = [step.before for step in made.steps if step.kind == "assignment"]
    assert befores == [(3, 1, 2), (1, 3, 2), (1, 2), (1, 3, 2)], "each begins with what the one before has made"
    drop, copy = made.steps[1], made.steps[2]
    assert "2 replicas are left, as many as min.insync.replicas" in drop.warning
    assert f"{GIB:,} bytes on broker 3" in copy.needs
    assert "within 12 h (half of delete.retention.ms)" in copy.takes
    printed = [json.loads(part) for step in made.steps for part in re.findall(r'(?m)^\{"version".*\}$', step.by_hand)]
    assert [one["partitions"][0]["replicas"] for one in printed] == [replicas for _, replicas in moved(made)]


def test_who_is_right_by_one_finding_and_not_by_another_is_not_copied() -> None:
    other = claim("f2", {2}, {1}, 18)
    made = make(seen(WRONG, other), {})
    assert moved(made)[0] == ("lead", [1, 3, 2])
    assert [purpose for purpose, _ in moved(made)] == ["lead", "drop", "copy", "drop", "copy", "order"]
    assert "broker 2 may lead, and is wrong" in made.steps[1].warning
    settled = claim("f2", {1}, {3}, 18)
    assert "no replica is proven right by all of them" in missing(make(seen(WRONG, settled), {}))


def test_a_finding_for_which_nothing_can_be_copied_says_why() -> None:
    made = make(seen(Claim("f1", missing="nothing proves which replica is right. Compare")), {})
    assert missing(made) == "Finding f1: nothing proves which replica is right. Compare."


def test_of_two_replicas_the_roomiest_broker_stands_in_or_the_plan_asks_for_one() -> None:
    two = {"assigned": (2, 1), "isr": frozenset({1, 2}), "leader": 1, "replicas": {1: replica(), 2: replica()}}
    wrong = claim("f1", {2}, {1})
    layout = replace(LAYOUT, sizes={1: GIB, 2: GIB})
    assert moved(make(seen(wrong, layout=layout, **two), {})) == [
        ("drop", [1, 3]),
        ("copy", [1, 2]),
        ("order", [2, 1]),
    ]
    alone = replace(layout, free={1: 9 * GIB, 2: 9 * GIB, 3: GIB})
    text = missing(make(seen(wrong, layout=alone, **two), {}))
    assert "1 would be left, and min.insync.replicas asks for 2, and no other broker has" in text


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout(error="DESCRIBE on the cluster is needed"), "is not known: DESCRIBE on the cluster is needed"),
        (replace(LAYOUT, moving={PLACE: (1, 2)}), "is being reassigned to brokers [1, 2] already. Wait until"),
        (replace(LAYOUT, moving={PLACE._replace(partition=7): (1, 2)}), "1 other partition is being reassigned. Wait"),
        (replace(LAYOUT, automation="there is the topic x"), "plan again with --automation-paused"),
        (replace(LAYOUT, free=LAYOUT.free | {3: GIB}), "broker 3 has no 1,073,741,824 bytes free for a new copy"),
        (replace(LAYOUT, throttle=1_000), "Allow 24,856 bytes a second at least, or take the throttle away"),
        (None, "it was not looked at"),
    ],
    ids=["not known", "moving", "others are moved", "Cruise Control", "no room", "too slow", "not looked at"],
)
def test_what_stands_against_a_copy_is_said_with_what_to_do(layout: Layout | None, text: str) -> None:
    assert text in missing(make(seen(layout=layout), {}))


def starts(**of: int) -> dict[int, Replica]:
    return {broker: replica(start=of.get(f"b{broker}", 0)) for broker in (1, 2, 3)}


def test_nothing_is_copied_from_a_log_that_begins_later_than_another_one() -> None:
    text = missing(make(seen(replicas=starts(b1=10, b2=10)), {}))
    assert "the log of broker 1 begins at offset 10, and that of broker 3 at 0" in text
    assert "with --right 1 if you know that it may go" in text
    one = make(seen(replicas=starts(b1=10)), {})
    assert [step.source for step in one.steps if step.kind == "assignment"] == [2] * 4, "one that has all is copied"
    said = make(seen(replicas=starts(b1=10, b2=10)), {}, more=Said(right=1))
    assert said.missing == ()
    assert said.steps[0].title == "Let broker 1 lead orders-0: that it is right is what was given (--right)."
    assert [step.given_up for step in said.steps if step.kind == "assignment"] == [10] * 4
    assert "What speaks against it: the log of broker 1 begins at offset 10" in said.steps[0].needs[0]
    assert make(seen(replicas=starts(b1=10, b2=10, b3=10)), {}).missing == (), "retention has passed over all of them"


def test_nothing_is_copied_from_a_replica_that_may_not_lead_by_what_the_job_knows() -> None:
    text = missing(make(seen(doubts=Doubts(("1 suspect is being checked",))), {}))
    assert "nobody knows whether broker 1 is right about all that broker 3 holds: 1 suspect is being checked" in text
    assert "were not read" in missing(make(seen(doubts=None), {}))
    one = make(seen(doubts=Doubts(single={1: ["it was away"]})), {})
    assert [step.source for step in one.steps if step.kind == "assignment"] == [2] * 4
    said = make(seen(doubts=Doubts(("no job watches",))), {}, more=Said(right=1))
    assert said.missing == ()
    assert "What speaks against it: no job watches" in said.steps[0].needs[0]


def test_a_person_may_say_that_nothing_else_moves_partitions() -> None:
    made = make(seen(layout=replace(LAYOUT, automation="its topic")), {}, more=Said(is_paused=True))
    assert made.missing == ()


def test_a_replica_out_of_sync_is_waited_for() -> None:
    assert "Broker 2 is not in sync" in missing(make(seen(isr=frozenset({1, 3})), {}))


def open_on(broker: int) -> Claim:
    """A claim that one replica holds the transaction open that the others have ended."""
    says = {one: OPEN if one == broker else ENDED for one in (1, 2, 3)}
    atoms = tuple(Atom(one, About.TRANSACTION, (START, START + 1), text, 7) for one, text in says.items())
    right = frozenset(says) - {broker}
    return Claim("f1", frozenset({broker}), right, (START,), (7, START), shown=(atoms,))


def test_a_transaction_that_no_end_marker_can_end_is_ended_by_the_copy_of_who_holds_it_open() -> None:
    held = look(assigned=(2, 1, 3), layout=LAYOUT)
    one = open_on(2)
    made = make(replace(held, claims=(one,)), {})
    assert moved(made) == [("drop", [1, 3]), ("copy", [1, 2, 3]), ("order", [2, 1, 3])]
    assert made.missing == (), "nothing proves how it ended, and nobody has to know"
    marked = make(replace(held, claims=(one,)), {START: "commit"})
    assert [step.kind for step in marked.steps] == ["end_marker"], "an end marker copies nothing"


def of(name: str = "f1", sides: dict[str, list[int]] | None = None, **fields: Any) -> Finding:
    sides = sides or {"no value": [1, 2], "value at offset 17": [3]}
    value_at = {broker: what.removeprefix("value at offset ") for what, on in sides.items() for broker in on}
    visible = {
        broker: {"offset": int(at), "outcome": "none", "value_size": 1} if at.isdigit() else None
        for broker, at in value_at.items()
    }
    replicas = {str(b): {"key": {"visible": one, "complete": True}} for b, one in sorted(visible.items())}
    evidence = {"leader": 1, "sides": sides, "replicas": fields.pop("replicas", replicas)}
    return finding(name, **({"broker": 3, "evidence": json.dumps(evidence)} | fields))


def test_a_finding_says_who_is_wrong_and_who_may_be_copied() -> None:
    (one,) = claims([of()])
    assert (one.wrong, one.sources, one.offsets) == (frozenset({3}), frozenset({1, 2}), (17,))
    (both,) = claims([of(sides={"no value": [1], "value at offset 17": [2, 3]})])
    assert (both.wrong, both.sources) == (frozenset({2, 3}), frozenset({1}))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"broker": NOBODY}, "nothing proves which replica is right"),
        ({"status": FindingStatus.SPREAD}, "all replicas share it: no copy can help"),
        (
            {"status": FindingStatus.UNSETTLED},
            "so no copy helps: compare with the system that wrote",
        ),
        ({"sides": {"value at offset 3": [1, 2], "value at offset 17": [3]}}, "no replica is proven right"),
    ],
    ids=["nobody is accused", "spread", "unsettled", "nobody is right"],
)
def test_a_finding_that_proves_nobody_right_has_nothing_copied(fields: dict[str, Any], text: str) -> None:
    (one,) = claims([of(**fields)])
    assert (text in one.missing, one.sources) == (True, frozenset())


def test_a_person_may_say_who_is_right_where_no_finding_proves_it() -> None:
    undecided = {"value at offset 3": [1], "value at offset 9": [2], "value at offset 17": [3]}
    (one,) = claims([of(sides=undecided)])
    assert one.missing
    assert one.by_word == {1: frozenset({3}), 2: frozenset({3})}, "the accused alone is copied anew"
    assert one.lacks(3).startswith("--right 3 is refused: broker 3 shows what this finding calls wrong.")
    assert "plan again with --right" not in one.lacks(3)
    made = make(seen(one), {}, more=Said(right=1))
    assert made.missing == ()
    assert [purpose for purpose, _ in moved(made)] == ["lead", "drop", "copy", "order"]
    first = made.steps[0]
    assert "that broker 1 is right is what was given (--right). No evidence proves it" in first.needs
    assert first.title.endswith("that it is right is what was given (--right).")
    assert "read what it shows from then on" in first.changes
    assert "If broker 1 is not right, what broker 3 shows rightly is lost." in made.steps[1].warning
    (open_,) = claims([of(sides=undecided, broker=NOBODY)])
    both = make(seen(open_), {}, more=Said(right=2))
    assert [list(step.move.gone) for step in both.steps if step.kind == "assignment"][1:4:2] == [[3], [1]]
    assert "--right BROKER" in missing(make(seen(open_), {}))


@pytest.mark.parametrize(
    ("one", "right", "text"),
    [
        (WRONG, 3, "--right 3 contradicts it: it proves that brokers 1 and 2 may be copied"),
        (Claim("f1", missing="all replicas share it", offsets=(17,)), 1, "all replicas share it"),
    ],
    ids=["a proof", "all share it"],
)
def test_whoever_contradicts_a_finding_is_refused(one: Claim, right: int, text: str) -> None:
    assert text in missing(make(seen(one), {}, more=Said(right=right)))


def test_nobody_is_called_right_whom_another_finding_proves_wrong() -> None:
    unproven = claim("f2", (), at=18, showing={3}, by_word={3: frozenset({1, 2})}, missing="nothing proves it")
    made = make(seen(WRONG, unproven), {}, more=Said(right=3))
    assert made.steps == ()
    assert "--right 3 contradicts it: it proves that brokers 1 and 2 may be copied" in made.missing[0]


def test_what_an_end_marker_does_not_mend_is_planned_too() -> None:
    held = look(assigned=(2, 1, 3), layout=LAYOUT)
    aborted = claim("f2", {3}, {1}, START, transaction=(7, START))
    held = replace(held, claims=(open_on(2), aborted))
    made = make(replace(held, shown=shown(held)), {START: "commit"})
    assert made.steps[0].kind == "end_marker"
    assert [list(step.move.gone) for step in made.steps if step.kind == "assignment"][:1] == [[3]]


def test_a_replica_that_could_not_be_read_is_not_deleted() -> None:
    assert "could not be read" in missing(make(seen(shown={1: {}, 2: {}}), {}))


def test_what_another_finding_leaves_open_has_to_be_settled_first() -> None:
    first, second = claims([of(), of("f2", broker=NOBODY)])
    assert "may be wrong in f2: settle that first, or plan again with --right BROKER" in first.missing
    assert (second.missing != "", first.sources) == (True, frozenset())
    assert first.by_word == {1: frozenset({3}), 2: frozenset({3})}, "a person may say it instead"
    assert [first.contradicts(right) for right in (1, 3, 4)] == [False, True, True], "a proof is not overruled"


ALIKE = {"no value": [1, 2, 3]}


@pytest.mark.parametrize("resolution", ["agreed", "spread"])
def test_what_all_replicas_share_hinders_no_copy_once_it_is_acknowledged(resolution: str) -> None:
    known: dict[str, Any] = {"broker": NOBODY if resolution == "agreed" else 2, "status": FindingStatus.ACKNOWLEDGED}
    shared = of("f2", ALIKE, offset=90, **known)
    shared = replace(shared, evidence=json.dumps(json.loads(shared.evidence) | {"resolution": resolution}))
    for right in (None, 1):
        both = claims([of(), shared])
        made = make(seen(*both, findings=frozenset({"f1", "f2"})), {}, more=Said(right=right))
        assert [purpose for purpose, _ in moved(made)] == ["lead", "drop", "copy", "order"]
        (text,) = made.missing
        assert "no copy" in text


def test_of_what_all_share_nobody_is_copied_or_deleted_that_was_not_asked() -> None:
    shared = of("f2", {"no value": [1, 3]}, broker=NOBODY, status=FindingStatus.ACKNOWLEDGED)
    shared = replace(shared, evidence=json.dumps(json.loads(shared.evidence) | {"resolution": "agreed"}))
    first, _ = claims([of(), shared])
    assert first.sources == frozenset({1}), "broker 2 may show something else"
    first, _ = claims([of(sides={"no value": [1], "value at offset 17": [2, 3]}), shared])
    assert first.sources == frozenset(), "it would be deleted"


def incident() -> Claim:
    """Broker 2 still shows the values of 40 keys whose tombstones it lacks."""
    (found,) = claims(flood(range(40)).open)
    return found


def test_an_incident_is_repaired_or_kept_from_leading_by_the_word_of_a_person() -> None:
    one = incident()
    assert (one.wrong, one.by_word) == (frozenset({2}), {1: frozenset({2}), 3: frozenset({2})})
    whole = {b: replica(log_end=2_000, stable=2_000) for b in (1, 2, 3)}
    base = seen(one, leader=2, assigned=(2, 1, 3), findings=frozenset({one.finding}), replicas=whole)
    assert make(base, {}).steps == ()
    made = make(base, {}, more=Said(right=1))
    assert (moved(made)[0], made.missing) == (("lead", [1, 2, 3]), ())
    assert [step.move.gone for step in made.steps if step.kind == "assignment" and step.dropped] == [(2,)]
    (leads,) = make(base, {}, more=Said(right=1), is_to_lead=True).steps
    assert leads.kind == "assignment"
    assert leads.move.replicas == (1, 3, 2)
    assert "shows what this finding calls wrong" in missing(make(base, {}, more=Said(right=2)))


def test_of_an_incident_some_members_may_be_over_and_not_all_that_are_on_record() -> None:
    one = incident()
    whole = {b: replica(log_end=2_000, stable=2_000) for b in (1, 2, 3)}
    (newer,) = one.shown[0][0].offsets[-1:]
    base = seen(one, leader=1, assigned=(1, 2, 3), findings=frozenset({one.finding}), replicas=whole)
    written = {b: {**base.shown[b], newer: record(newer, Outcome.NONE)} for b in (1, 2, 3)}
    assert make(replace(base, shown=written), {}, more=Said(right=1)).steps != ()
    alike = make(replace(base, shown={1: {}, 2: {}, 3: {}}), {}, more=Said(right=1))
    assert "shows what broker 1 shows by now: it may be mended already" in missing(alike)


def test_of_an_incident_nobody_is_called_right_who_shared_it() -> None:
    (one,) = flood(range(40)).open
    told = json.loads(one.evidence)
    told["incident"]["beside"] = [3]
    (found,) = claims([replace(one, evidence=json.dumps(told))])
    assert found.by_word == {1: frozenset({2})}
    (unknown,) = claims([replace(one, evidence=json.dumps(told | {"proofs": []}))])
    assert (unknown.wrong, unknown.by_word) == (frozenset({2}), {})


def test_another_finding_of_the_same_broker_forbids_a_copy_over_who_may_be_right_in_it() -> None:
    both_wrong = of(sides={"no value": [1], "value at offset 17": [2, 3]})
    unproven = of("f2", {"value at offset 4": [1], "value at offset 3": [2], "value at offset 2": [3]})
    first, _ = claims([both_wrong, unproven])
    assert (first.wrong, first.sources) == (frozenset({2, 3}), frozenset()), "broker 2 may be right in f2"
    assert "may be wrong in f2: settle that first" in first.missing
    first, _ = claims([of(), unproven])
    assert (first.wrong, first.sources) == (frozenset({3}), frozenset({1, 2})), "broker 3 is wrong in both"


def test_of_a_lost_head_it_is_asked_what_lies_below_where_the_log_begins() -> None:
    starting = {"1": {"log_start_offset": 0}, "2": {"log_start_offset": 0}, "3": {"log_start_offset": 17}}
    lost = of(kind=FindingKind.LOG_HEAD_MISSING, offset=17, sides={"log start 17": [3]}, replicas=starting)
    (one,) = claims([lost])
    assert (one.offsets, one.by_word) == ((16,), {1: frozenset({3}), 2: frozenset({3})})
    made = make(seen(one, replicas=starts(b3=17)), {}, more=Said(right=1))
    assert [purpose for purpose, _ in moved(made)] == ["lead", "drop", "copy", "order"]
    assert "shows what broker 1 shows by now: it may be mended already" in missing(
        make(seen(one), {}, more=Said(right=1))
    )


def test_what_an_election_has_cut_off_is_in_no_log_so_that_no_copy_helps() -> None:
    (one,) = claims([of(kind=FindingKind.LOG_TRUNCATED, sides={})])
    assert one.by_word == {}
    made = make(seen(one), {}, more=Said(right=1))
    assert (made.steps, "no copy can help. Have what is right written once more" in missing(made)) == ((), True)
