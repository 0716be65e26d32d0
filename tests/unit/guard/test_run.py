from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from parallax.config import GuardSettings
from parallax.guard.absences import Absence
from parallax.guard.command import in_words, read_record
from parallax.guard.holds import LAG, NO_LAG, RATIO, RETENTION, Absentee, Event, EventKind, open_holds
from parallax.guard.looking import Lookout
from parallax.guard.pauses import Paused
from parallax.guard.run import GuardRounds, GuardStatus, GuardThread, OffRounds
from parallax.guard.table import GuardTable
from parallax.lab.waiting import until
from parallax.model import TopicPartition
from parallax.replica.client import PartitionMetadata, ReplicaClient, TopicMetadata
from parallax.replica.errors import ReplicaError, Unauthorized, Unreachable
from parallax.replica.types import Config, LogDir
from tests.builders.absences import absence

ROOT = Path(__file__).parents[3]
FIRST = {RETENTION: Config("86400000", is_own=True), RATIO: Config("0.5", False), LAG: Config(str(NO_LAG), False)}
ORDERS = TopicPartition("orders", 0)


class Cluster:
    """Two brokers that answer at once, and one that is away."""

    def __init__(self) -> None:
        self.settings = {broker: dict(FIRST) for broker in (1, 3)}
        self.isr: tuple[int, ...] = (1, 3)
        self.usable = 50
        self.refuses: ReplicaError | None = None
        self.altered = 0

    def metadata(self, topics: Sequence[str]) -> dict[str, TopicMetadata]:
        return {name: TopicMetadata(name, "a", {0: PartitionMetadata(1, 0, (1, 2, 3), self.isr)}) for name in topics}

    def own_configs(self, broker: int, topics: Sequence[str], _: Collection[str]) -> dict[str, dict[str, Config]]:
        if broker not in self.settings:
            raise Unreachable("away", broker=broker)
        return {name: dict(self.settings[broker]) for name in topics}

    def log_dirs(self, broker: int, places: Collection[TopicPartition]) -> list[LogDir]:
        return [LogDir("/data", 100, self.usable, dict.fromkeys(places, 1000 * broker))]

    def alter_configs(self, topic: str, settings: Mapping[str, str | None]) -> None:
        assert topic == "orders"
        if self.refuses is not None:
            raise self.refuses
        self.altered += 1
        for own in self.settings.values():
            for name, value in settings.items():
                own[name] = FIRST[name] if value is None else Config(value, is_own=True)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def away(bound: int = 2**50) -> list[Absence]:
    return [absence(2, since_ms=0, retention_ms=1, bound_ms=bound)]


@pytest.fixture
def rounds(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., GuardRounds]]:
    made: list[GuardRounds] = []

    def make(absent: Callable[[], Collection[Absence]] = away, **said: Any) -> GuardRounds:
        settings = GuardSettings(**({"mode": "act", "lead_s": 1e9, "settle_s": 0, "stagger_s": 0} | said))
        made.append(GuardRounds(settings, str(tmp_path), cast("ReplicaClient", cluster), absent))
        return made[-1]

    yield make
    for one in made:
        one.close()


def kinds(storage: Path) -> list[EventKind]:
    return [event.kind for event in GuardTable(str(storage)).news()]


def soon() -> list[Absence]:
    import time

    return away(int(time.time() * 1000) + 60_000)


def test_a_topic_is_held_and_put_back(cluster: Cluster, rounds: Callable[..., GuardRounds], tmp_path: Path) -> None:
    absent = soon()
    one = rounds(lambda: absent)
    statuses = [one.round() for _ in range(4)]
    assert statuses[-1].sizes == {"orders": 3000}
    assert cluster.settings[3][RATIO].value == "1.0"
    (hold,) = open_holds(read_record(str(tmp_path))[0])
    assert "orders: held since" in in_words(hold)
    assert f"--delete-config {RATIO},{LAG}" in in_words(hold)
    cluster.isr, absent = (1, 2, 3), []
    cluster.settings[2] = dict(cluster.settings[1])
    for _ in range(5):
        last = one.round()
    assert last.holds == ()
    assert cluster.settings == dict.fromkeys((1, 2, 3), FIRST)


def test_a_look_tells_which_replicas_are_in_sync(cluster: Cluster) -> None:
    with closing(Lookout(cast("ReplicaClient", cluster), needs_space=False)) as lookout:
        assert lookout.look({"orders"}, {"orders"})["orders"].in_sync == {Absentee(0, 1), Absentee(0, 3)}


def test_each_look_tells_who_cleans_nothing_and_the_record_who_did_when_it_was_held(
    cluster: Cluster, tmp_path: Path
) -> None:
    told: list[Paused] = []
    absent = soon()

    def started() -> GuardRounds:
        settings = GuardSettings(mode="act", lead_s=1e9, settle_s=0, stagger_s=0)
        return GuardRounds(
            settings, str(tmp_path), cast("ReplicaClient", cluster), lambda: absent, on_paused=told.extend
        )

    with closing(started()) as one:
        for _ in range(4):
            one.round()
    assert [sorted(look.brokers) for look in told] == [[], [], [1, 3], [1, 3]]
    held = GuardTable(str(tmp_path)).news()[-1]
    assert (held.kind, held.shown) == (EventKind.HELD, (1, 3))
    with closing(started()) as again:
        again.round()
    assert told[-1].since == {1: held.at_ms, 3: held.at_ms}
    assert all(look.began_ms <= look.ended_ms for look in told)


def test_another_process_goes_on_where_one_stopped(
    cluster: Cluster, rounds: Callable[..., GuardRounds], tmp_path: Path
) -> None:
    absent = soon()
    rounds(lambda: absent).round()
    assert (kinds(tmp_path), cluster.altered) == ([EventKind.INTENDED], 0)
    again = rounds(lambda: absent)
    for _ in range(3):
        again.round()
    assert kinds(tmp_path)[-1] is EventKind.HELD
    assert again.guard.rules.mark == rounds().guard.rules.mark, "the mark is that of the table"


def test_two_processes_never_write_over_each_other(
    cluster: Cluster, rounds: Callable[..., GuardRounds], tmp_path: Path
) -> None:
    absent = soon()
    one, other = rounds(lambda: absent), rounds(lambda: absent)
    for _ in range(5):
        one.round()
        other.round()
    assert kinds(tmp_path) == [EventKind.INTENDED, EventKind.HELD]
    assert cluster.altered == 1


def test_a_right_that_is_missing_is_put_on_record(
    cluster: Cluster, rounds: Callable[..., GuardRounds], tmp_path: Path
) -> None:
    absent = soon()
    cluster.refuses = Unauthorized("not authorized: ALTER_CONFIGS is needed")
    one = rounds(lambda: absent)
    for _ in range(8):
        one.round()
    assert kinds(tmp_path) == [EventKind.INTENDED, EventKind.REFUSED, EventKind.RELEASING, EventKind.RELEASED]
    assert cluster.settings[1] == FIRST


def test_a_cluster_that_does_not_answer_is_told_of_and_asked_again(cluster: Cluster, rounds: Any) -> None:
    said: list[GuardStatus] = []
    failed = [Unreachable("nobody answers")]

    def make() -> GuardRounds:
        if failed:
            raise failed.pop()
        made: GuardRounds = rounds(list)
        return made

    thread = GuardThread(make, said.append)
    thread.start()
    until(lambda: len(said) >= 2, "two rounds")
    thread.stop()
    assert [status.error for status in said[:2]] == ["nobody answers", None]


def test_without_space_a_hold_ends(cluster: Cluster, rounds: Callable[..., GuardRounds], tmp_path: Path) -> None:
    absent = soon()
    cluster.usable = 5
    one = rounds(lambda: absent)
    for _ in range(3):
        one.round()
    assert kinds(tmp_path) == [EventKind.REFUSED]


def test_what_a_person_asks_for_is_on_record_before_it_is_done(
    cluster: Cluster, rounds: Callable[..., GuardRounds], tmp_path: Path
) -> None:
    one = rounds(list)
    one.append(Event(EventKind.ASKED_HOLD, "", "orders", "", 1))
    assert (kinds(tmp_path), cluster.altered) == ([EventKind.ASKED_HOLD], 0)


@pytest.mark.parametrize("mode", ["off", "advise"])
def test_what_is_held_when_the_guard_is_switched_off_is_told_and_left_alone(
    cluster: Cluster, rounds: Callable[..., GuardRounds], tmp_path: Path, mode: str
) -> None:
    absent = soon()
    acting = rounds(lambda: absent)
    for _ in range(3):
        acting.round()
    before, cluster.isr = cluster.altered, (1, 2, 3)
    cluster.settings[2] = dict(cluster.settings[1])
    with structlog.testing.capture_logs() as said:
        one = OffRounds(str(tmp_path)) if mode == "off" else rounds(list, mode=mode)
        statuses = [one.round() for _ in range(5)]
    (line,) = [entry["event"] for entry in said if entry["log_level"] == "warning"]
    assert line == f"guard.mode is {mode}: nothing puts back what is held of orders but `parallax guard release orders`"
    assert [hold.topic for hold in statuses[-1].holds] == ["orders"]
    assert cluster.altered == before
    one.close()


def test_without_a_guard_nothing_is_said_until_a_person_holds_something(
    cluster: Cluster, rounds: Callable[..., GuardRounds], tmp_path: Path
) -> None:
    one = OffRounds(str(tmp_path / "none"))
    assert one.round() == GuardStatus(is_off=True)
    assert list(tmp_path.iterdir()) == []
    other = OffRounds(str(tmp_path))
    assert other.round().holds == ()
    acting = rounds(soon)
    acting.round()
    assert [hold.topic for hold in other.round().holds] == ["orders"]


def test_nothing_but_the_guard_and_a_repair_changes_anything_on_the_cluster() -> None:
    asks = re.compile(
        r"\balter_configs\(|\bwrite_end_marker\(|\breassign\(|\belect\(|AdminClient|incremental_alter|create_topics|delete_records"
    )
    package = ROOT / "streaming" / "parallax"
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if asks.search(path.read_text()) and path.relative_to(package).parts[0] != "lab"
    }
    assert found == {"guard/run.py", "repair/run.py", "replica/changes.py", "replica/client.py"}
