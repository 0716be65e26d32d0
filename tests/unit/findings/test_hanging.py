"""Hanging transactions: what coordinators say of one that is open, and when it is reported; real ones: tests/e2e."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parallax.findings.coordinators import verdicts
from parallax.findings.hanging import CoordinatorsSay, Open, Standing, abort_command, described, judge
from parallax.findings.hanging_life import PASSED, Hanging, words
from parallax.findings.hanging_record import record, recorded
from parallax.findings.hanging_watch import HangingThread, HangingWatch, Standstill, is_overdue
from parallax.model import MissingRight, TopicPartition
from parallax.replica.client import PartitionMetadata, TopicMetadata
from parallax.replica.errors import ReplicaError, Unauthorized, UnknownTopic, Unreachable
from parallax.replica.types import ProducerState, TransactionListing, TransactionListings
from parallax.shell import Shell

PLACE = TopicPartition("orders", 0)
OTHER = TopicPartition("bills", 0)
SHELL = Shell.of({"bootstrap.servers": "one:9092,two:9092", "security.protocol": "SASL_SSL"}, "/etc/p.yaml")
ONE = Open(PLACE, 1, 7, 0, 5, 1_000)


def listing(state: str, *partitions: TopicPartition, described: bool = True) -> TransactionListing:
    return TransactionListing("tx", 7, state, 2, frozenset(partitions) if described else None)


@pytest.mark.parametrize(
    ("told", "may_describe", "standing"),
    [
        (CoordinatorsSay(), True, Standing.HANGS),
        (CoordinatorsSay(), False, Standing.HIDDEN),
        (CoordinatorsSay(), None, Standing.HIDDEN),
        (CoordinatorsSay(unanswered={3: "broker 3: refused"}), True, Standing.UNKNOWN),
        (CoordinatorsSay((listing("Ongoing", PLACE),)), True, Standing.GOES_ON),
        (CoordinatorsSay((listing("PrepareAbort", PLACE),)), True, Standing.GOES_ON),
        (CoordinatorsSay((listing("Ongoing", OTHER),)), True, Standing.HANGS),
        (CoordinatorsSay((listing("Ongoing", described=False),)), True, Standing.UNKNOWN),
        (CoordinatorsSay((listing("Ongoing", described=False), listing("Ongoing", PLACE))), True, Standing.GOES_ON),
        (CoordinatorsSay((listing("CompleteCommit", described=False),)), False, Standing.HANGS),
        (CoordinatorsSay((listing("CompleteCommit", described=False),), {3: "refused"}), True, Standing.UNKNOWN),
        (CoordinatorsSay((listing("Ongoing", OTHER),), {3: "refused"}), True, Standing.UNKNOWN),
        (CoordinatorsSay((listing("Ongoing", PLACE),), {3: "refused"}), True, Standing.GOES_ON),
        (CoordinatorsSay((listing("NotYetKnown", described=False),)), True, Standing.UNKNOWN),
    ],
)
def test_a_transaction_hangs_where_no_coordinator_will_end_it(
    told: CoordinatorsSay, may_describe: bool | None, standing: Standing
) -> None:
    assert judge(ONE, told, may_describe=may_describe).standing is standing


class Client:
    """A cluster whose broker 1 leads, and which knows no transaction unless it is given some."""

    def __init__(self) -> None:
        self.open: list[list[int]] = []
        self.listed: list[TransactionListing] = []
        self.unanswered: dict[int, Any] = {}
        self.coordinators: tuple[int, ...] | ReplicaError = (1,)
        self.max_timeout: Any = {"transaction.max.timeout.ms": "600000"}
        self.asked = 0
        self.topics: dict[str, str] = {}
        self.deleted: set[str] = set()

    def metadata(self, topics: Sequence[str], **_: Any) -> dict[str, TopicMetadata]:
        leaders = self.coordinators if topics == ["__transaction_state"] else (1,)
        if isinstance(leaders, ReplicaError):
            return {topics[0]: TopicMetadata(topics[0], "", {}, leaders)}
        partitions = {n: PartitionMetadata(leader, 0, (1, 2), (1, 2)) for n, leader in enumerate(leaders)}
        return {
            name: TopicMetadata(name, "", {}, UnknownTopic("no such topic", topic=name))
            if name in self.deleted
            else TopicMetadata(name, self.topics.get(name, "A"), partitions)
            for name in topics
        }

    def describe_producers(self, _: int, places: Sequence[TopicPartition], **__: Any) -> dict[TopicPartition, Any]:
        ids = self.open.pop(0) if len(self.open) > 1 else self.open[0]
        return {place: [ProducerState(i, 0, 0, 1_000, -1, 5) for i in ids] for place in places}

    def list_transactions(self, _: Sequence[int], **__: Any) -> TransactionListings:
        self.asked += 1
        return TransactionListings(self.listed, self.unanswered, frozenset({1, 2}) - self.unanswered.keys())

    def describe_transactions(self, *_: Any, **__: Any) -> list[TransactionListing]:
        return [one for one in self.listed if one.partitions is not None]

    def may_describe_transactions(self, **_: Any) -> bool:
        return True

    def broker_configs(self, *_: Any, **__: Any) -> Any:
        if isinstance(self.max_timeout, Exception):
            raise self.max_timeout
        return self.max_timeout


def test_what_has_ended_while_the_coordinators_were_asked_does_not_hang() -> None:
    client = Client()
    client.open = [[]]
    assert verdicts(client, [ONE], 1000) == {}  # type: ignore[arg-type]
    client.open = [[7]]
    assert verdicts(client, [ONE], 1000)[ONE].standing is Standing.HANGS  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("coordinators", "standing"),
    [((1,), Standing.HANGS), ((1, 3), Standing.UNKNOWN), ((1, -1), Standing.UNKNOWN), ((), Standing.UNKNOWN)],
)
def test_a_broker_that_is_away_matters_where_it_may_be_a_coordinator(
    coordinators: tuple[int, ...], standing: Standing
) -> None:
    client = Client()
    client.open, client.coordinators = [[7]], coordinators
    client.unanswered = {3: Unreachable("refused", broker=3)}
    assert verdicts(client, [ONE], 1000)[ONE].standing is standing  # type: ignore[arg-type]


def watch(client: Client, now: list[float], known: Sequence[Hanging] = ()) -> HangingWatch:
    return HangingWatch(client, 60.0, 1000, known, clock=lambda: now[0])  # type: ignore[arg-type]


def test_a_transaction_is_reported_once_two_rounds_say_that_it_hangs_and_until_it_is_over() -> None:
    client, now = Client(), [1000.0]
    client.open = [[7]]
    one = watch(client, now)
    stands = {PLACE: Standstill(5, 950.0)}
    assert one.round(stands) == ()
    assert client.asked == 0  # it has not stood for long
    now[0] = 1011.0
    assert one.round(stands) == ()
    now[0] = 1021.0
    (found,) = one.round(stands)
    assert (found.one.identity, found.hangs, found.since) == ((PLACE, 7, 5), True, 950.0)
    assert one.round({PLACE: Standstill(9, 1021.0)}) == ()


def test_an_ordinary_transaction_is_reported_only_beyond_the_longest_timeout() -> None:
    client, now = Client(), [1000.0]
    client.open, client.listed = [[7]], [listing("Ongoing", PLACE)]
    one = watch(client, now)
    stands = {PLACE: Standstill(5, 900.0)}
    assert one.round(stands) == ()
    now[0] = 1010.0
    assert one.round(stands) == ()
    assert client.asked == 1  # not in every round
    now[0] = 900.0 + 600 + 301
    (found,) = one.round(stands)
    assert not found.hangs
    assert "Ongoing" in words(found, SHELL)
    assert "abort" not in words(found, SHELL)


def test_without_the_right_to_see_the_brokers_settings_kafkas_default_counts() -> None:
    client, now = Client(), [900.0 + 901]
    client.open, client.listed = [[7]], [listing("Ongoing", PLACE)]
    client.max_timeout = Unreachable("refused")
    one = watch(client, now)
    assert one.round({PLACE: Standstill(5, 900.0)}) == ()
    now[0] = 900.0 + 1201
    assert len(one.round({PLACE: Standstill(5, 900.0)})) == 1
    assert not is_overdue(1200.0, 900_000)


def test_what_is_said_names_what_it_holds_back_and_what_ends_it() -> None:
    client, now = Client(), [1011.0]
    client.open = [[7]]
    one = watch(client, now)
    one.round({PLACE: Standstill(5, 900.0)})
    text = words(one.round({PLACE: Standstill(5, 900.0)})[0], SHELL)
    assert "a transaction of producer 7 is open from offset 5 on" in text
    assert "Parallax first saw it open at 1970-01-01 00:15:00 UTC." in text
    assert "read_committed consumers of orders-0 get nothing from offset 5 on" in text
    assert "repair plan --topic orders --partition 0 --outcome commit --offset 5 -c /etc/p.yaml. If none" in text
    assert text.endswith(
        "kafka-transactions.sh --bootstrap-server one:9092,two:9092 --command-config admin.properties abort "
        "--topic orders --partition 0 --start-offset 5"
    )
    assert "--command-config" not in abort_command(PLACE, 5, Shell.of({"bootstrap.servers": "one:9092"}))
    said = abort_command(PLACE, 5, Shell.of({"bootstrap.servers": "SASL_SSL://one:9092"}))
    assert "--bootstrap-server one:9092 --command-config admin.properties abort" in said


def test_since_when_it_is_open_is_what_its_coordinator_or_parallax_says_and_never_its_records() -> None:
    client, now = Client(), [2_000.0]
    client.open, client.listed = [[7]], [replace(listing("Ongoing", PLACE), started_ms=800_000)]
    (found,) = watch(client, now).round({PLACE: Standstill(5, 900.0)})
    assert found.since == 800.0
    assert "It began at 1970-01-01 00:13:20 UTC, by its coordinator." in words(found, SHELL)
    assert "timestamp" not in described(Open(PLACE, 1, 7, 0, 5, -1))


def test_nothing_hangs_whose_coordinator_may_be_one_that_nobody_could_ask() -> None:
    """Metadata does not list a broker that was away when the client began: nobody is said not to have answered."""
    client = Client()
    client.open, client.coordinators, client.unanswered = [[7]], (1, -1), {}
    assert verdicts(client, [ONE], 1000)[ONE].standing is Standing.UNKNOWN


def test_nothing_hangs_whose_coordinator_was_never_asked_though_it_leads() -> None:
    client = Client()
    client.open, client.coordinators = [[7]], (1, 3)
    verdict = verdicts(client, [ONE], 1000)[ONE]  # type: ignore[arg-type]
    assert (verdict.standing, "broker 3 was not asked" in verdict.why) == (Standing.UNKNOWN, True)


@pytest.mark.parametrize(
    "why",
    [
        Unauthorized("not authorized", topic="__transaction_state", missing=MissingRight.DESCRIBE),
        UnknownTopic("no such topic", topic="__transaction_state"),
    ],
)
@pytest.mark.parametrize("listed", [[], [listing("CompleteCommit", described=False)]])
def test_nothing_hangs_where_it_is_not_known_who_coordinates(why: ReplicaError, listed: list[Any]) -> None:
    client = Client()
    client.open, client.coordinators, client.listed = [[7]], why, listed
    assert verdicts(client, [ONE], 1000)[ONE].standing is Standing.UNKNOWN  # type: ignore[arg-type]


def test_what_an_earlier_coordinator_still_lists_as_over_does_not_outweigh_that_it_goes_on() -> None:
    client = Client()
    now = replace(listing("Ongoing", described=False), coordinator=1)
    client.open, client.listed = [[7]], [now, listing("CompleteCommit", described=False)]
    assert verdicts(client, [ONE], 1000)[ONE].standing is Standing.UNKNOWN  # type: ignore[arg-type]


def test_nothing_hangs_whose_coordinator_moved_while_coordinators_were_asked() -> None:
    client = Client()
    client.open = [[7]]
    listed = client.list_transactions

    def moving(*args: object, **more: object) -> object:
        client.coordinators = (2,)
        return listed(*args, **more)

    client.list_transactions = moving  # type: ignore[method-assign]
    assert verdicts(client, [ONE], 1000)[ONE].standing is Standing.UNKNOWN


def reported(client: Client, now: list[float]) -> Hanging:
    """A transaction that has been reported, by a job that is gone a minute later."""
    client.open = [[7]]
    one = watch(client, now)
    stands = {PLACE: Standstill(5, now[0] - 1000)}
    one.round(stands)
    now[0] += 10.0
    (found,) = one.round(stands)
    now[0] += 60.0
    return found


@pytest.mark.parametrize("says", ["it hangs", "it goes on, for longer than it may"])
def test_a_job_that_starts_goes_on_with_what_hung_and_with_its_time(says: str, tmp_path: Path) -> None:
    client, now = Client(), [10_000.0]
    if says != "it hangs":
        client.listed = [listing("Ongoing", PLACE)]
    known = reported(client, now)
    record(str(tmp_path), (known,))
    assert recorded(str(tmp_path)) == (known,)
    one = watch(client, now, recorded(str(tmp_path)))
    began = now[0]
    assert one.reported == one.round({}) == (known,), "before anybody says where the last stable offset is"
    while now[0] < began + 200:
        assert one.round({PLACE: Standstill(5, began)}) == (known,)
        now[0] += 10.0


@pytest.mark.parametrize("stands", [Standstill(9, 10_071.0), Standstill(9, None)])
def test_what_has_ended_while_no_job_ran_is_over(stands: Standstill) -> None:
    client, now = Client(), [10_000.0]
    known = reported(client, now)
    one = watch(client, now, [known])
    assert one.round({PLACE: stands}) == ()
    assert one.ended == ((known, PASSED),)


@pytest.mark.parametrize(
    "stands",
    [{}, {PLACE: Standstill(4, 10_071.0)}, {PLACE: Standstill(5, None)}],
    ids=["no replica answers", "a log that ends below", "a log that ends there"],
)
def test_what_no_replica_shows_stands_as_it_was_last_seen(
    stands: dict[TopicPartition, Standstill], capsys: pytest.CaptureFixture[str]
) -> None:
    client, now = Client(), [10_000.0]
    known = reported(client, now)
    one = watch(client, now, [known])
    thread = HangingThread(one, lambda: stands, lambda _: None, lambda _: None, SHELL)
    for _ in range(100):
        now[0] += 100.0
        assert one.round(stands) == (known,)
        thread._log(one.reported)
    said = capsys.readouterr().out
    assert said.count("no replica shows whether a transaction that hung still does") == 1
    assert "over" not in said


def test_a_transaction_that_a_coordinator_lists_again_stands_until_its_end_is_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client, now = Client(), [10_000.0]
    known = reported(client, now)
    one = watch(client, now, [known])
    thread = HangingThread(one, dict, lambda _: None, lambda _: None, SHELL)
    client.listed = [listing("PrepareCommit", PLACE)]
    stands = {PLACE: Standstill(5, known.stands_since, now[0])}
    (found,) = one.round(stands)
    thread._log((found,))
    assert not found.hangs
    assert "PrepareCommit" in found.why
    said = capsys.readouterr().out
    assert "over" not in said
    assert "Do not abort it" in said
    now[0] += 10.0
    assert one.round({PLACE: Standstill(6, None, now[0])}) == ()


def test_the_log_links_to_the_runbook_that_the_settings_name(capsys: pytest.CaptureFixture[str]) -> None:
    client, now = Client(), [10_000.0]
    one = watch(client, now, [])
    thread = HangingThread(one, dict, lambda _: None, lambda _: None, SHELL, "https://wiki/parallax")
    thread._log([replace(reported(client, now), hangs=False)])
    assert "See https://wiki/parallax#a-transaction-that-hangs." in capsys.readouterr().out


@pytest.mark.parametrize("how", ["its topic was deleted", "its topic was deleted and created again"])
def test_one_whose_topic_is_gone_is_over_and_that_is_said(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    client, now = Client(), [10_000.0]
    one = watch(client, now, [reported(client, now)])
    thread = HangingThread(one, dict, lambda _: None, lambda _: None, SHELL)
    if how == "its topic was deleted":
        client.deleted = {"orders"}
    else:
        client.topics = {"orders": "B"}
    assert len(one.round({})) == 1, "one broker may not know the topic yet"
    now[0] += 61.0
    assert one.round({}) == ()
    thread._log(())
    said = capsys.readouterr().out
    assert how in said
    assert "go on" not in said


def test_what_a_topic_of_the_same_name_shows_does_not_say_that_it_ended() -> None:
    client, now = Client(), [10_000.0]
    one = watch(client, now, [reported(client, now)])
    client.topics = {"orders": "B"}
    assert one.round({PLACE: Standstill(9, None, now[0])}) == ()
    assert [over.why for _, over in one.ended] == ["its topic was deleted and created again"]


def test_one_that_is_reported_stands_while_its_leader_holds_it_whatever_else_it_holds() -> None:
    client, now = Client(), [10_000.0]
    known = reported(client, now)
    one = watch(client, now, [known])
    client.open = [[6, 7]]
    assert [found.one.producer_id for found in one.round({PLACE: Standstill(5, known.stands_since, now[0])})] == [7]


@pytest.mark.parametrize("text", ["{", "[1]", '[{"at": 5}]'])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "hanging.json").write_text(text)
    assert recorded(str(tmp_path)) == ()


def test_what_is_on_record_counts_as_soon_as_the_job_starts_and_is_no_news(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client, now = Client(), [10_000.0]
    known = reported(client, now)
    told: list[Sequence[Hanging]] = []
    thread = HangingThread(watch(client, now, [known]), dict, told.append, told.append, SHELL)
    thread.start()
    thread.stop()
    assert told == [(known,)]
    assert "hangs" not in capsys.readouterr().out
