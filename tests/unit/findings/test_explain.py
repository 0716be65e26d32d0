from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from test_findings_table import EVENT

from parallax.findings.explain import explain
from parallax.findings.finding import Finding
from parallax.kinds import KINDS
from parallax.model import NOBODY, FindingKind, FindingStatus


def finding(
    sides: dict[str, list[int]], leader: int = 1, replicas: tuple[int, ...] = (1, 2, 3), **fields: Any
) -> Finding:
    evidence = {"leader": leader, "sides": sides, "replicas": {str(b): {} for b in replicas}}
    base = {"kind": FindingKind.DELETED_RECORD_RESURRECTED, "broker": 2, "exposed": False, "summary": "It is back."}
    return replace(EVENT, evidence=json.dumps(evidence), **(base | fields))


PROVEN = {"no value": [1, 3], "value at offset 0": [2]}


def test_those_that_stand_on_the_one_side_against_the_accused_are_right() -> None:
    said = explain(finding(PROVEN))
    assert said.happened == "It is back."
    assert said.right == "Broker 2 is proven wrong, brokers 1 and 3 are right in this."
    assert "If broker 2 becomes the leader, consumers read a record that was deleted." in said.after
    assert said.now.startswith("Broker 1 leads: consumers that read from the leader do not meet it.")


def test_of_a_replica_that_is_on_no_side_nothing_is_said() -> None:
    said = explain(finding({"no value": [1], "value at offset 0": [2]}))
    assert said.right == "Broker 2 is proven wrong, broker 1 is right in this. Nothing is proven of broker 3."


def test_the_replica_is_copied_again_from_one_that_is_right() -> None:
    said = explain(finding(PROVEN))
    assert said.away is not None
    assert said.back is not None
    assert json.loads(said.away)["partitions"] == [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]
    assert json.loads(said.back)["partitions"][0]["replicas"] == [1, 3, 2]
    assert said.steps[0].startswith("Keep broker 2 from leading")
    assert len(said.steps) == 4


@pytest.mark.parametrize(("leader", "exposed"), [(2, True), (3, False)])
def test_first_a_replica_leads_that_is_right(leader: int, exposed: bool) -> None:
    said = explain(finding({"no value": [1], "value at offset 0": [2]}, leader, exposed=exposed))
    assert said.steps[0].startswith("Let a broker lead that is right")
    assert said.away is not None
    assert json.loads(said.away)["partitions"][0]["replicas"][0] == 1


def test_a_newer_record_proves_nobody_right_while_one_was_not_read_and_no_leader_is_moved() -> None:
    sides = {"value at offset 1": [1], "value at offset 0": [2]}
    said = explain(finding(sides, leader=3, kind=FindingKind.RECORD_MISSING))
    assert said.right == "Broker 2 is proven wrong. Which of the others is right is not proven."
    assert said.away is said.back is None
    assert "reassign" not in " ".join(said.steps)
    assert "elect" in said.steps[0]
    assert "Let a broker lead" not in " ".join(said.steps)
    assert "do not meet it" not in said.now
    assert said.now.startswith("Broker 3 leads: nothing is proven of what it shows")


def test_a_newer_record_proves_all_others_right_that_were_read_and_show_the_same() -> None:
    said = explain(finding({"value at offset 1": [1, 3], "value at offset 0": [2]}, kind=FindingKind.RECORD_MISSING))
    assert said.right == "Broker 2 is proven wrong, brokers 1 and 3 are right in this."
    assert "do not meet it" in said.now


def test_a_transaction_that_two_have_ended_otherwise_proves_neither_of_them_right() -> None:
    sides = {"open": [2], "ended": [1, 3]}
    for kind in (FindingKind.MARKER_MISSING, FindingKind.READ_COMMITTED_FROZEN):
        said = explain(finding(sides, leader=3, kind=kind))
        assert said.right == "Broker 2 is proven wrong. Which of the others is right is not proven."
        assert said.away is None
        assert "do not meet it" not in said.now


@pytest.mark.parametrize("exposed", [True, False])
def test_a_leader_that_shows_what_the_accused_shows_misleads_its_consumers(exposed: bool) -> None:
    said = explain(finding({"no value": [1], "value at offset 0": [2, 3]}, leader=3, exposed=exposed))
    assert said.now == (
        "Broker 3 leads the partition and shows what broker 2 does: consumers read a record that was deleted."
    )
    assert said.after == "Once broker 1 leads, consumers read what is right in this from then on."
    assert said.right == "Broker 2 is proven wrong, broker 1 is right in this. Broker 3 shows the same."
    assert said.steps[0].startswith("Let a broker lead that is right")
    assert said.away is not None
    assert json.loads(said.away)["partitions"][0]["replicas"] == [1, 3]


def test_nobody_is_kept_from_leading_who_leads_already() -> None:
    said = explain(finding({"value at offset 0": [2, 3]}, leader=2, exposed=True))
    assert said.now.startswith("Broker 2 leads the partition: consumers")
    assert said.after == "No other replica is proven right: what consumers read after an election is not known."
    assert said.steps[0].startswith("Elect no other leader on this evidence")


def test_all_that_show_the_same_are_kept_from_leading() -> None:
    said = explain(finding({"no value": [1], "value at offset 0": [2, 3]}))
    assert said.steps[0].startswith("Keep brokers 2 and 3 from leading")
    assert "If broker 2 or 3 becomes the leader" in said.after
    assert "(client.rack) read a record" in said.now


def test_an_incident_names_no_leader_and_says_whether_consumers_meet_it() -> None:
    many = finding({}, replicas=(), leader=NOBODY, suspect_id="", exposed=True)
    assert explain(many).now == "The leader shows it: consumers read a record that was deleted."
    assert "do not meet it" not in explain(replace(many, exposed=False)).now


def test_where_the_others_differ_from_one_another_none_of_them_is_called_right_and_none_is_copied() -> None:
    said = explain(finding({"no value": [1], "value at offset 9": [3], "value at offset 0": [2]}))
    assert said.right == "Broker 2 is proven wrong. Which of the others is right is not proven."
    assert said.away is said.back is None
    assert "reassign" not in " ".join(said.steps)


def test_without_direction_nobody_is_right_and_nothing_is_to_be_reassigned() -> None:
    said = explain(finding(PROVEN, broker=NOBODY, kind=FindingKind.VISIBILITY_MISMATCH, exposed=True))
    assert said.right.startswith("Of none it is proven.")
    assert said.away is None
    assert "reassign" not in " ".join(said.steps)
    assert said.runbook == "docs/runbook.md#without-direction"


def test_what_all_share_no_copy_repairs() -> None:
    said = explain(finding(PROVEN, status=FindingStatus.SPREAD))
    assert said.right == "None: all replicas share it."
    assert said.away is None
    assert said.runbook == "docs/runbook.md#parallaxlosscomplete"


def test_what_is_over_asks_for_nothing() -> None:
    said = explain(finding(PROVEN, status=FindingStatus.RESOLVED))
    assert said.steps == ()
    assert said.away is None


@pytest.mark.parametrize("kind", list(FindingKind))
def test_every_kind_is_explained_by_its_section_of_the_runbook(kind: FindingKind) -> None:
    assert explain(finding(PROVEN, kind=kind)).runbook == f"docs/runbook.md#{KINDS[kind].runbook}"


def test_evidence_that_is_empty_proves_nobody_right() -> None:
    said = explain(replace(EVENT, broker=2, evidence="{}"))
    assert said.right == "Broker 2 is proven wrong. Which of the others is right is not proven."
    assert said.away is None
