"""The generated reference says what the code does, of everything."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from parallax.config import Settings, WebhookSettings
from parallax.findings.table import SCHEMA
from tests.scripts import script_of

ROOT = Path(__file__).parents[3]
reference = script_of("reference")


def test_every_page_of_the_reference_is_what_the_code_says() -> None:
    assert reference.differing() == [], "run: make reference"


def test_a_page_that_was_edited_by_hand_is_named(tmp_path: Path) -> None:
    for path in reference.PAGES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((ROOT / path).read_text())
    (tmp_path / "docs/reference/logs.md").write_text("# Log fields\n")
    (tmp_path / "docs/reference/kinds.md").unlink()
    assert reference.differing(tmp_path) == ["docs/reference/kinds.md", "docs/reference/logs.md"]


@pytest.mark.parametrize(("name", "section"), [*reference.sections(), ("webhooks", WebhookSettings)])
def test_every_setting_says_what_it_does_in_sentences(name: str, section: type[BaseModel]) -> None:
    said = {setting: field.description or "" for setting, field in section.model_fields.items()}
    assert [f"{name}.{setting}" for setting, text in said.items() if not text.endswith((".", "..."))] == []
    assert [f"{name}.{setting}" for setting, text in said.items() if text[:1].islower() and ":" not in text] == []


@pytest.mark.parametrize(
    ("place", "value", "default"),
    [
        ("read.trigger_ms", "whole number, ms, at least 0", "1000"),
        ("read.fetch", "`separate` or `shared`", "separate"),
        ("read.hash_key", "text, secret", "null"),
        ("storage.retention_hours", "number, h, over 0", "168"),
        ("guard.min_free_percent", "number, %, at least 0, at most 100", "15"),
        ("guard.mode", "`off`, `advise` or `act`", "off"),
        ("audit.max_bytes_per_second", "whole number, bytes/s, at least 0", "10485760"),
        ("alerting.users", "mapping", "{}"),
        ("alerting.cluster", "text", '""'),
    ],
)
def test_a_setting_is_shown_with_type_unit_bounds_and_default(place: str, value: str, default: str) -> None:
    section, name = place.split(".")
    field = dict(reference.sections())[section].model_fields[name]
    assert (reference.kind_of(name, field), reference.default_of(field)) == (value, default)


def test_every_section_of_the_settings_is_in_the_reference() -> None:
    assert {name for name, _ in reference.sections()} | {"kafka", "kafka_files"} == set(Settings.model_fields)


def test_a_table_is_shown_with_each_of_its_columns() -> None:
    page = reference.tables_page().split("## findings\n")[1].split("\n## ")[0]
    shown = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert shown == SCHEMA.names


def test_every_command_is_shown_with_its_options() -> None:
    page = reference.commands_page()
    assert "## parallax repair plan\n" in page
    assert "| `-c, --config` | required |" in page
    assert "## parallax storage\n" not in page, "a group that does nothing by itself is no command"
