"""Addresses of HTTP that settings name: whether they are some, and what of them may be said."""

from __future__ import annotations

import re

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

NO_ADDRESS = "is no address; write http:// or https://, a host, a port that can be, and a path"


def is_address(text: str) -> bool:
    """Whether a text is an address that can be posted to."""
    if re.fullmatch(r"https?://[^\s/?#]+(?:[/?#]\S*)?", text) is None:
        return False
    try:
        parse_url(text)
    except LocationParseError:
        return False
    return True


def names_a_user(address: str) -> bool:
    """Whether an address holds a name, and perhaps a password, before its host."""
    return parse_url(address).auth is not None


def shown(address: str) -> str:
    """An address without what may be a secret: who asks, and the query."""
    return parse_url(address)._replace(auth=None, query=None, fragment=None).url
