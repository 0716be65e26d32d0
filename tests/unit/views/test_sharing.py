"""Sharing: a row that replicas show alike lies once in a view, and whoever reads the view gets the same rows."""

from __future__ import annotations

import base64
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import ColumnProperties, DeltaTable, WriterProperties, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.compare.batches import VIEW_COLUMNS
from parallax.compare.recorded import lent, observed
from parallax.config import StorageSettings
from parallax.model import IsolationLevel
from parallax.source.schema import POSITION, VIEW
from parallax.views import parquet, shared, sharing
from parallax.views.commits import DataFile, TableLog
from parallax.views.compaction import compact
from parallax.views.maintenance import Maintenance, drop_older
from parallax.views.positions import positions_since
from parallax.views.shared import RUN, LenderError, Shared, WholeFile, rows_of, shared_files, shared_of
from parallax.views.sharing import Saved, share
from parallax.views.tables import RECORDED_ON, create_tables

RC, RU = "read_committed", "read_uncommitted"
DAY, NEXT = date(2026, 1, 1), date(2026, 1, 2)
Row = tuple[Any, ...]


@pytest.fixture
def storage(tmp_path: Path) -> str:
    create_tables(str(tmp_path))
    return str(tmp_path)


def record(offset: int, topic: str = "t", partition: int = 0, **more: Any) -> dict[str, Any]:
    same = {"leader_epoch": 3, "producer_id": -1, "producer_epoch": -1, "outcome": 0, "key_size": 4, "value_size": 9}
    same |= {"timestamp": datetime(2026, 1, 1, tzinfo=UTC), "key_hash_hi": offset % 7, "key_hash_lo": 1, "kind": 0}
    return {**same, "topic": topic, "partition": partition, "offset": offset, "content_hash": offset * 3, **more}


def position(offset: int, topic: str = "t", partition: int = 0) -> dict[str, Any]:
    its = {"high_watermark": offset, "event": "ok", "topic_id": "id"}
    return record(offset, topic, partition, kind=3, position=its)


def append(
    storage: str,
    broker: int,
    rows: list[dict[str, Any]],
    on: date = DAY,
    view: str = RC,
    written: WriterProperties | None = None,
) -> None:
    table = pa.Table.from_pylist([{**one, "broker": broker} for one in rows], schema=VIEW)
    table = table.append_column(RECORDED_ON, pa.array([on] * len(rows), pa.date32()))
    write_deltalake(uri(storage, view), table, mode="append", writer_properties=written)


def uri(storage: str, view: str = RC) -> str:
    return f"{storage}/{view}"


def everything(
    storage: str,
    wanted: Any = None,
    columns: tuple[str, ...] = tuple(VIEW.names),
    view: str = RC,
    files: str | None = None,
) -> list[dict[str, Any]]:
    """All rows in the order of their commits, as who looks keys up reads them."""
    table = DeltaTable(uri(storage, view))
    found = pc.field("offset") >= 0 if wanted is None else wanted
    reads = ("offset", "broker", "key_hash_hi", "topic")
    batches = rows_of(uri(storage, view), table, columns, found, reads, files=files)
    return [row for batch in batches for row in batch.to_pylist()]


def compared(storage: str, view: str = RC) -> list[tuple[Any, ...]]:
    """All rows as a comparison that is rebuilt takes them, commit by commit."""
    log = TableLog(storage, view)
    return [
        (one.at_ms, file.broker, file.rows, row)
        for one in log.standing()[1]
        for file in one.files
        for row in seen(log, file, view)
    ]


def seen(log: TableLog, file: Any, view: str = RC, **of: Any) -> Iterator[Row]:
    for found in observed(log.files, view, file, lambda *_: True, **of):
        rows = found.tables[0]
        of_row = [found.places[n] for n in found.of[0].tolist()]
        names = ("broker", "kind", "offset", "content_hash", "key_hash_hi", "outcome")
        columns = [getattr(rows, n).tolist() for n in names]
        yield from zip(of_row, *columns, strict=True)


def all_topics(_: str) -> bool:
    return True


def shared_now(storage: str, view: str = RC) -> Saved:
    return share(storage, view, all_topics, NEXT, set())


def size(storage: str) -> int:
    return int(pc.sum(pa.table(DeltaTable(uri(storage)).get_add_actions(flatten=True))["size_bytes"]).as_py())


def in_files(storage: str, view: str) -> int:
    """How many rows lie in a view's own files."""
    return int(DeltaTable(uri(storage, view)).to_pyarrow_dataset().count_rows())


def append_to_both(storage: str, broker: int, offsets: Sequence[int], on: date = DAY) -> None:
    """Plain records, and transactions of ten of which every third is aborted; the end marker is each tenth offset."""
    rows = [
        record(n, producer_id=n // 10 % 4, kind=(2 if n // 10 % 3 == 0 else 1) if n % 10 == 9 else 0, outcome=3)
        if n // 10 % 4
        else record(n)
        for n in offsets
    ]
    append(storage, broker, [*rows, position(max(offsets) + 1)], on, RU)
    seen = [
        {**row, "outcome": row["outcome"] and 1}
        for row in rows
        if not (row["outcome"] and row["offset"] // 10 % 3 == 0)
    ]
    append(storage, broker, [*seen, position(max(offsets) + 1)], on)


def test_equal_rows_lie_once_and_are_read_of_every_replica(storage: str) -> None:
    for n in range(4):
        for broker in (1, 2, 3):
            append(storage, broker, [*map(record, range(n * 500, n * 500 + 500)), position(n * 500 + 500)])
    compact(storage, RC)
    before, as_compared, bytes_before = everything(storage), compared(storage), size(storage)
    saved = shared_now(storage)
    assert (saved.rows, saved.size) == (4000, bytes_before - size(storage))
    assert DeltaTable(uri(storage)).to_pyarrow_dataset().count_rows() == 2000 + 12
    assert everything(storage) == before
    assert compared(storage) == as_compared
    assert positions_since(storage, IsolationLevel.READ_COMMITTED, -1)[0].keys()


def test_a_row_that_both_views_have_lies_in_read_uncommitted_alone(storage: str) -> None:
    for n in range(4):
        for broker in (1, 2, 3):
            append_to_both(storage, broker, range(n * 200, n * 200 + 200))
    for view in (RU, RC):
        compact(storage, view)
    before = [(everything(storage, view=view), compared(storage, view)) for view in (RU, RC)]
    assert [shared_now(storage, view).rows for view in (RU, RC)] == [1600, len(before[1][0]) - 12]
    assert [in_files(storage, view) for view in (RU, RC)] == [800 + 12, 12]
    assert [(everything(storage, view=view), compared(storage, view)) for view in (RU, RC)] == before
    assert {row["outcome"] for row in before[1][0]} == {0, 1}


def test_what_one_view_lends_to_the_other_is_neither_joined_nor_shared_nor_dropped_before_it(storage: str) -> None:
    for n in range(3):
        append_to_both(storage, 1, range(n * 40, n * 40 + 40))
    append_to_both(storage, 2, range(1000, 1040))
    before = everything(storage)
    assert shared_now(storage).rows == len(before) - 4
    # Another replica comes to show the same: it could lend these rows now.
    for broker in (0, 1):
        append(storage, broker, [record(n) for n in range(40)], view=RU)
    assert compact(storage, RU) == 0
    assert shared_now(storage, RU) == Saved()
    assert not drop_older(storage, RU, NEXT)
    assert everything(storage) == before
    assert drop_older(storage, RC, NEXT)
    assert drop_older(storage, RU, NEXT)
    assert {row["kind"] for row in everything(storage)} == {3}


def test_rows_that_differ_in_any_column_stay_of_every_replica(storage: str) -> None:
    other: list[dict[str, Any]] = [
        {"content_hash": 1},
        {"timestamp": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)},
        {"leader_epoch": 4},
        {"outcome": 2},
        {"kind": 1},
        {"key_size": -1},
        {"payload": {"key": b"a", "value": None, "headers": None}},
        {"content_version": 2},
    ]
    append(storage, 1, [record(n) for n in range(200)])
    append(storage, 2, [record(n, **(other[n] if n < len(other) else {})) for n in range(200)])
    assert shared_now(storage).rows == 200 - len(other)
    physical = DeltaTable(uri(storage)).to_pyarrow_dataset().to_table(filter=pc.field("broker") == 2)
    assert physical["offset"].to_pylist() == list(range(len(other)))


def test_sharing_twice_changes_nothing_more_and_compaction_leaves_the_date_alone(storage: str) -> None:
    for n in range(3):
        for broker in (1, 2):
            append(storage, broker, list(map(record, range(n * 9, n * 9 + 9))))
    before = compared(storage)
    assert shared_now(storage).rows == 27
    version = DeltaTable(uri(storage)).version()
    assert shared_now(storage) == Saved()
    assert compact(storage, RC) == 0
    assert DeltaTable(uri(storage)).version() == version
    append(storage, 1, [record(99)], NEXT)
    append(storage, 1, [record(100)], NEXT)
    assert compact(storage, RC) == 2
    assert compared(storage)[: len(before)] == before


def test_a_kill_before_the_commit_changes_nothing(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for broker in (1, 2):
        append(storage, broker, list(map(record, range(50))))
    before = compared(storage)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sharing, "replaced", killed)
        with pytest.raises(KeyboardInterrupt):
            shared_now(storage)
    assert compared(storage) == before
    assert shared_files(storage, RC)[1] == []
    assert shared_now(storage).rows == 50
    assert compared(storage) == before


def test_only_chosen_topics_and_dates_before_are_shared(storage: str) -> None:
    for broker in (1, 2):
        append(storage, broker, [record(n, topic) for topic in ("a", "b") for n in range(30)])
        append(storage, broker, [record(n, "a") for n in range(30, 60)], NEXT)
    before = everything(storage)
    assert share(storage, RC, lambda topic: topic == "a", NEXT, set()).rows == 30
    left = DeltaTable(uri(storage)).to_pyarrow_dataset().to_table(filter=pc.field("broker") == 2)
    assert sorted(left["topic"].to_pylist()) == ["a"] * 30 + ["b"] * 30
    assert everything(storage) == before


def test_upkeep_shares_settled_rows_of_chosen_topics_where_a_user_wants_that(storage: str) -> None:
    for broker in (1, 2):
        append(storage, broker, [record(n, topic) for topic in ("orders", "orders2") for n in range(30)])
    asked: dict[str, Any] = {"path": storage, "retention_hours": 1e6, "settled_hours": 48}
    found: dict[str, Saved] = {}

    def upkeep(on: date, **more: Any) -> None:
        Maintenance(StorageSettings(**asked, **more), on_shared=found.__setitem__).run_once(on)

    upkeep(date(2026, 1, 9))
    upkeep(date(2026, 1, 3), record="differing")
    assert found == {}
    upkeep(date(2026, 1, 4), record="differing", differing_topics="orders")
    assert found[RC].rows == 30


def test_a_date_is_looked_at_only_once(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    append(storage, 1, [record(1)])
    passed: set[date] = set()
    assert share(storage, RC, all_topics, NEXT, passed) == Saved()
    monkeypatch.setattr(sharing, "_share_date", None)
    assert share(storage, RC, all_topics, NEXT, passed) == Saved()


def test_a_file_of_which_few_rows_are_alike_is_not_written_again(storage: str) -> None:
    append(storage, 1, list(map(record, range(5))))
    append(storage, 2, list(map(record, range(100))))
    assert shared_now(storage) == Saved()
    assert not list(Path(storage).rglob("joined-shared-*"))


def test_a_row_group_is_compared_only_with_those_in_which_its_rows_can_lie(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 50)
    pairs, compared_rows = sharing._pairs, list[int]()

    def counted(rows: pa.Table, asked: Any, others: pa.Table) -> Any:
        compared_rows.append(len(asked))
        return pairs(rows, asked, others)

    monkeypatch.setattr(sharing, "_pairs", counted)
    for start in (0, 200):
        for broker in (1, 2, 3):
            append(
                storage,
                broker,
                [
                    record(n, topic, partition, content_hash=broker * (broker == 3 and n % 10 == 0))
                    for topic in ("a", "b")
                    for partition in (0, 1)
                    for n in range(start, start + 200)
                ],
            )
    compact(storage, RC)
    before, groups = everything(storage), 4 * 400 // 50
    assert shared_now(storage).rows == 1600 + 1440
    assert compared_rows == [50] * 2 * groups
    assert everything(storage) == before


def test_a_lender_without_statistics_lends_all_the_same(storage: str) -> None:
    bare = WriterProperties(default_column_properties=ColumnProperties(statistics_enabled="NONE"))
    for broker in (1, 2):
        append(storage, broker, [record(n, topic) for topic in ("a", "b") for n in range(40)], written=bare)
    (path,) = Path(storage).rglob(f"{RC}/broker=1/**/*.parquet")
    assert parquet.limits(pq.read_metadata(path).row_group(0), VIEW.names) == {}
    before = compared(storage)
    assert shared_now(storage).rows == 80
    assert compared(storage) == before


def test_replicas_of_which_no_broker_has_all_lend_to_each_other(storage: str) -> None:
    places = {1: (0, 1), 2: (1, 2), 3: (0, 2), 4: (0, 1, 2)}
    for broker, of in places.items():
        append(storage, broker, [record(n, partition=p) for p in of for n in range(40)])
    before, as_compared = everything(storage), compared(storage)
    assert shared_now(storage).rows == (9 - 3) * 40
    assert DeltaTable(uri(storage)).to_pyarrow_dataset().count_rows() == 3 * 40
    assert everything(storage) == before
    assert compared(storage) == as_compared
    lenders = {}
    for path, broker in shared_files(storage, RC)[1]:
        found = shared_of(pq.read_metadata(f"{uri(storage)}/{path}").metadata)
        assert found is not None
        lenders[broker] = sorted(int(one.split("/")[0].removeprefix("broker=")) for one in found.lenders)
    # Only those are opened that have some of its rows.
    assert lenders == {2: [1], 3: [1, 2], 4: [1, 2]}


def test_a_key_is_found_of_every_replica_and_of_one_alone(storage: str) -> None:
    for broker in (1, 2, 3):
        append(storage, broker, [record(n, content_hash=n if broker == 2 and n == 9 else 0) for n in range(40)])
    columns = ("broker", "offset", "content_hash")
    key = pc.field("key_hash_hi") == 2
    before = [everything(storage, wanted, columns) for wanted in (key, key & (pc.field("broker") == 2))]
    assert shared_now(storage).rows == 79
    assert [everything(storage, wanted, columns) for wanted in (key, key & (pc.field("broker") == 2))] == before
    assert [len(found) for found in before] == [18, 6]


def test_what_the_log_says_of_a_files_own_rows_hides_none_that_others_lend(storage: str) -> None:
    append(storage, 1, [record(n, "a", partition=1, key_size=n) for n in range(100)])
    append(storage, 2, [*(record(n, "a", partition=1, key_size=n) for n in range(100)), record(999, "z", 7)])
    wanted = (pc.field("topic") == "a") & (pc.field("offset") < 50) & (pc.field("broker") == 2)
    before = everything(storage, wanted)
    assert shared_now(storage).rows == 100
    own = "offset = 999"
    assert everything(storage, wanted) == everything(storage, wanted, files=own) == before
    assert everything(storage, wanted, files="offset > 999") == before, "a file that is shared is read in any case"
    assert len(before) == 50


def test_a_range_of_offsets_and_a_part_of_a_file_are_read_alike(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "ROWS", 7)
    for n in range(3):
        for broker in (1, 2):
            rows = [record(m, content_hash=broker if m % 5 == 0 else 0) for m in range(n * 30, n * 30 + 30)]
            append(storage, broker, [*rows, position(n * 30 + 30)])
    compact(storage, RC)
    log = TableLog(storage, RC)

    def told() -> list[list[Row]]:
        files = [file for one in log.standing()[1] for file in one.files]
        return [list(seen(log, file)) for file in files] + [
            [row for row in seen(log, file, span=(40, 50)) if 40 <= row[3] < 50] for file in files
        ]

    before = told()
    assert shared_now(storage).rows == 72
    assert told() == before


def test_what_a_shared_file_lacks_is_lent_in_the_columns_that_the_comparison_reads(storage: str) -> None:
    for broker in (1, 2):
        append(storage, broker, [*(record(n, content_hash=broker if n == 7 else 0) for n in range(40)), position(40)])
    append(storage, 2, [record(n, "u") for n in range(30)])
    append(storage, 1, [record(n, "u") for n in range(30)])
    compact(storage, RC)
    shared_now(storage)
    log = TableLog(storage, RC)
    ((path, broker),) = shared_files(storage, RC)[1]
    rows = pa.Table.from_batches(lent(log.files, DataFile(path, 0, broker), 1, lambda topic, _: topic == "t", 0))
    of_t = rows.filter(pc.field("topic") == "t")
    assert of_t["offset"].to_pylist() == [n for n in range(40) if n != 7]
    assert (set(rows["broker"].to_pylist()), set(rows["view"].to_pylist())) == ({2}, {1})
    assert rows.schema.names == list(VIEW_COLUMNS)
    types = {name: rows.schema.field(name).type for name in VIEW_COLUMNS}
    known = {field.name: field.type for field in (*VIEW, *POSITION)}
    known |= {"view": pa.int32(), "broker": pa.int32(), "timestamp": pa.int64()}
    assert types == {name: known[name] for name in VIEW_COLUMNS}


_PHYSICAL = {
    "alerting/webhook/record.py": "messages",
    "audit/frames.py": "with the rows that are lent",
    "audit/ledger.py": "audits",
    "audit/recorded.py": "position rows, progress",
    "audit/untold.py": "late replicas",
    "findings/history.py": "position rows",
    "findings/table.py": "findings",
    "findings/upkeep.py": "suspects",
    "guard/late.py": "late replicas",
    "lab/watched.py": "position rows",
    "views/event_log.py": "event logs",
    "views/positions.py": "position rows",
    "views/shared.py": "what all others read by",
}


def test_no_other_module_reads_a_table_as_it_lies_in_its_files() -> None:
    code = Path(shared.__file__).parents[1]
    read = re.compile(r"to_pyarrow_(dataset|table)|format\(.delta|QueryBuilder\(\)\.register\(.(?!progress)")
    found = {str(one.relative_to(code)) for one in code.rglob("*.py") if read.search(one.read_text())}
    assert found == set(_PHYSICAL), "read rows of a view by parallax.views.shared; else say here what is read"


def test_a_lender_that_is_gone_or_shorter_is_an_error_and_no_missing_row(storage: str) -> None:
    for broker in (1, 2):
        append(storage, broker, list(map(record, range(50))))
    shared_now(storage)
    (path,) = Path(storage).rglob(f"{RC}/broker=1/**/*.parquet")
    pq.write_table(pq.read_table(path).slice(0, 20), path)
    with pytest.raises(LenderError, match="fewer rows than it lends"):
        everything(storage, pc.field("broker") == 2)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        everything(storage, pc.field("broker") == 2)


def footer(raw: bytes) -> bytes:
    return base64.b64encode(zlib.compress(raw))


def test_a_footer_of_a_later_version_or_garbled_is_an_error() -> None:
    runs = np.array([(0, 0, 5, 3), (2, 0, 8, 4), (2, 1, 1, 1)], RUN)
    told = {key.encode(): value.encode() for key, value in Shared(("a", "b"), runs).told().items()}
    found = shared_of(told)
    assert found is not None
    assert (found.lenders, found.runs.tolist()) == (("a", "b"), runs.tolist())
    assert shared_of({b"other": b""}) is None
    with pytest.raises(LenderError, match="of another version"):
        shared_of({b"parallax.shared": footer(b'{"format": 2}\n')})
    whole = told[b"parallax.shared"]
    raw = zlib.decompress(base64.b64decode(whole))
    head = b'{"format": 1, "lenders": ["a"], "runs": %d}\n'
    texts = [b"AAAA", b"abc", whole[:-5], whole[:-8]]
    texts += map(footer, (b"", b"{", b"[1]\n", b"1\n", b"\xff\xfe\n", b'{"format": 1}\n', raw[:-1], raw + b"1"))
    texts += [footer(head % 5 + b"abc"), footer(head % -5 + b"abc"), footer(raw.replace(b'"runs": 3', b'"runs": 3.0'))]
    texts += [footer(raw.replace(b'["a", "b"]', other)) for other in (b'["a"]', b"7", b"[1, 2]")]
    for text in texts:
        with pytest.raises(LenderError, match="garbled"):
            shared_of({b"parallax.shared": text})


def test_a_file_that_only_its_name_calls_shared_is_an_error(storage: str) -> None:
    append(storage, 1, [record(1)])
    (path,) = Path(storage).rglob(f"{RC}/broker=1/**/*.parquet")
    with pytest.raises(LenderError, match="does not say"):
        WholeFile(TableLog(storage, RC).files, str(path.relative_to(uri(storage))))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), brokers=st.integers(1, 4), steps=st.integers(1, 25))
def test_whenever_rows_are_shared_every_reader_gets_what_was_recorded(
    tmp_path_factory: pytest.TempPathFactory, seed: int, brokers: int, steps: int
) -> None:
    draw, storage = random.Random(seed), str(tmp_path_factory.mktemp("s"))
    create_tables(storage)
    want: dict[str, list[dict[str, Any]]] = {RU: [], RC: []}
    at = dict.fromkeys(((b, t, p) for b in range(1, brokers + 1) for t in "tu" for p in (0, 1)), 0)
    day = 1
    for _ in range(steps):
        match draw.choice(("append", "append", "append", "compact", "share", "day")):
            case "append":
                broker, rows = draw.randint(1, brokers), []
                for topic in "tu":
                    start = at[broker, topic, 0]
                    end = start + draw.choice((0, 1, 5, 40))
                    step = draw.choice((1, 1, 3))
                    rows += [
                        record(n, topic, content_hash=draw.choice((0,) * 30 + (broker,)), outcome=3 * (n % 7 < 3))
                        for n in range(start, end, step)
                    ]
                    # A log that was truncated is read again from a lower offset.
                    at[broker, topic, 0] = end if draw.random() < 0.9 else draw.randint(0, end)
                rows += [position(at[broker, topic, 0], topic) for topic in "tu"]
                # One level may be a micro-batch behind the other, and its rows of the next date.
                for view, on in ((RU, day), (RC, day + (draw.random() < 0.1))):
                    its = [
                        {**one, "outcome": 1 if view == RC else 3} if one["outcome"] else one
                        for one in rows
                        if view == RU or not (one["outcome"] and one["offset"] % 3 == 0)
                    ]
                    append(storage, broker, its, date(2026, 1, on), view)
                    made = pa.Table.from_pylist([{**one, "broker": broker} for one in its], schema=VIEW)
                    want[view] += made.to_pylist()
            case "compact":
                compact(storage, draw.choice((RU, RC)))
            case "share":
                for view in draw.choice(((RU, RC), (RU,), (RC,))):
                    share(storage, view, lambda topic: topic == "t" or draw.random() < 0.5, date(2026, 1, day), set())
            case "day":
                day += 1
    for view in (RU, RC):
        share(storage, view, all_topics, date(2026, 1, day + 2), set())
        found = everything(storage, view=view)
        assert [row for b in range(brokers + 1) for row in found if row["broker"] == b] == [
            row for b in range(brokers + 1) for row in want[view] if row["broker"] == b
        ]
        names = ("broker", "topic", "kind", "offset", "content_hash", "outcome")
        of_comparison = [(row[1], row[0].topic, *row[2:5], row[6]) for *_, row in compared(storage, view)]
        assert sorted(of_comparison) == sorted(tuple(one[name] for name in names) for one in want[view])
