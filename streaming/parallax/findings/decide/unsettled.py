"""Decides what becomes of a difference without direction once the replicas on its sides show the same.

All may be right, or all wrong: one may have been copied from another that was wrong (a new disk, a reassignment). So
their agreement proves nothing. Such a finding ends only by proof that all are right, or by what was written after the
difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from parallax.findings.answers import ABORTED, COMMITTED, Answers, KeyShown, ReplicaAnswer
from parallax.findings.claim import Claim, Differed
from parallax.findings.decide.case import (
    ClaimCase,
    ClaimState,
    Decision,
    Resolution,
    broker_list,
    names,
    values_shown,
    verb,
)
from parallax.findings.decide.content import held_at, replacing_epoch
from parallax.findings.decide.lineage import is_proof_gone
from parallax.kinds import KEY_KINDS, KINDS, Family
from parallax.model import NOBODY, UNKNOWN, FindingKind
from parallax.sides import standing

_SAID = frozenset({Resolution.GONE, Resolution.EXPLAINED, Resolution.SPREAD})
"""Reasons why a finding is over that say by themselves what became of the difference."""


def differed(claim: Claim, answers: Answers) -> Differed | None:
    """Return what the answers say of a difference about a key or a record, to be kept for later probes.

    For claims of other kinds it is what was kept before.

    Args:
        claim: the claim; ``recorded.differed`` holds what was kept before.
        answers: the replicas' answers; if no replica answered, the result is what was kept before.
    """
    family, before = KINDS[claim.kind].family, claim.recorded.differed
    read = [a for a in answers.replicas.values() if a.error is None]
    if not read or family not in (Family.KEY, Family.CONTENT):
        return before
    newest = max([claim.first_offset, *(a.key.newest_offset for a in read if a.key is not None)])
    below = max(a.last_stable_offset for a in read)
    shown = [a.live.offset for a in read if a.live is not None]
    if before is not None:
        newest, below = max(newest, before.newest), max(below, before.below)
        shown += [before.oldest] if before.oldest != UNKNOWN and not differs_anew(before, answers) else []
    if family is Family.KEY:
        return Differed(newest, below, oldest=min(shown, default=UNKNOWN))
    held = [h for a in read if (h := held_at(a, claim.offset)) is not None]
    one_key = len({h.key for h in held}) == 1 and (before is None or before.one_key)
    return Differed(newest, below, replacing_epoch(held), one_key=one_key)


def differs_anew(before: Differed | None, answers: Answers) -> bool:
    """Whether some replica shows a record of the key that was written after the replicas last differed.

    If the replicas differ again after such a record, it is a new difference.

    Args:
        before: what was known when the replicas last differed.
        answers: the replicas' answers now.
    """
    return before is not None and any(
        a.key is not None and a.key.newest_offset >= before.below for a in answers.replicas.values()
    )


def agreed(case: ClaimCase, decision: Decision) -> Decision:
    """Return the decision on a finding of a difference without direction, if the difference seems to be gone.

    The finding ends only if it is proven that all replicas are right, or if they show only what was written later.
    Otherwise the decision is pending, unsettled, or that the replicas still differ.

    Args:
        case: the claim with its answers.
        decision: the decision that would end the finding.
    """
    claim = case.claim
    if decision.resolution in _SAID:
        return decision
    if case.absent:
        return case.pending(f"{decision.reason}; not reached: {names(case.absent)}")
    if KINDS[claim.kind].family is Family.CONTENT:
        return _one_offset(case, decision)
    if claim.kind in KEY_KINDS and claim.key is not None:
        return _one_key(case, decision)
    return replace(decision, resolution=_unless_traceless(decision.resolution))


def unless_sides_agree(case: ClaimCase, decision: Decision) -> Decision:
    """Return a pending decision on a difference without direction as unsettled if its sides show the same of the key.

    A difference is one between its sides. A replica on none of them may have to come further before its value says
    anything, and an open transaction may keep it from that. So the finding is not over, and the sides differ no more.

    Args:
        case: the claim with its answers.
        decision: what they say of the claim; it is returned if it is not pending, or the sides may differ still.
    """
    claim, everyone = case.claim, (case.accused, *case.others)
    is_without_direction = claim.broker == NOBODY and not claim.spread and claim.kind in KEY_KINDS
    if decision.verdict is not ClaimState.PENDING or not is_without_direction:
        return decision
    sides = [a for a in everyone if a.broker in standing(claim.recorded.sides)]
    are_past = bool(sides) and all(a.last_stable_offset > claim.offset for a in sides)
    if case.absent or not are_past or not all(map(_is_shown, everyone)) or not _show_the_same(sides):
        return decision
    left = broker_list(sorted(a.broker for a in sides))
    return case.dismissed(f"{left} {verb(sides, 'show')} the same of the key", Resolution.AGREED)


def _unless_traceless(resolution: Resolution) -> Resolution:
    return Resolution.AGREED if resolution is Resolution.HEALED else resolution


def _one_key(case: ClaimCase, decision: Decision) -> Decision:
    """Judge a key: all replicas must show the same, and it must be proven or newer than all that differed."""
    claim, everyone = case.claim, (case.accused, *case.others)
    keys = [a.key for a in everyone if a.key is not None]
    if unread := [a for a in everyone if not _is_shown(a)]:
        return case.pending(f"what {names(unread)} shows of the key is not known: {unread[0].key_error}")
    before = claim.recorded.differed
    if before is not None:
        if all(_newest(claim, a) >= before.below for a in everyone):
            return case.dismissed("every replica shows what was written since of the key", Resolution.SUPERSEDED)
        if all(a.log_start_offset > before.newest for a in everyone):
            return case.dismissed("every log begins above what differed", Resolution.DELETED)
    if not _show_the_same(everyone):
        if any(_differ(one, other) for one in everyone for other in everyone):
            return case.differs(values_shown(case), kind=FindingKind.VISIBILITY_MISMATCH)
        return case.pending(f"{decision.reason}; the replicas do not show the same of the key yet")
    if before is not None and any(_deletes(key, before) for key in keys):
        return case.dismissed(f"{decision.reason}; a tombstone that is newer than all that differed is shown")
    if (healed := _was_truncated(case)) is not None:
        return case.dismissed(healed)
    return replace(decision, resolution=Resolution.AGREED)


def _is_shown(answer: ReplicaAnswer) -> bool:
    """Whether an answer says which value of the key its replica shows."""
    return answer.key is not None and (answer.key.complete or answer.key.visible is not None)


def _show_the_same(answers: Iterable[ReplicaAnswer]) -> bool:
    return len({None if answer.live is None else answer.live.offset for answer in answers}) < 2


def _differ(stale: ReplicaAnswer, other: ReplicaAnswer) -> bool:
    """Whether a replica shows a value that another has replaced or deleted, and has passed whatever did that.

    A replica that is past a record has it, or a later one of its key, or nothing of the key that is as old.
    """
    if stale.live is None or other.key is None or not other.key.complete or other.log_start_offset > stale.live.offset:
        return False
    if other.live is None:
        return stale.live.offset < other.last_stable_offset and other.cleaned_below <= stale.last_stable_offset
    return stale.live.offset < other.live.offset < stale.last_stable_offset


def _newest(claim: Claim, answer: ReplicaAnswer) -> int:
    """Return the offset of the newest record of the key that a replica shows, or will show: nobody rolls it back.

    A replica that is held back by a transaction holds such a record above its last stable offset.
    """
    shown = UNKNOWN if answer.key is None or answer.key.visible is None else answer.key.visible.offset
    held = (o for o, record in answer.uncommitted.items() if record.key_hash == claim.key_text and record.is_plain)
    return max([shown, *held])


def _deletes(key: KeyShown, before: Differed) -> bool:
    """Whether a replica shows a tombstone, of no transaction, behind every record of the key that any replica had."""
    shown = key.visible
    return (
        shown is not None
        and shown.value_size < 0
        and shown.outcome not in (COMMITTED, ABORTED)
        and shown.offset > before.newest
    )


def _was_truncated(case: ClaimCase) -> str | None:
    """Say that the cluster has given up the log that differed: every log is of a newer epoch there by now; else None.

    The leader's log is the cluster's: followers truncate what departs from it, and fetch what they lack behind that.
    What they lack below they do not fetch. So this proves nothing where a replica showed an older value than what was
    truncated: another may have cleaned that value for the sake of it, and all may have been copied from there since.
    Nor does it with more than two sides, since the others differed all the same.
    """
    claim, before = case.claim, case.claim.recorded.differed
    showed_older = before is not None and UNKNOWN < before.oldest < claim.offset
    if showed_older or len(claim.recorded.sides) > 2 or not is_proof_gone(case):
        return None
    return f"what was shown at offset {claim.offset} was truncated: every log is of a newer leader epoch from there on"


def _one_offset(case: ClaimCase, decision: Decision) -> Decision:
    """Judge an offset that all hold alike: they are right if a newer leader epoch has replaced all other records.

    Once the record is gone, the cleaner has removed it for a newer record of its key, if all were of one key.
    """
    claim, everyone = case.claim, (case.accused, *case.others)
    before = claim.recorded.differed
    if all(a.log_start_offset > claim.offset for a in everyone):
        return case.dismissed(f"every log begins above offset {claim.offset}", Resolution.DELETED)
    held = [h for a in everyone if (h := held_at(a, claim.offset)) is not None]
    if not held and before is not None and before.one_key and decision.resolution is Resolution.COMPACTED:
        return decision
    epoch = UNKNOWN if before is None else before.epoch
    leads = any(h.broker == case.answers.leader for h in held)
    if epoch != UNKNOWN and leads and min(h.leader_epoch for h in held) >= epoch:
        return case.dismissed(f"{decision.reason}: what leader epoch {epoch} has written, as the leader's log has it")
    return replace(decision, resolution=Resolution.AGREED)


__all__ = ["agreed", "differed", "differs_anew", "unless_sides_agree"]
