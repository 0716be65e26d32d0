"""Readings of one producer's rows: what is read twice, what is passed over, and where a reading goes on."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parallax.findings.pace import BrokerPace
from parallax.model import IsolationLevel, Outcome, RowKind, TopicPartition
from parallax.repair import reading
from parallax.repair.reading import ProducerLog
from parallax.repair.seen import Log
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import Unreachable
from parallax.replica.types import Watermarks

PLACE = TopicPartition("orders", 0)
RECORD, COMMIT = RowKind.RECORD, RowKind.COMMIT


class Broker:
    """A log of rows (offset, producer, kind), ten bytes each, in chunks of one.

    Attributes:
        asked: what was read: start, end and isolation level of each range.
        outcome: what a read_committed consumer makes of records.
    """

    def __init__(self, *rows: tuple[int, int, RowKind], stable: int, end: int) -> None:
        self.rows = list(rows)
        self.marks = Watermarks(end, stable, 0, end)
        self.asked: list[tuple[int, int, IsolationLevel]] = []
        self.outcome = Outcome.COMMITTED
        self.fails = False
        self.pace = BrokerPace(1e12, lambda: 0.0, lambda _: None)

    def watermarks(self, broker: int, places: list[TopicPartition], **_: Any) -> dict[TopicPartition, Watermarks]:
        if self.fails:
            raise Unreachable("away")
        return {places[0]: self.marks}

    def read_range(
        self, _: Any, __: int, ___: str, ____: int, start: int, end: int, *, isolation: IsolationLevel, **more: Any
    ) -> Iterator[Any]:
        self.asked.append((start, end, isolation))
        for offset, producer, kind in self.rows:
            if start <= offset < end:
                more["pace"].received(10)
                yield self._chunk(offset, producer, kind, isolation)

    def _chunk(self, offset: int, producer: int, kind: RowKind, isolation: IsolationLevel) -> Any:
        is_decided = isolation is IsolationLevel.READ_COMMITTED
        names = ("key_hash_hi", "key_hash_lo", "content_hash", "key_size", "value_size", "timestamp")
        names += ("producer_epoch", "leader_epoch")
        columns = SimpleNamespace(
            producer_id=np.array([producer]),
            kind=np.array([kind]),
            offset=np.array([offset]),
            **{name: [1] for name in names},
        )
        outcome = np.array([self.outcome if is_decided else Outcome.UNDECIDED])
        return SimpleNamespace(columns=columns, outcome=outcome, position=offset + 1)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    def reader(broker: Broker, start: int = 4) -> Any:
        monkeypatch.setattr(reading, "read_range", broker.read_range)
        client: Any = broker
        log = ProducerLog(client, 2, PLACE, 7, start, ContentHasher(bytes(16)), broker.pace, 1000)
        return lambda most=None, since=None: log.read(most, since, lambda *_: None)

    return reader


def shown(log: Log) -> list[tuple[int, RowKind, Outcome]]:
    return [(row.offset, row.kind, row.outcome) for row in log.rows]


def test_only_rows_of_the_producer_count_and_beyond_the_last_stable_offset_is_undecided(read: Any) -> None:
    broker = Broker((4, 7, RECORD), (5, 8, RECORD), (6, 7, RECORD), stable=4, end=20)
    assert shown(read(broker)()) == [(4, RECORD, Outcome.UNDECIDED), (6, RECORD, Outcome.UNDECIDED)]


def test_a_later_reading_goes_on_and_looks_again_at_what_was_undecided(read: Any) -> None:
    broker = Broker((4, 7, RECORD), (9, 8, RECORD), stable=4, end=20)
    log = read(broker)
    log()
    broker.asked.clear()
    broker.rows.append((20, 7, COMMIT))
    broker.marks = Watermarks(21, 21, 0, 21)
    assert shown(log()) == [(4, RECORD, Outcome.COMMITTED), (20, COMMIT, Outcome.NONE)]
    assert broker.asked == [
        (4, 5, IsolationLevel.READ_COMMITTED),
        (10, 21, IsolationLevel.READ_COMMITTED),
    ], "nothing that was read is read once more"


def test_of_a_replica_that_has_ended_it_the_middle_of_a_long_log_is_passed_over(read: Any) -> None:
    rows = [(offset, 7, RECORD) for offset in range(4, 30)]
    whole = shown(read(Broker(*rows, stable=30, end=30))())
    assert len(whole) == 26
    jumped = shown(read(Broker(*rows, stable=30, end=30))(most=25))
    assert [offset for offset, *_ in jumped] == [4, 5, 6]
    resumed = shown(read(Broker(*rows, stable=30, end=30))(most=25, since=28))
    assert [offset for offset, *_ in resumed] == [4, 5, 6, 28, 29], "the marker that is looked for lies there"


def test_a_log_that_was_truncated_is_read_from_the_start(read: Any) -> None:
    broker = Broker((4, 7, RECORD), (9, 7, RECORD), stable=20, end=20)
    log = read(broker)
    log()
    broker.rows.pop()
    broker.marks = Watermarks(6, 6, 0, 6)
    assert shown(log()) == [(4, RECORD, Outcome.COMMITTED)]


def test_a_transaction_of_too_many_records_and_a_silent_broker_are_said(
    read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(*((offset, 7, RECORD) for offset in range(4, 9)), stable=4, end=20)
    monkeypatch.setattr(reading, "_MOST_ROWS", 3)
    assert read(broker)().error == "more than 3 records of it"
    broker.fails = True
    assert read(broker)().error == "away"
