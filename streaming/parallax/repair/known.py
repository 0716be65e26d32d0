"""Reads from a job's tables whether replicas may lead, for commands that run outside the job."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake.exceptions import DeltaError

from parallax.audit.ledger import Ledger
from parallax.compare.kept import Kept, kept
from parallax.config import Settings
from parallax.errors import one_line
from parallax.findings.finding import Finding, current, leans_on
from parallax.findings.hanging_life import Hanging
from parallax.findings.hanging_record import recorded as hanging_transactions
from parallax.findings.leading import Fitness
from parallax.findings.members import OPEN, State
from parallax.findings.table import NoFindingsTableError, read_events, read_members, read_suspects
from parallax.guard.absences import Absences
from parallax.guard.late import load
from parallax.guard.timekeeper import clock_of, recorded
from parallax.guard.words import audit_in_words
from parallax.model import UNKNOWN, TopicPartition
from parallax.moments import milliseconds, roughly
from parallax.repair.leading import ALONE, Doubts, by_clock
from parallax.repair.slow import slow_copies
from parallax.shell import ANYWHERE, Shell
from parallax.source.feedback import ALL
from parallax.source.repeats import LONGEST_US
from parallax.views.event_log import EventLogError
from parallax.views.pause import Paused, in_words, paused
from parallax.views.watching import job_runs

_IDLE_S = 1.5 * LONGEST_US / 1e6 + 120
"""Even a partition at rest is recorded, and so compared, at least once in this time; seconds."""
_NEVER = 1 << 62
"""Later than any time: while its finding is open, a suspect that is raised again waits for nothing."""
_FAILURES = (DeltaError, OSError, ValueError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Known:
    """What a job's tables say about some partitions, for judging which replicas may lead.

    Attributes:
        findings: the last event of each finding about these partitions that is not over.
        pending: by partition, how many suspects have no verdict yet.
        whole: empty if the tables are whole and up to date. Otherwise reasons why they may not be, as phrases such as
            "no job watches"; then no replica counts as safe to lead.
        coverage: how far the partitions were compared, without unknown offsets that an audit has compared since.
        absences: the replicas of any partition that are absent, or copied something too late.
        hanging: the transactions of any partition that hang, or are open for too long.
        paused: the pauses of reading (``parallax pause``) by broker; the key -1 (`ALL`) means all brokers.
        read: the brokers that the job reads (``topics.brokers``); None for all.
        at: when the tables were read, seconds since 1970 UTC.
        is_audited: whether the job audits what was copied late (``audit.unread_delay_s``).
        shell: how commands name the job.
    """

    findings: tuple[Finding, ...] = ()
    pending: Mapping[TopicPartition, int] = field(default_factory=dict)
    whole: tuple[str, ...] = ()
    coverage: Kept = field(default_factory=Kept)
    absences: Absences = field(default_factory=Absences)
    hanging: tuple[Hanging, ...] = ()
    paused: Paused = field(default_factory=dict)
    read: frozenset[int] | None = None
    at: float = 0.0
    is_audited: bool = True
    shell: Shell = ANYWHERE

    def fitness(self, place: TopicPartition, brokers: Iterable[int]) -> dict[int, Fitness]:
        """For each broker of a partition, whether its replica may lead, and why not.

        Args:
            place: one of the partitions that this object is about.
            brokers: ids of the brokers that hold the partition.
        """
        brokers = tuple(brokers)
        own = [finding for finding in self.findings if finding.place == place]
        return self.doubts(place, brokers).fitness(brokers, own)

    def starts(self, place: TopicPartition) -> dict[int, int]:
        """By broker of a partition, where its log begins, as was last recorded; empty if that is not known of all.

        Args:
            place: one of the partitions that this object is about.
        """
        brokers = () if (known := self.coverage.coverage.get(place)) is None else known.brokers
        found = {one.broker: one.log_start_offset for one in brokers}
        return {} if UNKNOWN in found.values() else found

    def doubts(self, place: TopicPartition, brokers: Collection[int]) -> Doubts:
        """What speaks against the replicas of a partition, besides its findings.

        Args:
            place: one of the partitions that this object is about.
            brokers: ids of the brokers that hold the partition.
        """
        audit = audit_in_words([place], {} if self.is_audited else None, self.at, self.shell)
        single = by_clock(place, self.absences, self.at, audit)
        for broker in brokers:
            if self.read is not None and broker not in self.read:
                single.setdefault(broker, []).append("the job does not read it (topics.brokers)")
        for broker, pause in self.paused.items():
            for one in brokers if broker == ALL else (broker,):
                single.setdefault(one, []).extend(f"not read: {text}" for text in in_words({broker: pause}))
        is_alone = self.read is not None and len(brokers) > 1 == len(self.read.intersection(brokers))
        more = (*self.whole, *([ALONE] if is_alone else []))
        own = [finding for finding in self.findings if finding.place == place]
        hanging = [one for one in self.hanging if one.one.place == place]
        coverage, pending = self.coverage.coverage.get(place), self.pending.get(place, 0)
        return Doubts.made(coverage, pending, single, more, own, hanging)


def known(settings: Settings, places: Collection[TopicPartition], shell: Shell = ANYWHERE) -> Known:
    """Read what a job's tables say about some partitions.

    If the coverage or the absences cannot be read, `Known.whole` says so. Then no replica counts as fit to lead.

    Args:
        settings: the job's settings.
        places: the partitions.
        shell: how commands name the job.

    Raises:
        FindingsTableError: the findings cannot be read.
        PauseError: the list of paused brokers cannot be read.
    """
    storage, now = settings.storage.path, time.time()
    whole: list[str] = []
    try:
        events = read_events(storage)
    except NoFindingsTableError:
        events = []
    standing = {name: one for name, one in current(events).items() if one.stands}
    state, ledger = Kept(), Ledger(storage)
    try:
        state = kept(storage, places, settings.compare.grace_ms)
        state = Kept(state.at, {place: ledger.settled(one) for place, one in state.coverage.items()})
    except _FAILURES as error:
        whole.append(f"how far was compared cannot be read ({one_line(error)})")
    whole += _unwatched(storage, state, now)
    return Known(
        tuple(one for one in standing.values() if one.place in places),
        _pending(storage, events, standing, places),
        tuple(whole),
        state,
        _absences(settings, ledger, now, whole),
        hanging_transactions(storage),
        paused(storage),
        None if settings.topics.brokers is None else frozenset(settings.topics.brokers),
        now,
        settings.audit.takes_up_unread,
        shell,
    )


def _unwatched(storage: str, state: Kept, now: float) -> Iterator[str]:
    if job_runs(storage) is False:
        yield "no job watches: start it"
    elif state.at is not None and now - state.at > _IDLE_S:
        yield f"nothing was compared for {roughly(now - state.at)}"


def _absences(settings: Settings, ledger: Ledger, now: float, whole: list[str]) -> Absences:
    """Who was absent or late when the job recorded anything last; what cannot be read is said in ``whole``."""
    try:
        absent = recorded(settings.storage.path, clock_of(settings), int(now * 1000))
    except _FAILURES as error:
        whole.append(f"who was absent cannot be read ({one_line(error)})")
        absent = []
    late = load(settings.storage.path)
    if late is None:
        whole.append("who copied too late cannot be read")
    by_replica = {one.replica: one for one in late or ()}
    try:
        slow = slow_copies(settings, ledger)
    except EventLogError as error:
        whole.append(f"what was repaired cannot be read ({one_line(error)})")
        slow = []
    for one in slow:
        by_replica.setdefault(one.replica, one)  # The job may not have noticed it, or may not run.
    return Absences(tuple(absent), tuple(by_replica.values()))


def _pending(
    storage: str, events: Collection[Finding], standing: Mapping[str, Finding], places: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """By partition, how many suspects have no verdict: no event names them since, and no row of a member.

    What a finding explains is raised again by each audit until that finding is over, and has its verdict as long.
    """
    named = {
        event.suspect_id: _NEVER
        if event.stands or ((causes := leans_on(event)) and standing.keys() >= {*causes})
        else milliseconds(event.decided_at)
        for event in events
        if event.suspect_id
    }
    members = read_members(storage)
    for member in members:
        if member.is_decided:
            asked_ms = _NEVER if member.state in (*OPEN, State.EXPLAINED) else member.asked_ms
            named[member.claim.suspect_id] = max(asked_ms, named.get(member.claim.suspect_id, 0))
    pending = Counter(member.group.place for member in members if member.state is State.NEW)
    for rows in read_suspects(storage, decided=named):
        pending.update(TopicPartition(row["topic"], row["partition"]) for row in rows)
    return {place: pending[place] for place in places if pending[place]}


__all__ = ["Known", "known"]
