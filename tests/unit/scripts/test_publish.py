"""What a release is made of, and what it must not be made with."""

from __future__ import annotations

import json
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts import script_of


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_of("publish")


@pytest.mark.parametrize(
    ("changelog", "problem"),
    [
        ("# Changelog\n", "the newest section is missing"),
        ("## 0.2.0 (2026-01-02)\n", "the newest section is 0.2.0, not 0.1.0"),
        ("## 0.1.0 (unreleased)\n", "0.1.0 is unreleased; write its day"),
        ("## Unreleased\n\n## 0.1.0 (2026-11-27)\n", "the newest section is Unreleased, not 0.1.0"),
    ],
)
def test_a_version_without_its_day_in_the_changelog_is_not_released(
    script: ModuleType, changelog: str, problem: str
) -> None:
    with pytest.raises(script.UnfitError, match=problem):
        script.dated("0.1.0", changelog)
    assert script.dated("0.1.0", "# Changelog\n\n## 0.1.0 (2026-11-27)\n\n## 0.0.9 (x)\n") == "2026-11-27"


def test_the_packages_version_is_the_newest_of_the_changelog_that_has_a_day(script: ModuleType) -> None:
    version = tomllib.loads((script.ROOT / "pyproject.toml").read_text())["project"]["version"]
    released = (script.ROOT / "CHANGELOG.md").read_text().partition("## Unreleased\n")
    assert script.dated(version, released[2] or released[0])


def test_all_files_name_the_packages_version(script: ModuleType) -> None:
    assert script.agreed(tomllib.loads((script.ROOT / "pyproject.toml").read_text())["project"]["version"])


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("deploy/helm/parallax/Chart.yaml", "version: "),
        ("deploy/helm/parallax/Chart.yaml", "appVersion: "),
        ("deploy/spark/sparkapplication.yaml", "  image: registry.example.org/parallax-spark:"),
    ],
)
@pytest.mark.parametrize(("instead", "said"), [("9.9.9", "9.9.9"), (None, "missing")])
def test_a_file_that_names_another_version_or_none_is_named(
    script: ModuleType, tmp_path: Path, file: str, line: str, instead: str | None, said: str
) -> None:
    version = tomllib.loads((script.ROOT / "pyproject.toml").read_text())["project"]["version"]
    for each in script.ELSEWHERE:
        text = (script.ROOT / each).read_text()
        if each == file:
            assert f"\n{line}{version}\n" in text
            text = text.replace(f"\n{line}{version}\n", f"\n{line}{instead}\n" if instead else "\n")
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text(text)
    with pytest.raises(script.UnfitError, match=f"^{file}: the version is {said}, not {version}; write it$"):
        script.agreed(version, tmp_path)


def test_a_version_whose_state_is_not_kept_is_not_released(script: ModuleType, tmp_path: Path) -> None:
    assert script.kept("0.1.0") == "0.1.0.tar.xz"
    with pytest.raises(script.UnfitError, match=r"^no 0\.2\.0\.tar\.xz in tests/stored; run "):
        script.kept("0.2.0", tmp_path)


def test_a_command_that_fails_is_one_line_that_names_it(script: ModuleType) -> None:
    with pytest.raises(script.UnfitError, match=r"^\S*python\S* -c \S.*: SystemExit|: gone$"):
        script.run([sys.executable, "-c", "raise SystemExit('first\\ngone')"])


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "known-lib-1.2.3.jar", "w") as jar:
        jar.writestr("META-INF/LICENSE", "the text")
        jar.writestr("META-INF/maven/org.example/known-lib/pom.xml", "<license>\n<name>MIT</name></license>")
        jar.writestr("META-INF/maven/org.example/known-lib/pom.properties", "")
        jar.writestr("org/notice/Class.class", "code")
    with zipfile.ZipFile(tmp_path / "silent.jar", "w") as jar:
        jar.writestr("a", "b")
    return tmp_path


def test_the_notices_name_each_part_and_hold_each_text_once(script: ModuleType, jars: Path) -> None:
    known, silent = script.jars([jars, jars])
    assert (known.name, known.version, known.licence, known.texts) == ("known-lib", "1.2.3", "MIT", ("the text",))
    assert (silent.name, silent.version, silent.texts) == ("silent", "", ())
    other = script.Part("other", "2", "A|B", ("the text\n",))
    document = script.notices([known, silent, other])
    assert "| other | 2 | A/B |" in document
    assert document.count("    the text") == 1
    assert "## known-lib 1.2.3, other 2" in document


def test_the_sbom_has_the_jars_with_their_hashes(script: ModuleType, jars: Path) -> None:
    whole = script.with_jars({"components": [{"name": "rich"}]}, [jars])
    assert [one["name"] for one in whole["components"]] == ["rich", "known-lib", "silent"]
    assert len(whole["components"][1]["hashes"][0]["content"]) == 64
    assert [one.get("purl") for one in whole["components"]] == [None, "pkg:maven/org.example/known-lib@1.2.3", None]


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_of_one_commit_wheel_sbom_and_notices_are_made(script: ModuleType, tmp_path: Path) -> None:
    assert script.release(tmp_path, trial=True) == 0
    (sbom,) = tmp_path.glob("*.cdx.json")
    assert {"pyspark", "delta-spark_4.2_2.13"} <= {one["name"] for one in json.loads(sbom.read_text())["components"]}
    assert len(list(tmp_path.glob("*.whl"))) == 1
    assert "| pyspark |" in (tmp_path / "THIRD-PARTY-NOTICES.md").read_text()
