"""A full disk: what is laid to it, how long everything waits, and that one line says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from parallax.views import room
from parallax.views.room import NEEDED, Room, says_full

FULL = "[Errno 28] No space left on device"
MANY = 1_000_000


class Disks:
    """Disks whose room the test sets, by the path."""

    def __init__(self) -> None:
        self.now = 0.0
        self.free: dict[str, tuple[int, int]] = {}
        self.changes: list[bool] = []

    def room(self, storage: str = "/data", temporary: str = "/scratch") -> Room:
        return Room(storage, temporary, self.changes.append, lambda: self.now, lambda path: self.free[path])


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    monkeypatch.setattr(room, "_existing", lambda path: path)
    made = Disks()
    made.free = {"/data": (10 * NEEDED, MANY), "/scratch": (10 * NEEDED, MANY)}
    return made


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.mark.parametrize(
    "text",
    [
        FULL,
        "java.io.IOException: No space left on device",
        "Generic LocalFileSystem error: Unable to copy data: No space left on device (os error 28)",
        "OSError: [Errno 122] Disk quota exceeded",
        "Unable to open file: os error 122",
    ],
)
def test_whoever_says_that_a_disk_is_full_is_understood(text: str) -> None:
    assert says_full(text)


@pytest.mark.parametrize("text", ["", "[Errno 13] Permission denied", "os error 2", "Errno 280", "offset 28"])
def test_nothing_else_is_taken_for_it(text: str) -> None:
    assert not says_full(text)


def test_it_is_said_once_with_what_is_needed_and_ends_when_there_is_room(disks: Disks, logged: list[Any]) -> None:
    disks.free["/data"] = (0, MANY)
    full = disks.room()
    assert full.caused(FULL)
    assert full.caused(FULL)
    assert full.lasts()
    (line,) = logged
    assert line["event"] == "storage is full; recording has stopped"
    assert line["place"] == "/data (storage.path)"
    assert (line["free"], line["needed"]) == ("0.0 MiB", "64.0 MiB")
    assert "goes on by itself" in line["what"]
    disks.now, disks.free["/data"] = 30.0, (NEEDED - 1, MANY)
    assert full.lasts()
    disks.now, disks.free["/data"] = 60.0, (NEEDED, MANY)
    assert not full.lasts()
    assert disks.changes == [True, False]
    assert [(one["event"], one.get("took_s")) for one in logged[1:]] == [
        ("storage has room again; recording goes on", 60)
    ]


def test_whatever_fails_on_a_disk_without_room_is_laid_to_it(disks: Disks) -> None:
    disks.free["/data"] = (4096, MANY)
    assert disks.room().caused("the table cannot be parsed")


def test_what_fails_for_another_reason_is_not(disks: Disks, logged: list[Any]) -> None:
    disks.free["/data"] = (NEEDED // 2, MANY)
    other = disks.room()
    assert not other.caused("the broker is away")
    assert not other.lasts()
    assert (disks.changes, logged) == ([], [])


def test_the_disk_that_is_full_is_named_and_waited_for(disks: Disks, logged: list[Any]) -> None:
    disks.free |= {"/data": (NEEDED // 2, MANY), "/scratch": (0, MANY)}
    full = disks.room(temporary="/scratch")
    assert full.caused(FULL)
    assert logged[0]["place"] == "/scratch (Spark's temporary files, spark.local.dir)"
    disks.now, disks.free["/scratch"] = 5.0, (NEEDED, MANY)
    assert not full.lasts(), "that the other has little room has stopped nothing"


def test_a_disk_without_room_for_another_file_is_full(disks: Disks, logged: list[Any]) -> None:
    disks.free["/data"] = (10 * NEEDED, 0)
    full = disks.room()
    assert full.caused(FULL)
    assert (logged[0]["free_files"], logged[0]["needed_files"]) == (0, 1000)
    disks.now, disks.free["/data"] = 5.0, (10 * NEEDED, 1000)
    assert not full.lasts()


def test_of_a_quota_that_nobody_can_ask_about_is_tried_ever_more_rarely(disks: Disks, logged: list[Any]) -> None:
    full, waits = disks.room(), []
    for _ in range(8):
        assert full.caused("Disk quota exceeded")
        since = disks.now
        while full.lasts():
            disks.now += 1.0
        waits.append(disks.now - since)
        disks.now += 10.0
    assert waits == [15, 30, 60, 120, 240, 480, 600, 600]
    assert logged[0]["retry_after_s"] == 15
    disks.now += 100.0
    assert full.caused("Disk quota exceeded")
    disks.now += 15.0
    assert not full.lasts(), "another one begins with a short wait"


def test_of_an_object_store_only_the_temporary_files_count(disks: Disks, logged: list[Any]) -> None:
    disks.free["/scratch"] = (0, MANY)
    assert disks.room("s3://bucket/path").caused(FULL)
    assert logged[0]["place"].startswith("/scratch")


def test_a_real_disk_is_asked_also_where_the_folder_is_not_there_yet(tmp_path: Path) -> None:
    assert not Room(str(tmp_path / "not" / "yet")).caused("something else")
    assert room.free(str(tmp_path))[0] > 0
