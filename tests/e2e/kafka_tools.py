"""Kafka's own tools by the names that documents and commands call them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.lab.tools import write_tools


def run_as_written(commands: str, folder: Path, version: str = DEFAULT_KAFKA_VERSION, **environment: str) -> str:
    """Run commands in a shell that finds a lab's tools; a folder of its own holds them and ``admin.properties``.

    Returns:
        What they print, to both streams.
    """
    write_tools(folder, version)
    (folder / "admin.properties").touch()
    given = {**os.environ, **environment, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["bash", "-euc", commands]
    ended = subprocess.run(command, cwd=folder, env=given, capture_output=True, timeout=300, check=False)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, said
    return said
