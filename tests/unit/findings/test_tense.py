"""What is over is told in the past tense, whatever verdict has ended it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from parallax.findings import decide
from parallax.findings.tense import PAST, in_past

_NOUNS = {"brokers", "consumers", "logs", "markers", "others", "producers", "records", "replicas", "values"}
_NO_VERBS = _NOUNS | {"alone", "as", "its", "less", "this", "was", "lists", "nothing"}
"""Words of the reasons that end as verbs of the third person do, and are none, or are nouns there."""


def texts() -> Iterator[str]:
    """The texts of the package that makes the reasons of verdicts, without its docstrings."""
    for file in Path(decide.__file__).parent.glob("*.py"):
        tree = ast.parse(file.read_text())
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                yield node.value


@pytest.mark.parametrize(
    ("reason", "past"),
    [
        ("broker 2 shows no live value of the key", "broker 2 showed no live value of the key"),
        ("broker 2 does not hold it any more", "broker 2 did not hold it any more"),
        ("broker 2 has not caught up with 3 yet", "broker 2 had not caught up with 3 yet"),
        ("the last stable offset stands there; it may hold it", "the last stable offset stood there; it may hold it"),
        ("its end marker was cleaned", "its end marker was cleaned"),
        ("none of them can show it, and one might lack it", "none of them could show it, and one might lack it"),
        ("it cannot show what it must hold", "it could not show what it must hold"),
        ("the topic shows does not exist any more", "the topic shows did not exist any more"),
        ("the topic has was deleted and re-created", "the topic has was deleted and re-created"),
        ("broker 2 holds no replica of it.is-now-0 any more", "broker 2 held no replica of it.is-now-0 any more"),
    ],
)
def test_a_reason_is_told_in_the_past(reason: str, past: str) -> None:
    assert in_past(reason) == past


def test_every_verb_of_the_reasons_has_its_past() -> None:
    """A new verb of a reason has to be given its past tense, or be named here as none."""
    words = {word for text in texts() if " " in text for word in re.findall(r"\b[a-z]+s\b", text)}
    assert words, "the texts are found"
    assert words - PAST.keys() - _NO_VERBS == set()


def test_a_verb_behind_another_keeps_its_form() -> None:
    inflected = "|".join(sorted({word for word in PAST.values() if " " not in word} - {"could", "did", "then"}))
    wrong = re.compile(rf"\b(can|could|may|might|must|shall|should|will|would|to|did) ({inflected})\b")
    assert [told for text in texts() if wrong.search(told := in_past(text))] == []


def test_no_reason_keeps_a_verb_in_the_present() -> None:
    present = re.compile(r"(?<!not )(?<!never )(?<!to )(?<!may )\b(shows?|holds?|is|are|has|begins?|stands?)\b")
    assert [text for text in texts() if " " in text and present.search(in_past(text))] == []
