"""What ``parallax repair`` does: makes a plan, runs it step by step, shows what is on record, goes on or gives up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from parallax.config import Settings
from parallax.counts import agreed
from parallax.errors import one_line, plain
from parallax.findings.finding import Finding, current
from parallax.findings.naming import named
from parallax.findings.table import read_events
from parallax.model import TopicPartition
from parallax.repair.decide import Asked, Put, Wait, Write, following, outdated
from parallax.repair.looking import Lookout
from parallax.repair.owner import in_words, is_at_work, myself
from parallax.repair.plan import FORMAT, Plan, make
from parallax.repair.record import Event, EventKind, Phase, Record, Repair
from parallax.repair.table import RepairTable, read_record
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError, Unreachable
from parallax.shell import Shell
from parallax.views.binding import settled
from parallax.views.event_log import WrittenMeanwhile
from parallax.views.hash_key import hash_key

_PLAN = TypeAdapter(Plan)
_ROUND_S = 0.2
"""Somebody waits for it."""
_SILENT_S = 60.0
"""A cluster that does not answer for so long while a repair is run is left as it is: the repair is on record."""
Say = Callable[[str], None]


class RepairCommandError(Exception):
    """What was asked for cannot be done; one line that says what to do."""


def place_of(storage: str, finding: str) -> TopicPartition:
    """The partition of a finding.

    Args:
        storage: ``storage.path``.
        finding: its id, or the beginning of it.

    Raises:
        FindingNotNamedError: there is none of that id, or there are several.
        FindingsTableError: there is no such table, or it cannot be read.
    """
    found: Finding = named(current(read_events(storage)), finding)
    return found.place


def plan(settings: Settings, place: TopicPartition, said: Mapping[int, str], say: Say) -> Plan:
    """Look at a partition, and make the plan of what stands there. Changes nothing.

    Args:
        settings: of the job.
        place: the partition.
        said: by start offset of a transaction, ``commit`` or ``abort`` where a person says how it ended.
        say: told how far a long reading is.

    Raises:
        ConfigError: the settings name another cluster than that of the storage, or several.
        ReplicaError: no broker answers, or there is no such partition.
        FindingsTableError: the findings cannot be read.
    """
    with _lookout(settings, place, say) as (lookout, _):
        return make(lookout.look(), said, Shell.of(settings.kafka))


def document(made: Plan) -> dict[str, Any]:
    """A plan, for programs, and for `read_plan`."""
    return asdict(made)


def read_plan(path: Path) -> Plan:
    """A plan that ``parallax repair plan`` has written.

    Raises:
        RepairCommandError: there is no such file, or it is no plan of this version.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RepairCommandError(f"repair run {path}: it cannot be read ({one_line(error)})") from error
    return _plan_of(text, f"repair run {path}")


def _plan_of(text: str, what: str) -> Plan:
    again = "make a plan by `parallax repair plan ... -o FILE`"
    try:
        made = _PLAN.validate_json(text)
    except ValidationError as error:
        raise RepairCommandError(
            f"{what}: this is no plan ({one_line(plain(error.errors()[0]['msg']))}); {again}"
        ) from error
    if made.format != FORMAT:
        raise RepairCommandError(f"{what}: this plan is of another version of Parallax; {again}")
    return made


def check_may_run(settings: Settings) -> None:
    """Refuse where the settings do not allow repairs.

    Raises:
        RepairCommandError: ``repair.mode`` is ``off``.
    """
    if settings.repair.mode == "off":
        raise RepairCommandError(
            "repair.mode: it is off, so nothing is changed on the cluster; set it to on to allow it"
        )


def run(settings: Settings, made: Plan, say: Say) -> Repair:
    """Run a plan, step by step, until every step is proven or something is not as planned.

    Args:
        settings: of the job; ``repair.mode`` has to be ``on``.
        made: the plan.
        say: told what happens.

    Returns:
        The repair as it is on record then.

    Raises:
        RepairCommandError: it may not run: by the settings, for want of steps, since another repair of the partition
            is open, or since the partition is not as it was planned.
        EventLogError: nothing can be put on record.
        ConfigError, ReplicaError, FindingsTableError: as of `plan`.
    """
    check_may_run(settings)
    if not made.steps:
        raise RepairCommandError("repair run: the plan has no steps; it says what is missing")
    table, record = RepairTable(settings.storage.path), Record()
    repair_id, owner = uuid4().hex, myself()
    begun = Event(EventKind.BEGUN, repair_id, *made.place, _now_ms(), owner, document=document(made))

    def is_free() -> None:
        if (other := record.open_in(made.place)) is not None:
            raise RepairCommandError(
                f"repair run: a repair of {made.place.name} is {other.phase} since it was begun by "
                f"{in_words(other.owner)}; see `parallax repair status`, and resume or undo that one"
            )

    with _lookout(settings, made.place, say) as (lookout, client):
        record.take_in(table.news())
        is_free()
        if why := outdated(made, lookout.look(_transactions(made))):
            raise RepairCommandError(f"repair run: the plan is out of date ({why}); plan again")
        _append(table, record, begun, is_free)
        return _Run(table, record, lookout, client, made, repair_id, owner, say).until_it_ends()


def resume(settings: Settings, wanted: str, say: Say) -> Repair:
    """Go on with a repair that has stopped, or whose process is gone; arguments, results and errors as of `run`.

    Args:
        settings: of the job.
        wanted: the id of the repair, or the beginning of it.
        say: told what happens.
    """
    check_may_run(settings)
    table, record, known = _known(settings, wanted, "resume")
    made, owner = _plan_of(json.dumps(known.plan), f"repair resume {wanted}"), myself()
    again = Event(EventKind.RESUMED, known.repair_id, *known.place, _now_ms(), owner, reason=f"by {in_words(owner)}")
    with _lookout(settings, made.place, say) as (lookout, client):
        _append(table, record, again, lambda: _check_idle(record.repairs[known.repair_id], "resume"))
        return _Run(table, record, lookout, client, made, known.repair_id, owner, say).until_it_ends()


def undo(settings: Settings, wanted: str) -> Repair:
    """Give a repair up: it changes nothing any more. What it wrote stays, for an end marker cannot be taken back.

    Raises:
        RepairCommandError: there is no such repair, it is over, or its process is at work.
        EventLogError: that cannot be put on record.
    """
    table, record, known = _known(settings, wanted, "undo")
    done = sorted(known.intended)
    stays = "nothing was changed"
    if done:
        steps = f"{agreed(len(done), 'step', 'steps')} {', '.join(map(str, done))}"
        stays = f"nothing is put back: the end markers of {steps}, where they were written, stay in the log"
    closed = Event(EventKind.CLOSED, known.repair_id, *known.place, _now_ms(), myself(), reason=stays)
    _append(table, record, closed, lambda: _check_idle(record.repairs[known.repair_id], "undo"))
    return record.repairs[known.repair_id]


def _known(settings: Settings, wanted: str, command: str) -> tuple[RepairTable, Record, Repair]:
    table = RepairTable(settings.storage.path, create=False) if RepairTable.is_there(settings.storage.path) else None
    record = Record()
    if table is not None:
        record.take_in(table.news())
    found = [one for one in record.repairs.values() if one.repair_id.startswith(wanted.strip().lower() or "-")]
    if table is None or len(found) != 1:
        problem = "names several repairs" if found else "is the id of no repair"
        raise RepairCommandError(f"repair {command}: {wanted!r} {problem}; `parallax repair status` lists them")
    _check_idle(found[0], command)
    return table, record, found[0]


def _check_idle(known: Repair, command: str) -> None:
    if not known.is_open:
        raise RepairCommandError(f"repair {command}: this repair is {known.phase}; nothing of it is left to do")
    if known.phase is Phase.RUNNING and is_at_work(known.owner, known.at_ms, _now_ms()):
        raise RepairCommandError(
            f"repair {command}: {in_words(known.owner)} is at work on it; wait until that process has ended"
        )


def _append(table: RepairTable, record: Record, event: Event, check: Callable[[], None]) -> None:
    """Put an event on record, if a check still passes with all that others have put there."""
    while True:
        record.take_in(table.news())
        check()
        try:
            record.take_in([table.append(event)])
        except WrittenMeanwhile:
            continue
        return


@contextmanager
def _lookout(settings: Settings, place: TopicPartition, say: Say) -> Iterator[tuple[Lookout, ReplicaClient]]:
    settings = settled(settings)
    hasher = ContentHasher(bytes.fromhex(hash_key(settings.storage.path, settings.read)))
    timeout_ms = settings.findings.probe_timeout_ms
    with closing(ReplicaClient(settings.kafka, timeout_ms=timeout_ms)) as client:
        yield Lookout(client, settings.storage.path, place, hasher, settings.findings, say), client


class _Run:
    """Runs one repair: looks, decides, puts on record, and does."""

    def __init__(
        self,
        table: RepairTable,
        record: Record,
        lookout: Lookout,
        client: ReplicaClient,
        made: Plan,
        repair_id: str,
        owner: str,
        say: Say,
    ) -> None:
        self._table = table
        self._record = record
        self._lookout = lookout
        self._client = client
        self._plan = made
        self._repair_id = repair_id
        self._owner = owner
        self._say = say
        self._asked: Asked | None = None
        self._waits_for = ""

    @property
    def _repair(self) -> Repair:
        return self._record.repairs[self._repair_id]

    def until_it_ends(self) -> Repair:
        """Take one action after the other."""
        answered = time.monotonic()
        while True:
            self._take_news()
            try:
                since = min((how["below"] for how in self._repair.intended.values()), default=None)
                look = self._lookout.look(_transactions(self._plan), since)
                answered = time.monotonic()
            except ReplicaError as error:
                if time.monotonic() - answered > _SILENT_S:
                    raise
                self._wait(one_line(error))
                continue
            action = following(self._repair, self._plan, look, self._owner, self._asked)
            match action:
                case None:
                    return self._repair
                case Put(event=event):
                    self._put(event)
                case Wait(why=why):
                    self._wait(why)
                case Write():
                    self._write(action)

    def _take_news(self) -> None:
        self._record.take_in(self._table.news())
        if self._repair.owner != self._owner:
            raise RepairCommandError(
                f"repair: {in_words(self._repair.owner)} has taken this repair over; this one ends"
            )

    def _put(self, event: Event) -> None:
        try:
            self._record.take_in([self._table.append(event)])
        except WrittenMeanwhile:
            return  # read and decided again
        self._waits_for = ""
        self._say(said(event, self._plan))

    def _wait(self, why: str) -> None:
        if why != self._waits_for:
            self._say(f"waiting: {why}")
        self._waits_for = why
        time.sleep(_ROUND_S)

    def _write(self, action: Write) -> None:
        self._asked = Asked(action.step, _now_ms())
        try:
            self._client.write_end_marker(action.leader, action.marker)
        except ReplicaError as error:
            if not isinstance(error, Unreachable):
                self._asked = Asked(action.step, _now_ms(), one_line(error.problem))
            else:
                self._say(f"whether the marker was written is not known ({one_line(error)}); it is looked for")
        else:
            repair = self._repair
            self._put(Event(EventKind.ANSWERED, repair.repair_id, *repair.place, _now_ms(), self._owner, action.step))


def _transactions(made: Plan) -> Collection[tuple[int, int]]:
    return [(step.producer_id, step.start_offset) for step in made.steps]


def said(event: Event, made: Plan) -> str:
    """An event, for people."""
    title = next((step.title for step in made.steps if step.number == event.step), "")
    match event.kind:
        case EventKind.KEPT:
            return "What every replica shows of it now is on record."
        case EventKind.INTENDED:
            return f"Step {event.step}: {title}"
        case EventKind.ANSWERED:
            return f"Step {event.step}: the leader has written it."
        case EventKind.PROVEN:
            return f"Step {event.step}: done, and every replica shows it ({event.reason})."
        case EventKind.STOPPED:
            where = f" at step {event.step}" if event.step else ""
            return f"Stopped{where}: {event.reason}."
        case _:
            return f"{str(event.kind).capitalize()}: {event.reason}." if event.reason else str(event.kind).capitalize()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


__all__ = [
    "RepairCommandError",
    "check_may_run",
    "document",
    "place_of",
    "plan",
    "read_plan",
    "read_record",
    "resume",
    "run",
    "said",
    "undo",
]
