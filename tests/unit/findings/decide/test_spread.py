"""All replicas show what was found to be wrong on one: that heals nothing, and ends by what is written since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.findings import summary
from parallax.findings.answers import CoordinatorAnswer, KeyShown, OpenTransaction, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim, HadEnded, RecordedByViews
from parallax.findings.decide import ClaimState, Decision, Resolution, decide
from parallax.model import FindingKind
from tests.builders.answers import NOTHING, OPEN, PRODUCER, answers, holding, record, replica, shows, silent
from tests.builders.claims import claim, of_key

FROZEN = claim(FindingKind.READ_COMMITTED_FROZEN)
C2A = claim(FindingKind.COMMITTED_RECORD_ABORTED, key_hash_lo=1)
A2C = claim(FindingKind.ABORTED_RECORD_COMMITTED, key_hash_lo=1)
MISSING = of_key(FindingKind.RECORD_MISSING, key_hash_lo=1)
BACK = of_key(FindingKind.DELETED_RECORD_RESURRECTED, key_hash_lo=1)


def stuck(broker: int, **fields: Any) -> ReplicaAnswer:
    return replica(broker, open_transactions=OPEN, last_stable_offset=10, **fields)


def found(c: Claim, *replicas: ReplicaAnswer, **fields: object) -> Decision:
    """What a finding that is checked again has become."""
    return decide(c, answers(*replicas, **fields), live_only=True)


def ended(decision: Decision) -> tuple[ClaimState, Resolution]:
    return decision.verdict, decision.resolution


SPREAD = (ClaimState.DISMISSED, Resolution.SPREAD)
OVER = (ClaimState.DISMISSED, Resolution.SUPERSEDED)


class TestAMarkerThatIsMissingOnAll:
    def test_has_spread_where_a_finding_had_proven_it_and_all_hold_the_transaction_open(self) -> None:
        got = found(FROZEN, stuck(1), stuck(2), stuck(3))
        assert ended(got) == SPREAD
        assert "open on every replica" in got.reason

    def test_is_about_every_replica_and_not_about_the_accused_alone(self) -> None:
        # Seen on real brokers after a reassignment: the coordinator has long ended it, and all stand at offset 10.
        coordinator = CoordinatorAnswer(PRODUCER, "t", "CompleteAbort")
        got = found(FROZEN, stuck(1), stuck(2), stuck(3), coordinator=coordinator, leader=1)
        assert ended(got) == SPREAD
        assert "broker 2 only" not in got.reason

    @pytest.mark.parametrize(("held_by", "spread"), [({2}, True), ({1, 2}, False), (set(), True)])
    def test_that_one_had_ended_in_a_log_that_was_truncated_is_nobodys_fault(
        self, held_by: set[int], spread: bool
    ) -> None:
        # Broker 1 leads; the cleaner took its record while the transaction had ended there. 3 is a copy of it.
        asked = {"asked_uncommitted": frozenset({10})}
        held = {b: {10: record()} if b in held_by else {} for b in (1, 2)}
        given = stuck(1, uncommitted=held[1], **asked), stuck(2, uncommitted=held[2], **asked), replica(3)
        assert decide(FROZEN, answers(*given)).has_spread is spread
        assert decide(FROZEN, answers(*given, leader=3)).verdict is ClaimState.CONFIRMED
        assert decide(FROZEN, answers(stuck(1), stuck(2), replica(3))).verdict is ClaimState.CONFIRMED, (
            "it was not asked"
        )

    def test_that_only_the_coordinator_knows_to_be_ended_is_nobodys_fault_if_the_leader_lags(
        self,
    ) -> None:
        ended_long_ago = CoordinatorAnswer(PRODUCER, "t", "CompleteAbort")
        above = replica(3, log_start_offset=40)
        for leader, spread in ((1, True), (3, False)):
            got = decide(FROZEN, answers(stuck(1), stuck(2), above, coordinator=ended_long_ago, leader=leader))
            assert got.has_spread is spread
            assert spread or got.verdict is ClaimState.CONFIRMED

    def test_is_frozen_from_then_on_whatever_it_was_before(self) -> None:
        got = found(claim(FindingKind.MARKER_MISSING), stuck(1), stuck(2), stuck(3))
        assert (ended(got), got.kind) == (SPREAD, FindingKind.READ_COMMITTED_FROZEN)

    def test_is_proven_for_a_suspect_by_a_marker_that_was_recorded(self) -> None:
        recorded = replace(FROZEN, recorded=RecordedByViews(markers={1: "abort"}))
        assert ended(decide(recorded, answers(stuck(1), stuck(2), stuck(3)))) == SPREAD

    def test_a_transaction_that_nothing_says_has_ended_is_merely_long(self) -> None:
        got = decide(claim(FindingKind.MARKER_MISSING), answers(stuck(1), stuck(2), stuck(3)))
        assert ended(got) == (ClaimState.DISMISSED, Resolution.UNPROVEN)

    def test_another_transaction_that_is_open_on_all_by_now_is_merely_long(self) -> None:
        another = (OpenTransaction(PRODUCER + 1, start_offset=40),)
        later = [replica(b, open_transactions=another, last_stable_offset=40) for b in (1, 2, 3)]
        assert not found(FROZEN, *later).has_spread

    def test_one_that_is_away_may_be_right_still(self) -> None:
        got = found(FROZEN, stuck(1), stuck(2), silent(3))
        assert got.verdict is ClaimState.CONFIRMED
        assert "on every replica that answered" in got.reason

    def test_the_only_replica_that_is_left_is_every_replica(self) -> None:
        assert ended(found(FROZEN, stuck(2), leader=2)) == SPREAD
        assert not found(FROZEN, stuck(2), silent(3), leader=2).has_spread
        merely_long = decide(claim(FindingKind.MARKER_MISSING), answers(stuck(2), leader=2))
        assert not merely_long.has_spread

    def test_one_that_has_ended_it_is_another_side(self) -> None:
        assert found(FROZEN, replica(1), stuck(2), stuck(3)).verdict is ClaimState.CONFIRMED

    def test_stays_spread_until_none_holds_it_open(self) -> None:
        spread = replace(FROZEN, spread=True)
        assert ended(found(spread, stuck(1), stuck(2), stuck(3))) == SPREAD
        past = [replica(b, log_start_offset=15) for b in (1, 2, 3)]
        assert ended(found(spread, *past)) == OVER

    def test_stays_spread_while_one_is_away_and_accuses_nobody_who_goes_by_the_log_of_the_leader(self) -> None:
        # An unclean election has lost the end marker with the logs of 1 and 3; 1 has taken over that of 2, 3 is down.
        spread = replace(FROZEN, spread=True)
        coordinator = CoordinatorAnswer(PRODUCER, "t", "CompleteCommit")
        for known in (coordinator, None):
            got = found(spread, stuck(1), stuck(2), silent(3), coordinator=known, leader=2)
            assert ended(got) == SPREAD
            assert "that answered" in got.reason
        assert found(spread, stuck(1), stuck(2), replica(3), leader=3).verdict is ClaimState.CONFIRMED, "3 has ended it"

    def test_that_the_next_marker_ended_the_wrong_way_round_on_all_is_spread_as_what_it_became(self) -> None:
        spread = replace(FROZEN, spread=True, recorded=RecordedByViews(markers={1: "abort"}))
        got = found(spread, *(holding(b, "committed") for b in (1, 2, 3)))
        assert (ended(got), got.kind) == (SPREAD, FindingKind.ABORTED_RECORD_COMMITTED)

    def test_that_the_next_marker_ended_rightly_on_all_is_over_and_not_healed_by_that(self) -> None:
        spread = replace(FROZEN, spread=True, recorded=RecordedByViews(markers={1: "abort"}))
        got = found(spread, *(holding(b, "aborted") for b in (1, 2, 3)))
        assert ended(got) == (ClaimState.DISMISSED, Resolution.UNPROVEN)


class TestWhatWasReadToHaveEnded:
    """All replicas hold open what one of them had been read to hold the end of, and nobody has read the end marker."""

    BEFORE = HadEnded(start=0, to=40, below=60, epoch=4, broker=1)

    def suspect(self, **fields: Any) -> Claim:
        before = replace(self.BEFORE, **fields)
        return claim(FindingKind.READ_COMMITTED_FROZEN, marker_offset=-1, recorded=RecordedByViews(had_ended=before))

    def copy(self, broker: int, **fields: Any) -> ReplicaAnswer:
        """A replica whose log is of epoch 4 up to offset 80, with a batch of that left at offset 59 or above."""
        log: dict[str, Any] = {"epoch_ends": {4: 80}, "epochs_known": frozenset({4}), "epochs_at": {59: 4}}
        return stuck(broker, **(log | fields))

    def copies(self, **fields: Any) -> list[ReplicaAnswer]:
        return [self.copy(1), self.copy(2), self.copy(3, **fields)]

    def test_is_lost_on_all_where_all_hold_the_log_that_was_read(self) -> None:
        got = decide(self.suspect(), answers(*self.copies()))
        assert ended(got) == SPREAD
        assert got.kind is FindingKind.READ_COMMITTED_FROZEN
        last = self.copies(epoch_ends={4: 100}, epochs_at={})
        assert ended(decide(self.suspect(), answers(*last))) == SPREAD, "it is the last epoch of its log"

    @pytest.mark.parametrize(
        "fields",
        [
            {"epoch_ends": {4: 59}},
            {"epoch_ends": {4: None}, "epochs_known": frozenset()},
            {"epochs_known": frozenset()},
            {"epochs_at": {59: 5}},
            {"epochs_at": {}},
            {"epoch_ends": {}, "epochs_known": frozenset(), "epochs_at": {}},
        ],
        ids=str,
    )
    def test_is_merely_long_where_one_log_may_be_another(self, fields: dict[str, Any]) -> None:
        got = decide(self.suspect(), answers(*self.copies(**fields)))
        assert ended(got) == (ClaimState.DISMISSED, Resolution.UNPROVEN)

    def test_is_merely_long_where_each_offset_behind_it_holds_something_else(self) -> None:
        """There is no place for the end marker: the log that was read was another one."""
        suspect = self.suspect(to=40, below=43)
        held = {offset: record(offset) for offset in suspect.before_end or ()}
        log: dict[str, Any] = {"epochs_at": {42: 4}, "uncommitted": held}
        full = [self.copy(b, **log) for b in (1, 2, 3)]
        assert ended(decide(suspect, answers(*full))) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        held.popitem()
        assert ended(decide(suspect, answers(*full))) == SPREAD

    @pytest.mark.parametrize(
        ("fields", "spread"),
        [
            ({"to": 11}, True),
            ({"to": 10}, False),
            ({"start": 10}, True),
            ({"start": 11}, False),
            ({"below": 101}, False),
        ],
        ids=str,
    )
    def test_is_what_began_in_what_was_read_and_has_been_replicated_past(
        self, fields: dict[str, Any], spread: bool
    ) -> None:
        log: dict[str, Any] = {"epoch_ends": {4: 110}, "epochs_at": {59: 4, 100: 4}}
        copies = [self.copy(b, **log) for b in (1, 2, 3)]
        assert decide(self.suspect(**fields), answers(*copies)).has_spread is spread

    def test_waits_for_one_that_is_away_and_is_not_lost_where_one_has_ended_it(self) -> None:
        got = decide(self.suspect(), answers(self.copy(1), self.copy(2), silent(3)))
        assert got.verdict is ClaimState.PENDING
        got = decide(self.suspect(), answers(self.copy(1), self.copy(2), replica(3)))
        assert got.verdict is ClaimState.CONFIRMED

    def test_says_nothing_of_another_transaction_nor_where_nothing_is_compacted(self) -> None:
        other = (OpenTransaction(PRODUCER + 1, start_offset=10),)
        others = [replace(self.copy(b), open_transactions=other) for b in (1, 2, 3)]
        assert not decide(self.suspect(), answers(*others)).has_spread
        suspect = self.suspect()
        uncompacted = replace(suspect, recorded=replace(suspect.recorded, uncompacted=True))
        assert not decide(uncompacted, answers(*self.copies())).has_spread


class TestAnOutcome:
    def test_of_a_suspect_that_all_share_is_spread_only_where_what_was_recorded_proves_it(self) -> None:
        all_committed = [holding(b, "committed") for b in (1, 2, 3)]
        proven = replace(A2C, recorded=RecordedByViews(outcomes={2: "committed"}, markers={1: "abort"}))
        assert ended(decide(proven, answers(*all_committed))) == SPREAD
        assert not decide(A2C, answers(*all_committed)).has_spread

    def test_that_nobody_was_read_to_end_has_not_healed_though_all_show_the_same(self) -> None:
        frozen = claim(FindingKind.READ_COMMITTED_FROZEN, marker_offset=-1)
        assert ended(found(frozen, *(holding(b, "aborted") for b in (1, 2, 3))))[1] is Resolution.AGREED
        known = replace(frozen, recorded=RecordedByViews(markers={1: "abort"}))
        assert ended(found(known, *(holding(b, "aborted") for b in (1, 2, 3))))[1] is Resolution.UNPROVEN

    @pytest.mark.parametrize(
        ("recorded", "spread"),
        [
            (RecordedByViews(outcomes={1: "aborted", 2: "committed"}, markers={3: "abort"}), True),
            (RecordedByViews(outcomes={1: "aborted"}, markers={3: "abort"}), False),
            (RecordedByViews(outcomes={1: "committed", 2: "committed"}, markers={3: "abort"}), True),
            (RecordedByViews(outcomes={1: "aborted", 2: "committed"}, markers={3: "commit"}), False),
            (RecordedByViews(outcomes={2: "committed"}, markers={2: "abort"}), False),
        ],
        ids=[
            "two that differ",
            "nothing of the accused",
            "another has missed the marker as well",
            "the others differ",
            "the accused alone",
        ],
    )
    def test_of_a_suspect_is_proven_by_the_accused_and_others_that_are_of_one_mind(
        self, recorded: RecordedByViews, spread: bool
    ) -> None:
        all_committed = [holding(b, "committed") for b in (1, 2, 3)]
        assert decide(replace(A2C, recorded=recorded), answers(*all_committed)).has_spread is spread

    def test_stays_spread_while_one_holds_the_transaction_open(self) -> None:
        spread = replace(claim(FindingKind.MARKER_MISSING), spread=True)
        over = [replica(b, log_start_offset=15) for b in (1, 2)]
        assert ended(found(spread, *over, replace(stuck(3), log_start_offset=15))) == OVER, "below where it begins"
        assert ended(found(spread, *over, stuck(3))) == SPREAD

    def test_waits_for_those_that_are_away(self) -> None:
        assert found(A2C, holding(1, "committed"), holding(2, "committed"), silent(3)).verdict is ClaimState.PENDING

    def test_stays_spread_while_one_replica_shows_the_rolled_back_record_as_the_latest(self) -> None:
        spread = replace(A2C, spread=True)
        poison, newer = record(10, "committed"), record(30)
        held = {"committed": {10: poison}, "asked": frozenset({10})}
        got = found(spread, shows(1, newer, **held), shows(2, poison, **held), shows(3, newer, **held))
        assert ended(got) == SPREAD
        assert ended(found(spread, *(shows(b, newer, **held) for b in (1, 2, 3)))) == OVER

    @pytest.mark.parametrize(("offset", "wanted"), [(9, SPREAD), (11, OVER)])
    def test_of_a_hidden_record_is_over_only_by_a_newer_record(self, offset: int, wanted: object) -> None:
        spread = replace(C2A, spread=True)
        assert ended(found(spread, *(shows(b, record(offset)) for b in (1, 2, 3)))) == wanted

    def test_is_spread_where_those_that_showed_the_other_one_hold_no_replica_any_more(self) -> None:
        # Seen on real brokers: the partition was assigned to the accused alone.
        read = replace(
            A2C, recorded=RecordedByViews(outcomes={1: "aborted", 3: "aborted"}, markers={1: "abort", 3: "abort"})
        )
        assert ended(found(read, holding(2, "committed"), leader=2)) == SPREAD
        assert ended(found(read, holding(2, "committed"), holding(4, "committed"), leader=2)) == SPREAD
        for other in (silent(4), replica(4), holding(4, "aborted")):
            assert found(read, holding(2, "committed"), other, leader=2).verdict is ClaimState.CONFIRMED

    def test_of_a_rolled_back_deletion_is_remembered_with_the_value_that_it_took(self) -> None:
        deletion = replace(record(10, "committed"), value_size=-1)
        held = {"committed": {10: deletion}, "asked": frozenset({10})}
        read = replace(
            A2C, recorded=RecordedByViews(outcomes={1: "aborted", 3: "aborted"}, markers={1: "abort", 3: "abort"})
        )
        for value, lacks in ((record(4), 4), (None, -1), (record(12), -1)):
            assert found(read, shows(1, value), shows(2, deletion, **held), shows(3, None)).lacks == lacks
        assert found(read, shows(1, record(4)), holding(2, "committed"), shows(3, None)).lacks == -1, "a value"

    @pytest.mark.parametrize(("value", "wanted"), [(None, SPREAD), (record(4), OVER), (record(12), OVER)])
    def test_of_a_rolled_back_deletion_stands_after_it_was_cleaned_while_its_value_is_nowhere(
        self, value: RecordShown | None, wanted: object
    ) -> None:
        spread = replace(A2C, spread=True, recorded=RecordedByViews(lacks=4, was_deletion=True))
        assert ended(found(spread, *(shows(b, value) for b in (1, 2, 3)))) == wanted
        unknown = replace(spread, recorded=RecordedByViews(was_deletion=True))
        assert ended(found(unknown, *(shows(b, value) for b in (1, 2, 3)))) == OVER, "it may have taken nothing"

    @pytest.mark.parametrize("listed", [True, False], ids=["the accused lists it", "no trace is left"])
    def test_of_a_hidden_record_that_nobody_holds_is_spread_where_all_show_an_older_value(
        self, *, listed: bool
    ) -> None:
        # Seen on real brokers: a deletion that 2 took for aborted is cleaned, and 1 and 3 are copied from it.
        of_all = replace(C2A, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted", 3: "committed"}))
        own = {"aborted": ((PRODUCER, 10),)} if listed else {}
        old = [shows(b, record(5), **(own if b == 2 else {})) for b in (1, 2, 3)]
        got = found(of_all, *old)
        assert (ended(got), got.kind) == (SPREAD, FindingKind.COMMITTED_RECORD_ABORTED)
        assert found(of_all, old[0], old[1], silent(3)).verdict is not ClaimState.DISMISSED, "3 may be right"
        for right in (shows(3, None), shows(3, record(12)), shows(3, record(5), last_stable_offset=10)):
            assert not found(of_all, old[0], old[1], right).has_spread

    def test_that_a_replica_does_not_tell_of_the_key_is_no_end(self) -> None:
        got = found(replace(A2C, spread=True), shows(1, record(30)), shows(2, record(30), complete=False))
        assert got.verdict is ClaimState.PENDING

    def test_a_replica_that_is_right_again_makes_it_a_divergence_again(self) -> None:
        got = found(replace(A2C, spread=True), holding(1, "aborted"), holding(2, "committed"), holding(3, "committed"))
        assert got.verdict is ClaimState.CONFIRMED


class TestAValue:
    def test_that_was_deleted_and_is_shown_by_all_is_over_when_a_newer_record_or_none_is_shown(self) -> None:
        spread = replace(BACK, spread=True)
        assert ended(found(spread, *(shows(b, record(5)) for b in (1, 2, 3)))) == SPREAD
        assert ended(found(spread, *(shows(b, record(12)) for b in (1, 2, 3)))) == OVER
        assert ended(found(spread, *(shows(b, None) for b in (1, 2, 3)))) == OVER

    def test_in_the_place_of_the_tombstone_is_of_another_log_and_not_the_one_that_was_deleted(self) -> None:
        assert ended(found(replace(BACK, spread=True), *(shows(b, record(10)) for b in (1, 2, 3)))) == OVER

    def test_that_was_deleted_in_a_log_that_an_election_has_cut_is_the_latest_again(self) -> None:
        spread = replace(BACK, spread=True, recorded=RecordedByViews(leader_epoch=3))
        for ends, wanted in (({3: 10}, OVER), ({3: None}, OVER), ({3: 11}, SPREAD), ({}, SPREAD)):
            cut, whole = (replace(shows(1, record(5)), epoch_ends=e) for e in (ends, {3: 11}))
            assert ended(found(spread, cut, replace(cut, broker=2), replace(cut, broker=3))) == wanted
            assert ended(found(spread, cut, replace(cut, broker=2), replace(whole, broker=3))) == SPREAD
            one_away = found(spread, cut, replace(cut, broker=2), silent(3))
            assert one_away.resolution is not Resolution.SUPERSEDED

    def test_that_was_missing_on_all_is_over_where_all_show_it(self) -> None:
        assert ended(found(replace(MISSING, spread=True), *(shows(b, record(10)) for b in (1, 2, 3)))) == OVER

    def test_that_was_missing_on_all_is_no_more_judged_where_a_log_begins_above_it(self) -> None:
        for start, wanted in ((10, SPREAD), (11, OVER)):
            lost = [replica(b, log_start_offset=start, key=NOTHING) for b in (1, 2, 3)]
            assert ended(found(replace(MISSING, spread=True), *lost)) == wanted

    def test_without_a_key_is_over_where_all_hold_it_and_lost_where_none_does(self) -> None:
        spread = replace(MISSING, spread=True, key_hash_lo=0)
        for outcome, wanted in (("none", OVER), ("aborted", SPREAD)):
            assert ended(found(spread, *(holding(b, outcome) for b in (1, 2, 3)))) == wanted
        assert ended(found(spread, *(replica(b) for b in (1, 2, 3)))) == SPREAD

    def test_heals_nothing_where_another_shows_another_one_or_none(self) -> None:
        newer, tombstone = shows(2, record(40, producer_id=-1)), record(40, value_size=-1)
        for other, said in ((shows(1, record(30)), "the value at offset 30"), (shows(1, tombstone), "no value")):
            for between in ((), (replica(0),), (shows(0, record(30), complete=False),)):
                got = found(MISSING, *between, other, newer)
                assert ended(got) == (ClaimState.DISMISSED, Resolution.DIFFERS)
                assert f"broker 1 shows {said}" in got.reason

    def test_that_is_the_same_or_that_one_has_not_passed_or_not_read_whole_is_no_difference(self) -> None:
        newer = shows(2, record(40, producer_id=-1))
        older = shows(1, record(30))
        for other in (
            shows(1, record(40)),
            replace(older, last_stable_offset=40),
            shows(1, record(30), complete=False),
        ):
            assert ended(found(MISSING, other, newer)) == (ClaimState.DISMISSED, Resolution.HEALED)
        assert ended(found(MISSING, replace(older, last_stable_offset=41), newer))[1] is Resolution.DIFFERS

    def test_that_the_outcome_of_a_transaction_shows_has_not_healed_by_that(self) -> None:
        def shown(outcome: str) -> Decision:
            return found(MISSING, *(shows(b, record(40, outcome)) for b in (1, 2, 3)))

        assert ended(shown("none")) == (ClaimState.DISMISSED, Resolution.HEALED)
        assert ended(shown("committed")) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        aborted_since = KeyShown(record(40), True, 50)
        got = found(MISSING, *(replica(b, key=aborted_since) for b in (1, 2, 3)))
        assert ended(got) == (ClaimState.DISMISSED, Resolution.UNPROVEN)

    def test_that_is_missing_on_all_by_now_is_lost_and_not_healed(self) -> None:
        assert ended(found(MISSING, *(shows(b, None) for b in (1, 2, 3)))) == SPREAD

    def test_that_was_missing_and_is_deleted_since_is_healed(self) -> None:
        tombstone = record(30, value_size=-1)
        got = found(MISSING, *(shows(b, tombstone) for b in (1, 2, 3)))
        assert ended(got) == (ClaimState.DISMISSED, Resolution.HEALED)

    def test_that_was_missing_is_over_when_the_log_starts_above_it(self) -> None:
        above = [replica(b, log_start_offset=11, key=NOTHING) for b in (1, 2, 3)]
        assert ended(found(replace(MISSING, spread=True), *above)) == OVER


def test_a_newer_value_that_not_all_were_seen_to_hold_does_not_prove_the_accused_healed() -> None:
    newer = record(30, producer_id=-1)
    given = [shows(b, newer) for b in (1, 2, 3)]
    assert ended(found(MISSING, *given)) == (ClaimState.DISMISSED, Resolution.HEALED)
    one_sided = replace(MISSING, all_compared=False)
    assert ended(found(one_sided, *given)) == (ClaimState.DISMISSED, Resolution.AGREED)
    deleted = replace(BACK, all_compared=False)
    assert ended(found(deleted, *given)) == (ClaimState.DISMISSED, Resolution.HEALED), "a tombstone had proven it"


class TestADeletionThatAllHaveMissed:
    def test_is_said_by_what_holds_of_all_though_they_show_different_old_values(self) -> None:
        got = found(BACK, shows(1, record(3)), shows(2, record(5)), shows(3, record(3)))
        assert ended(got) == SPREAD
        assert got.reason == "every replica shows a value that is older than the tombstone at offset 10"
        text = summary.spread(BACK, got)
        assert text.startswith("Every replica shows a value that is older than the tombstone at offset 10. No replica")
        assert "shows otherwise" not in text

    def test_names_those_that_still_show_one_once_another_holds_what_was_written_since(self) -> None:
        had = replace(BACK, spread=True)
        got = found(had, shows(1, record(20)), shows(2, record(20)), shows(3, record(3)))
        assert ended(got) == SPREAD
        assert got.reason == "broker 3 shows a value that is older than the tombstone at offset 10"
