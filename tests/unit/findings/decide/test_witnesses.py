"""What was shown of a log that was truncated since accuses nobody of what took its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.answers import Answers, MarkerShown, ReplicaAnswer
from parallax.findings.claim import Claim, Recorded
from parallax.findings.decide import Decision, Verdict, decide
from parallax.findings.decide.case import Case, is_of_another_epoch, is_truncated
from parallax.model import NOBODY, FindingKind, Rule
from tests.unit.findings.decide.answered import OPEN, PID, answers, claim, holding, record, replica, shows, silent

EPOCH = 4
"""In which the marker, or the tombstone, was shown."""


KNOWN = frozenset({EPOCH})


def known(broker: int, end: int, **fields: Any) -> ReplicaAnswer:
    """A replica whose log has held records of the epoch."""
    return replica(broker, epoch_ends={EPOCH: end}, epochs_known=KNOWN, **fields)


@pytest.mark.parametrize(
    ("end", "log_end", "another"),
    [
        (20, 100, True),
        (21, 100, False),
        (100, 100, False),
        (None, 100, True),
        (None, 20, False),
        (20, 20, False),
        (15, 20, True),
    ],
    ids=[
        "a newer one begins there",
        "begins above",
        "is the last",
        "none as new",
        "it is behind",
        "it ends there",
        "a newer one begins before its end",
    ],
)
def test_a_log_is_another_where_a_newer_epoch_begins_at_the_offset_or_below(
    end: int | None, log_end: int, another: bool
) -> None:
    asked = replica(2, epoch_ends={EPOCH: end}, log_end_offset=log_end)
    assert is_of_another_epoch(asked, 20, EPOCH) is another
    assert not is_of_another_epoch(asked, 20, EPOCH + 1), "it was not asked for"


def test_another_log_tells_of_a_newer_epoch_that_was_cleaned_before_the_accused_copied_it() -> None:
    def judged(accused: ReplicaAnswer, other: ReplicaAnswer) -> bool:
        case = Case(claim(FindingKind.MARKER_MISSING), accused, [other], [], Answers({}), False)
        return is_truncated(case, 20, EPOCH)

    above, below = known(2, 30), known(1, 15)
    assert judged(above, below)
    assert judged(below, above)
    assert not judged(above, above)
    assert not judged(above, replica(1, epoch_ends={EPOCH: None})), "it may be behind the others"


class TestWhoHasHeldIt:
    """What is recorded at 20 of epoch 4 counts against the accused only where a log that may stand has held it."""

    unknowing = replica(2, epoch_ends={EPOCH: 30})

    def counts(self, *replicas: ReplicaAnswer, leader: int = 1, isr: tuple[int, ...] = ()) -> bool:
        asked = [r for r in replicas if r.error is None]
        absent = [r for r in replicas if r.error is not None]
        around = Answers({}, leader=leader, isr=isr)
        return not is_truncated(
            Case(claim(FindingKind.MARKER_MISSING), asked[0], asked[1:], absent, around, False), 20, 4
        )

    def test_a_log_that_knows_only_an_older_and_a_newer_epoch_has_not(self) -> None:
        assert not self.counts(self.unknowing, replace(self.unknowing, broker=1))

    def test_the_accused_the_leader_or_one_in_sync_bear_witness_and_no_other(self) -> None:
        assert self.counts(known(2, 30))
        assert self.counts(self.unknowing, known(1, 30))
        assert self.counts(self.unknowing, known(3, 30), isr=(1, 3))
        assert not self.counts(self.unknowing, known(3, 30), isr=(1, 2))
        assert not self.counts(self.unknowing, known(1, 20, log_end_offset=20)), "its log ends there"

    @pytest.mark.parametrize(
        ("fields", "counts"),
        [({"epochs_at": {20: EPOCH}}, True), ({"epochs_at": {20: EPOCH + 1}}, False), ({}, False)],
        ids=["a batch of the epoch above", "of a newer one", "none read"],
    )
    def test_where_one_is_not_reached_that_may_know_better_a_batch_of_the_epoch_is_wanted(
        self, fields: Any, counts: bool
    ) -> None:
        assert self.counts(known(2, 30, **fields), silent(1)) is counts
        assert self.counts(known(2, 30, **fields), replica(1))
        assert self.counts(known(2, 100, **fields), silent(1)), "the log goes on in that epoch"

    def test_a_record_that_is_shown_is_one_of_its_epoch(self) -> None:
        shown = record(20, leader_epoch=EPOCH)
        other = replace(shows(1, shown), epoch_ends={EPOCH: 30}, epochs_known=KNOWN)
        assert self.counts(self.unknowing, other, silent(3))


class TestTransaction:
    """The marker at 20 of epoch 4 was recorded of others; the accused holds the transaction from 10 on."""

    c = claim(
        FindingKind.COMMITTED_RECORD_ABORTED,
        recorded=Recorded(outcomes={1: "committed", 2: "aborted"}, markers={1: "commit"}, leader_epoch=EPOCH),
    )
    standing: Any = {"epoch_ends": {EPOCH: 100}, "epochs_known": KNOWN}  # noqa: RUF012 - never written to
    another: Any = {"epoch_ends": {EPOCH: 20}}  # noqa: RUF012 - never written to

    def judged(self, c: Claim, *replicas: ReplicaAnswer) -> Decision:
        return decide(c, answers(*replicas))

    def test_an_outcome_that_another_leader_gave_is_no_fault_of_its_replica(self) -> None:
        other = holding(1, "committed")
        got = self.judged(self.c, other, holding(2, "aborted", **self.another), silent(3))
        assert (got.verdict, got.kind, got.accused) == (Verdict.CONFIRMED, FindingKind.VISIBILITY_MISMATCH, NOBODY)
        assert got.sides == {"aborted": (2,), "committed": (1,)}
        # Of those that cannot be asked nobody knows whether they have truncated their logs.
        got = self.judged(self.c, silent(1), holding(2, "aborted", **self.another), silent(3))
        assert got.verdict is Verdict.PENDING
        got = self.judged(self.c, silent(1), holding(2, "aborted", **self.standing), silent(3))
        assert (got.kind, got.accused) == (FindingKind.COMMITTED_RECORD_ABORTED, 2)

    @pytest.mark.parametrize(
        ("place", "counts"),
        [
            ({"uncommitted": {20: record(20)}}, False),
            ({"markers": (MarkerShown(20, PID + 1, "commit"),)}, False),
            ({"markers": (MarkerShown(20, PID, "commit"),)}, True),
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
        assert got.verdict is Verdict.DISMISSED
        assert not got.has_spread

    def test_one_that_holds_it_open_lacks_no_marker_of_its_own_log(self) -> None:
        c = replace(self.c, kind=FindingKind.MARKER_MISSING)
        accused = replica(2, open_transactions=OPEN, **self.another)
        assert self.judged(c, silent(1), accused, silent(3)).verdict is Verdict.PENDING
        others = (replica(b, open_transactions=OPEN) for b in (1, 3))
        assert self.judged(c, accused, *others).verdict is Verdict.DISMISSED

    def test_one_that_holds_it_open_where_others_end_it_now_lacks_their_marker_whatever_was_recorded(self) -> None:
        c = replace(self.c, kind=FindingKind.MARKER_MISSING)
        nowhere: Any = {"epoch_ends": {EPOCH: 30}}
        accused = replica(2, open_transactions=OPEN, **nowhere)
        got = self.judged(c, replica(1, **nowhere), accused, replica(3, **nowhere))
        assert (got.verdict, got.kind, got.accused) == (Verdict.CONFIRMED, FindingKind.MARKER_MISSING, 2)

    def test_an_accused_that_is_behind_those_that_ended_it_is_waited_for_though_the_marker_was_truncated(self) -> None:
        c = replace(self.c, kind=FindingKind.MARKER_MISSING)
        accused = replica(2, open_transactions=OPEN, high_watermark=50, **self.another)
        got = self.judged(c, replica(1), accused, replica(3))
        assert got.verdict is Verdict.PENDING
        assert "not caught up" in got.reason

    def test_one_that_shows_the_truncated_marker_does_not_accuse_who_holds_the_transaction_open(self) -> None:
        c = replace(self.c, kind=FindingKind.MARKER_MISSING)
        accused = replica(2, open_transactions=OPEN, uncommitted={20: record(20)}, **self.standing)
        ended = replica(1, markers=(MarkerShown(20, PID, "commit"),), **self.standing)
        assert self.judged(c, ended, accused, silent(3)).verdict is Verdict.PENDING
        assert self.judged(c, replica(1, **self.standing), accused, silent(3)).verdict is Verdict.CONFIRMED

    def test_one_that_is_away_may_have_held_it_where_nobody_else_is_seen_to_have(self) -> None:
        nowhere: Any = {"epoch_ends": {EPOCH: 30}, "log_end_offset": 100}
        accused = replica(2, **nowhere)
        got = self.judged(self.c, replica(1, **nowhere), accused, silent(3))
        assert got.verdict is Verdict.PENDING
        assert "3 may know" in got.reason
        assert self.judged(self.c, replica(1, **nowhere), accused, replica(3, **nowhere)).verdict is Verdict.DISMISSED
        replaced = replica(2, epoch_ends={EPOCH: 20}, log_end_offset=100)
        assert self.judged(self.c, replica(1, **nowhere), replaced, silent(3)).verdict is Verdict.DISMISSED

    def test_without_an_epoch_the_marker_counts(self) -> None:
        c = replace(self.c, recorded=replace(self.c.recorded, leader_epoch=-1))
        assert self.judged(c, silent(1), holding(2, "aborted", **self.another), silent(3)).accused == 2


class TestValue:
    tombstone = claim(
        FindingKind.DELETED_RECORD_RESURRECTED,
        rule=Rule.LATEST_VALUE,
        offset=50,
        producer_id=-1,
        transaction_start_offset=-1,
        marker_offset=-1,
        key_hash_lo=7,
        recorded=Recorded(leader_epoch=EPOCH),
    )
    differs = replace(
        tombstone, kind=FindingKind.VISIBILITY_MISMATCH, broker=NOBODY, recorded=Recorded(sides={"": (2,)}, pivot=2)
    )

    def old(self, broker: int, end: int) -> ReplicaAnswer:
        return shows(broker, record(30, producer_id=-1), epoch_ends={EPOCH: end}, epochs_known=KNOWN)

    @pytest.mark.parametrize(("end", "accused"), [(50, NOBODY), (51, 2)])
    def test_a_tombstone_that_was_recorded(self, end: int, accused: int) -> None:
        got = decide(self.tombstone, answers(shows(1, None), self.old(2, end), shows(3, None)))
        assert (got.verdict, got.accused) == (Verdict.CONFIRMED, accused)

    @pytest.mark.parametrize(("end", "accused"), [(60, NOBODY), (61, 2)])
    def test_a_tombstone_that_another_shows(self, end: int, accused: int) -> None:
        shown = record(60, producer_id=-1, value_size=-1, leader_epoch=EPOCH)
        c = replace(self.tombstone, recorded=Recorded(), producer_id=PID)
        got = decide(c, answers(shows(1, shown), self.old(2, end), shows(3, shown)))
        assert (got.verdict, got.accused) == (Verdict.CONFIRMED, accused)

    @pytest.mark.parametrize(("end", "accused"), [(60, NOBODY), (61, 2)])
    def test_a_newer_value_that_another_shows(self, end: int, accused: int) -> None:
        newer = record(60, producer_id=-1, leader_epoch=EPOCH)
        got = decide(self.differs, answers(shows(1, newer), self.old(2, end), shows(3, newer)))
        assert (got.verdict, got.accused) == (Verdict.CONFIRMED, accused)

    @pytest.mark.parametrize(("end", "accused"), [(50, NOBODY), (51, 1)])
    def test_a_newer_value_that_the_one_asked_last_shows(self, end: int, accused: int) -> None:
        newer = record(50, producer_id=-1, leader_epoch=EPOCH)
        got = decide(self.differs, answers(self.old(1, end), shows(2, newer), shows(3, newer)))
        assert (got.verdict, got.accused) == (Verdict.CONFIRMED, accused)
