"""How the messages stand, as Prometheus sees it."""

from __future__ import annotations

from parallax.alerting.webhook.metrics import WebhookCollector
from parallax.alerting.webhook.sender import WebhookStatus


def test_each_receiver_has_its_counts_and_what_waits() -> None:
    status = {"on-call": WebhookStatus(delivered_total=3, failed_total=2, waiting=1, oldest_s=7.5)}
    families = WebhookCollector(lambda: status).collect()
    found = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
    assert found == {
        ("parallax_webhook_messages_total", "on-call", "success"): 3,
        ("parallax_webhook_messages_total", "on-call", "failure"): 2,
        ("parallax_webhook_pending_incidents", "on-call"): 1,
        ("parallax_webhook_pending_seconds", "on-call"): 7.5,
    }
