"""How the Delta tables of Parallax are defined in code: name, type and meaning of every column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        name: the column's name in the table.
        type: its Arrow type.
        meaning: what it holds, for people, with unit and example if there are any. The reference has this text; the
            table itself does not.
    """

    name: str
    type: Any
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """The definition of one table below ``storage.path``.

    Attributes:
        name: the table's name, and that of its folder.
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
