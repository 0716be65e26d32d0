"""Verdicts on the suspects of an audit, by a findings manager: the job's own, or one that keeps no table."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from parallax.compare.suspect import Suspect
from parallax.config import Settings, StorageSettings
from parallax.findings.finding import Finding
from parallax.findings.history import RecordedHistory
from parallax.findings.manager import FindingsManager
from parallax.findings.probe import Prober
from parallax.model import IsolationLevel
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.stores import is_remote, rust_path

_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The verdicts on suspects.

    Attributes:
        findings: all that stand confirmed, of any partition.
        undecided: why a suspect has no verdict yet, by its id.
    """

    findings: tuple[Finding, ...] = ()
    undecided: Mapping[str, str] = field(default_factory=dict)


Confirm = Callable[[Sequence[Suspect]], Confirmed]


def confirm(
    manager: FindingsManager,
    suspects: Sequence[Suspect],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Confirmed:
    """Hand suspects to a manager and wait until all have a verdict, or the time is up.

    Args:
        manager: has been started.
        suspects: of the audit.
        timeout_s: how long to wait.
        clock: monotonic seconds, for tests.
        sleep: waits some seconds, for tests.
    """
    manager.offer(suspects)
    ids = [suspect.suspect_id for suspect in suspects]
    deadline = clock() + timeout_s
    while (undecided := manager.undecided(ids)) and clock() < deadline:
        sleep(_LOOK_S)
    return Confirmed(tuple(manager.standing()), undecided)


class MemoryStore:
    """Keeps a manager's events for as long as the audit lasts: only the always-on job writes the findings table."""

    skipped = 0
    """No other version writes here."""

    def __init__(self) -> None:
        self._events: list[Finding] = []

    def load(self) -> list[Finding]:
        """All events, oldest first."""
        return list(self._events)

    def news(self) -> list[Finding]:
        """Return what other processes have appended: nothing, for no other knows of this store."""
        return []

    def append(self, events: Sequence[Finding]) -> list[Finding]:
        """Number the events and keep them."""
        numbered = [replace(event, sequence=len(self._events) + 1 + i) for i, event in enumerate(events)]
        self._events += numbered
        return numbered


@contextmanager
def standalone(settings: Settings, client: ReplicaClient, hash_key: str) -> Iterator[Confirm]:
    """A `Confirm` without tables: findings have the ids that the job gives them, and are reported to nobody else.

    Args:
        settings: of the job.
        client: pinned client.
        hash_key: 32 hexadecimal digits.
    """
    hasher = ContentHasher(bytes.fromhex(hash_key))
    recorded = Path(rust_path(settings.storage.path)) / IsolationLevel.READ_COMMITTED.option
    is_there = is_remote(settings.storage.path) or recorded.is_dir()
    history = RecordedHistory(settings.storage.path) if is_there else None
    prober = Prober(client, hasher, settings.findings, payload=settings.read.payload, history=history, recorded=history)
    with tempfile.TemporaryDirectory(prefix="parallax-audit-") as folder:
        # The manager takes up what the suspects table holds; those of the job are not the audit's.
        apart = settings.model_copy(update={"storage": StorageSettings(path=folder)})
        manager = FindingsManager(apart, client, hasher, prober=prober, table=MemoryStore())
        manager.start()
        try:
            yield lambda suspects: confirm(manager, suspects, settings.audit.confirm_timeout_s)
        finally:
            manager.stop()


__all__ = ["Confirm", "Confirmed", "MemoryStore", "confirm", "standalone"]
