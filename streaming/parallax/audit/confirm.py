"""Has an audit's suspects decided by a findings manager.

The manager is that of the job, or, for ``parallax audit``, one that writes no table.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import structlog

from parallax.audit.result import Confirmed
from parallax.compare.suspect import Suspect
from parallax.config import Settings, StorageSettings
from parallax.findings.finding import Finding, current
from parallax.findings.history import RecordedHistory
from parallax.findings.manager import FindingsManager
from parallax.findings.members import MemberRow
from parallax.findings.probe import Prober
from parallax.findings.table import FindingsTable, FindingsTableError, NoFindingsTableError, read_members
from parallax.model import FindingStatus, IsolationLevel, TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.stores import is_remote, rust_path

log = structlog.get_logger(__name__)

_LOOK_S = 0.2


Confirm = Callable[[Sequence[Suspect]], Confirmed]


def confirm(
    manager: FindingsManager,
    suspects: Sequence[Suspect],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Confirmed:
    """Have a findings manager decide an audit's suspects, and wait for its verdicts.

    Args:
        manager: a manager that has been started.
        suspects: the audit's suspects.
        timeout_s: how long to wait, in seconds.
        clock: returns monotonic seconds; a test gives its own.
        sleep: waits some seconds; a test gives its own.

    Returns:
        The findings that are not over, and the suspects without a verdict at the timeout.
    """
    manager.offer(suspects)
    ids = [suspect.suspect_id for suspect in suspects]
    deadline = clock() + timeout_s
    while (undecided := manager.undecided(ids)) and clock() < deadline:
        sleep(_LOOK_S)
    return Confirmed(tuple(manager.standing()), undecided)


class MemoryStore:
    """Keeps the events of an audit's findings manager in memory, because only the job writes the findings table.

    Args:
        recorded: events of the findings table, oldest first; the manager continues from them, as the job's would.
        members: rows of the table ``members``, oldest first.
    """

    skipped = 0
    """How many events could not be read: none, since no other version writes here."""

    def __init__(self, recorded: Sequence[Finding] = (), members: Sequence[MemberRow] = ()) -> None:
        self._events, self._members = list(recorded), list(members)
        known = current(recorded)
        self.on_record = {name: one for name, one in known.items() if one.status is not FindingStatus.DISMISSED}
        """The last event of each finding of the table."""

    def load(self) -> list[Finding]:
        """All events of the store, oldest first."""
        return list(self._events)

    def members(self) -> list[MemberRow]:
        """What is known of each member of an incident, oldest first."""
        return list(self._members)

    def news(self) -> list[Finding]:
        """The events of other processes: always none, because no other process uses this store."""
        return []

    def append(self, events: Sequence[Finding], members: Sequence[MemberRow] = ()) -> list[Finding]:
        """Number the events, and keep them in memory.

        Returns:
            The events with their numbers.
        """
        last = self._events[-1].sequence if self._events else 0
        numbered = [replace(event, sequence=last + 1 + i) for i, event in enumerate(events)]
        self._events += numbered
        self._members += members
        return numbered

    def ended(self) -> tuple[Finding, ...]:
        """The last events of findings that are open in the job's table and were ended by this audit."""
        now = current(self._events)
        return tuple(now[name] for name, one in self.on_record.items() if one.stands and not now[name].stands)


@contextmanager
def standalone(
    settings: Settings, client: ReplicaClient, hash_key: str, places: Collection[TopicPartition]
) -> Iterator[Confirm]:
    """In a ``with`` block, gives a function that decides an audit's suspects without the job's findings manager.

    The function continues from the findings that the job has recorded, so a finding has the id that the job gave it. It
    writes none of the job's tables, and sends no alerts. Recorded findings that are open are probed once more.

    Args:
        settings: the job's settings.
        client: asks the brokers.
        hash_key: the key of the hashes, 32 hexadecimal digits.
        places: the partitions; recorded findings of other partitions are left out.
    """
    hasher = ContentHasher(bytes.fromhex(hash_key))
    recorded = Path(rust_path(settings.storage.path)) / IsolationLevel.READ_COMMITTED.option
    is_there = is_remote(settings.storage.path) or recorded.is_dir()
    history = RecordedHistory(settings.storage.path) if is_there else None
    prober = Prober(client, hasher, settings.findings, payload=settings.read.payload, history=history, recorded=history)
    events, members = _recorded(settings.storage.path)
    store = MemoryStore(
        [event for event in events if event.place in places], [one for one in members if one.group.place in places]
    )
    with tempfile.TemporaryDirectory(prefix="parallax-audit-") as folder:
        # The manager takes up what the suspects table holds; those of the job are not the audit's.
        apart = settings.model_copy(update={"storage": StorageSettings(path=folder)})
        # The report names the findings: a line of the log would name them a second time.
        manager = FindingsManager(apart, client, hasher, prober=prober, table=store, told=lambda _: None)
        manager.start()
        timeout_s = settings.audit.confirm_timeout_s
        try:
            yield lambda suspects: _with_record(confirm(manager, suspects, timeout_s), manager, store, timeout_s)
        finally:
            manager.stop()


def _recorded(storage: str) -> tuple[list[Finding], list[MemberRow]]:
    """What the job's tables say; nothing where there are none, or none that can be read, which is logged."""
    try:
        return FindingsTable(storage, create=False).news(), read_members(storage)
    except NoFindingsTableError:
        return [], []
    except FindingsTableError as error:
        log.warning("the findings on record cannot be read: this audit names none of them", error=str(error))
        return [], []


def _with_record(
    found: Confirmed,
    manager: FindingsManager,
    store: MemoryStore,
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Confirmed:
    """The verdicts with what became of the findings on record, once their replicas have answered again."""
    manager.look_again()
    deadline = clock() + timeout_s
    while not all((not_seen := manager.not_seen_again()).values()) and clock() < deadline:
        sleep(_LOOK_S)
    standing, ended = tuple(manager.standing()), store.ended()
    return Confirmed(standing, found.undecided, store.on_record, ended, not_seen)


__all__ = ["Confirm", "Confirmed", "MemoryStore", "confirm", "standalone"]
