"""Several scenarios in one outage of one broker, each with its own kind of producer, verified as if it were alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS, Scenario, ScenarioResult
from parallax.lab.scenarios.conductor import AwaitObserved, Conductor, OutageKind, Say
from parallax.lab.traffic import ProducerKind
from parallax.lab.view import ReplicaView, read_replica
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from tests.asking import ask
from tests.e2e import witness
from tests.e2e.job_process import JobProcess
from tests.e2e.prometheus import INSTALLED, Alertmanager, Prometheus
from tests.receiver import Receiver

_PATIENCE_S = 600.0


@dataclass(frozen=True)
class Part:
    """One scenario of a play, which may be said by its name, where its topics are, and who writes the transactions."""

    scenario: str | Scenario
    topic_prefix: str
    producer: ProducerKind = "legacy"
    await_observed: AwaitObserved | None = None
    hold_s: float = 0.0
    say: Say = lambda _: None


def play(cluster: Cluster, parts: Sequence[Part], outage: OutageKind = "kill") -> list[ScenarioResult]:
    """Play all parts side by side; the broker goes when all have written, and returns when all have cleaned.

    Args:
        cluster: three brokers, all up.
        parts: must have topics of their own.
        outage: how broker 2 goes.

    Returns:
        One result for each part, in their order.

    Raises:
        ScenarioFailed: the state of a part does not stand.
        LabError: brokers or producers failed on the way.
    """
    away, back = threading.Barrier(len(parts)), threading.Barrier(len(parts))
    conductors = [_conductor(cluster, part, outage, away, back) for part in parts]

    def run(conductor: Conductor) -> ScenarioResult:
        try:
            return conductor.play()
        except BaseException:
            away.abort()
            back.abort()
            raise

    with ThreadPoolExecutor(len(parts)) as pool:
        futures = [pool.submit(run, conductor) for conductor in conductors]
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:  # that of a part which waited for another in vain says least
        raise min(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError))
    return [future.result() for future in futures]


def _conductor(
    cluster: Cluster, part: Part, outage: OutageKind, away: threading.Barrier, back: threading.Barrier
) -> Conductor:
    scenario = SCENARIOS[part.scenario] if isinstance(part.scenario, str) else part.scenario

    class Together(scenario.conductor):  # type: ignore[name-defined, misc]
        """The script that comes last to where the broker goes or returns makes it so, for all."""

        def _lose_victim(self) -> None:
            self._meet(away, super()._lose_victim)

        def _return_victim(self) -> None:
            self._meet(back, super()._return_victim)

        def _meet(self, barrier: threading.Barrier, then: Any) -> None:
            if barrier.wait(_PATIENCE_S) == 0:
                then()
            # A broker that stops leaves the ISR while it still fetches: nobody goes on before it is gone.
            barrier.wait(_PATIENCE_S)

    return Together(
        scenario.name,
        scenario.scripts,
        cluster,
        diverges=scenario.diverges,
        producer=part.producer,
        topic_prefix=part.topic_prefix,
        say=part.say,
        await_observed=part.await_observed,
        hold_s=part.hold_s,
        outage=outage,
    )


@dataclass
class Recorder:
    """Remembers everything that each replica ever showed, as the views would."""

    client: ReplicaClient
    seen: dict[tuple[str, int], ReplicaView] = field(default_factory=dict)

    def __call__(self, topic: str, offset: int, broker: int) -> None:
        """Read a replica until it shows an offset (the scenarios' hook)."""

        def shown() -> bool:
            try:
                now = read_replica(self.client, broker, topic)
            except ReplicaError:
                return False
            kept = self.seen.setdefault((topic, broker), now)
            kept.records.update(now.records)
            kept.markers.update(now.markers)
            return offset in kept.records or offset in kept.markers

        until(shown, f"offset {offset} of {topic} to show on broker {broker}")


@dataclass(frozen=True)
class Alerting:
    """The chain of an alert behind ``/metrics``, with the shipped rules and routes."""

    prometheus: Prometheus
    alertmanager: Alertmanager


@contextmanager
def alerting(folder: Path, receiver: Receiver) -> Iterator[Alerting]:
    """Start Prometheus and Alertmanager."""
    with (
        Alertmanager(folder / "alertmanager", receiver.port) as alertmanager,
        Prometheus(folder / "prometheus", alertmanager.port) as prometheus,
    ):
        yield Alerting(prometheus, alertmanager)


@dataclass(frozen=True)
class Played:
    """What one outage has left: diverging and healthy topics of both kinds of producers, and a job that saw it all.

    Attributes:
        lab: the brokers, all up; who hurts them mends them.
        job: runs until the last test of ``test_job`` stops it.
        client: pinned client.
        recorder: holds what each replica of the ``legacy`` topics ever showed.
        began: seconds since the epoch.
        gone: the five divergences, by producer; topics ``gone-<producer>-<script>``.
        well: the healthy controls, by producer; topics ``well-<producer>-<script>``.
        receiver: has been told of all alerts, by Alertmanager, and by the job itself (path ``/direct``).
        alerting: has scraped the job since it began, and sent its alerts; None where it is not installed.
        at_first: what ``/readyz`` said once it was served.
    """

    lab: Cluster
    job: JobProcess
    client: ReplicaClient
    recorder: Recorder
    began: float
    gone: Mapping[ProducerKind, ScenarioResult]
    well: Mapping[ProducerKind, ScenarioResult]
    receiver: Receiver
    alerting: Alerting | None
    at_first: Mapping[str, Any]


@contextmanager
def played_once(folder: Path) -> Iterator[Played]:
    """Start brokers and a job that has no right but to read, and play everything in one outage."""
    with Receiver() as receiver, witness.witnessed() as lab:
        witness.grant_reading(lab, "gone-", "well-")
        yield from _played(folder, lab, receiver)


def _played(folder: Path, lab: Cluster, receiver: Receiver) -> Iterator[Played]:
    shown = {
        "alerting": {"cluster": "played", "webhooks": [{"name": "direct", "url": f"{receiver.url}/direct"}]},
        "storage": {"maintenance_interval_s": 30},
        "audit": {"interval_s": 60},
        "kafka": witness.options(lab),
        "findings": {"recheck_interval_s": 10},
    }
    with (
        JobProcess(folder, lab.bootstrap_servers, "(gone|well)-.*", **shown) as job,
        alerting(folder, receiver) if INSTALLED else nullcontext() as chain,
    ):
        job.start()
        at_first = json.loads(ask(f"http://127.0.0.1:{job.port}", "/readyz").text)
        if chain is not None:
            chain.prometheus.scrape(job.port)
        client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)
        recorder = Recorder(client)

        def both(topic: str, offset: int, broker: int) -> None:
            recorder(topic, offset, broker)
            job.await_observed(topic, offset, broker)

        began = time.time()
        kinds: tuple[ProducerKind, ...] = ("legacy", "java")
        parts = [
            Part(scenario, f"{word}-{kind}-", kind, both if kind == "legacy" else job.await_observed)
            for word, scenario in (("gone", "all"), ("well", "healthy"))
            for kind in kinds
        ]
        results = play(lab, parts)
        gone, well = (dict(zip(kinds, some, strict=True)) for some in (results[:2], results[2:]))
        try:
            yield Played(lab, job, client, recorder, began, gone, well, receiver, chain, at_first)
        finally:
            client.close()
