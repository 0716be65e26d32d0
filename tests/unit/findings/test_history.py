from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from parallax.findings.history import KeyHistory, ReadLog, RecordedHistory, read_logs
from parallax.findings.pointing import Known
from parallax.findings.requests import RecordedTransactions, Recreated, Transaction, TransactionRecords
from parallax.model import Outcome, RowKind

KEY, SAME_LOW = (-1, 5), (9, 5)


def record(offset: int, broker: int = 2, key: tuple[int, int] = KEY, **fields: object) -> dict[str, object]:
    base: dict[str, object] = {
        "topic": "orders",
        "partition": 0,
        "broker": broker,
        "kind": int(RowKind.RECORD),
        "offset": offset,
        "outcome": int(Outcome.NONE),
        "key_hash_hi": key[0],
        "key_hash_lo": key[1],
        "timestamp": datetime.fromtimestamp(0, UTC),
        "leader_epoch": 3,
        "position": {"event": ""},
    }
    return base | fields


def position(offset: int, at: int, event: str = "ok", broker: int = 2) -> dict[str, object]:
    timestamp = datetime.fromtimestamp(at, UTC)
    return record(offset, broker, kind=int(RowKind.POSITION), timestamp=timestamp, position={"event": event})


def test_recorded_offsets_come_newest_first_by_replica_and_key(tmp_path: Path) -> None:
    rows = [
        record(1),
        record(8),
        record(8),  # recorded twice
        record(4, broker=3),
        record(5, key=SAME_LOW),
        record(9, outcome=int(Outcome.ABORTED)),
        record(10, kind=int(RowKind.COMMIT)),
        record(11, topic="other"),
        record(12, partition=1),
        position(0, 1, "partition_added"),
        position(20, 2),
        position(15, 2, broker=3),
    ]
    write_deltalake(str(tmp_path / "read_committed"), pa.Table.from_pylist(rows), partition_by=["broker"])
    found = RecordedHistory(str(tmp_path))("orders", 0, [KEY])
    assert found.offsets == {(2, KEY): [9, 8, 1], (3, KEY): [4]}
    assert found.of(2, KEY) == Known(0, 20, (9, 8, 1), (4,))
    assert found.of(3, KEY) == Known(15, 15, (4,), (9, 8, 1))
    assert found.of(1, KEY) == Known()
    assert found.logs[2] == ReadLog(0, 20, 3)


def test_a_table_that_is_not_there_is_no_history(tmp_path: Path) -> None:
    assert RecordedHistory(str(tmp_path))("orders", 0, [KEY]) == KeyHistory()


def test_what_is_left_after_retention_begins_at_the_first_position_that_is_left() -> None:
    assert read_logs([(2, 70, "ok", 1), (2, 90, "ok", 4)]) == {2: ReadLog(70, 90, 4)}


@pytest.mark.parametrize(
    "event",
    [
        "log_truncated",
        "not_hosted",
        "topic_recreated",
        "topic_deleted",
        "log_start_advanced",
        "batch_skipped",
        "not_kept",
        "partition_added",
    ],
)
def test_an_event_after_which_rows_are_missing_or_of_another_log_restarts_the_range(event: str) -> None:
    rows = [(2, 0, "partition_added", -1), (2, 50, "ok", 1), (2, 30, event, 1), (2, 40, "ok", 1)]
    assert read_logs(rows) == {2: ReadLog(30, 40, 1)}


@pytest.mark.parametrize("event", ["unreachable", "unauthorized", "corrupt_batch", "unsupported"])
def test_an_event_after_which_reading_goes_on_where_it_was_leaves_the_range_whole(event: str) -> None:
    rows = [(2, 0, "partition_added", -1), (2, 50, event, 1), (1, 9, "ok", 1), (2, 60, "ok", 1)]
    assert read_logs(rows) == {1: ReadLog(9, 9, 1), 2: ReadLog(0, 60, 1)}


def test_where_reading_went_on_without_a_known_epoch_the_range_begins() -> None:
    rows = [(2, 0, "partition_added", -1), (2, 50, "ok", 1), (2, 60, "ok", -1), (2, 60, "unreachable", -1)]
    assert read_logs(rows) == {2: ReadLog(0, 60)}
    assert read_logs([*rows, (2, 70, "ok", 2)]) == {2: ReadLog(60, 70, 2)}


@pytest.mark.parametrize(("epoch", "is_held", "counts"), [(3, True, True), (3, False, False), (-1, True, False)])
def test_only_what_was_recorded_of_the_log_that_a_replica_has_now_counts(
    epoch: int, is_held: bool, counts: bool
) -> None:
    recorded = KeyHistory({2: ReadLog(0, 20, epoch)}, {(2, KEY): [9]})
    asked: list[tuple[int, int]] = []
    found = recorded.of_current_log(2, lambda *log: bool(asked.append(log)) or is_held)
    assert found == (recorded if counts else KeyHistory())
    assert asked == [(20, 3)] * (epoch >= 0)
    assert recorded.of_current_log(1, lambda *_: True) == KeyHistory()


def recorded(history: RecordedHistory, one: Transaction) -> TransactionRecords:
    """What was recorded of one transaction."""
    (found,) = history.transactions(RecordedTransactions("orders", 0, (one,)))
    return found


def test_many_transactions_are_looked_up_in_one_pass_and_none_takes_anothers_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [record(o, key=(o % 3, 1), producer_id=7 + o % 2, key_size=3, broker=2 + o % 2) for o in range(0, 400, 5)]
    rows += [position(0, 1, broker=2), position(400, 2, broker=2)]
    write_deltalake(str(tmp_path / "read_uncommitted"), pa.Table.from_pylist(rows), partition_by=["broker"])
    history = RecordedHistory(str(tmp_path))
    of = [Transaction(7 + at % 2, at, at + width, 4) for at in range(0, 400, 5) for width in (1, 23, 200)]
    singly = [recorded(history, one) for one in of]
    opened: list[str] = []
    monkeypatch.setattr("parallax.findings.history.DeltaTable", lambda uri: opened.append(uri) or DeltaTable(uri))
    assert history.transactions(RecordedTransactions("orders", 0, tuple(of))) == singly
    assert len(opened) == 1
    assert {len(found.records) for found in singly} == {1, 2, 3}
    for one, found in zip(of, singly, strict=True):
        last = {o % 3: o for o in range(one.start, min(one.end, 400), 10)}
        assert found.records == tuple((o, (key, 1)) for key, o in sorted(last.items(), key=lambda kept: kept[1]))


def test_a_transactions_records_are_those_of_its_producer_that_any_replica_showed(tmp_path: Path) -> None:
    def written(offset: int, key: tuple[int, int] = KEY, **fields: object) -> dict[str, object]:
        return record(offset, **({"key": key, "producer_id": 7, "key_size": 3} | fields))  # type: ignore[arg-type]

    rows = [
        written(10),
        written(10, broker=3),
        written(14),
        written(12, key=SAME_LOW, broker=3),
        written(9),
        written(20),
        written(15, producer_id=8, key=(3, 3)),
        written(16, key_size=-1, key=(0, 0)),
        written(17, kind=int(RowKind.ABORT), key=(4, 4)),
        written(18, topic="other", key=(5, 5)),
        position(10, 1, broker=3),
        position(20, 2, broker=3),
    ]
    write_deltalake(str(tmp_path / "read_uncommitted"), pa.Table.from_pylist(rows), partition_by=["broker"])
    history = RecordedHistory(str(tmp_path))
    assert recorded(history, Transaction(7, 10, 20, 8)) == TransactionRecords(((12, SAME_LOW), (14, KEY)))
    assert recorded(history, Transaction(7, 10, 20, 1)) == TransactionRecords(((12, SAME_LOW),), 1)


@pytest.mark.parametrize(
    ("left", "first_on", "is_known"),
    [
        ([], (), False),
        ([(2, 21)], (), False),
        ([(2, 11), (2, 21)], (), False),
        ([(2, 0), (3, 21)], (2,), False),
        ([(2, 21), (3, 10), (3, 20)], (3,), True),
        ([(2, 0), (2, 21)], (2,), True),
        ([(2, 0), (2, 21)], (3,), False),
        ([(2, 0), (2, 21)], (), False),
    ],
    ids=[
        "nothing",
        "what came later",
        "from within it",
        "of one that read no further",
        "one's",
        "all",
        "another's first record",
        "what the cleaner had left",
    ],
)
def test_what_retention_has_dropped_of_the_views_is_not_known(
    tmp_path: Path, left: list[tuple[int, int]], first_on: tuple[int, ...], is_known: bool
) -> None:
    rows = [position(offset, at, broker=broker) for at, (broker, offset) in enumerate(left)]
    rows += [position(0, 1, broker=5) | {"partition": 1}]
    rows = [row | {"producer_id": -1, "key_size": -1} for row in rows]
    rows += [record(10, broker, producer_id=7, key_size=3) for broker in first_on]
    write_deltalake(str(tmp_path / "read_uncommitted"), pa.Table.from_pylist(rows), partition_by=["broker"])
    found = recorded(RecordedHistory(str(tmp_path)), Transaction(7, 10, 20, 8))
    assert found.records == ((10, KEY),) * bool(first_on)
    assert (found.error is None) is is_known


@pytest.mark.parametrize(("event", "is_known"), [("ok", True), ("not_kept", False), ("batch_skipped", False)])
@pytest.mark.parametrize(("start", "end"), [(5, 11), (15, 25), (5, 30), (19, 20)])
def test_a_transaction_of_which_rows_are_not_kept_is_not_known_and_one_beside_them_is(
    tmp_path: Path, event: str, is_known: bool, start: int, end: int
) -> None:
    rows = [position(0, 1), position(10, 2), position(20, 3, event), position(40, 4)]
    rows = [row | {"producer_id": -1, "key_size": -1} for row in rows]
    rows += [record(offset, producer_id=7, key_size=3) for offset in (start, 21)]
    write_deltalake(str(tmp_path / "read_uncommitted"), pa.Table.from_pylist(rows), partition_by=["broker"])
    history = RecordedHistory(str(tmp_path))
    assert (recorded(history, Transaction(7, start, end, 8)).error is None) is is_known
    assert recorded(history, Transaction(7, 21, 40, 8)).error is None


def test_without_a_table_no_transaction_was_recorded_and_a_broken_one_is_an_error(tmp_path: Path) -> None:
    asked = Transaction(7, 10, 20, 8)
    assert recorded(RecordedHistory(str(tmp_path)), asked) == TransactionRecords()
    write_deltalake(str(tmp_path / "read_uncommitted"), pa.table({"offset": [1]}))
    assert recorded(RecordedHistory(str(tmp_path)), asked).error


@pytest.mark.parametrize(
    ("event", "broker", "at", "wanted"),
    [
        ("log_truncated", 2, 60, True),
        ("not_hosted", 2, 60, True),
        ("ok", 2, 60, False),
        ("log_truncated", 1, 60, False),
        ("log_truncated", 2, 40, False),
    ],
)
def test_a_log_was_replaced_where_its_reader_noticed_it_since(
    tmp_path: Path, event: str, broker: int, at: int, wanted: bool
) -> None:
    position = {"event": event}
    timestamp = datetime.fromtimestamp(at, UTC)
    row = record(0, broker=broker, kind=int(RowKind.POSITION)) | {"timestamp": timestamp, "position": position}
    write_deltalake(str(tmp_path / "read_uncommitted"), pa.Table.from_pylist([row]), partition_by=["broker"])
    assert RecordedHistory(str(tmp_path)).was_recreated(Recreated("orders", 0, 2, 50_000)) is wanted


def test_nobody_knows_of_a_log_that_was_replaced_where_nothing_was_recorded(tmp_path: Path) -> None:
    assert not RecordedHistory(str(tmp_path)).was_recreated(Recreated("orders", 0, 2, 0))


def test_only_files_that_may_hold_what_is_looked_for_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day has thousands of files, and to list them all takes longer than to read what is looked for."""
    listed: list[int] = []

    class Counted(DeltaTable):
        def to_pyarrow_dataset(self, **how: Any) -> Any:
            made = super().to_pyarrow_dataset(**how)
            listed.append(len(list(made.get_fragments())))
            return made

    monkeypatch.setattr("parallax.findings.history.DeltaTable", Counted)
    mine = [position(0, 10), record(1), position(2, 60, "log_truncated"), record(30), position(31, 40)]
    for row in [*mine, record(1, topic="other"), position(2, 70, broker=3), record(1, partition=1)]:
        row |= {"producer_id": 7, "key_size": 4}
        for view in ("read_uncommitted", "read_committed"):
            rows = pa.Table.from_pylist([row])
            write_deltalake(str(tmp_path / view), rows, mode="append", partition_by=["broker"])
    history = RecordedHistory(str(tmp_path))
    assert recorded(history, Transaction(7, 1, 2, 10)).records == ((1, KEY),)
    assert listed == [1, 6], "of the transaction's offsets; of the partition, for its positions"
    del listed[:]
    assert history.was_recreated(Recreated("orders", 0, 2, 50_000))
    assert listed == [1], "of the broker, since then"
    del listed[:]
    assert history("orders", 0, [KEY]).of(2, KEY).offsets == (30, 1)
    assert listed == [6, 6]


def test_a_file_of_whose_columns_nothing_is_known_is_opened(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([position(2, 60, "log_truncated")])
    nothing = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(str(tmp_path / "read_uncommitted"), rows, partition_by=["broker"], configuration=nothing)
    assert RecordedHistory(str(tmp_path)).was_recreated(Recreated("orders", 0, 2, 50_000))
