"""A transaction that is reported as hanging, and how it changes with each observation. Pure: no clock, no broker.

It is over only in three cases: a replica has shown a last stable offset beyond it, its topic is gone, or the leader
holds another transaction open in its place. Otherwise it stays reported as it was last seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from parallax.findings.hanging import Open, Standing, Verdict, described, held_back, how_to_end
from parallax.moments import time_text
from parallax.runbook import HANGING, RUNBOOK, section

UNSEEN_S = 900.0
"""A transaction that was last seen so long ago is reported so: an idle replica reports at least every five minutes."""


@dataclass(frozen=True, slots=True)
class Hanging:
    """A transaction that is reported as hanging, or as open for too long.

    Attributes:
        one: the transaction, as the leader holds it.
        at: the last stable offset that it holds back.
        why: one phrase.
        hangs: whether no coordinator will end it; else one lists it.
        stands_since: since when that offset has been seen not to move, seconds since 1970 UTC, by our clock.
        started: when it began by its coordinator's clock, seconds since 1970 UTC; None where no coordinator says.
        seen_at: when a replica last showed that it is open, seconds since 1970 UTC.
        topic_id: of the topic; empty where it is not known.
    """

    one: Open
    at: int
    why: str
    hangs: bool
    stands_since: float
    started: float | None = None
    seen_at: float = 0.0
    topic_id: str = ""

    @property
    def since(self) -> float:
        """Since when the transaction is known to be open, seconds since 1970 UTC. A producer's clock never counts."""
        return self.stands_since if self.started is None else min(self.started, self.stands_since)

    @property
    def last_seen(self) -> float:
        """When the transaction was last known to be open, seconds since 1970 UTC."""
        return max(self.seen_at, self.stands_since)

    def is_unseen(self, now: float) -> bool:
        """Whether nobody has seen the transaction open for so long that it may be over."""
        return now - self.last_seen > UNSEEN_S


@dataclass(frozen=True, slots=True)
class Shown:
    """An observation: how far the replica is that has come furthest of those that answer.

    Attributes:
        stable: its last stable offset.
        log_start: where its log begins.
        is_held: whether that last stable offset lies below the high watermark.
        at: when, seconds since 1970 UTC.
    """

    stable: int
    log_start: int
    is_held: bool
    at: float


@dataclass(frozen=True, slots=True)
class Told:
    """An observation: the leader holds a transaction open at its last stable offset.

    With what the coordinators say of that transaction.
    """

    one: Open
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Gone:
    """An observation: the topic is gone; ``how`` says in a phrase how that is known."""

    how: str


@dataclass(frozen=True, slots=True)
class Over:
    """An observation's result: the hanging transaction is over; ``why`` says it in a phrase."""

    why: str


Event = Shown | Told | Gone
PASSED = Over("its end has come: a replica shows what lies beyond it, and consumers in read_committed go on")
REPLACED = Over("its leader holds another transaction open in its place")


def after(hanging: Hanging, event: Event) -> Hanging | Over:
    """Return a hanging transaction as it is after an observation of it.

    A log that begins beyond it (retention, DeleteRecords) moves the last stable offset, but ends no transaction, even
    if it holds nothing of it.
    """
    match event:
        case Gone(how):
            return Over(how)
        case Told(one, verdict):
            if one.identity != hanging.one.identity:
                return REPLACED
            if verdict.standing in (Standing.HANGS, Standing.GOES_ON):
                started = hanging.started if verdict.started is None else verdict.started
                hangs = verdict.standing is Standing.HANGS
                return replace(hanging, why=verdict.why, hangs=hangs, started=started)
            return hanging
        case Shown(stable, log_start, is_held, at):
            if stable > max(hanging.at, log_start):
                return PASSED
            if not is_held or stable < hanging.at:
                return hanging
            return replace(hanging, at=stable, seen_at=max(hanging.seen_at, at))


def headline(hanging: Hanging) -> str:
    """Say in a few words whether the transaction hangs, or is only open for too long."""
    return "a transaction hangs" if hanging.hangs else "a transaction is open for longer than its timeout may be"


def words(hanging: Hanging, kafka: Mapping[str, str], runbook: str = RUNBOOK) -> str:
    """Say of a hanging transaction what it is, since when, what consumers see, and what to do.

    Args:
        hanging: what is reported.
        kafka: the settings' section of that name.
        runbook: where the runbook is.
    """
    one = hanging.one
    said = f"{described(one)}: {hanging.why}. {_since(hanging)} {held_back(one)}"
    if hanging.hangs:
        return f"{said} {how_to_end(one, kafka)}"
    return f"{said} See {section(runbook, HANGING)}."


def _since(hanging: Hanging) -> str:
    at = time_text(hanging.since * 1000)
    if hanging.started is None or hanging.started > hanging.stands_since:
        return f"Parallax first saw it open at {at}."
    return f"It began at {at}, by its coordinator."


__all__ = [
    "PASSED",
    "REPLACED",
    "UNSEEN_S",
    "Event",
    "Gone",
    "Hanging",
    "Over",
    "Shown",
    "Told",
    "after",
    "headline",
    "words",
]
