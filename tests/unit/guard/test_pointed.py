from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from parallax.config import FindingSettings
from parallax.guard.absences import Absence
from parallax.guard.horizons import Reading
from parallax.guard.pointed import PointedReads, part_of
from parallax.model import TopicPartition
from parallax.replica.decode import ContentHasher, decode
from parallax.replica.errors import NotHosted, ReplicaError, Unreachable
from parallax.replica.types import FetchedPartition, FetchPosition, Greeting, PartitionMetadata, TopicMetadata
from tests.builders.absences import absence
from tests.simulation.batches import encode
from tests.simulation.records import Batch, End, Record

PLACE = TopicPartition("orders", 0)
NOW = 1_700_000_000
HORIZON = NOW * 1000 + 50_000
LEAD_MS = 3_600_000


def data(base: int, *values: int | None, horizon: int | None = None) -> Batch:
    records = tuple(Record(base + at, at, value) for at, value in enumerate(values))
    return Batch(base, base + len(values) - 1, NOW * 1000, 0, records=records, horizon=horizon)


def marker(base: int, horizon: int | None = None, *, is_emptied: bool = False) -> Batch:
    end = None if is_emptied else End.COMMIT
    return Batch(base, base, NOW * 1000, 0, 7, 0, transactional=True, control=True, marker=end, horizon=horizon)


def away(broker: int = 2, left_s: int = 1_000, **said: Any) -> Absence:
    """From now on; the bound is so many seconds ahead."""
    known = {"since_ms": NOW * 1000, "retention_ms": 24 * LEAD_MS, "bound_ms": (NOW + left_s) * 1000}
    return absence(broker, **(known | said))


class Cluster:
    """Brokers as far as pointed reads ask them."""

    def __init__(self, logs: dict[int, Sequence[Batch]]) -> None:
        self.logs = {broker: list(log) for broker, log in logs.items()}
        self.asked: list[tuple[int, int]] = []
        self.versions = dict.fromkeys(logs, (4, 2))
        self.errors: dict[int, ReplicaError] = {}
        self.epoch = 0
        self.most = 1 << 30

    def metadata(self, topics: Sequence[str]) -> dict[str, TopicMetadata]:
        partition = PartitionMetadata(1, self.epoch, (1, 2, 3), (1, 3))
        return {"orders": TopicMetadata("orders", "a", {0: partition})}

    def greeting(self, broker: int) -> Greeting:
        return Greeting(self.versions[broker], None, None)

    def fetch(self, broker: int, positions: Sequence[FetchPosition], **_: Any) -> list[FetchedPartition]:
        if broker in self.errors:
            raise self.errors[broker]
        (position,) = positions
        self.asked.append((broker, position.offset))
        log = self.logs[broker]
        raw = b""
        for batch in log:
            if batch.last >= position.offset and (not raw or len(raw) < self.most):
                raw += encode(batch)
        end = log[-1].last + 1
        return [FetchedPartition("orders", 0, None, end, end, 0, records=memoryview(raw))]


class Reads:
    def __init__(self, cluster: Cluster, **settings: int) -> None:
        self.now = float(NOW)
        self.reads = PointedReads(
            cluster,  # type: ignore[arg-type]
            LEAD_MS,
            FindingSettings(**settings),
            lambda _: None,
            lambda: self.now,
        )

    def round(self, *absences: Absence, after: float = 0.0) -> dict[int, Reading]:
        self.now += after
        return {one.broker: one for one in self.reads.round(absences or (away(),))}


LOG = [data(8, 1, 1, 1, 1), data(12, 2, None, 3, horizon=HORIZON), data(15, 4), marker(16), data(17, None)]


def test_tombstones_and_end_markers_with_and_without_a_horizon_are_found() -> None:
    found = Reads(Cluster({1: LOG, 3: LOG[:3]})).round()
    one, three = found[1], found[3]
    assert (one.start, one.reached, one.first, one.unstamped, one.horizon_ms) == (10, 18, 13, 16, HORIZON)
    assert (three.reached, three.first, three.unstamped, three.horizon_ms) == (16, 13, None, HORIZON)
    assert one.whole_ms == NOW * 1000
    assert one.stamps


@pytest.mark.parametrize("salt", range(12))
def test_what_is_found_is_the_same_in_every_codec(salt: int) -> None:
    raw = b"".join(encode(batch, salt) for batch in LOG)
    assert part_of(decode(raw, hasher=ContentHasher.random(), start=10), 10) == (18, 13, 16, HORIZON)


def test_an_emptied_batch_of_an_end_marker_holds_nothing_that_can_go() -> None:
    log = [data(10, 1), marker(11, is_emptied=True), data(12, 1)]
    assert Reads(Cluster({1: log, 3: log})).round()[1].first is None


def test_nothing_is_read_where_no_bound_is_near_or_it_has_passed() -> None:
    cluster = Cluster({1: LOG, 3: LOG})
    assert Reads(cluster).round(away(left_s=3_601)) == {}
    assert Reads(cluster).round(away(left_s=-1)) == {}
    assert cluster.asked == []


def test_only_replicas_that_the_absent_one_may_copy_are_read() -> None:
    cluster = Cluster({1: LOG, 3: LOG})
    assert Reads(cluster).round().keys() == {1, 3}
    assert Reads(cluster).round(away(), away(3)).keys() == {1}


def test_a_log_is_not_read_again_but_from_the_first_that_had_no_horizon() -> None:
    cluster = Cluster({1: LOG, 3: LOG[:3]})
    reads = Reads(cluster)
    reads.round()
    assert reads.round(after=1) == {}
    reads.round(after=200)
    assert cluster.asked == [(1, 10), (3, 10), (1, 16), (3, 16)]


def test_another_leader_epoch_has_everything_read_anew() -> None:
    cluster = Cluster({1: LOG, 3: LOG})
    reads = Reads(cluster)
    reads.round()
    cluster.epoch = 1
    found = reads.round(after=200)
    assert found[1].leader_epoch == 1
    assert cluster.asked[2:] == [(1, 10), (3, 10)]


def test_what_is_more_than_the_budget_waits_for_the_next_time() -> None:
    log = [data(at, *range(2, 10)) for at in range(10, 8_000, 8)]
    cluster = Cluster({1: log, 3: log})
    cluster.most = 40_000
    reads = Reads(cluster, max_scan_bytes=1 << 16)
    found = reads.round()
    assert found[1].whole_ms is None
    assert 10 < found[1].reached < 8_000
    assert reads.round(after=1) == {}
    while found[1].whole_ms is None:
        found = reads.round(after=200)
    assert found[1].reached == 8_002
    assert found[1].whole_ms == NOW * 1000


def test_a_broker_that_stamps_nothing_is_read_for_where_tombstones_lie() -> None:
    cluster = Cluster({1: LOG, 3: LOG})
    cluster.versions[3] = (3, 0)
    found = Reads(cluster).round()
    assert (found[1].stamps, found[3].stamps) == (True, False)


@pytest.mark.parametrize("error", [Unreachable("no"), NotHosted("no")])
def test_a_broker_that_cannot_be_read_is_left_alone_for_a_while(error: ReplicaError) -> None:
    cluster = Cluster({1: LOG, 3: LOG})
    cluster.errors[3] = error
    reads = Reads(cluster)
    assert reads.round().keys() == {1}
    cluster.errors = {}
    assert reads.round(after=30) == {}
    assert 3 in reads.round(after=200)
