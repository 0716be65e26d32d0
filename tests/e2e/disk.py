"""A folder whose disk fills up or turns read-only while a job writes to it."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

_SIZE = 192 << 20
_PREFIX = "parallax-disk-of-"


class Disk:
    """A small disk of its own where this process may mount one, else limits on the processes that write.

    A process whose ``RLIMIT_FSIZE`` is 0 cannot make any file longer, which is as good as a disk that takes nothing
    more: the one difference is that full and read-only look the same then.

    It is a folder of its own, not one of pytest's: where a run of the tests was killed, the disk is still mounted, and
    the next runs fail as they clean up after it. Whoever makes a disk unmounts what such runs have left.

    Args:
        writers: the processes that write to it at present, for the limits.
    """

    def __init__(self, writers: Callable[[], Iterable[psutil.Process]]) -> None:
        _unmount_what_is_left()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._writers = writers
        self.mounted = _run("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(self.folder))

    def close(self) -> None:
        """Unmount it, and remove its folder."""
        if self.mounted:
            assert _run("umount", "-l", str(self.folder))
        shutil.rmtree(self.folder)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Nothing more can be written while the block runs."""
        if not self.mounted:
            with self._limited():
                yield
            return
        filler = self.folder / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                for piece in (bytes(1 << 20), bytes(4096)):
                    with contextlib.suppress(OSError):
                        while True:
                            os.write(file.fileno(), piece)
            yield
        finally:
            filler.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nothing can be changed while the block runs."""
        if not self.mounted:
            with self._limited():
                yield
            return
        # A mount with files open for writing cannot be made read-only. So another one is, which nobody knows yet,
        # and then goes on top.
        path, aside = str(self.folder), f"{self.folder}-read-only"
        Path(aside).mkdir()
        with ExitStack() as stack:
            for command in (
                ("mount", "--bind", path, aside),
                ("mount", "-o", "remount,bind,ro", aside),
                ("mount", "--bind", aside, path),
            ):
                assert _run(*command), command
                if "--bind" in command:
                    stack.callback(_run, "umount", "-l", command[-1])
            assert not os.access(self.folder, os.W_OK)
            yield
        Path(aside).rmdir()

    @contextmanager
    def _limited(self) -> Iterator[None]:
        self._limit(0)
        try:
            yield
        finally:
            self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        for process in self._writers():
            try:
                _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
                process.rlimit(psutil.RLIMIT_FSIZE, (size, hard))
            except psutil.NoSuchProcess:
                continue


def _unmount_what_is_left() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if psutil.pid_exists(int(folder.name.removeprefix(_PREFIX).split("-")[0])):
            continue
        while folder.is_mount() and _run("umount", "-l", str(folder)):
            pass
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: str) -> bool:
    if os.environ.get("PARALLAX_TESTS_MOUNT") == "no":
        return False
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
