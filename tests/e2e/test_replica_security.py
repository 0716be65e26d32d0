"""SASL and TLS against a real broker, by the options that people give their clients."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from parallax.lab.cluster import Cluster
from parallax.lab.ports import free_ports
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import BadOption, Unauthorized, Unreachable

PASSWORD = "correct-horse"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], dict[str, str], Path]]:
    """Options for the SASL listener, for the TLS listener, and the CA's certificate, of one broker."""
    folder = tmp_path_factory.mktemp("tls")
    certify(folder)
    cluster = Cluster(brokers=1)
    broker = cluster.brokers[1]
    sasl, tls = free_ports(2)
    listeners = f"PLAINTEXT://{broker.address},SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}"
    cluster._settings = {
        **cluster._settings,
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        **{
            f"listener.name.{name}.plain.sasl.jaas.config": f'{LOGIN} user_reader="{PASSWORD}";'
            for name in ("sasl", "tls")
        },
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
    }
    with cluster:
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "reader", "sasl.password": PASSWORD}
        yield (
            {"bootstrap.servers": f"127.0.0.1:{sasl}", "security.protocol": "SASL_PLAINTEXT", **login},
            {"bootstrap.servers": f"127.0.0.1:{tls}", "security.protocol": "SASL_SSL", **login},
            folder / "ca.pem",
        )


def certify(folder: Path) -> None:
    """Make a certificate for 127.0.0.1 that is its own authority, as OpenSSL's command does."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "openssl is needed on the path"
    key, certificate = folder / "key.pem", folder / "ca.pem"
    new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=broker"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, *new, *names], check=True, capture_output=True)
    (folder / "broker.pem").write_text(key.read_text() + certificate.read_text())


def asked(options: dict[str, str]) -> str:
    client = ReplicaClient(options, timeout_ms=5000)
    try:
        assert client.log_end_offsets(1, [("nothing", 0)])
        return client.cluster_id
    finally:
        client.close()


def test_sasl_plain_is_accepted_in_both_spellings(secured: tuple[dict[str, str], dict[str, str], Path]) -> None:
    sasl, _, _ = secured
    assert asked(sasl)
    java = {name: value for name, value in sasl.items() if name not in ("sasl.username", "sasl.password")}
    assert asked({**java, "sasl.jaas.config": f'{LOGIN} username="reader" password="{PASSWORD}";'})


def test_a_wrong_password_is_unauthorized_and_not_shown(secured: tuple[dict[str, str], dict[str, str], Path]) -> None:
    sasl, _, _ = secured
    with pytest.raises(Unauthorized, match=r"sasl\.password") as caught:
        asked({**sasl, "sasl.password": "battery-staple"})
    assert "battery-staple" not in str(caught.value)


def test_a_mechanism_that_the_broker_does_not_accept_is_told(
    secured: tuple[dict[str, str], dict[str, str], Path],
) -> None:
    sasl, _, _ = secured
    with pytest.raises(Unauthorized, match=r"sasl\.mechanism: the broker accepts PLAIN"):
        asked({**sasl, "sasl.mechanism": "SCRAM-SHA-512"})


def test_tls_with_its_authority_is_accepted_and_without_it_is_not(
    secured: tuple[dict[str, str], dict[str, str], Path],
) -> None:
    _, tls, authority = secured
    assert asked({**tls, "ssl.ca.location": str(authority)})
    with pytest.raises(Unreachable, match="certificate"):
        asked(tls)
    with pytest.raises(BadOption, match=r"ssl\.ca\.location"):
        asked({**tls, "ssl.ca.location": str(authority.with_name("none.pem"))})


def test_plain_text_to_a_tls_port_is_unreachable(secured: tuple[dict[str, str], dict[str, str], Path]) -> None:
    _, tls, _ = secured
    with pytest.raises(Unreachable):
        asked({"bootstrap.servers": tls["bootstrap.servers"]})
