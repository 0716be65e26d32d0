"""What happened to a finding and when, for its page: suspected, confirmed, acknowledged, over.

Pure functions of the finding's events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from parallax.findings.acknowledgement import is_by_a_person
from parallax.findings.finding import Finding, asked_at, evidence_of
from parallax.findings.in_brief import Seen, seen
from parallax.findings.summary import asked_in_words
from parallax.model import FindingStatus
from parallax.moments import roughly

_MOST_OFFSETS = 5
"""How many of the offsets that a probe asked about are named."""
_ENDS = {"healed": "repaired", "superseded": "overwritten", "object_gone": "gone"}
"""By resolution, the word for a resolved finding whose evidence says more than that it is over."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened to a finding, as a row of the page's table.

    Attributes:
        at: when it happened.
        what: what happened, in a word or two: ``suspected``, ``confirmed``, ``seen by consumers`` and so on.
        later: how long after the suspicion it happened, as text; empty for the suspicion itself.
        text: a sentence on what was found then.
        asked: which brokers were asked, for what and when, as text; empty if none was asked.
    """

    at: datetime
    what: str
    later: str
    text: str
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """One step that a finding's life usually has, and when this finding reached it.

    Attributes:
        what: ``suspected``, ``confirmed``, ``seen by consumers``, ``acknowledged``, or how the finding ended. It is
            ``led by a wrong replica`` if the leader never showed what is wrong.
        at: when the finding reached the step; None if it has not.
        otherwise: what to show instead of a time if the finding has not reached the step.
    """

    what: str
    at: datetime | None
    otherwise: str = "not yet"


def moments(events: Sequence[Finding]) -> list[Moment]:
    """Everything that happened to a finding, in the order of time. The suspicion comes first.

    Args:
        events: all events of this finding, the oldest first; at least one.
    """
    began = events[0].first_suspected_at
    made = [Moment(began, "suspected", "", "What Parallax reads of the replicas differed.")]
    was = Seen.NO
    for event in events:
        at, how = event.decided_at, seen(event)
        later = f"{roughly((at - began).total_seconds())} later"
        made.append(Moment(at, _what(event), later, event.summary, _asked(event)))
        if how is not was and event.stands:
            made.append(Moment(at, _SEEN[how], later, _SHOWN[how]))
        was = how
    return made


_SEEN = {
    Seen.YES: "seen by consumers",
    Seen.PERHAPS: "perhaps seen by consumers",
    Seen.NO: "no longer seen by consumers",
}
_NOT_LED = "led by a wrong replica"
"""The step that a finding has not reached whose wrong replica never led. Those that fetch from it read it even so."""
_SHOWN = {
    Seen.YES: "From this probe on it is known that consumers can see it.",
    Seen.PERHAPS: "From this probe on it is known that one of the sides leads; whether it is wrong is not known.",
    Seen.NO: "The leader shows it no more. Consumers that fetch from a follower (client.rack) may still get it.",
}


def phases(events: Sequence[Finding]) -> list[Phase]:
    """The steps that a finding's life usually has, each with the time at which this finding reached it.

    Args:
        events: all events of this finding, the oldest first; at least one.
    """
    last = events[-1]

    def first(*statuses: FindingStatus) -> datetime | None:
        return next((event.decided_at for event in events if event.status in statuses), None)

    ended = None if last.stands else last.decided_at
    open_ended = "not yet" if last.stands else "no"
    return [
        Phase("suspected", events[0].first_suspected_at),
        Phase("confirmed", first(FindingStatus.CONFIRMED, FindingStatus.SPREAD, FindingStatus.UNSETTLED), "no"),
        _seen_first(events),
        Phase("acknowledged", first(FindingStatus.ACKNOWLEDGED), open_ended),
        Phase("resolved" if last.stands else _what(last), ended),
    ]


def _seen_first(events: Sequence[Finding]) -> Phase:
    """When consumers first saw it; else, when they first may have seen it."""
    first = {how: event.decided_at for event in reversed(events) if (how := seen(event))}
    reached = next((one for one in (Seen.YES, Seen.PERHAPS) if one in first), None)
    return Phase(_NOT_LED, None, "no") if reached is None else Phase(_SEEN[reached], first[reached])


def _what(event: Finding) -> str:
    if event.status is not FindingStatus.RESOLVED:
        return str(event.status)
    return _ENDS.get(str(evidence_of(event).get("resolution")), str(event.status))


def _asked(event: Finding) -> str:
    """Whom Parallax asked about what for an event; empty if a person made it."""
    evidence = evidence_of(event)
    if is_by_a_person(event) or not evidence.get("replicas"):
        return ""
    replicas: dict[str, dict[str, Any]] = evidence["replicas"]
    answered = [broker for broker, answer in replicas.items() if answer.get("error") is None]
    silent = [broker for broker in replicas if broker not in answered]
    said = [f"A{asked_in_words(asked_at(event))[1:]}: {_brokers(answered) or 'no broker'} answered"]
    if silent:
        said.append(f"{_brokers(silent)} did not")
    said.append(_about(replicas, event))
    coordinator = evidence.get("coordinator")
    if isinstance(coordinator, dict):
        said.append(f"the transaction coordinator said {coordinator.get('state', 'nothing')}")
    return f"{'; '.join(said)}."


def _about(replicas: dict[str, dict[str, Any]], event: Finding) -> str:
    known = {o for a in replicas.values() for o in (*_numbers(a.get("asked")), *_numbers(a.get("asked_uncommitted")))}
    offsets = sorted(known or {o for o in (event.offset, event.marker_offset) if o >= 0})
    named = ", ".join(f"{offset:,}" for offset in offsets[:_MOST_OFFSETS])
    more = f" and {len(offsets) - _MOST_OFFSETS:,} more" if len(offsets) > _MOST_OFFSETS else ""
    parts = [f"offset{'s' if len(offsets) > 1 else ''} {named}{more}"] if offsets else []
    if any(answer.get("key") for answer in replicas.values()):
        parts.append("the newest record of the key")
    if any(answer.get("open_transactions") is not None for answer in replicas.values()):
        parts.append("open transactions")
    return f"asked for {', '.join([*parts, 'the ends of the log'])}"


def _numbers(part: Any) -> list[int]:
    return [one for one in part if isinstance(one, int)] if isinstance(part, list) else []


def _brokers(brokers: Sequence[str]) -> str:
    *first, last = brokers or [""]
    return f"brokers {', '.join(first)} and {last}" if first else f"broker {last}" if last else ""
