"""Kernels of an installation that its user may not write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from numba.core import caching
compiled = []
caching.Cache.save_overload = lambda self, *_: compiled.append(self)
import kernel
print(kernel.double(21), len(compiled))
"""

KERNEL = """
from numba import njit, types
from parallax.replica.kernel_cache import allow_read_only
allow_read_only()

@njit([types.int64(types.int64)], cache=True)
def double(n):
    return 2 * n
"""


BOUND = [] if os.geteuid() else ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
"""No mode of a file stops root unless it gives up its capabilities."""


@pytest.mark.parametrize("has_home", [True, False])
def test_what_was_compiled_beside_the_code_is_used_by_who_may_not_write_there(tmp_path: Path, has_home: bool) -> None:
    source, home = Path(__file__).parents[3] / "streaming", tmp_path / "home"
    home.mkdir(mode=0o755 if has_home else 0o555)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": f"{tmp_path}:{source}"}
    (tmp_path / "kernel.py").write_text(KERNEL)
    subprocess.run([sys.executable, "-c", "import kernel"], env=environment, check=True)
    kept = tmp_path / "__pycache__"
    assert list(kept.glob("*.nbc"))
    kept.chmod(0o555)
    command = [*BOUND, sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("42 0\n", "")
    assert bool(list(home.rglob("*.nbc"))) is has_home
