"""Looks at a partition for a repair: who leads and who is in sync, what replicas hold open, and what is on record."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from parallax.errors import one_line
from parallax.findings.coordinators import verdicts
from parallax.findings.finding import Finding, current
from parallax.findings.hanging import Open, Standing, Verdict, opened
from parallax.findings.table import NoFindingsTableError, read_events
from parallax.model import IsolationLevel, Outcome, RowKind, TopicPartition, hash_text
from parallax.repair.seen import END_MARKERS, Log, Look, Replica, Row, Transaction
from parallax.replica.client import PartitionMetadata, ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError, UnknownTopic
from parallax.replica.reader import Chunk, read_range

_KEPT = 10_000
"""Rows of one producer that are kept of one log; a transaction that has more is not mended in place."""
_SETTLED = Verdict(Standing.HANGS, "no replica holds it open any more")


def standing(storage: str, place: TopicPartition) -> list[Finding]:
    """The findings that stand about a partition; none where no job has ever reported any.

    Raises:
        FindingsTableError: they cannot be read.
    """
    try:
        found = current(read_events(storage)).values()
    except NoFindingsTableError:
        return []
    return [finding for finding in found if finding.stands and finding.place == place]


class Lookout:
    """Looks at one partition.

    Args:
        client: asks the cluster.
        storage: ``storage.path``, whose findings count.
        place: the partition.
        hasher: makes the keyed hashes of what is kept.
        max_bytes: of one replica's log that one look may read.
        timeout_ms: of each request.
    """

    def __init__(
        self,
        client: ReplicaClient,
        storage: str,
        place: TopicPartition,
        hasher: ContentHasher,
        max_bytes: int,
        timeout_ms: int,
    ) -> None:
        self._client = client
        self._storage = storage
        self._place = place
        self._hasher = hasher
        self._max_bytes = max_bytes
        self._timeout_ms = timeout_ms

    def look(self, also: Collection[tuple[int, int]] = ()) -> Look:
        """Look at the partition now.

        Args:
            also: producer and start of transactions that are looked at even where no replica holds them open.

        Raises:
            UnknownTopic: there is no such partition.
            ReplicaError: no broker answers.
            FindingsTableError: the findings cannot be read.
        """
        at_ms = time.time_ns() // 1_000_000
        findings = frozenset(finding.finding_id for finding in standing(self._storage, self._place))
        topic = self._client.metadata([self._place.topic])[self._place.topic]
        if topic.error is not None:
            raise topic.error
        partition = topic.partitions.get(self._place.partition)
        if partition is None:
            raise UnknownTopic("no such partition; check its number", topic=self._place.topic)
        replicas = {broker: self._replica(broker) for broker in partition.replicas}
        return Look(
            at_ms,
            self._client.cluster_id,
            self._place,
            topic.topic_id,
            partition.leader,
            partition.leader_epoch,
            partition.replicas,
            frozenset(partition.isr),
            replicas,
            tuple(self._transactions(partition, replicas, also)),
            findings,
        )

    def _replica(self, broker: int) -> Replica:
        try:
            marks = self._client.watermarks(broker, [self._place])[self._place]
            states = self._client.describe_producers(broker, [self._place], timeout_ms=self._timeout_ms)[self._place]
        except ReplicaError as error:
            return Replica(error=one_line(error.problem))
        problem = next((one for one in (marks, states) if isinstance(one, ReplicaError)), None)
        if problem is not None or isinstance(marks, ReplicaError) or isinstance(states, ReplicaError):
            return Replica(error="" if problem is None else one_line(problem.problem))
        return Replica(marks, tuple(states))

    def _transactions(
        self, partition: PartitionMetadata, replicas: dict[int, Replica], also: Collection[tuple[int, int]]
    ) -> Iterable[Transaction]:
        found: dict[tuple[int, int], Open] = {}
        for broker in partition.replicas:  # of several that hold one open any will do
            for one in opened(self._place, broker, list(replicas[broker].producers)):
                found.setdefault((one.producer_id, one.start_offset), one)
        judged = verdicts(self._client, list(found.values()), self._timeout_ms)
        for producer_id, start in sorted(found.keys() | set(also), key=lambda one: one[1]):
            held = found.get((producer_id, start))
            verdict = _SETTLED if held is None else judged.get(held)
            if verdict is None:  # it was over when it was asked for once more
                if (producer_id, start) not in also:
                    continue
                verdict = _SETTLED
            logs = {}
            if verdict.standing is not Standing.GOES_ON:
                logs = {broker: self._log(broker, producer_id, start) for broker in partition.replicas}
            yield Transaction(producer_id, start, verdict, logs)

    def _log(self, broker: int, producer_id: int, start: int) -> Log:
        """What a replica holds of a producer from an offset on, with outcomes up to its last stable offset."""
        budget = _Budget(self._max_bytes)
        rows: dict[int, Row] = {}
        try:
            marks = self._client.watermarks(broker, [self._place])[self._place]
            if isinstance(marks, ReplicaError):
                raise marks
            # What the cleaner or DeleteRecords took from below the log start is nobody's to read.
            at = max(start, marks.log_start_offset)
            ends = ((IsolationLevel.READ_COMMITTED, marks.last_stable_offset),)
            for isolation, end in (*ends, (IsolationLevel.READ_UNCOMMITTED, marks.high_watermark)):
                for chunk in self._chunks(broker, at, end, isolation, budget):
                    _take(rows, chunk, producer_id)
                    at = max(at, chunk.position)
                    if budget.is_spent or len(rows) > _KEPT:
                        limit = (
                            f"findings.max_scan_bytes ({self._max_bytes})" if budget.is_spent else f"{_KEPT} records"
                        )
                        return Log(_in_order(rows), f"more lies behind it than {limit}")
        except ReplicaError as error:
            return Log(_in_order(rows), one_line(error.problem))
        return Log(_in_order(rows))

    def _chunks(self, broker: int, start: int, end: int, isolation: IsolationLevel, budget: _Budget) -> Iterable[Chunk]:
        if start >= end:
            return ()
        return read_range(
            self._client,
            broker,
            *self._place,
            start,
            end,
            isolation=isolation,
            hasher=self._hasher,
            deadline_ms=self._timeout_ms,
            pace=budget,
        )


class _Budget:
    """How much one look may read of one log; it holds nothing back."""

    def __init__(self, most: int) -> None:
        self._left = most

    @property
    def is_spent(self) -> bool:
        return self._left < 0

    def wait(self) -> None:
        """Fetch on."""

    def received(self, size: int) -> None:
        self._left -= size


def _take(rows: dict[int, Row], chunk: Chunk, producer_id: int) -> None:
    columns = chunk.columns
    for at in (columns.producer_id == producer_id).nonzero()[0].tolist():
        kind = RowKind(int(columns.kind[at]))
        offset = int(columns.offset[at])
        if kind is RowKind.RECORD:
            key = hash_text(int(columns.key_hash_hi[at]), int(columns.key_hash_lo[at]))
            content = hash_text(int(columns.content_hash[at]))
            rows.setdefault(offset, Row(offset, kind, key, content, Outcome(int(chunk.outcome[at]))))
        elif kind in END_MARKERS:
            rows.setdefault(offset, Row(offset, kind, "", "", Outcome.NONE))


def _in_order(rows: dict[int, Row]) -> tuple[Row, ...]:
    return tuple(row for _, row in sorted(rows.items()))


__all__ = ["Lookout", "standing"]
