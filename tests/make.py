"""``make``, without its set-up: the packages are those that the tests have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_OWN = tuple(re.findall(r"(?m)^([A-Z_]+) \?=", (ROOT / "Makefile").read_text()))
"""Variables of the Makefile, which the environment sets too: ``make test ARGS=…`` hands them to the tests."""


def make(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run ``make`` with its words in a folder: a target and variables; ``setup`` counts as done."""
    command = ["make", "--old-file=setup", f"BIN={Path(sys.executable).parent}", *words]
    # What a make that runs the tests was told is not for this one.
    others = ("MAKE", "MFLAGS", "PYTEST")
    given = {name: text for name, text in os.environ.items() if name not in _OWN and not name.startswith(others)}
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)
