"""What was shown of a log that was truncated since accuses nobody of what took its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.answers import ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, Decision, decide
from parallax.model import NOBODY, FindingKind
from parallax.sides import parsed
from tests.builders.answers import OPEN, PRODUCER, answers, holding, marker, record, replica, shows, silent
from tests.builders.claims import claim, of_key

EPOCH = 4
"""In which the marker, or the tombstone, was shown."""


KNOWN = frozenset({EPOCH})


class TestTransaction:
    """The marker at 20 of epoch 4 was recorded of others; the accused holds the transaction from 10 on."""

    c = claim(
        FindingKind.COMMITTED_RECORD_ABORTED,
        recorded=RecordedByViews(outcomes={1: "committed", 2: "aborted"}, markers={1: "commit"}, leader_epoch=EPOCH),
    )
    standing: Any = {"epoch_ends": {EPOCH: 100}, "epochs_known": KNOWN}  # noqa: RUF012 - never written to
    another: Any = {"epoch_ends": {EPOCH: 20}}  # noqa: RUF012 - never written to

    def judged(self, c: Claim, *replicas: ReplicaAnswer) -> Decision:
        return decide(c, answers(*replicas))

    def test_an_outcome_that_another_leader_gave_is_no_fault_of_its_replica(self) -> None:
        other = holding(1, "committed")
        got = self.judged(self.c, other, holding(2, "aborted", **self.another), silent(3))
        assert (got.verdict, got.kind, got.accused) == (ClaimState.CONFIRMED, FindingKind.VISIBILITY_MISMATCH, NOBODY)
        assert got.sides == parsed({"aborted": (2,), "committed": (1,)})
        # Of those that cannot be asked nobody knows whether they have truncated their logs.
        got = self.judged(self.c, silent(1), holding(2, "aborted", **self.another), silent(3))
        assert got.verdict is ClaimState.PENDING
        got = self.judged(self.c, silent(1), holding(2, "aborted", **self.standing), silent(3))
        assert (got.kind, got.accused) == (FindingKind.COMMITTED_RECORD_ABORTED, 2)

    @pytest.mark.parametrize(
        ("place", "counts"),
        [
            ({"uncommitted": {20: record(20)}}, False),
            ({"markers": (marker(20, "commit", PRODUCER + 1),)}, False),
            ({"markers": (marker(20, "commit"),)}, True),
        ],
        ids=["a record", "another's marker", "the marker"],
    )
    def test_what_lies_in_its_place_tells_as_well(self, place: Any, counts: bool) -> None:
        # A log may have been replaced by one of an older epoch.
        accused = holding(2, "aborted", **self.standing)
        got = self.judged(self.c, replica(1), accused, replace(holding(3, "committed", **self.standing), **place))
        assert (got.accused == 2) is counts

    def test_where_all_show_that_outcome_nothing_differs(self) -> None:
        got = self.judged(self.c, *(holding(b, "aborted", **self.another) for b in (1, 2, 3)))
        assert got.verdict is ClaimState.DISMISSED
        assert not got.has_spread

    def test_one_that_holds_it_open_lacks_no_marker_of_its_own_log(self) -> None:
        c = replace(self.c, kind=FindingKind.MARKER_MISSING)
        accused = replica(2, open_transactions=OPEN, **self.another)
        assert self.judged(c, silent(1), accused, silent(3)).verdict is ClaimState.PENDING
        others = (replica(b, open_transactions=OPEN) for b in (1, 3))
        assert self.judged(c, accused, *others).verdict is ClaimState.DISMISSED

    def test_who_holds_open_what_others_end_now_lacks_their_marker_whatever_was_recorded(self) -> None:
        c = replace(self.c, kind=FindingKind.MARKER_MISSING)
        nowhere: Any = {"epoch_ends": {EPOCH: 30}}
        accused = replica(2, open_transactions=OPEN, **nowhere)
        got = self.judged(c, replica(1, **nowhere), accused, replica(3, **nowhere))
        assert (got.verdict, got.kind, got.accused) == (ClaimState.CONFIRMED, FindingKind.MARKER_MISSING, 2)

    def test_an_accused_behind_those_that_ended_it_is_waited_for_though_the_marker_was_cut(self) -> None:
        c = replace(self.c, kind=FindingKind.MARKER_MISSING)
        accused = replica(2, open_transactions=OPEN, high_watermark=50, **self.another)
        got = self.judged(c, replica(1), accused, replica(3))
        assert got.verdict is ClaimState.PENDING
        assert "not caught up" in got.reason

    def test_one_that_shows_the_truncated_marker_does_not_accuse_who_holds_the_transaction_open(self) -> None:
        c = replace(self.c, kind=FindingKind.MARKER_MISSING)
        accused = replica(2, open_transactions=OPEN, uncommitted={20: record(20)}, **self.standing)
        ended = replica(1, markers=(marker(20, "commit"),), **self.standing)
        assert self.judged(c, ended, accused, silent(3)).verdict is ClaimState.PENDING
        assert self.judged(c, replica(1, **self.standing), accused, silent(3)).verdict is ClaimState.CONFIRMED

    def test_one_that_is_away_may_have_held_it_where_nobody_else_is_seen_to_have(self) -> None:
        nowhere: Any = {"epoch_ends": {EPOCH: 30}, "log_end_offset": 100}
        accused = replica(2, **nowhere)
        got = self.judged(self.c, replica(1, **nowhere), accused, silent(3))
        assert got.verdict is ClaimState.PENDING
        assert "3 may know" in got.reason
        assert (
            self.judged(self.c, replica(1, **nowhere), accused, replica(3, **nowhere)).verdict is ClaimState.DISMISSED
        )
        replaced = replica(2, epoch_ends={EPOCH: 20}, log_end_offset=100)
        assert self.judged(self.c, replica(1, **nowhere), replaced, silent(3)).verdict is ClaimState.DISMISSED

    def test_without_an_epoch_the_marker_counts(self) -> None:
        c = replace(self.c, recorded=replace(self.c.recorded, leader_epoch=-1))
        assert self.judged(c, silent(1), holding(2, "aborted", **self.another), silent(3)).accused == 2


class TestValue:
    tombstone = of_key(FindingKind.DELETED_RECORD_RESURRECTED, offset=50, recorded=RecordedByViews(leader_epoch=EPOCH))
    differs = replace(
        tombstone,
        kind=FindingKind.VISIBILITY_MISMATCH,
        broker=NOBODY,
        recorded=RecordedByViews(sides=parsed({"": (2,)}), pivot=2),
    )

    def old(self, broker: int, end: int) -> ReplicaAnswer:
        return shows(broker, record(30, producer_id=-1), epoch_ends={EPOCH: end}, epochs_known=KNOWN)

    @pytest.mark.parametrize(("end", "accused"), [(50, NOBODY), (51, 2)])
    def test_a_tombstone_that_was_recorded(self, end: int, accused: int) -> None:
        got = decide(self.tombstone, answers(shows(1, None), self.old(2, end), shows(3, None)))
        assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, accused)

    @pytest.mark.parametrize(("end", "accused"), [(60, NOBODY), (61, 2)])
    def test_a_tombstone_that_another_shows(self, end: int, accused: int) -> None:
        shown = record(60, producer_id=-1, value_size=-1, leader_epoch=EPOCH)
        c = replace(self.tombstone, recorded=RecordedByViews(), producer_id=PRODUCER)
        got = decide(c, answers(shows(1, shown), self.old(2, end), shows(3, shown)))
        assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, accused)

    @pytest.mark.parametrize(("end", "accused"), [(60, NOBODY), (61, 2)])
    def test_a_newer_value_that_another_shows(self, end: int, accused: int) -> None:
        newer = record(60, producer_id=-1, leader_epoch=EPOCH)
        got = decide(self.differs, answers(shows(1, newer), self.old(2, end), shows(3, newer)))
        assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, accused)

    @pytest.mark.parametrize(("end", "accused"), [(50, NOBODY), (51, 1)])
    def test_a_newer_value_that_the_one_asked_last_shows(self, end: int, accused: int) -> None:
        newer = record(50, producer_id=-1, leader_epoch=EPOCH)
        got = decide(self.differs, answers(self.old(1, end), shows(2, newer), shows(3, newer)))
        assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, accused)
