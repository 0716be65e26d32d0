"""The list of findings that are reported one by one, each as an alert of its own.

Each finding that is not over has one state. A finding that is over stays in the list for an hour. An acknowledged
finding keeps its state, so that no alert says that it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from parallax.findings.acknowledgement import status_of
from parallax.findings.exposure import was_readable
from parallax.findings.finding import Finding, effect_in, is_gone, is_reported_elsewhere
from parallax.findings.in_brief import ended_in_words, is_sure, was_in_words
from parallax.kinds import KINDS, OPEN_KINDS
from parallax.model import FindingStatus, Severity, broker_label
from parallax.shell import Shell

MOST = 500
"""How many findings are listed: first those that already are, then by state. The others are only counted."""
_ID_CHARACTERS = 8
OVER_FOR_S = 3600.0
"""How many seconds a finding that is over is listed without a state. So even a late scrape sees it end."""


class FindingState(StrEnum):
    """The state of a finding that is not over; it decides which alert reports the finding.

    The members are in order: a finding has the first state that applies to it.
    """

    SPREAD = "spread"
    """All replicas are wrong in the same way, so none is known to be right."""
    EXPOSED = "exposed"
    """Consumers of the leader get what the accused shows (`parallax.findings.finding.Finding.exposed`)."""
    CONFIRMED = "confirmed"
    UNSETTLED = "unsettled"
    """No replica is proven wrong any more, and nothing has proven that all are right."""
    WARNING = "warning"
    """Confirmed, and of a kind that pages nobody: only ``marker_missing``, after which the alert is named."""


class Alarm(NamedTuple):
    """The alert that reports findings in one state.

    Attributes:
        name: the alert's name, which its section of docs/runbook.md has as well.
        severity: how grave the alert is.
        adds: the words that this alert adds to what is wrong.
    """

    name: str
    severity: Severity
    adds: str = ""


ALARMS: Mapping[FindingState, Alarm] = {
    FindingState.SPREAD: Alarm("ParallaxLossComplete", Severity.CRITICAL),
    FindingState.EXPOSED: Alarm("ParallaxDivergenceExposed", Severity.CRITICAL, "; the leader {is_} wrong"),
    FindingState.CONFIRMED: Alarm("ParallaxDivergenceConfirmed", Severity.CRITICAL),
    FindingState.UNSETTLED: Alarm("ParallaxDivergenceUnsettled", Severity.WARNING),
    FindingState.WARNING: Alarm("ParallaxMarkerMissing", Severity.WARNING),
}


def headline(state: FindingState, finding: Finding) -> str:
    """One line about a finding: which broker is accused of what in which partition, and what the state adds.

    Args:
        state: the state of the finding.
        finding: its last event.
    """
    broker, kind, place = broker_label(finding.broker), finding.kind, finding.place.name
    if state is FindingState.UNSETTLED:
        whose = f", broker {broker}" if broker else ""
        return f"Replicas of {place} differed; nothing proves one wrong or right now ({kind}{whose})"
    adds = ALARMS[state].adds.format(is_="is" if is_sure(finding) else "may be")
    if not broker:
        if state is FindingState.SPREAD:
            return f"Replicas of {place} differed; no replica is known to be right ({kind})"
        return f"Replicas of {place} differ{adds} ({kind}; nothing proves which is right)"
    one = KINDS[kind]
    led = one.led if state in (FindingState.EXPOSED, FindingState.SPREAD) else one.not_led
    return f"{effect_in(finding).headline}{led}".format(broker=broker, partition=place) + adds


def over_in_words(was: str, event: Finding | None = None) -> str:
    """One line about a finding that is not reported any more: what it was, and how it ended.

    As in ``Broker 2 lacked a record of orders-0, or showed an older one; it was repaired``.

    Args:
        was: what it was (`was_in_words`).
        event: the finding's last event, which says how it ended; None if it is not known.
    """
    how = "" if event is None else ended_in_words(event)
    return f"{was}; {how or 'that is over'}"


def what_came_of_it(event: Finding, shell: Shell) -> str:
    """The text about a finding that is over: how it ended, and the command that shows which groups may have read it.

    The command is left out where no consumer can have read it, where no group's offsets are left, and where another
    finding reports the same. Where nobody knows whether a wrong replica led, the text says so.

    Args:
        event: the finding's last event.
        shell: how the command names the job.
    """
    could = was_readable(event)
    if could is False or event.kind in OPEN_KINDS or is_gone(event) or is_reported_elsewhere(event):
        return event.summary
    command = shell.parallax("findings", "readers", event.finding_id[:_ID_CHARACTERS])
    which = (
        "Which groups may have read it"
        if could
        else "Whether consumers could read it is not known; which groups may have"
    )
    return f"{event.summary} {which}: {command}"


def what_it_was(said: str) -> str:
    """The text about something that is over, if nobody knows how it ended: ``Over. It was: ...``.

    Args:
        said: its headline in the past tense.
    """
    return f"Over. It was: {said}"


def is_worse(before: FindingState, now: FindingState) -> bool:
    """Whether a new state is worse than the one before, and critical. Then people are notified again."""
    order = list(FindingState)
    return ALARMS[now].severity is Severity.CRITICAL and order.index(now) < order.index(before)


class Turn(StrEnum):
    """What has changed about a finding that was reported before, as words before its headline.

    Alerts, messages and metrics use these words, so that one change has one text.
    """

    WORSE = "It has become worse: "
    """It is graver than before, or than what somebody acknowledged."""
    LESS = "Less grave now: "
    """It is less grave than before."""
    OTHER = "It has changed: "
    """It is graver than before, and pages nobody."""


def turn_of(before: FindingState, now: FindingState) -> Turn:
    """Return how the state of a finding has changed.

    Args:
        before: the state before the change.
        now: the state since.
    """
    if is_worse(before, now):
        return Turn.WORSE
    order = list(FindingState)
    return Turn.LESS if order.index(now) > order.index(before) else Turn.OTHER


class Listed(NamedTuple):
    """One finding of the list, as alerts and messages report it.

    Attributes:
        finding: the finding's last known event.
        state: the finding's state; None if it is over.
        turn: the last change of its state, as a `Turn`; empty if it has not changed.
        is_ended: whether the finding's last event is known, which says how the finding ended.
    """

    finding: Finding
    state: FindingState | None
    turn: str = ""
    is_ended: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the finding is over. It is listed for an hour more."""
        return self.state is None

    @property
    def headline(self) -> str:
        """One line that says what the finding is, or what it was if it is over."""
        finding = self.finding
        if self.state is None:
            return over_in_words(was_in_words(finding), finding if self.is_ended else None)
        return headline(self.state, finding)


def state_of(finding: Finding) -> FindingState:
    """The state of a finding that is not over. An acknowledgement does not change it."""
    status = status_of(finding)
    if status is FindingStatus.SPREAD:
        return FindingState.SPREAD
    if status is FindingStatus.UNSETTLED:
        return FindingState.UNSETTLED
    if finding.exposed:
        return FindingState.EXPOSED
    return FindingState.WARNING if finding.severity is Severity.WARNING else FindingState.CONFIRMED


class Listing:
    """Keeps the list of findings to report.

    It has the findings that are not over, and those that ended within the last hour. More than `MOST` are not listed.
    """

    def __init__(self) -> None:
        self._open: dict[str, Listed] = {}
        self._over: dict[str, tuple[Listed, float]] = {}
        self.left_out = 0
        """Findings that stand and are not listed."""

    def observe(self, standing: Sequence[Finding], now: float, ended: Iterable[Finding] = ()) -> None:
        """Update the list from all findings that are not over at a moment.

        Unacknowledged findings come first, then the gravest states. A listed finding stays in the list until it is
        over: if it left earlier, its alert would seem to be over.

        Args:
            standing: all findings that are not over.
            now: the moment, seconds on any running clock.
            ended: the last events of findings that are over, which say how they ended.
        """
        order = list(FindingState)
        ranked = sorted(standing, key=lambda f: (not f.is_open, order.index(state_of(f)), f.decided_at, f.finding_id))
        first = [f for rank, f in enumerate(ranked) if rank < MOST or f.finding_id in self._open]
        self.left_out = len(standing) - len(first)
        listed = {finding.finding_id: self._listed(finding) for finding in first}
        events = {finding.finding_id: finding for finding in ended}
        for name, one in self._open.items():
            if name not in listed:
                event = events.get(name)
                self._over[name] = Listed(event or one.finding, None, one.turn, event is not None), now
        self._over = {
            name: (one, since)
            for name, (one, since) in self._over.items()
            if name not in listed and now - since < OVER_FOR_S
        }
        self._open = listed

    def _listed(self, finding: Finding) -> Listed:
        known, state = self._open.get(finding.finding_id), state_of(finding)
        if known is None or known.state is None:
            return Listed(finding, state)
        return Listed(finding, state, known.turn if known.state is state else turn_of(known.state, state))

    def listed(self) -> tuple[Listed, ...]:
        """The findings that are not over, then those that ended within the last hour."""
        return (*self._open.values(), *(one for one, _ in self._over.values()))
