"""The generated reference says what the code does, of everything."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from parallax.config import Settings, WebhookSettings, load
from parallax.findings.table import SCHEMA
from parallax.replica.options import OPTIONS
from parallax.shipped import Choices, configuration
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


def uncommented(text: str, wanted: str = "") -> str:
    """Settings with the sample of one setting uncommented, named as ``section.name``; by default, of each."""
    made, section, is_wanted = [], "", False
    known = {name: set(fields.model_fields) for name, fields in reference.sections()} | {"kafka": set(OPTIONS)}
    for line in text.splitlines():
        section = line[:-1] if re.fullmatch(r"\w+:", line) else section
        found = re.fullmatch(r"  # ([\w.]+):( .*)?", line)
        is_setting = found is not None and found[1] in known.get(section, ())
        is_wanted = (
            wanted in ("", f"{section}.{found[1]}") if is_setting and found else is_wanted and line[:5] == "  #  "
        )
        made.append(line.replace("# ", "", 1) if is_wanted else line)
    return "\n".join(made)


def samples(text: str) -> list[str]:
    sections = [*((name, fields.model_fields) for name, fields in reference.sections()), ("kafka", OPTIONS)]
    return [f"{name}.{field}" for name, fields in sections for field in fields if f"\n  # {field}:" in text]


CONFIGURATIONS = {
    "reference": (ROOT / "conf" / "parallax.yaml").read_text(),
    "init": configuration(Choices("a:1", (), "data")),
}


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_sample_of_a_setting_can_be_uncommented_as_it_stands_alone_and_with_all_others(
    text: str, tmp_path: Path
) -> None:
    found = samples(text)
    assert len(found) > 60
    assert {"alerting.webhooks", "spark.conf", "kafka.sasl.mechanism"} <= set(found)
    for wanted in (*found, ""):
        (tmp_path / "parallax.yaml").write_text(uncommented(text, wanted))
        assert (tmp_path / "parallax.yaml").read_text() != text.rstrip("\n")
        settings = load(tmp_path / "parallax.yaml")
    assert settings.alerting.webhooks[0].name == "on-call", "a sample shows a value, and not only its place"
    assert settings.spark.conf


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
