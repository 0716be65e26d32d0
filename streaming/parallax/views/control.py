"""Small documents beside the tables, by which commands and jobs tell each other what outlives both.

Each is a JSON file in the folder ``control`` below ``storage.path``, on a disk as in an object store.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parallax.views.commits import filesystem
from parallax.views.tables import rust_uri

FOLDER = "control"


def refusals(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """What an object store or a disk refuses with, and more."""
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
    """Put a document in place of the one that is there: on a disk by a rename, in an object store by a put.

    Raises:
        OSError, deltalake.exceptions.DeltaError: it cannot be written (`refusals`).
    """
    uri = rust_uri(storage, FOLDER)
    is_local = "://" not in uri
    if is_local:
        Path(uri).mkdir(parents=True, exist_ok=True)
    files, scratch = filesystem(uri), f"{name}.new"
    with files.open_output_stream(scratch if is_local else name) as stream:
        stream.write(json.dumps(document).encode())
    if is_local:
        files.move(scratch, name)


__all__ = ["FOLDER", "read_document", "refusals", "write_document"]
