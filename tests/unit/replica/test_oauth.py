"""Tokens for SASL/OAUTHBEARER, from a real HTTP server."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator

import jwt
import pytest

from parallax.config import SECRETS
from parallax.replica.errors import BadOption, Unauthorized
from parallax.replica.oauth import TokenProvider
from parallax.replica.options import parse
from tests.builders.clock import Clock
from tests.patience import PATIENCE_S
from tests.tokens import CLIENT, SECRET, Endpoint, endpoint


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    with endpoint() as made:
        yield made


@pytest.fixture
def issuer(server: Endpoint) -> Endpoint:
    server.asked.clear()
    server.life_s, server.answer = 300, None
    return server


def options(issuer: Endpoint, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": "127.0.0.1:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": issuer.url,
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
        **{f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in more.items()},
    }


def provider(issuer: Endpoint, **more: str) -> TokenProvider:
    sasl = parse(options(issuer, **more)).sasl
    assert sasl is not None
    made = sasl["sasl_oauth_token_provider"]
    assert isinstance(made, TokenProvider)
    return made


def test_a_token_is_got_with_client_id_and_secret(issuer: Endpoint) -> None:
    token = provider(issuer, scope="read monitor").token()
    assert jwt.decode(token, options={"verify_signature": False})["sub"] == "reader"
    assert issuer.asked == [{"grant_type": ["client_credentials"], "scope": ["read monitor"]}]


def test_the_java_clients_spelling_is_understood(issuer: Endpoint) -> None:
    given = options(issuer)
    del given["sasl.oauthbearer.client.id"], given["sasl.oauthbearer.client.secret"]
    login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    given["sasl.jaas.config"] = f'{login} clientId="{CLIENT}" clientSecret="{SECRET}" scope="a";'
    sasl = parse(given).sasl
    assert sasl is not None
    assert sasl["sasl_oauth_token_provider"].token()
    assert issuer.asked[0]["scope"] == ["a"]
    newer = options(issuer)
    del newer["sasl.oauthbearer.client.id"]
    assert parse({**newer, "sasl.oauthbearer.client.credentials.client.id": CLIENT}).sasl


def test_a_token_is_used_again_until_most_of_its_life_is_over(issuer: Endpoint) -> None:
    clock = Clock(0.0)
    made = TokenProvider(issuer.url, CLIENT, SECRET, clock=clock)
    first = made.token()
    clock.now = 239.0
    assert made.token() == first
    assert len(issuer.asked) == 1
    clock.now = 240.0
    made.token()
    assert len(issuer.asked) == 2


def test_many_connections_at_once_ask_for_one_token(issuer: Endpoint) -> None:
    made = provider(issuer)
    got: list[str] = []
    threads = [threading.Thread(target=lambda: got.append(made.token())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(got) == 8
    assert len(set(got)) == 1
    assert len(issuer.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 403])
def test_an_endpoint_that_refuses_is_unauthorized_and_the_secret_is_not_shown(issuer: Endpoint, status: int) -> None:
    issuer.answer = (status, b'{"error": "invalid_client"}')
    with pytest.raises(Unauthorized, match=r"client\.secret: the token endpoint refuses them \(HTTP") as caught:
        provider(issuer).token()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, b"{}"), (200, b"\xff"), (500, b"oops"), (302, b"")])
def test_an_answer_that_is_no_token_is_an_outage(issuer: Endpoint, answer: tuple[int, bytes]) -> None:
    issuer.answer = answer
    with pytest.raises(OSError, match=r"gives no token \(HTTP"):
        provider(issuer).token()


def test_an_endpoint_that_is_away_is_an_outage_and_a_token_is_got_once_it_is_back(issuer: Endpoint) -> None:
    made = TokenProvider("http://127.0.0.1:1/token", CLIENT, SECRET)
    with pytest.raises(OSError, match="does not answer") as caught:
        made.token()
    assert SECRET not in str(caught.value)
    issuer.answer = (503, b"")
    back = provider(issuer)
    with pytest.raises(OSError, match="gives no token"):
        back.token()
    issuer.answer = None
    assert back.token()


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/token", "URL"])
def test_the_query_of_the_endpoint_is_in_no_error(issuer: Endpoint, address: str) -> None:
    issuer.answer, query = (503, b""), "hunter" + "2"  # not in a line that a traceback shows
    address = issuer.url if address == "URL" else address
    with pytest.raises(OSError, match=r"the token endpoint http://127\.0\.0\.1:") as caught:
        TokenProvider(f"{address}?code={query}", CLIENT, SECRET).token()
    shown = "".join(traceback.format_exception(caught.value))
    assert query not in shown


def test_extensions_go_with_each_token(issuer: Endpoint) -> None:
    assert provider(issuer, extensions="logicalCluster=lkc-1, identityPoolId=p").extensions() == {
        "logicalCluster": "lkc-1",
        "identityPoolId": "p",
    }


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"method": "default"}, "sasl.oauthbearer.method"),
        ({"token_endpoint_url": "file:///token"}, "sasl.oauthbearer.token.endpoint.url"),
        ({"client_id": ""}, "sasl.oauthbearer.client.id"),
        ({"client_secret": ""}, "sasl.oauthbearer.client.secret"),
        ({"extensions": "auth=x"}, "sasl.oauthbearer.extensions"),
        ({"extensions": "name"}, "sasl.oauthbearer.extensions"),
    ],
)
def test_what_cannot_be_used_is_named(issuer: Endpoint, more: dict[str, str], named: str) -> None:
    with pytest.raises(BadOption, match=f"^{named}: ") as caught:
        provider(issuer, **more)
    assert SECRET not in str(caught.value)


def test_the_secret_is_a_secret_of_the_settings() -> None:
    assert "sasl.oauthbearer.client.secret" in SECRETS
