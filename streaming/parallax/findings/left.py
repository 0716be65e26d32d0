"""When a finding is over, makes suspects about the other replicas that may still be wrong in the same way.

Another replica may still show what the finding proved wrong. Readers never read an offset twice, so the comparison
would raise no suspect about that replica. The evidence of the finding's last event names such replicas, so they are
known after a restart as well. A member of an incident has no event of its own. The suspects that it leaves are rows of
the table ``members``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from parallax.findings.answers import Answers, RecordShown, value_shown
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import Resolution, differing_values, held_back, showing_the_same, unread
from parallax.findings.effect import COVERED
from parallax.findings.finding import Finding, claim_of, evidence_of, is_proof_past
from parallax.kinds import OUTCOME_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, FindingStatus, Rule, id_of
from parallax.moments import milliseconds
from parallax.sides import Shows, Side, Sides, as_document, by_broker, values

_VALUES = COVERED + 1
"""How many differences of value are left to be judged at most. Each key that is asked about has one."""


def left_by(known: Finding, claim: Claim, answers: Answers) -> dict[str, Any]:
    """Return which other replicas still show what a finding proved wrong, for the evidence of its last event.

    The dict is that of `left_over`: ``shown_by`` and ``differing``. It is empty if the finding accused nobody, or was
    about all replicas.

    Args:
        known: the finding's event before its last one.
        claim: the claim that the probe judged.
        answers: the answers that show that the accused is right again.
    """
    if is_proof_past(known) or known.broker == NOBODY:
        return {}
    return left_over(claim, answers, claim_of(known).recorded.beside)


def left_over(claim: Claim, answers: Answers, beside: Iterable[int]) -> dict[str, Any]:
    """Return which other replicas are still wrong in the same way as the accused of a claim was.

    The parameter ``claim`` is the claim that was judged, and ``answers`` show that its accused is right again.
    ``beside`` are the brokers other than the accused that showed the same when they were last asked.

    Returns:
        ``shown_by`` lists the brokers that show the same as the accused did. It includes those that showed it when they
        were last asked, and cannot be asked now, and those that are left and `held_back`. ``differing`` lists keys
        whose values differ between the brokers outside ``shown_by``, because one of them may be wrong about the value
        alone. A list that would be empty is left out. Both are missing if the claim accuses nobody, or has spread.
    """
    if claim.broker == NOBODY or claim.spread:
        return {}
    records = [(claim, answers), *answers.rest]
    shown = {b for c, a in records for b in showing_the_same(c, a)}
    may_show = unread(claim, answers).intersection(beside) | held_back(claim, answers)
    rest = [(c, _without(a, shown)) for c, a in records]
    differing = [_differing(c, sides, a) for c, a in rest if (sides := differing_values(c, a))]
    if claim.kind in OUTCOME_KINDS:
        # By the time that these can be asked, their record may be gone, and a value with it.
        differing += [_unread(c, a, broker) for c, a in records for broker in sorted(may_show) if c.key is not None]
    left = {"shown_by": sorted(shown | may_show), "differing": differing[:_VALUES]}
    return {name: said for name, said in left.items() if said}


def claims_left(finding: Finding) -> list[Claim]:
    """Return suspects about the other replicas that may still be wrong after a finding is over.

    They come from the evidence of the finding's last event, so each call returns the same ones.
    """
    if finding.status is not FindingStatus.RESOLVED or finding.broker == NOBODY:
        return []
    evidence = evidence_of(finding)
    if not (evidence.get("shown_by") or evidence.get("differing")):
        return []  # Most have left nothing, and a start goes through all.
    has_healed = evidence.get("resolution") == Resolution.HEALED
    return claims_of(claim_of(finding), evidence, milliseconds(finding.decided_at), has_healed=has_healed)


def claims_of(claim: Claim, left: Mapping[str, Any], at_ms: int, *, has_healed: bool) -> list[Claim]:
    """Return suspects about the other replicas that may still be wrong after a proven claim is over.

    Args:
        claim: the claim that had been proven.
        left: the replicas that may still be wrong, as `left_over` returns them.
        at_ms: when the claim was found to be over, milliseconds since 1970 UTC.
        has_healed: whether the accused of the claim has been proven right.
    """
    others, values = left.get("shown_by", []), left.get("differing", [])
    return [
        *(claim.of_another(b, at_ms, has_healed=has_healed) for b in others if isinstance(b, int)),
        *(_of_values(claim, one, at_ms) for one in values if isinstance(one, dict)),
    ]


def _without(answers: Answers, brokers: Collection[int]) -> Answers:
    """Return the answers of the other replicas."""
    return replace(answers, replicas={b: a for b, a in answers.replicas.items() if b not in brokers})


def _unread(claim: Claim, answers: Answers, broker: int) -> dict[str, Any]:
    """Return the same as `_differing`, for a key whose values may differ on a replica that cannot be asked."""
    live = {b: a.live for b, a in sorted(answers.replicas.items()) if a.error is None}
    shown = [one for one in live.values() if one is not None]
    newest = max(shown, key=lambda one: one.offset, default=None)
    sides = by_broker({broker: Side(Shows.NOT_READ)} | {of: value_shown(one) for of, one in live.items()})
    return {
        "offset": claim.first_offset if newest is None else newest.offset,
        "producer_id": claim.producer_id if newest is None else _producer(newest),
        "key": [claim.key_hash_hi, claim.key_hash_lo],
        "sides": as_document(sides),
        "pivot": broker,
    }


def _producer(shown: RecordShown) -> int:
    """Return the producer of a transactional record that was not surely committed; -1 for a plain one."""
    return UNKNOWN if shown.is_plain else shown.producer_id


def _differing(claim: Claim, sides: Sides, answers: Answers) -> dict[str, Any]:
    """Return what the evidence keeps of a key whose values differ; the offset is that of the newest value."""
    newest = max(values(sides.keys()), key=lambda side: side.offset)
    records = (a.live for a in answers.replicas.values() if a.error is None)
    producers = {_producer(r) for r in records if r is not None and r.offset == newest.offset}
    return {
        "offset": newest.offset,
        "producer_id": max(producers, default=UNKNOWN),
        "key": [claim.key_hash_hi, claim.key_hash_lo],
        "sides": as_document(sides),
        "pivot": min(sides[newest]),
    }


def _of_values(claim: Claim, one: Mapping[str, Any], at_ms: int) -> Claim:
    """Return a suspect without direction on a key whose values differ."""
    said = {"sides": one["sides"], "pivot": one["pivot"], "topic_id": claim.recorded.topic_id}
    high, low = one["key"]
    return Claim(
        suspect_id=id_of(claim.suspect_id, one["offset"], one["key"], *one["sides"].get(Shows.NOT_READ, [])),
        rule=Rule.LATEST_VALUE,
        kind=FindingKind.VISIBILITY_MISMATCH,
        topic=claim.topic,
        partition=claim.partition,
        broker=NOBODY,
        offset=one["offset"],
        producer_id=one.get("producer_id", claim.producer_id),
        key_hash_hi=high,
        key_hash_lo=low,
        recorded=RecordedByViews.of(said),
        raised_at_ms=at_ms,
        freed=True,
    )
