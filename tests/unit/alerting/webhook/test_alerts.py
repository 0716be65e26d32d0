"""What an alert says of itself once it is over."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parallax.alerting.conditions import CONDITIONS, Suffered
from parallax.alerting.webhook.alerts import Places, of_condition, over

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LABELS = {
    "broker_id": "2",
    "topic": "orders",
    "partition": "0",
    "query": "compare",
    "isolation_level": "read_committed",
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_what_a_job_suffered_says_in_words_that_it_is_over_and_what_that_leaves_open(name: str) -> None:
    ended = over(of_condition(Suffered(name, LABELS, NOW), None, Places()), NOW, Places())
    assert ended.annotations["summary"]
    assert not {"{", "}"} & set(ended.annotations["summary"] + ended.annotations["description"])
    is_back = name == "ParallaxReplicaRemovalPassed"
    assert ("Only an audit" in ended.annotations["description"]) is is_back
    assert (ended.annotations["description"] == "It is over.") is not is_back
