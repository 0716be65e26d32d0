"""What the job's log says: every event of the package in words that logs.py explains, and none with an empty field."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import parallax
from parallax.audit.spot import Checked, Spot
from parallax.guard.absences import Unclear
from parallax.guard.holds import EventKind
from parallax.guard.timekeeper import _words
from parallax.guard.words import SAID
from parallax.logs import FIELDS, configure_logging
from parallax.shell import Shell
from tests.builders.absences import absence, late

PACKAGE = Path(parallax.__file__).parent
LEVELS = ("info", "warning", "error", "exception", "critical")
OF_STRUCTLOG = {"exc_info"}


class Event:
    """One call of a log.

    Args:
        file: where it is.
        tree: of the file.
        call: it.
    """

    def __init__(self, file: Path, tree: ast.Module, call: ast.Call) -> None:
        self.place = f"{file.relative_to(PACKAGE)}:{call.lineno}"
        self.level = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        self._tree = tree
        self.text = self._texts(call.args[0]) if call.args else ""
        self.fields: set[str] = set()
        for keyword in call.keywords:
            self.fields |= {keyword.arg} if keyword.arg else self._keys(keyword.value)

    def _texts(self, node: ast.expr) -> str:
        """All texts that an event may have; empty where it is made elsewhere."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.Name):
            made = [one.value for one in ast.walk(self._tree) if isinstance(one, ast.Assign) and names(one, node.id)]
            return "".join(one.value for one in made if isinstance(one, ast.Constant) and isinstance(one.value, str))
        return ""

    def _keys(self, node: ast.expr) -> set[str]:
        """The keys of all mappings that ``**node`` may be."""
        name = node.id if isinstance(node, ast.Name) else ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
        found = [
            made
            for one in ast.walk(self._tree)
            if (isinstance(one, ast.FunctionDef) and one.name == name)
            or (isinstance(one, ast.Assign | ast.AnnAssign) and names(one, name))
            for made in ast.walk(one)
            if isinstance(made, ast.Dict)
        ]
        assert found, f"{self.place}: nobody can see what fields **{ast.unparse(node)} has"
        keys = {key.value for made in found for key in made.keys if isinstance(key, ast.Constant)}
        nested = [value for made in found for key, value in zip(made.keys, made.values, strict=True) if key is None]
        return {str(key) for key in keys}.union(*(self._keys(value) for value in nested))


def names(one: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def is_of_a_log(call: ast.Call) -> bool:
    func = call.func
    if isinstance(func, ast.Call):  # getattr(log, level)(...)
        return isinstance(func.func, ast.Name) and func.func.id == "getattr" and ast.unparse(func.args[0]) == "log"
    if isinstance(func, ast.Name):
        return func.id == "say" and any(keyword.arg == "about" for keyword in call.keywords)
    if not isinstance(func, ast.Attribute) or func.attr not in LEVELS:
        return False
    return ast.unparse(func.value) == "log" or ast.unparse(func.value).startswith("structlog.get_logger(")


def events() -> Iterator[Event]:
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and is_of_a_log(node):
                yield Event(file, tree, node)


EVENTS = list(events())


def test_every_field_of_an_event_is_explained_and_no_other_is() -> None:
    assert len(EVENTS) > 70
    used = {field for event in EVENTS for field in event.fields}
    unknown = {event.place: left for event in EVENTS if (left := event.fields - FIELDS.keys() - OF_STRUCTLOG)}
    assert not unknown
    assert used - OF_STRUCTLOG == FIELDS.keys()


@pytest.mark.parametrize("event", [e for e in EVENTS if e.level in ("warning", "error")], ids=lambda e: e.place)
def test_what_is_a_warning_says_what_it_means_or_what_to_do(event: Event) -> None:
    says_more = {"what", "why"} & event.fields or not event.text or any(sign in event.text for sign in (";", ":"))
    assert says_more, f"{event.place}: {event.text!r} is for its author alone"


def test_a_time_in_a_field_has_its_unit() -> None:
    for name in FIELDS:
        assert not name.endswith(("_ms", "_us")), name
        if name.endswith(("_s", "_h")):
            assert FIELDS[name].startswith(("seconds", "hours"))


def test_no_event_has_a_field_of_which_nothing_is_known() -> None:
    settings, stream = structlog.get_config(), io.StringIO()
    configure_logging(stream)
    try:
        structlog.get_logger("x").warning("it happened", broker=0, why=None, what="", brokers=[], settings={})
    finally:
        structlog.configure(**settings)
    said = json.loads(stream.getvalue())
    assert said.keys() == {"event", "level", "timestamp", "broker"}


def test_replicas_that_were_back_too_late_are_told_of_with_the_command_that_says_more() -> None:
    shell = Shell(config="/etc/parallax.yaml")
    said = _words([late(absence(2))], shell)
    assert (said["kept_until"], said["topics"]) == ("1970-01-01 00:01:05 UTC", "orders")
    assert said["what"].endswith(": parallax audit --topic orders --partition 0 -c /etc/parallax.yaml")
    others = [late(absence(2, partition=n)) for n in range(3)]
    assert _words(others, shell)["what"].endswith(": parallax audit --topic orders -c /etc/parallax.yaml")
    many = [late(absence(2, topic=f"t{n}")) for n in range(4)]
    assert _words(many, shell)["what"].endswith(": parallax audit -c /etc/parallax.yaml")
    unclear = absence(2, retention_ms=None, bound_ms=None, unclear=Unclear.SETTINGS)
    assert _words([late(unclear)], shell)["why"] == "the settings of the topic cannot be read"


def test_what_became_of_records_that_were_asked_for_again_is_a_sentence() -> None:
    checked = Checked()
    checked.counts.update({Spot.ABORTED: 1_200, Spot.GONE: 3, Spot.UNKNOWN: 2})
    assert checked.in_words() == (
        "of the records that were read as aborted, 1,200 are aborted still, as they should be, 3 are no longer in the "
        "log (cleaned, deleted or truncated), which is no fault, 2 could not be read; those are asked for again"
    )


def test_each_event_of_the_guard_has_its_words() -> None:
    assert SAID.keys() == set(EventKind)
