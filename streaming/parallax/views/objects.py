"""Reads and writes small objects in the object store that holds a job's tables, by the library obstore.

Puts are atomic on every object store. A put that must create an object is refused if there is one of that name
(``If-None-Match: *``). A lease (`parallax.views.lease`) and the generations of a checkpoint
(`parallax.views.generations`) need no more than that; nothing is renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from parallax.errors import PassingError, one_line
from parallax.moments import milliseconds
from parallax.stores import rust_path

_AT_A_TIME = 16
_TIMEOUT = timedelta(seconds=10)
_RETRY = {"max_retries": 3, "retry_timeout": timedelta(seconds=15)}


class StoreError(OSError, PassingError):
    """The object store could not be reached, or refused a request; the text is one line."""


class Listed(NamedTuple):
    """One object, as a listing of the store shows it; ``size`` is in bytes."""

    name: str
    """The object's name, relative to the URI of `Objects`."""
    size: int
    at_ms: int
    """When it was written, by the store's clock; ms since 1970 UTC."""


class Objects:
    """The objects of an object store below one URI; any thread may use it.

    Args:
        uri: the URI; names of objects are relative to it.
        store: an obstore store for that URI; tests give their own.
    """

    def __init__(self, uri: str, store: Any = None) -> None:
        self.uri = rust_path(uri.rstrip("/"))
        self._given = store
        self._made: Any = None

    def create(self, name: str, content: bytes) -> bool:
        """Put an object unless there is one of its name; True if it was put.

        False may be wrong: if an answer was lost and the request was sent again, the store refuses the second one. Read
        the object to be sure.

        Args:
            name: name of the object.
            content: its bytes.

        Raises:
            StoreError: the store cannot be reached or refuses it.
        """
        try:
            with _one_line_errors(f"{self.uri}/{name}"):
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    def put(self, name: str, content: bytes) -> None:
        """Put an object; it replaces one of the same name.

        Args:
            name: name of the object.
            content: its bytes.

        Raises:
            StoreError: the store cannot be reached or refuses it.
        """
        with _one_line_errors(f"{self.uri}/{name}"):
            obstore.put(self._store, name, content, use_multipart=False)

    def get(self, name: str) -> bytes | None:
        """The content of an object; None if it does not exist.

        Args:
            name: name of the object.

        Raises:
            StoreError: the store cannot be reached or refuses it.
        """
        with _one_line_errors(f"{self.uri}/{name}"):
            try:
                return bytes(obstore.get(self._store, name).bytes())
            except FileNotFoundError:
                return None

    def below(self, folder: str = "") -> list[Listed]:
        """All objects below a folder, at any depth.

        Args:
            folder: name of the folder; empty for all objects.

        Raises:
            StoreError: the store cannot be reached or refuses it.
        """
        prefix = f"{folder}/" if folder else None
        with _one_line_errors(f"{self.uri}/{folder}"):
            found = [meta for page in obstore.list(self._store, prefix) for meta in page]
        return [Listed(m["path"], m["size"], milliseconds(m["last_modified"])) for m in found]

    def children(self, folder: str) -> tuple[list[str], list[str]]:
        """The names of what is directly in a folder, without the folder's own name.

        Args:
            folder: name of the folder.

        Returns:
            A tuple: the names of the folders in it, and those of the objects in it.

        Raises:
            StoreError: the store cannot be reached or refuses it.
        """
        with _one_line_errors(f"{self.uri}/{folder}"):
            found = obstore.list_with_delimiter(self._store, f"{folder}/")
        folders = [prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"]]
        return folders, [meta["path"].rpartition("/")[2] for meta in found["objects"]]

    def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Copy objects within the store.

        Args:
            pairs: for each object, its name and the name of the copy.

        Raises:
            StoreError: the store cannot be reached or refuses it.
        """

        def one(pair: tuple[str, str]) -> None:
            with _one_line_errors(f"{self.uri}/{pair[0]}"):
                obstore.copy(self._store, *pair)

        self._all(one, pairs)

    def get_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of objects by name; objects that do not exist are left out.

        Args:
            names: names of the objects.

        Raises:
            StoreError: the store cannot be reached or refuses it.
        """
        wanted = list(names)
        contents: list[bytes | None] = self._all(self.get, wanted)
        return {name: content for name, content in zip(wanted, contents, strict=True) if content is not None}

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; a missing object is no error.

        Args:
            names: names of the objects.

        Raises:
            StoreError: the store cannot be reached or refuses it.
        """
        gone = list(names)
        if gone:
            with _one_line_errors(self.uri):
                obstore.delete(self._store, gone)

    @staticmethod
    def _all(work: Any, items: Iterable[Any]) -> list[Any]:
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return list(pool.map(work, items))

    @property
    def _store(self) -> Any:
        if self._given is not None:
            return self._given
        if self._made is None:
            from obstore.store import from_url

            client: Any = {"timeout": _TIMEOUT, "connect_timeout": _TIMEOUT, "allow_http": True}
            retry: Any = _RETRY
            with _one_line_errors(self.uri):
                self._made = from_url(self.uri, client_options=client, retry_config=retry)
        return self._made


@contextmanager
def _one_line_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (AlreadyExistsError, FileExistsError, PreconditionError) as error:
        raise FileExistsError(what) from error
    except (BaseError, OSError, ValueError) as error:
        raise StoreError(f"{what}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """The first words of an error, without obstore's debugging text; only the code of a server's answer.

    The answer of S3 to a wrong signature, for example, holds the id of the access key.
    """
    text, _, answer = one_line(str(error).split("\n\n", 1)[0]).partition(": <?xml")
    code = re.search(r"<Code>(\w+)</Code>", answer)
    return f"{text} ({code[1]})" if code else text[:300]


__all__ = ["Listed", "Objects", "StoreError"]
