from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.explain import explain
from parallax.findings.finding import Finding
from parallax.findings.leading import leads_wrongly
from parallax.findings.report import sections
from parallax.findings.steps import Step
from parallax.kinds import KINDS
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.remedies import Act
from tests.builders.findings import AT, EVENT
from tests.unit.findings.explained import PROVEN, assigned_as, explained, index_wrong

LEADS_WRONGLY = f"{leads_wrongly(2)} But elect no other yet: none is proven right by every finding."
"""What `parallax lead` says of that leader, and why it is to stay."""


def test_what_proves_it_is_said_with_its_witnesses_where_the_evidence_names_it() -> None:
    one = explained(PROVEN)
    assert explain(one).proof == ""
    proof = {"what": "tombstone", "offset": 10, "leader_epoch": 4, "read_on": [1, 3], "read_ms": 1_767_355_385_000}
    said = explain(replace(one, evidence=json.dumps(json.loads(one.evidence) | {"proven_by": proof})))
    assert said.proof == (
        "Deleted by the tombstone at offset 10, epoch 4, that brokers 1 and 3 had shown by 2026-01-02 12:03:05 UTC. "
        "No replica may show an older value of the key."
    )
    assert ("What proves it", said.proof) in sections(one, said)


def test_those_that_stand_on_the_one_side_against_the_accused_are_right() -> None:
    said = explain(explained(PROVEN))
    assert said.happened == "It is back."
    assert said.right == "Broker 2 is proven wrong, brokers 1 and 3 are right in this."
    assert "If broker 2 becomes the leader, consumers read what was deleted." in said.after
    assert said.now.startswith("Broker 1 leads: consumers that read from the leader do not meet it.")


@pytest.mark.parametrize(
    ("assigned", "leader", "away", "back"),
    [
        ([3, 1, 2], 3, [3, 1], [3, 1, 2]),
        ([3, 2, 1], 1, [3, 1], [3, 2, 1]),
        ([2, 3, 1], 3, [3, 1], [3, 2, 1]),
        ([2, 3, 1], 2, [3, 1], [3, 2, 1]),
    ],
)
def test_the_order_of_the_replicas_is_kept_but_for_the_accused_that_would_lead(
    assigned: list[int], leader: int, away: list[int], back: list[int]
) -> None:
    said = explain(assigned_as(explained(PROVEN, leader=leader), assigned))
    assert said.away is not None
    assert said.back is not None
    assert json.loads(said.away)["partitions"][0]["replicas"] == away
    assert json.loads(said.back)["partitions"][0]["replicas"] == back
    last = said.steps[-1]
    if assigned[0] == 2:
        assert "give the replicas their order back" in last.text
        assert f'"replicas": {assigned}' in last.run
    else:
        assert not last.run


def test_a_replica_of_which_nothing_is_proven_is_not_first_while_another_is_copied() -> None:
    said = explain(assigned_as(explained({"no value": [3], "value at offset 0": [2]}, leader=3), [1, 2, 3]))
    assert said.back is not None
    assert json.loads(said.back)["partitions"][0]["replicas"] == [3, 1, 2]
    assert not any("order back" in step.text for step in said.steps)


def test_who_is_first_already_is_elected_and_not_assigned_anew() -> None:
    said = explain(assigned_as(explained(PROVEN, leader=2, exposed=True), [1, 2, 3]))
    assert said.steps[0].text.startswith("Let broker 1 lead")
    assert said.steps[0].run.startswith("kafka-leader-election.sh ")
    assert "\n" not in said.steps[0].run


def test_of_a_replica_that_is_on_no_side_nothing_is_said() -> None:
    said = explain(explained({"no value": [1], "value at offset 0": [2]}))
    assert said.right == "Broker 2 is proven wrong, broker 1 is right in this. Nothing is proven of broker 3."


def test_the_replica_is_copied_again_from_one_that_is_right() -> None:
    said = explain(explained(PROVEN))
    assert said.away is not None
    assert said.back is not None
    assert json.loads(said.away)["partitions"] == [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]
    assert json.loads(said.back)["partitions"][0]["replicas"] == [1, 2, 3]
    assert said.steps[0].text.startswith("Keep broker 2 from leading")
    assert "that broker 1 or 3 leads, and that the replicas are still 1, 2, 3, in any order." in said.steps[1].text
    assert "have a deletion written once more: that needs no copy" in said.steps[2].text
    assert_planned_and_run(said.steps[3], explained(PROVEN).finding_id)
    assert "by hand instead: have broker 2 drop its copy" in said.steps[4].text
    assert len(said.steps) == 7


@pytest.mark.parametrize(("leader", "exposed"), [(2, True), (3, False)])
def test_first_a_replica_leads_that_is_right(leader: int, exposed: bool) -> None:
    said = explain(explained({"no value": [1], "value at offset 0": [2]}, leader, exposed=exposed))
    assert said.steps[0].text.startswith("Let broker 1 lead, for a new copy is taken from the leader")
    assert said.away is not None
    assert json.loads(said.away)["partitions"][0]["replicas"][0] == 1


def test_a_newer_record_proves_nobody_right_while_one_was_not_read_and_no_leader_is_moved() -> None:
    sides = {"value at offset 1": [1], "value at offset 0": [2]}
    said = explain(explained(sides, leader=3, kind=FindingKind.RECORD_MISSING))
    deleted = "shows a newer value, and may have missed that it was deleted"
    why = f"broker 1 {deleted}, and broker 3 does not show the record"
    assert said.right == f"Broker 2 is proven wrong. Which of the others is right is not proven: {why}."
    assert said.away is said.back is None
    assert "reassign" not in " ".join(step.text for step in said.steps)
    assert "elect" in said.steps[0].text
    assert "Let a broker lead" not in " ".join(step.text for step in said.steps)
    assert "do not meet it" not in said.now
    assert said.now.startswith("Broker 3 leads: nothing is proven of what it shows")


def test_a_newer_value_proves_nobody_right_though_all_others_show_it() -> None:
    said = explain(explained({"value at offset 1": [1, 3], "value at offset 0": [2]}, kind=FindingKind.RECORD_MISSING))
    why = "brokers 1 and 3 show a newer value, and may have missed that it was deleted"
    assert said.right == f"Broker 2 is proven wrong. Which of the others is right is not proven: {why}."
    assert "do not meet it" not in said.now
    assert said.away is None


def test_a_transaction_that_two_have_ended_otherwise_proves_neither_of_them_right() -> None:
    sides = {"open": [2], "ended": [1, 3]}
    for kind in (FindingKind.MARKER_MISSING, FindingKind.READ_COMMITTED_FROZEN):
        said = explain(explained(sides, leader=3, kind=kind))
        why = "brokers 1 and 3 do not show how the transaction ended"
        assert said.right == f"Broker 2 is proven wrong. Which of the others is right is not proven: {why}."
        assert said.away is None
        assert "do not meet it" not in said.now


def held_open(leader: int = 1, **fields: Any) -> Finding:
    """Broker 2 holds a transaction of producer 7 open, which has ended on brokers 1 and 3."""
    of = {"kind": FindingKind.READ_COMMITTED_FROZEN, "transaction_start_offset": 4, "marker_offset": 9}
    return explained({"open": [2], "ended": [1, 3]}, leader, **(of | {"producer_id": 7} | fields))


ONLY_THEN = "Only where broker 1 is found right, and no end marker could be written: "


def assert_planned_and_run(step: Step, finding_id: str) -> None:
    """The plan goes to a file, which the next command runs; and it is said that repairs are off by default."""
    plan, run = step.run.splitlines()
    assert plan == f"parallax repair plan {finding_id} -o orders-0.plan -c CONFIG"
    assert run == "parallax repair run orders-0.plan -c CONFIG"
    assert "It runs only with repair.mode: on; the default is off." in step.text


@pytest.mark.parametrize("kind", [FindingKind.READ_COMMITTED_FROZEN, FindingKind.MARKER_MISSING])
def test_if_nobody_is_proven_right_about_an_end_it_says_how_to_find_out_and_what_to_run(
    kind: FindingKind,
) -> None:
    said = explain(held_open(kind=kind))
    assert said.away is said.back is None, "no repair is proven"
    keep, find, in_place, check, by_plan, drop, again, *_ = said.steps
    assert keep.text.startswith("Keep broker 2 from leading")
    assert in_place.text.startswith("Once you know whether the transaction was committed or aborted")
    assert_planned_and_run(in_place, held_open().finding_id)
    assert find.text.startswith("Find out which replica is right before any is copied or wiped")
    run = find.run.splitlines()
    assert [line.split("--offset ")[1].split()[0] for line in run if "show-record" in line] == ["4", "9"]
    asked = [line for line in run if " describe-producers --topic orders --partition 0 --broker-id " in line]
    assert [line[-1] for line in asked] == ["1", "2", "3"]
    assert run[-2].endswith(" list | grep -w 7")
    assert run[-1].endswith(" describe --transactional-id ID")
    assert [step.only_where_right for step in said.steps] == [None, None, None, 1, 1, 1, 1, None]
    assert all(step.text.startswith(ONLY_THEN) for step in (check, by_plan, drop, again))
    assert " --right 1 -o " in by_plan.run
    assert "that broker 1 leads" in check.text
    assert '"replicas": [1, 3]' in drop.run
    assert '"replicas": [1, 2, 3]' in again.run


@pytest.mark.parametrize("beside_it", [[], ["another finding"]], ids=["alone", "another one waits"])
def test_where_it_is_proven_how_it_ended_the_marker_is_written_once_more_before_any_copy(beside_it: list[str]) -> None:
    proven = held_open(marker_offset=5)
    evidence = json.loads(proven.evidence) | {"recorded": {"markers": {"1": "commit", "3": "commit"}}}
    others = [beside(NOBODY, kind=FindingKind.VISIBILITY_MISMATCH) for _ in beside_it]
    keep, in_place, *after = explain(replace(proven, evidence=json.dumps(evidence)), others).steps
    assert keep.text.startswith("Keep broker 2 from leading")
    assert in_place.text.startswith(
        "The transaction is proven to have ended by COMMIT: write its end marker for the transaction, which copies"
    )
    assert_planned_and_run(in_place, proven.finding_id)
    copied = [step for step in after if "drop its copy" in step.text or "new copy" in step.text]
    assert all(step.text.startswith("Only where no end marker could be written: ") for step in copied)
    assert bool(copied) == (not beside_it)


def test_where_an_end_marker_comes_next_another_has_to_lead_for_what_consumers_get() -> None:
    proven = held_open(leader=2, exposed=True, marker_offset=5)
    evidence = json.loads(proven.evidence) | {"recorded": {"markers": {"1": "commit", "3": "commit"}}}
    first, in_place, *_ = explain(replace(proven, evidence=json.dumps(evidence))).steps
    assert first.text.startswith("Let broker 1 lead, for consumers of broker 2 in read_committed get nothing")
    assert "copy is taken" not in first.text
    assert "write its end marker" in in_place.text


def test_a_copy_that_is_taken_only_then_is_taken_from_a_leader_that_has_ended_it_too() -> None:
    texts = [step.text for step in explain(held_open(leader=2, exposed=True)).steps]
    assert texts[0] == LEADS_WRONGLY
    assert texts[3].startswith(f"{ONLY_THEN}let broker 1 lead, for a new copy is taken from the")


def test_no_copy_is_named_where_another_finding_leaves_open_who_is_right() -> None:
    said = explain(held_open(), [beside(NOBODY, kind=FindingKind.VISIBILITY_MISMATCH)])
    assert "reassign" not in " ".join(step.text + step.run for step in said.steps)
    assert "it is not known what consumers of the leader read" in said.now


def test_a_leader_that_nothing_speaks_against_is_no_reason_to_be_alarmed() -> None:
    assert explain(held_open()).now.startswith(
        "Broker 1 leads: nothing is proven of what it shows, and nothing says that it is wrong."
    )


@pytest.mark.parametrize("exposed", [True, False])
def test_a_leader_that_shows_what_the_accused_shows_misleads_its_consumers(exposed: bool) -> None:
    said = explain(explained({"no value": [1], "value at offset 0": [2, 3]}, leader=3, exposed=exposed))
    assert said.now == ("Broker 3 leads the partition and shows what broker 2 does: consumers read what was deleted.")
    assert said.after == "Once broker 1 leads, consumers read what is right in this from then on."
    assert said.right == "Broker 2 is proven wrong, broker 1 is right in this. Broker 3 shows the same."
    assert said.steps[0].text.startswith("Let broker 1 lead")
    assert said.away is not None
    assert json.loads(said.away)["partitions"][0]["replicas"] == [1, 3]


def test_nobody_is_kept_from_leading_who_leads_already() -> None:
    said = explain(explained({"value at offset 0": [2, 3]}, leader=2, exposed=True))
    assert said.now.startswith("Broker 2 leads the partition: consumers")
    assert said.after == "No other replica is proven right: what consumers read after an election is not known."
    assert said.steps[0].text == LEADS_WRONGLY


def test_all_that_show_the_same_are_kept_from_leading() -> None:
    said = explain(explained({"no value": [1], "value at offset 0": [2, 3]}))
    assert said.steps[0].text.startswith("Keep brokers 2 and 3 from leading")
    assert "If broker 2 or 3 becomes the leader" in said.after
    assert "(client.rack) read what was deleted" in said.now


def test_an_incident_names_no_leader_and_says_whether_consumers_meet_it() -> None:
    many = explained({}, replicas=(), leader=NOBODY, suspect_id="", exposed=True)
    assert explain(many).now == "The leader shows it: consumers read what was deleted."
    assert "do not meet it" not in explain(replace(many, exposed=False)).now


def test_if_the_others_differ_from_one_another_none_is_called_right_and_none_is_copied() -> None:
    said = explain(explained({"no value": [1], "value at offset 9": [3], "value at offset 0": [2]}))
    why = "broker 1 may have lost a newer value that another shows, and broker 3 shows another value"
    assert said.right == f"Broker 2 is proven wrong. Which of the others is right is not proven: {why}."
    assert said.away is said.back is None
    assert "reassign" not in " ".join(step.text for step in said.steps)


def test_it_says_what_was_not_seen_where_the_end_marker_of_a_transaction_is_cleaned() -> None:
    aborted = {"kind": FindingKind.ABORTED_RECORD_COMMITTED, "offset": 0, "producer_id": 7}
    known = {"outcomes": {"1": "aborted", "2": "committed", "3": "aborted"}, "markers": {"1": "abort", "3": "abort"}}
    event = explained({"aborted": [1, 3], "committed": [2]}, **aborted)
    answers = json.loads(event.evidence)
    answers["replicas"]["3"] = {"error": "it is down"}
    evidence = json.dumps(answers | {"recorded": known})
    said = explain(replace(event, transaction_start_offset=0, marker_offset=1, evidence=evidence))
    marker = "the end marker at offset 1, which would prove it"
    why = f"broker 1 no longer shows {marker}, and broker 3 did not answer"
    assert said.right == f"Broker 2 is proven wrong. Which of the others is right is not proven: {why}."


def test_without_direction_nobody_is_right_and_nothing_is_to_be_reassigned() -> None:
    said = explain(explained(PROVEN, broker=NOBODY, kind=FindingKind.VISIBILITY_MISMATCH, exposed=True))
    assert said.right.startswith("No replica is proven right or wrong.")
    assert said.away is None
    assert "reassign" not in " ".join(step.text for step in said.steps)
    assert said.runbook == "docs/runbook.md#without-direction"


def test_what_all_share_no_copy_repairs() -> None:
    said = explain(explained(PROVEN, status=FindingStatus.SPREAD))
    assert said.right == "None: all replicas share it."
    assert said.away is None
    assert said.runbook == "docs/runbook.md#parallaxlosscomplete"
    known = json.loads(explained(PROVEN).evidence) | {"resolution": "spread"}
    acknowledged = explain(replace(explained(PROVEN), status=FindingStatus.ACKNOWLEDGED, evidence=json.dumps(known)))
    assert (acknowledged.right, acknowledged.away, acknowledged.steps) == (said.right, None, said.steps)


def test_what_some_do_not_show_is_not_said_to_be_shared_by_them_and_nothing_is_wiped_there() -> None:
    kind = FindingKind.ABORTED_RECORD_COMMITTED
    record = {"offset": 4, "producer_id": 7, "outcome": "committed"}
    replicas = {"1": {"committed": [record]}, "2": {"committed": [record]}, "3": {}, "4": {"error": "it is down"}}
    evidence = json.dumps({"leader": 1, "replicas": replicas})
    fields = {"kind": kind, "broker": 2, "offset": 4, "producer_id": 7, "status": FindingStatus.SPREAD}
    said = explain(replace(EVENT, evidence=evidence, exposed=True, **fields))
    unknown = "It is not known what consumers of brokers 3 and 4 read."
    assert said.now == f"Consumers of brokers 1 and 2 in read_committed read data that was rolled back. {unknown}"
    assert said.right.endswith("Nothing is proven of brokers 3 and 4.")
    assert said.steps[0].text.startswith("Wipe nothing on brokers 3 and 4")
    assert said.after.endswith("unless it is of broker 3 or 4.")


def test_who_does_not_hold_a_transaction_open_does_not_share_it() -> None:
    listed = {"open_transactions": [{"producer_id": 7, "start_offset": 4}]}
    others = [{"producer_id": 8, "start_offset": 4}, {"producer_id": 7, "start_offset": 9}]
    replicas = {"1": {"open_transactions": others}, "2": listed, "3": listed}
    evidence = json.dumps({"leader": 3, "replicas": replicas})
    fields = {"broker": 2, "producer_id": 7, "transaction_start_offset": 4, "marker_offset": 6}
    fields |= {"status": FindingStatus.SPREAD, "exposed": True}
    said = explain(replace(EVENT, evidence=evidence, kind=FindingKind.READ_COMMITTED_FROZEN, **fields))
    assert said.now.startswith(
        "Consumers of brokers 2 and 3 in read_committed get nothing beyond their last stable offset."
    )
    assert said.right.endswith("Nothing is proven of broker 1.")


def test_a_transaction_that_is_open_everywhere_is_not_written_again_but_ended() -> None:
    said = explain(explained({}, kind=FindingKind.READ_COMMITTED_FROZEN, status=FindingStatus.SPREAD))
    assert said.steps[0].text.startswith(
        "Write its end marker for the transaction that every replica holds open. The plan says whether"
    )
    assert said.steps[0].run.startswith("parallax repair plan a -o orders-0.plan -c CONFIG\n")


@pytest.mark.parametrize("status", [FindingStatus.RESOLVED, FindingStatus.DISMISSED])
def test_what_is_over_asks_for_nothing_and_calls_nobody_right_or_wrong(status: FindingStatus) -> None:
    said = explain(explained(PROVEN, status=status))
    assert said.steps == ()
    assert said.away is said.back is None
    assert said.right == said.after == ""


def over(status: FindingStatus, **evidence: object) -> str:
    return explain(replace(explained({}, status=status), evidence=json.dumps(evidence))).now


def test_what_is_over_says_whether_it_stands_elsewhere() -> None:
    assert over(FindingStatus.RESOLVED, resolution="part_of_incident").startswith("It is open as part of an incident")
    assert over(FindingStatus.RESOLVED, resolution="explained").startswith("Another finding, named above")
    assert over(FindingStatus.DISMISSED, leans_on=["aaaa"]).startswith("Another finding, named above")
    assert over(FindingStatus.RESOLVED, resolution="healed").startswith("It is over: the replicas agreed when")
    assert over(FindingStatus.RESOLVED, resolution="agreed").startswith("It is over, and that proves no replica right")
    open_no_more = replace(explained({}, status=FindingStatus.RESOLVED), kind=FindingKind.READ_COMMITTED_FROZEN)
    open_no_more = replace(open_no_more, evidence=json.dumps({"resolution": "evidence_compacted"}))
    assert "the transaction is open no more. How the replica ended it is not proven" in explain(open_no_more).now
    assert over(FindingStatus.DISMISSED) == "It was suspected, and not confirmed."


def test_of_a_frozen_replica_each_part_names_where_it_stands_and_the_first_says_since_when() -> None:
    one = explained({"ended": [1, 3]}, kind=FindingKind.READ_COMMITTED_FROZEN)
    evidence = json.loads(one.evidence)
    evidence["replicas"]["2"] = {"last_stable_offset": 41}
    said = explain(replace(one, evidence=json.dumps(evidence)))
    for part in (said.now, said.after):
        assert "broker 2" in part
        assert "in read_committed get nothing beyond offset 41." in part
    assert said.asked.startswith(f"It was first suspected {one.first_suspected_at:%Y-%m-%d %H:%M:%S} UTC. ")


def test_it_says_when_the_replicas_were_asked() -> None:
    decided = f"asked {AT:%Y-%m-%d %H:%M:%SZ}. A replica that was moved"
    assert decided in explain(explained(PROVEN)).asked
    assert "goes on asking" not in explain(explained(PROVEN)).asked, "on its own page nothing sends there"
    evidence = json.dumps({"asked_at_ms": 1_700_000_000_000})
    assert (
        "asked 2023-11-14 22:13:20Z. A replica that was moved"
        in explain(replace(explained(PROVEN), evidence=evidence)).asked
    )
    assert "that was moved" not in explain(explained(PROVEN, status=FindingStatus.RESOLVED)).asked


def beside(broker: int, sides: dict[str, list[int]] = PROVEN, **fields: Any) -> Finding:
    return explained(sides, **({"finding_id": "beef", "broker": broker} | fields))


class TestAnotherFindingOfThePartition:
    """A copy makes the accused what its source is, and may destroy what is right on the accused alone."""

    def test_that_accuses_another_and_clears_nobody_forbids_a_copy(self) -> None:
        other = beside(3, {"value at offset 1": [1, 2], "value at offset 0": [3]}, kind=FindingKind.RECORD_MISSING)
        said = explain(explained(PROVEN), [other])
        assert said.right == "Broker 2 is proven wrong, brokers 1 and 3 are right in this."
        assert said.away is said.back is None
        assert said.steps[0].text.startswith("Keep broker 2 from leading")
        assert "broker 2 may be the right one in finding beef (record_missing)" in said.steps[1].text

    def test_without_direction_forbids_one(self) -> None:
        said = explain(explained(PROVEN, leader=2), [beside(NOBODY, kind=FindingKind.VISIBILITY_MISMATCH)])
        assert said.away is None
        assert said.steps[0].text == LEADS_WRONGLY

    def test_leaves_those_as_sources_that_are_right_in_both(self) -> None:
        other = beside(3, {"no value": [1, 2], "value at offset 0": [3]})
        said = explain(explained(PROVEN, leader=3), [other])
        assert said.steps[0].text.startswith("Let broker 1 lead")
        assert "that broker 1 leads" in said.steps[1].text
        assert said.away is not None
        assert json.loads(said.away)["partitions"][0]["replicas"] == [1, 3]

    @pytest.mark.parametrize(
        "other",
        [
            beside(2, kind=FindingKind.RECORD_MISSING),
            beside(3, finding_id=EVENT.finding_id),
            beside(3, status=FindingStatus.RESOLVED),
            beside(3, status=FindingStatus.SPREAD),
            beside(3, partition=EVENT.partition + 1),
        ],
        ids=["of the accused", "the same", "one that has ended", "one that all share", "of another partition"],
    )
    def test_counts_only_where_the_accused_may_be_right(self, other: Finding) -> None:
        assert replace(explain(explained(PROVEN), [other]), may_lead="") == replace(
            explain(explained(PROVEN)), may_lead=""
        )

    def test_one_of_the_same_accused_that_proves_nobody_else_right_leaves_open_who_may_lead(self) -> None:
        assert "No finding is against brokers 1 and 3." in explain(explained(PROVEN)).may_lead
        said = explain(explained(PROVEN), [beside(2, kind=FindingKind.RECORD_MISSING)]).may_lead
        assert said.startswith("Broker 2 must not. Of brokers 1 and 3 nobody can tell.")


def test_an_index_that_is_wrong_is_rebuilt_and_copied_only_where_that_does_not_end_it() -> None:
    one = index_wrong({"aborted": [1], "committed": [2]}, 1)
    said = explain(one)
    assert said.away is None
    assert said.steps[0].text.startswith("Keep broker 2 from leading")
    assert said.steps[1].text.startswith("Have broker 2 rebuild its index of aborted transactions")
    assert said.steps[1].text.endswith("says so.")
    assert said.steps[2].text.startswith(
        "Only where its index is right again and the finding stays open, give it a new copy by"
    )
    further, _ = explain(index_wrong({"aborted": [1], "committed": [2]}, 2)).steps
    assert "Another broker leads while it is stopped" in further.text
    alone, _ = explain(index_wrong({"committed": [1, 2, 3]}, 1, exposed=True)).steps
    assert "Another broker leads while it is stopped" in alone.text


def test_an_index_is_not_rebuilt_from_a_log_whose_end_marker_is_cleaned() -> None:
    said = explain(index_wrong({"aborted": [1], "committed": [2]}, 1, held=False))
    assert said.away is not None
    assert said.steps[0].text.startswith("Keep broker 2 from leading")
    assert said.steps[0].run.startswith("parallax lead orders"), "it says how"
    assert "have broker 2 drop its copy" in said.steps[3].text
    assert "rebuild" not in " ".join(step.text for step in said.steps)
    further = explain(index_wrong({"aborted": [1], "committed": [2]}, 2, held=False))
    assert further.away is None
    assert further.steps[1].text.startswith("Find out which replica is right before any is copied or wiped")


def test_what_the_cleaner_has_taken_by_a_wrong_index_takes_a_copy() -> None:
    """The index is right again, and the end marker is there."""
    said = explain(index_wrong({"a value": [1], "no value": [2]}, 1))
    assert said.right.startswith("Broker 2 is proven wrong, broker 1 is right in this.")
    assert "have broker 2 drop its copy" in said.steps[3].text
    assert "rebuild" not in " ".join(step.text for step in said.steps)


def test_a_leader_that_lost_the_head_of_its_log_is_not_left_to_lead() -> None:
    said = explain(explained({}, kind=FindingKind.LOG_HEAD_MISSING, leader=2, exposed=True))
    assert said.steps[0].text.startswith("Let a broker lead whose log begins lower and is not empty")


def test_what_was_truncated_and_the_leader_lacks_as_well_is_missed_by_all() -> None:
    said = explain(explained({}, kind=FindingKind.LOG_TRUNCATED, exposed=True))
    assert said.now == "Broker 1 leads the partition and lacks it as well: consumers miss what was truncated."
    assert said.steps[1].text.startswith("Have what was lost written once more")
    assert "acknowledge" in said.steps[-1].run
    assert not any("repair plan" in step.run for step in said.steps), "no copy can help"


def test_a_leader_that_was_only_read_to_show_the_same_is_not_said_to_show_it() -> None:
    one = explained(
        {"aborted": [2, 3], "committed": [1]}, kind=FindingKind.COMMITTED_RECORD_ABORTED, leader=3, exposed=True
    )
    said = explain(one)
    assert said.now.startswith("Broker 3 leads: nothing is proven of what it shows")
    assert "Broker 3 was read to show the same." in said.right
    record = {"offset": one.offset, "producer_id": one.producer_id, "outcome": "aborted"}
    replicas = {"1": {}, "2": {}, "3": {"committed": [record]}}
    shows = replace(one, evidence=json.dumps(json.loads(one.evidence) | {"replicas": replicas}))
    assert explain(shows).now.startswith("Broker 3 leads the partition and shows what broker 2 does")


def test_one_that_did_not_answer_was_only_read_to_show_the_same() -> None:
    one = explained({"no value": [1], "value at offset 0": [2, 3]})
    replicas = {"1": {}, "2": {}, "3": {"error": "it is down"}}
    said = explain(replace(one, evidence=json.dumps(json.loads(one.evidence) | {"replicas": replicas})))
    assert said.right == "Broker 2 is proven wrong, broker 1 is right in this. Broker 3 was read to show the same."


@pytest.mark.parametrize("kind", list(FindingKind))
def test_every_kind_is_explained_by_its_section_of_the_runbook(kind: FindingKind) -> None:
    assert explain(explained(PROVEN, kind=kind)).runbook == f"docs/runbook.md#{KINDS[kind].runbook}"


def test_evidence_that_is_empty_proves_nobody_right() -> None:
    said = explain(replace(EVENT, broker=2, evidence="{}"))
    assert said.right == "Broker 2 is proven wrong. Which of the others is right is not proven."
    assert said.away is None


def test_of_two_replicas_no_assignment_is_printed_that_leaves_one_alone() -> None:
    said = explain(explained({"no value": [1], "value at offset 0": [2]}, replicas=(1, 2)))
    assert said.away is None
    (step,) = [
        one
        for one in said.steps
        if one.text.startswith(
            ("Have another broker copy the partition", "Only where no deletion could be written: have another")
        )
    ]
    assert step.run.startswith("parallax repair plan ")
    assert not any("kafka-reassign-partitions.sh" in one.run for one in said.steps)


@pytest.mark.parametrize("kind", [kind for kind, row in KINDS.items() if row.case.has(Act.COPY)])
@pytest.mark.parametrize("sides", [{}, PROVEN, {"value at offset 3": [1, 3], "value at offset 0": [2]}])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"broker": NOBODY},
        {"replicas": (1, 2)},
        {"leader": 2, "exposed": True},
        {"kind": FindingKind.READ_COMMITTED_FROZEN, "status": FindingStatus.SPREAD},
    ],
)
def test_each_finding_that_a_copy_or_an_end_marker_mends_names_its_plan(
    kind: FindingKind, sides: Mapping[str, list[int]], more: Mapping[str, Any]
) -> None:
    one = explained(sides, **{"kind": kind} | more)
    planned = [step for step in explain(one).steps if f"parallax repair plan {one.finding_id} " in step.run]
    assert planned
    assert all("It runs only with repair.mode: on; the default is off." in step.text for step in planned)


def test_where_nobody_is_proven_right_the_plan_may_be_told_who_is() -> None:
    for one in (explained({"value at offset 3": [1, 3], "value at offset 0": [2]}), explained(PROVEN, broker=NOBODY)):
        assert any("--right BROKER -o " in (step.run or "") for step in explain(one).steps)


def test_an_incident_names_the_leader_of_when_its_members_were_last_asked_about() -> None:
    one = explained({"no value": [1, 3], "value at offset 0": [2]}, suspect_id="")
    told = json.loads(one.evidence)
    del told["leader"]
    told["proofs"] = [{"leader": 1, "offset": 10}]
    assert "Who leads is not known here:" in explain(replace(one, evidence=json.dumps(told))).now
    told["incident"] = {"led": {"leader": 3}}
    assert "Broker 3 leads:" in explain(replace(one, evidence=json.dumps(told))).now


@pytest.mark.parametrize(("suspect", "command"), [("s", "kafka-console-producer.sh"), ("", "show-record")])
def test_a_deletion_that_all_replicas_missed_is_written_again_by_printed_commands(suspect: str, command: str) -> None:
    one = explained(PROVEN, status=FindingStatus.SPREAD, suspect_id=suspect)
    first = explain(one).steps[0]
    assert (first.act, command in first.run) == (Act.DELETE_AGAIN, True)
