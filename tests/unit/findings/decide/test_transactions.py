"""What a probe's answers prove of transactions, and above all what they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.findings.answers import (
    CoordinatorAnswer,
    OpenTransaction,
    ReplicaAnswer,
)
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, Decision, Resolution, decide, named
from parallax.model import FindingKind
from parallax.sides import Side, parsed
from tests.builders.answers import OPEN, PRODUCER, answers, holding, marker, record, replica, silent
from tests.builders.claims import claim
from tests.unit.findings.decide.answered import outcome_of, verdict


class TestOpenTransaction:
    marker_missing = claim(FindingKind.MARKER_MISSING)
    frozen = claim(FindingKind.READ_COMMITTED_FROZEN, marker_offset=-1)

    def test_open_on_the_accused_only_past_the_marker_is_confirmed(self) -> None:
        got = decide(self.marker_missing, answers(replica(1), replica(2, open_transactions=OPEN), replica(3)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.MARKER_MISSING)

    def test_a_later_transaction_of_the_producer_is_not_the_same_if_the_end_is_unproven(self) -> None:
        later = replica(3, open_transactions=(OpenTransaction(PRODUCER, 14),))
        accused = replica(2, open_transactions=OPEN)
        got = decide(self.marker_missing, answers(replica(1), accused, later))
        assert got.sides == parsed({"open": (2, 3), "ended": (1,)})
        unproven = replace(self.marker_missing, recorded=RecordedByViews(end_unproven=True))
        got = decide(unproven, answers(replica(1), accused, later))
        assert (got.verdict, got.sides) == (ClaimState.CONFIRMED, parsed({"open": (2,), "ended": (1,)}))

    def test_a_recorded_marker_is_proof_where_the_others_begin_above_the_transaction(self) -> None:
        accused = replica(2, open_transactions=OPEN)
        trimmed = [replica(b, log_start_offset=40) for b in (1, 3)]
        recorded = replace(self.marker_missing, recorded=RecordedByViews(markers={1: "commit"}))
        assert outcome_of(self.marker_missing, trimmed[0], accused, trimmed[1]) is ClaimState.PENDING
        assert outcome_of(recorded, trimmed[0], accused, trimmed[1]) is ClaimState.CONFIRMED
        behind = replace(accused, high_watermark=recorded.marker_offset)
        assert outcome_of(recorded, trimmed[0], behind, trimmed[1]) is ClaimState.PENDING
        by_itself = replace(recorded, recorded=RecordedByViews(markers={2: "commit"}))
        assert outcome_of(by_itself, trimmed[0], accused, trimmed[1]) is ClaimState.PENDING

    def test_those_whose_log_holds_something_else_there_have_not_seen_it_end(self) -> None:
        # After an unclean election: the accused leads, the others have not truncated their logs yet.
        accused = replica(2, open_transactions=OPEN, last_stable_offset=10)
        of_another = {"uncommitted": {10: record(producer_id=PRODUCER + 1)}}
        for asked in (self.frozen, self.marker_missing):
            assert outcome_of(asked, replica(1, **of_another), accused, replica(3, **of_another)) is ClaimState.PENDING
            assert outcome_of(asked, replica(1), accused, replica(3, **of_another)) is ClaimState.CONFIRMED
        recorded = replace(self.marker_missing, recorded=RecordedByViews(markers={1: "commit"}))
        ended = {"markers": (marker(10, "commit"),)}
        assert outcome_of(recorded, replica(1, **ended), accused, replica(3, **of_another)) is ClaimState.PENDING
        trimmed = replica(1, log_start_offset=40)
        assert outcome_of(recorded, trimmed, accused, replica(3, **of_another)) is ClaimState.CONFIRMED

    @pytest.mark.parametrize("others", [replica(3), silent(3)], ids=["all answer", "one is away"])
    @pytest.mark.parametrize("kind", [FindingKind.ABORTED_RECORD_COMMITTED, FindingKind.MARKER_MISSING])
    def test_what_is_open_below_a_record_that_was_truncated_is_another_transaction(
        self, kind: FindingKind, others: ReplicaAnswer
    ) -> None:
        # After an unclean election: all hold an earlier transaction of the producer open, whose end was cut as well.
        below = (OpenTransaction(PRODUCER, 5),)
        cut = {"open_transactions": below, "last_stable_offset": 5, "epoch_ends": {4: 8}, "epochs_known": {4}}
        held = [replica(b, **cut) for b in (1, 2)]
        others = replace(others, open_transactions=below, last_stable_offset=5)
        ended = CoordinatorAnswer(PRODUCER, "t", "CompleteAbort")
        asked = claim(kind, recorded=RecordedByViews(markers={1: "abort"}, leader_epoch=4))
        got = decide(asked, answers(*held, others, coordinator=ended))
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)

    def test_one_whose_last_stable_offset_stands_at_it_has_not_ended_it_for_anybody_yet(self) -> None:
        # It leads, and has just appended an end marker, maybe that of a later transaction of the producer.
        ending = replica(1, last_stable_offset=10, log_end_offset=101)
        accused, third = (replica(b, open_transactions=OPEN, last_stable_offset=10) for b in (2, 3))
        recorded = RecordedByViews(markers={1: "commit", 3: "commit"})
        for asked in (self.frozen, replace(self.marker_missing, recorded=recorded)):
            got = decide(asked, answers(ending, accused, third))
            assert (got.verdict, got.reason) == (
                ClaimState.PENDING,
                "the end of the transaction on broker 1 is not replicated yet",
            )
            shown = replace(ending, last_stable_offset=12, log_end_offset=100)
            assert outcome_of(asked, shown, accused, third) is ClaimState.CONFIRMED

    def test_one_whose_end_was_seen_cut_before_is_judged_without_it(self) -> None:
        holding_it = [replica(b, open_transactions=OPEN, last_stable_offset=10) for b in (1, 2, 3)]
        recorded = RecordedByViews(markers={1: "abort"}, leader_epoch=3)
        found = claim(FindingKind.READ_COMMITTED_FROZEN, recorded=recorded, confirmed_at_ms=1)
        assert outcome_of(found, *holding_it, live_only=True) is not ClaimState.CONFIRMED
        got = decide(replace(found, is_cut=True), answers(*holding_it), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)

    def test_one_without_room_for_its_end_has_lost_it_with_a_truncated_log(self) -> None:
        # Its cleaner had removed the record, and an unclean election the end marker.
        accused, third = (replica(b, open_transactions=OPEN, last_stable_offset=10) for b in (2, 3))
        cut = replica(1, last_stable_offset=11)
        assert outcome_of(self.frozen, cut, accused, third) is not ClaimState.CONFIRMED
        assert outcome_of(self.frozen, replace(cut, last_stable_offset=12), accused, third) is ClaimState.CONFIRMED

    def test_a_leader_may_have_cut_the_end_that_nobody_shows(self) -> None:
        # Before it, the cleaner of broker 1 had removed the record, of epoch 3, and not yet the end marker.
        begun = {"uncommitted": {10: record(leader_epoch=3)}, "asked_uncommitted": frozenset({10})}
        frozen = replica(2, open_transactions=OPEN, last_stable_offset=10, **begun)
        others = [replica(1), replica(3)]

        def of(claimed: Claim, epoch: int, *others: ReplicaAnswer) -> Decision:
            return decide(claimed, answers(frozen, *others, leader=2, leader_epoch=epoch))

        got = of(self.frozen, 4, *others)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.SPREAD)
        again = replace(self.frozen, confirmed_at_ms=1, spread=True)
        assert of(again, 4, *others).has_spread
        assert of(self.frozen, 3, *others).accused == 2, "nobody was elected since"
        assert of(replace(self.frozen, confirmed_at_ms=1), 4, *others).accused == 2, "it was proven before"
        assert of(self.frozen, 4, *others[1:], replica(1, aborted=((PRODUCER, 10),))).accused == 2
        led_by_another = answers(frozen, *others, leader=1, leader_epoch=4)
        assert decide(self.frozen, led_by_another).accused == 2

    @pytest.mark.parametrize("start", [5, 40], ids=["below", "above"])
    def test_a_freeze_is_over_where_another_transaction_holds_the_replica(self, start: int) -> None:
        another = (OpenTransaction(producer_id=PRODUCER + 1, start_offset=start),)
        held = replica(2, open_transactions=another, last_stable_offset=start, key_error="the key was not read")
        found = replace(self.frozen, key_hash_lo=1, confirmed_at_ms=1)
        got = decide(found, answers(replica(1), held, replica(3)), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        assert f"it holds another one open, at offset {start}" in got.reason
        assert outcome_of(found, replica(1), replace(held, open_transactions=()), live_only=True) is ClaimState.PENDING

    def test_a_wrong_outcome_is_over_where_another_log_is_held_below_and_cannot_show_it(self) -> None:
        another = (OpenTransaction(producer_id=PRODUCER + 1, start_offset=5),)
        held = replica(2, open_transactions=another, last_stable_offset=5, asked_uncommitted=frozenset({10}))
        ended = replace(held, uncommitted={10: record()}, markers=(marker(),))
        replaced = replace(held, uncommitted={10: record(producer_id=PRODUCER + 1)})
        found = claim(FindingKind.ABORTED_RECORD_COMMITTED, confirmed_at_ms=1)
        for accused in (held, ended, replaced):
            got = decide(found, answers(replica(1), accused, replica(3)), live_only=True)
            assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        may_end_it_wrongly = replace(ended, markers=())
        assert outcome_of(found, replica(1), may_end_it_wrongly, replica(3), live_only=True) is ClaimState.PENDING
        assert outcome_of(found, replica(1), held, replica(3)) is ClaimState.PENDING

    @pytest.mark.parametrize("mark", [15, 12], ids=["all ends cut", "its own cut"])
    def test_a_wrong_outcome_is_over_where_the_end_by_which_it_was_shown_is_cut(self, mark: int) -> None:
        another = (OpenTransaction(producer_id=PRODUCER + 1, start_offset=5),)
        cut = {"epoch_ends": {3: 15}, "epochs_known": {3}, "uncommitted": {10: record()}}
        held = replica(2, open_transactions=another, last_stable_offset=5, **cut)
        others = [replica(b, last_stable_offset=5, open_transactions=another, **cut) for b in (1, 3)]
        recorded = RecordedByViews(markers={1: "abort", 2: "commit"}, ends={2: "22:3"}, leader_epoch=3)
        found = claim(FindingKind.ABORTED_RECORD_COMMITTED, recorded=recorded, marker_offset=mark, confirmed_at_ms=1)
        got = decide(found, answers(others[0], held, others[1]), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        stands = replace(found, recorded=replace(recorded, ends={2: "14:3"}))
        assert outcome_of(stands, others[0], held, others[1], live_only=True) is ClaimState.PENDING

    @pytest.mark.parametrize("by", [PRODUCER + 1, PRODUCER], ids=["another", "its own"])
    def test_a_contradicted_marker_is_over_where_a_log_is_held_back_at_the_record(self, by: int) -> None:
        start = 10 if by == PRODUCER else 5
        open_ = (OpenTransaction(producer_id=by, start_offset=start),)
        held = replica(2, open_transactions=open_, last_stable_offset=start, uncommitted={10: record()})
        found = claim(FindingKind.OUTCOME_CONTRADICTS_MARKER, confirmed_at_ms=1)
        got = decide(found, answers(replica(1), held, replica(3)), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        assert f"it holds {'it' if by == PRODUCER else 'another one'} open, at offset {start}" in got.reason
        assert outcome_of(found, replica(1), replace(held, open_transactions=()), live_only=True) is ClaimState.PENDING
        assert outcome_of(found, replica(1), held, replica(3)) is ClaimState.PENDING

    def test_open_on_every_replica_is_a_long_transaction(self) -> None:
        everywhere = [replica(b, open_transactions=OPEN) for b in (1, 2, 3)]
        assert outcome_of(self.marker_missing, *everywhere) is ClaimState.DISMISSED
        assert outcome_of(self.frozen, *everywhere) is ClaimState.DISMISSED

    def test_open_on_a_second_victim_as_well_is_confirmed(self) -> None:
        got = outcome_of(
            self.marker_missing, replica(1), replica(2, open_transactions=OPEN), replica(3, open_transactions=OPEN)
        )
        assert got is ClaimState.CONFIRMED

    def test_only_those_that_are_past_the_end_marker_have_missed_it(self) -> None:
        accused, behind = replica(2, open_transactions=OPEN), replica(3, open_transactions=OPEN, high_watermark=20)
        got = decide(self.marker_missing, answers(replica(1), accused, behind))
        assert (got.verdict, got.sides) == (ClaimState.CONFIRMED, parsed({"open": (2,), "ended": (1,)}))
        past = replace(behind, high_watermark=21)
        assert decide(self.marker_missing, answers(replica(1), accused, past)).sides[Side.parse("open")] == (2, 3)
        proven = decide(self.frozen, answers(silent(1), accused, behind), live_only=True)
        assert (proven.verdict, proven.sides) == (ClaimState.CONFIRMED, parsed({"open": (2,)}))

    def test_an_accused_that_has_not_reached_the_marker_is_pending(self) -> None:
        behind = replica(2, open_transactions=OPEN, high_watermark=20, last_stable_offset=10)
        assert outcome_of(self.marker_missing, replica(1), behind, replica(3)) is ClaimState.PENDING

    @pytest.mark.parametrize("marker", [0, 20])
    def test_an_accused_is_past_the_marker_from_the_next_offset_on(self, marker: int) -> None:
        opened = (OpenTransaction(producer_id=PRODUCER, start_offset=0),)
        c = replace(self.marker_missing, offset=0, transaction_start_offset=0, marker_offset=marker)
        at, past = (
            replica(2, open_transactions=opened, high_watermark=hw, last_stable_offset=0) for hw in (marker, marker + 1)
        )
        assert outcome_of(c, replica(1), at, replica(3)) is ClaimState.PENDING
        assert outcome_of(c, replica(1), past, replica(3)) is ClaimState.CONFIRMED

    def test_a_known_marker_decides_although_the_accused_trails_those_that_closed(self) -> None:
        trailing = replica(2, open_transactions=OPEN, high_watermark=21, last_stable_offset=10)
        assert outcome_of(self.marker_missing, replica(1), trailing, replica(3)) is ClaimState.CONFIRMED

    def test_a_marker_that_is_not_reached_proves_nothing_although_the_accused_leads(self) -> None:
        closed = replica(1, high_watermark=15)
        ahead = replica(2, open_transactions=OPEN, high_watermark=18, last_stable_offset=10)
        assert outcome_of(self.marker_missing, closed, ahead, closed) is ClaimState.PENDING

    def test_without_a_known_marker_one_that_closed_and_is_not_ahead_is_enough(self) -> None:
        level, ahead = (replica(b, high_watermark=at, log_end_offset=at) for b, at in ((1, 50), (3, 200)))
        accused = replica(2, open_transactions=OPEN, high_watermark=50, last_stable_offset=10)
        assert outcome_of(self.frozen, level, accused, ahead) is ClaimState.CONFIRMED
        assert outcome_of(self.frozen, ahead, accused, ahead) is ClaimState.PENDING

    def test_without_a_known_marker_the_accused_must_have_caught_up(self) -> None:
        behind = replica(2, open_transactions=OPEN, high_watermark=99, last_stable_offset=10)
        caught_up = replace(behind, high_watermark=100)
        assert outcome_of(self.frozen, replica(1), behind, replica(3)) is ClaimState.PENDING
        assert outcome_of(self.frozen, replica(1), caught_up, replica(3)) is ClaimState.CONFIRMED

    @pytest.mark.parametrize("ends", [{"log_end_offset": 102}, {"log_end_after": 102}])
    def test_without_a_known_marker_it_may_lie_at_the_end_of_the_log_of_one_that_closed(
        self, ends: dict[str, int]
    ) -> None:
        closed = replica(1, **ends)
        accused = replica(2, open_transactions=OPEN, high_watermark=101, last_stable_offset=10)
        assert outcome_of(self.frozen, closed, accused, closed) is ClaimState.PENDING
        assert outcome_of(self.frozen, closed, replace(accused, high_watermark=102), closed) is ClaimState.CONFIRMED

    def test_others_that_have_not_reached_the_transaction_say_nothing(self) -> None:
        early = replica(1, high_watermark=10)
        accused = replica(2, open_transactions=OPEN, high_watermark=100)
        assert outcome_of(self.marker_missing, early, accused) is ClaimState.PENDING

    def test_others_that_do_not_list_producers_say_nothing(self) -> None:
        mute = replica(1, open_transactions=None, open_error="not authorized")
        assert outcome_of(self.marker_missing, mute, replica(2, open_transactions=OPEN)) is ClaimState.PENDING

    def test_open_on_all_that_answered_waits_for_those_that_did_not(self) -> None:
        got = outcome_of(
            self.marker_missing, replica(1, open_transactions=OPEN), replica(2, open_transactions=OPEN), silent(3)
        )
        assert got is ClaimState.PENDING

    def test_an_accused_that_does_not_list_producers_is_pending(self) -> None:
        mute = replica(2, open_transactions=None, open_error="not authorized")
        assert outcome_of(self.marker_missing, replica(1), mute, replica(3)) is ClaimState.PENDING

    def test_another_transaction_of_the_producer_is_not_this_one(self) -> None:
        later = (OpenTransaction(producer_id=PRODUCER, start_offset=50),)
        got = outcome_of(self.marker_missing, replica(1), replica(2, open_transactions=later), replica(3))
        assert got is ClaimState.DISMISSED

    def test_a_replica_whose_log_starts_above_the_transaction_never_closed_it(self) -> None:
        forgetful = replica(1, log_start_offset=11)
        accused = replica(2, open_transactions=OPEN)
        assert outcome_of(self.marker_missing, forgetful, accused, silent(3)) is ClaimState.PENDING
        everyone = answers(forgetful, accused, coordinator=CoordinatorAnswer(PRODUCER, "tx", "Ongoing"))
        assert decide(self.marker_missing, everyone).verdict is ClaimState.PENDING

    def test_one_that_goes_on_elsewhere_has_ended_here(self) -> None:
        forgetful = replica(1, asked_uncommitted={10})
        accused = replica(2, open_transactions=OPEN)
        for elsewhere, expected in ((False, ClaimState.PENDING), (True, ClaimState.CONFIRMED)):
            coordinator = CoordinatorAnswer(PRODUCER, "tx", "Ongoing", elsewhere=elsewhere)
            got = decide(self.marker_missing, answers(forgetful, accused, coordinator=coordinator))
            assert got.verdict is expected

    def test_where_no_replica_can_tell_the_coordinator_does(self) -> None:
        forgetful = replica(1, log_start_offset=11)
        ended = CoordinatorAnswer(PRODUCER, "tx", "CompleteCommit")
        accused = replica(2, open_transactions=OPEN)
        assert (
            decide(self.marker_missing, answers(forgetful, accused, coordinator=ended)).verdict is ClaimState.CONFIRMED
        )
        behind = replica(2, open_transactions=OPEN, high_watermark=99)
        assert decide(self.marker_missing, answers(forgetful, behind, coordinator=ended)).verdict is ClaimState.PENDING

    def test_a_replica_may_list_the_transaction_from_its_first_batch_on(self) -> None:
        earlier = (OpenTransaction(producer_id=PRODUCER, start_offset=8),)
        later = (OpenTransaction(producer_id=PRODUCER, start_offset=12),)
        for listed in (earlier, later):
            accused = replica(2, open_transactions=listed, last_stable_offset=listed[0].start_offset)
            assert outcome_of(self.marker_missing, replica(1), accused) is ClaimState.CONFIRMED
            everywhere = [replica(b, open_transactions=listed) for b in (1, 2)]
            assert outcome_of(self.marker_missing, *everywhere) is ClaimState.DISMISSED

    def test_a_frozen_claim_about_an_older_transaction_is_set_right(self) -> None:
        c = claim(FindingKind.READ_COMMITTED_FROZEN, offset=0, transaction_start_offset=0, marker_offset=1)
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        assert outcome_of(c, replica(1), pinned, replica(3)) is ClaimState.CONFIRMED
        right = named(c, answers(replica(1), pinned))
        assert (right.transaction_start_offset, right.marker_offset) == (10, -1)

    def test_a_claim_is_about_the_open_transaction_alone_if_another_may_have_ended_below_unread(self) -> None:
        several = {"offset": 0, "transaction_start_offset": 0, "marker_offset": 20, "key_hash_lo": 1}
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        for unproven, start in ((True, 10), (False, 0)):
            recorded = RecordedByViews(end_unproven=unproven, markers={1: "commit"}, outcomes={1: "committed"})
            c = claim(FindingKind.MARKER_MISSING, recorded=recorded, **several)
            right = named(c, answers(replica(1), pinned))
            assert (right.offset, right.transaction_start_offset, right.marker_offset) == (start, start, 20)
            assert (right.key is None, right.recorded.markers) == (unproven, {1: "commit"})
            found = replace(c, confirmed_at_ms=1)
            assert named(found, answers(replica(1), pinned)) == found
            assert outcome_of(c, replica(1), pinned) is ClaimState.CONFIRMED

    def test_a_frozen_finding_is_not_about_another_transaction_that_holds_its_replica_back_later(self) -> None:
        c = claim(FindingKind.READ_COMMITTED_FROZEN, offset=0, transaction_start_offset=0, marker_offset=1)
        found = replace(c, confirmed_at_ms=1)
        pinned = [replica(b, open_transactions=OPEN, last_stable_offset=10) for b in (1, 2, 3)]
        assert named(found, answers(*pinned)) == found
        got = decide(found, answers(*pinned), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.COMPACTED)

    def test_a_replica_that_lost_the_first_record_has_not_seen_the_end_where_nothing_is_compacted(self) -> None:
        held = {"asked_uncommitted": frozenset({10}), "uncommitted": {10: record()}}
        lost = replica(1, asked_uncommitted=frozenset({10}))
        pinned = [replica(b, open_transactions=OPEN, last_stable_offset=10, **held) for b in (2, 3)]
        c = replace(self.frozen, marker_offset=-1)
        assert decide(c, answers(lost, *pinned, leader=2)).verdict is ClaimState.CONFIRMED
        uncompacted = replace(c, recorded=RecordedByViews(uncompacted=True))
        assert decide(uncompacted, answers(lost, *pinned, leader=2)).verdict is ClaimState.DISMISSED
        assert decide(uncompacted, answers(lost, pinned[0], silent(3), leader=2)).verdict is ClaimState.PENDING
        for other in (replica(1, **held), replica(1)):
            assert decide(uncompacted, answers(other, *pinned, leader=2)).verdict is ClaimState.CONFIRMED

    def test_a_pinned_last_stable_offset_is_frozen(self) -> None:
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        got = decide(self.frozen, answers(replica(1), pinned, replica(3)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.READ_COMMITTED_FROZEN)

    def test_frozen_behind_a_record_that_was_cleaned_away_is_frozen_all_the_same(self) -> None:
        """Broker 2 lists the transaction from 10 on and stands at 11, the first offset that is left."""
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=11)
        got = decide(self.frozen, answers(replica(1), pinned, replica(3)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.READ_COMMITTED_FROZEN)
        older = claim(FindingKind.READ_COMMITTED_FROZEN, offset=0, transaction_start_offset=0, marker_offset=-1)
        assert named(older, answers(replica(1), pinned)).transaction_start_offset == 10

    def test_a_transaction_that_is_not_the_first_open_one_does_not_freeze(self) -> None:
        earlier = replace(OPEN[0], producer_id=PRODUCER + 1, start_offset=5)
        pinned = replica(2, open_transactions=(earlier, *OPEN), last_stable_offset=12)
        got = decide(self.frozen, answers(replica(1), pinned, replica(3)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.MARKER_MISSING)

    def test_the_coordinator_of_another_producer_ends_no_transaction(self) -> None:
        # What was claimed is over; a later one of another producer is open on all.
        later = (OpenTransaction(producer_id=PRODUCER + 1, start_offset=30),)
        held = [replica(b, open_transactions=later, last_stable_offset=30) for b in (1, 2, 3)]
        ended = CoordinatorAnswer(PRODUCER, "tx", "CompleteAbort")
        assert decide(self.frozen, answers(*held, coordinator=ended)).verdict is ClaimState.DISMISSED

    def test_the_coordinator_still_writing_markers_is_waited_for(self) -> None:
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        ending = CoordinatorAnswer(PRODUCER, "tx", "PrepareCommit")
        got = decide(self.frozen, answers(replica(1), pinned, replica(3), coordinator=ending))
        assert got.verdict is ClaimState.PENDING

    def test_a_frozen_claim_without_a_producer_takes_it_from_the_accused(self) -> None:
        nameless = claim(
            FindingKind.READ_COMMITTED_FROZEN, producer_id=-1, transaction_start_offset=-1, marker_offset=-1, offset=-1
        )
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        assert outcome_of(nameless, replica(1), pinned, replica(3)) is ClaimState.CONFIRMED
        unpinned = replica(2, open_transactions=())
        assert outcome_of(nameless, replica(1), unpinned, replica(3)) is ClaimState.DISMISSED
        unexplained = replica(2, open_transactions=(), last_stable_offset=10)
        assert outcome_of(nameless, replica(1), unexplained, replica(3)) is ClaimState.PENDING

    def test_any_claim_without_a_producer_is_about_the_transaction_that_holds_the_accused_back(self) -> None:
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        for kind in (FindingKind.MARKER_MISSING, FindingKind.READ_COMMITTED_FROZEN):
            for producer, start in ((-1, 10), (0, 0)):
                c = claim(kind, producer_id=producer, transaction_start_offset=0, confirmed_at_ms=1)
                right = named(c, answers(replica(1), pinned))
                assert right.transaction_start_offset == start
                assert right.producer_id == (PRODUCER if producer == -1 else 0)
                assert not right.renamed

    @pytest.mark.parametrize(("marker", "kept"), [(9, -1), (10, -1), (11, 11)])
    def test_the_end_marker_of_a_claim_that_is_set_right_lies_above_the_transaction(
        self, marker: int, kept: int
    ) -> None:
        c = claim(FindingKind.READ_COMMITTED_FROZEN, producer_id=-1, marker_offset=marker)
        pinned = replica(2, open_transactions=OPEN, last_stable_offset=10)
        assert named(c, answers(replica(1), pinned)).marker_offset == kept

    @pytest.mark.parametrize(("stable", "start"), [(9, 0), (10, 10), (99, 10), (100, 0)])
    def test_a_replica_is_held_back_where_its_last_stable_offset_stands_below_its_high_watermark(
        self, stable: int, start: int
    ) -> None:
        c = claim(FindingKind.READ_COMMITTED_FROZEN, offset=0, transaction_start_offset=0, marker_offset=1)
        accused = replica(2, open_transactions=OPEN, last_stable_offset=stable)
        assert named(c, answers(replica(1), accused)).transaction_start_offset == start

    def test_a_missed_marker_freezes_if_it_alone_holds_the_last_stable_offset(
        self,
    ) -> None:
        long = (OpenTransaction(PRODUCER + 1, 3), *OPEN)
        for held, stable, kind in (
            (OPEN, 10, FindingKind.READ_COMMITTED_FROZEN),
            (OPEN, 12, FindingKind.READ_COMMITTED_FROZEN),  # The cleaner has taken its first records.
            (OPEN, 100, FindingKind.MARKER_MISSING),  # Asked a moment earlier, or known to the listing alone.
            (long, 3, FindingKind.MARKER_MISSING),
        ):
            accused = replica(2, open_transactions=held, last_stable_offset=stable)
            got = decide(self.marker_missing, answers(replica(1), accused, replica(3)))
            assert verdict(got) == (ClaimState.CONFIRMED, kind)

    def test_a_recorded_marker_that_is_the_only_proof_says_of_a_frozen_one_that_it_is_frozen(self) -> None:
        accused = replica(2, open_transactions=OPEN, last_stable_offset=10)
        trimmed = replica(1, log_start_offset=40)
        for kind in (FindingKind.MARKER_MISSING, FindingKind.READ_COMMITTED_FROZEN):
            c = claim(kind, recorded=RecordedByViews(markers={1: "commit"}))
            got = decide(c, answers(trimmed, accused))
            assert (*verdict(got), got.sides) == (
                ClaimState.CONFIRMED,
                FindingKind.READ_COMMITTED_FROZEN,
                parsed({"ended, as it was read": (1,), "open": (2,)}),
            )
            unplaced = replace(c, marker_offset=-1)
            assert outcome_of(unplaced, trimmed, accused) is ClaimState.PENDING, "nobody knows where it was"

    def test_one_whose_end_the_leaders_log_alone_does_not_show_while_another_is_away_hangs(self) -> None:
        held = [replica(b, open_transactions=OPEN, last_stable_offset=10) for b in (1, 2)]
        ended = CoordinatorAnswer(PRODUCER, "tx", "CompleteAbort")
        for c in (self.frozen, self.marker_missing):
            assert decide(c, answers(*held, silent(3), coordinator=ended)).has_spread
            assert decide(c, answers(*held, silent(3), coordinator=ended, leader=3)).verdict is ClaimState.PENDING
            of_a_finding = decide(c, answers(*held, silent(3), coordinator=ended), live_only=True)
            assert of_a_finding.verdict is ClaimState.CONFIRMED
            assert not decide(c, answers(*held, silent(3))).has_spread, "nobody says that it has ended"

    def test_one_that_another_replica_has_closed_does_not_hang_everywhere_though_one_is_away(self) -> None:
        held = [replica(b, open_transactions=OPEN, last_stable_offset=10) for b in (1, 2)]
        ended = CoordinatorAnswer(PRODUCER, "tx", "CompleteAbort")
        got = decide(self.frozen, answers(*held, silent(3), replica(4), coordinator=ended))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.READ_COMMITTED_FROZEN)
        assert got.sides == parsed({"open": (1, 2), "ended": (4,)})

    def test_a_marker_whose_place_is_known_is_not_waited_for_though_others_are_being_written(self) -> None:
        accused = replica(2, open_transactions=OPEN, last_stable_offset=10)
        writing = CoordinatorAnswer(PRODUCER, "tx", "PrepareCommit")
        assert (
            decide(self.marker_missing, answers(replica(1), accused, coordinator=writing)).verdict
            is ClaimState.CONFIRMED
        )

    def test_two_that_cannot_say_whether_it_is_open_are_both_named(self) -> None:
        mute = [replica(b, open_transactions=None, open_error="not authorized") for b in (1, 3)]
        got = decide(self.marker_missing, answers(*mute, replica(2, open_transactions=OPEN)))
        assert got.reason == "brokers 1 and 3 cannot say whether the transaction is open"

    def test_those_that_list_it_as_open_say_so_though_their_logs_begin_above_its_first_record(self) -> None:
        held = [replica(b, open_transactions=OPEN, log_start_offset=11, last_stable_offset=11) for b in (1, 2, 3)]
        got = decide(self.frozen, answers(*held))
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
        got = decide(self.frozen, answers(*held, replica(4, log_start_offset=11)))
        assert (got.verdict, got.reason) == (
            ClaimState.PENDING,
            "broker 4 cannot say whether the transaction is open",
        )


class TestMarkerMissingThatEnded:
    """The transaction is no longer open on the accused: a later marker of the producer ended it there."""

    c = claim(FindingKind.MARKER_MISSING, recorded=RecordedByViews(markers={1: "abort", 3: "abort"}))

    def test_ended_the_wrong_way_round_is_confirmed_as_what_it_became(self) -> None:
        got = decide(self.c, answers(replica(1), holding(2, "committed"), replica(3)))
        assert verdict(got) == (ClaimState.CONFIRMED, FindingKind.ABORTED_RECORD_COMMITTED)

    def test_ended_the_right_way_is_dismissed(self) -> None:
        assert outcome_of(self.c, replica(1), holding(2, "aborted"), replica(3)) is ClaimState.DISMISSED

    def test_a_healthy_replica_that_cleaned_before_it_was_read_is_dismissed(self) -> None:
        assert outcome_of(self.c, replica(1), replica(2, asked=frozenset({10})), replica(3)) is ClaimState.DISMISSED

    def test_not_decided_yet_is_pending(self) -> None:
        undecided = replica(2, last_stable_offset=10)
        assert outcome_of(self.c, replica(1), undecided, replica(3)) is ClaimState.PENDING


class TestWhoIsNamed:
    """Sides and reasons name each replica with what it shows itself."""

    def test_one_that_is_frozen_as_well_is_named_so(self) -> None:
        frozen = claim(FindingKind.READ_COMMITTED_FROZEN)
        stuck = [replica(b, open_transactions=OPEN, last_stable_offset=10) for b in (2, 3)]
        got = decide(frozen, answers(replica(1), *stuck))
        assert (got.verdict, got.sides) == (ClaimState.CONFIRMED, parsed({"ended": (1,), "open": (2, 3)}))
        assert "open at offset 10 on brokers 2 and 3, ended on broker 1" in got.reason

    def test_one_that_committed_it_as_well_is_no_witness(self) -> None:
        c = claim(FindingKind.ABORTED_RECORD_COMMITTED)
        given = [holding(b, "committed" if b in (2, 5) else "aborted") for b in (1, 2, 5)]
        got = decide(c, answers(*given))
        assert (got.sides, got.witnesses) == (parsed({"aborted": (1,), "committed": (2, 5)}), (1,))
