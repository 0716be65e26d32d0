"""Decides which job may write to a storage on an object store: the one that holds its lease.

A lease needs only conditional puts: no lock service, and no comparison of two clocks. It is an object whose name is a
number, its *epoch*. To take the lease, a job puts an object with the next higher number, which the store refuses if
another job was first. The holder writes a *beat*, a counter, next to it every few seconds.

A job that wants the storage watches the beat. If it grows, the holder lives. If it has not grown for as long as a lease
lasts, by the watcher's own clock, the storage may be taken over.

That is a guess, as any timeout is: a frozen or isolated holder may come back. The tables then refuse what it commits
(`parallax.views.fencing`). So a wrong guess costs a restart and no row.

::

    lease/0000000007         who has taken it, and when
    lease/0000000007.beat    shows that the holder lives, or has released the lease
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import uuid4

import structlog

from parallax.errors import one_line
from parallax.views.objects import Objects, StoreError

log = structlog.get_logger(__name__)

LASTS_S = 30.0
"""A lease whose holder has written no beat for so many seconds may be taken over."""

NOT_HONOURED = (
    "the store takes a put that must create an object (If-None-Match: *) where there is one: two writers would lose "
    "each other's commits; use a store that refuses it"
)

_BEATS = 6
"""How many beats a holder writes while its lease lasts, because some may be lost or late."""
_LOOK_S = 0.5
_KEPT = 8
"""How many epochs' objects are kept. All but the last only show people what happened."""
_NAME = re.compile(r"(\d{10})(\.beat)?")
_FOLDER = "lease"


@dataclass(frozen=True, slots=True)
class Sight:
    """The state of a storage's lease when a job looks at it.

    Attributes:
        epoch: the highest epoch; 0 if no job ever took the lease.
        beat: the holder's counter, which grows while the holder lives; -1 if there is none yet.
        released: whether the holder has given the lease up.
        owner: the holder in words: host and process.
    """

    epoch: int = 0
    beat: int = -1
    released: bool = False
    owner: str = "unknown"


class Step(StrEnum):
    """What a job that wants the lease on a storage does next: take it, wait, or give up.

    It gives up if another job lives.
    """

    TAKE = "take"
    WAIT = "wait"
    GIVE_UP = "give up"


def decide(first: Sight, now: Sight, watched_s: float, lasts_s: float = LASTS_S) -> Step:
    """What a job that wants the lease does next, by two looks at it. The function is pure.

    Args:
        first: the lease as it was when the job began to watch it.
        now: the lease as it is now.
        watched_s: how many seconds are between the two, by the watcher's clock.
        lasts_s: how many seconds a holder may be silent.
    """
    if not now.epoch or now.released:
        return Step.TAKE
    if (now.epoch, now.beat) != (first.epoch, first.beat):
        return Step.GIVE_UP
    return Step.TAKE if watched_s >= lasts_s else Step.WAIT


class HeldError(RuntimeError):
    """Another job holds the lease and lives; the text names that job."""


class Lease:
    """The lease on one storage, as one process takes, renews and releases it.

    Args:
        objects: the objects below ``storage.path``.
        lasts_s: how many seconds a holder may be silent before another job takes its lease over.
        clock: returns monotonic seconds; tests give their own.
        wait: waits for some seconds; tests give their own.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        lasts_s: float = LASTS_S,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._objects, self._lasts_s, self._clock, self._wait = objects, lasts_s, clock, wait
        self._owner = f"{socket.gethostname()}, pid {os.getpid()}"
        self._beat = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lost: str | None = None
        self._is_late = False
        self.epoch = 0
        """The number of this lease; 0 until it is taken."""
        self.renewed_at: float | None = None
        """When the store last accepted a beat, in seconds since 1970 UTC; None before the first one."""

    @property
    def lost(self) -> str | None:
        """The job that has taken the lease over from this process, in words; None if none is known.

        Once another job has it, this process must write nothing more.
        """
        return self._lost

    def acquire(self, say: Callable[[str], None] = lambda _: None) -> int:
        """Take the lease; if a holder seems dead, first wait until its lease has expired.

        Args:
            say: called once with a line that names the holder, if this has to wait.

        Returns:
            The epoch of the lease.

        Raises:
            HeldError: another job holds the lease and lives.
            StoreError: the store cannot be reached, or does not honour conditional puts.
        """
        first = self.look()
        since, told = self._clock(), False
        while True:
            now = self.look()
            step = decide(first, now, self._clock() - since, self._lasts_s)
            if step is Step.GIVE_UP:
                raise HeldError(now.owner)
            if step is Step.WAIT:
                if not told:
                    say(f"the job that had this storage ({now.owner}) has not let go; it is taken over if it is silent")
                    told = True
                self._wait(_LOOK_S)
                continue
            if self._take(now.epoch + 1):
                return self.epoch
            first, since = self.look(), self._clock()

    def _take(self, epoch: int) -> bool:
        """Take the lease with this epoch; True if this job was the first to."""
        mark = uuid4().hex
        document = {"owner": self._owner, "mark": mark, "since": datetime.now(UTC).isoformat(timespec="seconds")}
        name = f"{_FOLDER}/{epoch:010d}"
        if not self._objects.create(name, json.dumps(document).encode()):
            # The store may have taken it, lost its answer, and refused it when it was sent again.
            there = _document(self._objects.get(name))
            if there.get("mark") != mark:
                return False
        elif self._objects.create(name, json.dumps(document).encode()):
            raise StoreError(f"{self._objects.uri}: {NOT_HONOURED}")
        # Old epochs are removed: one that was slow to put may have found the place of one that is long over.
        if self.look().epoch != epoch:
            return False
        self.epoch = epoch
        self._write_beat()
        self._clean()
        return True

    def look(self) -> Sight:
        """The present state of the storage's lease, which this process or another one may hold.

        Raises:
            StoreError: the store cannot be reached.
        """
        epoch = max(_epochs(one.name for one in self._objects.below(_FOLDER)), default=0)
        if not epoch:
            return Sight()
        name = f"{_FOLDER}/{epoch:010d}"
        held, beat = _document(self._objects.get(name)), _document(self._objects.get(f"{name}.beat"))
        number = beat.get("beat", -1)
        return Sight(
            epoch,
            number if isinstance(number, int) else -1,
            beat.get("released") is True,
            one_line(str(held.get("owner", "unknown")))[:200],
        )

    def start(self) -> None:
        """Renew the lease from now on, in a thread of its own, so that no other job takes it over.

        The thread ends when the lease is released or lost.
        """
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        """Write one beat, which shows that this job lives, and see whether another job has the lease (`lost`).

        If the store cannot be reached, the job goes on all the same, because its commits are fenced.
        """
        try:
            # The one after this is all that can be there, unless this job has been away for long.
            if self._is_late or self._objects.get(f"{_FOLDER}/{self.epoch + 1:010d}") is not None:
                now = self.look()
                if now.epoch > self.epoch:
                    self._lost = now.owner
                    return
            self._write_beat()
        except StoreError as error:
            if not self._is_late:
                log.warning("the lease on the storage could not be renewed; it is tried again", error=str(error))
            self._is_late = True
            return
        if self._is_late:
            log.info("the lease on the storage is renewed again")
        self._is_late = False

    def release(self) -> None:
        """Give the lease up, so that the next job need not wait.

        A failure is only logged; then the next job has to wait.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._lasts_s)
        if self.epoch and self._lost is None:
            try:
                self._write_beat(released=True)
            except StoreError as error:
                log.warning("the lease on the storage could not be released; the next job waits", error=str(error))

    def _run(self) -> None:
        renewed = self._clock()
        while not self._stop.wait(self._lasts_s / _BEATS):
            self._is_late |= self._clock() - renewed > self._lasts_s
            renewed = self._clock()
            try:
                self.renew()
            except Exception as error:  # noqa: BLE001 - a thread that died would let the lease run out
                log.warning("the lease on the storage could not be renewed; it is tried again", error=str(error))
            if self._lost is not None:
                return

    def _write_beat(self, *, released: bool = False) -> None:
        self._beat += 1
        content = json.dumps({"beat": self._beat, "released": released}).encode()
        self._objects.put(f"{_FOLDER}/{self.epoch:010d}.beat", content)
        self.renewed_at = time.time()

    def _clean(self) -> None:
        names = [one.name.rpartition("/")[2] for one in self._objects.below(_FOLDER)]
        old = [name for name in names if any(epoch <= self.epoch - _KEPT for epoch in _epochs_of(name))]
        self._objects.delete(f"{_FOLDER}/{name}" for name in old)


def _epochs(names: Iterable[str]) -> list[int]:
    """The epochs that were taken, by the names of objects.

    A beat without its epoch's object does not count: a frozen holder wrote it after that object had been deleted.
    """
    found = (_NAME.fullmatch(name.rpartition("/")[2]) for name in names)
    return [int(one[1]) for one in found if one is not None and not one[2]]


def _epochs_of(name: str) -> list[int]:
    found = _NAME.fullmatch(name)
    return [int(found[1])] if found else []


def _document(content: bytes | None) -> dict[str, object]:
    try:
        document = json.loads(content or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


__all__ = ["LASTS_S", "NOT_HONOURED", "HeldError", "Lease", "Sight", "Step", "decide"]
