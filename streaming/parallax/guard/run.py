"""Runs the guard in the job: a thread that, in rounds, looks at topics, decides, records and acts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import structlog

from parallax.config import GuardSettings
from parallax.errors import one_line
from parallax.guard.absences import Absence
from parallax.guard.decide import Action, Alter, Append, Guard, Rules
from parallax.guard.holds import Event, EventKind, Hold, Record, open_holds, stranded
from parallax.guard.looking import Lookout
from parallax.guard.pauses import Paused, PauseWatch
from parallax.guard.table import GuardTable
from parallax.guard.words import SAID
from parallax.moments import now_ms, time_text
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import DeadlineExceeded, ReplicaError, Unreachable
from parallax.views.event_log import EventLogError, WrittenMeanwhile

log = structlog.get_logger(__name__)

ROUND_S = 1.0
OFF_ROUND_S = 30.0
"""Seconds between two rounds while ``guard.mode`` is off. Such rounds only look whether holds were put back."""
_LOUD = frozenset({EventKind.OVERRULED, EventKind.REFUSED, EventKind.ABANDONED})


@dataclass(frozen=True, slots=True)
class GuardStatus:
    """What the guard holds and refuses now, for metrics, the status page and commands.

    Attributes:
        holds: the holds that are not over.
        refused: for topics that the guard does not hold, the event that says why.
        spent: topics that are not held again until their replicas are in sync.
        events: how many events there were, by kind.
        sizes: by topic that is held, its size in bytes.
        error: why the guard can do nothing; None if it can.
        is_off: whether ``guard.mode`` is ``off``. Then ``holds`` has the holds that an earlier guard has left.
    """

    holds: tuple[Hold, ...] = ()
    refused: tuple[Event, ...] = ()
    spent: frozenset[str] = frozenset()
    events: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    is_off: bool = False


def rules_of(settings: GuardSettings, mark: int) -> Rules:
    """Return the rules by which the guard decides, from its settings.

    Args:
        settings: the settings of the guard.
        mark: the mark of the guard's table (`parallax.guard.table.GuardTable.mark`).
    """
    return Rules(
        may_act=settings.mode == "act",
        lead_ms=int(settings.lead_s * 1000),
        max_hold_ms=int(settings.max_hold_hours * 3_600_000),
        min_free_percent=settings.min_free_percent,
        settle_ms=int(settings.settle_s * 1000),
        stagger_ms=int(settings.stagger_s * 1000),
        topics=frozenset(settings.topics),
        internal_topics=settings.internal_topics,
        may_shorten=frozenset(settings.compaction_lag_topics),
        mark=mark,
    )


class GuardRounds:
    """The guard without its thread: each call of `round` looks at topics and takes the next steps.

    Args:
        settings: the settings of the guard.
        storage: ``storage.path``.
        client: asks the cluster, and changes topics' settings.
        absences: returns the absences of all replicas, as the clock knows them now.
        only: the topics that the guard may hold; all by default.
        on_paused: called after each look with the cleaners that it showed to be paused.

    Raises:
        EventLogError: the table ``guard_events`` cannot be read or made.
    """

    def __init__(
        self,
        settings: GuardSettings,
        storage: str,
        client: ReplicaClient,
        absences: Callable[[], Collection[Absence]],
        only: Collection[str] | None = None,
        on_paused: Callable[[Collection[Paused]], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._on_paused = on_paused
        self._absences = absences
        self._only = only
        self._table = GuardTable(storage)
        known = self._table.news()
        self.guard = Guard(rules_of(settings, self._table.mark))
        self.guard.take_in(known)
        _warn_of_stranded(self.guard.record, settings.mode)
        self._pauses = PauseWatch(known)
        self._lookout = Lookout(client, needs_space=settings.min_free_percent > 0)
        self._counts: dict[str, int] = {}
        for event in known:
            self._count(event)

    def close(self) -> None:
        """End the threads that ask the brokers."""
        self._lookout.close()

    def append(self, event: Event) -> None:
        """Read what other processes have recorded, then record an event that a person caused, e.g. to ask for a hold.

        Raises:
            EventLogError: the event could not be written.
        """
        while True:
            self.read()
            try:
                self._take(self._table.append(event))
            except WrittenMeanwhile:
                continue
            return

    def round(self) -> GuardStatus:
        """Look at the topics, decide, and take at most one step for each; returns the guard's status.

        Raises:
            EventLogError: the table ``guard_events`` cannot be read or written.
            ReplicaError: no broker answers.
        """
        self.read()
        began_ms = now_ms()
        absent = self._absences()
        topics = self.guard.topics(absent, began_ms)
        if self._only is not None:
            topics &= set(self._only)
        if topics:
            seen = self._lookout.look(topics, {one.place.topic for one in absent})
            # What a look showed was so by its end, and at its beginning at the earliest.
            seen_ms = now_ms()
            self._on_paused([self._pauses.of(name, one, began_ms, seen_ms) for name, one in seen.items()])
            for action in self.guard.tick(seen_ms, seen, absent):
                self._do(action)
        return self.status()

    def status(self) -> GuardStatus:
        """Return the guard's status by the events that were read last."""
        record = self.guard.record
        holds = tuple(open_holds(record))
        held, sizes = {hold.topic for hold in holds}, dict[str, int]()
        for place, size in self._lookout.sizes.items():
            if place.topic in held:
                sizes[place.topic] = sizes.get(place.topic, 0) + size
        return GuardStatus(holds, tuple(record.refused.values()), frozenset(record.spent), dict(self._counts), sizes)

    def read(self) -> None:
        """Read the events that other processes have recorded, and update the guard by them.

        Raises:
            EventLogError: the table ``guard_events`` cannot be read.
        """
        for event in self._table.news():
            self._take(event)

    def _take(self, event: Event) -> None:
        self._count(event)
        self.guard.take_in([event])

    def _count(self, event: Event) -> None:
        self._counts[str(event.kind)] = self._counts.get(str(event.kind), 0) + 1

    def _do(self, action: Action) -> None:
        if isinstance(action, Append):
            try:
                event = self._table.append(action.event)
            except WrittenMeanwhile:
                return  # read and decided again in the next round
            self._take(event)
            say = log.warning if event.kind in _LOUD else log.info
            say(SAID[event.kind], about="guard", topic=event.topic, why=event.reason)
            return
        self._alter(action)

    def _alter(self, action: Alter) -> None:
        self.guard.asked(action, now_ms())
        try:
            self._client.alter_configs(action.topic, action.settings)
        except (Unreachable, DeadlineExceeded) as error:
            event = "whether the guard changed settings of a topic is not known; it looks again"
            log.warning(event, topic=action.topic, error=one_line(error))
        except ReplicaError as error:
            what = "parallax guard status says what that means, and what to run"
            event = "the guard could not change settings of a topic"
            log.error(event, topic=action.topic, error=one_line(error), what=what)
            self.guard.answered(action, one_line(error.problem))
        else:
            log.info("the guard has changed settings of a topic", topic=action.topic, settings=dict(action.settings))
            self.guard.answered(action)


def _warn_of_stranded(record: Record, mode: str) -> None:
    for hold in open_holds(record):
        if said := stranded(hold.topic, mode):
            log.warning(said, topic=hold.topic, since=time_text(hold.began_ms))


class OffRounds:
    """Stands in for `GuardRounds` while ``guard.mode`` is ``off``: reports holds that are left, and asks no broker.

    Args:
        storage: ``storage.path``.
    """

    def __init__(self, storage: str) -> None:
        self._storage = storage
        self._table: GuardTable | None = None
        self._record = Record()

    def close(self) -> None:
        """Does nothing, because this object has no threads; `GuardRounds` has the same method."""

    def round(self) -> GuardStatus:
        """Read the table ``guard_events``, and return the guard's status: the holds that are not over.

        Raises:
            EventLogError: the table cannot be read.
        """
        is_first = self._table is None
        self._table = self._table or GuardTable.opened(self._storage)
        if self._table is not None:
            self._record.take_in(self._table.news())
            if is_first:
                _warn_of_stranded(self._record, "off")
        return GuardStatus(tuple(open_holds(self._record)), is_off=True)


class GuardThread:
    """Runs the guard's rounds in a thread until it is stopped; a failure is logged and tried again.

    Args:
        make: makes the object whose ``round`` is called.
        on_change: called with the guard's status after each round.
        every_s: seconds until the next round begins; the first begins after `ROUND_S`.
    """

    def __init__(
        self,
        make: Callable[[], GuardRounds | OffRounds],
        on_change: Callable[[GuardStatus], None],
        every_s: float = ROUND_S,
    ) -> None:
        self._make = make
        self._on_change = on_change
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)

    def start(self) -> None:
        """Start the thread of the guard."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Topics that are held stay held; the next start goes on with them."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        rounds: GuardRounds | OffRounds | None = None
        last = GuardStatus()
        wait_s = ROUND_S
        while not self._stop.wait(wait_s):
            wait_s = self._every_s
            try:
                rounds = rounds or self._make()
                last = rounds.round()
                self._on_change(last)
            except (EventLogError, ReplicaError) as error:
                self._failed(last, one_line(error))
            except Exception as error:  # noqa: BLE001 - reported and tried again: a guard that is silent guards nothing
                self._failed(last, repr(error))
        if rounds is not None:
            rounds.close()

    def _failed(self, last: GuardStatus, error: str) -> None:
        what = "what it holds stays held, and nothing new is; it is tried again"
        log.error("the guard can do nothing", error=error, what=what)
        self._on_change(replace(last, error=error))


__all__ = ["OFF_ROUND_S", "ROUND_S", "GuardRounds", "GuardStatus", "GuardThread", "OffRounds", "rules_of"]
