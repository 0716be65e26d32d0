"""Names and numbers that every layer shares: row kinds, outcomes, isolation levels, kinds of findings.

It imports nothing of the project, so that each layer may import it.
"""

from __future__ import annotations

import hashlib
import re
from enum import IntEnum, StrEnum
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition: topic and number, as Kafka's clients name it."""

    topic: str
    partition: int

    @property
    def name(self) -> str:
        """The partition as Kafka writes it, as in ``orders-0``."""
        return f"{self.topic}-{self.partition}"


UNKNOWN = -1
"""The value of an offset, time, epoch or id that is unknown or absent, as in Kafka."""

NOBODY = -1
"""The accused broker where a difference accuses none: nothing that was shown or recorded says who is wrong."""


_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Kafka's own rule for topic names; "." and ".." are not allowed either."""


def topic_name(name: str) -> str:
    """Check that a text can be a topic's name, and return it unchanged.

    Raises:
        ValueError: Kafka allows no topic of that name; the text says which names it allows.
    """
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"{name!r} is no topic's name; write 1 to 249 of the letters a-z and A-Z, digits, '.', '_' and '-'"
        )
    return name


MAX_BYTES = 1 << 50
"""The largest number of bytes or rows that a setting may have. What is computed with it stays a 64-bit integer."""
MAX_SECONDS = 1e9
"""The longest time, in seconds, that a setting may have."""


def hash_text(*halves: int) -> str:
    """A keyed hash as text: 16 hexadecimal digits for each of its 64-bit halves.

    Args:
        halves: signed 64-bit integers, as in the columns of tables.
    """
    return "".join(f"{half & 0xFFFF_FFFF_FFFF_FFFF:016x}" for half in halves)


def id_of(*parts: object) -> str:
    """An id made from the given parts: 32 hexadecimal digits, the same for the same parts."""
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def hash_halves(text: str) -> tuple[int, int]:
    """Read a hash back that `hash_text` has written, as a tuple of two signed 64-bit halves; a missing half is 0.

    Args:
        text: the hash, 16 or 32 hexadecimal digits.

    Raises:
        ValueError: the text is no such hash.
    """
    high, low = (int(half or "0", 16) for half in (text[:16], text[16:]))
    return _with_sign(high), _with_sign(low)


def _with_sign(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def broker_label(broker: int) -> str:
    """A broker's id as text, for metrics and tables; empty for `NOBODY` (-1), which means no broker."""
    return "" if broker == NOBODY else str(broker)


class IsolationLevel(IntEnum):
    """Kafka's consumer isolation levels, with their numbers in a Fetch request (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1

    @property
    def option(self) -> str:
        """The value of Kafka's ``isolation.level`` option, and the name of the view's table."""
        return self.name.lower()


class RowKind(IntEnum):
    """What a row of a view is (column ``kind``): a record, an end marker, a position, ..."""

    RECORD = 0
    COMMIT = 1
    ABORT = 2
    POSITION = 3
    LISTED = 4
    """The replica's index lists an aborted transaction of the row's producer that begins at the row's offset.

    The replica holds no record at that offset.
    """
    EMPTIED = 5
    """A transaction of the producer ended here, and the cleaner has emptied the batch of its end marker."""


CONTENT_VERSION = 2
"""The version of the content hash that rows have (column ``content_version``).

1, or null in rows from before the column: the hash of the bytes as they are in the record. 2: the hash of their
canonical form. Hashes of different versions are never compared.
"""


class Outcome(IntEnum):
    """Whether a read_committed consumer of one replica gets a record (column ``outcome``): committed or aborted."""

    NONE = 0
    """Not transactional: visible as soon as it is below the last stable offset."""
    COMMITTED = 1
    ABORTED = 2
    UNDECIDED = 3
    """Transactional, read as read_uncommitted: this view does not decide outcomes."""


class ReadEvent(StrEnum):
    """Why a reader stopped at an offset, or what it met there (field ``position.event`` of a position row)."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    """The broker failed in the middle of the range: rows end at this position."""
    LOG_START_ADVANCED = "log_start_advanced"
    """The log start offset passed the position: the range below it was never shown."""
    LOG_TRUNCATED = "log_truncated"
    """The log end offset fell behind the position: what was read is no longer in the log."""
    TOPIC_RECREATED = "topic_recreated"
    """The topic id changed: offsets start again at 0."""
    TOPIC_DELETED = "topic_deleted"
    PARTITION_ADDED = "partition_added"
    NOT_HOSTED = "not_hosted"
    """The broker holds no replica of the partition (any more)."""
    CORRUPT_BATCH = "corrupt_batch"
    """A batch failed its CRC or its structure: nothing at or above this position was read."""
    UNSUPPORTED = "unsupported"
    """A codec or message format that cannot be decoded."""
    UNAUTHORIZED = "unauthorized"
    BATCH_SKIPPED = "batch_skipped"
    """No replica can be read at a batch below this position. It was passed over, and what it holds is unknown."""
    NOT_KEPT = "not_kept"
    """No broker reports it. Rows from the reader's last position up to this one are no longer kept.

    All replicas had shown the same there (``storage.record: blocks``).
    """


GAPS = frozenset({ReadEvent.BATCH_SKIPPED, ReadEvent.NOT_KEPT})
"""Events that say that a view lacks rows, from the reader's last position up to this one.

No row there does not mean that the replica showed none.
"""


class UnknownReason(StrEnum):
    """Why an offset is unknown, that is, not compared: the label ``reason`` (docs/contribute/theory.md)."""

    NOT_READ_YET = "not_read_yet"
    """A replica is away or behind, and others have been read beyond the offset."""
    REPLICA_SET_UNKNOWN = "replica_set_unknown"
    """No row of progress has said yet which replicas the partition has."""
    BEFORE_FIRST_READING = "before_first_reading"
    """The offset was in a log before one of the replicas was first read. An audit of the partition ends it."""
    RETENTION_GAP = "retention_gap"
    """No replica was read within ``delete.retention.ms`` of the offset's writing. An audit of the partition ends it."""
    UNJUDGED = "unjudged"
    """Every replica was read past the offset, and what decides a difference there may be further up."""
    DEFERRED = "deferred"
    """The state of replicas that differ had reached its limit (``compare.state_cap_bytes``)."""
    SKIPPED = "skipped"
    """The job cannot compare the offset any more; an audit may.

    A reader jumped over the offset, or a log was truncated. Or no record or end marker that decides can come any more.
    Or the comparison began again when the views no longer kept the rows.
    Or the comparison of the partition failed.
    """
    UNAUTHORIZED = "unauthorized"
    """A broker refuses to let the job read it: a permission (ACL) is missing. It is read once that is granted."""
    LOG_START_DIFFERS = "log_start_differs"
    """A replica's log begins above the offset, although no cleanup policy is known to delete records."""
    UNDECIDED = "undecided"
    """The offset is above every last stable offset, and not every replica holds it."""
    RETENTION_DIFFERS = "retention_differs"
    """The policy compacts and deletes, and a log begins above the offset. Retention or a loss did that."""
    DELETED_UNREAD = "deleted_unread"
    """The policy deletes, and the offset was deleted before it was read. No audit and no consumer can read it."""
    LOST_UNREAD = "lost_unread"
    """No replica holds anything at the offset, though nothing may have removed it: a record or an end marker is lost.

    Nobody read it before. So no audit can say what it was. It ends once all logs begin above it.
    """


PASSING = frozenset(
    {
        UnknownReason.NOT_READ_YET,
        UnknownReason.REPLICA_SET_UNKNOWN,
        UnknownReason.UNJUDGED,
        UnknownReason.UNDECIDED,
    }
)
"""The reasons that end by themselves as soon as more has been read, if nothing holds that up."""


class MissingRight(StrEnum):
    """The permission (ACL) that Parallax lacks when a broker refuses a request: the label ``reason`` of a metric."""

    READ = "read"
    """READ on the topic: Fetch and DescribeProducers need it."""
    DESCRIBE = "describe"
    """DESCRIBE on the topic, which READ implies: without it a topic cannot even be seen."""
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    """ALTER_CONFIGS on the topic: the guard needs it, nothing else does."""
    TRANSACTIONAL_ID = "describe_transactional_id"
    """DESCRIBE on the transactional id: without it a coordinator leaves a transaction out of its list."""
    CLUSTER = "describe_cluster"
    GROUP = "describe_group"
    CREDENTIALS = "credentials"
    """The broker rejected user and password, or the mechanism."""


class Rule(StrEnum):
    """The four invariants that replicas of a partition must keep; docs/contribute/theory.md proves them.

    - I1, content: a record that two replicas hold at one offset is the same record.
    - I2, outcome: all replicas that show an outcome of a record show the same one, committed or aborted.
    - I3, latest value: all replicas show the same latest committed value of each key.
    - I4, progress: a replica that is past the end of a transaction does not keep its last stable offset before it.
    """

    CONTENT = "I1"
    OUTCOME = "I2"
    LATEST_VALUE = "I3"
    PROGRESS = "I4"


class FindingKind(StrEnum):
    """What is wrong with a replica, as users see it in findings; `parallax.kinds.KINDS` describes each kind."""

    CONTENT_MISMATCH = "content_mismatch"
    MARKER_MISSING = "marker_missing"
    ABORTED_RECORD_COMMITTED = "aborted_record_committed"
    COMMITTED_RECORD_ABORTED = "committed_record_aborted"
    OUTCOME_CONTRADICTS_MARKER = "outcome_contradicts_marker"
    READ_COMMITTED_FROZEN = "read_committed_frozen"
    DELETED_RECORD_RESURRECTED = "deleted_record_resurrected"
    RECORD_MISSING = "record_missing"
    VISIBILITY_MISMATCH = "visibility_mismatch"
    LOG_TRUNCATED = "log_truncated"
    LOG_HEAD_MISSING = "log_head_missing"


class Severity(StrEnum):
    """How urgent an alert is: ``critical`` pages a person, ``warning`` opens a ticket.

    The words are those of kubernetes-monitoring.
    """

    CRITICAL = "critical"
    WARNING = "warning"


class FindingStatus(StrEnum):
    """The status in an event of the table ``findings``: what that event says of the suspect or finding."""

    CONFIRMED = "confirmed"
    SPREAD = "spread"
    """All replicas show what the accused showed, and it is wrong: the loss is complete."""
    UNSETTLED = "unsettled"
    """Replicas differed. What they show now proves none of them wrong, and nothing has proven that all are right."""
    ACKNOWLEDGED = "acknowledged"
    """It is open, and a person has said that no more alarm is wanted about it, and why."""
    RESOLVED = "resolved"
    DISMISSED = "dismissed"
