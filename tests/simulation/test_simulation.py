"""The monitor against seeded histories of a replica set; see ``python -m tests.simulation`` for a long run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.findings.incidents import ALONE
from parallax.model import FindingStatus, Rule
from tests.simulation import kinds
from tests.simulation.chunks import CHUNK, name
from tests.simulation.world import Violation, World, run

HISTORIES = 2_000
SCRIPTED = 400
"""Seeds of the histories of tests/simulation/kinds.py."""
FIRST = range(0, HISTORIES // 2, CHUNK)
"""First seeds of the chunks; each seed is run as a healthy and as a faulty history. The test's name tells its seeds."""
CHUNKS = [pytest.param(first, marks=[pytest.mark.release] if first >= HISTORIES // 8 else []) for first in FIRST]
SCRIPTS = [
    pytest.param(kinds.FIRST + first, marks=[pytest.mark.release] if first >= SCRIPTED // 4 else [])
    for first in range(0, SCRIPTED, CHUNK)
]
"""The last three quarters of each belong before a release."""


def hold(seeds: range, healthy: bool, alone: int = ALONE) -> list[World]:
    worlds = []
    for seed in seeds:
        try:
            worlds.append(run(seed, healthy, alone))
        except Violation as violation:
            pytest.fail(str(violation), pytrace=False)
    return worlds


@pytest.mark.parametrize("first", CHUNKS, ids=name)
def test_a_healthy_cluster_yields_no_finding_under_any_schedule(first: int) -> None:
    worlds = hold(range(first, first + CHUNK), healthy=True)
    assert sum(r.passes for w in worlds for r in w.cluster.replicas.values()) > CHUNK
    assert not any(w.monitor.confirmed for w in worlds)


@pytest.mark.parametrize("first", CHUNKS, ids=name)
def test_what_was_lost_is_found_or_unknown_and_every_finding_is_true(first: int) -> None:
    worlds = hold(range(first, first + CHUNK), healthy=False)
    assert sum(len(w.monitor.confirmed) for w in worlds) > CHUNK // 10


@pytest.mark.parametrize("first", SCRIPTS, ids=name)
@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "faulty"])
def test_the_properties_hold_whatever_befalls_the_partition(first: int, healthy: bool) -> None:
    worlds = hold(range(first, first + CHUNK), healthy)
    assert {kind for w in worlds for kind in w.profile.kinds} == set(kinds.every(healthy))


@pytest.mark.parametrize("first", [kinds.SINCE, kinds.NEWLY + 100_000], ids=name)
def test_the_properties_hold_in_the_histories_that_came_last(first: int) -> None:
    worlds = hold(range(first, first + CHUNK), healthy=False)
    newest = kinds.NEWEST if first >= kinds.NEWLY else {}
    assert {kind for w in worlds for kind in w.profile.kinds} >= {*kinds.LATEST, *newest}


@pytest.mark.parametrize("first", [kinds.ELECTING], ids=name)
def test_the_properties_hold_where_one_that_stayed_behind_a_loss_is_elected(first: int) -> None:
    worlds = hold(range(first, first + CHUNK), healthy=False)
    elected = [w for w in worlds if {*kinds.ELECTED} <= {*w.profile.kinds}]
    assert len(elected) > CHUNK // 3
    assert sum(w.done["did unclean elections"] > 0 for w in elected) > len(elected) * 3 // 4
    assert sum(len(w.monitor.confirmed) for w in elected) > len(elected)


@pytest.mark.parametrize("first", [0, pytest.param(CHUNK, marks=pytest.mark.release), kinds.FIRST], ids=name)
@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "faulty"])
def test_they_hold_as_well_where_every_finding_that_may_be_one_of_many_is_an_incident(
    first: int, healthy: bool
) -> None:
    worlds = hold(range(first, first + CHUNK), healthy, alone=0)
    told = [one for w in worlds for known in w.monitor.singles.known.values() for one in known.values()]
    assert {one.rule for one in told} == (set() if healthy else {Rule.LATEST_VALUE, Rule.OUTCOME})


@pytest.mark.parametrize("first", [0, kinds.FIRST], ids=name)
@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "faulty"])
def test_levels_that_share_their_fetches_record_what_each_would_be_shown_alone(first: int, healthy: bool) -> None:
    """And so have the verdicts of readings at the same moments that are separate; the readers hold each row to that."""
    worlds = []
    for seed in range(first, first + CHUNK // 2):
        p = replace(kinds.profile(seed, healthy), shared=True, wired=True)
        worlds.append(World(p))
        worlds[-1].run(kinds.generate(p))
    assert sum(w.monitor.reads_decoded for w in worlds) > CHUNK


RAISED_AGAIN = (76, 103, 126)
"""Of the scripted histories, some in which a suspect is raised again after its dismissal."""


@pytest.mark.parametrize("number", RAISED_AGAIN)
def test_a_suspect_that_is_raised_again_after_its_dismissal_is_probed_again(number: int) -> None:
    (world,) = hold(range(kinds.FIRST + number, kinds.FIRST + number + 1), healthy=False)
    assert world.monitor.probed_again[FindingStatus.DISMISSED] > 0
