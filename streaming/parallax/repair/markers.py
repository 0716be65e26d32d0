"""Decides whether a repair may write an end marker for an open transaction. Pure."""

from __future__ import annotations

from collections.abc import Collection

from parallax.findings.hanging import Standing
from parallax.model import UNKNOWN, Outcome
from parallax.repair.seen import OUTCOMES, Look, Transaction


def not_over(one: Transaction) -> str:
    """Why a transaction may not be over for its coordinator, as a phrase; empty if it is known to hang.

    A transaction hangs if it is open, and no coordinator will ever end it. Only then may anybody else write its end
    marker.
    """
    return "" if one.verdict.standing is Standing.HANGS else f"whether it is over is not known: {one.verdict.why}"


def not_safe(
    look: Look, one: Transaction, end: str, marker_offset: int, before: Collection[tuple[int, int]] = ()
) -> str:
    """Why an end marker may not be written for a transaction, in a phrase; empty if it may.

    An end marker ends every transaction that its producer has open in the partition. So no replica may hold another
    transaction of the producer open. And no replica may count records of a later transaction to this one, because it
    missed the marker between them. No replica may hold an older transaction open, of any producer: its last stable
    offset would stay below this one, and nobody could see what the marker has brought about.

    Args:
        look: a look at the partition.
        one: the transaction.
        end: the type of the marker to write: ``commit`` or ``abort``.
        marker_offset: the offset at which the transaction's original end marker was read; -1 if none was.
        before: transactions that the same plan ends first, each as producer id and first offset.
    """
    if why := not_over(one) or _older(look, one, before):
        return why
    newer = look.open_of(one.producer_id) - {one.start_offset}
    if newer:
        return (
            f"its producer has another transaction open, from offset {min(newer)} on, which an end marker would end as "
            "well. Wait until that is over, or stop the producer, and plan again"
        )
    for broker, log in sorted(one.logs.items()):
        if log.error:
            return f"what broker {broker} holds of it could not be read ({log.error})"
    holders = look.holders(one.producer_id, one.start_offset)
    read = [log.ends[0][0] for broker, log in one.logs.items() if log.ends and broker not in holders]
    bound = min(read, default=UNKNOWN) if marker_offset == UNKNOWN else marker_offset
    for broker in holders:
        last = max((row.offset for row in one.logs[broker].records), default=one.start_offset)
        epochs = {row.producer_epoch for row in one.logs[broker].records} - {UNKNOWN}
        if len(epochs) > 1:
            return (
                f"broker {broker} takes records of several transactions for it, by their producer epochs: one end "
                "marker cannot end all rightly. Have the replica copied again"
            )
        if bound != UNKNOWN and last > bound:
            return (
                f"broker {broker} takes the record at offset {last}, of a later transaction, for part of it: one end "
                "marker cannot end both rightly. Have the replica copied again"
            )
    wrong = _otherwise(look, one, end, marker_offset)
    return f"{wrong}; one of the two is wrong about it" if wrong else ""


def _older(look: Look, one: Transaction, before: Collection[tuple[int, int]]) -> str:
    """That a replica holds an older transaction open, which is not ended first."""
    for broker, replica in sorted(look.replicas.items()):
        starts = {(state.producer_id, state.current_transaction_start_offset) for state in replica.producers}
        older = [start for _, start in starts - {*before} if UNKNOWN < start < one.start_offset]
        if older:
            return (
                f"broker {broker} holds an older transaction open, from offset {min(older)} on: until that is over, no "
                "replica can show how this one ended. End that one first, or in the same plan"
            )
    return ""


def _otherwise(look: Look, one: Transaction, end: str, marker_offset: int) -> str:
    """That a replica which has ended the transaction shows a record of it otherwise.

    Its records end before the marker that was read, or before the first marker that the replica holds: a cleaner keeps
    that one as long as a record is left.
    """
    holders = look.holders(one.producer_id, one.start_offset)
    for broker, log in sorted(one.logs.items()):
        bound = marker_offset if marker_offset != UNKNOWN else next((at for at, _ in log.ends), UNKNOWN)
        for row in log.records if broker not in holders else ():
            is_first = row.offset == one.start_offset
            is_of_it = is_first or ((row.offset < bound or bound == UNKNOWN) and row.outcome is not Outcome.UNDECIDED)
            if is_of_it and row.outcome is not OUTCOMES[end]:
                what = "its first record" if is_first else f"its record at offset {row.offset}"
                return f"broker {broker} shows {what} as {row.outcome.name.lower()}"
    return ""


__all__ = ["not_over", "not_safe"]
