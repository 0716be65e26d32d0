"""The guard on real brokers: scripts on topics that it holds and on others, and everything that comes between."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parallax.guard.command import open_holds, read_record
from parallax.guard.holds import LAG, RATIO, RETENTION, SETTINGS, EventKind, Hold, Phase
from parallax.guard.table import GuardTableError
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.scenarios.guarded import GUARDED, HELD
from parallax.lab.traffic import PlainProducer, ProducerKind
from parallax.lab.waiting import until
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from tests.e2e.job_process import JobProcess, await_exactly

pytestmark = pytest.mark.timeout(1500)

GUARD = {
    "mode": "act",
    "clock_skew_ms": 0,
    "settle_s": 3,
    "stagger_s": 0,
    "min_free_percent": 1,
}
READ = {"metadata_refresh_ms": 1000, "progress_interval_ms": 1000}
MADE = {"cleanup.policy": "compact", "delete.retention.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}


class Guarded:
    """A job with a guard, and what it has on record."""

    def __init__(self, lab: Cluster, folder: Path, pattern: str, **guard: object) -> None:
        self.lab = lab
        self.job = JobProcess(folder, lab.bootstrap_servers, pattern, guard=GUARD | guard, read=READ)
        self.client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers})

    def holds(self) -> list[Hold]:
        with contextlib.suppress(GuardTableError):
            return list(open_holds(read_record(self.job.storage)[0]))
        return []

    def kinds(self, topic: str) -> list[EventKind]:
        with contextlib.suppress(GuardTableError):
            return [e.kind for e in read_record(self.job.storage)[1] if e.topic == topic]
        return []

    def own(self, topic: str, broker: int = 1) -> dict[str, str]:
        shown = self.client.own_configs(broker, [topic], SETTINGS)[topic]
        assert isinstance(shown, dict)
        return {name: one.value for name, one in shown.items() if one.is_own}

    def await_held(self, topic: str) -> None:
        def held() -> bool:
            return any(hold.topic == topic and hold.phase is Phase.HELD for hold in self.holds())

        until(held, f"{topic} to be held", timeout=120)

    def await_released(self) -> None:
        until(lambda: not self.holds(), "everything to be let go of", timeout=120)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "parallax.cli", "guard", *words, "-c", str(self.job.config)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def guarded(kafka: Cluster, tmp_path: Path) -> Iterator[Callable[..., Guarded]]:
    made: list[Guarded] = []

    def make(pattern: str, **guard: object) -> Guarded:
        made.append(Guarded(kafka, tmp_path / "job", pattern, **guard))
        return made[-1]

    yield make
    for one in made:
        one.client.close()
        with one.job:
            pass


@pytest.mark.parametrize(
    ("version", "producer"),
    [
        pytest.param("4.2.1", "legacy", marks=pytest.mark.release),
        pytest.param("4.2.1", "java", marks=pytest.mark.release),
        pytest.param("3.9.1", "legacy", marks=pytest.mark.release),
        pytest.param("4.3.0", "java", marks=pytest.mark.release),
    ],
)
def test_of_ten_topics_in_one_outage_the_five_that_are_held_stay_alike(
    tmp_path: Path, version: str, producer: ProducerKind
) -> None:
    topics = [f"both.{HELD}{suffix}" for suffix in SCENARIOS["all"].scripts]
    with Cluster(version) as lab:
        one = Guarded(lab, tmp_path / "job", r"both\..*", topics=topics)
        with closing(one.client), one.job.start():
            result = GUARDED.run(lab, producer=producer, topic_prefix="both.", await_observed=one.job.await_observed)
            assert len(await_exactly(one.job, result)) == 5
            one.await_released()
            assert {topic for topic in topics if EventKind.HELD in one.kinds(topic)} == set(topics)
            untouched = [topic.replace(HELD, "open.") for topic in topics]
            assert [one.own(topic, broker) for topic in topics for broker in lab.brokers] == [
                one.own(topic, broker) for topic in untouched for broker in lab.brokers
            ]
            assert one.job.metric("parallax_guard_works") == 1.0


@pytest.mark.release
def test_a_job_that_is_killed_while_it_holds_goes_on_and_puts_everything_back(
    guarded: Callable[..., Guarded], kafka: Cluster, topic: str
) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3], config=MADE)
    one = guarded(topic)
    before = one.own(topic)
    one.job.start()
    until(lambda: one.job.metric("parallax_replica_high_watermark", topic=topic) is not None, "a look", timeout=120)
    kafka.stop_broker(2)
    try:
        PlainProducer(kafka.bootstrap_servers).send(topic, "key", "value")
        one.await_held(topic)
        assert one.own(topic)[RATIO] == "1.0"
        assert int(one.own(topic)[RETENTION]) > 72 * 3_600_000
        assert (
            one.job.metric("parallax_replica_removal_bound_timestamp_seconds", topic=topic, broker_id="2") is not None
        )
        one.job.kill()
    finally:
        kafka.start_broker(2)
    shown = one.command("status")
    assert f"{topic}: held" in shown.stdout
    assert f"--add-config {RETENTION}={before[RETENTION]},{RATIO}={before[RATIO]}" in shown.stdout
    one.job.start()
    one.await_released()
    assert one.own(topic) == before
    assert one.kinds(topic)[-2:] == [EventKind.RELEASING, EventKind.RELEASED]


def test_a_person_holds_and_lets_go_of_a_topic_without_a_job(
    guarded: Callable[..., Guarded], kafka: Cluster, topic: str
) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3], config=MADE)
    one = guarded(topic, mode="off")
    before = one.own(topic)
    nothing = one.command("status")
    assert nothing.returncode == 2
    assert "no guard has ever held anything here" in nothing.stderr
    held = one.command("hold", topic)
    assert held.returncode == 0, held.stderr
    assert f"{topic}: held" in held.stdout
    assert {RETENTION, RATIO, LAG} == one.own(topic).keys()
    assert one.command("release", "--all").returncode == 0
    assert one.own(topic) == before
    assert one.command("status").stdout == "nothing is held\n"


@pytest.mark.release
def test_what_a_person_sets_while_a_topic_is_held_stays(
    guarded: Callable[..., Guarded], kafka: Cluster, topic: str
) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3], config=MADE)
    one = guarded(topic)
    assert one.command("hold", topic).returncode == 0
    one.client.alter_configs(topic, {RETENTION: "1234000"})
    one.job.start()
    until(lambda: EventKind.OVERRULED in one.kinds(topic), "the change to be noticed", timeout=120)
    one.await_released()
    assert one.own(topic) == {RETENTION: "1234000", RATIO: MADE[RATIO]}


def test_brokers_say_how_much_space_is_left(kafka: Cluster, topic: str) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3])
    with closing(ReplicaClient({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        (found,) = client.log_dirs(2, [TopicPartition(topic, 0)])
        assert 0 < found.usable < found.total
        assert TopicPartition(topic, 0) in found.sizes


@pytest.mark.release
def test_an_outage_that_began_while_the_job_was_down_and_a_second_replica_that_is_lost_meanwhile(
    guarded: Callable[..., Guarded], kafka: Cluster, topic: str
) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3], config=MADE)
    one = guarded(topic)
    producer = PlainProducer(kafka.bootstrap_servers)
    producer.send(topic, "key", "value")
    one.job.start()
    one.job.await_observed(topic, 0, 2)
    before = one.own(topic)
    assert one.job.stop() == 0
    kafka.stop_broker(2)
    try:
        producer.send(topic, "key", "other")
        one.job.start()
        one.await_held(topic)
        kafka.kill_broker(3)
        time.sleep(5)
        kafka.start_broker(2)
        time.sleep(5)
        assert one.holds(), "the other one is still away"
    finally:
        with contextlib.suppress(Exception):
            kafka.start_broker(2)
        kafka.start_broker(3)
    one.await_released()
    assert one.own(topic) == before
