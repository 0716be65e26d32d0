"""A *snapshot*: everything that a job knows about itself at one moment. Pure.

The status page, the metrics and the status line are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from parallax.alerting.listing import Listed
from parallax.alerting.refusals import Refusal
from parallax.audit.result import PartitionResult
from parallax.compare.suspect import Coverage
from parallax.findings.hanging_life import Hanging
from parallax.findings.happenings import FindingsStatus
from parallax.guard.absences import Absences
from parallax.guard.run import GuardStatus
from parallax.model import IsolationLevel, MissingRight, TopicPartition
from parallax.shell import ANYWHERE, Shell
from parallax.source.repeats import LONGEST_US
from parallax.views.pause import Paused
from parallax.views.sharing import Saved
from parallax.views.tables import TableSize

WANTED = "topics.include or topics.pattern"
"""The settings that say which topics are watched."""
Replica = tuple[str, int, int]
"""A replica as topic, partition number and broker id."""

Leadership = tuple[int | None, tuple[int, ...] | None]
"""Id of a partition's leader, and ids of its replicas in sync.

The first is None if there is no leader, the second if nobody has reported the replicas.
"""

Derived = TypeVar("Derived")

_IDLE_S = 1.5 * LONGEST_US / 1e6
"""For how many seconds the comparison may give no result while there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """What one replica reported last about its log. An offset is None if it is not known.

    Attributes:
        high_watermark: below it, what is in the log is on all replicas in sync.
        last_stable_offset: below it read_committed consumers are given everything.
        log_start_offset: the log's first offset.
        log_end_offset: the next offset to be written.
        stands_since: since when the last stable offset has not moved although it is below the high watermark, seconds
            since 1970 UTC. None if it moves, or has reached the high watermark.
        frozen_for_s: for how many seconds the comparison has seen its last stable offset behind that of other replicas.
        reported_at: when anything was last reported about the replica, seconds since 1970 UTC by this machine's clock.
        offsets_at: when the replica last reported these offsets itself, by the same clock.
        answers: whether it answered when it was last asked, even if only to refuse.
        offline_since: since when its broker answers, but not for this replica, seconds since 1970 UTC. None if the
            replica answers, or if the broker is away: then the replica is as its broker is.
    """

    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    stands_since: float | None = None
    frozen_for_s: float = 0.0
    reported_at: float = 0.0
    offsets_at: float = 0.0
    answers: bool = True
    offline_since: float | None = None


@dataclass(frozen=True, slots=True)
class QueryState:
    """The state of one streaming query, as the supervisor last saw it.

    Attributes:
        up: whether it runs.
        restarts: how often it was started again.
        last_progress: when it last made progress, seconds since 1970 UTC; None if it never did.
        batch_seconds: how long its last micro-batch took, once it was planned.
        rows: how many rows it has read since the job started.
        checkpoints_set_aside: how many of its checkpoints were set aside because they could not be used.
    """

    up: bool
    restarts: int
    last_progress: float | None
    batch_seconds: float
    rows: int
    checkpoints_set_aside: int = 0


@dataclass(frozen=True, slots=True)
class AuditState:
    """What the job's audits have found and read.

    Attributes:
        results: by partition, the result of its last audit, and when that audit ended in seconds since 1970 UTC.
        runs: by ending (``success`` or ``failure``), how many audits had that ending.
        read_bytes: by broker, how many bytes audits have read since the job started.
        ended_at: when the last audit that did not fail ended, seconds since 1970 UTC.
        spots: by result of a spot check (`parallax.audit.spot.Spot`), how many records had that result.
    """

    results: Mapping[TopicPartition, tuple[PartitionResult, float]] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)
    read_bytes: Mapping[int, int] = field(default_factory=dict)
    ended_at: float | None = None
    spots: Mapping[str, int] = field(default_factory=dict)


_BY_PLACE = (
    "replicas",
    "positions",
    "coverage",
    "refused",
    "initially_read",
    "initially_left",
    "caught_up",
    "assigned",
    "left_out_of",
    "preferred",
    "leadership",
    "comparison_errors",
    "behind_since",
    "waiting_s",
)
"""The attributes of a snapshot whose keys are partitions, replicas, or isolation levels of these."""


def _topic_of(key: Any) -> str:
    """The topic of a partition or replica, or of a view of one."""
    first = key[0]
    return first if isinstance(first, str) else str(first[0])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a job knows about itself at one moment; the mappings are copies.

    Times are in seconds since 1970 UTC.

    Attributes:
        replicas: by replica, what it reported last.
        positions: by replica and isolation level, the next offset to read.
        coverage: by partition, how far it has been compared, and what of it is unknown.
        reachable: by broker, whether it answered when it was last asked.
        refused: the replicas that the job may not read.
        unauthorized: by topic and permission that was ever missing, how many replicas the job may not read; 0 if it is
            there again.
        queries: by name of a streaming query, its state.
        findings: the findings that are not over, how many suspects wait, and the like.
        listed: the findings that are reported one by one.
        left_out: how many findings are not over, and not in ``listed`` because it is full.
        findings_loaded: whether the job has read the findings from their table.
        maintenance: by result (``success`` or ``failure``), how many upkeeps of tables had it.
        maintained_at: when an upkeep last succeeded; None if none has.
        tables: by table, how large it was after its last upkeep.
        shared: by view, what upkeep has taken out of it since other replicas show it alike.
        lease: on an object store, the number of the job's lease and when it was last renewed; None elsewhere.
        audits: what the job's audits have found and read.
        initially_read: by partition, whether it was read up to where its logs ended when the job started.
        initially_left: by replica that was not read that far, how many offsets are left to read.
        expected: partitions that an earlier process of the job read until it stopped, and of which no broker has
            reported anything yet.
        started_at: when the job started.
        taken_at: the moment of the snapshot.
        all_compared_at: when everything that was recorded by then had been compared, the last time; None if it never
            had.
        mismatches: by address at which another cluster answers, the id of that cluster.
        comparison_errors: by partition, how often a fault of Parallax kept it from being compared.
        hanging: the transactions that hang.
        assigned: by partition, the brokers that hold it and are to be read. A partition that was never reported is
            missing.
        preferred: by partition, the first broker of its assignment. An election of preferred leaders makes it the
            leader if it is in sync.
        leadership: by partition, its leader and the brokers in sync.
        left_out_of: by partition, the brokers that hold it and are not to be read (``topics.brokers``).
        nothing_since: since when there has been nothing to watch. None if there is something, or if that is not known
            yet.
        caught_up: by partition, whether it has caught up: it is compared up to its goal, and no offset below waits for
            a verdict. The goal is where its logs ended when it was first seen, or when its last outage or pause ended.
        absences: the absent and late replicas, with their bounds.
        audits_at: by partition that was read or copied too late, when the job will audit it. None if the job audits
            none for that reason.
        shell: how commands name the cluster and the job.
        wanted: the settings that say which topics are watched, with their values.
        guard: what the guard holds and refuses; None until it has looked for the first time.
        paused: by broker, the pause of reading that is on; the key -1 (`ALL`) means all brokers.
        storage_full: whether a disk that the job writes to is full.
        storage_id: the id of the job's storage; None if it is not known yet.
        behind_since: by replica and isolation level with unread offsets, since when the replica has shown them.
        waiting_s: by partition and isolation level, for how many seconds it has waited for a verdict at one offset.
            Time in which its comparison could not go on does not count.
    """

    replicas: Mapping[Replica, ReplicaState]
    positions: Mapping[tuple[Replica, IsolationLevel], int]
    coverage: Mapping[TopicPartition, Coverage]
    reachable: Mapping[int, bool]
    refused: Mapping[Replica, Refusal]
    unauthorized: Mapping[tuple[str, MissingRight], int]
    queries: Mapping[str, QueryState]
    findings: FindingsStatus
    listed: tuple[Listed, ...]
    left_out: int
    findings_loaded: bool
    maintenance: Mapping[str, int]
    maintained_at: float | None
    tables: Mapping[str, TableSize]
    shared: Mapping[str, Saved]
    lease: tuple[int, float | None] | None
    audits: AuditState
    initially_read: Mapping[TopicPartition, bool]
    started_at: float
    taken_at: float
    all_compared_at: float | None = None
    expected: frozenset[TopicPartition] = frozenset()
    absences: Absences = field(default_factory=Absences)
    audits_at: Mapping[TopicPartition, float] | None = field(default_factory=dict)
    shell: Shell = ANYWHERE
    wanted: str = WANTED
    guard: GuardStatus | None = None
    paused: Paused = field(default_factory=dict)
    mismatches: Mapping[str, str] = field(default_factory=dict)
    comparison_errors: Mapping[TopicPartition, int] = field(default_factory=dict)
    storage_full: bool = False
    storage_id: str | None = None
    hanging: tuple[Hanging, ...] = ()
    initially_left: Mapping[Replica, int] = field(default_factory=dict)
    caught_up: Mapping[TopicPartition, bool] = field(default_factory=dict)
    assigned: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    preferred: Mapping[TopicPartition, int] = field(default_factory=dict)
    left_out_of: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    nothing_since: float | None = None
    leadership: Mapping[TopicPartition, Leadership] = field(default_factory=dict)
    behind_since: Mapping[tuple[Replica, IsolationLevel], float] = field(default_factory=dict)
    waiting_s: Mapping[tuple[TopicPartition, IsolationLevel], float] = field(default_factory=dict)
    _derived: dict[Callable[[Snapshot], Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, derive: Callable[[Snapshot], Derived]) -> Derived:
        """The result of ``derive``, a pure function of this snapshot. It is computed the first time, and remembered."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        found: Derived = self._derived[derive]
        return found

    def without(self, topics: Collection[str]) -> Snapshot:
        """The snapshot without the partitions and replicas of some deleted topics."""

        def left(known: Mapping[Any, Any]) -> Mapping[Any, Any]:
            return {key: value for key, value in known.items() if _topic_of(key) not in topics}

        known: set[TopicPartition] = {*self.coverage, *self.assigned}
        known |= {one.place for one in self.absences.absent} | {one.place for one in self.absences.late}
        places = {place for place in known if place.topic not in topics}
        rest: dict[str, Any] = {name: left(getattr(self, name)) for name in _BY_PLACE}
        return replace(self, **rest, absences=self.absences.of(places))

    def holds(self, replica: Replica) -> bool:
        """Whether a broker holds a replica of the partition by the last progress, and is to be read.

        True also if no progress has said which brokers hold the partition.
        """
        topic, partition, broker = replica
        return broker in self.assigned.get(TopicPartition(topic, partition), (broker,))

    @property
    def left_out_brokers(self) -> frozenset[int]:
        """Ids of the brokers that hold partitions and are not to be read (``topics.brokers``)."""
        return frozenset().union(*self.left_out_of.values())

    def got_on_at(self, query: QueryState) -> float:
        """When a streaming query last made progress, seconds since 1970 UTC. If it never did: when the job started."""
        return self.started_at if query.last_progress is None else query.last_progress

    @property
    def heartbeat(self) -> float | None:
        """When the job last showed that reading and comparing work from end to end, seconds since 1970 UTC.

        Usually this is the last time that the comparison committed a result. There are two exceptions:

        - As long as everything recorded has been compared, it is the last time that every query looked for more. This
          holds for a few minutes after a result, because within that time some broker's report must arrive
          (`parallax.source.repeats`).
        - If there is nothing to watch, it is the last time that every query looked for more.
        """
        compared = max((c.compared_at / 1000 for c in self.coverage.values()), default=None)
        looked = min((query.last_progress or 0.0 for query in self.queries.values()), default=None)
        if self.nothing_since is not None:
            return looked
        if compared is None or looked is None or self.all_compared_at is None:
            return compared
        return max(compared, min(looked, self.all_compared_at, compared + _IDLE_S))
