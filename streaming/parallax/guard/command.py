"""What ``parallax guard`` does: it shows holds, holds topics, and ends holds.

A *hold* is the guard's change of a topic's settings while a replica is away. If a running job acts, it makes the
change; otherwise the command does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from typing import Any

from parallax.config import Settings
from parallax.errors import one_line
from parallax.guard.holds import BROKERS, Event, EventKind, Hold, Phase, Record, commands, open_holds
from parallax.guard.run import ROUND_S, GuardRounds
from parallax.guard.table import GuardTable
from parallax.moments import now_ms, time_text
from parallax.replica.client import ReplicaClient, TopicMetadata
from parallax.replica.errors import ReplicaError, UnknownTopic
from parallax.shell import Shell
from parallax.views.binding import settled

_POLICY = "cleanup.policy"
_ROUND_S = 0.1
"""Somebody waits for it."""
PATIENCE_S = 90.0
"""How many seconds `ask` waits. Only after a minute is it known that a topic is gone (`parallax.guard.looking`)."""


class GuardCommandError(Exception):
    """``parallax guard`` cannot do what was asked; the text is one line that says what to do."""


def read_record(storage: str) -> tuple[Record, list[Event]]:
    """Return, as a tuple, the state of all recorded holds and all events of ``guard_events``, the oldest first.

    Args:
        storage: ``storage.path``.

    Raises:
        EventLogError: there is no such table, or it cannot be read.
    """
    events = GuardTable(storage, create=False).news()
    record = Record()
    record.take_in(events)
    return record, events


def document(hold: Hold, kafka: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a hold as a JSON-able document, with the commands that end it by hand.

    Args:
        hold: the hold.
        kafka: the options for Kafka in the settings, from which the commands name the brokers. With None the commands
            have a placeholder for the brokers.
    """
    return {
        "topic": hold.topic,
        "phase": str(hold.phase),
        "level": hold.level,
        "since": time_text(hold.began_ms),
        "absent": [{"partition": one.partition, "broker": one.broker} for one in sorted(hold.absent)],
        "settings": [
            {"name": change.name, "before": change.before, "held": change.ours, "left": change.name in hold.left}
            for change in hold.changes
        ],
        "undo": addressed(undo(hold), kafka) if hold.is_open else "",
    }


def in_words(hold: Hold, kafka: Mapping[str, str] | None = None) -> str:
    """Return a hold in words for people.

    If settings have to be put back, the commands to do it by hand follow.

    Args:
        hold: the hold.
        kafka: the options for Kafka in the settings, from which the commands name the brokers; None: a placeholder.
    """
    if not hold.is_open:
        return _over_in_words(hold)
    what = "tombstones and end markers are kept for longer" if hold.level == 1 else "nothing is cleaned"
    absent = ", ".join(f"{hold.topic}-{one.partition} on broker {one.broker}" for one in sorted(hold.absent))
    lines = [f"{hold.topic}: {hold.phase} since {time_text(hold.began_ms)}, {what}; for {absent or 'whoever asked'}"]
    lines += [
        f"  {change.name}: {'(default)' if change.before is None else change.before} -> {change.ours}"
        + (", changed by somebody else since: left alone" if change.name in hold.left else "")
        for change in hold.changes
    ]
    if undo(hold):
        lines += ["  by hand:", *(f"    {line}" for line in addressed(undo(hold), kafka).splitlines())]
    return "\n".join(lines)


def _over_in_words(hold: Hold) -> str:
    theirs = ", ".join(
        f"{change.name}={'(default)' if change.before is None else change.before}"
        for change in hold.changes
        if change.name in hold.left
    )
    put = "the settings are as they were"
    if theirs:
        put = f"somebody else has set {theirs}, which is left alone; all else is as it was"
    return f"{hold.topic}: released at {time_text(hold.at_ms)}; {put}"


def refused_in_words(event: Event, kafka: Mapping[str, str] | None = None) -> str:
    """Return why the guard does not hold a topic, or what it would do if it were allowed to act.

    The commands to do it by hand follow on lines of their own.

    Args:
        event: the event of the guard that says so.
        kafka: the options for Kafka in the settings, from which the commands name the brokers; None: a placeholder.
    """
    first, *more = event.reason.splitlines() or [""]
    if event.kind is EventKind.ADVISED:
        first, more = "guard.mode is advise; by hand:", [first, *more]
    return addressed(
        "\n".join(
            [f"{event.topic}: {event.kind} at {time_text(event.at_ms)}: {first}", *(f"    {line}" for line in more)]
        ),
        kafka,
    )


def addressed(text: str, kafka: Mapping[str, str] | None) -> str:
    """Return a text of commands with the brokers of the job's settings in place of the placeholder (`BROKERS`).

    If the brokers need a login, the commands also name a file of client properties.

    Args:
        text: the commands.
        kafka: the options for Kafka in the settings. None or empty: the text stays as it is.
    """
    return text.replace(BROKERS, Shell.of(kafka).brokers()) if kafka else text


def undo(hold: Hold) -> str:
    """Return the commands that put back the settings of a held topic."""
    return commands(hold.topic, {change.name: change.before for change in hold.own})


def ask(settings: Settings, topics: Collection[str], *, hold: bool, is_run_by_job: bool) -> list[Hold]:
    """Ask the guard to hold topics, or to end their holds, and wait until that is done.

    Args:
        settings: the job's settings.
        topics: the names of the topics.
        hold: True to hold them, False to end their holds.
        is_run_by_job: whether a running job has this storage and acts; otherwise this process acts itself.

    Returns:
        The holds of these topics afterwards.

    Raises:
        GuardCommandError: it was not done within 90 seconds, or may not be done; a topic does not exist or is not held.
        EventLogError: the events cannot be read or written.
        ConfigError: the settings name another cluster than that of the storage, or several.
        ReplicaError: no broker answers, or none of the storage's cluster.
    """
    settings = settled(settings)
    act = settings.guard.model_copy(update={"mode": "act"})
    with closing(ReplicaClient(settings.kafka, timeout_ms=settings.read.request_timeout_ms)) as client:
        found = client.metadata(sorted(topics))  # nothing is put on record while no broker answers
        if hold:
            _check_topics(found, client.topic_configs(sorted(topics), [_POLICY]), topics)
        with closing(GuardRounds(act, settings.storage.path, client, list, only=topics)) as rounds:
            return _ask(rounds, topics, hold=hold, is_run_by_job=is_run_by_job)


def _check_topics(
    found: Mapping[str, TopicMetadata], given: Mapping[str, Mapping[str, str] | ReplicaError], topics: Collection[str]
) -> None:
    """Nothing is put on record of what the cluster does not show, or of what is never compacted."""
    for topic in sorted(topics):
        error = found[topic].error if topic in found else UnknownTopic("no such topic; check its name")
        if error is not None:
            raise GuardCommandError(f"guard hold {topic}: {one_line(error.problem)}")
        shown = given.get(topic)
        policy = shown.get(_POLICY, "") if isinstance(shown, dict) else "compact"  # the guard says what is not shown
        if "compact" not in policy:
            raise GuardCommandError(f"guard hold {topic}: {_POLICY} is {policy}: nothing of it is compacted")


def _ask(rounds: GuardRounds, topics: Collection[str], *, hold: bool, is_run_by_job: bool) -> list[Hold]:
    if not hold:
        _check_held(rounds, topics)
    kind = EventKind.ASKED_HOLD if hold else EventKind.ASKED_RELEASE
    for topic in sorted(topics):
        rounds.append(Event(kind, "", topic, "", now_ms(), reason="a person"))
    _await(rounds, topics, hold=hold, acts=not is_run_by_job)
    holds = rounds.guard.record.holds
    return [holds[topic] for topic in sorted(topics) if topic in holds]


def _check_held(rounds: GuardRounds, topics: Collection[str]) -> None:
    record = rounds.guard.record
    held = {hold.topic for hold in open_holds(record)} | record.asked.keys()
    for topic in sorted(set(topics) - held):
        known = f"held are {', '.join(sorted(held))}" if held else "nothing is"
        raise GuardCommandError(f"guard release {topic}: it is not held; {known}")


def _await(rounds: GuardRounds, topics: Collection[str], *, hold: bool, acts: bool) -> None:
    deadline, began_ms = time.monotonic() + PATIENCE_S, now_ms()
    step: Callable[[], object] = rounds.round if acts else rounds.read
    command = "hold" if hold else "release"
    problem = ""
    while True:
        try:
            step()
        except ReplicaError as error:
            problem = f" ({one_line(error)})"
        record = rounds.guard.record
        for event in (event for topic, event in record.refused.items() if topic in topics):
            known = record.holds.get(event.topic)
            is_done = not hold or known is None or known.phase in (Phase.OVER, Phase.HELD)
            if event.kind is EventKind.REFUSED and is_done:  # nothing of it is left half-set
                raise GuardCommandError(f"guard {command} {event.topic}: {event.reason.splitlines()[0]}")
        wanted = Phase.HELD if hold else Phase.OVER
        left = [t for t in topics if not _is(record, t, wanted)]
        if not left:
            return
        over = [t for t in left if hold and (h := record.holds.get(t)) and not h.is_open and h.began_ms >= began_ms]
        if over:
            raise GuardCommandError(
                f"guard hold {', '.join(over)}: somebody else has changed its settings meanwhile, and nothing is held; "
                "look for a tool that sets them, and ask again"
            )
        if time.monotonic() > deadline:
            what = "held" if hold else "released"
            raise GuardCommandError(
                f"guard: {', '.join(sorted(left))} not {what} within {PATIENCE_S:.0f} s{problem}; it is "
                "on record, and goes on with the next start of a job with guard.mode: act; `parallax guard status` "
                "shows how far"
            )
        time.sleep(_ROUND_S if acts else ROUND_S / 2)


def _is(record: Record, topic: str, wanted: Phase) -> bool:
    known = record.holds.get(topic)
    if wanted is Phase.OVER:
        return known is None or not known.is_open
    return known is not None and known.phase is wanted and (known.level > 1)


__all__ = [
    "GuardCommandError",
    "addressed",
    "ask",
    "document",
    "in_words",
    "read_record",
    "refused_in_words",
    "undo",
]
