"""The body of a message in the words of its receiver: Alertmanager's webhook, Slack, PagerDuty."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parallax.alerting.listing import ALARMS
from parallax.alerting.webhook.outbox import OTHERS, Alert, Message
from parallax.config import WebhookSettings
from parallax.model import Severity

MOST_ALERTS = 100
"""Alerts in one message; of those beyond it says how many there are."""
_SLACK_ALERTS = 10
_SUMMARY_CHARACTERS = 1024
"""PagerDuty's limit."""
_NEVER = "0001-01-01T00:00:00Z"
"""How Go writes no time, and so how Alertmanager says that an alert has not ended."""

Body = Mapping[str, Any]


def body(message: Message, settings: WebhookSettings, cluster: str) -> Body:
    """The document to post.

    Args:
        message: what is said.
        settings: of the receiver.
        cluster: ``alerting.cluster``.
    """
    return _FORMATS[settings.format](message, settings, cluster)


def _alertmanager(message: Message, settings: WebhookSettings, cluster: str) -> Body:
    """Version 4 of https://prometheus.io/docs/alerting/latest/configuration/#webhook_config."""
    alerts = [_alert(alert, cluster) for alert in message.alerts[:MOST_ALERTS]]
    grouped = _group_labels(message, cluster)
    return {
        "version": "4",
        "groupKey": _group_key(message, settings, cluster),
        "truncatedAlerts": max(len(message.alerts) - MOST_ALERTS, 0),
        "status": "firing" if message.is_firing else "resolved",
        "receiver": settings.name,
        "groupLabels": grouped,
        "commonLabels": _common([alert["labels"] for alert in alerts]),
        "commonAnnotations": _common([alert["annotations"] for alert in alerts]),
        "externalURL": "",
        "alerts": alerts,
    }


def _alert(alert: Alert, cluster: str) -> dict[str, Any]:
    alarm = ALARMS[alert.state]
    named = {"alertname": alarm.name, "severity": alarm.severity.value, "cluster": cluster}
    return {
        "status": "firing" if alert.ends_at is None else "resolved",
        "labels": {**{name: value for name, value in named.items() if value}, **alert.labels},
        "annotations": {"summary": _headline(alert, cluster), **alert.annotations},
        "startsAt": alert.starts_at.isoformat(),
        "endsAt": _NEVER if alert.ends_at is None else alert.ends_at.isoformat(),
        "generatorURL": "",
        "fingerprint": hashlib.sha256(f"{cluster}\0{alert.finding_id}".encode()).hexdigest()[:16],
    }


def _group_labels(message: Message, cluster: str) -> dict[str, str]:
    labels = {"cluster": cluster} if cluster else {}
    if message.group != OTHERS:
        labels |= {"topic": message.group.topic, "partition": str(message.group.partition)}
    return labels


def _group_key(message: Message, settings: WebhookSettings, cluster: str) -> str:
    labels = ", ".join(f'{name}="{value}"' for name, value in sorted(_group_labels(message, cluster).items()))
    return f"parallax/{settings.name}:{{{labels}}}"


def _common(documents: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = documents
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}


def _headline(alert: Alert, cluster: str) -> str:
    place = f"{alert.labels['topic']}-{alert.labels['partition']}"
    return ALARMS[alert.state].headline.format(f"{place} of cluster {cluster}" if cluster else place)


def _title(message: Message, cluster: str) -> str:
    """One line for all of it; a resolved message says what was the matter."""
    others = len(message.alerts) - 1
    more = f" ({others} more finding{'s' if others > 1 else ''})" if others else ""
    return f"{_headline(message.alerts[0], cluster)}{more}"


def _slack(message: Message, settings: WebhookSettings, cluster: str) -> Body:
    """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks: text with Slack's own escapes."""
    del settings
    lines = [f"*{'FIRING' if message.is_firing else 'RESOLVED'}* {_escaped(_title(message, cluster))}"]
    for alert in message.alerts[:_SLACK_ALERTS]:
        over = "" if alert.ends_at is None else "(over) "
        said = _escaped(alert.annotations["description"])
        commands = (alert.annotations.get(name) for name in ("command", "record_command"))
        lines += [f"• {over}{said}", *(f"   `{_escaped(command)}`" for command in commands if command)]
    if (left := len(message.alerts) - _SLACK_ALERTS) > 0:
        lines.append(f"and {left} more: `parallax findings list`")
    return {"text": "\n".join(lines)}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _pagerduty(message: Message, settings: WebhookSettings, cluster: str) -> Body:
    """Events API v2: https://developer.pagerduty.com/docs/send-alert-event. One incident there for one here."""
    key = settings.routing_key.get_secret_value() if settings.routing_key is not None else ""
    dedup = hashlib.sha256(_group_key(message, settings, cluster).encode()).hexdigest()
    event: dict[str, Any] = {"routing_key": key, "dedup_key": dedup}
    if not message.is_firing:
        return {**event, "event_action": "resolve"}
    first = message.alerts[0]
    firing = [alert for alert in message.alerts if alert.ends_at is None]
    is_critical = any(ALARMS[alert.state].severity is Severity.CRITICAL for alert in firing)
    return {
        **event,
        "event_action": "trigger",
        "payload": {
            "summary": _title(message, cluster)[:_SUMMARY_CHARACTERS],
            "source": cluster or "parallax",
            "severity": "critical" if is_critical else "warning",
            "timestamp": first.starts_at.isoformat(),
            "component": f"{first.labels['topic']}-{first.labels['partition']}",
            "class": first.annotations["kind"],
            "custom_details": {
                alert.finding_id: f"{alert.annotations['description']} {alert.annotations['command']}"
                for alert in firing[:_SLACK_ALERTS]
            },
        },
    }


_FORMATS: Mapping[str, Callable[[Message, WebhookSettings, str], Body]] = {
    "alertmanager": _alertmanager,
    "slack": _slack,
    "pagerduty": _pagerduty,
}
