"""Small servers that misbehave as brokers can, and one that speaks just enough of Kafka's protocol."""

from __future__ import annotations

import io
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from tests.patience import PATIENCE_S

Serve = Callable[[socket.socket], None]


@contextmanager
def server(serve: Serve) -> Iterator[tuple[str, int]]:
    """Run ``serve`` on each connection in a thread of its own; all sockets are closed at the end."""
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def handle(connection: socket.socket) -> None:
        with suppress(OSError):
            serve(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            taken.append(connection)
            thread = threading.Thread(target=handle, args=(connection,))
            threads.append(thread)
            thread.start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener.getsockname()
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join(PATIENCE_S)
        for connection in taken:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(PATIENCE_S)
        for connection in taken:
            connection.close()


def free_port() -> int:
    """A port on which nobody listens, nor begins to: it is bound for as long as the tests run."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    port = int(bound.getsockname()[1])
    bound.detach()
    return port


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def closing(connection: socket.socket) -> None:
    connection.recv(4)
    connection.close()


def web(connection: socket.socket) -> None:
    connection.recv(4)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    silent(connection)


def noise(connection: socket.socket) -> None:
    connection.recv(4)
    connection.sendall(struct.pack(">i", 40) + bytes(range(40)))
    silent(connection)


def dripping(stop: threading.Event) -> Serve:
    """A server that promises an answer and sends a byte of it now and then."""

    def serve(connection: socket.socket) -> None:
        connection.recv(4)
        connection.sendall(struct.pack(">i", 1000))
        while not stop.wait(0.02):
            connection.sendall(b"\0")

    return serve


_MOST = 100 << 20
"""Bytes of a request, ``socket.request.max.bytes`` by default."""


class Broker:
    """Answers ApiVersions and Metadata as broker 1 of a cluster of one; Fetch as given.

    Attributes:
        own_id: what it says of itself where it is asked for settings of a broker; None where it speaks no such request.
        may_be_asked: whether whoever asks has the right to see these settings.
        cluster: the id of the cluster that it says it belongs to.
        is_controller: whether it speaks as a KRaft controller does.
        lives_at: the port at which its metadata have broker 1; its own at first.
    """

    def __init__(self, fetch_versions: tuple[int, int] = (4, 18)) -> None:
        self.fetch_versions = fetch_versions
        self.own_id: int | None = None
        self.may_be_asked = True
        self.cluster, self.is_controller = "small", False
        self.asked = 0
        self.port = self.lives_at = 0
        self.connections = 0
        self.on_fetch: Callable[[socket.socket, int], None] | None = None

    def __call__(self, connection: socket.socket) -> None:
        self.connections += 1
        while True:
            head = _exactly(connection, 4)
            if head is None:
                return
            (size,) = struct.unpack(">i", head)
            if size > _MOST:  # no request at all, as the beginning of TLS
                connection.shutdown(socket.SHUT_RDWR)
                return
            body = _exactly(connection, size)
            if body is None:
                return
            key, version, correlation = struct.unpack_from(">hhi", body)
            if key == ApiVersionsRequest.API_KEY:
                _send(connection, correlation, self._versions(), version)
            elif key == MetadataRequest.API_KEY:
                _send(connection, correlation, self._metadata(), version)
            elif key == DescribeConfigsRequest.API_KEY:
                self.asked += 1
                _send(connection, correlation, self._described(body, version), version)
            elif key == FetchRequest.API_KEY and self.on_fetch is not None:
                self.on_fetch(connection, correlation)

    def _versions(self) -> Any:
        kind = ApiVersionsResponse.ApiVersion
        spoken = {1: self.fetch_versions, 2: (1, 10), 3: (0, 12), 18: (0, 4)}
        if self.is_controller:
            spoken = {1: (0, 18), 18: (0, 4), 32: (0, 4), 62: (0, 4)}
        if self.own_id is not None:
            spoken[32] = (1, 4)
        keys = [kind(api_key=k, min_version=low, max_version=high) for k, (low, high) in spoken.items()]
        return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)

    def _described(self, body: bytes, version: int) -> Any:
        """As ``ConfigHelper.describeConfigs`` answers for a broker."""
        request = DescribeConfigsRequest.decode(body, version=version, header=True)
        wanted = request.resources[0].resource_name
        code, message = (0, None) if self.may_be_asked else (31, "Cluster authorization failed.")
        if not code and wanted != str(self.own_id):
            code, message = 42, f"Unexpected broker id, expected {self.own_id} or empty string, but received {wanted}"
        result = DescribeConfigsResponse.DescribeConfigsResult(
            error_code=code, error_message=message, resource_type=4, resource_name=wanted, configs=[]
        )
        return DescribeConfigsResponse(throttle_time_ms=0, results=[result])

    def _metadata(self) -> Any:
        kind = MetadataResponse.MetadataResponseBroker
        brokers = [kind(node_id=1, host="127.0.0.1", port=self.lives_at, rack=None)]
        return MetadataResponse(
            throttle_time_ms=0, brokers=brokers, cluster_id=self.cluster, controller_id=1, topics=[]
        )


@contextmanager
def broker(fetch_versions: tuple[int, int] = (4, 18)) -> Iterator[Broker]:
    one = Broker(fetch_versions)
    with server(one) as (_, port):
        one.port = one.lives_at = port
        yield one


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = io.BytesIO()
    while data.tell() < size:
        part = connection.recv(size - data.tell())
        if not part:
            return None
        data.write(part)
    return data.getvalue()


def _send(connection: socket.socket, correlation: int, response: Any, version: int) -> None:
    response.API_VERSION = version
    response.with_header(correlation_id=correlation)
    connection.sendall(response.encode(framed=True, header=True))
