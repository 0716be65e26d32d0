from __future__ import annotations

from pathlib import Path

import pytest

from parallax.model import ReadEvent
from parallax.source.feedback import FeedbackFile, Recorded, load, write
from parallax.source.offsets import Reader

READER = Reader(1, 2, "orders", 0)
ENTRY = Recorded(42, "A", ReadEvent.UNREACHABLE, 7)


def test_what_the_sink_writes_the_source_reads(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "feedback.json"
    write(path, {READER: ENTRY})
    assert FeedbackFile(str(path)).read() == {READER: ENTRY}
    assert load(path)[0] == {READER: ENTRY}
    assert load(path)[1] > 0


def test_a_new_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "feedback.json"
    file = FeedbackFile(str(path))
    assert file.read() == {}
    write(path, {READER: ENTRY})
    assert file.read() == {READER: ENTRY}
    write(path, {READER: ENTRY._replace(position=43)})
    assert file.read()[READER].position == 43


def test_without_a_path_nothing_is_recorded() -> None:
    assert FeedbackFile(None).read() == {}


def test_a_damaged_file_is_named_while_running_and_rebuilt_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "feedback.json"
    path.write_text("[[1, 2", encoding="utf-8")
    with pytest.raises(ValueError, match="is not a feedback file"):
        FeedbackFile(str(path)).read()
    assert load(path) == ({}, 0)
