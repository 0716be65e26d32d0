"""An audit of the tables by blocks: what agrees is not read, and what it says is what it says of all rows."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.audit.agreeing import agreeing, recorded_blocks
from parallax.audit.compare import STATE, Comparer, parse
from parallax.audit.inputs import from_tables
from parallax.audit.plan import PartitionPlan, TopicTraits
from parallax.compare.blocks import Agreed, Recorded, agreed
from parallax.model import IsolationLevel, Outcome, ReadEvent, RowKind, TopicPartition, UnknownReason
from parallax.replica.digests import BLOCK, COLUMNS, Digester, Digests
from parallax.source.planning import Piece
from parallax.views.appending import Appender
from parallax.views.blocks import RANGE, Blocks
from parallax.views.compaction import compact
from tests.unit.audit.chunked import chunks
from tests.unit.compare.history import BROKERS, RC, RU, SETTINGS, Row, abort, commit, everywhere, record, shown, tick
from tests.unit.views.recorded import piece, position, recorded, rows

PLACE = TopicPartition("t", 0)
PLAN = PartitionPlan("t", 0, "id", TopicTraits(), BROKERS, starts=dict.fromkeys(BROKERS, 0))
BITS = 3


def log_of(draw: random.Random, length: int) -> list[Row]:
    """A log: plain records and transactions of a few producers, each row as read_committed shows it."""
    made: list[Row] = []
    going: dict[int, Outcome] = {}
    for offset in range(length):
        pid = draw.randrange(9, 12)
        key = f"k{draw.randrange(4)}"
        if pid in going and draw.random() < 0.4:
            end = going.pop(pid)
            made.append({**(commit if end is Outcome.COMMITTED else abort)(offset, pid), "outcome": end})
        elif draw.random() < 0.5:
            made.append(record(offset, key, draw.choice(("v", "w", None))))
        else:
            outcome = going.setdefault(pid, draw.choice((Outcome.COMMITTED, Outcome.ABORTED)))
            made.append(record(offset, key, "t", pid=pid, outcome=outcome))
    return made


def damaged(log: list[Row], draw: random.Random) -> list[Row]:
    """The log of a replica that has lost a row, or shows it otherwise."""
    if not log:
        return log
    at = draw.randrange(len(log))
    row = log[at]
    if draw.random() < 0.5:
        return [one for one in log if one is not row]
    other = {"content_hash": 4711} if draw.random() < 0.5 else {"outcome": 3 - row.get("outcome", 0)}
    return [{**row, **other} if one is row and row["kind"] == RowKind.RECORD else one for one in log]


@dataclass
class History:
    """What was recorded of a partition: by reader its ranges, and the rows of each with its position row."""

    read: dict[tuple[int, int], list[tuple[int, list[Row]]]]
    ends: tuple[int, int]

    @classmethod
    def drawn(cls, seed: int, faults: int, length: int) -> History:
        draw = random.Random(seed)
        whole = log_of(draw, length)
        logs = dict.fromkeys(BROKERS, whole)
        for _ in range(faults):
            broker = draw.choice(BROKERS)
            logs[broker] = damaged(logs[broker], draw)
        read: dict[tuple[int, int], list[tuple[int, list[Row]]]] = {}
        for broker, log in logs.items():
            for view in (RU, RC):
                cuts = sorted({length, *(draw.randrange(1, length + 1) for _ in range(draw.randrange(4)))})
                spans = zip([0, *cuts], cuts, strict=False)
                read[int(view), broker] = [
                    (start, shown(view, broker, [r for r in log if start <= r["offset"] < end], end, end, topic_id=1))
                    for start, end in spans
                ]
        return cls(read, (length, length))

    def agreed(self) -> Agreed | None:
        digester = Digester(bytes(16), block_bits=BITS - 1, joined_bits=BITS)
        return agreed({(b, v): added_up(digester, its) for (v, b), its in self.read.items()})

    def audited(self, agreed: Agreed | None) -> Any:
        """What an audit says: of all rows, or without those that have agreed."""
        made = replace(PLAN, ends=self.ends, marks=dict.fromkeys(BROKERS, self.ends))
        told = [
            {**one, "topic": "t", "partition": 0, "observed_at": one["observed_at"] * 1000}
            for one in tick(9000, everywhere(self.ends[0]))
        ]
        inputs = from_tables([made], told, 2, {PLACE: agreed} if agreed is not None else {})
        kept = [[row for row in its if is_read(row, agreed)] for readings in self.read.values() for _, its in readings]
        in_order = sorted((row for its in kept for row in its), key=lambda r: (r["offset"], -int(r["kind"])))
        packs = [
            {"topic": "t", "partition": 0, "at": at, "packed": blob}
            for at, blob in [(STATE, b""), *chunks([in_order], 100)]
        ]
        comparer = Comparer(inputs, SETTINGS, 2, last=True, from_log_start=False)
        (row,) = [r for b in comparer.compare([pa.RecordBatch.from_pylist(packs)]) for r in b.to_pylist()]
        compared, suspects, coverage = parse(row["result"])
        # What was not read in time an audit of the tables knows by the positions (`Compared.unread`).
        unknown = {**coverage.unknown, UnknownReason.BEFORE_FIRST_READING: (0, 0)}
        return (
            {**asdict(compared), "rows": 0},
            sorted(one.suspect_id for one in suspects),
            replace(coverage, state_bytes=0, unread=(), unknown=unknown),
        )


def added_up(digester: Digester, readings: list[tuple[int, list[Row]]]) -> Recorded:
    """What a reader has shown, as the footers tell it."""
    digests, spans = [], []
    for n, (start, its) in enumerate(readings):
        one = digested(digester, its)
        one.parts["range"] = n
        digests.append(one)
        spans.append((0, start, its[-1]["offset"], -1, 0, its[-1]["event"] == ReadEvent.OK))
    return Recorded(np.array(spans, RANGE), ["id"] * len(spans), Digests.concat(digests))


def is_read(row: Row, agreed: Agreed | None) -> bool:
    return agreed is None or row["kind"] == RowKind.POSITION or row["offset"] >= agreed.end


def digested(digester: Digester, its: list[Row]) -> Digests:
    of = [{**dict.fromkeys(COLUMNS, 0), **row} for row in its if row["kind"] != RowKind.POSITION]
    columns = {name: np.array([row[name] for row in of], dtype) for name, dtype in COLUMNS.items()}
    return digester.add_up(np.array([0, len(of)]), np.zeros(1, np.int32), columns)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), faults=st.integers(0, 2), length=st.integers(1, 60))
def test_an_audit_without_the_rows_that_agree_says_what_an_audit_of_all_rows_says(
    seed: int, faults: int, length: int
) -> None:
    history = History.drawn(seed, faults, length)
    agreed = history.agreed()
    if faults == 0:
        assert agreed is not None
        assert (agreed.start, agreed.end) == (0, length)
    assert history.audited(agreed) == history.audited(None)


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_replicas_agree_up_to_the_last_cut_below_the_first_record_in_which_they_differ(place: float) -> None:
    history = History.drawn(5, 0, 40)
    offsets = sorted({r["offset"] for _, its in history.read[int(RU), 1] for r in its if r["kind"] == RowKind.RECORD})
    other = offsets[round(place * (len(offsets) - 1))]
    for view in (RU, RC):
        history.read[int(view), 2] = [
            (start, [{**row, "content_hash": 4711} if row["offset"] == other else row for row in its])
            for start, its in history.read[int(view), 2]
        ]
    agreed, end = history.agreed(), other >> BITS << BITS
    assert (agreed is None) == (end == 0)
    assert agreed is None or end <= agreed.end <= other
    assert history.audited(agreed) == history.audited(None)


@pytest.mark.parametrize("what", ["listed", "emptied"])
def test_what_is_judged_by_itself_is_not_agreed_on(what: str) -> None:
    history = History.drawn(7, 0, 20)
    kind = {"listed": RowKind.LISTED, "emptied": RowKind.EMPTIED}[what]
    for (view, _), readings in history.read.items():
        if view == RC:
            readings[0][1][0] = {**readings[0][1][0], "kind": kind, "producer_id": 9}
    assert history.agreed() is None


def test_what_a_reading_did_not_show_whole_is_not_agreed_on() -> None:
    history = History.drawn(7, 0, 20)
    history.read[int(RU), 2][0][1][-1]["event"] = ReadEvent.LOG_START_ADVANCED
    assert history.agreed() is None


def plan_of(end: int) -> PartitionPlan:
    return replace(PLAN, topic="t", replicas=(1, 2), ends=(end, end))


def written(storage: Path, monkeypatch: pytest.MonkeyPatch, broker: int, batch: int, one: Piece, made: Any) -> None:
    """Record what a broker shows of a range at both levels."""
    for isolation in IsolationLevel:
        reader = one.reader._replace(isolation=int(isolation), broker=broker)
        mine = replace(one, reader=reader)
        files = recorded(storage, monkeypatch, [mine], [made(int(isolation)), position(mine, one.span.end)])
        folder = [replace(f, broker=broker, path=f.path) for f in files]
        Appender(str(storage), isolation.option).append_files(folder, f"query {broker}", batch)


@pytest.mark.parametrize(("furthest", "agreed_to"), [(9000, 9000), (9500, 9000 - 9000 % BLOCK)])
def test_ranges_that_agree_are_known_by_the_footers_of_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, furthest: int, agreed_to: int
) -> None:
    """Where replicas were not read to the same offset, they are compared at the last end of a block."""
    for broker, last in ((1, furthest), (2, 9000)):
        for batch, span in enumerate((range(5000), range(5000, last))):
            one = piece("t", 0, span.start, span.stop)
            written(tmp_path, monkeypatch, broker, batch, one, lambda level, of=span: rows("t", 0, of, level))
    blocks = recorded_blocks(str(tmp_path))
    found = agreeing(blocks, [plan_of(9000)])[PLACE]
    assert (found.start, found.end, found.rows) == (0, agreed_to, 4 * agreed_to)
    assert agreeing(blocks, [plan_of(agreed_to - 1)]) == {}, "none reaches beyond the plan's end"
    assert agreeing(blocks, [replace(plan_of(9000), replicas=(1, 2, 3))]) == {}, "nothing is recorded of broker 3"


def test_no_range_agrees_if_the_first_rows_of_a_replica_were_recorded_without_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broker in (1, 2):
        for batch, span in enumerate((range(5000), range(5000, 9000))):
            one = piece("t", 0, span.start, span.stop)
            with monkeypatch.context() as earlier:
                if batch == 0:
                    earlier.setattr(Blocks, "told", lambda _: {})
                written(tmp_path, earlier, broker, batch, one, lambda level, of=span: rows("t", 0, of, level))
    assert agreeing(recorded_blocks(str(tmp_path)), [plan_of(9000)]) == {}
    assert [compact(str(tmp_path), level.option) for level in IsolationLevel] == [4, 4]
    assert agreeing(recorded_blocks(str(tmp_path)), [plan_of(9000)]) == {}, "a joined file has no sums of a part"


def test_tables_that_cannot_be_read_have_no_blocks(tmp_path: Path) -> None:
    assert recorded_blocks(str(tmp_path / "nowhere")) == {}
    assert agreeing({}, [plan_of(9)]) == {}
    assert agreeing({level: {1: Blocks.none(), 2: Blocks.none()} for level in IsolationLevel}, [plan_of(9)]) == {}
