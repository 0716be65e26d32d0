"""``parallax init``: all that somebody needs who has the wheel alone; what is there already stays."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.main import get_command
from typer.testing import CliRunner

from parallax.cli import app
from parallax.config import load
from parallax.shipped import PLACES, REPOSITORY, root
from parallax.views.hash_key import hash_key

TOP = Path(__file__).parents[3]


def init(*words: str) -> Result:
    return CliRunner().invoke(app, ["init", *words])


def test_it_writes_a_configuration_and_what_belongs_beside_it(tmp_path: Path) -> None:
    ended = init(str(tmp_path / "new"), "--format", "json")
    assert ended.exit_code == 0, ended.stderr
    written = [Path(file).relative_to(tmp_path / "new") for file in json.loads(ended.stdout)["files"]]
    assert str(written[0]) == "parallax.yaml"
    expected = {"prometheus/prometheus.yml", "prometheus/parallax-rules.yaml", "alertmanager/alertmanager.yaml"}
    assert expected < set(map(str, written))
    assert sum(file.parts[0] == "grafana" for file in written) == len(list((TOP / "dashboards").glob("*.json")))


def test_what_it_writes_sends_nobody_to_programs_that_only_a_checkout_has(tmp_path: Path) -> None:
    targets = "|".join(re.findall(r"(?m)^([a-z-]+):", (TOP / "Makefile").read_text()))
    wanted = re.compile(rf"\bmake (?:{targets})\b|python -m dashboards|\.venv/")
    assert wanted.search("`make demo`")
    init(str(tmp_path))
    files = [*tmp_path.rglob("*.*"), *(TOP / "streaming" / "parallax").rglob("*.*")]
    kinds = (".css", ".html", ".js", ".json", ".md", ".py", ".svg", ".tmpl", ".yaml", ".yml")
    texts = {file: unescape(file.read_text()) for file in files if file.suffix in kinds}
    found = [(file.name, said[0]) for file, text in texts.items() for said in wanted.finditer(" ".join(text.split()))]
    assert found == []


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
    assert "--storage: " in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_character_that_no_file_of_settings_can_hold_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    ended = init(str(tmp_path), "--storage", "/a\x7f")
    assert ended.exit_code == 2
    assert ended.stderr.startswith("parallax: DIR and options of init: ")
    assert ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = init(str(tmp_path / "file"))
    assert ended.exit_code == 2
    assert ended.stderr.count("\n") == 1


def test_what_was_begun_is_taken_back_where_a_file_is_in_the_way_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").write_text("mine")
    assert init(str(tmp_path)).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]
    assert init(str(tmp_path / "docs" / "below")).exit_code == 2
    assert init(str(tmp_path / "a" / "b")).exit_code == 0


@pytest.mark.parametrize("topic", ["a b", "..", ".", "", "ö", "x" * 250, "a/b"])
def test_what_is_no_topics_name_is_refused_and_nothing_is_written(tmp_path: Path, topic: str) -> None:
    ended = init(str(tmp_path / "new"), "--topic", topic)
    assert ended.exit_code == 2
    (line,) = ended.stderr.splitlines()
    assert "'--topic'" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ("FOO://k:9092", "FOO:// names no protocol"),
        ("PLAINTEXT://a:1,SSL://b:2", "says PLAINTEXT:// and SSL://; write one protocol"),
    ],
)
def test_brokers_that_check_would_refuse_are_refused_and_nothing_is_written(
    tmp_path: Path, servers: str, said: str
) -> None:
    ended = init(str(tmp_path / "new"), "--bootstrap-servers", servers)
    assert ended.exit_code == 2
    (line,) = ended.stderr.splitlines()
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_brokers_may_ask_for_a_login_that_is_not_written_yet(tmp_path: Path) -> None:
    assert init(str(tmp_path), "--bootstrap-servers", "SASL_SSL://k:9093").exit_code == 0


@pytest.mark.parametrize("storage", ["", "  "])
def test_a_storage_that_is_given_and_empty_is_refused(tmp_path: Path, storage: str) -> None:
    ended = init(str(tmp_path / "new"), "--storage", storage)
    assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
    assert ended.stderr.startswith("parallax: --storage: is empty")
    assert list(tmp_path.iterdir()) == []


def test_a_storage_is_the_same_folder_wherever_the_job_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    for number, (given, kept) in enumerate(
        {"~/data": "/home/ann/data", "data/../its": f"{tmp_path}/its", "file:///data": "file:///data"}.items()
    ):
        assert init(f"new{number}", "--storage", given).exit_code == 0
        assert load(f"new{number}/parallax.yaml").storage.path == kept
    assert "write the whole path" in init("other", "--storage", "~nobody-here/data").stderr


def test_a_bucket_gets_a_hash_key_that_its_owner_alone_reads_and_has_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = []
    for name in ("one", "two"):
        ended = init(name, "--storage", "s3a://bucket/prefix")
        assert ended.exit_code == 0, ended.stderr
        file = tmp_path / name / "hash_key"
        assert f"Keep {file}" in ended.stderr
        settings = load(f"{name}/parallax.yaml")
        assert (settings.storage.path, settings.read.hash_key_file) == ("s3a://bucket/prefix", str(file))
        assert file.stat().st_mode & 0o777 == 0o600
        keys.append(hash_key(settings.storage.path, settings.read))
        assert keys[-1] not in ended.stdout + ended.stderr + (tmp_path / name / "parallax.yaml").read_text()
    assert keys[0] != keys[1]


def test_a_hash_key_of_the_environment_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAX_READ__HASH_KEY", "0" * 32)
    assert init(str(tmp_path), "--storage", "s3a://bucket/prefix").exit_code == 0
    assert not (tmp_path / "hash_key").exists()
    assert load(tmp_path / "parallax.yaml").read.hash_key is not None


def test_who_interrupts_it_finds_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text("")
    begun, write = itertools.count(), Path.write_bytes

    def interrupted(path: Path, content: bytes) -> int:
        if next(begun) == 9:
            raise KeyboardInterrupt
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    assert init(str(tmp_path)).exit_code != 0
    assert next(begun) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    monkeypatch.undo()
    assert init(str(tmp_path)).exit_code == 0


def test_what_it_writes_says_nothing_of_a_checkout_that_is_false_elsewhere(tmp_path: Path) -> None:
    init(str(tmp_path))
    text = " ".join((tmp_path / "docs" / "index.md").read_text().split())
    assert "In a checkout, the program is `parallax`" not in text
    written = [*(tmp_path / "docs").rglob("*.md"), tmp_path / "parallax.yaml"]
    assert [one.name for one in written if "from this checkout" in " ".join(one.read_text().split())] == []
    assert [one.name for one in written if re.search(r"files of \[?`dashboards", one.read_text())] == []


def said_next(tmp_path: Path) -> str:
    ended = init(str(tmp_path / "with a blank"))
    assert ended.exit_code == 0
    return ended.stderr


def test_prometheus_and_alertmanager_start_by_what_it_says(tmp_path: Path) -> None:
    said = said_next(tmp_path)
    commands = [shlex.split(line) for line in said.splitlines() if line.startswith("  ")]
    assert [words[-1] for words in commands[:2]] == [str(tmp_path / "with a blank/parallax.yaml")] * 2
    assert [words[0] for words in commands[2:]] == ["prometheus", "alertmanager"]
    prometheus, alertmanager = (Path(words[1].removeprefix("--config.file=")) for words in commands[2:])
    urls = [word for words in commands[2:] for word in words if word.startswith("--web.external-url=http://")]
    assert [url.rpartition(":")[2] for url in urls] == ["9090", "9093"], "links in messages lead somewhere"
    assert commands[3][-1] == "--cluster.listen-address=", "one that is alone takes no further port"
    kept = [words[2].partition("=") for words in commands[2:]]
    assert [name for name, _, _ in kept] == ["--storage.tsdb.path", "--storage.path"]
    storage = Path(load(tmp_path / "with a blank/parallax.yaml").storage.path)
    for _, _, where in kept:
        assert Path(where).is_absolute()
        assert storage not in (Path(where), *Path(where).parents), "the job's storage is its own"
    assert "Debian" in said
    scraped = yaml.safe_load(prometheus.read_text())["scrape_configs"][0]["static_configs"]
    alerting = load(tmp_path / "with a blank/parallax.yaml").alerting
    assert scraped == [{"targets": [f"{alerting.metrics_host}:{alerting.metrics_port}"]}]
    for name in (*yaml.safe_load(prometheus.read_text())["rule_files"], *templates(alertmanager)):
        assert (tmp_path / "with a blank" / "prometheus" / name).is_file() or (alertmanager.parent / name).is_file()
    if shutil.which("promtool"):
        checked = subprocess.run(
            ["promtool", "check", "config", prometheus], check=True, capture_output=True, text=True
        )
        assert "1 rule files found" in checked.stdout
    if shutil.which("amtool"):
        subprocess.run(["amtool", "check-config", alertmanager], check=True, capture_output=True)


def test_what_it_says_names_the_file_to_edit_first_and_the_page_of_the_job(tmp_path: Path) -> None:
    said = said_next(tmp_path)
    written = tmp_path / "with a blank" / "parallax.yaml"
    assert f"under kafka in {written})" in said.partition(" check -c")[0]
    alerting = load(written).alerting
    assert f"http://{alerting.metrics_host}:{alerting.metrics_port}/." in said.partition(" run -c")[2]


def test_prometheus_finds_a_job_with_tls_and_users_once_its_lines_are_turned_on(tmp_path: Path) -> None:
    init(str(tmp_path))
    text = (tmp_path / "prometheus/prometheus.yml").read_text()
    (tmp_path / "prometheus/prometheus.yml").write_text(re.sub(r"(?m)^  # (?=[a-z_]+:)", "  ", text))
    (scraped,) = yaml.safe_load((tmp_path / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert scraped.keys() == {"job_name", "static_configs", "scheme", "tls_config", "basic_auth"}
    if shutil.which("promtool"):
        # The files of authority and password are not there: --syntax-only.
        command = ["promtool", "check", "config", "--syntax-only", str(tmp_path / "prometheus/prometheus.yml")]
        subprocess.run(command, check=True, capture_output=True)


def templates(alertmanager: Path) -> list[str]:
    found: list[str] = yaml.safe_load(alertmanager.read_text())["templates"]
    return found


ABOUT_THE_REPOSITORY = {"contribute", "reference"}
"""What pages of these folders name is of the source: links lead there, commands are those of a checkout."""
OF_A_CHECKOUT = r"\[[^]]*\]\(https://[^)]*\)|(?m:^deploy/image/build\.sh )"
"""What is not there and says so: links, and the one command that is run in a checkout."""
A_FILE = re.compile(r"(?<![\w./-])((?:[\w.-]+/)+[\w.-]+\.(?:yaml|yml|json|md|py|sh|tmpl|png|svg))\b")


def test_every_file_that_a_written_text_names_or_links_to_is_there(tmp_path: Path) -> None:
    init(str(tmp_path))
    texts = {
        file: file.read_text() for file in tmp_path.rglob("*") if file.suffix in (".md", ".yaml", ".json", ".tmpl")
    }
    linked = [
        (file, to) for file, text in texts.items() for to in re.findall(r"\]\((?!https?:)([^)#\s]+)[^)]*\)", text)
    ]
    assert ("page.md", "../pictures/page-finding.png") in {(file.name, to) for file, to in linked}
    assert [(file.name, to) for file, to in linked if file.suffix == ".md" and not (file.parent / to).exists()] == []
    named = {
        (file.name, to)
        for file, text in texts.items()
        if file.parent.name not in ABOUT_THE_REPOSITORY
        for to in A_FILE.findall(re.sub(rf"{OF_A_CHECKOUT}|\]\([^)]*\)|https?://\S+|\bDIR/", "", text))
    }
    assert ("runbook.md", "alertmanager/alertmanager.yaml") in named
    missing = {(file, to) for file, to in named if not (tmp_path / to).exists()}
    assert {one for one in missing if not one[1].startswith("etc/")} == set()


def test_what_a_written_text_links_to_in_the_repository_is_there(tmp_path: Path) -> None:
    init(str(tmp_path))
    linked = {
        (file.name, to)
        for file in (tmp_path / "docs").rglob("*.md")
        for to in re.findall(rf"\]\({re.escape(REPOSITORY)}/([^)#]+)[^)]*\)", file.read_text())
    }
    assert {("security.md", "SECURITY.md"), ("sizing.md", "docs/contribute/proven.md")} <= linked
    assert [(name, to) for name, to in linked if not (TOP / to).exists()] == []


def test_every_file_that_a_commands_help_names_is_there(tmp_path: Path) -> None:
    init(str(tmp_path))

    def texts(command: Any) -> Iterator[str]:
        yield from (command.help or "", *(getattr(one, "help", None) or "" for one in command.params))
        for inner in getattr(command, "commands", {}).values():
            yield from texts(inner)

    found = list(texts(get_command(app)))
    assert len(found) > 100
    assert [name for text in found for name in A_FILE.findall(text) if not (tmp_path / name).exists()] == []


def test_the_wheel_holds_what_is_written_out() -> None:
    tree = ast.parse((TOP / "setup.py").read_text())
    (made,) = (
        one.value for one in tree.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "SHIPPED"
    )
    assert set(ast.literal_eval(made)) == set(PLACES)
    assert {f"include {pattern}" for pattern in PLACES} == set((TOP / "MANIFEST.in").read_text().splitlines())


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


def test_half_a_uri_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    ended = init(str(tmp_path / "new"), "--storage", "s3a:/b/p")
    assert ended.exit_code == 2
    assert ended.stderr.startswith("parallax: --storage: is no URI; write two slashes")
    assert list(tmp_path.iterdir()) == []


def test_programs_hear_as_well_that_a_key_must_be_kept(tmp_path: Path) -> None:
    ended = init(str(tmp_path), "--storage", "s3a://b/p", "--format", "json")
    assert json.loads(ended.stdout)["keep"] == str(tmp_path / "hash_key")
    assert f"Keep {tmp_path / 'hash_key'}" in ended.stderr
