"""The cluster's status in one line: all replicas agree, agree in part, findings, starting, or unknown.

The status page, the browser's title and ``/readyz`` all take it from here. `status_of` is pure. `Watch` remembers what
one snapshot cannot show, such as since when the condition is the same.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from parallax.alerting.blind import Cause, blindness, held_up
from parallax.alerting.overdue import BEHIND, LAGGING_S, behind, overdue
from parallax.alerting.snapshot import Snapshot
from parallax.alerting.starting import Past, Stage, Step, left_to_read, steps_of
from parallax.alerting.unknown import (
    Part,
    Telling,
    catching_up,
    in_part,
    parts_in_words,
    to_be_read,
    unknown_by,
    unknown_offsets,
    words,
)
from parallax.compare.suspect import Coverage
from parallax.counts import agreed, counted, named
from parallax.findings.in_brief import seen_counted
from parallax.guard.words import audit_in_words, late_in_words
from parallax.model import IsolationLevel, TopicPartition, UnknownReason
from parallax.moments import roughly

STUCK_S = 600.0
"""How many seconds a start may make no progress before that is reported."""
LEAVING_S = 10.0
"""For how many seconds brokers may deny a replica before that is a reason. They learn of a deletion one by one."""
_GONE = frozenset(
    {
        UnknownReason.LOG_START_DIFFERS,
        UnknownReason.RETENTION_DIFFERS,
        UnknownReason.DELETED_UNREAD,
        UnknownReason.LOST_UNREAD,
    }
)
"""Reasons with words of their own: no audit can say what a log once held."""


_CHECKED, _TRAILS = "checked", "behind"
_ON_THEIR_WAY = frozenset({_CHECKED, _TRAILS})
"""Names of reasons that pass by themselves (`Reason.name`): a difference is being checked, or replicas are behind."""


class Condition(StrEnum):
    """How the cluster is as a whole, e.g. that all replicas agree. Exactly one member is true at a time."""

    AGREE = "agree"
    AGREE_IN_PART = "agree_in_part"
    """What was compared agrees, but of some partitions not everything is compared now."""
    FINDINGS = "findings"
    STARTING = "starting"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Status:
    """The cluster's status, for people.

    Attributes:
        condition: the cluster's condition.
        headline: the condition in a few words, without reasons: the heading of the page, and the browser's title.
        more: what follows the headline in one line, with its punctuation; may be empty.
        is_known: whether there are findings, and somebody has acknowledged all of them.
        since: since when it has this condition, seconds since 1970 UTC; if the status is unknown, since when the first
            reason applies. None if that is not known.
        reasons: phrases that say why the status is unknown. If there are findings, they say why nobody knows whether
            the other replicas agree.
        notes: phrases on further facts, e.g. that an audit will compare offsets that were read late.
        steps: the steps of the start; empty once the start is over.
        problems: what keeps the job from doing its work, as phrases. If there is any, ``/readyz`` says not ready.
    """

    condition: Condition
    headline: str
    more: str
    is_known: bool
    since: float | None
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[Step, ...]
    problems: tuple[str, ...]

    @property
    def text(self) -> str:
        """The condition in one line, with the first reason."""
        return f"{self.headline}{self.more}"

    @property
    def stages(self) -> list[tuple[Step, Stage]]:
        """The steps of the start, each with how far it is.

        The first step that is not done is always under way.
        """
        first = next((step for step in self.steps if not step.is_done), None)
        return [
            (
                step,
                Stage.DONE if step.is_done else Stage.UNDER_WAY if step is first or step.has_begun else Stage.TO_COME,
            )
            for step in self.steps
        ]


class Reason(NamedTuple):
    """One reason why the status is unknown.

    Attributes:
        phrase: the reason in words for people, with numbers that may change.
        name: an identifier of the reason, which stays the same while the numbers in ``phrase`` change.
        since: since when the reason applies, seconds since 1970 UTC. None if the snapshot alone does not say it.
    """

    phrase: str
    name: str
    since: float | None = None


class Watch:
    """Gives the cluster's status for each snapshot, and remembers what earlier snapshots have shown.

    Any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._past = Past()
        self._condition: Condition | None = None
        self._got_on: tuple[int, int] | None = None

    def look(self, snapshot: Snapshot) -> Status:
        """The cluster's status at the moment of a snapshot, which this also remembers for later calls."""
        with self._lock:
            past = self._past
            if not past.has_started:
                past = self._of_start(past, snapshot)
            now, known = snapshot.taken_at, past.reasons
            past = replace(past, reasons={one.name: known.get(one.name, now) for one in reasons_of(snapshot, past)})
            status = status_of(snapshot, past)
            if status.condition is not self._condition:
                agreed_at = past.agreed_at if status.condition is Condition.AGREE else None
                past = replace(past, since=now if agreed_at is None else agreed_at)
                status = status_of(snapshot, past)
            if status.condition is Condition.AGREE:
                past = replace(past, agreed_at=past.since)
            elif not _is_only_on_its_way(status, snapshot, past):
                past = replace(past, agreed_at=None)
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


def _is_only_on_its_way(status: Status, snapshot: Snapshot, past: Past) -> bool:
    """Whether all that is missing to agreement is yet to be compared or checked, so that nothing speaks against it."""
    is_free = status.condition in (Condition.AGREE_IN_PART, Condition.UNKNOWN) and past.reasons.keys() <= _ON_THEIR_WAY
    return is_free and all(part is Part.CATCHING_UP for part in in_part(snapshot).values())


def status_of(snapshot: Snapshot, past: Past) -> Status:
    """The cluster's status, decided from one snapshot and from what earlier ones have shown.

    The first of these that applies decides: findings that nobody has acknowledged, a start that makes progress,
    acknowledged findings, reasons why the status is unknown, partitions that are known in part. Otherwise all replicas
    agree.

    Args:
        snapshot: the present snapshot.
        past: what earlier snapshots have shown.
    """
    problems = tuple(health(snapshot))
    is_idle = snapshot.nothing_since is not None
    steps = _steps(snapshot, past)
    why = reasons_of(snapshot, past)
    reasons = tuple(one.phrase for one in why)
    known = len(snapshot.findings.acknowledged)
    acknowledged = counted(known, "acknowledged finding")
    notes = [*([acknowledged] if known else []), *_notes(snapshot)]
    since = past.since
    is_known, more = False, ""
    if snapshot.findings.open:
        condition, text, notes = Condition.FINDINGS, _findings_text(snapshot), [*_notes(snapshot)]
        since = min(finding.first_suspected_at.timestamp() for finding in snapshot.findings.open)
    elif steps and not reasons:
        condition, since = Condition.STARTING, snapshot.started_at
        text = f"Starting: {sum(step.is_done for step in steps)} of {len(steps)} steps done"
    elif known:
        condition, is_known = Condition.FINDINGS, True
        text, more = f"{acknowledged} {'are' if known > 1 else 'is'} open", f"; {_rest(snapshot, reasons)}"
        notes.remove(acknowledged)
        since = min(finding.first_suspected_at.timestamp() for finding in snapshot.findings.acknowledged)
    elif is_idle and len(reasons) == 1:
        condition, text = Condition.UNKNOWN, f"{reasons[0][:1].upper()}{reasons[0][1:]}"
    elif reasons:
        condition, text, more = Condition.UNKNOWN, "Cannot tell whether the replicas agree", f": {_first(reasons)}"
    elif partly := in_part(snapshot):
        condition, (text, more) = Condition.AGREE_IN_PART, _agree_in_part(snapshot, partly)
    else:
        condition, text, more = Condition.AGREE, "All replicas agree", _on_its_way(snapshot)
    if condition is Condition.UNKNOWN:
        since = past.reasons.get(why[0].name, since) if why[0].since is None else why[0].since
    return Status(condition, text, more, is_known, since, reasons, tuple(notes), steps, problems)


def _steps(snapshot: Snapshot, past: Past) -> tuple[Step, ...]:
    return () if past.has_started or snapshot.nothing_since is not None else steps_of(snapshot, past)


def reasons_of(snapshot: Snapshot, past: Past) -> tuple[Reason, ...]:
    """Why nobody knows whether all replicas agree.

    The most important reason is first; empty if there is none.

    Args:
        snapshot: the present snapshot.
        past: what earlier snapshots have shown.
    """
    return tuple(_reasons(snapshot, past, is_starting=bool(_steps(snapshot, past))))


def health(snapshot: Snapshot) -> list[str]:
    """What keeps the job itself from working, as phrases; empty if it works.

    A broker that does not answer is not among them: the job works, and reports the broker.
    """
    return [one.phrase for one in blindness(snapshot) if one.cause.is_of_the_job]


def _first(reasons: tuple[str, ...]) -> str:
    more = f", and {counted(len(reasons) - 1, 'more reason')}" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}"


def _rest(snapshot: Snapshot, reasons: tuple[str, ...]) -> str:
    """What is known beside acknowledged findings."""
    if reasons:
        return f"the rest is unknown: {_first(reasons)}"
    rest = ", and not everything is compared" if in_part(snapshot) else _on_its_way(snapshot)
    return f"no other difference was found{rest}"


def _on_its_way(snapshot: Snapshot) -> str:
    left = sum(unknown_by(snapshot, Telling.ON_ITS_WAY).values())
    return f"; {counted(left, 'offset')} {agreed(left, 'is', 'are')} not compared yet" if left else ""


def _agree_in_part(snapshot: Snapshot, partly: Mapping[TopicPartition, Part]) -> tuple[str, str]:
    places = snapshot.coverage.keys() | partly.keys()
    whole, why = len(places) - len(partly), parts_in_words(partly.values())
    if not whole:
        return f"No difference was found in {counted(len(places), 'partition')}", f": {why}"
    return f"All replicas agree in {whole:,} of {counted(len(places), 'partition')}", f"; {why}"


def _findings_text(snapshot: Snapshot) -> str:
    found, known = snapshot.findings.open, len(snapshot.findings.acknowledged)
    said = seen_counted(found), f"{known:,} acknowledged" if known else ""
    return ": ".join(filter(None, (counted(len(found) + known, "open finding"), ", ".join(filter(None, said)))))


def _reasons(snapshot: Snapshot, past: Past, *, is_starting: bool) -> Iterator[Reason]:
    """Why the status is unknown; during a start that gets on, only what does not end with the start."""
    if is_starting and past.got_on_at is not None and snapshot.taken_at - past.got_on_at > STUCK_S:
        yield Reason(
            f"the start has made no progress for {roughly(snapshot.taken_at - past.got_on_at)}", "start", past.got_on_at
        )
    for one in blindness(snapshot):
        # A finding says itself that a replica stands still. A topic that is being deleted is gone in a moment.
        if one.cause is Cause.REPLICA_OFFLINE and snapshot.taken_at - (one.since or 0.0) < LEAVING_S:
            continue
        if one.cause is not Cause.FROZEN and not (is_starting and one.cause.ends_with_the_start):
            yield Reason(one.phrase, f"{one.cause} {one.reach.brokers} {one.reach.topics}", one.since)
    if is_starting:
        return
    if waiting := sum(snapshot.findings.pending.values()):
        yield Reason(f"{counted(waiting, 'difference')} {agreed(waiting, 'is', 'are')} being checked", _CHECKED)
    yield from _uncompared(snapshot)


def _uncompared(snapshot: Snapshot) -> Iterator[Reason]:
    # Where a broker has come back, that the partition is catching up says it; one that does not get on is late or lags.
    late = sum(
        n > BEHIND
        for place, coverage in snapshot.coverage.items()
        if snapshot.caught_up.get(place, True)
        for n in behind(coverage).values()
    )
    if late:
        are = agreed(late, "is", "are")
        yield Reason(f"{counted(late, 'replica')} {are} more than {BEHIND:,} offsets behind", _TRAILS)
    lag = _lag(snapshot)
    if lag > LAGGING_S:
        yield Reason(f"reading is {roughly(lag)} behind the brokers", "lag", snapshot.taken_at - lag)
    # If a finding is open, the replicas are known to differ.
    differ = {finding.place for finding in snapshot.findings.standing}
    late_s = {place: s for place, s in overdue(snapshot).items() if s > LAGGING_S}
    if late_s:
        where, counts = named(place.name for place in late_s), unknown_by(snapshot, Telling.ON_ITS_WAY, late_s)
        what = f": {_counts(counts)}" if counts else ""
        longest = max(late_s.values())
        yield Reason(f"{where} waited {roughly(longest)} for a verdict{what}", "late", snapshot.taken_at - longest)
    if counts := _but_gone(unknown_by(snapshot, Telling.CANNOT_TELL)):
        yield Reason(f"offsets were left out of the comparison: {_counts(counts)}", "left out")
    if apart := _of(snapshot, UnknownReason.LOG_START_DIFFERS, apart=True) - {place.name for place in differ}:
        yield Reason(
            f"logs of {named(apart)} begin at different offsets, though no cleanup policy is known to delete records: "
            "one may have lost its beginning",
            "log starts",
        )
    if lost := _of(snapshot, UnknownReason.LOST_UNREAD):
        yield Reason(
            f"no replica of {named(lost)} holds anything at some offsets: what was there was lost before anybody read "
            "it",
            "lost unread",
        )
    if late_copies := [one for one in snapshot.absences.late if one.place not in differ]:
        said = late_in_words(late_copies, snapshot.audits_at, snapshot.taken_at, snapshot.shell)
        yield Reason(said, "late copies", min(one.at_ms for one in late_copies) / 1000)


def _lag(snapshot: Snapshot) -> float:
    """For how many seconds some view has been behind, by the last report on its replica: a deleted one has no more."""
    told = {replica: state.reported_at for replica, state in snapshot.replicas.items()}
    return max((told.get(replica, since) - since for (replica, _), since in snapshot.behind_since.items()), default=0.0)


def _notes(snapshot: Snapshot) -> Iterator[str]:
    if left_out := sorted(snapshot.left_out_brokers):
        whom = f"{agreed(len(left_out), 'broker', 'brokers')} {', '.join(map(str, left_out))}"
        them = agreed(len(left_out), "it", "them")
        yield f"{whom} {agreed(len(left_out), 'is', 'are')} not read: topics.brokers leaves {them} out"
    if absent := snapshot.absences.absent:
        where = ", ".join(map(str, sorted({one.broker for one in absent})))
        # Of others nothing can be cleaned that a replica would miss: they count as unreachable, and not as absent.
        many = "replicas of compacted topics are" if len(absent) > 1 else "replica of a compacted topic is"
        yield f"{len(absent):,} {many} absent, of broker {where}; what is not copied yet cannot be compared"
    if coming := to_be_read(snapshot):
        reason = words(UnknownReason.BEFORE_FIRST_READING)
        yield f"{coming:,} {reason}: not every replica has been read yet; that ends by itself once each has"
    counts = Counter(_but_gone(unknown_by(snapshot, Telling.IN_PART)))
    if counts := +(counts - Counter({UnknownReason.BEFORE_FIRST_READING: coming})):
        places = [place for place in unknown_offsets(snapshot) if _may_be_audited(snapshot.coverage[place])]
        when = audit_in_words(places, snapshot.audits_at, snapshot.taken_at, snapshot.shell)
        first = UnknownReason.BEFORE_FIRST_READING
        before = {first: counts[first]} if first in counts else {}
        late = {reason: n for reason, n in counts.items() if reason not in before}
        whose = (
            (before, "written before the job first read that log of some replica"),
            (late, "offsets that nobody could compare in time"),
        )
        yield f"{'; '.join(f'{_counts(some)}: {why}' for some, why in whose if some)}; {when}"
    if gone := _of(snapshot, UnknownReason.LOG_START_DIFFERS, apart=False):
        yield (
            f"all logs of {named(gone)} have lost their beginning, though no cleanup policy is known to delete "
            "records; what they held there is unknown"
        )
    if gone := _of(snapshot, UnknownReason.DELETED_UNREAD):
        yield (
            f"records of {named(gone)} were deleted before every replica had been read (retention, or DeleteRecords as "
            "by Kafka Streams): nobody can compare them any more"
        )
    if deleting := _of(snapshot, UnknownReason.RETENTION_DIFFERS):
        yield (
            f"logs of {named(deleting)} begin at different offsets: each replica deletes by retention at its own time; "
            "where that lasts, one may have lost its beginning"
        )
    if new := sum(place not in held_up(snapshot) for place in catching_up(snapshot)):
        what = f"{counted(new, 'partition')} {agreed(new, 'is', 'are')} catching up"
        yield f"{what} with what was written before {agreed(new, 'it', 'they')} could be compared"


def _may_be_audited(coverage: Coverage) -> bool:
    return any(span.may_be_audited for span in coverage.unread)


def _but_gone(counts: Mapping[UnknownReason, int]) -> Mapping[UnknownReason, int]:
    return {reason: n for reason, n in counts.items() if reason not in _GONE}


def _of(snapshot: Snapshot, reason: UnknownReason, *, apart: bool | None = None) -> set[str]:
    """Names of partitions with offsets that are unknown for a reason.

    Args:
        snapshot: of now.
        reason: why.
        apart: only where the logs begin at different offsets now, or only where they do not; None for both.
    """
    return {
        place.name
        for place, counts in unknown_offsets(snapshot).items()
        if reason in counts and apart in (None, snapshot.coverage[place].begins_apart)
    }


def _counts(counts: Mapping[UnknownReason, int]) -> str:
    return ", ".join(f"{n:,} {words(reason)}" for reason, n in counts.items())


__all__ = ["Condition", "Past", "Status", "Watch", "health", "status_of"]
