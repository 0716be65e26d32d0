"""The guard on real brokers: scripts on topics that it holds and on others, and everything that comes between."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from parallax.cli import app
from parallax.config import GuardSettings
from parallax.guard.command import read_record
from parallax.guard.holds import LAG, RATIO, RETENTION, SETTINGS, EventKind, Hold, Phase, open_holds
from parallax.guard.run import GuardRounds
from parallax.lab.admin import delete_topics
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.scenarios import SCENARIOS
from parallax.lab.scenarios.guarded import GUARDED, HELD
from parallax.lab.traffic import PlainProducer, ProducerKind
from parallax.lab.waiting import until
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.views.event_log import EventLogError
from tests.builders.absences import absence
from tests.e2e import witness
from tests.e2e.clocked import in_words, watched
from tests.e2e.guarded import QUICK
from tests.e2e.job_process import JobProcess, await_exactly
from tests.e2e.kafka_tools import run_as_written

pytestmark = pytest.mark.timeout(1500)

READ = {"metadata_refresh_ms": 1000, "progress_interval_ms": 1000}
MADE = {"cleanup.policy": "compact", "delete.retention.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}


class Guarded:
    """A job with a guard, and what it has on record."""

    def __init__(self, lab: Cluster, folder: Path, pattern: str, **guard: object) -> None:
        self.lab = lab
        self.job = JobProcess(folder, lab.bootstrap_servers, pattern, guard=QUICK | guard, read=READ)
        self.client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)

    def holds(self) -> list[Hold]:
        with contextlib.suppress(EventLogError):
            return list(open_holds(read_record(self.job.storage)[0]))
        return []

    def kinds(self, topic: str) -> list[EventKind]:
        with contextlib.suppress(EventLogError):
            return [e.kind for e in read_record(self.job.storage)[1] if e.topic == topic]
        return []

    def own(self, topic: str, broker: int = 1) -> dict[str, str]:
        shown = self.client.own_configs(broker, [topic], SETTINGS)[topic]
        assert isinstance(shown, dict)
        return {name: one.value for name, one in shown.items() if one.is_own}

    def await_held(self, topic: str) -> None:
        def held() -> bool:
            return any(hold.topic == topic and hold.phase is Phase.HELD for hold in self.holds())

        until(held, f"{topic} to be held")

    def await_released(self) -> None:
        until(lambda: not self.holds(), "everything to be let go of")

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "parallax.cli", "guard", *words, "-c", str(self.job.config)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


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


@pytest.mark.release
@pytest.mark.parametrize(
    ("version", "producer"), [("4.2.1", "legacy"), ("4.2.1", "java"), ("3.9.1", "legacy"), ("4.3.0", "java")]
)
def test_of_ten_topics_in_one_outage_the_five_that_are_held_stay_alike(
    tmp_path: Path, version: str, producer: ProducerKind
) -> None:
    topics = [f"both.{HELD}{suffix}" for suffix in SCENARIOS["all"].scripts]
    with witness.witnessed(version) as lab:
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
        # By the brokers' logs: nothing else was ever changed, of no other topic.
        by, change = '"clientId":"parallax"', "INCREMENTAL_ALTER_CONFIGS"
        assert witness.kinds(lab, by) - witness.READING == {"DESCRIBE_LOG_DIRS", change}
        changed = {
            resource["resourceName"]
            for asked in witness.requests(lab, by)
            if asked["requestHeader"]["requestApiKeyName"] == change
            for resource in asked["request"]["resources"]
        }
        assert changed == set(topics)


@pytest.mark.release
@pytest.mark.parametrize(("version", "producer"), [("4.2.1", "legacy"), ("3.9.1", "legacy"), ("4.3.0", "java")])
def test_nothing_goes_before_its_bound_and_where_horizons_are_read_it_goes_within_a_pass(
    version: str, producer: ProducerKind
) -> None:
    with Cluster(version) as lab:
        seen = watched(lab, producer)
    print(in_words(seen))
    assert len(seen) == 5
    for topic, one in seen.items():
        assert one.gone_at, topic
        latest = max(bound for _, bound in one.bounds)
        assert latest <= one.gone_at, f"{topic}: {one}"
        # A pass begins with each tick of the play, of half a second and what a busy machine makes of it.
        assert one.horizon is None or one.gone_at - latest < 10, f"{topic}: {one}"
    # The cleaner stamps an end marker once nothing of its transaction is left. That of `commit` has a tombstone of its
    # own, which has to run out first: by then the bound by looks has passed, and it has been read without a horizon.
    unread = {topic for topic, one in seen.items() if one.horizon is None}
    assert unread <= {"clocked.commit"}, "of all others horizons are read"


NOTHING_HELD = "; the guard is off (guard.mode: off)\n"


@pytest.mark.release
def test_a_job_that_is_killed_while_it_holds_goes_on_and_puts_everything_back(
    guarded: Callable[..., Guarded], kafka: Cluster, topic: str
) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3], config=MADE)
    one = guarded(topic)
    before = one.own(topic)
    one.job.start()
    until(lambda: one.job.metric("parallax_replica_high_watermark", topic=topic) is not None, "a look")
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


class Typist:
    """Types ``parallax guard`` for one storage path, in this process."""

    def __init__(self, folder: Path, bootstrap_servers: str, timeout_ms: int = 30_000) -> None:
        self.storage = str(folder / "data")
        self.config = folder / "parallax.yaml"
        folder.mkdir()
        document = {
            "kafka": {"bootstrap.servers": bootstrap_servers},
            "topics": {"pattern": ".*"},
            "storage": {"path": self.storage},
            "guard": {"min_free_percent": 1},
            "read": {"request_timeout_ms": timeout_ms},
        }
        self.config.write_text(yaml.safe_dump(document))

    def __call__(self, *words: str) -> str:
        """What is printed where it is done."""
        ended = CliRunner().invoke(app, ["guard", *words, "-c", str(self.config)])
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    def wrong(self, *words: str) -> str:
        """The one line of what is not done."""
        ended = CliRunner().invoke(app, ["guard", *words, "-c", str(self.config)])
        assert (ended.exit_code, ended.stdout) == (2, ""), ended.output
        (line,) = ended.stderr.splitlines()
        return line

    @property
    def asked(self) -> list[EventKind]:
        """What is on record."""
        with contextlib.suppress(EventLogError):
            return [event.kind for event in read_record(self.storage)[1]]
        return []


def test_a_person_holds_and_lets_go_of_a_topic_without_a_job(
    guarded: Callable[..., Guarded], kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3], config=MADE)
    lab, one = guarded(topic), Typist(tmp_path / "one", kafka.bootstrap_servers)
    before = lab.own(topic)
    command = [sys.executable, "-m", "parallax.cli", "guard", "hold", topic, "-c", str(one.config)]
    held = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert held.returncode == 0, held.stderr
    assert f"{topic}: held" in held.stdout
    assert "no job with guard.mode: act runs on this storage path" in held.stderr
    assert {RETENTION, RATIO, LAG} == lab.own(topic).keys()
    assert f"{topic}: released" in one("release", "--all")
    assert lab.own(topic) == before
    assert one("status").endswith(NOTHING_HELD)


def test_what_a_tired_person_types_is_done_or_refused_in_one_line(
    kafka: Cluster, guarded: Callable[..., Guarded], topic: str, tmp_path: Path
) -> None:
    kafka.create_topics([topic, f"{topic}.2"], replicas=[1, 2, 3], config=MADE)
    one, other = Typist(tmp_path / "one", kafka.bootstrap_servers), Typist(tmp_path / "other", kafka.bootstrap_servers)
    lab = guarded(topic)
    await_known(lab, topic)
    before = lab.own(topic)
    nobody = Typist(tmp_path / "nobody", "127.0.0.1:1", 1000)
    assert "no broker answered within 1000 ms" in nobody.wrong("hold", topic)
    assert "no job has ever used this storage" in nobody.wrong("release", "--all")
    assert nobody.asked == [], "nothing is put on record that no cluster has heard of"
    assert (
        one.wrong("hold", "ordres") == "parallax: guard hold ordres: no such topic or partition; check the topic's name"
    )
    kafka.create_topic(f"{topic}.log", replicas=[1, 2, 3])
    assert "cleanup.policy is delete: nothing of it is compacted" in one.wrong("hold", f"{topic}.log")
    assert "give either a topic or --all" in one.wrong("release")
    assert "give either a topic or --all" in one.wrong("release", topic, "--all")
    assert one.wrong("release", topic) == f"parallax: guard release {topic}: it is not held; nothing is"
    assert f"{topic}: held since" in one("hold", topic)
    assert f"{topic}: held since" in one("hold", topic), "twice is as good"
    assert one.wrong("release", "ordres") == f"parallax: guard release ordres: it is not held; held are {topic}"
    assert "held by another guard: delete.retention.ms=" in other.wrong("hold", topic)
    assert other.asked[-1] is EventKind.REFUSED
    shown = json.loads(one("status", "--format", "json"))
    assert [hold["topic"] for hold in shown["holds"]] == [topic]
    # What is printed to be run by hand does what it says, and the guard takes it for a person's.
    run_as_written(shown["holds"][0]["undo"], tmp_path)
    until(lambda: all(lab.own(topic, b) == before for b in kafka.brokers), "every broker to show it")
    said = one("release", topic)
    assert f"somebody else has set {RETENTION}={before[RETENTION]}" in said
    assert lab.own(topic) == before
    assert one("status").endswith(NOTHING_HELD)
    # What a person sets meanwhile stays, and all else is put back.
    one("hold", f"{topic}.2")
    lab.client.alter_configs(f"{topic}.2", {RETENTION: "1234000"})
    shows = [functools.partial(lab.own, f"{topic}.2", broker) for broker in kafka.brokers]
    until(lambda: all(own().get(RETENTION) == "1234000" for own in shows), "every broker to show it")
    assert f"somebody else has set {RETENTION}=1234000, which is left alone" in one("release", "--all")
    assert lab.own(f"{topic}.2") == before | {RETENTION: "1234000"}


def test_a_topic_that_is_re_created_while_it_is_held_keeps_its_own_settings(
    kafka: Cluster, guarded: Callable[..., Guarded], topic: str, tmp_path: Path
) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3], config=MADE)
    one, lab = Typist(tmp_path / "one", kafka.bootstrap_servers), guarded(topic)
    await_known(lab, topic)
    one("hold", topic)
    delete_topics(kafka, [topic])
    other = MADE | {"delete.retention.ms": "700000"}
    kafka.create_topics([topic], replicas=[1, 2, 3], config=other)
    assert "released" in one("release", topic)
    assert lab.own(topic) == {RETENTION: "700000", RATIO: MADE[RATIO]}
    assert one.asked[-1] is EventKind.ABANDONED


def await_known(lab: Guarded, topic: str) -> None:
    """Wait until each broker shows the topic's settings and its log, or the guard would have to refuse a hold."""
    place = TopicPartition(topic, 0)

    def known(broker: int) -> bool:
        settings = lab.client.own_configs(broker, [topic], SETTINGS)[topic]
        return isinstance(settings, dict) and any(
            place in found.sizes for found in lab.client.log_dirs(broker, [place])
        )

    until(lambda: all(known(broker) for broker in lab.lab.brokers), f"{topic} to be known to all brokers")


@contextlib.contextmanager
def rounds_of(lab: Guarded, storage: str, topic: str) -> Iterator[GuardRounds]:
    """The guard of a job, a round at a time, while a replica is away whose bound is near."""
    near = int(time.time() * 1000) + 600_000
    away = absence(2, topic, lacks_from=0, since_ms=0, retention_ms=1, bound_ms=near)
    settings = GuardSettings(mode="act", min_free_percent=1)
    with closing(GuardRounds(settings, storage, lab.client, lambda: [away])) as rounds:
        yield rounds


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_guard_that_dies_between_two_steps_leaves_what_the_next_one_puts_back(
    kafka: Cluster, guarded: Callable[..., Guarded], topic: str, tmp_path: Path, after: int
) -> None:
    kafka.create_topic(topic, replicas=[1, 2, 3], config=MADE)
    lab, one = guarded(topic), Typist(tmp_path / "one", kafka.bootstrap_servers)
    await_known(lab, topic)
    before = lab.own(topic)
    with rounds_of(lab, one.storage, topic) as rounds:
        for _ in range(after):
            rounds.round()
    assert one.asked[0] is EventKind.INTENDED, "on record before anything is asked for"
    until(lambda: (lab.own(topic) == before) is (after == 1), "broker 1 to show what was asked for")
    assert topic in one("status")
    assert "the settings are as they were" in one("release", topic)
    assert lab.own(topic) == before


def test_a_tool_that_reverts_what_is_held_wins_once_and_for_all(
    kafka: Cluster, guarded: Callable[..., Guarded], topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, replicas=[1, 2, 3], config=MADE)
    lab, storage = guarded(topic), str(tmp_path / "data")
    await_known(lab, topic)
    before = lab.own(topic)

    def revert() -> None:
        lab.client.alter_configs(topic, {name: before.get(name) for name in SETTINGS})

    with rounds_of(lab, storage, topic) as rounds:

        def reached(kind: EventKind) -> bool:
            rounds.round()
            return read_record(storage)[1][-1].kind is kind

        until(lambda: reached(EventKind.HELD), "it to be held")
        revert()
        until(lambda: reached(EventKind.RELEASED), "it to be let go of")
        for _ in range(5):
            rounds.round()
    kinds = [event.kind for event in read_record(storage)[1]]
    assert [kind for kind in kinds if kind is not EventKind.SET] == [
        EventKind.INTENDED,
        EventKind.HELD,
        EventKind.OVERRULED,
        EventKind.RELEASING,
        EventKind.RELEASED,
    ], "an alert and no loop"
    assert lab.own(topic) == before


@pytest.mark.release
def test_what_a_person_sets_while_a_topic_is_held_stays(
    guarded: Callable[..., Guarded], kafka: Cluster, topic: str
) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3], config=MADE)
    one = guarded(topic)
    assert one.command("hold", topic).returncode == 0
    one.client.alter_configs(topic, {RETENTION: "1234000"})
    one.job.start()
    until(lambda: EventKind.OVERRULED in one.kinds(topic), "the change to be noticed")
    one.await_released()
    assert one.own(topic) == {RETENTION: "1234000", RATIO: MADE[RATIO]}


def test_brokers_say_how_much_space_is_left(kafka: Cluster, topic: str) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3])
    with closing(ReplicaClient({"bootstrap.servers": kafka.bootstrap_servers}, timeout_ms=30_000)) as client:
        (found,) = client.log_dirs(2, [TopicPartition(topic, 0)])
        assert 0 < found.usable < found.total
        assert TopicPartition(topic, 0) in found.sizes


@pytest.mark.release
def test_the_guard_holds_for_an_outage_from_before_the_job_and_for_a_second_lost_replica(
    guarded: Callable[..., Guarded], kafka: Cluster, topic: str
) -> None:
    kafka.create_topics([topic], replicas=[1, 2, 3], config=MADE)
    one = guarded(topic)
    producer = PlainProducer(kafka.bootstrap_servers)
    producer.send(topic, "key", "value")
    one.job.start()
    for broker in ("1", "2", "3"):
        # What the next start goes by: how far each replica had come while all were there.
        until(
            lambda broker=broker: one.job.metric("parallax_replica_high_watermark", topic=topic, broker_id=broker) == 1,
            f"the progress of broker {broker} to be on record",
        )
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
        for broker in (2, 3):
            with contextlib.suppress(LabError):  # it runs already
                kafka.start_broker(broker)
    one.await_released()
    assert one.own(topic) == before
