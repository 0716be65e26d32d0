"""The second opinion holds on generated histories, and would notice a judge that is broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from parallax.evidence import room
from parallax.evidence.ledger import Ledger
from parallax.evidence.lineage import Lineage
from parallax.evidence.log import Belongs
from parallax.judge import freezes, judging, keys
from parallax.judge.outcomes import Outcomes
from parallax.judge.transactions import Transactions
from tests.simulation import kinds, oracle
from tests.simulation.beside import Beside, opinion
from tests.simulation.judging import Judge
from tests.simulation.world import Violation

SAMPLES = {
    "the first generator": (800_000, 25, {}),
    "scripts": (kinds.FIRST + 800_000, 25, {}),
    "an election after a loss": (kinds.ELECTING + 800_000, 25, {}),
    "deletions in transactions": (kinds.DELETED + 800_000, 10, {}),
    "those that are right leave": (kinds.LEFT + 800_000, 15, {}),
    "transactions of several partitions": (kinds.WIDE + 800_000, 30, {}),
    "several scripts, one in another": (kinds.MIXED + 800_000, 20, {}),
    "kills": (kinds.ELECTING + 900_000, 10, {"kills": 8, "alone": 0}),
}
NAMED = [
    *(
        (seed, {})
        for seed in (
            2000000437,
            2000001699,
            2000001777,
            1940083235,
            31001126,
            31002430,
            31002381,
            2200004464,
            2200006773,
        )
    ),
    *((seed, {}) for seed in (1940029037, 1940013029, 1950010242, 2000011465)),
    (1960005787, {"kills": 8}),
    *((seed, {"kills": 8, "alone": 0}) for seed in (1961006173, 1961005087, 1961002852, 1961003232)),
    *((seed, {"kills": 8, "alone": 0}) for seed in (1961003569, 1961003933)),
]
"""Histories in which the product breaks a property, or in which a judge of this kind once did."""
OWN = [
    (602006, "a batch lost of which nobody knows whether it was aborted"),
    (602078, "a transaction of a log that was cut is held open below all log starts"),
    (100600343, "a value below a log start"),
    (300166, "a record lost where another one of its key is"),
    (300195, "an end marker that is not replicated"),
    (2000600084, "a log that was copied between two readings"),
    (2000600311, "a tombstone of a log that was cut, of a key that is gone"),
    (2000601428, "a key of which all lies below a log start"),
    (2000602526, "a missed end, and two markers behind it"),
    (620331, "a transaction without records, listed as aborted by a copy"),
    (2100000057, "where an epoch ends, said by a leader whose log is gone"),
    (640816, "the same record, written again by another leader"),
    (641051, "the same value, written again by another leader"),
    (2100001738, "a record written again by another leader, in a transaction"),
    (2000004695, "a record that may have been written again by another leader, and be cleaned"),
    (2300003619, "a frozen replica, and the end marker of another transaction behind a record"),
    (2000702071, "a log that was cut and filled again in an older epoch"),
    (2210000346, "a deletion that may have been rolled back, and took a value that nobody was shown"),
]
"""Histories that a look was once mistaken in."""


def held(first: int, count: int, healthy: bool = False, **more: Any) -> Counter[str]:
    counts = Counter[str]()
    for seed in range(first, first + count):
        try:
            counts += opinion(seed, healthy, **more).counts
        except Violation as violation:
            pytest.fail(str(violation), pytrace=False)
    return counts


@pytest.mark.parametrize("name", SAMPLES)
def test_what_a_look_says_is_true_and_what_is_wrong_at_the_end_is_said_or_named_as_unknown(name: str) -> None:
    first, count, more = SAMPLES[name]
    counts = held(first, count, **more)
    assert counts["judged looks"] > 5 * count
    wrong = {what: n for what, n in counts.items() if what.startswith("known")}
    named = sum(n for what, n in wrong.items() if "accused" in what or "a difference" in what)
    assert named > sum(wrong.values()) / 3


def test_where_only_those_that_are_wrong_are_left_they_are_said_to_be_wrong() -> None:
    """Who leaves the assignment for good has shown what proves it, and is not looked at any more."""
    left = Counter[str]()
    for seed in range(kinds.LEFT + 800_000, kinds.LEFT + 800_040):
        world = opinion(seed, False)
        if world.cluster.retired and world.last is not None:
            verdicts = world.last.verdicts
            left["histories"] += 1
            left["all wrong"] += any(verdict.everywhere for verdict in verdicts)
            named = {verdict.accused for verdict in verdicts} | {b for v in verdicts for b in (*v.sides, *v.right)}
            assert not named & world.cluster.retired
    assert left["histories"] > 10
    assert left["all wrong"] > 5


def test_nobody_is_accused_on_a_healthy_cluster() -> None:
    counts = held(kinds.FIRST + 800_000, 20, healthy=True) + held(800_000, 20, healthy=True)
    assert not any(what.startswith("said") for what in counts)


@pytest.mark.parametrize(("seed", "more"), NAMED, ids=[str(seed) for seed, _ in NAMED])
def test_the_judge_is_right_where_the_product_is_not(seed: int, more: dict[str, int]) -> None:
    held(seed, 1, **more)


@pytest.mark.parametrize(("seed", "what"), OWN, ids=[what for _, what in OWN])
def test_a_seed_in_which_a_look_was_once_mistaken(seed: int, what: str) -> None:
    held(seed, 1, **({"kills": 8, "alone": 0} if seed == 2000702071 else {}))


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_remembered_of_a_moment_is_what_the_oracle_says_of_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, more = SAMPLES[name]
    remembered, moments = Judge.now, Counter[bool]()

    def now(judge: Judge) -> dict[int, oracle.Wrong]:
        said = remembered(judge)
        assert said == oracle.judge(judge.cluster, judge.profile.compacted)
        moments[bool(said)] += 1
        return said

    monkeypatch.setattr(Judge, "now", now)
    held(first, 5, **more)
    assert moments[True] > 20


def test_beside_the_product_both_are_held() -> None:
    world = opinion(kinds.FIRST + 800_000, False, kind=Beside)
    assert world.counts["judged looks"] > 0
    assert world.monitor.steps > 0


BROKEN: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "what was cut stands": (Lineage, "_of", lambda *_: Belongs.YES),
    "there is no room anywhere": (room.Room, "spans", lambda *_: []),
    "whoever was read was read in time": (Ledger, "cleaned_to", lambda *_: 0),
    "the first end marker ends all": (Transactions, "room_for_an_end", lambda *_: False),
    "whoever is taken for version 2": (Transactions, "_version_2_since", lambda *_: -1),
    "outcomes are overlooked": (Outcomes, "_statements", lambda *_: {}),
    "freezes are overlooked": (judging, "freezes", lambda *_: []),
    "keys that differ are overlooked": (judging._Judging, "_verdicts", lambda *_: []),
    "who is behind is held to what comes": (keys._Key, "_matters", lambda *_: False),
    "a transaction that goes on hangs": (freezes, "_has_ended", lambda *_: True),
}


FIRSTS = (kinds.ELECTING, kinds.FIRST, 0)
SEEDS = {"whoever is taken for version 2": (2300800081, 2300800141, 2300800187)}
"""Histories in which a judge that is broken is mistaken, where these are rare."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_judge_that_is_broken_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, function, broken = BROKEN[name]
    monkeypatch.setattr(module, function, broken)
    with pytest.raises(Violation, match="second opinion"):
        any_of(SEEDS.get(name) or [800_000 + seed + first for seed in range(150) for first in FIRSTS])


def any_of(seeds: Iterable[int]) -> None:
    for seed in seeds:
        opinion(seed, False)
