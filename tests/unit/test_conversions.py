"""Processes load what they need: pyarrow's conversions no pandas, and what only plans no compiled kernels."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded(program: str, *names: str) -> list[str]:
    """Which of these modules a fresh interpreter has after a program."""
    asked = f"{program}\nimport sys\nprint(*[name for name in {names!r} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()


CONVERSION = "import pyarrow as pa; pa.array([1]); pa.Table.from_pylist([{'a': 'b'}])"
KEPT_OUT = f"from parallax.conversions import keep_pandas_out; keep_pandas_out(); {CONVERSION}"


def test_a_conversion_imports_pandas_unless_it_is_kept_out() -> None:
    assert loaded(CONVERSION, "pandas") == ["pandas"]
    assert loaded(KEPT_OUT, "pandas") == []


def test_what_needs_pandas_has_it_all_the_same() -> None:
    back = (
        "import pandas; frame = pa.table({'a': [1, None]}).to_pandas(); "
        "assert pa.Table.from_pandas(frame).num_rows == 2; import pandas.testing"
    )
    assert loaded(f"{KEPT_OUT}; {back}", "pandas") == ["pandas"]


@pytest.mark.parametrize(
    "module", ["parallax.compare.feed", "parallax.views.recording", "parallax.source.progress_source"]
)
def test_a_process_that_plans_loads_no_kernels(module: str) -> None:
    assert loaded(f"import {module}", module, "numba", "llvmlite", "pandas") == [module]
