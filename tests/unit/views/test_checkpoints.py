"""Checkpoints that cannot be used are found and set aside; healthy ones are left alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from parallax.views import checkpoints
from parallax.views.checkpoints import Checkpoint, damage


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    """As Spark writes it: two batches done, a third one planned."""
    path = tmp_path / "checkpoints" / "q"
    for folder in ("offsets", "commits"):
        (path / folder).mkdir(parents=True)
    (path / "metadata").write_text('{"id":"0f45ab6e-8a56-47bc-8b49-cd3dc75eff07"}')
    for batch in range(3):
        (path / "offsets" / str(batch)).write_text('v1\n{"batchWatermarkMs":0,"conf":{}}\n{"tick":1}\n-')
    for batch in range(2):
        (path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    (path / "offsets" / ".2.crc").write_bytes(b"crc")
    return path


def checkpoint(healthy: Path, **more: int) -> Checkpoint:
    return Checkpoint(str(healthy.parents[1]), "q", **more)


def test_a_healthy_checkpoint_is_left_alone(healthy: Path) -> None:
    assert damage(healthy) is None
    assert checkpoint(healthy).mend(50) is None
    assert healthy.exists()


def test_a_checkpoint_that_is_not_there_or_empty_is_no_damage(healthy: Path) -> None:
    shutil.rmtree(healthy)
    assert checkpoint(healthy).mend(0) is None
    healthy.mkdir()
    assert checkpoint(healthy).mend(0) is None


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-12])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"\x00garbage\xff")


@pytest.mark.parametrize("harm", [cut, empty, garble])
@pytest.mark.parametrize("file", ["offsets/2", "offsets/0", "commits/1", "metadata"])
def test_logs_that_cannot_be_parsed_are_set_aside_in_one_line(
    healthy: Path, file: str, harm: Callable[[Path], None]
) -> None:
    harm(healthy / file)
    line = checkpoint(healthy).mend(0)
    assert line is not None
    assert len(line.splitlines()) == 1
    assert "q.broken-1" in line
    assert not healthy.exists()
    assert (healthy.parent / "q.broken-1" / file).exists()


@pytest.mark.parametrize("lost", ["offsets", "metadata"])
def test_a_part_that_is_lost_is_damage(healthy: Path, lost: str) -> None:
    shutil.rmtree(healthy / lost) if (healthy / lost).is_dir() else (healthy / lost).unlink()
    assert damage(healthy) is not None


def test_failures_in_a_row_are_laid_to_the_checkpoint_once(healthy: Path) -> None:
    stateful = checkpoint(healthy, hopeless_after=3)
    assert [stateful.mend(n) for n in (0, 1, 2)] == [None, None, None]
    line = stateful.mend(3)
    assert line is not None
    assert "failed 3 times in a row" in line
    shutil.copytree(healthy.with_name("q.broken-1"), healthy)
    assert stateful.mend(4) is None, "that was not the cause"
    assert [stateful.mend(n) for n in (0, 1, 2)] == [None, None, None]
    assert stateful.mend(3) is not None, "another time, another cause"


def test_a_disk_that_takes_nothing_is_to_blame_and_not_the_checkpoint(
    healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_has_room", lambda _: False)
    assert checkpoint(healthy, hopeless_after=3).mend(7) is None
    assert healthy.exists()


def test_the_last_three_broken_checkpoints_are_kept(healthy: Path) -> None:
    spare = healthy.with_name("spare")
    shutil.copytree(healthy, spare)
    empty(spare / "metadata")
    for _ in range(5):
        shutil.rmtree(healthy, ignore_errors=True)
        shutil.copytree(spare, healthy)
        assert checkpoint(healthy).mend(0) is not None
    assert sorted(path.name for path in healthy.parent.glob("q.broken-*")) == [f"q.broken-{n}" for n in (3, 4, 5)]
