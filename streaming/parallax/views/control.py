"""Small JSON files next to the tables, with which commands and the job inform each other.

Each is in the folder ``control`` below ``storage.path``, on a disk or in an object store. They stay when the command or
the job ends.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from obstore.exceptions import BaseError

from parallax.errors import one_line
from parallax.views.filesystem import filesystem
from parallax.views.objects import Objects, StoreError
from parallax.views.tables import rust_uri

FOLDER = "control"


def refusals(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """The exceptions that reading or writing a control file may raise, and ``more``: a tuple for ``except``."""
    from deltalake.exceptions import DeltaError  # takes its time

    return OSError, DeltaError, *more


def read_document(storage: str, name: str) -> Any:
    """The content of a JSON file in the folder ``control``; None if there is no such file.

    Args:
        storage: ``storage.path``.
        name: name of the file.

    Raises:
        OSError, deltalake.exceptions.DeltaError: the file cannot be read (`refusals`).
        ValueError: the file is no JSON. If it is nested too deeply, RecursionError.
    """
    try:
        with filesystem(rust_uri(storage, FOLDER)).open_input_stream(name) as stream:
            return json.loads(stream.read())
    except FileNotFoundError:
        return None


def write_document(storage: str, name: str, document: Any) -> None:
    """Write a JSON file in the folder ``control``; it replaces one of the same name.

    Other processes read the whole old file or the whole new one.

    Args:
        storage: ``storage.path``.
        name: name of the file.
        document: a JSON value.

    Raises:
        OSError: the file cannot be written.
    """
    _objects(storage).put(name, json.dumps(document).encode())


def create_document(storage: str, name: str, document: Any) -> None:
    """Write a JSON file in the folder ``control`` if there is none.

    Of several processes that try, one succeeds. Read the file afterwards to know which one did. If the answer of an
    object store is lost, the request is sent again and refused, although the first one had succeeded.

    Args:
        storage: ``storage.path``.
        name: name of the file.
        document: a JSON value.

    Raises:
        OSError: the file cannot be written.
    """
    _objects(storage).create(name, json.dumps(document).encode())


def _objects(storage: str) -> Objects:
    from obstore.store import LocalStore

    uri = rust_uri(storage, FOLDER)
    try:
        return Objects(uri, None if "://" in uri else LocalStore(Path(uri).absolute(), mkdir=True))
    except BaseError as error:
        raise StoreError(f"{uri}: {one_line(error)}") from error


__all__ = ["FOLDER", "create_document", "read_document", "refusals", "write_document"]
