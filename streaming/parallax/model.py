"""The vocabulary that every layer shares: row kinds, outcomes, isolation levels, findings.

Holds names and numbers only; imports nothing of the project, so that each layer may import it.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class IsolationLevel(IntEnum):
    """Kafka's consumer isolation levels, with their numbers in a Fetch request (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1

    @property
    def option(self) -> str:
        """The value of Kafka's ``isolation.level`` option, and the name of the view's table."""
        return self.name.lower()


class RowKind(IntEnum):
    """What a row of a view stands for (column ``kind``)."""

    RECORD = 0
    COMMIT = 1
    ABORT = 2
    POSITION = 3


class Outcome(IntEnum):
    """What a read_committed consumer of one replica makes of a record (column ``outcome``)."""

    NONE = 0
    """Not transactional: visible as soon as it is below the last stable offset."""
    COMMITTED = 1
    ABORTED = 2
    UNDECIDED = 3
    """Transactional, read as read_uncommitted: this view does not decide outcomes."""


class ReadEvent(StrEnum):
    """What a position row tells beside the position (field ``position.event``)."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    """The broker failed in the middle of the range: rows end at this position."""
    LOG_START_ADVANCED = "log_start_advanced"
    """The log start offset passed the position: the range below it was never shown."""
    LOG_TRUNCATED = "log_truncated"
    """The log end offset fell behind the position: what was read is no longer in the log."""
    TOPIC_RECREATED = "topic_recreated"
    """The topic id changed: offsets start anew."""
    TOPIC_DELETED = "topic_deleted"
    PARTITION_ADDED = "partition_added"
    NOT_HOSTED = "not_hosted"
    """The broker holds no replica of the partition (any more)."""
    CORRUPT_BATCH = "corrupt_batch"
    """A batch failed its CRC or its structure: nothing at or above this position was read."""
    UNSUPPORTED = "unsupported"
    """A codec or message format that cannot be decoded."""
    UNAUTHORIZED = "unauthorized"


class Rule(StrEnum):
    """The four invariants of docs/theory.md."""

    CONTENT = "I1"
    OUTCOME = "I2"
    LATEST_VALUE = "I3"
    PROGRESS = "I4"


class FindingKind(StrEnum):
    """What a finding says of a replica; the names are the product's."""

    CONTENT_MISMATCH = "content_mismatch"
    MARKER_MISSING = "marker_missing"
    ABORTED_RECORD_COMMITTED = "aborted_record_committed"
    COMMITTED_RECORD_ABORTED = "committed_record_aborted"
    READ_COMMITTED_FROZEN = "read_committed_frozen"
    DELETED_RECORD_RESURRECTED = "deleted_record_resurrected"
    RECORD_MISSING = "record_missing"
    VISIBILITY_MISMATCH = "visibility_mismatch"
    LOG_TRUNCATED = "log_truncated"


class Severity(StrEnum):
    """``critical`` pages, ``warning`` opens a ticket (kubernetes-monitoring's convention)."""

    CRITICAL = "critical"
    WARNING = "warning"


class FindingStatus(StrEnum):
    """Where a suspect or finding stands in its life."""

    CONFIRMED = "confirmed"
    RESOLVED = "resolved"
    DISMISSED = "dismissed"


SEVERITY: dict[FindingKind, Severity] = {
    kind: Severity.WARNING if kind is FindingKind.MARKER_MISSING else Severity.CRITICAL for kind in FindingKind
}
