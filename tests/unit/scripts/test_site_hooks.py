"""The documents build as a site: strict, and with everything that it needs in it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from parallax.shipped import REPOSITORY, linked
from tests.scripts import script_of

ROOT = Path(__file__).parents[3]
HOOKS = script_of("site_hooks")


def build(folder: Path, *, to: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(folder / "mkdocs.yml"), "-d", str(to)]
    known = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=known, capture_output=True, text=True, check=False)


def test_the_site_builds_without_a_warning_and_asks_no_other_host(tmp_path: Path) -> None:
    built = build(ROOT, to=tmp_path)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = [page.read_text() for page in tmp_path.rglob("*.html")]
    assert len(pages) > 20
    assert [found for page in pages for found in re.findall(r'(?:src|<link[^>]* href)="(https?://[^"]+)', page)] == []


def test_a_page_that_is_missing_or_that_nothing_leads_to_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Start\n\n[gone](gone.md) and [there](#nowhere)\n")
    (tmp_path / "docs" / "stray.md").write_text("# Stray\n")
    settings = re.sub(r"\nnav:[\s\S]*", "\nnav:\n  - index.md\n", (ROOT / "mkdocs.yml").read_text())
    (tmp_path / "mkdocs.yml").write_text(settings.replace("scripts/", f"{ROOT}/scripts/"))
    built = build(tmp_path, to=tmp_path / "site")
    assert built.returncode == 1
    for wrong in ("stray.md", "gone.md", "#nowhere"):
        assert wrong in built.stderr


def test_make_lint_does_not_silence_the_warnings_that_strict_goes_by() -> None:
    (command,) = re.findall(r"^SITE := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert command.endswith("mkdocs build --strict"), "with --quiet, mkdocs counts no warning"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("Two ways:\n- one\n- two\n", "put an empty line before the list that follows 'Two ways:'"),
        ("Two ways:\n\n- one\n- two\n", ""),
        ("1. one\n2. two\n", ""),
        ("```text\nTwo ways:\n- one\n```\n", ""),
    ],
)
def test_a_list_that_a_browser_would_show_as_text_is_a_warning(
    text: str, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    HOOKS.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri="operate/page.md")))
    assert caplog.messages == ([f"docs/operate/page.md: {warning}"] if warning else [])


@pytest.mark.parametrize(
    "html", ['<script src="https://cdn.example.org/x.js">', "<img src=//h/x.png>", '<link rel="a" href="http://h/x">']
)
def test_what_a_browser_would_fetch_from_elsewhere_is_a_warning(html: str, caplog: pytest.LogCaptureFixture) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    HOOKS.on_post_page(f"<html>{html}<a href='https://kafka.apache.org'>a link</a></html>", page)
    assert len(caplog.messages) == 1


def test_a_link_out_of_the_documents_leads_into_the_repository() -> None:
    text = "[a](../../deploy/helm/parallax) [b](../runbook.md#x) [c](#here) [d](https://e.org) [e](page.md)"
    assert linked(text, "docs/operate/install.md") == text.replace("../../deploy", f"{REPOSITORY}/deploy")


def test_every_page_has_a_place_in_the_navigation() -> None:
    text = re.sub(r"!!python\S+", "", (ROOT / "mkdocs.yml").read_text())
    named = set(re.findall(r"[\w/]+\.md", yaml.safe_dump(yaml.safe_load(text)["nav"])))
    assert named == {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
