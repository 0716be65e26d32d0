"""A topic that was deleted and created again under its name is compared like any new one: nothing of the old counts."""

from __future__ import annotations

from typing import Any

import pytest

from parallax.compare.state import NEVER, new_broker
from parallax.model import UNKNOWN, Outcome, ReadEvent, UnknownReason
from tests.unit.compare.history import BROKERS, RC, RU, Comparison, Row, everywhere, filler, record, shown, tick

OLD, NEW = 5, 6
COMPACTS, DELETES = {"compacted": 1, "deletes": 0}, {"compacted": 0, "deletes": 1}


def said(at: int, end: int, policy: dict[str, int], starts: tuple[int, ...] = (0, 0, 0), **more: Any) -> list[Row]:
    """Progress of all replicas, whose logs go so far and begin there."""
    rows = tick(at, everywhere(end), **more)
    begin = [{"log_start_offset": s} if row["reachable"] else {} for row, s in zip(rows, starts, strict=True)]
    return [{**row, **policy, "policy_at": at, **one} for row, one in zip(rows, begin, strict=True)]


def read(broker: int, rows: list[Row], to: int, at: int, topic_id: int = NEW, **more: Any) -> list[Row]:
    return [row for view in (RU, RC) for row in shown(view, broker, rows, to, at, topic_id=topic_id, **more)]


def begun(at: int, brokers: tuple[int, ...] = BROKERS, *, again: bool = True) -> list[Row]:
    """The readers begin in the topic as it is now."""
    event = ReadEvent.TOPIC_RECREATED if again else ReadEvent.PARTITION_ADDED
    return [row for broker in brokers for row in read(broker, [], 0, at, event=event)]


def found(comparison: Comparison, since: int = 0) -> list[tuple[str, int, int]]:
    return [(str(s.kind), s.broker, s.accusation.offset) for s in comparison.suspects[since:]]


@pytest.fixture(params=[False, True], ids=["new", "re-created"])
def again(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_where_nothing_is_compacted_every_record_counts_from_its_beginning_on(again: bool) -> None:
    """The topic before was longer, and one of its replicas is none of the new one's."""
    comparison = Comparison()
    if again:
        for at in (1_000, 2_000):
            comparison.feed(said(at, 1_000, DELETES), *(read(b, [], 1_000, at + 1, OLD) for b in BROKERS))
        assert comparison.last is not None
        assert comparison.last.state.partition["strict_from"].tolist() == [1_000]
    now = (1, 2, 4)

    def of(at: int, end: int) -> list[Row]:
        rows = said(at, end, DELETES)
        return [{**row, "broker": b, "replicas": now} for row, b in zip(rows, now, strict=True)]

    rows = [record(n, None if n % 2 else f"k{n % 4}", f"v{n}") for n in range(20)]
    comparison.feed(of(11_000, 0), begun(11_001, now, again=again))
    comparison.feed(of(12_000, 0))
    lost = [row for row in rows if row["offset"] not in (5, 8)]
    comparison.feed(of(13_000, 20), *(read(b, lost if b == 4 else rows, 20, 13_001) for b in now))
    comparison.feed(of(14_000, 20))
    comparison.feed(of(15_000, 20))
    assert found(comparison) == [("record_missing", 4, 5), ("record_missing", 4, 8)]


def test_unlike_records_are_no_part_of_a_run_of_the_topic_before(again: bool) -> None:
    comparison = Comparison()
    if again:
        old = [filler(n) for n in range(10)]
        other = [*old[:9], record(9, "f9", "other")]
        comparison.feed(
            said(1_000, 10, COMPACTS), *(read(b, other if b == 3 else old, 10, 1_001, OLD) for b in BROKERS)
        )
        comparison.feed(said(2_000, 10, COMPACTS))
        assert found(comparison) == [("content_mismatch", -1, 9)]
    before = len(comparison.suspects)
    comparison.feed(said(11_000, 0, COMPACTS), begun(11_001, again=again))
    new = [filler(n) for n in range(8)]
    other = [*new[:5], record(5, "f5", "flipped"), *new[6:]]
    comparison.feed(said(12_000, 8, COMPACTS), *(read(b, other if b == 3 else new, 8, 12_001) for b in BROKERS))
    comparison.feed(said(13_000, 8, COMPACTS))
    assert found(comparison, before) == [("content_mismatch", -1, 5)]


def test_unlike_outcomes_wait_for_no_high_watermark_of_the_topic_before(again: bool) -> None:
    """Broker 3 was away when the topic was created again, and is back later."""
    comparison = Comparison()
    if again:
        comparison.feed(said(1_000, 1_000, COMPACTS), *(read(b, [filler(1)], 1_000, 1_001, OLD) for b in BROKERS))
        comparison.feed(said(2_000, 1_000, COMPACTS))
    fill = [filler(n) for n in range(5, 20)]
    event = ReadEvent.TOPIC_RECREATED if again else ReadEvent.PARTITION_ADDED

    def ended(broker: int, outcome: Outcome, at: int, **more: Any) -> list[Row]:
        rows = [record(2, "k", "v", pid=7, outcome=outcome), *fill]
        return [
            *shown(RU, broker, fill, 20, at, topic_id=NEW, **more),
            *shown(RC, broker, rows, 20, at, topic_id=NEW, **more),
        ]

    comparison.feed(said(11_000, 0, COMPACTS, down=(3,)), begun(11_001, (1, 2), again=again))
    comparison.feed(
        said(12_000, 20, COMPACTS, down=(3,)),
        ended(1, Outcome.ABORTED, 12_001),
        ended(2, Outcome.COMMITTED, 12_001),
    )
    comparison.feed(said(13_000, 20, COMPACTS, down=(3,)))
    comparison.feed(said(14_000, 20, COMPACTS), ended(3, Outcome.ABORTED, 14_001, event=event))
    comparison.feed(said(15_000, 20, COMPACTS))
    comparison.feed(said(16_000, 20, COMPACTS))
    assert found(comparison) == [("visibility_mismatch", -1, 2)]


def test_what_is_known_of_a_replica_is_who_it_is_and_whether_it_answers() -> None:
    comparison = Comparison()
    for at in (1_000, 9_000):
        comparison.feed(said(at, 1_000, DELETES, (500, 500, 500)), *(read(b, [], 1_000, at + 1, OLD) for b in BROKERS))
    comparison.feed(said(9_500, 1_000, DELETES, (500, 500, 500), down=(3,)))
    comparison.feed(begun(10_000, (1,)))
    assert comparison.last is not None
    row = comparison.last.state.brokers[2:3]
    fresh = new_broker(3)
    for name in ("member", "reachable", "topic_id"):
        fresh[name] = row[name]
    assert (row["member"].tolist(), row["reachable"].tolist()) == ([True], [False])
    same = [name for name in fresh.dtype.names or () if name != "topic_at"]
    assert {n: row[n].tolist() for n in same} == {n: fresh[n].tolist() for n in same}
    partition = comparison.last.state.partition
    for name in ("retention_ms", "deletes", "policy_at", "deleted_to"):
        assert partition[name].tolist() == [UNKNOWN], name


@pytest.mark.parametrize("late", [False, True], ids=["with the new id", "after it"])
def test_a_tick_of_before_says_nothing_of_the_new_topic(*, late: bool) -> None:
    """The logs of the one before had been deleted up to 500; later the new one loses its head on broker 2."""
    comparison = Comparison()
    head = said(1_000, 600, DELETES, (500,) * 3)
    comparison.feed(head, *(read(b, [], 600, 1_001, OLD, log_start_offset=500) for b in BROKERS))
    last, new = said(10_000, 600, DELETES, (500,) * 3), begun(10_500)
    if late:
        comparison.feed(new)
        comparison.feed(last)
    else:
        comparison.feed(last, new)
    rows = [filler(n) for n in range(450)]
    comparison.feed(said(11_000, 450, COMPACTS), *(read(b, rows, 450, 11_001) for b in BROKERS))
    for at in (12_000, 16_000, 20_000):
        comparison.feed(said(at, 450, COMPACTS, (0, 400, 0)))
    assert found(comparison) == [("log_head_missing", 2, 400)]
    assert comparison.last is not None
    assert comparison.last.coverage.unknown_for(UnknownReason.LOG_START_DIFFERS) == (400, 400)


@pytest.mark.parametrize("at", [10_400, 10_800])
def test_a_replica_whose_readers_have_not_come_to_the_new_topic_speaks_of_the_one_before(at: int) -> None:
    comparison = Comparison()
    comparison.feed(said(1_000, 600, DELETES), *(read(b, [], 600, 1_001, OLD) for b in BROKERS))
    comparison.feed(begun(10_500, (1, 3)), said(at, 600, DELETES)[1:2])
    assert comparison.last is not None
    assert comparison.last.state.brokers["log_end_offset"].tolist() == [UNKNOWN] * 3
    comparison.feed(begun(11_000, (2,)), said(10_900, 600, DELETES)[1:2])
    assert comparison.last.state.brokers["log_end_offset"].tolist() == [UNKNOWN] * 3
    assert comparison.last.state.partition["strict_from"].tolist() == [NEVER]
    comparison.feed(said(11_001, 7, DELETES))
    assert comparison.last.state.brokers["log_end_offset"].tolist() == [7] * 3


def test_a_silent_replica_is_away_though_its_readers_have_not_come_to_the_new_topic() -> None:
    comparison = Comparison()
    comparison.feed(said(1_000, 600, COMPACTS), *(read(b, [], 600, 1_001, OLD) for b in BROKERS))
    comparison.feed(begun(10_500, (1, 2)))
    comparison.feed(said(11_000, 7, COMPACTS, down=(3,)))
    assert comparison.last is not None
    assert comparison.last.state.brokers["reachable"].tolist() == [True, True, False]


def test_what_a_replica_said_before_the_topic_was_deleted_is_not_taken_for_the_next_one() -> None:
    """Brokers before 2.8 tell no id."""
    comparison = Comparison()
    comparison.feed(said(1_000, 600, DELETES), *(read(b, [], 600, 1_001, 0) for b in BROKERS))
    gone = [row for b in BROKERS for row in read(b, [], 600, 2_500, 0, event=ReadEvent.TOPIC_DELETED)]
    comparison.feed(said(2_000, 600, DELETES, (500,) * 3), gone)
    assert comparison.last is not None
    assert comparison.last.state.partition["deleted_to"].tolist() == [UNKNOWN]
    assert comparison.last.state.brokers["log_end_offset"].tolist() == [UNKNOWN] * 3
