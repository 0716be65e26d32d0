"""The wheel works alone: built, installed into an environment of its own, and used in an empty folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from parallax.lab.cluster import Cluster
from parallax.shipped import Choices, write_out

TOP = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "conf", "deploy", "dashboards", "docs")

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Installed:
    """An environment that has Parallax from its wheel, and an empty folder."""

    environment: Path
    folder: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of that environment in the folder; nothing of the checkout is on its path."""
        command = [str(self.environment / "bin" / words[0]), *words[1:]]
        known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            command, cwd=self.folder, env=known, capture_output=True, text=True, timeout=240, check=False
        )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of a copy of the sources: nothing is left behind in the checkout."""
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        (shutil.copytree if (TOP / name).is_dir() else shutil.copy)(TOP / name, copy / name)
    shutil.copytree(TOP / "streaming", copy / "streaming", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    to = tmp_path_factory.mktemp("wheel")
    pip(["wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(to), str(copy)])
    (made,) = to.glob("*.whl")
    return made


def pip(words: Sequence[str]) -> None:
    """Run pip of the tests' environment."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(params=["of the tests' packages", pytest.param("of its own packages", marks=pytest.mark.release)])
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path: Path) -> Installed:
    """The wheel in a new environment: with the packages that the tests have, or with those that pip brings for it."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    if request.param == "of the tests' packages":
        (packages / "others.pth").write_text(str(Path(pytest.__file__).parents[1]))
        pip(["--python", str(environment), "install", "--no-deps", "--no-index", str(wheel)])
    else:
        pip(["--python", str(environment), "install", str(wheel)])
    folder = tmp_path / "empty"
    folder.mkdir()
    return Installed(environment, folder)


def test_from_the_wheel_alone_init_writes_what_check_accepts(
    kafka: Cluster, topic: str, installed: Installed, tmp_path: Path
) -> None:
    where = installed.run("python", "-c", "import parallax; print(parallax.__file__)").stdout
    assert where.startswith(str(installed.environment)), "the checkout's package is not what is tried"
    kafka.create_topic(topic, config={"cleanup.policy": "compact"})
    begun = installed.run("parallax", "init", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic)
    assert begun.returncode == 0, begun.stderr
    of_the_checkout = tmp_path / "of the checkout"
    for file in write_out(of_the_checkout, Choices("h:1", (), "data"))[1:]:
        assert (installed.folder / file.relative_to(of_the_checkout)).read_bytes() == file.read_bytes()
    assert len(list((installed.folder / "grafana").glob("*.json"))) == 3
    assert (installed.folder / "docs/page-finding.png").is_file()

    looked = installed.run("parallax", "check", "-c", "parallax.yaml", "--format", "json")
    lines = json.loads(looked.stdout)
    assert [line for line in lines if line["result"] == "wrong"] == [], looked.stderr
    assert looked.returncode == 0
    assert any(line["about"] == f"topic {topic}" and line["result"] == "ok" for line in lines)

    again = installed.run("parallax", "init")
    assert again.returncode == 2
    assert "is there already" in again.stderr
