"""What receivers were told is on record, in a real Delta table."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import structlog
from deltalake import DeltaTable, write_deltalake

from parallax.alerting.webhook.outbox import Outbox, Pace, Told
from parallax.alerting.webhook.record import NOTIFICATIONS, Record
from tests.builders.findings import finding

PACE = Pace(repeat_s=3600)


def test_what_was_put_on_record_is_there_in_the_next_process_for_each_receiver(tmp_path: Path) -> None:
    outbox = Outbox(PACE, Random(1))
    outbox.observe([finding("a"), finding("b", topic="payments")], 1000.0)
    message = outbox.due(1010.0)
    assert message is not None
    outbox.delivered(message, 1010.0)
    outbox.observe([finding("b", topic="payments")], 1020.0)
    record = Record(str(tmp_path))
    assert record.put("hook", outbox.alerts, outbox.told)
    assert record.put("chat", [], {})
    again = Record(str(tmp_path))
    assert again.of("hook") == (outbox.alerts, outbox.told)
    assert again.of("chat") == ([], {})


def test_a_receiver_that_is_no_more_is_forgotten(tmp_path: Path) -> None:
    outbox = Outbox(PACE, Random(1))
    outbox.observe([finding("a")], 1000.0)
    record = Record(str(tmp_path))
    record.put("old", outbox.alerts, {})
    record.keep(["hook"])
    record.put("hook", outbox.alerts, {})
    assert Record(str(tmp_path)).of("old") == ([], {})


def test_a_record_of_many_commits_stays_small(tmp_path: Path) -> None:
    outbox = Outbox(PACE, Random(1))
    record = Record(str(tmp_path))
    for n in range(40):
        outbox.observe([finding(f"f{n}")], 1000.0 + n)
        record.put("hook", outbox.alerts, {})
    assert len(Record(str(tmp_path)).of("hook")[0]) == 40


@pytest.mark.parametrize("damage", ["garbled", "newer"])
def test_a_record_that_cannot_be_read_is_a_line_and_everything_open_is_told_again(tmp_path: Path, damage: str) -> None:
    outbox = Outbox(PACE, Random(1))
    outbox.observe([finding("a")], 1000.0)
    Record(str(tmp_path)).put("hook", outbox.alerts, {})
    if damage == "garbled":
        for file in (tmp_path / NOTIFICATIONS).glob("*.parquet"):
            file.write_bytes(b"no parquet")
    else:
        outbox.restore([], {}, 1000.0)
        alerts = [alert.__class__(**{**_fields(alert), "state": "unheard-of"}) for alert in outbox.alerts]
        Record(str(tmp_path)).put("hook", alerts, {})
    with structlog.testing.capture_logs() as logged:
        assert Record(str(tmp_path)).of("hook") == ([], {})
    assert [line["log_level"] for line in logged] == ["warning"]
    assert "\n" not in logged[0]["error"]


def test_a_storage_that_takes_nothing_is_a_line_and_no_error(tmp_path: Path) -> None:
    outbox = Outbox(PACE, Random(1))
    outbox.observe([finding("a")], 1000.0)
    record = Record(str(tmp_path))
    (tmp_path / NOTIFICATIONS).write_text("in the way")
    with structlog.testing.capture_logs() as logged:
        assert not record.put("hook", outbox.alerts, {})
    assert len(logged) == 1


def _fields(alert: object) -> dict[str, object]:
    return {name: getattr(alert, name) for name in alert.__slots__}  # type: ignore[attr-defined]


def test_a_record_of_an_earlier_version_is_taken_up_and_completed(tmp_path: Path) -> None:
    outbox = Outbox(PACE, Random(1))
    outbox.observe([finding("a")], 1000.0)
    Record(str(tmp_path)).put("hook", outbox.alerts, {})
    uri = str(tmp_path / NOTIFICATIONS)
    older = DeltaTable(uri).to_pyarrow_table().drop_columns(["is_acknowledged", "turns"])
    write_deltalake(uri, older, mode="overwrite", schema_mode="overwrite")
    record = Record(str(tmp_path))
    assert record.of("hook")[0] == outbox.alerts
    group = outbox.alerts[0].group
    assert record.put("hook", outbox.alerts, {group: Told(7.0, 2)})
    assert Record(str(tmp_path)).of("hook") == (outbox.alerts, {group: Told(7.0, 2)})
