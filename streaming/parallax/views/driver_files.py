"""A folder on the driver's machine for small files of a job whose tables are on an object store.

Through these files the driver informs the processes that plan Spark's sources, several times a second. A store is too
slow for that. If the files are lost, the job makes them again from the tables. That takes longer the larger the tables
are. So a job begins with the files that an earlier one has left on the machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from parallax.views.fencing import epoch_of


def own_folder(storage: str) -> Path:
    """The local folder of this process's job, which holds the lease on a storage; it is made if it is missing.

    No other job writes into it, not even a frozen one that held the lease before.

    Args:
        storage: ``storage.path``, a URI.
    """
    parent = Path(tempfile.gettempdir()) / f"parallax-{hashlib.sha256(storage.encode()).hexdigest()[:16]}"
    if not _is_ours(parent):
        # Another user who has made it could write what counts as recorded.
        parent = Path(tempfile.gettempdir()) / f"{parent.name}-{os.geteuid()}-{os.getpid()}"
        parent.mkdir(mode=0o700, exist_ok=True)
    folder = parent / f"{epoch_of(storage):010d}"
    if not folder.is_dir():
        earlier = sorted(path for path in parent.iterdir() if path.name.isdigit() and path.name < folder.name)
        if earlier:
            # With its times: they say up to when it is complete.
            shutil.copytree(earlier[-1], folder, dirs_exist_ok=True)
        folder.mkdir(exist_ok=True)
        for path in earlier:
            shutil.rmtree(path, ignore_errors=True)
    return folder


def _is_ours(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


__all__ = ["own_folder"]
