"""Which rows a micro-batch need not read, and in which row groups of its files they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from parallax.compare import footers
from parallax.compare.footers import Footer, Looked, Span, Sparing, sparing
from parallax.model import TopicPartition
from parallax.replica.digests import BLOCK, COLUMNS, Digester, Digests
from parallax.views.blocks import RANGE, Blocks
from parallax.views.commits import DataFile
from tests.unit.compare.history import record

FIRST, SECOND, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("orders", 2)


def is_spared(spared: dict[TopicPartition, Span], low: TopicPartition, high: TopicPartition, offsets: Span) -> bool:
    return Footer(None, {FIRST: (0, 100), SECOND: (50, 150), OTHER: (0, 10)}, spared).is_spared(low, high, offsets)


@pytest.mark.parametrize(
    ("spared", "is_so"),
    [
        ({FIRST: (10, 90)}, True),
        ({FIRST: (20, 80)}, True),
        ({FIRST: (21, 90)}, False),
        ({FIRST: (10, 79)}, False),
        ({SECOND: (10, 90)}, False),
        ({}, False),
    ],
    ids=["more", "just these", "begins later", "ends earlier", "another partition", "none"],
)
def test_a_group_of_one_partition_is_spared_only_if_all_of_its_offsets_are(
    spared: dict[TopicPartition, Span], is_so: bool
) -> None:
    assert is_spared(spared, FIRST, FIRST, (20, 80)) is is_so


@pytest.mark.parametrize(
    ("spared", "is_so"),
    [
        ({FIRST: (0, 100), SECOND: (50, 150)}, True),
        ({FIRST: (0, 100), SECOND: (50, 149)}, False),
        ({FIRST: (0, 100)}, False),
        ({SECOND: (50, 150), OTHER: (0, 10)}, False),
    ],
    ids=["all", "one ends earlier", "one is missing", "another one instead"],
)
def test_a_group_of_several_partitions_is_spared_only_if_each_of_them_is(
    spared: dict[TopicPartition, Span], is_so: bool
) -> None:
    """Which of their offsets are in the group is not known, so that all of them in the file count."""
    assert is_spared(spared, FIRST, SECOND, (0, 150)) is is_so


VIEWS = ("read_uncommitted", "read_committed")
DIGESTER = Digester(bytes(16))
Held = Mapping[TopicPartition, Span]


class Files:
    """The files of a micro-batch, with the sums of their rows in the footers."""

    def __init__(self, folder: Path) -> None:
        self.files = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        self.given: list[tuple[str, DataFile]] = []
        self.opened = 0

    def add(
        self, view: str, broker: int | None, held: Held, *, told: bool = True, first: int | None = None, rows: int = 0
    ) -> str:
        """A file with a row at each offset of some partitions; its rows may be as many as are said."""
        name = f"{len(self.given)}.parquet"
        ends = [end - start for start, end in held.values()]
        its = [record(offset, f"K{offset}", "V") for start, end in held.values() for offset in range(start, end)]
        columns = {n: np.array([{**dict.fromkeys(COLUMNS, 0), **row}[n] for row in its], d) for n, d in COLUMNS.items()}
        digests = DIGESTER.add_up(np.cumsum([0, *ends]), np.arange(len(held), dtype=np.int32), columns)
        ranges = np.array([(n, *span, 0, 0, True) for n, span in enumerate(held.values())], RANGE)
        footer = Blocks(tuple(held), ("id",), ranges, digests).told() if told else {}
        with self.files.open_output_stream(name) as stream:
            pq.write_table(pa.table({"n": [1]}).replace_schema_metadata(footer), stream)
        self.given.append((view, DataFile(name, rows or len(its), broker, first)))
        return name

    def add_all(self, held: Held, **more: Any) -> list[str]:
        """The same of each reader of brokers 1 and 2."""
        return [self.add(view, broker, held, **more) for view in VIEWS for broker in (1, 2)]

    def sparing(self, *wanted: TopicPartition, looked: Looked | None = None) -> Sparing:
        return sparing(
            self.given,
            dict.fromkeys(VIEWS, self.files),
            lambda *place: place in wanted,
            {} if looked is None else looked,
        )


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(footers, "WORTH", 40)
    monkeypatch.setattr(footers, "WORTH_APART", 60)
    return Files(tmp_path)


def spans(found: Sparing) -> dict[TopicPartition, tuple[int, int, int]]:
    return {place: (one.start, one.end, one.rows) for place, one in found.alike.items()}


class TestSparing:
    """Which rows of a micro-batch's files need not be read."""

    def test_rows_with_equal_sums_are_spared_and_the_others_are_counted(self, made: Files) -> None:
        made.add_all({FIRST: (0, 20)})
        made.add_all({FIRST: (20, 30)})
        made.add("read_committed", 1, {FIRST: (30, 35)})
        found = made.sparing(FIRST)
        assert spans(found) == {FIRST: (0, 30, 120)}
        assert found.rows == 5

    def test_each_footer_has_the_offsets_of_its_file_and_those_that_are_spared(self, made: Files) -> None:
        first, *_ = made.add_all({FIRST: (0, 20), SECOND: (5, 20)})
        second, *_ = made.add_all({FIRST: (20, 30)})
        found = made.sparing(FIRST, SECOND)
        assert spans(found) == {FIRST: (0, 30, 120), SECOND: (5, 20, 60)}
        assert found.rows == 0
        assert found.footers["read_uncommitted", first].spans == {FIRST: (0, 20), SECOND: (5, 20)}
        assert found.footers["read_uncommitted", second].spans == {FIRST: (20, 30)}
        assert {tuple(one.spared.items()) for one in found.footers.values()} == {
            ((FIRST, (0, 30)), (SECOND, (5, 20))),
        }
        assert all(one.metadata.num_rows == 1 for one in found.footers.values())

    def test_a_file_of_two_ranges_of_a_partition_spans_both(self, made: Files) -> None:
        blocks = Blocks(
            (FIRST,), ("id",), np.array([(0, 20, 30, 0, 0, True), (0, 5, 25, 0, 0, True)], RANGE), Digests.none()
        )
        assert footers._spans(blocks, lambda *_: True) == {FIRST: (5, 30)}

    def test_rows_of_partitions_that_are_compared_elsewhere_are_neither_looked_at_nor_counted(
        self, made: Files
    ) -> None:
        made.add_all({OTHER: (0, 50), FIRST: (0, 20)})
        found = made.sparing(FIRST)
        assert spans(found) == {FIRST: (0, 20, 80)}
        assert found.rows == 0
        assert all(one.spans == {FIRST: (0, 20)} for one in found.footers.values())
        assert (made.sparing(SECOND).alike, made.sparing(SECOND).rows) == ({}, 0)

    def test_rows_that_upkeep_has_taken_out_of_files_make_no_fewer_rows_to_read(self, made: Files) -> None:
        made.add_all({FIRST: (0, 20)}, rows=15)
        made.add("read_committed", 1, {FIRST: (20, 25)})
        found = made.sparing(FIRST)
        assert spans(found) == {FIRST: (0, 20, 80)}
        assert found.rows == 5

    @pytest.mark.parametrize(("rows", "looked_at"), [(39, 0), (40, 1)])
    def test_files_with_few_rows_are_not_looked_at(self, made: Files, rows: int, looked_at: int) -> None:
        made.add("read_committed", 1, {FIRST: (0, 1)}, rows=rows)
        found = made.sparing(FIRST)
        assert (len(found.footers), found.rows) == (looked_at, rows)

    @pytest.mark.parametrize(("end", "is_spared"), [(9, False), (10, True)])
    def test_a_partition_with_few_rows_is_not_compared_by_sums(self, made: Files, end: int, is_spared: bool) -> None:
        made.add_all({FIRST: (0, end), SECOND: (0, 30)})
        found = made.sparing(FIRST, SECOND)
        assert (FIRST in found.alike) is is_spared
        assert SECOND in found.alike
        assert found.rows == (0 if is_spared else 4 * end)

    @pytest.mark.parametrize(("end", "is_spared"), [(BLOCK + 14, False), (BLOCK + 15, True)])
    def test_a_partition_needs_more_equal_rows_if_its_readers_begin_apart(
        self, made: Files, end: int, is_spared: bool
    ) -> None:
        readers = [(view, broker) for view in VIEWS for broker in (1, 2)]
        for n, (view, broker) in enumerate(readers):
            made.add(view, broker, {FIRST: (BLOCK - n, end)})
        assert spans(made.sparing(FIRST)) == ({FIRST: (BLOCK, end, 60)} if is_spared else {})

    def test_a_partition_of_which_few_rows_have_equal_sums_is_not(self, made: Files) -> None:
        made.add_all({FIRST: (0, 9)})
        made.add("read_committed", 1, {FIRST: (9, 20)})
        assert spans(made.sparing(FIRST)) == {}

    @pytest.mark.parametrize("more", [{"told": False}, {"first": 0}], ids=["without sums", "part of a joined file"])
    def test_rows_of_a_file_without_sums_are_read(self, made: Files, more: Any) -> None:
        made.add_all({FIRST: (0, 20)})
        name = made.add("read_committed", 1, {SECOND: (0, 30)}, **more)
        found = made.sparing(FIRST, SECOND)
        assert spans(found) == {FIRST: (0, 20, 80)}
        assert found.rows == 30
        footer = found.footers.get(("read_committed", name))
        assert (footer and (footer.spared, footer.spans)) == (({}, {}) if "told" in more else None)

    def test_where_no_sums_are_equal_footers_say_nothing_of_offsets(self, made: Files) -> None:
        made.add("read_committed", 1, {FIRST: (0, 50)})
        (footer,) = made.sparing(FIRST).footers.values()
        assert (footer.spans, footer.spared) == ({}, {})

    def test_files_of_other_tables_are_ignored(self, made: Files) -> None:
        made.add_all({FIRST: (0, 20)})
        made.given.append(("replica_progress", DataFile("nowhere.parquet", 1000, None)))
        assert made.sparing(FIRST).rows == 0

    def test_a_file_of_no_broker_is_of_no_reader(self, made: Files) -> None:
        made.add_all({FIRST: (0, 20)})
        made.add("read_committed", None, {FIRST: (0, 30)})
        found = made.sparing(FIRST)
        assert (spans(found), found.rows) == ({FIRST: (0, 20, 80)}, 30)

    def test_no_footer_is_read_twice(self, made: Files) -> None:
        names = made.add_all({FIRST: (0, 20)})
        looked: Looked = {}
        before = made.sparing(FIRST, looked=looked)
        for name in names:
            made.files.delete_file(name)
        assert made.sparing(FIRST, looked=looked).alike.keys() == before.alike.keys() == {FIRST}
        assert len(looked) == len(names)
