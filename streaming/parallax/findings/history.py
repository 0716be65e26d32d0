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
from deltalake.exceptions import DeltaError

from parallax.findings.keys import Key, KeyHistory
from parallax.findings.table import table_uri
from parallax.model import IsolationLevel, Outcome, RowKind

log = structlog.get_logger(__name__)

_COLUMNS = ["broker", "offset", "key_hash_hi", "key_hash_lo"]


class RecordedHistory:
    """Looks keys up in the table ``read_committed``; one query for all keys of a probe.

    Args:
        storage: ``storage.path`` of the settings.
    """

    def __init__(self, storage: str) -> None:
        self._uri = table_uri(storage, IsolationLevel.READ_COMMITTED.option)

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


def _by_replica_and_key(rows: pa.Table, keys: set[Key]) -> dict[tuple[int, Key], list[int]]:
    found: dict[tuple[int, Key], list[int]] = {}
    newest_first = rows.sort_by([("offset", "descending")])
    for broker, offset, high, low in zip(*(newest_first[name].to_pylist() for name in _COLUMNS), strict=True):
        if (high, low) in keys:
            offsets = found.setdefault((broker, (high, low)), [])
            if offset not in offsets[-1:]:
                offsets.append(offset)
    return found
