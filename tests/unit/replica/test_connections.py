from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from parallax.model import IsolationLevel
from parallax.replica import requests
from parallax.replica.client import FetchPosition
from parallax.replica.connection import Deadline, _resolve
from parallax.replica.connections import Connections
from parallax.replica.errors import NotABroker, OtherCluster, Unreachable
from parallax.replica.options import parse
from tests.patience import PATIENCE_S

from .servers import Broker, Serve, broker, closing, free_port, server, silent

NOTHING = requests.metadata([])
PATIENCE_MS = PATIENCE_S * 1000
RECORDS = requests.fetch([FetchPosition("t", 0, 0)], isolation=IsolationLevel.READ_COMMITTED, max_bytes=1)


@contextmanager
def connections(to: Broker) -> Iterator[Connections]:
    made = Connections(parse({"bootstrap.servers": f"127.0.0.1:{to.port}"}))
    try:
        yield made
    finally:
        made.close()


def test_a_broker_without_tls_shows_its_version_and_no_certificate() -> None:
    with broker((4, 17)) as one, connections(one) as asked:
        asked.ask_metadata([], Deadline(PATIENCE_MS))
        shown = asked.greeting(1, Deadline(PATIENCE_MS))
        assert (shown.version, shown.tls, shown.certificate_ends) == ((4, 0), None, None)
        assert asked.greeting(1, Deadline(PATIENCE_MS)) == shown
    assert one.connections <= 2, "connections are used again"


def hang_up(connection: socket.socket, _: int) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def test_a_request_is_sent_once_more_where_the_idle_connection_had_died() -> None:
    with broker() as one, connections(one) as pool:
        pool.exchange(1, NOTHING, Deadline(PATIENCE_MS))
        before = one.connections
        one.on_fetch = hang_up
        with pytest.raises(Unreachable):
            pool.exchange(1, RECORDS, Deadline(PATIENCE_MS))
        assert one.connections == before + 1, "once on the idle connection, once on a new one"


def test_a_request_is_not_sent_again_where_a_new_connection_fails() -> None:
    with broker() as one, connections(one) as pool:
        pool.ask_metadata([], Deadline(PATIENCE_MS))
        before = one.connections
        one.on_fetch = hang_up
        with pytest.raises(Unreachable):
            pool.exchange(1, RECORDS, Deadline(PATIENCE_MS))
        assert one.connections == before + 1


def test_a_broker_that_is_not_alive_is_said_to_be_so_whether_or_not_somebody_named_it() -> None:
    with broker() as one, connections(one) as pool:
        one.own_id = 1
        with pytest.raises(Unreachable) as raised:
            pool.exchange(7, NOTHING, Deadline(PATIENCE_MS))
    assert str(raised.value) == (
        "broker 7: it is not among the brokers that are alive (1): start it, or check the number if topics.brokers or "
        "--broker names it"
    )


def test_an_idle_connection_is_used_again() -> None:
    with broker() as one, connections(one) as pool:
        for _ in range(3):
            pool.exchange(1, NOTHING, Deadline(PATIENCE_MS))
        assert one.connections == 2, "one to learn the address, one to the broker"


class TestWhereAnAddressHasGoneToAnotherBroker:
    def test_a_request_is_sent_again_to_where_the_broker_is_now(self) -> None:
        with broker() as old, broker() as new, connections(old) as pool:
            old.own_id = new.own_id = 1
            old.on_fetch = new.on_fetch = hang_up
            pool.exchange(1, NOTHING, Deadline(PATIENCE_MS))
            old.lives_at = new.port
            reached = new.connections
            with pytest.raises(Unreachable):
                pool.exchange(1, RECORDS, Deadline(PATIENCE_MS))
            assert new.connections == reached + 1, "the idle connection died, and the metadata were asked anew"

    def test_nothing_is_read_of_another_broker_under_its_name(self) -> None:
        with broker() as one, connections(one) as pool:
            one.own_id = 1
            pool.exchange(1, NOTHING, Deadline(PATIENCE_MS))
            one.own_id, fetched = 3, []

            def closing_once(connection: socket.socket, _: int) -> None:
                fetched.append(connection)
                connection.shutdown(socket.SHUT_RDWR)

            one.on_fetch = closing_once
            with pytest.raises(Unreachable, match=r"^broker 1: another broker answers at 127\.0\.0\.1:\d+, "):
                pool.exchange(1, RECORDS, Deadline(PATIENCE_MS))
            assert len(fetched) == 1, "that of the connection on which broker 1 had answered"
            with pytest.raises(Unreachable, match="another broker answers"):
                pool.exchange(1, RECORDS, Deadline(PATIENCE_MS))

    def test_a_broker_that_does_not_tell_is_asked_once_and_read(self) -> None:
        with broker() as one, connections(one) as pool:
            one.own_id, one.may_be_asked, one.on_fetch = 3, False, hang_up
            for _ in range(2):
                pool.exchange(1, NOTHING, Deadline(PATIENCE_MS))
                with pytest.raises(Unreachable, match="closed"):
                    pool.exchange(1, RECORDS, Deadline(PATIENCE_MS))
            assert one.asked == 1


class TestWhereAnotherClusterAnswers:
    def test_nothing_is_asked_of_it_and_the_error_says_what_to_do(self) -> None:
        with broker() as one:
            one.cluster = "of-b"
            made = Connections(parse({"bootstrap.servers": f"127.0.0.1:{one.port}", "cluster.id": "of-a"}))
            with pytest.raises(
                OtherCluster, match=r"no broker of cluster of-a answered \(127\.0\.0\.1:\d+ belongs to "
            ):
                made.ask_metadata([], Deadline(PATIENCE_MS))
            assert made.addresses == {}
            made.close()

    @pytest.mark.parametrize("cluster_id", ["of-a", None])
    def test_an_address_that_goes_to_it_while_the_own_cluster_is_away_teaches_nothing(
        self, cluster_id: str | None
    ) -> None:
        with broker() as other:
            with broker() as own:
                own.cluster, other.cluster = "of-a", "of-b"
                servers = f"127.0.0.1:{own.port},127.0.0.1:{other.port}"
                options = {"bootstrap.servers": servers} | ({"cluster.id": cluster_id} if cluster_id else {})
                made = Connections(parse(options))
                made.ask_metadata([], Deadline(PATIENCE_MS))
                own_address = made.addresses[1]
            with pytest.raises(OtherCluster, match="belongs to cluster of-b, not to of-a"):
                made.ask_metadata([], Deadline(PATIENCE_MS))
            assert made.addresses == {1: own_address}
            made.close()

    def test_a_broker_of_the_same_id_is_not_read(self) -> None:
        with broker() as one, connections(one) as pool:
            one.own_id, fetched = 1, []

            def closing_once(connection: socket.socket, _: int) -> None:
                fetched.append(connection)
                connection.shutdown(socket.SHUT_RDWR)

            one.on_fetch = closing_once
            pool.exchange(1, NOTHING, Deadline(PATIENCE_MS))
            one.cluster = "of-b"
            with pytest.raises(
                OtherCluster, match=r"^broker 1: 127\.0\.0\.1:\d+ belongs to cluster of-b, not to small"
            ):
                pool.exchange(1, RECORDS, Deadline(PATIENCE_MS))
            assert len(fetched) == 1, "that of the connection on which the own cluster had answered"

    def test_each_address_is_asked_by_itself(self) -> None:
        with broker() as own, broker() as other, broker() as controller:
            other.cluster, controller.is_controller = "of-b", True
            ports = [own.port, other.port, controller.port, free_port()]
            servers = ",".join(f"127.0.0.1:{port}" for port in ports)
            made = Connections(parse({"bootstrap.servers": servers, "cluster.id": "small"}))
            found = made.ask_each(PATIENCE_MS)
            made.close()
        assert [port for _, port in found] == ports
        first, *wrong = found.values()
        assert first == "small"
        assert [type(error) for error in wrong] == [OtherCluster, NotABroker, Unreachable]

    def test_an_address_that_no_broker_has_any_more_is_anybodys(self) -> None:
        with broker() as one, broker() as other, connections(one) as pool:
            one.lives_at, other.cluster = other.port, "of-b"
            pool.ask_metadata([], Deadline(PATIENCE_MS))
            assert [type(answer) for answer in pool.ask_each(PATIENCE_MS).values()] == [str, OtherCluster]
            one.lives_at = one.port
            pool.ask_metadata([], Deadline(PATIENCE_MS))
            assert list(pool.ask_each(PATIENCE_MS).values()) == ["small"]


def test_an_address_that_says_tls_is_spoken_to_by_tls() -> None:
    said: list[bytes] = []

    def hear(connection: socket.socket) -> None:
        said.append(connection.recv(3))

    with server(hear) as (_, port):
        made = Connections(parse({"bootstrap.servers": f"SSL://127.0.0.1:{port}"}))
        with pytest.raises(Unreachable):
            made.ask_metadata([], Deadline(2000))
        made.close()
    assert said[0][:2] == b"\x16\x03", "a handshake of TLS (RFC 8446, 5.1)"


def test_a_controller_is_called_one_and_the_setting_is_named() -> None:
    with broker() as one, connections(one) as pool:
        one.is_controller = True
        with pytest.raises(Unreachable, match=r"is a KRaft controller, .* a broker's address into bootstrap\.servers"):
            pool.ask_metadata([], Deadline(PATIENCE_MS))


def test_a_name_that_is_advertised_and_cannot_be_encoded_is_not_resolved() -> None:
    with pytest.raises(ConnectionError, match=r"the name broker1\.\.b cannot be resolved"):
        _resolve(("broker1..b", 9092), Deadline(PATIENCE_MS))


TLS = {"security.protocol": "SSL"}


def over_tls(context: ssl.SSLContext) -> Serve:
    """A broker's TLS: what is no TLS is answered with an alert."""

    def serve(connection: socket.socket) -> None:
        with suppress(ssl.SSLError):
            silent(context.wrap_socket(connection, server_side=True))

    return serve


def refused(port: int, **options: str) -> str:
    made = Connections(parse({"bootstrap.servers": f"127.0.0.1:{port}", **options}))
    try:
        with pytest.raises(Unreachable) as caught:
            made.ask_metadata([], Deadline(PATIENCE_MS))
    finally:
        made.close()
    return str(caught.value)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_broker_that_does_not_speak_tls_is_told_from_one_that_is_away(protocol: str) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"} if "SASL" in protocol else {}
    with broker() as one:
        said = refused(one.port, **{"security.protocol": protocol}, **login)
        assert f"(broker 127.0.0.1:{one.port} does not speak TLS (security.protocol is {protocol}))" in said


def test_a_broker_that_closes_the_connection_may_well_speak_tls() -> None:
    with server(closing) as (_, port):
        assert "TLS" not in refused(port, **TLS)


def test_nor_does_silence_prove_anything() -> None:
    with server(silent) as (_, port):
        made = Connections(parse({"bootstrap.servers": f"127.0.0.1:{port}", **TLS}))
        with pytest.raises(Unreachable, match="did not answer"):
            made.ask_metadata([], Deadline(300))
        made.close()


def test_a_broker_that_speaks_tls_is_told_where_none_was_set() -> None:
    with server(over_tls(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))) as (_, port):
        assert f"(broker 127.0.0.1:{port} speaks TLS (security.protocol is PLAINTEXT))" in refused(port)


def alert(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"\x15\x03\x03\x00\x02\x02\x0a")


def test_a_broker_whose_port_has_changed_is_named_by_its_id_as_well() -> None:
    with server(alert) as (_, port):
        made = Connections(parse({"bootstrap.servers": f"127.0.0.1:{port}"}))
        made.addresses[1] = ("127.0.0.1", port)
        with pytest.raises(Unreachable, match=r"^broker 1: broker 127.* speaks TLS .*; correct one of them$"):
            made.exchange(1, NOTHING, Deadline(PATIENCE_MS))
        made.close()


def test_a_broker_that_closes_the_connection_is_not_asked_why_while_another_answers() -> None:
    seen = []

    def cut(connection: socket.socket) -> None:
        seen.append(connection.fileno())
        closing(connection)

    with server(cut) as (_, port), broker() as one:
        made = Connections(parse({"bootstrap.servers": f"127.0.0.1:{port},127.0.0.1:{one.port}"}))
        made.ask_metadata([], Deadline(PATIENCE_MS))
        assert len(seen) == 1
        made.close()
