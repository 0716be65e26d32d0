"""Audits inside the job: when they run, and that a failing one stops nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from parallax.audit import schedule as schedule_module
from parallax.audit.confirm import Confirmed
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.audit.returned import PAUSE_S, SETTLE_S
from parallax.audit.schedule import AuditSchedule, log_diverged, log_unknown
from parallax.audit.spot import Checked
from parallax.audit.waiting import AGAIN_S, MAX_TOGETHER, SOON_S, CaughtUp
from parallax.compare.state import UNREAD_REASONS
from parallax.compare.suspect import Coverage, DeferredRange, UnreadRange
from parallax.findings.report import short_id
from parallax.model import TopicPartition, UnknownReason
from tests.builders.coverage import broker, coverage
from tests.builders.findings import finding
from tests.builders.settings import settings_of
from tests.patience import PATIENCE_S


def waiting(*deferred: DeferredRange, partition: int = 0) -> Coverage:
    return coverage(partition=partition, deferred=deferred, brokers=())


class Runs:
    def __init__(self, fails: bool = False, result: Result = Result.CONSISTENT) -> None:
        self.result = result
        self.replicas: tuple[int, ...] = (1,)
        self.ran: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.reports: list[AuditReport] = []
        self.failures = 0
        self.fails = fails
        self.now = 0.0
        self.changed = threading.Event()

    def __call__(self, source: str, places: Sequence[TopicPartition]) -> AuditReport:
        self.ran.append((source, tuple(places)))
        self.changed.set()
        if self.fails:
            raise RuntimeError("the session is gone\nlong trace")
        results = (PartitionResult(*place, self.result, replicas=self.replicas) for place in places)
        return AuditReport(source, 0, 1, tuple(results))

    def failed(self) -> None:
        self.failures += 1

    def schedule(self, interval_s: float = 0.0, unread_delay_s: float = 0.0) -> AuditSchedule:
        return AuditSchedule(
            interval_s, self, self.reports.append, self.failed, unread_delay_s=unread_delay_s, clock=lambda: self.now
        )


def test_a_partition_is_due_once_its_deferred_range_has_been_passed() -> None:
    caught_up = CaughtUp()
    assert caught_up.observe([waiting(DeferredRange(1, 5, -1)), waiting(partition=1)]) == []
    assert caught_up.observe([waiting(DeferredRange(1, 5, 9))]) == []
    assert caught_up.observe([waiting()]) == [("orders", 0)]
    assert caught_up.observe([waiting()]) == []


def test_no_audit_begins_while_reading_is_paused() -> None:
    runs, held = Runs(), [True]
    schedule = AuditSchedule(
        10.0, runs, runs.reports.append, runs.failed, clock=lambda: runs.now, is_held=lambda: held[0]
    )
    runs.now = 11.0
    assert not schedule.run_due()
    assert runs.ran == []
    held[0] = False
    assert schedule.run_due()
    assert runs.ran == [("brokers", ())]


def test_a_deferred_range_that_was_passed_is_audited_by_the_tables() -> None:
    runs = Runs()
    schedule = runs.schedule()
    schedule.observe([waiting(DeferredRange(1, 5, 9))])
    assert not schedule.run_due()
    schedule.observe([waiting()])
    assert schedule.run_due()
    assert runs.ran == [("tables", (("orders", 0),))]
    assert len(runs.reports) == 1
    assert not schedule.run_due()


def test_the_brokers_are_audited_at_the_interval_and_never_when_it_is_off() -> None:
    runs = Runs()
    off, on = runs.schedule(), runs.schedule(interval_s=60)
    runs.now = 59
    assert not on.run_due()
    runs.now = 61
    assert on.run_due()
    assert not off.run_due()
    assert runs.ran == [("brokers", ())]
    assert not on.run_due()
    runs.now = 122
    assert on.run_due()


def test_an_audit_that_fails_is_counted_and_the_next_one_runs() -> None:
    runs = Runs(fails=True)
    schedule = runs.schedule(interval_s=60)
    runs.now = 61
    schedule.run_due()
    assert (runs.failures, runs.reports) == (1, [])
    runs.fails = False
    runs.now = 122
    schedule.run_due()
    assert len(runs.reports) == 1


def test_the_log_names_each_partition_that_an_audit_could_not_tell_of_and_why() -> None:
    known = PartitionResult("bills", 0, Result.CONSISTENT)
    unknown = [PartitionResult("orders", n, Result.UNKNOWN, ("broker 3 is away", "no policy")) for n in range(22)]
    with capture_logs() as logs:
        log_unknown(AuditReport("brokers", 0, 1, (known, *unknown)))
    assert [(line.get("topic"), line.get("partition")) for line in logs[:20]] == [("orders", n) for n in range(20)]
    assert logs[0]["why"] == "broker 3 is away; no policy"
    assert logs[20]["partitions"] == 2
    with capture_logs() as logs:
        Runs(result=Result.UNKNOWN).schedule()._guarded("brokers", [TopicPartition("orders", 7)])
    (told,) = [line for line in logs if "could not tell" in line["event"]]
    assert (told["partition"], told["what"]) == (7, "the job audits it again by itself where that may tell more")


def test_the_log_names_each_partition_in_which_an_audit_found_a_divergence_and_its_findings() -> None:
    found = tuple(finding(f"{n}" * 32, summary=f"Broker {n} differs.") for n in range(5))
    diverged = [PartitionResult("orders", n, Result.DIVERGED, findings=found) for n in range(21)]
    with capture_logs() as logs:
        log_diverged(AuditReport("brokers", 0, 1, (PartitionResult("bills", 0, Result.CONSISTENT), *diverged)))
    assert [(line.get("topic"), line.get("partition")) for line in logs[:20]] == [("orders", n) for n in range(20)]
    first = "; ".join(f"{short_id(one)}: {one.summary}" for one in found[:3])
    assert logs[0]["what"] == f"{first}; and 2 more findings"
    assert logs[20]["partitions"] == 1


def test_what_an_audit_sees_of_findings_that_stood_before_it_is_no_news() -> None:
    known, new = finding("a" * 32), finding("b" * 32)
    began = known.first_suspected_at.timestamp() + 1
    new = replace(new, first_suspected_at=known.first_suspected_at + timedelta(seconds=9))
    both = [
        PartitionResult("orders", 0, Result.DIVERGED, findings=(known, new)),
        PartitionResult("orders", 1, Result.DIVERGED, findings=(known,)),
    ]
    runs = Runs()
    report = AuditReport("brokers", began, began + 60, tuple(both))
    schedule = AuditSchedule(0.0, lambda *_: report, runs.reports.append, runs.failed)
    with capture_logs() as logs:
        schedule._guarded("brokers", [TopicPartition("orders", n) for n in range(2)])
    warned, ended = logs
    assert (warned["partition"], warned["what"]) == (0, f"{short_id(new)}: {new.summary}")
    assert ended["what"] == "what findings had said before it was still true in 1 partition when it asked"
    assert (ended["partitions"], ended["where"]) == (2, "orders-0, orders-1")


def test_its_thread_wakes_for_what_is_queued_and_ends() -> None:
    runs = Runs()
    schedule = runs.schedule()
    schedule.start()
    schedule.observe([waiting(DeferredRange(0, 5, 9))])
    schedule.observe([waiting()])
    assert runs.changed.wait(PATIENCE_S)
    schedule.stop()
    assert not schedule._thread.is_alive()


UNREAD = UnreadRange(1, 0, 10, UnknownReason.BEFORE_FIRST_READING, 5)


def unread(*spans: UnreadRange, partition: int = 0, reachable: bool = True) -> Coverage:
    return coverage(partition=partition, unread=spans, brokers=[broker(1, reachable=reachable)])


class TestUnread:
    def test_what_was_not_read_in_time_is_audited_after_the_delay_and_then_left_alone(self) -> None:
        runs = Runs()
        schedule = runs.schedule(unread_delay_s=60)
        schedule.observe([unread(UNREAD), unread(partition=1)])
        assert not schedule.run_due()
        runs.now = 60
        assert schedule.run_due()
        assert runs.ran == [("brokers", (("orders", 0),))]
        schedule.observe([unread(UNREAD)])
        runs.now = 60 + AGAIN_S - 1
        assert not schedule.run_due()
        runs.now = 60 + AGAIN_S + 1
        assert schedule.run_due()

    def test_what_no_replica_holds_any_more_is_not_audited(self) -> None:
        runs = Runs(result=Result.CONSISTENT)
        schedule = runs.schedule(unread_delay_s=60)
        schedule.observe([unread(replace(UNREAD, reason=UnknownReason.LOST_UNREAD))])
        runs.now = 3_600
        assert not schedule.run_due()

    @pytest.mark.parametrize("result", [Result.CONSISTENT, Result.UNKNOWN])
    @pytest.mark.parametrize("reason", [one for one in UNREAD_REASONS if one is not UnknownReason.LOST_UNREAD])
    def test_what_an_event_has_made_unknown_is_audited_within_minutes_of_any_other_audit(
        self, reason: UnknownReason, result: Result
    ) -> None:
        runs = Runs(result=result)
        schedule = runs.schedule(unread_delay_s=60)
        schedule.observe([unread(UNREAD)])
        runs.now = 60
        assert schedule.run_due()
        schedule.observe([unread()])
        runs.now = 90
        schedule.observe([unread(replace(UNREAD, reason=reason, since=90_000))])
        runs.now = 60 + SOON_S
        assert schedule.run_due()
        schedule.observe([unread(replace(UNREAD, reason=reason, since=90_000))])
        runs.now += SOON_S
        assert schedule.run_due() == (result is Result.UNKNOWN), "what was settled is no event any more"

    @pytest.mark.parametrize("reason", [UnknownReason.RETENTION_GAP, UnknownReason.DEFERRED])
    def test_what_comes_again_and_again_is_audited_ever_more_rarely_up_to_once_an_hour(
        self, reason: UnknownReason
    ) -> None:
        runs = Runs()
        schedule = runs.schedule(unread_delay_s=60)
        at = []
        for minute in range(360):
            runs.now = 60.0 * minute
            schedule.observe([unread(replace(UNREAD, reason=reason, since=60_000 * minute))])
            if schedule.run_due():
                at.append(minute)
        assert at == [1, 6, 16, 36, 76, 136, 196, 256, 316]

    def test_an_event_that_was_read_while_an_audit_ran_has_one_of_its_own_within_minutes(self) -> None:
        runs = Runs()

        def audit(source: str, places: Sequence[TopicPartition]) -> AuditReport:
            schedule.observe([unread(replace(UNREAD, since=60_000 + len(runs.ran)))])
            return runs(source, places)

        schedule = AuditSchedule(
            *(0.0, audit, runs.reports.append, runs.failed), unread_delay_s=60, clock=lambda: runs.now
        )
        schedule.observe([unread(UNREAD)])
        runs.now = 60
        assert schedule.run_due()
        runs.now = 60 + SOON_S
        assert schedule.run_due()
        assert len(runs.ran) == 2

    @pytest.mark.parametrize("result", [Result.CONSISTENT, Result.UNKNOWN])
    def test_one_that_cannot_be_compared_again_and_again_is_audited_ever_more_rarely(self, result: Result) -> None:
        """Each micro-batch that fails leaves out offsets, be there an audit of those before or not."""
        runs = Runs(result=result)
        schedule = runs.schedule(unread_delay_s=1)
        at = []
        for second in range(0, 6 * 3600, 10):
            runs.now = float(second)
            schedule.observe([unread(replace(UNREAD, reason=UnknownReason.SKIPPED, since=1000 * second))])
            if schedule.run_due():
                at.append(second)
        pauses = [later - sooner for sooner, later in pairwise(at)]
        assert len(at) <= 13
        assert max(pauses[-2:]) >= AGAIN_S
        assert pauses[0] <= SOON_S
        runs.now += 3 * AGAIN_S
        schedule.observe([unread(replace(UNREAD, since=99_000_000))])
        runs.now += 1
        assert schedule.run_due(), "after hours without one, an event is audited soon"

    def test_one_whose_topic_is_deleted_is_forgotten(self) -> None:
        runs = Runs(result=Result.UNKNOWN)
        runs.replicas = ()
        schedule = runs.schedule(unread_delay_s=1)
        schedule.observe([unread(UNREAD)])
        schedule._doubted.add([TopicPartition("orders", 1)])
        for second in range(0, 2 * 3600, 10):
            runs.now = float(second)
            schedule.run_due()
        assert [places for _, places in runs.ran] == [(("orders", 1),), (("orders", 0),)]
        assert schedule._next_at() is None

    def test_one_that_was_settled_meanwhile_is_not_audited(self) -> None:
        runs = Runs()
        schedule = runs.schedule(unread_delay_s=60)
        schedule.observe([unread(UNREAD)])
        schedule.observe([unread()])
        runs.now = 61
        assert not schedule.run_due()

    def test_one_whose_broker_is_away_waits_for_it(self) -> None:
        runs = Runs()
        schedule = runs.schedule(unread_delay_s=60)
        schedule.observe([unread(UNREAD)])
        runs.now = 59
        schedule.observe([unread(UNREAD, reachable=False)])
        runs.now = 90
        assert not schedule.run_due()
        schedule.observe([unread(UNREAD)])
        runs.now = 150
        assert schedule.run_due()

    def test_one_without_a_verdict_is_tried_again_ever_more_rarely(self) -> None:
        runs = Runs(fails=True)
        schedule = runs.schedule(unread_delay_s=1)
        at = []
        for second in range(1000):
            runs.now = float(second)
            schedule.observe([unread(UNREAD)])
            if schedule.run_due():
                at.append(second)
        assert at == [1, 61, 181, 421, 901]
        assert runs.failures == len(at)

    def test_a_partition_of_unknown_result_has_no_verdict(self) -> None:
        runs = Runs(result=Result.UNKNOWN)
        schedule = runs.schedule(unread_delay_s=1)
        schedule.observe([unread(UNREAD)])
        runs.now = 1.0
        assert schedule.run_due()
        schedule.observe([unread(UNREAD)])
        runs.now = 62.0
        assert schedule.run_due()

    def test_no_more_than_so_many_are_audited_together(self) -> None:
        runs = Runs()
        schedule = runs.schedule(unread_delay_s=1)
        schedule.observe([unread(UNREAD, partition=n) for n in range(MAX_TOGETHER + 3)])
        runs.now = 2
        assert schedule.run_due()
        assert schedule.run_due()
        assert not schedule.run_due()
        assert [len(places) for _, places in runs.ran] == [MAX_TOGETHER, 3]

    def test_it_can_be_switched_off(self) -> None:
        runs = Runs()
        schedule = runs.schedule(unread_delay_s=0)
        schedule.observe([unread(UNREAD)])
        runs.now = 1e6
        assert not schedule.run_due()

    def test_its_thread_wakes_when_one_is_due(self) -> None:
        runs = Runs()
        schedule = AuditSchedule(0.0, runs, runs.reports.append, runs.failed, unread_delay_s=0.05)
        schedule.start()
        schedule.observe([unread(UNREAD)])
        assert runs.changed.wait(PATIENCE_S)
        schedule.stop()


def test_suspects_of_an_audit_are_in_their_table_before_they_are_offered_and_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, list[str]]] = []

    class Manager:
        def new(self, suspects: Sequence[str]) -> list[str]:
            return [s for s in suspects if s != "pending"]

    def offered(_manager: Any, suspects: Sequence[str], _timeout: float) -> Confirmed:
        done.append(("offered", list(suspects)))
        return Confirmed()

    monkeypatch.setattr(schedule_module, "create_suspects", lambda _path: None)
    monkeypatch.setattr(schedule_module, "append_suspects", lambda _path, s, *_: done.append(("appended", list(s))))
    monkeypatch.setattr(schedule_module, "confirm", offered)
    manager: Any = Manager()
    confirmed: Any = schedule_module._confirming(settings_of(), manager)
    confirmed(["pending", "fresh"])
    confirmed(["pending"])
    assert done == [("appended", ["fresh"]), ("offered", ["pending", "fresh"]), ("offered", ["pending"])]


class Spots:
    """Spot checks that find something in some partitions, or fail."""

    def __init__(self, *doubted: TopicPartition) -> None:
        self.doubted, self.fails = doubted, False
        self.unanswered: dict[int, list[TopicPartition]] = {}
        self.ran: list[dict[int, list[TopicPartition]]] = []

    def __call__(self, back: Mapping[int, Sequence[TopicPartition]], _: Callable[[], bool]) -> Checked:
        self.ran.append({broker: list(places) for broker, places in back.items()})
        if self.fails:
            raise OSError("the table cannot be read")
        return Checked(doubted=dict.fromkeys(self.doubted), unanswered=self.unanswered)


def checking(runs: Runs, spots: Spots, is_held: Callable[[], bool] = lambda: False) -> AuditSchedule:
    return AuditSchedule(
        *(0.0, runs, runs.reports.append, runs.failed),
        clock=lambda: runs.now,
        is_held=is_held,
        spot_checks=spots,
    )


def answering(*brokers: int, partition: int = 0) -> Coverage:
    return coverage(partition=partition, brokers=map(broker, brokers))


def test_a_broker_that_is_back_is_checked_in_spots_and_what_is_in_doubt_is_audited() -> None:
    runs, spots = Runs(), Spots(TopicPartition("orders", 1))
    schedule = checking(runs, spots)
    schedule.observe([answering(2), answering(2, partition=1)])
    assert not schedule.run_due()
    runs.now += SETTLE_S
    assert schedule.run_due()
    assert spots.ran == [{2: [("orders", 0), ("orders", 1)]}]
    assert runs.ran == [("brokers", (("orders", 1),))]
    assert not schedule.run_due()


def test_what_stays_in_doubt_is_audited_once_an_hour_however_often_its_broker_is_back() -> None:
    runs, spots = Runs(result=Result.DIVERGED), Spots(TopicPartition("orders", 0))
    schedule = checking(runs, spots)
    for _ in range(int(2 * AGAIN_S / PAUSE_S)):
        schedule.observe([answering(1)])
        schedule.observe([answering(1, 2)])
        runs.now += PAUSE_S
        schedule.run_due()
    assert len(spots.ran) > 50
    assert len(runs.ran) == 2


def test_an_audit_of_what_is_in_doubt_that_has_no_verdict_is_run_again() -> None:
    runs, spots = Runs(result=Result.UNKNOWN), Spots(TopicPartition("orders", 0))
    schedule = checking(runs, spots)
    schedule.observe([answering(2)])
    runs.now += SETTLE_S
    schedule.run_due()
    runs.result = Result.DIVERGED
    runs.now += 60
    assert schedule.run_due()
    runs.now += AGAIN_S
    assert not schedule.run_due()
    assert runs.ran == [("brokers", (("orders", 0),))] * 2


def test_spot_checks_that_fail_are_counted_and_run_again_and_so_is_what_was_not_answered() -> None:
    runs, spots = Runs(), Spots()
    spots.fails = True
    schedule = checking(runs, spots)
    schedule.observe([answering(2), answering(2, partition=1)])
    runs.now += SETTLE_S
    schedule.run_due()
    assert (len(spots.ran), runs.failures) == (1, 1)
    spots.fails, spots.unanswered = False, {2: [TopicPartition("orders", 1)]}
    runs.now += PAUSE_S
    assert schedule.run_due()
    assert (len(spots.ran), runs.failures, runs.ran) == (2, 1, [])
    runs.now += 2 * PAUSE_S
    assert schedule.run_due()
    assert spots.ran[2] == {2: [("orders", 1)]}


def test_of_many_partitions_in_doubt_so_many_are_audited_together() -> None:
    runs = Runs()
    schedule = checking(runs, Spots(*(TopicPartition("orders", p) for p in range(MAX_TOGETHER + 3))))
    schedule.observe([answering(2)])
    runs.now += SETTLE_S
    while schedule.run_due():
        pass
    assert [len(places) for _, places in runs.ran] == [MAX_TOGETHER, 3]


def test_what_is_in_doubt_waits_while_reading_is_paused_and_is_audited_after_it() -> None:
    runs, held = Runs(), [False]

    class Paused(Spots):
        def __call__(self, back: Mapping[int, Sequence[TopicPartition]], is_over: Callable[[], bool]) -> Checked:
            held[0] = True
            return super().__call__(back, is_over)

    schedule = checking(runs, Paused(TopicPartition("orders", 0)), lambda: held[0])
    schedule.observe([answering(2)])
    runs.now += SETTLE_S
    schedule.run_due()
    assert runs.ran == []
    held[0] = False
    assert schedule.run_due()
    assert runs.ran == [("brokers", (("orders", 0),))]


def test_a_late_copy_whose_audit_had_no_verdict_is_audited_again_without_new_signs_of_it() -> None:
    runs = Runs(result=Result.UNKNOWN)
    schedule = runs.schedule(unread_delay_s=60)
    place = TopicPartition("orders", 0)
    schedule.observe_copies({place: 1})
    assert schedule.due_in() == {place: 60.0}
    for second in range(300):
        runs.now = float(second)
        schedule.run_due()
    assert runs.ran == [("brokers", (place,))] * 3
    runs.replicas = ()
    for second in range(300, 7200):
        runs.now = float(second)
        schedule.run_due()
    assert len(runs.ran) == 4, "it is there no more"


def test_one_audit_is_for_all_that_a_partition_waits_for() -> None:
    runs = Runs()
    schedule = runs.schedule(unread_delay_s=60)
    place = TopicPartition("orders", 0)
    schedule.observe([unread(UNREAD)])
    schedule.observe_copies({place: 1})
    assert schedule.due_in() == {place: 60.0}
    runs.now = 60
    assert schedule.run_due()
    assert runs.ran == [("brokers", (place,))]


def test_what_begins_while_a_partition_is_audited_for_something_else_has_an_audit_of_its_own() -> None:
    runs, place = Runs(), TopicPartition("orders", 0)

    def audit(source: str, places: Sequence[TopicPartition]) -> AuditReport:
        schedule.observe_copies({place: 60_000 + len(runs.ran)})
        return runs(source, places)

    schedule = AuditSchedule(*(0.0, audit, runs.reports.append, runs.failed), unread_delay_s=60, clock=lambda: runs.now)
    schedule.observe([unread(UNREAD)])
    runs.now = 60
    assert schedule.run_due()
    schedule.observe([unread()])
    runs.now = 120
    assert schedule.run_due()
    assert len(runs.ran) == 2
