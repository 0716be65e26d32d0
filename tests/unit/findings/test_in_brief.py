"""What is said of a finding in a few words."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from parallax.findings.finding import asked_at
from parallax.findings.in_brief import Freeze, Seen, ended_in_words, freezes, seen, seen_counted, standing_freeze
from parallax.model import NOBODY, FindingKind, FindingStatus
from tests.builders.findings import finding


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        ({"exposed": True}, Seen.YES),
        ({"exposed": True, "status": FindingStatus.ACKNOWLEDGED}, Seen.YES),
        ({"exposed": False}, Seen.NO),
        ({"exposed": True, "status": FindingStatus.RESOLVED}, Seen.NO),
        ({"exposed": True, "broker": NOBODY}, Seen.PERHAPS),
        ({"exposed": True, "broker": NOBODY, "status": FindingStatus.SPREAD}, Seen.YES),
    ],
)
def test_without_direction_consumers_may_see_it_unless_every_replica_shows_it(
    fields: dict[str, Any], how: Seen
) -> None:
    assert seen(finding("a", **fields)) is how


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (FindingKind.READ_COMMITTED_FROZEN, "the transaction is no longer open"),
        (FindingKind.MARKER_MISSING, "the transaction is no longer open"),
        (FindingKind.COMMITTED_RECORD_ABORTED, "what had shown it is gone"),
    ],
)
def test_a_freeze_that_is_over_is_not_called_a_record_that_is_gone(kind: FindingKind, words: str) -> None:
    over = finding("a", kind=kind, status=FindingStatus.RESOLVED, evidence='{"resolution": "evidence_compacted"}')
    assert ended_in_words(over) == words


@pytest.mark.parametrize(
    ("kind", "how", "words"),
    [
        (FindingKind.RECORD_MISSING, "evidence_compacted", "a repair replaced what was wrong"),
        (FindingKind.RECORD_MISSING, "outcome_not_proven", "a repair replaced what was wrong"),
        (FindingKind.RECORD_MISSING, "healed", "it was repaired"),
        (FindingKind.READ_COMMITTED_FROZEN, "evidence_compacted", "it was repaired"),
        (FindingKind.RECORD_MISSING, "object_gone", "the topic orders does not exist any more"),
    ],
)
def test_what_a_repair_has_ended_is_said_to_be_repaired(kind: FindingKind, how: str, words: str) -> None:
    said = {"resolution": how, "repaired": True, "reason": "the topic orders does not exist any more"}
    over = finding("a", kind=kind, status=FindingStatus.RESOLVED, evidence=json.dumps(said))
    assert ended_in_words(over) == words


def test_those_that_consumers_may_see_are_counted_for_themselves() -> None:
    shown, perhaps = finding("a", exposed=True), finding("b", exposed=True, broker=NOBODY)
    assert seen_counted([shown, perhaps, perhaps, finding("c")]) == "1 seen by consumers, 2 perhaps seen by consumers"
    assert seen_counted([finding("c")]) == ""


def test_a_replica_is_frozen_by_findings_that_stand_and_was_by_those_that_are_over() -> None:
    at = finding("a").first_suspected_at
    frozen = {"kind": FindingKind.READ_COMMITTED_FROZEN}
    later = finding("b", first_suspected_at=at + timedelta(hours=1), **frozen)
    earlier = finding("c", kind=FindingKind.MARKER_MISSING)
    over = finding("d", status=FindingStatus.RESOLVED, broker=3, **frozen)
    undirected, other = finding("e", broker=NOBODY, **frozen), finding("f", broker=1)
    dismissed = finding("g", status=FindingStatus.DISMISSED, broker=1, **frozen)
    found = freezes([later, earlier, over, undirected, other, dismissed])
    assert found == {
        2: [Freeze(at), Freeze(later.first_suspected_at)],
        3: [Freeze(over.first_suspected_at, asked_at(over))],
    }
    assert standing_freeze(found[2]) == Freeze(at)
    assert standing_freeze(found[3]) is None
