"""What a probe's answers prove of any kind, and why findings end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.findings.answers import Answers, MarkerShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, Resolution, decide
from parallax.model import FindingKind, Rule
from tests.builders.answers import OPEN, PRODUCER, answers, holding, record, replica, shows, silent
from tests.builders.claims import claim, of_offset
from tests.unit.findings.decide.answered import outcome_of


class TestAnyKind:
    @pytest.mark.parametrize("kind", list(FindingKind))
    def test_stays_pending_while_the_accused_cannot_be_asked(self, kind: FindingKind) -> None:
        assert outcome_of(claim(kind, key_hash_lo=1), replica(1), silent(2), replica(3)) is ClaimState.PENDING

    @pytest.mark.parametrize("kind", list(FindingKind))
    def test_is_dismissed_when_its_object_is_gone(self, kind: FindingKind) -> None:
        assert decide(claim(kind), Answers({}, gone="the topic is deleted")).verdict is ClaimState.DISMISSED

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
                assert got is not ClaimState.CONFIRMED


class TestResolution:
    """A finding that does not stand any more: healed, or only without a trace."""

    c2a = claim(
        FindingKind.COMMITTED_RECORD_ABORTED,
        recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted", 3: "committed"}),
    )

    def resolution(self, c: Claim, *replicas: ReplicaAnswer) -> Resolution:
        got = decide(c, answers(*replicas), live_only=True)
        assert got.verdict is ClaimState.DISMISSED
        return got.resolution

    def test_replicas_that_agree_live_are_healed_where_the_accused_shows_the_end_marker(self) -> None:
        agree = [holding(b, "committed") for b in (1, 2, 3)]
        marker = MarkerShown(20, PRODUCER, "commit")
        ended = replace(agree[1], markers=(marker,))
        assert self.resolution(self.c2a, agree[0], ended, agree[2]) is Resolution.HEALED
        recorded = replace(self.c2a, recorded=RecordedByViews(markers={1: "commit"}))
        assert self.resolution(recorded, holding(1, "aborted"), ended, agree[2]) is Resolution.HEALED
        for other in (replace(marker, offset=30), replace(marker, producer_id=PRODUCER + 1)):
            agree[1] = replace(ended, markers=(other,))
            assert self.resolution(self.c2a, *agree) is Resolution.UNPROVEN, "its index may have been lost"

    def test_a_finding_that_had_spread_ends_so_as_well(self) -> None:
        agree = [holding(b, "committed") for b in (1, 2, 3)]
        c = claim(FindingKind.READ_COMMITTED_FROZEN, spread=True, recorded=RecordedByViews(markers={1: "commit"}))
        assert self.resolution(c, *agree) is Resolution.UNPROVEN

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
        c = of_offset(FindingKind.CONTENT_MISMATCH)
        assert self.resolution(c, replica(1), replica(2)) is Resolution.COMPACTED

    def test_a_wrong_outcome_that_all_replicas_were_copied_from_is_not_healed(self) -> None:
        agree = [holding(b, "aborted") for b in (1, 2, 3)]
        assert self.resolution(self.c2a, *agree) is Resolution.SPREAD
        c = replace(self.c2a, kind=FindingKind.MARKER_MISSING)
        assert self.resolution(c, *agree) is Resolution.AGREED, "nobody was read to end it"
        c = replace(c, recorded=RecordedByViews(markers={1: "abort"}))
        assert self.resolution(c, *agree) is Resolution.UNPROVEN, "a later transaction may be part of it there"

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

    @pytest.mark.parametrize(("others", "found"), [(None, Resolution.GONE), (record(10), Resolution.SPREAD)])
    def test_a_key_that_one_replica_shows_rightly_holds_no_finding_on_one_that_has_left(
        self, others: RecordShown | None, found: Resolution
    ) -> None:
        of_2 = claim(FindingKind.DELETED_RECORD_RESURRECTED, rule=Rule.LATEST_VALUE, offset=50, key_hash_lo=7)
        c = of_2.asked_last(1)
        left = [shows(1, record(10)), shows(3, others)]
        got = decide(c, replace(answers(*left), gone="broker 2 holds no replica", pivot=1), live_only=True)
        assert (got.verdict, got.resolution) == (ClaimState.DISMISSED, found)
        held_back = replace(left[0], last_stable_offset=5)
        got = decide(c, replace(answers(held_back, left[1]), gone="broker 2 holds no replica", pivot=1), live_only=True)
        assert (got.verdict is ClaimState.PENDING) == (others is not None), "1 may show the same"
