"""What a probe's answers prove of the record at one offset."""

from __future__ import annotations

from dataclasses import replace

from parallax.findings.claim import RecordedByViews
from parallax.findings.decide import ClaimState, decide
from parallax.model import NOBODY, FindingKind
from parallax.sides import parsed
from tests.builders.answers import PRODUCER, answers, marker, record, replica, silent
from tests.builders.claims import of_offset
from tests.unit.findings.decide.answered import outcome_of


class TestContent:
    c = of_offset(FindingKind.CONTENT_MISMATCH)

    def test_two_records_at_one_offset_are_confirmed(self) -> None:
        one = replica(1, uncommitted={10: record(content_hash="aa")})
        two = replica(2, uncommitted={10: record(content_hash="bb")})
        assert outcome_of(self.c, one, two) is ClaimState.CONFIRMED
        assert outcome_of(self.c, one, replace(one, broker=2)) is ClaimState.DISMISSED

    def test_another_leader_epoch_or_outcome_is_the_same_record(self) -> None:
        one = replica(1, uncommitted={10: record(leader_epoch=1)})
        two = replica(2, uncommitted={10: record(leader_epoch=2, outcome="undecided")})
        assert outcome_of(self.c, one, two) is ClaimState.DISMISSED

    def test_a_record_that_only_the_accused_holds_is_not_proof(self) -> None:
        two = replica(2, uncommitted={10: record()})
        assert outcome_of(self.c, replica(1), two) is ClaimState.DISMISSED
        assert outcome_of(self.c, silent(1), two) is ClaimState.PENDING

    def test_a_replica_below_the_offset_is_waited_for_and_open_transactions_hold_nothing_back(self) -> None:
        two = replica(2, uncommitted={10: record()})
        assert outcome_of(self.c, replica(1, high_watermark=10, last_stable_offset=10), two) is ClaimState.PENDING
        assert outcome_of(self.c, replica(1, high_watermark=11, last_stable_offset=10), two) is ClaimState.DISMISSED

    def test_so_is_the_one_that_was_asked_last(self) -> None:
        one = replica(1, uncommitted={10: record()})
        for mark, found in ((10, ClaimState.PENDING), (11, ClaimState.DISMISSED)):
            assert outcome_of(self.c, one, replica(2, high_watermark=mark, last_stable_offset=10)) is found

    def test_those_that_hold_the_same_wait_for_one_that_was_read_to_hold_otherwise(self) -> None:
        c = replace(
            self.c,
            broker=NOBODY,
            recorded=RecordedByViews(sides=parsed({"record a": (1,), "record b": (2, 3)}), pivot=2),
        )
        held = [replica(b, uncommitted={10: record()}) for b in (1, 2, 3)]
        assert outcome_of(c, silent(1), *held[1:]) is ClaimState.PENDING
        assert outcome_of(c, *held) is ClaimState.DISMISSED
        assert outcome_of(c, *held, silent(4)) is ClaimState.DISMISSED, "it was never read to hold anything there"

    def test_what_is_held_no_more_proves_nothing_for_the_log_may_have_been_replaced_since(self) -> None:
        c = replace(self.c, recorded=RecordedByViews(records={1: "aa", 2: "bb", 3: "aa"}))
        assert outcome_of(c, replica(1), replica(2)) is ClaimState.DISMISSED

    def test_how_many_hold_a_record_does_not_say_that_it_is_right(self) -> None:
        aa, bb = ({10: record(content_hash=text)} for text in ("aa", "bb"))
        c = replace(self.c, broker=NOBODY, recorded=RecordedByViews(pivot=2))
        given = replica(1, uncommitted=aa), replica(2, uncommitted=bb), replica(3, uncommitted=aa)
        got = decide(c, answers(*given))
        assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, NOBODY)
        assert sorted(got.sides.values()) == [(1, 3), (2,)]

    def test_a_replica_that_holds_what_a_newer_epoch_has_written_again_is_stale(self) -> None:
        old, new = record(content_hash="aa", leader_epoch=1), record(content_hash="bb", leader_epoch=2)
        for pivot in (1, 2, 3):
            c = replace(self.c, broker=NOBODY, recorded=RecordedByViews(pivot=pivot))
            got = decide(c, answers(*(replica(b, uncommitted={10: new if b != 2 else old}) for b in (1, 2, 3))))
            assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, 2)
            # The leader alone holds what is right; that two are stale is no finding on one of them.
            got = decide(c, answers(*(replica(b, uncommitted={10: new if b == 2 else old}) for b in (1, 2, 3))))
            assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, NOBODY)

    def test_a_newer_epoch_that_the_leaders_log_does_not_hold_accuses_nobody(self) -> None:
        # An unclean election may have elected a log that never held what the newer epoch wrote.
        old, new = record(content_hash="aa", leader_epoch=3), record(content_hash="bb", leader_epoch=5)
        given = replica(1, uncommitted={10: old}), replica(3, uncommitted={10: new})
        c = replace(self.c, broker=NOBODY, recorded=RecordedByViews(pivot=1))
        for second, leader in ((silent(2), 1), (silent(2), 2), (replica(2), 2), (silent(2), NOBODY)):
            got = decide(c, answers(*given, second, leader=leader))
            assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, NOBODY)
        assert decide(c, answers(*given, silent(2), leader=3)).accused == 1

    def test_epochs_that_are_the_same_or_not_known_give_no_direction(self) -> None:
        for epochs in ((2, 2), (-1, 2), (2, -1)):
            one, two = (record(content_hash=str(e) + t, leader_epoch=e) for e, t in zip(epochs, "ab", strict=True))
            got = decide(self.c, answers(replica(1, uncommitted={10: one}), replica(2, uncommitted={10: two})))
            assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, NOBODY)

    def test_unlike_end_markers_at_one_offset_differ_in_content_whoever_is_asked_last(self) -> None:
        given = (
            replica(1, markers=(marker(10, "commit"),)),
            replica(2, markers=(marker(10),)),
            replica(3, markers=(marker(10, "commit"), marker(12))),
        )
        for pivot in (1, 2, 3):
            got = decide(replace(self.c, broker=NOBODY, recorded=RecordedByViews(pivot=pivot)), answers(*given))
            assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, NOBODY)
            assert got.sides == parsed(
                {
                    f"abort marker of producer {PRODUCER}": (2,),
                    f"commit marker of producer {PRODUCER}": (1, 3),
                }
            )

    def test_two_that_hold_the_same_are_not_waited_on_a_third_that_is_behind(self) -> None:
        one, two = (replica(b, uncommitted={10: record()}) for b in (1, 2))
        assert outcome_of(self.c, one, two, replica(3, high_watermark=10)) is ClaimState.DISMISSED

    def test_epoch_0_is_an_epoch(self) -> None:
        new, old = (record(content_hash=str(e), leader_epoch=e) for e in (1, 0))
        got = decide(self.c, answers(replica(1, uncommitted={10: new}), replica(2, uncommitted={10: old})))
        assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, 2)
        assert "leader epoch 0, and the leader's log what epoch 1" in got.reason

    def test_one_whose_epoch_is_not_known_or_that_holds_a_marker_is_not_older_than_the_leader(self) -> None:
        new = replica(1, uncommitted={10: record(content_hash="new", leader_epoch=1)})
        unknown = replica(2, uncommitted={10: record(content_hash="old", leader_epoch=-1)})
        for other in (unknown, replica(2, markers=(marker(10, "commit"),))):
            got = decide(self.c, answers(new, other))
            assert (got.verdict, got.accused) == (ClaimState.CONFIRMED, NOBODY)

    def test_two_unlike_records_of_the_newest_epoch_say_nothing_of_one_of_an_older(self) -> None:
        given = [("aa", 2), ("bb", 2), ("cc", 1)]
        held = [
            replica(b, uncommitted={10: record(content_hash=text, leader_epoch=epoch)})
            for b, (text, epoch) in enumerate(given, 1)
        ]
        got = decide(self.c, answers(*held))
        assert (got.verdict, got.accused, len(got.sides)) == (ClaimState.CONFIRMED, NOBODY, 3)

    def test_a_side_is_named_by_the_first_digits_of_its_key_or_as_one_without(self) -> None:
        keyed = replica(1, uncommitted={10: record(key_hash="0123456789", content_hash="aa")})
        bare = replica(2, uncommitted={10: record(content_hash="aa")})
        got = decide(self.c, answers(keyed, bare))
        assert sorted(side.text.split(" of ")[0] for side in got.sides) == [
            "record 01234567/aa",
            "record without key/aa",
        ]

    def test_who_alone_holds_it_is_named(self) -> None:
        for holder, other in ((1, 2), (2, 1)):
            got = decide(self.c, answers(replica(holder, uncommitted={10: record()}), replica(other)))
            assert f"broker {holder} alone holds offset 10" in got.reason
