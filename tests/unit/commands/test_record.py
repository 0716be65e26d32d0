"""``parallax show-record``: each version of a record once, with the brokers that show it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from parallax.cli import app
from parallax.commands.record import Found, bytes_in_words, document, write
from parallax.model import IsolationLevel, TopicPartition
from parallax.replica.at_offset import AtOffset, Held, Record, Served
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import Unauthorized, Unreachable
from parallax.replica.types import PartitionMetadata, TopicMetadata, Watermarks

UNCOMMITTED, COMMITTED = IsolationLevel
MARKS = Watermarks(20, 20, 10, 22)
RECORD = Record(1_700_000_000_000, 3, -1, -1, False, b"k\n1", b"\xff\x00", 3, 2, (("trace", b"a"), ("none", None)))
OLD = AtOffset(Held.RECORD, MARKS, None, RECORD, dict.fromkeys(IsolationLevel, Served.SHOWN))
CLEANED = AtOffset(Held.NOTHING, MARKS, None, None, dict.fromkeys(IsolationLevel, Served.NOT_SHOWN))
SILENT = AtOffset(Held.SILENT, None, "refused", None, dict.fromkeys(IsolationLevel, Served.UNKNOWN))
WHERE = PartitionMetadata(leader=3, leader_epoch=5, replicas=(3, 1, 2), isr=(3, 2))
FOUND = Found(TopicPartition("orders", 0), 12, WHERE, {1: SILENT, 2: OLD, 3: CLEANED})


def written(found: Found) -> str:
    to = io.StringIO()
    write(found, to)
    return to.getvalue()


def test_each_broker_has_a_column_with_its_role_by_its_id() -> None:
    said = written(FOUND)
    assert said.startswith("orders-0, offset 12\n")
    brokers, roles = said.splitlines()[2:4]
    assert brokers.split() == ["broker", "1", "broker", "2", "broker", "3"]
    assert roles.split() == ["not", "in", "sync", "in", "sync", "leader"]


def test_what_a_record_holds_is_said_with_who_shows_it() -> None:
    lines = written(FOUND).splitlines()
    assert "key on broker 2: k\\n1" in lines
    assert "value on broker 2: 0xff00" in lines
    assert "headers on broker 2: trace=a, none=null" in lines
    assert "broker 1: refused" in lines


def test_versions_that_are_alike_are_said_once_and_unlike_ones_apart() -> None:
    other = replace(OLD, record=replace(RECORD, value=None, value_size=-1))
    lines = written(replace(FOUND, answers={3: OLD, 1: other, 2: OLD})).splitlines()
    assert "value on brokers 2 and 3: 0xff00" in lines
    assert "value on broker 1: null (a tombstone)" in lines
    assert sum(line.startswith("key on ") for line in lines) == 1


def test_programs_get_all_bytes_and_whose_they_are() -> None:
    read = json.loads(json.dumps(document(FOUND)))
    assert (read["leader"], read["replicas"], read["isr"]) == (3, [3, 1, 2], [3, 2])
    assert read["brokers"]["3"]["held"] == "nothing"
    assert read["brokers"]["1"] == {
        "held": "silent",
        "error": "refused",
        **dict.fromkeys(("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")),
        **dict.fromkeys(("read_uncommitted", "read_committed"), "unknown"),
        "record": None,
    }
    record = read["brokers"]["2"]["record"]
    assert (record["key"], record["value"]) == ({"text": "k\n1"}, {"hex": "ff00"})
    assert record["headers"] == [{"name": "trace", "value": {"text": "a"}}, {"name": "none", "value": None}]


@pytest.mark.parametrize(
    ("raw", "size", "said"),
    [
        (None, -1, "null"),
        (None, 70_000_000, "not shown: 70,000,000 bytes"),
        (b"", 0, "empty"),
        ("grün".encode(), 5, "grün"),
        (b"\x1b[31m", 5, "\\x1b[31m"),
        (b"\xc3\x28", 2, "0xc328"),
    ],
)
def test_bytes_are_text_where_they_can_be_and_never_move_a_terminal(raw: bytes | None, size: int, said: str) -> None:
    assert bytes_in_words(raw, size) == said


def test_a_long_value_is_cut_for_people_and_says_so() -> None:
    assert bytes_in_words(b"x" * 3000, 3000).endswith("x... (3,000 bytes; --format json shows all)")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs the command against a cluster that answers by what it is given."""
    config = tmp_path / "parallax.yaml"
    config.write_text("kafka: {bootstrap.servers: 'h:1'}\ntopics: {include: [orders]}\nstorage: {path: data}\n")
    topics: dict[str, TopicMetadata] = {"orders": TopicMetadata("orders", "id", {0: WHERE})}
    answers: dict[int, AtOffset] = dict(FOUND.answers)
    monkeypatch.setattr(ReplicaClient, "metadata", lambda *_, **__: topics)
    monkeypatch.setattr("parallax.replica.at_offset.at_offset", lambda client, broker, place, offset: answers[broker])

    def run(*more: str, known: Mapping[str, TopicMetadata] | None = None, silent: bool = False) -> Result:
        if known is not None:
            topics.clear()
            topics.update(known)
        if silent:
            answers.update(dict.fromkeys(answers, SILENT))
        options = {"--topic": "orders", "--partition": "0", "--offset": "12"} | dict(
            zip(more[::2], more[1::2], strict=True)
        )
        words = [word for option in options.items() for word in option]
        return CliRunner().invoke(app, ["show-record", "-c", str(config), *words])

    return run


def test_all_replicas_are_asked_or_those_that_are_named(asked: Any) -> None:
    assert list(json.loads(asked("--format", "json").stdout)["brokers"]) == ["1", "2", "3"]
    assert list(json.loads(asked("--format", "json", "--broker", "2").stdout)["brokers"]) == ["2"]


def test_it_is_not_known_where_no_broker_answers(asked: Any) -> None:
    assert asked().exit_code == 0
    assert asked(silent=True).exit_code == 3


def test_it_is_not_known_either_where_nobody_even_says_who_hosts_it(
    asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: Any, **__: Any) -> Any:
        raise Unreachable("no broker answered; check that one runs")

    monkeypatch.setattr(ReplicaClient, "metadata", nobody)
    ended = asked()
    assert (ended.exit_code, ended.stderr) == (3, "parallax: no broker answered; check that one runs\n")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--topic", "ordres", "parallax: --topic: the cluster has no topic ordres; check its name"),
        ("--partition", "7", "parallax: --partition: orders has no partition 7; give one up to 0"),
        ("--broker", "9", "parallax: --broker: broker 9 hosts no replica of it; these do: 3, 1, 2"),
    ],
)
def test_what_is_not_there_is_one_line(asked: Any, option: str, value: str, said: str) -> None:
    ended = asked(option, value)
    assert (ended.exit_code, ended.stderr) == (2, f"{said}\n")


def test_a_missing_right_is_named(asked: Any) -> None:
    refused = TopicMetadata("orders", "", {}, Unauthorized("not authorized: DESCRIBE on the topic is needed"))
    ended = asked(known={"orders": refused})
    assert ended.exit_code == 2
    assert "DESCRIBE on the topic is needed" in ended.stderr
