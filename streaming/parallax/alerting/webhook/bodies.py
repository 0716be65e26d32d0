"""Makes the HTTP bodies of a message in the format of its receiver: Alertmanager's webhook, Slack or PagerDuty."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parallax.addresses import is_address
from parallax.alerting.conditions import name_of
from parallax.alerting.places import Places
from parallax.alerting.webhook.alerts import OF_THE_END, TURN, Alert, Status, is_of_the_job, stands_in_words
from parallax.alerting.webhook.outbox import OTHERS, Message
from parallax.config import WebhookSettings
from parallax.counts import agreed, counted
from parallax.findings.acknowledgement import in_words
from parallax.model import Severity

_COMMANDS = ("command", "record_command")
"""The annotations that are commands."""
MOST_ALERTS = 100
"""How many alerts one message describes at most. Of further ones it only says how many there are."""
_SLACK_ALERTS = 10
"""How many alerts a Slack message, or an event of PagerDuty, describes one by one."""
_SUMMARY_CHARACTERS = 1024
"""The longest summary that PagerDuty takes."""
_NEVER = "0001-01-01T00:00:00Z"
"""How Go writes no time, and so how Alertmanager says that an alert has not ended."""

Body = Mapping[str, Any]


def bodies(message: Message, settings: WebhookSettings, places: Places) -> Sequence[Body]:
    """The JSON documents that say a message in its receiver's format, to be posted one after the other.

    Args:
        message: the message.
        settings: the settings of the receiver.
        places: the cluster's name, and the links and commands for the text.

    Returns:
        The documents. It is one for Alertmanager and Slack, and may be several for PagerDuty. There is none if the
        receiver's service has no way to say what the message says.
    """
    return _FORMATS[settings.format](message, settings, places)


def _alertmanager(message: Message, settings: WebhookSettings, places: Places) -> Sequence[Body]:
    """Version 4 of https://prometheus.io/docs/alerting/latest/configuration/#webhook_config.

    It knows no acknowledged alert: one that is not over is firing, and says who has acknowledged it.
    """
    alerts = [_alert(alert, places) for alert in message.alerts[:MOST_ALERTS]]
    return [
        {
            "version": "4",
            "groupKey": _group_key(message, settings, places.cluster),
            "truncatedAlerts": max(len(message.alerts) - MOST_ALERTS, 0),
            "status": _as_alertmanager(message.status),
            "receiver": settings.name,
            "groupLabels": _group_labels(message, places.cluster),
            "commonLabels": _common([alert["labels"] for alert in alerts]),
            "commonAnnotations": _common([alert["annotations"] for alert in alerts]),
            "externalURL": places.page_of(),
            "alerts": alerts,
        }
    ]


def _as_alertmanager(status: Status) -> str:
    return str(Status.RESOLVED if status is Status.RESOLVED else Status.FIRING)


def _alert(alert: Alert, places: Places) -> dict[str, Any]:
    named = {"alertname": alert.alertname, "severity": alert.severity.value, "cluster": places.cluster}
    said = {what: text for what, text in alert.annotations.items() if alert.ends_at or what not in OF_THE_END}
    return {
        "status": _as_alertmanager(alert.status),
        "labels": {**{name: value for name, value in named.items() if value}, **alert.labels},
        "annotations": said,
        "startsAt": alert.starts_at.isoformat(),
        "endsAt": _NEVER if alert.ends_at is None else alert.ends_at.isoformat(),
        "generatorURL": alert.annotations.get("page_url", ""),
        "fingerprint": hashlib.sha256(f"{places.cluster}\0{alert.name}".encode()).hexdigest()[:16],
    }


def _group_labels(message: Message, cluster: str) -> dict[str, str]:
    labels = {"cluster": cluster} if cluster else {}
    if is_of_the_job(message.group):
        labels |= {"job": "parallax", "alert": message.group.topic}
    elif message.group != OTHERS:
        labels |= {"topic": message.group.topic, "partition": str(message.group.partition)}
    return labels


def _group_key(message: Message, settings: WebhookSettings, cluster: str) -> str:
    labels = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in sorted(_group_labels(message, cluster).items())
    )
    return f"parallax/{settings.name}:{{{labels}}}"


def _common(documents: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = documents
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}


_NOT_SO = {Status.FIRING: "not acknowledged", Status.ACKNOWLEDGED: "acknowledged", Status.RESOLVED: "over"}
"""By status of an alert, its words in a message that is about others."""


def _title(message: Message, first_said: str = "") -> str:
    """One line for all of it: the first alert, and how many others stand how; what is over is in the past.

    Args:
        message: the message.
        first_said: what to say of the first alert; its summary if this is empty.
    """
    first, *others = message.alerts
    noun = _noun(message)
    there = Counter(alert.status for alert in others)
    alike = [f"and {there[first.status]:,} more {agreed(there[first.status], noun, f'{noun}s')}"]
    rest = [f"{counted(there[s], noun)} {words}" for s, words in _NOT_SO.items() if there[s] and s is not first.status]
    more = "; ".join((alike if there[first.status] else []) + rest)
    summary = first_said or first.annotations.get("summary", first.alertname)
    return f"{summary} ({more})" if more else summary


def _more(message: Message) -> str:
    """What a message names one of, where it does not name the rest."""
    return f"more {_noun(message)}"


def _noun(message: Message) -> str:
    return "alert" if is_of_the_job(message.group) else "finding"


def _description(alert: Alert, message: Message) -> str:
    """The text of an alert, with its state if that is not the state of its message; a known one's in few words."""
    if alert.status is Status.ACKNOWLEDGED:
        return f"{in_words(*_who(alert))} Still open: {_headline(alert)}"
    over = "" if message.status is Status.RESOLVED else "(over) "  # where all is over, the title says it
    stands = {Status.FIRING: f"({_NOT_SO[Status.FIRING]}) " if message.is_in_part else "", Status.RESOLVED: over}
    said = alert.annotations.get("description", "").removesuffix(f" {in_words(*_who(alert))}")
    if alert is not message.alerts[0]:  # of the first one, the title says it
        said = f"{alert.annotations.get(TURN, '')}{said}"
    return f"{stands[alert.status]}{said}"


def _who(alert: Alert) -> tuple[str, str]:
    """By whom an alert was acknowledged, and why."""
    return alert.annotations.get("acknowledged_by", ""), alert.annotations.get("acknowledged_comment", "")


def _headline(alert: Alert) -> str:
    """What is wrong, in a few words, whoever knows of it."""
    return alert.annotations.get("summary", alert.alertname).removeprefix(stands_in_words(_who(alert)[0]))


def _links(alert: Alert) -> dict[str, str]:
    """The addresses that an alert names, by what is there; a runbook that is only a path leads nowhere.

    Where nobody has to act, it is only the page.
    """
    named = {"Page": "page_url", "Runbook": "runbook_url", "Kind of finding": "kind_runbook_url"}
    if alert.status is not Status.FIRING:
        named = {"Page": "page_url"}
    found = {text: alert.annotations.get(name, "") for text, name in named.items()}
    return {text: address for text, address in found.items() if is_address(address)}


def _leads(alert: Alert) -> list[str]:
    """Where to go from an alert in Slack; where nobody has to act, the one place that says what it is, or was."""
    links = [f"<{_escaped(address).replace('|', '%7C')}|{text}>" for text, address in _links(alert).items()]
    commands = [_code(alert.annotations[name]) for name in _COMMANDS if alert.annotations.get(name)]
    if alert.status is Status.FIRING:
        return commands + links
    lead = (links + commands)[:1]
    is_over = alert.status is Status.RESOLVED and not alert.is_of_the_job
    return [f"What it was: {one}" for one in lead] if is_over else lead


def _slack(message: Message, settings: WebhookSettings, places: Places) -> Sequence[Body]:
    """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks: text with Slack's own escapes."""
    del settings
    first, lines = message.alerts[0], []
    if first.status is Status.ACKNOWLEDGED:  # all of it in one line, whose first word says what has happened
        said = _description(first, message).removeprefix("Acknowledged ")
        lines.append(" · ".join((f"*{message.status.upper()}* {_escaped(_title(message, said))}", *_leads(first))))
    else:
        lines.append(f"*{message.status.upper()}* {_escaped(_title(message))}")
    for alert in message.alerts[:_SLACK_ALERTS]:
        if alert is not first or alert.status is not Status.ACKNOWLEDGED:
            said = f"• {_escaped(_description(alert, message))}"
            lines.append("\n   ".join(filter(None, (said, " · ".join(_leads(alert))))))
    if (left := len(message.alerts) - _SLACK_ALERTS) > 0:
        lines.append(f"and {counted(left, _more(message))}: {_code(places.shell.parallax('findings', 'list'))}")
    return [{"text": "\n".join(lines)}]


_ENTITIES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_PLAIN = {**_ENTITIES, ord("`"): "\u02cb", ord("*"): "\u2217"}
"""Slack has no escape for a backtick or an asterisk. So each becomes a character that only looks like it."""


def _escaped(text: str) -> str:
    """A text as Slack shows it, whatever it holds."""
    return text.translate(_PLAIN)


def _code(text: str) -> str:
    """A text that can be copied from Slack as it is; one with a backtick is a block of its own, which may hold some."""
    if "`" not in text:
        return f"`{text.translate(_ENTITIES)}`"
    return f"```{text.translate(_ENTITIES)}```" if "```" not in text else _escaped(text)


_ACTIONS: Mapping[Status, str] = {
    Status.FIRING: "trigger",
    Status.ACKNOWLEDGED: "acknowledge",
    Status.RESOLVED: "resolve",
}


def _pagerduty(message: Message, settings: WebhookSettings, places: Places) -> Sequence[Body]:
    """Events API v2: https://developer.pagerduty.com/docs/send-alert-event. One incident there for one here.

    While an incident is acknowledged PagerDuty notifies nobody, whatever else it is sent about it: what asks for
    somebody again is another incident there. All of them are acknowledged, and end, together. That a part of it was
    acknowledged is no event: the rest asks for somebody as it did.
    """
    if message.is_in_part:
        return ()
    first = message.alerts[0]
    of_what = {} if is_of_the_job(message.group) else _group_labels(message, "")
    what = " ".join(of_what.values()) or "parallax"
    standing = [alert for alert in message.alerts if alert.status is not Status.RESOLVED] or list(message.alerts)
    is_critical = any(alert.severity is Severity.CRITICAL for alert in standing)
    key = settings.routing_key.get_secret_value() if settings.routing_key is not None else ""
    event: dict[str, Any] = {
        "routing_key": key,
        "event_action": _ACTIONS[message.status],
        "client": "Parallax",
        "payload": {
            "summary": _title(message)[:_SUMMARY_CHARACTERS],
            "source": places.cluster or "parallax",
            "severity": "critical" if is_critical else "warning",
            "timestamp": first.starts_at.isoformat(),
            "component": what.replace(" ", "-"),
            "class": first.annotations.get("kind", first.alertname),
            "custom_details": {k: v for alert in standing[:_SLACK_ALERTS] for k, v in _details(alert, message).items()},
        },
        "links": [
            {"href": address, "text": text}
            for text, address in dict.fromkeys(one for a in standing[:_SLACK_ALERTS] for one in _links(a).items())
        ],
    }
    if places.page:
        event["client_url"] = places.page_of()
    rounds = [message.rounds] if message.is_firing else range(message.rounds + 1)
    group = _group_key(message, settings, places.cluster)
    keys = (group if number == 0 else f"{group}#{number}" for number in rounds)
    return [{**event, "dedup_key": hashlib.sha256(key.encode()).hexdigest()} for key in keys]


def _details(alert: Alert, message: Message) -> dict[str, str]:
    """What PagerDuty shows of an alert: a field with what it is, and one with the command alone, to be copied."""
    # A condition that became worse keeps its incident, and is named as the alert that it is now.
    name = name_of(alert.alertname, alert.labels) if alert.is_of_the_job else alert.name
    fields = {name: _description(alert, message), f"{name} command": alert.annotations.get("command", "")}
    return {name: text for name, text in fields.items() if text}


_FORMATS: Mapping[str, Callable[[Message, WebhookSettings, Places], Sequence[Body]]] = {
    "alertmanager": _alertmanager,
    "slack": _slack,
    "pagerduty": _pagerduty,
}
