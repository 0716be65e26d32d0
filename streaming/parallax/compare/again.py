"""Reads withheld rows from the views once more, when they have to be compared row by row.

While a replica is absent, rows of the others stay in the views, and the state keeps only their sums. If these sums
differ from the absent replica's later, only the rows can show which records differ. `parallax.compare.withheld` decides
when rows are read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from parallax.compare.following import runs
from parallax.compare.footers import Span
from parallax.compare.observations import POSITION, ViewRows
from parallax.compare.recorded import observed
from parallax.compare.withheld import Places, Views
from parallax.model import TopicPartition
from parallax.views.commits import DataFile, TableLog
from parallax.views.tables import VIEWS


class Again:
    """Opens the views as they were at the end of one micro-batch, to read withheld rows again; one per Spark task.

    A table is opened when its rows are first needed.

    Args:
        storage: folder or URI of the tables (``storage.path``).
        until_ms: the time of the last commit in the micro-batch (`parallax.views.order`); later rows are not read.
        hash_key: the 16 secret bytes with which the views' keys and contents are hashed.
    """

    def __init__(self, storage: str, until_ms: int, hash_key: bytes = bytes(16)) -> None:
        self._until_ms, self._hash_key = until_ms, hash_key
        self._logs = {name: TableLog(storage, name) for name in VIEWS}
        self._files: dict[tuple[str, Places], list[DataFile]] = {}

    def views(self, place: TopicPartition) -> Views:
        """What reads one partition's withheld rows again, for `parallax.compare.withheld.compare`.

        Args:
            place: the partition.
        """
        return Views(self._until_ms, partial(self._rows, place), self._hash_key)

    def _rows(self, place: TopicPartition, places: Places, start: int, end: int) -> ViewRows:
        """See `parallax.compare.withheld.Rows`.

        Raises:
            deltalake.exceptions.DeltaError: a table cannot be read.
            OSError: a file cannot be read, or upkeep has removed it since.
        """
        found = [rows for name in VIEWS for rows in self._of_view(name, place, places, (start, end))]
        return ViewRows.concat(found)

    def _of_view(self, name: str, place: TopicPartition, places: Places, span: Span) -> Iterator[ViewRows]:
        def wanted(topic: str, partition: int) -> bool:
            return place == (topic, partition)

        for file in self._recorded(name, places):
            for part in observed(self._logs[name].files, name, file, wanted, span=span):
                for one in part.each():
                    rows = one.rows
                    inside = (rows.kind != POSITION) & (rows.offset >= span[0]) & (rows.offset < span[1])
                    yield rows.take(np.flatnonzero(inside))

    def _recorded(self, name: str, places: Places) -> list[DataFile]:
        key = name, places
        if key not in self._files:
            parts = self._logs[name].recorded(*places)
            self._files[key] = runs(file for part in parts for file in part.files)
        return self._files[key]


__all__ = ["Again"]
