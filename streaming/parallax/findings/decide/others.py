"""Who else shows what a finding is about, when its accused is right again, or gone.

Another may have been copied from the accused before that was put right. Its readers do not go back, so that nothing
else would raise a suspect about it.
"""

from __future__ import annotations

from parallax.findings.answers import Answers, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.endings import live_outcome
from parallax.findings.decide.spread import WRONG, is_wrong
from parallax.model import NOBODY, FindingKind

_OF_A_VALUE = frozenset({FindingKind.DELETED_RECORD_RESURRECTED, FindingKind.RECORD_MISSING})


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
    """Whether a replica shows itself the value, or that it lacks it, or the wrong outcome."""
    if claim.kind in WRONG:
        return live_outcome(claim, answer) == WRONG[claim.kind]
    return claim.kind in _OF_A_VALUE and answer.last_stable_offset > claim.offset and is_wrong(claim, answer) is True
