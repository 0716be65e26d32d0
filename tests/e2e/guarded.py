"""A job with a guard, and the play that shows what the guard keeps."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import replace

from parallax.guard.command import open_holds, read_record
from parallax.guard.holds import SETTINGS, EventKind, Hold, Phase
from parallax.guard.table import GuardTableError
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS, ScenarioResult
from parallax.lab.scenarios.guarded import GUARDED, HELD, GuardedConductor
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from tests.e2e.job_process import JobProcess, await_exactly

GUARD = {
    "mode": "act",
    "clock_skew_ms": 0,
    "settle_s": 3,
    "stagger_s": 0,
    "min_free_percent": 1,
}


class Patient(GuardedConductor):
    """For a job that looks at progress every five seconds only, and so knows bounds that are as much earlier."""

    def _config(self) -> dict[str, str]:
        return super()._config() | {"delete.retention.ms": "30000"}


PATIENT = replace(GUARDED, conductor=Patient)


def held_topics(prefix: str) -> list[str]:
    """The topics of the play that a guard is to hold."""
    return [f"{prefix}{HELD}{suffix}" for suffix in SCENARIOS["all"].scripts]


class Guarded:
    """A job with a guard, and what it has on record."""

    def __init__(self, lab: Cluster, job: JobProcess) -> None:
        self.lab, self.job = lab, job
        self.client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers})

    def close(self) -> None:
        """Close the client; the job goes on."""
        self.client.close()

    def holds(self) -> list[Hold]:
        with contextlib.suppress(GuardTableError):
            return list(open_holds(read_record(self.job.storage)[0]))
        return []

    def kinds(self, topic: str) -> list[EventKind]:
        with contextlib.suppress(GuardTableError):
            return [e.kind for e in read_record(self.job.storage)[1] if e.topic == topic]
        return []

    def own(self, topic: str, broker: int = 1) -> dict[str, str]:
        shown = self.client.own_configs(broker, [topic], SETTINGS)[topic]
        assert isinstance(shown, dict)
        return {name: one.value for name, one in shown.items() if one.is_own}

    def await_held(self, topic: str) -> None:
        def held() -> bool:
            return any(hold.topic == topic and hold.phase is Phase.HELD for hold in self.holds())

        until(held, f"{topic} to be held", timeout=120)

    def await_released(self) -> None:
        until(lambda: not self.holds(), "everything to be let go of", timeout=120)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "parallax.cli", "guard", *words, "-c", str(self.job.config)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def assert_kept(self, result: ScenarioResult, prefix: str) -> None:
        """Of ten topics five diverged and five did not, which the guard held; settings are as if it had never been."""
        assert len(await_exactly(self.job, result)) == 5
        self.await_released()
        topics = held_topics(prefix)
        assert {topic for topic in topics if EventKind.HELD in self.kinds(topic)} == set(topics)
        untouched = [topic.replace(HELD, "open.") for topic in topics]
        assert [self.own(topic, broker) for topic in topics for broker in self.lab.brokers] == [
            self.own(topic, broker) for topic in untouched for broker in self.lab.brokers
        ]
        assert self.job.metric("parallax_guard_works") == 1.0
