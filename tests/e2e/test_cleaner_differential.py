"""The simulator's cleaner against a real broker's: the same logs, the same settings, the same result, pass by pass.

``PARALLAX_CLEANER_LOGS``, ``PARALLAX_CLEANER_SEED`` and ``PARALLAX_CLEANER_KAFKA`` make the long run longer, another
one, or one against another version of Kafka.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import pytest

from parallax.jars import DEFAULT_KAFKA_VERSION
from parallax.lab.cluster import Cluster
from tests.e2e.cleaner_lab import (
    BROKER,
    HOUR,
    NEVER_MS,
    SEGMENT_MS,
    SETTINGS,
    CleaningBroker,
    Log,
    Producer,
    Script,
    scripted,
)
from tests.simulation import replica as cleaning
from tests.simulation.records import Batch, End, Limits
from tests.simulation.replica import Replica

FEW = 48
LOGS = int(os.environ.get("PARALLAX_CLEANER_LOGS", "120"))
SEED = int(os.environ.get("PARALLAX_CLEANER_SEED", "1"))
VERSION = os.environ.get("PARALLAX_CLEANER_KAFKA", DEFAULT_KAFKA_VERSION)

pytestmark = pytest.mark.timeout(1200 + 2 * LOGS)

EXPIRE, END_ALL = "expire", "end all"
ROUNDS: tuple[int | str, ...] = (14, 5, 5, EXPIRE, END_ALL, 0, 0)
"""What comes before each pass: so many steps of writing, the expiry of idle producers, the end of all transactions."""

RETENTION = ((0,) * 7, (HOUR, HOUR, HOUR, 0, 0, 0, 0), (0, 0, HOUR, HOUR, HOUR, HOUR, HOUR))
"""``delete.retention.ms`` at each pass: a horizon that it sets goes by before the next pass, or never."""

TOPIC = {"cleanup.policy": "compact", "segment.ms": str(SEGMENT_MS), "message.timestamp.after.max.ms": str(2**63 - 1)}


# -- what the broker does ----------------------------------------------------------------------------------------------


@dataclass
class Pass:
    """One pass of the broker's cleaner over all logs."""

    expired_before: int
    """Producers that are idle since a time below this one were forgotten before the pass."""
    written: dict[str, Log]
    between: tuple[int, int]
    left: dict[str, Log]


@pytest.fixture(scope="module")
def passes() -> list[Pass]:
    """Some generated logs on a broker of their own, before and after each pass of its cleaner."""
    return cleaned(FEW)


def cleaned(logs: int) -> list[Pass]:
    print(f"seed {SEED}, {logs} logs, Kafka {VERSION}")
    topics = [f"log-{i:04}" for i in range(logs)]
    with Cluster(VERSION, brokers=1, settings=SETTINGS) as cluster:
        for schedule, some in by_schedule(topics).items():
            cluster.create_topics(some, config=TOPIC | {"delete.retention.ms": str(schedule[0])})
        broker = CleaningBroker(cluster, topics)
        try:
            with scripted(cluster, topics, random.Random(SEED)) as script:
                return [one_pass(broker, script, topics, number) for number in range(len(ROUNDS))]
        finally:
            broker.close()


def by_schedule(topics: Collection[str]) -> dict[tuple[int, ...], list[str]]:
    return {schedule: sorted(topics)[i :: len(RETENTION)] for i, schedule in enumerate(RETENTION)}


def one_pass(broker: CleaningBroker, script: Script, topics: Collection[str], number: int) -> Pass:
    """Write with the cleaner held, and let it make one pass."""
    for schedule, some in by_schedule(topics).items():
        if number and schedule[number] != schedule[number - 1]:
            broker.configure({"delete.retention.ms": str(schedule[number])}, some)
    before = ROUNDS[number]
    for _ in range(before if isinstance(before, int) else 0):
        script.step()
    if before == EXPIRE:
        broker.configure({"producer.id.expiration.ms": "1"})
    if before == END_ALL:
        for name in sorted(script.open):
            script.end(name, script.rng.choice([End.ABORT, End.COMMIT]))
    script.roll()
    broker.await_markers(script.open)
    expired_before = broker.await_expiry() if ROUNDS.index(EXPIRE) <= number else 0
    written = broker.logs()
    between = broker.clean(written)
    return Pass(expired_before, written, between, broker.logs())


# -- what the model says -----------------------------------------------------------------------------------------------


class Difference(AssertionError):  # noqa: N818 - a finding, not a failure of the program
    """The model says something else than the broker."""


@dataclass
class Modelled:
    """One log in the model."""

    topic: str
    retention: tuple[int, ...]
    replica: Replica = field(default_factory=lambda: Replica(BROKER, Limits(0, NEVER_MS, SEGMENT_MS)))
    horizons: set[int] = field(default_factory=set)
    written: list[Batch] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def follow(self, number: int, done: Pass) -> None:
        """Take in what the broker had before a pass, make the pass, and compare with the broker before and after it.

        Raises:
            Difference: with everything that is needed to understand it.
        """
        written, left = done.written[self.topic], done.left[self.topic]
        self._append(written)
        if done.expired_before:
            self.replica.limits = replace(self.replica.limits, producer_expiration=1)
            self.replica.expire(done.expired_before)
        self._compare(written, f"before pass {number + 1}")
        self._clean(left, self.retention[number], done.between)
        self._compare(left, f"after pass {number + 1}")

    def _append(self, log: Log) -> None:
        for batch in log.batches:
            if batch.base >= self.replica.leo:
                self.replica.append(batch)
                self.written.append(batch)
        self.replica.advance_hw(self.replica.leo)

    def _clean(self, left: Log, retention: int, between: tuple[int, int]) -> None:
        """Make the pass at the time of the broker's, which the delete horizons that it set tell."""
        self.replica.limits = replace(self.replica.limits, delete_retention=retention)
        found = {b.horizon for b in left.batches if b.horizon is not None}
        at = {horizon - retention for horizon in found - self.horizons} or {between[1]}
        if not (len(at) == 1 and between[0] <= min(at) <= between[1]):
            raise Difference(self._described(left, f"horizons show passes at {at}, it was between {between}"))
        self.horizons |= found
        before = self.replica.batches
        self.replica.clean(min(at))
        self._count(before)

    def _count(self, before: list[Batch]) -> None:
        """Remember which rules were at work, so that the test can tell that it saw them all."""
        after = {b.base: b for b in self.replica.batches}
        for old in before:
            new = after.get(old.base) or replace(old, marker=None, records=(), horizon=None)
            gone = old.base not in after
            deleted = [r for r in old.records if r.value is None and r not in new.records]
            self.seen["records dropped"] += len(old.records) - len(new.records)
            self.seen["tombstones dropped at their horizon"] += len(deleted) * (old.horizon is not None)
            self.seen["markers dropped"] += old.marker is not None and new.marker is None
            self.seen["horizons set"] += old.horizon is None and new.horizon is not None
            self.seen["data batches kept empty"] += bool(old.records) and not new.records and not gone
            self.seen["control batches kept empty"] += old.marker is not None and new.marker is None and not gone
            self.seen["empty data batches dropped"] += gone and not old.records and not old.control
            self.seen["empty control batches dropped"] += gone and old.marker is None and old.control

    def _compare(self, log: Log, when: str) -> None:
        replica = self.replica
        producers = {i: Producer(p.epoch, p.timestamp, p.first) for i, p in replica.producers.items()}
        for name, real, modelled in (
            ("batches", log.batches, replica.batches),
            ("segments", log.segments, replica.segments),
            ("aborted transactions", log.aborted, replica.aborted),
            ("producers", log.producers, producers),
            ("last stable offset", log.last_stable_offset, replica.lso),
            ("high watermark", log.high_watermark, replica.hw),
            ("first dirty offset", log.cleaned_to, replica.clean_to),
        ):
            if real != modelled:
                raise Difference(self._described(log, f"{when}: {name} differ:\nbroker {real}\nmodel  {modelled}"))

    def _described(self, log: Log, what: str) -> str:
        shown = [f"{self.topic} (seed {SEED}) {what}", "written:", *map(str, self.written)]
        shown += ["broker:", *map(str, log.batches), "model:", *map(str, self.replica.batches)]
        return "\n".join([*shown, f"segments {log.segments}, model {self.replica.segments}, {self.replica.limits}"])


def follow_all(passes: list[Pass]) -> Counter[str]:
    """Follow the broker in all logs through all passes; gives what the rules did."""
    seen: Counter[str] = Counter()
    for schedule, topics in by_schedule(passes[0].written).items():
        for topic in topics:
            log = Modelled(topic, schedule)
            for number, done in enumerate(passes):
                log.follow(number, done)
            seen.update(log.seen)
    return seen


# -- the tests ---------------------------------------------------------------------------------------------------------


def test_the_models_cleaner_leaves_what_a_brokers_cleaner_leaves(passes: list[Pass]) -> None:
    hold(passes)


@pytest.mark.release
def test_the_models_cleaner_leaves_what_a_brokers_cleaner_leaves_in_many_more_logs() -> None:
    hold(cleaned(LOGS))


def hold(passes: list[Pass]) -> None:
    try:
        seen = follow_all(passes)
    except Difference as difference:
        pytest.fail(str(difference), pytrace=False)
    print(", ".join(f"{count} {name}" for name, count in seen.items()))
    if VERSION.startswith("3."):  # no version 2 transactions, so no control batch that is its producer's last
        seen = Counter({name: count for name, count in seen.items() if "control batches" not in name})
    assert all(count >= 5 for count in seen.values()), f"rules that were hardly at work: {seen}"


def without_batch_at_bound(original: Callable[..., Batch | None]) -> Callable[..., Batch | None]:
    """Overlook that the last batch of a round is retained, even if it is empty (KAFKA-17076)."""

    def broken(replica: Replica, batch: Batch, *rest: object) -> Batch | None:
        *before, _, now = rest
        return original(replica, batch, *before, -1, now)

    return broken


BROKEN: dict[str, tuple[object, str, Callable[..., Callable[..., object]]]] = {
    "the last batch of a round is dropped like others": (Replica, "_filter", without_batch_at_bound),
    "no batch is kept for its producer's sake": (cleaning, "_is_last_of_producer", lambda _: lambda *_: False),
    "markers go while their data is there": (cleaning._Traversal, "control", lambda _: lambda *_: True),
    "aborted data is kept like committed": (
        cleaning._Traversal,
        "data",
        lambda original: lambda self, batch: original(self, batch) and False,
    ),
    "producers never expire": (Replica, "expire", lambda _: lambda *_: None),
    "the open segment of a transaction is cleaned": (Replica, "lso", lambda _: property(lambda r: r.hw)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_of_the_model_is_noticed(passes: list[Pass], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, function, broken = BROKEN[name]
    monkeypatch.setattr(owner, function, broken(getattr(owner, function)))
    with pytest.raises(Difference):
        follow_all(passes)
