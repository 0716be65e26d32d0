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
"""Connections at a time, those that are still at their TLS handshake among them."""
MAX_CONNECTIONS = 64
"""Connections past that. Where there are more, one that waits for its client is closed."""
BACKLOG = 32
"""Connections that are accepted in one go, before any is looked at."""
LOOK_S = 10.0
"""A connection that has begun no request for so long is closed."""
ANSWER_LOOKS = 6
"""After this many looks the connection is closed: its client does not take the answer, or its body does not end."""


class BoundedListener(socket.socket):
    """A listening socket that turns clients away while too many connections are open."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._accepted: WeakSet[socket.socket] = WeakSet()

    @classmethod
    def of(cls, listening: socket.socket) -> BoundedListener:
        """A bounded listener that takes over a listening socket."""
        return cls(listening.family, listening.type, listening.proto, listening.detach())

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a client's connection.

        Raises:
            BlockingIOError: no client has come, or it was turned away.
        """
        accepted, address = super().accept()
        if sum(one.fileno() >= 0 for one in self._accepted) >= MAX_SOCKETS:
            accepted.close()
            raise BlockingIOError
        self._accepted.add(accepted)
        return accepted, address


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol for one connection, with a limit to how long a request may take."""

    _looks = 0
    _seen: object = None
    _look_again: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the client has yet to send a request."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a new client. If there are too many, one that has sent no request is disconnected."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            others = (one for one in self.connections if one is not self)
            waiting = (one for one in others if isinstance(one, BoundedProtocol) and one.is_waiting)
            next(waiting, self).transport.abort()
        self._look_again = self.loop.call_later(LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting a client that has disconnected."""
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
