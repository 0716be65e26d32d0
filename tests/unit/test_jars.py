"""Ivy itself runs, against a repository in a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from select import select

import pytest

from parallax.errors import SetupError
from parallax.jars import cache_folder, class_path, kafka_jars
from tests.patience import PATIENCE_S

MODULES = [
    ("org.apache.kafka", "kafka_2.13", "9.9.9"),
    ("org.apache.kafka", "kafka-tools", "9.9.9"),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PARALLAX_CACHE", str(tmp_path / "cache"))
    repository = tmp_path / "repository"
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="folder"/><resolvers><filesystem name="folder">'
        f'<artifact pattern="{repository}/[organisation]/[module]-[revision].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    monkeypatch.setenv("PARALLAX_IVY_SETTINGS", str(settings))
    for organisation, module, revision in MODULES:
        jar = repository / organisation / f"{module}-{revision}.jar"
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.write_bytes(module.encode())
    return tmp_path / "cache"


def test_jars_are_resolved_once_and_whole(cache: Path) -> None:
    said: list[str] = []
    folder = kafka_jars("9.9.9", progress=said.append)
    assert folder == cache / "kafka-9.9.9"
    assert {jar.name for jar in folder.iterdir()} == {f"{module}-{revision}.jar" for _, module, revision in MODULES}
    assert said == ["resolving the jars of Kafka 9.9.9", f"{len(MODULES)} jars of Kafka 9.9.9, 0 MB"]
    assert not list(cache.glob(".*")), "nothing half done is left"
    said.clear()
    assert kafka_jars("9.9.9", progress=said.append) == folder
    assert said == []


def test_a_copy_of_what_another_machine_fetched_needs_no_repository(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(kafka_jars("9.9.9"), tmp_path / "brought" / "kafka-9.9.9")
    monkeypatch.setenv("PARALLAX_CACHE", str(tmp_path / "brought"))
    monkeypatch.setenv("PARALLAX_IVY_SETTINGS", str(tmp_path / "there is none.xml"))
    assert kafka_jars("9.9.9") == tmp_path / "brought" / "kafka-9.9.9"


def test_of_several_processes_one_makes_what_is_missing_and_the_others_wait_for_it(cache: Path) -> None:
    program = (
        "import sys, threading; from pathlib import Path; from parallax.jars import made_once\n"
        "target = Path(sys.argv[1])\n"
        "print('asks', flush=True)\n"
        "with made_once(target) as missing:\n"
        "    if missing:\n"
        "        print('makes it', flush=True)\n"
        "        sys.stdin.readline()\n"
        "        target.touch()\n"
        "print('has it' if target.exists() else 'has it not')\n"
    )
    command = [sys.executable, "-c", program, str(cache / "made")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as first:  # type: ignore[call-overload]
        assert [first.stdout.readline(), first.stdout.readline()] == ["asks\n", "makes it\n"]
        with subprocess.Popen(command, **pipes) as second:  # type: ignore[call-overload]
            assert second.stdout.readline() == "asks\n"
            assert not select([second.stdout], [], [], 1.0)[0], "it waits for the first"
            said, _ = first.communicate("\n", timeout=PATIENCE_S)
            assert said == "has it\n"
            assert second.communicate("\n", timeout=PATIENCE_S)[0] == "has it\n"
    assert [path.name for path in cache.iterdir()] == ["made"]


def test_a_version_that_does_not_exist_is_one_line_and_leaves_nothing(cache: Path) -> None:
    with pytest.raises(SetupError, match=r"Kafka 9\.9\.8 could not be resolved .*kafka_2\.13;9\.9\.8") as caught:
        kafka_jars("9.9.8")
    assert "\n" not in str(caught.value)
    assert {path.name for path in cache.iterdir()} == {"ivy"}


@pytest.mark.parametrize("version", ["", "4.2", "latest", "4.2.1-SNAPSHOT", "../4.2.1"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(SetupError, match="is not of the form"):
        kafka_jars(version)


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PARALLAX_CACHE", str(tmp_path / "file"))
    with pytest.raises(SetupError, match="set PARALLAX_CACHE"):
        kafka_jars("9.9.9")


def test_the_cache_is_in_the_home_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARALLAX_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "parallax"


def test_the_class_path_is_every_jar_of_the_folder() -> None:
    assert class_path(Path("/jars")) == "/jars/*"
