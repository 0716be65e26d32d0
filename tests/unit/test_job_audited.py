"""What an audit of the always-on job ends in what the job shows."""

from __future__ import annotations

from pathlib import Path

from parallax.audit.ledger import Ledger
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.compare.suspect import UnreadRange
from parallax.config import validate
from parallax.job import Job
from parallax.model import TopicPartition, UnknownReason
from tests.builders.coverage import coverage

FIRST = UnknownReason.BEFORE_FIRST_READING
IDLE = coverage(
    compared_up_to=(40, 40),
    unknown={FIRST: (40, 40)},
    unread=tuple(UnreadRange(v, 0, 40, FIRST, 5_000) for v in (0, 1)),
)


def test_what_an_audit_has_compared_is_known_though_nothing_is_written_to_the_topic_any_more(tmp_path: Path) -> None:
    settings = {"kafka": {"bootstrap.servers": "localhost:1"}, "topics": {"pattern": ".*"}}
    job = Job(validate(settings | {"storage": {"path": str(tmp_path)}}, where="test"))
    job._ledger = Ledger(str(tmp_path))
    job._compared([], [IDLE])
    shown = lambda: job.state.snapshot().coverage[TopicPartition("orders", 0)].unknown_for(FIRST)  # noqa: E731
    assert shown() == (40, 40)
    one = PartitionResult("orders", 0, Result.CONSISTENT, (), (), (1, 2, 3), 0, (40, 40))
    job._audited(AuditReport("brokers", 4.0, 6.0, (one,)))
    assert shown() == (40, 40), "it began before they were read past"
    job._audited(AuditReport("brokers", 10.0, 12.0, (one,)))
    assert shown() == (0, 0)
