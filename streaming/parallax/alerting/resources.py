"""How much memory the job's processes use, by the operating system's count."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

DRIVER, JVM, WORKER = "driver", "jvm", "python_worker"


class ResourceCollector(Collector):
    """Exposes as metrics how many processes the job has, and how much memory they use.

    It counts this process and all processes below it: the driver, its JVM, and Spark's workers.
    """

    def collect(self) -> Iterator[Metric]:
        """The metric families on memory and number of processes. A process that ends meanwhile is left out."""
        memory = GaugeMetricFamily(
            "parallax_memory_bytes",
            "Memory of the job's processes. What several share counts once (proportional set size), where the "
            "system says it.",
            labels=["process"],
        )
        count = GaugeMetricFamily("parallax_processes", "Processes of the job that run.", labels=["process"])
        used: dict[str, list[int]] = {}
        this = psutil.Process()
        for process in (this, *this.children(recursive=True)):
            try:
                role = DRIVER if process == this else JVM if process.name() == "java" else WORKER
                used.setdefault(role, []).append(_memory(process))
            except psutil.Error:
                continue
        for role, sizes in sorted(used.items()):
            memory.add_metric([role], sum(sizes))
            count.add_metric([role], len(sizes))
        yield memory
        yield count


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (AttributeError, psutil.AccessDenied):
        return int(process.memory_info().rss)
