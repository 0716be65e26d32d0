"""Kafka's own fault: a replica that catches up gives aborted records to consumers in read_committed.

An entry of the index of aborted transactions says where the first open transaction began when it was written, and a
search ends at the first entry that says an offset at or beyond what is asked for (TransactionIndex.collectAbortedTxns).
A follower that copies several transactions at a time looks for an open one of another producer, behind all that it has
copied (ProducerStateManager.lastStableOffset). So an entry may name an offset behind the next aborted transaction of
its own producer, and a search that ends there does not find that one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned

from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer, TransactionalProducer, transactional_producers
from parallax.lab.waiting import until
from tests.e2e.auditing import kinds, results, run_here, written
from tests.indexes import Entry, entries, hidden

pytestmark = [pytest.mark.timeout(1200), pytest.mark.release]

TOPIC = "gone-early-search"
LATE = 3
"""The broker that is away while all is written."""
LONG = "v" * 5_000
"""So long that each batch has an entry in the offset index, by which Kafka bounds the search (index.interval.bytes)."""


@dataclass
class Copied:
    """A topic that broker 3 has copied in one go: two transactions of a producer that aborted them, and an open one."""

    lab: Cluster
    other: TransactionalProducer
    aborted: list[int]

    def consumed(self, leader: int) -> list[str]:
        """The keys that a consumer in read_committed gets from a leader, from the start on."""
        admin.elect_leaders(self.lab, TOPIC, broker=leader)
        settings = {"isolation.level": "read_committed", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.lab.bootstrap_servers, "group.id": "early-search", **settings})
        consumer.assign([Assigned(TOPIC, 0, 0)])
        found: list[str] = []
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                message = consumer.poll(1.0)
                if message is not None and message.error():
                    return found
                if message is not None:
                    found.append(message.key().decode())
            raise AssertionError(f"broker {leader} shows no end of {TOPIC}: {found}")
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def copied(hurt: Cluster) -> Iterator[Copied]:
    hurt.create_topic(TOPIC)
    with transactional_producers(hurt, "legacy", ["early-one", "early-other"]) as producers:
        one, other = producers["early-one"], producers["early-other"]
        one.begin()
        one.send(TOPIC, "committed", LONG)
        one.commit()
        hurt.stop_broker(LATE)
        hurt.wait_isr(TOPIC, {1, 2})
        aborted = []
        for _ in range(2):
            one.begin()
            aborted.append(one.send(TOPIC, f"aborted-{len(aborted)}", LONG))
            one.abort()
        PlainProducer(hurt.bootstrap_servers).send(TOPIC, "plain", LONG)
        other.begin()
        other.send(TOPIC, "open", LONG)
        hurt.start_broker(LATE)
        hurt.wait_isr(TOPIC, {1, 2, LATE})
        made = Copied(hurt, other, aborted)
        until(lambda: len(index_of(made, LATE)) == len(aborted), f"broker {LATE} to have copied what was aborted")
        yield made


def index_of(copied: Copied, broker: int) -> list[Entry]:
    return entries(copied.lab.brokers[broker].folder / "data" / f"{TOPIC}-0")


def test_the_replica_that_shows_what_was_rolled_back_is_accused_and_ends_right(copied: Copied, tmp_path: Path) -> None:
    assert copied.consumed(1) == ["committed", "plain"]
    assert copied.consumed(LATE) == ["committed", "aborted-1", "plain"], "the fault of the broker, without Parallax"
    assert [[one.first for one in hidden(index_of(copied, b))] for b in (1, 2, LATE)] == [[], [], copied.aborted[1:]]
    config = written(copied.lab, tmp_path)
    found = results(run_here(config, "--topic", TOPIC, "--format", "json"))[TOPIC]
    assert kinds(found) == [("outcome_contradicts_marker", LATE)], found
    assert [one["offset"] for one in found["findings"]] == copied.aborted[1:]
    copied.other.commit()
    until(lambda: copied.consumed(LATE) == ["committed", "plain", "open"], "all that was committed to be shown")
    after = results(run_here(config, "--topic", TOPIC, "--format", "json"))[TOPIC]
    assert (after["result"], kinds(after)) == ("consistent", []), after
