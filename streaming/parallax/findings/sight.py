"""Works out from a view which record a consumer of one replica had been given by a time. Pure.

A consumer is given a record once it reads that far. The view's reader acts as such a consumer. So the records that it
was shown by that time count, in the log that the replica had then. What a cleaner removed later does not matter,
because a consumer that read along had got it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from parallax.counts import counted
from parallax.model import GAPS, UNKNOWN, IsolationLevel, Outcome, ReadEvent, RowKind
from parallax.moments import utc_text


class What(StrEnum):
    """What a consumer had been given of a key or at an offset."""

    RECORD = "record"
    TOMBSTONE = "tombstone"
    NOTHING = "nothing"
    """The replica showed the consumer no record."""
    UNKNOWN = "unknown"
    """The views do not say."""


_ANEW = frozenset({ReadEvent.TOPIC_RECREATED, ReadEvent.TOPIC_DELETED, ReadEvent.NOT_HOSTED})
"""Events after which nothing that was read before is in the log."""

_BEGINS = _ANEW | {ReadEvent.PARTITION_ADDED}
"""Events with which the reading of a log begins: nothing of that log was shown before."""


@dataclass(frozen=True, slots=True)
class Row:
    """A record as the replica showed it to the view's reader.

    Attributes:
        offset: the record's offset.
        written: the record's timestamp.
        content: the keyed hash of value and headers, 16 hexadecimal digits.
        key_size: bytes of the key; -1 without one.
        value_size: bytes of the value; -1 without one. A record with a key and no value is a tombstone.
        leader_epoch: the leader epoch of the record's batch.
        outcome: committed, aborted or of no transaction, as this replica shows it to read_committed consumers.
    """

    offset: int
    written: datetime
    leader_epoch: int
    outcome: Outcome
    content: str
    key_size: int
    value_size: int

    @property
    def what(self) -> What:
        """Whether it is a tombstone or another record. A record without a value and without a key is no tombstone."""
        return What.TOMBSTONE if self.value_size < 0 <= self.key_size else What.RECORD


@dataclass(frozen=True, slots=True)
class LogSeen:
    """Where a replica's log began and ended at a moment, by its own answer; -1 for what is not known.

    Attributes:
        at: when the replica said so.
        log_start: the log start offset.
        last_stable: the LSO.
        high_watermark: the high watermark.
    """

    at: datetime
    log_start: int = UNKNOWN
    last_stable: int = UNKNOWN
    high_watermark: int = UNKNOWN

    @classmethod
    def of_row(cls, at: datetime, row: Mapping[str, Any]) -> LogSeen:
        """Make a `LogSeen` from the fields of a table row that hold these offsets.

        It is a row of the table ``replica_progress``, or the ``position`` of a view's row of kind POSITION.

        Args:
            at: when the replica said so.
            row: by name, ``log_start_offset``, ``last_stable_offset`` and ``high_watermark``; null is not known.
        """
        found = (row[name] for name in ("log_start_offset", "last_stable_offset", "high_watermark"))
        return cls(at, *(UNKNOWN if one is None else int(one) for one in found))


@dataclass(frozen=True, slots=True)
class Sight:
    """What a consumer of one replica had been given of a key, or at an offset, by a time.

    Attributes:
        partition: the number of the partition.
        broker: the broker that holds the replica.
        what: a record, a tombstone, nothing, or unknown.
        why: if it is nothing or unknown, the reason in words.
        row: the record or tombstone; None if it is nothing or unknown.
        read_to: the position of the view's reader at that time; -1 if it had read nothing.
        read_at: when the reader last read before that time; None if it had read nothing.
    """

    partition: int
    broker: int
    what: What
    why: str = ""
    row: Row | None = None
    read_to: int = UNKNOWN
    read_at: datetime | None = None


@dataclass
class _Reader:
    """One replica, as far as it was read by a time.

    Attributes:
        begin: the lowest offset from which all that was read is in the views.
        has_begun: whether the row with which the reading of the log began is in the views.
        log_start: where the log began then, by the replica's first answer since; -1 if it is not known. What a later
            log start has passed may have been shown before.
        is_not_kept: whether rows below are missing because the views no longer keep them.
        held: what was shown and has not been truncated since.
        pending: what was shown in the range whose end comes.
        last: the last row of kind POSITION by then.
        later: there are rows of a later time.
    """

    begin: int = UNKNOWN
    has_begun: bool = False
    log_start: int = UNKNOWN
    is_not_kept: bool = False
    held: list[Mapping[str, Any]] = field(default_factory=list)
    pending: list[Mapping[str, Any]] = field(default_factory=list)
    last: Mapping[str, Any] | None = None
    later: bool = False

    def take(self, row: Mapping[str, Any], at: datetime) -> None:
        """Take in the next row that was recorded."""
        if self.later:
            return
        if row["kind"] != RowKind.POSITION:
            self.pending.append(row)
        elif row["timestamp"] > at:
            self.later = True
            if self._is_of_another_log(row):
                self.pending = []
        else:
            self._move(row)

    @property
    def shown(self) -> list[Mapping[str, Any]]:
        """What was shown by then. Files of one commit come in any order: a row may follow the end of its range."""
        to = UNKNOWN if self.last is None else self.last["offset"]
        return self.held + [row for row in self.pending if row["offset"] < to]

    def _is_of_another_log(self, row: Mapping[str, Any]) -> bool:
        ids = {one["position"]["topic_id"] for one in (self.last, row) if one is not None} - {None, ""}
        return len(ids) > 1 or row["position"]["event"] in _ANEW

    def _move(self, row: Mapping[str, Any]) -> None:
        event, to = row["position"]["event"], int(row["offset"])
        if event in _ANEW:
            self.pending = []
        if self._is_of_another_log(row):
            self.held, self.begin, self.has_begun, self.log_start = [], UNKNOWN, False, UNKNOWN
        if event in _BEGINS:
            self.has_begun, self.log_start = True, UNKNOWN
        self.held += self.pending
        if event == ReadEvent.LOG_TRUNCATED:
            self.held, self.begin = [one for one in self.held if one["offset"] < to], min(self.begin, to)
        if event in GAPS:
            self.begin, self.is_not_kept = to, event == ReadEvent.NOT_KEPT
        elif self.begin == UNKNOWN or event == ReadEvent.PARTITION_ADDED:
            self.begin = min([to, *(int(one["offset"]) for one in self.pending)])
        self.pending, self.last = [], row
        self.note(LogSeen.of_row(row["timestamp"], row["position"]))

    def note(self, marks: LogSeen) -> None:
        """Take in where the log began, unless an earlier answer has said it."""
        if self.has_begun and self.log_start == UNKNOWN:
            self.log_start = marks.log_start


def sights(
    rows: Iterable[Mapping[str, Any]],
    isolation: IsolationLevel,
    at: datetime,
    offset: int | None = None,
    marks: Mapping[tuple[int, int], LogSeen] = MappingProxyType({}),
) -> list[Sight]:
    """Return for each replica what a consumer of it had been given by a time: the record at an offset, or of a key.

    Of a key it is the newest record.

    Args:
        rows: the view's rows about the key or the offset, and all its rows of kind POSITION, which say how far a
            replica's log had been read. All are in the order in which they were recorded (`parallax.views.shown`).
        isolation: the isolation level of the consumer, and of the view.
        at: the time, UTC.
        offset: the offset; None if the rows are of a key.
        marks: by partition and broker, where the log began and ended at that time, from the table of progress. A view
            does not say it for a reader that did not move, because such a reader records nothing.

    Returns:
        One `Sight` for each replica that has rows, in the order of partition and broker.
    """
    readers: dict[tuple[int, int], _Reader] = {}
    for row in rows:
        readers.setdefault((int(row["partition"]), int(row["broker"])), _Reader()).take(row, at)
    return [_sight(place, reader, isolation, offset, marks.get(place)) for place, reader in sorted(readers.items())]


def _sight(
    place: tuple[int, int], reader: _Reader, isolation: IsolationLevel, offset: int | None, said: LogSeen | None
) -> Sight:
    last = reader.last
    if last is None:
        return Sight(*place, What.UNKNOWN, "nothing that was read by then is in the views")
    marks = (
        said
        if said is not None and said.at > last["timestamp"]
        else LogSeen.of_row(last["timestamp"], last["position"])
    )
    if last["position"]["event"] in _BEGINS:
        reader.note(marks)
    to, is_committed = int(last["offset"]), isolation is IsolationLevel.READ_COMMITTED
    held_back = f"it was held back at the last stable offset {marks.last_stable}"
    if not (is_committed and UNKNOWN < marks.last_stable <= to and marks.last_stable < marks.high_watermark):
        held_back = ""
    if offset is None:
        what, why, row = _of_key(reader, isolation, held_back)
    else:
        what, why, row = _at(reader, marks, isolation, offset, held_back)
    return Sight(*place, what, why, row, to, last["timestamp"])


_Found = tuple[What, str, Row | None]


def _of_key(reader: _Reader, isolation: IsolationLevel, held_back: str) -> _Found:
    visible = [row for row in reader.shown if _is_given(row, isolation)]
    newest = max(visible, key=lambda row: int(row["offset"]), default=None)
    if newest is not None and newest["offset"] >= reader.begin:
        return _shown(newest)
    if newest is not None:
        text = f"a newer record of the key than that at offset {newest['offset']} may be missing: the views hold "
        return What.UNKNOWN, f"{text}all {_from(reader)}", None
    if reader.begin <= reader.log_start:
        return What.NOTHING, "; ".join(filter(None, ["no record of the key was shown", held_back])), None
    return What.UNKNOWN, f"the views hold no record of the key, and only {_from(reader)}", None


def _at(reader: _Reader, marks: LogSeen, isolation: IsolationLevel, offset: int, held_back: str) -> _Found:
    found = next((row for row in reversed(reader.shown) if row["offset"] == offset), None)
    if found is not None and _is_given(found, isolation):
        return _shown(found)
    if found is not None:
        return What.NOTHING, _not_given(found), None
    to = UNKNOWN if reader.last is None else int(reader.last["offset"])
    # What was not read yet was not shown either: there the newest log start counts.
    if offset < (log_start := marks.log_start if offset >= to else reader.log_start):
        return What.NOTHING, f"the log began at offset {log_start}", None
    if offset < reader.begin:
        return What.UNKNOWN, f"the views hold only {_from(reader)}", None
    if offset < to:
        return What.NOTHING, "the replica held no record there when it was read", None
    if UNKNOWN < marks.high_watermark <= offset:
        return What.NOTHING, f"the replica showed nothing from offset {marks.high_watermark} on", None
    return (What.NOTHING, held_back, None) if held_back else (What.UNKNOWN, f"it was read up to offset {to} only", None)


def _from(reader: _Reader) -> str:
    why = " (storage.record: blocks keeps no rows below in which all replicas agreed)" if reader.is_not_kept else ""
    return f"what was read from offset {reader.begin}{why}"


def _is_given(row: Mapping[str, Any], isolation: IsolationLevel) -> bool:
    """Whether a consumer gets it."""
    if row["kind"] != RowKind.RECORD:
        return False
    return isolation is IsolationLevel.READ_UNCOMMITTED or row["outcome"] in (Outcome.NONE, Outcome.COMMITTED)


def _not_given(row: Mapping[str, Any]) -> str:
    kind = RowKind(row["kind"])
    if kind is RowKind.RECORD:
        return "a record whose transaction this replica shows as aborted"
    return {RowKind.COMMIT: "a COMMIT marker", RowKind.ABORT: "an ABORT marker"}.get(kind, "no record is left there")


def _shown(row: Mapping[str, Any]) -> _Found:
    found = Row(
        offset=int(row["offset"]),
        written=row["timestamp"],
        leader_epoch=int(row["leader_epoch"]),
        outcome=Outcome(row["outcome"]),
        content=f"{int(row['content_hash']) & (1 << 64) - 1:016x}",
        key_size=int(row["key_size"]),
        value_size=int(row["value_size"]),
    )
    return found.what, "", found


def document(one: Sight) -> dict[str, Any]:
    """Return as a JSON-able dict what a consumer of a replica had been given."""
    row = one.row
    return {
        "partition": one.partition,
        "broker": one.broker,
        "saw": str(one.what),
        "why": one.why,
        "record": None
        if row is None
        else {
            "offset": row.offset,
            "timestamp": row.written.isoformat(),
            "leader_epoch": row.leader_epoch,
            "outcome": row.outcome.name.lower(),
            "content_hash": row.content,
            "key_size": row.key_size,
            "value_size": row.value_size,
        },
        "read_up_to": one.read_to,
        "read_at": None if one.read_at is None else one.read_at.isoformat(),
    }


def in_words(one: Sight) -> str:
    """Return as one line for people what a consumer of a replica had been given."""
    read = f" (read up to offset {one.read_to} at {utc_text(one.read_at)})" if one.read_at is not None else ""
    return f"broker {one.broker}: {saw(one)}{read}"


def saw(one: Sight) -> str:
    """Return as a phrase what a consumer had been given; equal phrases mean the same record or reason."""
    row = one.row
    if row is None:
        return f"not known: {one.why}" if one.what is What.UNKNOWN else f"nothing: {one.why}"
    return f"{_named(row)} at offset {row.offset}, written {utc_text(row.written)}"


def _named(row: Row) -> str:
    if row.what is What.TOMBSTONE:
        return "a tombstone"
    without_key = ", without a key" if row.key_size < 0 else ""
    if row.value_size < 0:
        return f"a record without a value{without_key}"
    return f"a value of {counted(row.value_size, 'byte')} (content {row.content}){without_key}"


__all__ = ["LogSeen", "Row", "Sight", "What", "document", "in_words", "saw", "sights"]
