"""How each replica has ended the transaction of a claim: as it shows it now, and else as it was recorded."""

from __future__ import annotations

from collections.abc import Mapping

from parallax.findings.answers import ABORTED, COMMITTED, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import Case
from parallax.findings.decide.lineage import end_shown, has_lost_its_end, is_another_log, lists_as_aborted
from parallax.model import UNKNOWN, FindingKind
from parallax.sides import Side, by_broker


def live_outcome(claim: Claim, answer: ReplicaAnswer) -> str | None:
    """The outcome that a replica gives the record now: by the record, else by its list of aborted transactions.

    None where it has not decided the record yet: what it lists may be of a log that it has still to truncate.
    """
    if answer.last_stable_offset <= claim.first_offset:
        return None
    shown = answer.committed.get(claim.first_offset)
    if shown is not None and shown.outcome in (COMMITTED, ABORTED):
        known = UNKNOWN not in (shown.producer_id, claim.producer_id)
        # Another producer's record lies there where the log was replaced by another one.
        return None if known and shown.producer_id != claim.producer_id else shown.outcome
    if shown is None and lists_as_aborted(claim, answer, claim.transaction_start_offset):
        return ABORTED
    return None


def live_outcomes(case: Case) -> dict[int, str]:
    """By broker, the outcomes that the replicas give the record now; without those whose log is another one."""
    others = [a for a in case.others if not is_another_log(case.claim, a)]
    found = {a.broker: live_outcome(case.claim, a) for a in (case.accused, *others)}
    return {broker: own for broker, own in found.items() if own is not None}


def ended_now(case: Case) -> frozenset[int]:
    """The others that show the record with an outcome now, or the end marker of the claim."""
    shown = live_outcomes(case).keys() | {a.broker for a in case.others if end_shown(case.claim, a) is not None}
    return frozenset(shown)


def outcomes_of_others(case: Case) -> dict[int, str]:
    """By broker: the live answer, else the end marker that it shows or showed, else the recorded outcome."""
    claim = case.claim
    truth = {broker: ended_by(marker) for broker, marker in claim.recorded.markers.items()}
    truth |= claim.recorded.outcomes
    for answer in case.others:
        if is_another_log(claim, answer):
            truth.pop(answer.broker, None)
            continue
        if answer.last_stable_offset <= claim.first_offset or has_lost_its_end(claim, answer):
            # An outcome is for good: what it showed was of a log that was truncated, or it cannot show it yet.
            truth.pop(answer.broker, None)
        if (marker := end_shown(claim, answer)) is not None:
            truth[answer.broker] = ended_by(marker.type)
        if (live := live_outcome(claim, answer)) is not None:
            truth[answer.broker] = live
    truth.pop(case.accused.broker, None)
    return truth


def recorded_end(claim: Claim) -> str | None:
    """The outcome by the end marker that others were recorded to show; None where that is not known."""
    outcomes = {ended_by(marker) for broker, marker in claim.recorded.markers.items() if broker != claim.broker}
    return outcomes.pop() if len(outcomes) == 1 else None


def ended_by(marker: str) -> str:
    """The outcome that an end marker gives: ``commit`` or ``abort``."""
    return COMMITTED if marker == "commit" else ABORTED


def other_outcome(outcome: str) -> str:
    """Aborted of committed, and the other way round."""
    return ABORTED if outcome == COMMITTED else COMMITTED


def kind_of(accused_outcome: str) -> FindingKind:
    """The kind of finding about a replica that shows this outcome wrongly."""
    if accused_outcome == COMMITTED:
        return FindingKind.ABORTED_RECORD_COMMITTED
    return FindingKind.COMMITTED_RECORD_ABORTED


def by_outcome(outcomes: Mapping[int, str]) -> dict[Side, list[int]]:
    """Return who shows which outcome: by the outcome, the brokers."""
    return by_broker({broker: Side.parse(outcome) for broker, outcome in outcomes.items()})
