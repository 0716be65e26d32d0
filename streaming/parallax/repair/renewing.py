"""Follows the record of repairs, to have findings about what they change looked at again."""

from __future__ import annotations

import structlog

from parallax.errors import one_line
from parallax.findings.renewed import Renewed
from parallax.model import TopicPartition
from parallax.repair.record import EventKind, Record
from parallax.repair.table import RepairTable
from parallax.views.event_log import EventLogError

log = structlog.get_logger(__name__)

_CHANGING = (EventKind.INTENDED, EventKind.ANSWERED, EventKind.PROVEN)
"""The events between which a step changes replicas."""


class Renewing:
    """Returns at each call the replicas of the partitions that repairs may have changed since the last call.

    For one thread only. If the record of repairs cannot be read, a call returns nothing and logs it.

    Args:
        storage: ``storage.path``.
    """

    def __init__(self, storage: str) -> None:
        self._storage = storage
        self._table: RepairTable | None = None
        self._record = Record()

    def __call__(self) -> Renewed:
        """By partition and broker of a repair, when its last step was begun, was accepted or was proven.

        The first call returns all that is on record.
        """
        try:
            self._table = self._table or RepairTable.opened(self._storage)
            events = self._table.news() if self._table is not None else []
        except EventLogError as error:
            what = "findings about replicas that are repaired meanwhile are looked at in their turn only"
            log.warning("what was repaired cannot be read", error=one_line(error), what=what)
            return {}
        found: dict[tuple[TopicPartition, int], int] = {}
        for event in events:
            self._record.take_in([event])
            repair = self._record.repairs.get(event.repair_id)
            if repair is not None and event.kind in _CHANGING:
                found |= {(event.place, broker): event.at_ms for broker in repair.plan.get("replicas", ())}
        return found


__all__ = ["Renewing"]
