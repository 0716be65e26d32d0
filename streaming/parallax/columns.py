"""Delta tables as this package defines them: name, type and meaning of each column, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        name: its name in the table.
        type: its Arrow type.
        meaning: a text for people, with unit and example where there are some. It goes into the reference, not the
            table.
    """

    name: str
    type: Any
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table below ``storage.path``.

    Attributes:
        name: its folder.
        holds: what one row is, and how rows change; for people.
        columns: its columns in order.
    """

    name: str
    holds: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> Any:
        """The table's columns as an Arrow schema."""
        return pa.schema([(column.name, column.type) for column in self.columns])


__all__ = ["Column", "Table"]
