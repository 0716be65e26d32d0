"""What the command ``parallax lab`` does: up, down, stop, restart, status, scenario.

The functions return plain data and print nothing.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.lab import state
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.scenarios import ScenarioResult
from parallax.lab.scenarios import scenario as find_scenario
from parallax.lab.scenarios.conductor import AwaitObserved
from parallax.lab.tools import tools_of, write_tools
from parallax.lab.traffic import ProducerKind

Say = Callable[[str], None]


@dataclass(frozen=True)
class BrokerStatus:
    """One broker of a lab, for ``parallax lab status``: where it is, and whether it runs.

    ``address`` is ``host:port``; ``pid`` is None if it does not run.
    """

    id: int
    address: str
    pid: int | None
    condition: str
    """``running``, ``paused`` or ``down``."""


@dataclass(frozen=True)
class LabStatus:
    """A lab and its brokers, for ``parallax lab status``.

    Attributes:
        name: the lab's name.
        version: Kafka's version.
        bootstrap_servers: the addresses of all brokers, separated by commas.
        folder: the folder that holds the brokers' files.
        brokers: the brokers, in the order of their ids.
    """

    name: str
    version: str
    bootstrap_servers: str
    folder: Path
    brokers: tuple[BrokerStatus, ...]

    @property
    def tools(self) -> Path:
        """The folder of Kafka's tools, such as ``kafka-topics.sh``."""
        return tools_of(self.folder)


def up(
    version: str = DEFAULT_KAFKA_VERSION,
    *,
    name: str = state.DEFAULT_LAB,
    directory: Path | None = None,
    say: Say = lambda _: None,
) -> LabStatus:
    """Start three brokers that run on after this process has ended, until ``parallax lab down``.

    Args:
        version: Kafka's version.
        name: name of the lab; several labs may be up at the same time.
        directory: where the state file and the brokers' folders go; ``lab`` in the cache folder by default.
        say: called with the progress, a line at a time.

    Raises:
        LabError: a lab of that name is up already, or the brokers could not be started.
    """
    file = state.state_file(name, directory)
    old = state.load(file)
    if old is not None:
        if any(broker.running for broker in old.brokers.values()):
            raise LabError(
                f"lab {name} is up already ({old.bootstrap_servers}); stop it with: {_command('down', name)}"
            )
        _remove(old, file)
    folder = file.with_suffix("")
    if folder.exists():
        raise LabError(f"{folder} is there already and no lab is known to own it; remove it or give another name")
    cluster = Cluster(version, folder=folder, detached=True, progress=say)
    cluster.on_processes = lambda changed: state.save(changed, file)
    try:
        cluster.start()
        write_tools(tools_of(folder), version)
    except BaseException:
        cluster.keep_logs = True
        cluster.stop()
        raise
    return _status(name, cluster)


def down(*, name: str = state.DEFAULT_LAB, directory: Path | None = None) -> LabStatus:
    """Stop a lab's brokers and delete their data; returns the lab's status from before.

    Args:
        name: name of the lab.
        directory: where the lab's state file is; ``lab`` in the cache folder by default.

    Raises:
        LabError: there is no lab of that name.
    """
    file = state.state_file(name, directory)
    cluster = _load(name, file)
    status_before = _status(name, cluster)
    _remove(cluster, file)
    return status_before


def stop(brokers: Sequence[int], *, name: str = state.DEFAULT_LAB, directory: Path | None = None) -> LabStatus:
    """Stop some brokers of a lab in good order (SIGTERM), and keep their data; returns the lab's status afterwards.

    Args:
        brokers: ids of the brokers.
        name: name of the lab.
        directory: where the lab's state file is; ``lab`` in the cache folder by default.

    Raises:
        LabError: there is no lab of that name, or no such broker.
    """
    cluster = _load(name, state.state_file(name, directory))
    for number in _known(cluster, brokers, name):
        cluster.stop_broker(number)
    return _status(name, cluster)


def restart(brokers: Sequence[int] = (), *, name: str = state.DEFAULT_LAB, directory: Path | None = None) -> LabStatus:
    """Stop some brokers in good order and start them again, one after the other; returns the lab's status afterwards.

    A broker that is down is only started.

    Args:
        brokers: ids of the brokers; all if empty.
        name: name of the lab.
        directory: where the lab's state file is; ``lab`` in the cache folder by default.

    Raises:
        LabError: there is no lab of that name, or no such broker; or a broker ended, or did not join in time.
    """
    cluster = _load(name, state.state_file(name, directory))
    for number in _known(cluster, brokers, name) or sorted(cluster.brokers):
        cluster.stop_broker(number)
        cluster.start_broker(number)
        # With most of the controllers down none can join before the next is up.
        if 2 * sum(broker.running for broker in cluster.brokers.values()) > len(cluster.brokers):
            cluster.wait_ready()
    cluster.wait_ready()
    return _status(name, cluster)


def status(*, name: str = state.DEFAULT_LAB, directory: Path | None = None) -> LabStatus:
    """A lab's name, addresses and folder, and for each broker whether it runs.

    Args:
        name: name of the lab.
        directory: where the lab's state file is; ``lab`` in the cache folder by default.

    Raises:
        LabError: there is no lab of that name.
    """
    return _status(name, _load(name, state.state_file(name, directory)))


SETTINGS = """\
# A job that watches a lab: parallax run -c FILE
kafka:
  bootstrap.servers: {servers}
topics:
  pattern: "[^_].*"
storage:
  path: {storage}
findings:
  recheck_interval_s: 5
audit:
  # Scenarios keep tombstones for a second: the job would audit their topics again and again. Leave it out elsewhere.
  unread_delay_s: 0
"""
"""The text of `settings`, with gaps for addresses and storage."""


def settings(*, name: str = state.DEFAULT_LAB, directory: Path | None = None) -> str:
    """Settings as YAML for a job that watches all topics of a lab; `down` removes that job's tables as well.

    Args:
        name: name of the lab.
        directory: where the lab's state file is; ``lab`` in the cache folder by default.

    Raises:
        LabError: there is no lab of that name.
    """
    servers = status(name=name, directory=directory).bootstrap_servers
    storage = _job_data(state.state_file(name, directory))
    return SETTINGS.format(servers=json.dumps(servers), storage=json.dumps(str(storage)))


def scenario(
    scenario_name: str,
    *,
    producer: ProducerKind = "legacy",
    topic_prefix: str | None = None,
    name: str = state.DEFAULT_LAB,
    directory: Path | None = None,
    say: Say = lambda _: None,
    await_observed: AwaitObserved | None = None,
) -> ScenarioResult:
    """Play a scenario on a lab that is up.

    Args:
        scenario_name: a key of ``parallax.lab.scenarios.SCENARIOS``.
        producer: which client writes the transactions: ``legacy`` or ``java`` (`parallax.lab.traffic`).
        topic_prefix: put in front of the topics' names; the scenario's name and the time by default.
        name: name of the lab.
        directory: where the lab's state file is; ``lab`` in the cache folder by default.
        say: called with what happens, a line at a time.
        await_observed: called with (topic, offset, broker) before the brokers may clean that offset; it must return
            once a job has recorded the offset. None not to wait for a job.

    Returns:
        The topics of the scenario, and the divergences that a job should find.

    Raises:
        LabError: there is no such scenario or lab, brokers of the lab are down, or the scenario failed.
    """
    chosen = find_scenario(scenario_name)
    cluster = _load(name, state.state_file(name, directory))
    missing = [broker.id for broker in cluster.brokers.values() if _condition(broker.process) != "running"]
    if missing:
        raise LabError(f"lab {name}: broker {missing[0]} does not run; start it with: {_command('restart', name)}")
    prefix = topic_prefix if topic_prefix is not None else f"{scenario_name}-{time.strftime('%H%M%S')}-"
    return chosen.run(cluster, producer=producer, topic_prefix=prefix, say=say, await_observed=await_observed)


def named(name: str) -> str:
    """The option that names a lab in a printed command, with a blank before it. The default lab needs none."""
    return "" if name == state.DEFAULT_LAB else f" --name {name}"


def _command(words: str, name: str) -> str:
    """A command for a lab, as it is pasted."""
    return f"parallax lab {words}{named(name)}"


def _known(cluster: Cluster, brokers: Sequence[int], name: str) -> Sequence[int]:
    for number in brokers:
        if number not in cluster.brokers:
            there = ", ".join(map(str, sorted(cluster.brokers)))
            raise LabError(f"lab {name} has no broker {number}; name some of {there}")
    return brokers


def _load(name: str, file: Path) -> Cluster:
    cluster = state.load(file)
    if cluster is None:
        raise LabError(f"no lab {name} is up ({file} is not there); start it with: {_command('up', name)}")
    return cluster


def _remove(cluster: Cluster, file: Path) -> None:
    cluster.on_processes = None
    cluster.stop()
    shutil.rmtree(_job_data(file), ignore_errors=True)  # of a cluster that is no more
    file.unlink(missing_ok=True)


def _job_data(file: Path) -> Path:
    """Where the job of `settings` has its tables."""
    return file.with_name(f"{file.stem}-job-data")


def _status(name: str, cluster: Cluster) -> LabStatus:
    brokers = tuple(
        BrokerStatus(
            broker.id,
            broker.address,
            broker.process.pid if broker.running and broker.process else None,
            _condition(broker.process),
        )
        for broker in cluster.brokers.values()
    )
    return LabStatus(name, cluster.version, cluster.bootstrap_servers, cluster.folder, brokers)


def _condition(process: psutil.Process | None) -> str:
    try:
        found = process.status() if process is not None and process.is_running() else psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return "down"
    if found == psutil.STATUS_ZOMBIE:
        return "down"
    return "paused" if found == psutil.STATUS_STOPPED else "running"


__all__ = ["BrokerStatus", "LabStatus", "down", "named", "restart", "scenario", "settings", "status", "stop", "up"]
