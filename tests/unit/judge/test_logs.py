"""What lies at an offset, and where a log begins."""

from __future__ import annotations

from dataclasses import replace

from parallax.evidence.atoms import End
from tests.unit.evidence.scene import Scene, abort, commit, record, written

HERE = ((0, 0), (1, 4))


def said(scene: Scene, about: str) -> set[tuple[int | None, frozenset[int], frozenset[int], bool]]:
    return {(v.accused, v.sides, v.right, v.everywhere) for v in scene.judged.verdicts if v.about == about}


def test_a_record_that_another_leader_has_overwritten_is_wrong() -> None:
    old, new = record(5, "old"), record(5, "new", epoch=1)
    scene = Scene(9, in_sync=frozenset({1, 3})).shows(1, new, epochs=HERE).shows(2, old).shows(3, new, epochs=HERE)
    assert said(scene, "record") == {(2, frozenset(), frozenset(), False)}


def test_the_same_record_written_again_by_another_leader_misleads_nobody() -> None:
    old, new = record(5), record(5, epoch=1)
    scene = Scene(9, in_sync=frozenset({1, 3})).shows(1, new, epochs=HERE).shows(2, old).shows(3, new, epochs=HERE)
    assert said(scene, "record") == set()


def test_a_record_of_a_cut_log_is_unknown_where_one_that_is_alike_may_have_come_and_gone() -> None:
    scene = Scene(9, in_sync=frozenset({1, 3})).shows(1, epochs=HERE).shows(2, record(5)).shows(3, epochs=HERE)
    assert said(scene, "record") == set()
    assert ("record", 2, 5) in {(one.about, one.broker, one.offset) for one in scene.judged.undecided}


def test_two_contents_of_one_place_have_no_direction() -> None:
    scene = Scene(9).shows(1, record(5, "a")).shows(2, record(5, "b")).shows(3)
    assert said(scene, "record") == {(None, frozenset({1, 2}), frozenset(), False)}


def test_what_only_one_shows_any_more_is_no_difference() -> None:
    scene = Scene(9).shows(1, record(5, "a")).shows(2).shows(3)
    scene.ledger.fact(record(5, "b"), 2, 0)
    assert said(scene, "record") == set()


def test_nothing_at_an_offset_is_no_other_content() -> None:
    assert said(Scene(9).shows(1, record(5)).shows(2).shows(3), "record") == set()


def test_where_nothing_is_compacted_a_hole_is_a_loss() -> None:
    scene = Scene(9, compacted=False, deletes=True).shows(1, record(5)).shows(2).shows(3, record(5))
    assert said(scene, "record") == {(2, frozenset(), frozenset({1, 3}), False)}


def test_what_all_have_lost_is_lost_everywhere() -> None:
    scene = Scene(9, compacted=False, deletes=True).read(1, record(5)).shows(1).shows(2).shows(3)
    assert {(who, everywhere) for who, _, _, everywhere in said(scene, "record")} == {(1, True), (2, True), (3, True)}


def test_what_may_be_deleted_or_is_not_shown_yet_is_not_lost() -> None:
    scene = Scene(9, compacted=False, deletes=True).shows(1, record(5)).shows(2, log_start=6).shows(3, high_watermark=5)
    assert said(scene, "record") == set()


def test_nobody_misses_what_was_aborted() -> None:
    kept = [written(4), abort(5)]
    scene = Scene(6, compacted=False, deletes=True)
    scene.shows(1, *kept, outcomes={4: End.ABORT}).shows(2, abort(5)).shows(3, *kept, outcomes={4: End.ABORT})
    assert said(scene, "record") == set()
    kept = [written(4), commit(5)]
    scene = Scene(6, compacted=False, deletes=True).shows(1, *kept).shows(2, commit(5)).shows(3, *kept)
    assert {who for who, *_ in said(scene, "record")} == {2}


def test_a_hole_where_nobody_knows_whether_the_record_was_aborted_is_unknown() -> None:
    held = [written(2), record(3), abort(5)]
    scene = Scene(6, compacted=False, deletes=True).shows(1, *held, outcomes={2: End.ABORT}).shows(2, abort(5))
    scene.shows(3, *held, outcomes={2: End.ABORT})
    assert {(v.accused, v.offset) for v in scene.judged.verdicts if v.about == "record"} == {(2, 3)}
    assert [(one.broker, one.offset, one.missing) for one in scene.judged.undecided] == [(2, 2, ((4, 5),))]


def test_a_hole_beyond_the_last_stable_offset_is_a_loss_to_read_uncommitted_consumers() -> None:
    scene = Scene(6, compacted=False, deletes=True).shows(1, record(5), open={9: 2}).shows(2, open={9: 2}).shows(3)
    assert {v.accused for v in scene.judged.verdicts if v.about == "record"} == {2, 3}


def test_a_log_that_begins_above_another_has_lost_its_head() -> None:
    scene = Scene(9).shows(1).shows(2, log_start=4).shows(3)
    assert said(scene, "head") == {(2, frozenset(), frozenset({1, 3}), False)}


def test_a_policy_that_deletes_explains_where_a_log_begins() -> None:
    assert said(Scene(9, deletes=True).shows(1).shows(2, log_start=4).shows(3), "head") == set()


def test_all_logs_may_have_lost_their_heads() -> None:
    scene = Scene(9)
    scene.ledger.started(1, 0, 9)
    for broker in (1, 2, 3):
        scene.shows(broker, log_start=4)
    assert {everywhere for *_, everywhere in said(scene, "head")} == {True}


def test_a_record_of_a_cut_log_is_wrong_where_nothing_like_it_can_have_come_and_gone() -> None:
    def scene(*free: int) -> Scene:
        one = Scene(9, in_sync=frozenset({1, 3}))
        one.shows(1, epochs=HERE).shows(2, record(5)).shows(3, epochs=HERE)
        one.ledger.readings.clear()
        for offset in {*range(9)} - {*free}:
            one.read(1, start=offset, end=offset + 1, epoch=1)
        return one

    assert said(scene(), "record") == said(scene(4), "record") == {(2, frozenset(), frozenset(), False)}
    for free in (5, 6, 8):
        (undecided,) = [one for one in scene(free).judged.undecided if one.about == "record"]
        assert (undecided.broker, undecided.offset, undecided.missing) == (2, 5, ((5, 6),))


def test_a_record_shown_without_the_producers_epoch_is_no_other_content() -> None:
    full = replace(record(5, producer=7), producer_epoch=3)
    scene = Scene(9).shows(1, full).shows(2, record(5, producer=7)).shows(3, full)
    assert said(scene, "record") == set()


def test_two_contents_name_the_offset_that_would_decide() -> None:
    scene = Scene(9).shows(1, record(5, "a")).shows(2, record(5, "b")).shows(3)
    assert [v.proof.missing for v in scene.judged.verdicts if v.about == "record"] == [((5, 6),)]


def test_what_lies_at_a_log_start_is_judged_and_what_lies_below_is_not() -> None:
    for start, is_said in ((5, True), (6, False)):
        cut = Scene(9, in_sync=frozenset({1, 3}), deletes=True)
        cut.shows(1, record(5, "new", epoch=1), epochs=HERE, log_start=start).shows(2, record(5)).shows(3, epochs=HERE)
        assert bool(said(cut, "record")) is is_said
        unlike = Scene(9, deletes=True).shows(1, record(5, "a")).shows(2, record(5, "b")).shows(3, log_start=start)
        assert bool(said(unlike, "record")) is is_said
        lost = Scene(9, compacted=False, deletes=True).shows(1, record(5)).shows(2, log_start=start).shows(3, record(5))
        assert bool(said(lost, "record")) is is_said


def test_a_log_that_is_not_compacted_or_is_empty_has_lost_no_head() -> None:
    assert said(Scene(9, compacted=False).shows(1).shows(2, log_start=4).shows(3), "head") == set()
    assert said(Scene(9).shows(1).shows(2, log_start=9).shows(3), "head") == set()


def test_an_end_marker_of_a_cut_log_is_wrong_where_its_offset_was_read_in_time() -> None:
    """No cleaner removes an end marker because of a newer one."""
    scene = Scene(9, in_sync=frozenset({1, 3}))
    scene.shows(1, record(8, epoch=1), epochs=HERE).shows(2, abort(5)).shows(3, record(8, epoch=1), epochs=HERE)
    scene.ledger.readings.clear()
    assert said(scene.read(1, start=5, end=6, epoch=1), "record") == {(2, frozenset(), frozenset(), False)}


def test_a_newer_record_of_another_key_leaves_no_room_for_one_that_was_overwritten() -> None:
    """All was read in time; a newer record of the same key might have superseded one like that at 5."""
    for above, is_wrong in (
        (record(8, key="L", epoch=1), True),
        (commit(8, epoch=1), True),
        (record(8, epoch=1), False),
    ):
        scene = Scene(9, in_sync=frozenset({1, 3}))
        scene.shows(1, above, epochs=HERE).shows(2, record(5)).shows(3, above, epochs=HERE)
        for offset in range(9):
            scene.read(1, start=offset, end=offset + 1, epoch=1)
        assert bool(said(scene, "record")) is is_wrong
    older = Scene(9, in_sync=frozenset({1, 3}))
    older.shows(1, record(3), epochs=HERE).shows(2, record(5)).shows(3, record(3), epochs=HERE)
    for offset in range(9):
        older.read(1, start=offset, end=offset + 1, epoch=1)
    assert said(older, "record") == {(2, frozenset(), frozenset(), False)}


def test_of_several_records_that_a_replica_shows_each_is_judged_by_itself() -> None:
    """Of broker 2's log, 1 is of the current log, 5 may have been cleaned there, and 7 and 8 were overwritten."""
    new = [record(1), record(7, "new", epoch=1), record(8, "new", epoch=1)]
    old = [record(1), record(5), record(7, "old"), record(8, "old")]
    scene = Scene(9, in_sync=frozenset({1, 3})).shows(1, *new, epochs=HERE).shows(2, *old).shows(3, *new, epochs=HERE)
    assert [(v.accused, v.offset) for v in scene.judged.verdicts if v.about == "record"] == [(2, 7), (2, 8)]
    assert [(one.broker, one.offset) for one in scene.judged.undecided if one.about == "record"] == [(2, 5)]


def test_of_several_offsets_with_two_contents_each_is_said() -> None:
    scene = Scene(9, deletes=True).shows(1, record(1, "a"), record(3), record(5, "a"), record(7, "a"), log_start=2)
    scene.shows(2, record(1, "b"), record(3), record(5, "b"), record(7, "b")).shows(3)
    assert [v.offset for v in scene.judged.verdicts if v.about == "record"] == [5, 7]


def test_of_several_holes_where_nothing_is_compacted_each_is_said() -> None:
    held = [record(1), commit(2), record(3), record(5), record(7)]
    scene = Scene(9, compacted=False, deletes=True).shows(1, *held).shows(2, commit(2), record(3)).shows(3, *held)
    assert [v.offset for v in scene.judged.verdicts if v.about == "record"] == [1, 5, 7]


def test_an_end_marker_written_again_is_the_same_if_producer_and_outcome_are() -> None:
    new = commit(5, epoch=1)
    for old, is_wrong in (
        (commit(5), False),
        (replace(commit(5), producer=8), True),
        (abort(5), True),
        (record(5), True),
    ):
        scene = Scene(9, in_sync=frozenset({1, 3}))
        scene.shows(1, new, epochs=HERE).shows(2, old).shows(3, new, epochs=HERE)
        assert bool(said(scene, "record")) is is_wrong


def test_a_record_written_again_is_the_same_if_key_and_value_are() -> None:
    new = record(5, epoch=1)
    for old, is_wrong in ((record(5), False), (record(5, key="L"), True), (record(5, "w"), True)):
        scene = Scene(9, in_sync=frozenset({1, 3}))
        scene.shows(1, new, epochs=HERE).shows(2, old).shows(3, new, epochs=HERE)
        assert bool(said(scene, "record")) is is_wrong


def test_a_replica_that_has_not_come_to_a_record_has_not_lost_it_and_not_all_have() -> None:
    for top, lost in ((5, {1, 2}), (6, {1, 2, 3})):
        scene = Scene(9, compacted=False, deletes=True).read(1, record(5)).shows(1).shows(2)
        found = said(scene.shows(3, high_watermark=top), "record")
        assert {who for who, *_ in found} == lost
        assert {everywhere for *_, everywhere in found} == {top == 6}
