"""Compares, in one compiled call, the partitions of a Spark task in which nothing needs a verdict.

A partition is *quiet* in a micro-batch if its readers go on as before, and its replicas show plain records that agree,
or only new positions. Then a step does no more than update numbers and drop records that all replicas have shown. It
raises no suspect and makes no offset unknown. The result is the same as that of `parallax.compare.step.step`.

If the compiled code meets anything else in a partition, it leaves this partition to that step. So it decides nothing:
whatever could lead to a verdict goes to the step. So does what happens once: a first reading, or a change of the
replica set or the cleanup policy. A property test checks that both give the same result.

Each function below names the function of the step that it replaces. A function with a boolean result says whether the
partition is quiet so far. If it is not, ignore what the function wrote to the partition's arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, typeof, types

from parallax.compare.observations import (
    EVENT_CODE,
    NOT_TRANSACTIONAL,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    RECORD,
    Array,
)
from parallax.compare.state import (
    BROKER,
    CONTENT,
    FOLLOWED,
    NEVER,
    NULL_KEY,
    PARTITION,
    PENDING,
    TOMBSTONE,
    UNREAD,
    WHOLE_SO_FAR,
)
from parallax.compare.unread import APART_MS, DEFAULT_RETENTION_MS, LATELY
from parallax.model import UNKNOWN, ReadEvent, UnknownReason
from parallax.replica.kernel_cache import allow_read_only

allow_read_only()

_OK = EVENT_CODE[ReadEvent.OK]
_NEVER = int(NEVER)
_AT, _HIGH, _STABLE, _ANSWERS = range(4)
"""Columns of what a replica said of itself last (`parallax.compare.unread._Said`)."""

REASONS = tuple(UnknownReason)
_NOT_READ_YET, _NOT_BEGUN, _SKIPPED, _DELETED_UNREAD = (
    REASONS.index(reason)
    for reason in (
        UnknownReason.NOT_READ_YET,
        UnknownReason.BEFORE_FIRST_READING,
        UnknownReason.SKIPPED,
        UnknownReason.DELETED_UNREAD,
    )
)

COVERED = np.dtype(
    [
        ("compared_up_to", "<i8", (2,)),
        ("open", "<i8", (2,)),
        ("why_open", "u1"),
        ("why_open_committed", "u1"),
        ("gone", "<i8", (2,)),
        ("why_gone", "u1"),
        ("log_start_differs", "<i8"),
        ("retention_differs", "<i8"),
        ("awaits_report", "u1"),
        ("state_bytes", "<i8"),
        ("spans", "<i8"),
    ]
)
"""What `parallax.compare.coverage` says of a quiet partition; a pair is for read_uncommitted and read_committed.

``compared_up_to``: offset below which every replica was compared. ``open``: how many offsets some reader has passed and
others have not; ``why_open`` and ``why_open_committed``: why these are unknown, by view. ``gone``: how many offsets a
log no longer held when its reader came there, and ``why_gone`` why. Reasons are indices into `REASONS`.
``log_start_differs`` and ``retention_differs``: how many offsets are unknown for these reasons. ``awaits_report``:
`Coverage.awaits_report`, as 0 or 1. ``state_bytes``: size of the packed state. ``spans``: how many `UNREAD` rows the
partition has, ranges of offsets that are unknown until an audit.
"""


_part = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Marks functions that only `take_in` calls. If Python could call them as well, compiling would take twice as long."""


def plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The row type ``dtype`` as numba can read it, over the same bytes: booleans become one-byte numbers."""
    names = dtype.names or ()
    bases = {name: "u1" if dtype[name].base == np.bool_ else dtype[name].base.str for name in names}
    return np.dtype([(name, bases[name], dtype[name].shape) for name in names])


class Rows(NamedTuple):
    """Rows of the views, sorted by partition, one array per column.

    The columns are some of those of `ViewRows`, whose ``view`` is called ``level`` here. ``fingerprint`` is that of the
    row (`parallax.compare.rules.content.fingerprints`).
    """

    level: Array
    broker: Array
    kind: Array
    offset: Array
    timestamp: Array
    outcome: Array
    key_hash_hi: Array
    key_hash_lo: Array
    key_size: Array
    value_size: Array
    high_watermark: Array
    last_stable_offset: Array
    log_start_offset: Array
    event: Array
    topic_id: Array
    leader_epoch: Array
    fingerprint: Array


class Ticks(NamedTuple):
    """Rows of progress, sorted by partition, one array per column.

    The columns are some of those of `ProgressRows`.
    """

    broker: Array
    observed_at: Array
    reachable: Array
    high_watermark: Array
    last_stable_offset: Array
    log_start_offset: Array
    log_end_offset: Array
    leader: Array
    compacted: Array
    policy_at: Array
    deletes: Array
    retention_ms: Array


class Sets(NamedTuple):
    """The brokers that had a replica assigned, sorted by partition; the columns are those of `ReplicaSets`."""

    observed_at: Array
    broker: Array


class Tables(NamedTuple):
    """The states of many partitions, as tables in which one partition's rows follow another's.

    ``*_at`` holds for each partition the index of its first row, and as last entry the number of rows. In ``content``
    and ``pending`` each partition has free rows behind its own; ``*_rows`` is how many of its rows are in use.
    `take_in` changes all tables except ``unread``.
    """

    partition: Array
    partition_at: Array
    broker: Array
    broker_at: Array
    content: Array
    content_at: Array
    content_rows: Array
    pending: Array
    pending_at: Array
    pending_rows: Array
    unread: Array
    unread_at: Array


class Limits(NamedTuple):
    """Settings of one call, the same for all partitions: how many rows a state may hold, and the grace period.

    Attributes:
        grace_ms: see `CompareSettings`.
        content: the most `CONTENT` rows that one state may hold.
        pending: the most `PENDING` rows that one state may hold.
    """

    grace_ms: int
    content: int
    pending: int


# --- replicas.py ------------------------------------------------------------------------------------------------------


@_part
def _slot(brokers: Array, broker: int) -> int:
    for slot in range(len(brokers)):
        if brokers[slot].broker == broker:
            return slot
    return -1


@_part
def _only_compacts(p: Any) -> bool:
    return p.deletes == 0 and p.strict_from == _NEVER


@_part
def _starts(brokers: Array) -> tuple[int, int, int, int, int]:
    """`log_starts`: the lowest, the second lowest, the highest, how many are known, and how many members there are."""
    lowest, second, highest, known, members = _NEVER, _NEVER, UNKNOWN, 0, 0
    for slot in range(len(brokers)):
        if not brokers[slot].member:
            continue
        members += 1
        start = brokers[slot].log_start_offset
        if start == UNKNOWN:
            continue
        known += 1
        highest = max(highest, start)
        second = min(second, max(lowest, start))
        lowest = min(lowest, start)
    return lowest, second, highest, known, members


@_part
def _holds_any(brokers: Array, slot: int) -> bool:
    """`log_start.holds_any`."""
    broker = brokers[slot]
    known: bool = broker.log_start_offset != UNKNOWN
    return known and broker.log_start_offset < max(broker.log_end_offset, broker.high_watermark)


@_part
def _held_from(brokers: Array) -> int:
    """`held_from`."""
    lowest = _NEVER
    for slot in range(len(brokers)):
        if brokers[slot].member and _holds_any(brokers, slot):
            lowest = min(lowest, brokers[slot].log_start_offset)
    return lowest


@_part
def _retained_from(p: Any, brokers: Array) -> int:
    lowest, second, highest, known, members = _starts(brokers)
    if known == 0:
        return UNKNOWN
    if not _only_compacts(p):
        return highest
    held = lowest
    if known == members and known > 1:
        held = second
    return min(highest, max(held, p.deleted_to))


@_part
def _members(brokers: Array) -> int:
    mask = 0
    for slot in range(len(brokers)):
        if brokers[slot].member:
            mask |= 1 << slot
    return mask


@_part
def _common(brokers: Array, view: int) -> int:
    common = _NEVER
    for slot in range(len(brokers)):
        if brokers[slot].member:
            common = min(common, brokers[slot].position[view])
    return common


@_part
def _furthest(brokers: Array, view: int) -> int:
    furthest = UNKNOWN
    for slot in range(len(brokers)):
        furthest = max(furthest, brokers[slot].position[view])
    return furthest


@_part
def _register(p: Any, brokers: Array, rows: Rows, of: Any, ticks: Ticks, at: Any, sets: Sets, among: Any) -> bool:
    """`register`: all brokers are known, and the replica set is what it was."""
    for i in range(of[0], of[1]):
        if _slot(brokers, rows.broker[i]) < 0:
            return False
    for i in range(at[0], at[1]):
        if _slot(brokers, ticks.broker[i]) < 0:
            return False
    first, newest = among[0], p.members_at
    while first < among[1]:
        end = first + 1
        while end < among[1] and sets.observed_at[end] == sets.observed_at[first]:
            end += 1
        if sets.observed_at[first] > p.members_at and not _is_the_set(brokers, sets, first, end):
            return False
        newest = max(newest, sets.observed_at[first])
        first = end
    p.members_at = newest
    known: bool = p.members_known and _members(brokers) != 0
    return known


@_part
def _is_the_set(brokers: Array, sets: Sets, first: int, end: int) -> bool:
    named = 0
    for i in range(first, end):
        slot = _slot(brokers, sets.broker[i])
        if slot < 0:
            return False
        named |= 1 << slot
    return named == _members(brokers)


@_part
def _take_in_positions(p: Any, brokers: Array, rows: Rows, of: Any) -> None:
    """`take_in_positions`."""
    for view in range(2):
        for slot in range(len(brokers)):
            _take_in_position(brokers[slot], rows, of, view)
    for i in range(of[0], of[1]):
        if rows.kind[i] == POSITION and rows.level[i] == READ_COMMITTED:
            p.passed_at = max(p.passed_at, rows.timestamp[i])
        elif rows.kind[i] == POSITION and rows.event[i] == _OK and rows.leader_epoch[i] >= 0:
            _take_in_ended(p, rows, i)


@_part
def _take_in_ended(p: Any, rows: Rows, i: int) -> None:
    """`_take_in_ended`, of one row that is of read_uncommitted and of no event."""
    stable, epoch, offset = rows.last_stable_offset[i], rows.leader_epoch[i], rows.offset[i]
    if offset != rows.high_watermark[i] or stable < max(p.ended_to, 0):
        return
    if stable == p.ended_to and (epoch < p.ended_epoch or (epoch == p.ended_epoch and offset >= p.ended_below)):
        return
    p.ended_to, p.ended_below, p.ended_from = stable, offset, rows.log_start_offset[i]
    p.ended_epoch, p.ended_on = epoch, rows.broker[i]


@_part
def _take_in_position(broker: Any, rows: Rows, of: Any, view: int) -> None:
    end = -1
    for i in range(of[0], of[1]):
        if rows.level[i] != view or rows.broker[i] != broker.broker:
            continue
        if rows.kind[i] == POSITION:
            broker.shown[view] = max(broker.shown[view], rows.offset[i])
            broker.position[view] = max(broker.position[view], rows.offset[i])
            if end < 0 or rows.timestamp[i] > rows.timestamp[end]:
                end = i
        else:
            broker.shown[view] = max(broker.shown[view], rows.offset[i] + 1)
    if end < 0:
        return
    broker.log_start_offset = max(broker.log_start_offset, rows.log_start_offset[end])
    if rows.timestamp[end] > broker.reported_at and rows.last_stable_offset[end] != UNKNOWN:
        broker.stable_told = rows.last_stable_offset[end]
        broker.reported_at = rows.timestamp[end]
        broker.high_watermark = rows.high_watermark[end]


@_part
def _follow_heads(p: Any, brokers: Array, rows: Rows, of: Any, ticks: Ticks, at: Any) -> None:
    """`follow_heads`, of a policy that is known, or is still not known."""
    _, _, highest, known, _ = _starts(brokers)
    held = _held_from(brokers)
    if p.deletes == UNKNOWN:
        _see_heads(p, rows, of, ticks, at)
    elif not _only_compacts(p):
        p.head = UNKNOWN
        if known and p.deletes > 0:
            p.deleted_to = highest
    elif held != _NEVER:
        p.head = held if p.head == UNKNOWN else min(p.head, held)


@_part
def _see_heads(p: Any, rows: Rows, of: Any, ticks: Ticks, at: Any) -> None:
    lowest = _NEVER if p.head == UNKNOWN else p.head
    for i in range(of[0], of[1]):
        if rows.kind[i] == POSITION and 0 <= rows.log_start_offset[i] < rows.high_watermark[i]:
            lowest = min(lowest, rows.log_start_offset[i])
    for i in range(at[0], at[1]):
        if 0 <= ticks.log_start_offset[i] < max(ticks.log_end_offset[i], ticks.high_watermark[i]):
            lowest = min(lowest, ticks.log_start_offset[i])
    p.head = UNKNOWN if lowest == _NEVER else lowest


# --- step.py: the cleanup policy --------------------------------------------------------------------------------------


@_part
def _policy_stays(p: Any, ticks: Ticks, at: Any) -> bool:
    """`_take_in_policy`, of one that stays what it was."""
    newest = p.policy_at
    for i in range(at[0], at[1]):
        if ticks.deletes[i] != UNKNOWN and ticks.deletes[i] != p.deletes:
            return False
        if ticks.compacted[i] != UNKNOWN and ticks.policy_at[i] > p.policy_at:
            if (ticks.compacted[i] != 0) != (p.strict_from == _NEVER):
                return False
            newest = max(newest, ticks.policy_at[i])
    p.policy_at = newest
    return True


# --- breaks.py --------------------------------------------------------------------------------------------------------


@_part
def _goes_on(p: Any, brokers: Array, rows: Rows, of: Any, ticks: Ticks, at: Any) -> bool:
    """`of_the_topic` and `apply_breaks`, of readers that go on in the topic as it is."""
    for i in range(at[0], at[1]):
        broker = brokers[_slot(brokers, ticks.broker[i])]
        if ticks.observed_at[i] <= broker.topic_at:
            return False
        for view in range(2):
            if broker.topic_id[view] != 0 and broker.topic_id[view] != p.topic_id:
                return False
    for i in range(of[0], of[1]):
        its = brokers[_slot(brokers, rows.broker[i])].topic_id[rows.level[i]]
        if rows.kind[i] != POSITION:
            continue
        if rows.event[i] != _OK or (rows.topic_id[i] != 0 and rows.topic_id[i] != p.topic_id) or its != p.topic_id:
            return False
    return True


# --- unread.py --------------------------------------------------------------------------------------------------------


@_part
def _in_time_from(p: Any, view: int, at: int, retention: int) -> int:
    found, ahead = _NEVER, -max(retention // LATELY, APART_MS)
    if p.bound_at[view] != UNKNOWN and ahead <= at - p.bound_at[view] <= retention:
        found = p.bound[view]
    if p.next_bound_at[view] != UNKNOWN and ahead <= at - p.next_bound_at[view] <= retention:
        found = min(found, p.next_bound[view])
    return found


@_part
def _promote(p: Any, view: int) -> None:
    if p.next_bound_at[view] != UNKNOWN and p.read_to[view] >= p.next_bound[view]:
        p.bound_at[view], p.bound[view] = p.next_bound_at[view], p.next_bound[view]
        p.next_bound_at[view] = UNKNOWN


@_part
def _retention(p: Any, ticks: Ticks, at: Any) -> int:
    shortest, newest = _NEVER, -1
    if p.retention_ms != UNKNOWN:
        shortest = p.retention_ms
    for i in range(at[0], at[1]):
        if ticks.retention_ms[i] == UNKNOWN:
            continue
        shortest = min(shortest, ticks.retention_ms[i])
        if newest < 0 or ticks.observed_at[i] > ticks.observed_at[newest]:
            newest = i
    if newest >= 0:
        p.retention_ms = ticks.retention_ms[newest]
    return DEFAULT_RETENTION_MS if shortest == _NEVER else shortest


@_part
def _sorted(times: Array, second: Array) -> Array:
    """A stable order by time, and by a second number where the time is the same."""
    order = np.arange(len(times))
    for i in range(1, len(order)):
        one, j = order[i], i
        while j > 0:
            before = order[j - 1]
            if times[before] < times[one] or (times[before] == times[one] and second[before] <= second[one]):
                break
            order[j] = before
            j -= 1
        order[j] = one
    return order


@_part
def _follow_reading(p: Any, brokers: Array, rows: Rows, of: Any, ticks: Ticks, at: Any) -> bool:
    """`take_in`, of readers that are followed, where all is read in time."""
    first = at[1] - at[0]
    # Index of the tick, or behind the ticks of the position row: at one time the ticks come first.
    events = np.empty(first + of[1] - of[0], np.int64)
    times = np.empty(len(events), np.int64)
    for i in range(first):
        events[i], times[i] = at[0] + i, ticks.observed_at[at[0] + i]
    n = first
    for i in range(of[0], of[1]):
        if rows.kind[i] == POSITION:
            events[n], times[n] = i, rows.timestamp[i]
            n += 1
    if n == 0:
        return True
    retention = _retention(p, ticks, at)
    said = np.empty((len(brokers), 4), np.int64)
    for slot in range(len(brokers)):
        said[slot, _AT], said[slot, _HIGH] = brokers[slot].reported_at, brokers[slot].high_watermark
        said[slot, _STABLE], said[slot, _ANSWERS] = brokers[slot].stable_told, brokers[slot].reachable
    for k in _sorted(times[:n], times[:n]):
        if k < first:
            _tick(p, brokers, said, ticks, events[k], retention)
        elif not _position(p, brokers, said, rows, events[k], retention):
            return False
        if _is_dated(p, brokers):
            return False
    return True


@_part
def _is_dated(p: Any, brokers: Array) -> bool:
    """Whether `follow_dated` has a replica to follow from now on."""
    for slot in range(len(brokers)):
        for view in range(2):
            if brokers[slot].begun[view] == WHOLE_SO_FAR:
                position = brokers[slot].position[view]
                if p.bound_at[view] != UNKNOWN and p.bound[view] <= position:
                    return True
                if p.next_bound_at[view] != UNKNOWN and p.next_bound[view] <= position:
                    return True
    return False


@_part
def _tick(p: Any, brokers: Array, said: Array, ticks: Ticks, i: int, retention: int) -> None:
    slot = _slot(brokers, ticks.broker[i])
    answered = ticks.reachable[i] and ticks.last_stable_offset[i] != UNKNOWN
    said[slot, _ANSWERS] = answered
    if answered:
        said[slot, _AT], said[slot, _HIGH] = ticks.observed_at[i], ticks.high_watermark[i]
        said[slot, _STABLE] = ticks.last_stable_offset[i]
        if ticks.broker[i] == ticks.leader[i]:
            _bound(p, brokers, said, ticks, i, retention)


@_part
def _bound(p: Any, brokers: Array, said: Array, ticks: Ticks, i: int, retention: int) -> None:
    at, policy_at, within = ticks.observed_at[i], ticks.policy_at[i], retention // LATELY
    now = policy_at if policy_at != UNKNOWN and at - policy_at > max(within, APART_MS) else at
    for view in range(2):
        bound_at, end = now, ticks.high_watermark[i]
        if view == READ_COMMITTED and _all_reported(brokers, said, at, retention):
            bound_at, end = _end(brokers, said, now, view)
        if p.next_bound_at[view] == UNKNOWN or now - p.next_bound_at[view] > retention:
            p.next_bound_at[view], p.next_bound[view] = bound_at, end
        _promote(p, view)


@_part
def _all_reported(brokers: Array, said: Array, at: int, retention: int) -> bool:
    members = 0
    for slot in range(len(brokers)):
        if brokers[slot].member:
            members += 1
            if not said[slot, _ANSWERS] or said[slot, _AT] == UNKNOWN or said[slot, _AT] < at - retention // LATELY:
                return False
    return members > 0


@_part
def _end(brokers: Array, said: Array, now: int, view: int) -> tuple[int, int]:
    """`_ends`, of one view."""
    since, end = now, UNKNOWN
    for slot in range(len(brokers)):
        if brokers[slot].member:
            since = min(since, said[slot, _AT])
            end = max(end, said[slot, _HIGH if view == READ_UNCOMMITTED else _STABLE])
    return since, end


@_part
def _position(p: Any, brokers: Array, said: Array, rows: Rows, i: int, retention: int) -> bool:
    slot, view, at, stable = (
        _slot(brokers, rows.broker[i]),
        rows.level[i],
        rows.timestamp[i],
        rows.last_stable_offset[i],
    )
    for of in range(2):
        is_bound = p.bound_at[of] != UNKNOWN or p.next_bound_at[of] != UNKNOWN
        if brokers[slot].begun[of] != FOLLOWED or not is_bound:
            return False
    if stable != UNKNOWN:
        said[slot, _AT], said[slot, _HIGH] = at, rows.high_watermark[i]
        said[slot, _STABLE], said[slot, _ANSWERS] = stable, 1
    if p.read_to[view] == UNKNOWN:
        return True
    late = min(rows.offset[i], _in_time_from(p, view, at, retention), p.strict_from)
    is_in_time: bool = late <= p.read_to[view]
    p.read_to[view] = max(p.read_to[view], rows.offset[i])
    _promote(p, view)
    return is_in_time


# --- rules/progress.py and rules/log_start.py -------------------------------------------------------------------------


@_part
def _observe(p: Any, brokers: Array, ticks: Ticks, at: Any, grace_ms: int) -> bool:
    """`progress.observe`; a last stable offset that has stood still for the grace period is not quiet."""
    order = _sorted(ticks.observed_at[at[0] : at[1]], ticks.broker[at[0] : at[1]])
    for k in order:
        i = at[0] + k
        slot, now = _slot(brokers, ticks.broker[i]), ticks.observed_at[i]
        broker = brokers[slot]
        if now <= broker.observed_at:
            continue
        broker.observed_at = now
        broker.reachable = ticks.reachable[i]
        if not ticks.reachable[i] or ticks.last_stable_offset[i] == UNKNOWN:
            broker.stalled_reference = broker.stalled_since = UNKNOWN
            continue
        _follow(p, brokers, slot, ticks, i)
        if broker.stalled_since != UNKNOWN and now - broker.stalled_since >= grace_ms:
            return False
    return True


@_part
def _follow(p: Any, brokers: Array, slot: int, ticks: Ticks, i: int) -> None:
    broker, stable = brokers[slot], ticks.last_stable_offset[i]
    moved = stable != broker.last_stable_offset
    broker.high_watermark, broker.last_stable_offset = ticks.high_watermark[i], stable
    broker.log_start_offset, broker.log_end_offset = ticks.log_start_offset[i], ticks.log_end_offset[i]
    if ticks.observed_at[i] >= broker.reported_at:
        broker.stable_told, broker.reported_at = stable, ticks.observed_at[i]
    ahead = UNKNOWN
    for other in range(len(brokers)):
        if other != slot and brokers[other].member and brokers[other].reachable:
            ahead = max(ahead, brokers[other].last_stable_offset)
    reference = ahead
    if ahead <= stable and p.ended_to > stable:
        ahead, reference = p.ended_to, p.ended_below
    if moved or ahead <= stable:
        broker.stalled_reference = broker.stalled_since = UNKNOWN
    if ahead > stable:
        if broker.stalled_reference == UNKNOWN or broker.stalled_reference > reference:
            broker.stalled_reference = reference
        if broker.stalled_since == UNKNOWN and ticks.high_watermark[i] >= broker.stalled_reference:
            broker.stalled_since = ticks.observed_at[i]


@_part
def _observe_heads(p: Any, brokers: Array, grace_ms: int) -> bool:
    """`log_start.observe`; a log that has begun above another for the grace period is not quiet."""
    lowest, held, everyone = _NEVER, _NEVER, p.head != UNKNOWN
    for slot in range(len(brokers)):
        broker = brokers[slot]
        if broker.member and broker.reachable and broker.log_start_offset != UNKNOWN:
            lowest = min(lowest, broker.log_start_offset)
            if _holds_any(brokers, slot):
                held = min(held, broker.log_start_offset)
        elif broker.member:
            everyone = False
    lowest = lowest if held == _NEVER else held
    bound = max(min(lowest, p.head) if everyone else lowest, p.deleted_to)
    for slot in range(len(brokers)):
        broker = brokers[slot]
        if not (broker.member and broker.reachable and broker.log_start_offset > bound):
            broker.head_since = UNKNOWN
        elif broker.head_since == UNKNOWN:
            broker.head_since = broker.observed_at
        elif broker.observed_at - broker.head_since >= grace_ms:
            return False
    return True


# --- the records ------------------------------------------------------------------------------------------------------


@_part
def _take_in_rows(p: Any, brokers: Array, states: Tables, k: int, rows: Rows, of: Any) -> bool:
    """`_fresh`, `_take_in_uncommitted` and `_take_in_committed`, of plain records that come in order and agree."""
    last = np.full((len(brokers), 2), UNKNOWN)
    for i in range(of[0], of[1]):
        slot, view, offset = _slot(brokers, rows.broker[i]), rows.level[i], rows.offset[i]
        shown = brokers[slot].shown[view]
        if shown == UNKNOWN:
            return False
        if rows.kind[i] == POSITION:
            continue
        if rows.kind[i] != RECORD or rows.outcome[i] != NOT_TRANSACTIONAL:
            return False
        if offset < shown:
            continue
        if offset <= last[slot, view]:
            return False
        last[slot, view] = offset
        if offset < p.floor[view]:
            continue
        if view == READ_UNCOMMITTED:
            is_quiet = _take_in_content(states, k, offset, rows.fingerprint[i], slot)
        else:
            is_quiet = _take_in_pending(p, states, k, rows, i, slot)
        if not is_quiet:
            return False
    return True


@_part
def _place(offsets: Array, offset: int) -> tuple[int, bool]:
    """Where a row of that offset is or belongs, and whether it is there; most belong at the end."""
    at = len(offsets)
    while at > 0 and offsets[at - 1].offset > offset:
        at -= 1
    if at > 0 and offsets[at - 1].offset == offset:
        return at - 1, True
    return at, False


@_part
def _take_in_content(states: Tables, k: int, offset: int, fingerprint: int, slot: int) -> bool:
    count = states.content_rows[k]
    mine = states.content[states.content_at[k] : states.content_at[k + 1]]
    at, is_there = _place(mine[:count], offset)
    if is_there:
        if mine[at].fingerprint != fingerprint:
            return False
        mine[at].shown |= np.uint32(1 << slot)
        return True
    for i in range(count, at, -1):
        mine[i] = mine[i - 1]
    mine[at].offset, mine[at].fingerprint, mine[at].shown = offset, fingerprint, np.uint32(1 << slot)
    states.content_rows[k] = count + 1
    return True


@_part
def _take_in_pending(p: Any, states: Tables, k: int, rows: Rows, i: int, slot: int) -> bool:
    offset, flags = rows.offset[i], 0
    if rows.key_size[i] < 0:
        if offset < p.strict_from:
            return True
        flags |= NULL_KEY
    if rows.value_size[i] < 0:
        flags |= TOMBSTONE
    count = states.pending_rows[k]
    mine = states.pending[states.pending_at[k] : states.pending_at[k + 1]]
    at, is_there = _place(mine[:count], offset)
    if is_there:
        row = mine[at]
        same_key = row.key_hash_hi == rows.key_hash_hi[i] and row.key_hash_lo == rows.key_hash_lo[i]
        if not same_key or row.flags != flags:
            return False
        row.visible |= np.uint32(1 << slot)
        row.leader_epoch = max(row.leader_epoch, rows.leader_epoch[i])
        return True
    for j in range(count, at, -1):
        mine[j] = mine[j - 1]
    row = mine[at]
    row.offset, row.producer_id, row.leader_epoch = offset, UNKNOWN, rows.leader_epoch[i]
    row.key_hash_hi, row.key_hash_lo = rows.key_hash_hi[i], rows.key_hash_lo[i]
    row.visible, row.aborted, row.flags = np.uint32(1 << slot), np.uint32(0), flags
    states.pending_rows[k] = count + 1
    return True


# --- judge.py ---------------------------------------------------------------------------------------------------------


@_part
def _let_go(p: Any, brokers: Array, states: Tables, k: int) -> bool:
    """`judge`, where nothing is absent, nor undecided, nor may be judged early."""
    members, retained = _members(brokers), _retained_from(p, brokers)
    if not _is_full(p, brokers, states, k, retained):
        return False
    floors = np.empty(2, np.int64)
    for view in range(2):
        floors[view] = max(p.floor[view], _common(brokers, view), retained)
    if not _let_go_content(p, brokers, states, k, floors[READ_UNCOMMITTED]):
        return False
    pending = states.pending[states.pending_at[k] : states.pending_at[k + 1]]
    common, early = _common(brokers, READ_COMMITTED), _may_judge_early(brokers, members)
    kept = 0
    for i in range(states.pending_rows[k]):
        row = pending[i]
        if row.offset < common and row.offset >= max(retained, p.floor[READ_COMMITTED]):
            held = _holding(brokers, members, row.offset, retained)
            visible = np.int64(row.visible) & held
            if visible not in (0, held):
                return False
        if row.offset >= common and early and row.flags & TOMBSTONE:
            return False
        if row.offset >= floors[READ_COMMITTED]:
            pending[kept] = pending[i]
            kept += 1
    states.pending_rows[k] = kept
    p.floor[0], p.floor[1] = floors[0], floors[1]
    return True


@_part
def _is_full(p: Any, brokers: Array, states: Tables, k: int, retained: int) -> bool:
    """Whether `holes.note` finds none."""
    start, end = max(p.floor[READ_UNCOMMITTED], p.strict_from, retained), _common(brokers, READ_UNCOMMITTED)
    content = states.content[states.content_at[k] : states.content_at[k + 1]]
    shown = 0
    for i in range(states.content_rows[k]):
        if start <= content[i].offset < end:
            shown += 1
    return bool(shown >= end - start)


@_part
def _let_go_content(p: Any, brokers: Array, states: Tables, k: int, floor: int) -> bool:
    members, passed = _members(brokers), _common(brokers, READ_UNCOMMITTED)
    stable = UNKNOWN
    for slot in range(len(brokers)):
        if brokers[slot].member:
            stable = max(stable, brokers[slot].stable_told)
    from_ = max(stable, _retained_from(p, brokers))
    content = states.content[states.content_at[k] : states.content_at[k + 1]]
    kept = 0
    for i in range(states.content_rows[k]):
        shown, offset = np.int64(content[i].shown) & members, content[i].offset
        if stable != UNKNOWN and from_ <= offset < passed and shown != 0 and shown != members:
            return False
        if offset >= floor:
            content[kept] = content[i]
            kept += 1
    states.content_rows[k] = kept
    return True


@_part
def _holding(brokers: Array, members: int, offset: int, retained: int) -> int:
    held = members
    for slot in range(len(brokers)):
        start = brokers[slot].log_start_offset
        if brokers[slot].member and start > retained and offset < start:
            held &= ~(1 << slot)
    return held


@_part
def _may_judge_early(brokers: Array, members: int) -> bool:
    """Whether some replicas of the set go on being read, and not all of them (`early.at_hand`)."""
    able = 0
    for slot in range(len(brokers)):
        if brokers[slot].reachable and brokers[slot].stalled_since == UNKNOWN:
            able |= 1 << slot
    able &= members
    return able not in (0, members)


# --- coverage.py ------------------------------------------------------------------------------------------------------


@_part
def _cover(states: Tables, k: int, covered: Any, spans: Array, grace_ms: int) -> None:
    """`coverage`, of a partition without candidates, disputes and deferred ranges."""
    p = states.partition[states.partition_at[k]]
    brokers = states.broker[states.broker_at[k] : states.broker_at[k + 1]]
    retained = _retained_from(p, brokers)
    lowest, _, highest, known, _ = _starts(brokers)
    covered.spans = 0
    for view in range(2):
        common = _common(brokers, view)
        begun = max(common, p.floor[view], retained)
        covered.compared_up_to[view] = common
        covered.open[view] = max(0, _furthest(brokers, view) - begun)
        covered.gone[view] = p.skipped[view]
        _cut(states, k, view, highest, begun, covered, spans)
    covered.why_gone = _DELETED_UNREAD if p.deletes > 0 else _SKIPPED
    covered.why_open = _why_open(brokers, READ_UNCOMMITTED)
    covered.why_open_committed = _why_open(brokers, READ_COMMITTED)
    covered.log_start_differs = covered.retention_differs = 0
    if known and p.strict_from == _NEVER:
        if p.deletes > 0:
            covered.retention_differs = highest - lowest
        else:
            followed = p.head != UNKNOWN and p.deletes == 0
            held = _held_from(brokers)
            lowest = lowest if held == _NEVER else held
            covered.log_start_differs = max(0, highest - max(min(p.head, lowest) if followed else lowest, p.deleted_to))
    covered.awaits_report = 0
    for slot in range(len(brokers)):
        broker = brokers[slot]
        if broker.member and broker.head_since != UNKNOWN and broker.observed_at - broker.head_since < grace_ms:
            covered.awaits_report = 1


@_part
def _why_open(brokers: Array, view: int) -> int:
    for slot in range(len(brokers)):
        if brokers[slot].member and not brokers[slot].begun[view]:
            return _NOT_BEGUN
    return _NOT_READ_YET


@_part
def _cut(states: Tables, k: int, view: int, lowest: int, end: int, covered: Any, spans: Array) -> None:
    """`_unread`: adds the ranges of a view to ``spans``."""
    rows = states.unread[states.unread_at[k] : states.unread_at[k + 1]]
    edges = np.empty(2 * len(rows), np.int64)
    n = 0
    for i in range(len(rows)):
        if rows[i]["view"] == view:
            edges[n] = min(max(rows[i].start, lowest), end)
            edges[n + 1] = min(max(rows[i].end, lowest), end)
            n += 2
    edges = np.sort(edges[:n])
    first = covered.spans
    for i in range(n - 1):
        low, high = edges[i], edges[i + 1]
        if low == high:
            continue
        reason, since = -1, 0
        for j in range(len(rows)):
            if rows[j]["view"] == view and rows[j].start <= low and high <= rows[j].end:
                since = max(since, rows[j].since) if reason >= 0 else rows[j].since
                reason = max(reason, rows[j].reason)
        if reason < 0:
            continue
        n_spans = covered.spans
        before = spans[max(n_spans - 1, 0)]
        if n_spans > first and before.end == low and before.reason == reason and before.since == since:
            before.end = high
            continue
        span = spans[n_spans]
        span["view"], span.start, span.end, span.reason, span.since = view, low, high, reason, since
        covered.spans = n_spans + 1


# --- all of them ------------------------------------------------------------------------------------------------------


@_part
def _is_plain(p: Any, brokers: Array, states: Tables, k: int) -> bool:
    """Whether what waits is of plain records that agree so far, and none are withheld."""
    if p.withheld != _NEVER or p.differed:
        return False
    for slot in range(len(brokers)):
        if brokers[slot].mismatch_last != UNKNOWN:
            return False
    content = states.content[states.content_at[k] : states.content_at[k] + states.content_rows[k]]
    for i in range(1, len(content)):
        if content[i].offset <= content[i - 1].offset:
            return False
    pending = states.pending[states.pending_at[k] : states.pending_at[k] + states.pending_rows[k]]
    for i in range(len(pending)):
        row = pending[i]
        if row.producer_id != UNKNOWN or row.aborted or row.flags & ~(TOMBSTONE | NULL_KEY):
            return False
    return True


@_part
def _one(
    states: Tables, k: int, rows: Rows, of: Any, ticks: Ticks, at: Any, sets: Sets, among: Any, limits: Limits
) -> bool:
    """`step`, in its order."""
    p = states.partition[states.partition_at[k]]
    brokers = states.broker[states.broker_at[k] : states.broker_at[k + 1]]
    if not _is_plain(p, brokers, states, k) or not _register(p, brokers, rows, of, ticks, at, sets, among):
        return False
    if not _policy_stays(p, ticks, at) or not _goes_on(p, brokers, rows, of, ticks, at):
        return False
    if not _take_in_rows(p, brokers, states, k, rows, of) or not _follow_reading(p, brokers, rows, of, ticks, at):
        return False
    _take_in_positions(p, brokers, rows, of)
    if not _observe(p, brokers, ticks, at, limits.grace_ms):
        return False
    _follow_heads(p, brokers, rows, of, ticks, at)
    if at[0] < at[1] and _only_compacts(p) and not _observe_heads(p, brokers, limits.grace_ms):
        return False
    if not _let_go(p, brokers, states, k):
        return False
    return bool(states.content_rows[k] <= limits.content and states.pending_rows[k] <= limits.pending)


def _kernel(frozen: tuple[int, ...]) -> Any:
    """The loop over the partitions; ``frozen``: what is compiled into it of other modules, which numba does not see."""

    def take_in(
        states: Tables,
        rows: Rows,
        row_at: Array,
        ticks: Ticks,
        tick_at: Array,
        sets: Sets,
        set_at: Array,
        limits: Limits,
        is_quiet: Array,
        covered: Array,
        spans: Array,
        span_at: Array,
    ) -> None:
        count = len(is_quiet) if len(frozen) else 0
        for k in range(count):
            if not is_quiet[k]:
                continue
            of, at, among = (row_at[k], row_at[k + 1]), (tick_at[k], tick_at[k + 1]), (set_at[k], set_at[k + 1])
            is_quiet[k] = _one(states, k, rows, of, ticks, at, sets, among, limits)
            if is_quiet[k]:
                mine = spans[span_at[k] : span_at[k + 1]]
                _cover(states, k, covered[k], mine, limits.grace_ms)

    return take_in


_COLUMNS = {
    **dict.fromkeys(("broker", "key_size", "value_size", "leader_epoch", "leader"), "i4"),
    **dict.fromkeys(("level", "kind", "outcome", "event", "compacted", "deletes"), "i1"),
    "reachable": "?",
}


def _columns(kind: type[Any]) -> Any:
    return kind(*(np.empty(0, _COLUMNS.get(name, "i8")) for name in kind._fields))


def _tables() -> Tables:
    kinds = {"partition": PARTITION, "broker": BROKER, "content": CONTENT, "pending": PENDING, "unread": UNREAD}
    return Tables(*(np.empty(0, plain(kinds[name]) if name in kinds else np.int64) for name in Tables._fields))


_I64 = np.empty(0, np.int64)
_SAMPLE = (
    _tables(),
    *(_columns(Rows), _I64, _columns(Ticks), _I64, _columns(Sets), _I64),
    Limits(0, 0, 0),
    *(np.empty(0, np.bool_), np.empty(0, COVERED), np.empty(0, UNREAD), _I64),
)

_FROZEN = (
    *(_OK, _NOT_READ_YET, _NOT_BEGUN, _NEVER, UNKNOWN, FOLLOWED, WHOLE_SO_FAR),
    *(APART_MS, DEFAULT_RETENTION_MS, LATELY, POSITION, RECORD, NOT_TRANSACTIONAL, NULL_KEY, TOMBSTONE),
)

take_in = njit([types.void(*(typeof(one) for one in _SAMPLE))], cache=True, nogil=True)(_kernel(_FROZEN))
"""Take in what a micro-batch showed of many partitions, so far as they are quiet.

Args:
    states: the states of the partitions; they are changed.
    rows: rows of the views. ``row_at`` holds for each partition the index of its first row, and as last entry the
        number of rows.
    ticks: rows of progress; ``tick_at`` is for them what ``row_at`` is for ``rows``.
    sets: the replicas that the rows of progress name; ``set_at`` is for them what ``row_at`` is for ``rows``.
    limits: settings that are the same for all partitions.
    is_quiet: for each partition, on entry whether to look at it, on return whether it was quiet and was taken in. What
        the other arrays hold of a partition that was not quiet is worth nothing.
    covered: a `COVERED` row for each partition, which this fills.
    spans: `UNREAD` rows, which this fills: ranges of offsets that are unknown until an audit. ``span_at`` holds for
        each partition the index of its first row, and as last entry the number of rows. Its ``COVERED`` row says how
        many of them are filled.
"""

__all__ = ["COVERED", "REASONS", "Limits", "Rows", "Sets", "Tables", "Ticks", "plain", "take_in"]
