"""The always-on job: in which order its parts start, and what an audit of it ends in what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parallax import job as module
from parallax.audit.ledger import Ledger
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.compare import query
from parallax.compare.suspect import UnreadRange
from parallax.errors import SetupError
from parallax.findings.finding import Finding
from parallax.findings.table import FindingsTable
from parallax.job import Job
from parallax.lab.waiting import until
from parallax.model import TopicPartition, UnknownReason
from parallax.views.commits import Followed
from tests.builders.coverage import coverage
from tests.builders.settings import settings_of
from tests.pages import shown_again

FIRST = UnknownReason.BEFORE_FIRST_READING
IDLE = coverage(
    compared_up_to=(40, 40),
    unknown={FIRST: (40, 40)},
    unread=tuple(UnreadRange(v, 0, 40, FIRST, 5_000) for v in (0, 1)),
)


def test_what_an_audit_has_compared_is_known_though_nothing_is_written_to_the_topic_any_more(tmp_path: Path) -> None:
    job = Job(settings_of(tmp_path))
    job._ledger = Ledger(str(tmp_path))
    job._compared([], [IDLE])
    shown = lambda: job.state.snapshot().coverage[TopicPartition("orders", 0)].unknown_for(FIRST)  # noqa: E731
    assert shown() == (40, 40)
    one = PartitionResult("orders", 0, Result.CONSISTENT, (), (), (1, 2, 3), 0, (40, 40))
    job._audited(AuditReport("brokers", 4.0, 6.0, (one,)))
    assert shown() == (40, 40), "it began before they were read past"
    job._audited(AuditReport("brokers", 10.0, 12.0, (one,)))
    assert shown() == (0, 0)


class Open:
    """A findings manager, as far as it is asked which partitions have something open."""

    def __init__(self, places: set[TopicPartition] | None) -> None:
        self._places = places

    def places(self) -> set[TopicPartition] | None:
        """As the manager has it."""
        return self._places


def test_nothing_is_settled_before_findings_are_loaded_or_while_the_comparison_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, place = Job(settings_of(tmp_path)), TopicPartition("orders", 0)
    job._compared([], [coverage()])
    assert job._nothing_open() is None
    known = [None, {place}, set[TopicPartition]()]
    for places in known:
        monkeypatch.setattr(job, "_manager", Open(places))
        found = job._nothing_open()
        assert found is None if places is None else found is not None and list(found) == [place] * (not places)
    monkeypatch.setattr(query, "followed", lambda _: {"read_committed": Followed(7, is_standing=True)})
    assert job._nothing_open() is None


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
    FindingsTable(str(tmp_path)).append([shown_again()])
    job = Job(settings_of(tmp_path, alerting={"metrics_port": 0}))
    known: list[Finding] = []

    def no_spark() -> None:
        until(lambda: job.state.snapshot().findings_loaded, "the findings")
        known.extend(job.findings())
        raise SetupError("no Spark here")

    monkeypatch.setattr(module, "ReplicaClient", Client)
    monkeypatch.setattr(module, "settled", lambda settings: settings)
    monkeypatch.setattr(module, "check_cluster", lambda *_: {})
    monkeypatch.setattr(job, "_start_spark", no_spark)
    with pytest.raises(SetupError, match="no Spark here"):
        job.start()
    assert [one.finding_id for one in known] == [shown_again().finding_id]
