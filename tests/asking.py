"""Requests to the status page, as a browser or somebody else sends them."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import urlencode, urlsplit


@dataclass(frozen=True)
class Answer:
    """What was answered."""

    status: int
    headers: Mapping[str, str]
    text: str


def ask(
    address: str,
    path: str = "/",
    *,
    form: Mapping[str, str] | None = None,
    user: str = "ann",
    password: str | None = None,
    **headers: str,
) -> Answer:
    """One request; redirects are not followed."""
    url = urlsplit(address)
    context = ssl._create_unverified_context() if url.scheme == "https" else None
    assert url.port is not None
    to = HTTPSConnection("127.0.0.1", url.port, context=context) if context else HTTPConnection("127.0.0.1", url.port)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if password is not None:
        sent["Authorization"] = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
    body = None
    if form is not None:
        body, sent["Content-Type"] = urlencode(form), "application/x-www-form-urlencoded"
    to.request("GET" if form is None else "POST", path, body, sent)
    answer = to.getresponse()
    text = answer.read().decode()
    to.close()
    return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, text)
