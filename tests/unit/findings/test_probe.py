"""The prober on logs that stand behind a stand-in for the client: what is read where, and how much of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parallax.config import FindingSettings
from parallax.findings import scan
from parallax.findings.claim import Claim
from parallax.findings.decide import ClaimState, Decision, decide
from parallax.findings.history import KeyHistory, ReadLog
from parallax.findings.keys import Key
from parallax.findings.probe import Prober
from parallax.findings.requests import Coordinators, RecordedTransactions, Recreated, TransactionRecords
from parallax.lab.waiting import until
from parallax.model import FindingKind, TopicPartition
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError, Unauthorized, UnknownTopic, Unreachable
from parallax.replica.types import PartitionMetadata, TopicMetadata, TransactionListing, TransactionListings, Watermarks
from tests.builders.claims import of_key, of_offset
from tests.patience import PATIENCE_S
from tests.unit.findings.logs import PLACE, TOPIC, Brokers, Log

HASHER = ContentHasher(bytes(16))
SIZE = 10_000
"""Bytes of each value."""
OLD, TOMBSTONE, COUNT = 40, 700, 1000
BOUND = 2_000_000
"""What one probe may read: a fifth of the log."""


def hashed(key: bytes) -> Key:
    from tests.unit.replica.batches import Batch, Record

    data = memoryview(Batch(0, [Record(key, b"")]).encode())
    from parallax.replica.decode import Payload, decode_slices

    (columns,) = decode_slices(data, hasher=HASHER, payload=Payload.HASH, start=0, end=1)
    return int(columns.key_hash_hi[0]), int(columns.key_hash_lo[0])


KEY = hashed(b"k")


def log(*, stale: bool = False, key: bytes = b"k") -> Log:
    """A log of many other keys; of ``key`` an old value, if the replica is stale, and else nothing any more."""
    made = Log()
    for offset in range(COUNT):
        if offset == OLD:
            if stale:
                made.put(offset, key, b"old")
        elif offset != TOMBSTONE:
            made.put(offset, b"other-%d" % offset, bytes(SIZE))
    return made


def replaced_log(elsewhere: int) -> Log:
    """A log of a newer epoch, which holds the old value of the key at another offset."""
    made = Log(epoch=3)
    for offset in range(COUNT + 5):
        if offset == elsewhere:
            made.put(offset, b"k", b"old")
        elif offset not in (OLD, TOMBSTONE):
            made.put(offset, b"other-%d" % offset, bytes(SIZE))
    return made


def claim(key: Key = KEY) -> Claim:
    kind = FindingKind.DELETED_RECORD_RESURRECTED
    return of_key(kind, offset=TOMBSTONE, key_hash_hi=key[0], key_hash_lo=key[1])


class Recorded:
    """What the views hold beside the keys."""

    def __init__(self, replaced: set[int]) -> None:
        self.replaced = replaced

    def transactions(self, question: RecordedTransactions) -> list[TransactionRecords]:
        return [TransactionRecords() for _ in question.of]

    def was_recreated(self, question: Recreated) -> bool:
        return question.broker in self.replaced


def recorded(_topic: str, _partition: int, keys: Any) -> KeyHistory:
    """What the views hold: all replicas were read whole, and each showed the value; 1 and 3 the tombstone too."""
    logs = {broker: ReadLog(0, COUNT - 10, 0) for broker in (1, 2, 3)}
    return KeyHistory(logs, {(1, KEY): (TOMBSTONE, OLD), (2, KEY): (OLD,), (3, KEY): (TOMBSTONE, OLD)})


@pytest.fixture
def brokers() -> Brokers:
    return Brokers({1: log(), 2: log(stale=True), 3: log()})


Make = Callable[..., Prober]


@pytest.fixture
def make(brokers: Brokers) -> Iterator[Make]:
    made: list[Prober] = []

    def begin(**fields: Any) -> Prober:
        patience = {"probe_timeout_ms": int(PATIENCE_S * 1000)}
        settings = FindingSettings(max_scan_bytes=BOUND, max_bytes_per_second=1 << 34, **patience)
        client: Any = brokers
        made.append(Prober(client, HASHER, settings, **fields))
        return made[-1]

    yield begin
    for prober in made:
        prober.close()


def judged(prober: Prober, about: Claim | None = None) -> Decision:
    about = about or claim()
    (answers,) = prober.probe([about])
    return decide(about, answers)


def eventually(prober: Prober) -> Decision:
    """The first verdict that does not wait for anything."""

    def ended() -> Decision | None:
        found = judged(prober)
        return None if found.verdict is ClaimState.PENDING else found

    return until(ended, "a verdict", timeout=PATIENCE_S, interval=0.2)


def test_a_key_whose_offsets_were_recorded_is_decided_by_reading_these_and_the_end_of_the_log(
    brokers: Brokers, make: Make
) -> None:
    prober = make(history=recorded)
    got = judged(prober)
    assert got.verdict is ClaimState.CONFIRMED, got.reason
    assert got.accused == 2
    assert max(prober.read_bytes.values()) < BOUND / 2
    assert {offset for _, offset in brokers.fetched} <= {OLD, TOMBSTONE, COUNT - 10}


def test_a_finding_that_is_checked_again_reads_nothing_but_what_came_since(brokers: Brokers, make: Make) -> None:
    prober = make(history=recorded)
    judged(prober)
    brokers.fetched.clear()
    assert judged(prober).verdict is ClaimState.CONFIRMED
    assert {offset for _, offset in brokers.fetched} <= {OLD, TOMBSTONE}


def test_the_views_are_asked_once_as_long_as_the_log_is_the_same_and_little_was_written(
    brokers: Brokers, make: Make
) -> None:
    asked: list[Any] = []

    def counted(*question: Any) -> KeyHistory:
        asked.append(question)
        return recorded(*question)

    replaced = Recorded(set())
    prober = make(history=counted, recorded=replaced)
    judged(prober)
    once = len(asked)
    assert judged(prober).verdict is ClaimState.CONFIRMED
    assert len(asked) == once
    replaced.replaced.add(2)
    judged(prober)
    assert len(asked) > once
    replaced.replaced.clear()
    once = len(asked)
    judged(prober)
    assert len(asked) == once
    brokers.topic_id = "another"
    judged(prober)
    assert len(asked) > once


def test_without_recorded_offsets_a_long_log_is_scanned_while_the_suspect_waits(make: Make) -> None:
    prober = make()
    got = judged(prober)
    assert got.verdict is ClaimState.PENDING
    assert "is being scanned: " in got.reason
    got = eventually(prober)
    assert got.verdict is ClaimState.CONFIRMED, got.reason
    assert judged(prober).verdict is ClaimState.CONFIRMED


def test_probes_that_wait_for_a_scan_neither_begin_it_again_nor_read_the_log_themselves(
    brokers: Brokers, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_SLICE_BYTES", 20 * SIZE)
    held, go_on = threading.Event(), threading.Event()

    def hold(broker: int, offset: int) -> None:
        if broker == 2 and offset > TOMBSTONE:
            held.set()
            go_on.wait(PATIENCE_S)

    brokers.before = hold
    prober = make(scans=str(tmp_path))
    judged(prober)
    assert held.wait(PATIENCE_S)
    until(lambda: prober.scans._running == {2}, "the others to be scanned")
    brokers.fetched.clear()
    reasons = {judged(prober).reason for _ in range(3)}
    (reason,) = reasons
    assert 60 < int(reason.split(": ")[-1].split(" ")[0]) < 100
    assert {o for b, o in brokers.fetched if b == 2} <= {TOMBSTONE, OLD}
    go_on.set()
    assert eventually(prober).verdict is ClaimState.CONFIRMED


def test_a_short_log_is_read_at_once(brokers: Brokers, make: Make) -> None:
    for one in brokers.logs.values():
        one.batches = {o: b for o, b in one.batches.items() if len(b) < SIZE or o > COUNT - 10}
    assert judged(make()).verdict is ClaimState.CONFIRMED


def test_a_scan_goes_on_where_it_stopped_in_another_process(
    brokers: Brokers, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_SLICE_BYTES", 20 * SIZE)

    def stop_at(broker: int, offset: int) -> None:
        if broker == 2 and offset >= 900:
            first._closed.set()

    brokers.before = stop_at
    first = make(scans=str(tmp_path))
    eventually_closed(first)
    (path,) = tmp_path.glob("scan-2-*.json")
    position = json.loads(path.read_text())["position"]
    assert 800 <= position < COUNT
    brokers.before = lambda *_: None
    brokers.fetched.clear()
    second = make(scans=str(tmp_path))
    assert eventually(second).verdict is ClaimState.CONFIRMED
    assert min(o for b, o in brokers.fetched if b == 2 and o > TOMBSTONE) >= position


def eventually_closed(prober: Prober) -> None:
    until(
        lambda: judged(prober) and prober._closed.is_set() and 2 not in prober.scans._running,
        "the scan to be stopped",
        timeout=PATIENCE_S,
        interval=0.2,
    )


def test_a_scan_of_a_log_that_is_another_one_begins_again(brokers: Brokers, make: Make, tmp_path: Path) -> None:
    assert eventually(make(scans=str(tmp_path))).verdict is ClaimState.CONFIRMED
    brokers.logs = {**brokers.logs, 2: replaced_log(elsewhere=300)}
    got = eventually(make(scans=str(tmp_path)))
    assert got.verdict is ClaimState.CONFIRMED, got.reason
    assert "value at offset 300" in got.reason


def test_a_log_that_was_replaced_unnoticed_is_not_judged_by_what_was_recorded_of_another(
    brokers: Brokers, make: Make
) -> None:
    """Broker 2 was never recorded to show the tombstone, and shows it now: it has another log than the views know."""
    brokers.logs[2].put(TOMBSTONE, b"k", None)
    prober = make(history=recorded)
    assert "is being scanned: " in judged(prober).reason
    assert eventually(prober).verdict is ClaimState.DISMISSED


def test_a_log_that_a_newer_epoch_replaced_is_not_looked_up_in_what_was_recorded_of_it(
    brokers: Brokers, make: Make
) -> None:
    """Broker 2's value lies elsewhere now, and nothing lies where the views have recorded it."""
    brokers.logs = {**brokers.logs, 2: replaced_log(elsewhere=300)}
    prober = make(history=recorded)
    assert "is being scanned: " in judged(prober).reason
    got = eventually(prober)
    assert got.verdict is ClaimState.CONFIRMED, got.reason
    assert "value at offset 300" in got.reason


def test_a_broker_that_did_not_answer_is_not_waited_for_again_at_once(brokers: Brokers, make: Make) -> None:
    brokers.hang.add(2)
    prober = make(history=recorded)
    assert "no answer in time" in judged(prober).reason
    assert "has not answered for" in judged(prober).reason
    brokers.hang.clear()
    assert "has not answered for" in judged(prober).reason
    assert judged(prober, claim()).verdict is ClaimState.PENDING


def test_what_is_read_is_counted_by_broker(make: Make) -> None:
    prober = make(history=recorded)
    assert prober.read_bytes == {}
    judged(prober)
    assert set(prober.read_bytes) == {1, 2, 3}
    assert all(0 < size < BOUND for size in prober.read_bytes.values())


class Beginning(Brokers):
    """Brokers of which the log of 2 begins above the others'; ``policy`` is what they say of the topic's settings."""

    policy: Any
    asked: list[str]

    def watermarks(self, broker: int, _places: Any, **_: Any) -> dict[TopicPartition, Watermarks]:
        self.asked.append(f"broker {broker}")
        return {PLACE: Watermarks(COUNT, COUNT, 5 if broker == 2 else 0, COUNT)}

    def topic_configs(self, topics: Any, names: Any, **_: Any) -> dict[str, Any]:
        self.asked.append("policy")
        assert (list(topics), list(names)) == ([TOPIC], ["cleanup.policy"])
        if isinstance(self.policy, Unreachable):
            raise self.policy
        return {} if self.policy is None else {TOPIC: self.policy}


HEAD = of_key(FindingKind.LOG_HEAD_MISSING, offset=5, key_hash_lo=0)


@pytest.fixture
def beginning(brokers: Brokers) -> Beginning:
    made = Beginning(brokers.logs)
    made.asked = []
    return made


def with_policy(beginning: Beginning, policy: Any, about: Claim = HEAD) -> tuple[str | None, Decision]:
    """What the prober makes of the brokers' word on the topic's settings, and what is decided by that."""
    beginning.policy = policy
    client: Any = beginning
    prober = Prober(client, HASHER, FindingSettings())
    try:
        (answers,) = prober.probe([about])
    finally:
        prober.close()
    return answers.cleanup_policy, decide(about, answers)


def test_a_log_that_begins_too_high_is_judged_by_the_policy_that_is_asked_after_the_logs(
    beginning: Beginning,
) -> None:
    policy, decision = with_policy(beginning, {"cleanup.policy": "compact", "delete.retention.ms": "1"})
    assert (policy, decision.verdict, decision.accused) == ("compact", ClaimState.CONFIRMED, 2)
    assert beginning.asked.count("policy") == 1
    assert beginning.asked[-1] == "policy"
    assert {"broker 1", "broker 2", "broker 3"} == set(beginning.asked[:-1])


@pytest.mark.parametrize("policy", ["compact,delete", "delete"])
def test_a_policy_that_deletes_may_explain_where_a_log_begins(beginning: Beginning, policy: str) -> None:
    known, decision = with_policy(beginning, {"cleanup.policy": policy})
    assert (known, decision.verdict) == (policy, ClaimState.PENDING)
    assert "deletes records now" in decision.reason


NOT_TOLD: dict[str, Any] = {
    "no broker answers": Unreachable("no broker answered"),
    "the right to describe the topic's settings is missing": Unauthorized("DESCRIBE_CONFIGS is not granted"),
    "the topic is not known there": UnknownTopic("no such topic"),
    "the topic's settings could not be read": ReplicaError("error 42"),
    "the topic is left out": None,
    "the setting is left out": {"delete.retention.ms": "1"},
}


@pytest.mark.parametrize("why", NOT_TOLD)
def test_without_the_policy_nothing_is_said_of_where_a_log_begins(beginning: Beginning, why: str) -> None:
    known, decision = with_policy(beginning, NOT_TOLD[why])
    assert (known, decision.verdict) == (None, ClaimState.PENDING)
    assert "cleanup policy is not known" in decision.reason


def test_no_other_claim_has_the_policy_asked_for(beginning: Beginning) -> None:
    about = of_offset(offset=OLD)
    policy, _ = with_policy(beginning, {"cleanup.policy": "compact"}, about)
    assert policy is None
    assert "policy" not in beginning.asked


class Coordinator:
    """A client of one coordinator, with one transaction."""

    def __init__(self, state: str, partitions: list[TopicPartition] | None) -> None:
        self.listed = TransactionListing("tx", 7, state, 1)
        self.partitions = partitions

    def metadata(self, topics: list[str], **_: Any) -> dict[str, TopicMetadata]:
        return {name: TopicMetadata(name, "A", {0: PartitionMetadata(1, 0, (1,), (1,))}) for name in topics}

    def list_transactions(self, _: Any, **__: Any) -> TransactionListings:
        return TransactionListings([self.listed], {}, frozenset({1}))

    def describe_transactions(self, broker: int, names: list[str], **_: Any) -> list[TransactionListing]:
        assert (broker, names) == (1, ["tx"])
        if self.partitions is None:
            raise Unauthorized("no version of the request")
        return [replace(self.listed, partitions=frozenset(self.partitions))]


@pytest.mark.parametrize(
    ("state", "partitions", "expected"),
    [
        ("Ongoing", [PLACE], (True, False, False)),
        ("Ongoing", [TopicPartition(TOPIC, 1)], (False, False, True)),
        ("Ongoing", None, (True, False, False)),
        ("PrepareCommit", [PLACE], (False, True, False)),
        ("PrepareCommit", [], (False, False, True)),
        ("CompleteAbort", None, (False, False, True)),
        ("Empty", None, (False, False, False)),
    ],
)
def test_a_transaction_that_has_no_part_in_the_partition_has_ended_there(
    state: str, partitions: list[TopicPartition] | None, expected: tuple[bool, bool, bool]
) -> None:
    client: Any = Coordinator(state, partitions)
    prober = Prober(client, HASHER, FindingSettings())
    try:
        found = prober._answer(Coordinators((7,), PLACE), {})[7]
    finally:
        prober.close()
    assert (found.is_ongoing, found.is_ending, found.has_ended) == expected
