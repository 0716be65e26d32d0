"""Looks for hanging transactions while the job runs, in partitions where no last stable offset moves.

Its input is the last stable offset of each partition. It asks leaders which transactions are open, and coordinators
whether these will end. Reported transactions are kept in the storage (`parallax.findings.hanging_record`), so a restart
neither ends a report nor starts its time again. `parallax.findings.hanging_life` decides when one is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from parallax.errors import one_line
from parallax.findings.coordinators import verdicts
from parallax.findings.hanging import Open, Prospect, Standing, opened
from parallax.findings.hanging_life import Event, Gone, Hanging, OpenSeen, Over, StableSeen, after, headline, words
from parallax.model import UNKNOWN, TopicPartition
from parallax.moments import time_text
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from parallax.replica.types import HowGone, TopicMetadata
from parallax.rounds import Rounds
from parallax.runbook import RUNBOOK
from parallax.shell import Shell
from parallax.views.control import refusals

log = structlog.get_logger(__name__)

_ROUND_S = 10.0
_AGAIN_S = 60.0
"""How often an ongoing transaction is asked about again, and whether the topics of reported ones still exist."""
_SETTING = "transaction.max.timeout.ms"
_MAX_TIMEOUT_MS = 900_000
"""Kafka's default of ``transaction.max.timeout.ms``."""
_LATE_S = 300.0
"""How much longer Kafka itself waits before it calls a transaction late (``LATE_TRANSACTION_BUFFER_MS``)."""
_SETTING_S = 3600.0
"""How long a broker's setting is used before it is asked for again."""


@dataclass(frozen=True, slots=True)
class Standstill:
    """The last stable offset of one partition, and since when it has not moved.

    It is that of the replicas that have come as far as the leader.

    Attributes:
        offset: the last stable offset.
        since: since when it has lain below the high watermark without moving, seconds since 1970 UTC. If replicas
            report unlike times, the latest counts. None if no replica reports one.
        seen_at: when one of these replicas last reported, seconds since 1970 UTC.
        log_start: the log start of these replicas.
    """

    offset: int
    since: float | None
    seen_at: float = 0.0
    log_start: int = 0

    @property
    def shown(self) -> StableSeen:
        """This last stable offset as an observation for `parallax.findings.hanging_life.after`."""
        return StableSeen(self.offset, self.log_start, self.since is not None, self.seen_at)


def is_overdue(stands_s: float, max_timeout_ms: int) -> bool:
    """Whether a transaction has been open for longer than the brokers allow any transaction to be open.

    Args:
        stands_s: for how many seconds Parallax has seen it open.
        max_timeout_ms: the brokers' ``transaction.max.timeout.ms``.
    """
    return stands_s > max_timeout_ms / 1000 + _LATE_S


class HangingWatch:
    """Looks for hanging transactions in rounds, and remembers which are reported; not thread-safe.

    Args:
        client: asks the brokers.
        after_s: for how many seconds a last stable offset must not have moved before coordinators are asked.
        timeout_ms: deadline of each request to a broker.
        known: the transactions that the previous job reported last.
        clock: gives seconds since 1970 UTC; replaced in tests.
    """

    def __init__(
        self,
        client: ReplicaClient,
        after_s: float,
        timeout_ms: int,
        known: Iterable[Hanging] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._after_s = after_s
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._reported = {hanging.one.place: hanging for hanging in known}
        self._ended: list[tuple[Hanging, Over]] = []
        self._gone_once: set[TopicPartition] = set()
        self._looked_at = 0.0
        self._topic_ids: dict[str, str] = {}
        self._hung_before = {hanging.one.identity for hanging in self._reported.values() if hanging.hangs}
        self._asked_at: dict[tuple[TopicPartition, int], float] = {}
        self._setting: tuple[float, int] = (-_SETTING_S, _MAX_TIMEOUT_MS)

    def now(self) -> float:
        """Return the time of the clock that this watch uses, in seconds since 1970 UTC."""
        return self._clock()

    @property
    def reported(self) -> tuple[Hanging, ...]:
        """The transactions that are reported now, in the order of their partitions."""
        return tuple(self._reported[place] for place in sorted(self._reported))

    @property
    def ended(self) -> tuple[tuple[Hanging, Over], ...]:
        """The reported transactions that the last round found to be over, each with the reason."""
        return tuple(self._ended)

    def round(self, stands: Mapping[TopicPartition, Standstill]) -> tuple[Hanging, ...]:
        """Look for hanging transactions once, and return those that are reported now, in the order of their partitions.

        The parameter ``stands`` holds the last stable offset of each partition. Coordinators are asked only about
        partitions where it has not moved for long. If they cannot be asked, what was reported stays reported.

        Raises:
            ReplicaError: no broker says who leads the partitions.
        """
        now = self._clock()
        self._ended = []
        self._take_in(stands, now)
        since = {place: self._since(place, one) for place, one in stands.items()}
        long = {
            place: Standstill(stands[place].offset, at)
            for place, at in since.items()
            if at is not None and now - at >= self._after_s
        }
        self._asked_at = {k: at for k, at in self._asked_at.items() if k[0] in long and long[k[0]].offset == k[1]}
        due = [p for p, one in long.items() if now - self._asked_at.get((p, one.offset), -_AGAIN_S) >= _AGAIN_S]
        self._asked_at |= {(place, long[place].offset): now for place in due}
        for one, verdict in self._asked(due, long).items():
            self._take(one, verdict, long[one.place], now)
        return self.reported

    def _take_in(self, stands: Mapping[TopicPartition, Standstill], now: float) -> None:
        """Take in what replicas have shown of reported transactions, and what the cluster says of their topics."""
        shown = {place: stands[place].shown for place in self._reported if place in stands}
        passed = {p for p, seen in shown.items() if isinstance(after(self._reported[p], seen), Over)}
        is_due = abs(now - self._looked_at) >= _AGAIN_S
        gone = self._gone(self._reported if is_due else passed)
        twice = self._gone_once & gone.keys()
        if is_due:
            self._looked_at, self._gone_once = now, set(gone)
        for place in list(self._reported):
            # A broker that has just started may not know a topic yet: without other evidence it is asked twice.
            if place in gone and (place in passed or (is_due and place in twice)):
                self._event(place, Gone(gone[place]))
            elif place in shown:
                self._event(place, shown[place])

    def _event(self, place: TopicPartition, event: Event) -> None:
        hanging = self._reported[place]
        now = after(hanging, event)
        if isinstance(now, Hanging):
            self._reported[place] = now
        else:
            del self._reported[place]
            self._ended.append((hanging, now))

    def _gone(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Return which of these places have no topic any more by a broker's answer, and how it went."""
        found: dict[TopicPartition, str] = {}
        with suppress(ReplicaError):
            topics = self._topics(places)
            for place in places:
                topic = topics.get(place.topic)
                how = None if topic is None else topic.gone(place.partition, self._reported[place].topic_id)
                if how is not None:
                    found[place] = _HOW[how]
        return found

    def _topics(self, places: Iterable[TopicPartition]) -> Mapping[str, TopicMetadata]:
        names = sorted({place.topic for place in places})
        return self._client.metadata(names, timeout_ms=self._timeout_ms) if names else {}

    def _since(self, place: TopicPartition, stands: Standstill) -> float | None:
        """Return since when it has not moved, also before this job began."""
        known = self._reported.get(place)
        return stands.since if known is None or stands.since is None else min(stands.since, known.stands_since)

    def _asked(self, due: Sequence[TopicPartition], long: Mapping[TopicPartition, Standstill]) -> dict[Open, Prospect]:
        """Return the transactions that hold the last stable offsets back, and what becomes of them."""
        found: list[Open] = []
        for leader, places in self._leaders(due).items():
            try:
                answers = self._client.describe_producers(leader, places, timeout_ms=self._timeout_ms)
            except ReplicaError:
                continue
            for place in places:
                at = long[place].offset
                mine = [one for one in opened(place, leader, answers.get(place)) if one.start_offset <= at]
                # The reported transaction comes before all others: it stays as long as the leader holds it open.
                known = self._reported.get(place)
                mine.sort(key=lambda one: (known is None or one.identity != known.one.identity, one.start_offset))
                found += mine[:1]
        return verdicts(self._client, found, self._timeout_ms)

    def _leaders(self, places: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        topics = self._topics(places)
        self._topic_ids = {name: topic.topic_id for name, topic in topics.items() if topic.error is None}
        found: dict[int, list[TopicPartition]] = {}
        for place in places:
            known = topics[place.topic].partitions.get(place.partition) if place.topic in topics else None
            if known is not None and known.leader != UNKNOWN:
                found.setdefault(known.leader, []).append(place)
        return found

    def _take(self, one: Open, verdict: Prospect, stands: Standstill, now: float) -> None:
        hangs = verdict.standing is Standing.HANGS
        is_certain = hangs and one.identity in self._hung_before
        self._hung_before = {known for known in self._hung_before if known[0] != one.place}
        if hangs:
            # A coordinator may be moving, or be about to end it: it hangs if two rounds say so.
            self._hung_before.add(one.identity)
        if hangs and not is_certain:
            self._asked_at = {key: at for key, at in self._asked_at.items() if key[0] != one.place}
            return
        if one.place in self._reported:
            self._event(one.place, OpenSeen(one, verdict))
        stands_since = now if stands.since is None else stands.since
        if one.place in self._reported:
            return
        if is_certain or is_overdue(now - stands_since, self._max_timeout_ms(one.leader, now)):
            self._reported[one.place] = Hanging(
                one,
                stands.offset,
                verdict.why,
                hangs,
                stands_since,
                verdict.started,
                stands.seen_at,
                self._topic_ids.get(one.place.topic, ""),
            )

    def _max_timeout_ms(self, broker: int, now: float) -> int:
        at, known = self._setting
        if now - at >= _SETTING_S:
            try:
                given = self._client.broker_configs(broker, [_SETTING], timeout_ms=self._timeout_ms)
            except ReplicaError:
                return known
            if isinstance(given, dict) and given.get(_SETTING, "").isdigit():
                known = int(given[_SETTING])
            self._setting = now, known
        return known


class HangingThread(Rounds):
    """Looks for hanging transactions every ten seconds in a thread, and logs what has changed.

    After a failure it tries again in the next round.

    Args:
        watch: does the looking.
        ``stands``: called in each round; returns the last stable offset of each partition.
        on_round: called with the reported transactions, at the start and after each round.
        on_change: called with the reported transactions after each round that changed them; it writes them to the
            storage.
        shell: how commands in log lines name the cluster and the job.
        runbook: address or path of the runbook, for log lines.
    """

    def __init__(
        self,
        watch: HangingWatch,
        stands: Callable[[], Mapping[TopicPartition, Standstill]],
        on_round: Callable[[Sequence[Hanging]], None],
        on_change: Callable[[Sequence[Hanging]], None],
        shell: Shell,
        runbook: str = RUNBOOK,
    ) -> None:
        super().__init__("hanging transactions", _ROUND_S)
        self._watch = watch
        self._stands = stands
        self._on_round = on_round
        self._on_change = on_change
        self._shell, self._runbook = shell, runbook
        self._is_failing = self._is_unrecorded = False
        self._known = {one.one.identity: one for one in watch.reported}
        self._unseen: set[tuple[TopicPartition, int, int]] = set()
        self._recorded = watch.reported

    def start(self) -> None:
        """Report the transactions that the previous job reported, and start the thread."""
        self._on_round(self._recorded)
        super().start()

    def look(self) -> None:
        """Look once. That it could not be asked is logged once, until it can be asked again."""
        try:
            found = self._watch.round(self._stands())
            self._on_round(found)
            self._log(found)
            self._is_failing = False
            self._record(found)
        except ReplicaError as error:
            if not self._stop.is_set() and not self._is_failing:
                self._is_failing = True
                what = "a hanging transaction is not reported until the coordinators answer; it is asked again"
                log.warning("whether a transaction hangs could not be asked", error=one_line(error), what=what)

    def failed(self, error: Exception) -> None:
        """Log a fault of Parallax.

        Args:
            error: what the look has raised.
        """
        what = "whether a transaction hangs could not be asked, by a fault of Parallax; it is asked again"
        log.error(what, exc_info=error)

    def _record(self, found: tuple[Hanging, ...]) -> None:
        if found == self._recorded:
            self._is_unrecorded = False
            return
        try:
            self._on_change(found)
        except refusals() as error:
            if not self._is_unrecorded:
                self._is_unrecorded = True
                text = "which transactions hang could not be put on record; after a restart they are reported again"
                log.warning(text, error=one_line(error))
        else:
            self._recorded, self._is_unrecorded = found, False

    def _log(self, found: Sequence[Hanging]) -> None:
        now = {one.one.identity: one for one in found}
        for identity, one in now.items():
            before = self._known.get(identity)
            if before is None:
                log.error(headline(one), **_about(one.one), what=words(one, self._shell, self._runbook))
            elif before.hangs and not one.hangs:
                what = f"{one.why}; it stays reported until consumers in read_committed go on. Do not abort it by hand"
                log.warning("a transaction that hung is listed by a coordinator", **_about(one.one), what=what)
        for one, over in self._watch.ended:
            log.warning("a transaction that hung is over", **_about(one.one), what=over.why)
        unseen = {identity for identity, one in now.items() if one.is_unseen(self._watch.now())}
        for identity in sorted(unseen - self._unseen):
            what = f"it stays reported, as last seen at {time_text(now[identity].last_seen * 1000)}"
            text = "no replica shows whether a transaction that hung still does"
            log.warning(text, **_about(now[identity].one), what=what)
        self._known, self._unseen = now, unseen


_HOW = {
    HowGone.TOPIC: "its topic was deleted",
    HowGone.RECREATED: "its topic was deleted and created again",
    HowGone.PARTITION: "its partition is there no more",
}


def _about(one: Open) -> dict[str, object]:
    return {
        "topic": one.place.topic,
        "partition": one.place.partition,
        "producer_id": one.producer_id,
        "offset": one.start_offset,
    }


__all__ = ["HangingThread", "HangingWatch", "Standstill", "is_overdue"]
