"""Decides whether replicas hold different records, or different end markers, at one offset, and which one is stale."""

from __future__ import annotations

from dataclasses import dataclass

from parallax.findings.answers import ReplicaAnswer
from parallax.findings.decide.case import ClaimCase, Decision, broker_list
from parallax.model import UNKNOWN, IsolationLevel
from parallax.sides import Shows, Side, Sides, by_broker, standing


@dataclass(frozen=True, slots=True)
class HeldThere:
    """The record or end marker that one replica holds at the claim's offset.

    Attributes:
        text: the content in words; equal texts are equal contents.
        leader_epoch: the record's leader epoch; -1 where it is not known, and for an end marker.
        key: the hash of the record's key as text; empty without a key.
    """

    broker: int
    text: str
    leader_epoch: int = UNKNOWN
    key: str = ""


def record_at_offset(case: ClaimCase) -> Decision:
    """Return the decision on a claim that replicas hold different records, or different end markers, at one offset."""
    claim, asked_last = case.claim, case.accused
    held = [h for a in (asked_last, *case.others) if (h := held_at(a, claim.offset)) is not None]
    sides = by_broker({each.broker: Side(Shows.CONTENT, content=each.text) for each in held})
    if len(sides) > 1:
        return _differ(case, held, sides)
    if len(held) > 1:
        same = f"every replica that holds offset {claim.offset} holds the same there"
        stood = standing(claim.recorded.sides)
        is_awaited = any(a.broker in stood for a in case.absent)
        return case.unproven(same) if is_awaited else case.dismissed(same)
    if asked_last.high_watermark <= claim.offset:
        return case.pending(f"broker {asked_last.broker} does not show offset {claim.offset} yet")
    if not held:
        reason = f"{broker_list([a.broker for a in (asked_last, *case.others)])} do not hold offset {claim.offset}"
        return case.not_held(f"{reason} any more", claim.offset)
    alone = f"{broker_list([h.broker for h in held])} alone holds offset {claim.offset}"
    return case.not_shown(claim.offset, alone, isolation=IsolationLevel.READ_UNCOMMITTED)


def _differ(case: ClaimCase, held: list[HeldThere], sides: Sides) -> Decision:
    """Accuse a replica with an older record, if the leader's log holds what a newer epoch has written at the offset.

    Leader epochs only grow along a log, and a replica truncates its log where it departs from the leader's (KIP-101).
    Both records had been read before these questions were asked. So the newer one was there when the older was shown. A
    newer epoch alone proves nothing: an unclean election may have elected a log that never held it.
    """
    reason = f"offset {case.claim.offset} does not hold the same on " + broker_list([h.broker for h in held])
    newest = max(h.leader_epoch for h in held)
    stands = any(h.broker == case.answers.leader and h.leader_epoch == newest for h in held)
    match _of_older_epochs(held):
        case [stale] if stands:
            return case.confirmed(
                f"{reason}: broker {stale.broker} holds what was written in leader epoch {stale.leader_epoch}, and the "
                f"leader's log what epoch {newest} has written",
                accused=stale.broker,
                sides=sides,
            )
        case _:
            return case.differs(sides, reason)


def replacing_epoch(held: list[HeldThere]) -> int:
    """Return the leader epoch of the newest record at an offset, if that record has replaced others there.

    Else it is -1: all replicas hold the same, some leader epoch is not known, or unlike records are of the newest one.

    Args:
        held: what the replicas hold at this one offset; a replica that holds nothing there is left out.
    """
    return max(h.leader_epoch for h in held) if _of_older_epochs(held) else UNKNOWN


def _of_older_epochs(held: list[HeldThere]) -> list[HeldThere]:
    """Return the replicas that hold what a newer epoch has replaced; none where the epochs do not show it."""
    epochs = {h.leader_epoch for h in held}
    if not epochs:
        return []
    standing = {h.text for h in held if h.leader_epoch == max(epochs)}
    if len(standing) > 1 or UNKNOWN in epochs:
        return []
    return [h for h in held if h.text not in standing]


def held_at(answer: ReplicaAnswer, offset: int) -> HeldThere | None:
    """Return the record or end marker that a replica holds at an offset; None where it holds none."""
    for marker in answer.markers:
        if marker.offset == offset:
            return HeldThere(answer.broker, f"{marker.type} marker of producer {marker.producer_id}")
    record = answer.uncommitted.get(offset)
    if record is None:
        return None
    text = (
        f"record {record.key_hash[:8] or 'without key'}/{record.content_hash} of producer {record.producer_id}, "
        f"epoch {record.producer_epoch}, timestamp {record.timestamp}"
    )
    return HeldThere(answer.broker, text, record.leader_epoch, record.key_hash)
