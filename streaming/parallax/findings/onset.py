"""Decides since when a broker has shown what a finding reports.

A broker that was seen to show otherwise began to show it after that look, and by the first look at which it was seen to
show it. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from parallax.findings.answers import ABORTED, Answers, ReplicaAnswer, value_shown
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, Decision
from parallax.kinds import KINDS, Proves
from parallax.model import NOBODY, UNKNOWN, FindingKind
from parallax.moments import from_milliseconds, milliseconds
from parallax.sides import OUTCOMES, Shows, Side

ONSETS = "onsets"
"""Key in an event's evidence: by broker, its `Onset`; absent in events of an earlier version."""


SINCE_EPOCH = "since_epoch"
"""Key in an event's evidence: the leader epoch before which nothing can have been wrong (`since_epoch`)."""

_WRITTEN = (Proves.TOMBSTONE, Proves.END_MARKER, Proves.OWN_END_MARKER, Proves.RECORD)


class Onset(NamedTuple):
    """Between which two looks a broker began to show what a finding reports.

    Attributes:
        after: the last look at which it showed otherwise, before it was first seen to show it; None if there is none.
        by: the first look at which it was seen to show it; None if there is none.
    """

    after: datetime | None = None
    by: datetime | None = None


def since_epoch(kind: FindingKind, claims: Sequence[Claim], known: Mapping[str, Any] | None) -> int:
    """Return the leader epoch before which no replica can have shown wrongly what a finding reports; -1 if unknown.

    A replica is wrong by a tombstone, an end marker or a record. So it was not before that was written. What proves a
    finding may change: then the lowest epoch counts. A kind that something else proves has none.

    Args:
        kind: the finding's kind.
        claims: the claims that it is about now.
        known: the evidence of the finding's last event; None for a new finding.
    """
    epochs = [_epoch(claim.recorded) for claim in claims] if KINDS[kind].proof in _WRITTEN else [UNKNOWN]
    epochs += [] if known is None else [int(known.get(SINCE_EPOCH, UNKNOWN))]
    return min(epochs, default=UNKNOWN)


def _epoch(recorded: RecordedByViews) -> int:
    """The leader epoch of what proves a claim; -1 if unknown, as where a lower end marker may have been cleaned."""
    return UNKNOWN if recorded.end_unproven else recorded.leader_epoch


def onsets_in(evidence: Mapping[str, Any]) -> dict[int, Onset]:
    """Return by broker what the evidence of a finding's last event says of its onset."""
    return {int(broker): Onset(*map(_at, one)) for broker, one in evidence.get(ONSETS, {}).items()}


def noted(
    known: Mapping[int, Onset], showing: Collection[int], otherwise: Mapping[int, datetime], at: datetime
) -> dict[str, list[int | None]]:
    """Return the onsets for the evidence of a new event, which `onsets_in` reads.

    Args:
        known: those in the finding's last event.
        showing: the brokers that are now seen to show what the finding reports.
        otherwise: by broker, the last look at which it showed otherwise.
        at: when the replicas were asked now.
    """
    found = dict(known)
    for broker, looked in otherwise.items():
        one = found.get(broker, Onset())
        if one.by is None and (one.after is None or one.after < looked):
            found[broker] = one._replace(after=looked)
    for broker in showing:
        if (one := found.get(broker, Onset())).by is None:
            found[broker] = one._replace(by=at)
    return {str(broker): [_milliseconds(one.after), _milliseconds(one.by)] for broker, one in sorted(found.items())}


def asked_at(answers: Answers, at: datetime) -> datetime:
    """Return when the replicas were asked; ``at`` if their answers do not say."""
    return _at(answers.asked_at_ms or None) or at


def showing_otherwise(claim: Claim, decision: Decision, answers: Answers) -> frozenset[int]:
    """Return the brokers whose answers to a probe show otherwise than the accused.

    What was only recorded of a replica does not count: its log may have been replaced since.

    Args:
        claim: the claim that was judged.
        decision: the decision on it, with its sides. If it accuses nobody, the result is empty.
        answers: the replicas' answers.
    """
    if decision.verdict is not ClaimState.CONFIRMED or decision.accused == NOBODY:
        return frozenset()
    against = {side: on for side, on in decision.sides.items() if decision.accused not in on}
    answered = {broker: one for broker, one in answers.replicas.items() if one.error is None}
    return frozenset(
        b for side, on in against.items() for b in on if b in answered and _shows(answered[b], side, claim)
    )


def _shows(answer: ReplicaAnswer, side: Side, claim: Claim) -> bool:
    """Whether a replica's answer by itself puts it on a side."""
    match side.shows:
        case shows if shows in OUTCOMES:
            record = answer.committed.get(claim.first_offset)
            is_listed = (claim.producer_id, claim.transaction_start_offset) in answer.aborted
            return (record is not None and record.outcome == shows) or (is_listed and shows == ABORTED)
        case Shows.VALUE:
            return answer.live is not None and value_shown(answer.live) == side
        case Shows.NO_VALUE:
            return answer.live is None and answer.key is not None and answer.key.complete
        case Shows.CONTENT:
            return answer.at(claim.first_offset) is not None
        case shows:
            return shows not in (Shows.NOT_READ, Shows.ENDED_AS_READ)


def _at(value: int | None) -> datetime | None:
    return None if value is None else from_milliseconds(value)


def _milliseconds(at: datetime | None) -> int | None:
    return None if at is None else milliseconds(at)


__all__ = [
    "ONSETS",
    "SINCE_EPOCH",
    "Onset",
    "asked_at",
    "noted",
    "onsets_in",
    "showing_otherwise",
    "since_epoch",
]
