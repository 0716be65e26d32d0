"""Who may see the page, and who may act on it.

Passwords are kept as bcrypt's hashes, as in Prometheus' own web configuration. A browser sends the password with every
request, even with one that another site makes it send. So each form has a token that only this page can make. A request
whose headers say that it comes from another site is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections.abc import Mapping

import bcrypt
from starlette.requests import Request

_REMEMBERED = 1000


class Users:
    """The users that may see the page.

    Args:
        hashes: by name, the bcrypt hash of the password; if empty, nobody needs a password.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = dict(hashes)
        self._known: set[bytes] = set()
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def named(self, header: str | None) -> str | None:
        """The user that an ``Authorization`` header names with the right password; None if there is none.

        bcrypt is slow, and Prometheus asks every few seconds. So the hash of a password that was right is remembered,
        made with a secret key of this process.

        Args:
            header: the header's value; None if the request has none.
        """
        try:
            scheme, _, encoded = (header or "").partition(" ")
            name, colon, password = base64.b64decode(encoded, validate=True).decode("utf-8").partition(":")
        except (binascii.Error, ValueError):
            return None
        if scheme.lower() != "basic" or not colon:
            return None
        mark = hmac.digest(self._secret, f"{name}:{password}".encode(), hashlib.sha256)
        with self._lock:
            if mark in self._known:
                return name
        # Of an unknown user another one's is checked, so that it takes as long as a wrong password.
        known = self._hashes.get(name) or next(iter(self._hashes.values()), "")
        if not _is_of(password, known) or name not in self._hashes:
            return None
        with self._lock:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known.add(mark)
        return name

    def token(self, user: str, about: str) -> str:
        """The secret text that a form carries, so that only a page shown to this user can send it.

        Args:
            user: the user to whom the form is shown.
            about: the finding that the form is about.
        """
        return hmac.new(self._secret, f"{user}\n{about}".encode(), hashlib.sha256).hexdigest()

    def is_token(self, given: str, user: str, about: str) -> bool:
        """Whether ``given`` is the text that `token` makes for this user and the finding ``about``."""
        return hmac.compare_digest(given.encode(), self.token(user, about).encode())


def _is_of(password: str, known: str) -> bool:
    try:
        # bcrypt takes 72 bytes; newer versions refuse more, the others ignore it.
        return bcrypt.checkpw(password.encode()[:72], known.encode())
    except ValueError:
        return False


def is_from_elsewhere(request: Request) -> bool:
    """Whether another web site made the browser send a request, by the headers ``Sec-Fetch-Site`` and ``Origin``."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return True
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("host")
