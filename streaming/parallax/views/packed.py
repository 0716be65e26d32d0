"""Packs what the footer of a file says into text: a head in JSON, and arrays.

The text has a checksum (zlib's). So a footer that was damaged is never taken for another one.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class GarbledError(ValueError):
    """The footer of a file is not as it was written. The text, one line, says by what that shows."""


def packed(head: Mapping[str, Any], tables: Iterable[Array]) -> str:
    """Pack a head and arrays; `head_of` and `tables_of` unpack them.

    Args:
        head: what JSON can express; it says how many items each array has.
        tables: one-dimensional arrays, of any types.
    """
    raw = json.dumps(head).encode() + b"\n" + b"".join(one.tobytes() for one in tables)
    return base64.b64encode(zlib.compress(raw)).decode()


def planes(table: Array) -> Array:
    """The bytes of an array, such that they pack well: a row for each byte of an item, with what it changes by.

    Args:
        table: one-dimensional, of any type.

    Returns:
        uint8[item size, n], which `of_planes` turns back.
    """
    raw = np.ascontiguousarray(table).view(np.uint8).reshape(len(table), table.dtype.itemsize)
    return np.ascontiguousarray(np.diff(raw, axis=0, prepend=np.zeros((1, raw.shape[1]), np.uint8)).T)


def of_planes(table: Array) -> Array:
    """The array whose bytes `planes` has turned.

    Args:
        table: one-dimensional, of the type and length of the result, with the bytes that `planes` made.
    """
    raw = table.view(np.uint8).reshape(table.dtype.itemsize, len(table))
    made = np.ascontiguousarray(np.cumsum(raw, axis=1, dtype=np.uint8).T)
    return made.view(table.dtype).reshape(len(table))


def head_of(text: bytes) -> tuple[dict[str, Any], bytes]:
    """The head that was packed, and the bytes of the arrays for `tables_of`.

    Args:
        text: what `packed` made.

    Raises:
        GarbledError: it is something else.
    """
    try:
        head, _, raw = zlib.decompress(base64.b64decode(text)).partition(b"\n")
        told = json.loads(head)
    except (zlib.error, ValueError, RecursionError) as error:
        raise GarbledError(str(error)) from error
    if not isinstance(told, dict):
        raise GarbledError("its head is no object")
    return told, raw


def tables_of(raw: bytes, shapes: Iterable[tuple[np.dtype[Any], Any]]) -> list[Array]:
    """The arrays that were packed.

    Args:
        raw: their bytes, from `head_of`.
        shapes: type and number of items of each, in the order in which they were packed. A number is checked.

    Raises:
        GarbledError: a number is none, or the bytes are more or fewer.
    """
    made, at = list[Array](), 0
    for dtype, count in shapes:
        if type(count) is not int or not 0 <= count * dtype.itemsize <= len(raw) - at:
            raise GarbledError(f"it has no {count} items of {dtype.itemsize} bytes at byte {at} of {len(raw)}")
        made.append(np.frombuffer(raw, dtype, count, at))
        at += made[-1].nbytes
    if at != len(raw):
        raise GarbledError(f"it has {len(raw) - at} bytes too many")
    return made


__all__ = ["Array", "GarbledError", "head_of", "of_planes", "packed", "planes", "tables_of"]
