"""The record of audits: what they compared is unknown no longer, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from parallax.audit.ledger import AUDITS, Ledger
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.compare.suspect import Coverage, UnreadRange
from parallax.model import UnknownReason
from tests.builders.coverage import coverage

FIRST, GAP = UnknownReason.BEFORE_FIRST_READING, UnknownReason.RETENTION_GAP
OLD, NEW = UnreadRange(1, 0, 10, FIRST, 5_000), UnreadRange(1, 20, 30, GAP, 50_000)
OTHER_VIEW = UnreadRange(0, 0, 40, FIRST, 5_000)


def lacking(*unread: UnreadRange, partition: int = 0) -> Coverage:
    unknown = {reason: [0, 0] for reason in (FIRST, GAP)}
    for span in unread:
        unknown[span.reason][span.view] += span.end - span.start
    unknown[FIRST][1] += 7  # A replica that was never read.
    counts = {reason: (n[0], n[1]) for reason, n in unknown.items()}
    return coverage(partition=partition, unknown=counts, unread=unread, brokers=())


def report(
    result: Result = Result.CONSISTENT,
    *,
    started: float = 10.0,
    source: str = "brokers",
    begun: int = 0,
    up_to: tuple[int, int] = (40, 40),
    reasons: tuple[str, ...] = (),
) -> AuditReport:
    one = PartitionResult("orders", 0, result, reasons, (), (1, 2, 3), begun, up_to)
    return AuditReport(source, started, started + 2, (one,))


def test_what_an_audit_has_compared_is_unknown_no_longer(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    before = lacking(OTHER_VIEW, OLD, NEW)
    assert ledger.settled(before) is before
    ledger.take(report())
    after = ledger.settled(before)
    assert after.unread == (NEW,), "it began before the second range was read past"
    assert (after.unknown_for(FIRST), after.unknown_for(GAP)) == ((0, 7), (0, 10))
    ledger.take(report(started=60.0))
    assert ledger.settled(before).unread == ()
    assert ledger.settled(before).unknown_for(FIRST) == (0, 7), "what was never read no audit settles"
    other = lacking(OLD, partition=1)
    assert ledger.settled(other) is other


@pytest.mark.parametrize(
    "of_no_use",
    [
        report(Result.UNKNOWN, reasons=("broker 3 does not answer",)),
        report(Result.DIVERGED, reasons=("unproven suspect",)),
        report(source="tables"),
        report(started=5.0),
        report(begun=1),
        report(up_to=(40, 9)),
    ],
)
def test_an_audit_counts_only_for_what_it_compared_after_it_was_read_past(
    tmp_path: Path, of_no_use: AuditReport
) -> None:
    ledger = Ledger(str(tmp_path))
    ledger.take(of_no_use)
    assert ledger.settled(lacking(OLD)).unread == (OLD,)


def test_an_audit_with_findings_counts_as_well(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    ledger.take(report(Result.DIVERGED))
    assert ledger.settled(lacking(OLD)).unread == ()


def test_it_outlives_the_job(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    for started in (10.0, 20.0, 30.0):
        ledger.take(report(started=started))
    ledger.take(report(Result.UNKNOWN, started=40.0))
    again = Ledger(str(tmp_path))
    assert again.settled(lacking(OLD)).unread == ()
    table = DeltaTable(str(tmp_path / AUDITS))
    assert table.to_pyarrow_table().num_rows == 1
    assert table.to_pyarrow_table().column("started_at")[0].as_py().timestamp() == 30.0


def test_what_could_not_be_written_does_not_count(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "data"))
    (tmp_path / "data").write_text("no folder")
    with pytest.raises(DeltaError, match="data"):
        ledger.take(report())
    assert ledger.settled(lacking(OLD)).unread == (OLD,)


def test_a_table_that_cannot_be_read_is_an_empty_one(tmp_path: Path) -> None:
    Ledger(str(tmp_path)).take(report())
    for file in (tmp_path / AUDITS / "_delta_log").glob("*"):
        file.write_bytes(b"broken")
    ledger = Ledger(str(tmp_path))
    assert ledger.settled(lacking(OLD)).unread == (OLD,)
