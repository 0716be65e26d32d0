"""Requests tokens for SASL/OAUTHBEARER with a client's credentials, and uses each one until it expires.

See RFC 6749, 4.4, and KIP-768. oauthlib makes the request and checks the answer; urllib3 transports them.
"""

from __future__ import annotations

import base64
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import urllib3
from kafka.net.sasl.oauth import AbstractTokenProvider
from oauthlib.oauth2 import BackendApplicationClient, OAuth2Error

from parallax.addresses import shown
from parallax.errors import one_line
from parallax.replica.errors import Unauthorized

_REUSED_FOR = 0.8
"""Of a token's life: then a new one is asked for, so that none ends on the way."""
_LIFE_S = 300.0
"""Of a token whose issuer does not say."""
_TIMEOUT_S = 5.0


class ReusedToken(AbstractTokenProvider):
    """Returns the last token while it is valid, and requests a new one after that; thread-safe.

    Args:
        clock: returns monotonic seconds; tests give their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._until = float("-inf")

    def token(self) -> str:
        """A valid token: the last one while it is valid, else a new one.

        Raises:
            Unauthorized: the issuer of tokens refuses one.
            OSError: the issuer does not answer, or its answer cannot be used.
        """
        with self._lock:
            if self._clock() >= self._until:
                asked_at = self._clock()
                self._token, life_s = self._fresh()
                self._until = asked_at + _REUSED_FOR * life_s
            return self._token

    @abstractmethod
    def _fresh(self) -> tuple[str, float]:
        """A new token, and for how many seconds it is valid; raises what `token` raises."""


class TokenProvider(ReusedToken):
    """Gets OAuth tokens from an endpoint.

    Args:
        url: address of the token endpoint.
        client_id: the client that asks.
        secret: the client's secret.
        scope: the scope to ask for; empty for the endpoint's default.
        authority: path of a PEM file of authorities that the endpoint's certificate is checked against; None for the
            system's.
        extensions: values of SASL extensions (KIP-342) by name, which go with each token.
        clock: returns monotonic seconds; tests give their own.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        secret: str,
        scope: str = "",
        *,
        authority: str | None = None,
        extensions: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self._url = url
        self._client_id = client_id
        # As Kafka's own clients send it by default: UTF-8, and not encoded as a form (urllib3's helper says latin-1).
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        self._scope = scope
        self._pool = urllib3.PoolManager(
            ca_certs=authority, cert_reqs="CERT_REQUIRED", timeout=_TIMEOUT_S, retries=urllib3.Retry(1, redirect=False)
        )
        self._extensions = dict(extensions or {})

    def extensions(self) -> dict[str, str]:
        """The SASL extensions that go with each token, value by name."""
        return self._extensions

    def _fresh(self) -> tuple[str, float]:
        answer = self._ask()
        return str(answer["access_token"]), float(answer.get("expires_in") or _LIFE_S)

    def _ask(self) -> Mapping[str, Any]:
        client = BackendApplicationClient(self._client_id)
        body = client.prepare_request_body(scope=self._scope or None)
        try:
            answer = self._pool.request("POST", self._url, body=body, headers=self._headers)
        except urllib3.exceptions.HTTPError as error:
            reason = one_line(getattr(error, "reason", None) or error)  # the error itself has path and query
            raise ConnectionError(f"the token endpoint {shown(self._url)} does not answer ({reason})") from None
        if answer.status in (400, 401, 403):
            raise Unauthorized(
                f"sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret: the token endpoint refuses them "
                f"(HTTP {answer.status})"
            )
        try:
            token: Mapping[str, Any] = client.parse_request_body_response(answer.data.decode("utf-8"))
        except (OAuth2Error, ValueError) as error:
            problem = f"HTTP {answer.status}, {type(error).__name__}"
            raise ConnectionError(f"the token endpoint {shown(self._url)} gives no token ({problem})") from error
        return token
