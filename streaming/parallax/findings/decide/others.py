"""Finds other replicas that are wrong like the accused, once a finding is over for its accused.

Another replica may have been copied from the accused before the accused was repaired. No reader would raise a suspect
about it, because readers never read an offset twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from parallax.findings.answers import Answers, RecordShown, ReplicaAnswer, value_shown
from parallax.findings.claim import Claim
from parallax.findings.decide.endings import live_outcome
from parallax.findings.decide.spread import is_wrong
from parallax.kinds import OPEN_KINDS, VALUE_KINDS, WRONG_OUTCOMES
from parallax.model import NOBODY, UNKNOWN
from parallax.sides import Side, by_broker


def unread(claim: Claim, answers: Answers) -> frozenset[int]:
    """Return the brokers, without the accused, whose answers do not say whether they are wrong as well.

    They do not count as right: some of them may be suspected when the claim is over.
    """
    said = {b: a for b, a in answers.replicas.items() if b != claim.broker}
    return frozenset(b for b, a in said.items() if a.error is not None or not _says(claim, a))


def _says(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether an answer shows, by the record or by the key, how the replica treats what the claim is about."""
    if claim.kind in WRONG_OUTCOMES and live_outcome(claim, answer) is not None:
        return True
    is_of_a_key = claim.key is not None and claim.kind in VALUE_KINDS | WRONG_OUTCOMES.keys()
    return not is_of_a_key or (answer.key is not None and answer.key.complete)


def differing_values(claim: Claim, answers: Answers) -> dict[Side, list[int]]:
    """Return by side the brokers that show the same value of a finding's key, after the finding has ended.

    Empty if all show the same. Values may differ for two reasons. There is another divergence. Or a replica lacks a
    value because of the fault that the finding proved, although the replica no longer holds the finding's record.

    Replicas are compared at each last stable offset that one of them has reported, the lowest first. Those that came
    less far, or have a newer record of the key, are left out. The first difference is returned.
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
    """Return the replicas by what they show of a key, if its newest record there lies below an offset."""
    behind = (a for a in sorted(read, key=lambda a: a.broker) if a.key is not None and a.key.newest_offset < up_to)
    return by_broker({a.broker: value_shown(a.live) for a in behind})


def showing_its_value(accused: int, answers: Answers) -> frozenset[int]:
    """Return the brokers other than the accused that show the accused's value of the key.

    If the accused shows no value, they are the brokers that show no value. They may be copies of the accused from which
    the record has been cleaned.
    """
    read = {b: a for b, a in answers.replicas.items() if a.error is None and a.key is not None and a.key.complete}
    if accused not in read:
        return frozenset()
    own = read[accused].live
    return frozenset(b for b, a in read.items() if b != accused and _offset(a.live) == _offset(own))


def _offset(shown: RecordShown | None) -> int:
    return UNKNOWN if shown is None else shown.offset


def showing_the_same(claim: Claim, answers: Answers) -> tuple[int, ...]:
    """Return the brokers other than the accused whose replicas are wrong in the way that the finding says, ascending.

    The caller makes a suspect of each. There are none if the finding accuses nobody, or has spread.

    Args:
        claim: what the finding claims.
        answers: the answers that ended the finding for its accused.
    """
    if claim.broker == NOBODY or claim.spread:
        return ()
    others = (a for b, a in sorted(answers.replicas.items()) if b != claim.broker and a.error is None)
    return tuple(a.broker for a in others if _shows_it(claim, a))


def _shows_it(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica shows the value, lacks the value, shows the wrong outcome, or holds the transaction open."""
    if claim.kind in WRONG_OUTCOMES:
        return live_outcome(claim, answer) == WRONG_OUTCOMES[claim.kind]
    if claim.kind in OPEN_KINDS:
        return answer.holds_open(claim.producer_id, claim.transaction_start_offset, claim.marker_offset)
    return claim.kind in VALUE_KINDS and answer.last_stable_offset > claim.offset and is_wrong(claim, answer) is True
