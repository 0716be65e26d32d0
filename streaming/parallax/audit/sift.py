"""Dismisses suspects that the cleaning of tombstones explains, by one reading of a log instead of a probe for each.

Each replica is cleaned at its own time. So some hold tombstones that others have removed together with the records that
they delete. An audit that begins at the log start raises a suspect for each. If one replica has many of them, its log
is read once, and all their keys are looked up together.
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
    """By accused replica, the suspects that one reading of its log may dismiss.

    Replicas with 256 (`MANY`) or fewer are left out, since probes do for those.
    """
    found: dict[Replica, list[Suspect]] = {}
    for suspect in suspects:
        if suspect.kind is FindingKind.DELETED_RECORD_RESURRECTED:
            found.setdefault((suspect.place, suspect.broker), []).append(suspect)
    return {replica: mine for replica, mine in found.items() if len(mine) > MANY}


def cleared(suspects: Sequence[Suspect], live: Mapping[Key, RecordShown | None]) -> set[str]:
    """The ids of suspects that a probe would dismiss: the accused replica shows no deleted value.

    Args:
        suspects: suspects of one replica.
        live: by key, the record that the whole log of that replica shows at the end, read after the suspects were
            raised; None for none.
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
    """By key, the record that a read_committed consumer ends up with after reading one replica's log; None for none.

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
