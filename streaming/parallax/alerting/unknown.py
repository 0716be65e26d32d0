"""Which offsets have no verdict, and how the status line and the page report them. Pure.

Some offsets get a verdict by reading on. Others have none for a reason that is nobody's fault. Of the rest nobody can
say whether the replicas agree (`Telling`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from enum import StrEnum

from parallax.alerting.blind import alone
from parallax.alerting.snapshot import Snapshot
from parallax.compare.suspect import Coverage
from parallax.counts import agreed
from parallax.model import PASSING, IsolationLevel, TopicPartition, UnknownReason


class Part(StrEnum):
    """Why a partition is known to agree in part only. The reason that lasts longest comes first."""

    LACKING = "lacking"
    """Offsets of it have no verdict, and will have none by themselves."""
    ALONE = "alone"
    """The settings let one replica of it be read, though there are others: it is not compared."""
    ABSENT = "absent"
    """A replica of it is absent."""
    CATCHING_UP = "catching_up"
    """It has not caught up since it was first seen, or since something held it up."""


class Telling(StrEnum):
    """How the status line and the page report offsets without a verdict. The reason decides it (`telling`)."""

    ON_ITS_WAY = "on_its_way"
    """They will get a verdict by themselves. If they do not, that is reported (`parallax.alerting.overdue`)."""
    IN_PART = "in_part"
    """Nobody is at fault: they were not read in time, or retention moved the beginning of logs."""
    CANNOT_TELL = "cannot_tell"
    """Nobody can say that all agree.

    The comparison should have come to these offsets and did not, or a log may have lost them.
    """


_CANNOT_TELL = frozenset(
    {UnknownReason.DEFERRED, UnknownReason.SKIPPED, UnknownReason.UNAUTHORIZED, UnknownReason.LOST_UNREAD}
)


def telling(reason: UnknownReason, coverage: Coverage) -> Telling:
    """How offsets that have no verdict for a given reason are reported.

    `UnknownReason.LOG_START_DIFFERS` depends on the logs as well. While they begin at different offsets, one replica
    may lack records that consumers of the others still get. Once all begin at the same offset, no replica holds those
    records, and nobody can find out whether one had lost them.

    Args:
        reason: why the offsets have no verdict.
        coverage: the coverage of their partition.
    """
    if reason in PASSING:
        return Telling.ON_ITS_WAY
    if reason is UnknownReason.LOG_START_DIFFERS and coverage.begins_apart:
        return Telling.CANNOT_TELL
    return Telling.CANNOT_TELL if reason in _CANNOT_TELL else Telling.IN_PART


def unknown_offsets(snapshot: Snapshot) -> Mapping[TopicPartition, Mapping[UnknownReason, int]]:
    """By partition and reason, how many offsets have no verdict. Zeros are left out.

    Each number is the larger one of the two isolation levels, because most offsets lack a verdict at both.
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
    """Of the offsets that are reported in a given way, how many have no verdict, by reason.

    Args:
        snapshot: the present snapshot.
        how: the way in which they are reported.
        places: the partitions that count; None for all.
    """
    found: Counter[UnknownReason] = Counter()
    for place, counts in unknown_offsets(snapshot).items():
        if places is None or place in places:
            coverage = snapshot.coverage[place]
            found.update({reason: n for reason, n in counts.items() if telling(reason, coverage) is how})
    return found


def to_be_read(snapshot: Snapshot) -> int:
    """How many offsets will get a verdict once every replica has been read for the first time.

    Offsets that need an audit are not counted.
    """
    reason = UnknownReason.BEFORE_FIRST_READING
    return sum(
        counts.get(reason, 0)
        for place, counts in unknown_offsets(snapshot).items()
        if all(one.reason != reason for one in snapshot.coverage[place].unread)
    )


def in_part(snapshot: Snapshot) -> Mapping[TopicPartition, Part]:
    """The partitions that are known to agree in part only, each with its first reason in `Part`."""
    return snapshot.once(_in_part)


def _in_part(snapshot: Snapshot) -> Mapping[TopicPartition, Part]:
    lacking = (
        place
        for place, counts in unknown_offsets(snapshot).items()
        if any(telling(reason, snapshot.coverage[place]) is not Telling.ON_ITS_WAY for reason in counts)
    )
    absent = (absence.place for absence in snapshot.absences.absent)
    found: dict[TopicPartition, Part] = dict.fromkeys(catching_up(snapshot), Part.CATCHING_UP)
    found |= dict.fromkeys(absent, Part.ABSENT)
    found |= dict.fromkeys(alone(snapshot), Part.ALONE)
    return found | dict.fromkeys(lacking, Part.LACKING)


def parts_in_words(parts: Collection[Part]) -> str:
    """How many partitions are known to agree in part only, by reason: ``2 are catching up, 1 is known in part``."""
    counts = Counter(parts)
    return ", ".join(
        f"{counts[part]:,} {agreed(counts[part], *words)}"
        for part, words in (
            (Part.CATCHING_UP, ("is catching up", "are catching up")),
            (Part.ABSENT, ("lacks a replica now", "lack a replica now")),
            (Part.ALONE, ("has one watched replica", "have one watched replica")),
            (Part.LACKING, ("is known in part", "are known in part")),
        )
        if counts[part]
    )


def catching_up(snapshot: Snapshot) -> list[TopicPartition]:
    """The partitions that have not caught up since they were first seen or last held up."""
    return [place for place, is_done in snapshot.caught_up.items() if not is_done]


_WORDS = {
    UnknownReason.NOT_READ_YET: "not read from every replica yet",
    UnknownReason.RETENTION_GAP: "read later than delete.retention.ms allows",
}
"""Words for the reasons whose names say too little, or more than is known."""


def words(reason: UnknownReason) -> str:
    """A reason why offsets have no verdict, as text: "not read from every replica yet"."""
    return _WORDS.get(reason, reason.replace("_", " "))


def without_verdict(coverage: Coverage, reasons: Iterable[UnknownReason]) -> str:
    """How many offsets of a partition have no verdict, in words, for each of some reasons. Empty if none.

    If offsets lack a verdict at one isolation level only, the text names that level.

    Args:
        coverage: the partition's coverage.
        reasons: the reasons.
    """
    found = ((reason, coverage.unknown_for(reason)) for reason in reasons)
    return ", ".join(
        f"{max(counts):,} {words(reason)}" + ("" if all(counts) else f" as {_view_of(counts)}")
        for reason, counts in found
        if any(counts)
    )


def _view_of(counts: tuple[int, int]) -> str:
    return next(level for level in IsolationLevel if counts[level]).name.lower()


__all__ = [
    "Part",
    "Telling",
    "catching_up",
    "in_part",
    "parts_in_words",
    "telling",
    "to_be_read",
    "unknown_by",
    "unknown_offsets",
    "without_verdict",
    "words",
]
