"""One connection to one broker: framed requests and responses, each within a deadline.

kafka-python provides the message formats and the SASL mechanisms. The socket is Parallax's own. It blocks, and its
timeout is what is left of the deadline, so no event loop can delay a caller beyond that. A response of megabytes goes
from the operating system into one buffer and is never copied again.
"""

from __future__ import annotations

import io
import ipaddress
import logging
import queue
import socket
import ssl
import struct
import threading
import time
from typing import Any

import numpy as np
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from parallax.replica import fetch_response, looking, requests, versions
from parallax.replica.errors import BrokerTooOld, NotABroker, ReplicaError, Unauthorized, from_code
from parallax.replica.options import Address, Options
from parallax.replica.types import Greeting
from parallax.replica.versions import Versions

# It warns at each connection of what was asked for by name (SASL_PLAINTEXT), in words that are no event of a log.
logging.getLogger("kafka.net.sasl.plain").setLevel(logging.ERROR)

_MAX_FRAME = 1 << 30
"""Frames beyond this are garbage: a broker's largest answer is one batch beyond what was asked for."""


_TLS_RECORDS, _TLS_MAJOR = (0x15, 0x16), 3
"""How a record of TLS begins (RFC 8446, 5.1): an alert or a handshake, and the version. No first answer is so long."""

_BROKER_REGISTRATION = 62
"""The API key of BrokerRegistration (KIP-631)."""

_KEPT = 16 << 20
"""Bytes that a `ReceiveBuffer` keeps between two ranges: twice the largest Fetch of usual settings."""


class ProtocolError(ConnectionError):
    """The broker's answer does not follow Kafka's protocol."""


class WrongProtocol(ConnectionError):  # noqa: N818 - as the errors of this package are named
    """The broker expects TLS and the settings use none, or the other way round. Its answer proves that."""


class Deadline:
    """A point in time by which a call must have ended.

    Args:
        timeout_ms: milliseconds from now.
    """

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._end = time.monotonic() + timeout_ms / 1000

    def remaining(self) -> float:
        """How many seconds are left until the deadline.

        Raises:
            TimeoutError: the deadline has passed.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def part(self, share: float) -> Deadline:
        """A nearer deadline: after a share (0 to 1) of the time that is left until this one.

        Raises:
            TimeoutError: the deadline has passed.
        """
        return Deadline(self.remaining() * 1000 * share)


class ReceiveBuffer:
    """Memory for responses that is used again and again: each response overwrites the one before."""

    def __init__(self) -> None:
        self._array = np.empty(0, np.uint8)

    def room(self, size: int) -> memoryview:
        """A writable view of the first ``size`` bytes of the memory, which grows if it is too small."""
        if self._array.size < size:
            self._array = np.empty(size + size // 8, np.uint8)
        return self._array.data[:size]

    def shrink(self) -> None:
        """Free the memory if a large response has made it grow, so that it is not kept for small ones.

        Views of it stay valid.
        """
        if self._array.size > _KEPT:
            self._array = np.empty(0, np.uint8)


class Connection:
    """A connected, authenticated socket to one broker, which knows the API versions that the broker speaks.

    From a request to its response, only one thread may use it.

    Args:
        address: the broker's address, (host, port).
        options: how to connect: TLS, SASL, client id.
        deadline: by when the connection must have been made.

    Attributes:
        address: the broker's address.
        reused: whether an earlier request has used this connection, so that it may have broken since.

    Raises:
        OSError: the broker refused or closed the connection, or (TimeoutError) did not answer within the deadline.
        ProtocolError: the broker answered, but not in Kafka's protocol.
        WrongProtocol: the broker speaks TLS though the options say plain text, or the other way round.
        Unauthorized: the broker rejected the credentials.
    """

    def __init__(self, address: Address, options: Options, deadline: Deadline) -> None:
        self.address = address
        self._options = options
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._sock = _connect(address, options, deadline)
        self.reused = False
        try:
            self._ask_versions(deadline)
            if options.sasl is not None:
                self._authenticate(options.sasl, deadline)
        except BaseException:
            self.close()
            raise

    def send(self, request: Any, accepted: Versions, deadline: Deadline) -> None:
        """Send a request; :meth:`receive` must follow before the next one.

        Args:
            request: a request of kafka.protocol, or a ``looking.Written``.
            accepted: the acceptable versions of the request.
            deadline: by when the request must have been sent.

        Raises:
            BrokerTooOld: the broker speaks none of these versions.
        """
        request.API_VERSION = self._version(request, accepted)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request.with_header(correlation_id=self._correlation_id, client_id=self._options.client_id)
        self._sock.settimeout(deadline.remaining())
        self._sock.sendall(request.encode(framed=True, header=True))

    def receive(self, request: Any, deadline: Deadline, into: ReceiveBuffer | None = None) -> Any:
        """Wait for the response to the last request.

        Args:
            request: that request.
            deadline: by when the response must have come.
            into: memory to receive into; the records of a Fetch are views of it. Fresh memory by default.

        Returns:
            For a Fetch of kafka.protocol, a `FetchAnswer`; for a ``looking.Written``, what its ``parse`` makes of the
                answer; otherwise kafka.protocol's own response.

        Raises:
            OSError: the broker closed the connection, or (TimeoutError) did not answer within the deadline.
            ProtocolError: the answer is not one to this request.
        """
        frame = self._frame(deadline, into)
        kind = request.header.get_response_class()
        start = io.BytesIO(bytes(frame[:256]))
        try:
            header = kind.parse_header(start)
            if header.correlation_id != self._correlation_id:
                raise ProtocolError("answered to a request that was not sent")
            body = frame[start.tell() :]
            if isinstance(request, looking.Written):
                return request.parse(body, request.API_VERSION)
            if request.API_KEY == FetchRequest.API_KEY:
                return fetch_response.parse(body, request.API_VERSION)
            return kind.decode(body)
        except (ValueError, struct.error, IndexError, MemoryError, TypeError) as error:
            raise ProtocolError(f"the answer is not a {kind.name}") from error

    def is_another(self, broker: int, deadline: Deadline) -> bool | None:
        """Whether another broker than ``broker`` answers on this connection; None if it does not give its id.

        Raises:
            OSError: nobody answered.
        """
        request = requests.who_answers(broker)
        try:
            return requests.is_another(self._call(request.message, request.versions, deadline))
        except BrokerTooOld:
            return None

    def cluster_id(self, deadline: Deadline) -> str:
        """The id of the cluster that answers on this connection; empty if it gives none.

        Raises:
            OSError: nobody answered.
            BrokerTooOld: the broker speaks no acceptable version of Metadata.
            NotABroker: a controller answers.
        """
        request = requests.metadata([])
        return str(self._call(request.message, request.versions, deadline).cluster_id or "")

    def greeting(self) -> Greeting:
        """What the broker showed when the connection was made: its version, TLS, and its certificate's end."""
        inferred = infer_broker_version_from_api_versions(self._versions)
        if not isinstance(self._sock, ssl.SSLSocket):
            return Greeting(inferred, None, None)
        ends = (self._sock.getpeercert() or {}).get("notAfter")
        seconds = ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else None
        return Greeting(inferred, self._sock.version(), seconds)

    def close(self) -> None:
        """Close the socket; does nothing if it is closed already."""
        self._sock.close()

    def _frame(self, deadline: Deadline, into: ReceiveBuffer | None) -> memoryview:
        head = memoryview(bytearray(4))
        self._fill(head, deadline)
        if self._options.tls is None and not self._versions and head[0] in _TLS_RECORDS and head[1] == _TLS_MAJOR:
            raise _speaks_tls(self.address, self._options)
        (size,) = struct.unpack(">i", head)
        if not 4 <= size <= _MAX_FRAME:
            raise ProtocolError("the answer is not in Kafka's protocol (is the port right, does it want TLS?)")
        frame = into.room(size) if into is not None else np.empty(size, np.uint8).data
        self._fill(frame, deadline)
        return frame

    def _fill(self, target: memoryview, deadline: Deadline) -> None:
        done = 0
        while done < len(target):
            self._sock.settimeout(deadline.remaining())
            got = self._sock.recv_into(target[done:])
            if got == 0:
                raise ConnectionResetError("the broker closed the connection")
            done += got

    def _call(self, request: Any, accepted: Versions, deadline: Deadline) -> Any:
        self.send(request, accepted, deadline)
        return self.receive(request, deadline)

    def _version(self, request: Any, accepted: Versions) -> int:
        lowest, highest = accepted
        low, high = self._versions.get(request.API_KEY, (0, -1)) if self._versions else (0, highest)
        version = min(high, highest)
        if version < max(low, lowest):
            if self._is_controller():
                host, port = self.address
                raise NotABroker(
                    f"{host}:{port} is a KRaft controller, which serves no client; write a broker's address into "
                    "bootstrap.servers"
                )
            name = str(request.name).removesuffix("Request")
            spoken = f"versions {low} to {high}" if high >= 0 else "no version of it"
            raise BrokerTooOld(
                f"{name} v{lowest} to v{highest} is needed, the broker speaks {spoken}; upgrade the broker"
            )
        return version

    def _is_controller(self) -> bool:
        """Whether it takes registrations of brokers, which only controllers do, and no Metadata, which all brokers do.

        By ``listeners`` of Kafka's message definitions.
        """
        return _BROKER_REGISTRATION in self._versions and MetadataRequest.API_KEY not in self._versions

    def _ask_versions(self, deadline: Deadline) -> None:
        response = self._call(ApiVersionsRequest(), versions.API_VERSIONS, deadline)
        if response.error_code:
            raise from_code(response.error_code)
        self._versions = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}

    def _authenticate(self, sasl: Any, deadline: Deadline) -> None:
        name = sasl["mechanism"]
        answer = self._call(SaslHandshakeRequest(mechanism=name), versions.SASL_HANDSHAKE, deadline)
        if answer.error_code:
            accepted = ", ".join(answer.mechanisms)
            if not accepted:
                raise Unauthorized(f"security.protocol: the broker accepts no SASL at this port, and {name} was set")
            raise Unauthorized(f"sasl.mechanism: the broker accepts {accepted}, not {name}")
        mechanism = get_sasl_mechanism(name)(host=self.address[0], **sasl)
        while not mechanism.is_done():
            token = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
            answer = self._call(token, versions.SASL_AUTHENTICATE, deadline)
            if answer.error_code:
                raise from_code(answer.error_code, detail=answer.error_message or "")
            mechanism.receive(bytes(answer.auth_bytes))
        if not mechanism.is_authenticated():
            raise Unauthorized("the broker could not prove that it knows the password; check sasl.password")


def _connect(address: Address, options: Options, deadline: Deadline) -> socket.socket:
    error: OSError = ConnectionError(f"{address[0]} resolves to no address")
    for family, target in _resolve(address, deadline):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(deadline.remaining())
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if options.receive_buffer_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
            sock.connect(target)
            if options.tls is None:
                return sock
            # The timeout that is set holds for each step of the handshake; a broker that answers slowly can only
            # stretch it by what a handshake's few steps take.
            return options.tls.context().wrap_socket(sock, server_hostname=address[0])
        except OSError as failure:
            sock.close()
            error = failure
    raise error


def wrong_protocol(failure: Exception, address: Address, options: Options, deadline: Deadline) -> WrongProtocol | None:
    """Find out whether a connection failed because the broker expects TLS and the settings use none, or vice versa.

    It connects once more, with TLS if the settings use none, and else without. That takes time that other brokers may
    need, so call this only when all have failed.

    Args:
        failure: how the connection failed.
        address: the broker's address.
        options: options of the connection that failed.
        deadline: by when this must end.

    Returns:
        The error to raise; None if the broker's answer does not prove the mistake.
    """
    if isinstance(failure, WrongProtocol):
        return failure
    if options.tls is None:
        # Whoever speaks TLS cuts off what is none, often before its alert is read. Whoever is stopping does, too.
        is_cut = isinstance(failure, ConnectionResetError)
        return _speaks_tls(address, options) if is_cut and _answers_with_tls(address, deadline) else None
    if not _is_no_tls(failure) or not _answers_without_tls(address, options, deadline):
        return None
    host, port = address
    return WrongProtocol(f"broker {host}:{port} does not speak TLS (security.protocol is {options.protocol})")


def _speaks_tls(address: Address, options: Options) -> WrongProtocol:
    host, port = address
    return WrongProtocol(f"broker {host}:{port} speaks TLS (security.protocol is {options.protocol})")


def _is_no_tls(failure: Exception) -> bool:
    """Whether a handshake failed as it does with a broker that speaks no TLS: closed, or answered with something else.

    A broker that is stopping closes the connection as well. Python before 3.11.4 takes that for a close by TLS.
    """
    is_other = isinstance(failure, ssl.SSLError) and failure.reason == "WRONG_VERSION_NUMBER"
    return is_other or isinstance(failure, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionResetError)


def _answers_without_tls(address: Address, options: Options, deadline: Deadline) -> bool:
    """Ask a broker for its versions in plain text, as every client does first; there is no secret in it."""
    plain = Options(bootstrap=(address,), client_id=options.client_id)
    try:
        Connection(address, plain, deadline).close()
    except (OSError, ReplicaError):
        return False
    return True


def _answers_with_tls(address: Address, deadline: Deadline) -> bool:
    """Begin a handshake, even with an unknown peer: no secret is sent by it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        for family, target in _resolve(address, deadline):
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.settimeout(deadline.remaining())
                sock.connect(target)
                context.wrap_socket(sock, server_hostname=address[0]).close()
                return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # as of one that wants a client's certificate
    except OSError:
        pass
    return False


def _resolve(address: Address, deadline: Deadline) -> list[tuple[socket.AddressFamily, Any]]:
    """Look the host up within the deadline; the system's resolver knows no deadline, so it gets a thread."""
    try:
        version = ipaddress.ip_address(address[0]).version
    except ValueError:
        pass
    else:
        return [(socket.AF_INET if version == 4 else socket.AF_INET6, address)]
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put(socket.getaddrinfo(*address, type=socket.SOCK_STREAM))
        except OSError as error:
            answers.put(error)
        except UnicodeError as error:  # as of a name with an empty label, which a broker may advertise
            answers.put(OSError(str(error)))

    threading.Thread(target=look_up, name=f"resolve {address[0]}", daemon=True).start()
    try:
        found = answers.get(timeout=deadline.remaining())
    except queue.Empty:
        raise TimeoutError(f"the name {address[0]} was not resolved") from None
    if isinstance(found, OSError):
        raise ConnectionError(f"the name {address[0]} cannot be resolved ({found.strerror or found})")
    return [(item[0], item[4]) for item in found]
