"""Remembers which cluster a storage belongs to, and the storage's own id.

The tables below one ``storage.path`` are the record of one cluster, and rows of another must not get into them. The
first start binds a storage to the cluster that answers; ``parallax storage bind`` binds it to another.

Code that asks brokers on behalf of a storage uses settings from `with_cluster` or `settled`. These hold the cluster's
id. Every connection made from them checks it, in Spark's processes too (`parallax.replica.identity`).
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager

from parallax.config import ConfigError, Settings
from parallax.errors import one_line
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import OtherCluster
from parallax.replica.options import CLUSTER_ID
from parallax.stores import set_environment
from parallax.views.control import FOLDER, create_document, read_document, refusals, write_document

_FILE = "cluster.json"
_KEY = "cluster_id"
_LONGEST = 255
_WRITTEN = re.compile(r"[A-Za-z0-9._=-]{1,64}")
"""An id as people write it. Kafka makes one of 22 of these letters, and hosted clusters have similar ones."""
_ID_FILE = "storage.json"
_ID_KEY = "storage_id"
_ID = re.compile("[0-9a-f]{16}")


def bound_to(storage: str) -> str | None:
    """The id of the cluster that a storage belongs to; None if no job has started on it yet.

    Args:
        storage: ``storage.path``.

    Raises:
        ConfigError: the storage cannot be read.
    """
    try:
        document = read_document(storage, _FILE)
        return None if document is None else _checked(document[_KEY])
    except refusals(ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(
            f"storage.path: {storage}: {FOLDER}/{_FILE} cannot be read ({one_line(error)}); "
            "write it again with parallax storage bind"
        ) from error


def is_bound(storage: str) -> bool:
    """Whether a storage was ever bound to a cluster, even if the file that says to which is damaged.

    Args:
        storage: ``storage.path``.

    Raises:
        ConfigError: the storage cannot be read.
    """
    try:
        return read_document(storage, _FILE) is not None
    except (ValueError, RecursionError):
        return True
    except refusals() as error:
        raise ConfigError(
            f"storage.path: {storage}: {one_line(error)}; check the path, its rights and the credentials"
        ) from error


def bind(storage: str, cluster_id: str) -> None:
    """Record that a storage belongs to a cluster, even if it belonged to another before.

    Args:
        storage: ``storage.path``.
        cluster_id: the cluster's id.

    Raises:
        ConfigError: ``cluster_id`` is no cluster's id, or the storage cannot be written.
    """
    with _one_line_errors(storage):
        if not _WRITTEN.fullmatch(cluster_id):
            raise ValueError("a cluster's id is 1 to 64 letters, digits, '.', '_', '=' and '-'")
        write_document(storage, _FILE, {_KEY: cluster_id})


def id_of(storage: str) -> str:
    """The id of a storage; the first call makes it, and it never changes.

    So the storage has the same id, even if its job gets another address or other labels.

    Args:
        storage: ``storage.path``.

    Returns:
        16 hexadecimal digits.

    Raises:
        ConfigError: the storage cannot be read, or the id cannot be written.
    """
    try:
        if read_document(storage, _ID_FILE) is None:
            create_document(storage, _ID_FILE, {_ID_KEY: secrets.token_hex(8)})
        # Another process may have been first; then its id counts.
        found = read_document(storage, _ID_FILE)[_ID_KEY]
        if not _ID.fullmatch(found):
            raise ValueError("it holds no id")
    except refusals(ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(
            f"storage.path: {storage}: {FOLDER}/{_ID_FILE} cannot be read or made ({one_line(error)}); storage.path "
            "must be one that can be written; if it can, delete that file"
        ) from error
    return str(found)


@contextmanager
def _one_line_errors(storage: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"--cluster: {error}; parallax check shows it") from None
    except refusals() as error:
        raise ConfigError(f"storage.path: {storage}: {one_line(error)}; it must be one that can be written") from error


def _checked(cluster_id: object) -> str:
    if not isinstance(cluster_id, str) or not 0 < len(cluster_id) <= _LONGEST:
        raise ValueError("a cluster's id is missing, or too long")
    if not cluster_id.isprintable() or " " in cluster_id:
        raise ValueError("a cluster's id holds no spaces, and nothing that cannot be printed")
    return cluster_id


def with_cluster(settings: Settings) -> Settings:
    """The settings with the id of the cluster that their storage belongs to; unchanged if it belongs to none.

    Raises:
        ConfigError: ``kafka.cluster.id`` names another cluster, or the storage cannot be read.
    """
    known, wanted = _known(settings), settings.kafka.get(CLUSTER_ID)
    if known is None:
        return settings
    if wanted not in (None, "", known):
        raise ConfigError(
            f"kafka.{CLUSTER_ID}: is {wanted}, and storage.path belongs to cluster {known}; correct one of them, or "
            "move the storage with parallax storage bind"
        )
    return _of(settings, known)


def settled(settings: Settings) -> Settings:
    """The settings with the id of the cluster that their storage belongs to; a new storage is bound first.

    It is bound to the cluster that answers. If two processes bind a storage at the same time, the first one counts, and
    both get the id of its cluster. The settings are unchanged if the cluster that answers has no id.

    Raises:
        ConfigError: the addresses belong to several clusters; ``kafka.cluster.id`` names another cluster than the
            storage's; or the storage cannot be read.
        ReplicaError: the storage is new, and no broker answers.
    """
    if _known(settings) is not None:
        return with_cluster(settings)
    with closing(ReplicaClient(settings.kafka, timeout_ms=settings.read.request_timeout_ms)) as client:
        client.metadata([])
        cluster_id = client.cluster_id
        others = {place: error for place, error in client.clusters().items() if isinstance(error, OtherCluster)}
    if not cluster_id:
        return settings
    if others and not settings.kafka.get(CLUSTER_ID):
        said = "; ".join(error.problem for error in others.values())
        raise ConfigError(
            f"kafka.bootstrap.servers: its addresses are of several clusters ({said}); leave those of one, or name it "
            f"as kafka.{CLUSTER_ID}"
        )
    with _one_line_errors(settings.storage.path):
        create_document(settings.storage.path, _FILE, {_KEY: _checked(cluster_id)})
    # Another process may have been first; then its cluster counts, and every connection refuses this one.
    return with_cluster(settings)


def pinned(settings: Settings, client: ReplicaClient) -> Settings:
    """The settings with the id of the cluster that answered a client, so that no other cluster is asked by mistake.

    They are unchanged if that cluster has no id.

    Raises:
        ReplicaError: no broker has answered, so the cluster is not known.
    """
    return _of(settings, client.cluster_id) if client.cluster_id else settings


def _known(settings: Settings) -> str | None:
    set_environment(settings.storage.path, settings.spark.conf, os.environ)
    return bound_to(settings.storage.path)


def _of(settings: Settings, cluster_id: str) -> Settings:
    return settings.model_copy(update={"kafka": {**settings.kafka, CLUSTER_ID: cluster_id}})


__all__ = ["bind", "bound_to", "id_of", "is_bound", "pinned", "settled", "with_cluster"]
