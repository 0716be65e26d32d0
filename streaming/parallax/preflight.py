"""Checks storage and cluster before the job starts, so that a wrong setting gives one clear line immediately.

Only faults that do not go away by themselves are errors. A broker that is down may come back, so the job starts without
it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from parallax.alerting.webhook.record import NOTIFICATIONS
from parallax.audit.ledger import AUDITS
from parallax.config import Settings
from parallax.errors import SetupError
from parallax.findings.member_rows import MEMBERS
from parallax.findings.table import FINDINGS, SUSPECTS
from parallax.guard.table import GUARD_EVENTS
from parallax.model import TopicPartition
from parallax.repair.table import REPAIR_EVENTS
from parallax.replica.client import ReplicaClient, TopicMetadata
from parallax.replica.errors import BrokerTooOld, ReplicaError, Unauthorized, UnknownTopic
from parallax.source.options import matches
from parallax.source.survey import check_brokers
from parallax.stores import rust_path
from parallax.views.tables import LATE_REPLICAS, PROGRESS, VIEWS

log = structlog.get_logger(__name__)


_OF_FINDINGS = (SUSPECTS, FINDINGS, MEMBERS)
_TABLES = (*VIEWS, PROGRESS, *_OF_FINDINGS, AUDITS, NOTIFICATIONS, GUARD_EVENTS, LATE_REPLICAS, REPAIR_EVENTS)
_FOLDERS = ("checkpoints", "control", "feedback", *_TABLES)
"""The folders that a job keeps below ``storage.path``, on a local disk."""

_ROOM = 1 << 20
"""With fewer free bytes than this, a job need not start."""


def check_folder(storage: str) -> None:
    """Check that a job can write to a folder, or can make it.

    Args:
        storage: ``storage.path``, on a local disk.

    Raises:
        SetupError: the job can neither write to the folder nor make it; the text says why and what to do.
    """
    path = Path(rust_path(storage))
    folder, probe = path, None
    try:
        folder = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        probe = folder / f".parallax-check-{time.time_ns()}"
        with probe.open("xb") as file:
            file.write(bytes(_ROOM))
    except OSError as error:
        raise SetupError(
            f"{folder} cannot be written ({error.strerror}); give storage.path a folder that can be, on a disk with "
            "room for tables"
        ) from error
    finally:
        if probe is not None:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)
    for name in _FOLDERS:
        if (path / name).exists() and not (path / name).is_dir():
            raise SetupError(f"{path / name} is no folder; move it away, a job keeps one there below storage.path")


def check_cluster(client: ReplicaClient, settings: Settings) -> dict[str, Unauthorized]:
    """Check bootstrap servers, topics, broker ids, permissions and protocol versions.

    Args:
        client: asks the cluster.
        settings: the job's settings.

    Returns:
        For each topic that the job has no permission to read: its name and the error. The job watches the other topics
        meanwhile.

    Raises:
        ReplicaError: the job cannot work like this; the text names the setting or the broker. It is ``Unauthorized`` if
            no topic at all may be read.
    """
    topics = client.metadata()
    if settings.topics.include:
        topics |= client.metadata(settings.topics.include)
    chosen = watched(topics, settings)
    if not chosen:
        hint = "correct it, or grant DESCRIBE; topics that come to match are watched from then on"
        log.warning("topics.pattern: no topic that may be seen matches", pattern=settings.topics.pattern, what=hint)
    check_brokers(client, topics, settings.topics.brokers or ())
    refused = {topic.name: topic.error for topic in chosen if isinstance(topic.error, Unauthorized)}
    for broker, partitions in by_broker(chosen, settings).items():
        one_each = list({place.topic: place for place in partitions}.values())
        try:
            answers = client.watermarks(broker, one_each)
        except (BrokerTooOld, Unauthorized):
            raise
        except ReplicaError:
            continue  # down, or slow: the job watches for its return
        for (topic, _), answer in answers.items():
            if isinstance(answer, BrokerTooOld):
                raise answer
            if isinstance(answer, Unauthorized):
                refused.setdefault(topic, answer)
    if refused and len(refused) == len(chosen):
        raise next(iter(refused.values()))
    return refused


def watched(topics: Mapping[str, TopicMetadata], settings: Settings) -> list[TopicMetadata]:
    """Those of some topics that the settings tell the job to watch, in the order of ``topics``.

    A pattern never matches Kafka's own topics; these are watched only if the settings name them.

    Raises:
        UnknownTopic: a named topic does not exist.
    """
    wanted = settings.topics
    for name in wanted.include:
        if name not in topics or isinstance(topics[name].error, UnknownTopic):
            raise UnknownTopic(f"topics.include: topic {name!r} is not on the cluster; correct its name")
    return [topic for name, topic in topics.items() if is_watched(name, settings)]


def is_watched(topic: str, settings: Settings) -> bool:
    """Whether the settings tell the job to watch the topic with the name ``topic``."""
    return topic in settings.topics.include or matches(settings.topics.pattern, topic)


def by_broker(topics: Sequence[TopicMetadata], settings: Settings) -> dict[int, list[TopicPartition]]:
    """For each broker id, the partitions that have a replica there.

    If ``topics.brokers`` is set, only the brokers that it names are included.
    """
    found: dict[int, list[TopicPartition]] = {}
    for topic in topics:
        for index, partition in topic.partitions.items():
            for broker in partition.replicas:
                if not settings.topics.brokers or broker in settings.topics.brokers:
                    found.setdefault(broker, []).append(TopicPartition(topic.name, index))
    return found


__all__ = ["by_broker", "check_cluster", "is_watched", "watched"]
