"""Defines the streaming queries that record the views and progress; ``read.grouping`` says how many there are.

Few queries are cheaper, because each has micro-batches of its own, however little it reads. Many queries keep brokers
apart. In one query, a broker that hangs delays the other brokers by a request timeout each time it is tried again
(`parallax.source.watch`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parallax.config import ReadSettings, Settings
from parallax.model import IsolationLevel
from parallax.source.options import BOTH
from parallax.stores import is_remote, rust_path
from parallax.views.checkpoints import Checkpoint
from parallax.views.driver_files import own_folder
from parallax.views.hash_key import hash_key, name_of
from parallax.views.recording import STORAGE, RecordingSource
from parallax.views.sink import OnPositions, OnProgress, ProgressSink, ViewSink
from parallax.views.tables import create_tables

_HELD_BACK_S = 10
"""If bytes are limited, a micro-batch plans no more than may be read in this many seconds."""


@dataclass(frozen=True)
class QuerySpec:
    """A streaming query that the job runs: its name, its checkpoint, and how to start it.

    After a failure it is started again, and goes on from its last micro-batch.

    Attributes:
        name: name of the query and of its checkpoint.
        start: starts the query in a Spark session, and returns Spark's query.
        checkpoint: its checkpoint, which is checked before each start.
        rows: returns how many rows it has recorded since it was defined; None if Spark counts them.
    """

    name: str
    start: Callable[[Any], Any]
    checkpoint: Checkpoint
    rows: Callable[[], int] | None = None


_HOPELESS_AFTER = 5
"""A checkpoint is set aside after so many failures in a row. Feedback file and tables know the positions, too."""


@dataclass(frozen=True)
class Group:
    """The readers that one streaming query reads, e.g. all of broker 2.

    Attributes:
        name: name of the query and of its checkpoint.
        isolations: isolation levels of the readers.
        brokers: ids of their brokers; None for all that ``topics.brokers`` allows.
    """

    name: str
    isolations: tuple[IsolationLevel, ...]
    brokers: tuple[int, ...] | None


def view_queries(
    settings: Settings,
    *,
    brokers: Sequence[int] = (),
    on_positions: OnPositions | None = None,
    on_progress: OnProgress | None = None,
) -> list[QuerySpec]:
    """Define the queries that write both views and the table of progress.

    Args:
        settings: the job's settings.
        brokers: ids of all brokers that host a replica, or may come to host one (`hosting_brokers`). They are needed if
            ``read.grouping`` is ``broker`` or ``reader`` and ``topics.brokers`` is not set.
        on_positions: called after each commit with the position that it has recorded of each reader.
        on_progress: called after each commit to ``replica_progress`` with its rows.

    Raises:
        ValueError: the brokers are needed and not given.
        ConfigError: the file with the hash key cannot be used.
    """
    key = hash_key(settings.storage.path, settings.read)
    specs = [_view_query(settings, group, key, on_positions) for group in groups(settings, brokers)]
    return [*specs, _progress_query(settings, on_progress)]


def groups(settings: Settings, brokers: Iterable[int] = ()) -> list[Group]:
    """Divide all readers among streaming queries, as ``read.grouping`` says; one `Group` for each query.

    Args:
        settings: the job's settings.
        brokers: ids of all brokers that host a replica, or may come to host one. They are needed if ``read.grouping``
            is ``broker`` or ``reader`` and ``topics.brokers`` is not set.

    Raises:
        ValueError: the brokers are needed and not given.
    """
    both = tuple(IsolationLevel)
    if settings.read.grouping == "all":
        return [Group("views", both, None)]
    if settings.read.grouping == "isolation":
        return [Group(isolation.option, (isolation,), None) for isolation in both]
    known = sorted(settings.topics.brokers or brokers)
    if not known:
        raise ValueError(
            f"read.grouping is {settings.read.grouping}, and no broker is known; set topics.brokers, such as [1, 2, 3]"
        )
    if settings.read.grouping == "broker":
        return [Group(f"views-broker-{broker}", both, (broker,)) for broker in known]
    return [
        Group(f"{isolation.option}-broker-{broker}", (isolation,), (broker,)) for isolation in both for broker in known
    ]


def source_options(settings: Settings) -> dict[str, str]:
    """The options that ``kafka-replica`` and ``kafka-progress`` have in common, from the job's settings.

    Returns:
        Value by name.
    """
    options = {f"kafka.{name}": value for name, value in settings.kafka.items()}
    options["request.timeout.ms"] = str(settings.read.request_timeout_ms)
    options["metadata.refresh.ms"] = str(settings.read.metadata_refresh_ms)
    if settings.topics.include:
        options["topics"] = ",".join(settings.topics.include)
    if settings.topics.pattern is not None:
        options["topics.pattern"] = settings.topics.pattern
    if settings.topics.brokers is not None:
        options["brokers"] = ",".join(map(str, settings.topics.brokers))
    return options


def hosting_brokers(settings: Settings) -> list[int]:
    """Ids of the brokers that host a replica of a watched topic, or may come to host one.

    These are all brokers of the cluster, and dead ones that host a replica; the ids are sorted.

    Raises:
        ReplicaError: no broker answers.
    """
    from parallax.replica.client import ReplicaClient
    from parallax.source.options import progress_options
    from parallax.source.survey import Catalog

    client = ReplicaClient(settings.kafka, timeout_ms=settings.read.request_timeout_ms)
    try:
        topics = Catalog(client, progress_options(source_options(settings))).topics()
        hosting = {broker for t in topics.values() for p in t.partitions.values() for broker in p.replicas}
        return sorted(hosting | client.brokers().keys())
    finally:
        client.close()


def _view_query(settings: Settings, group: Group, key: str, on_positions: OnPositions | None) -> QuerySpec:
    storage, read = settings.storage.path, settings.read
    feedback_path = _feedback_path(storage, group.name)
    options = source_options(settings) | {
        "isolation.level": group.isolations[0].option if len(group.isolations) == 1 else BOTH,
        "startingOffsets": read.starting_offsets,
        "payload": read.payload,
        "hash.key": key,
        "feedback.path": feedback_path,
        "fetch": read.fetch,
        "paused.path": paused_path(storage),
        "trigger.ms": str(read.trigger_ms),
        STORAGE: storage,
        **limits(read, group),
    }
    if group.brokers is not None:
        options["brokers"] = ",".join(map(str, group.brokers))
    sink = ViewSink(storage, group.isolations, feedback_path, on_positions)

    checkpoint = Checkpoint(storage, group.name, hopeless_after=_HOPELESS_AFTER)

    def start(spark: Any) -> Any:
        create_tables(storage, name_of(key))
        sink.prepare()
        rows = spark.readStream.format(RecordingSource.name()).options(**options).load()
        return _start(rows, sink, checkpoint, group.name)

    return QuerySpec(group.name, start, checkpoint, lambda: sink.rows)


def limits(read: ReadSettings, group: Group) -> dict[str, str]:
    """The options of ``kafka-replica`` that limit how much one query reads, value by name.

    ``read.max_bytes_per_second`` limits a broker over both isolation levels. A query that reads one of them gets half.

    Args:
        read: the settings ``read``.
        group: the readers of the query.
    """
    if not read.max_bytes_per_second:
        return {"maxBytesPerTrigger": str(read.max_bytes_per_trigger)}
    rate = read.max_bytes_per_second * len(group.isolations) // len(IsolationLevel)
    in_time = min(read.max_bytes_per_trigger, rate * _HELD_BACK_S)
    return {"maxBytesPerSecond": str(rate), "maxBytesPerTrigger": str(in_time)}


def _progress_query(settings: Settings, on_progress: OnProgress | None) -> QuerySpec:
    storage = settings.storage.path
    sink = ProgressSink(storage, on_progress)
    checkpoint = Checkpoint(storage, "progress", hopeless_after=_HOPELESS_AFTER)

    def start(spark: Any) -> Any:
        create_tables(storage)
        options = source_options(settings) | {
            "awaited.path": awaited_path(storage),
            "trigger.ms": str(settings.read.progress_interval_ms),
        }
        rows = spark.readStream.format("kafka-progress").options(**options).load()
        return _start(rows, sink, checkpoint, "progress")

    return QuerySpec("progress", start, checkpoint)


def _start(rows: Any, sink: Callable[[Any, int], None], checkpoint: Checkpoint, name: str) -> Any:
    return (
        rows.writeStream.queryName(name)
        .option("checkpointLocation", checkpoint.location())
        .trigger(processingTime="0 seconds")  # The source waits until its next look is due.
        .foreachBatch(sink)
        .start()
    )


def awaited_path(storage: str) -> str:
    """Path of the file that names the partitions of which the comparison waits for a report (`AwaitedFile`).

    Args:
        storage: ``storage.path``.
    """
    return _feedback_path(storage, "awaited")


def paused_path(storage: str) -> str:
    """Path of the file in which the job names the brokers whose reading is paused (`PausedFile`).

    Args:
        storage: ``storage.path``.
    """
    return _feedback_path(storage, "paused")


def _feedback_path(storage: str, name: str) -> str:
    """Path of a file for the sources: next to the tables, or on the driver's machine if the tables are elsewhere.

    The sources plan on that machine, and look at the file often.
    """
    if not is_remote(storage):
        return str(Path(rust_path(storage)).absolute() / "feedback" / f"{name}.json")
    return str(own_folder(storage) / f"{re.sub('[^a-z0-9_-]', '_', name)}.json")
