"""What is done to the brokers of a soak, one at a time: restarts, kill -9, pauses, and moves of leaders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import ElectionType, KafkaException, TopicPartition

from parallax.lab.admin import elect_leaders
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from tests.soak.brokers import Partition, all_in_sync, ends, partitions_of
from tests.soak.load import Load
from tests.soak.plan import Plan

_BACK_S = 90.0
KINDS = ("restart", "kill", "pause", "leaders")
_MOVED = 4


@dataclass(frozen=True)
class Blow:
    """Something that was done to a broker, or to all of them."""

    kind: str
    """``restart``, ``kill``, ``pause`` or ``leaders``."""
    at_s: float
    broker: int | None
    away_s: float
    """From the blow until all replicas were in sync again."""
    leaders_moved: int


class Chaos(threading.Thread):
    """Hurts one broker after the other; the next one only when all replicas are in sync again."""

    def __init__(self, cluster: Cluster, plan: Plan, load: Load, say: Callable[[str], None]) -> None:
        super().__init__(name="chaos", daemon=True)
        self._cluster = cluster
        self._client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=2000)
        self._plan = plan
        self._load = load
        self._random = plan.random("chaos")
        self._say = say
        self._stopping = threading.Event()
        self._began = time.monotonic()
        self.blows: list[Blow] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while True:
                for kind in self._random.sample(KINDS, len(KINDS)):
                    if self._stopping.wait(self._random.uniform(4, 12)):
                        return
                    self._blow(kind)
        except BaseException as error:  # noqa: BLE001 - raised by ``check``
            self.failure = error

    def check(self) -> None:
        """Raise what ended the thread, if it has failed."""
        if self.failure is not None:
            raise LabError(f"hurting the brokers failed: {self.failure}") from self.failure

    def stop(self) -> None:
        """End after the present blow, with all brokers back and in sync."""
        self._stopping.set()
        self.join(self._plan.most_away_s + 2 * _BACK_S)
        self.check()
        if self.is_alive():
            raise LabError("the brokers did not come back in time")

    def _blow(self, kind: str) -> None:
        began, before = time.monotonic(), self._leaders()
        broker = None if kind == "leaders" else self._random.choice(list(self._cluster.brokers))
        lasts = self._random.uniform(1, self._plan.most_away_s)
        if broker is None:
            self._move_leaders()
        else:
            self._say(f"{kind} of broker {broker}, for {lasts:.0f} s")
            self._hurt(kind, broker, lasts)
        until(self._is_whole, f"all replicas to be in sync after {kind} of broker {broker}", timeout=_BACK_S)
        after = self._leaders()
        moved = sum(before[partition] != leader for partition, leader in after.items() if partition in before)
        self.blows.append(Blow(kind, began - self._began, broker, time.monotonic() - began, moved))

    def _is_whole(self) -> bool:
        """Whether every broker answers, and then whether all are in sync.

        The ISR alone does not tell: a broker that was away for less than its session keeps its place in it.
        """
        for broker in self._cluster.brokers.values():
            if not broker.running:
                raise LabError(f"broker {broker.id} ended: {broker.last_words()}")
        try:
            partitions = partitions_of(self._load.topics())
        except KafkaException:
            return False
        return ends(self._client, self._cluster.brokers, partitions) is not None and all_in_sync(self._cluster)

    def _hurt(self, kind: str, broker: int, lasts: float) -> None:
        """Take a broker away and bring it back; also when the run ends meanwhile."""
        if kind == "pause":
            self._cluster.pause_broker(broker)
            self._stopping.wait(lasts)
            self._cluster.resume_broker(broker)
            return
        if kind == "kill":
            self._cluster.kill_broker(broker)
        else:
            self._cluster.stop_broker(broker)
        self._stopping.wait(lasts)
        self._cluster.start_broker(broker)

    def _leaders(self) -> dict[Partition, int]:
        def known() -> dict[Partition, int] | None:
            try:
                partitions = partitions_of(self._load.topics())
                topics = self._cluster.admin.list_topics(timeout=2).topics
            except KafkaException:
                return None
            return {(t, p): topics[t].partitions[p].leader for t, p in partitions if t in topics}

        return until(known, "the leaders to be known", timeout=_BACK_S)

    def _move_leaders(self) -> None:
        """Have drawn brokers lead some partitions, or give all of them back to their preferred leaders."""
        if self._random.random() < 0.5:
            self._say("election of all preferred leaders")
            until(self._elected, "the leaders to be elected", timeout=_BACK_S, interval=0.5)
            return
        self._say(f"leader moves of {_MOVED} partitions")
        for topic, partition in self._random.sample(sorted(self._leaders()), _MOVED):
            elect_leaders(self._cluster, topic, partition, broker=self._random.choice(list(self._cluster.brokers)))

    def _elected(self) -> bool:
        places = [TopicPartition(topic, partition) for topic, partition in self._leaders()]
        try:
            self._cluster.admin.elect_leaders(ElectionType.PREFERRED, places).result(60)
        except KafkaException:
            return False
        return True
