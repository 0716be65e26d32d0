"""Decides whether a replica may be copied over another one, by what is no finding. Pure.

Findings prove what a replica shows at single offsets. A copy deletes all that the other replica holds. What only that
one shows rightly must not go with it. So a plan asks this before it names a source, and a run of the plan asks it
again before each step that deletes a copy or changes who leads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from parallax.model import UNKNOWN
from parallax.repair.seen import Look


def unsure(look: Look, source: int, mended: Collection[str] = (), below: int = UNKNOWN) -> str:
    """Why nobody knows whether a replica is right apart from the findings; empty if nothing speaks against it.

    It is the same that ``parallax lead`` says of it (`parallax.repair.leading.Doubts`), and what is not read yet.

    Args:
        look: a look at the partition.
        source: the broker whose replica is to be copied.
        mended: ids of the findings that the copy ends.
        below: up to this offset every replica must have been read, since a copy deletes what another one holds.
    """
    if look.doubts is None:
        return "the job's tables were not read"
    return "; ".join(filter(None, (*look.doubts.of(source, mended), look.doubts.unread(below))))


def loses(look: Look, source: int) -> str:
    """Which offsets no replica holds any more once a broker leads, a sentence without its full stop; empty if none.

    A follower deletes what lies below the log start offset of its leader (Kafka, ``ReplicaFetcherThread``). Where logs
    begin apart only until retention has passed over all of them, this is empty a few minutes later.

    Args:
        look: a look at the partition.
        source: the broker that is to lead.
    """
    starts = {broker: one.marks.log_start_offset for broker, one in look.replicas.items() if one.marks is not None}
    return begins_late(starts, source)


def begins_late(starts: Mapping[int, int], source: int) -> str:
    """The same as `loses`, by the log start offsets of the replicas.

    Args:
        starts: by broker, where its log begins.
        source: the broker that is to lead.
    """
    if source not in starts:
        return f"broker {source} does not say where its log begins"
    lowest = min(starts, key=lambda broker: (starts[broker], broker))
    if starts[lowest] == starts[source]:
        return ""
    return (
        f"the log of broker {source} begins at offset {starts[source]}, and that of broker {lowest} at "
        f"{starts[lowest]}: once broker {source} leads, the others delete what lies before it"
    )


__all__ = ["begins_late", "loses", "unsure"]
