"""Small JSON files next to the tables, by which commands and the job inform each other.

They stay when the command or the job ends. They lie in the folder ``control`` below ``storage.path``, on a disk as in
an object store.
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
    """The exception types to catch where a disk or an object store may refuse, with further ones added."""
    from deltalake.exceptions import DeltaError  # takes its time

    return OSError, DeltaError, *more


def read_document(storage: str, name: str) -> Any:
    """The content of a document; None if there is no such document.

    Args:
        storage: ``storage.path``.
        name: name of its file.

    Raises:
        OSError, deltalake.exceptions.DeltaError: the document cannot be read (`refusals`).
        ValueError: the document is no JSON. If it is nested too deeply, RecursionError.
    """
    try:
        with filesystem(rust_uri(storage, FOLDER)).open_input_stream(name) as stream:
            return json.loads(stream.read())
    except FileNotFoundError:
        return None


def write_document(storage: str, name: str, document: Any) -> None:
    """Write a document; it replaces one of the same name. Others read the old or the new one, never a part.

    Args:
        storage: ``storage.path``.
        name: name of its file.
        document: a JSON value.

    Raises:
        OSError: the document cannot be written.
    """
    _objects(storage).put(name, json.dumps(document).encode())


def create_document(storage: str, name: str, document: Any) -> None:
    """Write a document only if there is none. If several processes try at the same time, one succeeds.

    Read the document afterwards to know which one did. An object store may have written it and lost its answer, and
    refuse it when it is sent again.

    Args:
        storage: ``storage.path``.
        name: name of its file.
        document: a JSON value.

    Raises:
        OSError: the document cannot be written.
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
