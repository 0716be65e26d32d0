"""Runs one repair: looks at the partition, decides, records, and acts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from parallax.errors import one_line
from parallax.moments import now_ms
from parallax.repair.actions import Asked, Assign, Cancel, Change, Elect, Put, Wait, Write
from parallax.repair.decide import asks_tables, following
from parallax.repair.looking import Lookout, Wanted
from parallax.repair.owner import BEAT_S, in_words
from parallax.repair.plan import Plan
from parallax.repair.record import Event, EventKind, Record, Repair
from parallax.repair.steps import EndStep, MoveStep
from parallax.repair.table import RepairTable
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError, Unreachable
from parallax.views.event_log import EventLogError, WrittenMeanwhile

_ROUND_S = 0.2
"""How often the partition is looked at, seconds; a person waits for the result."""
_SILENT_S = 60.0
"""If the cluster does not answer for this long, a running repair stops where it is, on record."""
Say = Callable[[str], None]


class RepairCommandError(Exception):
    """A command of ``parallax repair`` cannot be carried out. The text is one line: why, and what to do."""


class Run:
    """Runs one repair: looks at the partition, decides on an action, and carries it out, until the repair ends.

    Args:
        table: the table ``repair_events``.
        record: the state of all repairs in that table.
        lookout: looks at the repair's partition.
        client: asks the cluster for changes.
        made: the repair's plan.
        repair_id: the id of the repair, whose first event is on record already.
        owner: this process, which owns the repair.
        say: called with a line about each thing that happens.
    """

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
        self._writing = threading.Lock()
        """Held while something is recorded: the beats of this process must not be first again and again."""
        self._asked: Asked | None = None
        self._waits_for = ""
        # The clock of the process before this one may have been ahead: then no wait would end.
        self._began_ms, self._began = max(now_ms(), self._repair.at_ms), time.monotonic()

    @property
    def _repair(self) -> Repair:
        return self._record.repairs[self._repair_id]

    def _now_ms(self) -> int:
        """The time of the repair, milliseconds since 1970 UTC; it never goes back behind what is on record."""
        return self._began_ms + int((time.monotonic() - self._began) * 1000)

    def until_it_ends(self) -> Repair:
        """Take one action after the other until the repair is over or stopped; returns its recorded state.

        Raises:
            RepairCommandError: the repair belongs to another process by now.
            ReplicaError: the cluster does not answer for a minute.
            EventLogError: nothing can be recorded.
            FindingsTableError: the findings cannot be read.
        """
        with beating(self._table.storage, self._repair_id, self._owner, self._writing):
            return self._go_on()

    def _go_on(self) -> Repair:
        answered = time.monotonic()
        while True:
            self._take_news()
            try:
                since = min((how["below"] for how in self._repair.intended.values() if "below" in how), default=None)
                doubts = asks_tables(self._repair, self._plan)
                at_ms = self._now_ms()
                look = replace(self._lookout.look(wanted(self._plan, since, doubts=doubts)), at_ms=at_ms)
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
                case Write() | Assign() | Cancel() | Elect():
                    self._do(action)

    def _take_news(self) -> None:
        self._record.take_in(self._table.news())
        if self._repair.owner != self._owner:
            raise RepairCommandError(
                f"repair: {in_words(self._repair.owner)} has taken this repair over; this one ends"
            )

    def _put(self, event: Event) -> None:
        decided_by = self._repair
        with self._writing:
            while True:
                try:
                    self._record.take_in([self._table.append(event)])
                    break
                except WrittenMeanwhile:
                    self._take_news()
                    if replace(self._repair, sequence=decided_by.sequence) != decided_by:
                        return  # It is decided again. Beats and events of other repairs change nothing.
        self._waits_for = ""
        self._say(said(event, self._plan))

    def _wait(self, why: str) -> None:
        if why != self._waits_for:
            self._say(f"waiting: {why}")
        self._waits_for = why
        time.sleep(_ROUND_S)

    def _do(self, change: Change) -> None:
        self._take_news()  # The look may have taken longer than anybody waits for this process.
        self._asked = Asked(change, self._now_ms())
        try:
            self._ask(change)
        except ReplicaError as error:
            if not isinstance(error, Unreachable):
                self._asked = Asked(change, self._now_ms(), one_line(error.problem))
            else:
                self._say(f"whether {_NAMES[type(change)]} is not known ({one_line(error)}); it is looked for")
        else:
            if change.step and isinstance(change, Write | Assign):
                repair = self._repair
                answered = Event(
                    EventKind.ANSWERED, repair.repair_id, *repair.place, self._now_ms(), self._owner, change.step
                )
                self._put(answered)

    def _ask(self, change: Change) -> None:
        match change:
            case Write(leader=leader, marker=marker):
                self._client.write_end_marker(leader, marker)
            case Assign(replicas=replicas):
                self._client.reassign(self._plan.place, replicas)
            case Cancel():
                self._client.reassign(self._plan.place, None)
            case Elect():
                self._client.elect(self._plan.place)


@contextmanager
def beating(storage: str, repair_id: str, owner: str, writing: threading.Lock) -> Iterator[None]:
    """Record as long as this lasts, in a thread of its own, that the process that runs a repair lives.

    Nothing is recorded while the repair's other events say so. It ends once another process has the repair.

    Args:
        storage: ``storage.path``.
        repair_id: the repair's id.
        owner: this process, which owns the repair.
        writing: held while this process records something.
    """
    stop = threading.Event()
    thread = threading.Thread(target=_beat, args=(storage, repair_id, owner, writing, stop), name="repair", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _beat(storage: str, repair_id: str, owner: str, writing: threading.Lock, stop: threading.Event) -> None:
    table, record, last = None, Record(), 0
    while not stop.wait(BEAT_S):
        try:
            with writing:
                table = table or RepairTable(storage, create=False)
                record.take_in(table.news())
                known = record.repairs[repair_id]
                if not known.is_running or known.owner != owner:
                    return
                if known.sequence == last:
                    record.take_in([table.append(Event(EventKind.BEAT, repair_id, *known.place, now_ms(), owner))])
                last = record.repairs[repair_id].sequence
        except EventLogError:
            continue  # Somebody else was first, or the storage does not answer: the next beat tries again.


_NAMES = {
    Write: "the marker was written",
    Assign: "the partition is being reassigned",
    Cancel: "the reassignment was cancelled",
    Elect: "the leader was elected",
}


def wanted(made: Plan, since: int | None = None, *, doubts: bool = False) -> Wanted:
    """What a look must cover for the steps of a plan: the steps' transactions and offsets.

    Args:
        made: the plan.
        since: in a long log, offsets before this one may be skipped; None: all before the log's end may be.
        doubts: whether to cover what the job's tables say against the replicas.
    """
    ends = [(step.producer_id, step.start_offset) for step in made.steps if isinstance(step, EndStep)]
    moves = [step.read for step in made.steps if isinstance(step, MoveStep)]
    offsets = tuple(sorted(frozenset().union(*moves))) if moves else None
    return Wanted(ends, since, offsets, doubts=doubts)


def said(event: Event, made: Plan) -> str:
    """An event of a repair as a sentence for people, e.g. ``Step 1: the cluster has taken it.``.

    Args:
        event: the event.
        made: the repair's plan, which has the titles of the steps.
    """
    title = next((step.title for step in made.steps if step.number == event.step), "")
    match event.kind:
        case EventKind.KEPT:
            return "What every replica shows of it now is on record."
        case EventKind.INTENDED:
            return f"Step {event.step}: {title}"
        case EventKind.ANSWERED:
            return f"Step {event.step}: the cluster has taken it."
        case EventKind.WORKING:
            return f"At work: {event.reason}."
        case EventKind.PROVEN:
            return f"Step {event.step}: done, and every replica shows it ({event.reason})."
        case EventKind.STOPPED:
            where = f" at step {event.step}" if event.step else ""
            return f"Stopped{where}: {event.reason.rstrip('.')}."
        case _:
            return f"{str(event.kind).capitalize()}: {event.reason}." if event.reason else str(event.kind).capitalize()


__all__ = ["RepairCommandError", "Run", "Say", "said", "wanted"]
