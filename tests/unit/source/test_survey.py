from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from parallax.moments import FOREVER_MS
from parallax.replica.errors import Unauthorized
from parallax.replica.types import TopicMetadata
from parallax.source.options import progress_options
from parallax.source.survey import Catalog, density
from tests.unit.source.headers import batch


def measured(records: bytes, start: int) -> tuple[float, float]:
    found = density(memoryview(records), start)
    assert found is not None
    return found.size, found.records


def test_density_is_bytes_over_offsets() -> None:
    records = batch(100, 109, 500, 10) + batch(110, 119, 300, 10)
    assert measured(records, 100) == pytest.approx((40.0, 1.0))


def test_holes_of_compaction_count_as_offsets() -> None:
    assert measured(batch(100, 1099, 1000, 5), 100) == pytest.approx((1.0, 0.005))


def test_a_truncated_batch_counts_by_its_header() -> None:
    assert measured(batch(0, 9, 500, 10)[:100], 0) == pytest.approx((50.0, 1.0))


@pytest.mark.parametrize("records", [b"", b"\0" * 20, b"\0" * 61])
def test_nothing_to_measure_gives_none(records: bytes) -> None:
    assert density(memoryview(records), 5) is None


class OneTopic:
    """A cluster with one topic, whose settings may be read or not."""

    def __init__(self, configs: Mapping[str, str] | Exception) -> None:
        self._configs = configs
        self.asked: list[str] = []

    def metadata(self, _topics: Sequence[str] | None = None) -> dict[str, TopicMetadata]:
        return {"orders": TopicMetadata("orders", "id", {})}

    def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
        self.asked = list(names)
        return dict.fromkeys(topics, self._configs)


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"cleanup.policy": "compact", "delete.retention.ms": "5000"}, ("compact", 5000)),
        ({"cleanup.policy": "compact"}, ("compact", None)),
        ({"delete.retention.ms": "no number"}, (None, None)),
        ({"delete.retention.ms": str(2**63 - 1)}, (None, FOREVER_MS)),
        (Unauthorized("DESCRIBE_CONFIGS is missing", topic="orders"), (None, None)),
    ],
)
def test_the_settings_that_decide_what_compaction_takes_come_with_the_topics(
    configs: Mapping[str, str] | Exception, expected: tuple[str | None, int | None]
) -> None:
    cluster = OneTopic(configs)
    options = progress_options({"kafka.bootstrap.servers": "localhost:1", "topics": "orders"})
    topic = Catalog(cast("Any", cluster), options, policies=True).topics()["orders"]
    assert (topic.cleanup_policy, topic.delete_retention_ms) == expected
    assert cluster.asked == ["cleanup.policy", "delete.retention.ms"]
