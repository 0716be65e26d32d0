"""Decides claims about the latest value of a key, and about missing records that have no key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parallax.counts import agreed
from parallax.evidence.log import Belongs
from parallax.findings.answers import ABORTED, COMMITTED, KeyShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import (
    ClaimCase,
    ClaimState,
    Decision,
    Resolution,
    broker_list,
    names,
    shows_deleted,
    values_as_far_as_read,
    values_shown,
    verb,
)
from parallax.findings.decide.lineage import (
    holds_another_record,
    is_proof_gone,
    is_proof_replaced,
    lists_as_aborted,
    rests_on,
)
from parallax.findings.decide.outcomes import unlike_outcomes
from parallax.findings.decide.proof import is_proof
from parallax.kinds import TOMBSTONE_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule
from parallax.sides import Shows, Side, standing


def latest_value(case: ClaimCase) -> Decision:
    """Return the decision on a claim about the latest value of a key, or about a missing record without a key.

    A replica is accused only if another replica shows a surely committed record of the key that is newer than the
    accused's value. The accused's value is then not the latest, whatever happened to the key since. If the newer record
    is a tombstone, that is proof enough. If it is a value, every replica must show this newer value or the accused's
    older one. Otherwise the difference is without direction.
    """
    claim, accused = case.claim, case.accused
    if claim.rule is Rule.OUTCOME and claim.kind is FindingKind.VISIBILITY_MISMATCH:
        return unlike_outcomes(case)
    if claim.key is None:
        return _missing_offset(case)
    case = _above(case, claim.recorded.compared_from)
    accused = case.accused
    if accused.last_stable_offset <= claim.offset:
        return _not_shown_yet(case)
    if (cause := _explained_by_outcome(claim, accused)) is not None:
        return case.dismissed(cause)
    if accused.key is None:
        return case.pending(f"broker {accused.broker}: {accused.key_error or 'the key was not read'}")
    live = accused.key.live
    decision = _accused_lacks(case) if live is None else _accused_shows(case, live)
    if decision.verdict is ClaimState.CONFIRMED and _may_be_explained_by_outcome(claim, accused):
        return replace(decision, lone_witness=True)
    if decision.verdict is ClaimState.PENDING and claim.broker == NOBODY:
        # Until it is decided they may show what another finding has proven wrong.
        return replace(decision, sides={side: tuple(brokers) for side, brokers in values_shown(case).items()})
    return decision


def _not_shown_yet(case: ClaimCase) -> Decision:
    """Judge an accused that does not yet show its consumers the claim's offset.

    It has not missed a tombstone that its log holds: its log was replaced since it was read to lack it.
    """
    claim, accused = case.claim, case.accused
    held = accused.uncommitted.get(claim.offset)
    is_claimed = held is not None and (held.key_hash, held.producer_id) == (claim.key_text, claim.producer_id)
    if claim.kind in TOMBSTONE_KINDS and is_claimed:
        return case.dismissed(f"broker {accused.broker} holds the tombstone at offset {claim.offset}")
    not_shown = f"broker {accused.broker} does not show offset {claim.offset} to its consumers yet"
    return _in_a_shorter_log(case) or case.pending(not_shown)


def _in_a_shorter_log(case: ClaimCase) -> Decision | None:
    """Judge a key whose record was truncated, where the current log has not reached its offset again.

    Nothing that was read of that record proves anything then. The key is compared where all that answer have come
    equally far. Where they have not, a finding accuses nobody by that record any more.
    """
    if not is_proof_replaced(case):
        return None
    sides = values_as_far_as_read(case)
    cut = f"what was read at offset {case.claim.offset} was truncated"
    if sides is None:
        is_void = case.live_only and case.claim.broker != NOBODY and not case.absent and is_proof_gone(case)
        return case.dismissed(f"{cut}, on all replicas", Resolution.UNPROVEN) if is_void else None
    if len(sides) < 2:
        return case.unproven(f"{cut}, and all show the same of the key", Resolution.UNPROVEN)
    return replace(case.differs(sides, kind=FindingKind.VISIBILITY_MISMATCH), proof_truncated=True)


def _above(case: ClaimCase, start: int) -> ClaimCase:
    """Return the case without the values below an offset, where a replica shows none of its key from there on.

    Retention had deleted up to there on some replica, and deletes at its own time on each: nothing is compared below.
    """

    def above(answer: ReplicaAnswer) -> ReplicaAnswer:
        key = answer.key
        if key is None or key.visible is None or key.visible.offset >= start:
            return answer
        return replace(answer, key=replace(key, visible=None))

    return replace(case, accused=above(case.accused), others=[above(other) for other in case.others])


def _explained_by_outcome(claim: Claim, accused: ReplicaAnswer) -> str | None:
    """Return why an outcome explains the absence: the accused holds the record and hides it.

    That is a difference of outcome, which has a finding of its own.
    """
    shown = accused.committed.get(claim.offset)
    recorded = claim.recorded.outcomes.get(accused.broker)
    if (shown is not None and shown.outcome == ABORTED) or (shown is None and recorded == ABORTED):
        return f"broker {accused.broker} hides offset {claim.offset} as aborted: its outcome is the cause"
    return None


def _may_be_explained_by_outcome(claim: Claim, accused: ReplicaAnswer) -> bool:
    """Whether the accused lists the record as aborted, so that the comparison may be about to accuse it of that.

    It may not: where no replica holds the transaction's first record any more, only the value shows it.
    """
    return lists_as_aborted(claim, accused, claim.offset)


def _accused_shows(case: ClaimCase, live: RecordShown) -> Decision:
    """Judge an accused that shows a live value: it is stale where another has deleted or replaced it."""
    claim, accused = case.claim, case.accused
    if live.offset >= claim.offset and claim.kind is FindingKind.VISIBILITY_MISMATCH:
        return _shown_against_others(case, live)
    if live.offset >= claim.offset:
        return case.dismissed(f"broker {accused.broker} shows a value as new as that of the others (at {live.offset})")
    others = [a for a in case.others if a.key is not None and a.last_stable_offset > claim.offset]
    if claim.kind in TOMBSTONE_KINDS:
        # A replica that shows it deleted decides: another with a newer value may have missed the tombstone as well.
        others.sort(key=lambda a: a.live is not None)
    for other in others:
        theirs = other.live
        if theirs is not None and live.offset < theirs.offset < accused.last_stable_offset:
            return _shows_older(case, live, other, theirs)
        if theirs is None and shows_deleted(other, live.offset, accused.last_stable_offset):
            return _resurrected(case, live, other)
    if _is_recorded_as_deleted(case):
        return _resurrected(case, live, None)
    decision = _undecided_key(case, f"no other replica has replaced or deleted the value at offset {live.offset}")
    is_deleted = claim.kind in TOMBSTONE_KINDS and rests_on(case) is Belongs.YES
    if is_deleted and (_all_show_a_value(case.others) or _is_of_the_only_one_left(case)):
        reason = f"every replica shows a value that is older than the tombstone at offset {claim.offset}"
        decision = replace(decision, resolution=Resolution.SPREAD)
        return replace(decision, reason=reason) if decision.has_spread else decision
    return decision


def _is_recorded_as_deleted(case: ClaimCase) -> bool:
    """Whether the tombstone that was read proves it, though nobody that can be asked now has deleted the key.

    That counts where a replica that cannot be asked may have shown it. Otherwise all show what the accused shows.
    """
    return case.claim.proves_deletion and not case.live_only and bool(case.absent) and rests_on(case) is Belongs.YES


def _is_of_the_only_one_left(case: ClaimCase) -> bool:
    """Whether the only replica left is the accused, and others had proven it wrong: by a finding, or by readings.

    A suspect that a finding has left is proven by that finding, unless its accused has healed.
    """
    claim = case.claim
    by_a_finding = not claim.freed or bool(claim.recorded.was_accused)
    return case.is_only_one and (by_a_finding if case.live_only else claim.is_surely_committed)


def _all_show_a_value(others: Sequence[ReplicaAnswer]) -> bool:
    return bool(others) and all(other.live is not None for other in others)


def _shown_against_others(case: ClaimCase, live: RecordShown) -> Decision:
    """Judge a value that the accused shows and others lack, where no tombstone is known: either may be right.

    It is a difference only if the accused, asked after another, is as far as that one was. Whatever had deleted the
    value there was below, so the accused has passed it. A replica that is behind may still copy a later record of the
    key.
    """
    accused = case.accused
    older = [a for a in case.others if _shows_an_older_one(a, live)]
    if any(a.last_stable_offset < _waited_for(case, live) for a in older):
        return case.pending(f"{names(older)} may not have come as far yet as what replaced a newer value")
    lacking = [a for a in case.others if shows_deleted(a, live.offset, accused.last_stable_offset)]
    if older and not lacking:
        return _shown_against_older(case, live, older)
    if not lacking and live.offset > case.claim.offset:
        return case.dismissed(f"broker {accused.broker} shows a value as new as that of the others (at {live.offset})")
    if not lacking:
        return _undecided_key(case, f"no other replica lacks the value at offset {live.offset}")
    past = [a for a in lacking if a.last_stable_offset > live.offset]
    passed = [a for a in past if accused.last_stable_offset >= a.cleaned_below]
    if not passed:
        return case.pending(f"broker {accused.broker} has not caught up with {names(lacking)} yet")
    reason = (
        f"broker {accused.broker} shows the key's value of offset {live.offset} and nothing newer; "
        f"{names(passed)}, past it, {verb(passed, 'show')} none"
    )
    return replace(_without_direction(case, reason), lone_witness=live.outcome == COMMITTED)


def _shown_against_older(case: ClaimCase, live: RecordShown, older: list[ReplicaAnswer]) -> Decision:
    """Judge a value that the accused shows, while others that have passed it show an older one: one has lost it."""
    reason = f"broker {case.accused.broker} shows the key's value of offset {live.offset}; {names(older)}, past it, "
    reason += "an older one"
    sure = live.is_plain and rests_on(case) is Belongs.YES
    match older:
        case [stale] if sure and case.logs.counts(live.place, stale.broker):
            return _shows_an_older_value(case, reason, stale)
        case _:
            return _without_direction(case, reason)


def _waited_for(case: ClaimCase, live: RecordShown) -> int:
    """Return how far a replica must have come before an older value that it shows says anything.

    That is as far as all others. It may have copied the log of any of them after the value had been replaced there. For
    the claim's own record the comparison has waited already.
    """
    if live.offset == case.claim.offset:
        return 0
    return max(a.last_stable_offset for a in (case.accused, *case.others))


def _shows_an_older_one(other: ReplicaAnswer, live: RecordShown) -> bool:
    """Whether another replica has passed the value that the accused shows, and shows an older one."""
    if other.live is None or live.offset in other.committed:
        return False
    return other.log_start_offset <= other.live.offset < live.offset < other.last_stable_offset


def _shows_older(case: ClaimCase, live: RecordShown, other: ReplicaAnswer, theirs: RecordShown) -> Decision:
    """Judge an accused that shows an older value than another: it is wrong, if the newer one was surely committed.

    Something may have replaced the newer value in the log that the accused copied. It lay below the last stable offset
    of some replica by then. So a replica that is as far as all others has passed it, and would show it.
    """
    accused = case.accused
    reason = (
        f"broker {accused.broker} shows the key's value of offset {live.offset}, "
        f"broker {other.broker} the newer one of offset {theirs.offset}"
    )
    furthest = max(a.last_stable_offset for a in case.others)
    waited = theirs.offset == case.claim.offset
    if not waited and accused.last_stable_offset < furthest:
        return case.pending(f"{reason}; broker {accused.broker} has not caught up with all others yet")
    sure = theirs.is_plain or (waited and case.claim.is_surely_committed)
    sure = sure and case.logs.counts(theirs.place, accused.broker)
    is_deleted = case.claim.proves_deletion
    if sure and rests_on(case) is Belongs.YES and not (is_deleted and theirs.offset < case.claim.offset):
        return _shows_an_older_value(case, reason, accused)
    if is_deleted:
        # The tombstone that was read is newer than the accused's value, whatever the other's value proves.
        return _resurrected(case, live, None)
    return replace(_without_direction(case, reason), lone_witness=theirs.outcome == COMMITTED)


def _shows_an_older_value(case: ClaimCase, reason: str, stale: ReplicaAnswer) -> Decision:
    """Accuse a replica that shows an older value than another, where every replica shows one of these two.

    The newer value proves that the older one is not the latest. It does not prove that itself is: a replica that shows
    neither, or whose value is unknown, may be the only right one. The same holds if those replicas were not always on
    one side: the value may have been copied since from a replica that is wrong.
    """
    sides = values_shown(case)
    others = standing(sides).difference(*(brokers for brokers in sides.values() if stale.broker in brokers))
    stood_on = [brokers for brokers in case.claim.recorded.sides.values() if not others.isdisjoint(brokers)]
    all_stand = standing(sides) == case.answers.replicas.keys()
    if len(sides) == 2 and all_stand and len(stood_on) < 2:
        return case.confirmed(reason, FindingKind.RECORD_MISSING, accused=stale.broker, sides=sides)
    return _without_direction(case, reason)


def _resurrected(case: ClaimCase, live: RecordShown, other: ReplicaAnswer | None) -> Decision:
    """Judge a value that the accused shows and another has deleted: it is wrong, if a tombstone proves it.

    The tombstone must be shown now, or have been read when the suspect was raised, and must be surely committed. A
    replica that only shows nothing may have lost the value: it is no proof, and the reason of an accusation names the
    tombstone in its place (`parallax.findings.decide.proof`).
    """
    claim, accused = case.claim, case.accused
    shown = other.key.visible if other is not None and other.key is not None else None
    reason = f"broker {accused.broker} shows a live value at offset {live.offset} and nothing newer for the key"
    sure = claim.proves_deletion or (shown is not None and is_proof(case, shown))
    # If a log was replaced at the tombstone, that may belong to the lost log, and the value may be right.
    if sure and rests_on(case) is Belongs.YES:
        return case.confirmed(
            reason, FindingKind.DELETED_RECORD_RESURRECTED, accused=accused.broker, sides=values_shown(case)
        )
    if other is None:
        what = f"a tombstone at offset {claim.offset} was read on another replica"
    else:
        what = f"broker {other.broker} shows {'nothing' if shown is None else f'a tombstone at offset {shown.offset}'}"
    decision = _without_direction(case, f"{reason}; {what}")
    return replace(decision, lone_witness=shown is not None and shown.outcome == COMMITTED)


def _accused_lacks(case: ClaimCase) -> Decision:
    """Judge an accused without a value: a difference if another shows one, and nothing on the accused explains it.

    What deleted it on the accused lay below the accused's last stable offset. Another replica that shows the value, was
    asked later, and has not come as far may not have decided the deletion yet.
    """
    claim, accused = case.claim, case.accused
    key = accused.key
    resurrected = claim.kind in TOMBSTONE_KINDS
    if key is None or not (key.complete or (not resurrected and key.complete_from <= claim.offset)):
        return case.pending(accused.key_error or f"the log of broker {accused.broker} was not read to its beginning")
    if resurrected:
        # If its log begins above the tombstone now, a newer value may have been deleted with what was below.
        is_below = accused.log_start_offset > claim.offset
        resolution = Resolution.DELETED if is_below else Resolution.HEALED
        return case.dismissed(f"broker {accused.broker} shows no live value of the key", resolution)
    decision, behind = _shown_by_others(case, key)
    if decision is not None:
        return decision
    if (decision := _tombstone_against_older(case, key)) is not None:
        return decision
    if behind:
        lack = f"the value that broker {accused.broker} lacks"
        return case.pending(f"{names(behind)} may not have decided yet what deleted {lack}")
    if key.visible is not None and key.visible.offset > claim.offset:
        return _deleted_on_the_accused(case, key.visible)
    if accused.log_start_offset > claim.offset:
        reason = f"offset {claim.offset} is below the log start of broker {accused.broker}"
        return case.dismissed(reason, Resolution.DELETED)
    return _undecided_key(case, f"no other replica shows a live value of the key at offset {claim.offset}")


def _shown_by_others(case: ClaimCase, key: KeyShown) -> tuple[Decision | None, list[ReplicaAnswer]]:
    """Judge a value that another shows and the accused lacks; return also those that show one and are behind."""
    claim, accused = case.claim, case.accused
    behind = []
    for other in case.others if accused.log_start_offset <= claim.offset else ():
        theirs = other.live
        if theirs is None or not claim.offset <= theirs.offset < accused.last_stable_offset:
            continue
        if key.visible is not None and key.visible.offset > theirs.offset:
            continue
        if other.last_stable_offset < accused.cleaned_below:
            behind.append(other)
            continue
        reason = (
            f"broker {other.broker} shows the key's value at offset {theirs.offset}; "
            f"broker {accused.broker} is past it and shows none"
        )
        return replace(_without_direction(case, reason), lone_witness=theirs.outcome == COMMITTED), []
    return None, behind


def _tombstone_against_older(case: ClaimCase, key: KeyShown) -> Decision | None:
    """Judge a value older than the claim's tombstone that another still shows, and that the accused lacks.

    It is for a claim that accuses nobody; the accused was asked last. A replica that lacks the tombstone was read as
    far as a record that replaced it could lie.
    """
    claim, accused = case.claim, case.accused
    if claim.broker != NOBODY:
        return None
    stale = [
        a
        for a in case.others
        if a.live is not None
        and accused.log_start_offset <= a.live.offset < claim.offset
        and a.last_stable_offset >= accused.cleaned_below
    ]
    if not stale or not key.complete:
        return None
    reason = f"{names(stale)} still {verb(stale, 'show')} an older value of the key"
    return replace(
        _without_direction(case, f"{reason}; broker {accused.broker} shows none"),
        lone_witness=claim.producer_id != UNKNOWN,
    )


def _deleted_on_the_accused(case: ClaimCase, tombstone: RecordShown) -> Decision:
    """Judge an accused that shows a tombstone behind the record: it lacks nothing, but another may be stale.

    That is a difference where the other replica is past the tombstone, and as far as all, the leader included. Whatever
    replaced the tombstone on the log that it copied lay below that.
    """
    claim, accused = case.claim, case.accused
    reason = f"broker {accused.broker} has deleted the key at offset {tombstone.offset}"
    stale = [
        a
        for a in case.others
        if a.live is not None and accused.log_start_offset <= a.live.offset < tombstone.offset < a.last_stable_offset
    ]
    if claim.broker != NOBODY or not stale:
        return case.dismissed(reason)
    everyone = (accused, *case.others)
    furthest = max(a.last_stable_offset for a in everyone)
    stale = [a for a in stale if a.last_stable_offset == furthest]
    if not stale or case.answers.leader not in {a.broker for a in everyone}:
        return case.pending(f"{reason}; one that shows an older value may not have come as far as all others")
    shown = f"{reason}; {names(stale)} still {verb(stale, 'show')} an older value"
    return replace(_without_direction(case, shown), lone_witness=tombstone.outcome == COMMITTED)


def _without_direction(case: ClaimCase, reason: str) -> Decision:
    decision = case.differs(values_shown(case), reason, FindingKind.VISIBILITY_MISMATCH)
    return replace(decision, proof_truncated=is_proof_replaced(case))


def _undecided_key(case: ClaimCase, reason: str) -> Decision:
    """Dismiss the claim only if every other replica was read as far as it needs; wait otherwise."""
    live = case.accused.live
    lacks = case.claim.kind not in TOMBSTONE_KINDS
    lacks &= live is None or live.offset < case.claim.offset
    unread = [
        a
        for a in case.others
        if not (lacks and holds_another_record(case.claim, a))
        and (
            a.key is None
            or not (a.key.complete or a.key.complete_from <= case.claim.offset)
            or a.last_stable_offset <= case.claim.offset
            or a.key.newest_offset >= case.accused.last_stable_offset
        )
    ]
    if unread:
        them = agreed(len(unread), "it is", "they are")
        apart = f"{them} behind broker {case.accused.broker}, or ahead of it"
        why = next((a.key_error for a in unread if a.key_error), apart)
        return case.pending(f"{names(unread)} could not be compared: {why}")
    return case.unproven(reason)


def _missing_offset(case: ClaimCase) -> Decision:
    """Judge an absence by its offset alone: in a log that is not compacted, no record goes away alone."""
    claim, accused = case.claim, case.accused
    if accused.last_stable_offset <= claim.offset:
        return case.pending(f"broker {accused.broker} does not show offset {claim.offset} to its consumers yet")
    if accused.log_start_offset > claim.offset:
        reason = f"offset {claim.offset} is below the log start of broker {accused.broker}"
        return case.dismissed(reason, Resolution.DELETED)
    if claim.offset in accused.committed or claim.offset in accused.uncommitted:
        return case.dismissed(f"broker {accused.broker} holds offset {claim.offset}")
    if is_proof_replaced(case):
        return case.unproven(f"what was read at offset {claim.offset} was truncated", Resolution.UNPROVEN)
    holders = [a.broker for a in case.others if claim.offset in a.committed]
    if holders:
        reason = f"{broker_list(holders)} {verb(holders, 'hold')} offset {claim.offset}, broker "
        lacking = [a.broker for a in case.others if claim.offset in a.asked and claim.offset not in a.committed]
        sides = {Side(Shows.RECORD, claim.offset): holders, Side(Shows.NO_RECORD): [accused.broker, *lacking]}
        return case.confirmed(f"{reason}{accused.broker} does not; nothing is compacted there", sides=sides)
    trimmed = any(a.log_start_offset > claim.offset for a in case.others)
    resolution = Resolution.DELETED if trimmed else Resolution.SPREAD
    return case.not_shown(claim.offset, f"no other replica holds offset {claim.offset}", resolution)
