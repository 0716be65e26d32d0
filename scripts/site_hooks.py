"""Hooks of ``mkdocs build``: links into the repository, and what a browser would show wrongly or not at all."""

from __future__ import annotations

import logging
import re
from pathlib import PurePosixPath
from typing import Any

from parallax.shipped import linked

log = logging.getLogger("mkdocs.plugins.parallax")

_LIST_IN_PARAGRAPH = re.compile(r"^(?!\d+\. )[^\s|#>`<*-][^\n]*\n(?:[-*] |\d+\. )", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_FETCHED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page whose links to files outside docs/ lead into the repository."""
    source = PurePosixPath("docs", page.file.src_uri)
    for line in _LIST_IN_PARAGRAPH.findall(_FENCE.sub("", markdown)):
        log.warning("%s: put an empty line before the list that follows %r", source, line.splitlines()[0][:60])
    return linked(markdown, str(source))


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The page as it is. It warns if a browser would fetch a part elsewhere; strict mode then fails."""
    for address in _FETCHED.findall(output):
        log.warning("docs/%s: a browser would fetch %s; keep it in docs/", page.file.src_uri, address)
    return output
