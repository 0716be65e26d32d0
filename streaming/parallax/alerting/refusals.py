"""Which replicas Parallax is not authorized to read, since when, and when that begins and ends.

Not authorized is not unreachable: the broker answers, and says no. What such a replica holds is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parallax.model import MissingRight, ReadEvent

Replica = tuple[str, int, int]
"""Topic, partition, broker."""

NOBODY = -1, -1
"""Partition and broker of a topic whose partitions cannot be seen."""

TopicRight = tuple[str, MissingRight]
"""A topic, and what is missing there."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A replica that the job may not read.

    Attributes:
        right: what is missing.
        log_end_offset: where its log ends; None where that may not be asked either.
    """

    right: MissingRight
    log_end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A right on a topic went missing, or is there again.

    Attributes:
        began: it went missing.
        replicas: how many replicas are concerned at this moment; 0 at the end.
        seconds: for how long it was missing; 0 at the beginning.
        error: the first broker's words at the beginning; empty at the end.
    """

    topic: str
    right: MissingRight
    began: bool
    replicas: int = 0
    seconds: float = 0.0
    error: str = ""


class Refusals:
    """Follows the rows of ``replica_progress``, tick by tick."""

    def __init__(self) -> None:
        self._standing: dict[Replica, Refusal] = {}
        self._reported_at: dict[Replica, float] = {}
        self._since: dict[TopicRight, float] = {}
        self._seen: set[TopicRight] = set()

    @property
    def standing(self) -> Mapping[Replica, Refusal]:
        """The replicas that the job may not read now; a copy."""
        return dict(self._standing)

    @property
    def counts(self) -> Mapping[TopicRight, int]:
        """How many replicas the job may not read, by topic and missing right; 0 where that is over."""
        counted = Counter((topic, refusal.right) for (topic, _, _), refusal in self._standing.items())
        return {place: counted[place] for place in self._seen}

    def take_in(self, rows: Iterable[Mapping[str, Any]], now: float) -> list[Change]:
        """Follow the refusals in the rows of one tick.

        A replica that is unreachable says nothing of rights: what it said last still counts.

        Args:
            rows: of ``replica_progress``.
            now: seconds since 1970 UTC.

        Returns:
            What began and ended with this tick, by topic and not by replica.
        """
        errors: dict[TopicRight, str] = {}
        for row in rows:
            replica = str(row["topic"]), int(row["partition"]), int(row["broker"])
            self._standing.pop((replica[0], *NOBODY), None)  # the rows name the topic by now
            if row.get("missing_right"):
                right = MissingRight(row["missing_right"])
                self._standing[replica] = Refusal(right, row.get("log_end_offset"))
                errors.setdefault((replica[0], right), str(row.get("error") or ""))
            elif row["reachable"] or row.get("problem") != ReadEvent.UNREACHABLE:
                self._standing.pop(replica, None)
            self._reported_at[replica] = now
        return [*self._began(errors, now), *self._ended(now)]

    def refused(self, replicas: Iterable[Replica], right: MissingRight, error: str, now: float) -> list[Change]:
        """Take in a refusal that another part of the job met: a reader, or the check at the start.

        Args:
            replicas: which; with `NOBODY` a topic whose partitions cannot be seen.
            right: what is missing at least; what a row said of a replica before is more precise and stays.
            error: the broker's words.
            now: seconds since 1970 UTC.
        """
        errors: dict[TopicRight, str] = {}
        for replica in replicas:
            standing = self._standing.setdefault(replica, Refusal(right))
            self._reported_at[replica] = now
            errors.setdefault((replica[0], standing.right), error)
        return list(self._began(errors, now))

    def forget(self, before: float) -> None:
        """Forget replicas that no row has named since a moment: they were reassigned, or their topic was deleted.

        No right came back there, so this is no `Change`. A topic whose partitions cannot be seen has no rows, and
        stays.

        Args:
            before: seconds since 1970 UTC.
        """
        gone = {r for r, at in self._reported_at.items() if at < before and r[1:] != NOBODY}
        self._standing = {r: refusal for r, refusal in self._standing.items() if r not in gone}
        self._reported_at = {r: at for r, at in self._reported_at.items() if r not in gone}
        counts, named = self.counts, {topic for topic, _, _ in self._reported_at}
        self._since = {place: at for place, at in self._since.items() if counts[place]}
        self._seen = {place for place in self._seen if counts[place] or place[0] in named}

    def _began(self, errors: Mapping[TopicRight, str], now: float) -> Iterable[Change]:
        for place, error in errors.items():
            self._seen.add(place)
            if place not in self._since:
                self._since[place] = now
                yield Change(*place, began=True, replicas=self.counts[place], error=error)

    def _ended(self, now: float) -> Iterable[Change]:
        counts = self.counts
        for place in [place for place in self._since if not counts[place]]:
            yield Change(*place, began=False, seconds=now - self._since.pop(place))


__all__ = ["NOBODY", "Change", "Refusal", "Refusals"]
