"""Lets one read_committed Fetch serve both isolation levels of a log, up to its last stable offset.

Below the last stable offset a broker sends both levels the same batches. So the log is fetched in read_committed, from
the position of the level that has read less (*behind*). When the reading reaches the position of the other level
(*ahead*), the rows are for both. Above the last stable offset, read_uncommitted is read alone up to the high watermark.

In two cases each level gets a Fetch of its own: an answer fails, or the log may have been truncated below the position
of the level that is ahead. So each level gets the same rows as if it were read alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from parallax.model import IsolationLevel, RowKind
from parallax.replica.outcomes import as_uncommitted
from parallax.replica.reader import Mark, Shown
from parallax.source.columns import Readers
from parallax.source.standing import Progress

LEVELS = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)


@dataclass
class Shared:
    """One log that one Fetch reads for both isolation levels, with how far each level has read.

    Attributes:
        behind: the level that has read less; the shared reading begins at its position.
        ahead: the level that has read more. If both are at one offset, either may be ``behind``.
        joined: whether the reading has reached the position of ``ahead``, so that its rows are for both levels.
        apart: whether the level that is ahead needs a Fetch of its own.
    """

    behind: Progress
    ahead: Progress
    joined: bool = False
    apart: bool = False

    @classmethod
    def of(cls, uncommitted: Progress, committed: Progress) -> Self | None:
        """The shared reading of a log; None if one Fetch cannot serve both isolation levels.

        It cannot if their ranges have no offset in common, or belong to different topic ids. It cannot either if both
        begin at one offset, and not both know the same of the log below it.

        Args:
            uncommitted: how far read_uncommitted has read.
            committed: how far read_committed has read.
        """
        low, high = sorted((committed, uncommitted), key=lambda progress: progress.position)
        end = committed.piece.span.end
        if high.position >= end or uncommitted.piece.span.end < end:
            return None
        if uncommitted.piece.span.topic_id != committed.piece.span.topic_id:
            return None  # One has yet to learn that the topic was re-created.
        even = low.position == high.position
        known = {(progress.epoch, progress.piece.span.may_be_another) for progress in (low, high)}
        if even and len(known) > 1:
            return None  # A Fetch asks about one leader epoch: whether the log still holds what was read in it.
        return cls(low, high, joined=even)

    @property
    def end(self) -> int:
        """The offset before which the shared reading stops: the end of read_committed's range.

        Above it, read_uncommitted is read alone.
        """
        return self.of_level(IsolationLevel.READ_COMMITTED).piece.span.end

    @property
    def served(self) -> tuple[Progress, ...]:
        """The `Progress` of each level that the rows just read are for: of one level, or of both."""
        return (self.behind, self.ahead) if self.joined else (self.behind,)

    @property
    def over(self) -> list[Progress]:
        """The `Progress` of each level that needs no further Fetch once the shared reading has stopped.

        For read_committed that is always so. read_uncommitted may go on alone, above the last stable offset.
        """
        committed = self.of_level(IsolationLevel.READ_COMMITTED)
        return [p for p in self.served if p is committed or p.has_ended]

    def look_at(self, mark: Mark) -> None:
        """Decide whether further rows are for both levels, once the reading has passed the level that is ahead.

        They are if the log's leader epoch there is the epoch that this level has read last: ``joined`` becomes True.
        Then the log still holds what the level has read, since epochs only grow along a log. Otherwise ``apart``
        becomes True: the level needs a Fetch of its own. Before the reading has passed that level, nothing changes.

        Args:
            mark: how far the log has been read now, with the leader epoch there.
        """
        if self.joined or self.apart or mark.position <= self.ahead.position:
            return
        self.joined = self.ahead.epoch in (-1, mark.epoch)
        self.apart = not self.joined

    def first(self, level: IsolationLevel) -> int:
        """The offset from which on the rows just read are for an isolation level.

        It is 2^63 - 1 if none of them are for that level.
        """
        progress = self.of_level(level)
        return progress.position if any(progress is one for one in self.served) else _NONE

    def reached(self, mark: Mark) -> None:
        """Move the position of each isolation level that the rows just read are for to that of ``mark``."""
        for progress in self.served:
            progress.reached(mark)

    def of_level(self, level: IsolationLevel) -> Progress:
        """The `Progress` of one isolation level."""
        return self.behind if self.behind.piece.reader.isolation == level else self.ahead


_NONE = np.iinfo(np.int64).max


def shared(read: Iterable[Progress]) -> list[Shared]:
    """The logs of a Spark task that one Fetch can read for both isolation levels.

    Args:
        read: how far each reader of the Spark task has read.

    Returns:
        One `Shared` for each such log, in the order in which ``read`` first names its partition.
    """
    levels: dict[Any, list[Progress]] = {}
    for progress in read:
        levels.setdefault(progress.piece.reader.place, []).append(progress)
    pairs = (sorted(both, key=lambda p: p.piece.reader.isolation) for both in levels.values() if len(both) == 2)
    return [found for pair in pairs if (found := Shared.of(*pair)) is not None]


class Levels:
    """Divides the rows of a shared Fetch into those of read_uncommitted and those of read_committed.

    Args:
        logs: the logs that are read, in the order of their spans.
    """

    def __init__(self, logs: Sequence[Shared]) -> None:
        self._logs = logs
        self._waiting: list[Shown] = []
        self._names = {level: Readers([log.of_level(level).piece.reader for log in logs]) for level in LEVELS}

    def take(self, shown: Shown) -> Iterator[tuple[Shown, Readers]]:
        """Yield the rows of each isolation level, once it is known how far the logs have been read.

        Args:
            shown: rows as `parallax.replica.reader.read_ranges` yields them. They are held back until their marks come.

        Yields:
            Tuples: rows of one level, and the readers of that level. Use the marks of these rows only to see which
                spans the rows are of: rows that were held back have the marks that came later.
        """
        self._waiting.append(shown)
        if not shown.marks:
            return
        waiting, self._waiting = self._waiting, []
        for index, mark in shown.marks:
            self._logs[index].look_at(mark)
        for level in LEVELS:
            firsts = {index: self._logs[index].first(level) for index, _ in shown.marks}
            for part in waiting:
                yield _of_level(replace(part, marks=shown.marks), level, firsts), self._names[level]
        for index, mark in shown.marks:
            self._logs[index].reached(mark)


def _of_level(shown: Shown, level: IsolationLevel, firsts: dict[int, int]) -> Shown:
    """The rows that are for one isolation level: those from a first offset of each log on."""
    columns, outcome, of = shown.columns, shown.outcome, shown.of
    mine = columns.offset >= (firsts[shown.marks[0][0]] if of is None else _by_row(firsts, of))
    if level is IsolationLevel.READ_UNCOMMITTED:
        mine &= columns.kind <= RowKind.ABORT
        outcome = as_uncommitted(columns, outcome)
    if not mine.all():
        columns, outcome, of = columns.only(mine), outcome[mine], None if of is None else of[mine]
    return replace(shown, columns=columns, outcome=outcome, of=of)


def _by_row(firsts: dict[int, int], of: Any) -> Any:
    table = np.empty(max(firsts) + 1, np.int64)
    table[list(firsts)] = list(firsts.values())
    return table[of]


__all__ = ["LEVELS", "Levels", "Shared", "shared"]
