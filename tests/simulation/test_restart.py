"""What is told outlives the process, whether it is told one by one or of many: what lives in memory comes back."""

from __future__ import annotations

import pytest

from parallax.findings.incident import tally_of
from parallax.findings.incidents import ALONE
from tests.simulation import kinds
from tests.simulation.monitor import RECHECK_S, Monitor
from tests.simulation.world import run

HISTORIES = 25
ROUNDS = 6
KILLS = 8
"""In so many operations the job is killed once."""


def standing(monitor: Monitor) -> dict[str, tuple[str, str, int]]:
    """The findings that stand, once all has been looked at again: kind, status, and what an incident counts."""
    for _ in range(ROUNDS):
        monitor.clock += RECHECK_S
        monitor.probe()
    told = monitor.lifecycle.standing()
    return {f.finding_id: (str(f.kind), str(f.status), tally_of(f).count if f.is_incident else 1) for f in told}


@pytest.mark.parametrize("first", [0, kinds.FIRST])
@pytest.mark.parametrize("alone", [0, ALONE])
def test_findings_and_incidents_stand_through_a_restart(first: int, alone: int) -> None:
    found = 0
    for seed in range(first, first + HISTORIES):
        monitor = run(seed, healthy=False, alone=alone).monitor
        monitor.hear = None
        before = standing(monitor)
        monitor.restart()
        assert standing(monitor) == before, f"seed {seed}"
        found += len(before)
    assert found > HISTORIES // 5


@pytest.mark.parametrize("alone", [0, ALONE])
@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "faulty"])
def test_the_properties_hold_where_the_job_is_killed_again_and_again(healthy: bool, alone: int) -> None:
    """What is wrong is in a finding and what is right is not, whenever the process ended before."""
    worlds = [run(seed, healthy, alone, kills=KILLS) for seed in range(kinds.FIRST, kinds.FIRST + HISTORIES)]
    assert sum(world.done["did jobs killed"] for world in worlds) > HISTORIES
