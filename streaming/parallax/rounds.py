"""Does something again and again in a thread of its own, until it is stopped."""

from __future__ import annotations

import threading


class Rounds:
    """A thread that calls `look` at an interval. A subclass says what one look does, and what a fault of it means.

    Args:
        name: the thread's name.
        every_s: seconds from the end of one look to the next.
        is_prompt: whether the first look is immediate. Otherwise it comes after ``every_s``.
    """

    def __init__(self, name: str, every_s: float, *, is_prompt: bool = False) -> None:
        self.every_s = every_s
        """Seconds from the end of one look to the next."""
        self._is_prompt = is_prompt
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def look(self) -> None:
        """Look once; each subclass defines it."""
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        """Report that a look has failed; the next one tries again. It is called while the exception is handled.

        Args:
            error: what the look has raised.
        """
        raise NotImplementedError

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop the thread, and wait for a look that goes on.

        Args:
            timeout_s: how many seconds to wait, at most.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        if not self._is_prompt and self._stop.wait(self.every_s):
            return
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - a fault in one look must not be the last of them
                self.failed(error)
            if self._stop.wait(self.every_s):
                return


__all__ = ["Rounds"]
