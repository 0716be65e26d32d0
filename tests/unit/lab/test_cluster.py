"""Ports, waiting, the watchdog and state files, on real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from parallax.lab import commands, state
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.ports import free_ports
from parallax.lab.storage import kafka_uuid
from parallax.lab.waiting import until
from parallax.lab.watchdog import Watchdog
from tests.patience import PATIENCE_S


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A cluster that was never started."""
    return Cluster(folder=tmp_path / "lab" / "default", detached=True)


def test_free_ports_are_distinct_and_below_the_ephemeral_range() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(1024 < port < 49152 for port in ports)


def test_more_ports_than_there_are_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARALLAX_PORTS", raising=False)
    monkeypatch.setattr("parallax.lab.ports._first_ephemeral", lambda: 10_002)
    with pytest.raises(LabError, match="has no 3 free ports"):
        free_ports(3)


def test_ports_come_from_the_range_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAX_PORTS", "20000-20009")
    assert set(free_ports(3)) <= set(range(20_000, 20_010))
    with pytest.raises(LabError, match="has no 11 free ports from 20000 on"):
        free_ports(11)


def test_a_port_that_was_given_is_not_given_again_while_there_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAX_PORTS", "20010-20019")
    monkeypatch.setattr("parallax.lab.ports._is_free", lambda *_: True)
    given = [port for count in (4, 1, 5) for port in free_ports(count)]
    assert sorted(given) == list(range(20_010, 20_020)), "whoever was given one need not listen there yet"
    assert set(free_ports(10)) == set(given)


@pytest.mark.parametrize("given", ["all", "9-", "-9", "30-20", "0-9", "1-65536"])
def test_what_is_no_range_of_ports_is_one_line(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("PARALLAX_PORTS", given)
    with pytest.raises(LabError, match=f"PARALLAX_PORTS is '{given}'; give a range such as"):
        free_ports(1)


def test_a_kafka_uuid_is_16_bytes_without_a_leading_dash() -> None:
    ids = {kafka_uuid() for _ in range(500)}
    assert len(ids) == 500
    assert all(len(text) == 22 and not text.startswith("-") for text in ids)


def test_until_gives_the_first_true_value() -> None:
    answers = iter([None, 0, "", "here"])
    assert until(lambda: next(answers), "an answer", interval=0.0) == "here"


def test_until_gives_up_and_says_for_what() -> None:
    with pytest.raises(LabError, match="waited 0 s in vain for godot"):
        until(lambda: False, "godot", timeout=0.0)


def test_the_watchdog_kills_what_it_guards_when_its_end_of_the_pipe_closes(sleeper: subprocess.Popen[bytes]) -> None:
    watchdog = Watchdog()
    watchdog.guard([sleeper.pid])
    watchdog.close()
    assert sleeper.wait(PATIENCE_S) == -9


def test_the_watchdog_leaves_alone_what_it_no_longer_guards(sleeper: subprocess.Popen[bytes]) -> None:
    watchdog = Watchdog()
    watchdog.guard([sleeper.pid])
    watchdog.guard([])
    watchdog.close()
    assert sleeper.poll() is None


def test_a_lab_is_found_again_with_its_processes(
    cluster: Cluster, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    cluster.brokers[2].process = psutil.Process(sleeper.pid)
    file = state.state_file("default", tmp_path / "lab")
    state.save(cluster, file)
    found = state.load(file)
    assert found is not None
    assert found.brokers == cluster.brokers
    assert (found.version, found.cluster_id, found.folder) == (cluster.version, cluster.cluster_id, cluster.folder)
    assert [broker.running for broker in found.brokers.values()] == [False, True, False]


def test_a_process_that_took_over_a_number_is_not_taken_for_the_broker(
    cluster: Cluster, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    cluster.brokers[2].process = psutil.Process(sleeper.pid)
    file = state.state_file("default", tmp_path / "lab")
    state.save(cluster, file)
    document = json.loads(file.read_text())
    document["brokers"][1]["started"] -= 100
    file.write_text(json.dumps(document))
    found = state.load(file)
    assert found is not None
    assert not found.brokers[2].running


def test_the_state_file_follows_the_processes(
    cluster: Cluster, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    cluster.brokers[2].process = psutil.Process(sleeper.pid)
    file = state.state_file("default", tmp_path / "lab")
    state.save(cluster, file)
    found = state.load(file)
    assert found is not None
    found.pause_broker(2)
    assert [b.condition for b in commands.status(directory=tmp_path / "lab").brokers] == ["down", "paused", "down"]
    found.kill_broker(2)
    sleeper.wait(PATIENCE_S)
    assert "pid" not in json.loads(file.read_text())["brokers"][1]


def test_taking_a_lab_down_stops_its_processes_and_removes_its_files(
    cluster: Cluster, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    cluster.brokers[1].process = psutil.Process(sleeper.pid)
    cluster.folder.mkdir(parents=True)
    state.save(cluster, state.state_file("default", tmp_path / "lab"))
    stopped = commands.down(directory=tmp_path / "lab")
    sleeper.wait(PATIENCE_S)
    assert stopped.brokers[0].pid == sleeper.pid
    assert list((tmp_path / "lab").iterdir()) == []


@pytest.mark.parametrize("name", ["", "../x", "a b", "-a"])
def test_a_lab_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="cannot be called"):
        state.state_file(name)


def test_a_lab_that_is_not_up_is_one_line_that_says_how_to_start_it(tmp_path: Path) -> None:
    for ask in (commands.status, commands.down):
        with pytest.raises(LabError, match=r"no lab default is up .* parallax lab up"):
            ask(directory=tmp_path)


def test_what_is_said_of_a_lab_names_it_in_the_command(cluster: Cluster, tmp_path: Path) -> None:
    state.save(cluster, state.state_file("mine", tmp_path))
    with pytest.raises(LabError, match=r"start it with: parallax lab restart --name mine$"):
        commands.scenario("frozen", name="mine", directory=tmp_path)
    with pytest.raises(LabError, match=r"start it with: parallax lab up --name other$"):
        commands.status(name="other", directory=tmp_path)
    for command in (commands.stop, commands.restart):
        with pytest.raises(LabError, match=r"^lab mine has no broker 9; name some of 1, 2, 3$"):
            command([9], name="mine", directory=tmp_path)


def test_a_folder_that_no_lab_owns_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    with pytest.raises(LabError, match="no lab is known to own it"):
        commands.up(directory=tmp_path)
    assert (tmp_path / "default").exists()


def test_a_broken_state_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "default.json").write_text("{}")
    with pytest.raises(LabError, match="not a lab's state file"):
        commands.status(directory=tmp_path)


def test_a_scenario_on_a_lab_with_a_dead_broker_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    state.save(cluster, state.state_file("default", tmp_path / "lab"))
    with pytest.raises(LabError, match="broker 1 does not run"):
        commands.scenario("all", directory=tmp_path / "lab")


def test_an_unknown_scenario_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"no scenario 'x'; choose one of all, resurrected, .*healthy"):
        commands.scenario("x", directory=tmp_path)


def test_a_broker_that_does_not_run_cannot_be_paused(cluster: Cluster) -> None:
    with pytest.raises(LabError, match="broker 1 does not run"):
        cluster.pause_broker(1)


def test_the_watchdog_acts_when_its_parent_is_killed(sleeper: subprocess.Popen[bytes]) -> None:
    program = (
        "import sys, os, signal\nfrom parallax.lab.watchdog import Watchdog\n"
        "Watchdog().guard([int(sys.argv[1])]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(sleeper.pid)], check=False)
    assert sleeper.wait(PATIENCE_S) == -9
