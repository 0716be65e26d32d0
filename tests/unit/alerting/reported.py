"""A monitor's state in figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.state import MonitorState
from parallax.compare.suspect import Coverage, DeferredRange
from parallax.model import UnknownReason
from tests.builders.clock import Clock
from tests.builders.coverage import broker, coverage


@dataclass
class Report:
    name: str = "compare"
    up: bool = True
    restarts: int = 2
    last_progress: float | None = 990.0
    batch_seconds: float = 0.25
    rows: int = 77
    checkpoints_set_aside: int = 1


def in_part(**fields: Any) -> Coverage:
    """A partition in which broker 2 is behind, and what that shows of some offsets is waited for."""
    behind = broker(2, read_committed=90, last_stable_offset=90, log_end_offset=101, frozen_for_s=7.5)
    base: dict[str, Any] = {
        "compared_up_to": (100, 90),
        "unknown": {UnknownReason.NOT_READ_YET: (0, 10)},
        "deferred": (DeferredRange(1, 20, 25), DeferredRange(1, 95, -1)),
        "state_bytes": 512,
        "brokers": (behind,),
        "compared_at": 999_000,
    }
    return coverage(**(base | fields))


def heard(state: MonitorState, clock: Clock, seconds: float) -> None:
    """Let time pass in which brokers are asked what they hold."""
    end = clock.now + seconds
    while clock.now < end:
        clock.now = min(clock.now + 30, end)
        state.update_query(replace(Report(), name="progress", last_progress=clock.now))


class Samples(dict[tuple[str, frozenset[str]], float]):
    """Samples by name and label values, in whatever order these are exposed."""

    def __getitem__(self, key: tuple[str, Iterable[str]]) -> float:
        return super().__getitem__((key[0], frozenset(key[1])))


def samples(state: MonitorState) -> Samples:
    registry = CollectorRegistry()
    registry.register(ParallaxCollector(state))
    text = generate_latest(registry).decode()
    return Samples(
        ((s.name.removeprefix("parallax_"), frozenset(s.labels.values())), s.value)
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if not s.name.endswith("_created")
    )
