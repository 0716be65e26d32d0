"""Decides whom a proof clears although cleaners have taken the record and its end marker from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from parallax.findings.claim import is_direct_end
from parallax.findings.finding import evidence_of
from parallax.findings.shown import Shown
from parallax.model import UNKNOWN, FindingKind


def without_trace(shown: Shown) -> Iterable[int]:
    """Return who shows what is right though the cleaner has taken the record and its end marker from them.

    It is for a transaction of one record, with the end marker that was read directly behind it:

    - A rolled-back value clears those that do not hold it. A replica that took it for committed holds it, or a newer
      record of its key.
    - A committed deletion clears those that show no value, unless another shows a newer one than the accused.
    """
    finding, recorded = shown.finding, evidence_of(shown.finding).get("recorded") or {}
    is_one = not finding.is_incident and finding.offset == finding.transaction_start_offset
    if not is_one or not is_direct_end(finding.offset, finding.marker_offset) or recorded.get("uncompacted"):
        return ()
    if finding.kind is FindingKind.ABORTED_RECORD_COMMITTED:
        own = _record(shown, finding.broker)
        is_value = own is not None and own.get("value_size", UNKNOWN) >= 0
        return (b for b in shown.answered if is_value and _lacks(shown, b))
    values_shown = {b: at for b in shown.answered if (at := value_of(shown, b)) is not None}
    own_value = values_shown.get(finding.broker, UNKNOWN)
    is_older = UNKNOWN < own_value == max(values_shown.values()) < finding.offset
    is_missed = is_older and shown.was_deletion
    return (b for b, at in values_shown.items() if is_missed and at == UNKNOWN)


def _record(shown: Shown, broker: int) -> Mapping[str, Any] | None:
    """Return the finding's record as a replica shows it in read_committed; None if it does not hold it."""
    held = shown.replicas.get(broker, {}).get("committed", ())
    return next((record for record in held if record["offset"] == shown.finding.offset), None)


def _lacks(shown: Shown, broker: int) -> bool:
    """Whether a replica was asked for the finding's record, is past it, and does not hold it."""
    answer, offset = shown.replicas[broker], shown.finding.offset
    is_past = answer.get("last_stable_offset", UNKNOWN) > offset
    return is_past and offset in answer.get("asked", ()) and _record(shown, broker) is None


def value_of(shown: Shown, broker: int) -> int | None:
    """Return the offset of the value that a replica shows of the finding's key, -1 if it shows none; None if unknown.

    It is unknown as well while the replica has not decided the finding's record.

    Args:
        shown: what the finding says of the replicas.
        broker: id of the replica's broker, which has answered.
    """
    answer = shown.replicas[broker]
    key, stable = answer.get("key"), answer.get("last_stable_offset", UNKNOWN)
    if key is None or not key["complete"] or stable <= shown.finding.offset:
        return None
    visible = key.get("visible")
    return UNKNOWN if visible is None or visible["value_size"] < 0 else int(visible["offset"])


__all__ = ["value_of", "without_trace"]
