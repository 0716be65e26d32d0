"""TLS contexts that use renewed certificate files from the next connection on, without a restart."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from parallax.errors import one_line


class Renewed:
    """A TLS context that is made again when one of its files has changed, e.g. because a certificate was renewed.

    Args:
        files: the files that the context is made from.
        make: makes the context.
        unusable: the exceptions that ``make`` raises if the files cannot be used.

    Raises:
        Exception: one of ``unusable``, because the present files cannot be used.
    """

    def __init__(
        self, files: Sequence[str], make: Callable[[], ssl.SSLContext], unusable: tuple[type[Exception], ...]
    ) -> None:
        self._files = tuple(files)
        self._make = make
        self._unusable = unusable
        self._lock = threading.Lock()
        self._stamp = self._stamp_of_files()
        self._context = make()

    def context(self) -> ssl.SSLContext:
        """The TLS context for the next connection, made from the present files.

        If these cannot be used, e.g. because one is half-written, it is the context made before.
        """
        with self._lock:
            stamp = self._stamp_of_files()
            if stamp != self._stamp:
                self._follow(stamp)
            return self._context

    def _follow(self, stamp: tuple[tuple[int, ...], ...]) -> None:
        import structlog  # Here, for it takes 6 MB, and processes that plan have nothing else to say.

        log = structlog.get_logger(__name__)
        try:
            self._context = self._make()
            self._stamp = stamp
            log.info("TLS files have changed and are used from now on")
        except self._unusable as error:
            log.warning("TLS files have changed and cannot be used; the old ones are", error=one_line(error))

    def _stamp_of_files(self) -> tuple[tuple[int, ...], ...]:
        stamps = []
        for path in self._files:
            with contextlib.suppress(OSError, ValueError):
                stat = Path(path).stat()
                stamps.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(stamps)


def of_server(certificate: str, key: str) -> ssl.SSLContext:
    """The TLS context of a server, TLS 1.2 or later, made once from its certificate.

    Args:
        certificate: path of the certificate's file.
        key: path of the private key's file.

    Raises:
        OSError, ValueError: the files cannot be used, or the key has a password.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Without a password, an encrypted key would make it ask on the terminal; with a wrong one it is refused.
    context.load_cert_chain(certificate, key, " ")
    return context


def renewed_at_each_handshake(renewed: Renewed) -> ssl.SSLContext:
    """A server's TLS context that gives each client the certificate in the files at that moment.

    Args:
        renewed: the context of the files.
    """
    context = renewed.context()

    def hello(connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
        del name, first
        connection.context = renewed.context()

    context.sni_callback = hello  # called at each handshake, also of a client that names no host
    return context
