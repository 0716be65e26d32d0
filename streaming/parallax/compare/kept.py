"""Reads how far partitions have been compared from the comparison's stored state, for commands outside the job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from parallax.compare.coverage import coverage
from parallax.compare.feed import QUERY
from parallax.compare.observations import Observations
from parallax.compare.segments import StateGoneError, Store, bucket_of
from parallax.compare.suspect import Coverage
from parallax.model import TopicPartition
from parallax.views.checkpoints import Checkpoint

_TRIES = 5
"""How often reading is tried: a comparison that runs meanwhile removes the files that it has replaced."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How far partitions had been compared when the comparison last stored its state.

    Attributes:
        at: when it was stored, seconds since 1970 UTC; None if nothing was compared yet.
        coverage: by partition; partitions without any observation yet are left out.
    """

    at: float | None = None
    coverage: Mapping[TopicPartition, Coverage] = field(default_factory=dict)


def kept(storage: str, places: Collection[TopicPartition], grace_ms: int) -> Kept:
    """Read how far partitions have been compared, from the state that the comparison stored last.

    Offsets that the comparison left unknown are unknown here even if an audit has compared them since.

    Args:
        storage: folder or URI of the tables (``storage.path``).
        places: the partitions.
        grace_ms: see `parallax.compare.coverage.coverage`.

    Raises:
        FencedError: another job has taken the storage over.
        OSError: the state cannot be read.
        ValueError: another version has written the state, or it is damaged.
    """
    store = Store(Checkpoint(storage, QUERY).location())
    for left in reversed(range(_TRIES)):
        try:
            return _read(store, places, grace_ms)
        except (FileNotFoundError, StateGoneError):
            if not left:
                raise
    raise AssertionError


def _read(store: Store, places: Collection[TopicPartition], grace_ms: int) -> Kept:
    newest = store.newest()
    if newest is None:
        return Kept()
    manifest, at = newest
    buckets: dict[int, list[TopicPartition]] = {}
    for place in places:
        buckets.setdefault(bucket_of(*place, manifest.buckets), []).append(place)
    found = {}
    for bucket, own in buckets.items():
        states = store.load({bucket: manifest.segments.get(bucket)})[bucket]
        for place in own:
            state = states.get(place)
            if len(state.brokers):
                found[place] = coverage(state, Observations(*place), int(at * 1000), grace_ms)
    return Kept(at, found)


__all__ = ["Kept", "kept"]
