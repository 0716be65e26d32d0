"""The state of each replica in one word, for the status page, such as ``consistent`` or ``behind``. Pure functions.

A replica has one state: the first that applies, in the order of `State`. It is ``consistent`` only if the job sees it
(`parallax.alerting.blind`) and has compared all of it. It is ``not_fully_compared`` if some of it has no verdict for a
reason that is nobody's fault. If the job cannot see it, or offsets have no verdict for another reason, it is
``unknown``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from parallax.alerting.blind import Blind, Cause, hiding, unseen
from parallax.alerting.listing import FindingState, state_of
from parallax.alerting.overdue import BEHIND, LAGGING_S, behind, overdue
from parallax.alerting.refusals import NOBODY as WHOLE_TOPIC
from parallax.alerting.snapshot import Snapshot
from parallax.alerting.unknown import Part, Telling, in_part, telling, unknown_offsets, without_verdict
from parallax.compare.suspect import Coverage
from parallax.findings.finding import Finding, sides_of
from parallax.findings.in_brief import freezes, standing_freeze, suspected_in_words
from parallax.guard.absences import Absence, Late
from parallax.guard.words import late_in_short
from parallax.model import NOBODY, PASSING, IsolationLevel, TopicPartition, UnknownReason
from parallax.sides import standing

_LOADING = "it is being read for the first time"
_NOTHING = "nothing has been compared yet"
NOT_KNOWN = "not known yet"
"""Shown in place of the offsets without a verdict while nothing has been compared."""

_CATCHING_UP = "what it held when it could be compared again is being compared"
_IN_PART = {
    Part.CATCHING_UP: _CATCHING_UP,
    Part.ABSENT: "what a replica of the partition lacks now cannot be compared",
    Part.ALONE: "topics.brokers leaves out its other replicas: it is not compared",
    Part.LACKING: "offsets of the partition have no verdict",
}
_CHECKED = "a difference is being checked"

_WAITS = frozenset({UnknownReason.UNJUDGED, UnknownReason.UNDECIDED})
"""Reasons of offsets that were read and wait for what is written after them."""


class State(StrEnum):
    """The state of a replica on the page. The members are in order, the gravest first."""

    DIVERGED = "diverged"
    UNAUTHORIZED = "unauthorized"
    UNREACHABLE = "unreachable"
    BEHIND = "behind"
    UNKNOWN = "unknown"
    LOADING = "loading"
    NOT_FULLY_COMPARED = "not_fully_compared"
    """Everything that was compared agrees; the rest has no verdict for a reason that is nobody's fault."""
    CONSISTENT = "consistent"

    @property
    def text(self) -> str:
        """The state in words, for the page."""
        return self.replace("_", " ")


CALM = frozenset({State.LOADING, State.NOT_FULLY_COMPARED, State.CONSISTENT})
"""The states that nobody has to look after."""
ORDER = {state: i for i, state in enumerate(State)}
"""By state, its place in the order of `State`; the gravest has 0."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a partition as the page shows it.

    Attributes:
        broker: id of its broker.
        state: its state.
        why: why it has this state, one phrase; empty if there is nothing to say.
        unseen: why the job does not know its present offsets, one phrase; empty if it knows them.
        log_start_offset: its last known log start offset; None if it is not known.
        last_stable_offset: below it read_committed consumers are given everything; None if it is not known.
        high_watermark: below it read_uncommitted consumers are given everything; None if it is not known.
        read_committed: the next offset to read as a read_committed consumer; None if it is not known.
        read_uncommitted: the next offset to read as a read_uncommitted consumer; None if it is not known.
        absence: since when it is away or behind, and what that means; None if it is neither.
        late: the copy that it made too late and that no audit has compared since; None if there is none.
        frozen: since when, by an open finding, it gives read_committed consumers nothing new; None if no finding says
            so.
    """

    broker: int
    state: State
    why: str = ""
    unseen: str = ""
    log_start_offset: int | None = None
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    read_committed: int | None = None
    read_uncommitted: int | None = None
    absence: Absence | None = None
    late: Late | None = None
    frozen: datetime | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as the page shows it: its replicas, its findings, and how many offsets have no verdict.

    Attributes:
        place: topic and number.
        replicas: by broker, its replica.
        without_verdict: how many offsets have no verdict, and why, in words. It is ``none`` if all have one, and
            ``not known yet`` if nothing was compared.
        compared_up_to: by isolation level, the offset up to which it was compared; None if nothing was.
        findings: the findings that are not over, the gravest first.
        leader: id of the leader; None if there is none, or if it is not known.
        isr: ids of the brokers whose replicas are in sync; None if they are not known.
    """

    place: TopicPartition
    replicas: Mapping[int, Replica]
    without_verdict: str
    compared_up_to: tuple[int, int] | None
    findings: tuple[Finding, ...]
    leader: int | None = None
    isr: tuple[int, ...] | None = None

    @property
    def state(self) -> State:
        """The gravest state of the partition's replicas."""
        return min((r.state for r in self.replicas.values()), key=ORDER.__getitem__, default=State.UNKNOWN)


def partitions(snapshot: Snapshot, only: str | None = None) -> list[Partition]:
    """All partitions for the page, the gravest state first.

    Args:
        snapshot: what the job knows.
        only: the topic whose partitions are wanted; None for all topics.
    """
    made = [_partition(snapshot, one) for one in verdicts(snapshot, only)]
    made = _with_absences(made, snapshot)
    return sorted(made, key=lambda p: (ORDER[p.state], p.place))


class Verdicts(NamedTuple):
    """The states of all replicas of one partition, and the facts that decide them.

    Attributes:
        place: topic and number of the partition.
        replicas: by broker, the state of its replica, and one phrase that says why; the phrase may be empty.
        unknown: by reason, how many offsets have no verdict.
        findings: the findings that are not over, the gravest first.
        unseen: by broker whose replica the job does not see, one phrase that says why.
        is_compared: whether the comparison has said how many offsets have no verdict.
    """

    place: TopicPartition
    replicas: Mapping[int, tuple[State, str]]
    unknown: Mapping[UnknownReason, int]
    findings: Sequence[Finding]
    unseen: Mapping[int, str]
    is_compared: bool


def verdicts(snapshot: Snapshot, only: str | None = None) -> Iterator[Verdicts]:
    """Yield the states of the replicas of each partition that the job knows, in no order of the partitions.

    Args:
        snapshot: what the job knows.
        only: the topic whose partitions are wanted; None for all topics.
    """
    found: dict[TopicPartition, set[int]] = {}
    for replica in snapshot.replicas.keys() | snapshot.refused.keys():
        topic, partition, broker = replica
        if only in (None, topic) and (partition, broker) != WHOLE_TOPIC:
            brokers = found.setdefault(TopicPartition(topic, partition), set())
            # One that was taken off the partition says nothing any more.
            if snapshot.holds(replica):
                brokers.add(broker)
    for place in snapshot.coverage:
        if only in (None, place.topic):
            found.setdefault(place, set())
    standing_now: dict[TopicPartition, list[Finding]] = {}
    for finding in standing_findings(snapshot):
        standing_now.setdefault(finding.place, []).append(finding)
        if finding.place in found:
            found[finding.place] |= {b for b in _named(finding) if (*finding.place, b) in snapshot.replicas}
    copied_late: dict[TopicPartition, dict[int, str]] = {}
    for one in snapshot.absences.late:
        copied_late.setdefault(one.place, {})[one.broker] = late_in_short(one)
    for place, brokers in found.items():
        yield _verdicts(snapshot, place, brokers, standing_now.get(place, ()), copied_late.get(place, {}))


def _with_absences(made: Iterable[Partition], snapshot: Snapshot) -> list[Partition]:
    absent = {one.replica: one for one in snapshot.absences.absent}
    late = {one.replica: one for one in snapshot.absences.late}
    if not absent and not late:
        return list(made)
    return [
        replace(
            one,
            replicas={
                b: replace(r, absence=absent.get((*one.place, b)), late=late.get((*one.place, b)))
                for b, r in one.replicas.items()
            },
        )
        for one in made
    ]


def refused_topics(snapshot: Snapshot) -> dict[str, str]:
    """By topic that the job may not describe, the permission that is missing. It cannot see their partitions."""
    return {t: str(r.right) for (t, *rest), r in snapshot.refused.items() if tuple(rest) == WHOLE_TOPIC}


def standing_findings(snapshot: Snapshot) -> list[Finding]:
    """The findings that are not over: unacknowledged ones first, the gravest first, then acknowledged ones."""
    order = list(FindingState)
    still_open = sorted(snapshot.findings.open, key=lambda f: (order.index(state_of(f)), f.first_suspected_at))
    return [*still_open, *snapshot.findings.acknowledged]


def _verdicts(
    snapshot: Snapshot,
    place: TopicPartition,
    brokers: Collection[int],
    findings: Sequence[Finding],
    copied_late: Mapping[int, str],
) -> Verdicts:
    coverage = snapshot.coverage.get(place)
    unknown = unknown_offsets(snapshot).get(place, {})
    hidden = {b: one for b in brokers if (one := hiding(snapshot, (*place, b))) is not None}
    starting = {b: one for b, one in hidden.items() if one.cause.ends_with_the_start}
    states = {b: _unseen(one) for b, one in hidden.items() if b not in starting}
    loading = ""
    if not snapshot.caught_up.get(place, True):
        loading = _CATCHING_UP if snapshot.initially_read.get(place, True) else _LOADING
    partly = in_part(snapshot).get(place)
    compared = _compared(
        coverage,
        unknown,
        [broker for broker in brokers if broker not in states],
        sees_all=not states,
        loading=loading,
        is_overdue=overdue(snapshot).get(place, 0.0) > LAGGING_S,
        partly=_CHECKED if snapshot.findings.pending.get(place) else "" if partly is None else _IN_PART[partly],
    )
    for broker, one in starting.items():
        if broker in compared and compared[broker][0] in CALM - {State.LOADING}:
            compared[broker] = State.LOADING, one.here
    states |= compared
    if not findings:
        states |= {b: (State.UNKNOWN, said) for b, said in copied_late.items() if b in compared}
    for finding in findings:
        why = f"{finding.kind.replace('_', ' ')}, {suspected_in_words(finding.first_suspected_at)}"
        found = dict.fromkeys(_named(finding).intersection(brokers), (State.DIVERGED, why))
        states |= {b: one for b, one in found.items() if states.get(b, (None, ""))[0] is not State.DIVERGED}
    unseen = {b: one.here for b, one in hidden.items() if b not in starting}
    return Verdicts(place, states, unknown, findings, unseen, bool(unknown) or _is_compared(coverage))


def _is_compared(coverage: Coverage | None) -> bool:
    """Whether some of a partition was compared, or there is nothing in it to compare."""
    if coverage is None:
        return False
    return min(coverage.compared_up_to) >= 0 or all(b.log_start_offset == b.high_watermark for b in coverage.brokers)


def _unseen(one: Blind) -> tuple[State, str]:
    """The state of a replica that is not seen, and why."""
    return _OF_CAUSE.get(one.cause, State.UNKNOWN), one.here


_OF_CAUSE = {
    Cause.UNAUTHORIZED: State.UNAUTHORIZED,
    Cause.BROKER_AWAY: State.UNREACHABLE,
    Cause.REPLICA_OFFLINE: State.UNREACHABLE,
}
"""Causes that give a replica a state of their own. Any other one makes it unknown."""


def _partition(snapshot: Snapshot, one: Verdicts) -> Partition:
    place, coverage = one.place, snapshot.coverage.get(one.place)
    frozen = {b: first.since for b, known in freezes(one.findings).items() if (first := standing_freeze(known))}
    made = {
        broker: replace(
            _replica(snapshot, place, broker, *one.replicas[broker], unseen(snapshot, (*place, broker))),
            frozen=frozen.get(broker),
        )
        for broker in sorted(one.replicas)
    }
    compared = None if coverage is None or min(coverage.compared_up_to) < 0 else coverage.compared_up_to
    leader, isr = snapshot.leadership.get(place, (None, None))
    lacking = NOT_KNOWN
    if coverage is not None and one.is_compared:
        lacking = without_verdict(coverage, one.unknown) or "none"
    return Partition(place, made, lacking, compared, tuple(one.findings), leader, isr)


def _named(finding: Finding) -> frozenset[int]:
    """The accused, or, without direction, all that stand on a side."""
    return frozenset({finding.broker}) if finding.broker != NOBODY else standing(sides_of(finding))


def _compared(
    coverage: Coverage | None,
    unknown: Mapping[UnknownReason, int],
    brokers: Iterable[int],
    *,
    sees_all: bool,
    loading: str,
    is_overdue: bool,
    partly: str,
) -> dict[int, tuple[State, str]]:
    """The state of the replicas that can be read.

    Args:
        coverage: None if nothing has been compared.
        unknown: by reason, how many offsets have no verdict.
        brokers: those whose replica can be read.
        sees_all: whether all can be read.
        loading: what is still being read or compared, of what was there when that could begin; empty if nothing is.
        is_overdue: whether verdicts that should come by themselves do not.
        partly: why not all of it is known to agree; empty if it is.
    """
    if coverage is None:
        if is_overdue:
            return dict.fromkeys(brokers, (State.UNKNOWN, _NOTHING))
        return dict.fromkeys(brokers, (State.LOADING, _LOADING))
    if loading and sees_all and not is_overdue and _passes(coverage, unknown):
        return dict.fromkeys(brokers, (State.LOADING, loading))
    gaps = behind(coverage)
    if sees_all and not is_overdue and max(gaps.values(), default=0) <= BEHIND:
        # The last offsets are on their way.
        unknown = {reason: n for reason, n in unknown.items() if reason is not UnknownReason.NOT_READ_YET}
    rest = State.CONSISTENT, ""
    if unknown:
        is_calm = not is_overdue and all(_is_harmless(reason, coverage) for reason in unknown)
        state = State.NOT_FULLY_COMPARED if is_calm else State.UNKNOWN
        rest = state, without_verdict(coverage, unknown)
    elif not _is_compared(coverage):
        rest = State.UNKNOWN, _NOTHING
    elif partly:
        rest = State.NOT_FULLY_COMPARED, partly
    late = {b: (State.BEHIND, f"{n:,} offsets behind the furthest replica") for b, n in gaps.items() if n > BEHIND}
    return {broker: late.get(broker, rest) for broker in brokers}


def _passes(coverage: Coverage, unknown: Mapping[UnknownReason, int]) -> bool:
    """Whether reading on settles some of what has no verdict, or all has one, and nothing is wrong with the rest."""
    if any(reason not in PASSING and not _is_harmless(reason, coverage) for reason in unknown):
        return False
    return not unknown or not unknown.keys().isdisjoint(PASSING)


def _is_harmless(reason: UnknownReason, coverage: Coverage) -> bool:
    """Whether offsets may have no verdict for a reason though nothing is wrong."""
    return reason in _WAITS or telling(reason, coverage) is Telling.IN_PART


def _replica(snapshot: Snapshot, place: TopicPartition, broker: int, state: State, why: str, unseen: str) -> Replica:
    replica = (*place, broker)
    known = snapshot.replicas.get(replica)
    return Replica(
        broker,
        state,
        why,
        unseen,
        known.log_start_offset if known else None,
        known.last_stable_offset if known else None,
        known.high_watermark if known else None,
        snapshot.positions.get((replica, IsolationLevel.READ_COMMITTED)),
        snapshot.positions.get((replica, IsolationLevel.READ_UNCOMMITTED)),
    )
