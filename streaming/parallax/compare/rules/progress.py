"""Invariant I4 (progress): a replica past the end of a transaction does not keep its last stable offset before it.

A last stable offset that stays behind that of another replica is not wrong yet. A clock starts once the replica's high
watermark has reached the *reference*: the last stable offset that the other replica had when it was first seen ahead.
So the clock does not start for a replica that does not replicate. It does not start either for a replica whose high
watermark trails by a fetch round, or steps back after a restart. If the other replicas' logs are truncated, the
reference goes down with them. Any movement of the last stable offset stops the clock.

If no other replica is ahead, all may still be wrong. Example: broker 1's last stable offset was 90 when its high
watermark was 95. Then brokers 1 and 3 are replaced by copies of broker 2, whose last stable offset stays at 50. The
state remembers the 90 and the 95 (`EndedTo`). As long as all last stable offsets lie below 90, the reference for the
replica with the highest one is 95.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from parallax.compare.observations import COMMIT, Array, OpenTransactions, ProgressRows
from parallax.compare.rules.arrays import slots_of
from parallax.compare.state import ENDED, NEVER
from parallax.compare.suspect import Accusation
from parallax.model import UNKNOWN, FindingKind, Rule


class EndedTo(NamedTuple):
    """The offset up to which all transactions were seen to have ended; `PARTITION` keeps it, -1 if unknown.

    Attributes:
        to: a last stable offset: every transaction that begins below it, and from ``start`` on, had ended.
        below: the high watermark that was seen with ``to``: the end markers of these transactions lie below it.
        start: log start of the replica that reported ``to``.
        epoch: leader epoch of the last batch that this replica held below ``below``.
        broker: id of the broker of this replica.
    """

    to: int = UNKNOWN
    below: int = UNKNOWN
    start: int = UNKNOWN
    epoch: int = UNKNOWN
    broker: int = UNKNOWN

    @classmethod
    def of(cls, partition: Array) -> EndedTo:
        """Read these offsets from ``partition``, the one `PARTITION` row of a state."""
        return cls(*(int(partition[name][0]) for name in ENDED))


NOTHING_ENDED = EndedTo()


@dataclass(frozen=True, slots=True)
class Frozen:
    """One replica whose last stable offset has not moved for longer than the grace period, though it should have.

    Attributes:
        slot: the replica, as a row of ``state.brokers``.
        last_stable_offset: the offset that does not move.
        ahead: the highest last stable offset of the other replicas. If none is ahead, the highest that any replica had
            before.
        seconds: for how long it has not moved.
        producer_id: producer of the open transaction that holds it back; -1 if the replica did not say.
        start: first offset of that transaction; -1 if the replica did not say.
    """

    slot: int
    last_stable_offset: int
    ahead: int
    seconds: float
    producer_id: int
    start: int


def observe(
    brokers: Array,
    rows: ProgressRows,
    listed: OpenTransactions,
    slots: Array,
    grace_ms: int,
    ended: EndedTo = NOTHING_ENDED,
) -> list[Frozen]:
    """Find the frozen replicas, by following each replica's last stable offset from tick to tick.

    Args:
        brokers: the state's table of brokers (`BROKER` rows); it is changed.
        rows: progress rows, in any order.
        listed: the open transactions named in ``rows``.
        slots: for each row, the index of its replica in ``brokers``.
        grace_ms: for how many milliseconds a last stable offset may stay behind.
        ended: up to which offset all transactions were seen to have ended.

    Returns:
        One entry for each replica that is frozen at its last tick.
    """
    found: dict[int, Frozen] = {}
    for i in np.lexsort((rows.broker, rows.observed_at)):
        slot, now = int(slots[i]), int(rows.observed_at[i])
        broker = brokers[slot : slot + 1]
        if now <= broker["observed_at"][0]:
            continue
        broker["observed_at"] = now
        broker["reachable"] = rows.reachable[i]
        found.pop(slot, None)
        if not rows.reachable[i] or rows.last_stable_offset[i] == UNKNOWN:
            broker["stalled_reference"] = broker["stalled_since"] = UNKNOWN
            continue
        ahead = _follow(brokers, slot, rows, int(i), ended)
        since = int(broker["stalled_since"][0])
        if since != UNKNOWN and now - since >= grace_ms:
            producer, start = _holder(listed, int(rows.broker[i]), now, int(rows.last_stable_offset[i]))
            found[slot] = Frozen(slot, int(rows.last_stable_offset[i]), ahead, (now - since) / 1000.0, producer, start)
    return list(found.values())


def _follow(brokers: Array, slot: int, rows: ProgressRows, i: int, ended: EndedTo) -> int:
    """Take one row in; returns the last stable offset that the replica should have come to, as far as is known."""
    broker = brokers[slot : slot + 1]
    moved = rows.last_stable_offset[i] != broker["last_stable_offset"][0]
    for name in ("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset"):
        broker[name] = getattr(rows, name)[i]
    if rows.observed_at[i] >= broker["reported_at"][0]:
        broker["stable_told"], broker["reported_at"] = rows.last_stable_offset[i], rows.observed_at[i]
    others = brokers["member"] & brokers["reachable"]
    others[slot] = False
    ahead = reference = int(brokers["last_stable_offset"][others].max(initial=UNKNOWN))
    if ahead <= rows.last_stable_offset[i] < ended.to:
        ahead, reference = ended.to, ended.below
    if moved or ahead <= rows.last_stable_offset[i]:
        broker["stalled_reference"] = broker["stalled_since"] = UNKNOWN
    if ahead > rows.last_stable_offset[i]:
        # Where the others do not show as much any more (their logs were truncated), it need not reach that either.
        if broker["stalled_reference"][0] == UNKNOWN or broker["stalled_reference"][0] > reference:
            broker["stalled_reference"] = reference
        if broker["stalled_since"][0] == UNKNOWN and rows.high_watermark[i] >= broker["stalled_reference"][0]:
            broker["stalled_since"] = rows.observed_at[i]
    return ahead


def _holder(listed: OpenTransactions, broker: int, observed_at: int, stands_at: int) -> tuple[int, int]:
    """The open transaction that holds a replica's last stable offset, by the replica's own list."""
    mine = (listed.broker == broker) & (listed.observed_at == observed_at) & (listed.start_offset != UNKNOWN)
    at = np.flatnonzero(mine & (listed.start_offset <= stands_at))
    if not len(at):
        return UNKNOWN, UNKNOWN
    first = at[np.argmin(listed.start_offset[at])]
    return int(listed.producer_id[first]), int(listed.start_offset[first])


def accuse(
    frozen: Frozen, brokers: Array, intervals: Array, grace_ms: int, ended: EndedTo = NOTHING_ENDED
) -> Accusation | None:
    """The accusation of a frozen replica, with the transaction that freezes it; None if it is not accused (yet).

    While the transaction cannot be named, but may be soon, the accusation waits. If a transaction freezes all replicas,
    one of them is accused. But if some replica missed the transaction's end marker, nobody is accused here, because
    there is a suspect about that already.

    The transaction's start is taken from the replica's read_uncommitted rows if they show it. So this divergence has
    the same cause as that of the missed marker.

    Args:
        frozen: the replica, as `observe` found it.
        brokers: the state's table of brokers (`BROKER` rows).
        intervals: transactions, `INTERVAL` rows.
        grace_ms: `compare.grace_ms`. After three times as long, the accusation waits no more for the transaction.
        ended: up to which offset all transactions were seen to have ended.
    """
    mine = intervals[(intervals["slot"] == frozen.slot) & (intervals["end"] == NEVER) & (intervals["over_by"] == NEVER)]
    if frozen.producer_id != UNKNOWN:
        mine = mine[mine["producer_id"] == frozen.producer_id]
    producer, start, missed = frozen.producer_id, frozen.start, UNKNOWN
    shown: dict[str, str] = {}
    more: dict[str, Any] = {}
    epoch = UNKNOWN
    if len(mine):
        interval = mine[np.argmin(mine["start"])]
        producer, start = int(interval["producer_id"]), int(interval["start"])
        if interval["missed"] != NEVER:
            missed = int(interval["missed"])
            epoch = int(interval["missed_epoch"])
            marker = "commit" if interval["missed_type"] == COMMIT else "abort"
            shown = {str(brokers["broker"][slot]): marker for slot in slots_of(int(interval["missed_shown"]))}
    if producer == UNKNOWN and frozen.seconds * 1000 < 3 * grace_ms:
        return None
    ahead = brokers["member"] & brokers["reachable"] & (brokers["last_stable_offset"] > frozen.last_stable_offset)
    if not ahead.any():
        is_reported = (intervals["producer_id"] == producer) & (intervals["end"] == NEVER)
        is_reported &= intervals["missed"] != NEVER
        if is_reported.any() or not _speaks_for_all(frozen, brokers, ended) or not ended.start <= start < ended.to:
            return None
        more = {"had_ended": ended._asdict()}
    elif missed == UNKNOWN and start != UNKNOWN and not (brokers["log_start_offset"][ahead] <= start).any():
        return None  # None of those that are ahead held the transaction's beginning: it may be open, unknown to them.
    return Accusation(
        Rule.PROGRESS,
        FindingKind.READ_COMMITTED_FROZEN,
        int(brokers["broker"][frozen.slot]),
        offset=start if start != UNKNOWN else frozen.last_stable_offset,
        producer_id=producer,
        transaction_start_offset=start if start != UNKNOWN else frozen.last_stable_offset,
        marker_offset=missed,
        observations={
            "markers": shown,
            "leader_epoch": epoch,
            "last_stable_offsets": {str(b["broker"]): int(b["last_stable_offset"]) for b in brokers if b["member"]},
            "stands_at": frozen.last_stable_offset,
            "others_at": frozen.ahead,
            "seconds": round(frozen.seconds, 3),
            **more,
        },
    )


def _speaks_for_all(frozen: Frozen, brokers: Array, ended: EndedTo) -> bool:
    """Whether all replicas have this one's last stable offset, and this one is the first of them.

    All must be past where the transactions had ended. An absent replica may be right: when it is back it says so, or
    has that offset, too.
    """
    members = brokers[brokers["member"]]
    stands = members["reachable"] & (members["last_stable_offset"] == frozen.last_stable_offset)
    stands &= members["high_watermark"] >= ended.below
    return bool(stands.all()) and int(brokers["broker"][frozen.slot]) == int(members["broker"].min())
