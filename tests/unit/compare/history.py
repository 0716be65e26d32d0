"""Rows of one partition as its readers would record them, and a comparison that is fed with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from parallax.compare.observations import Observations
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.config import CompareSettings
from parallax.model import IsolationLevel, Outcome, ReadEvent, RowKind

RU, RC = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
SETTINGS = CompareSettings(grace_ms=3000)
BROKERS = (1, 2, 3)

Row = dict[str, Any]


def record(offset: int, key: str | None, value: str | None, **more: Any) -> Row:
    """A record; ``pid`` and ``outcome`` for transactional ones."""
    pid = more.pop("pid", -1)
    return {
        "kind": RowKind.RECORD,
        "offset": offset,
        "timestamp": 1000 + offset,
        "producer_id": pid,
        "producer_epoch": 0 if pid >= 0 else -1,
        "key_hash_hi": 0 if key is None else crc32(key.encode()),
        "key_hash_lo": 0 if key is None else 7,
        "key_size": -1 if key is None else len(key),
        "value_size": -1 if value is None else len(value),
        "content_hash": 0 if value is None else crc32(value.encode()),
        "outcome": Outcome.NONE,
        **more,
    }


def commit(offset: int, pid: int) -> Row:
    return {"kind": RowKind.COMMIT, "offset": offset, "producer_id": pid, "timestamp": 1000 + offset}


def abort(offset: int, pid: int) -> Row:
    return {"kind": RowKind.ABORT, "offset": offset, "producer_id": pid, "timestamp": 1000 + offset}


def shown(view: int, broker: int, rows: Iterable[Row], position: int, at: int = 0, **more: Any) -> list[Row]:
    """What one read of a replica records: rows, then the position row that vouches for them."""
    made = []
    for row in rows:
        outcome = row.get("outcome", 0)
        if view == RU and outcome in (Outcome.COMMITTED, Outcome.ABORTED):
            outcome = Outcome.UNDECIDED
        made.append({**row, "view": view, "broker": broker, "outcome": outcome})
    end = {
        "view": view,
        "broker": broker,
        "kind": RowKind.POSITION,
        "offset": position,
        "timestamp": at,
        "high_watermark": position,
        "last_stable_offset": position,
        "log_start_offset": 0,
        "event": ReadEvent.OK,
    }
    return [*made, {**end, **more}]


def both(broker: int, rows: Sequence[Row], position: int, at: int = 0) -> list[Row]:
    """What a reader of each isolation level records of a replica that has nothing open."""
    committed = [r for r in rows if r["kind"] == RowKind.RECORD]
    return shown(RU, broker, rows, position, at) + shown(RC, broker, committed, position, at)


def tick(at: int, lso: dict[int, int], hw: dict[int, int] | None = None, **more: Any) -> list[Row]:
    """Progress of all replicas; ``open`` maps a broker to its open transactions, ``down`` lists those that are away."""
    opened, down, brokers = more.pop("open", {}), more.pop("down", ()), more.pop("brokers", BROKERS)
    rows = []
    for broker in brokers:
        row: Row = {"broker": broker, "observed_at": at, "reachable": broker not in down}
        if broker not in down:
            stable = lso[broker]
            high = (hw or lso)[broker]
            row |= {
                "high_watermark": high,
                "last_stable_offset": stable,
                "log_start_offset": 0,
                "log_end_offset": high,
                "leader": 1,
                "replicas": brokers,
                "open_transactions": opened.get(broker, ()),
            }
        rows.append(row)
    return rows


def everywhere(offset: int) -> dict[int, int]:
    return dict.fromkeys(BROKERS, offset)


def filler(offset: int) -> Row:
    """A record of a key that no other record has."""
    return record(offset, f"f{offset}", "x")


class Comparison:
    """Steps over batches of rows; its state goes through bytes after each."""

    def __init__(
        self, settings: CompareSettings = SETTINGS, before: PartitionState | None = None, **options: Any
    ) -> None:
        self.state = b"" if before is None else before.to_bytes()
        self.settings = settings
        self.options = options
        self.suspects: list[Any] = []
        self.last: StepResult | None = None

    def feed(self, *batches: Iterable[Row]) -> list[Any]:
        """One micro-batch of all the rows given; returns what it raised."""
        rows = [row for batch in batches for row in batch]
        observed = Observations.of("t", 0, rows)
        state = PartitionState.from_bytes(self.state)
        self.last = step(state, observed, self.settings, 0, **self.options)
        self.state = self.last.state.to_bytes()
        self.suspects += self.last.suspects
        return self.last.suspects

    @property
    def kinds(self) -> list[tuple[str, int]]:
        return [(str(s.kind), s.broker) for s in self.suspects]

    @property
    def findings(self) -> set[tuple[int, str]]:
        """What a finding's id is made of: the accused and the cause."""
        return {(s.broker, s.cause) for s in self.suspects}


def settle(comparison: Comparison, end: int) -> None:
    """Two more ticks: candidates get their horizon, then are judged."""
    comparison.feed(tick(50_000, everywhere(end)))
    comparison.feed(tick(51_000, everywhere(end)))
