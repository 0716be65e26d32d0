from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path

import pytest

from parallax.replica.errors import BadOption
from parallax.replica.options import parse

SERVERS = {"bootstrap.servers": "a:1, b:2"}


def test_bootstrap_servers_are_taken_in_order_in_all_spellings() -> None:
    assert parse(SERVERS).bootstrap == (("a", 1), ("b", 2))
    assert parse({"bootstrap.servers": "[::1]:9092,PLAINTEXT://h:3"}).bootstrap == (("::1", 9092), ("h", 3))
    assert parse({"metadata.broker.list": "a:1"}).bootstrap == (("a", 1),)


@pytest.mark.parametrize(
    ("servers", "protocol", "speaks"),
    [
        ("SSL://a:1,SSL://b:2", None, "SSL"),
        ("ssl://a:1", None, "SSL"),
        ("b:2, SSL://a:1", None, "SSL"),
        ("PLAINTEXT://a:1", None, "PLAINTEXT"),
        ("SSL://a:1", "SSL", "SSL"),
        ("EXTERNAL://a:1", "SSL", "SSL"),
        ("a:1", None, "PLAINTEXT"),
    ],
)
def test_the_protocol_is_what_the_addresses_say_where_it_is_not_set(
    servers: str, protocol: str | None, speaks: str
) -> None:
    given = {"bootstrap.servers": servers} | ({"security.protocol": protocol} if protocol else {})
    assert parse(given).protocol == speaks


def test_an_address_of_sasl_over_tls_is_not_spoken_to_in_plain_text() -> None:
    given = {"bootstrap.servers": "SASL_SSL://a:1", "sasl.mechanism": "PLAIN"}
    assert parse(given | {"sasl.username": "u", "sasl.password": "p"}).protocol == "SASL_SSL"
    with pytest.raises(BadOption, match=r"^sasl\.username: missing"):
        parse(given)


@pytest.mark.parametrize(
    ("servers", "protocol", "says"),
    [
        ("SSL://a:1,PLAINTEXT://b:2", None, "says SSL:// and PLAINTEXT://; write one protocol"),
        ("SASL_SSL://a:1", "PLAINTEXT", "says SASL_SSL://, and security.protocol is PLAINTEXT; write one"),
        ("EXTERNAL://a:1", None, "EXTERNAL:// names no protocol; set security.protocol"),
        ("https://a:1", None, "HTTPS:// names no protocol"),
    ],
)
def test_addresses_that_leave_the_protocol_open_are_refused(servers: str, protocol: str | None, says: str) -> None:
    given = {"bootstrap.servers": servers} | ({"security.protocol": protocol} if protocol else {})
    with pytest.raises(BadOption, match=rf"^bootstrap\.servers: {re.escape(says)}"):
        parse(given)


def test_the_cluster_that_is_meant_is_an_option() -> None:
    assert parse(SERVERS).cluster_id is None
    assert parse({**SERVERS, "cluster.id": "abc"}).cluster_id == "abc"


@pytest.mark.parametrize("text", ["", "a", "a:b", "a:0", "a:70000", "a:1;b:2", "a..b:1", ".:1", f"{'a' * 64}.b:1"])
def test_bad_bootstrap_servers_are_named(text: str) -> None:
    with pytest.raises(BadOption, match=r"^bootstrap\.servers: "):
        parse({"bootstrap.servers": text})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("sasl.pasword", "x"),
        ("group.id", "g"),
        ("security.protocol", "TLS"),
        ("socket.receive.buffer.bytes", "many"),
    ],
)
def test_an_option_that_is_unknown_or_ill_typed_is_named(option: str, value: str) -> None:
    with pytest.raises(BadOption) as caught:
        parse({**SERVERS, option: value})
    assert caught.value.option == option
    assert str(caught.value).startswith(f"{option}: ")


@pytest.mark.parametrize("name", ["1", "", "?secret"])
def test_a_name_that_is_none_is_not_shown(name: str) -> None:
    with pytest.raises(BadOption, match=r"^kafka: one of its names is none of an option \(not shown here\); remove it"):
        parse({"bootstrap.servers": "localhost:9092", name: "2"})


def test_an_option_in_two_spellings_with_two_values_is_an_error() -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.username": "a", "sasl.password": "b"}
    same = {**SERVERS, **login, "sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"}
    parse(same)
    with pytest.raises(BadOption, match="given twice"):
        parse({**same, "sasl.mechanisms": "GSSAPI"})


def test_credentials_come_from_librdkafkas_options_or_from_the_java_clients() -> None:
    plain = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="me" password="se cret";'
    for options in ({"sasl.username": "me", "sasl.password": "se cret"}, {"sasl.jaas.config": jaas}):
        sasl = parse({**plain, **options}).sasl
        assert sasl is not None
        assert (sasl["mechanism"], sasl["sasl_plain_username"], sasl["sasl_plain_password"]) == (
            "SCRAM-SHA-256",
            "me",
            "se cret",
        )


def test_the_password_is_never_shown() -> None:
    options = parse(
        {
            **SERVERS,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": "hidden",
        }
    )
    assert "hidden" not in repr(options)


def test_missing_credentials_are_named() -> None:
    with pytest.raises(BadOption, match=r"^sasl\.password: missing"):
        parse({**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"})


def test_a_mechanism_that_is_not_supported_is_named() -> None:
    with pytest.raises(BadOption, match=r"^sasl\.mechanism: "):
        parse({**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "EXTERNAL"})


def test_tls_checks_certificate_and_host_unless_set_otherwise() -> None:
    ssl_only = {**SERVERS, "security.protocol": "SSL"}
    strict = parse(ssl_only).tls
    assert strict is not None
    assert strict.context().check_hostname
    assert strict.context().verify_mode is ssl.CERT_REQUIRED
    no_host = parse({**ssl_only, "ssl.endpoint.identification.algorithm": ""}).tls
    assert no_host is not None
    assert not no_host.context().check_hostname
    assert no_host.context().verify_mode is ssl.CERT_REQUIRED
    anyone = parse({**ssl_only, "enable.ssl.certificate.verification": "false"}).tls
    assert anyone is not None
    assert anyone.context().verify_mode is ssl.CERT_NONE


def test_plaintext_has_neither_tls_nor_sasl() -> None:
    options = parse(SERVERS)
    assert (options.tls, options.sasl) == (None, None)


@pytest.mark.parametrize("option", ["sasl.password", "sasl.mechanisms", "ssl.cafile", "https.ca.location"])
def test_an_option_without_effect_is_refused_under_the_default(option: str) -> None:
    with pytest.raises(BadOption, match=r"is set and security\.protocol is not \(PLAINTEXT by default\)"):
        parse({**SERVERS, option: "PLAIN"})


@pytest.mark.parametrize(
    ("protocol", "option", "fitting"),
    [
        ("PLAINTEXT", "ssl.ca.location", "SSL or SASL_SSL"),
        ("SASL_PLAINTEXT", "enable.ssl.certificate.verification", "SSL or SASL_SSL"),
        ("ssl", "sasl.jaas.config", "SASL_PLAINTEXT or SASL_SSL"),
    ],
)
def test_an_option_that_the_protocol_leaves_without_effect_is_refused(protocol: str, option: str, fitting: str) -> None:
    said = rf"^{option}: is set and security\.protocol is {protocol.upper()}: it has no effect; write {fitting}, or"
    with pytest.raises(BadOption, match=said):
        parse({**SERVERS, "security.protocol": protocol, option: "x"})
    parse({**SERVERS, "security.protocol": "PLAINTEXT", option: ""})


def test_a_file_that_is_missing_or_no_pem_is_named(tmp_path: Path) -> None:
    ssl_only = {**SERVERS, "security.protocol": "SSL"}
    with pytest.raises(BadOption, match=r"^ssl\.ca\.location: no such file"):
        parse({**ssl_only, "ssl.ca.location": str(tmp_path / "none.pem")})
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate")
    with pytest.raises(BadOption, match=r"^ssl\.ca\.location: .*PEM"):
        parse({**ssl_only, "ssl.cafile": str(junk)})
    with pytest.raises(BadOption, match=r"^ssl\.truststore\.type: only PEM"):
        parse({**ssl_only, "ssl.truststore.type": "JKS"})


class TestAKeyThatIsEncrypted:
    """OpenSSL would ask for its password on the terminal."""

    @pytest.fixture
    def given(self, tmp_path: Path) -> dict[str, str]:
        key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
        new = ["req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=x", "-passout", "pass:right"]
        files = ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run(["openssl", *new, *files], check=True, capture_output=True)
        names = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
        return {**SERVERS, "security.protocol": "SSL", **names}

    def test_opens_with_its_password(self, given: dict[str, str]) -> None:
        assert parse({**given, "ssl.key.password": "right"}).tls is not None

    def test_without_its_password_is_named_and_nobody_is_asked(self, given: dict[str, str]) -> None:
        with pytest.raises(BadOption, match=r"^ssl\.key\.password: missing; the key in .*key\.pem is encrypted$"):
            parse(given)

    def test_a_wrong_password_is_named_and_not_shown(self, given: dict[str, str]) -> None:
        with pytest.raises(BadOption, match=r"^ssl\.key\.password: does not open the key in .*key\.pem") as error:
            parse({**given, "ssl.key.password": "hunter2"})
        assert "hunter2" not in str(error.value)
