"""Dismisses many suspects about deleted keys by one reading of a log, instead of a probe for each.

Each replica is cleaned at its own time. So one replica may still hold a tombstone and the record that it deletes, after
another has removed both. An audit that begins at the log start raises a suspect for each such key. If one replica has
many suspects, its log is read once, and all their keys are looked up in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parallax.compare.suspect import Suspect
from parallax.findings.answers import RecordShown
from parallax.findings.keys import Key, KeyScan
from parallax.kinds import TOMBSTONE_KINDS
from parallax.model import IsolationLevel, TopicPartition
from parallax.replica.client import ReplicaClient, watermarks_of
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError
from parallax.replica.reader import Pacing, read_range

MANY = 256
"""A replica with more suspects than this is read once for all of them. A probe takes as many together."""

Replica = tuple[TopicPartition, int]


def many(suspects: Sequence[Suspect]) -> dict[Replica, list[Suspect]]:
    """By accused replica, its suspects that one reading of its log may dismiss (`cleared`).

    Only suspects about deleted keys can be dismissed so. Replicas with 256 of them (`MANY`) or fewer are left out,
    because probes are fast enough for those.
    """
    found: dict[Replica, list[Suspect]] = {}
    for suspect in suspects:
        if suspect.kind in TOMBSTONE_KINDS:
            found.setdefault((suspect.place, suspect.broker), []).append(suspect)
    return {replica: mine for replica, mine in found.items() if len(mine) > MANY}


def cleared(suspects: Sequence[Suspect], live: Mapping[Key, RecordShown | None]) -> set[str]:
    """The ids of the suspects that are over: the accused no longer shows the value that was deleted.

    Its log ends without a value of the key, or with a newer one than the tombstone.

    Args:
        suspects: suspects about one replica.
        live: by key, the record with which a reading of the replica's whole log ends (`shown_live`); None for none. The
            log was read after the suspects were raised.
    """
    found = set()
    for suspect in suspects:
        shown = live[_key(suspect)]
        if shown is None or shown.value_size < 0 or shown.offset >= suspect.accusation.offset:
            found.add(suspect.suspect_id)
    return found


def _key(suspect: Suspect) -> Key:
    return suspect.accusation.key_hash_hi, suspect.accusation.key_hash_lo


def shown_live(
    client: ReplicaClient,
    replica: Replica,
    keys: Sequence[Key],
    *,
    hasher: ContentHasher,
    deadline_ms: float,
    pace: Pacing | None,
) -> dict[Key, RecordShown | None]:
    """By key, the record that a read_committed consumer has after reading one replica's whole log; None for none.

    Args:
        client: reads the replica.
        replica: the partition and the broker.
        keys: the hashes of the keys, each as its upper and its lower 64 bits.
        hasher: hashes keys as in the views.
        deadline_ms: timeout of one request.
        pace: limits bytes per second; None for no limit.

    Raises:
        ReplicaError: the log cannot be read to its last stable offset.
    """
    (topic, partition), broker = replica
    marks = watermarks_of(client, broker, replica[0])
    scan = KeyScan(keys)
    reached = marks.log_start_offset
    for chunk in read_range(
        client,
        broker,
        topic,
        partition,
        marks.log_start_offset,
        marks.last_stable_offset,
        isolation=IsolationLevel.READ_COMMITTED,
        hasher=hasher,
        deadline_ms=deadline_ms,
        pace=pace,
    ):
        scan.add(chunk)
        reached = chunk.position
    if reached < marks.last_stable_offset:
        raise ReplicaError(f"shows offsets below {reached} only", broker=broker, topic=topic, partition=partition)
    return {key: scan.visible.get(key) for key in keys}


__all__ = ["MANY", "cleared", "many", "shown_live"]
