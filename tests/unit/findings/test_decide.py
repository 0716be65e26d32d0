"""What a probe's answers prove, and above all what they do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.answers import (
    Answers,
    CoordinatorAnswer,
    KeyShown,
    MarkerShown,
    OpenTransaction,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.claim import Claim, Recorded
from parallax.findings.decide import Decision, Resolution, Verdict, decide, named
from parallax.model import FindingKind, Rule

PID = 4000
OPEN = (OpenTransaction(producer_id=PID, start_offset=10),)


def claim(kind: FindingKind, **fields: Any) -> Claim:
    defaults: dict[str, Any] = {
        "suspect_id": "s",
        "rule": Rule.OUTCOME,
        "topic": "orders",
        "partition": 0,
        "broker": 2,
        "offset": 10,
        "producer_id": PID,
        "transaction_start_offset": 10,
        "marker_offset": 20,
    }
    return Claim(kind=kind, **(defaults | fields))


def replica(broker: int, **fields: Any) -> ReplicaAnswer:
    defaults: dict[str, Any] = {
        "high_watermark": 100,
        "last_stable_offset": 100,
        "log_start_offset": 0,
        "log_end_offset": 100,
        "open_transactions": (),
    }
    return ReplicaAnswer(broker=broker, **(defaults | fields))


def silent(broker: int) -> ReplicaAnswer:
    return ReplicaAnswer(broker, error=f"broker {broker}: no answer within 3000 ms")


def answers(*replicas: ReplicaAnswer, **fields: Any) -> Answers:
    return Answers({r.broker: r for r in replicas}, **({"leader": 1} | fields))


def record(offset: int = 10, outcome: str = "none", **fields: Any) -> RecordShown:
    return RecordShown(offset, outcome, **({"value_size": 5, "producer_id": PID} | fields))


def holding(broker: int, outcome: str, **fields: Any) -> ReplicaAnswer:
    return replica(broker, committed={10: record(outcome=outcome)}, asked=frozenset({10}), **fields)


def shows(broker: int, visible: RecordShown | None, *, complete: bool = True, **fields: Any) -> ReplicaAnswer:
    newest = -1 if visible is None else visible.offset
    return replica(broker, key=KeyShown(visible, complete, newest), **fields)


def verdict(decision: Decision) -> tuple[Verdict, FindingKind]:
    return decision.verdict, decision.kind


def outcome_of(c: Claim, *replicas: ReplicaAnswer, **fields: Any) -> Verdict:
    return decide(c, answers(*replicas), **fields).verdict


class TestAnyKind:
    @pytest.mark.parametrize("kind", list(FindingKind))
    def test_stays_pending_while_the_accused_cannot_be_asked(self, kind: FindingKind) -> None:
        assert outcome_of(claim(kind, key_hash_lo=1), replica(1), silent(2), replica(3)) is Verdict.PENDING

    @pytest.mark.parametrize("kind", list(FindingKind))
    def test_is_dismissed_when_its_object_is_gone(self, kind: FindingKind) -> None:
        assert decide(claim(kind), Answers({}, gone="the topic is deleted")).verdict is Verdict.DISMISSED

    @pytest.mark.parametrize("kind", list(FindingKind))
    def test_is_never_confirmed_by_the_accused_alone(self, kind: FindingKind) -> None:
        accused = shows(
            2,
            record(3),
            open_transactions=OPEN,
            last_stable_offset=10,
            uncommitted={10: record()},
            committed={10: record(outcome="committed")},
        )
        for key in (0, 1):
            for lso in (10, 100):
                got = outcome_of(
                    claim(kind, key_hash_lo=key), silent(1), replace(accused, last_stable_offset=lso), silent(3)
                )
                assert got is not Verdict.CONFIRMED


class TestOpenTransaction:
    marker_missing = claim(FindingKind.MARKER_MISSING)
    frozen = claim(FindingKind.READ_COMMITTED_FROZEN, marker_offset=-1)

    def test_open_on_the_accused_only_past_the_marker_is_confirmed(self) -> None:
        got = decide(self.marker_missing, answers(replica(1), replica(2, open_transactions=OPEN), replica(3)))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.MARKER_MISSING)

    def test_a_recorded_marker_is_proof_where_the_others_begin_above_the_transaction(self) -> None:
        accused = replica(2, open_transactions=OPEN)
        trimmed = [replica(b, log_start_offset=40) for b in (1, 3)]
        recorded = replace(self.marker_missing, recorded=Recorded(markers={1: "commit"}))
        assert outcome_of(self.marker_missing, trimmed[0], accused, trimmed[1]) is Verdict.PENDING
        assert outcome_of(recorded, trimmed[0], accused, trimmed[1]) is Verdict.CONFIRMED
        behind = replace(accused, high_watermark=recorded.marker_offset)
        assert outcome_of(recorded, trimmed[0], behind, trimmed[1]) is Verdict.PENDING
        by_itself = replace(recorded, recorded=Recorded(markers={2: "commit"}))
        assert outcome_of(by_itself, trimmed[0], accused, trimmed[1]) is Verdict.PENDING

    def test_those_whose_log_holds_something_else_there_have_not_seen_it_end(self) -> None:
        # After an unclean election: the accused leads, the others have not cut off their logs yet.
        accused = replica(2, open_transactions=OPEN, last_stable_offset=10)
        of_another = {"uncommitted": {10: record(producer_id=PID + 1)}}
        for asked in (self.frozen, self.marker_missing):
            assert outcome_of(asked, replica(1, **of_another), accused, replica(3, **of_another)) is Verdict.PENDING
            assert outcome_of(asked, replica(1), accused, replica(3, **of_another)) is Verdict.CONFIRMED
        recorded = replace(self.marker_missing, recorded=Recorded(markers={1: "commit"}))
        ended = {"markers": (MarkerShown(10, PID, "commit"),)}
        assert outcome_of(recorded, replica(1, **ended), accused, replica(3, **of_another)) is Verdict.PENDING
        trimmed = replica(1, log_start_offset=40)
        assert outcome_of(recorded, trimmed, accused, replica(3, **of_another)) is Verdict.CONFIRMED

    def test_open_on_every_replica_is_a_long_transaction(self) -> None:
        everywhere = [replica(b, open_transactions=OPEN) for b in (1, 2, 3)]
        assert outcome_of(self.marker_missing, *everywhere) is Verdict.DISMISSED
        assert outcome_of(self.frozen, *everywhere) is Verdict.DISMISSED

    def test_open_on_a_second_victim_as_well_is_confirmed(self) -> None:
        got = outcome_of(
            self.marker_missing, replica(1), replica(2, open_transactions=OPEN), replica(3, open_transactions=OPEN)
        )
        assert got is Verdict.CONFIRMED

    def test_an_accused_that_has_not_reached_the_marker_is_pending(self) -> None:
        behind = replica(2, open_transactions=OPEN, high_watermark=20, last_stable_offset=10)
        assert outcome_of(self.marker_missing, replica(1), behind, replica(3)) is Verdict.PENDING

    @pytest.mark.parametrize("marker", [0, 20])
    def test_an_accused_is_past_the_marker_from_the_next_offset_on(self, marker: int) -> None:
        opened = (OpenTransaction(producer_id=PID, start_offset=0),)
        c = replace(self.marker_missing, offset=0, transaction_start_offset=0, marker_offset=marker)
        at, past = (
            replica(2, open_transactions=opened, high_watermark=hw, last_stable_offset=0) for hw in (marker, marker + 1)
        )
        assert outcome_of(c, replica(1), at, replica(3)) is Verdict.PENDING
        assert outcome_of(c, replica(1), past, replica(3)) is Verdict.CONFIRMED

    def test_a_known_marker_decides_although_the_accused_trails_those_that_closed(self) -> None:
        trailing = replica(2, open_transactions=OPEN, high_watermark=21, last_stable_offset=10)
        assert outcome_of(self.marker_missing, replica(1), trailing, replica(3)) is Verdict.CONFIRMED

    def test_a_known_marker_that_is_not_reached_is_no_proof_although_the_accused_leads_those_that_closed(self) -> None:
        closed = replica(1, high_watermark=15)
        ahead = replica(2, open_transactions=OPEN, high_watermark=18, last_stable_offset=10)
        assert outcome_of(self.marker_missing, closed, ahead, closed) is Verdict.PENDING

    def test_without_a_known_marker_one_that_closed_and_is_not_ahead_is_enough(self) -> None:
        level, ahead = replica(1, high_watermark=50), replica(3, high_watermark=200)
        accused = replica(2, open_transactions=OPEN, high_watermark=50, last_stable_offset=10)
        assert outcome_of(self.frozen, level, accused, ahead) is Verdict.CONFIRMED
        assert outcome_of(self.frozen, ahead, accused, ahead) is Verdict.PENDING

    def test_without_a_known_marker_the_accused_must_have_caught_up(self) -> None:
        behind = replica(2, open_transactions=OPEN, high_watermark=99, last_stable_offset=10)
        caught_up = replace(behind, high_watermark=100)
        assert outcome_of(self.frozen, replica(1), behind, replica(3)) is Verdict.PENDING
        assert outcome_of(self.frozen, replica(1), caught_up, replica(3)) is Verdict.CONFIRMED

    def test_others_that_have_not_reached_the_transaction_say_nothing(self) -> None:
        early = replica(1, high_watermark=10)
        accused = replica(2, open_transactions=OPEN, high_watermark=100)
        assert outcome_of(self.marker_missing, early, accused) is Verdict.PENDING

    def test_others_that_do_not_list_producers_say_nothing(self) -> None:
        mute = replica(1, open_transactions=None, open_error="not authorized")
        assert outcome_of(self.marker_missing, mute, replica(2, open_transactions=OPEN)) is Verdict.PENDING

    def test_open_on_all_that_answered_waits_for_those_that_did_not(self) -> None:
        got = outcome_of(
            self.marker_missing, replica(1, open_transactions=OPEN), replica(2, open_transactions=OPEN), silent(3)
        )
        assert got is Verdict.PENDING

    def test_an_accused_that_does_not_list_producers_is_pending(self) -> None:
        mute = replica(2, open_transactions=None, open_error="not authorized")
        assert outcome_of(self.marker_missing, replica(1), mute, replica(3)) is Verdict.PENDING

    def test_another_transaction_of_the_producer_is_not_this_one(self) -> None:
        later = (OpenTransaction(producer_id=PID, start_offset=50),)
        got = outcome_of(self.marker_missing, replica(1), replica(2, open_transactions=later), replica(3))
        assert got is Verdict.DISMISSED

    def test_a_replica_whose_log_starts_above_the_transaction_never_closed_it(self) -> None:
        forgetful = replica(1, log_start_offset=11)
        accused = replica(2, open_transactions=OPEN)
        assert outcome_of(self.marker_missing, forgetful, accused, silent(3)) is Verdict.PENDING
        everyone = answers(forgetful, accused, coordinator=CoordinatorAnswer(PID, "tx", "Ongoing"))
        assert decide(self.marker_missing, everyone).verdict is Verdict.PENDING

    def test_where_no_replica_can_tell_the_coordinator_does(self) -> None:
        forgetful = replica(1, log_start_offset=11)
        ended = CoordinatorAnswer(PID, "tx", "CompleteCommit")
        accused = replica(2, open_transactions=OPEN)
        assert decide(self.marker_missing, answers(forgetful, accused, coordinator=ended)).verdict is Verdict.CONFIRMED
        behind = replica(2, open_transactions=OPEN, high_watermark=99)
        assert decide(self.marker_missing, answers(forgetful, behind, coordinator=ended)).verdict is Verdict.PENDING

    def test_a_replica_may_list_the_transaction_from_its_first_batch_on(self) -> None:
        earlier = (OpenTransaction(producer_id=PID, start_offset=8),)
        later = (OpenTransaction(producer_id=PID, start_offset=12),)
        for listed in (earlier, later):
            accused = replica(2, open_transactions=listed, last_stable_offset=listed[0].start_offset)
            assert outcome_of(self.marker_missing, replica(1), accused) is Verdict.CONFIRMED
            everywhere = [replica(b, open_transactions=listed) for b in (1, 2)]
            assert outcome_of(self.marker_missing, *everywhere) is Verdict.DISMISSED

    def test_a_frozen_claim_about_an_older_transaction_is_set_right(self) -> None:
        c = claim(FindingKind.READ_COMMITTED_FROZEN, offset=0, transaction_start_offset=0, marker_offset=1)
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        assert outcome_of(c, replica(1), pinned, replica(3)) is Verdict.CONFIRMED
        right = named(c, answers(replica(1), pinned))
        assert (right.transaction_start_offset, right.marker_offset) == (10, -1)

    def test_a_pinned_last_stable_offset_is_frozen(self) -> None:
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        got = decide(self.frozen, answers(replica(1), pinned, replica(3)))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.READ_COMMITTED_FROZEN)

    def test_frozen_behind_a_record_that_was_cleaned_away_is_frozen_all_the_same(self) -> None:
        """Broker 2 lists the transaction from 10 on and stands at 11, the first offset that is left."""
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=11)
        got = decide(self.frozen, answers(replica(1), pinned, replica(3)))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.READ_COMMITTED_FROZEN)
        older = claim(FindingKind.READ_COMMITTED_FROZEN, offset=0, transaction_start_offset=0, marker_offset=-1)
        assert named(older, answers(replica(1), pinned)).transaction_start_offset == 10

    def test_a_transaction_that_is_not_the_first_open_one_does_not_freeze(self) -> None:
        earlier = replace(OPEN[0], producer_id=PID + 1, start_offset=5)
        pinned = replica(2, open_transactions=(earlier, *OPEN), last_stable_offset=12)
        got = decide(self.frozen, answers(replica(1), pinned, replica(3)))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.MARKER_MISSING)

    def test_the_coordinator_of_another_producer_ends_no_transaction(self) -> None:
        # What was claimed is over; a later one of another producer is open on all.
        later = (OpenTransaction(producer_id=PID + 1, start_offset=30),)
        held = [replica(b, open_transactions=later, last_stable_offset=30) for b in (1, 2, 3)]
        ended = CoordinatorAnswer(PID, "tx", "CompleteAbort")
        assert decide(self.frozen, answers(*held, coordinator=ended)).verdict is Verdict.DISMISSED

    def test_the_coordinator_still_writing_markers_is_waited_for(self) -> None:
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        ending = CoordinatorAnswer(PID, "tx", "PrepareCommit")
        got = decide(self.frozen, answers(replica(1), pinned, replica(3), coordinator=ending))
        assert got.verdict is Verdict.PENDING

    def test_a_frozen_claim_without_a_producer_takes_it_from_the_accused(self) -> None:
        nameless = claim(
            FindingKind.READ_COMMITTED_FROZEN, producer_id=-1, transaction_start_offset=-1, marker_offset=-1, offset=-1
        )
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        assert outcome_of(nameless, replica(1), pinned, replica(3)) is Verdict.CONFIRMED
        unpinned = replica(2, open_transactions=())
        assert outcome_of(nameless, replica(1), unpinned, replica(3)) is Verdict.DISMISSED
        unexplained = replica(2, open_transactions=(), last_stable_offset=10)
        assert outcome_of(nameless, replica(1), unexplained, replica(3)) is Verdict.PENDING


class TestMarkerMissingThatEnded:
    """The transaction is no longer open on the accused: a later marker of the producer ended it there."""

    c = claim(FindingKind.MARKER_MISSING, recorded=Recorded(markers={1: "abort", 3: "abort"}))

    def test_ended_the_wrong_way_round_is_confirmed_as_what_it_became(self) -> None:
        got = decide(self.c, answers(replica(1), holding(2, "committed"), replica(3)))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.ABORTED_RECORD_COMMITTED)

    def test_ended_the_right_way_is_dismissed(self) -> None:
        assert outcome_of(self.c, replica(1), holding(2, "aborted"), replica(3)) is Verdict.DISMISSED

    def test_a_healthy_replica_that_cleaned_before_it_was_read_is_dismissed(self) -> None:
        assert outcome_of(self.c, replica(1), replica(2, asked=frozenset({10})), replica(3)) is Verdict.DISMISSED

    def test_not_decided_yet_is_pending(self) -> None:
        undecided = replica(2, last_stable_offset=10)
        assert outcome_of(self.c, replica(1), undecided, replica(3)) is Verdict.PENDING


class TestOutcome:
    a2c = claim(FindingKind.ABORTED_RECORD_COMMITTED)
    c2a = claim(FindingKind.COMMITTED_RECORD_ABORTED)

    def test_live_answers_that_differ_are_confirmed(self) -> None:
        got = decide(self.a2c, answers(holding(1, "aborted"), holding(2, "committed"), holding(3, "aborted")))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.ABORTED_RECORD_COMMITTED)

    def test_live_answers_that_agree_are_dismissed(self) -> None:
        assert outcome_of(self.a2c, *(holding(b, "aborted") for b in (1, 2, 3))) is Verdict.DISMISSED

    def test_the_kind_follows_what_the_accused_shows_now(self) -> None:
        got = decide(self.a2c, answers(holding(1, "committed"), holding(2, "aborted"), replica(3)))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.COMMITTED_RECORD_ABORTED)

    def test_the_record_of_another_producer_at_the_offset_has_no_part_in_it(self) -> None:
        marked = replace(self.a2c, recorded=Recorded(markers={1: "abort"}))
        other = replica(2, committed={10: record(outcome="committed", producer_id=PID + 1)}, asked=frozenset({10}))
        assert outcome_of(marked, replica(1), other, replica(3)) is Verdict.DISMISSED
        assert outcome_of(marked, replica(1), holding(2, "committed"), replica(3)) is Verdict.CONFIRMED

    def test_the_recorded_outcome_stands_in_where_the_others_cleaned_the_record(self) -> None:
        recorded = replace(self.a2c, recorded=Recorded(outcomes={1: "aborted", 2: "committed", 3: "aborted"}))
        assert outcome_of(recorded, replica(1), holding(2, "committed"), replica(3)) is Verdict.CONFIRMED

    def test_recorded_markers_stand_in_where_nobody_recorded_an_outcome(self) -> None:
        recorded = replace(self.a2c, recorded=Recorded(markers={1: "abort"}))
        assert outcome_of(recorded, replica(1), holding(2, "committed"), replica(3)) is Verdict.CONFIRMED

    def test_a_live_marker_of_another_replica_is_evidence(self) -> None:
        marked = replica(1, markers=(MarkerShown(20, PID, "abort"),))
        assert outcome_of(self.a2c, marked, holding(2, "committed")) is Verdict.CONFIRMED
        foreign = replica(1, markers=(MarkerShown(20, PID + 1, "abort"),))
        assert outcome_of(self.a2c, foreign, holding(2, "committed")) is Verdict.DISMISSED

    def test_a_live_answer_outweighs_what_was_recorded_of_the_same_replica(self) -> None:
        recorded = replace(self.a2c, recorded=Recorded(outcomes={1: "aborted", 3: "aborted"}))
        agree = [holding(b, "committed") for b in (1, 2, 3)]
        assert outcome_of(recorded, *agree) is Verdict.DISMISSED

    def test_no_evidence_of_the_others_waits_for_those_that_did_not_answer(self) -> None:
        assert outcome_of(self.a2c, silent(1), holding(2, "committed"), replica(3)) is Verdict.PENDING
        assert outcome_of(self.a2c, replica(1), holding(2, "committed"), replica(3)) is Verdict.DISMISSED

    @pytest.mark.parametrize("kind", [FindingKind.COMMITTED_RECORD_ABORTED, FindingKind.VISIBILITY_MISMATCH])
    def test_one_that_does_not_show_the_record_yet_is_waited_for(self, kind: FindingKind) -> None:
        # Started again, it goes on from the high watermark of its last checkpoint.
        restarted = replica(1, high_watermark=5, last_stable_offset=5)
        asked = claim(kind)
        assert outcome_of(asked, restarted, holding(2, "aborted"), replica(3)) is Verdict.PENDING
        just_there = replace(restarted, high_watermark=11, last_stable_offset=11)
        assert outcome_of(asked, just_there, holding(2, "aborted"), replica(3)) is Verdict.DISMISSED
        at_its_end = replace(restarted, log_end_offset=10)
        assert outcome_of(asked, at_its_end, holding(2, "aborted"), replica(3)) is Verdict.DISMISSED

    def test_an_undecided_record_on_the_accused_is_pending(self) -> None:
        behind = replica(2, last_stable_offset=5)
        assert outcome_of(self.a2c, holding(1, "aborted"), behind) is Verdict.PENDING

    def test_the_aborted_list_tells_of_a_hidden_record_that_was_cleaned(self) -> None:
        recorded = replace(self.c2a, recorded=Recorded(outcomes={1: "committed", 3: "committed"}))
        listed = replica(2, aborted=((PID, 10),))
        got = decide(recorded, answers(replica(1, aborted=((PID, 63),)), listed, replica(3)), live_only=True)
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.COMMITTED_RECORD_ABORTED)

    def test_the_aborted_list_of_a_later_transaction_tells_nothing(self) -> None:
        recorded = replace(self.c2a, recorded=Recorded(outcomes={1: "committed"}))
        assert outcome_of(recorded, replica(1), replica(2, aborted=((PID, 63),)), live_only=True) is Verdict.DISMISSED

    @pytest.mark.parametrize(
        "instead",
        [{"markers": (MarkerShown(10, PID, "abort"),)}, {"uncommitted": {10: record(producer_id=PID + 1)}}],
        ids=["an end marker", "another producer's record"],
    )
    def test_the_aborted_list_of_a_log_that_holds_something_else_there_tells_nothing(
        self, instead: dict[str, Any]
    ) -> None:
        recorded = replace(self.c2a, recorded=Recorded(outcomes={1: "committed", 3: "committed"}))
        replaced = replica(2, aborted=((PID, 5),), **instead)
        assert outcome_of(recorded, replica(1), replaced, replica(3), live_only=True) is Verdict.DISMISSED

    def test_both_outcomes_recorded_are_proof_when_nobody_holds_the_record_any_more(self) -> None:
        recorded = replace(self.c2a, recorded=Recorded(outcomes={1: "committed", 2: "aborted", 3: "committed"}))
        assert outcome_of(recorded, replica(1), replica(2), replica(3)) is Verdict.CONFIRMED

    def test_what_was_recorded_of_the_accused_keeps_no_finding_open(self) -> None:
        recorded = replace(self.c2a, recorded=Recorded(outcomes={1: "committed", 2: "aborted", 3: "committed"}))
        assert outcome_of(recorded, replica(1), replica(2), replica(3), live_only=True) is Verdict.DISMISSED

    def test_recorded_markers_alone_do_not_convict_an_accused_that_holds_nothing(self) -> None:
        # Read late, a healthy replica can look as if the producer's next marker had ended the transaction.
        recorded = replace(self.a2c, recorded=Recorded(markers={1: "abort", 2: "commit", 3: "abort"}))
        assert outcome_of(recorded, replica(1), replica(2), replica(3)) is Verdict.DISMISSED

    def test_a_hidden_tombstone_that_was_cleaned_still_shows_by_the_value_it_should_have_deleted(self) -> None:
        c = replace(self.c2a, key_hash_lo=7, recorded=Recorded(outcomes={1: "committed", 2: "aborted"}))
        got = decide(c, answers(shows(1, None), shows(2, record(3)), shows(3, None)), live_only=True)
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.COMMITTED_RECORD_ABORTED)

    def test_a_value_written_after_the_others_were_asked_proves_nothing(self) -> None:
        c = replace(self.c2a, key_hash_lo=7)
        fresh = shows(2, record(100), high_watermark=101, last_stable_offset=101)
        assert outcome_of(c, shows(1, None), fresh, shows(3, None), live_only=True) is Verdict.DISMISSED


class TestUnlikeOutcomes:
    """The comparison saw two outcomes of one record and no end marker that says which is right."""

    c = claim(
        FindingKind.VISIBILITY_MISMATCH,
        marker_offset=-1,
        key_hash_lo=7,
        recorded=Recorded(outcomes={1: "aborted", 2: "committed", 3: "aborted"}),
    )
    UNDIRECTED = (Verdict.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)

    def test_live_answers_that_differ_confirm_the_difference_and_no_direction(self) -> None:
        got = decide(self.c, answers(holding(1, "aborted"), holding(2, "committed"), holding(3, "aborted")))
        assert verdict(got) == self.UNDIRECTED
        assert "no end marker" in got.reason

    def test_recorded_outcomes_confirm_the_difference_where_the_record_is_gone(self) -> None:
        assert verdict(decide(self.c, answers(replica(1), replica(2), replica(3)))) == self.UNDIRECTED

    def test_what_was_recorded_does_not_keep_it_open(self) -> None:
        got = decide(self.c, answers(replica(1), replica(2), replica(3)), live_only=True)
        assert (got.verdict, got.resolution) == (Verdict.DISMISSED, Resolution.COMPACTED)

    def test_live_answers_that_agree_dismiss_it(self) -> None:
        got = decide(self.c, answers(*(holding(b, "aborted") for b in (1, 2, 3))))
        assert (got.verdict, got.resolution) == (Verdict.DISMISSED, Resolution.HEALED)

    def test_what_the_accused_has_not_decided_is_pending(self) -> None:
        behind = replica(2, last_stable_offset=10)
        assert outcome_of(self.c, replica(1), behind, replica(3)) is Verdict.PENDING
        decided = holding(2, "committed", last_stable_offset=11)
        assert outcome_of(self.c, holding(1, "aborted"), decided, replica(3)) is Verdict.CONFIRMED

    def test_an_outcome_that_no_other_shows_waits_for_those_that_did_not_answer(self) -> None:
        c = replace(self.c, recorded=Recorded())
        assert outcome_of(c, silent(1), holding(2, "committed"), replica(3)) is Verdict.PENDING
        assert outcome_of(c, replica(1), holding(2, "committed"), replica(3)) is Verdict.DISMISSED

    def test_a_value_that_differs_is_judged_by_the_key_where_the_claim_is_about_a_value(self) -> None:
        c = replace(self.c, rule=Rule.LATEST_VALUE)
        got = decide(c, answers(*(shows(b, record(12)) for b in (1, 2, 3))))
        assert got.verdict is Verdict.DISMISSED
        assert "a value as new" in got.reason


class TestResolution:
    """A finding that does not stand any more: healed, or only without a trace."""

    c2a = claim(
        FindingKind.COMMITTED_RECORD_ABORTED,
        recorded=Recorded(outcomes={1: "committed", 2: "aborted", 3: "committed"}),
    )

    def resolution(self, c: Claim, *replicas: ReplicaAnswer) -> Resolution:
        got = decide(c, answers(*replicas), live_only=True)
        assert got.verdict is Verdict.DISMISSED
        return got.resolution

    def test_replicas_that_agree_live_are_healed(self) -> None:
        agree = [holding(b, "committed") for b in (1, 2, 3)]
        assert self.resolution(self.c2a, *agree) is Resolution.HEALED

    def test_a_record_that_compaction_took_from_the_accused_is_not_healed(self) -> None:
        assert self.resolution(self.c2a, replica(1), replica(2), replica(3)) is Resolution.COMPACTED

    def test_a_put_whose_values_agree_is_not_healed_by_that(self) -> None:
        c = replace(self.c2a, key_hash_lo=7)
        newer = [shows(b, record(30)) for b in (1, 2, 3)]
        assert self.resolution(c, *newer) is Resolution.COMPACTED

    def test_a_record_below_the_log_start_was_deleted(self) -> None:
        trimmed = replica(2, log_start_offset=11)
        assert self.resolution(self.c2a, replica(1), trimmed, replica(3)) is Resolution.DELETED
        assert self.resolution(self.c2a, replica(1), replica(2, log_start_offset=10)) is Resolution.COMPACTED

    def test_a_missing_record_that_retention_deleted_was_deleted(self) -> None:
        for key in (0, 7):
            c = claim(FindingKind.RECORD_MISSING, rule=Rule.LATEST_VALUE, key_hash_lo=key)
            trimmed = shows(2, None, log_start_offset=11)
            assert self.resolution(c, shows(1, record(10)), trimmed, shows(3, None)) is Resolution.DELETED

    def test_another_record_that_compaction_took_is_not_healed(self) -> None:
        c = claim(FindingKind.CONTENT_MISMATCH, rule=Rule.CONTENT)
        assert self.resolution(c, replica(1), replica(2)) is Resolution.COMPACTED

    def test_a_wrong_outcome_that_all_replicas_were_copied_from_is_not_healed(self) -> None:
        agree = [holding(b, "aborted") for b in (1, 2, 3)]
        assert self.resolution(self.c2a, *agree) is Resolution.SPREAD
        c = replace(self.c2a, kind=FindingKind.MARKER_MISSING)
        assert self.resolution(c, *agree) is Resolution.HEALED

    def test_a_deleted_record_that_all_replicas_were_copied_from_is_not_healed(self) -> None:
        c = claim(FindingKind.DELETED_RECORD_RESURRECTED, rule=Rule.LATEST_VALUE, offset=50, key_hash_lo=7)
        agree = [shows(b, record(10)) for b in (1, 2, 3)]
        assert self.resolution(c, *agree) is Resolution.SPREAD
        rewritten = [shows(b, record(60)) for b in (1, 2, 3)]
        assert self.resolution(c, *rewritten) is Resolution.HEALED

    def test_a_record_without_a_key_that_no_replica_holds_any_more_is_not_healed(self) -> None:
        c = claim(FindingKind.RECORD_MISSING, rule=Rule.LATEST_VALUE)
        assert self.resolution(c, *(replica(b) for b in (1, 2, 3))) is Resolution.SPREAD
        assert self.resolution(c, replica(1, log_start_offset=11), replica(2), replica(3)) is Resolution.DELETED
        assert self.resolution(c, replica(1), holding(2, "committed"), replica(3)) is Resolution.HEALED

    def test_a_topic_that_is_gone_takes_the_finding_with_it(self) -> None:
        got = decide(self.c2a, Answers({}, gone="the topic is deleted"), live_only=True)
        assert got.resolution is Resolution.GONE


class TestResurrected:
    """The tombstone of the key was at offset 50; the accused shows a value from before it."""

    c = claim(
        FindingKind.DELETED_RECORD_RESURRECTED,
        rule=Rule.LATEST_VALUE,
        offset=50,
        producer_id=-1,
        transaction_start_offset=-1,
        marker_offset=-1,
        key_hash_lo=7,
    )
    old = record(30, producer_id=-1)
    tombstone = record(50, producer_id=-1, value_size=-1)

    def test_an_old_value_that_is_gone_elsewhere_is_confirmed(self) -> None:
        got = decide(self.c, answers(shows(1, None), shows(2, self.old), shows(3, None)))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.DELETED_RECORD_RESURRECTED)

    def test_an_old_value_whose_tombstone_another_still_shows_is_confirmed(self) -> None:
        assert outcome_of(self.c, shows(1, self.tombstone), shows(2, self.old), silent(3)) is Verdict.CONFIRMED

    def test_one_that_shows_it_deleted_decides_whatever_a_second_victim_shows(self) -> None:
        got = decide(self.c, answers(shows(1, record(40, producer_id=-1)), shows(2, self.old), shows(3, None)))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.DELETED_RECORD_RESURRECTED)

    def test_a_tombstone_of_a_transaction_that_fewer_showed_is_told_by_who_has_deleted_the_key(self) -> None:
        # The comparison knows one witness to the tombstone, whose outcome may be wrong; a second has no value either.
        unsure = replace(self.c, kind=FindingKind.VISIBILITY_MISMATCH, producer_id=PID)
        for holder in (shows(3, record(50, "committed", value_size=-1)), shows(3, None)):
            got = decide(unsure, answers(shows(1, None), shows(2, self.old), holder))
            assert verdict(got) == (Verdict.CONFIRMED, FindingKind.DELETED_RECORD_RESURRECTED)
            assert not got.lone_witness
            for second in (shows(1, self.old), silent(1), shows(1, None, last_stable_offset=50)):
                got = decide(unsure, answers(second, shows(2, self.old), holder))
                assert verdict(got) == (Verdict.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)

    def test_a_healthy_replica_that_has_not_cleaned_yet_shows_the_tombstone(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, self.tombstone), shows(3, None)) is Verdict.DISMISSED

    def test_an_accused_without_a_value_is_dismissed(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None), shows(3, None)) is Verdict.DISMISSED

    def test_an_accused_with_a_newer_value_is_dismissed(self) -> None:
        newer = record(70, producer_id=-1)
        assert outcome_of(self.c, shows(1, newer), shows(2, newer), shows(3, newer)) is Verdict.DISMISSED

    def test_an_accused_that_does_not_show_the_offset_yet_is_pending(self) -> None:
        behind = shows(2, self.old, last_stable_offset=50)
        assert outcome_of(self.c, shows(1, None), behind, shows(3, None)) is Verdict.PENDING

    def test_everyone_showing_the_old_value_is_dismissed(self) -> None:
        assert outcome_of(self.c, *(shows(b, self.old) for b in (1, 2, 3))) is Verdict.DISMISSED

    def test_a_log_start_above_the_old_value_is_retention_not_a_deletion(self) -> None:
        retained = shows(1, None, log_start_offset=40)
        assert outcome_of(self.c, retained, shows(2, self.old), silent(3)) is Verdict.PENDING
        assert outcome_of(self.c, retained, shows(2, self.old)) is Verdict.DISMISSED

    def test_a_log_too_long_to_read_is_no_proof_of_absence(self) -> None:
        partly = shows(1, None, complete=False)
        partly = replace(partly, key=KeyShown(None, False, complete_from=60))
        assert outcome_of(self.c, partly, shows(2, self.old)) is Verdict.PENDING

    def test_in_a_log_too_long_to_read_the_missing_offset_itself_is_proof(self) -> None:
        partly = replica(1, key=KeyShown(None, False, complete_from=50), asked=frozenset({30}))
        assert outcome_of(self.c, partly, shows(2, self.old, complete=False)) is Verdict.CONFIRMED

    def test_an_accused_whose_log_is_too_long_to_find_the_value_is_pending(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None, complete=False)) is Verdict.PENDING

    @pytest.mark.parametrize("broker", [1, 2, 3])
    def test_where_the_tombstone_was_lost_with_its_log_nobody_knows_who_is_right(self, broker: int) -> None:
        same = {50: record(50, key_hash=f"{0:016x}{7:016x}")}
        for fields, kind in (
            ({"markers": (MarkerShown(50, PID, "commit"),)}, FindingKind.VISIBILITY_MISMATCH),
            ({"uncommitted": {50: record(50, key_hash="f" * 32)}}, FindingKind.VISIBILITY_MISMATCH),
            (
                {"uncommitted": same, "markers": (MarkerShown(51, PID, "commit"),)},
                FindingKind.DELETED_RECORD_RESURRECTED,
            ),
        ):
            given = [shows(b, self.old if b == 2 else None, **(fields if b == broker else {})) for b in (1, 2, 3)]
            assert verdict(decide(self.c, answers(*given))) == (Verdict.CONFIRMED, kind)
        still = shows(1, self.tombstone), shows(2, self.old, markers=(MarkerShown(50, PID, "commit"),)), shows(3, None)
        assert decide(self.c, answers(*still)).kind is FindingKind.DELETED_RECORD_RESURRECTED

    def test_a_tombstone_that_the_accused_hides_as_aborted_belongs_to_the_outcome(self) -> None:
        hidden = shows(2, self.old, committed={50: record(50, "aborted", value_size=-1)})
        assert outcome_of(self.c, shows(1, None), hidden, shows(3, None)) is Verdict.DISMISSED

    def test_a_hidden_tombstone_that_was_cleaned_is_known_by_the_aborted_list(self) -> None:
        transactional = replace(self.c, producer_id=PID)
        hidden = shows(2, self.old, aborted=((PID, 45),))
        assert outcome_of(transactional, shows(1, None), hidden, shows(3, None)) is Verdict.DISMISSED

    def test_the_aborted_list_of_a_log_with_an_end_marker_in_its_place_tells_of_no_tombstone(self) -> None:
        transactional = replace(self.c, producer_id=PID)
        replaced = shows(2, self.old, aborted=((PID, 45),), markers=(MarkerShown(50, PID, "abort"),))
        assert outcome_of(transactional, shows(1, None), replaced, shows(3, None)) is Verdict.CONFIRMED

    def test_a_record_of_the_key_that_another_shows_beyond_the_accused_is_waited_for(self) -> None:
        ahead = shows(1, record(120, producer_id=-1, value_size=-1), last_stable_offset=130)
        assert outcome_of(self.c, ahead, shows(2, self.old)) is Verdict.PENDING

    def test_is_resolved_once_the_accused_shows_the_value_no_more(self) -> None:
        got = outcome_of(self.c, shows(1, None), shows(2, None), shows(3, None), live_only=True)
        assert got is Verdict.DISMISSED


class TestVisibilityMismatch:
    """Accused of showing a value that others lack; no tombstone is known."""

    c = claim(
        FindingKind.VISIBILITY_MISMATCH,
        rule=Rule.LATEST_VALUE,
        offset=30,
        producer_id=-1,
        transaction_start_offset=-1,
        marker_offset=-1,
        key_hash_lo=7,
    )
    value = record(30, producer_id=-1)

    def test_a_value_that_another_past_it_does_not_show_is_confirmed(self) -> None:
        for third in (shows(3, None), silent(3), shows(3, self.value)):
            got = decide(self.c, answers(shows(1, None), shows(2, self.value), third))
            assert verdict(got) == (Verdict.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)
            assert not got.lone_witness

    def test_a_transactional_value_may_be_a_matter_of_its_outcome(self) -> None:
        committed = record(30, "committed")
        assert decide(self.c, answers(shows(1, None), shows(2, committed), shows(3, None))).lone_witness

    def test_an_accused_that_is_behind_those_who_lack_it_may_yet_see_it_deleted(self) -> None:
        behind = shows(2, self.value, last_stable_offset=90)
        assert outcome_of(self.c, shows(1, None), behind, shows(3, None)) is Verdict.PENDING

    def test_a_value_that_all_show_is_dismissed(self) -> None:
        assert outcome_of(self.c, *(shows(b, self.value) for b in (1, 2, 3))) is Verdict.DISMISSED

    def test_a_newer_value_on_the_others_that_the_accused_shows_by_now_is_dismissed(self) -> None:
        newer = record(60, producer_id=-1)
        assert outcome_of(self.c, *(shows(b, newer) for b in (1, 2, 3))) is Verdict.DISMISSED

    def test_a_value_that_is_gone_from_the_accused_is_dismissed(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None), shows(3, None)) is Verdict.DISMISSED

    def test_others_whose_log_begins_above_it_prove_nothing(self) -> None:
        got = outcome_of(self.c, shows(1, None, log_start_offset=31), shows(2, self.value), shows(3, self.value))
        assert got is not Verdict.CONFIRMED


class TestRecordMissing:
    c = claim(
        FindingKind.RECORD_MISSING,
        rule=Rule.LATEST_VALUE,
        offset=50,
        producer_id=-1,
        transaction_start_offset=-1,
        marker_offset=-1,
        key_hash_lo=7,
    )
    value = record(50, producer_id=-1)

    def test_a_value_that_only_the_accused_lacks_is_confirmed(self) -> None:
        assert outcome_of(self.c, shows(1, self.value), shows(2, None), shows(3, self.value)) is Verdict.CONFIRMED

    def test_an_older_value_in_its_place_is_confirmed(self) -> None:
        got = decide(self.c, answers(shows(1, self.value), shows(2, record(30, producer_id=-1)), shows(3, self.value)))
        assert verdict(got) == (Verdict.CONFIRMED, FindingKind.RECORD_MISSING)

    def test_a_single_replica_that_shows_it_may_be_the_one_that_is_wrong(self) -> None:
        for third in (silent(3), shows(3, None)):
            for own in (None, record(30, producer_id=-1)):
                got = decide(self.c, answers(shows(1, self.value), shows(2, own), third))
                assert verdict(got) == (Verdict.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)

    def test_where_the_accused_is_not_alone_the_direction_cannot_be_told(self) -> None:
        others_lack_it_too = answers(shows(1, self.value), shows(2, None), shows(3, None))
        older_of_two = answers(shows(1, self.value), shows(2, record(30, producer_id=-1)))
        for asked in (others_lack_it_too, older_of_two):
            assert verdict(decide(self.c, asked)) == (Verdict.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)
        alone = answers(shows(1, self.value), shows(2, None), shows(3, self.value))
        assert verdict(decide(self.c, alone)) == (Verdict.CONFIRMED, FindingKind.RECORD_MISSING)

    def test_a_lone_witness_to_a_transactional_record_may_have_its_outcome_wrong(self) -> None:
        committed = record(50, "committed")
        for third in (silent(3), shows(3, None)):
            got = decide(self.c, answers(shows(1, committed), shows(2, None), third))
            assert verdict(got) == (Verdict.CONFIRMED, FindingKind.VISIBILITY_MISMATCH)
            assert got.lone_witness
        agreed = decide(self.c, answers(shows(1, committed), shows(2, None), shows(3, committed)))
        assert verdict(agreed) == (Verdict.CONFIRMED, FindingKind.RECORD_MISSING)
        assert not agreed.lone_witness
        deletion, old = record(50, "committed", value_size=-1), record(30, producer_id=-1)
        assert decide(self.c, answers(shows(1, deletion), shows(2, old), shows(3, old))).lone_witness
        assert not decide(self.c, answers(shows(1, self.value), shows(2, None), silent(3))).lone_witness

    @pytest.mark.parametrize("own", [None, record(30, producer_id=-1)], ids=["nothing", "an older value"])
    def test_one_whose_log_was_replaced_lacks_the_record_too_however_far_it_shows_its_log(
        self, own: RecordShown | None
    ) -> None:
        def pinned(broker: int, key_hash: str) -> ReplicaAnswer:
            there = {50: record(50, key_hash=key_hash)}
            return shows(broker, None, last_stable_offset=20, uncommitted=there)

        other, same = "f" * 32, f"{0:016x}{7:016x}"
        assert outcome_of(self.c, pinned(1, other), shows(2, own), pinned(3, other)) is Verdict.DISMISSED
        assert outcome_of(self.c, pinned(1, same), shows(2, own), pinned(3, other)) is Verdict.PENDING
        assert outcome_of(self.c, shows(1, self.value), shows(2, own), pinned(3, other)) is Verdict.CONFIRMED
        assert outcome_of(self.c, silent(1), shows(2, own), pinned(3, other)) is Verdict.PENDING

    def test_a_newer_record_of_the_key_explains_the_absence(self) -> None:
        for newer in (record(60, producer_id=-1), record(60, producer_id=-1, value_size=-1)):
            assert outcome_of(self.c, shows(1, self.value), shows(2, newer)) is Verdict.DISMISSED

    def test_an_accused_that_is_not_past_the_offset_is_pending(self) -> None:
        assert outcome_of(self.c, shows(1, self.value), shows(2, None, last_stable_offset=50)) is Verdict.PENDING

    def test_retention_explains_the_absence(self) -> None:
        assert outcome_of(self.c, shows(1, self.value), shows(2, None, log_start_offset=51)) is Verdict.DISMISSED

    def test_a_record_that_nobody_shows_any_more_is_dismissed(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None), shows(3, None)) is Verdict.DISMISSED

    def test_a_record_that_nobody_reachable_shows_waits_for_the_rest(self) -> None:
        assert outcome_of(self.c, shows(1, None), shows(2, None), silent(3)) is Verdict.PENDING

    def test_a_record_recorded_as_aborted_on_the_accused_belongs_to_the_outcome(self) -> None:
        c = replace(self.c, recorded=Recorded(outcomes={2: "aborted", 1: "committed"}))
        assert outcome_of(c, shows(1, self.value), shows(2, None)) is Verdict.DISMISSED

    def test_a_record_without_a_key_is_judged_by_its_offset(self) -> None:
        c = replace(self.c, key_hash_lo=0)
        holder = replica(1, committed={50: self.value}, asked=frozenset({50}))
        assert outcome_of(c, holder, replica(2)) is Verdict.CONFIRMED
        assert outcome_of(c, holder, replace(holder, broker=2)) is Verdict.DISMISSED
        assert outcome_of(c, holder, replica(2, last_stable_offset=50)) is Verdict.PENDING
        assert outcome_of(c, holder, replica(2, log_start_offset=51)) is Verdict.DISMISSED

    def test_one_that_may_hold_the_offset_and_does_not_show_it_yet_is_waited_for(self) -> None:
        c = replace(self.c, key_hash_lo=0)
        assert outcome_of(c, replica(1, last_stable_offset=50), replica(2)) is Verdict.PENDING
        assert outcome_of(c, replica(1, last_stable_offset=51), replica(2)) is Verdict.DISMISSED
        assert outcome_of(c, replica(1, last_stable_offset=50, log_end_offset=50), replica(2)) is Verdict.DISMISSED
        assert decide(c, answers(replica(1), replica(2))).resolution is Resolution.SPREAD
        assert decide(c, answers(replica(1, log_start_offset=51), replica(2))).resolution is Resolution.DELETED


class TestContent:
    c = claim(FindingKind.CONTENT_MISMATCH, rule=Rule.CONTENT, producer_id=-1, transaction_start_offset=-1)

    def test_two_records_at_one_offset_are_confirmed(self) -> None:
        one = replica(1, uncommitted={10: record(content_hash="aa")})
        two = replica(2, uncommitted={10: record(content_hash="bb")})
        assert outcome_of(self.c, one, two) is Verdict.CONFIRMED
        assert outcome_of(self.c, one, replace(one, broker=2)) is Verdict.DISMISSED

    def test_another_leader_epoch_or_outcome_is_the_same_record(self) -> None:
        one = replica(1, uncommitted={10: record(leader_epoch=1)})
        two = replica(2, uncommitted={10: record(leader_epoch=2, outcome="undecided")})
        assert outcome_of(self.c, one, two) is Verdict.DISMISSED

    def test_a_record_that_only_the_accused_holds_is_not_proof(self) -> None:
        two = replica(2, uncommitted={10: record()})
        assert outcome_of(self.c, replica(1), two) is Verdict.DISMISSED
        assert outcome_of(self.c, silent(1), two) is Verdict.PENDING

    def test_one_that_does_not_show_the_offset_yet_is_waited_for_and_open_transactions_hold_nothing_back(self) -> None:
        two = replica(2, uncommitted={10: record()})
        assert outcome_of(self.c, replica(1, high_watermark=10, last_stable_offset=10), two) is Verdict.PENDING
        assert outcome_of(self.c, replica(1, high_watermark=11, last_stable_offset=10), two) is Verdict.DISMISSED

    def test_recorded_fingerprints_stand_in_for_what_was_cleaned(self) -> None:
        c = replace(self.c, recorded=Recorded(records={1: "aa", 2: "bb", 3: "aa"}))
        assert outcome_of(c, replica(1), replica(2)) is Verdict.CONFIRMED
        assert outcome_of(c, replica(1), replica(2), live_only=True) is Verdict.DISMISSED
        agreeing = replace(self.c, recorded=Recorded(records={1: "aa", 3: "bb"}))
        assert outcome_of(agreeing, replica(1), replica(2)) is Verdict.DISMISSED


def test_a_truncated_log_is_confirmed_until_it_reaches_the_offset_again() -> None:
    c = claim(FindingKind.LOG_TRUNCATED, offset=50)
    cut = replica(2, log_end_offset=40, high_watermark=40)
    assert outcome_of(c, replica(1), cut) is Verdict.CONFIRMED
    assert outcome_of(c, replica(1), replica(2)) is Verdict.DISMISSED
    assert outcome_of(c, silent(1), cut) is Verdict.PENDING


def test_what_all_have_lost_is_waited_for_until_something_is_written_in_its_place() -> None:
    short = {"log_end_offset": 40, "high_watermark": 40}
    assert outcome_of(cut_off(), replica(1, **short), replica(2, **short)) is Verdict.PENDING
    grown = {"log_end_offset": 41, "high_watermark": 41, "epoch_ends": {3: 40}}
    assert outcome_of(cut_off(), replica(1, **grown), replica(2, **grown)) is Verdict.CONFIRMED


def cut_off(epoch: int = 3) -> Claim:
    recorded = Recorded(epochs={2: str(epoch)})
    return replace(claim(FindingKind.LOG_TRUNCATED, offset=50), recorded=recorded)


def test_a_log_that_has_grown_again_is_told_by_its_own_leader_epochs() -> None:
    assert outcome_of(cut_off(), replica(1), replica(2, epoch_ends={3: 50})) is Verdict.CONFIRMED
    assert outcome_of(cut_off(), replica(1), replica(2, epoch_ends={3: 70})) is Verdict.DISMISSED
    assert outcome_of(cut_off(), replica(1), replica(2, epoch_ends={3: None})) is Verdict.DISMISSED
    assert outcome_of(cut_off(), replica(1), replica(2)) is Verdict.DISMISSED


class TestALogThatIsCutOffWhileItIsCopied:
    """The claim names the offset that the copy had reached; offsets below 60 had been shown."""

    claim = replace(claim(FindingKind.LOG_TRUNCATED, offset=50), recorded=Recorded(epochs={2: "3"}, shown_to={2: "60"}))

    @pytest.mark.parametrize(("end", "verdict"), [(59, Verdict.CONFIRMED), (60, Verdict.DISMISSED)])
    def test_a_newer_epoch_below_where_it_was_read_to_is_a_loss(self, end: int, verdict: Verdict) -> None:
        assert outcome_of(self.claim, replica(1), replica(2, epoch_ends={3: end})) is verdict

    @pytest.mark.parametrize(("log_end", "verdict"), [(59, Verdict.PENDING), (60, Verdict.DISMISSED)])
    def test_an_epoch_that_ends_with_the_log_may_still_grow(self, log_end: int, verdict: Verdict) -> None:
        marks = {"log_end_offset": log_end, "high_watermark": log_end, "epoch_ends": {3: log_end}}
        behind = {"log_end_offset": 59, "high_watermark": 59}
        assert outcome_of(self.claim, replica(1, **behind), replica(2, **marks)) is verdict

    @pytest.mark.parametrize(("mark", "verdict"), [(59, Verdict.PENDING), (60, Verdict.CONFIRMED)])
    def test_one_in_sync_that_ends_below_what_another_shows_is_a_loss(self, mark: int, verdict: Verdict) -> None:
        cut = replica(2, log_end_offset=55, high_watermark=55)
        assert outcome_of(self.claim, replica(1, high_watermark=mark), cut) is verdict

    @pytest.mark.parametrize(("start", "verdict"), [(59, Verdict.CONFIRMED), (60, Verdict.DISMISSED)])
    def test_what_is_left_above_the_log_start_proves_it(self, start: int, verdict: Verdict) -> None:
        trimmed = replica(2, log_start_offset=start, epoch_ends={3: start})
        assert outcome_of(self.claim, replica(1), trimmed) is verdict

    def test_a_place_that_was_shown_up_to_is_never_below_the_claim(self) -> None:
        wrong = replace(self.claim, recorded=Recorded(epochs={2: "3"}, shown_to={2: "7"}))
        assert outcome_of(wrong, replica(1), replica(2, epoch_ends={3: 50})) is Verdict.CONFIRMED
        assert outcome_of(wrong, replica(1), replica(2, epoch_ends={3: 51})) is Verdict.DISMISSED


def test_committed_records_lost_on_every_replica_are_told_although_the_replicas_agree() -> None:
    cut = {"log_end_offset": 50, "high_watermark": 50, "epoch_ends": {3: 50}}
    assert outcome_of(cut_off(), replica(1, **cut), replica(2, **cut)) is Verdict.CONFIRMED


def test_a_replica_that_copies_its_log_anew_is_waited_for() -> None:
    cut = replica(2, log_end_offset=40, high_watermark=40)
    answers = Answers({1: replica(1), 2: cut}, leader=1, isr=(1, 3))
    assert decide(cut_off(), answers).verdict is Verdict.PENDING
    assert decide(cut_off(), replace(answers, isr=(1, 2, 3))).verdict is Verdict.CONFIRMED


def test_what_retention_has_deleted_is_no_longer_told_as_cut_off() -> None:
    gone = replica(2, log_start_offset=60, epoch_ends={3: 50})
    assert outcome_of(cut_off(), replica(1), gone) is Verdict.DISMISSED
