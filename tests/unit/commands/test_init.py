"""``parallax init``: all that somebody needs who has the wheel alone; what is there already stays."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from parallax.cli import app
from parallax.config import load
from parallax.shipped import root

TOP = Path(__file__).parents[3]


def init(*words: str) -> Result:
    return CliRunner().invoke(app, ["init", *words])


def test_it_writes_a_configuration_and_what_belongs_beside_it(tmp_path: Path) -> None:
    ended = init(str(tmp_path / "new"), "--format", "json")
    assert ended.exit_code == 0, ended.stderr
    written = [Path(file).relative_to(tmp_path / "new") for file in json.loads(ended.stdout)["files"]]
    assert str(written[0]) == "parallax.yaml"
    expected = {"prometheus/parallax-rules.yaml", "alertmanager/alertmanager.yaml", "docs/runbook.md"}
    assert expected < set(map(str, written))
    assert sum(file.parts[0] == "grafana" for file in written) == len(list((TOP / "dashboards").glob("*.json")))


def test_the_configuration_says_what_was_asked_for_and_is_the_reference_otherwise(tmp_path: Path) -> None:
    data = tmp_path / "its data"
    init(str(tmp_path), "--bootstrap-servers", "a:1,b:2", "--topic", "x", "--topic", "y.z", "--storage", str(data))
    settings = load(tmp_path / "parallax.yaml")
    assert settings.kafka == {"bootstrap.servers": "a:1,b:2"}
    assert (settings.topics.include, settings.topics.pattern) == (["x", "y.z"], None)
    assert settings.storage.path == str(data)
    reference = yaml.safe_load((TOP / "conf" / "parallax.yaml").read_text())
    assert yaml.safe_load((tmp_path / "parallax.yaml").read_text()).keys() == reference.keys()
    comments = re.findall(r"#.*", (TOP / "conf" / "parallax.yaml").read_text())
    assert re.findall(r"#.*", (tmp_path / "parallax.yaml").read_text()) == comments


def test_without_topics_it_watches_all_but_kafkas_own(tmp_path: Path) -> None:
    init(str(tmp_path))
    topics = load(tmp_path / "parallax.yaml").topics
    assert topics.include == []
    assert topics.pattern is not None
    assert re.fullmatch(topics.pattern, "orders")
    assert not re.fullmatch(topics.pattern, "__consumer_offsets")


def test_its_tables_lie_in_the_folder_wherever_the_job_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert init().exit_code == 0
    assert load("parallax.yaml").storage.path == str(tmp_path / "data")


@pytest.mark.parametrize("name", ["parallax.yaml", "docs/runbook.md"])
def test_nothing_is_written_where_a_file_is_there_already(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    ended = init(str(tmp_path))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert (
        ended.stderr == f"parallax: {tmp_path / name} is there already, and nothing was written; name another folder\n"
    )
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [tmp_path / name]


def test_a_choice_that_cannot_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    ended = init(str(tmp_path), "--storage", "ftp://host/folder")
    assert ended.exit_code == 2
    assert "storage.path" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = init(str(tmp_path / "file"))
    assert ended.exit_code == 2
    assert ended.stderr.count("\n") == 1


def test_the_storage_path_has_a_default(tmp_path: Path) -> None:
    config = tmp_path / "parallax.yaml"
    config.write_text("kafka: {bootstrap.servers: 'h:1'}\ntopics: {include: [orders]}\n")
    assert load(config).storage.path == ".parallax/data"


def test_in_a_checkout_the_files_are_those_at_its_top() -> None:
    assert root() == TOP


def test_where_a_file_is_in_the_way_of_a_folder_nothing_is_left_and_the_next_try_succeeds(tmp_path: Path) -> None:
    (tmp_path / "prometheus").write_text("")
    ended = init(str(tmp_path))
    assert ended.exit_code == 2
    assert len(ended.stderr.splitlines()) == 1
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["prometheus"]
    (tmp_path / "prometheus").unlink()
    assert init(str(tmp_path)).exit_code == 0


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    assert init(str(tmp_path), "--storage", str(tmp_path / "\N{GRINNING FACE}")).exit_code == 0
    assert load(tmp_path / "parallax.yaml").storage.path.endswith("\N{GRINNING FACE}")
