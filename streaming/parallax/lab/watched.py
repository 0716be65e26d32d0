"""Finds out what a running job has recorded of a lab's replicas.

A scenario that a job watches uses it, so that brokers clean no record before the job has recorded it.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from parallax.lab.errors import LabError
from parallax.lab.scenarios.conductor import AwaitObserved
from parallax.lab.waiting import until
from parallax.model import IsolationLevel, RowKind
from parallax.views.positions import open_table

_PATIENCE_S = 300.0


def recorded_by(storage: str, patience_s: float = _PATIENCE_S) -> AwaitObserved:
    """A function that waits until a job has recorded what a replica shows up to an offset, that offset included.

    Args:
        storage: ``storage.path`` of the job.
        patience_s: how long to wait for one offset, in seconds.

    Returns:
        The function, called with topic, offset and broker id. It raises `LabError` if the job has not recorded the
        offset within ``patience_s``.
    """

    def await_observed(topic: str, offset: int, broker: int) -> None:
        what = f"the job on {storage} to record {topic} of broker {broker} up to offset {offset}"
        try:
            until(lambda: has_recorded(storage, topic, broker, offset), what, timeout=patience_s, interval=0.2)
        except LabError as error:
            raise LabError(f"{error}; start it with `parallax run`, and see that it watches this topic") from None

    return await_observed


def has_recorded(storage: str, topic: str, broker: int, offset: int) -> bool:
    """Whether a job has recorded a replica of partition 0 up to an offset, in both views (isolation levels).

    In read_committed it is enough to have recorded it up to the replica's last stable offset.

    Args:
        storage: ``storage.path`` of the job.
        topic: name of the topic.
        broker: id of the replica's broker.
        offset: the offset; it must have been recorded as well.
    """
    uncommitted = last_position(storage, IsolationLevel.READ_UNCOMMITTED, topic, broker)
    if uncommitted is None or uncommitted["offset"] <= offset:
        return False
    stable = min(uncommitted["position"]["last_stable_offset"], offset + 1)
    committed = last_position(storage, IsolationLevel.READ_COMMITTED, topic, broker)
    return stable == 0 or (committed is not None and committed["offset"] >= stable)


def last_position(storage: str, isolation: IsolationLevel, topic: str, broker: int) -> dict[str, Any] | None:
    """The newest position that a job has recorded of a replica of partition 0 in a view; None if there is none.

    Args:
        storage: ``storage.path`` of the job.
        isolation: the isolation level of the view.
        topic: name of the topic.
        broker: id of the replica's broker.

    Returns:
        Columns of the view by name: ``offset``, up to which the replica was read; ``timestamp``; and ``position``, with
            what the replica said then (`RowKind.POSITION`).
    """
    try:
        dataset = open_table(storage, isolation.option).to_pyarrow_dataset()
    except (DeltaError, OSError):  # the job has not made the table yet
        return None
    wanted = (pc.field("kind") == int(RowKind.POSITION)) & (pc.field("topic") == topic)
    wanted &= (pc.field("broker") == broker) & (pc.field("partition") == 0)
    rows = dataset.to_table(columns=["offset", "position", "timestamp"], filter=wanted)
    return max(rows.to_pylist(), key=lambda row: (row["timestamp"], row["offset"]), default=None)


__all__ = ["has_recorded", "last_position", "recorded_by"]
