"""The comparison query over real Delta tables: what it raises, once, whatever stops it in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from parallax.compare.query import comparison_query
from parallax.compare.suspect import Coverage
from parallax.compare.tables import SUSPECTS
from parallax.config import CompareSettings, Settings
from parallax.model import Outcome
from parallax.views.tables import PROGRESS, VIEWS, create_tables, table_path
from tests.builders.settings import settings_of
from tests.unit.compare.history import RC, RU, Row, abort, commit, everywhere, record, shown, tick
from tests.unit.compare.tabled import tables_of

POISON, GOOD = record(0, "poison", "v", pid=9, outcome=Outcome.ABORTED), record(5, "good", "v", pid=9, outcome=1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_of(tmp_path, topics={"include": ["t"]}, compare={"trigger_ms": 0})


def append(settings: Settings, rows: list[Row]) -> None:
    """Record rows as the sinks do: one commit for each table."""
    for name, data in tables_of(rows):
        write_deltalake(table_path(settings.storage.path, name), data, mode="append")


def run(spark: Any, settings: Settings) -> list[Coverage]:
    """Let the query take in what the tables hold, then stop it."""
    covered: list[Coverage] = []
    query = comparison_query(settings, lambda _suspects, coverages: covered.extend(coverages)).start(spark)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return covered


def suspects(settings: Settings) -> list[tuple[str, int, int]]:
    rows = DeltaTable(table_path(settings.storage.path, SUSPECTS)).to_pyarrow_table().to_pylist()
    return sorted((r["kind"], r["broker"], r["transaction_start_offset"]) for r in rows)


DIVERGED = [("aborted_record_committed", 2, 0)]


def diverge(settings: Settings, then: Callable[[], object] = lambda: None) -> None:
    """Broker 2 misses the marker that aborted a record, and shows it as committed; something comes in between."""
    first = [r for b in (1, 2, 3) for r in shown(RU, b, [POISON], 1, 10)]
    away = [r for b in (1, 3) for r in (*shown(RU, b, [abort(1, 9)], 2, 20), *shown(RC, b, [POISON], 2, 20))]
    append(settings, [*tick(1000, everywhere(0), everywhere(1)), *first, *away])
    then()
    rest = [GOOD, commit(6, 9)]
    back = [r for b in (1, 3) for r in (*shown(RU, b, rest, 7, 30), *shown(RC, b, [GOOD], 7, 30))]
    wrong = {**POISON, "outcome": Outcome.COMMITTED}
    back += [*shown(RU, 2, rest, 7, 30), *shown(RC, 2, [wrong, GOOD], 7, 30)]
    append(settings, [*back, *tick(2000, everywhere(7))])


def test_a_divergence_is_raised_once_through_restarts(spark: Any, settings: Settings) -> None:
    create_tables(settings.storage.path)

    def restart() -> None:
        run(spark, settings)
        assert suspects(settings) == []

    diverge(settings, restart)
    covered = run(spark, settings)
    assert suspects(settings) == DIVERGED
    assert covered[-1].compared_up_to == (7, 7)
    append(settings, tick(3000, everywhere(7)))
    run(spark, settings)
    assert suspects(settings) == DIVERGED


def test_a_backlog_is_compared_part_by_part_with_the_same_outcome(spark: Any, settings: Settings) -> None:
    create_tables(settings.storage.path)
    diverge(settings)
    limited = settings.model_copy(update={"compare": CompareSettings(trigger_ms=0, max_rows_per_trigger=1)})
    covered = run(spark, limited)
    assert suspects(settings) == DIVERGED
    assert len(covered) == 6, "one micro-batch for each commit of the three tables"
    assert covered[-1].compared_up_to == (7, 7)


def test_tables_whose_logs_were_shortened_are_compared_from_the_files_that_they_hold(
    spark: Any, settings: Settings
) -> None:
    create_tables(settings.storage.path)
    diverge(settings)
    for name in (*VIEWS, PROGRESS):
        table = DeltaTable(table_path(settings.storage.path, name))
        table.create_checkpoint()
        for version in range(table.version()):
            Path(settings.storage.path, name, "_delta_log", f"{version:020d}.json").unlink()
    covered = run(spark, settings)
    assert suspects(settings) == DIVERGED
    append(settings, tick(3000, everywhere(7)))
    covered = run(spark, settings)
    assert [c.compared_up_to for c in covered] == [(7, 7)]
    assert suspects(settings) == DIVERGED
