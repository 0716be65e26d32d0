"""What the judge derives from its input: how far a log is judged, and whose log is the current one."""

from __future__ import annotations

from dataclasses import replace

from parallax.evidence.atoms import Place
from tests.unit.evidence.scene import PRODUCER, Scene, abort, commit, record, written


def test_where_nobody_answers_nothing_is_below_a_high_watermark_or_a_log_start() -> None:
    for deletes in (False, True):
        case = Scene(9, deletes=deletes).case
        assert (case.top, case.start) == (0, 0)


def test_records_below_the_highest_log_start_are_not_judged_where_they_may_be_deleted() -> None:
    scene = Scene(9, deletes=True).shows(1, log_start=2).shows(2).shows(3)
    assert scene.case.start == 2
    scene.ledger.started(3, 4, 9)
    assert scene.case.start == 4
    scene.ledger.started(4, 6, 9)
    assert scene.case.start == 4, "4 is not of the assignment"
    assert replace(scene, deletes=False).case.start == 0


def test_a_whole_look_is_of_the_current_log_beyond_its_last_batch_if_that_is() -> None:
    scene = Scene(9, in_sync=frozenset({1})).shows(1, epochs=((0, 0), (2, 5))).shows(3)
    look = replace(scene.shows(2).looks[2], tops=(Place(2, 0), Place(4, 0)))
    assert scene.case.is_of_the_log_that_stands(look, 8)
    assert not scene.case.is_of_the_log_that_stands(look, 9), "consumers are shown nothing there"
    assert not scene.case.is_of_the_log_that_stands(replace(look, tops=(Place(2, 0), Place(6, 1))), 8)
    assert not scene.case.is_of_the_log_that_stands(replace(look, tops=(Place(2, 0), Place(4, 0), Place(6, 1))), 8)
    assert not scene.case.is_of_the_log_that_stands(replace(look, tops=(Place(6, 1), Place(7, 2))), 6)
    assert scene.case.is_of_the_log_that_stands(replace(look, tops=()), 8)


def test_cleaners_come_no_further_than_to_the_first_record_that_is_surely_open() -> None:
    """All was read in time, so no end marker can lie behind the record at 4."""
    scene = Scene(9).read(1, written(4), record(6)).shows(1, written(4), open={PRODUCER: 4}).shows(2).shows(3)
    assert scene.case.cleaned_to == 4
    scene.ledger.fact(abort(7), 1, 0)
    assert scene.case.cleaned_to == 9, "it has ended"


def test_cleaners_may_have_come_anywhere_where_an_open_transaction_may_have_ended_unseen() -> None:
    scene = Scene(9).shows(1, written(4), open={PRODUCER: 4}).shows(2).shows(3)
    assert scene.case.cleaned_to == 9
    behind = Scene(9).read(1, commit(3), written(4), written(6)).shows(1, written(6), open={PRODUCER: 6})
    assert behind.case.cleaned_to == 9, "it lists a later transaction than that of the record at 4"


def test_the_records_of_a_key_are_shown_newest_first_without_end_markers() -> None:
    scene = Scene(9).shows(1, written(2), written(4), commit(5), record(7, key="L"))
    assert {key: [f.offset for f in facts] for key, facts in scene.case.shown(1).items()} == {"K": [4, 2], "L": [7]}


def test_a_replicas_own_end_marker_is_the_first_that_it_has_shown_above_a_record() -> None:
    scene = Scene(9).read(1, written(2), commit(3), written(4), abort(6), abort(8)).read(2, commit(3))
    assert [scene.case.own_end(1, PRODUCER, offset) for offset in (2, 3, 8)] == [Place(3, 0), Place(6, 0), None]
    assert scene.case.own_end(2, PRODUCER, 3) is None
    assert scene.case.own_end(1, 8, 2) is None


def test_of_several_open_transactions_the_lowest_holds_cleaners_back() -> None:
    ended = [written(1), record(2, producer=8), commit(3)]
    held = [written(4), record(5, producer=9), record(6, producer=PRODUCER)]
    scene = Scene(9).read(2, *ended, *held).shows(1, *held, open={PRODUCER: 4, 9: 5}).shows(2).shows(3)
    assert scene.case.cleaned_to == 4
    other = Scene(9).read(2, *ended, *held).shows(1, *held, open={9: 5}).shows(2, open={PRODUCER: 4}).shows(3)
    assert other.case.cleaned_to == 4, "2 is in sync, and lists it"
    behind = replace(other, in_sync=frozenset({1, 3}))
    assert behind.case.cleaned_to == 5


def test_what_lies_at_the_furthest_high_watermark_or_beyond_is_not_judged() -> None:
    scene = Scene(5).shows(1).shows(2).shows(3)
    for offset in (4, 5, 6):
        scene.ledger.fact(record(offset), 1, 0)
    assert set(scene.case.facts) == {4}
    assert scene.case.doubted == []
