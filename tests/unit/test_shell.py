"""Every command of Parallax that a text names has options that the command line takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import typer

from parallax.cli import app
from parallax.findings.explain import explain
from parallax.findings.finding import Finding
from parallax.findings.report import sections
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.shell import NEED_SETTINGS, Shell
from tests.unit.findings.explained import explained

BY_DATA = Shell(data="/d")
_SIDES: tuple[dict[str, list[int]], ...] = (
    {"no value": [1, 3], "value at offset 0": [2]},
    {"a": [1], "b": [2], "c": [3]},
    {"a": [1, 2, 3]},
)


def options(command: Any, *path: str) -> Iterator[tuple[str, set[str]]]:
    """Each command that can be run, with the names of its options."""
    inner = getattr(command, "commands", {})
    for name, one in inner.items():
        yield from options(one, *path, name)
    if path and not (inner and not command.invoke_without_command):
        yield " ".join(path), {name for option in command.params for name in option.opts}


OPTIONS = dict(options(typer.main.get_command(app)))


def test_the_commands_that_need_the_settings_file_are_those_that_take_no_storage_path() -> None:
    assert {name for name, has in OPTIONS.items() if "--config" in has and "--data" not in has} == NEED_SETTINGS


@pytest.mark.parametrize("kind", FindingKind)
def test_every_command_that_an_explanation_names_takes_the_option_that_names_the_job(kind: FindingKind) -> None:
    statuses = (FindingStatus.CONFIRMED, FindingStatus.SPREAD, FindingStatus.UNSETTLED)
    named = set()
    for status, sides, leader, broker in product(statuses, _SIDES, (1, 2), (2, NOBODY)):
        one = explained(sides, leader, kind=kind, status=status, broker=broker)
        named |= set(_named_in(one))
    assert named
    assert not {(name, option) for name, option in named if option not in OPTIONS[name]}


def _named_in(finding: Finding) -> Iterator[tuple[str, str]]:
    """Each command that a finding's explanation names, with the option by which it names the job."""
    for _, text in sections(finding, explain(finding, (), BY_DATA)):
        for said, option in re.findall(r"parallax ([a-z][^\n;]*?) (--data|-c) (?:/d|CONFIG)", text):
            words = said.split()
            yield next(name for name in (" ".join(words[:2]), words[0]) if name in OPTIONS), option
