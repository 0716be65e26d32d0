"""What ``make setup`` prints: a line for each step."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

from tests import conftest
from tests.scripts import script_of

MANY = [sys.executable, "-c", "for n in range(250): print('Collecting', n)"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_of("bootstrap")


def test_however_many_packages_there_are_a_step_is_one_line(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    script.run_with_progress(MANY, "packages", notable=re.compile("^Collecting "))
    assert re.fullmatch(r"\[setup\] packages: done in \d+ s\n", capsys.readouterr().err)


def test_on_a_terminal_they_are_counted_on_that_line(
    script: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    script.run_with_progress(MANY, "packages", notable=re.compile("^Collecting "))
    counted, _, done = capsys.readouterr().err.rpartition("\r\033[K")
    assert "\r[setup] packages: 250\033[K" in counted
    assert "\n" not in counted
    assert done.startswith("[setup] packages: done in ")


def test_a_step_that_fails_says_what_was_said_last(script: ModuleType) -> None:
    failing = [sys.executable, "-c", "print('no such package'); raise SystemExit(1)"]
    with pytest.raises(script.SetupError, match=r"^packages failed: no such package$"):
        script.run_with_progress(failing, "packages", notable=re.compile("^Collecting "))


def test_debians_packages_that_are_missing_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest.shutil, "which", lambda name: None if name in ("promtool", "chromium") else name)
    (line,) = conftest.pytest_report_header()
    assert line.endswith("apt-get install prometheus chromium")
    monkeypatch.setattr(conftest.shutil, "which", lambda name: name)
    assert conftest.pytest_report_header() == []
