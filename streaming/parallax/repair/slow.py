"""Finds the replicas that a repair has copied too slowly. They may lack tombstones or end markers."""

from __future__ import annotations

from parallax.audit.ledger import Ledger
from parallax.config import Settings
from parallax.guard.absences import Absence, Late, Presence, Unclear
from parallax.repair.table import read_record


def slow_copies(settings: Settings, ledger: Ledger) -> list[Late]:
    """Return the replicas whose last copy by a repair took longer than half of ``delete.retention.ms``.

    Those that an audit of the job has compared since are left out.

    Args:
        settings: the job's settings.
        ledger: the job's audits.

    Raises:
        EventLogError: the record of repairs cannot be read.
    """
    return [
        Late(
            place,
            broker,
            proven_ms,
            Absence(place, broker, Presence.COPYING, None, began_ms, None, None, Unclear.SLOW),
        )
        for (place, broker), (began_ms, proven_ms) in read_record(settings.storage.path).slow().items()
        if not ledger.has_begun(place, proven_ms + settings.guard.clock_skew_ms)
    ]


__all__ = ["slow_copies"]
