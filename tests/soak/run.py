"""One soak from its first record to its report."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from parallax.demo import judge
from parallax.findings.finding import Finding
from parallax.lab.admin import set_broker_config
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.scenarios import SCENARIOS, ExpectedFinding
from parallax.lab.scenarios.conductor import OutageKind
from parallax.lab.traffic import ProducerKind
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient, Watermarks
from parallax.replica.errors import ReplicaError
from tests.e2e.job_process import JobProcess
from tests.soak import brokers, tables, watch
from tests.soak.chaos import KINDS, Chaos
from tests.soak.clients.load import Clients
from tests.soak.clients.settings import broker_settings
from tests.soak.hidden import Hidden
from tests.soak.load import Load
from tests.soak.plan import BROKERS, FAULT_BROKERS, Plan, Topic
from tests.soak.report import Report
from tests.soak.traffic import Traffic

Say = Callable[[str], None]

_FIRST_COMPARISON_S = 400.0
_AT_REST_S = 120.0
_ALL_COMPARED_S = 300.0
_FOUND_S = 180.0
_QUIET_S = 10.0
_CLEANED_S = 180.0
_LOOK_S = 3.0
_NOTHING_FALSE = "nothing false was found in the healthy part"
_OUTAGES: tuple[OutageKind, ...] = ("kill", "stop", "pause")
_PRODUCERS: tuple[ProducerKind, ...] = ("legacy", "java")


class Soak:
    """A cluster, a job and the report that fills up."""

    def __init__(self, plan: Plan, cluster: Cluster, load: Load, job: JobProcess, say: Say) -> None:
        self._plan = plan
        self._cluster = cluster
        self._job = job
        self._say = say
        self._client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=5000)
        self._load = load
        self._watch = watch.Watch(job)
        self._hidden = Hidden({broker.id: broker.folder / "data" for broker in cluster.brokers.values()})
        self.report = Report(plan)

    def play(self) -> Report:
        """The healthy part, then the faults; a false finding ends the run at once, with everything left as it is."""
        self._load.create()
        try:
            self._timed("healthy", self._healthy)
            self._timed("compared to the end", self._compare_to_the_end)
            self._weigh_evidence()
            if self.report.passed:
                self._timed("faults", self._faults)
        finally:
            self._watch.stop()
            self._hidden.stop()
            self._close()
        return self.report

    def _timed(self, phase: str, work: Callable[[], None]) -> None:
        started = time.monotonic()
        try:
            work()
        finally:
            self.report.seconds[phase] = time.monotonic() - started

    def _close(self) -> None:
        self.report.batches = self._watch.batch_seconds()
        self.report.memory = self._watch.memory
        self.report.query_restarts = self._watch.query_restarts()
        self._client.close()

    # --- the healthy part -------------------------------------------------------------------------------------------

    def _healthy(self) -> None:
        """Traffic and blows for as long as asked, with the job killed meanwhile."""
        self._start_job()
        self._watch.start()
        self._hidden.start()
        self._load.start()
        chaos = Chaos(self._cluster, self._plan, self._load, self._say)
        chaos.start()
        started, kills = time.monotonic(), list(self._plan.job_kills_s)
        try:
            while self._goes_on(at := time.monotonic() - started, len(chaos.blows)):
                if self._found_something():
                    break
                chaos.check()
                self._load.check()
                if kills and at >= kills[0]:
                    kills.pop(0)
                    self._kill_job()
                time.sleep(_LOOK_S)
        finally:
            chaos.stop()
            self.report.blows = chaos.blows
            self._say("stopping the traffic")
            held = self._load.stop()
            self.report.written = self._load.tally.read()
        kinds = {blow.kind for blow in chaos.blows}
        self.report.check("every kind of blow was survived", kinds == set(KINDS))
        self.report.check("the job was killed", not kills)
        for name, holds in held.items():
            self.report.check(name, holds)

    def _goes_on(self, at: float, blows: int) -> bool:
        """Whether the healthy part is to go on: all kinds of blows were dealt, and cleaning has come to every broker.

        A machine that stalls may take longer to it; what has been cleaned is counted before the traffic ends, for
        Kafka cleans nothing of a log to which nothing is written.
        """
        if at < self._plan.healthy_s or blows < len(KINDS):
            return True
        return at < self._plan.healthy_s + _CLEANED_S and not self._all_have_cleaned()

    def _all_have_cleaned(self) -> bool:
        if not brokers.all_in_sync(self._cluster):
            return False  # what a broker that is away holds, or shows when it is just back, says nothing
        try:
            self._count_cleaned()
        except ReplicaError:
            return False
        return self.report.all_have_cleaned(self._cluster.brokers)

    def _count_cleaned(self) -> None:
        """Count what is recorded, and what the brokers still hold of it."""
        topics = self._topics()
        # Only the cleaner takes anything away from a topic that is compacted and nothing else.
        compacted = [topic for topic in topics if topic.policy == "compact"]
        names = [topic.name for topic in topics]
        self.report.recorded = tables.recorded(self._job.storage, names, [topic.name for topic in compacted])
        self.report.held = brokers.held(self._client, self._cluster.brokers, compacted)

    def _topics(self) -> tuple[Topic, ...]:
        """The topics that are worked on; whatever broker is asked for them, one answers in the end."""

        def known() -> tuple[Topic, ...] | None:
            try:
                return self._load.topics()
            except KafkaException:
                return None

        return until(known, "the topics to be known", timeout=_AT_REST_S, interval=1.0)

    def _start_job(self) -> None:
        started, since = time.monotonic(), time.time()
        self._job.start()
        until(
            lambda: (self._job.metric("parallax_heartbeat_timestamp_seconds") or 0) > since,
            f"the job to compare ({self._job.log})",
            timeout=_FIRST_COMPARISON_S,
            interval=0.5,
        )
        self.report.job_starts_s.append(time.monotonic() - started)

    def _kill_job(self) -> None:
        self._say("kill -9 of the job")
        self._job.kill()
        self._watch.life += 1
        self._start_job()

    def _found_something(self) -> bool:
        return bool(self._false())

    def _false(self) -> list[Finding]:
        """The findings that are not true by the brokers' own files."""
        found = self._job.findings()
        self.report.explained = [one for one in found if self._hidden.explains(one)]
        return self._hidden.unexplained(found)

    def _compare_to_the_end(self) -> None:
        """Wait until every offset has a verdict and every suspect is decided, so that silence has been said of all."""
        if false := self._false():
            self.report.findings = false
            self.report.check(_NOTHING_FALSE, False)
            return
        ends = self._await_rest()
        high = {partition: max(w.high_watermark for w in replicas.values()) for partition, replicas in ends.items()}
        self._say(f"{sum(high.values()):,} offsets in {len(high)} partitions; waiting for the comparison")
        self.report.check("everything was compared up to the high watermark", self._all_compared(high))
        samples = self._job.samples()
        self.report.compared = watch.compared(samples, [topic.name for topic in self._topics()])
        pending = int(watch.total(samples, "parallax_suspects_pending"))
        self.report.check("no suspect is left undecided", pending == 0)
        self.report.findings = self._false()
        self.report.check(_NOTHING_FALSE, not self.report.findings)

    def _await_rest(self) -> dict[brokers.Partition, dict[int, Watermarks]]:
        """Wait until all replicas go equally far and no transaction is open; says which do not where they never do."""

        partitions = brokers.partitions_of(self._topics())

        def asked() -> dict[brokers.Partition, dict[int, Watermarks]] | None:
            return brokers.ends(self._client, self._cluster.brokers, partitions)

        def at_rest() -> bool:
            found = asked()
            return found is not None and not brokers.restless(found)

        try:
            until(at_rest, "rest", timeout=_AT_REST_S, interval=1.0)
        except LabError:
            self.report.check("the replicas came to rest", False)
        ends = until(asked, "all brokers to answer", timeout=_AT_REST_S, interval=1.0)
        for (topic, partition), replicas in brokers.restless(ends).items():
            self._say(f"not at rest: {topic}-{partition}: {replicas}")
        return ends

    def _all_compared(self, high: dict[brokers.Partition, int]) -> bool:
        def all_done() -> bool:
            samples = self._job.samples()
            left = watch.not_compared(samples, high)
            return bool(samples) and not left and not watch.total(samples, "parallax_suspects_pending")

        try:
            until(all_done, "the comparison", timeout=_ALL_COMPARED_S, interval=1.0)
        except LabError:
            for line in watch.not_compared(self._job.samples(), high):
                self._say(f"not compared: {line}")
            return False
        return True

    def _read_work(self, topics: tuple[Topic, ...]) -> None:
        """Read of one broker what the topics still hold."""
        broker = next(iter(self._cluster.brokers))
        for topic in topics:
            self.report.left[topic.name] = brokers.held(self._client, [broker], [topic]).of(broker)
        self.report.check_work(self._load.work)

    def _weigh_evidence(self) -> None:
        """Read from the brokers and the tables what really happened in the healthy part."""
        report = self.report
        topics = self._topics()
        logs = [broker.log for broker in self._cluster.brokers.values()]
        report.cleaning = brokers.cleaning(logs, {topic.name for topic in topics})
        self._read_work(topics)
        self._count_cleaned()
        raised = Counter(f"{suspect['rule']} {suspect['kind']}" for suspect in tables.suspects(self._job.storage))
        report.suspects = dict(sorted(raised.items()))
        report.check(
            "no broker was away for longer than delete.retention.ms",
            report.longest_away_s() < self._plan.delete_retention_s,
        )
        report.check("nothing was recorded twice", report.recorded is not None and report.recorded.twice == 0)
        report.check(
            "every broker has cleaned tombstones and markers away", report.all_have_cleaned(self._cluster.brokers)
        )

    # --- the faults -------------------------------------------------------------------------------------------------

    def _faults(self) -> None:
        """One divergence after the other, each in its own outage; then a while for what should not come."""
        set_broker_config(self._cluster, FAULT_BROKERS)
        drawn = self._plan.random("faults")
        expected: list[ExpectedFinding] = []
        for name in self._plan.faults:
            outage, producer = drawn.choice(_OUTAGES), drawn.choice(_PRODUCERS)
            self._say(f"fault {name} ({outage}, {producer} transactions)")
            result = SCENARIOS[name].run(
                self._cluster,
                producer=producer,
                topic_prefix=f"fault.{name}.",
                await_observed=self._job.await_observed,
                outage=outage,
            )
            expected += result.expected
            self._await_found(expected)
        time.sleep(_QUIET_S)  # nothing announces that no further finding comes
        self.report.faults = judge(expected, self._false())
        self.report.check("every fault was found", not self.report.faults.missing)
        self.report.check("nothing but the faults was found", not self.report.faults.unexpected)

    def _await_found(self, expected: list[ExpectedFinding]) -> None:
        try:
            until(lambda: not judge(expected, self._job.findings()).missing, "the fault to be found", timeout=_FOUND_S)
        except LabError as error:
            self._say(str(error))


def soak(plan: Plan, folder: Path, say: Say, *, version: str | None = None) -> Report:
    """Run a soak in a folder, which is kept by the caller's wish only; the brokers' folder goes when all was well.

    Raises:
        LabError: brokers, producers or the job failed in a way that says nothing about what Parallax finds.
    """
    arguments: dict[str, Any] = {} if version is None else {"version": version}
    settings = {**BROKERS, **(broker_settings(plan.delete_retention_s) if plan.real_clients else {})}
    with Cluster(settings=settings, progress=say, **arguments) as cluster:
        load = Clients(cluster, plan, say) if plan.real_clients else Traffic(cluster, plan)
        with closing(load), _job(folder, cluster, load) as job:
            report = Soak(plan, cluster, load, job, say).play()
            if report.passed:
                report.check("the job stopped in good order", job.stop() == 0)
            else:
                _keep(report, cluster, job, say)
    return report


def _job(folder: Path, cluster: Cluster, load: Load) -> JobProcess:
    sections = {"topics": load.watched, "storage": {"maintenance_interval_s": 120}}
    return JobProcess(folder, cluster.bootstrap_servers, load.watched["pattern"], **sections)


def _keep(report: Report, cluster: Cluster, job: JobProcess, say: Say) -> None:
    cluster.keep_logs = True
    say(f"kept: the brokers in {cluster.folder}, the job's log and tables in {job.config.parent}")
    accused = {finding.suspect_id for finding in report.findings}
    for suspect in tables.suspects(job.storage):
        if suspect["suspect_id"] in accused:
            say(f"suspect: {json.dumps(suspect, default=str)}")
