"""Ten topics in one outage, of which the guard of a job that watches others as well holds five."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from parallax.guard.command import open_holds, read_record
from parallax.guard.holds import SETTINGS, EventKind
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS, ScenarioResult
from parallax.lab.scenarios.guarded import GUARDED, HELD, OPEN, GuardedConductor
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from tests.e2e.job_process import JobProcess, await_exactly

PREFIX = "event-guarded."


class _Patient(GuardedConductor):
    """For a job that looks at progress every five seconds only, and so knows bounds that are as much earlier."""

    def _config(self) -> dict[str, str]:
        return super()._config() | {"delete.retention.ms": "30000"}


PATIENT = replace(GUARDED, conductor=_Patient)

TOPICS = [f"{PREFIX}{HELD}{suffix}" for suffix in SCENARIOS["all"].scripts]

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


def assert_kept(lab: Cluster, job: JobProcess, result: ScenarioResult) -> None:
    """Five of ten topics diverged, the five that were held did not, and no setting is left of the guard."""
    assert len(await_exactly(job, result)) == 5
    until(lambda: not open_holds(read_record(job.storage)[0]), "everything to be let go of", timeout=120)
    held = {event.topic for event in read_record(job.storage)[1] if event.kind is EventKind.HELD}
    assert held == set(TOPICS)
    with closing(ReplicaClient({"bootstrap.servers": lab.bootstrap_servers})) as client:
        for broker in lab.brokers:
            shown = client.own_configs(broker, result.topics, SETTINGS)
            for topic in TOPICS:
                assert shown[topic] == shown[topic.replace(HELD, OPEN)], f"{topic} on broker {broker}"
    assert job.metric("parallax_guard_works") == 1.0
