"""The file system of a table's folder for pyarrow, on a disk or in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyarrow import fs

ABOVE = "../"
"""How a path begins that leads out of the table's folder."""


def filesystem(uri: str) -> fs.FileSystem:
    """The file system of a table's folder for pyarrow; paths are relative to that folder.

    Args:
        uri: URI or path of the table's folder.
    """
    if "://" not in uri:
        return fs.SubTreeFileSystem(str(Path(uri).absolute()), fs.LocalFileSystem(use_mmap=True))
    # Loading delta-rs takes a while, and who writes to a disk needs none of it.
    from parallax.views.handler import Handler

    return fs.PyFileSystem(Handler(uri))


def place(files: fs.FileSystem, path: str) -> tuple[fs.FileSystem, str]:
    """Where a file lies that belongs to a table's folder, or to the folder of another table of the same storage.

    Args:
        files: the file system of the table's folder, as `filesystem` makes it.
        path: path of the file below it; ``../NAME/...`` for a path below the folder of the table NAME.

    Returns:
        The file system of the folder that the file is in, and its path below that folder.
    """
    if not path.startswith(ABOVE):
        return files, path
    table, _, below = path.removeprefix(ABOVE).partition("/")
    whose: Any = files
    uri = whose.base_path if isinstance(files, fs.SubTreeFileSystem) else whose.handler.uri
    return filesystem(f"{uri.rstrip('/').rpartition('/')[0]}/{table}"), below


__all__ = ["ABOVE", "filesystem", "place"]
