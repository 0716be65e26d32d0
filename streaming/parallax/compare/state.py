"""What the comparison of one partition keeps between two micro-batches: tables, packed into two byte strings.

It holds what is not settled yet: for example, records that not every replica has shown or passed.
"""

# ruff: noqa: RUF009 - the calls make dataclass fields
from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from parallax.compare.observations import Array
from parallax.model import UNKNOWN, UnknownReason

MAX_BROKERS = 32
"""How many replicas of one partition the bit masks (``<u4``) have room for."""

NEVER = np.iinfo(np.int64).max
"""An offset above all others, such as the end of an open transaction. As a missed marker: none was missed."""

PARTITION = np.dtype(
    [
        ("topic_id", "<i8"),
        ("members_known", "?"),
        ("members_at", "<i8"),
        ("passed_at", "<i8"),
        ("floor", "<i8", (2,)),
        ("begun_from", "<i8", (2,)),
        ("skipped", "<i8", (2,)),
        ("strict_from", "<i8"),
        ("policy_at", "<i8"),
        ("unmarked", "<i8", (2,)),
        ("hidden_to", "<i8"),
        ("retention_ms", "<i8"),
        ("read_to", "<i8", (2,)),
        ("bound_at", "<i8", (2,)),
        ("bound", "<i8", (2,)),
        ("next_bound_at", "<i8", (2,)),
        ("next_bound", "<i8", (2,)),
        ("deletes", "i1"),
        ("head", "<i8"),
        ("deleted_to", "<i8"),
        ("ended_to", "<i8"),
        ("ended_below", "<i8"),
        ("ended_from", "<i8"),
        ("ended_epoch", "<i4"),
        ("ended_on", "<i4"),
        ("withheld", "<i8"),
        ("withheld_since", "<i8"),
        ("withheld_until", "<i8"),
        ("differed", "?"),
        ("keyed", "?"),
    ]
)
"""The columns of a partition's one row.

- ``floor`` by view: rows below it are judged already or cannot be.
- ``begun_from`` by view: where the first reader began, if readers begin at the log end.
- ``skipped`` by view: offsets that a log no longer held when they were to be read. Other offsets without verdict are in
  `UNREAD`.
- ``passed_at``: when the last position of read_committed was read, in milliseconds.
- ``strict_from``: from here on nothing was ever compacted, so every record is compared and not only the latest of its
  key. `NEVER` while the topic is compacted, or its policy is not known. ``policy_at``: when that was last seen.
- ``unmarked``: the range of offsets, its end left out, where the state may lack end markers. The cap kept them out, or
  a reader of read_uncommitted began behind them.
- ``hidden_to``: below it an end marker may have been cleaned everywhere before any replica was read to show it.
- ``retention_ms``: the topic's ``delete.retention.ms``, as reported last.
- ``read_to`` by view: the furthest that any replica has been read.
- ``bound``, ``next_bound`` by view: no replica showed an offset from there on at ``bound_at``, ``next_bound_at``
  (compare/unread.py).
- ``deletes``: whether the cleanup policy held ``delete`` when last seen.
- ``head``: the lowest start of a log that held anything while the policy did not delete, or was not known;
  ``deleted_to``: the highest start while it did.
- ``ended_*``: the furthest that all transactions were seen to have ended. Those that begin from ``ended_from`` on and
  below ``ended_to`` had their end markers below ``ended_below``, in the log of broker ``ended_on``. Its last batch
  below that had the leader epoch ``ended_epoch``.
- ``withheld``: rows from there on are left in the views until they are needed (compare/withheld.py); `NEVER` if none
  are. All of them were recorded behind the place ``withheld_since``, and up to ``withheld_until``
  (`parallax.views.order`).
- ``differed``: while a replica was away the others have shown unlike rows.
- ``keyed``: whether withheld rows are added up by the hash key. The version before had a key of its own for all.
"""

ENDED = ("ended_to", "ended_below", "ended_from", "ended_epoch", "ended_on")
"""The columns of `PARTITION` on transactions that were seen to have ended."""

BROKER = np.dtype(
    [
        ("broker", "<i4"),
        ("member", "?"),
        ("reachable", "?"),
        ("position", "<i8", (2,)),
        ("shown", "<i8", (2,)),
        ("topic_id", "<i8", (2,)),
        ("topic_at", "<i8"),
        ("begun", "u1", (2,)),
        ("high_watermark", "<i8"),
        ("last_stable_offset", "<i8"),
        ("log_start_offset", "<i8"),
        ("log_end_offset", "<i8"),
        ("stable_told", "<i8"),
        ("reported_at", "<i8"),
        ("observed_at", "<i8"),
        ("stalled_reference", "<i8"),
        ("stalled_since", "<i8"),
        ("head_since", "<i8"),
        ("mismatch_last", "<i8"),
        ("mismatch_side", "<i8"),
    ]
)
"""The columns of a replica's row; the row's index is the replica's bit in the masks.

- ``position`` by view: next offset to read, as the reader reported it; ``shown``: one past the last row taken in.
- ``begun`` by view: `NOT_BEGUN`, `FOLLOWED` or `WHOLE_SO_FAR`.
- ``topic_id`` by view: as its reader reported it last.
- ``topic_at``: its reports of this time or earlier are about an earlier topic of the same name, milliseconds since 1970
  UTC; -1 if there was none.
- ``stable_told``: its last stable offset as reported last, at ``reported_at``, by progress or with a position.
- ``last_stable_offset``: as of the last tick of progress, at ``observed_at``.
- ``stalled_*``: see rules/progress.py.
- ``head_since``: since when its log has begun above another's (rules/log_start.py).
- ``mismatch_last``: how far the present run of differing records has come (compare/judge_content.py);
  ``mismatch_side``: the mask of the replicas that showed the same there, and the bit `HAS_AGREED`.
"""

HAS_AGREED = 1 << MAX_BROKERS
"""Bit of ``mismatch_side``: behind its last differing record the replica has shown one as another replica does."""

NOT_BEGUN, FOLLOWED, WHOLE_SO_FAR = 0, 1, 2
"""How far a view has read what its replica held when the reading began (compare/unread.py).

- `NOT_BEGUN`: nothing of it has been read.
- `FOLLOWED`: all of it has been read. If some offsets were not shown, that is noted.
- `WHOLE_SO_FAR`: part of it has been read, and every offset in that part was shown.
"""

CONTENT = np.dtype([("offset", "<i8"), ("fingerprint", "<i8"), ("shown", "<u4")])
"""read_uncommitted: who showed which record at an offset that not every replica has passed."""

PENDING = np.dtype(
    [
        ("offset", "<i8"),
        ("producer_id", "<i8"),
        ("key_hash_hi", "<i8"),
        ("key_hash_lo", "<i8"),
        ("visible", "<u4"),
        ("aborted", "<u4"),
        ("flags", "u1"),
        ("leader_epoch", "<i4"),
    ]
)
"""read_committed: who showed a record as visible, and who as aborted, at an offset not every replica has passed.

``leader_epoch`` is the highest in which any replica showed it.
"""

TOMBSTONE, NULL_KEY, NAMELESS, DISPUTED, REPORTED, EARLY, UNLIKE, FOR_OUTCOME = 1, 2, 4, 8, 16, 32, 64, 128
"""Bits of ``flags``, in this order:

- The value is null.
- The key is null.
- No record was shown. A list of aborted transactions covers the offset (`LISTED`), so the key is not known.
- Replicas show unlike outcomes (`DISPUTED`).
- The unlike outcomes were reported.
- The record is judged without the replicas that are away.
- Replicas show unlike records there, so the outcome of one says nothing of another's.
- In `CANDIDATE`: its value is judged, and it is remembered only for how it was shown (compare/remembered.py).
"""

CANDIDATE = np.dtype([*PENDING.descr, ("passed_at", "<i8"), ("horizon", "<i8")])
"""read_committed: a record that every replica has passed and not all have shown.

It waits for an explanation. With `FOR_OUTCOME` it waits for something else: a replica may turn out to have missed the
end marker of its transaction.
"""

INTERVAL = np.dtype(
    [
        ("slot", "u1"),
        ("producer_id", "<i8"),
        ("start", "<i8"),
        ("end", "<i8"),
        ("end_type", "u1"),
        ("missed", "<i8"),
        ("missed_type", "u1"),
        ("missed_shown", "<u4"),
        ("missed_epoch", "<i4"),
        ("told", "u1"),
        ("over_by", "<i8"),
        ("next_start", "<i8"),
    ]
)
"""A transaction as one replica shows it: first data, end marker (`NEVER` while open), and the marker it missed.

- ``missed_shown``: bit mask of the replicas that showed the missed marker; ``missed_epoch`` is its leader epoch.
- ``told``: bits for what was reported of it (compare/accusing.py).
- ``over_by``: by the replica's list of open transactions, this one has ended below this offset.
- ``next_start``: where the producer's next transaction begins by that list.

If it has ended and its marker was not read, ``end`` is ``over_by``, and ``end_type`` is 0.
"""

MARKER = np.dtype(
    [("offset", "<i8"), ("producer_id", "<i8"), ("type", "u1"), ("shown", "<u4"), ("leader_epoch", "<i4")]
)
"""An end marker that some replica showed; ``type`` is `RowKind` COMMIT or ABORT.

Different markers at one offset have a row each. So has a record there, which has `RowKind` RECORD and no producer.
``leader_epoch`` is the highest in which any replica showed it.
"""

DISPUTE = np.dtype([("producer_id", "<i8"), ("horizon", "<i8")])
"""A producer with disputed records: judged once the markers up to ``horizon`` have been read."""

UNENDED = np.dtype(
    [
        ("slot", "u1"),
        ("producer_id", "<i8"),
        ("offset", "<i8"),
        ("key_hash_hi", "<i8"),
        ("key_hash_lo", "<i8"),
        ("aborted", "?"),
    ]
)
"""read_committed: the first record of a transaction on a replica that has not shown the transaction's end yet."""

DEFERRED = np.dtype([("view", "u1"), ("start", "<i8"), ("end", "<i8")])
"""A range that the cap kept out of the state.

``end`` is `NEVER` while it grows. A failed step may leave one as well: from its offset on, until the positions of all
readers are known again (``compare/anew.py``).
"""

UNREAD = np.dtype([("view", "u1"), ("reason", "u1"), ("start", "<i8"), ("end", "<i8"), ("since", "<i8")])
"""A range that no replica was read in time to show, or that was left without a verdict (`UnreadRange`).
``reason`` is an index into `UNREAD_REASONS`, ``since`` is in milliseconds."""

UNREAD_REASONS = (
    UnknownReason.BEFORE_FIRST_READING,
    UnknownReason.RETENTION_GAP,
    UnknownReason.SKIPPED,
    UnknownReason.DEFERRED,
    UnknownReason.LOST_UNREAD,
)

SUM = np.dtype(
    [
        ("slot", "u1"),
        ("view", "u1"),
        ("end", "<i8"),
        ("rows", "<i8"),
        ("transactional", "<i8"),
        ("odd", "<i8"),
        ("low", "<u8"),
        ("high", "<u8"),
        ("shape", "<u8"),
    ]
)
"""The sums of a reader's withheld rows below ``end``: their number, and the sum of their fingerprints.

- ``rows``: how many rows; ``low`` and ``high``: the two halves of the sum of their fingerprints
  (`parallax.replica.digests`).
- ``transactional``: how many rows are part of transactions or end markers.
- ``odd``: how many rows are judged even if all replicas show them alike: listed, emptied or contradicted ones.
- ``shape``: a sum over the transactional rows' offsets, producers and kinds. It is the same in both views of a replica.
"""

GOING = np.dtype(
    [
        ("slot", "u1"),
        ("end", "<i8"),
        ("producer_id", "<i8"),
        ("offset", "<i8"),
        ("key_hash_hi", "<i8"),
        ("key_hash_lo", "<i8"),
        ("aborted", "?"),
    ]
)
"""read_committed: the transactions that are open at an offset ``end``, by the withheld rows of a replica.

The other columns are as in `UNENDED`. Each ``end`` has also a row without a producer, even if no transaction is open
there.
"""

RAISED_IDS = np.dtype("<u8")
"""The first 64 bits of the ids of suspects that were raised, oldest first; at most `MAX_RAISED`."""

MAX_RAISED = 4096
"""How many ids of suspects a state remembers; a suspect whose id it has is not raised again."""

UNMATCHED = ("content", "pending", "candidates", "intervals", "markers", "sums")
"""The *unmatched* tables of a state, which may be large; they are the last ones of `PartitionState`.

They hold what some replicas have shown, and what is not compared to the end yet. That is records, transactions and
end markers.
"""

_MAGIC = b"PXC"
_VERSION = 13


NOWHERE = (NEVER, UNKNOWN)
"""A range of offsets that is empty."""


class VersionError(ValueError):
    """A stored state was written by another version of Parallax, and cannot be read."""


def empty(dtype: np.dtype[Any]) -> Array:
    """A table of the row type ``dtype`` without rows."""
    return np.empty(0, dtype)


def kept(table: Array, mask: Array) -> Array:
    """The rows of ``table`` that ``mask`` selects.

    If it selects all, the result is the table itself, because a copy would cost time.
    """
    return table if mask.all() else table[mask]


def _fresh_partition() -> Array:
    row = np.zeros(1, PARTITION)
    row["members_at"] = row["passed_at"] = row["policy_at"] = row["retention_ms"] = row["begun_from"] = UNKNOWN
    for name in ("read_to", "bound_at", "bound", "next_bound_at", "next_bound", "deletes", "head", "deleted_to"):
        row[name] = UNKNOWN
    for name in ENDED:
        row[name] = UNKNOWN
    row["strict_from"] = row["withheld"] = NEVER
    row["withheld_since"] = row["withheld_until"] = UNKNOWN
    row["unmarked"] = NOWHERE
    return row


def _table(dtype: np.dtype[Any]) -> Any:
    return field(default_factory=lambda: empty(dtype), metadata={"dtype": dtype})


@dataclass(slots=True)
class PartitionState:
    """The state of one topic partition: tables (numpy arrays of rows) of what still waits to be compared.

    A step replaces tables, and never writes into those of its input.

    The tables up to ``going`` are the *head*: small, and different after each step. The others are the *unmatched*
    tables (`UNMATCHED`). They hold what some replicas have shown and what is not compared to the end yet, because other
    replicas have not passed it or because it waits for an explanation. They may be large. While a replica is away and
    the state has reached its cap, they stay the same for long. So head and unmatched tables are packed separately.
    """

    partition: Array = field(default_factory=_fresh_partition, metadata={"dtype": PARTITION})
    brokers: Array = _table(BROKER)
    disputes: Array = _table(DISPUTE)
    unended: Array = _table(UNENDED)
    deferred: Array = _table(DEFERRED)
    unread: Array = _table(UNREAD)
    told: Array = _table(RAISED_IDS)
    recent_sums: Array = _table(SUM)
    going: Array = _table(GOING)
    content: Array = _table(CONTENT)
    pending: Array = _table(PENDING)
    candidates: Array = _table(CANDIDATE)
    intervals: Array = _table(INTERVAL)
    markers: Array = _table(MARKER)
    sums: Array = _table(SUM)

    @property
    def nbytes(self) -> int:
        """The size of all tables together in bytes, as it is reported (`Coverage.state_bytes`)."""
        return sum(getattr(self, f.name).nbytes for f in fields(self))

    @property
    def is_settled(self) -> bool:
        """Whether nothing in the state waits to be judged, so that a step need not judge at all."""
        return not (len(self.disputes) or any(len(getattr(self, name)) for name in UNMATCHED))

    def has_unmatched_of(self, other: PartitionState) -> bool:
        """Whether the `UNMATCHED` tables equal those of the state ``other``, so that they need not be written again."""
        return all(_same(getattr(self, name), getattr(other, name)) for name in UNMATCHED)

    def copy(self) -> PartitionState:
        """A copy whose tables ``partition`` and ``brokers`` may be written to.

        All other tables are shared with the original, and may only be replaced.
        """
        return replace(self, partition=self.partition.copy(), brokers=self.brokers.copy())

    def to_bytes(self) -> bytes:
        """Pack the whole state into one byte string: its head, then the `UNMATCHED` tables."""
        return self.head_bytes() + self.unmatched_bytes()

    def head_bytes(self) -> bytes:
        """Pack the head: a version, how many rows each table has, and the tables that are not `UNMATCHED`."""
        names = [f.name for f in fields(self)]
        counts = struct.pack(f"<B{len(names)}Q", _VERSION, *(len(getattr(self, name)) for name in names))
        return b"".join([_MAGIC, counts, *(_raw(getattr(self, name)) for name in names if name not in UNMATCHED)])

    def unmatched_bytes(self) -> bytes:
        """Pack the `UNMATCHED` tables, which hold what is not compared to the end yet.

        The result is empty if these tables have no rows. To unpack it, `from_bytes` also needs the head.
        """
        return b"".join(_raw(getattr(self, name)) for name in UNMATCHED)

    @classmethod
    def from_bytes(cls, data: bytes, unmatched: Callable[[], bytes] | None = None) -> PartitionState:
        """Unpack a state; empty bytes give a new state.

        Args:
            data: the bytes of `to_bytes`; if ``unmatched`` is given, those of `head_bytes`.
            unmatched: returns the bytes of `unmatched_bytes`; called only if the head says that these tables have rows.

        Raises:
            VersionError: another version of Parallax has written the state.
            ValueError: the bytes are no state, or the two parts do not fit together.
        """
        if not data:
            return cls()
        start, tables = _announced(data)
        sizes = {name: dtype.itemsize * n for name, dtype, n in tables}
        rest = sum(sizes.get(name, 0) for name in UNMATCHED)
        end = start + sum(sizes.values()) - (0 if unmatched is None else rest)
        if end != len(data):
            raise ValueError(f"comparison state: {len(data)} bytes where {end} were announced")
        tail = unmatched() if unmatched is not None and rest else b""
        if unmatched is not None and len(tail) != rest:
            raise ValueError(f"comparison state: {len(tail)} bytes of what is unmatched where {rest} were announced")
        made = {}
        for name, dtype, count in tables:
            if name == UNMATCHED[0] and unmatched is not None:
                data, start = tail, 0
            made[name] = np.frombuffer(data, dtype, count, start)
            start += sizes[name]
        if made["partition"].dtype != PARTITION:
            made["partition"] = _of_today(made["partition"])
        return cls(**made)


TABLES = tuple((f.name, f.metadata["dtype"]) for f in fields(PartitionState))
"""The tables of a state and their types, in the order in which they are packed."""

HEADER = np.dtype([("magic", f"S{len(_MAGIC)}"), ("version", "u1"), ("rows", "<u8", (len(TABLES),))])
"""The beginning of a packed head, to read many heads together. ``rows`` has the number of rows of each of `TABLES`."""

NEW_HEADER = np.array((_MAGIC, _VERSION, 0), HEADER)
"""The header of a state of this version without rows."""


_SINCE: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {
    12: (("recent_sums", "going", "sums"), ("withheld", "withheld_since", "withheld_until", "differed")),
    13: ((), ("keyed",)),
}
"""By version, the tables and the columns of `PARTITION` that came with it. The versions before can be read, too."""


def _announced(data: bytes) -> tuple[int, list[tuple[str, np.dtype[Any], int]]]:
    """Where the tables begin, and which ones there are: name, type, number of rows; as the head says."""
    if data[: len(_MAGIC)] != _MAGIC or len(data) <= len(_MAGIC):
        raise ValueError("comparison state: not a state of Parallax; delete the comparison's checkpoint")
    version = data[len(_MAGIC)]
    if min(_SINCE) - 1 <= version <= _VERSION:
        new = {name for since, both in _SINCE.items() if since > version for names in both for name in names}
        then = np.dtype([(n, *of) for n, *of in PARTITION.descr if n not in new]) if new else PARTITION
        known = [(name, then if name == "partition" else dtype) for name, dtype in TABLES if name not in new]
    else:
        raise VersionError(
            f"comparison state: version {version} cannot be read by this program (it reads {_VERSION}); "
            "delete the comparison's checkpoint, the tables are compared again"
        )
    layout = struct.Struct(f"<{len(known)}Q")
    start = len(_MAGIC) + 1 + layout.size
    if len(data) < start:
        raise ValueError("comparison state: not a state of Parallax; delete the comparison's checkpoint")
    counts = layout.unpack_from(data, len(_MAGIC) + 1)
    return start, [(name, dtype, count) for (name, dtype), count in zip(known, counts, strict=True)]


def _of_today(partition: Array) -> Array:
    """The row of `PARTITION` that the version before has written."""
    made = np.repeat(_fresh_partition(), len(partition))
    for name in partition.dtype.names or ():
        made[name] = partition[name]
    return made


def _raw(table: Array) -> Any:
    """The bytes of a table, without copying them where they lie together."""
    return np.ascontiguousarray(table).view(np.uint8).data


def _same(left: Array, right: Array) -> bool:
    return left is right or (len(left) == len(right) and bool(_raw(left) == _raw(right)))


def new_broker(broker: int) -> Array:
    """A table with one `BROKER` row, for a replica about which nothing is known yet.

    Args:
        broker: the broker's id.
    """
    row = np.zeros(1, BROKER)
    for name in BROKER.names or ():
        if name not in ("broker", "member", "reachable", "topic_id", "begun"):
            row[name] = UNKNOWN
    row["broker"] = broker
    row["reachable"] = True
    return row
