"""Which Parallax this process runs: its version and a hash of its code.

The worker processes of a Spark cluster compare theirs with the driver's, because pickles need the same release.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VARIABLE = "PARALLAX_RELEASE"
"""The environment variable by which a driver tells the Python processes of its executors which release it runs."""

_BYTES = 6


@lru_cache(maxsize=1)
def release() -> str:
    """Parallax' version, a hash of all its modules, and Python's version, as one text.

    If this text differs between two processes, one may not be able to read the other's pickles.
    """
    folder = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=_BYTES)
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode())
        digest.update(path.read_bytes())
    try:
        number = version("kafka-parallax")
    except PackageNotFoundError:  # copied, not installed
        number = "of no version"
    return f"{number} (code {digest.hexdigest()}, Python {sys.version_info.major}.{sys.version_info.minor})"


def unlike() -> str | None:
    """An error line if Spark's driver runs another release than this process, a worker; None if it does not.

    It is also None if the driver has not said which release it runs.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted is None or _code(wanted) == _code(release()):
        return None
    return f"this worker has Parallax {release()}, and the job is Parallax {wanted}; give both the same"


_SAID = re.compile(r"this worker has Parallax [^\n]*?; give both the same")


def said_in(text: str) -> str | None:
    """The error line of `unlike`, cut out of a text of Spark; None if the text has none."""
    found = _SAID.search(text)
    return None if found is None else found[0]


def _code(told: str) -> str:
    return told.partition("(")[2]


__all__ = ["VARIABLE", "release", "said_in", "unlike"]
