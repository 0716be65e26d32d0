"""Which replicas may have another log than the last look of their findings has shown. Pure.

A broker that comes back into the set in sync may have copied its replica again, or rebuilt its index. A repair may have
written an end marker to it. Until the next look nobody knows whether such a replica is still wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from parallax.findings.finding import Finding, asked_ms
from parallax.model import TopicPartition
from parallax.moments import milliseconds

Renewed = Mapping[tuple[TopicPartition, int], int]
"""By partition and broker, when its log may have been changed, milliseconds since 1970 UTC."""


class Joined:
    """Finds in rows of ``replica_progress`` who has come back into the set in sync of a partition."""

    def __init__(self) -> None:
        self._in_sync: dict[TopicPartition, frozenset[int]] = {}

    def take_in(self, rows: Iterable[Mapping[str, Any]], places: Collection[TopicPartition]) -> Renewed:
        """Take in rows of progress. Returns who has come back, and when that was seen.

        Args:
            rows: of any number of ticks, in any order.
            places: the partitions to be followed. The first row of one says only who is in sync.
        """
        found: dict[tuple[TopicPartition, int], int] = {}
        about = [row for row in rows if (row["topic"], row["partition"]) in places and row.get("isr") is not None]
        for row in sorted(about, key=lambda one: one["observed_at"]):
            place, in_sync = TopicPartition(row["topic"], row["partition"]), frozenset(row["isr"])
            at_ms = milliseconds(row["observed_at"])
            found |= {(place, broker): at_ms for broker in in_sync - self._in_sync.get(place, in_sync)}
            self._in_sync[place] = in_sync
        self._in_sync = {place: brokers for place, brokers in self._in_sync.items() if place in places}
        return found


class Unconfirmed:
    """Knows which replicas may have been changed since their finding was last seen to be true."""

    def __init__(self) -> None:
        self._looked: dict[str, int] = {}
        self._changed: dict[str, dict[int, int]] = {}

    def renewed(self, finding: Finding, brokers: Mapping[int, int]) -> bool:
        """Note when replicas of a finding's partition may have been changed.

        Args:
            finding: the finding's last event.
            brokers: by broker, when; milliseconds since 1970 UTC.

        Returns:
            Whether the finding has not been seen to be true since, and so has to be looked at.
        """
        looked = max(asked_ms(finding), self._looked.get(finding.finding_id, 0))
        since = {broker: at for broker, at in brokers.items() if at > looked}
        if since:
            self._changed.setdefault(finding.finding_id, {}).update(since)
        return bool(since)

    def confirmed(self, finding_id: str, at_ms: int) -> None:
        """Note that the finding ``finding_id`` was true when the replicas were asked.

        Args:
            finding_id: the finding's id.
            at_ms: when they were asked, milliseconds since 1970 UTC.
        """
        self._looked[finding_id] = max(at_ms, self._looked.get(finding_id, 0))
        left = {broker: at for broker, at in self._changed.pop(finding_id, {}).items() if at > at_ms}
        if left:
            self._changed[finding_id] = left

    def keep(self, finding_ids: Collection[str]) -> None:
        """Forget all findings but those with the ids ``finding_ids``."""
        self._looked = {name: at for name, at in self._looked.items() if name in finding_ids}
        self._changed = {name: brokers for name, brokers in self._changed.items() if name in finding_ids}

    @property
    def brokers(self) -> dict[str, frozenset[int]]:
        """By finding id, the brokers whose replicas may have been changed since; only findings with any."""
        return {name: frozenset(brokers) for name, brokers in self._changed.items()}


__all__ = ["Joined", "Renewed", "Unconfirmed"]
