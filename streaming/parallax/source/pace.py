"""Limits how fast a Spark task reads a broker (a token bucket), and counts how much it has read (a meter).

If the bytes of a broker are limited, one Spark task reads all of that broker
(``parallax.source.planning.broker_tasks``). So its bucket is in one process, and need not be shared.
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
    """Limits reading to some bytes per second: `take` counts an answer, and `wait` waits before the next request.

    The wait is as long as the answer's bytes take at that rate. Unused time is not saved up. So over any time t, at
    most ``rate * t`` bytes and one more answer are read.

    Args:
        rate: bytes per second.
        clock: returns monotonic seconds; tests give their own.
        sleep: waits for some seconds; tests give their own.
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
        """Wait until the bytes counted so far are within the rate."""
        while (left := self._free_at - self._clock()) > 0:
            self._sleep(left)

    def take(self, size: int) -> None:
        """Count ``size`` bytes as read, without waiting; the next `wait` waits until they are within the rate."""
        self._free_at = max(self._free_at, self._clock()) + size / self._rate


@dataclass(frozen=True, slots=True)
class Metered:
    """How much was read so far, by one Spark task or by several together.

    Attributes:
        read_bytes: bytes of records in Fetch responses, as they came (compressed).
        offsets: how many offsets all readers together have read past.
        ranges: how many ranges of readers are done: read to their end, or failed.
    """

    read_bytes: int = 0
    offsets: int = 0
    ranges: int = 0

    def __add__(self, other: Metered) -> Metered:
        """Both together."""
        return Metered(self.read_bytes + other.read_bytes, self.offsets + other.offsets, self.ranges + other.ranges)


class Meter:
    """Writes into a file how much one Spark task has read in all, so that the driver can add up all tasks (`metered`).

    Args:
        folder: folder of the file; it is made if it does not exist, and all processes of the job can read it.
        broker: id of the broker that the Spark task reads.
        clock: returns monotonic seconds; tests give their own.
    """

    EVERY_S = 0.5
    """The file is written at most once in so many seconds."""

    def __init__(self, folder: str, broker: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = Path(folder) / f"broker-{broker}-{uuid.uuid4().hex}.json"
        self._clock = clock
        self._written_at = clock()
        self._read = Metered()

    def add(self, read: Metered) -> None:
        """Add to the counts what this Spark task has read since the last call (increments, not totals).

        The meter's file is written again at most once in `EVERY_S` seconds.

        Args:
            read: the increments.
        """
        self._read += read
        if self._clock() - self._written_at >= self.EVERY_S:
            self.write()

    def write(self) -> None:
        """Write the counts so far into the meter's file: how much this Spark task has read in all.

        An error of the file system is ignored, because the Spark task must go on reading. Then the driver adds up less.
        """
        self._written_at = self._clock()
        scratch = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps(astuple(self._read)), encoding="ascii")
            os.replace(scratch, self._path)  # noqa: PTH105 - atomic, and in the same folder
        except OSError:
            return


def metered(folder: str) -> dict[int, Metered]:
    """How much all Spark tasks together have read so far of each broker, by broker id.

    Args:
        folder: where the meters of the Spark tasks write their files (`Meter`).
    """
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
    """Limits how fast one Spark task reads, and counts what it has read; the Spark task calls it at each step.

    Args:
        bucket: limits the bytes per second; None for no limit.
        meter: counts bytes, offsets and ranges; None to count nothing.
    """

    def __init__(self, bucket: TokenBucket | None, meter: Meter | None) -> None:
        self._bucket = bucket
        self._meter = meter

    def wait(self) -> None:
        """Wait until the next Fetch may be sent.

        So the Spark task reads no more bytes a second than the limit.
        """
        if self._bucket is not None:
            self._bucket.wait()

    def received(self, size: int) -> None:
        """Count ``size`` bytes of records that a Fetch response has brought; the next `wait` takes longer for them."""
        if self._bucket is not None:
            self._bucket.take(size)
        if self._meter is not None:
            self._meter.add(Metered(read_bytes=size))

    def passed(self, offsets: int) -> None:
        """Add ``offsets`` to the number of offsets that the Spark task has read past (an increment)."""
        if self._meter is not None:
            self._meter.add(Metered(offsets=offsets))

    def finished(self) -> None:
        """Count one range as done: it was read to its end, or reading it failed."""
        if self._meter is not None:
            self._meter.add(Metered(ranges=1))

    def close(self) -> None:
        """Write the last counts to the meter's file, because `Meter.add` does not write at each call."""
        if self._meter is not None:
            self._meter.write()


__all__ = ["Meter", "Metered", "Pace", "TokenBucket", "metered"]
