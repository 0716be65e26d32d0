"""What the progress query records, for the guard to recall."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from parallax.guard.looks import Look
from parallax.source import schema
from parallax.views.tables import PROGRESS, RECORDED_ON, create_tables, rust_uri
from tests.unit.guard.looking import tick

ALL, REST = (1, 2, 3), (1, 3)


def write(storage: Path, *ticks: list[Look]) -> None:
    """As the progress query does, in one commit."""
    create_tables(str(storage))
    rows = [row(look) for one in ticks for look in one]
    table = pa.Table.from_pylist(rows, schema=schema.PROGRESS.append(pa.field(RECORDED_ON, pa.date32())))
    write_deltalake(rust_uri(str(storage), PROGRESS), table, mode="append")


def row(look: Look) -> dict[str, Any]:
    at = datetime.fromtimestamp(look.at_ms / 1000, UTC)
    return {
        "topic": look.place.topic,
        "partition": look.place.partition,
        "broker": look.broker,
        "observed_at": at,
        "reachable": look.log_end_offset is not None,
        "high_watermark": look.high_watermark,
        "log_end_offset": look.log_end_offset,
        "leader": look.leader,
        "leader_epoch": look.leader_epoch,
        "isr": list(look.isr),
        "replicas": list(look.replicas),
        "topic_id": look.topic_id,
        "cleanup_policy": look.policy,
        "policy_at": at if look.policy_at_ms is not None else None,
        "delete_retention_ms": look.retention_ms,
        RECORDED_ON: at.date(),
    }


def history(away_from: int, until: int, step: int = 60_000, **said: Any) -> list[list[Look]]:
    """Broker 2 is away from a time on; a record is written each minute."""
    return [
        tick(
            at,
            {1: 10 + at // step, 2: None if at >= away_from else 10 + at // step, 3: 10 + at // step},
            REST if at >= away_from else ALL,
            **said,
        )
        for at in range(0, until, step)
    ]
