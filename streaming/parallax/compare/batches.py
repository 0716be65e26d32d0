"""Turns Arrow batches, as read from the tables, into the columns that the comparison works on. Knows no Spark."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parallax.compare.gathered import Gathered
from parallax.compare.observations import (
    EVENTS,
    Array,
    OpenTransactions,
    ProgressRows,
    ReplicaSets,
    ViewRows,
    topic_id_code,
)
from parallax.model import UNKNOWN, TopicPartition

VIEW_COLUMNS = (
    "topic",
    "partition",
    "view",
    "broker",
    "kind",
    "offset",
    "timestamp",
    "producer_id",
    "producer_epoch",
    "outcome",
    "key_hash_hi",
    "key_hash_lo",
    "content_hash",
    "content_version",
    "key_size",
    "value_size",
    "high_watermark",
    "last_stable_offset",
    "log_start_offset",
    "event",
    "topic_id",
    "leader_epoch",
)
"""The columns that `view_observations` needs: ``timestamp`` in milliseconds, each field of ``position`` as a column."""

OF_POSITION = ("high_watermark", "last_stable_offset", "log_start_offset", "event", "topic_id")
"""The columns that the tables have as fields of ``position``."""

PROGRESS_COLUMNS = (
    "topic",
    "partition",
    "broker",
    "observed_at",
    "reachable",
    "high_watermark",
    "last_stable_offset",
    "log_start_offset",
    "log_end_offset",
    "leader",
    "replicas",
    "open_transactions",
    "cleanup_policy",
    "policy_at",
    "delete_retention_ms",
)
"""The columns that `progress_observations` needs; ``observed_at`` and ``policy_at`` are in milliseconds."""


def view_observations(batch: Any) -> Gathered:
    """The rows of a view's Arrow batch as observations; rows of one partition keep their order.

    Args:
        batch: an Arrow batch with the columns `VIEW_COLUMNS`; it may hold rows of several partitions.
    """
    places, of = _places(batch)
    rows = ViewRows.of({name: _view_column(batch, name) for name in ViewRows.dtypes()}, batch.num_rows)
    none = np.empty(0, np.int64)
    tables = (rows, ProgressRows.none(), OpenTransactions.none(), ReplicaSets.none())
    return Gathered(places, tables, (of, none, none, none))


def _places(batch: Any) -> tuple[list[TopicPartition], Array]:
    """The partitions in a batch, and the index of each row's; rows of one partition mostly come side by side."""
    topics: Any = pc.dictionary_encode(batch.column("topic"))
    code = topics.indices.to_numpy().astype(np.int64) << 32 | batch.column("partition").to_numpy()
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(code)), np.bool_), code[1:] != code[:-1]]))
    found, of_run = np.unique(code[starts], return_inverse=True)
    names = topics.dictionary.to_pylist()
    places = [TopicPartition(names[one >> 32], one & 0xFFFF_FFFF) for one in found.tolist()]
    return places, np.repeat(of_run, np.diff(starts, append=len(code)))


def _view_column(batch: Any, name: str) -> Array:
    column = batch.column(name)
    if name == "event":
        codes = pc.index_in(column, pa.array([str(event) for event in EVENTS], pa.string()))
        return _numbers(codes, 0)
    if name == "topic_id":
        encoded: Any = pc.dictionary_encode(column)
        known = np.array([topic_id_code(t) for t in encoded.dictionary.to_pylist()] or [0], np.int64)
        return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), 0, known[_numbers(encoded.indices, 0)])
    if name == "content_version":
        return _numbers(column, 1)
    default = UNKNOWN if name in ("high_watermark", "last_stable_offset", "log_start_offset") else 0
    return _numbers(column, default)


def _numbers(column: Any, default: int) -> Array:
    filled = column.fill_null(default) if column.null_count else column
    return filled.to_numpy(zero_copy_only=False)


def progress_observations(batch: Any, read: Collection[int] | None = None) -> Gathered:
    """The rows of an Arrow batch of ``replica_progress`` as observations.

    The lists in them, of open transactions and of replicas, become rows of their own.

    Args:
        batch: an Arrow batch with the columns `PROGRESS_COLUMNS`; it may hold rows of several partitions.
        read: ids of the brokers that Parallax reads (``topics.brokers``); replicas on other brokers are not waited for.
            None for all brokers.
    """
    places, of = _places(batch)
    progress, (opened, opened_by), (sets, told_by) = _progress(batch)
    if read is not None:
        mine = np.flatnonzero(np.isin(sets.broker, list(read)))
        sets, told_by = sets.take(mine), told_by[mine]
    tables = (ViewRows.none(), progress, opened, sets)
    return Gathered(places, tables, (np.empty(0, np.int64), of, of[opened_by], of[told_by]))


def _progress(batch: Any) -> tuple[ProgressRows, tuple[OpenTransactions, Array], tuple[ReplicaSets, Array]]:
    """The rows of progress, and their lists flattened, each with the index of the row that it was in."""
    broker, observed = _numbers(batch.column("broker"), UNKNOWN), _numbers(batch.column("observed_at"), 0)
    columns = {
        name: _numbers(batch.column(name), UNKNOWN)
        for name in ("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset", "leader")
    }
    reachable = batch.column("reachable").fill_null(False).to_numpy(zero_copy_only=False)
    described = batch.column("open_transactions").is_valid().to_numpy(zero_copy_only=False)
    policy = batch.column("cleanup_policy")
    compacted = _numbers(pc.cast(pc.match_substring(policy, "compact"), pa.int8()), UNKNOWN)
    deletes = _numbers(pc.cast(pc.match_substring(policy, "delete"), pa.int8()), UNKNOWN)
    policy_at = _numbers(batch.column("policy_at"), UNKNOWN)
    replicas = batch.column("replicas")
    at = pc.list_parent_indices(replicas).to_numpy()
    opened = batch.column("open_transactions")
    of = pc.list_parent_indices(opened).to_numpy()
    listed: Any = pc.list_flatten(opened)
    progress = ProgressRows.of(
        {
            "broker": broker,
            "observed_at": observed,
            "reachable": reachable,
            "described": described,
            "compacted": compacted,
            "policy_at": policy_at,
            "deletes": deletes,
            "retention_ms": _numbers(batch.column("delete_retention_ms"), UNKNOWN),
            **columns,
        }
    )
    transactions = OpenTransactions.of(
        {
            "broker": broker[of],
            "observed_at": observed[of],
            "producer_id": _numbers(listed.field("producer_id"), UNKNOWN),
            "start_offset": _numbers(listed.field("start_offset"), UNKNOWN),
        }
    )
    sets = ReplicaSets.of({"observed_at": observed[at], "broker": _numbers(pc.list_flatten(replicas), UNKNOWN)})
    return progress, (transactions, of), (sets, at)
