"""Asks brokers for what decides whether a partition may be reassigned, and to which brokers: sizes, settings, moves."""

from __future__ import annotations

from collections.abc import Iterable

from parallax.errors import one_line
from parallax.model import TopicPartition
from parallax.repair.layout import Layout
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError

_TOPICS = (
    "__CruiseControlMetrics",
    "__KafkaCruiseControlPartitionMetricSamples",
    "__KafkaCruiseControlModelTrainingSamples",
    "strimzi.cruisecontrol.metrics",
    "strimzi.cruisecontrol.partitionmetricsamples",
    "strimzi.cruisecontrol.modeltrainingsamples",
)
"""The topics of Cruise Control, by their default names and by those that Strimzi gives them."""
_REPORTER = "CruiseControlMetricsReporter"
_MIN_ISR, _RETENTION = "min.insync.replicas", "delete.retention.ms"
_THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""The settings of brokers that a reassignment with a throttle sets (KIP-73); `_THROTTLED` are those of topics."""
_UNLIMITED = (1 << 63) - 1


def layout_of(client: ReplicaClient, place: TopicPartition) -> Layout:
    """Ask all brokers for what is needed to reassign a partition.

    If a broker or the controller did not answer, the result's ``error`` says so.
    """
    try:
        moving = client.reassignments()
        settings = client.topic_configs([place.topic], [_MIN_ISR, _RETENTION, *_THROTTLED])[place.topic]
        if isinstance(settings, ReplicaError):
            raise settings
        free, sizes = _space(client, place)
        is_held_back = any(settings.get(name) for name in _THROTTLED)
        return Layout(
            free,
            sizes,
            moving,
            int(settings[_MIN_ISR]),
            int(settings[_RETENTION]),
            _throttle(client, free) if is_held_back else 0,
            _automation(client, min(free)),
        )
    except ReplicaError as error:
        return Layout(error=one_line(error))


def _space(client: ReplicaClient, place: TopicPartition) -> tuple[dict[int, int], dict[int, int]]:
    """By broker that answers, the bytes that are left; and by broker that holds the partition, its bytes.

    Raises:
        ReplicaError: none answers.
    """
    free, sizes = {}, {}
    problem: ReplicaError | None = None
    for broker in sorted(client.brokers()):
        try:
            found = client.log_dirs(broker, [place])
        except ReplicaError as error:
            problem = error
            continue
        free[broker] = min(one.usable for one in found)
        held = [one.sizes[place] for one in found if place in one.sizes]
        if held:
            sizes[broker] = sum(held)
    if not free and problem is not None:
        raise problem
    return free, sizes


def _throttle(client: ReplicaClient, brokers: Iterable[int]) -> int:
    """The lowest rate at which any broker copies replicas that are held back; 0 if none is set.

    Raises:
        ReplicaError: a broker does not say (DESCRIBE_CONFIGS on the cluster).
    """
    rates = []
    for broker in brokers:
        said = client.broker_configs(broker, _RATES)
        if isinstance(said, ReplicaError):
            raise said
        rates += [int(value) for value in said.values()]
    return min((rate for rate in rates if rate < _UNLIMITED), default=0)


def _automation(client: ReplicaClient, broker: int) -> str:
    """What shows that Cruise Control runs here; empty if nothing that may be asked for does."""
    there = sorted(name for name, topic in client.metadata(_TOPICS).items() if topic.error is None)
    if there:
        return f"there is the topic {there[0]}"
    said = client.broker_configs(broker, ["metric.reporters"])
    reporters = "" if isinstance(said, ReplicaError) else said.get("metric.reporters", "")
    return f"broker {broker} has its metrics reporter" if _REPORTER in reporters else ""


__all__ = ["layout_of"]
