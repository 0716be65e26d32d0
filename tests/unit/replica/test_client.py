from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from parallax.model import IsolationLevel
from parallax.replica.client import FetchPosition, ReplicaClient
from parallax.replica.errors import BrokerTooOld, DeadlineExceeded, ReadingPaused, ReplicaError, Unreachable
from tests.patience import PATIENCE_S

from .servers import broker, closing, dripping, free_port, noise, server, silent, web

TIMEOUT = 0.4
"""For what never answers, in seconds."""
IN_TIME = f"answered within {TIMEOUT * 1000:.0f} ms"


@contextmanager
def client(*addresses: tuple[str, int] | int, timeout: float = PATIENCE_S) -> Iterator[ReplicaClient]:
    pairs = [("127.0.0.1", a) if isinstance(a, int) else a for a in addresses]
    servers = ",".join(f"{host}:{port}" for host, port in pairs)
    made = ReplicaClient({"bootstrap.servers": servers}, timeout_ms=int(timeout * 1000))
    try:
        yield made
    finally:
        made.close()


def fetch(of: ReplicaClient, broker_id: int = 1, timeout_ms: float | None = None) -> object:
    asked = [FetchPosition("t", 0, 0)]
    level = IsolationLevel.READ_COMMITTED
    return of.fetch(broker_id, asked, isolation=level, max_bytes=1 << 20, timeout_ms=timeout_ms)


def test_a_refused_connection_is_unreachable_and_says_where() -> None:
    port = free_port()
    with client(port) as one, pytest.raises(Unreachable, match=f"127.0.0.1:{port}") as caught:
        one.metadata()
    assert "bootstrap.servers" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broker_that_accepts_and_never_answers_exceeds_the_deadline() -> None:
    in_time = pytest.raises(DeadlineExceeded, match=IN_TIME)
    with server(silent) as address, client(address, timeout=TIMEOUT) as one, in_time:
        one.metadata()


def test_a_broker_that_answers_byte_by_byte_exceeds_the_deadline() -> None:
    stop = threading.Event()
    with server(dripping(stop)) as address, client(address, timeout=TIMEOUT) as one:
        with pytest.raises(DeadlineExceeded, match=IN_TIME):
            one.metadata()
        stop.set()


@pytest.mark.parametrize("serve", [web, noise, closing])
def test_what_is_no_kafka_broker_is_unreachable(serve: Callable[[socket.socket], None]) -> None:
    with server(serve) as address, client(address) as one, pytest.raises(Unreachable):
        one.metadata()


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    with client(("no-such-host.invalid", 9092)) as one, pytest.raises(Unreachable, match="invalid"):
        one.metadata()


def test_bootstrap_goes_on_to_the_next_server() -> None:
    asked: list[int] = []

    def counted(connection: socket.socket) -> None:
        asked.append(1)
        silent(connection)

    with broker() as good, server(counted) as hanging, client(free_port(), hanging, good.port, timeout=10.0) as one:
        assert one.cluster_id == "small"
        # What failed is asked last from now on.
        one.metadata()
        assert len(asked) <= 1


def test_a_broker_without_fetch_11_is_too_old_and_the_error_says_so() -> None:
    with broker(fetch_versions=(0, 10)) as old, client(old.port) as one:
        with pytest.raises(BrokerTooOld, match="Fetch v11") as caught:
            fetch(one)
        assert caught.value.broker == 1


def test_an_unknown_broker_id_is_unreachable_and_names_the_known_ones() -> None:
    with broker() as good, client(good.port) as one, pytest.raises(Unreachable, match=r"broker 9: .*\(1\)"):
        fetch(one, 9)


def test_after_a_timeout_the_connection_is_dropped() -> None:
    with broker() as good, client(good.port) as one:
        one.metadata()
        for _ in range(2):
            before = good.connections
            with pytest.raises(DeadlineExceeded, match="no answer within 2000 ms") as caught:
                fetch(one, timeout_ms=2000)
            assert caught.value.broker == 1
            assert good.connections > before


def test_a_connection_that_died_while_idle_is_replaced_in_silence() -> None:
    def die(connection: socket.socket, _: int) -> None:
        connection.shutdown(socket.SHUT_RDWR)

    with broker() as good, client(good.port) as one:
        one.metadata()
        good.on_fetch = die
        with pytest.raises(Unreachable):
            fetch(one)
        assert one.metadata() == {}


def test_calls_to_a_hanging_broker_do_not_hold_up_those_to_another() -> None:
    with broker() as good, client(good.port) as one, ThreadPoolExecutor(1) as pool:
        with server(silent) as hanging:
            one.metadata()
            one._connections.addresses[2] = hanging
            waiting = pool.submit(fetch, one, 2)
            for _ in range(20):
                one.metadata()
            assert not waiting.done()
        with pytest.raises(Unreachable, match="broker 2"):
            waiting.result()


def test_every_error_is_one_line() -> None:
    assert str(ReplicaError("two\nlines", broker=1, topic="t", partition=0)) == "broker 1, t-0: two lines"


def test_the_client_loads_neither_the_compiled_decoder_nor_arrow() -> None:
    code = "import sys, parallax.replica.client as c; print({'numba', 'pyarrow', 'pyspark'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "set()"


def test_no_fetch_is_sent_to_a_broker_that_is_not_to_be_read() -> None:
    with client(free_port()) as one:
        one.pause(lambda broker: broker == 2)
        with pytest.raises(ReadingPaused, match="broker 2: no records are read of it"):
            fetch(one, 2)
        with pytest.raises(Unreachable) as caught:
            fetch(one, 1)
        assert not isinstance(caught.value, ReadingPaused)
