"""Clients that open connections and send next to nothing, against a real server."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest

from parallax.alerting import connections
from parallax.alerting.server import MetricsServer
from parallax.alerting.state import MonitorState
from parallax.config import AlertingSettings
from parallax.lab.waiting import until
from tests.patience import PATIENCE_S


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    server = MetricsServer(MonitorState(), AlertingSettings(metrics_port=0), "/nowhere")
    yield server
    server.close()


def connected(server: MetricsServer, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    client.sendall(sent)
    return client


MOST = connections.MAX_SOCKETS + 1
"""Those that are kept, and the one that is just being turned away."""


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def accepted(server: MetricsServer) -> int:
    """How many descriptors of this process are the server's ends of connections."""
    mine = psutil.Process().net_connections("tcp")
    return sum(1 for one in mine if one.laddr.port == server.port and one.status != psutil.CONN_LISTEN)


def is_answering(server: MetricsServer) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/livez", timeout=PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_clients_that_send_half_a_request_hold_few_descriptors_and_keep_nobody_out(server: MetricsServer) -> None:
    with ExitStack() as stack:
        for _ in range(2 * connections.MAX_SOCKETS + 100):
            stack.enter_context(connected(server, b"GET / HTTP/1.1\r\n"))
            assert accepted(server) <= MOST
        # Who comes while the last of them are still being turned away may be turned away as well.
        until(lambda: is_answering(server), "another client to be answered")
        assert accepted(server) <= MOST


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost:", b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /"])
def test_who_sends_no_whole_request_in_time_is_closed(
    server: MetricsServer, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_answered = sent.endswith(b"/")
    # A request that is to be answered has to be there by the first look.
    monkeypatch.setattr(connections, "LOOK_S", 2.0 if is_answered else 0.2)
    with connected(server, sent) as client:
        if is_answered:
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        until(lambda: is_closed(client), "the connection to be closed")


def test_a_request_whose_body_does_not_end_is_given_up(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOOK_S", 0.1)
    sent = b"POST /findings/a/acknowledge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nreason="
    with connected(server, sent) as client:
        client.setblocking(True)
        client.settimeout(PATIENCE_S)
        with suppress(ConnectionResetError):
            while client.recv(4096):
                pass
