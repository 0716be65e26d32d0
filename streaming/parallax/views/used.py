"""Whether a job has ever used a storage.

What commands say of any other storage, as that nothing is held there, would be true of every empty folder.
"""

from __future__ import annotations

from pathlib import Path

from parallax.stores import is_remote, rust_path
from parallax.views.binding import is_bound


def is_used(storage: str) -> bool:
    """Whether a storage belongs to a cluster, or holds a table: whether a job has ever used it.

    A command that acts on a cluster by itself (``guard hold``, ``repair run``) uses a storage as a job does.

    Args:
        storage: ``storage.path``.

    Raises:
        ConfigError: the storage cannot be read.
    """
    if is_bound(storage):
        return True
    return not is_remote(storage) and any(Path(rust_path(storage)).glob("*/_delta_log"))


__all__ = ["is_used"]
