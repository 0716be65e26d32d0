"""How a partition is gone, by the metadata of its topic."""

from __future__ import annotations

import pytest

from parallax.replica.errors import ReplicaError, UnknownTopic
from parallax.replica.types import HowGone, PartitionMetadata, TopicMetadata

THERE = {0: PartitionMetadata(1, 0, (1,), (1,))}


@pytest.mark.parametrize(
    ("found", "gone"),
    [
        (TopicMetadata("orders", "A", THERE), None),
        (TopicMetadata("orders", "B", THERE), HowGone.RECREATED),
        (TopicMetadata("orders", "", THERE), None),
        (TopicMetadata("orders", "A", {}), HowGone.PARTITION),
        (TopicMetadata("orders", "", {}, UnknownTopic("no such topic")), HowGone.TOPIC),
        (TopicMetadata("orders", "", {}, ReplicaError("not authorized")), None),
    ],
)
def test_a_partition_is_gone_only_where_a_broker_says_so(found: TopicMetadata, gone: HowGone | None) -> None:
    assert found.gone(0, "A") is gone
