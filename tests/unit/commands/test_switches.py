"""``parallax pause`` and ``parallax storage bind``: what they refuse, and what they leave behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from parallax.cli import app
from parallax.findings.hanging import Open
from parallax.findings.hanging_life import Hanging
from parallax.findings.hanging_record import record, recorded
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import Unreachable
from parallax.replica.types import PartitionMetadata, TopicMetadata
from parallax.views.binding import bind, bound_to
from parallax.views.pause import paused

WHERE = PartitionMetadata(leader=3, leader_epoch=5, replicas=(3, 1, 2), isr=(3, 2))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of a cluster with the brokers 2 and 3, and replicas on broker 1, which is away."""
    written = tmp_path / "parallax.yaml"
    written.write_text(
        f"kafka: {{bootstrap.servers: 'h:1'}}\ntopics: {{include: [orders]}}\nstorage: {{path: {tmp_path / 'data'}}}\n"
    )
    bind(str(tmp_path / "data"), "one")
    topics = {"orders": TopicMetadata("orders", "id", {0: WHERE})}
    monkeypatch.setattr(ReplicaClient, "metadata", lambda *_, **__: topics)
    monkeypatch.setattr(ReplicaClient, "brokers", lambda *_, **__: {2: ("h", 1), 3: ("h", 2)})
    return written


def pause(config: Path, *brokers: int) -> Any:
    chosen = [word for broker in brokers for word in ("--broker", str(broker))]
    return CliRunner().invoke(app, ["pause", "-c", str(config), "--reason", "why", *chosen])


def test_a_broker_that_the_cluster_has_not_is_not_paused(config: Path, tmp_path: Path) -> None:
    ended = pause(config, 2, 99)
    assert ended.exit_code == 2
    assert ended.stderr == (
        "parallax: --broker: the cluster has no broker 99, and nothing was paused; it has these: 1, 2, 3\n"
    )
    assert not paused(str(tmp_path / "data"))


def test_one_that_is_away_is_paused(config: Path, tmp_path: Path) -> None:
    assert pause(config, 1).exit_code == 0
    assert set(paused(str(tmp_path / "data"))) == {1}


def test_what_was_paused_is_resumed(config: Path, tmp_path: Path) -> None:
    assert pause(config, 2, 3).exit_code == 0
    assert CliRunner().invoke(app, ["resume", "-c", str(config), "--broker", "3"]).exit_code == 0
    assert set(paused(str(tmp_path / "data"))) == {2}
    assert CliRunner().invoke(app, ["resume", "-c", str(config)]).exit_code == 0
    assert not paused(str(tmp_path / "data"))


def test_without_a_cluster_at_hand_a_storage_is_paused_and_resumed(tmp_path: Path) -> None:
    bind(str(tmp_path), "one")
    for command, left in ((["pause", "--reason", "why"], 1), (["resume"], 0)):
        ended = CliRunner().invoke(app, [*command, "--data", str(tmp_path)])
        assert (ended.exit_code, len(paused(str(tmp_path)))) == (0, left)


def test_where_nobody_answers_any_is_paused(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: Any, **__: Any) -> Any:
        raise Unreachable("no broker answered")

    monkeypatch.setattr(ReplicaClient, "metadata", nobody)
    assert pause(config, 99).exit_code == 0
    assert set(paused(str(tmp_path / "data"))) == {99}


@pytest.mark.parametrize(("before", "left"), [("of-a", 0), ("of-b", 1)])
def test_a_storage_that_is_moved_keeps_nothing_of_what_hung_in_the_other_cluster(
    tmp_path: Path, before: str, left: int
) -> None:
    data = str(tmp_path)
    bind(data, before)
    one = Open(TopicPartition("orders", 0), 1, 4000, 0, 5, 0)
    record(data, [Hanging(one, 5, "no coordinator knows its producer", hangs=True, stands_since=900.0)])
    assert len(recorded(data)) == 1
    assert CliRunner().invoke(app, ["storage", "bind", "--data", data, "--cluster", "of-b"]).exit_code == 0
    assert bound_to(data) == "of-b"
    assert len(recorded(data)) == left
