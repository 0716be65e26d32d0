"""What a person gives for a number or for a topic's name: each option and argument has bounds, and says them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, get_args

import pytest
import typer
from typer.testing import CliRunner

from parallax.cli import app
from parallax.commands import numbers
from parallax.model import MAX_BYTES, MAX_SECONDS

MOST = max(numbers.LARGEST_OFFSET, MAX_BYTES, int(MAX_SECONDS))


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, with the words that name it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


def kinds(annotation: Any) -> set[Any]:
    return {annotation}.union(*map(kinds, get_args(annotation)))


EVERY = [(path, command) for path, command in commands(typer.main.get_command(app)) if path]
PARAMETERS = [(path, command, one) for path, command in EVERY for one in command.params]
NUMBERS = [each for each in PARAMETERS if kinds(each[2].type_descriptor.annotation) & {int, float}]
NAMES = [each for each in PARAMETERS if each[2].name == "topic"]


def is_argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def asked(path: tuple[str, ...], command: Any, wanted: Any, value: str) -> str:
    """The line that a command says of this value of a parameter, all others being such as can be."""
    words = list(path)
    for one in command.params:
        if one is wanted or one.required:
            is_number = bool(kinds(one.type_descriptor.annotation) & {int, float})
            is_time = datetime in kinds(one.type_descriptor.annotation)
            said = value if one is wanted else "1" if is_number else "2026-01-31T04:00:00" if is_time else "some"
            words.append(said if is_argument(one) else f"{one.opts[-1]}={said}")
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 2, ended.output
    (line,) = ended.stderr.splitlines()
    return line


def called(parameter: Any) -> str:
    return str(parameter.metavar if is_argument(parameter) else f"'{parameter.opts[-1]}'")


def named(each: Any) -> str:
    path, _, parameter = each
    return f"{' '.join(path)} {parameter.name}"


def test_all_are_found() -> None:
    assert {named(each) for each in NUMBERS} >= {"roll outage_s", "roll broker", "lab stop broker", "audit partition"}
    assert {named(each) for each in NAMES} >= {"guard hold topic", "show-record topic", "init topic", "lead topic"}


@pytest.mark.parametrize("each", NUMBERS, ids=named)
@pytest.mark.parametrize("value", ["inf", "nan", "1e300", "-1", str(MOST + 1), "9" * 5000], ids=lambda v: v[:20])
def test_a_number_that_cannot_be_is_one_line_that_names_it(each: Any, value: str) -> None:
    line = asked(*each, value)
    assert called(each[2]) in line or (value == "-1" and is_argument(each[2])), line


@pytest.mark.parametrize("each", NAMES, ids=named)
@pytest.mark.parametrize(
    "value", ["a b", "", "..", "x" * 250, "\udcff"], ids=["blank", "empty", "dots", "long", "text"]
)
def test_what_can_be_no_topics_name_is_one_line_that_says_what_can(each: Any, value: str) -> None:
    line = asked(*each, value)
    assert called(each[2]) in line
    assert "is no topic's name; write 1 to 249 of the letters a-z and A-Z, digits, '.', '_' and '-'" in line


@pytest.mark.parametrize("each", [each for each in PARAMETERS if is_argument(each[2])], ids=named)
def test_an_argument_is_called_in_capitals_where_it_is_missing_as_in_the_help(each: Any) -> None:
    assert each[2].metavar.isupper()
