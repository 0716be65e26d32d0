"""Where the comparison stands in the tables' logs, and what a micro-batch takes."""

from __future__ import annotations

import pytest

from parallax.compare.following import SHARE, Follower, Part, TablePoint, admit, runs, tasks_for
from parallax.views.commits import Appended, DataFile, LogGoneError, OtherTableError
from parallax.views.tables import VIEWS


def file(rows: int, path: str = "f", broker: int | None = 1) -> DataFile:
    return DataFile(path, rows, broker)


class Log:
    """A log of commits at given times, of which the first may have been cleaned."""

    def __init__(self, *commits: tuple[int, int], cleaned: int = 0) -> None:
        self.commits = [Appended(v, at, (file(rows, f"v{v}"),) * bool(rows)) for v, (at, rows) in enumerate(commits)]
        self.cleaned = cleaned
        self.asked: list[int] = []
        self.marked: list[int] = []
        self.stood = 0

    def is_whole(self) -> bool:
        return self.cleaned == 0

    def appended(self, version: int) -> Appended | None:
        self.asked.append(version)
        if version < self.cleaned:
            raise LogGoneError(f"version {version}")
        return self.commits[version] if version < len(self.commits) else None

    def mark_of(self, version: int) -> str:
        self.marked.append(version)
        if version >= len(self.commits):
            raise OtherTableError("t", version)
        return self.commits[version].mark

    def standing(self, version: int | None = None) -> tuple[int, list[Appended]]:
        self.stood += 1
        at = len(self.commits) - 1 if version is None else version
        return at, [Appended(at, c.at_ms, c.files) for c in self.commits[: at + 1] if c.files]


def places(follower: Follower, start: TablePoint) -> list[tuple[TablePoint, int]]:
    return [(part.place, part.rows) for part in follower.appended(start)]


def test_a_table_with_its_whole_log_is_followed_commit_by_commit() -> None:
    log = Log((0, 0), (10, 5), (20, 7))
    follower = Follower("t", log)
    assert follower.beginning() == TablePoint(-1)
    assert places(follower, TablePoint(-1)) == [(TablePoint(0), 0), (TablePoint(1), 5), (TablePoint(2), 7)]
    assert places(follower, TablePoint(1)) == [(TablePoint(2), 7)]
    assert places(follower, TablePoint(2)) == []


def test_a_table_whose_log_was_shortened_is_followed_from_the_files_that_it_holds() -> None:
    log = Log((0, 0), (10, 5), (20, 7), cleaned=2)
    follower = Follower("t", log)
    start = follower.beginning()
    assert start == TablePoint(2, 0)
    log.commits.append(Appended(3, 30, (file(9),)))
    assert places(follower, start) == [(TablePoint(2, 1), 5), (TablePoint(2), 7), (TablePoint(3), 9)]
    assert places(Follower("t", log), TablePoint(2, 1)) == [(TablePoint(2), 7), (TablePoint(3), 9)]


def test_a_table_without_files_is_followed_from_its_version_on() -> None:
    log = Log((0, 0), (10, 0), cleaned=1)
    follower = Follower("t", log)
    assert follower.beginning() == TablePoint(1, 0)
    log.commits.append(Appended(2, 30, (file(9),)))
    assert places(follower, TablePoint(1, 0)) == [(TablePoint(2), 9)]


def test_a_commit_that_was_cleaned_before_it_was_taken_is_an_error() -> None:
    with pytest.raises(LogGoneError, match="version 1"):
        list(Follower("t", Log((0, 0), (10, 5), (20, 7), cleaned=2)).appended(TablePoint(0)))


def test_what_was_read_of_the_log_is_kept_until_it_is_done_with() -> None:
    log = Log((0, 0), (10, 5), (20, 7))
    follower = Follower("t", log)
    for _ in range(3):
        list(follower.appended(TablePoint(0)))
    assert log.asked == [1, 2, 3, 3, 3]
    follower.forget(TablePoint(1))
    list(follower.appended(TablePoint(0)))
    assert log.asked[5:] == [1, 3]


def test_a_table_as_it_stood_is_asked_for_once_until_it_has_been_read() -> None:
    log = Log((0, 0), (10, 5), (20, 7), cleaned=2)
    follower = Follower("t", log)
    start = follower.beginning()
    follower.forget(TablePoint(2, 1))
    assert places(follower, start) == [(TablePoint(2, 1), 5), (TablePoint(2), 7)]
    assert log.stood == 1
    follower.forget(TablePoint(2))
    assert places(follower, start) == [(TablePoint(2, 1), 5), (TablePoint(2), 7)]
    assert log.stood == 2, "it was let go of"


def test_a_table_is_read_as_it_stood_at_the_version_that_was_planned_for() -> None:
    log = Log((0, 0), (10, 5), (20, 7), cleaned=2)
    follower = Follower("t", log)
    start = follower.beginning()
    log.commits.append(Appended(3, 30, (file(9),)))
    assert follower.beginning() == TablePoint(3, 0), "as it stands now"
    assert places(follower, start) == [(TablePoint(2, 1), 5), (TablePoint(2), 7), (TablePoint(3), 9)]


def test_a_batch_that_is_run_again_holds_the_same() -> None:
    log = Log((0, 0), (10, 5), (20, 7), (30, 9))
    parts = list(Follower("t", log).between(TablePoint(0), TablePoint(2)))
    assert [part.place for part in parts] == [TablePoint(1), TablePoint(2)]
    assert list(Follower("t", log).between(TablePoint(2), TablePoint(2))) == []
    with pytest.raises(LookupError, match="version 5"):
        list(Follower("t", log).between(TablePoint(2), TablePoint(5)))


@pytest.mark.parametrize(
    "place", [TablePoint(7), TablePoint(-1), TablePoint(7, 0), TablePoint(7, 3), TablePoint(7, 3, "ab")]
)
def test_places_survive_the_offset_log(place: TablePoint) -> None:
    assert TablePoint.from_json(place.to_json()) == place


def parts(table: str, *of: tuple[int, int]) -> list[Part]:
    return [Part(table, TablePoint(v), at, (file(rows),) * bool(rows)) for v, (at, rows) in enumerate(of)]


def test_tables_are_taken_in_the_order_of_time_up_to_the_limit() -> None:
    left, right = parts("a", (10, 40), (30, 40)), parts("b", (20, 40), (40, 40))
    assert admit([iter(left), iter(right)], 100) == {"a": TablePoint(0), "b": TablePoint(0)}
    assert admit([iter(left), iter(right)], 120) == {"a": TablePoint(1), "b": TablePoint(0)}
    assert admit([iter(left), iter(right)], 10_000) == {"a": TablePoint(1), "b": TablePoint(1)}


def test_a_commit_beyond_the_limit_is_taken_alone() -> None:
    assert admit([iter(parts("a", (10, 500), (20, 1)))], 100) == {"a": TablePoint(0)}


def test_nothing_is_taken_beyond_a_commit_that_has_to_wait() -> None:
    assert admit([iter(parts("a", (10, 50), (20, 100), (30, 1)))], 100) == {"a": TablePoint(0)}


def test_a_backlog_is_cut_where_both_views_have_come_equally_far() -> None:
    first, second = VIEWS
    left, right = parts(first, (10, 30), (30, 30), (50, 30)), parts(second, (20, 30), (40, 30), (60, 30))
    assert admit([iter(left), iter(right)], 100) == {first: TablePoint(0), second: TablePoint(0)}
    assert admit([iter(left), iter(right)], 130) == {first: TablePoint(1), second: TablePoint(1)}
    far = parts(second, (100, 30))
    assert admit([iter(left), iter(far)], 70) == {first: TablePoint(1)}, "more than half would be left out"


def test_commits_without_rows_are_passed_over_with_the_next_that_has_some() -> None:
    assert admit([iter(parts("a", (10, 0), (20, 0)))], 100) == {}
    assert admit([iter(parts("a", (10, 0), (20, 5), (30, 0)))], 100) == {"a": TablePoint(2)}
    assert admit([iter([])], 100) == {}


def test_so_many_tasks_as_the_rows_are_worth() -> None:
    assert tasks_for(6 * SHARE, 2) == 2
    assert tasks_for(6 * SHARE, 9) == 6
    assert tasks_for(20, 4) == tasks_for(0, 4) == 1


def test_rows_that_lie_behind_each_other_in_a_file_are_read_together_in_each_brokers_order() -> None:
    given = [
        DataFile("a", 2, 1, 0),
        DataFile("b", 5, 2, 3),
        DataFile("a", 3, 1, 2),
        DataFile("c", 4, 1),
        DataFile("b", 1, 2, 8),
        DataFile("c", 4, 1),
        DataFile("a", 1, 1, 5),
        DataFile("b", 1, 2, 11),
    ]
    assert runs(given) == [
        DataFile("a", 5, 1, 0),
        DataFile("b", 6, 2, 3),
        DataFile("c", 4, 1),
        DataFile("c", 4, 1),
        DataFile("a", 1, 1, 5),
        DataFile("b", 1, 2, 11),
    ]


def marked(*marks: str) -> Log:
    log = Log()
    log.commits = [Appended(v, 10 * v, (file(1),), mark) for v, mark in enumerate(marks)]
    return log


def test_a_table_that_has_another_commit_where_it_was_left_is_an_error() -> None:
    for known, there in (("b", "c"), ("b", None)):
        log = marked("a", *([there] if there else []), *(["d"] if there else []))
        with pytest.raises(OtherTableError):
            list(Follower("t", log).appended(TablePoint(1, mark=known)))
    log = marked("a", "b", "c")
    log.cleaned = 1
    assert Follower("t", log).beginning() == TablePoint(2, 0, "c")
    with pytest.raises(OtherTableError):
        list(Follower("t", log).appended(TablePoint(2, 1, "x")))


@pytest.mark.parametrize("left", [TablePoint(1), TablePoint(1, mark="b"), TablePoint(-1)])
def test_a_place_of_an_earlier_version_names_no_commit_and_is_gone_on_from(left: TablePoint) -> None:
    assert [part.place for part in Follower("t", marked("a", "b", "c")).appended(left)][-1] == TablePoint(2, mark="c")


def test_who_has_cleaned_the_entry_at_which_a_table_was_left_is_believed() -> None:
    assert places(Follower("t", marked("a", "", "c")), TablePoint(1, mark="b")) == [(TablePoint(2, mark="c"), 1)]


def test_the_commit_at_which_a_table_was_left_is_looked_at_once() -> None:
    log = marked("a", "b", "c")
    follower = Follower("t", log)
    for place in (TablePoint(0, mark="a"), TablePoint(1, mark="b"), TablePoint(1, mark="b"), TablePoint(2, mark="c")):
        follower.forget(place)
        list(follower.appended(place))
    assert log.marked == [0]
