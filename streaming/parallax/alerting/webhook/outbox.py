"""Decides which message one receiver must get next about findings and conditions of the job, without IO.

The findings of a partition form a *message group*: one message reports them together, as with Alertmanager. A condition
of the job is a group of its own. A message gives the state at the time of sending. If it is not delivered, the next
message gives the newer state. So a finding that is confirmed and over before the receiver can be reached is still
reported, as resolved. An acknowledged finding is reported as acknowledged, and then not before it is over or worse.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import NamedTuple

from parallax.alerting.conditions import Suffered
from parallax.alerting.places import Places
from parallax.alerting.webhook.alerts import Alert, Status, group_of, is_of_the_job, of_condition, of_finding, over
from parallax.backoff import backoff
from parallax.findings.finding import Finding
from parallax.model import TopicPartition

MOST_ASKED_FOR_S = 3600.0
"""The longest wait, in seconds, that a receiver's Retry-After is granted."""
MOST_GROUPS = 50
"""How many partitions have messages of their own at a time; the others share one."""
OTHERS = TopicPartition("", -1)
"""The group of all partitions beyond `MOST_GROUPS`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long messages to a receiver wait, and how often they are repeated; all in seconds.

    Attributes:
        repeat_s: a message group on which somebody has to act is reported again after this time.
        wait_s: a message waits this long after the first news in it, so that it can report what changes with that: an
            election changes all findings of a partition, one after the other.
        interval_s: the shortest time between two messages of one group.
        retry_s: the wait after the first failed try; it doubles with each.
        retry_most_s: the longest wait after a failed try.
    """

    repeat_s: float
    wait_s: float = 10.0
    interval_s: float = 30.0
    retry_s: float = 1.0
    retry_most_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Message:
    """One message to one receiver: the present state of one message group.

    Attributes:
        group: the partition, or the group of a condition.
        alerts: first those on which somebody has to act, then acknowledged ones, then those that are over. Of each sort
            the gravest comes first. If only acknowledged ones are news, these come before all others.
        key: identifies the message, so that a receiver can drop it if it comes twice.
        turns: counts the group's changes, so that a receiver can tell a new call for help from a repeated one. It is
            even while somebody has to act, and odd while all alerts are acknowledged. If the group gets worse while
            somebody has to act, it goes up by two (`Alert.is_worse_than_told`).
    """

    group: TopicPartition
    alerts: tuple[Alert, ...]
    key: str
    turns: int = 0

    @property
    def rounds(self) -> int:
        """How often the group has called for help again. It does so when it gets worse, or after an acknowledgement."""
        return self.turns // 2

    @property
    def status(self) -> Status:
        """The status of the message as a whole, which is that of its first alert."""
        return self.alerts[0].status

    @property
    def is_in_part(self) -> bool:
        """Whether the message reports an acknowledgement of some alerts while others still need somebody."""
        return not self.is_firing and any(alert.status is Status.FIRING for alert in self.alerts)

    @property
    def is_firing(self) -> bool:
        """Whether the message says that somebody has to act."""
        return self.status is Status.FIRING


class Told(NamedTuple):
    """What a receiver was sent so far about one message group.

    Attributes:
        at: when the last message was delivered, seconds since 1970 UTC; None if there was none.
        turns: `Message.turns` of the last message that was tried.
    """

    at: float | None
    turns: int


@dataclass(slots=True)
class Group:
    """What is known about one message group, to decide when it is reported next. Times are seconds since 1970 UTC.

    Attributes:
        news_since: since when there is something that the receiver does not know; None if it knows everything.
        delivered_at: when the receiver last took a message; None if it has taken none.
        failures: how many tries in a row have failed.
        not_before: the time before which nothing is tried.
        turns: `Message.turns` of the last message that was tried. The receiver may have got that message even if it did
            not answer.
        is_asking: whether somebody has to act, so that the state is reported again and again.
    """

    news_since: float | None = None
    delivered_at: float | None = None
    failures: int = 0
    not_before: float = 0.0
    turns: int = 0
    is_asking: bool = True


class Outbox:
    """Knows all alerts of one receiver, what the receiver knows of them, and so which message is next. Not thread-safe.

    Args:
        pace: how long messages wait, and how often they are repeated.
        draw: random numbers that spread the retries.
        places: the cluster's name, and the links and commands for the texts.
    """

    def __init__(self, pace: Pace, draw: Random, places: Places | None = None) -> None:
        self._pace = pace
        self._places = places or Places()
        self._draw = draw
        self._alerts: dict[str, Alert] = {}
        self._groups: dict[TopicPartition, Group] = {}

    def restore(self, alerts: Iterable[Alert], told: Mapping[TopicPartition, Told], now: float) -> None:
        """Continue from the ``alerts`` and message groups that an earlier process has recorded. Call this first.

        ``told`` says by message group what the receiver was sent. ``now`` is in seconds since 1970 UTC.
        """
        for alert in alerts:
            self._alerts[alert.name] = alert
            at, turns = told.get(alert.group, Told(None, 0))
            self._groups.setdefault(alert.group, Group(delivered_at=at, turns=turns))
        self._look_for_news(now)

    @property
    def alerts(self) -> list[Alert]:
        """All alerts that the receiver knows, or that it has still to be sent."""
        return list(self._alerts.values())

    @property
    def told(self) -> dict[TopicPartition, Told]:
        """What the receiver was sent so far: a `Told` for each message group, by `Message.group`.

        It is recorded, so that the next process can continue from it (`restore`).
        """
        return {place: Told(group.delivered_at, group.turns) for place, group in self._groups.items()}

    def waiting_since(self) -> list[float]:
        """Since when each message group that has something to report has had it, in no order.

        The times are in seconds since 1970 UTC.
        """
        return [group.news_since for group in self._groups.values() if group.news_since is not None]

    def observe(self, standing: Sequence[Finding], now: float, ended: Iterable[Finding] = ()) -> bool:
        """Take in all findings that are not over at a moment. `due` then returns the messages about what has changed.

        Args:
            standing: all findings that are not over, acknowledged or not.
            now: the moment, seconds since 1970 UTC.
            ended: the last events of findings that are over, which say how they ended.

        Returns:
            Whether any alert has changed, so that the state has to be recorded.
        """
        self._not_ahead_of(now)
        events = {finding.finding_id: finding for finding in ended}
        there = [self._alert(finding) for finding in standing]
        over_by_now = {
            name: over(alert, datetime.fromtimestamp(now, UTC), self._places, events.get(name))
            for name, alert in self._alerts.items()
            if alert.ends_at is None and not alert.is_of_the_job
        }
        return self._take_in(there, over_by_now, now)

    def observe_job(self, suffered: Sequence[Suffered], now: float, pending: Collection[str], *, can_end: bool) -> bool:
        """Take in the conditions of the job that are true at a moment.

        `due` then returns the messages about what has changed.

        Args:
            suffered: the conditions that are worth a message.
            now: the moment, seconds since 1970 UTC.
            pending: the names of all conditions that are true, however shortly. If an earlier process reported one of
                these, it is not over.
            can_end: whether a condition that is in neither of these is over. If not, it may just not be known yet.

        Returns:
            Whether any alert has changed, so that the state has to be recorded.
        """
        self._not_ahead_of(now)
        # It was over before anybody was told that it had begun.
        unheard = {one.name for one in suffered if one.about.get("outcome") and self._is_unheard(one, now)}
        unsent = unheard & self._alerts.keys()
        for name in unsent:
            del self._groups[self._alerts.pop(name).group]
        suffered = [one for one in suffered if one.name not in unheard]
        for one in suffered:
            self._groups.setdefault(group_of(one), Group())
        there = [of_condition(one, self._alerts.get(one.name), self._places) for one in suffered]
        at = datetime.fromtimestamp(now, UTC)
        over_by_now = {
            name: over(alert, at, self._places)
            for name, alert in self._alerts.items()
            if alert.ends_at is None and alert.is_of_the_job and can_end and name not in pending
        }
        is_changed = self._take_in(there, over_by_now, now)
        return bool(unsent) or is_changed

    def _is_unheard(self, one: Suffered, now: float) -> bool:
        """Whether no message about a condition has been tried, since the first is not due yet."""
        if one.name not in self._alerts:
            return True
        group = self._groups[self._alerts[one.name].group]
        is_first = group.delivered_at is None and group.news_since is not None and not group.failures
        return is_first and now < self._due_at(group)

    def _take_in(self, there: Iterable[Alert], over_by_now: Mapping[str, Alert], now: float) -> bool:
        """Take in all alerts of one sort that are not over, and those that are over unless they are among the first."""
        before = dict(self._alerts)
        self._alerts |= {**over_by_now, **{alert.name: alert for alert in there}}
        self._look_for_news(now)
        return self._alerts != before

    def _alert(self, finding: Finding) -> Alert:
        known = self._alerts.get(finding.finding_id)
        group = self._group_of(finding.place) if known is None else known.group
        return of_finding(finding, known, group, self._places)

    def _group_of(self, place: TopicPartition) -> TopicPartition:
        own = [group for group in self._groups if group != OTHERS and not is_of_the_job(group)]
        is_alone = place in self._groups or len(own) < MOST_GROUPS
        found = place if is_alone else OTHERS
        self._groups.setdefault(found, Group())
        return found

    def _look_for_news(self, now: float) -> None:
        news = {alert.group for alert in self._alerts.values() if alert.is_news}
        asking = {alert.group for alert in self._alerts.values() if alert.status is Status.FIRING}
        for place, group in self._groups.items():
            group.is_asking = place in asking
            if place not in news:
                group.news_since = None
            elif group.news_since is None:
                group.news_since = now

    def due(self, now: float) -> Message | None:
        """The message to send now; None if none is due. Of several, it is the one that has waited longest.

        It counts as tried from now on, so record `told` before you send it.

        Args:
            now: the present, seconds since 1970 UTC.
        """
        self._not_ahead_of(now)
        ready = [(at, place) for place, group in self._groups.items() if (at := self._due_at(group)) <= now]
        return self._message(min(ready)[1]) if ready else None

    def next_at(self, now: float) -> float:
        """When the next message will be due, seconds since 1970 UTC; infinite if only a change can make one due.

        Args:
            now: the present, seconds since 1970 UTC.
        """
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
            is_told_again = group.is_asking and group.delivered_at is not None
            at = (group.delivered_at or 0.0) + pace.repeat_s if is_told_again else float("inf")
        else:
            at = max(group.news_since + pace.wait_s, (group.delivered_at or 0.0) + pace.interval_s)
        return max(at, group.not_before)

    def _message(self, place: TopicPartition) -> Message:
        order = list(Status)
        mine = sorted(
            (alert for alert in self._alerts.values() if alert.group == place),
            key=lambda a: (order.index(a.status), a.rank, a.starts_at, a.name),
        )
        group = self._groups[place]
        # A receiver that may know that somebody sees to all of it takes what follows for more of the same.
        says = {Status.FIRING: 0, Status.ACKNOWLEDGED: 1}.get(mine[0].status, group.turns % 2)
        news = {alert.status for alert in mine if alert.is_news}
        if Status.ACKNOWLEDGED in news and Status.FIRING not in news:
            mine.sort(key=lambda a: not (a.status is Status.ACKNOWLEDGED and a.is_news))
        if says != group.turns % 2:
            group.turns += 1
        elif any(alert.status is Status.FIRING and alert.is_worse_than_told for alert in mine):
            group.turns += 2  # Somebody may have taken it on where we cannot see it, while it was less grave.
        stands = [(a.name, a.said, a.ends_at and a.ends_at.isoformat()) for a in mine]
        said = json.dumps([place, group.delivered_at, stands])
        key = hashlib.sha256(said.encode()).hexdigest()
        # Nobody knows whether the receiver has these, until it says that it has taken this message.
        self._alerts |= {
            alert.name: replace(alert, tried=(*(one for one in alert.tried if one != alert.said), alert.said))
            for alert in mine
            if alert.is_news
        }
        return Message(place, tuple(mine), key, group.turns)

    def delivered(self, message: Message, now: float) -> None:
        """Take in that the receiver has taken a message of `due`.

        An alert that has changed since `due` is still news to the receiver, and is reported by a later message.

        Args:
            message: the message.
            now: the present, seconds since 1970 UTC.
        """
        for said in message.alerts:
            alert = self._alerts[said.name]
            if said.ends_at is None:
                self._alerts[said.name] = replace(alert, told=said.said, tried=())
            elif alert.ends_at is None:  # it has come back meanwhile
                self._alerts[said.name] = replace(alert, told=None, tried=())
            else:
                del self._alerts[said.name]
        if any(alert.group == message.group for alert in self._alerts.values()):
            self._groups[message.group] = Group(delivered_at=now, turns=message.turns)
        else:
            del self._groups[message.group]
        self._look_for_news(now)

    def failed(self, message: Message, now: float, asked_for_s: float = 0.0) -> float:
        """Take in that a message was not delivered, and set when its group is tried again.

        Args:
            message: the message, which `due` had returned.
            now: seconds since 1970 UTC.
            asked_for_s: how many seconds the receiver has asked to wait (its ``Retry-After``); 0 if it has not. More
                than `MOST_ASKED_FOR_S` count as that many.

        Returns:
            How many seconds from ``now`` on no message of the group is tried: at least ``asked_for_s``, and more with
                each failure in a row.
        """
        group = self._groups[message.group]
        group.failures += 1
        wait = backoff(group.failures, self._pace.retry_s, self._pace.retry_most_s, self._draw)
        wait = max(wait, min(asked_for_s, MOST_ASKED_FOR_S))
        group.not_before = now + wait
        return wait
