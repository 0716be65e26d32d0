"""The settings file: what is accepted, and what the one line says where it is not."""

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from pydantic import SecretStr
from typer.testing import CliRunner

from parallax.cli import app
from parallax.config import ConfigError, Settings, load, validate
from parallax.errors import one_line

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
    sections = ("read", "compare", "findings", "audit", "alerting", "supervisor", "guard")
    names = {name for section in sections for name in type(getattr(settings, section)).model_fields}
    names -= {"webhooks"}  # the file shows an example of one, since an empty list tells nothing of their form
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


def test_addresses_may_be_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "parallax.yaml"
    rest = "topics: {include: [a]}\nstorage: {path: x}\n"
    path.write_text(f"kafka:\n  bootstrap.servers:\n    - SSL://b:9092\n    - c:9092\n{rest}")
    assert load(path).kafka == {"bootstrap.servers": "SSL://b:9092,c:9092"}
    monkeypatch.setenv("PARALLAX_KAFKA", '{"bootstrap.servers": ["d:1", "e:2"]}')
    assert load(path).kafka == {"bootstrap.servers": "d:1,e:2"}


@pytest.mark.parametrize("servers", [[{"b": 9092}], [9092], [None], [["b:1"]]])
def test_a_list_of_what_is_no_address_is_named(servers: list[object]) -> None:
    with pytest.raises(ConfigError, match=r"kafka: bootstrap\.servers holds what is no text; write \[host:port"):
        validate({**MINIMAL, "kafka": {"bootstrap.servers": servers}})


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


@pytest.mark.parametrize(
    ("section", "wrong", "option"),
    [
        ("topics", {"pattern": "(["}, "topics.pattern: is not a regular expression"),
        ("topics", {"include": [""]}, "topics.include.0: '' is no topic's name"),
        ("topics", {"include": ["a"], "brokers": []}, "topics.brokers: names no broker"),
        ("storage", {"path": ""}, "storage.path: is empty"),
        ("read", {"request_timeout_ms": 10**17}, "read.request_timeout_ms: "),
        ("audit", {"interval_s": float("inf")}, "audit.interval_s: "),
        ("audit", {"confirm_timeout_s": 1e300}, "audit.confirm_timeout_s: "),
        ("findings", {"recheck_interval_s": float("inf")}, "findings.recheck_interval_s: "),
        ("storage", {"path": "x", "retention_hours": 1e12}, "storage.retention_hours: "),
        ("storage", {"record": "none"}, "storage.record: "),
        ("storage", {"record": "differing", "differing_topics": "(["}, "storage.differing_topics: is not a regular"),
        (
            "storage",
            {"record": "blocks", "retention_hours": 24},
            "storage: settled_hours is not below 23.75, so ret",
        ),
        ("storage", {"record": "differing", "retention_hours": 9, "settled_hours": 23.9}, "storage: settled_hours is "),
        (
            "storage",
            {"record": "differing", "maintenance_interval_s": 144 * 3600},
            "storage: settled_hours is not below",
        ),
        ("alerting", {"webhooks": [{"name": "a b", "url": "http://h/"}]}, "alerting.webhooks.0.name: "),
        ("alerting", {"webhooks": [{"name": "a"}]}, "alerting.webhooks.0: url (or url_file) is missing"),
        ("alerting", {"webhooks": [{"name": "a", "url": "h/x"}]}, "alerting.webhooks.0.url: is no address"),
        ("alerting", {"webhooks": [{"name": "a", "url": "http://h a/"}]}, "alerting.webhooks.0.url: is no address"),
        ("alerting", {"webhooks": [{"name": "a", "format": "pagerduty"}]}, "alerting.webhooks.0: routing_key "),
        (
            "alerting",
            {"webhooks": [{"name": "a", "url": "http://h/", "routing_key": "k"}]},
            "alerting.webhooks.0: routing_key ",
        ),
        ("alerting", {"webhooks": [{"name": "a", "url_file": "/no/file"}]}, "alerting.webhooks.0.url_file: cannot be"),
        (
            "alerting",
            {"webhooks": [{"name": "a", "url_file": "README.md"}]},
            "alerting.webhooks.0.url_file: what it holds",
        ),
        (
            "alerting",
            {"webhooks": [{"name": "a", "url": "http://h/", "secret": "s", "secret_file": __file__}]},
            "alerting.webhooks.0: give secret or secret_file, not both",
        ),
        (
            "alerting",
            {"webhooks": [{"name": "a", "url": "http://h/"}, {"name": "a", "url": "http://g/"}]},
            "alerting.webhooks: two have the same name",
        ),
    ],
)
def test_what_no_platform_or_person_can_mean_is_refused(section: str, wrong: dict[str, object], option: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate({**MINIMAL, section: wrong})
    assert str(caught.value).startswith(f"settings: {option}")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("retention", "settled"), [(24, 23.7), (25, 24), (6, 12)])
def test_settled_rows_may_be_shared_until_retention_drops_their_whole_date(retention: float, settled: float) -> None:
    hours = {"retention_hours": retention, "settled_hours": settled}
    assert validate({**MINIMAL, "storage": {"record": "differing", **hours}}).storage.settled_hours == settled


@pytest.mark.parametrize(("content", "said"), [(b"# caf\xe9\n", "not UTF-8"), (b"a: 2026-13-45\n", "not YAML")])
def test_a_file_that_is_no_text_or_yaml_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=said) as caught:
        load(file)
    assert str(caught.value).isprintable()


def test_a_section_named_by_a_number_is_an_unknown_setting() -> None:
    document: dict[object, object] = {1: {"a": "b"}, **MINIMAL}
    with pytest.raises(ConfigError, match=r"^settings: \.\.\.: unknown setting"):
        validate(document)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "names"),
    [("orders, customers", ["orders", "customers"]), ('["orders"]', ["orders"]), ("7", ["7"]), ("orders", ["orders"])],
)
def test_a_list_in_the_environment_is_json_or_separated_by_commas(
    monkeypatch: pytest.MonkeyPatch, given: str, names: list[str]
) -> None:
    monkeypatch.setenv("PARALLAX_TOPICS__INCLUDE", given)
    monkeypatch.setenv("PARALLAX_TOPICS__BROKERS", "1,2")
    topics = validate(MINIMAL).topics
    assert topics.include == names
    assert topics.brokers == [1, 2]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PARALLAX_KAFKA", "host:9092"),
        ("PARALLAX_SPARK__CONF", "a=b"),
        ("PARALLAX_STORAGE", "x"),
        ("PARALLAX_READ", '{"x":'),
        ("PARALLAX_TOPICS__INCLUDE", '["orders"'),
        ("PARALLAX_TOPICS__BROKERS", "one"),
        ("PARALLAX_FINDINGS__MAX_SCAN_BYTES", "abc"),
        ("PARALLAX_STORAGE__PATH", ""),
        ("PARALLAX_NOPE", "1"),
        ("PARALLAX_ALERTING_METRICS_PORT", "9464"),
    ],
)
def test_a_wrong_variable_is_one_line_that_names_it(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=rf"\b{variable}\b") as caught:
        validate(MINIMAL)
    assert str(caught.value).isprintable()


def test_variables_of_tools_and_tests_and_of_a_service_in_kubernetes_are_no_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = REFERENCE.parents[1]
    sources = [f for folder in ("streaming", "tests", "benchmarks", "scripts") for f in (root / folder).rglob("*.py")]
    this = Path(__file__)
    used = {name for f in sources if f != this for name in re.findall(r"\bPARALLAX_[A-Z_]*[A-Z]\b", f.read_text())}
    assert "PARALLAX_CLEANER_SEED" in used
    for variable in used:
        if "__" not in variable and variable != "PARALLAX_KAFKA":
            monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("PARALLAX_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("PARALLAX_METRICS_SERVICE_PORT_HTTP", "9464")
    monkeypatch.setenv("PARALLAX_METRICS_PORT", "tcp://10.0.0.1:9464")
    monkeypatch.setenv("PARALLAX_METRICS_PORT_9464_TCP_ADDR", "10.0.0.1")
    assert validate(MINIMAL).storage.path == "x"


def test_an_empty_storage_path_on_the_command_line_is_named() -> None:
    for command in (["findings", "--data", ""], ["findings", "acknowledge", "abcd", "--reason", "x", "--data", ""]):
        ended = CliRunner().invoke(app, command)
        assert ended.exit_code == 2
        assert ended.stderr.startswith("parallax: --data: ")


@pytest.mark.parametrize("data", ["\udcff", "x" * 256, "a/" * 2048 + "a", " "])
def test_a_storage_path_that_no_file_system_has_is_named(data: str) -> None:
    with pytest.raises(ConfigError, match=r"storage\.path: (is|holds)"):
        validate({**MINIMAL, "storage": {"path": data}})
    for command in (["findings"], ["findings", "list"], ["findings", "show", "a"], ["findings", "explain", "a"]):
        ended = CliRunner().invoke(app, [*command, "--data", data])
        assert ended.exit_code == 2
        assert ended.stderr.startswith("parallax: --data: ")
        assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "data", ["http://h/x", "https://h/x", "hdfs://h/x", "foo://x", "S3A://b/x", "s3a://", "gs:///"]
)
def test_a_store_that_is_not_supported_is_refused_by_every_command(data: str, tmp_path: Path) -> None:
    written = tmp_path / "job.yaml"
    written.write_text(yaml.safe_dump({**MINIMAL, "storage": {"path": data}, "read": {"hash_key": "ab" * 16}}))
    for command in (
        ["run", "-c", str(written)],
        ["check", "-c", str(written)],
        ["audit", "-c", str(written)],
        ["pause", "-c", str(written), "--reason", "x"],
        ["resume", "-c", str(written)],
        ["findings", "-c", str(written)],
        ["guard", "status", "-c", str(written)],
        ["findings", "--data", data],
    ):
        ended = CliRunner().invoke(app, command)
        assert ended.exit_code == 2, command
        assert re.fullmatch(r"parallax: .*(storage\.path|--data): (is a URI of|names no bucket).*\n", ended.stderr), (
            command
        )


@pytest.mark.parametrize(
    "path", ["/a/b", "a", "a/http://b", "file:///a", "file:/a", "s3a://b", "s3://b/x", "gs://b/x", "abfss://c@a/x"]
)
def test_a_folder_or_a_store_that_is_supported_is_taken(path: str) -> None:
    assert validate({**MINIMAL, "storage": {"path": path}, "read": {"hash_key": "ab" * 16}}).storage.path == path


def test_a_long_uri_is_no_path_of_a_file_system() -> None:
    assert validate({**MINIMAL, "storage": {"path": "s3a://" + "x" * 256}, "read": {"hash_key": "ab" * 16}})


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("0123", "0123"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("1:30", "1:30"),
        ("1e3", "1e3"),
        ("1.50", "1.50"),
        ("2026-01-02", "2026-01-02"),
        ("12", "12"),
        ("yes", "true"),
        ("'yes'", "yes"),
        ("false", "false"),
    ],
)
def test_kafkas_options_are_taken_as_they_are_written(tmp_path: Path, written: str, text: str) -> None:
    path = tmp_path / "parallax.yaml"
    rest = "topics: {include: [a]}\nstorage: {path: x}\nread: {request_timeout_ms: 0x1000}\n"
    path.write_text(f"kafka:\n  bootstrap.servers: b:9092\n  sasl.username: {written}\n{rest}")
    settings = load(path)
    assert settings.kafka["sasl.username"] == text
    assert settings.read.request_timeout_ms == 0x1000
    path.write_text(f"base: &base {{client.id: {written}}}\nkafka:\n  <<: *base\n  bootstrap.servers: b:9092\n{rest}")
    with pytest.raises(ConfigError, match="base: unknown setting"):
        load(path)
    path.write_text(f"kafka:\n  <<: {{client.id: {written}}}\n  bootstrap.servers: b:9092\n{rest}")
    assert load(path).kafka["client.id"] == text


@pytest.mark.parametrize("value", [None, ["a"], {"a": 1}, 1.5, "\ud800"])
def test_an_option_of_kafkas_that_is_no_text_is_named(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"kafka: sasl\.username is not text"):
        validate({**MINIMAL, "kafka": {"bootstrap.servers": "h:1", "sasl.username": value}})


def test_a_secret_that_is_written_as_a_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "parallax.yaml"
    path.write_text(
        "kafka: {bootstrap.servers: b:9092, sasl.password: 0123}\ntopics: {include: [a]}\nstorage: {path: x}\n"
    )
    with pytest.raises(ConfigError, match=r"sasl\.password is not text; write it in quotes"):
        load(path)


def test_an_error_line_does_not_steer_the_terminal() -> None:
    assert one_line("\x1b[1;31mwrong\x1b[0m:\n a\x07b\tc") == "wrong: ab c"


def test_a_remote_storage_needs_its_hash_key_in_the_settings() -> None:
    document = {**MINIMAL, "storage": {"path": "s3://bucket/parallax"}}
    with pytest.raises(ConfigError, match=r"read\.hash_key must be set where storage\.path is a URI"):
        validate(document)
    assert validate({**document, "read": {"hash_key": "ab" * 16}}).read.hash_key == SecretStr("ab" * 16)


class TestSecrets:
    """No value of a secret option is ever shown, and each is taken as it is written."""

    DOCUMENT: ClassVar[dict[str, Any]] = {
        "kafka": {"bootstrap.servers": "b:9092", "sasl.password": "hunter2"},
        "topics": {"include": ["a"]},
        "storage": {"path": "/data"},
    }

    def test_settings_that_are_printed_hold_none(self) -> None:
        settings = validate(self.DOCUMENT)
        assert settings.kafka["sasl.password"] == "hunter2"
        assert "hunter2" not in f"{settings!r} {settings}"

    @pytest.mark.parametrize(
        "hook",
        [
            {"name": "a", "url": "http://h/hunter2", "secret": "hunter2"},
            {"name": "a", "format": "pagerduty", "routing_key": "hunter2"},
        ],
    )
    def test_those_of_a_receiver_are_never_printed_either(self, hook: dict[str, str]) -> None:
        settings = validate({**self.DOCUMENT, "alerting": {"webhooks": [hook]}})
        assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump_json(exclude={'kafka'})}"
        with pytest.raises(ConfigError) as error:
            validate({**self.DOCUMENT, "alerting": {"webhooks": [{**hook, "url": "hunter2", "timeout_ms": 1}]}})
        assert "hunter2" not in str(error.value)

    @pytest.mark.parametrize("option", ["url", "secret"])
    def test_one_of_a_receiver_that_is_not_text_is_refused(self, option: str) -> None:
        hook = {"name": "a", "url": "http://h/", option: 42798}
        with pytest.raises(ConfigError, match=rf"alerting\.webhooks\.0\.{option}: ") as error:
            validate({**self.DOCUMENT, "alerting": {"webhooks": [hook]}})
        assert "42798" not in str(error.value)

    @pytest.mark.parametrize("value", [12345, 0o123456, 1.5, True, None, ["hunter2"]])
    def test_one_that_is_not_text_is_refused(self, value: Any) -> None:
        # YAML takes 0123456 for a number, and an octal one.
        document = {**self.DOCUMENT, "kafka": {"bootstrap.servers": "b:9092", "sasl.password": value}}
        with pytest.raises(ConfigError, match=r"sasl\.password is not text; write it in quotes") as error:
            validate(document)
        assert str(value) not in str(error.value).replace("not text", "")

    @pytest.mark.parametrize(
        "text",
        [
            '"hunter2\n  y: [',
            "*hunter2",
            "&hunter2 *x",
            "{hunter2: [",
            "@hunter2",
            "!hunter2 x",
            "%hunter2",
            "\t- hunter2",
        ],
    )
    def test_a_file_that_is_no_yaml_is_refused_without_a_word_of_it(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "parallax.yaml"
        path.write_text(f"kafka:\n  bootstrap.servers: b:9092\n  sasl.password: {text}\n")
        with pytest.raises(ConfigError, match=r"not YAML \(line \d+, column \d+: .+\); correct it$") as error:
            load(path)
        assert "hunter2" not in str(error.value)
        assert "\n" not in str(error.value)
        assert error.value.__cause__ is None


class TestFilesOfSecrets:
    def test_an_option_may_be_in_a_file_of_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "password").write_text(" hunter2 \n")
        settings = validate({**MINIMAL, "kafka_files": {"sasl.password": str(tmp_path / "password")}})
        assert settings.kafka == {"bootstrap.servers": "h:1", "sasl.password": " hunter2 "}
        assert "hunter2" not in repr(settings)

    def test_one_that_is_given_twice_is_refused(self, tmp_path: Path) -> None:
        kafka = {**MINIMAL["kafka"], "sasl.password": "a"}
        with pytest.raises(ConfigError, match=r"sasl\.password is given by kafka and by kafka_files; keep one"):
            validate({**MINIMAL, "kafka": kafka, "kafka_files": {"sasl.password": str(tmp_path / "password")}})

    @pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (b"\xff", "not UTF-8")])
    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path, content: bytes | None, said: str) -> None:
        file = tmp_path / "password"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ConfigError, match=rf"kafka_files: sasl\.password: cannot be read \({said}"):
            validate({**MINIMAL, "kafka_files": {"sasl.password": str(file)}})

    def test_what_is_no_mapping_is_named(self) -> None:
        with pytest.raises(ConfigError, match="kafka_files"):
            validate({**MINIMAL, "kafka_files": ["x"]})


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ("9092", "'9092' is not host:port; write host:port[,host:port]"),
        (9092, "'9092' is not host:port; write host:port[,host:port]"),
        ("b:99999", "'b:99999' names no port; write one of 1 to 65535"),
        ("a:1,b:0", "'b:0' names no port; write one of 1 to 65535"),
        (",", "missing; write host:port[,host:port]"),
        (["a:1", "b"], "'b' is not host:port; write host:port[,host:port]"),
    ],
)
def test_an_address_of_a_broker_that_can_be_none_is_refused_with_the_file(servers: object, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        validate({"kafka": {"bootstrap.servers": servers}, "topics": {"include": ["a"]}})
    assert str(error.value) == f"settings: kafka: bootstrap.servers: {said}"


@pytest.mark.parametrize(
    ("option", "value"),
    [("alerting.heartbeat_interval_s", True), ("audit.interval_s", False), ("topics.brokers", [True])],
)
def test_true_is_no_number(option: str, value: object) -> None:
    section, name = option.split(".")
    document = {"kafka": {"bootstrap.servers": "b:1"}, "topics": {"include": ["a"]}}
    with pytest.raises(ConfigError) as error:
        validate(document | {section: document.get(section, {}) | {name: value}})
    assert str(error.value) == f"settings: {option}: is true or false, and no number; write a number"


def test_true_may_be_a_text_or_a_truth() -> None:
    document = {"kafka": {"bootstrap.servers": "b:1"}, "topics": {"include": ["a"]}}
    settings = validate(document | {"guard": {"mode": False, "internal_topics": True}})
    assert (settings.guard.mode, settings.guard.internal_topics) == ("off", True)
