"""The targets of the Makefile that take seconds, run in a copy of the checkout by the packages that the tests have."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.make import make

ROOT = Path(__file__).parents[3]
PARTS = ("Makefile", "README.md", "pyproject.toml", "mkdocs.yml", "conf", "dashboards", "deploy", "docs", "scripts")
BEGUN = "import pytest\n\n\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What documents and dashboards are made of, and no tests."""
    for name in PARTS:
        part = ROOT / name
        (shutil.copytree if part.is_dir() else shutil.copy)(part, tmp_path / name)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    return tmp_path


def ran(folder: Path, *words: str) -> str:
    ended = make(*words, folder=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_help_lists_every_target(copy: Path) -> None:
    listed = {line.split()[1] for line in ran(copy, "help").splitlines()}
    assert listed >= {"setup", "demo", "test", "lint", "clean"}
    assert ran(copy) == ran(copy, "help"), "what runs without a word"


@pytest.mark.parametrize(
    ("target", "file"),
    [("reference", "conf/parallax.yaml"), ("dashboards", "deploy/prometheus/parallax-rules.yaml")],
)
def test_what_is_generated_is_written_again(copy: Path, target: str, file: str) -> None:
    (copy / file).unlink()
    ran(copy, target)
    assert (copy / file).read_bytes() == (ROOT / file).read_bytes()


def test_the_site_has_a_page_of_each_document(copy: Path) -> None:
    ran(copy, "site")
    assert "Parallax" in (copy / "build" / "site" / "runbook.html").read_text()


def test_code_is_formatted_and_what_can_be_mended_is(copy: Path) -> None:
    (copy / "one.py").write_text('"""One."""\nimport os\nimport json\nBOTH = ( os.name,json )\n')
    ran(copy, "format")
    assert (copy / "one.py").read_text() == '"""One."""\n\nimport json\nimport os\n\nBOTH = (os.name, json)\n'


def test_clean_removes_what_was_made_and_nothing_else(copy: Path) -> None:
    before = set(copy.rglob("*"))
    for name in (".venv", ".ruff_cache", "build"):
        (copy / name / "one").mkdir(parents=True)
    ran(copy, "clean")
    assert set(copy.rglob("*")) == before


def test_unit_runs_the_unit_tests_alone_and_test_all_every_test(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGS", "--of-the-make-that-runs-this")
    (copy / "tests" / "unit" / "test_one.py").write_text(f"{BEGUN}def test_of_a_unit():\n    assert True\n")
    shutil.copy(ROOT / "tests" / "conftest.py", copy / "tests")
    marks = "".join(f"@pytest.mark.{mark}\ndef test_{mark}():\n    assert True\n\n\n" for mark in ("alone", "release"))
    (copy / "tests" / "test_two.py").write_text(BEGUN + marks)
    assert "1 passed" in ran(copy, "unit")
    alone, others = (line for line in ran(copy, "test-all", "WORKERS=1").splitlines() if " passed" in line)
    assert ("1 passed" in alone, "2 passed" in others) == (True, True)


def test_as_many_histories_as_are_asked_for_are_simulated() -> None:
    assert re.search(r"\b4 histories", ran(ROOT, "simulate", "HISTORIES=4"))
