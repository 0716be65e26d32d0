"""What the real clients are told, and which topics come of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parallax.lab.cluster import Cluster
from tests.soak.clients.processes import Client
from tests.soak.plan import Topic

WORDS = Topic("clients.words", 3, "delete")
TABLE = Topic("clients.table", 3, "compact")
COUNTS = Topic("clients.counts", 3, "compact")
WINDOWS = Topic("clients.windows", 3, "compact,delete", retention_s=120)
UPPER = Topic("clients.upper", 3, "compact")
LINES = Topic("clients.lines", 2, "delete")
SCHEMAS = Topic("_schemas", 1, "compact")
"""Of a schema registry; its one partition and its policy are Confluent's."""

MADE_BEFORE = (WORDS, TABLE, COUNTS, WINDOWS, UPPER, LINES, SCHEMAS)
"""The topics that the clients do not make themselves."""

APPLICATION = "soak-words"
"""``application.id`` of the Streams application; its group and the beginning of its topics' names."""
SINK = "soak-sink"
STREAMS_INSTANCES = 2

WORK: Mapping[str, tuple[str, ...]] = {
    "Streams: what it writes for others": (COUNTS.name, WINDOWS.name, UPPER.name),
    "Streams: changelogs": (f"{APPLICATION}-counts-changelog", f"{APPLICATION}-windows-changelog"),
    "Connect: what it has read from a file": (LINES.name,),
    "Connect: its own topics": ("connect-configs", "connect-offsets", "connect-status"),
    "MirrorMaker 2: copies": (f"source.{WORDS.name}", f"source.{TABLE.name}"),
    "MirrorMaker 2: its own topics": ("heartbeats", "mm2-offset-syncs.backup.internal", "mm2-offsets.source.internal"),
    "a schema registry's topic": (SCHEMAS.name,),
    "groups' offsets": ("__consumer_offsets",),
    "transactions' states": ("__transaction_state",),
}
"""Where each kind of client leaves records; every topic of a group must hold some."""


def broker_settings(delete_retention_s: float) -> dict[str, str]:
    """Settings of the brokers by which all topics are cleaned within minutes, those that the clients make included."""
    return {
        "log.roll.ms": "4000",
        "log.cleaner.min.cleanable.ratio": "0.001",
        "log.cleaner.delete.retention.ms": str(int(delete_retention_s * 1000)),
        "log.segment.delete.delay.ms": "1000",
    }


def streams(cluster: Cluster, number: int) -> Client:
    """An instance of the Streams application, with exactly_once_v2."""
    settings = {
        "application.id": APPLICATION,
        "bootstrap.servers": cluster.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 500,
        "default.key.serde": _STRINGS,
        "default.value.serde": _STRINGS,
        "num.stream.threads": 1,
        "replication.factor": -1,
        "state.dir": cluster.folder / f"streams-{number}",
        "consumer.session.timeout.ms": 10_000,
    }
    name = f"streams {number}"
    file = _written(cluster.folder / f"streams-{number}.properties", settings)
    program = Path(__file__).with_name("WordCount.java")
    return Client(name, [program, file], cluster.folder / f"streams-{number}.log")


_STRINGS = "org.apache.kafka.common.serialization.Serdes$StringSerde"


def connect(cluster: Cluster, port: int) -> Client:
    """A Connect worker in distributed mode, with exactly-once sources (KIP-618) and its REST interface on a port."""
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "soak-connect",
        "exactly.once.source.support": "enabled",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "offset.storage.partitions": 3,
        "status.storage.topic": "connect-status",
        "status.storage.partitions": 2,
        "config.storage.replication.factor": -1,
        "offset.storage.replication.factor": -1,
        "status.storage.replication.factor": -1,
        "offset.flush.interval.ms": 2000,
        "session.timeout.ms": 10_000,
        "scheduled.rebalance.max.delay.ms": 0,
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
    }
    file = _written(cluster.folder / "connect.properties", settings)
    return Client("connect", [_CONNECT, file], cluster.folder / "connect.log")


_CONNECT = "org.apache.kafka.connect.cli.ConnectDistributed"


def connectors(folder: Path) -> dict[str, dict[str, Any]]:
    """The connectors: a file's lines into a topic, and the words' counts into a file."""
    return {
        "soak-source": {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(lines_file(folder)),
            "topic": LINES.name,
            "transaction.boundary": "poll",
        },
        SINK: {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(sink_file(folder)),
            "topics": COUNTS.name,
            "consumer.override.isolation.level": "read_committed",
        },
    }


def lines_file(folder: Path) -> Path:
    """What the source connector reads."""
    return folder / "connect-lines.txt"


def sink_file(folder: Path) -> Path:
    """What the sink connector writes."""
    return folder / "connect-sink.txt"


def mirror_maker(cluster: Cluster, port: int) -> Client:
    """MirrorMaker 2 with exactly-once sources, from the cluster to itself: it is both ``source`` and ``backup``."""
    settings = {
        "clusters": "source, backup",
        "source.bootstrap.servers": cluster.bootstrap_servers,
        "backup.bootstrap.servers": cluster.bootstrap_servers,
        "source->backup.enabled": "true",
        "backup->source.enabled": "false",
        "backup->source.emit.heartbeats.enabled": "false",
        "source->backup.topics": r"clients\\.(words|table)",
        "source->backup.groups": f"{APPLICATION},connect-{SINK}",
        "source->backup.sync.group.offsets.enabled": "true",
        "source->backup.emit.checkpoints.interval.seconds": 5,
        "source->backup.sync.group.offsets.interval.seconds": 5,
        "source->backup.refresh.topics.interval.seconds": 20,
        # It would copy the copies of heartbeats for ever: nothing tells it that the two clusters are one.
        "source->backup.heartbeats.replication.enabled": "false",
        "offset.storage.partitions": 3,
        "status.storage.partitions": 2,
        "backup.exactly.once.source.support": "enabled",
        "backup.scheduled.rebalance.max.delay.ms": 0,
        "plugin.discovery": "service_load",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{port}",
        **{f"{of}.replication.factor": len(cluster.brokers) for of in ("source->backup", *_MIRRORS_TOPICS)},
    }
    file = _written(cluster.folder / "mirror-maker.properties", settings)
    return Client("mirror maker", [_MIRROR_MAKER, file], cluster.folder / "mirror-maker.log")


_MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"
_MIRRORS_TOPICS = (
    "checkpoints.topic",
    "heartbeats.topic",
    "offset-syncs.topic",
    "config.storage",
    "offset.storage",
    "status.storage",
)


def _written(file: Path, settings: Mapping[str, Any]) -> Path:
    file.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()), encoding="utf-8")
    return file
