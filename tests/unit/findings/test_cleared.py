"""Which replicas a finding's evidence proves right: what proves it clears those on its side, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.cleared import CLEARED, cleared
from parallax.findings.shown import Shown
from parallax.kinds import Clears
from parallax.model import NOBODY, FindingKind, FindingStatus
from tests.builders.findings import evidence, finding

RESURRECTED = FindingKind.DELETED_RECORD_RESURRECTED
MISSING = FindingKind.RECORD_MISSING
READ_WHOLE = {"key": {"complete": True}}
GONE = {"error": "it does not answer"}
COMMIT = {"offset": 20, "producer_id": 7, "type": "commit"}
ABORT = {"offset": 20, "producer_id": 7, "type": "abort"}
ABORTED = {"committed": [{"offset": 10, "producer_id": 7, "outcome": "aborted"}]}
SHOWS_ABORTED = ABORTED | {"markers": [ABORT]}
LISTS_ABORTED = {"aborted": [{"producer_id": 7, "first_offset": 10}], "markers": [ABORT]}
OTHERS_ABORT = {"offset": 20, "producer_id": 8, "type": "abort"}


def shown(
    kind: FindingKind,
    sides: dict[str, list[int]],
    replicas: dict[int, dict[str, Any]] | None = None,
    recorded: dict[str, Any] | None = None,
    *,
    leader: int = 1,
    **fields: Any,
) -> Shown:
    """What the evidence of a finding on a transaction from offset 10 to 20 says."""
    answered = {1: {}, 2: {}, 3: {}} | (replicas or {})
    base = {"offset": 10, "producer_id": 7, "transaction_start_offset": 10, "marker_offset": 20}
    told = evidence(sides, answered, leader, recorded=recorded or {})
    return Shown.of(finding(kind=kind, evidence=told, **(base | fields)))


def right(*given: Any, **more: Any) -> list[int]:
    return cleared(shown(*given, **more))


@pytest.mark.parametrize("clears", list(Clears))
def test_each_kind_of_proof_has_its_rule(clears: Clears) -> None:
    assert clears in CLEARED


class TestATombstone:
    def test_clears_those_that_show_no_value(self) -> None:
        assert right(RESURRECTED, {"no value": [1, 3], "value at offset 4": [2]}) == [1, 3]
        assert right(RESURRECTED, {"no value": [1], "value at offset 4": [2, 3]}) == [1]

    def test_clears_them_though_another_shows_an_older_value_still(self) -> None:
        assert right(RESURRECTED, {"no value": [1], "value at offset 4": [2], "value at offset 3": [3]}) == [1]

    def test_clears_nobody_where_a_newer_value_may_have_replaced_it(self) -> None:
        assert right(RESURRECTED, {"no value": [1], "value at offset 4": [2], "value at offset 9": [3]}) == []

    def test_that_was_only_recorded_clears_nobody_who_shows_the_value(self) -> None:
        assert right(RESURRECTED, {"value at offset 4": [1, 2]}, {3: GONE}) == []

    def test_does_not_clear_one_whose_log_was_not_read_far_enough(self) -> None:
        half = {"key": {"complete": False, "complete_from": 8}}
        assert right(RESURRECTED, {"no value": [1, 3], "value at offset 4": [2]}, {1: half, 3: READ_WHOLE}) == [3]
        shown = {"key": {"complete": False, "visible": {"offset": 8}}}
        assert right(RESURRECTED, {"no value": [1], "value at offset 4": [2]}, {1: shown}) == [1]

    def test_does_not_clear_one_that_holds_an_older_aborted_record_and_no_tombstone_behind_it(self) -> None:
        sides = {"no value": [1, 3], "value at offset 4": [2]}

        def holds(newest: int, visible: int | None = None) -> dict[int, dict[str, Any]]:
            shown = None if visible is None else {"offset": visible}
            return {1: {"key": {"complete": True, "visible": shown, "newest_offset": newest}}}

        assert right(RESURRECTED, sides, holds(5)) == right(RESURRECTED, sides, holds(5, visible=2)) == [3]
        assert right(RESURRECTED, sides, holds(-1)) == right(RESURRECTED, sides, holds(2, visible=2)) == [1, 3]
        assert right(RESURRECTED, sides, holds(12, visible=10)) == [1, 3], "it was written behind the tombstone"

    def test_does_not_clear_one_that_holds_undecided_what_another_has_decided(self) -> None:
        sides = {"no value": [1, 3], "value at offset 4": [2]}
        ahead = {"last_stable_offset": 9, "high_watermark": 9}
        for mark, cleared_now in ((9, [1]), (8, [1, 3])):  # Behind it, it may merely not have come so far yet.
            behind = {"last_stable_offset": 6, "high_watermark": mark}
            assert right(RESURRECTED, sides, {1: ahead, 3: behind}) == cleared_now


class TestARecord:
    def test_clears_those_that_hold_it_where_nothing_is_compacted(self) -> None:
        assert right(MISSING, {"no record there": [2], "record at offset 9": [1, 3]}) == [1, 3]
        assert right(MISSING, {"no record there": [2, 3], "record at offset 9": [1]}, {3: GONE}) == [1]

    def test_of_a_key_clears_nobody_however_many_show_it(self) -> None:
        # It may have been deleted, on a replica that was copied since from one that has missed that.
        assert right(MISSING, {"value at offset 9": [1, 3], "value at offset 4": [2]}) == []


class TestAnOutcome:
    KIND = FindingKind.ABORTED_RECORD_COMMITTED

    def test_clears_those_that_show_it(self) -> None:
        show = {1: SHOWS_ABORTED, 3: LISTS_ABORTED}
        assert right(self.KIND, {"aborted": [1, 3], "committed": [2]}, show) == [1, 3]
        assert right(self.KIND, {"aborted": [1], "committed": [2, 3]}, show) == [1]
        marker = {3: {"markers": [COMMIT]}}
        assert right(FindingKind.COMMITTED_RECORD_ABORTED, {"aborted": [2], "committed": [3]}, marker) == [3]

    def test_does_not_clear_who_was_read_to_show_it_and_shows_neither_record_nor_marker_now(self) -> None:
        sides = {"aborted": [1, 3], "committed": [2]}
        recorded = {"outcomes": {1: "aborted", 3: "aborted"}, "markers": {3: "abort"}}
        assert right(self.KIND, sides, {1: SHOWS_ABORTED}, recorded) == [1], "3 may have another log by now"

    def test_does_not_clear_one_that_shows_it_and_another_end_marker(self) -> None:
        show = {1: SHOWS_ABORTED, 3: SHOWS_ABORTED | {"markers": [COMMIT]}}
        assert right(self.KIND, {"aborted": [1, 3], "committed": [2]}, show) == [1]

    def test_does_not_clear_one_that_shows_it_by_chance(self) -> None:
        # It holds the record, and not the end marker that the cleaner leaves with it.
        assert right(self.KIND, {"aborted": [1, 3], "committed": [2]}, {1: SHOWS_ABORTED, 3: ABORTED}) == [1]
        unnamed = {"marker_offset": -1}
        assert right(self.KIND, {"aborted": [1, 3], "committed": [2]}, {1: ABORTED, 3: {}}, **unnamed) == [1]

    def test_does_not_clear_one_whose_log_begins_above_it(self) -> None:
        sides = {"aborted": [1, 3], "committed": [2]}
        starts = {1: SHOWS_ABORTED | {"log_start_offset": 10}, 3: SHOWS_ABORTED | {"log_start_offset": 11}}
        assert right(self.KIND, sides, starts) == [1]
        unnamed = {"transaction_start_offset": -1, "offset": 12}
        shown = {"markers": [ABORT]}
        starts = {1: shown | {"log_start_offset": 13}, 3: shown | {"log_start_offset": 12}}
        assert right(self.KIND, sides, starts, **unnamed) == [3]

    def test_does_not_clear_one_that_did_not_answer(self) -> None:
        assert right(self.KIND, {"aborted": [1, 3], "committed": [2]}, {1: GONE, 3: SHOWS_ABORTED}) == [3]

    def test_of_which_only_a_value_is_left_clears_those_that_show_the_end_marker(self) -> None:
        sides = {"a value": [2], "no value": [1, 3]}
        assert right(self.KIND, sides) == []
        assert right(self.KIND, sides, {1: {"markers": [ABORT]}}) == [1]
        assert right(self.KIND, sides, recorded={"markers": {3: "abort", 1: "commit"}}) == []

    def test_of_one_rolled_back_value_clears_those_from_which_the_cleaner_has_taken_it(self) -> None:
        # Who had taken it for committed would hold it, or a newer record of its key.
        sides = {"aborted": [1, 3], "committed": [2]}
        lacks = {"asked": [10], "last_stable_offset": 30, "committed": []}
        value = {"offset": 10, "producer_id": 7, "outcome": "committed", "value_size": 4}
        held, alone = {2: {"committed": [value]}}, {"marker_offset": 11}
        assert right(self.KIND, sides, held | {1: lacks, 3: lacks}, **alone) == [1, 3]
        assert right(self.KIND, sides, held | {1: lacks}, **alone) == [1], "3 was not asked for it"
        for other in ({"last_stable_offset": 10}, {"committed": [value]}, {"log_start_offset": 11}):
            assert right(self.KIND, sides, held | {1: lacks, 3: lacks | other}, **alone) == [1]
        deletion = {2: {"committed": [value | {"value_size": -1}]}}
        assert right(self.KIND, sides, deletion | {1: lacks}, **alone) == [], "it may have taken the value before it"
        assert right(self.KIND, sides, held | {1: lacks}, marker_offset=12) == [], "another record may be wrong"
        assert right(self.KIND, sides, held | {1: lacks}, {"uncompacted": True}, **alone) == [], "it has lost it"

    def test_of_one_hidden_deletion_clears_those_that_show_no_value(self) -> None:
        kind, sides = FindingKind.COMMITTED_RECORD_ABORTED, {"aborted": [2], "committed": [1, 3]}
        visible = {"offset": 4, "value_size": 4}

        def shows(value: dict[str, int] | None, **fields: Any) -> dict[str, Any]:
            return {
                "last_stable_offset": 30,
                "high_watermark": 30,
                "key": {"visible": value, "complete": True},
            } | fields

        deletion, alone = {"was_deletion": True}, {"marker_offset": 11}
        none, old = shows(None), shows(visible)
        assert right(kind, sides, {1: none, 2: old, 3: none}, deletion, **alone) == [1, 3]
        assert right(kind, sides, {1: none, 2: old, 3: old}, deletion, **alone) == [1]
        assert right(kind, sides, {1: none, 2: old, 3: shows({"offset": 20, "value_size": 4})}, deletion, **alone) == []
        assert right(kind, sides, {1: none, 2: old, 3: shows(None, last_stable_offset=10)}, deletion, **alone) == [1]
        assert right(kind, sides, {1: none, 2: shows({"offset": 12, "value_size": 4})}, deletion, **alone) == []
        assert right(kind, sides, {1: none, 2: old}, **alone) == [], "it was not seen to be a deletion"
        assert right(kind, sides, {1: none, 2: old}, deletion) == [], "another record may be wrong"

    def test_that_contradicts_a_replicas_own_marker_clears_those_that_show_the_other(self) -> None:
        direct = {"kind": FindingKind.OUTCOME_CONTRADICTS_MARKER, "offset": 10, "marker_offset": 11}
        show = dict.fromkeys((1, 3), ABORTED | {"markers": [ABORT | {"offset": 11}]})
        assert right(sides={"aborted": [1, 3], "committed": [2]}, replicas=show, **direct) == [1, 3]
        assert right(sides={"committed": [1, 2, 3]}, **direct) == []
        assert right(sides={}, **direct) == []

    def test_of_a_deletion_that_is_shown_as_committed_clears_nobody_who_shows_no_value(self) -> None:
        # The accused's cleaner may have taken the value for its sake, and the others may be copies of it.
        sides, deletion = {"aborted": [1, 3], "committed": [2]}, {"was_deletion": True}
        end = ABORTED | {"markers": [ABORT | {"offset": 11}], "last_stable_offset": 30}
        show = {1: end | {"key": {"complete": True, "visible": {"offset": 4, "value_size": 4}}}, 3: end | READ_WHOLE}
        for kind in (FindingKind.OUTCOME_CONTRADICTS_MARKER, self.KIND):
            assert right(kind, sides, show, deletion, marker_offset=11) == [1]
            assert right(kind, sides, show, marker_offset=11) == [1, 3], "it is no deletion"

    def test_that_contradicts_a_marker_further_up_clears_nobody(self) -> None:
        # The marker may be of a later transaction, and those that show the record so may have missed the lower one.
        further = {"kind": FindingKind.OUTCOME_CONTRADICTS_MARKER, "offset": 10, "marker_offset": 12}
        assert right(sides={"aborted": [1, 3], "committed": [2]}, **further) == []
        said = shown(sides={"aborted": [3], "committed": [1, 2]}, **further)
        assert said.alike == {2}
        assert Shown.of(replace(said.finding, marker_offset=11)).alike == {1, 2}


SIDES = {"open": [2], "ended": [1, 3]}
DIRECT = {"marker_offset": 11}
"""Directly behind the first record."""


@pytest.mark.parametrize("kind", [FindingKind.MARKER_MISSING, FindingKind.READ_COMMITTED_FROZEN])
class TestAnEnd:
    def test_of_which_nobody_knows_how_clears_nobody(self, kind: FindingKind) -> None:
        assert right(kind, SIDES) == []
        assert right(kind, SIDES, **DIRECT) == []

    def test_that_lies_directly_behind_the_first_record_clears_those_that_ended_it_so(self, kind: FindingKind) -> None:
        abort = {"markers": [ABORT | {"offset": 11}]}
        assert right(kind, SIDES, {1: abort, 3: abort}, **DIRECT) == [1, 3]
        assert right(kind, SIDES, {1: abort}, **DIRECT) == [1]
        assert right(kind, SIDES, recorded={"markers": {1: "commit", 3: "commit"}}, **DIRECT) == [1, 3]

    def test_that_lies_further_up_clears_nobody_however_many_ended_it_so(self, kind: FindingKind) -> None:
        # They may have missed a lower one that has been cleaned, or have been copied from one that did.
        markers, aborted = {"markers": {1: "abort", 3: "abort"}}, {"outcomes": {1: "aborted", 3: "aborted"}}
        assert right(kind, SIDES, recorded=markers | aborted) == []
        assert right(kind, SIDES, {1: {"markers": [ABORT]}, 3: {"markers": [ABORT]}}) == []

    def test_is_not_known_by_an_offset_that_is_not(self, kind: FindingKind) -> None:
        nowhere = {"transaction_start_offset": -1, "marker_offset": 0}
        assert right(kind, SIDES, recorded={"markers": {1: "commit", 3: "commit"}}, **nowhere) == []

    def test_does_not_clear_one_that_shows_the_record_otherwise(self, kind: FindingKind) -> None:
        markers = {"markers": {1: "abort", 3: "abort"}}
        record = {"offset": 10, "producer_id": 7, "outcome": "committed"}
        assert right(kind, SIDES, {3: {"committed": [record]}}, markers, **DIRECT) == [1]
        assert right(kind, SIDES, recorded=markers | {"outcomes": {3: "committed"}}, **DIRECT) == [1]
        listed = {"aborted": [{"producer_id": 7, "first_offset": 10}]}
        assert right(kind, SIDES, {1: listed, 3: {"committed": [record]}}, markers, **DIRECT) == [1]

    def test_does_not_clear_one_that_holds_a_record_and_not_its_end_marker(self, kind: FindingKind) -> None:
        # It missed the COMMIT, ended the transaction by a later ABORT, and has lost its index of aborted ones.
        committed = {"committed": [{"offset": 10, "producer_id": 7, "outcome": "committed"}]}
        marker = {"markers": [COMMIT | {"offset": 11}]}
        assert right(kind, SIDES, {1: committed | marker, 3: committed}, **DIRECT) == [1]

    def test_does_not_take_what_is_shown_of_another_transaction_for_its_end(self, kind: FindingKind) -> None:
        other = {"offset": 10, "producer_id": 8, "outcome": "aborted"}
        listed = {"producer_id": 7, "first_offset": 5}
        third = {"markers": [OTHERS_ABORT | {"offset": 11}], "committed": [other], "aborted": [listed]}
        assert right(kind, SIDES, {3: third}, {"markers": {1: "abort"}}, **DIRECT) == [1]

    def test_clears_nobody_where_two_kinds_of_marker_lie_there(self, kind: FindingKind) -> None:
        assert right(kind, SIDES, recorded={"markers": {1: "abort", 3: "commit"}}, **DIRECT) == []

    def test_does_not_clear_one_that_did_not_answer_or_holds_it_open(self, kind: FindingKind) -> None:
        markers = {"markers": {1: "abort", 3: "abort"}}
        assert right(kind, SIDES, {3: GONE}, markers, **DIRECT) == [1]
        assert right(kind, {"open": [2, 3], "ended": [1]}, recorded=markers, **DIRECT) == [1]

    def test_that_was_read_once_clears_nobody_who_cannot_say_now(self, kind: FindingKind) -> None:
        sides = {"open": [2], "ended, as it was read": [1, 3]}
        assert right(kind, sides, recorded={"markers": {1: "abort"}}, **DIRECT) == []


def test_a_newer_epoch_clears_those_that_hold_what_the_leader_holds() -> None:
    kind = FindingKind.CONTENT_MISMATCH
    assert right(kind, {"record x": [1, 3], "record y": [2]}) == [1, 3]
    assert right(kind, {"record x": [1, 3], "record y": [2]}, leader=2) == []


@pytest.mark.parametrize("kind", [FindingKind.LOG_TRUNCATED, FindingKind.LOG_HEAD_MISSING])
def test_what_a_log_has_lost_proves_nobody_else_right(kind: FindingKind) -> None:
    assert right(kind, {}) == []


def test_nobody_is_cleared_without_direction_nor_where_all_are_wrong() -> None:
    sides = {"no value": [1, 3], "value at offset 4": [2]}
    assert right(RESURRECTED, sides, broker=NOBODY) == []
    assert right(RESURRECTED, sides, status=FindingStatus.SPREAD) == []
