"""Finds the offsets whose rows an audit of the tables need not read, because all replicas showed the same.

The views record sums of each reader's rows, block by block. Replicas whose sums are equal showed the same rows. If the
sums of a partition cannot be read or compared, the audit reads all of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog
from deltalake.exceptions import DeltaError

from parallax.audit.plan import PartitionPlan
from parallax.compare.blocks import Agreed, Recorded, agreed
from parallax.compare.observations import VIEWS
from parallax.model import IsolationLevel, TopicPartition
from parallax.views.blocks import Blocks, ByPlace, recorded

log = structlog.get_logger(__name__)

Views = Mapping[IsolationLevel, Mapping[int, Blocks]]
"""By isolation level and broker, what the rows that were recorded add up to, block by block."""


def recorded_blocks(storage: str) -> Views:
    """By isolation level and broker, the recorded sums of rows, block by block. Empty if they cannot be read.

    Args:
        storage: ``storage.path``.
    """
    try:
        return {isolation: recorded(storage, isolation) for isolation in IsolationLevel}
    except (DeltaError, OSError, ValueError) as error:
        log.info("what was recorded cannot be compared by blocks: rows are compared instead", error=str(error))
        return {}


def agreeing(blocks: Views, plans: Iterable[PartitionPlan]) -> dict[TopicPartition, Agreed]:
    """By partition, the range of offsets in which the sums of all replicas' rows are equal.

    A partition without such a range is left out. The audit need not read the rows in it.

    Args:
        blocks: the sums, by isolation level and broker. Read them before you make the plans. Then no sum reaches beyond
            the end of its partition's plan.
        plans: one plan for each partition.
    """
    made = {}
    readers = {(int(i), broker): ByPlace(its) for i, of_view in blocks.items() for broker, its in of_view.items()}
    for one in plans:
        wanted = [(broker, view) for broker in one.replicas for view in VIEWS]
        if all((view, broker) in readers for broker, view in wanted):
            found = agreed({(b, v): Recorded(*readers[v, b].of(one.place)) for b, v in wanted})
            if found is not None and found.end <= min(one.ends):
                made[one.place] = found
    return made


__all__ = ["Views", "agreeing", "recorded_blocks"]
