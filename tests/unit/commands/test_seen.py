"""``parallax seen`` on views that were recorded: by key, at an offset, and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner, Result

from parallax.cli import app
from parallax.config import ReadSettings
from parallax.findings.seen import seen_around
from parallax.model import FindingKind, Outcome, RowKind
from parallax.replica.decode import ContentHasher
from parallax.source.schema import VIEW
from parallax.views.hash_key import hash_key
from parallax.views.sharing import share
from parallax.views.tables import RECORDED_ON, create_tables
from tests.builders.findings import evidence, finding
from tests.builders.settings import document

AT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings of a job whose replica on broker 2 shows a deleted value, as its views recorded it."""
    storage = str(tmp_path / "data")
    create_tables(storage)
    key = hashed(storage, "k")
    shown = {1: [(0, 5), (1, -1)], 2: [(0, 5)], 3: [(0, 5), (1, -1)]}
    for minute, upto in ((1, 1), (5, 9)):
        rows = []
        for broker, records in shown.items():
            rows += [row(broker, 0, key, o, value) for o, value in records if (o < 1) == (upto == 1)]
            rows.append(row(broker, minute, key, upto))
        table: Any = pa.Table.from_pylist(rows, VIEW.append(pa.field(RECORDED_ON, pa.date32())))
        write_deltalake(f"{storage}/read_committed", table, mode="append")
    path = tmp_path / "parallax.yaml"
    path.write_text(json.dumps(document(storage)))
    return path


def hashed(storage: str, key: str) -> tuple[int, int]:
    return ContentHasher(bytes.fromhex(hash_key(storage, ReadSettings()))).key_hash(key.encode())


def row(broker: int, minute: int, key: tuple[int, int], offset: int, value: int | None = None) -> dict[str, Any]:
    """A record with a value of so many bytes; without one the position of the reader."""
    made = {
        "topic": "orders",
        "partition": 0,
        "broker": broker,
        "kind": int(RowKind.POSITION),
        "offset": offset,
        "timestamp": AT.replace(minute=minute),
        "leader_epoch": 0,
        RECORDED_ON: AT.date(),
    }
    if value is None:
        log = {"log_start_offset": 0, "last_stable_offset": offset, "high_watermark": offset}
        return made | {"position": log | {"event": "ok", "topic_id": "A"}}
    high, low = key
    record = {
        "kind": int(RowKind.RECORD),
        "outcome": int(Outcome.NONE),
        "content_hash": 1,
        "key_size": 1,
        "value_size": value,
    }
    return made | record | {"key_hash_hi": high, "key_hash_lo": low}


def seen(config: Path, *words: object) -> Result:
    return CliRunner().invoke(app, ["seen", "-c", str(config), "--topic", "orders", *map(str, words)])


def test_of_a_key_each_replica_is_said_as_it_was_at_the_time(config: Path) -> None:
    later = seen(config, "--key", "k", "--at", "2026-01-01T12:05:00")
    assert later.exit_code == 0, later.output
    deleted, read = (
        "a tombstone at offset 1, written 2026-01-01 12:00:00Z",
        "read up to offset 9 at 2026-01-01 12:05:00Z",
    )
    alive = "a value of 5 bytes (content 0000000000000001) at offset 0, written 2026-01-01 12:00:00Z"
    assert later.stdout.splitlines() == [
        "orders-0, key k, read_committed at 2026-01-01 12:05:00Z:",
        *(f"  broker {n}: {what} ({read})" for n, what in ((1, deleted), (2, alive), (3, deleted))),
    ]
    before = seen(config, "--key", "k", "--broker", 1, "--at", "2026-01-01 12:02:00Z", "--format", "json")
    (one,) = json.loads(before.stdout)
    assert (before.exit_code, one["broker"], one["saw"], one["read_up_to"]) == (0, 1, "record", 1)
    early = seen(config, "--key", "k", "--at", "2026-01-01T12:00:30")
    assert (early.exit_code, early.stdout.count("not known")) == (3, 3), early.output


def test_a_key_may_be_any_bytes_and_is_shown_so_that_it_can_be_read(config: Path) -> None:
    for key, shown in (("\udcff\udcfe", "0xfffe"), ("a\nb\x1b", "a\\nb\\x1b")):
        done = seen(config, "--key", key, "--broker", 1, "--at", "2026-01-01T12:05:00")
        assert (done.exit_code, done.stdout.splitlines()[0]) == (
            3,
            f"orders-0, key {shown}, read_committed at 2026-01-01 12:05:00Z:",
        ), done.output


def test_at_an_offset_it_is_said_who_held_something_there(config: Path) -> None:
    done = seen(config, "--offset", 1, "--partition", 0, "--at", "2026-01-01T12:30:00", "--format", "json")
    assert [(one["broker"], one["saw"]) for one in json.loads(done.stdout)] == [
        (1, "tombstone"),
        (2, "nothing"),
        (3, "tombstone"),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "2026-01-01T12:00:00"], "--key, --offset: give one of them"),
        (["--key", "k", "--offset", 1, "--at", "2026-01-01T12:00:00"], "--key, --offset: give one of them"),
        (["--offset", 1, "--at", "2026-01-01T12:00:00"], "--partition: an offset is of one partition; give its number"),
        (["--key", "k", "--at", "2999-01-01T00:00:00"], "--at: it is in the future; give a time that is over, in UTC"),
        (
            ["--key", "k", "--broker", 7, "--at", "2026-01-01T12:30:00"],
            "--topic: the views hold nothing of orders from then; check topic, partition and broker",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(config: Path, words: list[object], said: str) -> None:
    refused = seen(config, *words)
    assert (refused.exit_code, refused.stderr) == (2, f"parallax: {said}\n")


@pytest.mark.parametrize("text", [b"abc", b"AAAA"])
def test_a_view_whose_footer_is_garbled_is_refused_in_one_line(config: Path, tmp_path: Path, text: bytes) -> None:
    storage = str(tmp_path / "data")
    share(storage, "read_committed", lambda _: True, date(2026, 1, 2), set())
    for path in list(Path(storage).rglob("joined-shared-*.parquet")):
        rows = pq.read_table(path, partitioning=None).replace_schema_metadata({b"parallax.shared": text})
        pq.write_table(rows, path)
    refused = seen(config, "--key", "k", "--at", "2026-01-01T12:05:00")
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused.output
    assert f"the views below {storage} cannot be read (a footer is garbled" in refused.stderr


def test_a_report_says_it_of_the_moment_of_the_last_event(config: Path, tmp_path: Path) -> None:
    storage = str(tmp_path / "data")
    high, low = hashed(storage, "k")
    one = finding(
        "a" * 32,
        kind=FindingKind.DELETED_RECORD_RESURRECTED,
        broker=2,
        key_hash_hi=high,
        key_hash_lo=low,
        decided_at=AT.replace(minute=30),
        evidence=evidence({"no value": [1, 3], "value at offset 0": [2]}, [1, 2, 3], 1),
    )
    (said,) = seen_around(storage, one)
    assert said == (
        "What a read_committed consumer had seen of its key at 2026-01-01 12:30:00Z: of brokers 1 and 3 a tombstone "
        "at offset 1, written 2026-01-01 12:00:00Z; of broker 2 a value of 5 bytes (content 0000000000000001) at "
        "offset 0, written 2026-01-01 12:00:00Z."
    )
    assert "cannot be read" in seen_around(str(tmp_path / "nowhere"), one)[0]
