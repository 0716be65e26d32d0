from __future__ import annotations

from pathlib import Path

import pytest

from parallax.config import ReadSettings, Settings
from parallax.model import IsolationLevel
from parallax.source.options import replica_options
from parallax.views.queries import groups, limits, source_options, view_queries
from tests.builders.settings import settings_of


def settings(path: object = "unused", grouping: str = "isolation", **topics: object) -> Settings:
    return settings_of(str(path), topics={"include": ["orders"], **topics}, read={"grouping": grouping})


@pytest.mark.parametrize(
    ("grouping", "names"),
    [
        ("all", ["views"]),
        ("isolation", ["read_uncommitted", "read_committed"]),
        ("broker", ["views-broker-1", "views-broker-2"]),
        (
            "reader",
            [f"{level}-broker-{broker}" for level in ("read_uncommitted", "read_committed") for broker in (1, 2)],
        ),
    ],
)
def test_grouping_says_which_readers_share_a_query(tmp_path: Path, grouping: str, names: list[str]) -> None:
    specs = view_queries(settings(tmp_path, grouping), brokers=[2, 1])
    assert [spec.name for spec in specs] == [*names, "progress"]


@pytest.mark.parametrize("grouping", ["all", "isolation", "broker", "reader"])
def test_every_reader_is_in_exactly_one_query(grouping: str) -> None:
    readers = [
        (isolation, broker)
        for group in groups(settings(grouping=grouping), brokers=[1, 2, 3])
        for isolation in group.isolations
        for broker in group.brokers or (1, 2, 3)
    ]
    assert sorted(readers) == sorted((i, b) for i in IsolationLevel for b in (1, 2, 3))


def test_a_query_per_broker_needs_to_know_the_brokers() -> None:
    with pytest.raises(ValueError, match=r"set topics\.brokers"):
        groups(settings(grouping="broker"))
    assert len(groups(settings(grouping="broker", brokers=[4, 5]))) == 2


@pytest.mark.parametrize(
    ("grouping", "rate"), [("all", 1000_000), ("isolation", 500_000), ("broker", 1000_000), ("reader", 500_000)]
)
def test_a_limit_holds_for_all_that_is_read_from_a_broker(grouping: str, rate: int) -> None:
    read = ReadSettings(max_bytes_per_second=1000_000)
    for group in groups(settings(grouping=grouping), brokers=[1, 2]):
        options = limits(read, group)
        assert options == {"maxBytesPerSecond": str(rate), "maxBytesPerTrigger": str(10 * rate)}
        assert replica_options(source_options(settings()) | options).max_bytes_per_second == rate


def test_without_a_limit_a_task_may_read_as_fast_as_it_can() -> None:
    (group,) = groups(settings(grouping="all"))
    options = replica_options(source_options(settings()) | limits(ReadSettings(), group))
    assert (options.max_bytes_per_second, options.max_bytes) == (None, 64 << 20)


def test_a_limit_below_a_batch_of_records_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 65536"):
        ReadSettings(max_bytes_per_second=1000)


def test_settings_become_options_that_the_source_knows() -> None:
    options = replica_options(source_options(settings(pattern="ledger.*", brokers=[1, 2])))
    assert options.topics == ("orders",)
    assert options.pattern == "ledger.*"
    assert options.brokers == (1, 2)
    assert options.timeout_ms == 3000


@pytest.mark.parametrize("query", ["views", "progress"])
def test_a_checkpoint_that_never_comes_to_a_micro_batch_is_set_aside(tmp_path: Path, query: str) -> None:
    (spec,) = (one for one in view_queries(settings(tmp_path, "all")) if one.name == query)
    folder = tmp_path / "checkpoints" / query
    folder.mkdir(parents=True)
    (folder / "metadata").touch()
    assert spec.checkpoint.mend(4, "No content to map") is None
    said = spec.checkpoint.mend(5, "No content to map")
    assert said is not None
    assert f"kept as {query}.broken-1" in said
