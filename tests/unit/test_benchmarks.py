"""Benchmarks that start no broker run; how fast is not asked here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.release
@pytest.mark.parametrize("name", ["many", "probe"])
def test_a_benchmark_without_brokers_runs_to_its_end(name: str) -> None:
    command = [sys.executable, "-m", "benchmarks", name, "--quick"]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
