"""Runs one audit from beginning to end: asks, reads, compares, has suspects probed, and reports.

An audit of the brokers reads in two *rounds*. The first reads up to the ends that the logs have when it begins. The
second reads what was written meanwhile, because that may explain differences that the first has found. An audit of the
tables has one round.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from parallax.audit import frames, inputs, sift
from parallax.audit.agreeing import agreeing, recorded_blocks
from parallax.audit.cluster import Looker, at_ms, topic_traits
from parallax.audit.compare import Comparer, dated, parse
from parallax.audit.confirm import Confirm
from parallax.audit.ledger import Ledger
from parallax.audit.plan import Look, PartitionPlan, PolicyHistory, TopicTraits, bounded, plan, ranges, updated
from parallax.audit.policy import compact_by_now, needs_no_cleaner, policy_histories
from parallax.audit.recorded import recorded_plan
from parallax.audit.result import AuditReport, Compared, judge, merged, with_record
from parallax.audit.untold import late_replicas
from parallax.audit.untold import reasons as untold
from parallax.compare.suspect import Coverage, Suspect, UnreadRange
from parallax.config import Settings
from parallax.counts import counted
from parallax.model import TopicPartition
from parallax.moments import now_ms
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError
from parallax.source.offsets import Range, Reader
from parallax.source.pace import Metered, Pace, TokenBucket, metered
from parallax.views.cluster import is_cluster

_REPORT_EVERY_S = 0.5


class Watcher(Protocol):
    """Shows somebody how far an audit is. The audit calls it."""

    def stage(self, text: str) -> None:
        """Show that a part of the audit begins.

        Args:
            text: what the audit does in it, e.g. "reading the replicas".
        """

    def reading(self, done: Metered, of: Metered) -> None:
        """Show how much of a round's offsets have been read.

        Args:
            done: what was read.
            of: all that the round reads; its bytes are 0, since nobody knows them before.
        """


class Quiet:
    """A `Watcher` that shows nothing."""

    def stage(self, text: str) -> None:
        """Show nothing of ``text``."""

    def reading(self, done: Metered, of: Metered) -> None:
        """Show nothing."""


@dataclass
class _Gathered:
    """The results of the rounds, by partition."""

    compared: dict[TopicPartition, Compared] = field(default_factory=dict)
    coverage: dict[TopicPartition, Coverage] = field(default_factory=dict)
    suspects: list[Suspect] = field(default_factory=list)

    def take(self, rows: Sequence[Any], raised_at: int, shown_from: int) -> None:
        """Take in the rows of a round.

        Args:
            rows: of its frame.
            raised_at: when its suspects are raised, milliseconds since 1970 UTC: a verdict from then on is newer than
                all that was compared.
            shown_from: since when what they go by may have been shown.
        """
        for row in rows:
            place = TopicPartition(row["topic"], row["partition"])
            compared, suspects, coverage = parse(row["result"])
            before = self.compared.get(place)
            self.compared[place] = compared if before is None else merged(before, compared)
            self.coverage[place] = coverage
            self.suspects += [dated(suspect, raised_at, shown_from) for suspect in suspects]

    def positions(self) -> dict[tuple[TopicPartition, int], tuple[int, int]]:
        """How far each replica has been read, by view."""
        return {
            (place, b.broker): (b.read_uncommitted, b.read_committed)
            for place, coverage in self.coverage.items()
            for b in coverage.brokers
        }


class Audit:
    """One audit of some partitions. It is run once, by `of_brokers` or `of_tables`.

    Args:
        settings: the job's settings.
        client: asks the brokers.
        spark: a Spark session; the audit uses its Spark context, in a session of the audit's own.
        places: the partitions.
        hash_key: the hash key of the views, 32 hexadecimal digits.
        confirm: a function that has suspects probed and returns the verdicts.
        max_bytes_per_second: limit for each broker; None without one.
        slots: how many of Spark's tasks the audit runs at a time, so that other jobs have room; None for all.
        watcher: shows how far the audit is.
    """

    def __init__(
        self,
        settings: Settings,
        client: ReplicaClient,
        spark: Any,
        places: Sequence[TopicPartition],
        *,
        hash_key: str,
        confirm: Confirm,
        max_bytes_per_second: int | None = None,
        slots: int | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self._settings = settings
        self._client = client
        self._places = list(places)
        self._key = hash_key
        self._confirm = confirm
        self._rate = max_bytes_per_second
        self._slots = slots
        self._watcher = watcher or Quiet()
        parallelism = slots or min(len(self._places), 2 * spark.sparkContext.defaultParallelism)
        self._session = frames.session_of(spark, parallelism)
        self._gathered = _Gathered()
        self._shown_from = 0
        self._read_bytes: dict[int, int] = {}

    def of_brokers(self) -> AuditReport:
        """Read all replicas from the brokers, compare them, and return the report.

        Raises:
            ReplicaError: no broker answers.
        """
        started = time.time()
        kinds = topic_traits(self._client, [topic for topic, _ in self._places])
        with (
            tempfile.TemporaryDirectory(prefix="parallax-audit-") as meter,
            Looker(self._settings, self._places) as looker,
        ):
            self._watcher.stage("asking the brokers how far their replicas go")
            first = looker.look()
            plans = plan(self._places, kinds, first, self._settings.topics.brokers, self._histories(kinds))
            pinned, _ = looker.catch_up(plans)
            opening = looker.look()
            pinned = updated(pinned, opening)
            rows = self._round(pinned, [first, opening], meter, "reading the replicas")
            # What explains an absence may have been written while it was read: the rest is read up to a new look.
            self._wait_for_grace(opening)
            second = looker.look()
            tail, _ = looker.catch_up(self._rest(pinned, plan(self._places, kinds, second)))
            pinned = bounded(pinned, second, opening)
            self._round(tail, [second], meter, "reading what was written meanwhile", before=rows, pinned=pinned)
        return self._report("brokers", started, self._asked_again(kinds, pinned))

    def of_tables(self) -> AuditReport:
        """Compare what the job has recorded of all replicas in its tables, and return the report.

        Raises:
            ReplicaError: no broker answers.
        """
        started = time.time()
        self._watcher.stage("looking up what was recorded")
        kinds = topic_traits(self._client, [topic for topic, _ in self._places])
        blocks = recorded_blocks(self._settings.storage.path)
        plans, ticks = recorded_plan(self._session, self._settings, self._places, kinds, self._histories(kinds))
        readable = [one for one in plans.values() if one.readable]
        if readable:
            self._watcher.stage("comparing what was recorded")
            storage = self._settings.storage.path
            agreed = agreeing(blocks, readable)
            chunks = frames.table_chunks(self._session, storage, {p.place: p.ends for p in readable}, agreed)
            chunks = chunks.union(frames.progress_chunks(self._session, storage, [p.place for p in readable]))
            comparer = Comparer(
                inputs.from_tables(readable, ticks, read_at=2, agreed=agreed),
                self._settings.compare,
                read_at=2,
                last=True,
                from_log_start=False,
            )
            self._shown_from = 1
            self._collect(frames.openings(self._session, [p.place for p in readable]), chunks, comparer)
        return self._report("tables", started, self._asked_again(kinds, self._told(plans)))

    def _told(self, plans: Mapping[TopicPartition, PartitionPlan]) -> dict[TopicPartition, PartitionPlan]:
        """The plans with what the tables cannot tell, and no audit of the brokers has settled since."""
        storage = self._settings.storage.path
        late, ledger = late_replicas(storage), Ledger(storage)
        made = {}
        for place, one in plans.items():
            unread: Sequence[UnreadRange] = ()
            if (compared := self._gathered.compared.get(place)) is not None:
                unread = ledger.settled(replace(self._gathered.coverage[place], unread=compared.unread)).unread
            of_place = None if late is None else late.get(place, ())
            made[place] = replace(one, reasons=(*one.reasons, *untold(unread, of_place)))
        return made

    def _histories(self, kinds: Mapping[str, TopicTraits]) -> Mapping[tuple[TopicPartition, str], PolicyHistory]:
        """What was recorded of the policies of the topics that are not compacted now."""
        return policy_histories(
            self._settings.storage.path, [topic for topic, kind in kinds.items() if not kind.compacted]
        )

    def _asked_again(
        self, kinds: Mapping[str, TopicTraits], plans: Mapping[TopicPartition, PartitionPlan]
    ) -> Mapping[TopicPartition, PartitionPlan]:
        """The plans after another look at the policies; a suspect counts only if nothing was compacted meanwhile."""
        by_now = compact_by_now(kinds, topic_traits(self._client, list(kinds)))
        if not by_now:
            return plans
        suspects = self._gathered.suspects
        self._gathered.suspects = [s for s in suspects if s.place.topic not in by_now or not needs_no_cleaner(s)]
        why = "its cleanup policy was changed while it was audited, or cannot be read any more; audit it again"
        return {
            place: replace(one, reasons=(*one.reasons, why)) if place.topic in by_now else one
            for place, one in plans.items()
        }

    def _round(
        self,
        plans: Mapping[TopicPartition, PartitionPlan],
        looks: Sequence[Look],
        folder: str,
        what: str,
        *,
        before: Any = None,
        pinned: Mapping[TopicPartition, PartitionPlan] | None = None,
    ) -> Any:
        """Read and compare; returns the round's frame, which holds the states.

        Args:
            plans: up to where is read.
            looks: since the last round's reading.
            folder: of the meter.
            what: stage, in words.
            before: the frame of the round before; None for the first.
            pinned: the plans of the first round, up to whose ends is judged.
        """
        readable = [one for one in plans.values() if one.readable]
        if not readable:
            return None
        judged = [(pinned or plans)[one.place] for one in readable]
        read_at = at_ms(looks[-1]) + 1
        if before is None:
            self._shown_from = read_at
        comparer = Comparer(
            inputs.from_brokers(judged, looks, read_at, begin=before is None),
            self._settings.compare,
            read_at,
            last=before is not None,
            one_order=False,
        )
        wanted = ranges(readable, None if before is None else self._gathered.positions())
        opening = (
            frames.openings(self._session, [one.place for one in readable]) if before is None else before.drop("result")
        )
        self._watcher.stage(what)
        with self._metering(folder, wanted):
            chunks = self._chunks(wanted, folder) if wanted else None
            return self._collect(opening, chunks, comparer)

    def _chunks(self, wanted: Mapping[Reader, Range], folder: str) -> Any:
        return frames.broker_chunks(
            self._session,
            self._settings,
            wanted,
            hash_key=self._key,
            max_bytes_per_second=self._rate,
            # Tasks of a cluster cannot write into a folder of the driver; how far they are is not known meanwhile.
            meter=None if is_cluster(self._session.sparkContext.master) else folder,
            slots=self._slots,
        )

    def _collect(self, opening: Any, chunks: Any, comparer: Comparer) -> Any:
        """Run the comparison; suspects and coverage come to the driver, states stay where they are."""
        made = frames.compared(opening, chunks, comparer)
        rows = made.select("topic", "partition", "result").collect()
        self._gathered.take(rows, now_ms(), self._shown_from)
        return made

    def _rest(
        self, pinned: Mapping[TopicPartition, PartitionPlan], newer: Mapping[TopicPartition, PartitionPlan]
    ) -> dict[TopicPartition, PartitionPlan]:
        """The second round's plans: on from where the first was read to, of the same replicas of the same topics."""
        made = {}
        for place, one in pinned.items():
            now = newer[place]
            if one.readable:
                marks = {b: mark for b, mark in (now.marks or {}).items() if b in (one.marks or {})}
                same = now.topic_id == one.topic_id
                ends = (max(one.ends[0], now.ends[0]), max(one.ends[1], now.ends[1]))
                made[place] = replace(one, ends=ends if same else one.ends, marks=marks if same else {})
        return made

    def _wait_for_grace(self, look: Look) -> None:
        """A last stable offset counts as frozen when it stood still for the grace period between two looks."""
        left = at_ms(look) / 1000 + self._settings.compare.grace_ms / 1000 + 0.1 - time.time()
        if left > 0:
            time.sleep(left)

    @contextmanager
    def _metering(self, folder: str, wanted: Mapping[Reader, Range]) -> Iterator[None]:
        """Report how much has been read, while the body reads."""
        shutil.rmtree(folder, ignore_errors=True)
        of = Metered(offsets=sum(span.end - span.start for span in wanted.values()), ranges=len(wanted))
        done = threading.Event()

        def report() -> dict[int, Metered]:
            read = metered(folder)
            self._watcher.reading(sum(read.values(), Metered()), of)
            return read

        def report_often() -> None:
            while not done.wait(_REPORT_EVERY_S):
                report()

        reporter = threading.Thread(target=report_often, name="audit-meter", daemon=True)
        reporter.start()
        try:
            yield
        finally:
            done.set()
            reporter.join()
            for broker, read in report().items():
                self._read_bytes[broker] = self._read_bytes.get(broker, 0) + read.read_bytes

    def _sifted(self, suspects: list[Suspect]) -> list[Suspect]:
        """The suspects that are worth a probe each; a replica that cannot be read now keeps all of its own."""
        hasher = ContentHasher(bytes.fromhex(self._key))
        gone: set[str] = set()
        for replica, mine in sift.many(suspects).items():
            self._watcher.stage(f"looking {counted(len(mine), 'suspect')} up on broker {replica[1]}")
            keys = [(s.accusation.key_hash_hi, s.accusation.key_hash_lo) for s in mine]
            pace = Pace(TokenBucket(self._rate) if self._rate is not None else None, None)
            try:
                live = sift.shown_live(
                    self._client,
                    replica,
                    keys,
                    hasher=hasher,
                    deadline_ms=self._settings.read.request_timeout_ms,
                    pace=pace,
                )
            except ReplicaError:
                continue
            gone |= sift.cleared(mine, live)
        return [suspect for suspect in suspects if suspect.suspect_id not in gone]

    def _report(self, source: str, started: float, plans: Mapping[TopicPartition, PartitionPlan]) -> AuditReport:
        gathered = self._gathered
        suspects = self._sifted(list({suspect.suspect_id: suspect for suspect in gathered.suspects}.values()))
        if suspects:
            self._watcher.stage(f"probing {counted(len(suspects), 'suspect')}")
        confirmed = self._confirm(suspects)
        by_place: dict[TopicPartition, list[Suspect]] = {}
        for suspect in suspects:
            by_place.setdefault(suspect.place, []).append(suspect)
        verdicts = (confirmed.undecided, confirmed.findings)
        results = tuple(
            with_record(judge(one, gathered.compared.get(place), by_place.get(place, []), *verdicts), confirmed)
            for place, one in sorted(plans.items())
        )
        return AuditReport(source, started, time.time(), results, dict(self._read_bytes))


__all__ = ["Audit", "Quiet", "Watcher"]
