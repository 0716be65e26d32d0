"""Whether a job runs on a storage, for commands that run without it."""

from __future__ import annotations

import fcntl
import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from parallax import job as module
from parallax.cli import app
from parallax.findings.table import FindingsTable
from parallax.job import lock_storage
from parallax.views.watching import LOCK, job_runs, unwatched_in_words
from tests.builders.coverage import progress
from tests.pages import Job


def test_a_job_runs_as_long_as_it_holds_its_lock(tmp_path: Path) -> None:
    assert job_runs(str(tmp_path)) is False
    lock = lock_storage(str(tmp_path))
    assert lock is not None
    assert job_runs(str(tmp_path)) is True
    assert unwatched_in_words(str(tmp_path)) == ""
    lock.close()
    assert job_runs(str(tmp_path)) is False


def test_a_job_that_starts_at_the_moment_of_a_look_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOCK).touch()
    look = (tmp_path / LOCK).open("rb")
    fcntl.flock(look, fcntl.LOCK_SH)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            look.close()

    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=sleep))
    lock = lock_storage(str(tmp_path))
    assert lock is not None
    assert len(pauses) == 2
    lock.close()


def test_where_nobody_watches_the_list_of_findings_says_so_and_since_when(tmp_path: Path) -> None:
    FindingsTable(str(tmp_path))
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    Job(tmp_path).record([progress(broker=1, observed_at=at, recorded_on=at.date())])
    for command in (["findings"], ["findings", "list"]):
        said = CliRunner().invoke(app, [*command, "--data", str(tmp_path)]).stdout.split("\n")
        told = (
            f"No job runs on {tmp_path}, so nobody watches now; the last look on record is of 2026-01-02 03:04:05 UTC."
        )
        assert said[:2] == [f"No open findings in {tmp_path}.", told]
        assert json.loads(CliRunner().invoke(app, [*command, "--data", str(tmp_path), "--format", "json"]).stdout) == []
    lock = lock_storage(str(tmp_path))
    assert lock is not None
    assert CliRunner().invoke(app, ["findings", "--data", str(tmp_path)]).stdout == f"No open findings in {tmp_path}.\n"
    lock.close()
