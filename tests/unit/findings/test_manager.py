"""The life of suspects and findings, on a real findings table, with replicas whose answers the test sets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from structlog.testing import capture_logs

from parallax.compare.suspect import Suspect
from parallax.config import Settings
from parallax.findings import effect
from parallax.findings import manager as manager_module
from parallax.findings.acknowledge import acknowledge
from parallax.findings.answers import Answers, MarkerShown, OpenTransaction, RecordShown
from parallax.findings.claim import Claim
from parallax.findings.ended import Repairs
from parallax.findings.finding import Finding, asked_at, current
from parallax.findings.happenings import FindingsStatus
from parallax.findings.incident import is_part_of_incident, tally_of
from parallax.findings.incidents import ALONE
from parallax.findings.manager import FindingsManager
from parallax.findings.members import MemberRow
from parallax.findings.table import FindingsTable, FindingsTableError, read_events
from parallax.model import FindingKind, FindingStatus, Rule, Severity
from tests.builders.answers import NOTHING, OPEN, answers, newest, replica
from tests.builders.claims import key_suspect, suspect
from tests.builders.clock import Clock
from tests.builders.settings import settings_of
from tests.patience import PATIENCE_S
from tests.unit.findings.managed import (
    HASHER,
    Cluster,
    Replicas,
    Watch,
    among,
    away,
    showing,
    undeleted,
    unmarked_suspect,
)
from tests.unit.findings.replies import HELD_BY_ANOTHER, agree, missing, wrong

"""A replica that misses an end marker, and whose last stable offset stands below that, at a long transaction."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_of(tmp_path / "data", findings={"probe_retry_ms": 10, "recheck_interval_s": 0.05})


Start = Callable[..., tuple[FindingsManager, Watch]]


@pytest.fixture(autouse=True)
def news_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other processes append is read every few milliseconds, so that no test waits for it."""
    monkeypatch.setattr(manager_module, "_NEWS_EVERY_S", 0.02)


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    """Start managers over the same tables, as restarts do; they are stopped after the test."""
    running: list[FindingsManager] = []

    def begin(replicas: Replicas, **fields: Any) -> tuple[FindingsManager, Watch]:
        watch = Watch()
        client: Any = Cluster()
        manager = FindingsManager(settings, client, HASHER, on_change=watch, prober=replicas, **fields)
        manager.start()
        running.append(manager)
        return manager, watch

    yield begin
    for manager in running:
        manager.stop()


def events(settings: Settings) -> list[Finding]:
    return read_events(settings.storage.path)


def write_suspects(settings: Settings, *suspects: Suspect) -> None:
    rows = [s.as_row() | {"batch_id": 0} for s in suspects]
    table = pa.Table.from_pylist(rows)
    at = table.column_names.index("raised_at")
    table = table.set_column(at, "raised_at", table["raised_at"].cast(pa.timestamp("ms", "UTC")))
    write_deltalake(f"{settings.storage.path}/suspects", table, mode="append")


def test_a_suspect_that_is_proven_becomes_a_finding_with_its_evidence(start: Start, settings: Settings) -> None:
    manager, watch = start(Replicas(missing))
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1 and not s.pending)
    (event,) = events(settings)
    assert (event.status, event.kind, event.broker) == (FindingStatus.CONFIRMED, FindingKind.MARKER_MISSING, 2)
    assert event.suspect_id == unmarked_suspect().suspect_id
    assert '"open_transactions"' in event.evidence
    assert "Broker 2 lacks the end marker" in event.summary
    assert not event.exposed


def test_partitions_with_an_open_suspect_or_finding_are_named_and_none_before_all_is_loaded(start: Start) -> None:
    replicas = Replicas(away)
    manager, watch = start(replicas)
    watch.until(lambda _: manager.places() == set())
    manager.offer([unmarked_suspect()])
    assert manager.places() == {("orders", 0)}, "before it is probed"
    watch.until(lambda s: s.probes_total >= 1)
    assert manager.places() == {("orders", 0)}, "while it has no verdict"
    replicas.answer = missing
    watch.until(lambda s: len(s.open) == 1)
    assert manager.places() == {("orders", 0)}, "once it is a finding"
    replicas.answer = agree
    watch.until(lambda s: not s.open and manager.places() == set())


def test_nothing_is_known_of_the_partitions_with_findings_before_these_are_loaded(settings: Settings) -> None:
    client: Any = Cluster()
    assert FindingsManager(settings, client, HASHER, prober=Replicas(agree)).places() is None


def test_a_suspect_that_is_cleared_is_dismissed_and_is_no_finding(start: Start, settings: Settings) -> None:
    manager, watch = start(Replicas(agree))
    with capture_logs() as logs:
        manager.offer([unmarked_suspect()])
        status = watch.until(lambda s: s.dismissed_total == 1)
    assert status.open == ()
    levels = {entry["log_level"] for entry in logs if entry.get("status") == "dismissed"}
    assert levels == {"debug"}, "nobody was told that it was suspected"
    assert [e.status for e in events(settings)] == [FindingStatus.DISMISSED]


def test_an_unreachable_replica_leaves_the_suspect_pending_until_it_answers(start: Start, settings: Settings) -> None:
    replicas = Replicas(away)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    status = watch.until(lambda s: s.probes_total >= 3)
    assert status.pending == {("orders", 0): 1}
    assert "broker 2" in status.waits["orders", 0]
    assert events(settings) == []
    replicas.answer = missing
    watch.until(lambda s: len(s.open) == 1)


def test_the_log_says_why_a_suspect_has_waited_for_long(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parallax.findings.waits.AFTER_S", 0.0)
    manager, watch = start(Replicas(away))
    with capture_logs() as logs:
        manager.offer([unmarked_suspect()])
        watch.until(lambda s: s.probes_total >= 3)
        manager.stop()
    (said,) = [entry for entry in logs if entry["event"] == "suspects wait for a verdict"]
    assert (said["topic"], said["partition"]) == ("orders", 0)
    assert "broker 2" in said["why"]


def test_a_suspect_is_probed_once_however_often_it_is_offered(start: Start, settings: Settings) -> None:
    replicas = Replicas(agree)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect(), unmarked_suspect()])
    watch.until(lambda s: s.dismissed_total == 1)
    manager.offer([unmarked_suspect(), unmarked_suspect(offset=99, producer_id=8)])
    watch.until(lambda s: s.dismissed_total == 2)
    assert replicas.asked.count(unmarked_suspect().suspect_id) == 1


def test_suspects_about_one_replica_of_one_partition_are_probed_together(start: Start) -> None:
    replicas = Replicas(agree)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect(transaction_start_offset=n, offset=n) for n in range(50)])
    watch.until(lambda s: s.dismissed_total == 50)
    assert max(replicas.groups) > 1


def test_a_refined_kind_stays_the_same_finding(start: Start, settings: Settings) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = wrong
    manager.offer([suspect(FindingKind.ABORTED_RECORD_COMMITTED)])
    watch.until(lambda s: [f.kind for f in s.open] == [FindingKind.ABORTED_RECORD_COMMITTED] and not s.pending)
    # A recheck may have refined the finding before the suspect was judged, which is then dismissed as reported already.
    stands = [f for f in current(events(settings)).values() if f.status is not FindingStatus.DISMISSED]
    assert [f.kind for f in stands] == [FindingKind.ABORTED_RECORD_COMMITTED]
    assert {e.finding_id for e in events(settings) if e.status is FindingStatus.CONFIRMED} == {stands[0].finding_id}


def test_a_finding_that_has_turned_is_refined_without_a_new_suspect(start: Start) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = wrong
    watch.until(lambda s: [f.kind for f in s.open] == [FindingKind.ABORTED_RECORD_COMMITTED])


def test_a_second_suspect_of_a_finding_adds_no_second_confirmation(start: Start, settings: Settings) -> None:
    manager, watch = start(Replicas(wrong))
    manager.offer([suspect(FindingKind.ABORTED_RECORD_COMMITTED)])
    watch.until(lambda s: len(s.open) == 1)
    manager.offer([suspect(FindingKind.MARKER_MISSING)])
    status = watch.until(lambda s: s.dismissed_total == 1 and not s.pending)
    assert len(status.open) == 1
    assert [e.status for e in events(settings)].count(FindingStatus.CONFIRMED) == 1
    first, second = current(events(settings)).values()
    assert (first.is_open, str(second.status)) == (True, "dismissed")
    assert second.finding_id == second.suspect_id


def test_an_open_critical_finding_is_an_error_in_the_log_and_its_end_is_not(start: Start) -> None:
    replicas = Replicas(wrong)
    with capture_logs() as logs:
        manager, watch = start(replicas)
        manager.offer([suspect(FindingKind.ABORTED_RECORD_COMMITTED)])
        watch.until(lambda s: len(s.open) == 1)
        replicas.answer = agree
        watch.until(lambda s: s.open == ())
        manager.stop()
    said = [(entry["log_level"], entry["status"]) for entry in logs if entry["event"] == "finding"]
    assert said[0] == ("error", "confirmed")
    assert said[-1] == ("info", "resolved")


def test_a_finding_is_resolved_when_the_replicas_agree_and_opens_again_when_they_do_not(
    start: Start, settings: Settings
) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = agree
    watch.until(lambda s: s.open == () and s.resolved_total == 1)
    replicas.answer = missing
    watch.until(lambda s: len(s.open) == 1)
    manager.stop()
    wanted = [FindingStatus.CONFIRMED, FindingStatus.RESOLVED, FindingStatus.CONFIRMED]
    assert [e.status for e in events(settings)] == wanted
    assert len({e.finding_id for e in events(settings)}) == 1


def test_a_resolved_event_says_whether_the_replica_is_right_again_or_only_the_trace_is_gone(
    start: Start, settings: Settings
) -> None:
    def right(_: Claim) -> Answers:
        marker = MarkerShown(20, 7, "abort")
        shown = {b: replica(b, committed={10: RecordShown(10, "aborted")}, markers=(marker,)) for b in (1, 2, 3)}
        return Answers(shown, leader=1)

    replicas = Replicas(wrong)
    manager, watch = start(replicas)
    manager.offer([suspect(FindingKind.ABORTED_RECORD_COMMITTED)])
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = agree
    watch.until(lambda s: s.resolved_total == 1)
    replicas.answer = wrong
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = right
    watch.until(lambda s: s.resolved_total == 2)
    manager.stop()
    gone, healed = (e for e in events(settings) if e.status is FindingStatus.RESOLVED)
    was = "Broker 2 showed the rolled-back record at offset 10 of orders-0 as committed."
    assert gone.summary.startswith(f"{was} Not healed: broker 2 did not hold the record at offset 10 any more")
    assert gone.summary.endswith("Consumers that read it there in read_committed could read data that was rolled back.")
    assert json.loads(gone.evidence)["resolution"] == "evidence_compacted"
    asked = f"{asked_at(healed):%Y-%m-%d %H:%M:%SZ}"
    assert healed.summary == f"{was} Healed: every replica showed offset 10 as aborted, asked {asked}."
    assert json.loads(healed.evidence)["resolution"] == "healed"


@pytest.mark.parametrize("repaired", ["Repair aaaa wrote an ABORT marker.", ""])
def test_the_end_of_a_transaction_that_was_open_says_whether_a_repair_is_on_record(
    start: Start, settings: Settings, repaired: str
) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas, repaired=lambda _: Repairs(tuple(filter(None, [repaired]))))
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = agree
    watch.until(lambda s: s.resolved_total == 1)
    manager.stop()
    said = events(settings)[-1].summary
    assert (f" {repaired} While broker 2 held" if repaired else "Over for consumers: broker 2 held") in said
    assert "misled" not in said


def test_an_unreachable_replica_does_not_resolve_a_finding(start: Start) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = away
    probes = watch.status.probes_total
    status = watch.until(lambda s: s.probes_total > probes + 2)
    assert len(status.open) == 1


def test_an_election_that_exposes_a_finding_is_reported(start: Start, settings: Settings) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1 and not s.open[0].exposed)
    replicas.answer = lambda c: replace(missing(c), leader=2)
    status = watch.until(lambda s: s.open[0].exposed)
    assert sum(status.confirmed_total.values()) == 1


def test_what_no_event_names_is_taken_up_after_a_restart(start: Start, settings: Settings) -> None:
    write_suspects(settings, unmarked_suspect(), unmarked_suspect(offset=50, transaction_start_offset=50))
    first, watch = start(Replicas(lambda c: missing(c) if c.offset == 10 else away(c)))
    watch.until(lambda s: len(s.open) == 1 and sum(s.pending.values()) == 1)
    first.stop()
    replicas = Replicas(lambda c: agree(c) if c.offset == 50 else missing(c))
    _, watch = start(replicas)
    status = watch.until(lambda s: s.dismissed_total == 1)
    assert len(status.open) == 1
    assert sum(status.confirmed_total.values()) == 1
    assert [e.status for e in events(settings)].count(FindingStatus.CONFIRMED) == 1


def test_an_append_that_fails_is_made_again(start: Start, settings: Settings) -> None:
    class Failing(FindingsTable):
        failures = 2

        def append(self, events: Sequence[Finding], members: Sequence[MemberRow] = ()) -> list[Finding]:
            if self.failures:
                self.failures -= 1
                raise FindingsTableError("storage.path: no space left")
            return super().append(events, members)

    manager, watch = start(Replicas(missing), table=Failing(settings.storage.path))
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: s.error is not None)
    status = watch.until(lambda s: len(s.open) == 1)
    assert status.error is None
    assert len(events(settings)) == 1


def test_a_fault_as_a_commit_is_made_loses_no_probe_that_was_due_by_then(start: Start, settings: Settings) -> None:
    class Faulty(FindingsTable):
        failures = 1

        def append(self, events: Sequence[Finding], members: Sequence[MemberRow] = ()) -> list[Finding]:
            if self.failures:
                self.failures -= 1
                time.sleep(0.2)  # The other suspect's next probe is due.
                raise RuntimeError("a fault of ours")
            return super().append(events, members)

    replicas = Replicas(lambda c: away(c) if c.producer_id == 8 else missing(c))
    manager, watch = start(replicas, table=Faulty(settings.storage.path))
    other = unmarked_suspect(producer_id=8)
    manager.offer([other])
    watch.until(lambda s: s.probes_total >= 1)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: s.error is not None)
    replicas.answer = missing_of_both
    status = watch.until(lambda s: len(s.open) == 2)
    assert status.error is None


def missing_of_both(claim: Claim) -> Answers:
    held = OpenTransaction(producer_id=claim.producer_id, start_offset=10)
    return among(replica(2, open_transactions=(OpenTransaction(5, 3), held), last_stable_offset=3))


def test_a_probe_that_breaks_is_made_again(start: Start) -> None:
    broken = [True]

    def answer(claim: Claim) -> Answers:
        if broken.pop() if broken else False:
            raise RuntimeError("a fault of ours")
        return missing(claim)

    manager, watch = start(Replicas(answer))
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)


def test_a_probe_that_ends_because_the_job_stops_is_no_error_in_the_log(start: Start) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def answer(claim: Claim) -> Answers:
        begun.set()
        stopped.wait(PATIENCE_S)
        raise RuntimeError("closed")

    manager, _ = start(Replicas(answer))
    with capture_logs() as logs:
        manager.offer([unmarked_suspect()])
        assert begun.wait(PATIENCE_S)
        manager.stop()
        stopped.set()
        for thread in threading.enumerate():
            if thread.name.startswith("probe-"):
                thread.join(PATIENCE_S)
    assert [entry for entry in logs if entry["log_level"] == "error"] == []


def test_a_claim_that_cannot_be_judged_is_logged_counted_and_holds_up_no_other(
    start: Start, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = effect.decide

    def breaks(claim: Claim, answers: Answers, **options: Any) -> Any:
        return 1 // (claim.offset - 50) and judge(claim, answers, **options)

    monkeypatch.setattr(effect, "decide", breaks)
    manager, watch = start(Replicas(missing))
    with capture_logs() as logs:
        manager.offer([unmarked_suspect(offset=50, transaction_start_offset=50), unmarked_suspect()])
        status = watch.until(lambda s: len(s.open) == 1 and s.judging_errors_total > 1)
        manager.stop()
    assert list(status.waits.values()) == [
        "it could not be judged: ZeroDivisionError: integer division or modulo by zero"
    ]
    assert any(entry["event"].startswith("a suspect could not be judged") and entry["partition"] == 0 for entry in logs)
    assert len(events(settings)) == 1


def test_a_dismissed_suspect_that_was_raised_again_while_the_job_was_down_is_probed_again(
    start: Start, settings: Settings
) -> None:
    first, watch = start(Replicas(agree))
    first.offer([unmarked_suspect()])
    watch.until(lambda s: s.dismissed_total == 1)
    first.stop()
    write_suspects(
        settings, unmarked_suspect(), replace(unmarked_suspect(), raised_at=int(time.time() * 1000) + 10_000)
    )
    manager, watch = start(Replicas(missing))
    watch.until(lambda s: s.pending == {("orders", 0): 1})
    assert manager.undecided([unmarked_suspect().suspect_id]) == {
        unmarked_suspect().suspect_id: "it has not been probed yet"
    }


def test_a_difference_of_value_that_an_outcome_explains_is_no_second_finding(start: Start, settings: Settings) -> None:
    def answer(claim: Claim) -> Answers:
        if claim.kind is not FindingKind.DELETED_RECORD_RESURRECTED:
            return wrong(claim)
        old, gone = newest(3), NOTHING
        return answers(replica(1, key=gone), replica(2, key=old), replica(3, key=gone))

    manager, watch = start(Replicas(answer))
    value = suspect(
        FindingKind.DELETED_RECORD_RESURRECTED, transaction_start_offset=-1, marker_offset=-1, key_hash_lo=5
    )
    manager.offer([value, suspect(FindingKind.ABORTED_RECORD_COMMITTED)])
    status = watch.until(lambda s: not s.pending and s.dismissed_total == 1)
    assert [f.kind for f in status.open] == [FindingKind.ABORTED_RECORD_COMMITTED]


def test_offering_never_waits_for_a_probe_that_hangs(start: Start) -> None:
    release = threading.Event()

    def answer(claim: Claim) -> Answers:
        if claim.partition == 0:
            release.wait(PATIENCE_S)
        return agree(claim)

    manager, watch = start(Replicas(answer))
    manager.offer([unmarked_suspect()])
    manager.offer([replace(unmarked_suspect(), partition=1)])
    status = watch.until(lambda s: s.dismissed_total == 1)
    assert status.pending == {("orders", 0): 1}
    release.set()
    watch.until(lambda s: s.dismissed_total == 2)


def test_a_partition_must_be_gone_twice_to_be_gone(start: Start) -> None:
    gone = Answers({}, gone="the topic orders does not exist any more")
    replies = [gone]
    replicas = Replicas(lambda c: replies.pop() if replies else missing(c))
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    status = watch.until(lambda s: not s.pending and s.probes_total >= 2)
    assert len(status.open) == 1
    replicas.answer = lambda c: gone if c.transaction_start_offset == 60 else missing(c)
    manager.offer([unmarked_suspect(transaction_start_offset=60)])
    watch.until(lambda s: s.dismissed_total == 1)


def test_a_lone_witness_waits_for_a_suspect_about_its_outcome_on_any_replica(start: Start) -> None:
    committed = newest(10, "committed")
    nothing = NOTHING

    def answer(claim: Claim) -> Answers:
        if claim.kind is not FindingKind.RECORD_MISSING:
            return wrong(claim)
        third = replica(3, key=nothing)
        return Answers({1: replica(1, key=nothing), 2: replica(2, key=committed), 3: third}, leader=1)

    def lacking(producer: int) -> Suspect:
        fields = {"transaction_start_offset": -1, "marker_offset": -1, "key_hash_lo": producer, "producer_id": producer}
        raised = suspect(FindingKind.RECORD_MISSING, **fields)
        return replace(raised, accusation=replace(raised.accusation, broker=1))

    manager, watch = start(Replicas(answer))
    manager.offer([lacking(7)])
    watch.until(lambda s: sum(s.pending.values()) == 1 and s.probes_total >= 1)
    manager.offer([suspect(FindingKind.ABORTED_RECORD_COMMITTED)])
    status = watch.until(lambda s: not s.pending)
    assert [f.kind for f in status.open] == [FindingKind.ABORTED_RECORD_COMMITTED]
    manager.offer([lacking(8)])
    status = watch.until(lambda s: not s.pending and len(s.open) == 2)
    assert {f.kind for f in status.open} == {FindingKind.ABORTED_RECORD_COMMITTED, FindingKind.VISIBILITY_MISMATCH}


def acknowledged(settings: Settings) -> str:
    """Acknowledge the one finding that stands, as the command line does beside the job."""
    return acknowledge(settings.storage.path, events(settings)[-1].finding_id, "known", by="ann").finding_id


def test_an_acknowledgement_by_another_process_ends_the_alert_and_not_the_finding(
    start: Start, settings: Settings
) -> None:
    manager, watch = start(Replicas(missing))
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    finding_id = acknowledged(settings)
    status = watch.until(lambda s: not s.open)
    assert [f.finding_id for f in status.acknowledged] == [finding_id]
    assert [f.finding_id for f in manager.standing()] == [finding_id]
    assert status.resolved_total == 0
    assert sum(status.confirmed_total.values()) == 1


def test_what_is_decided_beside_an_acknowledgement_is_decided_again_and_reported_once(
    start: Start, settings: Settings
) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    acknowledged(settings)
    replicas.answer = lambda c: missing(c) if c.producer_id == 7 else agree(c)
    manager.offer([unmarked_suspect(offset=50, transaction_start_offset=50, producer_id=8)])
    status = watch.until(lambda s: s.dismissed_total == 1 and len(s.acknowledged) == 1)
    assert status.error is None
    assert [(e.sequence, str(e.status)) for e in events(settings)] == [
        (1, "confirmed"),
        (2, "acknowledged"),
        (3, "dismissed"),
    ]


class Overtaken(FindingsTable):
    """Somebody acknowledges a finding right before one of its commits, as soon as a test says which."""

    def __init__(self, storage: str) -> None:
        super().__init__(storage)
        self.storage = storage
        self.commits = self.told = 0
        self.overtaken: dict[int, str] = {}
        """The finding that is acknowledged before the commit of a number."""

    def append(self, events: Sequence[Finding], members: Sequence[MemberRow] = ()) -> list[Finding]:
        self.commits += bool(events)
        self.told = max([self.told, *(tally_of(e).count for e in events if e.is_incident)])
        if (finding_id := self.overtaken.pop(self.commits, None)) is not None:
            acknowledge(self.storage, finding_id, "known", by="ann")
        return super().append(events, members)


class TestAProbeThatComesBackAsAReportIsDue:
    """Two commits are called for in one round: of an incident that counts one more, and of the suspect, or finding."""

    @pytest.fixture(autouse=True)
    def rounds_and_time_are_the_tests(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.clock = Clock()
        monkeypatch.setattr(manager_module, "time", SimpleNamespace(monotonic=self.clock))
        monkeypatch.setattr(FindingsManager, "_wait", lambda *_: time.sleep(0.005))
        slow = settings.findings.model_copy(update={"recheck_interval_s": 0.5})
        client: Any = Cluster()
        self.replicas = Replicas(self.answer)
        self.table = Overtaken(settings.storage.path)
        self.manager = FindingsManager(
            settings.model_copy(update={"findings": slow}), client, HASHER, prober=self.replicas, table=self.table
        )
        self.hangs, self.comes_back = False, threading.Event()
        self.exposed_by = 1
        assert self.manager._loaded()
        yield
        self.comes_back.set()
        self.manager.stop()

    def answer(self, claim: Claim) -> Answers:
        if claim.topic == "keys":
            old, none = newest(3), NOTHING
            return answers(replica(1, key=none), replica(2, key=old), replica(3, key=none))
        if claim.producer_id == 8 and self.hangs:
            self.comes_back.wait(PATIENCE_S)
        return replace(wrong(claim), leader=self.exposed_by)

    def until(self, condition: Callable[[], bool], step_s: float = 0.0) -> None:
        """Take rounds until something holds, each so much later than the one before."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end
            self.clock.now += step_s
            self.manager._turn()

    def keys(self, first: int, count: int) -> list[Suspect]:
        numbers = range(first, first + count)
        return [key_suspect(topic="keys", offset=20 + n, key_hash_hi=1, key_hash_lo=1 + n) for n in numbers]

    def known(self, producer: int) -> Finding:
        (found,) = [f for f in self.manager.standing() if f.producer_id == producer]
        return found

    def begin(self, watched: Suspect, *, is_known: bool) -> None:
        """An incident counts one more, and the probe about what is watched is under way."""
        kind = FindingKind.ABORTED_RECORD_COMMITTED
        self.manager.offer([suspect(kind), *([watched] if is_known else []), *self.keys(0, 40)])
        self.until(lambda: len(self.manager.standing()) == 2 + is_known, 0.01)
        self.hangs = True
        looks = self.replicas.asked.count(watched.suspect_id)
        self.clock.now += 0.5
        self.manager.offer([] if is_known else [watched])
        self.until(lambda: self.replicas.asked.count(watched.suspect_id) > looks)
        for more in (40, 41):  # The first is told of at once, the second an interval later.
            self.until(lambda more=more: self.table.told == more, 0.01)
            (one,) = self.keys(more, 1)
            self.manager.offer([one])
            self.until(lambda one=one: not self.manager.undecided([one.suspect_id]))

    def both_at_once(self) -> None:
        self.clock.now += 0.6
        waiting = self.manager._inbox.qsize()
        self.comes_back.set()
        while self.manager._inbox.qsize() == waiting:
            time.sleep(0.005)
        before = self.table.commits
        self.manager._turn()
        assert self.table.commits > before

    WATCHED = suspect(FindingKind.ABORTED_RECORD_COMMITTED, producer_id=8)

    def test_is_asked_once_more_where_the_second_commit_is_overtaken(self) -> None:
        self.begin(self.WATCHED, is_known=False)
        self.table.overtaken[self.table.commits + 2] = self.known(7).finding_id
        self.both_at_once()
        self.until(lambda: not self.manager.undecided([self.WATCHED.suspect_id]), 0.01)
        assert self.known(8).is_open

    def test_opens_nothing_again_that_was_acknowledged_before_the_first_commit(self, settings: Settings) -> None:
        self.exposed_by = 2
        self.begin(self.WATCHED, is_known=True)
        assert self.known(8).exposed
        self.exposed_by = 1
        self.table.overtaken[self.table.commits + 1] = self.known(8).finding_id
        self.both_at_once()
        self.until(lambda: not self.table.overtaken, 0.01)
        said = [str(e.status) for e in events(settings) if e.producer_id == 8]
        assert said == ["confirmed", "acknowledged"]


def test_what_was_decided_at_the_start_is_decided_again_if_somebody_was_faster(
    start: Start, settings: Settings
) -> None:
    """Findings that have become many while nothing put them together, of which one is acknowledged just then."""

    class Acknowledged(Overtaken):
        def load(self) -> list[Finding]:
            loaded = super().load()
            acknowledge(self.storage, loaded[0].finding_id, "known", by="ann")
            return loaded

    def old_value(_: Claim) -> Answers:
        old, none = newest(3), NOTHING
        return answers(replica(1, key=none), replica(2, key=old), replica(3, key=none))

    manager, watch = start(Replicas(old_value))
    deleted = suspect(FindingKind.DELETED_RECORD_RESURRECTED, key_hash_lo=5, marker_offset=11)
    manager.offer([replace(deleted, accusation=replace(deleted.accusation, rule=Rule.LATEST_VALUE))])
    watch.until(lambda s: len(s.open) == 1)
    manager.stop()
    table = FindingsTable(settings.storage.path)
    (one,) = table.load()
    table.append([replace(one, finding_id=f"{n:032x}", suspect_id=f"s{n}", key_hash_lo=n) for n in range(6, 6 + ALONE)])
    _, watch = start(Replicas(old_value), table=Acknowledged(settings.storage.path))
    probes = watch.until(lambda s: bool(s.acknowledged)).probes_total
    watch.until(lambda s: s.probes_total > probes)
    assert not any(e.is_incident for e in events(settings))


def test_an_acknowledged_finding_is_silent_over_restarts_until_it_says_more(start: Start, settings: Settings) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    acknowledged(settings)
    watch.until(lambda s: not s.open)
    manager.stop()
    _, watch = start(replicas)
    watch.until(lambda s: len(s.acknowledged) == 1)
    replicas.answer = lambda c: replace(missing(c), leader=3)
    probes = watch.status.probes_total
    watch.until(lambda s: s.probes_total > probes + 1)
    assert [e.status for e in events(settings)] == [FindingStatus.CONFIRMED, FindingStatus.ACKNOWLEDGED]
    replicas.answer = wrong
    status = watch.until(lambda s: len(s.open) == 1)
    assert [f.kind for f in status.open] == [FindingKind.ABORTED_RECORD_COMMITTED]
    assert status.acknowledged == ()


def test_an_acknowledged_finding_that_heals_is_resolved(start: Start, settings: Settings) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    acknowledged(settings)
    watch.until(lambda s: not s.open)
    replicas.answer = agree
    status = watch.until(lambda s: s.resolved_total == 1)
    assert status.acknowledged == ()


def test_an_append_that_seemed_to_fail_and_did_not_is_not_made_again(start: Start, settings: Settings) -> None:
    class Unsure(FindingsTable):
        """An object store whose answer is lost after the commit."""

        lost = 1

        def append(self, events: Sequence[Finding], members: Sequence[MemberRow] = ()) -> list[Finding]:
            if self.lost:
                self.lost -= 1
                before = self._sequence
                super().append(events, members)
                self._sequence = before
                raise FindingsTableError("storage.path: the connection was closed")
            return super().append(events, members)

    manager, watch = start(Replicas(missing), table=Unsure(settings.storage.path))
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1 and not s.pending)
    assert [(e.sequence, str(e.status)) for e in events(settings)] == [(1, "confirmed")]


def all_stuck(_: Claim) -> Answers:
    stuck = {b: replica(b, open_transactions=OPEN, last_stable_offset=10) for b in (1, 2, 3)}
    return Answers(stuck, leader=1)


def test_a_loss_that_all_replicas_have_come_to_share_stays_open_and_exposed_over_restarts(
    start: Start, settings: Settings
) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = all_stuck
    status = watch.until(lambda s: [f.status for f in s.open] == [FindingStatus.SPREAD])
    (finding,) = status.open
    assert (finding.kind, finding.severity) == (FindingKind.READ_COMMITTED_FROZEN, Severity.CRITICAL)
    assert finding.exposed
    assert finding.summary.startswith("The transaction at offset 10 has ended and is open on every replica")
    assert status.resolved_total == 0
    manager.stop()
    _, watch = start(replicas)
    probes = watch.until(lambda s: len(s.open) == 1).probes_total
    watch.until(lambda s: s.probes_total > probes + 2)
    assert [e.status for e in events(settings)] == [FindingStatus.CONFIRMED, FindingStatus.SPREAD]


def test_a_loss_that_has_spread_ends_by_what_is_written_since(start: Start, settings: Settings) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = all_stuck
    watch.until(lambda s: [f.status for f in s.open] == [FindingStatus.SPREAD])
    replicas.answer = lambda _: answers(*(replica(b, log_start_offset=40) for b in (1, 2, 3)))
    watch.until(lambda s: s.resolved_total == 1)
    assert json.loads(events(settings)[-1].evidence)["resolution"] == "superseded"


def test_a_loss_that_has_spread_is_acknowledged_and_raised_no_more(start: Start, settings: Settings) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    replicas.answer = all_stuck
    watch.until(lambda s: [f.status for f in s.open] == [FindingStatus.SPREAD])
    acknowledged(settings)
    watch.until(lambda s: len(s.acknowledged) == 1 and not s.open)
    manager.stop()
    _, watch = start(replicas)
    probes = watch.until(lambda s: len(s.acknowledged) == 1).probes_total
    watch.until(lambda s: s.probes_total > probes + 1)
    assert [str(e.status) for e in events(settings)] == ["confirmed", "spread", "acknowledged"]


def test_an_acknowledged_divergence_that_spreads_is_raised_again(start: Start, settings: Settings) -> None:
    replicas = Replicas(missing)
    manager, watch = start(replicas)
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    acknowledged(settings)
    watch.until(lambda s: len(s.acknowledged) == 1)
    replicas.answer = all_stuck
    status = watch.until(lambda s: len(s.open) == 1)
    assert status.open[0].status is FindingStatus.SPREAD


def test_what_another_replica_shows_is_remembered_for_the_day_when_it_is_gone(start: Start, settings: Settings) -> None:
    def shown(_: Claim) -> Answers:
        marker = (MarkerShown(20, 7, "abort"),)
        stuck = replica(2, **HELD_BY_ANOTHER)
        return Answers({1: replica(1, markers=marker), 2: stuck, 3: replica(3)}, leader=1)

    manager, watch = start(Replicas(shown))
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    assert json.loads(events(settings)[0].evidence)["recorded"]["markers"] == {"1": "abort"}


def test_a_suspect_is_new_until_it_is_offered_and_again_when_it_is_raised_after_its_dismissal(start: Start) -> None:
    replicas = Replicas(away)
    manager, watch = start(replicas)
    assert manager.new([unmarked_suspect()]) == [unmarked_suspect()]
    manager.offer([unmarked_suspect()])
    assert manager.new([unmarked_suspect()]) == []
    watch.until(lambda s: s.pending == {("orders", 0): 1})
    assert manager.new([unmarked_suspect()]) == []
    replicas.answer = agree
    watch.until(lambda s: s.dismissed_total == 1)
    again = replace(unmarked_suspect(), raised_at=int(time.time() * 1000) + 10_000)
    assert manager.new([unmarked_suspect(), again]) == [again]


def newer_version_writes(settings: Settings, **fields: str) -> None:
    """An event with words that this version does not know, after the last."""
    storage = settings.storage.path
    FindingsTable(storage)
    written = read_events(storage)
    event: Any = replace(written[-1], sequence=written[-1].sequence + 1, finding_id="f" * 32, **fields)  # type: ignore[arg-type]
    table = FindingsTable(storage)
    table.load()
    table.append([event])


@pytest.mark.parametrize("fields", [{"kind": "brand_new_kind"}, {"status": "muted"}])
def test_what_a_newer_version_wrote_is_left_out_and_counted_and_the_rest_goes_on(
    start: Start, settings: Settings, fields: dict[str, str]
) -> None:
    first, watch = start(Replicas(missing))
    first.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1)
    first.stop()
    newer_version_writes(settings, **fields)
    other = unmarked_suspect(offset=50, transaction_start_offset=50)
    rows = pa.Table.from_pylist([other.as_row() | {"batch_id": 0, "kind": "brand_new_kind", "suspect_id": "x"}])
    at = rows.column_names.index("raised_at")
    rows = rows.set_column(at, "raised_at", rows["raised_at"].cast(pa.timestamp("ms", "UTC")))
    write_deltalake(f"{settings.storage.path}/suspects", rows, mode="append")
    manager, watch = start(Replicas(missing))
    status = watch.until(lambda s: s.skipped == 2)
    assert len(status.open) == 1
    assert status.error is None
    manager.offer([other])
    watch.until(lambda s: len(s.open) == 2)
    for refused in (
        lambda: read_events(settings.storage.path),
        lambda: acknowledge(settings.storage.path, status.open[0].finding_id, "known"),
    ):
        with pytest.raises(FindingsTableError, match="newer version"):
            refused()


def test_a_fault_while_loading_is_shown_and_loading_is_tried_again(
    start: Start, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = threading.Event()
    broken.set()
    read = manager_module.read_suspects

    def breaks(*args: Any, **options: Any) -> Any:
        if broken.is_set():
            raise ValueError("a fault of ours")
        return read(*args, **options)

    monkeypatch.setattr(manager_module, "read_suspects", breaks)
    write_suspects(settings, unmarked_suspect())
    _, watch = start(Replicas(missing))
    watch.until(lambda s: s.error == "ValueError: a fault of ours")
    broken.clear()
    status = watch.until(lambda s: len(s.open) == 1)
    assert status.error is None


def test_probes_that_hang_about_one_broker_hold_up_no_claim_about_another(start: Start, settings: Settings) -> None:
    hang = threading.Event()

    def answer(claim: Claim) -> Answers:
        if claim.broker == 2:
            hang.wait(PATIENCE_S)
        return Answers({1: replica(1), 2: replica(2), 3: replica(3, **HELD_BY_ANOTHER)})

    manager, watch = start(Replicas(answer))
    try:
        about_2 = [replace(unmarked_suspect(), partition=p) for p in range(8)]
        about_3 = replace(unmarked_suspect(), accusation=replace(unmarked_suspect().accusation, broker=3))
        manager.offer(about_2)
        manager.offer([about_3])
        status = watch.until(lambda s: len(s.open) == 1)
        assert status.open[0].broker == 3
        assert sum(status.pending.values()) == 8
    finally:
        hang.set()


def test_bytes_that_were_probed_are_reported_though_no_probe_came_back(start: Start) -> None:
    replicas = Replicas(agree)
    _, watch = start(replicas)
    watch.until(lambda s: s.probe_bytes == {})
    replicas.read_bytes = {2: 4096}
    watch.until(lambda s: s.probe_bytes == {2: 4096})


def test_a_second_opinion_on_each_probe_is_counted(start: Start) -> None:
    manager, watch = start(Replicas(missing))
    manager.offer([unmarked_suspect()])
    watch.until(lambda s: len(s.open) == 1 and sum(s.second_opinions.values()) >= 1)
    assert "failed" not in watch.status.second_opinions


def counting(status: FindingsStatus) -> list[tuple[int, int]]:
    """The findings that are open: their brokers, and how many each counts."""
    return sorted((f.broker, tally_of(f).count if f.is_incident else 1) for f in status.open)


def suspected(manager: FindingsManager, watch: Watch, settings: Settings, count: int, at_once: int = 1) -> None:
    """Keys are suspected one after another, as the comparison raises them, until all are told of."""
    for first in range(0, count, at_once):
        some = [undeleted(key) for key in range(first, first + at_once)]
        write_suspects(settings, *some)
        manager.offer(some)
        watch.until(lambda s, told=first + at_once: sum(n for _, n in counting(s)) == told)


def test_findings_that_became_an_incident_are_read_by_everybody_and_by_the_next_job(
    start: Start, settings: Settings
) -> None:
    replicas = Replicas(showing(2))
    manager, watch = start(replicas)
    suspected(manager, watch, settings, ALONE + 1)
    watch.until(lambda s: counting(s) == [(2, ALONE + 1)])
    manager.stop()
    written = events(settings)
    incident = written[-1 - (ALONE + 1)]
    assert all(is_part_of_incident(event) for event in written[-(ALONE + 1) :])
    replicas.answer = showing(2, away=[2])
    manager, watch = start(replicas)
    status = watch.until(lambda s: s.probes_total > 3)
    assert (counting(status), status.skipped) == ([(2, ALONE + 1)], 0)
    assert events(settings) == written
    acknowledge(settings.storage.path, incident.finding_id, "known", by="ann")
    watch.until(lambda s: not s.open)
    replicas.answer = showing()
    watch.until(lambda s: not s.open and not s.acknowledged)
    manager.stop()
    written = events(settings)
    replicas.answer = showing(away=[2])
    for _ in range(2):
        manager, watch = start(replicas)
        watch.until(lambda s: s.probes_total > 3)
        manager.stop()
    assert events(settings) == written


@pytest.mark.parametrize("at_once", [10, 40])
def test_what_parts_of_an_incident_leave_on_another_replica_is_found_after_a_restart(
    start: Start, settings: Settings, at_once: int
) -> None:
    replicas = Replicas(showing(2, 3))
    manager, watch = start(replicas)
    suspected(manager, watch, settings, 40, at_once)
    watch.until(lambda s: counting(s) == [(2, 40)])
    replicas.answer = showing(away=[3])
    watch.until(lambda s: not s.open and sum(s.pending.values()) == 40)
    manager.stop()
    _, watch = start(replicas)
    watch.until(lambda s: sum(s.pending.values()) == 40)
    replicas.answer = showing(3)
    watch.until(lambda s: counting(s) == [(3, 40)])


def test_what_parts_have_left_on_another_replica_counts_as_before_after_a_restart(
    start: Start, settings: Settings
) -> None:
    replicas = Replicas(showing(2))
    manager, watch = start(replicas)
    suspected(manager, watch, settings, 2 * ALONE, ALONE)
    watch.until(lambda s: counting(s) == [(2, 2 * ALONE)])
    replicas.answer = showing(3)
    watch.until(lambda s: counting(s) == [(3, 2 * ALONE)])
    manager.stop()
    written = events(settings)
    manager, watch = start(replicas)
    probes = watch.until(lambda s: not s.pending and s.probes_total > 5).probes_total
    watch.until(lambda s: s.probes_total > probes + 5)
    manager.stop()
    assert counting(watch.status) == [(3, 2 * ALONE)]
    assert events(settings) == written
