"""The routing for Alertmanager that goes with the alert rules."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent
from typing import Any, NamedTuple

from dashboards.expressions import ABSENT, TARGET
from dashboards.findings import KNOWN, LESS, WORSE
from dashboards.written import written
from parallax.alerting.conditions import OUTAGE, REMOVAL
from parallax.alerting.listing import ALARMS
from parallax.model import Severity

_HEAD = """# An Alertmanager for Parallax: alertmanager --config.file=alertmanager.yaml --web.external-url=http://HOST:9093
# One that is alone also takes --cluster.listen-address= and then leaves port 9094 free.
# First put your addresses into the lines marked FILL IN, below receivers.
# If you run an Alertmanager already, copy parallax.tmpl next to its configuration and add it to templates there. Take
# over inhibit_rules and receivers, and put route below routes there, with matchers: [alertname =~ Parallax.*].
# The title of a message in Slack, and the link of an incident in PagerDuty, lead to its --web.external-url. The link to
# the page is from alerting.external_url of parallax.yaml: without it there is none.
# Checked: a real Alertmanager, with receivers that speak as these services. Not run: against the services, by mail.
# What a job that is away cannot know pages nobody, nor does a finding that somebody has acknowledged.
#
# Chat and mail get one message about all findings of a partition: one when it changes, and one end. A service with
# incidents, such as PagerDuty, has an incident for each alert of them. alertname and outgrown belong into its group_by:
# PagerDuty calls nobody again for a group that somebody has taken on, so a finding that becomes worse needs a group of
# its own. It has one by its next alert or, where that has paged before, by ParallaxFindingWorse with the label
# outgrown. A page goes on until its finding is over, and each of them is resolved then. No page suppresses another one
# that was not acknowledged: Alertmanager forgets a suppressed one after twice repeat_interval, and resolves it no more.
# So close the incident of a page that was acknowledged here for longer by hand.
# A reload of this configuration may send suppressed alerts once. When a page becomes a ticket, its incident in
# PagerDuty stays open until the finding is over.
#
# What is resolved has the annotations of its last firing: summary and description may speak of the present. So show
# resolved_summary and resolved_description of it, as parallax.tmpl does; a webhook gets all of them. Those of a finding
# are empty until it ends, but for ParallaxFindingAcknowledged. If resolved_turn is not empty, nothing is known to be
# over: it says whether the finding (label finding_id) goes on under another alert, or that nobody knows.
#
# Have no ends sent to the receivers "chat-note" and "note": who got the page or the ticket is told there that a finding
# is over.
"""

_RECEIVERS = """\
# Each receiver needs one way to send: its webhook or a service, not both. For a service take out "# " in front of its
# lines, and take out the lines of the webhook. A receiver of which only the name is left sends nothing.
# In the EU, PagerDuty needs a further line: url: https://events.eu.pagerduty.com/v2/enqueue
receivers:
"""
_SLACK = """\
slack_configs:
- api_url_file: /etc/alertmanager/slack-url # FILL IN: a file that holds the address of an incoming webhook of Slack
  send_resolved: true
  color: '{{ template "parallax.color" . }}'
  title: '{{ template "parallax.slack.title" . }}'
  fallback: '{{ template "parallax.slack.title" . }}' # what a phone's notification shows
  text: '{{ template "parallax.slack.text" . }}'
"""
_PAGERDUTY = """\
pagerduty_configs:
- routing_key_file: /etc/alertmanager/pagerduty-key # FILL IN: a file that holds the integration key (Events API v2)
  send_resolved: true
  severity: '{{ .CommonLabels.severity }}'
  description: '{{ template "parallax.title" . }}'
  details:
    text: '{{ template "parallax.text" . }}'
"""
_EMAIL = """\
email_configs:
- to: on-call@example.com # FILL IN
  from: alertmanager@example.com # FILL IN
  smarthost: smtp.example.com:587 # FILL IN: and auth_username, auth_password_file where it asks for them
  send_resolved: true
  headers:
    Subject: '{{ template "parallax.title" . }}'
  html: ''
  text: '{{ template "parallax.text" . }}'
"""


class _Receiver(NamedTuple):
    """A receiver: a webhook, or one of other services.

    Attributes:
        name: as the routes name it.
        gets: which alerts it gets.
        webhook: what its webhook has to be; empty if it has none.
        others: the YAML of each other service.
        ends: whether its webhook is sent what is over.
    """

    name: str
    gets: str
    webhook: str = "the address of your webhook"
    others: Sequence[str] = ()
    ends: bool = True

    def written(self) -> str:
        """Its YAML, with other services as comments."""
        blocks = []
        if self.webhook:
            webhook = f"webhook_configs:\n- url: http://127.0.0.1:9465/{self.name} # FILL IN: {self.webhook}\n"
            blocks += [indent(webhook + ("" if self.ends else "  send_resolved: false\n"), "  ")]
        blocks += (indent(one, "  # ") for one in self.others)
        return f"- name: {self.name} # {self.gets}\n{''.join(blocks)}"


def _without_ends(service: str) -> str:
    return service.replace("send_resolved: true", "send_resolved: false")


_ALL = (
    _Receiver("chat", "severity critical, warning and info, in messages for people", "", (_SLACK, _EMAIL)),
    _Receiver("chat-note", f"{LESS}, in messages for people", "", (_without_ends(_SLACK), _without_ends(_EMAIL))),
    _Receiver("page", "severity critical, by alert", others=(_PAGERDUTY,)),
    _Receiver("ticket", "severity warning, by alert", others=(_PAGERDUTY,)),
    # That somebody has acknowledged something is not resolved: that would be read as if the finding were.
    _Receiver("note", "severity info, by alert", ends=False),
    _Receiver("dead-man", "ParallaxWatchdog", "your dead man's switch: it alarms once nothing comes", ends=False),
)


def routes() -> str:
    """The text of the configuration of Alertmanager."""
    alike = ["cluster", "topic", "partition", "alertname", "outgrown"]
    target = TARGET.split(", ")
    watchdog = {
        "receiver": "dead-man",
        "matchers": ["alertname = ParallaxWatchdog"],
        # A group is looked at in steps: these make one message a minute.
        "group_interval": "20s",
        "repeat_interval": "50s",
    }
    # The alerts of a finding are one group for people, whatever becomes of it: it has one end.
    findings = {"receiver": "chat", "matchers": ['finding_id != ""'], "group_by": alike[:3]}
    # An outage is one story there, which has one end.
    outages = {
        "receiver": "chat",
        "matchers": [f"alertname =~ {OUTAGE}|{REMOVAL}"],
        "group_by": ["cluster", "broker_id"],
    }
    chat = {"receiver": "chat", "continue": True, "matchers": [f"alertname != {LESS}"], "routes": [findings, outages]}
    # Prometheus says an end again each minute. So a group with a new alert would be told a second time of an end that
    # it was told of shortly before.
    less = {"receiver": "chat-note", "continue": True, "matchers": [f"alertname = {LESS}"]}
    tickets = {"receiver": "ticket", "matchers": ["severity = warning"]}
    notes = {"receiver": "note", "matchers": ["severity = info"]}
    absent = f"alertname = {ABSENT}"
    health = "alertname =~ ParallaxStalled|ParallaxQuery.*|ParallaxFindingsNotWritable"
    less_grave, critical = (
        "|".join(one.name for one in ALARMS.values() if (one.severity is Severity.CRITICAL) is wanted)
        for wanted in (False, True)
    )
    by_state = f"{critical}|{less_grave}"
    finding = ["cluster", "finding_id"]
    return (
        written(
            _HEAD,
            {
                "templates": ["parallax.tmpl"],
                "route": {
                    "receiver": "page",
                    "group_by": alike,
                    "group_wait": "10s",
                    "group_interval": "30s",
                    "repeat_interval": "4h",
                    "routes": [watchdog, chat, less, tickets, notes, {"receiver": "page"}],
                },
                "inhibit_rules": [
                    # Where only one target of a cluster is away, the others' alerts count.
                    _inhibit([absent, 'instance = ""'], health, ["cluster"]),
                    _inhibit([absent, 'instance != ""'], health, target),
                    # Why the others fail.
                    _inhibit(["alertname = ParallaxStorageFull"], health, target),
                    _inhibit(["alertname = ParallaxStalled"], "alertname = ParallaxQueryStalled", target),
                    # An outage that has become worse is one story: it is not told again that it goes on.
                    _inhibit([f"alertname = {REMOVAL}"], f"alertname = {OUTAGE}", ["cluster", "broker_id"]),
                    # It is still open: Alertmanager sends no resolved message about what it suppresses.
                    _inhibit([f"alertname = {KNOWN}"], f"alertname =~ {by_state}|{WORSE}|{LESS}", finding),
                    # It has paged, is less grave by now, and not over.
                    _inhibit([f"alertname =~ {less_grave}"], f"alertname =~ {critical}|{WORSE}", finding),
                    # It says the same of what was acknowledged, or has paged before.
                    _inhibit([f"alertname = {WORSE}"], f"alertname =~ {critical}", finding),
                    # Prometheus says each end again for 15 minutes. Chat would be told of it once more after the next
                    # change: Alertmanager remembers the ends in a group's last message alone.
                    _inhibit([f"alertname = {WORSE}"], f"alertname = {KNOWN}", [*finding, "outgrown"]),
                ],
            },
        )
        + _RECEIVERS
        + "".join(one.written() for one in _ALL)
    )


def _inhibit(source: list[str], target: str, equal: list[str]) -> dict[str, Any]:
    return {"source_matchers": source, "target_matchers": [target], "equal": list(equal)}
