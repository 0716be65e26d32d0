"""Makes a table of what the brokers answered about a finding, with a column for each broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AnswersShown:
    """The brokers' answers about a finding, as a table of texts.

    Attributes:
        brokers: the heading of each column, one for each broker.
        rows: for each row its heading, and one cell for each broker.
    """

    brokers: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def answers_of(evidence: Mapping[str, Any]) -> AnswersShown:
    """Return each broker's answers about a finding as headings and cells. Rows with only empty cells are left out.

    Args:
        evidence: the evidence of the finding's event.
    """
    replicas: Mapping[str, Mapping[str, Any]] = evidence.get("replicas", {})
    leader = str(evidence.get("leader"))
    rows = ((heading, tuple(str(cell(a)) for a in replicas.values())) for heading, cell in _ANSWERED.items())
    return AnswersShown(
        tuple(f"broker {broker}{' (leader)' if broker == leader else ''}" for broker in replicas),
        tuple(
            (heading, cells)
            for heading, cells in rows
            if set(cells) - ({"", _NONE} if heading in (_HAS, _ENDS) else {""})
        ),
    )


def _record(key: Mapping[str, Any] | None) -> str:
    if key is None:
        return ""
    visible = key.get("visible")
    if visible is None:
        return "none" if key.get("complete") else "not known"
    return f"offset {visible['offset']}{' (tombstone)' if visible['value_size'] < 0 else ''}"


def _offsets(records: Sequence[Mapping[str, Any]] | None) -> str:
    if records is None:
        return ""
    return ", ".join(f"offset {record['offset']}" for record in records) or _NONE


def _markers(markers: Sequence[Mapping[str, Any]] | None) -> str:
    if markers is None:
        return ""
    return ", ".join(f"{marker['type'].upper()} at {marker['offset']}" for marker in markers) or _NONE


def _open(answer: Mapping[str, Any]) -> str:
    listed = answer.get("open_transactions")
    if listed is None:
        return str(answer.get("open_error") or "")
    return ", ".join(f"of producer {one['producer_id']} from offset {one['start_offset']}" for one in listed) or _NONE


_HAS, _ENDS, _NONE = "holds, of the offsets asked about", "end markers", "none"
_ANSWERED: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "answer": lambda a: a.get("error", "answered"),
    "high watermark": lambda a: a.get("high_watermark", ""),
    "last stable offset": lambda a: a.get("last_stable_offset", ""),
    "log start offset": lambda a: a.get("log_start_offset", ""),
    "log end offset": lambda a: a.get("log_end_offset", ""),
    "visible value of the key": lambda a: _record(a.get("key")),
    _HAS: lambda a: _offsets(a.get("committed")),
    _ENDS: lambda a: _markers(a.get("markers")),
    "open transactions": _open,
}


__all__ = ["AnswersShown", "answers_of"]
