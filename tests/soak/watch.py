"""What is read of the job while it runs: its metrics every two seconds, its memory every ten."""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import psutil
from prometheus_client.samples import Sample

from parallax.model import IsolationLevel
from tests.e2e.job_process import JobProcess
from tests.reasons import UNTIL_AUDITED

_EVERY_S = 2.0
_MEMORY_EVERY_S = 10.0
MIB = 1 << 20


@dataclass(frozen=True)
class Memory:
    """What the job's processes keep to themselves (unique set size), in MiB."""

    at_s: float
    life: int
    """How often the job had been started."""
    driver_python: float
    driver_jvm: float
    workers: float
    worker_count: int

    @property
    def whole(self) -> float:
        return self.driver_python + self.driver_jvm + self.workers


@dataclass(frozen=True)
class Compared:
    """How far the comparison is, summed over the partitions of some topics."""

    records: int
    """Offsets below the common position that were judged, in both views."""
    unknown: dict[str, int]
    """Offsets without a verdict, by topic and reason; only those that have any."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Offsets that an audit has yet to tell of, by reason, which this job leaves to its regular audits."""


class Watch(threading.Thread):
    """Samples the job until it is stopped; the job may be killed and started meanwhile."""

    def __init__(self, job: JobProcess) -> None:
        super().__init__(name="watch", daemon=True)
        self._job = job
        self._stopping = threading.Event()
        self._began = time.monotonic()
        self._batches: dict[str, dict[float, float]] = defaultdict(dict)
        self._restarts: dict[tuple[int, str], float] = {}
        self.memory: list[Memory] = []
        self.life = 1

    def run(self) -> None:
        next_memory = 0.0
        while not self._stopping.wait(_EVERY_S):
            self._take_in(self._job.samples())
            if time.monotonic() >= next_memory:
                next_memory = time.monotonic() + _MEMORY_EVERY_S
                self._weigh()

    def stop(self) -> None:
        """End; also where it never began."""
        self._stopping.set()
        if self.is_alive():
            self.join(30)

    def _take_in(self, samples: Iterable[Sample]) -> None:
        by_name: dict[str, dict[str, float]] = defaultdict(dict)
        for sample in samples:
            if "query" in sample.labels:
                by_name[sample.name][sample.labels["query"]] = sample.value
        ended = by_name["parallax_query_last_progress_timestamp_seconds"]
        for query, seconds in by_name["parallax_query_batch_seconds"].items():
            if query in ended and seconds > 0:
                self._batches[query][ended[query]] = seconds
        for query, count in by_name["parallax_query_restarts_total"].items():
            self._restarts[self.life, query] = count

    def _weigh(self) -> None:
        at, life = time.monotonic() - self._began, self.life
        driver, jvm, workers, count = 0.0, 0.0, 0.0, 0
        root = self._job.process
        try:
            for process in [root, *root.children(recursive=True)]:
                size = _own(process)
                if process.pid == root.pid:
                    driver = size
                elif "java" in _name(process):
                    jvm += size
                elif size:
                    workers, count = workers + size, count + 1
        except psutil.NoSuchProcess:
            return  # it is being killed
        if jvm:
            self.memory.append(Memory(at, life, driver, jvm, workers, count))

    def batch_seconds(self) -> dict[str, list[float]]:
        """Durations of micro-batches by query, of those that a look every two seconds has seen."""
        return {query: list(seen.values()) for query, seen in sorted(self._batches.items())}

    def query_restarts(self) -> int:
        """How often the job's supervisor has restarted a query, over all lives of the job."""
        return int(sum(self._restarts.values()))


def _own(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().uss) / MIB
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0.0


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def compared(samples: Iterable[Sample], topics: Iterable[str]) -> Compared:
    """Sum up what the job says of its comparison."""
    wanted = set(topics)
    unknown: dict[str, int] = defaultdict(int)
    waiting: dict[str, int] = defaultdict(int)
    reached = 0
    for sample in samples:
        topic = sample.labels.get("topic")
        if topic not in wanted:
            continue
        if sample.name == "parallax_compared_up_to_offset":
            reached += int(sample.value)
        elif sample.name == "parallax_unknown_offsets" and sample.labels["reason"] in UNTIL_AUDITED:
            waiting[sample.labels["reason"]] += int(sample.value)
        elif sample.name == "parallax_unknown_offsets":
            unknown[f"{topic} ({sample.labels['reason']})"] += int(sample.value)
    judged = reached - sum(unknown.values()) - sum(waiting.values())
    return Compared(judged, {topic: n for topic, n in unknown.items() if n}, {r: n for r, n in waiting.items() if n})


def not_compared(samples: Iterable[Sample], high_watermarks: dict[tuple[str, int], int]) -> list[str]:
    """The views that the comparison has not carried to the high watermark yet, in words."""
    reached = {
        (s.labels["topic"], int(s.labels["partition"]), s.labels["isolation_level"]): int(s.value)
        for s in samples
        if s.name == "parallax_compared_up_to_offset"
    }
    return [
        f"{topic}-{partition} {isolation.option}: {reached.get((topic, partition, isolation.option))} of {end}"
        for (topic, partition), end in high_watermarks.items()
        for isolation in IsolationLevel
        if (reached.get((topic, partition, isolation.option)) or 0) < end
    ]


def total(samples: Iterable[Sample], name: str) -> float:
    """The sum of a metric over its labels."""
    return sum(sample.value for sample in samples if sample.name == name)


def percentile(values: list[float], share: float) -> float:
    """A percentile of some values by linear interpolation; of one value, that."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=1000, method="inclusive")[min(998, round(share * 1000) - 1)]
