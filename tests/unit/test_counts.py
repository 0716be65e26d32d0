"""Texts that count say one thing in the singular."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import parallax
from parallax.audit.result import Compared
from parallax.counts import agreed, counted
from parallax.findings.members import MemberGroup
from parallax.findings.summary import incident
from parallax.kinds import KINDS
from parallax.model import FindingKind, FindingStatus, Rule, TopicPartition

_NOUNS = (
    "brokers|differences|findings|keys|logs|offsets|partitions|producers|records|replicas|suspects|topics|transactions"
)
_UNCOUNTED = re.compile(rf"^ (?:(?:more|open|of its|single|unproven) )?(?:{_NOUNS})\b")
_NOT_ONE = {
    "demo.py": "a fixed number of topics; the producer by name",
    "alerting/page/glance.py": "beyond a bound of many",
    "alerting/status.py": "beyond a bound of many",
    "audit/progress.py": "so many of all",
    "check.py": "two replicas or more",
    "lab/cluster.py": "three brokers",
    "lab/scenarios/conductor.py": "a list of topics; the producer by name",
    "lab/admin.py": "what is asked for",
    "kinds.py": "by format, with its noun",
}
"""Files whose texts name a number of things that is never one, and why."""


def test_a_number_comes_with_its_noun() -> None:
    assert [counted(n, "replica") for n in (0, 1, 2_000)] == ["0 replicas", "1 replica", "2,000 replicas"]
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
    assert [agreed(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"]


def uncounted() -> Iterator[str]:
    """The places where a number stands before a noun in the plural, whatever the number is."""
    root = Path(parallax.__file__).parent
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for number, text in pairwise(parts):
                is_pair = isinstance(number, ast.FormattedValue) and isinstance(text, ast.Constant)
                if is_pair and _UNCOUNTED.match(str(text.value)):
                    yield f"{file.relative_to(root)}: {ast.unparse(number)}{text.value}"


def test_no_text_puts_a_number_before_a_plural_by_itself() -> None:
    found = [one for one in uncounted() if one.split(":")[0] not in _NOT_ONE]
    assert found == [], "use parallax.counts.counted"


def test_an_audit_speaks_of_one_offset_record_or_difference() -> None:
    one = Compared(
        deferred=1, skipped=1, missing_head=1, retained_unlike=1, undecided=1, waiting=1, disputes=(5,), unlike=(5,)
    )
    said = one.reasons()
    assert len(said) == 8
    assert [text for text in said if re.search(r"\b1 \w+s\b|\b1 \w+ (have|are|were)\b", text)] == []


@pytest.mark.parametrize("status", [FindingStatus.CONFIRMED, FindingStatus.UNSETTLED])
@pytest.mark.parametrize("kind", [kind for kind, known in KINDS.items() if known.many])
def test_an_incident_of_which_one_is_left_speaks_of_one(kind: FindingKind, status: FindingStatus) -> None:
    for rule in (Rule.LATEST_VALUE, Rule.OUTCOME):
        group = MemberGroup(TopicPartition("orders", 0), 2, kind, rule)
        said = incident(group, 1, (5, 5), 1, status, is_exposed=False)
        assert not re.search(r"\b1 (keys|transactions|more are)\b", said)
