"""Which logs one Fetch reads for both isolation levels, and who takes part in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.model import IsolationLevel, ReadEvent, RowKind
from parallax.replica.client import FetchedPartition
from parallax.replica.errors import BadOption, BrokerTooOld
from parallax.replica.reader import Mark
from parallax.source import reading
from parallax.source.offsets import Range, Reader
from parallax.source.options import replica_options
from parallax.source.planning import PIECE, Piece, admit, aligned, tasks
from parallax.source.sharing import Shared, shared
from parallax.source.standing import Progress
from tests.unit.replica.brokers import Broker, helds

RU, RC = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED


def progress(isolation: int, start: int, end: int, epoch: int = 3, partition: int = 0, topic_id: str = "A") -> Progress:
    return Progress.of(Piece(Reader(isolation, 1, "t", partition), Range(start, end, topic_id), epoch=epoch))


def mark(position: int, epoch: int = 3) -> Mark:
    return Mark(position, 100, 90, 0, epoch)


def one(uncommitted: Progress, committed: Progress) -> Shared:
    (log,) = shared([uncommitted, committed])
    return log


def test_what_both_levels_are_to_read_is_read_once_and_the_tail_by_read_uncommitted_alone() -> None:
    uncommitted, committed = progress(RU, 10, 100), progress(RC, 10, 90)
    log = one(uncommitted, committed)
    assert (log.behind.position, log.end, log.joined) == (10, 90, True)
    log.reached(mark(90))
    assert log.over == [committed]
    assert uncommitted.position == 90


def test_the_level_that_is_ahead_joins_where_it_stands() -> None:
    uncommitted, committed = progress(RU, 40, 100), progress(RC, 10, 90)
    log = one(uncommitted, committed)
    for position, first in ((40, None), (60, 40)):
        log.look_at(mark(position))
        assert log.first(RC) == committed.position
        assert log.joined is (first is not None)
        if first is not None:
            assert log.first(RU) == first
        log.reached(mark(position))
    assert (uncommitted.position, committed.position) == (60, 60)


def test_read_uncommitted_that_is_behind_is_read_with_read_committed_up_to_that_position() -> None:
    log = one(progress(RU, 10, 100), progress(RC, 40, 90))
    assert (log.behind.position, log.behind.piece.reader.isolation) == (10, RU)


def test_the_level_that_is_ahead_stays_apart_where_its_log_may_have_been_truncated() -> None:
    uncommitted, committed = progress(RU, 40, 100), progress(RC, 10, 90)
    log = one(uncommitted, committed)
    log.look_at(mark(60, epoch=4))
    log.reached(mark(60, epoch=4))
    log.look_at(mark(80, epoch=3))
    assert log.served == (committed,)
    assert (uncommitted.position, log.over) == (40, [committed])


def test_levels_that_stand_at_one_offset_and_know_unlike_epochs_ask_for_themselves() -> None:
    assert shared([progress(RU, 10, 100, 3), progress(RC, 10, 90, 2)]) == []


def test_levels_ask_for_themselves_while_one_does_not_know_that_the_log_may_be_another() -> None:
    told = Piece(Reader(RU, 1, "t", 0), Range(10, 100, "A", ReadEvent.LOG_TRUNCATED), epoch=3)
    assert shared([Progress.of(told), progress(RC, 10, 90)]) == []


def test_levels_that_read_different_topics_of_one_name_ask_for_themselves() -> None:
    assert shared([progress(RU, 10, 100), progress(RC, 10, 90, topic_id="B")]) == []


@pytest.mark.parametrize(
    ("uncommitted", "committed"), [((90, 100), (10, 90)), ((10, 100), (95, 95)), ((5, 50), (5, 90))]
)
def test_levels_with_nothing_in_common_ask_for_themselves(
    uncommitted: tuple[int, int], committed: tuple[int, int]
) -> None:
    assert shared([progress(RU, *uncommitted), progress(RC, *committed)]) == []


def test_one_level_alone_asks_for_itself() -> None:
    assert shared([progress(RU, 10, 100), progress(RC, 10, 90, partition=1)]) == []


@given(
    starts=st.tuples(st.integers(0, 400), st.integers(0, 400)),
    stable=st.integers(0, 1000),
    tail=st.integers(0, 300),
    limit=st.integers(1, 100_000),
)
def test_levels_that_are_cut_stay_together(starts: tuple[int, int], stable: int, tail: int, limit: int) -> None:
    ends = stable + tail, stable
    readers = [Reader(level, 1, "t", 0) for level in (RU, RC)]
    spans = {r: Range(a, max(a, b), "A") for r, a, b in zip(readers, starts, ends, strict=True)}
    cut = admit(spans, dict.fromkeys(readers, 100.0), limit)
    even = aligned(spans, cut)
    uncommitted, committed = (even[reader] for reader in readers)
    assert all(span.start <= span.end <= cut[reader].end for reader, span in even.items())
    if max(starts) < min(span.end for span in cut.values()):
        assert committed.end == min(uncommitted.end, spans[readers[1]].end)
        assert uncommitted.end > uncommitted.start
        assert committed.end > committed.start
    else:
        assert even == cut


@dataclass
class Levelled(Broker):
    """Ends read_committed at each log's last stable offset, and lists aborted transactions to it alone."""

    stable: dict[int, int] = field(default_factory=dict)

    def begin_fetch(self, broker: int, positions: Any, *, isolation: IsolationLevel, **more: Any) -> Any:
        self._isolation = isolation
        return super().begin_fetch(broker, positions, **more)

    def result(self, *more: Any) -> list[FetchedPartition]:
        whole = self.held
        if self._isolation is RC:
            ends = self.stable
            self.held = {n: replace(h, batches=[b for b in h.batches if b.last < ends[n]]) for n, h in whole.items()}
        else:
            self.held = {n: replace(h, aborted=()) for n, h in whole.items()}
        answers = super().result(*more)
        self.held = whole
        marks = {n: {"high_watermark": h.end, "last_stable_offset": self.stable[n]} for n, h in whole.items()}
        return [replace(answer, **marks[answer.partition]) for answer in answers]

    def local_log_starts(self, broker: int, partitions: Any) -> Any:
        raise BrokerTooOld("it knows no tiered storage")


def recorded(broker: Levelled, pieces: list[Piece], size: int, *, fetch_once: bool) -> Any:
    """The rows of each reader, where it stands, and why it stopped."""
    given = {
        "kafka.bootstrap.servers": "nowhere:1",
        "topics": "t",
        "isolation.level": "both",
        "fetch.max.bytes": "1024",
    }
    options = replica_options({**given, "feedback.path": "unused", "fetch": "shared" if fetch_once else "separate"})
    found: dict[Reader, Any] = {piece.reader: ([], None) for piece in pieces}
    with (
        patch.object(reading, "_client", lambda *_: broker),
        patch.object(reading, "_fetch_bytes", lambda _: size),
        patch.object(reading, "end_of_unreadable", lambda *_, **__: None),
    ):
        for batch in reading.read_pieces(options, pieces):
            for row in batch.to_pylist():
                reader = Reader(row["isolation"], row["broker"], row["topic"], row["partition"])
                rows, end = found[reader]
                if row["kind"] == RowKind.POSITION:
                    found[reader] = rows, (row["offset"], row["position"]["event"])
                else:
                    found[reader] = [*rows, row], end
    return found


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_both_ways_to_ask_record_the_same_of_several_logs(data: st.DataObject) -> None:
    """Where they come to: with what is not sharp about an end, one may be ahead of the other."""
    held = dict(enumerate(data.draw(st.lists(helds(), min_size=1, max_size=5))))
    stable, pieces = {}, []
    for n, log in held.items():
        borders = [0, *(batch.last + 1 for batch in log.batches)]
        stable[n] = data.draw(st.sampled_from(borders))
        for level, end in ((RU, log.end), (RC, stable[n])):
            start = data.draw(st.integers(0, end) | st.just(0))
            pieces.append(Piece(Reader(level, 1, "t", n), Range(start, end, "A")))
    size = data.draw(st.sampled_from([100, 400, 2000, 1 << 20]))
    once = recorded(Levelled(held, stable=stable), pieces, size, fetch_once=True)
    twice = recorded(Levelled(held, stable=stable), pieces, size, fetch_once=False)
    assert once == twice


def test_both_levels_of_a_log_are_read_by_one_task() -> None:
    ranges = {Reader(i, b, "t", p): Range(0, 3 * PIECE, "A") for i in (RU, RC) for b in (1, 2) for p in range(4)}
    planned = tasks(ranges, parallelism=2, split=False, shared=True)
    assert len(planned) == 4
    for task in planned:
        assert len({piece.reader.broker for piece in task}) == 1
        assert len(task) == 4
        assert len({piece.reader.place for piece in task}) == 2


def test_a_fetch_is_shared_only_where_both_levels_are_read() -> None:
    given = {"kafka.bootstrap.servers": "nowhere:1", "topics": "t", "fetch": "shared"}
    with pytest.raises(BadOption, match="option fetch is 'shared'"):
        replica_options(given)
    assert replica_options({**given, "isolation.level": "both"}).shared
