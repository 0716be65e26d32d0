"""Tables that an earlier version wrote, read and gone on with by this one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs
import pytest
from deltalake import DeltaTable, write_deltalake

from parallax.compare.observations import Observations
from parallax.compare.recorded import observed
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.config import CompareSettings
from parallax.model import CONTENT_VERSION, IsolationLevel, ReadEvent, RowKind
from parallax.source.schema import VIEW
from parallax.views.commits import DataFile
from parallax.views.tables import RECORDED_ON, create_tables, table_path
from tests.unit.compare.states import left_behind

RU = IsolationLevel.READ_UNCOMMITTED.option
THEN = VIEW.remove(VIEW.get_field_index("content_version"))
DAY = pa.field(RECORDED_ON, pa.date32())


def rows(broker: int, contents: Sequence[int], version: int | None) -> pa.Table:
    """Records at the offsets from 0 on, and the position behind them, of one replica."""
    base = {name: 0 for name in VIEW.names if name not in ("payload", "position", "content_version")}
    base |= {"topic": "t", "broker": broker, "timestamp": datetime(2026, 1, 1, tzinfo=UTC), "producer_id": -1}
    made: list[dict[str, Any]] = [
        base | {"offset": offset, "content_hash": content, "key_hash_hi": offset, "content_version": version}
        for offset, content in enumerate(contents)
    ]
    end = len(contents)
    marks = {"high_watermark": end, "last_stable_offset": end, "log_start_offset": 0}
    position = marks | {"event": ReadEvent.OK.value, "detail": None, "topic_id": "id"}
    made.append(base | {"offset": end, "kind": int(RowKind.POSITION), "position": position})
    schema = THEN if version is None else VIEW
    table = pa.Table.from_pylist(made, schema=schema)
    return table.append_column(DAY, pa.array([date(2026, 1, 1)] * len(made), pa.date32()))


def compared(path: str) -> StepResult:
    """What the comparison makes of all files of the table."""
    seen = []
    actions = DeltaTable(path).get_add_actions(flatten=True)
    for name, broker in zip(actions["path"].to_pylist(), actions["partition.broker"].to_pylist(), strict=True):
        file = DataFile(f"{path}/{name}", 0, broker)
        seen += [part for one in observed(fs.LocalFileSystem(), RU, file, lambda *_: True) for part in one.each()]
    replicas = [{"broker": b, "observed_at": 1, "reachable": True, "replicas": [1, 2]} for b in (1, 2)]
    everything = Observations.concat([*seen, Observations.of("t", 0, replicas)])
    return step(PartitionState(), everything, CompareSettings(), 0)


@pytest.mark.parametrize("version", [None, CONTENT_VERSION])
def test_contents_are_compared_within_a_version_and_unknown_across(tmp_path: Path, version: int | None) -> None:
    path = table_path(str(tmp_path), RU)
    write_deltalake(path, rows(1, [10, 11, 12], None), partition_by=["broker", RECORDED_ON])
    create_tables(str(tmp_path))
    write_deltalake(path, rows(2, [10, 99, 12], version), mode="append", schema_mode="merge")
    result = compared(path)
    raised = [(suspect.kind, suspect.accusation.offset) for suspect in result.suspects]
    if version is None:
        assert raised == [("content_mismatch", 1)]
    else:
        assert raised == []
        assert left_behind(result.state) == [1, 0]


def test_rows_of_an_earlier_version_say_so_in_the_table(tmp_path: Path) -> None:
    path = table_path(str(tmp_path), RU)
    write_deltalake(path, rows(1, [10], None), partition_by=["broker", RECORDED_ON])
    create_tables(str(tmp_path))
    write_deltalake(path, rows(2, [10], CONTENT_VERSION), mode="append")
    table = DeltaTable(path).to_pyarrow_table()
    records = table.filter(pc.equal(table["kind"], 0)).sort_by("broker")
    assert records["content_version"].to_pylist() == [None, CONTENT_VERSION]
