"""What a probe's answers prove of a key's latest value, and above all what they do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.answers import (
    KeyShown,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, Resolution, decide
from parallax.findings.decide.case import shows_deleted
from parallax.model import NOBODY, FindingKind
from parallax.sides import Side, parsed
from tests.builders.answers import NOTHING, PRODUCER, answers, marker, record, replica, shows, silent
from tests.builders.claims import of_key
from tests.unit.findings.decide.answered import outcome_of, verdict


def undirected(what: str, showing: set[int], lacking: set[int], *, pivot: int, **fields: Any) -> Claim:
    """A claim that accuses nobody: who shows something at an offset, and who lacks it."""
    sides = {what: tuple(sorted(showing)), f"no {what}": tuple(sorted(lacking))}
    base = {"broker": NOBODY, "offset": 50, "recorded": RecordedByViews(sides=sides, pivot=pivot)}
    return of_key(FindingKind.VISIBILITY_MISMATCH, **(base | fields))


def test_replicas_that_agree_about_a_difference_without_direction_are_not_called_healed() -> None:
    c = undirected("value at offset 50", {2}, {1, 3}, pivot=2)

    def ended(offset: int | None) -> Resolution:
        shown = None if offset is None else record(offset, producer_id=-1)
        got = decide(c, answers(*(shows(b, shown) for b in (1, 2, 3))), live_only=True)
        assert got.verdict is ClaimState.DISMISSED
        return got.resolution

    # A newer value may be the one that a replica lacked.
    assert {ended(50), ended(60), ended(None)} == {Resolution.AGREED}


class TestResurrected:
    """The tombstone of the key was at offset 50; the accused shows a value from before it."""

    c = of_key(FindingKind.DELETED_RECORD_RESURRECTED, offset=50)
    old = record(30, producer_id=-1)
    tombstone = record(50, producer_id=-1, value_size=-1)

    def test_an_old_value_that_is_gone_elsewhere_is_confirmed(self) -> None:
        got = decide(self.c, answers(shows(1, None), shows(2, self.old), shows(3, None)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.DELETED_RECORD_RESURRECTED)

    @pytest.mark.parametrize("end", [51, 40], ids=["it stands", "truncated"])
    def test_a_deletion_that_was_truncated_heals_nothing(self, end: int) -> None:
        found = replace(self.c, confirmed_at_ms=1, recorded=RecordedByViews(leader_epoch=3))
        got = decide(found, answers(*(shows(b, None, epoch_ends={3: end}) for b in (1, 2, 3))), live_only=True)
        assert got.resolution is (Resolution.HEALED if end > 50 else Resolution.UNPROVEN)

    @pytest.mark.parametrize("end", [51, 40], ids=["it stands", "truncated"])
    def test_a_deletion_that_no_log_holds_accuses_nobody_that_cannot_be_compared(self, end: int) -> None:
        found = replace(self.c, confirmed_at_ms=1, recorded=RecordedByViews(leader_epoch=3))
        held = {"last_stable_offset": 35, "epoch_ends": {3: end}}
        given = answers(shows(1, None, epoch_ends={3: end}), shows(2, self.old, **held))
        got = decide(found, given, live_only=True)
        assert got.verdict is (ClaimState.PENDING if end > 50 else ClaimState.DISMISSED)

    def test_a_tombstone_of_the_one_that_is_asked_last_does_not_explain_an_older_value_of_another(self) -> None:
        c = undirected("value at offset 50", {2, 3}, {1}, pivot=2)
        deleted = shows(2, record(60, "committed", value_size=-1))
        stale = shows(3, record(50, producer_id=-1))
        got = decide(c, answers(shows(1, None), deleted, stale))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)
        assert (got.accused, got.lone_witness) == (NOBODY, True)
        assert got.sides == parsed({"no value": (1, 2), "value at offset 50": (3,)})
        assert outcome_of(c, shows(1, None), deleted, shows(3, None)) is ClaimState.DISMISSED
        behind = replace(stale, last_stable_offset=99)
        assert outcome_of(c, shows(1, None), deleted, behind) is ClaimState.PENDING
        assert outcome_of(c, silent(1), deleted, stale) is ClaimState.PENDING, "it leads"
        not_past = replace(stale, last_stable_offset=60)
        assert outcome_of(c, shows(1, None), deleted, not_past) is ClaimState.DISMISSED

    def test_an_aborted_record_that_a_tombstone_would_have_deleted_is_no_old_value(self) -> None:
        aborted = replica(2, key=KeyShown(None, True, newest_offset=30))
        assert outcome_of(self.c, shows(1, self.tombstone), aborted, shows(3, None)) is ClaimState.DISMISSED

    def test_an_old_value_below_where_retention_has_deleted_is_not_compared(self) -> None:
        for start, verdict_ in ((30, ClaimState.CONFIRMED), (31, ClaimState.DISMISSED)):
            c = replace(self.c, recorded=RecordedByViews(compared_from=start))
            assert outcome_of(c, shows(1, self.tombstone), shows(2, self.old), shows(3, None)) is verdict_

    def test_an_old_value_whose_tombstone_another_still_shows_is_confirmed(self) -> None:
        assert outcome_of(self.c, shows(1, self.tombstone), shows(2, self.old), silent(3)) is ClaimState.CONFIRMED

    def test_one_that_shows_it_deleted_decides_whatever_a_second_victim_shows(self) -> None:
        got = decide(self.c, answers(shows(1, record(40, producer_id=-1)), shows(2, self.old), shows(3, None)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.DELETED_RECORD_RESURRECTED)

    def test_a_tombstone_that_may_be_aborted_accuses_nobody_however_many_deleted_the_key(self) -> None:
        unsure = undirected("tombstone at offset 50", {3}, {1, 2}, pivot=2, producer_id=PRODUCER)
        for holder in (shows(3, record(50, "committed", value_size=-1)), shows(3, None)):
            for second in (shows(1, None), shows(1, self.old), silent(1), shows(1, None, last_stable_offset=50)):
                got = decide(unsure, answers(second, shows(2, self.old), holder))
                assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)
                assert got.accused == NOBODY
                assert got.sides[Side.parse("value at offset 30")] == (
                    (1, 2) if second.key and second.key.live else (2,)
                )
                assert 3 in got.sides[Side.parse("no value")]

    def test_a_tombstone_whose_commit_lies_directly_behind_it_was_surely_committed(self) -> None:
        sure = replace(self.c, producer_id=PRODUCER, marker_offset=51)
        got = decide(sure, answers(shows(1, None), shows(2, self.old), shows(3, None)))
        assert (got.kind, got.accused) == (FindingKind.DELETED_RECORD_RESURRECTED, 2)
        further_up = replace(sure, marker_offset=52)
        got = decide(further_up, answers(shows(1, None), shows(2, self.old), shows(3, None)))
        assert (got.kind, got.accused) == (FindingKind.VISIBILITY_MISMATCH, NOBODY)

    def test_two_that_missed_it_do_not_make_the_one_that_deleted_it_wrong(self) -> None:
        # 2 and 3 missed a tombstone that 1 wrote and cleaned: nothing that is left says so.
        c = undirected("value at offset 30", {2, 3}, {1}, pivot=2, offset=30)
        got = decide(c, answers(shows(1, None), shows(2, self.old), shows(3, self.old)))
        assert (got.verdict, got.kind, got.accused) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH, NOBODY)
        assert got.sides == parsed({"no value": (1,), "value at offset 30": (2, 3)})

    def test_the_recorded_tombstone_proves_it_while_the_one_that_showed_it_is_away(self) -> None:
        assert outcome_of(self.c, silent(1), shows(2, self.old), shows(3, self.old)) is ClaimState.CONFIRMED
        unsure = replace(self.c, producer_id=PRODUCER)
        assert outcome_of(unsure, silent(1), shows(2, self.old), shows(3, self.old)) is ClaimState.PENDING

    def test_a_value_that_all_show_is_lost_where_the_tombstone_is_of_the_log_that_stands_alone(self) -> None:
        c = replace(self.c, recorded=RecordedByViews(leader_epoch=3))
        for end, wanted in ((51, Resolution.SPREAD), (50, Resolution.HEALED), (None, Resolution.HEALED)):
            shown = [replace(shows(b, self.old), epoch_ends={3: end}, epochs_known=frozenset({3})) for b in (1, 2, 3)]
            assert decide(c, answers(*shown)).resolution is wanted

    def test_a_value_that_all_show_has_not_healed_if_nobody_knows_the_tombstones_log(self) -> None:
        c = replace(self.c, confirmed_at_ms=1, recorded=RecordedByViews(leader_epoch=3))
        shown = [replace(shows(b, self.old), epoch_ends={3: 60}) for b in (1, 2, 3)]
        got = decide(c, answers(*shown), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.INCOMPARABLE)

    def test_the_recorded_tombstone_proves_it_of_the_only_replica_that_is_left(self) -> None:
        c = replace(self.c, recorded=RecordedByViews(leader_epoch=3))
        for end, wanted in ((51, Resolution.SPREAD), (50, Resolution.HEALED), (None, Resolution.HEALED)):
            left = replace(shows(2, self.old), epoch_ends={3: end}, epochs_known=frozenset({3}))
            got = decide(c, answers(left))
            assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, wanted)
        for unproven in (replace(self.c, producer_id=PRODUCER), replace(self.c, freed=True)):
            live_only = unproven.freed
            got = decide(unproven, answers(shows(2, self.old)), live_only=live_only)
            assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.HEALED)

    def test_a_tombstone_that_one_shows_is_judged_though_another_is_away(self) -> None:
        c = undirected("tombstone at offset 50", {1}, {2}, pivot=2)
        got = decide(c, answers(shows(1, self.tombstone), shows(2, self.old), silent(3)))
        assert (got.kind, got.accused) == (FindingKind.DELETED_RECORD_RESURRECTED, 2)

    def test_who_still_shows_what_the_claim_deletes_is_reported_though_another_was_asked_last(self) -> None:
        c = undirected("tombstone at offset 50", {3}, {1, 2}, pivot=1, producer_id=PRODUCER)
        got = decide(c, answers(shows(1, None), shows(2, self.old), shows(3, None)))
        assert (got.verdict, got.accused, got.sides[Side.parse("value at offset 30")]) == (
            ClaimState.CONFIRMED,
            NOBODY,
            (2,),
        )

    def test_a_healthy_replica_that_has_not_cleaned_yet_shows_the_tombstone(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, self.tombstone), shows(3, None)) is ClaimState.DISMISSED

    def test_an_accused_without_a_value_is_dismissed(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None), shows(3, None)) is ClaimState.DISMISSED

    def test_an_accused_with_a_newer_value_is_dismissed(self) -> None:
        newer = record(70, producer_id=-1)
        assert outcome_of(self.c, shows(1, newer), shows(2, newer), shows(3, newer)) is ClaimState.DISMISSED

    def test_an_accused_that_does_not_show_the_offset_yet_is_pending(self) -> None:
        behind = shows(2, self.old, last_stable_offset=50)
        assert outcome_of(self.c, shows(1, None), behind, shows(3, None)) is ClaimState.PENDING

    @pytest.mark.parametrize(
        ("held", "found"),
        [
            (record(50, "undecided", producer_id=-1, value_size=-1), ClaimState.DISMISSED),
            (record(50, "undecided", producer_id=-1, value_size=-1, key_hash="9"), ClaimState.PENDING),
            (record(50, "undecided", producer_id=PRODUCER, value_size=-1), ClaimState.PENDING),
        ],
    )
    def test_one_whose_log_holds_the_tombstone_has_not_missed_it_however_little_it_shows(
        self, held: RecordShown, found: ClaimState
    ) -> None:
        c = replace(self.c, offset=50)
        held = replace(held, key_hash=held.key_hash or c.key_text)
        frozen = shows(2, self.old, last_stable_offset=40, uncommitted={50: held})
        assert outcome_of(c, shows(1, self.tombstone), frozen, shows(3, None)) is found

    def test_has_spread_where_all_others_show_a_value_as_well(self) -> None:
        alike = [shows(b, self.old) for b in (1, 2, 3)]
        assert decide(self.c, answers(*alike)).has_spread
        trimmed = shows(1, None, log_start_offset=40)
        assert not decide(self.c, answers(trimmed, *alike[1:])).has_spread

    def test_everyone_showing_the_old_value_is_dismissed(self) -> None:
        assert outcome_of(self.c, *(shows(b, self.old) for b in (1, 2, 3))) is ClaimState.DISMISSED

    def test_a_log_start_above_the_old_value_is_retention_not_a_deletion(self) -> None:
        retained = shows(1, None, log_start_offset=40)
        assert outcome_of(self.c, retained, shows(2, self.old)) is ClaimState.DISMISSED

    def test_a_log_too_long_to_read_is_no_proof_of_absence(self) -> None:
        partly = shows(1, None, complete=False)
        partly = replace(partly, key=KeyShown(None, False, complete_from=60))
        assert outcome_of(self.c, partly, shows(2, self.old)) is ClaimState.PENDING

    def test_in_a_log_too_long_to_read_the_missing_offset_itself_is_proof(self) -> None:
        partly = replica(1, key=KeyShown(None, False, complete_from=50), asked=frozenset({30}))
        assert outcome_of(self.c, partly, shows(2, self.old, complete=False)) is ClaimState.CONFIRMED

    def test_an_accused_whose_log_is_too_long_to_find_the_value_is_pending(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None, complete=False)) is ClaimState.PENDING

    @pytest.mark.parametrize("broker", [1, 2, 3])
    def test_where_the_tombstone_was_lost_with_its_log_nobody_knows_who_is_right(self, broker: int) -> None:
        same = {50: record(50, key_hash=f"{0:016x}{7:016x}")}
        for fields, kind in (
            ({"markers": (marker(50, "commit"),)}, FindingKind.VISIBILITY_MISMATCH),
            ({"uncommitted": {50: record(50, key_hash="f" * 32)}}, FindingKind.VISIBILITY_MISMATCH),
            (
                {"uncommitted": same, "markers": (marker(51, "commit"),)},
                FindingKind.DELETED_RECORD_RESURRECTED,
            ),
        ):
            given = [shows(b, self.old if b == 2 else None, **(fields if b == broker else {})) for b in (1, 2, 3)]
            assert verdict(decide(self.c, answers(*given))) == (ClaimState.CONFIRMED, kind)
        still = shows(1, self.tombstone), shows(2, self.old, markers=(marker(50, "commit"),)), shows(3, None)
        assert decide(self.c, answers(*still)).accused == NOBODY

    def test_a_tombstone_that_the_accused_hides_as_aborted_belongs_to_the_outcome(self) -> None:
        hidden = shows(2, self.old, committed={50: record(50, "aborted", value_size=-1)})
        assert outcome_of(self.c, shows(1, None), hidden, shows(3, None)) is ClaimState.DISMISSED

    def test_a_hidden_tombstone_that_was_cleaned_is_known_by_the_aborted_list(self) -> None:
        """The value proves it, but the outcome may be about to be reported as the cause of it."""
        transactional = replace(self.c, producer_id=PRODUCER, marker_offset=51)
        hidden = shows(2, self.old, aborted=((PRODUCER, 45),))
        got = decide(transactional, answers(shows(1, None), hidden, shows(3, None)))
        assert (got.verdict, got.accused, got.lone_witness) == (ClaimState.CONFIRMED, 2, True)
        without = decide(transactional, answers(shows(1, None), shows(2, self.old), shows(3, None)))
        assert (without.verdict, without.lone_witness) == (ClaimState.CONFIRMED, False)

    def test_a_value_of_a_transaction_that_the_accused_lists_as_aborted_is_a_difference(self) -> None:
        value = replace(self.c, producer_id=PRODUCER, kind=FindingKind.VISIBILITY_MISMATCH, broker=NOBODY)
        value = replace(value, recorded=RecordedByViews(sides=parsed({"value": (1,), "no value": (2,)}), pivot=2))
        got = decide(value, answers(shows(1, record(50, "committed")), shows(2, self.old, aborted=((PRODUCER, 45),))))
        assert (got.verdict, got.accused, got.lone_witness) == (ClaimState.CONFIRMED, NOBODY, True)

    def test_the_aborted_list_of_a_log_with_an_end_marker_in_its_place_tells_of_no_tombstone(self) -> None:
        transactional = replace(self.c, producer_id=PRODUCER)
        replaced = shows(2, self.old, aborted=((PRODUCER, 45),), markers=(marker(50),))
        assert outcome_of(transactional, shows(1, None), replaced, shows(3, None)) is ClaimState.CONFIRMED

    def test_a_record_of_the_key_that_another_shows_beyond_the_accused_is_waited_for(self) -> None:
        ahead = shows(1, record(120, producer_id=-1, value_size=-1), last_stable_offset=130)
        assert outcome_of(self.c, ahead, shows(2, self.old)) is ClaimState.PENDING

    def test_is_resolved_once_the_accused_shows_the_value_no_more(self) -> None:
        got = decide(self.c, answers(shows(1, None), shows(2, None), shows(3, None)), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.HEALED)

    @pytest.mark.parametrize(("start", "ends_as"), [(50, Resolution.HEALED), (51, Resolution.DELETED)])
    def test_has_not_healed_where_its_log_begins_above_the_tombstone_by_now(
        self, start: int, ends_as: Resolution
    ) -> None:
        got = decide(self.c, answers(shows(1, None), shows(2, None, log_start_offset=start), shows(3, None)))
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, ends_as)

    def test_has_not_healed_while_another_shows_another_value(self) -> None:
        newer = record(60, producer_id=-1)
        wrongly_deleted = record(70, "committed", value_size=-1)
        got = decide(self.c, answers(shows(1, newer), shows(2, wrongly_deleted), shows(3, newer)), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.DIFFERS)
        assert "broker 1 shows the value at offset 60" in got.reason
        behind = shows(1, newer, last_stable_offset=70)
        got = decide(self.c, answers(behind, shows(2, wrongly_deleted)), live_only=True)
        assert got.resolution is Resolution.UNPROVEN

    @pytest.mark.parametrize(
        ("shown", "newest", "wanted"),
        [
            (record(60), 60, Resolution.HEALED),
            (record(60), 70, Resolution.UNPROVEN),
            (record(60, "committed"), 60, Resolution.UNPROVEN),
            (record(60, value_size=-1), 60, Resolution.HEALED),
            (record(60, "committed", value_size=-1), 60, Resolution.UNPROVEN),
            (record(50, "committed", value_size=-1), 50, Resolution.HEALED),
            (None, -1, Resolution.HEALED),
            (None, 70, Resolution.UNPROVEN),
        ],
    )
    def test_has_healed_where_no_outcome_of_a_transaction_decides_what_the_key_shows_now(
        self, shown: RecordShown | None, newest: int, wanted: Resolution
    ) -> None:
        # The tombstone at 50 is surely committed: its COMMIT lies directly behind it. At 70 lies an aborted record.
        c = replace(self.c, producer_id=PRODUCER, marker_offset=51)
        alike = [replica(b, key=KeyShown(shown, True, newest)) for b in (1, 2, 3)]
        got = decide(c, answers(*alike), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, wanted)


class TestWhereATombstoneLies:
    """A tombstone at offset 50 that one replica lacks, or shows of itself."""

    old = record(30, producer_id=-1)
    tombstone = record(50, producer_id=-1, value_size=-1)

    def test_a_committed_value_proves_the_claim_only_if_it_is_the_one_that_surely_committed(
        self,
    ) -> None:
        c = replace(TestResurrected.c, producer_id=PRODUCER, marker_offset=51, kind=FindingKind.RECORD_MISSING)
        for offset, accused in ((50, 2), (60, NOBODY)):
            deleted = shows(1, record(offset, "committed", value_size=-1))
            got = decide(c, answers(deleted, shows(2, self.old)))
            assert (got.verdict, got.accused, got.lone_witness) == (ClaimState.CONFIRMED, accused, accused == NOBODY)

    @pytest.mark.parametrize(("producer", "lone"), [(-1, False), (0, True), (PRODUCER, True)])
    def test_a_difference_that_hangs_on_one_of_a_transaction_may_be_a_matter_of_its_outcome(
        self, producer: int, lone: bool
    ) -> None:
        c = undirected("tombstone at offset 50", {2}, {1, 3}, pivot=2, producer_id=producer)
        got = decide(c, answers(shows(1, self.old), shows(2, None), shows(3, self.old)))
        assert (got.verdict, got.accused, got.lone_witness) == (ClaimState.CONFIRMED, NOBODY, lone)
        assert "brokers 1 and 3 still show an older value" in got.reason
        assert "broker 1 still shows an" in decide(c, answers(shows(1, self.old), shows(2, None))).reason

    @pytest.mark.parametrize(("start", "found"), [(30, ClaimState.CONFIRMED), (31, ClaimState.DISMISSED)])
    def test_a_value_below_where_the_log_of_the_one_that_deleted_it_begins_is_not_compared(
        self, start: int, found: ClaimState
    ) -> None:
        c = undirected("tombstone at offset 50", {2}, {1}, pivot=2)
        assert outcome_of(c, shows(1, self.old), shows(2, None, log_start_offset=start)) is found
        later = shows(2, record(60, value_size=-1), log_start_offset=start)
        assert outcome_of(c, shows(1, self.old), later) is found

    def test_those_that_show_an_older_value_past_a_later_one_are_named(self) -> None:
        c = undirected("value at offset 50", {1, 3}, {2}, pivot=2)
        value = record(50, producer_id=-1)
        later = shows(2, record(60, value_size=-1))
        assert (
            "brokers 1 and 3 still show an older" in decide(c, answers(shows(1, value), later, shows(3, value))).reason
        )
        assert "broker 1 still shows an older" in decide(c, answers(shows(1, value), later)).reason

    def test_one_that_the_accused_shows_itself_explains_nothing_of_one_that_was_not_read_as_far(self) -> None:
        c = undirected("tombstone at offset 50", {2}, {1}, pivot=2)
        unread = replica(1, key=KeyShown(None, False, complete_from=51))
        assert outcome_of(c, unread, shows(2, self.tombstone)) is ClaimState.PENDING
        assert outcome_of(c, unread, shows(2, record(51, value_size=-1))) is ClaimState.DISMISSED


class TestVisibilityMismatch:
    """Accused of showing a value that others lack; no tombstone is known."""

    c = of_key(FindingKind.VISIBILITY_MISMATCH, offset=30)
    value = record(30, producer_id=-1)

    def test_a_value_that_another_past_it_does_not_show_is_confirmed(self) -> None:
        for third in (shows(3, None), silent(3), shows(3, self.value)):
            got = decide(self.c, answers(shows(1, None), shows(2, self.value), third))
            assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)
            assert not got.lone_witness

    @pytest.mark.parametrize(("read_from", "beside"), [(30, {"no value, read from offset 30 on": (1,)}), (31, {})])
    def test_a_log_that_was_not_read_down_to_it_is_on_no_side_and_one_read_to_it_on_its_own(
        self, read_from: int, beside: dict[str, tuple[int, ...]]
    ) -> None:
        partly = replica(1, key=KeyShown(None, False, complete_from=read_from))
        got = decide(self.c, answers(partly, shows(2, self.value), shows(3, None)))
        assert got.sides == parsed({"no value": (3,), "value at offset 30": (2,), **beside})

    def test_a_newer_value_of_the_one_that_was_asked_last_does_not_say_that_the_others_agree(self) -> None:
        newer, old = record(40, producer_id=-1), record(20, producer_id=-1)
        c = replace(
            self.c, broker=NOBODY, recorded=RecordedByViews(sides=parsed({"value": (2,), "no value": (1,)}), pivot=2)
        )
        got = decide(c, answers(shows(1, None), shows(2, newer), shows(3, newer)))
        assert got.sides == parsed({"no value": (1,), "value at offset 40": (2, 3)})
        got = decide(c, answers(shows(1, old), shows(2, newer), shows(3, newer)))
        assert (verdict(got), got.accused) == ((ClaimState.CONFIRMED, FindingKind.RECORD_MISSING), 1)
        behind = shows(1, old, last_stable_offset=90)
        assert decide(c, answers(behind, shows(2, newer), shows(3, newer))).verdict is ClaimState.PENDING
        assert decide(c, answers(*(shows(b, newer) for b in (1, 2, 3)))).verdict is ClaimState.DISMISSED

    def test_a_transactional_value_may_be_a_matter_of_its_outcome(self) -> None:
        committed = record(30, "committed")
        assert decide(self.c, answers(shows(1, None), shows(2, committed), shows(3, None))).lone_witness

    def test_who_shows_a_value_and_is_behind_the_accused_may_yet_see_it_deleted(self) -> None:
        c = replace(
            self.c, broker=NOBODY, recorded=RecordedByViews(sides=parsed({"value": (2,), "no value": (1,)}), pivot=1)
        )
        assert outcome_of(c, shows(1, None), shows(2, self.value), shows(3, None)) is ClaimState.CONFIRMED
        frozen = shows(2, self.value, last_stable_offset=90)
        waits = decide(c, answers(shows(1, None), frozen, shows(3, None)))
        assert waits.verdict is ClaimState.PENDING
        assert waits.sides == parsed({"no value": (1, 3), "value at offset 30": (2,)}), (
            "for who shows what may be explained"
        )
        assert outcome_of(c, shows(1, None), frozen, shows(3, self.value)) is ClaimState.CONFIRMED

    def test_an_accused_that_is_behind_those_who_lack_it_may_yet_see_it_deleted(self) -> None:
        behind = shows(2, self.value, last_stable_offset=90)
        assert outcome_of(self.c, shows(1, None), behind, shows(3, None)) is ClaimState.PENDING
        cleaned_meanwhile = [shows(b, None, last_stable_offset=90, stable_after=101) for b in (1, 3)]
        accused = shows(2, self.value)
        assert outcome_of(self.c, cleaned_meanwhile[0], accused, cleaned_meanwhile[1]) is ClaimState.PENDING
        came_meanwhile = [shows(b, None, last_stable_offset=30, stable_after=40) for b in (1, 3)]
        assert outcome_of(self.c, came_meanwhile[0], accused, came_meanwhile[1]) is not ClaimState.CONFIRMED

    def test_a_value_that_all_show_is_dismissed(self) -> None:
        assert outcome_of(self.c, *(shows(b, self.value) for b in (1, 2, 3))) is ClaimState.DISMISSED

    def test_a_newer_value_on_the_others_that_the_accused_shows_by_now_is_dismissed(self) -> None:
        newer = record(60, producer_id=-1)
        assert outcome_of(self.c, *(shows(b, newer) for b in (1, 2, 3))) is ClaimState.DISMISSED

    def test_a_value_that_is_gone_from_the_accused_is_dismissed(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None), shows(3, None)) is ClaimState.DISMISSED

    @pytest.mark.parametrize(
        ("fields", "accused"),
        [
            ({"last_stable_offset": 30}, None),
            ({"last_stable_offset": 31}, 1),
            ({"log_start_offset": 20}, 1),
            ({"committed": {30: value}}, None),
        ],
        ids=["not past it", "past it", "begins at the older one", "holds it"],
    )
    def test_another_that_shows_an_older_one_has_lost_it_once_it_is_past_it(
        self, fields: dict[str, Any], accused: int | None
    ) -> None:
        older = shows(1, record(20, producer_id=-1), **fields)
        got = decide(self.c, answers(older, shows(2, self.value)))
        assert (got.verdict is ClaimState.CONFIRMED) is (accused is not None)
        assert accused is None or (got.kind, got.accused) == (FindingKind.RECORD_MISSING, accused)
        assert accused is None or "broker 1, past it, an older one" in got.reason

    def test_where_two_show_an_older_one_nobody_is_accused(self) -> None:
        older = [shows(b, record(20, producer_id=-1)) for b in (1, 3)]
        got = decide(self.c, answers(*older, shows(2, self.value)))
        assert (got.kind, got.accused) == (FindingKind.VISIBILITY_MISMATCH, NOBODY)
        assert "brokers 1 and 3, past it, an older one" in got.reason

    def test_those_that_show_none_are_named(self) -> None:
        got = decide(self.c, answers(shows(1, None), shows(2, self.value), shows(3, None)))
        assert got.reason.endswith("brokers 1 and 3, past it, show none")
        assert decide(self.c, answers(shows(1, None), shows(2, self.value))).reason.endswith(
            "broker 1, past it, shows none"
        )

    def test_one_that_was_not_read_as_far_as_the_value_is_on_no_side(self) -> None:
        behind = shows(3, None, last_stable_offset=30)
        got = decide(self.c, answers(shows(1, None), shows(2, self.value), behind))
        assert got.sides == parsed({"no value": (1,), "value at offset 30": (2,)})

    def test_one_that_is_behind_and_whose_log_was_replaced_is_waited_for_it_may_lack_the_value(self) -> None:
        there = {30: record(30, key_hash="f" * 32)}
        behind = shows(1, None, last_stable_offset=20, uncommitted=there)
        assert outcome_of(self.c, behind, shows(2, self.value), shows(3, self.value)) is ClaimState.PENDING

    def test_others_whose_log_begins_above_it_prove_nothing(self) -> None:
        got = outcome_of(self.c, shows(1, None, log_start_offset=31), shows(2, self.value), shows(3, self.value))
        assert got is not ClaimState.CONFIRMED


class TestRecordMissing:
    c = of_key(FindingKind.RECORD_MISSING, offset=50)
    value = record(50, producer_id=-1)

    def test_a_value_that_only_the_accused_lacks_accuses_nobody_for_a_tombstone_may_be_lost(self) -> None:
        for third in (shows(3, self.value), shows(3, None), silent(3)):
            got = decide(self.c, answers(shows(1, self.value), shows(2, None), third))
            assert (got.verdict, got.kind) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)
            assert got.accused == NOBODY
            assert got.sides[Side.parse("no value")] == ((2, 3) if third.error is None and not third.key.live else (2,))

    def test_an_older_value_in_its_place_is_wrong_whatever_became_of_the_newer(self) -> None:
        for third in (shows(3, self.value), shows(3, record(30, producer_id=-1))):
            got = decide(self.c, answers(shows(1, self.value), shows(2, record(30, producer_id=-1)), third))
            assert (got.verdict, got.kind, got.accused) == (ClaimState.CONFIRMED, FindingKind.RECORD_MISSING, 2)

    def test_it_accuses_nobody_while_a_third_replica_may_be_the_one_that_is_right(self) -> None:
        stale, newer = record(30, producer_id=-1), self.value
        unread = replica(3, key_error="being read, 10 %")
        for third in (silent(3), unread, shows(3, None), shows(3, record(40, producer_id=-1))):
            for broker in (2, NOBODY):
                for pivot in (1, 2):
                    c = replace(self.c, broker=broker, recorded=RecordedByViews(pivot=pivot))
                    if broker == NOBODY:
                        c = replace(c, kind=FindingKind.VISIBILITY_MISMATCH)
                    got = decide(c, answers(shows(1, newer), shows(2, stale), third))
                    assert (got.kind, got.accused) == (FindingKind.VISIBILITY_MISMATCH, NOBODY)
                    known = {b for brokers in got.sides.values() for b in brokers}
                    assert known == ({1, 2} if third.key is None else {1, 2, 3})

    def test_nor_while_those_with_the_newer_value_were_known_to_differ(self) -> None:
        given = answers(shows(1, self.value), shows(2, record(30, producer_id=-1)), shows(3, self.value))
        for sides, accused in (
            ({"value at offset 50": (1,), "no value": (3,)}, NOBODY),
            ({"value at offset 50": (1,), "no value at offset 50": (2,)}, 2),
            ({"value at offset 50": (1, 3), "value at offset 30": (2,)}, 2),
            ({"no value": (2, 3)}, 2),
        ):
            got = decide(replace(self.c, recorded=RecordedByViews(sides=sides)), given)
            assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, accused), sides

    def test_an_older_value_is_not_wrong_for_a_newer_one_that_may_have_to_be_aborted(self) -> None:
        committed = record(50, "committed")
        got = decide(self.c, answers(shows(1, committed), shows(2, record(30)), shows(3, committed)))
        assert (got.kind, got.accused) == (FindingKind.RECORD_MISSING, 2)  # the claim's own is a plain record
        unsure = replace(self.c, producer_id=PRODUCER)
        got = decide(unsure, answers(shows(1, committed), shows(2, record(30)), shows(3, committed)))
        assert (got.kind, got.accused) == (FindingKind.VISIBILITY_MISMATCH, NOBODY)
        assert got.lone_witness

    def test_one_that_is_behind_may_yet_see_what_replaced_a_newer_value(self) -> None:
        newer, older = record(70, producer_id=-1), record(30, producer_id=-1)
        assert outcome_of(self.c, shows(1, newer), shows(2, older, last_stable_offset=99)) is ClaimState.PENDING
        assert outcome_of(self.c, shows(1, newer), shows(2, older)) is ClaimState.CONFIRMED

    def test_another_than_the_one_asked_last_may_be_proven_wrong(self) -> None:
        c = undirected("value at offset 50", {1, 3}, {2}, pivot=1)
        older = record(30, producer_id=-1)
        got = decide(c, answers(shows(1, self.value), shows(2, older), shows(3, self.value)))
        assert (got.kind, got.accused) == (FindingKind.RECORD_MISSING, 2)
        assert got.sides == parsed({"value at offset 30": (2,), "value at offset 50": (1, 3)})
        replaced = shows(2, older, uncommitted={50: record(50, key_hash="f" * 32)})
        other_log = decide(c, answers(shows(1, self.value), replaced, shows(3, self.value)))
        assert (other_log.kind, other_log.accused) == (FindingKind.VISIBILITY_MISMATCH, NOBODY)
        two = decide(c, answers(shows(1, self.value), shows(2, older), shows(3, older)))
        assert (two.kind, two.accused) == (FindingKind.VISIBILITY_MISMATCH, NOBODY)

    def test_a_difference_that_hangs_on_a_transactional_record_may_be_a_matter_of_its_outcome(self) -> None:
        committed = record(50, "committed")
        for third in (silent(3), shows(3, None), shows(3, committed)):
            assert decide(self.c, answers(shows(1, committed), shows(2, None), third)).lone_witness
        deletion, old = record(50, "committed", value_size=-1), record(30, producer_id=-1)
        unsure = replace(self.c, producer_id=PRODUCER)
        assert decide(unsure, answers(shows(1, deletion), shows(2, old), shows(3, old))).lone_witness
        assert not decide(self.c, answers(shows(1, self.value), shows(2, None), silent(3))).lone_witness

    @pytest.mark.parametrize("own", [None, record(30, producer_id=-1)], ids=["nothing", "an older value"])
    def test_one_whose_log_was_replaced_lacks_the_record_too_however_far_it_shows_its_log(
        self, own: RecordShown | None
    ) -> None:
        def pinned(broker: int, key_hash: str) -> ReplicaAnswer:
            there = {50: record(50, key_hash=key_hash)}
            return shows(broker, None, last_stable_offset=20, uncommitted=there)

        other, same = "f" * 32, f"{0:016x}{7:016x}"
        assert outcome_of(self.c, pinned(1, other), shows(2, own), pinned(3, other)) is ClaimState.DISMISSED
        assert outcome_of(self.c, pinned(1, same), shows(2, own), pinned(3, other)) is ClaimState.PENDING
        assert outcome_of(self.c, shows(1, self.value), shows(2, own), pinned(3, other)) is ClaimState.CONFIRMED
        assert outcome_of(self.c, silent(1), shows(2, own), pinned(3, other)) is ClaimState.PENDING

    def test_a_newer_record_of_the_key_explains_the_absence(self) -> None:
        for newer in (record(60, producer_id=-1), record(60, producer_id=-1, value_size=-1)):
            assert outcome_of(self.c, shows(1, self.value), shows(2, newer)) is ClaimState.DISMISSED

    def test_an_accused_that_is_not_past_the_offset_is_pending(self) -> None:
        assert outcome_of(self.c, shows(1, self.value), shows(2, None, last_stable_offset=50)) is ClaimState.PENDING

    def test_retention_explains_the_absence(self) -> None:
        assert outcome_of(self.c, shows(1, self.value), shows(2, None, log_start_offset=51)) is ClaimState.DISMISSED

    def test_a_record_that_nobody_shows_any_more_is_dismissed(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None), shows(3, None)) is ClaimState.DISMISSED

    def test_a_record_that_nobody_reachable_shows_waits_for_the_rest(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None), silent(3)) is ClaimState.PENDING

    def test_a_record_recorded_as_aborted_on_the_accused_belongs_to_the_outcome(self) -> None:
        c = replace(self.c, recorded=RecordedByViews(outcomes={2: "aborted", 1: "committed"}))
        assert outcome_of(c, shows(1, self.value), shows(2, None)) is ClaimState.DISMISSED

    def test_an_older_value_that_all_show_is_the_loss_of_none_that_is_known(self) -> None:
        got = decide(self.c, answers(*(shows(b, record(30, producer_id=-1)) for b in (1, 2, 3))))
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.HEALED)

    def test_why_a_key_was_not_read_is_said(self) -> None:
        unread = {"key": None, "key_error": "not authorized"}
        assert decide(self.c, answers(shows(1, self.value), replica(2, **unread))).reason == "broker 2: not authorized"
        assert decide(self.c, answers(shows(1, self.value), replica(2))).reason == "broker 2: the key was not read"
        partly = shows(2, None, complete=False, key_error="too long")
        partly = replace(partly, key=KeyShown(None, False, complete_from=51))
        assert decide(self.c, answers(shows(1, self.value), partly)).reason == "too long"
        partly = replace(partly, key_error=None)
        assert "broker 2 was not read to its beginning" in decide(self.c, answers(shows(1, self.value), partly)).reason
        behind = shows(1, None, last_stable_offset=50)
        for others, why in (
            ([behind, replica(3, **unread)], "brokers 1 and 3 could not be compared: not authorized"),
            ([behind], "broker 1 could not be compared: it is behind broker 2, or ahead of it"),
            (
                [behind, replace(behind, broker=3)],
                "brokers 1 and 3 could not be compared: they are behind broker 2, or ahead of it",
            ),
        ):
            assert decide(self.c, answers(shows(2, None), *others)).reason == why

    def test_an_accused_that_shows_the_very_value_lacks_nothing(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, self.value), shows(3, None)) is ClaimState.DISMISSED

    def test_what_lies_beyond_the_accused_is_not_compared(self) -> None:
        newer, old = record(60, producer_id=-1), record(30, producer_id=-1)
        for stable, found in ((60, ClaimState.PENDING), (61, ClaimState.CONFIRMED)):
            assert outcome_of(self.c, shows(1, newer), shows(2, None, last_stable_offset=stable)) is found
            # 3 is as far as the accused, and proves it by what both have passed.
            proof = shows(3, self.value, last_stable_offset=stable)
            accused = shows(2, old, last_stable_offset=stable)
            wanted = ClaimState.CONFIRMED if stable == 60 else ClaimState.PENDING
            assert outcome_of(self.c, shows(1, newer), accused, proof) is wanted

    @pytest.mark.parametrize(("start", "found"), [(50, ClaimState.CONFIRMED), (51, ClaimState.DISMISSED)])
    def test_a_log_that_begins_at_the_record_should_hold_it(self, start: int, found: ClaimState) -> None:
        accused = shows(2, None, log_start_offset=start)
        assert outcome_of(self.c, shows(1, self.value), accused) is found
        bare = replace(self.c, key_hash_lo=0)
        holder = replica(1, committed={50: self.value}, asked=frozenset({50}))
        assert outcome_of(bare, holder, replica(2, log_start_offset=start)) is found
        waits = ClaimState.PENDING if start == 50 else ClaimState.DISMISSED
        assert outcome_of(self.c, silent(1), accused) is waits

    @pytest.mark.parametrize(("read_from", "found"), [(50, ClaimState.CONFIRMED), (51, ClaimState.PENDING)])
    def test_an_accused_that_was_read_down_to_the_record_lacks_it(self, read_from: int, found: ClaimState) -> None:
        partly = replica(2, key=KeyShown(None, False, complete_from=read_from))
        tombstone = shows(1, record(60, value_size=-1))
        assert outcome_of(self.c, shows(1, self.value), replace(partly, key=NOTHING)) is ClaimState.CONFIRMED
        assert (outcome_of(self.c, shows(1, self.value), partly) is ClaimState.PENDING) is (found is ClaimState.PENDING)
        assert outcome_of(self.c, tombstone, partly) is (
            ClaimState.DISMISSED if read_from == 50 else ClaimState.PENDING
        )

    @pytest.mark.parametrize(
        ("fields", "key", "found"),
        [
            ({}, KeyShown(None, False, complete_from=50), ClaimState.DISMISSED),
            ({}, KeyShown(None, False, complete_from=51), ClaimState.PENDING),
            ({"last_stable_offset": 51}, NOTHING, ClaimState.DISMISSED),
            ({"last_stable_offset": 50}, NOTHING, ClaimState.PENDING),
            ({}, KeyShown(None, True, 99), ClaimState.DISMISSED),
            ({}, KeyShown(None, True, 100), ClaimState.PENDING),
        ],
    )
    def test_is_over_only_when_every_other_was_read_as_far_as_it_and_not_beyond_the_accused(
        self, fields: dict[str, Any], key: KeyShown, found: ClaimState
    ) -> None:
        assert outcome_of(self.c, replica(1, key=key, **fields), shows(2, None)) is found

    def test_a_tombstone_in_the_very_place_of_a_value_that_another_shows_explains_nothing(self) -> None:
        got = decide(self.c, answers(shows(1, record(60)), shows(2, record(60, value_size=-1))))
        assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, NOBODY)

    def test_an_older_value_of_one_that_only_just_came_as_far_as_the_record_is_wrong(self) -> None:
        old = record(30, producer_id=-1)
        for stable, found in ((50, ClaimState.PENDING), (51, ClaimState.CONFIRMED)):
            assert outcome_of(self.c, shows(1, self.value, last_stable_offset=stable), shows(2, old)) is found

    def test_who_holds_a_record_without_a_key_is_named(self) -> None:
        c = replace(self.c, key_hash_lo=0)
        one, two = (replica(b, committed={50: self.value}, asked=frozenset({50})) for b in (1, 3))
        assert decide(c, answers(one, replica(2))).reason.startswith("broker 1 holds offset 50")
        assert decide(c, answers(one, replica(2), two)).reason.startswith("brokers 1 and 3 hold offset 50")

    def test_a_record_without_a_key_that_another_log_begins_at_may_be_lost_on_all(self) -> None:
        c = replace(self.c, key_hash_lo=0)
        assert decide(c, answers(replica(1, log_start_offset=50), replica(2))).resolution is Resolution.SPREAD

    def test_a_record_without_a_key_is_judged_by_its_offset(self) -> None:
        c = replace(self.c, key_hash_lo=0)
        holder = replica(1, committed={50: self.value}, asked=frozenset({50}))
        assert outcome_of(c, holder, replica(2)) is ClaimState.CONFIRMED
        assert outcome_of(c, holder, replace(holder, broker=2)) is ClaimState.DISMISSED
        assert outcome_of(c, holder, replica(2, last_stable_offset=50)) is ClaimState.PENDING
        assert outcome_of(c, holder, replica(2, log_start_offset=51)) is ClaimState.DISMISSED

    def test_a_record_without_a_key_that_an_election_has_truncated_is_missing_on_nobody(self) -> None:
        c = replace(self.c, key_hash_lo=0, recorded=RecordedByViews(leader_epoch=4))
        cut = [replica(b, epoch_ends={4: 50}) for b in (1, 2)]
        got = decide(c, answers(*cut))
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        old = replica(3, committed={50: self.value}, asked=frozenset({50}), epoch_ends={4: 60})
        assert outcome_of(c, *cut, old) is ClaimState.DISMISSED, "3 has yet to truncate it"

    def test_who_was_asked_and_lacks_a_record_without_a_key_is_on_the_side_of_the_accused(self) -> None:
        c = replace(self.c, key_hash_lo=0)
        holder = replica(1, committed={50: self.value}, asked=frozenset({50}))
        got = decide(c, answers(holder, replica(2), replica(3, asked=frozenset({50})), replica(4)))
        assert got.sides == parsed({"no record there": (2, 3), "record at offset 50": (1,)})

    def test_one_that_may_hold_the_offset_and_does_not_show_it_yet_is_waited_for(self) -> None:
        c = replace(self.c, key_hash_lo=0)
        assert outcome_of(c, replica(1, last_stable_offset=50), replica(2)) is ClaimState.PENDING
        assert outcome_of(c, replica(1, last_stable_offset=51), replica(2)) is ClaimState.DISMISSED
        assert outcome_of(c, replica(1, last_stable_offset=50, log_end_offset=50), replica(2)) is ClaimState.DISMISSED
        assert decide(c, answers(replica(1), replica(2))).resolution is Resolution.SPREAD
        assert decide(c, answers(replica(1, log_start_offset=51), replica(2))).resolution is Resolution.DELETED


@pytest.mark.parametrize(("newest", "is_seen"), [(29, True), (30, False)])
def test_a_record_of_the_key_beyond_the_end_of_the_accused_shows_nothing_as_deleted(newest: int, is_seen: bool) -> None:
    other = replica(1, key=KeyShown(None, True, newest))
    assert shows_deleted(other, 10, 30) is is_seen
