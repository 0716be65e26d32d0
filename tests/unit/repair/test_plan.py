from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from parallax.commands.repair import in_words
from parallax.findings.answers import RecordShown
from parallax.findings.finding import Finding
from parallax.findings.hanging import Prospect, Standing
from parallax.model import FindingKind, FindingStatus, Outcome, RowKind, TopicPartition
from parallax.remedies import CASES, Act
from parallax.repair.claims import WrongIndex
from parallax.repair.plan import Plan, make, proofs
from parallax.repair.seen import End, Log, Look, Row
from parallax.shell import ANYWHERE
from tests.builders.findings import finding
from tests.unit.repair.looks import END, MARKER, START, end, held, logs, look, record, replica, state, transaction
from tests.unit.repair.seeing import WRONG, claim, seen

PROVEN = {(7, START): [End("commit", "its end marker was read", MARKER, "f1")]}


def planned(seen: Look, **said: str) -> Plan:
    return make(replace(seen, proven=PROVEN), {int(at[1:]): kind for at, kind in said.items()})


def missing(made: Plan) -> str:
    assert made.steps == ()
    (text,) = made.missing
    return text


def frozen(**fields: Any) -> Finding:
    evidence = {
        "leader": 1,
        "sides": {"open": [2], "ended": [1, 3]},
        "replicas": {str(broker): {} for broker in (1, 2, 3)},
        "recorded": {"markers": {"1": "commit", "3": "commit"}},
    }
    base = {
        "kind": FindingKind.READ_COMMITTED_FROZEN,
        "broker": 2,
        "producer_id": 7,
        "transaction_start_offset": START,
        "marker_offset": MARKER,
        "evidence": json.dumps(evidence),
    }
    return finding("f1", **(base | fields))


def with_evidence(one: Finding, **parts: Any) -> Finding:
    return replace(one, evidence=json.dumps(json.loads(one.evidence) | parts))


@pytest.mark.parametrize("kind", [FindingKind.READ_COMMITTED_FROZEN, FindingKind.MARKER_MISSING])
def test_a_marker_that_was_read_directly_behind_the_first_record_proves_how_it_ended(kind: FindingKind) -> None:
    ((found,),) = proofs([frozen(kind=kind)]).values()
    assert (found.type, found.marker_offset, found.finding) == ("commit", MARKER, "f1")


def test_so_it_does_where_all_replicas_have_come_to_hold_it_open() -> None:
    spread = with_evidence(frozen(status=FindingStatus.SPREAD), sides={"open": [1, 2, 3]})
    ((found,),) = proofs([spread]).values()
    assert found.type == "commit"


@pytest.mark.parametrize(
    "other",
    [
        frozen(marker_offset=MARKER + 1),
        frozen(kind=FindingKind.ABORTED_RECORD_COMMITTED),
        frozen(status=FindingStatus.RESOLVED),
        with_evidence(frozen(), recorded={"markers": {"1": "commit", "3": "abort"}}),
        with_evidence(frozen(), recorded={"markers": {"3": "commit"}, "outcomes": {"1": "aborted"}}),
        with_evidence(frozen(), recorded={}),
    ],
    ids=["further up", "of another kind", "over", "markers contradict", "an outcome contradicts", "none was read"],
)
def test_nothing_else_proves_it(other: Finding) -> None:
    assert proofs([other]) == {}


def test_the_plan_ends_it_as_the_finding_proves() -> None:
    made = planned(look(findings=frozenset({"f1"})))
    (step,) = made.steps
    assert made.missing == ()
    assert (step.producer_id, step.start_offset, step.end, step.holders) == (7, START, "commit", (2,))
    assert (made.leader, made.leader_epoch, made.replicas, made.findings) == (1, 9, (1, 2, 3), ("f1",))
    assert step.title == (
        "Write a COMMIT marker for the transaction of producer 7 that broker 2 holds open from offset 4 of orders-0 on."
    )
    assert step.by_hand == "None: kafka-transactions.sh writes no COMMIT marker."
    assert "Consumers of brokers 1 and 3 see no change" in step.changes
    assert "CLUSTER_ACTION on the cluster (or ALTER, from Kafka 3.8 on) for the user of the settings" in step.needs
    assert "Stop the producer first" in step.warning


def test_a_wrong_index_is_copied_away_by_a_run_and_rebuilt_by_a_person_instead() -> None:
    one = claim("f1", {3}, {1}, index=WrongIndex(3, 18, 17))
    made = make(seen(one), {})
    assert [step.act for step in made.steps] == [Act.LEAD, Act.DROP, Act.COPY, Act.ORDER]
    (step,) = made.instead
    assert (step.number, step.act, step.broker, step.finding) == (0, Act.REBUILD_INDEX, 3, "f1")
    assert "once the broker is stopped" in step.by_hand
    assert "<= 18" in step.by_hand
    assert step.check.startswith("parallax show-record --topic orders --partition 0 --offset 17 -c CONFIG\n")
    shown = in_words(made, None, ANYWHERE)
    assert f"Instead, a person can do this. {step.title}\n" in shown
    assert step.by_hand in shown
    assert step.check in shown
    assert make(seen(WRONG), {}).instead == ()


@pytest.mark.parametrize("made", [make(seen(), {}), planned(look()), make(seen(), {}, is_to_lead=True)], ids=str)
def test_each_step_is_in_the_table_and_its_title_begins_with_the_line_there(made: Plan) -> None:
    assert made.steps
    for step in made.steps:
        words = [re.escape(part) for part in re.split(r"\{\w+\}", step.act.template)]
        assert re.match(".+?".join(words), step.title, re.IGNORECASE), step.title
        assert any(case.has(step.act) for case in CASES)


def test_where_no_coordinator_knows_the_producer_none_has_to_be_stopped() -> None:
    (step,) = planned(look(None, transaction(Prospect(Standing.HANGS, "no coordinator knows its producer")))).steps
    assert step.warning == ""


def test_without_a_proof_the_plan_asks_the_owner_and_does_as_they_say() -> None:
    hanging = look(held((1, 2, 3)), transaction(b1=[record(START)], b3=[record(START)]))
    said = missing(make(hanging, {}))
    assert "nothing proves whether it was committed or aborted" in said
    assert "--outcome commit (or abort) --offset 4" in said
    (step,) = make(hanging, {START: "abort"}).steps
    assert (step.end, step.holders) == ("abort", (1, 2, 3))
    assert step.by_hand == (
        "kafka-transactions.sh --bootstrap-server HOST:9092 abort --topic orders --partition 0 --start-offset 4"
    )


def test_an_abort_that_the_leader_does_not_hold_open_cannot_be_written_by_kafkas_tools() -> None:
    (step,) = make(look(), {START: "abort"}).steps
    assert step.by_hand.startswith("None")


def test_a_person_who_contradicts_a_proof_is_asked_to_look_again() -> None:
    assert "--outcome abort contradicts finding f1" in missing(planned(look(), _4="abort"))


def test_a_person_who_contradicts_a_later_record_of_the_transaction_is_asked_to_look_again() -> None:
    def said(*rows: Row) -> Plan:
        return make(look(None, transaction(b1=rows)), {START: "commit"})

    later = record(START + 2, Outcome.ABORTED)
    assert f"broker 1 shows its record at offset {START + 2} as aborted" in missing(said(later))
    assert said(record(START + 2, Outcome.COMMITTED)).missing == ()
    assert said(record(START + 2)).missing == (), "what is not decided says nothing"
    assert said(end(START + 1), later).missing == (), "what comes behind its marker is of another one"


def test_a_person_who_contradicts_the_marker_that_a_replica_shows_is_asked_to_look_again() -> None:
    shown = look(None, transaction(b1=[end(MARKER, RowKind.ABORT)]))
    assert "--outcome commit contradicts the end marker" in missing(make(shown, {START: "commit"}))


def test_an_outcome_for_a_transaction_that_is_not_there_is_said() -> None:
    made = planned(look(), _9="commit")
    assert len(made.steps) == 1
    assert made.missing == ("No transaction that is over is open from offset 9 on: nothing is ended there.",)


def test_proofs_that_contradict_end_nothing() -> None:
    both = {(7, START): [*PROVEN[7, START], End("abort", "", MARKER, "f2")]}
    assert "findings prove that it was committed, and that it was aborted" in missing(make(look(proven=both), {}))


def unlike() -> dict[str, tuple[Look, str]]:
    goes_on = Prospect(Standing.UNKNOWN, "not every coordinator answered (broker 3)")
    newer = held() | {1: replica(15, 15)}
    later = [record(START), record(9)]
    return {
        "whether it is over is not known": (look(None, transaction(goes_on)), "not every coordinator answered"),
        "the producer has a newer one open": (look(newer), "another transaction open, from offset 15 on"),
        "a later one was taken for part of it": (look(None, transaction(b2=later)), "the record at offset 9"),
        "its record is shown otherwise": (
            look(None, transaction(b3=[record(START, Outcome.ABORTED), end(MARKER)])),
            "broker 3 shows its first record as aborted",
        ),
        "another marker is shown there": (
            look(None, transaction(b3=[end(MARKER, RowKind.ABORT)])),
            "another end marker",
        ),
        "a log could not be read": (
            look(None, replace(transaction(), logs=logs() | {3: Log(error="it broke")})),
            "what broker 3 holds of it could not be read (it broke)",
        ),
        "a replica is out of sync": (look(isr=frozenset({1, 2})), "Broker 3 is not in sync in orders-0"),
        "a replica is silent": (look(held() | {3: replace(replica(), error="away")}), "Broker 3 does not say"),
        "there is no leader": (look(leader=-1), "has no leader"),
        "it is Kafka's own": (look(place=TopicPartition("__consumer_offsets", 0)), "is Kafka's own"),
    }


@pytest.mark.parametrize("case", list(unlike()))
def test_the_plan_says_what_is_missing_where(case: str) -> None:
    seen, text = unlike()[case]
    assert text in missing(planned(seen))


def test_another_producers_transaction_is_no_obstacle_and_one_that_goes_on_is_left_alone() -> None:
    ongoing = replace(
        transaction(Prospect(Standing.GOES_ON, "the coordinator says Ongoing")), producer_id=8, start_offset=12
    )
    seen = look(held() | {1: replace(replica(), producers=(state(), state(12, producer_id=8)))}, transaction(), ongoing)
    made = planned(seen)
    assert [step.start_offset for step in made.steps] == [START]
    assert made.missing == ()


def test_records_of_two_producer_epochs_are_of_two_transactions_which_no_one_marker_can_end() -> None:
    def of_epoch(offset: int, epoch: int) -> Row:
        shown = RecordShown(offset, "committed", producer_id=7, producer_epoch=epoch)
        return replace(record(offset), fingerprint=shown.fingerprint)

    made = make(look(None, transaction(b2=[of_epoch(START, 5), of_epoch(10, 6)])), {START: "commit"})
    assert "takes records of several transactions for it, by their producer epochs" in missing(made)
    alike = make(look(None, transaction(b2=[of_epoch(START, 5), of_epoch(10, 5)])), {START: "commit"})
    assert len(alike.steps) == 1


def test_several_are_ended_in_the_order_of_their_offsets() -> None:
    lower = replace(transaction(), producer_id=6, start_offset=2, logs=logs(b2=[record(2)]))
    brokers = held()
    brokers[2] = replace(brokers[2], producers=(*brokers[2].producers, state(2, producer_id=6)))
    made = make(look(brokers, transaction(), lower, proven=PROVEN), {2: "abort"})
    assert [(step.number, step.start_offset, step.end) for step in made.steps] == [
        (1, 2, "abort"),
        (2, START, "commit"),
    ]
    assert [step.number for step in made.only(2).steps] == [2]
    with pytest.raises(KeyError):
        made.only(3)


def test_nothing_stands_where_nothing_is_open() -> None:
    made = planned(replace(look({b: replica() for b in (1, 2, 3)}), transactions=()))
    assert (made.steps, made.missing) == ((), ())
    assert made.note == "There is nothing to repair: no finding is open here, and no transaction hangs."
    assert END > MARKER


def test_how_it_ended_is_asked_of_nobody_while_it_may_go_on() -> None:
    hidden = Prospect(Standing.HIDDEN, "no coordinator lists its producer: it hangs, or DESCRIBE is missing")
    said = missing(make(look(None, transaction(hidden)), {}))
    assert "whether it is over is not known: no coordinator lists its producer" in said
    assert "--outcome" not in said
