"""Spot checks of a broker that is back, over tables of this machine and logs as bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from parallax.audit.spot import Aborted, Checked, Spot, SpotChecks, thinned, transaction_of
from parallax.model import FindingKind, Outcome, RowKind, TopicPartition
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import DeadlineExceeded, ReplicaError
from parallax.replica.types import FetchedPartition, FetchPosition
from parallax.views.tables import rust_uri
from tests.unit.replica.batches import Batch, marker, transactional

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
RECORD, COMMIT, ABORT = int(RowKind.RECORD), int(RowKind.COMMIT), int(RowKind.ABORT)


def rows(*offsets: int, partition: int = 0) -> pa.Table:
    return pa.table({"topic": ["orders"] * len(offsets), "partition": [partition] * len(offsets), "offset": offsets})


def test_so_many_rows_of_each_partition_are_left_whatever_came_together() -> None:
    together = pa.concat_tables([rows(*range(500)), rows(*range(7), partition=1)])
    few = thinned(together, 40, salt=5)
    assert Counter(few["partition"].to_pylist()) == {0: 40, 1: 7}
    halves = [thinned(together.slice(0, 250), 40, salt=5), thinned(together.slice(250), 40, salt=5)]
    assert thinned(pa.concat_tables(halves), 40, salt=5).equals(few)


def test_the_choice_is_spread_over_the_log_and_another_salt_chooses_others() -> None:
    chosen = [set(thinned(rows(*range(10_000)), 100, salt)["offset"].to_pylist()) for salt in range(20)]
    assert len(set.union(*chosen)) > 1000
    means = [sum(one) / len(one) for one in chosen]
    assert all(abs(mean - 5000) < 5 * 10_000 / math.sqrt(12 * 100) for mean in means)


def test_the_accusation_names_the_first_record_and_the_end_marker_behind() -> None:
    shown = [(1, RECORD, 0, 0), (2, COMMIT, 0, 0), (4, RECORD, 7, 8), (6, RECORD, 9, 9), (8, ABORT, 0, 0)]
    accusation = transaction_of(Aborted(ONE, 6, 70, 0, 0), 2, shown)
    assert accusation is not None
    assert (accusation.kind, accusation.broker) == (FindingKind.OUTCOME_CONTRADICTS_MARKER, 2)
    assert (accusation.offset, accusation.marker_offset, accusation.producer_id) == (4, 8, 70)
    assert (accusation.key_hash_hi, accusation.key_hash_lo) == (7, 8)


@pytest.mark.parametrize("behind", [[], [(8, COMMIT, 0, 0)], [(5, ABORT, 0, 0)]])
def test_without_an_abort_on_record_behind_it_nobody_is_accused(behind: list[tuple[int, int, int, int]]) -> None:
    assert transaction_of(Aborted(ONE, 6, 70, 0, 0), 2, sorted([(6, RECORD, 0, 0), *behind])) is None


@dataclass
class Replica:
    """A log, and the aborted transactions that its index lists."""

    batches: Sequence[Batch]
    end: int
    aborted: Sequence[tuple[int, int]] = ()
    error: ReplicaError | None = None

    def answer(self, asked: FetchPosition) -> FetchedPartition:
        if self.error is not None:
            return FetchedPartition(asked.topic, asked.partition, self.error)
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


def checked(storage: Path, client: Client, most: int = 32, places: Sequence[TopicPartition] = (ONE, TWO)) -> Checked:
    checks = SpotChecks(
        str(storage),
        client,
        ContentHasher(bytes(16)),
        most,
        lambda: None,
        1000,
        Random(1),
        lambda: 1234,  # type: ignore[arg-type]
    )
    return checks.check({2: places})


def recorded_abort(storage: Path, place: TopicPartition = ONE, later_ms: int = 0) -> None:
    """Broker 2 showed a transaction of producer 7 at offsets 3 and 4 as aborted, by the marker at offset 5."""
    records = [(offset, RECORD, 7, Outcome.ABORTED) for offset in (3, 4)]
    record(storage, 2, place, *records, (5, ABORT, 7, Outcome.ABORTED), later_ms=later_ms)


HELD = [transactional(3, 7, 2), marker(5, 7, commit=False)]


def test_what_is_aborted_still_agrees_and_one_fetch_asks_for_all_partitions(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    recorded_abort(tmp_path, TWO)
    client = Client({ONE: Replica(HELD, 6, [(7, 3)]), TWO: Replica(HELD, 6, [(7, 3)])})
    found = checked(tmp_path, client)
    assert found.counts == {Spot.ABORTED: 4}
    assert found.suspects == []
    assert client.asked[0] == [ONE, TWO]


def test_a_transaction_that_the_index_does_not_list_any_more_is_one_suspect(tmp_path: Path) -> None:
    recorded_abort(tmp_path)
    record(tmp_path, 1, ONE, (0, RECORD, 7, Outcome.ABORTED))
    found = checked(tmp_path, Client({ONE: Replica(HELD, 6)}), places=[ONE])
    assert found.counts == {Spot.COMMITTED: 2}
    (suspect,) = found.suspects
    assert (suspect.place, suspect.broker, suspect.accusation.offset, suspect.raised_at) == (ONE, 2, 3, 1234)
    assert suspect.accusation.marker_offset == 5


def test_records_that_are_gone_or_are_others_now_accuse_nobody(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    recorded_abort(tmp_path, TWO)
    others = [transactional(3, 8, 2), marker(5, 8, commit=True)]
    client = Client({ONE: Replica([marker(5, 7, commit=False)], 6, [(7, 3)]), TWO: Replica(others, 6)})
    found = checked(tmp_path, client)
    assert found.counts == {Spot.GONE: 4}
    assert found.suspects == []


def test_the_record_of_a_re_created_topic_is_not_taken_for_the_one_that_lay_there(tmp_path: Path) -> None:
    recorded_abort(tmp_path, later_ms=-1)
    found = checked(tmp_path, Client({ONE: Replica(HELD, 6)}), places=[ONE])
    assert (found.counts, found.suspects) == ({Spot.GONE: 2}, [])


def test_what_is_not_answered_is_unknown_and_holds_up_no_other_partition(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    recorded_abort(tmp_path, TWO)
    client = Client({ONE: Replica(HELD, 6, error=DeadlineExceeded("no answer")), TWO: Replica(HELD, 6, [(7, 3)])})
    assert checked(tmp_path, client).counts == {Spot.UNKNOWN: 2, Spot.ABORTED: 2}
    short = Client({ONE: Replica([], 3), TWO: Replica([], 2)})
    assert checked(tmp_path, short).counts == {Spot.UNKNOWN: 4}


def test_no_more_are_asked_for_than_wanted_and_none_of_partitions_that_are_not_back(tmp_path: Path) -> None:
    recorded_abort(tmp_path, ONE)
    recorded_abort(tmp_path, TWO)
    client = Client({ONE: Replica(HELD, 6, [(7, 3)])})
    assert checked(tmp_path, client, most=1, places=[ONE]).counts == {Spot.ABORTED: 1}
    assert {place for asked in client.asked for place in asked} == {ONE}


def test_where_nothing_was_recorded_nothing_is_asked(tmp_path: Path) -> None:
    assert checked(tmp_path, Client({})).counts == {}
    record(tmp_path, 2, ONE, (0, RECORD, -1, Outcome.NONE))
    assert checked(tmp_path, Client({})).counts == {}
