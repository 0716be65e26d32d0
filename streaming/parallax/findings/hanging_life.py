"""Decides when a transaction that is reported as hanging is over, and what each observation changes in the report.

It is over only in three cases: a replica has shown a last stable offset beyond it, its topic or partition is gone, or
the leader holds another transaction open in its place. Otherwise it stays reported as it was last seen. All functions
are pure: they use no clock and ask no broker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from parallax.findings.hanging import Open, Prospect, Standing, described, held_back, how_to_end
from parallax.moments import time_text
from parallax.runbook import HANGING, RUNBOOK, section
from parallax.shell import Shell

UNSEEN_S = 900.0
"""After so many seconds in which no replica showed it open, a transaction may be over. An idle replica reports at least
every five minutes.
"""


@dataclass(frozen=True, slots=True)
class Hanging:
    """One report: a transaction that hangs, or is open for too long.

    Attributes:
        one: the transaction, as the leader lists it.
        at: the partition's last stable offset, which the transaction keeps from moving.
        why: why it is reported, as a clause.
        hangs: whether no coordinator will end it. If False, a coordinator may still end it, but it is open for too
            long.
        stands_since: since when Parallax has seen that the last stable offset does not move, seconds since 1970 UTC.
        started: when it began according to its coordinator, seconds since 1970 UTC; None where no coordinator says.
        seen_at: when a replica last showed that the transaction is open, seconds since 1970 UTC.
        topic_id: the topic's id; empty where it is not known.
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
        """Since when the transaction is known to be open, seconds since 1970 UTC.

        It is the start that the coordinator gives, or the time when Parallax first saw the last stable offset stand
        still, whichever is earlier. Timestamps of producers do not count.
        """
        return self.stands_since if self.started is None else min(self.started, self.stands_since)

    @property
    def standing_in_words(self) -> str:
        """Which of the two it is, as the verb of a headline about it."""
        return "hangs: no coordinator will end it" if self.hangs else "is open for longer than its broker allows"

    @property
    def last_seen(self) -> float:
        """When a replica last showed that the transaction is open, seconds since 1970 UTC.

        It is the later of ``seen_at`` and ``stands_since``.
        """
        return max(self.seen_at, self.stands_since)

    def is_unseen(self, now: float) -> bool:
        """Whether no replica has shown the transaction as open for longer than `UNSEEN_S`, so that it may be over.

        Args:
            now: seconds since 1970 UTC.
        """
        return now - self.last_seen > UNSEEN_S


@dataclass(frozen=True, slots=True)
class StableSeen:
    """An observation for `after`: the partition's last stable offset, as replicas report it.

    Attributes:
        stable: the highest last stable offset that replicas report.
        log_start: the log start of the replica that reports it.
        is_held: whether that last stable offset lies below the high watermark.
        at: when it was reported, seconds since 1970 UTC.
    """

    stable: int
    log_start: int
    is_held: bool
    at: float


@dataclass(frozen=True, slots=True)
class OpenSeen:
    """An observation for `after`: the leader holds a transaction open, and coordinators answered about it.

    Attributes:
        one: the transaction, which keeps the leader's last stable offset from moving.
        verdict: whether it will end, from the coordinators' answers.
    """

    one: Open
    verdict: Prospect


@dataclass(frozen=True, slots=True)
class Gone:
    """An observation for `after`: the transaction's topic or partition is gone.

    Attributes:
        how: how it went, as a clause, e.g. "its topic was deleted".
    """

    how: str


@dataclass(frozen=True, slots=True)
class Over:
    """A result of `after`: the reported transaction is over, so that the report ends.

    Attributes:
        why: the reason, as a clause.
    """

    why: str


Event = StableSeen | OpenSeen | Gone
PASSED = Over("its end has come: a replica shows what lies beyond it, and consumers in read_committed go on")
REPLACED = Over("its leader holds another transaction open in its place")


def after(hanging: Hanging, event: Event) -> Hanging | Over:
    """Return a reported transaction after an observation: changed, as it was, or over.

    It is over once a replica shows a last stable offset beyond it. A last stable offset at the log start does not
    count: retention or DeleteRecords has moved it, and has ended no transaction.

    Args:
        hanging: the report before the observation.
        event: the observation.

    Returns:
        The report after the observation, or `Over` with the reason why it ends.
    """
    match event:
        case Gone(how):
            return Over(how)
        case OpenSeen(one, verdict):
            if one.identity != hanging.one.identity:
                return REPLACED
            if verdict.standing in (Standing.HANGS, Standing.GOES_ON):
                started = hanging.started if verdict.started is None else verdict.started
                hangs = verdict.standing is Standing.HANGS
                return replace(hanging, why=verdict.why, hangs=hangs, started=started)
            return hanging
        case StableSeen(stable, log_start, is_held, at):
            if stable > max(hanging.at, log_start):
                return PASSED
            if not is_held or stable < hanging.at:
                return hanging
            return replace(hanging, at=stable, seen_at=max(hanging.seen_at, at))


def headline(hanging: Hanging) -> str:
    """Return the report's title: that the transaction hangs, or that it is open for too long."""
    return "a transaction hangs" if hanging.hangs else "a transaction is open for longer than its timeout may be"


def words(hanging: Hanging, shell: Shell, runbook: str = RUNBOOK) -> str:
    """Return the report's text: which transaction it is, since when, what consumers see, and what to do.

    Args:
        hanging: the transaction.
        shell: how commands name the cluster and the job.
        runbook: address or path of the runbook.
    """
    one = hanging.one
    said = f"{described(one)}: {hanging.why}. {_since(hanging)} {held_back(one)}"
    if hanging.hangs:
        return f"{said} {how_to_end(one, shell)}"
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
    "OpenSeen",
    "Over",
    "StableSeen",
    "after",
    "headline",
    "words",
]
