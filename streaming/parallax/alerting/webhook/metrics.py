"""Prometheus metrics of the messages to each receiver: how many were delivered, failed, or wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from parallax.alerting.webhook.sender import WebhookStatus


class WebhookCollector(Collector):
    """Exposes as Prometheus metrics how many messages to each receiver were delivered, failed, or wait.

    Args:
        status: returns these numbers by receiver's name.
    """

    def __init__(self, status: Callable[[], Mapping[str, WebhookStatus]]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """The metric families: tries by result, message groups that wait, and for how long the first has waited."""
        messages = CounterMetricFamily(
            "parallax_webhook_messages",
            "Tries to deliver a message to the receiver since the job started, by result.",
            labels=["receiver", "result"],
        )
        pending = GaugeMetricFamily(
            "parallax_webhook_pending_incidents",
            "Incidents with messages that still have to be sent to the receiver.",
            labels=["receiver"],
        )
        oldest = GaugeMetricFamily(
            "parallax_webhook_pending_seconds",
            "How long the first unsent incident has waited; 0 without one.",
            labels=["receiver"],
        )
        for name, status in sorted(self._status().items()):
            messages.add_metric([name, "success"], status.delivered_total)
            messages.add_metric([name, "failure"], status.failed_total)
            pending.add_metric([name], status.waiting)
            oldest.add_metric([name], status.oldest_s)
        yield from (messages, pending, oldest)
