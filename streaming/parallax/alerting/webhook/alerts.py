"""What receivers get messages about: *alerts*, each on one finding or one condition of the job, with texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from parallax.alerting.conditions import CONDITIONS, UNSAID, Suffered, fields
from parallax.alerting.listing import (
    ALARMS,
    FindingState,
    Turn,
    headline,
    is_worse,
    over_in_words,
    state_of,
    turn_of,
    what_came_of_it,
    what_it_was,
)
from parallax.alerting.places import Places
from parallax.findings.acknowledgement import acknowledgement_of
from parallax.findings.explain import runbook_of
from parallax.findings.finding import Finding, shown_offset
from parallax.findings.in_brief import was_in_words
from parallax.findings.repair import show_record
from parallax.model import Severity, TopicPartition, broker_label
from parallax.runbook import section

_OF_THE_JOB = -2
"""The partition number of a message group about a condition of the job. Its topic is the condition's name."""
_ACKNOWLEDGED = "acknowledged"
TURN = "turn"
"""The annotation that says how a finding differs from what the receiver knows."""
OF_THE_END = _WAS, _OUTCOME = "resolved_summary", "resolved_description"
"""The annotations that say what was the matter, and how it ended. The rules have them as well.

No receiver is sent them of an alert that is not over. While a finding is not over, the first says what to call it then.
"""
_ADVICE = frozenset({"record_command", "runbook_url", "kind_runbook_url"})
"""The annotations that say what to look at and to do. They are left out once nothing is to be done."""


def stands_in_words(by: str) -> str:
    """The words that come before the headline of an acknowledged finding; ``by`` is the person who acknowledged it."""
    return f"Acknowledged by {by}, still open: "


def group_of(suffered: Suffered) -> TopicPartition:
    """The message group of a condition of the job, in the form of a partition.

    Its topic is `Suffered.name`, and its number is -2. Alerts of one group are one incident in PagerDuty, and a person
    who has acknowledged an incident there gets no more messages about it. So two conditions are in one group only if
    one makes the other worse.
    """
    return TopicPartition(suffered.name, _OF_THE_JOB)


def is_of_the_job(group: TopicPartition) -> bool:
    """Whether a message group is that of a condition of the job. Otherwise it is that of a partition's findings."""
    return group.partition == _OF_THE_JOB


class Status(StrEnum):
    """Whether an alert, or a message about several, wants somebody to act."""

    FIRING = "firing"
    """Somebody has to act."""
    ACKNOWLEDGED = "acknowledged"
    """It is not over, and somebody has said that no more alarm is wanted."""
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """One finding, or one condition of the job, as a receiver gets it.

    Attributes:
        name: the finding's id, or the condition's name with its labels.
        group: its message group: the partition, or a group for the condition (`group_of`).
        state: the `FindingState` of a finding, or the name of the condition; if it is over, the last one.
        starts_at: when it began.
        ends_at: when it was seen to be over; None if it is not.
        `told`: what the last delivered message said about it (`said`). None if there was none.
        tried: what later messages said, the oldest first. Nobody knows which of them arrived.
        labels: the labels that identify it.
        annotations: the texts about it, by name.
        is_acknowledged: whether somebody has said that no more alarm is wanted.
    """

    name: str
    group: TopicPartition
    state: str
    starts_at: datetime
    ends_at: datetime | None = None
    told: str | None = None
    tried: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_acknowledged: bool = False

    @property
    def status(self) -> Status:
        """Whether the alert wants somebody to act (firing), is acknowledged, or is over (resolved)."""
        if self.ends_at is not None:
            return Status.RESOLVED
        return Status.ACKNOWLEDGED if self.is_acknowledged else Status.FIRING

    @property
    def said(self) -> str:
        """What a message says about the alert: its state, with "acknowledged" if it is, or "resolved"."""
        if self.ends_at is not None:
            return str(Status.RESOLVED)
        return f"{self.state} {_ACKNOWLEDGED}" if self.is_acknowledged else str(self.state)

    @property
    def is_news(self) -> bool:
        """Whether the receiver must be sent a message about the alert.

        True if the alert is over, or if its state or acknowledgement differs from what the last delivered message said.
        True as well if nobody knows whether a later message arrived. An acknowledged one is news only once.
        """
        if self.ends_at is not None or self.tried:
            return True
        is_known = self.is_acknowledged and (self.told or "").endswith(_ACKNOWLEDGED)
        return self.told != self.said and not is_known

    @property
    def is_of_the_job(self) -> bool:
        """Whether the alert is about a condition of the job. Otherwise it is about a finding."""
        return self.state in CONDITIONS

    @property
    def alertname(self) -> str:
        """The name of the alert, e.g. ``ParallaxDivergenceConfirmed``; its section of docs/runbook.md has the same."""
        return self.state if self.is_of_the_job else ALARMS[FindingState(self.state)].name

    @property
    def severity(self) -> Severity:
        """How grave the alert is."""
        one = CONDITIONS[self.state] if self.is_of_the_job else ALARMS[FindingState(self.state)]
        return one.severity

    @property
    def is_worse_than_told(self) -> bool:
        """Whether the alert is critical, and graver than some message said that the receiver may have.

        Then people are notified again. False for a message that is tried again: the first try notified them.
        """
        if self.tried and self.tried[-1] == self.said:
            return False
        return any(self._is_worse_than(_state_in(one)) for one in (self.told, *self.tried))

    def _is_worse_than(self, before: str | None) -> bool:
        if before is None:
            return False
        if self.is_of_the_job:
            is_critical = self.severity is Severity.CRITICAL
            return is_critical and replace(self, state=before).severity is not Severity.CRITICAL
        return is_worse(FindingState(before), FindingState(self.state))

    @property
    def rank(self) -> int:
        """How grave the alert's state is, as a number; the gravest is 0."""
        if self.is_of_the_job:
            return _rank(self.state)
        return list(FindingState).index(FindingState(self.state))


def of_finding(finding: Finding, known: Alert | None, group: TopicPartition, places: Places) -> Alert:
    """Make the alert about a finding that is not over.

    Args:
        finding: the finding's last event, acknowledged or not.
        known: the alert about the finding so far; None if there is none.
        group: its message group, which is usually its partition.
        places: the cluster's name, and the links and commands for the text.
    """
    state, said = state_of(finding), acknowledgement_of(finding)
    name, broker = ALARMS[state].name, broker_label(finding.broker)
    summary = places.named(headline(state, finding))
    turn = "" if said is not None else _turn(known, state)
    annotations = {
        TURN: turn,
        "summary": f"{turn}{summary}" if said is None else f"{stands_in_words(said.by)}{summary}",
        "description": finding.summary,
        "kind": str(finding.kind),
        "broker_id": broker,
        "record_offset": str(shown_offset(finding)),
        "command": places.explain(finding.finding_id),
        "record_command": show_record(finding, places.shell),
        "page_url": places.page_of_finding(finding.finding_id),
        "runbook_url": section(places.runbook, name),
        "kind_runbook_url": runbook_of(finding, places.runbook),
        _WAS: was_in_words(finding),
    }
    if said is not None:
        about = {"by": said.by, "comment": said.reason, "at": said.at.isoformat()}
        annotations |= {f"{_ACKNOWLEDGED}_{what}": text for what, text in about.items()}
    return Alert(
        name=finding.finding_id,
        group=group,
        state=state,
        starts_at=finding.decided_at if known is None else known.starts_at,
        told=None if known is None else known.told,
        tried=() if known is None else known.tried,
        labels={
            "topic": finding.topic,
            "partition": str(finding.partition),
            "finding_id": finding.finding_id,
        },
        annotations={what: text for what, text in annotations.items() if text},
        is_acknowledged=said is not None,
    )


def _turn(known: Alert | None, state: FindingState) -> str:
    """Words before the headline of a finding that differs from what the receiver knows; else empty.

    Where messages were tried that may have arrived, only words that hold whichever of them did.
    """
    if known is None:
        return ""
    found = {_since(one, state) for one in (known.told, *(one for one in known.tried if one != state))}
    return found.pop() if len(found) == 1 else ""


def _since(told: str | None, state: FindingState) -> str:
    """How a finding has changed since a message said something of it."""
    if (told or "").endswith(_ACKNOWLEDGED):  # only what is worse than was acknowledged is acknowledged no more
        return Turn.WORSE
    before = _state_in(told)
    return "" if before is None or before == state else turn_of(FindingState(before), state)


def _state_in(told: str | None) -> str | None:
    """The state that a message gave; None if it gave none, or if this version of Parallax has no such state."""
    before = (told or "").removesuffix(f" {_ACKNOWLEDGED}")
    return before if before in CONDITIONS or before in {str(state) for state in FindingState} else None


def of_condition(suffered: Suffered, known: Alert | None, places: Places) -> Alert:
    """Make the alert about a condition of the job. Until the condition is over, the alert becomes no less grave.

    Args:
        suffered: the condition, and since when it is true.
        known: the alert about the condition so far; None if there is none.
        places: the cluster's name, and the links and commands for the text.
    """
    # A story that has become worse is reported as worse until it is over. So each receiver gets its beginning, its
    # worsening, and its end.
    state = suffered.alertname
    if known is not None and known.ends_at is None and known.rank < _rank(state):
        state = known.state
    condition = CONDITIONS[state]
    said = {**UNSAID, **suffered.about, **suffered.labels, **fields(places.shell, suffered.labels)}
    annotations = {
        "summary": places.named(condition.headline.format_map(said)),
        "description": condition.description.format_map(said),
        "page_url": places.page_of(),
        "runbook_url": section(places.runbook, state),
        _OUTCOME: suffered.about.get("outcome", ""),
    }
    return Alert(
        name=suffered.name,
        group=group_of(suffered),
        state=state,
        starts_at=suffered.since if known is None else known.starts_at,
        told=None if known is None else known.told,
        tried=() if known is None else known.tried,
        labels=dict(suffered.labels),
        annotations={what: text for what, text in annotations.items() if text},
    )


def _rank(state: str) -> int:
    """Of a condition: the lower, the graver."""
    return int(CONDITIONS[state].severity is not Severity.CRITICAL)


def over(alert: Alert, at: datetime, places: Places, event: Finding | None = None) -> Alert:
    """Make the last alert about something that is over: what was wrong, and how it ended. It advises nothing.

    Args:
        alert: the alert as it was.
        at: when it was seen to be over.
        places: the cluster's name, and the links and commands for the text.
        event: the last event of the finding; None if it is not known, or if the alert is about a condition.
    """
    if alert.is_of_the_job:
        condition = CONDITIONS[alert.state]
        said = {**UNSAID, **alert.annotations, **alert.labels, **fields(places.shell, alert.labels)}
        summary = places.named(condition.was.format_map(said))
        how = alert.annotations.get(_OUTCOME) or condition.left.format_map(said)
    else:
        place = f"{alert.labels['topic']}-{alert.labels['partition']}"
        was = alert.annotations.get(_WAS, f"Replicas of {place} differed")
        summary = places.named(over_in_words(was if event is None else was_in_words(event), event))
        how = what_it_was(alert.annotations.get("description", ""))
        how = how if event is None else what_came_of_it(event, places.shell)
    said = {what: text for what, text in alert.annotations.items() if what != TURN and what not in _ADVICE}
    end = {"summary": summary, "description": how, _WAS: summary, _OUTCOME: how}
    return replace(alert, ends_at=at, annotations={**said, **end})
