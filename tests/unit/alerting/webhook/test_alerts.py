"""What an alert says of itself once it is over."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parallax.alerting.conditions import CONDITIONS, Suffered
from parallax.alerting.webhook.alerts import Places, of_condition, over
from parallax.shell import Shell

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
    places = Places(shell=Shell(config="/etc/my parallax.yaml"))
    stands = of_condition(Suffered(name, LABELS, NOW), None, places)
    ended = over(stands, NOW, places)
    for alert in (stands, ended):
        assert alert.annotations["summary"]
        assert not {"{", "}"} & set(alert.annotations["summary"] + alert.annotations["description"])
    is_open = name.startswith(("ParallaxReplica", "ParallaxBroker"))
    assert (ended.annotations["description"] == "It is over.") is not is_open


def test_a_broker_that_was_back_too_late_is_told_of_until_it_is_audited_with_the_command_for_that() -> None:
    audit = "What it may have missed is not known until an audit: parallax audit -c '/etc/my parallax.yaml'"
    places = Places(shell=Shell(config="/etc/my parallax.yaml"))
    late = of_condition(Suffered("ParallaxReplicaLate", {"broker_id": "2"}, NOW), None, places)
    assert late.annotations["description"].endswith(audit)
    passed = of_condition(Suffered("ParallaxReplicaRemovalPassed", {"broker_id": "2"}, NOW), None, places)
    assert over(passed, NOW, places).annotations["description"].endswith(audit)
