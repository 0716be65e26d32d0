"""What one replica has at an offset, in the words of an operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from parallax.model import IsolationLevel, TopicPartition
from parallax.replica.at_offset import AtOffset, Held, Served, at_offset, headers_of
from parallax.replica.client import FetchedPartition
from parallax.replica.errors import OffsetOutOfRange, ReplicaError, Unreachable
from parallax.replica.types import Watermarks

from .batches import Batch, Record, not_below

PLACE = TopicPartition("t", 0)
UNCOMMITTED, COMMITTED = IsolationLevel


@dataclass
class Replica:
    """A replica whose log holds offsets 10 to 20, with what is put there."""

    batches: list[bytes] = field(default_factory=list)
    marks: Watermarks | ReplicaError = field(default_factory=lambda: Watermarks(20, 20, 10, 22))
    aborted: tuple[tuple[int, int], ...] = ()
    failure: ReplicaError | None = None
    throttle_ms: int = 0

    def watermarks(self, broker: int, partitions: Any, **_: Any) -> Any:
        if isinstance(self.marks, Unreachable):
            raise self.marks
        return {PLACE: self.marks}

    def begin_fetch(self, broker: int, positions: Any, *, isolation: IsolationLevel, **_: Any) -> Any:
        self.at, self.isolation = positions[0].offset, isolation
        return self

    def result(self, *_: Any) -> list[FetchedPartition]:
        if self.failure is not None:
            return [FetchedPartition("t", 0, self.failure)]
        assert isinstance(self.marks, Watermarks)
        marks, is_committed = self.marks, self.isolation is COMMITTED
        end = marks.last_stable_offset if is_committed else marks.high_watermark
        data = not_below(b"".join(self.batches), self.at) if self.at < end else b""
        aborted = np.array(self.aborted if is_committed else (), np.int64).reshape(-1, 2)
        places = (marks.high_watermark, marks.last_stable_offset, marks.log_start_offset)
        return [FetchedPartition("t", 0, None, *places, aborted, memoryview(data))]

    def cancel(self) -> None:
        pass


def seen(replica: Replica, offset: int = 12) -> AtOffset:
    return at_offset(replica, 2, PLACE, offset)  # type: ignore[arg-type]


PLAIN = Batch(12, [Record(b"k", b"v", [(b"h", b"1"), (b"n", None)])]).encode()


def test_a_record_is_shown_with_key_value_and_headers() -> None:
    found = seen(Replica([PLAIN]))
    assert found.held is Held.RECORD
    assert found.record is not None
    assert (found.record.key, found.record.value) == (b"k", b"v")
    assert found.record.headers == (("h", b"1"), ("n", None))
    assert found.served == {UNCOMMITTED: Served.SHOWN, COMMITTED: Served.SHOWN}


def test_a_tombstone_has_no_value() -> None:
    record = seen(Replica([Batch(12, [Record(b"k", None)]).encode()])).record
    assert record is not None
    assert (record.value, record.value_size) == (None, -1)


@pytest.mark.parametrize(
    ("aborted", "served"), [((), Served.COMMITTED), (((7, 12),), Served.ABORTED)], ids=["committed", "aborted"]
)
def test_a_transactions_record_is_shown_by_how_it_ended_here(aborted: Any, served: Served) -> None:
    batch = Batch(12, [Record(b"k", b"v")], producer=7, producer_epoch=0, flags=0x10).encode()
    found = seen(Replica([batch], aborted=aborted))
    assert found.served == {UNCOMMITTED: Served.SHOWN, COMMITTED: served}
    assert found.record is not None
    assert found.record.producer_id == 7


def test_what_lies_above_the_last_stable_offset_is_held_back_from_consumers_of_committed_data() -> None:
    batch = Batch(12, [Record(b"k", b"v")], producer=7, producer_epoch=0, flags=0x10).encode()
    found = seen(Replica([batch], marks=Watermarks(20, 12, 10, 22)))
    assert found.held is Held.RECORD
    assert found.served == {UNCOMMITTED: Served.SHOWN, COMMITTED: Served.HELD_BACK}


@pytest.mark.parametrize(
    ("offset", "held"),
    [
        (9, Held.DELETED),
        (13, Held.NOTHING),
        (20, Held.NOT_REPLICATED),
        (21, Held.NOT_REPLICATED),
        (22, Held.NOT_REACHED),
    ],
)
def test_what_a_replica_does_not_show_is_said_with_why(offset: int, held: Held) -> None:
    found = seen(Replica([PLAIN, Batch(14, [Record(b"k", b"v")]).encode()]), offset)
    assert (found.held, found.record) == (held, None)
    assert set(found.served.values()) == {Served.NOT_SHOWN}


def test_a_broker_that_does_not_answer_leaves_all_unknown() -> None:
    found = seen(Replica(marks=Unreachable("refused")))
    assert (found.held, found.marks, found.error) == (Held.SILENT, None, "refused")
    assert set(found.served.values()) == {Served.UNKNOWN}


def test_a_record_that_cannot_be_read_says_why() -> None:
    broken = bytearray(PLAIN)
    broken[-1] ^= 1
    found = seen(Replica([bytes(broken)]))
    assert found.held is Held.UNREADABLE
    assert found.error is not None
    assert "offset 12" in found.error


def test_what_is_deleted_while_it_is_asked_for_is_no_longer_held() -> None:
    assert seen(Replica(failure=OffsetOutOfRange("gone"))).held is Held.DELETED


@pytest.mark.parametrize("raw", [b"\x02", b"\x02\x04a", b"\x80" * 12])
def test_headers_that_are_broken_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="broken"):
        headers_of(raw)
