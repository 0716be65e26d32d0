"""What one receiver is still to be told: findings in, messages out, without IO.

The findings of a partition are one incident and go in one message, as in Alertmanager's grouping. A message says how
things stand when it is sent; what has not been delivered is said by the next one. A finding that was confirmed and is
over before the receiver could be reached is still reported, as resolved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random

from parallax.alerting.listing import ALARMS, FindingState, state_of
from parallax.backoff import backoff
from parallax.findings.explain import RUNBOOK, runbook_of
from parallax.findings.finding import Finding
from parallax.findings.repair import show_record
from parallax.model import TopicPartition, broker_label
from parallax.shell import ANYWHERE, Shell

MOST_ASKED_FOR_S = 3600.0
"""The longest wait that a receiver's Retry-After is granted."""
MOST_GROUPS = 50
"""Partitions with messages of their own at a time; those beyond share one."""
OTHERS = TopicPartition("", -1)
"""The group of all partitions beyond `MOST_GROUPS`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When messages are sent; all in seconds.

    Attributes:
        repeat_s: after how long an open incident is told again.
        wait_s: how long the first message of an incident waits for what belongs to it.
        interval_s: the shortest time between two messages about an incident.
        retry_s: the wait after the first try that failed; it doubles.
        retry_most_s: the longest wait.
    """

    repeat_s: float
    wait_s: float = 10.0
    interval_s: float = 30.0
    retry_s: float = 1.0
    retry_most_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Alert:
    """One finding, as a receiver is told of it.

    Attributes:
        group: the partition whose message it is in, or `OTHERS`.
        state: its state, the last one where it is over.
        told: the state in the last message that was delivered; None where there was none.
        ends_at: when it was seen to be over, None while it is open.
        labels: what identifies it, and its kind.
        annotations: what is said of it.
    """

    finding_id: str
    group: TopicPartition
    state: FindingState
    starts_at: datetime
    ends_at: datetime | None = None
    told: FindingState | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_news(self) -> bool:
        """Whether the receiver does not know of its state."""
        return self.ends_at is not None or self.told is not self.state


@dataclass(frozen=True, slots=True)
class Message:
    """What a receiver is told at one moment about one incident.

    Attributes:
        group: of what.
        alerts: open ones first, the gravest first.
        key: the same for the same message, however often it is sent.
    """

    group: TopicPartition
    alerts: tuple[Alert, ...]
    key: str

    @property
    def is_firing(self) -> bool:
        """Whether any of the findings is open: these come first."""
        return self.alerts[0].ends_at is None


@dataclass(slots=True)
class Group:
    """One incident's messages; times are seconds since 1970 UTC.

    Attributes:
        news_since: since when there is something to tell; None where there is nothing.
        delivered_at: when a message was last taken; None where none was.
        failures: tries in a row that failed.
        not_before: no try before then.
    """

    news_since: float | None = None
    delivered_at: float | None = None
    failures: int = 0
    not_before: float = 0.0


class Outbox:
    """The messages to one receiver; not thread-safe.

    Args:
        pace: when messages are sent.
        draw: jitter of retries.
        runbook: where it is.
        shell: how commands name the cluster and the job.
    """

    def __init__(self, pace: Pace, draw: Random, runbook: str = RUNBOOK, shell: Shell = ANYWHERE) -> None:
        self._pace = pace
        self._runbook = runbook
        self._shell = shell
        self._draw = draw
        self._alerts: dict[str, Alert] = {}
        self._groups: dict[TopicPartition, Group] = {}

    def restore(self, alerts: Iterable[Alert], delivered: Mapping[TopicPartition, float], now: float) -> None:
        """Take up what was recorded; comes before anything else.

        Args:
            alerts: as `alerts` had them.
            delivered: as `delivered_at` had it.
            now: seconds since 1970 UTC.
        """
        for alert in alerts:
            self._alerts[alert.finding_id] = alert
            self._groups.setdefault(alert.group, Group(delivered_at=delivered.get(alert.group)))
        self._look_for_news(now)

    @property
    def alerts(self) -> list[Alert]:
        """All that the receiver knows of, or is to be told of."""
        return list(self._alerts.values())

    @property
    def delivered_at(self) -> dict[TopicPartition, float]:
        """When each incident was last told."""
        return {place: group.delivered_at for place, group in self._groups.items() if group.delivered_at is not None}

    def waiting_since(self) -> list[float]:
        """Since when each incident has had something to be told."""
        return [group.news_since for group in self._groups.values() if group.news_since is not None]

    def observe(self, open_findings: Sequence[Finding], now: float) -> bool:
        """Take in all findings that are open at a moment (seconds since 1970 UTC).

        Returns:
            Whether anything is to be recorded.
        """
        self._not_ahead_of(now)
        before = dict(self._alerts)
        for finding in open_findings:
            self._alerts[finding.finding_id] = self._alert(finding)
        there = {finding.finding_id for finding in open_findings}
        over = datetime.fromtimestamp(now, UTC)
        for name, alert in self._alerts.items():
            if name not in there and alert.ends_at is None:
                self._alerts[name] = replace(alert, ends_at=over)
        self._look_for_news(now)
        return self._alerts != before

    def _alert(self, finding: Finding) -> Alert:
        known, state = self._alerts.get(finding.finding_id), state_of(finding)
        return Alert(
            finding_id=finding.finding_id,
            group=self._group_of(finding.place) if known is None else known.group,
            state=state,
            starts_at=finding.decided_at if known is None else known.starts_at,
            told=known.told if known is not None else None,
            labels={
                "topic": finding.topic,
                "partition": str(finding.partition),
                "finding_id": finding.finding_id,
            },
            annotations={
                "description": finding.summary,
                "kind": str(finding.kind),
                "broker_id": broker_label(finding.broker),
                "offset": str(finding.offset),
                "command": self._shell.parallax("findings", "explain", finding.finding_id),
                "record_command": show_record(finding, self._shell),
                "runbook_url": f"{self._runbook}#{ALARMS[state].name.lower()}",
                "kind_runbook_url": runbook_of(finding, self._runbook),
            },
        )

    def _group_of(self, place: TopicPartition) -> TopicPartition:
        is_alone = place in self._groups or len(self._groups.keys() - {OTHERS}) < MOST_GROUPS
        found = place if is_alone else OTHERS
        self._groups.setdefault(found, Group())
        return found

    def _look_for_news(self, now: float) -> None:
        news = {alert.group for alert in self._alerts.values() if alert.is_news}
        for place, group in self._groups.items():
            if place not in news:
                group.news_since = None
            elif group.news_since is None:
                group.news_since = now

    def due(self, now: float) -> Message | None:
        """The message that is to be sent now, the one that has waited longest; None where none is."""
        self._not_ahead_of(now)
        ready = [(at, place) for place, group in self._groups.items() if (at := self._due_at(group)) <= now]
        return self._message(min(ready)[1]) if ready else None

    def next_at(self, now: float) -> float:
        """When a message is due, in seconds since 1970 UTC; infinite where none ever is."""
        self._not_ahead_of(now)
        return min((self._due_at(group) for group in self._groups.values()), default=float("inf"))

    def _not_ahead_of(self, now: float) -> None:
        """A clock that was set back must not make anybody wait."""
        for group in self._groups.values():
            group.not_before = min(group.not_before, now + MOST_ASKED_FOR_S)
            if group.news_since is not None:
                group.news_since = min(group.news_since, now)
            if group.delivered_at is not None:
                group.delivered_at = min(group.delivered_at, now)

    def _due_at(self, group: Group) -> float:
        pace = self._pace
        if group.news_since is None:
            at = float("inf") if group.delivered_at is None else group.delivered_at + pace.repeat_s
        elif group.delivered_at is None:
            at = group.news_since + pace.wait_s
        else:
            at = max(group.news_since, group.delivered_at + pace.interval_s)
        return max(at, group.not_before)

    def _message(self, place: TopicPartition) -> Message:
        order = list(FindingState)
        mine = sorted(
            (alert for alert in self._alerts.values() if alert.group == place),
            key=lambda a: (a.ends_at is not None, order.index(a.state), a.starts_at, a.finding_id),
        )
        stands = [(a.finding_id, a.state, a.ends_at and a.ends_at.isoformat()) for a in mine]
        said = json.dumps([place, self._groups[place].delivered_at, stands])
        key = hashlib.sha256(said.encode()).hexdigest()
        return Message(place, tuple(mine), key)

    def delivered(self, message: Message, now: float) -> None:
        """Note that a receiver took a message; findings may have been observed since `due` gave it."""
        for said in message.alerts:
            alert = self._alerts[said.finding_id]
            if said.ends_at is None:
                self._alerts[said.finding_id] = replace(alert, told=said.state)
            elif alert.ends_at is None:  # it has come back meanwhile
                self._alerts[said.finding_id] = replace(alert, told=None)
            else:
                del self._alerts[said.finding_id]
        if any(alert.group == message.group for alert in self._alerts.values()):
            self._groups[message.group] = Group(delivered_at=now)
        else:
            del self._groups[message.group]
        self._look_for_news(now)

    def failed(self, message: Message, now: float, asked_for_s: float = 0.0) -> float:
        """Note that a message was not taken.

        Args:
            message: as `due` gave it.
            now: seconds since 1970 UTC.
            asked_for_s: how long the receiver wants to be left alone.

        Returns:
            After how many seconds it is tried again.
        """
        group = self._groups[message.group]
        group.failures += 1
        wait = backoff(group.failures, self._pace.retry_s, self._pace.retry_most_s, self._draw)
        wait = max(wait, min(asked_for_s, MOST_ASKED_FOR_S))
        group.not_before = now + wait
        return wait
