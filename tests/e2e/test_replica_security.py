"""SASL, TLS and ACLs against a real broker, by the options that people give their clients."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow.parquet as pq
import pytest
import yaml
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner, Result

from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.refusals import Change
from parallax.alerting.state import MonitorState
from parallax.cli import app
from parallax.config import validate
from parallax.findings.table import FindingsTable
from parallax.guard.command import read_record
from parallax.guard.holds import SETTINGS, Event, open_holds
from parallax.guard.run import GuardRounds
from parallax.lab.cluster import Cluster
from parallax.lab.ports import free_ports
from parallax.lab.traffic import LegacyTransactionalProducer, PlainProducer
from parallax.lab.waiting import until
from parallax.model import IsolationLevel, MissingRight, ReadEvent, TopicPartition
from parallax.repair.placing import layout_of
from parallax.replica.changes import MARKER_RIGHTS, MOVE_RIGHTS, EndMarker, MayRepair
from parallax.replica.client import ReplicaClient, Watermarks
from parallax.replica.errors import BadOption, Unauthorized, Unreachable
from parallax.source.feedback import Recorded, write
from parallax.source.offsets import Range, Reader
from parallax.source.options import progress_options, replica_options
from parallax.source.planner import Planner
from parallax.source.progress_source import ProgressWatch
from tests.builders.absences import absence
from tests.e2e.accused import accused
from tests.e2e.job_process import JobProcess, patient
from tests.e2e.kafka_tools import run_as_written
from tests.e2e.secured import AUTHORIZER, SCRAM_LOGIN, add_user, certify, granting
from tests.e2e.transactional import send_late, unverified_by
from tests.tokens import AUDIENCE, CLIENT, ISSUER, SECRET, Endpoint, endpoint

PASSWORD = "correct-horse"
NOBODY = 424_242
"""A producer id that no coordinator has given out."""
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed"
OAUTH_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Secured(NamedTuple):
    """One broker: options for its listeners, the CA's certificate, the cluster (its plain listener).

    Attributes:
        mutual: options for the one that asks for a client's certificate.
        short: options for the one whose sessions end after a second.
        tokens: who gives the tokens that it takes.
    """

    sasl: dict[str, str]
    tls: dict[str, str]
    mutual: dict[str, str]
    short: dict[str, str]
    authority: Path
    cluster: Cluster
    tokens: Endpoint


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The broker; clients of the plain listener may do anything, ``reader`` only what an ACL grants."""
    folder = tmp_path_factory.mktemp("tls")
    certify(folder)
    cluster = Cluster(brokers=1)
    broker = cluster.brokers[1]
    ports = dict(zip(("SASL", "TLS", "MUTUAL", "SHORT"), free_ports(4), strict=True))
    listeners = f"PLAINTEXT://{broker.address}," + ",".join(f"{n}://127.0.0.1:{p}" for n, p in ports.items())
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in ("reader", "parallax", "parallax-repair"))
    protocols = {"SASL": "SASL_PLAINTEXT", "TLS": "SASL_SSL", "MUTUAL": "SSL", "SHORT": "SASL_PLAINTEXT"}
    cluster._settings = {
        **cluster._settings,
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        + ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.tls.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.short.sasl.enabled.mechanisms": "PLAIN",
        **{f"listener.name.{name}.plain.sasl.jaas.config": f"{LOGIN} {users};" for name in ("sasl", "tls", "short")},
        **{f"listener.name.{name}.scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN};" for name in ("sasl", "tls")},
        **{f"listener.name.sasl.oauthbearer.{name}": value for name, value in takes_tokens(folder).items()},
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.short.plain.connections.max.reauth.ms": "1000",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        **AUTHORIZER,
    }
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "reader", "sasl.password": PASSWORD}

    def options(name: str) -> dict[str, str]:
        by = {} if name == "MUTUAL" else login
        return {"bootstrap.servers": f"127.0.0.1:{ports[name]}", "security.protocol": protocols[name], **by}

    with endpoint() as tokens, pytest.MonkeyPatch.context() as patch:
        tokens.keys(folder / "keys.json")
        # The broker reads a file of keys only where that is allowed by name.
        patch.setenv("JAVA_TOOL_OPTIONS", f"-D{_ALLOWED}.urls={folder.as_uri()}/keys.json")
        with cluster:
            yield Secured(*map(options, ports), folder / "ca.pem", cluster, tokens)


def takes_tokens(folder: Path) -> dict[str, str]:
    """How a broker checks tokens, by the keys of who gives them."""
    return {
        "sasl.jaas.config": f"{OAUTH_LOGIN};",
        "sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": f"{folder.as_uri()}/keys.json",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


def signed(folder: Path, authority: Path) -> None:
    """Make a client's key and certificate, signed by the authority."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "openssl is needed on the path"
    key, request, certificate = folder / "key.pem", folder / "request.pem", folder / "certificate.pem"
    new = ["req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=client", "-keyout", str(key)]
    subprocess.run([openssl, *new, "-out", str(request)], check=True, capture_output=True)
    by = ["-CA", str(authority), "-CAkey", str(authority.with_name("key.pem")), "-CAcreateserial", "-days", "2"]
    sign = ["x509", "-req", "-in", str(request), *by, "-out", str(certificate)]
    subprocess.run([openssl, *sign], check=True, capture_output=True)
    (folder / "client.pem").write_text(key.read_text() + certificate.read_text())


def certificate_of(folder: Path) -> str:
    """The certificate of a client, which is no authority."""
    return (folder / "certificate.pem").read_text()


@pytest.fixture(scope="module")
def admin(secured: Secured) -> AdminClient:
    """A client of the plain listener: a super user."""
    return AdminClient({"bootstrap.servers": secured.cluster.bootstrap_servers})


def acl(
    operation: AclOperation, name: str, kind: ResourceType = ResourceType.TOPIC, user: str = "reader"
) -> AclBinding:
    allow = AclPermissionType.ALLOW
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, allow)


def grant(admin: AdminClient, *bindings: AclBinding) -> None:
    """Grant rights; returns once the broker goes by them."""
    for future in admin.create_acls(list(bindings)).values():
        future.result(60)
    until(lambda: all(admin.describe_acls(exactly(one)).result(60) for one in bindings), f"{bindings} to be granted")


def revoke(admin: AdminClient, binding: AclBinding) -> None:
    """Revoke a right that is granted; returns once the broker does not go by it any more."""
    one = exactly(binding)
    assert len(admin.describe_acls(one).result(60)) == 1
    for future in admin.delete_acls([one]).values():
        future.result(60)
    until(lambda: not admin.describe_acls(one).result(60), f"{binding} to be revoked")


def exactly(binding: AclBinding) -> AclBindingFilter:
    """What matches one right alone."""
    names = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    return AclBindingFilter(*(getattr(binding, name) for name in names))


def asked(options: dict[str, str]) -> str:
    client = ReplicaClient(options, timeout_ms=30_000)
    try:
        assert client.log_end_offsets(1, [("nothing", 0)])
        return client.cluster_id
    finally:
        client.close()


def test_sasl_plain_is_accepted_in_both_spellings(secured: Secured) -> None:
    sasl = secured.sasl
    assert asked(sasl)
    java = {name: value for name, value in sasl.items() if name not in ("sasl.username", "sasl.password")}
    assert asked({**java, "sasl.jaas.config": f'{LOGIN} username="reader" password="{PASSWORD}";'})


def test_the_protocol_of_an_address_is_spoken_and_addresses_may_be_a_list(secured: Secured, tmp_path: Path) -> None:
    with_authority = {**secured.tls, "ssl.ca.location": str(secured.authority)}
    for options in (secured.sasl, with_authority):
        protocol, address = options["security.protocol"], options["bootstrap.servers"]
        kafka = {**options, "bootstrap.servers": [f"{protocol}://{address}"]}
        del kafka["security.protocol"]
        settings = validate({"kafka": kafka, "topics": {"include": ["nothing"]}, "storage": {"path": str(tmp_path)}})
        assert asked(settings.kafka), protocol
        plain = {**kafka, "bootstrap.servers": [address]}
        settings = validate({"kafka": plain, "topics": {"include": ["nothing"]}, "storage": {"path": str(tmp_path)}})
        with pytest.raises((Unreachable, Unauthorized, BadOption)):
            asked(settings.kafka)


def test_a_wrong_password_is_unauthorized_and_not_shown(secured: Secured) -> None:
    sasl = secured.sasl
    with pytest.raises(Unauthorized, match=r"sasl\.password") as caught:
        asked({**sasl, "sasl.password": "battery-staple"})
    assert "battery-staple" not in str(caught.value)


def test_a_mechanism_that_the_broker_does_not_accept_is_reported(
    secured: Secured,
) -> None:
    sasl = secured.sasl
    with pytest.raises(Unauthorized, match=r"sasl\.mechanism: the broker accepts .*PLAIN.*, not SCRAM-SHA-256"):
        asked({**sasl, "sasl.mechanism": "SCRAM-SHA-256"})


def by_scram(admin: AdminClient, options: Mapping[str, str]) -> dict[str, str]:
    """Options for a listener by SCRAM-SHA-512, once the broker knows their user by it as well."""
    add_user(admin, options["sasl.username"], PASSWORD)
    login = {**options, "sasl.mechanism": "SCRAM-SHA-512"}
    until(lambda: _is_let_in(login), "the broker to know the user")
    return login


def test_scram_is_accepted_and_a_wrong_password_is_not_shown(secured: Secured, admin: AdminClient) -> None:
    login = by_scram(admin, {**secured.sasl, "sasl.username": "scrammer"})
    with pytest.raises(Unauthorized, match=r"sasl\.password") as caught:
        asked({**login, "sasl.password": "battery-staple"})
    assert "battery-staple" not in str(caught.value)


def _is_let_in(options: dict[str, str]) -> bool:
    try:
        return bool(asked(options))
    except Unauthorized:
        return False


def by_token(secured: Secured) -> dict[str, str]:
    """Options for the listener that takes tokens."""
    names = ("bootstrap.servers", "security.protocol")
    return {name: secured.sasl[name] for name in names} | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": secured.tokens.url,
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
    }


def test_a_token_is_accepted_and_its_user_has_the_rights_that_were_granted(
    secured: Secured, admin: AdminClient, topic: str
) -> None:
    secured.cluster.create_topic(topic)
    client = ReplicaClient(by_token(secured), timeout_ms=30_000)
    try:
        assert client.cluster_id
        assert topic not in client.metadata()
        grant(admin, acl(AclOperation.DESCRIBE, topic))
        until(lambda: topic in client.metadata(), "the topic to be seen")
    finally:
        client.close()


def test_what_is_no_token_of_that_broker_is_unauthorized_and_an_issuer_that_is_away_is_not(secured: Secured) -> None:
    options, tokens = by_token(secured), secured.tokens
    tokens.answer = (200, b'{"access_token": "a.b.c", "token_type": "Bearer"}')
    with pytest.raises(Unauthorized, match="authentication failed"):
        asked(options)
    tokens.answer = (401, b"{}")
    with pytest.raises(Unauthorized, match="the token endpoint refuses them"):
        asked(options)
    tokens.answer = (503, b"")
    with pytest.raises(Unreachable, match=r"the token endpoint .* gives no token"):
        asked(options)
    tokens.answer = None
    assert asked(options)


def test_a_session_that_ends_is_begun_again_and_nothing_fails(secured: Secured) -> None:
    client = ReplicaClient(secured.short, timeout_ms=30_000)
    try:
        began = time.monotonic()
        answers = 0
        while answers <= 4 or time.monotonic() < began + 4:
            (end,) = client.log_end_offsets(1, [("nothing", 0)]).values()
            assert end is not None
            answers += 1
            time.sleep(0.25)
    finally:
        client.close()


def test_certificates_that_are_renewed_are_used_without_a_restart(secured: Secured, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        signed(folder, secured.authority)
    used = tmp_path / "client.pem"
    shutil.copy(first / "client.pem", used)
    (tmp_path / "ca.pem").write_text(certificate_of(second))  # not the broker's authority
    given = {**secured.mutual, "ssl.certificate.location": str(used), "ssl.ca.location": str(tmp_path / "ca.pem")}
    client = ReplicaClient(given, timeout_ms=30_000)
    try:
        with pytest.raises(Unreachable, match="certificate"):
            _ = client.cluster_id
        shutil.copy(secured.authority, tmp_path / "renewed.pem")
        (tmp_path / "renewed.pem").replace(tmp_path / "ca.pem")
        assert until(lambda: _answers(client), "the renewed authority to be used")
        used.write_text("half of a cert")
        assert client.log_end_offsets(1, [("nothing", 0)]), "the old one goes on"
        shutil.copy(second / "client.pem", tmp_path / "other.pem")
        (tmp_path / "other.pem").replace(used)
        assert client.log_end_offsets(1, [("nothing", 0)])
    finally:
        client.close()


def _answers(client: ReplicaClient) -> bool:
    try:
        return bool(client.cluster_id)
    except Unreachable:
        return False


def test_a_broker_that_asks_for_a_certificate_is_not_reached_without_one(secured: Secured) -> None:
    with pytest.raises(Unreachable):
        asked({**secured.mutual, "ssl.ca.location": str(secured.authority)})


def test_tls_with_its_authority_is_accepted_and_without_it_is_not(
    secured: Secured,
) -> None:
    tls, authority = secured.tls, secured.authority
    assert asked({**tls, "ssl.ca.location": str(authority)})
    with pytest.raises(Unreachable, match="certificate"):
        asked(tls)
    with pytest.raises(BadOption, match=r"ssl\.ca\.location"):
        asked({**tls, "ssl.ca.location": str(authority.with_name("none.pem"))})


def test_plain_text_to_a_tls_port_and_tls_to_one_of_plain_text_are_told(secured: Secured) -> None:
    for name in ("tls", "mutual"):
        address = {"bootstrap.servers": getattr(secured, name)["bootstrap.servers"]}
        with pytest.raises(Unreachable, match=r"broker 127.* speaks TLS \(security\.protocol is PLAINTEXT\)"):
            asked(address)
    for address in (secured.cluster.bootstrap_servers, secured.sasl["bootstrap.servers"]):
        with pytest.raises(Unreachable, match=r"broker 127.* does not speak TLS \(security\.protocol is SASL_SSL\)"):
            asked({**secured.tls, "bootstrap.servers": address})


class Monitor:
    """What the job does with one topic but for Spark: progress, plans of what is read next, and metrics."""

    def __init__(self, options: Mapping[str, str], pattern: str, feedback: Path) -> None:
        given = {f"kafka.{name}": value for name, value in options.items()}
        given |= {"topics.pattern": pattern, "metadata.refresh.ms": "100", "planning.patience.ms": "10000"}
        self.client = ReplicaClient(options)
        self.feedback = feedback
        write(feedback, {})
        self.watch = ProgressWatch(progress_options(given))
        reading = {**given, "isolation.level": "both", "feedback.path": str(feedback)}
        self.planner = Planner(replica_options(reading), self.client)
        self.state = MonitorState()
        self.changes: list[Change] = []
        self.plan: dict[Reader, Range] = {}
        self.recorded: dict[Reader, Recorded] = {}

    def tick(self) -> Monitor:
        """Ask once, and take it that what was planned has been read and recorded."""
        self.changes += self.state.update_progress(self.watch.tick().rows())
        self.plan = self.planner.plan(self.plan) or self.plan
        for reader, span in self.plan.items():
            event = ReadEvent.OK if span.start < span.end else span.state
            self.recorded[reader] = Recorded(span.end, span.topic_id, event)
        write(self.feedback, self.recorded)
        for isolation in IsolationLevel:
            mine = {r: entry for r, entry in self.recorded.items() if r.isolation == isolation}
            self.state.update_positions(isolation, {(r.topic, r.partition, r.broker): e[0] for r, e in mine.items()})
        return self

    @property
    def read(self) -> set[tuple[int, ReadEvent]]:
        """Where the readers are, and what became of them."""
        return {(entry.position, entry.event) for entry in self.recorded.values()}

    def metric(self, name: str, **labels: str) -> float | None:
        registry = CollectorRegistry()
        registry.register(ParallaxCollector(self.state))
        return registry.get_sample_value(f"parallax_{name}", labels)

    def unknown(self, topic: str) -> float | None:
        labels = {"topic": topic, "partition": "0", "isolation_level": "read_uncommitted", "reason": "unauthorized"}
        return self.metric("unknown_offsets", **labels)

    def refused(self, topic: str, reason: str) -> float | None:
        return self.metric("unauthorized_replicas", topic=topic, reason=reason)

    def close(self) -> None:
        self.watch.close()
        self.planner.close()
        self.client.close()


@pytest.fixture
def watched(secured: Secured, admin: AdminClient, topic: str, tmp_path: Path) -> Iterator[Monitor]:
    """A monitor that has read a topic of ten records."""
    secured.cluster.create_topic(topic)
    grant(admin, acl(AclOperation.READ, topic), acl(AclOperation.DESCRIBE, topic))
    PlainProducer(secured.cluster.bootstrap_servers).fill([topic], 10)
    made = Monitor(secured.sasl, topic, tmp_path / "feedback.json")
    until(lambda: made.tick().read == {(10, ReadEvent.OK)}, "the records to be read")
    assert made.changes == []
    yield made
    made.close()


def test_a_revoked_right_to_read_is_reported_and_unknown_until_it_is_granted_again(
    secured: Secured, admin: AdminClient, topic: str, watched: Monitor
) -> None:
    revoke(admin, acl(AclOperation.READ, topic))
    until(lambda: watched.tick().refused(topic, "read") == 1, "the broker to refuse")
    until(lambda: watched.tick().read == {(10, ReadEvent.UNAUTHORIZED)}, "the readers to stop")
    PlainProducer(secured.cluster.bootstrap_servers).fill([topic], 5)
    until(lambda: watched.tick().unknown(topic) == 5, "the five new records to be counted as unknown")
    assert watched.metric("broker_reachable", broker_id="1") == 1
    (began,) = watched.changes
    assert (began.topic, began.right, began.began) == (topic, MissingRight.READ, True)
    assert "READ on the topic is needed" in began.error

    grant(admin, acl(AclOperation.READ, topic))
    until(lambda: watched.tick().read == {(15, ReadEvent.OK)}, "the rest to be read")
    until(lambda: watched.tick().refused(topic, "read") == 0, "the right to be there again")
    assert watched.unknown(topic) in (None, 0)
    assert [change.began for change in watched.changes] == [True, False]


def test_a_topic_that_may_not_even_be_seen_any_more_is_not_taken_for_deleted(
    admin: AdminClient, topic: str, watched: Monitor
) -> None:
    for operation in (AclOperation.READ, AclOperation.DESCRIBE):
        revoke(admin, acl(operation, topic))
    until(lambda: watched.tick().refused(topic, "describe") == 1, "the broker to refuse")
    until(lambda: watched.tick().read == {(10, ReadEvent.UNAUTHORIZED)}, "the readers to stop")
    until(lambda: topic not in watched.client.metadata(), "the topic to be hidden")
    for _ in range(5):
        assert watched.tick().read == {(10, ReadEvent.UNAUTHORIZED)}
    assert watched.unknown(topic) == 1, "nobody knows how much was written"
    grant(admin, acl(AclOperation.READ, topic))
    until(lambda: watched.tick().read == {(10, ReadEvent.OK)}, "the readers to go on")
    until(lambda: watched.tick().refused(topic, "describe") == 0, "the right to be there again")


def test_a_coordinator_leaves_out_transactions_that_may_not_be_described(
    secured: Secured, admin: AdminClient, topic: str
) -> None:
    secured.cluster.create_topic(topic)
    producer = LegacyTransactionalProducer(secured.cluster.bootstrap_servers, topic)
    producer.begin()
    producer.send(topic, "key", "value")
    producer.commit()
    client = ReplicaClient(secured.sasl, timeout_ms=30_000)
    try:
        listed = client.list_transactions()
        assert not listed.unanswered, "no error says so"
        assert not listed.transactions
        grant(admin, acl(AclOperation.DESCRIBE, topic, ResourceType.TRANSACTIONAL_ID))
        (found,) = until(lambda: client.list_transactions().transactions, "the transaction to be listed")
        assert found.transactional_id == topic
    finally:
        client.close()


@pytest.mark.parametrize(
    ("command", "exit_code"), [(("audit", "--dry-run"), 3), (("run",), 2)], ids=["an audit's dry run", "the job"]
)
def test_a_command_that_may_read_nothing_says_so_in_one_line(
    secured: Secured, admin: AdminClient, topic: str, tmp_path: Path, command: tuple[str, ...], exit_code: int
) -> None:
    secured.cluster.create_topic(topic)
    grant(admin, acl(AclOperation.DESCRIBE, topic))
    document: dict[str, Any] = {
        "kafka": secured.sasl,
        "topics": {"include": [topic]},
        "storage": {"path": str(tmp_path)},
        "alerting": {"metrics_port": 0},
    }
    (tmp_path / "parallax.yaml").write_text(json.dumps(patient(document)))
    ended = CliRunner().invoke(app, [*command, "-c", str(tmp_path / "parallax.yaml")])
    assert ended.exit_code == exit_code
    (line,) = ended.stderr.strip().splitlines()
    assert "not authorized: READ on the topic is needed" in line


def test_what_a_broker_shows_of_itself(secured: Secured) -> None:
    for options, by_tls in ((secured.sasl, False), ({**secured.tls, "ssl.ca.location": str(secured.authority)}, True)):
        client = ReplicaClient(options, timeout_ms=30_000)
        try:
            shown = client.greeting(1)
        finally:
            client.close()
        assert shown.version == (4, 2)
        assert (shown.tls is not None) is by_tls
        assert (0 < (shown.certificate_ends or 0) - time.time() < 3 * 86_400) is by_tls


@pytest.mark.parametrize("command", ["run", "audit", "check"])
@pytest.mark.parametrize("wrong", ["the key of the hashes", "SASL where there is none"])
def test_what_shows_only_with_a_broker_is_one_line_as_well(
    secured: Secured, topic: str, tmp_path: Path, command: str, wrong: str
) -> None:
    secured.cluster.create_topic(topic)
    plain = {"bootstrap.servers": secured.cluster.bootstrap_servers}
    key = tmp_path / "key"
    key.write_bytes(bytes(range(128, 160)))
    document: dict[str, Any] = {
        "kafka": plain if wrong == "the key of the hashes" else {**secured.sasl, **plain},
        "topics": {"include": [topic]},
        "storage": {"path": str(tmp_path / "data")},
        "read": {"hash_key_file": str(key)} if wrong == "the key of the hashes" else {},
        "alerting": {"metrics_port": 0},
    }
    config = tmp_path / "parallax.yaml"
    config.write_text(json.dumps(patient(document)))
    ended = CliRunner().invoke(app, [command, "-c", str(config)])
    said = {
        "the key of the hashes": f"read.hash_key_file: {key} must hold 32 hexadecimal digits",
        "SASL where there is none": "security.protocol: the broker accepts no SASL at this port, and PLAIN was set",
    }[wrong]
    if command == "check":
        assert ended.exit_code == 1
        assert [line for line in ended.stdout.splitlines() if line.startswith("wrong ") and said in line]
        return
    assert ended.exit_code == 2
    *_, line = ended.stderr.strip().splitlines()
    assert said in line
    assert "Traceback" not in ended.output
    assert PASSWORD not in ended.output


_STATES = "__transaction_state"
_RIGHTS = (
    ("DESCRIBE", AclOperation.DESCRIBE, ResourceType.TOPIC),
    ("READ", AclOperation.READ, ResourceType.TOPIC),
    ("DESCRIBE_CONFIGS", AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
    (f"DESCRIBE on {_STATES}", AclOperation.DESCRIBE, ResourceType.TOPIC),
    ("DESCRIBE on a transactional id", AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
)
"""What is needed, in an order in which none brings the next with it."""


def _on(name: str, topic: str) -> str:
    """What one of the rights is granted on, where the watched topic, and its transactional id, are called so."""
    return _STATES if name.endswith(_STATES) else topic


def test_the_check_names_each_right_that_is_missing_until_none_is(
    secured: Secured, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    secured.cluster.create_topic(topic)
    producer = LegacyTransactionalProducer(secured.cluster.bootstrap_servers, topic)
    producer.begin()
    producer.send(topic, "key", "value")
    config = tmp_path / "parallax.yaml"
    document: dict[str, Any] = {
        "kafka": secured.sasl,
        "topics": {"include": [topic]},
        "storage": {"path": str(tmp_path / "data")},
        "alerting": {"metrics_port": 0},
    }
    config.write_text(json.dumps(patient(document)))

    def said(result: str) -> str:
        done = CliRunner().invoke(app, ["check", "-c", str(config), "--format", "json"])
        lines = json.loads(done.stdout)
        assert done.exit_code == (1 if any(line["result"] == "wrong" for line in lines) else 0), lines
        return " ".join(line["text"] for line in lines if line["result"] == result)

    try:
        for name, operation, kind in _RIGHTS:
            until(lambda name=name: name in said("wrong"), f"{name} to be named")
            grant(admin, acl(operation, _on(name, topic), kind))
        until(lambda: not said("wrong"), "nothing to be wrong")
        assert PASSWORD not in said("ok")
    finally:
        producer.commit()


def test_the_commands_of_the_document_grant_all_that_is_needed_and_no_more(
    secured: Secured, admin: AdminClient, tmp_path: Path
) -> None:
    topics = ("orders", "customers")
    for name in topics:
        secured.cluster.create_topic(name)
    producer = LegacyTransactionalProducer(secured.cluster.bootstrap_servers, "orders-writer")
    producer.begin()
    producer.send("orders", "key", "value")
    document = {
        "kafka": {**secured.sasl, "sasl.username": "parallax"},
        "topics": {"include": list(topics)},
        "storage": {"path": str(tmp_path / "data")},
        "alerting": {"metrics_port": 0},
    }
    (tmp_path / "parallax.yaml").write_text(json.dumps(patient(document)))

    def wrong() -> list[str]:
        done = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "parallax.yaml"), "--format", "json"])
        lines = [line["text"] for line in json.loads(done.stdout) if line["result"] == "wrong"]
        assert done.exit_code == (1 if lines else 0)
        return lines

    try:
        assert wrong()
        run_as_written(granting("security.md"), tmp_path, BROKER=secured.cluster.bootstrap_servers)
        until(lambda: not wrong(), "nothing to be wrong")
    finally:
        producer.commit()
    allowed = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:parallax", None, AclOperation.ANY, AclPermissionType.ANY
    )
    granted = {(one.operation, one.restype, one.name) for one in admin.describe_acls(allowed).result(30)}
    assert granted == {
        (operation, kind, _on(right, name))
        for right, operation, kind in _RIGHTS
        for name in (topics if kind is ResourceType.TOPIC else ("*",))
    }


def test_the_commands_of_repair_grant_what_a_repair_needs_on_the_cluster(
    secured: Secured, admin: AdminClient, tmp_path: Path
) -> None:
    user = "parallax-repair"
    client = ReplicaClient({**secured.sasl, "sasl.username": user}, timeout_ms=30_000)
    with contextlib.closing(client):
        assert client.may_repair() is None, "nothing is granted yet"
        run_as_written(granting("repair.md"), tmp_path, BROKER=secured.cluster.bootstrap_servers)
        all_of_them = MayRepair(mark=True, move=True, rates=True)
        until(lambda: client.may_repair() == all_of_them, "the rights to be there")
    for operation in (AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
        revoke(admin, acl(operation, "kafka-cluster", ResourceType.BROKER, user))


def test_the_check_names_each_right_of_a_repair_that_is_missing_until_none_is(
    secured: Secured, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    user, path = "parallax-repair", tmp_path / "repair.yaml"
    secured.cluster.create_topic(topic)
    document: dict[str, Any] = {
        "kafka": {**secured.sasl, "sasl.username": user},
        "topics": {"include": [topic]},
        "storage": {"path": str(tmp_path / "data")},
        "alerting": {"metrics_port": 0},
        "repair": {"mode": "on"},
    }
    path.write_text(json.dumps(patient(document)))

    def is_said(result: str, text: str) -> bool:
        done = CliRunner().invoke(app, ["check", "-c", str(path), "--format", "json"])
        (line,) = [line for line in json.loads(done.stdout) if line["about"] == "repair"]
        return line["result"] == result and text in line["text"]

    def until_it_says(result: str, text: str) -> None:
        until(lambda: is_said(result, text), f"{text} to be said")

    def on_cluster(operation: AclOperation) -> AclBinding:
        return acl(operation, "kafka-cluster", ResourceType.BROKER, user)

    until_it_says("unknown", "grant DESCRIBE on the cluster as well")
    given = (
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
    )
    try:
        grant(admin, on_cluster(given[0]))
        until_it_says("wrong", "CLUSTER_ACTION on the cluster (or ALTER, from Kafka 3.8 on) is missing")
        grant(admin, on_cluster(given[1]))
        until_it_says("note", "to copy, or to move leadership, ALTER on the cluster is missing")
        grant(admin, on_cluster(given[2]))
        until_it_says("note", "to copy where a replication throttle is set, DESCRIBE_CONFIGS on the cluster is missing")
        grant(admin, on_cluster(given[3]))
        until_it_says("ok", "it has its rights on the cluster")
    finally:
        for one in given:
            revoke(admin, on_cluster(one))


@pytest.mark.parametrize(
    ("right", "may"),
    [
        (None, None),
        (AclOperation.DESCRIBE, MayRepair(mark=False, move=False)),
        (AclOperation.CLUSTER_ACTION, MayRepair(mark=True, move=False)),
        (AclOperation.ALTER, MayRepair(mark=True, move=True)),
    ],
    ids=["no right", "DESCRIBE", "CLUSTER_ACTION", "ALTER"],
)
def test_each_right_of_a_repair_allows_what_is_said_of_it_and_no_more(
    secured: Secured, admin: AdminClient, topic: str, right: AclOperation | None, may: MayRepair | None
) -> None:
    user, place = "parallax-repair", TopicPartition(topic, 0)
    secured.cluster.create_topic(topic)
    with unverified_by(secured.cluster):
        send_late(secured.cluster, topic, NOBODY)
    reads = [acl(AclOperation.READ, topic, user=user), acl(AclOperation.DESCRIBE_CONFIGS, topic, user=user)]
    # Who may not describe the cluster is not told what it may do there, though it may do it.
    asks = {AclOperation.DESCRIBE, right} - {None} if right else set()
    grant(admin, *reads, *(acl(one, "kafka-cluster", ResourceType.BROKER, user) for one in asks))

    def is_refused(change: Callable[[], object], needs: str) -> bool:
        try:
            change()
        except Unauthorized as error:
            return needs in str(error)
        return False

    marker = EndMarker(place, NOBODY, 0, -1, is_commit=True)
    client = ReplicaClient({**secured.sasl, "sasl.username": user}, timeout_ms=30_000)
    try:
        until(lambda: topic in client.metadata(), "the topic to be seen")
        until(lambda: client.may_repair() == may, "the rights to be there")
        allowed = may or MayRepair(mark=False, move=False)
        assert ("DESCRIBE on the cluster" in layout_of(client, place).error) == (right is None), "to plan a copy"
        assert is_refused(lambda: client.reassign(place, [1]), MOVE_RIGHTS) != allowed.move
        assert is_refused(lambda: client.elect(place), MOVE_RIGHTS) != allowed.move
        assert is_refused(lambda: client.write_end_marker(1, marker), MARKER_RIGHTS) != allowed.mark
        stable = client.watermarks(1, [place])[place]
        assert isinstance(stable, Watermarks)
        assert (stable.last_stable_offset > 0) == allowed.mark, "what is refused changes nothing"
    finally:
        client.close()
        for one in asks:
            revoke(admin, acl(one, "kafka-cluster", ResourceType.BROKER, user))


def test_what_reports_may_ask_of_groups_and_lead_of_a_topic_is_named_where_it_is_missing(
    secured: Secured, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    secured.cluster.create_topic(topic)
    FindingsTable(str(tmp_path / "data")).append([accused(topic, 1, 1, [1])])
    document: dict[str, Any] = {
        "kafka": secured.sasl,
        "topics": {"include": [topic]},
        "storage": {"path": str(tmp_path / "data")},
        "alerting": {"metrics_port": 0},
    }
    path = tmp_path / "parallax.yaml"
    path.write_text(json.dumps(patient(document)))

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, [*words, "-c", str(path)])

    def of_groups() -> str:
        done = run("check", "--format", "json")
        (line,) = [line for line in json.loads(done.stdout) if line["about"] == "consumer groups"]
        return f"{line['result']}: {line['text']}"

    until(lambda: of_groups().startswith("note: DESCRIBE on consumer groups is not granted"), "it to be missing")
    groups = acl(AclOperation.DESCRIBE, "*", ResourceType.GROUP)
    grant(admin, groups)
    until(lambda: of_groups().startswith("ok"), "it to be there")
    revoke(admin, groups)

    refused = run("lead", topic)
    assert (refused.exit_code, "DESCRIBE on the topic" in refused.stderr) == (2, True), refused.output
    grant(admin, acl(AclOperation.DESCRIBE, topic))
    until(lambda: run("lead", topic).exit_code == 1, "the wrong replica to be named")


_CLUSTER = acl(AclOperation.DESCRIBE, "kafka-cluster", ResourceType.BROKER)
_GUARDED = {"cleanup.policy": "compact", "delete.retention.ms": "600000"}


class GuardOfReader:
    """``parallax guard`` and ``parallax check``, as the user who has only what is granted."""

    def __init__(self, secured: Secured, topic: str, folder: Path) -> None:
        self.topic, self.storage, self._config = topic, str(folder / "data"), folder / "parallax.yaml"
        document: dict[str, Any] = {
            "kafka": secured.sasl,
            "topics": {"include": [topic]},
            "storage": {"path": self.storage},
            "alerting": {"metrics_port": 0},
            "guard": {"mode": "act", "min_free_percent": 1, "settle_s": 0},
        }
        self.settings = validate(patient(document))
        self._config.write_text(yaml.safe_dump(patient(document)))
        self._super = ReplicaClient({"bootstrap.servers": secured.cluster.bootstrap_servers}, timeout_ms=30_000)

    def close(self) -> None:
        self._super.close()

    def guard(self, *words: str) -> tuple[int, str]:
        """Exit code, and the one line of a failure."""
        ended = CliRunner().invoke(app, ["guard", *words, "-c", str(self._config)])
        if ended.exit_code == 0:
            return 0, ended.stdout
        assert ended.stdout == ""
        (line,) = ended.stderr.strip().splitlines()
        return ended.exit_code, line

    def check(self) -> str:
        """What is wrong with the guard."""
        ended = CliRunner().invoke(app, ["check", "-c", str(self._config), "--format", "json"])
        lines = [one for one in json.loads(ended.stdout) if one["about"] == "guard"]
        return " ".join(one["text"] for one in lines if one["result"] == "wrong")

    def own(self) -> dict[str, str]:
        """The topic's own settings, as a super user sees them."""
        shown = self._super.own_configs(1, [self.topic], SETTINGS)[self.topic]
        assert isinstance(shown, dict)
        return {name: one.value for name, one in shown.items() if one.is_own}

    def rounds(self, mode: str, count: int) -> list[Event]:
        """What the guard of a job puts on record in some rounds, while a replica is away whose bound is near."""
        bound = int(time.time() * 1000) + 600_000
        near = absence(2, self.topic, lacks_from=0, since_ms=0, retention_ms=1, bound_ms=bound)
        client = ReplicaClient(self.settings.kafka, timeout_ms=30_000)
        settings = self.settings.guard.model_copy(update={"mode": mode})
        rounds = GuardRounds(settings, f"{self.storage}-{mode}", client, lambda: [near])
        with contextlib.closing(client), contextlib.closing(rounds):
            for _ in range(count):
                rounds.round()
        return read_record(f"{self.storage}-{mode}")[1]


def test_without_one_of_its_rights_the_guard_holds_nothing_and_says_which_is_missing(
    secured: Secured, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    secured.cluster.create_topic(topic, config=_GUARDED)
    grant(admin, acl(AclOperation.READ, topic), acl(AclOperation.DESCRIBE, topic))
    one = GuardOfReader(secured, topic, tmp_path)
    alters, describes = (acl(getattr(AclOperation, f"{name}_CONFIGS"), topic) for name in ("ALTER", "DESCRIBE"))

    def refused(right: str, by_check: str) -> None:
        until(lambda: by_check in one.check(), f"the check to name {right}")
        code, line = one.guard("hold", topic)
        assert code == 2
        assert line.startswith(f"parallax: guard hold {topic}: ")
        assert right in line
        assert one.own() == {"delete.retention.ms": "600000"}
        assert one.guard("status") != (0, ""), "what is on record can be read"
        assert open_holds(read_record(one.storage)[0]) == [], "nothing is half-set"

    with contextlib.closing(one):
        refused("DESCRIBE_CONFIGS on the topic is needed", f"DESCRIBE_CONFIGS on {topic} is missing")
        grant(admin, describes)
        refused("DESCRIBE on the cluster is needed", "DESCRIBE on the cluster is needed")
        grant(admin, _CLUSTER)
        refused("ALTER_CONFIGS on the topic is needed", f"ALTER_CONFIGS on {topic} is missing")
        asked = one.rounds("act", 6)
        assert [event.kind for event in asked] == ["intended", "refused", "releasing", "released"]
        (advice,) = one.rounds("advise", 3)
        assert advice.kind == "advised"
        assert f"kafka-configs.sh --bootstrap-server HOST:9092 --alter --entity-type topics --entity-name {topic}" in (
            advice.reason
        )
        assert asked[1].reason.splitlines()[1:] != [], "as with advise"
        revoke(admin, describes)
        revoke(admin, _CLUSTER)
        written = granting("guard.md").replace("orders customers", topic).replace("User:parallax", "User:reader")
        run_as_written(written, tmp_path, BROKER=secured.cluster.bootstrap_servers)
        until(lambda: not one.check(), "nothing to be missing")
        assert one.guard("hold", topic)[0] == 0, "ALTER_CONFIGS implies DESCRIBE_CONFIGS"
        held = one.own()
        assert held.keys() == set(SETTINGS)
        revoke(admin, alters)
        grant(admin, describes)
        until(lambda: "ALTER_CONFIGS" in one.check(), "the right to be gone")
        code, line = one.guard("release", topic)
        assert (code, "nothing can be put back: not authorized: ALTER_CONFIGS" in line) == (2, True)
        assert one.own() == held
        grant(admin, alters)
        until(lambda: not one.check(), "the right to be there")
        assert one.guard("release", topic)[0] == 0
        assert one.own() == {"delete.retention.ms": "600000"}
        for given in (_CLUSTER, alters, describes):
            revoke(admin, given)


@pytest.mark.release
def test_the_job_reads_by_a_clients_certificate(
    secured: Secured, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    secured.cluster.create_topic(topic)
    for _, operation, kind in _RIGHTS:
        grant(admin, acl(operation, topic, kind, user="CN=client"))
    PlainProducer(secured.cluster.bootstrap_servers).fill([topic], 10)
    signed(tmp_path, secured.authority)
    files = {"ssl.certificate.location": str(tmp_path / "client.pem"), "ssl.ca.location": str(secured.authority)}
    kafka = {**secured.mutual, **files}
    with JobProcess(tmp_path / "job", kafka["bootstrap.servers"], topic, kafka=kafka).start() as job:
        for isolation in IsolationLevel:
            until(
                lambda level=isolation: (
                    job.metric("parallax_view_position", topic=topic, isolation_level=level.option) == 10
                ),
                "all to be recorded",
                interval=1.0,
            )
        assert job.stop() == 0


_PLANTED = {
    "the password": PASSWORD,
    "the client's secret": SECRET,
    "the key of the hashes": "5ec4e7" * 5 + "00",
    "a receiver's address": "hook-5ec4e7",
    "a receiver's secret": "sign-5ec4e7",
    "a password of the storage": "store-5ec4e7",
    "a record's key": "key-5ec4e7",
    "a record's value": "value-5ec4e7",
}


def audited_by_token(secured: Secured, topic: str, job: JobProcess, folder: Path) -> bytes:
    """What an audit says that comes by OAUTHBEARER, as the same user; Spark's workers get tokens of their own."""
    kafka = by_token(secured)
    (folder / "client").write_text(kafka.pop("sasl.oauthbearer.client.secret"))
    document = yaml.safe_load(job.config.read_text())
    document |= {"kafka": kafka, "kafka_files": {"sasl.oauthbearer.client.secret": str(folder / "client")}}
    (folder / "audit.yaml").write_text(yaml.safe_dump(document))
    command = [sys.executable, "-m", "parallax.cli", "audit", "-c", str(folder / "audit.yaml"), "--format", "json"]
    ended = subprocess.run(command, capture_output=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert [one["topic"] for one in json.loads(ended.stdout)["partitions"]] == [topic]
    return ended.stdout + ended.stderr


def _events_to(folder: Path) -> dict[str, str]:
    """Have Spark write down what it does: settings, plans of every micro-batch, and what each was read from."""
    folder.mkdir(parents=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.hadoop.fs.s3a.secret.key": _PLANTED["a password of the storage"],
    }


def test_no_secret_no_key_and_no_value_is_let_out_by_the_job(
    secured: Secured, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    secured.cluster.create_topic(topic)
    operations = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    grant(admin, *(acl(operation, topic) for operation in operations))
    producer = LegacyTransactionalProducer(secured.cluster.bootstrap_servers, topic)
    producer.begin()
    producer.send(topic, _PLANTED["a record's key"], _PLANTED["a record's value"])
    producer.commit()
    given, folder = tmp_path / "given", tmp_path / "job"
    given.mkdir()
    (given / "password").write_text(PASSWORD)
    (given / "key").write_text(_PLANTED["the key of the hashes"])
    kafka = by_scram(admin, {**secured.tls, "ssl.ca.location": str(secured.authority)})
    assert kafka["security.protocol"] == "SASL_SSL"
    del kafka["sasl.password"]
    hook = {
        "name": "hook",
        "url": "http://127.0.0.1:1/" + _PLANTED["a receiver's address"],
        "secret": _PLANTED["a receiver's secret"],
    }
    job = JobProcess(
        folder,
        secured.tls["bootstrap.servers"],
        topic,
        kafka=kafka,
        kafka_files={"sasl.password": str(given / "password")},
        read={"hash_key_file": str(given / "key")},
        alerting={"webhooks": [hook]},
        spark={"conf": _events_to(folder / "events")},
    )
    with job.start():
        until(
            lambda: job.metric("parallax_view_position", topic=topic) == 4,
            "all to be recorded",
            interval=1.0,
        )
        until(lambda: job.metric("parallax_heartbeat_timestamp_seconds"), "it to be compared")
        seen = {}
        for process in (job.process, *job.process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):  # some of Spark's live for a moment
                seen[f"the command line of {process.pid}"] = " ".join(process.cmdline()).encode()
                seen[f"the environment of {process.pid}"] = repr(process.environ()).encode()
        assert len(seen) > 4
        for path in ("/", f"/topics/{topic}", f"/topics/{topic}/0", "/metrics", "/readyz"):
            with urllib.request.urlopen(f"http://127.0.0.1:{job.port}{path}", timeout=60) as answer:
                seen[path] = answer.read()
        assert job.stop() == 0
    seen["the audit"] = audited_by_token(secured, topic, job, given)
    for file in filter(Path.is_file, folder.rglob("*")):
        if file != job.config:
            is_table = file.suffix == ".parquet" and file.stat().st_size
            seen[str(file)] = repr(pq.read_table(file).to_pylist()).encode() if is_table else file.read_bytes()
    shown = [
        f"{what} stands in {where}"
        for what, text in _PLANTED.items()
        for where, found in seen.items()
        if text.encode() in found
    ]
    assert shown == []
    plans = [found for where, found in seen.items() if where.startswith(str(folder / "events"))]
    checkpoints = [found for where, found in seen.items() if "/checkpoints/" in where]
    tables = [found for where, found in seen.items() if where.endswith(".parquet")]
    for looked_at, word in ((plans, "physicalPlanDescription"), (checkpoints, topic), (tables, topic)):
        assert any(word.encode() in found for found in looked_at)
