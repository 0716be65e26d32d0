"""What a scenario's script works with: its topic, its producers, and the steps at which it waits."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from parallax.lab.traffic import PlainProducer, TransactionalProducer
from parallax.lab.view import ReplicaView
from parallax.lab.waiting import until
from parallax.model import FindingKind

LEADER = 1
VICTIM = 2
SURVIVORS = (1, 3)


@dataclass(frozen=True)
class Outage:
    """A script yields this to wait until all replicas hold what was written. Then broker 2 is taken away."""


@dataclass(frozen=True)
class Cleaning:
    """A script yields this to wait until brokers 1 and 3 have cleaned some offsets away.

    Attributes:
        superseded: offsets of records that a later record of their key replaces; compaction always removes these.
        evidence: offsets of tombstones and end markers. They go once ``delete.retention.ms`` has passed. In the
            scenario ``healthy`` it has not passed, so they stay.
    """

    superseded: Sequence[int]
    evidence: Sequence[int]


@dataclass(frozen=True)
class Return:
    """A script yields this to have broker 2 started again, and to wait until it has caught up."""

    wrong: Callable[[ReplicaView], bool]
    """Says of a replica whether it shows the divergence."""
    right: Callable[[ReplicaView], bool]
    """Says of a replica whether it shows what was written."""


@dataclass(frozen=True)
class Divergence:
    """What a script returns: how broker 2, the victim, is wrong now.

    ``offset`` is that of the record that broker 2 shows wrongly or lacks, or its last stable offset if it is frozen.
    ``key`` is the record's key, or the id of the consumer group that the record is about.
    """

    kind: FindingKind
    offset: int
    key: str


Script = Generator[Outage | Cleaning | Return, None, Divergence]
"""A script that is being played, a generator. It writes, and yields what has to happen before it goes on.

Nothing is sent into it. At its end it returns how broker 2 is wrong.
"""


class Stage:
    """What one script works with: its topic, a plain producer and a transactional one.

    The topic has one partition, which broker 1 leads, and brokers 1, 2 and 3 hold.

    Args:
        topic: name of the topic.
        plain: writes records outside of transactions.
        transactional: writes records in transactions.
        read: called with a broker's id; reads that broker's replica of the topic.
        keep: called without arguments; stops all brokers from cleaning the topic.
    """

    def __init__(
        self,
        topic: str,
        plain: PlainProducer,
        transactional: TransactionalProducer,
        read: Callable[[int], ReplicaView],
        keep: Callable[[], None],
    ) -> None:
        self.topic = topic
        self.offsets: list[int] = []
        """The offsets of all that the script has written, end markers included, in order; without filler records."""
        self._plain = plain
        self._transactional = transactional
        self._read = read
        self._keep = keep

    def put(self, key: str, value: str | None) -> int:
        """Write a record outside of any transaction; returns its offset.

        Args:
            key: the record's key.
            value: its value; None for a tombstone.
        """
        return self._note(self._plain.send(self.topic, key, value))

    def begin(self) -> None:
        """Begin a transaction."""
        self._transactional.begin()

    def send(self, key: str, value: str | None) -> int:
        """Write a record in the open transaction; returns its offset.

        Args:
            key: the record's key.
            value: its value; None for a tombstone.
        """
        return self._note(self._transactional.send(self.topic, key, value))

    def commit(self) -> int:
        """Commit, and wait until the leader holds the end marker; returns the marker's offset."""
        self._transactional.commit()
        return self._note(self._next_marker())

    def abort(self) -> int:
        """Abort, and wait until the leader holds the end marker; returns the marker's offset."""
        self._transactional.abort()
        return self._note(self._next_marker())

    def keep(self) -> None:
        """Stop all brokers from cleaning the topic from now on.

        It returns once the brokers that run know of it; broker 2 learns it when it comes back.
        """
        self._keep()

    def _note(self, offset: int) -> int:
        self.offsets.append(offset)
        return offset

    def _next_marker(self) -> int:
        """The first marker above all that was written: EndTxn is answered before the markers are."""
        last = self.offsets[-1]

        def marker() -> list[int]:
            return [offset for offset in self._read(LEADER).markers if offset > last]

        return until(marker, f"the end marker in {self.topic} on broker {LEADER}")[0]
