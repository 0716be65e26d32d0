"""Which row groups a micro-batch need not read."""

from __future__ import annotations

import pytest

from parallax.compare.footers import Footer, Span
from parallax.model import TopicPartition

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
