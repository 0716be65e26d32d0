"""The documents' prose is within its bounds, and each bound is seen to bind."""

from pathlib import Path

import pytest

from tests.scripts import script_of

ROOT = Path(__file__).parents[3]
prose = script_of("prose")
TEXTS = prose.documents()
SHORT = "Parallax reads every replica. "


@pytest.mark.parametrize("page", TEXTS)
def test_a_page_is_within_the_bounds(page: str) -> None:
    assert [*prose.faults(page, TEXTS[page]), *prose.too_long(page, TEXTS[page])] == []


def test_docstrings_are_within_the_bounds() -> None:
    said = dict(prose.docstrings())
    assert len(said) > 4500
    assert [line for place, text in said.items() for line in prose.faults(place, text)] == []


def test_the_pages_are_within_their_budgets_of_lines() -> None:
    assert prose.over_budget(TEXTS) == []


def test_all_documents_are_measured_and_generated_ones_in_sentences_alone() -> None:
    files = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    assert {file.relative_to(ROOT).as_posix() for file in files} <= set(TEXTS)
    page, text = "docs/reference/settings.md", "word " * 41 + "\n"
    assert len(prose.faults(page, text)) == 2
    assert prose.too_long(page, text) == []
    assert prose.over_budget({page: text * 3000}) == []


def test_a_sentence_ends_at_its_full_stop_and_a_code_span_is_one_word() -> None:
    (one,) = prose.passages(
        "Run `parallax findings explain ID -c parallax.yaml` first. Then wait, e.g. for\na minute.\n"
    )
    assert prose.sentences(one.text) == [3, 6]


def test_a_long_sentence_is_found_in_a_paragraph_a_list_and_a_table_but_not_in_code() -> None:
    long = "word " * 41 + "end."
    text = f"{long}\n\n- {long}\n\n| a |\n|---|\n| {long} |\n\n```text\n{long}\n```\n"
    found = [line for line in prose.faults("a.md", text) if "a sentence of 42 words" in line]
    assert [line.split(":")[1] for line in found] == ["1", "3", "7"]


def test_the_median_of_a_page_counts_its_sentences_and_no_cells() -> None:
    long = "Every " + "word " * 18 + "counts. "
    cells = "| a |\n|---|\n" + "| b |\n" * 9
    assert prose.faults("a.md", long * 2 + SHORT + "\n\n" + cells) == [
        "a.md: the median sentence has 20 words (at most 18)"
    ]
    assert prose.faults("a.md", f"{long} {SHORT * 2}\n\n{cells}") == []


def test_a_paragraph_of_more_than_six_lines_is_found() -> None:
    (found,) = prose.faults("a.md", SHORT * 24)
    assert found == "a.md:1: a paragraph of 719 characters (at most 660)"


def test_a_forbidden_word_is_found_with_what_to_write_wherever_prose_is() -> None:
    found = prose.faults("a.md", "It is told at once.\n\n# A log that stands\n\n`told` is code. Nor has it ended.\n")
    assert [line.split("; ")[0] for line in found] == [
        'a.md:1: "told"',
        'a.md:1: "at once"',
        'a.md:3: "stands"',
        'a.md:5: "Nor has"',
    ]
    assert found[0].endswith("; write: said, reported, known")


def test_a_long_line_is_found_outside_tables_and_code() -> None:
    long = "word " * 23
    assert prose.too_long("a.md", f"{long}\n\n| {long} |\n|---|\n\n    {long}\n") == [
        "a.md:1: a line of 115 characters (at most 110)"
    ]


def test_a_long_line_counts_as_several_in_a_budget() -> None:
    text = "x" * 111 + "\n"
    assert prose.over_budget({"README.md": text * 50}) == []
    assert prose.over_budget({"README.md": text * 51}) == ["README.md: 102 lines (at most 100)"]


def test_a_docstring_is_measured_with_its_arguments_each_by_itself(tmp_path: Path) -> None:
    module = tmp_path / "streaming" / "a.py"
    module.parent.mkdir()
    module.write_text(
        'def shown(a: int) -> int:\n    """Say it.\n\n    Args:\n        a: one\n        b: two\n    """\n\n'
        'def _hidden() -> None:\n    """It is told."""\n\n'
        'class Log:\n    """A log."""\n\n    def ends(self) -> None:\n        """It is told at once."""\n'
    )
    said = dict(prose.docstrings(tmp_path))
    assert {place: len(prose.faults(place, text)) for place, text in said.items()} == {
        "streaming/a.py:1": 0,
        "streaming/a.py:12": 0,
        "streaming/a.py:15": 2,
    }
    assert [p.text for p in prose.passages(said["streaming/a.py:1"])] == ["Say it.", "a: one", "b: two"]


def test_a_docstring_below_a_constant_or_an_attribute_is_measured_whatever_its_name(tmp_path: Path) -> None:
    module = tmp_path / "scripts" / "a.py"
    module.parent.mkdir()
    module.write_text(
        '_MOST: int = 3\n"""It is told."""\n\n"""It is told, below nothing."""\n\n'
        'class Log:\n    end = 1\n    """Of it:\n\n    1: it is told.\n    """\n'
    )
    said = dict(prose.docstrings(tmp_path))
    assert {place: len(prose.faults(place, text)) for place, text in said.items()} == {
        "scripts/a.py:2": 1,
        "scripts/a.py:8": 1,
    }


@pytest.mark.parametrize(
    "text",
    [
        "!!! note\n    It is told.\n\n    It is told.\n",
        '??? tip "Why"\n    It is told.\n',
        "<div>\nIt is <b>told</b>.\n</div>\n",
        "## It is told\n",
        "![It is told](a.png)\n",
        "It is heeded.\n",
        "It stood there.\n",
        "It cuts them off.\n",
    ],
    ids=["admonition", "folded one", "HTML", "heading", "picture", "heeded", "stood", "cuts them off"],
)
def test_a_forbidden_word_is_found_in_each_form_and_wherever_people_read(text: str) -> None:
    assert prose.faults("a.md", text)


def test_comments_and_indented_code_are_no_prose() -> None:
    assert prose.faults("a.md", "<!-- not run: it is told -->\n\nSo:\n\n    it is told\n") == []


def test_a_paragraph_of_many_short_lines_is_found() -> None:
    assert prose.faults("a.md", "Short.\n" * 6) == []
    assert prose.faults("a.md", "Short.\n" * 7) == ["a.md:1: a paragraph of 7 lines (at most 6)"]


def test_text_that_is_indented_deeper_in_a_docstring_is_prose_and_async_functions_have_some(tmp_path: Path) -> None:
    module = tmp_path / "dashboards" / "a.py"
    module.parent.mkdir()
    module.write_text(
        'async def shown(a: int) -> int:\n    """Say it.\n\n    Args:\n        a: one.\n\n'
        '            It is told.\n    """\n'
    )
    ((place, text),) = prose.docstrings(tmp_path)
    assert place == "dashboards/a.py:1"
    assert len(prose.faults(place, text)) == 1


def test_a_parameter_of_a_type_that_says_little_is_named_in_the_docstring(tmp_path: Path) -> None:
    module = tmp_path / "streaming" / "a.py"
    module.parent.mkdir()
    module.write_text(
        'def one(bound_at: int, offsets: tuple[int, ...], log: Log) -> int:\n    """What lies below."""\n\n'
        'def two(bound_at: int, offsets: tuple[int, ...]) -> int:\n    """Offsets below, and the bound at that."""\n\n'
        'def three(*, bound_at: float | None) -> int:\n    """Where.\n\n    Args:\n        bound_at: when.\n    """\n\n'
        'def _four(bound_at: int) -> int:\n    """Not public."""\n\n'
        'class Log:\n    """A log."""\n\n    async def five(self, end: str) -> None:\n        """Close it."""\n'
    )
    assert set(prose.unnamed(tmp_path)) == {
        "streaming/a.py:1: does not say what bound_at, offsets is",
        "streaming/a.py:20: does not say what end is",
    }


def test_what_a_docstring_returns_is_one_text_however_it_is_wrapped(tmp_path: Path) -> None:
    module = tmp_path / "streaming" / "a.py"
    module.parent.mkdir()
    lines = "\n".join(["        and so it goes on and on with many words"] * 5)
    module.write_text(f'def one() -> int:\n    """Say it.\n\n    Returns:\n{lines}.\n    """\n')
    ((place, text),) = prose.docstrings(tmp_path)
    assert any("a sentence of 50 words" in fault for fault in prose.faults(place, text))
