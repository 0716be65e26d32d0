"""Describes a finding in a sentence or two of plain English, for the person on call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from parallax.counts import agreed, brokers_text, counted
from parallax.findings.alike import is_exposed, variant_of
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.decide import Decision, Resolution
from parallax.findings.internal_keys import key_in_words
from parallax.findings.members import MemberGroup
from parallax.kinds import (
    KINDS,
    NO_DIRECTION,
    OUTCOME_KINDS,
    TOMBSTONE_KINDS,
    Family,
    Variant,
    effect_of,
)
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.moments import utc_text
from parallax.sides import OUTCOMES, Shows, Side


def summary(claim: Claim, decision: Decision, answers: Answers) -> str:
    """Return a sentence or two: which broker shows what, and what that means for consumers of the replicas.

    A broker that neither answered nor was read is not named.
    """
    kind, accused = decision.kind, decision.accused
    variant = variant_of(claim, decision, answers)
    effect = effect_of(kind, variant)
    consumers = effect.consumers
    answer = answers.replicas.get(accused)
    live = answer.key.live if answer is not None and answer.key is not None else None
    sentence = effect.shows.format(
        broker=accused,
        partition=f"{claim.topic}-{claim.partition}",
        others=_others(decision, answers),
        sides=sides_in_words(decision.sides),
        offset=_place(claim, decision, answers),
        marker=claim.marker_offset,
        producer_id=claim.producer_id,
        start=claim.transaction_start_offset,
        lso=answer.last_stable_offset if answer is not None else "?",
        shown=live.offset if live is not None else "?",
    )
    if (blocked := blocked_at(claim, decision, answers)) is not None:
        sentence = f"{sentence} {_BLOCKED.format(lso=blocked, broker=accused)}"
    if KINDS[kind].family is Family.CONTENT and accused != NOBODY:
        sentence = f"{sentence} What broker {accused} holds there was replaced in a newer leader epoch."
    if (words := key_in_words(claim.topic, answers.key)) is not None:
        sentence = f"{sentence} The key is {words}."
    if accused == NOBODY:
        return f"{sentence} {NO_DIRECTION} Consumers {consumers}."
    if answers.leader == accused:
        return f"{sentence} Broker {accused} leads the partition: consumers {consumers}."
    if not is_exposed(accused, claim, decision, answers):
        return f"{sentence} If broker {accused} becomes the leader, consumers {consumers}."
    sentence = f"{sentence} Broker {answers.leader} leads the partition and"
    if kind is FindingKind.LOG_TRUNCATED:
        return f"{sentence} lacks it as well: consumers {consumers}."
    if kind is FindingKind.OUTCOME_CONTRADICTS_MARKER and variant is not Variant.TAKEN:
        return f"{sentence} shows that record alike: if it is wrong there as well, consumers {consumers}."
    if answers.leader in decision.open_on:
        return f"{sentence} holds that transaction open as well."
    return f"{sentence} shows the same: consumers {consumers}."


def variant_of_many(group: MemberGroup) -> Variant:
    """Return what an incident is about (`variant_of`)."""
    return Variant.MANY_OUTCOMES if group.is_of_transactions else Variant.MANY


_BLOCKED = (
    "It holds that transaction open by now, and its last stable offset is stuck at {lso}: consumers of broker {broker} "
    "in read_committed get nothing beyond it."
)


def blocked_at(claim: Claim, decision: Decision, answers: Answers) -> int | None:
    """Return the LSO at which the accused is frozen by the very transaction that it had ended wrongly; else None.

    This happens if the wrong end marker was truncated, so that the accused holds the transaction open now. The accused
    shows read_committed consumers nothing from the LSO on. A freeze by another transaction is a finding of its own.
    """
    answer = answers.replicas.get(decision.accused)
    if decision.kind not in OUTCOME_KINDS or answer is None or answer.error is not None:
        return None
    held = answer.open_transaction(claim.producer_id, claim.transaction_start_offset, claim.marker_offset)
    return answer.last_stable_offset if held is not None and answer.is_held_by(held) else None


def _place(claim: Claim, decision: Decision, answers: Answers) -> int:
    """Return the offset to name: the record's, or where the accused's log begins now, or the tombstone's."""
    accused = answers.replicas.get(decision.accused)
    if decision.kind is FindingKind.LOG_HEAD_MISSING and accused is not None:
        return accused.log_start_offset
    if decision.kind in TOMBSTONE_KINDS and decision.proven_by is not None:
        return decision.proven_by.offset
    return claim.first_offset


def sides_in_words(sides: Mapping[Side, Sequence[int]]) -> str:
    """Return which brokers show what, e.g. ``no value on broker 1, value at offset 7 on brokers 2 and 3``."""
    return (
        ", ".join(f"{side.text} on {brokers_text(brokers)}" for side, brokers in sides.items())
        or "by none that answered"
    )


_SPREAD_WITHOUT_DIRECTION = (
    "{reason}: nothing is left to compare with. Which side of {partition} was right was not proven while the replicas "
    "differed. Consumers of any replica {consumers}."
)
_SPREAD = (
    "{reason}. No replica of {partition} that answered has kept what was right when broker {broker} was found wrong: "
    "nothing is left to compare with. Consumers {consumers}."
)


def spread(claim: Claim, decision: Decision, variant: str = Variant.PLAIN) -> str:
    """Say in a sentence that all replicas are wrong, and what their consumers see.

    Args:
        claim: what was claimed while the replicas differed.
        decision: says what all of them show now.
        variant: what the finding was about (`variant_of`).
    """
    text = _SPREAD if claim.broker != NOBODY else _SPREAD_WITHOUT_DIRECTION
    return text.format(
        reason=decision.reason[:1].upper() + decision.reason[1:],
        partition=f"{claim.topic}-{claim.partition}",
        broker=claim.broker,
        consumers=effect_of(decision.kind, variant).consumers,
    )


_AGREED = (
    "{reason}. Nothing has proven that this is right: while the replicas of {partition} differed, no side was, and one "
    "may have been copied from another since. Compare it with the system that wrote it."
)


_DOUBTFUL = (
    "{reason}. Broker {broker} of {partition} was proven wrong before. All replicas answer in sync, and what they show "
    "now proves neither that it still is nor that it is right."
)
_DOUBTFUL_WITHOUT_DIRECTION = (
    "{reason}. Replicas of {partition} differed before. All answer in sync, and what they show now proves neither that "
    "they still do nor that all are right."
)


def unsettled(claim: Claim, decision: Decision) -> str:
    """Say in a sentence that no replica is proven wrong any more, and that nothing proves all of them right.

    Args:
        claim: what was claimed while one was.
        decision: says whether the replicas agree by now, or why nothing is proven.
    """
    text = _AGREED
    if decision.resolution is Resolution.DOUBTFUL:
        text = _DOUBTFUL if claim.broker != NOBODY else _DOUBTFUL_WITHOUT_DIRECTION
    return text.format(
        reason=decision.reason[:1].upper() + decision.reason[1:],
        partition=f"{claim.topic}-{claim.partition}",
        broker=claim.broker,
    )


def incident(
    group: MemberGroup, count: int, offsets: tuple[int, int], waiting: int, status: FindingStatus, *, is_exposed: bool
) -> str:
    """Say in a sentence how many keys or transactions an incident counts, and what consumers see.

    Args:
        group: the kind, the partition and the accused of the incident.
        count: how many keys or transactions have been proven.
        offsets: the lowest and the highest offset of their records.
        waiting: how many suspects of the group have no verdict yet.
        status: confirmed, spread (all replicas are wrong), or unsettled (none is proven wrong or right any more).
        is_exposed: whether the accused leads, or a replica that shows the same.
    """
    partition = group.place.name
    lowest, highest = offsets
    text = effect_of(group.kind, variant_of_many(group)).many
    if status is FindingStatus.UNSETTLED:
        text = _UNSETTLED_MANY
    elif status is FindingStatus.SPREAD and group.broker == NOBODY:
        text = _DIFFERED_MANY
    sentence = text.format(
        broker=group.broker,
        partition=partition,
        count=f"{count:,}",
        counted=counted_in_words(group, count),
        lowest=lowest,
        highest=highest,
    )
    if status is FindingStatus.UNSETTLED:
        return sentence
    sentence = f"{sentence} A probe has proven it of each."
    if waiting:
        sentence = f"{sentence} {waiting:,} more {agreed(waiting, 'is', 'are')} suspected and not proven."
    return f"{sentence} {seen_of_many(group, status, is_exposed=is_exposed)}"


def seen_of_many(group: MemberGroup, status: FindingStatus, *, is_exposed: bool) -> str:
    """Say what consumers see of an incident, without a number, which moves.

    Args:
        group: the kind, the partition and the accused of the incident.
        status: confirmed, spread (all replicas are wrong), or unsettled (none is proven wrong or right any more).
        is_exposed: whether the accused leads, or a replica that shows the same.
    """
    consumers = effect_of(group.kind, variant_of_many(group)).consumers
    if status is FindingStatus.UNSETTLED:
        return _UNSETTLED_NOW
    if status is FindingStatus.SPREAD:
        kept = "shows otherwise by now" if group.broker == NOBODY else "has kept what was right"
        return f"No replica that answered {kept}: nothing is left to compare with. Consumers {consumers}."
    if group.broker == NOBODY:
        return f"{NO_DIRECTION} Consumers {consumers}."
    leads = "The leader shows that:" if is_exposed else f"If broker {group.broker} becomes the leader,"
    return f"{leads} consumers {consumers}."


_UNSETTLED_MANY = (
    "Replicas of {partition} differed in {counted} (offsets {lowest} to {highest}). What they show now proves none of "
    "them wrong, and nothing has proven which was right. Compare them with the system that wrote them."
)

_UNSETTLED_NOW = "What the replicas show now proves none of them wrong, and nothing has proven which was right."


_DIFFERED_MANY = "The replicas of {partition} differed in {counted} (offsets {lowest} to {highest})."
"""The beginning where all show the same by now, and nobody was accused."""


def counted_in_words(group: MemberGroup, number: int | None = None) -> str:
    """Return what an incident counts, with the number if one is given: ``3 keys``, ``1 transaction``, ``keys``."""
    what = "transaction" if group.is_of_transactions else "key"
    return f"{what}s" if number is None else counted(number, what)


def asked_in_words(at: datetime) -> str:
    """Return when the replicas were asked, in a few words: ``asked 2026-01-02 12:03:05Z``."""
    return f"asked {utc_text(at)}"


_AS_READ = "according to what was read earlier"
"""Where an end that other replicas show no more is known from."""


def _others(decision: Decision, answers: Answers) -> str:
    if decision.kind in OUTCOME_KINDS and Side(Shows.OPEN) in decision.sides:
        return _AS_READ
    if decision.kind in OUTCOME_KINDS and decision.sides and OUTCOMES.isdisjoint(side.shows for side in decision.sides):
        # Values of the key differ: they do not say how any replica has ended the transaction.
        return f"{_AS_READ}. Shown for its key: {sides_in_words(decision.sides)}"
    if decision.witnesses:
        return f"on {brokers_text(decision.witnesses)}"
    if decision.kind in OUTCOME_KINDS:
        return _AS_READ  # a coordinator only knows how its producer's last transaction ended
    coordinator = answers.coordinator
    return "according to its coordinator" if coordinator is not None and coordinator.has_ended else _AS_READ
