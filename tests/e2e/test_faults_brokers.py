"""Brokers whose answers are late, truncated or garbled: nobody else waits, nothing is lost, and no verdict is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from parallax.cli import app
from parallax.findings.finding import Finding
from parallax.findings.table import read_events
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from parallax.views.binding import bind, bound_to
from tests.e2e.faulty import Faulty
from tests.e2e.job_process import JobProcess, Stream, await_exactly, patient
from tests.e2e.proxy import Fault, Proxies

pytestmark = pytest.mark.timeout(1500)

_QUERIES = ("read_uncommitted", "read_committed", "progress", "compare")
_IN_THE_RECORDS = (Fault.FLIP_RECORDS, Fault.FLIP_OFFSET, Fault.FLIP_LENGTH)


@pytest.fixture(scope="module")
def lab(faulty: Faulty) -> Cluster:
    return faulty.lab


@pytest.fixture(scope="module")
def proxies(faulty: Faulty) -> Proxies:
    return faulty.proxies


@pytest.fixture(scope="module")
def job(faulty: Faulty) -> JobProcess:
    """One job that reaches every broker through a proxy; each test leaves it running."""
    return faulty.job


def reachable(job: JobProcess, broker: int) -> float | None:
    return job.metric("parallax_broker_reachable", broker_id=str(broker))


def restarts(job: JobProcess) -> dict[str, float | None]:
    """How often each query was started again."""
    return {query: job.metric("parallax_query_restarts_total", query=query) for query in _QUERIES}


def unknown(job: JobProcess, topic: str) -> float:
    return job.unknown(topic) or 0.0


@pytest.mark.parametrize(
    "faults",
    [
        {2: Fault.FLIP_RECORDS, 3: Fault.SILENCE},
        pytest.param({2: Fault.RESET, 3: Fault.FLIP_OFFSET}, marks=pytest.mark.release),
        pytest.param({2: Fault.REFUSE, 3: Fault.SLOW}, marks=pytest.mark.release),
        pytest.param({2: Fault.FLIP_SIZE, 3: Fault.TRUNCATE}, marks=pytest.mark.release),
        pytest.param({2: Fault.FLIP_ID, 3: Fault.FLIP_LENGTH}, marks=pytest.mark.release),
    ],
    ids=lambda faults: ", ".join(f"{broker} {fault}" for broker, fault in faults.items()),
)
def test_two_brokers_that_are_hurt_hold_up_no_third_and_catch_up(
    lab: Cluster, proxies: Proxies, job: JobProcess, topic: str, faults: Mapping[int, Fault]
) -> None:
    stream = Stream(lab, f"hurt-{topic}")
    job.await_observed(stream.topic, stream.write(), 1)
    before = restarts(job)
    with ExitStack() as stack:
        hurt = {broker: stack.enter_context(proxies.of[broker].hurting(fault)) for broker, fault in faults.items()}
        job.await_observed(stream.topic, stream.write(), 1)
        until(lambda: unknown(job, stream.topic) > 0, "the offsets of the hurt brokers to be unknown")
        for broker, fault in faults.items():
            until(lambda broker=broker: hurt[broker].hits > 0, f"an answer of {broker} that {fault}")  # type: ignore[misc]
            if fault in _IN_THE_RECORDS:
                until(
                    lambda broker=broker: job.events(stream.topic, broker) & {"corrupt_batch", "unsupported"},  # type: ignore[misc]
                    f"the batch of {broker} to be reported as corrupt",
                )
            else:
                until(lambda broker=broker: reachable(job, broker) == 0.0, f"{broker} reported as unreachable")  # type: ignore[misc]
        until(lambda: reachable(job, 1) == 1.0, "broker 1 to be reported as reachable")
        job.await_observed(stream.topic, stream.write(), 1)
    until(lambda: reachable(job, 2) == reachable(job, 3) == 1.0, "both to be reported as reachable again")
    stream.await_recorded_once(job)
    assert unknown(job, stream.topic) == 0.0
    assert [f for f in job.findings() if f.topic == stream.topic] == []
    assert restarts(job) == before, "no query falls over a broker"


def test_after_all_brokers_were_away_a_divergence_is_found_once(
    lab: Cluster, proxies: Proxies, job: JobProcess, faulty: Faulty, topic: str
) -> None:
    stream = Stream(lab, f"hurt-{topic}")
    job.await_observed(stream.topic, stream.write(), 1)
    with ExitStack() as stack:
        for proxy in proxies.of.values():
            stack.enter_context(proxy.hurting(Fault.REFUSE))
        until(lambda: all(reachable(job, broker) == 0.0 for broker in (1, 2, 3)), "all reported as unreachable")
        stream.write()
    stream.await_recorded_once(job)
    (finding,) = await_exactly(job, faulty.diverged())
    assert finding.broker == 2


@pytest.fixture(scope="module")
def finding(faulty: Faulty) -> Finding:
    """What stands of the cluster that is watched."""
    (finding,) = await_exactly(faulty.job, faulty.diverged())
    return finding


@pytest.fixture(scope="module")
def other(finding: Finding) -> Iterator[Cluster]:
    """Another cluster, with a broker of the same id and a topic of the same name."""
    with Cluster(brokers=1, heap="192m") as other:
        other.create_topic(finding.topic, replicas=[1], config={"cleanup.policy": "compact"})
        PlainProducer(other.bootstrap_servers).send(finding.topic, "key", "of B")
        yield other


def copied(storage: Path, to: Path) -> None:
    """Copy what a job that runs has stored, but its lock: what it has removed meanwhile is not missed."""
    for folder, _, files in os.walk(storage):
        (to / Path(folder).relative_to(storage)).mkdir(parents=True)
        for file in (Path(folder, name) for name in files if name != "job.lock"):
            with suppress(FileNotFoundError):
                shutil.copy2(file, to / file.relative_to(storage))


class TestWhereAnotherClusterAnswers:
    def test_while_the_own_cluster_is_away_nothing_on_record_changes(
        self, lab: Cluster, proxies: Proxies, job: JobProcess, finding: Finding, other: Cluster, tmp_path: Path
    ) -> None:
        config = asking(job, tmp_path)
        events = [event for event in read_events(job.storage) if event.topic == finding.topic]
        log = len(job.log.read_text())
        marks = until(
            lambda: shown if set(shown := high_watermarks(job, finding.topic)) == {"1", "2", "3"} else None,
            "all to have told their high watermarks",
        )
        probes = job.metric("parallax_probes_total") or 0.0
        with ExitStack() as stack:
            for proxy in proxies.of.values():
                stack.enter_context(proxy.leading_to(other.brokers[1].port))
            until(lambda: job.metric("parallax_cluster_mismatch") == 1.0, "the mismatch to be shown")
            # An address that was too busy to answer in time is told of by a later look.
            everywhere = {f"127.0.0.1:{proxy.port}": other.cluster_id for proxy in proxies.of.values()}
            until(lambda: told(job, log) == everywhere, "the mismatch to be told of each address")
            until(lambda: all(reachable(job, broker) == 0.0 for broker in (1, 2, 3)), "all reported as unreachable")
            until(lambda: (job.metric("parallax_probes_total") or 0.0) > probes, "the finding's recheck")
            assert high_watermarks(job, finding.topic) == marks
            for command in (["audit", "--dry-run"], ["audit", "--from", "tables"], ["guard", "hold", finding.topic]):
                assert_refused_as_of(command, config, lab, other)
            checked = CliRunner().invoke(app, ["check", "-c", str(config)])
            assert f"belongs to cluster {other.cluster_id}, not to {lab.cluster_id}" in checked.output
            assert checked.exit_code == 1
        until(lambda: all(reachable(job, broker) == 1.0 for broker in (1, 2, 3)), "all to be reachable")
        until(lambda: job.metric("parallax_cluster_mismatch") == 0.0, "the mismatch to be over")
        stream = Stream(lab, f"hurt-after-{other.cluster_id}".replace("_", "-").lower())
        stream.write()
        stream.await_recorded_once(job)
        assert [event for event in read_events(job.storage) if event.topic == finding.topic] == events

    def test_at_one_address_the_others_are_watched_on(
        self, lab: Cluster, proxies: Proxies, job: JobProcess, other: Cluster, topic: str, tmp_path: Path
    ) -> None:
        config = asking(job, tmp_path)
        stream = Stream(lab, f"hurt-{topic}")
        with proxies.of[3].leading_to(other.brokers[1].port):
            until(lambda: job.metric("parallax_cluster_mismatch") == 1.0, "the mismatch to be shown")
            job.await_observed(stream.topic, stream.write(), 1)
            until(lambda: reachable(job, 3) == 0.0, "broker 3 to be unreachable")
            checked = CliRunner().invoke(app, ["check", "-c", str(config)])
            assert f"address 127.0.0.1:{proxies.of[3].port}: 127.0.0.1:{proxies.of[3].port} belongs" in checked.output
            assert checked.exit_code == 1
        stream.await_recorded_once(job)

    def test_a_storage_of_one_is_refused_at_the_other_each_way_round(
        self, lab: Cluster, job: JobProcess, finding: Finding, other: Cluster, tmp_path: Path
    ) -> None:
        of_a = pointed(job.config, other, tmp_path / "a")
        copied(Path(job.storage), tmp_path / "a" / "data")
        of_b = pointed(job.config, other, tmp_path / "b")
        held = CliRunner().invoke(app, ["guard", "hold", finding.topic, "-c", str(of_b)])
        assert held.exit_code == 0, held.output
        assert bound_to(str(tmp_path / "b" / "data")) == other.cluster_id
        of_b = pointed(job.config, lab, tmp_path / "b")
        settings, files = [settings_of(one, finding.topic) for one in (lab, other)], recorded(tmp_path)
        for config, own, pointed_at in ((of_a, lab, other), (of_b, other, lab)):
            for command in (["guard", "release", finding.topic], ["guard", "hold", finding.topic]):
                assert_refused_as_of(command, config, own, pointed_at)
            command = [sys.executable, "-m", "parallax.cli", "run", "-c", str(config)]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert ended.returncode == 2
            assert_names_both(ended.stderr, own, pointed_at)
        assert [settings_of(one, finding.topic) for one in (lab, other)] == settings
        after = recorded(tmp_path)
        changed = {name for name in files.keys() | after if files.get(name) != after.get(name)}
        assert changed == {f"b/data/{name}" for name in MADE_FIRST}, "no table has a file more or less, or another one"
        assert {name.split("/")[0] for name in files if "/_delta_log/" in name} >= {"a"}

    def test_a_command_moves_a_storage_that_no_job_uses(
        self, lab: Cluster, job: JobProcess, other: Cluster, tmp_path: Path
    ) -> None:
        config = pointed(job.config, lab, tmp_path)
        bind(str(tmp_path / "data"), lab.cluster_id)
        for cluster in (other, lab):
            moved = CliRunner().invoke(app, ["storage", "bind", "--cluster", cluster.cluster_id, "-c", str(config)])
            assert moved.exit_code == 0, moved.output
            assert bound_to(str(tmp_path / "data")) == cluster.cluster_id
        assert f"and no more to {other.cluster_id}" in moved.output
        refused = CliRunner().invoke(app, ["storage", "bind", "--cluster", "x", "-c", str(job.config)])
        assert refused.exit_code == 2
        assert "is in use by the job with pid" in refused.output


def told(job: JobProcess, since: int) -> dict[str, str]:
    """By address, the other cluster that a job has logged to answer there, behind some characters of its log."""
    *lines, _ = job.log.read_text()[since:].split("\n")
    said = [line for line in lines if "another cluster answers" in line]
    return {event["address"]: event["its_cluster"] for event in map(json.loads, said)}


def asking(job: JobProcess, folder: Path) -> Path:
    """The settings of a job, for commands about it."""
    written = folder / "asking.yaml"
    written.write_text(yaml.safe_dump(patient(yaml.safe_load(job.config.read_text()))))
    return written


def high_watermarks(job: JobProcess, topic: str) -> dict[str, float]:
    shown = (s for s in job.samples("parallax_replica_high_watermark") if s.labels["topic"] == topic)
    return {sample.labels["broker_id"]: sample.value for sample in shown}


def assert_refused_as_of(command: list[str], config: Path, own: Cluster, other: Cluster) -> None:
    """A command ends in one line that names both clusters."""
    ended = CliRunner().invoke(app, [*command, "-c", str(config)])
    assert ended.exit_code == 2, ended.output
    assert_names_both(ended.stderr, own, other)


def assert_names_both(stderr: str, own: Cluster, other: Cluster) -> None:
    """One line names both clusters, the setting that is wrong, and the command that moves a storage."""
    (line,) = stderr.strip().splitlines()
    assert f"bootstrap.servers: no broker of cluster {own.cluster_id} answered" in line
    assert f"belongs to cluster {other.cluster_id}, not to {own.cluster_id}" in line
    assert "parallax storage bind" in line


def pointed(config: Path, cluster: Cluster, folder: Path) -> Path:
    """A job's settings, at another cluster and another storage, with a guard that acts."""
    document = patient(yaml.safe_load(config.read_text()))
    document["kafka"] = {"bootstrap.servers": cluster.bootstrap_servers}
    document["storage"] = {"path": str(folder / "data")}
    document["alerting"] = {"metrics_port": 0}
    document["guard"] = {"mode": "act", "min_free_percent": 0}
    folder.mkdir(exist_ok=True)
    written = folder / "parallax.yaml"
    written.write_text(yaml.safe_dump(document))
    return written


def settings_of(cluster: Cluster, topic: str) -> Any:
    with closing(ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=30_000)) as client:
        return client.own_configs(1, [topic], ["delete.retention.ms", "min.compaction.lag.ms", "retention.ms"])


MADE_FIRST = ("control/storage.json", "hash_key")
"""A job makes them of itself at its first start, before it asks a broker: an id and a key, and nothing of a cluster."""


def recorded(folder: Path) -> dict[str, bytes]:
    """What lies below it, but for the locks and what each start writes anew."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("job.lock", "paused.json"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
