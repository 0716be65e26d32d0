"""How far a Spark task has read the offsets of one reader, and why it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from parallax.moments import now_ms
from parallax.replica.errors import ReplicaError
from parallax.replica.reader import Mark
from parallax.source.planning import Piece


@dataclass
class Progress:
    """How far the offsets of one reader (a *piece*) were read, what the replica said, and why reading ended.

    ``position`` is the next offset to read, and ``at_ms`` when it was reached, in milliseconds since 1970 UTC.
    ``epoch`` is the leader epoch of the batch below it, -1 if not known. Three fields say why reading ended early, and
    are empty or None otherwise. ``passed_over`` names offsets that have left the replica's own log. ``skipped`` names a
    batch that no replica can show. ``error`` is why a Fetch failed.
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
        """The progress of offsets that nobody has begun to read."""
        return cls(piece, piece.span.start, now_ms(), epoch=piece.follows_epoch)

    @property
    def has_ended(self) -> bool:
        """Whether no further Fetch is needed: the offsets were read to their end, or reading ended early."""
        at_end = self.position >= self.piece.span.end
        return at_end or self.error is not None or bool(self.passed_over or self.skipped)

    @property
    def is_wanted(self) -> bool:
        """Whether there is any offset to read."""
        return self.piece.span.start < self.piece.span.end

    def reached(self, mark: Mark) -> None:
        """Set how far the offsets have been read, and what the replica said with that answer."""
        self.came_from = self.position
        # What lies below a position that moved without a batch is of no epoch that is known.
        self.epoch = mark.epoch if mark.position > self.position else self.epoch
        self.position, self.mark, self.at_ms = mark.position, mark, now_ms()

    def pass_over(self, position: int, start: int, *, in_tiered_storage: bool) -> None:
        """End the reading at ``start``, because the offsets below have left the replica's own log.

        Args:
            position: the first offset that was passed over.
            start: the offset at which to go on.
            in_tiered_storage: whether tiered storage still holds the offsets between.
        """
        where = " but in tiered storage" if in_tiered_storage else ""
        self.passed_over = f"offsets {position} to {start - 1} are no longer in the replica's own log{where}"
        self.move(start)

    def move(self, position: int) -> None:
        """Set the next offset to read, even if nothing below it was read. The leader epoch below is then unknown."""
        self.position, self.epoch, self.at_ms = position, -1, now_ms()


__all__ = ["Progress"]
