"""The key of all hashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from parallax.config import ConfigError, ReadSettings
from parallax.views.hash_key import hash_key, name_of
from parallax.views.tables import VIEWS, create_tables, table_path

KEY, OTHER = "ab" * 16, "cd" * 16
NONE = ReadSettings()


def given(key: str) -> ReadSettings:
    return ReadSettings.model_validate({"hash_key": key})


def test_it_is_made_once_and_kept_for_its_owner_only(tmp_path: Path) -> None:
    key = hash_key(str(tmp_path / "data"), NONE)
    assert len(bytes.fromhex(key)) == 16
    assert hash_key(str(tmp_path / "data"), NONE) == key
    assert (tmp_path / "data" / "hash_key").stat().st_mode & 0o077 == 0


def test_one_that_is_set_goes_first(tmp_path: Path) -> None:
    assert hash_key(str(tmp_path), given(KEY)) == KEY
    assert list(tmp_path.iterdir()) == []


def test_one_in_a_file_of_its_own_is_not_kept_beside_the_tables(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(KEY + "\n")
    assert hash_key(str(tmp_path / "data"), ReadSettings(hash_key_file=str(tmp_path / "secret"))) == KEY
    assert not (tmp_path / "data").exists()


def test_a_damaged_one_is_not_replaced_in_silence(tmp_path: Path) -> None:
    for junk in (b"", b"\xff\xfe\x00", b"ab" * 15):
        (tmp_path / "hash_key").write_bytes(junk)
        with pytest.raises(ConfigError, match=r"^storage\.path: .*hash_key must hold 32 hexadecimal digits"):
            hash_key(str(tmp_path), NONE)


def test_a_file_that_is_not_there_is_one_line_that_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^read\.hash_key_file: .* cannot be read \(No such file"):
        hash_key(str(tmp_path), ReadSettings(hash_key_file=str(tmp_path / "none")))


def test_a_name_that_no_file_has_is_one_line(tmp_path: Path) -> None:
    for name in ("a\0b", "x" * 300):
        with pytest.raises(ConfigError, match=r"^read\.hash_key_file: .* cannot be read"):
            hash_key(str(tmp_path), ReadSettings(hash_key_file=name))


def test_a_key_that_is_given_for_the_file_that_holds_it_is_not_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^read\.hash_key_file: the key itself cannot be read") as caught:
        hash_key(str(tmp_path), ReadSettings(hash_key_file=KEY))
    assert KEY not in str(caught.value)


def test_tables_that_were_written_with_another_are_not_written_on(tmp_path: Path) -> None:
    create_tables(str(tmp_path), name_of(KEY))
    assert hash_key(str(tmp_path), given(KEY)) == KEY
    assert hash_key(str(tmp_path), given(KEY.upper())) == KEY.upper()
    with pytest.raises(ConfigError, match=r"^read\.hash_key: this is not the key that the tables below"):
        hash_key(str(tmp_path), given(OTHER))


def test_a_lost_file_is_not_taken_for_a_new_start(tmp_path: Path) -> None:
    create_tables(str(tmp_path), name_of(hash_key(str(tmp_path), NONE)))
    (tmp_path / "hash_key").unlink()
    with pytest.raises(ConfigError, match=r"^storage\.path: this is not the key"):
        hash_key(str(tmp_path), NONE)


def test_tables_that_do_not_say_their_key_are_taken_for_those_of_the_first_that_comes(tmp_path: Path) -> None:
    create_tables(str(tmp_path))
    assert hash_key(str(tmp_path), given(KEY)) == KEY
    create_tables(str(tmp_path), name_of(KEY))
    with pytest.raises(ConfigError):
        hash_key(str(tmp_path), given(OTHER))


def test_the_key_itself_is_not_in_the_tables(tmp_path: Path) -> None:
    create_tables(str(tmp_path), name_of(KEY))
    said = DeltaTable(table_path(str(tmp_path), VIEWS[0])).metadata().description
    assert said is not None
    assert said.startswith("hashed by key ")
    assert KEY not in said


def test_two_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        ReadSettings.model_validate({"hash_key": KEY, "hash_key_file": "x"})
