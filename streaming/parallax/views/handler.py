"""Lets pyarrow write to an object store through delta-rs, which uses the same settings as for the tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler


class _Stream:
    """An output stream that is given pyarrow's buffers; delta-rs's takes ``bytes`` alone."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        content = data if isinstance(data, bytes) else bytes(data)
        self._stream.write(content)
        return len(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Handler(DeltaStorageHandler):
    """An object store as a file system for `pyarrow.fs.PyFileSystem`.

    An object exists only once its stream is closed.

    Args:
        uri: URI of a folder; all paths are below it.

    Attributes:
        uri: that URI.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        """Open an object for writing; it replaces one of the same name.

        Args:
            path: path of the object below the folder.
            metadata: metadata to store with the object, value by key; None for none.
        """
        stream: Any = _Stream(self._handler.open_output_stream(path, metadata))
        return pa.PythonFile(stream, mode="w")


__all__ = ["Handler"]
