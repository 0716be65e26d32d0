"""A simulated cluster: three brokers, in one process, that speak as much of Kafka's protocol as a job needs.

It is for partitions by the ten thousand, which real brokers cannot host on the machine of a benchmark. Each partition
has a replica on each broker, and all replicas agree. Each record is a batch of its own. Nothing is stored: an answer is
made when it is asked for. Layouts: Kafka's message definitions (ListOffsets 7, Fetch 12, DescribeProducers 0).
"""

from __future__ import annotations

import argparse
import struct
import sys
import threading
import time
import uuid
from contextlib import suppress
from socket import create_server, socket
from subprocess import PIPE, Popen
from types import TracebackType
from typing import Any, Self

import crc32c
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

BROKERS = (1, 2, 3)
PER_TOPIC = 50
_FETCH, _LIST_OFFSETS, _METADATA, _API_VERSIONS, _CONFIGS, _PRODUCERS = 1, 2, 3, 18, 32, 61
_SPOKEN = {_FETCH: (12, 12), _LIST_OFFSETS: (7, 7), _METADATA: (12, 12), _API_VERSIONS: (0, 0)} | {
    _CONFIGS: (4, 4),
    _PRODUCERS: (0, 0),
}
_CONFIG = {"cleanup.policy": "compact", "delete.retention.ms": "86400000"}


def _batch() -> bytes:
    """One record of a hundred bytes as a batch; its base offset is not under its checksum."""
    value = b"v" * 90
    body = b"\0\0\0" + bytes([2 * 5]) + b"k0001" + b"\xb4\x01" + value + b"\0"
    record = bytes([(2 * len(body)) & 0x7F | 0x80, (2 * len(body)) >> 7]) + body
    covered = struct.pack(">hiqqqhii", 0, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", 0, 9 + len(covered), 0, 2, crc32c.crc32c(covered)) + covered


_BATCH = _batch()


class _Request:
    """Reads a request of a flexible version."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.key, self.version, self.correlation, client = struct.unpack_from(">hhih", body)
        self.at = 10 + max(client, 0)

    def take(self, layout: struct.Struct) -> tuple[Any, ...]:
        values = layout.unpack_from(self._body, self.at)
        self.at += layout.size
        return values

    def number(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._body[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> bytes:
        size = self.number() - 1
        self.at += size
        return self._body[self.at - size : self.at]

    def each(self, layout: struct.Struct) -> list[tuple[Any, ...]]:
        """An array of fixed size, and the tags behind it."""
        count = self.number() - 1
        size = layout.size * count
        found = list(layout.iter_unpack(self._body[self.at : self.at + size]))
        self.at += size
        self.number()
        return found


def _number(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _array(items: list[bytes]) -> bytes:
    return _number(len(items) + 1) + b"".join(items)


_LIST_HEAD, _LIST_ITEM = struct.Struct(">ib"), struct.Struct(">iiqx")
_LISTED = struct.Struct(">ihqqix")
_FETCH_HEAD, _FETCH_ITEM = struct.Struct(">iiiibii"), struct.Struct(">iiqiqix")
_FETCHED = struct.Struct(">ihqqqBi")
_INDEX, _PRODUCED = struct.Struct(">i"), struct.Struct(">ihBBB")


class Cluster:
    """The partitions of the three brokers, and the answers that these give.

    Args:
        partitions: how many partitions there are, in topics of fifty.
        moved: the share of them that gets a record each second.
    """

    def __init__(self, partitions: int, moved: float) -> None:
        self.topics = {f"demo.{n:04d}": [1] * PER_TOPIC for n in range(partitions // PER_TOPIC)}
        self.ports: dict[int, int] = {}
        self._places = [(name, n) for name in self.topics for n in range(PER_TOPIC)]
        self._moved = max(1, int(len(self._places) * moved)) if moved else 0
        self._next = 0

    def grow(self) -> None:
        """Add records, to the share of the partitions that gets one each second; never returns."""
        while True:
            time.sleep(1)
            for _ in range(self._moved):
                name, n = self._places[self._next % len(self._places)]
                self.topics[name][n] += 1
                self._next += 7

    def answer(self, request: _Request) -> bytes:
        """The bytes of the answer to a frequent request, behind its correlation id."""
        if request.key == _LIST_OFFSETS:
            return self._list_offsets(request)
        if request.key == _FETCH:
            return self._fetch(request)
        return self._producers(request)

    def _list_offsets(self, request: _Request) -> bytes:
        request.number()
        request.take(_LIST_HEAD)
        topics = []
        for _ in range(request.number() - 1):
            name = request.text()
            ends = self.topics[name.decode()]
            items = [_LISTED.pack(n, 0, -1, ends[n], 0) for n, _, _ in request.each(_LIST_ITEM)]
            topics.append(_number(len(name) + 1) + name + _array(items) + b"\0")
        return b"\0" + _INDEX.pack(0) + _array(topics) + b"\0"

    def _fetch(self, request: _Request) -> bytes:
        request.number()
        *_, left, _isolation, _session, _epoch = request.take(_FETCH_HEAD)
        topics = []
        for _ in range(request.number() - 1):
            name = request.text()
            ends, items = self.topics[name.decode()], []
            for n, _, offset, _, _, _ in request.each(_FETCH_ITEM):
                end, records = ends[n], b""
                if offset < end and left > 0:
                    count = min(end - offset, 1 + left // len(_BATCH))
                    records = b"".join(struct.pack(">q", o) + _BATCH[8:] for o in range(offset, offset + count))
                    left -= len(records)
                items.append(_FETCHED.pack(n, 0, end, end, 0, 1, -1) + _number(len(records) + 1) + records + b"\0")
            topics.append(_number(len(name) + 1) + name + _array(items) + b"\0")
        return b"\0" + struct.pack(">ihi", 0, 0, 0) + _array(topics) + b"\0"

    def _producers(self, request: _Request) -> bytes:
        request.number()
        topics = []
        for _ in range(request.number() - 1):
            name = request.text()
            items = [_PRODUCED.pack(n, 0, 0, 1, 0) for (n,) in request.each(_INDEX)]
            topics.append(_number(len(name) + 1) + name + _array(items) + b"\0")
        return b"\0" + _INDEX.pack(0) + _array(topics) + b"\0"

    def describe(self, body: bytes, request: _Request) -> bytes:
        """The bytes of the answer to a rare request, which kafka-python writes.

        Args:
            body: the request.
            request: the same, with its header read.
        """
        response: Any
        if request.key == _API_VERSIONS:
            kind = ApiVersionsResponse.ApiVersion
            keys = [kind(api_key=k, min_version=low, max_version=high) for k, (low, high) in _SPOKEN.items()]
            response = ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)
        elif request.key == _METADATA:
            response = self._metadata(MetadataRequest.decode(body, version=request.version, header=True).topics)
        else:
            asked = DescribeConfigsRequest.decode(body, version=request.version, header=True)
            response = self._configs([resource.resource_name for resource in asked.resources])
        response.API_VERSION = request.version
        response.with_header(correlation_id=request.correlation)
        return bytes(response.encode(framed=True, header=True))

    def _metadata(self, asked: Any) -> Any:
        kind = MetadataResponse.MetadataResponseTopic
        names = self.topics if asked is None else [topic.name for topic in asked if topic.name in self.topics]
        of_broker = MetadataResponse.MetadataResponseBroker
        brokers = [of_broker(node_id=b, host="127.0.0.1", port=p, rack=None) for b, p in self.ports.items()]
        topics = [
            kind(
                error_code=0,
                name=name,
                topic_id=uuid.uuid5(uuid.NAMESPACE_DNS, name),
                is_internal=False,
                partitions=[
                    kind.MetadataResponsePartition(
                        error_code=0,
                        partition_index=n,
                        leader_id=1 + n % len(BROKERS),
                        leader_epoch=0,
                        replica_nodes=list(BROKERS),
                        isr_nodes=list(BROKERS),
                        offline_replicas=[],
                    )
                    for n in range(PER_TOPIC)
                ],
            )
            for name in names
        ]
        said = {"throttle_time_ms": 0, "cluster_id": "simulated", "controller_id": 1}
        return MetadataResponse(brokers=brokers, topics=topics, **said)

    def _configs(self, names: list[str]) -> Any:
        kind = DescribeConfigsResponse.DescribeConfigsResult
        of = kind.DescribeConfigsResourceResult
        configs = [
            of(
                name=name,
                value=value,
                read_only=False,
                config_source=5,
                is_sensitive=False,
                synonyms=[],
                config_type=2,
                documentation=None,
            )
            for name, value in _CONFIG.items()
        ]
        results = [
            kind(error_code=0, error_message=None, resource_type=2, resource_name=name, configs=configs)
            for name in names
        ]
        return DescribeConfigsResponse(throttle_time_ms=0, results=results)

    def serve(self, connection: socket) -> None:
        """Answer the requests of one connection, until it is closed."""
        with suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while head := stream.read(4):
                body = stream.read(struct.unpack(">i", head)[0])
                request = _Request(body)
                if request.key in (_FETCH, _LIST_OFFSETS, _PRODUCERS):
                    answer = _INDEX.pack(request.correlation) + self.answer(request)
                    connection.sendall(_INDEX.pack(len(answer)) + answer)
                else:
                    connection.sendall(self.describe(body, request))


def _accept(cluster: Cluster, listener: socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=cluster.serve, args=(connection,), daemon=True).start()


class SimulatedCluster:
    """Runs a `Cluster` in a process of its own, within its context.

    Args:
        partitions: how many partitions there are, a multiple of fifty.
        moved: the share of them that gets a record each second.

    Attributes:
        bootstrap_servers: the address of the first broker.
    """

    def __init__(self, partitions: int, moved: float) -> None:
        self._command = [sys.executable, "-m", __name__, str(partitions), str(moved)]
        self.bootstrap_servers = ""

    def __enter__(self) -> Self:
        self._process = Popen(self._command, stdout=PIPE, text=True)
        assert self._process.stdout is not None
        self.bootstrap_servers = self._process.stdout.readline().strip()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Serve until the process is killed; the first line of output is the address of the first broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int)
    parser.add_argument("moved", type=float)
    options = parser.parse_args()
    cluster = Cluster(options.partitions, options.moved)
    for broker in BROKERS:
        listener = create_server(("127.0.0.1", 0), backlog=64)
        cluster.ports[broker] = listener.getsockname()[1]
        threading.Thread(target=_accept, args=(cluster, listener), daemon=True).start()
    print(f"127.0.0.1:{cluster.ports[BROKERS[0]]}", flush=True)
    cluster.grow()


if __name__ == "__main__":
    main()
