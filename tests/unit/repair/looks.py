"""Looks at partition orders-0, made by hand: broker 2 of three holds a transaction of producer 7 open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parallax.findings.hanging import Prospect, Standing
from parallax.model import Outcome, RowKind, TopicPartition
from parallax.repair.leading import Doubts
from parallax.repair.seen import Log, Look, Replica, Row, Transaction
from parallax.replica.types import ProducerState, Watermarks

PLACE = TopicPartition("orders", 0)
START, MARKER, END = 4, 5, 20
"""Where the transaction starts, where its COMMIT was read, and where the logs end."""
NOW = 1_700_000_000_000
HANGS = Prospect(
    Standing.HANGS, "the coordinator (broker 1) says CompleteCommit of 'x', and will write no end marker here"
)


def record(offset: int, outcome: Outcome = Outcome.UNDECIDED) -> Row:
    return Row(offset, RowKind.RECORD, f"{offset:032x}", f"{offset:016x}", outcome, f"of {offset}")


def end(offset: int, kind: RowKind = RowKind.COMMIT) -> Row:
    return Row(offset, kind, "", "", Outcome.NONE)


def state(open_from: int = -1, epoch: int = 3, coordinator_epoch: int = 1, producer_id: int = 7) -> ProducerState:
    return ProducerState(producer_id, epoch, 0, NOW - 60_000, coordinator_epoch, open_from)


def replica(open_from: int = -1, stable: int = END, log_end: int = END, start: int = 0, **more: Any) -> Replica:
    return Replica(Watermarks(log_end, stable, start, log_end), (state(open_from, **more),))


def held(brokers: Sequence[int] = (2,)) -> dict[int, Replica]:
    """Some hold it open; the others have ended it."""
    return {b: replica(START, START, epoch=2, coordinator_epoch=-1) if b in brokers else replica() for b in (1, 2, 3)}


def logs(**rows: Sequence[Row]) -> dict[int, Log]:
    """Broker 2 has its record; what the others had was cleaned away. Others by ``b1=[...]``."""
    made: dict[int, Sequence[Row]] = {1: (), 2: (record(START),), 3: ()}
    made |= {int(name[1:]): some for name, some in rows.items()}
    return {broker: Log(tuple(some)) for broker, some in made.items()}


def transaction(verdict: Prospect = HANGS, **rows: Sequence[Row]) -> Transaction:
    return Transaction(7, START, verdict, logs(**rows))


def look(replicas: Mapping[int, Replica] | None = None, *transactions: Transaction, **fields: Any) -> Look:
    made = Look(
        NOW,
        "cluster",
        PLACE,
        "id",
        1,
        9,
        (1, 2, 3),
        frozenset({1, 2, 3}),
        replicas or held(),
        transactions or (transaction(),),
        doubts=Doubts(),
    )
    made = replace(made, **fields)
    return made if made.shown else replace(made, shown={broker: {} for broker in made.assigned})


def mended(at: int = END, outcome: Outcome = Outcome.COMMITTED, kind: RowKind = RowKind.COMMIT, **fields: Any) -> Look:
    """After the marker: nothing is open, and every replica shows it."""
    marker = [end(at, kind)]
    one = transaction(b1=marker, b2=[record(START, outcome), *marker], b3=marker)
    return look({b: replica(log_end=at + 1, stable=at + 1) for b in (1, 2, 3)}, one, **fields)
