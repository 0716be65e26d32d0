"""What has no verdict, and how that is told: said here for the status line, the page's cells and their words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from enum import StrEnum

from parallax.alerting.snapshot import Snapshot
from parallax.compare.suspect import Coverage
from parallax.model import PASSING, TopicPartition, UnknownReason


class Telling(StrEnum):
    """How it is told that offsets have no verdict for some reason."""

    ON_ITS_WAY = "on_its_way"
    """It passes by itself; only where it does not, that is told (`parallax.alerting.overdue`)."""
    IN_PART = "in_part"
    """Nobody was in time, or retention moves the beginning of logs, which is no fault of anybody: the rest agrees."""
    CANNOT_TELL = "cannot_tell"
    """The comparison should have come to it and did not, or a log may have lost it: nobody can say that all agree."""


_CANNOT_TELL = frozenset({UnknownReason.DEFERRED, UnknownReason.SKIPPED, UnknownReason.UNAUTHORIZED})


def telling(reason: UnknownReason, coverage: Coverage) -> Telling:
    """How it is told that offsets of a partition have no verdict for a reason.

    Logs that begin at different offsets though nothing is known to delete records may lack what consumers of the
    others still get. Where all begin alike the loss is complete, and no look brings it back.
    """
    if reason in PASSING:
        return Telling.ON_ITS_WAY
    if reason is UnknownReason.LOG_START_DIFFERS and begin_apart(coverage):
        return Telling.CANNOT_TELL
    return Telling.CANNOT_TELL if reason in _CANNOT_TELL else Telling.IN_PART


def begin_apart(coverage: Coverage) -> bool:
    """Whether the logs of a partition begin at different offsets now; one that holds nothing begins nowhere."""
    return len({b.log_start_offset for b in coverage.brokers if 0 <= b.log_start_offset < b.log_end_offset}) > 1


def unknown_offsets(snapshot: Snapshot) -> Mapping[TopicPartition, Mapping[UnknownReason, int]]:
    """By partition and reason, how many offsets have no verdict in the view in which more have none; only above 0.

    Most are offsets of both views, and are counted once.
    """
    return snapshot.once(_unknown_offsets)


def _unknown_offsets(snapshot: Snapshot) -> Mapping[TopicPartition, Mapping[UnknownReason, int]]:
    return {
        place: {reason: max(counts) for reason, counts in coverage.unknown.items() if any(counts)}
        for place, coverage in snapshot.coverage.items()
        if any(map(any, coverage.unknown.values()))
    }


def unknown_by(
    snapshot: Snapshot, how: Telling, places: Container[TopicPartition] | None = None
) -> Mapping[UnknownReason, int]:
    """By reason, how many offsets have no verdict that is told in one way; of all partitions, or of some."""
    found: Counter[UnknownReason] = Counter()
    for place, counts in unknown_offsets(snapshot).items():
        if places is None or place in places:
            coverage = snapshot.coverage[place]
            found.update({reason: n for reason, n in counts.items() if telling(reason, coverage) is how})
    return found


def to_be_read(snapshot: Snapshot) -> int:
    """How many offsets have no verdict only because not every replica has been read yet: that ends by itself.

    What an audit has to tell of is among the ranges of the coverage.
    """
    reason = UnknownReason.BEFORE_FIRST_READING
    return sum(
        counts.get(reason, 0)
        for place, counts in unknown_offsets(snapshot).items()
        if all(one.reason != reason for one in snapshot.coverage[place].unread)
    )


def in_part(snapshot: Snapshot) -> frozenset[TopicPartition]:
    """The partitions that have not been compared whole.

    Offsets of them have no verdict and will have none by themselves, a replica of them is absent, or they have not
    caught up since they were first seen, or since something held them up.
    """
    return snapshot.once(_in_part)


def _in_part(snapshot: Snapshot) -> frozenset[TopicPartition]:
    lacking = (
        place
        for place, counts in unknown_offsets(snapshot).items()
        if any(telling(reason, snapshot.coverage[place]) is not Telling.ON_ITS_WAY for reason in counts)
    )
    absent = (absence.place for absence in snapshot.absences.absent)
    return frozenset((*lacking, *absent, *catching_up(snapshot)))


def catching_up(snapshot: Snapshot) -> list[TopicPartition]:
    """The partitions that have not been compared to where their logs ended when nothing held them up any more."""
    return [place for place, is_done in snapshot.caught_up.items() if not is_done]


def words(reason: UnknownReason) -> str:
    """A reason as text."""
    return reason.replace("_", " ")


__all__ = [
    "Telling",
    "begin_apart",
    "catching_up",
    "in_part",
    "telling",
    "to_be_read",
    "unknown_by",
    "unknown_offsets",
    "words",
]
