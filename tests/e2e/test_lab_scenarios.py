"""Each scenario on real brokers: what it says stands there was read from each replica."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from parallax.lab.scenarios import ScenarioResult
from parallax.lab.scenarios.conductor import OutageKind
from parallax.lab.traffic import ProducerKind
from parallax.model import FindingKind
from tests.e2e.play import Part, Played, play

ALL = {
    "tombstone": (FindingKind.DELETED_RECORD_RESURRECTED, 0),
    "abort": (FindingKind.ABORTED_RECORD_COMMITTED, 0),
    "commit": (FindingKind.COMMITTED_RECORD_ABORTED, 1),
    "deletion": (FindingKind.ABORTED_RECORD_COMMITTED, 1),
    "frozen": (FindingKind.READ_COMMITTED_FROZEN, 0),
}
"""What each script leaves behind: the finding and its offset."""

ALONE = {
    "resurrected": "tombstone",
    "aborted-committed": "abort",
    "committed-aborted": "commit",
    "deletion-committed": "deletion",
    "frozen": "frozen",
}
"""Scenarios of one script."""

PRODUCERS: tuple[ProducerKind, ...] = ("legacy", "java")


def assert_stands(result: ScenarioResult, scripts: list[str], began: float) -> None:
    """Each script's topic diverges on broker 2 as it should, and was seen to."""
    assert [(e.kind, e.offset) for e in result.expected] == [ALL[script] for script in scripts]
    assert tuple(e.topic for e in result.expected) == result.topics
    assert all(began < e.readable_at < time.time() for e in result.expected)
    assert all((e.partition, e.broker) == (0, 2) for e in result.expected)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_five_topics_diverge_in_one_outage(played: Played, producer: ProducerKind) -> None:
    assert_stands(played.gone[producer], list(ALL), played.began)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_nothing_diverges_while_tombstones_and_markers_outlive_the_outage(
    played: Played, producer: ProducerKind
) -> None:
    assert played.well[producer].expected == ()
    assert len(played.well[producer].topics) == len(ALL)


@dataclass
class Alone:
    """Scenarios of one script, played side by side through one outage."""

    began: float
    results: dict[str, ScenarioResult]
    events: list[str]
    """What was said and observed of ``aborted-committed``, in order."""


@pytest.fixture(scope="module")
def alone(played: Played) -> Callable[[OutageKind], Alone]:
    """Plays them once for each kind of outage."""

    @functools.cache
    def played_with(outage: OutageKind) -> Alone:
        began, prefix = time.time(), f"{outage}-"
        events: list[str] = []
        observed = Part(
            "aborted-committed",
            prefix,
            say=lambda text: events.append(text.split()[0]),
            await_observed=lambda topic, at, broker: events.append(f"{topic.removeprefix(prefix)}@{at} on {broker}"),
        )
        others = [Part(name, f"{prefix}{name}-") for name in ALONE if name != observed.scenario]
        results = play(played.lab, [observed, *others], outage)
        return Alone(began, {result.name: result for result in results}, events)

    return played_with


@pytest.mark.parametrize("outage", ["stop", pytest.param("pause", marks=pytest.mark.release)])
def test_each_divergence_alone_stands_whether_the_broker_is_stopped_or_paused(
    alone: Callable[[OutageKind], Alone], outage: OutageKind
) -> None:
    for name, script in ALONE.items():
        assert_stands(alone(outage).results[name], [script], alone(outage).began)


def test_nothing_is_cleaned_before_the_monitor_has_recorded_it(alone: Callable[[OutageKind], Alone]) -> None:
    events = alone("stop").events
    assert events == [
        "creating",
        "writing",
        *(f"abort@0 on {broker}" for broker in (1, 3, 2)),
        "stopping",
        "broker",
        *(f"abort@1 on {broker}" for broker in (1, 3)),
        "letting",
        "the",
        *(f"abort@{events[-3].split('@')[1].split()[0]} on {broker}" for broker in (1, 3)),
        "bringing",
        "broker",
    ]
