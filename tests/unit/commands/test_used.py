"""A storage that no job has ever used: no command acts on it, or says that all is well there."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from parallax.cli import app
from parallax.views.binding import bind

HEAD = "kafka: {bootstrap.servers: '127.0.0.1:1'}\ntopics: {include: [orders]}\n"
BY_EITHER = [
    ["pause", "--reason", "x"],
    ["resume"],
    ["findings"],
    ["findings", "list", "--all"],
    ["findings", "show", "abcd"],
    ["findings", "explain", "abcd"],
    ["findings", "acknowledge", "abcd", "--reason", "x"],
    ["report", "-o", "report.html"],
    ["guard", "status"],
    ["repair", "status"],
    ["storage", "bind", "--cluster", "one"],
]
BY_SETTINGS = [
    ["guard", "release", "--all"],
    ["guard", "release", "orders"],
    ["repair", "plan", "abcd"],
    ["repair", "resume", "abcd"],
    ["repair", "undo", "abcd"],
    ["audit", "--from", "tables"],
    ["seen", "--topic", "orders", "--key", "k", "--at", "2026-01-01T00:00:00"],
]


def parallax(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(ended: Result, storage: Path, origin: str) -> None:
    assert (ended.exit_code, ended.stdout) == (2, ""), ended.output
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"parallax: storage.path: {storage}: no job has ever used this storage"), line
    assert f"from {origin}" in line


@pytest.fixture(params=["not there", "empty", "a job failed there"])
def unused(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    storage = tmp_path / "nope"
    if request.param != "not there":
        storage.mkdir()
    if request.param == "a job failed there":
        (storage / "job.lock").touch()
        (storage / "hash_key").write_text("0" * 32)
    return storage


@pytest.mark.parametrize("words", BY_EITHER, ids=" ".join)
def test_a_command_that_is_given_such_a_path_refuses_and_makes_nothing(unused: Path, words: list[str]) -> None:
    before = list(unused.parent.rglob("*"))
    refused(parallax(*words, "--data", unused), unused, "the option --data")
    assert list(unused.parent.rglob("*")) == before


@pytest.mark.parametrize("words", BY_EITHER + BY_SETTINGS, ids=" ".join)
def test_so_does_one_whose_settings_name_it(tmp_path: Path, words: list[str]) -> None:
    config, unused = tmp_path / "parallax.yaml", tmp_path / "nope"
    config.write_text(f"{HEAD}storage: {{path: {unused}}}\n")
    refused(parallax(*words, "-c", config), unused, str(config))
    assert list(tmp_path.iterdir()) == [config]


def test_it_says_where_the_path_is_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, other = tmp_path / "parallax.yaml", tmp_path / "other"
    config.write_text(HEAD)
    monkeypatch.chdir(tmp_path)
    refused(parallax("findings", "-c", config), Path(".parallax/data"), "no setting: it is the default")
    monkeypatch.setenv("PARALLAX_STORAGE__PATH", str(other))
    refused(parallax("findings", "-c", config), other, "the environment variable PARALLAX_STORAGE__PATH")


def test_an_all_clear_names_the_storage_that_was_looked_at(tmp_path: Path) -> None:
    config, used = tmp_path / "parallax.yaml", tmp_path / "data"
    config.write_text(f"{HEAD}storage: {{path: {used}}}\n")
    bind(str(used), "one")
    assert f"nothing is held: no guard has ever held anything in {used}" in parallax(
        "guard", "release", "--all", "-c", config
    ).stdout.replace("\n", " ")
    for words in (["guard", "status"], ["repair", "status"]):
        ended = parallax(*words, "-c", config)
        assert (ended.exit_code, str(used) in ended.stdout) == (0, True), ended.output
