"""Decides whether a job has ever used a storage.

Commands refuse a storage that no job has used. In an empty folder they would find no holds and no findings, and a wrong
path would look like good news.
"""

from __future__ import annotations

from pathlib import Path

from parallax.stores import is_remote, rust_path
from parallax.views.binding import is_bound


def is_used(storage: str) -> bool:
    """Whether a job has ever used a storage: it is bound to a cluster, or has a table on a local disk.

    Commands that act on a cluster without a job (``guard hold``, ``repair run``) count as jobs here.

    Args:
        storage: ``storage.path``.

    Raises:
        ConfigError: the storage cannot be read.
    """
    if is_bound(storage):
        return True
    return not is_remote(storage) and any(Path(rust_path(storage)).glob("*/_delta_log"))


__all__ = ["is_used"]
