from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from parallax.model import ReadEvent
from parallax.source import feedback
from parallax.source.feedback import FeedbackFile, Journal, Recorded, load, write
from parallax.source.offsets import Reader

READER = Reader(1, 2, "orders", 0)
OTHER = Reader(1, 3, "orders", 0)
ENTRY = Recorded(42, "A", ReadEvent.UNREACHABLE, 7)


def known(file: FeedbackFile) -> Mapping[Reader, Recorded]:
    file.news()
    return file.recorded


def test_what_the_sink_writes_the_source_reads(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "feedback.json"
    write(path, {READER: ENTRY})
    assert known(FeedbackFile(str(path))) == {READER: ENTRY}
    assert load(path)[0] == {READER: ENTRY}
    assert load(path)[1] == {}


def test_a_new_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "feedback.json"
    file = FeedbackFile(str(path))
    write(path, {READER: ENTRY})
    assert known(file) == {READER: ENTRY}
    write(path, {READER: ENTRY._replace(position=43)})
    assert known(file)[READER].position == 43


def test_a_file_that_is_gone_is_no_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "feedback.json"
    file = FeedbackFile(str(path))
    with pytest.raises(ValueError, match="is gone; start the query again"):
        known(file)
    write(path, {READER: ENTRY})
    assert known(file) == {READER: ENTRY}
    path.unlink()
    with pytest.raises(ValueError, match="is gone"):
        known(file)


def test_what_a_micro_batch_moved_is_added(tmp_path: Path) -> None:
    path = tmp_path / "feedback.json"
    journal, file = Journal(path), FeedbackFile(str(path))
    journal.write({READER: ENTRY, OTHER: ENTRY}, {1: 70})
    assert known(file) == {READER: ENTRY, OTHER: ENTRY}
    moved = ENTRY._replace(position=50, batch=8)
    journal.append({OTHER: moved}, {READER: ENTRY, OTHER: moved}, {1: 71})
    assert known(file) == known(FeedbackFile(str(path))) == load(path)[0] == {READER: ENTRY, OTHER: moved}
    assert path.read_bytes().count(b"\n") == 2
    assert load(path)[1] == {1: 71}


def test_a_line_that_is_not_whole_yet_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "feedback.json"
    journal, file = Journal(path), FeedbackFile(str(path))
    journal.write({READER: ENTRY}, {})
    whole, moved = path.read_bytes(), {READER: ENTRY._replace(position=43)}
    journal.append(moved, moved, {})
    line = path.read_bytes()[len(whole) :]
    for n in range(len(line)):
        path.write_bytes(whole + line[:n])
        assert known(file)[READER].position == load(path)[0][READER].position == 42
    path.write_bytes(whole + line)
    assert known(file)[READER].position == load(path)[0][READER].position == 43


def test_a_file_that_has_become_long_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback, "_LONGEST", 3)
    path = tmp_path / "feedback.json"
    journal, file = Journal(path), FeedbackFile(str(path))
    journal.write({}, {})
    lines = []
    for position in range(30):
        moved = {READER: ENTRY._replace(position=position)}
        journal.append(moved, moved, {1: position})
        lines.append(path.read_bytes().count(b"\n"))
        assert known(file)[READER].position == position
        assert load(path)[1] == {1: position}
    assert max(lines) == 8


def test_a_file_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "feedback.json"
    path.write_text(json.dumps([[*READER, *ENTRY]]))
    assert load(path)[0] == {READER: ENTRY}
    path.write_text(path.read_text() + "\n" + json.dumps([[1, 70], [*OTHER, *ENTRY]]) + "\n")
    assert load(path) == (known(FeedbackFile(str(path))), {1: 70}) == ({READER: ENTRY, OTHER: ENTRY}, {1: 70})


def three_lines(path: Path) -> bytes:
    journal, recorded = Journal(path), {READER: ENTRY}
    journal.write(recorded, {1: 70})
    for position in (5000, 6000):
        recorded = {OTHER: ENTRY._replace(position=position)}
        journal.append(recorded, recorded, {1: position})
    return path.read_bytes()


def test_whatever_is_flipped_in_a_file_it_is_set_aside_and_the_running_source_says_so(tmp_path: Path) -> None:
    path, broken = tmp_path / "feedback.json", tmp_path / "feedback.json.broken"
    whole = three_lines(path)
    for at in range(len(whole) - 1):
        garbled = bytearray(whole)
        garbled[at] ^= 1
        path.write_bytes(garbled)
        with pytest.raises(ValueError, match="delete it"):
            known(FeedbackFile(str(path)))
        assert load(path) == ({}, {})
        assert broken.read_bytes() == garbled
        assert not path.exists()


def test_a_line_that_is_missing_in_the_middle_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "feedback.json"
    first, second, third = three_lines(path).splitlines(keepends=True)
    path.write_bytes(first + second)
    file = FeedbackFile(str(path))
    assert known(file)[OTHER].position == 5000
    for lines in (first + third, second + third, first + third + second):
        path.write_bytes(lines)
        assert load(path) == ({}, {})
    path.write_bytes(first + second + second + third)
    with pytest.raises(ValueError, match="garbled or missing"):
        known(file)


@pytest.mark.parametrize(
    "row",
    [
        [1, 3, "t", 0, "x", "A", "ok"],
        [1, 3, "t", 0, -5, "A", "ok"],
        [1, 3, "t", 0, 1e9, "A", "ok"],
        [True, 3, "t", 0, 5, "A", "ok"],
        [1, 3, 7, 0, 5, "A", "ok"],
        [1, 3, "t", 0, 5, None, "ok"],
        [1, 3, "t", 0, 5, "A", "never"],
        [1, 3, "t"],
    ],
)
def test_what_no_sink_writes_is_not_taken_over_from_an_earlier_version(tmp_path: Path, row: list[object]) -> None:
    path = tmp_path / "feedback.json"
    path.write_text(json.dumps([[*READER, *ENTRY], row]))
    assert load(path) == ({}, {})


def test_a_file_that_took_the_inode_of_the_one_before_is_another(tmp_path: Path) -> None:
    path = tmp_path / "feedback.json"
    write(path, {READER: ENTRY})
    file, inode = FeedbackFile(str(path)), path.stat().st_ino
    assert known(file) == {READER: ENTRY}
    for recorded in ({READER: ENTRY._replace(position=43)}, {READER: ENTRY, OTHER: ENTRY}):
        write(tmp_path / "other.json", recorded)
        path.write_bytes((tmp_path / "other.json").read_bytes())
        assert path.stat().st_ino == inode
        assert file.news() == (recorded, True)


def test_without_a_path_nothing_is_recorded() -> None:
    assert known(FeedbackFile(None)) == {}


@pytest.mark.parametrize("text", ["[[1, 2", '[{"a": 1, "b": 2}]', "[" * 200_000], ids=["cut", "no rows", "deep"])
def test_a_damaged_file_is_named_while_running_and_rebuilt_at_the_start(tmp_path: Path, text: str) -> None:
    path = tmp_path / "feedback.json"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="is not a feedback file"):
        known(FeedbackFile(str(path)))
    assert load(path) == ({}, {})


def test_only_what_is_new_is_news(tmp_path: Path) -> None:
    path, moved = tmp_path / "feedback.json", ENTRY._replace(position=43)
    journal, file = Journal(path), FeedbackFile(str(path))
    journal.write({READER: ENTRY, OTHER: ENTRY}, {1: 70})
    assert file.news() == ({READER: ENTRY, OTHER: ENTRY}, True)
    assert file.news() == ({}, False)
    journal.append({OTHER: moved}, {READER: ENTRY, OTHER: moved}, {1: 71})
    assert file.news() == ({OTHER: moved}, False)
    journal.write({OTHER: moved}, {1: 72})
    assert file.news() == ({OTHER: moved}, True)
    assert file.recorded == {OTHER: moved}


def test_a_line_that_was_written_in_part_is_followed_by_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, moved = tmp_path / "feedback.json", {READER: ENTRY._replace(position=43)}
    journal = Journal(path)
    journal.write({READER: ENTRY}, {1: 70})

    opened = Path.open

    def full(*_: object) -> None:
        with opened(path, "ab") as file:
            file.write(b"12345678 [[1,7")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space"):
        journal.append(moved, moved, {1: 71})
    monkeypatch.setattr(Path, "open", opened)
    journal.append(moved, moved, {1: 72})
    assert load(path) == (moved, {1: 72})
