"""An error of one partition is that partition's alone: it begins anew, and what it held is unknown until an audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parallax.audit.ledger import Ended
from parallax.audit.waiting import Unread
from parallax.compare import together, withheld
from parallax.compare.again import Again
from parallax.compare.gathered import Gathered
from parallax.compare.observations import Observations
from parallax.compare.results import told_by
from parallax.compare.segments import LARGE, Segment, States, Store
from parallax.compare.state import PartitionState
from parallax.compare.step import step
from parallax.compare.suspect import Coverage, Suspect
from parallax.compare.together import Gathering, Terms, step_buckets
from parallax.model import Outcome, ReadEvent, TopicPartition, UnknownReason
from tests.unit.compare.history import (
    BROKERS,
    RC,
    RU,
    SETTINGS,
    Row,
    abort,
    both,
    commit,
    everywhere,
    record,
    shown,
    tick,
)

T = 1_000_000
BAD = TopicPartition("bad", 0)


class Bucket:
    """Partitions of one bucket over micro-batches; the state goes through its files after each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(str(folder))
        self.store.prepare()
        self.segment: Segment | None = None
        self.batch = 0
        self.suspects: list[Suspect] = []
        self.last: dict[str, Coverage] = {}
        self.problem: str | None = None

    def states(self) -> States:
        return self.store.load({0: self.segment})[0]

    def save(self, states: States) -> None:
        self.segment = self.store.save([states])[0]

    def feed(self, batches: dict[str, Iterable[Row]]) -> list[Suspect]:
        gathering = Gathering(1, frozenset([0]))
        for topic, rows in batches.items():
            gathering.take(Gathered.one(Observations.of(topic, 0, list(rows))))
        states = self.states()
        views = Again(str(self.folder), T + self.batch).views
        told = step_buckets({0: states}, gathering.seen({}), Terms(SETTINGS, T + self.batch, views, True), {})
        self.save(states)
        self.batch += 1
        self.problem = told.problem
        raised, coverages = told_by([{"results": told.results[0], "quiet": told.quiet}])
        self.last = {c.topic: c for c in coverages}
        self.suspects += raised
        return raised


def rows(start: int, end: int, *, lacking: tuple[int, int] | None = None, unlike: int = -1) -> list[Row]:
    """All replicas, read from one offset to another; ``lacking``: a broker, and the offset that it does not show."""
    at = T + end
    made = (
        []
        if start
        else [r for v in (0, 1) for b in BROKERS for r in shown(v, b, [], 0, at, event=ReadEvent.PARTITION_ADDED)]
    )
    made += tick(at, everywhere(end))
    for row in made:
        if row.get("reachable"):
            row |= {"compacted": 0, "policy_at": at, "deletes": 0}
    for broker in BROKERS:
        mine = [
            record(n, f"K{n}", "other" if (broker, n) == (2, unlike) else "V", timestamp=at) for n in range(start, end)
        ]
        made += both(broker, [r for r in mine if (broker, r["offset"]) != lacking], end, at)
    return made


def raising(monkeypatch: pytest.MonkeyPatch, error: Exception, *topics: str) -> Callable[[], None]:
    """Have the step of some partitions fail; returns what ends that."""

    def failing(state: PartitionState, observations: Observations, *args: Any, **more: Any) -> Any:
        if observations.topic in topics:
            raise error
        return step(state, observations, *args, **more)

    monkeypatch.setattr(withheld, "step", failing)
    return lambda: monkeypatch.setattr(withheld, "step", step)


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    made = Bucket(tmp_path)
    made.feed({"one": rows(0, 5), "bad": rows(0, 5), "two": rows(0, 5)})
    assert all(c.compared_up_to == (5, 5) for c in made.last.values())
    return made


def unlike(start: int, end: int) -> dict[str, list[Row]]:
    """A micro-batch that shows a difference in each partition, so that each is stepped by itself."""
    return {topic: rows(start, end, unlike=start) for topic in ("one", "bad", "two")}


def test_the_other_partitions_of_the_bucket_are_compared(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, IndexError("out of bounds"), "bad")
    raised = bucket.feed(unlike(5, 8))
    assert sorted(s.topic for s in raised) == ["one", "two"]
    assert [bucket.last[topic].compared_up_to for topic in ("one", "two")] == [(8, 8), (8, 8)]
    assert [bucket.last[topic].error for topic in ("one", "two")] == ["", ""]


def test_of_the_one_nothing_counts_as_compared_and_an_audit_is_due(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, IndexError("out of\nbounds"), "bad")
    bucket.feed(unlike(5, 8))
    told = bucket.last["bad"]
    assert told.compared_up_to == (-1, -1)
    assert told.unknown_for(UnknownReason.SKIPPED) == (8, 8)
    assert told.error.startswith("IndexError: out of bounds (test_anew.py:")
    audits = Unread(5.0, lambda: 0.0)
    audits.observe([told])
    assert audits.next_at() == 5.0


def test_the_next_micro_batches_go_on(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    mended = raising(monkeypatch, IndexError(), "bad")
    bucket.feed(unlike(5, 8))
    mended()
    assert bucket.feed({"bad": rows(8, 10)}) == []
    assert bucket.last["bad"].error == ""
    assert bucket.last["bad"].compared_up_to == (10, 10)
    (raised,) = bucket.feed({"bad": rows(10, 13, unlike=11)})
    assert raised.accusation.offset == 11


def test_what_lies_below_is_known_once_an_audit_has_compared_it(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    mended = raising(monkeypatch, IndexError(), "bad")
    bucket.feed(unlike(5, 8))
    mended()
    for end in (10, 12):
        bucket.feed({"bad": rows(end - 2, end)})
    told = bucket.last["bad"]
    assert {(s.view, s.start, s.end) for s in told.unread} == {(0, 0, 8), (1, 0, 8), (0, 8, 10), (1, 8, 10)}
    assert sum(map(sum, told.unknown.values())) == 20
    early, late = (Ended(at, at + 1, "consistent", 0, (12, 12)) for at in (T + 8, T + 11))
    assert told.settled(early.covers) == told
    assert sum(map(sum, told.settled(late.covers).unknown.values())) == 0


@pytest.mark.parametrize("is_readable", [True, False])
def test_readers_that_are_apart_accuse_nobody(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, is_readable: bool
) -> None:
    """What the one that is ahead showed before the error, the state does not know any more."""
    more = [record(n, f"K{n}", "V") for n in range(5, 12)]
    bucket.feed({"bad": both(1, more[:4], 9, T + 9)})
    mended = raising(monkeypatch, IndexError(), *["bad"] * is_readable)
    if not is_readable:
        states = bucket.states()
        states._changed[BAD] = {**(states._row(BAD) or {}), "head": b"?"}
        bucket.save(states)
    bucket.feed({"bad": both(2, [{**more[0], "content_hash": 1}], 6, T + 9)})
    assert bucket.last["bad"].error
    mended()
    for rows_ in (
        [*tick(T + 10, everywhere(12)), *both(2, more[1:], 12, T + 10)],
        both(3, more[:-1], 11, T + 11),
        both(1, more[4:], 12, T + 12),
        both(3, more[-1:], 12, T + 13),
        [*tick(T + 20_000, everywhere(12))],
        rows(12, 14),
    ):
        bucket.feed({"bad": rows_})
    assert bucket.suspects == []
    assert bucket.last["bad"].compared_up_to == (14, 14)


def test_what_comes_next_is_compared_where_the_state_could_be_read(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    mended = raising(monkeypatch, IndexError(), "bad")
    bucket.feed(unlike(5, 8))
    mended()
    (raised,) = bucket.feed({"bad": rows(8, 10, unlike=9)})
    assert raised.accusation.offset == 9


def test_rows_that_come_again_are_nothing_new(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that comes again without its end marker is not held against the marker of the next transaction."""
    first = [record(5, "K", "V", pid=7, outcome=Outcome.COMMITTED), commit(6, 7)]
    second = [record(7, "K", "W", pid=7, outcome=Outcome.ABORTED), abort(8, 7)]
    bucket.feed({"bad": [row for b in BROKERS for v in (RU, RC) for row in shown(v, b, first, 7, T + 7)]})
    mended = raising(monkeypatch, IndexError(), "bad")
    bucket.feed({"bad": [row for b in BROKERS for row in shown(RU, b, second[:1], 8, T + 8)]})
    mended()
    again = [row for row in shown(RC, 3, first, 7, T + 7) if row["offset"] == 5]
    unread = ((RU, second[1:]), (RC, second))
    later = [row for b in BROKERS for view, rows_ in unread for row in shown(view, b, rows_, 9, T + 9)]
    bucket.feed({"bad": [*again, *later, *tick(T + 9, everywhere(9))]})
    assert bucket.last["bad"].compared_up_to == (9, 9)
    assert bucket.suspects == []


def test_a_micro_batch_that_is_run_again_comes_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket(tmp_path)
    bucket.feed({"bad": rows(0, 5)})
    raising(monkeypatch, IndexError(), "bad")
    before = bucket.segment
    bucket.feed({"bad": rows(5, 8)})
    first, told = bucket.segment, bucket.last["bad"]
    bucket.segment = before
    bucket.batch += 5
    bucket.feed({"bad": rows(5, 8)})
    assert bucket.segment == first
    assert replace(bucket.last["bad"], compared_at=told.compared_at) == told


def test_one_that_fails_each_time_stays_unknown(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, IndexError(), "bad")
    for end in (8, 10, 12):
        bucket.feed({"bad": rows(end - 2, end, unlike=end - 1)})
        told = bucket.last["bad"]
        assert told.error
        assert told.unknown_for(UnknownReason.SKIPPED) == (end, end)
        earlier = Ended(T + end - 1, T + end, "consistent", 0, (99, 99))
        assert told.settled(earlier.covers) == told


def test_what_was_reported_is_not_reported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket(tmp_path)
    bucket.feed({"bad": rows(0, 5, unlike=4)})
    mended = raising(monkeypatch, IndexError(), "bad")
    told = bucket.states().get(BAD).told.tolist()
    assert len(told) == 1
    bucket.feed({"bad": rows(5, 8, unlike=5)})
    mended()
    bucket.feed({"bad": rows(8, 9)})
    assert bucket.states().get(BAD).told.tolist() == told


@pytest.mark.parametrize("error", [OSError("disk"), MemoryError(), ImportError("no module")])
def test_what_is_no_partitions_fault_fails_the_task(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    raising(monkeypatch, error, "bad")
    with pytest.raises(type(error)):
        bucket.feed(unlike(5, 8))


def broken(head: bytes) -> Sequence[bytes]:
    return head[: len(head) // 2], b"XYZ" + head[3:], head + b"1"


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_bytes_that_are_no_state_are_that_partitions_alone(bucket: Bucket, kind: int) -> None:
    states = bucket.states()
    head = broken(states.get(BAD).head_bytes())[kind]
    states._changed[BAD] = {**(states._row(BAD) or {}), "head": head}
    bucket.save(states)
    raised = bucket.feed(unlike(5, 8))
    assert sorted(s.topic for s in raised) == ["one", "two"]
    told = bucket.last["bad"]
    assert "comparison state" in told.error
    assert told.unknown_for(UnknownReason.SKIPPED) == (8, 8)
    bucket.feed({"bad": rows(8, 10)})
    assert bucket.last["bad"].compared_up_to == (10, 10)


def test_a_state_of_another_version_fails_the_task(bucket: Bucket) -> None:
    states = bucket.states()
    head = states.get(BAD).head_bytes()
    states._changed[BAD] = {**(states._row(BAD) or {}), "head": head[:3] + b"\x01" + head[4:]}
    bucket.save(states)
    with pytest.raises(ValueError, match="version 1 cannot be read"):
        bucket.feed(unlike(5, 8))


def test_a_file_that_is_not_what_was_written_fails_the_task(bucket: Bucket, tmp_path: Path) -> None:
    waiting = [record(n, f"K{n}", "V") for n in range(5, 5 + LARGE // 20)]
    bucket.feed({"bad": both(1, waiting, 5 + len(waiting), T + 6)})
    (file,) = (tmp_path / "segments").glob("unmatched-*")
    file.write_bytes(b"1" + file.read_bytes()[1:])
    with pytest.raises(ValueError, match="is not what was written"):
        bucket.feed(unlike(5, 8))


def test_a_large_state_leaves_no_file_behind(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [record(n, f"K{n}", "V") for n in range(5, 5 + LARGE // 20)]
    bucket.feed({"bad": both(1, waiting, 5 + len(waiting), T + 6)})
    assert bucket.segment is not None
    assert bucket.segment.files
    raising(monkeypatch, IndexError(), "bad")
    bucket.feed({"bad": rows(5, 8, unlike=5)})
    assert bucket.segment.files == ()


def test_where_nothing_can_be_taken_in_together_each_is_compared(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise ValueError("no kernel")

    monkeypatch.setattr(together, "step_quiet", failing)
    bucket.feed({topic: rows(5, 8) for topic in ("one", "bad", "two")})
    assert [c.compared_up_to for c in bucket.last.values()] == [(8, 8)] * 3
    assert bucket.problem is not None
    assert bucket.problem.startswith("ValueError: no kernel")
