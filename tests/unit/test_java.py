from __future__ import annotations

from pathlib import Path

import pytest

from parallax.errors import SetupError
from parallax.java import KAFKA_NEEDS, find_java


def jdk(folder: Path, says: str, code: int = 0) -> Path:
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    launcher.chmod(0o755)
    return launcher


def test_java_home_wins_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = jdk(tmp_path / "home", 'openjdk version "17.0.15" 2025-04-15')
    other = jdk(tmp_path / "other", 'openjdk version "21.0.1" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(other.parent))
    assert (find_java().path, find_java().version) == (home, 17)


def test_without_java_home_the_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = jdk(tmp_path, 'java version "21" 2023-09-19 LTS')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(launcher.parent))
    assert (find_java().path, find_java().version) == (launcher, 21)


def test_a_release_between_the_long_term_ones_suits_kafka_and_not_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jdk(tmp_path, 'openjdk version "23" 2024-09-17')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java(KAFKA_NEEDS).version == 23
    with pytest.raises(SetupError, match="is Java 23; a JDK 17 or 21 is needed"):
        find_java()


@pytest.mark.parametrize(
    ("says", "code", "problem"),
    [
        ('java version "1.8.0_392"', 0, "is Java 8; a JDK 17 or 21 is needed"),
        ("hello", 0, "names no version"),
        ("", 1, "failed"),
    ],
)
def test_a_wrong_java_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int, problem: str
) -> None:
    jdk(tmp_path, says, code)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=problem) as caught:
        find_java()
    assert "\n" not in str(caught.value)


def test_no_java_at_all_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SetupError, match="no Java was found; install a JDK 17 or 21"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="holds no bin/java"):
        find_java()
