"""Limits how fast a Spark task reads a broker (a token bucket), and counts how much it has read (a meter).

Where a broker's bytes are limited, one task reads it (``parallax.source.planning.broker_tasks``). So a bucket lives in
one process and needs no agreement with others.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path


class TokenBucket:
    """Lets bytes through at a rate. What was read is paid for afterwards, because its size is known only then.

    It saves no tokens. So over any time t, it lets through at most ``rate * t`` bytes and one answer.

    Args:
        rate: bytes per second.
        clock: monotonic seconds, for tests.
        sleep: waits some seconds, for tests.
    """

    def __init__(
        self,
        rate: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()

    def wait(self) -> None:
        """Return once everything that was taken is paid for."""
        while (left := self._free_at - self._clock()) > 0:
            self._sleep(left)

    def take(self, size: int) -> None:
        """Take the tokens for some bytes; the next `wait` lasts until they are paid for."""
        self._free_at = max(self._free_at, self._clock()) + size / self._rate


@dataclass(frozen=True, slots=True)
class Metered:
    """How much Spark tasks have read so far.

    Attributes:
        read_bytes: bytes of records in Fetch responses, as they came (compressed).
        offsets: how many offsets have been passed, by all readers together.
        ranges: how many readers have come to the end of their range, or have failed.
    """

    read_bytes: int = 0
    offsets: int = 0
    ranges: int = 0

    def __add__(self, other: Metered) -> Metered:
        """Both together."""
        return Metered(self.read_bytes + other.read_bytes, self.offsets + other.offsets, self.ranges + other.ranges)


class Meter:
    """Writes to a file of the Spark task how much it has read.

    Args:
        folder: folder of the file, made where it does not exist; on this machine, or shared by its processes.
        broker: the broker that is read.
        clock: monotonic seconds, for tests.
    """

    EVERY_S = 0.5
    """How often the file is written, at most."""

    def __init__(self, folder: str, broker: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = Path(folder) / f"broker-{broker}-{uuid.uuid4().hex}.json"
        self._clock = clock
        self._written_at = clock()
        self._read = Metered()

    def add(self, read: Metered) -> None:
        """Count what the task has read."""
        self._read += read
        if self._clock() - self._written_at >= self.EVERY_S:
            self.write()

    def write(self) -> None:
        """Write the file; a missing folder does not fail the reading."""
        self._written_at = self._clock()
        scratch = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps(astuple(self._read)), encoding="ascii")
            os.replace(scratch, self._path)  # noqa: PTH105 - atomic, and in the same folder
        except OSError:
            return


def metered(folder: str) -> dict[int, Metered]:
    """By broker, how many bytes all Spark tasks together have reported as read so far."""
    found: dict[int, Metered] = {}
    for path in Path(folder).glob("broker-*.json"):
        try:
            reported = Metered(*json.loads(path.read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue  # it is being written
        broker = int(path.name.split("-")[1])
        found[broker] = found.get(broker, Metered()) + reported
    return found


class Pace:
    """Limits and counts the reading of one Spark task: a limit, a meter, both or neither.

    Args:
        bucket: holds the limit.
        meter: counts.
    """

    def __init__(self, bucket: TokenBucket | None, meter: Meter | None) -> None:
        self._bucket = bucket
        self._meter = meter

    def wait(self) -> None:
        """Return once the next Fetch may be sent."""
        if self._bucket is not None:
            self._bucket.wait()

    def received(self, size: int) -> None:
        """Count the bytes of an answer."""
        if self._bucket is not None:
            self._bucket.take(size)
        if self._meter is not None:
            self._meter.add(Metered(read_bytes=size))

    def passed(self, offsets: int) -> None:
        """Count offsets that the task has passed."""
        if self._meter is not None:
            self._meter.add(Metered(offsets=offsets))

    def finished(self) -> None:
        """Count a range that has been read to its end, or has failed."""
        if self._meter is not None:
            self._meter.add(Metered(ranges=1))

    def close(self) -> None:
        """Write the last counts to the meter's file."""
        if self._meter is not None:
            self._meter.write()


__all__ = ["Meter", "Metered", "Pace", "TokenBucket", "metered"]
