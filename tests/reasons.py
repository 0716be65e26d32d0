"""Which of the reasons for having no verdict are those of the stream, and which wait for an audit."""

from __future__ import annotations

from parallax.model import UnknownReason

UNTIL_AUDITED = frozenset({UnknownReason.BEFORE_FIRST_READING, UnknownReason.RETENTION_GAP})
"""What an audit of the partition settles, for it compares what all replicas hold."""
