"""Logs that do not begin at the same offset: by retention, or because one of them lost its head."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from parallax.compare.observations import READ_COMMITTED
from parallax.model import ReadEvent, UnknownReason
from tests.unit.compare.history import (
    RC,
    RU,
    SETTINGS,
    Comparison,
    Row,
    both,
    everywhere,
    filler,
    record,
    shown,
    tick,
)

DIFFERS = UnknownReason.LOG_START_DIFFERS
ROWS = [record(i, f"k{i}", "V") for i in range(8)]
LONG = SETTINGS.grace_ms + 1


def progress(
    at: int, starts: Sequence[int] = (0, 0, 0), policy: str | None = "compact", down: tuple[int, ...] = ()
) -> list[Row]:
    """Progress of replicas whose logs begin at these offsets and reach to 8."""
    rows: list[Row] = []
    for row, start in zip(tick(at, everywhere(8), down=down), starts, strict=True):
        more: Row = {"log_start_offset": start} if row["reachable"] else {}
        if policy is not None:
            more |= {"compacted": int("compact" in policy), "deletes": int("delete" in policy), "policy_at": at}
        rows.append({**row, **more})
    return rows


def empty(rows: Sequence[Row], broker: int) -> list[Row]:
    """The same, but for one replica, whose log holds nothing."""
    nothing = dict.fromkeys(("high_watermark", "last_stable_offset", "log_end_offset"), 0)
    return [{**row, **nothing} if row["broker"] == broker else row for row in rows]


def unknown(comparison: Comparison) -> tuple[int, int]:
    assert comparison.last is not None
    return comparison.last.coverage.unknown_for(DIFFERS)


@pytest.fixture
def watched() -> Comparison:
    """A compacted topic of which all has been read on all replicas."""
    comparison = Comparison()
    comparison.feed(progress(0), *(both(b, ROWS, 8) for b in (1, 2, 3)))
    assert (comparison.suspects, unknown(comparison)) == ([], (0, 0))
    return comparison


class TestHeads:
    def test_a_head_that_all_logs_have_lost_is_told_by_ticks_that_say_the_same(self, watched: Comparison) -> None:
        assert watched.last is not None
        assert not watched.last.coverage.awaits_report
        watched.feed(progress(1000, (5, 5, 5)))
        assert (watched.kinds, watched.last.coverage.awaits_report) == ([], True)
        watched.feed(progress(1000 + LONG, (5, 5, 5)))
        assert (watched.kinds, watched.last.coverage.awaits_report) == ([("log_head_missing", 1)], False)

    def test_a_log_that_comes_to_begin_above_the_others_has_lost_its_head(self, watched: Comparison) -> None:
        watched.feed(progress(1000, (0, 5, 0)))
        assert watched.kinds == []
        assert unknown(watched) == (5, 5), "it is unknown before it is a suspect"
        watched.feed(progress(1000 + LONG, (0, 5, 0)))
        assert watched.kinds == [("log_head_missing", 2)]
        (suspect,) = watched.suspects
        assert (suspect.accusation.offset, suspect.cause) == (5, "head:5")
        assert suspect.accusation.observations == {"log_starts": {"1": 0, "2": 5, "3": 0}}
        watched.feed(progress(9000 + LONG, (0, 5, 0)))
        assert len(watched.suspects) == 1

    def test_one_that_begins_above_the_others_for_a_moment_is_no_suspect(self, watched: Comparison) -> None:
        watched.feed(progress(1000, (0, 5, 0)))
        watched.feed(progress(1000 + LONG - 2, (0, 5, 0)))
        watched.feed(progress(1000 + LONG, (0, 0, 0)))
        watched.feed(progress(1000 + 2 * LONG, (0, 0, 0)))
        assert watched.kinds == []

    def test_where_all_have_lost_it_the_one_that_was_seen_first_stands_for_all(self, watched: Comparison) -> None:
        watched.feed(progress(1000, (0, 5, 0)))
        watched.feed(progress(1001, (5, 5, 5)))
        assert watched.kinds == []
        for at in (1000 + LONG, 1001 + LONG, 1000 + 2 * LONG):
            watched.feed(progress(at, (5, 5, 5)))
        assert watched.kinds == [("log_head_missing", 2)]
        assert unknown(watched) == (5, 5)

    def test_while_one_cannot_be_reached_it_may_hold_the_head_still(self, watched: Comparison) -> None:
        for at in (1000, 1000 + LONG):
            watched.feed(progress(at, (0, 5, 5), down=(1,)))
        assert watched.kinds == []

    def test_of_a_topic_that_is_compacted_and_deletes_nobody_can_tell_a_loss_from_retention(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, policy="compact,delete"), *(both(b, ROWS, 8) for b in (1, 2, 3)))
        for at, starts, policy, expected in (
            (1000, (0, 5, 0), "compact,delete", (5, 5)),
            (1500, (3, 5, 0), "compact,delete", (5, 5)),
            (2000, (0, 5, 0), "delete", (0, 0)),
        ):
            comparison.feed(progress(at, starts, policy))
            assert comparison.last is not None
            assert comparison.last.coverage.unknown_for(UnknownReason.RETENTION_DIFFERS) == expected

    def test_what_all_have_lost_stays_unknown(self, watched: Comparison) -> None:
        """No policy deletes it, and no log holds it any more: the leader lost its head, and the others followed."""
        watched.feed(progress(1000, (5, 5, 5)))
        assert unknown(watched) == (5, 5)
        watched.feed(progress(2000, (0, 0, 0)))
        assert unknown(watched) == (0, 0)

    @pytest.mark.parametrize("known", [True, False])
    @pytest.mark.parametrize("ticks", [1, 5])
    def test_a_log_that_is_empty_yet_holds_no_head_that_the_others_could_have_lost(
        self, known: bool, ticks: int
    ) -> None:
        """Its disk was replaced: it begins at 0 until the leader has told where its own log does."""
        comparison = Comparison()
        policy = "compact" if known else None
        begins = {"log_start_offset": 5}
        readings = [shown(v, b, ROWS[5:], 8, **begins) for b in (1, 2, 3) for v in (RU, RC)]
        comparison.feed(progress(0, (5, 5, 5), policy), *readings)
        for n in range(1, 1 + ticks):
            comparison.feed(empty(progress(n * LONG, (5, 5, 0), policy), 3))
            assert (comparison.kinds, unknown(comparison)) == ([], (0, 0))
        for n in range(6, 10):
            comparison.feed(progress(n * LONG, (5, 5, 5)))
        assert comparison.last is not None
        assert (comparison.kinds, unknown(comparison)) == ([], (0, 0))
        assert comparison.last.coverage.unknown_for(UnknownReason.SKIPPED) == (0, 0)

    def test_a_head_that_was_seen_is_missed_though_one_log_is_empty(self, watched: Comparison) -> None:
        for at in (1000, 1000 + LONG):
            watched.feed(empty(progress(at, (5, 5, 0)), 3))
        assert watched.kinds == [("log_head_missing", 1)]

    def test_where_every_log_is_empty_the_one_of_them_that_was_seen_first_stands_for_all(
        self, watched: Comparison
    ) -> None:
        for at in (1000, 1000 + LONG):
            watched.feed([{**row, "log_start_offset": 8} for row in progress(at)])
        assert watched.kinds == [("log_head_missing", 1)]

    def test_it_is_reported_of_a_log_that_began_above_the_others_before_it_was_watched(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, (0, 5, 0)), both(1, ROWS, 8), both(2, ROWS[5:], 8), both(3, ROWS, 8))
        comparison.feed(progress(LONG, (0, 5, 0)))
        assert comparison.kinds == [("log_head_missing", 2)]

    @pytest.mark.parametrize("policy", ["compact,delete", "delete"])
    def test_where_the_policy_deletes_logs_may_begin_anywhere(self, policy: str) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, policy=policy), *(both(b, ROWS, 8) for b in (1, 2, 3)))
        for at in (1000, 1000 + LONG):
            comparison.feed(progress(at, (0, 5, 0), policy))
        assert (comparison.kinds, unknown(comparison)) == ([], (0, 0))

    def test_what_was_deleted_while_the_policy_did_so_is_explained_for_good(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, (0, 5, 0), "compact,delete"), *(both(b, ROWS[5:], 8) for b in (1, 2, 3)))
        for at in (1000, 1000 + LONG):
            comparison.feed(progress(at, (0, 5, 0)))
        assert (comparison.kinds, unknown(comparison)) == ([], (0, 0))
        for at in (9000, 9000 + LONG):
            comparison.feed(progress(at, (0, 7, 0)))
        assert comparison.kinds == [("log_head_missing", 2)]
        assert unknown(comparison) == (2, 2)

    @pytest.mark.parametrize("between", [1000, 86_400_000], ids=["while watched", "while the job was down"])
    def test_what_was_deleted_just_before_the_policy_ceased_to_is_explained(self, between: int) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, policy="compact,delete"), *(both(b, ROWS, 8) for b in (1, 2, 3)))
        for at in (between, between + LONG):
            comparison.feed(progress(at, (3, 5, 3)))
        assert (comparison.kinds, unknown(comparison)) == ([], (0, 0))
        for at in (between + 2 * LONG, between + 3 * LONG):
            comparison.feed(progress(at, (3, 7, 3)))
        assert comparison.kinds == [("log_head_missing", 2)]

    def test_where_the_policy_is_not_known_it_is_unknown(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, (0, 5, 0), None), both(1, ROWS, 8), both(2, ROWS[5:], 8), both(3, ROWS, 8))
        comparison.feed(progress(LONG, (0, 5, 0), None))
        assert (comparison.kinds, unknown(comparison)) == ([], (5, 5))

    def test_what_all_lost_before_the_policy_was_known_is_unknown_and_accuses_nobody(self) -> None:
        comparison = Comparison()
        comparison.feed(shown(RC, 1, ROWS, 8, log_start_offset=0))
        late = [shown(v, b, ROWS[5:], 8, 2, log_start_offset=5) for b in (1, 2, 3) for v in (RU, RC)]
        comparison.feed(progress(LONG, (5, 5, 5), None), *late)
        assert unknown(comparison) == (0, 0), "retention may be what moves them"
        comparison.feed(progress(2 * LONG, (6, 6, 6)))
        comparison.feed(progress(3 * LONG, (6, 6, 6)))
        assert comparison.last is not None
        assert comparison.last.coverage.unknown_for(UnknownReason.SKIPPED) == (6, 6)
        assert (comparison.kinds, unknown(comparison)) == ([], (0, 0))

    def test_what_all_lost_before_the_first_tick_is_unknown(self) -> None:
        comparison = Comparison()
        later = [shown(v, b, ROWS[5:], 8, 2, log_start_offset=5) for b in (1, 2, 3) for v in (RU, RC)]
        comparison.feed(shown(RC, 1, ROWS, 8, log_start_offset=0), *later, progress(0, (5, 5, 5)))
        assert comparison.last is not None
        assert comparison.last.coverage.unknown_for(UnknownReason.SKIPPED) == (5, 5)
        assert comparison.kinds == []

    @pytest.mark.parametrize(
        ("policy", "reason"),
        [
            ("delete", UnknownReason.DELETED_UNREAD),
            ("compact,delete", UnknownReason.DELETED_UNREAD),
            ("compact", UnknownReason.SKIPPED),
            (None, UnknownReason.SKIPPED),
        ],
    )
    def test_what_a_log_held_no_more_is_deleted_unread_under_delete_and_else_skipped(
        self, policy: str | None, reason: UnknownReason
    ) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, policy=policy), *(both(b, ROWS[:3], 3) for b in (1, 2, 3)))
        gone = {"event": ReadEvent.LOG_START_ADVANCED, "log_start_offset": 5}
        jumps = [shown(v, b, [], 5, 1, **gone) for b in (1, 2, 3) for v in (RU, RC)]
        comparison.feed(*jumps, progress(1, (5, 5, 5), policy))
        comparison.feed(*(both(b, ROWS[5:], 8) for b in (1, 2, 3)), progress(2, (5, 5, 5), policy))
        assert comparison.last is not None
        told = {one: comparison.last.coverage.unknown_for(one) for one in UnknownReason}
        assert min(told[reason]) >= 2
        assert told[{UnknownReason.SKIPPED, UnknownReason.DELETED_UNREAD}.difference({reason}).pop()] == (0, 0)

    def test_where_the_policy_turns_out_to_delete_nothing_is_missing(self) -> None:
        comparison = Comparison()
        comparison.feed(shown(RC, 1, ROWS, 8, log_start_offset=0), progress(0, (5, 5, 5), "compact,delete"))
        comparison.feed(progress(LONG, (6, 6, 6), "compact,delete"), progress(2 * LONG, (6, 6, 6)))
        assert comparison.last is not None
        assert comparison.last.coverage.unknown_for(UnknownReason.SKIPPED) == (0, 0)
        assert (comparison.kinds, unknown(comparison)) == ([], (0, 0))

    def test_what_an_unreachable_replica_said_before_accuses_nobody(self, watched: Comparison) -> None:
        for at in (1000, 1000 + LONG):
            watched.feed(progress(at, (0, 5, 5), down=(1,)))
        assert watched.kinds == []
        watched.feed(progress(2000 + LONG, (0, 5, 5)))
        watched.feed(progress(2000 + 2 * LONG, (0, 5, 5)))
        assert watched.kinds == [("log_head_missing", 2), ("log_head_missing", 3)]


class TestComparedBelow:
    def comparison(self, policy: str = "compact") -> Comparison:
        """Broker 2's log begins at 5; 3 lacks a tombstone at 1 that 1 shows."""
        comparison = Comparison()
        deleted = [record(0, "K", "V"), record(1, "K", None), *ROWS[2:]]
        lacking = [deleted[0], *deleted[2:]]
        comparison.feed(progress(0, (0, 5, 0), policy), both(1, deleted, 8))
        begun = {"log_start_offset": 5}
        comparison.feed(
            shown(RU, 2, deleted[5:], 8, **begun), shown(RC, 2, deleted[5:], 8, **begun), both(3, lacking, 8)
        )
        comparison.feed(progress(50_000, (0, 5, 0), policy))
        comparison.feed(progress(51_000, (0, 5, 0), policy))
        return comparison

    def test_the_others_are_compared_below_it(self) -> None:
        assert sorted(self.comparison().kinds) == [("deleted_record_resurrected", 3), ("log_head_missing", 2)]

    def test_where_the_policy_deletes_they_are_not(self) -> None:
        assert self.comparison("compact,delete").kinds == []

    def test_one_that_begins_above_lacks_nothing_below(self) -> None:
        comparison = Comparison()
        only_1 = [record(1, "K", "V"), *ROWS[5:]]
        comparison.feed(progress(0, (0, 5, 0)), both(1, only_1, 8), both(2, ROWS[5:], 8), both(3, only_1, 8))
        comparison.feed(progress(50_000, (0, 5, 0)), progress(51_000, (0, 5, 0)))
        comparison.feed(progress(52_000, (0, 5, 0)))
        assert comparison.kinds == [("log_head_missing", 2)]
        assert comparison.last is not None
        assert comparison.last.state.is_settled

    def test_what_only_one_holds_is_compared_with_nobody(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, (0, 5, 5)), both(1, ROWS, 8), both(2, ROWS[5:], 8), both(3, ROWS[5:], 8))
        comparison.feed(progress(50_000, (0, 5, 5)))
        comparison.feed(progress(51_000, (0, 5, 5)))
        assert comparison.kinds == [("log_head_missing", 2), ("log_head_missing", 3)]
        assert unknown(comparison)[READ_COMMITTED] == 5

    def test_a_reader_that_begins_there_does_not_keep_the_others_from_it(self) -> None:
        comparison = Comparison()
        added = {"event": "partition_added", "log_start_offset": -1, "last_stable_offset": -1, "high_watermark": -1}
        comparison.feed(progress(0, (0, 5, 0)))
        comparison.feed(*(shown(v, b, [], 5 if b == 2 else 0, 1, **added) for b in (1, 2, 3) for v in (RU, RC)))
        wrong = [{**ROWS[0], "content_hash": 77}, *ROWS[1:]]
        comparison.feed(both(1, ROWS, 8, 2), both(3, wrong, 8, 2), both(2, [*ROWS[5:], filler(8)], 9, 2))
        assert [kind for kind, _ in comparison.kinds] == ["content_mismatch"]
