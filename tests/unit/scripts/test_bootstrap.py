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


def test_every_module_that_shares_a_worker_is_there_and_is_in_the_order_of_the_run() -> None:
    named = [*(name for together in conftest.TOGETHER for name in together), *conftest.COMPUTING]
    assert [name for name in named if not (conftest.END_TO_END / f"{name}.py").exists()] == []
    assert len(set(named)) == len(named)
    assert set(named) <= set(conftest.LONGEST_FIRST)


def test_modules_that_share_something_have_one_scope_and_the_others_one_each() -> None:
    first, second, *_ = conftest.PLAYED_ONCE
    assert conftest.scope(f"tests/e2e/{first}.py::a") == conftest.scope(f"tests/e2e/{second}.py::b")
    assert conftest.scope(f"tests/unit/{first}.py::a") == f"tests/unit/{first}.py"
    assert conftest.scope("tests/e2e/test_webhook.py::a") == "tests/e2e/test_webhook.py"


def test_of_three_workers_the_third_takes_no_end_to_end_tests() -> None:
    assert [conftest.is_beyond(number, 3) for number in range(3)] == [False, False, True]
    assert not any(conftest.is_beyond(number, 2) for number in range(4))
