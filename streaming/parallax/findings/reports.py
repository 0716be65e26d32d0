"""Says when an event of an incident is due, and makes it.

It is due where an incident begins or ends, has come to count twice as many, or says something else than its last event.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from parallax.findings.acknowledgement import Gravity, status_of, still_acknowledged, worsened
from parallax.findings.ended import NO_REPAIR
from parallax.findings.finding import Finding, Repaired, asked_ms, claim_of, has_spread
from parallax.findings.groups import Groups, divergences, tells_of_more
from parallax.findings.held import NEVER
from parallax.findings.incident import incident_event, incident_id, part_of_incident, tally_of
from parallax.findings.members import MemberRow, Members, State
from parallax.findings.proven import Proven, state_of
from parallax.findings.who_led import NOT_KNOWN, WhoLed
from parallax.model import FindingStatus, TopicPartition

_ABSORBED = 4096
"""At most so many single findings become part of an incident with one event of it."""
_FORGET_AFTER = timedelta(hours=24)
"""For how long the members of an incident that is over are asked about again. They may become wrong again."""


class Reports:
    """The events of incidents that are due.

    Args:
        groups: what they report.
        retry_s: after how many seconds an event that could not be written is due again.
        alone: up to how many divergences of a group are findings by themselves.
        repaired: returns what is on record of an incident's repairs.
    """

    def __init__(self, groups: Groups, retry_s: float, alone: int, repaired: Repaired) -> None:
        self._groups, self._retry_s, self._alone, self._repaired = groups, retry_s, alone, repaired

    def due(self, now: float, at: datetime) -> tuple[list[Finding], list[MemberRow]]:
        """Return the events that are due now, and rows of the members that single findings become by them.

        Args:
            now: seconds of the monotonic clock.
            at: the time of day, for the events.
        """
        events: list[Finding] = []
        rows: list[MemberRow] = []
        for group, singles in self._groups.singles.items():
            if len(divergences(group, singles)) > self._alone:
                self._groups.proven_of(group)
        for group, proven in self._groups.proven.items():
            event = proven.event
            if event is not None and not event.stands and at - event.decided_at > _FORGET_AFTER:
                proven.forget()
            if self.report_at(proven) > now:
                continue
            proven.led = self._led(group.place)
            event = self._event(proven, at)
            known = proven.event
            if event.stands and known is not None and known.status is FindingStatus.ACKNOWLEDGED:
                # Single findings that it counts still become part of it, where a person knows all that it says.
                is_other = Gravity.of(event) != Gravity.of(known)
                news = worsened(event, known) or (still_acknowledged(event, known) if is_other else None)
                events += [news] if news is not None else []
                proven.writing, proven.retry_at = news is not None, now + self._retry_s
            else:
                events.append(event)
                proven.writing = True
            if event.stands:
                part = list(self._groups.singles.get(group, {}).values())[:_ABSORBED]
                events += [part_of_incident(single, event.finding_id, at) for single in part]
                rows += [MemberRow(group, True, claim_of(one), state_of(one), asked_ms(one)) for one in part]
        return events, rows

    def _led(self, place: TopicPartition) -> WhoLed:
        """Who leads a partition, by the newest look at anything of it."""
        known = [proven.led for group, proven in self._groups.proven.items() if group.place == place]
        single = [one for group, part in self._groups.singles.items() if group.place == place for one in part.values()]
        return NOT_KNOWN.then(*known, *map(WhoLed.of, single))

    def _event(self, proven: Proven, at: datetime) -> Finding:
        group, members = proven.group, proven.members
        singles = list(self._groups.singles.get(group, {}).values())
        offsets = [single.offset for single in singles]
        if proven.tally.count or proven.tally.shown:
            offsets += [proven.tally.lowest, proven.tally.highest]
        tally = replace(
            proven.tally,
            count=self._groups.number(proven),
            waiting=self._groups.undecided(group),
            ended=_ended(proven),
            lowest=min(offsets, default=-1),
            highest=max(offsets, default=-1),
            status=FindingStatus.CONFIRMED if singles else proven.tally.status,
            on_all=proven.tally.on_all or any(map(has_spread, singles)),
            beside=tuple(sorted(proven.beside)),
        )
        if not len(members) and singles:
            members = Members(group.place)
            members.add([claim_of(single) for single in singles[:_ABSORBED]], State.WRONG)
        finding_id = incident_id(self._groups.cluster_id, group)
        known = proven.event
        repaired = NO_REPAIR if tally.count or known is None else self._repaired(known)
        proofs, led, shows = proven.proofs, proven.led, proven.shows(singles)
        return incident_event(finding_id, group, tally, members, proofs, led, known, at, singles, repaired, shows=shows)

    def report_at(self, proven: Proven) -> float:
        """Return when an event of a group is due; infinite where there is none to report.

        It is due immediately where it begins, ends, or has come to count twice as many. Other news waits until members
        have been asked about again, since the partition may have another leader by then.
        """
        number, event = self._groups.number(proven), proven.event
        if proven.writing:
            return NEVER
        if event is None or not event.stands:
            return proven.retry_at if self._begins(proven, number) else NEVER
        if number == 0:
            return proven.retry_at if self._groups.is_at_rest(proven) else NEVER
        if number >= 2 * max(1, proven.reported) or self._groups.singles.get(proven.group):
            return proven.retry_at
        return proven.retry_at if proven.is_asked and self._has_news(proven, event) else NEVER

    def _begins(self, proven: Proven, number: int) -> bool:
        """Whether to report a group that is no incident, or was one: as a new incident, or as over."""
        if number > self._alone or proven.tally.of_others or (proven.event is not None and number > 0):
            # Of members that a process has proven and not reported, nobody knows yet whether the leader shows them.
            return bool(proven.proofs or not len(proven.members)) or self._groups.is_at_rest(proven)
        is_many = proven.event is not None or number + proven.tally.shown > self._alone
        return is_many and tells_of_more(proven) and self._groups.is_at_rest(proven)

    def _has_news(self, proven: Proven, event: Finding) -> bool:
        """Whether the state differs from the last event, and is not about to change again."""
        if not self._groups.is_at_rest(proven):
            return False
        number, before = self._groups.number(proven), proven.reported
        if not event.is_open and self._extent(proven).worse_than(Gravity.acknowledged(event)):
            return True
        if not event.is_open:
            was = (event.exposed, status_of(event), before)
            return (proven.leads, proven.tally.status, number) != was
        is_other = proven.leads != event.exposed or proven.tally.status is not event.status
        # As many may have come as have ended: then it counts others, and as many.
        is_other |= _ended(proven) != tally_of(event).ended
        return number != before or is_other or tells_of_more(proven)

    def _extent(self, proven: Proven) -> Gravity:
        group = proven.group
        return Gravity(group.kind, proven.tally.status, group.broker, proven.leads, count=self._groups.number(proven))


def _ended(proven: Proven) -> dict[str, int]:
    """Return how many members are not wrong any more, by how they ended."""
    return {name: number for name, number in proven.ended.items() if number}


__all__ = ["Reports"]
