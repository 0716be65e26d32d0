"""Looks that were asked for a part: what was not asked for is no absence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parallax.evidence.atoms import End, Ended, Place
from parallax.evidence.ledger import Ledger
from parallax.judge.verdicts import About
from tests.unit.evidence.scene import LATE, RETENTION, Scene, abort, commit, record, written

GONE = record(7, None)


def said(scene: Scene) -> set[tuple[About, int | None, frozenset[int]]]:
    return {(v.about, v.accused, v.sides) for v in scene.judged.verdicts}


def of_a_key(**part: Any) -> Scene:
    """The tombstone at 7 stands; 2 shows the value that it deletes, 1 and 3 nothing of the key."""
    scene = Scene(9).read(1, record(4), GONE)
    return scene.shows(1, **part).shows(2, record(4), **part).shows(3, **part)


def test_who_was_not_asked_for_a_key_is_not_judged_by_it() -> None:
    assert (About.KEY, 2, frozenset()) in said(of_a_key())
    assert (About.KEY, 2, frozenset()) in said(of_a_key(asked=frozenset({4, 7}), keys=frozenset({"K"})))
    assert not said(of_a_key(asked=frozenset({4, 7}), keys=frozenset()))


def test_a_part_says_nothing_of_read_uncommitted_consumers() -> None:
    part: dict[str, Any] = {"asked": frozenset({4, 5}), "keys": frozenset({"K"})}
    scene = Scene(9).shows(1, written(4), commit(5), open={}, **part)
    assert len(scene.judged.worlds) == 1
    assert len(Scene(9).shows(1, written(4), commit(5)).judged.worlds) == 2


def test_a_record_that_was_not_asked_for_is_not_taken_for_lost() -> None:
    whole = replace(Scene(9), compacted=False).shows(1, record(4)).shows(2).shows(3, record(4))
    part = replace(Scene(9), compacted=False, ledger=Ledger(RETENTION), looks={}).shows(1, record(4))
    part.shows(2, asked=frozenset({7})).shows(3, record(4))
    assert said(whole) == {(About.RECORD, 2, frozenset())}
    assert not said(part)


def test_an_outcome_is_not_past_where_the_record_was_not_asked_for() -> None:
    def scene(**part: Any) -> Scene:
        one = Scene(9).read(2, written(4), commit(5))
        one.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 6, 0))
        return one.shows(1, written(4), commit(5)).shows(2, commit(5), **part).shows(3, written(4), commit(5))

    def past(one: Scene) -> list[bool]:
        return [v.past for v in one.judged.verdicts if v.about is About.OUTCOME]

    assert past(scene()) == [True]
    assert past(scene(asked=frozenset({4}))) == [True]
    assert past(scene(asked=frozenset({5}))) == []


def test_an_end_marker_further_up_is_not_its_own_where_it_may_hold_a_lower_one() -> None:
    def scene(**part: Any) -> Scene:
        shown = {"outcomes": {4: End.ABORT}, **part}
        return Scene(9).shows(1, written(4), commit(7)).shows(2, written(4), commit(7), **shown).shows(3)

    assert (About.OUTCOME, 2, frozenset()) in said(scene())
    assert (About.OUTCOME, 2, frozenset()) not in said(scene(asked=frozenset({4, 7})))


def test_what_lies_above_the_last_batch_of_a_part_is_not_known_to_be_of_the_log_that_stands() -> None:
    scene = Scene(9).shows(1, record(4)).shows(2, record(4), asked=frozenset({4})).shows(3)
    assert scene.case.is_of_the_log_that_stands(scene.looks[2], 4)
    looks = replace(scene.looks[2], tops=(Place(4, 0),))
    assert not scene.case.is_of_the_log_that_stands(looks, 6)


def test_a_log_that_has_grown_since_does_not_say_that_all_had_ended() -> None:
    def scene(**more: Any) -> Scene:
        part = {"asked": frozenset({4})}
        held = Scene(9).shows(1, written(4), open={}, **part, **more).shows(2, written(4), open={7: 4}, **part)
        return held.shows(3, written(4), open={7: 4}, **part)

    assert (About.FREEZE, 2, frozenset()) in said(scene())
    assert not said(scene(has_grown=True))


def test_a_part_of_a_ledger_is_what_its_keys_and_producers_need() -> None:
    ledger = Ledger(RETENTION)
    other = written(1, key="L")
    for fact in (record(0, key="M"), other, written(4), commit(5), record(8, key="L"), abort(9), record(LATE, key="M")):
        ledger.fact(fact, 1, 0)
    found = ledger.part({"K"}, set(), {8})
    assert sorted(place.offset for place in found.facts) == [0, 1, 4, 5, 8, 9, LATE]
    assert sorted(p.offset for p in ledger.part({"M"}, set(), set()).facts) == [0, LATE]
