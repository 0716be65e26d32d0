"""Two topics in one outage, of which the guard of a job that watches others as well holds one.

Of ten topics, which takes minutes: `tests.e2e.test_guard`.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from parallax.guard.command import read_record
from parallax.guard.holds import SETTINGS, EventKind, open_holds
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import ScenarioResult
from parallax.lab.scenarios.guarded import GUARDED, HELD, OPEN, GuardedConductor
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from tests.e2e.job_process import JobProcess, await_exactly

PREFIX = "event-guarded."


class _Patient(GuardedConductor):
    """For a job that looks at progress every five seconds only, and so knows bounds that are as much earlier.

    What it has not held by its bound it leaves alone. So it has the time of a machine that runs other things.
    """

    def _config(self) -> dict[str, str]:
        return super()._config() | {"delete.retention.ms": "60000"}


_SCRIPTS = {name: write for name, write in GUARDED.scripts.items() if name.endswith("tombstone")}
PATIENT = replace(GUARDED, scripts=_SCRIPTS, conductor=_Patient)

TOPICS = [f"{PREFIX}{suffix}" for suffix in _SCRIPTS if suffix.startswith(HELD)]

QUICK = {
    "mode": "act",
    "clock_skew_ms": 0,
    "settle_s": 3,
    "stagger_s": 0,
    "min_free_percent": 1,
}
"""Settings of a guard that acts and puts back within seconds."""

GUARD = QUICK | {"topics": TOPICS}
"""Settings of the job's guard: it looks after the topics that it is to hold, and no others."""


def what_the_guard_knew(job: JobProcess) -> str:
    """What may show why it did not act: what the clock and the guard say, the ticks that they go by, and the log."""
    samples = [s for s in job.samples() if s.name.startswith(("parallax_replica_removal", "parallax_guard"))]
    lines = [
        f"{s.name} {s.labels} {s.value}" for s in samples if "topic" not in s.labels or s.labels["topic"] in TOPICS
    ]
    log = [line[:300] for line in job.log.read_text().splitlines() if "guard" in line or "query restarts" in line]
    return "\n".join([*lines, job.diagnosis(TOPICS), *log[-40:]])


def assert_kept(lab: Cluster, job: JobProcess, result: ScenarioResult) -> None:
    """The topic that was not held diverged, the one that was did not, and no setting is left of the guard."""
    assert len(await_exactly(job, result)) == 1
    until(lambda: not open_holds(read_record(job.storage)[0]), "everything to be let go of")
    held = {event.topic for event in read_record(job.storage)[1] if event.kind is EventKind.HELD}
    assert held == set(TOPICS)
    with closing(ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)) as client:
        for broker in lab.brokers:
            shown = client.own_configs(broker, result.topics, SETTINGS)
            for topic in TOPICS:
                assert shown[topic] == shown[topic.replace(HELD, OPEN)], f"{topic} on broker {broker}"
    assert job.metric("parallax_guard_works") == 1.0
