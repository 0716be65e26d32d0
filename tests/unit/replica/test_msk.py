"""Tokens for Amazon MSK by AWS's own signer, which asks nobody; no MSK was asked either."""

from __future__ import annotations

import base64
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from typer.testing import CliRunner

from parallax.cli import app
from parallax.replica.connection import Connection, Deadline
from parallax.replica.errors import BadOption, Unauthorized
from parallax.replica.msk import MskTokenProvider
from parallax.replica.options import parse
from tests.patience import PATIENCE_S

from .servers import _exactly, _send, server

SECRET = "wJalrXUtnFEMI/planted"
BROKER = "b-1.demo.abc123.c2.kafka.eu-central-1.amazonaws.com"
GIVEN = {"bootstrap.servers": f"{BROKER}:9098", "security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAPLANTED")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


def provider(**more: str) -> MskTokenProvider:
    sasl = parse({**GIVEN, **more}).sasl
    assert sasl is not None
    made = sasl["sasl_oauth_token_provider"]
    assert isinstance(made, MskTokenProvider)
    return made


def signed(token: str) -> Any:
    """The address that a token is, and what was signed in it."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return url, {name: value for name, (value,) in parse_qs(url.query).items()}


def test_a_token_is_an_address_that_is_signed_for_the_region_of_the_brokers() -> None:
    token = provider().token()
    url, query = signed(token)
    assert (url.scheme, url.netloc) == ("https", "kafka.eu-central-1.amazonaws.com")
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].startswith("AKIAPLANTED/")
    assert query["X-Amz-Credential"].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert query["X-Amz-Expires"] == "900"
    assert len(query["X-Amz-Signature"]) == 64
    assert SECRET not in str(url)


def test_a_token_is_used_again_for_most_of_a_quarter_of_an_hour() -> None:
    made = provider()
    now = time.monotonic()
    made._clock = lambda: now
    first = made.token()
    life_s = (made._until - now) / 0.8
    assert 890 < life_s <= 900
    made._token = "kept"
    now += 0.79 * life_s
    assert made.token() == "kept"
    now += 0.02 * life_s
    assert signed(made.token())[0].netloc == signed(first)[0].netloc


@pytest.mark.parametrize(
    ("servers", "variable", "region"),
    [
        (f"{BROKER}:9098", None, "eu-central-1"),
        ("boot-abc.c1.kafka-serverless.us-east-1.amazonaws.com:9098", None, "us-east-1"),
        ("b-1.x.y.c1.kafka.cn-north-1.amazonaws.com.cn:9098", "AWS_REGION", "cn-north-1"),
        ("kafka.example.org:9098", "AWS_REGION", "us-gov-west-1"),
        ("kafka.example.org:9098", "AWS_DEFAULT_REGION", "us-gov-west-1"),
    ],
)
def test_the_region_is_in_the_names_of_brokers_or_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, servers: str, variable: str | None, region: str
) -> None:
    if variable is not None:
        monkeypatch.setenv(variable, "us-gov-west-1")
    url, _ = signed(provider(**{"bootstrap.servers": servers}).token())
    assert url.netloc == f"kafka.{region}.amazonaws.com"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bootstrap.servers": "kafka.example.org:9098"}, r"^bootstrap\.servers: .*AWS_REGION$"),
        ({"security.protocol": "SASL_PLAINTEXT"}, r"^security\.protocol: AWS_MSK_IAM needs SASL_SSL$"),
        ({"sasl.jaas.config": 'IAMLoginModule required awsProfileName="x";'}, r"^sasl\.jaas\.config: does not go"),
        ({"sasl.password": "x"}, r"^sasl\.password: does not go with AWS_MSK_IAM"),
    ],
)
def test_what_cannot_be_used_is_named(more: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        parse({**GIVEN, **more})


def test_without_credentials_it_is_unauthorized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(Unauthorized, match="finds no AWS credentials"):
        provider().token()


def test_credentials_that_cannot_be_had_are_an_outage_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConnectionError, match=r"cannot be had \(ProfileNotFound: .*nobody"):
        provider().token()


def test_without_the_extra_a_command_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    monkeypatch.delitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", raising=False)
    config = tmp_path / "parallax.yaml"
    options = "".join(f"  {name}: {value}\n" for name, value in GIVEN.items())
    config.write_text(f"kafka:\n{options}topics: {{include: [a]}}\nstorage: {{path: {tmp_path / 'data'}}}\n")
    ended = CliRunner().invoke(app, ["check", "-c", str(config)])
    assert ended.exit_code == 2
    assert ended.stderr == (
        "parallax: sasl.mechanism: AWS_MSK_IAM needs the extra msk; "
        "install the wheel with it: pip install 'FILE.whl[msk]'\n"
    )


class Taker:
    """A broker that takes any token, over TLS."""

    def __init__(self, folder: Path) -> None:
        key, certificate = folder / "key.pem", folder / "cert.pem"
        new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]
        names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(["openssl", *new, *names], check=True, capture_output=True)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self.authority = certificate
        self.mechanisms: list[str] = []
        self.taken: list[bytes] = []

    def __call__(self, connection: Any) -> None:
        with self._context.wrap_socket(connection, server_side=True) as wrapped:
            while (head := _exactly(wrapped, 4)) is not None:
                self._answer(wrapped, _exactly(wrapped, struct.unpack(">i", head)[0]) or b"")

    def _answer(self, wrapped: Any, body: bytes) -> None:
        key, version, correlation = struct.unpack_from(">hhi", body)
        answer: Any
        if key == ApiVersionsRequest.API_KEY:
            kind = ApiVersionsResponse.ApiVersion
            keys = [kind(api_key=k, min_version=low, max_version=high) for k, low, high in ((17, 0, 1), (36, 0, 1))]
            answer = ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)
        elif key == SaslHandshakeRequest.API_KEY:
            self.mechanisms.append(SaslHandshakeRequest.decode(body, version=version, header=True).mechanism)
            answer = SaslHandshakeResponse(error_code=0, mechanisms=["OAUTHBEARER"])
        else:
            self.taken.append(bytes(SaslAuthenticateRequest.decode(body, version=version, header=True).auth_bytes))
            answer = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=0)
        _send(wrapped, correlation, answer, version)


@pytest.fixture
def taker(tmp_path: Path) -> Iterator[tuple[Taker, int]]:
    made = Taker(tmp_path)
    with server(made) as (_, port):
        yield made, port


def test_each_connection_hands_the_token_over_as_oauthbearer(
    taker: tuple[Taker, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, port = taker
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    here = {"bootstrap.servers": f"127.0.0.1:{port}", "ssl.ca.location": str(broker.authority)}
    options = parse({**GIVEN, **here})
    for _ in range(2):
        connection = Connection(("127.0.0.1", port), options, Deadline(PATIENCE_S * 1000))
        shown = connection.greeting()
        connection.close()
    assert shown.tls == "TLSv1.3"
    assert 1 < ((shown.certificate_ends or 0) - time.time()) / 86_400 < 3
    assert broker.mechanisms == ["OAUTHBEARER"] * 2
    first, second = broker.taken
    assert first == second, "the token still stood"
    assert first.startswith(b"n,,\x01auth=Bearer ")
    url, _ = signed(first.removeprefix(b"n,,\x01auth=Bearer ").rstrip(b"\x01").decode())
    assert url.netloc == "kafka.eu-west-3.amazonaws.com"
