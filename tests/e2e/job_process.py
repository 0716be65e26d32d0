"""The always-on job as a process of its own: started as a user starts it, killed as a power cut kills it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import pyarrow.compute as pc
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from parallax.audit.policy import policy_histories
from parallax.findings.finding import Finding, current
from parallax.findings.table import FindingsTableError, read_events
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.scenarios import ExpectedFinding, ScenarioResult
from parallax.lab.traffic import LegacyTransactionalProducer, PlainProducer
from parallax.lab.waiting import until
from parallax.lab.watchdog import Watchdog
from parallax.lab.watched import last_position, recorded_by
from parallax.model import IsolationLevel, RowKind
from parallax.views.positions import open_table
from tests.reasons import UNTIL_AUDITED

SHORT_LIVED = {"driver_java_options": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m"}
"""Spark settings of a JVM that runs for minutes: what the second compiler would win, it never gets back."""


_ASKS_ONCE = {"read": {"request_timeout_ms": 30_000}, "findings": {"probe_timeout_ms": 30_000}}


def patient(document: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a command that asks brokers once, however busy they are; what runs on asks again."""
    return {**document, **{name: {**document.get(name, {}), **section} for name, section in _ASKS_ONCE.items()}}


class JobEndedError(AssertionError):
    """The job is not there, or not any more."""


class JobProcess:
    """``parallax run`` over a folder; may be started again after it was stopped or killed.

    It dies with this process, as the lab's brokers do.
    """

    def __init__(self, folder: Path, bootstrap_servers: str, pattern: str, **sections: Mapping[str, Any]) -> None:
        document: dict[str, Any] = {
            "kafka": {"bootstrap.servers": bootstrap_servers},
            "topics": {"pattern": pattern},
            "storage": {"path": str(folder / "data")},
            # Progress by itself costs two micro-batches, of its query and of the comparison; nothing here waits for it.
            "read": {"metadata_refresh_ms": 1000, "progress_interval_ms": 5000},
            "alerting": {"metrics_host": "127.0.0.1", "metrics_port": 0},
            # The labs' delete.retention.ms is shorter than a micro-batch: every offset is read too late for it.
            "audit": {"unread_delay_s": 0},
            # A machine that runs other things takes its time; but what hangs is to be mended while a test waits.
            "supervisor": {"no_progress_deadline_s": 150},
            "spark": SHORT_LIVED,
        }
        for name, section in sections.items():
            document[name] = {**document.get(name, {}), **section}
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "parallax.yaml"
        config.write_text(yaml.safe_dump(document))
        self._know(config, document)

    @classmethod
    def of(cls, config: Path) -> Self:
        """A job whose settings somebody has written already."""
        job = cls.__new__(cls)
        job._know(config, yaml.safe_load(config.read_text()))
        return job

    def _know(self, config: Path, document: Mapping[str, Any]) -> None:
        self.config = config
        self.log = config.with_name("job.log")
        self.storage = str(document["storage"]["path"])
        self.metrics_port = document["alerting"]["metrics_port"]
        """As it is set; 0 where the job chooses one itself."""
        self.in_vain: set[tuple[str, ...]] = set()
        """The topics whose findings somebody has waited for until the end."""
        self._process: psutil.Popen | None = None
        self._watchdog: Watchdog | None = None

    def start(self, before: str = "") -> Self:
        """Start it; returns once its metrics are served.

        Args:
            before: Python that runs first in its process, to arrange for its death at some point.
        """
        program = f"{before}\nfrom parallax.cli import main\nmain()"
        return self.start_by([sys.executable, "-c", program])

    def start_by(self, command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Self:
        """Start it as another program does, which is given the command line of ``parallax`` at its end."""
        assert not self.running, "it runs: another one would be left behind"
        with self.log.open("ab") as log:
            log.write(b"=== start\n")
            log.flush()
            whole = [*command, "run", "-c", str(self.config)]
            self._process = psutil.Popen(
                whole, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd=cwd, env=env
            )
        self._watchdog = self._watchdog or Watchdog()
        self._watchdog.guard([self._process.pid])
        until(self._port, f"the job to serve metrics ({self.log})")
        return self

    def _port(self) -> int | None:
        if self._process is None or self._process.poll() is not None:
            raise JobEndedError(f"the job ended: {self.log.read_text()[-2000:]}")
        found = re.findall(r"page and metrics on port (\d+)", self.log.read_text().rsplit("=== start", 1)[1])
        return int(found[-1]) if found else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and self.log.exists():
            error.add_note(f"the job's log ends with: {self.log.read_text()[-3000:]}")
        if self._process is not None and self._process.poll() is None:
            self.kill()
        if self._watchdog is not None:
            self._watchdog.guard(())
            self._watchdog.close()
            self._watchdog = None

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Stop it as an init system does (SIGTERM), or as a person with Ctrl+C (SIGINT); gives its exit code."""
        assert self._process is not None
        self._process.send_signal(by)
        return int(self._process.wait(240))

    def kill(self) -> None:
        """Kill it, its JVM and its Python workers at once (SIGKILL)."""
        assert self._process is not None
        kill_with_children(self._process)
        self._process.wait(30)

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> psutil.Popen:
        """The driver: Python, parent of Spark's JVM."""
        assert self._process is not None
        return self._process

    @property
    def port(self) -> int:
        """Where it serves its metrics."""
        port = self._port()
        assert port is not None
        return port

    # --- what it says -----------------------------------------------------------------------------------------------

    def samples(self, *names: str) -> list[Sample]:
        """The samples of ``/metrics``, of these names or all; none while it is not served: the job may be killed."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port()}/metrics", timeout=60) as answer:
                text = answer.read().decode()
        except (OSError, urllib.error.URLError, http.client.HTTPException, JobEndedError):
            return []
        if names:  # To parse all for the sake of one costs more than to serve it.
            text = "\n".join(line for line in text.splitlines() if line.startswith(names))
        found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return [sample for sample in found if not names or sample.name in names]

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of a sample whose labels include the given ones; the sum where there are several."""
        values = [sample.value for sample in self.samples(name) if labels.items() <= sample.labels.items()]
        return sum(values) if values else None

    def unknown(self, topic: str) -> float | None:
        """Offsets that the stream has no verdict on, but for those that only an audit can tell of."""
        found = [s for s in self.samples("parallax_unknown_offsets") if s.labels["topic"] == topic]
        known = [s.value for s in found if s.labels["reason"] not in UNTIL_AUDITED]
        return sum(known) if known else None

    def findings(self) -> list[Finding]:
        """What stands, confirmed or resolved."""
        return standing(self.storage)

    def diagnosis(self, topics: Collection[str]) -> str:
        """What may show why something was not found: the queries, progress, suspects and their verdicts, the log."""
        now = time.time()
        lines = []
        for sample in self.samples():
            name = sample.name.removeprefix("parallax_")
            if name in ("query_up", "query_restarts_total", "suspects_pending", "probes_total", "findings_writable"):
                lines.append(f"{name}{sample.labels} {sample.value:.0f}")
            elif name == "query_last_progress_timestamp_seconds":
                lines.append(f"{name}{sample.labels} {now - sample.value:.0f} s ago")
        for what, table in (("last ticks", self._ticks), ("suspects", self._suspects), ("events", self._verdicts)):
            try:
                lines.append(f"{what}: {table(topics)}")
            except Exception as error:  # noqa: BLE001 - it is said beside what else is known
                lines.append(f"{what}: {error}")
        log = [line[:300] for line in self.log.read_text().splitlines() if line.strip() and "UDF: <bound" not in line]
        return "\n".join([*lines, *log[-15:]])

    def _ticks(self, topics: Collection[str]) -> str:
        dataset = open_table(self.storage, "replica_progress").to_pyarrow_dataset()
        wanted = pc.field("topic").isin(list(topics))
        rows = dataset.to_table(columns=["broker", "observed_at", "reachable", "error"], filter=wanted).to_pylist()
        last = {row["broker"]: row for row in sorted(rows, key=lambda row: row["observed_at"])}
        return str([(b, str(r["observed_at"]), r["reachable"], r["error"]) for b, r in sorted(last.items())])

    def _suspects(self, topics: Collection[str]) -> str:
        rows = open_table(self.storage, "suspects").to_pyarrow_table().to_pylist()
        return str([(r["topic"], r["kind"], r["broker"], str(r["raised_at"])) for r in rows if r["topic"] in topics])

    def _verdicts(self, topics: Collection[str]) -> str:
        events = [event for event in read_events(self.storage) if event.topic in topics]
        return str([(str(e.decided_at), str(e.status), str(e.kind), e.summary[:200]) for e in events])

    def recorded(self, topic: str) -> dict[str, Counter[tuple[int, int]]]:
        """How often each (broker, offset) of a topic's records is in each view."""
        return {isolation.option: self._recorded(isolation, topic) for isolation in IsolationLevel}

    def _recorded(self, isolation: IsolationLevel, topic: str) -> Counter[tuple[int, int]]:
        dataset = open_table(self.storage, isolation.option).to_pyarrow_dataset()
        wanted = (pc.field("kind") == int(RowKind.RECORD)) & (pc.field("topic") == topic)
        rows = dataset.to_table(columns=["broker", "offset"], filter=wanted).to_pylist()
        return Counter((row["broker"], row["offset"]) for row in rows)

    def events(self, topic: str, broker: int) -> set[str]:
        """What the position rows of a replica have reported so far, in both views."""
        events = set()
        wanted = (pc.field("kind") == int(RowKind.POSITION)) & (pc.field("topic") == topic)
        for isolation in IsolationLevel:
            dataset = open_table(self.storage, isolation.option).to_pyarrow_dataset()
            rows = dataset.to_table(columns=["broker", "position"], filter=wanted).to_pylist()
            events |= {row["position"]["event"] for row in rows if row["broker"] == broker}
        return events

    def await_observed(self, topic: str, offset: int, broker: int) -> None:
        """Wait until both tables hold all that a replica of partition 0 shows up to an offset (the scenarios' hook)."""
        recorded_by(self.storage)(topic, offset, broker)

    def await_policies(self, topics: Collection[str]) -> None:
        """Wait until it has recorded that topics are not compacted: of what is written later nothing may be missing."""

        def known() -> bool:
            return {place.topic for place, _ in policy_histories(self.storage, topics)} == set(topics)

        until(known, f"the policies of {topics} to be recorded")

    def last_position(self, isolation: IsolationLevel, topic: str, broker: int) -> dict[str, Any] | None:
        """The last position row of a replica of partition 0 in a view."""
        return last_position(self.storage, isolation, topic, broker)


def kill_with_children(process: psutil.Process) -> None:
    """Kill a process and all that it started (SIGKILL)."""
    for victim in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker ends by itself when its JVM is gone
            victim.kill()


@dataclass
class Stream:
    """A topic that is written to, and what both views of each replica must hold of it, once."""

    lab: Cluster
    topic: str
    offsets: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lab.create_topic(self.topic, replicas=[1, 2, 3])
        self._plain = PlainProducer(self.lab.bootstrap_servers)
        self._transactional = LegacyTransactionalProducer(self.lab.bootstrap_servers, self.topic)

    def write(self, plain: int = 3) -> int:
        """Write records outside of transactions, a committed and an aborted transaction; gives the last offset."""
        self.offsets += [self._plain.send(self.topic, f"key-{n}", "value") for n in range(plain)]
        for end in (self._transactional.commit, self._transactional.abort):
            self._transactional.begin()
            self.offsets.append(self._transactional.send(self.topic, "key", "value"))
            end()
        return self.offsets[-1]

    def await_recorded_once(self, job: JobProcess) -> None:
        """Wait until all that was written is recorded and compared; each row must be there once."""
        began = time.monotonic()
        for broker in self.lab.brokers:
            job.await_observed(self.topic, self.offsets[-1], broker)
        until(lambda: self._compared(job), f"{self.topic} to be compared to its end")
        wanted = Counter({(broker, offset): 1 for broker in self.lab.brokers for offset in self.offsets})
        for view, counts in job.recorded(self.topic).items():
            assert counts == wanted, f"{view}: {counts - wanted} too often or too much, {wanted - counts} missing"
        print(f"{2 * wanted.total()} rows recorded once and compared after {time.monotonic() - began:.1f} s")

    def _compared(self, job: JobProcess) -> bool:
        reached = [
            job.metric("parallax_compared_up_to_offset", topic=self.topic, isolation_level=level.option) or 0.0
            for level in IsolationLevel
        ]
        return min(reached) > self.offsets[-1] and job.unknown(self.topic) == 0.0


def standing(storage: str) -> list[Finding]:
    """What stands in a storage, confirmed or resolved."""
    try:
        found = current(read_events(storage)).values()
    except FindingsTableError:
        return []
    return [finding for finding in found if finding.status != "dismissed"]


def places(found: list[Finding]) -> list[tuple[str, str, int, int]]:
    return sorted((str(f.kind), f.topic, f.partition, f.broker) for f in found)


def expected_places(expected: tuple[ExpectedFinding, ...]) -> list[tuple[str, str, int, int]]:
    return sorted((str(e.kind), e.topic, e.partition, e.broker) for e in expected)


def await_exactly(job: JobProcess, result: ScenarioResult) -> list[Finding]:
    """Wait for the scenario's findings; fail if its topics ever show another one that stays."""

    def of_this_scenario() -> list[Finding]:
        return [f for f in job.findings() if f.topic in result.topics]

    wanted = expected_places(result.expected)
    with contextlib.suppress(LabError):  # what is there instead says more
        # Who asks once more what did not come about in time does not wait as long again.
        patience = 5.0 if result.topics in job.in_vain else 420.0
        until(lambda: places(of_this_scenario()) == wanted, "the findings", timeout=patience, interval=0.2)
    found = of_this_scenario()
    if places(found) != wanted:
        first = result.topics not in job.in_vain
        job.in_vain.add(result.topics)
        raise AssertionError(f"{places(found)}, not {wanted}\n{job.diagnosis(result.topics) if first else ''}")
    return found


def assert_nothing_differs_in_the_tables(job: JobProcess, *options: str) -> None:
    """Audit what a job has recorded: all of it can be read and is alike, but for what nobody had read in time."""
    command = [sys.executable, "-m", "parallax.cli", "audit", "-c", str(job.config), "--from", "tables"]
    audited = subprocess.run(
        [*command, "--format", "json", *options], capture_output=True, text=True, timeout=900, check=False
    )
    assert audited.returncode in (0, 3), audited.stderr[-2000:]
    found = json.loads(audited.stdout)["partitions"]
    assert found
    for one in found:
        assert one["findings"] == []
        assert all("is not in the tables; audit the brokers" in reason for reason in one["reasons"]), one["reasons"]


def await_compared(job: JobProcess, topics: tuple[str, ...]) -> None:
    """Wait until every offset of the topics has a verdict in both views."""

    def settled() -> bool:
        return all(
            job.unknown(topic) == 0.0
            and (job.metric("parallax_compared_up_to_offset", topic=topic, isolation_level="read_uncommitted") or 0) > 0
            for topic in topics
        )

    until(settled, f"{topics} to be compared to their end")
