"""Keeps the reported hanging transactions in a file of the storage.

A job that starts reports them again.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from pydantic import TypeAdapter

from parallax.errors import one_line
from parallax.findings.hanging_life import Hanging
from parallax.views.control import FOLDER, read_document, refusals, write_document

log = structlog.get_logger(__name__)

_FILE = "hanging.json"
_HANGING = TypeAdapter(tuple[Hanging, ...])


def recorded(storage: str) -> tuple[Hanging, ...]:
    """Return the hanging transactions that the previous job wrote to the storage.

    Empty if the file cannot be read; a line in the log then says so.

    Args:
        storage: ``storage.path`` of the settings.
    """
    try:
        document = read_document(storage, _FILE)
        return () if document is None else _HANGING.validate_python(document)
    except refusals(ValueError, TypeError, RecursionError) as error:
        log.warning(
            "which transactions hung cannot be read; those that still do are reported again",
            path=f"{FOLDER}/{_FILE}",
            error=one_line(error),
        )
        return ()


def record(storage: str, hanging: Sequence[Hanging]) -> None:
    """Write the transactions that hang now to the storage, in place of what was written before.

    Args:
        storage: ``storage.path`` of the settings.
        hanging: the transactions.

    Raises:
        OSError, deltalake.exceptions.DeltaError: the file cannot be written.
    """
    write_document(storage, _FILE, _HANGING.dump_python(tuple(hanging), mode="json"))


__all__ = ["record", "recorded"]
