"""Files of a job on its driver's machine: a folder for each job that holds the storage, and nobody else's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from parallax.views.driver_files import own_folder
from parallax.views.fencing import hold, release

STORAGE = "s3a://bucket/job"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    release(STORAGE)


@pytest.mark.usefixtures("temporary")
def test_the_next_job_takes_up_what_the_one_before_has_left_with_its_times(tmp_path: Path) -> None:
    hold(STORAGE, 1)
    before = own_folder(STORAGE)
    (before / "q.json").write_text("[]")
    os.utime(before / "q.json", (1000, 1000))
    assert own_folder(STORAGE) == before
    hold(STORAGE, 3)
    now = own_folder(STORAGE)
    assert now != before
    assert not before.exists()
    assert (now / "q.json").stat().st_mtime == 1000
    assert now.parent.stat().st_mode & 0o077 == 0


def test_a_folder_that_others_could_write_is_not_used(temporary: Path) -> None:
    hold(STORAGE, 1)
    usual = own_folder(STORAGE).parent
    usual.chmod(0o777)
    hold(STORAGE, 2)
    assert own_folder(STORAGE).parent != usual
