"""The result of an audit: each partition is consistent, diverged or unknown, and why.

Pure functions of what was compared and of the verdicts on suspects.
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
"""Why a reader ended early without a failure: its replica had no more for consumers of that view."""
_SHORT: Mapping[int, str] = {
    IsolationLevel.READ_UNCOMMITTED: "its high watermark was no higher: it is behind another replica; audit again once "
    "it has caught up",
    IsolationLevel.READ_COMMITTED: "its last stable offset was no higher: a transaction is open there, or it is behind "
    "another replica; audit again once that is over",
}
"""Why a replica had no more, by isolation level, and what to do."""

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
"""By event, why a reader ended early, and what to do."""
_EXAMPLES = 3
"""How many undecided suspects a reason spells out; the others are counted."""


class Result(StrEnum):
    """The verdict of an audit on a partition, as docs/contribute/theory.md defines it.

    Unknown never counts as consistent.
    """

    CONSISTENT = "consistent"
    DIVERGED = "diverged"
    UNKNOWN = "unknown"


EXIT_CODES: Mapping[Result, int] = {Result.CONSISTENT: 0, Result.DIVERGED: 1, Result.UNKNOWN: 3}
"""By result, the exit code of ``parallax audit``; 2 is wrong usage."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """One reader that did not come as far as the audit had planned.

    Attributes:
        broker: id of the broker that it read.
        view: the isolation level at which it read (`IsolationLevel`): 0 is read_uncommitted, 1 is read_committed.
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
    """Which offsets of one partition an audit has compared, and what it could not decide there.

    Attributes:
        compared_from: the lowest offset that was compared. Offsets below were deleted on a replica, or never recorded.
        compared_up_to: by isolation level, the offset below which every replica has been read and judged; -1 if there
            is none. In read_committed, the end markers of transactions below it have been read as well.
        stopped: readers that did not come as far as was planned.
        waiting: how many differences could not be judged, because a replica that lacks the record is behind.
        disputes: offsets of records with different outcomes that were not judged, because end markers that may decide
            were not read.
        deferred: how many offsets were not compared because of ``compare.state_cap_bytes``.
        skipped: how many offsets have no verdict, because a reader jumped over them or because no replica shows
            anything that decides.
        lost: how many offsets no replica holds although nothing may have removed what was there. No audit can decide
            about them, so they leave the verdict on the rest as it is.
        broken: why the recorded rows cannot be put in one order; empty if they can.
        overflow: whether more suspects were raised than one audit probes.
        rows: how many rows were compared.
        missing_head: by how many offsets one replica's log begins above another's. 0 if the cleanup policy deletes
            records by age or size, or if a suspect reports it.
        retained_unlike: by how many offsets one replica's log begins above another's, if the cleanup policy both
            compacts and deletes by age or size. Retention or a loss may be the reason.
        undecided: how many offsets above all last stable offsets are on some replicas only. They may belong to
            transactions that are still open.
        unlike: offsets that are on some replicas only, at most the highest thousand. The topic is not compacted now.
            Nobody knows whether it ever was, so this may be normal.
        unread: ranges that are in the tables but were not read in time; only in an audit of the tables.
    """

    compared_from: int = 0
    compared_up_to: tuple[int, int] = (-1, -1)
    stopped: tuple[Stopped, ...] = ()
    waiting: int = 0
    disputes: tuple[int, ...] = ()
    deferred: int = 0
    skipped: int = 0
    lost: int = 0
    broken: str = ""
    overflow: bool = False
    rows: int = 0
    missing_head: int = 0
    retained_unlike: int = 0
    undecided: int = 0
    unlike: tuple[int, ...] = ()
    unread: tuple[UnreadRange, ...] = ()

    def reasons(self) -> list[str]:
        """Why the audit does not know everything about the partition, as phrases. Empty if everything was decided."""
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
                "no replica could be read there (a broken batch), or the tables no longer keep the rows "
                "(storage.record: blocks; audit the brokers), or nothing "
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

    def beyond(self) -> tuple[str, ...]:
        """What nobody can decide about any more, as phrases."""
        if not self.lost:
            return ()
        lost = counted(self.lost, "offset")
        return (f"no replica holds {lost} that nothing may have removed: what was there is lost on all of them",)

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
    """The results of both rounds of an audit for one partition, as one result.

    Most of it is the second round's. Rows, ``unlike`` offsets and the overflow are those of both rounds. If a reader
    got no further in the second round, the first one says why it had stopped.

    Args:
        before: the result of the first round.
        after: the result of the second round.
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
    """What a findings manager has decided about an audit's suspects.

    Attributes:
        findings: all open findings, of any partition.
        undecided: by suspect id, why the suspect has no verdict yet.
        on_record: by id, the last event of each finding in the job's table. Empty if the job itself runs the audit.
        ended: findings that are open in the job's table, and are over according to this audit.
        not_seen: by finding id, why an open finding was not decided again. For an incident, how many of its members
            were not.
    """

    findings: tuple[Finding, ...] = ()
    undecided: Mapping[str, str] = field(default_factory=dict)
    on_record: Mapping[str, Finding] = field(default_factory=dict)
    ended: tuple[Finding, ...] = ()
    not_seen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The result of an audit for one partition: its verdict, the reasons and the findings.

    Attributes:
        topic: the topic's name.
        partition: number of the partition.
        result: the verdict.
        reasons: why something about the partition is unknown; a partition that has diverged may have some as well.
        findings: the open findings about it, whether or not this audit raised them.
        replicas: ids of the brokers that host it, without those that ``topics.brokers`` leaves out.
        compared_from: the lowest offset that was compared.
        compared_up_to: by isolation level, the offset up to which was compared; -1 if nothing was.
        beyond: those of the reasons that leave the verdict on the rest as it is (`PartitionPlan.beyond`,
            `Compared.beyond`).
        on_record: by id, the last event in the job's table of each of these findings that is there.
        ended: findings that are open in the job's table, and are over by what the replicas answer now.
        not_seen: by finding id, why the finding was not decided again. For an incident, how many of its members were
            not.
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
    """The report of one audit, with a result for each partition.

    Attributes:
        source: what was compared: ``brokers`` or ``tables``.
        started_at: when the audit began, seconds since 1970 UTC.
        ended_at: when it ended, seconds since 1970 UTC.
        partitions: the results, by topic and partition.
        read_bytes: by broker, how many bytes of records its answers had.
    """

    source: str
    started_at: float
    ended_at: float
    partitions: tuple[PartitionResult, ...]
    read_bytes: Mapping[int, int] = field(default_factory=dict)

    @property
    def result(self) -> Result:
        """The result of the whole audit: diverged if any partition has diverged, consistent if all are consistent.

        Otherwise unknown, also if there is no partition.
        """
        found = {p.result for p in self.partitions}
        if Result.DIVERGED in found:
            return Result.DIVERGED
        return Result.CONSISTENT if found == {Result.CONSISTENT} else Result.UNKNOWN

    @property
    def exit_code(self) -> int:
        """The exit code of ``parallax audit``: 0 for consistent, 1 for diverged, 3 for unknown."""
        return EXIT_CODES[self.result]


def judge(
    plan: PartitionPlan,
    compared: Compared | None,
    suspects: Sequence[Suspect],
    undecided: Mapping[str, str],
    findings: Sequence[Finding],
) -> PartitionResult:
    """Decide the result for one partition, from the comparison and from the verdicts on suspects.

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
    seen = compared or Compared(compared_from=-1)
    beyond = *plan.beyond, *seen.beyond()
    reasons += beyond
    reasons += _unproven([s for s in suspects if s.suspect_id in undecided], undecided)
    result = Result.DIVERGED if mine else Result.UNKNOWN if reasons else Result.CONSISTENT
    return PartitionResult(
        plan.topic,
        plan.partition,
        result,
        tuple(reasons),
        mine,
        plan.replicas,
        seen.compared_from,
        seen.compared_up_to,
        beyond,
    )


def with_record(one: PartitionResult, verdicts: Confirmed) -> PartitionResult:
    """A partition's result with what the job's table says about its findings.

    It adds which of them are on record, and which findings on record are over.

    Args:
        one: the result without that.
        verdicts: what the findings manager has decided, of any partition.
    """
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
