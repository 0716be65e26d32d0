"""What stands about the cluster in one line: all replicas agree, in part, findings, starting, or it cannot be told.

The page, the browser's title and ``/readyz`` say the same, for all of them are told here. `status_of` is pure; `Watch`
remembers between looks what no single one can tell.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from parallax.alerting.conditions import STALLED_S
from parallax.alerting.overdue import BEHIND, LAGGING_S, behind, is_read, overdue
from parallax.alerting.starting import Past, Stage, Step, left_to_read, steps_of
from parallax.alerting.state import Replica, Snapshot
from parallax.counts import agreed, counted
from parallax.guard.words import late_in_words
from parallax.model import PASSING, IsolationLevel, TopicPartition, UnknownReason
from parallax.moments import roughly
from parallax.views.pause import in_words as paused_in_words

STUCK_S = 600.0
"""For how long a start may get on with nothing before that is said."""
NAMED = 3
"""Topics, or addresses, that are named; of more, the others are counted."""

LEFT_OUT = frozenset({UnknownReason.DEFERRED, UnknownReason.SKIPPED, UnknownReason.UNAUTHORIZED})
"""What the comparison should have come to and did not."""
_MISSED = frozenset(UnknownReason) - PASSING - LEFT_OUT
"""Where nobody was in time, which is no fault of anybody."""


class Condition(StrEnum):
    """What stands about the cluster; exactly one at a time."""

    AGREE = "agree"
    AGREE_IN_PART = "agree_in_part"
    """What was compared agrees, and not every partition has been compared whole."""
    FINDINGS = "findings"
    STARTING = "starting"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Status:
    """What stands, for people.

    Attributes:
        condition: the one that counts.
        text: it in one line.
        is_known: with `Condition.FINDINGS`, that somebody has acknowledged all of them.
        since: seconds since 1970 UTC; None where that is not known.
        reasons: why it cannot be told, or, beside findings, of what it cannot be told; a phrase for each.
        notes: what else there is to know; a phrase for each.
        steps: of the start; empty once that is over.
        problems: what keeps the job from doing its work: with any, it is not ready.
    """

    condition: Condition
    text: str
    is_known: bool
    since: float | None
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[Step, ...]
    problems: tuple[str, ...]

    @property
    def stages(self) -> list[tuple[Step, Stage]]:
        """The steps of the start, and how far each is: the first that is not done is always under way."""
        first = next((step for step in self.steps if not step.is_done), None)
        return [
            (
                step,
                Stage.DONE if step.is_done else Stage.UNDER_WAY if step is first or step.has_begun else Stage.TO_COME,
            )
            for step in self.steps
        ]


class Watch:
    """Looks at snapshots, from any thread, and says what stands.

    Args:
        stale_after_s: how old the end-to-end heartbeat may be.
    """

    def __init__(self, stale_after_s: float) -> None:
        self._stale_after_s = stale_after_s
        self._lock = threading.Lock()
        self._past = Past()
        self._condition: Condition | None = None
        self._got_on: tuple[int, int] | None = None

    def look(self, snapshot: Snapshot) -> Status:
        """What stands at the moment of a snapshot."""
        with self._lock:
            past = self._past
            if not past.has_started:
                past = self._of_start(past, snapshot)
            status = status_of(snapshot, past, self._stale_after_s)
            if status.condition is not self._condition:
                past = replace(past, since=snapshot.taken_at)
                status = status_of(snapshot, past, self._stale_after_s)
            self._condition, self._past = status.condition, past
            return status

    def _of_start(self, past: Past, snapshot: Snapshot) -> Past:
        steps, left = steps_of(snapshot), left_to_read(snapshot)
        if all(step.is_done for step in steps):
            return replace(past, has_started=True)
        now = snapshot.taken_at
        got_on = sum(step.is_done for step in steps), -left
        if self._got_on is None or got_on > self._got_on:
            self._got_on, past = got_on, replace(past, got_on_at=now)
        # What is left is known once both views have said how far they are.
        if past.first_left is None and left and {level for _, level in snapshot.positions} == set(IsolationLevel):
            past = replace(past, first_left=(now, left))
        return past


def status_of(snapshot: Snapshot, past: Past, stale_after_s: float) -> Status:
    """What stands.

    Args:
        snapshot: as it stands.
        past: what earlier looks have shown.
        stale_after_s: how old the end-to-end heartbeat may be.

    Returns:
        Findings that nobody has acknowledged go first, then a start that gets on. Findings that somebody knows of are
        told with what is not known of the rest. All replicas agree only where nothing speaks against it, and every
        partition has been compared whole.
    """
    problems = tuple(health(snapshot, stale_after_s))
    steps = () if past.has_started else steps_of(snapshot, past)
    reasons = tuple(_reasons(snapshot, problems, past, is_starting=bool(steps)))
    known = len(snapshot.findings.acknowledged)
    acknowledged = counted(known, "acknowledged finding")
    notes = [*([acknowledged] if known else []), *_notes(snapshot)]
    since = past.since
    is_known = False
    in_part = _in_part(snapshot)
    if snapshot.findings.open:
        condition, text = Condition.FINDINGS, _findings_text(snapshot)
        since = min(finding.first_suspected_at.timestamp() for finding in snapshot.findings.open)
    elif steps and not reasons:
        condition, since = Condition.STARTING, snapshot.started_at
        text = f"Starting: {sum(step.is_done for step in steps)} of {len(steps)} steps done"
    elif known:
        condition, is_known = Condition.FINDINGS, True
        rest = f"of the rest it cannot be told: {_first(reasons)}" if reasons else "nothing else differs"
        text = f"{acknowledged} {'stand' if known > 1 else 'stands'}; {rest}"
        notes.remove(acknowledged)
        since = min(finding.first_suspected_at.timestamp() for finding in snapshot.findings.acknowledged)
    elif reasons:
        condition, text = Condition.UNKNOWN, f"Cannot tell whether the replicas agree: {_first(reasons)}"
    elif in_part:
        condition, text = Condition.AGREE_IN_PART, _agree_in_part(snapshot, in_part)
    else:
        condition, text = Condition.AGREE, "All replicas agree"
    return Status(condition, text, is_known, since, reasons, tuple(notes), steps, problems)


def health(snapshot: Snapshot, stale_after_s: float) -> list[str]:
    """What keeps the job from doing its work; empty when offsets come out of the comparison.

    A broker that is down is not among it: the job is well, and says so of the broker.
    """
    problems = []
    if snapshot.heartbeat is None:
        problems.append("nothing has been compared yet")
    elif snapshot.taken_at - snapshot.heartbeat > stale_after_s:
        problems.append(f"nothing has been compared for {roughly(snapshot.taken_at - snapshot.heartbeat)}")
    problems += [f"query {name} is down" for name, query in sorted(snapshot.queries.items()) if not query.up]
    problems += [
        f"query {name} has made no progress for {roughly(snapshot.taken_at - query.last_progress)}"
        for name, query in sorted(snapshot.queries.items())
        if query.up and query.last_progress is not None and snapshot.taken_at - query.last_progress > STALLED_S
    ]
    if snapshot.findings.error is not None:
        problems.append(f"findings: {snapshot.findings.error}")
    return problems


def words(reason: UnknownReason) -> str:
    """A reason as text."""
    return reason.replace("_", " ")


def _first(reasons: tuple[str, ...]) -> str:
    more = f", and {counted(len(reasons) - 1, 'more reason')}" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}"


def _in_part(snapshot: Snapshot) -> frozenset[TopicPartition]:
    """The partitions that have not been compared whole; the notes say what is missing."""
    missed = (
        place
        for place, coverage in snapshot.coverage.items()
        if any(sum(counts) for reason, counts in coverage.unknown.items() if reason in _MISSED)
    )
    absent = (absence.place for absence in snapshot.absences.absent)
    return frozenset((*missed, *absent, *_initially_uncompared(snapshot)))


def _initially_uncompared(snapshot: Snapshot) -> list[TopicPartition]:
    return [place for place, is_compared in snapshot.initially_compared.items() if not is_compared]


def _agree_in_part(snapshot: Snapshot, in_part: frozenset[TopicPartition]) -> str:
    places = snapshot.coverage.keys() | in_part
    whole = len(places) - len(in_part)
    if not whole:
        return f"No difference was found; none of {counted(len(places), 'partition')} has been compared whole"
    return f"All replicas agree in {whole:,} of {counted(len(places), 'partition')}; the others are known in part"


def _findings_text(snapshot: Snapshot) -> str:
    count = len(snapshot.findings.open)
    exposed = sum(finding.exposed for finding in snapshot.findings.open)
    seen = f", {exposed:,} seen by consumers" if exposed else ""
    return f"{counted(count, 'open finding')}{seen}"


def _reasons(snapshot: Snapshot, problems: tuple[str, ...], past: Past, *, is_starting: bool) -> Iterator[str]:
    """Why it cannot be told; of a start that gets on, only what does not end with it."""
    if not is_starting:
        yield from problems
        if not snapshot.findings_loaded and snapshot.findings.error is None:
            yield "the findings are not loaded"
    else:
        yield from (problem for problem in problems if problem != "nothing has been compared yet")
        if past.got_on_at is not None and snapshot.taken_at - past.got_on_at > STUCK_S:
            yield f"the start has not got on for {roughly(snapshot.taken_at - past.got_on_at)}"
    yield from _unread(snapshot)
    if is_starting:
        return
    if waiting := sum(snapshot.findings.pending.values()):
        yield f"{counted(waiting, 'difference')} {agreed(waiting, 'is', 'are')} being checked"
    yield from _uncompared(snapshot)


def _unread(snapshot: Snapshot) -> Iterator[str]:
    """What is not read because somebody does not answer, does not let it be read, or does not want it read."""
    if snapshot.storage_full:
        yield "the storage is full, and recording has stopped"
    if snapshot.mismatches:
        yield f"another cluster answers at {_some(set(snapshot.mismatches))}"
    away = [str(broker) for broker, answers in sorted(snapshot.reachable.items()) if not answers]
    if away:
        yield f"{agreed(len(away), 'broker', 'brokers')} {', '.join(away)} {agreed(len(away), 'does', 'do')} not answer"
    if silent := _silent(snapshot):
        where = ", ".join(map(str, sorted({broker for _, _, broker in silent})))
        yield f"{counted(len(silent), 'replica')} cannot be read on broker {where}"
    yield from (f"reading is paused: {one}" for one in paused_in_words(snapshot.paused))
    if hanging := {called(one.one.place) for one in snapshot.hanging}:
        what = "transactions hang" if len(snapshot.hanging) > 1 else "a transaction hangs"
        yield f"{what} in {_some(hanging)}: nothing beyond is compared in read_committed"
    topics: dict[str, set[str]] = {}
    for (topic, *_), refusal in snapshot.refused.items():
        topics.setdefault(words_of(refusal.right), set()).add(topic)
    for right, own in sorted(topics.items()):
        yield f"the right {right} is missing on {_some(own)}"


def _silent(snapshot: Snapshot) -> list[Replica]:
    """Replicas that do not answer on a broker that does, and for no other reason: a log directory is offline, say."""
    return [
        replica
        for coverage in snapshot.coverage.values()
        for one in coverage.brokers
        if not one.reachable and is_read(snapshot, replica := (coverage.topic, coverage.partition, one.broker))
    ]


def _uncompared(snapshot: Snapshot) -> Iterator[str]:
    late = sum(n > BEHIND for coverage in snapshot.coverage.values() for n in behind(coverage).values())
    if late:
        yield f"{counted(late, 'replica')} {agreed(late, 'is', 'are')} more than {BEHIND:,} offsets behind"
    lag = _lag(snapshot)
    if lag > LAGGING_S:
        yield f"reading is {roughly(lag)} behind the brokers"
    late_s = {place: s for place, s in overdue(snapshot).items() if s > LAGGING_S}
    if late_s:
        where, counts = _some(set(map(called, late_s))), _unknown(snapshot, PASSING, late_s)
        what = f": {_counts(counts)}" if counts else ""
        yield f"{where} waited {roughly(max(late_s.values()))} for a verdict{what}"
    if counts := _unknown(snapshot, LEFT_OUT):
        yield f"offsets were left out of the comparison: {_counts(counts)}"
    # Where a finding stands it is known that they differ.
    differ = {finding.place for finding in snapshot.findings.standing}
    if late_copies := [one for one in snapshot.absences.late if one.place not in differ]:
        yield late_in_words(late_copies, snapshot.audits_at, snapshot.taken_at)


def _lag(snapshot: Snapshot) -> float:
    """For how many seconds some view has been behind, by the last report on its replica: a deleted one has no more."""
    told = {replica: state.reported_at for replica, state in snapshot.replicas.items()}
    return max((told.get(replica, since) - since for (replica, _), since in snapshot.behind_since.items()), default=0.0)


def _notes(snapshot: Snapshot) -> Iterator[str]:
    if absent := snapshot.absences.absent:
        where = ", ".join(map(str, sorted({one.broker for one in absent})))
        many = "replicas are" if len(absent) > 1 else "replica is"
        yield f"{len(absent):,} {many} absent, of broker {where}; what is not copied yet cannot be compared"
    if counts := _unknown(snapshot, _MISSED):
        yield f"{_counts(counts)}: offsets that nobody could compare in time; an audit tells of them"
    if new := len(_initially_uncompared(snapshot)):
        yield f"{counted(new, 'partition')} {agreed(new, 'is', 'are')} being compared for the first time"


def _unknown(
    snapshot: Snapshot, reasons: frozenset[UnknownReason], places: Container[TopicPartition] | None = None
) -> Mapping[UnknownReason, int]:
    found: Counter[UnknownReason] = Counter()
    for coverage in snapshot.coverage.values():
        if places is not None and coverage.place not in places:
            continue
        for reason, counts in coverage.unknown.items():
            if reason in reasons:
                found[reason] += sum(counts)
    return +found


def called(place: TopicPartition) -> str:
    """A partition as Kafka writes it."""
    return f"{place.topic}-{place.partition}"


def words_of(right: object) -> str:
    """A right as text."""
    return str(right).replace("_", " ")


def _counts(counts: Mapping[UnknownReason, int]) -> str:
    return ", ".join(f"{n:,} {words(reason)}" for reason, n in counts.items())


def _some(names: set[str]) -> str:
    first = sorted(names)
    more = f" and {len(first) - NAMED:,} more" if len(first) > NAMED else ""
    return ", ".join(first[:NAMED]) + more


__all__ = ["Condition", "Past", "Status", "Watch", "health", "status_of", "words"]
