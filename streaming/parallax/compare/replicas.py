"""What a partition's state says of its replicas.

It answers how far each replica was read, where its log begins, and which brokers are in the replica set. It also moves
the *floor* of each view: the offset below which nothing is judged any more.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parallax.compare import unread
from parallax.compare.observations import (
    EVENT_CODE,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    VIEWS,
    Array,
    Observations,
    ProgressRows,
    ReplicaSets,
    ViewRows,
)
from parallax.compare.rules.log_start import holds_any
from parallax.compare.state import EARLY, MAX_BROKERS, NEVER, PartitionState, new_broker
from parallax.model import UNKNOWN, ReadEvent, UnknownReason

_OK = EVENT_CODE[ReadEvent.OK]
_LAST = np.iinfo(np.int64).max


def register(state: PartitionState, observations: Observations) -> None:
    """Give every broker that the observations name a *slot*, and take over the newest replica set.

    A slot is the index of a row of ``state.brokers``; bit n of a mask of replicas is slot n. A state has `MAX_BROKERS`
    slots. When all are taken, a new broker gets the slot of a broker that has left the replica set.
    """
    known = set(state.brokers["broker"].tolist())
    # Rows may be many; progress has a few, for which a set costs less than numpy.
    named = set(np.unique(observations.rows.broker).tolist()) if len(observations.rows) else set()
    named.update(observations.progress.broker.tolist(), observations.replica_sets.broker.tolist())
    for broker in sorted(named - known - {UNKNOWN}):
        if len(state.brokers) < MAX_BROKERS:
            state.brokers = np.concatenate([state.brokers, new_broker(int(broker))])
        elif (left := np.flatnonzero(~state.brokers["member"])).size:
            _forget(state, int(left[0]))
            state.brokers[left[0]] = new_broker(int(broker))[0]
    _take_in_members(state, observations.replica_sets)


def by_replica_set(state: PartitionState, seen: Observations) -> Iterable[Observations]:
    """Divide a micro-batch by time if, within it, a replica left the replica set and came back.

    Without this the comparison would not notice: the newest replica set equals the old one, although the replica has a
    new log. Any other change shows in the newest replica set, so the micro-batch stays whole.

    Args:
        state: the partition's state before the micro-batch.
        seen: what the micro-batch showed of the partition.

    Returns:
        The observations between one change of the replica set and the next, in the order of time; ``seen`` alone if no
        replica left and came back.
    """
    cuts = _comings_and_goings(state, seen.replica_sets)
    return seen.cut(cuts, _rows_read_at(seen.rows)) if cuts else [seen]


def _comings_and_goings(state: PartitionState, sets: ReplicaSets) -> list[int]:
    """When the replica set was another one than before; empty where no replica was gone in between."""
    told: dict[int, set[int]] = {}
    known_at = int(state.partition["members_at"][0])
    for at, broker in zip(sets.observed_at.tolist(), sets.broker.tolist(), strict=True):
        if at > known_at:
            told.setdefault(at, set()).add(broker)
    if len(told) < 2:
        return []
    before = set(state.brokers["broker"][state.brokers["member"]].tolist()) if members(state) else told[min(told)]
    gone: set[int] = set()
    cuts, comes_back = [], False
    for at in sorted(told):
        if told[at] != before:
            cuts.append(at)
            gone |= before
            comes_back |= bool((told[at] - before) & gone)
            before = told[at]
    return cuts if comes_back else []


def _rows_read_at(rows: ViewRows) -> Array:
    """When each row was read: as the position says that vouches for it. A reader's rows keep their order."""
    read_at = np.full(len(rows), _LAST - 1)
    readers = rows.broker.astype(np.int64) * len(VIEWS) + rows.view
    for reader in np.unique(readers):
        mine = np.flatnonzero(readers == reader)
        ends = np.flatnonzero(rows.kind[mine] == POSITION)
        times = np.append(np.maximum.accumulate(rows.timestamp[mine[ends]]), _LAST - 1)
        read_at[mine] = times[np.searchsorted(ends, np.arange(len(mine)))]
    return read_at


_COMMITTED_MASKS = (("pending", ("visible", "aborted")), ("candidates", ("visible", "aborted")))


def _forget(state: PartitionState, slot: int) -> None:
    """Let what a replica showed no longer count: its log was given up, another one takes its place."""
    keep = ~np.uint32(1 << slot)
    for name, columns in (("content", ("shown",)), ("markers", ("shown",)), *_COMMITTED_MASKS):
        table = getattr(state, name).copy()
        for column in columns:
            table[column] &= keep
        setattr(state, name, table)
    # How far it was read is known of withheld rows by their sums alone.
    reached = read_to(state)[slot]
    for name in ("position", "shown"):
        state.brokers[name][slot] = np.maximum(state.brokers[name][slot], reached)
    for name in ("intervals", "unended", "sums", "recent_sums", "going"):
        table = getattr(state, name)
        setattr(state, name, table[table["slot"] != slot])
    for name in ("stalled_since", "stalled_reference", "mismatch_last"):
        state.brokers[name][slot] = UNKNOWN


def _take_in_members(state: PartitionState, sets: ReplicaSets) -> None:
    if not len(sets):
        return
    newest = int(sets.observed_at.max())
    if newest <= state.partition["members_at"][0]:
        return
    before = state.brokers["member"].copy()
    assigned = set(sets.broker[sets.observed_at == newest].tolist())
    now = np.array([broker in assigned for broker in state.brokers["broker"].tolist()], np.bool_)
    state.brokers["member"] = now
    if state.partition["members_known"][0]:
        for slot in np.flatnonzero(before & ~now):
            _forget(state, int(slot))
        for slot in np.flatnonzero(now & ~before):
            _join(state, int(slot), newest)
    state.partition["members_at"] = newest
    state.partition["members_known"] = True


def _join(state: PartitionState, slot: int, at: int) -> None:
    """A replica that is new to the set: what was compared without it, and what still waits, is not known of it.

    A log that is given back to a broker is another log than the one that it had: a copy of the leader's as it is then.
    It is read on where the one before was left, so that nothing is known of it below.
    """
    waiting = state.candidates["offset"][state.candidates["flags"] & EARLY == 0]
    unread.add_offsets(state, READ_COMMITTED, waiting, UnknownReason.SKIPPED, at)
    state.candidates = state.candidates[:0]
    state.brokers["begun"][slot] = False
    for view in VIEWS:
        position = int(state.brokers["position"][slot, view])
        if position != UNKNOWN:
            left_behind(state, view, position, at)
            # As far down as anything was asked for: where readers begin at the log end, from where the first began.
            start = max(retained_from(state), int(state.partition["begun_from"][0, view]), 0)
            unread.add(state, view, start, position, UnknownReason.BEFORE_FIRST_READING, at)
            skip(state, view, 0, position, at)


def left_behind(state: PartitionState, view: int, position: int, at: int) -> None:
    """Make the offsets unknown that were judged without a replica: from the replica's position up to the floor.

    Nothing below the floor is judged any more, although this replica will still be read there.

    Args:
        state: the partition's state; it is changed.
        view: an `IsolationLevel`.
        position: the next offset to read of the replica.
        at: when the replica was read, milliseconds since 1970 UTC.
    """
    begun, end = max(position, retained_from(state)), int(state.partition["floor"][0, view])
    unread.add(state, view, begun, end, UnknownReason.BEFORE_FIRST_READING, at)


def note_replaced(state: PartitionState, offset: int, at: int) -> None:
    """Make all offsets below ``offset`` unknown, because a replica's log was replaced from there on.

    While the replica still held the replaced records, its cleaner may have removed older records of their keys. Readers
    never read those lower offsets again.

    Args:
        state: the partition's state; it is changed.
        offset: the first offset that was replaced.
        at: milliseconds since 1970 UTC.
    """
    for view in VIEWS:
        unread.add(state, view, retained_from(state), offset, UnknownReason.BEFORE_FIRST_READING, at)


def slots(state: PartitionState, brokers: Array) -> Array:
    """For each broker id, its slot: the index of its row in ``state.brokers``.

    It is -1 for a broker without a row.
    """
    if not len(state.brokers):
        return np.full(len(brokers), UNKNOWN)
    order = np.argsort(state.brokers["broker"])
    known = state.brokers["broker"][order]
    at = np.minimum(np.searchsorted(known, brokers), len(known) - 1)
    return np.where(known[at] == brokers, order[at], UNKNOWN)


def members(state: PartitionState) -> int:
    """Bit mask of the brokers in the replica set; 0 while the set is not known."""
    if not state.partition["members_known"][0]:
        return 0
    return sum(1 << slot for slot, member in enumerate(state.brokers["member"].tolist()) if member)


def positions(state: PartitionState, view: int) -> Array:
    """For each slot (row of ``state.brokers``), the next offset to read of this replica in the view ``view``.

    It has `MAX_BROKERS` entries. It is -1 for a replica of which nothing was read, and for a slot without a row.
    """
    padded = np.full(MAX_BROKERS, UNKNOWN, np.int64)
    padded[: len(state.brokers)] = state.brokers["position"][:, view]
    return padded


def common_position(state: PartitionState, view: int) -> int:
    """The offset below which every replica of the replica set was read in the view ``view``.

    -1 if the replica set is not known, or if one of its replicas was not read yet.
    """
    if not members(state):
        return UNKNOWN
    return int(state.brokers["position"][state.brokers["member"], view].min())


def lowest_position(state: PartitionState) -> int:
    """The offset below which no reader of the replica set shows anything more, in either view.

    It lies below the floor where a truncated log, or a jump of a reader, has raised the floor. It is `NEVER` if no
    replica was read yet.
    """
    read = state.brokers["position"][state.brokers["member"]]
    return int(read[read != UNKNOWN].min(initial=NEVER))


def furthest_position(state: PartitionState, view: int) -> int:
    """The furthest position of any replica in the view ``view``; -1 if none was read."""
    return int(state.brokers["position"][:, view].max(initial=UNKNOWN))


def read_to(state: PartitionState) -> Array:
    """For each replica and view, the offset up to which it was read, withheld rows included.

    The array is int64, with a row for each row of ``state.brokers`` and a column for each view.
    """
    reached: Array = state.brokers["position"].copy()
    for table in (state.sums, state.recent_sums):
        np.maximum.at(reached, (table["slot"], table["view"]), table["end"])
    return reached


def asked_position(state: PartitionState, view: int) -> int:
    """The offset below which every replica that answers was read in the view ``view``.

    Unlike `common_position` it ignores replicas that do not answer, and those that were read in neither view. It is -1
    if no replica is left, or if one of them was read only in the other view: its rows of this view will come soon.
    """
    asked = state.brokers["reachable"] & (state.brokers["position"].max(axis=1) != UNKNOWN)
    if state.partition["members_known"][0]:
        asked &= state.brokers["member"]
    return int(state.brokers["position"][asked, view].min(initial=NEVER)) if asked.any() else UNKNOWN


def read_at(state: PartitionState) -> int:
    """When any replica last reported its last stable offset, in ms since 1970 UTC; -1 if none has.

    A range is noted as unread with this time. Only an audit that began later settles the range.
    """
    return int(state.brokers["reported_at"].max(initial=UNKNOWN))


def skip(state: PartitionState, view: int, start: int, end: int, at: int) -> None:
    """Make the offsets of a range unknown, except those below the floor, and raise the floor to the range's end.

    Nothing below the floor is judged any more.

    Args:
        state: the partition's state; it is changed.
        view: an `IsolationLevel`.
        start: first offset of the range.
        end: one past the last offset of the range.
        at: when the range was read, milliseconds since 1970 UTC.
    """
    unread.add(state, view, max(start, int(state.partition["floor"][0, view])), end, UnknownReason.SKIPPED, at)
    if end > start:
        raise_floor(state, view, end)


def give_up(state: PartitionState, view: int, start: int, end: int, at: int) -> None:
    """Make the offsets from the floor up to the end of a range unknown, and raise the floor to that end.

    Nothing below the floor is judged any more. Unlike in `skip`, offsets between the floor and the range become unknown
    too.

    Args:
        state: the partition's state; it is changed.
        view: an `IsolationLevel`.
        start: first offset of the range; nothing changes if the range is empty.
        end: one past the last offset of the range.
        at: when the range was read, milliseconds since 1970 UTC.
    """
    if end > start:
        skip(state, view, min(start, int(state.partition["floor"][0, view])), end, at)


def raise_floor(state: PartitionState, view: int, offset: int) -> None:
    """Raise the floor of the view ``view`` to ``offset`` if it is lower. Nothing below the floor is judged any more."""
    state.partition["floor"][0, view] = max(int(state.partition["floor"][0, view]), offset)


def unmark(state: PartitionState, start: int, end: int) -> None:
    """Record that the state may lack end markers at the offsets from ``start`` up to, and without, ``end``.

    Either no reader was shown them, or the cap kept them out of the state. So the first end marker that the state holds
    there may not be the first one in the log.
    """
    first, last = state.partition["unmarked"][0]
    state.partition["unmarked"] = min(first, start), max(last, end)


def begin_readers(state: PartitionState, rows: ViewRows) -> None:
    """If readers begin now, raise the floor of their view to the highest offset at which one of them begins.

    Readers that begin at the log end begin at different offsets on each replica. Offsets below the floor were not read
    on every replica, so they are not compared.

    Args:
        state: the partition's state; it is changed.
        rows: what the micro-batch's readers showed. A reader begins with it if the state has nothing from it yet.
    """
    for view in VIEWS:
        for slot in np.flatnonzero(state.brokers["shown"][:, view] == UNKNOWN):
            mine = rows.offset[(rows.view == view) & (rows.broker == state.brokers["broker"][slot])]
            if len(mine):
                start, first = int(mine.min()), int(state.partition["begun_from"][0, view])
                state.partition["begun_from"][0, view] = start if first == UNKNOWN else min(start, first)
                raise_floor(state, view, start)
                if view == READ_UNCOMMITTED:
                    # The other reader may begin below, and be given records that ended by a marker in between.
                    unmark(state, 0, start)


def take_in_positions(state: PartitionState, rows: ViewRows, row_slots: Array) -> None:
    """Move each replica's position to the offset that its rows of kind `POSITION` report.

    It never moves back. That of a member never moves past the offset from which rows are withheld.

    Args:
        state: the partition's state; it is changed.
        rows: rows of the views, of all kinds.
        row_slots: for each row, the slot of its replica (the index of its broker in ``state.brokers``).
    """
    limits = np.where(state.brokers["member"], state.partition["withheld"][0], NEVER)
    is_position = rows.kind == POSITION
    for view in VIEWS:
        in_view = rows.view == view
        for slot in np.unique(row_slots[in_view]):
            mine, limit = in_view & (row_slots == slot), int(limits[slot])
            broker = state.brokers[slot : slot + 1]
            last = min(limit, int(rows.offset[mine].max()))
            broker["shown"][0, view] = max(int(broker["shown"][0, view]), last)
            ends = np.flatnonzero(mine & is_position)
            records = mine & ~is_position
            if records.any():
                broker["shown"][0, view] = max(int(broker["shown"][0, view]), int(rows.offset[records].max()) + 1)
            if len(ends):
                stands = min(limit, int(rows.offset[ends].max()))
                broker["position"][0, view] = max(int(broker["position"][0, view]), stands)
                _take_in_offsets(broker, rows, int(ends[np.argmax(rows.timestamp[ends])]))
    _take_in_ended(state, rows)
    committed = is_position & (rows.view == READ_COMMITTED)
    passed = int(rows.timestamp[committed].max(initial=UNKNOWN))
    state.partition["passed_at"] = max(int(state.partition["passed_at"][0]), passed)


def _take_in_ended(state: PartitionState, rows: ViewRows) -> None:
    """Remember the furthest offset up to which all transactions were seen to have ended.

    One answer gives a reader of read_uncommitted the last stable offset and the high watermark. Every transaction that
    begins below the first has its end marker below the second. If the reader has come to the second, the leader epoch
    of what it read last identifies the log.
    """
    partition = state.partition
    at = (rows.kind == POSITION) & (rows.view == READ_UNCOMMITTED) & (rows.event == _OK) & (rows.leader_epoch >= 0)
    at &= (rows.offset == rows.high_watermark) & (rows.last_stable_offset >= max(0, int(partition["ended_to"][0])))
    for i in np.flatnonzero(at):
        said = rows.last_stable_offset[i], rows.leader_epoch[i], -rows.offset[i]
        if said > (partition["ended_to"][0], partition["ended_epoch"][0], -partition["ended_below"][0]):
            partition["ended_to"], partition["ended_below"] = rows.last_stable_offset[i], rows.offset[i]
            partition["ended_from"], partition["ended_epoch"] = rows.log_start_offset[i], rows.leader_epoch[i]
            partition["ended_on"] = rows.broker[i]


def _take_in_offsets(broker: Array, rows: ViewRows, i: int) -> None:
    broker["log_start_offset"] = max(int(broker["log_start_offset"][0]), int(rows.log_start_offset[i]))
    if rows.timestamp[i] > broker["reported_at"][0] and rows.last_stable_offset[i] != UNKNOWN:
        broker["stable_told"], broker["reported_at"] = rows.last_stable_offset[i], rows.timestamp[i]
        broker["high_watermark"] = rows.high_watermark[i]


def only_compacts(state: PartitionState) -> bool:
    """Whether the topic's cleanup policy is known to be only ``compact``, so nothing else removes records."""
    return int(state.partition["deletes"][0]) == 0 and int(state.partition["strict_from"][0]) == NEVER


def why_gone(state: PartitionState) -> UnknownReason:
    """The reason why offsets that were removed from a log before they were read are unknown.

    It is ``DELETED_UNREAD`` if the topic's cleanup policy deletes, and ``SKIPPED`` otherwise.
    """
    return UnknownReason.DELETED_UNREAD if int(state.partition["deletes"][0]) > 0 else UnknownReason.SKIPPED


def log_starts(state: PartitionState) -> list[int]:
    """The known log start offsets of the replica set, lowest first."""
    # A few numbers, asked for many times in a step: lists are several times as fast as numpy here.
    starts = zip(state.brokers["member"].tolist(), state.brokers["log_start_offset"].tolist(), strict=True)
    return sorted(start for member, start in starts if member and start != UNKNOWN)


def held_from(state: PartitionState) -> int:
    """The lowest log start in the replica set, of logs that are known to hold records.

    It is `NEVER` if no log is known to hold any.
    """
    held = state.brokers["member"] & holds_any(state.brokers)
    return int(state.brokers["log_start_offset"][held].min(initial=NEVER))


def ended_up_to(state: PartitionState) -> int:
    """The offset of the first read_committed record whose end marker is still to be read; `NEVER` if there is none.

    A read_committed reader shows records below the last stable offset, and all of their transactions have ended. While
    some transaction is open, end markers of the others may lie above that offset. Until such a marker is read, nobody
    knows whether the replica contradicts itself.
    """
    return int(state.unended["offset"].min(initial=NEVER))


def retained_from(state: PartitionState) -> int:
    """The offset below which nothing can be judged, because logs no longer hold it; -1 if it is unknown.

    It is the highest log start of the replica set, because retention deletes at different times on each replica.

    If a topic is only compacted, it is the second lowest log start. From there on two logs can be compared, and a third
    log that begins higher may have lost its head. Two exceptions:

    - Until every replica has reported its log start, the lowest one counts. A replica that has not may hold as much.
    - While the topic's policy included ``delete``, retention deleted at different times. The result is not below the
      highest log start of that time.
    """
    starts = log_starts(state)
    if not starts:
        return UNKNOWN
    if not only_compacts(state):
        return starts[-1]
    # One that has not said yet where its log begins may hold as much as any.
    second = starts[:2][-1] if len(starts) == np.count_nonzero(state.brokers["member"]) else starts[0]
    return min(starts[-1], max(second, int(state.partition["deleted_to"][0])))


def holding(state: PartitionState, offsets: Array) -> Array:
    """For each of ``offsets``, a bit mask of the replicas that are compared there, ``uint32[n]``.

    They are the replica set. A replica is left out if its log begins above the offset, and above `retained_from`.
    """
    held = np.full(len(offsets), members(state), np.uint32)
    if not len(offsets):
        return held
    retained = retained_from(state)
    for slot in np.flatnonzero(state.brokers["member"] & (state.brokers["log_start_offset"] > retained)).tolist():
        held[offsets < state.brokers["log_start_offset"][slot]] &= ~np.uint32(1 << slot)
    return held


def undecided(state: PartitionState) -> Array:
    """For each `CONTENT` row, whether some replicas lack its record although no cleaner can have removed it.

    The record lies at or above the last stable offset of every replica, and cleaners do not get there. So some replica
    has lost the record, or another kept one that the cluster has lost. Until the transactions there have ended, nobody
    knows which record of a key is the latest.
    """
    everyone = np.uint32(members(state))
    stable = int(state.brokers["stable_told"][state.brokers["member"]].max(initial=UNKNOWN))
    shown, offset = state.content["shown"] & everyone, state.content["offset"]
    if stable == UNKNOWN:
        return np.zeros(len(shown), np.bool_)
    passed = offset < common_position(state, READ_UNCOMMITTED)
    mask: Array = passed & (offset >= max(stable, retained_from(state))) & (shown != 0) & (shown != everyone)
    return mask


def follow_heads(state: PartitionState, rows: ViewRows, progress: ProgressRows, *, was_known: bool) -> None:
    """Keep in the state the lowest log start that was seen, as long as only compaction removes records.

    Only logs that hold records count. If a log begins above that offset later, its replica has lost records
    (`parallax.compare.rules.log_start`).

    Args:
        state: the partition's state, changed here; this step's log starts and cleanup policy are in it already.
        rows: rows of the views; they may come before any policy is known.
        progress: progress rows; they may name a log start that none of ``rows`` has.
        was_known: whether the policy was known before this step.
    """
    partition, starts, lowest = state.partition, log_starts(state), held_from(state)
    if not was_known:
        _see_heads(state, rows, progress)
        if partition["deletes"][0] == UNKNOWN:
            return
        if starts and only_compacts(state) and partition["head"][0] != UNKNOWN:
            # Whether a policy deleted that, before it was known, nobody can tell: it accuses nobody.
            begins = starts[0] if lowest == NEVER else lowest
            partition["skipped"][0] += max(0, begins - int(partition["head"][0]))
        partition["head"] = UNKNOWN
    if not only_compacts(state):
        partition["head"] = UNKNOWN
        if starts and partition["deletes"][0] > 0:
            partition["deleted_to"] = starts[-1]
    elif lowest != NEVER:
        head = int(partition["head"][0])
        partition["head"] = lowest if head == UNKNOWN else min(head, lowest)


def _see_heads(state: PartitionState, rows: ViewRows, progress: ProgressRows) -> None:
    """The lowest log start that anybody met of a log that held anything, while no policy is known."""
    told = rows.take(rows.kind == POSITION)
    seen = np.concatenate([told.log_start_offset, progress.log_start_offset])
    ends = np.concatenate([told.high_watermark, np.maximum(progress.log_end_offset, progress.high_watermark)])
    seen = seen[(seen >= 0) & (seen < ends)]
    head = int(state.partition["head"][0])
    lowest = int(seen.min(initial=NEVER if head == UNKNOWN else head))
    state.partition["head"] = UNKNOWN if lowest == NEVER else lowest
