"""The job that ``parallax run`` starts: it reads the replicas, compares, probes and reports until it is stopped.

It consists of the queries that record and compare, the findings manager, the audits, the guard, and the server of page
and metrics. They start and stop together.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import structlog

from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.page.asking import Asking
from parallax.alerting.refusals import NOBODY, Change
from parallax.alerting.server import MetricsServer
from parallax.alerting.settled import settled as nothing_open
from parallax.alerting.state import MonitorState
from parallax.alerting.webhook.heartbeat import Heartbeat
from parallax.alerting.webhook.metrics import WebhookCollector
from parallax.alerting.webhook.sender import Webhooks
from parallax.alerting.webhook.watch import JobWatch
from parallax.audit.result import AuditReport
from parallax.cluster_watch import ClusterWatch
from parallax.compare.suspect import Coverage
from parallax.config import ConfigError, Settings
from parallax.errors import PassingError, one_line
from parallax.findings.finding import Finding
from parallax.findings.hanging_record import record, recorded
from parallax.findings.hanging_watch import HangingThread, HangingWatch
from parallax.findings.happenings import FindingsStatus
from parallax.findings.led import with_leaders
from parallax.findings.manager import FindingsManager
from parallax.findings.renewed import Joined, Renewed
from parallax.guard.absences import Absence, Absences, Late
from parallax.guard.gone import GoneThread
from parallax.guard.pointed import PointedThread
from parallax.guard.run import OFF_ROUND_S, GuardRounds, GuardThread, OffRounds
from parallax.guard.timekeeper import Timekeeper, clock_of
from parallax.logs import configure_logging
from parallax.model import IsolationLevel, MissingRight, ReadEvent, TopicPartition
from parallax.overload import Overload
from parallax.preflight import check_cluster, check_folder, is_watched
from parallax.repair.account import beside, repaired_by
from parallax.repair.renewing import Renewing
from parallax.repair.slow import slow_copies
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.shell import ANYWHERE, Shell
from parallax.source.feedback import ALL, write_paused
from parallax.source.offsets import Reader
from parallax.stores import is_remote, rust_path, set_environment
from parallax.supervisor import QueryReport, Supervised, Supervisor
from parallax.views.binding import bind, bound_to, id_of, settled
from parallax.views.chatter import SPARK_SAID
from parallax.views.event_log import EventLogError
from parallax.views.fencing import hold, raise_fence
from parallax.views.hash_key import hash_key, name_of
from parallax.views.pause import Paused, PauseWatch, called
from parallax.views.room import Room, says_full
from parallax.views.settled import Settled
from parallax.views.sink import PositionSeen
from parallax.views.watching import LOCK

if TYPE_CHECKING:
    from parallax.audit.ledger import Ledger
    from parallax.audit.schedule import AuditSchedule
    from parallax.views.lease import Lease

log = structlog.get_logger(__name__)

Say = Callable[[str], None]

_LOCK_TRIES, _LOCK_PAUSE_S = 10, 0.05
"""How often, and how far apart, a job tries to lock its storage."""


class JobError(RuntimeError):
    """The job cannot start.

    The text is one line that says what is wrong (e.g. a setting, or a folder that cannot be written) and what to do.
    """


class InterruptedJobError(JobError, PassingError):
    """The job cannot start or go on now, but may later without a change of settings.

    For example, another job uses its storage, or the object store or Spark does not answer.
    """


class Job:
    """One job on one storage path; ``start`` it, and ``stop`` it from any thread.

    Args:
        settings: validated settings.
        say: called with a line for people for each thing that happens at start and stop.
        shell: how commands on the page and in messages name the cluster and the job.
    """

    def __init__(self, settings: Settings, say: Say = lambda _: None, shell: Shell = ANYWHERE) -> None:
        self._settings = settings
        self._shell = shell
        self._say = say
        self._lock_file: IO[str] | None = None
        self._lease: Lease | None = None
        self._client: ReplicaClient | None = None
        self._clusters: ClusterWatch | None = None
        self._server: MetricsServer | None = None
        self._webhooks: Webhooks | None = None
        self._watch: JobWatch | None = None
        self._manager: FindingsManager | None = None
        self._supervisor: Supervisor | None = None
        self._maintenance: Any = None
        self._audits: AuditSchedule | None = None
        self._ledger: Ledger | None = None
        self._timekeeper: Timekeeper | None = None
        self._differing: frozenset[TopicPartition] = frozenset()
        self._joined = Joined()
        self._pointed: PointedThread | None = None
        self._gone: GoneThread | None = None
        self._guard: GuardThread | None = None
        self._hanging: HangingThread | None = None
        self._spark: Any = None
        self._one_session = threading.Lock()
        self._lock = threading.Lock()
        self._settling = threading.Lock()
        self._seen: dict[Reader, PositionSeen] = {}
        self._pauses: PauseWatch | None = None
        self._paused: Paused = {}
        self.state = MonitorState(brokers=settings.topics.brokers, shell=shell, wanted=settings.topics.wanted)
        temporary = settings.spark.conf.get("spark.local.dir")
        self.room = Room(settings.storage.path, temporary, self.state.update_storage_full)

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Check storage and cluster, then start all parts of the job; if one fails, all are stopped again.

        Raises:
            JobError: the storage path cannot be used, or another job uses it.
            ConfigError: the settings name another cluster than that of the storage, or several clusters.
            ReplicaError: the brokers do not answer, or are of another cluster than the storage. Or a topic or broker
                that the settings name does not exist.
            SetupError: there is no JDK 17 or 21, jars cannot be fetched, a folder cannot be written, or Spark's JVM
                ended while it was started.
            MetricsServerError: the port is in use.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        settings = self._settings
        storage = settings.storage.path
        set_environment(storage, settings.spark.conf, os.environ)
        self._lock_file = lock_storage(storage)
        if not is_remote(storage):
            check_folder(storage)
        key = hash_key(storage, settings.read)
        if is_remote(storage):
            self._lease = take_lease(storage, self._say)
            self.state.update_lease(self._lease.epoch, lambda lease=self._lease: lease.renewed_at)  # type: ignore[misc]
            self._lease.start()
            take_over(storage, key, self._lease.epoch)
        self._settings = settings = settled(settings)
        self.state.update_storage_id(id_of(storage))
        self._client = ReplicaClient(settings.kafka, timeout_ms=settings.read.request_timeout_ms)
        self._client.pause(lambda broker: bool(self._paused.keys() & {broker, ALL}))
        self._pauses = PauseWatch(settings.storage.path, self._pauses_seen, self._pauses_unknown)
        try:
            self._pauses.start()
        except OSError as error:
            raise JobError(f"storage.path: {one_line(error)}; its files must be ones that can be written") from error
        for topic, refusal in check_cluster(self._client, settings).items():
            self._log_rights(self.state.update_refusals([(topic, *NOBODY)], refusal.missing, str(refusal)))
        self._clusters = ClusterWatch(self._client, self.state.update_mismatches)
        self._clusters.start()
        alerting = settings.alerting
        self._webhooks = Webhooks(alerting, settings.storage.path, shell=self._shell)
        heartbeat = Heartbeat(alerting, time.monotonic)
        self._server = MetricsServer(
            self.state,
            alerting,
            settings.storage.path,
            WebhookCollector(self._webhooks.status),
            heartbeat,
            on_record=beside(settings.storage.path, settings.read, settings.guard),
            shell=self._shell,
            asking=Asking(self._client, settings.read.payload),
        )
        self._webhooks.start()
        self._watch = JobWatch(ParallaxCollector(self.state).of_the_job, self._webhooks, heartbeat)
        self._watch.start()
        self._say(f"page and metrics on port {self._server.port}; starting Spark")
        # It needs no Spark: open findings are known, and are checked again, while Spark starts.
        self._start_manager(self._client, key)
        self._start_spark()
        self._start_audits(self._client, key)
        self._start_clock()
        self._start_queries(key)
        if settings.storage.gives_up:
            self._say(f"storage.record: {settings.storage.gives_up}")
        self._say("the job runs")

    def _start_spark(self) -> None:
        from parallax.compare.query import followed
        from parallax.findings.upkeep import look_after_suspects
        from parallax.views.cluster import check_workers, is_cluster
        from parallax.views.maintenance import Maintenance
        from parallax.views.session import build_session

        self._spark = build_session(self._settings.spark, storage=self._settings.storage.path)
        if is_cluster(self._spark.sparkContext.master):
            self._say(check_workers(self._spark, self._settings))
        others = {"suspects": look_after_suspects}
        told = self.state.update_maintenance, others, followed, self.state.update_shared, self._nothing_open
        self._maintenance = Maintenance(self._settings.storage, *told)
        self._maintenance.start()

    def _nothing_open(self) -> Mapping[TopicPartition, Settled] | None:
        """By partition, up to where nothing is open; None as long as that is not known."""
        from parallax.compare.query import followed

        open_ = None if self._manager is None else self._manager.places()
        # A comparison that begins again needs all rows that the tables had then.
        if open_ is None or any(one.is_standing for one in followed(self._settings.storage.path).values()):
            return None
        return nothing_open(self.state.snapshot().coverage.values(), open_)

    def _start_manager(self, client: ReplicaClient, key: str) -> None:
        hasher = ContentHasher(bytes.fromhex(key))
        storage = self._settings.storage.path
        self._manager = FindingsManager(
            self._settings,
            client,
            hasher,
            on_change=self._findings_changed,
            repaired=repaired_by(storage),
            completed=with_leaders(storage),
            renewed=partial(self._renewed, Renewing(storage)),
        )
        self._manager.start()
        after_s = self._settings.findings.hanging_after_s
        if after_s > 0:
            known = [one for one in recorded(storage) if is_watched(one.one.place.topic, self._settings)]
            watch = HangingWatch(client, after_s, self._settings.findings.probe_timeout_ms, known)
            self._hanging = HangingThread(
                watch,
                self.state.standstills,
                self.state.update_hanging,
                partial(record, storage),
                self._shell,
                self._settings.alerting.runbook_url,
            )
            self._hanging.start()

    def _start_audits(self, client: ReplicaClient, key: str) -> None:
        from parallax.audit.ledger import Ledger
        from parallax.audit.schedule import AuditSchedule, job_audits, job_spot_checks

        settings, manager = self._settings, self._manager
        if manager is None:
            return
        run = job_audits(settings, client, lambda: self._spark, manager, key)
        self._ledger = Ledger(settings.storage.path)
        self._audits = AuditSchedule(
            settings.audit.interval_s,
            run,
            self._audited,
            self.state.audit_failed,
            unread_delay_s=settings.audit.unread_delay_s,
            is_held=lambda: bool(self._paused),
            spot_checks=job_spot_checks(settings, client, key, self.state.spot_checked),
        )
        self._audits.start()

    def _start_clock(self) -> None:
        settings = self._settings
        self._timekeeper = Timekeeper(
            settings.storage.path,
            clock_of(settings),
            self._absences_changed,
            shell=self._shell,
            differing=lambda: self._differing,
            slow=self._slow_copies,
            is_audited=settings.audit.takes_up_unread,
        )
        self._timekeeper.start()
        self.state.expect(one for one in self._timekeeper.recalled if is_watched(one.topic, settings))
        if self._client is not None:
            self._pointed = PointedThread(settings, self._client, self._absent, self._timekeeper.read)
            self._pointed.start()
            keeper, every_s = self._timekeeper, settings.read.metadata_refresh_ms / 1000
            self._gone = GoneThread(self._client, keeper.in_question, keeper.are_gone, every_s)
            self._gone.start()
        if settings.guard.mode == "off":
            self._guard = GuardThread(lambda: OffRounds(settings.storage.path), self.state.update_guard, OFF_ROUND_S)
            self._guard.start()
        elif self._client is not None:
            client, path, on_paused = self._client, settings.storage.path, self._timekeeper.paused
            self._guard = GuardThread(
                lambda: GuardRounds(settings.guard, path, client, self._absent, on_paused=on_paused),
                self.state.update_guard,
            )
            self._guard.start()

    def _renewed(self, renewing: Renewing) -> Renewed:
        found = renewing()
        if found and self._timekeeper is not None:
            self._timekeeper.repaired()
        return found

    def _slow_copies(self) -> Sequence[Late]:
        ledger = self._ledger
        try:
            return () if ledger is None else slow_copies(self._settings, ledger)
        except EventLogError as error:
            what = "a copy by a repair that took too long is not audited for that meanwhile"
            log.warning("what was repaired cannot be read", error=one_line(error), what=what)
            return ()

    def _absent(self) -> Sequence[Absence]:
        return self._timekeeper.absent if self._timekeeper is not None else ()

    def _start_queries(self, key: str) -> None:
        from deltalake.exceptions import DeltaError

        from parallax.compare.query import comparison_query
        from parallax.views.queries import hosting_brokers, view_queries
        from parallax.views.session import end_jvm, ended_tasks, last_report
        from parallax.views.tables import create_tables

        settings = self._settings
        # The queries start at the same time, and only one may make the tables.
        with contextlib.suppress(DeltaError, OSError):  # a query that lacks its table says why
            create_tables(settings.storage.path, name_of(key))
        brokers: Sequence[int] = ()
        if settings.read.grouping in ("broker", "reader") and not settings.topics.brokers:
            brokers = hosting_brokers(settings)
        specs = [
            *view_queries(
                settings,
                brokers=brokers,
                on_positions=self._positions_recorded,
                on_progress=self._progress_recorded,
            ),
            comparison_query(settings, self._compared),
        ]
        supervised = [
            Supervised(
                spec.name,
                lambda spec=spec: spec.start(self._session()),  # type: ignore[misc]
                spec.checkpoint.mend,
                lambda query: ended_tasks(self._spark, query),
                mark=last_report,
            )
            for spec in specs
        ]
        self._supervisor = Supervisor(
            supervised,
            settings.supervisor,
            self._query_reported,
            last_resort=lambda: end_jvm(self._spark),
            outages=(self.room, Overload()),
        )
        self._supervisor.start()

    def _session(self) -> Any:
        """The Spark session; a new one, with all that hangs on it, where its JVM has died."""
        from parallax.views.session import forget_session, is_alive

        with self._one_session:
            if not is_alive(self._spark):
                log.error("Spark's JVM has ended; another one is started, and the job goes on where it was")
                if self._maintenance is not None:
                    self._maintenance.stop(timeout_s=0.0)
                    self._maintenance = None
                forget_session(self._spark)
                self._start_spark()
            return self._spark

    def _stop_spark(self) -> None:
        from parallax.views.session import forget_session, is_alive

        if is_alive(self._spark):
            self._spark.stop()
        else:
            forget_session(self._spark)
        self._spark = None

    def stop(self) -> None:
        """Stop all parts of the job: first the queries, last the server and the connections.

        It may be called again, and on a job that never started.
        """
        self._end("_watch")
        if self._supervisor is not None:
            from parallax.views.session import hush

            self._say("stopping the queries")
            hush(self._spark)
            self._end("_supervisor")
        self._stop_audits()
        self._end("_pauses", "_maintenance", "_gone", "_pointed", "_guard", "_hanging", "_manager", "_webhooks")
        if self._spark is not None:
            self._stop_spark()
        self._end("_server", "_clusters", "_client")
        self._give_up_storage()

    def _end(self, *names: str) -> None:
        """Stop parts of the job that were started, one after the other, and forget them."""
        for name in names:
            part = getattr(self, name)
            if part is not None:
                (part.close if hasattr(part, "close") else part.stop)()
                setattr(self, name, None)

    def _give_up_storage(self) -> None:
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None
        if self._lease is not None:
            self._lease.release()  # what a thread that is left commits stays fenced
            self._lease = None

    @property
    def lost(self) -> str | None:
        """A text that names the job which has taken this job's storage over; None if none has.

        A job that has lost its storage can write nothing more.
        """
        return None if self._lease is None else self._lease.lost

    def _stop_audits(self) -> None:
        if self._audits is not None:
            from parallax.views.session import is_alive

            if is_alive(self._spark):
                self._spark.sparkContext.cancelAllJobs()  # the queries have stopped: only an audit's are left
            self._audits.stop()
            self._audits = None

    # --- what the parts report to each other ------------------------------------------------------------------------

    def _pauses_seen(self, paused: Paused) -> None:
        from parallax.views.queries import paused_path

        path = Path(paused_path(self._settings.storage.path))
        if paused == self._paused and path.exists():
            return
        write_paused(path, paused)
        for broker, one in paused.items():
            if self._paused.get(broker) != one:
                what = "what is not read is unknown; parallax resume has it read again"
                log.warning(
                    "a broker is not read, as an operator wants it",
                    broker=called(broker),
                    by=one.by,
                    reason=one.reason,
                    what=what,
                )
        for broker in self._paused.keys() - paused.keys():
            log.warning("a broker is read again; nobody wants its reading paused any more", broker=called(broker))
        self._paused = paused
        self.state.update_paused(paused)

    def _pauses_unknown(self, problem: str) -> None:
        what = "parallax pause and resume have no effect until it can"
        log.error("whether reading is paused is unknown; it stays as it was", error=problem, what=what)

    def _positions_recorded(self, seen: Sequence[PositionSeen]) -> None:
        for isolation in IsolationLevel:
            positions = {
                (p.reader.topic, p.reader.partition, p.reader.broker): p.offset
                for p in seen
                if p.reader.isolation == isolation
            }
            self.state.update_positions(isolation, positions)
        with self._lock:
            self._seen.update({p.reader: p for p in seen})
        refused = [p for p in seen if p.event is ReadEvent.UNAUTHORIZED]
        if refused:
            replicas = [(p.reader.topic, p.reader.partition, p.reader.broker) for p in refused]
            self._log_rights(self.state.update_refusals(replicas, MissingRight.READ, refused[0].detail))

    def _progress_recorded(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._log_rights(self.state.update_progress(rows))
        if self._timekeeper is not None:
            self._timekeeper.take_in(rows)
        if self._manager is not None:
            self._manager.changed(self._joined.take_in(rows, self._differing))

    def _log_rights(self, changes: Iterable[Change]) -> None:
        for change in changes:
            about = {"topic": change.topic, "missing_right": str(change.right)}
            if change.began:
                what = "what the topic holds is unknown until the right is granted again (kafka-acls.sh)"
                log.error("not authorized", **about, replicas=change.replicas, what=what, error=change.error)
            else:
                log.warning("authorized again; the topic is read on", **about, took_s=round(change.seconds))

    def _compared(self, suspects: Sequence[Any], coverages: Sequence[Coverage]) -> None:
        if suspects and self._manager is not None:
            self._manager.offer(suspects)  # Before it is known that all was compared: they speak against it.
        with self._settling:
            if self._ledger is not None:
                coverages = [self._ledger.settled(coverage) for coverage in coverages]
            self.state.update_coverage(coverages)
        if self._audits is not None:
            self._audits.observe(coverages)
            self._tell_audits(self._audits)

    def _audited(self, report: AuditReport) -> None:
        self.state.update_audit(report)
        if self._ledger is not None:
            with self._settling:
                self._ledger.take(report)
                self.state.settle(self._ledger.settled)
        if self._timekeeper is not None:
            self._timekeeper.audited(report)

    def _absences_changed(self, absences: Absences) -> None:
        self.state.update_absences(absences)
        if (audits := self._audits) is not None:
            audits.observe_copies(absences.copied)
            self._tell_audits(audits)

    def _tell_audits(self, audits: AuditSchedule) -> None:
        now = time.time()
        times = {place: now + seconds for place, seconds in audits.due_in().items()}
        self.state.update_audits_at(times if self._settings.audit.takes_up_unread else None)

    def _findings_changed(self, status: FindingsStatus) -> None:
        self._differing = frozenset(TopicPartition(one.topic, one.partition) for one in status.standing)
        self.state.update_findings(status)
        webhooks = self._webhooks
        if webhooks is not None and status.error is None:
            webhooks.observe(status.standing, status.ended)

    def _query_reported(self, report: QueryReport) -> None:
        self.state.update_query(report)

    # --- what can be asked of it ------------------------------------------------------------------------------------

    def is_orphaned(self) -> bool:
        """Whether Spark's JVM has ended and this process cannot start a new one.

        Then spark-submit had started this process, and only spark-submit can start the JVM.
        """
        from parallax.views.session import is_orphaned

        return is_orphaned()

    @property
    def metrics_port(self) -> int:
        """The port of the status page and ``/metrics``; 0 while they are not served."""
        return self._server.port if self._server is not None else 0

    def findings(self) -> list[Finding]:
        """The findings that are neither over nor acknowledged now, as far as the job knows."""
        return list(self.state.snapshot().findings.open)

    def positions(self) -> dict[Reader, PositionSeen]:
        """By reader, the last position that the job has recorded since its start."""
        with self._lock:
            return dict(self._seen)

    def has_recorded(self, topic: str, partition: int, broker: int, offset: int) -> bool:
        """Whether the job has recorded, in both views, what a replica shows up to and including an offset.

        The view of read_committed need only reach the last stable offset that the reader of read_uncommitted saw.

        Args:
            topic: the topic's name.
            partition: the number of the partition.
            broker: id of the broker that has the replica.
            offset: the offset.
        """
        seen = self.positions()
        uncommitted = seen.get(Reader(int(IsolationLevel.READ_UNCOMMITTED), broker, topic, partition))
        committed = seen.get(Reader(int(IsolationLevel.READ_COMMITTED), broker, topic, partition))
        if uncommitted is None or uncommitted.offset <= offset:
            return False
        stable = min(uncommitted.last_stable_offset or 0, offset + 1)
        return stable == 0 or (committed is not None and committed.offset >= stable)


def lock_storage(path: str) -> IO[str] | None:
    """Lock a storage folder, so that this is its only job; the lock ends with the process.

    Args:
        path: folder or URI of the tables (``storage.path``).

    Returns:
        The open lock file, to be closed at the end; None on an object store, which needs a lease (`take_lease`).

    Raises:
        JobError: the folder cannot be made or written, or another job holds the lock.
    """
    if is_remote(path):
        return None
    path = rust_path(path)
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        file = (Path(path) / LOCK).open("a+", encoding="ascii")
    except OSError as error:
        raise JobError(f"storage.path: {path}: {error.strerror}; give a folder that can be written") from error
    if not _locked(file):
        file.seek(0)
        owner = file.read().strip() or "unknown"
        file.close()
        raise InterruptedJobError(
            f"storage.path: {path} is in use by the job with pid {owner}; stop it, or give another path"
        ) from None
    try:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    except OSError as error:
        with contextlib.suppress(OSError):  # it tries to write once more
            file.close()
        raise JobError(f"storage.path: {path}: {error.strerror}; give a folder that can be written") from error
    return file


def _locked(file: IO[str]) -> bool:
    """Whether a file could be locked; a command that looks whether it is (`job_runs`) has it for a moment."""
    import fcntl

    for _ in range(_LOCK_TRIES):
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_LOCK_PAUSE_S)
    return False


def take_lease(path: str, say: Say) -> Lease:
    """Take the lease of a storage on an object store, so that this is its only job.

    The returned lease renews itself once the caller has started it.

    Args:
        path: URI of the tables (``storage.path``).
        say: called with a line for people if another lease has to expire first.

    Raises:
        JobError: another job holds the lease, or the store cannot be used.
    """
    from parallax.views.lease import HeldError, Lease
    from parallax.views.objects import Objects, StoreError

    lease = Lease(Objects(path))
    try:
        lease.acquire(say)
    except HeldError as error:
        raise InterruptedJobError(
            f"storage.path: {path} is in use by the job on {error}; stop it, or give another path"
        ) from None
    except StoreError as error:
        raise JobError(f"storage.path: {error}; check the address, the credentials and their rights") from error
    return lease


def take_over(path: str, key: str, epoch: int) -> None:
    """Commit the number of this job's lease to every table, so that an earlier job can commit nothing more.

    Tables that do not exist are made.

    Args:
        path: URI of the tables (``storage.path``).
        key: the views' hash key, 32 hexadecimal digits.
        epoch: the number of this job's lease; jobs with a lower number can commit nothing more.

    Raises:
        JobError: yet another job has taken the storage over, or a table cannot be written.
    """
    from deltalake.exceptions import DeltaError

    from parallax.alerting.webhook.record import NOTIFICATIONS, create_notifications
    from parallax.audit.ledger import AUDITS, create_audits
    from parallax.compare.tables import create_suspects
    from parallax.findings.member_rows import MEMBERS
    from parallax.findings.table import FINDINGS, SUSPECTS, FindingsTable, members_table
    from parallax.views.hash_key import name_of
    from parallax.views.tables import PROGRESS, VIEWS, create_tables, rust_uri

    hold(path, epoch)
    try:
        create_tables(path, name_of(key))
        for create in (create_suspects, FindingsTable, members_table, create_audits, create_notifications):
            create(path)
        with ThreadPoolExecutor() as pool:
            names = (*VIEWS, PROGRESS, SUSPECTS, FINDINGS, MEMBERS, AUDITS, NOTIFICATIONS)
            list(pool.map(lambda name: raise_fence(rust_uri(path, name), epoch), names))
    except (DeltaError, OSError) as error:
        raise InterruptedJobError(
            f"storage.path: {one_line(error)}; check the address, the credentials and their rights"
        ) from error


def moved(path: str, cluster_id: str, say: Say) -> str | None:
    """Record that a storage belongs to another cluster from now on; no job may run on it.

    Args:
        path: folder or URI of the tables (``storage.path``).
        cluster_id: id of the new cluster.
        say: called with a line for people if another lease has to expire first.

    Returns:
        The id of the cluster that the storage belonged to before; None if it belonged to none, or if that is not known.

    Raises:
        JobError: a job runs on the storage.
        ConfigError: ``cluster_id`` is not a possible cluster id, or the storage cannot be written.
    """
    lock = lock_storage(path)
    lease = take_lease(path, say) if lock is None else None
    before = None
    try:
        with contextlib.suppress(ConfigError):  # this is what mends a binding that cannot be read
            before = bound_to(path)
        bind(path, cluster_id)
        if before != cluster_id:
            record(path, ())  # what hung there is of no concern here
    finally:
        if lock is not None:
            lock.close()
        if lease is not None:
            lease.release()
    return before


def run_until_signal(settings: Settings, say: Say, shell: Shell = ANYWHERE) -> None:
    """Run a job until SIGTERM or SIGINT, then stop all its parts.

    Args:
        settings: the job's settings.
        say: called with a line for people for each thing that happens at start and stop.
        shell: how commands that the job prints name the cluster and the settings.

    Raises:
        JobError: the job cannot start; another job has taken its storage over; or the process that started this one has
            ended. If it cannot start, there are other errors as well (`Job.start`).
    """
    job = Job(settings, say, shell)
    configure_logging(also=[_once(job.room)])
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        job.start()
    except KeyboardInterrupt:  # by Spark's own handler, which stands for a moment while its context is made
        say("stopped")
        return
    try:
        while not stop.wait(0.5) and job.lost is None:
            if job.is_orphaned():
                raise InterruptedJobError("spark-submit has ended, and the job with it; start it again")
        lost = job.lost
    finally:
        job.stop()
    if lost is not None:
        raise InterruptedJobError(
            f"storage.path: {settings.storage.path} was taken over by the job on {lost}, since this one was silent for "
            "too long; nothing that it did after that is in the tables"
        )
    say("stopped")


def _once(room: Room) -> Callable[[Any, str, MutableMapping[str, Any]], MutableMapping[str, Any]]:
    """`Room` reports a failure by a full disk in one line; all others who notice it stay silent."""

    def processor(_logger: Any, _level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        text = " ".join(map(str, event.values()))
        if (says_full(text) or event.get("event") == SPARK_SAID) and room.caused(text):
            raise structlog.DropEvent
        return event

    return processor


__all__ = ["Job", "JobError", "lock_storage", "moved", "run_until_signal", "take_lease", "take_over"]
