"""Spot checks of a broker that is back, over tables of this machine and logs as bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from parallax.audit.spot import Checked, Spot, SpotChecks, thinned
from parallax.model import Outcome, RowKind, TopicPartition
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import DeadlineExceeded, ReplicaError
from parallax.replica.types import FetchedPartition, FetchPosition, Watermarks
from parallax.views.tables import rust_uri
from tests.unit.replica.batches import Batch, marker, transactional

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
RECORD, ABORT = int(RowKind.RECORD), int(RowKind.ABORT)


def rows(*offsets: int, partition: int = 0) -> pa.Table:
    return pa.table({"topic": ["orders"] * len(offsets), "partition": [partition] * len(offsets), "offset": offsets})


def test_so_many_rows_of_each_partition_are_left_whatever_came_together() -> None:
    together = pa.concat_tables([rows(*range(500)), rows(*range(7), partition=1)])
    few = thinned(together, 40, salt=5)
    by_partition = Counter(few["partition"].to_pylist())
    assert by_partition[1] == 7
    assert 40 < by_partition[0] <= 80
    halves = [thinned(together.slice(0, 250), 40, salt=5), thinned(together.slice(250), 40, salt=5)]
    assert thinned(pa.concat_tables(halves), 40, salt=5).equals(few)


def test_the_newest_are_among_them_and_the_others_are_spread_over_the_log() -> None:
    chosen = [set(thinned(rows(*range(10_000)), 100, salt)["offset"].to_pylist()) for salt in range(20)]
    newest = set(range(9_900, 10_000))
    assert all(newest <= one for one in chosen)
    others = [one - newest for one in chosen]
    assert len(set.union(*others)) > 1000, "another salt chooses others"
    means = [sum(one) / len(one) for one in others]
    assert all(abs(mean - 4950) < 5 * 9_900 / math.sqrt(12 * 95) for mean in means)


@dataclass
class Replica:
    """A log, and the aborted transactions that its index lists."""

    batches: Sequence[Batch]
    end: int
    aborted: Sequence[tuple[int, int]] = ()
    error: ReplicaError | None = None
    start: int = 0
    hangs: bool = False

    def answer(self, asked: FetchPosition) -> FetchedPartition:
        if self.hangs:
            return FetchedPartition(asked.topic, asked.partition, DeadlineExceeded("no answer"))
        data = b"".join(batch.encode() for batch in self.batches if batch.last >= asked.offset)
        listed = np.array(self.aborted, np.int64).reshape(-1, 2)
        return FetchedPartition(
            asked.topic, asked.partition, None, self.end, self.end, 0, aborted=listed, records=memoryview(data)
        )


@dataclass
class Client:
    """Stands in for the client of one broker."""

    replicas: Mapping[TopicPartition, Replica]
    asked: list[list[TopicPartition]] = field(default_factory=list)
    throttle_ms = 0

    def watermarks(self, _broker: int, places: Sequence[TopicPartition], **_: Any) -> dict[TopicPartition, Any]:
        return {
            place: self.replicas[place].error or Watermarks(self.replicas[place].end, self.replicas[place].end, low, 0)
            for place in places
            for low in [self.replicas[place].start]
        }

    def begin_fetch(self, _broker: int, positions: Sequence[FetchPosition], **_: Any) -> Client:
        self.asked.append([TopicPartition(p.topic, p.partition) for p in positions])
        self._answers = [self.replicas[p.topic, p.partition].answer(p) for p in positions]  # type: ignore[index]
        return self

    def result(self, *_: Any) -> list[FetchedPartition]:
        return self._answers

    def cancel(self) -> None:
        """Nothing is under way."""


def record(
    storage: Path, broker: int, place: TopicPartition, *shown: tuple[int, int, int, Outcome], later_ms: int = 0
) -> None:
    """Write (offset, kind, producer id, outcome) into the table read_committed."""
    at = datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(milliseconds=later_ms)
    columns = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "broker": broker,
            "offset": offset,
            "kind": kind,
            "producer_id": producer,
            "outcome": outcome,
            "leader_epoch": 0,
            "timestamp": at,
            "key_hash_hi": 1,
            "key_hash_lo": 2,
        }
        for offset, kind, producer, outcome in shown
    ]
    write_deltalake(rust_uri(str(storage), "read_committed"), pa.Table.from_pylist(columns), mode="append")


def checked(
    storage: Path,
    client: Client,
    most: int = 32,
    places: Sequence[TopicPartition] = (ONE, TWO),
    is_over: Callable[[], bool] = lambda: False,
) -> Checked:
    hasher = ContentHasher(bytes(16))
    checks = SpotChecks(str(storage), client, hasher, most, lambda: None, 1000, salt=1)  # type: ignore[arg-type]
    return checks.check({2: places}, is_over)


def recorded_abort(storage: Path, place: TopicPartition = ONE, later_ms: int = 0) -> None:
    """Broker 2 showed a transaction of producer 7 at offsets 3 and 4 as aborted, by the marker at offset 5."""
    records = [(offset, RECORD, 7, Outcome.ABORTED) for offset in (3, 4)]
    record(storage, 2, place, *records, (5, ABORT, 7, Outcome.ABORTED), later_ms=later_ms)


HELD = [transactional(3, 7, 2), marker(5, 7, commit=False)]


def test_what_is_aborted_still_agrees_and_one_fetch_asks_for_all_partitions(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    recorded_abort(tmp_path, TWO)
    client = Client({ONE: Replica(HELD, 6, [(7, 3)]), TWO: Replica(HELD, 6, [(7, 3)])})
    assert checked(tmp_path, client) == Checked(Counter({Spot.ABORTED: 4}))
    assert client.asked[0] == [ONE, TWO]


def test_a_partition_whose_index_does_not_list_a_transaction_any_more_is_in_doubt(tmp_path: Path) -> None:
    recorded_abort(tmp_path)
    record(tmp_path, 1, ONE, (0, RECORD, 7, Outcome.ABORTED))
    found = checked(tmp_path, Client({ONE: Replica(HELD, 6)}), places=[ONE])
    assert found == Checked(Counter({Spot.COMMITTED: 1}), {ONE: None}), "what is in doubt is asked no more"


def test_records_that_are_gone_or_are_others_now_are_no_doubt(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    recorded_abort(tmp_path, TWO)
    others = [transactional(3, 8, 2), marker(5, 8, commit=True)]
    client = Client({ONE: Replica([marker(5, 7, commit=False)], 6, [(7, 3)]), TWO: Replica(others, 6)})
    assert checked(tmp_path, client) == Checked(Counter({Spot.GONE: 4}))


def test_the_record_of_a_re_created_topic_is_not_taken_for_the_one_that_lay_there(tmp_path: Path) -> None:
    recorded_abort(tmp_path, later_ms=-1)
    found = checked(tmp_path, Client({ONE: Replica(HELD, 6)}), places=[ONE])
    assert found == Checked(Counter({Spot.GONE: 2}))


def test_what_lies_outside_the_log_by_now_is_not_asked_for(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    recorded_abort(tmp_path, TWO)
    client = Client({ONE: Replica(HELD, 6, start=6), TWO: Replica([], 3)})
    assert checked(tmp_path, client) == Checked()
    assert client.asked == []


def test_a_record_that_is_gone_has_another_asked_for_in_its_place(tmp_path: Path) -> None:
    record(tmp_path, 2, ONE, *((offset, RECORD, 7, Outcome.ABORTED) for offset in range(10)))
    held = [transactional(0, 7), marker(10, 7, commit=False)]
    found = checked(tmp_path, Client({ONE: Replica(held, 11)}), most=4, places=[ONE])
    assert found.doubted == {ONE: None}
    assert found.counts[Spot.GONE] > 4


def test_what_is_not_answered_is_told_and_holds_up_no_other_partition(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    recorded_abort(tmp_path, TWO)
    right = Replica(HELD, 6, [(7, 3)])
    for silent, unknown in ((replace(right, error=DeadlineExceeded("no")), 0), (replace(right, hangs=True), 1)):
        found = checked(tmp_path, Client({ONE: silent, TWO: right}))
        assert found.counts == Counter({Spot.ABORTED: 2, Spot.UNKNOWN: unknown}), "one that hangs is asked once"
        assert found.unanswered == {2: [ONE]}


def test_a_broker_that_answers_for_nothing_is_unanswered(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    silent = Replica(HELD, 6, error=DeadlineExceeded("no"))
    assert checked(tmp_path, Client({ONE: silent, TWO: silent})) == Checked(unanswered={2: [ONE, TWO]})


def test_what_is_not_asked_any_more_is_unanswered(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    client = Client({ONE: Replica(HELD, 6), TWO: Replica(HELD, 6)})
    assert checked(tmp_path, client, is_over=lambda: True) == Checked(unanswered={2: [ONE]})
    assert client.asked == []


def test_no_more_are_asked_for_than_wanted_and_none_of_partitions_that_are_not_back(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    recorded_abort(tmp_path, TWO)
    client = Client({ONE: Replica(HELD, 6, [(7, 3)])})
    assert checked(tmp_path, client, most=1, places=[ONE]).counts == {Spot.ABORTED: 1}
    assert {place for asked in client.asked for place in asked} == {ONE}


def test_where_nothing_was_recorded_nothing_is_asked(tmp_path: Path) -> None:
    client = Client({ONE: Replica(HELD, 6), TWO: Replica(HELD, 6)})
    assert checked(tmp_path, client) == Checked()
    record(tmp_path, 2, ONE, (0, RECORD, -1, Outcome.NONE))
    assert checked(tmp_path, client) == Checked()
