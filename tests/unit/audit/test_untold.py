"""What an audit of the tables says of what it cannot tell."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from parallax.audit.untold import LATE_REPLICAS, late_replicas, reasons
from parallax.compare.suspect import UnreadRange
from parallax.guard.late import LATE
from parallax.model import TopicPartition, UnknownReason
from parallax.views.tables import rust_uri

GAP, BEFORE = UnknownReason.RETENTION_GAP, UnknownReason.BEFORE_FIRST_READING


def test_nothing_is_left_open_where_all_was_read_in_time() -> None:
    assert reasons((), ()) == ()


def test_offsets_are_counted_once_though_both_views_lack_them() -> None:
    spans = [UnreadRange(view, start, start + 5, GAP, 0) for view in (0, 1) for start in (3, 20)]
    (gap, before) = reasons([*spans, UnreadRange(1, 0, 2, BEFORE, 0)], ())
    assert gap.startswith("10 offsets, from 3 on, were read later than delete.retention.ms")
    assert before.startswith("2 offsets, from 0 on, lay there before the first reading")


def test_a_replica_that_is_late_is_named() -> None:
    (reason,) = reasons((), [2])
    assert reason.startswith("broker 2 was away for longer than what it lacked was kept")


def test_late_replicas_are_those_that_the_guard_has_put_on_record(tmp_path: Path) -> None:
    assert LATE_REPLICAS == LATE
    assert late_replicas(str(tmp_path)) == {}
    rows = [{"topic": "t", "partition": 1, "broker": b} for b in (2, 3)]
    write_deltalake(rust_uri(str(tmp_path), LATE), pa.Table.from_pylist(rows))
    assert late_replicas(str(tmp_path)) == {TopicPartition("t", 1): [2, 3]}


def test_a_table_of_late_replicas_that_cannot_be_read_leaves_it_unknown_who_is_late(tmp_path: Path) -> None:
    uri = rust_uri(str(tmp_path), LATE)
    write_deltalake(uri, pa.table({"topic": ["t"], "partition": [1], "broker": [2]}))
    for file in (tmp_path / LATE).glob("*.parquet"):
        file.write_bytes(b"no Parquet")
    assert late_replicas(str(tmp_path)) is None
    (reason,) = reasons((), None)
    assert reason.startswith("which replicas were away for too long cannot be read")
