"""What the processor makes of what the shuffle brings."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pandas as pd
import pytest

from parallax.compare.observations import Observations
from parallax.compare.packing import pack
from parallax.compare.processor import CompareProcessor
from parallax.compare.results import from_json
from parallax.compare.suspect import Coverage, Suspect
from parallax.config import CompareSettings
from parallax.model import ReadEvent
from tests.unit.compare.history import RC, RU, Row, both, everywhere, record, shown, tick


class Value:
    """A value of Spark's state store."""

    def __init__(self) -> None:
        self.kept: Any = None

    def get(self) -> Any:
        return self.kept

    def update(self, value: Any) -> None:
        self.kept = value

    def clear(self) -> None:
        self.kept = None


class Handle:
    """Gives values, and is the processing time as well."""

    def getValueState(self, *_: Any) -> Value:  # noqa: N802 - Spark's name
        return Value()

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802 - Spark's name
        return 1_000


def result(*frames: list[tuple[int, list[Row]]]) -> tuple[list[Suspect], Coverage]:
    """What the last of some micro-batches comes to; each is given as numbered commits."""
    processor, handle = CompareProcessor(CompareSettings()), Handle()
    processor.init(handle)  # type: ignore[arg-type]
    out: list[pd.DataFrame] = []
    for commits in frames:
        frame = pd.DataFrame(
            {
                "at": [at for at, _ in commits],
                "packed": [pack(Observations.of("t", 0, rows)) for _, rows in commits],
            }
        )
        out = list(processor.handleInputRows(("t", 0), iter([frame]), handle))
    return from_json(out[-1]["result"][0])


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_commits_are_taken_in_their_order_however_the_shuffle_brings_them(order: tuple[int, ...]) -> None:
    """A log that was truncated and has grown again, read by both readers within one micro-batch."""
    old, lost = [record(0, "K", "V")], [record(1, "L", "lost"), record(2, "L", "lost too")]
    new = [record(1, "G", "a"), record(2, "G", "b"), record(3, "G", "c")]
    before = [row for broker in (2, 3) for row in both(broker, old, 1)] + both(1, [*old, *lost], 3)
    commits = [
        (0, [row for broker in (2, 3) for row in both(broker, new, 4, 1)]),
        (1, [row for view in (RU, RC) for row in shown(view, 1, [], 1, 1, event=ReadEvent.LOG_TRUNCATED)]),
        (2, both(1, new, 4, 1)),
    ]
    suspects, coverage = result([(0, [*before, *tick(1, everywhere(1))])], [commits[i] for i in order])
    assert coverage.compared_up_to == (4, 4)
    assert [(s.kind, s.broker) for s in suspects] == [("log_truncated", 1)]
