"""Who else shows what a finding is about, when its accused is right again, or gone.

Another may have been copied from the accused before that was put right. Its readers do not go back, so that nothing
else would raise a suspect about it.
"""

from __future__ import annotations

from collections.abc import Iterable

from parallax.findings.answers import Answers, RecordShown, ReplicaAnswer, value_shown
from parallax.findings.claim import Claim
from parallax.findings.decide.endings import live_outcome
from parallax.findings.decide.spread import WRONG, is_wrong
from parallax.kinds import OPEN_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind
from parallax.sides import Side, by_broker

_OF_A_VALUE = frozenset({FindingKind.DELETED_RECORD_RESURRECTED, FindingKind.RECORD_MISSING})


def unread(claim: Claim, answers: Answers) -> frozenset[int]:
    """Return the other replicas of which the answers do not say whether they show what a finding is about."""
    said = {b: a for b, a in answers.replicas.items() if b != claim.broker}
    return frozenset(b for b, a in said.items() if a.error is not None or not _says(claim, a))


def _says(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica says by a record, or by its key, what it makes of what a claim is about."""
    if claim.kind in WRONG and live_outcome(claim, answer) is not None:
        return True
    is_of_a_key = claim.key is not None and claim.kind in (*WRONG, *_OF_A_VALUE)
    return not is_of_a_key or (answer.key is not None and answer.key.complete)


def differing_values(claim: Claim, answers: Answers) -> dict[Side, list[int]]:
    """Return who shows which value of the key of a finding that is over; empty where none differ.

    What differs then is another divergence, or what the finding was about on a replica that holds its record no more.
    One that is behind the others, or frozen, is left out where they would not be compared for its sake.
    """
    if claim.key is None or claim.spread:
        return {}
    read = [a for a in answers.replicas.values() if a.error is None and a.key is not None and a.key.complete]
    for up_to in sorted({a.last_stable_offset for a in read}):
        sides = _values_shown([a for a in read if a.last_stable_offset >= up_to], up_to)
        if len(sides) > 1:
            return sides
    return {}


def _values_shown(read: Iterable[ReplicaAnswer], up_to: int) -> dict[Side, list[int]]:
    """By what they show of a key, the replicas whose newest record of it lies below an offset."""
    behind = (a for a in sorted(read, key=lambda a: a.broker) if a.key is not None and a.key.newest_offset < up_to)
    return by_broker({a.broker: value_shown(a.live) for a in behind})


def showing_its_value(accused: int, answers: Answers) -> frozenset[int]:
    """Return the others whose key shows what that of a replica does: where its record is gone, they may be copies."""
    read = {b: a for b, a in answers.replicas.items() if a.error is None and a.key is not None and a.key.complete}
    if accused not in read:
        return frozenset()
    own = read[accused].live
    return frozenset(b for b, a in read.items() if b != accused and _offset(a.live) == _offset(own))


def _offset(shown: RecordShown | None) -> int:
    return UNKNOWN if shown is None else shown.offset


def showing_the_same(claim: Claim, answers: Answers) -> tuple[int, ...]:
    """Return the other replicas that show what a finding is about: each is to be judged by itself.

    Args:
        claim: of the finding.
        answers: by which it is over for its accused.
    """
    if claim.broker == NOBODY or claim.spread:
        return ()
    others = (a for b, a in sorted(answers.replicas.items()) if b != claim.broker and a.error is None)
    return tuple(a.broker for a in others if _shows_it(claim, a))


def _shows_it(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica shows the value, or that it lacks it, or the wrong outcome, or holds the transaction open."""
    if claim.kind in WRONG:
        return live_outcome(claim, answer) == WRONG[claim.kind]
    if claim.kind in OPEN_KINDS:
        return answer.holds_open(claim.producer_id, claim.transaction_start_offset, claim.marker_offset)
    return claim.kind in _OF_A_VALUE and answer.last_stable_offset > claim.offset and is_wrong(claim, answer) is True
