"""A token endpoint for the tests: client credentials in, signed tokens out, as an identity provider gives them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "parallax", "s3cret/+ä"
ISSUER, AUDIENCE = "https://issuer.example", "kafka"


class Endpoint:
    """Issues tokens that live for some seconds.

    Attributes:
        asked: the forms that clients have sent.
        life_s: of a token.
        answer: what is answered instead of a token: status and body; None for a token.
        user: whom tokens speak of.
    """

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.asked: list[dict[str, list[str]]] = []
        self.life_s = 300
        self.answer: tuple[int, bytes] | None = None
        self.user = "reader"
        self.url = ""

    def keys(self, file: Path) -> None:
        """Write the public key as brokers read it (RFC 7517)."""
        key = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        file.write_text(json.dumps({"keys": [{**key, "kid": "one", "use": "sig", "alg": "RS256"}]}))

    def answered(self, authorization: str | None, form: dict[str, list[str]]) -> tuple[int, bytes]:
        """The answer to a request."""
        self.asked.append(form)
        if self.answer is not None:
            return self.answer
        wanted = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {wanted}" or form.get("grant_type") != ["client_credentials"]:
            return 401, b'{"error": "invalid_client"}'
        now = int(time.time())
        claims = {"sub": self.user, "iat": now, "exp": now + self.life_s, "iss": ISSUER, "aud": AUDIENCE}
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "one"})
        answer: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "expires_in": self.life_s}
        return 200, json.dumps(answer).encode()


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """A token endpoint on a free port, for as long as the block runs."""
    made = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, text = made.answered(self.headers.get("Authorization"), parse_qs(body.decode()))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}/token"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()
