"""Plays a scenario's scripts in one outage of broker 2, the victim, and checks each broker's replicas afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError, ScenarioFailed
from parallax.lab.scenarios.stage import LEADER, SURVIVORS, VICTIM, Cleaning, Divergence, Outage, Return, Script, Stage
from parallax.lab.traffic import PlainProducer, ProducerKind, transactional_producers
from parallax.lab.view import ReplicaView, read_replica
from parallax.lab.waiting import until
from parallax.model import FindingKind
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError

OutageKind = Literal["kill", "stop", "pause"]

Say = Callable[[str], None]
AwaitObserved = Callable[[str, int, int], None]
"""Called with (topic, offset, broker id); returns when a job has recorded that offset of that broker's replica."""

Write = Callable[[Stage], Script]

_SEGMENT_MS = 500
_RETENTION_MS = 1000
_SURVIVING_RETENTION_MS = 3_600_000
_FILLER_KEYS = 20
KEPT = {"min.compaction.lag.ms": "86400000"}
"""Topic settings under which no cleaner takes anything for a day."""
_CLEANING_SECONDS = 300.0
_EXTRA_PASSES = 4
"""A marker needs three passes at most. The healthy control gives the cleaner one more to take it wrongly."""

S = TypeVar("S", Outage, Cleaning, Return)


@dataclass(frozen=True)
class ExpectedFinding:
    """A divergence that a scenario has made and checked on the brokers: a job is expected to find it.

    ``broker`` is the id of the broker that is wrong. ``offset`` is that of the record that it shows wrongly, or wrongly
    lacks. If the broker is frozen, ``offset`` is its last stable offset. ``key`` is the record's key, or the id of the
    consumer group that the record is about.
    """

    kind: FindingKind
    topic: str
    partition: int
    broker: int
    offset: int | None
    key: str
    readable_at: float
    """When a reading of ``broker`` first showed it, in seconds since 1970 UTC."""


@dataclass(frozen=True)
class ScenarioResult:
    """What a scenario has left on the brokers.

    Attributes:
        name: the scenario's name.
        topics: the names of its topics.
        expected: the divergences that a job should find.
    """

    name: str
    topics: tuple[str, ...]
    expected: tuple[ExpectedFinding, ...]
    seconds: Mapping[str, float]
    """How many seconds each phase took, by the phase's name; ``whole`` is the whole scenario."""


@dataclass
class _Act:
    """One script on its topic."""

    stage: Stage
    script: Script
    cleaning: Cleaning = field(default_factory=lambda: Cleaning((), ()))
    homecoming: Return | None = None
    divergence: Divergence | None = None
    readable_at: float = 0.0

    def advance(self, step: type[S]) -> S:
        reached = next(self.script)
        if not isinstance(reached, step):
            raise TypeError(f"the script reached {reached}, not {step.__name__}")
        return reached

    def finish(self) -> None:
        try:
            next(self.script)
        except StopIteration as end:
            self.divergence = end.value


class Conductor:
    """Plays one scenario on one cluster, once: writes, takes broker 2 away, lets the others clean, and checks.

    Its arguments are those of `Scenario` and of `Scenario.run`.
    """

    def __init__(
        self,
        name: str,
        scripts: Mapping[str, Write],
        cluster: Cluster,
        *,
        diverges: bool,
        producer: ProducerKind,
        topic_prefix: str,
        say: Say,
        await_observed: AwaitObserved | None,
        hold_s: float,
        outage: OutageKind,
    ) -> None:
        self._name = name
        self._scripts = {f"{topic_prefix}{suffix}": write for suffix, write in scripts.items()}
        self._cluster = cluster
        self._diverges = diverges
        self._producer = producer
        self._say = say
        self._await_observed = await_observed
        self._hold_s = hold_s
        self._outage = outage
        self._seconds: dict[str, float] = {}
        self._client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=2000)
        self._plain = PlainProducer(cluster.bootstrap_servers)

    def play(self) -> ScenarioResult:
        """Play the scenario to its end; returns what it has left on the brokers.

        Raises:
            ScenarioFailed: the brokers did not diverge as planned; the text says what each shows.
            LabError: the brokers or the producers failed on the way.
        """
        started = time.monotonic()
        try:
            self._timed("topics", self._create_topics)
            with transactional_producers(self._cluster, self._producer, list(self._scripts)) as producers:
                acts = [self._act(topic, write, producers[topic]) for topic, write in self._scripts.items()]
                self._timed("before the outage", lambda: self._before(acts))
                self._timed("broker away", lambda: self._take_away(acts))
                self._timed("ended while away", lambda: self._while_away(acts))
                self._timed("cleaned", lambda: self._clean(acts))
                self._timed("after cleaning", lambda: self._after_cleaning(acts))
                self._timed("back and readable", lambda: self._bring_back(acts))
                self._timed("verified", lambda: self._verify(acts))
        finally:
            self._client.close()
        self._seconds["whole"] = time.monotonic() - started
        return self._result(acts)

    def _timed(self, phase: str, work: Callable[[], None]) -> None:
        started = time.monotonic()
        work()
        self._seconds[phase] = time.monotonic() - started

    # --- the phases ---------------------------------------------------------------------------------------------------

    def _create_topics(self) -> None:
        config = self._config()
        retention = config["delete.retention.ms"]
        self._say(f"creating {len(self._scripts)} compacted topics, delete.retention.ms={retention}")
        self._cluster.create_topics(list(self._scripts), replicas=[LEADER, VICTIM, 3], config=config)

    def _config(self) -> dict[str, str]:
        """Topic settings under which logs are cleaned within seconds."""
        retention = _RETENTION_MS if self._diverges else _SURVIVING_RETENTION_MS
        return {
            "cleanup.policy": "compact",
            "segment.ms": str(_SEGMENT_MS),
            "delete.retention.ms": str(retention),
            "min.cleanable.dirty.ratio": "0.001",
            "file.delete.delay.ms": "1000",
        }

    def _act(self, topic: str, write: Write, producer: object) -> _Act:
        stage = self._stage(topic, producer)
        return _Act(stage, write(stage))

    def _stage(self, topic: str, producer: Any) -> Stage:
        return Stage(topic, self._plain, producer, partial(self._read, topic=topic), partial(self._keep, topic))

    def _keep(self, topic: str) -> None:
        admin.set_topic_config(self._cluster, topic, KEPT)

    def _fill(self, topics: Collection[str]) -> None:
        """Write what makes the topics' active segments roll."""
        self._plain.fill(topics, _FILLER_KEYS)

    def _before(self, acts: Collection[_Act]) -> None:
        self._say(f"writing to {', '.join(self._scripts)} ({self._producer} transactions)")
        for act in acts:
            act.advance(Outage)
        self._observed(acts, (*SURVIVORS, VICTIM))

    def _take_away(self, acts: Collection[_Act]) -> None:
        self._say({"kill": "killing", "stop": "stopping", "pause": "pausing"}[self._outage] + f" broker {VICTIM}")
        self._lose_victim()
        self._cluster.wait_isr([act.stage.topic for act in acts], SURVIVORS)

    def _lose_victim(self) -> None:
        if self._outage == "kill":
            self._cluster.kill_broker(VICTIM)
        elif self._outage == "stop":
            self._cluster.stop_broker(VICTIM)
        else:
            self._cluster.pause_broker(VICTIM)

    def _while_away(self, acts: Collection[_Act]) -> None:
        self._say(f"broker {VICTIM} is out of the ISR: writing tombstones, ending transactions")
        for act in acts:
            act.cleaning = act.advance(Cleaning)
        self._observed(acts, SURVIVORS)
        if self._await_observed is None:
            time.sleep(self._hold_s)  # nobody says what is observed: give a monitor that may run the time of some polls

    def _clean(self, acts: Collection[_Act]) -> None:
        """Roll segments, so that the cleaners run, until the survivors' logs are as wanted."""
        lost = "the tombstones and markers are gone" if self._diverges else "compacted, tombstones and markers kept"
        self._say(f"letting brokers {SURVIVORS[0]} and {SURVIVORS[1]} clean their logs until {lost}")
        deadline = time.monotonic() + _CLEANING_SECONDS
        extra = 0 if self._diverges else _EXTRA_PASSES
        while True:
            left = [act for act in acts if not self._is_cleaned(act)]
            if not left:
                extra -= 1
            if extra < 0:
                break
            if time.monotonic() > deadline:
                raise self._failed(left or acts, f"the logs were not cleaned within {_CLEANING_SECONDS:.0f} s")
            self._tick(acts if self._diverges is False else left)
        if not self._diverges:
            self._check_evidence(acts)

    def _tick(self, acts: Collection[_Act]) -> None:
        """Close the active segments: an append rolls when it is more than segment.ms younger than the segment's first.

        Timestamps are the wall clock's, so the time has to pass; nothing on the brokers announces it.
        """
        time.sleep(_SEGMENT_MS / 1000 + 0.05)
        self._fill([act.stage.topic for act in acts])

    def _is_cleaned(self, act: _Act) -> bool:
        wanted = act.cleaning.superseded
        if self._diverges:
            wanted = [*wanted, *act.cleaning.evidence]
        return not any(self._read(b, act.stage.topic).holds(offset) for b in SURVIVORS for offset in wanted)

    def _check_evidence(self, acts: Collection[_Act]) -> None:
        for act in acts:
            views = [self._read(broker, act.stage.topic) for broker in SURVIVORS]
            if not all(view.holds(offset) for view in views for offset in act.cleaning.evidence):
                raise self._failed([act], "a tombstone or marker was cleaned before its time")

    def _after_cleaning(self, acts: Collection[_Act]) -> None:
        self._say("the producers of ended transactions go on to their next ones")
        for act in acts:
            act.homecoming = act.advance(Return)
        self._observed(acts, SURVIVORS)

    def _bring_back(self, acts: Collection[_Act]) -> None:
        self._say(f"bringing broker {VICTIM} back")
        self._return_victim()
        if self._diverges:
            self._watch_victim(acts)
        self._cluster.wait_isr([act.stage.topic for act in acts], (*SURVIVORS, VICTIM))

    def _return_victim(self) -> None:
        if self._outage == "pause":
            self._cluster.resume_broker(VICTIM)
        else:
            self._cluster.start_broker(VICTIM)

    def _watch_victim(self, acts: Collection[_Act]) -> None:
        """Read the victim again and again; note when each divergence can first be read."""
        waiting = list(acts)

        def all_seen() -> bool:
            for act in list(waiting):
                view = self._try_read(VICTIM, act.stage.topic)
                if view is not None and act.homecoming is not None and act.homecoming.wrong(view):
                    act.readable_at = time.time()
                    waiting.remove(act)
                    self._say(f"broker {VICTIM} now shows {act.stage.topic} wrongly")
            return not waiting

        try:
            until(all_seen, "the divergences")
        except LabError as error:
            raise self._failed(waiting, f"broker {VICTIM} does not diverge") from error

    def _verify(self, acts: Collection[_Act]) -> None:
        """Hold what each broker shows against what the script says, once all have caught up."""
        for act in acts:
            try:
                until(lambda act=act: self._caught_up(act), "equal high watermarks")  # type: ignore[misc]
            except LabError as error:
                raise self._failed([act], "the high watermarks stay apart") from error
            act.finish()
            views = self._views(act)
            home = act.homecoming
            if home is None or not all(home.right(views[broker]) for broker in SURVIVORS):
                raise self._failed([act], "the survivors do not show what was written")
            if self._diverges and not home.wrong(views[VICTIM]):
                raise self._failed([act], f"broker {VICTIM} no longer diverges")
            if not self._diverges and (home.wrong(views[VICTIM]) or not _agree(views)):
                raise self._failed([act], "the replicas differ in the healthy control")

    def _result(self, acts: Collection[_Act]) -> ScenarioResult:
        expected = [
            ExpectedFinding(
                act.divergence.kind,
                act.stage.topic,
                0,
                VICTIM,
                act.divergence.offset,
                act.divergence.key,
                act.readable_at,
            )
            for act in acts
            if self._diverges and act.divergence is not None
        ]
        return ScenarioResult(self._name, tuple(self._scripts), tuple(expected), dict(self._seconds))

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read(self, broker: int, topic: str) -> ReplicaView:
        """Read a replica that is up; a hiccup while brokers come and go is waited out.

        Raises:
            LabError: it does not answer for five minutes.
        """
        return until(lambda: self._try_read(broker, topic), f"broker {broker} to answer for {topic}")

    def _try_read(self, broker: int, topic: str) -> ReplicaView | None:
        try:
            return read_replica(self._client, broker, topic)
        except ReplicaError:
            return None

    def _views(self, act: _Act) -> dict[int, ReplicaView]:
        return {broker: self._read(broker, act.stage.topic) for broker in (*SURVIVORS, VICTIM)}

    def _caught_up(self, act: _Act) -> bool:
        return len({view.high_watermark for view in self._views(act).values()}) == 1

    def _observed(self, acts: Collection[_Act], brokers: Collection[int]) -> None:
        """Wait until these brokers have all that the scripts wrote, and the monitor, if there is one, has seen it."""
        for act in acts:
            for broker in brokers:
                last = act.stage.offsets[-1]
                until(
                    lambda act=act, broker=broker, last=last: self._read(broker, act.stage.topic).high_watermark > last,  # type: ignore[misc]
                    f"broker {broker} to have {act.stage.topic} up to offset {last}",
                )
                if self._await_observed is not None:
                    self._await_observed(act.stage.topic, last, broker)

    def _failed(self, acts: Collection[_Act], what: str) -> ScenarioFailed:
        seen = [self._try_read(b, act.stage.topic) for act in acts for b in (*SURVIVORS, VICTIM)]
        views = "; ".join(str(view) for view in seen if view is not None)
        return ScenarioFailed(f"scenario {self._name}: {what}. Seen: {views} (logs: {self._cluster.folder})")


def _agree(views: Mapping[int, ReplicaView]) -> bool:
    """Whether the replicas are alike to every consumer: by values, outcomes, or last stable offset."""
    reference = views[LEADER]
    for view in views.values():
        shared = reference.records.keys() & view.records.keys()
        if view.visible != reference.visible or view.last_stable_offset != reference.last_stable_offset:
            return False
        if any(view.records[offset] != reference.records[offset] for offset in shared):
            return False
    return True


__all__ = ["KEPT", "AwaitObserved", "Conductor", "ExpectedFinding", "OutageKind", "Say", "ScenarioResult"]
