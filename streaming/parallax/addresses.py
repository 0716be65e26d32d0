"""Checks of addresses in settings: URLs of webhooks and the like, and ``host:port`` lists of brokers.

`shown` removes what may be secret in a URL before it is logged or printed.
"""

from __future__ import annotations

import re

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

_HOW = "write host:port[,host:port]"
NO_ADDRESS = "is no address; write http:// or https://, a host, a port that can be, and a path"


def is_address(text: str) -> bool:
    """Whether ``text`` is an HTTP or HTTPS URL to which messages can be posted."""
    if re.fullmatch(r"https?://[^\s/?#]+(?:[/?#]\S*)?", text) is None:
        return False
    try:
        return parse_url(text).port != 0
    except LocationParseError:
        return False


def names_a_user(address: str) -> bool:
    """Whether the URL ``address`` holds a user name before its host, and perhaps a password: ``https://me:pw@host``."""
    return parse_url(address).auth is not None


def shown(address: str) -> str:
    """The URL ``address`` without the parts that may be secret: user, password, query and fragment."""
    return parse_url(address)._replace(auth=None, query=None, fragment=None).url


def brokers(text: str) -> tuple[tuple[str, int], ...]:
    """The hosts and ports that ``bootstrap.servers`` names, in the order given.

    Args:
        text: its value. Each part may begin with a protocol, as in ``SASL_SSL://kafka-1:9093``, which is ignored.

    Raises:
        ValueError: a part is not ``host:port``, no part is given, or the text holds an ``@``.
    """
    if "@" in text:  # what is before it is a secret
        raise ValueError(f"holds an @; {_HOW}, and who logs in under sasl.*")
    found = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"(?:[A-Za-z_]+://)?(\[[0-9A-Za-z:.%_-]+\]|[\w.-]+):([0-9]{1,9})", part)
        if match is None:
            raise ValueError(f"{part!r} is not host:port; {_HOW}")
        if not 0 < int(match[2]) < 1 << 16:
            raise ValueError(f"{part!r} names no port; write one of 1 to 65535")
        if not _can_be_resolved(match[1]):
            raise ValueError(f"{part!r} names no host: a label of it is empty or too long; {_HOW}")
        found.append((match[1].strip("[]"), int(match[2])))
    if not found:
        raise ValueError(f"missing; {_HOW}")
    return tuple(found)


def _can_be_resolved(host: str) -> bool:
    """Whether it can be looked up at all: names are encoded for it (IDNA)."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
