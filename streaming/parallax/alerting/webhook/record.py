"""The Delta table ``notifications``: what each receiver has been sent, and what it has still to be sent.

A finding is recorded before the first message about it is tried. That the receiver took the message is recorded
afterwards. If the process dies between the two, the next one sends the message again, with the same key. The table has
one row for each receiver and finding, and one commit replaces all rows. A finding's row is removed once the receiver
has got the message that it is over.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from parallax.alerting.conditions import CONDITIONS
from parallax.alerting.listing import FindingState
from parallax.alerting.webhook.alerts import Alert
from parallax.alerting.webhook.outbox import Told
from parallax.columns import Column, Table
from parallax.errors import one_line
from parallax.model import TopicPartition
from parallax.views.tables import create_replaced, replace_rows, rust_uri, tidy

log = structlog.get_logger(__name__)

NOTIFICATIONS = "notifications"

_TIME: Any = pa.timestamp("us", tz="UTC")
TABLE = Table(
    NOTIFICATIONS,
    "One row for each receiver and alert, until the receiver got its end. Each commit replaces all rows.",
    (
        Column("receiver", pa.string(), "Name of the receiver (alerting.webhooks)."),
        Column("finding_id", pa.string(), "Id of the finding, or name of the job's condition."),
        Column("group_topic", pa.string(), "Topic whose message the alert is part of."),
        Column("group_partition", pa.int32(), "Its partition."),
        Column(
            "state",
            pa.string(),
            "spread, exposed, confirmed, unsettled or warning. For a condition of the job, its name.",
        ),
        Column(
            "told",
            pa.string(),
            "State that the last delivered message gave. Null: none was delivered.",
        ),
        Column("tried", pa.string(), "JSON: the states in later messages, of which nobody knows whether they arrived."),
        Column("starts_at", _TIME, "When the alert began."),
        Column("ends_at", _TIME, "When it was over. Null: it is not."),
        Column(
            "delivered_at",
            pa.float64(),
            "When the receiver last got a message about it, in seconds since 1970 UTC. Null: never.",
        ),
        Column("labels", pa.string(), "JSON: the alert's labels."),
        Column("annotations", pa.string(), "JSON: the alert's annotations."),
        Column("is_acknowledged", pa.bool_(), "Whether somebody acknowledged it."),
        Column("turns", pa.int32(), "How often it turned from firing to acknowledged and back."),
    ),
)
_SCHEMA = TABLE.schema
_FAILURES = (DeltaError, OSError, pa.ArrowException)
_KEEP_UP_EVERY = 16
"""After so many commits, files that nobody reads any more are removed."""

Row = dict[str, Any]


def create_notifications(storage: str) -> None:
    """Create the table ``notifications`` below ``storage`` (``storage.path``) if it does not exist."""
    create_replaced(rust_uri(storage, NOTIFICATIONS), _SCHEMA)


class Record:
    """Reads and writes the table ``notifications`` for all receivers of a job. Any thread may use it.

    Args:
        storage: ``storage.path``.
    """

    def __init__(self, storage: str) -> None:
        self._uri = rust_uri(storage, NOTIFICATIONS)
        self._lock = threading.Lock()
        self._commits = 0
        self._rows: dict[str, list[Row]] = {}
        for row in _load(self._uri):
            self._rows.setdefault(row["receiver"], []).append(row)

    def of(self, receiver: str) -> tuple[list[Alert], dict[TopicPartition, Told]]:
        """What is recorded for the receiver with the name ``receiver``, for `Outbox.restore`.

        It is a tuple: the receiver's alerts, and by message group what it was sent.
        """
        rows = self._rows.get(receiver, [])
        alerts = [_alert(row) for row in rows]
        return alerts, {_group(row): Told(row["delivered_at"], row["turns"] or 0) for row in rows}

    def put(self, receiver: str, alerts: Sequence[Alert], told: Mapping[TopicPartition, Told]) -> bool:
        """Record the present state of a receiver. A failure is logged, and does not keep messages from being sent.

        ``receiver`` is its name, ``alerts`` are all its alerts, and ``told`` is by message group what it was sent.

        Returns:
            Whether it was recorded.
        """
        with self._lock:
            self._rows[receiver] = [_row(receiver, alert, told.get(alert.group, Told(None, 0))) for alert in alerts]
            rows = [row for name in sorted(self._rows) for row in self._rows[name]]
            self._commits += 1
            try:
                self._write(rows)
            except _FAILURES as error:
                log.warning(
                    "what receivers were sent is not on record; after a crash they are sent it again",
                    error=one_line(error),
                )
                return False
            return True

    def keep(self, receivers: Sequence[str]) -> None:
        """Forget the state of every receiver that is not named, because the settings have it no more."""
        self._rows = {name: rows for name, rows in self._rows.items() if name in receivers}

    def _write(self, rows: Sequence[Row]) -> None:
        table = pa.Table.from_pylist(list(rows), schema=_SCHEMA)
        replace_rows(self._uri, table)
        if self._commits % _KEEP_UP_EVERY == 0:
            tidy(self._uri)


def _load(uri: str) -> list[Row]:
    """The rows; none if there is no table or it cannot be read: then open findings are reported again."""
    try:
        if not DeltaTable.is_deltatable(uri):
            return []
        rows: list[Row] = _completed(DeltaTable(uri).to_pyarrow_table()).to_pylist()
        for row in rows:
            _alert(row)
    except (*_FAILURES, ValueError) as error:
        log.warning(
            "the record of what receivers were sent cannot be read; they are sent it again", error=one_line(error)
        )
        return []
    return rows


def _completed(table: pa.Table) -> pa.Table:
    """The table with the columns that an earlier version did not write, empty."""
    for field in _SCHEMA:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(_SCHEMA.names).cast(_SCHEMA)


def _row(receiver: str, alert: Alert, told: Told) -> Row:
    return {
        "receiver": receiver,
        "finding_id": alert.name,
        "group_topic": alert.group.topic,
        "group_partition": alert.group.partition,
        "state": str(alert.state),
        "told": alert.told,
        "tried": json.dumps(alert.tried),
        "starts_at": alert.starts_at,
        "ends_at": alert.ends_at,
        "delivered_at": told.at,
        "turns": told.turns,
        "is_acknowledged": alert.is_acknowledged,
        "labels": json.dumps(dict(alert.labels)),
        "annotations": json.dumps(dict(alert.annotations)),
    }


def _group(row: Row) -> TopicPartition:
    return TopicPartition(row["group_topic"], row["group_partition"])


def _alert(row: Row) -> Alert:
    """The alert of a row.

    Raises:
        ValueError: no version of Parallax that this one knows has written it.
    """
    state = row["state"]
    return Alert(
        name=row["finding_id"],
        group=_group(row),
        state=state if state in CONDITIONS else FindingState(state),
        told=row["told"],
        tried=tuple(json.loads(row["tried"] or "[]")),
        is_acknowledged=bool(row["is_acknowledged"]),
        starts_at=_utc(row["starts_at"]),
        ends_at=None if row["ends_at"] is None else _utc(row["ends_at"]),
        labels=json.loads(row["labels"]),
        annotations=json.loads(row["annotations"]),
    )


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
