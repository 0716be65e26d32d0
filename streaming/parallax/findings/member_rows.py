"""The rows of the table ``members``, which says what is known of each member of a group. Rows are only appended.

`parallax.findings.table` reads and writes them together with the events of findings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parallax.columns import Column, Table
from parallax.findings.claim import as_json, claim_from_json
from parallax.findings.members import MemberGroup, MemberRow, State
from parallax.model import FindingKind, Rule, TopicPartition

MEMBERS = "members"
TABLE = Table(
    MEMBERS,
    "One row for each change of what is known of a member of an incident, or of suspects that are judged together. "
    "The last row of a member counts. Rows that nobody needs any more are removed.",
    (
        Column("sequence", pa.int64(), "Number of the row, from 1."),
        Column("topic", pa.string(), "Topic."),
        Column("partition", pa.int32(), "Number of the partition."),
        Column("broker", pa.int32(), "Id of the broker that all are about. -1: a difference without direction."),
        Column("kind", pa.string(), "Kind of the incident, or of the suspects."),
        Column("rule", pa.string(), "Invariant that is broken: I1 to I4."),
        Column("is_proven", pa.bool_(), "Whether it is proven, or was, and an incident counts it, or counted it."),
        Column("state", pa.string(), f"{', '.join(s.name.lower() for s in State if s is not State.UNDECIDED)}."),
        Column("resolution", pa.string(), "Why it is not wrong any more. Empty: it is, or never was."),
        Column("suspect_id", pa.string(), "Suspect that led to it."),
        Column("claim", pa.string(), "JSON: what the suspect says, and what was recorded of the replicas."),
        Column("asked_at_ms", pa.int64(), "When the replicas were asked. 0: not yet."),
        Column("written_at_ms", pa.int64(), "When the row was written."),
    ),
)
SCHEMA = TABLE.schema
"""Columns of the table, in order."""

_KEY = ("topic", "partition", "broker", "kind", "rule", "is_proven", "suspect_id")
_OVER = [state.name.lower() for state in (State.OVER, State.SHOWN, State.LEFT)]


def as_rows(members: Sequence[MemberRow], first: int, at_ms: int) -> pa.Table:
    """Return rows for the table.

    Args:
        members: what became known of members, in this order.
        first: number of the first row.
        at_ms: the present time, milliseconds since 1970 UTC.
    """
    rows = [_as_row(one) | {"sequence": first + i, "written_at_ms": at_ms} for i, one in enumerate(members)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _as_row(one: MemberRow) -> dict[str, Any]:
    group = one.group
    return {
        "topic": group.place.topic,
        "partition": group.place.partition,
        "broker": group.broker,
        "kind": str(group.kind),
        "rule": str(group.rule),
        "is_proven": one.is_proven,
        "state": one.state.name.lower(),
        "resolution": one.resolution,
        "suspect_id": one.claim.suspect_id,
        "claim": json.dumps(as_json(one.claim), separators=(",", ":")),
        "asked_at_ms": one.asked_ms,
    }


def last_rows(rows: Any, since_ms: int = 0) -> Any:
    """Return the last row of each member, in the order of their numbers.

    Args:
        rows: rows of the table, in any order.
        since_ms: milliseconds since 1970 UTC. Of what was dismissed, is over, or has left its group, rows that were
            written before are left out.
    """
    last = rows.group_by(list(_KEY)).aggregate([("sequence", "max")])["sequence_max"]
    found = rows.filter(pc.is_in(rows["sequence"], last)).sort_by("sequence")
    is_old = pc.less(found["written_at_ms"], pa.scalar(since_ms, pa.int64()))
    return found.filter(pc.invert(pc.and_(is_old, pc.is_in(found["state"], pa.array(_OVER)))))


def member_of(row: dict[str, Any]) -> MemberRow:
    """Return what a row of the table says.

    Raises:
        KeyError, ValueError: the row has a state, kind or rule that this version does not know.
    """
    place = TopicPartition(row["topic"], row["partition"])
    claim = claim_from_json(place, json.loads(row["claim"]))
    group = MemberGroup(place, row["broker"], FindingKind(row["kind"]), Rule(row["rule"]))
    state = State[row["state"].upper()]
    return MemberRow(group, row["is_proven"], claim, state, row["asked_at_ms"], row["resolution"])


__all__ = ["MEMBERS", "SCHEMA", "TABLE", "as_rows", "last_rows", "member_of"]
