"""Unpacks archives of the tests."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive that the project has made into a folder. Python before 3.11.4 knows no filters."""
    with tarfile.open(archive) as made:
        if hasattr(tarfile, "tar_filter"):
            made.extractall(folder, filter="tar")
        else:
            made.extractall(folder)


__all__ = ["unpack"]
