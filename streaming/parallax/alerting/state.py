"""Keeps what the job knows about itself, for metrics and the status page, behind one lock.

The job, the sinks, the comparison and the findings manager report here what they have committed. So a scrape asks no
broker and reads no table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from parallax.alerting.blind import held_up, is_read, of_queries
from parallax.alerting.catching_up import CatchingUp
from parallax.alerting.deleted import Deleted
from parallax.alerting.initial import InitialReading
from parallax.alerting.lag import Lags
from parallax.alerting.listing import Listing
from parallax.alerting.refusals import Change, Refusals
from parallax.alerting.snapshot import (
    WANTED,
    AuditState,
    Leadership,
    QueryState,
    Replica,
    ReplicaState,
    Snapshot,
)
from parallax.alerting.waiting import Waiting
from parallax.audit.result import AuditReport
from parallax.compare.suspect import BrokerCoverage, Coverage
from parallax.findings.hanging_life import Hanging
from parallax.findings.hanging_watch import Standstill
from parallax.findings.happenings import FindingsStatus
from parallax.guard.absences import Absences
from parallax.guard.run import GuardStatus
from parallax.model import IsolationLevel, MissingRight, ReadEvent, TopicPartition
from parallax.shell import ANYWHERE, Shell
from parallax.views.pause import Paused
from parallax.views.sharing import Saved
from parallax.views.tables import TableSize

_FORGET_AFTER_S = 600.0
"""A replica or partition without a report for this many seconds is gone: it was deleted or moved.

Only seconds count in which the job hears of replicas at all (`_Heard`).
"""

_FORGET_EVERY_S = 10.0
"""How many seconds pass between two looks for such replicas and partitions."""


class QueryReport(Protocol):
    """The supervisor's report on one streaming query. Its fields mean the same as those of `QueryState`."""

    name: str
    up: bool
    restarts: int
    last_progress: float | None
    batch_seconds: float
    rows: int
    checkpoints_set_aside: int


_ASKED_S = 60.0
"""How many seconds after the start of the queries the brokers have surely been asked what they hold."""

_OFFSETS = ("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset")


_SILENCE_S = 60.0
"""The most seconds between two looks at the brokers that `_Heard` counts."""


class _Heard:
    """Counts the seconds in which the job hears of replicas.

    It does not advance while nobody asks the brokers. So nothing is forgotten while a disk is full or a query hangs.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last: float | None = None

    def looked(self, now: float) -> None:
        """Take in that brokers were asked what they hold, at ``now``."""
        if self._last is not None:
            self.seconds += min(max(now - self._last, 0.0), _SILENCE_S)
        self._last = now


def _counted(runs: Mapping[str, int], result: str) -> dict[str, int]:
    return {**runs, result: runs.get(result, 0) + 1}


def _has_answered(row: Mapping[str, Any]) -> bool:
    """Whether the broker answered, were it only to refuse; what is wrong with one replica is not the broker's state."""
    return bool(row["reachable"]) or (row.get("problem") or ReadEvent.UNREACHABLE) != ReadEvent.UNREACHABLE


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None


class MonitorState:
    """What one job knows about itself. Any thread may update it or take a snapshot of it.

    Args:
        clock: returns seconds since 1970 UTC; a test gives its own.
        brokers: the brokers that are read (``topics.brokers``); None for all.
        shell: how commands name the cluster and the job.
        wanted: the settings that say which topics are watched, with their values (`Snapshot.wanted`).
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        brokers: Collection[int] | None = None,
        shell: Shell = ANYWHERE,
        wanted: str = WANTED,
    ) -> None:
        self._clock = clock
        self._shell, self._wanted = shell, wanted
        self._read = None if brokers is None else frozenset(brokers)
        self._started_at = clock()
        self._lock = threading.Lock()
        self._replicas: dict[Replica, ReplicaState] = {}
        self._positions: dict[tuple[Replica, IsolationLevel], int] = {}
        self._lags = Lags()
        self._waiting = Waiting()
        self._coverage: dict[TopicPartition, Coverage] = {}
        self._covered_at: dict[TopicPartition, float] = {}
        self._comparison_errors: dict[TopicPartition, int] = {}
        self._heard = _Heard()
        self._heard_of: dict[Replica, float] = {}
        """When each replica was last reported on, by the seconds of `_heard`."""
        self._forgot_at = 0.0
        self._has_progress = self._has_positions = False
        self._all_compared_at: float | None = None
        self._is_all_compared = False
        self._reachable: dict[int, bool] = {}
        self._assigned: dict[TopicPartition, frozenset[int]] = {}
        self._preferred: dict[TopicPartition, int] = {}
        self._left_out: dict[TopicPartition, frozenset[int]] = {}
        self._refusals = Refusals()
        self._deleted = Deleted()
        self._nothing_since: float | None = None
        self._is_nothing_sure = False
        self._asked_at: float | None = None
        self._told_until = 0.0
        """When the query that asks for offsets was last down: what it had said before may be out of date."""
        self._queries: dict[str, QueryState] = {}
        self._findings = FindingsStatus()
        self._listing = Listing()
        self._findings_loaded = False
        self._maintenance: Mapping[str, int] = {}
        self._maintained_at: float | None = None
        self._tables: dict[str, TableSize] = {}
        self._shared: dict[str, Saved] = {}
        self._lease: tuple[int, Callable[[], float | None]] | None = None
        self._storage_full = False
        self._storage_id: str | None = None
        self._audits = AuditState()
        self._initial = InitialReading()
        self._expected: frozenset[TopicPartition] = frozenset()
        self._catching_up = CatchingUp()
        self._absences = Absences()
        self._audits_at: Mapping[TopicPartition, float] | None = {}
        self._guard: GuardStatus | None = None
        self._paused: Paused = {}
        self._leadership: dict[TopicPartition, Leadership] = {}
        self._mismatches: Mapping[str, str] = {}
        self._hanging: tuple[Hanging, ...] = ()

    def expect(self, places: Iterable[TopicPartition]) -> None:
        """Set which partitions an earlier process of the job read until it stopped.

        The start goes on until each has been compared again. One of which nobody reports for a minute is gone.
        """
        with self._lock:
            self._expected = frozenset(places)

    def update_mismatches(self, mismatches: Mapping[str, str]) -> None:
        """Set at which addresses another cluster answers.

        Args:
            mismatches: by such an address (``host:port``), the id of the other cluster; empty if there is none.
        """
        with self._lock:
            self._mismatches = dict(mismatches)

    def update_hanging(self, hanging: Sequence[Hanging]) -> None:
        """Set the transactions that hang: they are open, and nobody will end them."""
        with self._lock:
            self._hanging = tuple(hanging)

    def standstills(self) -> dict[TopicPartition, Standstill]:
        """By partition, its highest last stable offset, and since when that has not moved (`Standstill`).

        Partitions of which no replica has reported a last stable offset are left out.
        """
        found: dict[TopicPartition, list[ReplicaState]] = {}
        with self._lock:
            for (topic, partition, _), state in self._replicas.items():
                if state.last_stable_offset is not None:
                    found.setdefault(TopicPartition(topic, partition), []).append(state)
        stands: dict[TopicPartition, Standstill] = {}
        for place, states in found.items():
            at = max(state.last_stable_offset or 0 for state in states)
            foremost = [state for state in states if state.last_stable_offset == at]
            since = [state.stands_since for state in foremost if state.stands_since is not None]
            stands[place] = Standstill(
                at,
                max(since, default=None),
                max(state.offsets_at for state in foremost),
                max(state.log_start_offset or 0 for state in foremost),
            )
        return stands

    def update_paused(self, paused: Paused) -> None:
        """Set which brokers are not read because an operator has paused reading them: ``paused``, by broker."""
        with self._lock:
            self._paused = dict(paused)

    def update_progress(self, rows: Sequence[Mapping[str, Any]]) -> list[Change]:
        """Take in rows of ``replica_progress``: what replicas reported. Call it once the rows are committed.

        They count in the order in which brokers were asked. What a broker said when it was asked last is its state.

        Args:
            rows: of any number of ticks, in any order.

        Returns:
            The permissions that went missing by these rows, or are there again.
        """
        rows = sorted(rows, key=lambda row: row["observed_at"])
        answered: dict[tuple[int, datetime], bool] = {}
        for row in rows:
            look = int(row["broker"]), row["observed_at"]
            answered[look] = answered.get(look, False) or _has_answered(row)
        with self._lock:
            self._has_progress |= bool(rows)
            self._record(bool(rows))
            if rows:
                self._heard.looked(self._clock())
            for row in rows:
                broker = int(row["broker"])
                replica = str(row["topic"]), int(row["partition"]), broker
                self._heard_of[replica] = self._heard.seconds
                assigned = self._assign(TopicPartition(*replica[:2]), row.get("replicas") or ())
                self._lead(TopicPartition(replica[0], replica[1]), row)
                if self._initial.observe(replica, row):
                    self._waiting.forget(lambda place: place.topic == replica[0])  # noqa: B023
                    self._positions = {k: v for k, v in self._positions.items() if k[0][0] != replica[0]}
                    self._lags.forget(lambda view: view[0][0] == replica[0])  # noqa: B023
                    self._catching_up.renew(replica[0], self._coverage.values())
                self._catching_up.observe(replica, assigned)
                self._waiting.reported(TopicPartition(*replica[:2]), self._clock())
                if row["reachable"]:
                    self._offsets_of(replica, row)
                elif row.get("missing_right"):
                    self._replicas[replica] = ReplicaState(reported_at=self._clock())
                else:
                    since = self._replicas.get(replica, ReplicaState()).offline_since or self._clock()
                    is_offline = answered[broker, row["observed_at"]]
                    self._touch(replica, answers=False, offline_since=since if is_offline else None)
            self._reachable |= {broker: is_up for (broker, _), is_up in answered.items()}
            self._deleted.take_in(rows, self._clock())
            return self._refusals.take_in(rows, self._clock())

    def update_refusals(self, replicas: Iterable[Replica], right: MissingRight, error: str) -> list[Change]:
        """Count a permission as missing, because brokers refused some part of the job (`Refusals.refused`).

        Args:
            replicas: the replicas that may not be read.
            right: the missing permission.
            error: what the broker said.

        Returns:
            The permissions that were not known to be missing before.
        """
        refused = tuple(replicas)
        with self._lock:
            self._heard_of |= dict.fromkeys(refused, self._heard.seconds)
            return self._refusals.refused(refused, right, error, self._clock())

    def update_positions(self, isolation: IsolationLevel, positions: Mapping[Replica, int]) -> None:
        """Set how far replicas are recorded at one isolation level: by replica, the next offset to read."""
        with self._lock:
            self._has_positions |= bool(positions)
            self._record(bool(positions))
            for replica, offset in positions.items():
                self._positions[replica, isolation] = int(offset)
                self._lags.read((replica, isolation), int(offset))
                self._touch(replica)

    def update_coverage(self, coverages: Iterable[Coverage]) -> None:
        """Set how far partitions have been compared. Call it once the micro-batch of the comparison is committed.

        A coverage also has replicas' offsets and positions. They are used only where `update_progress` and
        `update_positions` have given none.
        """
        now = self._clock()
        with self._lock:
            self._is_all_compared = True
            if not self._has_progress:
                self._heard.looked(now)
            for coverage in coverages:
                self._coverage[coverage.place] = coverage
                self._covered_at[coverage.place] = self._heard.seconds
                self._waiting.covered(coverage, now)
                if coverage.error:
                    self._comparison_errors[coverage.place] = self._comparison_errors.get(coverage.place, 0) + 1
                for broker in coverage.brokers:
                    self._cover(coverage, broker)

    def settle(self, settled: Callable[[Coverage], Coverage]) -> None:
        """Replace the coverage of every partition: an audit has compared some of its unknown offsets.

        A coverage comes again only when its partition moves. Without this, an idle partition would stay unknown.

        Args:
            settled: called with a partition's coverage; returns it without the unknown offsets that an audit has
                compared.
        """
        with self._lock:
            self._coverage = {place: settled(coverage) for place, coverage in self._coverage.items()}

    def update_query(self, report: QueryReport) -> None:
        """Set the state of a streaming query, by the supervisor's report."""
        state = QueryState(
            report.up,
            report.restarts,
            report.last_progress,
            report.batch_seconds,
            report.rows,
            report.checkpoints_set_aside,
        )
        with self._lock:
            before = self._queries.get(report.name)
            self._queries[report.name] = state
            if report.name != "progress":
                return
            if before is None or before.last_progress != report.last_progress is not None:
                self._heard.looked(self._clock())
            if not report.up:
                self._told_until = self._clock()

    def update_findings(self, status: FindingsStatus) -> None:
        """Set which findings there are, once they are committed. The findings manager calls it for each change."""
        with self._lock:
            self._findings = status
            if status.error is None:
                self._findings_loaded = True
            if self._findings_loaded:
                self._listing.observe(status.standing, self._clock(), status.ended)

    def update_lease(self, epoch: int, renewed_at: Callable[[], float | None]) -> None:
        """Set the lease by which this job alone may write to its storage.

        Args:
            epoch: the lease's number, which grows with each job that takes it.
            renewed_at: returns when the lease was last renewed, seconds since 1970 UTC.
        """
        with self._lock:
            self._lease = epoch, renewed_at

    def update_storage_id(self, storage_id: str) -> None:
        """Set the id of the job's storage, ``storage_id``, which metrics show (`parallax.views.binding.id_of`)."""
        with self._lock:
            self._storage_id = storage_id

    def update_storage_full(self, is_full: bool) -> None:
        """Set whether a disk that the job writes to is full."""
        with self._lock:
            self._storage_full = is_full

    def update_maintenance(self, table: str, size: TableSize | None) -> None:
        """Count one upkeep of a table, as a success or a failure.

        Args:
            table: the table's name.
            size: the size of its files afterwards; None if the upkeep failed.
        """
        with self._lock:
            self._maintenance = _counted(self._maintenance, "failure" if size is None else "success")
            if size is not None:
                self._tables[table] = size
                self._maintained_at = self._clock()

    def update_shared(self, table: str, saved: Saved) -> None:
        """Count the rows that upkeep has taken out of a view because other replicas show them alike.

        Args:
            table: the table's name.
            saved: how many rows, and how many bytes of files.
        """
        with self._lock:
            before = self._shared.get(table, Saved())
            self._shared[table] = Saved(before.rows + saved.rows, before.size + saved.size)

    def update_absences(self, absences: Absences) -> None:
        """Set which replicas are absent, with their bounds, and which have copied something too late."""
        with self._lock:
            self._absences = absences

    def update_audits_at(self, audits_at: Mapping[TopicPartition, float] | None) -> None:
        """Set when the job will audit the partitions that were read or copied too late (`Snapshot.audits_at`)."""
        with self._lock:
            self._audits_at = audits_at

    def update_guard(self, status: GuardStatus) -> None:
        """Set what the guard is doing: which topics it holds, and which it could not hold."""
        with self._lock:
            self._guard = status

    def update_audit(self, report: AuditReport) -> None:
        """Count an audit that has ended, and keep the result of each partition."""
        with self._lock:
            known = self._audits
            read = dict(known.read_bytes)
            for broker, size in report.read_bytes.items():
                read[broker] = read.get(broker, 0) + size
            results = {p.place: (p, report.ended_at) for p in report.partitions}
            runs = _counted(known.runs, "success")
            self._audits = replace(
                known, results={**known.results, **results}, runs=runs, read_bytes=read, ended_at=report.ended_at
            )

    def spot_checked(self, counts: Mapping[str, int]) -> None:
        """Add the results of a spot check to those of earlier ones.

        Args:
            counts: by result (`parallax.audit.spot.Spot`), how many records of this check had it.
        """
        with self._lock:
            spots = dict(self._audits.spots)
            for result, count in counts.items():
                spots[result] = spots.get(result, 0) + count
            self._audits = replace(self._audits, spots=spots)

    def audit_failed(self) -> None:
        """Count an audit that failed before its end."""
        with self._lock:
            self._audits = replace(self._audits, runs=_counted(self._audits.runs, "failure"))

    def snapshot(self) -> Snapshot:
        """Everything known at this moment, without partitions on which nobody has reported for ten minutes.

        Time in which the job hears of no partition at all does not count.
        """
        now = self._clock()
        with self._lock:
            self._forget(now)
            self._expected = self._still_expected(now)
            waiting_s: dict[tuple[TopicPartition, IsolationLevel], float] = {}
            behind_since: dict[tuple[Replica, IsolationLevel], float] = {}
            caught_up: dict[TopicPartition, bool] = {}
            found = Snapshot(
                replicas=dict(self._replicas),
                positions=dict(self._positions),
                coverage=dict(self._coverage),
                reachable=dict(self._reachable),
                refused=self._refusals.standing,
                unauthorized=self._refusals.counts,
                queries=dict(self._queries),
                findings=self._findings,
                listed=self._listing.listed(),
                left_out=self._listing.left_out,
                findings_loaded=self._findings_loaded,
                maintenance=dict(self._maintenance),
                maintained_at=self._maintained_at,
                tables=dict(self._tables),
                shared=dict(self._shared),
                lease=None if self._lease is None else (self._lease[0], self._lease[1]()),
                audits=self._audits,
                initially_read=self._initial.read(self._positions),
                initially_left=self._initial.left(self._positions),
                expected=self._expected,
                started_at=self._started_at,
                taken_at=now,
                all_compared_at=now if self._is_all_compared else self._all_compared_at,
                absences=self._absences,
                audits_at=self._audits_at,
                shell=self._shell,
                wanted=self._wanted,
                guard=self._guard,
                paused=self._paused,
                mismatches=self._mismatches,
                comparison_errors=dict(self._comparison_errors),
                storage_full=self._storage_full,
                storage_id=self._storage_id,
                hanging=self._hanging,
                leadership=dict(self._leadership),
                assigned=dict(self._assigned),
                preferred=dict(self._preferred),
                left_out_of=dict(self._left_out),
                behind_since=behind_since,
                waiting_s=waiting_s,
                caught_up=caught_up,
            )
            # What is held up waits, lags and has to catch up from when that ends.
            if held := held_up(found):
                self._waiting.hold_up(held.__contains__, now)
            self._lags.hold_up(lambda view: not is_read(found, view[0]), now)
            waiting_s.update(self._waiting.seconds())
            behind_since.update(self._lags.since())
            caught_up.update(self._catching_up.look(self._replicas, self._coverage, held, self._told_until))
            return self._with_nothing(self._without_deleted(found))

    def _record(self, is_new: bool) -> None:
        """Note that something was recorded: until then all that was had been compared, if it had."""
        if is_new and self._is_all_compared:
            self._is_all_compared, self._all_compared_at = False, self._clock()

    def _still_expected(self, now: float) -> frozenset[TopicPartition]:
        began = [query.last_progress for query in self._queries.values()]
        if self._expected and self._asked_at is None and began and None not in began:
            self._asked_at = now
        if self._asked_at is not None and now - self._asked_at >= _ASKED_S:
            return frozenset()
        return self._expected - {replica[:2] for replica in self._replicas} if self._expected else self._expected

    def _with_nothing(self, found: Snapshot) -> Snapshot:
        """A snapshot that says whether nothing is there to watch: all queries look, and of no replica anything is said.

        Only after a while where nothing has been said yet: the brokers have to be asked first. While some query does
        not look, it stays as it was.
        """
        if found.replicas or found.refused:
            self._nothing_since, self._is_nothing_sure = None, False
            return found
        if _all_look(found):
            since = self._nothing_since = self._nothing_since or found.taken_at
            self._is_nothing_sure |= self._has_progress or found.taken_at - since >= _ASKED_S
        elif not self._is_nothing_sure:
            self._nothing_since = None
        return replace(found, nothing_since=self._nothing_since, coverage={}) if self._is_nothing_sure else found

    def _without_deleted(self, found: Snapshot) -> Snapshot:
        """A snapshot without the topics that were deleted."""
        progress = self._queries.get("progress")
        looked_at = None if progress is None else progress.last_progress
        answering = (replica for replica, state in self._replicas.items() if state.answers)
        deleted = self._deleted.topics(answering, looked_at)
        if not deleted:
            return found
        rest = found.without(deleted)
        hosting = self._hosting(rest.replicas)
        return replace(rest, reachable={broker: up for broker, up in rest.reachable.items() if broker in hosting})

    def _assign(self, place: TopicPartition, brokers: Iterable[int]) -> frozenset[int]:
        """Take in which brokers hold a partition, where a row says so; those of them that are to be read."""
        order = tuple(brokers)
        told = frozenset(order)
        read = told if self._read is None else told & self._read
        if told:
            self._preferred[place] = order[0]
            self._assigned[place], self._left_out[place] = read, told - read
        return read

    def _lead(self, place: TopicPartition, row: Mapping[str, Any]) -> None:
        """Take in what the cluster said of a partition; a row without it is of a moment when it could not be asked."""
        leader, isr = row.get("leader"), row.get("isr")
        if leader is not None:
            self._leadership[place] = leader if leader >= 0 else None, None if isr is None else tuple(isr)

    def _touch(self, replica: Replica, **more: Any) -> None:
        known = self._replicas.get(replica, ReplicaState())
        self._heard_of[replica] = self._heard.seconds
        self._replicas[replica] = replace(known, reported_at=self._clock(), **more)

    def _offsets_of(self, replica: Replica, row: Mapping[str, Any]) -> None:
        known = self._replicas.get(replica, ReplicaState())
        high_watermark, stable = row["high_watermark"], row["last_stable_offset"]
        since = None
        if high_watermark is not None and stable is not None and stable < high_watermark:
            moved = known.last_stable_offset != stable
            since = self._clock() if moved or known.stands_since is None else known.stands_since
        self._replicas[replica] = replace(
            known,
            **{name: row[name] for name in _OFFSETS},
            stands_since=since,
            reported_at=self._clock(),
            offsets_at=self._clock(),
            answers=True,
            offline_since=None,
        )
        ends = {IsolationLevel.READ_UNCOMMITTED: high_watermark, IsolationLevel.READ_COMMITTED: stable}
        for isolation, end in ends.items():
            if end is not None:
                position = self._positions.get((replica, isolation))
                self._lags.shown((replica, isolation), end, position, self._clock())

    def _cover(self, coverage: Coverage, broker: BrokerCoverage) -> None:
        replica = coverage.topic, coverage.partition, int(broker.broker)
        if not self._has_progress:
            self._reachable[replica[2]] = broker.reachable
            self._catching_up.observe(replica, None)
            self._offsets_of(replica, {name: _known(getattr(broker, name)) for name in _OFFSETS})
        self._touch(replica, frozen_for_s=float(broker.frozen_for_s))
        read = {
            IsolationLevel.READ_UNCOMMITTED: broker.read_uncommitted,
            IsolationLevel.READ_COMMITTED: broker.read_committed,
        }
        for isolation, offset in read.items():
            if offset >= 0 and (not self._has_positions or (replica, isolation) not in self._positions):
                self._positions[replica, isolation] = offset

    def _hosting(self, replicas: Iterable[Replica]) -> set[int]:
        """The brokers that partitions are assigned to, by what was reported last."""
        found = set()
        for topic, partition, broker in replicas:
            if broker in self._assigned.get(TopicPartition(topic, partition), (broker,)):
                found.add(broker)
        return found

    def _forget(self, now: float) -> None:
        if abs(now - self._forgot_at) < _FORGET_EVERY_S:
            return
        self._forgot_at = now
        heard = self._heard.seconds
        gone = {r for r, at in self._heard_of.items() if heard - at > _FORGET_AFTER_S}
        self._heard_of = {r: at for r, at in self._heard_of.items() if r not in gone}
        self._replicas = {r: s for r, s in self._replicas.items() if r not in gone}
        self._positions = {k: v for k, v in self._positions.items() if k[0] not in gone}
        self._lags.forget(lambda view: view[0] in gone)
        self._refusals.forget(gone)
        alive = {TopicPartition(topic, partition) for topic, partition, _ in self._replicas}
        self._initial.forget(alive)
        self._waiting.forget(lambda place: place not in alive)
        self._catching_up.forget(lambda place: place not in alive)
        self._assigned = {place: brokers for place, brokers in self._assigned.items() if place in alive}
        self._preferred = {place: broker for place, broker in self._preferred.items() if place in alive}
        self._left_out = {place: brokers for place, brokers in self._left_out.items() if place in alive}
        hosting = self._hosting(self._replicas)
        self._reachable = {broker: up for broker, up in self._reachable.items() if broker in hosting}
        self._leadership = {place: said for place, said in self._leadership.items() if place in alive}
        self._absences = self._absences.of(alive)
        self._coverage = {
            place: c
            for place, c in self._coverage.items()
            if place in alive or heard - self._covered_at[place] <= _FORGET_AFTER_S
        }
        self._comparison_errors = {p: n for p, n in self._comparison_errors.items() if p in self._coverage}


def _all_look(found: Snapshot) -> bool:
    """Whether all queries make progress: of one that hangs nothing is said, and that is no news of what is there."""
    have_begun = all(query.last_progress is not None for query in found.queries.values())
    return bool(found.queries) and have_begun and next(of_queries(found), None) is None


__all__ = [
    "AuditState",
    "Leadership",
    "MonitorState",
    "QueryReport",
    "QueryState",
    "Replica",
    "ReplicaState",
    "Snapshot",
]
