"""What keeps the job from seeing replicas, and which replicas it cannot see. Pure.

Examples are a broker that does not answer, a pause of reading, and a query that is down. The status line, ``/readyz``,
the page's map and drawings, the metric and alert on waits for verdicts, and webhook messages all use the one list that
`blindness` makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from parallax.alerting.refusals import NOBODY as WHOLE_TOPIC
from parallax.alerting.snapshot import Replica, Snapshot
from parallax.counts import agreed, counted, named
from parallax.model import TopicPartition
from parallax.moments import roughly
from parallax.repair.leading import frozen_in_words, hanging_in_words, is_frozen
from parallax.source.feedback import ALL
from parallax.views.pause import in_words as paused_in_words

STALE_S = 120.0
"""How many seconds old the heartbeat of the comparison (`Snapshot.heartbeat`) may be."""
STALLED_S = 300.0
"""A query without progress for this many seconds counts as stalled; one micro-batch may take long.

A comparison that has produced nothing for as long counts as held up.
"""


class Cause(StrEnum):
    """What may keep the job from seeing replicas. The members are in the order of reports: a cause before its effects.

    Causes that end by themselves during the start come last.
    """

    STORAGE_FULL = "storage_full"
    OTHER_CLUSTER = "other_cluster"
    STALLED = "stalled"
    QUERY_DOWN = "query_down"
    QUERY_STALLED = "query_stalled"
    FINDINGS_FAIL = "findings_fail"
    """Findings cannot be read or written, so suspects get no verdict."""
    BROKER_AWAY = "broker_away"
    REPLICA_OFFLINE = "replica_offline"
    """The broker answers, but not for this replica, e.g. because the log directory is offline."""
    PAUSED = "paused"
    HANGING = "hanging"
    """A transaction hangs, or is open for too long: in read_committed no later record is compared."""
    FROZEN = "frozen"
    """A finding says that a replica is frozen: in read_committed no later record is compared."""
    UNAUTHORIZED = "unauthorized"
    ALONE = "alone"
    """The settings let one replica of each partition be read, though there are others: nothing can be compared."""
    NOTHING_WATCHED = "nothing_watched"
    """The settings match no topic."""
    NOT_BEGUN = "not_begun"
    """Nothing has been compared since the job started."""
    FINDINGS_NOT_LOADED = "findings_not_loaded"

    @property
    def is_of_the_job(self) -> bool:
        """Whether the job itself does not work, e.g. a query is down. Then ``/readyz`` says that it is not ready.

        False for causes outside the job, such as a broker that does not answer. The job reports these, and is ready.
        """
        return self in _OF_THE_JOB

    @property
    def ends_with_the_start(self) -> bool:
        """Whether this cause is normal while the job starts, and ends by itself soon after."""
        return self in (Cause.NOT_BEGUN, Cause.FINDINGS_NOT_LOADED)

    @property
    def hides_all(self) -> bool:
        """Whether this cause always hides every replica: while it lasts, the job would miss any divergence."""
        return self.is_of_the_job or self in (Cause.STORAGE_FULL, Cause.OTHER_CLUSTER)

    @property
    def holds_up(self) -> bool:
        """Whether this cause stops reading or comparing. The offsets that it stops get no verdict until it ends."""
        return self not in _HOLD_UP_NOTHING


_HOLD_UP_NOTHING = frozenset(
    {Cause.ALONE, Cause.NOTHING_WATCHED, Cause.NOT_BEGUN, Cause.FINDINGS_FAIL, Cause.FINDINGS_NOT_LOADED}
)
_OF_THE_JOB = frozenset(
    {Cause.NOT_BEGUN, Cause.STALLED, Cause.QUERY_DOWN, Cause.QUERY_STALLED, Cause.FINDINGS_FAIL},
)


@dataclass(frozen=True, slots=True)
class Reach:
    """The replicas that a cause hides from the job; ``replica in reach`` says whether it hides one.

    Attributes:
        everything: whether it hides all replicas.
        brokers: ids of brokers all of whose replicas it hides.
        topics: topics all of whose replicas it hides.
        partitions: partitions all of whose replicas it hides.
        replicas: further replicas that it hides.
    """

    everything: bool = False
    brokers: frozenset[int] = frozenset()
    topics: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()
    replicas: frozenset[Replica] = frozenset()

    def __contains__(self, replica: Replica) -> bool:
        """Whether a replica is not seen."""
        topic, partition, broker = replica
        return (
            self.everything
            or broker in self.brokers
            or topic in self.topics
            or replica in self.replicas
            or (topic, partition) in self.partitions
        )


_EVERYTHING = Reach(everything=True)


@dataclass(frozen=True, slots=True)
class Blind:
    """One cause that keeps the job from seeing some replicas.

    Attributes:
        cause: what kind of cause it is.
        reach: the replicas that it hides.
        since: when it began, seconds since 1970 UTC; None if that is not known.
        phrase: for people, the cause with the brokers or topics that it hides.
        here: for people, the cause in words that fit a single hidden replica.
        shows_offsets: whether the job still learns the hidden replicas' offsets, and only does not compare their
            records.
    """

    cause: Cause
    reach: Reach
    since: float | None
    phrase: str
    here: str
    shows_offsets: bool = False


def blindness(snapshot: Snapshot) -> tuple[Blind, ...]:
    """All causes that now keep the job from seeing replicas, in the order of `Cause`."""
    return snapshot.once(_blindness)


def hiding(snapshot: Snapshot, replica: Replica, but: Collection[Cause] = ()) -> Blind | None:
    """Why the job does not see a replica: the first cause that hides it, in the order of `Cause`.

    None if no cause hides it.

    Args:
        snapshot: what is known.
        replica: the replica.
        but: causes that do not count.
    """
    return next((one for one in blindness(snapshot) if one.cause not in but and replica in one.reach), None)


def unseen(snapshot: Snapshot, replica: Replica) -> str:
    """Why the job does not know the replica's present offsets, in one phrase. Empty if it knows them."""
    found = (one.here for one in blindness(snapshot) if replica in one.reach and not one.shows_offsets)
    return next(found, "")


def is_read(snapshot: Snapshot, replica: Replica) -> bool:
    """Whether the job can read a replica now.

    False if its broker does not answer, its log directory is offline, reading the broker is paused, or the permission
    to read is missing.
    """
    return not any(replica in one.reach for one in blindness(snapshot) if one.cause in _UNREAD)


def readable(snapshot: Snapshot) -> frozenset[TopicPartition]:
    """The partitions that can be compared now. At least two of their replicas can be read, or the only one can."""
    return snapshot.once(_readable)


def stopped(snapshot: Snapshot) -> tuple[str, ...]:
    """Why the job compares nothing now, as phrases; empty if it compares at least one partition.

    By the same rule the job sends no heartbeat, except that a job that starts has its own word.
    """
    found = [one for one in blindness(snapshot) if one.cause.hides_all or one.cause is Cause.NOTHING_WATCHED]
    nothing = () if found or readable(snapshot) else (_NOTHING_READABLE,)
    return (*(one.phrase for one in found), *nothing)


_NOTHING_READABLE = "no partition can be compared: of none can two replicas be read"


def alone(snapshot: Snapshot) -> frozenset[TopicPartition]:
    """The partitions of which ``topics.brokers`` lets one replica be read and leaves out others: none is compared."""
    return snapshot.once(_alone)


def _alone(snapshot: Snapshot) -> frozenset[TopicPartition]:
    return frozenset(
        place for place, others in snapshot.left_out_of.items() if others and len(snapshot.assigned.get(place, ())) < 2
    )


def _readable(snapshot: Snapshot) -> frozenset[TopicPartition]:
    held: dict[TopicPartition, set[int]] = {place: set(brokers) for place, brokers in snapshot.assigned.items()}
    for replica in snapshot.replicas:
        if snapshot.holds(replica):
            held.setdefault(TopicPartition(*replica[:2]), set()).add(replica[2])
    return frozenset(
        place
        for place, brokers in held.items()
        if sum(is_read(snapshot, (*place, broker)) for broker in brokers)
        >= min(2, len(brokers) + len(snapshot.left_out_of.get(place, ())))
        > 0
    )


def offline(snapshot: Snapshot) -> Mapping[int, frozenset[Replica]]:
    """By broker that answers: its replicas that it does not answer for, e.g. because their log directory is offline.

    Replicas that the job may not read are left out.
    """
    return snapshot.once(_offline)


def _offline(snapshot: Snapshot) -> Mapping[int, frozenset[Replica]]:
    found: dict[int, set[Replica]] = {broker: set() for broker, answers in snapshot.reachable.items() if answers}
    for replica, state in snapshot.replicas.items():
        is_away = not snapshot.reachable.get(replica[2], True)
        is_offline = state.offline_since is not None and not is_away
        if is_offline and replica not in snapshot.refused and snapshot.holds(replica):
            found.setdefault(replica[2], set()).add(replica)
    return {broker: frozenset(replicas) for broker, replicas in sorted(found.items())}


_UNREAD = frozenset({Cause.BROKER_AWAY, Cause.REPLICA_OFFLINE, Cause.PAUSED, Cause.UNAUTHORIZED})


@dataclass(frozen=True, slots=True)
class HeldUp:
    """The partitions whose comparison does not go on now, e.g. because broker 2 does not answer or a query is down.

    Attributes:
        everything: whether no partition's comparison goes on; then ``places`` is empty.
        places: otherwise the partitions whose comparison does not go on.
    """

    everything: bool
    places: Collection[TopicPartition]

    def __bool__(self) -> bool:
        return self.everything or bool(self.places)

    def __contains__(self, place: TopicPartition) -> bool:
        """Whether a partition is held up."""
        return self.everything or place in self.places


def held_up(snapshot: Snapshot) -> HeldUp:
    """The partitions whose comparison does not go on at the moment of a snapshot (`Cause.holds_up`).

    If the only cause is that the comparison gives no result, all partitions count once that has lasted for `STALLED_S`
    seconds.
    """
    return snapshot.once(_held_up)


def _held_up(snapshot: Snapshot) -> HeldUp:
    now = snapshot.taken_at
    causes = [
        one
        for one in blindness(snapshot)
        if one.cause.holds_up and (one.cause is not Cause.STALLED or one.since is None or now - one.since > STALLED_S)
    ]
    if any(one.reach.everything for one in causes):
        return HeldUp(True, ())
    places = {place for one in causes for place in one.reach.partitions}
    reaches = [one.reach for one in causes if one.reach.brokers or one.reach.topics or one.reach.replicas]
    if reaches:
        places |= {
            TopicPartition(*replica[:2])
            for replica in snapshot.replicas.keys() | snapshot.refused.keys()
            if any(replica in reach for reach in reaches) and snapshot.holds(replica)
        }
    return HeldUp(False, places)


def _blindness(snapshot: Snapshot) -> tuple[Blind, ...]:
    found = [
        *_of_the_comparison(snapshot),
        *of_queries(snapshot),
        *_of_findings(snapshot),
        *_of_storage_and_cluster(snapshot),
        *_of_brokers(snapshot),
        *_of_pauses(snapshot),
        *_of_transactions(snapshot),
        *_of_rights(snapshot),
        *_of_topics(snapshot),
    ]
    order = list(Cause)
    return tuple(sorted(found, key=lambda one: order.index(one.cause)))


def _all(cause: Cause, since: float | None, phrase: str, here: str = "", *, shows_offsets: bool = False) -> Blind:
    return Blind(cause, _EVERYTHING, since, phrase, here or phrase, shows_offsets)


def _of_the_comparison(snapshot: Snapshot) -> Iterator[Blind]:
    if snapshot.heartbeat is None:
        yield _all(Cause.NOT_BEGUN, snapshot.started_at, "nothing has been compared yet", shows_offsets=True)
    elif snapshot.taken_at - snapshot.heartbeat > STALE_S:
        idle = roughly(snapshot.taken_at - snapshot.heartbeat)
        yield _all(Cause.STALLED, snapshot.heartbeat, f"nothing has been compared for {idle}", shows_offsets=True)


def _of_topics(snapshot: Snapshot) -> Iterator[Blind]:
    if snapshot.nothing_since is not None:
        phrase = f"no topic is watched: none matches {snapshot.wanted}"
        yield _all(Cause.NOTHING_WATCHED, snapshot.nothing_since, phrase)
    elif snapshot.assigned.keys() and alone(snapshot) >= snapshot.assigned.keys():
        phrase = "topics.brokers lets one replica of each partition be read: nothing is compared"
        yield _all(Cause.ALONE, None, phrase, shows_offsets=True)


def of_queries(snapshot: Snapshot) -> Iterator[Blind]:
    """Yield a `Blind` for each streaming query that is down or has stalled, by name. It hides all replicas."""
    now = snapshot.taken_at
    for name, query in sorted(snapshot.queries.items()):
        shows = name != "progress"
        since = snapshot.got_on_at(query)
        if not query.up:
            yield _all(Cause.QUERY_DOWN, query.last_progress, f"query {name} is down", shows_offsets=shows)
        elif now - since > STALLED_S:
            phrase = f"query {name} has made no progress for {roughly(now - since)}"
            yield _all(Cause.QUERY_STALLED, since, phrase, shows_offsets=shows)


def _of_findings(snapshot: Snapshot) -> Iterator[Blind]:
    if snapshot.findings.error is not None:
        phrase, here = f"findings: {snapshot.findings.error}", "findings cannot be kept"
        yield _all(Cause.FINDINGS_FAIL, None, phrase, here, shows_offsets=True)
    elif not snapshot.findings_loaded:
        yield _all(Cause.FINDINGS_NOT_LOADED, snapshot.started_at, "the findings are not loaded", shows_offsets=True)


def _of_storage_and_cluster(snapshot: Snapshot) -> Iterator[Blind]:
    if snapshot.storage_full:
        yield _all(Cause.STORAGE_FULL, None, "the storage is full, and recording has stopped", "the storage is full")
    if snapshot.mismatches:
        where = named(snapshot.mismatches)
        yield _all(Cause.OTHER_CLUSTER, None, f"another cluster answers at {where}", "another cluster answers")


def _of_brokers(snapshot: Snapshot) -> Iterator[Blind]:
    away = sorted(broker for broker, answers in snapshot.reachable.items() if not answers)
    if away:
        whom = f"{agreed(len(away), 'broker', 'brokers')} {', '.join(map(str, away))}"
        phrase = f"{whom} {agreed(len(away), 'does', 'do')} not answer"
        yield Blind(Cause.BROKER_AWAY, Reach(brokers=frozenset(away)), None, phrase, "the broker does not answer")
    by_broker = {broker: replicas for broker, replicas in offline(snapshot).items() if replicas}
    if by_broker:
        found = frozenset().union(*by_broker.values())
        whose = f"{agreed(len(by_broker), 'broker', 'brokers')} {', '.join(map(str, by_broker))}"
        phrase = f"{whose} answered when last asked, but not for {counted(len(found), 'replica')}"
        here = "the broker answered when last asked, but not for this replica"
        since = min(snapshot.replicas[replica].offline_since or snapshot.taken_at for replica in found)
        yield Blind(Cause.REPLICA_OFFLINE, Reach(replicas=found), since, phrase, here)


def _of_pauses(snapshot: Snapshot) -> Iterator[Blind]:
    for broker, pause in sorted(snapshot.paused.items()):
        (said,) = paused_in_words({broker: pause})
        reach = _EVERYTHING if broker == ALL else Reach(brokers=frozenset({broker}))
        yield Blind(Cause.PAUSED, reach, pause.since, f"reading is paused: {said}", "reading is paused")


def _of_transactions(snapshot: Snapshot) -> Iterator[Blind]:
    if hanging := {one.one.place for one in snapshot.hanging}:
        since = min(one.stands_since for one in snapshot.hanging)
        phrase = hanging_in_words(snapshot.hanging, named(place.name for place in hanging))
        reach = Reach(partitions=frozenset(hanging))
        yield Blind(Cause.HANGING, reach, since, phrase, hanging_in_words(snapshot.hanging), shows_offsets=True)
    frozen = [one for one in snapshot.findings.standing if is_frozen(one)]
    if frozen:
        reach = Reach(partitions=frozenset(one.place for one in frozen))
        since = min(one.first_suspected_at.timestamp() for one in frozen)
        phrase = frozen_in_words(named(one.place.name for one in frozen))
        yield Blind(Cause.FROZEN, reach, since, phrase, frozen_in_words(), shows_offsets=True)


def _of_rights(snapshot: Snapshot) -> Iterator[Blind]:
    by_right: dict[str, set[Replica]] = {}
    for replica, refusal in snapshot.refused.items():
        by_right.setdefault(refusal.right.replace("_", " "), set()).add(replica)
    for right, refused in sorted(by_right.items()):
        topics = frozenset(topic for topic, *rest in refused if tuple(rest) == WHOLE_TOPIC)
        phrase = f"the right {right} is missing on {named(topic for topic, *_ in refused)}"
        reach = Reach(topics=topics, replicas=frozenset(refused))
        yield Blind(Cause.UNAUTHORIZED, reach, None, phrase, f"the right {right} is missing")


__all__ = [
    "STALE_S",
    "STALLED_S",
    "Blind",
    "Cause",
    "HeldUp",
    "Reach",
    "alone",
    "blindness",
    "held_up",
    "hiding",
    "is_read",
    "of_queries",
    "offline",
    "readable",
    "stopped",
    "unseen",
]
