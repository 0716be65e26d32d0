"""Each scenario on real brokers: what it says stands there was read from each replica."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS, ScenarioResult
from parallax.lab.scenarios.conductor import OutageKind
from parallax.lab.traffic import ProducerKind
from parallax.model import FindingKind

ALL = [
    FindingKind.DELETED_RECORD_RESURRECTED,
    FindingKind.ABORTED_RECORD_COMMITTED,
    FindingKind.COMMITTED_RECORD_ABORTED,
    FindingKind.COMMITTED_RECORD_ABORTED,
    FindingKind.READ_COMMITTED_FROZEN,
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    """Brokers that the scenarios hurt; each scenario leaves all of them running."""
    with Cluster() as cluster:
        yield cluster


def play(lab: Cluster, name: str, prefix: str, producer: ProducerKind, outage: OutageKind) -> ScenarioResult:
    started = time.time()
    result = SCENARIOS[name].run(lab, producer=producer, topic_prefix=f"{prefix}-", outage=outage, hold_s=0.0)
    assert all(started < finding.readable_at < time.time() for finding in result.expected)
    assert all((finding.partition, finding.broker) == (0, 2) for finding in result.expected)
    return result


@pytest.mark.parametrize("producer", ["legacy", "java"])
def test_five_topics_diverge_in_one_outage(lab: Cluster, topic: str, producer: ProducerKind) -> None:
    result = play(lab, "all", topic, producer, "kill")
    assert [finding.kind for finding in result.expected] == ALL
    assert tuple(finding.topic for finding in result.expected) == result.topics


@pytest.mark.parametrize(
    ("name", "outage", "kind", "offset"),
    [
        ("resurrected", "stop", FindingKind.DELETED_RECORD_RESURRECTED, 0),
        ("aborted-committed", "pause", FindingKind.ABORTED_RECORD_COMMITTED, 0),
        ("committed-aborted", "stop", FindingKind.COMMITTED_RECORD_ABORTED, 1),
        ("put-aborted", "stop", FindingKind.COMMITTED_RECORD_ABORTED, 0),
        ("frozen", "pause", FindingKind.READ_COMMITTED_FROZEN, 0),
    ],
)
def test_each_divergence_alone(
    lab: Cluster, topic: str, name: str, outage: OutageKind, kind: FindingKind, offset: int
) -> None:
    (finding,) = play(lab, name, topic, "legacy", outage).expected
    assert (finding.kind, finding.offset) == (kind, offset)


@pytest.mark.parametrize("producer", ["legacy", "java"])
def test_nothing_diverges_while_tombstones_and_markers_outlive_the_outage(
    lab: Cluster, topic: str, producer: ProducerKind
) -> None:
    assert play(lab, "healthy", topic, producer, "stop").expected == ()


def test_nothing_is_cleaned_before_the_monitor_has_recorded_it(lab: Cluster, topic: str) -> None:
    events: list[str] = []
    SCENARIOS["aborted-committed"].run(
        lab,
        topic_prefix=f"{topic}-",
        outage="stop",
        say=lambda text: events.append(text.split()[0]),
        await_observed=lambda name, offset, broker: events.append(f"{name.removeprefix(topic)}@{offset} on {broker}"),
    )
    assert events == [
        "creating",
        "writing",
        *(f"-abort@0 on {broker}" for broker in (1, 3, 2)),
        "stopping",
        "broker",
        *(f"-abort@1 on {broker}" for broker in (1, 3)),
        "letting",
        "the",
        *(f"-abort@{events[-3].split('@')[1].split()[0]} on {broker}" for broker in (1, 3)),
        "bringing",
        "broker",
    ]
