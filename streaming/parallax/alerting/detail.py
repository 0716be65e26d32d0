"""Which partitions have Prometheus series of their own (setting ``alerting.series``): all, or those that differ.

A job has some forty series for each partition. With ``alerting.series: differing`` only partitions with something to
report have series. A finding or another lasting fact is reported immediately. A state that comes and goes in a healthy
job, such as offsets still to be read, is reported once it has lasted for five minutes. The series of a partition stay
for an hour after its last report. An alert with a ``for`` begins to wait when the series appears. Pure: no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from parallax.alerting.audited import CALM, last_audits
from parallax.alerting.state import Snapshot
from parallax.model import TopicPartition

LASTING_S = 300.0
"""How many seconds a state that comes and goes must have lasted before it is shown."""

SHOWN_S = 3600.0
"""For how many seconds something is shown after it last had something to report. So its end is seen."""


MOST_REPLICAS = 6000
"""How many replicas have series under ``auto``. A scrape of these takes 2 s of a core; Prometheus waits for 10 s."""


class Series(StrEnum):
    """The values of ``alerting.series``: which partitions have Prometheus series of their own.

    ``all`` and ``differing`` mean all partitions, and those with something to report. ``auto`` means all, but
    ``differing`` once there are more than `MOST_REPLICAS` replicas.
    """

    AUTO = "auto"
    ALL = "all"
    DIFFERING = "differing"


@dataclass
class Lasting:
    """Decides which things to show: those that have had something to report for long, and for an hour afterwards.

    A thing is any key, such as a partition. It remembers since when each one has had something to report.
    """

    _since: dict[Hashable, float] = field(default_factory=dict)
    _until: dict[Hashable, float] = field(default_factory=dict)

    def shown(self, now: float, present: Collection[Hashable], at_once: Collection[Hashable] = ()) -> set[Hashable]:
        """Take in which keys have something to report now, and return those to show.

        A key is shown from when it has had something to report for five minutes, until an hour after it last had.

        Args:
            now: the present, in seconds on any running clock.
            present: the keys with something to report now.
            at_once: the keys to show immediately, without waiting for five minutes.
        """
        self._since = {key: self._since.get(key, now) for key in present}
        lasting = {key for key, since in self._since.items() if now - since >= LASTING_S}
        self._until = {key: until for key, until in self._until.items() if until > now}
        self._until |= dict.fromkeys(lasting | set(at_once), now + SHOWN_S)
        return set(self._until)


class Detail:
    """Reduces snapshots to the partitions with something to report, so that there are fewer series."""

    def __init__(self) -> None:
        self._places = Lasting()

    def of(self, snapshot: Snapshot, undecided: Collection[TopicPartition]) -> Snapshot:
        """The snapshot with only the partitions that have series now: those with something to report, and recent ones.

        Args:
            snapshot: the present snapshot.
            undecided: partitions with offsets that have no verdict, or are still to be read.
        """
        unread = {place for place, is_read in snapshot.initially_read.items() if not is_read}
        stalled = {TopicPartition(*r[:2]) for r, s in snapshot.replicas.items() if s.stands_since is not None}
        present = {*undecided, *unread, *stalled}
        return _reduced(snapshot, self._places.shown(snapshot.taken_at, present, _told(snapshot)))


def _told(snapshot: Snapshot) -> set[TopicPartition]:
    """Partitions with something to report immediately."""
    findings = snapshot.findings.standing
    found = {TopicPartition(finding.topic, finding.partition) for finding in findings}
    found |= {place for place, n in snapshot.findings.pending.items() if n}
    found |= {TopicPartition(*replica[:2]) for replica in snapshot.refused}
    found |= {TopicPartition(*r[:2]) for r, s in snapshot.replicas.items() if s.frozen_for_s}
    return found | {place for place, one in last_audits(snapshot).items() if one.outcome not in CALM}


def _reduced(snapshot: Snapshot, places: Collection[Hashable]) -> Snapshot:
    return replace(
        snapshot,
        replicas={r: s for r, s in snapshot.replicas.items() if r[:2] in places},
        assigned={place: brokers for place, brokers in snapshot.assigned.items() if place in places},
        positions={key: at for key, at in snapshot.positions.items() if key[0][:2] in places},
        coverage={place: c for place, c in snapshot.coverage.items() if place in places},
        initially_read={place: is_read for place, is_read in snapshot.initially_read.items() if place in places},
        audits=replace(
            snapshot.audits, results={p: found for p, found in snapshot.audits.results.items() if p in places}
        ),
    )


__all__ = ["LASTING_S", "MOST_REPLICAS", "SHOWN_S", "Detail", "Lasting", "Series"]
