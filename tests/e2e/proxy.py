"""A proxy between the job and one real broker that does to the answers what networks and broken machines do.

It knows just enough of Kafka's protocol to hurt on purpose: frames (size, correlation id), and where a Fetch answer's
records lie. Clients follow the addresses in metadata, so the brokers have a second listener that advertises the
proxies' ports (``Cluster(proxied=True)``); what reaches it came through here.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

from parallax.lab.cluster import Cluster
from parallax.replica import fetch_response

_FETCH = 1


class Fault(StrEnum):
    """What happens to a broker's answers."""

    REFUSE = "refuses connections"
    SILENCE = "accepts and never answers"
    RESET = "resets in the middle of an answer"
    TRUNCATE = "closes in the middle of an answer"
    SLOW = "answers a few bytes a second"
    FLIP_SIZE = "flips a bit in the size of answers"
    FLIP_ID = "flips a bit in the correlation id of answers"
    FLIP_RECORDS = "flips a bit inside fetched records"
    FLIP_OFFSET = "flips a bit in the base offset of fetched batches"
    FLIP_LENGTH = "flips a bit in the length of fetched batches"


SLOW_BYTES_PER_S = 50


@dataclass(frozen=True)
class _Pair:
    client: socket.socket
    broker: socket.socket

    def close(self, *, reset: bool = False) -> None:
        with contextlib.suppress(OSError):
            if reset:
                # A linger of zero seconds makes close() send RST, once no thread is in recv() any more.
                self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for sock, how in (
            (self.client, socket.SHUT_RD if reset else socket.SHUT_RDWR),
            (self.broker, socket.SHUT_RDWR),
        ):
            with contextlib.suppress(OSError):
                sock.shutdown(how)
            sock.close()


Asked = dict[int, tuple[int, int]]
"""Correlation id of a request to its kind and version."""
Pump = Callable[[_Pair, Asked], None]


class Proxy:
    """Passes on what goes to and comes from one broker; ``fault`` may be changed at any time.

    Args:
        port: to listen on, on 127.0.0.1.
        broker_port: where the broker listens.
    """

    def __init__(self, port: int, broker_port: int) -> None:
        self.port = port
        self._broker_port = broker_port
        self._changed = threading.Condition()
        self._fault: Fault | None = None
        self._hits = 0
        self._closed = False
        self._pairs: set[_Pair] = set()
        self._server: socket.socket | None = None
        self._listen()

    @property
    def hits(self) -> int:
        """How many answers the present fault has hurt (or connections, where it is about these)."""
        return self._hits

    @contextmanager
    def hurting(self, fault: Fault) -> Iterator[Self]:
        """Hurt the answers while the block runs."""
        self._set(fault)
        try:
            yield self
        finally:
            self._set(None)

    @contextmanager
    def leading_to(self, port: int) -> Iterator[None]:
        """Lead elsewhere while the block runs, as an address that now belongs to somebody else."""
        before, self._broker_port = self._broker_port, port
        self._drop_all()
        try:
            yield
        finally:
            self._broker_port = before
            self._drop_all()

    def close(self) -> None:
        """Stop listening and close every connection."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._stop_listening()
        self._drop_all()

    def _set(self, fault: Fault | None) -> None:
        with self._changed:
            before, self._fault, self._hits = self._fault, fault, 0
            self._changed.notify_all()
        if fault is Fault.REFUSE:
            self._stop_listening()
            self._drop_all()
            self._hits = 1
        elif before is Fault.REFUSE:
            self._listen()

    # --- connections --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        self._server = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def _stop_listening(self) -> None:
        if self._server is not None:
            with contextlib.suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
            self._server = None

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._broker_port), timeout=5)
                broker.settimeout(None)
            except OSError:
                client.close()  # the broker itself is down
                continue
            pair = _Pair(client, broker)
            self._pairs.add(pair)
            asked: Asked = {}
            for pump in (self._pump_requests, self._pump_answers):
                threading.Thread(target=self._run, args=(pump, pair, asked), daemon=True).start()

    def _drop_all(self) -> None:
        for pair in list(self._pairs):
            self._drop(pair, reset=True)

    def _drop(self, pair: _Pair, *, reset: bool = False) -> None:
        self._pairs.discard(pair)
        pair.close(reset=reset)

    def _run(self, pump: Pump, pair: _Pair, asked: Asked) -> None:
        with contextlib.suppress(OSError, ValueError):
            pump(pair, asked)
        self._drop(pair)

    def _pump_requests(self, pair: _Pair, asked: Asked) -> None:
        while (frame := _frame(pair.client)) is not None:
            kind, version, number = struct.unpack_from(">hhi", frame, 4)
            asked[number] = kind, version
            pair.broker.sendall(frame)

    def _pump_answers(self, pair: _Pair, asked: Asked) -> None:
        while (frame := _frame(pair.broker)) is not None:
            (number,) = struct.unpack_from(">i", frame, 4)
            self._answer(pair, frame, *asked.pop(number))

    # --- what is done to an answer ------------------------------------------------------------------------------------

    def _answer(self, pair: _Pair, frame: bytearray, kind: int, version: int) -> None:
        fault = self._fault
        if fault is Fault.SILENCE:
            self._hits += 1
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._fault is not Fault.SILENCE)
        elif fault in (Fault.RESET, Fault.TRUNCATE):
            self._hits += 1
            pair.client.sendall(frame[: len(frame) // 2])
            self._drop(pair, reset=fault is Fault.RESET)
            return
        elif fault is Fault.SLOW:
            self._hits += 1
            self._send_slowly(pair.client, frame)
            return
        elif fault in (Fault.FLIP_SIZE, Fault.FLIP_ID):
            self._hits += 1
            frame[(0 if fault is Fault.FLIP_SIZE else 4) + self._hits % 4] ^= 0x10
        elif fault is not None and kind == _FETCH:
            self._hits += _hurt_records(fault, frame, version)
        pair.client.sendall(frame)

    def _send_slowly(self, client: socket.socket, frame: bytearray) -> None:
        piece = max(1, SLOW_BYTES_PER_S // 10)
        for at in range(0, len(frame), piece):
            if self._fault is not Fault.SLOW:
                client.sendall(frame[at:])
                return
            client.sendall(frame[at : at + piece])
            time.sleep(0.1)


def _frame(sock: socket.socket) -> bytearray | None:
    """The next frame with its size in front; None at the end of the stream."""
    head = _exactly(sock, 4)
    if head is None:
        return None
    body = _exactly(sock, struct.unpack(">i", head)[0])
    return None if body is None else head + body


def _exactly(sock: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        got = sock.recv_into(view[done:])
        if got == 0:
            return None
        done += got
    return data


def _hurt_records(fault: Fault, frame: bytearray, version: int) -> int:
    """Flip one bit in the first batch of each partition; gives how many were hurt."""
    # The header is a correlation id, from version 12 on with (no) tagged fields.
    body = memoryview(frame)[9 if version >= 12 else 8 :]
    hurt = 0
    for partition in fetch_response.parse(body, version).partitions:
        records = partition.records
        if len(records) < 61:
            continue
        at, bit = {
            Fault.FLIP_RECORDS: (len(records) - 3, 0x04),
            Fault.FLIP_OFFSET: (4, 0x02),  # 2^25 offsets further on
            Fault.FLIP_LENGTH: (11, 0x01),
        }[fault]
        records[at] ^= bit
        hurt += 1
    return hurt


class Proxies:
    """A proxy in front of each broker of a proxied cluster.

    Args:
        cluster: made with ``proxied=True``.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._stack = ExitStack()
        found = {}
        for number, broker in cluster.brokers.items():
            assert broker.proxied is not None
            found[number] = Proxy(broker.proxied.advertised_port, broker.proxied.port)
            self._stack.callback(found[number].close)
        self.of: Mapping[int, Proxy] = found

    @property
    def bootstrap_servers(self) -> str:
        """The proxies' addresses."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.of.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
