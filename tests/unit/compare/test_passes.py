"""A task compares the stretches of a micro-batch together or one by one, and finds the same as small micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parallax.compare import feed, passes
from parallax.compare.feed import Share
from parallax.compare.segments import BUCKETS, bucket_of
from parallax.compare.tables import create_suspects
from parallax.views import parquet
from parallax.views.tables import create_tables
from tests.unit.compare.feeding import READERS, WHOLE, Comparison, record_as_the_job_does
from tests.unit.compare.history import Row, everywhere, record, shown, tick

EACH, COMMITS = 3_000, 6
"""Offsets of a commit, and how many commits there are."""
ROWS = EACH * len(READERS)
"""Rows of a commit."""

Change = Callable[[int, int, Row], Row]
"""Of view, broker and row: what the replica shows instead."""


def as_it_is(_view: int, _broker: int, row: Row) -> Row:
    return row


def lacking_on_two(_view: int, broker: int, row: Row) -> Row:
    """Broker 2 shows other values from the second commit on, one in a hundred."""
    return {**row, "content_hash": 77} if broker == 2 and row["offset"] > EACH and row["offset"] % 100 == 0 else row


def recorded(storage: Path, change: Change, commits: range = range(COMMITS), cleaned: bool = False) -> Path:
    """Write the tables as a job does; the cleaner has removed every fifth record of all replicas, or none."""
    if commits.start == 0:
        create_tables(str(storage))
        create_suspects(str(storage))
    for n in commits:
        start, end = n * EACH, (n + 1) * EACH
        rows = list(tick(n + 1, everywhere(end)))
        for view, broker in READERS:
            log = [record(offset, f"K{offset % 7}", "V") for offset in range(start, end)]
            log = [row for row in log if not cleaned or row["offset"] % 5 != 1]
            rows += shown(view, broker, [change(view, broker, row) for row in log], end, n)
        rows = [row if "observed_at" in row else {**WHOLE, **row} for row in rows]
        record_as_the_job_does(storage, n, *rows, starts=dict.fromkeys(READERS, start))
    return storage


@pytest.fixture
def stretches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A stretch has the rows of one commit; returns how many stretches each pass has taken, as they are made."""
    monkeypatch.setattr(parquet, "APART_ROWS", 100)
    monkeypatch.setattr(feed, "STRETCH", ROWS + 100)
    monkeypatch.setattr(passes, "STRETCH", ROWS + 100)
    taken: list[int] = []
    stepped, seen = passes.step_buckets, passes._Task._seen
    asked: list[int] = []

    def counted(task: Any, these: Any, *given: Any) -> Any:
        asked.append(len(these))
        return seen(task, these, *given)

    def noted(*given: Any) -> Any:
        taken.append(asked[-1])
        return stepped(*given)

    monkeypatch.setattr(passes._Task, "_seen", counted)
    monkeypatch.setattr(passes, "step_buckets", noted)
    return taken


def found_by(comparison: Comparison) -> tuple[Any, Any]:
    """All suspects, and the last coverage of each partition, without what depends on the clock of the test."""
    suspects = [replace(one, raised_at=0) for some, _ in comparison.told for one in some]
    last = {c.topic: replace(c, state_bytes=0, compared_at=0) for _, coverages in comparison.told for c in coverages}
    return suspects, last


def one_by_one(storage: Path) -> Comparison:
    """The same tables compared by a micro-batch for each commit."""
    comparison = Comparison(storage, max_rows_per_trigger=ROWS + 100)
    for _ in range(COMMITS):
        comparison.step()
    return comparison


@pytest.mark.parametrize("cleaned", [False, True], ids=["every offset shown", "cleaned"])
@pytest.mark.parametrize("change", [as_it_is, lacking_on_two])
def test_many_stretches_in_a_micro_batch_find_what_as_many_micro_batches_find(
    tmp_path: Path, stretches: list[int], change: Change, cleaned: bool
) -> None:
    comparison = Comparison(recorded(tmp_path / "once", change, cleaned=cleaned))
    comparison.step()
    assert sum(stretches) == COMMITS
    assert found_by(comparison) == found_by(one_by_one(recorded(tmp_path / "each", change, cleaned=cleaned)))
    assert bool(found_by(comparison)[0]) == (change is lacking_on_two)


@pytest.mark.parametrize(("cleaned", "taken"), [(False, [COMMITS]), (True, [1, COMMITS - 1])])
def test_a_new_partition_is_compared_in_one_pass_only_if_every_offset_is_shown(
    tmp_path: Path, stretches: list[int], cleaned: bool, taken: list[int]
) -> None:
    comparison = Comparison(recorded(tmp_path, as_it_is, cleaned=cleaned))
    comparison.step()
    assert stretches == taken
    assert comparison.compared_up_to == {"t": (COMMITS * EACH, COMMITS * EACH)}


def test_a_partition_that_is_known_is_compared_in_one_pass(tmp_path: Path, stretches: list[int]) -> None:
    comparison = Comparison(recorded(tmp_path, as_it_is, range(1)))
    comparison.step()
    recorded(tmp_path, as_it_is, range(1, COMMITS))
    comparison.step()
    assert stretches == [1, COMMITS - 1]


def test_no_pass_takes_more_than_a_stretch_where_all_rows_have_to_be_read(tmp_path: Path, stretches: list[int]) -> None:
    comparison = Comparison(recorded(tmp_path, lacking_on_two))
    comparison.step()
    assert stretches == [1] * COMMITS


@pytest.mark.parametrize(("commits", "tries"), [(1, 0), (2, 1), (COMMITS, 2)])
def test_a_task_tries_twice_at_most_to_compare_several_stretches_in_one_pass(
    tmp_path: Path, stretches: list[int], monkeypatch: pytest.MonkeyPatch, commits: int, tries: int
) -> None:
    tried: list[int] = []
    monkeypatch.setattr(passes._Task, "_together", lambda *_: tried.append(1))
    comparison = Comparison(recorded(tmp_path, as_it_is, range(commits)))
    comparison.step()
    assert (len(tried), stretches) == (tries, [1] * commits)
    assert comparison.compared_up_to == {"t": (commits * EACH, commits * EACH)}


@pytest.mark.parametrize(("less", "taken"), [(0, [COMMITS]), (1, [1, COMMITS - 1])])
def test_one_pass_takes_all_stretches_if_it_has_room_for_the_rows_that_are_read(
    tmp_path: Path, stretches: list[int], monkeypatch: pytest.MonkeyPatch, less: int, taken: list[int]
) -> None:
    """Broker 2 shows a record of the last commit otherwise: all rows of this commit are read, and all position rows."""
    monkeypatch.setattr(passes, "STRETCH", ROWS + len(READERS) * COMMITS - less)

    def change(_view: int, broker: int, row: Row) -> Row:
        return {**row, "content_hash": 77} if broker == 2 and row["offset"] == (COMMITS - 1) * EACH + 1 else row

    comparison = Comparison(recorded(tmp_path, change))
    comparison.step()
    assert stretches == taken
    assert comparison.suspects() == [("content_mismatch", -1)]


def test_what_a_killed_task_has_left_is_no_part_of_what_its_next_attempt_finds(
    tmp_path: Path, stretches: list[int]
) -> None:
    comparison = Comparison(recorded(tmp_path, lacking_on_two))
    first = [batch.to_pylist() for batch in comparison.tasks()]
    again = [batch.to_pylist() for batch in Comparison(tmp_path).tasks()]
    assert [[row["bucket"] for row in rows] for rows in first] == [[row["bucket"] for row in rows] for rows in again]
    assert {row["segment"] for rows in first for row in rows} == {row["segment"] for rows in again for row in rows}


def test_a_task_of_whose_partitions_nothing_was_observed_says_between_which_offsets_that_was(tmp_path: Path) -> None:
    comparison = Comparison(recorded(tmp_path, as_it_is, range(1)))
    reader = comparison.reader()
    end = reader.latestOffset(comparison.offset, None)  # type: ignore[arg-type]
    (share, *_) = reader.partitions(comparison.offset, end)
    assert isinstance(share, Share)
    nobody = Share(share.work, frozenset(range(BUCKETS)) - {bucket_of("t", 0, BUCKETS)})
    (row,) = (row for batch in reader.read(nobody) for row in batch.to_pylist())
    assert (row["bucket"], row["segment"], row["files"], row["results"]) == (-1, "", [], [])
    assert (row["since"], row["until"]) == (share.work.since, share.work.until)
