"""Kills the brokers when the process that started them dies without stopping them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

# Each line names every process to kill; the end of the input is the parent's end, however it came about.
_SCRIPT = 'pids=""; while read -r line; do pids="$line"; done; [ -z "$pids" ] || kill -KILL $pids 2>/dev/null'


class Watchdog:
    """Kills some processes when this one dies, by means of a shell that reads from a pipe.

    When this process dies, the operating system closes the pipe, and the shell kills the processes. Linux's
    parent-death signal cannot be used, because it is sent as soon as the *thread* that started a child ends.
    """

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C in the terminal is for the parent
        )

    def guard(self, pids: Iterable[int]) -> None:
        """Set which processes are killed when this one ends.

        Args:
            pids: ids of the processes; they replace those of the call before.
        """
        assert self._shell.stdin is not None  # noqa: S101 - stdin=PIPE; tells the type checker so
        self._shell.stdin.write(" ".join(map(str, pids)) + "\n")
        self._shell.stdin.flush()

    def close(self) -> None:
        """Kill the processes of the last `guard` call that still run, and end the shell."""
        if self._shell.stdin is not None and not self._shell.stdin.closed:
            self._shell.stdin.close()
        self._shell.wait()
