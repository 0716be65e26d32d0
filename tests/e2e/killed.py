"""Repairs whose process is killed right after each event that it records, until nothing is left to do."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from parallax.cli import app
from parallax.repair.table import RepairTable

_MOST = 60
_DYING = """
import os, signal
from parallax.repair.record import EventKind
from parallax.repair.table import RepairTable
real = RepairTable.append
def dies(self, event):
    recorded = real(self, event)
    if event.kind is not EventKind.RESUMED:
        os.kill(os.getpid(), signal.SIGKILL)
    return recorded
RepairTable.append = dies
from parallax.cli import main
main()
"""
"""Python that runs the command line, and is killed right after it has recorded an event of its own."""


def killed_after_each_event(file: Path, config: Path, storage: Path) -> list[str]:
    """Run a plan, and resume it whenever its process has died; gives the kinds of the events on record.

    Args:
        file: the plan.
        config: the settings.
        storage: their ``storage.path``.
    """
    words = ["repair", "run", str(file), "-c", str(config), "--yes"]
    for _ in range(_MOST):
        ended = subprocess.run(
            [sys.executable, "-c", _DYING, *words], capture_output=True, text=True, timeout=300, check=False
        )
        if ended.returncode != -signal.SIGKILL:
            break
        status = CliRunner().invoke(app, ["repair", "status", "-c", str(config), "--format", "json"])
        known = json.loads(status.stdout)[-1]
        if known["phase"] == "over":
            break
        words = ["repair", "resume", known["id"], "-c", str(config)]
    events = list(RepairTable(str(storage), create=False).news())
    kinds = [event.kind.value for event in events if event.repair_id == events[-1].repair_id]
    assert kinds[-1] == "over", (kinds, ended.stdout, ended.stderr)
    assert "stopped" not in kinds
    own = [kind for kind in kinds if kind not in ("resumed", "working")]
    assert kinds.count("resumed") >= len(own) - 2, "each process died after one event"
    return own
