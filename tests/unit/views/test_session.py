"""Starting Spark: what goes wrong with its JVM is reported in one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from parallax.config import SparkSettings
from parallax.views import session


def started(settings: str) -> subprocess.CompletedProcess[str]:
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
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_an_option_of_sparks_that_cannot_be_is_one_line() -> None:
    *_, line = started("conf={'spark.driver.port': 'x'}").stdout.splitlines()
    assert line.startswith("Spark does not start (")
    assert "spark.driver.port" in line
    assert line.endswith("correct spark.conf")


def test_no_secret_is_on_the_command_line_of_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    class EnoughError(Exception):
        pass

    given: list[Mapping[str, str]] = []

    def start(conf: Mapping[str, str]) -> Any:
        given.append(conf)
        raise EnoughError

    monkeypatch.setattr(session, "_start_jvm", start)
    secrets = dict.fromkeys(("spark.authenticate.secret", "spark.hadoop.fs.s3a.access.key"), "hunter2")
    settings = SparkSettings(conf={**secrets, "spark.jars": "a.jar"})
    assert "hunter2" not in repr(settings)
    with pytest.raises(EnoughError):
        session.build_session(settings)
    assert given[0]["spark.jars"] == "a.jar"
    assert "hunter2" not in given[0].values()


@pytest.mark.parametrize(
    ("master", "conf"),
    [
        ("local[4]", {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}),
        ("yarn", {"spark.authenticate": "true"}),
        ("k8s://https://api:6443", {"spark.authenticate": "true"}),
        ("spark://host:7077", {}),
    ],
)
def test_who_may_reach_the_driver(master: str, conf: dict[str, str]) -> None:
    assert session._network(master) == conf


def test_a_jvm_that_does_not_start_is_one_line_that_names_the_settings() -> None:
    ended = started("driver_java_options='--add-modules=no.such.module'")
    *before, line = ended.stdout.splitlines()
    assert "did not start" in line
    assert "spark.driver_java_options" in line
    assert "no.such.module" in " ".join([*before, ended.stderr]), "the JVM's own words reach the terminal"
