"""A process of its own that decodes one response, and tells what memory and time that took (JSON, one line)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from parallax.model import IsolationLevel
from parallax.replica.client import FetchedPartition
from parallax.replica.connection import ReceiveBuffer
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import CorruptBatch, Unsupported
from parallax.replica.reader import Buffers, read_range
from tests.unit.replica.batches import Batch, Record

HASHER = ContentHasher(bytes(range(16)))


class Broker:
    """Answers each Fetch with the response, received as a connection receives it."""

    throttle_ms = 0

    def __init__(self, data: bytes) -> None:
        self._data = data

    def begin_fetch(self, *_: object, **__: object) -> Broker:
        return self

    def result(self, deadline_ms: float, into: ReceiveBuffer) -> list[FetchedPartition]:
        room = into.room(len(self._data))
        room[:] = self._data
        return [FetchedPartition("t", 0, None, 1 << 60, 1 << 60, 0, records=room)]

    def cancel(self) -> None:
        pass


def memory(field: str) -> int:
    """Bytes, as the kernel counts them: VmRSS now, VmHWM at most since `reset`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def reset() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def read(data: bytes, buffers: Buffers, end: int) -> tuple[int, int, str]:
    rows, position, error = 0, 0, ""
    try:
        chunks = read_range(
            Broker(data),  # type: ignore[arg-type]
            1,
            "t",
            0,
            0,
            end,
            isolation=IsolationLevel.READ_UNCOMMITTED,
            hasher=HASHER,
            buffers=buffers,
        )
        for chunk in chunks:
            rows, position = rows + len(chunk.columns), chunk.position
    except (CorruptBatch, Unsupported) as failure:
        error = str(failure)
    return rows, position, error


def main() -> None:
    data = Path(sys.argv[1]).read_bytes()
    buffers = Buffers()
    read(Batch(0, [Record(b"k", b"v" * 1000)], codec=4).encode(), buffers, 1)
    before = memory("VmRSS")
    reset()
    began = time.process_time()
    rows, position, error = read(data, buffers, int(sys.argv[2]))
    seconds = time.process_time() - began
    peak = memory("VmHWM") - before
    kept = memory("VmRSS") - before
    measured = {"rows": rows, "position": position, "error": error, "seconds": seconds, "peak": peak, "kept": kept}
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
