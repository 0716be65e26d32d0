"""The file system of a table's folder, and of its neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallax.views.filesystem import filesystem, place


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_file_of_another_table_of_the_storage_is_found_by_its_path(tmp_path: Path, scheme: str) -> None:
    for table in ("one", "two"):
        (tmp_path / table / "day").mkdir(parents=True)
        (tmp_path / table / "day" / "rows").write_text(table)
    files = filesystem(f"{scheme}{tmp_path}/one")
    for path, table in (("day/rows", "one"), ("../two/day/rows", "two")):
        folder, below = place(files, path)
        assert below == "day/rows"
        with folder.open_input_file(below) as file:
            assert file.read() == table.encode()
