"""Asks brokers what the planner needs to know: how far their logs go, and which topics there are."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from parallax.model import IsolationLevel, TopicPartition
from parallax.moments import FOREVER_MS, now_ms
from parallax.replica.client import FetchPosition, ReplicaClient, TopicMetadata
from parallax.replica.errors import BrokerTooOld, NotHosted, ReplicaError, Unauthorized, UnknownTopic
from parallax.replica.places import Array, Marks, Places
from parallax.source.options import SourceOptions, matches
from parallax.source.planning import LogState
from parallax.source.watch import Brokers

_SAMPLE_BYTES = 64 << 10
_SAMPLES = 16
"""How many partitions one survey samples, at most; the next survey takes others."""
_SAMPLE_FROM = 20_000
"""A log with more unread offsets than this is worth a sample."""

_BATCH_HEADER = struct.Struct(">qi11xi30xi")
"""baseOffset, batchLength, skipped: partitionLeaderEpoch to attributes, lastOffsetDelta, skipped: baseTimestamp to
baseSequence, the number of records (KIP-98)."""


@dataclass(frozen=True)
class Survey:
    """What the planner asks one broker: how far its logs go, and how many bytes an offset takes.

    It needs the bytes only of logs with many unread offsets.

    Attributes:
        places: the partitions asked about, with their topic ids.
        positions: int64[n], the lowest position of the readers of each partition; -1 where one of them was never read.
        known: bool[n], whether the density of the partition's log is known well enough, so that no sample is needed.
    """

    places: Places
    positions: Array
    known: Array


@dataclass(frozen=True, slots=True)
class Density:
    """How many bytes and records one offset of a log has on average, by a sample of the log.

    Attributes:
        size: compressed bytes per offset.
        records: records per offset; below 1 where the log was compacted.
    """

    size: float
    records: float


@dataclass(frozen=True)
class Surveyed:
    """One broker's answer to a `Survey`.

    Attributes:
        marks: the watermarks of the broker's logs.
        moved: by partition, the first offset on the broker's own disk. It has only logs whose lower offsets are in
            tiered storage, and which some reader has never read.
        densities: by partition, the densities of the logs that were sampled.
        asked: the partitions that were asked about, with their topic ids.
    """

    marks: Marks
    moved: Mapping[TopicPartition, int] = field(default_factory=dict)
    densities: Mapping[TopicPartition, Density] = field(default_factory=dict)
    asked: Places = field(default_factory=lambda: Places(()))

    def log(self, place: TopicPartition) -> LogState | None:
        """What the broker reported of one log; None if it reported nothing that a plan can use."""
        at = self.marks.places.located.get(place)
        marks = None if at is None else self.marks.said(at)
        if marks is None:
            return None
        topic_id = self.asked.topic_id(place.topic)
        if isinstance(marks, ReplicaError):
            return None if marks.event is None else LogState(error=marks.event, detail=str(marks), topic_id=topic_id)
        start, detail = marks.log_start_offset, ""
        if place in self.moved:
            start = self.moved[place]
            detail = f"offsets {marks.log_start_offset} to {start - 1} are no longer in the replica's own log"
        offsets = marks.high_watermark, marks.last_stable_offset, start, marks.log_end_offset
        return LogState(*offsets, detail=detail, topic_id=topic_id)


def survey(client: ReplicaClient, broker: int, question: Survey, timeout_ms: int) -> Surveyed:
    """Ask one broker how far its logs go, and sample some logs in the time that is left.

    Args:
        client: the connections to the brokers.
        broker: the broker's id.
        question: the partitions, and which of them need a sample.
        timeout_ms: deadline of all requests together.

    Raises:
        ReplicaError: the broker as a whole did not answer.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    marks = Marks.of(client.watermarks(broker, question.places, timeout_ms=timeout_ms))
    moved = dict(_tiered(client, broker, question, marks, deadline))
    return Surveyed(marks, moved, dict(_samples(client, broker, question, marks, deadline)), question.places)


def _tiered(
    client: ReplicaClient, broker: int, question: Survey, marks: Marks, deadline: float
) -> Iterable[tuple[TopicPartition, int]]:
    """The first offset that the broker itself holds, for logs whose oldest part is in tiered storage.

    Only logs that are read from their start are asked about. A broker would serve a consumer from tiered storage as
    well, the same on every broker. That says nothing about its own replica.
    """
    unread = question.positions < 0
    unread[list(marks.errors)] = False
    begun = [question.places[at] for at in np.flatnonzero(unread).tolist()]
    left_ms = (deadline - time.monotonic()) * 1000
    if not begun or left_ms <= 1:
        return
    try:
        starts = client.local_log_starts(broker, begun, timeout_ms=left_ms)
    except BrokerTooOld:
        return
    for partition, start in starts.items():
        if not isinstance(start, ReplicaError) and start > marks.log_start_offset[marks.places.located[partition]]:
            yield partition, start


def _samples(
    client: ReplicaClient, broker: int, question: Survey, marks: Marks, deadline: float
) -> Iterable[tuple[TopicPartition, Density]]:
    begin = np.maximum(question.positions, marks.log_start_offset)
    for at in _worth_sampling(question, marks.high_watermark - begin, marks.errors)[:_SAMPLES]:
        left_ms = (deadline - time.monotonic()) * 1000
        if left_ms <= 1:
            return
        partition, start = question.places[at], int(begin[at])
        position = FetchPosition(*partition, start, _SAMPLE_BYTES)
        (answer,) = client.fetch(
            broker,
            [position],
            isolation=IsolationLevel.READ_UNCOMMITTED,
            max_bytes=_SAMPLE_BYTES,
            timeout_ms=left_ms,
        )
        found = density(answer.records, start)
        if found is not None:
            yield partition, found


def _worth_sampling(question: Survey, backlog: Array, errors: Iterable[int]) -> list[int]:
    worth = (backlog > _SAMPLE_FROM) & ~question.known
    worth[list(errors)] = False
    found = np.flatnonzero(worth)
    order: list[int] = found[np.argsort(-backlog[found], kind="stable")].tolist()
    return order


def density(records: memoryview, start: int) -> Density | None:
    """The bytes and records that one offset has on average, by the batch headers in a Fetch response.

    Args:
        records: the response's records; the last batch may be truncated.
        start: the offset that was fetched; offsets below it are not counted.

    Returns:
        The averages; None if there is no batch.
    """
    at, size, count, last = 0, 0, 0, start - 1
    while at + _BATCH_HEADER.size <= len(records):
        base, length, last_delta, held = _BATCH_HEADER.unpack_from(records, at)
        if length <= 0:
            break
        size += length + 12
        count += min(max(held, 0), last_delta + 1)  # no checksum was looked at
        last = max(last, base + last_delta)
        at += length + 12
    offsets = last + 1 - start
    return Density(size / offsets, count / offsets) if offsets > 0 else None


_POLICY, _RETENTION = "cleanup.policy", "delete.retention.ms"
_CLUSTER = -1
"""The broker id that means the cluster as a whole."""


class Catalog:
    """The topics that are read, with their partitions and replicas; a thread of its own keeps them up to date.

    Args:
        client: the connections to the cluster.
        options: which topics to read, and how often to ask for them.
        policies: whether to ask for each topic's cleanup policy as well.
    """

    def __init__(self, client: ReplicaClient, options: SourceOptions, *, policies: bool = False) -> None:
        self._policies = policies
        self._client = client
        self._options = options
        self.asked_at = 0.0
        """When the cluster was asked for the metadata that `topics` returns, in monotonic seconds."""
        self._watch: Brokers[bool, tuple[float, dict[str, TopicMetadata]]] = Brokers(
            lambda _, __: self._load(), options.retry_ms / 1000, options.retry_max_ms / 1000
        )
        self._topics: dict[str, TopicMetadata] | None = None
        self._remembered: frozenset[str] = frozenset()
        self._next = 0.0

    def topics(self) -> dict[str, TopicMetadata]:
        """Topics by name, as last known; a named topic that does not exist has its ``error`` set.

        Only the first call waits for an answer.

        Raises:
            ReplicaError: no broker has answered yet.
        """
        if self._topics is None:
            self.asked_at, self._topics = self._load()
            self._next = time.monotonic() + self._options.metadata_refresh_ms / 1000
        elif time.monotonic() >= self._next:
            fresh = self._watch.ask({_CLUSTER: True}, patience_s=0.0).get(_CLUSTER)
            if fresh is not None:
                self.asked_at, self._topics = fresh
                self._next = time.monotonic() + self._options.metadata_refresh_ms / 1000
        return self._topics

    def remember(self, names: Iterable[str]) -> None:
        """Set the names of topics that were read before.

        The cluster is asked for them by name, even if its list of topics no longer has them.
        """
        self._remembered = frozenset(names)

    def close(self) -> None:
        """End the thread that asks for topics."""
        self._watch.close()

    def refresh(self) -> None:
        """Let the next call of `topics` ask the cluster again, even if the last answer is recent.

        It is for a caller that has seen a sign of newer metadata.
        """
        self._next = 0.0

    def _load(self) -> tuple[float, dict[str, TopicMetadata]]:
        asked_at = time.monotonic()
        pattern, named = self._options.pattern, self._options.topics
        found = self._client.metadata(None if pattern is not None else list(named))
        wanted = {name: topic for name, topic in found.items() if name in named or matches(pattern, name)}
        known = {name: topic for name, topic in (self._topics or {}).items() if topic.partitions}
        wanted |= self._hidden(sorted((known.keys() | self._remembered) - wanted.keys()))
        for name in named:
            if name not in wanted:
                wanted[name] = TopicMetadata(name, "", {}, UnknownTopic("no such topic", topic=name))
        for name, topic in wanted.items():
            if isinstance(topic.error, Unauthorized) and name in known:
                # Its partitions are where they were, for all that is known; what they hold cannot be asked.
                wanted[name] = replace(known[name], error=topic.error)
        return asked_at, self._with_policies(wanted) if self._policies else wanted

    def _hidden(self, names: list[str]) -> dict[str, TopicMetadata]:
        """Topics that the list of all topics had once and has no more, if they still exist.

        Without the right DESCRIBE a topic is left out of the list, as if it had been deleted. Asked for it by name, the
        brokers say which of the two it is.
        """
        found = self._client.metadata(names) if names else {}
        return {name: t for name, t in found.items() if name in names and not isinstance(t.error, UnknownTopic)}

    def _with_policies(self, topics: dict[str, TopicMetadata]) -> dict[str, TopicMetadata]:
        """Add the topics' cleanup policies; a policy that the brokers do not give stays unknown."""
        asked_at = now_ms()
        readable = [name for name, topic in topics.items() if topic.error is None]
        try:
            given = self._client.topic_configs(readable, [_POLICY, _RETENTION]) if readable else {}
        except ReplicaError:
            given = {}
        known = {name: configs for name, configs in given.items() if not isinstance(configs, ReplicaError)}
        return {
            name: replace(
                topic,
                cleanup_policy=known.get(name, {}).get(_POLICY),
                policy_at_ms=asked_at,
                delete_retention_ms=_milliseconds(known.get(name, {}).get(_RETENTION)),
            )
            for name, topic in topics.items()
        }


def _milliseconds(text: str | None) -> int | None:
    """A setting in ms, at most `FOREVER_MS`, since times are added to it; None if it is not known."""
    return min(int(text), FOREVER_MS) if text is not None and text.isdecimal() else None


def check_brokers(
    client: ReplicaClient,
    topics: Mapping[str, TopicMetadata],
    wanted: Iterable[int],
    option: str = "topics.brokers",
    done: str = "",
) -> None:
    """Check that each broker that a person names is in the cluster, or is away and hosts a replica.

    Args:
        client: connections over which the cluster has already been asked.
        topics: the topics of the cluster, with their replicas.
        wanted: ids of the named brokers.
        option: the setting, option or argument that names them, for the error.
        done: what the error says was not done, as in ``, and nothing was paused``.

    Raises:
        NotHosted: a broker is not in the cluster, and hosts no replica.
    """
    known = {*client.brokers(), *(b for t in topics.values() for p in t.partitions.values() for b in p.replicas)}
    if strangers := sorted(set(wanted) - known):
        ids = ", ".join(map(str, sorted(known)))
        raise NotHosted(f"{option}: the cluster has no broker {strangers[0]}{done}; it has these: {ids}")
