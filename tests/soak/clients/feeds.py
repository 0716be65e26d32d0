"""What the real clients are fed with, and the clients that are but a few requests: a registry, and groups that go."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Producer

from parallax.lab.admin import commit_offsets, delete_group
from parallax.lab.cluster import Cluster, client_settings
from parallax.lab.errors import LabError
from tests.soak.clients.settings import LINES, SCHEMAS, TABLE, WORDS, lines_file
from tests.soak.load import Tally, Worker
from tests.soak.plan import Plan

_RATE = 30.0
_WORDS = 50
_KEYS = 200


def _producer(cluster: Cluster) -> Any:
    # What is not acknowledged within ten minutes is not: every word must be there once, whatever brokers go through.
    more = {"enable.idempotence": True, "acks": "all", "linger.ms": 200, "delivery.timeout.ms": 600_000}
    return Producer(client_settings(cluster.bootstrap_servers, **more))


class Feed(Worker):
    """Words for Streams to count, rows of a table that come and go, and lines of a file for Connect to read."""

    def __init__(self, cluster: Cluster, plan: Plan, tally: Tally) -> None:
        super().__init__("feed", plan, tally)
        self._producer = _producer(cluster)
        self._lines = lines_file(cluster.folder)
        self._count = 0

    def work(self) -> None:
        with self._lines.open("a", encoding="utf-8") as lines:
            while not self.stopping.wait(self.random.expovariate(_RATE)):
                self._word()
                if self.random.random() < 0.5:
                    self._row()
                if self.random.random() < 0.3:
                    self._count += 1
                    lines.write(f"line {self._count}\n")
                    lines.flush()
                    self.tally.add("lines for the source connector")
                self._producer.poll(0)
        self._producer.flush(120)

    def _word(self) -> None:
        word = f"word-{self.random.randrange(_WORDS)}"

        def count(error: Any, _: Any) -> None:
            self.tally.add("words written" if error is None else "words not acknowledged")

        key, partition = f"sentence-{self._count}", self.random.randrange(WORDS.partitions)
        self._producer.produce(WORDS.name, word, key, partition=partition, on_delivery=count)

    def _row(self) -> None:
        number = self.random.randrange(_KEYS)
        value = None if self.random.random() < 0.3 else f"value {self.random.randrange(1000)}"
        partition = number % TABLE.partitions
        self._producer.produce(TABLE.name, value, f"row-{number}", partition=partition)
        self.tally.add("rows of the table" if value is not None else "rows of the table deleted")


class Registry(Worker):
    """A stand-in for a schema registry: it writes the records that Confluent's writes to ``_schemas``, as one leader.

    A subject gets versions; now and then one is deleted for good, which are tombstones (Confluent's KafkaStore).
    """

    def __init__(self, cluster: Cluster, plan: Plan, tally: Tally) -> None:
        super().__init__("registry", plan, tally)
        self._producer = _producer(cluster)
        self._versions: dict[str, int] = {}
        self._id = 0

    def work(self) -> None:
        while not self.stopping.wait(self.random.uniform(0.2, 2)):
            subject = f"subject-{self.random.randrange(15)}"
            if self._versions.get(subject, 0) and self.random.random() < 0.3:
                self._forget(subject)
            else:
                self._register(subject)
            self._producer.poll(0)
        self._producer.flush(120)

    def _register(self, subject: str) -> None:
        version = self._versions[subject] = self._versions.get(subject, 0) + 1
        self._id += 1
        schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": f"f{self._id}", "type": "string"}]})
        value = {"subject": subject, "version": version, "id": self._id, "schema": schema, "deleted": False}
        self._write(self._key("SCHEMA", subject, version), value)
        self.tally.add("schemas registered")

    def _forget(self, subject: str) -> None:
        last = self._versions.pop(subject)
        self._write(
            {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}, {"subject": subject, "version": last}
        )
        for version in range(1, last + 1):
            self._write(self._key("SCHEMA", subject, version), None)
        self.tally.add("schemas deleted", last)

    def _key(self, kind: str, subject: str, version: int) -> dict[str, Any]:
        return {"keytype": kind, "subject": subject, "version": version, "magic": 1}

    def _write(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        text = None if value is None else json.dumps(value)
        self._producer.produce(SCHEMAS.name, text, json.dumps(key), partition=0)


class Groups(Worker):
    """Consumer groups that commit offsets and are deleted, which leaves tombstones in ``__consumer_offsets``.

    By kafka-python: librdkafka's requests to a group's coordinator abort the process where the coordinator goes away.
    """

    def __init__(self, cluster: Cluster, plan: Plan, tally: Tally) -> None:
        super().__init__("groups", plan, tally)
        self._cluster = cluster
        self._known: set[str] = set()

    def work(self) -> None:
        while not self.stopping.wait(self.random.uniform(1, 4)):
            group = f"soak-group-{self.random.randrange(8)}"
            try:
                self._use(group)
            except LabError:
                self.tally.add("requests of groups that failed")

    def _use(self, group: str) -> None:
        if group in self._known and self.random.random() < 0.3:
            delete_group(self._cluster, group)
            self._known.discard(group)
            self.tally.add("groups deleted")
            return
        topic = self.random.choice((WORDS, LINES))
        offsets = {partition: self.random.randrange(1000) for partition in range(topic.partitions)}
        commit_offsets(self._cluster, group, topic.name, offsets)
        self._known.add(group)
        self.tally.add("offsets committed for groups", len(offsets))


__all__ = ["Feed", "Groups", "Registry"]
