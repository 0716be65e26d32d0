"""``make``, without its set-up: the packages are those that the tests have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def make(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run ``make`` with its words in a folder: a target and variables; ``setup`` counts as done."""
    command = ["make", "--old-file=setup", f"BIN={Path(sys.executable).parent}", *words]
    # What a make that runs the tests was told is not for this one.
    given = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTEST"))}
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)
