"""The steps of the job's start, and how far each is. Pure.

It also defines what has to be remembered from earlier looks at the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from parallax.alerting.blind import is_read
from parallax.alerting.snapshot import Snapshot
from parallax.counts import agreed, counted
from parallax.moments import roughly


class Stage(StrEnum):
    """How far a step of the start is: done, under way, or still to come."""

    DONE = "done"
    UNDER_WAY = "under way"
    TO_COME = "to come"


@dataclass(frozen=True, slots=True)
class Step:
    """One of the things that the job does when it starts, e.g. "Load the findings", and how far that is.

    Attributes:
        name: what the job does, in words.
        is_done: whether it is done.
        has_begun: whether some of it is done. Steps for which this cannot be seen are False until they are done.
        detail: how far it is, as text; empty if there is nothing to say.
    """

    name: str
    is_done: bool
    has_begun: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """What `parallax.alerting.status.Watch` remembers from the snapshots that it has seen before.

    Times are in seconds since 1970 UTC.

    Attributes:
        has_started: whether the start has been over once; nothing later counts as a start.
        since: since when every look has shown the same condition; None before the first look.
        agreed_at: when all replicas came to agree, if nothing since has spoken against it: what was only on its way
            meanwhile, or was being checked, did not. None if they are not known to agree.
        first_left: when it was first known how many offsets the initial reading has to read, and how many these were.
        got_on_at: when the start last made progress; None if it has not yet.
        reasons: by name of a reason why the status is unknown, since when it has applied at every look.
    """

    has_started: bool = False
    since: float | None = None
    agreed_at: float | None = None
    first_left: tuple[float, int] | None = None
    got_on_at: float | None = None
    reasons: Mapping[str, float] = field(default_factory=dict)


def steps_of(snapshot: Snapshot, past: Past | None = None) -> tuple[Step, ...]:
    """The steps of the job's start, in the order in which they usually end.

    Args:
        snapshot: the present snapshot.
        past: what earlier looks have shown, for an estimate of the time that is left; None for no estimate.
    """
    queries, initial = snapshot.queries, snapshot.initially_read
    left = left_to_read(snapshot)
    read = sum(initial.values())
    compared = sum(place in snapshot.coverage for place in initial)
    of_all = f" of {counted(len(initial), 'partition')}"
    return (
        Step("Load the findings", snapshot.findings_loaded),
        Step("Start Spark and the queries", bool(queries) and all(query.up for query in queries.values())),
        Step(
            "Ask the brokers what they hold",
            is_asked(snapshot),
            bool(initial),
            f"nothing yet of {counted(len(snapshot.expected), 'partition')} known before" if snapshot.expected else "",
        ),
        Step(
            "Read what the logs held at the start",
            bool(initial) and not left,
            bool(initial),
            f"{read:,}{of_all}{_remaining(left, past, snapshot.taken_at)}" if initial else "",
        ),
        Step(
            "Compare it",
            bool(initial) and compared == len(initial) and snapshot.heartbeat is not None,
            compared > 0,
            f"{compared:,}{of_all} begun" if initial else "",
        ),
    )


def is_asked(snapshot: Snapshot) -> bool:
    """Whether the brokers have said which partitions the job follows.

    False at first, and while no broker has reported anything of a partition that the job read before it was stopped.
    True also if they have said that there is nothing to follow.
    """
    return snapshot.nothing_since is not None or (bool(snapshot.initially_read) and not snapshot.expected)


def left_to_read(snapshot: Snapshot) -> int:
    """How many offsets of the initial reading are still to be read.

    The initial reading is of what was in the logs at the job's start. Replicas that cannot be read do not count.
    """
    return sum(n for replica, n in snapshot.initially_left.items() if is_read(snapshot, replica))


def _remaining(left: int, past: Past | None, now: float) -> str:
    """How long the initial reading goes on, by its pace so far; nothing if that cannot be said yet."""
    if not left or past is None or past.first_left is None:
        return ""
    at, first = past.first_left
    what = f"{counted(left, 'offset')} {agreed(left, 'is', 'are')} left"
    if first <= left or now - at < 10:
        return f"; {what}"
    return f"; {what}, which takes about {roughly(left * (now - at) / (first - left))}"


__all__ = ["Past", "Stage", "Step", "is_asked", "left_to_read", "steps_of"]
