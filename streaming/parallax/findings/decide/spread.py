"""Decides whether a divergence has spread: all replicas are wrong in the same way as the accused.

The right replicas were copied from a wrong one (a new disk, a reassignment), so no right replica is left to compare
with. They need not show the same: two may show different values, each older than the tombstone. What was proven of the
accused is now true of every replica.

Who decides it first is the judge of the claim's family, while the accused still shows what is wrong: `open_everywhere`,
`hanging`, `agreed` and `older_everywhere` here for a transaction, `parallax.findings.decide.values` for a key.
`of_a_finding` decides it once the accused shows that no longer, and decides whether what has spread goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from parallax.findings.answers import ABORTED, COMMITTED, Answers, KeyShown, OpenTransaction, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import ClaimCase, ClaimState, Decision, Resolution, names, verb
from parallax.findings.decide.endings import ended_by, kind_of, other_outcome, recorded_end
from parallax.findings.decide.lineage import end_shown, is_proof_gone, is_proof_replaced
from parallax.findings.decide.unsettled import agreed as agreed_without_proof
from parallax.kinds import (
    KEY_KINDS,
    KINDS,
    OPEN_KINDS,
    TOMBSTONE_KINDS,
    TRANSACTION_KINDS,
    WRONG_OUTCOMES,
    Wrong,
)
from parallax.model import NOBODY, UNKNOWN, FindingKind
from parallax.sides import Shows, Side

_ENDED = (Resolution.HEALED, Resolution.UNPROVEN)


def open_everywhere(
    case: ClaimCase, held: OpenTransaction, open_on: Collection[int], past: Collection[int], *, has_ended: bool
) -> Decision | None:
    """Return the decision on a claim whose transaction the accused and all other replicas hold open.

    Args:
        case: the claim with its answers.
        held: the transaction as the accused lists it.
        open_on: the brokers that list it as open.
        past: the brokers in ``open_on`` whose log reaches beyond the transaction's end.
        has_ended: whether a recorded end marker or the coordinator says that it has ended. If neither does, the
            transaction may just take long: then it must have been proven before, by a finding whose proof is in the
            current log.

    Returns:
        - Spread if all replicas hold the transaction open.
        - Confirmed if some replica does not answer, unless the finding had spread before.
        - Not proven if the coordinator says that the transaction is ongoing, unless the finding had spread before. In
          that case the ended transaction has become part of the ongoing one.
        - None if another replica does not hold the transaction open, if no other replica answers, or if nothing says
          that the transaction has ended.
    """
    # If it is the only one, the replicas that had ended the transaction were removed.
    if (not case.others and not case.is_only_one) or len(open_on) <= len(case.others):
        return None
    if not has_ended and (not _was_found(case) or case.claim.renamed or case.end_replaced):
        return None
    if not has_ended and not case.claim.spread and _goes_on(case):
        reason = (
            f"the transaction at offset {held.start_offset} is open on every replica, and goes on by its coordinator"
        )
        return case.unproven(reason, Resolution.AGREED)
    reason = f"the transaction at offset {held.start_offset} has ended and is open on every replica"
    if case.absent:
        reason = f"{reason} that answered"
    if case.absent and not case.claim.spread:
        return case.confirmed(reason, FindingKind.READ_COMMITTED_FROZEN, sides={Side(Shows.OPEN): past})
    return Decision(ClaimState.DISMISSED, FindingKind.READ_COMMITTED_FROZEN, reason, resolution=Resolution.SPREAD)


def _was_found(case: ClaimCase) -> bool:
    """Whether a finding is about the claim; of a suspect that is judged only by what is live nothing was proven."""
    return case.live_only and not case.claim.freed


def _goes_on(case: ClaimCase) -> bool:
    """Whether it may be another, ongoing transaction: the coordinator says so, and no end marker is known.

    What held the accused back may have been truncated, with no replica left that knows. Or all were copied from the
    accused, and the end is lost: the logs look alike.
    """
    coordinator = case.answers.coordinator
    return case.claim.marker_offset == UNKNOWN and coordinator is not None and coordinator.is_ongoing


def hanging(where: str) -> Decision:
    """Return the decision on an ended transaction that the leader holds open, if no current log has its end marker.

    The marker was lost with a log that was truncated or deleted. Followers copy the leader's log, so they come to hold
    the transaction open as well. No replica is to blame.

    Args:
        where: where the transaction begins and which replicas hold it open; the decision's reason begins with this
            text.
    """
    reason = f"{where}, by whose log all go, and no replica shows its end marker"
    return Decision(ClaimState.DISMISSED, FindingKind.READ_COMMITTED_FROZEN, reason, resolution=Resolution.SPREAD)


def agreed(case: ClaimCase, own: str) -> Decision:
    """Return the decision on a claim about a record's outcome, if all replicas that show an outcome show the same.

    The decision is healed if all are proven right, spread if all are proven wrong, else unsettled or unproven.

    Args:
        case: the claim with its answers.
        own: the outcome that these replicas show.
    """
    claim = case.claim
    reason = f"every replica shows offset {claim.first_offset} as {own}"
    if case.end_replaced:
        # The end marker proves nothing about any log any more: this is no loss that has spread.
        return case.unproven(f"{reason}; the end marker at offset {case.end_read} was truncated", Resolution.UNPROVEN)
    if case.live_only and true_outcome(claim) is None:
        # How the transaction ended was never read: the others may have been copied from the accused.
        place = (claim.producer_id, claim.transaction_start_offset, claim.marker_offset)
        is_open_elsewhere = claim.kind in OPEN_KINDS and any(other.holds_open(*place) for other in case.others)
        return case.dismissed(reason, Resolution.UNPROVEN if is_open_elsewhere else Resolution.AGREED)
    if _was_proven(case) and true_outcome(claim) not in (None, own):
        if case.absent:
            return case.unproven(reason)
        return Decision(ClaimState.DISMISSED, kind_of(own), reason, resolution=Resolution.SPREAD)
    return rightly_shown(case, reason)


def older_everywhere(case: ClaimCase) -> Decision | None:
    """Return the decision that a loss has spread, of a finding that a replica hides a committed record as aborted.

    It has spread if every replica shows a value of the key that is older than that record. Then none is right, whether
    the record was a value or a deletion. What is left of the transaction does not matter: cleaners may have taken it.
    None if a replica shows no value, shows a newer record, or was not read far enough.
    """
    claim, everyone = case.claim, (case.accused, *case.others)
    is_found = case.live_only and claim.kind is FindingKind.COMMITTED_RECORD_ABORTED and not case.end_replaced
    if not is_found or case.absent or not all(_shows_older(claim, answer) for answer in everyone):
        return None
    reason = f"every replica shows a value of the key that is older than the committed record at {claim.first_offset}"
    return case.dismissed(reason, Resolution.SPREAD)


def _shows_older(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica is past the claim's record, and still shows a value of its key that is older."""
    is_past = answer.last_stable_offset > claim.first_offset and answer.key is not None and answer.key.complete
    return is_past and answer.live is not None and answer.live.offset < claim.first_offset


def rightly_shown(case: ClaimCase, reason: str) -> Decision:
    """Dismiss a claim whose accused shows the right outcome now: as healed if it shows the end marker that it lacked.

    Without that marker the outcome stays unproven. A later marker may have ended the transaction in the same way, and
    then the next transaction ends wrongly. And a replica without its index of aborted transactions shows all records as
    committed.

    Args:
        case: the claim with its answers.
        reason: what the accused shows now, in one line for people.
    """
    is_proven = end_shown(case.claim, case.accused) is not None
    return case.dismissed(reason, Resolution.HEALED if is_proven else Resolution.UNPROVEN)


def _was_proven(case: ClaimCase) -> bool:
    """Whether a finding proved it, or what was recorded of two replicas proves it by itself.

    An end marker that was read of another replica outweighs what the rest had shown: those that contradict it may have
    missed it as well.
    """
    recorded = case.claim.recorded
    ends = {ended_by(m) for b, m in recorded.markers.items() if b != case.claim.broker}
    shown = {outcome for b, outcome in recorded.outcomes.items() if b != case.claim.broker}
    others = ends if case.claim.marker_offset != UNKNOWN and ends else ends | shown
    return case.live_only or (len(others) == 1 and recorded.outcomes.get(case.claim.broker, "") not in (*others, ""))


def of_a_finding(case: ClaimCase, decision: Decision) -> Decision:
    """Return the decision on a finding whose accused no longer shows what was wrong: may the finding end?

    Other replicas may be wrong in the same way. The finding stays open if all replicas are wrong (spread), or may be
    (unsettled). A finding that has spread ends only when no replica is wrong any more. What was written after the
    divergence may achieve that: every replica holds a newer record of the key, or its log begins higher. A finding
    about a record that should not be shown also ends when no replica shows that record.

    Args:
        case: the claim with its answers.
        decision: the dismissal that follows from what the accused shows. It is returned if the finding may end.
    """
    claim = replace(case.claim, kind=decision.kind)
    if KINDS[claim.kind].wrong is Wrong.BEGUN_ABOVE and decision.resolution is Resolution.DELETED:
        return decision
    if not claim.spread and claim.broker == NOBODY:
        return agreed_without_proof(case, decision)
    wrong = [is_wrong(claim, answer) for answer in (case.accused, *case.others)]
    if not claim.spread:
        is_lost = claim.kind is FindingKind.RECORD_MISSING and all(wrong) and not case.absent
        return decision if decision.resolution is not Resolution.HEALED else _healed(case, decision, is_lost=is_lost)
    if claim.kind in TRANSACTION_KINDS and decision.resolution in _ENDED:
        return decision
    if claim.kind in OPEN_KINDS and decision.is_unsettled:
        return decision  # It holds nobody back any more, and nobody knows how it should have ended.
    return _of_one_that_had_spread(case, decision, wrong)


def _healed(case: ClaimCase, decision: Decision, *, is_lost: bool) -> Decision:
    """Judge whether a difference that is gone has healed; of a value, whether what the key shows now is proven."""
    claim = case.claim
    if claim.kind not in KEY_KINDS:
        return decision
    if (still := _shows_otherwise(case)) is not None:
        return replace(decision, reason=f"{decision.reason}; {still}", resolution=Resolution.DIFFERS)
    if claim.broker != NOBODY and is_proof_replaced(case):
        reason = f"{decision.reason}; what had proven the other value wrong was truncated"
        return replace(decision, reason=reason, resolution=Resolution.UNPROVEN)
    if KINDS[claim.kind].wrong is Wrong.OLDER and is_wrong(claim, case.accused):
        reason = f"{decision.reason}; whether the tombstone at offset {claim.offset} is of the current log is not known"
        return replace(decision, reason=reason, resolution=Resolution.INCOMPARABLE)
    if is_lost:
        return _lost_everywhere(case)
    if claim.kind is FindingKind.RECORD_MISSING and claim.key is not None and not claim.all_compared:
        return agreed_without_proof(case, decision)
    if case.accused.key is not None and not _is_settled(claim, case.accused.key):
        by = f"broker {case.accused.broker} shows the key by the outcome that it gives a transaction"
        return replace(decision, reason=f"{decision.reason}; {by}", resolution=Resolution.UNPROVEN)
    return decision


def _is_settled(claim: Claim, key: KeyShown) -> bool:
    """Whether a replica shows the newest record of a key, whatever the outcome of any transaction."""
    shown = key.visible
    if shown is None or shown.offset != key.newest_offset:
        return shown is None and key.newest_offset == UNKNOWN
    is_claimed = shown.offset == claim.offset and claim.is_surely_committed
    return is_claimed or shown.outcome not in (COMMITTED, ABORTED)


def _of_one_that_had_spread(case: ClaimCase, decision: Decision, wrong: Sequence[bool | None]) -> Decision:
    offset = case.claim.first_offset
    if any(wrong):
        if decision.resolution is Resolution.SPREAD:
            return decision
        if _is_of_a_log_that_was_lost(case):
            said = f"another leader has written where the tombstone at offset {case.claim.offset} was read"
            return case.dismissed(said, Resolution.SUPERSEDED)
        alike = [a for a, one in zip((case.accused, *case.others), wrong, strict=True) if one]
        return replace(decision, reason=_still_wrong(case.claim, alike), resolution=Resolution.SPREAD)
    reason = f"every replica holds what was written after offset {offset}, or shows that offset no more"
    if case.claim.kind in TOMBSTONE_KINDS:
        reason = f"no replica shows a value of that key any more that is older than the deletion at offset {offset}"
    if case.absent:
        return case.unproven(reason)
    if any(state is None for state in wrong):
        return case.pending("a replica did not say what it shows of the key")
    return case.dismissed(reason, Resolution.SUPERSEDED)


_STILL_WRONG: Mapping[Wrong, str] = {
    Wrong.SHOWN: "show the record at offset {offset}, which nobody should be shown",
    Wrong.LACKED: "show neither the record at offset {offset} nor a newer one",
    Wrong.OLDER: "show a value that is older than the tombstone at offset {offset}",
    Wrong.OPEN: "hold the transaction at offset {offset} open",
    Wrong.BEGUN_ABOVE: "begin at offset {offset} or above",
}
"""What replicas do that are wrong in the same way; the verb comes first."""


def _still_wrong(claim: Claim, alike: Sequence[ReplicaAnswer]) -> str:
    """Say which replicas are wrong. Others may hold by now what was written since."""
    does, _, what = _STILL_WRONG[KINDS[claim.kind].wrong].format(offset=claim.first_offset).partition(" ")
    return f"{names(alike)} {verb(alike, does)} {what}"


def _is_of_a_log_that_was_lost(case: ClaimCase) -> bool:
    """Whether all answers say that the tombstone that proved the deletion is not part of the current log."""
    return case.claim.kind in TOMBSTONE_KINDS and not case.absent and is_proof_gone(case)


def _lost_everywhere(case: ClaimCase) -> Decision:
    return case.dismissed(
        f"no replica shows the record of offset {case.claim.first_offset} any more, nor a newer one of its key",
        Resolution.SPREAD,
    )


def _shows_otherwise(case: ClaimCase) -> str | None:
    """Return how the accused's value of the key differs from another replica's; None where they agree.

    Then it heals nothing that the accused's old value is superseded: the newer record may be wrong itself. Only what
    both have passed is compared.
    """
    accused, mine = case.accused, case.accused.key
    for other in case.others:
        theirs = other.key
        if mine is None or theirs is None or not (mine.complete and theirs.complete):
            continue
        passed = min(accused.last_stable_offset, other.last_stable_offset)
        if _value(mine) != _value(theirs) and max(mine.newest_offset, theirs.newest_offset) < passed:
            return f"broker {other.broker} shows {_value(theirs)}"
    return None


def _value(key: KeyShown) -> str:
    return "no value" if key.live is None else f"the value at offset {key.live.offset}"


def is_wrong(claim: Claim, answer: ReplicaAnswer) -> bool | None:
    """Whether a replica is wrong in the way that the claim says of the accused.

    None where its answer does not show that.
    """
    offset, wrong = claim.first_offset, KINDS[claim.kind].wrong
    if wrong is Wrong.BEGUN_ABOVE:
        return answer.is_empty or answer.log_start_offset >= offset
    if answer.log_start_offset > offset:
        return False
    if claim.kind in TRANSACTION_KINDS and answer.holds_open(
        claim.producer_id, claim.transaction_start_offset, claim.marker_offset
    ):
        return True
    if wrong is Wrong.OPEN:
        return False  # How it has ended is another matter.
    if claim.key is None:
        shown = answer.committed.get(offset)
        is_shown = shown is not None and shown.outcome != ABORTED
        return is_shown is (wrong is Wrong.SHOWN)
    if answer.key is None or not answer.key.complete:
        return None
    visible = UNKNOWN if answer.key.visible is None else answer.key.visible.offset
    if wrong is Wrong.OLDER:
        return answer.key.live is not None and visible < offset
    if wrong is Wrong.SHOWN:
        # Once the cleaner has taken a rolled-back deletion, what it had deleted is still lacked.
        return visible == offset or (visible == UNKNOWN < claim.recorded.lacks)
    return visible < offset


def one_is_right(claim: Claim, answers: Answers) -> bool:
    """Whether some replica is not wrong in the way that a claim about the value of a key says of the accused.

    If one is, the fault has not spread, whatever silent replicas hold. Of a claim about a transaction this is False:
    one record of it proves nothing about the others.
    """
    is_of_a_key = claim.kind in KEY_KINDS and claim.key is not None and claim.broker != NOBODY
    read = (a for a in answers.replicas.values() if a.error is None and a.last_stable_offset > claim.offset)
    return is_of_a_key and any(is_wrong(claim, answer) is False for answer in read)


def held_back(claim: Claim, answers: Answers) -> frozenset[int]:
    """Return the brokers that are left, if an open transaction keeps all of them below the record that proves a claim.

    The claim is about the value of a key. Their consumers in read_committed are shown what was written up to where they
    stop. So none is misled yet, and none says whether it will be. Empty if the accused still holds a replica, or if one
    that is left comes further or cannot be asked.
    """
    left = answers.replicas.values()
    if claim.kind not in KEY_KINDS or claim.key is None or answers.gone is None:
        return frozenset()
    are_below = all(a.error is None and a.last_stable_offset <= claim.offset < a.high_watermark for a in left)
    return frozenset(answers.replicas) if are_below else frozenset()


def true_outcome(claim: Claim) -> str | None:
    """Return how the claim's transaction truly ended: ``committed`` or ``aborted``; None where that is not known.

    If the claim's kind names a wrong outcome, the other outcome is true. Otherwise it follows from the end markers that
    the views recorded of other replicas.
    """
    if claim.kind in WRONG_OUTCOMES:
        return other_outcome(WRONG_OUTCOMES[claim.kind])
    return recorded_end(claim)
