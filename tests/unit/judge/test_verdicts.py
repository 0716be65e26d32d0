"""A verdict that its proof does not imply cannot be constructed."""

from __future__ import annotations

from typing import Any

import pytest

from parallax.judge.verdicts import About, Proof, Undecided, UnprovenError, Unsettled, Verdict, World

ALL = {1, 2, 3}


def proof(*worlds: set[int], unsaid: tuple[int, ...] = (), judged: set[int] = ALL) -> Proof:
    return Proof.of([World(frozenset(wrong), frozenset(unsaid)) for wrong in worlds], judged)


def said(given: Proof, **what: Any) -> Verdict:
    return Verdict(about=About.KEY, proof=given, **what)


def brokers(*ids: int) -> frozenset[int]:
    return frozenset(ids)


def test_who_is_wrong_in_every_world_is_wrong_and_who_is_in_none_is_right() -> None:
    one = proof({2}, {2, 3}, {2})
    assert (one.wrong, one.right, one.unknown, one.differing) == (brokers(2), brokers(1), brokers(3), brokers())
    assert (len(one.worlds), one.count) == (2, 3)


def test_replicas_differ_of_which_one_is_wrong_in_every_world() -> None:
    one = proof({1}, {2, 3})
    assert (one.wrong, one.right, one.differing) == (brokers(), brokers(), brokers(1, 2, 3))
    assert proof({1}, {2}, set()).differing == brokers()


def test_who_is_always_wrong_is_no_side_of_a_difference() -> None:
    assert proof({1, 2}, {1, 3}).differing == brokers(2, 3)
    assert proof({1, 2}, {1}).differing == brokers()


def test_of_whom_a_world_does_not_speak_is_not_right() -> None:
    assert proof({2}, unsaid=(3,)).right == brokers(1)


PROVEN = {
    "the accused": (proof({2}), {"accused": 2}),
    "the right ones": (proof({2}), {"accused": 2, "right": brokers(1, 3)}),
    "a difference": (proof({1}, {2}), {"sides": brokers(1, 2)}),
    "all": (proof(ALL), {"accused": 2, "everywhere": True}),
}
UNPROVEN = {
    "it is right in one world": (proof({2}, {3}), {"accused": 2}),
    "it was not judged": (proof({2}), {"accused": 4}),
    "one that is called right may be wrong": (proof({2}, {2, 3}), {"accused": 2, "right": brokers(3)}),
    "a world does not say that it is right": (proof({2}, unsaid=(3,)), {"accused": 2, "right": brokers(3)}),
    "one that was not judged is called right": (proof({2}), {"accused": 2, "right": brokers(4)}),
    "in one world no side is wrong": (proof({1}, {3}), {"sides": brokers(1, 2)}),
    "in one world all are right": (proof({1}, {2}, set()), {"sides": brokers(1, 2)}),
    "one side is always wrong": (proof({1}, {1, 2}), {"sides": brokers(1, 2)}),
    "a difference has two sides": (proof({1}, {2}), {"sides": brokers(1)}),
    "nothing is said": (proof({2}), {}),
    "an accused has no sides": (proof({2}), {"accused": 2, "sides": brokers(1, 2)}),
    "one replica is not wrong": (proof({1, 2}), {"accused": 2, "everywhere": True}),
}


@pytest.mark.parametrize("name", PROVEN)
def test_what_is_proven_can_be_said(name: str) -> None:
    given, what = PROVEN[name]
    assert said(given, **what).proof is given


@pytest.mark.parametrize("name", UNPROVEN)
def test_what_is_not_proven_cannot_be_said(name: str) -> None:
    given, what = UNPROVEN[name]
    with pytest.raises(UnprovenError):
        said(given, **what)


def test_without_a_world_nothing_is_proven() -> None:
    with pytest.raises(UnprovenError):
        proof()


def test_what_is_unsettled_is_neither_wrong_nor_right() -> None:
    assert Unsettled("K", 4, proof(set(), ALL)).since == 4
    for settled in (proof({2}, ALL), proof(set(), set())):
        with pytest.raises(UnprovenError):
            Unsettled("K", 4, settled)


def test_what_is_undecided_names_what_is_missing() -> None:
    assert Undecided(About.KEY, 1, ((4, 5),), key="K").missing == ((4, 5),)
    with pytest.raises(UnprovenError):
        Undecided(About.KEY, 1, (), key="K")


def test_an_unproven_verdict_names_the_brokers_that_refute_it() -> None:
    for name, brokers_named in (
        ("one side is always wrong", r"of \[1, 2\] \[1\] are always wrong"),
        ("in one world no side is wrong", r"none of \[1, 2\] is wrong"),
        ("one that is called right may be wrong", r"brokers \[3\] are not right"),
        ("one replica is not wrong", r"brokers \[3\] are not wrong"),
        ("it is right in one world", "broker 2 is not wrong"),
    ):
        given, what = UNPROVEN[name]
        with pytest.raises(UnprovenError, match=brokers_named):
            said(given, **what)


def test_a_verdict_is_of_the_present_and_of_some_replicas_unless_it_says_otherwise() -> None:
    verdict = said(proof({2}), accused=2)
    assert (verdict.past, verdict.everywhere, verdict.sides, verdict.right) == (False, False, brokers(), brokers())
    assert (verdict.key, verdict.offset, verdict.producer, verdict.end_marker) == (None, -1, -1, -1)
