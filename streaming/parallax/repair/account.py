"""The repairs of a finding, in sentences.

They are shown with the finding, and in the text of its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from parallax.config import GuardSettings, ReadSettings
from parallax.findings.finding import Finding
from parallax.findings.report import Facts, OnRecord
from parallax.guard.account import on_record
from parallax.moments import time_text
from parallax.repair.record import Phase, Repair
from parallax.repair.table import read_record
from parallax.views.event_log import EventLogError

_ID_CHARACTERS = 8


def beside(storage: str, read: ReadSettings, guard: GuardSettings) -> OnRecord:
    """What is on record about a finding: its repairs, and the absences of its partition's replicas.

    Args:
        storage: ``storage.path``.
        read: of the job.
        guard: of the job.
    """
    repairs = repairs_of(storage)

    def facts(finding: Finding) -> Facts:
        absences = on_record(storage, finding.place, finding.first_suspected_at, read, guard)
        return Facts(tuple(absences), repairs(finding))

    return facts


def repairs_of(storage: str) -> Callable[[Finding], tuple[str, ...]]:
    """The record of each repair of a finding's transaction, one sentence each.

    What cannot be read is said in a sentence, too.

    Args:
        storage: ``storage.path``.
    """

    def told(finding: Finding) -> tuple[str, ...]:
        try:
            return tuple(_in_words(repair, step) for repair, step in _about(storage, finding))
        except EventLogError:
            return ("The record of repairs cannot be read: whether one was run is not known.",)

    return told


def repaired_by(storage: str) -> Callable[[Finding], str]:
    """Like `repairs_of`, but only repairs that proved their step; empty if none did, or the record cannot be read.

    Args:
        storage: ``storage.path``.
    """

    def told(finding: Finding) -> str:
        try:
            about = list(_about(storage, finding))
        except EventLogError:
            return ""
        return " ".join(_in_words(repair, step) for repair, step in about if step["number"] in repair.proven)

    return told


def _about(storage: str, finding: Finding) -> Iterator[tuple[Repair, Mapping[str, Any]]]:
    """The repairs with a step for the transaction of a finding, and that step."""
    transaction = finding.producer_id, finding.transaction_start_offset
    for repair in read_record(storage).repairs.values():
        for step in repair.plan.get("steps", ()):
            if repair.place == finding.place and (step["producer_id"], step["start_offset"]) == transaction:
                yield repair, step


def _in_words(repair: Repair, step: Mapping[str, Any]) -> str:
    marker = f"{step['end'].upper()} marker for its transaction"
    name, at = f"Repair {repair.repair_id[:_ID_CHARACTERS]}", time_text(repair.at_ms)
    if step["number"] in repair.proven:
        return f"{name} wrote a {marker}, and every replica was read to show it by {at}."
    if repair.phase is Phase.RUNNING:
        return (
            f"{name}, begun at {time_text(repair.began_ms)}, is to write a {marker}; no replica is proven to show it."
        )
    how = "was given up" if repair.phase is Phase.CLOSED else "stopped"
    reason = f": {repair.reason.rstrip('.')}" if repair.reason else ""
    return f"{name}, to write a {marker}, {how} at {at}{reason}. It is not proven that every replica shows it."


__all__ = ["beside", "repaired_by", "repairs_of"]
