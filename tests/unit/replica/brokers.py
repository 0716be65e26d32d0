"""A broker that serves ranges of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from parallax.replica.client import FetchedPartition, FetchPosition
from parallax.replica.errors import NotHosted, ReplicaError, Unreachable

from .batches import Batch, logs


@dataclass
class Held:
    """A log as a broker holds it."""

    batches: Sequence[Batch]
    aborted: Sequence[tuple[int, int]] = ()
    error: ReplicaError | None = None
    garbled: int = -1
    """Index of a batch whose last byte is another."""

    def encoded(self, n: int) -> bytes:
        data = bytearray(self.batches[n].encode())
        if n == self.garbled:
            data[-1] ^= 1
        return bytes(data)

    @property
    def end(self) -> int:
        return max((batch.last for batch in self.batches), default=-1) + 1


@dataclass
class Broker:
    """Answers a Fetch as Kafka's ReplicaManager.readFromLog does: logs share the bytes in the order of the request.

    The first log that has anything gives its first batch whole, however large; then one gives what still fits, and
    nothing where not even its first batch does.
    """

    held: dict[int, Held]
    fails_after: int = 10**9
    throttle_ms: int = 0
    asked: list[list[FetchPosition]] = field(default_factory=list)

    def begin_fetch(self, broker: int, positions: Sequence[FetchPosition], *, max_bytes: int, **_: Any) -> Any:
        self.asked.append(list(positions))
        self._room = max_bytes
        return self

    def result(self, *_: Any) -> list[FetchedPartition]:
        if len(self.asked) > self.fails_after:
            raise Unreachable("it is gone", broker=1)
        room, answers, is_first = self._room, [], True
        for position in self.asked[-1]:
            log = self.held[position.partition]
            if log.error is not None:
                answers.append(FetchedPartition(position.topic, position.partition, log.error))
                continue
            data, whole = bytearray(), min(room, position.max_bytes)
            for n, batch in enumerate(log.batches):
                if batch.last < position.offset:
                    continue
                encoded = log.encoded(n)
                if not data and len(encoded) > whole and not is_first:
                    break
                data += encoded if not data else encoded[: max(0, whole - len(data))]
            is_first = is_first and not data
            room = max(0, room - len(data))
            aborted = np.array(log.aborted, np.int64).reshape(-1, 2)
            marks = log.end, log.end, 0
            answers.append(
                FetchedPartition(
                    position.topic, position.partition, None, *marks, aborted=aborted, records=memoryview(bytes(data))
                )
            )
        return answers

    def cancel(self) -> None: ...


@st.composite
def helds(draw: st.DrawFn) -> Held:
    batches = draw(logs())
    producers = sorted({b.producer for b in batches if b.producer >= 0})
    aborted: list[tuple[int, int]] = []
    if producers and draw(st.booleans()):
        aborted = [(draw(st.sampled_from(producers)), draw(st.integers(0, 40)))]
    garbled = draw(st.integers(0, len(batches) - 1)) if batches and draw(st.integers(0, 4)) == 0 else -1
    error = NotHosted("offline") if draw(st.integers(0, 9)) == 0 else None
    return Held(batches, aborted, error, garbled)
