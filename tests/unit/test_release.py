"""The processes of a cluster know whether they are of one release."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import parallax
from parallax.release import VARIABLE, release, said_in, unlike


def test_a_process_that_was_told_of_no_release_is_unlike_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert unlike() is None


def test_the_same_code_is_the_same_release_however_it_came_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, release().replace(release().partition(" (")[0], "of no version"))
    assert unlike() is None


def test_a_worker_of_another_release_ends_with_one_line_before_it_reads_a_task(tmp_path: Path) -> None:
    shutil.copytree(Path(parallax.__file__).parent, tmp_path / "parallax")
    with (tmp_path / "parallax" / "model.py").open("a") as module:
        module.write("\n# another\n")
    ended = subprocess.run(
        [sys.executable, "-m", "parallax.daemon", "pyspark.worker"],
        env=os.environ | {"PYTHONPATH": str(tmp_path), VARIABLE: release()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    line = ended.stderr.strip()
    assert release() in line
    assert said_in(f"org.apache.spark.SparkException: Error from python worker:\n  {line}\nPYTHONPATH was:") == line
