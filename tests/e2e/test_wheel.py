"""The wheel works alone: built, installed into an environment of its own, and used in an empty folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from parallax.shipped import Choices, write_out
from tests.e2e.job_process import SHORT_LIVED, JobProcess
from tests.receiver import Receiver

TOP = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "conf", "deploy", "dashboards", "docs")


@dataclass(frozen=True)
class Installed:
    """An environment that has Parallax from its wheel, and an empty folder."""

    environment: Path
    folder: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of that environment in the folder; nothing of the checkout is on its path."""
        return subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self.known,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def command(self, *words: str) -> list[str]:
        """A command line of that environment."""
        return [str(self.environment / "bin" / words[0]), *words[1:]]

    @property
    def known(self) -> dict[str, str]:
        """The variables that its commands are given."""
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def set(self, section: str, **settings: Any) -> None:
        """Change a section of the settings that ``init`` wrote."""
        file = self.folder / "parallax.yaml"
        document = yaml.safe_load(file.read_text())
        document[section] = {**(document.get(section) or {}), **settings}
        file.write_text(yaml.safe_dump(document))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of a copy of the sources: nothing is left behind in the checkout."""
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        (shutil.copytree if (TOP / name).is_dir() else shutil.copy)(TOP / name, copy / name)
    shutil.copytree(TOP / "streaming", copy / "streaming", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (stale := copy / "build/lib/parallax/of_an_earlier_build.py").parent.mkdir(parents=True)
    stale.touch()
    to = tmp_path_factory.mktemp("wheel")
    offline = ("--no-build-isolation", "--no-index")
    ran([sys.executable, "-m", "pip", "wheel", "--no-deps", *offline, "-w", str(to), str(copy)])
    (made,) = to.glob("*.whl")
    return made


def ran(command: Sequence[str]) -> None:
    """Run a command to its end, which is to be a good one."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(params=["of the tests' packages", pytest.param("of its own packages", marks=pytest.mark.release)])
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path: Path) -> Installed:
    """The wheel in a new environment: with the packages that the tests have, or with those that pip brings for it."""
    environment = tmp_path / "environment"
    with_pip = request.param == "of its own packages"
    made = [sys.executable, "-m", "venv", str(environment), *([] if with_pip else ["--without-pip"])]
    ran(made)
    if with_pip:
        ran([str(environment / "bin" / "pip"), "install", str(wheel)])
    else:
        (packages,) = environment.glob("lib/python*/site-packages")
        (packages / "others.pth").write_text(str(Path(pytest.__file__).parents[1]))
        ran(
            [
                sys.executable,
                "-m",
                "pip",
                "--python",
                str(environment),
                "install",
                "--no-deps",
                "--no-index",
                str(wheel),
            ]
        )
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
    assert (installed.folder / "docs/pictures/page-finding.png").is_file()
    stale = installed.run("python", "-c", "import parallax.of_an_earlier_build")
    assert "No module named 'parallax.of_an_earlier_build'" in stale.stderr

    installed.set("read", request_timeout_ms=30_000)
    looked = installed.run("parallax", "check", "-c", "parallax.yaml", "--format", "json")
    lines = json.loads(looked.stdout)
    assert [line for line in lines if line["result"] == "wrong"] == [], looked.stderr
    assert looked.returncode == 0
    assert any(line["about"] == f"topic {topic}" and line["result"] == "ok" for line in lines)

    again = installed.run("parallax", "init")
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """What takes in messages."""
    with Receiver() as one:
        yield one


@pytest.mark.release
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("installed", ["of its own packages"], indirect=True)
def test_by_the_readme_alone_an_alert_comes_at_a_webhook_and_is_explained(
    installed: Installed, receiver: Receiver
) -> None:
    lab = f"wheel-{uuid.uuid4().hex[:8]}"
    up = installed.run("parallax", "lab", "up", "--name", lab, "--format", "json")
    assert up.returncode == 0, up.stderr
    try:
        brokers = json.loads(up.stdout)["bootstrap_servers"]
        healthy = installed.run("parallax", "lab", "scenario", "healthy", "--name", lab)
        assert healthy.returncode == 0, healthy.stderr
        assert installed.run("parallax", "init", "--bootstrap-servers", brokers).returncode == 0
        installed.set("alerting", metrics_port=0, webhooks=[{"name": "on-call", "url": receiver.url}])
        installed.set("spark", **SHORT_LIVED)
        looked = installed.run("parallax", "check", "-c", "parallax.yaml")
        assert looked.returncode == 0, looked.stdout + looked.stderr

        with JobProcess.of(installed.folder / "parallax.yaml") as job:
            job.start_by(installed.command("parallax"), cwd=installed.folder, env=installed.known)
            watched = ("--name", lab, "--watched-by", "parallax.yaml")
            played = installed.run("parallax", "lab", "scenario", "frozen", *watched)
            assert played.returncode == 0, played.stdout + played.stderr
            named = until(lambda: fired(receiver), "an alert at the webhook")

            listed = json.loads(installed.run("parallax", "findings", "-c", "parallax.yaml", "--format", "json").stdout)
            assert [one["finding_id"] for one in listed] == [named]
            explained = installed.run("parallax", "findings", "explain", named, "-c", "parallax.yaml")
            assert explained.returncode == 0, explained.stderr
            assert "read_committed" in explained.stdout
            assert job.stop(signal.SIGINT) == 0, "a person presses Ctrl+C"
            assert "stopped" in job.log.read_text().splitlines()[-1]
            assert "Traceback" not in job.log.read_text()
    finally:
        down = installed.run("parallax", "lab", "down", "--name", lab)
    assert down.returncode == 0, down.stderr


def fired(receiver: Receiver) -> str | None:
    """The finding that the first alert about one names."""
    alerts = (alert for message in receiver.messages for alert in message.body["alerts"])
    return next((a["labels"]["finding_id"] for a in alerts if "finding_id" in a["labels"]), None)
