"""The comparison as a stateful processor of Spark: one state read and one state write for each key and micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
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
        self._state: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the one value that a partition keeps."""
        self._state = handle.getValueState("partition", "state binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Take one step."""
        topic, partition = str(key[0]), int(key[1])
        observed = [unpack(topic, partition, bytes(blob)) for frame in rows for blob in frame["packed"]]
        if not observed:
            return
        stored = self._state.get()
        result = step(
            PartitionState.from_bytes(bytes(stored[0]) if stored else b""),
            Observations.concat(observed),
            self._settings,
            timerValues.getCurrentProcessingTimeInMs(),
            from_log_start=self._from_log_start,
        )
        self._state.update((result.state.to_bytes(),))
        text = to_json(result.suspects, result.coverage)
        yield pd.DataFrame({"topic": [topic], "partition": [partition], "result": [text]})

    def close(self) -> None:
        """Nothing is held open."""


__all__ = ["RESULT_DDL", "CompareProcessor"]
