"""Every kind of finding has all that is needed of it, in one table."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path
from types import NoneType

import pytest

import parallax
from parallax import kinds
from parallax.kinds import KEY_KINDS, KINDS, TRANSACTION_KINDS, Clears, Family, Variant, effect_of, kinds_of, refines
from parallax.model import FindingKind, Rule, Severity

ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
FIELDS = {"broker", "partition", "others", "sides", "offset", "marker", "producer_id", "start", "lso", "shown"}


def section(anchor: str) -> str:
    """What stands under the heading of an anchor, up to the next one; fails where there is none or more than one."""
    parts = re.split(r"^#+ (.*)$", RUNBOOK, flags=re.MULTILINE)[1:]
    (text,) = (body for title, body in zip(parts[::2], parts[1::2], strict=True) if slug(title) == anchor)
    return text


def slug(title: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("kind", list(FindingKind))
class TestEachKind:
    def test_breaks_an_invariant_and_has_a_family_and_a_severity(self, kind: FindingKind) -> None:
        row = KINDS[kind]
        assert isinstance(row.rule, Rule)
        assert isinstance(row.family, Family)
        assert isinstance(row.severity, Severity)
        assert row.rank >= 0

    def test_has_words_of_which_each_field_is_known(self, kind: FindingKind) -> None:
        row = KINDS[kind]
        fields = {name for _, name, _, _ in string.Formatter().parse(row.shows) if name}
        assert "partition" in fields <= FIELDS
        assert fields & {"broker", "sides"}
        assert row.shows.endswith(".")
        assert row.consumers
        assert not row.consumers.endswith(".")

    def test_says_whom_its_proof_clears_and_nobody_without_direction(self, kind: FindingKind) -> None:
        assert isinstance(KINDS[kind].clears, Clears)
        if kind is FindingKind.VISIBILITY_MISMATCH:
            assert KINDS[kind].clears is Clears.NOBODY

    def test_is_explained_in_the_section_of_the_runbook_that_it_names(self, kind: FindingKind) -> None:
        assert f"`{kind}`" in section(KINDS[kind].runbook)


def test_every_kind_is_in_one_family() -> None:
    assert sum(len(kinds_of(family)) for family in Family) == len(FindingKind)
    assert kinds_of(Family.TRANSACTION) == TRANSACTION_KINDS
    assert kinds_of(Family.KEY) == KEY_KINDS


def test_only_a_marker_that_is_missing_pages_nobody() -> None:
    # Its alert has that name: parallax.alerting.listing.ALARMS.
    assert [k for k, row in KINDS.items() if row.severity is Severity.WARNING] == [FindingKind.MARKER_MISSING]


def test_a_wrong_outcome_says_more_than_a_missing_marker() -> None:
    assert refines(FindingKind.READ_COMMITTED_FROZEN, FindingKind.MARKER_MISSING)
    assert refines(FindingKind.COMMITTED_RECORD_ABORTED, FindingKind.READ_COMMITTED_FROZEN)
    assert not refines(FindingKind.MARKER_MISSING, FindingKind.ABORTED_RECORD_COMMITTED)


def test_a_difference_with_a_direction_says_more_than_one_without() -> None:
    for kind in KEY_KINDS - {FindingKind.VISIBILITY_MISMATCH}:
        assert refines(kind, FindingKind.VISIBILITY_MISMATCH)
        assert not refines(FindingKind.VISIBILITY_MISMATCH, kind)


@pytest.mark.parametrize("kind", FindingKind)
@pytest.mark.parametrize("variant", Variant)
def test_the_words_on_what_a_finding_means_have_only_fields_that_are_known(kind: FindingKind, variant: Variant) -> None:
    said = effect_of(kind, variant)
    for text in (said.shows, said.headline):
        assert {name for _, name, _, _ in string.Formatter().parse(text) if name} <= FIELDS
    assert said.consumers
    # It is said as well where every replica shows what is wrong.
    assert "another" not in said.consumers


@pytest.mark.parametrize("folder", ["streaming/parallax/alerting", "dashboards"])
def test_alerts_page_and_messages_name_no_kind(folder: str) -> None:
    assert [path.name for path in (ROOT / folder).rglob("*.py") if "FindingKind." in path.read_text()] == []


def test_sets_and_other_names_of_kinds_are_in_one_module() -> None:
    package = ROOT / "streaming" / "parallax"
    for path in sorted(package.rglob("*.py")):
        if path != package / "kinds.py":
            body = ast.parse(path.read_text()).body
            values = [one.value for one in body if isinstance(one, ast.Assign | ast.AnnAssign)]
            # A table by kind names its kinds where each is used.
            named = [
                one for one in values if not isinstance(one, ast.Dict | NoneType) and "FindingKind." in ast.unparse(one)
            ]
            assert named == [], f"{path.name}:{named[0].lineno}"


def test_no_set_of_kinds_lists_kinds() -> None:
    after_table = Path(kinds.__file__).read_text().rpartition("\nTRANSACTION_KINDS = ")[2]
    assert "FindingKind." not in after_table


MOST_FUNCTIONS, MOST_FILES = 25, 19
"""In how many functions and files a kind, or a set that it alone is in, may be named."""


def places_of(kind: FindingKind) -> list[str]:
    """Where the program names a kind, or a set that it alone is in: ``FILE:FUNCTION``, or ``FILE:`` outside of them."""
    root = Path(parallax.__file__).parent
    names = {kind.name, *(name for name, value in vars(kinds).items() if value == frozenset({kind}))}
    found = set()
    for file in root.rglob("*.py"):
        tree = ast.parse(file.read_text())
        inside = {
            part: each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) for part in ast.walk(each)
        }
        for part in ast.walk(tree):
            named = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
            if named in names:
                found.add(f"{file.relative_to(root)}:{inside.get(part, '')}")
    return sorted(found)


def test_a_deleted_record_that_is_back_is_named_in_few_places() -> None:
    places = places_of(FindingKind.DELETED_RECORD_RESURRECTED)
    print("\n".join(places))
    assert "compare/rules/latest.py:judge" in places
    assert "findings/decide/values.py:_resurrected" in places
    assert len(places) <= MOST_FUNCTIONS
    assert len({place.partition(":")[0] for place in places}) <= MOST_FILES
