"""Audits of a topic, run here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import structlog
import yaml
from typer.testing import CliRunner

from parallax.cli import app
from parallax.lab.cluster import Cluster
from tests.e2e.job_process import SHORT_LIVED, patient

Ended = subprocess.CompletedProcess[str]


def written(lab: Cluster, folder: Path) -> Path:
    """A settings file over tables that nobody has written."""
    config = folder / "parallax.yaml"
    settings = {
        "kafka": {"bootstrap.servers": lab.bootstrap_servers},
        "topics": {"pattern": "(gone|well)-.*"},
        "storage": {"path": str(folder / "data")},
        "read": {"payload": "key"},
        "audit": {"confirm_timeout_s": 300},
        "spark": {"master": "local[2]", **SHORT_LIVED},
    }
    config.write_text(yaml.safe_dump(patient(settings)))
    return config


def run_here(config: Path, *flags: str) -> Ended:
    """Run the command in this process, whose JVM is up already."""
    command = ["audit", "-c", str(config), *flags]
    try:
        ended = CliRunner().invoke(app, command)
    finally:
        structlog.reset_defaults()  # it logs to the standard error of the command, which is closed by now
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Ended(command, ended.exit_code, ended.stdout, ended.stderr)


def results(ended: Ended) -> dict[str, Any]:
    assert ended.stdout.startswith("{"), ended.stderr
    return {one["topic"]: one for one in json.loads(ended.stdout)["partitions"]}


def kinds(one: dict[str, Any]) -> list[tuple[str, int]]:
    return [(finding["kind"], finding["broker"]) for finding in one["findings"]]
