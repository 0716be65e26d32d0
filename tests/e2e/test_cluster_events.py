"""What happens to a cluster in its life, under the eyes of one job: only what is a divergence is reported."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from parallax.cli import app
from parallax.findings.finding import Finding
from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.scenarios import ScenarioResult, scripts
from parallax.lab.scenarios.conductor import Conductor
from parallax.lab.scenarios.group_offset import OFFSETS_TOPIC
from parallax.lab.traffic import LegacyTransactionalProducer
from parallax.lab.view import read_replica
from parallax.lab.waiting import until
from parallax.model import FindingKind
from parallax.replica.client import ReplicaClient, Watermarks
from parallax.views.positions import open_table
from tests.e2e import guarded
from tests.e2e.damaged import lose_index
from tests.e2e.job_process import JobProcess, expected_places, places
from tests.e2e.play import Part, play
from tests.reasons import UNTIL_AUDITED

pytestmark = pytest.mark.timeout(1500)

COMPACTED = {"cleanup.policy": "compact"}
QUICK = {"segment.ms": "500", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "1000"}
"""Cleaned within seconds."""

BEFORE = "event-before"
"""A topic that is minutes old, with a day's ``delete.retention.ms``, when the job first starts."""

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@pytest.fixture(scope="module")
def lab(hurt: Cluster) -> Cluster:
    return hurt


@pytest.fixture(autouse=True)
def _all_brokers_run(lab: Cluster) -> None:
    """Where a test failed with a broker down, the next ones still mean something."""
    all_run(lab)


def all_run(lab: Cluster) -> None:
    for number, broker in lab.brokers.items():
        if not broker.running:
            lab.start_broker(number)


@pytest.fixture(scope="module")
def watched(lab: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """The job; what a test calls healthy must have no finding in the end, however late."""
    lab.create_topic("consumed")
    lab.create_topic(BEFORE, replicas=[1, 2, 3], config=COMPACTED)
    written = LegacyTransactionalProducer(lab.bootstrap_servers, BEFORE)
    for value in ("a", "b", None):
        written.begin()
        written.send(BEFORE, "k", value)
        written.commit()
    admin.commit_offsets(lab, "first", "consumed", {0: 0})  # Kafka makes its topic of offsets at the first commit.
    lab.wait_isr(OFFSETS_TOPIC, {1, 2, 3})
    folder = tmp_path_factory.mktemp("job")
    more = {
        "topics": {"include": [OFFSETS_TOPIC]},
        "read": {"payload": "key"},
        "guard": guarded.GUARD,
        "findings": {"recheck_interval_s": 5},
    }
    with JobProcess(folder, lab.bootstrap_servers, r"event-.*", **more) as process:
        watched = Watched(lab, process.start())
        try:
            yield watched
            assert [f for f in process.findings() if f.topic in watched.healthy] == []
        finally:
            watched.client.close()


class Watched:
    """The job and the cluster that it watches."""

    def __init__(self, lab: Cluster, job: JobProcess) -> None:
        self.lab, self.job = lab, job
        self.client = ReplicaClient({"bootstrap.servers": lab.bootstrap_servers}, timeout_ms=30_000)
        self.healthy: set[str] = set()

    def write(self, topic: str, *values: str | None, key: str | None = "k", partition: int = 0) -> int:
        """Write records and give the offset behind the last."""
        settings = {"bootstrap.servers": self.lab.bootstrap_servers, "message.max.bytes": 8 << 20, "acks": "all"}
        producer = Producer(settings)
        ends: list[int] = []
        for value in values:
            producer.produce(
                topic,
                None if value is None else value.encode(),
                None if key is None else key.encode(),
                partition=partition,
                on_delivery=lambda error, message: ends.append(-1 if error else message.offset()),
            )
            producer.flush(180)
        assert len(ends) == len(values)
        assert min(ends) >= 0, f"{topic}: a record was not acknowledged"
        return max(ends) + 1

    def marks(self, broker: int, topic: str) -> Watermarks | None:
        """How far a replica goes; None while it does not say."""
        try:
            found = self.client.watermarks(broker, [(topic, 0)])[topic, 0]
        except Exception:  # noqa: BLE001 - the broker is on its way up
            return None
        return found if isinstance(found, Watermarks) else None

    def compared(self, topic: str, end: int, partition: int = 0) -> None:
        """Wait until all replicas are compared up to an offset, in both views."""
        labels = {"topic": topic, "partition": str(partition)}

        def position(level: str) -> float:
            found = self.job.metric("parallax_compared_up_to_offset", isolation_level=level, **labels)
            return -1 if found is None else found

        until(
            lambda: all(position(level) >= end for level in ISOLATION_LEVELS),
            f"{topic}-{partition} to be compared up to {end} (it is up to {[position(v) for v in ISOLATION_LEVELS]})",
            interval=0.5,
        )

    def without_finding(self, topic: str) -> None:
        """Nothing is reported of the topic now, nor at the end of all tests."""
        self.healthy.add(topic)
        assert [f for f in self.job.findings() if f.topic == topic] == []

    def unknown(self, topic: str) -> float:
        """Offsets without verdict, of both views together."""
        return self.job.unknown(topic) or 0.0

    def until_audited(self, topic: str) -> float:
        """Offsets that only an audit can tell of, of both views together."""
        asked = ({"topic": topic, "reason": str(reason)} for reason in UNTIL_AUDITED)
        return sum(self.job.metric("parallax_unknown_offsets", **labels) or 0.0 for labels in asked)

    def finding(self, topic: str, kind: FindingKind, broker: int) -> Finding:
        """Wait for a finding."""

        def found() -> list[Finding]:
            return [f for f in self.job.findings() if (f.topic, f.kind, f.broker) == (topic, kind, broker)]

        return until(found, f"{kind} on broker {broker} of {topic}", interval=0.5)[0]

    def standing(self, topic: str) -> set[tuple[FindingKind, int]]:
        """Kinds and brokers of the topic's findings that are not resolved."""
        return {(f.kind, f.broker) for f in self.job.findings() if f.topic == topic and f.is_open}

    @contextmanager
    def traffic(self, topic: str) -> Iterator[list[int]]:
        """Values and tombstones over some keys, until the end of the block; gives the offset reached."""
        reached, stop = [0], threading.Event()

        def write() -> None:
            for i in range(10**6):
                if stop.is_set():
                    return
                value = None if i % 7 == 0 else str(i)
                reached[0] = self.write(topic, value, key=f"key-{i % 5}")
                stop.wait(0.05)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield reached
        finally:
            stop.set()
            thread.join(240)


def test_a_first_start_and_a_new_topic_leave_nothing_unknown_that_no_cleaner_has_come_to(
    lab: Cluster, watched: Watched, topic: str
) -> None:
    new = f"event-{topic}"
    lab.create_topic(new, replicas=[1, 2, 3], config=COMPACTED)
    end = watched.write(new, "a", None, *map(str, range(20)))
    for name, compared in ((BEFORE, 6), (new, end)):
        watched.compared(name, compared)
        until(lambda name=name: watched.unknown(name) == 0.0, f"{name} to have no unknown offsets")  # type: ignore[misc]
        assert watched.until_audited(name) == 0.0, f"{name}: every offset of it was shown"
        watched.without_finding(name)


def test_brokers_restart_one_by_one_and_leaders_move_under_traffic(lab: Cluster, watched: Watched, topic: str) -> None:
    busy, idle = f"event-{topic}-busy", f"event-{topic}-idle"
    lab.create_topics([busy, idle], replicas=[1, 2, 3], config=COMPACTED)
    watched.write(idle, "here long before")
    with watched.traffic(busy) as reached:
        for broker in (2, 3, 1):
            admin.elect_leaders(lab, busy, broker=broker)
        for broker in (1, 2, 3):
            lab.stop_broker(broker)
            lab.wait_isr(busy, {1, 2, 3} - {broker})
            lab.start_broker(broker)
            lab.wait_isr([busy, idle], {1, 2, 3})
    watched.compared(busy, reached[0])
    watched.compared(idle, 1)
    for name in (busy, idle):
        watched.without_finding(name)
        until(lambda name=name: watched.unknown(name) == 0.0, f"{name} to have no unknown offsets")  # type: ignore[misc]


def test_an_open_transaction_large_records_and_null_keys_are_no_divergence(
    lab: Cluster, watched: Watched, topic: str
) -> None:
    held, large, keyless = (f"event-{topic}-{suffix}" for suffix in ("held", "large", "keyless"))
    lab.create_topic(held, replicas=[1, 2, 3], config=COMPACTED)
    lab.create_topic(large, replicas=[1, 2, 3], config={"max.message.bytes": str(8 << 20)})
    lab.create_topic(keyless, replicas=[1, 2, 3])
    producer = LegacyTransactionalProducer(lab.bootstrap_servers, held)
    producer.begin()
    first = producer.send(held, "in", "a transaction")
    watched.write(held, "behind it")
    large_end = watched.write(large, "x" * (3 << 20), "y" * (2 << 20))
    keyless_end = watched.write(keyless, "a", None, "c", key=None)
    watched.compared(large, large_end)
    watched.compared(keyless, keyless_end)
    watched.job.await_observed(held, first, 1)
    uncommitted = {"topic": held, "isolation_level": "read_uncommitted"}
    until(
        lambda: watched.job.metric("parallax_compared_up_to_offset", **uncommitted) == 2.0,
        "the open transaction to be compared as read_uncommitted",
    )
    frozen = watched.job.metric("parallax_replica_frozen_seconds", topic=held) or 0.0
    assert frozen == 0.0, "open on every replica: no replica is behind another"
    producer.commit()
    watched.compared(held, 3)
    for name in (held, large, keyless):
        watched.without_finding(name)


def test_a_log_truncated_by_an_unclean_election_is_found_although_it_has_grown_again(
    lab: Cluster, watched: Watched, topic: str
) -> None:
    name = f"event-{topic}"
    lab.create_topic(name, replicas=[1, 2], config=COMPACTED | {"unclean.leader.election.enable": "false"})
    kept = watched.write(name, "kept")
    watched.compared(name, kept)
    lab.stop_broker(2)
    lab.wait_isr(name, {1})
    lost = watched.write(name, "lost", "lost as well", key="l")
    watched.job.await_observed(name, lost - 1, 1)
    lab.stop_broker(1)
    lab.start_broker(2)
    lab.wait_ready()
    assert admin.elect_leaders(lab, name, unclean=True) == 2
    grown = watched.write(name, *"abcdef", key="g")
    assert grown > lost
    lab.start_broker(1)
    lab.wait_isr(name, {1, 2})
    finding = watched.finding(name, FindingKind.LOG_TRUNCATED, 1)
    assert finding.offset == kept
    assert "was truncated" in finding.summary
    evidence = json.loads(finding.evidence)
    assert evidence["replicas"]["1"]["epoch_ends"], "the log's own leader epochs prove it"
    watched.compared(name, grown)
    # Between its start and the cut the log of broker 1 really differs: who asks then finds that as well, for a while.
    until(lambda: not watched.standing(name) - {(FindingKind.LOG_TRUNCATED, 1)}, "nothing else to stand")
    found = {(f.kind, f.summary) for f in watched.job.findings() if f.topic == name}
    assert {kind for kind, _ in found} <= {FindingKind.LOG_TRUNCATED, FindingKind.CONTENT_MISMATCH}, found


@pytest.mark.release
def test_a_deletion_that_an_unclean_election_has_lost_is_found_within_minutes_of_an_audit(
    lab: Cluster, topic: str, tmp_path: Path
) -> None:
    """The stream has compared what lies below where the log was cut, and does not read it again."""
    name = f"audited-{topic}"
    config = COMPACTED | QUICK | {"delete.retention.ms": "86400000", "unclean.leader.election.enable": "false"}
    lab.create_topic(name, replicas=[1, 2], config=config)
    with JobProcess(tmp_path, lab.bootstrap_servers, f"{name}", audit={"unread_delay_s": 5}) as job:
        watched = Watched(lab, job.start())
        with closing(watched.client):
            watched.compared(name, watched.write(name, "deleted by one, and kept by the other"))
            lab.stop_broker(2)
            lab.wait_isr(name, {1})
            lost = watched.write(name, None)
            until(lambda: _is_cleaned(watched, name), "broker 1 to clean what was deleted")
            job.await_observed(name, lost - 1, 1)
            lab.stop_broker(1)
            lab.start_broker(2)
            lab.wait_ready()
            assert admin.elect_leaders(lab, name, unclean=True) == 2
            watched.write(name, "another", key="other")
            lab.start_broker(1)
            lab.wait_isr(name, {1, 2})

            def found() -> set[FindingKind]:
                return {f.kind for f in job.findings() if f.topic == name} - {FindingKind.LOG_TRUNCATED}

            until(found, "the deleted value to be found on one replica of two")


def _is_cleaned(watched: Watched, topic: str) -> bool:
    """Whether the first record is gone from broker 1; each look writes what the cleaner needs to go on."""
    watched.write(topic, "filler", key="filler")
    return not read_replica(watched.client, 1, topic).holds(0)


def rolled_back(lab: Cluster, topic: str, transactions: int) -> list[int]:
    """Write transactions of two records each that are aborted; gives the offset of the first record of each."""
    producer, firsts = LegacyTransactionalProducer(lab.bootstrap_servers, topic), []
    for i in range(transactions):
        producer.begin()
        firsts.append(producer.send(topic, f"key-{i}", "rolled back"))
        producer.send(topic, f"other-{i}", "rolled back")
        producer.abort()
    return firsts


def test_what_a_disk_lost_below_what_was_read_is_found_and_healed_by_a_new_copy(
    lab: Cluster, watched: Watched, topic: str
) -> None:
    name, aborted = f"event-{topic}", f"event-{topic}-aborted"
    # Segments of one record each, that no cleaner makes one.
    kept = {"segment.bytes": str(1 << 20), "min.compaction.lag.ms": "86400000", "max.message.bytes": str(8 << 20)}
    lab.create_topic(name, replicas=[1, 2, 3], config=COMPACTED | kept)
    for i in range(5):
        end = watched.write(name, "x" * (700 << 10), key=f"key-{i}")
    lab.create_topic(aborted, replicas=[1, 2, 3])
    firsts = rolled_back(lab, aborted, transactions=3)
    watched.compared(name, end)
    watched.compared(aborted, watched.write(aborted, "the last"))
    lab.stop_broker(2)
    lab.wait_isr((name, aborted), {1, 3})
    start = admin.lose_head(lab, 2, name, segments=3)
    assert start == 3
    lose_index(lab, 2, aborted)
    lab.start_broker(2)
    lab.wait_isr((name, aborted), {1, 2, 3})
    marks = until(lambda: watched.marks(2, name), "broker 2 to say where its log begins")
    assert marks.log_start_offset == start, "neither the leader nor the cleaner moves it back"
    finding = watched.finding(name, FindingKind.LOG_HEAD_MISSING, 2)
    assert finding.offset == start
    missing = {"topic": name, "reason": "log_start_differs", "isolation_level": "read_committed"}
    until(lambda: watched.job.metric("parallax_unknown_offsets", **missing) == start, "what is missing to be counted")
    contradicted = [(FindingKind.OUTCOME_CONTRADICTS_MARKER, 2, first) for first in firsts]

    def all_found() -> bool:
        found = [(f.kind, f.broker, f.offset) for f in watched.job.findings() if f.topic == aborted]
        return sorted(found) == contradicted

    until(all_found, "all that the lost index listed to be found", interval=0.5)
    counted = {"result": "committed"}
    until(lambda: watched.job.metric("parallax_spot_checks_total", **counted), "the check that found it to be counted")
    lab.stop_broker(2)
    for one in (name, aborted):
        admin.wipe_replica(lab, 2, one)
    lab.start_broker(2)
    lab.wait_isr((name, aborted), {1, 2, 3})
    until(lambda: not watched.standing(name) | watched.standing(aborted), "the new copy to have healed it")
    ended = [f for f in watched.job.findings() if f.topic in (name, aborted)]
    assert {json.loads(f.evidence)["resolution"] for f in ended} == {"healed"}
    assert len(ended) == 1 + len(firsts)


class _OnItsTopic(Conductor):
    """A scenario on a topic that has a history already."""

    def _create_topics(self) -> None:
        pass


def test_a_wiped_or_moved_replica_is_read_from_its_start_and_a_later_divergence_is_found(
    lab: Cluster, watched: Watched, topic: str
) -> None:
    name = f"event-{topic}"
    lab.create_topic(name, replicas=[1, 2, 3], config=COMPACTED | QUICK)
    end = watched.write(name, *map(str, range(30)), key="early")
    watched.compared(name, end)
    lab.kill_broker(2)
    admin.wipe_replica(lab, 2, name)
    lab.wait_isr(name, {1, 3})
    end = watched.write(name, "while it was away")
    lab.start_broker(2)
    lab.wait_isr(name, {1, 2, 3})
    watched.compared(name, end)
    admin.reassign(lab, name, replicas=[1, 3])
    end = watched.write(name, "without broker 2")
    watched.compared(name, end)
    admin.reassign(lab, name, replicas=[1, 3, 2])
    end = watched.write(name, "with broker 2 again")
    # What is read of the others before that is compared without broker 2, and is unknown of it.
    until(lambda: hosts(watched.job, name) == {1, 2, 3}, "the job to know that broker 2 hosts it")
    watched.compared(name, end)
    assert [f for f in watched.job.findings() if f.topic == name] == []
    conductor = _OnItsTopic(
        "resurrected",
        {name: scripts.deleted_record_resurrected},
        lab,
        diverges=True,
        producer="legacy",
        topic_prefix="",
        say=lambda _: None,
        await_observed=watched.job.await_observed,
        hold_s=0.0,
        outage="kill",
    )
    result = conductor.play()

    def reported() -> list[tuple[str, str, int, int]]:
        return places([f for f in watched.job.findings() if f.topic == name])

    until(lambda: reported() == expected_places(result.expected), "the tombstone's loss, and nothing else")


def hosts(job: JobProcess, topic: str) -> set[int]:
    """The brokers that host partition 0 of a topic, as the job has recorded last."""
    columns = ["topic", "partition", "observed_at", "replicas"]
    table = open_table(job.storage, "replica_progress").to_pyarrow_table(columns=columns)
    rows = table.filter((pc.field("topic") == topic) & (pc.field("partition") == 0)).to_pylist()
    return set(max(rows, key=lambda row: row["observed_at"])["replicas"] or ())


def test_topics_re_created_partitions_added_brokers_that_come_and_go(
    lab: Cluster, watched: Watched, topic: str
) -> None:
    name = f"event-{topic}"

    def reachable(broker: int) -> float | None:
        return watched.job.metric("parallax_broker_reachable", broker_id=str(broker))

    lab.create_topic(name, replicas=[1, 2, 3], config=COMPACTED)
    watched.compared(name, watched.write(name, *"abcde"))
    admin.recreate_topic(lab, name, replicas=[1, 2, 3], config=COMPACTED)
    watched.write(name, "another a", "another b")
    until(
        lambda: watched.job.metric("parallax_compared_up_to_offset", topic=name, isolation_level="read_committed") == 2,
        "the new topic to be compared",
    )
    admin.add_partitions(lab, name, 2, replicas=[3, 1, 2])
    watched.compared(name, watched.write(name, "in the new partition", partition=1), partition=1)
    fourth = lab.add_broker()
    try:
        admin.reassign(lab, name, replicas=[1, 2, fourth])
        watched.compared(name, watched.write(name, "on the new broker"))
        lab.kill_broker(fourth)
        until(lambda: reachable(fourth) == 0.0, "the new broker to be reported as away")
        until(lambda: fourth not in lab.admin.list_topics(timeout=60).brokers, "it to leave the metadata")
        said = f"broker {fourth}: it is no live broker of the cluster, and {name}-0 are assigned to it"
        command = ["check", "-c", str(watched.job.config)]
        # It asks any broker, and each learns of it a moment after the controller.
        until(lambda: said in CliRunner().invoke(app, command).output, f"the check to say: {said}")
    finally:
        admin.reassign(lab, name, replicas=[1, 2, 3])
        lab.remove_broker(fourth)
    watched.compared(name, watched.write(name, "without it"))
    watched.without_finding(name)
    until(lambda: reachable(fourth) is None, "what no partition is assigned to to be forgotten")


def test_deleted_records_retention_and_a_changed_policy_are_no_divergence(
    lab: Cluster, watched: Watched, topic: str
) -> None:
    asked, aged, both, changed = (f"event-{topic}-{suffix}" for suffix in ("asked", "aged", "both", "changed"))
    old = {"segment.ms": "500", "retention.ms": "1000", "file.delete.delay.ms": "100"}
    lab.create_topic(asked, replicas=[1, 2, 3], config={"cleanup.policy": "compact,delete"})
    lab.create_topic(aged, replicas=[1, 2, 3], config=old)
    lab.create_topic(both, replicas=[1, 2, 3], config=QUICK | old | {"cleanup.policy": "compact,delete"})
    lab.create_topic(changed, replicas=[1, 2, 3], config=QUICK)
    ends = {name: watched.write(name, *"abcdef") for name in (asked, aged, both, changed)}
    admin.delete_records(lab, asked, before=4)
    admin.set_topic_config(lab, changed, {"cleanup.policy": "compact"})

    def rolled() -> bool:
        """Append until old segments are gone everywhere: a segment is closed by the next record."""
        for name in (aged, both, changed):
            ends[name] = watched.write(name, "newer")
        starts = [watched.marks(b, name) for name in (aged, both) for b in (1, 2, 3)]
        return all(marks is not None and marks.log_start_offset >= 6 for marks in starts)

    until(rolled, "retention to delete on every replica", interval=0.6)
    admin.set_topic_config(lab, changed, {"cleanup.policy": "delete"})
    ends[changed] = watched.write(changed, "again", "and again")
    for name, end in ends.items():
        watched.compared(name, end)
        watched.without_finding(name)


@pytest.fixture(scope="module")
def last_outage(lab: Cluster, watched: Watched) -> list[ScenarioResult]:
    """One more outage, of a broker that misses what happens to a consumer group, and to topics that a guard holds."""
    all_run(lab)
    seen = watched.job.await_observed
    parts = [
        Part("group-offset", "last-", await_observed=seen),
        Part(guarded.PATIENT, guarded.PREFIX, await_observed=seen),
    ]
    try:
        return play(lab, parts)
    except LabError as error:
        error.add_note(guarded.what_the_guard_knew(watched.job))
        raise


def test_the_offset_of_a_deleted_consumer_group_that_is_alive_again_is_found(
    watched: Watched, last_outage: list[ScenarioResult]
) -> None:
    (expected,) = last_outage[0].expected
    finding = watched.finding(OFFSETS_TOPIC, FindingKind.DELETED_RECORD_RESURRECTED, 2)
    assert f"the offset of consumer group {expected.key} for last-consumed-0" in finding.summary


def test_of_two_topics_in_one_outage_the_one_that_the_guard_holds_stays_alike(
    lab: Cluster, watched: Watched, last_outage: list[ScenarioResult]
) -> None:
    guarded.assert_kept(lab, watched.job, last_outage[1])
