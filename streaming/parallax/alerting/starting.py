"""How far the job has started: the steps of its start, and what was seen of each at earlier times. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from parallax.alerting.blind import is_read
from parallax.alerting.snapshot import Snapshot
from parallax.counts import agreed, counted
from parallax.moments import roughly


class Stage(StrEnum):
    """How far a step of the start is.

    Each is shown by a word and a sign, not by colour alone.
    """

    DONE = "done"
    UNDER_WAY = "under way"
    TO_COME = "to come"


@dataclass(frozen=True, slots=True)
class Step:
    """One of the things that the job does when it starts, and how far that is.

    Attributes:
        has_begun: whether some of it has been done. If that cannot be seen, the step counts as begun when the steps
            before it have ended.
        detail: how far it is, as text; empty if there is nothing to say.
    """

    name: str
    is_done: bool
    has_begun: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """What was seen of the job's start at earlier times.

    Attributes:
        has_started: whether the start has been over once; nothing later counts as a start.
        since: since when every look has shown the same condition, seconds since 1970 UTC; None before the first look.
        first_left: when it was first known how many offsets the initial reading has to read, and how many these were.
        got_on_at: when the start last made progress.
        reasons: by name of a reason why the status is unknown, since when it has applied at every look.
    """

    has_started: bool = False
    since: float | None = None
    first_left: tuple[float, int] | None = None
    got_on_at: float | None = None
    reasons: Mapping[str, float] = field(default_factory=dict)


def steps_of(snapshot: Snapshot, past: Past | None = None) -> tuple[Step, ...]:
    """The parts of a start, in the order in which they usually end."""
    queries, initial = snapshot.queries, snapshot.initially_read
    left = left_to_read(snapshot)
    read = sum(initial.values())
    compared = sum(place in snapshot.coverage for place in initial)
    of_all = f" of {counted(len(initial), 'partition')}"
    return (
        Step("Load the findings", snapshot.findings_loaded),
        Step("Start Spark and the queries", bool(queries) and all(query.up for query in queries.values())),
        Step("Ask the brokers what they hold", bool(initial)),
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


def left_to_read(snapshot: Snapshot) -> int:
    """How many offsets of the initial reading are still to be read, of replicas that can be read."""
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


__all__ = ["Past", "Stage", "Step", "left_to_read", "steps_of"]
