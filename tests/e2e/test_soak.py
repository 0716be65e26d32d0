"""Short soaks: some minutes of healthy trouble in which nothing is found, then faults that are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.plan import Plan
from tests.soak.run import soak


@pytest.mark.release
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_a_hurt_and_busy_cluster_yields_no_finding_and_then_only_the_injected_faults(tmp_path: Path) -> None:
    report = soak(Plan(seed=1, healthy_s=90, faults=("aborted-committed", "frozen")), tmp_path, print)
    print(report.as_text())
    assert report.passed, report.as_text()
    assert report.faults is not None
    assert len(report.faults.matches) == 2
    assert report.cleaning is not None
    assert report.cleaning.removed > 0


@pytest.mark.release
@pytest.mark.alone
@pytest.mark.timeout(1200)
def test_streams_connect_and_mirror_maker_yield_no_finding_but_the_fault_even_when_killed(
    tmp_path: Path,
) -> None:
    report = soak(Plan(seed=2, healthy_s=120, faults=("resurrected",), real_clients=True), tmp_path, print)
    print(report.as_text())
    assert report.passed, report.as_text()
    assert report.faults is not None
    assert len(report.faults.matches) == 1
