"""Asks brokers and tables for all that a repair decides by: leader, replicas, open transactions, findings.

The answers of one moment are a look (`parallax.repair.seen.Look`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial

from parallax.config import Settings
from parallax.errors import one_line
from parallax.findings.coordinators import under_way, verdicts
from parallax.findings.finding import Finding, current
from parallax.findings.hanging import Open, Prospect, Standing, opened
from parallax.findings.pace import Paces
from parallax.findings.table import NoFindingsTableError, read_events
from parallax.model import UNKNOWN, TopicPartition
from parallax.moments import now_ms
from parallax.repair.claims import claims
from parallax.repair.known import known
from parallax.repair.placing import layout_of
from parallax.repair.plan import proofs
from parallax.repair.reading import ProducerLog, rows_at
from parallax.repair.seen import Look, Replica, Row, Transaction
from parallax.replica.client import PartitionMetadata, ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError, UnknownTopic

_TELL_S = 5.0
"""How often a line says how far a reading is; seconds."""
_SETTLED = Prospect(Standing.HANGS, "no replica holds it open any more")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a look must cover besides the partition's findings and open transactions.

    Attributes:
        transactions: transactions to look at even if no replica holds them open, each as producer id and first offset.
        since: in a long log, offsets before this one may be skipped; None: all before the log's end may be.
        offsets: the offsets at which to ask each replica what it shows. Brokers are then also asked for what is needed
            to reassign the partition (`parallax.repair.layout.Layout`). None: neither is asked, unless ``places`` is
            true.
        places: if ``offsets`` is None, whether to use the offsets of the open findings instead.
        doubts: whether to read what the job's tables say against the replicas besides findings (`Look.doubts`).
    """

    transactions: Collection[tuple[int, int]] = ()
    since: int | None = None
    offsets: tuple[int, ...] | None = None
    places: bool = False
    doubts: bool = False


NOTHING_MORE = Wanted()


def standing(storage: str, place: TopicPartition) -> list[Finding]:
    """The findings about a partition that are not over, each as its last event; empty without a findings table.

    Args:
        storage: ``storage.path``.
        place: the partition.

    Raises:
        FindingsTableError: the findings cannot be read.
    """
    try:
        found = current(read_events(storage)).values()
    except NoFindingsTableError:
        return []
    return [finding for finding in found if finding.stands and finding.place == place]


class Lookout:
    """Looks at one partition for a repair: asks brokers, and reads the job's tables.

    Args:
        client: asks the cluster.
        settings: the settings of the job whose tables are read.
        place: the partition.
        hasher: hashes keys and contents of records, so that the repair's table holds no plain text.
        say: called with a line about how far a long reading is.
    """

    def __init__(
        self,
        client: ReplicaClient,
        settings: Settings,
        place: TopicPartition,
        hasher: ContentHasher,
        say: Callable[[str], None],
    ) -> None:
        self._client = client
        self._place = place
        self._hasher = hasher
        self._job = settings
        self._settings = settings.findings
        self._say = say
        self._told = time.monotonic()
        self._paces = Paces(settings.findings.max_bytes_per_second)
        self._logs: dict[tuple[int, int, int], ProducerLog] = {}

    def look(self, wanted: Wanted = NOTHING_MORE) -> Look:
        """Ask brokers and tables about the partition now, and return their answers as a `Look`.

        Args:
            wanted: what to look at besides the partition's findings and open transactions.

        Raises:
            UnknownTopic: there is no such partition.
            ReplicaError: no broker answers.
            FindingsTableError, PauseError: a table of the job cannot be read.
        """
        at_ms = now_ms()
        told = known(self._job, [self._place]) if wanted.doubts else None
        findings = standing(self._job.storage.path, self._place) if told is None else told.findings
        topic = self._client.metadata([self._place.topic])[self._place.topic]
        if topic.error is not None:
            raise topic.error
        partition = topic.partitions.get(self._place.partition)
        if partition is None:
            raise UnknownTopic("no such partition; check its number", topic=self._place.topic)
        replicas = {broker: self._replica(broker) for broker in partition.replicas}
        said = claims(findings)
        offsets = wanted.offsets
        if offsets is None and wanted.places:
            offsets = tuple(sorted({offset for one in said for offset in one.offsets})) if said else None
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
            tuple(self._transactions(partition, replicas, wanted.transactions, wanted.since)),
            frozenset(finding.finding_id for finding in findings),
            proofs(findings),
            said,
            None if offsets is None else layout_of(self._client, self._place),
            {} if offsets is None else self._shown(partition.replicas, offsets),
            None if told is None else told.doubts(self._place, partition.replicas),
        )

    def _shown(self, brokers: Collection[int], offsets: Collection[int]) -> dict[int, dict[int, Row]]:
        """What the replicas show at offsets; nothing of those that do not answer."""
        found = {}
        for broker in brokers:
            with contextlib.suppress(ReplicaError):
                found[broker] = rows_at(self._client, broker, self._place, offsets, self._hasher)
        return found

    def _replica(self, broker: int) -> Replica:
        try:
            marks = self._client.watermarks(broker, [self._place])[self._place]
            states = self._client.describe_producers(broker, [self._place])[self._place]
        except ReplicaError as error:
            return Replica(error=one_line(error.problem))
        problem = next((one for one in (marks, states) if isinstance(one, ReplicaError)), None)
        if problem is not None or isinstance(marks, ReplicaError) or isinstance(states, ReplicaError):
            return Replica(error="" if problem is None else one_line(problem.problem))
        return Replica(marks, tuple(states))

    def _transactions(
        self,
        partition: PartitionMetadata,
        replicas: dict[int, Replica],
        also: Collection[tuple[int, int]],
        since: int | None,
    ) -> Iterable[Transaction]:
        found: dict[tuple[int, int], Open] = {}
        for broker in partition.replicas:  # of several that hold one open any will do
            for one in opened(self._place, broker, list(replicas[broker].producers)):
                found.setdefault((one.producer_id, one.start_offset), one)
        judged = verdicts(self._client, list(found.values()), self._settings.probe_timeout_ms)
        names = {*also} - {name for name, one in found.items() if one in judged}
        ended = {(pid, at): Open(self._place, partition.leader, pid, UNKNOWN, at, UNKNOWN) for pid, at in names}
        since_ended = under_way(self._client, list(ended.values()), self._settings.probe_timeout_ms)
        for producer_id, start in sorted(found.keys() | set(also), key=lambda one: one[1]):
            held = found.get((producer_id, start))
            verdict = None if held is None else judged.get(held)
            if verdict is None:  # it is over, as all are that nobody asks about
                if (producer_id, start) not in ended:
                    continue
                verdict = since_ended[ended[producer_id, start]]
                verdict = _SETTLED if verdict.standing is Standing.HANGS else verdict
            logs = {}
            if verdict.standing is not Standing.GOES_ON or (producer_id, start) in also:
                for broker, replica in replicas.items():
                    # One that holds it open may have taken what comes later for part of it.
                    most = None if replica.holds(producer_id, start) else self._settings.max_scan_bytes
                    log = self._log(broker, producer_id, start)
                    logs[broker] = log.read(most, since, partial(self._tell, broker))
            yield Transaction(producer_id, start, verdict, logs)

    def _log(self, broker: int, producer_id: int, start: int) -> ProducerLog:
        at = (broker, producer_id, start)
        if at not in self._logs:
            timeout_ms, pace = self._settings.probe_timeout_ms, self._paces.of(broker)
            self._logs[at] = ProducerLog(
                self._client, broker, self._place, producer_id, start, self._hasher, pace, timeout_ms
            )
        return self._logs[at]

    def _tell(self, broker: int, position: int, end: int) -> None:
        if time.monotonic() - self._told > _TELL_S:
            self._told = time.monotonic()
            self._say(f"reading broker {broker}: offset {position} of {end}")


__all__ = ["NOTHING_MORE", "Lookout", "Wanted"]
