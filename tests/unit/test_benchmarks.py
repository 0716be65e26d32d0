"""Benchmarks that start no broker run; how fast is not asked here."""

from __future__ import annotations

import pytest

from tests.make import make


@pytest.mark.release
@pytest.mark.parametrize("name", ["many", "probe"])
def test_a_benchmark_without_brokers_runs_to_its_end(name: str) -> None:
    run = make("bench", f"ARGS={name} --quick")
    assert run.returncode == 0, run.stderr[-2000:]
