"""The documents keep step with the code."""

import ast
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from parallax.audit.ledger import SETTLED_BY
from parallax.config import Settings
from parallax.model import UnknownReason
from parallax.shipped import Choices, write_out
from tests.versions import FOUND, READ

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "streaming" / "parallax"
PARTS = {"tests", "parallax", *(path.stem for path in PACKAGE.iterdir())}
SECTIONS = {n: getattr(field.annotation, "model_fields", {}) for n, field in Settings.model_fields.items()}
SUFFIXES = (".py", ".md", ".toml", ".yaml")
CONTRIBUTE = sorted((ROOT / "docs" / "contribute").glob("*.md"))


def test_every_link_between_the_documents_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


FOR_USERS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "operate").glob("*.md")])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``parallax init`` has written."""
    folder = tmp_path_factory.mktemp("written")
    write_out(folder, Choices("a:9092", (), str(folder / "data")))
    return folder


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: page.name)
def test_a_path_that_a_page_for_users_names_is_written_by_init_or_said_to_be_of_the_checkout(
    page: Path, written: Path
) -> None:
    tops = "|".join(re.escape(one.name) for top in (ROOT, written) for one in top.iterdir() if one.is_dir())
    named = re.compile(rf"(?<![\w./-])(?:(?:{tops})/[\w./-]*\w|(?<=`)(?:{tops})/?(?=`))")
    for part in re.split(r"(?m)^#+ ", re.sub(r"\]\([^)]*\)|https?://\S+", "]", page.read_text())):
        for path in named.findall(part):
            if not (written / path).exists():
                assert (ROOT / path).exists(), f"{page.name} names {path}, which is nowhere"
                assert "checkout" in part, f"{page.name} names {path}, which init does not write"


def test_commands_of_a_written_page_are_those_of_the_page(written: Path) -> None:
    for page in (path for path in FOR_USERS if path.name != "README.md"):
        blocks = [
            re.findall(r"(?ms)^```.*?^```$", (top / page.relative_to(ROOT)).read_text()) for top in (ROOT, written)
        ]
        assert blocks[1] == [block.replace(".venv/bin/", "") for block in blocks[0]]


@pytest.mark.parametrize("page", ["contribute/theory.md", "runbook.md"])
def test_every_reason_for_having_no_verdict_is_explained(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert [reason for reason in UnknownReason if f"`{reason}`" not in text] == []


def test_the_runbook_says_which_audit_ends_what_is_unknown() -> None:
    text = " ".join((ROOT / "docs" / "runbook.md").read_text().replace("`", "").split())
    assert text.count(SETTLED_BY) == 1, "it has a section of its own, to which others link"
    assert text.count("(#what-ends-what-is-unknown)") == 2, "ParallaxCoverageUnknown and ParallaxReplicaOutage"


@pytest.mark.parametrize("page", CONTRIBUTE, ids=lambda page: page.name)
def test_every_test_that_a_page_for_contributors_names_exists(page: Path) -> None:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    functions = {name for path in files for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE)}
    for folder, file, test in re.findall(r"`([\w/]*/)?(test_\w+\.py)(?:::(test_\w+))?`", page.read_text()):
        named = f"/{folder}{file}"
        (one,) = (path for path in files if f"/{path.relative_to(ROOT).as_posix()}".endswith(named))
        assert not test or f"def {test}(" in one.read_text(), f"{named} has no {test}"
    assert set(re.findall(r"`(test_\w+)`", page.read_text())) <= functions


@pytest.mark.parametrize("page", CONTRIBUTE, ids=lambda page: page.name)
def test_every_name_of_the_code_in_a_page_for_contributors_exists(page: Path) -> None:
    settings = {f"{name}.{field}" for name, section in SECTIONS.items() for field in section}
    for name in re.findall(r"`(?!test_)((?:[a-z_]\w*\.)+\w+)`", page.read_text()):
        if name.endswith(SUFFIXES):
            assert any((folder / name).exists() for folder in (ROOT, PACKAGE)), f"{page.name} names {name}"
        elif name.split(".")[0] in PARTS and name not in settings:
            assert is_in_the_code(name.removeprefix("parallax.")), f"{page.name} names {name}"
    for name in re.findall(r"`((?:[a-z_]\w*/)+(?:(?!test_)\w+\.\w+)?)`", page.read_text()):
        assert any((folder / name).exists() for folder in (ROOT, PACKAGE, ROOT / "tests")), f"{page.name} names {name}"


def is_in_the_code(name: str) -> bool:
    """Whether a dotted name is a module below the package or the tests, or something that one defines."""
    *folders, last = name.split(".")
    for top in (ROOT, PACKAGE):
        for parts, defined in ((name.split("."), []), (folders, [last]), (folders[:-1], [*folders[-1:], last])):
            module = top.joinpath(*parts)
            file = module.with_suffix(".py") if parts and module.with_suffix(".py").exists() else module / "__init__.py"
            if file.exists() and defines(ast.parse(file.read_text()).body, defined):
                return True
    return False


def defines(body: Sequence[ast.stmt], names: Sequence[str]) -> bool:
    """Whether the code has a function, class or variable of a name, and that one of the next, to the last."""
    if not names:
        return True
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.ClassDef) and one.name == names[0]:
            return defines(one.body, names[1:])
        targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
        if len(names) == 1 and any(isinstance(target, ast.Name) and target.id == names[0] for target in targets):
            return True
    return False


def test_the_page_on_what_is_proven_counts_the_histories_that_still_break_a_promise() -> None:
    known = tomllib.loads((ROOT / "tests" / "simulation" / "open_seeds.toml").read_text())["open"]
    page = (ROOT / "docs" / "contribute" / "proven.md").read_text()
    assert sum(map(int, re.findall(r"(\d+) open \|", page))) == len(known)
    counted = "1 history" if len(known) == 1 else f"{len(known)} histories"
    assert f"`simulation/test_open_seeds.py` | {counted} |" in page


def test_the_page_on_installing_has_each_version_that_is_tried_and_no_other() -> None:
    page = (ROOT / "docs" / "operate" / "install.md").read_text()
    rows = re.findall(r"^\| (\d+\.\d+\.\d+) \| (\w+) \| (\w+)", page, re.MULTILINE)
    wanted = [*((version, "yes", "not") for version in READ), *((version, "yes", "yes") for version in FOUND)]
    assert rows == sorted(wanted)


def test_what_the_steps_name_in_a_file_is_in_that_file() -> None:
    tops = (ROOT, PACKAGE, ROOT / "tests", ROOT / "tests" / "unit")
    rows = re.findall(r"(?m)^\| [^|]+ \| (.+) \|$", (ROOT / "docs" / "contribute" / "adding.md").read_text())
    held = 0
    for cell in rows:
        for names, file in re.findall(r"((?:`\w+(?:\.\w+)?`,? )+)in `([\w/]+(?:\.py|/))`", cell):
            where = [top / file for top in tops if (top / file).exists()]
            texts = [path.read_text() for one in where for path in ([one] if one.is_file() else one.glob("*.py"))]
            for name in re.findall(r"`(\w+)(?:\.(\w+))?`", names):
                defined = [rf"(?m)^ *(?:class |def )?{part}\b(?:[:(\[]| =)" for part in name if part]
                assert any(all(re.search(one, text) for one in defined) for text in texts), f"{file} has no {name}"
                held += 1
    assert held > 15
