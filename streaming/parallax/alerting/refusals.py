"""Which replicas Parallax is not authorized to read, since when, and when such a refusal begins or ends.

A broker that refuses does answer, so it is not unreachable. What its replica holds is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parallax.model import MissingRight, ReadEvent

Replica = tuple[str, int, int]
"""Topic, partition, broker."""

NOBODY = -1, -1
"""Partition and broker of a topic whose partitions cannot be seen."""

TopicRight = tuple[str, MissingRight]
"""A topic, and the permission that is missing there."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the job may not read one replica.

    Attributes:
        right: the permission that is missing.
        log_end_offset: where the replica's log ends; None if the job may not ask for that either.
    """

    right: MissingRight
    log_end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Says that a permission on a topic went missing, or that it is there again.

    Attributes:
        topic: the topic.
        right: the permission.
        began: whether the permission went missing; False if it is there again.
        replicas: how many replicas may not be read now without it; 0 if it is there again.
        seconds: for how long it was missing; 0 if it has just gone missing.
        error: what the first broker said that refused; empty if the permission is there again.
    """

    topic: str
    right: MissingRight
    began: bool
    replicas: int = 0
    seconds: float = 0.0
    error: str = ""


class Refusals:
    """Knows which replicas the job may not read, from rows of ``replica_progress`` and from refused readers."""

    def __init__(self) -> None:
        self._standing: dict[Replica, Refusal] = {}
        self._named: set[Replica] = set()
        self._since: dict[TopicRight, float] = {}
        self._seen: set[TopicRight] = set()

    @property
    def standing(self) -> Mapping[Replica, Refusal]:
        """The replicas that the job may not read now, each with the missing permission; a copy."""
        return dict(self._standing)

    @property
    def counts(self) -> Mapping[TopicRight, int]:
        """By topic and missing permission, how many replicas the job may not read.

        It is 0 if the permission is there again.
        """
        counted = Counter((topic, refusal.right) for (topic, _, _), refusal in self._standing.items())
        return {place: counted[place] for place in self._seen}

    def take_in(self, rows: Iterable[Mapping[str, Any]], now: float) -> list[Change]:
        """Take in the rows of one tick, and return which permissions went missing or are there again.

        A replica that does not answer says nothing of permissions, so its last answer still counts.

        Args:
            rows: rows of ``replica_progress``.
            now: seconds since 1970 UTC.

        Returns:
            One change for each topic and permission, not for each replica.
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
            self._named.add(replica)
        return [*self._began(errors, now), *self._ended(now)]

    def refused(self, replicas: Iterable[Replica], right: MissingRight, error: str, now: float) -> list[Change]:
        """Count a permission as missing because brokers refused a reader or the check at the start.

        Args:
            replicas: the replicas that may not be read; with partition and broker `NOBODY`, a topic whose partitions
                cannot be seen.
            right: the missing permission. If a row of progress has named another for a replica, that one stays, since
                it is more precise.
            error: what the broker said.
            now: seconds since 1970 UTC.

        Returns:
            The permissions that were not known to be missing before, one change for each topic and permission.
        """
        errors: dict[TopicRight, str] = {}
        for replica in replicas:
            standing = self._standing.setdefault(replica, Refusal(right))
            self._named.add(replica)
            errors.setdefault((replica[0], standing.right), error)
        return list(self._began(errors, now))

    def forget(self, gone: Collection[Replica]) -> None:
        """Forget replicas that nobody names any more: they were reassigned, or their topic was deleted.

        Their missing permission does not count as being there again. Topics whose partitions cannot be seen have no
        rows, so they are not forgotten.

        Args:
            gone: the replicas.
        """
        left = {replica for replica in gone if replica[1:] != NOBODY}
        self._standing = {r: refusal for r, refusal in self._standing.items() if r not in left}
        self._named -= left
        counts, named = self.counts, {topic for topic, _, _ in self._named}
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
