"""What ``parallax check`` says; with rights on a real broker: tests/e2e/test_replica_security.py."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from parallax import check as module
from parallax.check import Line, Result, _storage, check, exit_code
from parallax.config import Settings
from parallax.guard.holds import Change, Event, EventKind
from parallax.guard.table import GuardTable
from parallax.model import MissingRight, TopicPartition
from parallax.repair.record import Event as RepairEvent
from parallax.repair.record import EventKind as RepairEventKind
from parallax.repair.table import RepairTable
from parallax.replica.changes import MARKER_RIGHTS, MayRepair
from parallax.replica.client import PartitionMetadata, TopicMetadata, Watermarks
from parallax.replica.errors import NotABroker, NotHosted, OtherCluster, ReplicaError, Unauthorized, Unreachable
from parallax.replica.types import Greeting, LogDir, ProducerState, TransactionListing, TransactionListings
from parallax.views.binding import bind
from parallax.views.outages import Outage, Turn, longest_outages, outages
from parallax.views.pause import pause
from tests.builders.coverage import progress
from tests.builders.settings import settings_of
from tests.pages import Job
from tests.unit.guard.recording import history, write

PLACE = PartitionMetadata(1, 0, (1, 2), (1, 2))
CONFIGS = {"cleanup.policy": "compact", "delete.retention.ms": "86400000", "remote.storage.enable": "false"}


class Client:
    cluster_id = "abc"
    configs: dict[str, Any] = CONFIGS
    hosts = PLACE
    open_producers: Sequence[int] = ()
    listed: Sequence[int] = ()
    may_describe = True
    failed: frozenset[int] = frozenset()
    silent: Mapping[int, Exception] = {}
    away: frozenset[int] = frozenset()
    shows = Greeting((4, 2), None, None)
    may_alter = True
    of_brokers: Mapping[str, str] | ReplicaError = MappingProxyType({})
    may_mark: MayRepair | None = MayRepair(mark=True, move=True, rates=True)
    may_see_groups = True
    tells_space = True
    refused: Mapping[str, ReplicaError] = {}
    answers: Mapping[tuple[str, int], str | ReplicaError] = {("one", 9092): "abc"}

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def broker_configs(self, broker: int, names: Sequence[str]) -> Mapping[str, str] | ReplicaError:
        return self.of_brokers

    def may_repair(self) -> MayRepair | None:
        return self.may_mark

    def may_describe_groups(self) -> bool:
        return self.may_see_groups

    def metadata(self, topics: Sequence[str] | None = None, **_: Any) -> dict[str, TopicMetadata]:
        names = topics or ["orders", "__consumer_offsets"]
        return {n: TopicMetadata(n, "A", {0: self.hosts}, self.refused.get(n)) for n in names}

    def clusters(self) -> dict[tuple[str, int], str | ReplicaError]:
        return dict(self.answers)

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {1: ("one", 9092), 2: ("two", 9092)}

    def watermarks(self, broker: int, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Any]:
        if broker in self.away:
            raise Unreachable(f"broker {broker}: connection refused", broker=broker)
        return dict.fromkeys(places, self.silent.get(broker, Watermarks(1, 1, 0, 1)))

    def greeting(self, _: int) -> Greeting:
        return self.shows

    def topic_configs(self, topics: Sequence[str], _: Sequence[str]) -> dict[str, Any]:
        return dict.fromkeys(topics, self.configs)

    def describe_producers(self, _: int, places: Sequence[TopicPartition], **__: Any) -> Mapping[TopicPartition, Any]:
        return {p: [ProducerState(i, 0, 0, 0, -1, 5) for i in self.open_producers] for p in places}

    def may_alter_configs(self, topics: Sequence[str]) -> dict[str, bool]:
        return dict.fromkeys(topics, self.may_alter)

    def log_dirs(self, broker: int, places: Sequence[TopicPartition]) -> list[LogDir]:
        if not self.tells_space:
            raise Unauthorized("not authorized: DESCRIBE on the cluster is needed", broker=broker)
        return [LogDir("/data", 100, 50, dict.fromkeys(places, 1))]

    def log_dir_states(self, broker: int) -> dict[str, bool]:
        if not self.tells_space:
            raise Unauthorized("not authorized: DESCRIBE on the cluster is needed", broker=broker)
        return {"/data": True, "/data2": broker not in self.failed}

    def list_transactions(self, _: Sequence[int], **__: Any) -> TransactionListings:
        listed = [TransactionListing(f"t{i}", i, "Ongoing", 1) for i in self.listed]
        return TransactionListings(listed, {}, frozenset({1, 2}))

    def describe_transactions(self, _: int, ids: Sequence[str], **__: Any) -> list[TransactionListing]:
        here = frozenset({TopicPartition("orders", 0)})
        return [TransactionListing(i, int(i[1:]), "Ongoing", 1, here) for i in ids]

    def may_describe_transactions(self, **_: Any) -> bool:
        return self.may_describe


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return of(tmp_path)


def of(tmp_path: Path, **sections: Any) -> Settings:
    return settings_of(tmp_path / "data", **({"alerting": {"metrics_port": 0}} | sections))


def lines(monkeypatch: pytest.MonkeyPatch, settings: Settings, **cluster: Any) -> dict[str, Line]:
    monkeypatch.setattr(module, "ReplicaClient", type("Cluster", (Client,), cluster))
    return {line.about: line for line in check(settings)}


def test_everything_that_is_fine_is_said_once(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    found = lines(monkeypatch, settings)
    assert list(found) == [
        "JDK",
        "storage",
        "job",
        "metrics",
        "webhooks",
        "heartbeat",
        "external_url",
        "cluster",
        "broker 1",
        "broker 2",
        "log directories",
        "consumer groups",
        "topic orders",
    ]
    notes = {about for about, line in found.items() if line.result is Result.NOTE}
    assert notes == {"job", "webhooks", "heartbeat", "external_url"}, "nobody is configured, and none runs"
    assert {line.result for line in found.values()} == {Result.FINE, Result.NOTE}
    assert "delete.retention.ms (24 h)" in found["topic orders"].text
    assert exit_code(list(found.values())) == 0


def test_what_the_tables_no_longer_say_is_said_beforehand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = lines(monkeypatch, of(tmp_path, storage={"record": "blocks", "settled_hours": 30}))
    assert found["storage.record"].result is Result.NOTE
    assert found["storage.record"].text.startswith("blocks: 30 h after the end of a date the tables no longer say")
    assert "storage.record" not in lines(monkeypatch, of(tmp_path, storage={"record": "differing"}))


def test_what_is_asked_is_said_before_what_came_of_it(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    lines(monkeypatch, settings)
    told: list[str] = []
    told.extend(line.about for line in check(settings, told.append))
    for number in (1, 2):
        asked = next(n for n, one in enumerate(told) if one.startswith(f"asking broker {number} at "))
        assert asked < told.index(f"broker {number}")


def test_each_address_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = {
        ("one", 9092): "abc",
        ("two", 9092): OtherCluster("two:9092 belongs to cluster def, not to abc", cluster_id="def"),
        ("ctl", 9093): NotABroker("ctl:9093 is a KRaft controller"),
        ("old", 9092): Unreachable("old:9092 Connection refused"),
        ("own", 9092): Unreachable("own:9092 Connection refused"),
    }
    servers = ["one:9092", "two:9092", "ctl:9093", "old:9092"]
    found = lines(monkeypatch, of(tmp_path, kafka={"bootstrap.servers": servers}), answers=answers)
    said = {about: line.result for about, line in found.items() if about.startswith("address ")}
    assert said == {
        "address two:9092": Result.WRONG,
        "address ctl:9093": Result.WRONG,
        "address old:9092": Result.NOTE,
    }, "a broker's own address is the broker's line"
    assert "two:9092 belongs to cluster def, not to abc; correct" in found["address two:9092"].text


def test_settings_that_name_another_cluster_than_the_storage_are_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bind(str(tmp_path / "data"), "abc")
    settings = of(tmp_path, kafka={"bootstrap.servers": "one:9092", "cluster.id": "def"})
    line = lines(monkeypatch, settings)["cluster"]
    assert line.result is Result.WRONG
    assert "kafka.cluster.id: is def, and storage.path belongs to cluster abc" in line.text


def test_a_broker_that_is_assigned_to_and_not_there_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    line = lines(monkeypatch, settings, hosts=PartitionMetadata(1, 0, (1, 2, 4), (1, 2)))["broker 4"]
    assert line.result is Result.UNKNOWN
    assert "orders-0 are assigned to it" in line.text
    assert "reassign them" in line.text


def test_a_topic_is_held_against_the_outages_of_its_own_brokers(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    found = {2: Outage(timedelta(hours=1), is_over=True), 4: Outage(timedelta(days=9), is_over=True)}
    monkeypatch.setattr(module, "longest_outages", lambda _: found)
    line = lines(monkeypatch, settings)["topic orders"]
    assert line.result is Result.FINE
    assert line.text.endswith("The longest outage on record: broker 2 did not answer for 60 min.")
    found[2] = Outage(timedelta(seconds=14), is_over=False)
    line = lines(monkeypatch, settings)["topic orders"]
    assert line.text.endswith("broker 2 did not answer for 14 s, and has not answered since.")


def test_what_an_operator_does_not_want_read_is_noted(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    pause(settings.storage.path, [2], "a full disk", "ann", now=0.0)
    line = lines(monkeypatch, settings)["pause"]
    assert line.result is Result.NOTE
    assert line.text == (
        "the job does not read broker 2 since 1970-01-01 00:00 UTC, by ann: a full disk; parallax resume ends that."
    )


def test_a_broker_that_is_away_is_unknown_and_not_wrong(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    found = lines(monkeypatch, settings, away=frozenset({2}))
    assert found["broker 2"].result is Result.UNKNOWN
    assert "connection refused" in found["broker 2"].text
    assert exit_code(list(found.values())) == 3


@pytest.mark.parametrize(
    ("configs", "replicas", "result", "says"),
    [
        ({**CONFIGS, "cleanup.policy": "delete"}, (1, 2), Result.FINE, "record by record"),
        ({**CONFIGS, "remote.storage.enable": "true"}, (1, 2), Result.NOTE, "tiered storage"),
        (CONFIGS, (1,), Result.NOTE, "nothing to compare"),
        (
            Unauthorized("not authorized: DESCRIBE_CONFIGS is needed", missing=MissingRight.DESCRIBE_CONFIGS),
            (1, 2),
            Result.WRONG,
            "taken for compacted",
        ),
    ],
)
def test_a_topic_is_said_to_be_exposed_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    configs: Any,
    replicas: tuple[int, ...],
    result: Result,
    says: str,
) -> None:
    hosts = PartitionMetadata(1, 0, replicas, replicas)
    line = lines(monkeypatch, settings, configs=configs, hosts=hosts)["topic orders"]
    assert (line.result, says in line.text) == (result, True), line


def test_transactions_that_no_coordinator_lists_may_not_be_described(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    found = lines(monkeypatch, settings, open_producers=(7, 8), listed=(7,), may_describe=False)
    assert found["topic orders"].result is Result.WRONG
    assert "hanging, or DESCRIBE on a transactional id is missing" in found["topic orders"].text
    assert exit_code(list(found.values())) == 1
    line = lines(monkeypatch, settings, open_producers=(7,), listed=(7,))["topic orders"]
    assert (line.result, "transactional" in line.text) == (Result.FINE, True)


def test_whether_one_hangs_is_unknown_without_the_right_to_see_who_coordinates(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    hidden = Unauthorized("not authorized: DESCRIBE on the topic is needed", missing=MissingRight.DESCRIBE)
    found = lines(monkeypatch, settings, open_producers=(8,), refused={"__transaction_state": hidden})
    assert found["topic orders"].result is Result.UNKNOWN
    assert "whether 1 open transaction hangs is not known" in found["topic orders"].text
    assert found["transactions"].result is Result.WRONG
    assert "DESCRIBE on __transaction_state is missing" in found["transactions"].text


def of_cluster(monkeypatch: pytest.MonkeyPatch, settings: Settings, **cluster: Any) -> list[str]:
    monkeypatch.setattr(module, "ReplicaClient", type("Cluster", (Client,), cluster))
    return [f"{line.result} {line.about}: {line.text}" for line in check(settings)]


def test_each_replica_that_does_not_answer_is_named_with_why(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    offline = NotHosted("the replica's log folder is offline (KAFKA_STORAGE_ERROR)", broker=2)
    said = of_cluster(monkeypatch, settings, silent={2: offline})
    assert f"wrong broker 2: 1 of its 1 replica cannot be read (orders-0): {offline.problem}." in said


def test_a_log_directory_that_is_offline_is_named_and_where_nobody_may_ask_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    def without_two(_: Any, broker: int) -> Greeting:
        if broker == 2:
            raise Unreachable("connection refused", broker=broker)
        return Client().greeting(broker)

    said = of_cluster(monkeypatch, settings, failed=frozenset({2}))
    (line,) = [one for one in said if "offline" in one]
    assert line.startswith("wrong broker 2: offline log directories: /data2; ")
    (line,) = [one for one in of_cluster(monkeypatch, settings, greeting=without_two) if "directories" in one]
    assert line == "ok log directories: all 2 on the brokers that answer are online; broker 2 cannot be asked."
    (line,) = [one for one in of_cluster(monkeypatch, settings, tells_space=False) if "offline" in one]
    assert line.startswith("note log directories: whether one is offline is not known of broker 1, and 1 more broker")
    assert "DESCRIBE on the cluster" in line


def test_a_replica_out_of_the_isr_and_a_partition_without_a_leader_are_noted(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    said = of_cluster(monkeypatch, settings, hosts=PartitionMetadata(-1, 0, (1, 2), (1,)))
    assert "note topic orders: broker 2 is out of the ISR of orders-0." in said
    assert "note topic orders: orders-0 has no leader: nobody can write to it or consume it." in said


def test_a_transaction_that_no_coordinator_knows_hangs_where_no_right_is_missing(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    line = lines(monkeypatch, settings, open_producers=(8,))["topic orders"]
    assert line.result is Result.WRONG
    assert "a transaction hangs: a transaction of producer 8 is open from offset 5 on" in line.text
    assert "DESCRIBE" not in line.text
    assert "abort --topic orders --partition 0 --start-offset 5" in line.text


@pytest.mark.parametrize(("days", "result"), [(400, Result.FINE), (5, Result.NOTE)])
def test_each_broker_is_said_with_its_version_tls_and_certificate(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, days: int, result: Result
) -> None:
    shows = Greeting((4, 2), "TLSv1.3", int(time.time()) + days * 86_400 + 3600)
    monkeypatch.setattr(module, "ReplicaClient", type("Cluster", (Client,), {"shows": shows}))
    first, second = [line for line in check(settings) if line.about == "broker 1"]
    assert first.result is Result.FINE
    assert re.match(r"one:9092 answered by TLSv1\.3 in \d+ ms and speaks as Kafka 4\.2 does; 1 of", first.text)
    assert second.result is result
    assert second.text.startswith("its certificate ends on 20")


def test_a_broker_that_goes_away_while_it_is_looked_at_is_unknown(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    def greeting(_: Any, broker: int) -> Greeting:
        raise Unreachable("connection refused", broker=broker)

    assert lines(monkeypatch, settings, greeting=greeting)["broker 1"].result is Result.UNKNOWN


@pytest.mark.parametrize(("minutes", "result"), [(3, Result.FINE), (30, Result.NOTE)])
def test_delete_retention_is_held_against_the_longest_outage_that_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, minutes: int, result: Result
) -> None:
    storage = tmp_path / "data"
    gone(Job(storage), minutes)
    configs = {**CONFIGS, "delete.retention.ms": "600000"}
    line = lines(monkeypatch, of(tmp_path), configs=configs)["topic orders"]
    assert line.result is result
    assert ("broker 2 did not answer for 30 min" in line.text) is (result is Result.NOTE)
    assert lines(monkeypatch, of(tmp_path), configs={**CONFIGS, "delete.retention.ms": str(2**63 - 1)})


@pytest.mark.parametrize(("retention_ms", "is_told"), [(45_000, True), (63_000, True), (63_001, False)])
def test_a_topic_with_too_short_a_delete_retention_is_reported_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, retention_ms: int, *, is_told: bool
) -> None:
    configs = {**CONFIGS, "delete.retention.ms": str(retention_ms)}
    found = lines(monkeypatch, of(tmp_path), configs=configs)
    assert ("too short a time to watch absent replicas" in found["topic orders"].text) is is_told
    assert ("guard.clock_skew_ms" in found) is is_told
    if is_told:
        said = found["guard.clock_skew_ms"].text
        assert "nobody can tell whether a broker was back in time" in said
        assert "set delete.retention.ms to several minutes" in said


def test_replicas_that_were_absent_when_anything_was_recorded_last_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    storage = tmp_path / "data"
    write(storage, *history(away_from=60_000, until=180_000))
    line = lines(monkeypatch, of(tmp_path))["absences"]
    assert (line.result, "1 of broker 2; what 1 of them lack may be gone by now" in line.text) == (Result.NOTE, True)
    for file in (storage / "replica_progress").rglob("*.parquet"):
        file.write_bytes(b"damaged")
    assert lines(monkeypatch, of(tmp_path))["absences"].result is Result.UNKNOWN


def test_the_longest_outage_is_recorded_to_the_second(tmp_path: Path) -> None:
    job = Job(tmp_path)
    assert longest_outages(job.storage) == {}
    gone(job, 7)
    gone(job, 4, hours=1)
    gone(job, 9, hours=2, problem="not_hosted")
    assert longest_outages(job.storage) == {2: Outage(timedelta(minutes=7), is_over=True)}
    seen(job, datetime(2026, 1, 1, 3, 0, 5, tzinfo=UTC), {3: True})
    seen(job, datetime(2026, 1, 1, 3, 0, 8, tzinfo=UTC), {3: False})
    seen(job, datetime(2026, 1, 1, 3, 0, 9, tzinfo=UTC), {3: True})
    assert longest_outages(job.storage)[3] == Outage(timedelta(seconds=1), is_over=True)
    seen(job, datetime(2026, 1, 1, 3, 0, 57, tzinfo=UTC), {3: False})
    seen(job, datetime(2026, 1, 1, 3, 1, 0, tzinfo=UTC), {3: False})
    assert longest_outages(job.storage)[3] == Outage(timedelta(seconds=3), is_over=False)
    seen(job, datetime(2026, 1, 1, 3, 1, 52, tzinfo=UTC), {3: True})
    assert longest_outages(job.storage)[3] == Outage(timedelta(seconds=55), is_over=True)


def test_a_time_in_which_nothing_was_recorded_is_no_outage(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    minute, later = at + timedelta(minutes=1), at + timedelta(hours=5)
    turns = [Turn(at, True), Turn(later, True, minute), Turn(later + timedelta(minutes=2), False, later)]
    found = [Outage(timedelta(minutes=1), is_over=False), Outage(timedelta(minutes=2), is_over=True)]
    assert list(outages(turns, later)) == found
    job = Job(tmp_path)
    for moment, answers in ((at, False), (minute, False), (later, True)):
        seen(job, moment, {3: answers})
    assert longest_outages(job.storage) == {3: Outage(timedelta(minutes=1), is_over=True)}


def test_an_outage_is_one_though_what_only_repeats_itself_is_recorded_every_five_minutes(tmp_path: Path) -> None:
    job = Job(tmp_path)
    for n in range(13):
        seen(job, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=5 * n), {3: False})
    assert longest_outages(job.storage) == {3: Outage(timedelta(minutes=60), is_over=False)}


def seen(job: Job, at: datetime, answers: Mapping[int, bool]) -> None:
    """Record who answered at a time."""
    job.record(
        [
            progress(broker=broker, observed_at=at, recorded_on=at.date(), reachable=is_there)
            | {"problem": None if is_there else "unreachable"}
            for broker, is_there in answers.items()
        ]
    )


def gone(job: Job, minutes: int, *, hours: int = 0, problem: str = "unreachable") -> None:
    """Record that broker 2 did not answer for some minutes, as broker 1 did, and that it answers again."""
    began = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
    for minute in range(minutes + 1):
        at = began + timedelta(minutes=minute)
        answers = minute == minutes
        rows = [
            progress(broker=1, observed_at=at, recorded_on=at.date()),
            progress(broker=2, observed_at=at, recorded_on=at.date(), reachable=answers)
            | {"problem": None if answers else problem},
        ]
        job.record(rows)


def test_a_cluster_that_shows_no_topic_is_no_fault_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    internal = {"__consumer_offsets": TopicMetadata("__consumer_offsets", "A", {0: Client.hosts})}
    monkeypatch.setattr(Client, "metadata", lambda *_, **__: internal)
    line = lines(monkeypatch, of(tmp_path, topics={"pattern": "[^_].*"}))["topics"]
    assert line.result is Result.UNKNOWN
    assert line.text.startswith("the cluster shows no topic: it has none yet, or DESCRIBE on them is missing.")


def test_a_pattern_that_matches_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = lines(monkeypatch, of(tmp_path, topics={"pattern": "__.*|ledger"}))
    assert found["topics"].result is Result.WRONG
    assert "topics.pattern" in found["topics"].text


def test_a_cluster_that_does_not_answer_is_wrong_and_the_rest_is_not_tried(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    def metadata(*_: Any) -> Any:
        raise Unreachable("bootstrap.servers: no broker answered")

    found = lines(monkeypatch, settings, metadata=metadata)
    assert list(found)[-1] == "cluster"
    assert found["cluster"].result is Result.WRONG


@pytest.mark.parametrize(
    ("runs", "result", "said"),
    [
        (True, Result.NOTE, "is in use: the job runs."),
        (False, Result.WRONG, "is in use by something else, since no job runs here; choose another"),
        (None, Result.NOTE, "is in use: by the job, or choose another"),
    ],
)
def test_a_port_that_is_taken_is_the_jobs_only_where_one_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runs: bool | None, result: Result, said: str
) -> None:
    monkeypatch.setattr("parallax.check.job_runs", lambda _: runs)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        line = lines(monkeypatch, of(tmp_path, alerting={"metrics_port": taken.getsockname()[1]}))["metrics"]
    assert (line.result, said in line.text) == (result, True), line.text


def test_a_folder_that_cannot_be_written_and_a_port_that_is_taken_are_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = of(tmp_path, storage={"path": str(tmp_path / "file" / "x")}, alerting={"metrics_port": port})
        found = lines(monkeypatch, settings)
    assert found["storage"].result is Result.WRONG
    assert found["metrics"].result in (Result.NOTE, Result.WRONG)
    assert str(port) in found["metrics"].text


@pytest.mark.parametrize(("key", "result"), [("ab" * 16, Result.FINE), ("corrupt", Result.WRONG)])
def test_a_key_of_the_hashes_that_cannot_be_used_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, result: Result
) -> None:
    kept, given = tmp_path / "data" / "hash_key", tmp_path / "key"
    kept.parent.mkdir()
    for file in (kept, given):
        file.write_text(key)
    for read in ({}, {"hash_key_file": str(given)}):
        line = lines(monkeypatch, of(tmp_path, read=read))["hash key"]
        assert line.result is result, line
        assert key not in line.text


def test_a_certificate_of_the_page_that_cannot_be_loaded_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("/nowhere.pem", "a\0b"):
        files = {"tls_certificate_file": name, "tls_key_file": name}
        line = lines(monkeypatch, of(tmp_path, alerting={"metrics_port": 0, **files}))["metrics"]
        assert line.result is Result.WRONG
        assert "tls_certificate_file" in line.text


def test_a_host_that_cannot_be_listened_on_is_wrong_as_the_job_refuses_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alerting = {"metrics_host": "nosuch.invalid", "metrics_port": 0}
    line = lines(monkeypatch, of(tmp_path, alerting=alerting))["metrics"]
    assert line.result is Result.WRONG
    assert line.text.startswith("alerting.metrics_port: cannot listen on nosuch.invalid:0")


@pytest.mark.parametrize("broker", [77, -1, 10**20])
def test_a_broker_that_is_not_there_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broker: int) -> None:
    line = lines(monkeypatch, of(tmp_path, topics={"include": ["orders"], "brokers": [broker]}))["brokers"]
    assert line.result is Result.WRONG
    assert f"the cluster has no broker {broker}; it has these: 1, 2" in line.text


def test_partitions_of_which_one_replica_is_watched_though_there_are_others_are_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = lines(monkeypatch, of(tmp_path, topics={"include": ["orders"], "brokers": [1]}))["brokers"]
    said = (
        "topics.brokers lets one replica of orders-0 be read: nothing is compared there. Add the brokers of the others."
    )
    assert (line.result, line.text) == (Result.WRONG, said)
    assert "brokers" not in lines(monkeypatch, of(tmp_path, topics={"include": ["orders"], "brokers": [1, 2]}))


def test_a_topic_of_the_audits_that_is_not_there_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = lines(monkeypatch, of(tmp_path, audit={"topics": ["orders", "nosuch"]}))["audit"]
    assert line.result is Result.NOTE
    assert "audit.topics: topic 'nosuch' is not on the cluster" in line.text


def test_looking_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines(monkeypatch, of(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_the_file_system_refuses_is_wrong() -> None:
    assert _storage("/tmp/" + "x" * 300).result is Result.WRONG


def rights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, guard: dict[str, Any], **cluster: Any) -> list[str]:
    monkeypatch.setattr(module, "ReplicaClient", type("Cluster", (Client,), cluster))
    found = [line for line in check(of(tmp_path, guard=guard)) if line.about == "guard"]
    assert {line.result for line in found} <= {Result.WRONG} or len(found) == 1
    return [f"{line.result}: {line.text}" for line in found]


def test_of_a_guard_that_is_off_nothing_is_asked_or_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert rights(monkeypatch, tmp_path, {}, may_alter_configs=None, log_dirs=None) == []


POD = "main-kafka-0.main-kafka-brokers.streams.svc"
LISTENERS = {"advertised.listeners": f"REPLICATION-9091://{POD}.cluster.local:9091,EXTERNAL-9094://192.168.0.5:9094"}
REFUSED = Unauthorized("DESCRIBE_CONFIGS on the cluster is missing", missing=MissingRight.DESCRIBE)


@pytest.mark.parametrize(
    ("host", "of_brokers", "is_noted"),
    [
        (POD, REFUSED, True),
        ("192.168.0.5", LISTENERS, True),
        ("kafka-brokers.example.org", {}, False),
        ("a", REFUSED, False),
    ],
)
@pytest.mark.parametrize("mode", ["off", "advise", "act"])
def test_where_strimzi_would_set_back_what_the_guard_holds_that_is_noted(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    mode: str,
    host: str,
    of_brokers: dict[str, str] | ReplicaError,
    is_noted: bool,
) -> None:
    cluster = {"brokers": lambda _: {1: (host, 9092)}, "of_brokers": of_brokers}
    monkeypatch.setattr(module, "ReplicaClient", type("Cluster", (Client,), cluster))
    noted = [line.text for line in check(of(tmp_path, guard={"mode": mode})) if line.result is Result.NOTE]
    said = [text for text in noted if "Strimzi runs this cluster, main in namespace streams" in text]
    assert len(said) == (is_noted and mode != "off")
    assert all('strimzi.io/managed: "false"' in text for text in said)


@pytest.mark.parametrize("mode", ["off", "advise", "act"])
def test_what_is_held_and_nothing_puts_back_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str
) -> None:
    monkeypatch.setattr(module, "ReplicaClient", Client)
    settings = of(tmp_path, guard={"mode": mode})
    change = Change("delete.retention.ms", "1", "3")
    GuardTable(settings.storage.path).append(Event(EventKind.INTENDED, "h", "orders", "a", 1, 1, (change,)))
    said = [line.text for line in check(settings) if (line.about, line.result) == ("guard", Result.WRONG)]
    stranded = f"guard.mode is {mode}: nothing puts back what is held of orders but `parallax guard release orders`."
    assert said == ([] if mode == "act" else [stranded])


@pytest.mark.parametrize(
    ("may", "result", "text"),
    [
        (Client.may_mark, Result.FINE, "repair.mode is on, and it has its rights on the cluster."),
        (
            MayRepair(mark=True, move=True),
            Result.NOTE,
            "to copy where a replication throttle is set, DESCRIBE_CONFIGS on the cluster is missing",
        ),
        (
            MayRepair(mark=True, move=False),
            Result.NOTE,
            "to copy, or to move leadership, ALTER on the cluster is missing",
        ),
        (MayRepair(mark=False, move=True), Result.NOTE, "to write end markers, CLUSTER_ACTION on the cluster"),
        (MayRepair(mark=False, move=False), Result.WRONG, f"{MARKER_RIGHTS} is missing: nothing"),
        (None, Result.UNKNOWN, "grant DESCRIBE on the cluster as well"),
    ],
)
def test_the_right_of_repairs_is_named_where_they_are_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, may: MayRepair | None, result: Result, text: str
) -> None:
    monkeypatch.setattr(module, "ReplicaClient", type("Cluster", (Client,), {"may_mark": may}))
    (said,) = [line for line in check(of(tmp_path, repair={"mode": "on"})) if line.about == "repair"]
    assert (said.result, text in said.text) == (result, True), said


@pytest.mark.parametrize(("may", "result"), [(True, Result.FINE), (False, Result.NOTE)])
def test_the_right_to_see_who_has_read_what_is_wrong_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, may: bool, result: Result
) -> None:
    monkeypatch.setattr(module, "ReplicaClient", type("Cluster", (Client,), {"may_see_groups": may}))
    (said,) = [line for line in check(of(tmp_path)) if line.about == "consumer groups"]
    assert (said.result, "DESCRIBE on consumer groups is not granted" in said.text) == (result, not may)


def test_of_repairs_that_are_off_nothing_is_asked_and_one_that_has_stopped_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "ReplicaClient", type("Cluster", (Client,), {"may_repair": None}))
    settings = of(tmp_path)
    assert [line for line in check(settings) if line.about == "repair"] == []
    table = RepairTable(settings.storage.path)
    for kind in (RepairEventKind.BEGUN, RepairEventKind.STOPPED):
        table.append(RepairEvent(kind, "abcdef0123", "orders", 0, 1, "me", reason="because"))
    (said,) = [line for line in check(settings) if line.about == "repair"]
    assert said.result is Result.NOTE
    assert "a repair of orders-0 is stopped (because)" in said.text
    assert "`parallax repair resume abcdef01`" in said.text


@pytest.mark.parametrize("mode", ["advise", "act"])
def test_each_right_of_the_guard_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str
) -> None:
    guard: dict[str, Any] = {"mode": mode}
    (fine,) = rights(monkeypatch, tmp_path, guard)
    assert fine == f"ok: guard.mode is {mode}, and it has its rights on 1 compacted topic."
    (fixed,) = rights(monkeypatch, tmp_path, guard, may_alter=False)
    assert "ALTER_CONFIGS on orders is missing" in fixed
    (spaceless,) = rights(monkeypatch, tmp_path, guard, tells_space=False)
    assert "broker 1: not authorized: DESCRIBE on the cluster is needed" in spaceless
    hidden = Unauthorized("not authorized: DESCRIBE_CONFIGS is needed", missing=MissingRight.DESCRIBE_CONFIGS)
    (unread,) = rights(monkeypatch, tmp_path, guard, configs=hidden)
    assert "DESCRIBE_CONFIGS on orders is missing" in unread
    assert len(rights(monkeypatch, tmp_path, guard, may_alter=False, tells_space=False, configs=hidden)) == 3
    assert rights(monkeypatch, tmp_path, guard | {"min_free_percent": 0}, tells_space=False)[0].startswith("ok")
    elsewhere = rights(monkeypatch, tmp_path, guard | {"topics": ["customers"]}, may_alter=False)
    assert elsewhere[0].startswith("ok"), "it looks after other topics"


def test_a_storage_that_cannot_be_is_one_line_and_the_cluster_is_asked_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = lines(monkeypatch, of(tmp_path, storage={"path": "/dev/null"}))
    wrong = [about for about, line in found.items() if "/dev/null" in line.text]
    assert wrong == ["storage"]
    assert found["cluster"].result is Result.FINE
