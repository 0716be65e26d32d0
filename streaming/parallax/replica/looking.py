"""Makes requests for log start, LSO, high watermark and log end of many replicas together; it sends none.

kafka-python makes an object for each partition. For ten thousand partitions that is most of the cost. So this module
writes the requests' bytes itself, with the partitions as columns (`parallax.replica.places`). The layouts are those of
ListOffsets 4 to 7 and Fetch 11 to 13, by the message definitions of Kafka's clients. Compact lengths and tagged fields
(KIP-482) begin with ListOffsets 6 and Fetch 12. Fetch 13 is the first that names topics by their ids (KIP-516).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from parallax.model import UNKNOWN, IsolationLevel, MissingRight
from parallax.replica import requests, topic_ids, versions
from parallax.replica.errors import ReplicaError, Throttled, from_code
from parallax.replica.fetch_response import BY_ID, Cursor, partition_answer
from parallax.replica.places import Array, Marks, Places
from parallax.replica.requests import Request
from parallax.replica.types import FetchPosition

_DEBUGGING_REPLICA, _CONSUMER = -2, -1
_NOWHERE = 1 << 62
"""An offset that no log has: asked for where the answer does not matter, it brings no records."""


@dataclass
class Written:
    """A request whose body Parallax writes itself, and whose answer it reads itself; kafka-python makes the header.

    It stands in for a request class of kafka-python, and so has the same attributes and methods.

    Attributes:
        message: kafka-python's class for this request, for its headers.
        body: called with a version; returns the bytes of the request's body in that version.
        parse: called with the bytes of the answer's body and their version; returns what they say.
    """

    message: Any
    body: Callable[[int], bytes]
    parse: Callable[[memoryview, int], Any]

    @property
    def API_KEY(self) -> int:  # noqa: N802 - kafka-python's name
        """The request's API key."""
        return int(self.message.API_KEY)

    @property
    def API_VERSION(self) -> int:  # noqa: N802 - kafka-python's name
        """The version in which the request is sent."""
        return int(self.message.API_VERSION)

    @API_VERSION.setter
    def API_VERSION(self, version: int) -> None:  # noqa: N802 - kafka-python's name
        self.message.API_VERSION = version

    @property
    def name(self) -> str:
        """The name of the request's class in kafka-python, e.g. ``FetchRequest``; texts of errors contain it."""
        return str(self.message.name)

    @property
    def header(self) -> Any:
        """The header that `with_header` has given the request; None if it has given none yet."""
        return self.message.header

    def with_header(self, **fields: Any) -> None:
        """Give the request a header.

        Args:
            fields: what kafka-python's header takes, such as ``correlation_id`` and ``client_id``.
        """
        self.message.with_header(**fields)

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """The request's bytes: its length, its header and its body.

        Args:
            framed: ignored; the length is always in front.
            header: ignored; the header is always between the length and the body.
        """
        del framed, header
        is_flexible = self.message.flexible_version_q(self.API_VERSION)
        said = self.message.encode_header(flexible=is_flexible) + self.body(self.API_VERSION)
        return struct.pack(">i", len(said)) + said


def list_offsets(broker: int, places: Places, timestamp: int, accepted: versions.Versions) -> Request:
    """Make a request that asks one broker's replicas for an offset of their own logs, such as the log end.

    The answer is parsed into a tuple: int64[n], each partition's offset, -1 where none is known; and the errors by
    index of the partition. A partition that the answer leaves out has an error as well.

    Args:
        broker: id of the broker that is asked, for errors.
        places: the n partitions.
        timestamp: which offset: -1 for the log end, or another of Kafka's special timestamps.
        accepted: the acceptable versions of the request.
    """
    head = struct.pack(">ib", _DEBUGGING_REPLICA, int(IsolationLevel.READ_UNCOMMITTED))

    def body(version: int) -> bytes:
        def make() -> bytes:
            is_flexible = version >= _FLEXIBLE_LIST
            items = np.zeros(len(places), _tagged(_LIST_ITEM, is_flexible=is_flexible))
            items["partition"], items["epoch"], items["timestamp"] = places.partitions, -1, timestamp
            return head + _topics(places, items, is_flexible=is_flexible) + (b"\0" if is_flexible else b"")

        return bytes(places.once(("list", timestamp, version), make))

    def parse(answer: memoryview, version: int) -> tuple[Array, dict[int, ReplicaError]]:
        cursor = Cursor(answer, flexible=version >= _FLEXIBLE_LIST)
        cursor.take(">i")
        offsets, codes = np.full(len(places), UNKNOWN, np.int64), np.full(len(places), _LEFT_OUT, np.int32)
        layout = _tagged(_LISTED, is_flexible=cursor.flexible)
        for _ in range(cursor.count()):
            topic = cursor.string()
            items = np.frombuffer(cursor.bytes(layout.itemsize * (count := cursor.count())), layout, count)
            if cursor.flexible and items["tags"].any():
                raise ValueError("tagged fields where this version has none")
            cursor.tags()
            at = _asked(places, topic, items["partition"])
            offsets[at], codes[at] = items["offset"], items["error"]
        return offsets, _errors(broker, places, codes, MissingRight.DESCRIBE)

    return Request(Written(ListOffsetsRequest(), body, parse), accepted)


def fetch_ends(broker: int, places: Places, ends: Array, refused: dict[int, ReplicaError]) -> Request:
    """Make a Fetch at the end of each log: its answer has no records, but LSO, high watermark and log start of each.

    The answer is parsed into `Marks`, or into an error of the broker as a whole, which is returned and not raised, so
    that the connection stays open. Topics are named by id if all ids are known and the broker speaks that version.

    Args:
        broker: id of the broker that is asked, for errors.
        places: the n partitions.
        ends: int64[n], log end offsets.
        refused: by index of the partition, the error of an earlier answer; it is that partition's result, whatever this
            answer says.
    """
    positions = ends.copy()
    positions[list(refused)] = _NOWHERE
    said = (_CONSUMER, 0, 0, 1, int(IsolationLevel.READ_COMMITTED), 0, -1)

    def body(version: int) -> bytes:
        is_flexible = version >= _FLEXIBLE_FETCH
        made: Array = places.once(("fetch", version), lambda: _positions(places, is_flexible=is_flexible))
        items = made.copy()  # several brokers may be asked for the same at one time
        items["offset"] = positions
        topics = _topics(places, items, is_flexible=is_flexible, by_id=version >= BY_ID)
        # No topics are forgotten, there is no rack.
        tail = b"\1\1\0" if is_flexible else struct.pack(">ih", 0, 0)
        return struct.pack(">iiiibii", *said) + topics + tail

    def parse(answer: memoryview, version: int) -> Marks | ReplicaError:
        return _Ends(broker, places, positions, version).parse(answer, refused)

    accepted = versions.FETCH_BY_ID if all(places.topic_ids) else versions.FETCH
    return Request(Written(FetchRequest(), body, parse), accepted)


class _Ends:
    """Reads the answer to `fetch_ends`."""

    def __init__(self, broker: int, places: Places, positions: Array, version: int) -> None:
        self._broker, self._places, self._positions = broker, places, positions
        self._version = version
        self._names = dict(zip(places.topic_ids, places.topics, strict=True)) if version >= BY_ID else {}
        count = len(places)
        self._codes = np.full(count, _LEFT_OUT, np.int32)
        self._marks = {name: np.full(count, UNKNOWN, np.int64) for name in _SAID}
        self._errors: dict[int, ReplicaError] = {}

    def parse(self, answer: memoryview, refused: dict[int, ReplicaError]) -> Marks | ReplicaError:
        cursor = Cursor(answer, flexible=self._version >= _FLEXIBLE_FETCH)
        throttle_ms, error_code, _session = cursor.take(">ihi")
        if error_code:
            return from_code(error_code, broker=self._broker)
        topics = cursor.count()
        if not topics and throttle_ms > 0:
            return Throttled(throttle_ms, broker=self._broker)
        for _ in range(topics):
            self._topic(cursor)
        errors = {
            **_errors(self._broker, self._places, self._codes, None, self._positions),
            **self._errors,
            **refused,
        }
        silent = list(errors)
        columns = {**self._marks, "log_end_offset": self._positions.copy()}
        for column in columns.values():
            column[silent] = UNKNOWN
        return Marks(self._places, errors=errors, **columns)

    def _topic(self, cursor: Cursor) -> None:
        name, topic_id = cursor.topic(self._version)
        name, count = self._names.get(topic_id, name), cursor.count()
        layout = _ENDED if cursor.flexible else _ENDED_RIGID
        items = cursor.peek(layout, count)
        if items is not None and _is_bare(items, flexible=cursor.flexible):
            cursor.bytes(layout.itemsize * count)
            at = _asked(self._places, name, items["partition"])
            self._codes[at] = items["error"]
            for field, column in self._marks.items():
                column[at] = items[field]
        else:
            for _ in range(count):
                self._one(cursor, name)
        cursor.tags()

    def _one(self, cursor: Cursor, name: str) -> None:
        answer = partition_answer(cursor, name)
        at = int(_asked(self._places, name, np.array([answer.partition]))[0])
        self._codes[at] = answer.error_code
        for field, column in self._marks.items():
            column[at] = getattr(answer, field)
        if not answer.error_code and answer.preferred_read_replica >= 0:
            position = FetchPosition(name, answer.partition, int(self._positions[at]))
            problem = requests.fetched_one(self._broker, position, answer).error
            if problem is not None:
                self._errors[at] = problem


_LEFT_OUT = -100
"""Means that there is no answer, where Kafka has its error codes."""

_FLEXIBLE_LIST, _FLEXIBLE_FETCH = 6, 12
_SAID = ("high_watermark", "last_stable_offset", "log_start_offset")
_LIST_ITEM = [("partition", ">i4"), ("epoch", ">i4"), ("timestamp", ">i8")]
_LISTED = [("partition", ">i4"), ("error", ">i2"), ("timestamp", ">i8"), ("offset", ">i8"), ("epoch", ">i4")]
_HEAD = [("partition", ">i4"), ("error", ">i2"), *((name, ">i8") for name in _SAID)]
_ENDED = np.dtype([*_HEAD, ("aborted", "u1"), ("preferred", ">i4"), ("records", "u1"), ("tags", "u1")])
_ENDED_RIGID = np.dtype([*_HEAD, ("aborted", ">i4"), ("preferred", ">i4"), ("records", ">i4")])


def _is_bare(items: Array, *, flexible: bool) -> bool:
    """Whether no answer holds an aborted transaction, records, tagged fields or a redirection: all are of one size.

    The first answer that holds something is where it would be anyway, so it is not missed.
    """
    plain: Array = (items["preferred"] < 0) & (items["aborted"] < (2 if flexible else 1))
    plain &= items["records"] < (2 if flexible else 1)
    if flexible:
        plain &= items["tags"] == 0
    return bool(plain.all())


def _asked(places: Places, topic: str, numbers: Array) -> Array:
    """The places of partitions that an answer speaks of.

    Raises:
        ValueError: one of them was not asked for.
    """
    known = places.topic_index.get(topic)
    at = np.full(1, UNKNOWN) if known is None else places.at(known, numbers)
    if (at < 0).any():
        raise ValueError("the answer speaks of a partition that was not asked for")
    return at


def _tagged(fields: list[tuple[str, str]], *, is_flexible: bool) -> np.dtype[Any]:
    return np.dtype([*fields, ("tags", "u1")] if is_flexible else fields)


def _positions(places: Places, *, is_flexible: bool) -> Array:
    fields = [("partition", ">i4"), ("epoch", ">i4"), ("offset", ">i8")]
    fields += [("fetched_epoch", ">i4")] * is_flexible
    fields += [("log_start", ">i8"), ("max_bytes", ">i4")]
    items = np.zeros(len(places), _tagged(fields, is_flexible=is_flexible))
    items["partition"], items["epoch"], items["log_start"], items["max_bytes"] = places.partitions, -1, -1, 1
    if is_flexible:
        items["fetched_epoch"] = -1
    return items


def _topics(places: Places, items: Array, *, is_flexible: bool, by_id: bool = False) -> bytes:
    """An array of topics, each with an array of items of one size."""

    def make() -> list[bytes]:
        return _topic_heads(places, is_flexible=is_flexible, by_id=by_id)

    heads: list[bytes] = places.once(("topics", is_flexible, by_id), make)
    raw, size, tail = items.tobytes(), items.dtype.itemsize, b"\0" if is_flexible else b""
    parts = [_count(len(heads), is_flexible=is_flexible)]
    for head, span in zip(heads, places.slices, strict=True):
        parts += (head, raw[span.start * size : span.stop * size], tail)
    return b"".join(parts)


def _topic_heads(places: Places, *, is_flexible: bool, by_id: bool) -> list[bytes]:
    if by_id:
        names = [topic_ids.of(topic_id).bytes for topic_id in places.topic_ids]
    else:
        names = [_name(topic.encode(), is_flexible=is_flexible) for topic in places.topics]
    counts = (_count(span.stop - span.start, is_flexible=is_flexible) for span in places.slices)
    return [name + count for name, count in zip(names, counts, strict=True)]


def _name(name: bytes, *, is_flexible: bool) -> bytes:
    return (_count(len(name), is_flexible=True) if is_flexible else struct.pack(">h", len(name))) + name


def _count(items: int, *, is_flexible: bool) -> bytes:
    if not is_flexible:
        return struct.pack(">i", items)
    left, made = items + 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _errors(
    broker: int, places: Places, codes: Array, needs: MissingRight | None, positions: Array | None = None
) -> dict[int, ReplicaError]:
    """By place, what a code other than 0 means."""
    found: dict[int, ReplicaError] = {}
    for at in np.flatnonzero(codes).tolist():
        topic, partition = places[at]
        code = int(codes[at])
        if code == _LEFT_OUT:
            found[at] = requests.left_out(broker, topic, partition)
            continue
        more: dict[str, Any] = {} if needs is None else {"needs": needs}
        if positions is not None and code == 1:
            more["detail"] = f"offset {positions[at]}"
        found[at] = from_code(code, broker=broker, topic=topic, partition=partition, **more)
    return found


__all__ = ["Written", "fetch_ends", "list_offsets"]
