"""What an audit says of a partition: consistent, diverged or unknown.

Pure functions of what was read and confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from parallax.audit.plan import PartitionPlan
from parallax.compare.suspect import Suspect, UnreadRange
from parallax.counts import agreed, counted
from parallax.findings.finding import Finding
from parallax.model import NOBODY, IsolationLevel, ReadEvent, TopicPartition

NO_MORE = "no_more"
"""What ended a reader early that met no failure: its replica had no more for consumers of that view."""
_SHORT: Mapping[int, str] = {
    IsolationLevel.READ_UNCOMMITTED: "its high watermark was no higher: it is behind another replica; audit again once "
    "it has caught up",
    IsolationLevel.READ_COMMITTED: "its last stable offset was no higher: a transaction is open there, or it is behind "
    "another replica; audit again once that is over",
}
"""Why a replica had no more, by view, and what to do."""

_WHY: Mapping[str, str] = {
    ReadEvent.UNREACHABLE: "it did not answer any more; audit again once it does",
    ReadEvent.CORRUPT_BATCH: "a batch there is broken; look at its log segment, and have the replica copied again",
    ReadEvent.UNSUPPORTED: "a batch there cannot be read; the log says why",
    ReadEvent.UNAUTHORIZED: "READ on the topic is missing; grant it",
    ReadEvent.NOT_HOSTED: "it holds no replica there, or its disk is offline; parallax check says which",
    ReadEvent.LOG_START_ADVANCED: "what came next was deleted there meanwhile; audit again",
    ReadEvent.LOG_TRUNCATED: "its log was truncated meanwhile; audit again",
    ReadEvent.TOPIC_RECREATED: "the topic was re-created meanwhile; audit again",
    ReadEvent.TOPIC_DELETED: "the topic was deleted meanwhile",
}
"""Why a reader ended early, and what to do."""
_EXAMPLES = 3
"""Undecided suspects that a reason spells out; the others are counted."""


class Result(StrEnum):
    """The three verdicts of docs/contribute/theory.md; unknown is never taken for consistent."""

    CONSISTENT = "consistent"
    DIVERGED = "diverged"
    UNKNOWN = "unknown"


EXIT_CODES: Mapping[Result, int] = {Result.CONSISTENT: 0, Result.DIVERGED: 1, Result.UNKNOWN: 3}
"""Of ``parallax audit``; 2 is wrong usage."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A reader that did not come as far as the audit had planned.

    Attributes:
        view: an `IsolationLevel`.
        read_to: the next offset that it would have read; -1 if it read nothing.
        wanted: the offset that it should have reached.
        event: what ended it (a `parallax.model.ReadEvent`), or `NO_MORE`.
    """

    broker: int
    view: int
    read_to: int
    wanted: int
    event: str

    def __str__(self) -> str:
        """One phrase for a person."""
        level = IsolationLevel(self.view).option
        why = _SHORT[self.view] if self.event == NO_MORE else _WHY.get(self.event, self.event)
        if self.read_to < 0:
            return f"broker {self.broker} was not read as {level} ({why}); offset {self.wanted} was the end"
        return f"broker {self.broker} was read as {level} up to offset {self.read_to} of {self.wanted} ({why})"


@dataclass(frozen=True, slots=True)
class Compared:
    """What the comparison of one partition covered and left open.

    Attributes:
        compared_from: the lowest offset that was compared. Offsets below were deleted on a replica, or never recorded.
        compared_up_to: by view, the offset below which every replica has been read and judged; -1 if there is none. In
            read_committed, the end markers of transactions below it have been read as well.
        stopped: readers that did not come as far as was planned.
        waiting: how many differences could not be judged, because a replica that lacks the record is behind.
        disputes: offsets of records that have different outcomes, and were not judged because markers that may decide
            it were not read.
        deferred: how many offsets were not compared because of ``compare.state_cap_bytes``.
        skipped: how many offsets were passed without a verdict: a reader jumped over them, or nothing that the replicas
            show decides about them.
        broken: why the recorded rows cannot be put in one order; empty if they can.
        overflow: whether more suspects were raised than one audit looks into.
        rows: how many rows were compared.
        missing_head: by how many offsets one replica's log begins above another's. 0 if the cleanup policy deletes
            records by age or size, or if a suspect reports it.
        retained_unlike: by how many offsets one replica's log begins above another's, if the cleanup policy both
            compacts and deletes by age or size. Retention or a loss may have done it.
        undecided: how many offsets above all last stable offsets some replicas hold and others lack. They may belong to
            transactions that are still open.
        unlike: offsets that some replicas hold and others do not, at most the highest thousand. The topic is not
            compacted now. Nobody knows whether it ever was, so this may be normal.
        unread: ranges that are in the tables but were not read in time; only in an audit of the tables.
    """

    compared_from: int = 0
    compared_up_to: tuple[int, int] = (-1, -1)
    stopped: tuple[Stopped, ...] = ()
    waiting: int = 0
    disputes: tuple[int, ...] = ()
    deferred: int = 0
    skipped: int = 0
    broken: str = ""
    overflow: bool = False
    rows: int = 0
    missing_head: int = 0
    retained_unlike: int = 0
    undecided: int = 0
    unlike: tuple[int, ...] = ()
    unread: tuple[UnreadRange, ...] = ()

    def reasons(self) -> list[str]:
        """Why the partition may differ more, or less, than was seen; empty if everything was compared."""
        found = [str(stop) for stop in self.stopped]
        if self.broken:
            found.append(self.broken)
        if self.deferred:
            found.append(
                f"{counted(self.deferred, 'offset')} {agreed(self.deferred, 'was', 'were')} left out at the cap of "
                "compare.state_cap_bytes; raise it"
            )
        if self.skipped:
            found.append(
                f"{counted(self.skipped, 'offset')} {agreed(self.skipped, 'has', 'have')} no verdict: "
                "no replica could be read there (a broken batch), or nothing "
                "that is left says how a transaction ended (its end marker was emptied, or none was read)"
            )
        if self.missing_head:
            found.append(
                f"a log begins {counted(self.missing_head, 'offset')} above another although no cleanup policy "
                "is known to delete "
                "records"
            )
        if self.retained_unlike:
            found.append(
                f"a log begins {counted(self.retained_unlike, 'offset')} above another; the cleanup policy deletes "
                "records, so "
                "that retention or a loss may have done it"
            )
        if self.undecided:
            found.append(
                f"{counted(self.undecided, 'record')} beyond the last stable offsets "
                f"{agreed(self.undecided, 'is', 'are')} not on every replica: audit again once "
                "the open transactions have ended"
            )
        found += self._doubts()
        if self.overflow:
            found.append("one audit asks about so many suspects only; audit again once these are settled")
        if self.waiting:
            one = counted(self.waiting, "difference")
            found.append(f"{one} cannot be judged yet, because a replica is behind; audit again once it has caught up")
        if self.disputes:
            some = ", ".join(map(str, self.disputes[:_EXAMPLES]))
            found.append(
                f"the outcome of {counted(len(self.disputes), 'record')} differs (offsets {some}) and cannot be "
                "judged: a replica that showed it was not read far enough for its end markers"
            )
        return found

    def _doubts(self) -> list[str]:
        if not self.unlike:
            return []
        some = ", ".join(map(str, self.unlike[:_EXAMPLES])) + (", ..." if len(self.unlike) > _EXAMPLES else "")
        text = (
            f"{counted(len(self.unlike), 'offset')} ({some}) "
            f"{agreed(len(self.unlike), 'is', 'are')} on some replicas and not on others; cleanup.policy does not "
            "compact now, and nothing that was recorded says whether it did before: each may have been compacted, or "
            "lost"
        )
        return [text]


def merged(before: Compared, after: Compared) -> Compared:
    """The joint result of two successive comparisons of one partition: that of the second, with two additions.

    Rows, offsets that some replicas lack, and an overflow of suspects are those of both. If a reader got no further in
    the second comparison, the first one says why it had stopped.
    """
    known = {(s.broker, s.view): s for s in before.stopped}
    stopped = []
    for stop in after.stopped:
        earlier = known.get((stop.broker, stop.view), stop)
        no_news = stop.event == NO_MORE and stop.read_to == earlier.read_to
        stopped.append(replace(stop, event=earlier.event) if no_news else stop)
    return replace(
        after,
        stopped=tuple(stopped),
        rows=before.rows + after.rows,
        overflow=before.overflow or after.overflow,
        unlike=tuple(offset for offset in (*before.unlike, *after.unlike) if offset >= after.compared_from),
    )


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The verdicts of a findings manager on an audit's suspects.

    Attributes:
        findings: all open findings, of any partition.
        undecided: by suspect id, why the suspect has no verdict yet.
        on_record: by id, the last event of each finding in the job's table. Inside the job, which writes that table, it
            is empty.
        ended: findings that are open in the job's table, and are over according to this audit.
        not_seen: by finding id, why an open finding was not decided again, or how much of an incident was not.
    """

    findings: tuple[Finding, ...] = ()
    undecided: Mapping[str, str] = field(default_factory=dict)
    on_record: Mapping[str, Finding] = field(default_factory=dict)
    ended: tuple[Finding, ...] = ()
    not_seen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The audit's verdict on one partition.

    Attributes:
        reasons: why something about it is unknown; a partition that has diverged may have some as well.
        findings: the open divergences, whether or not the audit raised them.
        replicas: ids of the brokers that host it, without those that ``topics.brokers`` leaves out.
        compared_from: the lowest offset that was compared.
        compared_up_to: by view (read_uncommitted, read_committed), the offset up to which was compared; -1 if nothing
            was.
        beyond: the reasons that concern only offsets beyond that, so that the verdict on what was compared is certain.
        on_record: by id of a finding that is in the job's table, its last event there.
        ended: findings that are open in the job's table, and are over by what the replicas answer now.
        not_seen: by finding id, why the finding was not decided again, or how much of an incident was not.
    """

    topic: str
    partition: int
    result: Result
    reasons: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    replicas: tuple[int, ...] = ()
    compared_from: int = -1
    compared_up_to: tuple[int, int] = (-1, -1)
    beyond: tuple[str, ...] = ()
    on_record: Mapping[str, Finding] = field(default_factory=dict)
    ended: tuple[Finding, ...] = ()
    not_seen: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> TopicPartition:
        """The partition's topic and number."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of one audit of several partitions.

    Attributes:
        source: ``brokers`` or ``tables``.
        started_at: seconds since 1970 UTC.
        ended_at: seconds since 1970 UTC.
        partitions: one result each, by topic and partition.
        read_bytes: bytes of records in the brokers' answers, by broker.
    """

    source: str
    started_at: float
    ended_at: float
    partitions: tuple[PartitionResult, ...]
    read_bytes: Mapping[int, int] = field(default_factory=dict)

    @property
    def result(self) -> Result:
        """The worst result of the partitions; unknown if there is no partition.

        Diverged is the worst, then unknown, then consistent.
        """
        found = {p.result for p in self.partitions}
        if Result.DIVERGED in found:
            return Result.DIVERGED
        return Result.CONSISTENT if found == {Result.CONSISTENT} else Result.UNKNOWN

    @property
    def exit_code(self) -> int:
        """The exit code of ``parallax audit`` for this result."""
        return EXIT_CODES[self.result]


def judge(
    plan: PartitionPlan,
    compared: Compared | None,
    suspects: Sequence[Suspect],
    undecided: Mapping[str, str],
    findings: Sequence[Finding],
) -> PartitionResult:
    """The verdict on one partition, from comparison and probes.

    Args:
        plan: the partition's plan.
        compared: the comparison's result; None if the partition was not compared.
        suspects: suspects that the audit raised about the partition.
        undecided: by suspect id, why a suspect has no verdict; suspects of any partition.
        findings: open findings of any partition.
    """
    mine = tuple(f for f in findings if f.place == plan.place)
    reasons = list(plan.reasons)
    if compared is not None:
        reasons += [r for r in compared.reasons() if r not in reasons]
    elif not reasons:
        reasons.append("it was not compared")
    reasons += plan.beyond
    reasons += _unproven([s for s in suspects if s.suspect_id in undecided], undecided)
    result = Result.DIVERGED if mine else Result.UNKNOWN if reasons else Result.CONSISTENT
    seen = compared or Compared(compared_from=-1)
    return PartitionResult(
        plan.topic,
        plan.partition,
        result,
        tuple(reasons),
        mine,
        plan.replicas,
        seen.compared_from,
        seen.compared_up_to,
        plan.beyond,
    )


def with_record(one: PartitionResult, verdicts: Confirmed) -> PartitionResult:
    """A partition's result that also says which of its findings are on record, and which are over."""
    mine = {finding.finding_id for finding in one.findings}
    return replace(
        one,
        on_record={name: said for name, said in verdicts.on_record.items() if name in mine},
        ended=tuple(finding for finding in verdicts.ended if finding.place == one.place),
        not_seen={name: why for name, why in verdicts.not_seen.items() if name in mine},
    )


def _unproven(suspects: Sequence[Suspect], undecided: Mapping[str, str]) -> list[str]:
    found = [
        f"unproven suspect: {s.kind} {_where(s.broker)} at offset {s.accusation.offset}: {undecided[s.suspect_id]}"
        for s in suspects[:_EXAMPLES]
    ]
    if len(suspects) > _EXAMPLES:
        found.append(counted(len(suspects) - _EXAMPLES, "more unproven suspect"))
    return found


def _where(broker: int) -> str:
    return "without direction" if broker == NOBODY else f"on broker {broker}"


__all__ = [
    "EXIT_CODES",
    "AuditReport",
    "Compared",
    "Confirmed",
    "PartitionResult",
    "Result",
    "Stopped",
    "TopicPartition",
    "judge",
    "merged",
    "with_record",
]
