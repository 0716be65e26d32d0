from __future__ import annotations

from pathlib import Path

import pytest

from parallax.repair.record import Event, EventKind
from parallax.repair.table import RepairTable, read_record
from parallax.views.event_log import EventLogError

BEGUN = Event(EventKind.BEGUN, "a" * 32, "orders", 0, 1, "me", 0, {"steps": [{"number": 1}]}, "why")


def test_what_was_appended_is_read_by_another_process_as_it_was(tmp_path: Path) -> None:
    first = RepairTable(str(tmp_path)).append(BEGUN)
    assert RepairTable(str(tmp_path)).news() == [first]
    (repair,) = read_record(str(tmp_path)).repairs.values()
    assert repair.plan == {"steps": [{"number": 1}]}


def test_a_storage_without_repairs_has_none_and_is_not_written_to(tmp_path: Path) -> None:
    assert read_record(str(tmp_path)).repairs == {}
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(EventLogError, match="nothing was ever repaired from here"):
        RepairTable(str(tmp_path), create=False)
