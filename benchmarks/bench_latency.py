"""How many seconds pass between "readable on the broker" and "confirmed", with everything on one machine.

It runs the job as ``parallax demo`` does, and plays the five divergences several times on three real brokers. For each
kind of finding it prints the seconds from the first direct reading of broker 2 that showed the divergence. It also
prints how long the queries' micro-batches took, and the largest memory of the job's processes.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console
from rich.table import Table

from parallax.demo import demo_settings, judge, standing
from parallax.findings.finding import Finding
from parallax.job import Job
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.waiting import until


class Watch(threading.Thread):
    """Samples how long the job's micro-batches take and how much memory it has, twice a second, in a thread of its own.

    Attributes:
        batches: by query, the seconds of each micro-batch, by the time at which it ended.
        memory: by kind of process, the largest memory seen, in MB.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(daemon=True)
        self._job = job
        self._stop_event = threading.Event()
        self.batches: dict[str, dict[float, float]] = defaultdict(dict)
        self.memory: dict[str, float] = defaultdict(float)

    def run(self) -> None:
        """Sample until `stop` is called."""
        while not self._stop_event.wait(0.5):
            for name, query in self._job.state.snapshot().queries.items():
                if query.last_progress and query.batch_seconds:
                    self.batches[name][query.last_progress] = query.batch_seconds
            self._measure()

    def _measure(self) -> None:
        jvm = python = 0.0
        for child in psutil.Process().children(recursive=True):
            try:
                words, used = child.cmdline(), _unshared(child)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if "org.apache.spark.deploy.SparkSubmit" in words:
                jvm += used
            elif "kafka.Kafka" not in words and words and "python" in words[0]:
                python += used
        self.memory["Spark's JVM"] = max(self.memory["Spark's JVM"], jvm)
        self.memory["all Python workers"] = max(self.memory["all Python workers"], python)

    def stop(self) -> None:
        """End the sampling, and wait for its thread."""
        self._stop_event.set()
        self.join(5)


def _unshared(process: psutil.Process) -> float:
    """Proportional set size in MB: pages that forked workers share count once in all."""
    return float(process.memory_full_info().pss) / 1e6


def main() -> None:
    """Play the divergences, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    console = Console(width=110)
    seconds: dict[str, list[float]] = defaultdict(list)
    with Cluster() as cluster, tempfile.TemporaryDirectory(prefix="parallax-bench-") as folder:
        job = Job(demo_settings(cluster.bootstrap_servers, Path(folder)))
        job.start()
        watch = Watch(job)
        watch.start()
        try:
            for number in range(rounds):
                for match in _round(cluster, job, Path(folder), f"demo.{number}."):
                    seconds[str(match[0])].append(match[1])
        finally:
            watch.stop()
            job.stop()
    _print(console, seconds, watch)


def _round(cluster: Cluster, job: Job, folder: Path, prefix: str) -> list[tuple[str, float]]:
    def await_observed(topic: str, offset: int, broker: int) -> None:
        until(lambda: job.has_recorded(topic, 0, broker, offset), f"{topic} to be recorded", timeout=60)

    result = SCENARIOS["all"].run(cluster, topic_prefix=prefix, await_observed=await_observed)

    def mine() -> list[Finding]:
        return [finding for finding in standing(folder) if finding.topic in result.topics]

    until(lambda: not judge(result.expected, mine()).missing, "the findings", timeout=60)
    outcome = judge(result.expected, mine())
    if not outcome.as_expected:
        raise SystemExit(f"not as expected: {outcome}")
    return [(str(m.expected.kind), m.seconds) for m in outcome.matches]


def _print(console: Console, seconds: dict[str, list[float]], watch: Watch) -> None:
    table = Table("kind", "runs", "median s", "longest s", title="readable on broker 2 → confirmed")
    everything = [s for values in seconds.values() for s in values]
    for kind, values in [*seconds.items(), ("all", everything)]:
        table.add_row(kind, str(len(values)), f"{median(values):.1f}", f"{max(values):.1f}")
    console.print(table)
    table = Table("query", "micro-batches seen", "median s", "95 % s", title="micro-batches")
    for name, samples in sorted(watch.batches.items()):
        values = sorted(samples.values())
        table.add_row(name, str(len(values)), f"{median(values):.2f}", f"{values[int(len(values) * 0.95)]:.2f}")
    console.print(table)
    table = Table("processes", "largest MB", title="memory (proportional set size)")
    for name, used in watch.memory.items():
        table.add_row(name, f"{used:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
