"""Knows whether a disk that a job writes to is full, and when there is space on it again.

While a disk is full, the supervisor starts no query. One log line says so.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from parallax.stores import is_remote, rust_path

log = structlog.get_logger(__name__)

_SAID = re.compile(r"No space left on device|Disk quota exceeded|\b(os error|[Ee]rrno) (28|122)\b")
"""How Python, Java, Rust and Arrow say ENOSPC and EDQUOT."""

NEEDED = 64 << 20
"""How many bytes must be free before a disk no longer counts as full: some busy micro-batches."""

_LEAST = 1 << 20
"""If fewer bytes than this are free, the disk counts as the cause of any failure."""

_FILES = 1000
"""How many files (inodes) have to be free before a disk no longer counts as full."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 15.0, 600.0
"""How many seconds to wait, at first and at most, if errors call a disk full that is not. A quota does."""

_LOOKED_S = 1.0
_AGAIN_S = 60.0

Free = Callable[[str], tuple[int, int]]
"""Returns how many bytes and how many files can still be written in a folder."""


def says_full(text: str) -> bool:
    """Whether the text of an error says that a disk is full, or a quota used up.

    Then the way out is to free space, and not to look for a fault in what was written.
    """
    return _SAID.search(text) is not None


def free(folder: str) -> tuple[int, int]:
    """How many bytes, and how many files, this process can still write in a folder; a tuple of the two numbers.

    If the file system does not count files, their number is one that always suffices.

    Raises:
        OSError: the file system cannot be asked.
    """
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else _FILES


class Room:
    """Knows whether the disk of ``storage.path`` or of Spark's temporary files is full.

    A disk counts as full from the first failure for lack of space until there is space again. One line is logged at the
    beginning and one at the end. May be used by any thread.

    Args:
        storage: ``storage.path``. For an object store, only the disk of the temporary files counts.
        temporary: ``spark.local.dir``; None for the default folder of Python and Java.
        on_change: called when a disk becomes full (True), and when there is space again (False).
        clock: returns monotonic seconds; tests give their own.
        look: returns how much is free, as `free` does; tests give their own.
    """

    def __init__(
        self,
        storage: str,
        temporary: str | None = None,
        on_change: Callable[[bool], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        look: Free = free,
    ) -> None:
        first = (temporary or tempfile.gettempdir()).split(",")[0]
        self._places = {f"{first} (Spark's temporary files, spark.local.dir)": first}
        if not is_remote(storage):
            self._places = {f"{storage} (storage.path)": rust_path(storage), **self._places}
        self._on_change = on_change
        self._clock = clock
        self._look = look
        self._lock = threading.RLock()
        self._since: float | None = None
        self._full = next(iter(self._places))
        self._until = self._looked_at = float("-inf")
        self._ended_at = float("-inf")
        self._wait_s = _FIRST_WAIT_S

    def caused(self, error: str) -> bool:
        """Whether an error came because a disk is full; if so, the disk counts as full from now on.

        A disk is the cause if the text says so. It is also if less than 1 MiB, or no inode, is free on it.

        Args:
            error: the text of the error.
        """
        with self._lock:
            looks = {place: self._free(place) for place in self._places}
            place = min(looks, key=lambda one: (looks[one][1] >= _FILES, looks[one][0]))
            size, files = looks[place]
            if not says_full(error) and size >= _LEAST and files > 0:
                return False
            if self._since is None:
                self._begin(place, size, files)
            return True

    def lasts(self) -> bool:
        """Whether a disk still counts as full, so that its writers should wait.

        If the disk refuses writes although it has space, as under a quota, it counts as full until the next try is due.
        """
        with self._lock:
            now = self._clock()
            if self._since is None or now - self._looked_at < _LOOKED_S:
                return self._since is not None
            self._looked_at = now
            size, files = self._free(self._full)
            if now < self._until or size < NEEDED or files < _FILES:
                return True
            log.warning("storage has room again; recording goes on", place=self._full, took_s=round(now - self._since))
            self._since, self._ended_at = None, now
            self._on_change(False)
            return False

    def _begin(self, place: str, size: int, files: int) -> None:
        now = self._clock()
        self._since = self._looked_at = self._until = now
        self._full = place
        free_now: dict[str, object] = {"free": _mib(size), "needed": _mib(NEEDED)}
        if files < _FILES:
            free_now = {"free_files": files, "needed_files": _FILES}
        elif size >= NEEDED:
            # The disk has room, and still refuses: nobody can be asked when it will not.
            again = now - self._ended_at < _AGAIN_S
            self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S) if again else _FIRST_WAIT_S
            self._until = now + self._wait_s
            free_now = {"free": _mib(size), "retry_after_s": round(self._wait_s)}
        what = (
            "make room on that disk (or raise its quota); the job then goes on by itself, with what brokers still hold"
        )
        log.error("storage is full; recording has stopped", place=place, **free_now, what=what)
        self._on_change(True)

    def _free(self, place: str) -> tuple[int, int]:
        """How many bytes and files are free; as many as are needed if the file system cannot be asked."""
        try:
            return self._look(_existing(self._places[place]))
        except OSError:
            return NEEDED, _FILES


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def _existing(folder: str) -> str:
    """The folder, or the nearest folder above it that exists."""
    path = Path(folder).absolute()
    return str(next(one for one in (path, *path.parents) if one.exists()))


__all__ = ["NEEDED", "Room", "free", "says_full"]
