"""How each replica has ended the claim's transaction: as it shows now, or else as was recorded."""

from __future__ import annotations

from collections.abc import Mapping

from parallax.findings.answers import ABORTED, COMMITTED, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import Case
from parallax.findings.decide.lineage import end_shown, has_lost_its_end, is_another_log, lists_as_aborted
from parallax.model import UNKNOWN, FindingKind
from parallax.sides import Side, by_broker


def live_outcome(claim: Claim, answer: ReplicaAnswer) -> str | None:
    """Return the outcome that a replica gives the claim's record now: committed or aborted.

    The record itself shows it. If the replica no longer holds the record, its list of aborted transactions does. The
    result is None while the record is above the replica's last stable offset, and if another producer's record is at
    its offset.
    """
    if answer.last_stable_offset <= claim.first_offset:
        return None
    shown = answer.committed.get(claim.first_offset)
    if shown is not None and shown.outcome in (COMMITTED, ABORTED):
        known = UNKNOWN not in (shown.producer_id, claim.producer_id)
        # If another log replaced this one, another producer's record may be there.
        return None if known and shown.producer_id != claim.producer_id else shown.outcome
    if shown is None and lists_as_aborted(claim, answer, claim.transaction_start_offset):
        return ABORTED
    return None


def live_outcomes(case: Case) -> dict[int, str]:
    """Return by broker the outcome that it gives the claim's record now; brokers without one are left out.

    Replicas whose log holds something else there are left out as well.
    """
    others = [a for a in case.others if not is_another_log(case.claim, a)]
    found = {a.broker: live_outcome(case.claim, a) for a in (case.accused, *others)}
    return {broker: own for broker, own in found.items() if own is not None}


def ended_now(case: Case) -> frozenset[int]:
    """Return the brokers that now show an outcome of the claim's record, or hold the claim's end marker."""
    shown = live_outcomes(case).keys() | {a.broker for a in case.others if end_shown(case.claim, a) is not None}
    return frozenset(shown)


def outcomes_of_others(case: Case) -> dict[int, str]:
    """Return by broker, without the accused, the outcome that it gives the claim's record.

    It is the outcome that the broker shows now. If it shows none, its end marker says it, or else what was recorded.
    """
    claim = case.claim
    truth = {broker: ended_by(marker) for broker, marker in claim.recorded.markers.items()}
    truth |= claim.recorded.outcomes
    for answer in case.others:
        if is_another_log(claim, answer):
            truth.pop(answer.broker, None)
            continue
        if answer.last_stable_offset <= claim.first_offset or has_lost_its_end(claim, answer):
            # Outcomes never change: what it showed belongs to a truncated log, or it cannot show it yet.
            truth.pop(answer.broker, None)
        if (marker := end_shown(claim, answer)) is not None:
            truth[answer.broker] = ended_by(marker.type)
        if (live := live_outcome(claim, answer)) is not None:
            truth[answer.broker] = live
    truth.pop(case.accused.broker, None)
    return truth


def recorded_end(claim: Claim) -> str | None:
    """Return the outcome by the end markers that were recorded of other replicas.

    None if none was recorded, or if they say different outcomes.
    """
    outcomes = {ended_by(marker) for broker, marker in claim.recorded.markers.items() if broker != claim.broker}
    return outcomes.pop() if len(outcomes) == 1 else None


def ended_by(marker: str) -> str:
    """Return the outcome, committed or aborted, for an end marker's type: ``commit`` or ``abort``."""
    return COMMITTED if marker == "commit" else ABORTED


def other_outcome(outcome: str) -> str:
    """Return aborted for committed, and committed for aborted."""
    return ABORTED if outcome == COMMITTED else COMMITTED


def kind_of(accused_outcome: str) -> FindingKind:
    """Return the kind of a finding that accuses a replica of showing a record with a wrong outcome.

    Args:
        accused_outcome: that outcome, committed or aborted.
    """
    if accused_outcome == COMMITTED:
        return FindingKind.ABORTED_RECORD_COMMITTED
    return FindingKind.COMMITTED_RECORD_ABORTED


def by_outcome(outcomes: Mapping[int, str]) -> dict[Side, list[int]]:
    """Return the brokers by the outcome that they show."""
    return by_broker({broker: Side.parse(outcome) for broker, outcome in outcomes.items()})
