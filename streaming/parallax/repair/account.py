"""Says in sentences which repairs were to mend a finding, and whether their success is proven.

The explanation of a finding contains these sentences, and so does the text that says how the finding ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from parallax.config import GuardSettings, ReadSettings
from parallax.counts import brokers_text
from parallax.findings.ended import NO_REPAIR, Repairs
from parallax.findings.finding import Finding
from parallax.findings.led import led
from parallax.findings.moves import Purpose
from parallax.findings.report import Facts, OnRecord
from parallax.guard.account import on_record
from parallax.kinds import OPEN_KINDS
from parallax.model import NOBODY
from parallax.moments import milliseconds, time_text
from parallax.repair.record import MAY_LACK, UNWRITTEN, Phase, Repair
from parallax.repair.table import read_record
from parallax.views.event_log import EventLogError

_ID_CHARACTERS = 8


def beside(storage: str, read: ReadSettings, guard: GuardSettings) -> OnRecord:
    """Return a function that gives, for a finding, the `Facts` that tables hold about it besides its events.

    The facts are the times for which a replica of the partition was away or behind, the repairs, and who led.

    Args:
        storage: ``storage.path``.
        read: the job's settings for reading.
        guard: the job's settings for the guard.
    """
    repairs = repairs_of(storage)

    def facts(finding: Finding) -> Facts:
        absences = on_record(storage, finding.place, finding.first_suspected_at, read, guard)
        return Facts(tuple(absences), repairs(finding), led(storage, finding))

    return facts


def repairs_of(storage: str) -> Callable[[Finding], tuple[str, ...]]:
    """Return a function that gives, for a finding, one sentence for each repair step that was to mend it.

    The sentences come in the order in which the repairs were begun; none if no step was. If the table of repairs cannot
    be read, there is one sentence, which says so.

    Args:
        storage: ``storage.path``.
    """

    def told(finding: Finding) -> tuple[str, ...]:
        try:
            return tuple(_in_words(repair, step) for repair, step in _about(storage, finding))
        except EventLogError:
            return ("The record of repairs cannot be read: whether one was run is not known.",)

    return told


def repaired_by(storage: str) -> Callable[[Finding], Repairs]:
    """Return a function that says which repairs have ended a finding, and which may have.

    It says nothing of them if the table of repairs cannot be read. A repair may have ended it once the cluster has
    taken its change. It has, once its result is proven on every replica. These repairs count:

    - The accused was copied again, or an end marker was written for a transaction that the accused held open.
    - If the finding accuses no broker: wrong replicas were copied again from the one that a person calls right, and
      that was proven after the finding's last event.

    A copy counts only for the findings that its plan was made to end, and not if replicas differed again after it.

    Args:
        storage: ``storage.path``.
    """

    def told(finding: Finding) -> Repairs:
        try:
            about = [(repair, step) for repair, step in _about(storage, finding) if _may_mend(repair, step, finding)]
        except EventLogError:
            return NO_REPAIR
        mended = tuple(_in_words(repair, step) for repair, step in about if step["number"] in repair.proven)
        taken = ((repair, step) for repair, step in about if step["number"] in repair.answered.keys() - repair.proven)
        return Repairs(mended, tuple(_begun_in_words(repair, step) for repair, step in taken))

    return told


def _about(storage: str, finding: Finding) -> Iterator[tuple[Repair, Mapping[str, Any]]]:
    """The repairs with a step that mends a finding, and that step.

    It writes an end marker for the finding's transaction. Or it copies a replica, and its plan was made to end the
    finding by that.
    """
    for repair in read_record(storage).repairs.values():
        for step in repair.plan.get("steps", ()) if repair.place == finding.place else ():
            mends = _copies_for if _is_move(step) else _ends_for
            if mends(repair, step, finding):
                yield repair, step


def _is_said(step: Mapping[str, Any]) -> bool:
    return bool(step.get("is_said"))  # the oldest plans know nobody's word


def _is_move(step: Mapping[str, Any]) -> bool:
    return "move" in step


def _ends_for(_: Repair, step: Mapping[str, Any], finding: Finding) -> bool:
    transaction = finding.producer_id, finding.transaction_start_offset
    return (step["producer_id"], step["start_offset"]) == transaction


def _copies_for(repair: Repair, step: Mapping[str, Any], finding: Finding) -> bool:
    copied = set(step["move"]["copied"]) & set(step["wrong"]) if step["move"]["purpose"] == Purpose.COPY else set()
    is_later = repair.began_ms >= milliseconds(finding.first_suspected_at)
    is_to_mend = finding.finding_id in step.get("mended", ())  # the oldest plans do not name them
    return is_to_mend and is_later and bool(copied) and finding.broker in {NOBODY, *copied}


def _may_mend(repair: Repair, step: Mapping[str, Any], finding: Finding) -> bool:
    if not _is_move(step):
        return finding.kind in OPEN_KINDS and finding.broker != NOBODY and _is_written(repair, step)
    is_since = repair.at_ms >= milliseconds(finding.decided_at)
    return is_since and (finding.broker != NOBODY or _is_said(step))


def _in_words(repair: Repair, step: Mapping[str, Any]) -> str:
    did, does, proof = _of_a_copy(step) if _is_move(step) else _of_a_marker(step, is_written=_is_written(repair, step))
    name, at = f"Repair {repair.repair_id[:_ID_CHARACTERS]}", time_text(repair.at_ms)
    if (proven_ms := repair.proven.get(step["number"])) is not None:
        doubt = f" That copy took too long: it {MAY_LACK}." if repair.is_slow(step["number"]) else ""
        return f"{name} {did}, and {proof} by {time_text(proven_ms)}.{doubt}"
    if repair.phase is Phase.RUNNING:
        return f"{name}, begun at {time_text(repair.began_ms)}, is to {does}; that is not proven yet."
    how = {Phase.CLOSED: "was given up", Phase.UNDOING: "was being undone"}.get(repair.phase, "stopped")
    reason = f": {repair.reason.rstrip('.')}" if repair.reason else ""
    return f"{name}, to {does}, {how} at {at}{reason}. It is not proven that it did."


def _begun_in_words(repair: Repair, step: Mapping[str, Any]) -> str:
    _, does, _ = _of_a_copy(step) if _is_move(step) else _of_a_marker(step, is_written=True)
    name = f"Repair {repair.repair_id[:_ID_CHARACTERS]}"
    return f"{name} had begun to {does}, at {time_text(repair.began_ms)}; that had not been proven to its end by then."


def _is_written(repair: Repair, step: Mapping[str, Any]) -> bool:
    return not repair.results.get(step["number"], {}).get(UNWRITTEN)


def _of_a_marker(step: Mapping[str, Any], *, is_written: bool) -> tuple[str, str, str]:
    marker = f"{step['end'].upper()} marker for the transaction of producer {step['producer_id']}"
    did = f"wrote a {marker}" if is_written else f"wrote no {marker}, which had ended by then"
    return did, f"write a {marker}", "every replica was read to show it"


def _of_a_copy(step: Mapping[str, Any]) -> tuple[str, str, str]:
    broker, source = brokers_text(step["move"]["copied"]), f"broker {step['source']}"
    said = ", which a person says is right" if _is_said(step) else ""
    how = f"{broker} again from {source}{said}"
    return f"copied {how}", f"copy {how}", f"{broker} was read to show the same"


__all__ = ["beside", "repaired_by", "repairs_of"]
