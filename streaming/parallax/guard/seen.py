"""A topic's settings, and whether its replicas are in sync, as the brokers showed them at one look. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parallax.guard.holds import Absentee


@dataclass(frozen=True, slots=True)
class Shown:
    """The value that one broker shows for one setting of a topic.

    Attributes:
        is_own: whether it is the topic's own value, not a default.
    """

    value: str
    is_own: bool

    @property
    def own(self) -> str | None:
        """The value if it is set on the topic itself; None if it is a default."""
        return self.value if self.is_own else None


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """Everything that the brokers showed of one topic at one look.

    Attributes:
        topic_id: empty if there is no such topic.
        settings: by broker that hosts it, the settings that it shows; brokers that do not answer are left out.
        must_show: the brokers that lead or are in sync for one of its partitions. The guard's values count only once
            all of these show them.
        is_in_sync: whether all replicas of all partitions are in sync, and no replica is known to be absent.
        free_percent: how much space is free on the fullest log directory that holds one of its replicas; None if that
            is not known.
        unreadable: why the brokers do not show the topic's settings; empty if they do.
        spaceless: why the brokers do not say how much space there is; empty if they do, or nobody asked.
        in_sync: the topic's replicas that are in sync.
    """

    topic_id: str
    settings: Mapping[int, Mapping[str, Shown]]
    must_show: frozenset[int]
    is_in_sync: bool
    free_percent: float | None = None
    unreadable: str = ""
    spaceless: str = ""
    in_sync: frozenset[Absentee] = frozenset()

    def agreed(self, name: str) -> Shown | None:
        """Return the value of the setting ``name`` if all brokers of ``must_show`` show the same one.

        None if they differ, or if one does not answer.
        """
        shown = [self.settings[b].get(name) for b in self.must_show if b in self.settings]
        first = shown[0] if shown else None
        if first is None or len(shown) < len(self.must_show) or any(one != first for one in shown):
            return None
        return first


__all__ = ["Shown", "TopicSeen"]
