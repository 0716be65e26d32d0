"""The documents keep step with the code."""

import ast
import re
from pathlib import Path

import pytest

from parallax.audit.ledger import SETTLED_BY
from parallax.model import UnknownReason
from tests.scripts import script_of
from tests.versions import FOUND, READ

ROOT = Path(__file__).parents[2]


def test_the_map_of_the_files_names_every_module_and_what_it_is_for() -> None:
    document = (ROOT / "docs" / "design.md").read_text()
    assert script_of("file_map").renewed(document) == document, "run: make map"


def test_every_link_between_the_documents_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", ["theory.md", "runbook.md"])
def test_every_reason_for_having_no_verdict_is_explained(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert [reason for reason in UnknownReason if f"`{reason}`" not in text] == []


def test_the_runbook_says_which_audit_ends_what_is_unknown() -> None:
    text = " ".join((ROOT / "docs" / "runbook.md").read_text().replace("`", "").split())
    assert text.count(SETTLED_BY) == 1, "it has a section of its own, to which others link"
    assert text.count("(#what-ends-what-is-unknown)") == 2, "ParallaxCoverageUnknown and ParallaxReplicaOutage"


def test_every_test_that_the_page_on_reliability_names_exists() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    named = re.findall(r"`(?:tests/)?([\w/]*test_\w+\.py)(?:::(test_\w+))?`", page)
    assert named
    for file, test in named:
        paths = [path for path in (ROOT / "tests").rglob("test_*.py") if f"/{path.as_posix()}".endswith(f"/{file}")]
        assert len(paths) == 1, f"{file} is not one file"
        nodes = ast.walk(ast.parse(paths[0].read_text()))
        functions = {f.name for f in nodes if isinstance(f, ast.FunctionDef)}
        assert not test or test in functions, f"{file} has no {test}"


def test_the_page_on_installing_has_each_version_that_is_tried_and_no_other() -> None:
    page = (ROOT / "docs" / "operate" / "install.md").read_text()
    rows = re.findall(r"^\| (\d+\.\d+\.\d+) \| (\w+) \| (\w+)", page, re.MULTILINE)
    wanted = [*((version, "yes", "not") for version in READ), *((version, "yes", "yes") for version in FOUND)]
    assert rows == sorted(wanted)
