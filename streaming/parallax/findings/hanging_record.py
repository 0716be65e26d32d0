"""The record of hanging transactions, stored with the tables: a job that starts continues from it."""

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
    """Return the transactions on record; none, with a line in the log, if it cannot be read.

    Args:
        storage: ``storage.path``.
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
    """Replace the record with the transactions that hang now.

    Raises:
        OSError, deltalake.exceptions.DeltaError: it cannot be written.
    """
    write_document(storage, _FILE, _HANGING.dump_python(tuple(hanging), mode="json"))


__all__ = ["record", "recorded"]
