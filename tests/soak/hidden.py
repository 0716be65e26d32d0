"""What brokers hide of their own indexes of aborted transactions: Kafka's own fault, which a soak meets now and then.

A replica that catches up may write an index in which searches end too early (``tests/e2e/test_early_search.py``). Its
consumers in read_committed then get records that were rolled back, so a finding that says so is true. The brokers'
files say of which transactions that may be, for as long as their cleaners leave the entries.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from parallax.findings.finding import Finding
from parallax.model import NOBODY
from tests.indexes import entries, hidden

_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Transaction:
    """An aborted transaction that a broker's index may hide: from its first offset to its end marker."""

    broker: int
    topic: str
    partition: int
    first: int
    last: int


class Hidden(threading.Thread):
    """Looks at the indexes of some brokers until it is stopped."""

    def __init__(self, folders: dict[int, Path]) -> None:
        super().__init__(name="hidden", daemon=True)
        self._folders = folders
        self._stopping = threading.Event()
        self.found: set[Transaction] = set()

    def run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            self.look()

    def stop(self) -> None:
        """End; also where it never began."""
        self._stopping.set()
        if self.is_alive():
            self.join(30)

    def look(self) -> None:
        """Note what the indexes hide now."""
        for broker, folder in self._folders.items():
            for log in folder.glob("*-*"):
                topic, _, partition = log.name.rpartition("-")
                if partition.isdigit():
                    made = (Transaction(broker, topic, int(partition), e.first, e.last) for e in hidden(entries(log)))
                    self.found.update(made)

    def explains(self, finding: Finding) -> bool:
        """Whether a finding is about a transaction that the index of the broker hid, and accuses no other broker."""
        return any(
            (one.topic, one.partition) == finding.place
            and one.first <= finding.offset <= one.last
            and finding.broker in (one.broker, NOBODY)
            for one in self.found
        )

    def unexplained(self, findings: Iterable[Finding]) -> list[Finding]:
        """Those of the findings that no index explains."""
        return [finding for finding in findings if not self.explains(finding)]
