"""Keys that are alike are enumerated once, and what cannot change who is wrong is no part of that."""

from __future__ import annotations

import pytest

from parallax.evidence.atoms import End, Place
from parallax.judge.worlds import MOST_WORLDS, Component, Doubted, Record, worlds_of
from tests.unit.evidence.scene import Scene, commit, record, written


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    worlds_of.cache_clear()


def enumerated() -> int:
    return worlds_of.cache_info().misses


def test_keys_that_are_alike_are_enumerated_once() -> None:
    facts = [record(n, key=f"K{n}") for n in range(1, 50)]
    scene = Scene(99).read(2, *facts).shows(1).shows(2, *facts).shows(3, *facts)
    assert {(verdict.key, verdict.accused) for verdict in scene.judged.verdicts} == {(f"K{n}", 1) for n in range(1, 50)}
    assert enumerated() == 2  # Once at each isolation level.


def test_a_deletion_is_not_alike_to_a_value() -> None:
    facts = [record(4, key="K"), record(5, None, key="L")]
    scene = Scene(99).read(2, *facts).shows(1).shows(2, *facts).shows(3, *facts)
    assert {(verdict.key, verdict.accused) for verdict in scene.judged.verdicts} == {("K", 1)}
    assert enumerated() == 4


def test_what_every_world_has_superseded_makes_no_key_another_one() -> None:
    once = Scene(99).read(2, record(50)).shows(1).shows(2, record(50)).shows(3, record(50))
    assert [verdict.accused for verdict in once.judged.verdicts] == [1]
    before = enumerated()
    facts = [record(n, f"v{n}") for n in range(40)]
    often = Scene(99).read(2, *facts, record(50)).shows(1).shows(2, record(50)).shows(3, record(50))
    assert [verdict.accused for verdict in often.judged.verdicts] == [1]
    assert enumerated() == before


def test_ends_that_do_not_matter_are_no_worlds_too_many() -> None:
    """Of 20 transactions nobody knows how they ended, and a newer value supersedes all of them."""
    scene = Scene(99).shows(1).shows(2, record(98)).shows(3, record(98)).read(2, record(98), start=90)
    for fact in [*(written(offset) for offset in range(0, 40, 2)), commit(60)]:
        scene.ledger.fact(fact, 2, 0)
    assert scene.judged.too_many == ()
    assert {verdict.accused for verdict in scene.judged.verdicts if verdict.key is not None} == {1}
    assert max(verdict.proof.count for verdict in scene.judged.verdicts) >= 2**20


@pytest.mark.parametrize(("open_ends", "is_judged"), [(12, True), (13, False)])
def test_a_key_is_judged_by_as_many_worlds_as_are_allowed(open_ends: int, is_judged: bool) -> None:
    assert MOST_WORLDS == 2**12
    options = ((End.COMMIT, End.ABORT),) * open_ends
    found = worlds_of(Component(True, (), options, (), (), (), 0, 0))
    assert (found is not None and found.choices == MOST_WORLDS) is is_judged


def test_two_records_at_one_offset_are_no_world_together() -> None:
    sure = Record(Place(0, 0), 1, End.COMMIT)
    here, there = (Doubted(Place(0, epoch), epoch, (None, End.COMMIT)) for epoch in (1, 2))
    for records, doubted, choices in (((), (here, there), 3), ((sure,), (here,), 1), ((), (here,), 2)):
        found = worlds_of(Component(True, records, (), doubted, (), (), 1, 0))
        assert found is not None
        assert found.choices == choices
