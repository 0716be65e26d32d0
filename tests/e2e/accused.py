"""Findings made by hand about replicas that show a deleted value, where nobody has to find them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from parallax.config import load
from parallax.findings.finding import Finding, evidence_of
from parallax.repair.reading import rows_at
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.views.hash_key import hash_key
from tests.builders.findings import evidence, finding


def accused(
    topic: str, broker: int, leader: int, assigned: Sequence[int], also: Collection[int] = (), offset: int = 0
) -> Finding:
    """A finding that a replica, and some more, show a deleted value; all others were read whole and show none."""
    wrong = {broker, *also}
    sides = {"no value": sorted(set(assigned) - wrong), f"value at offset {offset}": sorted(wrong)}
    return finding(
        "a" * 32,
        topic=topic,
        broker=broker,
        offset=offset,
        key_hash_hi=0,
        key_hash_lo=1,
        evidence=evidence(sides, sorted(assigned), leader, assigned=list(assigned)),
        exposed=leader == broker,
    )


def as_shown(config: Path, made: Finding) -> Finding:
    """The same finding with what each replica shows at its offset, hashed as the job of some settings hashes it."""
    settings, known = load(config), evidence_of(made)
    hasher = ContentHasher(bytes.fromhex(hash_key(settings.storage.path, settings.read)))
    replicas: dict[str, dict[str, Any]] = {}
    with closing(ReplicaClient(settings.kafka, timeout_ms=10_000)) as client:
        for broker in known["replicas"]:
            rows = rows_at(client, int(broker), made.place, [made.offset], hasher)
            replicas[broker] = {
                "asked": [made.offset],
                "committed": [_record(row.fingerprint, made.offset) for row in rows.values()],
            }
    return replace(made, evidence=json.dumps(known | {"replicas": replicas}))


def _record(fingerprint: str, offset: int) -> dict[str, Any]:
    producer_id, epoch, key, content, timestamp = fingerprint.split(":")
    found = {"offset": offset, "outcome": "none", "key_hash": key, "content_hash": content}
    return found | {"producer_id": int(producer_id), "producer_epoch": int(epoch), "timestamp": int(timestamp)}
