"""Bounds how many connections clients of the job's HTTP server may hold, and how long one request may take.

Each connection is a file descriptor of the job. A client needs no password to open one and then send nothing more. So
without bounds, a thousand connections would keep the job from opening any file. uvicorn has a timeout for a connection
that is idle between two requests, but none for a request that does not end.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from weakref import WeakSet

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_SOCKETS = 128
"""How many connections may be open at a time, those at their TLS handshake included."""
MAX_CONNECTIONS = 64
"""How many connections may be open after their handshake.

Beyond that, one that waits for its client is closed.
"""
BACKLOG = 32
"""How many connections are accepted in one go, before any is looked at."""
LOOK_S = 10.0
"""A connection that begins no request within this many seconds is closed."""
ANSWER_LOOKS = 6
"""After so many looks (each `LOOK_S` apart) at the same request, its connection is closed.

Either its client takes no answer, or the request does not end.
"""


class BoundedListener(socket.socket):
    """A listening socket that accepts at most `MAX_SOCKETS` open connections, and closes further ones immediately."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._accepted: WeakSet[socket.socket] = WeakSet()

    @classmethod
    def of(cls, listening: socket.socket) -> BoundedListener:
        """A bounded listener in place of a given listening socket, which is detached and no longer usable."""
        return cls(listening.family, listening.type, listening.proto, listening.detach())

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a client's connection; returns its socket and the client's address.

        Raises:
            BlockingIOError: no client has connected, or too many connections are open and the new one was closed.
        """
        accepted, address = super().accept()
        if sum(one.fileno() >= 0 for one in self._accepted) >= MAX_SOCKETS:
            accepted.close()
            raise BlockingIOError
        self._accepted.add(accepted)
        return accepted, address


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol for one HTTP connection, with limits.

    It closes a connection that is idle, or whose request does not end.
    """

    _looks = 0
    _seen: object = None
    _look_again: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered on the connection, so that it waits for the client's next one."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take in a new connection.

        If there are more than `MAX_CONNECTIONS`, one that waits for a request is closed.
        """
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            others = (one for one in self.connections if one is not self)
            waiting = (one for one in others if isinstance(one, BoundedProtocol) and one.is_waiting)
            next(waiting, self).transport.abort()
        self._look_again = self.loop.call_later(LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take in that the connection is closed: it is no longer watched or counted."""
        if self._look_again is not None:
            self._look_again.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Close a connection that has begun no request since the last look, or has not ended one for long."""
        is_same, self._seen = self.cycle is self._seen, self.cycle
        self._looks = self._looks + 1 if is_same else 0
        if is_same and (self.is_waiting or self._looks >= ANSWER_LOOKS):
            self.transport.abort()
            return
        self._look_again = self.loop.call_later(LOOK_S, self._look)


__all__ = ["BACKLOG", "BoundedListener", "BoundedProtocol"]
