"""Transactions that have ended: the outcome of their records, live, recorded or by an end marker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.answers import (
    KeyShown,
    MarkerShown,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.claim import MAX_BETWEEN, RecordedByViews
from parallax.findings.decide import ClaimState, Decision, Resolution, decide
from parallax.findings.decide.endings import ended_by
from parallax.findings.ended import resolved
from parallax.model import NOBODY, FindingKind, Rule
from parallax.sides import parsed
from tests.builders.answers import (
    NOTHING,
    PRODUCER,
    answers,
    holding,
    marker,
    newest,
    record,
    replica,
    shows,
    silent,
)
from tests.builders.claims import claim
from tests.unit.findings.decide.answered import outcome_of, verdict


class TestOutcome:
    a2c = claim(FindingKind.ABORTED_RECORD_COMMITTED)
    c2a = claim(FindingKind.COMMITTED_RECORD_ABORTED)

    def test_live_answers_that_differ_are_confirmed(self) -> None:
        got = decide(self.a2c, answers(holding(1, "aborted"), holding(2, "committed"), holding(3, "aborted")))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.ABORTED_RECORD_COMMITTED)

    def test_live_answers_that_agree_are_dismissed(self) -> None:
        assert outcome_of(self.a2c, *(holding(b, "aborted") for b in (1, 2, 3))) is ClaimState.DISMISSED

    def test_the_kind_follows_what_the_accused_shows_now(self) -> None:
        got = decide(self.a2c, answers(holding(1, "committed"), holding(2, "aborted"), replica(3)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.COMMITTED_RECORD_ABORTED)

    def test_one_that_shows_what_the_marker_says_that_it_lacked_is_right_whatever_others_showed(self) -> None:
        # Its log was replaced by one with the marker; 3, of which an outcome was recorded, cannot be asked.
        recorded = RecordedByViews(
            outcomes={1: "committed", 2: "aborted", 3: "aborted"}, markers={1: "commit", 2: "abort"}
        )
        c = replace(self.c2a, recorded=recorded)
        assert outcome_of(c, replica(1), holding(2, "committed"), silent(3)) is ClaimState.DISMISSED
        assert outcome_of(c, replica(1), holding(2, "aborted"), silent(3)) is ClaimState.CONFIRMED
        disputed = replace(c, recorded=replace(recorded, markers={1: "commit", 3: "abort"}))
        assert outcome_of(disputed, replica(1), holding(2, "committed"), silent(3)) is ClaimState.CONFIRMED

    def test_one_that_shows_what_the_marker_says_is_right_whatever_a_wrong_index_shows_elsewhere(self) -> None:
        # 1 holds the ABORT as well, and has lost its index.
        by_a_wrong_index = holding(1, "committed", markers=(marker(20, "abort"),))
        c = replace(self.a2c, marker_offset=20)
        assert outcome_of(c, by_a_wrong_index, holding(2, "aborted"), replica(3)) is ClaimState.DISMISSED
        by_its_commit = holding(1, "committed", markers=(marker(20, "commit"),))
        assert outcome_of(c, by_its_commit, holding(2, "aborted"), replica(3)) is ClaimState.CONFIRMED

    def test_a_marker_that_a_lower_one_may_have_been_cleaned_before_accuses_nobody(self) -> None:
        recorded = RecordedByViews(markers={1: "abort", 2: "commit"}, end_unproven=True)
        late = claim(FindingKind.ABORTED_RECORD_COMMITTED, marker_offset=13, recorded=recorded)
        assert outcome_of(late, replica(1), holding(2, "committed"), replica(3)) is ClaimState.DISMISSED
        assert outcome_of(late, replica(1), holding(2, "committed"), replica(3), live_only=True) is ClaimState.DISMISSED
        got = decide(late, answers(holding(1, "aborted"), holding(2, "committed"), replica(3)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)
        assert (got.accused, got.sides) == (NOBODY, parsed({"aborted": (1,), "committed": (2,)}))

    def test_a_marker_with_no_room_for_a_lower_one_accuses_whoever_shows_otherwise(self) -> None:
        recorded = RecordedByViews(markers={1: "abort", 2: "commit"}, end_unproven=True)
        late = claim(FindingKind.ABORTED_RECORD_COMMITTED, marker_offset=13, recorded=recorded)
        other = marker(12, "abort", PRODUCER + 1)
        between = replica(1, uncommitted={11: record(11)}, markers=(other,))
        got = decide(late, answers(between, holding(2, "committed"), replica(3)))
        assert (*verdict(got), got.accused) == (ClaimState.CONFIRMED, FindingKind.ABORTED_RECORD_COMMITTED, 2)
        own = replace(between, markers=(replace(other, producer_id=PRODUCER),))
        assert outcome_of(late, own, holding(2, "committed"), replica(3)) is ClaimState.DISMISSED
        directly = replace(late, marker_offset=11)
        assert outcome_of(directly, replica(1), holding(2, "committed"), replica(3)) is ClaimState.CONFIRMED
        far = replace(late, marker_offset=10 + MAX_BETWEEN + 2)
        full = replica(1, uncommitted={o: record(o) for o in range(11, far.marker_offset)})
        assert outcome_of(far, full, holding(2, "committed"), replica(3)) is ClaimState.DISMISSED

    def test_what_was_proven_before_the_records_between_were_cleaned_stays_proven(self) -> None:
        recorded = RecordedByViews(markers={1: "abort"}, end_unproven=True)
        proven = claim(FindingKind.ABORTED_RECORD_COMMITTED, marker_offset=13, recorded=recorded, confirmed_at_ms=1)
        held = answers(holding(1, "aborted"), holding(2, "committed"))
        assert decide(proven, held, live_only=True).accused == 2

    def test_the_record_of_another_producer_at_the_offset_has_no_part_in_it(self) -> None:
        marked = replace(self.a2c, recorded=RecordedByViews(markers={1: "abort"}))
        other = replica(2, committed={10: record(outcome="committed", producer_id=PRODUCER + 1)}, asked=frozenset({10}))
        assert outcome_of(marked, replica(1), other, replica(3)) is ClaimState.DISMISSED
        assert outcome_of(marked, replica(1), holding(2, "committed"), replica(3)) is ClaimState.CONFIRMED

    def test_the_recorded_outcome_stands_in_where_the_others_cleaned_the_record(self) -> None:
        recorded = replace(self.a2c, recorded=RecordedByViews(outcomes={1: "aborted", 2: "committed", 3: "aborted"}))
        assert outcome_of(recorded, replica(1), holding(2, "committed"), replica(3)) is ClaimState.CONFIRMED

    def test_recorded_markers_stand_in_where_nobody_recorded_an_outcome(self) -> None:
        recorded = replace(self.a2c, recorded=RecordedByViews(markers={1: "abort"}))
        assert outcome_of(recorded, replica(1), holding(2, "committed"), replica(3)) is ClaimState.CONFIRMED

    def test_a_live_marker_of_another_replica_is_evidence(self) -> None:
        marked = replica(1, markers=(marker(),))
        assert outcome_of(self.a2c, marked, holding(2, "committed")) is ClaimState.CONFIRMED
        foreign = replica(1, markers=(marker(20, "abort", PRODUCER + 1),))
        assert outcome_of(self.a2c, foreign, holding(2, "committed")) is ClaimState.DISMISSED

    def test_an_end_marker_bears_witness_against_what_its_own_replica_shows_of_the_record(self) -> None:
        abort = (marker(),)
        lost_index = replace(holding(1, "committed"), markers=abort)
        got = decide(self.a2c, answers(lost_index, holding(2, "committed"), replica(3)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.ABORTED_RECORD_COMMITTED)
        end = "ended by the ABORT at offset 20, that broker 1 showed when asked"
        assert got.reason == f"offset 10 is committed on broker 2, and aborted by its end marker; {end}"
        assert got.sides == parsed({"committed": (1, 2)})
        found = answers(lost_index, holding(2, "committed"), replica(3))
        assert (
            decide(replace(self.a2c, recorded=RecordedByViews(markers={1: "abort"})), found, live_only=True).sides
            == got.sides
        )
        both_have_it = answers(lost_index, replace(holding(2, "committed"), markers=abort), replica(3))
        assert decide(self.a2c, both_have_it).verdict is ClaimState.DISMISSED

    def test_a_finding_has_not_spread_to_those_that_hold_its_record_no_more(self) -> None:
        read = RecordedByViews(outcomes={1: "committed", 2: "committed"}, markers={1: "abort"})
        c = replace(self.a2c, recorded=read)
        got = decide(c, answers(shows(1, None), holding(2, "committed"), shows(3, None)), live_only=True)
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.ABORTED_RECORD_COMMITTED)
        end = "ended by the ABORT at offset 20, that broker 1 had shown"
        assert got.reason == f"offset 10 is committed on broker 2, and aborted by its end marker; {end}"
        assert got.sides == parsed({"committed": (2,)})
        everywhere = answers(*(holding(b, "committed") for b in (1, 2, 3)))
        assert decide(c, everywhere, live_only=True).has_spread

    def test_a_live_answer_outweighs_what_was_recorded_of_the_same_replica(self) -> None:
        recorded = replace(self.a2c, recorded=RecordedByViews(outcomes={1: "aborted", 3: "aborted"}))
        agree = [holding(b, "committed") for b in (1, 2, 3)]
        assert outcome_of(recorded, *agree) is ClaimState.DISMISSED

    def test_no_evidence_of_the_others_waits_for_those_that_did_not_answer(self) -> None:
        assert outcome_of(self.a2c, silent(1), holding(2, "committed"), replica(3)) is ClaimState.PENDING
        assert outcome_of(self.a2c, replica(1), holding(2, "committed"), replica(3)) is ClaimState.DISMISSED

    @pytest.mark.parametrize("kind", [FindingKind.COMMITTED_RECORD_ABORTED, FindingKind.VISIBILITY_MISMATCH])
    def test_one_that_does_not_show_the_record_yet_is_waited_for(self, kind: FindingKind) -> None:
        # Started again, it goes on from the high watermark of its last checkpoint.
        restarted = replica(1, high_watermark=5, last_stable_offset=5)
        asked = claim(kind)
        assert outcome_of(asked, restarted, holding(2, "aborted"), replica(3)) is ClaimState.PENDING
        just_there = replace(restarted, high_watermark=11, last_stable_offset=11)
        assert outcome_of(asked, just_there, holding(2, "aborted"), replica(3)) is ClaimState.DISMISSED
        at_its_end = replace(restarted, log_end_offset=10)
        assert outcome_of(asked, at_its_end, holding(2, "aborted"), replica(3)) is ClaimState.DISMISSED

    def test_an_undecided_record_on_the_accused_is_pending(self) -> None:
        behind = replica(2, last_stable_offset=5)
        assert outcome_of(self.a2c, holding(1, "aborted"), behind) is ClaimState.PENDING

    def test_the_aborted_list_tells_of_a_hidden_record_that_was_cleaned(self) -> None:
        recorded = replace(self.c2a, recorded=RecordedByViews(outcomes={1: "committed", 3: "committed"}))
        listed = replica(2, aborted=((PRODUCER, 10),))
        got = decide(recorded, answers(replica(1, aborted=((PRODUCER, 63),)), listed, replica(3)), live_only=True)
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.COMMITTED_RECORD_ABORTED)

    def test_the_aborted_list_of_a_later_transaction_tells_nothing(self) -> None:
        recorded = replace(self.c2a, recorded=RecordedByViews(outcomes={1: "committed"}))
        assert (
            outcome_of(recorded, replica(1), replica(2, aborted=((PRODUCER, 63),)), live_only=True)
            is ClaimState.DISMISSED
        )

    @pytest.mark.parametrize(
        "instead",
        [{"markers": (marker(10),)}, {"uncommitted": {10: record(producer_id=PRODUCER + 1)}}],
        ids=["an end marker", "another producer's record"],
    )
    def test_the_aborted_list_of_a_log_that_holds_something_else_there_tells_nothing(
        self, instead: dict[str, Any]
    ) -> None:
        recorded = replace(self.c2a, recorded=RecordedByViews(outcomes={1: "committed", 3: "committed"}))
        recorded = replace(recorded, transaction_start_offset=5)
        listed = replica(2, aborted=((PRODUCER, 5),))
        assert outcome_of(recorded, replica(1), listed, replica(3), live_only=True) is ClaimState.CONFIRMED
        replaced = replace(listed, **instead)
        assert outcome_of(recorded, replica(1), replaced, replica(3), live_only=True) is ClaimState.DISMISSED

    def test_an_entry_from_below_tells_nothing_of_a_record_that_is_gone(self) -> None:
        shown = {"offset": 15, "transaction_start_offset": 10, "marker_offset": 16}
        unproven = replace(self.c2a, **shown, recorded=RecordedByViews(end_unproven=True))
        holds = replica(1, committed={15: record(15, "committed")})
        listed = replica(2, aborted=((PRODUCER, 10),))
        assert outcome_of(unproven, holds, listed) is ClaimState.DISMISSED
        assert outcome_of(unproven, holds, replace(listed, aborted=((PRODUCER, 15),))) is ClaimState.CONFIRMED
        assert outcome_of(replace(unproven, recorded=RecordedByViews()), holds, listed) is ClaimState.CONFIRMED

    def test_one_whose_log_is_another_keeps_nobody_else_from_being_a_witness(self) -> None:
        another = replica(1, markers=(marker(10, "commit"),))
        got = decide(self.a2c, answers(another, holding(2, "committed"), holding(3, "aborted")))
        assert (got.verdict, got.sides) == (ClaimState.CONFIRMED, parsed({"aborted": (3,), "committed": (2,)}))

    def test_a_marker_at_another_place_is_of_another_transaction(self) -> None:
        later = replica(1, markers=(marker(30),))
        assert outcome_of(self.a2c, later, holding(2, "committed")) is ClaimState.DISMISSED

    def test_says_who_shows_what_and_of_one_that_only_lists_it_that_it_has_no_record_there(self) -> None:
        got = decide(self.a2c, answers(holding(1, "aborted"), holding(2, "committed"), holding(3, "aborted")))
        assert got.reason == "offset 10 is committed on broker 2 and aborted on brokers 1 and 3"
        got = decide(self.a2c, answers(holding(1, "committed"), replica(2, aborted=((PRODUCER, 10),))))
        assert "broker 2, which lists the transaction and has no record there, and committed on broker 1" in got.reason

    def test_what_was_shown_says_who_showed_what(self) -> None:
        for own, other in (("aborted", "committed"), ("committed", "aborted")):
            c = replace(self.c2a, recorded=RecordedByViews(outcomes={1: other, 2: own}))
            got = decide(c, answers(replica(1), replica(2)))
            assert f"was {own} on broker 2 when it was read, and {other} on broker 1" in got.reason
            assert not decide(c, answers(replica(1), replica(2)), live_only=True).was_shown

    @pytest.mark.parametrize(("markers", "accused"), [({}, NOBODY), ({1: "abort"}, 2), ({1: "commit"}, NOBODY)])
    def test_what_one_that_held_it_open_was_shown_to_do_accuses_it_by_a_known_end_alone(
        self, markers: dict[int, str], accused: int
    ) -> None:
        recorded = RecordedByViews(outcomes={1: "aborted", 2: "committed"}, markers=markers)
        held_open = claim(FindingKind.MARKER_MISSING, recorded=recorded)
        got = decide(held_open, answers(replica(1), replica(2)))
        assert (got.was_shown, got.accused) == (True, accused)
        assert got.sides == parsed({"aborted": (1,), "committed": (2,)})
        assert (got.kind is FindingKind.VISIBILITY_MISMATCH) == (accused == NOBODY)

    @pytest.mark.parametrize(("start", "counts"), [(10, True), (11, False)])
    def test_what_was_shown_below_where_the_log_begins_is_not_reported(self, start: int, counts: bool) -> None:
        c = replace(self.c2a, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted"}))
        assert decide(c, answers(replica(1), replica(2, log_start_offset=start))).was_shown is counts

    @pytest.mark.parametrize(("ends", "counts"), [(30, True), (21, False)], ids=["it stands", "truncated"])
    def test_what_was_shown_by_an_end_that_was_truncated_since_accuses_nobody(self, ends: int, counts: bool) -> None:
        c = replace(self.c2a, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted"}, ends={2: "25:4"}))
        accused = replica(2, epoch_ends={4: ends}, epochs_known=frozenset({4}))
        assert decide(c, answers(replica(1), accused)).was_shown is counts

    @pytest.mark.parametrize(("end", "counts"), [(100, True), (10, False)], ids=["it has just started", "truncated"])
    def test_what_was_read_of_one_that_has_just_started_still_counts(self, end: int, counts: bool) -> None:
        c = replace(self.c2a, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted"}))
        started = replica(1, high_watermark=0, last_stable_offset=0, log_end_offset=end)
        assert decide(c, answers(started, replica(2))).was_shown is counts

    def test_a_key_that_could_not_be_read_is_waited_for_and_does_not_concern_a_record_without_one(self) -> None:
        unread = replica(1, key_error="not authorized")
        keyed = replace(self.c2a, key_hash_lo=7)
        got = decide(keyed, answers(unread, shows(2, None)))
        assert (got.verdict, got.reason) == (ClaimState.PENDING, "not authorized")
        assert outcome_of(self.c2a, unread, replica(2)) is ClaimState.DISMISSED
        assert outcome_of(keyed, replica(1), shows(2, None)) is ClaimState.DISMISSED

    def test_a_log_that_was_not_read_as_a_whole_is_waited_for(self) -> None:
        partly = shows(2, None, complete=False)
        keyed = replace(self.c2a, key_hash_lo=7)
        assert decide(keyed, answers(shows(1, None), partly)).reason == "the log of broker 2 was not read as a whole"
        refused = replace(partly, key_error="not authorized")
        assert decide(keyed, answers(shows(1, None), refused)).reason == "not authorized"

    @pytest.mark.parametrize(("start", "found"), [(10, ClaimState.PENDING), (11, ClaimState.DISMISSED)])
    def test_values_are_compared_with_replicas_that_are_away_unless_retention_took_the_record(
        self, start: int, found: ClaimState
    ) -> None:
        c = replace(self.c2a, key_hash_lo=7)
        assert outcome_of(c, silent(1), shows(2, None, log_start_offset=start), live_only=True) is found

    @pytest.mark.parametrize(
        ("kind", "recorded", "wanted"),
        [
            (FindingKind.MARKER_MISSING, "committed", FindingKind.ABORTED_RECORD_COMMITTED),
            (FindingKind.MARKER_MISSING, "aborted", FindingKind.COMMITTED_RECORD_ABORTED),
            (FindingKind.ABORTED_RECORD_COMMITTED, None, FindingKind.ABORTED_RECORD_COMMITTED),
            (FindingKind.COMMITTED_RECORD_ABORTED, None, FindingKind.COMMITTED_RECORD_ABORTED),
        ],
    )
    def test_a_finding_that_the_values_prove_is_of_the_outcome_that_was_read(
        self, kind: FindingKind, recorded: str | None, wanted: FindingKind
    ) -> None:
        read = {} if recorded is None else {2: recorded}
        c = claim(kind, key_hash_lo=7, recorded=RecordedByViews(outcomes=read))
        own = replace(record(c.offset), producer_id=c.producer_id, outcome="committed")
        is_committed = wanted is FindingKind.ABORTED_RECORD_COMMITTED
        wrong, right = (own, record(5)) if is_committed else (record(5), own)
        got = decide(c, answers(shows(1, None), shows(2, wrong)), live_only=True)
        sides = parsed({"a value": (2,), "no value": (1,)})
        assert (got.verdict, got.kind, got.sides) == (ClaimState.CONFIRMED, wanted, sides)
        assert got.reason == f"broker 2 shows a live value at offset {wrong.offset}, broker 1 none for that key"
        # Whoever shows none lacks what is right.
        got = decide(c, answers(shows(1, None), shows(2, right)), live_only=True)
        assert got.verdict is ClaimState.DISMISSED

    @pytest.mark.parametrize(("offset", "found"), [(9, ClaimState.DISMISSED), (10, ClaimState.CONFIRMED)])
    def test_a_value_older_than_the_transaction_says_nothing_against_one_that_has_aborted_it(
        self, offset: int, found: ClaimState
    ) -> None:
        c = replace(self.c2a, key_hash_lo=7)
        assert outcome_of(c, shows(1, record(offset)), shows(2, None), live_only=True) is found
        both = shows(1, record(9)), shows(3, record(offset))
        assert outcome_of(c, both[0], shows(2, None), both[1], live_only=True) is found

    def test_a_log_that_was_replaced_has_not_healed_while_the_key_differs_otherwise(self) -> None:
        c = replace(self.c2a, key_hash_lo=7)
        replaced = replace(answers(shows(1, record(9)), shows(2, None)), recreated=True)
        assert decide(c, replaced, live_only=True).resolution is Resolution.COMPACTED
        healed = replace(answers(shows(1, None), shows(2, None)), recreated=True)
        assert decide(c, healed, live_only=True).resolution is not Resolution.COMPACTED

    def test_a_missing_marker_alone_makes_no_wrong_outcome_of_a_value_that_differs(self) -> None:
        c = claim(FindingKind.MARKER_MISSING, key_hash_lo=7)
        got = decide(c, answers(shows(1, None), shows(2, record(5))), live_only=True)
        assert got.verdict is ClaimState.DISMISSED

    def test_a_value_that_was_written_behind_the_end_marker_is_of_no_concern(self) -> None:
        c = claim(
            FindingKind.ABORTED_RECORD_COMMITTED, key_hash_lo=7, recorded=RecordedByViews(outcomes={2: "committed"})
        )
        for offset, found in ((19, ClaimState.CONFIRMED), (21, ClaimState.DISMISSED)):
            assert outcome_of(c, shows(1, record(offset)), shows(2, None), live_only=True) is found
            own = replace(record(offset), producer_id=c.producer_id, outcome="committed")
            assert outcome_of(c, shows(1, None), shows(2, own), live_only=True) is found
        unproven = replace(c, recorded=RecordedByViews(outcomes={2: "committed"}, end_unproven=True))
        for offset, found in ((19, ClaimState.CONFIRMED), (21, ClaimState.DISMISSED)):
            assert outcome_of(unproven, shows(1, record(offset)), shows(2, None)) is found
        unknown = replace(c, marker_offset=-1)
        assert outcome_of(unknown, shows(1, record(21)), shows(2, None), live_only=True) is ClaimState.CONFIRMED

    def test_who_shows_the_rolled_back_value_says_nothing_against_one_that_was_put_right(self) -> None:
        c = claim(
            FindingKind.ABORTED_RECORD_COMMITTED, key_hash_lo=7, recorded=RecordedByViews(outcomes={2: "committed"})
        )
        for producer, found in ((c.producer_id, ClaimState.DISMISSED), (c.producer_id + 1, ClaimState.CONFIRMED)):
            value = replace(record(c.offset), producer_id=producer, outcome="committed")
            assert outcome_of(c, shows(1, None), shows(2, None), shows(3, value), live_only=True) is found

    def test_a_value_behind_the_end_marker_on_one_hides_no_older_one_that_another_shows(self) -> None:
        c = claim(
            FindingKind.ABORTED_RECORD_COMMITTED, key_hash_lo=7, recorded=RecordedByViews(outcomes={2: "committed"})
        )
        newer, older = shows(1, record(21)), shows(3, record(5))
        assert outcome_of(c, newer, shows(2, None), older, live_only=True) is ClaimState.CONFIRMED

    def test_a_value_that_the_accused_lacks_since_its_log_was_cut_accuses_nobody(self) -> None:
        recorded = RecordedByViews(outcomes={2: "committed"}, ends={2: "22:3"})
        c = claim(FindingKind.ABORTED_RECORD_COMMITTED, key_hash_lo=7, recorded=recorded, confirmed_at_ms=1)
        for end, accused in ((30, 2), (15, NOBODY)):
            lacking = replace(shows(2, None), epoch_ends={3: end}, epochs_known=frozenset({3}))
            got = decide(c, answers(shows(1, None), lacking, shows(3, record(5))), live_only=True)
            assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, accused)
            assert got.proof_truncated is (accused == NOBODY)

    def test_a_suspect_that_a_value_gives_no_direction_waits_for_the_outcome(self) -> None:
        c = replace(self.c2a, key_hash_lo=7, recorded=RecordedByViews(outcomes={2: "aborted"}))
        got = decide(c, answers(shows(1, record(10)), shows(2, None)))
        assert (got.accused, got.lone_witness) == (NOBODY, True)
        assert got.reason == "broker 1 shows a live value, broker 2 none for that key"

    def test_a_value_without_a_read_outcome_of_the_accused_is_waited_for_only_if_it_is_behind(
        self,
    ) -> None:
        c = replace(self.c2a, key_hash_lo=7)
        for key, stable, after, found in (
            (15, 100, 100, ClaimState.DISMISSED),
            (15, 100, 101, ClaimState.PENDING),
            (15, 16, 101, ClaimState.PENDING),
            (15, 15, 101, ClaimState.DISMISSED),
            (21, 100, 101, ClaimState.DISMISSED),  # It was written behind the transaction's end marker.
        ):
            lacking = shows(1, None, last_stable_offset=stable, stable_after=after)
            assert outcome_of(c, lacking, shows(2, record(key))) is found

    def test_a_finding_is_over_where_another_leader_has_ended_it_so_at_the_same_offset(self) -> None:
        c = replace(self.c2a, confirmed_at_ms=1, recorded=RecordedByViews(markers={1: "commit"}, leader_epoch=3))
        frozen = replica(1, last_stable_offset=5, epoch_ends={3: 20})
        for end, epoch_end, is_over in (("abort", 20, True), ("abort", 15, False), ("commit", 20, False)):
            held = replace(marker(20, end), leader_epoch=4)
            accused = holding(2, "aborted", markers=(held,), epoch_ends={3: epoch_end})
            got = decide(c, answers(accused, frozen), live_only=True)
            assert (got.verdict is ClaimState.DISMISSED) is is_over, got
            assert not is_over or got.resolution is Resolution.UNPROVEN

    def test_two_recorded_outcomes_are_reported_as_over_when_the_accused_lacks_the_record(self) -> None:
        # Its log may have been replaced since by one that is right, and nothing that it shows is wrong.
        recorded = replace(self.c2a, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted", 3: "committed"}))
        got = decide(recorded, answers(replica(1), replica(2), replica(3)))
        assert verdict(got) == (ClaimState.DISMISSED, FindingKind.COMMITTED_RECORD_ABORTED)
        assert (got.was_shown, got.resolution) == (True, Resolution.COMPACTED)
        assert got.sides == parsed({"aborted": (2,), "committed": (1, 3)})
        assert "was aborted on broker 2 when it was read" in got.reason

    def test_the_value_of_the_key_gives_a_suspect_no_direction(self) -> None:
        recorded = replace(self.c2a, key_hash_lo=7, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted"}))
        given = (shows(1, record(10)), shows(2, None), shows(3, None))
        got = decide(recorded, answers(*given))
        assert (*verdict(got), got.accused) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH, NOBODY)
        unread = replace(recorded, recorded=RecordedByViews(markers={1: "commit"}))
        assert outcome_of(unread, *given) is ClaimState.DISMISSED
        freed = replace(recorded, freed=True)
        assert decide(freed, answers(*given), live_only=True).accused == NOBODY

    def test_what_was_recorded_of_the_accused_keeps_no_finding_open(self) -> None:
        recorded = replace(self.c2a, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted", 3: "committed"}))
        assert outcome_of(recorded, replica(1), replica(2), replica(3), live_only=True) is ClaimState.DISMISSED

    def test_recorded_markers_alone_do_not_convict_an_accused_that_holds_nothing(self) -> None:
        # Read late, a healthy replica can look as if the producer's next marker had ended the transaction.
        recorded = replace(self.a2c, recorded=RecordedByViews(markers={1: "abort", 2: "commit", 3: "abort"}))
        assert outcome_of(recorded, replica(1), replica(2), replica(3)) is ClaimState.DISMISSED

    def test_a_hidden_tombstone_that_was_cleaned_still_shows_by_the_value_it_should_have_deleted(self) -> None:
        c = replace(self.c2a, key_hash_lo=7, recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted"}))
        got = decide(c, answers(shows(1, None), shows(2, record(3)), shows(3, None)), live_only=True)
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.COMMITTED_RECORD_ABORTED)

    def test_a_value_whose_deletion_its_replica_may_not_have_decided_yet_ends_no_finding(self) -> None:
        c = claim(FindingKind.COMMITTED_RECORD_ABORTED, key_hash_lo=7)
        deleted = replica(1, key=KeyShown(None, True, 50))
        for stable, found in ((100, ClaimState.CONFIRMED), (50, ClaimState.PENDING)):
            accused = shows(2, record(5), last_stable_offset=stable)
            assert outcome_of(c, deleted, accused, live_only=True) is found
        same = shows(1, record(50, value_size=5))
        assert outcome_of(c, same, accused, live_only=True) is ClaimState.DISMISSED
        above = replica(1, key=KeyShown(None, True, 50), log_start_offset=6)
        assert outcome_of(c, above, accused, live_only=True) is ClaimState.DISMISSED
        assert outcome_of(c, deleted, accused) is ClaimState.PENDING, "nor a suspect"

    def test_a_value_written_after_the_others_were_asked_proves_nothing(self) -> None:
        c = replace(self.c2a, key_hash_lo=7)
        fresh = shows(2, record(100), high_watermark=101, last_stable_offset=101)
        assert outcome_of(c, shows(1, None), fresh, shows(3, None), live_only=True) is ClaimState.DISMISSED


class TestAValueThatAWrongOutcomeHasTaken:
    """Broker 2 showed a rolled-back deletion at offset 10 as committed, and lacked the value of offset 4 for it."""

    c = claim(
        FindingKind.ABORTED_RECORD_COMMITTED,
        key_hash_lo=1,
        marker_offset=11,
        recorded=RecordedByViews(outcomes={2: "committed"}, markers={1: "abort", 3: "abort"}, lacks=4),
    )

    def becomes(self, first: RecordShown | None, *others: RecordShown | None) -> Resolution:
        """What becomes of the finding once no replica holds the deletion; brokers 1, 2 and 3 show these records."""
        shown = (shows(broker, one) for broker, one in enumerate((first, *others), start=1))
        return decide(self.c, answers(*shown), live_only=True).resolution

    def test_is_lost_where_no_replica_shows_it(self) -> None:
        assert self.becomes(None, None, None) is Resolution.AGREED

    def test_is_lost_also_where_one_shows_a_newer_deletion_that_may_be_rolled_back_too(self) -> None:
        deletion = record(16, "committed", producer_id=PRODUCER + 1, value_size=-1)
        assert self.becomes(deletion, None, None) is Resolution.AGREED
        assert self.becomes(deletion, deletion, None) is Resolution.AGREED
        assert self.becomes(deletion, deletion, deletion) is Resolution.COMPACTED

    def test_is_lost_no_more_where_one_shows_a_newer_deletion_of_no_transaction(self) -> None:
        assert self.becomes(record(16, value_size=-1), None, None) is Resolution.COMPACTED


NEWER = newest(30)


class TestHiddenNoMore:
    """Broker 2 hides a committed record that the others have cleaned; all show a newer one of its key."""

    c = claim(
        FindingKind.COMMITTED_RECORD_ABORTED,
        key_hash_lo=7,
        recorded=RecordedByViews(outcomes={1: "committed"}, markers={1: "commit", 3: "commit"}),
    )

    def held(self, broker: int, newer: KeyShown | None = NEWER, **fields: Any) -> ReplicaAnswer:
        listed = ((PRODUCER, 10),) if broker == 2 else ()
        return replica(broker, aborted=listed, key=newer, **({"asked_uncommitted": frozenset({10})} | fields))

    def all_but(self, *others: ReplicaAnswer) -> Decision:
        """Decide on the finding where some replicas answer otherwise."""
        given = {b: self.held(b) for b in (1, 2, 3)} | {one.broker: one for one in others}
        return decide(self.c, answers(*given.values()), live_only=True)

    def test_a_finding_is_over_where_all_show_the_same_newer_record(self) -> None:
        for newer in (newest(30), newest(30, value_size=-1), newest(11)):
            got = self.all_but(*(self.held(b, newer) for b in (1, 2, 3)))
            assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.COMPACTED)
            assert not got.was_shown
        said = resolved(self.c, self.all_but(), answers()).text
        assert said == (
            "Broker 2 hid the committed record at offset 10 of orders-0 as aborted. Not healed: no replica held offset "
            "10 any more, and all showed the newer record of its key at offset 30. Consumers that read it there in "
            "read_committed could never see data that was committed."
        )

    def test_a_finding_that_had_spread_is_superseded(self) -> None:
        given = answers(*(self.held(b) for b in (1, 2, 3)))
        got = decide(replace(self.c, spread=True), given, live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.SUPERSEDED)

    def test_so_it_is_where_broker_2_alone_holds_the_record_and_hides_it(self) -> None:
        got = self.all_but(self.held(2, uncommitted={10: record()}))
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.COMPACTED)
        assert got.reason.startswith("only broker 2 holds offset 10 any more, and all show the newer record of its key")

    @pytest.mark.parametrize("broker", [1, 3])
    def test_a_finding_stays_open_where_another_replica_holds_the_record_or_was_not_asked(self, broker: int) -> None:
        for otherwise in ({"uncommitted": {10: record()}}, {"asked_uncommitted": frozenset()}):
            assert self.all_but(self.held(broker, **otherwise)).verdict is ClaimState.CONFIRMED

    @pytest.mark.parametrize(
        "otherwise",
        [
            {"newer": newest(31)},
            {"newer": newest(10)},
            {"newer": NOTHING},
            {"newer": KeyShown(record(30), False, 30)},
            {"newer": None},
        ],
        ids=["another", "none newer", "nothing", "not all read", "not asked"],
    )
    @pytest.mark.parametrize("broker", [2, 3])
    def test_a_finding_stays_open_where_one_replica_shows_otherwise(
        self, broker: int, otherwise: dict[str, Any]
    ) -> None:
        assert self.all_but(self.held(broker, **otherwise)).verdict is ClaimState.CONFIRMED

    def test_a_finding_has_spread_where_the_record_of_the_key_that_all_show_is_older(self) -> None:
        assert self.all_but(*(self.held(b, newest(9)) for b in (1, 2, 3))).has_spread

    def test_a_finding_stays_open_while_one_replica_is_away(self) -> None:
        assert self.all_but(silent(3)).verdict is ClaimState.CONFIRMED

    def test_a_finding_stays_open_where_the_end_that_bounds_its_transaction_is_not_known(self) -> None:
        given = answers(*(self.held(b) for b in (1, 2, 3)))
        assert decide(replace(self.c, marker_offset=-1), given, live_only=True).verdict is ClaimState.CONFIRMED

    def test_a_suspect_is_a_finding_that_is_over(self) -> None:
        got = decide(self.c, answers(*(self.held(b) for b in (1, 2, 3))))
        assert (got.verdict, got.was_shown, got.accused) == (ClaimState.DISMISSED, True, 2)
        assert (got.kind, got.resolution) == (FindingKind.COMMITTED_RECORD_ABORTED, Resolution.COMPACTED)
        assert got.sides == parsed({"aborted": (2,), "committed": (1, 3)})

    def test_one_that_only_held_it_open_is_not_accused_where_the_markers_that_were_read_differ(self) -> None:
        held_open = replace(self.c, kind=FindingKind.MARKER_MISSING)
        given = answers(*(self.held(b) for b in (1, 2, 3)))
        assert decide(held_open, given).was_shown
        disputed = replace(held_open, recorded=replace(self.c.recorded, markers={1: "commit", 3: "abort"}))
        got = decide(disputed, given)
        assert (got.verdict, got.was_shown, got.accused) == (ClaimState.DISMISSED, False, NOBODY)


class TestUnlikeOutcomes:
    """The comparison saw two outcomes of one record and no end marker that says which is right."""

    c = claim(
        FindingKind.VISIBILITY_MISMATCH,
        marker_offset=-1,
        key_hash_lo=7,
        recorded=RecordedByViews(outcomes={1: "aborted", 2: "committed", 3: "aborted"}),
    )
    UNDIRECTED = (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)

    def test_the_value_of_the_key_tells_where_the_record_is_gone(self) -> None:
        c = replace(self.c, key_hash_lo=7)
        value = record(10, "committed")
        held = {"committed": {10: value}, "asked": frozenset({10})}
        for given, sides in (
            ([shows(1, value, **held), shows(2, None), shows(3, value, **held)], {"a value": (1, 3), "no value": (2,)}),
            ([shows(1, None), shows(2, value, **held), shows(3, value, **held)], {"a value": (2, 3), "no value": (1,)}),
        ):
            got = decide(c, answers(*given), live_only=True)
            assert (got.verdict, got.accused, got.sides) == (ClaimState.CONFIRMED, NOBODY, parsed(sides))
        assert outcome_of(c, *(shows(b, None) for b in (1, 2, 3)), live_only=True) is ClaimState.DISMISSED

    @pytest.mark.parametrize(("start", "counts"), [(10, True), (11, False)])
    def test_what_one_had_shown_below_where_its_log_begins_counts_no_longer(self, start: int, counts: bool) -> None:
        given = answers(holding(1, "aborted"), replica(2, log_start_offset=start), replica(3))
        assert decide(self.c, given).was_shown is counts

    @pytest.mark.parametrize(("epochs", "counts"), [({4}, True), (set(), False)])
    def test_what_one_had_shown_in_an_epoch_that_its_log_does_not_know_any_more_was_truncated(
        self, epochs: set[int], counts: bool
    ) -> None:
        c = replace(self.c, recorded=replace(self.c.recorded, ends={2: "20:4"}))
        accused = replica(2, epoch_ends={4: 30}, epochs_known=frozenset(epochs))
        assert decide(c, answers(holding(1, "aborted"), accused, replica(3))).was_shown is counts

    @pytest.mark.parametrize(("end", "counts"), [(21, True), (20, False)], ids=["it stands", "another leader wrote"])
    def test_what_was_shown_in_a_replaced_log_counts_no_longer_though_it_is_not_truncated_yet(
        self, end: int, counts: bool
    ) -> None:
        c = replace(
            self.c, recorded=replace(self.c.recorded, outcomes={1: "aborted", 2: "committed"}, ends={2: "20:4"})
        )
        leader = holding(1, "aborted", epoch_ends={4: end}, epochs_known=frozenset({4}))
        started = replica(2, high_watermark=0, last_stable_offset=0, epoch_ends={4: 100}, epochs_known=frozenset({4}))
        asked_last = replace(c, broker=NOBODY, recorded=replace(c.recorded, pivot=1))
        assert decide(asked_last, answers(leader, started)).was_shown is counts
        assert (
            decide(c, answers(leader, replica(2, epoch_ends={4: 100}, epochs_known=frozenset({4})))).was_shown is counts
        )

    def test_a_suspect_that_a_finding_had_explained_is_over_where_only_newer_values_differ(self) -> None:
        newer = answers(shows(1, record(60)), shows(2, record(60)), shows(3, record(61)))
        asked = replace(self.c.recorded, pivot=1)
        c = replace(self.c, broker=NOBODY, key_hash_lo=7, rule=Rule.OUTCOME, recorded=asked)
        assert decide(c, newer, live_only=True).verdict is ClaimState.CONFIRMED
        assert decide(replace(c, freed=True), newer, live_only=True).verdict is ClaimState.DISMISSED

    def test_an_older_value_is_a_difference_once_its_replica_has_decided_all_that_the_others_have(self) -> None:
        old = record(5)
        for stable, found in (
            (10, ClaimState.DISMISSED),
            (11, ClaimState.PENDING),
            (99, ClaimState.PENDING),
            (100, ClaimState.CONFIRMED),
        ):
            older = shows(1, old, last_stable_offset=stable)
            assert outcome_of(self.c, older, shows(2, None), shows(3, None), live_only=True) is found

    @pytest.mark.parametrize(("stable", "after"), [(100, 101), (100, -1), (90, 100), (90, 101)])
    def test_what_the_cleaner_took_while_it_was_asked_is_waited_for(self, stable: int, after: int) -> None:
        found = ClaimState.PENDING if after > 100 else ClaimState.CONFIRMED
        older = shows(1, record(5))
        lacking = [shows(b, None, last_stable_offset=stable, stable_after=after) for b in (2, 3)]
        assert outcome_of(self.c, older, *lacking, live_only=True) is found
        asked_last = replace(self.c, broker=NOBODY, recorded=replace(self.c.recorded, pivot=1))
        assert decide(asked_last, answers(older, *lacking), live_only=True).verdict is found
        if found is ClaimState.PENDING:
            assert "brokers 2 and 3 lack" in decide(asked_last, answers(older, *lacking), live_only=True).reason

    def test_nor_does_what_one_lists_that_has_not_decided_it(self) -> None:
        undecided = replica(1, last_stable_offset=10, aborted=((PRODUCER, 10),))
        assert (
            outcome_of(replace(self.c, recorded=RecordedByViews()), undecided, holding(2, "committed"))
            is ClaimState.PENDING
        )

    def test_what_one_had_shown_counts_for_nothing_once_it_cannot_be_asked_or_has_not_decided_it(self) -> None:
        accused = holding(2, "committed")
        assert outcome_of(self.c, silent(1), accused, silent(3)) is ClaimState.PENDING
        undecided = [replica(b, last_stable_offset=10) for b in (1, 3)]
        assert outcome_of(self.c, undecided[0], accused, undecided[1]) is ClaimState.PENDING
        assert decide(self.c, answers(replica(1), accused, replica(3))).was_shown

    def test_live_answers_that_differ_confirm_the_difference_and_no_direction(self) -> None:
        got = decide(self.c, answers(holding(1, "aborted"), holding(2, "committed"), holding(3, "aborted")))
        assert verdict(got) == self.UNDIRECTED
        assert "no end marker" in got.reason

    @pytest.mark.parametrize("live_only", [False, True])
    def test_two_that_differ_stay_a_difference_though_the_one_asked_last_lacks_the_record(
        self, live_only: bool
    ) -> None:
        left = [holding(1, "aborted"), shows(2, None), holding(3, "committed")]
        got = decide(self.c, answers(*left), live_only=live_only)
        assert verdict(got) == self.UNDIRECTED
        # Of a suspect what the one asked last was read to show counts as well.
        assert (got.accused, got.sides) == (
            NOBODY,
            parsed({"aborted": (1,), "committed": (3,) if live_only else (2, 3)}),
        )
        alike = [left[0], left[1], holding(3, "aborted")]
        assert decide(self.c, answers(*alike), live_only=True).verdict is ClaimState.DISMISSED

    def test_a_finding_waits_no_longer_once_all_logs_end_at_the_record_or_below(self) -> None:
        short = [replica(b, end=10) for b in (1, 2, 3)]
        assert outcome_of(self.c, *short, live_only=True) is ClaimState.DISMISSED
        assert outcome_of(self.c, *short[:2], replica(3, end=11), live_only=True) is ClaimState.PENDING
        assert outcome_of(self.c, *short[:2], silent(3), live_only=True) is ClaimState.PENDING
        assert outcome_of(self.c, *short) is ClaimState.PENDING, "readers may have come to it before"

    def test_a_finding_waits_no_longer_once_the_end_marker_that_had_decided_the_record_is_cut(self) -> None:
        c = replace(self.c, recorded=replace(self.c.recorded, ends={2: "20:4"}))

        def undecided(broker: int, epoch_end: int = 15) -> ReplicaAnswer:
            return replica(broker, last_stable_offset=10, epoch_ends={4: epoch_end}, epochs_known=frozenset({4}))

        cut = [undecided(b) for b in (1, 2, 3)]
        got = decide(c, answers(*cut), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        assert outcome_of(c, *cut) is ClaimState.PENDING, "what it was read to show may differ from what comes"
        assert outcome_of(c, *(undecided(b, 21) for b in (1, 2, 3)), live_only=True) is ClaimState.PENDING
        assert outcome_of(c, *cut[:2], silent(3), live_only=True) is ClaimState.PENDING
        others = [holding(b, outcome, epoch_ends={4: 15}) for b, outcome in ((1, "aborted"), (3, "committed"))]
        assert outcome_of(c, cut[1], *others, live_only=True) is ClaimState.PENDING, "the others differ"

    def test_where_none_has_decided_the_record_any_more_values_below_it_differ_with_sides(self) -> None:
        c = replace(self.c, broker=NOBODY, recorded=replace(self.c.recorded, ends={2: "20:4"}, pivot=2))
        fields: dict[str, Any] = {"last_stable_offset": 10, "epoch_ends": {4: 15}}
        got = decide(c, answers(shows(1, record(5), **fields), shows(2, None, **fields)), live_only=True)
        assert verdict(got) == self.UNDIRECTED
        assert got.sides == parsed({"value at offset 5": (1,), "no value": (2,)})

    def test_what_another_log_shows_is_no_difference_once_the_one_asked_last_lacks_it(self) -> None:
        other = holding(3, "committed", markers=(marker(10, "commit"),))
        left = answers(holding(1, "aborted"), replica(2), other)
        assert decide(self.c, left, live_only=True).verdict is ClaimState.DISMISSED

    def test_recorded_outcomes_are_reported_as_over_where_no_replica_holds_the_record(self) -> None:
        got = decide(self.c, answers(replica(1), replica(2), replica(3)))
        assert verdict(got) == (ClaimState.DISMISSED, FindingKind.VISIBILITY_MISMATCH)
        assert got.was_shown
        assert got.sides == parsed({"aborted": (1, 3), "committed": (2,)})

    def test_recorded_outcomes_are_over_too_where_all_that_hold_the_record_show_it_alike(self) -> None:
        got = decide(self.c, answers(holding(1, "aborted"), replica(2), replica(3)))
        assert (got.verdict, got.was_shown) == (ClaimState.DISMISSED, True)
        assert got.sides == parsed({"aborted": (1, 3), "committed": (2,)})

    def test_one_that_is_away_may_show_the_record_otherwise_still(self) -> None:
        c = replace(self.c, recorded=RecordedByViews(outcomes={1: "aborted", 2: "committed", 3: "committed"}))
        assert outcome_of(c, holding(1, "aborted"), replica(2), silent(3)) is ClaimState.PENDING

    def test_a_value_that_one_shows_by_now_and_another_does_not_is_a_difference_all_the_same(self) -> None:
        held = {"committed": {10: record(10, "aborted")}, "asked": frozenset({10})}
        old = record(5)
        got = decide(self.c, answers(shows(1, old, **held), shows(2, None), shows(3, old, **held)))
        assert verdict(got) == self.UNDIRECTED
        assert got.sides == parsed({"a value": (1, 3), "no value": (2,)})

    def test_outcomes_that_differ_now_are_named_before_the_values_that_differ_by_them(self) -> None:
        held = {"asked": frozenset({10})}
        aborted = shows(1, None, committed={10: record(outcome="aborted")}, **held)
        committed = shows(2, record(10), committed={10: record(outcome="committed")}, **held)
        got = decide(self.c, answers(aborted, committed, silent(3)))
        assert (got.accused, got.sides) == (NOBODY, parsed({"aborted": (1,), "committed": (2,)}))
        assert "offset 10 is committed on broker 2 and aborted on broker 1" in got.reason

    @pytest.mark.parametrize("stable", [10, 11])
    def test_one_that_has_not_decided_the_record_is_on_neither_side_of_a_value(self, stable: int) -> None:
        third = shows(3, None, last_stable_offset=stable)
        got = decide(self.c, answers(shows(1, None), shows(2, record(5)), third, replica(4)), live_only=True)
        assert got.sides == parsed({"a value": (2,), "no value": (1,) if stable == 10 else (1, 3)})

    @pytest.mark.parametrize(
        ("accused", "differs"),
        [
            (shows(2, None), True),
            (shows(2, record(39, value_size=-1)), True),
            (shows(2, record(40, value_size=-1)), True),
            (shows(2, record(41, value_size=-1)), False),
            (shows(2, None, complete=False), False),
            (shows(2, None, log_start_offset=40), True),
            (shows(2, None, log_start_offset=41), False),
            (shows(2, None, last_stable_offset=40), False),
            (shows(2, None, last_stable_offset=41), True),
        ],
    )
    def test_an_accused_lacks_a_value_that_lies_in_its_log_and_that_nothing_above_it_explains(
        self, accused: ReplicaAnswer, differs: bool
    ) -> None:
        got = decide(self.c, answers(shows(1, record(40)), accused), live_only=True)
        assert (got.verdict is ClaimState.CONFIRMED) is differs

    def test_what_was_recorded_does_not_keep_it_open(self) -> None:
        got = decide(self.c, answers(replica(1), replica(2), replica(3)), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.COMPACTED)

    def test_live_answers_that_agree_dismiss_it(self) -> None:
        got = decide(self.c, answers(*(holding(b, "aborted") for b in (1, 2, 3))))
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.HEALED)

    def test_what_the_accused_has_not_decided_is_pending(self) -> None:
        behind = replica(2, last_stable_offset=10)
        assert outcome_of(self.c, replica(1), behind, replica(3)) is ClaimState.PENDING
        decided = holding(2, "committed", last_stable_offset=11)
        assert outcome_of(self.c, holding(1, "aborted"), decided, replica(3)) is ClaimState.CONFIRMED

    def test_an_outcome_that_no_other_shows_waits_for_those_that_did_not_answer(self) -> None:
        c = replace(self.c, recorded=RecordedByViews())
        assert outcome_of(c, silent(1), holding(2, "committed"), replica(3)) is ClaimState.PENDING
        assert outcome_of(c, replica(1), holding(2, "committed"), replica(3)) is ClaimState.DISMISSED

    def test_a_value_that_differs_is_judged_by_the_key_where_the_claim_is_about_a_value(self) -> None:
        c = replace(self.c, rule=Rule.LATEST_VALUE)
        got = decide(c, answers(*(shows(b, record(12)) for b in (1, 2, 3))))
        assert got.verdict is ClaimState.DISMISSED
        assert "a value as new" in got.reason


class TestContradiction:
    """A replica shows a record otherwise than the end marker behind it, in its own log."""

    c = claim(FindingKind.OUTCOME_CONTRADICTS_MARKER)

    def shows(self, broker: int, outcome: str, marker: str, **fields: Any) -> ReplicaAnswer:
        return holding(broker, outcome, markers=(MarkerShown(20, PRODUCER, marker),), **fields)

    def test_needs_no_other_replica(self) -> None:
        for outcome, end in (("committed", "abort"), ("aborted", "commit")):
            got = decide(self.c, answers(silent(1), self.shows(2, outcome, end), silent(3)))
            assert (got.verdict, got.kind, got.accused) == (
                ClaimState.CONFIRMED,
                FindingKind.OUTCOME_CONTRADICTS_MARKER,
                2,
            )

    def test_holds_though_all_have_lost_their_index(self) -> None:
        got = decide(self.c, answers(*(self.shows(b, "committed", "abort") for b in (1, 2, 3))))
        assert (got.verdict, got.accused, got.sides) == (ClaimState.CONFIRMED, 2, parsed({"committed": (1, 2, 3)}))

    def test_stands_where_the_cleaner_took_the_marker_and_left_the_record(self) -> None:
        shown = {19: record(offset=19, outcome="committed")}
        accused = replica(2, committed=shown, uncommitted=shown)
        recorded = RecordedByViews(outcomes={2: "committed"}, markers={2: "abort", 1: "abort"}, leader_epoch=3)
        direct = replace(self.c, offset=19, recorded=recorded)
        got = decide(direct, answers(replica(1), accused), live_only=True)
        assert (got.verdict, got.kind) == (ClaimState.CONFIRMED, FindingKind.ABORTED_RECORD_COMMITTED)
        assert (got.accused, got.sides) == (2, parsed({"committed": (2,)})), (
            "1 shows neither the record nor the marker now"
        )
        # Further up, the marker may be of a later transaction; and one of a log that was truncated is no witness.
        further = replace(direct, offset=18, transaction_start_offset=18)
        at_18 = {18: record(offset=18, outcome="committed")}
        assert decide(further, answers(replica(1), replica(2, committed=at_18))).verdict is ClaimState.DISMISSED
        truncated = replace(accused, epoch_ends={3: 20})
        assert decide(direct, answers(replica(1), truncated), live_only=True).verdict is not ClaimState.CONFIRMED

    def test_of_one_that_was_started_again_waits_until_it_shows_the_marker(self) -> None:
        for stable, found in ((20, ClaimState.PENDING), (21, ClaimState.DISMISSED)):
            started = replica(2, high_watermark=stable, last_stable_offset=stable)
            assert outcome_of(self.c, started, live_only=True) is found

    def test_is_over_once_the_replica_shows_what_its_marker_says(self) -> None:
        for outcome, end in (("aborted", "abort"), ("committed", "commit")):
            assert outcome_of(self.c, self.shows(2, outcome, end)) is ClaimState.DISMISSED

    RECORDED = RecordedByViews(outcomes={2: "committed"}, markers={2: "abort"})

    def lacking(
        self, held: bool, others_value: RecordShown | None, recorded: RecordedByViews = RECORDED, **others: Any
    ) -> Decision:
        """A finding that is checked again: broker 2 shows no value of the key, and the others one, or none."""
        stands = replace(self.c, key_hash_lo=1, confirmed_at_ms=1, recorded=recorded)
        outcome = ended_by(recorded.markers[2])
        shown = {10: record(outcome=outcome)} if held else {}
        marker = (MarkerShown(20, PRODUCER, recorded.markers[2]),) if held else ()
        none, value = KeyShown(None, True, -1), KeyShown(others_value, True, 10)
        accused = replica(2, committed=shown, markers=marker, key=none, asked=frozenset({5, 10}))
        rest = [replica(b, key=value, **others) for b in (1, 3)]
        return decide(stands, answers(rest[0], accused, rest[1]), live_only=True)

    @pytest.mark.parametrize("held", [True, False], ids=["right again", "a deletion, held no more"])
    def test_stands_while_a_value_is_lacking_that_the_cleaner_may_have_taken(self, held: bool) -> None:
        older = record(offset=5, producer_id=-1)
        got = self.lacking(held, older, uncommitted={10: record(value_size=-1)})
        assert (got.verdict, got.kind, got.accused) == (ClaimState.CONFIRMED, self.c.kind, 2)
        assert got.sides == parsed({"a value": (1,), "no value": (2,)})
        assert self.lacking(held, None).verdict is ClaimState.DISMISSED
        for newer in (record(offset=30, producer_id=-1), record(offset=15, producer_id=-1)):
            assert self.lacking(held, newer).verdict is ClaimState.DISMISSED, "a record takes what is older"

    def test_accuses_nobody_of_lacking_an_older_value_once_the_value_that_took_it_is_gone_too(self) -> None:
        got = self.lacking(False, record(offset=5, producer_id=-1))
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.COMPACTED), "deleted since, maybe"
        frozen = self.lacking(False, record(offset=5, producer_id=-1), last_stable_offset=50)
        assert frozen.resolution is Resolution.COMPACTED, "what the others have still to decide accuses it of nothing"

    def test_of_a_committed_transaction_stands_while_its_own_value_is_lacking(self) -> None:
        recorded = RecordedByViews(outcomes={2: "aborted"}, markers={2: "commit"})
        assert self.lacking(False, record(outcome="committed"), recorded).verdict is ClaimState.CONFIRMED
        assert self.lacking(False, record(offset=5, producer_id=-1), recorded).verdict is ClaimState.DISMISSED

    def test_does_not_end_while_another_cannot_say_what_it_shows_of_the_key(self) -> None:
        stands = replace(self.c, key_hash_lo=1, confirmed_at_ms=1, recorded=self.RECORDED)
        right = self.shows(2, "aborted", "abort", key=KeyShown(None, True, 10))
        assert outcome_of(stands, replica(1), right, silent(3), live_only=True) is ClaimState.PENDING
        unread = replica(3, key_error="the log was not read")
        assert outcome_of(stands, replica(1), right, unread, live_only=True) is ClaimState.PENDING

    def test_is_not_proven_by_a_record_that_is_cleaned_for_its_own_marker_may_be_with_it(self) -> None:
        cleaned = replica(2, markers=(marker(),))
        assert outcome_of(self.c, cleaned) is ClaimState.DISMISSED
        assert outcome_of(self.c, holding(2, "committed")) is ClaimState.DISMISSED
        other = holding(2, "committed", markers=(marker(20, "abort", PRODUCER + 1),))
        assert outcome_of(self.c, other) is ClaimState.DISMISSED

    def test_stands_once_found_though_the_end_marker_is_cleaned_while_the_record_is_shown(self) -> None:
        found = replace(self.c, confirmed_at_ms=1, recorded=RecordedByViews(outcomes={2: "committed"}))
        got = decide(found, answers(replica(1), holding(2, "committed")), live_only=True)
        assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, 2)
        got = decide(found, answers(replica(1), holding(2, "aborted")), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.COMPACTED)

    def test_waits_for_a_replica_that_was_started_again_and_shows_nothing_there_yet(self) -> None:
        assert outcome_of(self.c, replica(1), replica(2, last_stable_offset=10)) is ClaimState.PENDING

    @pytest.mark.parametrize(("end", "log_end"), [(19, 20), (19, 100), (20, 100)])
    def test_is_over_once_a_newer_leader_epoch_begins_at_the_marker_or_below(self, end: int, log_end: int) -> None:
        found = replace(self.c, confirmed_at_ms=1, recorded=replace(self.RECORDED, leader_epoch=3))
        fields: dict[str, Any] = {"log_end_offset": log_end, "high_watermark": log_end, "last_stable_offset": log_end}
        cut = holding(2, "committed", epoch_ends={3: end}, **fields)
        got = decide(found, answers(silent(1), cut, silent(3)), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        assert "is not in the current log" in got.reason
        held = replace(cut, epoch_ends={3: 21})
        assert decide(found, answers(silent(1), held, silent(3)), live_only=True).verdict is not ClaimState.DISMISSED

    def test_of_a_truncated_end_marker_is_over_while_nothing_is_decided_in_the_log_of_now(self) -> None:
        found = replace(self.c, key_hash_lo=1, confirmed_at_ms=1, recorded=replace(self.RECORDED, leader_epoch=3))
        held_back = {"last_stable_offset": 10, "epoch_ends": {3: 15}}
        frozen = replica(1, last_stable_offset=5, epoch_ends={3: 15})
        got = decide(found, answers(frozen, replica(2, **held_back)), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)

    def test_of_a_truncated_end_marker_leaves_a_difference_of_outcome_or_value_without_direction(self) -> None:
        found = replace(self.c, key_hash_lo=1, confirmed_at_ms=1, recorded=replace(self.RECORDED, leader_epoch=3))
        cut: dict[str, Any] = {"epoch_ends": {3: 15}}
        got = decide(found, answers(holding(1, "aborted"), holding(2, "committed", **cut)), live_only=True)
        assert (got.verdict, got.kind, got.accused) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH, NOBODY)
        assert got.proof_truncated
        old = self.shows(1, "aborted", "abort")
        assert outcome_of(found, old, holding(2, "committed", **cut), live_only=True) is ClaimState.PENDING
        none, value = KeyShown(None, True, -1), KeyShown(record(offset=5, producer_id=-1), True, 5)
        lacking = replica(2, key=none, asked=frozenset({5, 10}), **cut)
        got = decide(found, answers(replica(1, key=value), lacking), live_only=True)
        assert (got.verdict, got.kind, got.accused) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH, NOBODY)
        assert got.sides == parsed({"a value": (1,), "no value": (2,)})
        above = decide(found, answers(replica(1, key=value), replace(lacking, log_start_offset=11)), live_only=True)
        assert (above.verdict, above.resolution) == (ClaimState.DISMISSED, Resolution.DELETED)
