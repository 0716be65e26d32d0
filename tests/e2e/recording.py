"""Queries that record the views of a topic."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from parallax.config import validate
from parallax.lab.cluster import Cluster
from parallax.views.queries import view_queries
from tests.e2e.job_process import SHORT_LIVED


def settings(kafka: Cluster, topic: str, path: Path, **read: Any) -> dict[str, Any]:
    return {
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
        "topics": {"include": [topic]},
        "storage": {"path": str(path)},
        "read": {"trigger_ms": 500, "request_timeout_ms": 2000, **read},
        "spark": {"master": "local[2]", **SHORT_LIVED},
        # A machine that runs other things takes its time over the first batch.
        "supervisor": {"no_progress_deadline_s": 600},
    }


class Queries:
    """The recording queries in this process; each start makes them again, as a new process does."""

    def __init__(self, spark: Any, document: dict[str, Any]) -> None:
        self._queries = [spec.start(spark) for spec in view_queries(validate(document))]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for query in self._queries:
            query.stop()

    def poll(self) -> object:
        """What a query that ended died of; None while all run."""
        return next((query.exception() or "stopped" for query in self._queries if not query.isActive), None)


def wait(
    condition: Callable[[], bool], what: str, alive: subprocess.Popen[str] | Queries | None = None, seconds: int = 300
) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert alive is None or alive.poll() is None, f"the job ended before {what}: {alive.poll()}"
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.4)


VIEWS = ("read_uncommitted", "read_committed")
