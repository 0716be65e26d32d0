"""Histories of a guard: one compacted topic, brokers that come and go, settings that reach each broker late.

The production clock and decision run against a small model of a partition: logs with tombstones, cleaners whose passes
take time, an ISR, a cluster that applies changed settings broker by broker. Beside the guard there are a second one, a
person, and a tool that reverts what it does not know; the guard's process dies between any two of its steps, and its
requests get lost or come late. What is stamped is read late, in part, or not at all. `History.run` raises where one of
these does not hold:

- a replica that the guard held the topic for before its bound misses nothing by that absence;
- no tombstone that an absent replica lacks goes before the bound of the clock, but for those that were overwritten;
- a replica that comes back to what consumers would see otherwise elsewhere had its bound passed, and is called late;
  neither holds of what was `Taken` by a retention that nobody had shown that clock yet. Once it was shown, what is said
  of a replica that is still away has to be true again;
- one whose topic the guard held on all others from before its bound until it was back is not called late;
- in the end the settings are as they were, or as somebody else set them, and no value of a guard's is left.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from parallax.guard.absences import Absence, Late
from parallax.guard.clock import Clock
from parallax.guard.decide import TAKES_MS, Action, Alter, Append, Guard, Rules
from parallax.guard.holds import LAG, NO_LAG, RATIO, RETENTION, Absentee, Event, EventKind, Phase, is_marked
from parallax.guard.horizons import Lap, Part, Reading
from parallax.guard.known import SETTINGS_MS
from parallax.guard.looks import Ended, Look
from parallax.guard.pauses import PauseWatch
from parallax.guard.seen import Shown, TopicSeen
from parallax.model import TopicPartition

TOPIC = "orders"
PLACE = TopicPartition(TOPIC, 0)
SECOND = 1_000
LOOK_MS = 1_000
SKEW = 1_000
START = 1_700_000_000_000
DEFAULTS = {RETENTION: "86400000", RATIO: "0.5", LAG: str(NO_LAG)}


class Broken(AssertionError):  # noqa: N818 - says what it is
    """A property does not hold."""


@dataclass(slots=True)
class Rec:
    """A record; without a value a tombstone."""

    key: int
    alive: bool
    at: int
    horizon: int | None = None
    stamped_by: tuple[int, int] = (0, 0)
    """The retention that its horizon was reckoned by, and when that was set."""


@dataclass(slots=True)
class Pass:
    """A pass of a cleaner that is under way, with what it took along when it began."""

    at: int
    bound: int
    retention: int
    dirty_from: int
    in_force_from: int
    """When the settings were made that its broker went by."""


class Taken(NamedTuple):
    """A tombstone that a pass took away, and by what.

    Attributes:
        began: when the pass began.
        retention: that it was removed by, or its horizon was reckoned by.
        in_force_from: when that retention was set.
    """

    offset: int
    began: int
    retention: int
    in_force_from: int

    def is_unforeseen_by(self, shown: list[tuple[int, int]]) -> bool:
        """Whether the retention that it went by was not shown to a clock since it was set, nor a lower one.

        Args:
            shown: when each look at the settings was taken, and what it showed.
        """
        return not any(at >= self.in_force_from and value <= self.retention for at, value in shown)


@dataclass(slots=True)
class Broker:
    """One replica and its broker's view of the topic's settings."""

    id: int
    up: bool = True
    log: dict[int, Rec] = field(default_factory=dict)
    leo: int = 0
    hw: int = 0
    cleaned_to: int = 0
    applied: int = 0
    running: Pass | None = None
    lost_tail: bool = False
    absent_from: int | None = None
    is_old: bool = False
    """Its version stamps nothing: it removes what is older than the retention (before Kafka 3.1)."""
    fast: int = 0
    """By how much its clock is ahead."""
    often: float = 0.3
    """How soon its cleaner begins anew."""

    def visible(self) -> dict[int, int]:
        """By key, the offset of the value that a consumer ends up with."""
        latest: dict[int, tuple[int, bool]] = {}
        for offset, rec in sorted(self.log.items()):
            latest[rec.key] = offset, rec.alive
        return {key: offset for key, (offset, alive) in latest.items() if alive}


@dataclass(slots=True)
class Version:
    """The topic's own settings as the controller has them, one after the other."""

    topic_id: str
    settings: dict[str, str]
    by: str = "start"
    at: int = START

    @property
    def retention(self) -> int:
        return int(self.settings.get(RETENTION, DEFAULTS[RETENTION]))


class World:
    """The cluster."""

    def __init__(self, rng: random.Random, retention: int) -> None:
        self.rng = rng
        self.now = START
        start = {RETENTION: str(retention), RATIO: "0.001"} | ({LAG: "9000000"} if rng.random() < 0.15 else {})
        self.versions = [Version("id-0", start)]
        self.old = rng.choice((0.0, 0.0, 0.0, 0.5, 1.0))
        """How many of the brokers stamp nothing, as while they are upgraded one after the other."""
        self.brokers = {b: self._broker(b) for b in (1, 2, 3)}
        self.spare = Broker(4)
        self.leader = 1
        self.epoch = 0
        self.isr = {1, 2, 3}
        self.truth: dict[int, tuple[int, bool]] = {}
        self.done: Counter[str] = Counter()
        self.slow = rng.choice((0, 0, 0, 2, 3))
        self.wrong: list[int] = []
        """Those that came back just now to something else than what was written."""

    def _broker(self, number: int, **said: Any) -> Broker:
        """A broker whose clock is off as far as it may be, and whose cleaner is in a hurry or not."""
        rng = self.rng
        fast, often = rng.choice((-SKEW, 0, SKEW)), rng.choice((0.03, 0.3, 0.3))
        return Broker(number, fast=fast, often=often, is_old=rng.random() < self.old, **said)

    @property
    def current(self) -> Version:
        return self.versions[-1]

    @property
    def leading(self) -> Broker:
        return self.brokers[self.leader]

    def view(self, broker: Broker) -> dict[str, str]:
        """The settings that a broker goes by."""
        return DEFAULTS | self.versions[broker.applied].settings

    # -- what happens to it ----------------------------------------------------------------------------------------

    def write(self) -> None:
        if not self.leading.up:
            return
        key, alive = self.rng.randrange(4), self.rng.random() < 0.5
        leader = self.leading
        leader.log[leader.leo] = Rec(key, alive, self.now)
        self.truth[key] = leader.leo, alive
        leader.leo += 1
        self.replicate()

    def replicate(self) -> None:
        """Followers that are up copy what the leader has left, and join the ISR."""
        leader = self.leading
        if leader.up:
            for follower in self.brokers.values():
                if follower.up and follower is not leader:
                    self._copy(follower, leader)
            leader.hw = min([leader.leo, *(self.brokers[b].leo for b in self.isr)])
            for follower in self.brokers.values():
                if follower.up:
                    follower.hw = min(follower.leo, leader.hw)

    def _copy(self, follower: Broker, leader: Broker) -> None:
        if follower.id not in self.isr and self.rng.random() < 0.3:
            return  # it takes its time
        for offset in range(follower.leo, leader.leo):
            if offset in leader.log:
                follower.log[offset] = replace(leader.log[offset])
        follower.leo = leader.leo
        if follower.id not in self.isr:
            self.isr.add(follower.id)
            follower.absent_from = None
            if follower.visible() == {key: offset for key, (offset, alive) in self.truth.items() if alive}:
                follower.lost_tail = False
            elif not follower.lost_tail:
                self.wrong.append(follower.id)
                follower.lost_tail = True  # it stays wrong, and says nothing of later absences

    def stop(self, broker: int, lose: int = 0) -> None:
        one = self.brokers[broker]
        if not one.up or self.isr == {broker}:
            return
        one.up, one.running = False, None
        self.isr.discard(broker)
        one.absent_from = one.hw
        if lose:
            one.lost_tail = True
            for offset in [o for o in one.log if o >= one.leo - lose]:
                del one.log[offset]
            one.leo = max(0, one.leo - lose)
            one.hw, one.cleaned_to = min(one.hw, one.leo), min(one.cleaned_to, one.leo)
        if broker == self.leader:
            self.leader = min(self.isr)
            self.epoch += 1
        self.replicate()
        self.done["lost tail" if lose else "stop"] += 1

    def start(self, broker: int) -> None:
        one = self.brokers[broker]
        if not one.up:
            one.up, one.applied = True, len(self.versions) - 1
            self.replicate()

    def reassign(self) -> None:
        """Give the replica of one broker to the spare one, which copies the whole log."""
        gone = self.rng.choice([b for b in self.brokers if b != self.leader] or [0])
        if gone and self.isr - {gone}:
            self.isr.discard(gone)
            given, taken = self.spare, self.brokers.pop(gone)
            self.brokers[given.id] = self._broker(given.id, applied=len(self.versions) - 1, lost_tail=True)
            self.spare = Broker(taken.id)
            self.done["reassigned"] += 1

    def alter(self, changes: dict[str, str | None], by: str) -> None:
        settings = dict(self.current.settings)
        for name, value in changes.items():
            if value is None:
                settings.pop(name, None)
            else:
                settings[name] = value
        self.versions.append(Version(self.current.topic_id, settings, by, self.now))
        self.done[f"altered by {by}"] += 1

    def lowered_since(self, at: int) -> list[int]:
        """When somebody lowered the retention since a time."""
        changes = pairwise(self.versions)
        return [after.at for before, after in changes if after.at >= at and after.retention < before.retention]

    def recreate(self) -> None:
        first = self.versions[0].settings
        self.versions.append(Version(f"id-{len(self.versions)}", dict(first), "recreated", self.now))
        for broker in self.brokers.values():
            broker.log, broker.leo, broker.hw, broker.cleaned_to, broker.running = {}, 0, 0, 0, None
            broker.applied, broker.absent_from = len(self.versions) - 1, None if broker.up else 0
        self.truth = {}
        self.done["recreated"] += 1

    def spread(self) -> None:
        """Settings reach some brokers."""
        for broker in self.brokers.values():
            soon = 0.03 if broker.id == self.slow else 0.6
            if broker.up and broker.applied < len(self.versions) - 1 and self.rng.random() < soon:
                broker.applied += 1

    # -- cleaning --------------------------------------------------------------------------------------------------

    def begin_pass(self, broker: Broker) -> None:
        settings = self.view(broker)
        is_paused = float(settings[RATIO]) >= 1 and int(settings[LAG]) >= 2**62
        if broker.up and broker.running is None and not is_paused and broker.hw > broker.cleaned_to:
            retention = int(settings[RETENTION])
            made = self.versions[broker.applied].at
            broker.running = Pass(self.now + broker.fast, broker.hw, retention, broker.cleaned_to, made)

    def end_pass(self, broker: Broker) -> list[Taken]:
        """What a pass takes away of tombstones, but for those that were overwritten."""
        run, broker.running = broker.running, None
        if run is None:
            return []
        latest = {rec.key: o for o, rec in sorted(broker.log.items()) if run.dirty_from <= o < run.bound}
        gone = []
        for offset, rec in sorted(broker.log.items()):
            if offset >= run.bound:
                break
            if offset < latest.get(rec.key, -1):
                del broker.log[offset]
            elif not rec.alive and self._is_over(broker, rec, run):
                del broker.log[offset]
                if self.truth.get(rec.key) == (offset, False):
                    by, made = (run.retention, run.in_force_from) if broker.is_old else rec.stamped_by
                    gone.append(Taken(offset, run.at - broker.fast, by, made))
            elif not rec.alive and rec.horizon is None and not broker.is_old:
                rec.horizon, rec.stamped_by = run.at + run.retention, (run.retention, run.in_force_from)
        broker.cleaned_to = run.bound
        self.done["pass"] += 1
        return gone

    @staticmethod
    def _is_over(broker: Broker, rec: Rec, run: Pass) -> bool:
        if broker.is_old:
            return rec.at + broker.fast + run.retention <= run.at
        return rec.horizon is not None and rec.horizon <= run.at

    # -- looking ---------------------------------------------------------------------------------------------------

    def part(self, broker: Broker, start: int, end: int) -> Part:
        """What a broker shows of a part of its log."""
        kept = [(o, rec.horizon) for o, rec in broker.log.items() if start <= o < end and not rec.alive]
        horizons = [horizon for _, horizon in kept if horizon is not None]
        unstamped = min((o for o, horizon in kept if horizon is None), default=None)
        return Part(end, min((o for o, _ in kept), default=None), unstamped, min(horizons, default=None))

    def looks(self) -> list[Look]:
        version = self.versions[self.leading.applied]
        settings = DEFAULTS | version.settings
        return [
            Look(
                PLACE,
                broker.id,
                self.now,
                broker.hw if broker.up else None,
                broker.leo if broker.up else None,
                self.leader,
                self.epoch,
                tuple(sorted(self.isr)),
                tuple(sorted(self.brokers)),
                self.current.topic_id,
                "compact",
                self.now,
                int(settings[RETENTION]),
            )
            for broker in self.brokers.values()
        ]

    def seen(self, free: float) -> TopicSeen:
        shown = {}
        for broker in self.brokers.values():
            if broker.up:
                own = self.versions[broker.applied].settings
                shown[broker.id] = {
                    name: Shown(own.get(name, DEFAULTS[name]), name in own) for name in (RETENTION, RATIO, LAG)
                }
        is_in_sync = self.isr == set(self.brokers)
        in_sync = frozenset(Absentee(PLACE.partition, b) for b in self.isr)
        return TopicSeen(self.current.topic_id, shown, frozenset(self.isr), is_in_sync, free, in_sync=in_sync)


@dataclass(slots=True)
class Monitor:
    """A process with a clock and a guard; it dies, and begins again from what is on record."""

    rules: Rules
    skew: int
    clock: Clock = field(init=False)
    guard: Guard = field(init=False)
    looks: list[list[Look]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    late: list[tuple[int, Alter]] = field(default_factory=list)
    up: bool = True
    known: dict[int, int] = field(default_factory=dict)
    """By broker that is away, the bound as it was known when the hold was seen by every broker."""
    pauses: PauseWatch = field(init=False)
    held: dict[int, tuple[int, int, set[int]]] = field(default_factory=dict)
    """By broker that is away, and all others of which were seen to be held from before its bound on: that bound, what
    it had then, and all replicas."""
    wrong: set[int] = field(default_factory=set)
    """Those that came back to something wrong, and have to be called late."""
    late_ones: list[Late] = field(default_factory=list)
    """Those that the clock called late since that was checked last."""
    shown: list[tuple[int, int]] = field(default_factory=list)
    """When it looked at the topic's settings, and what retention the broker that it asked went by."""
    blind: int = 0
    """A broker that it can never read."""
    laps: dict[int, Lap] = field(default_factory=dict)
    readings: list[tuple[int, Reading]] = field(default_factory=list)
    """Those that are late, with when they come."""

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.up = True
        self.clock = Clock(self.skew, LOOK_MS, LOOK_MS)
        self.laps, self.readings = {}, []
        self._recall()
        self.guard = Guard(self.rules)
        self.guard.take_in(self.events)
        self.pauses = PauseWatch(self.events)
        self.held, self.wrong, self.late_ones = {}, set(), []

    def _recall(self) -> None:
        """Set the clock as `parallax.guard.recall` does, by a few of the looks."""
        if not self.looks:
            return
        newest = {look.broker: look for tick in self.looks for look in tick}
        absent = {broker for broker, look in newest.items() if broker not in look.isr}
        answers = {
            look.broker: look
            for tick in self.looks
            for look in tick
            if look.broker in absent and look.high_watermark is not None
        }
        last = {tick[0].leader_epoch: tick[0].at_ms for tick in self.looks}
        ends = []
        for topic_id, upto in {(one.topic_id, one.high_watermark) for one in answers.values()}:
            at = [
                look.at_ms
                for tick in self.looks
                for look in tick
                if look.broker == look.leader
                and look.log_end_offset is not None
                and look.log_end_offset <= upto
                and look.topic_id == topic_id
                and look.at_ms <= last[look.leader_epoch] - LOOK_MS
            ]
            ends += [Ended(PLACE, topic_id, max(at), upto)] if at else []
        seen: dict[int, list[int]] = {}
        for look, *_ in self.looks:
            if look.retention_ms is not None:
                seen.setdefault(look.retention_ms, []).append(look.at_ms)
        retentions = [(TOPIC, at, kept) for kept, times in seen.items() for at in (times[0], times[-1])]
        self.clock.recall(retentions, ends, [*newest.values(), *answers.values()])

    def observe(self, world: World) -> list[Late]:
        looks = world.looks()
        self.looks.append(looks)
        self.shown.append((world.now, int(world.view(world.leading)[RETENTION])))
        return self.clock.observe(looks)

    # -- pointed reads ---------------------------------------------------------------------------------------------

    def point(self, world: World) -> None:
        """Read what absent replicas lack: of some brokers, up to somewhere, and it may take a while to arrive."""
        rng = world.rng
        self.clock.read([reading for due, reading in self.readings if due <= world.now])
        self.readings = [one for one in self.readings if one[0] > world.now]
        absences = [one for one in self.clock.absences() if one.lacks_from is not None]
        if not any(one.bound_ms is not None and one.bound_ms > world.now for one in absences):
            return
        start = min(one.lacks_from for one in absences if one.lacks_from is not None)
        for broker in world.brokers.values():
            is_alone = len(absences) == 1 and absences[0].broker == broker.id
            if not broker.up or is_alone or broker.id == self.blind or rng.random() < 0.3:
                continue
            reading = self._read(world, broker, start)
            if rng.random() < 0.2:
                self.readings.append((world.now + rng.choice((2, 10, 30)) * SECOND, reading))
            else:
                self.clock.read([reading])

    def _read(self, world: World, broker: Broker, start: int) -> Reading:
        lap = self.laps.get(broker.id)
        is_of = (world.current.topic_id, world.epoch)
        if lap is None or (lap.topic_id, lap.leader_epoch) != is_of or lap.started > start:
            lap = self.laps[broker.id] = Lap(*is_of, start, start, start)
        lap.go_on(world.now, 1)
        end = max(broker.hw, lap.position)
        if world.rng.random() < 0.3:
            end = world.rng.randint(lap.position, end)
        lap.took(world.part(broker, lap.position, end))
        if end >= broker.hw:
            lap.end(world.now)
        world.done["reading"] += 1
        return lap.reading(PLACE, broker.id, world.now, stamps=not broker.is_old)


class History:
    """One history, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.retention = rng.choice((20, 60, 200)) * SECOND
        self.world = World(rng, self.retention)
        lead = self.retention * rng.choice((1, 1, 2)) // rng.choice((1, 2))
        rules = Rules(True, lead, 600 * SECOND, 10.0, 5 * SECOND, 2 * SECOND, mark=rng.randrange(1, 1_000_000, 2))
        self.monitors = [Monitor(rules, SKEW)]
        if rng.random() < 0.2:
            self.monitors.append(Monitor(replace(rules, mark=rng.randrange(1, 1_000_000, 2)), SKEW))
        for monitor in self.monitors:
            monitor.blind = rng.choice((0, 0, 1, 2, 3))
        self.free = 50.0
        self.has_person = rng.random() < 0.25
        self.has_gitops = rng.random() < 0.15
        self.recreates = rng.random() < 0.1
        self.theirs: list[dict[str, str | None]] = []
        self.dangerous = self.guarded = self.holds = 0
        self.missed: dict[int, list[Taken]] = {}
        """By broker that is away, what was taken that it lacks."""

    # -- the life of it --------------------------------------------------------------------------------------------

    def run(self, steps: int = 260) -> None:
        for _ in range(steps):
            self.step()
        self.settle()

    def step(self) -> None:
        world, rng = self.world, self.rng
        world.now += rng.choice((500, 1_000, 2_000))
        world.spread()
        roll = rng.random()
        if roll < 0.3:
            world.write()
        elif roll < 0.36:
            world.stop(rng.choice(list(world.brokers)), rng.choice((0, 0, 0, 0, 2)))
        elif roll < 0.42:
            world.start(rng.choice(list(world.brokers)))
        else:
            self._seldom(roll)
        world.replicate()
        self._check_return()
        absent = {b for b, broker in world.brokers.items() if broker.absent_from is not None}
        self.missed = {b: taken for b, taken in self.missed.items() if b in absent}
        self._clean()
        for monitor in self.monitors:
            self._round(monitor)

    def _seldom(self, roll: float) -> None:
        world, rng = self.world, self.rng
        if roll < 0.425:
            world.reassign()
        elif roll < 0.435 and self.has_person:
            self._person()
        elif roll < 0.445 and self.has_gitops:
            self._gitops()
        elif roll < 0.448 and self.recreates:
            world.recreate()
            self.missed = {}
            self._forget_bounds()
        elif roll < 0.455:
            self.free = rng.choice((5.0, 50.0, 50.0))

    def settle(self) -> None:
        """Everybody is back, nobody interferes, the guards run on."""
        self.free = 50.0
        for monitor in self.monitors:
            monitor.looks = monitor.looks[-100:]
            if not monitor.up:
                monitor.start()
        for _ in range(80):
            self.world.now += 2 * SECOND
            for broker in self.world.brokers:
                self.world.start(broker)
            self.world.slow = 0
            self.world.spread()
            self.world.replicate()
            self.missed = {}
            for monitor in self.monitors:
                self._round(monitor, calm=True)
        self._check_settings()

    # -- others ----------------------------------------------------------------------------------------------------

    def _person(self) -> None:
        name = self.rng.choice((RETENTION, RATIO, LAG))
        value = {RETENTION: "44000", RATIO: "0.25", LAG: "5000000"}[name] if self.rng.random() < 0.7 else None
        self.theirs.append({name: value})
        self.world.alter({name: value}, "a person")
        self._forget_bounds()

    def _gitops(self) -> None:
        wanted: dict[str, str | None] = {name: self.world.versions[0].settings.get(name) for name in DEFAULTS}
        if any(self.world.current.settings.get(name) != value for name, value in wanted.items()):
            self.theirs.append(wanted)
            self.world.alter(wanted, "gitops")
            self._forget_bounds()

    def _forget_bounds(self) -> None:
        for monitor in self.monitors:
            monitor.known = {}

    # -- cleaning, and what it takes -------------------------------------------------------------------------------

    def _clean(self) -> None:
        world = self.world
        for broker in world.brokers.values():
            if broker.running is not None and self.rng.random() < 0.5:
                for taken in world.end_pass(broker):
                    self._removed(broker, taken)
            elif self.rng.random() < broker.often:
                world.begin_pass(broker)

    def _check_return(self) -> None:
        """Nobody comes back to something wrong before its bound, nor after the topic was held for it."""
        for broker in self.world.wrong:
            self.world.done["came back wrong"] += 1
            for monitor in self.monitors:
                is_unforeseen = self._is_unforeseen(monitor, broker)
                self.world.done["came back wrong unforeseen"] += is_unforeseen
                for one in monitor.clock.absences():
                    if one.broker != broker or is_unforeseen:
                        continue
                    if one.bound_ms is not None and self.world.now < one.bound_ms:
                        raise Broken(f"broker {broker} came back wrong at {self.world.now}, bound {one.bound_ms}")
                    if monitor.up:
                        monitor.wrong.add(broker)
                if broker in monitor.known:
                    raise Broken(f"broker {broker} came back wrong although the topic was held for it")
        self.world.wrong = []

    def _is_unforeseen(self, monitor: Monitor, broker: int) -> bool:
        """Whether all that a broker misses went by a retention that a clock was not shown."""
        missed = self.missed.get(broker, [])
        return bool(missed) and all(taken.is_unforeseen_by(monitor.shown) for taken in missed)

    def _removed(self, cleaner: Broker, taken: Taken) -> None:
        """A tombstone is gone: nobody that is absent and lacks it may have counted on it."""
        offset, began = taken.offset, taken.began
        for broker in self.world.brokers.values():
            if broker.absent_from is None or broker.lost_tail or broker.leo > offset or broker is cleaner:
                continue
            self.dangerous += 1
            self.missed.setdefault(broker.id, []).append(taken)
            for monitor in self.monitors:
                is_unforeseen = taken.is_unforeseen_by(monitor.shown)
                for absence in monitor.clock.absences():
                    if absence.broker != broker.id or absence.bound_ms is None:
                        continue
                    # The monitor that is down still says what it said last.
                    if began < absence.bound_ms and not is_unforeseen:
                        raise Broken(f"offset {offset} went at {began}, bound {absence.bound_ms}")
                    self.world.done["unforeseen"] += began < absence.bound_ms
                if broker.id in monitor.known and began > monitor.known[broker.id]:
                    raise Broken(f"offset {offset} went although the topic was held for broker {broker.id}")

    def _note_sharper(self, monitor: Monitor, absences: list[Absence]) -> None:
        for one in absences:
            if one.bound_ms is not None and one.retention_ms is not None:
                plain = one.since_ms + one.retention_ms - monitor.skew
                self.world.done["sharper" if one.bound_ms > plain else "plain"] += 1

    # -- the guard -------------------------------------------------------------------------------------------------

    def _round(self, monitor: Monitor, *, calm: bool = False) -> None:
        world, rng = self.world, self.rng
        for due, alter in list(monitor.late):
            if calm or world.now >= due:
                monitor.late.remove((due, alter))
                world.alter(dict(alter.settings), "late guard")
        if not monitor.up:
            if rng.random() < 0.1:
                monitor.start()
                world.done["restart"] += 1
            return
        if not calm and rng.random() < 0.02:
            monitor.up = False
            return
        monitor.late_ones += monitor.observe(world)
        absences = monitor.clock.absences()
        self._note_sharper(monitor, absences)
        monitor.point(world)
        if TOPIC not in monitor.guard.topics(absences, world.now):
            return
        seen = world.seen(self.free)
        monitor.late_ones += monitor.clock.paused([monitor.pauses.of(TOPIC, seen, world.now, world.now)])
        self._check_late(monitor, seen)
        for action in monitor.guard.tick(world.now, {TOPIC: seen}, absences):
            self._do(monitor, action, calm=calm)
            if not monitor.up:
                return
        self._note_held(monitor)

    def _do(self, monitor: Monitor, action: Action, *, calm: bool) -> None:
        dies = not calm and self.rng.random() < 0.05
        if isinstance(action, Append):
            if dies and self.rng.random() < 0.5:
                monitor.up = False
                return
            event = replace(action.event, sequence=len(monitor.events) + 1)
            monitor.events.append(event)
            self.world.done[str(event.kind)] += 1
            monitor.guard.take_in([event])
            if event.kind in (EventKind.RELEASING, EventKind.OVERRULED, EventKind.ABANDONED):
                monitor.known = {}
        else:
            self._alter(monitor, action, calm=calm)
        if dies:
            monitor.up = False

    def _alter(self, monitor: Monitor, action: Alter, *, calm: bool) -> None:
        monitor.guard.asked(action, self.world.now)
        fate = 1.0 if calm else self.rng.random()
        if fate < 0.08:
            return  # it never came there
        if fate < 0.16:
            monitor.late.append((self.world.now + self.rng.choice((2, 20, 60)) * SECOND, action))
            return
        self.world.alter(dict(action.settings), "guard")
        if fate > 0.24:
            monitor.guard.answered(action)

    def _check_late(self, monitor: Monitor, seen: TopicSeen) -> None:
        """Nobody is called late for whom all others were held from before its bound on."""
        world = self.world
        paused = {
            b for b, own in seen.settings.items() if float(own[RATIO].value) >= 1 and int(own[LAG].value) >= 2**62
        }
        for late in monitor.late_ones:
            world.done["late"] += 1
            bound, _, replicas, _ = monitor.held.get(late.broker, (0, 0, set(), 0))
            if bound and replicas == world.brokers.keys() and replicas - {late.broker} <= paused:
                raise Broken(f"broker {late.broker} is called late, but was held for from before {bound}")
            monitor.clock.audited(PLACE, world.now + 1)
            monitor.wrong.discard(late.broker)
        monitor.late_ones = []
        if monitor.wrong - {one.broker for one in monitor.clock.unsettled()}:
            raise Broken(f"brokers {monitor.wrong} came back wrong and are not called late")
        away = {one.broker: one for one in monitor.clock.absences()}
        for broker, one in away.items():
            known = [t.began for t in self.missed.get(broker, ()) if not t.is_unforeseen_by(monitor.shown)]
            if known and not world.brokers[broker].lost_tail and (one.bound_ms or 0) > min(known):
                raise Broken(f"something went at {min(known)}, and the bound is said to be {one.bound_ms}")
        back = monitor.held.keys() - away.keys()
        world.done["back while held"] += sum(world.now >= monitor.held[broker][0] for broker in back)
        for broker, (_, had, replicas, since) in list(monitor.held.items()):
            has_lost = broker in away and (away[broker].lacks_from or 0) < had
            # A retention that was lowered since may have been in force on some broker before it was seen, and for as
            # long as brokers take to take it over nobody knows that it was not.
            lowered = world.lowered_since(since)
            is_earlier = bool(lowered) and broker in away and (away[broker].bound_ms or 0) < since
            is_earlier = is_earlier or any(at - since < SETTINGS_MS + TAKES_MS for at in lowered)
            if (
                broker in back
                or has_lost
                or is_earlier
                or replicas != world.brokers.keys()
                or not replicas - {broker} <= paused
            ):
                del monitor.held[broker]
        for broker, one in away.items():
            is_early = one.bound_ms is not None and one.lacks_from is not None and world.now < one.bound_ms
            # A retention that was lowered just now is not seen yet, and the bound is not what is said.
            is_early = is_early and (one.retention_ms or 0) <= world.current.retention
            if is_early and broker not in monitor.held and world.brokers.keys() - {broker} <= paused:
                monitor.held[broker] = one.bound_ms or 0, one.lacks_from or 0, set(world.brokers), world.now

    def _note_held(self, monitor: Monitor) -> None:
        hold = monitor.guard.record.holds.get(TOPIC)
        is_held = hold is not None and hold.phase is Phase.HELD and hold.level == 2 and not hold.left
        # Somebody may have put them back, and no broker shows it yet.
        now = self.world.current.settings
        if hold is None or not is_held or any(now.get(change.name) != change.ours for change in hold.changes):
            monitor.known = {}
            return
        away = {one.broker: one for one in monitor.clock.absences()}
        monitor.known = {b: at for b, at in monitor.known.items() if b in away}
        for broker, one in away.items():
            if broker not in monitor.known and one.bound_ms is not None and one.bound_ms > self.world.now:
                monitor.known[broker] = self.world.now
                self.guarded += 1

    # -- in the end ------------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        now, first = self.world.current.settings, self.world.versions[0].settings
        self.holds = self.world.done[str(EventKind.HELD)]
        for monitor in self.monitors:
            hold = monitor.guard.record.holds.get(TOPIC)
            if hold is not None and hold.is_open:
                raise Broken(f"a hold is open: {hold}")
        for name in DEFAULTS:
            value = now.get(name)
            if value is not None and is_marked(name, value):
                raise Broken(f"{name}={value} of a guard is left")
            allowed = [first.get(name)] + [one[name] for one in self.theirs if name in one]
            if value not in allowed and not any(
                a is not None and value is not None and float(a) == float(value) for a in allowed
            ):
                if name == RATIO and value is not None and float(value) >= 1 and self._has_lost_its_mark():
                    continue
                raise Broken(f"{name}={value} is neither the first value nor anybody's: {allowed}")

    def _has_lost_its_mark(self) -> bool:
        """Whether a person has set the lag beside a guard's ratio, which has no mark, and is known by its lag alone.

        Brokers that show nothing of a pause for more than half a minute make the guard take it for overruled, or for
        put back. Should it come all the same, and a person have set the lag by then, nobody can tell whose ratio it is.
        """
        return any(LAG in one for one in self.theirs)


__all__ = ["Broken", "History"]


def main() -> int:
    """Run histories, and say how many broke."""
    import argparse
    import time

    parser = argparse.ArgumentParser(description="Histories of guards.")
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    done: Counter[str] = Counter()
    broken, began = 0, time.monotonic()
    for seed in range(given.seed, given.seed + given.histories):
        history = History(seed)
        try:
            history.run()
        except Broken as error:
            broken += 1
            print(f"seed {seed}: {error}"[:300], flush=True)
        done += history.world.done
        done += Counter(dangerous=history.dangerous, guarded=history.guarded)
        if (seed + 1 - given.seed) % 1000 == 0:
            print(f"up to seed {seed}: {broken} broken, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{given.histories} histories in {time.monotonic() - began:.0f} s, {broken} broken; {dict(done)}")
    return int(broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
