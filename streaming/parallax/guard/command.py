"""What ``parallax guard`` does: shows what is held, holds and lets go; without a running job it does so itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from parallax.config import Settings
from parallax.guard.holds import Event, EventKind, Hold, Phase, Record, commands
from parallax.guard.run import ROUND_S, GuardRounds
from parallax.guard.table import GuardTable
from parallax.replica.client import ReplicaClient

PATIENCE_S = 60.0


class GuardCommandError(Exception):
    """What was asked for cannot be done; one line that says what to do."""


def read_record(storage: str) -> tuple[Record, list[Event]]:
    """What is on record.

    Raises:
        GuardTableError: there is no such table, or it cannot be read.
    """
    events = GuardTable(storage, create=False).news()
    record = Record()
    record.take_in(events)
    return record, events


def document(hold: Hold) -> dict[str, Any]:
    """A hold, for programs."""
    return {
        "topic": hold.topic,
        "phase": str(hold.phase),
        "level": hold.level,
        "since": _time(hold.began_ms),
        "absent": [{"partition": one.partition, "broker": one.broker} for one in sorted(hold.absent)],
        "settings": [
            {"name": change.name, "before": change.before, "held": change.ours, "left": change.name in hold.left}
            for change in hold.changes
        ],
        "undo": undo(hold),
    }


def in_words(hold: Hold) -> str:
    """A hold, for people; with what puts its settings back by hand."""
    what = "tombstones and end markers are kept for longer" if hold.level == 1 else "nothing is cleaned"
    absent = ", ".join(f"{hold.topic}-{one.partition} on broker {one.broker}" for one in sorted(hold.absent))
    lines = [f"{hold.topic}: {hold.phase} since {_time(hold.began_ms)}, {what}; for {absent or 'whoever asked'}"]
    lines += [
        f"  {change.name}: {'(default)' if change.before is None else change.before} -> {change.ours}"
        + (", changed by somebody else since: left alone" if change.name in hold.left else "")
        for change in hold.changes
    ]
    if undo(hold):
        lines += ["  by hand:", *(f"    {line}" for line in undo(hold).splitlines())]
    return "\n".join(lines)


def undo(hold: Hold) -> str:
    """What puts the settings of a hold back by hand."""
    return commands(hold.topic, {change.name: change.before for change in hold.own})


def ask(settings: Settings, topics: Collection[str], *, hold: bool, is_run_by_job: bool) -> list[Hold]:
    """Have topics held, or let go of.

    Args:
        settings: of the job.
        topics: their names.
        hold: else they are let go of.
        is_run_by_job: whether a job acts on this storage; else it is done here.

    Returns:
        The holds as they are then.

    Raises:
        GuardCommandError: it was not done in time, or may not be done.
        GuardTableError: the events cannot be read or written.
        ReplicaError: no broker answers.
    """
    act = settings.guard.model_copy(update={"mode": "act"})
    client = ReplicaClient(settings.kafka, timeout_ms=settings.read.request_timeout_ms)
    with closing(client), closing(GuardRounds(act, settings.storage.path, client, list, only=topics)) as rounds:
        kind = EventKind.ASKED_HOLD if hold else EventKind.ASKED_RELEASE
        for topic in sorted(topics):
            rounds.append(Event(kind, "", topic, "", time.time_ns() // 1_000_000, reason="a person"))
        _await(rounds, topics, hold=hold, acts=not is_run_by_job)
        holds = rounds.guard.record.holds
        return [holds[topic] for topic in sorted(topics) if topic in holds]


def _await(rounds: GuardRounds, topics: Collection[str], *, hold: bool, acts: bool) -> None:
    deadline = time.monotonic() + PATIENCE_S
    step: Callable[[], object] = rounds.round if acts else rounds.read
    while True:
        step()
        record = rounds.guard.record
        if hold and (refused := [e for t, e in record.refused.items() if t in topics]):
            raise GuardCommandError(f"guard hold {refused[0].topic}: {refused[0].reason}")
        wanted = Phase.HELD if hold else Phase.OVER
        left = [t for t in topics if not _is(record, t, wanted)]
        if not left:
            return
        if time.monotonic() > deadline:
            what = "held" if hold else "let go of"
            raise GuardCommandError(
                f"guard: {', '.join(sorted(left))} not {what} within {PATIENCE_S:.0f} s; it is on "
                "record, and goes on with the next start; `parallax guard status` shows how far"
            )
        time.sleep(ROUND_S / 2)


def _is(record: Record, topic: str, wanted: Phase) -> bool:
    known = record.holds.get(topic)
    if wanted is Phase.OVER:
        return known is None or not known.is_open
    return known is not None and known.phase is wanted and (known.level > 1)


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def open_holds(record: Record) -> Sequence[Hold]:
    """Those that stand, by topic."""
    return [hold for _, hold in sorted(record.holds.items()) if hold.is_open]


__all__ = ["GuardCommandError", "ask", "document", "in_words", "open_holds", "read_record", "undo"]
