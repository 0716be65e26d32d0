"""Finds the offsets of keys in the replicas' logs from the views' tables, so that probes read only there.

The tables say where to look, and never what is there now. They are read with delta-rs, which prunes by broker and file
statistics. So a look-up does not wait for the micro-batches of the streaming queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from parallax.errors import one_line
from parallax.findings.keys import Key
from parallax.findings.pointing import Known
from parallax.findings.recorded import COLUMNS, records_of, rows_within
from parallax.findings.requests import RecordedTransactions, Recreated, TransactionRecords
from parallax.findings.table import table_uri
from parallax.model import GAPS, IsolationLevel, ReadEvent, RowKind, TopicPartition
from parallax.moments import from_milliseconds
from parallax.views.positions import gaps
from parallax.views.shared import rows_of, table_of
from parallax.views.sql import literal, of_partition

log = structlog.get_logger(__name__)

_WHAT = "suspects are decided by what the brokers still hold; it is tried again with the next one"

_ANOTHER_LOG = (ReadEvent.LOG_TRUNCATED, ReadEvent.NOT_HOSTED)
_KEY = ["key_hash_hi", "key_hash_lo"]
_COLUMNS = ["broker", "offset", *_KEY]
_PLACE = ("topic", "partition", "kind")
_POSITION: Any = {
    **{name: pc.field(name) for name in ("broker", "offset", "timestamp", "leader_epoch")},
    "event": pc.field("position", "event"),
}
_RESTARTS = frozenset(
    {
        *_ANOTHER_LOG,
        ReadEvent.TOPIC_RECREATED,
        ReadEvent.TOPIC_DELETED,
        ReadEvent.PARTITION_ADDED,
        ReadEvent.LOG_START_ADVANCED,
        *GAPS,
    }
)
"""Events after which a reading does not join what was read before, or is of another log."""


@dataclass(frozen=True, slots=True)
class ReadLog:
    """The range of offsets of one replica's log that a view has read without a gap.

    Attributes:
        start: the first offset.
        end: the offset after the last one.
        epoch: leader epoch of the last batch below ``end``; -1 if it is not known.
    """

    start: int
    end: int
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """At which offsets keys lie on the replicas of one partition, as far as a view has read.

    Attributes:
        logs: by broker id, the range of its replica's log that was read.
        offsets: by broker id and key, the offsets of the key's records that the read_committed view has, newest first;
            records of aborted transactions are included.
    """

    logs: Mapping[int, ReadLog] = field(default_factory=dict)
    offsets: Mapping[tuple[int, Key], Sequence[int]] = field(default_factory=dict)

    def of(self, broker: int, key: Key) -> Known:
        """Return at which offsets the broker's replica has records of the key, and which range of its log was read.

        `Known.foreign` has the offsets at which only other replicas were recorded to have the key. If nothing of the
        replica was read, the result is empty.
        """
        log = self.logs.get(broker)
        if log is None:
            return Known()
        own = self.offsets.get((broker, key), ())
        others = {o for (b, k), found in self.offsets.items() if k == key and b != broker for o in found}
        return Known(log.start, log.end, tuple(own), tuple(sorted(others.difference(own), reverse=True)))

    def of_current_log(self, broker: int, holds: Callable[[int, int], bool]) -> KeyHistory:
        """Return what was recorded of the log that a replica has now; nothing if the view has read another log.

        A log may be replaced below its reader's position. The reader notices that only when it reads on.

        Args:
            broker: the broker of the replica.
            holds: asks the replica whether its log is still the one that was read. It takes the offset up to which the
                log was read, and the leader epoch below it.
        """
        log = self.logs.get(broker)
        return self if log is not None and log.epoch >= 0 and holds(log.end, log.epoch) else KeyHistory()


HistoryLookup = Callable[[str, int, Sequence[Key]], KeyHistory]
"""Takes topic, partition and keys, and returns what was recorded of them; `RecordedHistory` is one."""


class RecordedHistory:
    """Looks keys and transactions up in the tables of the views.

    One query answers for all keys of a probe.

    Args:
        storage: ``storage.path`` of the settings.
    """

    def __init__(self, storage: str) -> None:
        self._uri = table_uri(storage, IsolationLevel.READ_COMMITTED.option)
        self._uncommitted_uri = table_uri(storage, IsolationLevel.READ_UNCOMMITTED.option)

    def __call__(self, topic: str, partition: int, keys: Sequence[Key]) -> KeyHistory:
        """Return what was read of each replica, and the offsets at which it showed a record of each key.

        A table that cannot be read gives an empty history: the probe then reads the logs.
        """
        of_it = of_partition(TopicPartition(topic, partition))
        place = (pc.field("topic") == topic) & (pc.field("partition") == partition)
        rows = place & (pc.field("kind") == int(RowKind.RECORD))
        rows &= pc.field("key_hash_lo").isin([low for _, low in keys])
        try:
            # One snapshot for both reads: what retention drops later is in both, or in neither.
            table = DeltaTable(self._uri)
            is_position = place & (pc.field("kind") == int(RowKind.POSITION))
            positions = table.to_pyarrow_dataset(file_pruning_predicate=of_it).to_table(_POSITION, filter=is_position)
            found = table_of(self._uri, table, _COLUMNS, rows, _PLACE, files=of_it)
        except TableNotFoundError:
            return KeyHistory()
        except (DeltaError, OSError, pa.ArrowException) as error:
            log.warning("recorded history cannot be read", table=self._uri, error=one_line(error), what=_WHAT)
            return KeyHistory()
        read = read_logs(_in_order(positions, "broker", "offset", "event", "leader_epoch"))
        return KeyHistory(read, _by_replica_and_key(found, set(keys)))

    def transactions(self, question: RecordedTransactions) -> list[TransactionRecords]:
        """For each transaction of a question, return the newest record of each key that it wrote, by the views.

        The results are in the order of ``question.of``. Without a table, they have no records. If the table cannot be
        read, each result says why, because its records are then unknown. A result also says if some recorded rows of
        its transaction are no longer kept.
        """
        of = question.of
        of_it = of_partition(TopicPartition(question.topic, question.partition))
        start, end = min(one.start for one in of), max(one.end for one in of)
        place = (pc.field("topic") == question.topic) & (pc.field("partition") == question.partition)
        wanted = (
            place
            & (pc.field("kind") == int(RowKind.RECORD))
            & pc.field("producer_id").isin(sorted({one.producer_id for one in of}))
            & (pc.field("offset") >= start)
            & (pc.field("offset") < end)
            & (pc.field("key_size") >= 0)
        )
        positions = place & (pc.field("kind") == int(RowKind.POSITION))
        try:
            # One snapshot for both reads: what retention drops later is in both, or in neither.
            table = DeltaTable(self._uncommitted_uri)
            near = f'{of_it} AND {start} <= "offset" AND "offset" < {end}'
            reads = (*_PLACE, "key_size")
            rows = rows_within(rows_of(self._uncommitted_uri, table, COLUMNS, wanted, reads, files=near), of)
            read = table.to_pyarrow_dataset(file_pruning_predicate=of_it).to_table(_POSITION, filter=positions)
        except TableNotFoundError:
            return [TransactionRecords() for _ in of]
        except (DeltaError, OSError, pa.ArrowException) as error:
            said = one_line(error)
            log.warning("recorded transactions cannot be read", table=self._uncommitted_uri, error=said, what=_WHAT)
            return [TransactionRecords(error=said) for _ in of]
        spans: Any = read.group_by("broker").aggregate([("offset", "min"), ("offset", "max")])
        names = ("broker", "offset_min", "offset_max")
        left = {b: (first, last) for b, first, last in zip(*(spans[n].to_pylist() for n in names), strict=True)}
        missing = gaps(_in_order(read, "broker", "offset", "event"))
        return [records_of(one, rows, left, missing) for one in of]

    def was_recreated(self, question: Recreated) -> bool:
        """Whether a replica's reader has noticed a truncation, or that the broker held no replica, since a given time.

        Then another log may have replaced the one that was read. False if the table cannot be read.
        """
        since = from_milliseconds(question.since_ms)
        wanted = (
            (pc.field("topic") == question.topic)
            & (pc.field("partition") == question.partition)
            & (pc.field("broker") == question.broker)
            & (pc.field("kind") == int(RowKind.POSITION))
            & (pc.field("timestamp") >= pa.scalar(since, pa.timestamp("us", tz="UTC")))
            & pc.field("position", "event").isin([str(event) for event in _ANOTHER_LOG])
        )
        try:
            of_it = of_partition(TopicPartition(question.topic, question.partition))
            late = f'{of_it} AND broker = {int(question.broker)} AND "timestamp" >= {literal(since)}'
            dataset = DeltaTable(self._uncommitted_uri).to_pyarrow_dataset(file_pruning_predicate=late)
            return bool(dataset.count_rows(filter=wanted))
        except TableNotFoundError:
            return False
        except (DeltaError, OSError, pa.ArrowException) as error:
            log.warning(
                "recorded positions cannot be read", table=self._uncommitted_uri, error=one_line(error), what=_WHAT
            )
            return False


def _in_order(positions: Any, *names: str) -> Iterable[Any]:
    """Return some columns of rows that report a reader's position, row by row in the order of time."""
    rows = positions.sort_by([("timestamp", "ascending"), ("offset", "ascending")])
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def read_logs(positions: Iterable[tuple[int, int, str, int]]) -> dict[int, ReadLog]:
    """Return by broker id the range of its replica's log that a view has read without a gap.

    The range begins at the first position that is in the table. Nothing is missing behind it, since retention drops
    whole dates, records and positions together. After an event that restarts the reading, the range begins there. So it
    does where the reader went on without knowing the leader epoch: then nobody checked that the log was still the same.

    Args:
        positions: broker id, offset, event and leader epoch of each row that reports a reader's position, in the order
            of time.
    """
    found: dict[int, ReadLog] = {}
    for broker, offset, event, epoch in positions:
        known = found.get(broker)
        if known is None or event in _RESTARTS:
            found[broker] = ReadLog(offset, offset, epoch)
        elif offset > known.end:
            found[broker] = ReadLog(known.start if known.epoch >= 0 else known.end, offset, epoch)
        elif offset == known.end:
            found[broker] = replace(known, epoch=max(known.epoch, epoch))
    return found


def _by_replica_and_key(rows: pa.Table, keys: set[Key]) -> dict[tuple[int, Key], list[int]]:
    found: dict[tuple[int, Key], list[int]] = {}
    newest_first = rows.sort_by([("offset", "descending")])
    for broker, offset, high, low in zip(*(newest_first[name].to_pylist() for name in _COLUMNS), strict=True):
        if (high, low) in keys:
            offsets = found.setdefault((broker, (high, low)), [])
            if offset not in offsets[-1:]:
                offsets.append(offset)
    return found
