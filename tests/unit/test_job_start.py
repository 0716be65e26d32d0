"""The order in which the always-on job starts its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parallax import job as module
from parallax.config import validate
from parallax.errors import SetupError
from parallax.findings.finding import Finding
from parallax.job import Job
from parallax.lab.waiting import until
from tests.pages import shown_again


class Client:
    """A client of a cluster that is not there."""

    cluster_id = "cluster"

    def __init__(self, *_: Any, **__: Any) -> None:
        return

    def clusters(self) -> dict[object, object]:
        """As the client has it."""
        return {}

    def pause(self, _: object) -> None:
        """As the client has it."""

    def close(self) -> None:
        """As the client has it."""


def test_what_stands_is_known_before_spark_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from parallax.findings.table import FindingsTable

    FindingsTable(str(tmp_path)).append([shown_again()])
    settings = {
        "kafka": {"bootstrap.servers": "localhost:1"},
        "topics": {"pattern": ".*"},
        "storage": {"path": str(tmp_path)},
        "alerting": {"metrics_port": 0},
    }
    job = Job(validate(settings, where="test"))
    known: list[Finding] = []

    def no_spark() -> None:
        until(lambda: job.state.snapshot().findings_loaded, "the findings", timeout=10)
        known.extend(job.findings())
        raise SetupError("no Spark here")

    monkeypatch.setattr(module, "ReplicaClient", Client)
    monkeypatch.setattr(module, "settled", lambda settings: settings)
    monkeypatch.setattr(module, "check_cluster", lambda *_: {})
    monkeypatch.setattr(job, "_start_spark", no_spark)
    with pytest.raises(SetupError, match="no Spark here"):
        job.start()
    assert [one.finding_id for one in known] == [shown_again().finding_id]
