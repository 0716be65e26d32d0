"""What a person gives wrongly is one line that names it, and exit code 2; no word of a secret, and no question."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from parallax.alerting.page import ticket
from parallax.audit import command as audit
from parallax.cli import app
from parallax.commands.lab import PICTURE
from parallax.commands.repair import PLAN
from parallax.config import ConfigError, ReadSettings
from parallax.output import FileKind, output
from parallax.views.hash_key import hash_key
from tests.pages import Job
from tests.unit.replica.servers import broker

SECRET = "hunter2"
KAFKA = {"bootstrap.servers": "127.0.0.1:1"}
HOOK = {"name": "a", "url": "https://a/"}
TOKENS = {
    **KAFKA,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "http://a/",
    "sasl.oauthbearer.client.id": "a",
    "sasl.oauthbearer.client.secret": "b",
}
COMMANDS = ("run", "check", "audit")
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_UNKNOWN = "PARALLAX_" + "TOPICZ"


@pytest.fixture(autouse=True)
def nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nor is anything left of what a command that ran in this process does on a signal."""
    monkeypatch.setattr("getpass.getpass", lambda *_: pytest.fail("somebody was asked for a password"))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def written(tmp_path: Path, **sections: Any) -> Path:
    """A settings file that is right but for these sections."""
    document = {"kafka": KAFKA, "topics": {"include": ["a"]}, "storage": {"path": str(tmp_path / "data")}}
    file = tmp_path / "parallax.yaml"
    file.write_text(yaml.safe_dump(document | sections))
    return file


def refused(command: str, config: Path, *options: str, code: int = 2) -> str:
    """The line that a command says of it."""
    ended = CliRunner().invoke(app, [command, "-c", str(config), *options])
    assert ended.exit_code == code, ended.output
    assert ended.exception is None or isinstance(ended.exception, SystemExit)
    assert SECRET not in ended.output
    (line,) = ended.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate whose key is encrypted."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    new = ["req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=x", "-passout", "pass:right"]
    subprocess.run(["openssl", *new, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    names = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
    return {**KAFKA, "security.protocol": "SSL", **names}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"topics": {"pattern": "["}}, "topics.pattern: is not a regular expression"),
        ({"storage": {"path": "s3a://bucket/path"}}, "read.hash_key must be set where storage.path is a URI"),
        ({"kafka": {**KAFKA, "sasl.password": 42798}}, "sasl.password is not text; write it in quotes"),
        ({"kafka": {**KAFKA, "sasl.pasword": SECRET}}, "sasl.pasword: unknown option"),
        ({"alerting": {"metrics_host": "a\0b"}}, "alerting.metrics_host: is empty or holds a NUL"),
        ({"read": {"hash_key": SECRET}}, "read.hash_key: must be 32 hexadecimal digits"),
        ({"kafka": {**KAFKA, "socket.receive.buffer.bytes": 10**20}}, "socket.receive.buffer.bytes: "),
        ({"kafka": {**KAFKA, "socket.receive.buffer.bytes": "²"}}, "socket.receive.buffer.bytes: "),
        ({"kafka_files": {"sasl.password": "\ud800"}}, "kafka_files: sasl.password: cannot be read"),
        (
            {"storage": {"path": "s3a:///p"}, "read": {"hash_key": "0" * 32}},
            "storage.path: names no bucket; write s3a://bucket/prefix",
        ),
        ({"storage": {"path": "file://host/x"}}, "storage.path: names a host"),
        ({"spark": {"master": "foo"}}, "spark.master: is no master of Spark"),
        ({"spark": {"driver_memory": "lots"}}, "spark.driver_memory: is no size"),
        ({"alerting": {"users": {"ann": "$2b$99$" + "a" * 53}}}, "alerting.users: number 1: is no bcrypt hash"),
        ({"alerting": {"webhooks": [HOOK | {"ca_file": "/etc/hostname"}]}}, "ca_file: cannot be used as PEM"),
        ({"alerting": {"webhooks": [HOOK | {"url": "https://a:99999999/"}]}}, "url: is no address"),
        ({"alerting": {"webhooks": [HOOK | {"url": "http://h:0/"}]}}, "url: is no address"),
        ({"alerting": {"external_url": "http://h:0/"}}, "external_url: is no address"),
        ({"alerting": {"runbook_url": "/docs/runbook.md"}}, "runbook_url: is no address"),
        ({"alerting": {"runbook_url": "https://a:b@h/"}}, "runbook_url: is no address"),
        ({"alerting": {"runbook_url": "https://h/runbook#part"}}, "runbook_url: is no address"),
        ({"alerting": {"heartbeat_url": "http://h:0/x"}}, "heartbeat_url: is no address"),
    ],
    ids=[
        "a pattern",
        "a URI without a key",
        "a secret that is a number",
        "a misspelt option",
        "a host",
        "a key of the hashes",
        "too many bytes",
        "a digit that is no number",
        "a file whose name is no text",
        "no bucket",
        "a host before a folder",
        "a master",
        "a size",
        "a cost",
        "no certificates",
        "a port",
        "port 0 of a webhook",
        "port 0 of the page",
        "the path of a runbook",
        "a password of a runbook",
        "a part of a runbook",
        "port 0 of the heartbeat",
    ],
)
def test_a_setting(tmp_path: Path, command: str, sections: dict[str, Any], said: str) -> None:
    assert said in refused(command, written(tmp_path, **sections))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"kafka": {**KAFKA, f"sasl.password:{SECRET}": None}}, "kafka: sasl.password... is not text"),
        ({"kafka": {**KAFKA, f"sasl.password={SECRET}": "x"}}, "sasl.password...: unknown option"),
        ({"kafka_files": {f"sasl.password:{SECRET}": None}}, "kafka_files: sasl.password...: cannot be read"),
        ({"kafka_files": {"sasl.password": SECRET}}, "kafka_files: sasl.password: cannot be read"),
        ({"read": {f"hash_key:{SECRET}": None}}, "read.hash_key...: unknown setting"),
        ({"spark": {"conf": {f"a.password:{SECRET}": None}}}, "spark.conf.a.password...: "),
        ({"kafka": {"bootstrap.servers": f"SASL://u:{SECRET}@h:1"}}, "bootstrap.servers: holds an @"),
        ({"kafka": {"bootstrap.servers": f"{SECRET}@h:1"}}, "bootstrap.servers: holds an @"),
        ({"kafka": {"bootstrap.servers": f"u:{SECRET},x@h:1"}}, "bootstrap.servers: holds an @"),
        ({"alerting": {"users": {SECRET: "ann"}}}, "alerting.users: number 1: is no bcrypt hash"),
        ({"alerting": {"users": {SECRET: ["ann"]}}}, "alerting.users: "),
        ({"kafka": {**TOKENS, "sasl.oauthbearer.extensions": f"a=b,{SECRET}"}}, "extensions: is not name=value"),
        ({"kafka": {**TOKENS, _ENDPOINT: f"http://a:{SECRET}@127.0.0.1:1/"}}, f"{_ENDPOINT}: holds a name or password"),
        ({"kafka": {**TOKENS, _ENDPOINT: f"http://{SECRET}@127.0.0.1:1/"}}, f"{_ENDPOINT}: holds a name or password"),
        ({"kafka": {**TOKENS, _ENDPOINT: f"http://a:{SECRET}@h:99999999/"}}, f"{_ENDPOINT}: is no address"),
        (
            {"storage": {"path": f"s3a://a:x/{SECRET}@b/c"}, "read": {"hash_key": "0" * 32}},
            "storage.path: holds a password",
        ),
        (
            {"kafka": {**KAFKA, "security.protocol": "SSL", "ssl.ca.location": f"-----BEGIN {SECRET}\n"}},
            "ssl.ca.location: no such file: the text of a PEM file",
        ),
    ],
    ids=[
        "no blank behind a name",
        "an equals sign",
        "no blank in files",
        "a secret for a file",
        "no blank of a setting",
        "no blank of Spark's",
        "with an address",
        "before a host",
        "a comma in it",
        "names and hashes swapped",
        "swapped, a list",
        "extensions",
        "in a token endpoint",
        "before a token endpoint",
        "in no token endpoint",
        "in a storage path",
        "a key for a file",
    ],
)
def test_what_may_be_a_secret_is_not_said(tmp_path: Path, command: str, sections: dict[str, Any], said: str) -> None:
    assert said in refused(command, written(tmp_path, **sections))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (bytes(range(256)), "not UTF-8"),
        (b"\x00\x01\x02", "not YAML"),
        (b"", "must hold a mapping"),
        (b"kafka: {sasl.password: hunter2\n", "not YAML (line "),
        (b"a: &a [*a]\n", "unknown setting"),
        (b"kafka:\n  sasl.password: !!timestamp hunter2\n", "not YAML (a value that cannot be read"),
        (b"read: {}\ntopics: {}\nread: {}\n", "(line 3, column 1: read is given twice)"),
        (b"kafka:\n  sasl.password: hunter2\n  sasl.password: other\n", "(line 3, column 3: kafka.sasl.password is"),
        (b"kafka: {'sasl.password:hunter2': 1, 'sasl.password:hunter2': 2}\n", "kafka.sasl.password... is given twice"),
        (b"alerting: {users: {hunter2: a, hunter2: b}}\n", "column 32: alerting.users is given twice"),
        (b"alerting: {webhooks: [{name: a, name: b}]}\n", "alerting.webhooks.0.name is given twice"),
    ],
    ids=[
        "binary",
        "binary that is ASCII",
        "empty",
        "half of a secret",
        "itself in itself",
        "a secret that is no time",
        "a section twice",
        "a secret twice",
        "twice, no blank behind a name",
        "twice, names and hashes swapped",
        "twice in a list",
    ],
)
def test_a_file(tmp_path: Path, command: str, content: bytes, said: str) -> None:
    file = tmp_path / "parallax.yaml"
    file.write_bytes(content)
    assert said in refused(command, file)


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data", "s3a:///p"], "--data: names no bucket"),
        (["--data", "file://host/x"], "--data: names a host"),
        (
            ["--data", "data", "--broker", str(10**20)],
            "'--broker': 100000000000000000000 is not within 0 and 2147483647",
        ),
    ],
    ids=["no bucket", "a host", "a broker"],
)
def test_what_the_switch_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, [command, *(["--reason", "why"] if command == "pause" else []), *options])
    assert ended.exit_code == 2
    (line,) = ended.stderr.splitlines()
    assert said in line


@pytest.mark.parametrize("name", ["feedback", "checkpoints", "control", "findings", "read_committed"])
def test_a_file_where_the_job_keeps_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_text("x")
    line = refused("run", written(tmp_path))
    assert f"data/{name} is no folder; move it away" in line
    ended = CliRunner().invoke(app, ["check", "-c", str(written(tmp_path))])
    assert f"data/{name} is no folder; move it away" in ended.stdout


@contextmanager
def full() -> Iterator[None]:
    """No file takes anything more, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    config = written(tmp_path)
    (tmp_path / "data").mkdir()
    with full():
        assert "storage.path: " in refused("run", config, code=1)
        ended = CliRunner().invoke(app, ["check", "-c", str(config)])
        with pytest.raises(ConfigError, match=r"^storage.path: .*cannot be written"):
            hash_key(str(tmp_path), ReadSettings())
    assert "cannot be written (File too large); give storage.path a folder that can be" in ended.stdout
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["job.lock"]
    assert len(hash_key(str(tmp_path), ReadSettings())) == 32, "nothing half-written was left"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "path", ["none.yaml", ".", "a\nb.yaml", "x" * 300], ids=["none", "a folder", "two lines", "long"]
)
def test_a_path(tmp_path: Path, command: str, path: str) -> None:
    assert "cannot be read" in refused(command, tmp_path / path)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PARALLAX_KAFKA", "notjson"),
        ("PARALLAX_KAFKA", '{"sasl.password": "hunter2"}x'),
        ("PARALLAX_TOPICS__BROKERS", "a,b"),
        (_UNKNOWN, "1"),
        ("PARALLAX_READ__HASH_KEY", SECRET),
    ],
)
def test_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, variable: str, value: str) -> None:
    config = written(tmp_path)
    monkeypatch.setenv(variable, value)
    assert variable in refused(command, config)


@pytest.mark.parametrize("command", COMMANDS)
def test_names_separated_by_commas_are_no_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    config = written(tmp_path)
    monkeypatch.setenv("PARALLAX_TOPICS__INCLUDE", "a,b")
    ended = CliRunner().invoke(app, [command, "-c", str(config)])
    assert "PARALLAX_TOPICS__INCLUDE" not in ended.output
    assert "127.0.0.1:1" in ended.output, "it went on to the cluster, which does not answer"


@pytest.mark.parametrize("command", COMMANDS)
def test_tls_asked_of_a_broker_that_speaks_none(tmp_path: Path, command: str) -> None:
    with broker() as one:
        address = f"127.0.0.1:{one.port}"
        kafka = {"bootstrap.servers": address, "security.protocol": "SSL"}
        ended = CliRunner().invoke(app, [command, "-c", str(written(tmp_path, kafka=kafka))])
    assert ended.exit_code == (2 if command == "audit" else 1)
    assert f"broker {address} does not speak TLS (security.protocol is SSL)" in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "ssl.key.password: missing; the key in"),
        ({"ssl.key.password": SECRET}, "ssl.key.password: does not open the key in"),
        ({"ssl.ca.location": "/nowhere.pem"}, "ssl.ca.location: no such file"),
        ({"ssl.ca.location": "x" * 5000}, "ssl.ca.location: no such file"),
        ({"ssl.ca.location": "a\0b"}, "ssl.ca.location: no such file"),
    ],
    ids=["without a password", "a wrong password", "no authority", "a name that is too long", "a name with a NUL"],
)
def test_a_key_that_is_encrypted(
    tmp_path: Path, locked: dict[str, str], command: str, more: dict[str, str], said: str
) -> None:
    assert said in refused(command, written(tmp_path, kafka={**locked, **more}))


@pytest.mark.parametrize("name", ["x" * 300, "\udcff.html", "none/x.html", ".", "ä" * 128])
def test_a_file_to_write(tmp_path: Path, name: str) -> None:
    options = ["--data", Job(tmp_path / "data").storage, "--output", str(tmp_path / name)]
    ended = CliRunner().invoke(app, ["report", *options])
    assert ended.exit_code == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("parallax: --output: ")


WRITES = [
    ["report", "-o"],
    ["audit", "--output"],
    ["audit", "--dry-run", "--output"],
    ["repair", "plan", "--topic=a", "--partition=0", "-o"],
    ["demo", "--picture"],
]
"""Commands that write a file that a person names, up to its name."""


@pytest.mark.parametrize("words", WRITES, ids=" ".join)
def test_a_file_of_another_kind_is_never_replaced(tmp_path: Path, words: list[str]) -> None:
    config = written(tmp_path, storage={"path": Job(tmp_path / "data").storage})
    holds = config.read_text()
    ended = CliRunner().invoke(app, [*words, str(config), *([] if words[0] == "demo" else ["-c", str(config)])])
    (line,) = ended.stderr.splitlines()
    assert (ended.exit_code, config.read_text()) == (2, holds)
    assert line.startswith("parallax: --")
    assert f": {config} is there and is not " in line
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data", config.name]


@pytest.mark.parametrize(
    ("kind", "begun"),
    [
        (ticket.REPORT, "<!doctype html>\n<html"),
        (audit.REPORT, "partition  result"),
        (audit.REPORT, "broker  partitions"),
        (audit.REPORT, '{\n  "result": "unknown"'),
        (audit.REPORT, '{\n  "brokers": ['),
        (PLAN, '{\n  "format": 3,'),
        (PICTURE, '<svg class="rich-terminal"'),
    ],
    ids=str,
)
def test_one_of_the_same_kind_is_and_an_empty_one(tmp_path: Path, kind: FileKind, begun: str) -> None:
    file = tmp_path / "x"
    for held in (begun, ""):
        file.write_text(held)
        with output(file, kind) as to:
            to.write("new")
        assert file.read_text() == "new"


@pytest.mark.parametrize("name", ["x" * 255, "ä" * 127])
def test_the_longest_name_that_a_file_can_have(tmp_path: Path, name: str) -> None:
    data = Job(tmp_path / "data").storage
    ended = CliRunner().invoke(app, ["report", "--data", str(data), "--output", str(tmp_path / name)])
    assert ended.exception is None or isinstance(ended.exception, SystemExit)
    with output(tmp_path / name, FileKind("a report", ".*")) as to:
        to.write("a report")
    assert (tmp_path / name).read_text() == "a report"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "data"] == [name]


@pytest.mark.parametrize("command", ["list", "show", "explain"])
@pytest.mark.parametrize("is_before", [True, False])
def test_an_error_is_json_where_json_is_asked_for(tmp_path: Path, command: str, is_before: bool) -> None:
    words = [command] if command == "list" else [command, "abcd"]
    option = ["--format", "json"]
    given = [*option, *words] if is_before else [*words, *option]
    ended = CliRunner().invoke(app, ["findings", "--data", str(tmp_path), *given])
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert "no job has ever used" in json.loads(ended.stderr)["error"]


@pytest.mark.parametrize("command", ["check", "audit"])
def test_so_is_one_of_the_settings(tmp_path: Path, command: str) -> None:
    line = refused(command, written(tmp_path, topics={"pattern": "["}), "--format", "json")
    assert json.loads(line)["error"].startswith(f"{tmp_path}/parallax.yaml: topics.pattern: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check"], "Missing option"),
        (["nosuch"], "No such command"),
        (["check", "--nosuch"], "No such option"),
        (["findings", "list", "--kind", "nosuch"], "nosuch"),
        (["lab", "nosuch"], "No such command"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--format", "json"], ["--format=json"]])
def test_a_command_line(words: list[str], said: str, form: list[str]) -> None:
    ended = CliRunner().invoke(app, [*words, *form])
    assert ended.exit_code == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert said in (json.loads(line)["error"] if form else line.removeprefix("parallax: "))


def test_an_empty_command_line_shows_the_help() -> None:
    ended = CliRunner().invoke(app, [])
    assert "Usage" in ended.output
    assert "fetch-jars" in ended.output


def test_an_unknown_option_of_kafka_names_the_variable_that_it_is_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARALLAX_KAFKA__" + "X", SECRET)
    line = refused("audit", written(tmp_path))
    assert "x: unknown option (environment variable PARALLAX_KAFKA__X)" in line


@pytest.mark.parametrize("address", ['a"b:9092', "a'b:9092", "a;b:9092", "<a>:9092", "[a b]:9092"])
def test_a_host_with_a_quote_or_the_like_is_no_address(tmp_path: Path, address: str) -> None:
    line = refused("audit", written(tmp_path, kafka={"bootstrap.servers": address}))
    assert "bootstrap.servers: " in line
    assert "is not host:port" in line


@pytest.mark.parametrize("path", ["s3a:/b/p", "s3:b", "gs:/b"])
def test_half_a_uri_is_no_folder(tmp_path: Path, path: str) -> None:
    assert "storage.path: is no URI; write two slashes" in refused("audit", written(tmp_path, storage={"path": path}))


def test_both_of_two_options_of_which_one_is_wanted_are_too_many(tmp_path: Path) -> None:
    line = refused("findings", written(tmp_path), "--data", str(tmp_path))
    assert line == "parallax: --data: -c/--config is given too; give one of them"


def test_ctrl_c_while_the_command_is_being_loaded_ends_it_without_a_word() -> None:
    pressed = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from parallax.__main__ import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", pressed], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_the_command_begins_there() -> None:
    said = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert said["project"]["scripts"] == {"parallax": "parallax.__main__:main"}
