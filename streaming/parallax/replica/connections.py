"""Connections to the brokers of a cluster: their addresses, idle connections, and sending a request again.

A request goes to a *target*. That is a broker's id, whose address is taken from metadata. Or it is an address, from the
options or from metadata, at which any broker may answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from parallax.replica import requests
from parallax.replica.connection import Connection, Deadline, ReceiveBuffer, WrongProtocol, wrong_protocol
from parallax.replica.errors import BrokerTooOld, DeadlineExceeded, NotABroker, OtherCluster, ReplicaError, Unreachable
from parallax.replica.identity import Identity
from parallax.replica.options import Address, Options
from parallax.replica.requests import Request
from parallax.replica.types import Greeting

Target = int | Address

_IDLE_BY_BROKER, _IDLE_BY_ADDRESS = 4, 1
"""How many connections are kept idle."""

_ASKED_AT_A_TIME = 16
"""Addresses, where each is asked by itself."""

_FOR_A_REASON = 0.5
"""Share of the time that is left in which to find out why a broker did not answer."""


class Connections:
    """The connections of one `ReplicaClient`, shared by its threads; all methods are thread-safe.

    Args:
        options: the addresses to start from, and how to connect.

    Attributes:
        addresses: the address of every broker seen so far, by broker id; also of brokers that are down.
        identity: checks that new connections lead to the intended cluster and broker.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._idle: dict[Target, list[Connection]] = {}
        self._failed_at: dict[Address, float] = {}
        self._stale: set[int] = set()
        self._advertised: tuple[Address, ...] = ()
        self.addresses: dict[int, Address] = {}
        self.identity = Identity(options.cluster_id)

    def begin(self, broker: int, request: Request, deadline: Deadline) -> Exchange:
        """Send a request to one broker and return without waiting for the answer.

        Raises:
            ReplicaError: the broker could not be asked.
        """
        exchange = Exchange(self, broker, request)
        with self._as_replica_errors(broker, deadline):
            exchange.send(deadline)
        return exchange

    def finish(self, broker: int, exchange: Exchange, deadline: Deadline, into: ReceiveBuffer | None = None) -> Any:
        """Wait for the answer to a request that `begin` has sent.

        Args:
            broker: id of the broker that was asked.
            exchange: what `begin` returned.
            deadline: by when the answer must have come.
            into: memory to receive into; fresh memory by default.

        Returns:
            The answer, in the form that `Connection.receive` gives it.

        Raises:
            ReplicaError: the broker did not answer.
        """
        with self._as_replica_errors(broker, deadline):
            return exchange.receive(deadline, into)

    def exchange(self, broker: int, request: Request, deadline: Deadline) -> Any:
        """Send a request to one broker, and wait for the answer.

        Returns:
            The answer, in the form that `Connection.receive` gives it.

        Raises:
            ReplicaError: the broker did not answer.
        """
        return self.finish(broker, self.begin(broker, request, deadline), deadline)

    def greeting(self, broker: int, deadline: Deadline) -> Greeting:
        """What a broker shows when a connection is made: its version, and its TLS certificate's end.

        Raises:
            ReplicaError: the broker could not be reached.
        """
        with self._as_replica_errors(broker, deadline):
            connection = self.take(broker, deadline)
        self.give_back(broker, connection)
        return connection.greeting()

    def ask_any(self, request: Request, deadline: Deadline) -> Any:
        """The first answer to a request that any broker may answer, in the form that `Connection.receive` gives it.

        All known addresses are asked one after the other, each with a fair share of the time that is left. Addresses
        that failed lately come last.

        Args:
            request: the request.
            deadline: by when the answer must have come.

        Raises:
            Unreachable: nobody answered. It is DeadlineExceeded if an address had not answered in time, and
                OtherCluster if another cluster answered.
            BrokerTooOld: a broker speaks no acceptable version of the request, and no other answered.
        """
        with self._lock:
            known = dict.fromkeys([*self.addresses.values(), *self._options.bootstrap])
            order = sorted(known, key=lambda address: self._failed_at.get(address, 0.0))
        failures: list[tuple[Address, Exception]] = []
        for done, address in enumerate(order):
            try:
                share = deadline.part(1 / (len(order) - done))
                exchange = Exchange(self, address, request)
                exchange.send(share)
                response = exchange.receive(share)
            except (OSError, BrokerTooOld, NotABroker, OtherCluster) as error:
                self._failed_at[address] = time.monotonic()
                failures.append((address, error))
            else:
                self._failed_at.pop(address, None)
                return response
        raise self._nobody_answered(failures, deadline)

    def _nobody_answered(self, failures: Sequence[tuple[Address, Exception]], deadline: Deadline) -> ReplicaError:
        too_old = [error for _, error in failures if isinstance(error, BrokerTooOld)]
        if too_old:
            return too_old[0]
        reasons = "; ".join(self._failure(address, error, deadline) for address, error in failures)
        other = next((error for _, error in failures if isinstance(error, OtherCluster)), None)
        if other is not None:
            hint = "correct it, or give the storage.path of that cluster (parallax storage bind moves one)"
            problem = f"bootstrap.servers: no broker of cluster {self.identity.cluster_id} answered ({reasons}); {hint}"
            return OtherCluster(problem, cluster_id=other.cluster_id)
        kind = DeadlineExceeded if any(isinstance(error, TimeoutError) for _, error in failures) else Unreachable
        return kind(f"bootstrap.servers: no broker answered within {deadline.timeout_ms:.0f} ms ({reasons})")

    def _failure(self, address: Address, error: Exception, deadline: Deadline) -> str:
        if isinstance(error, ReplicaError):
            return error.problem
        try:
            told = wrong_protocol(error, address, self._options, deadline.part(_FOR_A_REASON))
        except TimeoutError:
            told = None
        return str(told) if told is not None else f"{address[0]}:{address[1]} {_reason(error)}"

    def ask_each(self, timeout_ms: float) -> dict[Address, str | ReplicaError]:
        """Ask every address for its cluster's id, all at the same time.

        These are the configured addresses, and those that the brokers have now. An address that a broker had earlier
        may belong to another process by now, and is not asked.

        Args:
            timeout_ms: how long each address has to answer, in milliseconds.

        Returns:
            By address, the configured ones first: the id of the cluster that answers there, or the error if nobody
                does. It is `OtherCluster` if another cluster than this client's answers.
        """
        with self._lock:
            addresses = list(dict.fromkeys([*self._options.bootstrap, *self._advertised]))
        with ThreadPoolExecutor(_ASKED_AT_A_TIME, thread_name_prefix="address") as pool:
            return dict(zip(addresses, pool.map(lambda a: self._cluster_at(a, timeout_ms), addresses), strict=True))

    def _cluster_at(self, address: Address, timeout_ms: float) -> str | ReplicaError:
        deadline = Deadline(timeout_ms)
        exchange = Exchange(self, address, requests.metadata([]))
        try:
            exchange.send(deadline)
            return str(self._learnt(exchange.receive(deadline)).cluster_id or "")
        except ReplicaError as error:
            return error
        except OSError as error:
            return Unreachable(self._failure(address, error, deadline))

    def ask_metadata(self, topics: Sequence[str] | None, deadline: Deadline) -> Any:
        """Ask any broker for metadata of topics; returns the response, and remembers the brokers' addresses in it.

        Args:
            topics: names of the topics; None for all, an empty list for none.
            deadline: by when the answer must have come.

        Raises:
            Unreachable: nobody answered.
        """
        return self._learnt(self.ask_any(requests.metadata(topics), deadline))

    def _learnt(self, metadata: Any) -> Any:
        """Metadata, once where the brokers are has been taken from them."""
        with self._lock:
            self._advertised = tuple((broker.host, broker.port) for broker in metadata.brokers)
            for broker, address in zip(metadata.brokers, self._advertised, strict=True):
                self.addresses[broker.node_id] = address
                self._stale.discard(broker.node_id)
        return metadata

    def take(self, target: Target, deadline: Deadline, *, fresh: bool = False) -> Connection:
        """A connection to the target for one request: an idle one, or a new one if none is idle.

        Args:
            target: a broker's id, or an address at which any broker may answer.
            deadline: by when a new connection must have been made.
            fresh: whether to make a new one in any case.

        Raises:
            OSError: the target refused the connection, or (TimeoutError) did not answer within the deadline.
            ReplicaError: the target has no address, rejected the credentials, or is not the intended broker.
        """
        with self._lock:
            idle = self._idle.get(target)
            if idle and not fresh:
                connection = idle.pop()
                connection.reused = True
                return connection
        address = self._address(target, deadline) if isinstance(target, int) else target
        connection = Connection(address, self._options, deadline)
        try:
            self.identity.check(target, connection, deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def distrust(self, target: Target) -> None:
        """Note that a broker's address may be wrong: before the next connection to it, the cluster is asked for it.

        Call it when a connection to the target has failed.

        Args:
            target: the broker's id; for an address, this does nothing.
        """
        if isinstance(target, int):
            self._failed(target)

    def give_back(self, target: Target, connection: Connection) -> None:
        """Keep an idle connection to the target for a later request.

        The connection is closed instead if enough are kept already, or if the broker's address has changed.

        Args:
            target: the broker's id or the address that the connection was taken for.
            connection: the connection.
        """
        with self._lock:
            idle = self._idle.setdefault(target, [])
            if isinstance(target, int):
                keep = len(idle) < _IDLE_BY_BROKER and connection.address == self.addresses.get(target)
            else:
                keep = len(idle) < _IDLE_BY_ADDRESS
            if keep:
                idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close idle connections; calls that are under way still end normally."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    @contextmanager
    def _as_replica_errors(self, broker: int, deadline: Deadline) -> Iterator[None]:
        """Turn what goes wrong with one broker into errors of ours; one that does not answer is looked up again."""
        try:
            yield
        except Exception as error:
            translated = _translate(error, broker, deadline)
            if translated is None:
                raise
            if isinstance(translated, Unreachable):
                self._failed(broker)
            raise translated from error

    def _failed(self, broker: int) -> None:
        """Drop what is idle to the broker and look its address up again before it is connected to the next time."""
        with self._lock:
            dropped = self._idle.pop(broker, [])
            self._stale.add(broker)
        for connection in dropped:
            connection.close()

    def _address(self, broker: int, deadline: Deadline) -> Address:
        with self._lock:
            address = self.addresses.get(broker)
            stale = broker in self._stale
        if address is None or stale:
            try:
                self.ask_metadata([], deadline.part(0.5))
            except (ReplicaError, TimeoutError):
                if address is None:
                    raise
            address = self.addresses.get(broker)
        if address is None:
            known = ", ".join(map(str, sorted(self.addresses)))
            raise Unreachable(
                f"it is not among the brokers that are alive ({known}): start it, or check the number if "
                "topics.brokers or --broker names it",
                broker=broker,
            )
        return address


class Exchange:
    """One request to one target, and its response.

    An idle connection may have broken without notice. So if an idle one fails, the request is sent once more on a new
    connection, to the broker's address in the cluster's present metadata. If `send` or `receive` raises, the connection
    has been closed.

    Args:
        connections: where the connection is taken from, and given back to.
        target: a broker's id, or an address at which any broker may answer.
        request: the request.

    Raises:
        OSError: the target refused or closed the connection, or (TimeoutError) did not answer within the deadline.
        ReplicaError: the target has no address, speaks no acceptable version, or rejected the credentials.
    """

    def __init__(self, connections: Connections, target: Target, request: Request) -> None:
        self._connections = connections
        self._target = target
        self._request = request
        self._connection: Connection | None = None

    def send(self, deadline: Deadline) -> None:
        """Send the request to the target."""
        self._guarded(lambda _: None, deadline)

    def receive(self, deadline: Deadline, into: ReceiveBuffer | None = None) -> Any:
        """Wait for the response to the request.

        Args:
            deadline: by when the response must have come.
            into: memory to receive into; fresh memory by default.

        Returns:
            The response, in the form that `Connection.receive` gives it.
        """
        if self._connection is None:
            raise Unreachable("the request was given up before its answer came")
        response = self._guarded(lambda c: c.receive(self._request.message, deadline, into), deadline)
        connection, self._connection = self._connection, None
        self._connections.give_back(self._target, connection)
        return response

    def drop(self) -> None:
        """Close the exchange's connection, if it has one, instead of keeping it for later requests.

        The answer to this request may still arrive on it.
        """
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _guarded(self, step: Callable[[Connection], Any], deadline: Deadline) -> Any:
        """Do a step on the connection that carries the request, sending it first where that is still to be done."""
        try:
            try:
                return step(self._connection or self._sent(deadline, fresh=False))
            except ConnectionError:
                if self._connection is None or not self._connection.reused:
                    raise
                self.drop()
                self._connections.distrust(self._target)
                return step(self._sent(deadline, fresh=True))
        except BaseException:
            self.drop()
            raise

    def _sent(self, deadline: Deadline, *, fresh: bool) -> Connection:
        """A connection on which the request has been sent."""
        self._connection = self._connections.take(self._target, deadline, fresh=fresh)
        self._connection.send(self._request.message, self._request.versions, deadline)
        return self._connection


def _translate(error: BaseException, broker: int, deadline: Deadline) -> ReplicaError | None:
    """The error as ours; None if it is not for us to translate."""
    if isinstance(error, ReplicaError):
        return error.at(broker=broker)
    if isinstance(error, TimeoutError):
        return DeadlineExceeded(
            f"no answer within {deadline.timeout_ms:.0f} ms; is it paused or overloaded?", broker=broker
        )
    if isinstance(error, WrongProtocol):
        return Unreachable(f"{error}; correct one of them", broker=broker)
    if isinstance(error, OSError):
        return Unreachable(f"{error.strerror or error}; is it running, is the address right?", broker=broker)
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "did not answer"
    return str(getattr(error, "strerror", None) or error)
