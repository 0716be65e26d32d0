"""Finds out whether a job runs on a storage now, and when one last recorded progress there.

If none runs, whatever commands read from the storage is about the past.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from parallax.stores import is_remote, rust_path
from parallax.views.lease import Lease
from parallax.views.objects import Objects, StoreError
from parallax.views.tables import PROGRESS, rust_uri

LOCK = "job.lock"
"""The file below ``storage.path`` that a job holds locked as long as it lives."""


def job_runs(storage: str) -> bool | None:
    """Whether a job runs on a storage now; None if that cannot be known.

    On an object store it is False if the lease was released or never taken, and else None: a killed job has not
    released its lease.

    Args:
        storage: ``storage.path``.
    """
    if is_remote(storage):
        try:
            seen = Lease(Objects(storage)).look()
        except StoreError:
            return None
        return False if seen.released or not seen.epoch else None
    import fcntl

    try:
        with (Path(rust_path(storage)) / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def last_recorded(storage: str) -> datetime | None:
    """When a job last recorded progress of any replica, in UTC; None if that is not known.

    It is not known if nothing is recorded, or the table cannot be read.

    Args:
        storage: ``storage.path``.
    """
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import DeltaError

    uri = rust_uri(storage, PROGRESS)
    try:
        if not DeltaTable.is_deltatable(uri):
            return None
        asked = QueryBuilder().register("progress", DeltaTable(uri))
        rows = pa.table(asked.execute("SELECT max(observed_at) AS at FROM progress")).to_pylist()
    except (DeltaError, OSError, pa.ArrowException):
        return None
    found: datetime | None = rows[0]["at"] if rows else None
    return found


def unwatched_in_words(storage: str) -> str:
    """A sentence for people that no job runs on a storage, and since when nothing was recorded there.

    It is empty if a job runs, or if that cannot be known.

    Args:
        storage: ``storage.path``.
    """
    if job_runs(storage) is not False:
        return ""
    at = last_recorded(storage)
    until = "nothing is recorded yet" if at is None else f"the last look on record is of {at:%Y-%m-%d %H:%M:%S} UTC"
    return f"no job runs on {storage}, so nobody watches now; {until}"


__all__ = ["LOCK", "job_runs", "last_recorded", "unwatched_in_words"]
