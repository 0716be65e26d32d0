"""Shows the progress of an audit to the person who started it.

A terminal shows a bar with the elapsed time. Anything else gets lines, at least one every ten seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from parallax.audit.report import size_text
from parallax.source.pace import Metered

_LINE_EVERY_S = 10.0


class Shown:
    """Prints how far an audit is, as its `parallax.audit.run.Watcher`; a context manager.

    Args:
        console: where to print; if it is a terminal, a bar is drawn.
        clock: returns monotonic seconds; a test gives its own.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._line_at = self._stage_at = clock()
        self._stage = self._said = ""
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[read]}"))
            self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        else:
            threading.Thread(target=self._tick_on, name="progress", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._bar is not None:
            self._bar.stop()

    def stage(self, text: str) -> None:
        """Show that a part of the audit begins.

        Args:
            text: what the audit does in it, e.g. "reading the replicas".
        """
        if self._bar is None:
            with self._lock:
                self._stage, self._said, self._stage_at = text, "", self._clock()
                self._print(text)
            return
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(text, total=None, read="")

    def reading(self, done: Metered, of: Metered) -> None:
        """Show how much of a round's offsets have been read.

        Args:
            done: what has been read.
            of: what there is to read in the round; its bytes are not known.
        """
        read = f"{done.ranges} of {of.ranges} logs, {size_text(done.read_bytes)}"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done.offsets, total=max(of.offsets, 1), read=read)
        elif done.ranges + done.read_bytes:
            with self._lock:
                self._said = read

    def tick(self) -> None:
        """Print how far the present part is. Prints only after ten seconds in which nothing was printed."""
        with self._lock:
            if self._stage and self._clock() - self._line_at >= _LINE_EVERY_S:
                known = f"{self._said}, " if self._said else ""
                self._print(f"{self._stage}: {known}{self._clock() - self._stage_at:.0f} s so far")

    def _tick_on(self) -> None:
        while not self._ended.wait(1.0):
            self.tick()

    def _print(self, text: str) -> None:
        self._line_at = self._clock()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


__all__ = ["Shown"]
