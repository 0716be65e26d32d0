"""The file system of a table's folder for pyarrow, on a disk or in an object store."""

from __future__ import annotations

from pathlib import Path

from pyarrow import fs


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


__all__ = ["filesystem"]
