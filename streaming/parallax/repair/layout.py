"""Decides which other broker may hold a partition during a repair, and whether it may be reassigned now. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parallax.counts import agreed, brokers_text, counted
from parallax.findings.moves import FEWEST, Move
from parallax.model import TopicPartition

_ROOM = 1.1
"""A copy may grow while it is made."""
PAUSED = "--automation-paused"
"""The option by which a person says that nothing else moves partitions."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What brokers report that decides whether and where one partition may be reassigned.

    Attributes:
        free: by broker that answers, how many bytes are free on its fullest log directory.
        sizes: by broker that holds the partition, the size of its replica in bytes.
        moving: for each partition of the cluster that is being reassigned, the brokers that will hold it in the end.
        min_isr: ``min.insync.replicas`` of the topic.
        retention_ms: ``delete.retention.ms`` of the topic.
        throttle: bytes a second to which a setting of the topic or of brokers limits copies; 0 without such a setting.
        automation: what shows that Cruise Control runs here, a phrase; empty if nothing does.
        error: why some of this could not be asked; empty if all could.
    """

    free: Mapping[int, int] = field(default_factory=dict)
    sizes: Mapping[int, int] = field(default_factory=dict)
    moving: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    min_isr: int = 1
    retention_ms: int = 86_400_000
    throttle: int = 0
    automation: str = ""
    error: str = ""

    def spare(self, assigned: tuple[int, ...], size: int) -> int | None:
        """The broker without a replica of the partition that has most disk space free; None if it fits on none.

        Args:
            assigned: ids of the brokers that hold the partition.
            size: the partition's size in bytes.
        """
        able = [
            b for b, free in self.free.items() if b not in assigned and b not in self.sizes and has_room(free, size)
        ]
        return max(able, key=lambda broker: (self.free[broker], -broker), default=None)

    def wants_spare(self, assigned: tuple[int, ...]) -> bool:
        """Whether a further broker must hold the partition while one replica is deleted and copied again.

        It must if fewer than two replicas would be left, or fewer than ``min.insync.replicas``.

        Args:
            assigned: ids of the brokers that hold the partition.
        """
        return len(assigned) - 1 < self.least

    @property
    def least(self) -> int:
        """How many replicas have to be left while one has no copy: two, or as many as ``min.insync.replicas``."""
        return max(FEWEST, self.min_isr)


def has_room(free: int, size: int) -> bool:
    """Whether a copy of ``size`` bytes fits into ``free`` bytes, with a tenth of its size to spare."""
    return free >= size * _ROOM


def hindered(layout: Layout, place: TopicPartition, move: Move, source: int, *, is_paused: bool = False) -> str:
    """Why a reassignment of a partition may not be made, and what to do about it; empty if it may.

    A plan asks it of each of its reassignments. A run of the plan asks it again, before the first change and before
    each step that deletes a copy or changes who leads.

    Args:
        layout: what brokers report about the partition now.
        place: the partition.
        move: the reassignment.
        source: the broker whose replica is copied.
        is_paused: whether a person says that Cruise Control is paused.
    """
    return _disturbed(layout, place, is_paused=is_paused) or _lacking(layout, move, source)


def _disturbed(layout: Layout, place: TopicPartition, *, is_paused: bool) -> str:
    if layout.error:
        return f"what is needed to copy a replica is not known: {layout.error}"
    if place in layout.moving:
        return (
            f"{place.name} is being reassigned to brokers {list(layout.moving[place])} already. Wait until that is "
            "over, or cancel it by kafka-reassign-partitions.sh --cancel, and plan again"
        )
    if number := len(layout.moving):
        return (
            f"{counted(number, 'other partition')} {agreed(number, 'is', 'are')} being reassigned. Wait until that is "
            "over (kafka-reassign-partitions.sh --list shows it), and plan again"
        )
    if layout.automation and not is_paused:
        return (
            f"Cruise Control runs here ({layout.automation}): it stops reassignments that it did not start, or starts "
            f"its own. Pause its self-healing and its executor, and plan again with {PAUSED}"
        )
    return ""


def _lacking(layout: Layout, move: Move, source: int) -> str:
    """That too few replicas would be left, that a copy has no room, or would take too long."""
    size = layout.sizes.get(source, 0)
    if move.copied and source not in layout.sizes:
        return f"broker {source} does not say how many bytes its replica has. Plan again once it does"
    if move.gone and len(move.replicas) < layout.least:
        return (
            f"{counted(len(move.replicas), 'replica')} would be left, and {layout.least} have to be "
            f"(min.insync.replicas is {layout.min_isr}). Plan again, so that another broker stands in"
        )
    full = [broker for broker in move.copied if not has_room(layout.free.get(broker, 0), size)]
    if full:
        return f"{brokers_text(full)} has no {size:,} bytes free for a new copy. Make room there"
    return too_slow(layout, size) if move.copied else ""


def slowest(layout: Layout, size: int) -> int:
    """The lowest speed, in bytes a second, of a copy of ``size`` bytes that cannot miss anything.

    It ends within half of ``delete.retention.ms``. A slower copy could miss tombstones that are cleaned while it runs,
    and the replicas would differ again.
    """
    return -(-size * 2_000 // max(layout.retention_ms, 1))


def too_slow(layout: Layout, size: int) -> str:
    """Why a throttle makes a copy too slow (see `slowest`), and what to do; empty without such a throttle.

    Args:
        layout: what brokers report about the partition.
        size: how many bytes are copied.
    """
    floor = slowest(layout, size)
    if not layout.throttle or layout.throttle >= floor:
        return ""
    return (
        f"a throttle holds copies back to {layout.throttle:,} bytes a second (leader. and "
        "follower.replication.throttled), so one takes longer than half of delete.retention.ms and could miss what "
        f"is cleaned meanwhile. Allow {floor:,} bytes a second at least, or take the throttle away"
    )


__all__ = ["PAUSED", "Layout", "has_room", "hindered", "slowest", "too_slow"]
