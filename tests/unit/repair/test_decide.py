from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.hanging import Prospect, Standing
from parallax.model import Outcome, RowKind
from parallax.repair.actions import TAKES_MS, Asked, Put, Wait, Write
from parallax.repair.command import document
from parallax.repair.decide import following, outdated
from parallax.repair.plan import Plan, make
from parallax.repair.record import UNWRITTEN, Event, EventKind, Phase, Record, Repair
from parallax.repair.seen import End, Look, Row
from parallax.replica.changes import EndMarker
from tests.unit.repair.looks import (
    END,
    HANGS,
    MARKER,
    NOW,
    PLACE,
    START,
    end,
    held,
    logs,
    look,
    mended,
    record,
    replica,
    state,
    transaction,
)

ME = "me@here:1:1"
ID = "a" * 32
KNOWN = look(findings=frozenset({"f1"}), proven={(7, START): [End("commit", "", MARKER, "f1")]})
PLAN = make(KNOWN, {})


def event(kind: EventKind, step: int = 0, at_ms: int = NOW, **fields: Any) -> Event:
    return Event(kind, ID, *PLACE, at_ms, ME, step, **fields)


BEGUN = event(EventKind.BEGUN, document=document(PLAN))
KEPT = event(EventKind.KEPT)
HOW = {"producer_epoch": 3, "coordinator_epoch": 1, "below": END}
INTENDED = event(EventKind.INTENDED, 1, document=HOW)
WRITE = Write(1, 1, EndMarker(PLACE, 7, 3, 1, is_commit=True))
ANSWERED = event(EventKind.ANSWERED, 1)
PROVEN = event(EventKind.PROVEN, 1)


def repair(*events: Event) -> Repair:
    record_ = Record()
    record_.take_in([BEGUN, *events])
    return record_.repairs[ID]


def next_of(seen: Look, *events: Event, asked: Asked | None = None, plan: Plan = PLAN) -> Any:
    return following(repair(*events), plan, seen, ME, asked)


def put(action: object) -> tuple[EventKind, str]:
    assert isinstance(action, Put), action
    return action.event.kind, action.event.reason


def test_what_the_replicas_show_is_kept_before_anything_is_intended() -> None:
    action = next_of(KNOWN)
    assert put(action)[0] is EventKind.KEPT
    rows = {one["broker"]: one["rows"] for one in action.event.document["held"]}
    assert rows == {1: [], 2: [[START, "record", f"{START:032x}", f"{START:016x}", "UNDECIDED"]], 3: []}


def test_it_is_written_down_how_a_step_is_done_before_it_is() -> None:
    action = next_of(KNOWN, KEPT)
    assert put(action)[0] is EventKind.INTENDED
    assert action.event.document == HOW, "the epochs that the leader remembers, and where its log ends"
    assert next_of(KNOWN, KEPT, INTENDED) == WRITE


def test_where_the_leader_has_forgotten_the_producer_the_epoch_of_the_transaction_is_used() -> None:
    brokers = held() | {1: replace(replica(), producers=()), 3: replace(replica(), producers=())}
    action = next_of(replace(KNOWN, replicas=brokers), KEPT)
    assert action.event.document == {"producer_epoch": 2, "coordinator_epoch": -1, "below": END}


def test_a_step_whose_epochs_have_changed_since_is_written_down_again() -> None:
    brokers = held() | {1: replica(epoch=4)}
    action = next_of(replace(KNOWN, replicas=brokers), KEPT, INTENDED)
    assert put(action)[0] is EventKind.INTENDED
    assert action.event.document["producer_epoch"] == 4


def test_the_marker_is_looked_for_from_where_it_was_intended_first() -> None:
    again = event(EventKind.INTENDED, 1, document=HOW | {"below": END + 5})
    assert repair(KEPT, INTENDED, again).intended[1]["below"] == END


@pytest.mark.parametrize("answered", [(), (ANSWERED,)], ids=["killed before the answer", "answered"])
def test_a_step_is_proven_by_what_every_replica_shows(answered: tuple[Event, ...]) -> None:
    assert put(next_of(mended(), KEPT, INTENDED, *answered)) == (EventKind.PROVEN, f"end marker at offset {END}")
    assert put(next_of(mended(), KEPT, INTENDED, PROVEN)) == (
        EventKind.OVER,
        "every step is done and proven",
    )
    assert next_of(mended(), KEPT, INTENDED, PROVEN, event(EventKind.OVER)) is None


def lagging() -> dict[str, tuple[Look, str]]:
    marker = [end(END)]
    one = transaction(b1=marker, b3=marker)
    behind = replace(mended(), transactions=(one,), replicas=mended().replicas | {2: replica(START, START)})
    return {
        "not there yet": (behind, "broker 2 does not show the end marker at offset 20"),
        "still open": (
            replace(mended(), replicas=mended().replicas | {2: replica(START, START)}),
            "broker 2 still holds the transaction open",
        ),
        "stable offset": (
            replace(mended(), replicas=mended().replicas | {2: replica(stable=START)}),
            "the last stable offset of broker 2 is still 4",
        ),
        "outcome": (mended(outcome=Outcome.ABORTED), "broker 2 shows the record at offset 4 as aborted"),
        "silent": (
            replace(mended(), replicas=mended().replicas | {3: replace(replica(), error="away")}),
            "broker 3 does not say what it holds (away)",
        ),
    }


@pytest.mark.parametrize("case", list(lagging()))
def test_it_waits_for_a_replica_that_does_not_show_it_and_then_stops(case: str) -> None:
    seen, why = lagging()[case]
    assert next_of(seen, KEPT, INTENDED, ANSWERED) == Wait(why)
    late = replace(seen, at_ms=NOW + TAKES_MS + 1)
    assert put(next_of(late, KEPT, INTENDED, ANSWERED)) == (EventKind.STOPPED, why)


def test_a_marker_of_the_other_type_is_somebody_elses_and_stops_it() -> None:
    kind, reason = put(next_of(mended(kind=RowKind.ABORT), KEPT, INTENDED))
    assert (kind, reason) == (EventKind.STOPPED, "somebody else has ended it by ABORT, at offset 20")


def test_a_later_transaction_of_the_producer_that_ended_otherwise_is_not_taken_for_this_one() -> None:
    ends = [end(END), end(END + 2, RowKind.ABORT)]
    mine = transaction(b1=ends, b2=[record(START, Outcome.COMMITTED), *ends], b3=ends)
    assert put(next_of(mended(transactions=(mine,)), KEPT, INTENDED)) == (
        EventKind.PROVEN,
        f"end marker at offset {END}",
    )


def test_it_waits_for_a_marker_that_the_leader_says_it_has_written_and_writes_no_other() -> None:
    assert next_of(KNOWN, KEPT, INTENDED, ANSWERED) == Wait("no replica shows the marker yet")
    late = replace(KNOWN, at_ms=NOW + TAKES_MS + 1)
    assert put(next_of(late, KEPT, INTENDED, ANSWERED))[0] is EventKind.STOPPED


def test_without_an_answer_the_marker_is_awaited_and_then_written_once_more() -> None:
    asked = Asked(WRITE, NOW)
    assert isinstance(next_of(KNOWN, KEPT, INTENDED, asked=asked), Wait)
    late = replace(KNOWN, at_ms=NOW + TAKES_MS)
    assert isinstance(next_of(late, KEPT, INTENDED, asked=asked), Write)


def test_a_refusal_stops_it_and_is_said() -> None:
    refused = Asked(WRITE, NOW, "not authorized: CLUSTER_ACTION on the cluster (or ALTER, from Kafka 3.8 on) is needed")
    kind, reason = put(next_of(KNOWN, KEPT, INTENDED, asked=refused))
    assert kind is EventKind.STOPPED
    assert "CLUSTER_ACTION on the cluster (or ALTER, from Kafka 3.8 on) is needed" in reason


def test_a_transaction_that_its_marker_ended_as_well_is_said_and_nothing_is_called_done() -> None:
    marker = [end(END + 2)]
    mine = transaction(b1=[record(END + 1, Outcome.COMMITTED), *marker], b2=marker, b3=marker)
    kind, reason = put(next_of(mended(END + 2, transactions=(mine,)), KEPT, INTENDED, ANSWERED))
    assert kind is EventKind.STOPPED
    assert "the producer began a transaction at offset 21" in reason


def unlike() -> Mapping[str, tuple[Look, str]]:
    goes_on = Prospect(Standing.GOES_ON, "the coordinator says Ongoing")
    return {
        "another leader": (replace(KNOWN, leader=3, leader_epoch=10), "another leader was elected"),
        "elected again": (replace(KNOWN, leader_epoch=10), "another leader was elected"),
        "reassigned": (replace(KNOWN, assigned=(1, 2)), "the partition was reassigned"),
        "the isr shrinks": (replace(KNOWN, isr=frozenset({1, 3})), "broker 2 is not in sync"),
        "a new finding": (
            replace(KNOWN, findings=frozenset({"f1", "f2"})),
            "a finding that the plan does not know: f2",
        ),
        "another marker": (
            replace(KNOWN, proven={(7, START): [End("commit", "", MARKER + 1, "f1")]}),
            "finding f1 goes by another end marker by now than when the plan was made",
        ),
        "not proven any more": (replace(KNOWN, proven={}), "finding f1 does not prove any more how it ended"),
        "proven otherwise": (
            replace(KNOWN, proven={(7, START): [End("abort", "", MARKER, "f1")]}),
            "a finding proves that the transaction was ended otherwise than by COMMIT",
        ),
        "over by itself": (replace(KNOWN, replicas=held(())), "held the transaction open when the plan was made"),
        "on another as well": (
            replace(KNOWN, replicas=held((2, 3))),
            "held the transaction open when the plan was made",
        ),
        "it goes on": (replace(KNOWN, transactions=(transaction(goes_on),)), "whether it is over is not known"),
        "a newer one": (replace(KNOWN, replicas=held() | {1: replica(15, 15)}), "another transaction open"),
        "another topic": (replace(KNOWN, topic_id="other"), "was deleted and created again"),
        "another cluster": (replace(KNOWN, cluster_id="other"), "the brokers are of cluster other"),
    }


@pytest.mark.parametrize("case", list(unlike()))
@pytest.mark.parametrize("events", [(KEPT,), (KEPT, INTENDED)], ids=["before it is intended", "before it is written"])
def test_it_stops_where_anything_is_not_as_planned(case: str, events: tuple[Event, ...]) -> None:
    seen, text = unlike()[case]
    kind, reason = put(next_of(seen, *events))
    assert (kind, text in reason) == (EventKind.STOPPED, True), reason


def test_a_finding_that_is_over_is_as_planned() -> None:
    assert isinstance(next_of(replace(KNOWN, findings=frozenset()), KEPT, INTENDED), Write)


def test_one_that_has_stopped_does_nothing_until_a_person_has_it_go_on() -> None:
    stopped = event(EventKind.STOPPED, 1, reason="because")
    assert next_of(KNOWN, KEPT, stopped) is None
    assert repair(KEPT, stopped).phase is Phase.STOPPED
    assert isinstance(next_of(KNOWN, KEPT, INTENDED, stopped, event(EventKind.RESUMED)), Write)
    assert next_of(KNOWN, KEPT, stopped, event(EventKind.CLOSED)) is None


def test_the_second_step_follows_the_first() -> None:
    lower = replace(transaction(), producer_id=6, start_offset=2, logs=logs(b2=[record(2)]))
    brokers = held()
    brokers[2] = replace(brokers[2], producers=(*brokers[2].producers, state(2, producer_id=6)))
    seen = look(brokers, transaction(), lower)
    plan = make(seen, {2: "abort", START: "commit"})
    assert next_of(seen, KEPT, plan=plan).event.step == 1
    after = replace(KNOWN, transactions=(transaction(), replace(lower, logs=logs(b2=[record(2), end(END)]))))
    assert next_of(after, KEPT, PROVEN, plan=plan).event.step == 2


def test_one_repair_is_open_in_a_partition_until_it_is_over_or_closed() -> None:
    known = Record()
    known.take_in([BEGUN, event(EventKind.STOPPED)])
    assert (found := known.open_in(PLACE)) is not None
    assert found.repair_id == ID
    known.take_in([event(EventKind.CLOSED)])
    assert known.open_in(PLACE) is None


def test_a_marker_that_the_cleaner_has_taken_already_is_proven_by_what_it_has_brought_about() -> None:
    gone = transaction(b2=[record(START, Outcome.COMMITTED)])
    seen = replace(mended(), transactions=(gone,))
    assert put(next_of(seen, KEPT, INTENDED, ANSWERED)) == (
        EventKind.PROVEN,
        "no replica holds the transaction open any more",
    )
    wrong = replace(seen, transactions=(transaction(b2=[record(START, Outcome.ABORTED)]),))
    assert isinstance(next_of(wrong, KEPT, INTENDED, ANSWERED), Wait)
    assert next_of(seen, KEPT, INTENDED, ANSWERED).event.document == {}
    assert next_of(seen, KEPT, INTENDED).event.document == {UNWRITTEN: True}, "the leader took none"


def test_a_marker_proves_nothing_while_an_older_transaction_hides_what_it_has_ended() -> None:
    marker = [end(END)]
    mine = transaction(b1=marker, b2=[record(START), *marker], b3=marker)
    behind = replace(replica(stable=2, log_end=END + 1), producers=(state(), state(2, producer_id=6)))
    seen = replace(mended(), transactions=(mine,), replicas=mended().replicas | {2: behind})
    assert next_of(seen, KEPT, INTENDED, ANSWERED) == Wait("the last stable offset of broker 2 is still 2")
    late = replace(seen, at_ms=NOW + TAKES_MS + 1)
    assert put(next_of(late, KEPT, INTENDED, ANSWERED))[0] is EventKind.STOPPED


def test_no_marker_is_written_behind_an_older_transaction_that_the_plan_does_not_end_first() -> None:
    older = replace(transaction(), producer_id=6, start_offset=2, logs=logs(b3=[record(2)]))
    brokers = held()
    brokers[3] = replace(brokers[3], producers=(*brokers[3].producers, state(2, producer_id=6)))
    seen = replace(KNOWN, replicas=brokers, transactions=(older, transaction()))
    alone = make(seen, {})
    assert (alone.steps, "End that one first, or in the same plan" in " ".join(alone.missing)) == ((), True)
    both = make(seen, {2: "abort"})
    assert [step.start_offset for step in both.steps] == [2, START]
    assert outdated(both, seen) == ""
    assert "broker 3 holds an older transaction open, from offset 2 on" in outdated(both.only(2), seen)


def raced(*later: Row, verdict: Prospect = HANGS) -> Look:
    """The producer has written since the last look; the first marker behind that has ended what it wrote as well."""
    rows = [record(END, Outcome.COMMITTED), end(END + 1), *later]
    one = transaction(verdict, b1=rows, b2=[record(START, Outcome.COMMITTED), *rows], b3=rows)
    log_end = END + 2 + len(later)
    return replace(
        KNOWN, replicas={b: replica(stable=log_end, log_end=log_end) for b in (1, 2, 3)}, transactions=(one,)
    )


GOES_ON = Prospect(Standing.GOES_ON, "its coordinator says Ongoing")
SURE = f"in the moment before the marker (offset {END + 1}), which ended that one by COMMIT as well"
PERHAPS = "If the repair wrote that marker, it ended that one by COMMIT as well: ask the owner"


@pytest.mark.parametrize(
    ("seen", "is_answered", "expected"),
    [
        (raced(), False, ""),
        (raced(), True, SURE),
        (raced(verdict=GOES_ON), False, PERHAPS),
        (raced(verdict=Prospect(Standing.UNKNOWN, "no answer")), False, PERHAPS),
        (raced(end(END + 2)), True, ""),
        (raced(end(END + 2)), False, ""),
        (raced(end(END + 2, RowKind.ABORT)), False, SURE),
        (raced(record(END + 2), end(END + 3)), True, PERHAPS),
        (raced(record(END + 2), end(END + 3)), False, PERHAPS),
    ],
    ids=[
        "its coordinator has ended it, and the repair wrote none",
        "the repair wrote the only one",
        "its coordinator may not have ended it",
        "nobody knows whether its coordinator has ended it",
        "both have ended it alike",
        "both have ended it alike, and no answer came",
        "its coordinator ended it otherwise",
        "each of two may be of the repair",
        "each of two may be of the repair, or none",
    ],
)
def test_it_is_said_what_the_marker_ended_as_well_unless_that_is_known_to_be_nothing(
    seen: Look, is_answered: bool, expected: str
) -> None:
    events = [KEPT, INTENDED, *[ANSWERED] * is_answered]
    action = next_of(seen, *events)
    if not expected:
        assert put(action) == (EventKind.PROVEN, f"end marker at offset {END + 1}")
        return
    assert (action.event.kind, expected in action.event.reason) == (EventKind.STOPPED, True), action.event.reason
    again = next_of(seen, *events, replace(action.event, sequence=9), event(EventKind.RESUMED))
    assert put(again)[0] is EventKind.PROVEN, "whoever resumes knows it"
