"""What three replicas of a partition answer that are asked about a suspect."""

from __future__ import annotations

from typing import Any

from parallax.findings.answers import Answers, KeyShown, MarkerShown, OpenTransaction, RecordShown, ReplicaAnswer
from parallax.model import UNKNOWN

PRODUCER = 7
OPEN = (OpenTransaction(producer_id=PRODUCER, start_offset=10),)


def replica(broker: int, end: int = 100, **fields: Any) -> ReplicaAnswer:
    """One that holds all offsets up to an end, and no transaction open."""
    base = {"high_watermark": end, "last_stable_offset": end, "log_start_offset": 0, "log_end_offset": end}
    return ReplicaAnswer(broker, **(base | {"open_transactions": ()} | fields))


def silent(broker: int) -> ReplicaAnswer:
    """One that does not answer."""
    return ReplicaAnswer(broker, error=f"broker {broker}: no answer within 3000 ms")


def answers(*replicas: ReplicaAnswer, **fields: Any) -> Answers:
    """What all of them answer; broker 1 leads."""
    return Answers({one.broker: one for one in replicas}, **({"leader": 1} | fields))


def record(offset: int = 10, outcome: str = "none", **fields: Any) -> RecordShown:
    """A record of the producer, with a value of five bytes."""
    return RecordShown(offset, outcome, **({"value_size": 5, "producer_id": PRODUCER} | fields))


def marker(offset: int = 20, kind: str = "abort", producer: int = PRODUCER, epoch: int = UNKNOWN) -> MarkerShown:
    """An end marker."""
    return MarkerShown(offset, producer, kind, epoch)


def newest(offset: int, outcome: str = "none", **fields: Any) -> KeyShown:
    """A key whose newest record, of no transaction, lies at an offset and is shown."""
    return KeyShown(record(offset, outcome, **({"producer_id": UNKNOWN} | fields)), True, offset)


NOTHING = KeyShown(None, True)
"""A key of which nothing is shown, and nothing was overlooked."""


def holding(broker: int, outcome: str, **fields: Any) -> ReplicaAnswer:
    """One that holds the record at offset 10, by its outcome."""
    return replica(broker, committed={10: record(outcome=outcome)}, asked=frozenset({10}), **fields)


def shows(broker: int, visible: RecordShown | None, *, complete: bool = True, **fields: Any) -> ReplicaAnswer:
    """One that shows a record as the newest of the key, or none."""
    at = UNKNOWN if visible is None else visible.offset
    return replica(broker, key=KeyShown(visible, complete, at), **fields)
