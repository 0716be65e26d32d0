"""The settings file: what is accepted, and what the one line says where it is not."""

from pathlib import Path

import pytest
import yaml

from parallax.config import ConfigError, Settings, load, validate

REFERENCE = Path(__file__).parents[2] / "conf" / "parallax.yaml"
MINIMAL = {"kafka": {"bootstrap.servers": "h:1"}, "topics": {"include": ["a"]}, "storage": {"path": "x"}}


def test_the_reference_file_is_valid_and_its_comments_show_the_defaults(tmp_path: Path) -> None:
    written = load(REFERENCE)
    uncommented = []
    for line in REFERENCE.read_text().splitlines():
        stripped = line.strip()
        is_default = stripped.startswith("# ") and stripped[2:].split(":")[0] in _default_names(written)
        uncommented.append(line.replace("# ", "", 1) if is_default else line)
    full = tmp_path / "full.yaml"
    full.write_text("\n".join(uncommented))
    assert load(full) == written


def _default_names(settings: Settings) -> set[str]:
    sections = ("read", "compare", "findings", "audit", "alerting", "supervisor")
    names = {name for section in sections for name in type(getattr(settings, section)).model_fields}
    return names | {"retention_hours", "maintenance_interval_s", "master", "driver_memory", "driver_java_options"}


def test_the_reference_file_names_every_setting() -> None:
    text = REFERENCE.read_text()
    for section in Settings.model_fields:
        assert f"\n{section}:" in text
        for name in getattr(Settings.model_fields[section].annotation, "model_fields", {}):
            assert f" {name}:" in text, f"{section}.{name}"


def test_an_unknown_setting_is_named_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"^settings: storage\.pth: unknown setting; remove it or correct its name$"):
        validate({**MINIMAL, "storage": {"path": "x", "pth": 1}})


def test_every_wrong_setting_stands_in_one_line() -> None:
    with pytest.raises(ConfigError) as caught:
        validate({**MINIMAL, "read": {"grouping": "some", "trigger_ms": "soon"}, "extra": {}})
    text = str(caught.value)
    assert "\n" not in text
    for option in ("read.grouping", "read.trigger_ms", "extra"):
        assert option in text


def test_missing_bootstrap_servers_are_named() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        validate({**MINIMAL, "kafka": {"security.protocol": "PLAINTEXT"}})


def test_no_topic_at_all_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"topics\.include, or give topics\.pattern"):
        validate({**MINIMAL, "topics": {}})


def test_the_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump(MINIMAL))
    monkeypatch.setenv("PARALLAX_STORAGE__PATH", "/elsewhere")
    monkeypatch.setenv("PARALLAX_ALERTING__METRICS_PORT", "1234")
    settings = load(file)
    assert settings.storage.path == "/elsewhere"
    assert settings.alerting.metrics_port == 1234


def test_kafka_options_keep_their_spelling_and_become_text() -> None:
    settings = validate({**MINIMAL, "kafka": {"bootstrap.servers": "h:1", "socket.keepalive.enable": True, "a.b": 3}})
    assert settings.kafka == {"bootstrap.servers": "h:1", "socket.keepalive.enable": "true", "a.b": "3"}


@pytest.mark.parametrize("content", ["- a\n- b\n", "a: [", ""])
def test_a_file_that_is_no_mapping_is_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.yaml")
