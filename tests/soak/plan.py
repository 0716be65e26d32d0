"""What a soak does, and the settings that make its first part healthy.

Healthy means (docs/contribute/theory.md) that no replica is away for longer than ``delete.retention.ms`` of any topic
under traffic. That is 60 s and outages last up to 20 s (in runs of under four minutes 45 s and 8 s), which leaves more
than half a minute to bring a broker back on a machine that stalls. Coming back is waited for before the next outage,
and how long each replica really was away is measured. The tombstones and markers of the first minutes are cleaned
within the run all the same.

What is drawn at random is drawn from the seed. The brokers' threads and the clock are not, so a seed repeats the plan
of a run, not each of its interleavings.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

_COMPACTION = {
    "segment.ms": "4000",
    "min.cleanable.dirty.ratio": "0.001",
    "file.delete.delay.ms": "1000",
}


@dataclass(frozen=True)
class Topic:
    """A topic under traffic; its partitions are led by the brokers in turn."""

    name: str
    partitions: int
    policy: str
    null_keys: bool = False
    retention_s: float | None = None

    def config(self, delete_retention_s: float) -> dict[str, str]:
        """The topic's settings."""
        retention = {} if self.retention_s is None else {"retention.ms": _ms(self.retention_s)}
        return {
            "cleanup.policy": self.policy,
            "delete.retention.ms": _ms(delete_retention_s),
            **_COMPACTION,
            **retention,
        }


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))


COMPACTED = Topic("soak.compacted", 8, "compact")
BOTH = Topic("soak.compacted-and-deleted", 6, "compact,delete", retention_s=120)
DELETED = Topic("soak.deleted", 6, "delete", null_keys=True, retention_s=60)
IDLE = Topic("soak.idle", 4, "compact")
"""Is written to at the beginning, and never again."""
BUSY = (COMPACTED, BOTH, DELETED)
TOPICS = (*BUSY, IDLE)

PATTERN = r"(soak|fault)\..*"
"""What the job watches: the traffic, and the topics of the injected faults."""

BROKERS: Mapping[str, str] = {
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "1000",
    "producer.id.expiration.ms": "120000",
}
"""Over the lab's own settings (an ISR is left after 4 s).

Idle producers are forgotten after longer than any outage. With the lab's 5 s all producers of a partition may have been
forgotten when a broker comes back and cuts its log's unreplicated end off; Kafka then takes an older snapshot for the
state of the producers without reading on from there (UnifiedLog.rebuildProducerState), and a transaction that ended
since stays open on that replica: a divergence.
"""

FAULT_BROKERS: Mapping[str, str] = {"producer.id.expiration.ms": "5000"}
"""Set when the faults begin: legacy transactions keep their marker until their producer is forgotten."""

TRANSACTION_TIMEOUT_S = 20.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PLAIN_RATE = 32.0
"""Records a second of each plain producer; there is one for each codec."""
LEGACY_PRODUCERS = 3
JAVA_PRODUCERS = 3

FAULTS = ("resurrected", "aborted-committed", "committed-aborted", "frozen", "deletion-committed")
"""The lab's scenarios that are played after the healthy part."""


@dataclass(frozen=True)
class Plan:
    """A run: how long its healthy part is, and what is drawn from the seed."""

    seed: int
    healthy_s: float
    faults: tuple[str, ...] = FAULTS
    real_clients: bool = False
    """Whether Streams, Connect and MirrorMaker 2 work on the cluster instead of this program's writers."""

    @property
    def is_short(self) -> bool:
        return self.healthy_s < 240

    @property
    def delete_retention_s(self) -> float:
        """``delete.retention.ms`` of the topics under traffic."""
        return 45.0 if self.is_short else 60.0

    @property
    def most_away_s(self) -> float:
        """The longest outage that is drawn; a broker then takes some seconds to be in sync again."""
        return 8.0 if self.is_short else 20.0

    def random(self, of: str) -> random.Random:
        """A stream of random numbers of one actor's own."""
        return random.Random(f"{self.seed}:{of}")

    @property
    def job_kills_s(self) -> tuple[float, ...]:
        """When the job is killed, in seconds of the healthy part: early, so that most of the run sees it grow old."""
        drawn = self.random("job")
        kills = [self.healthy_s * drawn.uniform(0.15, 0.3)]
        if self.healthy_s >= 1200:
            kills.append(self.healthy_s * drawn.uniform(0.8, 0.9))
        return tuple(kills)

    @property
    def java_crash_s(self) -> float:
        """When the JVM of the Java producers is killed with its transactions open."""
        return self.healthy_s * self.random("java crash").uniform(0.4, 0.6)
