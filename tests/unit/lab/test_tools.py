"""Kafka's tools in a lab's folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.lab.tools import write_tools


@pytest.mark.parametrize("version", [DEFAULT_KAFKA_VERSION, pytest.param("3.6.2", marks=pytest.mark.release)])
def test_a_tool_is_found_in_whichever_package_its_version_has_it(tmp_path: Path, version: str) -> None:
    write_tools(tmp_path / "bin", version)
    done = subprocess.run([tmp_path / "bin/kafka-topics.sh", "--version"], capture_output=True, text=True, check=False)
    assert (done.stdout.split()[0], done.stderr) == (version, "")
