"""Partitions with lists of aborted transactions."""

from __future__ import annotations

from parallax.model import Outcome, RowKind

from .history import RC, RU, Row, shown

END = 9


def read(broker: int, *rows: Row) -> list[Row]:
    """One replica read to its end in both views; only read_committed sees the list."""
    uncommitted = [row for row in rows if row["kind"] not in (RowKind.LISTED, RowKind.EMPTIED)]
    return shown(RU, broker, uncommitted, END) + shown(RC, broker, rows, END)


def emptied(offset: int, pid: int) -> Row:
    """An end marker of which the cleaner has left an empty batch."""
    return {"kind": RowKind.EMPTIED, "offset": offset, "producer_id": pid, "outcome": Outcome.UNDECIDED, "key_size": -1}
