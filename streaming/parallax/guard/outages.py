"""Follows the outages of brokers, and words what each means.

An *outage* begins with a broker's first absent replica. It ends when all its replicas are back, and late ones are
audited. It is reported as one story: that it began, that it became worse, and what came of it. The alerts decide when
that is worth a message (`parallax.alerting.conditions`).

Pure: absences and results of audits in, outages and words out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from parallax.audit.result import Result
from parallax.counts import agreed, counted, first_of, named
from parallax.guard.absences import Absence, Late, Presence, Unclear
from parallax.guard.endings import Ending, Outage, of_it
from parallax.guard.words import who_audits
from parallax.model import TopicPartition
from parallax.moments import time_text
from parallax.shell import ANYWHERE, Shell

TOLD_MS = 180_000
"""For how many milliseconds the end of an outage is reported.

Prometheus and its alerts must see it before the alert ends.
"""
_TOGETHER_MS = 60_000
"""Bounds that lie no further apart, in milliseconds, are reported as one."""
SHORT_MS = 10_000
"""How many milliseconds a broker must be away before the log says so. A shorter outage may be over by then."""


class Step(StrEnum):
    """The moments of an outage that the job writes to its log: the broker is away, is back, the outage is over.

    A broker may be away and back several times in one outage.
    """

    AWAY = "away"
    BACK = "back"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Change:
    """One moment of an outage that the job writes to its log.

    Attributes:
        since_ms: since when the broker was away, or since when the outage lasted if the step is `Step.OVER`;
            milliseconds since 1970 UTC.
        outage: the outage as it is after the step.
    """

    step: Step
    since_ms: int
    outage: Outage


class Outages:
    """The outages of all brokers, at most one for each, updated at each look.

    Args:
        answers: called with a partition and a broker's id; returns whether the broker's replica answers, None if it is
            no longer watched.
        differing: called without arguments; returns the partitions with findings that are not over.
    """

    def __init__(
        self,
        answers: Callable[[TopicPartition, int], bool | None] = lambda _place, _broker: True,
        differing: Callable[[], Collection[TopicPartition]] = tuple,
    ) -> None:
        self._answers = answers
        self._differing = differing
        self._known: dict[int, Outage] = {}
        self._seen_away: dict[int, int] = {}
        """When a broker was first seen to be away, of those that are."""
        self._told_away: dict[int, int] = {}
        """The brokers that were reported as away, and since when."""
        self._told: set[int] = set()
        """The brokers whose outage was reported."""

    def see(
        self, absent: Iterable[Absence], late: Iterable[Late], now_ms: int, *, is_recalled: bool = False
    ) -> list[Change]:
        """Update the outages by the replicas that are absent or late at a moment.

        Args:
            absent: all absent replicas, of any brokers.
            late: all late replicas, of any brokers.
            now_ms: the moment, milliseconds since 1970 UTC.
            is_recalled: whether these replicas were absent or late before the job was started.

        Returns:
            The moments of outages that the job writes to its log, in order.
        """
        standing: dict[int, list[Absence]] = {}
        for one in absent:
            if one.presence is not Presence.COPYING and one.unclear is not Unclear.REASSIGNED:
                standing.setdefault(one.broker, []).append(one)
        copied: dict[int, list[Late]] = {}
        doubted: dict[int, set[TopicPartition]] = {}
        for copy in late:
            if copy.absence.unclear is Unclear.NO_TIME:
                doubted.setdefault(copy.broker, set()).add(copy.place)
            if copy.is_of_an_outage:
                copied.setdefault(copy.broker, []).append(copy)
        changes: list[Change] = []
        for broker in sorted(standing.keys() | copied.keys() | self._known.keys()):
            was = self._known.get(broker)
            if was is not None:
                was = was.without_verdicts(doubted.get(broker, ()))
            now = _next(broker, was, standing.get(broker, ()), copied.get(broker, ()), now_ms, is_recalled=is_recalled)
            if now is None:
                del self._known[broker]
                continue
            if now.ended_ms is not None:
                now = self._ended(now, is_new=was is None or was.ended_ms is None)
            self._known[broker] = now
            changes += self._steps(was, now, now_ms)
        return changes

    def _ended(self, outage: Outage, *, is_new: bool) -> Outage:
        """An outage that is over, with the replicas that are gone and the partitions that differ."""
        differ = outage.places & frozenset(self._differing())
        if not is_new:
            return replace(outage, differ=outage.differ | differ)
        gone = frozenset(place for place in outage.places if self._answers(place, outage.broker) is None)
        return replace(outage, gone=gone, differ=differ)

    def _steps(self, was: Outage | None, now: Outage, now_ms: int) -> Iterable[Change]:
        broker = now.broker
        if now.away_ms is None:
            self._seen_away.pop(broker, None)
        elif now_ms - self._seen_away.setdefault(broker, now_ms) >= SHORT_MS and broker not in self._told_away:
            self._told_away[broker] = now.away_ms
            self._told.add(broker)
            yield Change(Step.AWAY, now.away_ms, now)
        if broker in self._told_away and now.away_ms is None:
            since_ms = self._told_away.pop(broker)
            if any(self._answers(place, broker) for place in now.absent):
                yield Change(Step.BACK, since_ms, now)
        if now.ended_ms is not None:
            if was is not None and was.ended_ms is None and (broker in self._told or now.late):
                yield Change(Step.OVER, now.since_ms, now)
            self._told.discard(broker)

    def audited(self, verdicts: Mapping[TopicPartition, Result]) -> None:
        """Keep the results of an audit of replicas that were late, or may have been, for the words about the end.

        Call it before `see` learns which replicas are no longer late.

        Args:
            verdicts: by partition that has a verdict, the audit's result.
        """
        for broker, one in self._known.items():
            mine = {place: result for place, result in verdicts.items() if place in one.late | one.untold}
            if mine:
                self._known[broker] = replace(one, verdicts={**one.verdicts, **mine})

    @property
    def all(self) -> tuple[Outage, ...]:
        """The outages that last, and those that ended at most three minutes ago, the oldest first."""
        return tuple(sorted(self._known.values(), key=lambda one: (one.since_ms, one.broker)))


def _next(
    broker: int,
    was: Outage | None,
    absent: Collection[Absence],
    late: Collection[Late],
    now_ms: int,
    *,
    is_recalled: bool,
) -> Outage | None:
    if not absent and not late:
        if was is None or (was.ended_ms is not None and now_ms - was.ended_ms > TOLD_MS):
            return None
        return was if was.ended_ms is not None else replace(was, ended_ms=now_ms, away_ms=None)
    if was is None or was.ended_ms is not None:
        since = min([one.since_ms for one in absent] + [one.absence.since_ms for one in late])
        was = Outage(broker, since)
    is_away = any(one.presence is Presence.AWAY for one in absent)
    since_away = min((one.since_ms for one in absent if one.presence is Presence.AWAY), default=now_ms)
    places = frozenset(one.place for one in late)
    doubtful = frozenset(one.place for one in late if one.absence.unclear is not None)
    untold = {one.place for one in absent if one.unclear is Unclear.NO_TIME}
    return replace(
        # Who is late again, or still, has to be audited once more.
        was.without_verdicts(places | untold),
        away_ms=(since_away if was.away_ms is None else was.away_ms) if is_away else None,
        absent=was.absent | {one.place for one in absent},
        late=was.late | places,
        doubtful=(was.doubtful - places) | doubtful,
        untold=was.untold | untold,
        is_recalled=was.is_recalled or is_recalled,
    )


def headline(outage: Outage, absent: Collection[Absence], late: Collection[Late], now: float) -> str:
    """Return the state of an outage and its first topics in one line, e.g. ``Broker 2 is away (orders, payments)``.

    Args:
        outage: an outage that lasts, or has ended.
        absent: all absent replicas, of any brokers.
        late: all late replicas, of any brokers.
        now: seconds since 1970 UTC.
    """
    stage = _stage(outage, absent, late, now)
    mine = sorted((one for one in absent if one.broker == outage.broker), key=_urgency)
    topics = first_of(one.place.topic for one in mine) if mine else outage.topics
    if stage in _LATE:
        copied = {one.place for one in _late(outage, late)} or outage.left_of(outage.late)
        topics = named(place.topic for place in copied)
    return f"Broker {outage.broker} {stage} ({topics})"


def _urgency(absence: Absence) -> tuple[bool, float, str]:
    """A sort key: first what is due first, last what no look can say anything of."""
    is_known = absence.bound_ms is not None and not absence.leaves_no_time
    return not is_known, absence.bound_ms or 0, absence.place.topic


_TOO_LATE, _DOUBTFUL = "was back too late", "is back, and nobody can tell whether in time"
_LATE = (_TOO_LATE, _DOUBTFUL)
"""The stages that are of the late replicas alone."""


def _stage(outage: Outage, absent: Collection[Absence], late: Collection[Late], now: float) -> str:
    copied = _late(outage, late)
    if copied and outage.away_ms is None:
        is_added = all(one.absence.presence is Presence.COPYING for one in copied)
        return "copied its log late" if is_added else _too_late(outage)
    if outage.ending is not None:
        ends = {Ending.LATE: _too_late(outage), Ending.GONE: "has none of these replicas any more"}
        return ends.get(outage.ending, "is back")
    if any(_has_passed(one, now) for one in _absent(outage, absent)):
        return "has been away for too long"
    return "is away" if outage.away_ms is not None else "is behind"


def _too_late(outage: Outage) -> str:
    return _DOUBTFUL if outage.late <= outage.doubtful else _TOO_LATE


def outage_in_words(
    outage: Outage,
    absent: Collection[Absence],
    late: Collection[Late],
    now: float,
    *,
    is_audited: bool = True,
    shell: Shell = ANYWHERE,
) -> str:
    """Return sentences that say what an outage means now, and what a person should do.

    The text changes only when something happens.

    Args:
        outage: an outage that lasts, or has ended.
        absent: all absent replicas, of any brokers.
        late: all late replicas, of any brokers.
        now: seconds since 1970 UTC.
        is_audited: whether the job audits what was copied late (``audit.unread_delay_s``).
        shell: how commands name the job.
    """
    if outage.ended_ms is not None:
        return outage.outcome
    mine, copied = _absent(outage, absent), _late(outage, late)
    passed = [one for one in mine if _has_passed(one, now)]
    left = [one for one in mine if one.unclear is None and one.bound_ms is not None and one not in passed]
    untold = [one for one in mine if one not in passed and one not in left and one.unclear is not Unclear.NO_TIME]
    said = []
    if copied:
        surely = [one for one in copied if one.absence.unclear is None]
        if surely:
            said.append(
                f"{_named(surely)} copied something late, and may have missed tombstones or end markers that were "
                "cleaned before."
            )
        if doubtful := [one for one in copied if one not in surely]:
            them = agreed(len(doubtful), "it was", "they were")
            said.append(f"Of {_named(doubtful)} nobody can tell whether {them} back in time.")
        audits = who_audits("those partitions", is_audited=is_audited)
        said.append(f"{audits[0].upper()}{audits[1:]}. This ends with an audit of the job.")
    if passed:
        said.append(
            f"What it lacks of {_partitions(passed)} may be gone from the others since "
            f"{time_text(min(one.bound_ms or 0 for one in passed))}: its delete.retention.ms, less "
            f"guard.clock_skew_ms, has passed. To bring it back is not enough any more: {_COPY_AGAIN}."
        )
    if untold:
        said.append(f"Until when what {_named(untold)} {agreed(len(untold), 'lacks', 'lack')} is kept is not known.")
    if left and outage.away_ms is None:
        copies, them = agreed(len(left), "still copies", "still copy"), agreed(len(left), "it", "them")
        said.append(f"{_named(left)} {copies} what the others keep for {them}.")
    if left:
        said.append(_of_time_left(left, shell, is_away=outage.away_ms is not None))
    return " ".join(said) or f"{counted(len(mine), 'replica')} of it {agreed(len(mine), 'lacks', 'lack')} something."


_COPY_AGAIN = "have it copy those partitions again before it leads, or have them audited once it is back"
"""What helps once the time is over. A message that was sent before says it too: none may follow when time is over."""


def _of_time_left(left: Collection[Absence], shell: Shell, *, is_away: bool) -> str:
    """Until when what is due first is kept, until when the rest is, and the command that helps."""
    bounds = {one.place: one.bound_ms or 0 for one in left}
    first = min(bounds.values())
    soon = [one for one in left if bounds[one.place] - first <= _TOGETHER_MS]
    rest = [one for one in left if one not in soon]
    kept = f"What it lacks of {_partitions(soon)} is kept until {time_text(first)} at least"
    if rest:
        until = time_text(min(bounds[one.place] for one in rest))
        kept += f", and what {counted(len(rest), 'other replica')} {agreed(len(rest), 'lacks', 'lack')} until {until}"
    topics = sorted({one.place.topic for one in soon})
    command = shell.parallax("guard", "hold", topics[0] if len(topics) == 1 else "TOPIC")
    return (
        f"{kept} (delete.retention.ms, less guard.clock_skew_ms). After that, tombstones and end markers may be gone "
        f"from the others, and to bring it back is not enough any more: {_COPY_AGAIN}. Until then, "
        f"{'bring it back, or ' if is_away else 'where that takes longer, '}pause the cleaning of {named(topics)} "
        f"(where ALTER_CONFIGS is missing, parallax guard status then says what to run): {command}"
    )


def _partitions(replicas: Collection[Absence]) -> str:
    return named(one.place.name for one in replicas)


def _absent(outage: Outage, absent: Collection[Absence]) -> list[Absence]:
    return [one for one in absent if one.broker == outage.broker and one.place in outage.absent]


def _late(outage: Outage, late: Collection[Late]) -> list[Late]:
    return [one for one in late if one.broker == outage.broker and one.is_of_an_outage]


def _has_passed(one: Absence, now: float) -> bool:
    return one.unclear is None and not one.is_held and one.bound_ms is not None and one.bound_ms <= now * 1000


def _named(replicas: Collection[Absence] | Collection[Late]) -> str:
    """How many replicas, and of which topics."""
    return of_it([one.place for one in replicas])


__all__ = [
    "SHORT_MS",
    "TOLD_MS",
    "Change",
    "Outages",
    "Step",
    "headline",
    "outage_in_words",
]
