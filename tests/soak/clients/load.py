"""Kafka Streams, Connect and MirrorMaker 2 at work, each of them stopped or killed and started again in turn."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from parallax.lab.admin import commit_offsets
from parallax.lab.cluster import Cluster, client_settings
from parallax.lab.errors import LabError
from parallax.lab.ports import free_ports
from parallax.lab.traffic import LegacyTransactionalProducer
from parallax.lab.waiting import until
from tests.soak import brokers
from tests.soak.clients import settings
from tests.soak.clients.feeds import Feed, Groups, Registry
from tests.soak.clients.processes import Client, client_jars
from tests.soak.load import Tally, Worker
from tests.soak.plan import Plan, Topic

_UP_S = 240.0
_COUNTED_S = 240.0
_STOPPED_S = 60.0


class Clients:
    """All clients together: see ``tests.soak.load.Load``."""

    watched: Mapping[str, Any] = {"pattern": ".*", "include": ["__consumer_offsets", "__transaction_state"]}
    """Everything there is: whatever the clients make, and Kafka's own topics, which have to be named."""
    work = settings.WORK

    def __init__(self, cluster: Cluster, plan: Plan, say: Callable[[str], None]) -> None:
        client_jars(say)
        rest, mirrors_rest = free_ports(2)
        self.tally = Tally()
        self._cluster = cluster
        self._plan = plan
        self._say = say
        self._rest = f"http://127.0.0.1:{rest}"
        self._clients = [
            *(settings.streams(cluster, number) for number in range(1, settings.STREAMS_INSTANCES + 1)),
            settings.connect(cluster, rest),
            settings.mirror_maker(cluster, mirrors_rest),
        ]
        self._feed = Feed(cluster, plan, self.tally)
        self._workers = [self._feed, Registry(cluster, plan, self.tally), Groups(cluster, plan, self.tally)]
        self._restarts = Restarts(self._clients, plan, self.tally, say)

    def create(self) -> None:
        brokers.create_topics(self._cluster, settings.MADE_BEFORE, self._plan.delete_retention_s)
        # Kafka makes its own topics when they are needed, and the job looks for topics that are named.
        commit_offsets(self._cluster, "soak-first", settings.WORDS.name, {0: 0})
        LegacyTransactionalProducer(self._cluster.bootstrap_servers, "soak-first")
        brokers.await_in_sync(self._cluster)

    def topics(self) -> tuple[Topic, ...]:
        return brokers.topics_but(self._cluster, "fault.")

    def start(self) -> None:
        """Start everything, and wait until the connectors run.

        Raises:
            LabError: a client ended, or Connect did not take its connectors.
        """
        for client in self._clients:
            client.start()
        for worker in self._workers:
            worker.start()
        settings.lines_file(self._cluster.folder).touch()
        for name, config in settings.connectors(self._cluster.folder).items():
            until(partial(self._configured, name, config), f"Connect to take {name}", timeout=_UP_S, interval=1.0)
        self._restarts.start()

    def _configured(self, name: str, config: dict[str, Any]) -> bool:
        url, body = f"{self._rest}/connectors/{name}/config", json.dumps(config).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=60):
                return True
        except (OSError, urllib.error.URLError):
            return False

    def check(self) -> None:
        for worker in (*self._workers, self._restarts):
            if worker.failure is not None:
                raise LabError(f"{worker.name} failed: {worker.failure!r}") from worker.failure

    def stop(self) -> dict[str, bool]:
        self._restarts.end()
        for worker in self._workers:
            worker.stopping.set()
        for worker in self._workers:
            worker.join(_STOPPED_S + 120)
            if worker.is_alive():
                raise LabError(f"{worker.name} did not stop")
        self.check()
        for client in self._clients:
            if not client.running:
                client.start()
        checks = {"Streams has counted every word once": self._all_counted()}
        for client in self._clients:
            client.stop()
        sunk = settings.sink_file(self._cluster.folder)
        self.tally.add(
            "counts in the sink connector's file", len(sunk.read_text().splitlines()) if sunk.exists() else 0
        )
        checks["Connect has written counts to its file"] = self.tally.read()["counts in the sink connector's file"] > 0
        return checks

    def close(self) -> None:
        """Kill what runs."""
        self._restarts.stopping.set()
        for client in self._clients:
            client.close()

    def _all_counted(self) -> bool:
        """Whether the latest counts of all words come to the words that were written, once Streams is done."""
        least = self.tally.read().get("words written", 0)
        most = least + self.tally.read().get("words not acknowledged", 0)
        latest: dict[bytes, int] = {}
        with_settings = {"group.id": "soak-reader", "isolation.level": "read_committed", "enable.auto.commit": False}
        reader = Consumer(client_settings(self._cluster.bootstrap_servers, **with_settings))
        reader.assign([TopicPartition(settings.COUNTS.name, p, 0) for p in range(settings.COUNTS.partitions)])

        def counted() -> bool:
            for message in reader.consume(10_000, timeout=1.0):
                if message.error() is None:
                    latest[message.key()] = int(message.value())
            return least <= sum(latest.values()) <= most

        try:
            until(counted, "the words to be counted", timeout=_COUNTED_S, interval=0.1)
        except LabError:
            self._say(f"{sum(latest.values())} words are counted; {least} to {most} were written")
            return False
        finally:
            reader.close()
            self.tally.add("words counted by Streams", sum(latest.values()))
        return True


class Restarts(Worker):
    """Stops or kills one client after the other, and starts it again; also one that ended by itself."""

    def __init__(self, clients: list[Client], plan: Plan, tally: Tally, say: Callable[[str], None]) -> None:
        super().__init__("restarts of clients", plan, tally)
        self._clients = clients
        self._say = say

    def work(self) -> None:
        while not self.stopping.wait(self.random.uniform(15, 35)):
            for client in self._clients:
                if not client.running:
                    self._say(f"{client.name} has ended by itself: {client.last_words()[-300:]}")
                    self.tally.add(f"{client.name}: ended by itself")
                    client.start()
            self._restart(self.random.choice(self._clients))

    def _restart(self, client: Client) -> None:
        kind = self.random.choice(("kill", "stop"))
        self._say(f"{kind} of {client.name}")
        self.tally.add(f"{client.name}: {kind}")
        (client.kill if kind == "kill" else client.stop)()
        self.stopping.wait(self.random.uniform(0, 8))
        client.start()

    def end(self) -> None:
        """End, with all clients started."""
        self.stopping.set()
        self.join(_STOPPED_S + 90)


__all__ = ["Clients", "Restarts"]
