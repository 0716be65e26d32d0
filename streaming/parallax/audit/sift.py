"""Clears what the cleaning of tombstones alone explains, by one reading of a log instead of a probe for each suspect.

Replicas clean on their own, so at any time some hold tombstones that others have cleaned together with what they
delete. An audit that begins at the log starts meets all of these; where they are many, they are looked up at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parallax.compare.suspect import Suspect
from parallax.findings.answers import RecordShown
from parallax.findings.keys import Key, KeyScan
from parallax.model import FindingKind, IsolationLevel, TopicPartition
from parallax.replica.client import ReplicaClient, watermarks_of
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError
from parallax.replica.reader import Pacing, read_range

MANY = 256
"""Suspects of one replica that are worth a reading of their own; the probe takes as many together."""

Replica = tuple[TopicPartition, int]


def many(suspects: Sequence[Suspect]) -> dict[Replica, list[Suspect]]:
    """The suspects that one reading may clear, by accused replica, where there are many of them."""
    found: dict[Replica, list[Suspect]] = {}
    for suspect in suspects:
        if suspect.kind is FindingKind.DELETED_RECORD_RESURRECTED:
            found.setdefault((suspect.place, suspect.broker), []).append(suspect)
    return {replica: mine for replica, mine in found.items() if len(mine) > MANY}


def cleared(suspects: Sequence[Suspect], live: Mapping[Key, RecordShown | None]) -> set[str]:
    """Ids of the suspects whose replica shows no value that the tombstone deletes: what a probe would dismiss.

    Args:
        suspects: all of one replica.
        live: what the whole log of that replica shows of each key, read after the suspects were raised.
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
    """Return what one replica shows of keys now, as a read_committed consumer of it sees them, by its whole log.

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
