"""What stands about each replica at a glance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parallax.alerting.overdue import BEHIND
from parallax.alerting.page.glance import Partition, State, partitions, refused_topics
from parallax.alerting.page.render import Renderer, Wanted
from parallax.alerting.status import Status, Watch
from parallax.alerting.unknown import words
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.findings.happenings import FindingsStatus
from parallax.guard.absences import Absences
from parallax.guard.holds import Event, EventKind, Hold, Phase
from parallax.guard.run import GuardStatus
from parallax.model import NOBODY, FindingKind, FindingStatus, MissingRight, UnknownReason
from tests.builders.absences import absence, late
from tests.builders.coverage import BROKERS, broker, coverage, progress
from tests.pages import Job, shown_again


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path)
    job.follow()
    return job


def only(job: Job) -> Partition:
    (found,) = partitions(job.state.snapshot())
    return found


def status(job: Job) -> Status:
    return Watch().look(job.state.snapshot())


def states(job: Job) -> list[State]:
    return [replica.state for replica in only(job).replicas.values()]


def test_what_was_compared_to_its_end_is_consistent(job: Job) -> None:
    assert states(job) == [State.CONSISTENT] * 3
    assert only(job).compared_up_to == (100, 100)


def test_what_is_read_for_the_first_time_is_loading(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.state.update_progress([progress(broker=b) for b in BROKERS])
    assert states(job) == [State.LOADING] * 3
    assert only(job).replicas[1].why == "it is being read for the first time"
    part = [broker(b, read_uncommitted=40, read_committed=40) for b in BROKERS]
    unknown = {UnknownReason.NOT_READ_YET: (60, 60)}
    job.state.update_coverage([coverage(compared_up_to=(40, 40), unknown=unknown, brokers=part)])
    assert states(job) == [State.LOADING] * 3


def test_what_has_no_verdict_in_one_view_alone_is_said_of_that_view(job: Job) -> None:
    unknown = {UnknownReason.NOT_READ_YET: (0, 103), UnknownReason.RETENTION_GAP: (102, 0)}
    job.state.update_coverage([coverage(unknown=unknown)])
    assert only(job).without_verdict == (
        "103 not read from every replica yet as read_committed, "
        "102 read later than delete.retention.ms allows as read_uncommitted"
    )


def test_a_replica_that_answers_shows_its_offsets_though_another_stands_still(job: Job) -> None:
    frozen = shown_again(kind=FindingKind.READ_COMMITTED_FROZEN, topic="orders", partition=0, broker=2)
    job.state.update_findings(FindingsStatus(open=(frozen,)))
    assert {b: one.unseen for b, one in only(job).replicas.items()} == {1: "", 2: "", 3: ""}
    job.state.update_progress([progress(broker=2, reachable=False)])
    assert only(job).replicas[2].unseen == "the broker does not answer"


def test_what_was_cleaned_before_it_was_read_is_not_fully_compared_and_not_loading(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.state.update_progress([progress(broker=b) for b in BROKERS])
    job.state.update_coverage([coverage(unknown={UnknownReason.RETENTION_GAP: (60, 60)})])
    assert states(job) == [State.NOT_FULLY_COMPARED] * 3


def test_while_some_of_it_is_still_read_for_the_first_time_it_is_loading(tmp_path: Path) -> None:
    job = Job(tmp_path)
    ends = {"high_watermark": 20_100, "last_stable_offset": 20_100, "log_end_offset": 20_100}
    job.state.update_progress([progress(broker=b, **ends) for b in BROKERS])
    unknown = {UnknownReason.RETENTION_GAP: (60, 60), UnknownReason.NOT_READ_YET: (20_000, 20_000)}
    at_first = [broker(1, **ends, read_uncommitted=20_100, read_committed=20_100), broker(2, **ends), broker(3, **ends)]
    job.state.update_coverage([coverage(unknown=unknown, brokers=at_first)])
    assert states(job) == [State.LOADING] * 3, "that one broker is read sooner than another is how a start goes"
    job.state.update_coverage([coverage(unknown=unknown | {UnknownReason.SKIPPED: (1, 1)}, brokers=at_first)])
    assert states(job) == [State.UNKNOWN, State.BEHIND, State.BEHIND]


def test_while_a_broker_is_away_nothing_is_only_loading(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.state.update_progress([progress(broker=b, reachable=b != 3) for b in BROKERS])
    job.state.update_coverage([coverage(unknown={UnknownReason.NOT_READ_YET: (60, 60)})])
    assert states(job) == [State.UNKNOWN, State.UNKNOWN, State.UNREACHABLE]


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (UnknownReason.BEFORE_FIRST_READING, State.NOT_FULLY_COMPARED),
        (UnknownReason.RETENTION_GAP, State.NOT_FULLY_COMPARED),
        (UnknownReason.RETENTION_DIFFERS, State.NOT_FULLY_COMPARED),
        (UnknownReason.DELETED_UNREAD, State.NOT_FULLY_COMPARED),
        (UnknownReason.UNJUDGED, State.NOT_FULLY_COMPARED),
        (UnknownReason.UNDECIDED, State.NOT_FULLY_COMPARED),
        (UnknownReason.LOG_START_DIFFERS, State.NOT_FULLY_COMPARED),
        (UnknownReason.DEFERRED, State.UNKNOWN),
        (UnknownReason.SKIPPED, State.UNKNOWN),
        (UnknownReason.LOST_UNREAD, State.UNKNOWN),
        (UnknownReason.UNAUTHORIZED, State.UNKNOWN),
        (UnknownReason.REPLICA_SET_UNKNOWN, State.UNKNOWN),
    ],
)
def test_offsets_without_a_verdict_keep_every_replica_from_being_consistent(
    job: Job, reason: UnknownReason, state: State
) -> None:
    job.state.update_coverage([coverage(unknown={reason: (1000, 500)})])
    assert states(job) == [state] * 3
    assert only(job).replicas[2].why == f"1,000 {words(reason)}"
    job.state.update_coverage([coverage(unknown={reason: (1000, 500), UnknownReason.SKIPPED: (1, 0)})])
    assert states(job) == [State.UNKNOWN] * 3


def test_logs_that_begin_apart_without_retention_are_unknown_or_known_in_part(
    job: Job,
) -> None:
    unknown = {UnknownReason.LOG_START_DIFFERS: (40, 40)}
    apart = [broker(1), broker(2), broker(3, log_start_offset=40)]
    job.state.update_coverage([coverage(unknown=unknown, brokers=apart)])
    assert states(job) == [State.UNKNOWN] * 3
    alike = [broker(b, log_start_offset=40) for b in BROKERS]
    job.state.update_coverage([coverage(unknown=unknown, brokers=alike)])
    assert states(job) == [State.NOT_FULLY_COMPARED] * 3


def test_what_is_on_its_way_is_no_reason_to_doubt_the_rest(job: Job) -> None:
    job.state.update_coverage([coverage(unknown={UnknownReason.NOT_READ_YET: (20, 20)})])
    assert states(job) == [State.CONSISTENT] * 3


def test_what_a_broker_that_does_not_answer_holds_is_unknown_to_all(job: Job) -> None:
    job.state.update_progress([progress(broker=3, reachable=False)])
    job.state.update_coverage([coverage(unknown={UnknownReason.NOT_READ_YET: (20, 20)})])
    assert states(job) == [State.UNKNOWN, State.UNKNOWN, State.UNREACHABLE]


def test_a_replica_that_is_far_behind_is_said_to_be(job: Job) -> None:
    late = broker(3, read_committed=100 - BEHIND - 1)
    reasons = {UnknownReason.NOT_READ_YET: (0, 10_001)}
    job.state.update_coverage([coverage(unknown=reasons, brokers=[broker(1), broker(2), late])])
    assert states(job) == [State.UNKNOWN, State.UNKNOWN, State.BEHIND]
    assert only(job).replicas[3].why == "10,001 offsets behind the furthest replica"


def test_a_replica_that_may_not_be_read_is_unauthorized(job: Job) -> None:
    job.state.update_refusals([("orders", 0, 2)], MissingRight.READ, "not authorized")
    assert states(job)[1] is State.UNAUTHORIZED
    assert only(job).replicas[2].why == "the right read is missing"


def test_an_absent_replica_and_one_that_was_late_are_told(job: Job) -> None:
    away = absence(3)
    job.state.update_absences(Absences((away,), (late(away, broker=1),)))
    replicas = only(job).replicas
    assert [replicas[b].absence for b in BROKERS] == [None, None, away]
    assert [replicas[b].late is not None for b in BROKERS] == [True, False, False]
    renderer, snapshot = Renderer(), job.state.snapshot()
    page = renderer.partition(snapshot, status(job), away.place, (), "") or ""
    assert "away; what it lacks was kept until 1970-01-01 00:01:05 UTC, and may be gone by now" in page
    assert "it copied its log late and may have missed tombstones or end markers" in page
    overview = renderer.overview(snapshot, status(job), Wanted()) or ""
    assert "<dt>Absent replicas</dt><dd>1 of broker 3; what 1 of them lack may be gone by now</dd>" in overview
    assert "<dt>Late copies</dt><dd>orders-0 on broker 1 copied its log late" in overview
    assert "Absent replicas" in renderer.overview(snapshot, status(job), Wanted())


def test_what_the_guard_holds_is_on_the_first_page(job: Job) -> None:
    job.state.update_guard(GuardStatus((Hold("h", "orders", "a", 1, 1, Phase.HELD, 2, (), frozenset()),)))
    assert "orders (held)" in Renderer().overview(job.state.snapshot(), status(job), Wanted())
    job.state.update_guard(GuardStatus(refused=(Event(EventKind.REFUSED, "", "customers", "a", 1, 1),)))
    assert "customers (refused)" in Renderer().overview(job.state.snapshot(), status(job), Wanted())


def test_a_topic_that_may_not_be_seen_is_named(job: Job) -> None:
    job.state.update_refusals([("secret", NOBODY, NOBODY)], MissingRight.DESCRIBE, "not authorized")
    assert refused_topics(job.state.snapshot()) == {"secret": "describe"}
    assert [one.place.topic for one in partitions(job.state.snapshot())] == ["orders"]


@pytest.mark.parametrize("status", [FindingStatus.CONFIRMED, FindingStatus.ACKNOWLEDGED])
def test_the_accused_of_a_finding_that_stands_is_diverged_and_nobody_else(job: Job, status: FindingStatus) -> None:
    job.find(shown_again(status=status))
    assert states(job) == [State.CONSISTENT, State.CONSISTENT, State.DIVERGED]
    assert [f.finding_id for f in only(job).findings] == ["f0" * 16]


def test_all_that_stand_on_a_side_of_a_difference_without_direction_are_diverged(job: Job) -> None:
    evidence = json.dumps({"sides": {"no value": [1], "value at offset 17": [3]}})
    job.find(shown_again(kind=FindingKind.VISIBILITY_MISMATCH, broker=NOBODY, evidence=evidence))
    assert states(job) == [State.DIVERGED, State.CONSISTENT, State.DIVERGED]


def test_diverged_is_said_before_all_else(job: Job) -> None:
    job.find(shown_again())
    job.state.update_progress([progress(broker=3, reachable=False)])
    assert states(job)[2] is State.DIVERGED


def test_the_gravest_partitions_come_first(job: Job) -> None:
    job.follow("audited", 3)
    job.follow("zebra", 2)
    job.find(shown_again(topic="zebra", partition=1))
    found = partitions(job.state.snapshot())
    assert [tuple(one.place) for one in found][:2] == [("zebra", 1), ("audited", 0)]


def test_one_topic_can_be_asked_for(job: Job) -> None:
    job.follow("audited", 3)
    assert {one.place.topic for one in partitions(job.state.snapshot(), "audited")} == {"audited"}


def test_nothing_stands_where_nothing_is_followed(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.state.update_findings(FindingsStatus())
    assert partitions(job.state.snapshot()) == []


def test_an_audit_that_found_a_divergence_says_what_has_come_of_it(job: Job) -> None:
    one, other = shown_again(), shown_again("a1" * 16)
    place = one.place

    def said() -> str:
        snapshot = job.state.snapshot()
        page = Renderer().partition(snapshot, status(job), place, (), "") or ""
        return page.partition("<dt>Last audit</dt><dd>")[2].partition("</dd>")[0]

    assert said() == "none since the job started"
    diverged = PartitionResult(*place, Result.DIVERGED, findings=(one, other))
    job.state.update_audit(AuditReport("brokers", 0.0, 60.0, (diverged,)))
    at = "diverged, ended at 1970-01-01 00:01:00 UTC"
    job.state.update_findings(FindingsStatus(open=(one,), acknowledged=(other,)))
    assert said() == f"{at}; of what it found 2 findings are still open"
    job.state.update_findings(FindingsStatus(acknowledged=(other,)))
    assert said() == f"{at}; of what it found 1 finding is still open"
    job.state.update_findings(FindingsStatus(open=(shown_again("b2" * 16),)))
    assert said() == f"{at}; what it found is over, or part of a finding that is open or being checked"
    job.state.update_findings(FindingsStatus())
    assert said() == f"{at}; what it found is over since"
    job.state.update_audit(AuditReport("brokers", 0.0, 60.0, (PartitionResult(*place, Result.CONSISTENT),)))
    assert said() == "consistent, ended at 1970-01-01 00:01:00 UTC"


def test_a_replica_that_was_taken_off_its_partition_is_none_of_it(job: Job) -> None:
    """Its broker may be dead for good, and say nothing more of it."""
    job.state.update_progress([progress(broker=3, reachable=False)])
    left = [1, 2, 4]
    job.state.update_progress([progress(broker=b, replicas=left) for b in left])
    job.state.update_coverage([coverage(brokers=tuple(map(broker, left)))])
    assert list(only(job).replicas) == left
