from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from parallax.source import schema
from parallax.views.maintenance import oldest_kept
from parallax.views.tables import PROGRESS, RECORDED_ON, create_tables, table_path

DAY = pa.field(RECORDED_ON, pa.date32())


def test_a_table_of_an_earlier_version_gets_the_columns_that_it_lacks(tmp_path: Path) -> None:
    storage = str(tmp_path)
    then = schema.PROGRESS.remove(schema.PROGRESS.get_field_index("delete_retention_ms"))
    row = pa.Table.from_pylist([{"topic": "t", "partition": 0, RECORDED_ON: date(2026, 1, 1)}], then.append(DAY))
    write_deltalake(table_path(storage, PROGRESS), row, partition_by=[RECORDED_ON])
    for _ in range(2):
        create_tables(storage)
        table = DeltaTable(table_path(storage, PROGRESS))
        assert table.to_pyarrow_table().select(["topic", "delete_retention_ms"]).to_pylist() == [
            {"topic": "t", "delete_retention_ms": None}
        ]
    assert table.version() == 1, "what is there already is not added again"


def test_tables_lie_below_the_storage_path() -> None:
    assert table_path("s3://bucket/parallax/", "read_committed") == "s3a://bucket/parallax/read_committed"


@pytest.mark.parametrize(
    ("hours", "oldest"), [(168, date(2026, 1, 8)), (24, date(2026, 1, 14)), (1, date(2026, 1, 14))]
)
def test_retention_keeps_at_least_as_long_as_it_says(hours: float, oldest: date) -> None:
    assert oldest_kept(date(2026, 1, 15), hours) == oldest
