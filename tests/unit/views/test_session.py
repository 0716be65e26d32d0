"""Starting Spark: what goes wrong with its JVM is reported in one line."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from parallax.config import SparkSettings
from parallax.errors import SetupError
from parallax.views import session


def started(settings: str, *before: str) -> subprocess.CompletedProcess[str]:
    """A process that starts Spark with these settings, and prints the error that a person is told."""
    program = (
        "from parallax.config import SparkSettings\n"
        "from parallax.errors import SetupError\n"
        "from parallax.views.session import build_session\n"
        "try:\n"
        f"    build_session(SparkSettings({settings}))\n"
        "except SetupError as error:\n"
        "    print(error)\n"
    )
    command = [*before, sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_spark_starts_on_a_machine_whose_own_name_nobody_resolves() -> None:
    unknown = ("unshare", "--uts", "sh", "-c", 'hostname nobody.invalid && exec "$@"', "sh")
    assert started("driver_memory='512m'", *unknown).stdout == ""


def test_whoever_handles_an_interrupt_does_so_once_spark_runs_too() -> None:
    program = (
        "import signal\n"
        "from parallax.config import SparkSettings\n"
        "from parallax.views.session import build_session\n"
        "signal.signal(signal.SIGINT, lambda *_: print('in good order'))\n"
        "build_session(SparkSettings(driver_memory='512m'))\n"
        "for _ in range(2):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "in good order\n" * 2), ended.stderr


def test_an_option_of_sparks_that_cannot_be_is_one_line() -> None:
    *_, line = started("conf={'spark.driver.port': 'x'}").stdout.splitlines()
    assert line.startswith("Spark does not start (")
    assert "spark.driver.port" in line
    assert line.endswith("correct spark.conf")


class EnoughError(Exception):
    """The JVM would be started now."""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[SparkSettings], Mapping[str, str]]:
    """What a JVM is started with."""
    confs: list[Mapping[str, str]] = []

    def start(conf: Mapping[str, str]) -> Any:
        confs.append(conf)
        raise EnoughError

    def build(settings: SparkSettings) -> Mapping[str, str]:
        with pytest.raises(EnoughError):
            session.build_session(settings, storage="/data")
        return confs[-1]

    monkeypatch.setattr(session, "_start_jvm", start)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    return build


def test_no_secret_is_on_the_command_line_of_the_jvm(given: Callable[[SparkSettings], Mapping[str, str]]) -> None:
    secrets = dict.fromkeys(("spark.authenticate.secret", "spark.hadoop.fs.s3a.access.key"), "hunter2")
    settings = SparkSettings(conf={**secrets, "spark.jars": "/a.jar"})
    assert "hunter2" not in repr(settings)
    conf = given(settings)
    assert conf["spark.jars"] == "/a.jar"
    assert "hunter2" not in conf.values()


def test_nobody_else_on_the_network_reaches_a_local_driver(
    given: Callable[[SparkSettings], Mapping[str, str]],
) -> None:
    conf = given(SparkSettings(master="local[4]"))
    assert (conf["spark.driver.host"], conf["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")


@pytest.mark.parametrize("master", ["yarn", "k8s://https://api:6443"])
def test_who_connects_to_a_cluster_that_hands_secrets_out_has_one(
    master: str, given: Callable[[SparkSettings], Mapping[str, str]]
) -> None:
    assert given(SparkSettings(master=master))["spark.authenticate"] == "true"


def test_a_standalone_cluster_gets_deltas_jars_beside_those_of_the_settings_and_whole_paths(
    given: Callable[[SparkSettings], Mapping[str, str]],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
        conf = given(SparkSettings(master=master, conf={"spark.jars": "/a.jar", "spark.archives": "e.tar.gz#e"}))
    first, *others = conf["spark.jars"].split(",")
    assert first == "/a.jar"
    assert any("delta-spark" in jar for jar in others)
    assert conf["spark.archives"] == f"{Path.cwd()}/e.tar.gz#e"
    assert "spark.driver.host" not in conf
    assert "spark.authenticate" not in conf


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("no answer"), TypeError()])
def test_a_jvm_that_is_killed_while_spark_starts_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Gateway:
        proc: subprocess.Popen[bytes] | None = None

    def start(_: Mapping[str, str]) -> None:
        monkeypatch.setattr(SparkContext, "_gateway", Gateway)
        Gateway.proc = subprocess.Popen(["sleep", "60"])
        Gateway.proc.kill()
        if isinstance(error, TypeError):
            Gateway.proc.wait()
        raise error

    monkeypatch.setattr(session, "_start_jvm", start)
    with pytest.raises(SetupError, match=r"^Spark's JVM \(.*\) ended while Spark was started; .*and start again$"):
        session.build_session(SparkSettings())


def test_what_fails_while_the_jvm_runs_is_not_laid_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Mapping[str, str]) -> None:
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(session, "_start_jvm", start)
    with pytest.raises(ConnectionRefusedError):
        session.build_session(SparkSettings())


def test_a_jvm_that_does_not_start_is_one_line_that_names_the_settings() -> None:
    ended = started("driver_java_options='--add-modules=no.such.module'")
    *before, line = ended.stdout.splitlines()
    assert "did not start" in line
    assert "spark.driver_java_options" in line
    assert "no.such.module" in " ".join([*before, ended.stderr]), "the JVM's own words reach the terminal"
