"""Checkpoints that cannot be used are found and set aside; healthy ones are left alone."""

from __future__ import annotations

import shutil
import zlib
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
    for file in [path / "metadata", *path.glob("offsets/*"), *path.glob("commits/*")]:
        sum_up(file)
    (path / "offsets" / ".0.crc").unlink()  # Spark died before it was renamed
    return path


def sum_up(file: Path) -> None:
    """Write a file's checksums as Hadoop does, for chunks of 512 bytes."""
    data = file.read_bytes()
    chunks = [data[at : at + 512] for at in range(0, len(data), 512)]
    sums = b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks)
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0\0\0\2\0" + sums)


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


def another_digit(path: Path) -> None:
    path.write_bytes(
        path.read_bytes().replace(b'"tick":1', b'"tick":7').replace(b'Ms":0', b'Ms":4').replace(b"0f45", b"0f54")
    )


@pytest.mark.parametrize("file", ["offsets/2", "commits/1", "metadata"])
def test_a_file_that_can_be_parsed_and_is_not_what_was_written_is_set_aside_at_once(healthy: Path, file: str) -> None:
    another_digit(healthy / file)
    line = checkpoint(healthy).mend(0)
    assert line is not None
    assert "checksum" in line
    assert len(line.splitlines()) == 1
    assert not healthy.exists()


@pytest.mark.parametrize("file", ["offsets/.2.crc", "commits/.1.crc", ".metadata.crc"])
@pytest.mark.parametrize(
    "sums", [b"", b"crc", b"crc\0\0\0\2\0", b"crc\0\xff\xff\xff\xff1234", b"crd\0\0\0\2\0" + b"1234"]
)
def test_checksums_that_are_garbled_themselves_are_damage(healthy: Path, file: str, sums: bytes) -> None:
    (healthy / file).write_bytes(sums)
    assert "checksum" in (checkpoint(healthy).mend(0) or "")


def test_checksums_are_those_of_each_chunk_as_hadoop_writes_them(healthy: Path) -> None:
    long = healthy / "offsets" / "2"
    long.write_text("v1\n{}\n" + '{"at":"' + "x" * 1400 + '"}')
    sum_up(long)
    assert damage(healthy) is None
    changed = bytearray(long.read_bytes())
    changed[1300] ^= 1
    long.write_bytes(changed)
    assert damage(healthy) is not None


def test_a_query_that_fails_for_a_checksum_of_its_checkpoint_again_and_again_begins_anew(healthy: Path) -> None:
    mine = (
        "[STREAM_FAILED] Query [id = 7] terminated with exception: Checksum error: file:/d/checkpoints/q/offsets/2 at 0"
    )
    others = "Checksum error: file:/d/checkpoints/q2/offsets/2 at 0 exp: 1 got: 2"
    assert [checkpoint(healthy).mend(9, error) for error in (None, others, "no broker answers")] == [None, None, None]
    one = checkpoint(healthy)
    assert [one.mend(n, mine) for n in (1, 2)] == [None, None]
    assert "failed 3 times in a row" in (one.mend(3, mine) or "")


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
