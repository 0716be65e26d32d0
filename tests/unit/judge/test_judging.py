"""One look, judged: a key once, and what is left of a difference when replicas agree again."""

from __future__ import annotations

from parallax.evidence.atoms import End
from parallax.judge.judging import judge
from tests.unit.evidence.scene import Scene, abort, commit, record, written

VALUE = record(4)


def differing() -> Scene:
    return Scene(9).shows(1).shows(2, VALUE).shows(3)


def test_where_nobody_answers_nothing_is_said() -> None:
    judged = judge(Scene(9).case, {"K": 4})
    assert (judged.verdicts, judged.unsettled, judged.undecided, judged.differed) == ((), (), (), {"K": 4})


def test_a_key_is_said_once_for_consumers_of_both_levels() -> None:
    assert [(v.about, v.accused) for v in differing().judged.verdicts] == [("key", None)]


def test_a_difference_is_remembered() -> None:
    assert differing().judged.differed == {"K": 4}


def test_replicas_that_agree_again_are_not_proven_right() -> None:
    scene = differing()
    scene.differed = scene.judged.differed
    scene.shows(2)
    assert scene.said == set()
    assert [(one.key, one.since) for one in scene.judged.unsettled] == [("K", 4)]
    assert scene.judged.differed == {"K": 4}


def test_what_all_show_that_was_written_since_settles_it() -> None:
    scene = differing()
    scene.differed = scene.judged.differed
    newer = record(8)
    for broker in (1, 2, 3):
        scene.shows(broker, newer)
    assert (scene.judged.unsettled, scene.judged.differed) == ((), {})


def test_a_key_that_never_differed_is_not_unsettled() -> None:
    scene = differing()
    scene.shows(2)
    assert scene.judged.unsettled == ()


def test_each_key_has_a_count_of_worlds_at_both_levels() -> None:
    assert len(differing().judged.worlds) == 2


def test_what_all_show_that_was_written_since_settles_it_though_it_may_be_deleted_by_now() -> None:
    newer = record(7)
    scene = Scene(9, differed={"K": 4}).shows(1, newer).shows(2, newer).shows(3, newer)
    assert scene.judged.right == {"K": frozenset()}
    assert (scene.judged.unsettled, scene.judged.differed) == ((), {})
    scene.shows(3)
    assert scene.judged.differed == {"K": 7}, "3 does not show it"


def test_replicas_that_are_all_right_have_settled_it() -> None:
    scene = Scene(9, differed={"K": 4}).read(1, VALUE).shows(1, VALUE).shows(2, VALUE).shows(3, VALUE)
    assert (scene.judged.unsettled, scene.judged.differed) == ((), {})


def test_a_key_about_which_only_read_uncommitted_consumers_may_be_misled_is_not_unsettled() -> None:
    held = [record(1), written(4), abort(5)]
    scene = Scene(9, differed={"K": 4}).read(1, *held)
    for broker in (1, 2, 3):
        scene.shows(broker, *held, outcomes={4: End.ABORT})
    assert scene.judged.right == {"K": frozenset()}
    assert (scene.judged.unsettled, scene.judged.differed) == ((), {"K": 4})


def test_an_end_marker_is_of_no_key() -> None:
    scene = Scene(9).shows(1, VALUE, commit(7)).shows(2, VALUE, abort(7)).shows(3, VALUE)
    assert [fact.offset for fact in scene.case.doubted] == [7]
    assert set(scene.judged.right) == {"K"}


def test_a_record_below_a_log_start_that_perhaps_stands_is_not_judged() -> None:
    scene = Scene(9, deletes=True, leader=1).read(2, record(3, key="L"), VALUE).shows(2, log_start=4).shows(3)
    assert set(scene.judged.right) == {"K"}


def test_what_all_show_that_was_there_when_they_differed_settles_nothing() -> None:
    scene = Scene(9, differed={"K": 4}).shows(1, VALUE).shows(2, VALUE).shows(3, VALUE)
    assert [(one.key, one.since) for one in scene.judged.unsettled] == [("K", 4)]
    assert scene.judged.differed == {"K": 4}
