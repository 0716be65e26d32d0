"""How far a Spark task has read the offsets of one reader, and why it has stopped reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from parallax.moments import now_ms
from parallax.replica.errors import ReplicaError
from parallax.replica.reader import Mark
from parallax.source.planning import Piece


@dataclass
class Progress:
    """How far a Spark task has read one piece (offsets of one reader), and why reading ended.

    Attributes:
        piece: the offsets to read.
        position: the next offset to read.
        at_ms: when ``position`` was reached, in ms since 1970 UTC.
        came_from: the position before the last answer; -1 before the first answer.
        mark: the watermarks in the last answer; None before the first answer.
        epoch: the leader epoch of the batch below ``position``; -1 if it is not known.
        passed_over: which offsets were passed over because the replica's own log no longer holds them; empty if none
            were.
        skipped: which batch was passed over because no replica can show it; empty if none was.
        error: why a Fetch failed; None if none did.
    """

    piece: Piece
    position: int
    at_ms: int
    came_from: int = -1
    mark: Mark | None = None
    epoch: int = -1
    passed_over: str = ""
    skipped: str = ""
    error: ReplicaError | None = None

    @classmethod
    def of(cls, piece: Piece) -> Self:
        """A `Progress` for a piece of which nothing has been read yet."""
        return cls(piece, piece.span.start, now_ms(), epoch=piece.follows_epoch)

    @property
    def has_ended(self) -> bool:
        """Whether the piece needs no further Fetch: it was read to its end, or its reading ended early."""
        at_end = self.position >= self.piece.span.end
        return at_end or self.error is not None or bool(self.passed_over or self.skipped)

    @property
    def is_wanted(self) -> bool:
        """Whether the piece has any offset to read."""
        return self.piece.span.start < self.piece.span.end

    def reached(self, mark: Mark) -> None:
        """Set how far the piece has been read now, and the watermarks that came with that answer.

        Args:
            mark: the position that the answer has reached, with these watermarks.
        """
        self.came_from = self.position
        # What lies below a position that moved without a batch is of no epoch that is known.
        self.epoch = mark.epoch if mark.position > self.position else self.epoch
        self.position, self.mark, self.at_ms = mark.position, mark, now_ms()

    def pass_over(self, position: int, start: int, *, in_tiered_storage: bool) -> None:
        """End the reading, because the replica's own log no longer holds the next offsets.

        Args:
            position: the first offset that is passed over.
            start: the offset after the last one that is passed over, which the replica's own log holds. The next
                micro-batch goes on there.
            in_tiered_storage: whether tiered storage still holds the offsets that are passed over.
        """
        where = " but in tiered storage" if in_tiered_storage else ""
        self.passed_over = f"offsets {position} to {start - 1} are no longer in the replica's own log{where}"
        self.move(start)

    def move(self, position: int) -> None:
        """Set the next offset to read, passing over the offsets before it. The leader epoch below is then unknown.

        Args:
            position: that offset.
        """
        self.position, self.epoch, self.at_ms = position, -1, now_ms()


__all__ = ["Progress"]
