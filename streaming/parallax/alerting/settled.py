"""Says up to where nothing is open in a partition, so that upkeep may take rows out of the views. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from parallax.compare.suspect import Coverage
from parallax.model import TopicPartition, UnknownReason
from parallax.views.settled import Settled

_OF_LOG_STARTS = (UnknownReason.LOG_START_DIFFERS, UnknownReason.RETENTION_DIFFERS)


def settled(coverages: Iterable[Coverage], open_: Collection[TopicPartition]) -> dict[TopicPartition, Settled]:
    """By partition, up to where nothing is open. Partitions in which something is open are left out.

    Args:
        coverages: how far each partition has been compared, without what an audit has compared since.
        open_: the partitions with findings that are not over, acknowledged or not, or with suspects without a verdict.
    """
    found = ((one.place, _settled(one)) for one in coverages if one.place not in open_)
    return {place: one for place, one in found if one is not None}


def _settled(coverage: Coverage) -> Settled | None:
    if coverage.error or coverage.deferred or coverage.candidates:
        return None
    # What waits for a verdict, and what may be read again, lies from these offsets on.
    waits = [offset for offset in (*coverage.waits_from, coverage.withheld_from) if offset >= 0]
    unknown = [(span.start, span.end) for span in coverage.unread]
    if any(any(coverage.unknown_for(reason)) for reason in _OF_LOG_STARTS):
        unknown.append((0, max(broker.log_start_offset for broker in coverage.brokers)))
    brokers = frozenset(broker.broker for broker in coverage.brokers)
    return Settled(brokers, min(*coverage.compared_up_to, *waits), tuple(unknown))


__all__ = ["settled"]
