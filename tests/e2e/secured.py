"""Brokers that ask for a login, and grant no more than what the commands of the documents grant."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.lab.broker import ProxiedListener
from parallax.lab.cluster import Cluster

SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Whoever comes without a login may do anything, all others what an ACL grants."""


def brokers_that_ask(
    protocol: str,
    login: Mapping[str, str],
    version: str = DEFAULT_KAFKA_VERSION,
    jvm_options: Sequence[str] = (),
) -> Cluster:
    """Three brokers with `AUTHORIZER`: ``bootstrap_servers`` ask for no login, `addresses` do.

    Args:
        protocol: the ``security.protocol`` of the listeners that ask.
        login: their settings, by name without the prefix of the listener.
        version: Kafka's version.
        jvm_options: more options of each broker's JVM.
    """
    settings = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,PROXIED:{protocol},CONTROLLER:PLAINTEXT",
        **{f"listener.name.proxied.{name}": value for name, value in login.items()},
        **AUTHORIZER,
    }
    cluster = Cluster(version, proxied=True, settings=settings, jvm_options=jvm_options)
    for broker in cluster.brokers.values():
        assert broker.proxied is not None
        broker.proxied = ProxiedListener(broker.proxied.port, broker.proxied.port)
    return cluster


def addresses(cluster: Cluster) -> str:
    """The addresses of the listeners that ask for a login, for Kafka's option ``bootstrap.servers``."""
    ports = [broker.proxied.port for broker in cluster.brokers.values() if broker.proxied is not None]
    return ",".join(f"127.0.0.1:{port}" for port in ports)


def brokers_with_tls(folder: Path) -> Cluster:
    """Three brokers that ask for TLS and SCRAM-SHA-512; their authority is ``ca.pem`` in a folder."""
    certify(folder)
    login = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
    }
    return brokers_that_ask("SASL_SSL", login)


def add_user(admin: Any, name: str, password: str) -> None:
    """Have the brokers know a user by SCRAM-SHA-512."""
    known = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(name, known, password.encode())
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(30)


def certify(folder: Path) -> None:
    """Make a certificate for 127.0.0.1 that is its own authority, as OpenSSL's command does."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "openssl is needed on the path"
    key, certificate = folder / "key.pem", folder / "ca.pem"
    new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=broker"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, *new, *names], check=True, capture_output=True)
    (folder / "broker.pem").write_text(key.read_text() + certificate.read_text())


def granting(document: str) -> str:
    """The block of a document in docs/operate that grants rights, as it is written there."""
    page = Path(__file__).parents[2] / "docs" / "operate" / document
    blocks: list[str] = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "kafka-acls.sh" in block]
    return block
