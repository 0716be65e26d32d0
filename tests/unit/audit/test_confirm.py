"""The verdicts of an audit by hand: it goes on from the findings on record, and writes none."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from parallax.audit.confirm import standalone
from parallax.audit.report import write
from parallax.audit.result import AuditReport, Confirmed, Result, judge, with_record
from parallax.compare.suspect import Suspect
from parallax.config import Settings
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.incident import tally_of
from parallax.findings.manager import FindingsManager
from parallax.findings.table import FINDINGS, read_events
from parallax.model import NOBODY, FindingKind, TopicPartition
from parallax.shell import Shell
from tests.builders.answers import NOTHING, PRODUCER, answers, newest, replica
from tests.builders.claims import key_suspect, suspect
from tests.builders.settings import settings_of
from tests.patience import PATIENCE_S
from tests.unit.audit.results import PLAN, WHOLE
from tests.unit.findings.managed import HASHER, Cluster, Replicas, Watch, away, showing, undeleted
from tests.unit.findings.replies import agree, wrong

PLACE = TopicPartition("orders", 0)
KEY_HEX = "00" * 16
DIRECTED = suspect(FindingKind.ABORTED_RECORD_COMMITTED)
"""What the comparison saw while the end marker was there still: broker 2 shows an aborted record as committed."""
SEEN = {"sides": {"value at offset 10": [2], "no value": [1, 3]}, "pivot": 2}
WITHOUT = key_suspect(
    FindingKind.VISIBILITY_MISMATCH,
    broker=NOBODY,
    producer_id=PRODUCER,
    marker_offset=20,
    observations=SEEN,
    raised_at=4_000_000_000_000,
)
"""What an audit sees afterwards: broker 2 shows a value, and nothing says which side is right."""


def values(c: Claim) -> Answers:
    if c.kind is FindingKind.ABORTED_RECORD_COMMITTED:
        return wrong(c)
    shown, none = newest(10), NOTHING
    return answers(*(replica(b, key=shown if b == 2 else none) for b in (1, 2, 3)))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    findings = {"probe_retry_ms": 10, "recheck_interval_s": 3600}
    return settings_of(tmp_path / "data", findings=findings, audit={"confirm_timeout_s": PATIENCE_S})


def on_record(settings: Settings, *suspects: Suspect) -> list[str]:
    """The ids of the findings that a job makes of suspects."""
    watch, client = Watch(), Cluster()
    manager = FindingsManager(settings, client, HASHER, on_change=watch, prober=Replicas(values))  # type: ignore[arg-type]
    manager.start()
    manager.offer(suspects)
    watch.until(lambda s: len(s.open) == len(suspects) and not s.pending)
    manager.stop()
    return [event.finding_id for event in read_events(settings.storage.path)]


def incident_on_record(settings: Settings, suspects: Sequence[Suspect]) -> str:
    """The id of the incident that a job makes of suspects."""
    watch, client = Watch(), Cluster()
    manager = FindingsManager(settings, client, HASHER, on_change=watch, prober=Replicas(showing(2)))  # type: ignore[arg-type]
    manager.start()
    manager.offer(suspects)
    watch.until(lambda s: any(tally_of(f).count == len(suspects) for f in s.open if f.is_incident) and not s.pending)
    manager.stop()
    (known,) = {event.finding_id for event in read_events(settings.storage.path) if event.is_incident}
    return known


Confirming = Callable[..., Confirmed]


@pytest.fixture
def audited(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Confirming:
    """The verdicts of an audit by hand that raises suspects, while the replicas answer as given."""

    def run(suspects: Sequence[Suspect], answering: Callable[[Claim], Answers]) -> Confirmed:
        monkeypatch.setattr("parallax.audit.confirm.Prober", lambda *_, **__: Replicas(answering))
        client: Any = Cluster()
        with standalone(settings, client, KEY_HEX, [PLACE]) as confirm:
            return confirm(suspects)

    return run


def text(found: Confirmed) -> str:
    one = with_record(judge(PLAN, WHOLE, [], found.undecided, found.findings), found)
    out = io.StringIO()
    write(AuditReport("brokers", 0.0, 9.0, (one,)), "text", out, Shell(config="job.yaml"))
    return out.getvalue()


def test_what_it_sees_without_direction_is_the_finding_on_record_that_has_one(
    settings: Settings, audited: Confirming
) -> None:
    (known,) = on_record(settings, DIRECTED)
    before = read_events(settings.storage.path)
    with capture_logs() as logged:
        found = audited([WITHOUT], values)
    assert [f.finding_id for f in found.findings] == [known]
    assert found.undecided == {}
    assert logged == []
    assert read_events(settings.storage.path) == before
    said = text(found)
    assert (
        f"orders-0: finding {known[:8]} (on record as confirmed; asked again: it is still true): Broker 2 shows" in said
    )
    assert f"parallax findings explain {known[:8]} -c job.yaml" in said
    assert "othing says which side is right" not in said
    assert "This audit changes nothing on record." in said
    assert (
        "ends with an audit that the job runs by itself (audit.unread_delay_s after it was noticed unless that is 0"
        in said
    )


def test_what_is_not_on_record_is_said_to_be_new(settings: Settings, audited: Confirming) -> None:
    found = audited([WITHOUT], values)
    (finding,) = found.findings
    assert found.on_record == {}
    assert f"finding {finding.finding_id[:8]} (new: not on record): " in text(found)


def test_a_finding_on_record_that_is_over_does_not_stand_against_what_the_replicas_answer(
    settings: Settings, audited: Confirming
) -> None:
    (known,) = on_record(settings, DIRECTED)
    found = audited([], agree)
    assert found.findings == ()
    assert [f.finding_id for f in found.ended] == [known]
    one = with_record(judge(PLAN, WHOLE, [], {}, found.findings), found)
    assert one.result is Result.CONSISTENT
    assert f"finding {known[:8]} (on record; over by what the replicas answer now): Broker 2 " in text(found)


def test_a_finding_whose_replica_is_away_stands_and_says_why_it_was_not_decided(
    settings: Settings, audited: Confirming
) -> None:
    (known,) = on_record(settings, DIRECTED)
    found = audited([], away)
    assert [f.finding_id for f in found.findings] == [known]
    assert f"finding {known[:8]} (on record as confirmed; asked again: broker 2 could not be asked" in text(found)


def test_of_an_incident_it_is_said_of_how_many_the_replicas_were_asked(settings: Settings, audited: Confirming) -> None:
    lost = [undeleted(key) for key in range(40)]
    known = incident_on_record(settings, lost)
    named = {one.accusation.key_hash_lo for one in lost[:16]}
    found = audited([], lambda claim: (showing(2) if claim.key_hash_lo in named else away)(claim))
    (finding,) = found.findings
    assert (finding.finding_id, finding.is_incident) == (known, True)
    asked = "asked again: 16 of the 40 keys that it counts are wrong, 24 could not be decided"
    assert f"finding {known[:8]} (on record as confirmed; {asked}): " in text(found)
    assert "it is still true" not in text(found)
    assert "asked again: it is still true" in text(audited([], showing(2)))


def test_findings_of_other_partitions_are_not_asked_about(settings: Settings, audited: Confirming) -> None:
    on_record(settings, replace(DIRECTED, partition=1))
    assert audited([], values) == Confirmed()


def test_a_table_that_cannot_be_read_is_said_and_the_audit_goes_on(settings: Settings, audited: Confirming) -> None:
    on_record(settings, DIRECTED)
    log = next((Path(settings.storage.path) / FINDINGS / "_delta_log").glob("*.json"))
    log.write_text(json.dumps({"protocol": "none"}))
    with capture_logs() as logged:
        found = audited([WITHOUT], values)
    assert len(found.findings) == 1
    assert [line["event"] for line in logged] == [
        "the findings on record cannot be read: this audit names none of them"
    ]
