"""Where the views recorded a key: offsets to ask a replica for again when its log is too long to be read whole.

The recorded table is a hint about where to look, never the evidence itself. It is read with delta-rs, which prunes by
broker and by the files' statistics and does not queue behind the streaming queries' micro-batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from parallax.findings.keys import Key, KeyHistory
from parallax.findings.requests import Recreated, Transaction, TransactionRecords
from parallax.findings.table import table_uri
from parallax.model import IsolationLevel, Outcome, ReadEvent, RowKind

log = structlog.get_logger(__name__)

_ANOTHER_LOG = (ReadEvent.LOG_TRUNCATED, ReadEvent.NOT_HOSTED)
_KEY = ["key_hash_hi", "key_hash_lo"]
_COLUMNS = ["broker", "offset", *_KEY]


class RecordedHistory:
    """Looks keys up in the table ``read_committed``; one query for all keys of a probe.

    Args:
        storage: ``storage.path`` of the settings.
    """

    def __init__(self, storage: str) -> None:
        self._uri = table_uri(storage, IsolationLevel.READ_COMMITTED.option)
        self._uncommitted_uri = table_uri(storage, IsolationLevel.READ_UNCOMMITTED.option)

    def __call__(self, topic: str, partition: int, brokers: Sequence[int], keys: Sequence[Key]) -> KeyHistory:
        """Offsets at which each replica was recorded to show a record of each key, newest first.

        A table that cannot be read yields an empty history: the probe then reads the logs, or stays undecided.
        """
        wanted = (
            (pc.field("topic") == topic)
            & (pc.field("partition") == partition)
            & pc.field("broker").isin(list(brokers))
            & (pc.field("kind") == int(RowKind.RECORD))
            & (pc.field("outcome") != int(Outcome.ABORTED))
            & pc.field("key_hash_lo").isin([low for _, low in keys])
        )
        try:
            rows = DeltaTable(self._uri).to_pyarrow_dataset().to_table(columns=_COLUMNS, filter=wanted)
        except (DeltaError, OSError, pa.ArrowException) as error:
            log.warning("recorded history cannot be read", table=self._uri, error=" ".join(str(error).split()))
            return KeyHistory()
        return KeyHistory(_by_replica_and_key(rows, set(keys)))

    def transaction(self, question: Transaction) -> TransactionRecords:
        """The records of a transaction that any replica was recorded to show, of each key the last one.

        A table that is not there knows of none; one that cannot be read yields an error, for then nobody knows.
        """
        wanted = (
            (pc.field("topic") == question.topic)
            & (pc.field("partition") == question.partition)
            & (pc.field("kind") == int(RowKind.RECORD))
            & (pc.field("producer_id") == question.producer_id)
            & (pc.field("offset") >= question.start)
            & (pc.field("offset") < question.end)
            & (pc.field("key_size") >= 0)
        )
        columns = ["offset", *_KEY]
        try:
            rows = DeltaTable(self._uncommitted_uri).to_pyarrow_dataset().to_table(columns=columns, filter=wanted)
        except TableNotFoundError:
            return TransactionRecords()
        except (DeltaError, OSError, pa.ArrowException) as error:
            said = " ".join(str(error).split())
            log.warning("recorded transactions cannot be read", table=self._uncommitted_uri, error=said)
            return TransactionRecords(error=said)
        last = rows.group_by(_KEY).aggregate([("offset", "max")]).sort_by("offset_max")
        few = last.slice(0, question.limit)
        found = zip(*(few[name].to_pylist() for name in ("offset_max", *_KEY)), strict=True)
        records = tuple((offset, (high, low)) for offset, high, low in found)
        return TransactionRecords(records, last.num_rows - few.num_rows)

    def was_recreated(self, question: Recreated) -> bool:
        """Whether a reader of the replica noticed since a time that its log fell back, or that there was none.

        Where the table does not say, it is not known to have been: False.
        """
        wanted = (
            (pc.field("topic") == question.topic)
            & (pc.field("partition") == question.partition)
            & (pc.field("broker") == question.broker)
            & (pc.field("kind") == int(RowKind.POSITION))
            & (pc.field("timestamp") >= pa.scalar(question.since_ms * 1000, pa.timestamp("us", tz="UTC")))
            & pc.field("position", "event").isin([str(event) for event in _ANOTHER_LOG])
        )
        try:
            dataset = DeltaTable(self._uncommitted_uri).to_pyarrow_dataset()
            return bool(dataset.count_rows(filter=wanted))
        except (DeltaError, OSError, pa.ArrowException) as error:
            log.warning("recorded positions cannot be read", table=self._uncommitted_uri, error=str(error))
            return False


def _by_replica_and_key(rows: pa.Table, keys: set[Key]) -> dict[tuple[int, Key], list[int]]:
    found: dict[tuple[int, Key], list[int]] = {}
    newest_first = rows.sort_by([("offset", "descending")])
    for broker, offset, high, low in zip(*(newest_first[name].to_pylist() for name in _COLUMNS), strict=True):
        if (high, low) in keys:
            offsets = found.setdefault((broker, (high, low)), [])
            if offset not in offsets[-1:]:
                offsets.append(offset)
    return found
