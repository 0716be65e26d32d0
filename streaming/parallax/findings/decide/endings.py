"""Decides how a transaction ended on each replica, by its answer, or else by recorded evidence."""

from __future__ import annotations

from collections.abc import Mapping

from parallax.findings.answers import ABORTED, COMMITTED, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import ClaimCase
from parallax.findings.decide.lineage import end_shown, has_lost_its_end, is_another_log
from parallax.model import UNKNOWN, FindingKind
from parallax.sides import Side, by_broker


def live_outcome(claim: Claim, answer: ReplicaAnswer) -> str | None:
    """Return whether a replica now shows the claim's record as ``committed`` or ``aborted``.

    If the record is gone, and the replica's list of aborted transactions names the record's transaction, the result is
    ``aborted``. An entry that begins below that transaction does not name it: the replica may never have held the
    record, for the cleaner had taken it together with its end marker. The result is None in three cases:

    - The record lies at or above the last stable offset, where the log may still be truncated.
    - Another producer's record lies at the record's offset.
    - Nothing that the replica answered shows an outcome.
    """
    if answer.last_stable_offset <= claim.first_offset:
        return None
    shown = answer.committed.get(claim.first_offset)
    if shown is not None and shown.outcome in (COMMITTED, ABORTED):
        known = UNKNOWN not in (shown.producer_id, claim.producer_id)
        # If another log replaced this one, another producer's record may be there.
        return None if known and shown.producer_id != claim.producer_id else shown.outcome
    is_listed = shown is None and (claim.producer_id, claim.surely_begins_at) in answer.aborted
    return ABORTED if is_listed and not is_another_log(claim, answer) else None


def live_outcomes(case: ClaimCase) -> dict[int, str]:
    """Return by broker the outcome that its replica now shows for the claim's record, the accused's included.

    A replica that shows no outcome, or whose log was replaced by another one, is left out.
    """
    others = [a for a in case.others if not is_another_log(case.claim, a)]
    found = {a.broker: live_outcome(case.claim, a) for a in (case.accused, *others)}
    return {broker: own for broker, own in found.items() if own is not None}


def ended_now(case: ClaimCase) -> frozenset[int]:
    """Return the brokers whose answers now say how the transaction ended.

    Their replicas show the outcome of the claim's record, or the claim's end marker.
    """
    shown = live_outcomes(case).keys() | {a.broker for a in case.others if end_shown(case.claim, a) is not None}
    return frozenset(shown)


def outcomes_of_others(case: ClaimCase) -> dict[int, str]:
    """Return by broker the outcome of the claim's record, ``committed`` or ``aborted``; the accused is left out.

    It is the outcome that the replica shows now. If the replica shows none, the end marker that it shows decides. If it
    shows neither, the outcome or marker that the views recorded of it decides. Nothing recorded of it counts if the
    replica has lost the record with a truncated log, or if its end marker is not part of the current log. If the loss
    has spread to all replicas, what was recorded before does not count either: an absent one had come to show the same
    as the accused.
    """
    claim = case.claim
    truth = dict[int, str]()
    if not claim.spread:
        recorded = {broker: ended_by(marker) for broker, marker in claim.recorded.markers.items()}
        recorded |= claim.recorded.outcomes
        # Outcomes never change: what was shown by an end that is gone belongs to another log.
        truth = {broker: outcome for broker, outcome in recorded.items() if not has_lost_its_end(case, broker)}
    for answer in case.others:
        if is_another_log(claim, answer):
            truth.pop(answer.broker, None)
            continue
        if _has_lost_it(claim, answer):
            truth.pop(answer.broker, None)
        if (marker := end_shown(claim, answer)) is not None:
            truth[answer.broker] = ended_by(marker.type)
        if (live := live_outcome(claim, answer)) is not None:
            truth[answer.broker] = live
    truth.pop(case.accused.broker, None)
    return truth


def _has_lost_it(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica has lost the record, or what had ended its transaction.

    One that has just started shows nothing yet. It has lost nothing by that, and what was read of it still counts.
    """
    has_just_started = answer.high_watermark <= claim.first_offset < answer.log_end_offset
    return answer.last_stable_offset <= claim.first_offset and not has_just_started


def recorded_end(claim: Claim) -> str | None:
    """Return the outcome that follows from the end markers that the views recorded of replicas other than the accused.

    None if none was recorded, or if they contradict each other.
    """
    outcomes = {ended_by(marker) for broker, marker in claim.recorded.markers.items() if broker != claim.broker}
    return outcomes.pop() if len(outcomes) == 1 else None


def ended_by(marker: str) -> str:
    """Return the outcome that an end marker gives a transaction: committed for ``commit``, aborted for ``abort``."""
    return COMMITTED if marker == "commit" else ABORTED


def other_outcome(outcome: str) -> str:
    """Return the opposite outcome: ``aborted`` for ``committed``, and ``committed`` for ``aborted``."""
    return ABORTED if outcome == COMMITTED else COMMITTED


def kind_of(accused_outcome: str) -> FindingKind:
    """Return the kind of finding about a replica that wrongly shows the outcome ``accused_outcome``.

    It is ``aborted_record_committed`` for ``committed``, and ``committed_record_aborted`` for ``aborted``.
    """
    if accused_outcome == COMMITTED:
        return FindingKind.ABORTED_RECORD_COMMITTED
    return FindingKind.COMMITTED_RECORD_ABORTED


def by_outcome(outcomes: Mapping[int, str]) -> dict[Side, list[int]]:
    """Sort brokers by the outcome that each shows: return by side (committed or aborted) the brokers on it."""
    return by_broker({broker: Side.parse(outcome) for broker, outcome in outcomes.items()})
