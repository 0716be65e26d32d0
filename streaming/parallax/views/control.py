"""Small documents next to the tables, by which commands and jobs inform each other.

They outlive both. Each is a JSON file in the folder ``control`` below ``storage.path``, on a disk as in an object
store.
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
    """The exceptions by which an object store or a disk refuses, together with others of the caller's."""
    from deltalake.exceptions import DeltaError  # takes its time

    return OSError, DeltaError, *more


def read_document(storage: str, name: str) -> Any:
    """A document; None where there is none.

    Args:
        storage: ``storage.path``.
        name: of its file.

    Raises:
        OSError, deltalake.exceptions.DeltaError: it cannot be read (`refusals`).
        ValueError: it is no JSON; RecursionError where it is nested too deeply.
    """
    try:
        with filesystem(rust_uri(storage, FOLDER)).open_input_stream(name) as stream:
            return json.loads(stream.read())
    except FileNotFoundError:
        return None


def write_document(storage: str, name: str, document: Any) -> None:
    """Replace a document; a reader meanwhile gets the old one or the new one.

    Raises:
        OSError: it cannot be written.
    """
    _objects(storage).put(name, json.dumps(document).encode())


def create_document(storage: str, name: str, document: Any) -> None:
    """Write a document only if there is none. Of several writers at one moment one succeeds.

    Read the document to know which one: a store that took a put may still refuse it, if its answer was lost.

    Raises:
        OSError: it cannot be written.
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
