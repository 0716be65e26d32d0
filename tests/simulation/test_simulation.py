"""The monitor against seeded histories of a replica set; see ``python -m tests.simulation`` for a long run."""

from __future__ import annotations

import pytest

from tests.simulation.world import Violation, World, run

HISTORIES = 2_000
CHUNK = 100


def hold(seeds: range, healthy: bool) -> list[World]:
    worlds = []
    for seed in seeds:
        try:
            worlds.append(run(seed, healthy))
        except Violation as violation:
            pytest.fail(str(violation), pytrace=False)
    return worlds


@pytest.mark.parametrize("first", range(0, HISTORIES // 2, CHUNK))
def test_a_healthy_cluster_yields_no_finding_under_any_schedule(first: int) -> None:
    worlds = hold(range(first, first + CHUNK), healthy=True)
    assert sum(r.passes for w in worlds for r in w.cluster.replicas.values()) > CHUNK
    assert not any(w.monitor.confirmed for w in worlds)


@pytest.mark.parametrize("first", range(0, HISTORIES // 2, CHUNK))
def test_what_was_lost_is_found_and_every_finding_is_true(first: int) -> None:
    worlds = hold(range(first, first + CHUNK), healthy=False)
    assert sum(len(w.expected) for w in worlds) > CHUNK // 10
