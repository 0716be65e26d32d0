"""The comparison as a stateful processor of Spark: one small state read and written for each key and micro-batch.

What is unmatched is a state of its own, read where there is any and written where it has changed: while a replica is
away or frozen it may be tens of megabytes, and the same for days.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from parallax.compare.observations import Observations
from parallax.compare.packing import unpack
from parallax.compare.results import to_json
from parallax.compare.state import PartitionState
from parallax.compare.step import step
from parallax.config import CompareSettings

RESULT_DDL = "topic string, partition int, result string"


class CompareProcessor(StatefulProcessor):
    """Compares the partitions of its keys.

    No timers: progress rows come every second, so that grace periods end without them.

    Args:
        settings: of the comparison.
        from_log_start: see `step`.
    """

    def __init__(self, settings: CompareSettings, *, from_log_start: bool = True) -> None:
        self._settings = settings
        self._from_log_start = from_log_start
        self._head: Any = None
        self._unmatched: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the two values that a partition keeps."""
        self._head = handle.getValueState("partition", "state binary")
        self._unmatched = handle.getValueState("unmatched", "state binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Take one step."""
        topic, partition = str(key[0]), int(key[1])
        # The shuffle brings the blobs in any order; what a replica was read to show has one.
        blobs = [(at, bytes(blob)) for frame in rows for at, blob in zip(frame["at"], frame["packed"], strict=True)]
        observed = [unpack(topic, partition, blob) for _, blob in sorted(blobs, key=itemgetter(0))]
        if not observed:
            return
        before = PartitionState.from_bytes(_stored(self._head), lambda: _stored(self._unmatched))
        result = step(
            before,
            Observations.concat(observed),
            self._settings,
            timerValues.getCurrentProcessingTimeInMs(),
            from_log_start=self._from_log_start,
        )
        self._store(before, result.state)
        text = to_json(result.suspects, result.coverage)
        yield pd.DataFrame({"topic": [topic], "partition": [partition], "result": [text]})

    def _store(self, before: PartitionState, after: PartitionState) -> None:
        self._head.update((after.head_bytes(),))
        if not after.has_unmatched_of(before):
            unmatched = after.unmatched_bytes()
            if unmatched:
                self._unmatched.update((unmatched,))
            else:
                self._unmatched.clear()

    def close(self) -> None:
        """Nothing is held open."""


def _stored(value: Any) -> bytes:
    stored = value.get()
    return bytes(stored[0]) if stored else b""


__all__ = ["RESULT_DDL", "CompareProcessor"]
